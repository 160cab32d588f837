"""Reductions other than `top`: kernels and their launches. Along rows, along columns, and all sums in one pass.

`rows`: the entropy of each row, and its largest weight with its key. `columns`: what each key receives, the transposed
matrix times x, the matrix in bins. `sums`: received, entropies and bins together.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator, import-untyped"
from __future__ import annotations

import torch
import triton
import triton.language as tl

from regard.backends.triton import tuning
from regard.backends.triton.kernels import (
    HIDDEN,
    HIDING,
    LN2,
    find_block,
    find_head,
    flat_head,
    key_bounds,
    last_first,
    load_block,
    load_norm,
    log2_weights,
    max_nan,
    query_bounds,
    tile_logits,
    weigh_keys,
)
from regard.backends.triton.launch import Pass, PassResult, sums_blocks, sums_shape
from regard.backends.triton.problem import Flags, Normaliser, cdiv, describe, head_grid, next_power, prepare, tensors
from regard.scores import Scores

# rows: a block of queries stays in registers while all keys pass


@triton.jit
def _rows_step(
    state, start_n, row, q, high, low, k_desc, layouts, head, problem,
    FLAGS: tl.constexpr, ENTROPY: tl.constexpr, SHARED: tl.constexpr, MASKED: tl.constexpr, BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):  # fmt: skip
    entropy, best, best_start = state
    k = load_block(k_desc, layouts.k, head.batch, head.key_head, start_n)
    qk = tl.dot(q, k.T, input_precision=FLAGS.precision)
    column = start_n + tl.arange(0, BLOCK_N)
    logits = tile_logits(qk, row[:, None], column[None, :], head, problem, FLAGS, MASKED)
    log2 = log2_weights(logits, high[:, None], low[:, None], FLAGS)
    if ENTROPY:  # eight partial sums, so that threads need not exchange numbers in the loop
        entropy -= tl.sum(tl.reshape(tl.exp2(log2) * log2, [BLOCK_M, BLOCK_N // 8, 8]), 1)
    if SHARED:
        most = log2 if SHARED == 1 else tl.max(tl.reshape(log2, [BLOCK_M, SHARED, BLOCK_N // SHARED]), 1)
        best_start = tl.where(most > best, start_n, best_start)
        best = tl.maximum(best, most)
    return entropy, best, best_start


@triton.jit
def rows_kernel(
    q_desc, k_desc, norm, entropy_ptr, weight_ptr, key_ptr, tensors, problem, layouts,
    FLAGS: tl.constexpr, ENTROPY: tl.constexpr, SHARED: tl.constexpr, WIDTH: tl.constexpr, STEP: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """The entropy of each row; where SHARED is not 0, its largest weight and the key that has it.

    During the pass, SHARED keys of a tile share one maximum, and only its tile is stored. At the end `tensors` are read
    again for these few keys, to find the key with the maximum.
    """
    head, block, blocks = find_block(problem, FLAGS)
    start_m = last_first(block, blocks, FLAGS) * BLOCK_M
    row = start_m + tl.arange(0, BLOCK_M)
    inside = row < problem.queries
    high, low = load_norm(norm, head, row, problem, FLAGS, True)
    high = tl.where(inside, high, HIDDEN)
    q = load_block(q_desc, layouts.q, head.batch, head.index, start_m)
    q = tl.where(inside[:, None], q, 0.0)  # now in registers, from where products are faster
    bounds = key_bounds(start_m, head, problem, BLOCK_M, BLOCK_N, FLAGS)
    apart: tl.constexpr = BLOCK_N // SHARED if SHARED else 1  # keys that share a maximum are so far apart
    none = tl.full([BLOCK_M, apart], 2 * HIDDEN, tl.float32)
    state = (tl.zeros([BLOCK_M, 8], tl.float32), none, tl.zeros([BLOCK_M, apart], tl.int32))
    for stage in tl.static_range(3):
        if FLAGS.stages[stage]:
            for start_n in range(bounds[stage], bounds[stage + 1], BLOCK_N):
                state = _rows_step(state, start_n, row, q, high, low, k_desc, layouts, head, problem, FLAGS, ENTROPY,
                                   SHARED, stage != 1, BLOCK_M, BLOCK_N)  # fmt: skip
    entropy, best, best_start = state
    line = head.flat * problem.queries + row
    if ENTROPY:
        tl.store(entropy_ptr + line, tl.sum(entropy, 1) * LN2, mask=inside)
    if SHARED:
        most = tl.max(best, 1)
        seen = most > HIDING
        key = tl.min(tl.where(best >= most[:, None], best_start + tl.arange(0, apart)[None, :], problem.keys), 1)
        if SHARED > 1:
            first, largest = key, tl.full([BLOCK_M], 4 * HIDDEN, tl.float32)
            for n in tl.static_range(SHARED):
                other = first + n * apart
                wanted = inside & seen & (other < problem.keys)
                log2 = weigh_keys(row, other[:, None], wanted[:, None], head, tensors, norm, problem, FLAGS, WIDTH,
                                  STEP)  # fmt: skip
                log2 = tl.sum(log2, 1)  # of one
                key = tl.where(log2 > largest, other, key)
                largest = tl.maximum(largest, log2)
        tl.store(weight_ptr + line, tl.where(high == high, tl.exp2(most), high), mask=inside)  # NaN propagates
        tl.store(key_ptr + line, tl.where(seen, key, -1).to(tl.int64), mask=inside)


def rows(scores: Scores, norm: Normaliser, step: Pass) -> PassResult:
    """The entropies, the largest weights, or both."""
    batch, heads, queries, keys = scores.shape
    block_m, block_n, options = tuning.blocks("rows", scores)
    prepared, width = prepare(scores, block_m, block_n), scores.query.shape[-1]
    shared = 0 if step.top is None else tuning.SHARED_MAXIMUM[keys > tuning.SHORT_ROW]
    entropies = None if step.entropy is None else norm.high.new_empty(batch, heads, queries)
    weights = None if step.top is None else norm.high.new_empty(batch, heads, queries, 1)
    indices = None if weights is None else torch.empty_like(weights, dtype=torch.int64)
    prepared.launch(
        rows_kernel, prepared.grid(cdiv(queries, block_m), batch * heads),
        prepared.q, prepared.k, norm, entropies, weights, indices, tensors(scores), prepared.keys_problem,
        prepared.layouts, FLAGS=prepared.along_keys(norm), ENTROPY=entropies is not None, SHARED=shared,
        WIDTH=width if shared else 1, STEP=min(next_power(width), tuning.SETTLE[1]), **options,
    )  # fmt: skip
    return PassResult(entropy=entropies, top=None if weights is None or indices is None else (weights, indices))


# columns: a block of keys stays while all queries pass


@triton.jit
def _store_sixteens(pool_ptr, part, bin, start_n, bins, BLOCK_N: tl.constexpr, PARTS: tl.constexpr):
    """Store (keys, bins of rows, 8) in bins of sixteen keys: sixteen keys lie in one warp, which need not wait."""
    bin_rows, share, sixteens, lane = bins
    small = tl.sum(tl.sum(tl.reshape(part, [BLOCK_N // 16, 16, PARTS, 8]), 3), 1) * share
    r, c = bin + tl.arange(0, PARTS)[None, :], start_n // 16 + tl.arange(0, BLOCK_N // 16)[:, None]
    at = pool_ptr + (lane * bin_rows + r).to(tl.int64) * sixteens + c
    tl.store(at, small, mask=(r < bin_rows) & (c < sixteens))


@triton.jit
def _columns_step(
    state, start_m, end, start_n, column, k, q_desc, x_desc, pool_ptr, norm, layouts, head, problem, bins,
    FLAGS: tl.constexpr, MAXIMUM: tl.constexpr, BIN_ROWS: tl.constexpr, PRODUCT: tl.constexpr, MASKED: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    total, acc, band = state
    row = start_m // BLOCK_M * BLOCK_M + tl.arange(0, BLOCK_M)  # so the compiler sees that rows are aligned
    high, low = load_norm(norm, head, row, problem, FLAGS, MASKED)
    q = load_block(q_desc, layouts.q, head.batch, head.index, start_m)
    qk = tl.dot(k, q.T, input_precision=FLAGS.precision)
    logits = tile_logits(qk, row[None, :], column[:, None], head, problem, FLAGS, MASKED)
    p = tl.exp2(log2_weights(logits, high[None, :], low[None, :], FLAGS))
    if PRODUCT:
        x = load_block(x_desc, layouts.v, head.batch, head.index, start_m)
        if MASKED and not FLAGS.full_blocks:  # rows beyond the end may hold NaN
            x = tl.where((row < problem.queries)[:, None], x, 0.0)
        acc = tl.dot(p.to(x.dtype), x, acc, input_precision=FLAGS.precision)
    elif MAXIMUM:
        total = max_nan(total, tl.reduce(tl.reshape(p, [BLOCK_N, BLOCK_M // 8, 8]), 1, max_nan))
    elif BIN_ROWS and BIN_ROWS < BLOCK_M:
        parts: tl.constexpr = BLOCK_M // BIN_ROWS
        part = tl.sum(tl.reshape(p, [BLOCK_N, parts, BIN_ROWS // 8, 8]), 2)
        _store_sixteens(pool_ptr, part, start_m // BIN_ROWS, start_n, bins, BLOCK_N, parts)
        total += tl.sum(part, 1)
    else:
        part = tl.sum(tl.reshape(p, [BLOCK_N, BLOCK_M // 8, 8]), 1)  # threads exchange no numbers
        total += part
        if BIN_ROWS:
            band += part
            if ((start_m + BLOCK_M) % BIN_ROWS == 0) | (start_m + BLOCK_M >= end):
                _store_sixteens(pool_ptr, band[:, None, :], start_m // BIN_ROWS, start_n, bins, BLOCK_N, 1)
                band = tl.zeros_like(band)
    return total, acc, band


@triton.jit
def columns_kernel(
    q_desc, k_desc, x_desc, norm, received_ptr, out_ptr, pool_ptr, problem, layouts, bins,
    FLAGS: tl.constexpr, MAXIMUM: tl.constexpr, BIN_ROWS: tl.constexpr, PRODUCT: tl.constexpr, BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK_X: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """What each key receives, as sum or MAXIMUM, and the matrix in bins; or PRODUCT, the transposed matrix times x, in
    float32 (1) or in the dtype of x (2).

    BIN_ROWS, if not 0: bins of so many rows, a power of two and 8 at least, and sixteen keys, to be added up; not with
    MAXIMUM.
    """
    head, block, _ = find_block(problem, FLAGS)
    start_n = block * BLOCK_N
    column = start_n + tl.arange(0, BLOCK_N)
    k = load_block(k_desc, layouts.k, head.batch, head.key_head, start_n)
    if not PRODUCT:  # registers have room for the keys, and products are faster from there
        k = tl.where((column < problem.keys)[:, None], k, 0.0)
    bounds = query_bounds(start_n, head, problem, BLOCK_M, BLOCK_N, FLAGS)
    bin_rows, _, share = bins
    bins = (bin_rows, share, problem.keys // 16, head.flat)
    none = tl.zeros([BLOCK_N, 8], tl.float32)
    state = (none, tl.zeros([BLOCK_N, BLOCK_X], tl.float32), none)
    for stage in tl.static_range(3):
        if FLAGS.stages[stage]:
            for start_m in range(bounds[stage], bounds[stage + 1], BLOCK_M):
                state = _columns_step(state, start_m, bounds[3], start_n, column, k, q_desc, x_desc, pool_ptr, norm,
                                      layouts, head, problem, bins, FLAGS, MAXIMUM, BIN_ROWS, PRODUCT, stage != 1,
                                      BLOCK_M, BLOCK_N)  # fmt: skip
    total, acc, _ = state
    inside, base = column < problem.keys, head.flat * problem.keys
    if not PRODUCT:
        total = tl.reduce(total, 1, max_nan) if MAXIMUM else tl.sum(total, 1)
        tl.store(received_ptr + base + column, total, mask=inside)
    if PRODUCT:
        part = tl.arange(0, BLOCK_X)[None, :]
        at = out_ptr + ((base + column).to(tl.int64)[:, None] * WIDTH + part)
        tl.store(at, acc.to(out_ptr.dtype.element_ty), mask=inside[:, None] & (part < WIDTH))


def columns(scores: Scores, norm: Normaliser, step: Pass) -> PassResult:
    """What each key receives, the transposed matrix times x, or the matrix in bins."""
    received, product, pool = step.received, step.product, step.pool
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
    if product is not None:  # in half precision by tensor cores
        x, dtype = product.operand, scores.query.dtype
        x_desc, layout = describe(x.to(dtype), block_m)
        layouts = layouts._replace(v=layout)
        width, rounded = x.shape[-1], product.rounded and x.dtype == dtype != torch.float32
        out = norm.high.new_empty(batch, heads, keys, width, dtype=dtype if rounded else None)

    def grid_and_flags() -> tuple[tuple[int, ...], Flags]:
        flags = prepared.along_queries(norm)
        if not (flags.stages[0] or flags.stages[2]):
            flags = flags._replace(stages=(True, True, True))
        # Two comparisons compile to a shorter program here than the single one of `causal`.
        flags = flags._replace(causal=False, aligned=queries % 4 == 0)
        return prepared.grid(cdiv(keys, block_n), batch * heads), flags

    grid, flags = prepared.once(("columns", norm.low is None), grid_and_flags)
    prepared.launch(
        columns_kernel, grid,
        prepared.q, prepared.k, x_desc, norm, total, out, pooled, prepared.queries_problem, layouts, bins, FLAGS=flags,
        MAXIMUM=received is not None and received.reduce == "max", BIN_ROWS=bin_rows,
        PRODUCT=0 if out is None else 1 + rounded, BLOCK_X=1 if x_desc is None else x_desc.block_shape[1],
        WIDTH=width, **options,
    )  # fmt: skip
    while pooled is not None and pooled.shape[3] > bins[1]:  # torch is slow at sums of a few numbers each
        pooled = pooled[..., ::2] + pooled[..., 1::2]
    return PassResult(total, pool=pooled, product=out)


# sums: a block of keys stays while all queries pass. The weights that a key receives are added up element by element,
# so that threads exchange no numbers until the pass ends; results of rows go to a line of memory that only one program
# writes: no atomics, the same bits every time.


@triton.jit
def _add_to_bins(
    pool_ptr, part, start_m, start_n, bins,
    BIN_ROWS: tl.constexpr, BIN_KEYS: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Add (rows, bins of keys, partial sums) to bins: the bins of a tile, or the bin that has several tiles."""
    bin_rows, bin_columns, share = bins
    down: tl.constexpr = BLOCK_M // BIN_ROWS if BLOCK_M > BIN_ROWS else 1
    across: tl.constexpr = BLOCK_N // BIN_KEYS if BLOCK_N > BIN_KEYS else 1
    if down == 1 and across == 1:  # one bin: a number, which one thread stores
        r, c = start_m // BIN_ROWS, start_n // BIN_KEYS
        small = tl.sum(tl.reshape(part, [BLOCK_M * part.shape[2]]), 0) * share
    else:
        r, c = start_m // BIN_ROWS + tl.arange(0, down)[:, None], start_n // BIN_KEYS + tl.arange(0, across)[None, :]
        small = tl.sum(part, 2)
        if down == 1:
            small = tl.sum(small, 0)[None, :] * share
        else:
            small = tl.sum(tl.reshape(small, [down, BIN_ROWS, across]), 1) * share
    at = pool_ptr + tl.cast(r, tl.int64) * bin_columns + c
    inside = (r < bin_rows) & (c < bin_columns)
    if BIN_KEYS > BLOCK_N:  # earlier blocks of keys were added before
        small += tl.load(at, mask=inside, other=0.0)
    tl.store(at, small, mask=inside)


