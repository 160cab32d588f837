"""torch's fused kernels on a GPU: the very one that `scaled_dot_product_attention` would choose, with its logsumexp.

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

__all__ = ["backend"]

_FLASH, _EFFICIENT, _CUDNN = 1, 2, 3  # torch's own numbers for its backends


class TorchCUDA(Backend):
    """torch's fused kernels on a GPU: plain or causal, and their backward; with a bias, the one that takes biases."""

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
        if len(mask.biases) > 1:
            return False
        if mask.bands and not (mask.plain_causal and whole and query.shape[2] == key.shape[2]):
            return False
        if mask.biases:
            return not gradient and not mask.bands and whole and self._takes_bias(scores)
        kernel = self.kernel(scores, request.operand)
        if gradient and kernel not in (_FLASH, _CUDNN):
            return False
        return kernel in (_FLASH, _EFFICIENT, _CUDNN) and (kernel, scores.group > 1) not in self.refused

    def _takes_bias(self, scores: Scores) -> bool:
        """cuDNN's kernel is faster with a bias than any other, but it takes one of the query's dtype only."""
        query, (bias,) = scores.query, scores.mask.biases
        enabled: bool = torch.backends.cuda.cudnn_sdp_enabled()  # type: ignore[no-untyped-call]
        fits = query.dtype == bias.dtype == torch.bfloat16 and query.shape[-1] <= 128  # float16 hides at -65,504 too
        return enabled and fits and bias.data_ptr() % 16 == 0 and (_CUDNN, scores.group > 1) not in self.refused

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
        query, key, value = aligned(scores.query), aligned(scores.key), aligned(request.operand)
        kernel, causal = self.kernel(scores, request.operand), bool(scores.mask.bands)
        bias = scores.mask.biases[0] if scores.mask.biases else None
        ops: Any = torch.ops.aten
        try:
            if kernel == _CUDNN:
                output, lse = ops._scaled_dot_product_cudnn_attention(
                    query, key, value, bias, True, 0.0, causal, False, scale=scores.scale
                )[:2]
            elif kernel == _EFFICIENT:
                output, lse = ops._scaled_dot_product_efficient_attention(
                    query, key, value, None, True, 0.0, causal, scale=scores.scale
                )[:2]
            else:
                output, lse = ops._scaled_dot_product_flash_attention(
                    query, key, value, 0.0, causal, False, scale=scores.scale
                )[:2]
        except (RuntimeError, AttributeError, TypeError) as error:
            self.refused.add((kernel, scores.group > 1))
            raise Refused(str(error)) from error
        if lse.numel() != query[..., 0].numel():  # rows padded to whole blocks
            lse = lse[..., : query.shape[2]]
        lse = lse.reshape(query.shape[:3])
        if bias is not None and not triton.rescale(output, lse, None):  # a bias of -1e38 hides a key as -inf does
            blind = lse < HIDING
            output, lse = output.masked_fill(blind[..., None], 0.0), lse.masked_fill(blind, -math.inf)
        return output, lse

    def add_sinks(self, output: Tensor, lse: Tensor, sinks: Tensor) -> tuple[Tensor, Tensor]:
        """Count the sinks in place, by one kernel where Triton is installed."""
        return (output, lse) if triton.rescale(output, lse, sinks) else super().add_sinks(output, lse, sinks)

    def backward(self, scores: Scores, task: Backward) -> Gradients:
        """Gradients of weights @ value; with sinks too, whose share is in the normaliser and in the result."""
        request = task.request
        assert isinstance(request, Attend)
        query, key, value = aligned(scores.query), aligned(scores.key), aligned(request.operand)
        causal, result = bool(scores.mask.bands), aligned(task.result)
        ops: Any = torch.ops.aten
        seed = query.new_zeros((), dtype=torch.int64)
        ends, lengths = (None, None), scores.shape[2:]
        grad, lse = aligned(task.grad.to(query.dtype)), task.lse.float()
        if self.kernel(scores, request.operand) == _CUDNN:
            found = ops._scaled_dot_product_cudnn_attention_backward(
                grad, query, key, value, result, lse[..., None].contiguous(), seed, seed, None, *ends, *lengths, 0.0,
                causal, scale=scores.scale,
            )  # fmt: skip
        else:
            found = ops._scaled_dot_product_flash_attention_backward(
                grad, query, key, value, result, lse.contiguous(), *ends, *lengths, 0.0, causal, seed, seed,
                scale=scores.scale,
            )  # fmt: skip
        d_query, d_key, d_value = found[:3]
        return Gradients(d_query, d_key, d_value, (), None)


backend = TorchCUDA()
