"""`ShardedMatrix`: an attention matrix whose queries and keys lie on several ranks; `attention`, `shard`, `gather`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from regard.backends import Attend, LogSumExp, Pool, Received, Reduction, Request, Top
from regard.distributed import results
from regard.distributed.ring import Moving, Ring
from regard.distributed.share import Layout, Share, described, even_lengths, make_share, share_of
from regard.errors import DTypeError, InputError, OutOfRangeError, RegardError
from regard.matrix import LazyMatrix
from regard.matrix.axes import Axes, basic, fold_value
from regard.matrix.normalised import Source, check_sources, largest_score, per_member, without_graph
from regard.scores import Mask, Positions, Scores, as_mask
from regard.support import Float, check_stored, inside_func, no_compile
from regard.support import whole as whole_number


class ShardedScores:
    """This rank's share of the scores, and the normaliser of its rows over the keys of all ranks.

    It corresponds to `NormalisedScores` on one device. All ranks know the normaliser, or none does (`forget_lse`).
    """

    def __init__(self, share: Share, sources: Sequence[Source], rows: Share | None = None, lse: Tensor | None = None):
        self.share, self.sources, self._lse = share, sources, lse
        self.rows = share if rows is None else rows  # the same rows over all keys
        self.scores: Scores = share.scores  # of this rank's queries and keys
        self.shape = share.shape  # (batch, heads, queries, keys) of all ranks together
        self.sinks = self.rows.scores.sinks  # that the normaliser counts: (batch, heads)
        self.has_all_keys = self.rows is share  # then a product also computes the normaliser

    @property
    def requires_grad(self) -> bool:
        """Whether a result of these scores has a gradient."""
        return torch.is_grad_enabled() and (self.scores.requires_grad or self.rows.scores.requires_grad)

    @property
    def knows_lse(self) -> bool:
        """Whether this rank knows the normaliser."""
        return self._lse is not None

    def forget_lse(self) -> None:
        """Forget the normaliser, which another rank does not know: all ranks compute it together."""
        self._lse = None

    @no_compile
    def lse(self) -> Float[Tensor, "batch heads own_queries"]:
        """The normaliser as data."""
        if self._lse is None:
            with torch.no_grad():
                self._lse = results.logsumexp(self.rows)
        if self._lse.is_inference() and not torch.is_inference_mode_enabled():
            self._lse = self._lse.clone()  # tensors made in inference mode cannot be saved for backward
        return self._lse

    def normaliser(self) -> Float[Tensor, "batch heads own_queries"]:
        """The normaliser as a differentiable function of all queries and keys."""
        lse = self.lse()
        return results.differentiable(self.rows, LogSumExp(), lse)[0] if self.requires_grad else lse

    @no_compile
    def compute(self, request: Request) -> Tensor:
        """The result of a request other than `Top`, differentiable except for a pool and a maximum."""
        if isinstance(request, Attend) and request.operand.shape[1] != self.scores.key.shape[1]:
            if not self.has_all_keys:
                self.lse()
            return per_member(self, request, ShardedScores.compute)
        if isinstance(request, Pool) or request == Received("max"):
            (result,) = self.reduce(request)
            assert isinstance(result, Tensor)
            return result
        if request == Received("mean"):
            return self.compute(Received()) / max(self.share.queries.size, 1)
        finds_lse = isinstance(request, Attend) and self.has_all_keys
        lse = None if finds_lse else self.lse()
        operand = request.operand
        if self.requires_grad or (torch.is_grad_enabled() and operand is not None and operand.requires_grad):
            outer = None if finds_lse else self.normaliser()
            result, lse, precise = results.differentiable(self.share, request, lse, outer)
        else:
            with torch.no_grad():
                result, lse, precise = results.compute(self.share, request, lse, outer=not finds_lse)
        if finds_lse and precise and self._lse is None:
            self._lse = lse
        return result

    @no_compile
    def reduce(self, *requests: Reduction) -> list[Any]:
        """Several reductions while the keys travel round the ring once, as data."""
        lse = self.lse()
        with torch.no_grad():
            return results.reduce(self.share, lse, requests)

    @no_compile
    def largest_score(self, negated: bool = False) -> Float[Tensor, "batch heads own_queries"]:
        """As `NormalisedScores.largest_score`."""
        own = self.has_all_keys and self.sinks is None and not negated
        scores = self.scores.negated() if negated else replace(self.scores, sinks=None)
        share = replace(self.share, scores=scores)
        with torch.no_grad():
            lse = self.lse() if own else results.logsumexp(share)
            if self.shape[3]:
                lse = largest_score(lse, results.reduce(share, lse, [Top(1)])[0])
        return lse.to(scores.working_dtype, copy=True)

    def dense(self, stage: str) -> Float[Tensor, "batch heads queries keys"]:
        """One whole stage, or the "weights", the same on all ranks; as data."""
        with torch.no_grad():
            return results.dense(self.share, stage, self.lse() if stage == "weights" else None)

    def select(self, batch: Sequence[int], heads: Sequence[int], rows: Positions, columns: Positions) -> ShardedScores:
        """Some batches, heads, rows and columns, each row still normalised over all its keys."""
        assert isinstance(rows, range)
        assert isinstance(columns, range)
        share = self.share.select(batch, heads, rows, columns)
        keeps_all = self.has_all_keys and columns == range(self.share.keys.size)
        over_all = share if keeps_all else self.rows.select(batch, heads, rows, range(self.rows.keys.size))
        lse = self._lse
        if lse is not None:
            lse = self.share.queries.pick(self.share.ring.rank, rows, lse[list(batch)][:, list(heads)], 2)
        return ShardedScores(share, self.sources, over_all, lse)

    def detach(self) -> ShardedScores:
        """The same numbers outside any graph; nothing is copied."""
        share, rows = (replace(each, scores=without_graph(each.scores)) for each in (self.share, self.rows))
        sources = [source._replace(tensor=source.tensor.detach()) for source in self.sources]
        return ShardedScores(share, sources, share if self.has_all_keys else rows, self._lse)


class ShardedMatrix(LazyMatrix):
    """An `AttentionMatrix` of a sequence in shards: each rank has a share of the queries, keys and values.

    Every rank makes the matrix with its share, in the order of `shard` (or in the order of the ranks, with
    zigzag=False), and makes the same calls. A result per query lies on the rank of the query: `A @ value`, `entropy`,
    `top`, `logsumexp`. A result per key lies on the rank of the key: `received`, `A.mT @ x`. `pool`, `picture` and
    `A[…]` are the same on all ranks. Indices count in the whole sequence. A rank needs memory for its share only.

    `A @ value`, `A.mT @ x`, `logsumexp`, `received` and `entropy` have gradients; the other results are data.

    Args:
        query: the queries of this rank.
        key: the keys of this rank.
        mask: document ids, padding and cuts as bools belong to this rank's tokens. A bias or a dense mask has this
            rank's queries × the keys of all ranks, in the order of the sequence. Offsets and lengths are the same on
            all ranks. The gradient of a bias that queries share is this rank's part of a sum.
        scale: the same on all ranks, as is `softcap`.
        softcap: as in `AttentionMatrix`.
        sinks: the same on all ranks; their gradient is this rank's part of a sum.
        mesh: a DeviceMesh of one dimension or a process group; by default all ranks. For DTensors that are sharded
            along their tokens, leave it out: they have a mesh, and results are DTensors.
        zigzag: whether the shares are in the order of `shard`; True by default, except for DTensors.

    >>> import torch, regard
    >>> query, key, value = torch.randn(3, 2, 8, 1000, 64).unbind(0)        # one process: the share is everything
    >>> A = regard.distributed.ShardedMatrix(query, key, mask=regard.causal())
    >>> A
    ShardedMatrix(shape=(2, 8, 1000, 1000), dtype=float32, device=cpu, mask=causal(), rank 0 of 1: 1,000 × 1,000)
    >>> (A @ value).allclose(regard.attention(query, key, value, mask=regard.causal()), atol=1e-5)
    True
    >>> A.part[..., :10, 50:].received().shape, A.pool(64, 256).shape
    (torch.Size([2, 8, 950]), torch.Size([2, 8, 64, 256]))
    """

    _core: ShardedScores
    _placed: Placed | None = None

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
        if is_dtensor(query) or is_dtensor(key):
            self._placed = _one_placement(query, key, mesh)
            query, key, mesh = query.to_local(), key.to_local(), self._placed.group  # type: ignore[union-attr]
            zigzag = bool(zigzag)  # DTensors lie in the order of the ranks
        ring = Ring.of(mesh)
        try:
            self._mask = as_mask(mask)
            if inside_func():
                raise InputError("a ShardedMatrix cannot be made inside torch.func (grad, vmap, …).")
        except RegardError as error:
            ring.agree("ShardedMatrix(…)", partial(_fail, error))
        zigzag = True if zigzag is None else zigzag
        share = make_share(ring, query, key, self._mask, scale, softcap, sinks, zigzag)
        self._core = ShardedScores(share, Source.of_inputs(query, key, self._mask, sinks))
        self._axes = Axes(tuple(query.shape[:-3]), query.dim() > 2)

    def _more(self) -> str:
        ring, (_, _, queries, keys) = self._core.share.ring, self._core.scores.shape
        return f", rank {ring.rank} of {ring.size}: {queries:,} × {keys:,}"

    def __matmul__(self, value: Float[Tensor, "*any own_keys width"]) -> Float[Tensor, "*any_too own_queries width"]:
        return self.attend(value)

    def attend(self, value: Float[Tensor, "*any own_keys width"]) -> Float[Tensor, "*any_too own_queries width"]:
        """`A @ value`: keys and values travel round the ranks, and each rank computes the rows of its queries.

        Args:
            value: one row per key of this rank, with the heads of the keys or of the queries.
        """
        local = _local(value)

        def request() -> Attend:
            return Attend(fold_value(self._axes, self._core.scores, local, self._key_heads_before))

        return self._per_query(self._answer("A @ value", request, local))

    # How it is computed

    def _begin(
        self, call: str, prepare: Callable[[], Sequence[Any]] = list, operand: Tensor | None = None
    ) -> Sequence[Any]:
        def check() -> tuple[Sequence[Any], dict[str, Any]]:
            check_sources(self._core.sources, "ShardedMatrix")
            prepared = prepare()
            same = [] if operand is None else [described(each.operand) for each in prepared]
            return prepared, {"known": self._core.knows_lse, "same": same}

        has_gradient = torch.is_grad_enabled() and isinstance(operand, Tensor) and operand.requires_grad
        graph = " with gradients" if has_gradient or self._core.requires_grad else ""
        prepared, replies = self._core.share.ring.agree(f"{call}{graph}, of a matrix {tuple(self.shape)}", check)
        if not all(reply["known"] for reply in replies):
            self._core.forget_lse()
        return prepared

    def _transposed_product(self, x: Tensor) -> Tensor:
        return super()._transposed_product(_local(x))

    def _read(self, stage: str, index: Any) -> Tensor:
        """The numbers of an index, the same on all ranks; as data."""

        def prepare() -> list[Any]:
            axes = basic(index, tuple(self.shape))
            if axes is None or any(isinstance(axis, Tensor) for axis in axes):
                raise InputError("a matrix in shards is indexed by ints, slices and ... only. Take rows one by one.")
            return [axes, self._part_to_read(axes)]

        axes, part = self._begin(f"A[{index}] ({stage})", prepare)
        if not self._core.knows_lse:
            part._core.forget_lse()  # the part was made before the ranks agreed
        dense: Tensor = part._as_indexed(part._core.dense(stage), axes)
        return dense

    @no_compile
    def _part(self, index: Any) -> ShardedMatrix:
        return super()._part(index)._derived(placed=None)

    def _per_query(self, result: Tensor) -> Tensor:
        result = self._axes.unfold(result)
        return result if self._placed is None else self._placed.whole(result, self._core.share.queries.size)

    def _per_key(self, result: Tensor) -> Tensor:
        result = self._axes.unfold(result)
        return result if self._placed is None else self._placed.whole(result, self._core.share.keys.size)

    def _of_whole(self, result: Tensor) -> Tensor:
        result = self._axes.unfold(result)
        return result if self._placed is None else self._placed.same(result)


@no_compile
def attention(
    query: Float[Tensor, "*batch heads own_queries width"] | Float[Tensor, "own_queries width"],
    key: Float[Tensor, "*batch key_heads own_keys width"] | Float[Tensor, "own_keys width"],
    value: Float[Tensor, "*any own_keys value_width"],
    *,
    mask: Mask | Tensor | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    sinks: Tensor | float | None = None,
    mesh: Any = None,
    zigzag: bool | None = None,
) -> Float[Tensor, "*any_too own_queries value_width"]:
    """softmax(QKᵀ · scale) V over a sequence in shards, gradients included: `ShardedMatrix(…) @ value`.

    >>> import torch, regard
    >>> query, key, value = torch.randn(2, 8, 5, 64), torch.randn(2, 2, 7, 64), torch.randn(2, 2, 7, 32)
    >>> regard.distributed.attention(query, key, value, mask=regard.causal(offset=2)).shape
    torch.Size([2, 8, 5, 32])
    """
    matrix = ShardedMatrix(query, key, mask=mask, scale=scale, softcap=softcap, sinks=sinks, mesh=mesh, zigzag=zigzag)
    return matrix.attend(value)


def _one_placement(query: Any, key: Any, mesh: Any) -> Placed:
    """The placement that queries and keys share."""
    if not (is_dtensor(query) and is_dtensor(key)):
        raise DTypeError("query and key must both be DTensors, or both plain tensors, this rank's share of the tokens.")
    first, second = placed("query", query), placed("key", key)
    if first.mesh != second.mesh or first.placements != second.placements:
        raise InputError(
            "query and key must have one mesh and the same placements. "
            f"Got {first.placements} and {second.placements}. Use key.redistribute(…)."
        )
    if mesh is not None and mesh not in (first.mesh, first.group):
        raise InputError("for DTensors the mesh is theirs. Leave out mesh=….")
    return first


def _local(tensor: Any) -> Any:
    """This rank's share of a DTensor; any other tensor unchanged."""
    return tensor.to_local() if is_dtensor(tensor) else tensor


