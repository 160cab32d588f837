"""`typeset`: plain French as it is printed."""

from __future__ import annotations

import re

__all__ = ["is_typeset", "typeset"]

_WIDE, _NARROW = "\u00a0", "\u202f"  # no-break spaces: before : and inside « », and before ; ! ? and in numbers
_RULES = [
    (re.compile(r"(?<=\w)'(?=\w)"), "’"),
    (re.compile(r"""(?<![^\s(\['’-])"\s?(?=\S)"""), f"«{_WIDE}"),
    (re.compile(r"""(?<=\S)\s?"(?!\w)"""), f"{_WIDE}»"),
    (re.compile(r"(?<=«) (?=\S)"), _WIDE),
    (re.compile(r"(?<=\S) (?=»)"), _WIDE),
    (re.compile(r"(?<=[^\s]) (?=:(?:\s|$))"), _WIDE),
    (re.compile(r"(?<=[^\s]) (?=[;!?])"), _NARROW),
    (re.compile(r"(?<=\d) (?=\d{3}(?!\d))"), _NARROW),
    (re.compile(r"(?<=\d) (?=[%€$£¥°]|(?:[kcm]?[gm]|[mc]?l|h)\b)"), _WIDE),
]


def typeset(text: str) -> str:
    """French with typographic apostrophes, « » for quotes, and no-break spaces where a line must not end.

    >>> typeset("C'est vrai ? dit-il : 1 299 %.")
    'C’est vrai\\u202f? dit-il\\xa0: 1\\u202f299\\xa0%.'
    """
    for pattern, form in _RULES:
        text = pattern.sub(form, text)
    return text


def is_typeset(text: str) -> bool:
    """Whether a text uses typographic quotes.

    >>> is_typeset("It’s late."), is_typeset("It's late.")
    (True, False)
    """
    return any(quote in text for quote in "’“”")
