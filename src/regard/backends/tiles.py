"""The attention matrix in tiles of plain torch: any device, any mask, O(tokens) memory.

A tile is a block of the matrix that fits in a core's cache. `sweep` walks over all tiles once and hands each to the
reductions that were asked for; `forward`, `logsumexp` and `backward` are the softmax and its gradient on the same
tiles. Work is done in base 2: torch's CPU `exp` is up to 200 times slower where it underflows, `exp2` never is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from regard.backends.normaliser import HIDDEN, LN2, LOG2E, TRUSTED, capturing, share, trusted
from regard.scores import BoundMask, Positions, Scores
from regard.support import Float, no_autocast

__all__ = ["Dropout", "Reduction", "Tile", "backward", "capturing", "forward", "logsumexp", "share", "sweep", "trusted"]

_ROWS, _SIZE = 256, 2**17  # rows of a tile, and numbers in it for each thread: two such fit in a core's L2 cache


@dataclass
class Tile:
    """One block of the matrix; the slices say which, in the axes (batch, heads, queries, keys) of its Scores."""

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
        """Independent products in this tile: batches × key heads."""
        return self.log2.shape[0] * len(range(self.key_heads.start, self.key_heads.stop))

    def grouped(self, tile: Tensor) -> Tensor:
        """A tile as (lanes, group × rows, columns): one product per key head."""
        return tile.reshape(self.lanes, -1, tile.shape[-1])


@runtime_checkable
class Reduction(Protocol):
    """Something that is gathered tile by tile."""

    def add(self, tile: Tile) -> None:
        """Take one tile in; `weights` stays as it is, `log2` may be used up by the last reduction."""


@dataclass(frozen=True)
class Dropout:
    """Which weights are dropped: a pure function of (seed, position), so no tile and no pass has to be remembered."""

    rate: float
    seed: Tensor

    def factor(self, tile: Tile) -> Tensor:
        """0 where a weight is dropped, 1 / (1 - rate) elsewhere."""
        device = tile.log2.device
        spans = (tile.batch, tile.heads, tile.rows, tile.columns)
        spots = [torch.arange(s.start, s.stop, device=device) for s in spans]
        mixed = self.seed.to(device)
        for axis, spot in enumerate(spots):
            mixed = _hash(mixed + spot.view([-1 if a == axis else 1 for a in range(4)]) + 1)
        kept = mixed >= int(self.rate * 2**32)
        return kept.to(tile.log2.dtype) / (1 - self.rate)


def _hash(x: Tensor) -> Tensor:
    """A 32-bit integer mixer (multiply, xor-shift), in int64 so that every device has it."""
    for shift, factor in ((16, 0x21F0AAAD), (15, 0x735A2D97)):
        x = ((x ^ (x >> shift)) * factor) & 0xFFFFFFFF
    return x ^ (x >> 15)


def tiles(
    scores: Scores,
    normaliser: Float[Tensor, "batch heads queries"] | None,
    slope: bool = False,
) -> Iterator[Tile]:
    """Every tile that the mask does not empty, row block by row block; buffers are reused from tile to tile."""
    batch, heads, queries, keys = scores.shape
    if 0 in (batch, heads, queries, keys):
        return
    group, dtype = scores.group, scores.working_dtype
    rows = min(queries, max(_ROWS // group, 1))
    # One lane for each thread: then every step of a tile finds its numbers in the cache of the core that made them.
    on_cpu = scores.query.device.type == "cpu"
    threads = torch.get_num_threads() if on_cpu else 1
    room = threads * _SIZE if on_cpu else 2**7 * _SIZE  # a GPU wants much at a time
    lanes = max(min(threads, batch * heads // group), room // (group * rows * keys))
    columns = min(keys, max(room // (lanes * group * rows), 1))
    factor = scores.scale * LOG2E if scores.softcap is None else scores.scale / scores.softcap
    query, key = scores.query.to(dtype) * factor, scores.key.to(dtype)
    high, low = _split(normaliser, dtype)
    size = lanes * group * rows * columns
    wanted = (True, normaliser is not None, slope and scores.softcap is not None)
    logits, weights, slopes = (_Buffer(query, size if needed else 0) for needed in wanted)
    for b, g in _lanes(batch, heads // group, lanes):
        h = slice(g.start * group, g.stop * group)
        mask = scores.mask.each(lambda t, b=b, h=h: _cut(_cut(t, 0, b), 1, h))  # type: ignore[misc]
        hides = _Hides(mask, query.device)
        turned = key[b, g].flatten(0, 1).mT  # (lanes, width, keys)
        runs: dict[tuple[int, int], Tensor] = {}  # parts of it: made once, not for every tile
        for start in range(0, queries, rows):
            r = slice(start, min(start + rows, queries))
            here = scores.rows[r]
            q = query[b, h, r]
            flat = q.reshape(len(turned), -1, q.shape[-1])
            subtract = [part[b, h, r, None] for part in (high, low) if part is not None]
            for c, masked in _columns(scores, mask, here, columns):
                run = runs.get((c.start, c.stop))
                if run is None:
                    run = runs[c.start, c.stop] = turned[..., c]
                shape = (*q.shape[:3], c.stop - c.start)
                tile, dots = logits.shaped(shape, flat.shape[:2])
                if len(flat) == 1:
                    torch.mm(flat[0], run[0], out=dots[0])
                else:
                    torch.bmm(flat, run, out=dots)
                bent = None
                if scores.softcap is not None:
                    tile.tanh_()
                    if slope:
                        bent, _ = slopes.shaped(shape, flat.shape[:2])
                        torch.mul(tile, tile, out=bent).neg_().add_(1)
                    tile.mul_(scores.softcap * LOG2E)
                if mask.biases:
                    bias = mask.bias_tile(here, scores.columns[c])
                    assert bias is not None
                    tile.add_(bias.to(dtype), alpha=LOG2E).masked_fill_(bias == -math.inf, HIDDEN)
                for part in subtract:
                    tile.sub_(part)
                for some in masked:
                    hidden = hides.tile(here, scores.columns[c][some])
                    if hidden is not None:
                        tile[..., some].masked_fill_(hidden, HIDDEN)
                out = torch.exp2(tile, out=weights.shaped(shape, flat.shape[:2])[0]) if subtract else tile
                yield Tile(b, h, g, r, c, tile, out, bent)


class _Buffer:
    """Memory that is used again for every tile; its last view is kept, for most tiles are alike."""

    def __init__(self, like: Tensor, size: int):
        self.memory = like.new_empty(size)
        self.shape: tuple[int, ...] = ()

    def shaped(self, shape: tuple[int, ...], folded: tuple[int, ...]) -> tuple[Tensor, Tensor]:
        """The buffer as (batch, heads, rows, columns), and as (lanes, group × rows, columns)."""
        if shape != self.shape:
            self.shape = shape
            self.tile = self.memory[: math.prod(shape)].view(shape)
            self.folded = self.tile.view(*folded, shape[-1])
        return self.tile, self.folded


def _split(normaliser: Tensor | None, dtype: torch.dtype) -> tuple[Tensor | None, Tensor | None]:
    """The normaliser in base 2 as what the dtype can hold and, where logits are so large that it matters, the rest."""
    if normaliser is None:
        return None, None
    # A row that sees nothing: no logit may outweigh its normaliser.
    full = normaliser.double().masked_fill(normaliser == -math.inf, -HIDDEN) * LOG2E
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


def _cut(tensor: Tensor, axis: int, part: slice) -> Tensor:
    return tensor if tensor.shape[axis] == 1 else tensor[(slice(None),) * axis + (part,)]


def _columns(scores: Scores, mask: BoundMask, rows: Positions, width: int) -> Iterator[tuple[slice, list[slice]]]:
    """Runs of keys that these rows can see, and the parts of each run where the mask has to be asked."""
    first, whole_first, whole_end, end = key_span(scores, mask, rows)
    for start in range(first, end, width):
        stop = min(start + width, end)
        parts = (start, min(whole_first, stop)), (max(whole_end, start), stop)
        if whole_first >= whole_end:
            parts = (start, stop), (stop, stop)
        yield slice(start, stop), [slice(a - start, b - start) for a, b in parts if a < b]


class _Hides:
    """What a mask hides in a tile, with the last pattern kept: along a band, one tile on its edge is like the next."""

    def __init__(self, mask: BoundMask, device: torch.device):
        self.mask, self.device = mask, device
        self.key: tuple[int, ...] = ()
        self.last: Tensor | None = None

    def tile(self, rows: Positions, columns: Positions) -> Tensor | None:
        """True where one of these columns is hidden from one of these rows; None where none is."""
        key: tuple[int, ...] = ()
        if self.mask.only_bands and isinstance(rows, range) and isinstance(columns, range):
            key = (columns.start - rows.start, len(rows), rows.step, len(columns), columns.step)
        if not key or key != self.key:
            visible = self.mask.tile(rows, columns, self.device)
            self.key, self.last = key, None if visible is None else ~visible
        return self.last


def key_span(scores: Scores, mask: BoundMask, rows: Positions) -> tuple[int, int, int, int]:
    """`BoundMask.span` in the indices of these scores' own keys, which may be a part of all keys."""
    keys, columns = scores.shape[3], scores.columns
    if not mask:
        return 0, 0, keys, keys
    if isinstance(columns, Tensor):
        return 0, 0, 0, keys
    first, whole_first, whole_end, end = (
        min(max(-((columns.start - place) // columns.step), 0), keys) for place in mask.span(rows, columns.stop)
    )
    return first, whole_first, whole_end, end


@no_autocast
def sweep(scores: Scores, normaliser: Float[Tensor, "batch heads queries"], reductions: Sequence[Reduction]) -> None:
    """One walk over the weights, shared by all the reductions."""
    for tile in tiles(scores, normaliser):
        for reduction in reductions:
            reduction.add(tile)


@no_autocast
def logsumexp(scores: Scores) -> Float[Tensor, "batch heads queries"]:
    """log Σ exp of each row of masked scores (without sinks), in float64: a running maximum and a running sum."""
    peak, total = _running(scores)
    for tile in tiles(scores, None):
        _absorb(tile, peak, total)
    return _close(peak, total)


@no_autocast
def forward(
    scores: Scores, value: Float[Tensor, "batch key_heads keys any"], dropout: Dropout | None = None
) -> tuple[Float[Tensor, "batch heads queries any"], Float[Tensor, "batch heads queries"]]:
    """(weights @ value, logsumexp), without sinks: the online softmax."""
    batch, heads, queries, _ = scores.shape
    peak, total = _running(scores)
    value = value.to(scores.working_dtype)
    output = value.new_zeros(batch, heads, queries, value.shape[-1])
    for tile in tiles(scores, None):
        shrink = _absorb(tile, peak, total)  # tile.log2 now holds unnormalised weights
        weights = tile.log2 if dropout is None else tile.log2 * dropout.factor(tile)
        v = value[tile.batch, tile.key_heads, tile.columns].reshape(tile.lanes, -1, value.shape[-1])
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
    """Take a tile into the running maximum and sum; its logits become weights over that maximum."""
    old, summed = (t[tile.batch, tile.heads, tile.rows] for t in (peak, total))
    new = torch.maximum(old, tile.log2.amax(-1))
    shrink = torch.exp2(old - new)
    torch.exp2(tile.log2.sub_(new[..., None]), out=tile.log2)
    summed.mul_(shrink).add_(tile.log2.sum(-1))
    old.copy_(new)
    return shrink


def _close(peak: Tensor, total: Tensor) -> Tensor:
    return torch.where(peak > HIDDEN / 2, (peak.double() + torch.log2(total)) * LN2, -math.inf)


Pull = Callable[[Tile], Tensor]


@no_autocast
def backward(
    scores: Scores,
    normaliser: Float[Tensor, "batch heads queries"],
    pull: Pull | None,
    mass: Float[Tensor, "batch heads queries"] | None,
) -> tuple[Tensor, Tensor, tuple[Tensor, ...]]:
    """Gradients of (query, key, biases) where each masked score receives weight × (pull + mass of its row)."""
    dtype, width = scores.working_dtype, scores.query.shape[-1]
    query, key = scores.query.to(dtype), scores.key.to(dtype)
    d_query, d_key = torch.zeros_like(query), torch.zeros_like(key)
    d_biases = tuple(torch.zeros_like(bias, dtype=dtype) for bias in scores.mask.biases)
    for tile in tiles(scores, normaliser, slope=True):
        push = tile.weights.new_zeros(()) if pull is None else pull(tile)
        if mass is not None:
            push = push + mass[tile.batch, tile.heads, tile.rows, None]
        push = tile.weights * push
        for d_bias in d_biases:
            _scatter(d_bias, push, scores, tile)
        if tile.slope is not None:
            push = push * tile.slope
        push = tile.grouped(push)
        q = query[tile.batch, tile.heads, tile.rows].reshape(tile.lanes, -1, width)
        k = key[tile.batch, tile.key_heads, tile.columns]
        d_q = d_query[tile.batch, tile.heads, tile.rows]
        d_q.add_((push @ k.reshape(tile.lanes, -1, width)).view(d_q.shape), alpha=scores.scale)
        d_k = d_key[tile.batch, tile.key_heads, tile.columns]
        d_k.add_((push.mT @ q).view(d_k.shape), alpha=scores.scale)
    return d_query, d_key, d_biases


def _scatter(d_bias: Tensor, push: Tensor, scores: Scores, tile: Tile) -> None:
    """Add a tile of gradients to a bias, summed over the axes that the bias shares."""
    places = (tile.batch, tile.heads, scores.rows[tile.rows], scores.columns[tile.columns])
    index: list[slice | Tensor] = []
    for axis, (size, place) in enumerate(zip(d_bias.shape, places, strict=True)):
        if size == 1:
            push = push.sum(axis, keepdim=True)
            index.append(slice(None))
        elif isinstance(place, range):
            index.append(slice(place.start, place.stop, place.step))
        else:
            index.append(place)
    if any(isinstance(place, Tensor) for place in index):
        axes = [torch.arange(n, device=push.device)[i] for n, i in zip(d_bias.shape, index, strict=True)]
        d_bias.index_put_(torch.meshgrid(*axes, indexing="ij"), push, accumulate=True)
    else:
        d_bias[tuple(index)] += push
