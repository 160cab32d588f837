"""From the calls of a module to its `Entry`.

AttentionCall ──appended to──▶ ModuleCalls ──entry()──▶ Entry
one call, as the model         all calls of one         what a reader sees: one matrix over the whole
made it (frozen)               module on one text       text, or its reductions, with the words (frozen)
"""

from __future__ import annotations

import math
import re
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.nn import functional

from regard.errors import InputError, WatchError
from regard.matrix import AttentionMatrix, Parts, Top, Transposed
from regard.scores import Dense, Mask, as_mask, bind
from regard.support import Float
from regard.watching.masks import Pattern
from regard.watching.reductions import Reductions, extend, reduce, select_heads
from regard.watching.tokens import Text, Tokens

__all__ = ["AttentionCall", "Entry", "ModuleCalls", "mean_over_heads"]

T = TypeVar("T")


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
    pattern: Pattern = field(default_factory=Pattern)  # a rule in positions of the text
    dense: Mask = field(default_factory=Mask)  # what is known for these queries and keys only

    def matrix(self) -> AttentionMatrix:
        """The attention matrix, not computed yet."""
        return AttentionMatrix(
            self.query, self.key, mask=self.mask, scale=self.scale, softcap=self.softcap, sinks=self.sinks
        )

    def detach(self) -> AttentionCall:
        """The same outside the autograd graph."""
        sinks = None if self.sinks is None else self.sinks.detach()
        return replace(self, query=self.query.detach(), key=self.key.detach(), sinks=sinks)


class ModuleCalls:
    """All calls of one module on one text: a single one, or the steps of a generation.

    The session appends calls; `entry()` gives the state so far as a value that does not change any more.
    """

    def __init__(self, name: str, call: AttentionCall, matrix: AttentionMatrix, keep: Sequence[str] | None, text: Text):
        self._name, self.kind, self._keep, self._text = name, call.kind, keep, text
        self._count = 1
        self._steps: list[AttentionCall] = []  # with the new keys of each step only
        self._joined: AttentionCall | None = None  # the steps as one call; None until asked for
        self._matrix: AttentionMatrix | None = None
        self._reductions: Reductions | None = None
        self._queries, self._keys = call.queries, call.keys  # of the text so far
        self._shape = tuple(matrix.shape)
        self._entry: Entry | None = None
        self._remember(call)
        if keep is None:
            self._matrix, self._joined = matrix.detach(), call.detach()
            self._steps.append(self._joined)
        else:
            self._reductions = reduce(matrix.detach(), keep)

    def continues(self, call: AttentionCall, text_continues: bool) -> bool:
        """Whether a call continues this text; `text_continues`: self-attention did so in the same step."""
        if call.kind != "cross":
            return 0 < call.queries.start == self._queries.stop
        last = self._last_key()
        if last is call.key:  # a cache returns the same tensor each time
            return True
        return text_continues and (last is None or (last.shape == call.key.shape and torch.equal(last, call.key)))

    def append(self, call: AttentionCall, matrix: AttentionMatrix) -> None:
        """A further step."""
        self._refuse_rewritten_cache(call)
        self._count += 1
        self._entry = None
        end = max(self._keys.stop, call.keys.stop)
        if self._reductions is None:
            self._matrix = self._joined = None
            self._steps.append(replace(call.detach(), key=self._new_keys(call)))
        else:
            assert self._keep is not None
            step = reduce(matrix.detach(), self._keep)
            self._reductions = extend(self._reductions, step, call.keys.start, end)
        batch, heads, queries, _ = self._shape
        self._shape = batch, heads, queries + matrix.shape[2], end
        self._queries = range(self._queries.start, call.queries.stop)
        self._keys = range(self._keys.start, end)
        self._remember(call)

    def entry(self) -> Entry:
        """The attention over the whole text so far."""
        if self._entry is None:
            self._entry = self._make_entry()
        return self._entry

    def _make_entry(self) -> Entry:
        if self._reductions is None:
            if self._joined is None:
                self._joined = _join(self._steps, self._keys)
            if self._matrix is None:
                self._matrix = self._joined.matrix()
        batch, heads, queries, keys = self._shape if self._matrix is None else self._matrix.shape
        ids = self._text.ids(self._name, queries, batch)
        key_ids = ids if queries == keys else None
        if self.kind == "cross":
            key_ids = self._text.ids("encoder.", keys, batch)
        return Entry(
            self._name,
            self.kind,
            _layer(self._name),
            (batch, heads, queries, keys),
            self._count,
            call=self._joined,
            attention=self._matrix,
            reductions=self._reductions,
            tokens=self._text.tokens(ids, queries, batch),
            key_tokens=self._text.tokens(key_ids, keys, batch),
            ids=ids,
            key_ids=key_ids,
        )

    def _remember(self, call: AttentionCall) -> None:
        """What is needed to tell whether the next call continues the text."""
        self._last_key = weakref.ref(call.key)
        self._last_key_row = call.key[:, :, -1:].detach().clone() if self.kind != "cross" else None

    def _new_keys(self, call: AttentionCall) -> Tensor:
        """The keys of this step only, copied: a cache may overwrite them, and must not be kept alive."""
        if call.kind == "cross":
            return call.key[:, :, :0].detach()
        first = self._keys.stop - call.keys.start
        return call.key[:, :, first:].detach().clone()

    def _refuse_rewritten_cache(self, call: AttentionCall) -> None:
        """Beam search reorders the cache: rows would be joined with keys that they never saw."""
        position = self._keys.stop - 1 - call.keys.start
        if self._last_key_row is None or position < 0:
            return
        if not torch.equal(self._last_key_row, call.key[:, :, position : position + 1]):
            raise WatchError(
                "the cache was reordered or rewritten between two steps, as beam search does: rows would be put beside "
                "keys that they never saw. Generate with num_beams=1, or watch model(sequences) on what came out."
            )


