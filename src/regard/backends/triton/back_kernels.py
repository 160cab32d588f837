"""The Triton kernels of the gradient of weights @ value, on the same tiles as kernels.py."""

# mypy: ignore-errors
from __future__ import annotations

import triton
import triton.language as tl

from regard.backends.triton.kernels import (
    BAND,
    CAP,
    WHOLE,
    _band,
    _flat,
    _load,
    _log,
    _norm,
    _place,
    _spans,
    _tanh,
    _tile,
    _turn,
)


@triton.jit
def _back_query_step(
    grad, at, query, d_out, delta, K, V, layouts, ids, row, norm, rest, size, lo, hi, factor, cap, mask,
    FLAGS: tl.constexpr, MASKED: tl.constexpr, BN: tl.constexpr, EXACT: tl.constexpr,
):  # fmt: skip
    batch, head, key_head = ids
    key, value = _load(K, layouts[1], batch, key_head, at, BN), _load(V, layouts[2], batch, key_head, at, BN)
    column = at + tl.arange(0, BN)
    if MASKED and (WHOLE & FLAGS) == 0:  # what lies beyond the end is another head's, or nobody's
        inside = (column < size[1])[:, None]
        key, value = tl.where(inside, key, 0.0), tl.where(inside, value, 0.0)
    dots = tl.dot(query, key.T, input_precision=EXACT)
    logits = _tile(dots, row[:, None], column[None, :], batch, head, size, lo, hi, factor, cap, mask, FLAGS, MASKED)
    weights = tl.exp2(_log(logits, norm[:, None], rest[:, None], FLAGS))
    push = weights * (tl.dot(d_out, value.T, input_precision=EXACT) - delta[:, None])
    if CAP & FLAGS:
        bent = _tanh(dots * factor)
        push *= 1 - bent * bent
    return tl.dot(push.to(key.dtype), key, grad, input_precision=EXACT)


@triton.jit
def back_query(
    Q, K, V, D_OUT, NORM, REST, DELTA, D_Q, low, high, size, shape, layouts, factor, cap, mask, scale,
    FLAGS: tl.constexpr, WIDTH: tl.constexpr, EDGES: tl.constexpr, EXACT: tl.constexpr, BM: tl.constexpr,
    BN: tl.constexpr, BD: tl.constexpr,
):  # fmt: skip
    """The gradient of the queries."""
    flat, block, blocks = _turn(shape)
    batch, head, key_head, block = _place(shape, flat, block, blocks - 1, BAND & FLAGS)
    start = block * BM
    row = start + tl.arange(0, BM)
    lo, hi = _band(low, high, batch, FLAGS)
    norm, rest = _norm(NORM, REST, flat * size[0], row, size[0], FLAGS, True)
    delta = tl.load(DELTA + flat * size[0] + row, mask=row < size[0], other=0.0)
    query = _load(Q, layouts[0], batch, head, start, BM)
    d_out = _load(D_OUT, layouts[3], batch, head, start, BM)
    bottom = tl.minimum(start + BM, size[0]) - 1
    a, b, c, d = _spans(start + lo, bottom + lo, start + hi + 1, bottom + hi + 1, size[1], BN, FLAGS)
    grad = tl.zeros([BM, BD], tl.float32)
    ids = (batch, head, key_head)
    if EDGES & 1:
        for at in range(a, b, BN):
            grad = _back_query_step(grad, at, query, d_out, delta, K, V, layouts, ids, row, norm, rest, size, lo, hi,
                                    factor, cap, mask, FLAGS, True, BN, EXACT)  # fmt: skip
    for at in range(b, c, BN):
        grad = _back_query_step(grad, at, query, d_out, delta, K, V, layouts, ids, row, norm, rest, size, lo, hi,
                                factor, cap, mask, FLAGS, False, BN, EXACT)  # fmt: skip
    if EDGES & 2:
        for at in range(c, d, BN):
            grad = _back_query_step(grad, at, query, d_out, delta, K, V, layouts, ids, row, norm, rest, size, lo, hi,
                                    factor, cap, mask, FLAGS, True, BN, EXACT)  # fmt: skip
    wide = tl.arange(0, BD)
    spot = (flat * size[0] + row).to(tl.int64)[:, None] * WIDTH + wide[None, :]
    tl.store(
        D_Q + spot, (grad * scale).to(D_Q.dtype.element_ty), mask=(row < size[0])[:, None] & (wide < WIDTH)[None, :]
    )


