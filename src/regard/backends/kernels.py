"""The Triton kernels: one tile function, and three short walks over the tiles that it gives.

`_tile` turns products of queries and keys into base-2 logits: scaled, capped, biased, masked. A block of queries stays
in registers where rows are wanted (`forward`, `rows`), a block of keys where columns are (`columns`), so no
result is ever added to by two programs: no atomics, the same bits every time. Every walk has three loops: tiles that
the band cuts, tiles that it leaves whole (nothing to ask there), and tiles that it cuts again (EDGES: which of the two
there can be); tiles that it empties are never touched.
"""

# mypy: ignore-errors
from __future__ import annotations

import triton
import triton.language as tl

# What a mask may hold, as bits of FLAGS.
BAND, KEEP, IDS, SEEN, BIAS, CAP, LOW, EACH = (tl.constexpr(1 << n) for n in range(8))
ALWAYS = tl.constexpr(2 | 4 | 8 | 16)  # those that every tile has to be asked for
LOG2E, LN2 = tl.constexpr(1.4426950408889634), tl.constexpr(0.6931471805599453)
HIDING, HIDDEN = tl.constexpr(-1e29), tl.constexpr(-1e30)  # as in masks.py and tiled.py


@triton.jit
def _tanh(x):
    """tanh(x · ln 2 / 2): the factor is in x already."""
    return 1 - 2 / (tl.exp2(x) + 1)


@triton.jit
def _tile(dots, row, column, batch, head, size, lo, hi, factor, cap, mask, FLAGS: tl.constexpr, MASKED: tl.constexpr):
    """Base-2 logits of a tile, HIDDEN where a key may not be seen. `row` and `column` broadcast to the tile."""
    logits = cap * _tanh(dots * factor) if CAP & FLAGS else dots * factor
    if MASKED:
        rows, columns = size
        inside = (row < rows) & (column < columns)
        seen = inside
        keep, query_ids, key_ids, visible, bias, lowest, strides = mask
        if BAND & FLAGS:
            seen = seen & (column - row >= lo) & (column - row <= hi)
        if KEEP & FLAGS:
            seen = seen & (tl.load(keep + batch * columns + column, mask=column < columns, other=0) != 0)
        if IDS & FLAGS:
            mine = tl.load(query_ids + batch * rows + row, mask=row < rows, other=0)
            theirs = tl.load(key_ids + batch * columns + column, mask=column < columns, other=0)
            seen = seen & (mine == theirs)
        if SEEN & FLAGS:
            at = batch * strides[0] + head * strides[1] + row.to(tl.int64) * strides[2] + column * strides[3]
            seen = seen & (tl.load(visible + at, mask=inside, other=0) != 0)
        if BIAS & FLAGS:
            at = batch * strides[4] + head * strides[5] + row.to(tl.int64) * strides[6] + column * strides[7]
            added = tl.load(bias + at, mask=inside, other=0.0).to(tl.float32)
            seen = seen & (added > lowest)
            logits += tl.where(added > lowest, added, 0.0) * LOG2E
        logits = tl.where(seen, logits, HIDDEN)
    return logits


@triton.jit
def _band(low, high, batch, FLAGS: tl.constexpr):
    """How far a key may lie before and behind its query; EACH: for each batch on its own."""
    lo, hi = low, high
    if EACH & FLAGS:
        lo, hi = tl.load(low + batch), tl.load(high + batch)
    return lo, hi


