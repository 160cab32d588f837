"""The Triton kernels of exact `top(k)` for k > 1 (k = 1: `rows`). docs/how-exact-top-works.md has a worked example.

`top_pass` goes along the rows. Two neighbouring keys are a pair; pairs with the same remainder modulo the width of a
block are a class. Of each class a row keeps the two pairs with the largest weights, each tagged with its tile's number
(in the low bits of the mantissa), and the largest weight that it dropped: comparisons only, beside which the
exponentials of the entropy may run. `top_settle` weighs the largest few pairs anew and keeps the best keys. Where tags
leave something open, `top_search` looks at everything else that may count, for those rows alone. Short rows have few
tiles, so tags may tell single keys (TOP.unit = 1): there `top_pass` finds the result in all rows but those it leaves to
`top_search`. Nothing waits for the CPU.
"""

# mypy: ignore-errors
from __future__ import annotations

from typing import Any, NamedTuple

import triton
import triton.language as tl

from regard.backends.triton.kernels import (
    HIDDEN,
    HIDING,
    LN2,
    find_head,
    flat_head,
    key_bounds,
    last_first,
    load_block,
    load_norm,
    log2_weights,
    program_block,
    tile_logits,
    weigh_keys,
)


@triton.jit
def _bound(smallest, BITS: tl.constexpr):
    """A pair with a lower tagged weight holds no weight above this: tags change numbers by at most half as much."""
    return tl.maximum(smallest - tl.abs(smallest) * (2.0 ** (BITS - 22)), HIDING)


@triton.jit
def _tag(log2, tag, BITS: tl.constexpr):
    """A tag in the low bits of the mantissa."""
    return ((log2.to(tl.int32, bitcast=True) >> BITS << BITS) | tag).to(tl.float32, bitcast=True)


@triton.jit
def _clamp_to_tagged(log2, tagged, BITS: tl.constexpr):
    """The nearest to `log2` of the numbers that tagging could have turned into `tagged`."""
    near, far = _tag(tagged, 0, BITS), _tag(tagged, (1 << BITS) - 1, BITS)
    return tl.minimum(tl.maximum(log2, tl.minimum(near, far)), tl.maximum(near, far))


@triton.jit
def _min_nan(a, b):
    """The smaller; a tagged -inf is NaN, and propagates so that it never displaces a number."""
    return tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL)


# The pass


