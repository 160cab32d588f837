"""The Triton kernel that looks at the few rows of `top` that are still open: see top_kernels.py."""

# mypy: ignore-errors
from __future__ import annotations

import triton
import triton.language as tl

from regard.backends.triton.kernels import HIDDEN, HIDING, LOW
from regard.backends.triton.top_kernels import _bound, _weigh, _within


@triton.jit
def _rank(values):
    """How many stand before each of them, the greatest first; of those that are alike, the first."""
    each = tl.arange(0, values.shape[0])
    alike = (values[:, None] == values[None, :]) & (each[:, None] > each[None, :])
    return tl.sum((alike | (values[:, None] < values[None, :])).to(tl.int32), 1)


@triton.jit
def _greatest(values, keys, TOP: tl.constexpr, ROOM: tl.constexpr):
    """The TOP greatest of some values, and their keys; behind them values that are never the least."""
    slot = tl.arange(0, ROOM)
    mine = _rank(values)[:, None] == slot[None, :]
    best = tl.sum(tl.where(mine, values[:, None], 0.0), 0)
    keys = tl.sum(tl.where(mine, keys[:, None], 0), 0)
    return tl.where(slot < TOP, best, -HIDDEN), tl.where((best > HIDING) & (slot < TOP), keys, -1)


@triton.jit
def _insert(state, found, key):
    """Keep those keys that are better than what there is."""
    best, keys = state
    slot, most, least = tl.arange(0, best.shape[0]), tl.max(found, 0), tl.min(best, 0)
    while most > tl.maximum(least, HIDING):
        mine = tl.max(tl.where(found == most, key, -1), 0)
        place = slot == tl.max(tl.where(best == least, slot, -1), 0)
        best, keys, found = (
            tl.where(place, most, best),
            tl.where(place, mine, keys),
            tl.where(key == mine, 4 * HIDDEN, found),
        )
        most, least = tl.max(found, 0), tl.min(best, 0)
    return best, keys


@triton.jit
def _moved(logs, apart, FLAGS: tl.constexpr):
    """What was weighed by itself, as the tiles would have weighed it: large products differ."""
    return logs + apart if LOW & FLAGS else logs


@triton.jit
def _look(
    state, key, wanted, row, apart, Q, K, NORM, REST, strides, low, high, size, shape, factor, cap, mask, flat,
    FLAGS: tl.constexpr, WIDTH: tl.constexpr, STEP: tl.constexpr,
):  # fmt: skip
    """Weigh some keys of one row, and keep those that are better than what there is."""
    wanted = wanted & (key < size[1]) & (tl.max((key[:, None] == state[1][None, :]).to(tl.int32), 1) == 0)
    if tl.max(wanted.to(tl.int32), 0) > 0:
        found = _weigh(row, key[None, :], wanted[None, :], Q, K, NORM, REST, strides, low, high, size, shape, factor,
                       cap, mask, flat, FLAGS, WIDTH, STEP)  # fmt: skip
        state = _insert(state, _moved(tl.reshape(found, [key.shape[0]]), apart, FLAGS), key)
    return state


@triton.jit
def _twice(group):
    """Those classes that stand there twice, at one of their places; -1 at all others."""
    each = tl.arange(0, group.shape[0])
    again = (group[:, None] == group[None, :]) & (each[:, None] > each[None, :])
    return tl.where(tl.sum(again.to(tl.int32), 1) > 0, group, -1)


