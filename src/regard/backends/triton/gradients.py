"""Gradients of query, key and value through any result: kernels and their launches, on the same tiles as kernels.py.

Each masked score receives d_logit = p × (dL/dp - delta), where delta = Σ_j p dL/dp of its row (or 0). KIND says what
dL/dp is in a tile:

- "attend", weights @ value: d_out of the row · value of the key
- "product", weightsᵀ @ x: x of the row · d_out of the key, which each query head has separately
- "received", "entropy", "pool": see `_gradient_of_weights`
- "logsumexp": 0, and delta is minus the gradient of the row
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator, import-untyped"
from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from regard.backends.contract import (
    Attend,
    Backward,
    Entropy,
    Gradients,
    Pool,
    Received,
    Request,
    TransposedProduct,
    capturing,
)
from regard.backends.triton import tuning
from regard.backends.triton.kernels import (
    LN2,
    find_block,
    find_head,
    flat_head,
    key_bounds,
    last_first,
    load_block,
    load_norm,
    log2_weights,
    query_bounds,
    scaled_tanh,
    tile_logits,
)
from regard.backends.triton.problem import Layouts, Normaliser, Prepared, cdiv, describe, prepare
from regard.scores import Scores

# dL/dp where it is no product: what belongs to rows and what belongs to keys is loaded outside the loop over the other


@triton.jit
def _load_rows(row, head, upstream, problem, KIND: tl.constexpr):
    """ "entropy": the gradients of some rows; "pool": where the bins of these rows begin."""
    inside = row < problem.queries
    if KIND == "entropy":
        found = tl.load(upstream.grad + head.flat.to(tl.int64) * problem.queries + row, mask=inside, other=0.0)
    elif KIND == "pool":
        of_rows = tl.load(upstream.of_rows + tl.minimum(row, problem.queries - 1))
        line = head.flat.to(tl.int64) * upstream.bin_rows + of_rows
        found = line * upstream.bin_columns
    else:
        found = row  # not used
    return found


@triton.jit
def _load_keys(column, head, upstream, problem, KIND: tl.constexpr):
    """ "received": the gradients of some keys; "pool": their bins."""
    inside = column < problem.keys
    if KIND == "received":
        found = tl.load(upstream.grad + head.flat.to(tl.int64) * problem.keys + column, mask=inside, other=0.0)
    elif KIND == "pool":
        found = tl.load(upstream.of_keys + column, mask=inside, other=0)
    else:
        found = column  # not used
    return found


@triton.jit
def _gradient_of_weights(log2, row_part, key_part, upstream, KIND: tl.constexpr, SPAN: tl.constexpr):
    """dL/dp of a tile; `row_part` and `key_part` broadcast to it. SPAN: the bins of its rows if few, else 0."""
    if KIND == "received":
        found = tl.zeros_like(log2) + key_part
    elif KIND == "entropy":
        # Where a weight is 0 its logarithm does not matter, but times a large gradient it must not overflow.
        found = -(tl.maximum(log2, -1100.0) * LN2 + 1) * row_part
    elif KIND == "pool":
        if SPAN:  # a line of numbers for each of these bins is loaded sooner than a number for each weight
            found, first, last = tl.zeros_like(log2), tl.min(row_part), tl.max(row_part)
            for n in tl.static_range(SPAN):
                line = tl.minimum(first + n * upstream.bin_columns, last)
                found = tl.where(row_part == line, tl.load(upstream.grad + line + key_part), found)
        else:
            found = tl.load(upstream.grad + (row_part + key_part))
    else:
        found = tl.zeros_like(log2)
    return found


# row_dots: the row sums delta


@triton.jit
def _row_step(
    total, start_n, row, q, row_part, high, low, k_desc, v_desc, upstream, layouts, head, problem,
    FLAGS: tl.constexpr, KIND: tl.constexpr, SPAN: tl.constexpr, MASKED: tl.constexpr, BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):  # fmt: skip
    k = load_block(k_desc, layouts.k, head.batch, head.key_head, start_n)
    column = start_n + tl.arange(0, BLOCK_N)
    qk = tl.dot(q, k.T, input_precision=FLAGS.precision)
    logits = tile_logits(qk, row[:, None], column[None, :], head, problem, FLAGS, MASKED)
    log2 = log2_weights(logits, high[:, None], low[:, None], FLAGS)
    p = tl.exp2(log2)
    if KIND == "product":
        v = load_block(v_desc, layouts.v, head.batch, head.index, start_n)
        if MASKED and not FLAGS.full_blocks:  # rows beyond the end may hold NaN
            v = tl.where((column < problem.keys)[:, None], v, 0.0)
        total = tl.dot(p.to(v.dtype), v, total, input_precision=FLAGS.precision)
    else:
        key_part = _load_keys(column, head, upstream, problem, KIND)
        d_p = p * _gradient_of_weights(log2, row_part[:, None], key_part[None, :], upstream, KIND, SPAN)
        total += tl.sum(tl.reshape(d_p, [BLOCK_M, BLOCK_N // 8, 8]), 1)  # threads exchange no numbers in the loop
    return total


@triton.jit
def row_dots(
    q_desc, k_desc, v_desc, norm, upstream, out_ptr, problem, layouts,
    FLAGS: tl.constexpr, KIND: tl.constexpr, SPAN: tl.constexpr, WIDTH: tl.constexpr, BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK_V: tl.constexpr,
):  # fmt: skip
    """Σ_j p dL/dp of each row; "product": the sum of p × d_out, which is the gradient of x."""
    head, block, blocks = find_block(problem, FLAGS)
    start_m = last_first(block, blocks, FLAGS) * BLOCK_M
    row = start_m + tl.arange(0, BLOCK_M)
    base = head.flat * problem.queries
    high, low = load_norm(norm, head, row, problem, FLAGS, True)
    row_part = _load_rows(row, head, upstream, problem, KIND)
    q = load_block(q_desc, layouts.q, head.batch, head.index, start_m)
    bounds = key_bounds(start_m, head, problem, BLOCK_M, BLOCK_N, FLAGS)
    total = tl.zeros([BLOCK_M, BLOCK_V if KIND == "product" else 8], tl.float32)
    for stage in tl.static_range(3):
        if FLAGS.stages[stage]:
            for start_n in range(bounds[stage], bounds[stage + 1], BLOCK_N):
                total = _row_step(total, start_n, row, q, row_part, high, low, k_desc, v_desc, upstream, layouts, head,
                                  problem, FLAGS, KIND, SPAN, stage != 1, BLOCK_M, BLOCK_N)  # fmt: skip
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
    d_q, start_n, row, q, d_out, row_part, delta, high, low, k_desc, v_desc, upstream, layouts, head, problem,
    FLAGS: tl.constexpr, KIND: tl.constexpr, SPAN: tl.constexpr, MASKED: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    k = load_block(k_desc, layouts.k, head.batch, head.key_head, start_n)
    column = start_n + tl.arange(0, BLOCK_N)
    inside = (column < problem.keys)[:, None]
    if MASKED and not FLAGS.full_blocks:  # rows beyond the end may hold NaN
        k = tl.where(inside, k, 0.0)
    qk = tl.dot(q, k.T, input_precision=FLAGS.precision)
    logits = tile_logits(qk, row[:, None], column[None, :], head, problem, FLAGS, MASKED)
    log2 = log2_weights(logits, high[:, None], low[:, None], FLAGS)
    if KIND == "attend" or KIND == "product":
        v_head = head.index if KIND == "product" else head.key_head
        v = load_block(v_desc, layouts.v, head.batch, v_head, start_n)
        if MASKED and not FLAGS.full_blocks:
            v = tl.where(inside, v, 0.0)
        d_p = tl.dot(d_out, v.T, input_precision=FLAGS.precision)
    else:
        key_part = _load_keys(column, head, upstream, problem, KIND)
        d_p = _gradient_of_weights(log2, row_part[:, None], key_part[None, :], upstream, KIND, SPAN)
    d_logit = tl.exp2(log2) * (d_p - delta[:, None])
    if FLAGS.softcap:
        tanh = scaled_tanh(qk * problem.factor)
        d_logit *= 1 - tanh * tanh
    return tl.dot(d_logit.to(k.dtype), k, d_q, input_precision=FLAGS.precision)


@triton.jit
def grad_query(
    q_desc, k_desc, v_desc, d_out_desc, norm, delta_ptr, upstream, d_q_ptr, problem, layouts, scale,
    FLAGS: tl.constexpr, KIND: tl.constexpr, SPAN: tl.constexpr, WIDTH: tl.constexpr, BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """The gradient of the queries."""
    head, block, blocks = find_block(problem, FLAGS)
    start_m = last_first(block, blocks, FLAGS) * BLOCK_M
    row = start_m + tl.arange(0, BLOCK_M)
    base = head.flat * problem.queries
    high, low = load_norm(norm, head, row, problem, FLAGS, True)
    delta = tl.load(delta_ptr + base + row, mask=row < problem.queries, other=0.0)
    row_part = _load_rows(row, head, upstream, problem, KIND)
    q = load_block(q_desc, layouts.q, head.batch, head.index, start_m)
    d_out = q  # not used
    if KIND == "attend" or KIND == "product":
        d_out = load_block(d_out_desc, layouts.d_out, head.batch, head.index, start_m)
    bounds = key_bounds(start_m, head, problem, BLOCK_M, BLOCK_N, FLAGS)
    d_q = tl.zeros([BLOCK_M, BLOCK_D], tl.float32)
    for stage in tl.static_range(3):
        if FLAGS.stages[stage]:
            for start_n in range(bounds[stage], bounds[stage + 1], BLOCK_N):
                d_q = _query_step(d_q, start_n, row, q, d_out, row_part, delta, high, low, k_desc, v_desc, upstream,
                                  layouts, head, problem, FLAGS, KIND, SPAN, stage != 1, BLOCK_N)  # fmt: skip
    if upstream.unit is not None:
        d_q *= tl.load(upstream.unit)
    column = tl.arange(0, BLOCK_D)[None, :]
    at = d_q_ptr + ((base + row).to(tl.int64)[:, None] * WIDTH + column)
    inside = (row < problem.queries)[:, None] & (column < WIDTH)
    tl.store(at, (d_q * scale).to(d_q_ptr.dtype.element_ty), mask=inside)


# grad_key: a block of keys stays while the queries of all heads that share it pass


@triton.jit
def _key_step(
    state, start_m, column, k, v, key_part, q_desc, d_out_desc, delta_ptr, norm, upstream, layouts, head, problem,
    FLAGS: tl.constexpr, KIND: tl.constexpr, SPAN: tl.constexpr, MASKED: tl.constexpr, BLOCK_M: tl.constexpr,
):  # fmt: skip
    d_k, d_v = state
    q = load_block(q_desc, layouts.q, head.batch, head.index, start_m)
    row = start_m + tl.arange(0, BLOCK_M)
    inside, base = row < problem.queries, head.flat * problem.queries
    d_out = q  # not used
    if KIND == "attend" or KIND == "product":
        d_out = load_block(d_out_desc, layouts.d_out, head.batch, head.index, start_m)
    if MASKED and not FLAGS.full_blocks:
        q, d_out = tl.where(inside[:, None], q, 0.0), tl.where(inside[:, None], d_out, 0.0)
    qk = tl.dot(k, q.T, input_precision=FLAGS.precision)
    logits = tile_logits(qk, row[None, :], column[:, None], head, problem, FLAGS, MASKED)
    high, low = load_norm(norm, head, row, problem, FLAGS, True)
    delta = tl.load(delta_ptr + base + row, mask=inside, other=0.0)
    log2 = log2_weights(logits, high[None, :], low[None, :], FLAGS)
    p = tl.exp2(log2)
    if KIND == "attend" or KIND == "product":
        if KIND == "attend":
            d_v = tl.dot(p.to(d_out.dtype), d_out, d_v, input_precision=FLAGS.precision)
        d_p = tl.dot(v, d_out.T, input_precision=FLAGS.precision)
    else:
        row_part = _load_rows(row, head, upstream, problem, KIND)
        d_p = _gradient_of_weights(log2, row_part[None, :], key_part[:, None], upstream, KIND, SPAN)
    d_logit = p * (d_p - delta[None, :])
    if FLAGS.softcap:
        tanh = scaled_tanh(qk * problem.factor)
        d_logit *= 1 - tanh * tanh
    return tl.dot(d_logit.to(q.dtype), q, d_k, input_precision=FLAGS.precision), d_v


@triton.jit
def grad_key(
    q_desc, k_desc, v_desc, d_out_desc, norm, delta_ptr, upstream, d_k_ptr, d_v_ptr, problem, layouts, scale,
    FLAGS: tl.constexpr, KIND: tl.constexpr, SPAN: tl.constexpr, GROUP: tl.constexpr, WIDTH: tl.constexpr,
    WIDTH_V: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_V: tl.constexpr,
):  # fmt: skip
    """The gradients of keys and, "attend", of values, summed over the heads that share them."""
    flat_key, start_n = flat_head(), tl.program_id(0) * BLOCK_N
    first = find_head(flat_key * GROUP, problem, FLAGS)
    column = start_n + tl.arange(0, BLOCK_N)
    inside = (column < problem.keys)[:, None]
    k = load_block(k_desc, layouts.k, first.batch, first.key_head, start_n)
    bounds = query_bounds(start_n, first, problem, BLOCK_M, BLOCK_N, FLAGS)
    v = k  # not used
    if KIND == "attend":
        v = load_block(v_desc, layouts.v, first.batch, first.key_head, start_n)
    state = (tl.zeros([BLOCK_N, BLOCK_D], tl.float32), tl.zeros([BLOCK_N, BLOCK_V], tl.float32))
    for member in range(GROUP):
        head = find_head(first.flat + member, problem, FLAGS)
        key_part = _load_keys(column, head, upstream, problem, KIND)
        own = v
        if KIND == "product":  # each query head has its own
            own = load_block(v_desc, layouts.v, head.batch, head.index, start_n)
        for stage in tl.static_range(3):
            if FLAGS.stages[stage]:
                for start_m in range(bounds[stage], bounds[stage + 1], BLOCK_M):
                    state = _key_step(state, start_m, column, k, own, key_part, q_desc, d_out_desc, delta_ptr, norm,
                                      upstream, layouts, head, problem, FLAGS, KIND, SPAN, stage != 1,
                                      BLOCK_M)  # fmt: skip
    d_k, d_v = state
    if upstream.unit is not None:
        d_k *= tl.load(upstream.unit)
    line = (flat_key * problem.keys + column).to(tl.int64)[:, None]
    part = tl.arange(0, BLOCK_D)[None, :]
    tl.store(d_k_ptr + line * WIDTH + part, (d_k * scale).to(d_k_ptr.dtype.element_ty), mask=inside & (part < WIDTH))
    if KIND == "attend":
        part = tl.arange(0, BLOCK_V)[None, :]
        at = d_v_ptr + line * WIDTH_V + part
        tl.store(at, d_v.to(d_v_ptr.dtype.element_ty), mask=inside & (part < WIDTH_V))


# The launches


class Upstream(NamedTuple):
    """Where kernels find dL/dp, where it is no product: see `_gradient_of_weights`."""

    grad: Tensor | None = None  # float32: of keys ("received"), of rows ("entropy"), or of bins ("pool")
    of_rows: Tensor | None = None  # the bin of each query
    of_keys: Tensor | None = None  # the bin of each key
    bin_rows: int | None = None  # how many bins there are
    bin_columns: int | None = None
    unit: Tensor | None = None  # the factor of the gradients of query and key: see `_normalised`


class _WeightGradient(NamedTuple):
    """dL/dp as kernels take it: left · right, or what `upstream` holds."""

    kind: str
    upstream: Upstream
    left: Tensor | None = None  # (batch, heads, queries, width)
    right: Tensor | None = None  # (batch, key heads or heads, keys, width)

    @property
    def widths(self) -> tuple[int, ...]:
        """The width of what is loaded besides queries and keys."""
        return () if self.right is None else (self.right.shape[-1],)


def backward(scores: Scores, task: Backward, norm: Normaliser) -> Gradients:
    """Gradients of query, key and operand, and the row sums Σ_j p dL/dp. Queries that see no key must hold no NaN."""
    request, grad, subtract = task.request, task.grad, task.subtract
    if isinstance(request, Attend):
        row_dot = (grad.to(task.lse.dtype) * task.result).sum(-1)  # in the wider dtype: halves would soon overflow
        weight_grad = _WeightGradient("attend", Upstream(), grad.to(request.operand.dtype), request.operand)
        return Gradients(*_through_softmax(scores, norm, weight_grad, row_dot if subtract else None), row_dot=row_dot)
    if isinstance(request, TransposedProduct):
        return _transposed_product(scores, request, norm, grad, subtract)
    kind, share, bins = _per_weight(scores, request, grad)
    share, unit = _normalised(scores, share.float(), 10)
    weight_grad = _WeightGradient(kind, bins._replace(grad=share.contiguous(), unit=unit))
    row_dot = -share if kind == "logsumexp" else _row_dots(scores, norm, weight_grad)
    gradients = _through_softmax(scores, norm, weight_grad, row_dot if subtract else None)
    return Gradients(*gradients, row_dot=row_dot if unit is None else row_dot * unit)


def _per_weight(scores: Scores, request: Request, grad: Tensor) -> tuple[str, Tensor, Upstream]:
    """The kind of a request without an operand, the gradient of each weight of a key, row or bin, and the bins."""
    _, _, queries, keys = scores.shape
    if isinstance(request, Received):
        return "received", grad / queries if request.reduce == "mean" else grad, Upstream()
    if isinstance(request, Pool):
        bins = _bins if capturing(grad) else _cached_bins  # what a graph computes has no numbers yet
        of_rows, heights = bins(queries, request.rows, grad.device)
        of_keys, widths = bins(keys, request.columns, grad.device)
        of_bins = Upstream(None, of_rows, of_keys, request.rows, request.columns)
        return "pool", grad / (heights[:, None] * widths), of_bins
    return "entropy" if isinstance(request, Entropy) else "logsumexp", grad, Upstream()


def _transposed_product(
    scores: Scores, request: TransposedProduct, norm: Normaliser, grad: Tensor, subtract: bool
) -> Gradients:
    dtype = scores.query.dtype
    (x, x_unit), (upstream, grad_unit) = _normalised(scores, request.operand, 0), _normalised(scores, grad, 4)
    unit = None if x_unit is None or grad_unit is None else x_unit * grad_unit
    weight_grad = _WeightGradient("product", Upstream(unit=unit), x.to(dtype), upstream.to(dtype))
    d_x = _row_dots(scores, norm, weight_grad)
    row_dot = (x * d_x).sum(-1)
    d_query, d_key, _ = _through_softmax(scores, norm, weight_grad, row_dot if subtract else None)
    if unit is not None and grad_unit is not None:
        d_x, row_dot = d_x * grad_unit, row_dot * unit
    return Gradients(d_query, d_key, d_x, row_dot=row_dot)


def _normalised(scores: Scores, tensor: Tensor, exponent: int) -> tuple[Tensor, Tensor | None]:
    """For float16, which holds no small numbers: a tensor times a power of two, so that its largest number is about
    2 ** exponent; and the factor of the results. Any other dtype has range enough."""
    if scores.query.dtype != torch.float16:
        return tensor, None
    tensor = tensor.float()
    largest = tensor.abs().nan_to_num(0.0, 0.0).amax()  # NaN and inf stay with their own heads
    shift = (torch.frexp(largest).exponent - exponent).clamp(-100, 100)
    return torch.ldexp(tensor, -shift), torch.ldexp(tensor.new_ones(()), shift)


def _bins(tokens: int, bins: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """The bin of each token, and the tokens of each bin; bin n begins at n * tokens // bins."""
    bin_of_token = (torch.arange(1, tokens + 1, device=device) * bins - 1) // tokens
    return bin_of_token.int(), (torch.arange(bins + 1, device=device) * tokens // bins).diff()


_cached_bins = lru_cache(maxsize=64)(_bins)


def _row_dots(scores: Scores, norm: Normaliser, weight_grad: _WeightGradient) -> Tensor:
    """Σ_j p dL/dp of each row; of a transposed product, weights @ grad."""
    (batch, heads, queries, _), widths = scores.shape, weight_grad.widths
    prepared, v, _, layouts, constants = _prepare(scores, weight_grad, "forward" if widths else "rows")
    row_dot = norm.high.new_empty(batch, heads, queries, *widths)
    row_dots[prepared.grid(cdiv(queries, prepared.blocks[0]), batch * heads)](
        prepared.q, prepared.k, v, norm, weight_grad.upstream, row_dot, prepared.keys_problem, layouts,
        FLAGS=prepared.along_keys(norm), WIDTH=max(widths, default=1), BLOCK_V=v.block_shape[1], **constants,
    )  # fmt: skip
    return row_dot


def _through_softmax(
    scores: Scores, norm: Normaliser, weight_grad: _WeightGradient, row_dot: Tensor | None
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Gradients of query, key and value, where each score receives weight × (dL/dp - row_dot of its row)."""
    (batch, heads, queries, keys), width = scores.shape, scores.query.shape[-1]
    delta = torch.zeros_like(norm.high) if row_dot is None else row_dot.float().contiguous()
    d_query, d_key = (torch.empty_like(t, memory_format=torch.contiguous_format) for t in (scores.query, scores.key))
    d_value = None
    if weight_grad.kind == "attend" and weight_grad.right is not None:
        d_value = torch.empty_like(weight_grad.right, memory_format=torch.contiguous_format)

    prepared, v, d_out, layouts, constants = _prepare(scores, weight_grad, "grad_query")
    grad_query[prepared.grid(cdiv(queries, prepared.blocks[0]), batch * heads)](
        prepared.q, prepared.k, v, d_out, norm, delta, weight_grad.upstream, d_query, prepared.keys_problem, layouts,
        scores.scale, FLAGS=prepared.along_keys(norm), WIDTH=width, BLOCK_D=prepared.q.block_shape[1], **constants,
    )  # fmt: skip

    prepared, v, d_out, layouts, constants = _prepare(scores, weight_grad, "grad_key", interleave=False)
    grad_key[prepared.grid(cdiv(keys, prepared.blocks[1]), batch * scores.key.shape[1])](
        prepared.q, prepared.k, v, d_out, norm, delta, weight_grad.upstream, d_key, d_value, prepared.queries_problem,
        layouts, scores.scale, FLAGS=prepared.along_queries(norm), GROUP=scores.group, WIDTH=width,
        WIDTH_V=max(weight_grad.widths, default=1), BLOCK_D=prepared.q.block_shape[1],
        BLOCK_V=1 if d_value is None else v.block_shape[1], **constants,
    )  # fmt: skip
    return d_query, d_key, d_value


def _prepare(
    scores: Scores, weight_grad: _WeightGradient, name: str, interleave: bool = True
) -> tuple[Prepared, Any, Any, Layouts, dict[str, Any]]:
    """The scores in the blocks of a kernel, the descriptors of right and left, all layouts, and the constants.

    Query and key stand in for left and right where there is no product.
    """
    right, left, bins = weight_grad.right, weight_grad.left, weight_grad.upstream.bin_rows
    block_m, block_n, options = tuning.blocks(name, scores, *weight_grad.widths)
    prepared = prepare(scores, block_m, block_n, interleave)
    right_desc, right_layout = (prepared.k, None) if right is None else describe(right, block_n)
    left_desc, left_layout = (prepared.q, None) if left is None else describe(left, block_m)
    layouts = prepared.layouts._replace(v=right_layout, d_out=left_layout)
    # How many bins of rows a block of queries may lie in; 0 where there are many, or none
    span = 0 if bins is None else min(cdiv(block_m - 1, scores.shape[2] // bins) + 1, bins)
    constants = {"KIND": weight_grad.kind, "SPAN": span if span <= 8 else 0, **options}
    return prepared, right_desc, left_desc, layouts, constants
