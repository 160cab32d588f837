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
from regard.watching.entries import Entry, mean_over_heads
from regard.watching.rankings import key_side, query_side
from regard.watching.tokens import Place, Tokens

__all__ = ["Span", "Spans", "spans"]

Span = Place | tuple[int, int]
_ENDS = (".", "!", "?", "。", "！", "？")
_TURNS = ("<|im_start|>", "<start_of_turn>", "<|start_header_id|>", "<|start|>", "<|turn>", "[INST]", "<|user|>",
          "<|assistant|>", "<|system|>")  # fmt: skip
_COLUMNS = 256  # spans summed in one multiplication


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
        """What one span gives to each, the largest first."""
        if name not in self.names:
            raise InputError(f"the spans are {', '.join(map(repr, self.names))}. Got {name!r}.")
        row = self.weights[self.names.index(name)].tolist()
        return dict(sorted(zip(self.key_names, row, strict=True), key=lambda pair: -pair[1]))

    def __str__(self) -> str:
        numbers = self.weights.double().numpy()
        shape = "×".join(map(str, numbers.shape))
        table = Table(np.asarray(numbers), "spans", "", shape, self.names, self.key_names, shares=True)
        return "\n".join(line.rstrip() for line in beside([table], 100).plain.splitlines())


def spans(entries: Sequence[Entry], by: str | Mapping[str, Span], sequence: int) -> Spans:
    """The mean over all heads and over the tokens of each row's span, without ever storing queries × keys."""
    rows = _named_spans(query_side(entries[0], sequence), by)
    columns = _named_spans(key_side(entries[0], sequence), by)
    if not rows or not columns:
        raise InputError(f"no span of {by!r} is in the text.")
    row_spans, column_spans = list(rows.values()), list(columns.values())
    weights = mean_over_heads(entries, lambda entry: _sum_over_heads(entry, sequence, row_spans, column_spans))
    return Spans(tuple(rows), tuple(columns), weights)


def _sum_over_heads(entry: Entry, sequence: int, rows: Sequence[range], columns: Sequence[range]) -> Tensor:
    """A @ (one column for each span), summed over heads, then the mean over the tokens of each row's span."""
    matrix = entry.matrix.part[sequence : sequence + 1]
    parts = []
    for start in range(0, len(columns), _COLUMNS):
        block = columns[start : start + _COLUMNS]
        membership = torch.zeros(entry.shape[3], len(block), dtype=matrix.dtype, device=matrix.device)
        for n, span in enumerate(block):
            membership[span.start : span.stop, n] = 1
        shares = (matrix @ membership)[0].float().sum(0)
        parts.append(torch.stack([shares[span.start : span.stop].mean(0) for span in rows]))
    return torch.cat(parts, -1).cpu()


def _named_spans(tokens: Tokens, by: str | Mapping[str, Span]) -> dict[str, range]:
    if isinstance(by, Mapping):
        return {name: tokens.find(range(*span) if isinstance(span, tuple) else span) for name, span in by.items()}
    words = tokens.words
    if by == "word":
        ranges = [word.tokens for word in words]
    elif by == "sentence":
        ends = [0, *(n + 1 for n, word in enumerate(words) if word.text.endswith(_ENDS)), len(words)]
        ranges = [range(words[a].start, words[b - 1].stop) for a, b in pairwise(sorted(set(ends)))]
    elif by == "message":
        starts = [n for n, token in enumerate(tokens) if token in _TURNS]
        if not starts:
            raise InputError(f"no message begins in this text: none of {' '.join(_TURNS)} is in it.")
        ranges = [range(a, b) for a, b in pairwise([*starts, len(tokens)])]
    else:
        raise InputError(f'spans are by "word", "sentence", "message" or {{name: text or token range}}. Got {by!r}.')
    named: dict[str, range] = {}
    for span in ranges:
        name = _name(tokens, span, by)
        while name in named:  # a repeated word
            stem, _, count = name.rpartition(" ")
            name = f"{stem} {int(count) + 1}" if stem and count.isdigit() else f"{name} 2"
        named[name] = span
    return named


def _name(tokens: Tokens, span: range, by: str) -> str:
    inside = [word.text for word in tokens.words if word.start >= span.start and word.stop <= span.stop]
    if by == "message":
        return next((text for text in inside if text not in _TURNS), inside[0])
    text = " ".join(inside)
    return text if len(text) <= 40 else text[:39] + "…"