@triton.jit
def _fold_rows(
    row_sums, pool_ptr, first, end, start_n, bins,
    BIN_ROWS: tl.constexpr, BIN_KEYS: tl.constexpr, BLOCK_N: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    """Add the row sums of a block of keys to bins."""
    for start in range(first // CHUNK * CHUNK, end, CHUNK):
        row = start + tl.arange(0, CHUNK)
        part = tl.load(row_sums + row, mask=(row >= first) & (row < end), other=0.0)
        _add_to_bins(pool_ptr, part[:, None, None], start, start_n, bins, BIN_ROWS, BIN_KEYS, CHUNK, BLOCK_N)


@triton.jit
def _sums_step(
    state, start_m, end, start_n, k, q_desc, entropy_ptr, row_sums, pool_ptr, norm, layouts, head, problem, bins,
    FLAGS: tl.constexpr, ENTROPY: tl.constexpr, RECEIVED: tl.constexpr, POOL: tl.constexpr, BIN_ROWS: tl.constexpr,
    BIN_KEYS: tl.constexpr, MASKED: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    total, band = state
    row, column = start_m + tl.arange(0, BLOCK_M), start_n + tl.arange(0, BLOCK_N)
    inside = row < problem.queries if MASKED else row >= 0  # always true in a full tile
    high, low = load_norm(norm, head, row, problem, FLAGS, MASKED)
    if ENTROPY:
        before = tl.load(entropy_ptr + row, mask=inside, other=0.0)
    q = load_block(q_desc, layouts.q, head.batch, head.index, start_m)
    qk = tl.dot(q, k.T, input_precision=FLAGS.precision)
    logits = tile_logits(qk, row[:, None], column[None, :], head, problem, FLAGS, MASKED)
    log2 = log2_weights(logits, high[:, None], low[:, None], FLAGS)
    p = tl.exp2(log2)
    if RECEIVED:
        total += p
    if ENTROPY:
        tl.store(entropy_ptr + row, before - tl.sum(p * log2, 1) * LN2, mask=inside)
    if POOL == "bins":
        side: tl.constexpr = BIN_KEYS if BIN_KEYS < BLOCK_N else BLOCK_N
        few: tl.constexpr = side if side < 8 else 8  # up to these eight, threads exchange no numbers
        part = tl.sum(tl.reshape(p, [BLOCK_M, BLOCK_N // side, side // few, few]), 2)
        if BIN_ROWS >= BLOCK_M:
            band += part
            if ((start_m + BLOCK_M) % BIN_ROWS == 0) | (start_m + BLOCK_M >= end):
                _add_to_bins(pool_ptr, band, start_m, start_n, bins, BIN_ROWS, BIN_KEYS, BLOCK_M, BLOCK_N)
                band = tl.zeros_like(band)
        else:
            _add_to_bins(pool_ptr, part, start_m, start_n, bins, BIN_ROWS, BIN_KEYS, BLOCK_M, BLOCK_N)
    if POOL == "rows":
        tl.store(row_sums + row, tl.sum(p, 1), mask=inside)
    return total, band


@triton.jit
def sums_kernel(
    q_desc, k_desc, norm, received_ptr, entropy_ptr, row_sums, pool_ptr, problem, layouts, bins, turns,
    FLAGS: tl.constexpr, ENTROPY: tl.constexpr, RECEIVED: tl.constexpr, POOL: tl.constexpr, BIN_ROWS: tl.constexpr,
    BIN_KEYS: tl.constexpr, RAGGED: tl.constexpr, CHUNK: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """What each key receives, the entropy of each row, and the matrix in bins.

    turns: how many blocks of keys are taken one after the other, and how many turns a program has. On every other turn
    the order of the programs is reversed, so that all have the same amount of work.
    POOL: "bins" adds up the rows of a bin as they come; "rows", for one bin of keys, stores the row sums first.
    """
    flat, program, programs = flat_head(), tl.program_id(0), tl.num_programs(0)
    head = find_head(flat, problem, FLAGS)
    consecutive, laps = turns
    side: tl.constexpr = BIN_KEYS if BIN_KEYS < BLOCK_N else BLOCK_N
    few: tl.constexpr = side if side < 8 else 8
    own_line = (flat * programs + program).to(tl.int64) * problem.queries
    if ENTROPY:
        entropy_ptr += own_line
    if POOL == "rows":
        row_sums += own_line
    if POOL != "":
        pool_ptr += flat.to(tl.int64) * bins[0] * bins[1]
    for turn in range(laps * consecutive):
        lap = turn // consecutive
        place = tl.where(lap % 2 == 0, program, programs - 1 - program)
        start_n = ((lap * programs + place) * consecutive + turn % consecutive) * BLOCK_N
        first, full_first, full_end, end = query_bounds(start_n, head, problem, BLOCK_M, BLOCK_N, FLAGS)
        end = tl.where(start_n < problem.keys, end, first)
        if RAGGED:  # the last block of keys is not full: none of its tiles is
            full_first = tl.where(start_n + BLOCK_N > problem.keys, end, full_first)
        full_first, full_end = tl.minimum(full_first, end), tl.minimum(tl.maximum(full_first, full_end), end)
        bounds = (first, full_first, full_end, end)
        k = load_block(k_desc, layouts.k, head.batch, head.key_head, start_n)
        total = tl.zeros([BLOCK_M, BLOCK_N] if RECEIVED else [1, 1], tl.float32)
        keep_band: tl.constexpr = POOL == "bins" and BIN_ROWS >= BLOCK_M
        band = tl.zeros([BLOCK_M, BLOCK_N // side, few] if keep_band else [1, 1, 1], tl.float32)
        state = (total, band)
        for stage in tl.static_range(3):
            if FLAGS.stages[stage]:
                for start_m in range(bounds[stage], bounds[stage + 1], BLOCK_M):
                    state = _sums_step(state, start_m, end, start_n, k, q_desc, entropy_ptr, row_sums, pool_ptr, norm,
                                       layouts, head, problem, bins, FLAGS, ENTROPY, RECEIVED, POOL, BIN_ROWS, BIN_KEYS,
                                       stage != 1, BLOCK_M, BLOCK_N)  # fmt: skip
        total, band = state
        if RECEIVED:
            column = start_n + tl.arange(0, BLOCK_N)
            received = tl.sum(total, 0)
            tl.store(received_ptr + flat.to(tl.int64) * problem.keys + column, received, mask=column < problem.keys)
        if ENTROPY or POOL != "":
            tl.debug_barrier()  # lines are read by other threads than wrote them
        if POOL == "rows":
            _fold_rows(row_sums, pool_ptr, first, tl.minimum(end, problem.queries), start_n, bins, BIN_ROWS, BIN_KEYS,
                       BLOCK_N, CHUNK)  # fmt: skip
            tl.debug_barrier()


def sums(scores: Scores, norm: Normaliser, step: Pass) -> PassResult:
    """Received, entropies and even bins."""
    pool, (batch, heads, queries, keys) = step.pool, scores.shape
    block_m, block_n, options = sums_blocks(scores)
    bin_rows, bin_keys, units, pooling, programs = sums_shape(scores, step)
    prepared = prepare(scores, block_m, block_n, interleave=False)
    total = None if step.received is None else norm.high.new_empty(batch, heads, keys)
    lines = None if step.entropy is None else norm.high.new_zeros(batch, heads, programs, queries)
    row_sums = norm.high.new_empty(batch * heads * programs * queries) if pooling == "rows" else None
    bins, pooled = (1, 1, 1.0), None
    if pool is not None:
        bins = (pool.rows, keys // bin_keys, pool.rows * pool.columns / (queries * keys))
        # Where the band hides nothing and a bin is no wider than a tile, every bin is written.
        written = (
            bins[1] == pool.columns and bin_keys <= block_n and (not scores.mask.bands and not prepared.flags.limits)
        )
        pooled = (norm.high.new_empty if written else norm.high.new_zeros)(batch, heads, *bins[:2])
    ragged = keys % block_n > 0

    def flags() -> Flags:
        flags = prepared.along_queries(norm)
        return flags._replace(stages=(flags.stages[0] or ragged, True, flags.stages[2]))

    prepared.launch(
        sums_kernel, (programs, *head_grid(batch * heads)),
        prepared.q, prepared.k, norm, total, lines, row_sums, pooled, prepared.queries_problem, prepared.layouts, bins,
        (max(bin_keys // block_n, 1), cdiv(units, programs)), FLAGS=prepared.once(("sums", norm.low is None), flags),
        ENTROPY=lines is not None, RECEIVED=total is not None, POOL=pooling, BIN_ROWS=bin_rows, BIN_KEYS=bin_keys,
        RAGGED=ragged, CHUNK=4096, **options,
    )  # fmt: skip
    if pool is not None and pooled is not None and bins[1] > pool.columns:
        pooled = pooled.view(batch, heads, pool.rows, pool.columns, -1).sum(-1)
    entropies = None if lines is None else lines[:, :, 0] if programs == 1 else lines.sum(2)
    return PassResult(total, entropies, pooled)
