"""From a text to the segments that a model can read: sentences, long ones cut, and placeholders for the unreadable.

A sentence ends at . ! ? or … (and closing quotes or brackets after it), if white space follows and then a capital, a
digit, or an opening quote or bracket. Not at
  titles and abbreviations        Mr. Dr. Prof. St. vs. e.g. i.e.
  initials                        J. R. Smith, the U.S. President
  the sign of a number            No. 5
  three dots before "I"           Well... I think so.
A blank line always ends one.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import accumulate
from typing import NamedTuple

from regard.translation.vocabulary import Vocabulary, clean

__all__ = ["Placeholders", "Segment", "Sentence", "split_segments", "split_sentences"]

# A run of marks is read once, from its first: else a text of dots would be read again from each of them.
_END = re.compile(r"""(?<![.!?…])[.!?…]++["'”’»)\]]*+(?=\s)|\n[^\S\n]*+(?=\n)""")
_SPACE, _OPENINGS = re.compile(r"\s*+"), re.compile(r"""["'“‘«(\[¿¡–—-]*+""")
_ABBREVIATIONS = frozenset(
    ["mr", "mrs", "ms", "mx", "dr", "prof", "rev", "gen", "col", "capt", "lt", "sgt", "st", "mt", "vs", "e.g", "i.e",
     "cf", "fig", "vol", "pp", "approx", "mme", "mlle", "m"]
)  # fmt: skip
_I = re.compile(r"I\b")
_INITIALS = re.compile(r"(?:[A-HJ-Z]|(?:\w\.)+[A-Z])")
_OPENING = "\"'“‘«([¿¡-–—"
_LONGEST_WORD = 64  # letters looked at before a full stop; no abbreviation is longer


# Sentences


class Sentence(NamedTuple):
    """A sentence, and the white space that follows it."""

    text: str
    gap: str


def split_sentences(text: str) -> list[Sentence]:
    """The sentences of a text; texts and gaps concatenated are the text again.

    >>> [s.text for s in split_sentences('Mr. Smith left. "Why?" he asked... Nobody knew.')]
    ['Mr. Smith left.', '"Why?" he asked...', 'Nobody knew.']
    >>> split_sentences("One.  Two.\\n")
    [Sentence(text='One.', gap='  '), Sentence(text='Two.', gap='\\n')]
    """
    sentences, start = [], 0
    for match in _END.finditer(text):
        end = match.end()
        if end <= start:  # inside the gap before this sentence
            continue
        after = _end_of(_SPACE, text, end)
        if after < len(text) and _ends(text, start, match, after):
            stripped = text[start:end].rstrip()
            sentences.append(Sentence(stripped, text[start + len(stripped) : after]))
            start = after
    last = text[start:].rstrip()
    if text[start:]:
        sentences.append(Sentence(last, text[start + len(last) :]))
    return sentences


def _ends(text: str, start: int, match: re.Match[str], after: int) -> bool:
    """Whether the sentence from `start` ends at this mark; the text goes on at `after`."""
    mark, gap = match.group(), text[match.end() : after]
    if mark.startswith("\n") or "\n\n" in re.sub(r"[^\S\n]", "", gap):
        return True
    place = _end_of(_OPENINGS, text, after)
    first = text[place : place + 1]
    if not first or first.islower():
        return False
    before = text[max(start, match.start() - _LONGEST_WORD) : match.start()].split()
    last = before[-1].lstrip(_OPENING) if before else ""
    if mark == ".":
        if last.lower() in _ABBREVIATIONS or _INITIALS.fullmatch(last):
            return False
        if last.lower() in ("no", "nos") and first.isdigit():
            return False
    dots = mark.startswith(("..", "…"))
    return not (dots and _I.match(text, after))


def _end_of(pattern: re.Pattern[str], text: str, start: int) -> int:
    found = pattern.match(text, start)
    return start if found is None else found.end()


# What the vocabulary cannot spell


@dataclass(frozen=True)
class Placeholders:
    """A text without what a vocabulary cannot spell (emoji, other scripts), and where that has to go back.

    A letter that is unknown only because of its accent is read without it.

    >>> found = Placeholders.find("Hi 😀 you, Ana!😀", lambda letter: letter.isascii())
    >>> found
    Placeholders(readable='Hi you, Ana!', removed=((1, '😀', True), (3, '😀', False)))
    >>> found.put_back("Salut toi, Ana !", [[0.9, 0.1, 0.0], [0.2, 0.8, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 1.0]])
    'Salut 😀 toi, Ana !😀'
    """

    readable: str
    removed: tuple[tuple[int, str, bool], ...]  # (number of words before it, its text, whether a space precedes it)

    @classmethod
    def find(cls, text: str, knows: Callable[[str], bool]) -> Placeholders:
        """Separate the characters that a vocabulary knows from those it does not."""
        spelling: dict[str, str] = {}
        for letter in set(text):
            if not letter.isspace() and knows(letter):
                spelling[letter] = letter
            elif (plain := unicodedata.normalize("NFKD", letter)[:1]) != letter and plain.isalpha() and knows(plain):
                spelling[letter] = plain
        readable: list[str] = []
        removed: list[tuple[int, str, bool]] = []
        unknown: list[str] = []  # the letters of what is removed next
        words, before = 0, " "  # the number of words so far, and the letter before this one
        for letter in text + " ":
            if letter in spelling or letter.isspace():
                if unknown:
                    removed.append((words, "".join(unknown), before.isspace()))
                    if letter in spelling and not before.isspace():  # it separated words, as a space does
                        readable.append(" ")
                        before = " "
                    unknown = []
                words += letter in spelling and before.isspace()
                before = spelling.get(letter, letter)
                readable.append(before)
            else:
                unknown.append(letter)
        return cls(" ".join("".join(readable).split()), tuple(removed))

    def put_back(self, text: str, alignment: Sequence[Sequence[float]]) -> str:
        """Insert what was removed into a translation: at its ends as in the source, otherwise by the alignment.

        `alignment` has a row for each word of the translation and a column for each word of the readable text.
        """
        words, total = text.split(), len(self.readable.split())
        sums = [[0.0, *accumulate(row)] for row in alignment]

        @cache
        def target(place: int) -> int:
            if place == 0 or not words:
                return 0
            return len(words) if place >= total else _gap([2 * row[place] - row[-1] for row in sums])

        after: dict[int, list[str]] = {}
        for place, unknown, spaced in self.removed:
            at = target(place)
            space = " " if spaced and (at or at in after) else ""
            after.setdefault(at, []).append(space + unknown)
        out = ["".join(after.get(0, ()))]
        for n, word in enumerate(words, 1):
            out += [" " if n > 1 or out[0] else "", word, *after.get(n, ())]
        return "".join(out)


