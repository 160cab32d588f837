"""`Pass`, what the modules of a model computed on one text or batch of texts, and `Caches`, which pass is meant."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from regard.watching.capture.beams import Hypotheses
from regard.watching.capture.links import LocatedLink
from regard.watching.capture.module_calls import ModuleCalls
from regard.watching.record.tokens import Text, Tokens, Vocabulary

__all__ = ["Caches", "Links", "Pass", "Seen"]

Links = tuple[tuple[LocatedLink, ...], tuple[LocatedLink, ...]]  # cut or steered, and zeroed


class Seen(NamedTuple):
    """What is known of a module and its text: of its queries and keys the tokens, or their numbers."""

    layer: int
    kind: str
    heads: int
    sides: tuple[Sequence[Tokens], Sequence[Tokens]]


class Pass(dict[str, ModuleCalls]):
    """The calls of each module, by its name."""

    def __init__(
        self, vocabulary: Vocabulary, wordless: Callable[[str], bool], name: str = "", ends: Sequence[int] = (),
        pads: Mapping[str, int] | None = None,
    ):  # fmt: skip
        self.name = name
        self.text = Text(vocabulary, wordless, ends, pads)
        self.links: dict[str, Links] = {}  # by module

    @cached_property
    def compared(self) -> str:
        """The module whose keys are compared from step to step, where one is enough: who reorders a cache reorders all.

        The last one: keys of the first layer are alike wherever two texts end with the same token.
        """
        return next((name for name in reversed(self) if self[name].kind == "decoder"), "")

    @property
    def searching(self) -> bool:
        """Whether it belongs to a beam search whose hypotheses are not known yet."""
        return any(calls.searching for calls in self.values())

    def finish(self) -> None:
        """What was put off is done."""
        for calls in self.values():
            calls.finish()

    def choose(self, found: Hypotheses | None) -> None:
        """The beams of a search become its hypotheses; None: each step was a pass of its own, and stays as it ran."""
        for calls in self.values():
            calls.choose(found)
        if found is not None:
            self.text.change(found.texts_of)


class Caches:
    """Which pass the keys of a cache belong to: two texts may be written in turn, each with a cache of its own."""

    def __init__(self) -> None:
        self._passes: dict[int, tuple[weakref.ref[Any], Pass]] = {}

    def find(self, cache: Any, otherwise: Pass) -> Pass:
        """The pass of a cache, where it is known."""
        known = self._passes.get(id(cache))
        return otherwise if cache is None or known is None or known[0]() is not cache else known[1]

    def note(self, cache: Any, one: Pass) -> None:
        """The cache has the keys of this pass from now on."""
        if type(cache).__weakrefoffset__:  # neither None nor a tuple of tensors, as models of old have
            self._passes[id(cache)] = weakref.ref(cache), one
