"""`lines`, `alignment` and `head_lines`: words joined by lines, thicker or darker for larger weights."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.cells import cell_len
from rich.style import Style
from rich.text import Text

from regard.drawing.arguments import as_heads, as_weights, as_words, axis_words, chosen, places, sized
from regard.drawing.picture import Picture
from regard.drawing.svg import DARK, LIGHT, Canvas, curve, in_full, isolated, measure, shorten
from regard.drawing.terminal import bar, heat, padded, percent, visible
from regard.drawing.viewer import Packed, block
from regard.errors import InputError, TooLargeError
from regard.io import progress

__all__ = ["HeadLayer", "alignment", "head_lines", "lines"]

_WORDS = 200  # on a side
_MARKS = 3000  # lines; more would blur into each other and make a heavy page
_HEADS = 8
_ROW_HEIGHT, _FONT, _LABEL_WIDTH = 26.0, 15.0, 150.0
_FADED = 0.07

Pick = int | str | Sequence[int | str] | None


def lines(
    weights: NDArray[np.floating],
    rows: Iterable[str] | None = None,
    columns: Iterable[str] | None = None,
    *,
    pick: Pick = None,
    heads: Sequence[int] | None = None,
    layout: str = "columns",
    title: str = "",
    caption: str = "",
) -> Picture:
    """Lines from each row's word to the words it looks at: in two columns, in two rows, or as arcs over one row.

    Weights are (rows, columns) or (heads, rows, columns), each head in a colour. Picked words stand out.

    >>> print(lines(np.array([[0.1, 0.6, 0.3]]), ["it"], ["a", "dog", "ate"], pick="it"))
    it ━━━━━━━━━━ dog 60 %   ━━━━━ ate 30 %   ━━ a 10 %
    """
    heads_weights = sized("weights", as_heads(weights))
    count, height, width = heads_weights.shape
    row_words, column_words = axis_words(rows, columns, (height, width))
    if max(height, width) > _WORDS:
        raise TooLargeError(
            f"lines can join at most {_WORDS} words on a side. Got {height} and {width}. Choose a part, as in "
            f"weights[..., :{_WORDS}, :{_WORDS}], or draw a matrix or a map, which pool."
        )
    shown = chosen(heads, count, _HEADS)
    picked = places("pick", pick, row_words)
    if layout not in _LAYOUTS:
        raise InputError(f"layout must be one of {', '.join(map(repr, _LAYOUTS))}. Got {layout!r}.")
    if layout == "arcs" and row_words != column_words:
        raise InputError("layout 'arcs' takes words that look at themselves: the same rows and columns. Use 'columns'.")
    scene = _Scene(row_words, column_words, heads_weights[list(shown)], picked, shown if count > 1 else ())
    marks, note = _marks(scene.weights, picked if layout == "arcs" else ())

    def draw(canvas: Canvas) -> None:
        _LAYOUTS[layout](canvas, scene, marks)
        _legend(canvas, scene.head_numbers)

    caption, numbers = " ".join(filter(None, (caption, note))), {"weights": heads_weights}
    return Picture("lines", numbers, draw, lambda room: _text(scene, room), title, caption, row_words)


def alignment(
    weights: NDArray[np.floating], source: Iterable[str], target: Iterable[str], *, title: str = "", caption: str = ""
) -> Picture:
    """Cross-attention (target words, source words) as lines between a sentence and its translation below it.

    >>> print(alignment(np.array([[0.9, 0.1], [0.2, 0.8]]), ["a", "dog"], ["un", "chien"]))
    un    ← a 90 %
    chien ← dog 80 %, a 20 %
    """
    shares = as_weights("weights", weights, ("target words", "source words"))
    above = as_words("source", source, shares.shape[1], "weights' columns")
    below = as_words("target", target, shares.shape[0], "weights' rows")
    joined = lines(shares, below, above, layout="rows", title=title, caption=caption)

    def text(room: int) -> Text:
        labels = [visible(word) for word in below]
        indent = max(map(cell_len, labels))
        drawn = []
        for label, row in zip(labels, shares, strict=True):
            order = np.argsort(-np.nan_to_num(row), kind="stable")[:3]
            best = [f"{visible(above[n])} {percent(float(row[n]))}" for n in order if n == order[0] or row[n] >= 0.15]
            line = Text.assemble((padded(label, indent), "cyan"), " ← ", ", ".join(best))
            line.truncate(room, overflow="ellipsis")
            drawn.append(line)
        return Text("\n").join(drawn)

    return replace(joined, kind="alignment", numbers={"weights": shares}, text=text, words=(*below, *above))


# All heads of a model, to walk through in a browser


@dataclass(frozen=True, eq=False)
class HeadLayer:
    """The attention of one layer for `head_lines`; `top(k)` gives the k largest weights of each row and their keys.

    Both are (heads, rows, k), the weights descending; a key of -1 is none.
    """

    kind: str
    layer: int
    heads: Sequence[int]  # their numbers
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    top: Callable[[int], tuple[NDArray[np.floating], NDArray[np.integer]]]


def head_lines(plain: Picture, layers: Sequence[HeadLayer], start: int | None = None) -> Picture:
    """A picture with a view of all heads in notebooks and HTML files: menus of layers, heads that switch on and off.

    Args:
        plain: the picture for the terminal, SVG, PNG and PDF; the view has its title and caption.
        layers: what the menus offer, first what is shown first.
        start: the row that is chosen at the beginning.
    """
    return replace(plain, kind="heads", feed=_HeadsFeed(layers, plain.title, start))


_KEPT = 64, 48, 32, 24, 16, 12, 10, 8, 6, 5, 4, 3, 2, 1  # largest weights of a row: as many as fit into a file
_WEIGHTS = 6_000_000  # in all, about what fits into a file


@dataclass(frozen=True)
class _HeadsFeed:
    """The numbers of the view (viewer/head_lines.js): the largest weights of each row, rounded to float16."""

    layers: Sequence[HeadLayer]
    title: str
    start: int | None

    @cached_property
    def texts(self) -> list[tuple[str, ...]]:
        """The words of all layers; layers with the same words share them."""
        return list(dict.fromkeys(words for each in self.layers for words in (each.rows, each.columns)))

    @cached_property
    def tops(self) -> list[tuple[NDArray[np.float16], NDArray[np.int32]]]:
        """The largest weights of all layers."""
        most = _WEIGHTS // sum(len(each.heads) * len(each.rows) for each in self.layers)
        tops = []
        with progress("reading the attention", total=len(self.layers)) as advance:
            for each in self.layers:
                weights, keys = each.top(max(min(most, _KEPT[0], len(each.columns)), 1))
                tops.append((weights.astype(np.float16), np.where(weights > 0, keys, -1).astype(np.int32)))
                advance(1)
        return tops

    def about(self) -> dict[str, Any]:
        """The view as JSON, with its arrays by name."""
        layers = [
            {
                "kind": each.kind, "layer": each.layer, "heads": list(each.heads),
                "rows": f"text{self.texts.index(each.rows)}", "columns": f"text{self.texts.index(each.columns)}",
            }
            for each in self.layers
        ]  # fmt: skip
        colours = list(zip(LIGHT.colours, DARK.colours, strict=True))
        start = None if self.start is None else {"side": "rows", "place": self.start}
        return {"view": "heads", "title": self.title, "start": start, "colours": colours, "layers": layers}

    def packed(self, budget: int) -> Packed:
        """The content of a file of at most `budget` bytes, with as many weights of each row as fit."""
        written = [json.dumps(words, ensure_ascii=False).encode("utf-8", "replace") for words in self.texts]
        texts = {f"text{n}": block(np.frombuffer(each, np.uint8)) for n, each in enumerate(written)}
        sizes = [weights.size for weights, _ in self.tops]
        most = max(weights.shape[-1] for weights, _ in self.tops)
        for kept in (k for k in (most, *_KEPT) if k <= most):
            blocks = dict(texts)
            for n, (weights, keys) in enumerate(self.tops):
                blocks[f"weights{n}"], blocks[f"keys{n}"] = block(weights[..., :kept]), block(keys[..., :kept])
                expected = sum(len(each.text) for each in blocks.values()) * sum(sizes) / sum(sizes[: n + 1])
                if expected > budget:
                    break
            else:
                whole = all(kept >= len(each.columns) for each in self.layers)
                return Packed(self.about() | {"kept": None if whole else kept}, blocks)
        raise TooLargeError(f"the heads must fit in {budget:,} bytes. Choose fewer layers, or pass a larger budget.")


@dataclass(frozen=True, eq=False)
class _Scene:
    """What every layout draws."""

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    weights: NDArray[np.floating]  # (heads shown, rows, columns)
    picked: tuple[int, ...]
    head_numbers: tuple[int, ...]  # for the legend; empty for weights without heads

    @property
    def annotated(self) -> int | None:
        """The row whose weights are written as numbers: the only one picked, of the only head."""
        return self.picked[0] if len(self.picked) == 1 and len(self.weights) == 1 else None


_Mark = tuple[int, int, int]  # head, row, column


def _marks(weights: NDArray[np.floating], only: tuple[int, ...]) -> tuple[list[_Mark], str]:
    """The weights to draw, the smallest first, and a note if some are left out; `only` restricts the rows."""
    drawn = np.nan_to_num(weights) > 0
    if only:
        drawn &= np.isin(np.arange(weights.shape[1]), only)[:, None]
    positive = np.argwhere(drawn)
    # Rounded, so that weights that are equal but for rounding are drawn in one order on every machine.
    order = np.argsort(weights[drawn].round(9), kind="stable")[-_MARKS:]
    notes = [f"The {_MARKS:,} greatest of {len(positive):,} weights."] if len(positive) > _MARKS else []
    missing = int(np.isnan(weights).sum())
    notes += [f"{missing} weights are nan and have no line."] if missing else []
    return [(int(h), int(r), int(c)) for h, r, c in positive[order]], " ".join(notes)


# Layouts


def _in_columns(canvas: Canvas, scene: _Scene, marks: list[_Mark]) -> None:
    label = min(max(_width(word) for word in scene.rows), _LABEL_WIDTH)
    x1, x2 = label + 8, label + 8 + 230
    top = 20.0

    def route(row: int, column: int, aside: float) -> str:
        return curve(x1, top + row * _ROW_HEIGHT + aside, x2, top + column * _ROW_HEIGHT + aside)

    _strokes(canvas, scene, marks, route)
    for row in range(len(scene.rows)):
        _word(canvas, label, top + row * _ROW_HEIGHT + 5, scene.rows, row, "row", "end", row in scene.picked)
    picked = scene.annotated
    best = None if picked is None else int(np.nan_to_num(scene.weights[0, picked]).argmax())
    for column in range(len(scene.columns)):
        y = top + column * _ROW_HEIGHT + 5
        _word(canvas, x2 + 8, y, scene.columns, column, "column", "start", column == best)
        if picked is not None:
            x = x2 + 16 + _width(scene.columns[column], column == best)
            _share(canvas, x, y, scene, picked, column, 12, "start")
    canvas.reach(x2 + 60, top + (max(len(scene.rows), len(scene.columns)) - 1) * _ROW_HEIGHT + 14)


def _in_rows(canvas: Canvas, scene: _Scene, marks: list[_Mark]) -> None:
    """Columns above, rows below: a translation is below its source."""
    (below, low), (above, high) = _side_by_side(scene.rows), _side_by_side(scene.columns)
    ends = below[-1] + low[-1] / 2, above[-1] + high[-1] / 2
    shift = (ends[1] - ends[0]) / 2  # centres both
    below, above = [x + max(shift, 0) for x in below], [x + max(-shift, 0) for x in above]
    y1, y2 = 28.0, 168.0

    def route(row: int, column: int, aside: float) -> str:
        return curve(below[row] + aside, y2, above[column] + aside, y1, upright=True)

    _strokes(canvas, scene, marks, route)
    for column, x in enumerate(above):
        _word(canvas, x, y1 - 9, scene.columns, column, "column", "middle", False)
    for row, x in enumerate(below):
        _word(canvas, x, y2 + 18, scene.rows, row, "row", "middle", row in scene.picked)
    canvas.reach(max(ends), y2 + 24)


def _in_arcs(canvas: Canvas, scene: _Scene, marks: list[_Mark]) -> None:
    centres, widths = _side_by_side(scene.rows, narrowest=40)  # room for a share below the word
    longest = max((abs(centres[row] - centres[column]) for _, row, column in marks), default=0.0)
    base = max(min(0.42 * longest, 220.0), 34) + 14

    def route(row: int, column: int, aside: float) -> str:
        a, b = centres[row], centres[column] + aside
        if row == column:  # a loop
            up = base - 46
            return f"M{a - 7:.1f} {base:.1f}C{a - 30:.1f} {up:.1f} {a + 30:.1f} {up:.1f} {a + 7:.1f} {base:.1f}"
        rise = min(0.42 * abs(a - b), 220.0) * 4 / 3
        return f"M{a:.1f} {base:.1f}C{a:.1f} {base - rise:.1f} {b:.1f} {base - rise:.1f} {b:.1f} {base:.1f}"

    _strokes(canvas, scene, marks, route, thickest=9.0)
    picked = scene.annotated
    for place, x in enumerate(centres):
        _word(canvas, x, base + 20, scene.rows, place, "row", "middle", place in scene.picked)
        if picked is not None:
            _share(canvas, x, base + 38, scene, picked, place, 11, "middle")
    canvas.reach(centres[-1] + widths[-1] / 2, base + 42)


_LAYOUTS = {"columns": _in_columns, "rows": _in_rows, "arcs": _in_arcs}


def _strokes(
    canvas: Canvas, scene: _Scene, marks: list[_Mark], route: Callable[[int, int, float], str], thickest: float = 12.0
) -> None:
    """A line for each mark, its thickness proportional to the weight; `route` gives its path."""
    weights = scene.weights
    largest = float(max((weights[mark] for mark in marks), default=1.0))
    if not scene.picked:  # all lines of a word together are as thick as the thickest of a picked word
        thickest *= min(largest / (float(np.nansum(weights)) / weights.shape[1] or 1.0), 1.0)
    count = len(weights)
    for head, row, column in marks:
        weight = float(weights[head, row, column])
        share = weight / largest
        aside = (head - (count - 1) / 2) * min(5.0, 16 / count)  # the heads' lines beside each other
        tooltip = f"{isolated(scene.rows[row])} → {isolated(scene.columns[column])}: {percent(weight)}"
        canvas.path(
            route(row, column, aside),
            canvas.theme.colour(head), thickest * share, title=tooltip + (f" (head {head})" if count > 1 else ""),
            stroke_opacity=0.2 + 0.7 * share, opacity=_FADED if scene.picked and row not in scene.picked else None,
            data_mark="", data_row=row, data_column=column, data_head=head,
        )  # fmt: skip


def _width(word: str, bold: bool = True) -> float:
    return measure(shorten(word, _LABEL_WIDTH, _FONT), _FONT, bold=bold)


def _side_by_side(words: Sequence[str], narrowest: float = 10) -> tuple[list[float], list[float]]:
    """The centres of words in one row, and their widths."""
    widths = [max(_width(word), narrowest) for word in words]
    ends = np.cumsum([width + 20 for width in widths])
    return [float(end - width / 2 - 20) for end, width in zip(ends, widths, strict=True)], widths


def _word(
    canvas: Canvas, x: float, y: float, words: Sequence[str], place: int, axis: str, anchor: str, highlighted: bool
) -> None:  # fmt: skip
    word = words[place]
    canvas.text(
        x, y, shorten(word, _LABEL_WIDTH, _FONT), _FONT, anchor, canvas.theme.accent if highlighted else "",
        bold=highlighted, title=in_full(word), data_pick=f"{axis}:{place}",
    )  # fmt: skip


def _share(
    canvas: Canvas, x: float, y: float, scene: _Scene, row: int, column: int, size: float, anchor: str
) -> None:  # fmt: skip
    """A weight of the picked word, in per cent; on a page it fades when another word is picked."""
    share = percent(float(scene.weights[0, row, column]))
    canvas.text(
        x, y, share, size, anchor, canvas.theme.muted, data_mark="share", data_row=row, data_column=column, data_head=0
    )


def _legend(canvas: Canvas, heads: Sequence[int]) -> None:
    """Which colour is which head; a click on one picks it."""
    x, y = 0.0, canvas.height + 22
    for place, head in enumerate(heads):
        name = f"head {head}"
        with canvas.group(data_pick=f"head:{place}"):
            canvas.rect(x, y - 9, 12, 10, canvas.theme.colour(place), rx=2)
            canvas.text(x + 17, y, name, 12)
        x += 32 + measure(name, 12)


# Text


def _text(scene: _Scene, width: int) -> Text:
    """The largest weights of each word as bars, as many as fit into the width."""
    rows = scene.picked or range(len(scene.rows))
    indent = max(cell_len(visible(scene.rows[row])) for row in rows)
    drawn: list[Text] = []
    for row in rows:
        for place in range(len(scene.weights)):
            label = visible(scene.rows[row]) if place == 0 else ""
            line = Text.assemble((padded(label, indent), "cyan"))
            line.append(f"  head {scene.head_numbers[place]}" if scene.head_numbers else "", "dim")
            line.append_text(_bars(scene.weights[place, row], scene.columns, width - line.cell_len))
            drawn.append(line)
    return Text("\n").join(drawn)


def _bars(weights: NDArray[np.floating], words: Sequence[str], room: int) -> Text:
    line = Text()
    if np.isnan(weights).any():
        return Text(" nan", "dim")
    largest = float(weights.max())
    for column in np.argsort(-weights, kind="stable")[:5]:
        share = float(weights[column])
        if percent(share) == "0 %":
            break
        style = Style(color=heat(share).bgcolor)
        term = Text.assemble((f" {bar(10 * share / largest)} ", style), visible(words[column]))
        term.append(f" {percent(share)}  ")
        if line and line.cell_len + term.cell_len - 2 > room:
            break
        line.append_text(term)
    line.rstrip()
    line.truncate(room, overflow="ellipsis")
    return line
