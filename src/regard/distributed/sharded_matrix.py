"""`ShardedMatrix`: an attention matrix whose queries and keys lie on several ranks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from regard import backends
from regard.backends import Attend, Entropy, LogSumExp, Pool, Received, Reduction, Request, TransposedProduct
from regard.distributed import gradients, results, slices
from regard.distributed.dtensors import Placed, is_dtensor, placed
from regard.distributed.ring import Ring
from regard.distributed.share import Share, make_share
from regard.errors import DTypeError, InputError, OutOfRangeError, RegardError
from regard.matrix import Summary, Top
from regard.matrix.matrix_picture import draw
from regard.matrix.normalised import Source, check_sources
from regard.matrix.views import Axes, Parts, Stage, Transposed, basic, fold_operand, fold_value, picked
from regard.scores import Mask, as_mask, check_floats
from regard.support import Float, ensure_room, inside_func, no_compile, one_of, whole

if TYPE_CHECKING:
    from regard.drawing import Picture

__all__ = ["ShardedMatrix"]


class ShardedMatrix:
    """An `AttentionMatrix` of a sequence that is shared out over ranks: each has some queries, keys and values.

    Every rank makes it with its own share, in the order of `shard` (or one after the other, with zigzag=False), and
    makes the same calls. What belongs to a query lies where the query is: `A @ value`, `entropy`, `top`, `logsumexp`.
    What belongs to a key lies where the key is: `received`, `A.mT @ x`. `pool` and `A[…]` are the same on all ranks.
    Indices and keys are counted in the whole sequence. A rank needs memory for its share of the tokens only.

    In a mask, document ids, padding and cuts as bools are those of this rank's tokens; a bias (or a dense mask) is that
    of this rank's queries × the keys of all ranks, in the order of the sequence. What is not per token (offsets,
    lengths, scale, softcap, sinks) is the same on all ranks; the gradient of sinks, or of a bias that queries share, is
    each rank's part of a sum. `A @ value`, `A.mT @ x`, `logsumexp`, `received` and `entropy` have gradients; the rest
    is data.

    `mesh` is a DeviceMesh of one dimension or a process group; by default all ranks. For DTensors that are sharded
    along their tokens it is theirs, and results are DTensors.

    >>> import torch, regard
    >>> query, key, value = torch.randn(3, 2, 8, 1000, 64).unbind(0)        # one process: a share is the whole
    >>> A = regard.distributed.ShardedMatrix(query, key, mask=regard.causal())
    >>> A
    ShardedMatrix(shape=(2, 8, 1000, 1000), dtype=float32, device=cpu, mask=causal(), rank 0 of 1: 1,000 × 1,000)
    >>> (A @ value).allclose(regard.attention(query, key, value, mask=regard.causal()), atol=1e-5)
    True
    """

    def __init__(
        self,
        query: Float[Tensor, "*batch heads own_queries width"] | Float[Tensor, "own_queries width"],
        key: Float[Tensor, "*batch key_heads own_keys width"] | Float[Tensor, "own_keys width"],
        *,
        mask: Mask | Tensor | None = None,
        scale: float | None = None,
        softcap: float | None = None,
        sinks: Tensor | float | None = None,
        mesh: Any = None,
        zigzag: bool | None = None,
    ):
        self._placed: Placed | None = None
        if is_dtensor(query) or is_dtensor(key):
            query, key, mesh = self._from_dtensors(query, key, mesh)
            zigzag = bool(zigzag)  # their order is that of the ranks
        ring = Ring.of(mesh)
        try:
            self._mask = as_mask(mask)
            if inside_func():
                raise InputError("a ShardedMatrix cannot be made inside torch.func (grad, vmap, …).")
        except RegardError as error:
            ring.agree("ShardedMatrix(…)", partial(_fail, error))
        zigzag = True if zigzag is None else zigzag
        self._share = make_share(ring, query, key, self._mask, scale, softcap, sinks, zigzag)
        self._rows = self._share  # the same rows over all keys
        self._axes = Axes(tuple(query.shape[:-3]), query.dim() > 2)
        named = {"query": query, "key": key}
        named |= {f"mask ({n})": tensor for n, tensor in enumerate(self._mask.tensors)}
        named |= {"sinks": sinks} if isinstance(sinks, Tensor) else {}
        self._sources = Source.of(**named)
        self._lse: Tensor | None = None
        self._kernel_lse: Tensor | None = None  # found on the way of a product, with digits enough on this rank
        self._key_heads_before: frozenset[int] = frozenset()

    # What it is

    @property
    def shape(self) -> torch.Size:
        """(*batch, heads, queries, keys) of all ranks together."""
        _, heads, queries, keys = self._share.shape
        return torch.Size((*self._axes.leading(heads), queries, keys))

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of its slices: the query's."""
        return self._share.scores.query.dtype

    @property
    def device(self) -> torch.device:
        """Where this rank computes: where its queries lie."""
        return self._share.scores.query.device

    def __repr__(self) -> str:
        dtype = str(self.dtype).removeprefix("torch.")
        ring, (_, _, queries, keys) = self._share.ring, self._share.scores.shape
        own = f"rank {ring.rank} of {ring.size}: {queries:,} × {keys:,}"
        return (
            f"ShardedMatrix(shape={tuple(self.shape)}, dtype={dtype}, device={self.device}, mask={self._mask}, {own})"
        )

    def __len__(self) -> int:
        return self.shape[0]

    # Attention, both ways

    def __matmul__(self, value: Float[Tensor, "*any own_keys width"]) -> Float[Tensor, "*any_too own_queries width"]:
        return self.attend(value)

    def attend(self, value: Float[Tensor, "*any own_keys width"]) -> Float[Tensor, "*any_too own_queries width"]:
        """`A @ value`: keys and values go round the ranks while each computes with those that it has.

        Values may have the heads of the keys or of the queries.
        """
        value, scores = _own(value), self._share.scores
        folded: list[Tensor] = []

        def fold() -> str:
            folded.append(fold_value(self._axes, scores, value, self._key_heads_before))
            return _alike(folded[0])

        known = self._agree("A @ value", fold, value)
        (value,) = folded
        if value.shape[1] == scores.key.shape[1]:
            return self._per_query(self._compute(self._share, self._rows, Attend(value), known))
        # Values per query head: the keys go round once for each member of a group.
        lse = None if self._share is self._rows else self._normaliser(known)
        batch, heads, queries, keys = (range(n) for n in self._share.shape)
        outputs = []
        for member in range(scores.group):
            some = heads[member :: scores.group]
            part = self._share.select(batch, some, queries, keys)
            rows = part
            if lse is not None:
                rows = self._rows.select(batch, some, queries, range(self._rows.keys.size))
            own = None if lse is None else lse[:, member :: scores.group]
            outputs.append(self._compute(part, rows, Attend(value[:, member :: scores.group]), known, own))
        return self._per_query(torch.stack(outputs, 2).flatten(1, 2))

    @property
    def mT(self) -> Transposed[ShardedMatrix]:
        """The transposed matrix: `A.mT @ x`, x as this rank's queries are, gives what its keys are sent."""
        return Transposed(self, self._transposed_product)

    # Numbers out of it

    def __getitem__(self, index: Any) -> Tensor:
        return self._read("weights", index)

    @property
    def part(self) -> Parts[ShardedMatrix]:
        """`A.part[...]`: a part, by index in the whole, that is still lazy and in shards; what each rank has of it.

        >>> import torch, regard
        >>> A = regard.distributed.ShardedMatrix(torch.randn(2, 100, 16), torch.randn(2, 100, 16))
        >>> A.part[..., :10, 50:].received().shape
        torch.Size([2, 50])
        """
        return Parts(self, self._part)

    @property
    def scores(self) -> Stage:
        """`A.scores[...]`: QKᵀ, before anything else."""
        return Stage(self, "scores", partial(self._read, "scores"))

    @property
    def scaled(self) -> Stage:
        """`A.scaled[...]`: QKᵀ times the scale."""
        return Stage(self, "scaled", partial(self._read, "scaled"))

    @property
    def capped(self) -> Stage:
        """`A.capped[...]`: the scaled scores after the soft cap."""
        return Stage(self, "capped", partial(self._read, "capped"))

    @property
    def masked(self) -> Stage:
        """`A.masked[...]`: what the softmax is taken of."""
        return Stage(self, "masked", partial(self._read, "masked"))

    def to_dense(self) -> Float[Tensor, "*leading queries keys"]:
        """All of it as a tensor on every rank, if it fits in memory."""
        return self[...]

    @property
    def logsumexp(self) -> Float[Tensor, "*leading own_queries"]:
        """log Σ exp of each masked row of this rank, over the keys of all, sinks included."""
        known = self._agree("logsumexp")
        lse = self._normaliser(known)
        if self._graph():
            lse, _, _ = gradients.differentiable(self._rows, LogSumExp(), lse)
        return self._per_query(lse.to(self._share.scores.working_dtype, copy=True))

    @property
    def sink_share(self) -> Float[Tensor, "*leading own_queries"]:
        """The share of each row of this rank that its sink takes."""
        lse, sinks = _own(self.logsumexp), self._rows.scores.sinks
        if sinks is None:
            return self._per_query(torch.zeros_like(lse), folded=False)
        return self._per_query(backends.share(self._axes.unfold(sinks.to(lse.dtype)[..., None]), lse), folded=False)

    def received(self, reduce: str = "sum") -> Float[Tensor, "*leading own_keys"]:
        """The attention that each key of this rank receives from the queries of all: "sum", "mean" or "max".

        >>> import torch, regard
        >>> A = regard.distributed.ShardedMatrix(torch.zeros(3, 4), torch.zeros(3, 4), mask=regard.causal())
        >>> A.received()
        tensor([1.8333, 0.8333, 0.3333])
        """
        known = self._agree(f"received({reduce!r})", lambda: one_of("reduce", reduce, ("sum", "mean", "max")))
        if reduce == "max":  # has no gradient
            (result,) = self._reduce(known, Received("max"))
        else:
            result = self._compute(self._share, self._rows, Received(), known)
            result = result / max(self._share.queries.size, 1) if reduce == "mean" else result
        assert isinstance(result, Tensor)
        return self._per_key(result)

    def entropy(self) -> Float[Tensor, "*leading own_queries"]:
        """-Σ p log p of each row of this rank, in nats."""
        return self._per_query(self._compute(self._share, self._rows, Entropy(), self._agree("entropy()")))

    def top(self, k: int) -> Top:
        """The k largest weights of each row of this rank, and their keys, counted in the whole sequence."""
        known = self._agree(f"top({k})", lambda: self._top_request(k))
        (found,) = self._reduce(known, self._top_request(k))
        return self._top(found)

    def pool(self, rows: int, columns: int, reduce: str = "mean") -> Float[Tensor, "*leading rows columns"]:
        """The whole matrix as a small picture, the same on all ranks: the "mean" or the "max" of each bin.

        >>> import torch, regard
        >>> A = regard.distributed.ShardedMatrix(torch.randn(1000, 8), torch.randn(5000, 8))
        >>> A.pool(64, 256).shape
        torch.Size([64, 256])
        """
        known = self._agree(f"pool({rows}, {columns}, {reduce!r})", lambda: self._pool_request(rows, columns, reduce))
        (found,) = self._reduce(known, self._pool_request(rows, columns, reduce))
        assert isinstance(found, Tensor)
        return self._same(found)

    def summary(self, top: int | None = None, pool: int | tuple[int, int] | None = None) -> Summary:
        """Received, entropy, logsumexp, and top and pool if asked for, while the keys go round once.

        Each lies where it does otherwise: per query, per key, and the picture on all ranks.
        """

        def requests() -> dict[str, Reduction]:
            asked: dict[str, Reduction] = {"received": Received(), "entropy": Entropy()}
            if top is not None:
                asked["top"] = self._top_request(top)
            if pool is not None:
                sides = pool if isinstance(pool, Sequence) else (pool, pool)
                if len(sides) != 2:
                    raise InputError(f"pool must be a number of bins, or two: (rows, columns). Got {pool!r}.")
                asked["pool"] = self._pool_request(*sides, "mean")
            return asked

        known = self._agree(f"summary(top={top}, pool={pool})", requests)
        asked = requests()
        found: dict[str, Any] = dict(zip(asked, self._reduce(known, *asked.values()), strict=True))
        lse = self._normaliser(True).to(self._share.scores.working_dtype, copy=True)
        return Summary(
            self._per_key(found["received"]),
            self._per_query(found["entropy"]),
            self._per_query(lse),
            self._top(found["top"]) if "top" in found else None,
            self._same(found["pool"]) if "pool" in found else None,
        )

    # To look at

    def picture(self, words: Iterable[str] | None = None, kind: str | None = None, **options: Any) -> Picture:
        """As `AttentionMatrix.picture`, the same on all ranks; `words` are those of the whole sequence."""
        given = {"columns": None, "pick": None, "heads": None, "window": None, "title": ""}
        if unknown := sorted(set(options) - set(given)):
            raise InputError(f"options of a picture are {', '.join(given)}. Got {', '.join(unknown)}.")
        return draw(self, words, kind, **(given | options))  # type: ignore[arg-type]

    def detach(self) -> ShardedMatrix:
        """The same matrix outside any graph, with the normaliser it already knows."""
        share, rows = gradients.without_graph(self._share), gradients.without_graph(self._rows)
        sources = [source._replace(tensor=source.tensor.detach()) for source in self._sources]
        return self._derived(share=share, rows=share if self._rows is self._share else rows, sources=sources)

    # How it is done

    def _derived(self, **changes: Any) -> ShardedMatrix:
        other = object.__new__(ShardedMatrix)
        vars(other).update(vars(self) | {f"_{name}": value for name, value in changes.items()})
        return other

    def _from_dtensors(self, query: Any, key: Any, mesh: Any) -> tuple[Tensor, Tensor, Any]:
        if not (is_dtensor(query) and is_dtensor(key)):
            raise DTypeError(
                "query and key must both be DTensors, or both plain tensors, this rank's share of the tokens."
            )
        own, other = placed("query", query), placed("key", key)
        if own.mesh != other.mesh or own.placements != other.placements:
            raise InputError(
                "query and key must have one mesh and the same placements. "
                f"Got {own.placements} and {other.placements}. Use key.redistribute(…)."
            )
        if mesh is not None and mesh not in (own.mesh, own.group):
            raise InputError("for DTensors the mesh is theirs. Leave out mesh=….")
        self._placed, self._placed_keys = own, other
        return query.to_local(), key.to_local(), own.group

    def _agree(self, call: str, check: Callable[[], object] | None = None, operand: Tensor | None = None) -> bool:
        """Begin a call on all ranks; whether all of them know the normaliser already."""

        def prepare() -> dict[str, Any]:
            check_sources(self._sources, "ShardedMatrix")
            same = None if check is None else check()
            known = self._lse is not None or self._kernel_lse is not None
            return {"known": known} | ({"same": same} if isinstance(same, str) else {})

        graph = " with gradients" if self._graph(operand) else ""
        return all(said["known"] for said in self._share.ring.agree(f"{call}{graph}, of {self._about()}", prepare))

    def _about(self) -> str:
        return f"a matrix {tuple(self.shape)}"

    def _graph(self, operand: Tensor | None = None) -> bool:
        wants = isinstance(operand, Tensor) and operand.requires_grad
        return torch.is_grad_enabled() and (
            wants or self._share.scores.requires_grad or self._rows.scores.requires_grad
        )

    @no_compile
    def _normaliser(self, known: bool) -> Float[Tensor, "batch heads own_queries"]:
        """The normaliser of this rank's rows, as data; computed by all ranks unless all of them know it."""
        if not known:
            with torch.no_grad():
                self._lse = results.logsumexp(self._rows)
        lse = self._lse if self._lse is not None else self._kernel_lse
        assert lse is not None
        if lse.is_inference() and not torch.is_inference_mode_enabled():
            lse = lse.clone()  # tensors made in inference mode cannot be saved for backward
        self._lse = lse
        return lse

    @no_compile
    def _compute(self, share: Share, rows: Share, request: Request, known: bool, lse: Tensor | None = None) -> Tensor:
        """The result of a request, differentiable where that is asked for; rows are normalised over all keys."""
        own = isinstance(request, Attend) and share is rows  # a product finds its own normaliser
        if not own and lse is None:
            lse = self._normaliser(known)
        if self._graph(request.operand):
            outer = None if own else gradients.differentiable(rows, LogSumExp(), lse)[0]
            result, found, sure = gradients.differentiable(share, request, lse, outer)
        else:
            with torch.no_grad():
                result, found, sure = gradients.compute(share, request, lse, outer=not own)
        if own and sure and share is self._share and self._lse is None:
            self._kernel_lse = found
        return result

    @no_compile
    def _reduce(self, known: bool, *requests: Reduction) -> list[Any]:
        lse = self._normaliser(known)
        with torch.no_grad():
            return results.reduce(self._share, lse, requests)

    def _transposed_product(self, x: Tensor) -> Tensor:
        x, scores = _own(x), self._share.scores
        folded: list[Tensor] = []

        def fold() -> str:
            check_floats(query=scores.query, x=x)
            folded.append(fold_operand(self._axes, scores.shape, x, name="x"))
            return _alike(folded[0])

        known = self._agree("A.mT @ x", fold, x)
        return self._per_key(self._compute(self._share, self._rows, TransposedProduct(folded[0]), known))

    def _top_request(self, k: int) -> backends.Top:
        keys, k = self.shape[-1], whole("k", k)
        if not 1 <= k <= keys:
            raise OutOfRangeError(f"top(k) takes 1 <= k <= keys = {keys}. Got k = {k}. Use min(k, A.shape[-1]).")
        return backends.Top(k)

    def _pool_request(self, rows: int, columns: int, reduce: str) -> Pool:
        one_of("reduce", reduce, ("mean", "max"))
        rows, columns = whole("rows", rows), whole("columns", columns)
        if rows < 1 or columns < 1:
            raise InputError(f"pool takes at least 1 bin a side. Got rows = {rows}, columns = {columns}.")
        return Pool(min(rows, self.shape[-2]), min(columns, self.shape[-1]), reduce)

    def _top(self, found: Any) -> Top:
        return Top(*(self._per_query(each) for each in found))

    # Where results lie

    def _per_query(self, result: Tensor, folded: bool = True) -> Tensor:
        result = self._axes.unfold(result) if folded else result
        return result if self._placed is None else self._placed.whole(result, self._share.queries.size)

    def _per_key(self, result: Tensor) -> Tensor:
        result = self._axes.unfold(result)
        return result if self._placed is None else self._placed.whole(result, self._share.keys.size)

    def _same(self, result: Tensor) -> Tensor:
        result = self._axes.unfold(result)
        return result if self._placed is None else self._placed.same(result)

    # Parts

    def _part(self, axes: list[int | range | Tensor]) -> ShardedMatrix:
        share = self._share
        batch, heads, rows, columns, left, before = picked(axes, self._axes, share.scores, self._key_heads_before)
        assert isinstance(rows, range)
        assert isinstance(columns, range)
        part = share.select(batch, heads, rows, columns)
        keeps_all = self._rows is share and columns == range(share.keys.size)
        over_all = part if keeps_all else self._rows.select(batch, heads, rows, range(self._rows.keys.size))

        def pick(lse: Tensor | None) -> Tensor | None:
            if lse is None:
                return None
            return share.queries.pick(share.ring.rank, rows, lse[batch][:, heads], 2)

        return self._derived(
            share=part, rows=over_all, axes=left, key_heads_before=before, placed=None, lse=pick(self._lse),
            kernel_lse=pick(self._kernel_lse),
        )  # fmt: skip

    def _read(self, stage: str, index: Any) -> Tensor:
        """The numbers that an index asks for, the same on all ranks; as data."""
        parts: list[ShardedMatrix] = []
        axes: list[Any] = []

        def pick() -> None:
            found = basic(index, tuple(self.shape))
            if found is None or any(isinstance(axis, Tensor) for axis in found):
                raise InputError("a matrix in shards is indexed by ints, slices and ... only. Take rows one by one.")
            axes.extend(found)
            size = [1 if isinstance(axis, int) else len(axis) for axis in found]
            ensure_room(size, 2 * self.dtype.itemsize + 8, self.device, lambda: f"{tuple(size)} numbers of {self!r}")
            parts.append(self._part(found))

        known = self._agree(f"A[{index}] ({stage})", pick)
        part = parts[0]
        with torch.no_grad():
            lse = part._normaliser(known) if stage == "weights" else None
            dense = part._axes.unfold(slices.dense(part._share, stage, lse))
        for axis in (-2, -1):
            dense = dense.squeeze(axis) if isinstance(axes[axis], int) else dense
        return dense


def _own(tensor: Any) -> Any:
    """This rank's share of a DTensor; anything else as it is."""
    return tensor.to_local() if is_dtensor(tensor) else tensor


def _alike(operand: Tensor) -> str:
    batch, heads, _, width = operand.shape
    return f"[{batch}, {heads}, tokens, {width}]"


def _fail(error: Exception) -> dict[str, Any]:
    raise error
