"""The Triton kernels of `top`: one walk leaves few keys of each row, and each of those is weighed by itself.

`best` walks along the rows. Two neighbours are one pair; pairs with the same remainder by a block's width are one
class. Of each class a row keeps the two pairs with the greatest weights, each marked with its tile (in short rows with
its class too), and of all others the greatest: comparisons alone, beside which the exponentials of the entropy may run.
At the end it hands on the greatest few pairs. `settle` weighs the first of them anew and keeps the best keys. Where
marks, which cost a weight its last digits, leave something open, `search` looks at whatever may count too, for those
rows alone. Nothing of it waits for the CPU.
"""

# mypy: ignore-errors
from __future__ import annotations

import triton
import triton.language as tl

from regard.backends.kernels import BAND, HIDDEN, HIDING, _band, _load, _log, _meet, _norm, _place, _spans, _tile


@triton.jit
def _bound(least, BITS: tl.constexpr):
    """A pair with a lower mark cannot hold a weight that is greater than this: marks change numbers by half as much."""
    return tl.maximum(least - tl.abs(least) * (2.0 ** (BITS - 22)), HIDING)


@triton.jit
def _best_step(
    state, at, tile, query, K, layout, ids, row, norm, rest, size, lo, hi, factor, cap, mask,
    FLAGS: tl.constexpr, BITS: tl.constexpr, CLASS: tl.constexpr, ENTROPY: tl.constexpr, MASKED: tl.constexpr,
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
    pair = tl.max(tl.reshape(log, [BM, BN // 2, 2]), 2)
    marked = ((pair.to(tl.int32, bitcast=True) >> BITS << BITS) | tile << CLASS).to(tl.float32, bitcast=True)
    less = tl.minimum(first, marked, propagate_nan=tl.PropagateNan.ALL)  # a marked -inf is NaN, and comes after nobody
    first = tl.maximum(first, marked)
    gone = tl.reshape(tl.minimum(second, less), [BM, BN // 8, 4])  # over these fours, no threads exchange numbers
    lost = tl.maximum(lost, tl.max(gone, 1))
    second = tl.maximum(second, less)
    return first, second, lost, entropy


@triton.jit
def best(
    Q, K, NORM, REST, VALUES, KEYS, LOST, LIST, ENT, low, high, size, shape, layouts, factor, cap, mask, above,
    lines,
    FLAGS: tl.constexpr, ENTROPY: tl.constexpr, PAIRS: tl.constexpr, SLOTS: tl.constexpr, SEGMENTS: tl.constexpr,
    BITS: tl.constexpr, CLASS: tl.constexpr, EDGES: tl.constexpr, EXACT: tl.constexpr, BM: tl.constexpr,
    BN: tl.constexpr,
):  # fmt: skip
    """The PAIRS greatest pairs of each row, from the row `above` on, and of each segment of 2 ** (BITS - CLASS) tiles.

    Of each, VALUES are its greater log2 weight, marked, and KEYS its first key; LOST is the greatest that came third
    in its class; ENT, where wanted, is the entropy of the segment in bits. The LIST of `settle` is made empty.
    CLASS: how many bits of a mark have room for the class, which makes choosing cheaper where rows are short.
    """
    if (tl.program_id(0) == 0) & (tl.program_id(1) == 0):
        tl.store(LIST, 0)
    flat, part = tl.program_id(1), tl.program_id(0) % SEGMENTS
    block = tl.program_id(0) // SEGMENTS
    batch, head, key_head, block = _place(shape, flat, block, tl.num_programs(0) // SEGMENTS - 1, BAND & FLAGS)
    start = above + block * BM
    row = start + tl.arange(0, BM)
    lo, hi = _band(low, high, batch, FLAGS)
    norm, rest = _norm(NORM, REST, flat * size[0], row, size[0], FLAGS, True)
    norm = tl.where(row < size[0], norm, HIDDEN)
    query = _load(Q, layouts[0], batch, head, start, BM)
    query = tl.where((row < size[0])[:, None], query, 0.0)  # rows of another head, or nobody's; and in registers
    bottom = tl.minimum(start + BM, size[0]) - 1
    a, b, c, d = _spans(start + lo, bottom + lo, start + hi + 1, bottom + hi + 1, size[1], BN, FLAGS)
    left, right = part * (BN << BITS - CLASS), (part + 1) * (BN << BITS - CLASS)
    a, b = tl.minimum(tl.maximum(a, left), right), tl.minimum(tl.maximum(b, left), right)
    c, d = tl.minimum(tl.maximum(c, left), right), tl.minimum(tl.maximum(d, left), right)
    none = tl.full([BM, BN // 2], 2 * HIDDEN, tl.float32)
    state = (none, none, tl.full([BM, 4], 2 * HIDDEN, tl.float32), tl.zeros([BM, 8], tl.float32))
    ids = (batch, head, key_head)
    if EDGES & 1:
        for at in range(a, b, BN):
            state = _best_step(state, at, (at - left) // BN, query, K, layouts[1], ids, row, norm, rest, size, lo, hi,
                               factor, cap, mask, FLAGS, BITS, CLASS, ENTROPY, True, EXACT, BM, BN)  # fmt: skip
    for at in range(b, c, BN):
        state = _best_step(state, at, (at - left) // BN, query, K, layouts[1], ids, row, norm, rest, size, lo, hi,
                           factor, cap, mask, FLAGS, BITS, CLASS, ENTROPY, False, EXACT, BM, BN)  # fmt: skip
    if EDGES & 2:
        for at in range(c, d, BN):
            state = _best_step(state, at, (at - left) // BN, query, K, layouts[1], ids, row, norm, rest, size, lo, hi,
                               factor, cap, mask, FLAGS, BITS, CLASS, ENTROPY, True, EXACT, BM, BN)  # fmt: skip
    first, second, lost, entropy = state
    here, inside = (flat * lines + row - above).to(tl.int64), row < tl.minimum(above + lines, size[0])
    tl.store(LOST + here * SEGMENTS + part, tl.max(lost, 1), mask=inside)
    if ENTROPY:
        tl.store(ENT + here * SEGMENTS + part, tl.sum(entropy, 1), mask=inside)
    group, slot = tl.arange(0, BN // 2)[None, :], tl.arange(0, SLOTS)[None, :]
    values, keys = tl.full([BM, SLOTS], 2 * HIDDEN, tl.float32), tl.zeros([BM, SLOTS], tl.int32)
    if CLASS:  # no two marks of pairs are alike any more
        first = (first.to(tl.int32, bitcast=True) | group).to(tl.float32, bitcast=True)
        second = (second.to(tl.int32, bitcast=True) | group).to(tl.float32, bitcast=True)
    for n in range(PAIRS):
        most = tl.max(first, 1)
        mark = most.to(tl.int32, bitcast=True) & ((1 << BITS) - 1)
        if CLASS:
            mine, won = mark & ((1 << CLASS) - 1), first == most[:, None]
        else:
            mine = tl.max(tl.where(first >= most[:, None], group, 0), 1)
            won = group == mine[:, None]
        first, second = tl.where(won, second, first), tl.where(won, 4 * HIDDEN, second)
        key = left + (mark >> CLASS) * BN + 2 * mine
        values, keys = tl.where(slot == n, most[:, None], values), tl.where(slot == n, key[:, None], keys)
    spot = here[:, None] * (SEGMENTS * SLOTS) + part * SLOTS + slot
    tl.store(VALUES + spot, values, mask=inside[:, None] & (slot >= 0))
    tl.store(KEYS + spot, keys, mask=inside[:, None] & (slot >= 0))


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
        dots += tl.sum(keys * query[:, None, :], 2)
    lo, hi = _band(low, high, batch, FLAGS)
    logits = _tile(dots, row[:, None], key, batch, head, size, lo, hi, factor, cap, mask, FLAGS, True)
    norm, rest = _norm(NORM, REST, flat * size[0], row, size[0], FLAGS, True)
    return tl.where(wanted, _log(logits, norm[:, None], rest[:, None], FLAGS), 2 * HIDDEN)


@triton.jit
def settle(
    Q, K, NORM, REST, VALUES, KEYS, LOST, LIST, BEST, WHERE, strides, low, high, size, shape, factor, cap, mask, above,
    lines,
    FLAGS: tl.constexpr, TOP: tl.constexpr, SLOTS: tl.constexpr, SEGMENTS: tl.constexpr, BITS: tl.constexpr,
    FEW: tl.constexpr, WIDTH: tl.constexpr, STEP: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """The TOP greatest weights of each row, as log2, and their keys: the best of the FEW greatest pairs.

    LIST, the first number of which is its length, names the rows that `search` has to look at. Their order is any, and
    changes nothing.
    """
    flat = tl.program_id(1)
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
    # One after the other: threads that hold the same weight may differ in its last bit, where a product was fused with
    # an addition, so comparing all with all could make two keys the greater one of each other.
    place, left, rank = tl.arange(0, 2 * FEW)[None, :], found, tl.full([ROWS, 2 * FEW], TOP, tl.int32)
    for n in range(TOP):
        chosen = place == tl.argmax(left, 1)[:, None]
        rank, left = tl.where(chosen, n, rank), tl.where(chosen, 4 * HIDDEN, left)
    out = (flat * size[0] + row).to(tl.int64)[:, None] * TOP + rank
    some = inside[:, None] & (rank < TOP)
    norm, _ = _norm(NORM, REST, flat * size[0], row, size[0], FLAGS, True)
    tl.store(BEST + out, tl.where((norm == norm)[:, None], found, norm[:, None]), mask=some)  # NaN stays NaN
    tl.store(WHERE + out, tl.where(found > HIDING, key, -1).to(tl.int64), mask=some)
    least = tl.min(tl.where(rank < TOP, found, -HIDDEN), 1)
    more = inside & (rest >= _bound(least, BITS))
    turn = tl.atomic_add(LIST + tl.zeros_like(here), 1, mask=more)
    tl.store(LIST + 1 + turn, here, mask=more)


@triton.jit
def _look(
    state, key, wanted, row, Q, K, NORM, REST, strides, low, high, size, shape, factor, cap, mask, flat,
    FLAGS: tl.constexpr, WIDTH: tl.constexpr, STEP: tl.constexpr, TOP: tl.constexpr, MANY: tl.constexpr,
):  # fmt: skip
    """Weigh some keys of one row, and keep those that are better than what there is."""
    best, keys = state
    slot, member = tl.arange(0, TOP), tl.arange(0, MANY)
    known = tl.max((key[:, None] == keys[None, :]).to(tl.int32), 1)
    wanted = wanted & (key < size[1]) & (known == 0)
    found = _weigh(row, key[None, :], wanted[None, :], Q, K, NORM, REST, strides, low, high, size, shape, factor, cap,
                   mask, flat, FLAGS, WIDTH, STEP)  # fmt: skip
    found = tl.reshape(found, [MANY])
    while tl.max(found, 0) > tl.maximum(tl.min(best, 0), HIDING):
        chosen, least = member == tl.argmax(found, 0), slot == tl.argmin(best, 0)
        keys = tl.where(least, tl.sum(tl.where(chosen, key, 0), 0), keys)
        best = tl.where(least, tl.max(found, 0), best)
        found = tl.where(chosen, 4 * HIDDEN, found)
    return best, keys


@triton.jit
def search(
    Q, K, NORM, REST, VALUES, KEYS, LOST, LIST, BEST, WHERE, strides, low, high, size, shape, factor, cap, mask, above,
    lines,
    FLAGS: tl.constexpr, TOP: tl.constexpr, SLOTS: tl.constexpr, SEGMENTS: tl.constexpr, BITS: tl.constexpr,
    CLASS: tl.constexpr, PAIRS: tl.constexpr, WIDTH: tl.constexpr, STEP: tl.constexpr, ROOM: tl.constexpr,
    BN: tl.constexpr,
):  # fmt: skip
    """Look at what else may be among the TOP of a row: other pairs, classes that lost one, segments that lost many.

    To be compiled without fused products: all threads must come to the same decisions.
    """
    slot, pair, both = tl.arange(0, ROOM), tl.arange(0, SLOTS), tl.arange(0, 2 * SLOTS)
    for turn in range(tl.program_id(0), tl.load(LIST), tl.num_programs(0)):
        here = tl.load(LIST + 1 + turn)
        flat, line = here // lines, here % lines
        row = above + line + tl.arange(0, 1)
        out = (flat * size[0] + above + line).to(tl.int64) * TOP
        best = tl.load(BEST + out + slot, mask=slot < TOP, other=-HIDDEN)  # places behind the last are never the least
        state = (best, tl.load(WHERE + out + slot, mask=slot < TOP, other=-1).to(tl.int32))
        for part in range(SEGMENTS):
            bound = _bound(tl.min(state[0], 0), BITS)
            spot = (here.to(tl.int64) * SEGMENTS + part) * SLOTS
            value, names = tl.load(VALUES + spot + pair), tl.load(KEYS + spot + pair)
            left, right = part * (BN << BITS - CLASS), tl.minimum((part + 1) * (BN << BITS - CLASS), size[1])
            full = tl.load(VALUES + spot + PAIRS - 1) >= bound
            if full:  # those that were not handed on may count: all of them
                for at in range(left, right, 2 * SLOTS):
                    state = _look(state, at + both, at + both < right, row, Q, K, NORM, REST, strides, low, high, size,
                                  shape, factor, cap, mask, flat, FLAGS, WIDTH, STEP, ROOM, 2 * SLOTS)  # fmt: skip
            elif tl.max(value, 0) >= bound:
                key = tl.load(KEYS + spot + both // 2) + both % 2
                state = _look(state, key, tl.load(VALUES + spot + both // 2) >= bound, row, Q, K, NORM, REST, strides,
                              low, high, size, shape, factor, cap, mask, flat, FLAGS, WIDTH, STEP, ROOM,
                              2 * SLOTS)  # fmt: skip
                if tl.load(LOST + here.to(tl.int64) * SEGMENTS + part) >= bound:
                    group = tl.where(value > HIDING, names % BN, -1)
                    again = (group[:, None] == group[None, :]) & (pair[:, None] > pair[None, :])
                    twice = tl.where(tl.sum(again.to(tl.int32), 1) > 0, group, -1)  # whose class is here already
                    while tl.max(twice, 0) >= 0:
                        mine = tl.max(twice, 0)
                        twice = tl.where(twice == mine, -1, twice)
                        for at in range(left + mine, right, SLOTS * BN):
                            key = at + both // 2 * BN + both % 2
                            state = _look(state, key, key < right, row, Q, K, NORM, REST, strides, low, high, size,
                                          shape, factor, cap, mask, flat, FLAGS, WIDTH, STEP, ROOM,
                                          2 * SLOTS)  # fmt: skip
        best, keys = state
        best = tl.where(slot < TOP, best, 4 * HIDDEN)
        for n in range(TOP):
            chosen = slot == tl.argmax(best, 0)
            tl.store(BEST + out + n, tl.max(best, 0))
            tl.store(WHERE + out + n, tl.sum(tl.where(chosen, keys, 0), 0).to(tl.int64))
            best = tl.where(chosen, 8 * HIDDEN, best)
