"""`bars`: named numbers, each as long as it is great."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from rich.text import Text

from regard.drawing.picture import Picture
from regard.drawing.svg import Canvas, measure, shorten
from regard.drawing.terminal import visible
from regard.errors import InputError, ShapeError

__all__ = ["bars"]

_WIDTH, _HEIGHT, _LABEL = 280.0, 18.0, 220.0
_CELLS = 24  # of the longest bar in a terminal


def bars(numbers: Mapping[str, float], *, title: str = "", caption: str = "") -> Picture:
    """Each name with its number as a bar, from 0.

    >>> print(bars({"a loop": 8.0, "matrix products": 1.0}, caption="milliseconds"))
    a loop           ━━━━━━━━━━━━━━━━━━━━━━━━ 8
    matrix products  ━━━ 1
    milliseconds
    """
    known = {str(name): float(number) for name, number in numbers.items()}
    if not known:
        raise ShapeError("bars needs at least one name with its number. Got none.")
    wrong = {name: number for name, number in known.items() if not 0 <= number < np.inf}
    if wrong:
        name, number = next(iter(wrong.items()))
        raise InputError(f"a bar must have a finite length of at least 0. Got {name!r}: {number}.")
    greatest = max(known.values()) or 1.0

    def draw(canvas: Canvas) -> None:
        theme = canvas.theme
        names = [shorten(name, _LABEL, 13) for name in known]
        left = max(measure(name, 13) for name in names) + 10
        for n, (name, (full, number)) in enumerate(zip(names, known.items(), strict=True)):
            top, long = n * (_HEIGHT + 8), number / greatest * _WIDTH
            canvas.text(left - 10, top + 13, name, 13, anchor="end", title=full)
            canvas.rect(left, top, long, _HEIGHT, fill=theme.colours[0], title=f"{full}: {number:,.4g}", rx=2)
            canvas.text(left + long + 6, top + 13, _said(number), 13, fill=theme.muted)

    def text(room: int) -> Text:
        names = [visible(name) for name in known]
        wide = max(map(len, names))
        lines = [
            f"{name.ljust(wide)}  {'━' * round(number / greatest * _CELLS)} {_said(number)}"
            for name, number in zip(names, known.values(), strict=True)
        ]
        return Text("\n".join(lines))

    every = {"numbers": np.array(list(known.values()))}
    return Picture("bars", every, draw, text, title, caption, tuple(known))


def _said(number: float) -> str:
    """Three digits, and those of a great number all."""
    return f"{number:,.0f}" if number >= 1000 else f"{number:.3g}"
