"""`Tokens`: the tokens of one text, and the words that they spell."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, overload

from regard.errors import InputError

__all__ = ["Tokens", "Word"]

_STARTS = ("Ġ", "▁")  # how byte-level and SentencePiece tokens say that a space comes before them
_PIECES = re.compile(r"\w+|[^\w\s]")


@dataclass(frozen=True)
class Word:
    """A word and the tokens `start:stop` that spell it."""

    text: str
    start: int
    stop: int

    @property
    def tokens(self) -> range:
        """Its positions."""
        return range(self.start, self.stop)


class Tokens(Sequence[str]):
    """Tokens as the tokenizer wrote them, and the words they make.

    >>> tokens = Tokens(["▁A", "▁hun", "gry", "▁dog", "."])
    >>> [word.text for word in tokens.words]
    ['A', 'hungry', 'dog', '.']
    >>> tokens.find("hungry dog")
    range(1, 4)
    """

    def __init__(
        self,
        pieces: Sequence[str],
        special: Sequence[str] = (),
        tokenizer: Any = None,
        words: Sequence[Word] | None = None,
    ):
        self.pieces = tuple(pieces)
        self.named = True  # False: nobody told the words, and tokens are called by their number
        self._special = frozenset(special)
        self._tokenizer = tokenizer
        self.words = self._words() if words is None else tuple(words)

    @classmethod
    def numbered(cls, length: int) -> Tokens:
        """Tokens that nobody knows the words of."""
        numbers = cls([str(n) for n in range(length)])
        numbers.named = False
        return numbers

    def __len__(self) -> int:
        return len(self.pieces)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[str]: ...
    def __getitem__(self, index: int | slice) -> str | Sequence[str]:
        return self.pieces[index]

    def __repr__(self) -> str:
        return f"Tokens({list(self.pieces)})"

    def word_at(self, position: int) -> Word:
        """The word that a token belongs to."""
        return next(word for word in self.words if position in word.tokens)

    def has(self, what: str) -> bool:
        """Whether a word, or some words in a row, occur."""
        return bool(self._found(what, str.casefold))

    def find(self, what: str | int | range) -> range:
        """The tokens of a word or of some words in a row, or of a position; it must occur once."""
        if isinstance(what, range):
            if not 0 <= what.start < what.stop <= len(self) or what.step != 1:
                raise InputError(f"tokens are counted from 0 to {len(self) - 1}. Got {what}.")
            return what
        if isinstance(what, int):
            if not -len(self) <= what < len(self):
                raise InputError(f"tokens are counted from 0 to {len(self) - 1}. Got {what}.")
            return range(what % len(self), what % len(self) + 1)
        if not self.named:
            raise InputError(f'"{what}" cannot be found: watch with tokenizer=… or tokens=[…], or give its number.')
        found = self._found(what, str) or self._found(what, str.casefold)
        if not found:
            raise InputError(f'"{what}" is not in the text. Its words are: {self._shown()}.')
        if len(found) > 1:
            places = ", ".join(str(place.start) for place in found)
            raise InputError(f'"{what}" occurs {len(found)} times, at tokens {places}. Give one of these numbers.')
        return found[0]

    def _found(self, what: str, read: Any) -> list[range]:
        whole = [place.tokens for place in self.words if read(place.text) == read(what)]
        if whole:
            return whole
        # Some words in a row, or a part of one ("hungry" in "hungry."): compared piece by piece.
        pieces = [(read(piece), word) for word in self.words for piece in _PIECES.findall(word.text)]
        wanted = [read(piece) for piece in _PIECES.findall(what)]
        if not wanted:
            return []
        runs = (pieces[n : n + len(wanted)] for n in range(len(pieces) - len(wanted) + 1))
        return [range(run[0][1].start, run[-1][1].stop) for run in runs if [piece for piece, _ in run] == wanted]

    def _shown(self) -> str:
        texts = [word.text for word in self.words]
        return " ".join(texts if len(texts) <= 30 else [*texts[:15], "…", *texts[-15:]])

    def _words(self) -> tuple[Word, ...]:
        marked = any(piece.startswith(_STARTS) for piece in self.pieces)
        words: list[list[int]] = []
        for place in range(len(self.pieces)):
            if words and self._continues(place, marked):
                words[-1].append(place)
            else:
                words.append([place])
        return tuple(Word(self._text(run), run[0], run[-1] + 1) for run in words)

    def _continues(self, place: int, marked: bool) -> bool:
        """Whether a token goes on with the word of the token before it."""
        piece, before = self.pieces[place], self.pieces[place - 1]
        if {piece, before} & self._special:
            return False
        if piece.startswith("##"):
            return True
        if not marked or piece.startswith((*_STARTS, "Ċ", "<0x0A>")) or before.startswith(("Ċ", "<0x0A>")):
            return False
        # In marked tokens nothing stands between "hungry" and ".": punctuation is a word of its own.
        return _spells(piece) == _spells(before)

    def _text(self, places: Sequence[int]) -> str:
        pieces = [self.pieces[place] for place in places]
        if self._tokenizer is not None and not set(pieces) & self._special:
            text = str(self._tokenizer.convert_tokens_to_string(pieces)).strip()
            if text:
                return text
        joined = "".join(piece.removeprefix("##") for piece in pieces)
        return joined.lstrip("".join(_STARTS)) or joined


def _spells(piece: str) -> bool:
    """Whether it has letters or digits: those of other scripts come as bytes, which look like letters too."""
    return any(character.isalnum() for character in piece.lstrip("".join(_STARTS)))
