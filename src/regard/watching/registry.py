"""Who is watching which module now. Watching nests; what was changed is put back when the last one leaves."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any, Protocol, runtime_checkable

from torch import Tensor, nn

from regard.errors import WatchError
from regard.matrix import AttentionMatrix
from regard.watching.call import Call

__all__ = ["Watcher", "enter", "leave", "put_back", "swap", "watchers"]


@runtime_checkable
class Watcher(Protocol):
    """Who wants to know of every call, and may change its output."""

    def saw(self, name: str, call: Call, matrix: AttentionMatrix, output: Tensor) -> Tensor:
        """A module of this name attended; the output to go on with."""


_lock = threading.RLock()
_watching: dict[int, list[tuple[Watcher, str, int]]] = {}  # by id of the module: watcher, name, thread
_swapped: dict[tuple[int, str], list[Any]] = {}  # by id of the object and attribute: object, before, count
_NOTHING = object()


def enter(watcher: Watcher, modules: Iterable[tuple[str, nn.Module]]) -> None:
    """From now on the watcher hears of these modules."""
    me = threading.get_ident()
    modules = list(modules)
    with _lock:
        for _, module in modules:
            if any(thread != me for _, _, thread in _watching.get(id(module), ())):
                raise WatchError(
                    "this model is being watched in another thread, and both records would mix. "
                    "Watch it in one thread at a time, or give each thread a copy of the model."
                )
        for name, module in modules:
            _watching.setdefault(id(module), []).append((watcher, name, me))


def leave(watcher: Watcher) -> None:
    """The watcher hears of nothing more."""
    with _lock:
        for key in list(_watching):
            _watching[key] = [entry for entry in _watching[key] if entry[0] is not watcher]
            if not _watching[key]:
                del _watching[key]


def watchers(module: nn.Module) -> list[tuple[Watcher, str]]:
    """Who watches this module, and under which name."""
    return [(watcher, name) for watcher, name, _ in _watching.get(id(module), ())]


def swap(owner: Any, attribute: str, make: Callable[[Any], Any]) -> None:
    """Change an attribute until `put_back` was called as often as `swap`."""
    with _lock:
        held = _swapped.get((id(owner), attribute))
        if held is None:
            before = vars(owner).get(attribute, _NOTHING)
            new = make(getattr(owner, attribute))
            setattr(owner, attribute, new)
            _swapped[id(owner), attribute] = [owner, before, 1]
        else:
            held[2] += 1


def put_back(owner: Any, attribute: str) -> None:
    """Undo one `swap`."""
    with _lock:
        held = _swapped[id(owner), attribute]
        held[2] -= 1
        if held[2]:
            return
        del _swapped[id(owner), attribute]
        if held[1] is _NOTHING:
            delattr(owner, attribute)
        else:
            setattr(owner, attribute, held[1])
