"""Text to token ids and back: `Vocabulary` with one SentencePiece model, `MarianVocabulary` with one per language.

Ids are as in Marian: </s> = 0, <unk> = 1, then the pieces, and <pad> last.
"""

from __future__ import annotations

import io
import json
import re
import unicodedata
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Any

from regard.errors import FileError, InputError
from regard.nn.model_folder import read_json, write_bytes, write_json
from regard.support import reading

FILE = "vocabulary.spm"
MARKS = tuple(f"⟦{n}⟧" for n in range(1, 10))  # placeholders for text that is not translated: see facts.py
_SPACE = "\u2581"  # SentencePiece's mark for the beginning of a word
_MARIAN_FILES = ("source.spm", "target.spm", "vocab.json")
_LANGUAGE = re.compile(r"\s*(>>\S+<<)\s*")  # the prefix that selects the target language of a multilingual model


def clean(text: str) -> str:
    """Normalize one line of text as in training: composed letters, plain quotes, single spaces.

    >>> clean("  J\\u2019ai\\u00a0faim\\u202f!  ")
    "J'ai faim !"
    """
    if not text.isascii():  # skip the work for ASCII, of which a corpus has millions of lines
        text = unicodedata.normalize("NFKC", _MARKS.sub(_sort_marks, text)).translate(_PLAIN)
    return " ".join(text.split())


def _sort_marks(run: re.Match[str]) -> str:
    """Decompose and sort combining marks as NFKC does, whose own sorting takes quadratic time."""
    letters = "".join(unicodedata.normalize("NFKD", letter) for letter in run.group())
    groups = groupby(letters, lambda letter: unicodedata.combining(letter) > 0)
    return "".join(letter for _, group in groups for letter in sorted(group, key=unicodedata.combining))


_MARKS = re.compile(r"(?<![^\w\s\x00-\x7f])[^\w\s\x00-\x7f]{64,}+")  # neither letters nor spaces nor ASCII
_PLAIN = str.maketrans({"’": "'", "‘": "'", "“": '"', "”": '"', "–": "-", "—": "-", "\u00ad": None})


