"""A record as a picture: lines, matrix and flow word by word; grid and map for texts of any length."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from regard.drawing import flow, grid, landscape, lines, matrix
from regard.drawing.maps import landmarks
from regard.errors import InputError, TooLargeError
from regard.support import one_of, some_of
from regard.watching.entries import Entry, mean_over_heads
from regard.watching.rankings import Spans, key_side, query_side, spans

if TYPE_CHECKING:
    from regard.drawing import Picture

__all__ = ["KINDS", "picture"]

KINDS = ("lines", "matrix", "grid", "flow", "map")
_WORDS = 200  # on a side, at most, for pictures that show them one by one
_BINS, _THUMBNAIL = 192, 64  # on a side, of a map and of each matrix in a grid


def picture(
    entries: Sequence[Entry], kind: str, word: str | int | None, sequence: int, title: str, unseen: Collection[str] = ()
) -> Picture:
    """What `Record.picture` returns: of entries of one kind and shape, the mean over their heads."""
    one_of("picture", kind, KINDS)
    if word is not None and kind not in ("lines", "flow"):
        raise InputError(f"a word is picked in lines and in a flow. Got word = {word!r} for a {kind}.")
    draw = {"lines": _lines, "matrix": _matrix, "grid": _grid, "flow": _flow, "map": _map}[kind]
    drawn = draw(entries, word, sequence, title)
    if not unseen:
        return drawn
    return replace(drawn, caption=f"{drawn.caption} Not seen: {some_of(unseen)}.".strip())


def _lines(entries: Sequence[Entry], word: str | int | None, sequence: int, title: str) -> Picture:
    words = _by_word(entries, sequence)
    return lines(
        _numbers(words.weights), words.names, words.key_names, pick=_pick(words, word), title=title,
        caption=_caption(entries),
    )  # fmt: skip


def _matrix(entries: Sequence[Entry], _: str | int | None, sequence: int, title: str) -> Picture:
    words = _by_word(entries, sequence)
    return matrix(_numbers(words.weights), words.names, words.key_names, title=title, caption=_caption(entries))


def _grid(entries: Sequence[Entry], _: str | int | None, sequence: int, title: str) -> Picture:
    layers = [_numbers(_pool(entry, _THUMBNAIL)[sequence]) for entry in entries]
    queries, keys = entries[0].shape[2:]
    layered = f"{len(entries)} layer{'s' * (len(entries) > 1)}"
    note = f"{layered}, {sum(map(len, layers))} heads; {queries:,} × {keys:,} tokens."
    numbers = [[(entry.layer, head) for head in entry.heads] for entry in entries]
    return grid(layers, numbers=numbers, title=title, caption=note)


def _flow(entries: Sequence[Entry], word: str | int | None, sequence: int, title: str) -> Picture:
    if entries[0].kind == "cross":
        raise InputError('a flow follows words through layers that look at themselves. Choose kind = "encoder".')
    layers = [_by_word([entry], sequence) for entry in entries]
    (start,) = _pick(layers[0], -1 if word is None else word) or (len(layers[0].names) - 1,)
    note = (
        "The mean over the heads of each layer, residuals left out. Layers count from 1 here: what each of them gives."
    )
    return flow([_numbers(layer.weights) for layer in layers], layers[0].names, start, title=title, caption=note)


def _map(entries: Sequence[Entry], _: str | int | None, sequence: int, title: str) -> Picture:
    pool = mean_over_heads(entries, lambda entry: _numbers(_pool(entry, _BINS)[sequence]).sum(0))
    words = query_side(entries[0], sequence).words if entries[0].tokens is not None else ()
    marks = landmarks([word.text for word in words], [word.start for word in words])
    return landscape(pool, entries[0].shape[2:], landmarks=marks, title=title, caption=_caption(entries))


def _pool(entry: Entry, bins: int) -> Tensor:
    """The matrix in bins × bins or, where only a pool was kept, that one in its own size."""
    if entry.reductions is not None and "pool" in entry.reductions:
        return entry.reductions["pool"]
    return entry.pool(bins, bins)


def _by_word(entries: Sequence[Entry], sequence: int) -> Spans:
    counts = [len(side(entries[0], sequence).words) for side in (query_side, key_side)]
    if max(counts) > _WORDS:
        raise TooLargeError(
            f"{max(counts):,} words are too many to be drawn one by one (at most {_WORDS}). Draw a map or a grid, or "
            "ask record.spans(…) for passages."
        )
    return spans(entries, "word", sequence)


def _pick(words: Spans, word: str | int | None) -> tuple[int, ...] | None:
    """The places of a word: all of them where it occurs several times."""
    if word is None:
        return None
    if isinstance(word, int):
        return (word % len(words.names),)
    hits = tuple(n for n, name in enumerate(words.names) if _same(name, word))
    if not hits:
        raise InputError(f"{word!r} is not among the words: {', '.join(words.names)}.")
    return hits


def _same(name: str, word: str) -> bool:
    stem, _, count = name.rpartition(" ")  # "dog 2" is the second "dog"
    return word.casefold() in (name.casefold(), stem.casefold() if count.isdigit() else None)


def _caption(entries: Sequence[Entry]) -> str:
    heads = sum(entry.shape[1] for entry in entries)
    layers = f"layer {entries[0].layer}" if len(entries) == 1 else f"{len(entries)} layers"
    one = heads == 1
    return f"{entries[0].kind}, {layers}, " + (f"head {entries[0].heads[0]}." if one else f"the mean of {heads} heads.")


def _numbers(tensor: Tensor) -> NDArray[Any]:
    return np.asarray(tensor.detach().double().cpu().numpy())
