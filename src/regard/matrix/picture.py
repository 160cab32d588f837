"""The picture of an attention matrix: a long input is pooled, and its matrix never stored."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from regard.drawing import Window, landscape, lines, matrix
from regard.drawing.arguments import as_words, chosen, pooling_note, spans
from regard.drawing.maps import landmarks
from regard.drawing.picture import Later
from regard.errors import InputError, OutOfRangeError, TooLargeError
from regard.support import threads

if TYPE_CHECKING:
    from torch import Tensor

    from regard.drawing import Picture
    from regard.matrix.lazy_matrix import LazyMatrix

_KINDS = ("lines", "matrix", "map")
_LINES, _MATRIX, _MAP = 32, 64, 192  # tokens up to which each kind is the default; cells of a map on a side
_MOST = 200  # words that lines can join
_WINDOW = 10  # exact weights of a map on a side


Words = Sequence[str] | None  # of the queries or of the keys, where they are known


def draw(
    A: LazyMatrix,
    words: Iterable[str] | None,
    kind: str | None = None,
    *,
    columns: Iterable[str] | None = None,
    pick: int | str | Sequence[int | str] | None = None,
    heads: Sequence[int] | None = None,
    window: tuple[int, int] | None = None,
    title: str = "",
) -> Picture:
    """Draw a matrix: see `AttentionMatrix.picture`.

    >>> import regard
    >>> long = regard.AttentionMatrix(torch.zeros(5000, 4), torch.zeros(5000, 4))
    >>> draw(long, None).numbers["pool"].shape
    (192, 192)
    """
    queries, keys = A.shape[-2:]
    size = max(queries, keys)
    kind = kind or ("lines" if size <= _LINES else "matrix" if size <= _MATRIX else "map")
    if kind not in _KINDS:
        raise InputError(f"kind must be one of {', '.join(map(repr, _KINDS))}. Got {kind!r}.")
    if any(count != 1 for count in A.shape[:-3]):
        raise InputError(f"a picture shows one matrix of the batch. Got {tuple(A.shape)}. Choose one: A.part[0].")
    one = A.part[(0,) * max(len(A.shape) - 3, 0)] if len(A.shape) > 3 else A
    left = None if words is None else as_words("words", words, queries, "queries")
    same = columns is None and queries == keys
    right = left if same else None if columns is None else as_words("columns", columns, keys, "keys")
    if pick is not None and kind != "lines":
        raise InputError(f"pick is for lines. Got kind = {kind!r}.")
    if window is not None and kind != "map":
        raise InputError(f"window is for a map. Got kind = {kind!r}.")
    with torch.no_grad():
        if kind == "map":
            return _map(one, left, right, heads, window, title)
        if kind == "matrix" and size > _MATRIX:
            return _pooled(one, left, right, heads, title)
        if size > _MOST:
            raise TooLargeError(
                f"lines can join at most {_MOST} words on a side. Got {queries} and {keys}. Choose a part, as in "
                f"A.part[..., :{_MOST}, :{_MOST}], or kind='map'."
            )
        weights = _numbers(one.to_dense())
    if kind == "lines":
        return lines(weights, left, right, pick=pick, heads=heads, title=title)
    return matrix(weights, left, right, heads=heads, title=title)


def _pooled(A: LazyMatrix, rows: Words, columns: Words, heads: Sequence[int] | None, title: str) -> Picture:
    pool, size = _numbers(A.pool(_MATRIX, _MATRIX)), A.shape[-2:]
    note = pooling_note((size[0], size[1]), (pool.shape[-2], pool.shape[-1]))
    left, right = spans(_words(rows, size[0]), pool.shape[-2]), spans(_words(columns, size[1]), pool.shape[-1])
    return matrix(pool, left, right, heads=heads, title=title, caption=note)


def _map(
    A: LazyMatrix, rows: Words, columns: Words, heads: Sequence[int] | None, start: tuple[int, int] | None, title: str
) -> Picture:
    queries, keys = A.shape[-2:]
    numbers = chosen(heads, A.shape[0], A.shape[0]) if len(A.shape) == 3 else None
    several = numbers is not None and len(numbers) > 1
    caption = "" if numbers is None else f"The mean of {len(numbers)} heads." if several else f"Head {numbers[0]}."
    window = None if start is None else _window(A, rows, columns, numbers, start)
    marks = landmarks([word.strip() for word in rows or ()])
    feed = A._feed(rows, columns, heads, title)
    pool: Later | NDArray[Any]
    if feed is None:
        pool = _mean(A.pool(_MAP, _MAP), numbers)  # at once: all ranks compute it, whatever each of them draws
    else:
        shape = min(_MAP, queries), min(_MAP, keys)
        pool = Later({"pool": shape}, lambda: {"pool": _pool_in_threads(A, numbers)})
    drawn = landscape(pool, (queries, keys), landmarks=marks, window=window, title=title, caption=caption)
    return replace(drawn, feed=feed)


def _pool_in_threads(A: LazyMatrix, heads: Sequence[int] | None) -> NDArray[Any]:
    # A sweep is many small steps. Threads that share them wait for each other where other processes need the cores.
    with torch.no_grad(), threads(math.prod(A.shape) * A._core.scores.query.shape[-1]):
        return _mean(A.pool(_MAP, _MAP), heads)


def _mean(weights: Tensor, heads: Sequence[int] | None) -> NDArray[Any]:
    """The mean of these heads; None: weights without an axis of heads."""
    numbers = _numbers(weights)
    return numbers if heads is None else numbers[list(heads)].mean(0)


def _window(
    A: LazyMatrix, words: Words, key_words: Words, heads: Sequence[int] | None, start: tuple[int, int]
) -> Window:
    """The exact weights from `start` on, of the mean of the heads."""
    (row, column), (queries, keys) = start, A.shape[-2:]
    if not (0 <= row < queries and 0 <= column < keys):
        raise OutOfRangeError(f"window must start inside of (queries, keys) = {(queries, keys)}. Got {start}.")
    rows = slice(row, min(row + _WINDOW, queries))
    columns = slice(column, min(column + _WINDOW, keys))
    weights = _mean(A.part[..., rows, columns].to_dense(), heads)
    return Window(start, weights, _words(words, queries)[rows], _words(key_words, keys)[columns])


def _words(words: Words, count: int) -> Sequence[str]:
    return [f"{n:,}" for n in range(count)] if words is None else words


def _numbers(tensor: Tensor) -> NDArray[Any]:
    return np.asarray(tensor.detach().to("cpu", torch.float64).numpy())
