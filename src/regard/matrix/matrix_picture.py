"""An `AttentionMatrix` as a picture: what to compute for it, so that a long input is pooled and never stored."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from regard.drawing import Window, landscape, lines, matrix
from regard.drawing.arguments import as_words, chosen
from regard.drawing.maps import Pool, landmarks
from regard.drawing.matrices import pooling_note, spans
from regard.errors import InputError, OutOfRangeError, TooLargeError
from regard.support import threads

if TYPE_CHECKING:
    from torch import Tensor

    from regard.drawing import Picture
    from regard.drawing.viewer import Feed
    from regard.matrix.attention_matrix import AttentionMatrix

__all__ = ["draw"]

_KINDS = ("lines", "matrix", "map")
_LINES, _MATRIX, _MAP = 32, 64, 192  # tokens for which each is the first choice; cells of a map on a side
_MOST = 200  # words that lines can join
_WINDOW = 10


def draw(
    A: AttentionMatrix,
    words: Iterable[str] | None,
    kind: str | None,
    columns: Iterable[str] | None,
    pick: int | str | Sequence[int | str] | None,
    heads: Sequence[int] | None,
    window: tuple[int, int] | None,
    title: str,
) -> Picture:
    """What `AttentionMatrix.picture` gives.

    >>> import regard
    >>> long = regard.AttentionMatrix(torch.zeros(5000, 4), torch.zeros(5000, 4))
    >>> draw(long, None, None, None, None, None, None, "").numbers["pool"].shape
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


def _pooled(
    A: AttentionMatrix, left: tuple[str, ...] | None, right: tuple[str, ...] | None, heads: Sequence[int] | None,
    title: str,
) -> Picture:  # fmt: skip
    queries, keys = A.shape[-2:]
    pool = _numbers(A.pool(_MATRIX, _MATRIX))
    rows, columns = pool.shape[-2:]
    note = pooling_note((queries, keys), (rows, columns))
    names = [spans(_words(words, n), bins) for words, n, bins in ((left, queries, rows), (right, keys, columns))]
    return matrix(pool, names[0], names[1], heads=heads, title=title, caption=note)


def _map(
    A: AttentionMatrix, left: tuple[str, ...] | None, right: tuple[str, ...] | None, heads: Sequence[int] | None,
    window: tuple[int, int] | None, title: str,
) -> Picture:  # fmt: skip
    queries, keys = A.shape[-2:]
    some = chosen(heads, A.shape[0], A.shape[0]) if len(A.shape) == 3 else None
    said = "" if some is None else f"The mean of {len(some)} heads." if len(some) > 1 else f"Head {some[0]}."
    exact = None if window is None else _window(A, left, right, heads, window)
    marks = landmarks([word.strip() for word in left or ()])
    feed = _feed(A, left, right, heads, title)
    pool: Pool | NDArray[Any]
    if feed is None:
        pool = _mean_pool(A, some)  # at once: all ranks compute it together, whatever each of them draws
    else:
        pool = Pool((min(_MAP, queries), min(_MAP, keys)), lambda: _pool_in_threads(A, some))
    drawn = landscape(pool, (queries, keys), landmarks=marks, window=exact, title=title, caption=said)
    return replace(drawn, feed=feed)


def _pool_in_threads(A: AttentionMatrix, heads: Sequence[int] | None) -> NDArray[Any]:
    # A sweep is many small steps. Threads that share them wait for each other where other processes need the cores.
    with torch.no_grad(), threads(math.prod(A.shape) * A._core.scores.query.shape[-1]):
        return _mean_pool(A, heads)


def _mean_pool(A: AttentionMatrix, heads: Sequence[int] | None) -> NDArray[Any]:
    pool = _numbers(A.pool(_MAP, _MAP))
    return pool if heads is None else pool[list(heads)].mean(0)


def _feed(
    A: AttentionMatrix, left: tuple[str, ...] | None, right: tuple[str, ...] | None, heads: Sequence[int] | None,
    title: str,
) -> Feed | None:  # fmt: skip
    from regard.matrix.attention_matrix import AttentionMatrix  # here, for it imports this

    if not isinstance(A, AttentionMatrix):  # in shards: of those, no reader could ask for a part alone
        return None
    # `maps` builds on this room, and only a map that is drawn needs it: it is looked up by name.
    maps = import_module("regard.maps")
    feed: Feed = maps.MatrixFeed([maps.MapEntry.of(A, heads)], left, right, title=title)
    return feed


def _window(
    A: AttentionMatrix, left: tuple[str, ...] | None, right: tuple[str, ...] | None, heads: Sequence[int] | None,
    window: tuple[int, int],
) -> Window:  # fmt: skip
    (row, column), (queries, keys) = window, A.shape[-2:]
    if not (0 <= row < queries and 0 <= column < keys):
        raise OutOfRangeError(f"window must start inside of (queries, keys) = {(queries, keys)}. Got {window}.")
    rows = slice(row, min(row + _WINDOW, queries))
    columns = slice(column, min(column + _WINDOW, keys))
    weights = _numbers(A.part[..., rows, columns].to_dense())
    if weights.ndim == 3:
        weights = weights[list(chosen(heads, len(weights), len(weights)))].mean(0)
    names = [_words(words, n) for words, n in ((left, queries), (right, keys))]
    return Window((row, column), weights, names[0][rows], names[1][columns])


def _words(words: tuple[str, ...] | None, count: int) -> Sequence[str]:
    return [f"{n:,}" for n in range(count)] if words is None else words


def _numbers(tensor: Tensor) -> NDArray[Any]:
    return np.asarray(tensor.detach().to("cpu", torch.float64).numpy())
