"""How sure a translation is: the probabilities of its tokens, mapped to how often such a translation is right.

A word is as probable as its least probable token, a sentence as the geometric mean of its tokens. `Calibration` maps
the logarithms of these to probabilities of being right by a logistic function each, fitted on pairs that the model has
not been trained on: recipes/confidence.py.

"Right" is defined by a reference, a person's translation of the same text. A translation is right if its chrF2 with
the reference is at least 50. A word is right if the reference has it, apart from case and from punctuation at its ends.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from regard.errors import InputError


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
