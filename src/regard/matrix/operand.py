"""What stands right of `@`, laid onto a matrix."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from torch import Tensor

from regard.errors import ShapeError

if TYPE_CHECKING:
    from regard.matrix.attention_matrix import AttentionMatrix

__all__ = ["operand"]


def operand(matrix: AttentionMatrix, x: Tensor, name: str, tokens: str, count: int, few: int | None = None) -> Tensor:
    """x as (batch, heads, tokens, width); it has the matrix's heads, or `few`, those of its keys."""
    batch, heads = matrix._scores.shape[:2]
    if matrix._heads and few and x.dim() > 2 and x.shape[-3] == heads and heads in matrix._other_heads:
        raise ShapeError(
            f"{name} has {heads} heads: those of the keys of the matrix that this is a part of, or one for each head "
            f"of this part? Take them one by one: A.part[…, h, :, :] @ {name}[…, h, :, :]."
        )
    if matrix._heads and len(matrix._batch) == 1 and x.dim() == 4 and x.shape[:3] == (batch, few or heads, count):
        return x
    lead = (*matrix._batch, few or heads) if matrix._heads else matrix._batch
    if matrix._heads and x.dim() > 2 and x.shape[-3] == heads:
        lead = (*matrix._batch, heads)
    spread = None
    if 2 <= x.dim() <= len(lead) + 2 and x.shape[-2] == count:
        with contextlib.suppress(RuntimeError):
            spread = x.expand(*lead, *x.shape[-2:])
    if spread is None:
        few_or = "" if few in (None, heads) else f" (or {heads} heads)"
        want = f"({', '.join(map(str, (*lead, count)))}, width)"
        hint = f" For a vector write {name}[:, None]." if x.dim() == 1 else ""
        raise ShapeError(
            f"{name} must broadcast to (*batch, heads, {tokens}, width) = {want}{few_or}, for a matrix of shape "
            f"{tuple(matrix.shape)}. Got {tuple(x.shape)}.{hint}"
        )
    return spread.reshape(batch, lead[-1] if matrix._heads else 1, *x.shape[-2:])
