"""What all grammars do with their sentences: take so many different ones, and write them to a file."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

Pair = tuple[str, str]


def different(pairs: Iterable[Pair], lines: int) -> list[Pair]:
    """The first so many pairs whose English is not that of another before.

    >>> different(iter([("A.", "Un."), ("A.", "Une."), ("B.", "Deux."), ("C.", "Trois.")]), 2)
    [('A.', 'Un.'), ('B.', 'Deux.')]
    """
    found: dict[str, str] = {}
    for english, french in pairs:
        if len(found) == lines:
            break
        found.setdefault(english, french)
    return list(found.items())


def to_file(description: str, sentences: Callable[[int], Sequence[tuple[str, ...]]]) -> None:
    """Write the pairs of a grammar to the TSV file that the command line names."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("file", type=Path, help="the TSV file to write: English, tab, French")
    parser.add_argument("--lines", type=int, default=12_000)
    options = parser.parse_args()
    pairs = sentences(options.lines)
    options.file.write_text("".join("\t".join(columns) + "\n" for columns in pairs), encoding="utf-8")
    print(f"{len(pairs):,} pairs → {options.file}")
