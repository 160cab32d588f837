"""`Recipe`: everything that defines a training, read from one TOML file."""

from __future__ import annotations

import dataclasses
import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from regard.errors import FileError, InputError, RegardError
from regard.nn import TransformerConfig
from regard.nn.layers import ACTIVATIONS
from regard.support import reading

LARGE = 150_000_000  # parameters: the paper's big model has more, its base model less


@dataclass(frozen=True)
class Guide:
    """A head that a training teaches where to look, by `regard.guide`.

    A third column of a corpus says where: "7>1 7>2" links word 7 of the source to words 1 and 2, counted from 0.
    """

    layer: int
    head: int
    weight: float = 0.1  # of its loss, beside that of the translation
    kind: str = "encoder"  # links are between words of the source
    name: str = ""  # what it looks for, in words; the model keeps it with the number of the head

    def __post_init__(self) -> None:
        for name, value in (("layer", self.layer), ("head", self.head)):
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                raise InputError(f"[[guide]] {name} must be a whole number from 0. Got {_short(value)}.")
        if isinstance(self.weight, bool) or not isinstance(self.weight, int | float) or not 0 < self.weight <= 1e3:
            raise InputError(f"[[guide]] weight must be a number above 0, to 1000. Got {_short(self.weight)}.")
        if self.kind != "encoder":
            raise InputError(f'[[guide]] kind must be "encoder". Got {_short(self.kind)}.')
        if not isinstance(self.name, str):
            raise InputError(f"[[guide]] name must be a text. Got {_short(self.name)}.")


@dataclass(frozen=True)
class Recipe:
    """The corpora, the model and the length of a training; the defaults of the other fields suit small corpora.

    A corpus is a TSV file, or two files that match line by line. Paths are relative to the folder of the recipe.

    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "small.toml"
    >>> _ = file.write_text('train = ["a.tsv"]\\ndev = "b.tsv"\\nsteps = 300\\n[model]\\nwidth = 64\\nheads = 4\\n')
    >>> recipe = Recipe.read(file)
    >>> recipe.steps, recipe.config(vocabulary=500).width
    (300, 64)
    """

    train: list[Any]
    dev: Any
    folder: Path = Path()  # where the recipe lies
    far_from: list[str] = field(default_factory=list)  # test files: training pairs similar to their lines are dropped
    reverse: bool = False  # translate from target to source
    vocabulary: int = 8_000
    marks: bool = False  # ⟦1⟧ to ⟦9⟧ are subwords: for corpora in which they stand for numbers, names or code
    languages: str = ""  # "en-fr": numbers in translations are written as in French
    vocabulary_from: str | None = None  # a folder whose vocabulary to use instead of learning one
    weights_from: str | None = None  # a folder whose model replaces the random weights at the start
    compile: bool = False  # torch.compile takes a minute, then steps are faster: for long trainings on a GPU
    steps: int = 10_000
    minutes: float | None = None  # stop after this time even if steps remain; the rate then decays with time
    tokens: int = 8_192  # per batch, padding included; several processes share a batch
    accumulate: int = 1  # n: the batch of a step has n × tokens, computed in n passes
    shard: bool | None = None  # shard the weights over the processes; by default from 150 M parameters on
    rate: float = 1e-3  # peak learning rate
    warmup: int = 400
    smoothing: float = 0.1
    clip: float = 1.0
    average: float = 0.998  # decay of the moving average of the weights, which is evaluated and saved
    joined: float = 0.15  # share of pairs that an epoch also joins with a second pair, for longer input
    sampling: float = 0.0  # 0.1: add each pair again with the source split at random (larger = less random)
    longest: int = 96  # tokens per side
    check: int = 500  # steps between evaluations on the dev corpus
    monitor: int = 0  # steps between samples of what every head does, as `regard.monitor` takes them; 0: none
    patience: int = 8  # evaluations without a better chrF before stopping early
    seed: int = 0
    sample: str = "A dog ate the food because it was hungry."
    model: dict[str, Any] = field(default_factory=dict)  # fields of TransformerConfig
    guide: list[dict[str, Any]] = field(default_factory=list)  # fields of Guide

    @classmethod
    def read(cls, path: str | Path) -> Recipe:
        """Read a recipe; the error names an unknown or wrong field."""
        file = Path(path)
        with reading(file), file.open("rb") as opened:
            data = opened.read(_LARGEST_FILE + 1)
        if len(data) > _LARGEST_FILE:
            raise FileError(f"{file} is no recipe: it has more than {_LARGEST_FILE:,} bytes.")
        try:
            fields = tomllib.loads(data.decode("utf-8-sig"))
        except RecursionError:
            raise FileError(f"{file} is not TOML that can be read: it is nested too deeply.") from None
        except ValueError as error:  # of TOML, of UTF-8, or a number of thousands of digits
            raise FileError(f"{file} is not TOML: {error}.") from None
        known = {each.name for each in dataclasses.fields(cls)} - {"folder"}
        unknown = sorted(set(fields) - known)
        if unknown:
            raise FileError(f"{file}: unknown field {unknown[0]!r}. Known are: {', '.join(sorted(known))}.")
        missing = [name for name in ("train", "dev") if name not in fields]
        if missing:
            raise FileError(f"{file}: {missing[0]} is missing: which corpus?")
        try:
            recipe = cls(**fields, folder=file.parent)
        except InputError as error:
            raise FileError(f"{file}: {error}") from None
        try:
            recipe.config(vocabulary=1000)
        except (TypeError, RegardError) as error:
            raise FileError(f"{file}, [model]: {error}") from None
        return recipe

    def __post_init__(self) -> None:
        if not isinstance(self.train, list) or not self.train or not all(map(_is_corpus, self.train)):
            raise InputError(
                f"train must be a list of corpora, each a file or a list of two. Got {_short(self.train)}."
            )
        if not _is_corpus(self.dev):
            raise InputError(f"dev must be a corpus, a file or two in a list. Got {_short(self.dev)}.")
        if not isinstance(self.far_from, list) or not all(isinstance(name, str) for name in self.far_from):
            raise InputError(f"far_from must be a list of files. Got {_short(self.far_from)}.")
        for name, kind, what in _KINDS:
            value = getattr(self, name)
            if not isinstance(value, kind):
                raise InputError(f"{name} must be {what}. Got {_short(value)}.")
        for name, least, most in _WHOLE:
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
                raise InputError(f"{name} must be a whole number from {least:,} to {most:,}. Got {_short(value)}.")
        for name, low, high in _NUMBERS:
            value = getattr(self, name)
            if name == "minutes" and value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
                raise InputError(f"{name} must be a number from {low:g} to {high:g}. Got {_short(value)}.")
        if not isinstance(self.guide, list) or not all(isinstance(each, dict) for each in self.guide):
            raise InputError(f"guide must be tables [[guide]]. Got {_short(self.guide)}.")
        if self.guides and self.reverse:
            raise InputError("guide and reverse exclude each other: links are between words of the first column.")

    @property
    def guides(self) -> list[Guide]:
        """The heads that are taught where to look."""
        for each in self.guide:
            if {"layer", "head"} - set(each) or set(each) - set(Guide.__dataclass_fields__):
                fields = ", ".join(Guide.__dataclass_fields__)
                raise InputError(f"[[guide]] needs layer and head, and may have {fields}. Got {', '.join(each)}.")
        return [Guide(**each) for each in self.guide]

    def config(self, vocabulary: int) -> TransformerConfig:
        """The model of this recipe."""
        learned = sorted({"vocabulary", "pad", "end", "start"} & set(self.model))
        if learned:
            raise InputError(f"{learned[0]} cannot be set: it comes from the vocabulary.")
        config = dataclasses.replace(TransformerConfig(vocabulary), **self.model)
        if config.activation not in ACTIVATIONS:
            raise InputError(f"activation must be one of {', '.join(ACTIVATIONS)}. Got {config.activation!r}.")
        for each in self.guides:
            if each.layer >= config.encoder_layers or each.head >= config.heads:
                sizes = f"{config.encoder_layers} layers of {config.heads} heads"
                raise InputError(f"[[guide]] layer {each.layer}, head {each.head}: the encoder has {sizes}, from 0.")
        return config

    def shards(self, parameters: int) -> bool:
        """Whether several processes share the weights of a model of this size."""
        return parameters >= LARGE if self.shard is None else self.shard

    def differences(self, earlier: Mapping[str, Any]) -> list[str]:
        """Describe each field that differs from `as_json` of an earlier recipe."""
        now, missing = self.as_json(), object()
        return [
            f"{name} was {_short(earlier.get(name))}, is {_short(now.get(name))}"
            for name in now | dict(earlier)
            if earlier.get(name, missing) != now.get(name, missing)
        ]

    def as_json(self) -> dict[str, Any]:
        """All fields that decide what is learned, after a round trip through JSON."""
        aside = ("folder", "shard", "monitor")
        fields = {name: value for name, value in dataclasses.asdict(self).items() if name not in aside}
        plain: dict[str, Any] = json.loads(json.dumps(fields))
        return plain


