"""What a word or a patch looks at in an image, over the image; and the patches that everything looks at."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.drawing import Heat, overlay
from regard.drawing.terminal import percent
from regard.errors import InputError
from regard.support import Bool, Float, one_of
from regard.watching.images.framing import as_pixels, fitted, seen_by
from regard.watching.images.patches import Box, Grid, Patch
from regard.watching.questions.rankings import given_to, key_side, mean_row, phrase, query_side, tokens_of
from regard.watching.questions.sinks import named
from regard.watching.record.entries import Entry, mean_over_heads
from regard.watching.record.tokens import Place, Tokens

if TYPE_CHECKING:
    from regard.drawing import Picture

__all__ = ["Asked", "over", "with_image"]

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
        return given_to(entry, tokens_of(places))
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