def _gap(leaning: list[float]) -> int:
    """The place between words that best separates those aligned to the left (positive) from those to the right."""
    sums = [0.0, *accumulate(leaning)]
    return sums.index(max(sums))


# Segments


@dataclass(frozen=True)
class Segment:
    """What is translated in one go: a sentence, or as much of it as a model can take.

    Text without a letter is copied. What the vocabulary cannot spell is removed, and put back into the translation.
    A text in capitals is read in lower case, and translated into capitals.

    >>> words = Vocabulary.train(["A dog ate.", "The dog ran.", "Un chien court."] * 9, size=40)
    >>> Segment.read("THE DOG RAN 😀", "", words).placeholders.readable, Segment.read("1 + 1 = 2", "", words).ids
    ('The dog ran', [])
    """

    text: str
    gap: str  # the white space after it
    vocabulary: Vocabulary = field(repr=False)
    ids: list[int]  # none: it is copied
    placeholders: Placeholders
    capitals: bool

    @classmethod
    def read(cls, text: str, gap: str, vocabulary: Vocabulary, knows: Callable[[str], bool] | None = None) -> Segment:
        """Prepare a text for the model; `knows` answers as `vocabulary.knows`, from a cache where there are many."""
        capitals = text.isupper() and len(text.split()) > 1
        cleaned = clean(text)
        if capitals:
            cleaned = re.sub(r"\bi\b", "I", cleaned.lower())
            cleaned = re.sub(r"[^\W\d_]", lambda first: first.group().upper(), cleaned, count=1)
        placeholders = Placeholders.find(cleaned, vocabulary.knows if knows is None else knows)
        has_letters = any(letter.isalpha() for letter in placeholders.readable)
        ids = vocabulary.encode(placeholders.readable) if has_letters else []
        return cls(text, gap, vocabulary, ids, placeholders, capitals)


def split_segments(text: str, vocabulary: Vocabulary, longest: int, split: bool) -> list[Segment]:
    """Segments of at most `longest` tokens: sentences if the text is too long or `split` is set, cut where they must.

    >>> words = Vocabulary.train(["A dog ate.", "The dog ran.", "Un chien court."] * 9, size=40)
    >>> [segment.text for segment in split_segments("A dog ate. The dog ran.", words, 100, split=True)]
    ['A dog ate.', 'The dog ran.']
    """

    knows = cache(vocabulary.knows)

    def read(text: str, gap: str) -> Segment:
        return Segment.read(text, gap, vocabulary, knows)

    def count(text: str) -> int:
        forms = [text, text.lower()] if text.isupper() else [text]  # it may be read as part of a text in capitals
        return max(len(vocabulary.encode(Placeholders.find(clean(form), knows).readable)) for form in forms)

    whole = read(text.strip(), text[len(text.rstrip()) :])
    if not split and len(whole.ids) <= longest:
        return [whole] if whole.text else []
    segments = []
    for sentence in split_sentences(text.lstrip()):
        segment = read(sentence.text, sentence.gap)
        if len(segment.ids) <= longest:
            segments.append(segment)
        else:
            segments += [read(*part) for part in _cut(sentence, count, longest)]
    return segments


def _cut(sentence: Sentence, count: Callable[[str], int], longest: int) -> Iterator[Sentence]:
    """Cut a sentence at its last comma that fits, else at the last word; a word that is too long, anywhere."""
    text = sentence.text
    pieces = list(_pieces(text, count, longest))
    start = first = 0  # of the next segment: its place in the text, its first piece
    while start < len(text):
        tokens, last = 0, first
        while last < len(pieces) and (tokens := tokens + pieces[last][1]) <= longest:
            last += 1
        last = max(last, first + 1)
        end = pieces[last - 1][0]
        if end < len(text):
            commas = [m.end() for m in re.finditer(r"[,;:](?=\s)", text[start:end])]
            end = start + commas[-1] if commas else end
        after = _end_of(_SPACE, text, end)
        yield Sentence(text[start:end], text[end:after] if after < len(text) else sentence.gap)
        start = after
        while first < len(pieces) and pieces[first][0] <= start:
            first += 1


def _pieces(text: str, count: Callable[[str], int], longest: int) -> Iterator[tuple[int, int]]:
    """Where each word ends, and its number of tokens; a word of more than `longest` tokens is several pieces."""
    for word in re.finditer(r"\S+", text):
        start, tokens = word.start(), count(word.group())
        if tokens <= longest:
            yield word.end(), tokens
            continue
        while start < word.end():
            sizes = range(min(longest, word.end() - start), 0, -1)
            size, tokens = next(
                ((n, found) for n in sizes if (found := count(text[start : start + n])) <= longest), (1, longest)
            )
            start += size
            yield start, tokens
