"""Checks of the arguments of pictures: numbers, words, a selection, heads; and names for bins."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from regard.drawing.terminal import visible
from regard.errors import DTypeError, InputError, OutOfRangeError, ShapeError

F = TypeVar("F", bound=np.floating)
_LARGEST = 1e30  # also in float32, a sum of a few million of them does not overflow


def as_array(name: str, values: Any) -> NDArray[Any]:
    """Numbers of any kind as an array: nested lists, or a tensor of any dtype and device, without its gradient."""
    if hasattr(values, "detach"):  # a tensor; NumPy has no bfloat16
        values = values.detach().cpu()
        values = values.double() if values.is_floating_point() else values
    try:
        return np.asarray(values)
    except ValueError:
        raise ShapeError(f"{name} must have rows of one length. Got rows of several lengths.") from None


def as_numbers(name: str, values: Any, axes: Sequence[str]) -> NDArray[np.floating]:
    """Numbers to draw, checked to have these axes."""
    array = as_array(name, values)
    if array.dtype.kind not in "fiub":
        raise DTypeError(f"{name} must hold numbers. Got {array.dtype}. Convert it to float64.")
    array = array if array.dtype.kind == "f" and array.dtype.itemsize > 2 else array.astype(np.float64)
    if array.ndim != len(axes):
        raise ShapeError(f"{name} must be ({', '.join(axes)}): {len(axes)} axes. Got {array.shape}: {array.ndim}.")
    if 0 in array.shape:
        raise ShapeError(f"{name} must be ({', '.join(axes)}), each at least 1. Got {array.shape}: nothing to draw.")
    return array


def bounded(name: str, values: NDArray[F]) -> NDArray[F]:
    """Numbers that can be compared by their size: no inf, and none so large that sums or ratios overflow."""
    if (np.abs(np.nan_to_num(values, nan=0.0, posinf=np.inf, neginf=-np.inf)) > _LARGEST).any():
        raise InputError(f"{name} must lie between -{_LARGEST:g} and {_LARGEST:g}; nan is drawn as missing.")
    return values


def sized(name: str, values: NDArray[F]) -> NDArray[F]:
    """Numbers that can be drawn by their size: bounded, and at least 0.

    >>> sized("weights", np.array([0.5, -0.5]))
    Traceback (most recent call last):
    regard.errors.InputError: weights must be at least 0. Got -0.5. For numbers of both signs use drawing.tables.
    """
    if (bounded(name, values) < 0).any():
        least = float(np.nanmin(values))
        raise InputError(f"{name} must be at least 0. Got {least:g}. For numbers of both signs use drawing.tables.")
    return values


def as_weights(name: str, values: Any, axes: Sequence[str]) -> NDArray[np.floating]:
    """Numbers with these axes, to be drawn by their size."""
    return sized(name, as_numbers(name, values, axes))


def as_heads(weights: Any) -> NDArray[np.floating]:
    """Weights with a heads axis, added if there is none."""
    array = as_array("weights", weights)
    return as_numbers("weights", array[None] if array.ndim == 2 else array, ("heads", "rows", "columns"))


def as_words(name: str, words: Iterable[str] | None, count: int, axis: str) -> tuple[str, ...]:
    """A word for each index of an axis; without words, numbers from 1."""
    if words is None:
        return tuple(str(n) for n in range(1, count + 1))
    if isinstance(words, str):
        raise DTypeError(f"{name} must be a sequence of strings. Got the string {words!r}. Use .split().")
    try:
        names = tuple(words)
    except TypeError:
        raise DTypeError(
            f"{name} must be a sequence of strings. Got {words!r} of type {type(words).__name__}."
        ) from None
    for word in names:
        if not isinstance(word, str):
            raise DTypeError(f"{name} must be strings. Got {word!r} of type {type(word).__name__}. Use map(str, …).")
    if len(names) != count:
        raise ShapeError(f"{name} must name the {axis}: {count}. Got {len(names)}.")
    return names


def axis_words(
    rows: Iterable[str] | None, columns: Iterable[str] | None, shape: tuple[int, int]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Words for both axes of weights (rows, columns); for square weights, columns default to the rows' words."""
    height, width = shape
    row_words = as_words("rows", rows, height, "weights' rows")
    if columns is None and height == width:
        return row_words, row_words
    return row_words, as_words("columns", columns, width, "weights' columns")


def places(name: str, pick: int | str | Sequence[int | str] | None, words: Sequence[str]) -> tuple[int, ...]:
    """The indices of the picked words: an index, a word that occurs once, or a sequence of these.

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
    matches = [place for place, word in enumerate(words) if word.strip() == pick.strip()]
    if len(matches) != 1:
        at = ", ".join(map(str, matches))
        where = f"It stands at {at}: give one of these places." if matches else f"{pick!r} is not one of the words."
        raise InputError(f"{name} must be a word that occurs once, or a place. Got {pick!r}. {where}")
    return tuple(matches)


def chosen(heads: Sequence[int] | None, count: int, most: int) -> tuple[int, ...]:
    """The heads to draw: those requested, or all of them if there are at most `most`.

    >>> chosen(None, 3, most=8), chosen([-1], 200, most=8)
    ((0, 1, 2), (199,))
    """
    if heads is None and count > most:
        raise InputError(
            f"heads must be chosen where there are more than {most}, whose lines could not be told apart. Got {count}. "
            "Use heads=[0, 1], or a grid, which shows all."
        )
    chosen_heads = range(count) if heads is None else heads
    for head in chosen_heads:
        if not isinstance(head, int | np.integer) or not -count <= head < count:
            raise OutOfRangeError(f"heads must be places below {count}. Got {head!r}.")
    return tuple(int(head) % count for head in chosen_heads)


# Names for bins, where there are more numbers than can be drawn


def spans(words: Sequence[str], bins: int) -> list[str]:
    """Names for the bins: a word, or the first and the last word.

    >>> spans(("a", "dog", "ate", "it"), 2), spans(("a", "dog"), 2)
    (['a … dog', 'ate … it'], ['a', 'dog'])
    """
    if len(words) <= bins:
        return [visible(word, 60) for word in words]
    edges = [n * len(words) // bins for n in range(bins + 1)]
    ends = [(visible(words[a], 20), visible(words[b - 1], 20)) for a, b in pairwise(edges)]
    return [first if first == last else f"{first} … {last}" for first, last in ends]


def pooling_note(shape: tuple[int, ...], bins: tuple[int, ...]) -> str:
    """What to say below a picture of weights (rows, columns) that were pooled.

    >>> pooling_note((200, 300), (64, 64))
    'Each cell is the mean of about 3 × 5 weights.'
    """
    return f"Each cell is the mean of about {shape[0] / bins[0]:.0f} × {shape[1] / bins[1]:.0f} weights."
