"""`matrix`: a heat map with its numbers in it, or several side by side; too large a one is pooled."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray
from rich.text import Text

from regard.drawing.arguments import as_heads, as_words, chosen
from regard.drawing.cells import cells
from regard.drawing.picture import Picture
from regard.drawing.pooling import pooled, spans
from regard.drawing.shades import shaded
from regard.drawing.svg import Canvas, Raster, measure, shorten
from regard.drawing.terminal import Table, beside
from regard.errors import InputError

__all__ = ["matrix", "tables"]

_NUMBERED = 12  # words on a side: more numbers than that nobody reads
_WORDED = 64
_HEADS = 16
_CELL = 16.0
_WIDE = 1200.0  # then a new line of matrices


def matrix(
    weights: NDArray[np.floating],
    rows: Iterable[str] | None = None,
    columns: Iterable[str] | None = None,
    *,
    heads: Sequence[int] | None = None,
    names: Sequence[str] | None = None,
    title: str = "",
    caption: str = "",
) -> Picture:
    """Weights as shades, (rows, columns) or (heads, rows, columns): with numbers up to 12 words, pooled above 64.

    >>> matrix(np.full((200, 200), 1 / 200)).caption
    'Each cell is the mean of about 3 × 3 weights.'
    """
    every = as_heads(weights)
    count, height, width = every.shape
    left = as_words("rows", rows, height, "weights' rows")
    right = left if columns is None and height == width else as_words("columns", columns, width, "weights' columns")
    shown = chosen(heads, count, _HEADS)
    called = [f"head {head}" if count > 1 else "" for head in shown] if names is None else list(names)
    if len(called) != len(shown):
        raise InputError(f"names must name the matrices drawn: {len(shown)}. Got {len(called)}.")
    if max(height, width) <= _NUMBERED:
        drawn = [
            Table(every[head].astype(np.float64), name, rows=left, columns=right, shares=True)
            for head, name in zip(shown, called, strict=True)
        ]
        seen = tables(drawn, title=title, caption=caption)
        return Picture("matrix", {"weights": weights}, seen.draw, seen.text, title, caption, left)
    small = pooled(every[list(shown)], _WORDED, _WORDED)
    if max(height, width) > _WORDED:
        said = f"Each cell is the mean of about {height / small.shape[1]:.0f} × {width / small.shape[2]:.0f} weights."
        caption = f"{caption} {said}".strip()

    def draw(canvas: Canvas) -> None:
        canvas.labels |= {"rows": spans(left, small.shape[1]), "columns": spans(right, small.shape[2])}
        greatest = float(np.nanmax(small, initial=0.0)) or 1.0
        x = y = 0.0
        for name, values in zip(called, small, strict=True):
            if x and x + values.shape[1] * _CELL > _WIDE:
                x, y = 0.0, canvas.height + 24
            x = _heat_map(canvas, x, y, name, values, greatest) + 28
        _scale(canvas, greatest)

    def text(room: int) -> Text:
        return Text("\n\n").join(
            Text.assemble((f"{name}\n" if name else "", "bold"), shaded(values, spans(left, len(values)), room))
            for name, values in zip(called, small, strict=True)
        )

    return Picture("matrix", {"weights": weights}, draw, text, title, caption, left)


def tables(
    drawn: Sequence[Table],
    *,
    signs: Sequence[str] = (),
    row: int | None = None,
    column: int | None = None,
    title: str = "",
    caption: str = "",
) -> Picture:
    """Tables side by side with signs between them: scores, scaled and weights, or a product and its factors.

    A sign "\\n" begins a new line. A row of all but the second, and a column of that, can be made to stand out.

    >>> print(tables([Table(np.eye(2), "A"), Table(np.eye(2), "B"), Table(np.eye(2), "AB")], signs=("·", "=")))
     A        B        AB
     1  0     1  0     1  0
     0  1     0  1     0  1
    """

    def draw(canvas: Canvas) -> None:
        x = y = 0.0
        top, tall = (max(map(measured, drawn)) for measured in (_head, _tall))
        for n, table in enumerate(drawn):
            joined = 0 < n <= len(signs) and signs[n - 1] not in ("", "\n")
            if x and not joined and x + cells(Canvas(canvas.theme), 0, 0, table).end > _WIDE:
                x, y = 0.0, canvas.height + 24
            lead = y + top - _head(table) + (tall - _tall(table)) / 2
            marked = row if n != 1 and row is not None and row < len(table.values) else None
            where = cells(canvas, x, lead, table, row=marked, column=column if n == 1 else None)
            x = where.end + 14
            if n < len(signs) and signs[n] == "\n":
                x, y = 0.0, canvas.height + 24
            elif n < len(signs) and signs[n]:
                canvas.text(x + 8, where.middle + 7, signs[n], 20, "start")
                x += measure(signs[n], 20) + 22
            else:
                x += 12

    return Picture(
        "tables", {table.name: table.values for table in drawn}, draw, lambda room: beside(drawn, room), title, caption
    )


def _head(table: Table) -> float:
    """How far the numbers lie below the top."""
    return (22 if table.name or table.formula else 0) + (18 if table.shape else 0) + (20 if table.columns else 0)


def _tall(table: Table) -> float:
    return 26.0 * (len(table.values) if len(table.values) <= (12 if table.rows else 10) else 12 if table.rows else 4)


def _heat_map(canvas: Canvas, x: float, y: float, name: str, values: NDArray[np.floating], greatest: float) -> float:
    """One matrix as an image, its words beside it where each has a line; gives back where it ends."""
    rows, columns = canvas.labels["rows"], canvas.labels["columns"]
    label = max(measure(shorten(word, 110, 12), 12) for word in rows)
    high = max(measure(shorten(word, 90, 12), 12) for word in columns) * 0.71 + 14
    left, top = x + label + 6, y + high + (22 if name else 0)
    canvas.text(left, y + 13, name, 14, bold=True)
    wide, tall = values.shape[1] * _CELL, values.shape[0] * _CELL
    canvas.image(left, top, wide, tall, Raster(values, name, "rows", "columns"), values / greatest)
    canvas.rect(left, top, wide, tall, stroke=canvas.theme.faint, pointer_events="none")
    for place, word in enumerate(rows):
        canvas.text(left - 6, top + place * _CELL + 12, shorten(word, 110, 12), 12, "end", title=word)
    for place, word in enumerate(columns):
        at = left + place * _CELL + 9, top - 5
        canvas.text(*at, shorten(word, 90, 12), 12, title=word, transform=f"rotate(-45 {at[0]:.1f} {at[1]:.1f})")
    return float(left + wide)


def _scale(canvas: Canvas, greatest: float) -> None:
    """What the shades mean."""
    y = canvas.height + 14
    ramp = np.linspace(0, greatest, 64)[None]
    canvas.image(0, y, 160, 10, Raster(ramp, "", "", ""), ramp / greatest)
    canvas.text(0, y + 24, "0", 11, fill=canvas.theme.muted)
    canvas.text(160, y + 24, f"{greatest:.3g}", 11, "end", canvas.theme.muted)
