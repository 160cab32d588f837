"""`Record`: what was seen of a model, by module name, and the questions that can be asked of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from torch import nn

from regard.errors import InputError, WatchError
from regard.watch.entry import Entry

__all__ = ["Record"]


class Seen(Protocol):
    """One text that a model was run on."""

    def entries(self) -> Mapping[str, Entry]:
        """What was seen, by module name."""


class Record(Mapping[str, Entry]):
    """A Mapping from module name to `Entry`: of the last text that the model saw; `passes` has those before it."""

    def __init__(self, passes: Sequence[Seen], model: nn.Module | None = None):
        self._passes, self.model = passes, model

    @property
    def passes(self) -> list[Record]:
        """One record for each text, or batch of texts, that the model saw."""
        return [Record([seen], self.model) for seen in self._passes]

    def _entries(self) -> Mapping[str, Entry]:
        if not self._passes:
            raise WatchError("nothing was watched yet: call the model inside the `with` block.")
        return self._passes[-1].entries()

    def __getitem__(self, name: str) -> Entry:
        entries = self._entries()
        if name not in entries:
            raise KeyError(f"{name!r} was not seen. Seen: {', '.join(entries)}")
        return entries[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries() if self._passes else ())

    def __len__(self) -> int:
        return len(self._entries()) if self._passes else 0
