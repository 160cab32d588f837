"""`Translator`: text to text, with a trained Transformer and its vocabulary.

A text passes through these steps: lines → sentences → hidden facts (`_read`) → search → checked (`_keep_facts`) → put
back and joined (`Translation.of`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from pathlib import Path
from threading import Event
from typing import Any, overload

from regard.errors import FileError, InputError
from regard.nn import Transformer, model_folder
from regard.nn.model_folder import read_json, write_json
from regard.support import progress, require_text, threads
from regard.translation.result import Calibration, Tokenizer, TranslatedSegment, Translation
from regard.translation.searching import search_all, search_by_engine, usable_engine
from regard.translation.searching.definition import Hypothesis
from regard.translation.text.languages import Languages, is_typeset
from regard.translation.text.segments import Segment, split_segments
from regard.translation.training.vocabulary import FILE as VOCABULARY
from regard.translation.training.vocabulary import MarianVocabulary, Vocabulary

ABOUT = "translation.json"  # beside a model: its languages, the calibration of its confidence, its taught heads
SHIPPED = Path(__file__).parent / "model"  # English to French: see its README.md
_BATCH, _CANDIDATES = 32, 1024  # segments translated together, and their candidates, at most: memory
_WIDEST = 1000  # candidates of a segment: each needs log-probabilities of all subwords at every step
_LONGEST = 120  # tokens: models are trained on sentences, not pages
_STREAMED = 8  # segments of a stream that are translated together, at most
_FIRST, _MOST = 64, 1024  # lines of the first window, and of the largest; each has twice as many as the one before
_AHEAD = 3  # windows that are read and searched ahead
_LETTERS = 2**18  # of a window, about, at most: bounds its memory

_Known = dict[int, list[Hypothesis]] | None  # what a search ahead has found
_Window = tuple[list[str], list[list[Segment]], Future[dict[int, list[Hypothesis]]] | None]


@dataclass(frozen=True)
class _Settings:
    """The settings of `Translator.translate`."""

    beam: int = 4
    length_penalty: float = 1.0
    alternatives: int = 1
    split: bool = False
    typography: bool | None = None

    def __post_init__(self) -> None:
        beam, alternatives = self.beam, self.alternatives
        if not 1 <= beam <= _WIDEST or not 1 <= alternatives <= _WIDEST:
            raise InputError(
                f"translate takes a beam and alternatives from 1 to {_WIDEST:,}. Got {beam=}, {alternatives=}."
            )

    @property
    def of_search(self) -> dict[str, Any]:
        """The arguments of `search_all`."""
        beam = max(self.beam, self.alternatives)
        sentences = max(min(_BATCH, _CANDIDATES // beam), 1)
        return {
            "beam": beam, "length_penalty": self.length_penalty, "needed": self.alternatives, "sentences": sentences
        }  # fmt: skip


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
        self, model: Transformer, words: Vocabulary, *, languages: str = "", calibration: Calibration | None = None,
        heads: Mapping[str, tuple[int, int]] | None = None, note: str = "",
    ):  # fmt: skip
        config = model.config
        if len(words) != config.vocabulary or (words.end, words.pad) != (config.end, config.pad):
            raise InputError(
                f"the vocabulary has {len(words)} pieces, </s> = {words.end}, <pad> = {words.pad}; the model has "
                f"{config.vocabulary}, {config.end}, {config.pad}. Do they belong together?"
            )
        self.model, self.words = model.eval(), words
        self.languages = languages  # "en-fr" has rules (text/languages.py); "": numbers stay as in the source
        self.calibration = Calibration() if calibration is None else calibration
        self.heads = dict(heads or {})  # what encoder heads were taught to look for: its (layer, head)
        self.note = note  # shown beside its attention from "it" to "dog"
        self.longest = max(min(_LONGEST, (config.positions - 16) // 2), 1)

    @property
    def tokenizer(self) -> Tokenizer:
        """The `tokenizer=` for `watch` and `effect`: the subwords that `self.model` reads and writes."""
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
            with progress("loading the model"), threads(work=0):  # a small step for each tensor
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
        about = {"languages": self.languages, "confidence": self.calibration.as_json(), "heads": self.heads}
        about["note"] = self.note
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
        """Translate one text, or several at once. Numbers, addresses, code and markup stay as they are (text/facts.py).

        Args:
            texts: A text, or a list of texts.
            beam: Number of hypotheses that the search keeps at each step.
            length_penalty: Above 1: prefer longer translations.
            alternatives: Number of translations of each text, in `Translation.alternatives`.
            split: Translate sentence by sentence, instead of line by line; a line that is too long is always split.
            typography: Write French with ’, « » and no-break spaces; None: if the text has typographic quotes.
        """
        settings = _Settings(beam, length_penalty, alternatives, split, typography)
        several = [texts] if isinstance(texts, str) else texts
        translations = self._translate(several, self._read(several, settings), settings)
        return translations[0] if isinstance(texts, str) else translations

    def translate_lines(self, lines: Iterable[str], *, aligned: bool = False, **settings: Any) -> Iterator[Translation]:
        """The translations of lines, in order, as `translate` with these settings gives them: for files of any size.

        Lines are read in windows, in which lines of similar length are translated together. While one window is
        searched, the next is read and the one before is written.

        Args:
            lines: The texts.
            aligned: Compute alignments and confidences as well, many together.
            settings: The settings of `translate`.

        >>> import regard
        >>> lines = (f"I have {n} dogs." for n in range(40, 200))
        >>> next(regard.Translator.default().translate_lines(lines)).text
        "J'ai 40 chiens."
        """
        checked, stop, ended = _Settings(**settings), Event(), None
        windows, running = _windows(lines), deque[_Window]()
        pool = ThreadPoolExecutor(_AHEAD, thread_name_prefix="regard-translate")
        try:
            while True:
                try:
                    while ended is None and len(running) < _AHEAD:
                        window = next(windows)
                        segments = self._read(window, checked)
                        running.append((window, segments, self._search_ahead(segments, checked, pool, stop)))
                except Exception as error:  # the end, or a line that cannot be read: the lines before it are translated
                    ended = error
                if not running:
                    break
                window, segments, search = running.popleft()
                translations = self._translate(window, segments, checked, None if search is None else search.result())
                for start in range(0, len(translations), _FIRST):
                    some = translations[start : start + _FIRST]
                    if aligned:
                        Translation.read_together(some)
                    yield from some
        finally:
            stop.set()  # Ctrl-C, or the caller wants no more lines: the searches end after their batch
            pool.shutdown(cancel_futures=True)
        if ended is not None and not isinstance(ended, StopIteration):
            raise ended

    def stream(self, text: str) -> Iterator[Translation]:
        """The translation of each segment of a text, as soon as it is there; together they are `translate(text)`.

        >>> import regard
        >>> parts = regard.Translator.default().stream("I am good.\\nIt is late.")
        >>> [part.text for part in parts]
        ['Je vais bien.\\n', 'Il est tard.']
        """
        settings, size = _Settings(), 1
        (segments,) = self._read([text], settings)
        while segments:
            group, segments = segments[:size], segments[size:]
            size = min(2 * size, _STREAMED)
            yield from self._translate([each.text for each in group], [[each] for each in group], settings)

    # The steps, in order

    def _read(self, texts: Sequence[str], settings: _Settings) -> list[list[Segment]]:
        """The segments of each text: its lines or sentences, with their facts hidden."""
        segments = []
        for n, text in enumerate(texts):
            require_text(f"texts[{n}]", text)
            typeset = is_typeset(text) if settings.typography is None else settings.typography
            languages = Languages.of(self.languages, typeset=typeset)
            segments.append(split_segments(text, self.words, self.longest, split=settings.split, languages=languages))
        return segments

    def _translate(
        self, texts: Sequence[str], segments: Sequence[Sequence[Segment]], settings: _Settings, known: _Known = None
    ) -> list[Translation]:
        """Search the segments, check their facts, search some again, and join the segments of each text."""
        search = partial(self._search, settings=settings)
        results = iter(_keep_facts(search([*chain.from_iterable(segments)], known=known), search))
        return [
            Translation.of(text, list(islice(results, len(parts))), settings.alternatives)
            for text, parts in zip(texts, segments, strict=True)
        ]

    def _search(
        self, segments: Sequence[Segment], settings: _Settings, known: _Known = None
    ) -> list[TranslatedSegment]:
        """The hypotheses of each segment; `known` has the results of `_search_ahead`."""
        sources = self._sources(segments)
        with progress("translating", total=sum(map(len, sources))) as advance:
            targets = iter(search_all(self.model, sources, **settings.of_search, known=known, advance=advance))
        return [
            TranslatedSegment(each, next(targets) if each.ids else [], self.model, self.calibration)
            for each in segments
        ]

    def _search_ahead(
        self, segments: Sequence[Sequence[Segment]], settings: _Settings, pool: ThreadPoolExecutor, stop: Event
    ) -> Future[dict[int, list[Hypothesis]]] | None:
        """Start to search in another thread; None if the model itself must search, which only the caller's may do."""
        engine = usable_engine(self.model, settings.beam, settings.length_penalty)
        if engine is None:
            return None
        sources = self._sources(chain.from_iterable(segments))
        return pool.submit(search_by_engine, engine, sources, **settings.of_search, advance=lambda _: _check(stop))

    def _sources(self, segments: Iterable[Segment]) -> list[list[int]]:
        return [[*segment.ids, self.words.end] for segment in segments if segment.ids]


