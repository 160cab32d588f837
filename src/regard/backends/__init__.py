"""How the matrix is computed. `forward`, `logsumexp` and `reduce` choose the backend, in this one place.

reference.py   NumPy, float64: the definition that every other path is held to
fused.py       torch's flash kernel on the CPU, for any mask
cuda.py        torch's fused kernels on a GPU, plain and causal
sweep.py       Triton on a GPU: any mask, forward, gradients and reductions; its kernels are in the files *kernels.py
tiled.py       plain torch in tiles, any device: reductions, gradients, and whatever has no fused kernel
reductions.py  what one walk over the tiles can gather
gradients.py   the same results as functions that autograd knows
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from regard.backends import tiles as tiled
from regard.backends import torch_cpu as fused
from regard.backends import torch_cuda as cuda
from regard.backends.triton import launch as sweep
from regard.scores import Scores
from regard.support import Float

__all__ = ["for_tiles", "forward", "logsumexp", "reduce"]


def forward(
    scores: Scores, value: Float[Tensor, "batch key_heads keys any"], dropout: tiled.Dropout | None = None
) -> tuple[Float[Tensor, "batch heads queries any"], Float[Tensor, "batch heads queries"]]:
    """(weights @ value, logsumexp), sinks included, by the fastest backend that can."""
    output, lse = _plain(scores, value) if dropout is None else tiled.forward(scores, value, dropout)
    if scores.sinks is None:
        return output, lse
    # A sink is one more key whose value is 0: it only widens the normaliser.
    widened = _with_sinks(scores, lse)
    return (output * tiled.share(lse, widened)[..., None]).to(output.dtype), widened


def _plain(scores: Scores, value: Tensor) -> tuple[Tensor, Tensor]:
    if fused.suits(scores):
        return fused.forward(scores, value)
    if cuda.suits(scores, value):
        found = cuda.forward(scores, value)
        if found is not None:
            return found
    if sweep.suits(scores, value):
        return sweep.forward(scores, value)
    return tiled.forward(scores, value)


def logsumexp(scores: Scores) -> Float[Tensor, "batch heads queries"]:
    """log Σ exp of each row, sinks included."""
    lse = sweep.logsumexp(scores) if sweep.suits(scores) else tiled.logsumexp(scores)
    return lse if scores.sinks is None else _with_sinks(scores, lse)


def reduce(scores: Scores, normaliser: Float[Tensor, "batch heads queries"], wanted: Sequence[tiled.Reduction]) -> None:
    """Gather these reductions, those that the GPU's kernels know by them, in as few walks as can be."""
    ours = [r for r in wanted if sweep.takes(scores, r)] if sweep.suits(scores) else []
    if ours:
        sweep.sweep(scores, normaliser, ours)
    others = [r for r in wanted if r not in ours]
    if others:
        tiled.sweep(scores, for_tiles(scores, normaliser), others)


def for_tiles(scores: Scores, normaliser: Float[Tensor, "batch heads queries"]) -> Float[Tensor, "batch heads queries"]:
    """The normaliser that tiles need: theirs are other products than the kernels', and large ones differ."""
    if normaliser.dtype != torch.float64 or not sweep.suits(scores):
        return normaliser  # of tiles, or small
    apart = tiled.logsumexp(scores) - sweep.logsumexp(scores)
    return normaliser + apart.nan_to_num(0.0, 0.0, 0.0)


def _with_sinks(scores: Scores, lse: Tensor) -> Tensor:
    assert scores.sinks is not None
    return torch.logaddexp(lse, scores.sinks.to(lse.dtype)[..., None])
