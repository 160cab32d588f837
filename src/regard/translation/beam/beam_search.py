"""`search`: the most probable targets of each source, token by token, greedy (beam = 1) or with a beam.

`search_all` does it for any number of sources, in batches of similar length, on a CPU by an `Engine` where there is
one for the model, on a GPU by a `StaticSearch`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from regard.errors import InputError
from regard.nn import Transformer, start_decoding
from regard.support import Int, threads
from regard.translation.beam.engine import Engine
from regard.translation.beam.hypotheses import (
    REPEATS,
    Grown,
    Hypothesis,
    RepetitionGuard,
    grow,
    longest_target,
    loops,
    ranked,
    score,
)
from regard.translation.beam.static_search import StaticSearch

__all__ = ["search", "search_all", "search_by_engine", "usable_engine"]

_AT_ONCE = 1024  # source tokens of a batch for an engine, at most: Ctrl-C waits for a batch to end


@dataclass
class _Sentence:
    """The targets found for one source, and the maximum length."""

    limit: int
    found: list[Hypothesis] = field(default_factory=list)


def search_all(
    model: Transformer,
    sources: Sequence[Sequence[int]],
    *,
    beam: int = 4,
    length_penalty: float = 1.0,
    sentences: int = 32,
    tokens: int | None = None,
    needed: int | None = None,
    advance: Callable[[float], None] | None = None,
    known: Mapping[int, list[Hypothesis]] | None = None,
) -> list[list[Hypothesis]]:
    """`search` for sources of any number and lengths, on the model's device; results in the order of the sources.

    Sources of similar length are searched together: `sentences` of them at a time or, if `tokens` is given, so many
    that about `tokens` tokens are in flight, all beams included; on a GPU, as many as keep it busy. After each batch,
    `advance` gets the number of its source tokens. Who needs only a few of the targets says so by `needed`: the others
    may be missing. `known` has what `search_by_engine` found for these sources.

    >>> import regard
    >>> model = regard.Transformer(regard.TransformerConfig.tiny(vocabulary=50)).eval()
    >>> [len(best) for best in search_all(model, [[5, 6, 7, 0], [8, 0], [9, 5, 0]], beam=2)]
    [2, 2, 2]
    """
    first = _first(sources)
    if advance is not None:
        advance(sum(map(len, sources)) - sum(map(len, first)))  # each is searched once
    engine = usable_engine(model, beam, length_penalty) if known is None else None
    if engine is not None:
        known = search_by_engine(
            engine, sources, beam=beam, length_penalty=length_penalty, sentences=sentences, needed=needed,
            advance=advance,
        )  # fmt: skip
    found = dict(known or {})
    order = sorted((n for n in first.values() if n not in found), key=lambda n: len(sources[n]))
    static = StaticSearch.of(model) if order and beam >= 1 else None
    if static is not None:
        given = [sources[n] for n in order]
        best = static.search(model, given, beam=beam, length_penalty=length_penalty, needed=needed, advance=advance)
        found.update(zip(order, best, strict=True))
        order = []
    while order:
        shortest = max(len(sources[order[0]]), 8)
        size = sentences if tokens is None else max(tokens // (shortest * 2 * beam), 1)
        batch, order = order[:size], order[size:]
        padded = torch.nn.utils.rnn.pad_sequence([torch.tensor(sources[n]) for n in batch], True, model.config.pad)
        with threads(len(batch) * beam * model.config.parameters):  # multiply-adds of a step, about
            best = search(model, padded.to(model.embedding.weight.device), beam=beam, length_penalty=length_penalty)
        found.update(zip(batch, best, strict=True))
        if advance is not None:
            advance(sum(len(sources[n]) for n in batch))
    return [list(found[first[tuple(source)]]) for source in sources]


def _first(sources: Sequence[Sequence[int]]) -> dict[tuple[int, ...], int]:
    """Where each source occurs first."""
    first: dict[tuple[int, ...], int] = {}
    for n, source in enumerate(sources):
        first.setdefault(tuple(source), n)
    return first


def usable_engine(model: Transformer, beam: int, length_penalty: float) -> Engine | None:
    """The engine that may search for this model."""
    # CTranslate2 does not take a beam as wide as the vocabulary, and stops early without a length penalty.
    return Engine.of(model) if 1 <= beam < model.config.vocabulary // 2 and length_penalty != 0 else None


def search_by_engine(
    engine: Engine, sources: Sequence[Sequence[int]], *, beam: int, length_penalty: float, sentences: int = 32,
    needed: int | None = None, advance: Callable[[float], None] | None = None,
) -> dict[int, list[Hypothesis]]:  # fmt: skip
    """What an engine finds for each source that is not a repeated one, without those that our own search must do.

    It knows neither the repetition guard nor a maximum length for each sentence. (It can suppress a sequence, but then
    scales the rest up to 1, so that a loop followed by anything else seems probable.) Targets that break these rules
    are left out, as long as those remain that are needed. The model itself is not used: any thread may search so.
    """
    needed = beam if needed is None else needed
    found: dict[int, list[Hypothesis]] = {}
    order = sorted(_first(sources).values(), key=lambda n: len(sources[n]))
    size = max(min(sentences, -(-len(order) // engine.workers)), 1)  # a part for each worker
    batches: list[list[int]] = [[]]
    for n in reversed(order):  # the longest first: the last batches, which may keep one worker only, are the shortest
        if len(batches[-1]) == size or len(sources[n]) * (len(batches[-1]) + 1) > _AT_ONCE:
            batches.append([])
        batches[-1].append(n)
    batches = [batch for batch in batches if batch]
    given = ([sources[n] for n in batch] for batch in batches)
    for batch, best in zip(batches, engine.search(given, beam=beam, length_penalty=length_penalty), strict=True):
        done = 0
        for n, targets in zip(batch, best, strict=True):
            most = longest_target(len(sources[n]), engine.config.positions)
            allowed = [
                Hypothesis(*target)
                for target in targets
                if target.ended and len(target.tokens) < most and not loops(sources[n], target.tokens)
            ]
            if len(allowed) >= needed:
                found[n] = allowed
                done += len(sources[n])
        if advance is not None:
            advance(done)
    return found


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
    """The `beam` best targets of each source, best first.

    A target's score is the sum of its log-probabilities over its length to the power `length_penalty`. Without
    `max_tokens`, a target may have twice as many tokens as its source, plus 16. No sequence of 1 to 8 tokens occurs
    more than `repeats` times in a row, unless the source itself repeats that often. A model that gives no probabilities
    (NaN) is an error.

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
    session, visible = start_decoding(model, source), source.ne(config.pad)
    longest = config.positions if max_tokens is None else min(max_tokens, config.positions)
    lengths = visible.sum(-1).tolist()
    sentences = [_Sentence(longest if max_tokens else longest_target(length, longest)) for length in lengths]
    active = list(sentences)
    scores = torch.full((len(source), beam), -torch.inf, device=device)
    scores[:, 0] = 0.0
    tokens = torch.full((len(source) * beam, 1), config.start, device=device)
    guard = RepetitionGuard.over(source, visible, beam, repeats)
    for step in range(1, longest + 1):
        # All beams begin with the same token: the first step is computed for one of them.
        first = step == 1
        logs = session.step(tokens[::beam, -1]).repeat_interleave(beam, 0) if first else session.step(tokens[:, -1])
        guard.forbid(logs)
        grown = grow(logs, scores, config.end)
        _collect(active, tokens, grown, step, length_penalty)
        scores, parents, chosen = grown.scores, grown.parents, grown.tokens
        rows = (torch.arange(len(active), device=device)[:, None] * beam + parents).flatten()
        tokens = torch.cat([tokens[rows], chosen.view(-1, 1)], 1)
        remaining = [n for n, s in enumerate(active) if len(s.found) < beam and step < s.limit]
        for n, sentence in enumerate(active):
            if step >= sentence.limit and len(sentence.found) < beam:
                _cut_off(sentence, tokens.view(len(active), beam, -1)[n], scores[n], step, length_penalty)
        if not remaining:
            break
        kept_sources = None
        if len(remaining) < len(active):  # finished sentences leave the batch, the last ones take their places
            last = [n for n in remaining if n >= len(remaining)]
            remaining = [n if n in remaining else last.pop() for n in range(len(remaining))]
            kept_sources = torch.tensor(remaining, device=device)
            kept = (kept_sources[:, None] * beam + torch.arange(beam, device=device)).flatten()
            tokens, scores, rows = tokens[kept], scores[kept_sources], rows[kept]
            active = [active[n] for n in remaining]
        session.reorder(rows // beam if first else rows, kept_sources)
        guard = guard.after(tokens[:, -1], rows)
    return [ranked(sentence.found, beam) for sentence in sentences]


def _collect(sentences: list[_Sentence], tokens: Tensor, grown: Grown, step: int, length_penalty: float) -> None:
    """Keep the candidates that ended."""
    sentence, rank = (grown.ended > -torch.inf).nonzero(as_tuple=True)
    if not len(sentence):
        return
    # One transfer for all of them: each would wait for a GPU.
    beam = grown.ended.shape[1]
    targets = tokens[sentence * beam + grown.ended_parents[sentence, rank], 1:].tolist()
    for n, target, total in zip(sentence.tolist(), targets, grown.ended[sentence, rank].tolist(), strict=True):
        sentences[n].found.append(Hypothesis(target, score(total, step, length_penalty)))


def _cut_off(sentence: _Sentence, tokens: Tensor, scores: Tensor, step: int, length_penalty: float) -> None:
    """At the maximum length, keep unfinished targets as they are."""
    for target, total in zip(tokens[:, 1:].tolist(), scores.tolist(), strict=True):
        if total > -torch.inf:
            sentence.found.append(Hypothesis(target, score(total, step, length_penalty), ended=False))
