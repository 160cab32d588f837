"""A picture of the user's, and which part of it each patch of a model saw.

A processor may squash a picture, cut out its middle or pad it, and does not say which. The record has the brightness of
each patch that the model read, so every way is tried, and the one that agrees is taken; if none does, it is another
picture, and an error says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.drawing import Heat, overlay
from regard.drawing.terminal import percent
from regard.errors import InputError, MissingDependencyError
from regard.support import Bool, Float, one_of
from regard.watching.images.families import WHOLE, Box, Grid, Patch
from regard.watching.images.images import correlation
from regard.watching.questions.looks import key_side, mean_row, phrase, query_side, tokens_of, weights_to
from regard.watching.questions.sinks import named
from regard.watching.record.entries import Entry, mean_over_heads
from regard.watching.record.tokens import Place, Tokens

if TYPE_CHECKING:
    from regard.drawing import Picture

__all__ = ["FITS", "Asked", "as_pixels", "fitted", "over", "seen_by", "with_image"]

FITS = ("whole", "middle", "padded", "padded below")
_AGREEING, _SLACK = 0.9, 0.001  # the least correlation of patches, and what an earlier way may have less than the best
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
    if best < _AGREEING:
        raise InputError(
            f"this picture is not what the model saw as image {grid.image}: its patches agree by {best:.2f} at most, "
            f"and by {_AGREEING} at least they must. Is it another picture, another number, or was it changed before? "
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


_OFTEN = 5.0  # times its equal share that a patch is given on average, from which on it is marked
_BORDER = 2.0  # times as much as an inner patch that one on the border is given on average, to be spoken of
_ROWS = 64  # queries that the average is taken of


@dataclass(frozen=True)
class Asked:
    """What is drawn: from or to which word or patch, in which text, over which image, and how."""

    what: Place
    number: int = 0
    each: str | None = None
    looked_at: bool = False
    fit: str | Box | None = None

    def sides(self, entry: Entry) -> tuple[Tokens, Tokens]:
        """The tokens of the place that is asked about, and those that the patches are among."""
        both = query_side(entry), key_side(entry)
        return both[::-1] if self.looked_at else both


def with_image(entries: Sequence[Entry], asked: Asked) -> list[Entry]:
    """The entries whose patches, and whose place, can be found; of the kinds and shapes that there are."""
    found, reasons = [], dict[str, None]()
    for entry in entries:
        own, other = asked.sides(entry)
        if other.unplaced:
            reasons[other.unplaced] = None
        if other.grids and _has(own, asked.what):
            found.append(entry)
    if found:
        return found
    for entry in reversed(entries):  # the place is not there: say which words are, of the language model first
        if (sides := asked.sides(entry))[1].grids:
            sides[0].find_all(asked.what)
    why = f": {'; '.join(reasons)}" if reasons else ""
    raise InputError(
        f"no token of this record is known to be a patch of an image{why}. Of a model whose images regard does not "
        "find by itself, say it: regard.watch(model, images=[(rows, columns)])."
    )


def _has(side: Tokens, what: Place) -> bool:
    if isinstance(what, str) and not side.named:
        return False
    try:
        side.find_all(what)
    except InputError:
        return False
    return True


def over(entries: Sequence[Entry], asked: Asked, image: Any, sinks: Sequence[int], title: str) -> Picture:
    """The picture: of entries of one kind and shape, the mean over their heads, or one panel for each head or layer."""
    if asked.each is not None:
        one_of("each", asked.each, ("head", "layer"))
    own, other = asked.sides(entries[0])
    grids = [grid for grid in other.grids if grid.image == asked.number]
    if not grids:
        numbers = ", ".join(str(n) for n in sorted({grid.image for grid in other.grids}))
        raise InputError(f"there are images {numbers} here. Got number = {asked.number}.")
    places = own.find_all(asked.what)
    rows = [_weights(entry, asked, places) for entry in entries]
    panels = list(_panels(entries, rows, asked.each))
    usual = None if asked.looked_at else _usually_given(entries, grids)
    pixels = seen_by(grids[0]) if image is None else as_pixels(image)
    boxes = [(grid.box, "") if image is None else fitted(pixels, grid, asked.fit) for grid in grids]
    marks = [None if usual is None else _marked(grid, usual, sinks) for grid in grids]
    heats = [
        Heat(_at(grid, weights), box, _name(name, grid, len(grids)), mark)
        for name, weights in panels
        for grid, (box, _), mark in zip(grids, boxes, marks, strict=True)
    ]
    word = phrase(own, asked.what, places)
    unquoted = f"token {word}" if not own.named and word.isdigit() else word
    word = unquoted if isinstance(asked.what, Patch) or unquoted != word else f'"{word}"'
    notes = [_where(entries, panels), _shares(entries, rows, grids, other, sinks, word, asked)]
    notes += [] if usual is None else [_on_the_border(grids, usual, [mark for mark in marks if mark is not None])]
    how = dict.fromkeys(how for _, how in boxes if how)
    notes += [f"The model was shown {' and '.join(how)}."] if how and list(how) != ["all of it"] else []
    if image is None:
        known = any(grid.brightness is not None for grid in grids)
        on = "on the brightness that the model read: no picture" if known else "without a picture: none"
        notes.append(f"Drawn {on} was given.")
    return overlay(pixels, heats, title=title, caption=" ".join(filter(None, notes)), marked=_MARKED)


_MARKED = "patches that most tokens look at, whatever they are"


def _weights(entry: Entry, asked: Asked, places: Sequence[range]) -> Float[Tensor, "heads tokens"]:
    if asked.looked_at:
        return weights_to(entry, tokens_of(places))
    return mean_row(entry, places)


def _panels(
    entries: Sequence[Entry], rows: Sequence[Float[Tensor, "_ tokens"]], each: str | None
) -> Iterator[tuple[str, Float[Tensor, " tokens"]]]:
    if each is None:
        yield "", torch.cat(list(rows)).mean(0)
    for entry, weights in zip(entries, rows, strict=True):
        if each == "layer":
            yield f"layer {entry.layer}", weights.mean(0)
        elif each == "head":
            yield from ((f"{entry.layer} · {head}", row) for head, row in zip(entry.heads, weights, strict=True))


def _name(name: str, grid: Grid, count: int) -> str:
    return ", ".join(filter(None, (name, grid.name if count > 1 else "")))


def _at(grid: Grid, weights: Float[Tensor, " tokens"]) -> NDArray[np.float64]:
    """The numbers of the patches; NaN where there is no token."""
    found = weights[grid.tokens.clamp_min(0)].double()
    return np.asarray(found.masked_fill(grid.tokens < 0, torch.nan).numpy())


# What is given to a patch whatever the word


def _usually_given(entries: Sequence[Entry], grids: Sequence[Grid]) -> Float[Tensor, " keys"]:
    """What the average query gives to each key: of at most 64 that see all of the image."""
    _, _, queries, keys = entries[0].shape
    after = max(int(grid.tokens.max()) for grid in grids) + 1 - (keys - queries)  # the first row that sees it all
    first = after if entries[0].kind == "decoder" and 0 < after < queries else 0
    step = max(-(-(queries - first) // _ROWS), 1)
    count = len(range(first, queries, step))

    def received(entry: Entry) -> Tensor:
        part = entry.matrix.part[:, :, first::step]
        return part.received()[0].float().sum(0).cpu() / count

    return mean_over_heads(entries, received)


def _marked(grid: Grid, usual: Float[Tensor, " keys"], sinks: Sequence[int]) -> NDArray[np.bool_]:
    given = usual[grid.tokens.clamp_min(0)]
    often: Bool[Tensor, "rows columns"] = given >= _OFTEN * float(given[grid.tokens >= 0].mean())
    return np.asarray(((often | torch.isin(grid.tokens, torch.tensor([*sinks]))) & (grid.tokens >= 0)).numpy())


def _on_the_border(grids: Sequence[Grid], usual: Float[Tensor, " keys"], marks: Sequence[NDArray[np.bool_]]) -> str:
    """How many marked patches lie on the border, and whether the others there are given more, whatever the word."""
    said, marked, at_edge = "", 0, 0
    for grid, mark in zip(grids, marks, strict=True):
        edge = torch.ones(grid.tokens.shape, dtype=torch.bool)
        edge[1:-1, 1:-1] = False
        own = torch.from_numpy(mark)
        marked, at_edge = marked + int(own.sum()), at_edge + int((own & edge).sum())
        given, left = usual[grid.tokens.clamp_min(0)], ~own & (grid.tokens >= 0)
        if (left & edge).any() and (left & ~edge).any():
            times = float(given[left & edge].mean()) / max(float(given[left & ~edge].mean()), 1e-12)
            if times >= _BORDER:
                said = f"On average, a patch on the border is given {times:.1f} times as much as an inner one."
    return " ".join(filter(None, (f"Marked patches on the border: {at_edge} of {marked}." if at_edge else "", said)))


# What the caption says


def _where(entries: Sequence[Entry], panels: Sequence[Any]) -> str:
    heads = sum(entry.shape[1] for entry in entries)
    layers = f"layer {entries[0].layer}" if len(entries) == 1 else f"{len(entries)} layers"
    if len(panels) > 1:
        return f"{entries[0].kind}, {layers}, {heads} heads."
    return f"{entries[0].kind}, {layers}, " + (
        f"head {entries[0].heads[0]}." if heads == 1 else f"mean of {heads} heads."
    )


def _shares(
    entries: Sequence[Entry], rows: Sequence[Tensor], grids: Sequence[Grid], other: Tokens, sinks: Sequence[int],
    word: str, asked: Asked,
) -> str:  # fmt: skip
    if asked.looked_at:
        return f"Each patch is shaded by the share that it gives to {word}."
    mean = torch.cat(list(rows)).mean(0)
    own = {token for grid in grids for token in grid.tokens.flatten().tolist()} - {-1}
    others = {token for grid in other.grids for token in grid.tokens.flatten().tolist()} - {-1} - own
    outside = [sink for sink in sinks if sink not in own | others]
    given = [float(mean[sink]) for sink in outside]
    on_image, on_others = float(mean[list(own)].sum()), float(mean[list(others)].sum())
    parts = [(on_image, "falls on the image"), (on_others, "on other images")]
    parts += [(each.weight, f"on {each.name}") for each in named(outside, given, other)]
    parts += [(float(mean.sum()) - on_image - on_others - sum(given), "elsewhere")]
    said = ", ".join(f"{percent(share)} {where}" for n, (share, where) in enumerate(parts) if share >= 0.0005 or n == 0)
    return f"Of what {word} gives, {said}."
