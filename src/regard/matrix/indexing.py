"""Indices of `A[...]`, read as torch reads those of `tensor[...]`, but without a tensor."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import Tensor

from regard.errors import DTypeError, OutOfRangeError

__all__ = ["basic", "coordinates"]


def basic(index: Any, shape: tuple[int, ...]) -> list[int | range | Tensor] | None:
    """For each axis an int or a range, or one index vector among them; None where torch's general rules are needed."""
    items = list(index) if isinstance(index, tuple) else [index]
    if any(item is None or isinstance(item, bool) or _adds_axis(item) for item in items):
        return None
    given = sum(item is not Ellipsis for item in items)
    if given > len(shape):
        raise OutOfRangeError(f"too many indices: the matrix has {len(shape)} axes, shape {shape}. Got {given}.")
    if sum(item is Ellipsis for item in items) > 1:
        raise OutOfRangeError("an index can hold one ellipsis (...) at most.")
    spot = next((n for n, item in enumerate(items) if item is Ellipsis), len(items))
    items[spot : spot + 1] = [slice(None)] * (len(shape) - given)
    axes: list[int | range | Tensor] = []
    for axis, (item, size) in enumerate(zip(items, shape, strict=True)):
        if isinstance(item, slice):
            axes.append(_range(item, size))
            continue
        try:
            number = operator.index(item) if not getattr(item, "shape", ()) else None  # tensor([3]) is a vector
        except TypeError:
            number = None
        if number is None:
            vector = _vector(item, size)
            if vector is None or any(isinstance(other, Tensor) for other in axes):
                return None
            axes.append(vector)
            continue
        if not -size <= number < size:
            raise OutOfRangeError(f"index {number} is outside axis {axis} of size {size}; the matrix is {shape}.")
        axes.append(number % size)
    return axes  # ints beside an index vector: as in torch (and unlike NumPy) the vector's axis stays where it is


def _adds_axis(item: Any) -> bool:
    """Whether it is a 0-d bool tensor, which adds an axis as None does."""
    return isinstance(item, Tensor) and item.dim() == 0 and item.dtype in (torch.bool, torch.uint8)


def _range(item: slice, size: int) -> range:
    try:
        whole = range(*item.indices(size))
    except (TypeError, ValueError) as error:
        raise DTypeError(f"a slice takes whole numbers and a step above 0. Got {item}: {error}.") from None
    if whole.step < 0:
        raise OutOfRangeError(f"a slice's step must be above 0, as in torch. Got {item}. Use .flip(-1) on the result.")
    return range(whole.start, max(whole.start, whole.stop), whole.step)


def _vector(item: Any, size: int) -> Tensor | None:
    try:
        vector = torch.as_tensor(item)
    except (TypeError, ValueError, RuntimeError):
        raise DTypeError(
            f"an index is an int, a slice, ... or whole numbers (list, array or tensor). Got {type(item).__name__}."
        ) from None
    if isinstance(item, list) and not vector.numel():
        vector = vector.long()
    if vector.is_floating_point() or vector.is_complex():
        raise DTypeError(f"an index holds whole numbers or bools. Got {vector.dtype}.")
    if vector.dtype == torch.bool and vector.shape == (size,):
        return vector.nonzero()[:, 0]
    if vector.dtype in (torch.bool, torch.uint8) or vector.dim() != 1:  # uint8: torch reads bools in it
        return None
    if vector.numel() and not (-size <= int(vector.min()) and int(vector.max()) < size):
        raise OutOfRangeError(
            f"an index tensor points outside its axis of size {size}: {int(vector.min())}…{int(vector.max())}."
        )
    return torch.where(vector < 0, vector + size, vector).long()


def coordinates(index: Any, shape: tuple[int, ...], device: torch.device) -> list[Tensor]:
    """Where each number of `dense[index]` lies, one index tensor for each axis, by torch's own rules."""
    grids = []
    for axis, size in enumerate(shape):
        line = torch.arange(size, device=device).view([-1 if a == axis else 1 for a in range(len(shape))])
        try:
            grids.append(line.expand(shape)[index])
        except (IndexError, TypeError, RuntimeError) as error:
            raise OutOfRangeError(f"this index does not fit a matrix of shape {shape}: {error}") from None
    return grids
