"""Numbers in cells: matrices alone and side by side, and the arithmetic of self-attention term by term."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from rich.text import Text

from regard.drawing.arguments import (
    as_heads,
    as_numbers,
    as_weights,
    as_words,
    axis_words,
    bounded,
    chosen,
    places,
    pooling_note,
    sized,
    spans,
)  # fmt: skip
from regard.drawing.picture import Picture
from regard.drawing.svg import Canvas, Raster, in_full, isolated, measure, rgb, shorten
from regard.drawing.terminal import (
    Table,
    beside,
    elisions,
    formatted,
    largest,
    made_of,
    mixtures,
    percent,
    pooled,
    shaded,
    shaded_bins,
    told_apart,
    visible,
)  # fmt: skip
from regard.errors import InputError, ShapeError

__all__ = ["Cells", "calculation", "cells", "dot", "matrix", "mixture", "strip", "symbol", "tables"]

_NUMBERED = 12  # words on a side up to which numbers are legible
_UNPOOLED = 64  # words on a side up to which each word has a row
_HEADS = 16
_PIXEL = 16.0  # of a heat map
_LINE_WIDTH = 1200.0  # pixels until a new line of matrices begins
_FONT, _SMALL = 13.0, 12.0
_CELL_HEIGHT, _LABEL_WIDTH, _HEADER_WIDTH = 26.0, 110.0, 74.0
_UNELIDED = 10  # numbers on a side that are all shown without words
_GAP = 22.0  # a cell that stands for cells left out


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
    """Weights (rows, columns) or (heads, rows, columns) as a heat map: with numbers up to 12 words, pooled above 64.

    >>> matrix(np.full((200, 200), 1 / 200)).caption
    'Each cell is the mean of about 3 × 3 weights.'
    """
    heads_weights = as_heads(weights)
    count, height, width = heads_weights.shape
    row_words, column_words = axis_words(rows, columns, (height, width))
    shown = chosen(heads, count, _HEADS)
    titles = [f"head {head}" if count > 1 else "" for head in shown] if names is None else list(names)
    if len(titles) != len(shown):
        raise InputError(f"names must name the matrices drawn: {len(shown)}. Got {len(titles)}.")
    if max(height, width) <= _NUMBERED:
        drawn = [
            Table(heads_weights[head].astype(np.float64), name, rows=row_words, columns=column_words, shares=True)
            for head, name in zip(shown, titles, strict=True)
        ]
        numbered = tables(drawn, title=title, caption=caption)
        return replace(numbered, kind="matrix", numbers={"weights": weights}, words=row_words)
    small = pooled(sized("weights", heads_weights)[list(shown)], _UNPOOLED, _UNPOOLED)
    if max(height, width) > _UNPOOLED:
        caption = f"{caption} {pooling_note((height, width), small.shape[1:])}".strip()

    def draw(canvas: Canvas) -> None:
        canvas.labels |= {"rows": spans(row_words, small.shape[1]), "columns": spans(column_words, small.shape[2])}
        scale = largest(small)
        x = y = 0.0
        for name, values in zip(titles, small, strict=True):
            if x and x + values.shape[1] * _PIXEL > _LINE_WIDTH:
                x, y = 0.0, canvas.height + 24
            x = _heat_map(canvas, x, y, name, values, scale) + 28
        _legend(canvas, scale)

    def text(room: int) -> Text:
        labels = spans(row_words, small.shape[1])
        heads = [column_words[n * width // small.shape[2]] for n in range(small.shape[2])]
        drawn = [
            Text.assemble((f"{name}\n" if name else "", "bold"), shaded(values, labels, room, columns=heads))
            for name, values in zip(titles, small, strict=True)
        ]
        lines, places = shaded_bins(small.shape[1:], room)
        note = [f"{lines} lines for {height:,} rows"] if lines < height else []
        note += [f"{places} places for {width:,} columns"] if places < width else []
        if note:
            drawn.append(Text(",\n".join(note) + ", each\nnamed after its first word."))
        return Text("\n\n").join(drawn)

    return Picture("matrix", {"weights": weights}, draw, text, title, caption, row_words)


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

    A sign "\\n" begins a new line. `row` is highlighted in all tables but the second, `column` in the second.

    >>> print(tables([Table(np.eye(2), "A"), Table(np.eye(2), "B"), Table(np.eye(2), "AB")], signs=("·", "=")))
     A        B        AB
     1  0     1  0     1  0
     0  1     0  1     0  1
    """

    def draw(canvas: Canvas) -> None:
        x = y = 0.0
        header, body = (max(map(height, drawn)) for height in (_header_height, _body_height))
        for n, table in enumerate(drawn):
            joined = 0 < n <= len(signs) and signs[n - 1] not in ("", "\n")
            if x and not joined and x + cells(Canvas(canvas.theme), 0, 0, table).end > _LINE_WIDTH:
                x, y = 0.0, canvas.height + 24
            top = y + header - _header_height(table) + (body - _body_height(table)) / 2
            highlighted = row if n != 1 and row is not None and row < len(table.values) else None
            where = cells(canvas, x, top, table, row=highlighted, column=column if n == 1 else None)
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


