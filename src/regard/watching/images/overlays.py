"""What a word looks at, drawn over an image; and which part of the user's picture each patch of a model saw.

A processor may squash a picture, cut out its middle or pad it, and does not say which. The record has the brightness of
each patch that the model read, so every way is tried and the best agreement wins; if none agrees, the picture is not
the image that the model read, and an error says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from os import PathLike
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from regard.drawing import Heat, Picture, overlay
from regard.drawing.terminal import percent
from regard.errors import InputError, MissingDependencyError
from regard.support import Bool, Float, one_of
from regard.watching.images.families import WHOLE, Box, Grid, Patch, inside
from regard.watching.images.images import correlation
from regard.watching.questions.looks import key_side, mean_row, phrase, query_side, tokens_of, weights_to
from regard.watching.questions.sinks import named
from regard.watching.record.entries import Entry, mean_over_heads
from regard.watching.record.tokens import Place, Tokens

FITS = ("whole", "middle", "padded", "padded below")
_AGREEING, _SLACK = 0.9, 0.001  # the least correlation of patches; what an earlier way may have less than the best
_ASPECT = 0.02  # two shapes are alike if they differ by less
_MIDDLES = (1.0, 0.95, 0.9, 0.875)  # a picture is often enlarged a little before its middle is cut out
_OFTEN = 5.0  # a patch is marked from here on: its average weight over an equal share
_BORDER = 2.0  # the caption tells it from here on: the average weight on the border over that of inner patches
_ROWS = 64  # queries that the average is taken over
_MARKED = "patches that most tokens look at, whatever they are"


def _sides(entry: Entry, looked_at: bool) -> tuple[Tokens, Tokens]:
    """Return the tokens that are looked from or, with `looked_at`, looked at; and the tokens that have the patches."""
    sides = query_side(entry), key_side(entry)
    return sides[::-1] if looked_at else sides


def with_image(entries: Sequence[Entry], what: Place, looked_at: bool | None) -> tuple[list[Entry], bool]:
    """Return the entries whose patches, and whose place, are known, whatever their kinds and shapes.

    `looked_at` is returned too; None: False or, where only patches look at the place, True.
    """
    for way in (False, True) if looked_at is None else (looked_at,):
        chosen = []
        for entry in entries:
            side, patches = _sides(entry, way)
            if patches.grids and (side.named or not isinstance(what, str)):
                with suppress(InputError):
                    side.find_all(what)
                    chosen.append(entry)
        if chosen:
            return chosen, way
    looked_at = bool(looked_at)
    for entry in reversed(entries):  # the place is unknown: say which words there are, of the language model first
        side, patches = _sides(entry, looked_at)
        if patches.grids:
            side.find_all(what)
    reasons = dict.fromkeys(filter(None, (_sides(entry, looked_at)[1].unplaced for entry in entries)))
    why = f": {'; '.join(reasons)}" if reasons else ""
    raise InputError(
        f"no token of this record is known to be a patch of an image{why}. If regard does not find the images of a "
        "model by itself, give them: regard.watch(model, images=[(rows, columns)])."
    )


def over(
    entries: Sequence[Entry],
    what: Place,
    image: Any,
    *,
    number: int,
    each: str | None,
    looked_at: bool,
    fit: str | Box | None,
    sinks: Sequence[int],
    title: str,
    flow: Float[Tensor, " tokens"] | None = None,
) -> Picture:
    """Answer `Record.over`: the mean over all heads, or one panel for each; with `flow`, what a rollout found."""
    if each is not None:
        one_of("each", each, ("head", "layer", "step"))
    entries = sorted(entries, key=lambda entry: -entry.shape[2])  # of blocks at several scales, the finest first
    side, patches = _sides(entries[0], looked_at)
    grids = [grid for grid in patches.grids if grid.image == number]
    if not grids:
        numbers = ", ".join(str(n) for n in sorted({grid.image for grid in patches.grids}))
        raise InputError(f"there are images {numbers} here. Got number = {number}.")
    places = side.find_all(what)
    columns = tokens_of(places)
    rows = [] if flow is None else [flow[None]] * len(entries)
    rows = rows or [weights_to(entry, columns) if looked_at else mean_row(entry, places) for entry in entries]
    rows = [_scaled(row, _sides(entry, looked_at)[1].grids, patches) for row, entry in zip(rows, entries, strict=True)]
    panels = list(_panels(entries, rows, each))
    usual = None if looked_at else _usual_weights(entries, grids)
    pixels = seen_by(grids[0]) if image is None else as_pixels(image, grids[0].frames)
    boxes = [(grid.box, "") if image is None else fitted(pixels, grid, fit) for grid in grids]
    marks = [None if usual is None else _marked(grid, usual, sinks) for grid in grids]
    heats = []
    for name, weights in panels:
        for grid, (box, _), mark in zip(grids, boxes, marks, strict=True):
            heat = weights[grid.tokens.clamp_min(0)].double().masked_fill(grid.tokens < 0, torch.nan)
            label = ", ".join(filter(None, (name, grid.name if len(grids) > 1 else "")))
            heats.append(Heat(np.asarray(heat.numpy()), box, label, mark))
    word = phrase(side, what, places)
    if not side.named and word.isdigit():
        word = f"token {word}"
    elif not isinstance(what, Patch):
        word = f'"{word}"'
    names, steps = {entry.name: entry.shape[1] for entry in entries}, len({entry.step for entry in entries})
    heads = sum(names.values())
    layers = f"layer {entries[0].layer}" if len(names) == 1 else f"{len(names)} layers"
    layers += f", {steps} steps" if steps > 1 else ""
    which = f"head {entries[0].heads[0]}." if heads == 1 else f"mean of {heads} heads."
    notes = [f"{entries[0].kind}, {layers}, {which if len(panels) == 1 else f'{heads} heads.'}"]
    notes = notes if flow is None else [f"{entries[0].kind}, rollout through {layers}."]
    if looked_at:
        notes.append(f"Each patch is shaded by the share that it gives to {word}.")
    else:
        which = f"{word} gives" if flow is None else f"makes {word}"
        notes.append(f"Of what {which}, {_shares(torch.cat(rows).mean(0), grids, patches, sinks)}.")
    if usual is not None:
        notes.append(_on_the_border(grids, usual, [mark for mark in marks if mark is not None]))
    how = dict.fromkeys(how for _, how in boxes if how)
    notes += [f"The model was shown {' and '.join(how)}."] if how and list(how) != ["all of it"] else []
    if image is None:
        known = any(grid.brightness is not None for grid in grids)
        on = "on the brightness that the model read: no picture" if known else "without a picture: none"
        notes.append(f"Drawn {on} was given.")
    return overlay(pixels, heats, title=title, caption=" ".join(filter(None, notes)), marked=_MARKED)


def _scaled(
    weights: Float[Tensor, "_ tokens"], grids: Sequence[Grid], finest: Tokens
) -> Float[Tensor, "_ finest_tokens"]:
    """Return the numbers of each patch for all finer patches of which it covers the place."""
    if weights.shape[1] == len(finest):
        return weights
    scaled = weights.new_zeros(len(weights), len(finest))
    for coarse, fine in zip(grids, finest.grids, strict=True):
        cells = functional.interpolate(weights[:, coarse.tokens][None], fine.tokens.shape, mode="nearest-exact")
        scaled[:, fine.tokens.flatten()] = cells[0].flatten(1)
    return scaled


def _panels(
    entries: Sequence[Entry], rows: Sequence[Float[Tensor, "_ tokens"]], each: str | None
) -> Iterator[tuple[str, Float[Tensor, " tokens"]]]:
    """Yield the mean of all heads, or of each head, layer or step, under its name."""
    panels: dict[str, list[Tensor]] = {}
    numbered = len({entry.layer for entry in entries}) == len({entry.name for entry in entries})
    for entry, weights in sorted(zip(entries, rows, strict=True), key=lambda pair: pair[0].step):
        layer = f"layer {entry.layer}" if numbered else entry.name
        if each == "head":
            for head, row in zip(entry.heads, weights, strict=True):
                panels.setdefault(f"{layer.removeprefix('layer ')} · {head}", []).append(row[None])
        else:
            name = {"layer": layer, "step": f"step {entry.step}"}.get(each or "", "")
            panels.setdefault(name, []).append(weights)
    yield from ((name, torch.cat(parts).mean(0)) for name, parts in panels.items())


def _shares(weights: Float[Tensor, " tokens"], grids: Sequence[Grid], patches: Tokens, sinks: Sequence[int]) -> str:
    """Say what falls on the image, on other images, on sinks and elsewhere."""
    on_image = {token for grid in grids for token in grid.tokens.flatten().tolist()} - {-1}
    on_others = {token for grid in patches.grids for token in grid.tokens.flatten().tolist()} - {-1} - on_image
    outside = [sink for sink in sinks if sink not in on_image | on_others]
    parts = [(float(weights[list(on_image)].sum()), "falls on the image")]
    parts.append((float(weights[list(on_others)].sum()), "on other images"))
    parts += [(each.weight, f"on {each.name}") for each in named(outside, weights[outside].tolist(), patches)]
    parts.append((float(weights.sum()) - sum(weight for weight, _ in parts), "elsewhere"))
    listed = [(weight, where) for n, (weight, where) in enumerate(parts) if weight >= 0.0005 or n == 0]
    return ", ".join(f"{percent(weight)} {where}" for weight, where in listed)


# How much a patch receives from most tokens


def _usual_weights(entries: Sequence[Entry], grids: Sequence[Grid]) -> Float[Tensor, " keys"]:
    """Return what the average query gives to each key: the mean over at most 64 that see all of the image."""
    _, _, queries, keys = entries[0].shape
    after = max(int(grid.tokens.max()) for grid in grids) + 1 - (keys - queries)  # the first row that sees it all
    first = after if entries[0].kind == "decoder" and 0 < after < queries else 0
    rows = slice(first, None, max(-(-(queries - first) // _ROWS), 1))
    count = len(range(queries)[rows])
    return mean_over_heads(entries, lambda e: e.matrix.part[:, :, rows].received()[0].float().sum(0).cpu() / count)


def _marked(grid: Grid, usual: Float[Tensor, " keys"], sinks: Sequence[int]) -> NDArray[np.bool_]:
    weights = usual[grid.tokens.clamp_min(0)]
    often: Bool[Tensor, "rows columns"] = weights >= _OFTEN * float(weights[grid.tokens >= 0].mean())
    return np.asarray(((often | torch.isin(grid.tokens, torch.tensor([*sinks]))) & (grid.tokens >= 0)).numpy())


def _on_the_border(grids: Sequence[Grid], usual: Float[Tensor, " keys"], marks: Sequence[NDArray[np.bool_]]) -> str:
    """Say how many marked patches are on the border, and whether the others there are given more, whatever the word."""
    more, marked, at_edge = "", 0, 0
    for grid, mark in zip(grids, map(torch.from_numpy, marks), strict=True):
        edge = torch.ones(grid.tokens.shape, dtype=torch.bool)
        edge[1:-1, 1:-1] = False
        marked, at_edge = marked + int(mark.sum()), at_edge + int((mark & edge).sum())
        weights, rest = usual[grid.tokens.clamp_min(0)], ~mark & (grid.tokens >= 0)
        if (rest & edge).any() and (rest & ~edge).any():
            times = float(weights[rest & edge].mean()) / max(float(weights[rest & ~edge].mean()), 1e-12)
            if times >= _BORDER:
                more = f"On average, a patch on the border is given {times:.1f} times as much as an inner one."
    return " ".join(filter(None, (f"Marked patches on the border: {at_edge} of {marked}." if at_edge else "", more)))


# The user's picture


def as_pixels(image: Any, frames: int = 1) -> NDArray[np.uint8]:
    """Return an array, a tensor, a Pillow image or a file as (height, width, 3) bytes; a video as frames side by side.

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
    if pixels.ndim == 4 and len(pixels) and len(pixels) % frames == 0:  # several frames may become one for the model
        together = np.concatenate(list(pixels.reshape(frames, -1, *pixels.shape[1:]).mean(1)), 1)
        pixels = np.rint(together).astype(np.uint8) if pixels.dtype == np.uint8 else together
    pixels = pixels[..., None] if pixels.ndim == 2 else pixels
    numbers = pixels.dtype == np.uint8 or pixels.dtype.kind == "f"
    if not numbers or pixels.ndim != 3 or pixels.shape[-1] not in (1, 3, 4) or 0 in pixels.shape:
        raise InputError(
            "a picture is a file, a Pillow image, or an array (height, width, 3) of bytes or of numbers from 0 to 1. "
            f"Got {type(image).__name__} of {pixels.dtype} {pixels.shape}."
        )
    if pixels.dtype != np.uint8:
        if not (np.isfinite(pixels).all() and pixels.min() >= 0 and pixels.max() <= 1):
            raise InputError(
                "a picture of floats has numbers from 0 to 1. Is it normalised? Give the picture from before."
            )
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
    """Return the box of the picture that a grid covers, and how the picture was fitted, for a caption."""
    if isinstance(fit, str) and fit not in FITS:
        raise InputError(
            f"fit must be {', '.join(map(repr, FITS))}, or the box (top, left, bottom, right) that the model was "
            f"shown, in shares of the picture. Got {fit!r}."
        )
    regions = [("as you say", fit)] if isinstance(fit, tuple) else list(_regions(pixels.shape, grid.aspect, fit))
    scores = [_agreement(pixels, inside(region, grid.box), grid.brightness) for _, region in regions]
    best = max((score for score in scores if score is not None), default=None)
    if best is None:  # one colour, or nothing known of what the model read
        ratio = pixels.shape[1] / pixels.shape[0] / grid.aspect
        if fit is None and abs(ratio - 1) >= _ASPECT and grid.name != WHOLE:
            raise InputError(
                f"the picture is {pixels.shape[1]} × {pixels.shape[0]}, but the patches make one of {grid.aspect:.3g} "
                f": 1, and how it was fitted cannot be seen. Give fit = {', '.join(map(repr, FITS))} or a box."
            )
        first = 0
    elif best < _AGREEING:
        raise InputError(
            f"this picture is not what the model saw as image {grid.image}: its patches agree by {best:.2f} at most, "
            f"and by {_AGREEING} at least they must. Is it another picture, another number, or was it changed before? "
            "Without a picture, record.over(what) draws on what the model saw."
        )
    else:
        first = next(n for n, score in enumerate(scores) if score is not None and score >= best - _SLACK)
    name, region = regions[first]
    return inside(region, grid.box), name


