"""Pairs of sentences: read, cleaned, compared with test data, padded as batches, and scored by BLEU and chrF2."""

from __future__ import annotations

import codecs
import math
import re
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.errors import FileError, InputError, MissingDependencyError
from regard.support import progress, reading
from regard.translation.training.vocabulary import clean

_LINKS = re.compile(r"(\d+>\d+( \d+>\d+)*)?")

# Files


def read_lines(path: str | Path) -> Iterator[str]:
    """The lines of a UTF-8 file, without line ends and byte-order mark; an error names the line that is not UTF-8."""
    with reading(path), Path(path).open("rb") as file:
        for number, line in enumerate(file, 1):  # line by line: a file may be larger than the memory
            line = line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
            if not line:  # only a byte-order mark
                return
            try:
                text = line.removesuffix(b"\n").decode("utf-8").removesuffix("\r")
            except UnicodeDecodeError as error:
                why = f"{error.reason} at byte {error.start}"
                raise FileError(f"{path}, line {number}: not UTF-8 ({why}).") from None
            yield text


def read_pairs(path: str | Path, target: str | Path | None = None) -> Iterator[tuple[str, str]]:
    """The pairs of a TSV file (source, tab, target), or of two files line by line; an error names a broken line.

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


def read_linked(path: str | Path) -> Iterator[tuple[str, str, str]]:
    """The pairs of a TSV file, each with its links: a third column such as "7>1 7>2", or nothing."""
    for number, line in enumerate(read_lines(path), 1):
        source, target, links, *_ = [*line.split("\t"), "", ""]
        if "\t" not in line or not _LINKS.fullmatch(links):
            what = "no tab between source and target" if "\t" not in line else 'links must be like "7>1 7>2"'
            raise FileError(f"{path}, line {number}: {what}: {line[:60]!r}.")
        yield source, target, links


# Pairs


@dataclass
class Corpus:
    """Pairs (source, target), and the number of dropped pairs for each reason.

    >>> corpus = Corpus()
    >>> corpus.add([("Hello.", "Bonjour."), ("Hello.", "Bonjour."), ("Hi.", ""), ("one two three " * 9, "un")])
    >>> corpus.pairs, dict(corpus.dropped)
    ([('Hello.', 'Bonjour.')], {'twice': 1, 'one side empty': 1, 'lengths too different': 1})
    """

    pairs: list[tuple[str, str]] = field(default_factory=list)
    dropped: Counter[str] = field(default_factory=Counter)
    longest: int = 400  # characters of a side
    links: dict[tuple[str, str], str] = field(default_factory=dict)  # "7>1 7>2", of the pairs that have links

    def __post_init__(self) -> None:
        self._distinct = set(self.pairs)

    def add(self, pairs: Iterable[tuple[str, str] | tuple[str, str, str]]) -> None:
        """Clean pairs and add them, with their links if they have any; count those that are dropped."""
        for raw_source, raw_target, *links in pairs:
            source, target = pair = clean(raw_source), clean(raw_target)
            fewer, more = sorted((len(source.split()), len(target.split())))
            if not source or not target:
                self.dropped["one side empty"] += 1
            elif max(len(source), len(target)) > self.longest:
                self.dropped[f"longer than {self.longest} characters"] += 1
            elif more > 3 * fewer + 5:
                self.dropped["lengths too different"] += 1
            elif pair in self._distinct:
                self.dropped["twice"] += 1
            else:
                self.pairs.append(pair)
                self._distinct.add(pair)
                if links and links[0]:
                    self.links[pair] = links[0]

    def report(self) -> str:
        """The numbers of kept and dropped pairs, as lines of text."""
        total = len(self.pairs) + sum(self.dropped.values())
        lines = [f"{len(self.pairs):,} of {total:,} pairs kept"]
        return "\n".join([*lines, *(f"  {count:,} dropped: {why}" for why, count in self.dropped.most_common())])


# Near duplicates


def character_ngrams(text: str, size: int = 4) -> frozenset[str]:
    """The character 4-grams of a line in lower case with single spaces; a shorter line is one n-gram.

    >>> sorted(character_ngrams("A  dog."))
    [' dog', 'a do', 'dog.']
    """
    text = " ".join(text.lower().split())
    if not text:
        return frozenset()
    return frozenset([text[start : start + size] for start in range(max(1, len(text) - size + 1))])


def near(lines: Iterable[str], others: Iterable[str], threshold: float) -> list[bool]:
    """Whether the Jaccard similarity of the n-grams of each line with any other reaches the threshold.

    It is exact, and made for millions of lines.

    >>> near(["The dog ate.", "The dog ate!", "It rains.", ""], ["The dog ate.", "Hello."], 0.7)
    [True, True, False, False]
    """
    if not 0 < threshold <= 1:
        raise InputError(f"threshold must be above 0 and at most 1. Got {threshold}.")
    lines, others = list(lines), list(dict.fromkeys(others))
    if len(lines) > len(others):
        index = _Similar(others, threshold)
        return [next(index.to(line), None) is not None for line in lines]
    index = _Similar(lines, threshold)
    similar = {number for other in others for number in index.to(other)}
    return [number in similar for number in range(len(lines))]


class _Similar:
    """Finds the texts that are similar to a given text, by an index from n-grams to texts.

    Of n n-grams a similar text lacks at most (1 - threshold) n. So it has some of the rarest (1 - threshold) n + 1 of
    them: only texts that do are compared in full, and the long lists of frequent n-grams are never read.
    """

    def __init__(self, texts: Sequence[str], threshold: float):
        self._threshold = threshold
        self._ngrams = [character_ngrams(text) for text in texts]
        index: dict[str, array[int]] = {}
        for number, ngrams in enumerate(self._ngrams):
            for ngram in ngrams:
                index.setdefault(ngram, array("i")).append(number)
        self._postings = {ngram: np.frombuffer(numbers, np.int32) for ngram, numbers in index.items()}

    def to(self, text: str) -> Iterator[int]:
        """The numbers of the texts whose n-grams are so like those of this text."""
        ngrams, postings = character_ngrams(text), self._postings
        lists = [postings[ngram] for ngram in ngrams if ngram in postings]
        lacking = len(ngrams) - math.ceil(self._threshold * len(ngrams) - 1e-9) - (len(ngrams) - len(lists))
        if not lists or lacking < 0:
            return
        lists.sort(key=len)
        rarest = lists[: lacking + max(len(ngrams) // 5, 1)]
        counts = np.bincount(np.concatenate(rarest), minlength=len(self._ngrams))
        for number in np.flatnonzero(counts >= max(len(rarest) - lacking, 1)).tolist():
            shared, both = len(ngrams & self._ngrams[number]), len(ngrams) + len(self._ngrams[number])
            if shared >= self._threshold * (both - shared):
                yield number


# Batches


_MULTIPLE = 8  # lengths are padded to multiples of 8: fewer shapes, and whole tiles for the kernels


class Batches:
    """Pairs of ids as padded batches: the source with its end, the target with start and end.

    >>> batches = Batches([([5, 6], [7]), ([5], [7, 8, 9])], end=0, pad=10, tokens=64)
    >>> source, target = batches.batch(batches.plan(0)[0])
    >>> sorted(source.tolist()), target.shape
    ([[5, 0, 10, 10, 10, 10, 10, 10], [5, 6, 0, 10, 10, 10, 10, 10]], torch.Size([2, 9]))
    """

    def __init__(
        self,
        pairs: Sequence[tuple[Sequence[int], Sequence[int]]],
        links: Sequence[Sequence[tuple[int, int]]] | None = None,
        *,
        end: int,
        pad: int,
        tokens: int,
        longest: int = 96,
        joined: float = 0.0,
        seed: int = 0,
    ):
        self.end, self.pad, self.tokens, self.longest, self.joined, self.seed = end, pad, tokens, longest, joined, seed
        fitting = [n for n, (s, t) in enumerate(pairs) if len(s) < longest and len(t) < longest]
        kept = [pairs[n] for n in fitting]
        self._links = None if links is None else [links[n] for n in fitting]  # (query, key) tokens of each source
        self.dropped = len(pairs) - len(kept)
        self.sides = [[np.array([*pair[side], end], dtype=np.int32) for pair in kept] for side in (0, 1)]
        lengths = [[len(ids) for ids in pair] for pair in zip(*self.sides, strict=True)]
        self.lengths = np.array(lengths).reshape(-1, 2)

    def __len__(self) -> int:
        return len(self.sides[0])

    def plan(self, number: int) -> list[list[tuple[int, ...]]]:
        """The batches of an epoch in random order, each a list of rows, each row the indices of its pairs.

        Every pair is a row; some pairs are also joined to rows of two.
        """
        random = np.random.default_rng((self.seed, number))
        lengths = self.lengths
        extra = random.integers(0, max(len(self), 1), (int(len(self) * self.joined), 2))
        together = lengths[extra].sum(1)
        fits = (together < self.longest).all(1)
        sizes = np.concatenate([lengths, together[fits]])
        rows = [(n,) for n in range(len(self))] + [(a, b) for a, b in extra[fits].tolist()]
        jitter = sizes + random.random(sizes.shape) * 2
        order = np.lexsort((jitter[:, 0], jitter[:, 1]))
        widths = -(-sizes[order].max(1) // _MULTIPLE) * _MULTIPLE
        batches, start = [], 0
        while start < len(order):
            ahead = np.maximum.accumulate(widths[start : start + self.tokens])
            over = ahead * np.arange(1, len(ahead) + 1) > self.tokens
            stop = start + max(int(over.argmax()) if over.any() else len(ahead), 1)
            batches.append([rows[n] for n in order[start:stop]])
            start = stop
        return [batches[n] for n in random.permutation(len(batches))]

    def labels(self, rows: Sequence[tuple[int, ...]]) -> int:
        """The number of target tokens in rows, ends included."""
        places = np.array([n for row in rows for n in row], dtype=np.int64)
        return int(self.lengths[places, 1].sum()) - (len(places) - len(rows))  # a row has one end, however many pairs

    def batch(self, rows: Sequence[tuple[int, ...]]) -> tuple[Tensor, Tensor]:
        """The padded source and target ids of rows."""
        rows = sorted(rows, key=len)  # joined pairs come last
        pairs, counts = np.array([n for row in rows for n in row]), np.array([len(row) for row in rows])
        padded = []
        for side, ids in enumerate(self.sides):
            # A row has the end of its last pair only. A target begins with padding, as in Marian.
            sizes = np.add.reduceat(self.lengths[pairs, side], np.cumsum(counts) - counts) - (counts - 1) + side
            # A target is one longer than a multiple: its input lacks the last token, its labels the first.
            width = -(-(int(sizes.max()) - side) // _MULTIPLE) * _MULTIPLE + side
            padded.append(np.full((len(rows), width), self.pad, dtype=np.int64))
            column = np.arange(width)
            parts = [part for *first, last in rows for part in (*(ids[n][:-1] for n in first), ids[last])]
            padded[side][(column >= side) & (column < sizes[:, None])] = np.concatenate(parts)
        source, target = map(torch.from_numpy, padded)
        return source, target

    def links(self, rows: Sequence[tuple[int, ...]]) -> Tensor:
        """The links of rows, as (row of `batch`, query token, key token)."""
        links = []
        if self._links is not None:
            for n, row in enumerate(sorted(rows, key=len)):  # the order of `batch`
                before = 0
                for pair in row:
                    links += [(n, query + before, key + before) for query, key in self._links[pair]]
                    before += int(self.lengths[pair, 0]) - 1
        return torch.tensor(links, dtype=torch.int64).view(-1, 3)

    def linked(self, rows: Sequence[tuple[int, ...]]) -> int:
        """How many query tokens of rows have links."""
        return len({(n, query) for n, query, _ in self.links(rows).tolist()})


# Scores

NEAR = 0.6  # similarity from which a line counts as seen in training


@dataclass(frozen=True)
class Score:
    """BLEU and chrF2 of lines, and how sacrebleu computed them.

    >>> scores = score(["The cat sat down."], ["The cat sat down."])
    >>> print(scores)
    BLEU 100.0  chrF2 100.0  1 line
    >>> scores.bleu_signature.split("|")[-1].split(":")[0]
    'version'
    """

    bleu: float
    chrf: float
    lines: int
    bleu_signature: str
    chrf_signature: str
    far: Score | None = None  # the score of the lines without a similar training line, if there are any

    def __str__(self) -> str:
        text = f"BLEU {self.bleu:.1f}  chrF2 {self.chrf:.1f}  {self.lines:,} line{'s' * (self.lines != 1)}"
        return text if self.far is None else f"{text}\nfar from the training: {self.far}"


def import_sacrebleu() -> Any:
    """The sacrebleu module, or an error that says how to install it."""
    try:
        import sacrebleu
    except ImportError as error:
        raise MissingDependencyError(f"BLEU and chrF2 need sacrebleu ({error}): pip install 'regard[train]'") from None
    return sacrebleu


def score(
    hypotheses: Sequence[str],
    references: Sequence[str],
    *,
    sources: Sequence[str] | None = None,
    train: Sequence[tuple[str, str]] | None = None,
) -> Score:
    """BLEU and chrF2; with sources and training pairs, also for the lines far from the training.

    A line is far if the character-4-gram Jaccard of its source with every training source, and of its reference with
    every training target, is below 0.6.

    Args:
        hypotheses: the translations.
        references: the reference translations, one for each hypothesis.
        sources: the lines that were translated.
        train: the training pairs (source, target).

    >>> score(["Un chien."], ["Un chien."], sources=["A dog."], train=[("A cat.", "Un chat.")]).far.lines
    1
    """
    sacrebleu = import_sacrebleu()
    if len(hypotheses) != len(references) or not references:
        raise InputError(
            f"score takes as many hypotheses as references, at least 1. Got {len(hypotheses)} and {len(references)}."
        )
    if (sources is None) != (train is None):
        raise InputError("the part far from the training needs both: the sources, and the training pairs.")
    far = None
    if sources is not None and train is not None:
        if len(sources) != len(references):
            raise InputError(f"score takes a source for each reference. Got {len(sources)} and {len(references)}.")
        with progress("comparing with the training"):
            near_sources = near(sources, [pair[0] for pair in train], NEAR)
            near_targets = near(references, [pair[1] for pair in train], NEAR)
        unseen = [n for n, both in enumerate(zip(near_sources, near_targets, strict=True)) if not any(both)]
        far = score([hypotheses[n] for n in unseen], [references[n] for n in unseen]) if unseen else None
    figures: list[Any] = []
    with progress("scoring", total=2) as advance:
        for metric in (sacrebleu.BLEU(), sacrebleu.CHRF()):
            figures += [metric.corpus_score(list(hypotheses), [list(references)]).score, str(metric.get_signature())]
            advance(1)
    bleu, bleu_signature, chrf, chrf_signature = figures
    return Score(bleu, chrf, len(references), bleu_signature, chrf_signature, far)


def score_files(
    hypotheses: str | Path, references: str | Path, *, source: str | Path | None = None, train: str | Path | None = None
) -> Score:
    """`score` for files, line by line; `train` is a TSV file (source, tab, target)."""
    pairs = list(read_pairs(hypotheses, references))
    return score(
        [pair[0] for pair in pairs],
        [pair[1] for pair in pairs],
        sources=None if source is None else list(read_lines(source)),
        train=None if train is None else list(read_pairs(train)),
    )
