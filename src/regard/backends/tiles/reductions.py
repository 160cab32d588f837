"""The online softmax over tiles (the normaliser, weights @ value), and all reductions in one pass.

Each request has an accumulator: `add(tile)` for every tile, then `result()`.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

import torch
from torch import Tensor
from torch.nn import functional

from regard.backends.contract import HIDDEN, LN2, Dropout, Entropy, Pool, Received, Reduction, Result, Top
from regard.backends.tiles.tile import Tile, dropout_factor, each_tile
from regard.scores import Scores
from regard.support import Float, Int, no_autocast


@no_autocast
def logsumexp(scores: Scores) -> Float[Tensor, "batch heads queries"]:
    """log Σ exp of each row of masked scores (without sinks), in float64: a running maximum and a running sum."""
    peak, total = _running(scores)
    for tile in each_tile(scores, None):
        _absorb(tile, peak, total)
    return _close(peak, total)


@no_autocast
def forward(
    scores: Scores, value: Float[Tensor, "batch key_heads keys any"], dropout: Dropout | None = None
) -> tuple[Float[Tensor, "batch heads queries any"], Float[Tensor, "batch heads queries"]]:
    """(weights @ value, logsumexp), without sinks."""
    batch, heads, queries, _ = scores.shape
    peak, total = _running(scores)
    value = value.to(scores.working_dtype)
    output = value.new_zeros(batch, heads, queries, value.shape[-1])
    for tile in each_tile(scores, None):
        shrink = _absorb(tile, peak, total)  # tile.log2 now holds unnormalised weights
        weights = tile.log2 if dropout is None else tile.log2 * dropout_factor(dropout, tile)
        part = value[tile.batch, tile.key_heads, tile.columns]
        v = part.reshape(tile.lanes, *part.shape[-2:])
        out = output[tile.batch, tile.heads, tile.rows]
        out.mul_(shrink[..., None]).add_((tile.grouped(weights) @ v).view(out.shape))
    output.div_(total[..., None].clamp_min(torch.finfo(total.dtype).tiny))
    lse = _close(peak, total)
    output.masked_fill_((lse == -math.inf)[..., None], 0.0)
    return output.to(scores.query.dtype), lse


def _running(scores: Scores) -> tuple[Tensor, Tensor]:
    peak = scores.query.new_full(scores.shape[:3], HIDDEN, dtype=scores.working_dtype)
    return peak, torch.zeros_like(peak)


def _absorb(tile: Tile, peak: Tensor, total: Tensor) -> Tensor:
    """Update the running maximum and sum with a tile; its logits become weights relative to the new maximum."""
    old, summed = (t[tile.batch, tile.heads, tile.rows] for t in (peak, total))
    new = torch.maximum(old, tile.log2.amax(-1))
    shrink = torch.exp2(old - new)
    torch.exp2(tile.log2.sub_(new[..., None]), out=tile.log2)
    summed.mul_(shrink).add_(tile.log2.sum(-1))
    old.copy_(new)
    return shrink


def _close(peak: Tensor, total: Tensor) -> Tensor:
    return torch.where(peak > HIDDEN / 2, (peak.double() + torch.log2(total)) * LN2, -math.inf)


_STRIP = 8192  # keys that `_Top` searches together
_ROUNDS = 16  # the k up to which k rounds of maxima are faster than torch's topk, from 16 k to 64 k keys
# Keys in a bin of `_Pool`: from the first on, torch's sum is faster than adding one number after the other; from the
# second on, so many float32 numbers added one after the other would lose digits.
_NARROW, _WIDE = 8, 64


class Accumulator:
    """Gathers a result tile by tile."""

    total: Tensor

    def add(self, tile: Tile) -> None:
        """Add one tile. `weights` must stay unchanged; only the last accumulator may overwrite `log2`."""
        raise NotImplementedError

    def finish(self) -> None:
        """Process what was kept back to be processed in larger pieces."""

    def result(self) -> Result:
        """The result, after all tiles."""
        return self.total


@no_autocast
def accumulate(tiles: Iterable[Tile], accumulators: Sequence[Accumulator]) -> None:
    """One pass over the weights, shared by all the accumulators."""
    for tile in tiles:
        for accumulator in accumulators:
            accumulator.add(tile)


def reduce(scores: Scores, tiles: Iterable[Tile], requests: Sequence[Reduction]) -> list[Result]:
    """The results of all requests, in one pass over the tiles."""
    accumulators = [_accumulator(scores, request) for request in requests]
    # A pool of means computes the sums of the columns on its way: with a pool, nothing is added up twice.
    pool = next((a for a in accumulators if isinstance(a, _Pool) and a.reduce == "mean" and not a.copies), None)
    received = next((a for a in accumulators if isinstance(a, _Received) and a.reduce != "max"), None)
    active = [a for a in accumulators if pool is None or a is not received]
    if pool is not None:
        pool.received = received
    accumulate(tiles, sorted(active, key=lambda a: isinstance(a, _Entropy)))
    for accumulator in active:
        accumulator.finish()
    return [accumulator.result() for accumulator in accumulators]


def _accumulator(scores: Scores, request: Reduction) -> Accumulator:
    if isinstance(request, Received):
        return _Received(scores, request.reduce)
    if isinstance(request, Entropy):
        return _Entropy(scores)
    if isinstance(request, Top):
        return _Top(scores, request.k)
    if isinstance(request, Pool):
        return _Pool(scores, request)
    return Product(scores, request.operand, transposed=True)


class _Received(Accumulator):
    """The weights that each key receives over all queries: the sums, means or maxima of the columns."""

    def __init__(self, scores: Scores, reduce: str):
        batch, heads, self.queries, keys = scores.shape
        self.reduce = reduce
        self.total = scores.query.new_zeros(batch, heads, keys, dtype=scores.working_dtype)

    def add(self, tile: Tile) -> None:
        total = self.total[tile.batch, tile.heads, tile.columns]
        if self.reduce == "max":
            torch.maximum(total, tile.weights.amax(2), out=total)
        else:
            total.add_(tile.weights.sum(2))

    def result(self) -> Float[Tensor, "batch heads keys"]:
        return self.total / max(self.queries, 1) if self.reduce == "mean" else self.total


class _Entropy(Accumulator):
    """-Σ p log p of each row. It overwrites the tile's logits, so it comes last."""

    def __init__(self, scores: Scores):
        self.total = scores.query.new_zeros(scores.shape[:3], dtype=scores.working_dtype)

    def add(self, tile: Tile) -> None:
        self.total[tile.batch, tile.heads, tile.rows] -= tile.log2.mul_(tile.weights).sum(-1)

    def result(self) -> Float[Tensor, "batch heads queries"]:
        return self.total * LN2


