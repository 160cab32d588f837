"""Paragraphs into sentences, by a few rules, with what lies between them kept.

A sentence ends at . ! ? or … (and the quotes or brackets that close after it), if white space follows and then a
capital, a digit, or a quote or bracket that opens. Not at
  titles and the like             Mr. Dr. Prof. St. vs. e.g. i.e.
  initials                        J. R. Smith, the U.S. President
  a number's sign                 No. 5
  three dots before "I"           Well... I think so.
A blank line always ends one.
"""

from __future__ import annotations

import re
from typing import NamedTuple

__all__ = ["Sentence", "split"]

_END = re.compile(r"""[.!?…]+["'”’»)\]]*(?=\s)|\n[^\S\n]*(?=\n)""")
_NEVER = frozenset(
    ["mr", "mrs", "ms", "mx", "dr", "prof", "rev", "gen", "col", "capt", "lt", "sgt", "st", "mt", "vs", "e.g", "i.e",
     "cf", "fig", "vol", "pp", "approx", "mme", "mlle", "m"]
)  # fmt: skip
_INITIALS = re.compile(r"(?:[A-HJ-Z]|(?:\w\.)+[A-Z])")
_OPENING = "\"'“‘«([¿¡-–—"


class Sentence(NamedTuple):
    """A sentence, and the white space that follows it."""

    text: str
    gap: str


def split(text: str) -> list[Sentence]:
    """The sentences of a text; put together again, text and gap by turns, they are the text.

    >>> [s.text for s in split('Mr. Smith left. "Why?" he asked... Nobody knew.')]
    ['Mr. Smith left.', '"Why?" he asked...', 'Nobody knew.']
    >>> split("One.  Two.\\n")
    [Sentence(text='One.', gap='  '), Sentence(text='Two.', gap='\\n')]
    """
    found, start = [], 0
    for match in _END.finditer(text):
        rest = text[match.end() :]
        gap = rest[: len(rest) - len(rest.lstrip())]
        if match.end() > start and rest.strip() and _ends(text[start : match.start()], match.group(), gap, rest):
            body = text[start : match.end()]
            kept = body.rstrip()
            found.append(Sentence(kept, body[len(kept) :] + gap))
            start = match.end() + len(gap)
    last = text[start:].rstrip()
    if text[start:]:
        found.append(Sentence(last, text[start + len(last) :]))
    return found


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
        if last.lower() in _NEVER or _INITIALS.fullmatch(last):
            return False
        if last.lower() in ("no", "nos") and first.isdigit():
            return False
    dots = mark.startswith(("..", "…"))
    return not (dots and re.match(r"I\b", following))
