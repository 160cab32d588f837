"""`LazyMatrix`: the methods of every attention matrix, wherever it is computed.

`AttentionMatrix` computes on one device, `regard.distributed.ShardedMatrix` on several ranks. Both provide the core
(scores and the normaliser of each row) and the methods under "Computed by subclasses". This file has all the rest: the
checks of arguments, the views, the results in the user's axes.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import torch
from torch import Tensor
from torch.overrides import handle_torch_function

from regard import backends
from regard.backends import Entropy, Pool, Received, Reduction, Request, Result, TransposedProduct
from regard.drawing.terminal import Cell, html_table, percent
from regard.errors import InputError, OutOfRangeError
from regard.matrix.axes import Axes, Index, basic, fold_operand, picked
from regard.matrix.normalised import largest_score
from regard.matrix.picture import draw
from regard.scores import Mask, check_floats
from regard.support import Float, Int, ensure_room, no_compile, one_of, recording, whole

if TYPE_CHECKING:
    from regard.drawing import Picture
    from regard.drawing.viewer import Feed

M = TypeVar("M", bound="LazyMatrix")

# Results

_QUERIES, _KEYS = 8, 4  # of a `Top` that are printed at most


class Top(NamedTuple):
    """The largest weights of each row, descending, and their keys; -1 where a row sees fewer keys.

    >>> import torch, regard
    >>> regard.AttentionMatrix(torch.zeros(2, 4), torch.zeros(2, 4), mask=regard.causal()).top(2)
    Top of shape (2, 2)
    query 0: key 0 100 %
    query 1: key 0 50 %, key 1 50 %
    """

    weights: Float[Tensor, "*batch queries k"]
    keys: Int[Tensor, "*batch queries k"]

    def __repr__(self) -> str:
        rows = [
            f"query {query}: " + (", ".join(f"key {key} {percent(weight)}" for key, weight in pairs) or "no key")
            for query, pairs in enumerate(self._first_rows())
        ]
        more = [f"… and {self._rows_left_out():,} more"] if self._rows_left_out() > 0 else []
        return "\n".join([self._caption(), *rows, *more])

    def _repr_html_(self) -> str:
        rows: list[list[Cell]] = [
            [query, *(cell for pair in pairs for cell in pair)] for query, pairs in enumerate(self._first_rows())
        ]
        columns = ["query", *["key", "weight"] * min(self.keys.shape[-1], _KEYS)]
        return html_table(rows, columns, caption=self._caption(), more=self._rows_left_out())

    def _caption(self) -> str:
        *leading, _, k = self.keys.shape
        first = f"; here [{', '.join('0' * len(leading))}]" if math.prod(leading) > 1 else ""
        largest = f"; the {_KEYS} largest of each query" if k > _KEYS else ""
        return f"Top of shape {tuple(self.keys.shape)}{first}{largest}"

    def _rows_left_out(self) -> int:
        return self.keys.shape[-2] - _QUERIES if self.keys.numel() else 0

    def _first_rows(self) -> list[list[tuple[int, float]]]:
        """A few keys of the first queries, in the first head of the first batch; hidden keys are left out."""
        if not self.keys.numel():
            return []
        keys, weights = (each.flatten(0, -2)[: self.keys.shape[-2]] for each in (self.keys, self.weights))
        pairs = zip(keys[:_QUERIES, :_KEYS].tolist(), weights[:_QUERIES, :_KEYS].tolist(), strict=True)
        return [[(key, weight) for key, weight in zip(*row, strict=True) if key >= 0] for row in pairs]


@dataclass(frozen=True, eq=False)
class Summary:
    """The results of `AttentionMatrix.summary`: data without gradients."""

    received: Float[Tensor, "*batch keys"]
    entropy: Float[Tensor, "*batch queries"]
    logsumexp: Float[Tensor, "*batch queries"]
    top: Top | None
    pool: Float[Tensor, "*batch rows columns"] | None
    max_score: Float[Tensor, "*batch queries"] | None  # with `top`


# The matrix


class LazyMatrix(ABC):
    """An attention matrix that is never stored: views, slices, reductions and pictures of it."""

    _core: Any  # (batch, heads, queries, keys); has `shape`, `scores` (of this rank), `sinks`, `select` and `detach`
    _axes: Axes
    _mask: Mask
    _whole: torch.Size | None = None  # the shape of the matrix of which this is a part
    _key_heads_before: frozenset[int] = frozenset()  # the numbers of key heads of the matrices that it is a part of

    @property
    def shape(self) -> torch.Size:
        """(*batch, heads, queries, keys).

        >>> import torch, regard
        >>> regard.AttentionMatrix(torch.randn(5, 16), torch.randn(7, 16)).shape
        torch.Size([5, 7])
        """
        _, heads, queries, keys = self._core.shape
        return torch.Size((*self._axes.leading(heads), queries, keys))

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of its slices: the query's."""
        return self._core.scores.query.dtype  # type: ignore[no-any-return]

    @property
    def device(self) -> torch.device:
        """The device that computes it: the query's."""
        return self._core.scores.query.device  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        dtype = str(self.dtype).removeprefix("torch.")
        facts = f"shape={tuple(self.shape)}, dtype={dtype}, device={self.device}, mask={self._mask}{self._more()}"
        return f"{type(self).__name__}({facts})"

    def _more(self) -> str:
        return "" if self._whole is None else f" of the whole {tuple(self._whole)}"

    def __len__(self) -> int:
        return self.shape[0]

    # Views

    @property
    def mT(self: M) -> Transposed[M]:
        """The transposed matrix, as lazy as this one: `A.mT @ x` sends every query's row of x back to the keys.

        >>> import torch, regard
        >>> A = regard.AttentionMatrix(torch.randn(5, 16), torch.randn(7, 16))
        >>> (A.mT @ torch.ones(5, 1)).squeeze().allclose(A.received())
        True
        """
        return Transposed(self)

    @property
    def part(self: M) -> Parts[M]:
        """`A.part[...]`: a part that is still lazy, each row normalised over *all* its keys.

        A part of grouped heads takes the values of its heads: one for each head, or one for each key head.

        >>> import torch, regard
        >>> A = regard.AttentionMatrix(torch.randn(2, 100, 16), torch.randn(2, 100, 16))
        >>> A.part[..., :10, 50:].received().shape
        torch.Size([2, 50])
        """
        return Parts(self)

    @property
    def scores(self) -> Stage:
        """`A.scores[...]`: QKᵀ, before anything else."""
        return Stage(self, "scores")

    @property
    def scaled(self) -> Stage:
        """`A.scaled[...]`: QKᵀ times the scale, 1/√width by default."""
        return Stage(self, "scaled")

    @property
    def capped(self) -> Stage:
        """`A.capped[...]`: the scaled scores after the softcap (the scaled scores, if there is no softcap)."""
        return Stage(self, "capped")

    @property
    def masked(self) -> Stage:
        """`A.masked[...]`: the input of the softmax: biases added, -inf where a key is hidden."""
        return Stage(self, "masked")

    def __getitem__(self, index: Any) -> Tensor:
        if torch._C._is_torch_function_mode_enabled() and not (recording() or torch.compiler.is_compiling()):
            return handle_torch_function(LazyMatrix.__getitem__, (), self, index)  # type: ignore[no-any-return]
        return self._read("weights", index)

    def to_dense(self) -> Float[Tensor, "*leading queries keys"]:
        """The whole matrix as a tensor, if it fits in memory.

        >>> import torch, regard
        >>> regard.AttentionMatrix(torch.zeros(2, 4), torch.zeros(2, 4), mask=regard.causal()).to_dense()
        tensor([[1.0000, 0.0000],
                [0.5000, 0.5000]])
        """
        return self[...]

    def detach(self: M) -> M:
        """The same matrix without a graph, and with the normaliser if it is known: to store from a training step.

        >>> import torch, regard
        >>> A = regard.AttentionMatrix(torch.randn(5, 16, requires_grad=True), torch.randn(7, 16))
        >>> A.received().requires_grad, A.detach().received().requires_grad
        (True, False)
        """
        return self._derived(core=self._core.detach())

    # Reductions, streamed

    @property
    def logsumexp(self) -> Float[Tensor, "*leading queries"]:
        """log Σ exp of each masked row, sinks included; -inf where a row sees nothing.

        Results are right for scores up to about 10¹¹: beyond, float64 has too few digits for the normaliser.
        """
        return self._per_query(self._logsumexp())

    @property
    def sink_share(self) -> Float[Tensor, "*leading queries"]:
        """The share of each row that its sink takes: rows sum to 1 - sink_share."""
        lse, sinks = self._logsumexp(), self._core.sinks
        if sinks is None:
            return self._per_query(torch.zeros_like(lse))
        return self._per_query(backends.share(sinks.to(lse.dtype)[..., None], lse))

    def max_score(self) -> Float[Tensor, "*leading queries"]:
        """The largest masked score (logit) that each row sees; without gradient.

        The scores are scaled, capped and biased; a sink is not a key. -inf where a row sees no key.

        >>> import torch, regard
        >>> A = regard.AttentionMatrix(torch.eye(3) * 9, torch.eye(3), scale=1.0, mask=regard.causal(-1))
        >>> A.max_score()
        tensor([-inf, 0., 0.])
        """
        return self._per_query(self._largest_score("max_score()", negated=False))

    def min_score(self) -> Float[Tensor, "*leading queries"]:
        """The smallest masked score (logit) that each row sees; without gradient. +inf where a row sees no key.

        >>> import torch, regard
        >>> regard.AttentionMatrix(torch.eye(3) * 9, -torch.eye(3), scale=1.0).min_score()
        tensor([-9., -9., -9.])
        """
        return self._per_query(-self._largest_score("min_score()", negated=True))

    def received(self, reduce: str = "sum") -> Float[Tensor, "*leading keys"]:
        """The attention that each key receives over all queries.

        Args:
            reduce: "sum", "mean" or "max"; the maximum has no gradient.

        >>> import torch, regard
        >>> A = regard.AttentionMatrix(torch.zeros(3, 4), torch.zeros(3, 4), mask=regard.causal())
        >>> A.received()
        tensor([1.8333, 0.8333, 0.3333])
        """

        def request() -> Received:
            one_of("reduce", reduce, ("sum", "mean", "max"))
            return Received(reduce)

        return self._per_key(self._answer(f"received({reduce!r})", request))

    def entropy(self) -> Float[Tensor, "*leading queries"]:
        """-Σ p log p of each row, in nats: 0 for a row with one key, log n for n equal weights.

        >>> import torch, regard
        >>> regard.AttentionMatrix(torch.zeros(1, 4), torch.zeros(8, 4)).entropy().exp().round()
        tensor([8.])
        """
        return self._per_query(self._answer("entropy()", Entropy))

    def top(self, k: int) -> Top:
        """The k largest weights of each row and their keys, exactly; without gradient.

        >>> import torch, regard
        >>> A = regard.AttentionMatrix(torch.eye(3) * 9, torch.eye(3))
        >>> A.top(1).keys.squeeze()
        tensor([0, 1, 2])
        """
        (result,) = self._answers(f"top({k})", lambda: [self._top_request(k)])
        return Top(*map(self._per_query, result))

    def pool(self, rows: int, columns: int, reduce: str = "mean") -> Float[Tensor, "*leading rows columns"]:
        """The whole matrix as a small picture of rows × columns nearly equal bins.

        Args:
            rows: bins of queries; never more than there are queries.
            columns: bins of keys; never more than there are keys.
            reduce: "mean" or (without gradient) "max" of each bin.

        >>> import torch, regard
        >>> A = regard.AttentionMatrix(torch.randn(1000, 8), torch.randn(5000, 8))
        >>> A.pool(64, 256).shape, A.pool(64, 10_000).shape
        (torch.Size([64, 256]), torch.Size([64, 5000]))
        """
        call = f"pool({rows}, {columns}, {reduce!r})"
        return self._of_whole(self._answer(call, lambda: self._pool_request(rows, columns, reduce)))

    def summary(self, top: int | None = None, pool: int | tuple[int, int] | None = None) -> Summary:
        """Received, entropy, logsumexp and, on request, top and pool, in as few passes as possible; without gradient.

        Args:
            top: the number of largest weights of each row, as in `A.top(k)`; the summary then has `max_score` too.
            pool: bins on a side, or (rows, columns), as in `A.pool(rows, columns)`.

        >>> import torch, regard
        >>> A = regard.AttentionMatrix(torch.randn(4, 300, 16), torch.randn(4, 300, 16))
        >>> summary = A.summary(top=3, pool=32)
        >>> summary.received.shape, summary.top.keys.shape, summary.pool.shape
        (torch.Size([4, 300]), torch.Size([4, 300, 3]), torch.Size([4, 32, 32]))
        """

        def requests() -> list[Reduction]:
            listed: list[Reduction] = [Received(), Entropy()]
            if top is not None:
                listed.append(self._top_request(top))
            if pool is not None:
                sides = pool if isinstance(pool, Sequence) else (pool, pool)
                if len(sides) != 2:
                    raise InputError(f"pool must be a number of bins, or two: (rows, columns). Got {pool!r}.")
                listed.append(self._pool_request(*sides, "mean"))
            return listed

        received, entropy, *more = self._answers(f"summary(top={top}, pool={pool})", requests)
        lse, highest = self._core.lse().to(self._core.scores.working_dtype, copy=True), None
        if top is not None:
            highest = self._highest(lse, more[0])
        return Summary(
            self._per_key(received),
            self._per_query(entropy),
            self._per_query(lse),
            None if top is None else Top(*map(self._per_query, more[0])),
            None if pool is None else self._of_whole(more[-1]),
            None if highest is None else self._per_query(highest),
        )

    def picture(
        self,
        words: Iterable[str] | None = None,
        kind: str | None = None,
        *,
        columns: Iterable[str] | None = None,
        pick: int | str | Sequence[int | str] | None = None,
        heads: Sequence[int] | None = None,
        window: tuple[int, int] | None = None,
        title: str = "",
    ) -> Picture:
        """Draw the matrix; a large one is pooled, never stored.

        Args:
            words: the words of the queries, and of the keys where there are as many.
            kind: "lines", "matrix" or "map"; by default what suits the size.
            columns: the words of the keys where they differ from those of the queries.
            pick: the words whose lines are drawn, for "lines".
            heads: the numbers of the heads to draw; by default all.
            window: (row, column) where a map shows exact weights.
            title: the heading.

        >>> import torch, regard
        >>> A = regard.AttentionMatrix(torch.eye(2) * 3, torch.eye(2))
        >>> print(A.picture(["dog", "it"], pick="it"))
        it ━━━━━━━━━━ it 89.3 %   ━ dog 10.7 %
        """
        return draw(self, words, kind, columns=columns, pick=pick, heads=heads, window=window, title=title)

    # Computed by subclasses

    @abstractmethod
    def _begin(
        self, call: str, prepare: Callable[[], Sequence[Any]] = list, operand: Tensor | None = None
    ) -> Sequence[Any]:
        """Begin a call, on all ranks alike where there are several, and return what `prepare` returns.

        Args:
            call: the call as text, which ranks compare.
            prepare: checks the arguments and returns the requests.
            operand: the user's tensor right of `@`.
        """

    @abstractmethod
    def _read(self, stage: str, index: Any) -> Tensor:
        """The numbers of an index, of the "weights" or of a stage before them."""

    def _highest(self, lse: Float[Tensor, "batch heads queries"], top: Result) -> Float[Tensor, "batch heads queries"]:
        """The largest masked score of each row, from its largest weights where they suffice."""
        if self._core.has_all_keys and self._core.sinks is None:
            return largest_score(lse, top)
        return self._largest_score("max_score()", negated=False)

    def _per_query(self, result: Tensor) -> Tensor:
        """A result (batch, heads, queries, …) in the user's axes."""
        return self._axes.unfold(result)

    _per_key = _of_whole = _per_query  # the same of (batch, heads, keys, …) and of (batch, heads, rows, columns)

    def _feed(
        self, rows: Sequence[str] | None, columns: Sequence[str] | None, heads: Sequence[int] | None, title: str
    ) -> Feed | None:
        """The source of a saved map's tiles when the reader zooms; None where no part can be computed alone."""
        return None

    # Helpers

    def _answer(self, call: str, request: Callable[[], Request], operand: Tensor | None = None) -> Tensor:
        """The result of one request, differentiable unless it is a maximum."""
        (prepared,) = self._begin(call, lambda: [request()], operand)
        result: Tensor = self._core.compute(prepared)
        return result

    def _answers(self, call: str, requests: Callable[[], Sequence[Reduction]]) -> list[Any]:
        """The results of several requests in as few passes as possible, as data; a pair for each `Top`."""
        results: list[Any] = self._core.reduce(*self._begin(call, requests))
        return results

    def _logsumexp(self) -> Float[Tensor, "batch heads queries"]:
        """A copy of the normaliser in the working dtype, differentiable."""
        self._begin("logsumexp")
        return self._core.normaliser().to(self._core.scores.working_dtype, copy=True)  # type: ignore[no-any-return]

    def _largest_score(self, call: str, negated: bool) -> Float[Tensor, "batch heads queries"]:
        """The largest masked score of each row, or of the negated scores, as data."""
        self._begin(call)
        return self._core.largest_score(negated)  # type: ignore[no-any-return]

    def _derived(self: M, **changes: Any) -> M:
        """This matrix with some of its private attributes changed."""
        other = object.__new__(type(self))
        vars(other).update(vars(self) | {f"_{name}": value for name, value in changes.items()})
        return other

    def _transposed_product(self, x: Tensor) -> Tensor:
        def request() -> TransposedProduct:
            check_floats(query=self._core.scores.query, x=x)
            return TransposedProduct(fold_operand(self._axes, self._core.scores.shape, x, name="x"))

        return self._per_key(self._answer("A.mT @ x", request, x))

    def _pool_request(self, rows: int, columns: int, reduce: str) -> Pool:
        one_of("reduce", reduce, ("mean", "max"))
        rows, columns = whole("rows", rows), whole("columns", columns)
        if rows < 1 or columns < 1:
            raise InputError(f"pool takes at least 1 bin a side. Got rows = {rows}, columns = {columns}.")
        rows, columns = min(rows, self.shape[-2]), min(columns, self.shape[-1])
        self._ensure_room("pool", (*self.shape[:-2], rows, columns), 2 * self._core.scores.working_dtype.itemsize)
        return Pool(rows, columns, reduce)

    def _top_request(self, k: int) -> backends.Top:
        keys, k = self.shape[-1], whole("k", k)
        if not 1 <= k <= keys:
            hint = "Use min(k, A.shape[-1])." if keys else "It has no keys."
            raise OutOfRangeError(f"top(k) takes 1 <= k <= keys = {keys}. Got k = {k}. {hint}")
        shape = (*self.shape[:-2], self._core.scores.shape[2], k)
        self._ensure_room("top", shape, 2 * (self._core.scores.working_dtype.itemsize + 8))
        return backends.Top(k)

    def _ensure_room(self, name: str, shape: Sequence[int], bytes_each: int) -> None:
        ensure_room(shape, bytes_each, self.device, lambda: f"{name} of shape {tuple(shape)}, of {self!r}")

    @no_compile
    def _part(self: M, index: Index) -> M:
        """The part of a basic index; an int drops its axis, but one of rows or columns keeps it with size 1."""
        batch, heads, rows, columns, axes, before = picked(index, self._axes, self._core.scores, self._key_heads_before)
        core = self._core.select(batch, heads, rows, columns)
        return self._derived(core=core, axes=axes, whole=self._whole or self.shape, key_heads_before=before)

    def _part_to_read(self: M, index: Index) -> M:
        """The part of a basic index, if its numbers fit in memory."""
        shape = [1 if isinstance(axis, int) else len(axis) for axis in index]
        ensure_room(shape, 2 * self.dtype.itemsize + 8, self.device, lambda: f"{tuple(shape)} numbers of {self!r}")
        return self._part(index)

    def _as_indexed(self, dense: Tensor, index: Index) -> Tensor:
        """The numbers (batch, heads, rows, columns) of a part in the shape of `tensor[index]`."""
        dense = self._axes.unfold(dense)
        for axis in (-2, -1):
            dense = dense.squeeze(axis) if isinstance(index[axis], int) else dense
        return dense


