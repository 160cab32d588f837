"""`Axes`: the user's leading axes. Inside, tensors are (batch, heads, …): all batch axes are folded into one."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

from torch import Tensor

from regard.errors import ShapeError

__all__ = ["Axes", "fold_operand"]


@dataclass(frozen=True)
class Axes:
    """(*batch, heads), or only *batch where the matrix has no axis of heads."""

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
