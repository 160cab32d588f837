"""`landscape`: the attention of a long input as one pooled map, with landmarks from its text, and a window of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from rich.text import Text

from regard.drawing.arguments import as_numbers, as_weights, as_words
from regard.drawing.matrices import cells, shaded
from regard.drawing.picture import Later, Picture
from regard.drawing.svg import Canvas, Raster, shorten
from regard.drawing.terminal import Table, beside
from regard.errors import InputError, ShapeError

__all__ = ["Pool", "Window", "landmarks", "landscape"]

_SIDE = 480.0  # pixels
_LANDMARKS = 24
_WINDOW = 12  # tokens on a side
_LEAST = 1e-300  # no shades below it: a ratio of smaller numbers overflows


@dataclass(frozen=True, eq=False)
class Pool:
    """A pooled matrix that is computed when it is first drawn: a map in a notebook or on a page may never need it."""

    shape: tuple[int, int]
    compute: Callable[[], NDArray[np.floating]]


@dataclass(frozen=True, eq=False)
class Window:
    """A few rows and columns of the matrix, not pooled: where they start, their weights, their words."""

    start: tuple[int, int]
    weights: NDArray[np.floating]
    rows: Sequence[str]
    columns: Sequence[str]


def landscape(
    pool: NDArray[np.floating] | Pool,
    tokens: tuple[int, int],
    *,
    landmarks: Iterable[tuple[int, str]] = (),
    window: Window | None = None,
    title: str = "",
    caption: str = "",
) -> Picture:
    """A pooled matrix of `tokens` = (queries, keys), with (position, text) landmarks on both axes, and a window of it.

    >>> landmarks = [(0, "Chapter 1"), (6000, "Chapter 2")]
    >>> landscape(np.full((64, 64), 1e-4), (10_000, 10_000), landmarks=landmarks).caption
    '10,000 × 10,000 weights in 64 × 64 cells, each the mean of about 156 × 156; shades by the logarithm.'
    """
    if not isinstance(pool, Pool):
        given = as_weights("pool", pool, ("rows", "columns"))
        pool = Pool((given.shape[0], given.shape[1]), lambda: given)
    shape, compute = pool.shape, pool.compute
    if shape[0] > tokens[0] or shape[1] > tokens[1]:
        raise ShapeError(f"pool must have at most as many cells as there are tokens = {tokens}. Got {shape}.")
    marks = sorted((int(place), str(text)) for place, text in landmarks)
    if any(not 0 <= place < max(tokens) for place, _ in marks):
        raise InputError(f"landmarks must lie at places from 0 to {max(tokens) - 1}. Got {marks[-1][0]}.")
    held = {} if window is None else {"window": _table(window).values}
    if window is not None and max(held["window"].shape) > _WINDOW:
        raise ShapeError(f"the window must have at most {_WINDOW} rows and columns. Got {held['window'].shape}.")
    marks = marks if len(marks) <= _LANDMARKS else [marks[n * len(marks) // _LANDMARKS] for n in range(_LANDMARKS)]
    note = _note(shape, tokens)

    @cache
    def shaded() -> _Shaded:
        values = as_weights("pool", compute(), ("rows", "columns"))
        low, high = _range(values)
        shares = np.clip(np.log(np.maximum(values, low) / low) / np.log(high / low), 0, 1)
        return _Shaded(values, shares, low, high)

    def draw(canvas: Canvas) -> None:
        left, top = _map(canvas, shaded(), tokens, marks)
        _legend(canvas, left, shaded().low, shaded().high)
        if window is not None:
            _window(canvas, window, tokens, left, top)

    def text(room: int) -> Text:
        return _text(shaded().shares, tokens, marks, window, room)

    numbers = Later({"pool": shape}, lambda: {"pool": shaded().values}, held)
    return Picture("map", numbers, draw, text, title, f"{caption} {note}".strip(), tuple(text for _, text in marks))


@dataclass(frozen=True, eq=False)
class _Shaded:
    """A pooled matrix, how dark each cell is from 0 to 1, and the weights at which the shades start and end."""

    values: NDArray[np.floating]
    shares: NDArray[np.floating]
    low: float
    high: float


def _note(cells: tuple[int, int], tokens: tuple[int, int]) -> str:
    weights = f"{tokens[0]:,} × {tokens[1]:,} weights"
    if cells == tokens:
        return f"{weights} in cells of their own; shades by the logarithm."
    sides = tokens[0] / cells[0], tokens[1] / cells[1]
    each = f"each the mean of about {sides[0]:.0f} × {sides[1]:.0f}"
    return f"{weights} in {cells[0]} × {cells[1]} cells, {each}; shades by the logarithm."


def _range(values: NDArray[np.floating]) -> tuple[float, float]:
    """The weights at which the shades start and end: at most four powers of ten apart."""
    positive = values[np.isfinite(values) & (values > 0)]
    high = max(float(positive.max(initial=0.0)), _LEAST) if positive.size else 1.0
    low = float(np.quantile(positive, 0.01)) if positive.size else 0.0
    return max(low / 2, high * 1e-4), high  # half, so that small weights still differ from none


def _map(
    canvas: Canvas, shaded: _Shaded, tokens: tuple[int, int], marks: list[tuple[int, str]]
) -> tuple[float, float]:  # fmt: skip
    theme, values = canvas.theme, shaded.values
    left, top = (150.0, 118.0) if marks else (64.0, 30.0)
    names = []
    for axis in (0, 1):
        edges = np.arange(values.shape[axis] + 1) * tokens[axis] // values.shape[axis]
        names.append([f"{a:,} to {b - 1:,}" if b - a > 1 else f"{a:,}" for a, b in pairwise(edges)])
    canvas.labels |= {"rows": names[0], "columns": names[1]}
    canvas.image(left, top, _SIDE, _SIDE, Raster(values, "tokens", "rows", "columns"), shaded.shares)
    canvas.rect(left, top, _SIDE, _SIDE, stroke=theme.faint, pointer_events="none")
    texts = marks or [(n * max(tokens) // 4, f"{n * max(tokens) // 4:,}") for n in range(4)]
    for axis in (0, 1):
        last = -100.0
        for place, text in texts:
            at = place / tokens[axis] * _SIDE
            if place >= tokens[axis] or at - last < 15:
                continue  # no space for its name
            last = at
            word = shorten(text, 130, 12)
            if axis == 0:
                canvas.line(left - 6, top + at, left, top + at, theme.muted)
                canvas.text(left - 9, top + at + 4, word, 12, "end", title=f"{text} ({place:,})")
            else:
                x, y = left + at, top - 8
                canvas.line(x, top - 6, x, top, theme.muted)
                canvas.text(x, y, word, 12, title=f"{text} ({place:,})", transform=f"rotate(-45 {x:.1f} {y:.1f})")
    canvas.reach(left + _SIDE + 60, top + _SIDE)
    return left, top


def _legend(canvas: Canvas, left: float, low: float, high: float) -> None:
    y = canvas.height + 12
    ramp = np.linspace(0, 1, 64)[None]
    canvas.image(left, y, 160, 10, Raster(low * (high / low) ** ramp, "", "", ""), ramp)
    canvas.text(left, y + 23, f"≤ {low:.1g}", 11, fill=canvas.theme.muted)
    canvas.text(left + 160, y + 23, f"{high:.2g}", 11, "end", canvas.theme.muted)


def _window(canvas: Canvas, window: Window, tokens: tuple[int, int], left: float, top: float) -> None:
    """The window beside the map, and its position on the map."""
    shape = np.shape(window.weights)
    box = [window.start[a] / tokens[a] * _SIDE for a in (0, 1)]
    size = [max(shape[a] / tokens[a] * _SIDE, 5.0) for a in (0, 1)]
    x, y = left + box[1], top + box[0]
    canvas.rect(x - 1, y - 1, size[1] + 2, size[0] + 2, stroke=canvas.theme.accent, stroke_width=2)
    where = cells(canvas, left + _SIDE + 70, top, _table(window))
    canvas.path(
        f"M{x + size[1] + 1:.1f} {y:.1f}C{left + _SIDE + 20:.1f} {y:.1f} {left + _SIDE + 20:.1f} {where.middle:.1f} "
        f"{left + _SIDE + 62:.1f} {where.middle:.1f}",
        canvas.theme.accent, 1.2, stroke_dasharray="4 3",
    )  # fmt: skip


def _table(window: Window) -> Table:
    weights = as_numbers("window.weights", window.weights, ("rows", "columns")).astype(np.float64)
    rows = as_words("window.rows", window.rows, weights.shape[0], "window's rows")
    columns = as_words("window.columns", window.columns, weights.shape[1], "window's columns")
    where = f"from {window.start[0]:,} and {window.start[1]:,}"
    return Table(weights, "exactly", shape=where, rows=rows, columns=columns, shares=True)


def _text(
    shares: NDArray[np.floating], tokens: tuple[int, int], marks: list[tuple[int, str]], window: Window | None,
    width: int,
) -> Text:  # fmt: skip
    lines = min(len(shares), 32)
    labels = [f"{n * tokens[0] // lines:,}" for n in range(lines)]
    for place, text in reversed(marks):  # the first of those that share a line wins
        if place < tokens[0]:
            labels[place * lines // tokens[0]] = text
    drawn = shaded(shares, labels, width, lines)
    if window is not None:
        drawn = Text("\n\n").join([drawn, beside([_table(window)], width)])
    return drawn


def landmarks(words: Sequence[str], places: Sequence[int] | None = None, count: int = 16) -> list[tuple[int, str]]:
    """About `count` landmarks from a text: every so often up to four words in a row, and the place of the first.

    >>> landmarks("A dog ate the food because it was hungry".split(), count=2)
    [(0, 'A dog ate the'), (4, 'food because it was'), (8, 'hungry')]
    >>> landmarks(["A", "dog", "ate"])  # no word is in two landmarks
    [(0, 'A'), (1, 'dog'), (2, 'ate')]
    """
    step = max(len(words) // count, 1)
    several = min(step, 4)
    return [(n if places is None else places[n], " ".join(words[n : n + several])) for n in range(0, len(words), step)]
