"""`Heads`: heads of a model ranked by what they do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, overload

import torch
from torch import Tensor

from regard.drawing.terminal import percent
from regard.errors import InputError
from regard.scores import Keep
from regard.support import Bool, Float
from regard.watching.entry import Entry
from regard.watching.looks import key_side, query_side

__all__ = ["SCORES", "Head", "Heads", "heads_between", "real_tokens", "scored"]


class Head(NamedTuple):
    """One head and its score."""

    name: str
    layer: int
    head: int
    score: float


@dataclass(frozen=True)
class Heads(Sequence[Head]):
    """Heads, the greatest score first.

    >>> print(Heads("it → dog", (Head("layers.4.attention", 4, 3, 0.61),)))
    it → dog
    layer  4 head  3   61 %   layers.4.attention
    """

    about: str
    found: tuple[Head, ...]

    def __len__(self) -> int:
        return len(self.found)

    @overload
    def __getitem__(self, index: int) -> Head: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Head, ...]: ...
    def __getitem__(self, index: int | slice) -> Head | tuple[Head, ...]:
        return self.found[index]

    def __str__(self) -> str:
        lines = [f"layer {h.layer:>2} head {h.head:>2} {percent(h.score):>6}   {h.name}" for h in self.found[:10]]
        more = [f"… and {len(self.found) - 10} more"] if len(self.found) > 10 else []
        return "\n".join([self.about, *lines, *more])


def _ranked(about: str, entries: Sequence[Entry], scores: Sequence[Tensor]) -> Heads:
    found = [
        Head(entry.name, entry.layer, head, float(score))
        for entry, per_head in zip(entries, scores, strict=True)
        for head, score in zip(entry.heads, per_head, strict=True)
    ]
    return Heads(about, tuple(sorted(found, key=lambda head: -head.score)))


def heads_between(entries: Sequence[Entry], start: str | int | range, end: str | int | range, sequence: int) -> Heads:
    """The heads that send most from one word to another."""
    scores = []
    for entry in entries:
        rows, columns = query_side(entry, sequence).find(start), key_side(entry, sequence).find(end)
        weights = entry.matrix[sequence, :, rows.start : rows.stop, columns.start : columns.stop]
        scores.append(weights.float().sum(-1).mean(-1))
    return _ranked(f"{start} → {end}", entries, scores)


# Heads with a habit. Each score is a mean over the tokens from the second on: the first of a causal model sees
# nothing but itself.


def real_tokens(entry: Entry, sequence: int) -> Bool[Tensor, " keys"]:
    """Which keys are tokens and not padding."""
    kept = torch.ones(entry.shape[3], dtype=torch.bool)
    for atom in entry.source.mask.atoms if entry.source is not None else ():
        if isinstance(atom, Keep):
            keys = atom.keys.cpu()
            told = keys if keys.dtype == torch.bool else torch.arange(entry.shape[3]) < keys[..., None]
            kept &= told.expand(entry.shape[0], -1)[sequence]
    return kept


def _points(entry: Entry, sequence: int, rows: Tensor, columns: Tensor) -> Float[Tensor, " heads"]:
    """The mean over points (row, column), for each head."""
    heads = torch.arange(entry.shape[1])[:, None]
    if not len(rows):
        return torch.zeros(entry.shape[1])
    device = entry.matrix.device
    index = (torch.tensor(sequence), heads, rows, columns)
    return entry.matrix[tuple(part.to(device) for part in index)].float().mean(-1).cpu()


def _rows(entry: Entry, sequence: int) -> Tensor:
    return real_tokens(entry, sequence).nonzero().flatten()


def _sink(entry: Entry, sequence: int) -> Tensor:
    rows = _rows(entry, sequence)
    return _points(entry, sequence, rows[1:], rows[:1].expand(len(rows) - 1))


def _previous(entry: Entry, sequence: int) -> Tensor:
    rows = _rows(entry, sequence)
    return _points(entry, sequence, rows[1:], rows[:-1])


def _diagonal(entry: Entry, sequence: int) -> Tensor:
    rows = _rows(entry, sequence)
    return _points(entry, sequence, rows[1:], rows[1:])


def _induction(entry: Entry, sequence: int) -> Tensor:
    """From a token that stood before, to what came after it then."""
    if entry.ids is None and entry.tokens is None:
        raise InputError("induction needs to know the tokens: watch with tokenizer=… or tokens=[…].")
    names = entry.ids[sequence].tolist() if entry.ids is not None else list((entry.tokens or [])[sequence])
    last: dict[str | int, int] = {}
    pairs = []
    for place in _rows(entry, sequence).tolist():
        if names[place] in last:
            pairs.append((place, last[names[place]] + 1))
        last[names[place]] = place
    if not pairs:
        raise InputError("induction needs a text in which some token comes twice.")
    rows, columns = torch.tensor(pairs).unbind(1)
    return _points(entry, sequence, rows, columns)


SCORES: dict[str, Callable[[Entry, int], Tensor]] = {
    "sink": _sink,
    "previous": _previous,
    "diagonal": _diagonal,
    "induction": _induction,
}


def scored(entries: Sequence[Entry], habit: str, sequence: int) -> Heads:
    """Heads ranked by a habit: "sink", "previous", "diagonal" or "induction"."""
    if habit not in SCORES:
        raise InputError(f"heads are scored by {', '.join(map(repr, SCORES))}. Got {habit!r}.")
    own = [entry for entry in entries if entry.kind != "cross"]
    return _ranked(habit, own, [SCORES[habit](entry, sequence) for entry in own])
