"""Ways to look at a matrix: its transpose, its stages, its parts (all as lazy as itself) and `A[…]`.

Inside, tensors are (batch, heads, …); `Axes` has the leading axes as the user has them.
"""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, Protocol, TypeVar, runtime_checkable

import torch
from torch import Tensor

from regard.errors import DTypeError, InputError, OutOfRangeError, ShapeError
from regard.scores import Scores, check_floats, pick
from regard.support import WHOLE, Float, check_stored

__all__ = [
    "Axes", "Matrix", "Parts", "Picked", "Stage", "Transposed", "basic", "coordinates", "fold_operand", "fold_value",
    "picked",
]  # fmt: skip


@dataclass(frozen=True)
class Axes:
    """The user's leading axes: (*batch, heads), or only *batch where the matrix has no axis of heads."""

    batch: tuple[int, ...]
    has_heads: bool

    def leading(self, heads: int) -> tuple[int, ...]:
        """The user's axes before (queries, keys)."""
        return (*self.batch, heads) if self.has_heads else self.batch

    def unfold(self, result: Tensor) -> Tensor:
        """(batch, heads, …) with the leading axes as the user has them."""
        if len(self.batch) == 1 and self.has_heads:
            return result
        return result.reshape(*self.leading(result.shape[1]), *result.shape[2:])


def fold_operand(
    axes: Axes, shape: tuple[int, int, int, int], x: Tensor, *, name: str = "value", key_heads: int | None = None
) -> Tensor:
    """What stands right of `@` as (batch, heads, tokens, width), for a matrix of folded shape.

    With `key_heads` it goes with the keys, and may have as many heads as they have; without, it goes with the queries.
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
        wanted = f"({', '.join(map(str, (*leading, count)))}, width)"
        hint = f" For a vector write {name}[:, None]." if x.dim() == 1 else ""
        raise ShapeError(
            f"{name} must broadcast to (*batch, heads, {tokens}, width) = {wanted}{or_heads}, for a matrix of shape "
            f"{(*axes.leading(heads), queries, keys)}. Got {tuple(x.shape)}.{hint}"
        )
    return spread.reshape(batch, leading[-1] if axes.has_heads else 1, *x.shape[-2:])


def fold_value(axes: Axes, scores: Scores, value: Tensor, before: frozenset[int]) -> Tensor:
    """A value as (batch, heads, keys, width), with the heads of the keys or of the queries.

    `before`: the numbers of key heads of matrices that these are a part of.
    """
    check_floats(query=scores.query, value=value)
    heads = scores.shape[1]
    if axes.has_heads and value.dim() > 2 and value.shape[-3] == heads and heads in before:
        raise ShapeError(
            f"value has {heads} heads: those of the keys of the matrix that this is a part of, or one for each "
            "head of this part? Take them one by one: A.part[…, h, :, :] @ value[…, h, :, :]."
        )
    return fold_operand(axes, scores.shape, value, key_heads=scores.key.shape[1])


class Picked(NamedTuple):
    """What an index picks of a folded matrix, and the user's axes that are left."""

    batch: list[int]
    heads: list[int]
    rows: range | Tensor
    columns: range | Tensor
    axes: Axes
    key_heads_before: frozenset[int]  # of the whole, where values with as many heads could be meant for either


def picked(axes: list[int | range | Tensor], own: Axes, scores: Scores, before: frozenset[int]) -> Picked:
    """The part that an index picks; an int drops its axis, but one of rows or columns keeps it with size 1."""
    *leading, rows, columns = (
        range(a, a + 1) if n >= len(axes) - 2 and isinstance(a, int) else a for n, a in enumerate(axes)
    )
    assert not isinstance(rows, int)
    assert not isinstance(columns, int)
    heads: int | range | Tensor = leading.pop() if own.has_heads else range(scores.shape[1])
    batch = torch.arange(scores.shape[0], device="cpu").view(own.batch)
    for axis, chosen in reversed(list(enumerate(leading))):
        batch = batch.select(axis, chosen) if isinstance(chosen, int) else pick(batch, axis, chosen)
    head_list = [heads] if isinstance(heads, int) else [int(h) for h in heads]
    key_heads = scores.key.shape[1]
    reads_all = [head // scores.group for head in head_list] == list(range(key_heads))
    if not reads_all and len(head_list) != scores.shape[1]:
        before |= {key_heads}
    left = Axes(tuple(batch.shape), own.has_heads and not isinstance(heads, int))
    return Picked(batch.flatten().tolist(), head_list, rows, columns, left, before)


@runtime_checkable
class Matrix(Protocol):
    """What a view asks of its matrix, whether it lies on one device or in shards."""

    @property
    def shape(self) -> torch.Size:
        """(*batch, heads, queries, keys)."""

    @property
    def dtype(self) -> torch.dtype:
        """The query's."""

    @property
    def device(self) -> torch.device:
        """Where it is computed."""

    def to_dense(self) -> Tensor:
        """All of it as a tensor."""


M = TypeVar("M", bound=Matrix)


class Transposed(Generic[M]):
    """`A.mT`: one row per key. `A.mT @ x` streams as `A @ v` does; `A.mT.mT is A`."""

    def __init__(self, matrix: M, multiply: Callable[[Tensor], Tensor]):
        self._matrix, self._multiply = matrix, multiply

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
        """Where it is computed."""
        return self._matrix.device

    def __repr__(self) -> str:
        return f"{self._matrix!r}.mT"

    def __matmul__(self, x: Float[Tensor, "*any queries width"]) -> Float[Tensor, "*any_too keys width"]:
        return self._multiply(x)

    def to_dense(self) -> Tensor:
        """All of it as a tensor, if it fits in memory."""
        return self._matrix.to_dense().mT


class Stage:
    """One stage before the softmax, computed where it is indexed: `A.scores[..., 3, :]`."""

    def __init__(self, matrix: Matrix, name: str, read: Callable[[Any], Tensor]):
        self._matrix, self._name, self._read = matrix, name, read

    def __getitem__(self, index: Any) -> Tensor:
        return self._read(index)

    def __repr__(self) -> str:
        return f"{self._matrix!r}.{self._name}"


class Parts(Generic[M]):
    """`A.part`: `A.part[…]` gives lazy parts of A."""

    def __init__(self, matrix: M, select: Callable[[list[int | range | Tensor]], M]):
        self._matrix, self._select = matrix, select

    def __getitem__(self, index: Any) -> M:
        axes = basic(index, tuple(self._matrix.shape))
        if axes is None or any(isinstance(axis, Tensor) for axis in axes):
            raise InputError(
                "A.part takes ints, slices and ... only. For index tensors use A[…], which gives a tensor."
            )
        if any(isinstance(axis, int) for axis in axes[-2:]):
            raise InputError("a part is still a matrix: for one row or column write i:i+1, or use A[…] for a tensor.")
        return self._select(axes)


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
    """Whether it is a 0-d bool tensor, which adds an axis as None does."""
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
    """Where each number of `dense[index]` lies, one index tensor for each axis, by torch's own rules."""
    grids = []
    for axis, size in enumerate(shape):
        line = torch.arange(size, device=device).view([-1 if a == axis else 1 for a in range(len(shape))])
        try:
            grids.append(line.expand(shape)[index])
        except (IndexError, TypeError, ValueError, RuntimeError, OverflowError) as error:
            raise OutOfRangeError(f"this index does not fit a matrix of shape {shape}: {error}") from None
    return grids
