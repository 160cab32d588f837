"""`lines`: words joined by their weights, the thicker the more one looks at the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray
from rich.style import Style
from rich.text import Text

from regard.drawing.arguments import as_heads, as_words, chosen, isolated, places
from regard.drawing.picture import Picture
from regard.drawing.svg import Canvas, measure, shorten
from regard.drawing.terminal import heat, percent, visible
from regard.errors import InputError, TooLargeError

__all__ = ["lines"]

_WORDS = 200  # on a side
_MARKS = 3000  # lines; more are a smear, and a heavy page
_HEADS = 8
_THICK = 12.0  # the greatest weight's line, in pixels
_ROW, _FONT, _LABEL = 26.0, 15.0, 150.0
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
    """Each word of the rows, and lines to what it looks at: in two columns, two rows, or as arcs over one row.

    Weights are (rows, columns) or (heads, rows, columns), each head a colour. What is picked stands out.

    >>> print(lines(np.array([[0.1, 0.6, 0.3]]), ["it"], ["a", "dog", "ate"], pick="it"))
    it ━━━━━━━━━━ dog 60 %   ━━━━━ ate 30 %   ━━ a 10 %
    """
    every = as_heads(weights)
    count, height, width = every.shape
    left = as_words("rows", rows, height, "weights' rows")
    right = left if columns is None and height == width else as_words("columns", columns, width, "weights' columns")
    if max(height, width) > _WORDS:
        raise TooLargeError(
            f"lines can join at most {_WORDS} words on a side. Got {height} and {width}. Choose a part, as in "
            f"weights[..., :{_WORDS}, :{_WORDS}], or draw a matrix or a map, which pool."
        )
    shown = chosen(heads, count, _HEADS)
    picked = places("pick", pick, left)
    if layout not in _LAYOUTS:
        raise InputError(f"layout must be one of {', '.join(map(repr, _LAYOUTS))}. Got {layout!r}.")
    if layout == "arcs" and left != right:
        raise InputError("layout 'arcs' takes words that look at themselves: the same rows and columns. Use 'columns'.")
    some = every[list(shown)]
    marks, said = _marks(some, picked if layout == "arcs" else ())
    scene = _LAYOUTS[layout]

    def draw(canvas: Canvas) -> None:
        scene(canvas, left, right, some, marks, picked)
        _legend(canvas, shown if count > 1 else ())

    def text(room: int) -> Text:
        return _text(left, right, some, shown if count > 1 else (), picked, room)

    caption = " ".join(part for part in (caption, said) if part)
    return Picture("lines", {"weights": every}, draw, text, title, caption, left)


def _marks(weights: NDArray[np.floating], picked: tuple[int, ...]) -> tuple[list[tuple[int, int, int]], str]:
    """The weights to draw, the thinnest first, and what to say if these are not all."""
    drawn = np.nan_to_num(weights) > 0
    if picked:
        drawn &= np.isin(np.arange(weights.shape[1]), picked)[:, None]
    places_ = np.argwhere(drawn)
    order = np.argsort(weights[drawn], kind="stable")[-_MARKS:]
    said = [f"The {_MARKS:,} greatest of {len(places_):,} weights."] if len(places_) > _MARKS else []
    missing = int(np.isnan(weights).sum())
    said += [f"{missing} weights are nan and have no line."] if missing else []
    return [(int(h), int(r), int(c)) for h, r, c in places_[order]], " ".join(said)


def _strokes(
    canvas: Canvas,
    left: Sequence[str],
    right: Sequence[str],
    weights: NDArray[np.floating],
    marks: list[tuple[int, int, int]],
    picked: tuple[int, ...],
    route: Callable[[int, int, float], str],
    thick: float = _THICK,
) -> None:
    """A line for each mark: thickness in the ratio of the weights, and opacity with it."""
    greatest = float(max((weights[mark] for mark in marks), default=1.0))
    several = weights.shape[0] > 1
    for head, row, column in marks:
        weight = float(weights[head, row, column])
        share = weight / greatest
        aside = (head - (weights.shape[0] - 1) / 2) * min(5.0, 16 / weights.shape[0])
        said = f"{isolated(visible(left[row], 40))} → {isolated(visible(right[column], 40))}: {percent(weight)}"
        canvas.path(
            route(row, column, aside),
            canvas.theme.colour(head),
            thick * share,
            title=said + (f" (head {head})" if several else ""),
            stroke_opacity=0.2 + 0.7 * share,
            opacity=_FADED if picked and row not in picked else None,
            data_mark="",
            data_row=row,
            data_column=column,
            data_head=head,
        )


def _word(
    canvas: Canvas, x: float, y: float, words: Sequence[str], place: int, axis: str, anchor: str, strong: bool,
    room: float = _LABEL,
) -> None:  # fmt: skip
    word = words[place]
    canvas.text(
        x, y, shorten(word, room, _FONT), _FONT, anchor, canvas.theme.accent if strong else "", bold=strong,
        title=visible(word, max(len(word) * 8, 1)), data_pick=f"{axis}:{place}",
    )  # fmt: skip


def _share(
    canvas: Canvas, x: float, y: float, weights: NDArray[np.floating], row: int, column: int, size: float, anchor: str
) -> None:  # fmt: skip
    """The picked word's weight, as a mark of it: on a page it fades when another word is picked."""
    said = percent(float(weights[0, row, column]))
    canvas.text(
        x, y, said, size, anchor, canvas.theme.muted, data_mark="share", data_row=row, data_column=column, data_head=0
    )


