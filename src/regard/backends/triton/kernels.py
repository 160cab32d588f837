"""The Triton kernels: one tile function, and short walks over the tiles that it gives.

`_tile` turns products of queries and keys into base-2 logits: scaled, capped, biased, masked. A block of queries stays
in registers where rows are wanted (`forward`, `rows` of row_kernels.py, `best` of top_kernels.py), a block of keys
where columns are (`columns`, and `sums` of sum_kernels.py), so no result is ever added to by two programs: the same
bits every time. Every walk has three loops: tiles that the band cuts, tiles that it leaves whole (nothing to ask
there), and tiles that it cuts again (EDGES: which of the two there can be); what it empties is never touched.
"""

# mypy: ignore-errors
from __future__ import annotations

import triton
import triton.language as tl

# What a mask may hold, and what is known of the scores, as bits of FLAGS. LOW: normalisers have a `rest`; EACH: the
# band is each batch's own; FOURS: queries come by fours; WHOLE: no block reaches beyond the end; UNTIL: that, and the
# band hides only what comes later.
BAND, KEEP, IDS, SEEN, BIAS, CAP, LOW, EACH, FOURS, WHOLE, UNTIL = (tl.constexpr(1 << n) for n in range(11))
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
        if ALWAYS & FLAGS:
            keep, query_ids, key_ids, visible, bias, lowest, strides = mask
        if UNTIL & FLAGS:
            seen = column <= row + hi
        elif (WHOLE & FLAGS) and (BAND & FLAGS):
            seen = (column - row >= lo) & (column - row <= hi)
        elif BAND & FLAGS:
            seen = seen & (column - row >= lo) & (column - row <= hi)
        if KEEP & FLAGS:
            seen = seen & (tl.load(keep + batch * columns + column, mask=column < columns, other=0) != 0)
        if IDS & FLAGS:
            mine = tl.load(query_ids + batch * rows + row, mask=row < rows, other=0)
            theirs = tl.load(key_ids + batch * columns + column, mask=column < columns, other=0)
            seen = seen & (mine == theirs)
        if SEEN & FLAGS:
            at = batch.to(tl.int64) * strides[0] + head.to(tl.int64) * strides[1]
            at += row.to(tl.int64) * strides[2] + column.to(tl.int64) * strides[3]
            seen = seen & (tl.load(visible + at, mask=inside, other=0) != 0)
        if BIAS & FLAGS:
            at = batch.to(tl.int64) * strides[4] + head.to(tl.int64) * strides[5]
            at += row.to(tl.int64) * strides[6] + column.to(tl.int64) * strides[7]
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
def _flat():
    """Which head of which batch a program is for: one direction of a grid is too short for very many."""
    return tl.program_id(2) * tl.num_programs(1) + tl.program_id(1)


@triton.jit
def _turn(shape):
    """(which head of which batch, block, blocks) of a program: first the first blocks of 2 ** shape[2] heads, then the
    second ones, …"""
    beside = shape[2]
    near = tl.program_id(0) & ((1 << beside) - 1)
    return (_flat() << beside) + near, tl.program_id(0) >> beside, tl.num_programs(0) >> beside


@triton.jit
def _place(shape, flat, block, last, LATE: tl.constexpr):
    """(batch, head, key head, block) of a program; LATE: the last blocks, which have most to do, first."""
    heads, group = shape[0], shape[1]
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
def _norm(NORM, REST, base, row, rows, FLAGS: tl.constexpr, MASKED: tl.constexpr):
    """Minus a row's normaliser in base 2: what float32 holds of it, and the rest where logits are large."""
    if MASKED:  # noqa: SIM108 (an expression would trace both)
        norm = tl.load(NORM + base + row, mask=row < rows, other=float("-inf"))
    else:
        norm = tl.load(NORM + base + row)
    rest = tl.zeros_like(norm)
    if LOW & FLAGS:
        rest = tl.load(REST + base + row, mask=row < rows, other=0.0)
    return norm, rest


