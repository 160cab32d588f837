"""How the matrix is computed. `forward` and `logsumexp` choose the backend, in this one place.

reference.py   NumPy, float64: the definition that every other path is held to
fused.py       torch's flash kernel on the CPU, for any mask
tiled.py       plain torch in tiles, any device: reductions, gradients, and whatever has no fused kernel
reductions.py  what one walk over the tiles can gather
gradients.py   the same results as functions that autograd knows
"""

from __future__ import annotations

import torch
from torch import Tensor

from regard.backends import fused, tiled
from regard.scores import Scores
from regard.shapes import Float

__all__ = ["forward", "logsumexp"]


def forward(
    scores: Scores, value: Float[Tensor, "batch key_heads keys any"], dropout: tiled.Dropout | None = None
) -> tuple[Float[Tensor, "batch heads queries any"], Float[Tensor, "batch heads queries"]]:
    """(weights @ value, logsumexp), sinks included, by the fastest backend that can."""
    if dropout is None and fused.suits(scores):
        output, lse = fused.forward(scores, value)
    else:
        output, lse = tiled.forward(scores, value, dropout)
    if scores.sinks is None:
        return output, lse
    # A sink is one more key whose value is 0: it only widens the normaliser.
    widened = _with_sinks(scores, lse)
    return (output * tiled.share(lse, widened)[..., None]).to(output.dtype), widened


def logsumexp(scores: Scores) -> Float[Tensor, "batch heads queries"]:
    """log Σ exp of each row, sinks included."""
    lse = tiled.logsumexp(scores)
    return lse if scores.sinks is None else _with_sinks(scores, lse)


def _with_sinks(scores: Scores, lse: Tensor) -> Tensor:
    assert scores.sinks is not None
    return torch.logaddexp(lse, scores.sinks.to(lse.dtype)[..., None])
