"""Pooling: a large array as a small one, each number the mean of a block, and what its places are called."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from regard.drawing.terminal import visible

__all__ = ["pooled", "spans"]


def pooled(values: NDArray[np.floating], rows: int, columns: int) -> NDArray[np.floating]:
    """The last two axes in at most so many bins, as even as can be: bin n of N starts at place n · tokens // N.

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
    """What the bins are called: a word, or from the first word to the last.

    >>> spans(("a", "dog", "ate", "it"), 2), spans(("a", "dog"), 2)
    (['a … dog', 'ate … it'], ['a', 'dog'])
    """
    if len(words) <= bins:
        return [visible(word, 60) for word in words]
    edges = [n * len(words) // bins for n in range(bins + 1)]
    ends = [(visible(words[a], 20), visible(words[b - 1], 20)) for a, b in pairwise(edges)]
    return [first if first == last else f"{first} … {last}" for first, last in ends]