def _header_height(table: Table) -> float:
    """The height of the name, shape and words above the numbers."""
    return (22 if table.name or table.formula else 0) + (18 if table.shape else 0) + (20 if table.columns else 0)


def _body_height(table: Table) -> float:
    return 26.0 * (len(table.values) if len(table.values) <= (12 if table.rows else 10) else 12 if table.rows else 4)


def _heat_map(canvas: Canvas, x: float, y: float, name: str, values: NDArray[np.floating], scale: float) -> float:
    """One matrix as an image with its words beside it; returns its right edge."""
    rows, columns = canvas.labels["rows"], canvas.labels["columns"]
    margin = max(measure(shorten(word, 110, 12), 12) for word in rows)
    header = max(measure(shorten(word, 90, 12), 12) for word in columns) * 0.71 + 14
    left, top = x + margin + 6, y + header + (22 if name else 0)
    canvas.text(left, y + 13, name, 14, bold=True)
    width, height = values.shape[1] * _PIXEL, values.shape[0] * _PIXEL
    canvas.image(left, top, width, height, Raster(values, name, "rows", "columns"), values / scale)
    canvas.rect(left, top, width, height, stroke=canvas.theme.faint, pointer_events="none")
    for place, word in enumerate(rows):
        canvas.text(left - 6, top + place * _PIXEL + 12, shorten(word, 110, 12), 12, "end", title=word)
    for place, word in enumerate(columns):
        at = left + place * _PIXEL + 9, top - 5
        canvas.text(*at, shorten(word, 90, 12), 12, title=word, transform=f"rotate(-45 {at[0]:.1f} {at[1]:.1f})")
    return float(left + width)


def _legend(canvas: Canvas, scale: float) -> None:
    """The scale of the shades."""
    y = canvas.height + 14
    ramp = np.linspace(0, scale, 64)[None]
    canvas.image(0, y, 160, 10, Raster(ramp, "", "", ""), ramp / scale)
    canvas.text(0, y + 24, "0", 11, fill=canvas.theme.muted)
    canvas.text(160, y + 24, f"{scale:.3g}", 11, "end", canvas.theme.muted)


# Cells


class Cells(NamedTuple):
    """Where a table was drawn."""

    right: float  # of its numbers
    bottom: float
    middle: float  # the height of a sign beside it
    ys: tuple[float, ...]  # the centre of each row shown
    end: float  # the caption may be wider than the numbers