# Views


class Transposed(Generic[M]):
    """`A.mT`: one row per key. `A.mT @ x` streams as `A @ v` does; `A.mT.mT is A`."""

    def __init__(self, matrix: M):
        self._matrix = matrix

    @property
    def mT(self) -> M:
        """The matrix itself."""
        return self._matrix

    @property
    def shape(self) -> torch.Size:
        """(*batch, heads, keys, queries)."""
        *leading, queries, keys = self._matrix.shape
        return torch.Size((*leading, keys, queries))

    @property
    def dtype(self) -> torch.dtype:
        """The query's dtype."""
        return self._matrix.dtype

    @property
    def device(self) -> torch.device:
        """The device that computes it."""
        return self._matrix.device

    def __repr__(self) -> str:
        return f"{self._matrix!r}.mT"

    def __matmul__(self, x: Float[Tensor, "*any queries width"]) -> Float[Tensor, "*any_too keys width"]:
        return self._matrix._transposed_product(x)

    def to_dense(self) -> Tensor:
        """The whole matrix as a tensor, if it fits in memory."""
        return self._matrix.to_dense().mT


class Stage:
    """One stage before the softmax, computed where it is indexed: `A.scores[..., 3, :]`."""

    def __init__(self, matrix: LazyMatrix, name: str):
        self._matrix, self._name = matrix, name

    def __getitem__(self, index: Any) -> Tensor:
        return self._matrix._read(self._name, index)

    def __repr__(self) -> str:
        return f"{self._matrix!r}.{self._name}"


class Parts(Generic[M]):
    """`A.part`: `A.part[…]` is a lazy part of A."""

    def __init__(self, matrix: M):
        self._matrix = matrix

    def __getitem__(self, index: Any) -> M:
        axes = basic(index, tuple(self._matrix.shape))
        if axes is None or any(isinstance(axis, Tensor) for axis in axes):
            raise InputError(
                "A.part takes ints, slices and ... only. For index tensors use A[…], which returns a tensor."
            )
        if any(isinstance(axis, int) for axis in axes[-2:]):
            raise InputError("a part is still a matrix: for one row or column write i:i+1, or use A[…] for a tensor.")
        return self._matrix._part(axes)