_LARGEST_FILE = 100_000  # bytes
_MOST = 2**53  # float64 holds whole numbers up to here exactly
_KINDS: list[tuple[str, Any, str]] = [
    ("folder", Path, "a path"),
    ("reverse", bool, "true or false"),
    ("marks", bool, "true or false"),
    ("shard", bool | None, "true or false"),
    ("languages", str, 'a text such as "en-fr"'),
    ("compile", bool, "true or false"),
    ("vocabulary_from", str | None, "a folder"),
    ("weights_from", str | None, "a folder"),
    ("sample", str, "a text"),
    ("model", dict, "a table of the fields of TransformerConfig"),
]
_WHOLE = [  # name, least, most
    ("vocabulary", 4, 2**24),
    ("steps", 1, _MOST),
    ("tokens", 1, _MOST),
    ("accumulate", 1, 2**20),
    ("warmup", 1, _MOST),
    ("longest", 2, _MOST),
    ("check", 1, _MOST),
    ("monitor", 0, _MOST),
    ("patience", 1, _MOST),
    ("seed", 0, _MOST),
]
_NUMBERS = [  # name, least, most; NaN is in no range
    ("minutes", 1e-6, 1e9),
    ("rate", 1e-12, 1e3),
    ("smoothing", 0.0, 1.0),
    ("clip", 1e-12, 1e12),
    ("average", 0.0, 1.0),
    ("joined", 0.0, 1.0),
    ("sampling", 0.0, 1e6),
]


def _is_corpus(entry: Any) -> bool:
    files = entry if isinstance(entry, list) else [entry]
    return 1 <= len(files) <= 2 and all(isinstance(name, str) for name in files)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}…"
