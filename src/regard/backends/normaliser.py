"""The row normaliser (logsumexp) as data: how many digits it has, and what it is in base 2."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from regard.scores import HIDING, Scores

__all__ = ["HIDDEN", "LN2", "LOG2E", "TRUSTED", "capturing", "share", "trusted", "with_sinks"]

TRUSTED = 256.0  # up to here a float32 logsumexp gives weights right to about 1e-5; beyond, more digits are kept
# The logit of a hidden key, far below any bias that does not hide: exp2 gives an exact 0, and 0 × HIDDEN stays 0 where
# 0 × -inf would be NaN.
HIDDEN = 10 * HIDING
LOG2E, LN2 = math.log2(math.e), math.log(2.0)


def capturing(tensor: Tensor) -> bool:
    """Whether a CUDA graph is being captured: tensors on the GPU cannot be read back then."""
    return tensor.device.type == "cuda" and torch.cuda.is_current_stream_capturing()


def trusted(lse: Tensor, dtype: torch.dtype) -> bool:
    """Whether a normaliser has digits enough for all that is computed from it, for queries of this dtype."""
    if lse.dtype == torch.float64 or capturing(lse):
        return True
    if lse.device.type == "cuda" and dtype == torch.bfloat16:
        return True  # float32 is as good as bfloat16 up to logits of 1e4, and asking would wait for the GPU
    return not bool(((lse.abs() > TRUSTED) & (lse != -math.inf)).any())


def share(part: Tensor, whole: Tensor) -> Tensor:
    """exp(part - whole): the share of a normaliser that some of its terms make up; 0 where the row sees nothing."""
    return torch.exp(part - whole.masked_fill(whole == -math.inf, 0.0))


def with_sinks(scores: Scores, lse: Tensor) -> Tensor:
    """The normaliser with the sinks of these scores counted."""
    return lse if scores.sinks is None else torch.logaddexp(lse, scores.sinks.to(lse.dtype)[..., None])
