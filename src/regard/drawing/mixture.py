"""`mixture`: what an output is made of, as a sum of values in their shares."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray
from rich.text import Text

from regard.drawing.arguments import as_numbers, as_words, places
from regard.drawing.cells import strip, symbol
from regard.drawing.picture import Picture
from regard.drawing.svg import Canvas, rgb
from regard.drawing.terminal import made_of, mixtures, percent

__all__ = ["mixture", "mixture_lines"]

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
