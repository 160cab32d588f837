"""A text as segments that a model reads in one go, with their facts hidden, and put back into the translations."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import accumulate, groupby
from typing import NamedTuple

from regard.translation.text.facts import (
    Fact,
    Numbers,
    commas_outside,
    french_quotes,
    keeps_quotes,
    quotes_as_facts,
    split_facts,
)
from regard.translation.text.languages import Languages
from regard.translation.text.structure import split_blocks, split_long, split_sentences
from regard.translation.training.vocabulary import MARKS, Vocabulary, clean

_BREAK = re.compile(r"\s*\n\s*")
_CLOSING = ",.;:!?…)"
_REMOVED = ("markup", "opening", "closing")


def split_segments(
    text: str, vocabulary: Vocabulary, longest: int, *, split: bool = False, languages: Languages | None = None
) -> list[Segment]:
    """The segments of a text: its lines, or sentences if a line is too long or `split` is set, cut where they must be.

    Args:
        text: The text. Texts and gaps of its segments, concatenated, are the text again.
        vocabulary: The subwords of the model.
        longest: The number of subwords that a segment may have.
        split: Whether each sentence is a segment.
        languages: The rules of the languages; none by default.

    >>> words = Vocabulary.train(["A dog ate.", "The dog ran.", "Un chien court."] * 9, size=40)
    >>> [segment.text for segment in split_segments("A dog ate. The dog ran.", words, 100, split=True)]
    ['A dog ate.', 'The dog ran.']
    """

    def read(text: str, gap: str) -> Segment:
        return Segment.read(text, gap, vocabulary, languages)

    def count(text: str) -> int:
        forms = [text, text.lower()] if text.isupper() else [text]  # as part of a text in capitals
        return max(
            len(vocabulary.encode(Placeholders.find([clean(form)], vocabulary.knows).readable)) for form in forms
        )

    segments = []
    for block in split_blocks(text):
        whole = read(block.text, block.gap) if block.prose else Segment.copy(block.text, block.gap, vocabulary)
        if not block.prose or (not split and len(whole.ids) <= longest):
            segments.append(whole)
            continue
        for sentence in split_sentences(block.text + block.gap):
            segment = read(*sentence)
            fits = len(segment.ids) <= longest
            segments += [segment] if fits else [read(*part) for part in split_long(sentence, count, longest)]
    return segments


@dataclass(frozen=True)
class Segment:
    """A line or a sentence as the model reads it: its facts (see facts.py) hidden, according to a level.

    0   copied facts are marks, ⟦1⟧; without marks in the vocabulary they are removed, as markup is
    1   numbers are marks too, and quotation marks are removed
    2   all facts are removed

    What is removed is put back into the translation by the alignment, as is what the vocabulary cannot spell. A text
    without a letter is copied. A text in capitals is read in lower case, and its translation written in capitals.

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
    marks: Mapping[str, str]  # what each mark stands for, as the translation writes it
    numbers: Numbers

    @classmethod
    def read(
        cls, text: str, gap: str, vocabulary: Vocabulary, languages: Languages | None = None, *, level: int = 0
    ) -> Segment:
        """Prepare a text for the model."""
        languages = languages or Languages()
        parts = split_facts(text, quotes_as_facts(text, hide=level > 0))
        plain = "".join(part for part in parts if isinstance(part, str))
        words = [re.sub(r"\W", "", word) for word in plain.split() if word.isupper()]  # not emoji
        capitals = plain.isupper() and len(words) > 1 and {*words} != {"I"}
        shown, marks, numbers = _hide(parts, vocabulary.has_marks, level, languages)
        placeholders = Placeholders.find(
            _normalised(shown, capitals, languages), lambda letter: letter in "⟦⟧" or vocabulary.knows(letter)
        )
        letters = show_marks(placeholders.readable, dict.fromkeys(marks, ""))
        ids = vocabulary.encode(placeholders.readable) if any(map(str.isalpha, letters)) else []
        return cls(text, gap, vocabulary, ids, placeholders, capitals, marks, Numbers(numbers, text, languages))

    @classmethod
    def copy(cls, text: str, gap: str, vocabulary: Vocabulary) -> Segment:
        """A text that is not translated."""
        return cls(text, gap, vocabulary, [], Placeholders("", ()), False, {}, Numbers((), text, Languages()))

    def hide(self, level: int) -> Segment:
        """The same text, read at another level."""
        return Segment.read(self.text, self.gap, self.vocabulary, self.numbers.languages, level=level)

    def keeps_facts(self, ids: Sequence[int]) -> bool:
        """Whether a translation has each mark once, the quotations, and the numbers."""
        text = self.vocabulary.decode(ids)
        marks_kept = all(text.count(mark) == (mark in self.marks) for mark in MARKS)
        return marks_kept and keeps_quotes(self.placeholders.readable, text) and self.numbers.kept(text)

    def write(self, ids: Sequence[int], alignment: Callable[[], Sequence[Sequence[float]]]) -> str:
        """The translation with its facts; `alignment` is called only if something was removed."""
        text = self.vocabulary.decode(ids)
        if self.placeholders.removed:
            text = self.placeholders.put_back(text, alignment(), self._finish)
        else:
            text = self._finish(text)
        text = commas_outside(text) if self.numbers.languages.quotes else text
        return _break_lines(self.text, text)

    def _finish(self, text: str) -> str:
        languages = self.numbers.languages
        text = self.numbers.rewrite(text)
        text = text.upper() if self.capitals else text
        text = french_quotes(text) if languages.quotes else text
        return show_marks(languages.typeset(text), self.marks)


