"""What is removed from a text before a model reads it, and where it goes back: by the alignment of the words.

That is what the vocabulary cannot spell (emoji, other scripts), markup, and facts for which there is no mark.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from typing import NamedTuple

__all__ = ["Gap", "Placeholders", "Removed"]

_CLOSING = ",.;:!?…)"


class Removed(NamedTuple):
    """A part of a text that the model does not see, as it will be in the translation."""

    text: str
    pair: int = 0  # of markup: n for what opens the n-th pair, -n for what closes it


class Gap(NamedTuple):
    """A place of a text from which something was removed."""

    words: int  # before it
    text: str  # what was removed
    spaced: bool  # whether a space precedes it
    followed: bool = True  # whether a space follows it
    mark: str = ""  # the full stop or comma that follows it
    pair: int = 0


@dataclass(frozen=True)
class Placeholders:
    """A text without what a vocabulary cannot spell (emoji, other scripts), and where that has to go back.

    A letter that is unknown only because of its accent is read without it. Whole `Removed` parts are taken out as well.

    >>> found = Placeholders.find("Hi 😀 you, Ana!😀", lambda letter: letter.isascii())
    >>> found.readable, [(gap.words, gap.text, gap.spaced) for gap in found.removed]
    ('Hi you, Ana!', [(1, '😀', True), (3, '😀', False)])
    >>> found.put_back("Salut toi, Ana !", [[0.9, 0.1, 0.0], [0.2, 0.8, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 1.0]])
    'Salut 😀 toi, Ana !😀'
    """

    readable: str
    removed: tuple[Gap, ...]

    @classmethod
    def find(cls, text: str | Sequence[str | Removed], knows: Callable[[str], bool]) -> Placeholders:
        """Separate the characters that a vocabulary knows from those it does not."""
        parts = [text] if isinstance(text, str) else text
        whole = "".join(part for part in parts if isinstance(part, str))
        if all(isinstance(part, str) for part in parts) and all(map(knows, {*whole.replace(" ", "")})):
            return cls(" ".join(whole.split()), ())  # nothing to remove, as in most texts
        letters: list[str | Removed] = [letter for part in parts for letter in _letters(part)]
        spelling: dict[str, str] = {}
        for each in {letter for letter in letters if isinstance(letter, str)}:
            if not each.isspace() and knows(each):
                spelling[each] = each
            elif (plain := unicodedata.normalize("NFKD", each)[:1]) != each and plain.isalpha() and knows(plain):
                spelling[each] = plain
        readable: list[str] = []
        removed: list[Gap] = []
        unknown: list[str | Removed] = []  # what is removed next
        words, before = 0, " "  # the number of words so far, and the letter before this one
        for letter in [*letters, " "]:
            if isinstance(letter, Removed) or (letter not in spelling and not letter.isspace()):
                unknown.append(letter)
                continue
            if unknown:
                closing = letter in _CLOSING
                removed += _gaps(unknown, words, before.isspace(), letter if closing else "", letter.isspace())
                if closing and before.isspace() and readable:  # the full stop belongs to the word before
                    readable.pop()
                    before = readable[-1] if readable else " "
                elif letter in spelling and not before.isspace() and not closing:  # it separated words, as a space does
                    readable.append(" ")
                    before = " "
                unknown = []
            words += letter in spelling and before.isspace()
            before = spelling.get(letter, letter)
            readable.append(before)
        return cls(" ".join("".join(readable).split()), tuple(removed))

    def put_back(
        self, text: str, alignment: Sequence[Sequence[float]], finish: Callable[[str], str] = lambda text: text
    ) -> str:
        """Insert what was removed into a translation: at its ends as in the source, otherwise by the alignment.

        `alignment` has a row for each word of the translation and a column for each word of the readable text. `finish`
        is applied to the parts of the translation, and not to what is inserted.
        """
        words, total = text.split(), len(self.readable.split())
        sums = [[0.0, *accumulate(row)] for row in alignment]

        @cache
        def target(place: int) -> int:
            if place == 0 or not words:
                return 0
            return len(words) if place >= total else _gap([2 * row[place] - row[-1] for row in sums])

        spans = _spans(self.removed, alignment) if words else {}
        insertions: dict[int, list[Gap]] = {}
        for gap in self.removed:
            insertions.setdefault(spans[gap.pair] if gap.pair in spans else target(gap.words), []).append(gap)
        out: list[str] = []
        spaced = False  # whether a space belongs after what is there
        start = last = 0  # last: where the words end, or a mark that was moved, before any markup that closes
        opened: set[int] = set()  # pairs
        moved: set[int] = set()  # places of marks that were
        for end in sorted({*insertions, len(words)}):
            if end > start:
                out += [" " if spaced else "", finish(" ".join(words[start:end]))]
                last = len(out) - 1
            spaced = end > 0
            for gap in sorted(insertions.get(end, ()), key=lambda gap: gap.pair >= 0):  # what closes comes first
                mark, place = _moved(gap, out[-1]) if out else "", -1
                if not mark and _closes_french(gap) and -gap.pair in opened and out[last].endswith(","):
                    # « <b>oui,</b> », and not only « oui, »; a comma alone is what is quoted. A full stop stays inside.
                    mark, place = "," if len(out[last]) > 1 or last in moved else "", last
                if mark:
                    out[place] = out[place].removesuffix(mark)
                out += [" " if gap.spaced and out else "", gap.text, mark]
                last = len(out) - 1 if mark or gap.pair >= 0 else last
                opened.add(gap.pair)
                if mark:
                    moved.add(last)
                spaced = gap.followed
            start = end
        return "".join(out)


def _moved(gap: Gap, before: str) -> str:
    """The full stop or comma at the end of the text before, if it belongs after what is inserted."""
    mark = before[-1:] if _closes_french(gap) and before[-1:] in (".", ",") else gap.mark
    return mark if mark and before.endswith(mark) and len(before) > 1 else ""


def _closes_french(gap: Gap) -> bool:
    return gap.pair < 0 and gap.text.endswith("»")


def _gaps(unknown: Sequence[str | Removed], words: int, spaced: bool, mark: str, followed: bool) -> Iterator[Gap]:
    """What was removed from one place: letters in a row together, other parts one by one."""
    parts: list[Removed] = []
    letters: list[str] = []
    for part in [*unknown, Removed("")]:
        if isinstance(part, str):
            letters.append(part)
            continue
        if letters:
            parts.append(Removed("".join(letters)))
        parts.append(part)
        letters = []
    parts = [part for part in parts if part.text]
    for n, part in enumerate(parts):
        last = n == len(parts) - 1
        # Letters that the vocabulary does not know separate words, whatever follows.
        glued = isinstance(unknown[0], Removed) and not followed and not mark
        yield Gap(words, part.text, spaced and n == 0, last and not glued, mark if last else "", part.pair)


def _spans(removed: Sequence[Gap], alignment: Sequence[Sequence[float]]) -> dict[int, int]:
    """Where markup opens and closes: around the words that look most at the words inside of it."""
    opens = {gap.pair: gap.words for gap in removed if gap.pair > 0}
    closes = {-gap.pair: gap.words for gap in removed if gap.pair < 0}
    received = [sum(column) or 1.0 for column in zip(*alignment, strict=True)]
    found: dict[int, int] = {}
    for pair in opens.keys() & closes.keys():
        inside = range(opens[pair], closes[pair])
        if not inside or not received:
            continue
        shares = [[row[n] / received[n] for n in range(len(received))] for row in alignment]
        chosen = [n for n, row in enumerate(shares) if max(range(len(row)), key=row.__getitem__) in inside]
        totals = [sum(row[column] for column in inside if column < len(row)) for row in shares]
        best = totals.index(max(totals))
        start, end = best, best + 1
        while start - 1 in chosen:
            start -= 1
        while end in chosen:
            end += 1
        found |= {pair: start, -pair: end}
    return found


def _letters(part: str | Removed) -> Iterable[str | Removed]:
    return [part] if isinstance(part, Removed) else part


def _gap(leaning: list[float]) -> int:
    """The place between words that best separates those aligned to the left (positive) from those to the right."""
    sums = [0.0, *accumulate(leaning)]
    return sums.index(max(sums))
