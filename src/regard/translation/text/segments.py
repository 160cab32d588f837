"""From a text to the segments that a model can read: lines or sentences, long ones cut, with their facts hidden."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from regard.translation.text.facts import Fact, Numbers, split_facts
from regard.translation.text.placeholders import Placeholders, Removed
from regard.translation.text.quotes import QuoteCheck, Quoted, add_quotes, commas_outside, french_quotes, has_quotes
from regard.translation.text.structure import Sentence, skip_space, split_blocks, split_sentences
from regard.translation.text.typography import typeset
from regard.translation.text.wording import clearer, in_full, usual_french
from regard.translation.training.vocabulary import MARKS, Vocabulary, clean

__all__ = ["Segment", "Style", "show_marks", "split_segments"]

_BREAK = re.compile(r"\s*\n\s*")
_SMALL_I = re.compile(r"""(?<![^\s"'(])i(?=\s|$|'(?:m|ve|ll|d|s)\b|,)""")
_EASY = ("20", "30", "40", "50", "60", "15", "12", "25", "18", "16")  # numbers that models copy well
_NAMES = ("Tom", "Mary", "John", "Bob", "Ken", "Bill", "Jim", "Jack", "Jane")  # and names


# Segments


class Style(NamedTuple):
    """How a translation is written: whether it is French, with French numbers, and whether with French typography."""

    french: bool = False
    typography: bool = False

    @property
    def quotes(self) -> tuple[str, str] | None:
        """The quotation marks, if they are not those of the source."""
        space = "\u00a0" if self.typography else " "
        return (f"«{space}", f"{space}»") if self.french else None


_PLAIN, _NO_NUMBERS = Style(), Numbers((), "", False)


@dataclass(frozen=True)
class Segment:
    """What is translated in one go: a sentence, or as much of it as a model can take.

    Text without a letter is copied. What the vocabulary cannot spell is removed, and put back into the translation.
    A text in capitals is read in lower case, and translated into capitals. Facts (see facts.py) are hidden from the
    model: at level 0 all but numbers; at level 1 numbers too, behind marks or, without marks, behind numbers that are
    easier, and quotations (see quotes.py) behind marks; at level 2 they are removed.

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
    style: Style = _PLAIN
    level: int = 0
    marks: Mapping[str, str] = field(default_factory=dict)  # the text of each mark
    numbers: Numbers = _NO_NUMBERS
    quotes: QuoteCheck | None = None
    speech: Sequence[str] = ()  # what is said in it, between quotes

    @classmethod
    def read(
        cls, text: str, gap: str, vocabulary: Vocabulary, *, style: Style = _PLAIN, level: int = 0,
        said: Mapping[str, str] | None = None,
    ) -> Segment:  # fmt: skip
        """Prepare a text for the model; `said` has the translations of its speech, from level 1 on."""
        parts = split_facts(text)
        if (
            style.french
            and not has_quotes(text)
            and all(isinstance(part, str) or part.kind == "number" for part in parts)
        ):
            parts = split_facts(clearer(text))  # where nothing is copied that it could change
        plain = "".join(part for part in parts if isinstance(part, str))
        words = [word for word in plain.split() if word.isupper()]  # not emoji
        capitals = plain.isupper() and len(words) > 1 and any(re.sub(r"\W", "", word) != "I" for word in words)
        quoted = Quoted(parts, [], False)
        if has_quotes(text):
            quoted = add_quotes(parts, titles=not capitals, french=style.quotes, said=said)
        hidden = _hide(quoted.parts, vocabulary.has_marks, level, style, capitals)
        shown = _normalised(hidden.parts, capitals, typed=style.french)
        knows = _knowing_marks(vocabulary.knows) if hidden.marks else vocabulary.knows
        placeholders = Placeholders.find(shown, knows)
        own = show_marks(placeholders.readable, dict.fromkeys(hidden.marks, ""))
        has_letters = any(letter.isalpha() for letter in own)
        ids = vocabulary.encode(placeholders.readable) if has_letters else []
        numbers = Numbers(hidden.numbers, text, style.french)
        quotes = QuoteCheck.of(placeholders.readable) if quoted.found else None
        return cls(
            text, gap, vocabulary, ids, placeholders, capitals, style, level, hidden.marks, numbers, quotes,
            quoted.speech,
        )  # fmt: skip

    @classmethod
    def copy(cls, text: str, gap: str, vocabulary: Vocabulary) -> Segment:
        """A text that is not translated."""
        return cls(text, gap, vocabulary, [], Placeholders("", ()), False)

    def read_again(self, level: int, said: Mapping[str, str] | None = None) -> Segment:
        """The same text with more of its facts hidden; `said` has the translations of its speech."""
        said = said or {}
        return Segment.read(self.text, self.gap, self.vocabulary, style=self.style, level=level, said=said)

    def read_speech(self) -> list[Segment]:
        """What is said in it, each as a segment of its own."""
        return [Segment.read(text, "", self.vocabulary, style=self.style) for text in self.speech]

    def keeps_facts(self, ids: Sequence[int], *, repair: bool = False) -> bool:
        """Whether a translation has each mark once, the quotations, and the numbers; with `repair`, all but one."""
        text = self.vocabulary.decode(ids)
        if any(len(re.findall(_bounded(mark), text)) != (mark in self.marks) for mark in {*MARKS, *self.marks}):
            return False
        if self.quotes is not None and not self.quotes.kept(text):
            return False
        return self.numbers.kept(text) or (repair and self.numbers.wrong(text) is not None)

    def write(self, ids: Sequence[int], alignment: Callable[[], Sequence[Sequence[float]]]) -> str:
        """The translation with its facts; `alignment` is asked where something was removed."""
        text = self.vocabulary.decode(ids)
        placed = self.placeholders.put_back(text, alignment(), self._finish) if self.placeholders.removed else None
        return _break_lines(self.text, self._finish(text) if placed is None else placed)

    def _finish(self, text: str) -> str:
        text = usual_french(text, self.text) if self.style.french else text
        text = self.numbers.rewrite(text)
        text = text.upper() if self.capitals else text
        text = french_quotes(text) if self.quotes is not None and self.style.french else text
        text = typeset(text) if self.style.typography else text
        # Of a quotation of several sentences, the last has only the closing quote: no pair is needed.
        text = commas_outside(text) if self.style.french else text
        return show_marks(text, self.marks)


def show_marks(text: str, marks: Mapping[str, str]) -> str:
    """A text with what its marks stand for.

    >>> show_marks("⟦1⟧ et ⟦2⟧", {"⟦1⟧": "⟦2⟧", "⟦2⟧": "x"})
    '⟦2⟧ et x'
    """
    if not marks:
        return text
    return re.sub("|".join(map(_bounded, marks)), lambda mark: marks[mark.group()], text)


def _bounded(mark: str) -> str:
    return mark if mark in MARKS else rf"\b{mark}\b"


class _Hidden(NamedTuple):
    """A text as the model may see it."""

    parts: list[str | Removed]
    marks: dict[str, str]
    numbers: list[tuple[Fact, str]]  # those that it sees, and their digits there


def _hide(parts: Sequence[str | Fact], has_marks: bool, level: int, style: Style, capitals: bool) -> _Hidden:
    shown: list[str | Removed] = []
    marks: dict[str, str] = {}
    numbers: list[tuple[Fact, str]] = []
    taken = {key for part in parts if isinstance(part, Fact) and part.kind == "number" for key in part.keys}
    easy = iter([number for number in _EASY if number not in taken])
    plain = "".join(part for part in parts if isinstance(part, str))
    # Without marks, a name that models copy stands for what is copied.
    names = [] if capitals else [name for name in _NAMES if name not in plain]
    free = iter(MARKS if has_marks else names)
    pairs = _Pairs()
    for part in parts:
        if isinstance(part, str):
            shown.append(part)
            continue
        is_number = part.kind == "number"
        final = part.written or (part.french if style.french else part.text)
        final = typeset(final) if is_number and style.typography else final
        # 5:45 a.m. is copied as 5 h 45: models add words to it.
        is_copied = part.kind == "copied" or (part.half and style.french and has_marks)
        hidden = is_copied or (is_number and level == 1 and has_marks)
        if level < 2 and hidden and (mark := next(free, None)):
            marks[mark] = final
            shown.append(mark)
        elif is_number and level < 1 + (not has_marks):
            digits = part.number
            if level and len(digits) > 1 and not part.is_time and part.exact:
                digits = next(easy, digits)
            numbers.append((part, digits))
            shown.append(part.text.replace(part.number, digits) if digits else part.text)
        else:
            shown.append(Removed(final, pairs.number(part.text) if part.kind == "markup" else 0))
    return _Hidden(shown, marks, numbers)


class _Pairs:
    """Numbers for markup that opens (n) and closes (-n)."""

    def __init__(self) -> None:
        self._open: list[tuple[str, int]] = []
        self._last = 0

    def number(self, text: str) -> int:
        """The number of this tag or mark."""
        opening = {"](": "[", "</": f"<{text[2:-1]}", "”": "“"}.get(text[:2], text)
        name = re.sub(r"[\s>].*|^!", "", opening, flags=re.DOTALL)
        closes = text.startswith(("](", "</", "”")) or text in ("*", "**", "***", "_", "__", "~~")
        if closes and self._open and self._open[-1][0] == name:
            return -self._open.pop()[1]
        if text.startswith(("](", "</", "”", "&", "<!")):
            return 0
        self._last += 1
        self._open.append((name, self._last))
        return self._last


def _normalised(parts: Sequence[str | Removed], capitals: bool, *, typed: bool = False) -> list[str | Removed]:
    """The parts with plain quotes and spaces, I for i, and in lower case if they are in capitals.

    With `typed`, English words are put right that people type in a hurry.

    >>> _normalised(["i dont know, can u help me?"], False, typed=True)
    ["I don't know, can you help me?"]
    """
    out: list[str | Removed] = []
    start = True
    for part in parts:
        if isinstance(part, Removed):
            out.append(part)
            continue
        text = clean(part)
        text = _SMALL_I.sub("I", text.lower() if capitals else text)
        text = in_full(text) if typed else text
        if capitals and start and any(map(str.isalpha, text)):
            text = re.sub(r"[^\W\d_]", lambda first: first.group().upper(), text, count=1)
            start = False
        before, after = (" " if part[place].isspace() else "" for place in (0, -1))
        out.append(f"{before}{text}{after}" if text else before)
    return out


def _knowing_marks(knows: Callable[[str], bool]) -> Callable[[str], bool]:
    """Marks are whole pieces: their brackets alone may be unknown."""
    return lambda letter: letter in "⟦⟧" or knows(letter)


def _break_lines(source: str, text: str) -> str:
    """Line breaks of the source, in the same proportions: at the nearest space."""
    breaks = list(_BREAK.finditer(source))
    if not breaks:
        return text
    spaces = [place for place, letter in enumerate(text) if letter == " "]
    out, start = [], 0
    for found in breaks:
        wanted = found.start() / len(source) * len(text)
        left = [place for place in spaces if place > start]
        if not left:
            out.append(text[start:] + found.group())
            start = len(text)
            continue
        place = min(left, key=lambda place: abs(place - wanted))
        out += [text[start:place], found.group()]
        start = place + 1
        spaces = [other for other in left if other > place]
    return "".join([*out, text[start:]])


def split_segments(
    text: str, vocabulary: Vocabulary, longest: int, split: bool, style: Style = _PLAIN
) -> list[Segment]:
    """Segments of at most `longest` tokens: sentences if a line is too long or `split` is set, cut where they must.

    >>> words = Vocabulary.train(["A dog ate.", "The dog ran.", "Un chien court."] * 9, size=40)
    >>> [segment.text for segment in split_segments("A dog ate. The dog ran.", words, 100, split=True)]
    ['A dog ate.', 'The dog ran.']
    """

    def read(text: str, gap: str) -> Segment:
        return Segment.read(text, gap, vocabulary, style=style)

    def count(text: str) -> int:
        forms = [text, text.lower()] if text.isupper() else [text]  # it may be read as part of a text in capitals
        return max(len(vocabulary.encode(Placeholders.find(clean(form), vocabulary.knows).readable)) for form in forms)

    segments = []
    for block in split_blocks(text):
        if not block.prose:
            segments.append(Segment.copy(block.text, block.gap, vocabulary))
            continue
        whole = read(block.text, block.gap)
        if not split and len(whole.ids) <= longest:
            segments.append(whole)
            continue
        for sentence in split_sentences(block.text + block.gap):
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
        after = skip_space(text, end)
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
