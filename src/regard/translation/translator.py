"""`Translator`: text to text, with a trained Transformer and its vocabulary."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, overload

from regard.errors import FileError, InputError
from regard.nn import Transformer, model_folder
from regard.nn.files import read_json, write_json
from regard.support import progress, require_text
from regard.translation.beam_search import search_all
from regard.translation.confidence import Calibration
from regard.translation.result import Tokenizer, TranslatedSegment, Translation, with_facts
from regard.translation.segments import Segment, Style, split_segments
from regard.translation.typography import is_typeset
from regard.translation.vocabulary import FILE as VOCABULARY
from regard.translation.vocabulary import MarianVocabulary, Vocabulary

__all__ = ["Translator"]

ABOUT = "translation.json"  # beside a model: its languages, and the calibration of its confidence
SHIPPED = Path(__file__).parent / "model"  # English to French: see its README.md
_BATCH = 32  # segments translated together
_LONGEST = 120  # tokens: models are trained on sentences, not pages
_STREAMED = 8  # segments of a stream that are translated together, at most


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

    def __init__(
        self, model: Transformer, words: Vocabulary, *, languages: str = "", calibration: Calibration | None = None
    ):
        config = model.config
        if len(words) != config.vocabulary or (words.end, words.pad) != (config.end, config.pad):
            raise InputError(
                f"the vocabulary has {len(words)} pieces, </s> = {words.end}, <pad> = {words.pad}; the model has "
                f"{config.vocabulary}, {config.end}, {config.pad}. Do they belong together?"
            )
        self.model, self.words = model.eval(), words
        self.languages = languages  # "en-fr": numbers are written as in French; "": as in the source
        self.calibration = Calibration() if calibration is None else calibration
        self.longest = max(min(_LONGEST, (config.positions - 16) // 2), 1)

    @property
    def tokenizer(self) -> Tokenizer:
        """The `tokenizer=` with which `watch` and `effect` read what `self.model` reads and writes."""
        return Tokenizer(self.words, self.model.config.start)

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
            with progress("loading the model"):
                if is_marian:
                    return cls(Transformer.from_marian(folder), MarianVocabulary.load(folder))
                model = Transformer.load(folder)
                model_folder.check_sum(folder, VOCABULARY)
                return cls(model, Vocabulary.load(folder), **_read_about(folder))
        except InputError as error:
            raise FileError(f"{folder}: {error}") from None

    def save(self, path: str | Path, *, int8: bool = False) -> None:
        """Write a folder with the model, vocabulary.spm and translation.json; `int8` takes a quarter of the space."""
        if isinstance(self.words, MarianVocabulary):
            raise InputError("this translator came from a Marian folder and has two vocabularies: use to_marian(path).")
        self.model.save(path, int8=int8)
        self.words.save(Path(path))
        model_folder.add_sum(Path(path), VOCABULARY)
        about = {"languages": self.languages, "confidence": self.calibration.as_json()}
        write_json(Path(path) / ABOUT, {name: value for name, value in about.items() if value})

    def to_marian(self, path: str | Path) -> None:
        """Write a Hugging Face Marian folder, tokenizer included, for transformers and CTranslate2."""
        self.model.to_marian(path)
        self.words.save_marian(Path(path))

    # Translating

    @overload
    def translate(
        self, texts: str, *, beam: int = 4, length_penalty: float = 1.0, alternatives: int = 1, split: bool = False,
        typography: bool | None = None,
    ) -> Translation: ...  # fmt: skip

    @overload
    def translate(
        self, texts: list[str] | tuple[str, ...], *, beam: int = 4, length_penalty: float = 1.0, alternatives: int = 1,
        split: bool = False, typography: bool | None = None,
    ) -> list[Translation]: ...  # fmt: skip

    def translate(
        self, texts: str | list[str] | tuple[str, ...], *, beam: int = 4, length_penalty: float = 1.0,
        alternatives: int = 1, split: bool = False, typography: bool | None = None,
    ) -> Translation | list[Translation]:  # fmt: skip
        """Translate one text, or several at once.

        `beam` is the number of candidates kept at each step; a `length_penalty` above 1 favours longer translations.
        A text is translated line by line; with `split`, sentence by sentence; without, only where a line is too long.
        Numbers, addresses, code and markup come out as they went in (see facts.py). `typography` is for French: ’, « »
        and no-break spaces; None means as the text has it.
        """
        if isinstance(texts, str):
            return self.translate(
                [texts], beam=beam, length_penalty=length_penalty, alternatives=alternatives, split=split,
                typography=typography,
            )[0]  # fmt: skip
        if beam < 1 or alternatives < 1:
            raise InputError(f"translate takes a beam and alternatives of at least 1. Got {beam=}, {alternatives=}.")
        for n, text in enumerate(texts):
            require_text(f"texts[{n}]", text)

        search = partial(self._search, beam=max(beam, alternatives), length_penalty=length_penalty)
        segments = [self._split(text, split, typography) for text in texts]
        found = iter(with_facts([segment for parts in segments for segment in parts], search))
        translated = [[next(found) for _ in parts] for parts in segments]
        return [Translation.of(text, parts, alternatives) for text, parts in zip(texts, translated, strict=True)]

    def stream(self, text: str) -> Iterator[Translation]:
        """The parts that `translate(text)` reads one by one, each as soon as it is translated; together, its text.

        >>> import regard
        >>> parts = regard.Translator.default().stream("I am good.\\nIt is late.")
        >>> [part.text for part in parts]
        ['Je vais bien.\\n', 'Il est tard.']
        """
        require_text("text", text)
        segments, size = self._split(text, False, None), 1
        while segments:
            group, segments = segments[:size], segments[size:]
            size = min(2 * size, _STREAMED)
            search = partial(self._search, beam=4, length_penalty=1.0)
            yield from (Translation.of(each.segment.text, [each], 1) for each in with_facts(group, search))

    def _split(self, text: str, split: bool, typography: bool | None) -> list[Segment]:
        style = Style(self.languages == "en-fr", is_typeset(text) if typography is None else typography)
        return split_segments(text, self.words, self.longest, split, style)

    def _search(self, segments: Sequence[Segment], *, beam: int, length_penalty: float) -> list[TranslatedSegment]:
        sources = [[*segment.ids, self.words.end] for segment in segments if segment.ids]
        with progress("translating", total=sum(map(len, sources))) as advance:
            found = iter(
                search_all(
                    self.model, sources, beam=beam, length_penalty=length_penalty, sentences=_BATCH, advance=advance
                )
            )
        return [
            TranslatedSegment(each, next(found) if each.ids else [], self.model, self.calibration) for each in segments
        ]


def _read_about(folder: Path) -> dict[str, Any]:
    """The languages and the calibration in translation.json; older folders have none."""
    if not (folder / ABOUT).is_file():
        return {}
    fields = read_json(folder / ABOUT)
    if not isinstance(fields, dict) or not isinstance(fields.get("languages", ""), str):
        raise InputError(f'{ABOUT} must be an object with languages, such as "en-fr", and confidence.')
    return {
        "languages": fields.get("languages", ""),
        "calibration": Calibration.from_json(fields.get("confidence")),
    }
