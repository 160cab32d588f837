"""The online softmax over tiles: the normaliser of each row, and weights @ value."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from regard.backends.contract import Dropout
from regard.backends.normaliser import HIDDEN, LN2
from regard.backends.tiles.tile import Tile, dropout_factor, each_tile
from regard.scores import Scores
from regard.support import Float, no_autocast

__all__ = ["forward", "logsumexp"]


@no_autocast
def logsumexp(scores: Scores) -> Float[Tensor, "batch heads queries"]:
    """log Σ exp of each row of masked scores (without sinks), in float64: a running maximum and a running sum."""
    peak, total = _running(scores)
    for tile in each_tile(scores, None):
        _absorb(tile, peak, total)
    return _close(peak, total)


@no_autocast
def forward(
    scores: Scores, value: Float[Tensor, "batch key_heads keys any"], dropout: Dropout | None = None
) -> tuple[Float[Tensor, "batch heads queries any"], Float[Tensor, "batch heads queries"]]:
    """(weights @ value, logsumexp), without sinks."""
    batch, heads, queries, _ = scores.shape
    peak, total = _running(scores)
    value = value.to(scores.working_dtype)
    output = value.new_zeros(batch, heads, queries, value.shape[-1])
    for tile in each_tile(scores, None):
        shrink = _absorb(tile, peak, total)  # tile.log2 now holds unnormalised weights
        weights = tile.log2 if dropout is None else tile.log2 * dropout_factor(dropout, tile)
        v = value[tile.batch, tile.key_heads, tile.columns].reshape(tile.lanes, -1, value.shape[-1])
        out = output[tile.batch, tile.heads, tile.rows]
        out.mul_(shrink[..., None]).add_((tile.grouped(weights) @ v).view(out.shape))
    output.div_(total[..., None].clamp_min(torch.finfo(total.dtype).tiny))
    lse = _close(peak, total)
    output.masked_fill_((lse == -math.inf)[..., None], 0.0)
    return output.to(scores.query.dtype), lse


def _running(scores: Scores) -> tuple[Tensor, Tensor]:
    peak = scores.query.new_full(scores.shape[:3], HIDDEN, dtype=scores.working_dtype)
    return peak, torch.zeros_like(peak)


def _absorb(tile: Tile, peak: Tensor, total: Tensor) -> Tensor:
    """Update the running maximum and sum with a tile; its logits become weights relative to the new maximum."""
    old, summed = (t[tile.batch, tile.heads, tile.rows] for t in (peak, total))
    new = torch.maximum(old, tile.log2.amax(-1))
    shrink = torch.exp2(old - new)
    torch.exp2(tile.log2.sub_(new[..., None]), out=tile.log2)
    summed.mul_(shrink).add_(tile.log2.sum(-1))
    old.copy_(new)
    return shrink


def _close(peak: Tensor, total: Tensor) -> Tensor:
    return torch.where(peak > HIDDEN / 2, (peak.double() + torch.log2(total)) * LN2, -math.inf)
