"""A map in a notebook, computed live by the Python object behind it: an anywidget that asks its feed."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from regard.drawing.viewer import MAP_MODULES, Feed, joined_modules, viewer_files
from regard.errors import MissingDependencyError, RegardError

__all__ = ["answer", "map_widget"]

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
    """A widget that shows what a feed gives.

    >>> map_widget(feed)  # doctest: +SKIP
    """
    return _widget_class()(feed)


@cache
def _widget_class() -> Any:
    try:
        import anywidget
        import traitlets
    except ImportError as error:
        raise MissingDependencyError(
            "a live map takes anywidget. Install it with pip install 'regard[notebook]', or show the picture itself: "
            "its map needs nothing, up to a few megabytes."
        ) from error

    class MapWidget(anywidget.AnyWidget):  # type: ignore[misc]
        _esm = joined_modules(*MAP_MODULES) + _RENDER
        _css = viewer_files()["viewer.css"].decode()
        about = traitlets.Dict().tag(sync=True)

        def __init__(self, feed: Feed):
            super().__init__(about=feed.about())
            self.on_msg(lambda _, question, __: self.send(*answer(feed, question)))

    return MapWidget


def answer(feed: Feed, question: dict[str, Any]) -> tuple[dict[str, Any], list[bytes]]:
    """What a feed answers to a question of the page: a message, and the bytes of a tile.

    >>> import torch, regard
    >>> picture = regard.AttentionMatrix(torch.zeros(9, 4), torch.zeros(9, 4)).picture(kind="map")
    >>> answer(picture.feed, {"id": 3, "ask": "tokens", "side": "rows", "start": 0, "stop": 3})
    ({'id': 3, 'answer': [' 0', ' 1', ' 2']}, [])
    """
    number, asked = question.get("id"), question.get("ask")
    try:
        if asked == "tile":
            heads = [(int(entry), int(head)) for entry, head in question["heads"]]
            rows, columns, bins = (
                (int(a), int(b)) for a, b in (question[name] for name in ("rows", "columns", "bins"))
            )
            return {"id": number}, [feed.tile(heads, rows, columns, bins).astype("<f4").tobytes()]
        if asked == "tokens":
            found: Any = feed.tokens(question["side"], int(question["start"]), int(question["stop"]))
        elif asked == "find":
            found = feed.find(question["side"], question["text"])
        elif asked == "ready":
            found = feed.ready([(int(entry), int(head)) for entry, head in question["heads"]])
        else:
            return {"id": number, "error": f"a map asks for 'tile', 'tokens', 'find', 'ready'. Got {asked!r}."}, []
    except RegardError as error:
        return {"id": number, "error": str(error)}, []
    return {"id": number, "answer": found}, []


def _pair(values: Sequence[Any]) -> tuple[int, int]:
    start, stop = values
    return int(start), int(stop)
