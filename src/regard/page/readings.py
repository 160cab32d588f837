"""`Reading`: what a model did with one text, as the page asks for it; `Readings`: those that are kept."""

from __future__ import annotations

import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.errors import InputError, OutOfRangeError
from regard.page.inside import Inside
from regard.watching import Entry
from regard.watching.rankings import key_side
from regard.watching.roles import Role
from regard.watching.sinks import find_sinks
from regard.watching.tokens import Tokens

__all__ = ["DENSE", "LISTED", "Part", "Reading", "Readings", "sides_of"]

DENSE = 1 << 21  # weights in one answer
LISTED = 4096  # tokens in one answer
_THUMBNAIL, _BINS = 32, 512  # bins on a side
_WORK = 1 << 34  # multiply-adds for one tile


class Reading:
    """The attention of a model on a text: its sides (the texts that look and are looked at) and its entries."""

    def __init__(
        self,
        entries: Sequence[Entry],
        *,
        text: str,
        roles: Sequence[Sequence[Role]],
        sequence: int = 0,
        written: str | None = None,
        confidence: float | None = None,
        note: str = "",
        took: float = 0.0,
        more: Mapping[str, Any] | None = None,
        inside: Inside | None = None,
    ):
        self.entries, self.sequence, self.roles = tuple(entries), sequence, roles
        self.text, self.written, self.confidence, self.note, self.took = text, written, confidence, note, took
        self.more, self.inside = dict(more or {}), inside
        self.sides, self.places = sides_of(self.entries, sequence)

    def about(self) -> dict[str, Any]:
        """Everything that is not a weight, for JSON."""
        entries = [
            {
                "name": entry.name, "kind": entry.kind, "layer": entry.layer, "heads": list(entry.heads),
                "queries": entry.shape[2], "keys": entry.shape[3], "rows": rows, "columns": columns,
                "roles": [role.name for role in roles], "shares": [round(role.share, 4) for role in roles],
                "sinks": self._sinks[entry.kind, entry.shape[2:]],
            }
            for entry, (rows, columns), roles in zip(self.entries, self.places, self.roles, strict=True)
        ]  # fmt: skip
        sides: dict[str, Any] = {"source": None, "target": None}
        sides |= {name: _describe(side) for name, side in self.sides.items()}
        return {
            "text": self.text, "written": self.written, "confidence": self.confidence, "note": self.note,
            "sides": sides, "entries": entries, "took": round(self.took, 4),
        } | self.more  # fmt: skip

    @cached_property
    def _sinks(self) -> dict[tuple[object, ...], list[int]]:
        """The keys that answers set aside, of all entries of one kind and shape."""
        alike: dict[tuple[object, ...], list[Entry]] = {}
        for entry in self.entries:
            alike.setdefault((entry.kind, entry.shape[2:]), []).append(entry)
        return {of: list(find_sinks(found, key_side(found[0], self.sequence), self.sequence)) for of, found in alike.items()}

    @cached_property
    def size(self) -> int:
        """The bytes that it holds: each tensor once."""
        tensors: list[Tensor] = [] if self.inside is None else self.inside.tensors()
        for entry in self.entries:
            if entry.call is not None:
                tensors += [entry.call.query, entry.call.key, *entry.call.mask.tensors]
        stored = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in tensors}
        words = sum(100 * len(side) for side in self.sides.values())
        return sum(stored.values()) + words + len(self.text)

    def entry(self, index: int) -> Entry:
        """The entry of this number."""
        if not 0 <= index < len(self.entries):
            raise OutOfRangeError(f"entry must be from 0 to {len(self.entries) - 1}. Got {index}.")
        return self.entries[index]

    def side(self, name: str) -> Tokens:
        """The tokens of a side."""
        if name not in self.sides:
            raise InputError(f"side must be one of {', '.join(self.sides)}.")
        return self.sides[name]

    @torch.no_grad()
    def weights(self, index: int) -> NDArray[np.float32]:
        """All weights of an entry (heads, queries, keys), if there are few enough."""
        entry = self.entry(index)
        _, heads, queries, keys = entry.shape
        if heads * queries * keys > DENSE:
            raise InputError(
                f"{heads} heads × {queries:,} × {keys:,} weights are more than {DENSE:,}: ask for tiles of them."
            )
        return _numbers(entry.matrix[self.sequence])

    @torch.no_grad()
    def thumbnails(self, index: int) -> NDArray[np.float32]:
        """Each head of an entry as a small picture."""
        return _numbers(self.entry(index).matrix.part[self.sequence].pool(_THUMBNAIL, _THUMBNAIL))

    @torch.no_grad()
    def tile(
        self, heads: Sequence[tuple[int, int]], rows: tuple[int, int], columns: tuple[int, int], bins: tuple[int, int]
    ) -> NDArray[np.float32]:
        """The mean over some heads of a part of the matrix, averaged over bins."""
        total: Tensor | None = None
        shapes = {self.entry(index).shape[2:] for index, _ in heads}
        if len(shapes) != 1:
            raise InputError("the heads of a tile must look from the same text to the same text.")
        ((queries, keys),) = shapes
        for name, (start, stop), most in (("rows", rows, queries), ("columns", columns, keys)):
            if not 0 <= start < stop <= most:
                raise OutOfRangeError(f"{name} must be from 0 to {most}, and at least one. Got {start} to {stop}.")
        if not all(0 < n <= _BINS for n in bins):
            raise InputError(f"bins must be from 1 to {_BINS} on each side. Got {bins[0]} and {bins[1]}.")
        for index, head in heads:
            entry = self.entry(index)
            if head not in entry.heads:
                raise OutOfRangeError(f"{entry.name} has heads {entry.heads.start} to {entry.heads.stop - 1}.")
            place = head - entry.first_head
            part = entry.matrix.part[self.sequence, place, rows[0] : rows[1], columns[0] : columns[1]]
            pool = part.pool(min(bins[0], rows[1] - rows[0]), min(bins[1], columns[1] - columns[0])).float()
            total = pool if total is None else total + pool
        assert total is not None
        return _numbers(total / len(heads))


