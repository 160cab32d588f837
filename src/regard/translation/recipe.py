"""`Recipe`: everything that defines a training, read from one TOML file."""

from __future__ import annotations

import dataclasses
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from regard.errors import FileError, RegardError
from regard.nn import TransformerConfig

__all__ = ["Recipe"]


@dataclass(frozen=True)
class Recipe:
    """The corpora, the model and how long to train; every other field has a default that suits small corpora.

    A corpus is a TSV file, or two files that match line by line; paths are relative to the recipe's folder.

    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "small.toml"
    >>> _ = file.write_text('train = ["a.tsv"]\\ndev = "b.tsv"\\nsteps = 300\\n[model]\\nwidth = 64\\nheads = 4\\n')
    >>> recipe = Recipe.read(file)
    >>> recipe.steps, recipe.config(vocabulary=500).width
    (300, 64)
    """

    train: list[Any]
    dev: Any
    folder: Path = Path()  # of the recipe itself
    far_from: list[str] = field(default_factory=list)  # files: near duplicates of their lines are dropped
    reverse: bool = False  # translate from target to source
    vocabulary: int = 8_000
    vocabulary_from: str | None = None  # a folder whose vocabulary to use instead of learning one
    steps: int = 10_000
    minutes: float | None = None  # stop after this long even if steps remain; the rate then decays with time
    tokens: int = 8_192  # per batch, padding included
    rate: float = 1e-3  # peak learning rate
    warmup: int = 400
    smoothing: float = 0.1
    clip: float = 1.0
    average: float = 0.998  # decay of the moving average of the weights, which is evaluated and saved
    joined: float = 0.15  # share of pairs that are joined with another in each epoch, for longer input
    sampling: float = 0.0  # 0.1: each source once more, its words split at random (larger = less random)
    longest: int = 96  # tokens per side
    check: int = 500  # steps between evaluations on the dev corpus
    patience: int = 8  # evaluations without a better chrF before stopping early
    seed: int = 0
    sample: str = "A dog ate the food because it was hungry."
    model: dict[str, Any] = field(default_factory=dict)  # fields of TransformerConfig

    @classmethod
    def read(cls, path: str | Path) -> Recipe:
        """Open a recipe; an unknown or wrong field is named."""
        file = Path(path)
        try:
            fields = tomllib.loads(file.read_text(encoding="utf-8"))
        except OSError as error:
            raise FileError(f"{file} cannot be read: {error.strerror}.") from None
        except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise FileError(f"{file} is not TOML: {error}.") from None
        known = {each.name for each in dataclasses.fields(cls)} - {"folder"}
        unknown = sorted(set(fields) - known)
        if unknown:
            raise FileError(f"{file}: unknown field {unknown[0]!r}. Known are: {', '.join(sorted(known))}.")
        missing = [name for name in ("train", "dev") if name not in fields]
        if missing:
            raise FileError(f"{file}: {missing[0]} is missing: which corpus?")
        recipe = cls(**fields, folder=file.parent)
        try:
            recipe.config(vocabulary=1000)
        except (TypeError, RegardError) as error:
            raise FileError(f"{file}, [model]: {error}") from None
        return recipe

    def config(self, vocabulary: int) -> TransformerConfig:
        """The model of this recipe."""
        return dataclasses.replace(TransformerConfig(vocabulary), **self.model)