class _Top(Accumulator):
    """The k largest weights of each row and their keys, exactly.

    The k largest of a row lie in the k blocks with the largest maxima: only those blocks are searched. A search costs
    a row nearly the same however many keys it covers, so tiles are collected until a strip of them is full; a tile with
    all keys is searched at once.
    """

    def __init__(self, scores: Scores, k: int):
        self.k, self.all_keys, shape = k, scores.shape[3], (*scores.shape[:3], k)
        self.best = scores.query.new_full(shape, 2 * HIDDEN, dtype=scores.working_dtype)
        self.keys = scores.query.new_full(shape, -1, dtype=torch.int64)
        self.strip = self.packed = scores.query.new_empty(0)
        self.block: tuple[slice, slice, slice] | None = None  # the batches, heads and rows of the strip
        self.columns = slice(0, 0)  # the keys of the strip
        self.first = True  # whether it is the first strip of these rows

    def add(self, tile: Tile) -> None:
        block, (start, stop) = (tile.batch, tile.heads, tile.rows), (tile.columns.start, tile.columns.stop)
        if tile.columns == slice(0, self.all_keys):
            self.finish()
            self.best[block], self.keys[block] = self._search(tile.log2)
            return
        if block != self.block or stop - self.columns.start > _STRIP:
            same = block == self.block
            self.finish()
            self.block, self.columns, self.first = block, tile.columns, not same
            # Rows whose addresses are a power of two apart share cache lines: a few extra numbers avoid conflicts.
            shape = (*tile.log2.shape[:3], max(min(_STRIP, self.all_keys), tile.log2.shape[-1]) + 48)
            if self.strip.shape != shape:
                self.strip = tile.log2.new_empty(shape)
        self.columns = slice(self.columns.start, stop)
        self.strip[..., start - self.columns.start : stop - self.columns.start] = tile.log2

    def finish(self) -> None:
        if self.block is None:
            return
        values, keys = self._search(self.strip[..., : self.columns.stop - self.columns.start])
        best, best_keys, keys = self.best[self.block], self.keys[self.block], keys + self.columns.start
        if not self.first:
            values, order = torch.cat([best, values], -1).topk(self.k, -1)
            keys = torch.cat([best_keys, keys], -1).gather(-1, order)
        best[..., : values.shape[-1]] = values
        best_keys[..., : keys.shape[-1]] = keys
        self.block = None

    def _search(self, values: Tensor) -> tuple[Tensor, Tensor]:
        """The k largest of each row of a strip, or all of them where it has fewer, and their columns.

        Block b holds the columns b, b + blocks, b + 2 blocks, …: so the maxima are taken over contiguous memory.
        """
        columns = values.shape[-1]
        # torch's topk has a fast path from 64 k numbers on: that many blocks, if blocks are then worth it
        size = min(2 ** (max(columns // (64 * self.k), 1).bit_length() - 1), 32)
        if size == 1:
            rounds = self.k <= _ROUNDS and 16 * self.k <= columns < 64 * self.k
            if rounds and values.dtype == torch.float32 and values.device.type == "cpu":
                return self._rounds(values, min(self.k, columns))
            return values.topk(min(self.k, columns), -1)
        blocks = columns // size
        whole = values[..., : blocks * size].view(*values.shape[:-1], size, blocks)
        chosen = whole.amax(-2).topk(self.k, -1, sorted=False).indices
        steps = torch.arange(0, blocks * size, blocks, device=values.device)
        candidates = (chosen[..., None, :] + steps[:, None]).flatten(-2)
        if blocks * size < columns:  # the last columns, which fill no block
            rest = torch.arange(blocks * size, columns, device=values.device)
            candidates = torch.cat([candidates, rest.expand(*candidates.shape[:-1], -1)], -1)
        best, order = values.gather(-1, candidates).topk(self.k, -1)
        return best, candidates.gather(-1, order)

    def _rounds(self, values: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """`values.topk(k)` in k rounds of `amax`, which is vectorised, unlike topk.

        A float32 leaves 29 bits of a float64 unused: they hold the column, so the maximum also says where it lies.
        """
        if self.packed.shape != values.shape:
            self.packed = values.new_empty(values.shape, dtype=torch.float64)
        packed = self.packed.copy_(values)
        packed.view(torch.int64).bitwise_or_(torch.arange(values.shape[-1]))
        if packed.amax().isnan():  # a NaN, or an infinity: its bits with a column read as NaN
            return values.topk(k, -1)
        best = packed.new_empty(*values.shape[:-1], k)
        keys = torch.empty_like(best, dtype=torch.int64)
        bits = best.view(torch.int64)
        for n in range(k):
            place = slice(n, n + 1)
            torch.amax(packed, -1, keepdim=True, out=best[..., place])
            torch.bitwise_and(bits[..., place], 2**29 - 1, out=keys[..., place])
            packed.scatter_(-1, keys[..., place], -math.inf)
        return best.to(values.dtype), keys

    def result(self) -> tuple[Float[Tensor, "batch heads queries k"], Int[Tensor, "batch heads queries k"]]:
        self.keys.masked_fill_(self.best <= HIDDEN / 2, -1)  # in place: these are the largest tensors here
        return self.best.exp2_(), self.keys


def bin_edges(size: int, bins: int) -> list[int]:
    """Where `bins` nearly equal bins of `size` tokens begin and end: bin i holds edges[i] to edges[i + 1]."""
    return [i * size // max(bins, 1) for i in range(bins + 1)]


class _Pool(Accumulator):
    """The whole matrix as rows × columns bins, each the mean or the maximum of its weights.

    Tiles are first pooled along their rows; a block of rows is pooled along its columns once it is complete. On the way
    the sums of the columns are added to `received`, if it is set.
    """

    def __init__(self, scores: Scores, request: Pool):
        (batch, heads, queries, self.keys), rows, columns = scores.shape, request.rows, request.columns
        self.copies = (rows, columns) == (queries, self.keys)  # as many bins as weights
        self.total = scores.query.new_zeros(batch, heads, rows, columns, dtype=scores.working_dtype)
        self.bands = self.total.new_empty(0)  # a block of rows, pooled along its rows
        self.reduce = request.reduce
        self.received: _Received | None = None
        self.row_edges, self.column_edges = bin_edges(queries, rows), bin_edges(self.keys, columns)
        self.column_bins = _bins(self.column_edges, self.total.device)
        self.block: tuple[slice, slice, slice] | None = None  # the batches, heads and rows being gathered

    def add(self, tile: Tile) -> None:
        if self.copies:
            self.total[tile.batch, tile.heads, tile.rows, tile.columns] = tile.weights
            return
        if (tile.batch, tile.heads, tile.rows) != self.block:
            self.finish()
            self._start(tile)
        band = self.bands[..., tile.columns]
        b, h, _, columns = tile.weights.shape
        if self.even:
            pooled = torch.amax if self.reduce == "max" else torch.sum
            pooled(tile.weights.view(b, h, -1, self.inside[1], columns), 3, out=band)
        elif self.reduce == "max":
            parts = [tile.weights[:, :, a:b].amax(2) for a, b in pairwise(self.inside)]
            band.copy_(torch.stack(parts, 2))
        else:
            _add_to_bins(band, 2, self.row_bins, self.inside, tile.weights)

    def _start(self, tile: Tile) -> None:
        self.block = tile.batch, tile.heads, tile.rows
        first = bisect_right(self.row_edges, tile.rows.start) - 1
        end = bisect_left(self.row_edges, tile.rows.stop)
        self.bins = slice(first, end)
        clipped = [min(max(edge, tile.rows.start), tile.rows.stop) for edge in self.row_edges[first : end + 1]]
        self.inside = [edge - tile.rows.start for edge in clipped]
        self.even = len({b - a for a, b in pairwise(self.inside)}) == 1
        self.row_bins = _bins(self.inside, self.total.device)
        shape = (*tile.weights.shape[:2], end - first, self.keys)
        if self.bands.shape != shape:
            self.bands = self.total.new_empty(shape)
        if not (self.even and tile.columns == slice(0, self.keys)):  # else the first tile overwrites all of them
            self.bands.zero_()

    def finish(self) -> None:
        if self.block is None:
            return
        batch, heads, _ = self.block
        if self.received is not None:
            self.received.total[batch, heads] += self.bands.sum(2)
        total = self.total[batch, heads, self.bins]
        columns = total.shape[-1]
        width, rest = divmod(self.keys, columns)
        if self.reduce == "max":
            total.scatter_reduce_(-1, self.column_bins.expand(self.bands.shape), self.bands, "amax")
        elif columns == self.keys:
            total.add_(self.bands)
        elif width >= _NARROW and not rest:
            total.add_(self.bands.view(*total.shape, -1).sum(-1))
        elif width < _WIDE or not total.is_cpu:
            _add_to_bins(total, -1, self.column_bins, self.column_edges, self.bands)
        else:  # bins of unequal width, as differences of a running sum: in float64, so that no digit is lost
            running = functional.pad(self.bands.cumsum(-1, dtype=torch.float64), (1, 0))[..., self.column_edges]
            total.add_(running.diff(dim=-1))
        self.block = None

    def result(self) -> Float[Tensor, "batch heads rows columns"]:
        if self.reduce == "max" or self.copies:
            return self.total
        heights, widths = (
            torch.tensor(e, device=self.total.device).diff() for e in (self.row_edges, self.column_edges)
        )
        return self.total.div_(heights[:, None] * widths)


def _add_to_bins(total: Tensor, dim: int, bins: Tensor, edges: list[int], values: Tensor) -> None:
    """Add the sum of each bin's values along `dim`, in the same order every time."""
    if total.is_cpu:
        total.index_add_(dim, bins, values)
    else:  # where `index_add_` adds in any order
        total.add_(_sums_of_bins(values.movedim(dim, -1), edges).movedim(-1, dim))


def _sums_of_bins(values: Tensor, edges: list[int]) -> Tensor:
    """The sums of nearly equal bins of the last axis."""
    starts, ends = torch.tensor([edges[:-1], edges[1:]], device=values.device)[..., None]
    places = starts + torch.arange(max(b - a for a, b in pairwise(edges)), device=values.device)
    parts = values[..., places.clamp_max(values.shape[-1] - 1)]
    return parts.masked_fill_(places >= ends, 0.0).sum(-1)


def _bins(edges: list[int], device: torch.device) -> Int[Tensor, " n"]:
    """The bin of each position."""
    return torch.repeat_interleave(torch.tensor(edges, device=device).diff())


class Product(Accumulator):
    """weights @ x, or weightsᵀ @ x; x with the heads of the queries."""

    def __init__(self, scores: Scores, x: Float[Tensor, "batch heads tokens any"], transposed: bool = False):
        batch, heads, queries, keys = scores.shape
        self.x, self.transposed = x.to(scores.working_dtype), transposed
        self.total = self.x.new_zeros(batch, heads, keys if transposed else queries, x.shape[-1])

    def add(self, tile: Tile) -> None:
        """Add the product of one tile."""
        weights, rows, columns = tile.weights, tile.rows, tile.columns
        if self.transposed:
            weights, rows, columns = weights.mT, columns, rows
        self.total[tile.batch, tile.heads, rows] += weights @ self.x[tile.batch, tile.heads, columns]


class RowDot(Accumulator):
    """Σ_j p dL/dp of each row: what the softmax subtracts from the gradient of every score of the row."""

    def __init__(self, scores: Scores, weight_grad: Callable[[Tile], Tensor]):
        self.weight_grad = weight_grad
        self.total = scores.query.new_zeros(scores.shape[:3], dtype=scores.working_dtype)

    def add(self, tile: Tile) -> None:
        """Add the row sums of one tile."""
        self.total[tile.batch, tile.heads, tile.rows] += (tile.weights * self.weight_grad(tile)).sum(-1)
