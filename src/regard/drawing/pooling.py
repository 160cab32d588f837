"""Pooling: a large array as a small one of means, names for its bins, and the same as shaded text."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from rich.cells import cell_len
from rich.style import Style
from rich.text import Text

from regard.drawing.arguments import largest
from regard.drawing.terminal import heat, padded, visible

__all__ = ["pooled", "pooling_note", "shaded", "spans"]

_SHADES = " ·░▒▓█"


def pooled(values: NDArray[np.floating], rows: int, columns: int) -> NDArray[np.floating]:
    """The last two axes in at most this many bins of even size: bin n of N starts at n · tokens // N.

    >>> pooled(np.arange(8.0).reshape(2, 4), 2, 2).tolist()
    [[0.5, 2.5], [4.5, 6.5]]
    """
    for axis, bins in ((-2, rows), (-1, columns)):
        count = values.shape[axis]
        if count > bins:
            edges = np.arange(bins + 1) * count // bins
            sizes = np.diff(edges).astype(values.dtype)
            summed = np.add.reduceat(values, edges[:-1], axis=axis)
            values = summed / (sizes[:, None] if axis == -2 else sizes)
    return values


def spans(words: Sequence[str], bins: int) -> list[str]:
    """Names for the bins: a word, or the first and the last word.

    >>> spans(("a", "dog", "ate", "it"), 2), spans(("a", "dog"), 2)
    (['a … dog', 'ate … it'], ['a', 'dog'])
    """
    if len(words) <= bins:
        return [visible(word, 60) for word in words]
    edges = [n * len(words) // bins for n in range(bins + 1)]
    ends = [(visible(words[a], 20), visible(words[b - 1], 20)) for a, b in pairwise(edges)]
    return [first if first == last else f"{first} … {last}" for first, last in ends]


def pooling_note(shape: tuple[int, ...], bins: tuple[int, ...]) -> str:
    """What to say below a picture of weights (rows, columns) that were pooled.

    >>> pooling_note((200, 300), (64, 64))
    'Each cell is the mean of about 3 × 5 weights.'
    """
    return f"Each cell is the mean of about {shape[0] / bins[0]:.0f} × {shape[1] / bins[1]:.0f} weights."


def shaded(values: NDArray[np.floating], rows: Sequence[str], width: int, lines: int = 32) -> Text:
    """Two characters for each number, darker for larger ones, pooled to fit; legible in a log file too.

    >>> print(shaded(np.array([[1.0, 0.0], [0.5, 0.5]]), ["a", "b"], 80).plain)
    a ██
    b ▒▒▒▒
    """
    bins = pooled(values, min(len(values), lines), max((width - 18) // 2, 1))
    unpooled = len(bins) == len(rows)
    labels = [visible(rows[n if unpooled else n * len(rows) // len(bins)]) for n in range(len(bins))]
    indent = max(map(cell_len, labels))
    scale = largest(bins)
    drawn = []
    for label, row in zip(labels, bins, strict=True):
        line = Text.assemble((padded(label, indent) + " ", "cyan"))
        for share in (row / scale).tolist():
            sign = "?" if np.isnan(share) else _SHADES[min(int(np.ceil(share * 5 - 1e-9)), 5)]
            colour = heat(share).bgcolor  # a solid cell in colour; without colour, the character is the shade
            line.append(2 * sign, Style(color=colour, bgcolor=colour))
        line.rstrip()
        drawn.append(line)
    return Text("\n").join(drawn)
