"""The zoomable map: what feeds it, and its modules, which run in a browser as they are."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from regard.drawing.svg import escaped
from regard.drawing.theme import theme_named
from regard.drawing.viewer_blocks import Block

__all__ = ["MAP_MODULES", "Feed", "Packed", "joined_modules", "page", "page_within", "viewer_files"]

_SUFFIXES = (".js", ".css", ".html")
_ABOUT = 500  # bytes that a page says about its numbers, besides each head
# What a map is made of; a module comes after those that it imports.
MAP_MODULES = (
    "elements.js", "texts.js", "colour.js", "blocks.js", "weights.js", "workers.js", "feeds.js", "geometry.js",
    "gestures.js", "camera.js", "painters.js", "tiles.js", "tokens.js", "choices.js", "find.js", "passages.js",
    "scene.js", "screen.js", "map.js",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Packed:
    """What a file carries: a description as JSON, and the arrays that it names, as text."""

    about: dict[str, Any]
    blocks: Mapping[str, Block]


@runtime_checkable
class Feed(Protocol):
    """What a map is drawn from. Rows are queries, columns are keys; both are counted in tokens from 0."""

    def about(self) -> dict[str, Any]:
        """As JSON: "title", "queries", "keys", "same" (rows and columns are one text), "numbered" (sides whose tokens
        are unknown: {"rows", "columns"}), "entries", "exact" (the dtype), "note".

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


def joined_modules(*names: str) -> str:
    """Modules as one script: what they import from each other stands before, so imports and exports are left out.

    >>> "import " in joined_modules("elements.js")
    False
    """
    parts = []
    for name in names:
        text = re.sub(r"^import\s[^;]*;\n", "", viewer_files()[name].decode(), flags=re.MULTILINE)
        parts.append(re.sub(r"^export (?=async |function |const |let |class )", "", text, flags=re.MULTILINE))
    return "\n".join(parts)


def page(packed: Packed, title: str | None = None, theme: str | None = None) -> str:
    """A page with its own numbers, which asks nobody for anything: its policy forbids any request and any other script.

    `title` stands for that of the feed; `theme` is "light" or "dark" or, without it, that of the reader's system.

    >>> page(Packed({"title": ""}, {}), "<it>").count("<title>&lt;it&gt;</title>")
    1
    """
    about = packed.about if title is None else packed.about | {"title": title}
    script, style = joined_modules(*MAP_MODULES, "open.js"), viewer_files()["viewer.css"].decode()
    policy = (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; img-src data: blob:; "
        f"worker-src blob:; base-uri 'none'; form-action 'none'"
    )
    blocks = [
        f'<script type="text/plain" data-block="{name}" data-dtype="{block.dtype}" '
        f'data-shape="{" ".join(map(str, block.shape))}">{block.text}</script>\n'
        for name, block in packed.blocks.items()
    ]
    said = json.dumps(about).replace("<", "\\u003c")
    chosen = "" if theme is None else f' data-theme="{theme_named(theme).name}"'
    return (
        f'<!doctype html>\n<html lang="en"{chosen}>\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escaped(about['title']) or 'regard'}</title>\n<style>{style}</style>\n</head>\n"
        f'<body class="regard-page">\n<main id="regard-map"></main>\n'
        f'<script type="application/json" id="regard-about">{said}</script>\n{"".join(blocks)}'
        f'<script type="module">{script}</script>\n</body>\n</html>\n'
    )


def page_within(feed: Feed, budget: int, title: str | None = None, theme: str | None = None) -> str:
    """The page of a feed in at most `budget` bytes, with as much of it as fits.

    >>> import torch, regard
    >>> picture = regard.AttentionMatrix(torch.randn(3, 50, 8), torch.randn(3, 50, 8)).picture(kind="map")
    >>> len(page_within(picture.feed, budget=150_000)) <= 150_000
    True
    """
    around = len(page(Packed(feed.about(), {}), title, theme).encode())
    return page(feed.packed(budget - around - _ABOUT), title, theme)


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