def show_marks(text: str, marks: Mapping[str, str]) -> str:
    """A text with what its marks stand for.

    >>> show_marks("⟦1⟧ et ⟦2⟧", {"⟦1⟧": "⟦2⟧", "⟦2⟧": "x"})
    '⟦2⟧ et x'
    """
    return re.sub("|".join(marks), lambda mark: marks[mark.group()], text) if marks else text


def _hide(
    parts: Sequence[str | Fact], has_marks: bool, level: int, languages: Languages
) -> tuple[list[str | Removed], dict[str, str], list[Fact]]:
    """The parts as the model may read them, what each mark stands for, and the numbers that it reads."""
    shown: list[str | Removed] = []
    marks: dict[str, str] = {}
    numbers: list[Fact] = []
    free = iter(MARKS if has_marks and level < 2 else ())
    pairs = iter(_number_pairs([part for part in parts if isinstance(part, Fact) and part.kind in _REMOVED]))
    for part in parts:
        if isinstance(part, str):
            shown.append(part)
            continue
        if part.kind == "title" and not part.body:  # the closing mark
            continue
        final = languages.typeset(part.write(languages)) if part.kind == "number" else part.write(languages)
        # 5:45 a.m. is copied as 5 h 45: models add words to it.
        is_copied = part.kind in ("copied", "title") or (part.half != "" and has_marks and bool(languages.number_rules))
        if part.kind in _REMOVED:
            shown.append(Removed(final, next(pairs)))
        elif level < 1 + (not has_marks) and not is_copied:
            numbers.append(part)
            shown.append(part.text)
        elif mark := next(free, None):
            marks[mark] = final
            shown.append(mark)
        else:
            shown.append(Removed(final))
    return shown, marks, numbers


def _number_pairs(markup: Sequence[Fact]) -> list[int]:
    """For each tag or mark: n if it opens the n-th pair, -n if it closes the pair, 0 if it has no partner.

    >>> _number_pairs([Fact(text, "markup") for text in ("<b>", "**", "**", "<br/>", "</b>", "[")])
    [1, 2, -2, 0, -1, 0]
    """
    numbers = [0] * len(markup)
    opened: list[tuple[str, int]] = []
    for place, fact in enumerate(markup):
        tag = re.match(r"<(/?)(\w+)", fact.text)
        name = tag[2] if tag else {"](": "[", "![": "["}.get(fact.text[:2], fact.text)
        if fact.kind != "markup":
            name, closes = "quote", fact.kind == "closing"
        else:
            closes = bool(tag[1]) if tag else fact.text[0] in "]*_~"
        if closes and opened and opened[-1][0] == name:
            opening = opened.pop()[1]
            numbers[opening], numbers[place] = opening + 1, -opening - 1
        elif not fact.text.endswith("/>") and not fact.text.startswith(("</", "<!", "]", "&")):
            opened.append((name, place))
    return numbers