def cells(
    canvas: Canvas, x: float, y: float, table: Table, *, row: int | None = None, column: int | None = None
) -> Cells:  # fmt: skip
    """Draw a table with its upper left corner at (x, y); a row or column can be highlighted."""
    theme = canvas.theme
    rows, columns = (
        next(elisions(count, named=bool(words) or count <= _UNELIDED))
        for count, words in zip(table.values.shape, (table.rows, table.columns), strict=True)
    )
    texts = _texts(table, rows, columns)
    labels = [shorten(table.rows[r], _LABEL_WIDTH, _FONT) for r in rows if r is not None] if table.rows else []
    left = x + (max(measure(label, _FONT, bold=row is not None) for label in labels) + 8 if labels else 0)
    top = y + _caption(canvas, left, y, table)
    widths = _widths(table, columns, texts)
    top += 20 if table.columns else 0
    xs = tuple(float(left + sum(widths[:n]) + w / 2) for n, w in enumerate(widths))
    heights = [_CELL_HEIGHT if r is not None else _GAP for r in rows]
    ys = tuple(float(top + sum(heights[:n]) + h / 2) for n, h in enumerate(heights))
    for j, c in enumerate(columns if table.columns else ()):
        word = "…" if c is None else shorten(table.columns[c], min(_HEADER_WIDTH, widths[j]), _FONT)
        highlighted = c is not None and c == column
        canvas.text(
            xs[j], top - 7, word, _FONT, "middle", theme.accent if highlighted else "", bold=highlighted,
            title="" if c is None else in_full(table.columns[c]),
        )  # fmt: skip
    colours = theme.heat(_shares(table))
    for i, r in enumerate(rows):
        if table.rows:
            highlighted = r is not None and r == row
            word = "⋮" if r is None else shorten(table.rows[r], _LABEL_WIDTH, _FONT)
            canvas.text(
                left - 8, ys[i] + 4.5, word, _FONT, "end", theme.accent if highlighted else "", bold=highlighted,
                title="" if r is None else in_full(table.rows[r]),
            )  # fmt: skip
        for j, c in enumerate(columns):
            if r is None or c is None:
                sign = "⋱" if r is None and c is None else "⋮" if r is None else "…"
                canvas.text(xs[j], ys[i] + 4.5, sign, _FONT, "middle", theme.muted)
                continue
            colour = colours[r, c]
            canvas.rect(
                xs[j] - widths[j] / 2 + 0.5, ys[i] - _CELL_HEIGHT / 2 + 0.5, widths[j] - 1, _CELL_HEIGHT - 1,
                rgb(colour), rx=2, title=_tooltip(table, r, c), data_mark="", data_row=r, data_column=c,
            )  # fmt: skip
            ink = theme.ink_on(colour)
            canvas.text(xs[j], ys[i] + 4.5, texts[r, c], _SMALL, "middle", ink, pointer_events="none")
    bottom, right = top + sum(heights), left + sum(widths)
    for x, inward in ((left - 2, 5), (right + 2, -5)):  # brackets
        d = f"M{x + inward:.1f} {top - 2:.1f}H{x:.1f}V{bottom + 2:.1f}H{x + inward:.1f}"
        canvas.path(d, theme.muted, 1.4)
    canvas.reach(right + 3, bottom + 3)
    frame: dict[str, Any] = {"stroke": theme.accent, "stroke_width": 2.5, "rx": 3}
    if row is not None and row in rows:
        y = ys[rows.index(row)] - _CELL_HEIGHT / 2 - 1
        canvas.rect(left - 1, y, right - left + 2, _CELL_HEIGHT + 2, **frame)
    if column is not None and column in columns:
        at = columns.index(column)
        canvas.rect(xs[at] - widths[at] / 2 - 1, top - 1, widths[at] + 2, bottom - top + 2, **frame)
    caption = max(measure(table.name, 14, bold=True) + 6 + measure(table.formula, 14), measure(table.shape, 11))
    return Cells(right, bottom, (top + bottom) / 2, ys, max(right, left + caption))


def strip(canvas: Canvas, x: float, y: float, numbers: NDArray[np.floating], scale: float) -> float:
    """A vector as a row of at most 5 small cells without numbers, its middle elided; returns the width."""
    size, count = 14.0, len(numbers)
    shown: list[int | None] = [*range(count)] if count <= 5 else [0, 1, 2, None, count - 2, count - 1]
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


