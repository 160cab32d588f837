"""Text from files: lines, pairs of sentences (cleaned, with a count of what was dropped), and near duplicates."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from regard.errors import FileError, InputError
from regard.translation.vocabulary import clean

__all__ = ["Corpus", "character_ngrams", "jaccard", "near", "read_lines", "read_pairs"]


# Files


def read_lines(path: str | Path) -> Iterator[str]:
    """The lines of a UTF-8 file, without line ends; a line that is not UTF-8 is named."""
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise FileError(f"{path} cannot be read: {error.strerror}.") from None
    for number, line in enumerate(data.removesuffix(b"\n").split(b"\n") if data else [], 1):
        try:
            yield line.decode("utf-8").removesuffix("\r")
        except UnicodeDecodeError as error:
            raise FileError(f"{path}, line {number}: not UTF-8 ({error.reason} at byte {error.start}).") from None


def read_pairs(path: str | Path, target: str | Path | None = None) -> Iterator[tuple[str, str]]:
    """The pairs of a TSV file (source, tab, target), or of two files line by line; a broken line is named.

    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "pairs.tsv"
    >>> _ = file.write_text("Hello.\\tBonjour.\\n", encoding="utf-8")
    >>> list(read_pairs(file))
    [('Hello.', 'Bonjour.')]
    """
    if target is None:
        for number, line in enumerate(read_lines(path), 1):
            columns = line.split("\t")
            if len(columns) < 2:
                raise FileError(f"{path}, line {number}: no tab between source and target: {line[:60]!r}.")
            yield columns[0], columns[1]
        return
    sources, targets = list(read_lines(path)), list(read_lines(target))
    if len(sources) != len(targets):
        raise FileError(
            f"{path} has {len(sources):,} lines, {target} has {len(targets):,}: they must match line by line."
        )
    yield from zip(sources, targets, strict=True)


# Pairs


@dataclass
class Corpus:
    """Pairs (source, target), and a count of what was dropped and why.

    >>> corpus = Corpus()
    >>> corpus.add([("Hello.", "Bonjour."), ("Hello.", "Bonjour."), ("Hi.", ""), ("one two three " * 9, "un")])
    >>> corpus.pairs, dict(corpus.dropped)
    ([('Hello.', 'Bonjour.')], {'twice': 1, 'one side empty': 1, 'lengths too different': 1})
    """

    pairs: list[tuple[str, str]] = field(default_factory=list)
    dropped: Counter[str] = field(default_factory=Counter)
    longest: int = 400  # characters of a side

    def __post_init__(self) -> None:
        self._distinct = set(self.pairs)

    def add(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Add pairs, cleaned; count those that are of no use."""
        for source, target in pairs:
            pair = clean(source), clean(target)
            reason = self._reason_to_drop(*pair)
            if reason is None:
                self.pairs.append(pair)
                self._distinct.add(pair)
            else:
                self.dropped[reason] += 1

    def _reason_to_drop(self, source: str, target: str) -> str | None:
        if not source or not target:
            return "one side empty"
        if max(len(source), len(target)) > self.longest:
            return f"longer than {self.longest} characters"
        words = sorted((len(source.split()), len(target.split())))
        if words[1] > 3 * words[0] + 5:
            return "lengths too different"
        if (source, target) in self._distinct:
            return "twice"
        return None

    def report(self) -> str:
        """How many pairs were kept and dropped, in a few lines."""
        total = len(self.pairs) + sum(self.dropped.values())
        lines = [f"{len(self.pairs):,} of {total:,} pairs kept"]
        return "\n".join([*lines, *(f"  {count:,} dropped: {why}" for why, count in self.dropped.most_common())])


# Near duplicates


def character_ngrams(text: str, size: int = 4) -> frozenset[str]:
    """The character 4-grams of a line, in lower case, with single spaces; a shorter line is one n-gram.

    >>> sorted(character_ngrams("A  dog."))
    [' dog', 'a do', 'dog.']
    """
    text = " ".join(text.lower().split())
    if not text:
        return frozenset()
    return frozenset([text[start : start + size] for start in range(max(1, len(text) - size + 1))])


def jaccard(one: str, other: str) -> float:
    """The share of character 4-grams that two lines have in common: 0 for none, 1 for all.

    >>> jaccard("A dog.", "a dog."), jaccard("A dog.", "A dog!"), jaccard("A dog.", "Three")
    (1.0, 0.5, 0.0)
    """
    a, b = character_ngrams(one), character_ngrams(other)
    return len(a & b) / len(a | b) if a or b else 1.0


def near(lines: Iterable[str], others: Sequence[str], threshold: float) -> list[bool]:
    """For each line, whether its `jaccard` with any of the others reaches the threshold.

    Exact: an inverted index from n-grams to the others counts how many n-grams each pair shares.

    >>> near(["The dog ate.", "The dog ate!", "It rains.", ""], ["The dog ate.", "Hello."], 0.7)
    [True, True, False, False]
    """
    if not 0 < threshold <= 1:
        raise InputError(f"threshold must be above 0 and at most 1. Got {threshold}.")
    ngrams = [character_ngrams(line) for line in lines]
    index = {ngram: array("i") for line in ngrams for ngram in line}
    sizes = []
    for number, other in enumerate(dict.fromkeys(others)):
        other_ngrams = character_ngrams(other)
        sizes.append(len(other_ngrams))
        for ngram in other_ngrams & index.keys():
            index[ngram].append(number)
    postings = {ngram: np.frombuffer(numbers, np.int32) for ngram, numbers in index.items() if numbers}
    counts = np.array(sizes, np.int64)
    return [_reaches(line, postings, counts, threshold) for line in ngrams]


def _reaches(
    line: frozenset[str], postings: dict[str, NDArray[np.int32]], sizes: NDArray[np.int64], threshold: float
) -> bool:
    shared_lists = [postings[ngram] for ngram in line if ngram in postings]
    # The intersection has at most so many n-grams, the union at least those of the line.
    if not shared_lists or len(shared_lists) < threshold * len(line):
        return False
    shared = np.bincount(np.concatenate(shared_lists), minlength=len(sizes))
    return bool((shared >= threshold * (len(line) + sizes - shared)).any())
