"""A record as a picture: lines, matrix and flow word by word; grid and map for texts of any length."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from regard.drawing import flow, grid, landscape, lines, matrix
from regard.drawing.maps import Pool, landmarks
from regard.drawing.terminal import percent
from regard.errors import InputError
from regard.maps import MapEntry, MatrixFeed
from regard.support import Float, one_of, progress, some_of, threads
from regard.watching.questions.passages import Passage, by_word, flow_layers
from regard.watching.questions.rankings import key_side, query_side
from regard.watching.questions.sinks import Sinks, named, to_own
from regard.watching.record.entries import Entry
from regard.watching.record.tokens import Place

if TYPE_CHECKING:
    from regard.drawing import Picture

__all__ = ["KINDS", "map_feed", "picture"]

KINDS = ("lines", "matrix", "grid", "flow", "map")
_NAMED = 64  # words on a side of a matrix up to which one finds one's own
_BINS, _THUMBNAIL = 192, 64  # on a side, of a map and of each matrix in a grid


def picture(
    entries: Sequence[Entry],
    kind: str,
    word: Place | None,
    title: str,
    unseen: Collection[str] = (),
    around: Place | None = None,
    sinks: Sinks = None,
) -> Picture:
    """What `Record.picture` returns: of entries of one kind and shape, the mean over their heads.

    Lines and flows set the `sinks` aside; a matrix, a grid and a map show all there is.
    """
    one_of("picture", kind, KINDS)
    if kind in ("grid", "map") and (word is not None or around is not None):
        name, place = ("word", word) if word is not None else ("around", around)
        raise InputError(f"a {kind} shows the whole text, lines, matrix and flow a word in it. Got {name} = {place!r}.")
    if kind in ("grid", "map"):
        drawn = (_grid if kind == "grid" else _map)(entries, title)
    else:
        drawn = {"lines": _lines, "matrix": _matrix, "flow": _flow}[kind](entries, word, around, title, sinks)
    if not unseen:
        return drawn
    return replace(drawn, caption=f"{drawn.caption} Not seen: {some_of(unseen)}.".strip())


def _lines(
    entries: Sequence[Entry], word: Place | None, around: Place | None, title: str, sinks: Sinks
) -> Picture:  # fmt: skip
    crop = by_word(entries, word, around, sinks)
    caption, picked = _caption(entries, crop.note()), crop.rows.picked
    if names := _names(entries, sinks):
        rested = crop.rested[list(picked)] if picked else crop.rested
        whose = f' of "{crop.rows.names[picked[0]]}"' if picked else ""
        caption += f" {percent(float(rested.mean()))}{whose} rests on {names}; lines are shares of the rest."
    return lines(
        _numbers(crop.weights), crop.rows.names, crop.key_names, pick=picked or None, title=title, caption=caption,
    )  # fmt: skip


def _matrix(
    entries: Sequence[Entry], word: Place | None, around: Place | None, title: str, _: Sinks
) -> Picture:  # fmt: skip
    crop = by_word(entries, word, around, whole=_NAMED)
    crop = replace(crop, rows=replace(crop.rows, picked=()))  # no row stands out
    caption = _caption(entries, crop.note())
    return matrix(_numbers(crop.weights), crop.rows.names, crop.key_names, title=title, caption=caption)


def _grid(entries: Sequence[Entry], title: str) -> Picture:
    layers = _pooled(entries, _THUMBNAIL)
    queries, keys = entries[0].shape[2:]
    layered = f"{len(entries)} layer{'s' * (len(entries) > 1)}"
    note = f"{layered}, {sum(map(len, layers))} heads; {queries:,} × {keys:,} tokens."
    numbers = [[(entry.layer, head) for head in entry.heads] for entry in entries]
    return grid(layers, numbers=numbers, title=title, caption=note)


def _flow(
    entries: Sequence[Entry], word: Place | None, around: Place | None, title: str, sinks: Sinks
) -> Picture:  # fmt: skip
    if entries[0].kind == "cross":
        raise InputError('a flow follows words through layers that look at themselves. Choose kind = "encoder".')
    if entries[0].shape[2] != entries[0].shape[3]:
        raise InputError(f"a flow follows words that look at each other. Got {entries[0]!r}.")
    side = query_side(entries[0])
    if word is None:
        word = side.words[-1].tokens if around is None else around
    passage = Passage.of(side, word, around, first=True)
    names, layers, start, rested = flow_layers(entries, passage, sinks)
    note = (
        "The mean over the heads of each layer, residuals left out. Layers count from 1 here: what each of them gives."
    )
    if rested is not None and (aside := _names(entries, sinks)):
        note += f" {percent(rested)} rests on {aside} and stays where it is."
        if entries[0].kind == "decoder":
            note += " All else moves to the left only: in a deep model it gathers at the first words."
    rest = "“…” stands for all words before the passage, or after it." if passage.cropped else ""
    caption = " ".join(filter(None, (note, passage.note(), rest)))
    return flow([_numbers(layer) for layer in layers], names, start, title=title, caption=caption)


def _map(entries: Sequence[Entry], title: str) -> Picture:
    feed, (queries, keys) = map_feed(entries, title), entries[0].shape[2:]

    def compute() -> NDArray[Any]:
        layers = _pooled(entries, _BINS)
        return np.asarray(sum(layer.sum(0) for layer in layers) / sum(map(len, layers)))

    # Without a feed it may be a pool that was kept, in a size of its own.
    pool = compute() if feed is None else Pool((min(_BINS, queries), min(_BINS, keys)), compute)
    words = query_side(entries[0]).words if entries[0].tokens is not None else ()
    marks = landmarks([word.text for word in words], [word.start for word in words])
    drawn = landscape(pool, (queries, keys), landmarks=marks, title=title, caption=_caption(entries))
    return replace(drawn, feed=feed)


def map_feed(entries: Sequence[Entry], title: str = "", note: str = "") -> MatrixFeed | None:
    """What a map of entries of one kind and shape is drawn from; None where only reductions were kept."""
    if any(entry.attention is None for entry in entries):
        return None
    first = entries[0]
    rows = None if first.tokens is None else first.tokens[0].texts()
    columns = None if first.key_tokens is None else first.key_tokens[0].texts()
    maps = [MapEntry(entry.matrix.part[0], entry.heads, entry.name, entry.kind, entry.layer) for entry in entries]
    return MatrixFeed(maps, rows, columns, title=title, note=note)


def _names(entries: Sequence[Entry], sinks: Sinks) -> str:
    """The sinks that are set aside, in words; nothing where there is none."""
    if sinks is None:
        return ""
    own = float(to_own(entries).mean())
    return " and ".join(each.name for each in named(sinks, [0.0] * len(sinks), key_side(entries[0]), own))


def _pooled(entries: Sequence[Entry], bins: int) -> list[NDArray[Any]]:
    """Of each layer, the heads of one sequence in bins × bins: one sweep for all heads, and none over the others."""
    layers = []
    with progress("reading the attention", total=len(entries)) as advance:
        for entry in entries:
            layers.append(_numbers(_pool(entry, bins)))
            advance(1)
    return layers


def _pool(entry: Entry, bins: int) -> Float[Tensor, "heads rows columns"]:
    """The matrix in bins × bins or, where only a pool was kept, that one in its own size."""
    if entry.reductions is not None and "pool" in entry.reductions:
        return entry.reductions["pool"][0]
    if entry.attention is None:
        return entry.pool(bins, bins)[0]  # raises: it was not kept
    _, heads, queries, keys = entry.shape
    width = 1 if entry.call is None else entry.call.query.shape[-1]
    with threads(heads * queries * keys * width):
        return entry.attention.part[0].pool(bins, bins)


def _caption(entries: Sequence[Entry], more: str = "") -> str:
    heads = sum(entry.shape[1] for entry in entries)
    layers = f"layer {entries[0].layer}" if len(entries) == 1 else f"{len(entries)} layers"
    one = heads == 1
    mean = f"head {entries[0].heads[0]}." if one else f"the mean of {heads} heads."
    return f"{entries[0].kind}, {layers}, {mean} {more}".strip()


def _numbers(tensor: Tensor) -> NDArray[Any]:
    return np.asarray(tensor.detach().double().cpu().numpy())
