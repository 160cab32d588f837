"""The Triton kernels of all gradients, on the same tiles as kernels.py.

Each masked score receives d_logit = p × (dL/dp - delta), where delta = Σ_j p dL/dp of its row (or 0). KIND says what
dL/dp is in a tile:

- "attend", weights @ value: d_out of the row · value of the key
- "product", weightsᵀ @ x: x of the row · d_out of the key, which each query head has its own of
- "received", "entropy", "pool": see `_weight_gradient`
- "logsumexp": 0, and delta is minus the gradient of the row
"""

# mypy: ignore-errors
from __future__ import annotations

import triton
import triton.language as tl

from regard.backends.triton.kernels import (
    LN2,
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

# dL/dp where it is no product: what belongs to rows and what belongs to keys is loaded outside the loop over the other


@triton.jit
def _of_rows(row, flat, pull, problem, KIND: tl.constexpr):
    """ "entropy": the gradients of some rows; "pool": where the bins of these rows begin."""
    inside = row < problem.queries
    if KIND == "entropy":
        found = tl.load(pull.grad + flat.to(tl.int64) * problem.queries + row, mask=inside, other=0.0)
    elif KIND == "pool":
        line = flat.to(tl.int64) * pull.bin_rows + tl.load(pull.of_rows + tl.minimum(row, problem.queries - 1))
        found = line * pull.bin_columns
    else:
        found = row  # not used
    return found


@triton.jit
def _of_keys(column, flat, pull, problem, KIND: tl.constexpr):
    """ "received": the gradients of some keys; "pool": their bins."""
    inside = column < problem.keys
    if KIND == "received":
        found = tl.load(pull.grad + flat.to(tl.int64) * problem.keys + column, mask=inside, other=0.0)
    elif KIND == "pool":
        found = tl.load(pull.of_keys + column, mask=inside, other=0)
    else:
        found = column  # not used
    return found


@triton.jit
def _weight_gradient(log2, of_row, of_key, pull, KIND: tl.constexpr, SPAN: tl.constexpr):
    """dL/dp of a tile; `of_row` and `of_key` broadcast to it. SPAN: the bins of its rows, if they are few; else 0."""
    if KIND == "received":
        found = tl.zeros_like(log2) + of_key
    elif KIND == "entropy":
        # Where a weight is 0 its logarithm does not matter, but times a large gradient it must not overflow.
        found = -(tl.maximum(log2, -1100.0) * LN2 + 1) * of_row
    elif KIND == "pool":
        if SPAN:  # a line of numbers for each of these bins is loaded sooner than a number for each weight
            found, first, last = tl.zeros_like(log2), tl.min(of_row), tl.max(of_row)
            for n in tl.static_range(SPAN):
                line = tl.minimum(first + n * pull.bin_columns, last)
                found = tl.where(of_row == line, tl.load(pull.grad + line + of_key), found)
        else:
            found = tl.load(pull.grad + (of_row + of_key))
    else:
        found = tl.zeros_like(log2)
    return found


# row_dots: the row sums delta


@triton.jit
def _row_step(
    total, start_n, row, q, of_row, high, low, flat, k_desc, v_desc, pull, layouts, head, problem,
    FLAGS: tl.constexpr, KIND: tl.constexpr, SPAN: tl.constexpr, MASKED: tl.constexpr, PRECISION: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    k = load_block(k_desc, layouts.k, head.batch, head.key_head, start_n)
    column = start_n + tl.arange(0, BLOCK_N)
    qk = tl.dot(q, k.T, input_precision=PRECISION)
    logits = tile_logits(qk, row[:, None], column[None, :], head, problem, FLAGS, MASKED)
    log2 = log2_weights(logits, high[:, None], low[:, None], FLAGS)
    p = tl.exp2(log2)
    if KIND == "product":
        v = load_block(v_desc, layouts.v, head.batch, head.index, start_n)
        if MASKED and not FLAGS.full_blocks:  # rows beyond the end may hold NaN
            v = tl.where((column < problem.keys)[:, None], v, 0.0)
        total = tl.dot(p.to(v.dtype), v, total, input_precision=PRECISION)
    else:
        of_key = _of_keys(column, flat, pull, problem, KIND)
        d_p = p * _weight_gradient(log2, of_row[:, None], of_key[None, :], pull, KIND, SPAN)
        total += tl.sum(tl.reshape(d_p, [BLOCK_M, BLOCK_N // 8, 8]), 1)  # threads exchange no numbers in the loop
    return total


@triton.jit
def row_dots(
    q_desc, k_desc, v_desc, norm, pull, out_ptr, problem, layouts,
    FLAGS: tl.constexpr, KIND: tl.constexpr, SPAN: tl.constexpr, WIDTH: tl.constexpr, PRECISION: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_V: tl.constexpr,
):  # fmt: skip
    """Σ_j p dL/dp of each row; "product": the sum of p × d_out, which is the gradient of x."""
    flat, block, blocks = program_block(problem)
    head = find_head(flat, problem, FLAGS)
    start_m = last_first(block, blocks, FLAGS) * BLOCK_M
    row = start_m + tl.arange(0, BLOCK_M)
    base = flat * problem.queries
    high, low = load_norm(norm, base, row, problem, FLAGS, True)
    of_row = _of_rows(row, flat, pull, problem, KIND)
    q = load_block(q_desc, layouts.q, head.batch, head.index, start_m)
    bounds = key_bounds(start_m, head, problem, BLOCK_M, BLOCK_N, FLAGS)
    total = tl.zeros([BLOCK_M, BLOCK_V if KIND == "product" else 8], tl.float32)
    for stage in tl.static_range(3):
        if FLAGS.stages[stage]:
            for start_n in range(bounds[stage], bounds[stage + 1], BLOCK_N):
                total = _row_step(total, start_n, row, q, of_row, high, low, flat, k_desc, v_desc, pull, layouts, head,
                                  problem, FLAGS, KIND, SPAN, stage != 1, PRECISION, BLOCK_M, BLOCK_N)  # fmt: skip
    inside = row < problem.queries
    if KIND == "product":
        column = tl.arange(0, BLOCK_V)[None, :]
        at = out_ptr + ((base + row).to(tl.int64)[:, None] * WIDTH + column)
        tl.store(at, total, mask=inside[:, None] & (column < WIDTH))
    else:
        tl.store(out_ptr + base + row, tl.sum(total, 1), mask=inside)


# grad_query: a block of queries stays in registers while all keys pass


@triton.jit
def _query_step(
    d_q, start_n, row, q, d_out, of_row, delta, high, low, flat, k_desc, v_desc, pull, layouts, head, problem,
    FLAGS: tl.constexpr, KIND: tl.constexpr, SPAN: tl.constexpr, MASKED: tl.constexpr, PRECISION: tl.constexpr,
    BLOCK_N: tl.constexpr,
):  # fmt: skip
    k = load_block(k_desc, layouts.k, head.batch, head.key_head, start_n)
    column = start_n + tl.arange(0, BLOCK_N)
    inside = (column < problem.keys)[:, None]
    if MASKED and not FLAGS.full_blocks:  # rows beyond the end may hold NaN
        k = tl.where(inside, k, 0.0)
    qk = tl.dot(q, k.T, input_precision=PRECISION)
    logits = tile_logits(qk, row[:, None], column[None, :], head, problem, FLAGS, MASKED)
    log2 = log2_weights(logits, high[:, None], low[:, None], FLAGS)
    if KIND == "attend" or KIND == "product":
        v_head = head.index if KIND == "product" else head.key_head
        v = load_block(v_desc, layouts.v, head.batch, v_head, start_n)
        if MASKED and not FLAGS.full_blocks:
            v = tl.where(inside, v, 0.0)
        d_p = tl.dot(d_out, v.T, input_precision=PRECISION)
    else:
        of_key = _of_keys(column, flat, pull, problem, KIND)
        d_p = _weight_gradient(log2, of_row[:, None], of_key[None, :], pull, KIND, SPAN)
    d_logit = tl.exp2(log2) * (d_p - delta[:, None])
    if FLAGS.softcap:
        tanh = scaled_tanh(qk * problem.factor)
        d_logit *= 1 - tanh * tanh
    return tl.dot(d_logit.to(k.dtype), k, d_q, input_precision=PRECISION)


@triton.jit
def grad_query(
    q_desc, k_desc, v_desc, d_out_desc, norm, delta_ptr, pull, d_q_ptr, problem, layouts, scale,
    FLAGS: tl.constexpr, KIND: tl.constexpr, SPAN: tl.constexpr, WIDTH: tl.constexpr, PRECISION: tl.constexpr,
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
    of_row = _of_rows(row, flat, pull, problem, KIND)
    q = load_block(q_desc, layouts.q, head.batch, head.index, start_m)
    d_out = q  # not used
    if KIND == "attend" or KIND == "product":
        d_out = load_block(d_out_desc, layouts.d_out, head.batch, head.index, start_m)
    bounds = key_bounds(start_m, head, problem, BLOCK_M, BLOCK_N, FLAGS)
    d_q = tl.zeros([BLOCK_M, BLOCK_D], tl.float32)
    for stage in tl.static_range(3):
        if FLAGS.stages[stage]:
            for start_n in range(bounds[stage], bounds[stage + 1], BLOCK_N):
                d_q = _query_step(d_q, start_n, row, q, d_out, of_row, delta, high, low, flat, k_desc, v_desc, pull,
                                  layouts, head, problem, FLAGS, KIND, SPAN, stage != 1, PRECISION,
                                  BLOCK_N)  # fmt: skip
    if pull.unit is not None:
        d_q *= tl.load(pull.unit)
    column = tl.arange(0, BLOCK_D)[None, :]
    at = d_q_ptr + ((base + row).to(tl.int64)[:, None] * WIDTH + column)
    inside = (row < problem.queries)[:, None] & (column < WIDTH)
    tl.store(at, (d_q * scale).to(d_q_ptr.dtype.element_ty), mask=inside)


# grad_key: a block of keys stays while the queries of all heads that share it pass


@triton.jit
def _key_step(
    state, start_m, column, k, v, of_key, flat, q_desc, d_out_desc, delta_ptr, norm, pull, layouts, head, problem,
    FLAGS: tl.constexpr, KIND: tl.constexpr, SPAN: tl.constexpr, MASKED: tl.constexpr, PRECISION: tl.constexpr,
    BLOCK_M: tl.constexpr,
):  # fmt: skip
    d_k, d_v = state
    q = load_block(q_desc, layouts.q, head.batch, head.index, start_m)
    row = start_m + tl.arange(0, BLOCK_M)
    inside, base = row < problem.queries, flat * problem.queries
    d_out = q  # not used
    if KIND == "attend" or KIND == "product":
        d_out = load_block(d_out_desc, layouts.d_out, head.batch, head.index, start_m)
    if MASKED and not FLAGS.full_blocks:
        q, d_out = tl.where(inside[:, None], q, 0.0), tl.where(inside[:, None], d_out, 0.0)
    qk = tl.dot(k, q.T, input_precision=PRECISION)
    logits = tile_logits(qk, row[None, :], column[:, None], head, problem, FLAGS, MASKED)
    high, low = load_norm(norm, base, row, problem, FLAGS, True)
    delta = tl.load(delta_ptr + base + row, mask=inside, other=0.0)
    log2 = log2_weights(logits, high[None, :], low[None, :], FLAGS)
    p = tl.exp2(log2)
    if KIND == "attend" or KIND == "product":
        if KIND == "attend":
            d_v = tl.dot(p.to(d_out.dtype), d_out, d_v, input_precision=PRECISION)
        d_p = tl.dot(v, d_out.T, input_precision=PRECISION)
    else:
        of_row = _of_rows(row, flat, pull, problem, KIND)
        d_p = _weight_gradient(log2, of_row[None, :], of_key[:, None], pull, KIND, SPAN)
    d_logit = p * (d_p - delta[None, :])
    if FLAGS.softcap:
        tanh = scaled_tanh(qk * problem.factor)
        d_logit *= 1 - tanh * tanh
    return tl.dot(d_logit.to(q.dtype), q, d_k, input_precision=PRECISION), d_v


@triton.jit
def grad_key(
    q_desc, k_desc, v_desc, d_out_desc, norm, delta_ptr, pull, d_k_ptr, d_v_ptr, problem, layouts, scale,
    FLAGS: tl.constexpr, KIND: tl.constexpr, SPAN: tl.constexpr, GROUP: tl.constexpr, WIDTH: tl.constexpr,
    WIDTH_V: tl.constexpr,
    PRECISION: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_V: tl.constexpr,
):  # fmt: skip
    """The gradients of keys and, "attend", of values, summed over the heads that share them."""
    flat_key, start_n = flat_head(), tl.program_id(0) * BLOCK_N
    key_heads = problem.heads // GROUP
    batch, key_head = flat_key // key_heads, flat_key % key_heads
    band_low, band_high = band_of(batch, problem, FLAGS)
    first = Head(batch, key_head * GROUP, key_head, band_low, band_high)
    column = start_n + tl.arange(0, BLOCK_N)
    inside = (column < problem.keys)[:, None]
    k = load_block(k_desc, layouts.k, batch, key_head, start_n)
    bounds = query_bounds(start_n, first, problem, BLOCK_M, BLOCK_N, FLAGS)
    v = k  # not used
    if KIND == "attend":
        v = load_block(v_desc, layouts.v, batch, key_head, start_n)
    state = (tl.zeros([BLOCK_N, BLOCK_D], tl.float32), tl.zeros([BLOCK_N, BLOCK_V], tl.float32))
    for member in range(GROUP):
        head = Head(batch, key_head * GROUP + member, key_head, band_low, band_high)
        flat = batch * problem.heads + head.index
        of_key = _of_keys(column, flat, pull, problem, KIND)
        own = v
        if KIND == "product":  # each query head has its own
            own = load_block(v_desc, layouts.v, batch, head.index, start_n)
        for stage in tl.static_range(3):
            if FLAGS.stages[stage]:
                for start_m in range(bounds[stage], bounds[stage + 1], BLOCK_M):
                    state = _key_step(state, start_m, column, k, own, of_key, flat, q_desc, d_out_desc, delta_ptr, norm,
                                      pull, layouts, head, problem, FLAGS, KIND, SPAN, stage != 1, PRECISION,
                                      BLOCK_M)  # fmt: skip
    d_k, d_v = state
    if pull.unit is not None:
        d_k *= tl.load(pull.unit)
    line = (flat_key * problem.keys + column).to(tl.int64)[:, None]
    part = tl.arange(0, BLOCK_D)[None, :]
    tl.store(d_k_ptr + line * WIDTH + part, (d_k * scale).to(d_k_ptr.dtype.element_ty), mask=inside & (part < WIDTH))
    if KIND == "attend":
        part = tl.arange(0, BLOCK_V)[None, :]
        at = d_v_ptr + line * WIDTH_V + part
        tl.store(at, d_v.to(d_v_ptr.dtype.element_ty), mask=inside & (part < WIDTH_V))
