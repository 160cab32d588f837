"""The user's axes and indices, converted to (batch, heads, queries, keys), the only form that is computed."""

from __future__ import annotations

import contextlib
import operator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.errors import DTypeError, OutOfRangeError, ShapeError
from regard.scores import Positions, Scores, check_floats, pick
from regard.support import WHOLE, check_stored

Index = list[int | range | Tensor]  # an int, a range or a vector of whole numbers for each of the user's axes


@dataclass(frozen=True)
class Axes:
    """The user's leading axes: (*batch, heads), or only *batch where the matrix has no axis of heads."""

    batch: tuple[int, ...]
    has_heads: bool

    def leading(self, heads: int) -> tuple[int, ...]:
        """The user's axes before (queries, keys)."""
        return (*self.batch, heads) if self.has_heads else self.batch

    def unfold(self, result: Tensor) -> Tensor:
        """A tensor (batch, heads, …) in the user's leading axes."""
        if len(self.batch) == 1 and self.has_heads:
            return result
        return result.reshape(*self.leading(result.shape[1]), *result.shape[2:])


def fold_operand(
    axes: Axes, shape: tuple[int, int, int, int], x: Tensor, *, name: str = "value", key_heads: int | None = None
) -> Tensor:
    """The operand right of `@` as (batch, heads, tokens, width).

    Args:
        axes: the axes of the matrix.
        shape: its (batch, heads, queries, keys).
        x: the operand: one row per key if `key_heads` is set, else one row per query.
        name: its name in an error.
        key_heads: the heads of the keys, which the operand may have in place of those of the queries.
    """
    batch, heads, queries, keys = shape
    tokens, count, few = ("queries", queries, heads) if key_heads is None else ("keys", keys, key_heads)
    if axes.has_heads and len(axes.batch) == 1 and x.dim() == 4 and x.shape[:3] == (batch, few, count):
        return x
    per_query_head = axes.has_heads and x.dim() > 2 and x.shape[-3] == heads
    leading = axes.leading(heads if per_query_head else few)
    spread = None
    if 2 <= x.dim() <= len(leading) + 2 and x.shape[-2] == count:
        with contextlib.suppress(RuntimeError):
            spread = x.expand(*leading, *x.shape[-2:])
    if spread is None:
        or_heads = "" if few == heads else f" (or {heads} heads)"
        expected = f"({', '.join(map(str, (*leading, count)))}, width)"
        hint = f" For a vector write {name}[:, None]." if x.dim() == 1 else ""
        raise ShapeError(
            f"{name} must broadcast to (*batch, heads, {tokens}, width) = {expected}{or_heads}, for a matrix of shape "
            f"{(*axes.leading(heads), queries, keys)}. Got {tuple(x.shape)}.{hint}"
        )
    return spread.reshape(batch, leading[-1] if axes.has_heads else 1, *x.shape[-2:])


def fold_value(axes: Axes, scores: Scores, value: Tensor, before: frozenset[int]) -> Tensor:
    """A value as (batch, heads, keys, width), with the heads of the keys or of the queries.

    `before`: the numbers of key heads of the matrices that this matrix is a part of.
    """
    check_floats(query=scores.query, value=value)
    heads = scores.shape[1]
    if axes.has_heads and value.dim() > 2 and value.shape[-3] == heads and heads in before:
        raise ShapeError(
            f"value has {heads} heads: those of the keys of the matrix that this is a part of, or one for each "
            "head of this part? Take them one by one: A.part[…, h, :, :] @ value[…, h, :, :]."
        )
    return fold_operand(axes, scores.shape, value, key_heads=scores.key.shape[1])


