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
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, TypeVar

import torch
from torch import Tensor

from regard.errors import InputError, WatchError
from regard.matrix import AttentionMatrix, Parts, Top, Transposed
from regard.scores import Dense, Keep, Mask, bias, bind
from regard.scores.bound_mask import Positions, at
from regard.support import Bool, Float, Int
from regard.watching.calls import AttentionCall, Steps
from regard.watching.masks import Pattern
from regard.watching.pooling import BINS
from regard.watching.reductions import Growing, Reductions, extend, finished, reduce, select_heads
from regard.watching.shards import Shard
from regard.watching.tokens import Text, Tokens
from regard.watching.values import Attribution, KeptValues, Values

__all__ = [
    "Entry",
    "ModuleCalls",
    "layer_of",
    "mean_over_heads",
    "real_queries",
    "real_tokens",
    "seen_keys",
    "seen_queries",
    "shown",
    "shown_to_heads",
]

T = TypeVar("T")
_ROWS = 64  # so many queries are reduced, or looked up in a mask, at once


class ModuleCalls:
    """All calls of one module on one text: a single one, or the steps of a generation.

    The session appends calls; `entry()` gives the state so far as a value that does not change any more. A step of
    self-attention does not wait for the device and, unless its cache is written in place, copies only its new keys.
    """

    def __init__(
        self, name: str, call: AttentionCall, matrix: AttentionMatrix | None, keep: Sequence[str] | None, text: Text
    ):
        self._name, self.kind, self._keep, self._text = name, call.kind, keep, text
        self._count = 1
        self._queries, self._keys = call.queries, call.keys  # of the text so far
        self._shape = (*call.query.shape[:3], call.key.shape[2])
        self._first_head, self._shard = call.heads.start, call.shard
        self._steps = Steps()  # with `keep`, those that were not reduced yet
        self._joined: AttentionCall | None = None  # the steps as one call; None until asked for
        self._matrix: AttentionMatrix | None = None
        self._reductions: Growing | None = None
        self._entry: Entry | None = None
        self.values: KeptValues | None = None  # where they were asked for
        self._last_key = weakref.ref(call.key)
        matrix = call.matrix() if matrix is None else matrix
        if keep is None:
            self._matrix, self._joined = (matrix.detach() if call.requires_grad else matrix), call.detach()
            self._steps.add(self._joined)
        else:
            self._reductions = reduce(matrix.detach(), keep, range(self._shape[2]), self._columns(call))
            self._steps.note(call)

    def continues(self, call: AttentionCall, text_continues: bool) -> bool:
        """Whether a call continues this text; `text_continues`: self-attention did so in the same step."""
        if call.kind != "cross":
            return 0 < call.queries.start == self._queries.stop
        last = self._last_key()
        if last is call.key:  # a cache returns the same tensor each time
            return True
        return text_continues and (last is None or (last.shape == call.key.shape and torch.equal(last, call.key)))

    def located(self, call: AttentionCall) -> AttentionCall:
        """The call, in its place in this text if it is a step with a cache: one query, and one key more than before.

        torch's function is not told where a query stands. Models of transformers and regard's own say so themselves.
        """
        last = self._keys.stop
        is_step = call.kind == "cross" and len(call.queries) == 1 and call.keys == range(last + 1)
        if not is_step or self.kind != "decoder":
            return call
        return replace(call, kind="decoder", queries=range(last, last + 1), pattern=Pattern(((None, 0),)))

    def append(self, call: AttentionCall) -> None:
        """A further step."""
        self._count += 1
        self._entry = self._matrix = self._joined = None
        self._steps.add(call, self._keys)
        self._queries = range(self._queries.start, call.queries.stop)
        self._keys = range(self._keys.start, max(self._keys.stop, call.keys.stop))
        batch, heads, queries, _ = self._shape
        self._shape = batch, heads, queries + call.query.shape[2], len(self._keys)
        if call.kind == "cross":
            self._last_key = weakref.ref(call.key)
        if self._keep is not None and self._steps.rows >= _ROWS:
            self._reduce_steps()

    def finish(self) -> None:
        """What was put off is done; nothing of the cache is held any longer that the record does not need."""
        self._steps.check()
        if self.values is not None and self._count > 1:
            self.values.settle()
        if self._keep is not None:
            self._reduce_steps()

    def entry(self) -> Entry:
        """The attention over the whole text so far."""
        if self._entry is None:
            self._entry = self._make_entry()
        if self.values is not None:  # a gradient may come later
            return replace(self._entry, values=self.values.of(self._name, self._shape))
        return self._entry

    def _make_entry(self) -> Entry:
        reductions: Reductions | None = None
        if self._keep is not None:
            self._reduce_steps()
            assert self._reductions is not None
            reductions = finished(self._reductions)
        else:
            if self._joined is None:
                self._joined = self._steps.joined()
            if self._matrix is None:
                self._matrix = self._joined.matrix()
        return Entry(
            self._name,
            self.kind,
            layer_of(self._name),
            self._shape,
            self._count,
            call=self._joined,
            attention=self._matrix,
            reductions=reductions,
            first_head=self._first_head,
            shard=self._shard,
            **self._text.sides(self._name, self.kind, self._shape)._asdict(),
        )

    def _reduce_steps(self) -> None:
        """The steps that wait, as one matrix, added to what was kept before."""
        if not self._steps.rows:
            return
        assert self._keep is not None
        assert self._reductions is not None
        call = self._steps.joined()
        queries, keys = range(self._shape[2] - self._steps.rows, self._shape[2]), self._columns(call)
        found = reduce(call.matrix(), self._keep, queries, keys)
        self._reductions = extend(self._reductions, found, keys.start, keys.stop)
        self._steps.clear()

    def _columns(self, call: AttentionCall) -> range:
        """Where the keys of a call lie in the record, which starts with those of its first call."""
        return range(call.keys.start - self._keys.start, call.keys.stop - self._keys.start)


