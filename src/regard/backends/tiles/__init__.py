"""The backend that supports everything: plain torch, any device, any mask, O(tokens) memory.

tile.py        the matrix in tiles, one after the other
reductions.py  the online softmax over tiles, and an accumulator for each reduction, all in one pass
gradients.py   the gradient of each result
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

from torch import Tensor

from regard.backends.contract import Attend, Backend, Backward, Capabilities, Gradients, Reduction, Result
from regard.backends.tiles import gradients, reductions
from regard.backends.tiles.tile import each_tile
from regard.scores import Scores
from regard.support import threads

__all__ = ["backend"]

_LONG = 2**23  # weights from which on a sweep asks how many cores are idle, which takes a fraction of a millisecond


class Tiles(Backend):
    """Everything, in tiles of plain torch."""

    name = "tiles"
    can = Capabilities(dropout=True, empty=True, bias_gradients=True, always=True)

    def forward(self, scores: Scores, request: Attend) -> tuple[Tensor, Tensor]:
        """(weights @ value, logsumexp), without sinks."""
        return reductions.forward(scores, request.operand, request.dropout)

    def logsumexp(self, scores: Scores) -> Tensor:
        """The row normaliser without sinks, in float64."""
        with _idle_cores_only(scores):
            return reductions.logsumexp(scores)

    def reduce(self, scores: Scores, lse: Tensor, requests: Sequence[Reduction]) -> list[Result]:
        """All reductions in one pass."""
        with _idle_cores_only(scores):
            return reductions.reduce(scores, each_tile(scores, lse), requests)

    def backward(self, scores: Scores, task: Backward) -> Gradients:
        """Gradients of all results but `Top` and maxima, including the biases."""
        return gradients.backward(scores, task)


def _idle_cores_only(scores: Scores) -> AbstractContextManager[object]:
    """Two threads that share each of many tiles are up to ten times slower than one if another process has a core."""
    long = scores.query.device.type == "cpu" and math.prod(scores.shape) >= _LONG
    return threads() if long else nullcontext()


backend = Tiles()
