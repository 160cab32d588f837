"""`Vocabulary`: text to token ids and back, by one SentencePiece model for both languages.

Ids are laid out as in Marian: </s> = 0, <unk> = 1, then the pieces, and <pad> last.
"""

from __future__ import annotations

import io
import json
import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import Path

from regard.errors import FileError, InputError

__all__ = ["Vocabulary", "clean"]

FILE = "vocabulary.spm"
_SPACE = "\u2581"  # SentencePiece's mark for "a word begins here"


def clean(text: str) -> str:
    """One line of text in the form that the model has learned: composed letters, plain quotes and spaces.

    >>> clean("  J\\u2019ai\\u00a0faim\\u202f!  ")
    "J'ai faim !"
    """
    text = unicodedata.normalize("NFKC", text).translate(_PLAIN)
    return " ".join(text.split())


_PLAIN = str.maketrans({"’": "'", "‘": "'", "“": '"', "”": '"', "–": "-", "—": "-", "\u00ad": None})


class Vocabulary:
    """Subwords of two languages, and the ids they have in a model.

    >>> words = Vocabulary.train(["a dog ate", "the dog ran", "un chien court"] * 9, size=30)
    >>> words.decode(words.encode("the dog ate")), words.end, words.pad == len(words) - 1
    ('the dog ate', 0, True)
    """

    def __init__(self, model: bytes):
        import sentencepiece  # only where text is read: `import regard` stays light

        self.model = model
        self._pieces = sentencepiece.SentencePieceProcessor()
        try:
            self._pieces.LoadFromSerializedProto(model)
        except RuntimeError as error:
            raise FileError(f"this is not a SentencePiece model: {error}") from None
        if (self._pieces.eos_id(), self._pieces.unk_id()) != (0, 1):
            raise FileError("the SentencePiece model must have </s> = 0 and <unk> = 1, as in Marian.")
        self.end, self.unknown, self.pad = 0, 1, self._pieces.GetPieceSize()

    @classmethod
    def train(cls, lines: Iterable[str], size: int) -> Vocabulary:
        """Learn at most `size` subwords (with the three special ones) from lines of both languages."""
        import sentencepiece

        lines = [cleaned for line in lines if (cleaned := clean(line))]
        if not lines:
            raise InputError("a vocabulary needs text to learn from. Got no line that is not blank.")
        out = io.BytesIO()
        try:
            sentencepiece.SentencePieceTrainer.Train(
                sentence_iterator=iter(lines), model_writer=out, vocab_size=size - 1, model_type="unigram",
                character_coverage=0.9999, eos_id=0, unk_id=1, bos_id=-1, pad_id=-1, minloglevel=2,
                normalization_rule_name="identity", num_threads=1, hard_vocab_limit=False, split_digits=True,
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

    def encode_many(self, texts: Sequence[str], *, sampling: float = 0.0, seed: int = 0) -> list[list[int]]:
        """The ids of each text; with `sampling` (the smaller the wilder), words are cut at random, for training.

        >>> words = Vocabulary.train(["a dog ate", "the dog ran"] * 9, size=20)
        >>> [words.decode(ids) for ids in words.encode_many(["a dog ran"] * 2, sampling=0.1)]
        ['a dog ran', 'a dog ran']
        """
        import sentencepiece

        cleaned = [clean(text) for text in texts]
        if not sampling:
            return [list(ids) for ids in self._pieces.Encode(cleaned)]
        sentencepiece.set_random_generator_seed(seed)
        return [
            list(self._pieces.Encode(text, enable_sampling=True, alpha=sampling, nbest_size=-1)) for text in cleaned
        ]

    def knows(self, text: str) -> bool:
        """Whether it can spell a text."""
        return self.unknown not in self.encode(text)

    def decode(self, ids: Sequence[int]) -> str:
        """The text of some ids; special ones are left out."""
        return str(self._pieces.Decode([i for i in ids if self.unknown < i < self.pad]))

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """How the text was cut, one string for each id; a piece that begins a word begins with ▁."""
        return ["<pad>" if i == self.pad else self._pieces.IdToPiece(int(i)) for i in ids]

    def words(self, ids: Sequence[int]) -> tuple[list[str], list[int]]:
        """The words of a text, and for each id the word it belongs to.

        >>> words = Vocabulary.train(["a dog ate", "the dog ran"] * 9, size=20)
        >>> words.words(words.encode("the dog"))[0]
        ['the', 'dog']
        """
        found: list[str] = []
        owner = []
        for piece in self.pieces(ids):
            if piece.startswith(_SPACE) or not found:
                found.append("")
            found[-1] += piece.removeprefix(_SPACE)
            owner.append(len(found) - 1)
        return found, owner

    def save(self, folder: Path) -> None:
        """Write vocabulary.spm."""
        (folder / FILE).write_bytes(self.model)

    @classmethod
    def load(cls, folder: Path) -> Vocabulary:
        """Open vocabulary.spm."""
        path = folder / FILE
        if not path.is_file():
            raise FileError(f"{path} is missing: without its vocabulary a model cannot read text.")
        return cls(path.read_bytes())

    def save_marian(self, folder: Path) -> None:
        """Write what Marian's tokenizer reads: source.spm, target.spm, vocab.json and its config."""
        for side in ("source", "target"):
            (folder / f"{side}.spm").write_bytes(self.model)
        ids = {self._pieces.IdToPiece(i): i for i in range(self.pad)} | {"<pad>": self.pad}
        (folder / "vocab.json").write_text(json.dumps(ids, ensure_ascii=False, indent=0), encoding="utf-8")
        config = {
            "source_lang": "en",
            "target_lang": "fr",
            "tokenizer_class": "MarianTokenizer",
            "model_max_length": 512,
        }
        (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2), encoding="utf-8")
