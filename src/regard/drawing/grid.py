"""`grid`: every head of every layer as a thumbnail, in its place or sorted."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray
from rich.text import Text

from regard.drawing.arguments import as_numbers, as_words
from regard.drawing.picture import Picture
from regard.drawing.pooling import pooled, spans
from regard.drawing.shades import shaded
from regard.drawing.svg import Canvas, Raster, shorten
from regard.errors import ShapeError

__all__ = ["grid"]

_NUMBERS = 700_000  # in all thumbnails together: with four bytes each, a page stays within its budget
_BINS = 64
_ABREAST = 12  # thumbnails in a line where there is no layer to keep together


def grid(
    weights: NDArray[np.floating] | Sequence[NDArray[np.floating]],
    rows: Iterable[str] | None = None,
    columns: Iterable[str] | None = None,
    *,
    captions: Sequence[Sequence[str]] | None = None,
    numbers: Sequence[Sequence[tuple[int, int]]] | None = None,
    sort: NDArray[np.floating] | None = None,
    title: str = "",
    caption: str = "",
) -> Picture:
    """Weights (layers, heads, rows, columns) as thumbnails, a line for each layer; or sorted, the greatest first.

    `captions` and `sort` have a text, and a number, for each layer and head; `numbers` has the (layer, head) to name it
    by, where they are not counted from 0.

    >>> heads = np.random.default_rng(0).dirichlet(np.ones(4), size=(2, 3, 4))
    >>> seen = grid(heads, "a dog ate it".split(), sort=heads.max((-2, -1)))
    >>> seen.to_svg().count("<image")
    6
    """
    layers = [np.asarray(layer) for layer in weights]
    # Layer by layer, so that nothing as large as all of them is made beside them.
    bins = max(min(math.isqrt(_NUMBERS // max(sum(map(len, layers)), 1)), _BINS), 8)
    axes = ("heads", "rows", "columns")
    small = [pooled(as_numbers(f"weights[{n}]", layer, axes), bins, bins) for n, layer in enumerate(layers)]
    if not layers:
        raise ShapeError("weights must be (layers, heads, rows, columns), each at least 1. Got no layer.")
    if len({layer.shape[1:] for layer in layers}) > 1:
        shapes = ", ".join(str(layer.shape) for layer in layers)
        raise ShapeError(f"the layers must have the same rows and columns. Got {shapes}. Draw one grid for each.")
    height, width = layers[0].shape[1:]
    left = as_words("rows", rows, height, "weights' rows")
    right = left if columns is None and height == width else as_words("columns", columns, width, "weights' columns")
    order = [(layer, head) for layer, heads in enumerate(small) for head in range(len(heads))]
    if sort is not None:
        key = as_numbers("sort", sort, ("layers", "heads"))
        _same_shape("sort", [len(line) for line in key], small)
        order.sort(key=lambda place: -float(key[place]))
        said = {place: f"{key[place]:.3g}" for place in order}
    else:
        said = {}
    if captions is not None:
        _same_shape("captions", [len(line) for line in captions], small)
        said = {(layer, head): captions[layer][head] for layer, head in order}
    tags = {place: place for place in order}
    if numbers is not None:
        _same_shape("numbers", [len(line) for line in numbers], small)
        tags = {(layer, head): numbers[layer][head] for layer, head in order}
    notes = [caption, "Named layer · head; each is shaded up to its own greatest weight, by the square root."]
    if max(height, width) > bins:
        shape = small[0].shape
        notes.append(f"Each cell is the mean of about {height / shape[1]:.0f} × {width / shape[2]:.0f} weights.")
    lines = _lines(order, in_place=sort is None)

    def draw(canvas: Canvas) -> None:
        labels = {"rows": spans(left, small[0].shape[1]), "columns": spans(right, small[0].shape[2])}
        canvas.labels |= labels
        wide, tall = _thumbnail(small[0].shape[1:])
        step = tall + (34 if said else 20)
        for n, line in enumerate(lines):
            for m, (layer, head) in enumerate(line):
                values = small[layer][head]
                greatest = float(np.nanmax(values, initial=0.0)) or 1.0
                x, y = m * (wide + 12), n * step + 14
                name = "layer {}, head {}".format(*tags[layer, head])
                canvas.text(x, y - 4, "{} · {}".format(*tags[layer, head]), 11, fill=canvas.theme.muted, title=name)
                canvas.image(x, y, wide, tall, Raster(values, name, "rows", "columns"), np.sqrt(values / greatest))
                canvas.rect(x, y, wide, tall, stroke=canvas.theme.faint, pointer_events="none")
                if said:
                    word = said[layer, head]
                    canvas.text(x, y + tall + 13, shorten(word, wide, 11), 11, title=word)

    def text(room: int) -> Text:
        return _text(small, left, lines, tags, said, room)

    held = {f"layer {tags[n, 0][0]}": layer for n, layer in enumerate(small)}
    return Picture("grid", held, draw, text, title, " ".join(filter(None, notes)), left)


def _same_shape(name: str, got: list[int], layers: Sequence[NDArray[np.floating]]) -> None:
    want = [len(layer) for layer in layers]
    if got != want:
        raise ShapeError(f"{name} must have one for each head of each layer: heads = {want}. Got {got}.")


def _lines(order: list[tuple[int, int]], in_place: bool) -> list[list[tuple[int, int]]]:
    """What stands in a line: the heads of a layer, if they are few enough; else as many as look well."""
    if not in_place:
        return [order[start : start + _ABREAST] for start in range(0, len(order), _ABREAST)]
    lines = []
    for layer in range(order[-1][0] + 1):
        heads = [place for place in order if place[0] == layer]
        lines += [heads[start : start + 16] for start in range(0, len(heads), 16)]
    return lines


def _thumbnail(shape: tuple[int, ...]) -> tuple[float, float]:
    longest = max(shape)
    return 84.0 * max(shape[1] / longest, 0.25), 84.0 * max(shape[0] / longest, 0.25)


def _text(
    small: Sequence[NDArray[np.floating]],
    rows: Sequence[str],
    lines: list[list[tuple[int, int]]],
    tags: dict[tuple[int, int], tuple[int, int]],
    said: dict[tuple[int, int], str],
    width: int,
) -> Text:
    """Small thumbnails abreast, eight numbers on a side."""
    abreast = max((width + 2) // 18, 1)
    blocks = []
    for whole in lines:
        for start in range(0, len(whole), abreast):
            line = whole[start : start + abreast]
            drawn = []
            for layer, head in line:
                body = shaded(np.sqrt(pooled(small[layer][head], 8, 8)), [""] * min(len(rows), 8), 34)
                word = said.get((layer, head), "")
                drawn.append(
                    [
                        Text("{}·{} {}".format(*tags[layer, head], word)[:16], "cyan"),
                        *(part[1:] for part in body.split("\n")),
                    ]
                )
            blocks.append(_abreast(drawn))
    shown = blocks[:40]
    if len(blocks) > len(shown):
        shown.append(Text(f"… {len(blocks) - 40} lines more", "dim"))
    return Text("\n").join(shown)


def _abreast(blocks: list[list[Text]]) -> Text:
    lines = []
    for parts in zip(*blocks, strict=True):
        line = Text()
        for n, part in enumerate(parts):
            line.append(" " * (18 * n - line.cell_len))
            line.append_text(part)
        line.rstrip()
        lines.append(line)
    return Text("\n").join(lines)