def _regions(shape: tuple[int, ...], aspect: float, fit: str | None) -> Iterator[tuple[str, Box]]:
    """Yield the ways in which a picture can become another shape: which part of it is shown."""
    wider = shape[1] / shape[0] / aspect  # above 1: the picture is wider than what the model was shown

    def centred(high: float, wide: float) -> Box:
        return (1 - high) / 2, (1 - wide) / 2, (1 + high) / 2, (1 + wide) / 2

    if fit in (None, "whole"):
        yield "all of it", (0.0, 0.0, 1.0, 1.0)
    if fit in (None, "middle"):
        yield from (("its middle", centred(part * min(wider, 1.0), part * min(1 / wider, 1.0))) for part in _MIDDLES)
    high, wide = max(wider, 1.0), max(1 / wider, 1.0)
    if fit in (None, "padded"):
        yield "all of it, padded", centred(high, wide)
    if fit in (None, "padded below"):
        yield "all of it, padded", (0.0, 0.0, high, wide)


def _agreement(pixels: NDArray[np.uint8], box: Box, brightness: Float[Tensor, "rows columns"] | None) -> float | None:
    """Return how much the patches look like this part of the picture; None where that cannot be said."""
    if brightness is None or not brightness.numel():
        return None
    height, width = pixels.shape[:2]
    rows = _overlaps(box[0] * height, box[2] * height, brightness.shape[0], height)
    columns = _overlaps(box[1] * width, box[3] * width, brightness.shape[1], width)
    areas = np.outer(rows.sum(1), columns.sum(1))  # of each patch, inside the picture
    inside = areas > 0.5 * (box[2] - box[0]) * height * (box[3] - box[1]) * width / brightness.numel()
    means = rows @ pixels.mean(-1) @ columns.T / np.maximum(areas, 1e-9)
    one, other = torch.from_numpy(means[inside]), brightness.double()[torch.from_numpy(inside)]
    if len(one) < 4 or float(one.std()) < 0.5 or float(other.std()) < 1e-4 * max(1.0, float(other.abs().max())):
        return None
    return correlation(one, other)


def _overlaps(start: float, stop: float, parts: int, size: int) -> NDArray[np.float64]:
    """Return how much of each pixel, of `size`, lies in each of the equal parts from start to stop."""
    edges, pixels = np.linspace(start, stop, parts + 1), np.arange(size)
    overlaps = np.minimum(edges[1:, None], pixels + 1) - np.maximum(edges[:-1, None], pixels)
    return np.asarray(np.maximum(overlaps, 0.0))


def seen_by(grid: Grid) -> NDArray[np.uint8]:
    """Return what a grid of patches saw, a pixel for each patch: a background where the user has no picture."""
    if grid.brightness is None:
        return np.full((*grid.tokens.shape, 3), 200, np.uint8)
    numbers = grid.brightness.double().numpy()
    low, high = float(numbers.min()), float(numbers.max())
    grey = np.rint(30 + 210 * (numbers - low) / ((high - low) or 1.0)).astype(np.uint8)
    return grey[..., None].repeat(3, -1)
