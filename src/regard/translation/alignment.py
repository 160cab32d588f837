"""`align`: which words of a source each word of its target looked at, from the decoder's attention to the source."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from regard.matrix import AttentionMatrix
from regard.nn import DecoderLayer, Transformer
from regard.support import Float

__all__ = ["align", "by_words"]


@torch.no_grad()
def align(model: Transformer, source: Sequence[int], target: Sequence[int]) -> Float[Tensor, "target source"]:
    """How much each target token, while it was being chosen, looked at each source token: the mean of all heads.

    >>> import regard
    >>> model = regard.Transformer(regard.TransformerConfig.tiny(vocabulary=50)).eval()
    >>> weights = align(model, [5, 6, 7, 0], [8, 9])
    >>> weights.shape, bool(torch.allclose(weights.sum(-1), torch.ones(2)))
    (torch.Size([2, 4]), True)
    """
    device = model.embedding.weight.device
    # The place of a token is where the one before it went in: there it was chosen.
    before = torch.tensor([[model.config.start, *target[:-1]]], device=device)
    with _kept(model) as seen:
        model.states(before, model.encode(torch.tensor([list(source)], device=device)))
    return torch.stack(seen).mean(0).float().cpu()


@contextmanager
def _kept(model: Transformer) -> Iterator[list[Tensor]]:
    """While it is open, the weights of every cross-attention are kept, mean over heads: (target, source) each."""
    layers = [layer.cross for layer in model.decoder.layers if isinstance(layer, DecoderLayer)]
    usual = [layer.attend for layer in layers]
    seen: list[Tensor] = []

    def attend(query: Tensor, key: Tensor, value: Tensor, *, mask: Any = None, dropout: float = 0.0) -> Tensor:
        matrix = AttentionMatrix(query, key, mask=mask)
        seen.append(matrix[0].mean(0))
        return matrix.attend(value, dropout)

    try:
        for layer in layers:
            layer.attend = attend
        yield seen
    finally:
        for layer, own in zip(layers, usual, strict=True):
            layer.attend = own


def by_words(
    weights: Float[Tensor, "target source"], rows: Sequence[int], columns: Sequence[int]
) -> Float[Tensor, "words others"]:
    """Weights of tokens as weights of words: `rows` and `columns` say which word a token belongs to.

    A word is looked at as much as all its tokens are, and looks as its tokens do on average; what tokens beyond
    `columns` (the end) were given is shared out, so that each row is 1.

    >>> by_words(torch.tensor([[0.2, 0.2, 0.1, 0.5], [0.0, 0.4, 0.4, 0.2]]), rows=[0, 1], columns=[0, 0, 1])
    tensor([[0.8000, 0.2000],
            [0.5000, 0.5000]])
    """
    count, others = (max(owner, default=-1) + 1 for owner in (rows, columns))
    summed = weights.new_zeros(len(weights), others).index_add_(1, torch.tensor(columns), weights[:, : len(columns)])
    words = weights.new_zeros(count, others).index_add_(0, torch.tensor(rows), summed)
    return words / words.sum(-1, keepdim=True).clamp_min(1e-9)
