"""`Batches`: encoded pairs as padded batches of about equal size, in an order that seed and epoch decide."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

__all__ = ["Batches"]

_ROUND = 8  # lengths are padded up to multiples of it: fewer shapes, and whole tiles for the kernels


class Batches:
    """Pairs of ids, the source with its end, the target with start and end.

    >>> batches = Batches([([5, 6], [7]), ([5], [7, 8, 9])], end=0, pad=10, tokens=64)
    >>> source, target = next(iter(batches.epoch(0)))
    >>> sorted(source.tolist()), target.shape
    ([[5, 0, 10, 10, 10, 10, 10, 10], [5, 6, 0, 10, 10, 10, 10, 10]], torch.Size([2, 9]))
    """

    def __init__(
        self,
        pairs: Sequence[tuple[Sequence[int], Sequence[int]]],
        *,
        end: int,
        pad: int,
        tokens: int,
        longest: int = 96,
        joined: float = 0.0,
        seed: int = 0,
    ):
        self.end, self.pad, self.tokens, self.longest, self.joined, self.seed = end, pad, tokens, longest, joined, seed
        kept = [(s, t) for s, t in pairs if len(s) < longest and len(t) < longest]
        self.dropped = len(pairs) - len(kept)
        self.sides = [[np.asarray(pair[side], dtype=np.int32) for pair in kept] for side in (0, 1)]
        self.lengths = np.array([[len(ids) + 1 for ids in pair] for pair in zip(*self.sides, strict=True)]).reshape(
            -1, 2
        )
        self._whole = [self._table(side) for side in (0, 1)]  # most rows are one pair: those are cut out of tables

    def __len__(self) -> int:
        return len(self.sides[0])

    def epoch(self, number: int) -> Iterator[tuple[Tensor, Tensor]]:
        """One walk over all pairs, some of them joined, shuffled anew."""
        yield from (self.batch(rows) for rows in self.plan(number))

    def plan(self, number: int) -> list[list[tuple[int, ...]]]:
        """What goes into each batch of an epoch: the pairs of each of its rows, most rows one pair."""
        random = np.random.default_rng((self.seed, number))
        lengths = self.lengths
        extra = random.integers(0, max(len(self), 1), (int(len(self) * self.joined), 2))
        together = lengths[extra].sum(1)
        fits = (together < self.longest).all(1)
        sizes = np.concatenate([lengths, together[fits]])
        rows = [(n,) for n in range(len(self))] + [(a, b) for a, b in extra[fits].tolist()]
        jitter = sizes + random.random(sizes.shape) * 2
        order = np.lexsort((jitter[:, 0], jitter[:, 1]))
        widths = -(-sizes[order].max(1) // _ROUND) * _ROUND
        batches, start = [], 0
        while start < len(order):
            ahead = np.maximum.accumulate(widths[start : start + self.tokens])
            over = ahead * np.arange(1, len(ahead) + 1) > self.tokens
            stop = start + max(int(over.argmax()) if over.any() else len(ahead), 1)
            batches.append([rows[n] for n in order[start:stop]])
            start = stop
        return [batches[n] for n in random.permutation(len(batches))]

    def batch(self, rows: list[tuple[int, ...]]) -> tuple[Tensor, Tensor]:
        """The padded ids of some rows."""
        single = np.array([row[0] for row in rows if len(row) == 1], dtype=np.int64)
        several = [row for row in rows if len(row) > 1]
        tables = []
        for side, whole in enumerate(self._whole):
            long = [self._framed(side, row) for row in several]
            width = max([int((whole[single] != self.pad).sum(1).max(initial=0)) + side, *map(len, long)], default=1)
            # A target is one longer than a multiple: training reads all but its last, and learns all but its first.
            table = np.full((len(rows), _up(width - side) + side), self.pad, dtype=np.int64)
            table[: len(single)] = whole[single, : table.shape[1]]
            for row, ids in zip(table[len(single) :], long, strict=True):
                row[: len(ids)] = ids
            tables.append(torch.from_numpy(table))
        return tables[0], tables[1]

    def _framed(self, side: int, row: tuple[int, ...]) -> NDArray[np.int32]:
        """The ids of a row with their end and, for a target, the start, which is padding as in Marian."""
        frame = ([self.pad] if side else [], [self.end])
        return np.concatenate([frame[0], *(self.sides[side][n] for n in row), frame[1]]).astype(np.int32)

    def _table(self, side: int) -> NDArray[np.int32]:
        table = np.full((len(self), _up(self.longest) + 1), self.pad, dtype=np.int32)
        column, size = np.arange(table.shape[1]), self.lengths[:, side, None] + side  # a target begins with its start
        table[(column >= side) & (column < size - 1)] = np.concatenate([*self.sides[side], np.empty(0, np.int32)])
        table[column == size - 1] = self.end
        return table


def _up(length: int) -> int:
    return -(-length // _ROUND) * _ROUND
