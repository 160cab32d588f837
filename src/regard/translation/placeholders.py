"""`Islands`: what a vocabulary cannot spell (emoji, other scripts), taken out of a text and put back later."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass

__all__ = ["Islands"]


@dataclass(frozen=True)
class Islands:
    """A text without what cannot be read, and the islands: after how many of its words each of them stood.

    A letter that only its accent makes unknown is read without it.

    >>> found = Islands.find("Hi 😀 you, Ana!😀", lambda letter: letter.isascii())
    >>> found
    Islands(readable='Hi you, Ana!', places=((1, '😀', True), (3, '😀', False)))
    >>> found.put_back("Salut toi, Ana !", [[0.9, 0.1, 0.0], [0.2, 0.8, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 1.0]])
    'Salut 😀 toi, Ana !😀'
    """

    readable: str
    places: tuple[tuple[int, str, bool], ...]  # (words before it, what it is, whether a space was before it)

    @classmethod
    def find(cls, text: str, knows: Callable[[str], bool]) -> Islands:
        """Tell apart what a vocabulary knows, character by character, and what it does not."""
        known: dict[str, str] = {}
        for letter in set(text):
            if not letter.isspace() and knows(letter):
                known[letter] = letter
            elif (plain := unicodedata.normalize("NFKD", letter)[:1]) != letter and plain.isalpha() and knows(plain):
                known[letter] = plain
        readable, places, island = "", [], ""
        for letter in text + " ":
            if letter in known or letter.isspace():
                if island and not (letter.isspace() and not island.strip()):
                    words = len(readable.split())
                    places.append((words, island, not readable or readable[-1].isspace()))
                    # The island parts words, as a space does
                    readable += "" if not readable or readable[-1].isspace() else " " if letter in known else ""
                island = ""
                readable += known.get(letter, letter)
            else:
                island += letter
        return cls(" ".join(readable.split()), tuple(places))

    def put_back(self, text: str, alignment: Sequence[Sequence[float]]) -> str:
        """The islands in an answer: at its ends as in the source, else between the words that look left and right.

        `alignment` has a row for each word of the answer and a column for each word of the readable text.
        """
        words, total = text.split(), len(self.readable.split())
        after: dict[int, str] = {}
        for place, island, spaced in self.places:
            if place == 0 or not words:
                at = 0
            elif place >= total:
                at = len(words)
            else:
                at = _gap([sum(row[:place]) - sum(row[place:]) for row in alignment])
            after[at] = after.get(at, "") + (" " if spaced and (at or at in after) else "") + island
        out = after.get(0, "")
        for n, word in enumerate(words, 1):
            out += (" " if out else "") + word + after.get(n, "")
        return out


def _gap(leaning: list[float]) -> int:
    """The place that has most of what leans left before it and most of what leans right after it."""
    sums = [sum(leaning[:place]) for place in range(len(leaning) + 1)]
    return sums.index(max(sums))