def layer_of(name: str) -> int:
    """The number of a layer: the first number in its name or, for a module that runs repeatedly, its repetition.

    >>> layer_of("encoder.block.2.layer.0.SelfAttention"), layer_of("albert.layers.0.attention#3"), layer_of("attn")
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
    shard: Shard | None = None  # which heads the call has, where other ranks have the others
    values: Values | None = None  # with keep=("matrix", "value")

    @property
    def heads(self) -> range:
        """The numbers of its heads, as the model counts them."""
        return range(self.first_head, self.first_head + self.shape[1])

    @property
    def of_call(self) -> slice:
        """Its heads among those of the call."""
        first = self.first_head - (0 if self.shard is None else self.shard.first)
        return slice(first, first + self.shape[1])

    @property
    def matrix(self) -> AttentionMatrix:
        """The attention matrix itself."""
        if self.attention is None:
            raise self._not_kept("the matrix")
        return self.attention

    def __repr__(self) -> str:
        batch, heads, queries, keys = self.shape
        kept = "" if self.reductions is None else f", keeps {', '.join(self.keeps)}"
        kept += "" if self.shard is None else f", heads {self.heads[0]} to {self.heads[-1]} of {self.shard.heads}"
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

    def pool(self, rows: int = BINS, columns: int = BINS) -> Float[Tensor, "batch heads rows columns"]:
        """The matrix averaged over bins; a kept pool has the bins it was kept with, of 1, 2, 4, … tokens."""
        if self.reductions is None:
            return self.matrix.pool(rows, columns)
        pool: Tensor = self._reduction("pool")
        fits = tuple(pool.shape[-2:]) == (min(rows, self.shape[2]), min(columns, self.shape[3]))
        if not fits and (rows, columns) != (BINS, BINS):
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

    def norms(self) -> Float[Tensor, "batch heads keys"]:
        """The length of what a key brings at a weight of 1: of its value, after the output projection of the head."""
        heads = slice(self.heads.start, self.heads.stop)
        return self._kept_values().norms(self._all_heads())[:, heads]

    @property
    def attribution(self) -> Attribution:
        """Gradient × attention, of what was differentiated since."""
        values, heads = self._kept_values(), slice(self.heads.start, self.heads.stop)
        if values.gradient is None:
            raise WatchError(
                f'{self.name} has no gradient: watch with keep=("matrix", "value", "gradient"), gradients enabled, and '
                "call .backward() on a number of the output."
            )
        count = self._all_heads()
        value = values.value.repeat_interleave(count // values.value.shape[1], 1)[:, heads]
        return Attribution(self.matrix, value, values.gradient[:, heads])

    def by_norm(self) -> Entry:
        """The same with weight × norm in place of weights, each row normalised to 1: a softmax again, with a bias.

        What goes to a sink of the model's own, which brings nothing, is not counted.
        """
        call, heads = self.call, slice(self.heads.start, self.heads.stop)
        assert call is not None
        norms = self._kept_values().norms(self._all_heads()).to(torch.promote_types(call.query.dtype, torch.float32))
        mask = call.mask & call.zeroed & bias(norms.log()[:, :, None])
        call = replace(call, mask=mask, sinks=None, zeroed=Mask())
        matrix = call.matrix()
        whole = len(self.heads) == matrix.shape[1]
        return replace(self, call=call, attention=matrix if whole else matrix.part[:, heads])

    def _all_heads(self) -> int:
        assert self.call is not None
        return self.call.query.shape[1]

    def _kept_values(self) -> Values:
        if self.values is None:
            raise WatchError(f'the values of {self.name} were not kept. Watch with keep=("matrix", "value").')
        return self.values

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


# Which words the mask shows: what is hidden is no answer, not even at 0 %


def real_tokens(entry: Entry, sequence: int) -> Int[Tensor, " tokens"]:
    """The positions of keys that are not padding: those that a mask hides from every query are."""
    real: Bool[Tensor, " keys"] = torch.ones(entry.shape[3], dtype=torch.bool)
    for atom in entry.call.mask.atoms if entry.call is not None else ():
        if isinstance(atom, Keep):
            keys = atom.keys.cpu()
            visible = keys if keys.dtype == torch.bool else torch.arange(entry.shape[3]) < keys[..., None]
        elif isinstance(atom, Dense) and atom.tensor.dim() > 1 and atom.tensor.shape[-2] == 1:  # one row for all
            dense = atom.tensor if atom.tensor.dtype == torch.bool else atom.tensor > -math.inf
            visible = dense.reshape(*[1] * (4 - dense.dim()), *dense.shape).any(-2).any(1).cpu()
        else:
            continue
        real &= visible.expand(entry.shape[0], -1)[sequence]
    return real.nonzero().flatten()


def real_queries(entry: Entry, sequence: int) -> Bool[Tensor, " queries"]:
    """Which queries are not padding; of cross-attention, whose keys are another text, all of them."""
    if entry.kind == "cross" or entry.shape[2] != entry.shape[3]:
        return torch.ones(entry.shape[2], dtype=torch.bool)
    return torch.zeros(entry.shape[2], dtype=torch.bool).index_fill_(0, real_tokens(entry, sequence), True)


def seen_keys(
    entries: Sequence[Entry], sequence: int, rows: Tensor, weights: Float[Tensor, " keys"]
) -> Bool[Tensor, " keys"]:
    """The keys that one of these queries may see in any head; only a key of weight 0 can be hidden."""
    blocks = [(block, range(len(weights))) for block in _blocks(rows)]
    return _seen(entries, sequence, blocks, weights != 0, 0)


def seen_queries(
    entries: Sequence[Entry], sequence: int, columns: Tensor, weights: Float[Tensor, " queries"]
) -> Bool[Tensor, " queries"]:
    """The queries that may see one of these keys in any head."""
    blocks = [(range(len(weights)), block) for block in _blocks(columns)]
    return _seen(entries, sequence, blocks, weights != 0, 1)


def _blocks(positions: Tensor) -> list[Tensor]:
    return [positions[start : start + _ROWS] for start in range(0, len(positions), _ROWS)]


def _seen(
    entries: Sequence[Entry],
    sequence: int,
    blocks: Sequence[tuple[Positions, Positions]],
    seen: Bool[Tensor, " n"],
    axis: int,
) -> Tensor:
    for entry, (rows, columns) in product(entries, blocks):
        if seen.all():
            break
        seen = seen | shown(entry, sequence, rows, columns).any(axis).cpu()
    return seen


def shown(entry: Entry, sequence: int, rows: Positions, columns: Positions) -> Bool[Tensor, "rows columns"]:
    """Whether any head may see a place, by the mask alone: no score is computed."""
    return _shown(entry, sequence, rows, columns).any(0)


def shown_to_heads(
    entry: Entry, sequence: int, rows: Tensor, columns: Tensor, scores: Float[Tensor, " heads"]
) -> Bool[Tensor, " heads"]:
    """Which heads may see one of these keys from one of these queries; only a head of score 0 can be kept from it."""
    seen = scores != 0
    for block in _blocks(rows):
        if seen.all():
            break
        seen = seen | _shown(entry, sequence, block, columns).flatten(1).any(1).cpu()
    return seen


def _shown(
    entry: Entry, sequence: int, rows: Positions, columns: Positions
) -> Bool[Tensor, "heads_or_one rows columns"]:
    """The mask of each head, or one for all heads."""
    call = entry.call
    assert call is not None, "an entry that has its matrix has its call"
    device = call.query.device
    rows, columns = at(rows, device).to(device), at(columns, device).to(device)
    mask = bind(call.mask & call.zeroed, (*call.query.shape[:3], call.key.shape[2]), device, plain=False)
    shown = torch.ones(1, 1, len(rows), len(columns), dtype=torch.bool, device=device)
    if (tile := mask.tile(rows, columns, device)) is not None:
        shown = shown & tile
    if (bias := mask.bias_tile(rows, columns)) is not None:
        shown = shown & (bias != -math.inf)
    heads = shown[sequence if len(shown) > 1 else 0]
    return heads if len(heads) == 1 else heads[entry.of_call]
