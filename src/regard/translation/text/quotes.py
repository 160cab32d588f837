"""Quotations: where their marks are, whether a translation has them, and how French writes them.

The model reads a quotation with its marks. If the translation has lost some, the text is translated again without the
marks, and the alignment says where they go (segments.py). Copied are titles, "War and Peace", words under discussion,
the word "love", inches, 5", and empty quotations.
"""

from __future__ import annotations

import re

from regard.translation.text.facts import SENTENCE_END, Fact

__all__ = ["commas_outside", "find_quotes", "french_quotes", "keeps_quotes", "quotes_as_facts"]

_MARK = re.compile('["“”«»]')
_BEFORE_OPENING = "([{-–—/=:“«'‘\""
# At least two words, all with capitals, except small words in the middle.
_SMALL_WORDS = "an?|the|and|or|of|in|on|at|to|for|from|with|by|as|vs|de|la|le|les|du|des|et"
_CAPITALISED = r"[^\W_a-zà-ÿ][\w'’.&-]*"
_TITLE = re.compile(rf"{_CAPITALISED}(?: (?:{_CAPITALISED}|{_SMALL_WORDS}))* {_CAPITALISED},?")
# Around a word under discussion: the word "love", What does 'love' mean?
_WORD_BEFORE = re.compile(
    r"\b(?:(?:word|term|expression|phrase|letter|prefix|suffix)s?|spell|pronounce) $", re.IGNORECASE
)
_MEANS_AFTER, _NEAR = re.compile(r" (?:means?|stands? for|is spelled)\b"), 12  # characters before
_SINGLE = re.compile(r"(?<!\w)['‘][^'‘’\n]{1,40}['’](?!\w)")
_EMPTY_OR_INCHES = re.compile(
    r"""(?<![^\s(])(?:"{2,3}|“”|«\s?»)(?![^\s.,;:!?)])|(?<![\d.,/])\d[\d.,/]*+(?:['’] ?\d{1,2})?["”]"""
)
_LETTER = re.compile(r"[^\W\d_]")
# The comma before closing quotes and markup, and whether another mark follows them; « , » is a quoted comma.
_COMMA_INSIDE = re.compile(
    r"(?<!\s)(?<!«),((?:</?\w++>|[*_~]++|,?[ \u00a0\u202f]?»)*(?<=»))(?![^\W_])(?=(\s?[.,;:!?…)(\]}—–-])?)"
)


def find_quotes(text: str) -> list[tuple[int, int]]:
    """Where each quotation of a text that is not empty starts and ends, its marks included.

    >>> text = 'He said "No!" of a 5" nail.'
    >>> [text[start:end] for start, end in find_quotes(text)]
    ['"No!"']
    """
    spans: list[tuple[int, int]] = []
    opened: list[int] = []
    for match in _MARK.finditer(text):
        place = match.start()
        before, after = text[place - 1 : place].strip(), text[place + 1 : place + 2].strip()
        may_open = (not before or before in _BEFORE_OPENING) and bool(after)
        may_close = bool(text[place - 1 : place].strip()) and not after.isalnum()
        if match[0] in "“«" or (match[0] == '"' and may_open and not (opened and may_close)):
            opened.append(place)
        elif opened:
            start = opened.pop()
            spans += [(start, place + 1)] if text[start + 1 : place].strip() else []
    return sorted(spans)


def quotes_as_facts(text: str, *, hide: bool) -> list[tuple[int, Fact]]:
    """What is copied of a text's quotations as facts, with their places; with `hide`, also the marks of the others.

    >>> [fact.text for _, fact in quotes_as_facts('I read "War and Peace" to "them".', hide=True)]
    ['"War and Peace', '"', '"', '"']
    """
    letters = [match.start() for match in (_LETTER.search(text), _LETTER.search(text[::-1])) if match]
    spans = find_quotes(text)
    ends_of_quotes = {end for _, end in spans}
    signs = [match for match in _EMPTY_OR_INCHES.finditer(text) if match.end() not in ends_of_quotes]
    facts = [(match.start(), Fact(match.group(), "copied")) for match in signs]
    for start, end in sorted([*spans, *(match.span() for match in _SINGLE.finditer(text))]):
        body = text[start + 1 : end - 1]
        is_whole = letters and start <= letters[0] and len(text) - end <= letters[1]
        is_title = _TITLE.fullmatch(body) and not is_whole and not text.isupper()
        if is_title or _WORD_BEFORE.search(text, max(start - _NEAR, 0), start) or _MEANS_AFTER.match(text, end):
            ends = body.count(".") == 1 and SENTENCE_END.match(text, end)
            title = body.rstrip(",." if ends else ",") or body  # the model reads the mark at the end
            facts.append(
                (start, Fact(text[start : start + 1 + len(title)], "title", title, text[start], text[end - 1]))
            )
            facts.append((end - 1, Fact(text[end - 1], "title")))
        elif hide:
            facts += [(start, Fact(text[start], "opening")), (end - 1, Fact(text[end - 1], "closing"))]
    return facts


def keeps_quotes(source: str, translation: str) -> bool:
    """Whether a translation has as many quotations as its source; True if a mark of the source has no partner.

    >>> source = 'He said "I do not know" and left.'
    >>> keeps_quotes(source, "Il a dit « je ne sais pas » et est parti."), keeps_quotes(source, "Il a dit « je sais.")
    (True, False)
    """
    pairs = len(find_quotes(source))
    if 2 * pairs != len(_MARK.findall(source)):
        return True
    return pairs == len(find_quotes(translation)) and 2 * pairs == len(_MARK.findall(translation))


def french_quotes(text: str) -> str:
    """French with « » for other quotes.

    >>> french_quotes('"Stop !" cria-t-il.')
    '« Stop ! » cria-t-il.'
    """
    pairs = [(start, end) for start, end in find_quotes(text) if text[start] != "«"]
    marks = {start: "« " for start, _ in pairs} | {end - 1: " »" for _, end in pairs}
    return "".join(marks.get(place, letter) for place, letter in enumerate(text)) if marks else text


def commas_outside(text: str) -> str:
    """French with the commas after closing quotes that English has before them; none beside another mark.

    >>> commas_outside("« Oui, » dit-il.")
    '« Oui », dit-il.'
    """
    return _COMMA_INSIDE.sub(lambda match: match[1].replace(",", "") + ("" if match[2] else ","), text)
