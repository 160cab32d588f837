"""A matrix of many numbers as text: a shade for each, which reads in a log file too."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from rich.cells import cell_len
from rich.style import Style
from rich.text import Text

from regard.drawing.pooling import pooled
from regard.drawing.terminal import heat, visible

__all__ = ["shaded"]

_SHADES = " ·░▒▓█"


def shaded(values: NDArray[np.floating], rows: Sequence[str], width: int, lines: int = 32) -> Text:
    """Two characters for each number, the darker the greater; with more numbers than room, their means.

    >>> print(shaded(np.array([[1.0, 0.0], [0.5, 0.5]]), ["a", "b"], 80).plain)
    a ██
    b ▒▒▒▒
    """
    few = pooled(values, min(len(values), lines), max((width - 18) // 2, 1))
    whole = len(few) == len(rows)
    labels = [visible(rows[n if whole else n * len(rows) // len(few)]) for n in range(len(few))]
    indent = max(map(cell_len, labels))
    greatest = float(np.nanmax(few, initial=0.0)) or 1.0
    drawn = []
    for label, row in zip(labels, few, strict=True):
        line = Text.assemble((label + " " * (indent - cell_len(label)) + " ", "cyan"))
        for share in (row / greatest).tolist():
            sign = "?" if np.isnan(share) else _SHADES[min(int(np.ceil(share * 5 - 1e-9)), 5)]
            paint = heat(share).bgcolor  # in colour the cell is all of it; without, the sign is its shade
            line.append(2 * sign, Style(color=paint, bgcolor=paint))
        line.rstrip()
        drawn.append(line)
    return Text("\n").join(drawn)
