"""`AttentionMatrix`: the attention matrix as an object that is never stored."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from regard import backends
from regard.backends import autograd as gradients
from regard.backends import reductions
from regard.backends import tiles as tiled
from regard.backends.tiles import Dropout
from regard.errors import InputError, ModifiedInPlaceError, OutOfRangeError
from regard.matrix.matrix_picture import draw
from regard.matrix.operand import operand
from regard.matrix.views import Parts, Stage, Transposed, look, points
from regard.scores import Mask, Positions, Scores, as_mask, check_floats, make_scores, pick
from regard.support import Float, Int, ensure_room, no_compile, number, one_of, whole

if TYPE_CHECKING:
    from regard.drawing import Picture

__all__ = ["AttentionMatrix", "Summary", "Top"]


class Top(NamedTuple):
    """The greatest weights of each row, falling, and the keys they lie on; -1 where a row sees fewer keys."""

    weights: Float[Tensor, "*batch queries k"]
    keys: Int[Tensor, "*batch queries k"]


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
        self._scores = self._wide = make_scores(query, key, mask, scale, softcap, sinks)
        self._batch: tuple[int, ...] = tuple(query.shape[:-3])
        self._heads = query.dim() > 2
        self._lse: Tensor | None = None  # the row normaliser, once something needs it
        self._found: Tensor | None = None  # what a kernel gave for it, not yet looked at
        self._mask = as_mask(mask)
        self._whole: torch.Size | None = None  # the shape of the matrix that this is a part of
        self._other_heads: frozenset[int] = frozenset()  # how many heads its keys have, where the part's are others
        read = {"query": query, "key": key}
        read |= {f"mask ({n})": tensor for n, tensor in enumerate(self._mask.tensors)}
        if isinstance(sinks, Tensor):
            read["sinks"] = sinks
        self._read = [(name, tensor, tensor._version) for name, tensor in read.items() if not tensor.is_inference()]

    # What it is

    @property
    def _leading(self) -> tuple[int, ...]:
        return (*self._batch, self._scores.shape[1]) if self._heads else self._batch

    @property
    def shape(self) -> torch.Size:
        """(*batch, heads, queries, keys).

        >>> import torch, regard
        >>> regard.AttentionMatrix(torch.randn(5, 16), torch.randn(7, 16)).shape
        torch.Size([5, 7])
        """
        return torch.Size((*self._leading, *self._scores.shape[2:]))

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of its slices: the query's."""
        return self._scores.query.dtype

    @property
    def device(self) -> torch.device:
        """Where it is computed: where the query lies."""
        return self._scores.query.device

    def __repr__(self) -> str:
        dtype = str(self.dtype).removeprefix("torch.")
        of = "" if self._whole is None else f" of the whole {tuple(self._whole)}"
        return f"AttentionMatrix(shape={tuple(self.shape)}, dtype={dtype}, device={self.device}, mask={self._mask}{of})"

    def __len__(self) -> int:
        return self.shape[0]

    def __getstate__(self) -> dict[str, Any]:
        self._check()
        return vars(self)

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._read = [(name, tensor, tensor._version) for name, tensor, _ in self._read]  # a copy counts anew

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
        scores, dropped = self._scores, _dropout(dropout, seed)
        value = self._value(value)
        if value.shape[1] == scores.key.shape[1]:
            return self._unfold(self._result(gradients.Attend(dropped), value))
        # Values per query head: one pass for each member of a group, keys still shared.
        every = range(scores.shape[0]), range(scores.shape[2]), range(scores.shape[3])
        passes = []
        for member in range(scores.group):
            heads = range(member, scores.shape[1], scores.group)
            part = self._selected(every[0], heads, every[1], every[2], self._batch, True)
            own = dropped and replace(dropped, seed=dropped.seed + (member << 20))  # each head drops others
            passes.append(part._result(gradients.Attend(own), value[:, member :: scores.group]))
        return self._unfold(torch.stack(passes, 2).flatten(1, 2))

    @property
    def mT(self) -> Transposed:
        """The transposed matrix, as lazy as this one: `A.mT @ x` sends every query's row of x back to the keys.

        >>> import torch, regard
        >>> A = regard.AttentionMatrix(torch.randn(5, 16), torch.randn(7, 16))
        >>> (A.mT @ torch.ones(5, 1)).squeeze().allclose(A.received())
        True
        """
        return Transposed(self)

    # Numbers out of it

    def __getitem__(self, index: Any) -> Tensor:
        return look(self, index, "weights")

    @property
    def part(self) -> Parts:
        """`A.part[...]`: a part that is still lazy, each row normalised over *all* its keys.

        A part of grouped heads takes the values of its own heads: one for each, or one for each key head that it reads.

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
        """`A.scaled[...]`: QKᵀ times the scale, 1/√width unless you chose another."""
        return Stage(self, "scaled")

    @property
    def capped(self) -> Stage:
        """`A.capped[...]`: the scaled scores after the soft cap (the same where there is none)."""
        return Stage(self, "capped")

    @property
    def masked(self) -> Stage:
        """`A.masked[...]`: what the softmax is taken of: biases added, -inf where a key is hidden."""
        return Stage(self, "masked")

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
        (queries, keys), offset = self.shape[-2:], whole("offset", offset)
        first = max(-offset, 0)
        row = torch.arange(first, max(min(queries, keys - offset), first), device=self.device)
        index = (*(torch.arange(n, device=self.device) for n in self._leading), row)
        *leading, row = torch.meshgrid(*index, indexing="ij")
        self._check()
        return points(self, [*leading, row, row + offset], "weights")

    # Rows, columns and the whole, streamed

    @property
    def logsumexp(self) -> Float[Tensor, "*leading queries"]:
        """log Σ exp of each masked row, sinks included; -inf where a row sees nothing.

        Everything normalised by it is right for scores up to about 10¹¹: beyond, float64 has too few digits for it.
        """
        self._check()
        return self._unfold(self._normaliser().to(self._scores.working_dtype))

    @property
    def sink_share(self) -> Float[Tensor, "*leading queries"]:
        """The share of each row that its sink takes: rows sum to 1 - sink_share."""
        sinks = self._wide.sinks
        if sinks is None:
            return torch.zeros_like(self.logsumexp)
        return tiled.share(self._unfold(sinks.to(self._wide.working_dtype)[..., None]), self.logsumexp)

    def received(self, reduce: str = "sum") -> Float[Tensor, "*leading keys"]:
        """The attention that each key receives over all queries: "sum", "mean" or (without gradient) "max".

        >>> import torch, regard
        >>> A = regard.AttentionMatrix(torch.zeros(3, 4), torch.zeros(3, 4), mask=regard.causal())
        >>> A.received()
        tensor([1.8333, 0.8333, 0.3333])
        """
        one_of("reduce", reduce, ("sum", "mean", "max"))
        if reduce == "max":
            return self._unfold(self._swept(reductions.Received(self._scores, reduce)).result())
        return self._unfold(self._result(gradients.Received(reduce)))

    def entropy(self) -> Float[Tensor, "*leading queries"]:
        """-Σ p log p of each row, in nats: 0 where a query looks at one key only, log n where it looks at n alike.

        >>> import torch, regard
        >>> regard.AttentionMatrix(torch.zeros(1, 4), torch.zeros(8, 4)).entropy().exp().round()
        tensor([8.])
        """
        return self._unfold(self._result(gradients.Entropy()))

    def top(self, k: int) -> Top:
        """The k greatest weights of each row and their keys, exactly; without gradient.

        >>> import torch, regard
        >>> A = regard.AttentionMatrix(torch.eye(3) * 9, torch.eye(3))
        >>> A.top(1).keys.squeeze()
        tensor([0, 1, 2])
        """
        return self._top(self._swept(self._topper(k)))

    def pool(self, rows: int, columns: int, reduce: str = "mean") -> Float[Tensor, "*leading rows columns"]:
        """The whole matrix as a small picture: the "mean" or (without gradient) the "max" of each bin.

        A side never has more bins than the matrix has tokens there.

        >>> import torch, regard
        >>> A = regard.AttentionMatrix(torch.randn(1000, 8), torch.randn(5000, 8))
        >>> A.pool(64, 256).shape, A.pool(64, 10_000).shape
        (torch.Size([64, 256]), torch.Size([64, 5000]))
        """
        one_of("reduce", reduce, ("mean", "max"))
        rows, columns = self._bins(rows, columns)
        if reduce == "max":
            return self._unfold(self._swept(reductions.Pool(self._scores, rows, columns, reduce)).result())
        return self._unfold(self._result(gradients.Pool(rows, columns)))

    def summary(self, top: int | None = None, pool: int | tuple[int, int] | None = None) -> Summary:
        """Received, entropy, logsumexp, and top and pool if asked for, in one sweep; without gradient.

        >>> import torch, regard
        >>> A = regard.AttentionMatrix(torch.randn(4, 300, 16), torch.randn(4, 300, 16))
        >>> seen = A.summary(top=3, pool=32)
        >>> seen.received.shape, seen.top.keys.shape, seen.pool.shape
        (torch.Size([4, 300]), torch.Size([4, 300, 3]), torch.Size([4, 32, 32]))
        """
        scores = self._scores
        received, entropy = reductions.Received(scores, "sum"), reductions.Entropy(scores)
        topper = None if top is None else self._topper(top)
        pooler = None
        if pool is not None:
            sides = pool if isinstance(pool, Sequence) else (pool, pool)
            if len(sides) != 2:
                raise InputError(f"pool must be a number of bins, or two: (rows, columns). Got {pool!r}.")
            pooler = reductions.Pool(scores, *self._bins(*sides), "mean", received)
        self._swept(*(r for r in (received if pooler is None else pooler, topper, entropy) if r is not None))
        with torch.no_grad():
            pooled = None if pooler is None else self._unfold(pooler.result())  # first: it completes `received`
            return Summary(
                self._unfold(received.result()),
                self._unfold(entropy.result()),
                self.logsumexp,
                None if topper is None else self._top(topper),
                pooled,
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
        same = object.__new__(AttentionMatrix)
        vars(same).update(vars(self))
        same._scores = _cut(self._scores)
        same._wide = same._scores if self._wide is self._scores else _cut(self._wide)
        same._read = [(name, tensor.detach(), version) for name, tensor, version in self._read]
        return same

    # How it is done

    def _check(self) -> None:
        for name, tensor, version in self._read:
            if tensor._version != version:
                raise ModifiedInPlaceError(
                    f"{name} was changed in place after this AttentionMatrix was made, so its numbers would no longer "
                    f"agree. Make a new AttentionMatrix, or hand in a copy: {name.split()[0]}.clone()."
                )

    @no_compile
    def _known(self) -> Tensor:
        """The row normaliser as data, computed once; in float64 unless a kernel gave it and float32 will do."""
        if self._lse is None:
            if self._found is not None and tiled.trusted(self._found, self.dtype):
                self._lse = self._found
            else:
                with torch.no_grad():
                    self._lse = backends.logsumexp(self._wide.detached())
        if self._lse.is_inference() and not torch.is_inference_mode_enabled():
            self._lse = self._lse.clone()  # found in inference mode, where nothing may be kept for a gradient
        return self._lse

    @no_compile
    def _normaliser(self) -> Tensor:
        """The row normaliser as a differentiable function of all queries and keys."""
        return gradients.compute(gradients.LogSumExp(), self._wide, self._known())[0]

    @no_compile
    def _result(self, job: gradients.Job, operand: Tensor | None = None) -> Tensor:
        self._check()
        outer = None if self._scores is self._wide else self._normaliser()
        streams = outer is None and isinstance(job, gradients.Attend)  # finds the normaliser on its way
        result, lse = gradients.compute(job, self._scores, self._lse if streams else self._known(), outer, operand)
        if self._lse is None:
            self._found = lse
        return result

    @no_compile
    def _swept(self, *wanted: Any) -> Any:
        self._check()
        with torch.no_grad():
            backends.reduce(self._scores.detached(), self._known(), wanted)
        return wanted[0]

    def _unfold(self, result: Tensor) -> Tensor:
        """(batch, heads, …) as the user counts the leading axes."""
        return result if len(self._leading) == 2 and self._heads else result.reshape(*self._leading, *result.shape[2:])

    def _fold(self, result: Tensor) -> Tensor:
        """The inverse of `_unfold`."""
        return result.reshape(*self._scores.shape[:2], *result.shape[len(self._leading) :])

    def _value(self, value: Tensor) -> Tensor:
        scores = self._scores
        check_floats(query=scores.query, value=value)
        return operand(self, value, "value", "keys", scores.shape[3], scores.key.shape[1])

    def _reverse(self, x: Tensor) -> Tensor:
        check_floats(query=self._scores.query, x=x)
        return self._unfold(self._result(gradients.Reverse(), operand(self, x, "x", "queries", self.shape[-2])))

    def _bins(self, rows: int, columns: int) -> tuple[int, int]:
        rows, columns = whole("rows", rows), whole("columns", columns)
        if rows < 1 or columns < 1:
            raise InputError(f"pool takes at least 1 bin a side. Got rows = {rows}, columns = {columns}.")
        bins = min(rows, self.shape[-2]), min(columns, self.shape[-1])
        self._room("pool", (*self._leading, *bins), 2 * self._scores.working_dtype.itemsize)
        return bins

    def _topper(self, k: int) -> reductions.Top:
        keys, k = self.shape[-1], whole("k", k)
        if not 1 <= k <= keys:
            hint = "Use min(k, A.shape[-1])." if keys else "It has no keys."
            raise OutOfRangeError(f"top(k) takes 1 <= k <= keys = {keys}. Got k = {k}. {hint}")
        self._room("top", (*self.shape[:-1], k), 2 * (self._scores.working_dtype.itemsize + 8))
        return reductions.Top(self._scores, k)

    def _room(self, name: str, shape: Sequence[int], bytes_each: int) -> None:
        ensure_room(shape, bytes_each, self.device, lambda: f"{name} of shape {tuple(shape)}, of {self!r}")

    def _top(self, topper: reductions.Top) -> Top:
        weights, keys = topper.result()
        return Top(self._unfold(weights), self._unfold(keys))

    def _selected(
        self, batch: Sequence[int], heads: Sequence[int], rows: Positions, columns: Positions,
        user_batch: tuple[int, ...], has_heads: bool,
    ) -> AttentionMatrix:  # fmt: skip
        part = object.__new__(AttentionMatrix)
        part._scores = self._scores.select(batch, heads, rows, columns)
        whole = range(self._wide.shape[3])
        every_key = self._scores is self._wide and isinstance(columns, range) and columns == whole
        part._wide = part._scores if every_key else self._wide.select(batch, heads, rows, whole)
        part._batch, part._heads, part._mask, part._read = user_batch, has_heads, self._mask, self._read
        part._lse = part._found = None
        part._whole, part._other_heads = self._whole or self.shape, self._other_heads
        few = self._scores.key.shape[1]
        if [head // self._scores.group for head in heads] != list(range(few)) and len(heads) != self._scores.shape[1]:
            part._other_heads |= {few}
        if self._lse is not None or self._found is not None:
            part._lse = pick(self._known()[list(batch)][:, list(heads)], 2, rows)
        return part


def _cut(scores: Scores) -> Scores:
    """The same numbers outside any graph; unlike `Scores.detached`, nothing is copied."""
    sinks = None if scores.sinks is None else scores.sinks.detach()
    mask = scores.mask.each(Tensor.detach)
    return replace(scores, query=scores.query.detach(), key=scores.key.detach(), mask=mask, sinks=sinks)


def _dropout(rate: float, seed: Tensor | None) -> Dropout | None:
    rate = number("dropout", rate)
    if not 0 <= rate < 1:
        raise InputError(f"dropout must be at least 0 and below 1. Got {rate}.")
    return Dropout(rate, torch.randint(2**31, (), device="cpu") if seed is None else seed) if rate else None
