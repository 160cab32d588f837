"""The Triton kernel that looks at the few rows of `top` that are still open: see top_kernels.py."""

# mypy: ignore-errors
from __future__ import annotations

import triton
import triton.language as tl

from regard.backends.kernels import HIDDEN, HIDING
from regard.backends.top_kernels import _bound, _weigh


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
def _look(
    state, key, wanted, row, Q, K, NORM, REST, strides, low, high, size, shape, factor, cap, mask, flat,
    FLAGS: tl.constexpr, WIDTH: tl.constexpr, STEP: tl.constexpr, TOP: tl.constexpr, MANY: tl.constexpr,
):  # fmt: skip
    """Weigh some keys of one row, and keep those that are better than what there is."""
    best, keys = state
    slot, member = tl.arange(0, TOP), tl.arange(0, MANY)
    known = tl.max((key[:, None] == keys[None, :]).to(tl.int32), 1)
    wanted = wanted & (key < size[1]) & (known == 0)
    if tl.max(wanted.to(tl.int32), 0) > 0:
        found = _weigh(row, key[None, :], wanted[None, :], Q, K, NORM, REST, strides, low, high, size, shape, factor,
                       cap, mask, flat, FLAGS, WIDTH, STEP)  # fmt: skip
        found = tl.reshape(found, [MANY])
        while tl.max(found, 0) > tl.maximum(tl.min(best, 0), HIDING):
            chosen, least = member == tl.argmax(found, 0), slot == tl.argmin(best, 0)
            keys = tl.where(least, tl.sum(tl.where(chosen, key, 0), 0), keys)
            best = tl.where(least, tl.max(found, 0), best)
            found = tl.where(chosen, 4 * HIDDEN, found)
    return best, keys


@triton.jit
def _twice(group):
    """Those classes that stand there twice, at one of their places; -1 at all others."""
    each = tl.arange(0, group.shape[0])
    again = (group[:, None] == group[None, :]) & (each[:, None] > each[None, :])
    return tl.where(tl.sum(again.to(tl.int32), 1) > 0, group, -1)


