"""`AttentionCall`, one call of an attention function, and `Steps`, the calls of a generation that become one."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from regard.errors import WatchError
from regard.matrix import AttentionMatrix
from regard.scores import Atom, Dense, Mask, Positions, Same, as_mask, bind
from regard.support import Bool, Float
from regard.watching.capture.links import LocatedLink
from regard.watching.capture.masks import Pattern, pick_on, real_keys, within_text
from regard.watching.capture.shards import Shard
from regard.watching.record.tokens import Detached

__all__ = [
    "AttentionCall",
    "Step",
    "Steps",
    "check_readable",
    "dense_rows",
    "joined_mask",
    "names_another_sequence",
    "to_one_dtype",
]

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
    zeroed: Mask = _NO_MASK  # hides weights after the softmax: the others stay as they are
    shard: Shard | None = None  # its heads, where other ranks compute the others

    def matrix(self) -> AttentionMatrix:
        """The attention matrix, not computed yet."""
        matrix = AttentionMatrix(
            self.query, self.key, mask=self.mask, scale=self.scale, softcap=self.softcap, sinks=self.sinks
        )
        return matrix.where(self.zeroed) if self.zeroed.atoms else matrix

    def attend(self, value: Tensor, dropout: float = 0.0) -> tuple[Tensor, AttentionMatrix]:
        """The output, and the matrix that it was computed with; by_hand.py does not follow what regard computes."""
        with torch._C.DisableTorchFunction():
            if dropout or not self.zeroed.atoms:
                matrix = self.matrix()
                return matrix.attend(value, dropout), matrix
            before = replace(self, zeroed=Mask()).matrix()
            output = before.attend(value)  # right for most rows, and its normalisers are those of the others
            zeroed = before.where(self.zeroed)
            first, stop = _rows(self.zeroed, tuple(zeroed.shape), value.device)
            changed = zeroed.part[:, :, first:stop].attend(value)
            return torch.cat([output[:, :, :first], changed, output[:, :, stop:]], 2), zeroed

    def changed(self, links: Sequence[LocatedLink], zeroed: Sequence[LocatedLink]) -> AttentionCall:
        """The same with these links cut or steered, and those set to 0."""
        pattern = replace(self.pattern, links=self.pattern.links + tuple(links), zeroed=(*self.pattern.zeroed, *zeroed))
        places = self.queries, self.keys
        new = replace(Pattern(), links=tuple(links), zeroed=tuple(zeroed))
        hidden = self.zeroed & new.hidden(*places)
        return replace(self, mask=self.mask & new.mask(*places), pattern=pattern, zeroed=hidden)

    def text(self, sequence: int, queries: Positions, keys: Positions) -> AttentionCall:
        """The same with these queries and keys of one text of a batch, the others being padding."""
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
        """Which keys are no padding, as its mask says; None where it says nothing of it."""
        return real_keys(self.mask, self.query.shape[0], self.key.shape[2])

    @property
    def heads(self) -> range:
        """The numbers of its heads, as the whole model counts them."""
        first = 0 if self.shard is None else self.shard.first
        return range(first, first + self.query.shape[1])

    @property
    def all_heads(self) -> int:
        """How many heads there are on all ranks."""
        return self.query.shape[1] if self.shard is None else self.shard.heads

    def last(self, count: int) -> AttentionCall:
        """The same with the last so many queries only: a copy, so that the others can be forgotten."""
        if self.query.shape[2] <= count:
            return self
        queries = self.queries[-count:]
        dense = Mask(tuple(_last_rows(atom, count) for atom in self.dense.atoms))
        mask, zeroed = self.pattern.mask(queries, self.keys) & dense, self.pattern.hidden(queries, self.keys)
        query = self.query[:, :, -count:].clone()
        return replace(self, query=query, mask=mask, queries=queries, dense=dense, zeroed=zeroed)

    def warn_if_detached(self, detached: Detached) -> None:
        """Let a gradient that passes through this call warn, if numbers of it were asked for that have none."""
        if torch.is_grad_enabled() and (tensors := [t for t in (self.query, self.key) if t.requires_grad]):
            tensors[0].register_hook(detached.passed)  # type: ignore[no-untyped-call]

    @property
    def requires_grad(self) -> bool:
        """Whether it is part of an autograd graph."""
        tensors = (self.query, self.key, *self.mask.tensors)
        return any(t.requires_grad for t in tensors) or (self.sinks is not None and self.sinks.requires_grad)

    def detach(self) -> AttentionCall:
        """The same outside the autograd graph."""
        if not self.requires_grad:
            return self
        sinks = None if self.sinks is None else self.sinks.detach()
        return replace(self, query=self.query.detach(), key=self.key.detach(), sinks=sinks)


def _last_rows(atom: Atom, count: int) -> Atom:
    """What a part of a mask says of the last so many queries."""
    if isinstance(atom, Dense) and atom.tensor.dim() > 1 and atom.tensor.shape[-2] > 1:
        return Dense(atom.tensor[..., -count:, :].clone())
    if isinstance(atom, Same):
        return Same(atom.queries[..., -count:], atom.keys)
    return atom


def _rows(mask: Mask, shape: tuple[int, ...], device: torch.device) -> tuple[int, int]:
    """The first row that a cut of this mask concerns, and the one after the last."""
    runs = [run for cut in bind(mask, shape, device, plain=False).cuts for run in cut.runs]
    return min((run.start for run in runs), default=0), max((run.stop for run in runs), default=0)


# What calls of every origin have to be asked


def check_readable(tensor: Tensor) -> None:
    """Raise where a tensor has no rows of numbers that a record could show."""
    if type(tensor) is Tensor and not tensor.is_meta and not tensor.is_nested:
        return
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
    """Whether a module is named as attention to another sequence.

    >>> names_another_sequence("decoder.layers.0.encoder_attn"), names_another_sequence("decoder.layers.0.self_attn")
    (True, False)
    """
    path = name.lower()
    return any(word in path for word in _CROSS)


def to_one_dtype(*tensors: Tensor) -> tuple[Tensor, ...]:
    """Under autocast a model's rotated queries may be float32 while its values are not."""
    dtypes = [tensor.dtype for tensor in tensors]
    one_dtype = dtypes.count(dtypes[0]) == len(dtypes)
    if one_dtype and not torch._C._is_any_autocast_enabled():
        return tensors
    device = tensors[0].device.type
    if torch.is_autocast_enabled(device):
        dtype = torch.get_autocast_dtype(device)
    elif one_dtype:
        return tensors
    else:
        dtype = tensors[-1].dtype
    return tuple(tensor.to(dtype) for tensor in tensors)