def _in_columns(
    canvas: Canvas,
    left: Sequence[str],
    right: Sequence[str],
    weights: NDArray[np.floating],
    marks: list[tuple[int, int, int]],
    picked: tuple[int, ...],
) -> None:
    room = min(max(measure(shorten(word, _LABEL, _FONT), _FONT, bold=True) for word in left), _LABEL)
    x1, x2 = room + 8, room + 8 + 230
    top = 20.0

    def route(row: int, column: int, aside: float) -> str:
        y1, y2, middle = top + row * _ROW + aside, top + column * _ROW + aside, (x1 + x2) / 2
        return f"M{x1:.1f} {y1:.1f}C{middle:.1f} {y1:.1f} {middle:.1f} {y2:.1f} {x2:.1f} {y2:.1f}"

    _strokes(canvas, left, right, weights, marks, picked, route)
    for row in range(len(left)):
        _word(canvas, room, top + row * _ROW + 5, left, row, "row", "end", row in picked)
    one = picked[0] if len(picked) == 1 and weights.shape[0] == 1 else None
    best = int(np.nan_to_num(weights[0, one]).argmax()) if one is not None else None
    for column in range(len(right)):
        y = top + column * _ROW + 5
        _word(canvas, x2 + 8, y, right, column, "column", "start", column == best)
        if one is not None:
            width = measure(shorten(right[column], _LABEL, _FONT), _FONT, bold=column == best)
            _share(canvas, x2 + 16 + width, y, weights, one, column, 12, "start")
    canvas.reach(x2 + 60, top + (max(len(left), len(right)) - 1) * _ROW + 14)


def _abreast(words: Sequence[str], least: float = 10) -> tuple[list[float], list[float]]:
    """The middles of words in a row, and their widths."""
    widths = [max(measure(shorten(word, _LABEL, _FONT), _FONT, bold=True), least) for word in words]
    ends = np.cumsum([width + 20 for width in widths])
    return [float(end - width / 2 - 20) for end, width in zip(ends, widths, strict=True)], widths


def _in_rows(
    canvas: Canvas,
    left: Sequence[str],
    right: Sequence[str],
    weights: NDArray[np.floating],
    marks: list[tuple[int, int, int]],
    picked: tuple[int, ...],
) -> None:
    """What is looked at above, who looks below: a translation stands below its source."""
    (below, low), (above, high) = _abreast(left), _abreast(right)
    ends = below[-1] + low[-1] / 2, above[-1] + high[-1] / 2
    shift = (ends[1] - ends[0]) / 2  # both in the middle
    below, above = [x + max(shift, 0) for x in below], [x + max(-shift, 0) for x in above]
    y1, y2 = 28.0, 168.0

    def route(row: int, column: int, aside: float) -> str:
        middle = (y1 + y2) / 2
        a, b = below[row] + aside, above[column] + aside
        return f"M{a:.1f} {y2:.1f}C{a:.1f} {middle:.1f} {b:.1f} {middle:.1f} {b:.1f} {y1:.1f}"

    _strokes(canvas, left, right, weights, marks, picked, route)
    for column, x in enumerate(above):
        _word(canvas, x, y1 - 9, right, column, "column", "middle", False)
    for row, x in enumerate(below):
        _word(canvas, x, y2 + 18, left, row, "row", "middle", row in picked)
    canvas.reach(max(ends), y2 + 24)


