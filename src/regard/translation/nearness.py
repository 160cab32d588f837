"""`near`: which lines say almost the same as others, by the character 4-grams that they share."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

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
    return frozenset(text[start : start + size] for start in range(max(1, len(text) - size + 1)))


def jaccard(one: str, other: str) -> float:
    """How much of the 4-grams of two lines is shared: 0 for none, 1 for all.

    >>> jaccard("A dog.", "a dog."), jaccard("A dog.", "A dog!"), jaccard("A dog.", "Three")
    (1.0, 0.5, 0.0)
    """
    a, b = grams(one), grams(other)
    return len(a & b) / len(a | b) if a or b else 1.0


def near(lines: Iterable[str], others: Sequence[str], threshold: float) -> list[bool]:
    """For each line: does its 4-gram Jaccard with any of the others reach the threshold?

    Exact: each line's grams are looked up among those of the others, so lines that share none cost nothing.

    >>> near(["The dog ate.", "The dog ate!", "It rains.", ""], ["The dog ate.", "Hello."], 0.7)
    [True, True, False, False]
    """
    if not 0 < threshold <= 1:
        raise InputError(f"threshold must be above 0 and at most 1. Got {threshold}.")
    index: defaultdict[str, list[int]] = defaultdict(list)
    sizes = []
    for number, other in enumerate(others):
        found = grams(other)
        sizes.append(len(found))
        for gram in found:
            index[gram].append(number)
    return [_reaches(grams(line), index, sizes, threshold) for line in lines]


def _reaches(line: frozenset[str], index: dict[str, list[int]], sizes: list[int], threshold: float) -> bool:
    known = [index[gram] for gram in line if gram in index]
    if len(known) < threshold * len(line):  # the shared part is at most this, the union at least the line
        return False
    shared: defaultdict[int, int] = defaultdict(int)
    for numbers in known:
        for number in numbers:
            shared[number] += 1
    return any(count >= threshold * (len(line) + sizes[number] - count) for number, count in shared.items())
