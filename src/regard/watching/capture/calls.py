"""`AttentionCall`: one call of an attention function; `attend`, which brings it to who watches the module.

Every way to capture brings its calls to `attend`. The watcher of a module is a `Passes`: it folds calls, and what else
happens to the model, into what a record has. In tensor parallelism each rank computes some heads of a layer, and
records those: `shard_of` finds their numbers in the whole layer.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, distributed, nn

from regard.errors import WatchError
from regard.matrix import AttentionMatrix
from regard.scores import Atom, Dense, Mask, Positions, Same, bind, documents
from regard.support import Bool, Float
from regard.watching.capture.links import LocatedLink
from regard.watching.capture.masks import LazyMask, Pattern, pick_on, real_keys, within_text

if TYPE_CHECKING:
    from regard.watching.capture.passes import Pass, Passes

_NO_PATTERN, _NO_MASK = Pattern(), Mask()
_CROSS = ("cross", "encoder_attn", "encdec", "enc_dec")  # how models name attention to another sequence


@dataclass(frozen=True, eq=False)
class AttentionCall:
    """One call of an attention function, and where its queries and keys lie in the whole text.

    >>> call = AttentionCall(torch.zeros(1, 2, 5, 8), torch.zeros(1, 1, 5, 8), Mask())
    >>> call.matrix().shape
    torch.Size([1, 2, 5, 5])
    """

    query: Float[Tensor, "batch heads queries width"]
    key: Float[Tensor, "batch key_heads keys width"]
    mask: Mask
    scale: float | None = None
    softcap: float | None = None
    sinks: Tensor | None = None
    kind: str = "encoder"  # "encoder", "decoder" or "cross"
    queries: range = range(0)
    keys: range = range(0)
    # What the mask is made of, so that the masks of several steps can be joined:
    pattern: Pattern = _NO_PATTERN  # a rule in positions of the text
    dense: Mask = _NO_MASK  # what is known for these queries and keys only
    zeroed: Mask = _NO_MASK  # hides weights after the softmax: the other weights stay as they are
    shard: Shard | None = None  # its heads, where other processes compute the other heads

    def matrix(self) -> AttentionMatrix:
        """The attention matrix, not computed yet."""
        matrix = AttentionMatrix(
            self.query, self.key, mask=self.mask, scale=self.scale, softcap=self.softcap, sinks=self.sinks
        )
        return matrix.where(self.zeroed) if self.zeroed.atoms else matrix

    def attend(self, value: Tensor, dropout: float = 0.0) -> tuple[Tensor, AttentionMatrix]:
        """Compute the output, and return the matrix that it was computed with."""
        with torch._C.DisableTorchFunction():  # torch_modules.py does not follow what regard computes
            if dropout or not self.zeroed.atoms:
                matrix = self.matrix()
                return matrix.attend(value, dropout), matrix
            before = replace(self, zeroed=Mask()).matrix()
            output = before.attend(value)  # right for most rows; the changed rows have the same normalisers
            zeroed = before.where(self.zeroed)
            first, stop = _rows(self.zeroed, tuple(zeroed.shape), value.device)
            changed = zeroed.part[:, :, first:stop].attend(value)
            return torch.cat([output[:, :, :first], changed, output[:, :, stop:]], 2), zeroed

    def changed(self, links: tuple[LocatedLink, ...]) -> AttentionCall:
        """Return the call with these links cut, steered or set to 0."""
        new, places = Pattern(links=links), (self.queries, self.keys)
        return replace(
            self,
            mask=self.mask & new.mask(*places),
            zeroed=self.zeroed & new.zeroed(*places),
            pattern=replace(self.pattern, links=self.pattern.links + links),
        )

    def text(self, sequence: int, queries: Positions, keys: Positions) -> AttentionCall:
        """Return the call with these queries and keys of one text of a batch; the others are padding."""
        one = slice(sequence, sequence + 1)
        sinks = self.sinks
        sinks = sinks[one] if sinks is not None and sinks.dim() > 1 and len(sinks) > 1 else sinks
        mask, zeroed = (within_text(each, sequence, queries, keys) for each in (self.mask, self.zeroed))
        query, key = pick_on(self.query[one], 2, queries), pick_on(self.key[one], 2, keys)
        return AttentionCall(
            query, key, mask, self.scale, self.softcap, sinks, self.kind, range(query.shape[2]), range(key.shape[2]),
            zeroed=zeroed, shard=self.shard,
        )  # fmt: skip

    def real_keys(self) -> Bool[Tensor, "batch keys"] | None:
        """Return which keys are no padding, by the mask; None if the mask does not tell."""
        return real_keys(self.mask, self.query.shape[0], self.key.shape[2])

    @property
    def heads(self) -> range:
        """The numbers of its heads in the whole layer."""
        first = 0 if self.shard is None else self.shard.first
        return range(first, first + self.query.shape[1])

    @property
    def all_heads(self) -> int:
        """The number of heads of the whole layer."""
        return self.query.shape[1] if self.shard is None else self.shard.heads

    def last(self, count: int) -> AttentionCall:
        """Return the call with its last `count` queries only: a copy, so that the other queries can be freed."""
        if self.query.shape[2] <= count:
            return self
        queries = self.queries[-count:]
        dense = Mask(tuple(_last_rows(atom, count) for atom in self.dense.atoms))
        mask, zeroed = self.pattern.mask(queries, self.keys) & dense, self.pattern.zeroed(queries, self.keys)
        query = self.query[:, :, -count:].clone()
        return replace(self, query=query, mask=mask, queries=queries, dense=dense, zeroed=zeroed)

    @property
    def requires_grad(self) -> bool:
        """Whether the call is part of an autograd graph."""
        tensors = (self.query, self.key, *self.mask.tensors)
        return any(t.requires_grad for t in tensors) or (self.sinks is not None and self.sinks.requires_grad)

    def detach(self) -> AttentionCall:
        """Return the call outside the autograd graph."""
        if not self.requires_grad:
            return self
        sinks = None if self.sinks is None else self.sinks.detach()
        return replace(self, query=self.query.detach(), key=self.key.detach(), sinks=sinks)


def _last_rows(atom: Atom, count: int) -> Atom:
    """Return the part of a mask for the last `count` queries."""
    if isinstance(atom, Dense) and atom.tensor.dim() > 1 and atom.tensor.shape[-2] > 1:
        return Dense(atom.tensor[..., -count:, :].clone())
    if isinstance(atom, Same):
        return Same(atom.queries[..., -count:], atom.keys)
    return atom


def _rows(mask: Mask, shape: tuple[int, ...], device: torch.device) -> tuple[int, int]:
    """Return the first row that a cut of this mask changes, and the row after the last."""
    runs = [run for cut in bind(mask, shape, device, plain=False).cuts for run in cut.runs]
    return min((run.start for run in runs), default=0), max((run.stop for run in runs), default=0)


def joined_parts(calls: Sequence[AttentionCall], boundaries: Tensor | None) -> AttentionCall | None:
    """Return the calls for the parts of one row as one call; None if they are not cut at these boundaries.

    Vision models read all images of a batch as one long row of patches, in which a patch sees its own image or window
    only. Without a kernel for such rows, transformers cuts the row and calls its attention function once for each part.

    >>> row = torch.randn(1, 2, 5, 4)
    >>> parts = [AttentionCall(part, part, Mask()) for part in row.split([3, 2], 2)]
    >>> joined_parts(parts, torch.tensor([0, 3, 5])).matrix()
    AttentionMatrix(shape=(1, 2, 5, 5), dtype=float32, device=cpu, mask=documents(int64[5]))
    """
    sizes = [call.query.shape[2] for call in calls]
    alike = all(
        not call.mask.atoms and call.query.shape[0] == 1 and call.key.shape[2] == size and call.sinks is None
        for call, size in zip(calls, sizes, strict=True)
    )
    if boundaries is None or len(boundaries) != len(calls) + 1 or not alike:
        return None
    query, key = torch.cat([call.query for call in calls], 2), torch.cat([call.key for call in calls], 2)
    ids = torch.repeat_interleave(torch.tensor(sizes)).to(query.device)
    whole = range(sum(sizes))
    return replace(calls[0], query=query, key=key, mask=documents(ids), queries=whole, keys=whole)


# What every way to capture needs


def check_readable(tensor: Tensor) -> None:
    """Raise if a tensor has no rows of numbers that a record could show."""
    if tensor.is_meta:
        raise WatchError(
            "the model lies on the meta device, where tensors have no numbers to see. Move it to a real one."
        )
    if hasattr(tensor, "full_tensor"):
        raise WatchError(
            "the queries are a DTensor, whose shards only torch can put together. Let the projections give each rank "
            "its own heads: use_local_output=True, as tp_plan does."
        )
    if tensor.is_nested:
        raise WatchError(
            "nested tensors cannot be watched. Give the model a padded tensor and a padding mask: the outputs are the "
            "same."
        )


@functools.lru_cache(maxsize=4096)
def names_another_sequence(name: str) -> bool:
    """Whether the name of a module says that it attends to another sequence.

    >>> names_another_sequence("decoder.layers.0.encoder_attn"), names_another_sequence("decoder.layers.0.self_attn")
    (True, False)
    """
    path = name.lower()
    return any(word in path for word in _CROSS)


def to_one_dtype(*tensors: Tensor) -> tuple[Tensor, ...]:
    """Return the tensors in one dtype: under autocast, rotated queries may be float32 while the values are not."""
    device, dtype = tensors[0].device.type, tensors[-1].dtype
    if torch._C._is_any_autocast_enabled() and torch.is_autocast_enabled(device):
        dtype = torch.get_autocast_dtype(device)
    return tuple(tensor.to(dtype) for tensor in tensors)


_AVAILABLE = distributed.is_available()


@dataclass(frozen=True, eq=False)
class Shard:
    """A run of heads of a layer; other processes compute the other heads.

    >>> print(Shard(first=4, heads=8))
    the heads from 4 on, of 8
    """

    first: int  # the number of the first head of the run
    heads: int  # of the whole layer
    group: Any = None  # the ranks that have them, as torch.distributed knows them; None in a record from a file

    def __str__(self) -> str:
        return f"the heads from {self.first} on, of {self.heads}"


def shard_of(module: nn.Module, name: str, heads: int) -> Shard | None:
    """Return which heads of a module this rank computes, if it computes `heads` of them; None: all heads."""
    if not (_AVAILABLE and distributed.is_initialized()):
        return None
    from torch.distributed.tensor import DTensor

    for parameter in module.parameters():
        placements = parameter.placements if isinstance(parameter, DTensor) else ()
        for axis, placement in enumerate(placements):
            if not placement.is_shard(0):  # only projections to heads are cut by rows
                continue
            assert isinstance(parameter, DTensor)
            mesh = parameter.device_mesh
            declared = getattr(getattr(module, "config", None), "num_attention_heads", None)
            if declared == heads:  # they were gathered before the attention
                return None
            if declared not in (None, heads * mesh.size(axis)):
                raise WatchError(
                    f"{name}: this rank has {heads} of {declared} heads, which {mesh.size(axis)} ranks share unevenly, "
                    "so the numbers of its heads are unknown. Share the heads evenly: tp_size must divide their number."
                )
            return Shard(mesh.get_local_rank(axis) * heads, mesh.size(axis) * heads, mesh.get_group(axis))
    return None


# Who watches which module

Watchers = list[tuple["Passes", str]]  # each with the name of the module in its model
_lock = threading.RLock()
_watchers: dict[int, Watchers] = {}  # by id of the module, in the order in which the watchers came
_replaced: dict[tuple[int, str], tuple[Any, int]] = {}  # by id of the object and attribute: original value, count
_ABSENT = object()


def add_watcher(watcher: Passes, modules: Iterable[tuple[str, nn.Module]]) -> None:
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


def remove_watcher(watcher: Passes) -> None:
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


def name_unseen(watchers: Watchers) -> None:
    """Tell all watchers that their module computed attention which cannot be recorded."""
    for watcher, name in watchers:
        watcher.name_unseen(name)


# What every way to capture calls


class Placed(NamedTuple):
    """An attention call with its module and its text."""

    name: str  # of the module
    key: str  # of the entry: name#1 for the second run of the module in a forward
    text: Pass
    call: AttentionCall


Computed = tuple[Tensor, AttentionMatrix | None]  # an output, and the matrix that it was computed with, if any


def attend(
    watchers: Watchers, call: AttentionCall, value: Tensor, original: Callable[[], Computed], dropout: float = 0.0
) -> Computed:
    """Compute a call with the changes of the watchers, and let each watcher record it.

    `original` computes the call as the model does; it is used where nothing before the output is changed.
    """
    places, before = [], (call.query, call.key, value)
    for watcher, name in watchers:
        placed, value = watcher.place(name, call, value)
        call = placed.call
        places.append((watcher, placed))
    replaced = any(x is not y for x, y in zip(before, (call.query, call.key, value), strict=True))
    output, matrix = call.attend(value, dropout) if replaced or call.pattern.links else original()
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