@triton.jit
def _log(logits, norm, rest, FLAGS: tl.constexpr):
    """log2 of the weights."""
    return (logits + norm) + rest if LOW & FLAGS else logits + norm


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
        weights = tl.where(logits <= HIDING, 0.0, weights)  # asked so, what is no number stays none
    shrink = tl.exp2(peak - new)
    total = total * shrink + tl.sum(weights, 1)
    if VALUES:
        value = _load(V, layouts[2], batch, key_head, at, BN)
        if MASKED and (WHOLE & FLAGS) == 0:  # rows of another head, or nobody's: 0 × NaN would be NaN
            value = tl.where((column < size[1])[:, None], value, 0.0)
        out = tl.dot(weights.to(value.dtype), value, out * shrink[:, None], input_precision=EXACT)
    return new, total, out


@triton.jit
def forward(
    Q, K, V, OUT, LSE, low, high, size, shape, layouts, factor, cap, mask,
    FLAGS: tl.constexpr, VALUES: tl.constexpr, WIDTH: tl.constexpr, EDGES: tl.constexpr, EXACT: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BV: tl.constexpr,
):  # fmt: skip
    """weights @ value, or (not VALUES) the greatest logit and the sum over it; and the logsumexp of each row."""
    flat, block, blocks = _turn(shape)
    batch, head, key_head, block = _place(shape, flat, block, blocks - 1, BAND & FLAGS)
    rows, columns = size
    start = block * BM
    row = start + tl.arange(0, BM)
    lo, hi = _band(low, high, batch, FLAGS)
    query = _load(Q, layouts[0], batch, head, start, BM)
    bottom = tl.minimum(start + BM, rows) - 1
    a, b, c, d = _spans(start + lo, bottom + lo, start + hi + 1, bottom + hi + 1, columns, BN, FLAGS)
    state = (tl.full([BM], HIDDEN, tl.float32), tl.zeros([BM], tl.float32), tl.zeros([BM, BV], tl.float32))
    ids = (batch, head, key_head)
    if EDGES & 1:
        for at in range(a, b, BN):
            state = _forward_step(state, at, query, K, V, layouts, ids, row, size, lo, hi, factor, cap, mask, FLAGS,
                                  VALUES, True, BN, EXACT)  # fmt: skip
    for at in range(b, c, BN):
        state = _forward_step(state, at, query, K, V, layouts, ids, row, size, lo, hi, factor, cap, mask, FLAGS,
                              VALUES, False, BN, EXACT)  # fmt: skip
    if EDGES & 2:
        for at in range(c, d, BN):
            state = _forward_step(state, at, query, K, V, layouts, ids, row, size, lo, hi, factor, cap, mask, FLAGS,
                                  VALUES, True, BN, EXACT)  # fmt: skip
    peak, total, out = state
    some = total != 0  # NaN stays NaN
    lse = tl.where(some, (peak + tl.log2(total)) * LN2, float("-inf"))
    tl.store(LSE + flat * rows + row, lse, mask=row < rows)
    if VALUES:
        out = out / tl.where(some, total, 1.0)[:, None]
        column = tl.arange(0, BV)
        spot = (flat * rows + row).to(tl.int64)[:, None] * WIDTH + column[None, :]
        tl.store(OUT + spot, out.to(OUT.dtype.element_ty), mask=(row < rows)[:, None] & (column < WIDTH)[None, :])
    else:
        spot = OUT + (flat * rows + row).to(tl.int64) * 2
        tl.store(spot, peak, mask=row < rows)
        tl.store(spot + 1, total, mask=row < rows)


# columns: what is gathered along the queries


@triton.jit
def _greater(a, b):
    """The greater; what is no number stays none."""
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def _give(POOL, band, bin, column, size, bins):
    """What a block of keys gives to a bin of rows: to the bin of keys it begins in, and to the next one."""
    many_rows, _, edge, lane = bins
    band = tl.sum(band, 1)
    spot = ((lane * many_rows + bin).to(tl.int64) * tl.num_programs(0) + tl.program_id(0)) * 2  # no heads beside others
    tl.store(POOL + spot, tl.sum(tl.where(column < edge, band, 0.0), 0))
    tl.store(POOL + spot + 1, tl.sum(tl.where((column >= edge) & (column < size[1]), band, 0.0), 0))


