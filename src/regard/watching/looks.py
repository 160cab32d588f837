"""`Looks`: what a word looks at, or what looks at it, in falling order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, overload

import torch
from torch import Tensor

from regard.drawing.terminal import labelled_bar, visible
from regard.errors import InputError
from regard.support import Float
from regard.watching.entry import Entry
from regard.watching.tokens import Tokens, Word

__all__ = ["Look", "Looks", "by_word", "key_side", "looked_at", "looks", "query_side"]

_SHOWN = 5  # looks on a printed line
_BAR = 20  # cells of a bar that stands for all attention


class Look(NamedTuple):
    """One word, its share, and its first token."""

    word: str
    weight: float
    position: int


@dataclass(frozen=True)
class Looks(Sequence[Look]):
    """Words and their shares, the greatest first.

    >>> print(Looks("it", (Look("dog", 0.61, 1), Look("hungry", 0.14, 7))))
    it ━━━━━━━━━━━━ dog 61 %  ━━━ hungry 14 %
    """

    word: str
    found: tuple[Look, ...]

    def __len__(self) -> int:
        return len(self.found)

    @overload
    def __getitem__(self, index: int) -> Look: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Look, ...]: ...
    def __getitem__(self, index: int | slice) -> Look | tuple[Look, ...]:
        return self.found[index]

    def __str__(self) -> str:
        return "  ".join(
            [visible(self.word), *(labelled_bar(look.word, look.weight, _BAR) for look in self.found[:_SHOWN])]
        ).replace("  ", " ", 1)

    def of(self, word: str) -> float:
        """The share of a word, all its occurrences together.

        >>> Looks("it", (Look("dog", 0.5, 1), Look("dog", 0.25, 9))).of("dog")
        0.75
        """
        return sum(look.weight for look in self.found if look.word.casefold() == word.casefold())


def looks(entries: Sequence[Entry], what: str | int | range, sequence: int) -> Looks:
    """What a word looks at, the mean over all heads of these entries."""
    places = query_side(entries[0], sequence).find(what)
    total, heads = torch.zeros(()), 0
    for entry in entries:
        rows = entry.matrix[sequence, :, places.start : places.stop, :]
        total, heads = total + rows.float().mean(1).sum(0), heads + rows.shape[0]
    return by_word(_said(entries[0], what, sequence), key_side(entries[0], sequence), total / heads)


def looked_at(entries: Sequence[Entry], what: str | int | range, sequence: int) -> Looks:
    """What looks at a word: the share that each other word gives to it, the mean over all heads."""
    places = key_side(entries[0], sequence).find(what)
    total, heads = torch.zeros(()), 0
    for entry in entries:
        columns = entry.matrix[sequence, :, :, places.start : places.stop]
        total, heads = total + columns.float().sum(-1).sum(0), heads + columns.shape[0]
    side = query_side(entries[0], sequence)
    given = [Look(w.text, float((total / heads)[w.start : w.stop].mean()), w.start) for w in side.words]
    said = what if isinstance(what, str) else key_side(entries[0], sequence).word_at(places.start).text
    return Looks(said, tuple(sorted(given, key=lambda look: -look.weight)))


def by_word(said: str, side: Tokens, weights: Float[Tensor, " keys"]) -> Looks:
    """Weights of tokens as shares of words."""
    shares = [Look(w.text, float(weights[w.start : w.stop].sum()), w.start) for w in side.words]
    return Looks(said, tuple(sorted(shares, key=lambda look: -look.weight)))


def query_side(entry: Entry, sequence: int) -> Tokens:
    """The tokens that look; numbers, where nobody told their words."""
    return _side(entry, entry.tokens, entry.shape[2], sequence)


def key_side(entry: Entry, sequence: int) -> Tokens:
    """The tokens that are looked at."""
    return _side(entry, entry.key_tokens, entry.shape[3], sequence)


def _side(entry: Entry, tokens: Sequence[Tokens] | None, length: int, sequence: int) -> Tokens:
    if not 0 <= sequence < entry.shape[0]:
        raise InputError(f"the batch has {entry.shape[0]} sequences, numbered from 0. Got sequence = {sequence}.")
    if tokens is not None:
        return tokens[sequence]
    return Tokens.numbered(length)


def _said(entry: Entry, what: str | int | range, sequence: int) -> str:
    if isinstance(what, str):
        return what
    side = query_side(entry, sequence)
    places = side.find(what)
    words = [word for word in side.words if word.stop > places.start and word.start < places.stop]
    return " ".join(map(_text, words))


def _text(word: Word) -> str:
    return word.text
