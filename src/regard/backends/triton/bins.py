"""Bins of any size: blocks of keys and tiles of queries begin where bins do, and cut none in two.

Bins whose sizes are powers of two are added up on the way by `columns` and `sums`, in passes.py.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator, import-untyped"
from __future__ import annotations

from typing import NamedTuple

import torch
import triton
import triton.language as tl

from regard.backends.triton import tuning
from regard.backends.triton.kernels import find_block, load_block, load_norm, log2_weights, query_bounds, tile_logits
from regard.backends.triton.launch import Pass, PassResult
from regard.backends.triton.problem import Normaliser, cdiv, next_power, prepare
from regard.scores import Scores


@triton.jit
def _bin_edge(bin, bins, tokens, WIDE: tl.constexpr):
    """The first token of a bin, where so many tokens lie in nearly equal bins; WIDE: 32 bits are too few for this."""
    return (tl.cast(bin, tl.int64) * tokens // bins).to(tl.int32) if WIDE else bin * tokens // bins


@triton.jit
def _bin_edges(first, slot, bins, tokens, WIDE: tl.constexpr):
    """The first tokens of the bins from `first` on, for sixteen slots, without a division for each slot."""
    if WIDE:
        edges = _bin_edge(first + slot, bins, tokens, True)
    else:
        start = first * tokens // bins
        rest = first * tokens - start * bins + slot * (tokens % bins)
        # Less than 2 ** 15.5 bins, so the quotient's error is less than the half that is added to its numerator.
        edges = start + slot * (tokens // bins) + ((rest.to(tl.float32) + 0.5) * (1.0 / bins)).to(tl.int32)
    return edges


@triton.jit
def _bin_of(token, bins, tokens, WIDE: tl.constexpr):
    """The bin of a token; the number of bins for a token beyond the last."""
    if WIDE:
        own = (((tl.cast(token, tl.int64) + 1) * bins - 1) // tokens).to(tl.int32)
    else:
        own = ((token + 1) * bins - 1) // tokens
    return tl.minimum(own, bins)


@triton.jit
def _halves(x):
    """Two bfloat16 that add up to x with an error of 2⁻¹⁶: its first eight digits, cut off, and the next eight."""
    first = (x.to(tl.int32, bitcast=True) & -65536).to(tl.float32, bitcast=True)
    return first.to(tl.bfloat16), (x - first).to(tl.bfloat16)


@triton.jit
def _dot_01(a, b, SPLIT_A: tl.constexpr, EXACT: tl.constexpr):
    """a @ b in float32, where one factor holds only 0 and 1; the other is split into two halves of its digits."""
    if EXACT:
        product = tl.dot(a.to(tl.float32), b.to(tl.float32), input_precision="ieee")
    elif SPLIT_A:
        high, low = _halves(a)
        b = b.to(tl.bfloat16)
        product = tl.dot(high, b, tl.dot(low, b))
    else:
        high, low = _halves(b)
        a = a.to(tl.bfloat16)
        product = tl.dot(a, high, tl.dot(a, low))
    return product


@triton.jit
def _bins_tile(
    start_m, column, k, q_desc, norm, layouts, head, problem,
    FLAGS: tl.constexpr, MASKED: tl.constexpr, BLOCK_M: tl.constexpr,
):  # fmt: skip
    """The weights of a tile of (keys, queries)."""
    row = start_m + tl.arange(0, BLOCK_M)
    high, low = load_norm(norm, head, row, problem, FLAGS, True)
    q = load_block(q_desc, layouts.q, head.batch, head.index, start_m)
    qk = tl.dot(k, q.T, input_precision=FLAGS.precision)
    logits = tile_logits(qk, row[None, :], column[:, None], head, problem, FLAGS, MASKED)
    return tl.exp2(log2_weights(logits, high[None, :], low[None, :], FLAGS))


@triton.jit
def _lost(row, head, norm, problem):
    """Rows that hold NaN, judged by their normalisers."""
    high = tl.load(norm.high + head.flat * problem.queries + row, mask=row < problem.queries, other=0.0)
    return (high != high) | (high == float("-inf"))


@triton.jit
def _bins_step(
    total, group, some_lost, column, k, mine, key_share, pool_ptr, q_desc, norm, layouts, head, problem, rows_columns,
    FLAGS: tl.constexpr, MASKED: tl.constexpr, SHAPE: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """A group of bins of queries: several bins in one tile, or one large bin."""
    bin_rows, bin_columns = rows_columns
    first, queries = group * SHAPE.together, problem.queries
    last = tl.minimum(first + SHAPE.together, bin_rows)
    start, end = _bin_edge(first, bin_rows, queries, SHAPE.wide), _bin_edge(last, bin_rows, queries, SHAPE.wide)
    local = tl.arange(0, SHAPE.across)
    if SHAPE.together > 1:  # sums over bins are products with matrices of 0 and 1
        p = _bins_tile(start, column, k, q_desc, norm, layouts, head, problem, FLAGS, MASKED, BLOCK_M)
        row, slot = start + tl.arange(0, BLOCK_M), tl.arange(0, SHAPE.slots)
        lower = _bin_edges(first, slot, bin_rows, queries, SHAPE.wide)
        upper = _bin_edges(first, slot + 1, bin_rows, queries, SHAPE.wide)
        inside = (first + slot < last)[None, :]
        of_row = (row[:, None] >= lower[None, :]) & (row[:, None] < upper[None, :]) & inside
        # NaN becomes 0 here, as 0 × NaN would be NaN in other bins too.
        part = _dot_01(tl.maximum(p, 0.0), of_row, True, SHAPE.exact)  # (keys, bins of queries)
        if some_lost:
            bins_lost = tl.sum((of_row & _lost(row, head, norm, problem)[:, None]).to(tl.int32), 0) > 0
            part = tl.where(bins_lost[None, :], float("nan"), part)
        row_share = 1.0 / tl.maximum(upper - lower, 1)
        small = _dot_01(mine, part, False, SHAPE.exact) * key_share[:, None] * row_share[None, :]
        at = pool_ptr + tl.cast(first + slot, tl.int64)[None, :] * bin_columns + local[:, None]
        tl.store(at, small, mask=(key_share > 0)[:, None] & inside)
        total += part
    else:
        sums = tl.zeros([BLOCK_N], tl.float32)
        for start_m in range(start, end, BLOCK_M):
            p = _bins_tile(start_m, column, k, q_desc, norm, layouts, head, problem, FLAGS, MASKED, BLOCK_M)
            sums += tl.sum(tl.where((start_m + tl.arange(0, BLOCK_M) < end)[None, :], p, 0.0), 1)
        small = tl.sum(tl.where(mine, sums[None, :], 0.0), 1) * key_share / (end - start)
        tl.store(pool_ptr + tl.cast(first, tl.int64) * bin_columns + local, small, mask=key_share > 0)
        total += sums
    return total


@triton.jit
def bins_kernel(
    q_desc, k_desc, norm, received_ptr, pool_ptr, problem, layouts, counts,
    FLAGS: tl.constexpr, SHAPE: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """The matrix in nearly equal bins of any size, and what each key receives: a share for each of the splits.

    counts: bins of queries, bins of keys, how many of these a program has (SHAPE.across at most), how many make up one
    bin of the result, and into how many splits the bins of queries are cut. A bin with more keys than a block is cut
    into several, which are added up afterwards.
    """
    head, program, _ = find_block(problem, FLAGS)
    bin_rows, bin_columns, each, parts, splits = counts
    block, split = program // splits, program % splits
    first_bin, keys = block * each, problem.keys
    start_n = _bin_edge(first_bin, bin_columns, keys, SHAPE.wide)
    end_n = _bin_edge(tl.minimum(first_bin + each, bin_columns), bin_columns, keys, SHAPE.wide)
    column = start_n + tl.arange(0, BLOCK_N)
    k = load_block(k_desc, layouts.k, head.batch, head.key_head, start_n)
    k = tl.where((column < end_n)[:, None], k, 0.0)
    own_bin = tl.where(column < end_n, _bin_of(column, bin_columns, keys, SHAPE.wide) - first_bin, SHAPE.across)
    mine = own_bin[None, :] == tl.arange(0, SHAPE.across)[:, None]
    bin = first_bin + tl.arange(0, SHAPE.across)
    whole = bin // parts * parts
    size = _bin_edge(whole + parts, bin_columns, keys, SHAPE.wide) - _bin_edge(whole, bin_columns, keys, SHAPE.wide)
    key_share = tl.where((bin < first_bin + each) & (bin < bin_columns), 1.0 / size, 0.0)
    # Limits belong to blocks at multiples of the block size: this block may lie in two of them.
    aligned = start_n // BLOCK_N * BLOCK_N
    first, full_first, full_end, end = query_bounds(aligned, head, problem, BLOCK_M, BLOCK_N, FLAGS)
    later = query_bounds(aligned + BLOCK_N, head, problem, BLOCK_M, BLOCK_N, FLAGS)
    if end_n > aligned + BLOCK_N:
        first, full_first = tl.minimum(first, later[0]), tl.maximum(full_first, later[1])
        full_end, end = tl.minimum(full_end, later[2]), tl.maximum(end, later[3])
    queries = problem.queries
    end = tl.minimum(end, queries)  # of blocks that no query sees, it may lie beyond the last one
    first_group = _bin_of(first, bin_rows, queries, SHAPE.wide) // SHAPE.together
    end_group = tl.cdiv(_bin_of(tl.maximum(end, 1) - 1, bin_rows, queries, SHAPE.wide) + 1, SHAPE.together)
    end_group = tl.where(end > first, end_group, first_group)
    full_group = tl.cdiv(_bin_of(tl.maximum(full_first, 1) - 1, bin_rows, queries, SHAPE.wide) + 1, SHAPE.together)
    full_group = tl.where(full_first > 0, full_group, 0)
    full_end_group = _bin_of(full_end, bin_rows, queries, SHAPE.wide) // SHAPE.together
    # The groups of this split
    groups = tl.cdiv(end_group - first_group, splits)
    first_group = first_group + split * groups
    end_group = tl.maximum(tl.minimum(end_group, first_group + groups), first_group)
    full_group = tl.minimum(tl.maximum(full_group, first_group), end_group)
    full_end_group = tl.minimum(tl.maximum(full_end_group, full_group), end_group)
    before, cut = full_group - first_group, full_group - first_group + end_group - full_end_group
    pool_ptr += head.flat.to(tl.int64) * bin_rows * bin_columns + first_bin
    SLOTS: tl.constexpr = SHAPE.slots
    total = tl.zeros([BLOCK_N, SLOTS] if SHAPE.together > 1 else [BLOCK_N], tl.float32)
    some_lost = first_group < 0  # not yet
    if SHAPE.together > 1:
        rows, found = tl.arange(0, 1024), tl.zeros([1024], tl.int32)
        end = _bin_edge(tl.minimum(end_group * SHAPE.together, bin_rows), bin_rows, queries, SHAPE.wide)
        for start in range(_bin_edge(first_group * SHAPE.together, bin_rows, queries, SHAPE.wide), end, 1024):
            found |= _lost(start + rows, head, norm, problem).to(tl.int32)
        some_lost = tl.max(found, 0) > 0
    for turn in range(cut):  # the groups that the mask cuts, before and after the full groups
        group = tl.where(turn < before, first_group + turn, full_end_group + turn - before)
        total = _bins_step(total, group, some_lost, column, k, mine, key_share, pool_ptr, q_desc, norm, layouts, head,
                           problem, (bin_rows, bin_columns), FLAGS, True, SHAPE, BLOCK_M, BLOCK_N)  # fmt: skip
    for group in range(full_group, full_end_group):
        total = _bins_step(total, group, some_lost, column, k, mine, key_share, pool_ptr, q_desc, norm, layouts, head,
                           problem, (bin_rows, bin_columns), FLAGS, False, SHAPE, BLOCK_M, BLOCK_N)  # fmt: skip
    if SHAPE.together > 1:
        total = tl.sum(total, 1)
    tl.store(received_ptr + (head.flat * splits + split).to(tl.int64) * keys + column, total, mask=column < end_n)


class BinShape(NamedTuple):
    """What the kernel is compiled for."""

    together: int  # bins of queries that share a tile
    slots: int  # the room for them, at least what a product needs
    across: int  # bins of keys of a program, at most
    exact: bool  # whether products with 0 and 1 are of float32
    wide: bool  # whether positions times bins need 64 bits


def bins(scores: Scores, norm: Normaliser, step: Pass) -> PassResult:
    """The matrix in bins of any size, and what each key receives."""
    assert step.pool is not None
    pool_rows, pool_columns = step.pool.rows, step.pool.columns
    batch, heads, queries, keys = scores.shape
    block_m, block_n, options = tuning.blocks("bins", scores)
    rows, wide = cdiv(queries, pool_rows), cdiv(keys, pool_columns)
    together = min(max(block_m // rows, 1), 16)
    if together == 1:
        block_m = options["BLOCK_M"] = min(block_m, 32)  # larger ones would only be emptier
    parts = cdiv(wide, block_n)  # of a large bin
    mine = min(block_n // wide, 32) if parts == 1 else 1
    blocks = cdiv(pool_columns * parts, mine)
    splits = min(cdiv(4 * tuning.processors(scores.query.device), blocks * batch * heads), cdiv(pool_rows, together))
    prepared = prepare(scores, block_m, block_n)
    # Queries and keys beyond the last are in no bin, so nothing has to hide them.
    flags = prepared.along_queries(norm)._replace(stages=(True, True, True), causal=False, full_blocks=True)
    total = norm.high.new_empty(batch, heads, splits, keys)
    pooled = norm.high.new_zeros(batch, heads, pool_rows, pool_columns * parts)
    across = max(next_power(mine), 16 if together > 1 else 1)
    exact = scores.query.dtype == torch.float32 or norm.high.device.type == "cpu"  # the interpreter's bfloat16 is wrong
    bits = max((queries + 1) * pool_rows, (keys + 1) * pool_columns * parts).bit_length()
    shape = BinShape(together, 16, across, exact, bits > 31)
    prepared.launch(
        bins_kernel, prepared.grid(blocks * splits, batch * heads),
        prepared.q, prepared.k, norm, total, pooled, prepared.queries_problem, prepared.layouts,
        (pool_rows, pool_columns * parts, mine, parts, splits), FLAGS=flags, SHAPE=shape, **options,
    )  # fmt: skip
    if parts > 1:
        pooled = pooled.view(batch, heads, pool_rows, pool_columns, parts).sum(-1)
    return PassResult(total[:, :, 0] if splits == 1 else total.sum(2), pool=pooled)