def sides_of(entries: Sequence[Entry], sequence: int) -> tuple[dict[str, Tokens], list[tuple[str, str]]]:
    """The texts of some entries by name, and which of them each entry's rows and columns are.

    "source" is the text that was given. A model that writes another has a "target" too: the rows of cross-attention,
    named after what they write. What its decoder reads, the same from a start on, is "read".
    """
    pair = any(entry.kind == "cross" for entry in entries)
    sides: dict[str, Tokens] = {}
    places = []
    for entry in entries:
        own = "read" if pair and entry.kind == "decoder" else "source"
        names = ("target", "source") if entry.kind == "cross" else (own, own)
        place = []
        for name, tokens, length in zip(names, (entry.tokens, entry.key_tokens), entry.shape[2:], strict=True):
            side = Tokens.numbered(length) if tokens is None else tokens[sequence]
            while name in sides and len(sides[name]) != length:  # a layer of another resolution
                name += "+"
            if name not in sides or (side.named and not sides[name].named):
                sides[name] = side
            place.append(name)
        places.append((place[0], place[1]))
    return sides, places


def _describe(side: Tokens) -> dict[str, Any]:
    few = len(side) <= LISTED
    words = [[word.text, word.start, word.stop] for word in side.words] if few and side.named else None
    special = [position for position in range(len(side)) if side.is_special(position)] if few else []
    return {"count": len(side), "tokens": list(side) if few else [], "words": words, "special": special}


def _numbers(tensor: Tensor) -> NDArray[np.float32]:
    return np.ascontiguousarray(tensor.detach().cpu().to(torch.float32).numpy())


@dataclass(eq=False)
class Part:
    """A text that was read, and how to look at it: `open` is work for the model's thread, and done once."""

    open: Callable[[], Reading]
    reading: Reading | None = None
    place: dict[str, Any] | None = None  # which part of a longer text
    id: str = field(default_factory=lambda: secrets.token_urlsafe(12))

    def describe(self) -> dict[str, Any]:
        """READING, of a part that is open."""
        assert self.reading is not None
        place = {} if self.place is None else {"part": self.place}
        return {"id": self.id} | self.reading.about() | place


class Readings:
    """The parts that are kept, by their unguessable names: those that were used last, up to a number and to a size."""

    def __init__(self, most: int = 4096, largest: int = 1 << 30):
        self._most, self._largest = most, largest
        self._parts: OrderedDict[str, Part] = OrderedDict()
        self._pinned: set[str] = set()
        self._lock = threading.Lock()

    def add(self, parts: Sequence[Part], *, pinned: bool = False) -> None:
        """Keep the parts of a text; the first is the one in use. Pinned ones stay."""
        if len(parts) > 1:
            names = [part.id for part in parts]
            for n, part in enumerate(parts):
                part.place = {"index": n, "count": len(parts), "ids": names}
        with self._lock:
            for part in reversed(parts):
                self._parts[part.id] = part
                if pinned:
                    self._pinned.add(part.id)
        self.trim()

    def get(self, name: str) -> Part | None:
        """The part of this name, if it is still there; it is the last that goes now."""
        with self._lock:
            part = self._parts.get(name)
            if part is not None:
                self._parts.move_to_end(name)
            return part

    def trim(self) -> None:
        """Let go what was not used for longest, down to the limits; the one used last stays in any case."""
        with self._lock:
            size = sum(part.reading.size for part in self._parts.values() if part.reading is not None)
            for name, part in list(self._parts.items())[:-1]:
                if len(self._parts) <= self._most and size <= self._largest:
                    break
                if name not in self._pinned and (len(self._parts) > self._most or part.reading is not None):
                    size -= 0 if part.reading is None else part.reading.size
                    del self._parts[name]

    def __len__(self) -> int:
        return len(self._parts)