def _normalised(parts: Sequence[str | Removed], capitals: bool, languages: Languages) -> list[str | Removed]:
    """The parts with plain quotes and spaces, in lower case if they are in capitals, informal spelling in full."""
    out: list[str | Removed] = []
    for is_text, group in groupby(parts, lambda part: isinstance(part, str)):
        if not is_text:
            out += group
            continue
        part = "".join(map(str, group))  # the rules see a text with its numbers and marks
        text = languages.prepare(clean(part).lower() if capitals else clean(part))
        if capitals and not any(isinstance(each, str) and any(map(str.isalpha, each)) for each in out):
            text = re.sub(r"[^\W\d_]", lambda first: first.group().upper(), text, count=1)
        before, after = (" " if part[place].isspace() else "" for place in (0, -1))
        out.append(f"{before}{text}{after}" if text else before)
    return out


def _break_lines(source: str, text: str) -> str:
    """A translation with the line breaks of its source, in the same proportions: at the nearest space."""
    breaks = list(_BREAK.finditer(source))
    spaces = [place for place, letter in enumerate(text) if letter == " "] if breaks else []
    out, start = [], 0
    for line_break in breaks:
        target = line_break.start() / len(source) * len(text)
        left = [place for place in spaces if place > start]
        place = min(left, key=lambda place: abs(place - target), default=len(text))
        out += [text[start:place], line_break.group()]
        start = min(place + 1, len(text))
    return "".join([*out, text[start:]])


# What is removed