def _join(steps: Sequence[AttentionCall], keys: range) -> AttentionCall:
    """The steps of a generation as one call over the whole text."""
    last = steps[-1]
    queries = range(steps[0].queries.start, last.queries.stop)
    query = torch.cat([step.query for step in steps], 2)
    key = torch.cat([step.key for step in steps], 2)
    mask = _without_dropped_keys(steps, queries, keys) & last.pattern.mask(queries, keys)
    count = max(len(step.dense.atoms) for step in steps)
    for n in range(count):
        rows = [_dense_rows(step, n, key.shape[2]) for step in steps]
        shape = [max(sizes) for sizes in zip(*(row.shape[:2] for row in rows), strict=True)]
        mask &= torch.cat([row.expand(*shape, *row.shape[2:]) for row in rows], 2)
    return replace(last, query=query, key=key, mask=mask, queries=queries, keys=keys)


def _without_dropped_keys(steps: Sequence[AttentionCall], queries: range, keys: range) -> Mask:
    """Hides the keys that a cache had dropped by the time of a step, where the masks of the steps do not say so."""
    dropped = [step for step in steps if step.keys.start > 0 and step.kind != "cross" and not _hides_dropped(step)]
    if not dropped:
        return Mask()
    lowest = {step.keys.start - step.queries.start for step in dropped}
    others = max((step.queries.stop - 1 for step in steps if step.keys.start == 0), default=-1)
    if len(lowest) == 1 and all(len(step.queries) == 1 for step in dropped) and others + min(lowest) <= 0:
        return Pattern(bands=((min(lowest), None),)).mask(queries, keys)  # a window, as long as the cache
    first = torch.cat([torch.full((len(step.queries),), step.keys.start) for step in steps])
    visible = torch.arange(keys.start, keys.stop) >= first[:, None]
    return as_mask(visible.to(steps[0].query.device))


def _hides_dropped(step: AttentionCall) -> bool:
    return any(low is not None and step.queries.start + low >= step.keys.start for low, _ in step.pattern.bands)


def _dense_rows(step: AttentionCall, n: int, keys: int) -> Tensor:
    """The n-th dense part of a step's mask as a 4-D tensor, padded to all keys of the text."""
    like, queries = step.query, len(step.queries)
    if n >= len(step.dense.atoms):
        return like.new_ones(1, 1, queries, keys, dtype=torch.bool)
    atom = step.dense.atoms[n]
    if isinstance(atom, Dense):
        tensor = atom.tensor[(None,) * (4 - atom.tensor.dim())]
        tensor = tensor.expand(*tensor.shape[:2], queries, len(step.keys))
    else:
        shape = (*like.shape[:3], len(step.keys))
        tile = bind(Mask((atom,)), shape, like.device, plain=False).tile(range(queries), range(shape[3]), like.device)
        assert tile is not None
        tensor = tile.expand(*tile.shape[:2], *shape[2:])
    hidden = -math.inf if tensor.is_floating_point() else False  # keys that were not there in this step
    return functional.pad(tensor, (step.keys.start, keys - step.keys.stop), value=hidden)


def _layer(name: str) -> int:
    """The number of a layer: the first number in its name or, for a module that runs repeatedly, its repetition.

    >>> _layer("encoder.block.2.layer.0.SelfAttention"), _layer("albert.layers.0.attention#3"), _layer("attention")
    (2, 3, 0)
    """
    if "#" in name:
        return int(name.rpartition("#")[2])
    match = re.search(r"(?:^|\.)(\d+)(?:\.|$)", name)
    return int(match[1]) if match else 0


