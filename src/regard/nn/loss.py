"""`token_loss`: the cross-entropy of tokens from the decoder's states, without ever holding all logits.

Logits are vocabulary × tokens numbers, far more than anything else in a training step. Here they live for one chunk
of tokens at a time, in the dtype of the product; their gradient is taken on the spot, so that nothing of them is kept.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from regard.support import Float, Int

__all__ = ["token_loss"]

_CHUNK = 2**26  # logits that live at a time: 128 MB of bfloat16


def token_loss(
    states: Float[Tensor, "tokens width"],
    weight: Float[Tensor, "vocabulary width"],
    bias: Float[Tensor, "vocabulary"],
    labels: Int[Tensor, "tokens"],
    *,
    ignore: int,
    smoothing: float = 0.0,
) -> Float[Tensor, ""]:
    """The mean of -log p(label) over the tokens whose label is not `ignore`, as `functional.cross_entropy` has it.

    >>> import torch
    >>> states, weight, labels = torch.randn(7, 4), torch.randn(9, 4), torch.tensor([1, 2, 3, 8, 8, 5, 0])
    >>> loss = token_loss(states, weight, torch.zeros(9), labels, ignore=8, smoothing=0.1)
    >>> plain = torch.nn.functional.cross_entropy(states @ weight.mT, labels, ignore_index=8, label_smoothing=0.1)
    >>> torch.allclose(loss, plain)
    True
    """
    loss: Tensor = _TokenLoss.apply(states, weight, bias, labels, ignore, smoothing)  # type: ignore[no-untyped-call]
    return loss


class _TokenLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, states: Tensor, weight: Tensor, bias: Tensor, labels: Tensor, ignore: int, smoothing: float
    ) -> Tensor:
        vocabulary = len(weight)
        live = labels != ignore
        share = live / live.sum().clamp_min(1)
        total = states.new_zeros((), dtype=torch.promote_types(states.dtype, torch.float32))
        d_states, d_weight = [], torch.zeros_like(weight, dtype=total.dtype)
        column = torch.arange(vocabulary, device=states.device)
        chunk = max(_CHUNK // vocabulary, 1)
        for start in range(0, len(states), chunk):
            part, label, own = (t[start : start + chunk] for t in (states, labels, share))
            logits = functional.linear(part, weight, bias)
            raised = logits.to(total.dtype)
            lse = raised.logsumexp(-1)
            hit = column == label[:, None]
            true = torch.where(hit, raised, 0.0).sum(-1)
            total = total + ((lse - (1 - smoothing) * true - smoothing * raised.mean(-1)) * own).sum()
            target = torch.where(hit, 1 - smoothing + smoothing / vocabulary, smoothing / vocabulary)
            pull = (((raised - lse[:, None]).exp() - target) * own[:, None]).to(logits.dtype)
            d_states.append(functional.linear(pull, weight.mT))
            d_weight += pull.mT @ part
        ctx.save_for_backward(torch.cat(d_states).to(states.dtype), d_weight.to(weight.dtype))
        return total

    @staticmethod
    def backward(ctx: Any, back: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        d_states, d_weight = ctx.saved_tensors
        return d_states * back.to(d_states.dtype), d_weight * back.to(d_weight.dtype), None, None, None, None
