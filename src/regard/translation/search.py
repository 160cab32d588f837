"""`search`: the most probable target for each source, token by token, greedy (beam = 1) or with a beam."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from regard.errors import InputError
from regard.nn import Decoding, Encoding, Memory, Run, Transformer
from regard.support import Float, Int
from regard.translation.repetition import Loops

__all__ = ["Hypothesis", "search"]

_BLOCK = 64  # numbers of a row are looked through in blocks


@dataclass(frozen=True)
class Hypothesis:
    """A target that was found: its tokens without the end, and its mean log-probability (length penalty 1)."""

    tokens: list[int]
    score: float
    ended: bool = True  # False: cut off at the greatest length


@dataclass
class _Sentence:
    """The targets that were found for one source, and where to stop."""

    index: int
    limit: int
    found: list[Hypothesis] = field(default_factory=list)


class _Plain:
    """The model itself, with a cache: what `Decoding` stands in for where it can."""

    def __init__(self, model: Transformer, memory: Memory):
        self.model, self.memory, self.cache = model, memory, model.cache()

    def logs(self, tokens: Int[Tensor, " rows"]) -> Float[Tensor, "rows vocabulary"]:
        return torch.log_softmax(self.model.decode(tokens[:, None], self.memory, self.cache)[:, -1].float(), -1)

    def pick(self, rows: Int[Tensor, " some"], sources: Int[Tensor, " few"] | None) -> None:
        self.memory = self.memory if sources is None else self.memory.pick(sources)
        self.cache.pick(rows, sources)


@torch.inference_mode()
def search(
    model: Transformer,
    source: Int[Tensor, "batch tokens"],
    *,
    beam: int = 4,
    length_penalty: float = 1.0,
    max_tokens: int | None = None,
    repeats: int = 3,
) -> list[list[Hypothesis]]:
    """The `beam` best targets of each source, best first.

    A target's score is the sum of its log-probabilities over its length to the power `length_penalty`. Without
    `max_tokens`, a target may have twice the tokens of its source and 16 more. No run of 1 to 8 tokens comes more than
    `repeats` times in a row, unless the source itself repeats that often.

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
    lean = Decoding.of(model) if Decoding.suits(model) else None
    memory = lean.encoding.memory(*model.enter(source)) if lean and Encoding.suits(model) else model.encode(source)
    most = config.positions if max_tokens is None else min(max_tokens, config.positions)
    lengths = memory.visible.sum(-1).tolist()
    found = [_Sentence(n, most if max_tokens else min(2 * size + 16, most)) for n, size in enumerate(lengths)]
    open_ones = list(found)
    run: Run | _Plain = _Plain(model, memory) if lean is None else lean.start(memory)
    scores = torch.full((len(source), beam), -torch.inf, device=device)
    scores[:, 0] = 0.0
    tokens = torch.full((len(source) * beam, 1), config.start, device=device)
    loops = Loops(source, memory.visible, beam, repeats)
    for step in range(1, most + 1):
        # All beams begin alike: the first step is taken by one of them.
        logs = run.logs(tokens[:, -1]) if step > 1 else run.logs(tokens[::beam, -1]).repeat_interleave(beam, 0)
        logs[:, config.pad] = -torch.inf  # padding is never an answer
        loops.forbid(logs, tokens)
        values, parents, chosen = _best(logs, scores, 2 * beam)
        ended = chosen == config.end
        _collect(open_ones, tokens, values, parents, ended, step, beam, length_penalty)
        # The beam goes on with its best candidates that did not end.
        order = ended.long().argsort(dim=-1, stable=True)[:, :beam]
        scores, parents, chosen = (t.gather(1, order) for t in (values, parents, chosen))
        rows = (torch.arange(len(open_ones), device=device)[:, None] * beam + parents).flatten()
        tokens = torch.cat([tokens[rows], chosen.view(-1, 1)], 1)
        going = [n for n, s in enumerate(open_ones) if len(s.found) < beam and step < s.limit]
        for n, sentence in enumerate(open_ones):
            if step >= sentence.limit and len(sentence.found) < beam:
                _cut(sentence, tokens.view(len(open_ones), beam, -1)[n], scores[n], step, length_penalty)
        if not going:
            break
        keep = None
        if len(going) < len(open_ones):  # those that are done leave the batch, the last ones take their places
            last = [n for n in going if n >= len(going)]
            going = [n if n in going else last.pop() for n in range(len(going))]
            keep = torch.tensor(going, device=device)
            stay = (keep[:, None] * beam + torch.arange(beam, device=device)).flatten()
            tokens, scores, rows = tokens[stay], scores[keep], rows[stay]
            open_ones = [open_ones[n] for n in going]
        run.pick(rows if step > 1 else rows // beam, keep)
        loops.follow(tokens, rows)
    return [sorted(s.found, key=lambda h: -h.score)[:beam] for s in found]


def _best(
    logs: Float[Tensor, "rows vocabulary"], scores: Float[Tensor, "batch beam"], count: int
) -> tuple[Tensor, Tensor, Tensor]:
    """(score, beam it continues, token) of the best continuations of each sentence.

    The greatest of many numbers lie in the blocks with the greatest maxima: few are compared one by one.
    """
    (batch, beam), size = scores.shape, logs.shape[-1]
    count = min(count, beam * size)
    width = _BLOCK if size >= 2 * count * _BLOCK else 1
    whole = size // width
    maxima = logs[:, : whole * width].view(batch, beam, whole, width).amax(-1) + scores[..., None]
    block = maxima.flatten(1).topk(count, -1).indices
    of = block // whole
    first = of * size + block % whole * width
    places = (first[..., None] + torch.arange(width, device=logs.device)).flatten(1)
    so_far = scores.gather(1, of).repeat_interleave(width, 1)
    if whole * width < size:  # what is left behind the last whole block
        rows = size * torch.arange(beam, device=logs.device)[:, None]
        rest = (rows + torch.arange(whole * width, size, device=logs.device)).flatten()
        places = torch.cat([places, rest.expand(batch, -1)], 1)
        so_far = torch.cat([so_far, scores.repeat_interleave(size - whole * width, 1)], 1)
    values, chosen = (logs.view(batch, -1).gather(1, places) + so_far).topk(count, -1)
    places = places.gather(1, chosen)
    return values, places // size, places % size


def _collect(
    sentences: list[_Sentence], tokens: Tensor, values: Tensor, parents: Tensor, ended: Tensor, step: int, beam: int,
    length_penalty: float,
) -> None:  # fmt: skip
    """Keep the candidates that ended, if they rank within the beam."""
    who, rank = (ended[:, :beam] & (values[:, :beam] > -torch.inf)).nonzero(as_tuple=True)
    if not len(who):
        return
    said = tokens[who * beam + parents[who, rank], 1:].tolist()  # all at once: a GPU is asked as seldom as can be
    for n, words, score in zip(who.tolist(), said, values[who, rank].tolist(), strict=True):
        sentences[n].found.append(Hypothesis(words, score / step**length_penalty))


def _cut(sentence: _Sentence, tokens: Tensor, scores: Tensor, step: int, length_penalty: float) -> None:
    """At the greatest length, what is still open counts as it stands."""
    for said, score in zip(tokens[:, 1:].tolist(), scores.tolist(), strict=True):
        if score > -torch.inf:
            sentence.found.append(Hypothesis(said, score / step**length_penalty, ended=False))
