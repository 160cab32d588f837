"""Tokens as one text to read and to search: what a tokenizer writes as "▁dog" or "##s" becomes " dog" or "s"."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

__all__ = ["find_text", "readable"]

_STARTS = ("▁", "Ġ")  # how tokenizers mark a space before a token
_CLOSING = frozenset(".,;:!?)]}»”…%'’")  # no space before these


def readable(tokens: Sequence[str]) -> list[str]:
    r"""Each token as it reads in the text, with the space before it; joined, they are the text.

    >>> readable(["▁A", "▁hun", "gry", "▁dog", "."]), readable(["a", "dog", "##s", "."])
    ([' A', ' hun', 'gry', ' dog', '.'], [' a', ' dog', 's', '.'])
    >>> readable(["A ", "dog"]), readable(["A", "Ċ", "Ġdog"])
    (['A ', 'dog'], ['A', '\n', ' dog'])
    """
    if any(token.startswith(_STARTS) for token in tokens):
        marks = str.maketrans({"▁": " ", "Ġ": " ", "Ċ": "\n", "ĉ": "\t"})
        return [token.replace("<0x0A>", "\n").translate(marks) for token in tokens]
    if any(token[:1].isspace() or token[-1:].isspace() for token in tokens):
        return list(tokens)
    return [
        token[2:] if token.startswith("##") and len(token) > 2 else token if token in _CLOSING else f" {token}"
        for token in tokens
    ]


def find_text(tokens: Sequence[str], text: str, limit: int = 1000) -> list[int]:
    """The tokens at which a text begins, in any case: as whole words or, where there are none, as parts of words.

    >>> find_text([" It", " was", " with", " hun", "gry"], "it"), find_text([" hun", "gry"], "hungry")
    ([0], [0])
    """
    wanted = " ".join(text.lower().split())
    if not wanted:
        return []
    lowered = [token.lower().replace("\n", " ").replace("\t", " ") for token in tokens]
    joined = "".join(lowered)
    starts = list(accumulate(map(len, lowered), initial=0))
    whole: dict[int, None] = {}
    parts: dict[int, None] = {}
    place = joined.find(wanted)
    while place >= 0 and len(whole) < limit:
        token = bisect_right(starts, place) - 1
        after = place + len(wanted)
        cut_before = place > 0 and joined[place - 1].isalnum() and joined[place].isalnum()
        cut_after = after < len(joined) and joined[after].isalnum() and joined[after - 1].isalnum()
        if not (cut_before or cut_after):
            whole[token] = None
        elif len(parts) < limit:
            parts[token] = None
        place = joined.find(wanted, place + 1)
    return list(whole or parts)
