"""Results that autograd knows: functions of (query, key, sinks, biases, operand) with the full softmax Jacobian.

The cached normaliser is only data here, so caching never changes a gradient. A part of the matrix that leaves out keys
keeps the normaliser of all keys: it is then an input (`outer`) of its own, which receives -Σ_j p dL/dp in place of the
scores.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from regard.backends import chooser, pieces, tiles, torch_cpu
from regard.backends.contract import Attend, LogSumExp, Request, TransposedProduct, share, trusted
from regard.errors import InputError
from regard.scores import Scores
from regard.support import inside_func

__all__ = ["differentiable", "gradients", "operand"]


def operand(request: Request) -> Tensor | None:
    """The tensor that stands right of `@`, where the request has one."""
    if isinstance(request, Attend):
        return request.value
    return request.x if isinstance(request, TransposedProduct) else None


def _with_operand(request: Request, tensor: Tensor | None) -> Request:
    """The same request of another tensor."""
    if tensor is not None and isinstance(request, Attend):
        return replace(request, value=tensor)
    return replace(request, x=tensor) if tensor is not None and isinstance(request, TransposedProduct) else request


def differentiable(
    request: Request, scores: Scores, lse: Tensor | None = None, outer: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """(result, with a graph; the normaliser, as data)."""
    if inside_func():
        raise InputError(
            "an AttentionMatrix has no derivative inside torch.func (grad, vmap, …). Use regard.attention there, or "
            "torch.autograd.grad and a batch axis instead."
        )
    sinks = scores.sinks if outer is None else None
    tensors = (outer, scores.query, scores.key, sinks, operand(request), *scores.mask.biases)
    result, lse = _Differentiable.apply(request, scores, lse, *tensors)  # type: ignore[no-untyped-call]
    return result, lse


class _Differentiable(torch.autograd.Function):
    @staticmethod
    def forward(  # type: ignore[override]
        ctx: Any, request: Request, scores: Scores, lse: Tensor | None, outer: Tensor | None, *tensors: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        data = scores.detached()
        ctx.scores, ctx.outer = data, outer is not None
        if outer is not None:
            data, lse = replace(data, sinks=None), outer.detach()
        right = tensors[3]
        request = _with_operand(request, None if right is None else right.detach())
        result, lse = pieces.compute(data, request, lse, outer=outer is not None)
        ctx.request = _with_operand(
            request, None if right is None else right.new_empty(0, 0, 0, 0)
        )  # saved below, not here
        ctx.save_for_backward(lse, result, *tensors)
        ctx.mark_non_differentiable(lse)
        ctx.set_materialize_grads(False)
        return result, lse

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None, _: Tensor | None) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():  # create_graph=True: the results below would silently count as constants
            raise InputError(
                "regard's gradients are of first order: create_graph=True cannot go through them. "
                "For a second derivative write this step in plain torch: softmax(query @ key.mT * scale) @ value."
            )
        if grad is None:
            return (None,) * len(ctx.needs_input_grad)
        lse, result, query, key, sinks, right, *biases = ctx.saved_tensors  # raises if one was modified in place
        wanted = ctx.needs_input_grad
        request = _with_operand(ctx.request, right)
        found = gradients(ctx.scores, request, result, lse, grad, outer=ctx.outer, biases=any(wanted[8:]))
        inputs = (lse, query, key, sinks, right, *biases)
        cast = [None if g is None or t is None else g.to(t.dtype) for g, t in zip(found, inputs, strict=True)]
        return None, None, None, *(g if need else None for g, need in zip(cast, wanted[3:], strict=True))


def gradients(
    scores: Scores, request: Request, result: Tensor, lse: Tensor, grad: Tensor, *, outer: bool, biases: bool
) -> list[Tensor | None]:
    """Gradients of (outer, query, key, sinks, operand, *biases); sinks that an outer normaliser counts have none."""
    backend = chooser.choose(scores, request, gradient=True, biases=biases, outer=outer)
    if isinstance(request, Attend):
        request = chooser.shielded(scores, request)
        float32 = scores.query.dtype == torch.float32 and backend is not torch_cpu.backend
        if float32 and not outer and not trusted(lse, scores.query.dtype):
            lse = pieces.logsumexp(scores)  # the forward's own has too few digits
    scores = scores.seeing(lse)
    if outer:
        scores = replace(scores, sinks=None)
    parts = pieces.parts_of(scores, request) if isinstance(request, Attend | LogSumExp) and not biases else None
    if parts is not None:
        found = pieces.backward(parts, scores, request, result, lse, grad, outer=outer)
    else:
        own = chooser.for_tiles(scores, lse) if backend is tiles.backend else lse
        found = backend.backward(scores, request, result, own, grad, subtract=not outer, biases=biases)
    row_dot = found.row_dot
    if row_dot is None and (outer or scores.sinks is not None):
        row_dot = (grad.to(lse.dtype) * result).sum(-1)  # in the wider dtype: halves would overflow
    d_outer = -row_dot if outer and row_dot is not None else None
    d_sinks = None
    if scores.sinks is not None and row_dot is not None:  # a sink has a weight, and its value is 0
        d_sinks = -(share(scores.sinks.to(lse.dtype)[..., None], lse) * row_dot).sum(-1)
    return [d_outer, found.query, found.key, d_sinks, found.operand, *found.biases]
