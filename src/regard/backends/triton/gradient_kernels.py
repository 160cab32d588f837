"""The Triton kernels of the gradient of weights @ value, on the same tiles as kernels.py.

Each masked score receives d_logit = p × (dL/dp - delta), where delta = Σ_j p dL/dp of its row (or 0).
"""

# mypy: ignore-errors
from __future__ import annotations

import triton
import triton.language as tl

from regard.backends.triton.kernels import (
    Head,
    band_of,
    find_head,
    flat_head,
    key_bounds,
    last_first,
    load_block,
    load_norm,
    log2_weights,
    program_block,
    query_bounds,
    scaled_tanh,
    tile_logits,
)


@triton.jit
def _query_step(
    d_q, start_n, row, q, d_out, delta, high, low, k_desc, v_desc, layouts, head, problem,
    FLAGS: tl.constexpr, MASKED: tl.constexpr, PRECISION: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    k = load_block(k_desc, layouts.k, head.batch, head.key_head, start_n)
    v = load_block(v_desc, layouts.v, head.batch, head.key_head, start_n)
    column = start_n + tl.arange(0, BLOCK_N)
    if MASKED and not FLAGS.full_blocks:  # rows beyond the end may hold NaN
        inside = (column < problem.keys)[:, None]
        k, v = tl.where(inside, k, 0.0), tl.where(inside, v, 0.0)
    qk = tl.dot(q, k.T, input_precision=PRECISION)
    logits = tile_logits(qk, row[:, None], column[None, :], head, problem, FLAGS, MASKED)
    p = tl.exp2(log2_weights(logits, high[:, None], low[:, None], FLAGS))
    d_logit = p * (tl.dot(d_out, v.T, input_precision=PRECISION) - delta[:, None])
    if FLAGS.softcap:
        tanh = scaled_tanh(qk * problem.factor)
        d_logit *= 1 - tanh * tanh
    return tl.dot(d_logit.to(k.dtype), k, d_q, input_precision=PRECISION)


@triton.jit
def grad_query(
    q_desc, k_desc, v_desc, d_out_desc, norm, delta_ptr, d_q_ptr, problem, layouts, scale,
    FLAGS: tl.constexpr, WIDTH: tl.constexpr, PRECISION: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """The gradient of the queries."""
    flat, block, blocks = program_block(problem)
    head = find_head(flat, problem, FLAGS)
    start_m = last_first(block, blocks, FLAGS) * BLOCK_M
    row = start_m + tl.arange(0, BLOCK_M)
    base = flat * problem.queries
    high, low = load_norm(norm, base, row, problem, FLAGS, True)
    delta = tl.load(delta_ptr + base + row, mask=row < problem.queries, other=0.0)
    q = load_block(q_desc, layouts.q, head.batch, head.index, start_m)
    d_out = load_block(d_out_desc, layouts.d_out, head.batch, head.index, start_m)
    bounds = key_bounds(start_m, head, problem, BLOCK_M, BLOCK_N, FLAGS)
    d_q = tl.zeros([BLOCK_M, BLOCK_D], tl.float32)
    for stage in tl.static_range(3):
        if FLAGS.stages[stage]:
            for start_n in range(bounds[stage], bounds[stage + 1], BLOCK_N):
                d_q = _query_step(d_q, start_n, row, q, d_out, delta, high, low, k_desc, v_desc, layouts, head,
                                  problem, FLAGS, stage != 1, PRECISION, BLOCK_N)  # fmt: skip
    column = tl.arange(0, BLOCK_D)[None, :]
    at = d_q_ptr + ((base + row).to(tl.int64)[:, None] * WIDTH + column)
    inside = (row < problem.queries)[:, None] & (column < WIDTH)
    tl.store(at, (d_q * scale).to(d_q_ptr.dtype.element_ty), mask=inside)


@triton.jit
def _key_step(
    state, start_m, column, k, v, base, q_desc, d_out_desc, delta_ptr, norm, layouts, head, problem,
    FLAGS: tl.constexpr, MASKED: tl.constexpr, PRECISION: tl.constexpr, BLOCK_M: tl.constexpr,
):  # fmt: skip
    d_k, d_v = state
    q = load_block(q_desc, layouts.q, head.batch, head.index, start_m)
    d_out = load_block(d_out_desc, layouts.d_out, head.batch, head.index, start_m)
    row = start_m + tl.arange(0, BLOCK_M)
    inside = row < problem.queries
    if MASKED and not FLAGS.full_blocks:
        q, d_out = tl.where(inside[:, None], q, 0.0), tl.where(inside[:, None], d_out, 0.0)
    qk = tl.dot(k, q.T, input_precision=PRECISION)
    logits = tile_logits(qk, row[None, :], column[:, None], head, problem, FLAGS, MASKED)
    high, low = load_norm(norm, base, row, problem, FLAGS, True)
    delta = tl.load(delta_ptr + base + row, mask=inside, other=0.0)
    p = tl.exp2(log2_weights(logits, high[None, :], low[None, :], FLAGS))
    d_v = tl.dot(p.to(d_out.dtype), d_out, d_v, input_precision=PRECISION)
    d_logit = p * (tl.dot(v, d_out.T, input_precision=PRECISION) - delta[None, :])
    if FLAGS.softcap:
        tanh = scaled_tanh(qk * problem.factor)
        d_logit *= 1 - tanh * tanh
    return tl.dot(d_logit.to(q.dtype), q, d_k, input_precision=PRECISION), d_v


@triton.jit
def grad_key(
    q_desc, k_desc, v_desc, d_out_desc, norm, delta_ptr, d_k_ptr, d_v_ptr, problem, layouts, scale,
    FLAGS: tl.constexpr, GROUP: tl.constexpr, WIDTH: tl.constexpr, WIDTH_V: tl.constexpr, PRECISION: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_V: tl.constexpr,
):  # fmt: skip
    """The gradients of keys and values, summed over the heads that share them."""
    flat_key, start_n = flat_head(), tl.program_id(0) * BLOCK_N
    key_heads = problem.heads // GROUP
    batch, key_head = flat_key // key_heads, flat_key % key_heads
    band_low, band_high = band_of(batch, problem, FLAGS)
    first = Head(batch, key_head * GROUP, key_head, band_low, band_high)
    column = start_n + tl.arange(0, BLOCK_N)
    inside = (column < problem.keys)[:, None]
    k = load_block(k_desc, layouts.k, batch, key_head, start_n)
    v = load_block(v_desc, layouts.v, batch, key_head, start_n)
    bounds = query_bounds(start_n, first, problem, BLOCK_M, BLOCK_N, FLAGS)
    state = (tl.zeros([BLOCK_N, BLOCK_D], tl.float32), tl.zeros([BLOCK_N, BLOCK_V], tl.float32))
    for member in range(GROUP):
        head = Head(batch, key_head * GROUP + member, key_head, band_low, band_high)
        base = (batch * problem.heads + head.index) * problem.queries
        for stage in tl.static_range(3):
            if FLAGS.stages[stage]:
                for start_m in range(bounds[stage], bounds[stage + 1], BLOCK_M):
                    state = _key_step(state, start_m, column, k, v, base, q_desc, d_out_desc, delta_ptr, norm,
                                      layouts, head, problem, FLAGS, stage != 1, PRECISION, BLOCK_M)  # fmt: skip
    d_k, d_v = state
    line = (flat_key * problem.keys + column).to(tl.int64)[:, None]
    part, part_v = tl.arange(0, BLOCK_D)[None, :], tl.arange(0, BLOCK_V)[None, :]
    tl.store(d_k_ptr + line * WIDTH + part, (d_k * scale).to(d_k_ptr.dtype.element_ty), mask=inside & (part < WIDTH))
    tl.store(
        d_v_ptr + line * WIDTH_V + part_v, d_v.to(d_v_ptr.dtype.element_ty), mask=inside & (part_v < WIDTH_V)
    )  # fmt: skip
