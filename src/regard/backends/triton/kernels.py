"""What all Triton kernels share: the logits of a tile, the loop over tiles and its bounds; and the simplest kernels.

`forward` is the online softmax; `dense_rows` stores a few rows; `rescale` counts sinks.

`tile_logits` turns products of queries and keys into base-2 logits: scaled, capped, biased, masked. A block of queries
stays in registers where a result belongs to rows (`forward`, `rows`, `top_pass`), a block of keys where it belongs to
columns (`columns`, `sums`), so no two programs ever add to the same result: the same bits every time.

Every pass over the tiles has three stages: tiles that the mask cuts, tiles that are full (no mask is read there), and
tiles that it cuts again. FLAGS.stages says which of them there are; tiles that a band, padding or documents hide are
never touched (`along_keys` in problem.py).
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator, import-untyped"
from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from regard.backends import contract
from regard.backends.triton import tuning
from regard.backends.triton.problem import AxisStrides, Normaliser, cdiv, describe, head_grid, next_power, prepare
from regard.scores import Scores

LOG2E, LN2 = tl.constexpr(1.4426950408889634), tl.constexpr(0.6931471805599453)
HIDING, HIDDEN = tl.constexpr(-1e29), tl.constexpr(-1e30)  # as in scores/masks.py and backends/contract.py


class Head(NamedTuple):
    """One head of one batch, and the band of keys that may be seen there."""

    flat: Any  # batch × heads + head
    batch: Any
    index: Any
    key_head: Any
    low: Any
    high: Any


# Which part of the work a program does


@triton.jit
def flat_head():
    """batch × heads + head of a program: one dimension of a grid is too small for very many."""
    return tl.program_id(2) * tl.num_programs(1) + tl.program_id(1)


@triton.jit
def find_head(flat, problem, FLAGS: tl.constexpr):
    """The head with this flat index."""
    batch, index = flat // problem.heads, flat % problem.heads
    low, high = problem.low, problem.high
    if FLAGS.batch_band:
        low, high = tl.load(problem.low + batch), tl.load(problem.high + batch)
    return Head(flat, batch, index, index // problem.group, low, high)


@triton.jit
def find_block(problem, FLAGS: tl.constexpr):
    """(head, block, blocks) of a program: first the first blocks of 2 ** interleave heads, then the second, …"""
    interleave = problem.interleave
    flat = (flat_head() << interleave) + (tl.program_id(0) & ((1 << interleave) - 1))
    return find_head(flat, problem, FLAGS), tl.program_id(0) >> interleave, tl.num_programs(0) >> interleave


@triton.jit
def last_first(block, blocks, FLAGS: tl.constexpr):
    """The block of queries to work on: with a band the last ones, which usually have most to do, come first."""
    return (blocks - 1 - block) if FLAGS.band else block


@triton.jit
def _within_limits(first, full_first, full_end, end, block, blocks, head, problem, FLAGS: tl.constexpr):
    """Bounds of a pass, narrowed to what padding and documents leave to this block."""
    if FLAGS.limits:
        at = problem.limits + (head.batch * blocks + tl.minimum(block, blocks - 1)) * 4
        first, full_first = tl.maximum(first, tl.load(at)), tl.maximum(full_first, tl.load(at + 1))
        full_end, end = tl.minimum(full_end, tl.load(at + 2)), tl.minimum(end, tl.load(at + 3))
    return first, full_first, full_end, end


@triton.jit
def _tile_bounds(first, full_first, full_end, end, tokens, BLOCK: tl.constexpr, FLAGS: tl.constexpr):
    """Where the three stages of a pass begin and end, in whole blocks."""
    first = tl.maximum(first, 0) // BLOCK * BLOCK
    end = tl.maximum(tl.minimum(end, tokens), first)
    if FLAGS.every_tile:
        return first, end, end, end
    full_first = tl.minimum(tl.cdiv(tl.maximum(full_first, 0), BLOCK) * BLOCK, end)
    full_first = tl.maximum(full_first, first)
    full_end = tl.maximum(tl.minimum(full_end, tokens) // BLOCK * BLOCK, full_first)
    return first, full_first, full_end, end


@triton.jit
def key_bounds(start_m, head, problem, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, FLAGS: tl.constexpr):
    """The bounds of a pass along the keys that the queries from start_m on see."""
    low, high, last = head.low, head.high, tl.minimum(start_m + BLOCK_M, problem.queries) - 1
    first, full_first, full_end, end = _within_limits(
        start_m + low, last + low, start_m + high + 1, last + high + 1, start_m // BLOCK_M,
        tl.cdiv(problem.queries, BLOCK_M), head, problem, FLAGS,
    )  # fmt: skip
    return _tile_bounds(first, full_first, full_end, end, problem.keys, BLOCK_N, FLAGS)


@triton.jit
def query_bounds(start_n, head, problem, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, FLAGS: tl.constexpr):
    """The bounds of a pass along the queries that see the keys from start_n on."""
    low, high, last = head.low, head.high, tl.minimum(start_n + BLOCK_N, problem.keys) - 1
    first, full_first, full_end, end = _within_limits(
        start_n - high, last - high, start_n - low + 1, last - low + 1, start_n // BLOCK_N,
        tl.cdiv(problem.keys, BLOCK_N), head, problem, FLAGS,
    )  # fmt: skip
    return _tile_bounds(first, full_first, full_end, end, problem.queries, BLOCK_M, FLAGS)


# What a tile is computed from


@triton.jit
def load_block(desc, layout, batch, head, start):
    """A block of tokens of one head; rows beyond its end belong to the next head or are 0: `tile_logits` hides them."""
    return desc.load([batch * layout.rows_per_batch + head * layout.rows_per_head + start,
                      head * layout.columns_per_head])  # fmt: skip


@triton.jit
def load_norm(norm, head, row, problem, FLAGS: tl.constexpr, MASKED: tl.constexpr):
    """Minus the normalisers of some rows in base 2: (high part, low part)."""
    base = head.flat * problem.queries
    if FLAGS.aligned:
        base = tl.multiple_of(base, 4)  # so that normalisers can be loaded two by two
    if MASKED:
        high = tl.load(norm.high + base + row, mask=row < problem.queries, other=float("-inf"))
    else:
        high = tl.load(norm.high + base + row)
    low = tl.zeros_like(high)
    if FLAGS.split_lse:
        low = tl.load(norm.low + base + row, mask=row < problem.queries, other=0.0)
    return high, low


@triton.jit
def log2_weights(logits, high, low, FLAGS: tl.constexpr):
    """log2 of the weights, from logits and the two parts of a normaliser."""
    return (logits + high) + low if FLAGS.split_lse else logits + high


@triton.jit
def scaled_tanh(x):
    """tanh(x · ln 2 / 2): `problem.factor` already holds the other factors."""
    return 1 - 2 / (tl.exp2(x) + 1)


@triton.jit
def tile_logits(qk, row, column, head, problem, FLAGS: tl.constexpr, MASKED: tl.constexpr):
    """Base-2 logits of a tile, HIDDEN where a key may not be seen. `row` and `column` broadcast to the tile."""
    logits = problem.cap * scaled_tanh(qk * problem.factor) if FLAGS.softcap else qk * problem.factor
    if MASKED:
        inside = (row < problem.queries) & (column < problem.keys)
        seen = inside
        batch = head.batch
        if FLAGS.causal:
            seen = column <= row + head.high
        elif FLAGS.full_blocks and FLAGS.band:
            seen = (column - row >= head.low) & (column - row <= head.high)
        elif FLAGS.band:
            seen = seen & (column - row >= head.low) & (column - row <= head.high)
        if FLAGS.padding:
            keep = tl.load(problem.keep + batch * problem.keys + column, mask=column < problem.keys, other=0)
            seen = seen & (keep != 0)
        if FLAGS.documents:
            query_ids, key_ids = problem.query_ids, problem.key_ids
            query_id = tl.load(query_ids + batch * problem.queries + row, mask=row < problem.queries, other=0)
            key_id = tl.load(key_ids + batch * problem.keys + column, mask=column < problem.keys, other=0)
            seen = seen & (query_id == key_id)
        if FLAGS.visible:
            visible = _load_dense(problem.visible, row, column, inside, head, problem.visible_batch,
                                  problem.visible_head, problem.visible_row, problem.visible_column)  # fmt: skip
            seen = seen & (visible != 0)
        if FLAGS.bias:
            bias = _load_dense(problem.bias, row, column, inside, head, problem.bias_batch, problem.bias_head,
                               problem.bias_row, problem.bias_column).to(tl.float32)  # fmt: skip
            seen = seen & (bias > problem.lowest)
            logits += tl.where(bias > problem.lowest, bias, 0.0) * LOG2E
        logits = tl.where(seen, logits, HIDDEN)
    return logits


@triton.jit
def _load_dense(ptr, row, column, inside, head, batch_stride, head_stride, row_stride, column_stride):
    """A tile of a 4-D tensor; a tile of keys × queries is read row by row all the same, and transposed."""
    ptr += head.batch.to(tl.int64) * batch_stride + head.index.to(tl.int64) * head_stride
    if row.shape[1] > 1:
        at = tl.trans(row).to(tl.int64) * row_stride + tl.trans(column).to(tl.int64) * column_stride
        tile = tl.trans(tl.load(ptr + at, mask=tl.trans(inside), other=0))
    else:
        at = row.to(tl.int64) * row_stride + column.to(tl.int64) * column_stride
        tile = tl.load(ptr + at, mask=inside, other=0)
    return tile


@triton.jit
def max_nan(a, b):
    """The larger of two; NaN propagates."""
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


# Single keys


@triton.jit
def _pairwise_sum(x, FLAGS: tl.constexpr):
    """Sums along the last axis; split_lse: in pairs, so that no digit depends on the number of keys weighed at once."""
    if FLAGS.split_lse:
        for _ in tl.static_range(8):
            if x.shape[2] > 1:
                x = tl.sum(tl.reshape(x, [x.shape[0], x.shape[1], x.shape[2] // 2, 2]), 3)
    return tl.sum(x, 2)


@triton.jit
def weigh_keys(
    row, key, wanted, head, tensors, norm, problem, FLAGS: tl.constexpr, WIDTH: tl.constexpr, STEP: tl.constexpr,
):  # fmt: skip
    """log2 of the weights of single keys, (rows, keys); where `wanted` is False, lower than every weight."""
    q_strides, k_strides = tensors.query_strides, tensors.key_strides
    query = tensors.query + (head.batch.to(tl.int64) * q_strides.batch + head.index.to(tl.int64) * q_strides.head)
    keys = tensors.key + (head.batch.to(tl.int64) * k_strides.batch + head.key_head.to(tl.int64) * k_strides.head)
    inside = row < problem.queries
    qk = tl.zeros_like(key).to(tl.float32)
    for start in range(0, WIDTH, STEP):
        part = start + tl.arange(0, STEP)
        q = tl.load(
            query + row.to(tl.int64)[:, None] * q_strides.row + part[None, :] * q_strides.column,
            mask=inside[:, None] & (part < WIDTH)[None, :], other=0.0,
        ).to(tl.float32)  # fmt: skip
        k = tl.load(
            keys + key.to(tl.int64)[:, :, None] * k_strides.row + part[None, None, :] * k_strides.column,
            mask=wanted[:, :, None] & (part < WIDTH)[None, None, :], other=0.0,
        ).to(tl.float32)  # fmt: skip
        qk += _pairwise_sum(k * q[:, None, :], FLAGS)
    logits = tile_logits(qk, row[:, None], key, head, problem, FLAGS, True)
    high, low = load_norm(norm, head, row, problem, FLAGS, True)
    return tl.where(wanted, log2_weights(logits, high[:, None], low[:, None], FLAGS), 2 * HIDDEN)


# forward: the online softmax, with or without values


@triton.jit
def _forward_step(
    state, start_n, row, q, k_desc, v_desc, layouts, head, problem,
    FLAGS: tl.constexpr, VALUES: tl.constexpr, MASKED: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    m_i, l_i, acc = state
    k = load_block(k_desc, layouts.k, head.batch, head.key_head, start_n)
    qk = tl.dot(q, k.T, input_precision=FLAGS.precision)
    column = start_n + tl.arange(0, BLOCK_N)
    logits = tile_logits(qk, row[:, None], column[None, :], head, problem, FLAGS, MASKED)
    m_ij = tl.maximum(m_i, tl.max(logits, 1))
    p = tl.exp2(logits - m_ij[:, None])
    if MASKED:
        p = tl.where(logits <= HIDING, 0.0, p)  # asked this way round, NaN propagates
    alpha = tl.exp2(m_i - m_ij)
    l_i = l_i * alpha + tl.sum(p, 1)
    if VALUES:
        v = load_block(v_desc, layouts.v, head.batch, head.key_head, start_n)
        if MASKED and not FLAGS.full_blocks:  # rows beyond the end may hold NaN, and 0 × NaN would be NaN
            v = tl.where((column < problem.keys)[:, None], v, 0.0)
        acc = tl.dot(p.to(v.dtype), v, acc * alpha[:, None], input_precision=FLAGS.precision)
    return m_ij, l_i, acc


@triton.jit
def forward_kernel(
    q_desc, k_desc, v_desc, out, lse, problem, layouts,
    FLAGS: tl.constexpr, VALUES: tl.constexpr, WIDTH: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    BLOCK_V: tl.constexpr,
):  # fmt: skip
    """weights @ value, or (not VALUES) the largest logit and the sum relative to it; and the logsumexp of each row."""
    head, block, blocks = find_block(problem, FLAGS)
    start_m = last_first(block, blocks, FLAGS) * BLOCK_M
    row = start_m + tl.arange(0, BLOCK_M)
    q = load_block(q_desc, layouts.q, head.batch, head.index, start_m)
    bounds = key_bounds(start_m, head, problem, BLOCK_M, BLOCK_N, FLAGS)
    m_i, l_i = tl.full([BLOCK_M], HIDDEN, tl.float32), tl.zeros([BLOCK_M], tl.float32)
    state = (m_i, l_i, tl.zeros([BLOCK_M, BLOCK_V], tl.float32))
    for stage in tl.static_range(3):
        if FLAGS.stages[stage]:
            for start_n in range(bounds[stage], bounds[stage + 1], BLOCK_N):
                state = _forward_step(state, start_n, row, q, k_desc, v_desc, layouts, head, problem, FLAGS, VALUES,
                                      stage != 1, BLOCK_N)  # fmt: skip
    m_i, l_i, acc = state
    some = l_i != 0  # true for NaN, which propagates
    inside, base = row < problem.queries, head.flat * problem.queries
    tl.store(lse + base + row, tl.where(some, (m_i + tl.log2(l_i)) * LN2, float("-inf")), mask=inside)
    if VALUES:
        acc = acc / tl.where(some, l_i, 1.0)[:, None]
        column = tl.arange(0, BLOCK_V)[None, :]
        at = out + ((base + row).to(tl.int64)[:, None] * WIDTH + column)
        tl.store(at, acc.to(out.dtype.element_ty), mask=inside[:, None] & (column < WIDTH))
    else:
        at = out + (base + row).to(tl.int64) * 2
        tl.store(at, m_i, mask=inside)
        tl.store(at + 1, l_i, mask=inside)


def forward(scores: Scores, value: Tensor | None) -> tuple[Tensor, Tensor]:
    """(weights @ value, logsumexp); without a value, the first is each row's largest base-2 logit and its sum."""
    batch, heads, queries, _ = scores.shape
    width = 0 if value is None else value.shape[-1]
    block_m, block_n, options = tuning.blocks("forward_documents" if scores.mask.ids else "forward", scores, width)
    prepared = prepare(scores, block_m, block_n)
    v, v_layout = (prepared.k, prepared.layouts.k) if value is None else describe(value, block_n)
    output = scores.query.new_empty(batch, heads, queries, width or 2, dtype=None if width else torch.float32)
    lse = scores.query.new_empty(batch, heads, queries, dtype=torch.float32)
    # Fused, a product is rounded in the maximum but not where that is subtracted from it, and float16 has enough digits
    # to show the difference in its weights. The other kernels round as this kernel does without values.
    fusion = value is None or scores.query.dtype != torch.float16
    prepared.launch(
        forward_kernel, prepared.grid(cdiv(queries, block_m), batch * heads),
        prepared.q, prepared.k, v, output, lse, prepared.keys_problem, prepared.layouts._replace(v=v_layout),
        FLAGS=prepared.along_keys(), VALUES=value is not None, WIDTH=max(width, 1),
        BLOCK_V=v.block_shape[1] if value is not None else 1, enable_fp_fusion=fusion, **options,
    )  # fmt: skip
    return output, lse