class Step(NamedTuple):
    """What the call of a step is made of, but for its keys."""

    query: Tensor
    kind: str
    queries: range
    keys: range
    pattern: Pattern
    dense: Mask


class _NewKeys(NamedTuple):
    """A copy of the keys that a step added, after the key before them as the cache had it in that step."""

    tensor: Tensor
    overlap: int  # 1 with that key, 0 where there is none
    stop: int  # the position in the text where they end


class Steps:
    """Calls in a row, each with its new keys only, and the keys of the cache once.

    A cache that makes a new tensor in each step holds all keys in the newest one: so do we, and no older one. A cache
    that writes into one tensor may write over it later: its keys are copied once, and then those of each step, as are
    those of a cache that drops keys.
    """

    def __init__(self) -> None:
        self.rows = 0  # queries of all calls
        self._steps: list[Step] = []
        self._last: tuple[float | None, float | None, Tensor | None] = None, None, None  # scale, softcap and sinks
        self._shard: Shard | None = None
        self._new: list[_NewKeys] = []
        self._checked = 1  # of the new keys, so many were compared with the step before
        self._key: Tensor | None = None  # the keys at the positions below
        self._positions = range(0)
        self._version: int | None = None  # of these keys; None where they are a copy
        self._address = 0  # of the keys of the last call
        self._like: tuple[Any, ...] | None = None  # what the tensors of a further step are like, once one was followed

    def add(self, call: AttentionCall, before: range = range(0)) -> None:
        """A further call; the text had the keys at `before` until now."""
        key, address, is_self = call.key, call.key.data_ptr(), call.kind != "cross"
        self._like = None
        if is_self and len(before):
            self._copy_new(key, call.keys, before)
        if self._key is None:
            written = address == self._address  # into the keys of the last call
            self._hold(key, call.keys, copy=is_self and (written or call.keys.start > 0))
        elif self._version is not None and is_self:
            written = address == self._key.data_ptr()
            if call.keys.start == self._positions.start:
                self._hold(*((self._key, self._positions) if written else (key, call.keys)), copy=written)
            elif written:
                raise _rewritten()
        self._address = address
        self._last, self._shard = (call.scale, call.softcap, call.sinks), call.shard
        query = call.query.detach() if call.query.requires_grad else call.query
        self.rows += query.shape[2]
        self._steps.append(Step(query, call.kind, call.queries, call.keys, call.pattern, call.dense))

    def follow(self, query: Tensor, key: Tensor, scale: float | None, *, compare: bool) -> bool:
        """Add a step of one query that is like the last one, but for one key more; False where it is not surely that.

        Every layer of a step runs this, and a GPU waits for it, so it does as little as possible: keys are copied for
        `check` only if they are to be compared.
        """
        shape, address = key.shape, key.data_ptr()
        like = (query.shape, query.dtype, key.dtype, shape[0], shape[1], scale)
        if like != self._like and not self._is_like_last(query, key, scale):
            return False
        positions = self._positions
        if shape[2] != len(positions) + 1 or address == self._address:
            return False
        last = self._steps[-1]
        keys = range(positions.start, positions.stop + 1)
        if compare:
            self._copy_new(key, keys, positions)
        self._key, self._positions, self._version, self._address, self._like = key, keys, _version(key), address, like
        queries = range(last.queries.stop, last.queries.stop + 1)
        self._steps.append(Step(query, last.kind, queries, keys, last.pattern, last.dense))
        self.rows += 1
        return True

    def _is_like_last(self, query: Tensor, key: Tensor, scale: float | None) -> bool:
        """Whether nothing but the number of keys is other than in the last call."""
        if self._version is None or self._key is None or not self._steps:  # a copy, or nothing to be like
            return False
        last = self._steps[-1]
        return (
            query.shape == last.query.shape
            and query.dtype == last.query.dtype == key.dtype == self._key.dtype
            and key.shape[:2] == self._key.shape[:2]
            and self._address == self._key.data_ptr()
            and (scale, None, None) == self._last
            and last.pattern.only_causal
            and not last.dense.atoms
        )

    def note(self, call: AttentionCall) -> None:
        """A call that is not added: only its last key is stored, for the next one to be compared with."""
        self._address, self._like = call.key.data_ptr(), None
        if call.kind != "cross":
            self._new = [_NewKeys(call.key[:, :, -1:].detach().clone(), 0, call.keys.stop)]

    def joined(self) -> AttentionCall:
        """All calls as one."""
        self.check()
        assert self._key is not None
        if self._version is not None and _version(self._key) != self._version:
            raise _rewritten()
        keys, stop = [self._key], self._positions.stop
        for tensor, overlap, end in self._new:
            if (missing := end - stop) > 0 and overlap < tensor.shape[2]:
                keys.append(tensor[:, :, -missing:])
                stop = end
        key = self._key if len(keys) == 1 else torch.cat(keys, 2)
        scale, softcap, sinks = self._last
        positions = (
            range(self._steps[0].queries.start, self._steps[-1].queries.stop),
            range(self._positions.start, stop),
        )
        last, mask = self._steps[-1], joined_mask(self._steps, *positions)
        query = torch.cat([step.query for step in self._steps], 2)
        sinks = None if sinks is None else sinks.detach()
        return AttentionCall(
            query, key.detach(), mask, scale, softcap, sinks, last.kind, *positions, last.pattern, last.dense,
            last.pattern.hidden(*positions), self._shard,
        )  # fmt: skip

    def check(self) -> None:
        """Raise where the cache was rewritten between two steps: rows would be joined with keys they never saw."""
        pairs = [
            (before.tensor[:, :, -1:], now.tensor[:, :, :1])
            for before, now in zip(self._new[self._checked - 1 :], self._new[self._checked :], strict=False)
            if now.overlap
        ]
        if pairs:
            before, now = (torch.cat(rows, 2) for rows in zip(*pairs, strict=True))
            if not torch.equal(before, now):  # waits for the device: once for all steps
                raise _rewritten()
        self._checked = max(len(self._new), 1)

    def resume(self) -> None:
        """What comes next has keys that were computed again: their last digits may be others."""
        self.check()
        self._checked = len(self._new) + 1

    def clear(self) -> None:
        """No calls any more; the next one is still compared with the last."""
        self.rows, self._steps, self._key, self._like = 0, [], None, None
        self._new, self._checked = self._new[-1:], 1

    def _copy_new(self, key: Tensor, keys: range, before: range) -> None:
        first = before.stop - keys.start
        skipped = bool(self._new) and self._new[-1].stop != before.stop  # steps whose keys were not to be compared
        overlap = 0 if skipped else min(first, 1)
        new = key[:, :, first - overlap :].detach().clone()
        if not self._new:
            assert self._key is not None
            self._new.append(_NewKeys(self._key[:, :, -1:].clone(), 0, before.stop))
        if new.shape[:2] != self._new[-1].tensor.shape[:2]:
            raise _rewritten()
        self._new.append(_NewKeys(new, overlap, keys.stop))

    def _hold(self, key: Tensor, positions: range, *, copy: bool) -> None:
        self._key, self._positions = key.clone() if copy else key, positions
        self._version = None if copy else _version(key)


