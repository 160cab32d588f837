"""The zoomable map: the feed that it is drawn from, its page, its notebook widget, and arrays and tokens as text.

The modules in viewer/ run in a browser as they are: in saved files, in notebooks and in the page of `regard serve`.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import zlib
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.drawing.svg import escaped, theme_named
from regard.errors import MissingDependencyError, RegardError

# The alphabet of base64.b85encode, with "," for "<", so that no tag can begin.
_ALPHABET = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;,=>?@^_`{|}~"
_DIGITS = np.frombuffer(_ALPHABET, np.uint8)


@dataclass(frozen=True, eq=False)
class Block:
    """An array as text, with its dtype and shape."""

    dtype: str
    shape: tuple[int, ...]
    text: str


def block(array: NDArray[Any]) -> Block:
    """An array as text."""
    little = array.astype(array.dtype.newbyteorder("<"), copy=False)
    planes = np.ascontiguousarray(little).view(np.uint8).reshape(-1, array.dtype.itemsize).T
    return Block(array.dtype.name, array.shape, _base85(zlib.compress(planes.tobytes(), 9)))


def _base85(data: bytes) -> str:
    """Write four bytes as five digits; the digits of bytes that were added at the end are left out."""
    missing = -len(data) % 4
    words = np.frombuffer(data + bytes(missing), ">u4").astype(np.uint32)
    digits = np.empty((len(words), 5), np.uint8)
    for place in range(4, -1, -1):
        words, digits[:, place] = words // 85, words % 85
    return _DIGITS[digits].tobytes()[: 5 * len(digits) - missing].decode("ascii")


_STARTS = ("▁", "Ġ")  # how tokenizers mark a space before a token
_CLOSING = frozenset(".,;:!?)]}»”…%'’")  # no space before these


def readable(tokens: Sequence[str]) -> list[str]:
    r"""Each token as it reads in the text, with the space before it; joined, they are the text.

    >>> readable(["▁A", "▁hun", "gry", "▁dog", "."]), readable(["a", "dog", "##s", "."])
    ([' A', ' hun', 'gry', ' dog', '.'], [' a', ' dog', 's', '.'])
    >>> readable(["A ", "dog"]), readable(["A", "Ċ", "Ġdog"])
    (['A ', 'dog'], ['A', '\n', ' dog'])
    """
    if any(token.startswith(_STARTS) for token in tokens):
        marks = str.maketrans({"▁": " ", "Ġ": " ", "Ċ": "\n", "ĉ": "\t"})
        return [token.replace("<0x0A>", "\n").translate(marks) for token in tokens]
    if any(token[:1].isspace() or token[-1:].isspace() for token in tokens):
        return list(tokens)
    return [
        token[2:] if token.startswith("##") and len(token) > 2 else token if token in _CLOSING else f" {token}"
        for token in tokens
    ]


def find_text(tokens: Sequence[str], text: str, limit: int = 1000) -> list[int]:
    """The tokens at which a text begins, in any case: as whole words or, where there are none, as parts of words.

    >>> find_text([" It", " was", " with", " hun", "gry"], "it"), find_text([" hun", "gry"], "hungry")
    ([0], [0])
    """
    query = " ".join(text.lower().split())
    if not query:
        return []
    lowered = [token.lower().replace("\n", " ").replace("\t", " ") for token in tokens]
    joined = "".join(lowered)
    starts = list(accumulate(map(len, lowered), initial=0))
    whole: dict[int, None] = {}
    parts: dict[int, None] = {}
    place = joined.find(query)
    while place >= 0 and len(whole) < limit:
        token = bisect_right(starts, place) - 1
        after = place + len(query)
        cut_before = place > 0 and joined[place - 1].isalnum() and joined[place].isalnum()
        cut_after = after < len(joined) and joined[after].isalnum() and joined[after - 1].isalnum()
        if not (cut_before or cut_after):
            whole[token] = None
        elif len(parts) < limit:
            parts[token] = None
        place = joined.find(query, place + 1)
    return list(whole or parts)


_ABOUT = 500  # bytes of the description of a page, besides each head
# The modules of a map, each after the modules that it imports.
_NAMES = ("elements", "colour", "weights", "feeds", "camera", "painters", "tiles", "controls", "passages", "scene")
MAP_MODULES = tuple(f"{name}.js" for name in (*_NAMES, "screen", "map"))
_VIEWS = {"map": (*MAP_MODULES, "open.js"), "heads": (*(f"{name}.js" for name in _NAMES[:4]), "head_lines.js")}


@dataclass(frozen=True, eq=False)
class Packed:
    """The content of a file: a description as JSON, and the arrays that it names, as text."""

    about: dict[str, Any]
    blocks: Mapping[str, Block]


Feed = Any  # supplies the numbers of a map: a `maps.MatrixFeed`, whose methods say what they answer


@cache
def browser_files(room: str, folder: str) -> dict[str, bytes]:
    """The modules, styles and pages of a folder by name: a fixed table, so that no request reaches the file system."""
    listed = sorted((files(room) / folder).iterdir(), key=lambda file: file.name)
    return {file.name: file.read_bytes() for file in listed if file.name.endswith((".js", ".css", ".html"))}


def viewer_file(name: str) -> str:
    """The text of a file of the viewer."""
    return browser_files("regard.drawing", "viewer")[name].decode()


def joined_modules(*names: str) -> str:
    """Join modules in the order of their imports into one script without imports and exports."""
    parts = []
    for name in names:
        text = re.sub(r"^import\s[^;]*;\n", "", viewer_file(name), flags=re.MULTILINE)
        parts.append(re.sub(r"^export (?=async |function |const |let |class )", "", text, flags=re.MULTILINE))
    return "\n".join(parts)


def page(packed: Packed, title: str | None = None, theme: str | None = None) -> str:
    """A page with its own numbers, whose content security policy forbids any request, and any script but its own.

    `title` replaces the title of the feed; a page without a `theme` follows the reader's system.

    >>> page(Packed({"title": ""}, {}), "<it>").count("<title>&lt;it&gt;</title>")
    1
    """
    about = packed.about if title is None else packed.about | {"title": title}
    script, style = joined_modules(*_VIEWS[about.get("view", "map")]), viewer_file("viewer.css")
    policy = (
        f"default-src 'none'; script-src {content_hash(script)}; style-src {content_hash(style)}; img-src data: blob:; "
        f"worker-src blob:; base-uri 'none'; form-action 'none'"
    )
    blocks = "".join(
        f'<script type="text/plain" data-block="{name}" data-dtype="{block.dtype}" '
        f'data-shape="{" ".join(map(str, block.shape))}">{block.text}</script>\n'
        for name, block in packed.blocks.items()
    )
    description = json.dumps(about).replace("<", "\\u003c")
    body = (
        f'<body class="regard-page">\n<main id="regard-map"></main>\n'
        f'<script type="application/json" id="regard-about">{description}</script>\n{blocks}'
        f'<script type="module">{script}</script>\n</body>'
    )
    chosen = "" if theme is None else f' data-theme="{theme_named(theme).name}"'
    return document(policy, about["title"], style, body, chosen)


def document(policy: str, title: str, style: str, body: str, attributes: str = "") -> str:
    """An HTML file with a content security policy."""
    return (
        f'<!doctype html>\n<html lang="en"{attributes}>\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escaped(title) or 'regard'}</title>\n<style>{style}</style>\n</head>\n{body}\n</html>\n"
    )


def content_hash(text: str) -> str:
    """The hash by which a content security policy names a script or style."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def page_within(feed: Feed, budget: int, title: str | None = None, theme: str | None = None) -> str:
    """The page of a feed in at most `budget` bytes, with as much of it as fits.

    >>> import torch, regard
    >>> picture = regard.AttentionMatrix(torch.randn(3, 50, 8), torch.randn(3, 50, 8)).picture(kind="map")
    >>> len(page_within(picture.feed, budget=150_000)) <= 150_000
    True
    """
    around = len(page(Packed(feed.about(), {}), title, theme).encode())
    return page(feed.packed(budget - around - _ABOUT), title, theme)


