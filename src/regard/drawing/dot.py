"""`dot`: one score, unfolded term by term."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from rich.text import Text

from regard.drawing.arguments import as_numbers
from regard.drawing.cells import cells
from regard.drawing.picture import Picture
from regard.drawing.svg import Canvas, measure, shorten
from regard.drawing.terminal import Table, formatted, visible

__all__ = ["dot", "product_terms"]


def dot(
    left: NDArray[np.floating],
    right: NDArray[np.floating],
    words: tuple[str, str],
    *,
    letters: tuple[str, str] = ("q", "k"),
    title: str = "",
    caption: str = "",
) -> Picture:
    """The score of a query and a key: their products, one for each dimension, and the sum of them.

    >>> print(dot(np.array([1.0, 2.0]), np.array([3.0, 0.5]), ("I", "am")))
    q("I") · k("am") = 1 × 3 + 2 × 0.5 = 4
    """
    a, b = (
        as_numbers(letter, vector, ("d",)).astype(np.float64)
        for letter, vector in zip(letters, (left, right), strict=True)
    )

    def draw(canvas: Canvas) -> None:
        product_terms(canvas, 0, 0, a, b, words, letters)

    def text(room: int) -> Text:
        names = " · ".join(f'{letter}("{visible(word)}")' for letter, word in zip(letters, words, strict=True))
        return Text(f"{names} = {_sum(a, b)}")

    return Picture("dot", dict(zip(letters, (a, b), strict=True)), draw, text, title, caption, words)


def product_terms(
    canvas: Canvas, x: float, y: float, left: NDArray[np.float64], right: NDArray[np.float64],
    words: tuple[str, str], letters: tuple[str, str] = ("q", "k"),
) -> None:  # fmt: skip
    """Two vectors, their products below them, and the sum of these."""
    names = tuple(f"{letter}  {word}" for letter, word in zip(letters, words, strict=True))
    table = Table(np.stack([left, right, left * right]), "", rows=(*names, "product"))
    where = cells(canvas, x, y, table, row=2)
    total = formatted(np.array([float(left @ right)]))[0]
    canvas.text(where.right + 14, where.ys[2] + 5, "sum:", 14, fill=canvas.theme.muted)
    at = where.right + 24 + measure("sum:", 14)
    canvas.text(at, where.ys[2] + 5, "s", 15, italic=True, sub=shorten(", ".join(words), 140, 10))
    at += measure("s", 15) + measure(shorten(", ".join(words), 140, 10), 10.5) + 6
    canvas.text(at, where.ys[2] + 5, f"= {total}", 15, bold=True)
    canvas.reach(at + measure(f"= {total}", 15, bold=True), where.bottom)


def _sum(left: NDArray[np.float64], right: NDArray[np.float64]) -> str:
    places_ = range(len(left)) if len(left) <= 6 else (0, 1, len(left) - 1)
    a, b = formatted(left[list(places_)]), formatted(right[list(places_)])
    terms = [f"{p} × {q}" for p, q in zip(a, b, strict=True)]
    if len(left) > 6:
        terms.insert(2, "…")
    return " + ".join(terms) + f" = {formatted(np.array([float(left @ right)]))[0]}"