@triton.jit
def _spans(first, whole_first, whole_end, end, most, BLOCK: tl.constexpr, FLAGS: tl.constexpr):
    """Where the three loops begin and end, in whole blocks."""
    first = tl.maximum(first, 0) // BLOCK * BLOCK
    end = tl.maximum(tl.minimum(end, most), first)
    if ALWAYS & FLAGS:
        return first, end, end, end
    whole_first = tl.minimum(tl.cdiv(tl.maximum(whole_first, 0), BLOCK) * BLOCK, end)
    whole_first = tl.maximum(whole_first, first)
    whole_end = tl.maximum(tl.minimum(whole_end, most) // BLOCK * BLOCK, whole_first)
    return first, whole_first, whole_end, end


@triton.jit
def _place(shape, flat, block, last, LATE: tl.constexpr):
    """(batch, head, key head, block) of a program; LATE: the last blocks, which have most to do, first."""
    heads, group = shape
    batch, head = flat // heads, flat % heads
    return batch, head, head // group, (last - block) if LATE else block


@triton.jit
def _load(source, layout, batch, head, start, TOKENS: tl.constexpr):
    """A block of tokens of one head; what lies outside comes as it is: the tile function hides it."""
    per_batch, per_head, aside = layout
    return source.load([batch * per_batch + head * per_head + start, head * aside])


@triton.jit
def _meet(block, source, layout, batch, head, start, TOKENS: tl.constexpr, EXACT: tl.constexpr):
    """The products of a block that stays with a block of tokens that passes."""
    return tl.dot(block, _load(source, layout, batch, head, start, TOKENS).T, input_precision=EXACT)


@triton.jit
def _norm(NORM, REST, base, row, rows, FLAGS: tl.constexpr):
    """A row's normaliser in base 2: what float32 holds of it, and the rest where logits are large."""
    norm = tl.load(NORM + base + row, mask=row < rows, other=float("inf"))
    rest = tl.zeros_like(norm)
    if LOW & FLAGS:
        rest = tl.load(REST + base + row, mask=row < rows, other=0.0)
    return norm, rest


@triton.jit
def _log(logits, norm, rest, FLAGS: tl.constexpr):
    """log2 of the weights."""
    return (logits - norm) - rest if LOW & FLAGS else logits - norm


# forward: the softmax itself, with or without values


@triton.jit
def _forward_step(
    state, at, query, K, V, layouts, ids, row, size, lo, hi, factor, cap, mask,
    FLAGS: tl.constexpr, VALUES: tl.constexpr, MASKED: tl.constexpr, BN: tl.constexpr, EXACT: tl.constexpr,
):  # fmt: skip
    peak, total, out = state
    batch, head, key_head = ids
    key = _load(K, layouts[1], batch, key_head, at, BN)
    dots = tl.dot(query, key.T, input_precision=EXACT)
    column = at + tl.arange(0, BN)
    logits = _tile(dots, row[:, None], column[None, :], batch, head, size, lo, hi, factor, cap, mask, FLAGS, MASKED)
    new = tl.maximum(peak, tl.max(logits, 1))
    weights = tl.exp2(logits - new[:, None])
    if MASKED:
        weights = tl.where(logits > HIDING, weights, 0.0)
    shrink = tl.exp2(peak - new)
    total = total * shrink + tl.sum(weights, 1)
    if VALUES:
        value = _load(V, layouts[2], batch, key_head, at, BN)
        if MASKED:  # rows of another head, or nobody's: 0 × NaN would be NaN
            value = tl.where((column < size[1])[:, None], value, 0.0)
        out = tl.dot(weights.to(value.dtype), value, out * shrink[:, None], input_precision=EXACT)
    return new, total, out


@triton.jit
def forward(
    Q, K, V, OUT, LSE, low, high, size, shape, layouts, factor, cap, mask,
    FLAGS: tl.constexpr, VALUES: tl.constexpr, WIDTH: tl.constexpr, EXACT: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BV: tl.constexpr,
):  # fmt: skip
    """weights @ value and the logsumexp of each row."""
    flat = tl.program_id(1)
    batch, head, key_head, block = _place(shape, flat, tl.program_id(0), tl.num_programs(0) - 1, BAND & FLAGS)
    rows, columns = size
    start = block * BM
    row = start + tl.arange(0, BM)
    lo, hi = _band(low, high, batch, FLAGS)
    query = _load(Q, layouts[0], batch, head, start, BM)
    bottom = tl.minimum(start + BM, rows) - 1
    a, b, c, d = _spans(start + lo, bottom + lo, start + hi + 1, bottom + hi + 1, columns, BN, FLAGS)
    state = (tl.full([BM], HIDDEN, tl.float32), tl.zeros([BM], tl.float32), tl.zeros([BM, BV], tl.float32))
    ids = (batch, head, key_head)
    for at in range(a, b, BN):
        state = _forward_step(state, at, query, K, V, layouts, ids, row, size, lo, hi, factor, cap, mask, FLAGS,
                              VALUES, True, BN, EXACT)  # fmt: skip
    for at in range(b, c, BN):
        state = _forward_step(state, at, query, K, V, layouts, ids, row, size, lo, hi, factor, cap, mask, FLAGS,
                              VALUES, False, BN, EXACT)  # fmt: skip
    for at in range(c, d, BN):
        state = _forward_step(state, at, query, K, V, layouts, ids, row, size, lo, hi, factor, cap, mask, FLAGS,
                              VALUES, True, BN, EXACT)  # fmt: skip
    peak, total, out = state
    some = total > 0
    lse = tl.where(some, (peak + tl.log2(total)) * LN2, float("-inf"))
    tl.store(LSE + flat * rows + row, lse, mask=row < rows)
    if VALUES:
        out = out / tl.where(some, total, 1.0)[:, None]
        column = tl.arange(0, BV)
        spot = (flat * rows + row).to(tl.int64)[:, None] * WIDTH + column[None, :]
        tl.store(OUT + spot, out.to(OUT.dtype.element_ty), mask=(row < rows)[:, None] & (column < WIDTH)[None, :])


# rows: what is gathered along the keys


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
    above, below, lines = turns
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
        sums = (LINE, SUM, BINS, POOL, bins[0], block * (BM // HIGH), bins[1], share)
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


# columns: what is gathered along the queries


@triton.jit
def _give(POOL, band, bin, column, size, bins):
    """What a block of keys gives to a bin of rows: to the bin of keys it begins in, and to the next one."""
    many_rows, _, edge, lane = bins
    spot = ((lane * many_rows + bin).to(tl.int64) * tl.num_programs(0) + tl.program_id(0)) * 2
    tl.store(POOL + spot, tl.sum(tl.where(column < edge, band, 0.0), 0))
    tl.store(POOL + spot + 1, tl.sum(tl.where((column >= edge) & (column < size[1]), band, 0.0), 0))


@triton.jit
def _columns_step(
    state, dots, at, layouts, ids, column, NORM, REST, base, size, lo, hi, factor, cap, mask, X, POOL, bins,
    FLAGS: tl.constexpr, MOST: tl.constexpr, POOLING: tl.constexpr, TIMES: tl.constexpr, MASKED: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, EXACT: tl.constexpr,
):  # fmt: skip
    total, out, band, bin = state
    batch, head, _ = ids
    row = at + tl.arange(0, BM)
    logits = _tile(dots, row[None, :], column[:, None], batch, head, size, lo, hi, factor, cap, mask, FLAGS, MASKED)
    norm, rest = _norm(NORM, REST, base, row, size[0], FLAGS)
    weights = tl.exp2(_log(logits, norm[None, :], rest[None, :], FLAGS))
    if MOST:
        total = tl.maximum(total, tl.max(weights, 1))
    else:
        part = tl.sum(weights, 1)
        total += part
    if TIMES:
        x = _load(X, layouts[2], batch, head, at, BM)
        x = tl.where((row < size[0])[:, None], x, 0.0)
        out = tl.dot(weights.to(x.dtype), x, out, input_precision=EXACT)
    if POOLING:  # bins as large as a tile or larger: a tile lies in at most two of them each way
        end = ((bin + 1).to(tl.int64) * size[0] // bins[0]).to(tl.int32)  # the first row behind this bin
        inside, there = part, tl.zeros_like(part)
        if (end < at + BM) & (end < size[0]):
            inside = tl.sum(tl.where((row < end)[None, :], weights, 0.0), 1)
            there = tl.sum(tl.where((row >= end)[None, :], weights, 0.0), 1)
        band += inside
        if end <= at + BM:  # the next bin begins, perhaps within this tile
            _give(POOL, band, bin, column, size, bins)
            band, bin = there, bin + 1
    return total, out, band, bin


@triton.jit
def columns(
    Q, K, NORM, REST, TOTAL, X, OUT, POOL, low, high, size, shape, layouts, factor, cap, mask, bins, skip,
    FLAGS: tl.constexpr, MOST: tl.constexpr, POOLING: tl.constexpr, TIMES: tl.constexpr, EXACT: tl.constexpr,
    EDGES: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BX: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """What each key receives, as sum or (MOST) maximum; the transposed matrix times X; the matrix in bins.

    Programs work on the heads from `skip` on.
    """
    flat, block = tl.program_id(1) + skip, tl.program_id(0)
    batch, head, key_head, _ = _place(shape, flat, block, 0, False)
    start = block * BN
    column = start + tl.arange(0, BN)
    lo, hi = _band(low, high, batch, FLAGS)
    key = _load(K, layouts[1], batch, key_head, start, BN)
    last = tl.minimum(start + BN, size[1]) - 1
    a, b, c, d = _spans(start - hi, last - hi, start - lo + 1, last - lo + 1, size[0], BM, FLAGS)
    base, bin, edge = flat * size[0], 0, 0
    many_rows, many_columns = bins
    if POOLING:
        bin = (((a + 1).to(tl.int64) * many_rows - 1) // size[0]).to(tl.int32)
        mine = ((start + 1).to(tl.int64) * many_columns - 1) // size[1]
        edge = ((mine + 1) * size[1] // many_columns).to(tl.int32)
    bins = (many_rows, many_columns, edge, tl.program_id(1))
    state = (tl.zeros([BN], tl.float32), tl.zeros([BN, BX], tl.float32), tl.zeros([BN], tl.float32), bin)
    ids = (batch, head, key_head)
    if EDGES & 1:
        for at in range(a, b, BM):
            dots = _meet(key, Q, layouts[0], batch, head, at, BM, EXACT)
            state = _columns_step(state, dots, at, layouts, ids, column, NORM, REST, base, size, lo, hi, factor, cap,
                                  mask, X, POOL, bins, FLAGS, MOST, POOLING, TIMES, True, BM, BN, EXACT)  # fmt: skip
    for at in range(b, c, BM):
        dots = _meet(key, Q, layouts[0], batch, head, at, BM, EXACT)
        state = _columns_step(state, dots, at, layouts, ids, column, NORM, REST, base, size, lo, hi, factor, cap, mask,
                              X, POOL, bins, FLAGS, MOST, POOLING, TIMES, False, BM, BN, EXACT)  # fmt: skip
    if EDGES & 2:
        for at in range(c, d, BM):
            dots = _meet(key, Q, layouts[0], batch, head, at, BM, EXACT)
            state = _columns_step(state, dots, at, layouts, ids, column, NORM, REST, base, size, lo, hi, factor, cap,
                                  mask, X, POOL, bins, FLAGS, MOST, POOLING, TIMES, True, BM, BN, EXACT)  # fmt: skip
    total, out, band, bin = state
    if POOLING:  # noqa: SIM102 (the compiler asks this, the program the next)
        if bin < many_rows:
            _give(POOL, band, bin, column, size, bins)
    tl.store(TOTAL + flat * size[1] + column, total, mask=column < size[1])
    if TIMES:
        wide = tl.arange(0, BX)
        spot = (flat * size[1] + column).to(tl.int64)[:, None] * WIDTH + wide[None, :]
        tl.store(OUT + spot, out.to(OUT.dtype.element_ty), mask=(column < size[1])[:, None] & (wide < WIDTH)[None, :])
