"""What can be gathered from the weights tile by tile: one small class each, `add(tile)` then `result()`."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from functools import cached_property
from itertools import pairwise

import torch
from torch import Tensor
from torch.nn import functional

from regard.backends.normaliser import HIDDEN
from regard.backends.tiles import Pull, Tile
from regard.scores import Scores
from regard.support import Float, Int

__all__ = ["Entropy", "Pool", "Received", "Reverse", "RowDot", "Straight", "Top", "edges"]

_STRIP = 8192  # keys that `Top` searches together


class _Gathered:
    """What adds its tiles up in `total`: zeros, made when asked for; whoever fills all of it may put its own there."""

    def __init__(self, scores: Scores, *shape: int):
        self.shape, self._like, self._dtype = shape, scores.query, scores.working_dtype

    def empty(self) -> Tensor:
        """As large as `total`, with nothing in it."""
        return self._like.new_empty(self.shape, dtype=self._dtype)

    @cached_property
    def total(self) -> Tensor:
        return self.empty().zero_()


class Received(_Gathered):
    """How much each key receives over all queries: the sums, or the maxima, of the columns."""

    def __init__(self, scores: Scores, reduce: str):
        batch, heads, self.queries, keys = scores.shape
        super().__init__(scores, batch, heads, keys)
        self.reduce = reduce

    def add(self, tile: Tile) -> None:
        here = self.total[tile.batch, tile.heads, tile.columns]
        if self.reduce == "max":
            torch.maximum(here, tile.weights.amax(2), out=here)
        else:
            here.add_(tile.weights.sum(2))

    def result(self) -> Float[Tensor, "batch heads keys"]:
        return self.total / max(self.queries, 1) if self.reduce == "mean" else self.total


class Entropy(_Gathered):
    """-Σ p log p of each row. It uses the tile's logits up, so it comes last."""

    def __init__(self, scores: Scores):
        super().__init__(scores, *scores.shape[:3])

    def add(self, tile: Tile) -> None:
        self.total[tile.batch, tile.heads, tile.rows] -= tile.log2.mul_(tile.weights).sum(-1)

    def result(self) -> Float[Tensor, "batch heads queries"]:
        return self.total * math.log(2.0)


