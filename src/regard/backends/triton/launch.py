"""Sight on a GPU: the reductions, the softmax and its gradient by the Triton kernels of the files *kernels.py.

Here are the hands of those kernels: which of them are called, how, and where their results go; how large their blocks
are says sizes.py. Nothing here is of the size queries × keys.
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
from torch.utils.weak import WeakTensorKeyDictionary

from regard.backends import reductions
from regard.backends.normaliser import HIDDEN, LN2, LOG2E, TRUSTED, capturing, trusted
from regard.backends.triton import top_launch as top_sweep
from regard.backends.triton import tuning as sizes
from regard.backends.triton.problem import FAR, MOST, described, heads_of_grid, lay_out, power
from regard.scores import Scores
from regard.support import Float, no_autocast

__all__ = ["backward", "forward", "logsumexp", "suits", "sweep", "takes"]

_DTYPES = (torch.float16, torch.bfloat16, torch.float32)
_WIDEST = 256
_KNOWN: Any = WeakTensorKeyDictionary()  # what `_normalised` found, as long as that normaliser lives
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
    batch = scores.shape[0]
    if any(max(heads_of_grid(batch * heads)) > MOST for heads in (scores.shape[1], scores.key.shape[1])):
        return False  # a large number of them, and (nearly) a prime one
    runs = all(isinstance(place, range) and place.step == 1 for place in places)
    few = len(mask.visible) <= 1 and len(mask.biases) <= 1 and len(mask.ids) <= 1
    return runs and few and max(scores.shape) < FAR and _installed()


def takes(scores: Scores, reduction: Any) -> bool:
    """Whether the kernels know this reduction."""
    _, _, queries, keys = scores.shape
    if isinstance(reduction, reductions.Pool):
        rows, columns = reduction.shape[2:]
        large = queries >= 16 * rows and keys >= 16 * columns  # no tile lies in more than two bins each way
        return reduction.reduce == "mean" and (large or _even(scores, reduction))
    if isinstance(reduction, reductions.Top):
        return reduction.k <= 16
    if isinstance(reduction, reductions.Reverse):
        return reduction.x.shape[-1] <= _WIDEST and reduction.x.shape[-1] > 0
    return isinstance(reduction, (reductions.Received, reductions.Entropy))


def _normalised(normaliser: Tensor) -> tuple[Tensor, Tensor | None]:
    """`_in_base_2`, once for every normaliser and stream: a matrix keeps its own, and many results are asked of it."""
    stream = torch.cuda.current_stream(normaliser.device) if normaliser.device.type == "cuda" else None
    now = (0 if normaliser.is_inference() else normaliser._version, stream)
    at, norm, rest = _KNOWN.get(normaliser, (None, None, None))
    if at != now:
        norm, rest = _in_base_2(normaliser)
        if not capturing(normaliser):  # nothing is computed then
            _KNOWN[normaliser] = now, norm, rest
    return norm, rest


def _in_base_2(normaliser: Tensor) -> tuple[Tensor, Tensor | None]:
    """Minus the normaliser in base 2 as float32 and, where that has too few digits for it, the rest."""
    if normaliser.dtype == torch.float32:  # a kernel's: it has no more digits than these
        return (normaliser * -LOG2E).nan_to_num_(math.nan, HIDDEN, -math.inf).contiguous(), None
    full = normaliser.double().masked_fill(normaliser == -math.inf, -HIDDEN) * -LOG2E
    high = full.float()
    large = (high.abs() > TRUSTED) & (high > HIDDEN)
    wanted = capturing(normaliser) or large.any()  # while a graph is recorded there is nothing to ask yet
    return high.contiguous(), (full - high).float().contiguous() if wanted else None


@no_autocast
def forward(
    scores: Scores, value: Float[Tensor, "batch key_heads keys any"] | None
) -> tuple[Float[Tensor, "batch heads queries any"], Float[Tensor, "batch heads queries"]]:
    """(weights @ value, logsumexp), without sinks; of no value, the greatest logit in base 2 and the sum over it."""
    from regard.backends.triton import kernels

    batch, heads, queries, _ = scores.shape
    width = 0 if value is None else value.shape[-1]
    rows, columns, options = sizes.of("forward", scores, width)
    given = lay_out(scores, rows, columns)
    held, layout = (given.key, given.layouts[1]) if value is None else described(value, columns)
    output = scores.query.new_empty(batch, heads, queries, width or 2, dtype=None if width else torch.float32)
    # Fused, a product is rounded in the maximum but not where that is subtracted from it, and float16 has digits enough
    # to show the difference in its weights. The other kernels round as this one does without values.
    fusion = value is None or scores.query.dtype != torch.float16
    lse = scores.query.new_empty(batch, heads, queries, dtype=torch.float32)
    kernels.forward[given.grid(-(-queries // rows), batch * heads)](
        given.query, given.key, held, output, lse, *given.common, (*given.layouts, layout), *given.numbers,
        given.mask, FLAGS=given.flags, VALUES=value is not None, WIDTH=max(width, 1),
        EDGES=given.edges(scores.shape[3], columns, -1), EXACT=given.exact, BM=rows, BN=columns,
        BV=held.block_shape[1] if value is not None else 1, enable_fp_fusion=fusion, **options,
    )  # fmt: skip
    return output, lse


def logsumexp(scores: Scores) -> Float[Tensor, "batch heads queries"]:
    """log Σ exp of each row of masked scores (without sinks), in float64 where float32 has too few digits for it.

    Then these are the digits of the kernels' own products, which the weights are computed from too: what is wrong with
    both of them is wrong with none of the weights.
    """
    found, lse = forward(scores, None)
    if trusted(lse, scores.query.dtype):
        return lse
    peak, total = found.double().unbind(-1)
    return (peak + total.log2()) * LN2


@no_autocast
def sweep(scores: Scores, normaliser: Float[Tensor, "batch heads queries"], wanted: Sequence[Any]) -> None:
    """Fill these reductions, all of which `takes` must know.

    A summary with even bins takes one walk, if there is room. With `top` it takes two: where bins are large, the walk
    of `top` takes the entropy along.
    """
    norm, rest = _normalised(normaliser)
    entropies, tops, pools, sums, others = (
        _those(wanted, kind)
        for kind in (reductions.Entropy, reductions.Top, reductions.Pool, reductions.Received, reductions.Reverse)
    )
    for reverse in others:
        _columns(scores, norm, rest, reverse=reverse)
    even = [pool for pool in pools if _even(scores, pool)]
    for pool in pools:
        if pool not in even:
            _columns(scores, norm, rest, pool=pool)
    summed = [p.received for p in even if p.received is not None]
    summed += [r for r in sums if not any(r is p.received for p in pools)]
    for top in tops:
        # Where bins are small, `sums` is on its way anyway, and takes the entropy along for less.
        small = any(not _sixteens(scores, *pair) for pair in zip(even, summed, strict=False))
        walk = _rows if top.k == 1 else top_sweep.sweep
        walk(scores, norm, rest, top, entropies.pop() if entropies and not small else None)
    for entropy, pool, received in zip_longest(entropies, even, summed):
        if pool is None and received is None:
            _rows(scores, norm, rest, None, entropy)
        elif entropy is None and (pool is None or _sixteens(scores, pool, received)):
            _columns(scores, norm, rest, received=received, pool=pool)
        else:
            _sums(scores, norm, rest, received, entropy, pool)


def _those(wanted: Sequence[Any], kind: type) -> list[Any]:
    return [reduction for reduction in wanted if isinstance(reduction, kind)]


def _held(scores: Scores) -> int:
    """Bytes of query, key, value and output."""
    return 2 * scores.query.element_size() * (scores.query.numel() + scores.key.numel())


def _lines(scores: Scores, units: int, numbers: int) -> int:
    """Programs to a head that each have lines of their own, so many numbers to a row; 0 where they need too much room.

    As many as keep the GPU busy and leave few idle at the end.
    """
    batch, heads, queries, _ = scores.shape
    lanes, slots = batch * heads, sizes.crowd(scores)
    most = max(sizes.ROOM, _held(scores) // 8) // (4 * lanes * queries * max(numbers, 1))
    most = min(units, max(-(-2 * slots // lanes), 1), most)
    if lanes * most < min(lanes * units, max(slots * 3 // 4, 1)):
        return 0
    return min(range(1, most + 1), key=lambda n: (-(-lanes * n // slots) * -(-units // n), n))


def _even(scores: Scores, pool: reductions.Pool) -> bool:
    """Whether its bins are all alike and powers of two, so that tiles fit into them or they into tiles."""
    _, _, queries, keys = scores.shape
    (high, more), (wide, too) = divmod(queries, pool.shape[2]), divmod(keys, pool.shape[3])
    return not more and not too and power(high) == high and power(wide) == wide


def _sixteens(scores: Scores, pool: reductions.Pool, received: reductions.Received | None) -> bool:
    """Whether `columns` can add up its bins on the way: they are large, there is room, and sums are what it adds up."""
    batch, heads, queries, keys = scores.shape
    large = queries >= 8 * pool.shape[2] and keys >= 16 * pool.shape[3]
    large = large and (received is None or received.reduce != "max")
    return large and batch * heads * pool.shape[2] * keys // 4 <= max(sizes.ROOM, _held(scores) // 32)


def _bins(scores: Scores, pool: reductions.Pool | None) -> tuple[int, int, int]:
    """(rows to a bin, keys to a bin, how many programs may share the keys of a head).

    A program has all of a bin's keys: where that leaves too few programs, bins are narrower and added up afterwards, as
    far as there is room for them.
    """
    batch, heads, queries, keys = scores.shape
    rows, columns, _ = sizes.of("sums", scores)
    high, wide = (rows, columns) if pool is None else (queries // pool.shape[2], keys // pool.shape[3])
    lanes, most = batch * heads, max(sizes.ROOM, _held(scores) // 32)
    while wide > columns and lanes * (keys // wide) < 4 * sizes.crowd(scores):
        if 8 * lanes * (queries // high) * (keys // wide) > most:
            break
        wide //= 2
    return high, wide, -(-keys // max(wide, columns))


def _sums(
    scores: Scores, norm: Tensor, rest: Tensor | None,
    received: reductions.Received | None, entropy: reductions.Entropy | None, pool: reductions.Pool | None,
) -> None:  # fmt: skip
    from regard.backends.triton import sum_kernels

    batch, heads, queries, keys = scores.shape
    rows, columns, options = sizes.of("sums", scores)
    high, wide, units = _bins(scores, pool)
    pooled = 0 if pool is None else 1
    if pool is not None and wide >= columns and high < 2 * rows and _lines(scores, units, 2):
        pooled = 2  # every tile would have to add up its bin, and there is room to put the rows by
    numbers = (entropy is not None) + (pooled == 2)
    programs = _lines(scores, units, numbers) if numbers else units
    if not programs:  # no room for lines: entropies have a walk of their own
        assert entropy is not None
        _rows(scores, norm, rest, None, entropy)
        entropy, programs = None, units
    given = lay_out(scores, rows, columns)
    line, held, bins, store, total = norm, norm, (1, 1, 1.0), norm, norm
    if entropy is not None:
        line = entropy.total if programs == 1 else norm.new_zeros(batch, heads, programs, queries)
    if pool is not None:
        many, pool.divided = pool.shape[2:], True
        bins = (many[0], keys // wide, many[0] * many[1] / (queries * keys))
        if bins[1] > many[1] or (wide <= columns and not scores.mask.bands):  # every bin will be written
            pool.total = pool.empty()
        store = pool.total if bins[1] == many[1] else norm.new_zeros(batch, heads, *bins[:2])
        held = norm.new_empty(batch * heads * programs * queries if pooled == 2 else 0)
    if received is not None:
        received.total = total = received.empty()
    taken = 0 if received is None else 2 if received.reduce == "max" else 1
    ragged = keys % columns > 0
    sum_kernels.sums[(programs, *heads_of_grid(batch * heads))](
        given.query, given.key, norm, norm if rest is None else rest, total, line, held, store, *given.common,
        given.layouts, *given.numbers, given.mask, bins, (max(wide // columns, 1), -(-units // programs)),
        FLAGS=given.flagged(rest), ENTROPY=entropy is not None, TAKEN=taken, POOLED=pooled, HIGH=high, WIDE=wide,
        RAGGED=ragged, EDGES=given.edges(queries, rows, 1) | int(ragged), EXACT=given.exact,
        CHUNK=4096, BM=rows, BN=columns, **options,
    )  # fmt: skip
    if entropy is not None and programs > 1:
        entropy.total = line.sum(2)
    if pool is not None and bins[1] > pool.shape[3]:
        torch.sum(store.view(*pool.shape, -1), -1, out=pool.total)


def _rows(
    scores: Scores, norm: Tensor, rest: Tensor | None, top: reductions.Top | None, entropy: reductions.Entropy | None
) -> None:
    """Fill a `Top` of one key, an `Entropy`, or both on one walk."""
    from regard.backends.triton import row_kernels

    batch, heads, queries, keys = scores.shape
    rows, columns, options = sizes.of("rows", scores)
    line, best, found, alike = norm, norm, norm, 0
    if entropy is not None:
        entropy.total = line = entropy.empty()
    if top is not None:
        (best, found), alike = top.settle(), sizes.ALIKE[keys > sizes.SHORT]
    given, width = lay_out(scores, rows, columns), scores.query.shape[-1]
    row_kernels.rows[given.grid(-(-queries // rows), batch * heads)](
        given.query, given.key, norm, norm if rest is None else rest, line, best, found, scores.query, scores.key,
        (scores.query.stride(), scores.key.stride()), *given.common, given.layouts, *given.numbers, given.mask,
        FLAGS=given.flagged(rest), ENTROPY=entropy is not None, ALIKE=alike, WIDTH=width if alike else 1,
        STEP=min(power(width), sizes.SETTLE[1]), EDGES=given.edges(keys, columns, -1), EXACT=given.exact, BM=rows,
        BN=columns, **options,
    )  # fmt: skip


def _columns(
    scores: Scores,
    norm: Tensor,
    rest: Tensor | None,
    received: reductions.Received | None = None,
    reverse: reductions.Reverse | None = None,
    pool: reductions.Pool | None = None,
) -> None:
    from regard.backends.triton import kernels

    batch, heads, queries, keys = scores.shape
    others = () if reverse is None else (reverse.x.shape[-1],)
    name = "reverse" if reverse is not None else "columns" if pool is None else "pooled"
    rows, columns, options = sizes.of(name, scores, *others)
    bins, store, lanes, tall, share = (1, 1), norm, batch * heads, 0, 1.0
    if pool is not None and _even(scores, pool):
        bins, tall = (pool.shape[2], pool.shape[3]), queries // pool.shape[2]
        share = bins[1] / (tall * keys)
        store = norm.new_zeros(batch, heads, bins[0], keys // 16)
    elif pool is not None:
        bins = (pool.shape[2], pool.shape[3])
        high, wide = (1 << ((size // many).bit_length() - 1) for size, many in zip((queries, keys), bins, strict=True))
        received, rows, columns = pool.received, min(rows, high), min(columns, wide)
        blocks = bins[0], -(-keys // columns), 2
        lanes = min(max(sizes.ROOM // (4 * math.prod(blocks)), 1), lanes, MOST)
        store = norm.new_empty(lanes, *blocks)
    given = lay_out(scores, rows, columns)
    if pool is not None and not tall:
        given.beside = 0
    total = norm.new_empty(batch, heads, keys)
    if received is not None:
        received.total = total
    x, layout, out, width = given.query, given.layouts[0], norm, 1
    flags = given.flagged(rest) & ~int(kernels.UNTIL.value)  # two comparisons compile to a shorter program here
    if reverse is not None:
        # As the user handed it in: halves go to the tensor cores as halves.
        half = reverse.x if scores.query.dtype == torch.float32 else reverse.x.to(scores.query.dtype)
        x, layout = described(half, rows)
        out, width = reverse.total, reverse.x.shape[-1]
    for skip in range(0, batch * heads, lanes):
        some = min(lanes, batch * heads - skip)
        if pool is not None and not tall:
            store.zero_()
        kernels.columns[given.grid(-(-keys // columns), some)](
            given.query, given.key, norm, norm if rest is None else rest, total, x, out, store, *given.common,
            (*given.layouts, layout), *given.numbers, given.mask, (*bins, share), skip,
            FLAGS=flags | (0 if queries % 4 else int(kernels.FOURS.value)),
            MOST=received is not None and received.reduce == "max", POOLING=pool is not None and not tall, HIGH=tall,
            TIMES=reverse is not None, EDGES=given.edges(queries, rows, 1) or 3, EXACT=given.exact, BM=rows, BN=columns,
            BX=x.block_shape[1] if reverse is not None else 1, WIDTH=width, **options,
        )  # fmt: skip
        if pool is not None and not tall:
            _gather(store[:some], pool.total.view(-1, *bins)[skip : skip + some], keys, columns)
    if pool is not None and tall:
        while store.shape[3] > bins[1]:  # a sum of a few numbers each is nothing that torch is fast at
            store = store[..., ::2] + store[..., 1::2]
        pool.total, pool.divided = store, True


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


@no_autocast
def backward(
    scores: Scores,
    value: Float[Tensor, "batch key_heads keys any"],
    delta: Float[Tensor, "batch heads queries"],
    normaliser: Float[Tensor, "batch heads queries"],
    d_output: Float[Tensor, "batch heads queries any"],
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of (query, key, value), where each score receives weight × (pull - delta of its row)."""
    from regard.backends.triton import back_kernels

    batch, heads, queries, keys = scores.shape
    norm, rest = _normalised(normaliser)
    delta = delta.float().contiguous()
    width, other = scores.query.shape[-1], value.shape[-1]
    d_query, d_key, d_value = (
        torch.empty_like(t, memory_format=torch.contiguous_format) for t in (scores.query, scores.key, value)
    )
    low = norm if rest is None else rest
    for name, grads in (("back_query", (d_query,)), ("back_key", (d_key, d_value))):
        rows, columns, options = sizes.of(name, scores, other)
        given = lay_out(scores, rows, columns)
        (v, v_layout), (d_out, d_layout) = described(value, columns), described(d_output.to(value.dtype), rows)
        by_query = name == "back_query"
        blocks = {"BD": given.query.block_shape[1]} | ({} if by_query else {"BV": v.block_shape[1]})
        widths = {"WIDTH": width} | ({} if by_query else {"WIDTH_V": other, "GROUP": scores.group})
        lanes = batch * heads if by_query else batch * scores.key.shape[1]
        given.beside = given.beside if by_query else 0
        grid = given.grid(-(-queries // rows) if by_query else -(-keys // columns), lanes)
        edges = given.edges(keys, columns, -1) if by_query else given.edges(queries, rows, 1)
        getattr(back_kernels, name)[grid](
            given.query, given.key, v, d_out, norm, low, delta, *grads, *given.common,
            (*given.layouts, v_layout, d_layout), *given.numbers, given.mask, scores.scale,
            FLAGS=given.flagged(rest), EDGES=edges, EXACT=given.exact, BM=rows, BN=columns, **widths, **blocks,
            **options,
        )  # fmt: skip
    return d_query, d_key, d_value
