"""torch's fused kernels on a GPU: the kernel that `scaled_dot_product_attention` would choose, with its logsumexp.

Those kernels return the logsumexp only through torch's private operators. Where a version lacks one, or refuses, the
next backend takes over.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from regard.backends import triton
from regard.backends.contract import (
    Attend,
    Backend,
    Backward,
    Capabilities,
    Dense,
    Gradients,
    Refused,
    Request,
    aligned,
)
from regard.scores import HIDING, Scores

_FLASH, _EFFICIENT, _CUDNN = 1, 2, 3  # torch's numbers for its kernels


class TorchCUDA(Backend):
    """torch's fused kernels on a GPU: plain or causal, and their backward; with a bias, cuDNN's."""

    name = "torch_cuda"
    can = Capabilities(
        requests=(Attend,), gradients=(Attend,), dtypes={"cuda": (torch.float16, torch.bfloat16, torch.float32)},
        softcap=False, mask_parts=frozenset({"bands", "biases"}), outer_gradients=False, fastest_unmasked=True,
    )  # fmt: skip

    def __init__(self) -> None:
        self.refused: set[tuple[int, bool]] = set()  # (kernel, grouped heads) that this torch cannot compute

    def accepts(self, scores: Scores, request: Request | Dense, gradient: bool) -> bool:
        """Values as wide as the keys; plain, causal or with one bias."""
        query, key, mask = scores.query, scores.key, scores.mask
        if gradient and torch.are_deterministic_algorithms_enabled():
            return False  # these kernels add up the gradients of queries in any order
        assert isinstance(request, Attend)
        if scores.scale <= 0 or request.operand.shape != key.shape or query.shape[-1] % 8:
            return False
        whole = scores.rows == range(scores.shape[2]) and scores.columns == range(scores.shape[3])
        if mask.bands and not (mask.plain_causal and whole and query.shape[2] == key.shape[2]):
            return False
        if mask.biases and (gradient or mask.bands or not whole or not self._takes_bias(scores)):
            return False
        kernel = self.kernel(scores, request.operand)
        kernels = (_FLASH, _CUDNN) if gradient else (_FLASH, _EFFICIENT, _CUDNN)
        return kernel in kernels and (kernel, scores.group > 1) not in self.refused

    def _takes_bias(self, scores: Scores) -> bool:
        """cuDNN's kernel is faster with a bias than all others, but the bias must be bfloat16, as the query."""
        query, bias = scores.query, scores.mask.biases[0]
        enabled: bool = torch.backends.cuda.cudnn_sdp_enabled()  # type: ignore[no-untyped-call]
        fits = query.dtype == bias.dtype == torch.bfloat16 and query.shape[-1] <= 128  # float16 hides at -65,504 too
        return enabled and fits and bias.data_ptr() % 16 == 0 and len(scores.mask.biases) == 1

    def kernel(self, scores: Scores, value: Tensor) -> int:
        """The number of the kernel that torch itself would choose; with a bias, cuDNN's."""
        if scores.mask.biases:
            return _CUDNN
        return int(
            torch._fused_sdp_choice(
                scores.query, scores.key, value, None, 0.0, bool(scores.mask), scale=scores.scale,
                enable_gqa=scores.group > 1,
            )
        )  # fmt: skip

    def forward(self, scores: Scores, request: Attend) -> tuple[Tensor, Tensor]:
        """(weights @ value, logsumexp), without sinks."""
        tensors = aligned(scores.query), aligned(scores.key), aligned(request.operand)
        kernel, causal, scale = self.kernel(scores, request.operand), bool(scores.mask.bands), scores.scale
        bias = scores.mask.biases[0] if scores.mask.biases else None
        ops: Any = torch.ops.aten
        try:
            if kernel == _CUDNN:
                results = ops._scaled_dot_product_cudnn_attention(*tensors, bias, True, 0.0, causal, False, scale=scale)
            elif kernel == _EFFICIENT:
                results = ops._scaled_dot_product_efficient_attention(*tensors, None, True, 0.0, causal, scale=scale)
            else:
                results = ops._scaled_dot_product_flash_attention(*tensors, 0.0, causal, False, scale=scale)
        except (RuntimeError, AttributeError, TypeError) as error:
            self.refused.add((kernel, scores.group > 1))
            raise Refused(str(error)) from error
        output, lse = results[:2]
        shape = scores.shape[:3]
        if lse.numel() != math.prod(shape):  # rows padded to whole blocks
            lse = lse[..., : shape[2]]
        lse = lse.reshape(shape)
        if bias is not None and not triton.rescale(output, lse, None):  # a bias of -1e38 hides a key as -inf does
            blind = lse < HIDING
            output, lse = output.masked_fill(blind[..., None], 0.0), lse.masked_fill(blind, -math.inf)
        return output, lse

    def add_sinks(self, output: Tensor, lse: Tensor, sinks: Tensor) -> tuple[Tensor, Tensor]:
        """Count the sinks in place, by one kernel where Triton is installed."""
        return (output, lse) if triton.rescale(output, lse, sinks) else super().add_sinks(output, lse, sinks)

    def backward(self, scores: Scores, task: Backward) -> Gradients:
        """Gradients of weights @ value; with sinks too, whose share is in the normaliser and in the result."""
        assert isinstance(task.request, Attend)
        query, key, value = aligned(scores.query), aligned(scores.key), aligned(task.request.operand)
        causal, result = bool(scores.mask.bands), aligned(task.result)
        ops: Any = torch.ops.aten
        seed = query.new_zeros((), dtype=torch.int64)
        ends, lengths = (None, None), scores.shape[2:]
        grad, lse = aligned(task.grad.to(query.dtype)), task.lse.float()
        if self.kernel(scores, task.request.operand) == _CUDNN:
            # torch keeps cuDNN's graphs by the layout of query, key and value alone. A graph would read a gradient of
            # another layout than that of its first call at the wrong places.
            strides = torch.empty_like(query, device="meta").stride()
            grad, result = (
                each if each.stride() == strides else torch.empty_like(query).copy_(each) for each in (grad, result)
            )
            gradients = ops._scaled_dot_product_cudnn_attention_backward(
                grad, query, key, value, result, lse[..., None].contiguous(), seed, seed, None, *ends, *lengths, 0.0,
                causal, scale=scores.scale,
            )  # fmt: skip
        else:
            gradients = ops._scaled_dot_product_flash_attention_backward(
                grad, query, key, value, result, lse.contiguous(), *ends, *lengths, 0.0, causal, seed, seed,
                scale=scores.scale,
            )  # fmt: skip
        return Gradients(*gradients[:3])


backend = TorchCUDA()
