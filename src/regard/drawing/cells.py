"""A `Table` as cells: its name and formula above, its words beside, its numbers inside, shaded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from regard.drawing.arguments import isolated
from regard.drawing.svg import Canvas, measure, rgb, shorten
from regard.drawing.terminal import Table, elisions, formatted, percent, visible

__all__ = ["Cells", "cells", "strip", "symbol"]

_FONT, _SMALL = 13.0, 12.0
_HIGH, _LABEL, _HEAD = 26.0, 110.0, 74.0
_WHOLE = 10  # without words, where more are elided
_GAP = 22.0  # a cell for what is left out


@dataclass(frozen=True)
class Cells:
    """Where a table was drawn: the box of its numbers, and where everything ends."""

    left: float
    top: float
    right: float
    bottom: float
    xs: tuple[float, ...]  # the middle of each column shown
    ys: tuple[float, ...]
    end: float  # the caption may reach farther than the numbers

    @property
    def middle(self) -> float:
        """The height of a sign beside it."""
        return (self.top + self.bottom) / 2


def cells(
    canvas: Canvas, x: float, y: float, table: Table, *, numbered: bool = True, row: int | None = None,
    column: int | None = None,
) -> Cells:  # fmt: skip
    """Draw a table with its upper left corner at (x, y); a row or column can be made to stand out.

    >>> from regard.drawing.theme import LIGHT
    >>> canvas = Canvas(LIGHT)
    >>> where = cells(canvas, 0, 0, Table(np.eye(2), "I", rows=("a", "b"), shares=True))
    >>> canvas.body().count("<rect"), canvas.body().count("100 %</text>")
    (4, 2)
    """
    theme = canvas.theme
    rows, columns = (
        next(elisions(count, named=bool(words) or count <= _WHOLE))
        for count, words in zip(table.values.shape, (table.rows, table.columns), strict=True)
    )
    texts = _texts(table, rows, columns)
    labels = [shorten(table.rows[r], _LABEL, _FONT) for r in rows if r is not None] if table.rows else []
    left = x + (max(measure(label, _FONT, bold=row is not None) for label in labels) + 8 if labels else 0)
    top = y + _caption(canvas, left, y, table)
    wide = _widths(table, columns, texts, numbered)
    if table.columns:
        top += 20
        _heads(canvas, left, top - 7, table, columns, wide, column)
    xs = tuple(float(left + sum(wide[:n]) + w / 2) for n, w in enumerate(wide))
    highs = [_HIGH if r is not None else _GAP for r in rows]
    ys = tuple(float(top + sum(highs[:n]) + h / 2) for n, h in enumerate(highs))
    colours = theme.heat(_shares(table))
    for i, r in enumerate(rows):
        if table.rows:
            strong = r is not None and r == row
            word = "⋮" if r is None else shorten(table.rows[r], _LABEL, _FONT)
            canvas.text(
                left - 8, ys[i] + 4.5, word, _FONT, "end", theme.accent if strong else "", bold=strong,
                title="" if r is None else visible(table.rows[r], max(8 * len(table.rows[r]), 1)),
            )  # fmt: skip
        for j, c in enumerate(columns):
            if r is None or c is None:
                sign = "⋱" if r is None and c is None else "⋮" if r is None else "…"
                canvas.text(xs[j], ys[i] + 4.5, sign, _FONT, "middle", theme.muted)
                continue
            paint = colours[r, c]
            canvas.rect(
                xs[j] - wide[j] / 2 + 0.5, ys[i] - _HIGH / 2 + 0.5, wide[j] - 1, _HIGH - 1, rgb(paint), rx=2,
                title=_said(table, r, c), data_mark="", data_row=r, data_column=c,
            )  # fmt: skip
            if numbered:
                canvas.text(
                    xs[j], ys[i] + 4.5, texts[r, c], _SMALL, "middle", theme.ink_on(paint),
                    pointer_events="none",
                )  # fmt: skip
    bottom, right = top + sum(highs), left + sum(wide)
    _frame(canvas, left, top, right, bottom)
    if row is not None and row in rows:
        at = rows.index(row)
        canvas.rect(
            left - 1, ys[at] - _HIGH / 2 - 1, right - left + 2, _HIGH + 2, stroke=theme.accent, stroke_width=2.5, rx=3
        )
    if column is not None and column in columns:
        at = columns.index(column)
        canvas.rect(
            xs[at] - wide[at] / 2 - 1,
            top - 1,
            wide[at] + 2,
            bottom - top + 2,
            stroke=theme.accent,
            stroke_width=2.5,
            rx=3,
        )
    return Cells(left, top, right, bottom, xs, ys, max(right, left + _caption_width(table)))


def strip(canvas: Canvas, x: float, y: float, numbers: NDArray[np.floating], scale: float, most: int = 5) -> float:
    """A vector as a row of small cells without numbers, the middle left out if it is long; gives back its width.

    >>> from regard.drawing.theme import LIGHT
    >>> canvas = Canvas(LIGHT)
    >>> strip(canvas, 0, 0, np.arange(64.0), 63.0), canvas.body().count("<rect")
    (84.0, 5)
    """
    size = 14.0
    whole = len(numbers) <= most
    shown: list[int | None] = (
        list(range(len(numbers))) if whole else [*range(most - 2), None, *range(len(numbers) - 2, len(numbers))]
    )
    colours = canvas.theme.heat(numbers / (scale or 1.0))
    texts = formatted(np.asarray(numbers, np.float64))
    for n, place in enumerate(shown):
        if place is None:
            canvas.text(x + n * size + size / 2, y + 10, "…", 11, "middle", canvas.theme.muted)
            continue
        canvas.rect(
            x + n * size + 0.5, y + 0.5, size - 1, size + 1, rgb(colours[place]), rx=2,
            stroke=canvas.theme.faint, stroke_width=0.6, title=f"{place + 1}: {texts[place]}",
        )  # fmt: skip
    return size * len(shown)


def symbol(canvas: Canvas, x: float, y: float, letter: str, word: str, anchor: str = "start", size: float = 14) -> None:
    """A letter with a word below it, as in the formulas: x with "I"."""
    canvas.text(x, y, letter, size, anchor, italic=True, sub=shorten(word, 70, 0.7 * size), title=visible(word, 400))


def _texts(table: Table, rows: Sequence[int | None], columns: Sequence[int | None]) -> NDArray[np.object_]:
    """What stands in the cells: only those shown decide about the digits."""
    at = np.ix_(*([place for place in axis if place is not None] for axis in (rows, columns)))
    seen = table.values[at].ravel()
    texts = np.full(table.values.shape, "", dtype=object)
    words = [percent(share) for share in seen.tolist()] if table.shares else formatted(seen)
    texts[at] = np.array(words, dtype=object).reshape(table.values[at].shape)
    return texts


def _shares(table: Table) -> NDArray[np.floating]:
    """The numbers from -1 to 1, for their colours."""
    if table.shares:
        return table.values
    finite = np.abs(table.values[np.isfinite(table.values)])
    # Half of the scale: a number is to be read, not to shine.
    scaled = table.values / (2 * (float(finite.max(initial=0.0)) or 1.0))
    return np.where(np.isinf(table.values), np.sign(table.values) * 0.5, scaled)


def _widths(table: Table, columns: Sequence[int | None], texts: NDArray[np.object_], numbered: bool) -> list[float]:
    wide = []
    for c in columns:
        if c is None:
            wide.append(_GAP)
            continue
        texts_wide = max(measure(text, _SMALL) for text in texts[:, c]) + 14 if numbered else _HIGH
        head = measure(shorten(table.columns[c], _HEAD, _FONT), _FONT) + 8 if table.columns and numbered else 0.0
        wide.append(max(texts_wide, head, 34.0 if numbered else _HIGH))
    return wide


def _heads(
    canvas: Canvas, left: float, y: float, table: Table, columns: Sequence[int | None], wide: Sequence[float],
    column: int | None,
) -> None:  # fmt: skip
    for n, c in enumerate(columns):
        middle = left + sum(wide[:n]) + wide[n] / 2
        word = "…" if c is None else shorten(table.columns[c], min(_HEAD, wide[n]), _FONT)
        strong = c is not None and c == column
        canvas.text(
            middle, y, word, _FONT, "middle", canvas.theme.accent if strong else "", bold=strong,
            title="" if c is None else visible(table.columns[c], max(8 * len(table.columns[c]), 1)),
        )  # fmt: skip


def _said(table: Table, row: int, column: int) -> str:
    value = table.values[row, column]
    number = percent(float(value)) if table.shares else formatted(np.array([value]))[0]
    places = [
        isolated(visible(words[place], 40)) if words else str(place + 1)
        for words, place in ((table.rows, row), (table.columns, column))
    ]
    return f"{table.name and table.name + ': '}{places[0]} → {places[1]}: {number}"


def _caption(canvas: Canvas, x: float, y: float, table: Table) -> float:
    """The name, formula and shape above a table; gives back their height."""
    high = 0.0
    if table.name or table.formula:
        name, _, below = table.name.partition("_")  # W_Q
        formula, _, under = table.formula.partition("_")
        canvas.text(x, y + 13, name, 14, bold=True, sub=below)
        after = measure(table.name, 14, bold=True) + 6 if table.name else 0
        canvas.text(x + after, y + 13, formula, 14, sub=under)
        high += 20
    if table.shape:
        canvas.text(x, y + high + 11, table.shape, 11, fill=canvas.theme.muted)
        high += 18
    return high + (2 if high else 0)


def _caption_width(table: Table) -> float:
    line = measure(table.name, 14, bold=True) + 6 + measure(table.formula, 14)
    return max(line, measure(table.shape, 11))


def _frame(canvas: Canvas, left: float, top: float, right: float, bottom: float) -> None:
    """Brackets, as a matrix has them."""
    for x, inward in ((left - 2, 5), (right + 2, -5)):
        canvas.path(
            f"M{x + inward:.1f} {top - 2:.1f}H{x:.1f}V{bottom + 2:.1f}H{x + inward:.1f}", canvas.theme.muted, 1.4
        )
    canvas.reach(right + 3, bottom + 3)
