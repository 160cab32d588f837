"""The structure of a text: its lines, what begins them (indents, bullets, headings), what is no prose, its sentences.

Each line is a block of its own. A line that was wrapped is joined with the next: one of 50 characters or more without a
mark at its end, before a line that goes on in lower case. Not translated are
  fenced code          ``` … ``` and ~~~ … ~~~
  front matter         --- … --- at the beginning
  HTML                 <script>, <style>, <pre> and comments, if they begin a line

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
from collections.abc import Callable, Iterator
from typing import NamedTuple

_PREFIX = re.compile(r"\s*+(?:>[ \t]?)*+(?:[-*+•‣◦–—][ \t]+(?:\[[ xX]\][ \t]+)?|\d{1,3}[.)][ \t]+|#{1,6}[ \t]+)?+\s*+")
_FENCE = re.compile(r"[ \t]*+(?:>[ \t]?)*+(`{3,}|~{3,})(?!.*`)")
_RAW = re.compile(r"\s*+<(script|style|pre|!--)(?![a-z])", re.IGNORECASE)
_CELL, _BLANK = re.compile(r"(?<!\\)\|"), re.compile(r"[ \t]*+")
_WRAPPED = 50  # characters
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


# Lines


class Block(NamedTuple):
    """A part of a text, the white space after it, and whether it is to be translated."""

    text: str
    gap: str
    prose: bool


def split_blocks(text: str) -> list[Block]:
    r"""The blocks of a text; texts and gaps concatenated are the text again.

    >>> [block.text for block in split_blocks("# Hello\n\n- World\n- Bye.") if block.prose]
    ['Hello', 'World', 'Bye.']
    >>> split_blocks("| a | b |")[1]
    Block(text='a', gap=' ', prose=True)
    """
    lines = re.findall(r"[^\n]*+\n|[^\n]++", text)
    blocks: list[Block] = []
    place = 0
    while place < len(lines):
        copied = _copied(lines, place)
        if copied:
            blocks.append(_block("".join(lines[place : place + copied]), prose=False))
            place += copied
            continue
        prefix = _end_of(_PREFIX, lines[place])
        if prefix:
            blocks.append(Block(lines[place][:prefix], "", False))
        first = place
        place += 1
        while place < len(lines) and _continues(lines[place - 1], lines[place]) and not _copied(lines, place):
            place += 1
        prose = "".join([lines[first][prefix:], *lines[first + 1 : place]])
        if prose:
            blocks += _cells(prose) if prose.startswith("|") else [_block(prose, prose=True)]
    return blocks


def _copied(lines: list[str], place: int) -> int:
    """The number of lines from here that are no prose."""
    line, rest = lines[place], range(place + 1, len(lines))
    if place == 0 and line.rstrip() == "---":
        return next((n + 1 for n in rest if lines[n].rstrip() == "---"), 0)
    if fence := _FENCE.match(line):
        return next((n + 1 - place for n in rest if lines[n].lstrip("> \t").startswith(fence[1])), len(lines) - place)
    if raw := _RAW.match(line):
        close = "-->" if raw[1] == "!--" else f"</{raw[1].lower()}"
        return next((n + 1 - place for n in range(place, len(lines)) if close in lines[n].lower()), len(lines) - place)
    return 0


def _continues(line: str, following: str) -> bool:
    """Whether a line was wrapped and goes on in the next."""
    end, start = line.rstrip(), following.lstrip()
    return (
        len(end) >= _WRAPPED
        and end[-1] not in ".!?:;…|"
        and (start[:1].islower() or re.match(r"I\b|\d(?!\d{0,2}[.)]\s)", start) is not None)
    )


def _cells(row: str) -> Iterator[Block]:
    """The cells of a row of a table, and the bars between them."""
    end = 0
    for bar in _CELL.finditer(row):
        if cell := row[end : bar.start()]:
            yield _block(cell, prose=True)
        after = _BLANK.match(row, bar.end()).end()  # type: ignore[union-attr]
        yield Block("|", row[bar.end() : after], False)
        end = after
    if row[end:]:
        yield _block(row[end:], prose=True)


def _block(text: str, prose: bool) -> Block:
    stripped = text.rstrip()
    return Block(stripped, text[len(stripped) :], prose and bool(stripped))


def _end_of(pattern: re.Pattern[str], text: str, start: int = 0) -> int:
    """Where a pattern that begins at `start` ends; there, if it does not match."""
    match = pattern.match(text, start)
    return start if match is None else match.end()


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


# Sentences that are too long


def split_long(sentence: Sentence, count: Callable[[str], int], longest: int) -> Iterator[Sentence]:
    """The parts of a sentence of at most `longest` tokens, cut after a comma, else a word; a longer word, anywhere."""
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
            sized = ((size, count(text[start : start + size])) for size in sizes)
            size, tokens = next(((size, tokens) for size, tokens in sized if tokens <= longest), (1, longest))
            start += size
            yield start, tokens