class Vocabulary:
    """Subwords of two languages, and their ids in a model.

    >>> words = Vocabulary.train(["a dog ate", "the dog ran", "un chien court"] * 9, size=30)
    >>> words.decode(words.encode("the dog ate")), words.end, words.pad == len(words) - 1
    ('the dog ate', 0, True)
    """

    def __init__(self, model: bytes):
        self.model = model
        self._pieces = _processor(model, "this")
        if (self._pieces.eos_id(), self._pieces.unk_id()) != (0, 1):
            raise FileError("the SentencePiece model must have </s> = 0 and <unk> = 1, as in Marian.")
        self.end, self.unknown, self.pad = 0, 1, int(self._pieces.GetPieceSize())

    @classmethod
    def train(cls, lines: Iterable[str], size: int, *, marks: bool = False) -> Vocabulary:
        """Learn a vocabulary from lines of both languages.

        Args:
            lines: texts of both languages.
            size: the largest number of subwords, the three special ones included.
            marks: whether ⟦1⟧ to ⟦9⟧ are pieces too, for training pairs in which they stand for a number, a name or
                code on both sides.

        >>> words = Vocabulary.train(["a dog ate", "the dog ran"] * 9, size=30, marks=True)
        >>> words.has_marks, "⟦3⟧" in words.pieces(words.encode("the ⟦3⟧ ran"))
        (True, True)
        """
        import sentencepiece  # here, so that `import regard` stays light

        lines = [cleaned for line in lines if (cleaned := clean(line))]
        if not lines:
            raise InputError("a vocabulary needs text to learn from. Got no line that is not blank.")
        out = io.BytesIO()
        try:
            sentencepiece.SentencePieceTrainer.Train(
                sentence_iterator=iter(lines), model_writer=out, vocab_size=size - 1, model_type="unigram",
                character_coverage=0.9999, eos_id=0, unk_id=1, bos_id=-1, pad_id=-1, minloglevel=2,
                normalization_rule_name="identity", num_threads=1, hard_vocab_limit=False, split_digits=True,
                user_defined_symbols=list(MARKS) if marks else [],
            )  # fmt: skip
        except RuntimeError as error:
            raise InputError(
                f"a vocabulary of {size} pieces cannot be learned from {len(lines)} lines: {error}"
            ) from None
        return cls(out.getvalue())

    def __len__(self) -> int:
        return self.pad + 1

    def encode(self, text: str) -> list[int]:
        """The ids of a text, without the end."""
        return list(self._pieces.Encode(clean(text)))

    def encode_many(
        self, texts: Sequence[str], *, sampling: float = 0.0, seed: int = 0, cleaned: bool = False
    ) -> list[list[int]]:
        """The ids of each text.

        Args:
            texts: the texts.
            sampling: for training, split words at random; larger values sample less randomly.
            seed: the seed of the sampling.
            cleaned: whether `clean` was applied before, as in a `Corpus`.

        >>> words = Vocabulary.train(["a dog ate", "the dog ran"] * 9, size=20)
        >>> [words.decode(ids) for ids in words.encode_many(["a dog ran"] * 2, sampling=0.1)]
        ['a dog ran', 'a dog ran']
        """
        lines = list(texts) if cleaned else [clean(text) for text in texts]
        if not sampling:
            return self._pieces.Encode(lines)  # type: ignore[no-any-return]
        import sentencepiece  # here, so that `import regard` stays light

        def sample() -> list[list[int]]:
            sentencepiece.set_random_generator_seed(seed % (2**32 - 1))  # it ignores 2**32 - 1, and refuses more
            options = {"enable_sampling": True, "alpha": sampling, "nbest_size": -1, "num_threads": 1}
            return self._pieces.Encode(lines, **options)  # type: ignore[no-any-return]

        with ThreadPoolExecutor(1) as fresh:  # a thread reads the seed when it samples for the first time
            return fresh.submit(sample).result()

    @cached_property
    def has_marks(self) -> bool:
        """Whether ⟦1⟧ to ⟦9⟧ are pieces."""
        return all(mark in self.pieces(self.encode(mark)) for mark in MARKS)

    def knows(self, letter: str) -> bool:
        """Whether a letter can be encoded without <unk>."""
        if letter not in self._known_letters:
            self._known_letters[letter] = self.unknown not in self.encode(letter)
        return self._known_letters[letter]

    @cached_property
    def _known_letters(self) -> dict[str, bool]:
        return {}

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids; special ids are left out."""
        return str(self._pieces.Decode([i for i in ids if self.unknown < i < self.pad]))

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """The subword of each id; ▁ marks the beginning of a word."""
        return ["<pad>" if i == self.pad else self._pieces.IdToPiece(int(i)) for i in ids]

    def words(self, ids: Sequence[int]) -> tuple[list[str], list[int]]:
        """The words of a text, and for each id the index of its word.

        >>> words = Vocabulary.train(["a dog ate", "the dog ran"] * 9, size=20)
        >>> words.words(words.encode("the dog"))[0]
        ['the', 'dog']
        """
        words: list[str] = []
        owners = []
        for piece in self.pieces(ids):
            if piece.startswith(_SPACE) or not words:
                words.append("")
            words[-1] += piece.removeprefix(_SPACE)
            owners.append(len(words) - 1)
        return words, owners

    def save(self, folder: Path) -> None:
        """Write vocabulary.spm."""
        write_bytes(folder / FILE, self.model)

    @classmethod
    def load(cls, folder: Path) -> Vocabulary:
        """Open vocabulary.spm."""
        path = folder / FILE
        if not path.is_file():
            raise FileError(f"{path} is missing: without its vocabulary a model cannot read text.")
        with reading(path):
            return cls(path.read_bytes())

    def save_marian(self, folder: Path) -> None:
        """Write the files of a Marian tokenizer: source.spm, target.spm, vocab.json and tokenizer_config.json."""
        ids = {self._pieces.IdToPiece(i): i for i in range(self.pad)} | {"<pad>": self.pad}
        languages = {"source_lang": "en", "target_lang": "fr"}
        _write_marian(folder, self.model, self.model, ids, languages)


class MarianVocabulary(Vocabulary):
    """The two SentencePiece models of a Marian folder, with the ids of its vocab.json.

    >>> import tempfile
    >>> words = Vocabulary.train(["a dog ate", "the dog ran", "un chien court"] * 9, size=30)
    >>> folder = Path(tempfile.mkdtemp())
    >>> words.save_marian(folder)
    >>> marian = MarianVocabulary.load(folder)
    >>> marian.encode("the dog ate") == words.encode("the dog ate"), marian.decode(words.encode("un chien"))
    (True, 'un chien')
    """

    def __init__(self, source: bytes, target: bytes, ids: dict[str, int]):
        self._source, self._target = _processor(source, _MARIAN_FILES[0]), _processor(target, _MARIAN_FILES[1])
        self._files = source, target
        self._ids = ids
        self._names = {number: piece for piece, number in ids.items()}
        for name in ("</s>", "<unk>", "<pad>"):
            if name not in ids:
                raise FileError(f"vocab.json must have an id for {name}.")
        self.end, self.unknown, self.pad = (ids[name] for name in ("</s>", "<unk>", "<pad>"))

    @classmethod
    def load(cls, folder: Path) -> MarianVocabulary:
        """Open source.spm, target.spm and vocab.json."""
        for name in _MARIAN_FILES:
            if not (folder / name).is_file():
                raise FileError(f"{folder / name} is missing: without it a Marian model cannot read text.")
        ids = read_json(folder / _MARIAN_FILES[2])
        if not isinstance(ids, dict) or not all(isinstance(number, int) for number in ids.values()):
            raise FileError(f"{folder / _MARIAN_FILES[2]} must give a number to each piece.")
        with reading(folder / _MARIAN_FILES[0]):
            source = (folder / _MARIAN_FILES[0]).read_bytes()
        with reading(folder / _MARIAN_FILES[1]):
            target = (folder / _MARIAN_FILES[1]).read_bytes()
        return cls(source, target, ids)

    def __len__(self) -> int:
        return max(self._ids.values()) + 1

    def encode(self, text: str) -> list[int]:
        """The ids of a source text, without the end."""
        language = _LANGUAGE.match(text)
        pieces = [language.group(1)] if language else []
        pieces += self._source.EncodeAsPieces(text[language.end() :] if language else text)
        return [self._ids.get(piece, self.unknown) for piece in pieces]

    def encode_many(
        self, texts: Sequence[str], *, sampling: float = 0.0, seed: int = 0, cleaned: bool = False
    ) -> list[list[int]]:
        """The ids of each source text."""
        if sampling:
            raise InputError("a Marian vocabulary is for translating: it cuts words in one way only.")
        return [self.encode(text) for text in texts]

    def decode(self, ids: Sequence[int]) -> str:
        """The target text of ids; special ids are left out."""
        special = (self.end, self.unknown, self.pad)
        return str(self._target.DecodePieces(self.pieces([i for i in ids if i not in special])))

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """The subword of each id."""
        return [self._names.get(int(i), "<unk>") for i in ids]

    def save(self, folder: Path) -> None:
        """Raise: a Marian vocabulary has two models, not one."""
        raise InputError(f"a Marian vocabulary cannot be written as one into {folder}: use to_marian(folder).")

    def save_marian(self, folder: Path) -> None:
        """Write the files from which the vocabulary was loaded."""
        _write_marian(folder, *self._files, self._ids, {})


def _processor(model: bytes, name: str) -> Any:
    import sentencepiece

    pieces = sentencepiece.SentencePieceProcessor()
    try:
        pieces.LoadFromSerializedProto(model)
    except RuntimeError as error:
        raise FileError(f"{name} is not a SentencePiece model: {error}") from None
    return pieces


def _write_marian(folder: Path, source: bytes, target: bytes, ids: dict[str, int], languages: dict[str, str]) -> None:
    write_bytes(folder / _MARIAN_FILES[0], source)
    write_bytes(folder / _MARIAN_FILES[1], target)
    write_bytes(folder / _MARIAN_FILES[2], json.dumps(ids, ensure_ascii=False, indent=0).encode())
    tokenizer = {"tokenizer_class": "MarianTokenizer", "model_max_length": 512}
    write_json(folder / "tokenizer_config.json", languages | tokenizer)