@triton.jit
def _keep(POOL, each, bin, start, bins, BN: tl.constexpr, PARTS: tl.constexpr):
    """(keys, bins of rows, 8) to those bins, for every sixteen keys: they lie in one warp, which need not wait."""
    many_rows, share, sixteens, lane = bins
    small = tl.sum(tl.sum(tl.reshape(each, [BN // 16, 16, PARTS, 8]), 3), 1) * share
    r, c = bin + tl.arange(0, PARTS)[None, :], start // 16 + tl.arange(0, BN // 16)[:, None]
    spot = POOL + (lane * many_rows + r).to(tl.int64) * sixteens + c
    tl.store(spot, small, mask=(r < many_rows) & (c < sixteens))


@triton.jit
def _columns_step(
    state, at, end, start, key, Q, layouts, ids, column, NORM, REST, base, size, lo, hi, factor, cap, mask, X, POOL,
    bins,
    FLAGS: tl.constexpr, MOST: tl.constexpr, POOLING: tl.constexpr, HIGH: tl.constexpr, TIMES: tl.constexpr,
    MASKED: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, EXACT: tl.constexpr,
):  # fmt: skip
    total, out, band, bin = state
    batch, head, _ = ids
    row = at // BM * BM + tl.arange(0, BM)  # the same, but now the compiler knows that two lie together
    norm, rest = _norm(NORM, REST, base, row, size[0], FLAGS, MASKED)
    dots = _meet(key, Q, layouts[0], batch, head, at, BM, EXACT)
    logits = _tile(dots, row[None, :], column[:, None], batch, head, size, lo, hi, factor, cap, mask, FLAGS, MASKED)
    weights = tl.exp2(_log(logits, norm[None, :], rest[None, :], FLAGS))
    if MOST:
        total = _greater(total, tl.reduce(tl.reshape(weights, [BN, BM // 8, 8]), 1, _greater))
    elif HIGH and HIGH < BM:
        parts: tl.constexpr = BM // HIGH
        each = tl.sum(tl.reshape(weights, [BN, parts, HIGH // 8, 8]), 2)
        _keep(POOL, each, at // HIGH, start, bins, BN, parts)
        total += tl.sum(each, 1)
    else:
        part = tl.sum(tl.reshape(weights, [BN, BM // 8, 8]), 1)  # no threads exchange numbers
        total += part
        if HIGH:
            band += part
            if ((at + BM) % HIGH == 0) | (at + BM >= end):
                _keep(POOL, band[:, None, :], at // HIGH, start, bins, BN, 1)
                band = tl.zeros_like(band)
    if TIMES:
        x = _load(X, layouts[2], batch, head, at, BM)
        x = tl.where((row < size[0])[:, None], x, 0.0)
        out = tl.dot(weights.to(x.dtype), x, out, input_precision=EXACT)
    if POOLING:  # bins as large as a tile or larger: a tile lies in at most two of them each way
        next = ((bin + 1).to(tl.int64) * size[0] // bins[0]).to(tl.int32)  # the first row behind this bin
        inside, there = part, tl.zeros_like(part)
        if (next < at + BM) & (next < size[0]):
            here = (row < next)[None, :]
            inside = tl.sum(tl.reshape(tl.where(here, weights, 0.0), [BN, BM // 8, 8]), 1)
            there = tl.sum(tl.reshape(tl.where(here, 0.0, weights), [BN, BM // 8, 8]), 1)
        band += inside
        if next <= at + BM:  # the next bin begins, perhaps within this tile
            _give(POOL, band, bin, column, size, bins)
            band, bin = there, bin + 1
    return total, out, band, bin


@triton.jit
def columns(
    Q, K, NORM, REST, TOTAL, X, OUT, POOL, low, high, size, shape, layouts, factor, cap, mask, bins, skip,
    FLAGS: tl.constexpr, MOST: tl.constexpr, POOLING: tl.constexpr, HIGH: tl.constexpr, TIMES: tl.constexpr,
    EXACT: tl.constexpr, EDGES: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
    BX: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """What each key receives, as sum or (MOST) maximum; the transposed matrix times X; the matrix in bins.

    Programs work on the heads from `skip` on. POOLING: bins of any size, 16 × 16 at least. HIGH: bins of HIGH rows, a
    power of two and 8 at least, and sixteen keys, to be added up. Neither goes with MOST.
    """
    lane, block, _ = _turn(shape)
    flat = lane + skip
    batch, head, key_head, _ = _place(shape, flat, block, 0, False)
    start = block * BN
    column = start + tl.arange(0, BN)
    lo, hi = _band(low, high, batch, FLAGS)
    key = _load(K, layouts[1], batch, key_head, start, BN)
    if not TIMES:  # registers have room for them, and products are faster from there
        key = tl.where((column < size[1])[:, None], key, 0.0)
    last = tl.minimum(start + BN, size[1]) - 1
    a, b, c, d = _spans(start - hi, last - hi, start - lo + 1, last - lo + 1, size[0], BM, FLAGS)
    many_rows, many_columns, share = bins
    base, bin, edge = flat * size[0], 0, size[1] // 16  # HIGH: how many sixteens; else where a bin of keys ends
    if FOURS & FLAGS:
        base = tl.multiple_of(base, 4)  # so that normalisers can be loaded two by two
    if POOLING:
        bin = (((a + 1).to(tl.int64) * many_rows - 1) // size[0]).to(tl.int32)
        mine = ((start + 1).to(tl.int64) * many_columns - 1) // size[1]
        edge = ((mine + 1) * size[1] // many_columns).to(tl.int32)
    bins = (many_rows, share, edge, lane)
    ids, few = (batch, head, key_head), tl.zeros([BN, 8], tl.float32)
    state = (few, tl.zeros([BN, BX], tl.float32), few, bin)
    if EDGES & 1:
        for at in range(a, b, BM):
            state = _columns_step(state, at, d, start, key, Q, layouts, ids, column, NORM, REST, base, size, lo, hi,
                                  factor, cap, mask, X, POOL, bins, FLAGS, MOST, POOLING, HIGH, TIMES, True, BM, BN,
                                  EXACT)  # fmt: skip
    for at in range(b, c, BM):
        state = _columns_step(state, at, d, start, key, Q, layouts, ids, column, NORM, REST, base, size, lo, hi, factor,
                              cap, mask, X, POOL, bins, FLAGS, MOST, POOLING, HIGH, TIMES, False, BM, BN,
                              EXACT)  # fmt: skip
    if EDGES & 2:
        for at in range(c, d, BM):
            state = _columns_step(state, at, d, start, key, Q, layouts, ids, column, NORM, REST, base, size, lo, hi,
                                  factor, cap, mask, X, POOL, bins, FLAGS, MOST, POOLING, HIGH, TIMES, True, BM, BN,
                                  EXACT)  # fmt: skip
    total, out, band, bin = state
    if POOLING:  # noqa: SIM102 (the compiler asks this, the program the next)
        if bin < many_rows:
            _give(POOL, band, bin, column, size, bins)
    total = tl.reduce(total, 1, _greater) if MOST else tl.sum(total, 1)
    tl.store(TOTAL + flat * size[1] + column, total, mask=column < size[1])
    if TIMES:
        wide = tl.arange(0, BX)
        spot = (flat * size[1] + column).to(tl.int64)[:, None] * WIDTH + wide[None, :]
        tl.store(OUT + spot, out.to(OUT.dtype.element_ty), mask=(column < size[1])[:, None] & (wide < WIDTH)[None, :])
