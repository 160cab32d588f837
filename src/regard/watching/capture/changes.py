"""`Changes`: the heads and links that a watched model runs without, and those that are steered."""

from __future__ import annotations

import difflib
import math
import operator
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from regard.errors import InputError
from regard.support import number, some_of
from regard.watching.capture.links import Link, LocatedLink, locate
from regard.watching.capture.passes import Links, Seen

__all__ = ["Changes", "Without"]

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

    # What was asked for in vain

    def in_vain(self) -> str:
        """What was never applied, and why, in a sentence; "" where everything was."""
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
