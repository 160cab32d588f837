"""`Recipe`: all that makes a training, read from one TOML file."""

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
    """Which text, which model, how long: every field but the corpora has a default that works for small corpora.

    A corpus is a TSV file, or two files that match line by line; paths count from the recipe's own folder.

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
    far_from: list[str] = field(default_factory=list)  # files: training lines nearer to theirs than 0.7 are left out
    reverse: bool = False  # learn from target to source
    vocabulary: int = 8_000
    vocabulary_from: str | None = None  # a folder whose vocabulary to take instead of learning one
    steps: int = 10_000
    minutes: float | None = None  # end after this long, if the steps have not; the rate falls with the time then
    tokens: int = 8_192  # of a batch, padding included
    rate: float = 1e-3  # the learning rate at its peak
    warmup: int = 400
    smoothing: float = 0.1
    clip: float = 1.0
    average: float = 0.998  # of the weights, step by step: what is evaluated and kept
    joined: float = 0.15  # pairs of pairs added in each epoch, so that longer input works
    sampling: float = 0.0  # 0.1: every source comes a second time with its words cut at random; the greater the tamer
    longest: int = 96  # tokens of a side
    check: int = 500  # steps between looks at the dev corpus
    patience: int = 8  # looks without a better chrF before it ends early
    seed: int = 0
    sample: str = "A dog ate the food because it was hungry."
    model: dict[str, Any] = field(default_factory=dict)  # fields of TransformerConfig

    @classmethod
    def read(cls, path: str | Path) -> Recipe:
        """Open a recipe; an unknown or wrong field is named."""
        place = Path(path)
        try:
            found = tomllib.loads(place.read_text(encoding="utf-8"))
        except OSError as error:
            raise FileError(f"{place} cannot be read: {error.strerror}.") from None
        except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise FileError(f"{place} is not TOML: {error}.") from None
        known = {field.name for field in dataclasses.fields(cls)} - {"folder"}
        unknown = sorted(set(found) - known)
        if unknown:
            raise FileError(f"{place}: unknown field {unknown[0]!r}. Known are: {', '.join(sorted(known))}.")
        missing = [name for name in ("train", "dev") if name not in found]
        if missing:
            raise FileError(f"{place}: {missing[0]} is missing: which corpus?")
        recipe = cls(**found, folder=place.parent)
        try:
            recipe.config(vocabulary=1000)
        except (TypeError, RegardError) as error:
            raise FileError(f"{place}, [model]: {error}") from None
        return recipe

    def config(self, vocabulary: int) -> TransformerConfig:
        """The model of this recipe."""
        return dataclasses.replace(TransformerConfig(vocabulary), **self.model)
