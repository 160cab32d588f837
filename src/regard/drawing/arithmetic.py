"""`calculation`, `dot` and `mixture`: self-attention in numbers: all of it, one score, or each output as a sum."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray
from rich.text import Text

from regard.drawing.arguments import as_numbers, as_weights, as_words, bounded, largest, places
from regard.drawing.matrices import cells, strip, symbol
from regard.drawing.picture import Picture
from regard.drawing.svg import Canvas, measure, rgb, shorten
from regard.drawing.terminal import Table, formatted, made_of, mixtures, percent, told_apart, visible
from regard.errors import InputError, ShapeError

__all__ = ["calculation", "dot", "mixture"]

_LINE_WIDTH = 1080.0  # pixels until a new line of tables begins
_TERMS = 10  # of a sum: where more than one word would be left over, only those with the largest weights are drawn
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
    row, column = _strongest_pair(weights) if cell is None else cell
    if not (0 <= row < len(words) and 0 <= column < len(words)):
        raise InputError(f"cell must be (row, column), both from 0 to {len(words) - 1}. Got {(row, column)}.")

    def draw(canvas: Canvas) -> None:
        y = 0.0
        for sentence, tables in sections:
            canvas.text(0, y + 14, sentence, 15, italic=True)
            y = _side_by_side(canvas, y + 30, tables) + 34
        canvas.text(0, y + 4, "One score, term by term:", 15, italic=True)
        _product_terms(canvas, 0, y + 18, queries[row], keys[column], (words[row], words[column]))
        y = canvas.height + 32
        canvas.text(0, y, "Each word's output:", 15, italic=True)
        shown = range(len(words)) if len(words) <= 12 else [*range(6), *range(len(words) - 5, len(words))]
        _mixture_lines(canvas, 0, y + 14, weights, values, words, shown)

    numbers = {table.name: table.values for _, tables in sections for table in tables}
    return Picture("steps", numbers, draw, text, title, "", words)


def _strongest_pair(weights: NDArray[np.float64]) -> tuple[int, int]:
    """The word that looks most at another word, and that other word."""
    others = np.nan_to_num(weights) - 2 * np.eye(len(weights))
    row, column = divmod(int(others.argmax()), len(weights))
    return row, column


def _side_by_side(canvas: Canvas, y: float, tables: Sequence[Table]) -> float:
    """Tables side by side, in as many lines as they need; returns their bottom."""
    x = bottom = 0.0
    for n, table in enumerate(tables):
        width = cells(Canvas(canvas.theme), 0, 0, table).end
        if n and x + width > _LINE_WIDTH:
            x, y = 0.0, bottom + 22
        where = cells(canvas, x, y, table)
        bottom = max(bottom, where.bottom)
        x += width + 34
    return bottom


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
    """Each output as a sum: weights (words, words) times values (words, d), for all words or those picked.

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
        symbol(canvas, x + width / 2, y + 32, "z", words[row], "middle")
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
            symbol(canvas, at + 80 + width / 2, y + 32, "v", words[place], "middle")
            at += 96 + width
        others = float(np.delete(weights[row], terms).sum())
        if len(terms) < len(words) and percent(others) != "0 %":
            canvas.text(
                at + 8, y + 13, f"+ {percent(others)} of {len(words) - len(terms)} others", 12, fill=canvas.theme.muted
            )
        y += _LINE_HEIGHT
    canvas.reach(0, y - 8)
