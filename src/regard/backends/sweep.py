"""Sight on a GPU: the reductions, the softmax and its gradient by the Triton kernels of kernels.py.

Here are the hands of those kernels: how large their blocks are, how they are called, and where their results go.
Nothing here is of the size queries × keys.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from itertools import zip_longest
from typing import Any

import torch
from torch import Tensor

from regard.backends import reductions
from regard.backends.given import FAR, Given, described, lay_out, power
from regard.backends.tiled import HIDDEN, LOG2E, TRUSTED
from regard.exact import exact
from regard.scores import Scores
from regard.shapes import Float

__all__ = ["backward", "forward", "logsumexp", "suits", "sweep", "takes"]

_DTYPES = (torch.float16, torch.bfloat16, torch.float32)
_WIDEST = 256
_ROOM = 2**25  # bytes of what is put by on the way to `top`
_LATER = 256  # tiles that a block of rows may put by
DEVICES = {"cuda"}  # the tests add "cpu": Triton's interpreter


@cache
def _installed() -> bool:
    return find_spec("triton") is not None


def suits(scores: Scores, value: Tensor | None = None) -> bool:
    """Whether the kernels can compute these scores."""
    if scores.query.device.type not in DEVICES or scores.query.dtype not in _DTYPES or 0 in scores.shape:
        return False
    if scores.query.shape[-1] > _WIDEST or (value is not None and not 0 < value.shape[-1] <= _WIDEST):
        return False
    mask, places = scores.mask, (scores.rows, scores.columns)
    runs = all(isinstance(place, range) and place.step == 1 for place in places)
    few = len(mask.visible) <= 1 and len(mask.biases) <= 1 and len(mask.ids) <= 1
    return runs and few and max(scores.shape) < FAR and _installed()


def takes(scores: Scores, reduction: Any) -> bool:
    """Whether the kernels know this reduction."""
    _, _, queries, keys = scores.shape
    if isinstance(reduction, reductions.Pool):
        return reduction.reduce == "mean" and _pooling(queries, keys, *reduction.total.shape[2:]) is not None
    if isinstance(reduction, reductions.Top):
        return reduction.k <= 16
    if isinstance(reduction, reductions.Reverse):
        return reduction.x.shape[-1] <= _WIDEST and reduction.x.shape[-1] > 0
    return isinstance(reduction, (reductions.Received, reductions.Entropy))


def _normalised(normaliser: Tensor) -> tuple[Tensor, Tensor | None]:
    """The normaliser in base 2 as float32 and, where that has too few digits for it, the rest."""
    if normaliser.dtype == torch.float32:  # a kernel's: it has no more digits than these
        high = (normaliser * LOG2E).masked_fill(normaliser == -math.inf, -HIDDEN)
        return high.contiguous(), None
    full = normaliser.double().masked_fill(normaliser == -math.inf, -HIDDEN) * LOG2E
    high = full.float()
    large = (high.abs() > TRUSTED) & (high < -HIDDEN)
    return high.contiguous(), (full - high).float().contiguous() if large.any() else None


# Blocks, chosen by hand on an H200: (rows, columns, warps, stages) for halves of width up to 64, 128, 256; and float32.
BLOCKS: dict[str, list[tuple[int, int, int, int]]] = {
    "forward": [(64, 64, 4, 3), (64, 64, 4, 3), (64, 32, 4, 2), (32, 32, 4, 2)],
    "rows": [(64, 64, 4, 3), (128, 64, 4, 3), (64, 64, 4, 2), (32, 32, 4, 2)],
    "pick": [(64, 128, 4, 3), (64, 128, 4, 3), (64, 64, 4, 2), (32, 32, 4, 2)],
    "columns": [(64, 64, 4, 3), (128, 64, 4, 3), (64, 64, 4, 2), (32, 32, 4, 2)],
    "back_query": [(64, 64, 4, 2), (64, 64, 8, 2), (32, 32, 4, 1), (16, 16, 4, 1)],
    "back_key": [(64, 64, 4, 2), (32, 64, 8, 2), (32, 32, 4, 1), (16, 16, 4, 1)],
}


def _blocks(name: str, scores: Scores, *others: int) -> tuple[int, int, dict[str, int]]:
    width = max(scores.query.shape[-1], *others) if others else scores.query.shape[-1]
    kind = 3 if scores.query.dtype == torch.float32 else 0 if width <= 64 else 1 if width <= 128 else 2
    rows, columns, warps, stages = BLOCKS[name][kind]
    return rows, columns, {"num_warps": warps, "num_stages": stages}


def _grid(tokens: int, block: int, lanes: int) -> tuple[int, int]:
    return -(-tokens // block), lanes


@exact
def forward(
    scores: Scores, value: Float[Tensor, "batch key_heads keys any"] | None
) -> tuple[Float[Tensor, "batch heads queries any"], Float[Tensor, "batch heads queries"]]:
    """(weights @ value, logsumexp), without sinks."""
    from regard.backends import kernels

    batch, heads, queries, _ = scores.shape
    width = 0 if value is None else value.shape[-1]
    rows, columns, options = _blocks("forward", scores, width)
    given = lay_out(scores, rows, columns)
    held, layout = (given.key, given.layouts[1]) if value is None else described(value, columns)
    output = scores.query.new_empty(batch, heads, queries, max(width, 1))
    lse = scores.query.new_empty(batch, heads, queries, dtype=torch.float32)
    kernels.forward[_grid(queries, rows, batch * heads)](
        given.query, given.key, held, output, lse, *given.common, (*given.layouts, layout), *given.numbers,
        given.mask, FLAGS=given.flags, VALUES=value is not None, WIDTH=max(width, 1), EXACT=given.exact, BM=rows,
        BN=columns, BV=held.block_shape[1] if value is not None else 1, **options,
    )  # fmt: skip
    return output, lse


def logsumexp(scores: Scores) -> Float[Tensor, "batch heads queries"]:
    """log Σ exp of each row of masked scores (without sinks), in float32."""
    return forward(scores, None)[1]


@exact
def sweep(scores: Scores, normaliser: Float[Tensor, "batch heads queries"], wanted: Sequence[Any]) -> None:
    """Fill these reductions, all of which `takes` must know: one pass for the columns, one or two for the rows."""
    norm, rest = _normalised(normaliser)
    pools = [r for r in wanted if isinstance(r, reductions.Pool)]
    for reduction in wanted:
        if isinstance(reduction, reductions.Pool):
            _columns(scores, norm, rest, pool=reduction)
        elif isinstance(reduction, reductions.Reverse):
            _columns(scores, norm, rest, reverse=reduction)
        elif isinstance(reduction, reductions.Received) and not any(p.received is reduction for p in pools):
            _columns(scores, norm, rest, received=reduction)
    entropies = [r for r in wanted if isinstance(r, reductions.Entropy)]
    tops = [r for r in wanted if isinstance(r, reductions.Top)]
    for entropy, top in zip_longest(entropies, tops):
        _rows(scores, norm, rest, entropy, top)


def _rows(
    scores: Scores, norm: Tensor, rest: Tensor | None, entropy: reductions.Entropy | None, top: reductions.Top | None
) -> None:
    from regard.backends import kernels

    batch, heads, queries, _ = scores.shape
    rows, columns, options = _blocks("rows", scores)
    given = lay_out(scores, rows, columns)
    bound = norm if top is None else torch.empty_like(norm)
    kernels.rows[_grid(queries, rows, batch * heads)](
        given.query, given.key, norm, norm if rest is None else rest, norm if entropy is None else entropy.total, bound,
        *given.common, given.layouts, *given.numbers, given.mask, FLAGS=_flagged(given, rest),
        ENTROPY=entropy is not None, BEST=0 if top is None else top.k, EXACT=given.exact, BM=rows, BN=columns,
        **options,
    )  # fmt: skip
    if top is not None:
        _pick(scores, norm, rest, bound, top)


def _pick(scores: Scores, norm: Tensor, rest: Tensor | None, bound: Tensor, top: reductions.Top) -> None:
    """The k greatest of each row among the few that reach its bound, for some heads and rows at a time."""
    from regard.backends import kernels, tiled

    batch, heads, queries, _ = scores.shape
    rows, columns, options = _blocks("pick", scores)
    given = lay_out(scores, rows, columns)
    room = 4 * power(top.k)
    each = max(_ROOM // (rows * (room * 8 + _LATER * 4)), 1)  # blocks of rows
    high = min(each, -(-queries // rows))
    wide = min(max(each // high, 1), batch * heads)
    found = norm.new_empty(wide * high * rows * room)
    keys, kept, over = (
        torch.empty(size, dtype=torch.int32, device=norm.device)
        for size in (wide * high * rows * room, wide * high * _LATER, wide * high)
    )
    full = torch.zeros((), dtype=torch.bool, device=norm.device)
    for skip in range(0, batch * heads, wide):
        for above in range(0, -(-queries // rows), high):
            grid = min(high, -(-queries // rows) - above), min(wide, batch * heads - skip)
            kernels.pick[grid](
                given.query, given.key, norm, norm if rest is None else rest, bound, found, keys, kept, top.best,
                top.keys, over, *given.common, given.layouts, *given.numbers, given.mask, skip, above,
                FLAGS=_flagged(given, rest), TOP=top.k, ROOM=room, LATER=_LATER, EXACT=given.exact, BM=rows,
                BN=columns, **options,
            )  # fmt: skip
            full |= over[: grid[0] * grid[1]].any()
    if bool(full):  # so many alike that the room was too small: the long way
        plain = reductions.Top(scores, top.k)
        tiled.sweep(scores, _whole(norm, rest), [plain])
        plain._flush()
        top.best, top.keys = plain.best, plain.keys


def _whole(norm: Tensor, rest: Tensor | None) -> Tensor:
    """The normaliser, back from base 2."""
    full = norm.double() if rest is None else norm.double() + rest.double()
    return torch.where(norm < -HIDDEN / 2, full / LOG2E, -math.inf)


def _columns(
    scores: Scores,
    norm: Tensor,
    rest: Tensor | None,
    received: reductions.Received | None = None,
    reverse: reductions.Reverse | None = None,
    pool: reductions.Pool | None = None,
) -> None:
    from regard.backends import kernels

    batch, heads, queries, keys = scores.shape
    rows, columns, options = _blocks("columns", scores, 0 if reverse is None else reverse.x.shape[-1])
    pooling, high, wide, bins = 0, 1, 1, (1, 1)
    store, lanes = norm, batch * heads
    if pool is not None:
        bins = (pool.total.shape[2], pool.total.shape[3])
        found = _pooling(queries, keys, *bins)
        assert found is not None
        pooling, high, wide = found
        received, store = pool.received, pool.total
    if pooling == 1:
        rows, columns = min(rows, high), min(columns, wide)
        blocks = bins[0], -(-keys // columns), 2
        lanes = min(max(_ROOM // (4 * math.prod(blocks)), 1), lanes)
        store = norm.new_empty(lanes, *blocks)
    elif pooling == 2:
        rows, columns = max(rows, high), max(columns, wide)
    given = lay_out(scores, rows, columns)
    total = norm.new_empty(batch, heads, keys) if received is None else received.total
    x, layout, out, width = given.query, given.layouts[0], norm, 1
    if reverse is not None:
        # As the user handed it in: halves go to the tensor cores as halves.
        half = reverse.x if scores.query.dtype == torch.float32 else reverse.x.to(scores.query.dtype)
        x, layout = described(half, rows)
        out, width = reverse.total, reverse.x.shape[-1]
    for skip in range(0, batch * heads, lanes):
        some = min(lanes, batch * heads - skip)
        if pooling == 1:
            store.zero_()
        kernels.columns[_grid(keys, columns, some)](
            given.query, given.key, norm, norm if rest is None else rest, total, x, out, store, *given.common,
            (*given.layouts, layout), *given.numbers, given.mask, bins, skip, FLAGS=_flagged(given, rest),
            MOST=received is not None and received.reduce == "max", POOLING=pooling, TIMES=reverse is not None,
            EXACT=given.exact, BM=rows, BN=columns, BX=x.block_shape[1] if reverse is not None else 1, WIDTH=width,
            HIGH=high if pooling == 2 else 1, WIDE=wide if pooling == 2 else 1, **options,
        )  # fmt: skip
        if pooling == 1 and pool is not None:
            _gather(store[:some], pool.total.view(-1, *bins)[skip : skip + some], keys, columns)


def _gather(store: Tensor, total: Tensor, keys: int, columns: int) -> None:
    """Blocks of keys to bins of keys: each block lies in one bin, or in one and the next."""
    blocks, many = store.shape[2], total.shape[2]
    first = ((torch.arange(blocks, device=store.device) * columns + 1) * many - 1) // keys
    place = torch.stack([first, first + 1], -1).flatten()
    order = torch.argsort(place, stable=True)
    ends = torch.searchsorted(place[order].contiguous(), torch.arange(many, device=store.device), right=True)
    for part, sums in zip(store, total, strict=True):
        # Sums of runs as differences of a running sum, in float64 so that nothing is lost: an order that never changes.
        line = torch.nn.functional.pad(part.flatten(1)[:, order].cumsum(-1, dtype=torch.float64), (1, 0))[:, ends]
        sums.copy_(torch.nn.functional.pad(line, (1, 0)).diff(dim=-1))


def _pooling(queries: int, keys: int, rows: int, columns: int) -> tuple[int, int, int] | None:
    """(2, rows, columns) of bins that divide a block, (1, most rows of a block, most columns) for bins that hold
    blocks; None for others."""
    high, wide = queries // rows, keys // columns
    even = queries % rows == 0 and keys % columns == 0
    if even and power(high) == high <= 64 and power(wide) == wide <= 64:
        return 2, high, wide
    if high >= 16 and wide >= 16:
        return 1, 1 << (high.bit_length() - 1), 1 << (wide.bit_length() - 1)
    return None


def _flagged(given: Given, rest: Tensor | None) -> int:
    from regard.backends import kernels

    return given.flags if rest is None else given.flags | int(kernels.LOW.value)


@exact
def backward(
    scores: Scores,
    value: Float[Tensor, "batch key_heads keys any"],
    delta: Float[Tensor, "batch heads queries"],
    normaliser: Float[Tensor, "batch heads queries"],
    d_output: Float[Tensor, "batch heads queries any"],
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of (query, key, value), where each score receives weight × (pull - delta of its row)."""
    from regard.backends import back_kernels

    batch, heads, queries, keys = scores.shape
    norm, rest = _normalised(normaliser)
    delta = delta.float().contiguous()
    width, other = scores.query.shape[-1], value.shape[-1]
    d_query, d_key, d_value = (
        torch.empty_like(t, memory_format=torch.contiguous_format) for t in (scores.query, scores.key, value)
    )
    low = norm if rest is None else rest
    for name, grads in (("back_query", (d_query,)), ("back_key", (d_key, d_value))):
        rows, columns, options = _blocks(name, scores, other)
        given = lay_out(scores, rows, columns)
        (v, v_layout), (d_out, d_layout) = described(value, columns), described(d_output.to(value.dtype), rows)
        by_query = name == "back_query"
        sizes = {"BD": given.query.block_shape[1]} | ({} if by_query else {"BV": v.block_shape[1]})
        widths = {"WIDTH": width} | ({} if by_query else {"WIDTH_V": other, "GROUP": scores.group})
        lanes = batch * heads if by_query else batch * scores.key.shape[1]
        grid = _grid(queries, rows, lanes) if by_query else _grid(keys, columns, lanes)
        getattr(back_kernels, name)[grid](
            given.query, given.key, v, d_out, norm, low, delta, *grads, *given.common,
            (*given.layouts, v_layout, d_layout), *given.numbers, given.mask, scores.scale,
            FLAGS=_flagged(given, rest), EXACT=given.exact, BM=rows, BN=columns, **widths, **sizes, **options,
        )  # fmt: skip
    return d_query, d_key, d_value