def symbol(canvas: Canvas, x: float, y: float, letter: str, word: str) -> None:
    """A letter with a word as its subscript, as in the formulas, with its middle at x: "z" with "I"."""
    canvas.text(x, y, letter, 14, "middle", italic=True, sub=shorten(word, 70, 0.7 * 14), title=visible(word, 400))


def _texts(table: Table, rows: Sequence[int | None], columns: Sequence[int | None]) -> NDArray[np.object_]:
    """The text of each cell; the number of digits depends only on the numbers shown."""
    at = np.ix_(*([place for place in axis if place is not None] for axis in (rows, columns)))
    shown = table.values[at].ravel()
    texts = np.full(table.values.shape, "", dtype=object)
    written = [percent(share) for share in shown.tolist()] if table.shares else formatted(shown)
    texts[at] = np.array(written, dtype=object).reshape(table.values[at].shape)
    return texts


def _shares(table: Table) -> NDArray[np.floating]:
    """The numbers scaled to -1 … 1, for their colours."""
    if table.shares:
        return table.values
    finite = np.abs(table.values[np.isfinite(table.values)])
    # Only half of the scale, so that the numbers stay legible.
    scaled = table.values / (2 * (float(finite.max(initial=0.0)) or 1.0))
    return np.where(np.isinf(table.values), np.sign(table.values) * 0.5, scaled)


def _widths(table: Table, columns: Sequence[int | None], texts: NDArray[np.object_]) -> list[float]:
    widths = []
    for c in columns:
        if c is None:
            widths.append(_GAP)
            continue
        number = max(measure(text, _SMALL) for text in texts[:, c] if text) + 14
        word = measure(shorten(table.columns[c], _HEADER_WIDTH, _FONT), _FONT) + 8 if table.columns else 0.0
        widths.append(max(number, word, 34.0))
    return widths


def _tooltip(table: Table, row: int, column: int) -> str:
    value = table.values[row, column]
    number = percent(float(value)) if table.shares else formatted(np.array([value]))[0]
    names = [
        isolated(words[place]) if words else str(place + 1)
        for words, place in ((table.rows, row), (table.columns, column))
    ]
    return f"{table.name and table.name + ': '}{names[0]} → {names[1]}: {number}"


def _caption(canvas: Canvas, x: float, y: float, table: Table) -> float:
    """The name, formula and shape above a table; returns their height."""
    height = 0.0
    if table.name or table.formula:
        name, _, name_sub = table.name.partition("_")  # W_Q
        formula, _, formula_sub = table.formula.partition("_")
        canvas.text(x, y + 13, name, 14, bold=True, sub=name_sub)
        offset = measure(table.name, 14, bold=True) + 6 if table.name else 0
        canvas.text(x + offset, y + 13, formula, 14, sub=formula_sub)
        height += 20
    if table.shape:
        canvas.text(x, y + height + 11, table.shape, 11, fill=canvas.theme.muted)
        height += 18
    return height + (2 if height else 0)


# Arithmetic

_STEPS_WIDTH = 1080.0  # pixels until a new line of tables begins
_TERMS = 10  # of a sum: of more than 11 words, only the 10 with the largest weights are drawn
_TERMS_PER_LINE = 5
_LINE_HEIGHT = 52.0  # of a sum


