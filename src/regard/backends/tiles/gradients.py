"""Gradients of all results that are computed from the weights, in tiles.

If a result has the gradient dL/dp for each weight p, each masked score receives p × (dL/dp - Σ_j p dL/dp): the full
softmax Jacobian, in which the cached normaliser is only data. `_weight_gradient` says what dL/dp is in a tile; the rest
is the same for all requests.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from regard.backends.contract import (
    LN2,
    Attend,
    Backward,
    Entropy,
    Gradients,
    LogSumExp,
    Pool,
    Received,
    TransposedProduct,
)
from regard.backends.tiles.reductions import Product, RowDot, accumulate, bin_edges
from regard.backends.tiles.tile import Tile, dropout_factor, each_tile
from regard.scores import Scores
from regard.support import Float, no_autocast


class _WeightGradient(NamedTuple):
    """dL/dp as a function of the tile, its row sums Σ_j p dL/dp if known, and the gradient of the operand."""

    of_tile: Callable[[Tile], Tensor] | None
    row_dot: Tensor | None = None
    operand: Tensor | None = None  # complete once `of_tile` was called for every tile


@no_autocast
def backward(scores: Scores, task: Backward) -> Gradients:
    """Gradients of query, key, operand and biases, and the row sums Σ_j p dL/dp."""
    lse, weight_grad = task.lse, _weight_gradient(scores, task)
    row_dot = weight_grad.row_dot
    if row_dot is None:
        assert weight_grad.of_tile is not None
        sums = RowDot(scores, weight_grad.of_tile)
        accumulate(each_tile(scores, lse), [sums])
        row_dot = sums.total
    row_dot = row_dot.to(scores.working_dtype)
    d_query, d_key, d_biases = _through_softmax(scores, lse, weight_grad.of_tile, row_dot if task.subtract else None)
    return Gradients(d_query, d_key, weight_grad.operand, d_biases, row_dot)


def _weight_gradient(scores: Scores, task: Backward) -> _WeightGradient:
    request, grad = task.request, task.grad
    if isinstance(request, Attend):
        return _attend(scores, request, task.result, grad)
    if isinstance(request, TransposedProduct):
        return _transposed_product(scores, request, task.lse, grad)
    if isinstance(request, Received):
        share = grad / max(scores.shape[2], 1) if request.reduce == "mean" else grad
        return _WeightGradient(lambda tile: share[tile.batch, tile.heads, None, tile.columns])
    if isinstance(request, Entropy):
        # Where a weight is 0 its logarithm does not matter, but times a large gradient it must not overflow.
        return _WeightGradient(
            lambda tile: -(tile.log2.clamp_min(-1100.0) * LN2 + 1) * grad[tile.batch, tile.heads, tile.rows, None]
        )
    if isinstance(request, Pool):
        return _pool(scores, request, grad)
    assert isinstance(request, LogSumExp), f"{type(request).__name__} has no gradient"
    return _WeightGradient(None, -grad)  # the gradient of the normaliser is the weights themselves


def _attend(scores: Scores, request: Attend, result: Tensor, grad: Tensor) -> _WeightGradient:
    grad = grad.to(scores.working_dtype)
    value = request.operand.to(grad.dtype)
    d_value = torch.zeros_like(value, memory_format=torch.contiguous_format)

    def of_tile(tile: Tile) -> Tensor:
        kept = None if request.dropout is None else dropout_factor(request.dropout, tile)
        g = grad[tile.batch, tile.heads, tile.rows].reshape(tile.lanes, -1, grad.shape[-1])
        v = value[tile.batch, tile.key_heads, tile.columns]
        used = tile.weights if kept is None else tile.weights * kept
        d_v = d_value[tile.batch, tile.key_heads, tile.columns]
        d_v.add_((tile.grouped(used).mT @ g).view(d_v.shape))
        d_weights = (g @ v.reshape(tile.lanes, -1, v.shape[-1]).mT).view(tile.weights.shape)
        return d_weights if kept is None else d_weights * kept

    return _WeightGradient(of_tile, (grad * result).sum(-1), d_value)


def _transposed_product(scores: Scores, request: TransposedProduct, lse: Tensor, grad: Tensor) -> _WeightGradient:
    x, grad = request.operand.to(scores.working_dtype), grad.to(scores.working_dtype)
    product = Product(scores, grad)
    accumulate(each_tile(scores, lse), [product])
    d_x = product.total

    def of_tile(tile: Tile) -> Tensor:
        return x[tile.batch, tile.heads, tile.rows] @ grad[tile.batch, tile.heads, tile.columns].mT

    return _WeightGradient(of_tile, (x * d_x).sum(-1), d_x)


def _pool(scores: Scores, request: Pool, grad: Tensor) -> _WeightGradient:
    heights, widths = (
        torch.tensor(bin_edges(size, count), device=grad.device).diff()
        for size, count in zip(scores.shape[2:], (request.rows, request.columns), strict=True)
    )
    row_bins, column_bins = torch.repeat_interleave(heights), torch.repeat_interleave(widths)
    share = grad / (heights[:, None] * widths)

    def of_tile(tile: Tile) -> Tensor:
        bins = row_bins[tile.rows]
        part = share[tile.batch, tile.heads, bins[0] : bins[-1] + 1]  # columns first: there are fewer bins than rows
        return part.index_select(3, column_bins[tile.columns]).index_select(2, bins - bins[0])

    return _WeightGradient(of_tile)


def _through_softmax(
    scores: Scores,
    lse: Float[Tensor, "batch heads queries"],
    weight_grad: Callable[[Tile], Tensor] | None,
    row_dot: Float[Tensor, "batch heads queries"] | None,
) -> tuple[Tensor, Tensor, tuple[Tensor, ...]]:
    """Gradients of (query, key, biases) where each masked score receives p × (dL/dp - row_dot of its row)."""
    dtype, width = scores.working_dtype, scores.query.shape[-1]
    query, key = scores.query.to(dtype), scores.key.to(dtype)
    d_query, d_key = torch.zeros_like(query), torch.zeros_like(key)
    d_biases = tuple(torch.zeros_like(bias, dtype=dtype) for bias in scores.mask.biases)
    for tile in each_tile(scores, lse, slope=True):
        d_score = tile.weights.new_zeros(()) if weight_grad is None else weight_grad(tile)
        if row_dot is not None:
            d_score = d_score - row_dot[tile.batch, tile.heads, tile.rows, None]
        d_score = tile.weights * d_score
        for d_bias in d_biases:
            _add_to_bias(d_bias, d_score, scores, tile)
        if tile.slope is not None:
            d_score = d_score * tile.slope
        d_score = tile.grouped(d_score)
        q = query[tile.batch, tile.heads, tile.rows].reshape(tile.lanes, -1, width)
        k = key[tile.batch, tile.key_heads, tile.columns]
        d_q = d_query[tile.batch, tile.heads, tile.rows]
        d_q.add_((d_score @ k.reshape(tile.lanes, -1, width)).view(d_q.shape), alpha=scores.scale)
        d_k = d_key[tile.batch, tile.key_heads, tile.columns]
        d_k.add_((d_score.mT @ q).view(d_k.shape), alpha=scores.scale)
    return d_query, d_key, d_biases


def _add_to_bias(d_bias: Tensor, d_score: Tensor, scores: Scores, tile: Tile) -> None:
    """Add a tile of gradients to the gradient of a bias, summed over the axes that the bias broadcasts along."""
    positions = (tile.batch, tile.heads, scores.rows[tile.rows], scores.columns[tile.columns])
    index: list[slice | Tensor] = []
    for axis, (size, position) in enumerate(zip(d_bias.shape, positions, strict=True)):
        if size == 1:
            d_score = d_score.sum(axis, keepdim=True)
            index.append(slice(None))
        elif isinstance(position, range):
            index.append(slice(position.start, position.stop, position.step))
        else:
            index.append(position)
    if any(isinstance(position, Tensor) for position in index):
        axes = [torch.arange(n, device=d_score.device)[i] for n, i in zip(d_bias.shape, index, strict=True)]
        d_bias.index_put_(torch.meshgrid(*axes, indexing="ij"), d_score, accumulate=True)
    else:
        d_bias[tuple(index)] += d_score
