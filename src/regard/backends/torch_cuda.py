"""The fused forward on a GPU: the very kernel that `scaled_dot_product_attention` would choose, with its logsumexp.

Those kernels hand out the logsumexp only through torch's private operators; where a version lacks one, or refuses,
the Triton forward of sweep.py takes its place.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from regard.scores import Scores
from regard.support import Float

__all__ = ["forward", "suits"]

_FLASH, _EFFICIENT, _CUDNN = 1, 2, 3  # as torch numbers its backends
_DTYPES = (torch.float16, torch.bfloat16, torch.float32)
_DEVICE = "cuda"  # the tests say "cpu", where Triton's interpreter is
_refused: set[tuple[int, bool]] = set()  # (backend, grouped heads) that this torch cannot do


def suits(scores: Scores, value: Float[Tensor, "batch key_heads keys any"]) -> bool:
    """Whether one of torch's kernels can do it: plain or causal, all of one width."""
    query, key, mask = scores.query, scores.key, scores.mask
    if query.device.type != _DEVICE or query.dtype not in _DTYPES or 0 in scores.shape:
        return False
    if scores.softcap is not None or scores.scale <= 0 or value.shape != key.shape or query.shape[-1] % 8:
        return False
    whole = scores.rows == range(scores.shape[2]) and scores.columns == range(scores.shape[3])
    causal = mask.plain_causal and mask.only_bands and whole and query.shape[2] == key.shape[2]
    if mask and not causal:
        return False
    kind = _choice(scores, value)
    return kind in (_FLASH, _EFFICIENT, _CUDNN) and (kind, scores.group > 1) not in _refused


def _choice(scores: Scores, value: Tensor) -> int:
    """What torch itself would take."""
    return int(
        torch._fused_sdp_choice(
            scores.query, scores.key, value, None, 0.0, bool(scores.mask), scale=scores.scale,
            enable_gqa=scores.group > 1,
        )
    )  # fmt: skip


def forward(
    scores: Scores, value: Float[Tensor, "batch key_heads keys any"]
) -> tuple[Float[Tensor, "batch heads queries any"], Float[Tensor, "batch heads queries"]] | None:
    """(weights @ value, logsumexp), without sinks; None where this torch cannot after all."""
    kind, query, key = _choice(scores, value), scores.query, scores.key
    causal, grouped = bool(scores.mask), scores.group > 1
    ops: Any = torch.ops.aten
    try:
        if kind == _CUDNN:
            output, lse = ops._scaled_dot_product_cudnn_attention(
                query, key, value, None, True, 0.0, causal, False, scale=scores.scale
            )[:2]
        elif kind == _EFFICIENT:
            output, lse = ops._scaled_dot_product_efficient_attention(
                query, key, value, None, True, 0.0, causal, scale=scores.scale
            )[:2]
        else:
            output, lse = ops._scaled_dot_product_flash_attention(
                query, key, value, 0.0, causal, False, scale=scores.scale
            )[:2]
    except (RuntimeError, AttributeError, TypeError):
        _refused.add((kind, grouped))
        return None
    if lse.numel() != query[..., 0].numel():  # rows padded to whole blocks
        lse = lse[..., : query.shape[2]]
    return output, lse.reshape(query.shape[:3])
