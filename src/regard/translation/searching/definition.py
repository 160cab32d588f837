"""`search`: the most probable targets of each source, token by token, greedy (beam = 1) or with a beam.

This is the definition of the search. engine.py (on a CPU) and gpu.py (on a GPU) compute the same faster, with the same
parts: `Hypothesis`, `grow`, `trace_back` and `RepetitionGuard`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.errors import InputError, RegardError
from regard.nn import Transformer
from regard.support import Bool, Float, Int

Array = NDArray[Any]

_BLOCK = 64  # log-probabilities in a block, of which the largest is compared first
LAGS = 8  # tokens of the longest sequence that the repetition guard detects: a power of 2, for kernels
REPEATS = 3  # how often a sequence may occur in a row


@dataclass(frozen=True)
class Hypothesis:
    """A target: its tokens without the end, and its mean log-probability (length penalty 1)."""

    tokens: list[int]
    score: float
    ended: bool = True  # False: truncated at the maximum length


def score(total: Any, length: Any, length_penalty: float) -> Any:
    """The score of a target: the sum of its log-probabilities over a power of its length, which counts the end.

    >>> score(-6.0, 3, 1.0), score(-6.0, 4, 0.5)
    (-2.0, -3.0)
    """
    return total / length**length_penalty


def longest_target(source: int, positions: int) -> int:
    """The maximum length of a target, with the end, for a source with this number of tokens."""
    return min(2 * source + 16, positions)


def ranked(hypotheses: Sequence[Hypothesis], beam: int) -> list[Hypothesis]:
    """The best hypotheses for one source, best first; an error if there are none."""
    if not hypotheses:
        raise RegardError(
            "the search found no target: the model's probabilities are NaN or 0 throughout. Are its weights damaged?"
        )
    return sorted(hypotheses, key=lambda h: -h.score)[:beam]


# A step of a beam


class Grown(NamedTuple):
    """The targets of each sentence after a step: those that continue, and those that end."""

    scores: Float[Tensor, "batch beam"]  # sums of log-probabilities
    parents: Int[Tensor, "batch beam"]  # the target that each token continues
    tokens: Int[Tensor, "batch beam"]
    ended: Float[Tensor, "batch beam"]  # sums of targets that end, if they rank within the beam; -inf elsewhere
    ended_parents: Int[Tensor, "batch beam"]


def grow(
    logs: Float[Tensor, "rows vocabulary"],
    scores: Float[Tensor, "batch beam"],
    end: int,
    maxima: Float[Tensor, "rows blocks"] | None = None,
) -> Grown:
    """One step of a beam search; never waits for a GPU.

    Args:
        logs: the log-probabilities of each target's next token.
        scores: the sum of log-probabilities of each target.
        end: the token that ends a target.
        maxima: the largest of each block of a row (`block_width`), if they are known.

    >>> logs = torch.tensor([[0.5, 0.3, 0.2], [0.1, 0.8, 0.1]]).log()
    >>> grown = grow(logs, torch.tensor([[-1.0, -2.0]]), end=0)
    >>> grown.tokens, grown.parents, grown.ended.exp()
    (tensor([[1, 1]]), tensor([[0, 1]]), tensor([[0.1839, 0.0000]]))
    """
    beam = scores.shape[1]
    values, parents, tokens = _best(logs, scores, maxima)
    ended = tokens == end
    # The beam continues with its best candidates that did not end.
    order = ended.long().argsort(dim=-1, stable=True)[:, :beam]
    next_scores, next_parents, next_tokens = (t.gather(1, order) for t in (values, parents, tokens))
    # A sum that is NaN never ends a target.
    ends = torch.where(ended[:, :beam] & (values[:, :beam] > -torch.inf), values[:, :beam], -torch.inf)
    return Grown(next_scores, next_parents, next_tokens, ends, parents[:, :beam])


def block_width(vocabulary: int, beam: int) -> int:
    """The width of the blocks whose largest log-probabilities are compared first; 1: no blocks.

    >>> block_width(20_000, beam=4), block_width(500, beam=4)
    (64, 1)
    """
    return _BLOCK if vocabulary >= 4 * beam * _BLOCK else 1


def _best(
    logs: Float[Tensor, "rows vocabulary"],
    scores: Float[Tensor, "batch beam"],
    maxima: Float[Tensor, "rows blocks"] | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """(score, beam that it continues, token) of the best 2 × beam continuations of each sentence.

    The k largest numbers lie in the k blocks with the largest maxima: only these blocks are compared number by number.
    """
    (batch, beam), size = scores.shape, logs.shape[-1]
    count, width = min(2 * beam, beam * size), block_width(size, beam)
    blocks = size // width
    if maxima is None:
        maxima = logs[:, : blocks * width].view(-1, blocks, width).amax(-1)
    block = (maxima.view(batch, beam, blocks) + scores[..., None]).flatten(1).topk(count, -1).indices
    parent = block // blocks
    first = parent * size + block % blocks * width
    places = (first[..., None] + torch.arange(width, device=logs.device)).flatten(1)
    so_far = scores.gather(1, parent).repeat_interleave(width, 1)
    if blocks * width < size:  # the rest after the last whole block
        rows = size * torch.arange(beam, device=logs.device)[:, None]
        rest = (rows + torch.arange(blocks * width, size, device=logs.device)).flatten()
        places = torch.cat([places, rest.expand(batch, -1)], 1)
        so_far = torch.cat([so_far, scores.repeat_interleave(size - blocks * width, 1)], 1)
    values, chosen = (logs.view(batch, -1).gather(1, places) + so_far).topk(count, -1)
    places = places.gather(1, chosen)
    return values, places // size, places % size


# Tracing back


def trace_back(history: list[Array], length_penalty: float, needed: int) -> list[list[Hypothesis]]:
    """The best targets of sentences, from the results of `grow` in each step and the number of steps."""
    totals, parents, tokens, ended, ended_parents, last = history
    sentences, steps, width = totals.shape
    in_time = np.arange(steps)[None, :, None] < last[:, None, None]  # before the sentence was done
    sentence, at, rank = ((ended > -np.inf) & in_time).nonzero()
    truncated = np.bincount(sentence, minlength=sentences) < width  # at the maximum length
    final = np.take_along_axis(totals, last[:, None, None] - 1, 1)[:, 0]
    unfinished, beam = ((final > -np.inf) & truncated[:, None]).nonzero()
    # For ended and unfinished targets: the sum, the target that it continues, its length, the step of its last token
    total = np.concatenate([ended[sentence, at, rank], final[unfinished, beam]]).astype(float)
    parent = np.concatenate([ended_parents[sentence, at, rank], beam])
    length = np.concatenate([at + 1, last[unfinished]])
    end = np.concatenate([at - 1, last[unfinished] - 1])
    sentence = np.concatenate([sentence, unfinished])
    points = score(total, length.astype(float), length_penalty)
    order = np.lexsort((-points, sentence))  # by sentence, best first; equal targets in the order of the search
    first = np.searchsorted(sentence[order], np.arange(sentences))
    order = order[np.arange(len(order)) - first[sentence[order]] < needed]
    sentence, end, beam, points, length = (each[order] for each in (sentence, end, parent, points, length))
    # Walk from the last token of each target back to its first.
    walked = np.zeros((len(end), steps), int)
    for step in range(int(end.max(initial=-1)), -1, -1):
        walked[:, step] = tokens[sentence, step, beam]
        beam = np.where(step <= end, parents[sentence, step, beam], beam)
    hypotheses: list[list[Hypothesis]] = [[] for _ in range(sentences)]
    columns = (walked, sentence, end, points, end < length - 1)
    for target, n, last_step, point, is_ended in zip(*(each.tolist() for each in columns), strict=True):
        hypotheses[n].append(Hypothesis(target[: last_step + 1], point, is_ended))
    return [ranked(each, needed) for each in hypotheses]


# Repetitions


class RepetitionGuard(NamedTuple):
    """Forbids the token that would repeat the same 1 to 8 tokens more than `repeats` times in a row.

    For each lag n it counts how many of the last tokens equal the token n before them: a run of 3 n is the same n
    tokens four times. If the source repeats more often, as in 10,000,000, the target may too.

    >>> source = torch.tensor([[5, 6, 7]])
    >>> guard, logits = RepetitionGuard.over(source, source > 0, beam=1, repeats=3), torch.zeros(1, 10)
    >>> for token in (4, 4, 4):
    ...     guard = guard.after(torch.tensor([token]), torch.tensor([0]))
    >>> guard.forbid(logits)
    >>> logits[0, 4]
    tensor(-inf)
    """

    allowed: Int[Tensor, "rows lags"]
    run: Int[Tensor, "rows lags"]  # the number of last tokens that equal the token `lag` before
    recent: Int[Tensor, "rows lags"]  # the last tokens, the newest first; -1 before the first

    @classmethod
    def over(
        cls, source: Int[Tensor, "batch tokens"], visible: Bool[Tensor, "batch tokens"], beam: int, repeats: int
    ) -> RepetitionGuard:
        """The guard of `beam` targets of each source, before their first token."""
        lags = torch.arange(1, LAGS + 1, device=source.device)
        in_source = [_longest_run(source, visible, lag) for lag in range(1, LAGS + 1)]
        allowed = torch.maximum(torch.stack(in_source, 1), repeats * lags - 1).repeat_interleave(beam, 0)
        return cls(allowed, torch.zeros_like(allowed), torch.full_like(allowed, -1))

    def forbidden(self) -> Int[Tensor, "rows lags"]:
        """The tokens that may not follow; -1 where there is none."""
        return torch.where(self.run >= self.allowed, self.recent, -1)

    def forbid(self, logits: Float[Tensor, "rows vocabulary"]) -> None:
        """Set the logits of forbidden tokens to -inf."""
        forbidden = self.forbidden()
        # Reading which rows have one would wait for a GPU.
        most = torch.where(forbidden >= 0, -torch.inf, torch.inf).to(logits.dtype)
        logits.scatter_reduce_(1, forbidden.clamp(min=0), most, "amin")

    def after(self, tokens: Int[Tensor, " kept"], rows: Int[Tensor, " kept"]) -> RepetitionGuard:
        """The guard of the targets that continue the targets at `rows` by these tokens."""
        recent = self.recent[rows]
        run = torch.where(recent == tokens[:, None], self.run[rows] + 1, 0)
        return RepetitionGuard(self.allowed[rows], run, torch.cat([tokens[:, None], recent[:, :-1]], 1))


def _longest_run(source: Tensor, visible: Tensor, lag: int) -> Tensor:
    """The longest run of tokens that equal the token `lag` before them."""
    if source.shape[1] <= lag:
        return source.new_zeros(len(source))
    equal = (source[:, lag:] == source[:, :-lag]) & visible[:, lag:]
    count = equal.cumsum(1)
    at_last_difference = torch.where(equal, 0, count).cummax(1).values
    return (count - at_last_difference).amax(1)


def loops(source: Sequence[int], target: Sequence[int]) -> bool:
    """Whether the repetition guard would have forbidden a token of this target.

    >>> loops([4, 5, 6, 0], [7, 7, 7]), loops([4, 5, 6, 0], [7, 7, 7, 7])
    (False, True)
    """
    if len(target) - len(set(target)) < REPEATS:
        return False
    return any(_run(target, lag) > max(_run(source, lag), REPEATS * lag - 1) for lag in range(1, LAGS + 1))


def _run(tokens: Sequence[int], lag: int) -> int:
    """The longest run of tokens that equal the token `lag` before them."""
    longest = run = 0
    for before, token in zip(tokens, tokens[lag:], strict=False):
        run = run + 1 if token == before else 0
        longest = max(longest, run)
    return longest


# The search


@torch.inference_mode()
def search(
    model: Transformer,
    source: Int[Tensor, "batch tokens"],
    *,
    beam: int = 4,
    length_penalty: float = 1.0,
    max_tokens: int | None = None,
    repeats: int = REPEATS,
) -> list[list[Hypothesis]]:
    """The `beam` best targets of each source, best first; an error if the model's probabilities are NaN.

    Args:
        model: the model.
        source: the token ids of the sources, with ends and padding.
        beam: the number of targets.
        length_penalty: a score is the sum of the log-probabilities over the length to this power.
        max_tokens: the maximum length; by default twice the length of the source plus 16.
        repeats: how often 1 to 8 tokens may occur in a row, unless the source repeats more often.

    >>> import torch, regard
    >>> model = regard.Transformer(regard.TransformerConfig.tiny(vocabulary=50)).eval()
    >>> best = search(model, torch.randint(1, 49, (2, 6)), beam=3, max_tokens=10)
    >>> len(best), len(best[0]), best[0][0].score >= best[0][1].score
    (2, 3, True)
    """
    if beam < 1 or repeats < 1 or (max_tokens is not None and max_tokens < 1):
        raise InputError(
            f"search takes a beam, max_tokens and repeats of at least 1. Got {beam=}, {max_tokens=}, {repeats=}."
        )
    config, device = model.config, source.device
    memory, cache, visible = model.encode(source), model.cache(), source.ne(config.pad)
    longest = config.positions if max_tokens is None else min(max_tokens, config.positions)
    limits = [longest if max_tokens else longest_target(length, longest) for length in visible.sum(-1).tolist()]
    ended: list[list[Hypothesis]] = [[] for _ in limits]  # the targets that have ended, of each source
    active = list(range(len(limits)))  # the sources that are still searched
    scores = torch.full((len(source), beam), -torch.inf, device=device)
    scores[:, 0] = 0.0
    tokens = torch.full((len(source) * beam, 1), config.start, device=device)
    guard = RepetitionGuard.over(source, visible, beam, repeats)
    for step in range(1, longest + 1):
        # All beams begin with the same token: the first step is computed once for each source.
        shared = beam if step == 1 else 1
        logits = model.decode(tokens[::shared, -1:], memory, cache)[:, -1].float()
        logits[:, config.pad] = -torch.inf  # padding is never generated
        logs = torch.log_softmax(logits, -1).repeat_interleave(shared, 0)
        guard.forbid(logs)
        grown = grow(logs, scores, config.end)
        sentence_of, rank = (grown.ended > -torch.inf).nonzero(as_tuple=True)
        if len(sentence_of):  # read with one transfer: each would wait for a GPU
            targets = tokens[sentence_of * beam + grown.ended_parents[sentence_of, rank], 1:].tolist()
            totals = grown.ended[sentence_of, rank].tolist()
            for n, target, total in zip(sentence_of.tolist(), targets, totals, strict=True):
                ended[active[n]].append(Hypothesis(target, score(total, step, length_penalty)))
        scores, parents, chosen = grown.scores, grown.parents, grown.tokens
        rows = (torch.arange(len(active), device=device)[:, None] * beam + parents).flatten()
        tokens = torch.cat([tokens[rows], chosen.view(-1, 1)], 1)
        remaining = [n for n, each in enumerate(active) if len(ended[each]) < beam and step < limits[each]]
        for n, each in enumerate(active):
            if step >= limits[each] and len(ended[each]) < beam:  # keep the unfinished targets as they are
                targets = tokens[n * beam : (n + 1) * beam, 1:].tolist()
                for target, total in zip(targets, scores[n].tolist(), strict=True):
                    if total > -torch.inf:
                        ended[each].append(Hypothesis(target, score(total, step, length_penalty), ended=False))
        if not remaining:
            break
        kept_sources = None
        if len(remaining) < len(active):  # finished sentences leave the batch, and the last ones take their places
            last = [n for n in remaining if n >= len(remaining)]
            remaining = [n if n in remaining else last.pop() for n in range(len(remaining))]
            kept_sources = torch.tensor(remaining, device=device)
            kept = (kept_sources[:, None] * beam + torch.arange(beam, device=device)).flatten()
            tokens, scores, rows = tokens[kept], scores[kept_sources], rows[kept]
            active = [active[n] for n in remaining]
        cache.pick(rows // shared, kept_sources)
        memory = memory if kept_sources is None else memory.pick(kept_sources)
        guard = guard.after(tokens[:, -1], rows)
    return [ranked(each, beam) for each in ended]
