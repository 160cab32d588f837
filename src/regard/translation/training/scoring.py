"""`score`: BLEU and chrF2 by sacrebleu, with its signatures; for all lines, and for those far from the training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.errors import InputError, MissingDependencyError
from regard.support import progress
from regard.translation.training.corpus import near, read_lines, read_pairs

NEAR = 0.6  # similarity from which a line counts as seen in training


@dataclass(frozen=True)
class Score:
    """BLEU and chrF2 of lines, and how sacrebleu computed them.

    >>> found = score(["The cat sat down."], ["The cat sat down."])
    >>> print(found)
    BLEU 100.0  chrF2 100.0  1 line
    >>> found.bleu_signature.split("|")[-1].split(":")[0]
    'version'
    """

    bleu: float
    chrf: float
    lines: int
    bleu_signature: str
    chrf_signature: str
    far: Score | None = None  # of the lines without a similar training line, if there are any

    def __str__(self) -> str:
        text = f"BLEU {self.bleu:.1f}  chrF2 {self.chrf:.1f}  {self.lines:,} line{'s' * (self.lines != 1)}"
        return text if self.far is None else f"{text}\nfar from the training: {self.far}"


def import_sacrebleu() -> Any:
    """The sacrebleu module; an error that says what to install if it is missing."""
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
    """BLEU and chrF2; with the sources and the training pairs, also for the lines far from the training.

    A line is far if the character-4-gram Jaccard of its source with every training source, and of its reference with
    every training target, is below 0.6.

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
    """The same for files, line by line; `train` is a TSV file (source, tab, target)."""
    pairs = list(read_pairs(hypotheses, references))
    return score(
        [pair[0] for pair in pairs],
        [pair[1] for pair in pairs],
        sources=None if source is None else list(read_lines(source)),
        train=None if train is None else list(read_pairs(train)),
    )
