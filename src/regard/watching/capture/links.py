"""`Link`: attention from some words to others; `Changes`: the links and heads that a watched model runs without."""

from __future__ import annotations

import difflib
import math
import operator
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.errors import DTypeError, InputError
from regard.scores import Band, Cut, Mask
from regard.support import number, one_of, some_of, whole
from regard.watching.images.families import Patch
from regard.watching.record.tokens import Place, Tokens

__all__ = ["Changes", "Link", "LocatedLink", "Seen", "Without", "locate"]

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


class Seen(NamedTuple):
    """What is known of a module and its text: of its queries and keys the tokens, or their numbers."""

    layer: int
    kind: str
    heads: int
    sides: tuple[Sequence[Tokens], Sequence[Tokens]]


Links = tuple[tuple[LocatedLink, ...], tuple[LocatedLink, ...]]  # cut or steered, and zeroed
Heads = Mapping[str, Collection[int]]
Without = Heads | Link | Collection[Link | Heads]
_NUMBER = re.compile(r"(?:^|(?<=\.))\d+(?=\.|$)")


@dataclass(frozen=True)
class _Steered:
    """A link and the bias on its scores; -inf: cut."""

    link: Link
    bias: float
    zeroed: bool  # cut after the softmax, so that the other weights stay as they are
    text: int | None  # of the batch; None: all

    def __str__(self) -> str:
        if self.zeroed:
            return f"{self.link} is zeroed: the other weights stay as they are"
        if self.bias == -math.inf:
            return f"{self.link} is cut: the other weights are normalised to 1 again"
        return f"{self.link} has a bias of {self.bias:+g}: all weights are normalised to 1"


@dataclass(frozen=True)
class _Removed:
    """Heads of a module whose output is set to 0."""

    module: str
    heads: tuple[int, ...]
    text: int | None

    def __str__(self) -> str:
        which = f"head{'s' * (len(self.heads) > 1)} {', '.join(map(str, self.heads))}"
        return f"without {which} of {self.module or 'the model'}"


