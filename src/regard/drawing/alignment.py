"""`alignment`: a translation below its source, each of its words joined to what it was made from."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray
from rich.text import Text

from regard.drawing.arguments import as_numbers, as_words
from regard.drawing.lines import lines
from regard.drawing.picture import Picture
from regard.drawing.terminal import percent, visible

__all__ = ["alignment"]


def alignment(
    weights: NDArray[np.floating], source: Iterable[str], target: Iterable[str], *, title: str = "", caption: str = ""
) -> Picture:
    """Cross-attention (target words, source words) as lines between a sentence and its translation.

    >>> print(alignment(np.array([[0.9, 0.1], [0.2, 0.8]]), ["a", "dog"], ["un", "chien"]))
    un    ← a 90 %
    chien ← dog 80 %, a 20 %
    """
    shares = as_numbers("weights", weights, ("target words", "source words"))
    above = as_words("source", source, shares.shape[1], "weights' columns")
    below = as_words("target", target, shares.shape[0], "weights' rows")
    drawn = lines(shares, below, above, layout="rows", title=title, caption=caption)

    def text(room: int) -> Text:
        indent = max(Text(visible(word)).cell_len for word in below)
        said = []
        for word, row in zip(below, shares, strict=True):
            order = np.argsort(-np.nan_to_num(row), kind="stable")[:3]
            best = [f"{visible(above[n])} {percent(float(row[n]))}" for n in order if n == order[0] or row[n] >= 0.15]
            label = visible(word)
            line = Text.assemble((label + " " * (indent - Text(label).cell_len), "cyan"), " ← ", ", ".join(best))
            line.truncate(room, overflow="ellipsis")
            said.append(line)
        return Text("\n").join(said)

    return Picture("alignment", {"weights": shares}, drawn.draw, text, title, drawn.caption, (*below, *above))
