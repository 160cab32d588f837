"""`Spans`: attention between parts of a text: words, sentences, passages, messages of a chat."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from regard.drawing.terminal import Table, beside
from regard.errors import InputError
from regard.support import Float
from regard.watching.entry import Entry
from regard.watching.looks import key_side, query_side
from regard.watching.tokens import Tokens

__all__ = ["Place", "Spans", "spans"]

Place = str | int | range | tuple[int, int]
_ENDS = (".", "!", "?", "。", "！", "？")
_TURNS = ("<|im_start|>", "<start_of_turn>", "<|start_header_id|>", "<|start|>", "<|turn>", "[INST]", "<|user|>",
          "<|assistant|>", "<|system|>")  # fmt: skip
_COLUMNS = 256  # spans gathered in one multiplication


@dataclass(frozen=True, eq=False)
class Spans:
    """How much each span gives to each other: rows look, columns are looked at.

    >>> print(Spans(("question", "answer"), ("question", "answer"), torch.tensor([[1.0, 0.0], [0.25, 0.75]])))
              spans  2×2
              questi…  answer
    question    100 %     0 %
    answer       25 %    75 %
    """

    names: tuple[str, ...]
    key_names: tuple[str, ...]
    weights: Float[Tensor, "rows columns"]

    def __getitem__(self, name: str) -> dict[str, float]:
        """What one span gives to each, the greatest first."""
        if name not in self.names:
            raise InputError(f"the spans are {', '.join(map(repr, self.names))}. Got {name!r}.")
        row = self.weights[self.names.index(name)].tolist()
        return dict(sorted(zip(self.key_names, row, strict=True), key=lambda pair: -pair[1]))

    def __str__(self) -> str:
        numbers = self.weights.double().numpy()
        shape = "×".join(map(str, numbers.shape))
        table = Table(np.asarray(numbers), "spans", "", shape, self.names, self.key_names, shares=True)
        return "\n".join(line.rstrip() for line in beside([table], 100).plain.splitlines())


def spans(entries: Sequence[Entry], by: str | Mapping[str, Place], sequence: int) -> Spans:
    """The mean over all heads and over the tokens of each row's span; no queries × keys numbers on the way."""
    rows = _cut(query_side(entries[0], sequence), by)
    columns = _cut(key_side(entries[0], sequence), by)
    if isinstance(by, Mapping) and entries[0].kind == "cross":
        rows, columns = rows or {}, columns or {}
    if not rows or not columns:
        raise InputError(f"no span of {by!r} is in the text.")
    total, heads = torch.zeros(len(rows), len(columns)), 0
    for entry in entries:
        total += _gathered(entry, sequence, list(rows.values()), list(columns.values()))
        heads += entry.shape[1]
    return Spans(tuple(rows), tuple(columns), total / heads)


def _gathered(entry: Entry, sequence: int, rows: Sequence[range], columns: Sequence[range]) -> Tensor:
    """The sum over heads: A @ (one column for each span), then the means of the rows."""
    matrix = entry.matrix.part[sequence : sequence + 1]
    parts = []
    for start in range(0, len(columns), _COLUMNS):
        some = columns[start : start + _COLUMNS]
        inside = torch.zeros(entry.shape[3], len(some), dtype=matrix.dtype, device=matrix.device)
        for n, span in enumerate(some):
            inside[span.start : span.stop, n] = 1
        given = (matrix @ inside)[0].float().sum(0)
        parts.append(torch.stack([given[span.start : span.stop].mean(0) for span in rows]))
    return torch.cat(parts, -1).cpu()


def _cut(tokens: Tokens, by: str | Mapping[str, Place]) -> dict[str, range]:
    if isinstance(by, Mapping):
        return _placed(tokens, by)
    words = tokens.words
    if by == "word":
        places = [word.tokens for word in words]
    elif by == "sentence":
        ends = [0, *(n + 1 for n, word in enumerate(words) if word.text.endswith(_ENDS)), len(words)]
        places = [range(words[a].start, words[b - 1].stop) for a, b in pairwise(sorted(set(ends)))]
    elif by == "message":
        starts = [n for n, token in enumerate(tokens) if token in _TURNS]
        if not starts:
            raise InputError(f"no message begins in this text: none of {' '.join(_TURNS)} is in it.")
        places = [range(a, b) for a, b in pairwise([*starts, len(tokens)])]
    else:
        raise InputError(f'spans are by "word", "sentence", "message" or {{name: text or token range}}. Got {by!r}.')
    named: dict[str, range] = {}
    for place in places:
        name = _name(tokens, place, by)
        while name in named:  # the same word again
            head, _, count = name.rpartition(" ")
            name = f"{head} {int(count) + 1}" if head and count.isdigit() else f"{name} 2"
        named[name] = place
    return named


def _name(tokens: Tokens, place: range, by: str) -> str:
    inside = [word.text for word in tokens.words if word.start >= place.start and word.stop <= place.stop]
    if by == "message":
        return next((text for text in inside if text not in _TURNS), inside[0])
    text = " ".join(inside)
    return text if len(text) <= 40 else text[:39] + "…"


def _placed(tokens: Tokens, by: Mapping[str, Place]) -> dict[str, range]:
    found = {}
    for name, place in by.items():
        if isinstance(place, tuple):
            place = range(*place)
        found[name] = tokens.find(place)
    return found
