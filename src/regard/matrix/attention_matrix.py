"""`AttentionMatrix`: the attention matrix as an object that is never stored."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.overrides import handle_torch_function

from regard import backends
from regard.backends import Attend, Dropout, Entropy, Pool, Received, TransposedProduct
from regard.errors import InputError, OutOfRangeError
from regard.matrix import compiled
from regard.matrix.linear_operator import linear_operator
from regard.matrix.matrix_picture import draw
from regard.matrix.normalised import NormalisedScores, Source
from regard.matrix.top import Top
from regard.matrix.views import Axes, Parts, Stage, Transposed, basic, coordinates, fold_operand, fold_value, picked
from regard.scores import Mask, as_mask, bind, check_floats, make_scores
from regard.support import Float, ensure_room, inside_func, no_compile, one_of, recording, transformed, whole

if TYPE_CHECKING:
    from scipy.sparse.linalg import LinearOperator  # type: ignore[import-untyped]

    from regard.drawing import Picture

__all__ = ["AttentionMatrix", "Summary"]


@dataclass(frozen=True, eq=False)
class Summary:
    """What `AttentionMatrix.summary` gathered, all of it data without gradients."""

    received: Float[Tensor, "*batch keys"]
    entropy: Float[Tensor, "*batch queries"]
    logsumexp: Float[Tensor, "*batch queries"]
    top: Top | None
    pool: Float[Tensor, "*batch rows columns"] | None


class AttentionMatrix:
    """softmax(QKᵀ · scale) with a mask: `A @ value` is attention, and everything else is a look at A.

    NaN or inf in a key or value that no query may see never leaks; in one that some query sees, it may reach any row
    of `A @ value`. A row that sees no key is 0.

    >>> import torch, regard
    >>> query, key, value = torch.randn(3, 2, 8, 1000, 64).unbind(0)        # (batch, heads, tokens, width)
    >>> A = regard.AttentionMatrix(query, key, mask=regard.causal())
    >>> A
    AttentionMatrix(shape=(2, 8, 1000, 1000), dtype=float32, device=cpu, mask=causal())
    >>> (A @ value).shape, A[0, 3, 6].shape, A.received().shape
    (torch.Size([2, 8, 1000, 64]), torch.Size([1000]), torch.Size([2, 8, 1000]))
    """

    def __init__(
        self,
        query: Float[Tensor, "*batch heads queries width"] | Float[Tensor, "queries width"],
        key: Float[Tensor, "*batch key_heads keys width"] | Float[Tensor, "keys width"],
        *,
        mask: Mask | Tensor | None = None,
        scale: float | None = None,
        softcap: float | None = None,
        sinks: Tensor | float | None = None,
    ):
        self._mask = as_mask(mask)
        scores = make_scores(query, key, self._mask, scale, softcap, sinks)
        if inside_func() and transformed(query, key, sinks, *self._mask.tensors):
            raise InputError(
                "an AttentionMatrix cannot be made inside torch.func (grad, vmap, …). Use regard.attention there, or "
                "torch.autograd.grad and a batch axis instead."
            )
        named = {"query": query, "key": key}
        named |= {f"mask ({n})": tensor for n, tensor in enumerate(self._mask.tensors)}
        if isinstance(sinks, Tensor):
            named["sinks"] = sinks
        self._core = NormalisedScores(scores, Source.of(**named))
        self._axes = Axes(tuple(query.shape[:-3]), query.dim() > 2)
        self._whole: torch.Size | None = None  # the shape of the matrix that this is a part of
        self._key_heads_before: frozenset[int] = frozenset()  # the numbers of key heads of matrices this is a part of

    # What it is

    @property
    def shape(self) -> torch.Size:
        """(*batch, heads, queries, keys).

        >>> import torch, regard
        >>> regard.AttentionMatrix(torch.randn(5, 16), torch.randn(7, 16)).shape
        torch.Size([5, 7])
        """
        _, heads, queries, keys = self._core.scores.shape
        return torch.Size((*self._axes.leading(heads), queries, keys))

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of its slices: the query's."""
        return self._core.scores.query.dtype

    @property
    def device(self) -> torch.device:
        """Where it is computed: where the query lies."""
        return self._core.scores.query.device

    def __repr__(self) -> str:
        dtype = str(self.dtype).removeprefix("torch.")
        of = "" if self._whole is None else f" of the whole {tuple(self._whole)}"
        return f"AttentionMatrix(shape={tuple(self.shape)}, dtype={dtype}, device={self.device}, mask={self._mask}{of})"

    def __len__(self) -> int:
        return self.shape[0]

    # Attention, both ways

    def __matmul__(self, value: Float[Tensor, "*any keys width"]) -> Float[Tensor, "*any_too queries width"]:
        return self.attend(value)

    def attend(
        self, value: Float[Tensor, "*any keys width"], dropout: float = 0.0, seed: Tensor | None = None
    ) -> Float[Tensor, "*any_too queries width"]:
        """`A @ value`: the weighted sums, by the fused kernel. Values may have the heads of the keys or of the queries.

        `dropout` leaves out that share of the weights; the same `seed` (a tensor of one whole number) the same ones.

        >>> import torch, regard
        >>> q, k, v = torch.randn(3, 4, 10, 8).unbind(0)
        >>> A = regard.AttentionMatrix(q, k)
        >>> torch.allclose(A @ v, A.to_dense() @ v, atol=1e-6)
        True
        """
        traced = recording()
        if torch._C._is_torch_function_mode_enabled() and not (traced or torch.compiler.is_compiling()):
            # As every function of torch does: `watch` sees it.
            return handle_torch_function(AttentionMatrix.attend, (), self, value, dropout, seed)  # type: ignore[no-any-return]
        scores = self._core.scores
        if traced and seed is None and self._whole is None and self._core.has_all_keys:
            query, key = self._axes.unfold(scores.query), self._axes.unfold(scores.key)
            sinks = None if scores.sinks is None else self._axes.unfold(scores.sinks)
            return compiled.attend(query, key, value, self._mask, scores.scale, scores.softcap, sinks, dropout)
        dropped = None if type(dropout) is float and dropout == 0.0 else Dropout.of(dropout, seed)
        value = fold_value(self._axes, scores, value, self._key_heads_before)
        if value.shape[1] == scores.key.shape[1]:
            return self._axes.unfold(self._core.compute(Attend(value, dropped)))
        # Values per query head: one pass for each member of a group, keys still shared.
        batch, heads, queries, keys = (range(n) for n in scores.shape)
        outputs = []
        for member in range(scores.group):
            part = self._core.select(batch, heads[member :: scores.group], queries, keys)
            own = dropped and replace(dropped, seed=dropped.seed + (member << 20))  # each head drops other weights
            outputs.append(part.compute(Attend(value[:, member :: scores.group], own)))
        return self._axes.unfold(torch.stack(outputs, 2).flatten(1, 2))

    @property
    def mT(self) -> Transposed[AttentionMatrix]:
        """The transposed matrix, as lazy as this one: `A.mT @ x` sends every query's row of x back to the keys.

        >>> import torch, regard
        >>> A = regard.AttentionMatrix(torch.randn(5, 16), torch.randn(7, 16))
        >>> (A.mT @ torch.ones(5, 1)).squeeze().allclose(A.received())
        True
        """
        return Transposed(self, self._transposed_product)

    # Numbers out of it

    def __getitem__(self, index: Any) -> Tensor:
        return self._read("weights", index)

    @property
    def part(self) -> Parts[AttentionMatrix]:
        """`A.part[...]`: a part that is still lazy, each row normalised over *all* its keys.

        A part of grouped heads takes the values of its own heads: one for each, or one for each key head that it reads.

        >>> import torch, regard
        >>> A = regard.AttentionMatrix(torch.randn(2, 100, 16), torch.randn(2, 100, 16))
        >>> A.part[..., :10, 50:].received().shape
        torch.Size([2, 50])
        """
        return Parts(self, self._part)

    def where(self, mask: Mask | Tensor) -> AttentionMatrix:
        """The same weights where a mask lets a query see a key, and 0 elsewhere: rows are not normalised again.

        >>> import torch, regard
        >>> A = regard.AttentionMatrix(torch.randn(100, 16), torch.randn(100, 16), mask=regard.causal())
        >>> near = A.where(regard.window(9, 0)) @ torch.ones(100, 1)      # what each query gives to its last ten keys
        >>> bool((near < 1).any()), bool((near[:10] > 0.999).all())
        (True, True)
        """
        chosen, own = as_mask(mask), self._axes
        if self._whole is not None:
            raise InputError(
                "where takes a mask of the whole matrix: A.where(mask).part[…], not A.part[…].where(mask)."
            )
        shape = (*own.batch, *self._core.scores.shape[1:])
        bound = bind(chosen, shape, self.device, plain=not own.has_heads)
        if bound.biased:
            raise InputError(f"where takes a mask that shows or hides. Got one that adds to the scores: {chosen}.")
        named = {f"mask of where ({n})": tensor for n, tensor in enumerate(chosen.tensors)}
        return self._derived(core=self._core.where(bound, Source.of(**named)), mask=self._mask & chosen)

    def as_linear_operator(self) -> LinearOperator:
        """One head as SciPy's linear operator, for its solvers: `svds`, `eigs`, `lsmr`, …; the matrix is never stored.

        >>> import torch, regard
        >>> from scipy.sparse.linalg import svds
        >>> A = regard.AttentionMatrix(torch.randn(2, 500, 16), torch.randn(2, 500, 16), mask=regard.causal())
        >>> svds(A.part[0].as_linear_operator(), k=3, return_singular_vectors=False).shape
        (3,)
        """
        return linear_operator(self)

    @property
    def scores(self) -> Stage:
        """`A.scores[...]`: QKᵀ, before anything else."""
        return Stage(self, "scores", partial(self._read, "scores"))

    @property
    def scaled(self) -> Stage:
        """`A.scaled[...]`: QKᵀ times the scale, 1/√width unless you chose another."""
        return Stage(self, "scaled", partial(self._read, "scaled"))

    @property
    def capped(self) -> Stage:
        """`A.capped[...]`: the scaled scores after the soft cap (the same where there is none)."""
        return Stage(self, "capped", partial(self._read, "capped"))

    @property
    def masked(self) -> Stage:
        """`A.masked[...]`: what the softmax is taken of: biases added, -inf where a key is hidden."""
        return Stage(self, "masked", partial(self._read, "masked"))

    def to_dense(self) -> Float[Tensor, "*leading queries keys"]:
        """All of it as a tensor, if it fits in memory.

        >>> import torch, regard
        >>> regard.AttentionMatrix(torch.zeros(2, 4), torch.zeros(2, 4), mask=regard.causal()).to_dense()
        tensor([[1.0000, 0.0000],
                [0.5000, 0.5000]])
        """
        return self[...]

    def diagonal(self, offset: int = 0) -> Float[Tensor, "*leading n"]:
        """The weights A[i, i + offset]: what each query keeps for itself (-1: for the token before it)."""
        queries, keys = self.shape[-2:]
        offset = max(-queries, min(whole("offset", offset), keys))
        first = max(-offset, 0)
        row = torch.arange(first, max(min(queries, keys - offset), first), device=self.device)
        index = (*(torch.arange(n, device=self.device) for n in self.shape[:-2]), row)
        *leading, row = torch.meshgrid(*index, indexing="ij")
        self._core.check_sources()
        return self._points("weights", [*leading, row, row + offset])

    # Rows, columns and the whole, streamed

    @property
    def logsumexp(self) -> Float[Tensor, "*leading queries"]:
        """log Σ exp of each masked row, sinks included; -inf where a row sees nothing.

        Everything normalised by it is right for scores up to about 10¹¹: beyond, float64 has too few digits for it.
        """
        self._core.check_sources()
        return self._axes.unfold(self._core.normaliser().to(self._core.scores.working_dtype, copy=True))

    @property
    def known_logsumexp(self) -> Float[Tensor, "*leading queries"] | None:
        """`logsumexp`, if a product or an earlier question has computed it; None otherwise.

        >>> import torch, regard
        >>> A = regard.AttentionMatrix(torch.randn(1, 2, 5, 16), torch.randn(1, 2, 7, 16))
        >>> before, output, after = A.known_logsumexp, A @ torch.randn(1, 2, 7, 3), A.known_logsumexp
        >>> before is None, after.shape
        (True, torch.Size([1, 2, 5]))
        """
        return self._axes.unfold(self._core.lse()) if self._core.knows_lse() else None

    def normalised_by(self, logsumexp: Float[Tensor, "*leading queries"]) -> AttentionMatrix:
        """The same matrix, its `logsumexp` known already, as from a file: nothing checks that it is the right one.

        >>> import torch, regard
        >>> A = regard.AttentionMatrix(torch.zeros(3, 4), torch.zeros(2, 4))
        >>> A.normalised_by(A.logsumexp).received(), A.normalised_by(torch.zeros(3)).received()    # right, and wrong
        (tensor([1.5000, 1.5000]), tensor([3., 3.]))
        """
        return self._derived(core=self._core.normalised_by(logsumexp.reshape(self._core.scores.shape[:3])))

    @property
    def sink_share(self) -> Float[Tensor, "*leading queries"]:
        """The share of each row that its sink takes: rows sum to 1 - sink_share."""
        rows = self._core.row_scores
        if rows.sinks is None:
            return torch.zeros_like(self.logsumexp)
        return backends.share(self._axes.unfold(rows.sinks.to(rows.working_dtype)[..., None]), self.logsumexp)

    def received(self, reduce: str = "sum") -> Float[Tensor, "*leading keys"]:
        """The attention that each key receives over all queries: "sum", "mean" or (without gradient) "max".

        >>> import torch, regard
        >>> A = regard.AttentionMatrix(torch.zeros(3, 4), torch.zeros(3, 4), mask=regard.causal())
        >>> A.received()
        tensor([1.8333, 0.8333, 0.3333])
        """
        one_of("reduce", reduce, ("sum", "mean", "max"))
        return self._reduction(Received(reduce))

    def entropy(self) -> Float[Tensor, "*leading queries"]:
        """-Σ p log p of each row, in nats: 0 where a query looks at one key only, log n where it looks at n alike.

        >>> import torch, regard
        >>> regard.AttentionMatrix(torch.zeros(1, 4), torch.zeros(8, 4)).entropy().exp().round()
        tensor([8.])
        """
        return self._reduction(Entropy())

    def top(self, k: int) -> Top:
        """The k largest weights of each row and their keys, exactly; without gradient.

        >>> import torch, regard
        >>> A = regard.AttentionMatrix(torch.eye(3) * 9, torch.eye(3))
        >>> A.top(1).keys.squeeze()
        tensor([0, 1, 2])
        """
        return self._unfolded_top(*self._core.reduce(self._top_request(k)))

    def pool(self, rows: int, columns: int, reduce: str = "mean") -> Float[Tensor, "*leading rows columns"]:
        """The whole matrix as a small picture: the "mean" or (without gradient) the "max" of each bin.

        A side never has more bins than the matrix has tokens there.

        >>> import torch, regard
        >>> A = regard.AttentionMatrix(torch.randn(1000, 8), torch.randn(5000, 8))
        >>> A.pool(64, 256).shape, A.pool(64, 10_000).shape
        (torch.Size([64, 256]), torch.Size([64, 5000]))
        """
        one_of("reduce", reduce, ("mean", "max"))
        return self._reduction(self._pool_request(rows, columns, reduce))

    def summary(self, top: int | None = None, pool: int | tuple[int, int] | None = None) -> Summary:
        """Received, entropy, logsumexp, and top and pool if asked for, in as few passes as possible; without gradient.

        >>> import torch, regard
        >>> A = regard.AttentionMatrix(torch.randn(4, 300, 16), torch.randn(4, 300, 16))
        >>> seen = A.summary(top=3, pool=32)
        >>> seen.received.shape, seen.top.keys.shape, seen.pool.shape
        (torch.Size([4, 300]), torch.Size([4, 300, 3]), torch.Size([4, 32, 32]))
        """
        requests: dict[str, backends.Reduction] = {"received": Received(), "entropy": Entropy()}
        if top is not None:
            requests["top"] = self._top_request(top)
        if pool is not None:
            sides = pool if isinstance(pool, Sequence) else (pool, pool)
            if len(sides) != 2:
                raise InputError(f"pool must be a number of bins, or two: (rows, columns). Got {pool!r}.")
            requests["pool"] = self._pool_request(*sides, "mean")
        results: dict[str, Any] = dict(zip(requests, self._core.reduce(*requests.values()), strict=True))
        with torch.no_grad():
            return Summary(
                self._axes.unfold(results["received"]),
                self._axes.unfold(results["entropy"]),
                self.logsumexp,
                self._unfolded_top(results["top"]) if "top" in results else None,
                self._axes.unfold(results["pool"]) if "pool" in results else None,
            )

    # To look at

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
        """As "lines", a "matrix" or a "map", by default what suits its size; a large one is pooled, never stored.

        `columns` are the words of the keys where they are not those of the queries; `window` is where a map shows
        exact weights.

        >>> import torch, regard
        >>> A = regard.AttentionMatrix(torch.eye(2) * 3, torch.eye(2))
        >>> print(A.picture(["dog", "it"], pick="it"))
        it ━━━━━━━━━━ it 89.3 %   ━ dog 10.7 %
        """
        return draw(self, words, kind, columns, pick, heads, window, title)

    def detach(self) -> AttentionMatrix:
        """The same matrix outside any graph, with the normaliser it already knows: what to keep of a training step.

        >>> import torch, regard
        >>> A = regard.AttentionMatrix(torch.randn(5, 16, requires_grad=True), torch.randn(7, 16))
        >>> A.received().requires_grad, A.detach().received().requires_grad
        (True, False)
        """
        return self._derived(core=self._core.detach())

    # How it is done

    def _derived(self, **changes: Any) -> AttentionMatrix:
        """This matrix with some of its private attributes changed."""
        other = object.__new__(AttentionMatrix)
        vars(other).update(vars(self) | {f"_{name}": value for name, value in changes.items()})
        return other

    def _reduction(self, request: Received | Entropy | Pool) -> Tensor:
        if getattr(request, "reduce", "") == "max":  # has no gradient
            (result,) = self._core.reduce(request)
            assert isinstance(result, Tensor)
            return self._axes.unfold(result)
        return self._axes.unfold(self._core.compute(request))

    def _transposed_product(self, x: Tensor) -> Tensor:
        scores = self._core.scores
        check_floats(query=scores.query, x=x)
        return self._axes.unfold(
            self._core.compute(TransposedProduct(fold_operand(self._axes, scores.shape, x, name="x")))
        )

    def _pool_request(self, rows: int, columns: int, reduce: str) -> Pool:
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
        self._ensure_room("top", (*self.shape[:-1], k), 2 * (self._core.scores.working_dtype.itemsize + 8))
        return backends.Top(k)

    def _unfolded_top(self, result: Any) -> Top:
        weights, keys = result
        return Top(self._axes.unfold(weights), self._axes.unfold(keys))

    def _ensure_room(self, name: str, shape: Sequence[int], bytes_each: int) -> None:
        ensure_room(shape, bytes_each, self.device, lambda: f"{name} of shape {tuple(shape)}, of {self!r}")

    @no_compile
    def _part(self, axes: list[int | range | Tensor]) -> AttentionMatrix:
        """The part that an index picks; an int drops its axis, but one of rows or columns keeps it with size 1."""
        batch, heads, rows, columns, left, before = picked(axes, self._axes, self._core.scores, self._key_heads_before)
        return self._derived(
            core=self._core.select(batch, heads, rows, columns),
            axes=left,
            whole=self._whole or self.shape,
            key_heads_before=before,
        )

    @no_compile
    def _read(self, stage: str, index: Any) -> Tensor:
        """The numbers that an index asks for, of the weights or of a stage before them."""
        self._core.check_sources()
        axes = basic(index, tuple(self.shape))
        if axes is None:
            grids = coordinates(index, tuple(self.shape), self.device)
            size = grids[0].shape
            ensure_room(size, 12 + 8 * len(grids), self.device, lambda: f"A[…] of shape {tuple(size)}")
            return self._points(stage, grids)
        shape = [1 if isinstance(a, int) else len(a) for a in axes]
        ensure_room(shape, 2 * self.dtype.itemsize + 8, self.device, lambda: f"{tuple(shape)} numbers of {self!r}")
        part = self._part(axes)
        dense = part._axes.unfold(part._core.dense(stage))
        for axis in (-2, -1):
            dense = dense.squeeze(axis) if isinstance(axes[axis], int) else dense
        return dense

    def _points(self, stage: str, grids: list[Tensor]) -> Tensor:
        """Single points, given as one index tensor for each axis of the user's shape."""
        *leading, row, column = (grid.reshape(-1) for grid in grids)
        head = leading.pop() if self._axes.has_heads else torch.zeros_like(row)
        batch = torch.zeros_like(row)
        for size, position in zip(self._axes.batch, leading, strict=True):
            batch = batch * size + position
        return self._core.points(stage, batch, head, row, column).view(grids[0].shape)
