"""`shard` and `gather`: from a whole sequence to each rank's share of it, and back."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from regard.distributed.layout import Layout, cut, even_lengths
from regard.distributed.ring import Moving, Ring
from regard.errors import DTypeError, OutOfRangeError
from regard.support import check_stored, whole

__all__ = ["gather", "shard"]


def shard(tensor: Tensor, mesh: Any = None, *, dim: int = -2, zigzag: bool = True) -> Tensor:
    """This rank's share of a tensor that every rank has whole; `dim` is its axis of tokens.

    In zig-zag order (of 2 × ranks pieces this rank gets one from the front and its mirror image from the back) a causal
    mask gives every rank the same work; it is also the order of torch's context parallel. Whatever goes with the tokens
    is cut the same way: positions, labels, ids. Nothing is sent.

    >>> import torch, regard
    >>> regard.distributed.shard(torch.arange(8), dim=0)                    # alone: all of it
    tensor([0, 1, 2, 3, 4, 5, 6, 7])
    """
    ring, dim = Ring.of(mesh), _axis(tensor, dim)
    return cut(tensor, Layout.of(even_lengths(tensor.shape[dim], ring.size), zigzag), ring.rank, dim)


@torch.no_grad()
def gather(tensor: Tensor, mesh: Any = None, *, dim: int = -2, zigzag: bool = True) -> Tensor:
    """The whole of which each rank has a share, in the order of the sequence, on every rank; as data, without gradient.

    >>> import torch, regard
    >>> whole = torch.randn(2, 8, 10, 64)
    >>> regard.distributed.gather(regard.distributed.shard(whole)).equal(whole)
    True
    """
    ring, made = Ring.of(mesh), {"dim": dim}

    def prepare() -> dict[str, int]:
        made["dim"] = _axis(tensor, dim)
        return {"tokens": tensor.shape[made["dim"]]}

    said = ring.agree(f"gather(dim={dim}, zigzag={zigzag}) of {_rest(tensor, dim)}", prepare)
    lengths, dim = [each["tokens"] for each in said], made["dim"]
    layout = Layout.of(lengths, zigzag)
    found = tensor.new_empty([layout.size if axis == dim else n for axis, n in enumerate(tensor.shape)])
    for owner, share in enumerate(ring.collect(Moving(tensor, dim, lengths), "gather")):
        layout.put(owner, found, share, dim)
    return found


def _axis(tensor: Tensor, dim: int) -> int:
    if not isinstance(tensor, Tensor):
        raise DTypeError(f"a torch tensor is needed. Got {type(tensor).__name__}.")
    check_stored("the tensor", tensor)
    if not -tensor.dim() <= whole("dim", dim) < tensor.dim():
        raise OutOfRangeError(
            f"dim must be an axis of the tensor, which has {tensor.dim()}: shape {tuple(tensor.shape)}. Got {dim}. "
            "It is the axis of tokens: -2 of (…, tokens, width), -1 of (…, tokens)."
        )
    return dim % tensor.dim()


def _rest(tensor: Any, dim: int) -> str:
    """The shape without its tokens, which all ranks must share."""
    if not isinstance(tensor, Tensor) or not -tensor.dim() <= dim < tensor.dim():
        return type(tensor).__name__
    sizes = ["tokens" if axis == dim % tensor.dim() else str(n) for axis, n in enumerate(tensor.shape)]
    return f"{str(tensor.dtype).removeprefix('torch.')}[{', '.join(sizes)}]"
