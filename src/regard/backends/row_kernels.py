"""The Triton kernel along the rows: their entropy. A block of queries stays in registers while all keys pass."""

# mypy: ignore-errors
from __future__ import annotations

import triton
import triton.language as tl

from regard.backends.kernels import BAND, HIDDEN, _band, _load, _log, _meet, _norm, _place, _spans, _tile, _turn


@triton.jit
def _rows_step(
    entropy, at, query, K, layout, ids, row, norm, rest, size, lo, hi, factor, cap, mask,
    FLAGS: tl.constexpr, MASKED: tl.constexpr, EXACT: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    batch, head, key_head = ids
    dots = _meet(query, K, layout, batch, key_head, at, BN, EXACT)
    column = at + tl.arange(0, BN)
    logits = _tile(dots, row[:, None], column[None, :], batch, head, size, lo, hi, factor, cap, mask, FLAGS, MASKED)
    log = _log(logits, norm[:, None], rest[:, None], FLAGS)
    return entropy - tl.sum(tl.reshape(tl.exp2(log) * log, [BM, BN // 8, 8]), 1)  # no threads exchange numbers


@triton.jit
def rows(
    Q, K, NORM, REST, ENT, low, high, size, shape, layouts, factor, cap, mask,
    FLAGS: tl.constexpr, EDGES: tl.constexpr, EXACT: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """The entropy of each row, in bits."""
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
    entropy, ids = tl.zeros([BM, 8], tl.float32), (batch, head, key_head)
    if EDGES & 1:
        for at in range(a, b, BN):
            entropy = _rows_step(entropy, at, query, K, layouts[1], ids, row, norm, rest, size, lo, hi, factor, cap,
                                 mask, FLAGS, True, EXACT, BM, BN)  # fmt: skip
    for at in range(b, c, BN):
        entropy = _rows_step(entropy, at, query, K, layouts[1], ids, row, norm, rest, size, lo, hi, factor, cap, mask,
                             FLAGS, False, EXACT, BM, BN)  # fmt: skip
    if EDGES & 2:
        for at in range(c, d, BN):
            entropy = _rows_step(entropy, at, query, K, layouts[1], ids, row, norm, rest, size, lo, hi, factor, cap,
                                 mask, FLAGS, True, EXACT, BM, BN)  # fmt: skip
    tl.store(ENT + flat * size[0] + row, tl.sum(entropy, 1), mask=row < size[0])
