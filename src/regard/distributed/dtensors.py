"""Queries, keys and values that are DTensors: their placements say which ranks share the sequence."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.errors import InputError

__all__ = ["Placed", "is_dtensor", "placed"]


def is_dtensor(tensor: Any) -> bool:
    """Whether it is a DTensor; where torch's module of them was never imported, there are none."""
    module = sys.modules.get("torch.distributed.tensor")
    return module is not None and isinstance(tensor, module.DTensor)


@dataclass(frozen=True)
class Placed:
    """Where a DTensor (*batch, heads, tokens, width) lies: its tokens along one dimension of the mesh."""

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
        made: Tensor = DTensor.from_local(  # type: ignore[no-untyped-call]
            share, self.mesh, self.placements, run_check=False, shape=shape, stride=tuple(strides)
        )
        return made

    def same(self, share: Tensor) -> Tensor:
        """A picture (*batch, heads, …), the same on all ranks that share the sequence."""
        from torch.distributed.tensor import DTensor, Replicate

        placements = [Replicate() if n == self.dimension else each for n, each in enumerate(self.placements)]
        made: Tensor = DTensor.from_local(  # type: ignore[no-untyped-call]
            share, self.mesh, placements, run_check=False
        )
        return made


def placed(name: str, tensor: Any) -> Placed:
    """Check the placements of a DTensor: its tokens on several ranks; batches and heads may be too, each by itself."""
    axis = tensor.dim() - 2
    dimensions = [n for n, each in enumerate(tensor.placements) if each.is_shard(axis)]
    fits = all(each.is_replicate() or (each.is_shard() and each.dim <= axis) for each in tensor.placements)
    if len(dimensions) != 1 or not fits:
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