# A few rows


@triton.jit
def dense_rows_kernel(
    q_desc, k_desc, norm, out, problem, layouts,
    FLAGS: tl.constexpr, GROUP: tl.constexpr, LOG2: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """The weights of a few rows, or their log2. Each key is loaded once for the heads that share it."""
    first, start_n = find_head(flat_head() * GROUP, problem, FLAGS), tl.program_id(0) * BLOCK_N
    column = start_n + tl.arange(0, BLOCK_N)
    k = load_block(k_desc, layouts.k, first.batch, first.key_head, start_n)
    for member in range(GROUP):
        head = find_head(first.flat + member, problem, FLAGS)
        base = head.flat * problem.queries
        for start_m in range(0, problem.queries, BLOCK_M):
            row = start_m + tl.arange(0, BLOCK_M)
            q = load_block(q_desc, layouts.q, head.batch, head.index, start_m)
            qk = tl.dot(q, k.T, input_precision=FLAGS.precision)
            logits = tile_logits(qk, row[:, None], column[None, :], head, problem, FLAGS, True)
            minus_lse, rest = load_norm(norm, head, row, problem, FLAGS, True)
            found = log2_weights(logits, minus_lse[:, None], rest[:, None], FLAGS)
            if not LOG2:
                found = tl.exp2(found)
            at = out + (base + row).to(tl.int64)[:, None] * problem.keys + column[None, :]
            inside = (row < problem.queries)[:, None] & (column < problem.keys)[None, :]
            tl.store(at, found.to(out.dtype.element_ty), mask=inside)


def dense_rows(scores: Scores, norm: Normaliser, log2: bool = False, dtype: torch.dtype = torch.float32) -> Tensor:
    """The weights of a few rows, or their log2: (batch, heads, queries, keys)."""
    block_m, block_n, options = tuning.blocks("dense_rows", scores)
    prepared = prepare(scores, block_m, block_n, interleave=False)
    out = scores.query.new_empty(scores.shape, dtype=dtype)
    flags = prepared.along_keys(norm)._replace(full_blocks=False, causal=False, stages=(True, True, True))
    prepared.launch(
        dense_rows_kernel, (cdiv(scores.shape[3], block_n), *head_grid(scores.shape[0] * scores.key.shape[1])),
        prepared.q, prepared.k, norm, out, prepared.problem, prepared.layouts, FLAGS=flags, GROUP=scores.group,
        LOG2=log2, **options,
    )  # fmt: skip
    return out


@triton.jit
def top_of_rows_kernel(log2, best, weights, indices, keys, K: tl.constexpr, ROOM: tl.constexpr, BLOCK: tl.constexpr):
    """The K largest weights of each row and their keys, from the log2 of all weights; -1 where a row sees fewer keys.

    best: for each row, the K blocks of keys with the largest maxima. Keys after the last whole block count too.
    """
    row, slot = tl.program_id(0).to(tl.int64), tl.arange(0, ROOM)
    block = tl.load(best + row * K + slot, mask=slot < K, other=0)
    block = tl.where(slot < K, block, keys // BLOCK)
    key = block[:, None] * BLOCK + tl.arange(0, BLOCK)[None, :]
    inside = (slot <= K)[:, None] & (key < keys)
    left = tl.load(log2 + row * keys + key, mask=inside, other=4 * HIDDEN)
    left, key = tl.reshape(left, [ROOM * BLOCK]), tl.reshape(key, [ROOM * BLOCK])
    lost = tl.max((left != left).to(tl.int32), 0) > 0  # if one weight is NaN, all are
    for n in range(K):
        most = tl.where(lost, float("nan"), tl.max(left, 0))
        chosen = tl.max(tl.where(left == most, key, -1), 0)
        left = tl.where(key == chosen, 4 * HIDDEN, left)
        tl.store(weights + row * K + n, tl.exp2(most))
        tl.store(indices + row * K + n, tl.where(most > HIDING, chosen, -1))


def top_of_rows(log2: Tensor, k: int, block: int = 128, short: int = 8192) -> tuple[Tensor, Tensor]:
    """The k largest of each row, which lie in the k blocks with the largest maxima; short rows have no blocks."""
    *leading, keys = log2.shape
    if keys < short:
        values, places = log2.topk(k)
        return values.exp2(), places.masked_fill_(values <= contract.HIDDEN / 2, -1)
    maxima = log2[..., : keys // block * block].unflatten(-1, (-1, block)).amax(-1)
    best = maxima.topk(k, sorted=False).indices
    weights, indices = log2.new_empty(*leading, k), best.new_empty(*leading, k)
    top_of_rows_kernel[(math.prod(leading),)](
        log2, best, weights, indices, keys, K=k, ROOM=next_power(k + 1), BLOCK=block, num_warps=4
    )
    return weights, indices


@triton.jit
def rescale_kernel(
    out, lse, sinks, heads, queries, rows, strides, lse_strides,
    SINKS: tl.constexpr, WIDTH: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_V: tl.constexpr,
):  # fmt: skip
    """Rows of weights @ value and their logsumexp, in place: with the sink counted, and 0 where a row sees nothing."""
    row = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    inside = row < rows
    batch, head = row // queries // heads, row // queries % heads
    lse += batch * lse_strides.batch + head * lse_strides.head + (row % queries) * lse_strides.row
    own = tl.load(lse, mask=inside, other=0.0)
    own = tl.where(own < HIDING, float("-inf"), own)
    total = own
    if SINKS:
        sink = tl.load(sinks + row // queries, mask=inside, other=0.0).to(tl.float32)
        peak = max_nan(own, sink)
        finite = tl.where(peak == float("-inf"), 0.0, peak)
        total = peak + tl.log(tl.exp(own - finite) + tl.exp(sink - finite))
        total = tl.where(peak == float("-inf"), peak, total)
    factor = tl.where(own == float("-inf"), 0.0, tl.exp(own - total))
    tl.store(lse, total, mask=inside)
    column = tl.arange(0, BLOCK_V)
    at = batch * strides.batch + head * strides.head + (row % queries) * strides.row
    at = out + at[:, None] + column[None, :] * strides.column
    changed = (inside & (factor != 1.0))[:, None] & (column < WIDTH)[None, :]
    values = tl.load(at, mask=changed, other=0.0).to(tl.float32)
    values = tl.where((factor == 0.0)[:, None], 0.0, values * factor[:, None])
    tl.store(at, values.to(out.dtype.element_ty), mask=changed)


def rescale(output: Tensor, lse: Tensor, sinks: Tensor | None) -> None:
    """Count the sinks in (weights @ value, logsumexp), in place, and set rows that see nothing to 0."""
    batch, heads, queries, width = output.shape
    block_m, rows = 32, batch * heads * queries
    rescale_kernel[(cdiv(rows, block_m),)](
        output, lse, None if sinks is None else sinks.contiguous(), heads, queries, rows, AxisStrides(*output.stride()),
        AxisStrides(*lse[..., None].stride()), SINKS=sinks is not None, WIDTH=width, BLOCK_M=block_m,
        BLOCK_V=next_power(width), num_warps=4,
    )  # fmt: skip