class Removed(NamedTuple):
    """A part of a text that the model does not read, as it will be in the translation."""

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
    """A text without `Removed` parts and what a vocabulary cannot spell (emoji, other scripts), and their places.

    A letter that is unknown only because of its accent is read without it.

    >>> found = Placeholders.find(["Hi 😀 you, Ana!😀"], lambda letter: letter.isascii())
    >>> found.readable, [(gap.words, gap.text, gap.spaced) for gap in found.removed]
    ('Hi you, Ana!', [(1, '😀', True), (3, '😀', False)])
    >>> found.put_back("Salut toi, Ana !", [[0.9, 0.1, 0.0], [0.2, 0.8, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 1.0]])
    'Salut 😀 toi, Ana !😀'
    """

    readable: str
    removed: tuple[Gap, ...]

    @classmethod
    def find(cls, parts: Sequence[str | Removed], knows: Callable[[str], bool]) -> Placeholders:
        """Separate the characters that a vocabulary knows from those it does not."""
        whole = "".join(part for part in parts if isinstance(part, str))
        if all(isinstance(part, str) for part in parts) and all(map(knows, {*whole.replace(" ", "")})):
            return cls(" ".join(whole.split()), ())  # nothing to remove, as in most texts
        spelling: dict[str | Removed, str] = {}
        for each in {*whole, " "}:
            plain = unicodedata.normalize("NFKD", each)[:1]
            if each.isspace() or knows(each):
                spelling[each] = each
            elif plain != each and plain.isalpha() and knows(plain):
                spelling[each] = plain
        readable: list[str] = []
        removed: list[Gap] = []
        unknown: list[str | Removed] = []  # what is removed next
        words, before = 0, " "  # the number of words so far, and the letter before this one
        letters: list[str | Removed] = []
        for part in parts:
            letters += [part] if isinstance(part, Removed) else part
        for part in [*letters, " "]:
            if part not in spelling:
                unknown.append(part)
                continue
            letter = spelling[part]
            if unknown:
                mark = letter if letter in _CLOSING else ""
                removed += _gaps(unknown, words, before.isspace(), mark, letter.isspace())
                if mark and before.isspace() and readable:  # the mark belongs to the word before
                    readable.pop()
                    before = readable[-1] if readable else " "
                elif not mark and not letter.isspace() and not before.isspace():  # what was removed separated two words
                    readable.append(" ")
                    before = " "
                unknown = []
            words += before.isspace() and not letter.isspace()
            before = letter
            readable.append(letter)
        return cls(" ".join("".join(readable).split()), tuple(removed))

    def put_back(
        self, text: str, alignment: Sequence[Sequence[float]], finish: Callable[[str], str] = lambda text: text
    ) -> str:
        """Insert what was removed into a translation: at its ends as in the source, otherwise by the alignment.

        Args:
            text: The translation of the readable text.
            alignment: A row for each word of the translation, a column for each word of the readable text.
            finish: Applied to the parts of the translation between the insertions.
        """
        words, total = text.split(), len(self.readable.split())
        sums = [[0.0, *accumulate(row)] for row in alignment]

        @cache
        def target(place: int) -> int:
            """The place that best separates the words aligned to the left from those aligned to the right."""
            if place == 0 or place >= total or not words:
                return len(words) if place else 0
            leaning = [0.0, *accumulate(2 * row[place] - row[-1] for row in sums)]
            return leaning.index(max(leaning))

        spans = _spans(self.removed, alignment) if words else {}
        insertions: dict[int, list[Gap]] = {}
        for gap in self.removed:
            insertions.setdefault(spans[gap.pair] if gap.pair in spans else target(gap.words), []).append(gap)
        out: list[str] = []
        spaced = False  # whether a space follows what is in `out`
        start = 0
        for end in sorted({*insertions, len(words)}):
            if end > start:
                out += [" " if spaced else "", finish(" ".join(words[start:end]))]
            spaced = end > 0
            gaps = insertions.get(end, [])
            opened = {gap.pair for gap in gaps}
            for gap in sorted(gaps, key=lambda gap: gap.pair >= 0 or -gap.pair in opened):  # what closes comes first
                mark = gap.mark or ("." if gap.pair < 0 and gap.text.endswith("»") else "")
                moves = bool(mark and out) and out[-1].endswith(mark) and len(out[-1]) > 1
                out[-1:] = [out[-1].removesuffix(mark)] if moves else out[-1:]
                out += [" " if gap.spaced and out else "", gap.text, mark if moves else ""]
                spaced = gap.followed
            start = end
        return "".join(out)


def _gaps(unknown: Sequence[str | Removed], words: int, spaced: bool, mark: str, followed: bool) -> list[Gap]:
    """What was removed from one place: letters in a row together, other parts one by one."""
    parts: list[Removed] = []
    letters = ""
    for each in [*unknown, Removed("")]:
        if isinstance(each, str):
            letters += each
        else:
            parts += [part for part in (Removed(letters), each) if part.text]
            letters = ""
    glued = isinstance(unknown[0], Removed) and not followed and not mark  # unknown letters separate words
    last = len(parts) - 1
    return [
        Gap(words, part.text, spaced and n == 0, n == last and not glued, mark if n == last else "", part.pair)
        for n, part in enumerate(parts)
    ]


def _spans(removed: Sequence[Gap], alignment: Sequence[Sequence[float]]) -> dict[int, int]:
    """Where the pairs of markup open and close: around the words that attend most to the words inside."""
    opens = {gap.pair: gap.words for gap in removed if gap.pair > 0}
    received = [sum(column) or 1.0 for column in zip(*alignment, strict=True)]
    shares = [[weight / total for weight, total in zip(row, received, strict=True)] for row in alignment]
    spans: dict[int, int] = {}
    for gap in removed:
        inside = range(opens[-gap.pair], gap.words) if gap.pair < 0 else range(0)
        if not inside or not received:
            continue
        chosen = [n for n, row in enumerate(shares) if row.index(max(row)) in inside]
        totals = [sum(row[inside.start : inside.stop]) for row in shares]
        start = end = totals.index(max(totals))
        while start - 1 in chosen:
            start -= 1
        while end + 1 in chosen:
            end += 1
        spans |= {-gap.pair: start, gap.pair: end + 1}
    return spans
