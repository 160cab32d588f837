"""Who watches which module, and `attend`, to which every way to capture brings its calls.

The watcher of a module is a `Passes`: it folds calls, and what else happens to the model, into what a record has.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn

from regard.errors import WatchError
from regard.matrix import AttentionMatrix
from regard.watching.capture.calls import AttentionCall
from regard.watching.capture.masks import LazyMask

if TYPE_CHECKING:
    from regard.watching.capture.passes import Pass, Passes


class Placed(NamedTuple):
    """An attention call with its module and its text."""

    name: str  # of the module
    key: str  # of the entry: name#1 for the second run of the module in a forward
    text: Pass
    call: AttentionCall


Watchers = list[tuple["Passes", str]]  # each with the name of the module in its model
_lock = threading.RLock()
_watchers: dict[int, Watchers] = {}  # by id of the module, in the order in which the watchers came
_replaced: dict[tuple[int, str], tuple[Any, int]] = {}  # by id of the object and attribute: original value, count
_ABSENT = object()


def add(watcher: Passes, modules: Iterable[tuple[str, nn.Module]]) -> None:
    """Let the watcher observe these modules."""
    names = {id(module): name for name, module in modules}
    with _lock:
        if any(other.thread != watcher.thread for key in names for other, _ in _watchers.get(key, ())):
            raise WatchError(
                "this model is being watched in another thread, and both records would mix. "
                "Watch it in one thread at a time, or give each thread a copy of the model."
            )
        for key, name in names.items():
            _watchers[key] = [*_watchers.get(key, ()), (watcher, name)]


def remove(watcher: Passes) -> None:
    """Let the watcher observe nothing more."""
    with _lock:
        for key, watching in list(_watchers.items()):
            _watchers[key] = [(other, name) for other, name in watching if other is not watcher]
            if not _watchers[key]:
                del _watchers[key]


def watchers_of(module: nn.Module) -> Watchers:
    """Return who watches this module, each with the module's name."""
    return _watchers.get(id(module), [])


@contextmanager
def replaced(owner: Any, attribute: str, make: Callable[[Any], Any]) -> Iterator[None]:
    """Set an attribute to `make(its value)` until the last of several nested watches has ended."""
    key = id(owner), attribute
    with _lock:
        original, count = _replaced.get(key, (vars(owner).get(attribute, _ABSENT), 0))
        if count == 0:
            setattr(owner, attribute, make(getattr(owner, attribute)))
        _replaced[key] = original, count + 1
    try:
        yield
    finally:
        with _lock:
            original, count = _replaced.pop(key)
            if count > 1:
                _replaced[key] = original, count - 1
            elif original is _ABSENT:
                delattr(owner, attribute)
            else:
                setattr(owner, attribute, original)


# What the ways to capture call


def name_unseen(watchers: Watchers) -> None:
    """Tell all watchers that their module computed attention which cannot be recorded."""
    for watcher, name in watchers:
        watcher.name_unseen(name)


Computed = tuple[Tensor, AttentionMatrix | None]  # an output, and the matrix that it was computed with, if any


def attend(
    watchers: Watchers, call: AttentionCall, value: Tensor, original: Callable[[], Computed], dropout: float = 0.0
) -> Computed:
    """Compute a call without the links and heads that the watchers leave out, and let each watcher record it.

    `original` computes the call as the model does; it is used where no links are cut or steered.
    """
    places = []
    for watcher, name in watchers:
        placed = watcher.place(name, call)
        call = placed.call
        places.append((watcher, placed))
    output, matrix = call.attend(value, dropout) if call.pattern.links else original()
    for watcher, placed in places:
        output = watcher.observe(placed._replace(call=call), matrix, output, value)
    return output, matrix


def follow(module: nn.Module, query: Tensor, key: Tensor, mask: Tensor | None, scale: float | None) -> bool:
    """Record a call as a step of a generation if it is like the step before; False: it may differ, so use `attend`."""
    if type(mask) is not LazyMask or not mask.causal_to_the_end or len(mask.keys) != key.shape[2]:
        return False
    if torch.is_grad_enabled() or torch._C._is_any_autocast_enabled():
        return False
    watching = watchers_of(module)
    return len(watching) == 1 and watching[0][0].follow(watching[0][1], query, key, mask, scale)
