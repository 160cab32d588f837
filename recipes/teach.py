"""Write what a teacher says: its translations of the sources of some corpora, to train a smaller model on.

    python recipes/teach.py teacher recipes/wide/taught.tsv ../shared/data/tatoeba/train.tsv recipes/wide/documents.tsv
    python recipes/teach.py teacher taught.tsv corpus.tsv --minutes 2

A smaller model learns more from them than from what people wrote: a teacher says the same thing in the same way each
time, and leaves out what nobody could guess. Greedy, on the GPU where there is one. Each source is translated once;
translations that stop early, run on or change a number are left out.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path

import torch

from regard.io import progress
from regard.translation import Translator, read_pairs
from regard.translation.searching import search_all

_SHORTEST, _LONGEST = 0.6, 1.9  # tokens of a translation for one of its source
_FEW = 8  # tokens: with so few of them any ratio may be right


def distinct_sources(files: list[str]) -> list[str]:
    """The first column of each file, each text once."""
    return list(dict.fromkeys(source for file in files for source, _ in read_pairs(file)))


def is_credible(source: str, target: str, tokens: tuple[int, int]) -> bool:
    """Whether a translation may be learned from; `tokens` are those of each side.

    >>> [is_credible("I have 12 dogs.", target, (6, 6)) for target in ("J'ai 12 chiens.", "J'ai 1 chien.")]
    [True, False]
    """
    ratio = tokens[1] / tokens[0]
    if not target.strip() or target == source or (tokens[0] > _FEW and not _SHORTEST <= ratio <= _LONGEST):
        return False
    digits = [sorted(letter for letter in text if letter.isdigit()) for text in (source, target)]
    return digits[0] == digits[1]


def taught(teacher: Translator, sources: list[str], *, longest: int = 110) -> Iterator[tuple[str, str]]:
    """The sources with their translations, those that may be learned from."""
    words = teacher.words
    encoded = [(line, [*ids, words.end]) for line, ids in zip(sources, words.encode_many(sources), strict=True)]
    encoded = [(line, ids) for line, ids in encoded if len(ids) <= longest]
    device = next(teacher.model.parameters()).device.type
    with torch.inference_mode(), torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
        found = search_all(teacher.model, [ids for _, ids in encoded], beam=1)
    for (source, ids), best in zip(encoded, found, strict=True):
        target = " ".join(words.decode(best[0].tokens).split())
        if is_credible(source, target, (len(ids), len(best[0].tokens))):
            yield source, target


def main() -> None:
    """Translate part by part, and write each part at once."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("teacher", help="the folder of a model")
    parser.add_argument("out", help="a TSV file")
    parser.add_argument("corpora", nargs="+", help="TSV files, translated in this order")
    parser.add_argument("--part", type=int, default=60_000, help="lines at once")
    parser.add_argument("--minutes", type=float, default=1e9, help="begin no further part after so long")
    options = parser.parse_args()
    began = time.monotonic()
    teacher = Translator.load(options.teacher)
    if torch.cuda.is_available():
        teacher.model.cuda()
    sources = distinct_sources(options.corpora)
    read = written = 0
    with (
        Path(options.out).open("w", encoding="utf-8", newline="\n") as file,
        progress("translating", len(sources)) as advance,
    ):
        for start in range(0, len(sources), options.part):
            if time.monotonic() - began > 60 * options.minutes:
                break
            part = sources[start : start + options.part]
            pairs = list(taught(teacher, part))
            file.writelines(f"{source}\t{target}\n" for source, target in pairs)
            file.flush()  # a training may read it already
            read, written = read + len(part), written + len(pairs)
            advance(len(part))
    print(f"{written:,} of {read:,} translations kept, {len(sources):,} lines in all; {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
