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
from typing import NamedTuple

from regard.translation.vocabulary import Vocabulary, clean

__all__ = ["Placeholders", "Segment", "Sentence", "split_segments", "split_sentences"]

_END = re.compile(r"""[.!?…]+["'”’»)\]]*(?=\s)|\n[^\S\n]*(?=\n)""")
_ABBREVIATIONS = frozenset(
    ["mr", "mrs", "ms", "mx", "dr", "prof", "rev", "gen", "col", "capt", "lt", "sgt", "st", "mt", "vs", "e.g", "i.e",
     "cf", "fig", "vol", "pp", "approx", "mme", "mlle", "m"]
)  # fmt: skip
_INITIALS = re.compile(r"(?:[A-HJ-Z]|(?:\w\.)+[A-Z])")
_OPENING = "\"'“‘«([¿¡-–—"


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
        rest = text[match.end() :]
        gap = rest[: len(rest) - len(rest.lstrip())]
        if match.end() > start and rest.strip() and _ends(text[start : match.start()], match.group(), gap, rest):
            body = text[start : match.end()]
            stripped = body.rstrip()
            sentences.append(Sentence(stripped, body[len(stripped) :] + gap))
            start = match.end() + len(gap)
    last = text[start:].rstrip()
    if text[start:]:
        sentences.append(Sentence(last, text[start + len(last) :]))
    return sentences


def _ends(before: str, mark: str, gap: str, rest: str) -> bool:
    """Whether a sentence ends at this mark."""
    if mark.startswith("\n") or "\n\n" in re.sub(r"[^\S\n]", "", gap):
        return True
    following = rest.lstrip()
    first = following.lstrip(_OPENING)[:1]
    if not first or first.islower():
        return False
    last = before.split()[-1].lstrip(_OPENING) if before.split() else ""
    if mark == ".":
        if last.lower() in _ABBREVIATIONS or _INITIALS.fullmatch(last):
            return False
        if last.lower() in ("no", "nos") and first.isdigit():
            return False
    dots = mark.startswith(("..", "…"))
    return not (dots and re.match(r"I\b", following))


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
        readable, removed, unknown = "", [], ""
        for letter in text + " ":
            if letter in spelling or letter.isspace():
                if unknown and not (letter.isspace() and not unknown.strip()):
                    words = len(readable.split())
                    removed.append((words, unknown, not readable or readable[-1].isspace()))
                    # It separated words, as a space does.
                    readable += "" if not readable or readable[-1].isspace() else " " if letter in spelling else ""
                unknown = ""
                readable += spelling.get(letter, letter)
            else:
                unknown += letter
        return cls(" ".join(readable.split()), tuple(removed))

    def put_back(self, text: str, alignment: Sequence[Sequence[float]]) -> str:
        """Insert what was removed into a translation: at its ends as in the source, otherwise by the alignment.

        `alignment` has a row for each word of the translation and a column for each word of the readable text.
        """
        words, total = text.split(), len(self.readable.split())
        after: dict[int, str] = {}
        for place, unknown, spaced in self.removed:
            if place == 0 or not words:
                at = 0
            elif place >= total:
                at = len(words)
            else:
                at = _gap([sum(row[:place]) - sum(row[place:]) for row in alignment])
            after[at] = after.get(at, "") + (" " if spaced and (at or at in after) else "") + unknown
        out = after.get(0, "")
        for n, word in enumerate(words, 1):
            out += (" " if out else "") + word + after.get(n, "")
        return out


def _gap(leaning: list[float]) -> int:
    """The place between words that best separates those aligned to the left (positive) from those to the right."""
    sums = [sum(leaning[:place]) for place in range(len(leaning) + 1)]
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
    def read(cls, text: str, gap: str, vocabulary: Vocabulary) -> Segment:
        """Prepare a text for the model."""
        capitals = text.isupper() and len(text.split()) > 1
        cleaned = clean(text)
        if capitals:
            cleaned = re.sub(r"\bi\b", "I", cleaned.lower())
            cleaned = re.sub(r"[^\W\d_]", lambda first: first.group().upper(), cleaned, count=1)
        placeholders = Placeholders.find(cleaned, vocabulary.knows)
        has_letters = any(letter.isalpha() for letter in placeholders.readable)
        ids = vocabulary.encode(placeholders.readable) if has_letters else []
        return cls(text, gap, vocabulary, ids, placeholders, capitals)


def split_segments(text: str, vocabulary: Vocabulary, longest: int, split: bool) -> list[Segment]:
    """Segments of at most `longest` tokens: sentences if the text is too long or `split` is set, cut where they must.

    >>> words = Vocabulary.train(["A dog ate.", "The dog ran.", "Un chien court."] * 9, size=40)
    >>> [segment.text for segment in split_segments("A dog ate. The dog ran.", words, 100, split=True)]
    ['A dog ate.', 'The dog ran.']
    """
    whole = Segment.read(text.strip(), text[len(text.rstrip()) :], vocabulary)
    if not split and len(whole.ids) <= longest:
        return [whole] if whole.text else []
    segments = []
    for sentence in split_sentences(text.lstrip()):
        segment = Segment.read(sentence.text, sentence.gap, vocabulary)
        segments += [segment] if len(segment.ids) <= longest else list(_cut(sentence, vocabulary, longest))
    return segments


def _cut(sentence: Sentence, vocabulary: Vocabulary, longest: int) -> Iterator[Segment]:
    """Cut a sentence at its last comma that fits, else at the last word; a word that is too long, anywhere."""
    rest = sentence.text
    while rest:
        size, tokens = 0, 0
        for word in re.finditer(r"\s*\S+", rest):
            tokens += len(vocabulary.encode(word.group()))
            if tokens > longest:
                break
            size = word.end()
        if not size:  # not even one word fits
            size = max(n for n in range(1, longest + 1) if n == 1 or len(vocabulary.encode(rest[:n])) <= longest)
        elif size < len(rest):
            size = max((m.end() for m in re.finditer(r"[,;:](?=\s)", rest[:size])), default=size)
        text, left = rest[:size].strip(), rest[size:]
        gap = left[: len(left) - len(left.lstrip())]
        rest = left.lstrip()
        yield Segment.read(text, gap if rest else sentence.gap, vocabulary)