def _fail(error: Exception) -> Any:
    raise error


# From a whole tensor to shares, and back


def shard(tensor: Tensor, mesh: Any = None, *, dim: int = -2, zigzag: bool = True) -> Tensor:
    """This rank's share of a tensor that every rank has whole; nothing is sent.

    In zig-zag order the tensor has 2 × ranks pieces, and a rank gets one from the front and its mirror image from the
    back. A causal mask then gives every rank the same work. It is also the order of torch's context parallel. Shard
    everything that belongs to the tokens alike: positions, labels, ids.

    Args:
        tensor: the whole tensor.
        mesh: a DeviceMesh of one dimension or a process group; by default all ranks.
        dim: the axis of tokens.
        zigzag: whether the order is zig-zag; with False, the shares follow each other.

    >>> import torch, regard
    >>> regard.distributed.shard(torch.arange(8), dim=0)                    # one process: the whole tensor
    tensor([0, 1, 2, 3, 4, 5, 6, 7])
    """
    ring, dim = Ring.of(mesh), _axis(tensor, dim)
    return share_of(tensor, Layout.of(even_lengths(tensor.shape[dim], ring.size), zigzag), ring.rank, dim)


@torch.no_grad()
def gather(tensor: Tensor, mesh: Any = None, *, dim: int = -2, zigzag: bool = True) -> Tensor:
    """The whole tensor on every rank, in the order of the sequence, from the shares; without gradient.

    Args:
        tensor: this rank's share, as `shard` returns it.
        mesh, dim, zigzag: as in `shard`.

    >>> import torch, regard
    >>> whole = torch.randn(2, 8, 10, 64)
    >>> regard.distributed.gather(regard.distributed.shard(whole)).equal(whole)
    True
    """
    ring, call = Ring.of(mesh), f"gather(dim={dim}, zigzag={zigzag}) of {described(tensor, dim)}"

    def check() -> tuple[int, dict[str, Any]]:
        axis = _axis(tensor, dim)
        return axis, {"tokens": tensor.shape[axis]}

    axis, replies = ring.agree(call, check)
    lengths = [reply["tokens"] for reply in replies]
    layout = Layout.of(lengths, zigzag)
    whole = tensor.new_empty((*tensor.shape[:axis], layout.size, *tensor.shape[axis + 1 :]))
    for owner, share in enumerate(ring.collect(Moving(tensor, axis, lengths), "gather")):
        layout.put(owner, whole, share, axis)
    return whole


