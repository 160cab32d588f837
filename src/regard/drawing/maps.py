"""Maps of weights: `landscape` of a long input, with landmarks from its text; `overlay` over an image."""

from __future__ import annotations

import io
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from rich.text import Text

from regard.drawing.arguments import as_array, as_numbers, as_weights, as_words
from regard.drawing.matrices import cells
from regard.drawing.picture import Later, Picture
from regard.drawing.svg import Canvas, Raster, shorten
from regard.drawing.terminal import Table, beside, heat, largest, percent, pooled, shade, shaded, visible
from regard.errors import InputError, MissingDependencyError, ShapeError, TooLargeError

__all__ = ["Heat", "Window", "landmarks", "landscape", "overlay"]

_SIDE = 480.0  # pixels
_SECONDS = 5  # of sound in a line
_LANDMARKS = 24
_WINDOW = 12  # tokens on a side
_LEAST = 1e-300  # the ratio of smaller numbers overflows


@dataclass(frozen=True, eq=False)
class Window:
    """A few rows and columns of the matrix, not pooled: where they start, their weights, their words."""

    start: tuple[int, int]
    weights: NDArray[np.floating]
    rows: Sequence[str]
    columns: Sequence[str]


def landscape(
    pool: NDArray[np.floating] | Later,
    tokens: tuple[int, int],
    *,
    landmarks: Iterable[tuple[int, str]] = (),
    window: Window | None = None,
    title: str = "",
    caption: str = "",
) -> Picture:
    """A pooled matrix of `tokens` = (queries, keys), with (position, text) landmarks on both axes, and a window of it.

    A `Later` with "pool" is computed when it is first drawn: the zoomable map never draws it.

    >>> landmarks = [(0, "Chapter 1"), (6000, "Chapter 2")]
    >>> landscape(np.full((64, 64), 1e-4), (10_000, 10_000), landmarks=landmarks).caption
    '10,000 × 10,000 weights in 64 × 64 cells, each the mean of about 156 × 156; shades by the logarithm.'
    """
    if isinstance(pool, Later):
        later, shape = pool, pool.shapes["pool"]
    else:
        known = {"pool": as_weights("pool", pool, ("rows", "columns"))}
        later, shape = Later({"pool": known["pool"].shape}, lambda: known), known["pool"].shape
    if shape[0] > tokens[0] or shape[1] > tokens[1]:
        raise ShapeError(f"pool must have at most as many cells as there are tokens = {tokens}. Got {shape}.")
    marks = sorted((int(place), str(text)) for place, text in landmarks)
    if any(not 0 <= place < max(tokens) for place, _ in marks):
        raise InputError(f"landmarks must lie at places from 0 to {max(tokens) - 1}. Got {marks[-1][0]}.")
    held = {} if window is None else {"window": _table(window).values}
    if window is not None and max(held["window"].shape) > _WINDOW:
        raise ShapeError(f"the window must have at most {_WINDOW} rows and columns. Got {held['window'].shape}.")
    marks = marks if len(marks) <= _LANDMARKS else [marks[n * len(marks) // _LANDMARKS] for n in range(_LANDMARKS)]
    means = f"each the mean of about {tokens[0] / shape[0]:.0f} × {tokens[1] / shape[1]:.0f}"
    bins = "cells of their own" if shape == tokens else f"{shape[0]} × {shape[1]} cells, {means}"
    note = f"{tokens[0]:,} × {tokens[1]:,} weights in {bins}; shades by the logarithm."

    @cache
    def shaded_pool() -> tuple[NDArray[np.floating], NDArray[np.floating], float, float]:
        """The weights, the shade of each cell from 0 to 1, and the weights at which the shades start and end."""
        values = as_weights("pool", later["pool"], ("rows", "columns"))
        positive = values[np.isfinite(values) & (values > 0)]
        high = max(float(positive.max()), _LEAST) if positive.size else 1.0
        low = float(np.quantile(positive, 0.01)) if positive.size else 0.0
        low = max(low / 2, high * 1e-4)  # at most four powers of ten; half, so that small weights are visible
        shares = np.clip(np.log(np.maximum(values, low) / low) / np.log(high / low), 0, 1)
        return values, shares, low, high

    def draw(canvas: Canvas) -> None:
        values, shares, low, high = shaded_pool()
        left, top = _map(canvas, values, shares, tokens, marks)
        _legend(canvas, left, low, high)
        if window is not None:
            _window(canvas, window, tokens, left, top)

    shapes = {"pool": shape} | {name: values.shape for name, values in held.items()}
    numbers = Later(shapes, lambda: {"pool": shaded_pool()[0]} | held)
    return Picture(
        "map", numbers, draw, lambda room: _text(shaded_pool()[1], tokens, marks, window, room), title,
        f"{caption} {note}".strip(), tuple(text for _, text in marks),
    )  # fmt: skip


def _map(
    canvas: Canvas, values: NDArray[np.floating], shares: NDArray[np.floating], tokens: tuple[int, int],
    marks: list[tuple[int, str]],
) -> tuple[float, float]:  # fmt: skip
    theme = canvas.theme
    left, top = (150.0, 118.0) if marks else (64.0, 30.0)
    names = []
    for axis in (0, 1):
        edges = np.arange(values.shape[axis] + 1) * tokens[axis] // values.shape[axis]
        names.append([f"{a:,} to {b - 1:,}" if b - a > 1 else f"{a:,}" for a, b in pairwise(edges)])
    canvas.labels |= {"rows": names[0], "columns": names[1]}
    canvas.image(left, top, _SIDE, _SIDE, Raster(values, "tokens", "rows", "columns"), shares)
    canvas.rect(left, top, _SIDE, _SIDE, stroke=theme.faint, pointer_events="none")
    texts = marks or [(n * max(tokens) // 4, f"{n * max(tokens) // 4:,}") for n in range(4)]
    for axis in (0, 1):
        last = -100.0
        for place, text in texts:
            at = place / tokens[axis] * _SIDE
            if place >= tokens[axis] or at - last < 15:
                continue  # its name has no room
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
    for place, text in reversed(marks):  # of landmarks on the same line, the first wins
        if place < tokens[0]:
            labels[place * lines // tokens[0]] = text
    drawn = shaded(shares, labels, width, lines)
    if window is not None:
        drawn = Text("\n\n").join([drawn, beside([_table(window)], width)])
    return drawn


def landmarks(words: Sequence[str], places: Sequence[int] | None = None, count: int = 16) -> list[tuple[int, str]]:
    """About `count` landmarks from a text, evenly spaced: up to four words in a row, and the place of the first.

    >>> landmarks("A dog ate the food because it was hungry".split(), count=2)
    [(0, 'A dog ate the'), (4, 'food because it was'), (8, 'hungry')]
    >>> landmarks(["A", "dog", "ate"])  # no word is in two landmarks
    [(0, 'A'), (1, 'dog'), (2, 'ate')]
    """
    step = max(len(words) // count, 1)
    several = min(step, 4)
    return [(n if places is None else places[n], " ".join(words[n : n + several])) for n in range(0, len(words), step)]


# Over an image

_PANELS = 256
_SIDES = ((1, 400.0), (3, 320.0), (8, 220.0), (_PANELS, 132.0))  # up to this many panels: the longer side in pixels
_PER_LINE = {400.0: 2, 320.0: 4, 220.0: 4, 132.0: 8}
_PIXELS = 512  # of the longer side of the picture, as it is stored
_HEAT_SHADES = " ░▒▓██"
_VEIL = "#e8590c"  # orange: few pictures have much of it, and the picture below is grey


@dataclass(frozen=True, eq=False)
class Heat:
    """Numbers (rows, columns) of patches, the box of the picture that they cover, a name, and the marked patches."""

    weights: NDArray[np.floating]
    box: tuple[float, float, float, float] = (0.0, 0.0, 1.0, 1.0)  # top, left, bottom, right, in shares of the picture
    name: str = ""
    marks: NDArray[np.bool_] | None = None


def overlay(
    picture: NDArray[np.uint8], heats: Sequence[Heat], *, marked: str = "marked", title: str = "", caption: str = ""
) -> Picture:
    """The picture (height, width, 3) in colour, then in grey under each of the heats.

    `marked` says what a marked patch means.

    >>> print(overlay(np.zeros((20, 30, 3), np.uint8), [Heat(np.array([[0.1, 0.0, 0.4]]), name="head 3")]))
    head 3, up to 40 %
    ▒▒  ██
    """
    pixels = as_array("picture", picture)
    if pixels.dtype != np.uint8 or pixels.ndim != 3 or pixels.shape[-1] != 3 or 0 in pixels.shape:
        raise ShapeError(f"picture must be (height, width, 3) bytes. Got {pixels.dtype} {pixels.shape}.")
    if not heats:
        raise ShapeError("overlay needs at least one heat. Got none.")
    if len(heats) > _PANELS:
        raise TooLargeError(f"an overlay has at most {_PANELS} panels. Got {len(heats)}. Choose a layer or some heads.")
    checked = [_checked(each) for each in heats]
    notes = [caption]
    if any(each.marks is not None and each.marks.any() for each in checked):
        notes.append(f"Dashed: {visible(marked, 200)}; they do not set the scale.")

    def draw(canvas: Canvas) -> None:
        _draw_overlay(canvas, pixels, checked, marked)

    def text(room: int) -> Text:
        return Text("\n").join(_heat_text(each, room) for each in checked)

    names = [each.name or "weights" for each in checked]
    unique = [name if names.count(name) == 1 else f"{name} {n}" for n, name in enumerate(names)]
    held = {name: each.weights for name, each in zip(unique, checked, strict=True)}
    return Picture("overlay", held, draw, text, title, " ".join(filter(None, notes)), tuple(names))


def spectrogram(
    loudness: NDArray[np.floating], spans: Sequence[tuple[str, float, float]], rate: float, title: str = ""
) -> Picture:
    """The loudness of a sound (pitches, times), in lines of five seconds, with a word over the time that it takes.

    >>> print(spectrogram(np.zeros((2, 100)), [("A", 0.0, 0.3), ("dog", 0.3, 0.8)], rate=100))
    0.00 s A
    0.30 s dog
    """
    numbers = as_numbers("loudness", loudness, ("pitches", "times"))
    low, high = float(numbers.min()), float(numbers.max())
    shares, frames = (numbers[::-1] - low) / ((high - low) or 1.0), round(_SECONDS * rate)
    scale, height, starts = 2 * _SIDE / frames, 110.0, sorted({start for _, start, _ in spans})

    def draw(canvas: Canvas) -> None:
        for line, first in enumerate(range(0, numbers.shape[1], frames)):
            part, top = shares[:, first : first + frames], line * (height + 34) + 18
            canvas.image(0, top, part.shape[1] * scale, height, Raster(part, "", "", ""), part)
            for n, start in enumerate(starts):
                x, stop = start * rate - first, min([*starts[n + 1 : n + 2], math.inf]) * rate - first
                if 0 <= x < frames:
                    word, room = " ".join(each[0] for each in spans if each[1] == start), min(stop, frames) - x
                    canvas.line(x * scale, top - 12, x * scale, top + height, canvas.theme.accent)
                    canvas.text(x * scale + 3, top - 4, shorten(word, max(room * scale - 4, 14), 12), 12, title=word)
            canvas.text(0, top + height + 13, f"{first / rate:.0f} s", 11, fill=canvas.theme.muted)

    def text(room: int) -> Text:
        return Text("\n".join(f"{start:.2f} s {visible(word)}" for word, start, _ in spans))

    words = tuple(word for word, _, _ in spans)
    return Picture("spectrogram", {"loudness": loudness}, draw, text, title, "", words)


def _checked(each: Heat) -> Heat:
    weights = as_weights("weights", each.weights, ("rows", "columns"))
    as_words("name", [each.name], 1, "heat")
    marks = None if each.marks is None else np.asarray(each.marks, bool)
    if marks is not None and marks.shape != weights.shape:
        raise ShapeError(f"marks must be (rows, columns) = {weights.shape}, as the weights are. Got {marks.shape}.")
    top, left, bottom, right = each.box
    if not (top < bottom and left < right and all(map(math.isfinite, each.box))):
        raise InputError(f"a box is (top, left, bottom, right), each side longer than 0. Got {each.box}.")
    return Heat(weights, each.box, each.name, marks)


def _draw_overlay(canvas: Canvas, pixels: NDArray[np.uint8], heats: Sequence[Heat], marked: str) -> None:
    light = 90 + pixels @ np.array([0.299, 0.587, 0.114]) * 150 / 255  # grey, on which a veil of colour stands out
    colour, grey = _png(pixels), _png(np.rint(light).astype(np.uint8))
    boxes = np.array([each.box for each in heats] + [(0.0, 0.0, 1.0, 1.0)])
    top, left = boxes[:, :2].min(0)  # a box may be larger than the picture: then there are patches of padding
    bottom, right = boxes[:, 2:].max(0)
    high, wide = pixels.shape[0] * (bottom - top), pixels.shape[1] * (right - left)
    side = next(side for most, side in _SIDES if len(heats) <= most)
    scale = side / max(high, wide)
    height, width = pixels.shape[0] * scale, pixels.shape[1] * scale
    step_x, step_y = max(wide * scale, 60) + 16, high * scale + 34
    per_line = _PER_LINE[side]
    for n, each in enumerate([None, *heats]):
        x, y = n % per_line * step_x, n // per_line * step_y
        origin = x - left * width, y - top * height
        canvas.photograph(*origin, width, height, colour if each is None else grey)
        name = "the picture" if each is None else _label(each)
        if each is not None:
            _veil(canvas, each, *origin, width, height, marked)
        canvas.rect(x, y, wide * scale, high * scale, stroke=canvas.theme.faint, pointer_events="none")
        canvas.text(x, y + high * scale + 16, shorten(name, step_x - 12, 12), 12, fill=canvas.theme.muted, title=name)
        canvas.reach(x + step_x - 16, y + step_y)


def _veil(canvas: Canvas, each: Heat, x: float, y: float, width: float, height: float, marked: str) -> None:
    """The numbers over a picture that lies at x, y."""
    top, left, bottom, right = each.box
    a, b = x + left * width, y + top * height
    wide, high = (right - left) * width, (bottom - top) * height
    rows, columns = each.weights.shape
    key = f"{rows} × {columns}"
    canvas.labels |= {f"rows of {key}": [f"row {n}" for n in range(rows)]}
    canvas.labels |= {f"columns of {key}": [f"column {n}" for n in range(columns)]}
    raster = Raster(each.weights, each.name or "weights", f"rows of {key}", f"columns of {key}")
    shares = np.clip(each.weights, 0, None) / _scale(each)
    canvas.image(a, b, wide, high, raster, shares, veil=_VEIL)
    for row, column in [] if each.marks is None else np.argwhere(each.marks):
        place = a + column * wide / columns, b + row * high / rows, wide / columns, high / rows
        canvas.rect(*place, stroke="#ffffff", stroke_width=2, pointer_events="none")
        canvas.rect(
            *place, stroke="#000000", stroke_width=2, stroke_dasharray="3 3", pointer_events="none", title=marked
        )


def _scale(each: Heat) -> float:
    """The largest number of an unmarked patch: marked patches would make all other patches pale."""
    left = each.weights if each.marks is None else each.weights[~each.marks]
    return largest(left) if left.size and np.nanmax(left, initial=0.0) > 0 else largest(each.weights)


def _label(each: Heat) -> str:
    most = percent(float(np.nanmax(each.weights))) if not np.isnan(each.weights).all() else "nan"
    return f"{visible(each.name, 60)}, up to {most}" if each.name else f"up to {most}"


def _png(pixels: NDArray[np.uint8]) -> bytes:
    try:
        from PIL import Image
    except ImportError as error:
        raise MissingDependencyError(
            "drawing over a picture needs Pillow: pip install 'regard[draw]'. As text it needs no extra packages."
        ) from error
    image, packed = Image.fromarray(pixels), io.BytesIO()
    longer = max(image.size)
    if longer > _PIXELS:
        image = image.resize([max(round(n * _PIXELS / longer), 1) for n in image.size], Image.Resampling.LANCZOS)
    elif longer < _PIXELS / 4:  # enlarged here, as some viewers blur
        times = _PIXELS // longer
        image = image.resize([n * times for n in image.size], Image.Resampling.NEAREST)
    image.save(packed, "PNG", optimize=True)
    return packed.getvalue()


def _heat_text(each: Heat, room: int) -> Text:
    """Two characters for each patch, darker for larger numbers; a marked patch is a pair of brackets."""
    rows = min(each.weights.shape[0], 32)
    bins = pooled(each.weights, rows, max(room // 2, 1))
    whole = bins.shape == each.weights.shape
    marks = each.marks if each.marks is not None and whole else np.zeros(bins.shape, bool)
    scale = _scale(each) if whole else largest(bins)
    lines = [Text(_label(each), "cyan")]
    for row, marked in zip(bins, marks, strict=True):
        line = Text()
        for number, mark in zip(row.tolist(), marked.tolist(), strict=True):
            share = min(max(number, 0.0) / scale, 1.0) if not math.isnan(number) else math.nan
            line.append_text(Text("[]", heat(share)) if mark else shade(share, _HEAT_SHADES))
        line.rstrip()
        lines.append(line)
    return Text("\n").join(lines)