@triton.jit
def _back_key_step(
    state, at, key, value, Q, D_OUT, DELTA, layouts, ids, column, NORM, REST, base, size, lo, hi, factor, cap, mask,
    FLAGS: tl.constexpr, MASKED: tl.constexpr, BM: tl.constexpr, EXACT: tl.constexpr,
):  # fmt: skip
    d_key, d_value = state
    batch, head, _ = ids
    query, d_out = _load(Q, layouts[0], batch, head, at, BM), _load(D_OUT, layouts[3], batch, head, at, BM)
    row = at + tl.arange(0, BM)
    inside = row < size[0]
    if MASKED and (WHOLE & FLAGS) == 0:
        query, d_out = tl.where(inside[:, None], query, 0.0), tl.where(inside[:, None], d_out, 0.0)
    dots = tl.dot(key, query.T, input_precision=EXACT)
    logits = _tile(dots, row[None, :], column[:, None], batch, head, size, lo, hi, factor, cap, mask, FLAGS, MASKED)
    norm, rest = _norm(NORM, REST, base, row, size[0], FLAGS, True)
    delta = tl.load(DELTA + base + row, mask=inside, other=0.0)
    weights = tl.exp2(_log(logits, norm[None, :], rest[None, :], FLAGS))
    d_value = tl.dot(weights.to(d_out.dtype), d_out, d_value, input_precision=EXACT)
    push = weights * (tl.dot(value, d_out.T, input_precision=EXACT) - delta[None, :])
    if CAP & FLAGS:
        bent = _tanh(dots * factor)
        push *= 1 - bent * bent
    return tl.dot(push.to(query.dtype), query, d_key, input_precision=EXACT), d_value


@triton.jit
def back_key(
    Q, K, V, D_OUT, NORM, REST, DELTA, D_K, D_V, low, high, size, shape, layouts, factor, cap, mask, scale,
    FLAGS: tl.constexpr, GROUP: tl.constexpr, WIDTH: tl.constexpr, WIDTH_V: tl.constexpr, EDGES: tl.constexpr,
    EXACT: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BD: tl.constexpr, BV: tl.constexpr,
):  # fmt: skip
    """The gradients of keys and values, summed over the heads that share them."""
    flat, start = _flat(), tl.program_id(0) * BN
    key_heads = shape[0] // GROUP
    batch, key_head = flat // key_heads, flat % key_heads
    column = start + tl.arange(0, BN)
    lo, hi = _band(low, high, batch, FLAGS)
    inside = (column < size[1])[:, None]
    key, value = _load(K, layouts[1], batch, key_head, start, BN), _load(V, layouts[2], batch, key_head, start, BN)
    last = tl.minimum(start + BN, size[1]) - 1
    a, b, c, d = _spans(start - hi, last - hi, start - lo + 1, last - lo + 1, size[0], BM, FLAGS)
    state = (tl.zeros([BN, BD], tl.float32), tl.zeros([BN, BV], tl.float32))
    for member in range(GROUP):
        head = key_head * GROUP + member
        base = (batch * shape[0] + head) * size[0]
        ids = (batch, head, key_head)
        if EDGES & 1:
            for at in range(a, b, BM):
                state = _back_key_step(state, at, key, value, Q, D_OUT, DELTA, layouts, ids, column, NORM, REST, base,
                                       size, lo, hi, factor, cap, mask, FLAGS, True, BM, EXACT)  # fmt: skip
        for at in range(b, c, BM):
            state = _back_key_step(state, at, key, value, Q, D_OUT, DELTA, layouts, ids, column, NORM, REST, base, size,
                                   lo, hi, factor, cap, mask, FLAGS, False, BM, EXACT)  # fmt: skip
        if EDGES & 2:
            for at in range(c, d, BM):
                state = _back_key_step(state, at, key, value, Q, D_OUT, DELTA, layouts, ids, column, NORM, REST, base,
                                       size, lo, hi, factor, cap, mask, FLAGS, True, BM, EXACT)  # fmt: skip
    d_key, d_value = state
    line = (flat * size[1] + column).to(tl.int64)[:, None]
    wide, wide_v = tl.arange(0, BD)[None, :], tl.arange(0, BV)[None, :]
    tl.store(D_K + line * WIDTH + wide, (d_key * scale).to(D_K.dtype.element_ty), mask=inside & (wide < WIDTH))
    tl.store(D_V + line * WIDTH_V + wide_v, d_value.to(D_V.dtype.element_ty), mask=inside & (wide_v < WIDTH_V))