def _axis(tensor: Tensor, dim: int) -> int:
    if not isinstance(tensor, Tensor):
        raise DTypeError(f"a torch tensor is needed. Got {type(tensor).__name__}.")
    check_stored("the tensor", tensor)
    if not -tensor.dim() <= whole_number("dim", dim) < tensor.dim():
        raise OutOfRangeError(
            f"dim must be an axis of the tensor, which has {tensor.dim()}: shape {tuple(tensor.shape)}. Got {dim}. "
            "It is the axis of tokens: -2 of (…, tokens, width), -1 of (…, tokens)."
        )
    return dim % tensor.dim()


# DTensors


def is_dtensor(tensor: Any) -> bool:
    """Whether this is a DTensor; without an import of torch's module there are none."""
    module = sys.modules.get("torch.distributed.tensor")
    return module is not None and isinstance(tensor, module.DTensor)


@dataclass(frozen=True)
class Placed:
    """The placements of a DTensor (*batch, heads, tokens, width), its tokens along one dimension of the mesh."""

    mesh: Any
    placements: tuple[Any, ...]
    leading: tuple[int, ...]  # the whole (*batch, heads)
    dimension: int  # of the mesh

    @property
    def group(self) -> Any:
        """The ranks that share the sequence with this one."""
        return self.mesh.get_group(self.dimension)

    def whole(self, share: Tensor, tokens: int) -> Tensor:
        """A result (*batch, heads, tokens, …) with the same placements, from this rank's share of it."""
        from torch.distributed.tensor import DTensor

        axis = len(self.leading)
        whole = torch.empty(*self.leading, tokens, *share.shape[axis + 1 :], device="meta")
        options: Any = {"run_check": False, "shape": whole.shape, "stride": whole.stride()}
        return DTensor.from_local(share, self.mesh, self.placements, **options)  # type: ignore[no-untyped-call,no-any-return]

    def same(self, share: Tensor) -> Tensor:
        """A result (*batch, heads, …) that is the same on all ranks that share the sequence."""
        from torch.distributed.tensor import DTensor, Replicate

        placements = [Replicate() if n == self.dimension else each for n, each in enumerate(self.placements)]
        return DTensor.from_local(share, self.mesh, placements, run_check=False)  # type: ignore[no-untyped-call,no-any-return]


def placed(name: str, tensor: Any) -> Placed:
    """Check the placements of a DTensor: sharded along its tokens, and perhaps along batches and heads."""
    axis = tensor.dim() - 2
    dimensions = [n for n, each in enumerate(tensor.placements) if each.is_shard(axis)]
    is_allowed = all(each.is_replicate() or (each.is_shard() and each.dim <= axis) for each in tensor.placements)
    if len(dimensions) != 1 or not is_allowed:
        raise InputError(
            f"{name} must be a DTensor with Shard({axis}), the axis of tokens, on one dimension of its mesh, and "
            "Replicate or a shard of batches or heads on the others. "
            f"Got {tensor.placements}. Use {name}.redistribute(…)."
        )
    leading, mesh = tuple(tensor.shape[:-2]), tensor.device_mesh
    for n, each in enumerate(tensor.placements):
        if each.is_shard() and each.dim < axis and leading[each.dim] % mesh.size(n):
            raise InputError(
                f"axis {each.dim} of {name} must lie evenly on {mesh.size(n)} ranks. Got {leading[each.dim]} entries."
            )
    return Placed(mesh, tuple(tensor.placements), leading, dimensions[0])