def _version(tensor: Tensor) -> int:
    """How often it was written to; tensors of the inference mode do not count."""
    return 0 if tensor.is_inference() else tensor._version


def _rewritten() -> WatchError:
    return WatchError(
        "the cache was reordered or rewritten between two steps: rows would be put beside keys that they never saw. "
        "Generate with model.generate, whose beams can be followed, or watch model(sequences) on what came out."
    )


def joined_mask(steps: Sequence[Step], queries: range, keys: range) -> Mask:
    """The mask of all steps over all of these keys."""
    mask = _without_dropped_keys(steps, queries, keys) & steps[-1].pattern.mask(queries, keys)
    for n in range(max(len(step.dense.atoms) for step in steps)):
        rows = [dense_rows(step, n, keys) for step in steps]
        shape = [max(sizes) for sizes in zip(*(row.shape[:2] for row in rows), strict=True)]
        mask &= torch.cat([row.expand(*shape, *row.shape[2:]) for row in rows], 2)
    return mask


def _without_dropped_keys(steps: Sequence[Step], queries: range, keys: range) -> Mask:
    """Hides the keys that a cache had dropped by the time of a step, where the masks of the steps do not say so."""
    dropped = [s for s in steps if s.keys.start > keys.start and s.kind != "cross" and not _hides_dropped(s)]
    if not dropped:
        return Mask()
    lowest = {step.keys.start - step.queries.start for step in dropped}
    others = max((step.queries.stop - 1 for step in steps if step.keys.start == keys.start), default=-1)
    if len(lowest) == 1 and all(len(step.queries) == 1 for step in dropped) and others + min(lowest) <= keys.start:
        return Pattern(bands=((min(lowest), None),)).mask(queries, keys)  # a window, as long as the cache
    first = torch.cat([torch.full((len(step.queries),), step.keys.start) for step in steps])
    visible = torch.arange(keys.start, keys.stop) >= first[:, None]
    return as_mask(visible.to(steps[0].query.device))


