"""`near`: which lines say almost the same as others, by the character 4-grams that they share."""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from regard.errors import InputError

__all__ = ["grams", "jaccard", "near"]

_SAMPLE = 10_000  # others that tell which grams are rare


def grams(text: str, size: int = 4) -> frozenset[str]:
    """The character 4-grams of a line, in lower case, with spaces made single; a shorter line is one gram.

    >>> sorted(grams("A  dog."))
    [' dog', 'a do', 'dog.']
    """
    text = " ".join(text.lower().split())
    if not text:
        return frozenset()
    return frozenset([text[start : start + size] for start in range(max(1, len(text) - size + 1))])


def jaccard(one: str, other: str) -> float:
    """How much of the 4-grams of two lines is shared: 0 for none, 1 for all.

    >>> jaccard("A dog.", "a dog."), jaccard("A dog.", "A dog!"), jaccard("A dog.", "Three")
    (1.0, 0.5, 0.0)
    """
    a, b = grams(one), grams(other)
    return len(a & b) / len(a | b) if a or b else 1.0


def near(lines: Iterable[str], others: Sequence[str], threshold: float) -> list[bool]:
    """For each line: does its 4-gram Jaccard with any of the others reach the threshold?

    Exact, and still fast: a line of n grams that reaches the threshold t shares at least t n of them, so one of any
    n - t n + 1 at the least. The rarest that many are looked up, and only who has enough of them is compared.

    >>> near(["The dog ate.", "The dog ate!", "It rains.", ""], ["The dog ate.", "Hello."], 0.7)
    [True, True, False, False]
    """
    if not 0 < threshold <= 1:
        raise InputError(f"threshold must be above 0 and at most 1. Got {threshold}.")
    own, others = [grams(line) for line in lines], list(dict.fromkeys(others))
    rare = _rarest(own, others, threshold)
    index: dict[str, array[int]] = {gram: array("i") for some in rare for gram in some}
    sizes = np.zeros(len(others), np.int32)
    for number, other in enumerate(others):
        theirs = grams(other)
        sizes[number] = len(theirs)
        for gram in theirs & index.keys():
            index[gram].append(number)
    places = {gram: np.frombuffer(numbers, np.int32) for gram, numbers in index.items() if numbers}
    found = []
    for line, some in zip(own, rare, strict=True):
        hits = [places[gram] for gram in some if gram in places]
        if not hits:
            found.append(False)
            continue
        numbers, counts = np.unique(np.concatenate(hits), return_counts=True)
        # Jaccard t means t (n + m) / (1 + t) shared grams; those that are not rare may all be.
        needed = threshold / (1 + threshold) * (len(line) + sizes[numbers]) - 1e-6
        close = numbers[counts + (len(line) - len(some)) >= needed]
        found.append(any(_reaches(line, grams(others[number]), threshold) for number in close.tolist()))
    return found


def _rarest(lines: list[frozenset[str]], others: Sequence[str], threshold: float) -> list[list[str]]:
    """Of each line, the rarest grams, as many as cannot all be missing in who reaches the threshold."""
    common: Counter[str] = Counter()
    for other in others[:: len(others) // _SAMPLE + 1]:
        common.update(grams(other))
    return [
        sorted(line, key=lambda gram: (common[gram], gram))[: len(line) - math.ceil(threshold * len(line) - 1e-6) + 1]
        for line in lines
    ]


def _reaches(one: frozenset[str], other: frozenset[str], threshold: float) -> bool:
    shared = len(one & other)
    return shared >= threshold * (len(one) + len(other) - shared)
