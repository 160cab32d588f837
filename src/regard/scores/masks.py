"""Masks are values: small, composable descriptions of which query may see which key.

A mask never holds queries × keys numbers unless the user passes such a tensor. `BoundMask` (bound_mask.py) is a mask
applied to one matrix.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.errors import DTypeError, InputError
from regard.support import FLOATS, WHOLE, check_dense, check_stored, number, whole

FAR = 2**60  # further than any key; sums of a few such distances fit in int64
_EVERYWHERE = range(FAR)
HIDING = -1e29  # a bias this low hides a key as -inf does: many libraries write torch.finfo(dtype).min


@dataclass(frozen=True, eq=False)
class Band:
    """Key j is visible to query i where lowest <= j - i - offset <= highest."""

    lowest: int | None
    highest: int | None
    offset: int | Tensor

    def __repr__(self) -> str:
        offset = "" if isinstance(self.offset, int) and self.offset == 0 else f"offset={_brief(self.offset)}"
        if self.lowest is None and self.highest == 0:
            return f"causal({offset})"
        left = None if self.lowest is None else -self.lowest
        return f"window({', '.join(filter(None, [str(left), str(self.highest), offset]))})"


@dataclass(frozen=True, eq=False)
class Keep:
    """Key j is visible where `keys` is True, or below a length per sequence."""

    keys: Tensor

    def __repr__(self) -> str:
        return f"padding({_brief(self.keys)})"


@dataclass(frozen=True, eq=False)
class Same:
    """Key j is visible to query i where both have the same document id."""

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


@dataclass(frozen=True, eq=False)
class Cut:
    """A bias on the scores of some queries with some keys: -inf hides these keys from these queries."""

    queries: range | Tensor  # positions, or bools (*batch, queries)
    keys: range | Tensor
    heads: tuple[int, ...] | Tensor | None  # numbers, or bools (*batch, heads); None: all
    band: Band | None  # only where this band lets a query see a key
    bias: float

    @property
    def hides(self) -> bool:
        """Whether it hides, rather than only weakens or strengthens."""
        return self.bias == -math.inf

    def __repr__(self) -> str:
        arguments = [_brief(self.queries), _brief(self.keys)]
        arguments += [] if self.band is None else [f"within={self.band!r}"]
        arguments += [] if self.heads is None else [f"heads={_brief(self.heads)}"]
        return f"cut({', '.join(arguments if self.hides else [*arguments, f'bias={self.bias:g}'])})"


Atom = Band | Keep | Same | Dense | Cut


def _brief(value: int | range | tuple[int, ...] | Tensor) -> str:
    """A short text of an argument, as the user could write it; of a large tensor its dtype and shape."""
    if isinstance(value, range):
        last = "None" if value.stop >= FAR else str(value.stop)
        text = str(value.start) if len(value) == 1 else f"slice({value.start}, {last})"
        return "None" if value == _EVERYWHERE else text
    if not isinstance(value, Tensor):
        return str(list(value) if isinstance(value, tuple) else value)
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
        """Every tensor that the mask reads."""
        return tuple([value for atom in self.atoms for value in vars(atom).values() if isinstance(value, Tensor)])


_NO_MASK = Mask()


def as_mask(mask: Mask | Tensor | None) -> Mask:
    """An argument `mask=` as a Mask: a bool tensor hides, a float tensor is added."""
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


def _tensor(value: Any, expected: str) -> Tensor:
    """A tensor unchanged, since later changes to it are noticed; other values as a new tensor."""
    if isinstance(value, Tensor):
        check_dense("the tensor of a mask", value)
        return value
    try:
        return torch.tensor(value)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        raise DTypeError(f"{expected}. Got {type(value).__name__}.") from None


def _offset(offset: int | Tensor | Sequence[int]) -> int | Tensor:
    if not hasattr(offset, "__len__"):
        return _distance("offset", offset)
    expected = "offset must be an int or whole numbers per batch"
    per_batch = _tensor(offset, expected)
    if per_batch.dtype not in WHOLE:
        raise DTypeError(f"{expected}. Got {per_batch.dtype}.")
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
    expected = "padding takes lengths (whole numbers) or a bool tensor, True = a real token"
    kept = _tensor(keys, expected)
    if kept.dtype != torch.bool and kept.dtype not in WHOLE:
        hint = "For a float mask that is added to the scores use regard.bias."
        raise DTypeError(f"{expected}. Got {kept.dtype}. {hint}")
    return Mask((Keep(kept),))


def documents(ids: Tensor | Sequence[int], key_ids: Tensor | Sequence[int] | None = None) -> Mask:
    """Packed documents: a query sees the keys with the same id. `ids` is (*batch, tokens).

        documents([7, 7, 9])
        1 1 0
        1 1 0
        0 0 1

    >>> import torch, regard
    >>> regard.documents(torch.tensor([7, 7, 9])) & regard.causal()
    documents([7, 7, 9]) & causal()
    """
    expected = "documents takes one whole number per token, shape (*batch, tokens)"
    queries = _tensor(ids, expected)
    keys = queries if key_ids is None else _tensor(key_ids, expected)
    for tensor in (queries, keys):
        if tensor.dtype not in WHOLE or tensor.dim() == 0:
            raise DTypeError(f"{expected}. Got {tensor.dtype} of shape {tuple(tensor.shape)}.")
    return Mask((Same(queries, keys),))


def bias(tensor: Tensor) -> Mask:
    """Numbers added to the scaled scores, broadcast to (*batch, heads, queries, keys).

    -inf hides, and so do the numbers that other libraries use instead: -1e29 and below, or the minimum of the dtype.

    >>> import torch, regard
    >>> regard.bias(torch.zeros(8, 1, 5))
    bias(float32[8, 1, 5])
    """
    if not isinstance(tensor, Tensor) or tensor.dtype not in FLOATS:
        got = tensor.dtype if isinstance(tensor, Tensor) else type(tensor).__name__
        raise DTypeError(f"bias takes a float tensor. Got {got}. Pass a bool mask as mask=… itself, True = attend.")
    check_dense("bias", tensor)
    return Mask((Dense(tensor),))


Tokens = int | slice | range | Tensor | None


def cut(
    queries: Tokens = None,
    keys: Tokens = None,
    *,
    within: Mask | None = None,
    heads: Collection[int] | Tensor | None = None,
    bias: float = -math.inf,
) -> Mask:
    """Hides some keys from some queries; with a finite `bias` it weakens (below 0) or strengthens their scores.

    Queries and keys: a number, a slice or a range, counted from 0; a bool tensor (*batch, tokens); or None for all.
    `within`: only where this window would let a query see a key. `heads`: numbers, or a bool tensor (*batch, heads).

        cut(slice(2, 4), slice(0, 2))    cut(within=window(1, -1))
        1 1 1 1                          1 1 1 1
        1 1 1 1                          0 1 1 1
        0 0 1 1                          1 0 1 1
        0 0 1 1                          1 1 0 1

    >>> import regard
    >>> regard.causal() & regard.cut(slice(900, None), slice(0, 100), heads=[3])
    causal() & cut(slice(900, None), slice(0, 100), heads=[3])
    """
    band: Band | None = None
    if within is not None:
        atoms: tuple[Atom, ...] = within.atoms if isinstance(within, Mask) else ()
        if len(atoms) != 1 or not isinstance(atoms[0], Band) or not isinstance(atoms[0].offset, int):
            got = within if isinstance(within, Mask) else type(within).__name__
            raise InputError(f"within must be one window or causal mask, with one offset for all. Got {got}.")
        band = atoms[0]
    if not (isinstance(bias, float) and bias == -math.inf):
        bias = number("bias (or -inf to hide)", bias)
        if bias > -HIDING:
            raise InputError(f"bias must be at most {-HIDING:.0e}. Got {bias}.")
    bias = -math.inf if bias <= HIDING else bias
    return Mask((Cut(_positions("queries", queries), _positions("keys", keys), _heads(heads), band, bias),))


def _heads(heads: Collection[int] | Tensor | None) -> tuple[int, ...] | Tensor | None:
    if heads is None:
        return None
    if isinstance(heads, Tensor) and heads.dtype == torch.bool:
        check_stored("heads", heads)
        return heads
    if isinstance(heads, str | Tensor) or not hasattr(heads, "__iter__"):
        got = heads.dtype if isinstance(heads, Tensor) else type(heads).__name__
        raise DTypeError(f"heads must be numbers, as in [3], or a bool tensor (*batch, heads). Got {got}.")
    numbers = tuple(sorted({whole("a head", head) for head in heads}))
    if numbers and numbers[0] < 0:
        raise InputError(f"heads are numbered from 0. Got {list(numbers)}.")
    return numbers


def _positions(name: str, tokens: Tokens) -> range | Tensor:
    if tokens is None:
        return _EVERYWHERE
    if isinstance(tokens, Tensor) and tokens.dim() > 0:
        if tokens.dtype != torch.bool:
            raise DTypeError(f"{name} must be a number, a slice, a range or a bool tensor. Got {tokens.dtype}.")
        check_stored(name, tokens)
        return tokens
    if isinstance(tokens, slice | range):
        start, stop = tokens.start or 0, FAR if tokens.stop is None else tokens.stop
        start, stop, step = (whole(name, n) for n in (start, stop, 1 if tokens.step is None else tokens.step))
        if start < 0 or stop < 0 or step != 1:
            raise InputError(f"{name} are counted from 0, in steps of 1. Got {tokens}.")
        return range(min(start, FAR), max(min(stop, FAR), min(start, FAR)))
    start = whole(name, tokens)
    if start < 0:
        raise InputError(f"{name} are counted from 0. Got {start}.")
    return range(min(start, FAR), min(start, FAR) + 1)
