"""`Translator`: text to text, with a trained Transformer and its vocabulary."""

from __future__ import annotations

from pathlib import Path
from typing import overload

from regard.errors import FileError, InputError
from regard.nn import Transformer, model_folder
from regard.support import require_text
from regard.translation.beam_search import search_all
from regard.translation.result import TranslatedSegment, Translation
from regard.translation.segments import split_segments
from regard.translation.vocabulary import FILE as VOCABULARY
from regard.translation.vocabulary import MarianVocabulary, Vocabulary

__all__ = ["Translator"]

SHIPPED = Path(__file__).parent / "model"  # English to French: see its README.md
_BATCH = 32  # segments translated together
_LONGEST = 120  # tokens: models are trained on sentences, not pages


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
    >>> result = translator.translate("the dog ate")             # this model is untrained
    >>> result.source_words, result.alignment.shape == (len(result.words), 3)
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
        """The translator in the package, English to French; the README.md in its folder says what to expect."""
        return cls.load(SHIPPED)

    @classmethod
    def load(cls, path: str | Path) -> Translator:
        """Open a folder that `save` or `regard train` wrote, or a Hugging Face Marian folder."""
        folder = Path(path)
        is_marian = model_folder.read_config(folder).get("model_type") == "marian"
        try:
            if is_marian:
                return cls(Transformer.from_marian(folder), MarianVocabulary.load(folder))
            model = Transformer.load(folder)
            model_folder.check_sum(folder, VOCABULARY)
            return cls(model, Vocabulary.load(folder))
        except InputError as error:
            raise FileError(f"{folder}: {error}") from None

    def save(self, path: str | Path, *, int8: bool = False) -> None:
        """Write config.json, model.safetensors and vocabulary.spm; `int8` weights take a quarter of the space."""
        if isinstance(self.words, MarianVocabulary):
            raise InputError("this translator came from a Marian folder and has two vocabularies: use to_marian(path).")
        self.model.save(path, int8=int8)
        self.words.save(Path(path))
        model_folder.add_sum(Path(path), VOCABULARY)

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

        `beam` is the number of candidates kept at each step; a `length_penalty` above 1 favours longer translations.
        With `split`, a text is translated sentence by sentence; without, only if it is too long for the model.
        """
        if isinstance(texts, str):
            return self.translate(
                [texts], beam=beam, length_penalty=length_penalty, alternatives=alternatives, split=split
            )[0]
        if beam < 1 or alternatives < 1:
            raise InputError(f"translate takes a beam and alternatives of at least 1. Got {beam=}, {alternatives=}.")
        for n, text in enumerate(texts):
            require_text(f"texts[{n}]", text)
        segments = [split_segments(text, self.words, self.longest, split) for text in texts]
        sources = [[*segment.ids, self.words.end] for parts in segments for segment in parts if segment.ids]
        found = iter(
            search_all(
                self.model, sources, beam=max(beam, alternatives), length_penalty=length_penalty, sentences=_BATCH
            )
        )
        translated = [
            [TranslatedSegment(segment, next(found) if segment.ids else [], self.model) for segment in parts]
            for parts in segments
        ]
        return [Translation.of(text, parts, alternatives) for text, parts in zip(texts, translated, strict=True)]