@triton.jit
def _pass_step(
    state, start_n, tile, row, q, high, low, k_desc, layouts, head, problem,
    FLAGS: tl.constexpr, TOP: tl.constexpr, ENTROPY: tl.constexpr, MASKED: tl.constexpr, PRECISION: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    first, second, dropped, entropy = state
    k = load_block(k_desc, layouts.k, head.batch, head.key_head, start_n)
    qk = tl.dot(q, k.T, input_precision=PRECISION)
    column = start_n + tl.arange(0, BLOCK_N)
    logits = tile_logits(qk, row[:, None], column[None, :], head, problem, FLAGS, MASKED)
    log2 = log2_weights(logits, high[:, None], low[:, None], FLAGS)
    if ENTROPY:
        entropy -= tl.sum(tl.reshape(tl.exp2(log2) * log2, [BLOCK_M, BLOCK_N // 8, 8]), 1)
    if TOP.unit == 2:
        best = _tag(tl.max(tl.reshape(log2, [BLOCK_M, BLOCK_N // 2, 2]), 2), tile, TOP.tag_bits)
        other = second
    else:
        tag = tl.where(tl.arange(0, BLOCK_N)[None, :] < BLOCK_N // 2, tile, tile + tl.cdiv(problem.keys, BLOCK_N))
        halves = tl.reshape(_tag(log2, tag, TOP.tag_bits), [BLOCK_M, 2, BLOCK_N // 2])
        best = tl.max(halves, 1)
        other = tl.maximum(second, tl.reduce(halves, 1, _min_nan))
    less = _min_nan(first, best)
    first = tl.maximum(first, best)
    third = tl.reshape(tl.minimum(other, less), [BLOCK_M, BLOCK_N * TOP.unit // 16, 8 // TOP.unit])
    dropped = tl.maximum(dropped, tl.max(third, 1))  # several maxima, so that threads exchange no numbers
    return first, tl.maximum(other, less), dropped, entropy


@triton.jit
def _take_best(first, second, left, tiles, TOP: tl.constexpr, BLOCK_N: tl.constexpr):
    """Take the best pair (or key) of each row: (first, second) without it, its tagged weight, and its key.

    Tags from `tiles` on stand for the second half of a tile.
    """
    each, best = tl.arange(0, BLOCK_N // 2)[None, :], tl.max(first, 1)
    place = tl.max(tl.where(first >= best[:, None], each, 0), 1)
    chosen = each == place[:, None]
    first, second = tl.where(chosen, second, first), tl.where(chosen, 4 * HIDDEN, second)
    tag = best.to(tl.int32, bitcast=True) & ((1 << TOP.tag_bits) - 1)
    half = (tag >= tiles).to(tl.int32)
    return first, second, best, left + TOP.unit * place + tag * BLOCK_N - half * (tiles * BLOCK_N - BLOCK_N // 2)


@triton.jit
def _move_best(state, n, left, tiles, TOP: tl.constexpr, BLOCK_N: tl.constexpr):
    """Move the best pair (or key) of each row to slot n."""
    first, second, values, keys = state
    first, second, best, key = _take_best(first, second, left, tiles, TOP, BLOCK_N)
    slot = tl.arange(0, values.shape[1])[None, :]
    values, keys = tl.where(slot == n, best[:, None], values), tl.where(slot == n, key[:, None], keys)
    return first, second, values, keys


@triton.jit
def top_pass(
    q_desc, k_desc, entropy_ptr, buffers, norm, problem, layouts, chunk,
    FLAGS: tl.constexpr, TOP: tl.constexpr, ENTROPY: tl.constexpr, PRECISION: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """The TOP.k best pairs of each row of a chunk, and of each segment of as many tiles as there are tags.

    Of each, buffers.candidates are its larger log2 weight, tagged, and buffers.keys its first key; up to TOP.pairs
    follow that may count too. buffers.dropped is the largest that came third in its class; entropy_ptr, with ENTROPY,
    the entropy of the segment. The list of open rows is made empty for `top_settle`.

    In short rows the results go to buffers.weights and buffers.indices, and buffers.open_rows, the first number of
    which is its length, lists the rows for `top_search`, as -1 - row where tags may have changed their order. For those
    rows, in the order of the list, `dropped` is as above, `logs` and `keys` are the log2 weights and keys, and after
    the keys comes one other that may count too, or -1 (any) or -2 (none).
    """
    flat, block, blocks = program_block(problem)
    if (TOP.unit == 2) & (block == 0) & (flat == 0):
        tl.store(buffers.open_rows, 0)
    segment = block % TOP.segments
    head = find_head(flat, problem, FLAGS)
    start_m = chunk.start + last_first(block // TOP.segments, blocks // TOP.segments, FLAGS) * BLOCK_M
    row = start_m + tl.arange(0, BLOCK_M)
    high, low = load_norm(norm, flat * problem.queries, row, problem, FLAGS, True)
    high = tl.where(row < problem.queries, high, HIDDEN)
    q = load_block(q_desc, layouts.q, head.batch, head.index, start_m)
    q = tl.where((row < problem.queries)[:, None], q, 0.0)  # rows beyond the end may hold NaN; and in registers
    a, b, c, d = key_bounds(start_m, head, problem, BLOCK_M, BLOCK_N, FLAGS)
    segment_keys: tl.constexpr = BLOCK_N * TOP.unit // 2 << TOP.tag_bits
    left, right = segment * segment_keys, (segment + 1) * segment_keys
    a, b = tl.minimum(tl.maximum(a, left), right), tl.minimum(tl.maximum(b, left), right)
    c, d = tl.minimum(tl.maximum(c, left), right), tl.minimum(tl.maximum(d, left), right)
    bounds = (a, b, c, d)
    none = tl.full([BLOCK_M, BLOCK_N // 2], 2 * HIDDEN, tl.float32)
    none_dropped = tl.full([BLOCK_M, 8 // TOP.unit], 2 * HIDDEN, tl.float32)
    state = (none, none, none_dropped, tl.zeros([BLOCK_M, 8], tl.float32))
    for stage in tl.static_range(3):
        if FLAGS.stages[stage]:
            for start_n in range(bounds[stage], bounds[stage + 1], BLOCK_N):
                state = _pass_step(state, start_n, (start_n - left) // BLOCK_N, row, q, high, low, k_desc, layouts,
                                   head, problem, FLAGS, TOP, ENTROPY, stage != 1, PRECISION, BLOCK_M,
                                   BLOCK_N)  # fmt: skip
    first, second, dropped, entropy = state
    line = (flat * chunk.rows + row - chunk.start).to(tl.int64)
    inside = row < tl.minimum(chunk.start + chunk.rows, problem.queries)
    if ENTROPY:
        tl.store(entropy_ptr + line * TOP.segments + segment, tl.sum(entropy, 1) * LN2, mask=inside)
    dropped = tl.max(dropped, 1)
    SLOTS: tl.constexpr = TOP.slots  # Triton 3.6 takes no field of a constexpr in a shape
    slot = tl.arange(0, SLOTS)[None, :]
    tiles = tl.cdiv(problem.keys, BLOCK_N) if TOP.unit == 1 else 1 << TOP.tag_bits
    state = (first, second, tl.full([BLOCK_M, SLOTS], 2 * HIDDEN, tl.float32), tl.zeros([BLOCK_M, SLOTS], tl.int32))
    smallest, unsure = tl.full([BLOCK_M], -HIDDEN, tl.float32), tl.zeros([BLOCK_M], tl.int1)
    for n in range(TOP.k):
        best = tl.max(state[0], 1)
        if TOP.unit == 1:
            unsure = unsure | ((best >= _bound(smallest, TOP.tag_bits)) & (best > HIDING))
        smallest = best
        state = _move_best(state, n, left, tiles, TOP, BLOCK_N)
    if TOP.unit == 1:
        values, keys = state[2], state[3]
        at = (flat * problem.queries + row).to(tl.int64)[:, None] * TOP.k + slot
        some = inside[:, None] & (slot < TOP.k)
        middle = _tag(values, 1 << TOP.tag_bits - 1, TOP.tag_bits)
        weights = tl.where((high == high)[:, None], tl.exp2(middle), high[:, None])  # NaN propagates
        tl.store(buffers.weights + at, weights, mask=some)
        tl.store(buffers.indices + at, tl.where(values > HIDING, keys, -1).to(tl.int64), mask=some)
        bound = _bound(smallest, TOP.tag_bits)
        near = inside & (tl.max(state[0], 1) >= bound) & (smallest > HIDING)
        other = tl.full([BLOCK_M], -2, tl.int32)
        if tl.max(near.to(tl.int32), 0) > 0:
            first, second, _, key = _take_best(state[0], state[1], left, tiles, TOP, BLOCK_N)
            other = tl.where(near, tl.where(tl.max(first, 1) >= bound, -1, key), other)
        still_open = inside & (unsure | near | (dropped >= bound))
        turn = tl.atomic_add(buffers.open_rows + tl.zeros_like(row), 1, mask=still_open)
        entry = tl.where(unsure | near, -1 - line, line).to(tl.int32)
        tl.store(buffers.open_rows + 1 + turn, entry, mask=still_open)
        tl.store(buffers.dropped + turn, dropped, mask=still_open)
        turn = turn.to(tl.int64)
        tl.store(buffers.keys + turn * (2 * TOP.slots) + TOP.slots, other, mask=still_open)
        turn, some = turn[:, None], still_open[:, None] & (slot < TOP.k)
        tl.store(buffers.logs + turn * TOP.k + slot, middle, mask=some)
        tl.store(buffers.keys + turn * (2 * TOP.slots) + slot, tl.where(values > HIDING, keys, -1), mask=some)
    else:
        tl.store(buffers.dropped + line * TOP.segments + segment, dropped, mask=inside)
        n, bound = TOP.k, _bound(_bound(smallest, TOP.tag_bits), TOP.tag_bits)  # what is lower cannot count any more
        while (n < TOP.pairs) & (tl.max((tl.max(state[0], 1) >= bound).to(tl.int32), 0) > 0):
            state = _move_best(state, n, left, tiles, TOP, BLOCK_N)
            n += 1
        at = line[:, None] * (TOP.segments * TOP.slots) + segment * TOP.slots + slot
        tl.store(buffers.candidates + at, state[2], mask=inside[:, None] & (slot >= 0))
        tl.store(buffers.keys + at, state[3], mask=inside[:, None] & (slot >= 0))


# Settling


@triton.jit
def top_settle(
    tensors, buffers, norm, problem, chunk,
    FLAGS: tl.constexpr, TOP: tl.constexpr, WIDTH: tl.constexpr, STEP: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """The TOP.k largest weights of each row and their keys: the best of the TOP.room best pairs.

    buffers.open_rows, the first number of which is its length, lists the rows that `top_search` has to look at, and
    `logs` are their log2 weights. The order of the list is arbitrary, and changes nothing.
    """
    flat = flat_head()
    line = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    row = chunk.start + line
    inside = (line < chunk.rows) & (row < problem.queries)
    line = flat * chunk.rows + line
    at = line.to(tl.int64)[:, None] * (TOP.segments * TOP.slots)
    slot = tl.arange(0, TOP.room)[None, :]
    if TOP.segments == 1:  # they are in order already
        value = tl.load(buffers.candidates + at + slot, mask=inside[:, None], other=2 * HIDDEN)
        key = tl.load(buffers.keys + at + slot, mask=inside[:, None], other=0)
        rest = tl.load(buffers.candidates + line.to(tl.int64) * TOP.slots + TOP.room, mask=inside, other=2 * HIDDEN)
    else:
        each = tl.arange(0, TOP.segments * TOP.slots)[None, :]
        left = tl.load(buffers.candidates + at + each, mask=inside[:, None], other=2 * HIDDEN)
        keys = tl.load(buffers.keys + at + each, mask=inside[:, None], other=0)
        ROOM: tl.constexpr = TOP.room
        value, key = tl.full([ROWS, ROOM], 2 * HIDDEN, tl.float32), tl.zeros([ROWS, ROOM], tl.int32)
        for n in range(ROOM):
            best = tl.max(left, 1)
            place = tl.max(tl.where(left >= best[:, None], each, 0), 1)
            chosen = each == place[:, None]
            value = tl.where(slot == n, best[:, None], value)
            key = tl.where(slot == n, tl.sum(tl.where(chosen, keys, 0), 1)[:, None], key)
            left = tl.where(chosen, 4 * HIDDEN, left)
        rest = tl.max(left, 1)
    segment = buffers.dropped + line.to(tl.int64)[:, None] * TOP.segments + tl.arange(0, TOP.segments)[None, :]
    rest = tl.maximum(rest, tl.max(tl.load(segment, mask=inside[:, None], other=2 * HIDDEN), 1))
    value = tl.reshape(tl.join(value, value), [ROWS, 2 * TOP.room])
    key = tl.reshape(tl.join(key, key + 1), [ROWS, 2 * TOP.room])
    wanted = (value > HIDING) & (key < problem.keys)
    log2 = weigh_keys(row, key, wanted, flat, tensors, norm, problem, FLAGS, WIDTH, STEP)
    # A large product has fewer digits than a tag leaves. Then the tagged weight is right: it was computed from the same
    # products as the normaliser.
    pair = tl.max(tl.reshape(log2, [ROWS, TOP.room, 2]), 2)
    pair = tl.reshape(tl.join(pair, pair), [ROWS, 2 * TOP.room])
    log2 += tl.where(wanted, _clamp_to_tagged(pair, value, TOP.tag_bits) - pair, 0.0)
    # One after the other: threads that hold the same weight may differ in its last bit, where a product was fused with
    # an addition, so comparing all with all could rank each of two keys above the other.
    place, left, rank = tl.arange(0, 2 * TOP.room)[None, :], log2, tl.full([ROWS, 2 * TOP.room], TOP.k, tl.int32)
    for n in range(TOP.k):
        chosen = place == tl.argmax(left, 1)[:, None]
        rank, left = tl.where(chosen, n, rank), tl.where(chosen, 4 * HIDDEN, left)
    at = (flat * problem.queries + row).to(tl.int64)[:, None] * TOP.k + rank
    some = inside[:, None] & (rank < TOP.k)
    high, _ = load_norm(norm, flat * problem.queries, row, problem, FLAGS, True)
    weights = tl.where((high == high)[:, None], tl.exp2(log2), high[:, None])  # NaN propagates
    tl.store(buffers.weights + at, weights, mask=some)
    tl.store(buffers.indices + at, tl.where(log2 > HIDING, key, -1).to(tl.int64), mask=some)
    bound = _bound(tl.min(tl.where(rank < TOP.k, log2, -HIDDEN), 1), TOP.tag_bits)
    still_open = inside & (rest >= bound)
    turn = tl.atomic_add(buffers.open_rows + tl.zeros_like(line), 1, mask=still_open)
    tl.store(buffers.open_rows + 1 + turn, line, mask=still_open)
    at = buffers.logs + turn.to(tl.int64)[:, None] * TOP.k + rank
    tl.store(at, log2, mask=still_open[:, None] & (rank < TOP.k))


# The search: one open row at a time. `state` is (the best log2 weights so far, their keys)


class OpenRow(NamedTuple):
    """A row that is searched: its index, its head, and what its single products differ by from those of tiles."""

    index: Any
    flat: Any
    shift: Any


@triton.jit
def _rank(values):
    """The rank of each, the largest first; of equal ones, the first."""
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
    """Keep those keys that are better than the present ones."""
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
    log2 = weigh_keys(row.index, key[None, :], wanted[None, :], row.flat, tensors, norm, problem, FLAGS, WIDTH, STEP)
    log2 = tl.reshape(log2, [key.shape[0]])
    return log2 + row.shift if FLAGS.split_lse else log2


@triton.jit
def _look(
    state, key, wanted, row, tensors, norm, problem, FLAGS: tl.constexpr, WIDTH: tl.constexpr, STEP: tl.constexpr
):
    """Weigh some keys of one row, and keep those that are better than the present ones."""
    wanted = wanted & (key < problem.keys) & (tl.max((key[:, None] == state[1][None, :]).to(tl.int32), 1) == 0)
    if tl.max(wanted.to(tl.int32), 0) > 0:
        state = _insert(state, _weigh(key, wanted, row, tensors, norm, problem, FLAGS, WIDTH, STEP), key)
    return state


@triton.jit
def _repeated(classes):
    """Those classes that occur twice, at one of their places; -1 at all others."""
    each = tl.arange(0, classes.shape[0])
    again = (classes[:, None] == classes[None, :]) & (each[:, None] > each[None, :])
    return tl.where(tl.sum(again.to(tl.int32), 1) > 0, classes, -1)


@triton.jit
def _look_at_classes(
    state, classes, left, right, row, tensors, norm, problem,
    FLAGS: tl.constexpr, WIDTH: tl.constexpr, STEP: tl.constexpr, MANY: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Look at all keys of those classes that occur in `classes` twice: a third of theirs may count too."""
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

    Usually a class dropped one of its keys, and tags tell well enough where that one ranks: then only the classes that
    two of the best belong to are weighed. Where tags do not, everything that may count is weighed anew.
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
        near = log2[:, None] >= _bound(best, TOP.tag_bits)[None, :]
        near = near & (best[None, :] >= _bound(log2, TOP.tag_bits)[:, None])
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
        state = tl.where(was_known, _clamp_to_tagged(log2, tagged, TOP.tag_bits), log2), keys
    return state


@triton.jit
def _search_segment(
    state, line, segment, row, tensors, buffers, norm, problem,
    FLAGS: tl.constexpr, TOP: tl.constexpr, WIDTH: tl.constexpr, STEP: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Look at what else may count in a segment of a row: all of it, or pairs handed on and classes that dropped one."""
    slot, both = tl.arange(0, TOP.slots), tl.arange(0, 2 * TOP.slots)
    bound = _bound(tl.min(state[0], 0), TOP.tag_bits)
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
    """Look at what else may be in the top k of the open rows: other pairs, classes and segments that dropped some.

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
            log2 = weigh_keys(row.index, tl.maximum(known, 0)[None, :], (known >= 0)[None, :], flat, tensors, norm,
                              problem, FLAGS, WIDTH, STEP)  # fmt: skip
            log2 = tl.reshape(log2, [TOP.room])
            shift = tl.sum(tl.where((slot == lead) & (known >= 0), best - log2, 0.0), 0)
            row = OpenRow(row.index, flat, shift)
        state = (best, known)
        if TOP.unit == 1:
            dropped = tl.load(buffers.dropped + turn) >= _bound(tl.min(best, 0), TOP.tag_bits)
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