def calculation(
    sections: Sequence[tuple[str, Sequence[Table]]],
    *,
    words: tuple[str, ...],
    queries: NDArray[np.float64],
    keys: NDArray[np.float64],
    weights: NDArray[np.float64],
    values: NDArray[np.float64],
    text: Callable[[int], Text],
    cell: tuple[int, int] | None = None,
    title: str = "",
) -> Picture:
    """Sentences with the matrices they are about, one score (`cell`) term by term, and each output as a sum.

    >>> eye = np.eye(1)
    >>> picture = calculation(
    ...     [("A word.", [Table(eye, "X")])],
    ...     words=("I",), queries=eye, keys=eye, weights=eye, values=eye, text=lambda width: Text("X"),
    ... )
    >>> "A word." in picture.to_svg()
    True
    """
    if cell is None:  # the word that looks most at another word
        others = np.nan_to_num(weights) - 2 * np.eye(len(weights))
        cell = divmod(int(others.argmax()), len(weights))
    row, column = cell
    if not (0 <= row < len(words) and 0 <= column < len(words)):
        raise InputError(f"cell must be (row, column), both from 0 to {len(words) - 1}. Got {(row, column)}.")

    def draw(canvas: Canvas) -> None:
        y = 0.0
        for sentence, tables in sections:
            canvas.text(0, y + 14, sentence, 15, italic=True)
            x, y, bottom = 0.0, y + 30, 0.0
            for n, table in enumerate(tables):  # side by side, in as many lines as they need
                width = cells(Canvas(canvas.theme), 0, 0, table).end
                if n and x + width > _STEPS_WIDTH:
                    x, y = 0.0, bottom + 22
                bottom = max(bottom, cells(canvas, x, y, table).bottom)
                x += width + 34
            y = bottom + 34
        canvas.text(0, y + 4, "One score, term by term:", 15, italic=True)
        _product_terms(canvas, 0, y + 18, queries[row], keys[column], (words[row], words[column]))
        y = canvas.height + 32
        canvas.text(0, y, "Each word's output:", 15, italic=True)
        shown = range(len(words)) if len(words) <= 12 else [*range(6), *range(len(words) - 5, len(words))]
        _mixture_lines(canvas, 0, y + 14, weights, values, words, shown)

    numbers = {table.name: table.values for _, tables in sections for table in tables}
    return Picture("steps", numbers, draw, text, title, "", words)


def dot(
    left: NDArray[np.floating],
    right: NDArray[np.floating],
    words: tuple[str, str],
    *,
    letters: tuple[str, str] = ("q", "k"),
    title: str = "",
    caption: str = "",
) -> Picture:
    """The score of a query and a key: their products, one for each dimension, and the sum.

    >>> print(dot(np.array([1.0, 2.0]), np.array([3.0, 0.5]), ("I", "am")))
    q("I") · k("am") = 1 × 3 + 2 × 0.5 = 4
    """
    a, b = (
        as_numbers(letter, vector, ("d",)).astype(np.float64)
        for letter, vector in zip(letters, (left, right), strict=True)
    )
    if a.shape != b.shape:
        raise ShapeError(f"{' and '.join(letters)} must have the same d. Got {len(a)} and {len(b)}.")
    names = as_words("words", words, 2, "two vectors")

    def draw(canvas: Canvas) -> None:
        _product_terms(canvas, 0, 0, a, b, (names[0], names[1]), letters)

    def text(room: int) -> Text:
        terms = " · ".join(f'{letter}("{visible(word)}")' for letter, word in zip(letters, names, strict=True))
        return Text(f"{terms} = {_sum(a, b)}")

    return Picture("dot", dict(zip(letters, (a, b), strict=True)), draw, text, title, caption, names)


def _product_terms(
    canvas: Canvas, x: float, y: float, left: NDArray[np.float64], right: NDArray[np.float64],
    words: tuple[str, str], letters: tuple[str, str] = ("q", "k"),
) -> None:  # fmt: skip
    """Two vectors, their products below them, and the sum of the products."""
    names = tuple(f"{letter}  {word}" for letter, word in zip(letters, words, strict=True))
    table = Table(np.stack([left, right, left * right]), "", rows=(*names, "product"))
    where = cells(canvas, x, y, table, row=2)
    total = formatted(np.array([float(left @ right)]))[0]
    canvas.text(where.right + 14, where.ys[2] + 5, "sum:", 14, fill=canvas.theme.muted)
    end = where.right + 24 + measure("sum:", 14)
    pair = shorten(", ".join(words), 140, 10)
    canvas.text(end, where.ys[2] + 5, "s", 15, italic=True, sub=pair)
    end += measure("s", 15) + measure(pair, 10.5) + 6
    canvas.text(end, where.ys[2] + 5, f"= {total}", 15, bold=True)
    canvas.reach(end + measure(f"= {total}", 15, bold=True), where.bottom)


