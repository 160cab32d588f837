"""`token_loss`: the cross-entropy of tokens, computed from the decoder's states without holding all logits.

Logits are vocabulary × tokens numbers, far more than anything else in a training step. Here they exist for one chunk
of tokens at a time, in the dtype of the product. Their gradient is computed in the same pass, so no logits are stored.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from regard.support import Float, Int

_CHUNK = 2**26  # logits at a time: 128 MB of bfloat16


def token_loss(
    states: Float[Tensor, "tokens width"],
    weight: Float[Tensor, "vocabulary width"],
    bias: Float[Tensor, "vocabulary"],
    labels: Int[Tensor, "tokens"],
    *,
    ignore: int,
    smoothing: float = 0.0,
    compiled: bool = False,
) -> Float[Tensor, ""]:
    """Compute the mean of -log p(label) over tokens whose label is not `ignore`, as `functional.cross_entropy` does.

    With `compiled`, torch.compile fuses the work on a chunk, which pays in long trainings on a GPU.

    >>> import torch
    >>> states, weight, labels = torch.randn(7, 4), torch.randn(9, 4), torch.tensor([1, 2, 3, 8, 8, 5, 0])
    >>> loss = token_loss(states, weight, torch.zeros(9), labels, ignore=8, smoothing=0.1)
    >>> plain = torch.nn.functional.cross_entropy(states @ weight.mT, labels, ignore_index=8, label_smoothing=0.1)
    >>> torch.allclose(loss, plain)
    True
    """
    loss: Tensor = _TokenLoss.apply(states, weight, bias, labels, ignore, smoothing, compiled)  # type: ignore[no-untyped-call]
    return loss


class _TokenLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        states: Tensor,
        weight: Tensor,
        bias: Tensor,
        labels: Tensor,
        ignore: int,
        smoothing: float,
        compiled: bool,
    ) -> Tensor:
        counted = labels != ignore
        share = counted / counted.sum().clamp_min(1)
        total = states.new_zeros((), dtype=torch.promote_types(states.dtype, torch.float32))
        d_states, d_weight = [], torch.zeros_like(weight, dtype=total.dtype)
        chunk = max(_CHUNK // len(weight), 1)
        work = _fused() if compiled else _chunk
        for start in range(0, len(states), chunk):
            state, label, coefficient = (t[start : start + chunk] for t in (states, labels, share))
            logits = functional.linear(state, weight, bias)
            loss, d_logits = work(logits, label, coefficient, smoothing)
            total = total + loss
            d_states.append(functional.linear(d_logits, weight.mT))
            d_weight += d_logits.mT @ state
        ctx.save_for_backward(torch.cat(d_states).to(states.dtype), d_weight.to(weight.dtype))
        return total

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        d_states, d_weight = ctx.saved_tensors
        return d_states * grad.to(d_states.dtype), d_weight * grad.to(d_weight.dtype), None, None, None, None, None


def _chunk(logits: Tensor, label: Tensor, coefficient: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
    """Compute the loss of these tokens, and the gradient of their logits."""
    vocabulary = logits.shape[-1]
    upcast = logits.to(torch.promote_types(logits.dtype, torch.float32))
    lse = upcast.logsumexp(-1)
    is_label = torch.arange(vocabulary, device=logits.device) == label[:, None]
    label_logit = torch.where(is_label, upcast, 0.0).sum(-1)
    loss = lse - (1 - smoothing) * label_logit - smoothing * upcast.mean(-1)
    target = torch.where(is_label, 1 - smoothing + smoothing / vocabulary, smoothing / vocabulary)
    d_logits = (((upcast - lse[:, None]).exp() - target) * coefficient[:, None]).to(logits.dtype)
    return (loss * coefficient).sum(), d_logits


@cache
def _fused() -> Any:
    return torch.compile(_chunk, dynamic=True)
