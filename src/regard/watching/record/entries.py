"""`Entry`: the attention of one module over a whole text, with its tokens; what its mask shows; its values."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from regard.errors import InputError, WatchError
from regard.matrix import AttentionMatrix, Parts, Top, Transposed
from regard.matrix.axes import basic
from regard.nn import SelfAttention
from regard.scores import Mask, Positions, bias, bind, cut
from regard.scores.bound_mask import at
from regard.support import Bool, Float
from regard.watching.capture.calls import AttentionCall, Shard
from regard.watching.capture.masks import pick_on
from regard.watching.record.reductions import BINS, Reductions, of_text, select_heads
from regard.watching.record.tokens import Detached, Tokens

T = TypeVar("T")
_ROWS = 64  # queries looked up in a mask at once
_WEIGHTS = 1 << 25  # weights of an `Attribution` computed at once
_NAMES = ("output", "out_proj")  # of the output projection, in our layers and in torch's


def layer_of(name: str) -> int:
    """Return the number of a layer: the first in its name or, of a module that runs repeatedly, the repetition.

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

    Where the record keeps only reductions, anything else raises an error that says so.
    """

    name: str
    kind: str
    layer: int
    shape: tuple[int, int, int, int]  # (batch, heads, queries, keys)
    calls: int = 1
    call: AttentionCall | None = None  # the queries, keys and mask of all heads; None with reductions
    attention: AttentionMatrix | None = None  # None with reductions; `matrix` raises an error there
    reductions: Reductions | None = None
    tokens: list[Tokens] | None = None  # of the queries, one for each sequence
    key_tokens: list[Tokens] | None = None
    ids: Tensor | None = None  # of the tokens, as the model received them
    key_ids: Tensor | None = None
    first_head: int = 0
    shard: Shard | None = None  # which heads the call has, where other ranks have the others
    values: Values | None = None  # with keep=("matrix", "value")
    output_norms: Float[Tensor, "batch heads queries"] | None = None  # of what the attention returned to a monitor
    detached: Detached | None = None  # notes when numbers without a gradient are read
    real: Bool[Tensor, "batch tokens"] | None = None  # tokens that are not padding; the queries are the last of these
    real_keys: Bool[Tensor, "batch keys"] | None = None  # None: all are, or nothing is known
    step: int = 0  # the pass that it is of, where several are joined

    @property
    def heads(self) -> range:
        """The numbers of its heads, as the model counts them."""
        return range(self.first_head, self.first_head + self.shape[1])

    @property
    def of_call(self) -> slice:
        """Where its heads are among the heads of the call."""
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
        """What was kept: the matrix, or the names of the reductions."""
        return ("matrix",) if self.reductions is None else tuple(self.reductions)

    # One text of a batch

    @cached_property
    def _texts(self) -> dict[int, Entry]:
        return {}

    def text(self, sequence: int = 0) -> Entry:
        """Return one text of the batch without its padding, which all questions of a record are about.

        Tokens are counted from the first that is not padding, so the answers are those for the text alone.
        """
        if not 0 <= sequence < self.shape[0]:
            raise InputError(f"the batch has {self.shape[0]} sequences, numbered from 0. Got sequence = {sequence}.")
        if self.shape[0] == 1 and self.real is None and self.real_keys is None:
            return self
        if sequence not in self._texts:
            with torch.enable_grad():  # a later question may need gradients
                self._texts[sequence] = self._select_text(sequence)
        return self._texts[sequence]

    def _select_text(self, sequence: int) -> Entry:
        (_, heads, queries, keys), real = self.shape, self._real_queries
        rows, columns = _positions(real, sequence, queries), _positions(self.real_keys, sequence, keys)
        if not (len(rows) and len(columns)):
            raise InputError(f"text {sequence} of the batch has no tokens but padding.")
        one, steps = slice(sequence, sequence + 1), self.calls - 1  # steps of a generation, each read one token
        ended = 0 if real is None else int((~real[sequence, queries - steps :]).sum())
        call, attention = self.call, self.attention
        if call is not None and attention is not None:
            call = call.text(sequence, rows, columns)
            if isinstance(rows, range) and isinstance(columns, range):
                attention = attention.part[one, :, rows.start : rows.stop, columns.start : columns.stop]
            else:
                attention = self._of_heads(call.matrix())
        places, key_places = (side.tolist() if isinstance(side, Tensor) else side for side in (rows, columns))
        first = 0 if self.tokens is None else self.tokens[sequence].first
        if self.real is not None:
            first = int(self.real[sequence, : self.real.shape[1] - queries].sum())

        def tokens(side: list[Tokens] | None, places: Sequence[int], first: int) -> list[Tokens] | None:
            return None if side is None else [side[sequence].without_padding(places, first)]

        return replace(
            self,
            shape=(1, heads, len(rows), len(columns)),
            calls=self.calls - ended,
            call=call,
            attention=attention,
            reductions=self.reductions and of_text(self.reductions, sequence, places, key_places, (queries, keys)),
            tokens=tokens(self.tokens, places, first),
            key_tokens=tokens(self.key_tokens, key_places, 0),
            ids=None if self.ids is None else self.ids[one, places],
            key_ids=None if self.key_ids is None else self.key_ids[one, key_places],
            values=self.values and self.values.text(sequence, rows, columns),
            real=None,
            real_keys=None,
        )

    @property
    def _real_queries(self) -> Bool[Tensor, "batch queries"] | None:
        return None if self.real is None else self.real[:, self.real.shape[1] - self.shape[2] :]

    @cached_property
    def _without_padding(self) -> AttentionMatrix:
        """The matrix whose rows of padding are 0."""
        matrix, real = self.matrix, self._real_queries
        if real is None:
            return matrix
        if self.call is not None and self.shape[1] != self._all_heads:
            matrix = self.call.matrix()
        return self._of_heads(matrix.where(cut(~real.to(matrix.device))))

    def _of_heads(self, matrix: AttentionMatrix) -> AttentionMatrix:
        """Return the heads of this entry from a matrix of all heads of the call."""
        return matrix if matrix.shape[1] == self.shape[1] else matrix.part[:, self.of_call]

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
        """The sum of what each key receives from all queries that are not padding."""
        return self._without_padding.received() if self.reductions is None else self._reduction("received")

    def entropy(self) -> Float[Tensor, "batch heads queries"]:
        """How spread out the attention of each query is, in nats; 0 for padding."""
        return self._without_padding.entropy() if self.reductions is None else self._reduction("entropy")

    def pool(self, rows: int = BINS, columns: int = BINS) -> Float[Tensor, "batch heads rows columns"]:
        """The matrix averaged over bins; a kept pool has bins of 1, 2, 4, … tokens."""
        if self.reductions is None:
            return self._without_padding.pool(rows, columns)
        pool: Tensor = self._reduction("pool")
        fits = tuple(pool.shape[-2:]) == (min(rows, self.shape[2]), min(columns, self.shape[3]))
        if not fits and (rows, columns) != (BINS, BINS):
            raise InputError(f"the kept pool has {tuple(pool.shape[-2:])} bins. Got {(rows, columns)}.")
        return pool

    def top(self, k: int) -> Top:
        """The k largest weights of each query and their keys."""
        if self.reductions is None:
            return self._without_padding.top(k)
        top: Top = self._reduction("top")
        if k > top.keys.shape[-1]:
            raise InputError(f"{top.keys.shape[-1]} keys of each query were kept. Got k = {k}.")
        return Top(top.weights[..., :k], top.keys[..., :k])

    def norms(self) -> Float[Tensor, "batch heads keys"]:
        """The length of each value after the output projection of its head: what a key adds at a weight of 1."""
        return self._kept_values().norms(self._all_heads)[:, self.of_call]

    @property
    def attribution(self) -> Attribution:
        """Gradient × attention, for the number on which .backward() was called."""
        values, heads = self._kept_values(), self.of_call
        if values.gradient is None:
            raise WatchError(
                f'{self.name} has no gradient: watch with keep=("matrix", "value", "gradient"), gradients enabled, and '
                "call .backward() on a number of the output."
            )
        value = values.value.repeat_interleave(self._all_heads // values.value.shape[1], 1)[:, heads]
        return Attribution(self.matrix, value, values.gradient[:, heads])

    def by_norm(self) -> Entry:
        """Return the entry with weight × norm in place of weights, each row normalized to 1: a softmax with a bias.

        What rests on a sink that is not a token does not count: the sink has no value.
        """
        assert self.call is not None
        norms = self._kept_values().norms(self._all_heads)
        norms = norms.to(torch.promote_types(self.call.query.dtype, torch.float32))
        mask = self.call.mask & self.call.zeroed & bias(norms.log()[:, :, None])
        call = replace(self.call, mask=mask, sinks=None, zeroed=Mask())
        return replace(self, call=call, attention=self._of_heads(call.matrix()))

    @property
    def _all_heads(self) -> int:
        """How many heads the call has."""
        assert self.call is not None
        return self.call.query.shape[1]

    def _kept_values(self) -> Values:
        if self.values is None:
            raise WatchError(f'the values of {self.name} were not kept. Watch with keep=("matrix", "value").')
        return self.values

    def head(self, head: int | slice) -> Entry:
        """Return the entry of one head, or of a run of heads."""
        if isinstance(head, int):
            if head not in self.heads:
                raise InputError(f"{self.name} has heads {self.heads.start} to {self.heads.stop - 1}. Got {head}.")
            head = slice(head, head + 1)
        first, last = (None if end is None else end - self.first_head for end in (head.start, head.stop))
        batch, count, queries, keys = self.shape
        start, stop, step = slice(first, last, head.step).indices(count)
        if step != 1 or start >= stop:
            raise InputError(f"heads are one head or a run of them, at least one: slice(start, stop). Got {head}.")
        selected = slice(start, stop)
        return replace(
            self,
            shape=(batch, stop - start, queries, keys),
            attention=None if self.attention is None else self.attention.part[:, selected],
            reductions=self.reductions and select_heads(self.reductions, selected),
            first_head=self.first_head + start,
        )

    def _reduction(self, name: str) -> Any:
        if self.reductions is None or name not in self.reductions:
            raise self._not_kept(name)
        if self.detached is not None:
            self.detached.ask()
        return self.reductions[name]

    def _not_kept(self, what: str) -> WatchError:
        return WatchError(
            f'{what} of {self.name} was not kept, only {", ".join(self.keeps)}. Watch with keep="matrix", or name it '
            'in keep=("received", "entropy", "pool", "top").'
        )


def mean_over_heads(entries: Sequence[Entry], sum_over_heads: Callable[[Entry], T]) -> T:
    """Return the mean over all heads of all entries, from a function that sums over the heads of one entry."""
    total: Any = sum(sum_over_heads(entry) for entry in entries)  # type: ignore[misc]
    mean: T = total / sum(entry.shape[1] for entry in entries)
    return mean


# Which words the mask shows: a hidden word is left out of an answer, a weight of 0 is not


def _positions(real: Bool[Tensor, "batch tokens"] | None, sequence: int, count: int) -> Positions:
    """Return where the tokens of a text are that are not padding: a range, unless padding lies between them."""
    if real is None:
        return range(count)
    places = real[sequence].nonzero().flatten()
    first, last = (int(places[0]), int(places[-1])) if len(places) else (0, -1)
    return range(first, last + 1) if last + 1 - first == len(places) else places


def seen_keys(entries: Sequence[Entry], rows: Tensor, weights: Float[Tensor, " keys"]) -> Bool[Tensor, " keys"]:
    """Return the keys that one of these queries may see in any head; only a key of weight 0 can be hidden."""
    keys = range(len(weights))
    blocks = product(entries, torch.split(rows, _ROWS))
    return _until_all(weights != 0, (shown(entry, block, keys).any(0) for entry, block in blocks))


def seen_queries(
    entries: Sequence[Entry], columns: Tensor, weights: Float[Tensor, " queries"]
) -> Bool[Tensor, " queries"]:
    """Return the queries that may see one of these keys in any head."""
    queries = range(len(weights))
    blocks = product(entries, torch.split(columns, _ROWS))
    return _until_all(weights != 0, (shown(entry, queries, block).any(1) for entry, block in blocks))


def shown_to_heads(
    entry: Entry, rows: Tensor, columns: Tensor, scores: Float[Tensor, " heads"]
) -> Bool[Tensor, " heads"]:
    """Return which heads may see one of these keys from one of these queries."""
    masks = (_shown(entry, block, columns).flatten(1).any(1) for block in torch.split(rows, _ROWS))
    return _until_all(scores != 0, masks)


def _until_all(seen: Bool[Tensor, " n"], more: Iterator[Tensor]) -> Bool[Tensor, " n"]:
    """Add what else is seen; stop as soon as everything is."""
    while not seen.all() and (block := next(more, None)) is not None:
        seen = seen | block.cpu()
    return seen


def shown(entry: Entry, rows: Positions, columns: Positions) -> Bool[Tensor, "rows columns"]:
    """Return where any head may look, by the mask alone: no score is computed."""
    return _shown(entry, rows, columns).any(0)


def _shown(entry: Entry, rows: Positions, columns: Positions) -> Bool[Tensor, "heads_or_one rows columns"]:
    """Return the mask of each head, or one mask for all heads."""
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


# Values, output projections and gradients


@dataclass(frozen=True, eq=False)
class Values:
    """The values of a module over a whole text, with its output projection and the gradient of its output."""

    value: Float[Tensor, "batch key_heads keys width"]
    projection: Float[Tensor, "heads width out"] | None = None  # one matrix for each head; None: unknown
    gradient: Float[Tensor, "batch heads queries width"] | None = None  # of the attention's output

    def text(self, sequence: int, queries: Positions, keys: Positions) -> Values:
        """Return the values of these tokens of one text of a batch."""
        one = slice(sequence, sequence + 1)
        gradient = None if self.gradient is None else pick_on(self.gradient[one], 2, queries)
        return Values(pick_on(self.value[one], 2, keys), self.projection, gradient)

    def norms(self, heads: int) -> Float[Tensor, "batch heads keys"]:
        """Return the length of each value after the projection of its head.

        >>> Values(torch.tensor([[[[3.0, 4.0]]]]), torch.eye(2)[None] * 2).norms(heads=1)
        tensor([[[10.]]])
        """
        value = self.value.float()
        group = heads // value.shape[1]
        if self.projection is None:
            raise WatchError(
                "the output projection was not recognised, so the norms of the projected values are unknown. It is "
                "recognised in models of transformers whose attention output goes straight into a linear layer, in "
                "regard's layers and in torch's."
            )
        # ‖v W‖² = v (W Wᵀ) vᵀ: a small matrix for each head, and no projected values.
        wide = self.projection.to(value)
        squares = wide @ wide.mT
        norms = [((value @ squares[member::group]) * value).sum(-1) for member in range(group)]
        return torch.stack(norms, 2).flatten(1, 2).clamp_min(0.0).sqrt()


class KeptValues:
    """Collects the values of one module while it is called, step by step."""

    def __init__(self, projection: Callable[[int, int], Tensor | None]):
        self._projection = projection
        self._value: Tensor | None = None
        self._gradient: Tensor | None = None

    def take(self, value: Tensor) -> None:
        """Take the values of a call: a cache has all values of the text so far."""
        self._value = value.detach()

    def differentiate(self, output: Tensor) -> None:
        """Note the gradient of an output (batch, heads, queries, width) when it comes; several are added up."""
        if output.requires_grad:
            output.register_hook(self._add)  # type: ignore[no-untyped-call]

    def _add(self, gradient: Tensor) -> None:
        self._gradient = gradient.detach() if self._gradient is None else self._gradient + gradient.detach()

    def settle(self) -> None:
        """Copy the values, as their cache may be overwritten from here on."""
        self._value = None if self._value is None else self._value.clone()

    def of(self, name: str, shape: tuple[int, int, int, int]) -> Values:
        """Return the values for a matrix (batch, heads, queries, keys)."""
        _, heads, queries, keys = shape
        if self._value is None or self._value.shape[2] < keys:
            raise WatchError(f"{name}: its cache dropped values, so the values of the whole text are not known.")
        value, gradient = self._value[:, :, :keys], self._gradient
        if gradient is not None and gradient.shape[2] != queries:
            gradient = None  # of a single step
        return Values(value, self._projection(heads, value.shape[-1]), gradient)


class Projections:
    """Finds the output projection of each attention.

    In transformers it has many names and places. It is recognised by its input: the very memory that the attention
    function returned.
    """

    def __init__(self, modules: dict[str, nn.Module]):
        self._modules = modules
        self._projections: dict[str, nn.Module] = {}
        self._last: tuple[str, Tensor] | None = None

    def hooks(self) -> Iterator[tuple[nn.Module, Callable[..., None]]]:
        """Yield the hook to run before each module that may be a projection."""
        for module in self._modules.values():
            weight = vars(module).get("_parameters", {}).get("weight")
            if isinstance(weight, Tensor) and weight.dim() == 2 and not isinstance(module, nn.Embedding):
                yield module, self._before

    def returned(self, name: str, output: Tensor) -> None:
        """Note the output of the attention function of a module."""
        self._last = name, output

    def _before(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        if self._last is None or not args or not isinstance(args[0], Tensor):
            return
        name, output = self._last
        if args[0].data_ptr() == output.data_ptr() and args[0].numel() == output.numel():
            self._projections[name], self._last = module, None

    def module(self, name: str) -> nn.Module | None:
        """Return the output projection of a module, if it is known."""
        module = self._modules[name]
        named = [part for part in (getattr(module, each, None) for each in _NAMES) if isinstance(part, nn.Linear)]
        return self._projections.get(name, named[-1] if named else None)

    def of(self, name: str, heads: int, width: int) -> Tensor | None:
        """Return the output projection of a module as a matrix (width, out) for each head, if it is known."""
        if isinstance(self._modules[name], SelfAttention):  # one head without a projection
            return torch.eye(width)[None]
        projection = self.module(name)
        if projection is None:
            return None
        weight: Tensor = projection.weight.detach()  # type: ignore[assignment, operator]
        rows = weight.mT if isinstance(projection, nn.Linear) else weight  # transformers' Conv1D has (in, out)
        fits = rows.is_floating_point() and rows.shape[0] == heads * width
        return rows.reshape(heads, width, -1) if fits else None


class Attribution:
    """Gradient × attention: each weight times the derivative by this weight, computed when asked.

    `[…]` takes ints, slices and `...`. `received` is the sum of each column: what a key contributed by being looked at;
    `given` is the sum of each row: what a query contributed by looking.
    """

    def __init__(self, matrix: AttentionMatrix, value: Tensor, gradient: Tensor):
        self._matrix = matrix
        heads = matrix.shape[1]
        self._value = value.repeat_interleave(heads // value.shape[1], 1).to(matrix.dtype)
        self._gradient = gradient.to(matrix.dtype)

    @property
    def shape(self) -> torch.Size:
        """(batch, heads, queries, keys)."""
        return self._matrix.shape

    def __repr__(self) -> str:
        return f"Attribution(gradient × {self._matrix!r})"

    def __getitem__(self, index: Any) -> Tensor:
        axes = basic(index, tuple(self.shape))
        if axes is None or any(isinstance(axis, Tensor) for axis in axes):
            raise InputError("gradient × attention takes ints, slices and ... as indices.")
        spans = [range(axis, axis + 1) if isinstance(axis, int) else axis for axis in axes]
        batch, heads, rows, columns = (slice(s.start, s.stop, s.step) for s in spans if isinstance(s, range))
        slopes = self._gradient[batch, heads, rows] @ self._value[batch, heads, columns].mT
        block = self._matrix[batch, heads, rows, columns] * slopes
        return block[tuple(0 if isinstance(axis, int) else slice(None) for axis in axes)]

    def received(self) -> Float[Tensor, "batch heads keys"]:
        """The sum over all queries."""
        return ((self._matrix.mT @ self._gradient) * self._value).sum(-1)

    def given(self) -> Float[Tensor, "batch heads queries"]:
        """The sum over all keys."""
        return ((self._matrix @ self._value) * self._gradient).sum(-1)

    def back(self, flow: Float[Tensor, " queries"]) -> Float[Tensor, " keys"]:
        """Return a vector over the queries multiplied by the positive parts, the mean over heads."""
        _, heads, queries, keys = self.shape
        total = torch.zeros(keys, device=self._matrix.device)
        flow = flow.to(total.device)
        size = max(_WEIGHTS // (heads * keys), 1)
        for start in range(0, queries, size):
            rows = slice(start, min(start + size, queries))
            if bool((flow[rows] != 0).any()):
                total += torch.einsum("hqk,q->k", self[0, :, rows].float().clamp_min(0.0), flow[rows])
        return total.cpu() / heads
