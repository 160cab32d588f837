"""What can be gathered from the weights tile by tile: one small class each, `add(tile)` then `result()`."""

from __future__ import annotations

import math
from itertools import pairwise

import torch
from torch import Tensor

from regard.backends.tiled import HIDDEN, Pull, Tile
from regard.scores import Scores
from regard.shapes import Float, Int

__all__ = ["Entropy", "Pool", "Received", "Reverse", "RowDot", "Straight", "Top", "edges"]

_BLOCK = 32  # keys whose maximum stands for them while the top is searched


class Received:
    """How much each key receives over all queries: the sums, or the maxima, of the columns."""

    def __init__(self, scores: Scores, reduce: str):
        batch, heads, self.queries, keys = scores.shape
        self.reduce = reduce
        self.total = scores.query.new_zeros(batch, heads, keys, dtype=scores.working_dtype)

    def add(self, tile: Tile) -> None:
        here = self.total[tile.batch, tile.heads, tile.columns]
        if self.reduce == "max":
            torch.maximum(here, tile.weights.amax(2), out=here)
        else:
            here.add_(tile.weights.sum(2))

    def result(self) -> Float[Tensor, "batch heads keys"]:
        return self.total / max(self.queries, 1) if self.reduce == "mean" else self.total


class Entropy:
    """-Σ p log p of each row. It uses the tile's logits up, so it comes last."""

    def __init__(self, scores: Scores):
        self.total = scores.query.new_zeros(scores.shape[:3], dtype=scores.working_dtype)

    def add(self, tile: Tile) -> None:
        self.total[tile.batch, tile.heads, tile.rows] -= tile.log2.mul_(tile.weights).sum(-1)

    def result(self) -> Float[Tensor, "batch heads queries"]:
        return self.total * math.log(2.0)


class Top:
    """The k greatest weights of each row and their keys, exactly.

    The k greatest of a row lie in the k blocks with the greatest maxima: only those blocks are searched.
    """

    def __init__(self, scores: Scores, k: int):
        self.k = k
        shape = (*scores.shape[:3], k)
        self.best = scores.query.new_full(shape, 2 * HIDDEN, dtype=scores.working_dtype)
        self.keys = torch.full(shape, -1, device=self.best.device)

    def add(self, tile: Tile) -> None:
        values, start = tile.log2, tile.columns.start
        blocks = values.shape[-1] // _BLOCK
        if blocks > 2 * self.k:
            values, keys = self._search(values, blocks)
        else:
            keys = torch.arange(values.shape[-1], device=values.device).expand(values.shape)
        best, found = (t[tile.batch, tile.heads, tile.rows] for t in (self.best, self.keys))
        values, order = torch.cat([best, values], -1).topk(self.k, -1)
        best.copy_(values)
        found.copy_(torch.cat([found, keys + start], -1).gather(-1, order))

    def _search(self, values: Tensor, blocks: int) -> tuple[Tensor, Tensor]:
        """The candidates of a wide tile: the k blocks with the greatest maxima, and what is left over at its end."""
        whole = values[..., : blocks * _BLOCK].reshape(*values.shape[:-1], blocks, _BLOCK)
        chosen = whole.amax(-1).topk(self.k, -1, sorted=False).indices
        inside = whole.gather(-2, chosen[..., None].expand(*chosen.shape, _BLOCK)).flatten(-2)
        keys = (chosen[..., None] * _BLOCK + torch.arange(_BLOCK, device=values.device)).flatten(-2)
        rest = torch.arange(blocks * _BLOCK, values.shape[-1], device=values.device)
        return (
            torch.cat([inside, values[..., blocks * _BLOCK :]], -1),
            torch.cat([keys, rest.expand(*keys.shape[:-1], -1)], -1),
        )

    def result(self) -> tuple[Float[Tensor, "batch heads queries k"], Int[Tensor, "batch heads queries k"]]:
        seen = self.best > HIDDEN / 2
        return torch.exp2(self.best), torch.where(seen, self.keys, -1)


def edges(size: int, bins: int) -> list[int]:
    """Where `bins` nearly equal bins of `size` things begin and end: bin i holds edges[i] to edges[i + 1]."""
    return [i * size // max(bins, 1) for i in range(bins + 1)]


class Pool:
    """The whole matrix as rows × columns bins, each the mean or the maximum of its weights."""

    def __init__(self, scores: Scores, rows: int, columns: int, reduce: str):
        batch, heads, queries, keys = scores.shape
        self.reduce = reduce
        self.total = scores.query.new_zeros(batch, heads, rows, columns, dtype=scores.working_dtype)
        self.row_edges, self.column_edges = (
            torch.tensor(edges(size, bins), device=self.total.device)
            for size, bins in ((queries, rows), (keys, columns))
        )

    def add(self, tile: Tile) -> None:
        top, bottom, rows = _cover(self.row_edges, tile.rows)
        left, right, columns = _cover(self.column_edges, tile.columns)
        here = self.total[tile.batch, tile.heads, top:bottom, left:right]
        if self.reduce == "max":
            bands = torch.stack([tile.weights[:, :, a:b].amax(2) for a, b in pairwise(rows)], 2)
            bin_of = torch.repeat_interleave(torch.tensor(columns, device=bands.device).diff())
            found = here.new_zeros(here.shape).scatter_reduce_(-1, bin_of.expand(bands.shape), bands, "amax")
            torch.maximum(here, found, out=here)
            return
        line = torch.arange(rows[-1], device=here.device)
        starts = torch.tensor(rows, device=here.device)[:, None]
        member = ((line >= starts[:-1]) & (line < starts[1:])).to(here.dtype)
        bands = member @ tile.weights
        # Sums over bins of any width as differences of a running sum: float64, so nothing is lost in them.
        running = torch.nn.functional.pad(bands.cumsum(-1, dtype=torch.float64), (1, 0))[..., columns]
        here.add_(running.diff(dim=-1))

    def result(self) -> Float[Tensor, "batch heads rows columns"]:
        if self.reduce == "max":
            return self.total
        return self.total / (self.row_edges.diff()[:, None] * self.column_edges.diff())


def _cover(borders: Tensor, part: slice) -> tuple[int, int, list[int]]:
    """The bins that a part touches, first:end, and their borders inside it, counted from its start."""
    first = int(torch.searchsorted(borders, part.start, right=True)) - 1
    end = int(torch.searchsorted(borders, part.stop))
    return first, end, (borders[first : end + 1].clamp(part.start, part.stop) - part.start).tolist()


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
