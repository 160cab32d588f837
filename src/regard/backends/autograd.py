"""Results that autograd knows: functions of (query, key, sinks, biases, operand) with the full softmax Jacobian.

The cached normaliser is only data here, so caching never changes a gradient. A part of the matrix that leaves out keys
keeps the normaliser of all keys: the normaliser is then an input (`outer`) of its own, which receives -Σ_j p dL/dp in
place of the scores.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from regard.backends import chooser
from regard.backends.contract import Attend, Backward, Request, share, trusted, with_operand
from regard.errors import InputError
from regard.scores import Scores
from regard.support import inside_func

__all__ = ["differentiable", "gradients"]


def differentiable(
    request: Request, scores: Scores, lse: Tensor | None = None, outer: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Return (result, with a graph; the normaliser, as data).

    Args:
        request: the result to compute, not `Top`.
        scores: the problem, with a graph.
        lse: the normaliser as data; only `Attend` computes it on the way.
        outer: the normaliser of more keys than these, with a graph.
    """
    if inside_func():
        raise InputError(
            "an AttentionMatrix has no derivative inside torch.func (grad, vmap, …). Use regard.attention there, or "
            "torch.autograd.grad and a batch axis instead."
        )
    sinks = scores.sinks if outer is None else None
    tensors = (outer, scores.query, scores.key, sinks, request.operand, *scores.mask.biases)
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
        operand = tensors[3]
        request = with_operand(request, None if operand is None else operand.detach())
        result, lse = chooser.compute(data, request, lse, outer=outer is not None)
        # The operand is saved below, not here.
        ctx.request = with_operand(request, None if operand is None else operand.new_empty(0, 0, 0, 0))
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
        needed = ctx.needs_input_grad
        if grad is None:
            return (None,) * len(needed)
        lse, result, query, key, sinks, operand, *biases = ctx.saved_tensors  # raises if one was modified in place
        task = Backward(with_operand(ctx.request, operand), result, lse, grad, not ctx.outer, any(needed[8:]))
        inputs = (lse, query, key, sinks, operand, *biases)
        pairs = zip(gradients(ctx.scores, task), inputs, strict=True)
        cast = [None if gradient is None or t is None else gradient.to(t.dtype) for gradient, t in pairs]
        return None, None, None, *(g if need else None for g, need in zip(cast, needed[3:], strict=True))


def gradients(scores: Scores, task: Backward) -> list[Tensor | None]:
    """Gradients of (outer, query, key, sinks, operand, *biases); sinks inside an outer normaliser have none."""
    request, outer = task.request, not task.subtract
    backend = chooser.choose(scores, request, gradient=True, biases=task.biases, outer=outer)
    if isinstance(request, Attend):
        task = replace(task, request=chooser.shielded(scores, request))
        float32 = scores.query.dtype == torch.float32 and not backend.can.uses_forward_lse
        if float32 and not outer and not trusted(task.lse, scores.query.dtype):
            task = replace(task, lse=chooser.logsumexp(scores))  # the forward's own has too few digits
    scores, lse = scores.seeing(task.lse), task.lse
    if outer:
        scores = replace(scores, sinks=None)
    found = chooser.backward(scores, task, backend)
    row_dot = found.row_dot
    if row_dot is None and (outer or scores.sinks is not None):
        row_dot = (task.grad.to(lse.dtype) * task.result).sum(-1)  # in the wider dtype: halves would overflow
    d_outer = -row_dot if outer and row_dot is not None else None
    d_sinks = None
    if scores.sinks is not None and row_dot is not None:  # a sink has a weight, and its value is 0
        d_sinks = -(share(scores.sinks.to(lse.dtype)[..., None], lse) * row_dot).sum(-1)
    return [d_outer, found.query, found.key, d_sinks, found.operand, *found.biases]
