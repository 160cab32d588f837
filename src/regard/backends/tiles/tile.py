"""The attention matrix in tiles of plain torch, one after the other.

A tile is a block of the matrix that fits in a core's cache. Tiles that the mask hides entirely are skipped, and the
mask is evaluated only where it cuts a tile. Everything is in base 2: torch's CPU `exp` is up to 200 times slower where
it underflows, `exp2` never is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.backends.contract import HIDDEN, LOG2E, TRUSTED, Dropout
from regard.scores import BoundMask, Positions, Scores, key_span, take
from regard.support import Float

_ROWS, _SIZE = 256, 2**17  # rows of a tile, and numbers in it for each thread: two such fit in a core's L2 cache


@dataclass
class Tile:
    """One block of the matrix: slices of the axes (batch, heads, queries, keys) of its Scores, and its numbers."""

    batch: slice
    heads: slice
    key_heads: slice
    rows: slice
    columns: slice
    log2: Float[Tensor, "b h r c"]  # log2 of the weights (or base-2 logits where no normaliser was given)
    weights: Float[Tensor, "b h r c"]
    slope: Float[Tensor, "b h r c"] | None = None  # d capped / d scaled, where there is a softcap

    @property
    def lanes(self) -> int:
        """The number of independent products: batches × key heads."""
        return self.log2.shape[0] * len(range(self.key_heads.start, self.key_heads.stop))

    def grouped(self, tile: Tensor) -> Tensor:
        """A tile as (lanes, group × rows, columns): one product per key head."""
        return tile.reshape(self.lanes, -1, tile.shape[-1])


def dropout_factor(dropout: Dropout, tile: Tile) -> Float[Tensor, "b h r c"]:
    """0 where a weight is dropped, 1 / (1 - rate) elsewhere."""
    device = tile.log2.device
    spans = (tile.batch, tile.heads, tile.rows, tile.columns)
    positions = [torch.arange(s.start, s.stop, device=device) for s in spans]
    mixed = dropout.seed.to(device)
    for axis, position in enumerate(positions):
        mixed = _hash(mixed + position.view([-1 if a == axis else 1 for a in range(4)]) + 1)
    kept = mixed >= int(dropout.rate * 2**32)
    return kept.to(tile.log2.dtype) / (1 - dropout.rate)


def _hash(x: Tensor) -> Tensor:
    """A 32-bit integer mixer (multiply, xor-shift), in int64, which every device supports."""
    for shift, factor in ((16, 0x21F0AAAD), (15, 0x735A2D97)):
        x = ((x ^ (x >> shift)) * factor) & 0xFFFFFFFF
    return x ^ (x >> 15)


def each_tile(scores: Scores, lse: Float[Tensor, "batch heads queries"] | None, slope: bool = False) -> Iterator[Tile]:
    """The tiles that the mask does not hide entirely, by blocks of rows. Buffers are reused for the next tile."""
    batch, heads, queries, keys = scores.shape
    if 0 in (batch, heads, queries, keys):
        return
    group, dtype = scores.group, scores.working_dtype
    rows = min(queries, max(_ROWS // group, 1))
    # One lane (batch × key head) per thread: each core then finds the tile it has just computed in its own cache.
    on_cpu = scores.query.device.type == "cpu"
    threads = torch.get_num_threads() if on_cpu else 1
    room = threads * _SIZE if on_cpu else 2**7 * _SIZE  # a GPU needs large tiles to be busy
    lanes = max(min(threads, batch * heads // group), room // (group * rows * keys))
    columns = min(keys, max(room // (lanes * group * rows), 1))
    factor = scores.scale * LOG2E if scores.softcap is None else scores.scale / scores.softcap
    query, key = scores.query.to(dtype) * factor, scores.key.to(dtype)
    high, low = _split(lse, dtype)
    size = lanes * group * rows * columns
    needed = (True, lse is not None, slope and scores.softcap is not None)
    buffers = [query.new_empty(size if used else 0) for used in needed]  # reused for every tile
    for b, g in _lanes(batch, heads // group, lanes):
        h = slice(g.start * group, g.stop * group)
        b_range, h_range = range(b.start, b.stop), range(h.start, h.stop)
        mask = scores.mask.each(lambda t, b=b_range, h=h_range: take(take(t, 0, b), 1, h))  # type: ignore[misc]
        hidden_keys = _HiddenKeys(mask, query.device)
        key_t = key[b, g].flatten(0, 1).mT  # (lanes, width, keys)
        for start in range(0, queries, rows):
            r = slice(start, min(start + rows, queries))
            positions = scores.rows[r]
            q = query[b, h, r]
            flat = q.reshape(len(key_t), -1, q.shape[-1])
            subtract = [part[b, h, r, None] for part in (high, low) if part is not None]
            for c, masked in _columns(scores, mask, positions, columns):
                key_block = key_t[..., c]
                shape = (*q.shape[:3], c.stop - c.start)
                tile, weights, tanh_slope = (memory[: math.prod(shape)] for memory in buffers)
                dots = tile.view(*flat.shape[:2], shape[3])
                if len(flat) == 1:
                    torch.mm(flat[0], key_block[0], out=dots[0])
                else:
                    torch.bmm(flat, key_block, out=dots)
                tile = tile.view(shape)
                if scores.softcap is not None:
                    tile.tanh_()
                    if slope:
                        torch.mul(tile, tile, out=tanh_slope.view(shape)).neg_().add_(1)
                    tile.mul_(scores.softcap * LOG2E)
                bias = mask.bias_tile(positions, scores.columns[c], dtype) if mask.biased else None
                if bias is not None:
                    tile.add_(bias.to(dtype), alpha=LOG2E).masked_fill_(bias == -math.inf, HIDDEN)
                for part in subtract:
                    tile.sub_(part)
                for cut in masked:
                    hidden = hidden_keys.tile(positions, scores.columns[c][cut])
                    if hidden is not None:
                        tile[..., cut].masked_fill_(hidden, HIDDEN)
                weights = torch.exp2(tile, out=weights.view(shape)) if subtract else tile
                yield Tile(b, h, g, r, c, tile, weights, tanh_slope.view(shape) if needed[2] else None)


def _split(lse: Tensor | None, dtype: torch.dtype) -> tuple[Tensor | None, Tensor | None]:
    """The normaliser in base 2, rounded to the dtype; and the remainder, where logits are so large that it matters."""
    if lse is None:
        return None, None
    # A row that sees no key gets a normaliser that no logit can outweigh: all its weights are 0.
    full = lse.double().masked_fill(lse == -math.inf, -HIDDEN) * LOG2E
    high = full.to(dtype)
    large = (high.abs() > TRUSTED) & (high < -HIDDEN)
    return high, (full - high).to(dtype) if dtype != torch.float64 and large.any() else None


def _lanes(batch: int, key_heads: int, lanes: int) -> Iterator[tuple[slice, slice]]:
    if lanes >= key_heads:
        each = lanes // key_heads
        yield from ((slice(b, min(b + each, batch)), slice(0, key_heads)) for b in range(0, batch, each))
    else:
        for b in range(batch):
            yield from ((slice(b, b + 1), slice(g, min(g + lanes, key_heads))) for g in range(0, key_heads, lanes))


def _columns(scores: Scores, mask: BoundMask, rows: Positions, width: int) -> Iterator[tuple[slice, list[slice]]]:
    """Blocks of keys that these rows can see, and the parts of each block where the mask has to be evaluated."""
    first, whole_first, whole_end, end = key_span(scores, mask, rows)
    for start in range(first, end, width):
        stop = min(start + width, end)
        parts = (start, min(whole_first, stop)), (max(whole_end, start), stop)
        if whole_first >= whole_end:
            parts = (start, stop), (stop, stop)
        yield slice(start, stop), [slice(a - start, b - start) for a, b in parts if a < b]


class _HiddenKeys:
    """The keys that a mask hides in a tile. The last pattern is cached: tiles on the edge of a band repeat it."""

    def __init__(self, mask: BoundMask, device: torch.device):
        self.mask, self.device = mask, device
        self.key: tuple[int, ...] = ()
        self.last: Tensor | None = None

    def tile(self, rows: Positions, columns: Positions) -> Tensor | None:
        """True where a column is hidden from a row; None where nothing is hidden."""
        key: tuple[int, ...] = ()
        if self.mask.only_bands and isinstance(rows, range) and isinstance(columns, range):
            key = (columns.start - rows.start, len(rows), rows.step, len(columns), columns.step)
        if not key or key != self.key:
            visible = self.mask.tile(rows, columns, self.device)
            self.key, self.last = key, None if visible is None else ~visible
        return self.last
