"""`near`: which lines say almost the same as others, by the character 4-grams that they share."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from regard.errors import InputError

__all__ = ["grams", "jaccard", "near"]


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

    Exact: each line's grams are looked up among those of the others, and how many it shares with each is counted.

    >>> near(["The dog ate.", "The dog ate!", "It rains.", ""], ["The dog ate.", "Hello."], 0.7)
    [True, True, False, False]
    """
    if not 0 < threshold <= 1:
        raise InputError(f"threshold must be above 0 and at most 1. Got {threshold}.")
    own = [grams(line) for line in lines]
    index = {gram: array("i") for line in own for gram in line}
    sizes = []
    for number, other in enumerate(dict.fromkeys(others)):
        theirs = grams(other)
        sizes.append(len(theirs))
        for gram in theirs & index.keys():
            index[gram].append(number)
    places = {gram: np.frombuffer(numbers, np.int32) for gram, numbers in index.items() if numbers}
    counts = np.array(sizes, np.int64)
    return [_reaches(line, places, counts, threshold) for line in own]


def _reaches(
    line: frozenset[str], places: dict[str, NDArray[np.int32]], sizes: NDArray[np.int64], threshold: float
) -> bool:
    known = [places[gram] for gram in line if gram in places]
    if not known or len(known) < threshold * len(line):  # the shared part is at most this, the union at least the line
        return False
    shared = np.bincount(np.concatenate(known), minlength=len(sizes))
    return bool((shared >= threshold * (len(line) + sizes - shared)).any())