def _hides_dropped(step: Step) -> bool:
    return any(low is not None and step.queries.start + low >= step.keys.start for low, _ in step.pattern.bands)


def dense_rows(step: Step, n: int, keys: range) -> Tensor:
    """The n-th dense part of a step's mask as a 4-D tensor, padded to all of these keys."""
    like, queries = step.query, len(step.queries)
    if n >= len(step.dense.atoms):
        return like.new_ones(1, 1, queries, len(keys), dtype=torch.bool)
    atom = step.dense.atoms[n]
    if isinstance(atom, Dense):
        tensor = atom.tensor[(None,) * (4 - atom.tensor.dim())]
        tensor = tensor.expand(*tensor.shape[:2], queries, len(step.keys))
    else:
        shape = (*like.shape[:3], len(step.keys))
        bound, place = bind(Mask((atom,)), shape, like.device, plain=False), (range(queries), range(shape[3]))
        tile = bound.bias_tile(*place) if bound.biased else bound.tile(*place, like.device)
        if tile is None:  # a cut of other rows
            return like.new_ones(1, 1, queries, len(keys), dtype=torch.bool)
        tensor = tile.expand(*tile.shape[:2], *shape[2:])
    hidden = -math.inf if tensor.is_floating_point() else False  # keys that were not there in this step
    return functional.pad(tensor, (step.keys.start - keys.start, keys.stop - step.keys.stop), value=hidden)
