"""`Link`: attention from some words to others, to be cut or steered; `LocatedLink`: the same in tokens of a text."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import torch
from torch import Tensor

from regard.errors import DTypeError, InputError
from regard.scores import Band, Cut, Mask
from regard.support import one_of, whole
from regard.watching.images.families import Patch
from regard.watching.record.tokens import Place, Tokens

__all__ = ["Link", "LocatedLink", "locate"]

_END = 2**60  # of a span that goes on with the text
_RUNS = 4  # occurrences of a word up to which each is a cut of its own
_KINDS = ("encoder", "decoder", "cross")


@dataclass(frozen=True)
class Link:
    """Attention from some words to others: what `watch` and `effect` can do without, or steer.

    A place is a word or several in a row, the number of a token (without padding), a range or slice of tokens, a patch
    of an image, or None for all tokens. A word that occurs several times stands for all its occurrences; "the old [dog]
    slept" is one of them. `back`: only to keys so many tokens before the query, as a number or a slice. Without
    `layers`, `heads` or `kind` ("encoder", "decoder", "cross") it is a link in all of them; layer -1 is the last.

    >>> print(Link("it", "dog", layers=range(4, 8), heads=[3]))
    it → dog (layers 4 to 7, head 3)
    >>> print(Link(None, slice(0, 100)), "|", Link(back=1), "|", Link("it", back=slice(64, None)))
    all tokens → tokens 0 to 99 | all tokens → 1 back | it → 64 or more back
    """

    start: Any = None  # Place | slice | None
    end: Any = None
    back: Any = None  # int | slice | None; stored as (nearest, farthest)
    layers: Any = None  # int | Collection[int] | None; stored as a tuple
    heads: Any = None
    kind: str | None = None

    def __post_init__(self) -> None:
        for name in ("start", "end"):
            object.__setattr__(self, name, _place(name, getattr(self, name)))
        for name in ("layers", "heads"):
            object.__setattr__(self, name, _numbers(name, getattr(self, name)))
        object.__setattr__(self, "back", _distances(self.back))
        if self.heads is not None and any(head < 0 for head in self.heads):
            raise InputError(f"heads are numbered from 0. Got {list(self.heads)}.")
        if self.kind is not None:
            one_of("kind", self.kind, _KINDS)

    def __str__(self) -> str:
        start, end = _said(self.start), _said(self.end)
        if self.back is not None:
            near, far = self.back
            back = f"{near} or more back" if far >= _END else f"{near} back" if near == far else f"{near} to {far} back"
            end = back if self.end is None else f"{end}, {back}"
        where = [_counted(name, getattr(self, f"{name}s")) for name in ("layer", "head")]
        where += [self.kind] if self.kind is not None else []
        chosen = ", ".join(part for part in where if part)
        return f"{start} → {end}" + (f" ({chosen})" if chosen else "")

    @classmethod
    def read(cls, text: str) -> Link:
        """A link as it is written on a command line: "it -> dog".

        >>> Link.read("it->dog") == Link("it", "dog")
        True
        """
        parts = [part.strip() for part in re.split("->|→", text)]
        if len(parts) != 2 or not all(parts):
            raise InputError(f'a link is written "it->dog": one word, an arrow, another. Got {text!r}.')
        return cls(*parts)


def _place(name: str, place: Any) -> Place | None:
    if isinstance(place, slice):
        start, stop = place.start or 0, _END if place.stop is None else place.stop
        if place.step not in (None, 1) or whole(name, start) < 0 or whole(name, stop) <= start:
            raise InputError(f"{name} is a run of tokens counted from 0, at least one. Got {place}.")
        return range(start, stop)
    if place is None or isinstance(place, str | range | Patch):
        return place
    return whole(f"{name} (or a word, a patch, a range, a slice or None)", place)


def _numbers(name: str, given: Any) -> tuple[int, ...] | None:
    if given is None:
        return None
    if isinstance(given, str) or not (isinstance(given, Collection) or hasattr(given, "__index__")):
        raise DTypeError(f"{name} are a number or several, as in range(4, 8). Got {type(given).__name__}.")
    several = given if isinstance(given, Collection) else (given,)
    return tuple(sorted({whole(name, number) for number in several}))


def _distances(back: Any) -> tuple[int, int] | None:
    if back is None or (isinstance(back, tuple) and len(back) == 2):
        return back
    if not isinstance(back, slice | range):
        back = slice(whole("back", back), whole("back", back) + 1)
    nearest, beyond = back.start or 0, _END + 1 if back.stop is None else back.stop
    if back.step not in (None, 1) or whole("back", nearest) < 0 or whole("back", beyond) <= nearest:
        raise InputError(f"back is how many tokens a key lies before its query, or a slice of that. Got {back}.")
    return nearest, beyond - 1


def _said(place: Place | None) -> str:
    if place is None:
        return "all tokens"
    if isinstance(place, str):
        return place
    if isinstance(place, Patch):
        return f"patch {place.row},{place.column}" + (f" of image {place.image}" if place.image else "")
    if isinstance(place, int) or len(place) == 1:
        return f"token {place if isinstance(place, int) else place.start}"
    return f"tokens {place.start} {'on' if place.stop >= _END else f'to {place.stop - 1}'}"


def _counted(name: str, numbers: Sequence[int] | None) -> str:
    """Numbers of layers or heads, a run of them by its ends."""
    if not numbers:
        return "" if numbers is None else f"no {name}"
    if len(numbers) == 1:
        return f"{name} {numbers[0]}"
    if len(numbers) > 2 and list(numbers) == list(range(numbers[0], numbers[-1] + 1)):
        return f"{name}s {numbers[0]} to {numbers[-1]}"
    return f"{name}s {', '.join(map(str, numbers))}"


# In a text


@dataclass(frozen=True, eq=False)
class LocatedLink:
    """A link in positions of a text: which queries and keys it joins, and the bias on their scores.

    >>> link = locate(Link("it", "dog"), [Tokens("A dog ate because it was hungry".split())] * 2)
    >>> link.mask(queries=range(4, 5), keys=range(5))                # a step with a cache
    cut(None, 1)
    """

    queries: tuple[range, ...] | Tensor  # positions, or bools (batch, tokens) on the CPU where texts of a batch differ
    keys: tuple[range, ...] | Tensor
    distances: tuple[int, int] | None  # of the query from the key
    heads: tuple[int, ...] | None
    bias: float

    def mask(self, queries: range, keys: range) -> Mask:
        """The link as a mask for these queries and keys; one that hides nothing where it joins none of them."""
        band = None
        if self.distances is not None:
            near, far = self.distances
            if queries.stop - 1 - keys.start < near:
                return Mask()
            band = Band(None if far >= _END else -far, -near, queries.start - keys.start)
        places = product(_among(self.queries, queries), _among(self.keys, keys))
        return Mask(tuple(Cut(rows, columns, self.heads, band, self.bias) for rows, columns in places))


def locate(
    link: Link, queries: Sequence[Tokens], keys: Sequence[Tokens] | None = None, *, bias: float = -math.inf,
    sequence: int | None = None,
) -> LocatedLink:  # fmt: skip
    """A link in these texts of a batch, or in one of them; an error where none of the texts has its words."""
    keys = queries if keys is None else keys
    texts = list(range(len(queries))) if sequence is None else [sequence]
    pairs, failure = {}, None
    for text in texts:
        try:
            pairs[text] = _positions(queries[text], link.start), _positions(keys[text], link.end)
        except InputError as error:
            failure = error
    if not pairs and failure is not None:
        raise failure
    of_queries, of_keys = (_joined({text: pair[side] for text, pair in pairs.items()}, len(queries)) for side in (0, 1))
    return LocatedLink(of_queries, of_keys, link.back, link.heads, bias)


def _positions(tokens: Tokens, place: Place | None) -> tuple[range, ...]:
    if place is None:
        return (range(_END),)
    if isinstance(place, range) and place.stop >= _END:
        return tuple(tokens.in_row(place))
    return tuple(run for found in tokens.find_all(place) for run in tokens.in_row(found))


def _joined(places: dict[int, tuple[range, ...]], batch: int) -> tuple[range, ...] | Tensor:
    """A few runs, the same in all texts; or bools (batch, tokens), the last of them for all tokens after it."""
    first = next(iter(places.values()))
    if len(places) == batch and len(first) <= _RUNS and all(place == first for place in places.values()):
        return first
    ends = [run.start + 1 if run.stop >= _END else run.stop + 1 for runs in places.values() for run in runs]
    found = torch.zeros(batch, max(ends, default=1), dtype=torch.bool)
    for text, runs in places.items():
        for run in runs:
            found[text, run.start : min(run.stop, found.shape[1])] = True
    return found


def _among(places: tuple[range, ...] | Tensor, positions: range) -> list[range | Tensor]:
    """Which of these positions they name, counted from the first."""
    if isinstance(places, tuple):
        found: list[range | Tensor] = []
        for run in places:
            start, stop = max(run.start, positions.start), min(run.stop, positions.stop)
            everywhere = start == positions.start and stop == positions.stop
            if start < stop:
                found.append(range(_END) if everywhere else range(start - positions.start, stop - positions.start))
        return found
    known = places.shape[1]
    if positions.stop > known:  # what the last place says holds for all after it
        more = places[:, -1:].expand(-1, positions.stop - known)
        places = torch.cat([places, more], 1)
    here = places[:, positions.start : positions.stop]
    return [here] if bool(here.any()) else []