_RENDER = """
function renderMap({model, el}) {
  const root = document.createElement("div"), {dataset} = document.body;
  const dark = dataset.jpThemeLight === "false" || document.body.classList.contains("vscode-dark");
  if (dark || dataset.jpThemeLight === "true") root.dataset.theme = dark ? "dark" : "light";
  root.style.height = "640px";
  el.append(root);
  const map = openMap(root, widgetFeed(model), {embedded: true});
  return () => map.close();
}
export default {render: renderMap};
"""


def map_widget(feed: Feed) -> Any:
    """A notebook widget with the map of a feed."""
    return _widget_class()(feed)


@cache
def _widget_class() -> Any:
    try:
        import anywidget
        import traitlets
    except ImportError as error:
        raise MissingDependencyError(
            "a live map needs anywidget: pip install 'regard[notebook]'. Or show the picture itself: up to a few "
            "megabytes, its map needs no extra packages."
        ) from error

    class MapWidget(anywidget.AnyWidget):  # type: ignore[misc]
        _esm = joined_modules(*MAP_MODULES) + _RENDER
        _css = viewer_file("viewer.css")
        about = traitlets.Dict().tag(sync=True)

        def __init__(self, feed: Feed):
            super().__init__(about=feed.about())
            self.on_msg(lambda _, question, __: self.send(*answer(feed, question)))

    return MapWidget


def answer(feed: Feed, question: dict[str, Any]) -> tuple[dict[str, Any], list[bytes]]:
    """The answer of a feed to a question of a notebook: a message, and the bytes of a tile.

    >>> import torch, regard
    >>> picture = regard.AttentionMatrix(torch.zeros(9, 4), torch.zeros(9, 4)).picture(kind="map")
    >>> answer(picture.feed, {"id": 3, "ask": "tokens", "side": "rows", "start": 0, "stop": 3})
    ({'id': 3, 'answer': [' 0', ' 1', ' 2']}, [])
    """
    number, kind = question.get("id"), question.get("ask")
    result: Any
    try:
        if kind == "tile":
            rows, columns, bins = (
                (int(a), int(b)) for a, b in (question[name] for name in ("rows", "columns", "bins"))
            )
            tile = feed.tile(_heads(question), rows, columns, bins)
            return {"id": number}, [tile.astype("<f4").tobytes()]
        if kind == "tokens":
            result = feed.tokens(question["side"], int(question["start"]), int(question["stop"]))
        elif kind == "find":
            result = feed.find(question["side"], question["text"])
        elif kind == "ready":
            result = feed.ready(_heads(question))
        else:
            return {"id": number, "error": f"a map asks for 'tile', 'tokens', 'find', 'ready'. Got {kind!r}."}, []
    except RegardError as error:
        return {"id": number, "error": str(error)}, []
    return {"id": number, "answer": result}, []


def _heads(question: dict[str, Any]) -> list[tuple[int, int]]:
    return [(int(entry), int(head)) for entry, head in question["heads"]]
