"""The search of `top(k)`: what may still be in the top k of the rows that tags leave open. See top.py."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator, import-untyped"
from __future__ import annotations

from typing import Any, NamedTuple

import triton
import triton.language as tl

from regard.backends.triton.kernels import HIDDEN, HIDING, find_head, weigh_keys

# Tagged weights


@triton.jit
def lower_bound(smallest, BITS: tl.constexpr):
    """A pair with a lower tagged weight holds no weight above this: tags change numbers by at most half as much."""
    return tl.maximum(smallest - tl.abs(smallest) * (2.0 ** (BITS - 22)), HIDING)


@triton.jit
def set_tag(log2, tag, BITS: tl.constexpr):
    """A tag in the low bits of the mantissa."""
    return ((log2.to(tl.int32, bitcast=True) >> BITS << BITS) | tag).to(tl.float32, bitcast=True)


@triton.jit
def clamp_to_tagged(log2, tagged, BITS: tl.constexpr):
    """The nearest to `log2` of the numbers that tagging could have turned into `tagged`."""
    near, far = set_tag(tagged, 0, BITS), set_tag(tagged, (1 << BITS) - 1, BITS)
    return tl.minimum(tl.maximum(log2, tl.minimum(near, far)), tl.maximum(near, far))


# One open row at a time. `state` is (the best log2 weights so far, their keys)


class OpenRow(NamedTuple):
    """A row that is searched: its index, its head, and how far its single products are from those of tiles."""

    index: Any
    flat: Any
    shift: Any


@triton.jit
def _rank(values):
    """The rank of each value, the largest first; of equal values, the first."""
    each = tl.arange(0, values.shape[0])
    equal = (values[:, None] == values[None, :]) & (each[:, None] > each[None, :])
    return tl.sum((equal | (values[:, None] < values[None, :])).to(tl.int32), 1)


@triton.jit
def _sort_best(values, keys, TOP: tl.constexpr):
    """The TOP.k largest values and their keys; in the slots after them, values that are never the smallest."""
    slot = tl.arange(0, TOP.room)
    chosen = _rank(values)[:, None] == slot[None, :]
    best = tl.sum(tl.where(chosen, values[:, None], 0.0), 0)
    keys = tl.sum(tl.where(chosen, keys[:, None], 0), 0)
    return tl.where(slot < TOP.k, best, -HIDDEN), tl.where((best > HIDING) & (slot < TOP.k), keys, -1)


@triton.jit
def _insert(state, log2, key):
    """Insert the keys that are better than the present keys."""
    best, keys = state
    slot, largest, smallest = tl.arange(0, best.shape[0]), tl.max(log2, 0), tl.min(best, 0)
    while largest > tl.maximum(smallest, HIDING):
        new = tl.max(tl.where(log2 == largest, key, -1), 0)
        place = slot == tl.max(tl.where(best == smallest, slot, -1), 0)
        best, keys = tl.where(place, largest, best), tl.where(place, new, keys)
        log2 = tl.where(key == new, 4 * HIDDEN, log2)
        largest, smallest = tl.max(log2, 0), tl.min(best, 0)
    return best, keys


@triton.jit
def _weigh(key, wanted, row, tensors, norm, problem, FLAGS: tl.constexpr, WIDTH: tl.constexpr, STEP: tl.constexpr):
    """log2 weights of single keys of one row, as tiles would have computed them."""
    head = find_head(row.flat, problem, FLAGS)
    log2 = weigh_keys(row.index, key[None, :], wanted[None, :], head, tensors, norm, problem, FLAGS, WIDTH, STEP)
    log2 = tl.reshape(log2, [key.shape[0]])
    return log2 + row.shift if FLAGS.split_lse else log2


@triton.jit
def _look(
    state, key, wanted, row, tensors, norm, problem, FLAGS: tl.constexpr, WIDTH: tl.constexpr, STEP: tl.constexpr
):
    """Weigh some keys of one row, and insert the keys that are better than the present keys."""
    wanted = wanted & (key < problem.keys) & (tl.max((key[:, None] == state[1][None, :]).to(tl.int32), 1) == 0)
    if tl.max(wanted.to(tl.int32), 0) > 0:
        state = _insert(state, _weigh(key, wanted, row, tensors, norm, problem, FLAGS, WIDTH, STEP), key)
    return state


@triton.jit
def _repeated(classes):
    """The classes that occur twice, at one of their places; -1 at all other places."""
    each = tl.arange(0, classes.shape[0])
    again = (classes[:, None] == classes[None, :]) & (each[:, None] > each[None, :])
    return tl.where(tl.sum(again.to(tl.int32), 1) > 0, classes, -1)


@triton.jit
def _look_at_classes(
    state, classes, left, right, row, tensors, norm, problem,
    FLAGS: tl.constexpr, WIDTH: tl.constexpr, STEP: tl.constexpr, MANY: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Look at all keys of the classes that occur in `classes` twice: a third key of such a class may count too."""
    member, remaining = tl.arange(0, MANY), _repeated(classes)
    while tl.max(remaining, 0) >= 0:
        one = tl.max(remaining, 0)
        remaining = tl.where(remaining == one, -1, remaining)
        for start in range(left + one, right, MANY * BLOCK_N // 2):
            key = start + member * (BLOCK_N // 2)
            state = _look(state, key, key < right, row, tensors, norm, problem, FLAGS, WIDTH, STEP)
    return state


@triton.jit
def _search_short(
    state, entry, dropped, keys_ptr, row, tensors, norm, problem,
    FLAGS: tl.constexpr, TOP: tl.constexpr, WIDTH: tl.constexpr, STEP: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """The best of a short row, of which keys_ptr are the keys that `top_pass` found and the other that may count.

    Usually a class dropped one of its keys, and tags tell well enough where this key ranks: then only the classes with
    two of the best keys are weighed. Otherwise every key that may count is weighed anew.
    """
    MEMBERS: tl.constexpr = 1 << TOP.tag_bits  # of a class, at most
    best, known = state
    unsure = (entry < 0).to(tl.int32)
    remaining = _repeated(tl.where(known >= 0, tl.where(dropped, known % (BLOCK_N // 2), -1), -1))
    while (unsure == 0) & (tl.max(remaining, 0) >= 0):
        one = tl.max(remaining, 0)
        remaining = tl.where(remaining == one, -1, remaining)
        key = one + tl.arange(0, MEMBERS) * (BLOCK_N // 2)
        log2 = _weigh(key, key < problem.keys, row, tensors, norm, problem, FLAGS, WIDTH, STEP)
        near = log2[:, None] >= lower_bound(best, TOP.tag_bits)[None, :]
        near = near & (best[None, :] >= lower_bound(log2, TOP.tag_bits)[:, None])
        kind = tl.max(tl.where(key[:, None] == known[None, :], 2, near.to(tl.int32)), 1)  # 2: a best one, 1: near one
        log2 = tl.where(kind == 2, 2 * HIDDEN, log2)
        unsure = tl.max(tl.where(log2 > HIDING, kind, 0), 0)
        if unsure == 0:
            state = _insert(state, log2, key)
    if unsure > 0:
        if tl.load(keys_ptr + TOP.slots) == -1:  # any may count
            each = tl.arange(0, 2 * TOP.slots)
            state = (tl.where(tl.arange(0, TOP.room) < TOP.k, 2 * HIDDEN, best), tl.full([TOP.room], -1, tl.int32))
            for start in range(0, problem.keys, 2 * TOP.slots):
                state = _look(state, start + each, start + each < problem.keys, row, tensors, norm, problem, FLAGS,
                              WIDTH, STEP)  # fmt: skip
        else:
            slot = tl.arange(0, 2 * TOP.slots)
            key = tl.load(keys_ptr + slot, mask=(slot < TOP.k) | (slot == TOP.slots), other=-1)
            # A mask is never read before its first key.
            log2 = _weigh(tl.maximum(key, 0), key >= 0, row, tensors, norm, problem, FLAGS, WIDTH, STEP)
            state = _sort_best(log2, key, TOP)
            classes = tl.where(key >= 0, tl.where(dropped, key % (BLOCK_N // 2), -1), -1)
            state = _look_at_classes(state, classes, 0, problem.keys, row, tensors, norm, problem, FLAGS, WIDTH, STEP,
                                     MEMBERS, BLOCK_N)  # fmt: skip
        # As in `top_settle`: a tagged weight is right where products have fewer digits.
        log2, keys = state
        same = (keys[:, None] == known[None, :]) & (known >= 0)[None, :]
        tagged = tl.sum(tl.where(same, best[None, :], 0.0), 1)
        was_known = tl.max(same.to(tl.int32), 1) > 0
        state = tl.where(was_known, clamp_to_tagged(log2, tagged, TOP.tag_bits), log2), keys
    return state


@triton.jit
def _search_segment(
    state, line, segment, row, tensors, buffers, norm, problem,
    FLAGS: tl.constexpr, TOP: tl.constexpr, WIDTH: tl.constexpr, STEP: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Look at the other keys of a segment: all keys, or pairs handed on and classes that dropped a pair."""
    slot, both = tl.arange(0, TOP.slots), tl.arange(0, 2 * TOP.slots)
    bound = lower_bound(tl.min(state[0], 0), TOP.tag_bits)
    at = (line.to(tl.int64) * TOP.segments + segment) * TOP.slots
    value, keys = tl.load(buffers.candidates + at + slot), tl.load(buffers.keys + at + slot)
    segment_keys: tl.constexpr = BLOCK_N << TOP.tag_bits
    left, right = segment * segment_keys, tl.minimum((segment + 1) * segment_keys, problem.keys)
    everything = tl.load(buffers.candidates + at + TOP.pairs - 1) >= bound  # pairs that were not handed on may count
    more = everything | (tl.max(value, 0) >= bound)
    bound = tl.where(everything, -HIDDEN, bound)  # then no single ones are looked at
    dropped = tl.load(buffers.dropped + line.to(tl.int64) * TOP.segments + segment) >= bound
    key = tl.load(buffers.keys + at + both // 2) + both % 2
    wanted = tl.load(buffers.candidates + at + both // 2) >= bound
    remaining = tl.where(dropped, _repeated(tl.where(value > HIDING, keys % BLOCK_N, -1)), -1)
    apart, start = tl.where(everything, 2, BLOCK_N), tl.where(everything, left, right)
    while more:  # first pairs that were handed on. One place for all: weighing is most of what there is to compile
        state = _look(state, key, wanted, row, tensors, norm, problem, FLAGS, WIDTH, STEP)
        one = tl.max(remaining, 0)
        more = (start < right) | (one >= 0)
        if (start >= right) & (one >= 0):  # the next class
            start = left + one
            remaining = tl.where(remaining == one, -1, remaining)
        key = start + both // 2 * apart + both % 2
        wanted = key < right
        start += TOP.slots * apart
    return state


@triton.jit
def top_search(
    tensors, buffers, norm, problem, chunk,
    FLAGS: tl.constexpr, TOP: tl.constexpr, WIDTH: tl.constexpr, STEP: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Look at the other keys that may be in the top k of the open rows: pairs, and classes that dropped pairs.

    open_rows, logs, keys and dropped are as `top_pass` and `top_settle` left them: logs, and in short rows the others,
    in the order of the list. To be compiled without fused products: all threads must come to the same decisions.
    """
    slot = tl.arange(0, TOP.room)
    for turn in range(tl.program_id(0), tl.load(buffers.open_rows), tl.num_programs(0)):
        entry = tl.load(buffers.open_rows + 1 + turn)
        line = tl.where(entry < 0, -1 - entry, entry)
        flat, index = line // chunk.rows, chunk.start + line % chunk.rows
        out = (flat * problem.queries + index).to(tl.int64) * TOP.k
        place = tl.cast(turn, tl.int64)
        # In the slots after the last: values that are never the smallest.
        best = tl.load(buffers.logs + place * TOP.k + slot, mask=slot < TOP.k, other=-HIDDEN)
        keys_ptr = buffers.keys + place * (2 * TOP.slots)
        if TOP.unit == 1:
            known = tl.load(keys_ptr + slot, mask=slot < TOP.k, other=-1)
        else:
            known = tl.load(buffers.indices + out + slot, mask=slot < TOP.k, other=-1).to(tl.int32)
        row = OpenRow(index + tl.arange(0, 1), flat, 0.0)
        if FLAGS.split_lse:  # how far the best known weight is from what is weighed here
            largest = tl.max(tl.where(known >= 0, best, 4 * HIDDEN), 0)
            lead = tl.max(tl.where((best == largest) & (known >= 0), slot, 0), 0)
            log2 = _weigh(tl.maximum(known, 0), known >= 0, row, tensors, norm, problem, FLAGS, WIDTH, STEP)
            shift = tl.sum(tl.where((slot == lead) & (known >= 0), best - log2, 0.0), 0)
            row = OpenRow(row.index, flat, shift)
        state = (best, known)
        if TOP.unit == 1:
            dropped = tl.load(buffers.dropped + turn) >= lower_bound(tl.min(best, 0), TOP.tag_bits)
            state = _search_short(state, entry, dropped, keys_ptr, row, tensors, norm, problem, FLAGS, TOP, WIDTH,
                                  STEP, BLOCK_N)  # fmt: skip
        else:
            for segment in range(TOP.segments):
                state = _search_segment(state, line, segment, row, tensors, buffers, norm, problem, FLAGS, TOP, WIDTH,
                                        STEP, BLOCK_N)  # fmt: skip
        best, keys = state
        best = tl.where(slot < TOP.k, best, 4 * HIDDEN)
        rank = _rank(best)
        tl.store(buffers.weights + out + rank, tl.exp2(best), mask=rank < TOP.k)
        tl.store(buffers.indices + out + rank, keys.to(tl.int64), mask=rank < TOP.k)
