"""The Triton kernel along the rows: entropy, greatest weights, what keys receive and bins, all in one walk.

A block of queries stays in registers while all keys pass. What is summed along the columns goes through a line of
memory that belongs to one program alone: no atomics, the same bits every time.
"""

# mypy: ignore-errors
from __future__ import annotations

import triton
import triton.language as tl

from regard.backends.kernels import BAND, HIDDEN, _band, _load, _log, _meet, _norm, _place, _spans, _tile


@triton.jit
def _marked(log, tile, BITS: tl.constexpr):
    """A number whose last bits tell the tile that it comes from."""
    bits = (log.to(tl.int32, bitcast=True) >> BITS << BITS) | tile
    return bits.to(tl.float32, bitcast=True)


@triton.jit
def _sum_up(
    weights, band, at, size, sums,
    SUMMED: tl.constexpr, POOLED: tl.constexpr, HIGH: tl.constexpr, WIDE: tl.constexpr, BM: tl.constexpr,
    BN: tl.constexpr,
):  # fmt: skip
    """Add a tile to what is summed along its columns and (POOLED: 1 or 3) put it into bins."""
    LINE, _, BINS, POOL, bins, bin, many, share = sums
    column = at + tl.arange(0, BN)
    if SUMMED:
        one = tl.arange(0, 1)[:, None]  # a line as a matrix: stored by few threads, side by side
        tl.store(
            LINE + one + column[None, :], tl.sum(weights, 0)[None, :], mask=(column < size[1])[None, :] & (one >= 0)
        )
    if POOLED == 3:  # along the rows first, which costs no exchange between warps
        r = tl.arange(0, BM)
        if WIDE > BN:  # several tiles to a bin: the last store of them counts
            band = tl.where(at % WIDE == 0, 0.0, band) + tl.sum(weights, 1)
            tl.store(BINS + at // WIDE * BM + r, band)
        else:
            across: tl.constexpr = BN // WIDE
            c = at // WIDE + tl.arange(0, across)
            small = tl.sum(weights, 1)[:, None] if across == 1 else tl.sum(tl.reshape(weights, [BM, across, WIDE]), 2)
            tl.store(BINS + c[None, :] * BM + r[:, None], small, mask=(r >= 0)[:, None] & (c < many)[None, :])
    if POOLED == 1:
        parts: tl.constexpr = BM // HIGH
        r = bin + tl.arange(0, parts)
        if parts == 1:  # noqa: SIM108 (an expression would trace both)
            each = tl.sum(weights, 0)[None, :]
        else:
            each = tl.sum(tl.reshape(weights, [parts, HIGH, BN]), 1)
        if WIDE > BN:
            band = tl.where(at % WIDE == 0, 0.0, band) + tl.sum(each, 1)
            tl.store(POOL + r.to(tl.int64) * many + at // WIDE, band * share, mask=r < bins)
        else:
            _put(POOL, each, r, at, bins, many, share, parts, WIDE, BN)
    return band


@triton.jit
def _put(POOL, each, r, at, bins, many, share, PARTS: tl.constexpr, WIDE: tl.constexpr, SIZE: tl.constexpr):
    """Columns to bins of WIDE of them."""
    across: tl.constexpr = SIZE // WIDE
    c = at // WIDE + tl.arange(0, across)
    small = tl.sum(each, 1)[:, None] if across == 1 else tl.sum(tl.reshape(each, [PARTS, across, WIDE]), 2)
    inside = (r < bins)[:, None] & (c < many)[None, :]
    tl.store(POOL + r.to(tl.int64)[:, None] * many + c[None, :], small * share, mask=inside)


@triton.jit
def _fold(
    first, end, size, sums,
    POOLED: tl.constexpr, HIGH: tl.constexpr, WIDE: tl.constexpr, BM: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    """Add the line of a block of rows to what its keys receive, and put line (POOLED: 2) or rows (3) into bins."""
    LINE, SUM, BINS, POOL, bins, bin, many, share = sums
    tl.debug_barrier()  # what is read here was written by other threads
    for at in range(first // CHUNK * CHUNK, end, CHUNK):
        column = at + tl.arange(0, CHUNK)
        inside = (column >= first) & (column < end)
        each = tl.load(LINE + column, mask=inside, other=0.0)
        tl.store(SUM + column, tl.load(SUM + column, mask=inside, other=0.0) + each, mask=inside)
        if POOLED == 2:
            _put(POOL, each[None, :], bin + tl.arange(0, 1), at, bins, many, share, 1, WIDE, CHUNK)
    if POOLED == 3:
        parts: tl.constexpr = BM // HIGH
        few: tl.constexpr = 4096 // BM
        r, row = bin + tl.arange(0, parts), tl.arange(0, BM)[:, None]
        for at in range(first // WIDE, tl.cdiv(end, WIDE), few):
            c = at + tl.arange(0, few)[None, :]
            each = tl.load(BINS + c * BM + row, mask=(row >= 0) & (c < tl.cdiv(end, WIDE)), other=0.0)
            each = tl.sum(tl.reshape(each, [parts, HIGH, few]), 1) * share
            tl.store(POOL + r.to(tl.int64)[:, None] * many + c, each, mask=(r < bins)[:, None] & (c < many))
    tl.debug_barrier()


@triton.jit
def _rows_step(
    state, dots, at, ids, row, norm, rest, size, lo, hi, factor, cap, mask, sums,
    FLAGS: tl.constexpr, ENTROPY: tl.constexpr, BEST: tl.constexpr, SUMMED: tl.constexpr, POOLED: tl.constexpr,
    HIGH: tl.constexpr, WIDE: tl.constexpr, BITS: tl.constexpr, MASKED: tl.constexpr, BM: tl.constexpr,
    BN: tl.constexpr,
):  # fmt: skip
    entropy, first, second, third, band = state
    batch, head, _ = ids
    column = at + tl.arange(0, BN)
    logits = _tile(dots, row[:, None], column[None, :], batch, head, size, lo, hi, factor, cap, mask, FLAGS, MASKED)
    log = _log(logits, norm[:, None], rest[:, None], FLAGS)
    if BEST:
        marked = _marked(log, at // BN, BITS)
        less = tl.minimum(first, marked)
        first = tl.maximum(first, marked)
        lost = tl.reshape(tl.minimum(second, less), [BM, BN // 8, 8])  # over these eights, no exchange either
        third = tl.maximum(third, tl.max(lost, 1))
        second = tl.maximum(second, less)
    if ENTROPY or POOLED or SUMMED:
        weights = tl.exp2(log)
        if ENTROPY:
            entropy -= tl.sum(weights * log, 1)
        if POOLED or SUMMED:
            band = _sum_up(weights, band, at, size, sums, SUMMED, POOLED, HIGH, WIDE, BM, BN)
    return entropy, first, second, third, band


@triton.jit
def rows(
    Q, K, NORM, REST, ENT, FIRST, THIRD, LINE, SUM, BINS, POOL, low, high, size, shape, layouts, factor, cap, mask,
    turns, bins, share,
    FLAGS: tl.constexpr, ENTROPY: tl.constexpr, BEST: tl.constexpr, SUMMED: tl.constexpr, POOLED: tl.constexpr,
    HIGH: tl.constexpr, WIDE: tl.constexpr, BITS: tl.constexpr, RAGGED: tl.constexpr, CHUNK: tl.constexpr,
    EDGES: tl.constexpr, EXACT: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """The entropy of each row, its greatest weights, what its keys receive and the matrix in bins, all in one walk.

    BEST: keys with the same remainder by BN form a class. Of each class a row keeps the two greatest weights, each
    marked with its tile, and of all the others the greatest one: comparisons alone, no exchange between threads.
    SUMMED: a program takes every so many-th of the blocks from turns[0] to turns[1] and adds up what keys receive in a
    line of its own. POOLED: 1 puts each tile into its bins, 2 the line of each block, 3 the rows of each block.
    """
    flat = tl.program_id(1)
    batch, head, key_head, block = _place(shape, flat, 0, 0, False)
    lo, hi = _band(low, high, batch, FLAGS)
    above, below, lines, left_out = turns
    mine = (flat * lines + tl.program_id(0)).to(tl.int64)
    SUM += mine * size[1]
    LINE += mine * size[1]
    BINS += mine * BM * bins[1]
    POOL += flat.to(tl.int64) * bins[0] * bins[1]
    ids = (batch, head, key_head)
    for turn in range(tl.program_id(0), below - above, tl.num_programs(0)):
        block = below - 1 - turn if BAND & FLAGS else above + turn  # the last blocks often have most to do
        start = block * BM
        row = start + tl.arange(0, BM)
        norm, rest = _norm(NORM, REST, flat * size[0], row, size[0], FLAGS)
        norm = tl.where(row < size[0], norm, -HIDDEN)
        query = _load(Q, layouts[0], batch, head, start, BM)
        if RAGGED:  # rows of another head, or nobody's: they are to weigh nothing
            query = tl.where((row < size[0])[:, None], query, 0.0)
        bottom = tl.minimum(start + BM, size[0]) - 1
        a, b, c, d = _spans(start + lo, bottom + lo, start + hi + 1, bottom + hi + 1, size[1], BN, FLAGS)
        none, zero = tl.full([BM, BN if BEST else 1], 2 * HIDDEN, tl.float32), tl.zeros([BM], tl.float32)
        third = tl.full([BM, 8 if BEST else 1], 2 * HIDDEN, tl.float32)
        state = (zero, none, none, third, zero if POOLED == 3 else tl.zeros([BM // HIGH], tl.float32))
        sums = (LINE, SUM, BINS, POOL, bins[0], (block - left_out) * (BM // HIGH), bins[1], share)
        if EDGES & 1:
            for at in range(a, b, BN):
                dots = _meet(query, K, layouts[1], batch, key_head, at, BN, EXACT)
                state = _rows_step(state, dots, at, ids, row, norm, rest, size, lo, hi, factor, cap, mask, sums, FLAGS,
                                   ENTROPY, BEST, SUMMED, POOLED, HIGH, WIDE, BITS, True, BM, BN)  # fmt: skip
        for at in range(b, c, BN):
            dots = _meet(query, K, layouts[1], batch, key_head, at, BN, EXACT)
            state = _rows_step(state, dots, at, ids, row, norm, rest, size, lo, hi, factor, cap, mask, sums, FLAGS,
                               ENTROPY, BEST, SUMMED, POOLED, HIGH, WIDE, BITS, False, BM, BN)  # fmt: skip
        if EDGES & 2:
            for at in range(c, d, BN):
                dots = _meet(query, K, layouts[1], batch, key_head, at, BN, EXACT)
                state = _rows_step(state, dots, at, ids, row, norm, rest, size, lo, hi, factor, cap, mask, sums, FLAGS,
                                   ENTROPY, BEST, SUMMED, POOLED, HIGH, WIDE, BITS, True, BM, BN)  # fmt: skip
        entropy, first, second, third, _band_left = state
        if ENTROPY:
            tl.store(ENT + flat * size[0] + row, entropy, mask=row < size[0])
        if BEST:
            here = flat * (below - above) * BM + row - above * BM
            spot = here.to(tl.int64)[:, None] * (2 * BN) + tl.arange(0, BN)[None, :]
            tl.store(FIRST + spot, first)
            tl.store(FIRST + spot + BN, second)
            tl.store(THIRD + here, tl.max(third, 1))
        if SUMMED:
            _fold(a, d, size, sums, POOLED, HIGH, WIDE, BM, CHUNK)
