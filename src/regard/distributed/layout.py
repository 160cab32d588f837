"""Which tokens of a sequence lie on which rank: one run of tokens, or two for a balanced causal order.

`shard` and `gather` go from a whole sequence to each rank's share and back; `Placed` says where a DTensor lies.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from regard.distributed.ring import Moving, Ring
from regard.errors import DTypeError, InputError, OutOfRangeError
from regard.support import check_stored
from regard.support import whole as whole_number


@dataclass(frozen=True)
class Run:
    """Consecutive tokens of one rank, of which some at an even distance may be picked. Masks describe the whole run."""

    start: int  # where the run begins in the whole sequence
    length: int
    offset: int  # where the run begins in the whole share of its rank
    picked: range  # the picked tokens, counted from the start of the run
    here: int  # where the picked tokens begin in the tensors of the rank
    index: int  # where the picked tokens begin in the matrix

    @property
    def number(self) -> int:
        """0 for the first run of its rank, 1 for the second."""
        return int(self.offset > 0)

    @property
    def local(self) -> slice:
        """The picked tokens in the tensors of the rank."""
        return slice(self.here, self.here + len(self.picked))

    @property
    def indices(self) -> range:
        """The picked tokens in the matrix."""
        return range(self.index, self.index + len(self.picked))

    @property
    def positions(self) -> range:
        """The picked tokens in the whole sequence."""
        picked = self.picked
        return range(self.start + picked.start, self.start + picked.stop, picked.step)


@dataclass(frozen=True)
class Layout:
    """The runs of every rank; a run without tokens is left out.

    >>> Layout.of([4, 3], zigzag=True).runs[0]
    (Run(start=0, length=2, offset=0, picked=range(0, 2), here=0, index=0),
     Run(start=5, length=2, offset=2, picked=range(0, 2), here=2, index=5))
    """

    runs: tuple[tuple[Run, ...], ...]
    size: int  # tokens of all ranks

    @classmethod
    def of(cls, lengths: Sequence[int], zigzag: bool) -> Layout:
        """The layout for the numbers of tokens on each rank.

        In straight order the shares follow each other. In zig-zag order each rank has two runs: the first halves of the
        shares follow each other in the order of the ranks, then the second halves in the reverse order. This balances
        the work of a causal mask.
        """
        ranks = range(len(lengths))
        halves = [(n - n // 2, n // 2) if zigzag else (n, 0) for n in lengths]
        order = [(rank, 0) for rank in ranks] + [(rank, 1) for rank in reversed(ranks)]
        runs: list[list[Run]] = [[] for _ in ranks]
        start = 0
        for rank, half in order:
            length, offset = halves[rank][half], half * halves[rank][0]
            if length:
                runs[rank].append(Run(start, length, offset, range(length), offset, start))
            start += length
        return cls(tuple(map(tuple, runs)), start)

    def tokens(self, rank: int) -> int:
        """The number of tokens of a rank."""
        return sum(len(run.picked) for run in self.runs[rank])

    def each(self) -> Iterator[tuple[int, Run]]:
        """Every run with its rank."""
        return ((rank, run) for rank, runs in enumerate(self.runs) for run in runs)

    def select(self, chosen: range) -> Layout:
        """The layout of some tokens of the matrix, by index; they stay on their ranks."""
        selected: list[list[Run]] = [[] for _ in self.runs]
        for rank, run in self.each():
            inside = _inside(chosen, run.indices)
            if len(inside):
                picked = run.picked[inside[0] - run.index : inside[-1] - run.index + 1 : inside.step]
                here = sum(len(before.picked) for before in selected[rank])
                selected[rank].append(replace(run, picked=picked, here=here, index=chosen.index(inside[0])))
        return Layout(tuple(map(tuple, selected)), len(chosen))

    def pick(self, rank: int, chosen: range, tensor: Tensor, axis: int) -> Tensor:
        """A rank's share of the chosen tokens, from its share of all; a view if their distance is even."""
        pieces = []
        for run in self.runs[rank]:
            inside = _inside(chosen, run.indices)
            if len(inside):
                first, last = (run.here + i - run.index for i in (inside[0], inside[-1]))
                pieces.append(_slice(tensor, axis, slice(first, last + 1, inside.step)))
        if sum(piece.shape[axis] for piece in pieces) == tensor.shape[axis]:
            return tensor
        if not pieces:
            return _slice(tensor, axis, slice(0, 0))
        return pieces[0] if len(pieces) == 1 else torch.cat(pieces, axis)

    def put(self, rank: int, whole: Tensor, share: Tensor, axis: int) -> None:
        """Write a rank's share into the whole, each token at its index."""
        for run in self.runs[rank]:
            indices = slice(run.index, run.index + len(run.picked))
            _slice(whole, axis, indices).copy_(_slice(share, axis, run.local))


def even_lengths(size: int, ranks: int) -> list[int]:
    """The number of tokens for each rank, as equal as possible.

    >>> even_lengths(10, 4)
    [3, 3, 2, 2]
    """
    return [size // ranks + (rank < size % ranks) for rank in range(ranks)]


def cut(tensor: Tensor, layout: Layout, rank: int, axis: int) -> Tensor:
    """A rank's share of a whole tensor, as a new tensor."""
    pieces = [_slice(tensor, axis, slice(run.start, run.start + run.length)) for run in layout.runs[rank]]
    return torch.cat(pieces, axis) if pieces else _slice(tensor, axis, slice(0, 0)).clone()


def _slice(tensor: Tensor, axis: int, part: slice) -> Tensor:
    index = [slice(None)] * tensor.dim()
    index[axis] = part
    return tensor[tuple(index)]


def _inside(chosen: range, span: range) -> range:
    """The chosen numbers (ascending) that lie in a span of step 1."""
    if not len(chosen) or not len(span):
        return range(0)
    first = max(-((chosen.start - span.start) // chosen.step), 0)
    end = max(-((chosen.start - span.stop) // chosen.step), 0)
    return chosen[first:end]


# From a whole sequence to shares, and back


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
    return cut(tensor, Layout.of(even_lengths(tensor.shape[dim], ring.size), zigzag), ring.rank, dim)


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
    ring, described = Ring.of(mesh), type(tensor).__name__
    if isinstance(tensor, Tensor) and -tensor.dim() <= dim < tensor.dim():  # all ranks need the same shape but for it
        sizes = ["tokens" if axis == dim % tensor.dim() else str(n) for axis, n in enumerate(tensor.shape)]
        described = f"{str(tensor.dtype).removeprefix('torch.')}[{', '.join(sizes)}]"
    call = f"gather(dim={dim}, zigzag={zigzag}) of {described}"
    replies = ring.agree(call, lambda: {"tokens": tensor.shape[_axis(tensor, dim)]})
    lengths, dim = [reply["tokens"] for reply in replies], _axis(tensor, dim)
    layout = Layout.of(lengths, zigzag)
    whole = tensor.new_empty([layout.size if axis == dim else n for axis, n in enumerate(tensor.shape)])
    for owner, share in enumerate(ring.collect(Moving(tensor, dim, lengths), "gather")):
        layout.put(owner, whole, share, dim)
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
        shape = torch.Size((*self.leading, tokens, *share.shape[axis + 1 :]))
        strides = [1]
        for size in reversed(shape[1:]):
            strides.insert(0, strides[0] * size)
        options: Any = {"run_check": False, "shape": shape, "stride": tuple(strides)}
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
