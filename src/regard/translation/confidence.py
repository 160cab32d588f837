"""How sure a translation is: the probabilities of its tokens, mapped to how often such a translation is right.

A word is as probable as its least probable token, a sentence as the geometric mean of its tokens. `Calibration` maps
the logarithms of these to probabilities of being right by a logistic function each, fitted on pairs that the model has
not been trained on: recipes/confidence.py.

"Right" is defined by a reference, a person's translation of the same text. A translation is right if its chrF2 with
the reference is at least 50. A word is right if the reference has it, apart from case and from punctuation at its ends.
Both miss paraphrases: of the pairs of translations that two people gave to one sentence in Tatoeba, 73 % reach 50. So
"right" depends on how freely the references of a kind of text are translated.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import torch

from regard.errors import InputError
from regard.translation.training.corpus import import_sacrebleu

__all__ = ["Calibration", "Curve", "calibration_error", "is_right", "right_words"]

_RIGHT = 50.0  # chrF2
_GROUPS = 10  # of a calibration error
_EDGES = ".,;:!?…\"'«»“”‘’()"  # punctuation at the ends of a word
_ROUNDS, _RIDGE = 50, 1e-3  # of Newton's method; the ridge keeps the curve finite if the two groups do not overlap


class Curve(NamedTuple):
    """A logistic function of a log-probability.

    >>> round(Curve(offset=2.0, slope=4.0)(-0.5), 2)
    0.5
    """

    offset: float
    slope: float

    def __call__(self, log: float) -> float:
        """The probability of being right."""
        return 1 / (1 + math.exp(-max(min(self.offset + self.slope * log, 500.0), -500.0)))

    @classmethod
    def fit(cls, logs: Sequence[float], right: Sequence[bool]) -> Curve:
        """The most likely curve, by Newton's method; it never falls.

        >>> curve = Curve.fit([-3.0, -2.0, -1.0, -0.5, -0.2, -0.1], [False, False, True, False, True, True])
        >>> curve(-0.1) > 0.7 > 0.3 > curve(-3.0)
        True
        """
        if len(logs) != len(right) or not logs:
            raise InputError(f"a curve needs as many answers as log-probabilities. Got {len(right)} and {len(logs)}.")
        x = torch.stack([torch.ones(len(logs)), torch.tensor(list(logs))], 1).double()
        y, weights = torch.tensor(list(right)).double(), torch.zeros(2).double()
        for _ in range(_ROUNDS):
            p = torch.sigmoid(x @ weights)
            gradient = x.mT @ (y - p) - _RIDGE * weights
            hessian = (x.mT * (p * (1 - p))) @ x + _RIDGE * torch.eye(2).double()
            weights = weights + torch.linalg.solve(hessian, gradient)
        offset, slope = weights.tolist()
        return (
            cls(offset, slope) if slope >= 0 else cls(math.log((sum(right) + 1) / (len(right) - sum(right) + 1)), 0.0)
        )


class Calibration(NamedTuple):
    """The curves of a model; without curves, a confidence is the probability that the model computes."""

    sentence: Curve | None = None
    word: Curve | None = None

    def of_sentence(self, logs: Sequence[float]) -> float:
        """The confidence in a sentence, from the log-probabilities of its tokens and of its end."""
        mean = math.fsum(logs) / max(len(logs), 1)
        return math.exp(mean) if self.sentence is None else self.sentence(mean)

    def of_words(self, logs: Sequence[float], owners: Sequence[int]) -> list[float]:
        """The confidence in each word; `owners` has the index of the word of each token.

        >>> Calibration().of_words([0.0, math.log(0.5), 0.0], [0, 0, 1])
        [0.5, 1.0]
        """
        least = [0.0] * (max(owners, default=-1) + 1)
        for log, owner in zip(logs, owners, strict=False):  # the last log is that of the end, which has no word
            least[owner] = min(least[owner], log)
        return [math.exp(log) if self.word is None else self.word(log) for log in least]

    @classmethod
    def from_json(cls, fields: Any) -> Calibration:
        """The calibration in translation.json; raises `InputError` for wrong fields."""
        if fields is None:
            return cls()
        try:
            curves = {name: Curve(*map(float, fields[name])) for name in cls._fields}
        except (TypeError, ValueError, KeyError, IndexError):
            curves = {}
        if not curves or not all(map(math.isfinite, (*curves["sentence"], *curves["word"]))):
            raise InputError(f"confidence must give two numbers for sentence and for word. Got {str(fields)[:80]}.")
        return cls(**curves)

    def as_json(self) -> dict[str, list[float]] | None:
        """The fields of translation.json."""
        if self.sentence is None or self.word is None:
            return None
        return {"sentence": list(self.sentence), "word": list(self.word)}


def is_right(text: str, reference: str) -> bool:
    """Whether the chrF2 of a translation with its reference is at least 50.

    >>> is_right("Un chien a mangé.", "Le chien a mangé."), is_right("Il pleut.", "Le chien a mangé.")
    (True, False)
    """
    return bool(import_sacrebleu().sentence_chrf(text, [reference]).score >= _RIGHT)


def right_words(words: Sequence[str], reference: str) -> list[bool]:
    """Whether a reference has each of these words; case and punctuation at the ends do not count.

    >>> right_words(["Un", "chien", "mange", "!"], "Le chien mange.")
    [False, True, True, True]
    """
    known = {"", *(word.strip(_EDGES).lower() for word in reference.split())}
    return [word.strip(_EDGES).lower() in known for word in words]


def calibration_error(confidences: Sequence[float], right: Sequence[bool]) -> float:
    """The expected calibration error: |mean confidence - share that is right|, averaged over ten groups of equal size.

    The groups have the least confident translations to the most confident ones.

    >>> round(calibration_error([0.1, 0.9] * 10, [False, True] * 10), 6)
    0.1
    """
    ranked = sorted(zip(confidences, right, strict=True), key=lambda pair: pair[0])
    cuts = [len(ranked) * n // _GROUPS for n in range(_GROUPS + 1)]
    groups = [ranked[start:stop] for start, stop in pairwise(cuts)]
    return sum(abs(math.fsum(sure - good for sure, good in group)) for group in groups) / len(ranked)
