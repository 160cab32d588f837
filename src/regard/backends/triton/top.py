"""Exact `top(k)` for k > 1 (k = 1: `rows` in passes.py). docs/how-exact-top-works.md has a worked example.

`top_pass` goes along the rows. Two neighbouring keys are a pair; pairs with the same remainder modulo the width of a
block are a class. Of each class a row keeps the two pairs with the largest weights, each tagged with its tile's number
(in the low bits of the mantissa), and the largest weight that it dropped: comparisons only, beside which the
exponentials of the entropy may run. `top_settle` weighs the largest few pairs anew and keeps the best keys. Where tags
leave something open, `top_search` (top_search.py) looks at everything else that may count, for those rows alone. Short
rows have few tiles, so tags may tell single keys (TOP.unit = 1): there `top_pass` finds the result in all rows but the
rows that it leaves to `top_search`. Nothing waits for the CPU.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator, import-untyped"
from __future__ import annotations

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from regard.backends.triton import tuning
from regard.backends.triton.kernels import (
    HIDDEN,
    HIDING,
    LN2,
    find_block,
    find_head,
    flat_head,
    key_bounds,
    last_first,
    load_block,
    load_norm,
    log2_weights,
    tile_logits,
    weigh_keys,
)
from regard.backends.triton.launch import Pass, PassResult
from regard.backends.triton.problem import (
    Chunk,
    Flags,
    Launch,
    Normaliser,
    Tensors,
    cdiv,
    head_grid,
    next_power,
    prepare,
    tensors,
)
from regard.backends.triton.top_search import clamp_to_tagged, lower_bound, set_tag, top_search
from regard.scores import Scores


@triton.jit
def _min_nan(a, b):
    """The smaller number; a tagged -inf is NaN, and propagates so that it never displaces a number."""
    return tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL)


# The pass


@triton.jit
def _pass_step(
    state, start_n, tile, row, q, high, low, k_desc, layouts, head, problem,
    FLAGS: tl.constexpr, TOP: tl.constexpr, ENTROPY: tl.constexpr, MASKED: tl.constexpr, BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):  # fmt: skip
    first, second, dropped, entropy = state
    k = load_block(k_desc, layouts.k, head.batch, head.key_head, start_n)
    qk = tl.dot(q, k.T, input_precision=FLAGS.precision)
    column = start_n + tl.arange(0, BLOCK_N)
    logits = tile_logits(qk, row[:, None], column[None, :], head, problem, FLAGS, MASKED)
    log2 = log2_weights(logits, high[:, None], low[:, None], FLAGS)
    if ENTROPY:
        entropy -= tl.sum(tl.reshape(tl.exp2(log2) * log2, [BLOCK_M, BLOCK_N // 8, 8]), 1)
    if TOP.unit == 2:
        best = set_tag(tl.max(tl.reshape(log2, [BLOCK_M, BLOCK_N // 2, 2]), 2), tile, TOP.tag_bits)
        other = second
    else:
        tag = tl.where(tl.arange(0, BLOCK_N)[None, :] < BLOCK_N // 2, tile, tile + tl.cdiv(problem.keys, BLOCK_N))
        halves = tl.reshape(set_tag(log2, tag, TOP.tag_bits), [BLOCK_M, 2, BLOCK_N // 2])
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
    FLAGS: tl.constexpr, TOP: tl.constexpr, ENTROPY: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
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
    head, block, blocks = find_block(problem, FLAGS)
    if (TOP.unit == 2) & (block == 0) & (head.flat == 0):
        tl.store(buffers.open_rows, 0)
    segment = block % TOP.segments
    start_m = chunk.start + last_first(block // TOP.segments, blocks // TOP.segments, FLAGS) * BLOCK_M
    row = start_m + tl.arange(0, BLOCK_M)
    high, low = load_norm(norm, head, row, problem, FLAGS, True)
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
                                   head, problem, FLAGS, TOP, ENTROPY, stage != 1, BLOCK_M, BLOCK_N)  # fmt: skip
    first, second, dropped, entropy = state
    line = (head.flat * chunk.rows + row - chunk.start).to(tl.int64)
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
            unsure = unsure | ((best >= lower_bound(smallest, TOP.tag_bits)) & (best > HIDING))
        smallest = best
        state = _move_best(state, n, left, tiles, TOP, BLOCK_N)
    if TOP.unit == 1:
        values, keys = state[2], state[3]
        at = (head.flat * problem.queries + row).to(tl.int64)[:, None] * TOP.k + slot
        some = inside[:, None] & (slot < TOP.k)
        middle = set_tag(values, 1 << TOP.tag_bits - 1, TOP.tag_bits)
        weights = tl.where((high == high)[:, None], tl.exp2(middle), high[:, None])  # NaN propagates
        tl.store(buffers.weights + at, weights, mask=some)
        tl.store(buffers.indices + at, tl.where(values > HIDING, keys, -1).to(tl.int64), mask=some)
        bound = lower_bound(smallest, TOP.tag_bits)
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
        # Pairs below this bound cannot count any more.
        n, bound = TOP.k, lower_bound(lower_bound(smallest, TOP.tag_bits), TOP.tag_bits)
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
    head = find_head(flat_head(), problem, FLAGS)
    line = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    row = chunk.start + line
    inside = (line < chunk.rows) & (row < problem.queries)
    line = head.flat * chunk.rows + line
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
    log2 = weigh_keys(row, key, wanted, head, tensors, norm, problem, FLAGS, WIDTH, STEP)
    # A large product has fewer digits than a tag leaves. Then the tagged weight is right: it was computed from the same
    # products as the normaliser.
    pair = tl.max(tl.reshape(log2, [ROWS, TOP.room, 2]), 2)
    pair = tl.reshape(tl.join(pair, pair), [ROWS, 2 * TOP.room])
    log2 += tl.where(wanted, clamp_to_tagged(pair, value, TOP.tag_bits) - pair, 0.0)
    # One after the other: threads that hold the same weight may differ in its last bit, where a product was fused with
    # an addition, so comparing all with all could rank each of two keys above the other.
    place, left, rank = tl.arange(0, 2 * TOP.room)[None, :], log2, tl.full([ROWS, 2 * TOP.room], TOP.k, tl.int32)
    for n in range(TOP.k):
        chosen = place == tl.argmax(left, 1)[:, None]
        rank, left = tl.where(chosen, n, rank), tl.where(chosen, 4 * HIDDEN, left)
    at = (head.flat * problem.queries + row).to(tl.int64)[:, None] * TOP.k + rank
    some = inside[:, None] & (rank < TOP.k)
    high, _ = load_norm(norm, head, row, problem, FLAGS, True)
    weights = tl.where((high == high)[:, None], tl.exp2(log2), high[:, None])  # NaN propagates
    tl.store(buffers.weights + at, weights, mask=some)
    tl.store(buffers.indices + at, tl.where(log2 > HIDING, key, -1).to(tl.int64), mask=some)
    bound = lower_bound(tl.min(tl.where(rank < TOP.k, log2, -HIDDEN), 1), TOP.tag_bits)
    still_open = inside & (rest >= bound)
    turn = tl.atomic_add(buffers.open_rows + tl.zeros_like(line), 1, mask=still_open)
    tl.store(buffers.open_rows + 1 + turn, line, mask=still_open)
    at = buffers.logs + turn.to(tl.int64)[:, None] * TOP.k + rank
    tl.store(at, log2, mask=still_open[:, None] & (rank < TOP.k))


# The launches


class TopShape(NamedTuple):
    """What the kernels are compiled for."""

    k: int
    unit: int  # keys that a tag names: 1 in short rows, 2 elsewhere
    tag_bits: int
    segments: int  # of as many tiles as there are tags
    slots: int  # pairs that a row and segment hands on, at most
    pairs: int  # how many of these are used
    room: int  # the smallest power of two that is at least k


class TopBuffers(NamedTuple):
    """The buffers between the kernels, and the results."""

    candidates: Tensor  # tagged log2 weights (`values` is a name of Triton's own tuples)
    keys: Tensor
    dropped: Tensor  # the largest weight that came third in its class
    open_rows: Tensor  # how many, then which
    logs: Tensor  # log2 weights of the open rows
    weights: Tensor
    indices: Tensor


def top(scores: Scores, norm: Normaliser, step: Pass) -> PassResult:
    """The k largest weights with their keys, and entropies in the same pass: exponentials run beside comparisons."""
    assert step.top is not None
    k, entropy, (batch, heads, queries, keys) = step.top.k, step.entropy is not None, scores.shape
    lanes, width = batch * heads, scores.query.shape[-1]
    short = scores.query.dtype != torch.float32 and keys <= tuning.SHORT_ROW
    name = "top_short" if short else "top" if scores.mask.only_bands else "top_masked"  # else registers would spill
    block_m, block_n, options = tuning.blocks(name, scores)
    prepared, room, tiles = prepare(scores, block_m, block_n), next_power(k), cdiv(keys, block_n)
    bits, (fewest, most) = (tiles - 1).bit_length(), tuning.TAG_BITS
    bits = bits + 1 if short else max(fewest, min(bits, most), bits - 4)  # not more than 16 segments
    pairs = room + 4  # some more, since tags may have changed their order
    slots, segments = room if short else next_power(pairs), next_power(cdiv(tiles, 1 << bits))
    shape = TopShape(k, 1 if short else 2, bits, segments, slots, pairs, room)
    row_bytes = 8 * segments * slots + 4 * k
    fitting = tuning.WORKSPACE // (row_bytes * lanes * block_m)  # blocks of rows
    chunk = max(min(fitting, cdiv(queries, block_m)), 1) * block_m
    logs, dropped = norm.high.new_empty(lanes * chunk, k), norm.high.new_empty(lanes * chunk, segments)
    values = logs if short else norm.high.new_empty(lanes * chunk, segments, slots)
    places = norm.high.new_empty(lanes * chunk, 2 * slots if short else segments * slots, dtype=torch.int32)
    open_rows = norm.high.new_empty(lanes * chunk + 1, dtype=torch.int32)
    weights = norm.high.new_empty(batch, heads, queries, k)
    indices = torch.empty_like(weights, dtype=torch.int64)
    buffers = TopBuffers(values, places, dropped, open_rows, logs, weights, indices)
    entropies = norm.high.new_empty(batch, heads, queries) if entropy else None
    direct = entropies is None or (segments == 1 and chunk == queries)
    parts = entropies if direct else torch.empty_like(dropped)

    def flags_and_tensors() -> tuple[Flags, Flags, Tensors]:
        flags = prepared.along_keys(norm)
        all_stages = flags._replace(stages=(True, True, True))  # without tiles: not compiled for each kind of stages
        return flags, all_stages, tensors(scores)

    flags, all_stages, singles = prepared.once(("top", norm.low is None), flags_and_tensors)
    settle_rows, settle_step, settle_warps = tuning.SETTLE
    search_step, search_warps, search_programs = tuning.search(scores)
    problem = prepared.keys_problem
    for start in range(0, queries, chunk):
        part = Chunk(start, min(chunk, cdiv(queries - start, block_m) * block_m))
        if short:
            open_rows[:1].zero_()
        single = (singles, buffers, norm, prepared.problem, part)
        launches = [Launch(
            top_pass, prepared.grid(part.rows // block_m * segments, lanes),
            (prepared.q, prepared.k, parts, buffers, norm, problem, prepared.layouts, part),
            {"FLAGS": flags, "TOP": shape, "ENTROPY": entropy, **options},
        )]  # fmt: skip
        if not short:
            launches.append(Launch(
                top_settle, (cdiv(part.rows, settle_rows), *head_grid(lanes)), single,
                {"FLAGS": all_stages, "TOP": shape, "WIDTH": width, "STEP": min(next_power(width), settle_step),
                 "ROWS": settle_rows, "num_warps": settle_warps},
            ))  # fmt: skip
        launches.append(Launch(
            top_search, (min(lanes * part.rows, search_programs),), single,
            {"FLAGS": all_stages, "TOP": shape, "WIDTH": width, "STEP": min(next_power(width), search_step),
             "BLOCK_N": block_n, "num_warps": search_warps, "enable_fp_fusion": False},
        ))  # fmt: skip
        prepared.launch_all(*launches)
        if entropies is not None and parts is not None and not direct:
            summed = parts[: lanes * part.rows].view(batch, heads, part.rows, segments).sum(-1)
            entropies[:, :, start : start + part.rows] = summed[:, :, : queries - start]
    return PassResult(entropy=entropies, top=(weights, indices))
