"""`Translation`: a text that was translated, how sure the model was, and which words looked at which."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from regard.drawing import alignment
from regard.errors import InputError
from regard.nn import Transformer
from regard.support import Float
from regard.translation.seen import seen
from regard.translation.segment import Part

if TYPE_CHECKING:
    from regard.drawing import Picture
    from regard.watching import Record

__all__ = ["Alternative", "Translation"]


class Alternative(NamedTuple):
    """Another way to say it, and its score."""

    text: str
    score: float


@dataclass(frozen=True, eq=False)
class Translation:
    """What `Translator.translate` gives for a text. Printed, it is the translated text."""

    source: str
    text: str
    score: float  # the mean log-probability of a token, at length penalty 1
    alternatives: list[Alternative]  # best first, the best included
    source_tokens: list[str] = field(repr=False)  # as the model read them: ▁ begins a word
    tokens: list[str] = field(repr=False)
    source_words: list[str] = field(repr=False)
    words: list[str] = field(repr=False)
    _blocks: Callable[[], list[Tensor]] = field(repr=False)
    _seen: Callable[[], Record] = field(repr=False)

    @classmethod
    def of(cls, source: str, parts: Sequence[Part], alternatives: int, align: Any, model: Transformer) -> Translation:
        """Put the parts of a text together."""
        texts = ["".join(part.answer(rank, align) + part.gap for part in parts) for rank in range(alternatives)]
        lead = source[: len(source) - len(source.lstrip())] if parts else source
        found: dict[str, float] = {}
        for rank, text in enumerate(texts):  # two ways to cut the same words count once
            found.setdefault(lead + text, _score(parts, rank))
        names = [part.names() for part in parts]
        return cls(
            source,
            lead + texts[0],
            _score(parts, 0),
            [Alternative(*pair) for pair in found.items()],
            [piece for part in parts for piece in part.words.pieces(part.ids) or part.text.split()],
            [
                piece
                for part in parts
                for piece in (part.words.pieces(part.found[0].tokens) if part.found else part.text.split())
            ],
            [word for _, others in names for word in others],
            [word for words, _ in names for word in words],
            lambda: [part.alignment(align) for part in parts],
            lambda: seen(model, parts),
        )

    @cached_property
    def alignment(self) -> Float[Tensor, "words source_words"]:
        """How much each word of the translation looked at each word of the source; a row adds up to 1.

        Computed when first asked for, by one more pass through the model.
        """
        blocks = self._blocks()
        whole = torch.zeros(len(self.words), len(self.source_words))
        row = column = 0
        for block in blocks:  # a part looks at its own source only
            rows, columns = block.shape
            whole[row : row + rows, column : column + columns] = block
            row, column = row + rows, column + columns
        return whole

    @cached_property
    def _record(self) -> Record:
        return self._seen()

    def watch(self) -> Record:
        """All attention of the model while it reads this source and says this target: encoder, decoder and cross.

        Computed when first asked for, by one more pass through the model, and kept. Of a text in several sentences,
        `record.passes` has one record for each. The decoder's places bear the names of the tokens that go in: what
        was looked at while a word was chosen is found at the one before it (`alignment` has it by the word itself).

        >>> import regard
        >>> record = regard.Translator.default().translate("A dog ate the food because it was hungry.").watch()
        >>> record.heads("it", "dog", kind="encoder")[0].score > 0.2
        True
        >>> [word.text for word in record["decoder.layers.0.cross"].tokens[0].words][:4]
        ['<pad>', 'Un', 'chien', 'a']
        """
        return self._record

    def picture(self, title: str = "") -> Picture:
        """The translation below its source, each word joined to the words that it looked at."""
        if not self.words or not self.source_words:
            raise InputError("there is nothing to draw: the text is blank.")
        shares = self.alignment.double().numpy()
        return alignment(shares, self.source_words, self.words, title=title)

    def __str__(self) -> str:
        return self.text


def _score(parts: Sequence[Part], rank: int) -> float:
    """The mean of the parts' scores, each for as many tokens as it has."""
    best = [part.found[min(rank, len(part.found) - 1)] for part in parts if part.found]
    sizes = [len(hypothesis.tokens) + 1 for hypothesis in best]
    return sum(h.score * size for h, size in zip(best, sizes, strict=True)) / sum(sizes) if best else 0.0
