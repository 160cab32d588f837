"""`Link`: attention from some words to others; `Changes`: the links and heads that a watched model runs without."""

from __future__ import annotations

import difflib
import math
import operator
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.errors import DTypeError, InputError
from regard.scores import Band, Cut, Mask
from regard.support import number, one_of, some_of, whole
from regard.watching.images.families import Patch
from regard.watching.record.tokens import Place, Tokens

END = 2**60  # the end of a span that grows with the text
_RUNS = 4  # up to so many occurrences of a word, each is a cut of its own
_KINDS = ("encoder", "decoder", "cross")


@dataclass(frozen=True)
class Link:
    """Attention from some words to others: what `watch` and `effect` can do without, or steer.

    Args:
        start: the queries: a word or several words in a row, the number of a token (without padding), a range or slice
            of tokens, a patch of an image, or None for all tokens. A word that occurs several times stands for all its
            occurrences; "the old [dog] slept" is one of them.
        end: the keys, given like `start`.
        back: only keys so many tokens before the query: a number or a slice.
        layers: only these layers: a number or several; -1 is the last.
        heads: only these heads: a number or several.
        kind: only "encoder", "decoder" or "cross".

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
            object.__setattr__(self, name, place_of(name, getattr(self, name)))
        for name in ("layers", "heads"):
            object.__setattr__(self, name, numbers_of(name, getattr(self, name)))
        object.__setattr__(self, "back", _distances(self.back))
        if self.heads is not None and any(head < 0 for head in self.heads):
            raise InputError(f"heads are numbered from 0. Got {list(self.heads)}.")
        if self.kind is not None:
            one_of("kind", self.kind, _KINDS)

    def __str__(self) -> str:
        start, end = described_place(self.start), described_place(self.end)
        if self.back is not None:
            near, far = self.back
            back = f"{near} or more back" if far >= END else f"{near} back" if near == far else f"{near} to {far} back"
            end = back if self.end is None else f"{end}, {back}"
        where = [described("layer", self.layers), described("head", self.heads), self.kind]
        chosen = ", ".join(part for part in where if part)
        return f"{start} → {end}" + (f" ({chosen})" if chosen else "")

    @classmethod
    def read(cls, text: str) -> Link:
        """Read a link as it is written on a command line: "it -> dog".

        >>> Link.read("it->dog") == Link("it", "dog")
        True
        """
        parts = [part.strip() for part in re.split("->|→", text)]
        if len(parts) != 2 or not all(parts):
            raise InputError(f'a link is written "it->dog": a word, an arrow, a word. Got {text!r}.')
        return cls(*parts)


def place_of(name: str, place: Any) -> Place | None:
    """Check a place of tokens; a slice becomes a range."""
    if isinstance(place, slice):
        start, stop = place.start or 0, END if place.stop is None else place.stop
        if place.step not in (None, 1) or whole(name, start) < 0 or whole(name, stop) <= start:
            raise InputError(f"{name} is a run of tokens counted from 0, at least one. Got {place}.")
        return range(start, stop)
    if place is None or isinstance(place, str | range | Patch):
        return place
    return whole(f"{name} (or a word, a patch, a range, a slice or None)", place)


def numbers_of(name: str, numbers: Any) -> tuple[int, ...] | None:
    """Check numbers of layers or heads, one or several."""
    if numbers is None:
        return None
    if isinstance(numbers, str) or not (isinstance(numbers, Collection) or hasattr(numbers, "__index__")):
        raise DTypeError(f"{name} are a number or several, as in range(4, 8). Got {type(numbers).__name__}.")
    several = numbers if isinstance(numbers, Collection) else (numbers,)
    return tuple(sorted({whole(name, number) for number in several}))


def _distances(back: Any) -> tuple[int, int] | None:
    if back is None or (isinstance(back, tuple) and len(back) == 2):
        return back
    if not isinstance(back, slice | range):
        back = slice(whole("back", back), whole("back", back) + 1)
    nearest, beyond = back.start or 0, END + 1 if back.stop is None else back.stop
    if back.step not in (None, 1) or whole("back", nearest) < 0 or whole("back", beyond) <= nearest:
        raise InputError(f"back is how many tokens a key lies before its query, or a slice of that. Got {back}.")
    return nearest, beyond - 1


def described_place(place: Place | None) -> str:
    """Write a place of tokens."""
    if place is None:
        return "all tokens"
    if isinstance(place, str):
        return place
    if isinstance(place, Patch):
        return f"patch {place.row},{place.column}" + (f" of image {place.image}" if place.image else "")
    if isinstance(place, int) or len(place) == 1:
        return f"token {place if isinstance(place, int) else place.start}"
    return f"tokens {place.start} {'on' if place.stop >= END else f'to {place.stop - 1}'}"


def described(name: str, numbers: Sequence[int] | None) -> str:
    """Write numbers of layers or heads."""
    if not numbers:
        return "" if numbers is None else f"no {name}"
    return f"{name}{'s' * (len(numbers) > 1)} {listed(numbers)}"


def listed(numbers: Sequence[int]) -> str:
    """List numbers in ascending order, in short where none is missing.

    >>> listed([0, 1, 2, 3]), listed([3, 7])
    ('0 to 3', '3, 7')
    """
    is_run = len(numbers) > 2 and numbers[-1] - numbers[0] == len(numbers) - 1
    return f"{numbers[0]} to {numbers[-1]}" if is_run else ", ".join(map(str, numbers))


# In a text


@dataclass(frozen=True, eq=False)
class LocatedLink:
    """A link in positions of a text: which queries and keys it joins, and the bias on their scores.

    >>> dog = LocatedLink(queries=(range(4, 5),), keys=(range(1, 2),), distances=None, heads=None, bias=-math.inf)
    >>> dog.mask(queries=range(4, 5), keys=range(5))                 # a step with a cache
    cut(None, 1)
    """

    queries: tuple[range, ...] | Tensor  # positions, or bools (batch, tokens) on the CPU where texts of a batch differ
    keys: tuple[range, ...] | Tensor
    distances: tuple[int, int] | None  # of the query from the key
    heads: tuple[int, ...] | None
    bias: float
    zeroed: bool = False  # set to 0 after the softmax: the other weights stay as they are

    def mask(self, queries: range, keys: range) -> Mask:
        """Return the link as a mask for these queries and keys; it hides nothing where the link joins none of them."""
        band = None
        if self.distances is not None:
            near, far = self.distances
            if queries.stop - 1 - keys.start < near:
                return Mask()
            band = Band(None if far >= END else -far, -near, queries.start - keys.start)
        places = product(_among(self.queries, queries), _among(self.keys, keys))
        return Mask(tuple(Cut(rows, columns, self.heads, band, self.bias) for rows, columns in places))


def _positions(tokens: Tokens, place: Place | None) -> tuple[range, ...]:
    if place is None:
        return (range(END),)
    if isinstance(place, range) and place.stop >= END:
        return tuple(tokens.in_row(place))
    return tuple(run for match in tokens.find_all(place) for run in tokens.in_row(match))


def _joined(places: dict[int, tuple[range, ...]], batch: int) -> tuple[range, ...] | Tensor:
    """Return a few runs if all texts have the same; else bools (batch, tokens), the last for all tokens after it."""
    first = next(iter(places.values()))
    if len(places) == batch and len(first) <= _RUNS and all(place == first for place in places.values()):
        return first
    ends = [run.start + 1 if run.stop >= END else run.stop + 1 for runs in places.values() for run in runs]
    bools = torch.zeros(batch, max(ends, default=1), dtype=torch.bool)
    for text, runs in places.items():
        for run in runs:
            bools[text, run.start : min(run.stop, bools.shape[1])] = True
    return bools


def _among(places: tuple[range, ...] | Tensor, positions: range) -> list[range | Tensor]:
    """Return which of these positions are among the places, counted from the first position."""
    if isinstance(places, tuple):
        runs: list[range | Tensor] = []
        for run in places:
            start, stop = max(run.start, positions.start), min(run.stop, positions.stop)
            everywhere = start == positions.start and stop == positions.stop
            if start < stop:
                runs.append(range(END) if everywhere else range(start - positions.start, stop - positions.start))
        return runs
    known = places.shape[1]
    if positions.stop > known:  # the last bool holds for all positions after it
        places = torch.cat([places, places[:, -1:].expand(-1, positions.stop - known)], 1)
    bools = places[:, positions.start : positions.stop]
    return [bools] if bool(bools.any()) else []


class Seen(NamedTuple):
    """What is known of a module and its text."""

    layer: int
    kind: str
    heads: int  # of the whole layer
    sides: tuple[Sequence[Tokens], Sequence[Tokens]]  # the tokens of the queries and of the keys, or their numbers


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

    def locate(self, queries: Sequence[Tokens], keys: Sequence[Tokens]) -> LocatedLink:
        """Find the link in the texts of a batch; raise if none of the texts has its words."""
        link, pairs, failure = self.link, {}, None
        for text in range(len(queries)) if self.text is None else [self.text]:
            try:
                pairs[text] = _positions(queries[text], link.start), _positions(keys[text], link.end)
            except InputError as error:
                failure = error
        if not pairs and failure is not None:
            raise failure
        starts, ends = (_joined({n: pair[side] for n, pair in pairs.items()}, len(queries)) for side in (0, 1))
        return LocatedLink(starts, ends, link.back, link.heads, self.bias, self.zeroed)


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
    """Heads and links that a model runs without or with a bias; changes that never apply are reported.

    >>> changes = Changes(["layers.0"])
    >>> changes.add(without=[Link("it", "dog"), {"layers.0": [3]}], steer={Link("it", "food"): 2.0})
    >>> print(*changes, sep="; ")
    it → dog is cut: the other weights are normalised to 1 again; it → food has a bias of +2: all weights are normalised
    to 1; without head 3 of layers.0
    """

    def __init__(self, modules: Iterable[str]):
        self._modules = list(modules)
        self._heads: list[_Removed] = []
        self._links: list[_Steered] = []
        self.replacements: dict[str, list[Any]] = {}  # by module: see activations.py
        self.listener: Any = None  # hears each attention call, and the outputs of its `modules`
        self._said: list[str] = []
        self._applied: set[_Steered | _Removed] = set()
        self._failures: dict[_Steered, str] = {}

    def add(
        self,
        without: Without | None,
        steer: Mapping[Link, float] | None = None,
        renormalise: bool = True,
        text: int | None = None,
    ) -> None:
        """Add changes, in all texts of a batch or in one text."""
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
        steer = {} if steer is None else steer
        if not isinstance(steer, Mapping) or not all(isinstance(link, Link) for link in steer):
            raise InputError(f"steer takes a bias for each link: {{Link('it', 'dog'): 2.0}}. Got {steer!r}.")
        for link, bias in steer.items():
            self._links.append(_Steered(link, number("a bias", bias), False, text))

    def replace(self, replacements: Iterable[tuple[str, Any]], said: str = "") -> None:
        """Add replacements of activations, each with its module, and a sentence about them."""
        for name, each in replacements:
            self._check(name.partition("#")[0], "instead")
            self.replacements.setdefault(name, []).append(each)
        self._said += [said] * bool(said)

    def _checked(self, name: str, heads: Collection[int]) -> tuple[int, ...]:
        self._check(name, "without")
        numbers = None if isinstance(heads, str) or not isinstance(heads, Iterable) else tuple(heads)
        if numbers is None or any(isinstance(head, bool) or not hasattr(head, "__index__") for head in numbers):
            raise InputError(f"without takes a list of heads for each module, as in {{{name!r}: [0]}}. Got {heads!r}.")
        if any(head < 0 for head in numbers):
            raise InputError(f"without: heads are numbered from 0. Got {list(numbers)} for {name!r}.")
        return tuple(map(operator.index, numbers))

    def _check(self, name: str, argument: str) -> None:
        if name not in self._modules:
            close = difflib.get_close_matches(str(name), self._modules, n=3, cutoff=0.3)
            hint = f" Did you mean {' or '.join(map(repr, close))}?" if close else ""
            raise InputError(f"{argument}: the model has no module {name!r}.{hint}")

    def __bool__(self) -> bool:
        return bool(self._heads or self.reach_calls)

    def restart(self) -> None:
        """Forget which changes were applied."""
        self._applied, self._failures = set(), {}

    def __iter__(self) -> Iterator[str]:
        changes: list[_Steered | _Removed] = [*self._links, *self._heads]
        return iter([*(str(change) for change in changes if change.text in (None, 0)), *self._said])

    # Links

    @property
    def reach_calls(self) -> bool:
        """Whether single attention calls are changed, or heard."""
        return bool(self._links or self.replacements or self.listener is not None)

    def located(self, name: str, seen: Seen, heads: range) -> tuple[LocatedLink, ...]:
        """Return the links of a module in its text, for the heads that this process computes."""
        links = []
        for change in self._links:
            link = change.link
            if link.kind not in (None, seen.kind) or not self._has_layer(link, name, seen.layer):
                continue
            if link.back is not None and seen.kind == "cross":  # two texts have no distance
                continue
            if link.heads is not None and any(head >= seen.heads for head in link.heads):
                raise InputError(f"{name} has {seen.heads} heads, numbered from 0. Got {list(link.heads)} in {link}.")
            try:
                located = change.locate(*seen.sides)
            except InputError as error:  # this text does not have the words; another text may
                self._failures.setdefault(change, str(error))
                continue
            self._applied.add(change)
            local = None if link.heads is None else tuple(head - heads.start for head in link.heads if head in heads)
            if local != ():
                links.append(replace(located, heads=local))
        return tuple(links)

    def _has_layer(self, link: Link, name: str, layer: int) -> bool:
        if link.layers is None or layer in link.layers:
            return True
        if all(number >= 0 for number in link.layers):
            return False
        alike = [module for module in self._modules if _NUMBER.sub("*", module, 1) == _NUMBER.sub("*", name, 1)]
        count = len({match[0] for match in map(_NUMBER.search, alike) if match})
        return layer in {number + count for number in link.layers if number < 0}

    # Heads

    def without_heads(self, name: str, output: Tensor, heads: int, local: range) -> Tensor:
        """Set the removed heads of a module to 0 in its output (batch, local heads, queries, width).

        `heads` is the number of heads of the layer; `local` are the heads that this process computes.
        """
        removed: Tensor | None = None
        for change in self._heads:
            if change.module != name:
                continue
            if any(head >= heads for head in change.heads):
                raise InputError(f"{name} has {heads} heads, numbered from 0. Got without = {list(change.heads)}.")
            self._applied.add(change)
            removed = torch.zeros(*output.shape[:2], 1, 1, dtype=torch.bool) if removed is None else removed
            texts = slice(None) if change.text is None else slice(change.text, change.text + 1)
            removed[texts, [head - local.start for head in change.heads if head in local]] = True
        return output if removed is None else output.masked_fill(removed.to(output.device), 0.0)

    # Other modules

    def hooks(self, modules: Mapping[str, Any]) -> Iterator[tuple[Any, Any]]:
        """Yield the modules whose outputs are replaced or heard, each with the hook to run after it."""
        for name in {*self.replacements, *getattr(self.listener, "modules", ())} & {*modules}:
            yield modules[name], partial(self._after, name)

    def _after(self, name: str, _: Any, args: Any, output: Any) -> Any:
        x = output[0] if isinstance(output, tuple) else output
        for each in self.replacements.get(name, ()):
            if each.part == name and x.shape[1] >= each.length:  # no step of a generation
                x = each.put(x[:, None])[:, 0]
        if name in getattr(self.listener, "modules", ()):
            self.listener(name, None, x, x)
        return (x, *output[1:]) if isinstance(output, tuple) else x

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
