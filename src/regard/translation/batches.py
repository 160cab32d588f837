"""`Batches`: encoded pairs as padded batches of about equal size, in an order that depends on seed and epoch alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

__all__ = ["Batches"]

_MULTIPLE = 8  # lengths are padded to multiples of it: fewer shapes, and whole tiles for the kernels


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
        lengths = [[len(ids) + 1 for ids in pair] for pair in zip(*self.sides, strict=True)]
        self.lengths = np.array(lengths).reshape(-1, 2)
        self._tables = [self._table(side) for side in (0, 1)]  # most rows are a single pair: sliced from here

    def __len__(self) -> int:
        return len(self.sides[0])

    def epoch(self, number: int, start: int = 0) -> Iterator[tuple[Tensor, Tensor]]:
        """All pairs once, some of them joined, in a new random order; from batch number `start` on."""
        yield from (self.batch(rows) for rows in self.plan(number)[start:])

    def plan(self, number: int) -> list[list[tuple[int, ...]]]:
        """The rows of each batch of an epoch, each as the indices of its pairs; most rows are one pair."""
        random = np.random.default_rng((self.seed, number))
        lengths = self.lengths
        extra = random.integers(0, max(len(self), 1), (int(len(self) * self.joined), 2))
        together = lengths[extra].sum(1)
        fits = (together < self.longest).all(1)
        sizes = np.concatenate([lengths, together[fits]])
        rows = [(n,) for n in range(len(self))] + [(a, b) for a, b in extra[fits].tolist()]
        jitter = sizes + random.random(sizes.shape) * 2
        order = np.lexsort((jitter[:, 0], jitter[:, 1]))
        widths = -(-sizes[order].max(1) // _MULTIPLE) * _MULTIPLE
        batches, start = [], 0
        while start < len(order):
            ahead = np.maximum.accumulate(widths[start : start + self.tokens])
            over = ahead * np.arange(1, len(ahead) + 1) > self.tokens
            stop = start + max(int(over.argmax()) if over.any() else len(ahead), 1)
            batches.append([rows[n] for n in order[start:stop]])
            start = stop
        return [batches[n] for n in random.permutation(len(batches))]

    def batch(self, rows: list[tuple[int, ...]]) -> tuple[Tensor, Tensor]:
        """The padded source and target ids of rows."""
        single = np.array([row[0] for row in rows if len(row) == 1], dtype=np.int64)
        several = [row for row in rows if len(row) > 1]
        sides = []
        for side, table in enumerate(self._tables):
            joined = [self._framed(side, row) for row in several]
            width = max([int((table[single] != self.pad).sum(1).max(initial=0)) + side, *map(len, joined)], default=1)
            # A target is one longer than a multiple: its input lacks the last token, its labels the first.
            padded = np.full((len(rows), _round_up(width - side) + side), self.pad, dtype=np.int64)
            padded[: len(single)] = table[single, : padded.shape[1]]
            for row, ids in zip(padded[len(single) :], joined, strict=True):
                row[: len(ids)] = ids
            sides.append(torch.from_numpy(padded))
        return sides[0], sides[1]

    def _framed(self, side: int, row: tuple[int, ...]) -> NDArray[np.int32]:
        """The ids of a row with the end and, for a target, the start, which is padding as in Marian."""
        start = [self.pad] if side else []
        return np.concatenate([start, *(self.sides[side][n] for n in row), [self.end]]).astype(np.int32)

    def _table(self, side: int) -> NDArray[np.int32]:
        """All pairs of one side, framed and padded to the longest."""
        table = np.full((len(self), _round_up(self.longest) + 1), self.pad, dtype=np.int32)
        column, size = np.arange(table.shape[1]), self.lengths[:, side, None] + side  # targets begin with a start
        table[(column >= side) & (column < size - 1)] = np.concatenate([*self.sides[side], np.empty(0, np.int32)])
        table[column == size - 1] = self.end
        return table


def _round_up(length: int) -> int:
    return -(-length // _MULTIPLE) * _MULTIPLE
