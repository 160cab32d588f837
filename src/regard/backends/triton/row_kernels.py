"""The Triton kernel along the rows: their entropy, and their greatest weight with its key.

A block of queries stays in registers while all keys pass. `top` of more than one key has kernels of its own.
"""

# mypy: ignore-errors
from __future__ import annotations

import triton
import triton.language as tl

from regard.backends.triton.kernels import (
    BAND,
    HIDDEN,
    HIDING,
    _band,
    _load,
    _log,
    _meet,
    _norm,
    _place,
    _spans,
    _tile,
    _turn,
)
from regard.backends.triton.top_kernels import _weigh


@triton.jit
def _rows_step(
    state, at, query, K, layout, ids, row, norm, rest, size, lo, hi, factor, cap, mask,
    FLAGS: tl.constexpr, ENTROPY: tl.constexpr, ALIKE: tl.constexpr, MASKED: tl.constexpr, EXACT: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    entropy, most, where = state
    batch, head, key_head = ids
    dots = _meet(query, K, layout, batch, key_head, at, BN, EXACT)
    column = at + tl.arange(0, BN)
    logits = _tile(dots, row[:, None], column[None, :], batch, head, size, lo, hi, factor, cap, mask, FLAGS, MASKED)
    log = _log(logits, norm[:, None], rest[:, None], FLAGS)
    if ENTROPY:
        entropy -= tl.sum(tl.reshape(tl.exp2(log) * log, [BM, BN // 8, 8]), 1)  # no threads exchange numbers
    if ALIKE:
        here = log if ALIKE == 1 else tl.max(tl.reshape(log, [BM, ALIKE, BN // ALIKE]), 1)  # nor here
        where = tl.where(here > most, at, where)
        most = tl.maximum(most, here)
    return entropy, most, where


@triton.jit
def rows(
    Q, K, NORM, REST, ENT, BEST, WHERE, QUERY, KEY, strides, low, high, size, shape, layouts, factor, cap, mask,
    FLAGS: tl.constexpr, ENTROPY: tl.constexpr, ALIKE: tl.constexpr, WIDTH: tl.constexpr, STEP: tl.constexpr,
    EDGES: tl.constexpr, EXACT: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """The entropy of each row, in bits; where ALIKE is not 0, its greatest weight and the key that has it.

    On the way, ALIKE keys of a tile share one maximum, and only its tile is kept: which of them it was is found at the
    end, where QUERY and KEY, the tensors behind Q and K, are read again for these few keys.
    """
    flat, block, blocks = _turn(shape)
    batch, head, key_head, block = _place(shape, flat, block, blocks - 1, BAND & FLAGS)
    start = block * BM
    row = start + tl.arange(0, BM)
    lo, hi = _band(low, high, batch, FLAGS)
    norm, rest = _norm(NORM, REST, flat * size[0], row, size[0], FLAGS, True)
    norm = tl.where(row < size[0], norm, HIDDEN)
    query = _load(Q, layouts[0], batch, head, start, BM)
    query = tl.where((row < size[0])[:, None], query, 0.0)  # now in registers, from where products are faster
    bottom = tl.minimum(start + BM, size[0]) - 1
    a, b, c, d = _spans(start + lo, bottom + lo, start + hi + 1, bottom + hi + 1, size[1], BN, FLAGS)
    apart: tl.constexpr = BN // ALIKE if ALIKE else 1
    none = tl.full([BM, apart], 2 * HIDDEN, tl.float32)
    state = (tl.zeros([BM, 8], tl.float32), none, tl.zeros([BM, apart], tl.int32))
    ids = (batch, head, key_head)
    if EDGES & 1:
        for at in range(a, b, BN):
            state = _rows_step(state, at, query, K, layouts[1], ids, row, norm, rest, size, lo, hi, factor, cap, mask,
                               FLAGS, ENTROPY, ALIKE, True, EXACT, BM, BN)  # fmt: skip
    for at in range(b, c, BN):
        state = _rows_step(state, at, query, K, layouts[1], ids, row, norm, rest, size, lo, hi, factor, cap, mask,
                           FLAGS, ENTROPY, ALIKE, False, EXACT, BM, BN)  # fmt: skip
    if EDGES & 2:
        for at in range(c, d, BN):
            state = _rows_step(state, at, query, K, layouts[1], ids, row, norm, rest, size, lo, hi, factor, cap, mask,
                               FLAGS, ENTROPY, ALIKE, True, EXACT, BM, BN)  # fmt: skip
    entropy, most, where = state
    here, inside = flat * size[0] + row, row < size[0]
    if ENTROPY:
        tl.store(ENT + here, tl.sum(entropy, 1), mask=inside)
    if ALIKE:
        best = tl.max(most, 1)
        seen = best > HIDING
        key = tl.min(tl.where(most >= best[:, None], where + tl.arange(0, apart)[None, :], size[1]), 1)
        if ALIKE > 1:
            first, greatest = key, tl.full([BM], 4 * HIDDEN, tl.float32)
            for n in tl.static_range(ALIKE):
                other = first + n * apart
                wanted = inside & seen & (other < size[1])
                log = _weigh(row, other[:, None], wanted[:, None], QUERY, KEY, NORM, REST, strides, low, high, size,
                             shape, factor, cap, mask, flat, FLAGS, WIDTH, STEP)  # fmt: skip
                log = tl.sum(log, 1)  # of one
                key = tl.where(log > greatest, other, key)
                greatest = tl.maximum(greatest, log)
        tl.store(BEST + here, tl.where(norm == norm, tl.exp2(best), norm), mask=inside)  # NaN stays NaN
        tl.store(WHERE + here, tl.where(seen, key, -1).to(tl.int64), mask=inside)
