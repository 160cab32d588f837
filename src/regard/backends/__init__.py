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
from typing import Any

import torch
from torch import Tensor

from regard.backends import contract, reductions
from regard.backends import tiles as tiled
from regard.backends import torch_cpu as fused
from regard.backends import torch_cuda as cuda
from regard.backends.triton import backend as triton
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
    if triton.supports(scores, contract.Attend(value)):
        return triton.forward(scores, contract.Attend(value))
    return tiled.forward(scores, value)


def logsumexp(scores: Scores) -> Float[Tensor, "batch heads queries"]:
    """log Σ exp of each row, sinks included."""
    lse = triton.logsumexp(scores) if triton.supports(scores, contract.LogSumExp()) else tiled.logsumexp(scores)
    return lse if scores.sinks is None else _with_sinks(scores, lse)


def reduce(scores: Scores, normaliser: Float[Tensor, "batch heads queries"], wanted: Sequence[tiled.Reduction]) -> None:
    """Gather these reductions, those that the GPU's kernels know by them, in as few walks as can be."""
    ours = [r for r in wanted if (asked := _request(r)) is not None and triton.supports(scores, asked)]
    if ours:
        _by_triton(scores, normaliser, ours)
    others = [r for r in wanted if r not in ours]
    if others:
        tiled.sweep(scores, for_tiles(scores, normaliser), others)


def _request(reduction: Any) -> Any:
    """Temporary: an accumulator of the tiled backend as a request."""
    if isinstance(reduction, reductions.Received):
        return contract.Received(reduction.reduce)
    if isinstance(reduction, reductions.Entropy):
        return contract.Entropy()
    if isinstance(reduction, reductions.Top):
        return contract.Top(reduction.k)
    if isinstance(reduction, reductions.Pool):
        return contract.Pool(reduction.shape[2], reduction.shape[3], reduction.reduce)
    return contract.TransposedProduct(reduction.x) if isinstance(reduction, reductions.Reverse) else None


def _by_triton(scores: Scores, normaliser: Tensor, ours: Any) -> None:
    """Temporary: results into the accumulators."""
    ours = list(ours)
    for pool in [r for r in ours if isinstance(r, reductions.Pool) and r.received is not None]:
        if not any(r is pool.received for r in ours):
            ours.append(pool.received)
    results = triton.reduce(scores, normaliser, [_request(r) for r in ours])
    for r, result in zip(ours, results, strict=True):
        if isinstance(r, reductions.Top):
            r.settled = True
            r.best, r.keys = result
        else:
            r.result = lambda result=result: result  # type: ignore[misc]


def for_tiles(scores: Scores, normaliser: Float[Tensor, "batch heads queries"]) -> Float[Tensor, "batch heads queries"]:
    """The normaliser that tiles need: theirs are other products than the kernels', and large ones differ."""
    if normaliser.dtype != torch.float64 or not triton.supports(scores, contract.LogSumExp()):
        return normaliser  # of tiles, or small
    apart = tiled.logsumexp(scores) - triton.logsumexp(scores)
    return normaliser + apart.nan_to_num(0.0, 0.0, 0.0)


def _with_sinks(scores: Scores, lse: Tensor) -> Tensor:
    assert scores.sinks is not None
    return torch.logaddexp(lse, scores.sinks.to(lse.dtype)[..., None])
