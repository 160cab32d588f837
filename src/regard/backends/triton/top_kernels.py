"""The Triton kernels of `top` of two keys or more: one walk leaves few keys of each row, which are weighed one by one.

The one greatest comes along with the entropy: row_kernels.py.

`best` walks along the rows. Two neighbours are one pair; pairs with the same remainder by a block's width are one
class. Of each class a row keeps the two pairs with the greatest weights, each marked with its tile, and of all others
the greatest: comparisons alone, beside which the exponentials of the entropy may run. At the end it hands on the
greatest few pairs. `settle` weighs the first of them anew and keeps the best keys. Where marks, which cost a weight its
last digits, leave something open, `search` looks at whatever may count too, for those rows alone.

A short row has few tiles, so marks take few digits and may tell single keys. There (UNIT: 1) keys with the same
remainder by half a block's width are one class, a marked weight is good enough, and what `best` finds is the result but
for rows where a class lost one, or where marks may have changed the order: those are left to `search`. Nothing of it
waits for the CPU.
"""

# mypy: ignore-errors
from __future__ import annotations

import triton
import triton.language as tl

from regard.backends.triton.kernels import (
    BAND,
    HIDDEN,
    HIDING,
    LOW,
    _band,
    _flat,
    _load,
    _log,
    _meet,
    _norm,
    _place,
    _spans,
    _tile,
    _turn,
)


@triton.jit
def _bound(least, BITS: tl.constexpr):
    """A pair with a lower mark cannot hold a weight that is greater than this: marks change numbers by half as much."""
    return tl.maximum(least - tl.abs(least) * (2.0 ** (BITS - 22)), HIDING)


@triton.jit
def _marked(log, mark, BITS: tl.constexpr):
    return ((log.to(tl.int32, bitcast=True) >> BITS << BITS) | mark).to(tl.float32, bitcast=True)


@triton.jit
def _within(log, marked, BITS: tl.constexpr):
    """What is nearest to `log` among the numbers that may have got this mark: those between two ends."""
    near, far = _marked(marked, 0, BITS), _marked(marked, (1 << BITS) - 1, BITS)
    return tl.minimum(tl.maximum(log, tl.minimum(near, far)), tl.maximum(near, far))


