"""`Top`: the largest weights of each row and their keys."""

from __future__ import annotations

import math
from typing import NamedTuple

from torch import Tensor

from regard.drawing.terminal import Cell, html_table, percent
from regard.support import Float, Int

__all__ = ["Top"]

_QUERIES, _KEYS = 8, 4  # shown at most


class Top(NamedTuple):
    """The largest weights of each row, descending, and their keys; -1 where a row sees fewer keys.

    >>> import torch, regard
    >>> regard.AttentionMatrix(torch.zeros(2, 4), torch.zeros(2, 4), mask=regard.causal()).top(2)
    Top of shape (2, 2)
    query 0: key 0 100 %
    query 1: key 0 50 %, key 1 50 %
    """

    weights: Float[Tensor, "*batch queries k"]
    keys: Int[Tensor, "*batch queries k"]

    def __repr__(self) -> str:
        rows = [
            f"query {query}: " + (", ".join(f"key {key} {percent(weight)}" for key, weight in pairs) or "no key")
            for query, pairs in enumerate(self._first_rows())
        ]
        more = [f"… and {self._left_out():,} more"] if self._left_out() > 0 else []
        return "\n".join([self._about(), *rows, *more])

    def _repr_html_(self) -> str:
        rows: list[list[Cell]] = [
            [query, *(cell for pair in pairs for cell in pair)] for query, pairs in enumerate(self._first_rows())
        ]
        columns = ["query", *["key", "weight"] * min(self.keys.shape[-1], _KEYS)]
        return html_table(rows, columns, caption=self._about(), more=self._left_out())

    def _about(self) -> str:
        *leading, _, k = self.keys.shape
        first = f"; here [{', '.join('0' * len(leading))}]" if math.prod(leading) > 1 else ""
        largest = f"; the {_KEYS} largest of each query" if k > _KEYS else ""
        return f"Top of shape {tuple(self.keys.shape)}{first}{largest}"

    def _left_out(self) -> int:
        return self.keys.shape[-2] - _QUERIES if self.keys.numel() else 0

    def _first_rows(self) -> list[list[tuple[int, float]]]:
        """Some keys of the first queries, in the first head of the first text; hidden keys are left out."""
        if not self.keys.numel():
            return []
        keys, weights = (each.flatten(0, -2)[: self.keys.shape[-2]] for each in (self.keys, self.weights))
        pairs = zip(keys[:_QUERIES, :_KEYS].tolist(), weights[:_QUERIES, :_KEYS].tolist(), strict=True)
        return [[(key, weight) for key, weight in zip(*row, strict=True) if key >= 0] for row in pairs]