@triton.jit
def _again(
    state, group, left, right, row, Q, K, NORM, REST, strides, low, high, size, shape, factor, cap, mask, flat,
    FLAGS: tl.constexpr, WIDTH: tl.constexpr, STEP: tl.constexpr, TOP: tl.constexpr, MANY: tl.constexpr,
    UNIT: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """Look at all keys of those classes that stand in `group` twice: a third of theirs may count too."""
    member, left_over = tl.arange(0, MANY), _twice(group)
    while tl.max(left_over, 0) >= 0:
        mine = tl.max(left_over, 0)
        left_over = tl.where(left_over == mine, -1, left_over)
        for at in range(left + mine, right, MANY * BN // 2):
            key = at + member // UNIT * (BN * UNIT // 2) + member % UNIT
            state = _look(state, key, key < right, row, Q, K, NORM, REST, strides, low, high, size, shape, factor, cap,
                          mask, flat, FLAGS, WIDTH, STEP, TOP, MANY)  # fmt: skip
    return state


@triton.jit
def search(
    Q, K, NORM, REST, VALUES, KEYS, LOST, LIST, BEST, WHERE, strides, low, high, size, shape, factor, cap, mask, above,
    lines,
    FLAGS: tl.constexpr, TOP: tl.constexpr, SLOTS: tl.constexpr, SEGMENTS: tl.constexpr,
    UNIT: tl.constexpr, BITS: tl.constexpr, PAIRS: tl.constexpr, WIDTH: tl.constexpr, STEP: tl.constexpr,
    ROOM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """Look at what else may be among the TOP of a row: other pairs, classes that lost one, segments that lost many.

    Of short rows, what `best` found is weighed anew too. LIST, KEYS and LOST are as `best` and `settle` left them.
    To be compiled without fused products: all threads must come to the same decisions.
    """
    slot, pair, both, four = tl.arange(0, ROOM), tl.arange(0, SLOTS), tl.arange(0, 2 * SLOTS), tl.arange(0, 4 * SLOTS)
    for turn in range(tl.program_id(0), tl.load(LIST), tl.num_programs(0)):
        named = tl.load(LIST + 1 + turn)
        here = tl.where(named < 0, -1 - named, named)
        flat, line = here // lines, here % lines
        row = above + line + tl.arange(0, 1)
        out = (flat * size[0] + above + line).to(tl.int64) * TOP
        best = tl.load(BEST + out + slot, mask=slot < TOP, other=-HIDDEN)  # places behind the last are never the least
        known = tl.load(WHERE + out + slot, mask=slot < TOP, other=-1).to(tl.int32)
        state = (best, known)
        if UNIT == 1:
            lost = tl.load(LOST + here) >= _bound(tl.min(best, 0), BITS)
            other = tl.load(KEYS + here, mask=named < 0, other=-1)
            state = (tl.where(slot < TOP, 2 * HIDDEN, best), tl.full([ROOM], -1, tl.int32))
            if (named < 0) & ((other < 0) | lost):  # any may count
                for at in range(0, size[1], 4 * SLOTS):
                    state = _look(state, at + four, at + four < size[1], row, Q, K, NORM, REST, strides, low, high,
                                  size, shape, factor, cap, mask, flat, FLAGS, WIDTH, STEP, ROOM,
                                  4 * SLOTS)  # fmt: skip
            else:  # what was found, and one more or the class that lost one, all at once
                group = tl.where(known >= 0, known % (BN // 2), -1)
                mine = tl.where(lost, tl.max(_twice(group), 0), -1)
                theirs = mine + (four - 2 * SLOTS) * (BN // 2)
                again = tl.sum((theirs[:, None] == known[None, :]).to(tl.int32), 1)
                key = tl.load(WHERE + out + four, mask=four < TOP, other=-1).to(tl.int32)
                key = tl.where(four == SLOTS, other, key)
                key = tl.where((four >= 2 * SLOTS) & (mine >= 0) & (again == 0), theirs, key)
                wanted = (key >= 0) & (key < size[1])
                found = _weigh(row, key[None, :], wanted[None, :], Q, K, NORM, REST, strides, low, high, size, shape,
                               factor, cap, mask, flat, FLAGS, WIDTH, STEP)  # fmt: skip
                state = _greatest(tl.reshape(found, [4 * SLOTS]), key, TOP, ROOM)
                if lost:  # and whatever had no room
                    done = (group == mine) & (size[1] <= SLOTS * BN)
                    state = _again(state, tl.where(done, -1, group), 0, size[1], row, Q, K, NORM, REST, strides, low,
                                   high, size, shape, factor, cap, mask, flat, FLAGS, WIDTH, STEP, ROOM, 4 * SLOTS,
                                   UNIT, BN)  # fmt: skip
        else:
            for part in range(SEGMENTS):
                bound = _bound(tl.min(state[0], 0), BITS)
                spot = (here.to(tl.int64) * SEGMENTS + part) * SLOTS
                value, names = tl.load(VALUES + spot + pair), tl.load(KEYS + spot + pair)
                left, right = part * (BN << BITS), tl.minimum((part + 1) * (BN << BITS), size[1])
                full = tl.load(VALUES + spot + PAIRS - 1) >= bound
                if full:  # those that were not handed on may count: all of them
                    for at in range(left, right, 2 * SLOTS):
                        state = _look(state, at + both, at + both < right, row, Q, K, NORM, REST, strides, low, high,
                                      size, shape, factor, cap, mask, flat, FLAGS, WIDTH, STEP, ROOM,
                                      2 * SLOTS)  # fmt: skip
                elif tl.max(value, 0) >= bound:
                    key = tl.load(KEYS + spot + both // 2) + both % 2
                    state = _look(state, key, tl.load(VALUES + spot + both // 2) >= bound, row, Q, K, NORM, REST,
                                  strides, low, high, size, shape, factor, cap, mask, flat, FLAGS, WIDTH, STEP, ROOM,
                                  2 * SLOTS)  # fmt: skip
                    if tl.load(LOST + here.to(tl.int64) * SEGMENTS + part) >= bound:
                        group = tl.where(value > HIDING, names % BN, -1)
                        state = _again(state, group, left, right, row, Q, K, NORM, REST, strides, low, high, size,
                                       shape, factor, cap, mask, flat, FLAGS, WIDTH, STEP, ROOM, 2 * SLOTS, UNIT,
                                       BN)  # fmt: skip
        best, keys = state
        best = tl.where(slot < TOP, best, 4 * HIDDEN)
        rank = _rank(best)
        tl.store(BEST + out + rank, best, mask=rank < TOP)
        tl.store(WHERE + out + rank, keys.to(tl.int64), mask=rank < TOP)