class Changes:
    """Heads and links of a model with these modules; each applied where it occurs, and told if it never was.

    >>> print(*Changes(["layers.0"], [Link("it", "dog"), {"layers.0": [3]}], {Link("it", "food"): 2.0}), sep="; ")
    it → dog is cut: the other weights are normalised to 1 again; it → food has a bias of +2: all weights are normalised
    to 1; without head 3 of layers.0
    """

    def __init__(
        self,
        modules: Iterable[str],
        without: Without | None = None,
        steer: Mapping[Link, float] | None = None,
        renormalise: bool = True,
    ):
        self._modules = list(modules)
        self._heads: list[_Removed] = []
        self._links: list[_Steered] = []
        self._applied: set[_Steered | _Removed] = set()
        self._failures: dict[_Steered, str] = {}
        self.add(without, steer, renormalise)

    def add(
        self,
        without: Without | None,
        steer: Mapping[Link, float] | None = None,
        renormalise: bool = True,
        text: int | None = None,
    ) -> None:
        """Some more, in all texts of a batch or in one."""
        items: Any = [without] if isinstance(without, Mapping | Link) else () if without is None else without
        for item in items if isinstance(items, Iterable) and not isinstance(items, str) else [items]:
            if isinstance(item, Link):
                self._links.append(_Steered(item, -math.inf, not renormalise, text))
            elif isinstance(item, Mapping):
                self._heads += [_Removed(name, self._checked(name, heads), text) for name, heads in item.items()]
            else:
                raise InputError(
                    "without takes heads by module, as in {'layers.0': [3]}, links, as in Link('it', 'dog'), or a list "
                    f"of both. Got {type(item).__name__}."
                )
        if steer is not None and not isinstance(steer, Mapping):
            got = type(steer).__name__
            raise InputError(f"steer takes a bias for each link: {{Link('it', 'dog'): 2.0}}. Got {got}.")
        for link, bias in (steer or {}).items():
            if not isinstance(link, Link):
                raise InputError(f"steer takes a bias for each link: {{Link('it', 'dog'): 2.0}}. Got {link!r}.")
            self._links.append(_Steered(link, number("a bias", bias), False, text))

    def _checked(self, name: str, heads: Collection[int]) -> tuple[int, ...]:
        if name not in self._modules:
            close = difflib.get_close_matches(str(name), self._modules, n=3, cutoff=0.3)
            hint = f" Did you mean {' or '.join(map(repr, close))}?" if close else ""
            raise InputError(f"without: the model has no module {name!r}.{hint}")
        numbers = None if isinstance(heads, str) or not isinstance(heads, Iterable) else tuple(heads)
        if numbers is None or any(isinstance(head, bool) or not hasattr(head, "__index__") for head in numbers):
            raise InputError(f"without takes a list of heads for each module, as in {{{name!r}: [0]}}. Got {heads!r}.")
        if any(head < 0 for head in numbers):
            raise InputError(f"without: heads are numbered from 0. Got {list(numbers)} for {name!r}.")
        return tuple(map(operator.index, numbers))

    def __bool__(self) -> bool:
        return bool(self._heads or self._links)

    def restart(self) -> None:
        """Nothing was applied yet."""
        self._applied, self._failures = set(), {}

    def __iter__(self) -> Iterator[str]:
        links, heads = ([str(c) for c in some if c.text in (None, 0)] for some in (self._links, self._heads))  # type: ignore[attr-defined]
        return iter([*links, *heads])

    # Links

    @property
    def has_links(self) -> bool:
        """Whether there is a link to look for."""
        return bool(self._links)

    def located(self, name: str, seen: Seen, own: range) -> Links:
        """The links of a module in its text: those that are cut or steered, and those that are zeroed.

        Of its heads, this rank has its `own`.
        """
        found: tuple[list[LocatedLink], list[LocatedLink]] = [], []
        for change in self._links:
            link = change.link
            if link.kind not in (None, seen.kind) or not self._has_layer(link, name, seen.layer):
                continue
            if link.back is not None and seen.kind == "cross":  # two texts have no distance
                continue
            if link.heads is not None and any(head >= seen.heads for head in link.heads):
                raise InputError(f"{name} has {seen.heads} heads, numbered from 0. Got {list(link.heads)} in {link}.")
            try:
                located = locate(link, *seen.sides, bias=change.bias, sequence=change.text)
            except InputError as error:  # this text does not have the words; another may
                self._failures.setdefault(change, str(error))
                continue
            self._applied.add(change)
            here = None if link.heads is None else tuple(head - own.start for head in link.heads if head in own)
            if here != ():
                found[change.zeroed].append(replace(located, heads=here))
        return tuple(found[0]), tuple(found[1])

    def _has_layer(self, link: Link, name: str, layer: int) -> bool:
        if link.layers is None or layer in link.layers:
            return True
        if all(number >= 0 for number in link.layers):
            return False
        alike = {int(match[0]) for match in map(_NUMBER.search, self._modules) if match and _same(match, name)}
        count = len(alike)
        return layer in {number + count for number in link.layers if number < 0}

    # Heads

    def without_heads(self, name: str, output: Tensor, heads: int, own: range) -> Tensor:
        """The output (batch, own heads, queries, width) of a module, 0 for those of its heads that are removed."""
        removed: Tensor | None = None
        for change in self._heads:
            if change.module != name:
                continue
            if any(head >= heads for head in change.heads):
                raise InputError(f"{name} has {heads} heads, numbered from 0. Got without = {list(change.heads)}.")
            self._applied.add(change)
            removed = torch.zeros(*output.shape[:2], 1, 1, dtype=torch.bool) if removed is None else removed
            texts = slice(None) if change.text is None else slice(change.text, change.text + 1)
            removed[texts, [head - own.start for head in change.heads if head in own]] = True
        return output if removed is None else output.masked_fill(removed.to(output.device), 0.0)

    # What was never applied

    def unapplied(self) -> str:
        """Say in a sentence what was never applied and why; "" if everything was applied."""
        heads = list(dict.fromkeys(change.module for change in self._heads if change not in self._applied))
        if heads:
            return f"without: {some_of(heads)} computed no attention that could be seen, so no head was removed."
        for change in self._links:
            if change not in self._applied:
                why = self._failures.get(change, "no attention of this layer and kind was seen.")
                return f"{change.link} was not found, so nothing was changed: {why}"
        return ""


def _same(match: re.Match[str], name: str) -> bool:
    """Whether a module has this name, but for the number of its layer."""
    return name == match.string or bool(
        re.fullmatch(re.escape(match.string[: match.start()]) + r"\d+" + re.escape(match.string[match.end() :]), name)
    )
