"""`mixture`: what an output is made of, as a sum of values in their shares; `dot`: a score, term by term."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray
from rich.text import Text

from regard.drawing.arguments import as_numbers, as_words, places
from regard.drawing.cells import cells, strip
from regard.drawing.picture import Picture
from regard.drawing.svg import Canvas, measure, rgb, shorten
from regard.drawing.terminal import Table, formatted, made_of, mixtures, percent, visible

__all__ = ["dot", "mixture", "mixture_lines", "product_terms", "symbol"]

_TERMS = 10  # of more words only the greatest are drawn
_ABREAST = 5
_LINE = 52.0


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
    shares = as_numbers("weights", weights, ("words", "words")).astype(np.float64)
    vectors = as_numbers("values", values, ("words", "d")).astype(np.float64)
    known = as_words("words", words, len(vectors), "values' rows")
    rows = places("pick", pick, known) or tuple(range(len(shares)))

    def draw(canvas: Canvas) -> None:
        mixture_lines(canvas, 0, 0, shares, vectors, known, rows)

    def text(room: int) -> Text:
        if len(rows) == len(known):
            return mixtures(known, shares, room)
        return Text("\n").join(made_of(row, known, shares[row], room) for row in rows)

    return Picture("mixture", {"weights": shares, "values": vectors}, draw, text, title, caption, known)


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


def symbol(canvas: Canvas, x: float, y: float, letter: str, word: str, anchor: str = "start", size: float = 14) -> None:
    """A letter with a word below it, as in the formulas: x with "I"."""
    canvas.text(x, y, letter, size, anchor, italic=True, sub=shorten(word, 70, 0.7 * size), title=visible(word, 400))


def mixture_lines(
    canvas: Canvas, x: float, y: float, weights: NDArray[np.float64], values: NDArray[np.float64],
    words: Sequence[str], rows: Sequence[int],
) -> None:  # fmt: skip
    """A line of terms for each row, below (x, y)."""
    output = weights @ values
    scale = float(np.nanmax(np.abs(np.concatenate([values, output])), initial=0.0)) or 1.0
    for row in rows:
        width = strip(canvas, x, y, output[row], scale)
        symbol(canvas, x + width / 2, y + 32, "z", words[row], "middle")
        at = x + width + 10
        terms = np.argsort(-np.nan_to_num(weights[row]), kind="stable")[:_TERMS]
        for n, place in enumerate(sorted(terms.tolist())):
            if n and n % _ABREAST == 0:
                at, y = x + width + 10, y + _LINE
            canvas.text(at + 8, y + 13, "=" if n == 0 else "+", 17, "middle", canvas.theme.muted)
            share = float(weights[row, place])
            paint = canvas.theme.heat(np.array(share))
            canvas.rect(at + 20, y - 1, 54, 18, rgb(paint), rx=9, stroke=canvas.theme.faint, stroke_width=0.6)
            canvas.text(at + 47, y + 12.5, percent(share), 12, "middle", canvas.theme.ink_on(paint))
            strip(canvas, at + 80, y, values[place], scale)
            symbol(canvas, at + 80 + width / 2, y + 32, "v", words[place], "middle")
            at += 96 + width
        others = float(np.delete(weights[row], terms).sum())
        if len(terms) < len(words) and percent(others) != "0 %":
            canvas.text(
                at + 8, y + 13, f"+ {percent(others)} of {len(words) - len(terms)} others", 12, fill=canvas.theme.muted
            )
        y += _LINE
    canvas.reach(0, y - 8)


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