@dataclass(frozen=True, eq=False, repr=False)
class Entry:
    """An `AttentionMatrix` (batch, heads, queries, keys) with its name, kind, layer, heads and tokens.

    Where the record keeps only reductions, an entry has those, and an error says so when asked for more.
    """

    name: str
    kind: str
    layer: int
    shape: tuple[int, int, int, int]  # (batch, heads, queries, keys)
    calls: int = 1
    call: AttentionCall | None = None  # what the matrix is computed from, with all heads; None with reductions
    attention: AttentionMatrix | None = None  # `matrix` is the same, or an error where it was not kept
    reductions: Reductions | None = None
    tokens: list[Tokens] | None = None  # of the queries, one for each sequence
    key_tokens: list[Tokens] | None = None  # and of the keys
    ids: Tensor | None = None  # the ids of the tokens, as the model received them
    key_ids: Tensor | None = None
    first_head: int = 0

    @property
    def heads(self) -> range:
        """The numbers of its heads, as the model counts them."""
        return range(self.first_head, self.first_head + self.shape[1])

    @property
    def matrix(self) -> AttentionMatrix:
        """The attention matrix itself."""
        if self.attention is None:
            raise self._not_kept("the matrix")
        return self.attention

    def __repr__(self) -> str:
        batch, heads, queries, keys = self.shape
        kept = "" if self.reductions is None else f", keeps {', '.join(self.keeps)}"
        return (
            f"Entry({self.name}: {self.kind}, layer {self.layer}, {batch} × {heads} heads × {queries} × {keys}{kept})"
        )

    @property
    def keeps(self) -> tuple[str, ...]:
        """What can be asked of it: the matrix, or the reductions that were kept."""
        return ("matrix",) if self.reductions is None else tuple(self.reductions)

    # What an AttentionMatrix has

    def __getitem__(self, index: Any) -> Tensor:
        return self.matrix[index]

    def __matmul__(self, value: Float[Tensor, "*any keys width"]) -> Tensor:
        return self.matrix @ value

    @property
    def mT(self) -> Transposed:
        """The transposed matrix."""
        return self.matrix.mT

    @property
    def part(self) -> Parts:
        """`entry.part[…]`: a part, still lazy."""
        return self.matrix.part

    def to_dense(self) -> Tensor:
        """All weights, if they fit in memory."""
        return self.matrix.to_dense()

    def received(self) -> Float[Tensor, "batch heads keys"]:
        """The sum of what each key receives from all queries."""
        return self.matrix.received() if self.reductions is None else self._reduction("received")

    def entropy(self) -> Float[Tensor, "batch heads queries"]:
        """How spread out the attention of each query is, in nats."""
        return self.matrix.entropy() if self.reductions is None else self._reduction("entropy")

    def pool(self, rows: int = 256, columns: int = 256) -> Float[Tensor, "batch heads rows columns"]:
        """The matrix averaged over bins; a kept pool has the size it was kept with."""
        if self.reductions is None:
            return self.matrix.pool(rows, columns)
        pool: Tensor = self._reduction("pool")
        if tuple(pool.shape[-2:]) != (min(rows, self.shape[2]), min(columns, self.shape[3])):
            raise InputError(f"the kept picture has {tuple(pool.shape[-2:])} bins. Got {(rows, columns)}.")
        return pool

    def top(self, k: int) -> Top:
        """The k largest weights of each query and their keys."""
        if self.reductions is None:
            return self.matrix.top(k)
        top: Top = self._reduction("top")
        if k > top.keys.shape[-1]:
            raise InputError(f"{top.keys.shape[-1]} keys of each query were kept. Got k = {k}.")
        return Top(top.weights[..., :k], top.keys[..., :k])

    def head(self, head: int | slice) -> Entry:
        """The same with one head, or a run of heads."""
        if isinstance(head, int):
            if head not in self.heads:
                raise InputError(f"{self.name} has heads {self.heads.start} to {self.heads.stop - 1}. Got {head}.")
            head = slice(head, head + 1)
        batch, count, queries, keys = self.shape
        start, stop, step = slice(
            None if head.start is None else head.start - self.first_head,
            None if head.stop is None else head.stop - self.first_head,
            head.step,
        ).indices(count)
        if step != 1 or start >= stop:
            raise InputError(f"heads are one head or a run of them, at least one: slice(start, stop). Got {head}.")
        selected = slice(start, stop)
        return replace(
            self,
            shape=(batch, stop - start, queries, keys),
            attention=None if self.attention is None else self.attention.part[:, selected],
            reductions=None if self.reductions is None else select_heads(self.reductions, selected),
            first_head=self.first_head + start,
        )

    def _reduction(self, name: str) -> Any:
        if self.reductions is None or name not in self.reductions:
            raise self._not_kept(name)
        return self.reductions[name]  # type: ignore[literal-required]

    def _not_kept(self, what: str) -> WatchError:
        return WatchError(
            f'{what} of {self.name} was not kept, only {", ".join(self.keeps)}. Watch with keep="matrix", or name it '
            'in keep=("received", "entropy", "pool", "top").'
        )


def mean_over_heads(entries: Sequence[Entry], sum_over_heads: Callable[[Entry], T]) -> T:
    """The mean over all heads of all entries of something that is computed from each entry as a sum over its heads."""
    total: Any = sum(sum_over_heads(entry) for entry in entries)  # type: ignore[misc]
    mean: T = total / sum(entry.shape[1] for entry in entries)
    return mean
