"""What a model attends to while it translates: `align`, cross-attention by token and word; `record_attention`, all."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from regard.nn import Transformer
from regard.support import Float
from regard.translation.vocabulary import Vocabulary
from regard.watching import Record, watch

__all__ = ["align", "by_words", "record_attention"]


@torch.no_grad()
def align(model: Transformer, source: Sequence[int], target: Sequence[int]) -> Float[Tensor, "target source"]:
    """How much each target token, while it was predicted, attended to each source token: the mean over all heads.

    >>> import regard
    >>> model = regard.Transformer(regard.TransformerConfig.tiny(vocabulary=50)).eval()
    >>> weights = align(model, [5, 6, 7, 0], [8, 9])
    >>> weights.shape, bool(torch.allclose(weights.sum(-1), torch.ones(2)))
    (torch.Size([2, 4]), True)
    """
    device = model.embedding.weight.device
    memory = model.encode(torch.tensor([list(source)], device=device))
    # A token is predicted at the place where the one before it is the input.
    inputs = torch.tensor([[model.config.start, *target[:-1]]], device=device)
    with watch(model.decoder) as record:
        model.states(inputs, memory)
    layers = [entry[0].mean(0) for entry in record.values() if entry.kind == "cross"]
    return torch.stack(layers).mean(0).float().cpu()


def by_words(
    weights: Float[Tensor, "target source"], rows: Sequence[int], columns: Sequence[int]
) -> Float[Tensor, "words others"]:
    """Weights between tokens as weights between words: `rows` and `columns` hold the word index of each token.

    A word receives the sum over its tokens, and attends as their mean; the weight on tokens beyond `columns` (the end)
    is redistributed, so that each row sums to 1.

    >>> by_words(torch.tensor([[0.2, 0.2, 0.1, 0.5], [0.0, 0.4, 0.4, 0.2]]), rows=[0, 1], columns=[0, 0, 1])
    tensor([[0.8000, 0.2000],
            [0.5000, 0.5000]])
    """
    words, others = (max(owner, default=-1) + 1 for owner in (rows, columns))
    received = weights.new_zeros(len(weights), others)
    received.index_add_(1, torch.tensor(columns), weights[:, : len(columns)])
    total = weights.new_zeros(words, others).index_add_(0, torch.tensor(rows), received)
    return total / total.sum(-1, keepdim=True).clamp_min(1e-9)


def record_attention(
    model: Transformer, vocabulary: Vocabulary, pairs: Sequence[tuple[Sequence[int], Sequence[int]]]
) -> Record:
    """All attention of a model on pairs of source and target ids, one pass each, as `watch` records it."""
    device = model.embedding.weight.device
    with torch.no_grad(), watch(model, tokenizer=_Tokenizer(vocabulary)) as record:
        for source, target in pairs:
            inputs = [model.config.start, *target]
            model(torch.tensor([[*source, vocabulary.end]], device=device), torch.tensor([inputs], device=device))
    return record


class _Tokenizer:
    """The part of a Hugging Face tokenizer's interface that `watch` uses."""

    def __init__(self, vocabulary: Vocabulary):
        self._vocabulary = vocabulary
        self.all_special_tokens = vocabulary.pieces([vocabulary.end, vocabulary.unknown, vocabulary.pad])

    def convert_ids_to_tokens(self, ids: Sequence[int]) -> list[str]:
        return self._vocabulary.pieces(ids)

    def convert_tokens_to_string(self, pieces: Sequence[str]) -> str:
        return "".join(pieces).replace("▁", " ")
