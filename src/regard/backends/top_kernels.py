"""The Triton kernels that end `top`: few keys of each row are left, and each is weighed by itself.

`rows` of kernels.py keeps, for each row and each class of keys (those with the same remainder by a block's width), the
two greatest weights. `settle` takes the greatest of them all, weighs them anew and keeps the best. Where a third of
some class may count too, `search` goes through the classes whose second one counted, and where very many are alike
through all keys, for those rows alone. Nothing of it waits for the CPU.
"""

# mypy: ignore-errors
from __future__ import annotations

import triton
import triton.language as tl

from regard.backends.kernels import HIDDEN, HIDING, _band, _log, _norm, _place, _tile


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
    norm, rest = _norm(NORM, REST, flat * size[0], row, size[0], FLAGS)
    return tl.where(wanted, _log(logits, norm[:, None], rest[:, None], FLAGS), 2 * HIDDEN)


@triton.jit
def settle(
    Q, K, NORM, REST, FIRST, THIRD, KEYS, BEST, WHERE, LIST, strides, low, high, size, shape, factor, cap, mask, above,
    lines,
    FLAGS: tl.constexpr, TOP: tl.constexpr, ROOM: tl.constexpr, BITS: tl.constexpr, WIDTH: tl.constexpr,
    STEP: tl.constexpr, ROWS: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """The TOP greatest weights of each row, as log2, and their keys.

    LIST, the first number of which is its length, names the rows that `search` has to look at. Their order is any, and
    changes nothing.
    """
    flat = tl.program_id(1)
    line = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    row = above + line
    inside = (line < lines) & (row < size[0])
    here = flat * lines + line
    column, slot = tl.arange(0, 2 * BN)[None, :], tl.arange(0, ROOM)[None, :]
    kept = tl.load(FIRST + here.to(tl.int64)[:, None] * (2 * BN) + column, mask=inside[:, None], other=2 * HIDDEN)
    left = tl.where(column < BN, kept, 2 * HIDDEN)
    for _ in range(TOP - 1):  # alike ones go together: the bound can only be lower for it
        left = tl.where(left >= tl.max(left, 1)[:, None], 4 * HIDDEN, left)
    bound = tl.max(left, 1)
    bound = tl.maximum(bound - tl.abs(bound) * (2.0 ** (BITS - 22)), HIDING)  # marks change a number by half as much
    hit = (kept >= bound[:, None]) & inside[:, None]
    place = tl.cumsum(hit.to(tl.int32), 1) - 1
    found = (kept.to(tl.int32, bitcast=True) & ((1 << BITS) - 1)) * BN + column % BN
    spot = here.to(tl.int64)[:, None] * ROOM
    tl.store(KEYS + spot + place, 2 * found + (column >= BN), mask=hit & (place < ROOM))
    count = tl.sum(hit.to(tl.int32), 1)
    tl.debug_barrier()  # keys are read by other threads than wrote them
    wanted = slot < count[:, None]
    key = tl.load(KEYS + spot + slot, mask=wanted, other=0) // 2
    # Behind the last there is -1; -2 is first where so many are alike that there is too little room for them.
    over = (count > ROOM)[:, None] & (slot == 0)
    tl.store(KEYS + spot + slot, tl.where(over, -2, -1), mask=inside[:, None] & (over | (slot >= count[:, None])))
    found = _weigh(row, key, wanted, Q, K, NORM, REST, strides, low, high, size, shape, factor, cap, mask, flat, FLAGS,
                   WIDTH, STEP)  # fmt: skip
    out = (flat * size[0] + row).to(tl.int64) * TOP
    for n in range(TOP):
        chosen = slot == tl.argmax(found, 1)[:, None]
        tl.store(BEST + out + n, tl.max(found, 1), mask=inside)
        tl.store(WHERE + out + n, tl.sum(tl.where(chosen, key, 0), 1).to(tl.int64), mask=inside)
        found = tl.where(chosen, 4 * HIDDEN, found)
    more = inside & ((count > ROOM) | (tl.load(THIRD + here, mask=inside, other=2 * HIDDEN) >= bound))
    turn = tl.atomic_add(LIST + tl.zeros_like(here), 1, mask=more)
    tl.store(LIST + 1 + turn, here, mask=more)


@triton.jit
def search(
    Q, K, NORM, REST, KEYS, BEST, WHERE, LIST, strides, low, high, size, shape, factor, cap, mask, above, lines,
    FLAGS: tl.constexpr, TOP: tl.constexpr, ROOM: tl.constexpr, WIDTH: tl.constexpr, STEP: tl.constexpr,
    SLOTS: tl.constexpr, MANY: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """Put whatever else is in the classes with a second one, or in the whole row, into its TOP, MANY at a time."""
    slot, member = tl.arange(0, SLOTS), tl.arange(0, MANY)
    for turn in range(tl.program_id(0), tl.load(LIST), tl.num_programs(0)):
        here = tl.load(LIST + 1 + turn)
        flat, line = here // lines, here % lines
        row = above + line + tl.arange(0, 1)
        out = (flat * size[0] + above + line).to(tl.int64) * TOP
        best = tl.load(BEST + out + slot, mask=slot < TOP, other=-HIDDEN)  # places behind the last are never the least
        keys = tl.load(WHERE + out + slot, mask=slot < TOP, other=-1).to(tl.int32)
        for n in range(ROOM):
            marked = tl.load(KEYS + here.to(tl.int64) * ROOM + n)
            if (marked == -2) | ((marked >= 0) & (marked % 2 == 1)):
                first, apart = tl.maximum(marked, 0) // 2 % BN, tl.where(marked == -2, 1, BN)
                for at in range(first, size[1], MANY * apart):
                    key = at + member * apart
                    known = tl.max((key[:, None] == keys[None, :]).to(tl.int32), 1)
                    wanted = (key < size[1]) & (known == 0)
                    found = _weigh(row, key[None, :], wanted[None, :], Q, K, NORM, REST, strides, low, high, size,
                                   shape, factor, cap, mask, flat, FLAGS, WIDTH, STEP)  # fmt: skip
                    found = tl.reshape(found, [MANY])
                    while tl.max(found, 0) > tl.maximum(tl.min(best, 0), HIDING):
                        chosen, least = member == tl.argmax(found, 0), slot == tl.argmin(best, 0)
                        keys = tl.where(least, tl.sum(tl.where(chosen, key, 0), 0), keys)
                        best = tl.where(least, tl.max(found, 0), best)
                        found = tl.where(chosen, 4 * HIDDEN, found)
        best = tl.where(slot < TOP, best, 4 * HIDDEN)
        for n in range(TOP):
            chosen = slot == tl.argmax(best, 0)
            tl.store(BEST + out + n, tl.max(best, 0))
            tl.store(WHERE + out + n, tl.sum(tl.where(chosen, keys, 0), 0).to(tl.int64))
            best = tl.where(chosen, 8 * HIDDEN, best)
