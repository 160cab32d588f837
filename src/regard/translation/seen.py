"""`seen`: the attention of a model on a source and its translation, token by token, as a `Record`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from regard.errors import InputError
from regard.nn import Transformer
from regard.translation.segment import Part
from regard.translation.vocabulary import Vocabulary

if TYPE_CHECKING:
    from regard.watching import Record

__all__ = ["seen"]


class _Names:
    """As much of a tokenizer as `watch` asks for: a name for each id."""

    def __init__(self, words: Vocabulary):
        self._words = words
        self.all_special_tokens = words.pieces([words.end, words.unknown, words.pad])

    def convert_ids_to_tokens(self, ids: Sequence[int]) -> list[str]:
        return self._words.pieces(ids)

    def convert_tokens_to_string(self, pieces: Sequence[str]) -> str:
        return "".join(pieces).replace("▁", " ")


def seen(model: Transformer, parts: Sequence[Part]) -> Record:
    """One pass for each part that was translated; its decoder reads a start token and then what it said."""
    from regard.watching import watch

    said = [part for part in parts if part.found and part.found[0].tokens]
    if not said:
        raise InputError("there is nothing to watch: no word of the text was translated.")
    device, words = model.embedding.weight.device, said[0].words
    with torch.no_grad(), watch(model, tokenizer=_Names(words)) as record:
        for part in said:
            source, target = [*part.ids, words.end], [model.config.start, *part.found[0].tokens]
            model(torch.tensor([source], device=device), torch.tensor([target], device=device))
    return record
