"""Results that autograd knows: in the backward pass the keys go round again, and their gradients go with them.

As on one device, each masked score receives p × (dL/dp - Σ_j p dL/dp). A product knows that sum beforehand, from its
own output. For everything else, and for parts that leave out keys, the normaliser is an input (`outer`) of its own: it
receives -Σ_j p dL/dp, and is itself a function of all keys that autograd knows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard import backends
from regard.backends import Attend, Backward, LogSumExp, Received, Request, TransposedProduct
from regard.backends.chooser import backward, shielded
from regard.backends.contract import Gradients, with_operand
from regard.distributed import results
from regard.distributed.ring import Carrier
from regard.distributed.share import Block, Share
from regard.errors import InputError
from regard.scores import take
from regard.support import Float

__all__ = ["compute", "differentiable", "without_graph"]


def compute(
    share: Share, request: Request, lse: Tensor | None = None, *, outer: bool = False
) -> tuple[Tensor, Tensor, bool]:
    """(result, normaliser, whether that has digits enough) of a request, without a graph.

    Only `Attend` finds the normaliser on its way; `outer`: it is that of more keys than these.
    """
    if isinstance(request, Attend):
        output, own, sure = results.attend(share, request.operand)
        if not outer:
            return output, own, sure
        assert lse is not None
        return (output * backends.share(own, lse)[..., None]).to(output.dtype), lse, True
    assert lse is not None
    if isinstance(request, LogSumExp):
        return lse.clone(), lse, True
    (result,) = results.reduce(share, lse, [request])
    assert isinstance(result, Tensor)
    return (result.to(request.operand.dtype) if isinstance(request, TransposedProduct) else result), lse, True


def differentiable(
    share: Share, request: Request, lse: Tensor | None = None, outer: Tensor | None = None
) -> tuple[Tensor, Tensor, bool]:
    """`compute` with a graph; the normaliser comes as data."""
    scores = share.scores
    if outer is not None:
        share = replace(share, scores=replace(scores, sinks=None))
    told: list[bool] = []
    tensors = (outer, scores.query, scores.key, share.scores.sinks, request.operand, *scores.mask.biases)
    result, lse = _OverRanks.apply(request, share, lse, told, *tensors)  # type: ignore[no-untyped-call]
    return result, lse, told[0]


class _OverRanks(torch.autograd.Function):
    @staticmethod
    def forward(  # type: ignore[override]
        ctx: Any, request: Request, share: Share, lse: Tensor | None, told: list[bool], *tensors: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        outer, right = tensors[0], tensors[4]
        if outer is not None:
            lse = outer.detach()
        detached = with_operand(request, None if right is None else right.detach())
        result, lse, sure = compute(share, detached, lse, outer=outer is not None)
        told.append(sure)
        ctx.share, ctx.request = without_graph(share), with_operand(request, torch.empty(0, 0, 0, 0))
        ctx.save_for_backward(lse, result, *tensors)
        ctx.mark_non_differentiable(lse)
        return result, lse

    @staticmethod
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        share, wanted = ctx.share, ctx.needs_input_grad[4:]
        saved: list[Any] = []

        def prepare() -> dict[str, Any]:
            if torch.is_grad_enabled():  # create_graph=True: what comes below would silently count as constant
                raise InputError(
                    "regard's gradients are of first order: create_graph=True cannot go through them. "
                    "Write this step in plain torch, on one rank."
                )
            saved.extend(ctx.saved_tensors)  # raises if one was modified in place
            return {}

        share.ring.agree(f"the gradient of {type(ctx.request).__name__}", prepare)
        lse, result, outer, query, key, sinks, right, *biases = saved
        request = with_operand(ctx.request, right)
        subtract = outer is None
        found = _gradients(share, request, result, lse, grad, subtract=subtract, biases=any(wanted[5:]))
        if isinstance(request, Attend):
            row_dot = (grad.to(lse.dtype) * result).sum(-1)  # in the wider dtype: halves would overflow
        else:
            row_dot = -grad.to(lse.dtype) if isinstance(request, LogSumExp) else found.row_dot
        d_sinks = None
        if sinks is not None:  # a sink has a weight, and its value is 0
            d_sinks = -(backends.share(sinks.to(lse.dtype)[..., None], lse) * row_dot).sum(-1)
        grads = (None if subtract else -row_dot, found.query, found.key, d_sinks, found.operand, *found.biases)
        inputs = (outer, query, key, sinks, right, *biases)
        cast = [None if g is None or t is None else g.to(t.dtype) for g, t in zip(grads, inputs, strict=True)]
        return None, None, None, None, *(g if need else None for g, need in zip(cast, wanted, strict=True))


def without_graph(share: Share) -> Share:
    """The same numbers outside any graph; nothing is copied."""
    scores = share.scores
    sinks = None if scores.sinks is None else scores.sinks.detach()
    mask = scores.mask.each(Tensor.detach)
    data = replace(scores, query=scores.query.detach(), key=scores.key.detach(), mask=mask, sinks=sinks)
    return replace(share, scores=data)


class _Found(NamedTuple):
    """Gradients of (query, key, operand, biases), and Σ_j p dL/dp of each row."""

    query: Float[Tensor, "batch heads queries width"]
    key: Float[Tensor, "batch key_heads keys width"]
    operand: Tensor | None
    biases: Sequence[Tensor | None]
    row_dot: Float[Tensor, "batch heads queries"]


def _gradients(
    share: Share, request: Request, result: Tensor, lse: Tensor, grad: Tensor, *, subtract: bool, biases: bool
) -> _Found:
    """Where `grad` is that of `result`, each for this rank's own tokens, from the queries of all ranks."""
    scores, ring, what = share.scores, share.ring, "the backward pass"
    query, dtype = scores.query, scores.working_dtype
    d_query = torch.zeros_like(query, dtype=dtype, memory_format=torch.contiguous_format)
    d_biases = [torch.zeros_like(bias, dtype=dtype) if biases else None for bias in scores.mask.biases]
    row_dot = query.new_zeros(scores.shape[:3], dtype=dtype)
    d_x = torch.zeros_like(request.operand, dtype=dtype) if isinstance(request, TransposedProduct) else None
    extra: list[Tensor] = []  # what goes round beside the keys: values, or gradients that belong to keys
    if isinstance(request, Attend):
        extra = [request.operand.detach()]
    elif isinstance(request, Received | TransposedProduct):
        extra = [grad]
    carrier = Carrier(ring, what)
    for owner, moved in ring.around([*share.moving_keys(), *map(share.per_key, extra)], what):
        key, right = moved[0], moved[-1]
        d_key = torch.zeros_like(key, dtype=dtype)
        d_value = torch.zeros_like(right, dtype=dtype) if isinstance(request, Attend) else None
        for block in share.blocks(owner, moved):
            rows, columns = block.rows.local, block.columns.local
            found = _of_block(block, request, result, lse, grad, right, subtract, biases)
            d_query[:, :, rows] += found.query
            d_key[:, :, columns] += found.key
            if d_value is not None and found.operand is not None:
                d_value[:, :, columns] += found.operand
            if d_x is not None and found.operand is not None:
                d_x[:, :, rows] += found.operand
            if found.row_dot is not None:
                row_dot[:, :, rows] += found.row_dot
            for total, part in zip(d_biases, found.biases, strict=True) if biases else ():
                if total is not None and part is not None:
                    first, start = block.rows, block.columns
                    there = take(total, 2, range(first.offset, first.offset + first.length))
                    take(there, 3, range(start.start, start.start + start.length)).add_(part)
        carrier.add(owner, [share.per_key(total) for total in (d_key, d_value) if total is not None])
    home = carrier.home()
    return _Found(d_query, home[0], home[1] if isinstance(request, Attend) else d_x, d_biases, row_dot)


def _of_block(
    block: Block, request: Request, result: Tensor, lse: Tensor, grad: Tensor, right: Tensor, subtract: bool,
    biases: bool,
) -> Gradients:  # fmt: skip
    rows, columns = block.rows.local, block.columns.local
    own = lse[:, :, rows]
    scores = block.scores.detached().seeing(own)
    here: Request = request
    if isinstance(request, Attend):
        here = shielded(scores, replace(request, operand=right[:, :, columns]))
    elif isinstance(request, TransposedProduct):
        here = replace(request, operand=request.operand.detach()[:, :, rows])
    if isinstance(request, Received | TransposedProduct):
        result, grad = result[:, :, :0], right[:, :, columns]  # of keys: what was computed of them is not needed
    else:
        result, grad = result[:, :, rows], grad[:, :, rows]
    return backward(scores, Backward(here, result, own, grad, subtract, biases))
