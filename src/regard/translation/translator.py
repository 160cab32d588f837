"""`Translator`: text in, text out, by a trained Transformer and its vocabulary."""

from __future__ import annotations

from pathlib import Path
from typing import overload

import torch
from torch import Tensor

from regard.errors import FileError, InputError
from regard.nn import Transformer
from regard.nn import model_folder as folder
from regard.translation.alignment import align, by_words
from regard.translation.marian_vocabulary import MarianVocabulary
from regard.translation.result import Translation
from regard.translation.search import Hypothesis, search
from regard.translation.segment import Part, parts
from regard.translation.vocabulary import Vocabulary

__all__ = ["Translator"]

SHIPPED = Path(__file__).parent / "model"  # English to French: see its README.md
_BATCH = 32  # sentences that are translated together
_LONGEST = 120  # tokens: training knows sentences, not pages


class Translator:
    """A trained model and its vocabulary.

    >>> import regard
    >>> regard.Translator.default().translate("I am hungry.").text      # English to French, in the package
    "J'ai faim."
    >>> words = Vocabulary.train(["a dog ate", "the dog ran", "un chien court"] * 9, size=30)
    >>> model = regard.Transformer(regard.TransformerConfig.tiny(vocabulary=len(words))).eval()
    >>> translator = Translator(model, words)
    >>> translator.translate(["", "42"])[1].text                 # nothing to translate: copied
    '42'
    >>> found = translator.translate("the dog ate")              # this model has learned nothing yet
    >>> found.source_words, found.alignment.shape == (len(found.words), 3)
    (['the', 'dog', 'ate'], True)
    """

    def __init__(self, model: Transformer, words: Vocabulary):
        config = model.config
        if len(words) != config.vocabulary or (words.end, words.pad) != (config.end, config.pad):
            raise InputError(
                f"the vocabulary has {len(words)} pieces, </s> = {words.end}, <pad> = {words.pad}; the model has "
                f"{config.vocabulary}, {config.end}, {config.pad}. Do they belong together?"
            )
        self.model, self.words = model.eval(), words
        self.longest = max(min(_LONGEST, (config.positions - 16) // 2), 1)

    # On disk

    @classmethod
    def default(cls) -> Translator:
        """The translator in the package, English to French; its folder has a README.md that says what to expect."""
        return cls.load(SHIPPED)

    @classmethod
    def load(cls, path: str | Path) -> Translator:
        """Open a folder that `save` or `regard train` wrote, or a Hugging Face Marian folder."""
        place = Path(path)
        foreign = folder.read_config(place).get("model_type") == "marian"
        try:
            if foreign:
                return cls(Transformer.from_marian(place), MarianVocabulary.load(place))
            return cls(Transformer.load(place), Vocabulary.load(place))
        except InputError as error:
            raise FileError(f"{place}: {error}") from None

    def save(self, path: str | Path, *, int8: bool = False) -> None:
        """Write config.json, model.safetensors and vocabulary.spm; `int8` makes the weights a quarter the size."""
        if isinstance(self.words, MarianVocabulary):
            raise InputError("this translator came from a Marian folder and has two vocabularies: use to_marian(path).")
        self.model.save(path, int8=int8)
        self.words.save(Path(path))

    def to_marian(self, path: str | Path) -> None:
        """Write a Hugging Face Marian folder, tokenizer included, for transformers and CTranslate2."""
        self.model.to_marian(path)
        self.words.save_marian(Path(path))

    # Translating

    @overload
    def translate(
        self, texts: str, *, beam: int = 4, length_penalty: float = 1.0, alternatives: int = 1, split: bool = False
    ) -> Translation: ...

    @overload
    def translate(
        self, texts: list[str] | tuple[str, ...], *, beam: int = 4, length_penalty: float = 1.0, alternatives: int = 1,
        split: bool = False,
    ) -> list[Translation]: ...  # fmt: skip

    def translate(
        self, texts: str | list[str] | tuple[str, ...], *, beam: int = 4, length_penalty: float = 1.0,
        alternatives: int = 1, split: bool = False,
    ) -> Translation | list[Translation]:  # fmt: skip
        """Translate one text, or several at once.

        `beam` translations of a sentence are followed at a time; a `length_penalty` above 1 favours longer ones. With
        `split`, a text is translated sentence by sentence; without, only one that is too long for the model is.
        """
        if isinstance(texts, str):
            return self.translate(
                [texts], beam=beam, length_penalty=length_penalty, alternatives=alternatives, split=split
            )[0]
        if beam < 1 or alternatives < 1:
            raise InputError(f"translate takes a beam and alternatives of at least 1. Got {beam=}, {alternatives=}.")
        cut = [parts(text, self.words, self.longest, split) for text in texts]
        self._fill([part for some in cut for part in some if part.ids], max(beam, alternatives), length_penalty)
        return [
            Translation.of(text, some, alternatives, self._align, self.model)
            for text, some in zip(texts, cut, strict=True)
        ]

    def _fill(self, wanted: list[Part], beam: int, length_penalty: float) -> None:
        """Find the translations of parts, those of like lengths together."""
        device = self.model.embedding.weight.device
        by_length = sorted(wanted, key=lambda part: len(part.ids))
        for start in range(0, len(by_length), _BATCH):
            batch = by_length[start : start + _BATCH]
            rows = [torch.tensor([*part.ids, self.words.end], device=device) for part in batch]
            source = torch.nn.utils.rnn.pad_sequence(rows, True, self.words.pad)
            found = search(self.model, source, beam=beam, length_penalty=length_penalty)
            for part, hypotheses in zip(batch, found, strict=True):
                part.found = hypotheses

    def _align(self, part: Part, hypothesis: Hypothesis) -> Tensor:
        """Words of the target × words of the source."""
        rows, columns = self.words.words(hypothesis.tokens)[1], self.words.words(part.ids)[1]
        if not rows:
            return torch.zeros(0, max(columns) + 1)
        return by_words(align(self.model, [*part.ids, self.words.end], hypothesis.tokens), rows, columns)
