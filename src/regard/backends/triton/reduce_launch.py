"""Which passes the reductions take, and how their kernels are launched."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import zip_longest
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.backends.contract import (
    HIDDEN,
    Dense,
    Entropy,
    Pool,
    Received,
    Reduction,
    Result,
    Top,
    TransposedProduct,
    capturing,
)
from regard.backends.tiles import reductions as tiles
from regard.backends.tiles.tile import Tile
from regard.backends.triton import tuning
from regard.backends.triton.problem import Flags, Normaliser, cdiv, describe, head_grid, next_power, prepare, tensors
from regard.backends.triton.top_launch import empty_top, top
from regard.scores import Scores
from regard.support import Float

__all__ = ["bins", "columns", "dense_rows", "few", "reduce", "rows", "sums", "supports"]

MAX_TOP = 16


class PassResult(NamedTuple):
    """What one pass over the tiles has found."""

    received: Tensor | None = None  # sums or maxima
    entropy: Tensor | None = None
    pool: Tensor | None = None
    product: Tensor | None = None
    top: tuple[Tensor, Tensor] | None = None


def supports(scores: Scores, request: Reduction | Dense, max_width: int) -> bool:
    """Whether the kernels know this reduction."""
    if isinstance(request, Dense):
        return few(scores)
    if isinstance(request, Pool):
        return request.reduce == "mean"
    if isinstance(request, Top):
        return request.k <= MAX_TOP
    if isinstance(request, TransposedProduct):
        return 0 < request.operand.shape[-1] <= max_width
    return isinstance(request, (Received, Entropy))


def reduce(scores: Scores, norm: Normaliser, requests: Sequence[Reduction]) -> list[Result]:
    """The results in the order of the requests.

    A summary with even bins takes one pass, if there is workspace for it. With `top` it takes two: where bins are
    large, the pass of `top` computes the entropy as well.
    """
    if any(isinstance(request, Dense) for request in requests):
        return [dense_rows(scores, norm, dtype=scores.query.dtype)]
    products = TransposedProduct if not capturing(scores.query) else (TransposedProduct, Pool)  # its bins are a copy
    if few(scores) and not any(isinstance(request, products) for request in requests):
        return _of_few_rows(scores, norm, requests)
    if len(requests) == 1 and isinstance(requests[0], (Received, Entropy)):
        return [_alone(scores, norm, requests[0])]
    results: dict[int, Result] = {}  # by position in `requests`

    def positions(kind: type) -> list[int]:
        return [n for n, request in enumerate(requests) if isinstance(request, kind)]

    def keep(
        found: PassResult, received: int | None = None, entropy: int | None = None, pool: int | None = None
    ) -> None:
        if received is not None:
            assert found.received is not None
            mean = requests[received].reduce == "mean"  # type: ignore[union-attr]
            results[received] = found.received / scores.shape[2] if mean else found.received
        if entropy is not None:
            assert found.entropy is not None
            results[entropy] = found.entropy
        if pool is not None:
            assert found.pool is not None
            results[pool] = found.pool

    entropies, tops, pools, received = map(positions, (Entropy, Top, Pool, Received))
    for n in positions(TransposedProduct):
        found = columns(scores, norm, product=requests[n])  # type: ignore[arg-type]
        assert found.product is not None
        results[n] = found.product
    even_pools = [n for n in pools if even(scores, requests[n])]  # type: ignore[arg-type]
    for n in pools:
        if n not in even_pools:  # sums of columns come along
            summed = next((r for r in received if requests[r].reduce != "max"), None)  # type: ignore[union-attr]
            received = [r for r in received if r != summed]
            keep(bins(scores, norm, requests[n]), summed, None, n)  # type: ignore[arg-type]
    for n in tops:
        # Where bins are small, a pass of `sums` is needed anyway, and computes the entropy for less.
        pairs = zip(even_pools, received, strict=False)
        small = any(not _bins_by_columns(scores, requests[p], requests[r]) for p, r in pairs)  # type: ignore[arg-type]
        entropy = entropies.pop() if entropies and not small else None
        k = requests[n].k  # type: ignore[union-attr]
        if k == 1:
            found = rows(scores, norm, 1, entropy is not None)
        else:
            best, entropies_too = top(scores, norm, k, entropy is not None)
            found = PassResult(entropy=entropies_too, top=best)
        assert found.top is not None
        results[n] = found.top
        keep(found, entropy=entropy)
    for e, p, r in zip_longest(entropies, even_pools, received):
        pool: Any = None if p is None else requests[p]
        kind: Any = None if r is None else requests[r]
        if pool is None and kind is None:
            found = rows(scores, norm, 0, True)
        elif e is None and (pool is None or _bins_by_columns(scores, pool, kind)):
            found = columns(scores, norm, kind, pool=pool)
        else:
            found = sums(scores, norm, kind, e is not None, pool)
        keep(found, r, e, p)
    return [results[n] for n in range(len(requests))]


def _alone(scores: Scores, norm: Normaliser, request: Received | Entropy) -> Tensor:
    """A reduction that has a pass to itself: there is nothing to plan."""
    if isinstance(request, Entropy):
        found = rows(scores, norm, 0, True).entropy
    else:
        found = columns(scores, norm, request).received
    assert found is not None
    return found / scores.shape[2] if isinstance(request, Received) and request.reduce == "mean" else found


# How much workspace a pass may take, and how it is shared


def _problem_bytes(scores: Scores) -> int:
    """Bytes of query, key, value and output."""
    return 2 * scores.query.element_size() * (scores.query.numel() + scores.key.numel())


def _programs_with_lines(scores: Scores, units: int, numbers: int) -> int:
    """Programs per head that each have lines of their own, so many numbers for each row; 0 where they take too much."""
    batch, heads, queries, _ = scores.shape
    room = max(tuning.WORKSPACE, _problem_bytes(scores) // 8) // (4 * batch * heads * queries * max(numbers, 1))
    return _busy_programs(batch * heads, units, room, tuning.resident_programs(scores))


@lru_cache(maxsize=256)
def _busy_programs(lanes: int, units: int, room: int, slots: int) -> int:
    """As many programs per head as keep the GPU busy and leave few idle at the end; 0 where there is no room."""
    most = min(units, max(cdiv(2 * slots, lanes), 1), room)
    if lanes * most < min(lanes * units, max(slots * 3 // 4, 1)):
        return 0
    return min(range(1, most + 1), key=lambda n: (cdiv(lanes * n, slots) * cdiv(units, n), n))


def _dense_mask(scores: Scores) -> bool:
    return bool(scores.mask.visible or scores.mask.biases)


def even(scores: Scores, pool: Pool) -> bool:
    """Whether all bins have the same size, a power of two each way, so that tiles fit into them or they into tiles."""
    _, _, queries, keys = scores.shape
    (bin_rows, more), (bin_keys, too) = divmod(queries, pool.rows), divmod(keys, pool.columns)
    return not more and not too and next_power(bin_rows) == bin_rows and next_power(bin_keys) == bin_keys


def _bins_by_columns(scores: Scores, pool: Pool, received: Received | None) -> bool:
    """Whether `columns` can add up even bins on the way: they are large, there is workspace, and it adds up sums."""
    batch, heads, queries, keys = scores.shape
    if _dense_mask(scores):
        return False  # it is read by rows, which `columns` would have to transpose
    large = queries >= 8 * pool.rows and keys >= 16 * pool.columns and (received is None or received.reduce != "max")
    return large and batch * heads * pool.rows * keys // 4 <= max(tuning.WORKSPACE, _problem_bytes(scores) // 32)


def _bin_sizes(scores: Scores, pool: Pool | None) -> tuple[int, int, int]:
    """(rows of a bin, keys of a bin, how many programs may share the keys of a head).

    A program has all keys of a bin: where that leaves too few programs, bins are narrower and added up afterwards, as
    far as there is workspace for them.
    """
    batch, heads, queries, keys = scores.shape
    block_m, block_n, _ = tuning.blocks("sums", scores)
    bin_rows, bin_keys = (block_m, block_n) if pool is None else (queries // pool.rows, keys // pool.columns)
    lanes, most = batch * heads, max(tuning.WORKSPACE, _problem_bytes(scores) // 32)
    while bin_keys > block_n and lanes * (keys // bin_keys) < 4 * tuning.resident_programs(scores):
        if 8 * lanes * (queries // bin_rows) * (keys // bin_keys) > most:
            break
        bin_keys //= 2
    return bin_rows, bin_keys, cdiv(keys, max(bin_keys, block_n))


def few(scores: Scores) -> bool:
    """Whether these are so few rows that they are worked on as they are: dense, they are no larger than the keys."""
    batch, heads, queries, keys = scores.shape
    return queries <= 16 and 8 * batch * heads * queries * keys <= max(tuning.WORKSPACE, _problem_bytes(scores) // 4)


def _of_few_rows(scores: Scores, norm: Normaliser, requests: Sequence[Reduction]) -> list[Result]:
    """All reductions of a few rows, from the rows as they are."""
    log2 = dense_rows(scores, norm, log2=True)
    tops: Iterator[Result] = iter([_top_of_few(log2, r.k) for r in requests if isinstance(r, Top)])
    others = [request for request in requests if not isinstance(request, Top)]
    rest: Iterator[Result] = iter([])
    if others:
        batch, heads, queries, keys = (slice(0, n) for n in scores.shape)
        tile = Tile(batch, heads, slice(0, scores.key.shape[1]), queries, keys, log2, log2.exp2())
        rest = iter(tiles.reduce(scores, [tile], others))
    return [next(tops if isinstance(request, Top) else rest) for request in requests]


# Launches: each makes what it needs, launches one kernel and returns what that found; `top` has three: top_launch.py


def sums(scores: Scores, norm: Normaliser, received: Received | None, entropy: bool, pool: Pool | None) -> PassResult:
    """Received, entropies and even bins in one pass."""
    from regard.backends.triton import reduction_kernels

    batch, heads, queries, keys = scores.shape
    block_m, block_n, options = tuning.blocks("sums_dense" if _dense_mask(scores) else "sums", scores)
    bin_rows, bin_keys, units = _bin_sizes(scores, pool)
    how = "" if pool is None else "bins"
    narrow = pool is not None and bin_keys >= block_n and bin_rows < 2 * block_m
    if narrow and _programs_with_lines(scores, units, 2):
        how = "rows"  # every tile would have to add up its bin, and there is workspace for row sums
    numbers = int(entropy) + (how == "rows")
    programs = _programs_with_lines(scores, units, numbers) if numbers else units
    if not programs:  # no workspace for lines: entropies take a pass of their own
        own = rows(scores, norm, 0, True)
        return sums(scores, norm, received, False, pool)._replace(entropy=own.entropy)
    prepared = prepare(scores, block_m, block_n, interleave=False)
    total = None if received is None else norm.high.new_empty(batch, heads, keys)
    lines = norm.high.new_zeros(batch, heads, programs, queries) if entropy else None
    row_sums = norm.high.new_empty(batch * heads * programs * queries) if how == "rows" else None
    bins, pooled = (1, 1, 1.0), None
    if pool is not None:
        bins = (pool.rows, keys // bin_keys, pool.rows * pool.columns / (queries * keys))
        # Where the band hides nothing and a bin is no wider than a tile, every bin is written.
        written = (
            bins[1] == pool.columns and bin_keys <= block_n and (not scores.mask.bands and not prepared.flags.limits)
        )
        pooled = (norm.high.new_empty if written else norm.high.new_zeros)(batch, heads, *bins[:2])
    ragged = keys % block_n > 0

    def planned() -> Flags:
        flags = prepared.along_queries(block_m, norm)
        return flags._replace(stages=(flags.stages[0] or ragged, True, flags.stages[2]))

    kind = "" if received is None else "max" if received.reduce == "max" else "sum"
    prepared.launch(
        reduction_kernels.sums, (programs, *head_grid(batch * heads)),
        prepared.q, prepared.k, norm, total, lines, row_sums, pooled, prepared.queries_problem, prepared.layouts, bins,
        (max(bin_keys // block_n, 1), cdiv(units, programs)), FLAGS=prepared.once(("sums", norm.low is None), planned),
        ENTROPY=entropy, RECEIVED=kind, POOL=how,
        BIN_ROWS=bin_rows, BIN_KEYS=bin_keys, RAGGED=ragged, PRECISION=prepared.precision, CHUNK=4096,
        BLOCK_M=block_m, BLOCK_N=block_n, **options,
    )  # fmt: skip
    if pool is not None and pooled is not None and bins[1] > pool.columns:
        pooled = pooled.view(batch, heads, pool.rows, pool.columns, -1).sum(-1)
    entropies = None if lines is None else lines[:, :, 0] if programs == 1 else lines.sum(2)
    return PassResult(total, entropies, pooled)


def rows(scores: Scores, norm: Normaliser, k: int, entropy: bool) -> PassResult:
    """The entropies, the largest weights (k = 1, not 0), or both in one pass."""
    from regard.backends.triton import reduction_kernels

    batch, heads, queries, keys = scores.shape
    block_m, block_n, options = tuning.blocks("rows", scores)
    prepared, width = prepare(scores, block_m, block_n), scores.query.shape[-1]
    shared = tuning.SHARED_MAXIMUM[keys > tuning.SHORT_ROW] if k else 0
    entropies = norm.high.new_empty(batch, heads, queries) if entropy else None
    weights, indices = empty_top(scores, 1) if k else (None, None)
    prepared.launch(
        reduction_kernels.rows, prepared.grid(cdiv(queries, block_m), batch * heads),
        prepared.q, prepared.k, norm, entropies, weights, indices, tensors(scores), prepared.keys_problem,
        prepared.layouts, FLAGS=prepared.along_keys(block_n, norm), ENTROPY=entropy, SHARED=shared,
        WIDTH=width if shared else 1, STEP=min(next_power(width), tuning.SETTLE[1]), PRECISION=prepared.precision,
        BLOCK_M=block_m, BLOCK_N=block_n, **options,
    )  # fmt: skip
    return PassResult(entropy=entropies, top=None if weights is None or indices is None else (weights, indices))


def columns(
    scores: Scores, norm: Normaliser, received: Received | None = None, product: TransposedProduct | None = None,
    pool: Pool | None = None,
) -> PassResult:  # fmt: skip
    """What each key receives, the transposed matrix times x, or the matrix in bins."""
    from regard.backends.triton import reduction_kernels

    batch, heads, queries, keys = scores.shape
    name = "columns_product" if product is not None else "columns" if pool is None else "columns_pool"
    block_m, block_n, options = tuning.blocks(name, scores, *(() if product is None else (product.operand.shape[-1],)))
    bins, bin_rows, pooled = (1, 1, 1.0), 0, None
    if pool is not None:
        bin_rows = queries // pool.rows
        bins = (pool.rows, pool.columns, pool.columns / (bin_rows * keys))
        pooled = norm.high.new_zeros(batch, heads, pool.rows, keys // 16)
    prepared = prepare(scores, block_m, block_n)
    total = norm.high.new_empty(batch, heads, keys)
    x_desc, layouts, out, width, rounded = None, prepared.layouts, None, 1, False
    if product is not None:
        # In half precision the product is one of the tensor cores.
        x, dtype = product.operand, scores.query.dtype
        x_desc, layout = describe(x.to(dtype), block_m)
        layouts = layouts._replace(v=layout)
        width, rounded = x.shape[-1], product.rounded and x.dtype == dtype != torch.float32
        out = norm.high.new_empty(batch, heads, keys, width, dtype=dtype if rounded else None)

    def planned() -> tuple[tuple[int, ...], Flags]:
        flags = prepared.along_queries(block_m, norm)
        if not (flags.stages[0] or flags.stages[2]):
            flags = flags._replace(stages=(True, True, True))
        # Two comparisons compile to a shorter program here than the one of `causal`.
        flags = flags._replace(causal=False, aligned=queries % 4 == 0)
        return prepared.grid(cdiv(keys, block_n), batch * heads), flags

    grid, flags = prepared.once(("columns", norm.low is None), planned)
    prepared.launch(
        reduction_kernels.columns, grid,
        prepared.q, prepared.k, x_desc, norm, total, out, pooled, prepared.queries_problem, layouts, bins, FLAGS=flags,
        MAXIMUM=received is not None and received.reduce == "max", BIN_ROWS=bin_rows,
        PRODUCT=0 if out is None else 1 + rounded, PRECISION=prepared.precision, BLOCK_M=block_m, BLOCK_N=block_n,
        BLOCK_X=1 if x_desc is None else x_desc.block_shape[1], WIDTH=width, **options,
    )  # fmt: skip
    while pooled is not None and pooled.shape[3] > bins[1]:  # torch is slow at sums of a few numbers each
        pooled = pooled[..., ::2] + pooled[..., 1::2]
    return PassResult(total, None, pooled, out)


class BinShape(NamedTuple):
    """What the kernel of bins of any size is compiled for."""

    together: int  # bins of queries that share a tile
    slots: int  # … and the room for them, at least what a product needs
    across: int  # bins of keys of a program, at most
    exact: bool  # whether products with 0 and 1 are of float32
    wide: bool  # whether positions times bins need 64 bits


def bins(scores: Scores, norm: Normaliser, pool: Pool) -> PassResult:
    """The matrix in bins of any size, and what each key receives."""
    from regard.backends.triton import bin_kernels

    batch, heads, queries, keys = scores.shape
    block_m, block_n, options = tuning.blocks("bins", scores)
    rows, wide = cdiv(queries, pool.rows), cdiv(keys, pool.columns)
    together = min(max(block_m // rows, 1), 16)
    if together == 1:
        block_m = min(block_m, 32)  # larger ones would only be emptier
    parts = cdiv(wide, block_n)  # of a large bin
    mine = min(block_n // wide, 32) if parts == 1 else 1
    blocks = cdiv(pool.columns * parts, mine)
    splits = min(cdiv(4 * tuning.processors(scores.query.device), blocks * batch * heads), cdiv(pool.rows, together))
    prepared = prepare(scores, block_m, block_n)
    # Queries and keys beyond the last are in no bin, so nothing has to hide them.
    flags = prepared.along_queries(block_m, norm)._replace(stages=(True, True, True), causal=False, full_blocks=True)
    total = norm.high.new_empty(batch, heads, splits, keys)
    pooled = norm.high.new_zeros(batch, heads, pool.rows, pool.columns * parts)
    across = max(next_power(mine), 16 if together > 1 else 1)
    exact = scores.query.dtype == torch.float32 or norm.high.device.type == "cpu"  # the interpreter's bfloat16 is wrong
    bits = max((queries + 1) * pool.rows, (keys + 1) * pool.columns * parts).bit_length()
    shape = BinShape(together, 16, across, exact, bits > 31)
    prepared.launch(
        bin_kernels.bins, prepared.grid(blocks * splits, batch * heads),
        prepared.q, prepared.k, norm, total, pooled, prepared.queries_problem, prepared.layouts,
        (pool.rows, pool.columns * parts, mine, parts, splits), FLAGS=flags, SHAPE=shape,
        PRECISION=prepared.precision, BLOCK_M=block_m, BLOCK_N=block_n, **options,
    )  # fmt: skip
    if parts > 1:
        pooled = pooled.view(batch, heads, pool.rows, pool.columns, parts).sum(-1)
    return PassResult(total[:, :, 0] if splits == 1 else total.sum(2), None, pooled)


def dense_rows(
    scores: Scores, norm: Normaliser, log2: bool = False, dtype: torch.dtype = torch.float32
) -> Float[Tensor, "batch heads queries keys"]:
    """The weights of a few rows, or their log2, stored as they are."""
    from regard.backends.triton import kernels

    block_m, block_n, options = tuning.blocks("dense_rows", scores)
    prepared = prepare(scores, block_m, block_n, interleave=False)
    out = scores.query.new_empty(scores.shape, dtype=dtype)
    flags = prepared.along_keys(block_n, norm)._replace(full_blocks=False, causal=False, stages=(True, True, True))
    prepared.launch(
        kernels.dense_rows, (cdiv(scores.shape[3], block_n), *head_grid(scores.shape[0] * scores.key.shape[1])),
        prepared.q, prepared.k, norm, out, prepared.problem, prepared.layouts, FLAGS=flags, GROUP=scores.group,
        LOG2=log2, PRECISION=prepared.precision, BLOCK_M=block_m, BLOCK_N=block_n,
        **options,
    )  # fmt: skip
    return out


def _top_of_few(
    log2: Float[Tensor, "batch heads queries keys"], k: int, block: int = 128, short: int = 8192
) -> tuple[Tensor, Tensor]:
    """The k largest of each row, which lie in the k blocks with the largest maxima; short rows have no blocks."""
    from regard.backends.triton import kernels

    *leading, keys = log2.shape
    if keys < short:
        values, places = log2.topk(k)
        return values.exp2(), places.masked_fill_(values <= HIDDEN / 2, -1)
    maxima = log2[..., : keys // block * block].unflatten(-1, (-1, block)).amax(-1)  # type: ignore[no-untyped-call]
    best = maxima.topk(k, sorted=False).indices
    weights, indices = log2.new_empty(*leading, k), best.new_empty(*leading, k)
    kernels.top_of_blocks[(math.prod(leading),)](
        log2, best, weights, indices, keys, K=k, ROOM=next_power(k + 1), BLOCK=block, num_warps=4
    )
    return weights, indices
