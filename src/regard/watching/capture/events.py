"""What the ways of capture tell about a running model, in small frozen events, and who is watching which module.

own_layers.py, huggingface.py and plain_torch.py see the calls; hooks of session.py see forwards and inputs. They `tell`
events to the watchers of a module, and bring attention calls to `attend`. The watcher is `Passes`, which folds all of
it into what a record has. Watches nest: a replaced attribute is restored when the last watch that replaced it ends.
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
from regard.watching.images.images import Images

__all__ = [
    "Event",
    "ForwardBegan",
    "ForwardEnded",
    "GenerationBegan",
    "GenerationEnded",
    "InputsRead",
    "ModuleEnded",
    "Placed",
    "Unseen",
    "Watcher",
    "add",
    "attend",
    "follow",
    "remove",
    "replace",
    "restore",
    "tell",
    "watchers",
]


class ForwardBegan(NamedTuple):
    """The model, or a part of it, was called from outside."""

    cache: Any  # its past_key_values
    differentiable: bool


class ForwardEnded(NamedTuple):
    """That call has ended."""

    cache: Any  # the past_key_values that it returned


class InputsRead(NamedTuple):
    """Modules received input ids, or the model received images."""

    ids: Mapping[str, Tensor]  # (batch, tokens) by module name
    images: Callable[[], Images | None]  # reads the images: asked where none are known yet


class GenerationBegan(NamedTuple):
    """`generate` was called."""

    name: str  # of the model among the modules of the watched one
    model: nn.Module
    inputs: Mapping[str, Any]
    mode: str  # "beams"; "guided": every second pass is the unconditional text; "": one row for each text
    ends: tuple[int, ...]  # the ids of tokens that end a text


class GenerationEnded(NamedTuple):
    """`generate` has returned, or raised an error."""

    hypotheses: Hypotheses | None  # of a beam search


class ModuleEnded(NamedTuple):
    """The forward of a module that calls the registered attention function has ended."""

    name: str
    boundaries: Tensor | None  # where a vision model cuts its row of patches into parts


class Unseen(NamedTuple):
    """A module computed attention that cannot be recorded."""

    name: str


Event = ForwardBegan | ForwardEnded | InputsRead | GenerationBegan | GenerationEnded | ModuleEnded | Unseen


class Placed(NamedTuple):
    """An attention call in its place: of which module and of which text."""

    name: str  # of the module
    key: str  # under which it is recorded: name#1 for its second run in a forward
    text: Any  # the `Pass`
    call: AttentionCall


@runtime_checkable
class Watcher(Protocol):
    """Receives the events and the attention calls of its modules."""

    def tell(self, event: Event) -> None:
        """Take note of an event."""

    def place(self, name: str, call: AttentionCall) -> Placed:
        """The call of this module in its place in a text, with the links that the watcher cuts or steers."""

    def observe(self, placed: Placed, matrix: AttentionMatrix | None, output: Tensor, value: Tensor) -> Tensor:
        """Record a call after it was computed; returns the output that the model gets.

        `matrix`: the one that the output was computed with, if there was one: it knows more than that of the call.
        """

    def follow(self, name: str, query: Tensor, key: Tensor, mask: LazyMask, scale: float | None) -> bool:
        """Record a step of a generation that is like the one before; False: it may differ, so nothing was done."""

    def returned(self, name: str, output: Tensor) -> None:
        """Take note of the output as the code of the module gets it."""


Watchers = list[tuple[Watcher, str]]  # each with the name of the module in its model


class _Watch(NamedTuple):
    """A watcher, the thread that it came from, and the names of its modules by their ids."""

    watcher: Watcher
    thread: int
    names: dict[int, str]


_lock = threading.RLock()
_watches: dict[int, _Watch] = {}  # by id of the watcher, in the order in which they came
_watchers: dict[int, Watchers] = {}  # by id of a watched module: what `watchers` returns
_replaced: dict[tuple[int, str], tuple[Any, Any, int]] = {}  # by id and attribute: object, original, count
_ABSENT = object()


def add(watcher: Watcher, modules: Iterable[tuple[str, nn.Module]]) -> None:
    """From now on the watcher observes these modules."""
    names = {id(module): name for name, module in modules}
    this_thread = threading.get_ident()
    with _lock:
        if any(watch.thread != this_thread and not names.keys().isdisjoint(watch.names) for watch in _watches.values()):
            raise WatchError(
                "this model is being watched in another thread, and both records would mix. "
                "Watch it in one thread at a time, or give each thread a copy of the model."
            )
        _watches[id(watcher)] = _Watch(watcher, this_thread, names)
        _watchers.clear()


def remove(watcher: Watcher) -> None:
    """The watcher observes nothing any more."""
    with _lock:
        _watches.pop(id(watcher), None)
        _watchers.clear()


def watchers(module: nn.Module) -> Watchers:
    """Who watches this module, and under which name."""
    key = id(module)
    known = _watchers.get(key)
    if known is not None:
        return known
    with _lock:
        watching = [(watch.watcher, watch.names[key]) for watch in _watches.values() if key in watch.names]
        if watching:  # only then the module lives as long as its id is stored
            _watchers[key] = watching
        return watching


def tell(watchers: Watchers, event: Callable[[str], Event]) -> None:
    """Tell all watchers an event, made from the name that each has for the module."""
    for watcher, name in watchers:
        watcher.tell(event(name))


def attend(
    watchers: Watchers,
    call: AttentionCall,
    value: Tensor,
    compute: Callable[[AttentionCall], tuple[Tensor, AttentionMatrix | None]],
) -> tuple[Tensor, AttentionMatrix | None]:
    """The output of a call and the matrix it was computed with, if any, without the links and heads to be left out.

    `compute` gets the call as the watchers changed it; each of them records it, with the values `value`.
    """
    places = []
    for watcher, name in watchers:
        placed = watcher.place(name, call)
        call = placed.call
        places.append((watcher, placed))
    output, matrix = compute(call)
    for watcher, placed in places:
        output = watcher.observe(placed._replace(call=call), matrix, output, value)
    return output, matrix


def follow(module: nn.Module, query: Tensor, key: Tensor, mask: Tensor | None, scale: float | None) -> bool:
    """Whether a call was recorded as a step of a generation like the one before: nothing is left to do then."""
    if type(mask) is not LazyMask or not mask.causal_to_the_end or len(mask.keys) != key.shape[2]:
        return False
    if torch.is_grad_enabled() or torch._C._is_any_autocast_enabled():
        return False
    watching = watchers(module)
    return len(watching) == 1 and watching[0][0].follow(watching[0][1], query, key, mask, scale)


def replace(owner: Any, attribute: str, make: Callable[[Any], Any]) -> None:
    """Set an attribute to `make(its value)`, until `restore` was called as often as `replace`."""
    with _lock:
        _, original, count = _replaced.get((id(owner), attribute), (owner, _ABSENT, 0))
        if count == 0:
            original = vars(owner).get(attribute, _ABSENT)
            setattr(owner, attribute, make(getattr(owner, attribute)))
        _replaced[id(owner), attribute] = owner, original, count + 1


def restore(owner: Any, attribute: str) -> None:
    """Undo one `replace`."""
    with _lock:
        _, original, count = _replaced.pop((id(owner), attribute))
        if count > 1:
            _replaced[id(owner), attribute] = owner, original, count - 1
        elif original is _ABSENT:
            delattr(owner, attribute)
        else:
            setattr(owner, attribute, original)
