"""`calculation`: all of self-attention from top to bottom, every matrix of it with its words and its dimensions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from rich.text import Text

from regard.drawing.cells import cells
from regard.drawing.dot import product_terms
from regard.drawing.mixture import mixture_lines
from regard.drawing.picture import Picture
from regard.drawing.svg import Canvas
from regard.drawing.terminal import Table
from regard.errors import InputError

__all__ = ["calculation"]

_WIDE = 1080.0


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
    """Sentences with the matrices they are about, one score unfolded term by term, and each output in per cent.

    >>> eye = np.eye(1)
    >>> seen = calculation(
    ...     [("A word.", [Table(eye, "X")])],
    ...     words=("I",), queries=eye, keys=eye, weights=eye, values=eye, text=lambda width: Text("X"),
    ... )
    >>> "A word." in seen.to_svg()
    True
    """
    row, column = _telling(weights) if cell is None else cell
    if not (0 <= row < len(words) and 0 <= column < len(words)):
        raise InputError(f"cell must be (row, column), both from 0 to {len(words) - 1}. Got {(row, column)}.")

    def draw(canvas: Canvas) -> None:
        y = 0.0
        for sentence, tables in sections:
            canvas.text(0, y + 14, sentence, 15, italic=True)
            y = _abreast(canvas, y + 30, tables) + 34
        canvas.text(0, y + 4, "One score, term by term:", 15, italic=True)
        product_terms(canvas, 0, y + 18, queries[row], keys[column], (words[row], words[column]))
        y = canvas.height + 32
        canvas.text(0, y, "Each word's output:", 15, italic=True)
        shown = range(len(words)) if len(words) <= 12 else [*range(6), *range(len(words) - 5, len(words))]
        mixture_lines(canvas, 0, y + 14, weights, values, words, shown)

    numbers = {table.name: table.values for _, tables in sections for table in tables}
    return Picture("steps", numbers, draw, text, title, "", words)


def _telling(weights: NDArray[np.float64]) -> tuple[int, int]:
    """The word that looks most at another one, and that other one."""
    others = np.nan_to_num(weights) - 2 * np.eye(len(weights))
    row, column = divmod(int(others.argmax()), len(weights))
    return row, column


def _abreast(canvas: Canvas, y: float, tables: Sequence[Table]) -> float:
    """Tables side by side, in as many lines as the width takes; gives back where they end."""
    x = bottom = 0.0
    for n, table in enumerate(tables):
        wide = cells(Canvas(canvas.theme), 0, 0, table).end
        if n and x + wide > _WIDE:
            x, y = 0.0, bottom + 22
        where = cells(canvas, x, y, table)
        bottom = max(bottom, where.bottom)
        x += wide + 34
    return bottom