def _keep_facts(
    results: Sequence[TranslatedSegment], search: Callable[[Sequence[Segment]], list[TranslatedSegment]]
) -> list[TranslatedSegment]:
    """Translate segments again, with more facts hidden (see `Segment`), where no hypothesis has kept all facts."""
    checked = list(results)
    lost = list(range(len(checked)))
    for level in (1, 2):
        for n in lost:
            checked[n] = checked[n].faithful_first()
        lost = [n for n in lost if not checked[n].keeps_facts()]
        hidden = {n: checked[n].segment.hide(level) for n in lost}
        again = {n: each for n, each in hidden.items() if each.ids and each.ids != checked[n].segment.ids}
        for n, result in zip(again, search([*again.values()]) if again else (), strict=True):
            checked[n] = result
    return checked


def _check(stop: Event) -> None:
    if stop.is_set():
        raise CancelledError


def _windows(lines: Iterable[str]) -> Iterator[list[str]]:
    """The lines, in windows that grow; the error of a line that cannot be read comes after the lines before it."""
    window: list[str] = []
    size, letters = _FIRST, 0
    failure: Exception | None = None
    try:
        for line in lines:
            window.append(line)
            letters += len(line)
            if len(window) == size or letters >= _LETTERS:
                yield window
                window, letters, size = [], 0, min(2 * size, _MOST)
    except Exception as error:
        failure = error
    if window:
        yield window
    if failure is not None:
        raise failure


def _read_about(folder: Path) -> dict[str, Any]:
    """The languages, the calibration, the taught heads and the note in translation.json; older folders have none."""
    if not (folder / ABOUT).is_file():
        return {}
    fields = read_json(folder / ABOUT)
    if not isinstance(fields, dict) or not all(isinstance(fields.get(name, ""), str) for name in ("languages", "note")):
        raise InputError(f'{ABOUT} must be an object with languages, such as "en-fr", confidence and a note.')
    heads = fields.get("heads", {})
    pairs = heads.values() if isinstance(heads, dict) else [None]
    if not all(isinstance(pair, list) and len(pair) == 2 and all(type(n) is int for n in pair) for pair in pairs):
        raise InputError(f"heads in {ABOUT} must be an object: a name, and its [layer, head]. Got {heads!r:.80}.")
    return {
        "languages": fields.get("languages", ""),
        "heads": {name: (layer, head) for name, (layer, head) in heads.items()},
        "note": fields.get("note", ""),
        "calibration": Calibration.from_json(fields.get("confidence")),
    }
