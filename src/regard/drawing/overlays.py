"""`overlay`: numbers of patches drawn over the picture that the patches are of."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from rich.style import Style
from rich.text import Text

from regard.drawing.arguments import as_array, as_weights, as_words, largest
from regard.drawing.matrices import pooled
from regard.drawing.picture import Picture
from regard.drawing.svg import Canvas, Raster, shorten
from regard.drawing.terminal import heat, percent, visible
from regard.errors import InputError, MissingDependencyError, ShapeError, TooLargeError

__all__ = ["Heat", "overlay"]

_PANELS = 256
_SIDES = ((1, 400.0), (3, 320.0), (8, 220.0), (_PANELS, 132.0))  # up to so many panels, their longer side in pixels
_PER_LINE = {400.0: 2, 320.0: 4, 220.0: 4, 132.0: 8}
_PIXELS = 512  # of the longer side of the picture, as it is stored
_SHADES = " ░▒▓██"
_VEIL = "#e8590c"  # orange: few pictures have much of it, and the picture below is grey


@dataclass(frozen=True, eq=False)
class Heat:
    """Numbers (rows, columns) of patches, the box of the picture that they cover, a name, and patches to mark."""

    weights: NDArray[np.floating]
    box: tuple[float, float, float, float] = (0.0, 0.0, 1.0, 1.0)  # top, left, bottom, right, in shares of the picture
    name: str = ""
    marks: NDArray[np.bool_] | None = None


def overlay(
    picture: NDArray[np.uint8], heats: Sequence[Heat], *, marked: str = "marked", title: str = "", caption: str = ""
) -> Picture:
    """The picture (height, width, 3) as it is, then in grey under each of the heats, which hide what they do not show.

    `marked` says what it means that a patch is marked.

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
        _draw(canvas, pixels, checked, marked)

    def text(room: int) -> Text:
        return Text("\n").join(_text(each, room) for each in checked)

    names = [each.name or "weights" for each in checked]
    unique = [name if names.count(name) == 1 else f"{name} {n}" for n, name in enumerate(names)]
    held = {name: each.weights for name, each in zip(unique, checked, strict=True)}
    return Picture("overlay", held, draw, text, title, " ".join(filter(None, notes)), tuple(names))


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


def _draw(canvas: Canvas, pixels: NDArray[np.uint8], heats: Sequence[Heat], marked: str) -> None:
    colour, grey = _png(pixels), _png(_faded(pixels))
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
    """The largest number of a patch that is not marked: those that are would make all others pale."""
    left = each.weights if each.marks is None else each.weights[~each.marks]
    return largest(left) if left.size and np.nanmax(left, initial=0.0) > 0 else largest(each.weights)


def _label(each: Heat) -> str:
    most = percent(float(np.nanmax(each.weights))) if not np.isnan(each.weights).all() else "nan"
    return f"{visible(each.name, 60)}, up to {most}" if each.name else f"up to {most}"


def _faded(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """In light grey, so that a veil of colour stands out."""
    grey = pixels @ np.array([0.299, 0.587, 0.114])
    faded: NDArray[np.uint8] = np.rint(90 + grey * 150 / 255).astype(np.uint8)
    return faded


def _png(pixels: NDArray[np.uint8]) -> bytes:
    try:
        from PIL import Image
    except ImportError as error:
        raise MissingDependencyError(
            "drawing over a picture takes Pillow: pip install 'regard[draw]'. As text, it prints without."
        ) from error
    image, packed = Image.fromarray(pixels), io.BytesIO()
    longer = max(image.size)
    if longer > _PIXELS:
        image = image.resize([max(round(n * _PIXELS / longer), 1) for n in image.size], Image.Resampling.LANCZOS)
    elif longer < _PIXELS / 4:  # a few large pixels: for viewers that blur when they enlarge
        times = _PIXELS // longer
        image = image.resize([n * times for n in image.size], Image.Resampling.NEAREST)
    image.save(packed, "PNG", optimize=True)
    return packed.getvalue()


def _text(each: Heat, room: int) -> Text:
    """Two characters for each patch, darker for larger numbers; marked ones in brackets."""
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
            sign = "?" if math.isnan(share) else _SHADES[min(math.ceil(share * 5 - 1e-9), 5)]
            style = heat(share)
            line.append(
                "[]" if mark else 2 * sign, style if mark else Style(color=style.bgcolor, bgcolor=style.bgcolor)
            )
        line.rstrip()
        lines.append(line)
    return Text("\n").join(lines)
