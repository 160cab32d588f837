"""What every picture asks of its arguments, and says when it does not get it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.errors import DTypeError, InputError, OutOfRangeError, ShapeError

__all__ = ["as_heads", "as_numbers", "as_words", "chosen", "isolated", "places"]


def as_numbers(name: str, values: Any, axes: Sequence[str]) -> NDArray[np.floating]:
    """Numbers to draw, with these axes.

    >>> as_numbers("weights", [[1, 0]], ("rows", "columns")).shape
    (1, 2)
    """
    array = np.asarray(values)
    if array.dtype.kind not in "fiub":
        raise DTypeError(f"{name} must hold numbers. Got {array.dtype}. Convert it to float64.")
    array = array if array.dtype.kind == "f" and array.dtype.itemsize > 2 else array.astype(np.float64)
    if array.ndim != len(axes):
        raise ShapeError(f"{name} must be ({', '.join(axes)}): {len(axes)} axes. Got {array.shape}: {array.ndim}.")
    if 0 in array.shape:
        raise ShapeError(f"{name} must be ({', '.join(axes)}), each at least 1. Got {array.shape}: nothing to draw.")
    return array


def as_heads(weights: Any) -> NDArray[np.floating]:
    """Weights of one head or of several, as those of several.

    >>> as_heads(np.eye(3)).shape
    (1, 3, 3)
    """
    array = np.asarray(weights)
    return as_numbers("weights", array[None] if array.ndim == 2 else array, ("heads", "rows", "columns"))


def as_words(name: str, words: Iterable[str] | None, count: int, axis: str) -> tuple[str, ...]:
    """A word for each place of an axis; without words, the places' numbers.

    >>> as_words("rows", None, 3, "weights' rows")
    ('1', '2', '3')
    """
    if words is None:
        return tuple(str(n) for n in range(1, count + 1))
    if isinstance(words, str):
        raise DTypeError(f"{name} must be a sequence of strings. Got the string {words!r}. Use .split().")
    known = tuple(words)
    for word in known:
        if not isinstance(word, str):
            raise DTypeError(f"{name} must be strings. Got {word!r} of type {type(word).__name__}. Use map(str, …).")
    if len(known) != count:
        raise ShapeError(f"{name} must name the {axis}: {count}. Got {len(known)}.")
    return known


def places(name: str, pick: int | str | Sequence[int | str] | None, words: Sequence[str]) -> tuple[int, ...]:
    """Where the picked words stand: a place, a word that occurs once, or several of these.

    >>> places("pick", "it", ["because", "it", "was"]), places("pick", [-1], ["it"]), places("pick", None, ["it"])
    ((1,), (0,), ())
    """
    if pick is None:
        return ()
    if not isinstance(pick, int | str):
        return tuple(place for one in pick for place in places(name, one, words))
    if isinstance(pick, int):
        if not -len(words) <= pick < len(words):
            raise OutOfRangeError(f"{name} must be a place below {len(words)}, or a word. Got {pick}.")
        return (pick % len(words),)
    found = [place for place, word in enumerate(words) if word.strip() == pick.strip()]
    if len(found) != 1:
        where = f"It stands at {', '.join(map(str, found))}: give one of these places." if found else "It is not there."
        raise InputError(f"{name} must be a word that occurs once, or a place. Got {pick!r}. {where}")
    return tuple(found)


def chosen(heads: Sequence[int] | None, count: int, most: int) -> tuple[int, ...]:
    """The heads to draw: those asked for, or all if they are few enough to be told apart.

    >>> chosen(None, 3, most=8), chosen([-1], 200, most=8)
    ((0, 1, 2), (199,))
    """
    if heads is None and count > most:
        raise InputError(
            f"heads must be chosen where there are more than {most}, or none could be told from another. "
            f"Got {count}. Use heads=[0, 1], or a grid, which shows all."
        )
    wanted = range(count) if heads is None else heads
    for head in wanted:
        if not isinstance(head, int | np.integer) or not -count <= head < count:
            raise OutOfRangeError(f"heads must be places below {count}. Got {head!r}.")
    return tuple(int(head) % count for head in wanted)


def isolated(word: str) -> str:
    """A word inside of a sentence that may be written the other way: its direction stays its own.

    >>> isolated("it")
    'it'
    >>> isolated("שלום") == "\u2068שלום\u2069"
    True
    """
    return word if word.isascii() else f"\u2068{word}\u2069"
