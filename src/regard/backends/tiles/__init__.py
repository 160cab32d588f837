"""The backend that supports everything: plain torch, any device, any mask, O(tokens) memory.

tile.py        the matrix in tiles, one after the other
reductions.py  the online softmax over them, and an accumulator for each reduction, all fed in one pass
gradients.py   the gradient of each result
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from regard.backends.contract import Attend, Backend, Gradients, Reduction, Request, Result
from regard.backends.tiles import gradients, reductions
from regard.backends.tiles.tile import each_tile
from regard.scores import Scores

__all__ = ["backend"]


class Tiles(Backend):
    """Everything, in tiles of plain torch."""

    name = "tiles"

    def supports(self, scores: Scores, request: Request, *, gradient: bool = False, biases: bool = False) -> bool:
        """Always."""
        return True

    def forward(self, scores: Scores, request: Attend) -> tuple[Tensor, Tensor]:
        """(weights @ value, logsumexp), without sinks."""
        return reductions.forward(scores, request.value, request.dropout)

    def logsumexp(self, scores: Scores) -> Tensor:
        """The row normaliser without sinks, in float64."""
        return reductions.logsumexp(scores)

    def reduce(self, scores: Scores, lse: Tensor, requests: Sequence[Reduction]) -> list[Result]:
        """All reductions in one pass."""
        return reductions.reduce(scores, each_tile(scores, lse), requests)

    def backward(
        self, scores: Scores, request: Request, result: Tensor, lse: Tensor, grad: Tensor, *, subtract: bool = True,
        biases: bool = False,
    ) -> Gradients:  # fmt: skip
        """Gradients of anything but `Top` and maxima; those of the biases always come along."""
        return gradients.backward(scores, request, result, lse, grad, subtract)


backend = Tiles()
