"""A picture of the user's, and which part of it each patch of a model saw.

A processor may squash a picture, cut out its middle or pad it, and does not say which. The record has the brightness of
each patch that the model read, so every way is tried, and the one that agrees is taken; if none does, it is another
picture, and an error says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from os import PathLike
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from regard.errors import InputError, MissingDependencyError
from regard.watching.images.images import correlation
from regard.watching.images.patches import WHOLE, Box, Grid

__all__ = ["FITS", "as_pixels", "fitted", "seen_by"]

FITS = ("whole", "middle", "padded", "padded below")
_ALIKE, _SLACK = 0.9, 0.001  # the least correlation of patches, and what an earlier way may have less than the best
_ASPECT = 0.02  # two shapes are alike if they differ by less
_MIDDLES = (1.0, 0.95, 0.9, 0.875)  # a picture is often enlarged a little before its middle is cut out


def as_pixels(image: Any) -> NDArray[np.uint8]:
    """A picture as (height, width, 3) bytes: of an array, a tensor, a Pillow image or a file.

    >>> as_pixels(np.zeros((4, 6))).shape, as_pixels(torch.ones(3, 4, 6))[0, 0].tolist()
    ((4, 6, 3), [255, 255, 255])
    """
    if isinstance(image, str | PathLike):
        image = _opened(image)
    if hasattr(image, "convert"):  # of Pillow
        image = np.asarray(image.convert("RGB"))
    if isinstance(image, torch.Tensor):
        image = image.detach().cpu().numpy()
        image = np.moveaxis(image, 0, -1) if image.ndim == 3 and image.shape[0] in (1, 3, 4) else image
    pixels = np.asarray(image)
    pixels = pixels[..., None] if pixels.ndim == 2 else pixels
    numbers = pixels.dtype == np.uint8 or pixels.dtype.kind == "f"
    if not numbers or pixels.ndim != 3 or pixels.shape[-1] not in (1, 3, 4) or 0 in pixels.shape:
        raise InputError(
            "a picture is a file, a Pillow image, or an array (height, width, 3) of bytes or of numbers from 0 to 1. "
            f"Got {type(image).__name__} of {pixels.dtype} {pixels.shape}."
        )
    if pixels.dtype != np.uint8:
        if not (np.isfinite(pixels).all() and pixels.min() >= 0 and pixels.max() <= 1):
            raise InputError("a picture of floats has numbers from 0 to 1. Is it normalised? Give it as it was before.")
        pixels = np.rint(255 * pixels).astype(np.uint8)
    colours = pixels[..., :3] if pixels.shape[-1] > 1 else pixels.repeat(3, -1)
    return np.ascontiguousarray(colours)


def _opened(path: str | PathLike[str]) -> Any:
    try:
        from PIL import Image, ImageOps
    except ImportError as error:
        raise MissingDependencyError("reading a picture takes Pillow: pip install 'regard[draw]'.") from error
    try:
        with Image.open(path) as image:
            return ImageOps.exif_transpose(image).convert("RGB")
    except OSError as error:
        raise InputError(f"{str(path)!r} cannot be read as a picture: {error}.") from None


def fitted(pixels: NDArray[np.uint8], grid: Grid, fit: str | Box | None) -> tuple[Box, str]:
    """The box of the picture that a grid covers, and how the picture was fitted, for a caption."""
    if isinstance(fit, str) and fit not in FITS:
        raise InputError(f"fit must be {', '.join(map(repr, FITS))}, or the box (top, left, bottom, right) that the "
                         f"model was shown, in shares of the picture. Got {fit!r}.")  # fmt: skip
    regions = [("as you say", fit)] if isinstance(fit, tuple) else list(_regions(pixels.shape, grid.aspect, fit))
    ratio = pixels.shape[1] / pixels.shape[0] / grid.aspect
    same_shape = abs(ratio - 1) < _ASPECT
    tried = [(_agreement(pixels, grid, region), name, region) for name, region in regions]
    known = [each for each in tried if each[0] is not None]
    if not known:  # one colour, or nothing known of what the model read
        if fit is None and not same_shape and grid.name != WHOLE:
            raise InputError(
                f"the picture is {pixels.shape[1]} × {pixels.shape[0]}, but the patches make one of {grid.aspect:.3g} "
                f": 1, and how it was fitted cannot be seen. Give fit = {', '.join(map(repr, FITS))} or a box."
            )
        _, name, region = tried[0]
        return _inside(region, grid.box), name
    best = max(score for score, _, _ in known if score is not None)
    if best < _ALIKE:
        raise InputError(
            f"this picture is not what the model saw as image {grid.image}: its patches agree by {best:.2f} at most, "
            f"and by {_ALIKE} at least they must. Is it another picture, another number, or was it changed before? "
            "Without a picture, record.over(what) draws on what the model saw."
        )
    _, name, region = next(each for each in known if each[0] is not None and each[0] >= best - _SLACK)
    return _inside(region, grid.box), name


def _inside(region: Box, box: Box) -> Box:
    """The box of a part of a region."""
    top, left, bottom, right = region
    high, wide = bottom - top, right - left
    return top + box[0] * high, left + box[1] * wide, top + box[2] * high, left + box[3] * wide


def _regions(shape: tuple[int, ...], aspect: float, fit: str | None) -> Iterator[tuple[str, Box]]:
    """The ways in which a picture can become another shape: which part of it is shown."""
    wider = shape[1] / shape[0] / aspect  # above 1: the picture is wider than what the model was shown
    if fit in (None, "whole"):
        yield "all of it", (0.0, 0.0, 1.0, 1.0)
    if fit in (None, "middle"):
        for part in _MIDDLES:
            high, wide = part * min(wider, 1.0), part * min(1 / wider, 1.0)
            yield "its middle", ((1 - high) / 2, (1 - wide) / 2, (1 + high) / 2, (1 + wide) / 2)
    high, wide = max(wider, 1.0), max(1 / wider, 1.0)
    if fit in (None, "padded"):
        yield "all of it, padded", ((1 - high) / 2, (1 - wide) / 2, (1 + high) / 2, (1 + wide) / 2)
    if fit in (None, "padded below"):
        yield "all of it, padded", (0.0, 0.0, high, wide)


def _agreement(pixels: NDArray[np.uint8], grid: Grid, region: Box) -> float | None:
    """How much the patches look like this part of the picture; None where that cannot be said."""
    if grid.brightness is None or min(grid.brightness.shape) < 1:
        return None
    expected = _cell_means(pixels, _inside(region, grid.box), *grid.brightness.shape)
    shown = np.isfinite(expected)
    one, other = torch.from_numpy(expected[shown]), grid.brightness.double()[torch.from_numpy(shown)]
    if len(one) < 4 or float(one.std()) < 0.5 or float(other.std()) < 1e-4 * max(1.0, float(other.abs().max())):
        return None
    return correlation(one, other)


def _cell_means(pixels: NDArray[np.uint8], box: Box, rows: int, columns: int) -> NDArray[np.float64]:
    """The mean brightness of each cell of a box; NaN where most of it lies outside of the picture."""
    height, width = pixels.shape[:2]
    sums = np.zeros((height + 1, width + 1))
    sums[1:, 1:] = pixels.mean(-1).cumsum(0).cumsum(1)
    ys, xs = np.linspace(box[0], box[2], rows + 1) * height, np.linspace(box[1], box[3], columns + 1) * width
    inner_y, inner_x = np.clip(ys, 0, height), np.clip(xs, 0, width)
    at = _between(_between(sums, inner_y, 0), inner_x, 1)
    totals = at[1:, 1:] - at[:-1, 1:] - at[1:, :-1] + at[:-1, :-1]
    areas = np.outer(np.diff(inner_y), np.diff(inner_x))
    whole = np.outer(np.diff(ys), np.diff(xs))
    means: NDArray[np.float64] = np.where(areas > 0.5 * whole, totals / np.maximum(areas, 1e-9), np.nan)
    return means


def _between(sums: NDArray[np.float64], places: NDArray[np.float64], axis: int) -> NDArray[np.float64]:
    """Rows or columns at places between the whole numbers."""
    low = np.minimum(np.floor(places).astype(int), sums.shape[axis] - 2)
    share = np.expand_dims(places - low, 1 - axis)
    found: NDArray[np.float64] = np.take(sums, low, axis) * (1 - share) + np.take(sums, low + 1, axis) * share
    return found


def seen_by(grid: Grid) -> NDArray[np.uint8]:
    """What a grid of patches saw, a pixel for each: what is drawn on where the user has no picture."""
    if grid.brightness is None:
        return np.full((*grid.tokens.shape, 3), 200, np.uint8)
    numbers = grid.brightness.double().numpy()
    low, high = float(numbers.min()), float(numbers.max())
    grey = np.rint(30 + 210 * (numbers - low) / ((high - low) or 1.0)).astype(np.uint8)
    return grey[..., None].repeat(3, -1)
