"""`set_layer`: self-attention as a layer from a set of vectors to a set of vectors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from rich.text import Text

from regard.drawing.arguments import as_numbers
from regard.drawing.cells import symbol
from regard.drawing.picture import Picture
from regard.drawing.svg import Canvas, measure, shorten
from regard.drawing.terminal import percent, visible
from regard.errors import ShapeError

__all__ = ["set_layer"]


def set_layer(
    words: Sequence[str], weights: NDArray[np.floating] | None = None, *, beside: bool = False, title: str = ""
) -> Picture:
    """Self-attention as a layer from a set of vectors to a set of vectors; `beside` a fully connected one.

    With weights (words, words), its inside is drawn: who looks at whom.

    >>> print(set_layer(["I", "am"], np.array([[0.9, 0.1], [0.5, 0.5]])))
    x(I), x(am) → self-attention → z(I), z(am)
      z(I) from x(I) 90 %, x(am) 10 %
      z(am) from x(I) 50 %, x(am) 50 %
    """
    known = tuple(words)
    if not known:
        raise ShapeError("words must be at least 1. Got none: nothing to draw.")
    shares = None if weights is None else as_numbers("weights", weights, ("words", "words"))

    def draw(canvas: Canvas) -> None:
        left = _connected(canvas) + 90 if beside else 0.0
        _set(canvas, left, known, shares)

    def text(room: int) -> Text:
        names = [visible(word) for word in known]
        lines = ["x → fully connected layer → h"] if beside else []
        ins, outs = (", ".join(f"{letter}({name})" for name in names) for letter in "xz")
        lines.append(f"{ins} → self-attention → {outs}")
        for name, row in zip(names, () if shares is None else shares.tolist(), strict=False):
            lines.append(
                f"  z({name}) from " + ", ".join(f"x({n}) {percent(w)}" for n, w in zip(names, row, strict=True))
            )
        return Text("\n".join(lines))

    return Picture("layer", {} if shares is None else {"weights": shares}, draw, text, title, "", known)


def _column(canvas: Canvas, x: float, y: float, letter: str, word: str) -> None:
    """A vector as a small upright box of cells."""
    for n in range(4):
        canvas.rect(x - 9, y + n * 13, 18, 13, canvas.theme.panel, stroke=canvas.theme.muted, stroke_width=1)
    if word:
        symbol(canvas, x, y + 70, letter, word, "middle")
    else:
        canvas.text(x, y + 70, letter, 14, "middle", italic=True)


def _connected(canvas: Canvas) -> float:
    """A fully connected layer: each number of one vector to each number of the next."""
    theme = canvas.theme
    canvas.text(0, 14, "fully connected layer", 14, bold=True)
    canvas.text(0, 32, "one vector to one vector", 12, fill=theme.muted)
    for a in range(4):
        for b in range(4):
            canvas.line(54, 96 + 26 * a, 156, 96 + 26 * b, theme.colour(0), 1.1, stroke_opacity=0.55)
    for x, letter in ((40, "x"), (170, "h")):
        for n in range(4):
            canvas.circle(x, 96 + 26 * n, 11, theme.panel, stroke=theme.muted)
        canvas.text(x, 226, letter, 15, "middle", italic=True)
    return 184.0


def _set(canvas: Canvas, left: float, words: tuple[str, ...], weights: NDArray[np.floating] | None) -> None:
    theme = canvas.theme
    step = max(80.0, max(measure(shorten(word, 110, 14), 14) for word in words) + 24)
    xs = [left + step * (n + 0.5) for n in range(len(words))]
    right = left + step * len(words)
    canvas.text(left, 14, "self-attention layer", 14, bold=True)
    canvas.text(left, 32, "a set of vectors to a set of as many", 12, fill=theme.muted)
    low, high = (320.0, 230.0) if weights is not None else (250.0, 190.0)
    top = 136.0
    canvas.rect(left, top, right - left, high - top + 40, "none", rx=8, stroke=theme.muted, stroke_width=1.3)
    if weights is None:
        canvas.text((left + right) / 2, (top + high + 40) / 2 + 5, "self-attention", 15, "middle")
    else:
        greatest = float(np.nanmax(weights))
        for row, column in np.argwhere(np.nan_to_num(weights) > 0):
            share = float(weights[row, column])
            a, b, middle = xs[row], xs[column], (top + high + 40) / 2
            canvas.path(
                f"M{a:.1f} {top:.1f}C{a:.1f} {middle:.1f} {b:.1f} {middle:.1f} {b:.1f} {high + 40:.1f}",
                theme.colour(int(row)), 10 * share / greatest, stroke_opacity=0.3 + 0.6 * share,
                title=f"{visible(words[row], 40)} → {visible(words[column], 40)}: {percent(share)}",
                data_mark="", data_row=row, data_column=column,
            )  # fmt: skip
    for n, (x, word) in enumerate(zip(xs, words, strict=True)):
        canvas.arrow(x, low - 26 if weights is not None else low + 0, x, high + 40, theme.muted)
        base = low - 22 if weights is not None else low + 4
        _column(canvas, x, base, "x", word)
        canvas.text(x, base + 94, shorten(word, step - 8, 14), 14, "middle", data_pick=f"column:{n}")
        canvas.arrow(x, top, x, top - 14, theme.muted)
        _column(canvas, x, top - 88, "z", word)
        canvas.reach(x, base + 100)
    canvas.reach(right, 0)
