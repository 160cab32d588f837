"""`Entry`: what a reader sees of a module, one matrix over the whole text or its reductions, with the words."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Any, TypeVar

import torch
from torch import Tensor

from regard.errors import InputError, WatchError
from regard.matrix import AttentionMatrix, Parts, Top, Transposed
from regard.scores import Mask, Positions, bias, bind, cut
from regard.scores.bound_mask import at
from regard.support import Bool, Float
from regard.watching.capture.calls import AttentionCall
from regard.watching.capture.shards import Shard
from regard.watching.record.pooling import BINS
from regard.watching.record.reductions import Reductions, of_text, select_heads
from regard.watching.record.tokens import Detached, Tokens
from regard.watching.record.values import Attribution, Values

__all__ = ["Entry", "layer_of", "mean_over_heads", "seen_keys", "seen_queries", "shown", "shown_to_heads"]

T = TypeVar("T")
_ROWS = 64  # so many queries are looked up in a mask at once


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
    detached: Detached | None = None  # told when numbers are asked for that have no gradient
    real: Bool[Tensor, "batch tokens"] | None = None  # which tokens, of which the queries are the last, are no padding
    real_keys: Bool[Tensor, "batch keys"] | None = None  # and which keys; None where all are, or nothing is known

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
        if self.detached is not None:
            self.detached.ask()
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

    # One text of a batch

    @cached_property
    def _texts(self) -> dict[int, Entry]:
        return {}

    def text(self, sequence: int = 0) -> Entry:
        """One text of the batch, without its padding: what the questions of a record are asked of.

        Tokens are counted from the first that is no padding, so that the answers are those for the text alone.
        """
        if not 0 <= sequence < self.shape[0]:
            raise InputError(f"the batch has {self.shape[0]} sequences, numbered from 0. Got sequence = {sequence}.")
        if self.shape[0] == 1 and self.real is None and self.real_keys is None:
            return self
        if sequence not in self._texts:
            with torch.enable_grad():  # it is kept for those who ask with gradients
                self._texts[sequence] = self._of_text(sequence)
        return self._texts[sequence]

    def _of_text(self, sequence: int) -> Entry:
        _, heads, queries, keys = self.shape
        real = None if self.real is None else self.real[:, self.real.shape[1] - queries :]
        rows, columns = _positions(real, sequence, queries), _positions(self.real_keys, sequence, keys)
        if not (len(rows) and len(columns)):
            raise InputError(f"text {sequence} of the batch has no tokens but padding.")
        one, steps = slice(sequence, sequence + 1), self.calls - 1  # of a generation, each of which read a token
        ended = 0 if real is None else int((~real[sequence, queries - steps :]).sum())
        call, attention, reductions = self.call, self.attention, self.reductions
        if call is not None and attention is not None:
            call = call.text(sequence, rows, columns)
            if isinstance(rows, range) and isinstance(columns, range):
                attention = attention.part[one, :, rows.start : rows.stop, columns.start : columns.stop]
            else:
                attention = call.matrix().part[:, self.of_call]
        listed: list[Sequence[int]] = [side.tolist() if isinstance(side, Tensor) else side for side in (rows, columns)]
        if reductions is not None:
            reductions = of_text(reductions, sequence, listed[0], listed[1], (queries, keys))
        first = 0 if self.tokens is None else self.tokens[sequence].first
        if self.real is not None:
            first = int(self.real[sequence, : self.real.shape[1] - queries].sum())
        tokens, key_tokens = (
            None if side is None else [side[sequence].without_padding(places, number)]
            for side, places, number in zip((self.tokens, self.key_tokens), listed, (first, 0), strict=True)
        )
        ids, key_ids = (
            None if side is None else side[one, places]
            for side, places in zip((self.ids, self.key_ids), listed, strict=True)
        )
        return replace(
            self, shape=(1, heads, len(rows), len(columns)), calls=self.calls - ended, call=call, attention=attention,
            reductions=reductions, tokens=tokens, key_tokens=key_tokens, ids=ids, key_ids=key_ids,
            values=None if self.values is None else self.values.text(sequence, rows, columns), real=None,
            real_keys=None,
        )  # fmt: skip

    @cached_property
    def _of_real(self) -> AttentionMatrix:
        """The matrix in which padding gives nothing, as it would alone."""
        if self.real is None:
            return self.matrix
        hidden, matrix = cut(~self.real[:, self.real.shape[1] - self.shape[2] :].to(self.matrix.device)), self.matrix
        assert self.call is not None
        if self.shape[1] == self.call.query.shape[1]:
            return matrix.where(hidden)
        return self.call.matrix().where(hidden).part[:, self.of_call]

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
        """The sum of what each key receives from all queries that are no padding."""
        return self._of_real.received() if self.reductions is None else self._reduction("received")

    def entropy(self) -> Float[Tensor, "batch heads queries"]:
        """How spread out the attention of each query is, in nats; 0 for padding."""
        return self._of_real.entropy() if self.reductions is None else self._reduction("entropy")

    def pool(self, rows: int = BINS, columns: int = BINS) -> Float[Tensor, "batch heads rows columns"]:
        """The matrix averaged over bins; a kept pool has the bins it was kept with, of 1, 2, 4, … tokens."""
        if self.reductions is None:
            return self._of_real.pool(rows, columns)
        pool: Tensor = self._reduction("pool")
        fits = tuple(pool.shape[-2:]) == (min(rows, self.shape[2]), min(columns, self.shape[3]))
        if not fits and (rows, columns) != (BINS, BINS):
            raise InputError(f"the kept picture has {tuple(pool.shape[-2:])} bins. Got {(rows, columns)}.")
        return pool

    def top(self, k: int) -> Top:
        """The k largest weights of each query and their keys."""
        if self.reductions is None:
            return self._of_real.top(k)
        top: Top = self._reduction("top")
        if k > top.keys.shape[-1]:
            raise InputError(f"{top.keys.shape[-1]} keys of each query were kept. Got k = {k}.")
        return Top(top.weights[..., :k], top.keys[..., :k])

    def norms(self) -> Float[Tensor, "batch heads keys"]:
        """The length of what a key brings at a weight of 1: of its value, after the output projection of the head."""
        return self._kept_values().norms(self._all_heads())[:, self.of_call]

    @property
    def attribution(self) -> Attribution:
        """Gradient × attention, of what was differentiated since."""
        values, heads = self._kept_values(), self.of_call
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
        call, heads = self.call, self.of_call
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
        if self.detached is not None:
            self.detached.ask()
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


def _positions(real: Bool[Tensor, "batch tokens"] | None, sequence: int, count: int) -> Positions:
    """Where the tokens of a text lie that are no padding: a range, unless padding lies between them."""
    if real is None:
        return range(count)
    places = real[sequence].nonzero().flatten()
    first, last = (int(places[0]), int(places[-1])) if len(places) else (0, -1)
    return range(first, last + 1) if last + 1 - first == len(places) else places


def seen_keys(entries: Sequence[Entry], rows: Tensor, weights: Float[Tensor, " keys"]) -> Bool[Tensor, " keys"]:
    """The keys that one of these queries may see in any head; only a key of weight 0 can be hidden."""
    blocks = [(block, range(len(weights))) for block in _blocks(rows)]
    return _seen(entries, blocks, weights != 0, 0)


def seen_queries(
    entries: Sequence[Entry], columns: Tensor, weights: Float[Tensor, " queries"]
) -> Bool[Tensor, " queries"]:
    """The queries that may see one of these keys in any head."""
    blocks = [(range(len(weights)), block) for block in _blocks(columns)]
    return _seen(entries, blocks, weights != 0, 1)


def _blocks(positions: Tensor) -> list[Tensor]:
    return [positions[start : start + _ROWS] for start in range(0, len(positions), _ROWS)]


def _seen(
    entries: Sequence[Entry], blocks: Sequence[tuple[Positions, Positions]], seen: Bool[Tensor, " n"], axis: int
) -> Tensor:
    for entry, (rows, columns) in product(entries, blocks):
        if seen.all():
            break
        seen = seen | shown(entry, rows, columns).any(axis).cpu()
    return seen


def shown(entry: Entry, rows: Positions, columns: Positions) -> Bool[Tensor, "rows columns"]:
    """Whether any head may see a place, by the mask alone: no score is computed."""
    return _shown(entry, rows, columns).any(0)


def shown_to_heads(
    entry: Entry, rows: Tensor, columns: Tensor, scores: Float[Tensor, " heads"]
) -> Bool[Tensor, " heads"]:
    """Which heads may see one of these keys from one of these queries; only a head of score 0 can be kept from it."""
    seen = scores != 0
    for block in _blocks(rows):
        if seen.all():
            break
        seen = seen | _shown(entry, block, columns).flatten(1).any(1).cpu()
    return seen


def _shown(entry: Entry, rows: Positions, columns: Positions) -> Bool[Tensor, "heads_or_one rows columns"]:
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
    heads = shown[0]
    return heads if len(heads) == 1 else heads[entry.of_call]