def _sum(left: NDArray[np.float64], right: NDArray[np.float64]) -> str:
    shown = range(len(left)) if len(left) <= 6 else (0, 1, len(left) - 1)
    a, b = formatted(left[list(shown)]), formatted(right[list(shown)])
    terms = [f"{p} × {q}" for p, q in zip(a, b, strict=True)]
    if len(left) > 6:
        terms.insert(2, "…")
    return " + ".join(terms) + f" = {formatted(np.array([float(left @ right)]))[0]}"


def mixture(
    weights: NDArray[np.floating],
    values: NDArray[np.floating],
    words: Iterable[str] | None = None,
    *,
    pick: int | str | Sequence[int | str] | None = None,
    title: str = "",
    caption: str = "",
) -> Picture:
    """Each output as a sum: weights (words, words) times values (words, d), for all words or the picked words.

    >>> print(mixture(np.array([[0.9, 0.1], [0.5, 0.5]]), np.eye(2), ["I", "am"], pick="I"))
    z("I") = 90 % v("I") + 10 % v("am")
    """
    shares = as_weights("weights", weights, ("words", "words")).astype(np.float64)
    vectors = bounded("values", as_numbers("values", values, ("words", "d"))).astype(np.float64)
    if shares.shape != (len(vectors), len(vectors)):
        raise ShapeError(
            f"weights must be (words, words) for values (words, d): {(len(vectors),) * 2}. Got {shares.shape}."
        )
    names = as_words("words", words, len(vectors), "values' rows")
    rows = places("pick", pick, names) or tuple(range(len(shares)))
    labels = told_apart(names)

    def draw(canvas: Canvas) -> None:
        _mixture_lines(canvas, 0, 0, shares, vectors, labels, rows)

    def text(room: int) -> Text:
        if len(rows) == len(names):
            return mixtures(labels, shares, room)
        return Text("\n").join(made_of(row, labels, shares[row], room) for row in rows)

    return Picture("mixture", {"weights": shares, "values": vectors}, draw, text, title, caption, names)


def _mixture_lines(
    canvas: Canvas, x: float, y: float, weights: NDArray[np.float64], values: NDArray[np.float64],
    words: Sequence[str], rows: Sequence[int],
) -> None:  # fmt: skip
    """A line of terms for each row, below (x, y)."""
    output = weights @ values
    scale = largest(np.abs(np.concatenate([values, output])))
    named = len(words) if len(words) <= _TERMS + 1 else _TERMS
    for row in rows:
        width = strip(canvas, x, y, output[row], scale)
        symbol(canvas, x + width / 2, y + 32, "z", words[row])
        at = x + width + 10
        terms = np.argsort(-np.nan_to_num(weights[row]), kind="stable")[:named]
        for n, place in enumerate(sorted(terms.tolist())):
            if n and n % _TERMS_PER_LINE == 0:
                at, y = x + width + 10, y + _LINE_HEIGHT
            canvas.text(at + 8, y + 13, "=" if n == 0 else "+", 17, "middle", canvas.theme.muted)
            share = float(weights[row, place])
            colour = canvas.theme.heat(np.array(share))
            canvas.rect(at + 20, y - 1, 54, 18, rgb(colour), rx=9, stroke=canvas.theme.faint, stroke_width=0.6)
            canvas.text(at + 47, y + 12.5, percent(share), 12, "middle", canvas.theme.ink_on(colour))
            strip(canvas, at + 80, y, values[place], scale)
            symbol(canvas, at + 80 + width / 2, y + 32, "v", words[place])
            at += 96 + width
        others = float(np.delete(weights[row], terms).sum())
        if len(terms) < len(words) and percent(others) != "0 %":
            canvas.text(
                at + 8, y + 13, f"+ {percent(others)} of {len(words) - len(terms)} others", 12, fill=canvas.theme.muted
            )
        y += _LINE_HEIGHT
    canvas.reach(0, y - 8)
