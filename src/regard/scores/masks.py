"""Masks are values: small, composable descriptions of which query may see which key.

A mask never holds queries × keys numbers unless the user passes such a tensor. What it means for one matrix is said by
`BoundMask` in bound_mask.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.errors import DTypeError
from regard.support import FLOATS, WHOLE, check_dense, whole

__all__ = ["Mask", "bias", "causal", "documents", "padding", "window"]

FAR = 2**60  # further than any key, and sums of a few such distances fit in int64
HIDING = -1e29  # a bias this low hides a key as -inf does: many libraries write torch.finfo(dtype).min


@dataclass(frozen=True, eq=False)
class Band:
    """Key j is visible to query i where lowest <= j - i - offset <= highest."""

    lowest: int | None
    highest: int | None
    offset: int | Tensor

    def __repr__(self) -> str:
        at = "" if isinstance(self.offset, int) and self.offset == 0 else f"offset={_brief(self.offset)}"
        if self.lowest is None and self.highest == 0:
            return f"causal({at})"
        left = None if self.lowest is None else -self.lowest
        return f"window({', '.join(filter(None, [str(left), str(self.highest), at]))})"


@dataclass(frozen=True, eq=False)
class Keep:
    """Key j is visible where it is kept: a length per sequence, or True per key."""

    keys: Tensor

    def __repr__(self) -> str:
        return f"padding({_brief(self.keys)})"


@dataclass(frozen=True, eq=False)
class Same:
    """Key j is visible to query i where both carry the same document id."""

    queries: Tensor
    keys: Tensor

    def __repr__(self) -> str:
        return f"documents({_brief(self.queries)})"


@dataclass(frozen=True, eq=False)
class Dense:
    """A tensor over (queries, keys): bool, True = attend; or float, added to the scores."""

    tensor: Tensor

    def __repr__(self) -> str:
        return f"{'visible' if self.tensor.dtype == torch.bool else 'bias'}({_brief(self.tensor)})"


Atom = Band | Keep | Same | Dense


def _brief(value: int | Tensor) -> str:
    if isinstance(value, int):
        return str(value)
    if value.numel() <= 4 and not value.is_floating_point():
        return str(value.tolist())
    return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"


@dataclass(frozen=True, eq=False)
class Mask:
    """Which query may see which key; `a & b` lets through what both let through.

    >>> import regard
    >>> regard.causal() & regard.padding([3, 5])
    causal() & padding([3, 5])
    """

    atoms: tuple[Atom, ...] = ()

    def __and__(self, other: Mask | Tensor) -> Mask:
        return Mask(self.atoms + as_mask(other).atoms)

    __rand__ = __and__

    def __repr__(self) -> str:
        return " & ".join(map(repr, self.atoms)) or "None"

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """Every tensor the mask reads."""
        found = []
        for atom in self.atoms:
            found += [value for value in vars(atom).values() if isinstance(value, Tensor)]
        return tuple(found)


_NO_MASK = Mask()


def as_mask(mask: Mask | Tensor | None) -> Mask:
    """Whatever may be written as `mask=`, as a Mask: a bool tensor hides, a float tensor is added."""
    if mask is None:
        return _NO_MASK
    if isinstance(mask, Mask):
        return mask
    if isinstance(mask, Tensor) and (mask.dtype == torch.bool or mask.dtype in FLOATS):
        check_dense("mask", mask)
        return Mask((Dense(mask),))
    got = mask.dtype if isinstance(mask, Tensor) else type(mask).__name__
    raise DTypeError(
        "mask must be a regard mask, a bool tensor (True = attend) or a float tensor (added to the scores). "
        f"Got {got}. For a 0/1 mask write mask.bool()."
    )


def hides(bias: Tensor) -> Tensor:
    """Where a bias hides: at -inf, and at or below `HIDING` or the smallest number of its dtype."""
    return bias <= max(HIDING, torch.finfo(bias.dtype).min)


def _tensor(value: Any, wanted: str) -> Tensor:
    """A tensor as it is, since later changes to it are noticed; a copy of anything else, since they would not be."""
    if isinstance(value, Tensor):
        check_dense("the tensor of a mask", value)
        return value
    try:
        return torch.tensor(value)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        raise DTypeError(f"{wanted}. Got {type(value).__name__}.") from None


def _offset(offset: int | Tensor | Sequence[int]) -> int | Tensor:
    if not hasattr(offset, "__len__"):
        return _distance("offset", offset)
    per_batch = _tensor(offset, "offset must be an int or whole numbers per batch")
    if per_batch.dtype not in WHOLE:
        raise DTypeError(f"offset must be an int or whole numbers per batch. Got {per_batch.dtype}.")
    return per_batch


def _distance(name: str, value: Any) -> int:
    return max(-FAR, min(whole(name, value), FAR))


def causal(offset: int | Tensor | Sequence[int] = 0) -> Mask:
    """Query i sees keys up to i + offset; with fewer queries than keys, offset = keys - queries ends both together.

    The alignment is explicit: 3 queries, 5 keys,

        causal()      causal(2)
        1 0 0 0 0     1 1 1 0 0
        1 1 0 0 0     1 1 1 1 0
        1 1 1 0 0     1 1 1 1 1

    >>> import regard
    >>> regard.causal(2)
    causal(offset=2)
    """
    return Mask((Band(None, 0, _offset(offset)),))


def window(left: int | None, right: int | None = 0, offset: int | Tensor | Sequence[int] = 0) -> Mask:
    """Query i sees keys from i + offset - left to i + offset + right; None leaves that side open.

        window(1, 0)    window(0, 1)
        1 0 0 0         1 1 0 0
        1 1 0 0         0 1 1 0
        0 1 1 0         0 0 1 1
        0 0 1 1         0 0 0 1

    >>> import regard
    >>> regard.window(128, 0)
    window(128, 0)
    """
    lowest = None if left is None else -_distance("left (or None for no bound)", left)
    highest = None if right is None else _distance("right (or None for no bound)", right)
    return Mask((Band(lowest, highest, _offset(offset)),))


def padding(keys: Tensor | Sequence[int] | int) -> Mask:
    """Hides padded keys: a length for each sequence, or a bool tensor (*batch, keys), True = a real token.

    >>> import regard
    >>> regard.padding([3, 5])
    padding([3, 5])
    """
    kept = _tensor(keys, "padding takes lengths (whole numbers) or a bool tensor, True = a real token")
    if kept.dtype != torch.bool and kept.dtype not in WHOLE:
        raise DTypeError(
            "padding takes lengths (whole numbers) or a bool tensor, True = a real token. "
            f"Got {kept.dtype}. For a float mask that is added to the scores use regard.bias."
        )
    return Mask((Keep(kept),))


def documents(ids: Tensor | Sequence[int], key_ids: Tensor | Sequence[int] | None = None) -> Mask:
    """Packed documents: a query sees the keys that carry its own id. `ids` is (*batch, tokens).

        documents([7, 7, 9])
        1 1 0
        1 1 0
        0 0 1

    >>> import torch, regard
    >>> regard.documents(torch.tensor([7, 7, 9])) & regard.causal()
    documents([7, 7, 9]) & causal()
    """
    wanted = "documents takes one whole number per token, shape (*batch, tokens)"
    queries = _tensor(ids, wanted)
    keys = queries if key_ids is None else _tensor(key_ids, wanted)
    for tensor in (queries, keys):
        if tensor.dtype not in WHOLE or tensor.dim() == 0:
            raise DTypeError(f"{wanted}. Got {tensor.dtype} of shape {tuple(tensor.shape)}.")
    return Mask((Same(queries, keys),))


def bias(tensor: Tensor) -> Mask:
    """Numbers added to the scaled scores, broadcast to (*batch, heads, queries, keys).

    -inf hides, and so does what others write for it: -1e29 and below, or the least number of the dtype.

    >>> import torch, regard
    >>> regard.bias(torch.zeros(8, 1, 5))
    bias(float32[8, 1, 5])
    """
    if not isinstance(tensor, Tensor) or tensor.dtype not in FLOATS:
        got = tensor.dtype if isinstance(tensor, Tensor) else type(tensor).__name__
        raise DTypeError(f"bias takes a float tensor. Got {got}. Pass a bool mask as mask=… itself, True = attend.")
    check_dense("bias", tensor)
    return Mask((Dense(tensor),))