@triton.jit
def _again(
    state, group, left, right, row, apart, Q, K, NORM, REST, strides, low, high, size, shape, factor, cap, mask, flat,
    FLAGS: tl.constexpr, WIDTH: tl.constexpr, STEP: tl.constexpr, MANY: tl.constexpr, UNIT: tl.constexpr,
    BN: tl.constexpr,
):  # fmt: skip
    """Look at all keys of those classes that stand in `group` twice: a third of theirs may count too."""
    member, left_over = tl.arange(0, MANY), _twice(group)
    while tl.max(left_over, 0) >= 0:
        mine = tl.max(left_over, 0)
        left_over = tl.where(left_over == mine, -1, left_over)
        for at in range(left + mine, right, MANY * BN // 2):
            key = at + member // UNIT * (BN * UNIT // 2) + member % UNIT
            state = _look(state, key, key < right, row, apart, Q, K, NORM, REST, strides, low, high, size, shape,
                          factor, cap, mask, flat, FLAGS, WIDTH, STEP)  # fmt: skip
    return state


@triton.jit
def _short(
    state, named, lost, KEYS, row, apart, Q, K, NORM, REST, strides, low, high, size, shape, factor, cap, mask, flat,
    FLAGS: tl.constexpr, TOP: tl.constexpr, SLOTS: tl.constexpr, BITS: tl.constexpr, WIDTH: tl.constexpr,
    STEP: tl.constexpr, ROOM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """The best of a short row, of which KEYS are the keys that `best` found and the other that may count.

    As a rule a class lost one of its keys, and marks tell well enough where that one stands: then only the classes that
    two of the best belong to are weighed. Where they do not, all that may count are weighed anew.
    """
    MEMBERS: tl.constexpr = 1 << BITS  # of a class, at most
    best, known = state
    unsure = (named < 0).to(tl.int32)
    left_over = _twice(tl.where(known >= 0, tl.where(lost, known % (BN // 2), -1), -1))
    while (unsure == 0) & (tl.max(left_over, 0) >= 0):
        mine = tl.max(left_over, 0)
        left_over = tl.where(left_over == mine, -1, left_over)
        key = mine + tl.arange(0, MEMBERS) * (BN // 2)
        found = _weigh(row, key[None, :], (key < size[1])[None, :], Q, K, NORM, REST, strides, low, high, size, shape,
                       factor, cap, mask, flat, FLAGS, WIDTH, STEP)  # fmt: skip
        found = _moved(tl.reshape(found, [MEMBERS]), apart, FLAGS)
        near = (found[:, None] >= _bound(best, BITS)[None, :]) & (best[None, :] >= _bound(found, BITS)[:, None])
        kind = tl.max(tl.where(key[:, None] == known[None, :], 2, near.to(tl.int32)), 1)  # 2: one of them, 1: like one
        found = tl.where(kind == 2, 2 * HIDDEN, found)
        unsure = tl.max(tl.where(found > HIDING, kind, 0), 0)
        if unsure == 0:
            state = _insert(state, found, key)
    if unsure > 0:
        if tl.load(KEYS + SLOTS) == -1:  # any may count
            state = (tl.where(tl.arange(0, ROOM) < TOP, 2 * HIDDEN, best), tl.full([ROOM], -1, tl.int32))
            every = tl.arange(0, 2 * SLOTS)
            for at in range(0, size[1], 2 * SLOTS):
                state = _look(state, at + every, at + every < size[1], row, apart, Q, K, NORM, REST, strides, low, high,
                              size, shape, factor, cap, mask, flat, FLAGS, WIDTH, STEP)  # fmt: skip
        else:
            slot = tl.arange(0, 2 * SLOTS)
            own = tl.load(KEYS + slot, mask=(slot < TOP) | (slot == SLOTS), other=-1)
            safe = tl.maximum(own, 0)  # no place before the first of a mask is read
            again = _weigh(row, safe[None, :], (own >= 0)[None, :], Q, K, NORM, REST, strides, low, high, size, shape,
                           factor, cap, mask, flat, FLAGS, WIDTH, STEP)  # fmt: skip
            state = _greatest(_moved(tl.reshape(again, [2 * SLOTS]), apart, FLAGS), own, TOP, ROOM)
            own = tl.where(own >= 0, tl.where(lost, own % (BN // 2), -1), -1)
            state = _again(state, own, 0, size[1], row, apart, Q, K, NORM, REST, strides, low, high, size, shape,
                           factor, cap, mask, flat, FLAGS, WIDTH, STEP, MEMBERS, 1, BN)  # fmt: skip
        # As in `settle`: a mark is right where products have fewer digits.
        again, keys = state
        same = (keys[:, None] == known[None, :]) & (known >= 0)[None, :]
        marked = tl.sum(tl.where(same, best[None, :], 0.0), 1)
        state = tl.where(tl.max(same.to(tl.int32), 1) > 0, _within(again, marked, BITS), again), keys
    return state


@triton.jit
def search(
    Q, K, NORM, REST, VALUES, KEYS, LOST, LIST, LOGS, BEST, WHERE, strides, low, high, size, shape, factor, cap, mask,
    above, lines,
    FLAGS: tl.constexpr, TOP: tl.constexpr, SLOTS: tl.constexpr, SEGMENTS: tl.constexpr,
    UNIT: tl.constexpr, BITS: tl.constexpr, PAIRS: tl.constexpr, WIDTH: tl.constexpr, STEP: tl.constexpr,
    ROOM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """Look at what else may be among the TOP of a row: other pairs, classes that lost one, segments that lost many.

    LIST, LOGS, KEYS and LOST are as `best` and `settle` left them: LOGS, and of short rows the others, in LIST's order.
    To be compiled without fused products: all threads must come to the same decisions.
    """
    slot, pair, both = tl.arange(0, ROOM), tl.arange(0, SLOTS), tl.arange(0, 2 * SLOTS)
    for turn in range(tl.program_id(0), tl.load(LIST), tl.num_programs(0)):
        named = tl.load(LIST + 1 + turn)
        here = tl.where(named < 0, -1 - named, named)
        flat, line = here // lines, here % lines
        row = above + line + tl.arange(0, 1)
        out = (flat * size[0] + above + line).to(tl.int64) * TOP
        spot = tl.cast(turn, tl.int64)
        best = tl.load(LOGS + spot * TOP + slot, mask=slot < TOP, other=-HIDDEN)  # behind the last: never the least
        if UNIT == 1:
            names = KEYS + spot * (2 * SLOTS)
            known = tl.load(names + slot, mask=slot < TOP, other=-1)
        else:
            known = tl.load(WHERE + out + slot, mask=slot < TOP, other=-1).to(tl.int32)
        apart = 0.0
        if LOW & FLAGS:  # how far the greatest that is known is from what is weighed here
            most = tl.max(tl.where(known >= 0, best, 4 * HIDDEN), 0)
            lead = tl.max(tl.where((best == most) & (known >= 0), slot, 0), 0)
            found = _weigh(row, tl.maximum(known, 0)[None, :], (known >= 0)[None, :], Q, K, NORM, REST, strides, low,
                           high, size, shape, factor, cap, mask, flat, FLAGS, WIDTH, STEP)  # fmt: skip
            found = tl.reshape(found, [ROOM])
            apart = tl.sum(tl.where((slot == lead) & (known >= 0), best - found, 0.0), 0)
        if UNIT == 1:
            lost = tl.load(LOST + turn) >= _bound(tl.min(best, 0), BITS)
            state = _short((best, known), named, lost, names, row, apart, Q, K, NORM, REST, strides, low, high, size,
                           shape, factor, cap, mask, flat, FLAGS, TOP, SLOTS, BITS, WIDTH, STEP, ROOM, BN)  # fmt: skip
        else:
            state = (best, known)
            for part in range(SEGMENTS):
                bound = _bound(tl.min(state[0], 0), BITS)
                spot = (here.to(tl.int64) * SEGMENTS + part) * SLOTS
                value, names = tl.load(VALUES + spot + pair), tl.load(KEYS + spot + pair)
                left, right = part * (BN << BITS), tl.minimum((part + 1) * (BN << BITS), size[1])
                full = tl.load(VALUES + spot + PAIRS - 1) >= bound
                if full:  # those that were not handed on may count: all of them
                    for at in range(left, right, 2 * SLOTS):
                        state = _look(state, at + both, at + both < right, row, apart, Q, K, NORM, REST, strides, low,
                                      high, size, shape, factor, cap, mask, flat, FLAGS, WIDTH, STEP)  # fmt: skip
                elif tl.max(value, 0) >= bound:
                    key = tl.load(KEYS + spot + both // 2) + both % 2
                    near = tl.load(VALUES + spot + both // 2) >= bound
                    state = _look(state, key, near, row, apart, Q, K, NORM, REST, strides, low, high, size, shape,
                                  factor, cap, mask, flat, FLAGS, WIDTH, STEP)  # fmt: skip
                    if tl.load(LOST + here.to(tl.int64) * SEGMENTS + part) >= bound:
                        group = tl.where(value > HIDING, names % BN, -1)
                        state = _again(state, group, left, right, row, apart, Q, K, NORM, REST, strides, low, high,
                                       size, shape, factor, cap, mask, flat, FLAGS, WIDTH, STEP, 2 * SLOTS, UNIT,
                                       BN)  # fmt: skip
        best, keys = state
        best = tl.where(slot < TOP, best, 4 * HIDDEN)
        rank = _rank(best)
        tl.store(BEST + out + rank, tl.exp2(best), mask=rank < TOP)
        tl.store(WHERE + out + rank, keys.to(tl.int64), mask=rank < TOP)
