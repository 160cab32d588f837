"""`Bins` of tokens; `Levels`: a long matrix averaged over bins of 32, 64, … tokens, from one sweep; `Sweeps` of them.

Deep in a map a few thousand weights are computed when the viewer requests them. The whole matrix of a long text takes
too long for that: it is swept once, band by band, and every coarser level is summed from the finest.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from regard.errors import OutOfRangeError

__all__ = ["FINEST", "Bins", "Levels", "Sweeps", "level_size"]

FINEST = 32  # tokens of a bin; finer bins are computed on request
_BINS = 4096  # on a side of the finest level, at most
_BAND = 64  # rows of bins swept at a time, at most
_WEIGHTS = 2**26  # computed for a band, at most
_KEPT = 2**29  # bytes of levels, of the choices of heads that were requested last
_TURN = threading.Lock()  # one sweep of this process computes at a time: a server has many maps and few cores
_PATIENCE = 1.0  # seconds that a sweep waits for other work, at most


@dataclass(frozen=True)
class Bins:
    """A range of tokens in nearly equal bins, the last of which may lie past the last token."""

    start: int
    stop: int  # not past the last token
    size: float  # tokens of a bin
    bins: int

    @property
    def tokens(self) -> int:
        """The number of tokens."""
        return self.stop - self.start

    @classmethod
    def cut(cls, name: str, span: tuple[int, int], bins: int, tokens: int) -> Bins:
        """Cut a range of a text with this many tokens into bins."""
        start, stop = span
        if not 0 <= start < tokens or not 1 <= bins <= stop - start:
            raise OutOfRangeError(
                f"{name} of a tile are a range (start, stop) that starts below {tokens}, in at most stop - start bins. "
                f"Got {span} in {bins}."
            )
        if stop > tokens and (stop - start) % bins:
            raise OutOfRangeError(
                f"{name} that reach past the last token, {tokens}, take bins of one size. Got {span} in {bins}."
            )
        return cls(start, min(stop, tokens), (stop - start) / bins, bins)

    def runs(self) -> Iterator[tuple[int, slice, int]]:
        """What `pool` can do at once: the first bin, the tokens counted from `start`, and the number of bins."""
        if self.tokens == round(self.size * self.bins):
            yield 0, slice(0, self.tokens), self.bins
            return
        size = int(self.size)
        whole = self.tokens // size
        if whole:
            yield 0, slice(0, whole * size), whole
        if whole * size < self.tokens:
            yield whole, slice(whole * size, self.tokens), 1

    def within(self, first: int, end: int) -> tuple[int, Bins]:
        """The bins that have tokens from `first` to before `end`, and the number of the first of them.

        >>> Bins(100, 200, 20, 5).within(130, 141)
        (1, Bins(start=120, stop=160, size=20, bins=2))
        """
        if self.size != int(self.size):
            return 0, self  # of unequal size: each has its place only beside all others
        size = int(self.size)
        low = min(max(first - self.start, 0) // size, self.bins)
        high = max(min(-(-(min(end, self.stop) - self.start) // size), self.bins), low)
        start = min(self.start + low * size, self.stop)
        return low, Bins(start, min(self.start + high * size, self.stop), self.size, high - low)


def level_size(queries: int, keys: int) -> int:
    """The number of tokens in a bin of the finest level: 32, 64, 128, …

    >>> level_size(1000, 1000), level_size(131_072, 5000), level_size(1_000_000, 1_000_000)
    (32, 32, 256)
    """
    size = FINEST
    while max(queries, keys) > _BINS * size:
        size *= 2
    return size


class Levels:
    """The mean of each bin at every level; rows that were not swept yet are NaN.

    `band(start, stop)` returns the mean of each bin of `size` × `size` tokens in some rows.

    >>> levels = Levels(100, 70, 32, lambda start, stop: np.full((-(-(stop - start) // 32), 3), 0.5))
    >>> while levels.done < 1:
    ...     levels.sweep()
    >>> levels.tile((0, 100), (0, 70), (2, 1)).tolist()
    [[0.5], [0.5]]
    """

    def __init__(self, queries: int, keys: int, size: int, band: Callable[[int, int], NDArray[np.float64]]):
        self.queries, self.keys, self.size = queries, keys, size
        self._band = band
        self._sweeping = threading.Lock()
        self._swept = 0  # rows, in tokens
        self._sums: list[NDArray[np.float32]] = []  # of each level, the finest first: the sum of each bin
        bins = -(-queries // size), -(-keys // size)
        while True:
            self._sums.append(np.zeros(bins, np.float32))
            if max(bins) <= 1:
                break
            bins = -(-bins[0] // 2), -(-bins[1] // 2)
        self._step = max(min(_BAND, _WEIGHTS // (keys * size)), 1) * size  # rows of a band

    @property
    def done(self) -> float:
        """The share of the rows that is swept."""
        return self._swept / self.queries

    @property
    def bytes(self) -> int:
        """The memory of all levels."""
        return sum(level.nbytes for level in self._sums)

    def sweep(self) -> None:
        """Add the next band of rows, if a band is left."""
        with self._sweeping:
            start, stop = self._swept, min(self._swept + self._step, self.queries)
            first, last = start // self.size, -(-stop // self.size)
            if start == stop:
                return
            counts = np.outer(_counts(start, stop, self.size), _counts(0, self.keys, self.size))
            self._sums[0][first:last] = self._band(start, stop) * counts
            for finer, coarser in pairwise(self._sums):
                first, last = first // 2, -(-last // 2)  # the bins that the band touches, summed from the finer level
                sums = finer[2 * first : 2 * last]
                for axis in (0, 1):
                    sums = np.add.reduceat(sums, np.arange(0, sums.shape[axis], 2), axis=axis)
                coarser[first:last] = sums
            self._swept = stop

    def tile(self, rows: tuple[int, int], columns: tuple[int, int], bins: tuple[int, int]) -> NDArray[np.float32]:
        """The part rows × columns averaged over bins, from a level whose own bins fill these bins exactly.

        If there is none, the level has at least eight bins for each bin; bins at an edge are shared out.
        """
        per_bin = min((rows[1] - rows[0]) // bins[0], (columns[1] - columns[0]) // bins[1])
        row_edges, column_edges = _edges(rows, bins[0], self.queries), _edges(columns, bins[1], self.keys)

        def suits(size: int) -> bool:
            sides = (row_edges, self.queries), (column_edges, self.keys)
            return 8 * size <= per_bin or all((edges[edges < tokens] % size == 0).all() for edges, tokens in sides)

        level = 0
        while level + 1 < len(self._sums) and suits(self.size * 2 ** (level + 1)):
            level += 1
        size = self.size * 2**level
        top, left = rows[0] // size, columns[0] // size
        part = self._sums[level][top : -(-row_edges[-1] // size), left : -(-column_edges[-1] // size)]
        sums = _between(part.astype(np.float64), row_edges, top, size, self.queries)
        sums = _between(sums.T, column_edges, left, size, self.keys).T
        counts = np.outer(np.diff(row_edges), np.diff(column_edges))
        means = np.divide(sums, counts, out=np.zeros_like(sums), where=counts > 0)
        means[row_edges[1:] > self._swept] = np.nan
        tile: NDArray[np.float32] = means.astype(np.float32)
        return tile


def _counts(start: int, stop: int, size: int) -> NDArray[np.int64]:
    """The number of tokens in each bin of a range that begins where a bin does."""
    return np.diff(np.append(np.arange(start, stop, size), stop))


def _edges(span: tuple[int, int], bins: int, tokens: int) -> NDArray[np.int64]:
    """The edges of the bins of a range, none of them past the last token."""
    start, stop = span
    return np.minimum(start + np.arange(bins + 1) * (stop - start) // bins, tokens)


def _between(
    sums: NDArray[np.float64], edges: NDArray[np.int64], first: int, size: int, tokens: int
) -> NDArray[np.float64]:
    """Turn sums of bins of `size` tokens, from bin number `first` on, into sums between edges in tokens."""
    running = np.concatenate([np.zeros((1, sums.shape[1])), np.cumsum(sums, axis=0)])
    last = min((first + len(sums)) * size, tokens)
    limits = np.minimum((first + np.arange(len(sums) + 1)) * size, last)  # where the bins begin and end
    place = np.clip(np.searchsorted(limits, edges, side="right") - 1, 0, len(sums) - 1)
    share = (edges - limits[place]) / (limits[place + 1] - limits[place])
    return np.diff(running[place] + share[:, None] * sums[place], axis=0)


class Sweeps:
    """The levels of each choice of heads; one thread in the background fills them, the last requested first.

    >>> sweeps = Sweeps()
    >>> levels = sweeps.levels("a head", lambda: Levels(1, 1, 32, lambda start, stop: np.ones((1, 1))), at_once=True)
    >>> sweeps.done("a head")
    1.0
    """

    def __init__(self) -> None:
        self._levels: OrderedDict[Hashable, Levels] = OrderedDict()
        self._lock = threading.Condition()
        self._thread: threading.Thread | None = None
        self._others = 0  # tasks that someone waits for, and that go before the sweep
        self._closed = False
        self._failed: Exception | None = None

    def levels(self, choice: Hashable, make: Callable[[], Levels], at_once: bool) -> Levels:
        """The levels of one choice, perhaps not filled yet; `at_once`: fill them now, as that is quick."""
        with self._lock:
            if self._failed is not None:
                raise self._failed
            if choice not in self._levels:
                self._levels[choice] = make()
            self._levels.move_to_end(choice)
            levels = self._levels[choice]
            while len(self._levels) > 1 and sum(each.bytes for each in self._levels.values()) > _KEPT:
                self._levels.popitem(last=False)
            if not at_once and levels.done < 1 and self._thread is None and not self._closed:
                self._thread = threading.Thread(target=self._sweep, name="regard map", daemon=True)
                self._thread.start()
        while at_once and levels.done < 1:
            levels.sweep()
        return levels

    def done(self, choice: Hashable | None = None) -> float:
        """The share that is swept, of one choice or of all; 1 if there is no choice."""
        with self._lock:
            if self._failed is not None:
                raise self._failed
            shares = [levels.done for each, levels in self._levels.items() if choice in (None, each)]
        return sum(shares) / len(shares) if shares else 1.0

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Let the sweep wait while a visitor waits for something else."""
        with self._lock:
            self._others += 1
        try:
            yield
        finally:
            with self._lock:
                self._others -= 1
                self._lock.notify_all()

    def close(self) -> None:
        """End the thread after the band that it computes."""
        with self._lock:
            self._closed = True
            self._lock.notify_all()

    def _sweep(self) -> None:
        while True:
            with self._lock:
                self._lock.wait_for(lambda: not self._others or self._closed, timeout=_PATIENCE)
                unfinished = [levels for levels in self._levels.values() if levels.done < 1]
                if self._closed or not unfinished:
                    self._thread = None
                    return
            try:
                with _TURN:
                    unfinished[-1].sweep()
            except Exception as error:  # raised at the next request, since nobody looks into this thread
                with self._lock:
                    self._failed, self._thread = error, None
                return
