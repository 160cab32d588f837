"""`MarianVocabulary`: the two SentencePiece models of a Marian folder, and the ids that its vocab.json gives them."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from regard.errors import FileError, InputError
from regard.translation.vocabulary import Vocabulary

__all__ = ["MarianVocabulary"]

_FILES = ("source.spm", "target.spm", "vocab.json")
_LANGUAGE = re.compile(r"\s*(>>\S+<<)\s*")  # what models of several languages want to be told first


class MarianVocabulary(Vocabulary):
    """Subwords of a Marian folder, with the interface of `Vocabulary`.

    >>> import tempfile
    >>> own = Vocabulary.train(["a dog ate", "the dog ran", "un chien court"] * 9, size=30)
    >>> folder = Path(tempfile.mkdtemp())
    >>> own.save_marian(folder)
    >>> theirs = MarianVocabulary.load(folder)
    >>> theirs.encode("the dog ate") == own.encode("the dog ate"), theirs.decode(own.encode("un chien"))
    (True, 'un chien')
    """

    def __init__(self, source: bytes, target: bytes, ids: dict[str, int]):
        self._sides = [_processor(model, name) for model, name in ((source, _FILES[0]), (target, _FILES[1]))]
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
        for name in _FILES:
            if not (folder / name).is_file():
                raise FileError(f"{folder / name} is missing: without it a Marian model cannot read text.")
        try:
            ids = json.loads((folder / _FILES[2]).read_text(encoding="utf-8"))
        except (UnicodeDecodeError, json.JSONDecodeError) as error:
            raise FileError(f"{folder / _FILES[2]} is not JSON: {error}.") from None
        if not isinstance(ids, dict) or not all(isinstance(number, int) for number in ids.values()):
            raise FileError(f"{folder / _FILES[2]} must give a number to each piece.")
        return cls((folder / _FILES[0]).read_bytes(), (folder / _FILES[1]).read_bytes(), ids)

    def __len__(self) -> int:
        return max(self._ids.values()) + 1

    def encode(self, text: str, *, sampling: float = 0.0) -> list[int]:
        """The ids of a source text, without the end."""
        if sampling:
            raise InputError("a Marian vocabulary is for translating: it cuts words in one way only.")
        told = _LANGUAGE.match(text)
        pieces = [told.group(1)] if told else []
        pieces += self._sides[0].EncodeAsPieces(text[told.end() :] if told else text)
        return [self._ids.get(piece, self.unknown) for piece in pieces]

    def decode(self, ids: Sequence[int]) -> str:
        """The target text of some ids; special ones are left out."""
        special = (self.end, self.unknown, self.pad)
        return str(self._sides[1].DecodePieces(self.pieces([i for i in ids if i not in special])))

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """How the text was cut, one string for each id."""
        return [self._names.get(int(i), "<unk>") for i in ids]

    def save(self, folder: Path) -> None:
        """Not as one model: it has two."""
        raise InputError(f"a Marian vocabulary cannot be written as one into {folder}: use to_marian(folder).")

    def save_marian(self, folder: Path) -> None:
        """Write the files that were read."""
        for name, model in zip(_FILES, self._files, strict=False):
            (folder / name).write_bytes(model)
        text = json.dumps(self._ids, ensure_ascii=False, indent=0)
        (folder / _FILES[2]).write_text(text, encoding="utf-8")
        config = json.dumps({"tokenizer_class": "MarianTokenizer", "model_max_length": 512}, indent=2)
        (folder / "tokenizer_config.json").write_text(config, encoding="utf-8")


def _processor(model: bytes, name: str) -> Any:
    import sentencepiece

    pieces = sentencepiece.SentencePieceProcessor()
    try:
        pieces.LoadFromSerializedProto(model)
    except RuntimeError as error:
        raise FileError(f"{name} is not a SentencePiece model: {error}") from None
    return pieces
