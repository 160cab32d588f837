"""Numbers and words that the user hands in: given back as Python's own, or refused with what must hold."""

from __future__ import annotations

import math
import operator
from typing import Any

from torch import Tensor

from regard.errors import DTypeError, InputError

__all__ = ["number", "one_of", "whole"]


def whole(name: str, value: Any) -> int:
    """A whole number, NumPy's included."""
    try:
        if isinstance(value, bool):
            raise TypeError
        return operator.index(value)
    except TypeError:
        raise DTypeError(f"{name} must be a whole number. Got {value!r}.") from None


def number(name: str, value: Any) -> float:
    """A finite number. No tensor: it would silently get no gradient, and no compiled graph could hold it."""
    if isinstance(value, Tensor):
        raise DTypeError(f"{name} must be a number. Got a tensor. Use {name}.item().")
    try:
        found = float(value)
    except (TypeError, ValueError):
        raise DTypeError(f"{name} must be a number. Got {type(value).__name__}.") from None
    if not math.isfinite(found):
        raise InputError(f"{name} must be finite. Got {found}.")
    return found


def one_of(name: str, value: str, allowed: tuple[str, ...]) -> None:
    """One of a few words."""
    if value not in allowed:
        raise InputError(f"{name} must be one of {', '.join(map(repr, allowed))}. Got {value!r}.")