class Top:
    """The k greatest weights of each row and their keys, exactly.

    The k greatest of a row lie in the k blocks with the greatest maxima: only those blocks are searched. A search
    costs a row nearly the same however many keys it covers, so tiles are put by until a strip of them is full.
    """

    def __init__(self, scores: Scores, k: int):
        self.k, self.shape, self.settled = k, (*scores.shape[:3], k), False  # settled: no key is where there is none
        self._like, self._dtype = scores.query, scores.working_dtype
        self.strip = self._like.new_empty(0)
        self.block: tuple[slice, slice, slice] | None = None  # the batches, heads and rows of the strip
        self.columns = slice(0, 0)  # and its keys

    @cached_property
    def best(self) -> Tensor:
        return self._like.new_full(self.shape, 2 * HIDDEN, dtype=self._dtype)

    @cached_property
    def keys(self) -> Tensor:
        return self._like.new_full(self.shape, -1, dtype=torch.int64)

    def settle(self) -> tuple[Tensor, Tensor]:
        """Room for the weights and their keys, to be filled by somebody who knows them all."""
        self.settled = True
        self.best = self._like.new_empty(self.shape, dtype=self._dtype)
        self.keys = self._like.new_empty(self.shape, dtype=torch.int64)
        return self.best, self.keys

    def add(self, tile: Tile) -> None:
        here, (start, stop) = (tile.batch, tile.heads, tile.rows), (tile.columns.start, tile.columns.stop)
        if here != self.block or stop - self.columns.start > _STRIP:
            self._flush()
            self.block, self.columns = here, tile.columns
            self._make_room(tile.log2)
        self.columns = slice(self.columns.start, stop)
        self.strip[..., start - self.columns.start : stop - self.columns.start] = tile.log2

    def _make_room(self, tile: Tensor) -> None:
        # Rows that lie a power of two apart fall on the same lines of a cache: some numbers between them prevent it.
        shape = (*tile.shape[:3], max(_STRIP, tile.shape[-1]) + 48)
        if self.strip.shape != shape:
            self.strip = tile.new_empty(shape)

    def _flush(self) -> None:
        if self.block is None:
            return
        values, keys = self._search(self.strip[..., : self.columns.stop - self.columns.start])
        best, found = self.best[self.block], self.keys[self.block]
        values, order = torch.cat([best, values], -1).topk(self.k, -1)
        keys = torch.cat([found, keys + self.columns.start], -1).gather(-1, order)
        best.copy_(values)
        found.copy_(keys)
        self.block = None

    def _search(self, values: Tensor) -> tuple[Tensor, Tensor]:
        """The k greatest of each row of a tile, or all of them where it has fewer, and their columns.

        Block b holds the columns b, b + blocks, b + 2 blocks, …: so the maxima run along memory.
        """
        columns = values.shape[-1]
        # torch's topk takes a fast way from 64 k numbers on: that many blocks, if the blocks are then worth it
        size = min(2 ** (max(columns // (64 * self.k), 1).bit_length() - 1), 32)
        if size == 1:
            return values.topk(min(self.k, columns), -1)
        blocks = columns // size
        whole = values[..., : blocks * size].view(*values.shape[:-1], size, blocks)
        chosen = whole.amax(-2).topk(self.k, -1, sorted=False).indices
        steps = torch.arange(0, blocks * size, blocks, device=values.device)
        spots = (chosen[..., None, :] + steps[:, None]).flatten(-2)
        if blocks * size < columns:  # what is left over at the end is looked at too
            rest = torch.arange(blocks * size, columns, device=values.device)
            spots = torch.cat([spots, rest.expand(*spots.shape[:-1], -1)], -1)
        found, order = values.gather(-1, spots).topk(self.k, -1)
        return found, spots.gather(-1, order)

    def result(self) -> tuple[Float[Tensor, "batch heads queries k"], Int[Tensor, "batch heads queries k"]]:
        self._flush()
        if not self.settled:  # in place: these are the largest things there are
            self.keys.masked_fill_(self.best <= HIDDEN / 2, -1)
            self.best.exp2_()
        return self.best, self.keys


def edges(size: int, bins: int) -> list[int]:
    """Where `bins` nearly equal bins of `size` things begin and end: bin i holds edges[i] to edges[i + 1]."""
    many = max(bins, 1)
    return [i * size // many for i in range(bins + 1)]


class Pool(_Gathered):
    """The whole matrix as rows × columns bins, each the mean or the maximum of its weights.

    Tiles are first pooled along their rows; a block of rows is pooled along its columns once it is complete. What
    the keys receive falls out on the way: `received` takes it, if given.
    """

    def __init__(self, scores: Scores, rows: int, columns: int, reduce: str, received: Received | None = None):
        batch, heads, queries, keys = scores.shape
        super().__init__(scores, batch, heads, rows, columns)
        self.reduce, self.received = reduce, received
        self.queries, self.keys, self.divided = queries, keys, False
        self.block: tuple[slice, slice, slice] | None = None  # the batches, heads and rows being gathered

    @cached_property
    def row_edges(self) -> list[int]:
        return edges(self.queries, self.shape[2])

    @cached_property
    def column_edges(self) -> list[int]:
        return edges(self.keys, self.shape[3])

    def add(self, tile: Tile) -> None:
        if (tile.batch, tile.heads, tile.rows) != self.block:
            self._flush()
            self._start(tile)
        here = self.bands[..., tile.columns]
        if self.reduce == "max":
            parts = [tile.weights[:, :, a:b].amax(2) for a, b in pairwise(self.inside)]
            here.copy_(torch.stack(parts, 2))
        elif self.even:
            b, h, _, columns = tile.weights.shape
            torch.sum(tile.weights.view(b, h, -1, self.inside[1], columns), 3, out=here)
        else:
            here.copy_(self.member @ tile.weights)

    def _start(self, tile: Tile) -> None:
        self.block = tile.batch, tile.heads, tile.rows
        first = bisect_right(self.row_edges, tile.rows.start) - 1
        end = bisect_left(self.row_edges, tile.rows.stop)
        self.bins = slice(first, end)
        clipped = [min(max(edge, tile.rows.start), tile.rows.stop) for edge in self.row_edges[first : end + 1]]
        self.inside = [edge - tile.rows.start for edge in clipped]
        self.even = len({b - a for a, b in pairwise(self.inside)}) == 1
        line = torch.arange(tile.weights.shape[2], device=self.total.device)
        starts = torch.tensor(self.inside, device=self.total.device)[:, None]
        self.member = ((line >= starts[:-1]) & (line < starts[1:])).to(self.total.dtype)
        self.bands = self.total.new_zeros(*tile.weights.shape[:2], end - first, self.keys)

    def _flush(self) -> None:
        if self.block is None:
            return
        batch, heads, _ = self.block
        if self.received is not None:
            self.received.total[batch, heads] += self.bands.sum(2)
        here = self.total[batch, heads, self.bins]
        columns = here.shape[-1]
        if self.reduce == "max":
            bin_of = torch.repeat_interleave(torch.tensor(self.column_edges, device=here.device).diff())
            here.scatter_reduce_(-1, bin_of.expand(self.bands.shape), self.bands, "amax")
        elif self.keys % columns == 0:
            here.add_(self.bands.view(*here.shape, -1).sum(-1))
        else:  # bins of unequal width, as differences of a running sum: in float64, so nothing is lost in them
            running = functional.pad(self.bands.cumsum(-1, dtype=torch.float64), (1, 0))[..., self.column_edges]
            here.add_(running.diff(dim=-1))
        self.block = None

    def result(self) -> Float[Tensor, "batch heads rows columns"]:
        self._flush()
        if self.reduce == "max" or self.divided:
            return self.total
        heights, widths = (
            torch.tensor(e, device=self.total.device).diff() for e in (self.row_edges, self.column_edges)
        )
        return self.total / (heights[:, None] * widths)


class Reverse:
    """The transposed matrix times x: what each key would receive if every query sent its row of x."""

    def __init__(self, scores: Scores, x: Float[Tensor, "batch heads queries any"]):
        batch, heads, _, keys = scores.shape
        self.x = x.to(scores.working_dtype)
        self.total = self.x.new_zeros(batch, heads, keys, x.shape[-1])

    def add(self, tile: Tile) -> None:
        self.total[tile.batch, tile.heads, tile.columns] += tile.weights.mT @ self.x[tile.batch, tile.heads, tile.rows]

    def result(self) -> Float[Tensor, "batch heads keys any"]:
        return self.total


class Straight:
    """The matrix times y, y given per query head."""

    def __init__(self, scores: Scores, y: Float[Tensor, "batch heads keys any"]):
        self.y = y.to(scores.working_dtype)
        self.total = self.y.new_zeros(*scores.shape[:3], y.shape[-1])

    def add(self, tile: Tile) -> None:
        self.total[tile.batch, tile.heads, tile.rows] += tile.weights @ self.y[tile.batch, tile.heads, tile.columns]

    def result(self) -> Float[Tensor, "batch heads queries any"]:
        return self.total


class RowDot:
    """Σ_j weight × pull of each row: what the softmax takes back from every score of the row."""

    def __init__(self, scores: Scores, pull: Pull):
        self.pull = pull
        self.total = scores.query.new_zeros(scores.shape[:3], dtype=scores.working_dtype)

    def add(self, tile: Tile) -> None:
        self.total[tile.batch, tile.heads, tile.rows] += (tile.weights * self.pull(tile)).sum(-1)

    def result(self) -> Float[Tensor, "batch heads queries"]:
        return self.total
