"""Who watches which module, and which attributes are replaced meanwhile.

Watching nests: an attribute is restored when the last session that replaced it ends.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from regard.errors import WatchError
from regard.matrix import AttentionMatrix
from regard.watching.capture.calls import AttentionCall
from regard.watching.capture.masks import LazyMask
from regard.watching.capture.steps import Hypotheses

__all__ = ["Watcher", "add", "follow", "remove", "replace", "restore", "watchers"]


@runtime_checkable
class Watcher(Protocol):
    """Receives every attention call, and may change it and its output."""

    def change(self, name: str, call: AttentionCall) -> AttentionCall:
        """Called before the module of this name computes its attention; returns the call that is computed."""

    def observe(
        self, name: str, call: AttentionCall, matrix: AttentionMatrix | None, output: Tensor, value: Tensor
    ) -> Tensor:
        """Called after the module of this name computed its attention; returns the output that the model gets.

        `matrix`: the one that the output was computed with, if it was; it knows more than that of the call.
        """

    def unseen(self, name: str) -> None:
        """Called when the module of this name has computed attention that cannot be recorded."""

    def follow(self, name: str, query: Tensor, key: Tensor, mask: LazyMask, scale: float | None) -> bool:
        """Called first for a step of a generation; True: it is recorded, and neither of the two above is called."""

    def returned(self, name: str, output: Tensor) -> None:
        """Called with the output as the module's code gets it."""

    def generation_begins(
        self, mode: str, name: str, model: nn.Module, inputs: Mapping[str, Any], ends: tuple[int, ...]
    ) -> None:
        """Called before the model of this name writes a text: mode "beams", "guided" or "" for one row per text."""

    def generation_ends(self, found: Hypotheses | None) -> None:
        """Called after it; with the hypotheses that a beam search found, or None."""


class _Watched(NamedTuple):
    """A watcher, the thread it came from, and the names of its modules, by their ids."""

    watcher: Watcher
    thread: int
    names: dict[int, str]


_lock = threading.RLock()
_watching: dict[int, _Watched] = {}  # by id of the watcher, in the order in which they came
_found: dict[int, list[tuple[Watcher, str]]] = {}  # by id of a watched module: what `watchers` answers
_replaced: dict[tuple[int, str], list[Any]] = {}  # by id of the object and attribute: object, original, count
_ABSENT = object()


def add(watcher: Watcher, modules: Iterable[tuple[str, nn.Module]]) -> None:
    """From now on the watcher observes these modules."""
    names = {id(module): name for name, module in modules}
    this_thread = threading.get_ident()
    with _lock:
        if any(one.thread != this_thread and not names.keys().isdisjoint(one.names) for one in _watching.values()):
            raise WatchError(
                "this model is being watched in another thread, and both records would mix. "
                "Watch it in one thread at a time, or give each thread a copy of the model."
            )
        _watching[id(watcher)] = _Watched(watcher, this_thread, names)
        _found.clear()


def remove(watcher: Watcher) -> None:
    """The watcher observes nothing any more."""
    with _lock:
        _watching.pop(id(watcher), None)
        _found.clear()


def watchers(module: nn.Module) -> list[tuple[Watcher, str]]:
    """Who watches this module, and under which name."""
    key = id(module)
    known = _found.get(key)
    if known is not None:
        return known
    with _lock:
        found = [(one.watcher, one.names[key]) for one in _watching.values() if key in one.names]
        if found:  # only then the module lives as long as its id is stored
            _found[key] = found
        return found


def follow(module: nn.Module, query: Tensor, key: Tensor, mask: Tensor | None, scale: float | None) -> bool:
    """Whether a call was recorded as a step of a generation like the one before: nothing is left to do then."""
    if type(mask) is not LazyMask or not mask.causal_to_the_end or len(mask.keys) != key.shape[2]:
        return False
    if torch.is_grad_enabled() or torch._C._is_any_autocast_enabled():
        return False
    found = watchers(module)
    return len(found) == 1 and found[0][0].follow(found[0][1], query, key, mask, scale)


def replace(owner: Any, attribute: str, make: Callable[[Any], Any]) -> None:
    """Set an attribute to `make(its value)`, until `restore` was called as often as `replace`."""
    with _lock:
        held = _replaced.get((id(owner), attribute))
        if held is None:
            original = vars(owner).get(attribute, _ABSENT)
            setattr(owner, attribute, make(getattr(owner, attribute)))
            _replaced[id(owner), attribute] = [owner, original, 1]
        else:
            held[2] += 1


def restore(owner: Any, attribute: str) -> None:
    """Undo one `replace`."""
    with _lock:
        held = _replaced[id(owner), attribute]
        held[2] -= 1
        if held[2]:
            return
        del _replaced[id(owner), attribute]
        if held[1] is _ABSENT:
            delattr(owner, attribute)
        else:
            setattr(owner, attribute, held[1])
