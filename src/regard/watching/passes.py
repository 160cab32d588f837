"""`Pass`: everything that was seen of a model on one text, or on one batch of texts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from regard.errors import InputError
from regard.watching.entry import Entry
from regard.watching.take import Take
from regard.watching.tokens import Tokens

__all__ = ["Pass", "Vocabulary"]


class Vocabulary:
    """Where the words come from: a tokenizer that reads the ids a model was given, or tokens told by the user."""

    def __init__(self, tokenizer: Any = None, tokens: Sequence[str] | Sequence[Sequence[str]] | None = None):
        self._tokenizer = tokenizer
        self._told: list[Tokens] | None = None
        if tokens is not None:
            if isinstance(tokens, str) or not len(tokens):
                raise InputError(f"tokens are a list of strings, or one such list for each sequence. Got {tokens!r}.")
            many = [tokens] if isinstance(tokens[0], str) else tokens
            self._told = [Tokens([str(token) for token in text]) for text in many]

    def told(self, length: int, batch: int) -> list[Tokens] | None:
        """What the user told, where it fits."""
        if self._told is None or {len(text) for text in self._told} != {length}:
            return None
        return self._told if len(self._told) == batch else None

    def read(self, ids: Tensor) -> list[Tokens] | None:
        """The tokens of ids (batch, tokens)."""
        if self._tokenizer is None:
            return None
        special = list(getattr(self._tokenizer, "all_special_tokens", ()))
        return [Tokens(self._tokenizer.convert_ids_to_tokens(row), special, self._tokenizer) for row in ids.tolist()]


class Pass:
    """The takes of one text by name, and the ids that the model was given."""

    def __init__(self, vocabulary: Vocabulary):
        self.takes: dict[str, Take] = {}
        self._vocabulary = vocabulary
        self._ids: dict[str, list[Tensor]] = {}
        self._entries: dict[str, tuple[int, Entry]] = {}

    def was_given(self, ids: dict[str, Tensor]) -> None:
        """Ids that reached these modules; in a generation, one step after the other."""
        for name, some in ids.items():
            self._ids.setdefault(name, []).append(some)

    def entries(self) -> dict[str, Entry]:
        """What was seen, by module name."""
        return {name: self._entry(name, take) for name, take in self.takes.items()}

    def _entry(self, name: str, take: Take) -> Entry:
        calls, entry = self._entries.get(name, (0, None))
        if entry is None or calls != take.calls:
            entry = Entry(name, take.kind, _layer(name), take.source(), take.matrix(), take.kept, calls=take.calls)
            batch, _, queries, keys = entry.shape
            entry.ids = self._given(name, queries, batch)
            entry.tokens = self._tokens(entry.ids, queries, batch)
            cross = take.kind == "cross"
            entry.key_ids = self._given("encoder.", keys, batch) if cross else entry.ids if queries == keys else None
            entry.key_tokens = self._tokens(entry.key_ids, keys, batch)
            self._entries[name] = take.calls, entry
        return entry

    def _given(self, name: str, length: int, batch: int) -> Tensor | None:
        """The ids that the nearest module around this one was given, if there are as many as tokens."""
        near = sorted(self._ids, key=lambda module: (not name.startswith(module), -len(module)))
        for module in near:
            ids = torch.cat([step.cpu() for step in self._ids[module]], -1)
            if ids.shape[-1] == length and batch % ids.shape[0] == 0:
                return ids.repeat_interleave(batch // ids.shape[0], 0)
        return None

    def _tokens(self, ids: Tensor | None, length: int, batch: int) -> list[Tokens] | None:
        told = self._vocabulary.told(length, batch)
        return told if told is not None or ids is None else self._vocabulary.read(ids)


def _layer(name: str) -> int:
    """The number of a layer: the first in its name; the times it ran before, where it runs several times.

    >>> _layer("encoder.block.2.layer.0.SelfAttention"), _layer("albert.layers.0.attention#3"), _layer("attention")
    (2, 3, 0)
    """
    if "#" in name:
        return int(name.rpartition("#")[2])
    found = re.search(r"(?:^|\.)(\d+)(?:\.|$)", name)
    return int(found[1]) if found else 0