@triton.jit
def _least(a, b):
    """The lesser; a marked -inf is NaN, and comes after nobody."""
    return tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def _best_step(
    state, at, tile, query, K, layout, ids, row, norm, rest, size, lo, hi, factor, cap, mask,
    FLAGS: tl.constexpr, BITS: tl.constexpr, UNIT: tl.constexpr, ENTROPY: tl.constexpr, MASKED: tl.constexpr,
    EXACT: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    first, second, lost, entropy = state
    batch, head, key_head = ids
    dots = _meet(query, K, layout, batch, key_head, at, BN, EXACT)
    column = at + tl.arange(0, BN)
    logits = _tile(dots, row[:, None], column[None, :], batch, head, size, lo, hi, factor, cap, mask, FLAGS, MASKED)
    log = _log(logits, norm[:, None], rest[:, None], FLAGS)
    if ENTROPY:
        entropy -= tl.sum(tl.reshape(tl.exp2(log) * log, [BM, BN // 8, 8]), 1)
    if UNIT == 2:
        high = _marked(tl.max(tl.reshape(log, [BM, BN // 2, 2]), 2), tile, BITS)
        more = second
    else:
        mark = tl.where(tl.arange(0, BN)[None, :] < BN // 2, tile, tile + tl.cdiv(size[1], BN))
        both = tl.reshape(_marked(log, mark, BITS), [BM, 2, BN // 2])
        high = tl.max(both, 1)
        more = tl.maximum(second, tl.reduce(both, 1, _least))
    less = _least(first, high)
    first = tl.maximum(first, high)
    gone = tl.reshape(tl.minimum(more, less), [BM, BN * UNIT // 16, 8 // UNIT])  # so no threads exchange numbers
    lost = tl.maximum(lost, tl.max(gone, 1))
    return first, tl.maximum(more, less), lost, entropy


@triton.jit
def _take(first, second, left, tiles, UNIT: tl.constexpr, BITS: tl.constexpr, BN: tl.constexpr):
    """Take the greatest pair (or key) of each row: (first, second) without it, its marked weight, and its key.

    Marks from `tiles` on tell the second half of a tile.
    """
    group, most = tl.arange(0, BN // 2)[None, :], tl.max(first, 1)
    mine = tl.max(tl.where(first >= most[:, None], group, 0), 1)
    won = group == mine[:, None]
    first, second = tl.where(won, second, first), tl.where(won, 4 * HIDDEN, second)
    mark = most.to(tl.int32, bitcast=True) & ((1 << BITS) - 1)
    behind = (mark >= tiles).to(tl.int32)
    return first, second, most, left + UNIT * mine + mark * BN - behind * (tiles * BN - BN // 2)


@triton.jit
def _choose(state, n, left, tiles, UNIT: tl.constexpr, BITS: tl.constexpr, BN: tl.constexpr):
    """Move the greatest pair (or key) of each row to place n."""
    first, second, values, keys = state
    first, second, most, key = _take(first, second, left, tiles, UNIT, BITS, BN)
    slot = tl.arange(0, values.shape[1])[None, :]
    values, keys = tl.where(slot == n, most[:, None], values), tl.where(slot == n, key[:, None], keys)
    return first, second, values, keys


@triton.jit
def best(
    Q, K, NORM, REST, VALUES, KEYS, LOST, LIST, LOGS, BEST, WHERE, ENT, low, high, size, shape, layouts, factor, cap,
    mask, above, lines,
    FLAGS: tl.constexpr, ENTROPY: tl.constexpr, TOP: tl.constexpr, PAIRS: tl.constexpr,
    SLOTS: tl.constexpr, SEGMENTS: tl.constexpr, UNIT: tl.constexpr, BITS: tl.constexpr, EDGES: tl.constexpr,
    EXACT: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """The TOP greatest pairs of each row, from the row `above` on, and of each segment of as many tiles as marks tell.

    Of each, VALUES are its greater log2 weight, marked, and KEYS its first key; up to PAIRS follow that may count too.
    LOST is the greatest that came third in its class; ENT, where wanted, is the entropy of the segment in bits. The
    LIST of `settle` is made empty.

    In short rows the result is in BEST and WHERE instead, and LIST, the first number of which is its length, names the
    rows for `search`, as -1 - row where marks may have changed their order. Of those rows, in LIST's order, LOST is as
    above, LOGS and KEYS are the log2 weights and keys, and behind the keys stands one other that may count too, or -1
    (any) or -2 (none).
    """
    flat, block, blocks = _turn(shape)
    if (UNIT == 2) & (block == 0) & (flat == 0):
        tl.store(LIST, 0)
    part = block % SEGMENTS
    batch, head, key_head, block = _place(shape, flat, block // SEGMENTS, blocks // SEGMENTS - 1, BAND & FLAGS)
    start = above + block * BM
    row = start + tl.arange(0, BM)
    lo, hi = _band(low, high, batch, FLAGS)
    norm, rest = _norm(NORM, REST, flat * size[0], row, size[0], FLAGS, True)
    norm = tl.where(row < size[0], norm, HIDDEN)
    query = _load(Q, layouts[0], batch, head, start, BM)
    query = tl.where((row < size[0])[:, None], query, 0.0)  # rows of another head, or nobody's; and in registers
    bottom = tl.minimum(start + BM, size[0]) - 1
    a, b, c, d = _spans(start + lo, bottom + lo, start + hi + 1, bottom + hi + 1, size[1], BN, FLAGS)
    left, right = part * (BN * UNIT // 2 << BITS), (part + 1) * (BN * UNIT // 2 << BITS)
    a, b = tl.minimum(tl.maximum(a, left), right), tl.minimum(tl.maximum(b, left), right)
    c, d = tl.minimum(tl.maximum(c, left), right), tl.minimum(tl.maximum(d, left), right)
    none = tl.full([BM, BN // 2], 2 * HIDDEN, tl.float32)
    state = (none, none, tl.full([BM, 8 // UNIT], 2 * HIDDEN, tl.float32), tl.zeros([BM, 8], tl.float32))
    ids = (batch, head, key_head)
    if EDGES & 1:
        for at in range(a, b, BN):
            state = _best_step(state, at, (at - left) // BN, query, K, layouts[1], ids, row, norm, rest, size, lo, hi,
                               factor, cap, mask, FLAGS, BITS, UNIT, ENTROPY, True, EXACT, BM, BN)  # fmt: skip
    for at in range(b, c, BN):
        state = _best_step(state, at, (at - left) // BN, query, K, layouts[1], ids, row, norm, rest, size, lo, hi,
                           factor, cap, mask, FLAGS, BITS, UNIT, ENTROPY, False, EXACT, BM, BN)  # fmt: skip
    if EDGES & 2:
        for at in range(c, d, BN):
            state = _best_step(state, at, (at - left) // BN, query, K, layouts[1], ids, row, norm, rest, size, lo, hi,
                               factor, cap, mask, FLAGS, BITS, UNIT, ENTROPY, True, EXACT, BM, BN)  # fmt: skip
    first, second, lost, entropy = state
    here, inside = (flat * lines + row - above).to(tl.int64), row < tl.minimum(above + lines, size[0])
    if ENTROPY:
        tl.store(ENT + here * SEGMENTS + part, tl.sum(entropy, 1), mask=inside)
    lost = tl.max(lost, 1)
    slot, tiles = tl.arange(0, SLOTS)[None, :], tl.cdiv(size[1], BN) if UNIT == 1 else 1 << BITS
    state = (first, second, tl.full([BM, SLOTS], 2 * HIDDEN, tl.float32), tl.zeros([BM, SLOTS], tl.int32))
    least, open = tl.full([BM], -HIDDEN, tl.float32), tl.zeros([BM], tl.int1)
    for n in range(TOP):
        most = tl.max(state[0], 1)
        if UNIT == 1:
            open = open | ((most >= _bound(least, BITS)) & (most > HIDING))
        least = most
        state = _choose(state, n, left, tiles, UNIT, BITS, BN)
    if UNIT == 1:
        values, keys = state[2], state[3]
        there = (flat * size[0] + row).to(tl.int64)[:, None] * TOP + slot
        some = inside[:, None] & (slot < TOP)
        middle = _marked(values, 1 << BITS - 1, BITS)
        weights = tl.where((norm == norm)[:, None], tl.exp2(middle), norm[:, None])  # NaN stays NaN
        tl.store(BEST + there, weights, mask=some)
        tl.store(WHERE + there, tl.where(values > HIDING, keys, -1).to(tl.int64), mask=some)
        bound = _bound(least, BITS)
        near = inside & (tl.max(state[0], 1) >= bound) & (least > HIDING)
        other = tl.full([BM], -2, tl.int32)
        if tl.max(near.to(tl.int32), 0) > 0:
            first, second, _, key = _take(state[0], state[1], left, tiles, UNIT, BITS, BN)
            other = tl.where(near, tl.where(tl.max(first, 1) >= bound, -1, key), other)
        more = inside & (open | near | (lost >= bound))
        turn = tl.atomic_add(LIST + tl.zeros_like(row), 1, mask=more)
        tl.store(LIST + 1 + turn, tl.where(open | near, -1 - here, here).to(tl.int32), mask=more)
        tl.store(LOST + turn, lost, mask=more)
        turn = turn.to(tl.int64)
        tl.store(KEYS + turn * (2 * SLOTS) + SLOTS, other, mask=more)
        turn, some = turn[:, None], more[:, None] & (slot < TOP)
        tl.store(LOGS + turn * TOP + slot, middle, mask=some)
        tl.store(KEYS + turn * (2 * SLOTS) + slot, tl.where(values > HIDING, keys, -1), mask=some)
    else:
        tl.store(LOST + here * SEGMENTS + part, lost, mask=inside)
        n, least = TOP, _bound(_bound(least, BITS), BITS)  # what is less than this cannot count any more
        while (n < PAIRS) & (tl.max((tl.max(state[0], 1) >= least).to(tl.int32), 0) > 0):
            state = _choose(state, n, left, tiles, UNIT, BITS, BN)
            n += 1
        spot = here[:, None] * (SEGMENTS * SLOTS) + part * SLOTS + slot
        tl.store(VALUES + spot, state[2], mask=inside[:, None] & (slot >= 0))
        tl.store(KEYS + spot, state[3], mask=inside[:, None] & (slot >= 0))


@triton.jit
def _added(parts, FLAGS: tl.constexpr):
    """Sums along the last axis; LOW: two by two, so no digit depends on how many keys a kernel weighs at once."""
    if LOW & FLAGS:
        for _ in tl.static_range(8):
            if parts.shape[2] > 1:
                parts = tl.sum(tl.reshape(parts, [parts.shape[0], parts.shape[1], parts.shape[2] // 2, 2]), 3)
    return tl.sum(parts, 2)


@triton.jit
def _weigh(
    row, key, wanted, Q, K, NORM, REST, strides, low, high, size, shape, factor, cap, mask, flat,
    FLAGS: tl.constexpr, WIDTH: tl.constexpr, STEP: tl.constexpr,
):  # fmt: skip
    """log2 of the weights of single keys, (rows, keys), less than any other where none is wanted."""
    batch, head, key_head, _ = _place(shape, flat, 0, 0, False)
    q_batch, q_head, q_row, q_part = strides[0]
    k_batch, k_head, k_row, k_part = strides[1]
    Q += batch.to(tl.int64) * q_batch + head.to(tl.int64) * q_head
    K += batch.to(tl.int64) * k_batch + key_head.to(tl.int64) * k_head
    inside = row < size[0]
    dots = tl.zeros_like(key).to(tl.float32)
    for start in range(0, WIDTH, STEP):
        part = start + tl.arange(0, STEP)
        query = tl.load(
            Q + row.to(tl.int64)[:, None] * q_row + part[None, :] * q_part,
            mask=inside[:, None] & (part < WIDTH)[None, :], other=0.0,
        ).to(tl.float32)  # fmt: skip
        keys = tl.load(
            K + key.to(tl.int64)[:, :, None] * k_row + part[None, None, :] * k_part,
            mask=wanted[:, :, None] & (part < WIDTH)[None, None, :], other=0.0,
        ).to(tl.float32)  # fmt: skip
        dots += _added(keys * query[:, None, :], FLAGS)
    lo, hi = _band(low, high, batch, FLAGS)
    logits = _tile(dots, row[:, None], key, batch, head, size, lo, hi, factor, cap, mask, FLAGS, True)
    norm, rest = _norm(NORM, REST, flat * size[0], row, size[0], FLAGS, True)
    return tl.where(wanted, _log(logits, norm[:, None], rest[:, None], FLAGS), 2 * HIDDEN)


@triton.jit
def settle(
    Q, K, NORM, REST, VALUES, KEYS, LOST, LIST, LOGS, BEST, WHERE, strides, low, high, size, shape, factor, cap, mask,
    above, lines,
    FLAGS: tl.constexpr, TOP: tl.constexpr, SLOTS: tl.constexpr, SEGMENTS: tl.constexpr, BITS: tl.constexpr,
    FEW: tl.constexpr, WIDTH: tl.constexpr, STEP: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """The TOP greatest weights of each row and their keys: the best of the FEW greatest pairs.

    LIST, the first number of which is its length, names the rows that `search` has to look at, and LOGS are their log2
    weights. Their order is any, and changes nothing.
    """
    flat = _flat()
    line = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    row = above + line
    inside = (line < lines) & (row < size[0])
    here = flat * lines + line
    spot = here.to(tl.int64)[:, None] * (SEGMENTS * SLOTS)
    slot = tl.arange(0, FEW)[None, :]
    if SEGMENTS == 1:  # they are in order already
        value = tl.load(VALUES + spot + slot, mask=inside[:, None], other=2 * HIDDEN)
        key = tl.load(KEYS + spot + slot, mask=inside[:, None], other=0)
        rest = tl.load(VALUES + here.to(tl.int64) * SLOTS + FEW, mask=inside, other=2 * HIDDEN)
    else:
        every = tl.arange(0, SEGMENTS * SLOTS)[None, :]
        left = tl.load(VALUES + spot + every, mask=inside[:, None], other=2 * HIDDEN)
        names = tl.load(KEYS + spot + every, mask=inside[:, None], other=0)
        value, key = tl.full([ROWS, FEW], 2 * HIDDEN, tl.float32), tl.zeros([ROWS, FEW], tl.int32)
        for n in range(FEW):
            most = tl.max(left, 1)
            mine = tl.max(tl.where(left >= most[:, None], every, 0), 1)
            won = every == mine[:, None]
            value = tl.where(slot == n, most[:, None], value)
            key = tl.where(slot == n, tl.sum(tl.where(won, names, 0), 1)[:, None], key)
            left = tl.where(won, 4 * HIDDEN, left)
        rest = tl.max(left, 1)
    segment = tl.arange(0, SEGMENTS)[None, :]
    lost = tl.load(LOST + here.to(tl.int64)[:, None] * SEGMENTS + segment, mask=inside[:, None], other=2 * HIDDEN)
    rest = tl.maximum(rest, tl.max(lost, 1))
    value = tl.reshape(tl.join(value, value), [ROWS, 2 * FEW])
    key = tl.reshape(tl.join(key, key + 1), [ROWS, 2 * FEW])
    wanted = (value > HIDING) & (key < size[1])
    found = _weigh(row, key, wanted, Q, K, NORM, REST, strides, low, high, size, shape, factor, cap, mask, flat, FLAGS,
                   WIDTH, STEP)  # fmt: skip
    # A large product has fewer digits than a mark leaves: then the mark is right, which as a rule was made of the very
    # products that make up the normaliser.
    most = tl.max(tl.reshape(found, [ROWS, FEW, 2]), 2)
    most = tl.reshape(tl.join(most, most), [ROWS, 2 * FEW])
    found += tl.where(wanted, _within(most, value, BITS) - most, 0.0)
    # One after the other: threads that hold the same weight may differ in its last bit, where a product was fused with
    # an addition, so comparing all with all could make two keys the greater one of each other.
    place, left, rank = tl.arange(0, 2 * FEW)[None, :], found, tl.full([ROWS, 2 * FEW], TOP, tl.int32)
    for n in range(TOP):
        chosen = place == tl.argmax(left, 1)[:, None]
        rank, left = tl.where(chosen, n, rank), tl.where(chosen, 4 * HIDDEN, left)
    out = (flat * size[0] + row).to(tl.int64)[:, None] * TOP + rank
    some = inside[:, None] & (rank < TOP)
    norm, _ = _norm(NORM, REST, flat * size[0], row, size[0], FLAGS, True)
    tl.store(BEST + out, tl.where((norm == norm)[:, None], tl.exp2(found), norm[:, None]), mask=some)  # NaN stays NaN
    tl.store(WHERE + out, tl.where(found > HIDING, key, -1).to(tl.int64), mask=some)
    least = tl.min(tl.where(rank < TOP, found, -HIDDEN), 1)
    more = inside & (rest >= _bound(least, BITS))
    turn = tl.atomic_add(LIST + tl.zeros_like(here), 1, mask=more)
    tl.store(LIST + 1 + turn, here, mask=more)
    tl.store(LOGS + turn.to(tl.int64)[:, None] * TOP + rank, found, mask=more[:, None] & (rank < TOP))
