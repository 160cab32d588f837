"""The zoomable map: what feeds it, and its modules, which run in a browser as they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["Feed", "Packed", "viewer_files"]

_SUFFIXES = (".js", ".css", ".html")


@dataclass(frozen=True, eq=False)
class Packed:
    """What a file carries: a description as JSON, and the arrays that it names."""

    about: dict[str, Any]
    arrays: Mapping[str, NDArray[Any]]


class Feed(Protocol):
    """What a map is drawn from. Rows are queries, columns are keys; both are counted in tokens from 0."""

    def about(self) -> dict[str, Any]:
        """As JSON: "title", "queries", "keys", "same" (rows and columns are one text), "entries", "exact", "note".

        An entry is {"name", "kind", "layer", "heads": [numbers]}; heads are chosen by (number of the entry, head).
        """

    def tile(
        self, heads: Sequence[tuple[int, int]], rows: tuple[int, int], columns: tuple[int, int], bins: tuple[int, int]
    ) -> NDArray[np.float32]:
        """The mean over these heads of the part rows × columns, each (start, stop), averaged over bins.

        Bins are nearly equal, as in `AttentionMatrix.pool`; as many bins as tokens give the weights themselves. A
        range may reach past the last token: a bin there has the mean of the tokens that exist, 0 where none does. NaN:
        not computed yet (see `ready`).
        """

    def ready(self, heads: Sequence[tuple[int, int]] | None = None) -> float:
        """The share of the coarse levels that is there, of these heads or of all that were asked for; 1.0: all."""

    def tokens(self, side: str, start: int, stop: int) -> list[str]:
        """The tokens of "rows" or "columns" as they read, at most 4,096 at once; joined, they are the text."""

    def find(self, side: str, text: str, limit: int = 1000) -> list[int]:
        """The tokens at which a text begins."""

    def packed(self, budget: int) -> Packed:
        """What a file of at most `budget` bytes carries."""


@cache
def viewer_files() -> dict[str, bytes]:
    """The viewer's modules, style and pages by their names: a fixed table, so that no name reaches the file system.

    >>> "map.js" in viewer_files()
    True
    """
    folder = files("regard.drawing") / "viewer"
    return {
        file.name: file.read_bytes()
        for file in sorted(folder.iterdir(), key=lambda file: file.name)
        if file.name.endswith(_SUFFIXES)
    }
