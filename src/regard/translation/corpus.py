"""`Corpus`: pairs of sentences from files, cleaned, with a count of everything that was dropped and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from regard.errors import FileError, InputError
from regard.translation.vocabulary import clean

__all__ = ["Corpus", "read_lines", "read_pairs"]


@dataclass
class Corpus:
    """Pairs (source, target), and what was left out of the files they come from.

    >>> corpus = Corpus()
    >>> corpus.add([("Hello.", "Bonjour."), ("Hello.", "Bonjour."), ("Hi.", ""), ("one two three " * 9, "un")])
    >>> corpus.pairs, dict(corpus.dropped)
    ([('Hello.', 'Bonjour.')], {'twice': 1, 'one side empty': 1, 'lengths too different': 1})
    """

    pairs: list[tuple[str, str]] = field(default_factory=list)
    dropped: Counter[str] = field(default_factory=Counter)
    longest: int = 400  # characters of a side

    def __post_init__(self) -> None:
        self._seen = set(self.pairs)

    def add(self, pairs: list[tuple[str, str]] | Iterator[tuple[str, str]]) -> None:
        """Take pairs in, cleaned; count those that are no use."""
        for source, target in pairs:
            pair = clean(source), clean(target)
            why = self._why_not(*pair)
            if why is None:
                self.pairs.append(pair)
                self._seen.add(pair)
            else:
                self.dropped[why] += 1

    def _why_not(self, source: str, target: str) -> str | None:
        if not source or not target:
            return "one side empty"
        if max(len(source), len(target)) > self.longest:
            return f"longer than {self.longest} characters"
        words = sorted((len(source.split()), len(target.split())))
        if words[1] > 3 * words[0] + 5:
            return "lengths too different"
        if (source, target) in self._seen:
            return "twice"
        return None

    def report(self) -> str:
        """What was kept and what was dropped, in a few lines."""
        total = len(self.pairs) + sum(self.dropped.values())
        lines = [f"{len(self.pairs):,} of {total:,} pairs kept"]
        return "\n".join([*lines, *(f"  {count:,} dropped: {why}" for why, count in self.dropped.most_common())])


def read_pairs(path: str | Path, target: str | Path | None = None) -> Iterator[tuple[str, str]]:
    """The pairs of a TSV file (source, tab, target) or of two files line by line; a broken line is named.

    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "pairs.tsv"
    >>> _ = file.write_text("Hello.\\tBonjour.\\n", encoding="utf-8")
    >>> list(read_pairs(file))
    [('Hello.', 'Bonjour.')]
    """
    if target is None:
        for number, line in enumerate(read_lines(path), 1):
            parts = line.split("\t")
            if len(parts) < 2:
                raise FileError(f"{path}, line {number}: no tab between source and target: {line[:60]!r}.")
            yield parts[0], parts[1]
        return
    sources, targets = list(read_lines(path)), list(read_lines(target))
    if len(sources) != len(targets):
        raise FileError(
            f"{path} has {len(sources):,} lines, {target} has {len(targets):,}: they must match line by line."
        )
    yield from zip(sources, targets, strict=True)


def read_lines(path: str | Path) -> Iterator[str]:
    """The lines of a UTF-8 file, without their ends; a line that is not UTF-8 is named."""
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise FileError(f"{path} cannot be read: {error.strerror}.") from None
    for number, line in enumerate(data.removesuffix(b"\n").split(b"\n") if data else [], 1):
        try:
            yield line.decode("utf-8").removesuffix("\r")
        except UnicodeDecodeError as error:
            raise FileError(f"{path}, line {number}: not UTF-8 ({error.reason} at byte {error.start}).") from None


def check_split(pairs: list[tuple[str, str]], name: str) -> None:
    """A corpus must hold something."""
    if not pairs:
        raise InputError(f"the {name} corpus holds no pair.")
