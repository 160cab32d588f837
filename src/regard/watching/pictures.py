"""A record as a picture: lines, matrix, grid, flow or map, by words where they are short enough to be read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from regard.drawing import flow, grid, landscape, lines, matrix
from regard.errors import InputError, TooLargeError
from regard.support import one_of
from regard.watching.entry import Entry
from regard.watching.looks import key_side, query_side
from regard.watching.spans import Spans, spans
from regard.watching.tokens import Tokens

if TYPE_CHECKING:
    from regard.drawing import Picture

__all__ = ["KINDS", "picture"]

KINDS = ("lines", "matrix", "grid", "flow", "map")
_WORDS = 200  # on a side, for pictures that show them one by one
_BINS, _LANDMARKS = 192, 16
_THUMBNAIL = 64


def picture(entries: Sequence[Entry], kind: str, word: str | int | None, sequence: int, title: str) -> Picture:
    """What `Record.picture` gives: of some entries of one kind and shape, the mean over their heads."""
    one_of("picture", kind, KINDS)
    if word is not None and kind not in ("lines", "flow"):
        raise InputError(f"a word is picked in lines and in a flow. Got word = {word!r} for a {kind}.")
    draw = {"lines": _lines, "matrix": _matrix, "grid": _grid, "flow": _flow, "map": _map}[kind]
    return draw(entries, word, sequence, title)


def _lines(entries: Sequence[Entry], word: str | int | None, sequence: int, title: str) -> Picture:
    found = _by_word(entries, sequence)
    return lines(
        _numbers(found.weights), found.names, found.key_names, pick=_pick(found, word), title=title,
        caption=_said(entries),
    )  # fmt: skip


def _matrix(entries: Sequence[Entry], _: str | int | None, sequence: int, title: str) -> Picture:
    found = _by_word(entries, sequence)
    return matrix(_numbers(found.weights), found.names, found.key_names, title=title, caption=_said(entries))


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
    return flow([_numbers(found.weights) for found in layers], layers[0].names, start, title=title, caption=note)


def _map(entries: Sequence[Entry], _: str | int | None, sequence: int, title: str) -> Picture:
    total, heads = 0.0, 0
    for entry in entries:
        total, heads = total + _numbers(_pool(entry, _BINS)[sequence]).sum(0), heads + entry.shape[1]
    queries, keys = entries[0].shape[2:]
    marks = _landmarks(query_side(entries[0], sequence), queries) if entries[0].tokens is not None else []
    return landscape(np.asarray(total) / heads, (queries, keys), landmarks=marks, title=title, caption=_said(entries))


def _pool(entry: Entry, bins: int) -> Tensor:
    """As many bins as asked for or, where a smaller picture was kept, that one."""
    if entry.kept is not None and entry.kept.pool is not None:
        return entry.kept.pool
    return entry.pool(bins, bins)


def _by_word(entries: Sequence[Entry], sequence: int) -> Spans:
    counts = [len(side(entries[0], sequence).words) for side in (query_side, key_side)]
    if max(counts) > _WORDS:
        raise TooLargeError(
            f"{max(counts):,} words are too many to be drawn one by one (at most {_WORDS}). Draw a map or a grid, or "
            "ask record.spans(…) for passages."
        )
    return spans(entries, "word", sequence)


def _pick(found: Spans, word: str | int | None) -> tuple[int, ...] | None:
    """The places of a word; a word that stands there several times stands out in each of them."""
    if word is None:
        return None
    if isinstance(word, int):
        return (word % len(found.names),)
    hits = tuple(n for n, name in enumerate(found.names) if _same(name, word))
    if not hits:
        raise InputError(f"{word!r} is not among the words: {', '.join(found.names)}.")
    return hits


def _same(name: str, word: str) -> bool:
    head, _, count = name.rpartition(" ")
    return word.casefold() in (name.casefold(), head.casefold() if count.isdigit() else None)


def _said(entries: Sequence[Entry]) -> str:
    heads = sum(entry.shape[1] for entry in entries)
    layers = f"layer {entries[0].layer}" if len(entries) == 1 else f"{len(entries)} layers"
    one = heads == 1
    return f"{entries[0].kind}, {layers}, " + (f"head {entries[0].heads[0]}." if one else f"the mean of {heads} heads.")


def _landmarks(tokens: Tokens, length: int) -> list[tuple[int, str]]:
    words = tokens.words
    step = max(len(words) // _LANDMARKS, 1)
    return [
        (words[n].start, " ".join(word.text for word in words[n : n + 4]))
        for n in range(0, len(words), step)
        if words[n].start < length
    ]


def _numbers(tensor: Tensor) -> NDArray[Any]:
    return np.asarray(tensor.detach().double().cpu().numpy())