def picked(
    index: Index, axes: Axes, scores: Scores, before: frozenset[int]
) -> tuple[list[int], list[int], Positions, Positions, Axes, frozenset[int]]:
    """The batches, heads, rows and columns that a basic index picks, the user's axes that remain, and `before`.

    An int drops its axis, but one of rows or columns keeps it with size 1. `before` as in `fold_value`.
    """
    *leading, rows, columns = (
        range(a, a + 1) if n >= len(index) - 2 and isinstance(a, int) else a for n, a in enumerate(index)
    )
    assert not isinstance(rows, int)
    assert not isinstance(columns, int)
    heads: int | range | Tensor = leading.pop() if axes.has_heads else range(scores.shape[1])
    batch = torch.arange(scores.shape[0], device="cpu").view(axes.batch)
    for axis, chosen in reversed(list(enumerate(leading))):
        batch = batch.select(axis, chosen) if isinstance(chosen, int) else pick(batch, axis, chosen)
    head_list = [heads] if isinstance(heads, int) else [int(h) for h in heads]
    key_heads = scores.key.shape[1]
    reads_all = [head // scores.group for head in head_list] == list(range(key_heads))
    if not reads_all and len(head_list) != scores.shape[1]:
        before |= {key_heads}
    left = Axes(tuple(batch.shape), axes.has_heads and not isinstance(heads, int))
    return batch.flatten().tolist(), head_list, rows, columns, left, before


def basic(index: Any, shape: tuple[int, ...]) -> Index | None:
    """For each axis an int or a range, or one index vector among them; None where torch's general rules are needed."""
    items = list(index) if isinstance(index, tuple) else [index]
    if any(item is None or isinstance(item, bool) or _adds_axis(item) for item in items):
        return None
    count = sum(item is not Ellipsis for item in items)
    if count > len(shape):
        raise OutOfRangeError(f"too many indices: the matrix has {len(shape)} axes, shape {shape}. Got {count}.")
    if sum(item is Ellipsis for item in items) > 1:
        raise OutOfRangeError("an index can hold one ellipsis (...) at most.")
    spot = next((n for n, item in enumerate(items) if item is Ellipsis), len(items))
    items[spot : spot + 1] = [slice(None)] * (len(shape) - count)
    axes: Index = []
    for axis, (item, size) in enumerate(zip(items, shape, strict=True)):
        if isinstance(item, slice):
            axes.append(_range(item, size))
            continue
        try:
            number = operator.index(item) if not getattr(item, "shape", ()) else None  # tensor([3]) is a vector
        except (TypeError, ValueError, RuntimeError):
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
    """Whether an item is a 0-d bool tensor, which adds an axis as None does."""
    return isinstance(item, Tensor) and item.dim() == 0 and item.dtype in (torch.bool, torch.uint8)


def _range(item: slice, size: int) -> range:
    try:
        whole = range(*item.indices(size))
    except (TypeError, ValueError, RuntimeError) as error:
        raise DTypeError(f"a slice takes whole numbers and a step above 0. Got {item}: {error}.") from None
    if whole.step < 0:
        raise OutOfRangeError(f"a slice's step must be above 0, as in torch. Got {item}. Use .flip(-1) on the result.")
    return range(whole.start, max(whole.start, whole.stop), min(whole.step, max(size, 1)))


def _vector(item: Any, size: int) -> Tensor | None:
    if isinstance(item, Tensor):
        check_stored("an index", item)
    try:
        vector = torch.as_tensor(item)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        raise DTypeError(
            f"an index is an int, a slice, ... or whole numbers (list, array or tensor). Got {type(item).__name__}."
        ) from None
    if isinstance(item, list) and not vector.numel():
        vector = vector.long()
    if vector.dtype != torch.bool and vector.dtype not in WHOLE:
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
    """The position of each number of `dense[index]`, one index tensor for each axis, by torch's own rules."""
    grids = []
    for axis, size in enumerate(shape):
        line = torch.arange(size, device=device).view([-1 if a == axis else 1 for a in range(len(shape))])
        try:
            grids.append(line.expand(shape)[index])
        except (IndexError, TypeError, ValueError, RuntimeError, OverflowError) as error:
            raise OutOfRangeError(f"this index does not fit a matrix of shape {shape}: {error}") from None
    return grids