def _in_arcs(
    canvas: Canvas,
    left: Sequence[str],
    right: Sequence[str],
    weights: NDArray[np.floating],
    marks: list[tuple[int, int, int]],
    picked: tuple[int, ...],
) -> None:
    middles, widths = _abreast(left, least=40)  # room for its share below it
    far = max((abs(middles[row] - middles[column]) for _, row, column in marks), default=0.0)
    base = max(min(0.42 * far, 220.0), 34) + 14

    def route(row: int, column: int, aside: float) -> str:
        a, b = middles[row], middles[column] + aside
        if row == column:  # a loop back to itself
            up = base - 46
            return f"M{a - 7:.1f} {base:.1f}C{a - 30:.1f} {up:.1f} {a + 30:.1f} {up:.1f} {a + 7:.1f} {base:.1f}"
        rise = min(0.42 * abs(a - b), 220.0) * 4 / 3
        return f"M{a:.1f} {base:.1f}C{a:.1f} {base - rise:.1f} {b:.1f} {base - rise:.1f} {b:.1f} {base:.1f}"

    _strokes(canvas, left, right, weights, marks, picked, route, thick=9.0)
    one = picked[0] if len(picked) == 1 and weights.shape[0] == 1 else None
    for place, x in enumerate(middles):
        _word(canvas, x, base + 20, left, place, "row", "middle", place in picked)
        if one is not None:
            _share(canvas, x, base + 38, weights, one, place, 11, "middle")
    canvas.reach(middles[-1] + widths[-1] / 2, base + 42)


_LAYOUTS = {"columns": _in_columns, "rows": _in_rows, "arcs": _in_arcs}


def _legend(canvas: Canvas, heads: Sequence[int]) -> None:
    """Which colour is which head; a click on one picks it."""
    x, y = 0.0, canvas.height + 22
    for place, head in enumerate(heads):
        name = f"head {head}"
        with canvas.group(data_pick=f"head:{place}"):
            canvas.rect(x, y - 9, 12, 10, canvas.theme.colour(place), rx=2)
            canvas.text(x + 17, y, name, 12)
        x += 32 + measure(name, 12)


def _text(
    left: Sequence[str],
    right: Sequence[str],
    weights: NDArray[np.floating],
    heads: Sequence[int],
    picked: tuple[int, ...],
    width: int,
) -> Text:
    """The greatest weights of each word, as many as the width holds; the length of a bar is the weight."""
    rows = picked or range(len(left))
    indent = max(Text(visible(left[row])).cell_len for row in rows)
    drawn: list[Text] = []
    for row in rows:
        for place in range(weights.shape[0]):
            label = visible(left[row]) if place == 0 else ""
            line = Text.assemble((label + " " * (indent - Text(label).cell_len), "cyan"))
            line.append(f"  head {heads[place]}" if heads else "", "dim")
            line.append_text(_bars(weights[place, row], right, width - line.cell_len))
            drawn.append(line)
    return Text("\n").join(drawn)


def _bars(weights: NDArray[np.floating], words: Sequence[str], room: int) -> Text:
    line = Text()
    if np.isnan(weights).any():
        return Text(" nan", "dim")
    greatest = float(weights.max())
    for column in np.argsort(-weights, kind="stable")[:5]:
        share = float(weights[column])
        if percent(share) == "0 %":
            break
        bar = "━" * max(round(10 * share / greatest), 1)
        term = Text.assemble((f" {bar} ", Style(color=heat(share).bgcolor)), visible(words[column]))
        term.append(f" {percent(share)}  ")
        if line and line.cell_len + term.cell_len - 2 > room:
            break
        line.append_text(term)
    line.rstrip()
    line.truncate(room, overflow="ellipsis")
    return line
