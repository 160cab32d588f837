"""`SubwordSampler`: a random segmentation of a text into subwords, the same for the same seed on every machine.

It draws from the distribution of SentencePiece's own sampling (a segmentation has the probability of its pieces to the
power alpha, normalised over all segmentations), whose generator cannot be seeded in every version.
"""

from __future__ import annotations

import math
from bisect import bisect
from random import Random
from typing import Any, NamedTuple

__all__ = ["SubwordSampler"]

_SPACE = "\u2581"
_UNKNOWN_PENALTY = 10.0  # SentencePiece's: an unknown letter is less probable than any piece


class _Choices(NamedTuple):
    """The pieces that may end at one place of a word."""

    limits: list[float]  # cumulative probabilities
    starts: list[int]
    ids: list[int]


class SubwordSampler:
    """Draws segmentations for one SentencePiece unigram model and one alpha (larger = less random).

    >>> from regard.translation import Vocabulary
    >>> words = Vocabulary.train(["a dog ate", "the dog ran"] * 9, size=20)
    >>> sampler = SubwordSampler(words._pieces, alpha=0.1)
    >>> [words.decode(sampler.draw("a dog ran", Random(seed))) for seed in range(2)]
    ['a dog ran', 'a dog ran']
    """

    def __init__(self, processor: Any, alpha: float):
        self._processor, self._alpha = processor, alpha
        usable = [
            n for n in range(processor.GetPieceSize())
            if not (processor.IsControl(n) or processor.IsUnknown(n) or processor.IsUnused(n) or processor.IsByte(n))
        ]  # fmt: skip
        scores = {n: processor.GetScore(n) for n in usable}
        self._pieces = {processor.IdToPiece(n): (n, alpha * score) for n, score in scores.items()}
        self._longest = max(map(len, self._pieces), default=1)
        self._unknown = processor.unk_id(), alpha * (min(scores.values(), default=0.0) - _UNKNOWN_PENALTY)
        # Pieces begin with the mark of a space or have none: words are then independent of each other.
        self._by_word = not any(_SPACE in piece[1:] for piece in self._pieces)
        self._lattices: dict[str, list[_Choices]] = {}

    def draw(self, text: str, random: Random) -> list[int]:
        """The ids of one segmentation."""
        text = self._processor.Normalize(text)
        words = [_SPACE + word for word in text.split(_SPACE)[1:]] if self._by_word and text[:1] == _SPACE else [text]
        ids: list[int] = []
        for word in words:
            lattice = self._lattices.get(word)
            if lattice is None:
                lattice = self._lattices[word] = self._lattice(word)
            found, end = [], len(word)
            while end:
                limits, starts, pieces = lattice[end]
                chosen = min(bisect(limits, random.random()), len(starts) - 1)
                found.append(pieces[chosen])
                end = starts[chosen]
            ids += reversed(found)
        unknown = self._unknown[0]  # several in a row are one, as in SentencePiece
        return [n for place, n in enumerate(ids) if n != unknown or place == 0 or ids[place - 1] != unknown]

    def _lattice(self, word: str) -> list[_Choices]:
        """Forward filtering: for each place, the pieces that may end there and their probabilities."""
        total = [0.0]  # log of the sum over all segmentations of the first n letters
        choices = [_Choices([], [], [])]
        for end in range(1, len(word) + 1):
            found = []
            for start in range(max(end - self._longest, 0), end):
                piece = self._pieces.get(word[start:end])
                if piece is None and start == end - 1:
                    piece = self._unknown
                if piece is not None:
                    found.append((total[start] + piece[1], start, piece[0]))
            most = max(weight for weight, _, _ in found)
            shares = [math.exp(weight - most) for weight, _, _ in found]
            whole = math.fsum(shares)
            limits, so_far = [], 0.0
            for share in shares:
                so_far += share / whole
                limits.append(so_far)
            total.append(most + math.log(whole))
            choices.append(_Choices(limits, [start for _, start, _ in found], [n for _, _, n in found]))
        return choices
