"""`Call`: one attention call of a model. `Source`: what an attention matrix is made of."""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import Tensor

from regard.matrix import AttentionMatrix
from regard.scores import Mask
from regard.support import Float
from regard.watching.pattern import Pattern

__all__ = ["Call", "Source"]


@dataclass(frozen=True, eq=False)
class Source:
    """What an attention matrix is made of: what a record keeps, saves and opens again.

    >>> import torch
    >>> Source(torch.zeros(1, 2, 5, 8), torch.zeros(1, 1, 5, 8), Mask()).matrix().shape
    torch.Size([1, 2, 5, 5])
    """

    query: Float[Tensor, "batch heads queries width"]
    key: Float[Tensor, "batch key_heads keys width"]
    mask: Mask
    scale: float | None = None
    softcap: float | None = None
    sinks: Tensor | None = None

    def matrix(self) -> AttentionMatrix:
        """The matrix itself, not computed yet."""
        return AttentionMatrix(
            self.query, self.key, mask=self.mask, scale=self.scale, softcap=self.softcap, sinks=self.sinks
        )

    def detach(self) -> Source:
        """The same outside any graph."""
        sinks = None if self.sinks is None else self.sinks.detach()
        return replace(self, query=self.query.detach(), key=self.key.detach(), sinks=sinks)


@dataclass(frozen=True, eq=False)
class Call:
    """One call as the model made it, and where its queries and keys lie in the whole text."""

    source: Source
    kind: str  # "encoder", "decoder" or "cross"
    queries: range
    keys: range
    pattern: Pattern  # the part of the mask that is a rule
    dense: Mask  # the part that the model gave as queries × keys numbers
