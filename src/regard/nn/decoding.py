"""Decoding token by token: one protocol, `DecodingSession`, and `PlainSession`, the model itself with a cache."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from regard.nn.transformer import Memory, Transformer
from regard.support import Float, Int

__all__ = ["DecodingSession", "PlainSession", "start_decoding"]


@runtime_checkable
class DecodingSession(Protocol):
    """Targets that grow by one token at a time, the same number for each source, those of one source in a row."""

    def step(self, tokens: Int[Tensor, " rows"]) -> Float[Tensor, "rows vocabulary"]:
        """Append a token to each target; returns the log-probabilities of the token after it."""

    def reorder(self, rows: Int[Tensor, " kept"], sources: Int[Tensor, " open"] | None = None) -> None:
        """Continue with these targets, in this order, and with these sources if some are finished."""


def start_decoding(model: Transformer, source: Int[Tensor, "batch tokens"]) -> DecodingSession:
    """A session over these sources, with one target for each to begin with.

    >>> import torch, regard
    >>> model = regard.Transformer(regard.TransformerConfig.tiny(vocabulary=50)).eval()
    >>> session = start_decoding(model, torch.randint(1, 49, (2, 6)))
    >>> session.step(torch.tensor([49, 49])).shape
    torch.Size([2, 50])
    >>> session.reorder(torch.tensor([0, 0, 0, 1, 1, 1]))           # three targets for each source from here on
    >>> session.step(torch.arange(6)).shape
    torch.Size([6, 50])
    """
    return PlainSession(model, model.encode(source))


class PlainSession:
    """The model itself, with a cache."""

    def __init__(self, model: Transformer, memory: Memory):
        self.model, self.memory, self.cache = model, memory, model.cache()

    def step(self, tokens: Int[Tensor, " rows"]) -> Float[Tensor, "rows vocabulary"]:
        """Append a token to each target; returns the log-probabilities of the token after it."""
        logits = self.model.decode(tokens[:, None], self.memory, self.cache)[:, -1].float()
        logits[:, self.model.config.pad] = -torch.inf  # padding is never generated
        return torch.log_softmax(logits, -1)

    def reorder(self, rows: Int[Tensor, " kept"], sources: Int[Tensor, " open"] | None = None) -> None:
        """Continue with these targets, in this order, and with these sources if some are finished."""
        self.memory = self.memory if sources is None else self.memory.pick(sources)
        self.cache.pick(rows, sources)
