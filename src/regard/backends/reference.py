"""The definition: attention in NumPy and float64, written like the formulas of a textbook. Not fast.

    scores = Q Kᵀ      scaled = scores / √d      weights = softmax(scaled)      output = weights V

Every backend is tested against these numbers. Shared key heads are repeated, masks are dense, and a row that sees no
key has weights 0, output 0, entropy 0 and logsumexp -inf.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from regard.scores import Band, Cut, Keep, Mask, Same, as_mask, hides

Array = np.ndarray[Any, np.dtype[Any]]


class Reference:
    """The whole attention matrix and every number on the way to it.

    >>> import numpy as np
    >>> A = Reference(np.zeros((2, 4)), np.zeros((2, 4)))
    >>> A.weights
    array([[0.5, 0.5],
           [0.5, 0.5]])
    """

    def __init__(
        self, query: Any, key: Any, *, mask: Any = None, scale: float | None = None, softcap: float | None = None,
        sinks: Any = None,
    ):  # fmt: skip
        query, key = _double(query), _double(key)
        if query.ndim > 2:
            key = np.repeat(key, query.shape[-3] // key.shape[-3], axis=-3)
        width = query.shape[-1]
        self.scores: Array = query @ key.swapaxes(-1, -2)
        self.scaled: Array = self.scores * (1 / np.sqrt(width) if scale is None else scale)
        self.capped: Array = self.scaled if softcap is None else softcap * np.tanh(self.scaled / softcap)
        visible, added = _dense_mask(as_mask(mask), self.scores.shape)
        self.masked: Array = np.where(visible, self.capped + np.where(visible, added, 0.0), -np.inf)

        shape = self.scores.shape[:-1]
        sink = np.full(shape, -np.inf) if sinks is None else np.broadcast_to(_double(sinks)[..., None], shape)
        peak = np.maximum(np.max(self.masked, axis=-1, initial=-np.inf), sink)
        base = np.where(np.isneginf(peak), 0.0, peak)
        total = np.sum(np.exp(self.masked - base[..., None]), axis=-1) + np.exp(sink - base)
        nothing = total == 0
        self.weights: Array = np.exp(self.masked - base[..., None]) / np.where(nothing, 1.0, total)[..., None]
        self.sink_share: Array = np.exp(sink - base) / np.where(nothing, 1.0, total)
        with np.errstate(divide="ignore"):
            self.logsumexp: Array = base + np.log(total)

    def output(self, value: Any) -> Array:
        """weights @ value; a key that no query sees gives nothing, even if its value is NaN."""
        value = _double(value)
        if self.weights.ndim > 2 and value.ndim > 2:
            value = np.repeat(value, self.weights.shape[-3] // value.shape[-3], axis=-3)
        unseen = (self.masked == -np.inf).all(axis=-2)[..., None]
        return np.asarray(self.weights @ np.where(unseen & ~np.isfinite(value), 0.0, value))

    def reverse(self, x: Any) -> Array:
        """weightsᵀ @ x."""
        return np.asarray(self.weights.swapaxes(-1, -2) @ _double(x))

    def received(self, reduce: str = "sum") -> Array:
        """The columns' sums, means or maxima."""
        if reduce == "max":
            return np.asarray(np.max(self.weights, axis=-2, initial=0.0))
        total = self.weights.sum(axis=-2)
        return np.asarray(total / max(self.weights.shape[-2], 1) if reduce == "mean" else total)

    def entropy(self) -> Array:
        """-Σ p log p of the rows, where 0 log 0 = 0."""
        p = self.weights
        return np.asarray(-np.sum(p * np.log(np.where(p > 0, p, 1.0)), axis=-1))

    def max_score(self) -> Array:
        """The largest logit that each row sees, -inf where it sees none."""
        return np.asarray(np.max(self.masked, axis=-1, initial=-np.inf))

    def min_score(self) -> Array:
        """The smallest logit that each row sees, +inf where it sees none."""
        return np.asarray(np.min(np.where(np.isneginf(self.masked), np.inf, self.masked), axis=-1, initial=np.inf))

    def top(self, k: int) -> Array:
        """The k largest weights of each row, descending."""
        return -np.sort(-self.weights, axis=-1)[..., :k]

    def pool(self, rows: int, columns: int, reduce: str = "mean") -> Array:
        """The mean or maximum of each of rows × columns bins, bin i from ⌊i n / bins⌋ to ⌊(i + 1) n / bins⌋."""
        *leading, queries, keys = self.weights.shape
        rows, columns = min(rows, queries), min(columns, keys)
        picture = np.zeros((*leading, rows, columns))
        for r in range(rows):
            for c in range(columns):
                part = self.weights[
                    ...,
                    r * queries // rows : (r + 1) * queries // rows,
                    c * keys // columns : (c + 1) * keys // columns,
                ]
                picture[..., r, c] = part.max(axis=(-1, -2)) if reduce == "max" else part.mean(axis=(-1, -2))
        return picture


def _double(array: Any) -> Array:
    return np.asarray(array.detach().cpu().double() if isinstance(array, torch.Tensor) else array, dtype=np.float64)


def _whole(array: Any) -> Array:
    return np.asarray(array.detach().cpu() if isinstance(array, torch.Tensor) else array)


def _dense_mask(mask: Mask, shape: tuple[int, ...]) -> tuple[Array, Array]:
    """(visible, added) for every query and key."""
    *batch, queries, keys = shape
    batch = batch[:-1]
    visible, added = np.ones(shape, dtype=bool), np.zeros(shape)
    i, j = np.arange(queries)[:, None], np.arange(keys)

    def per_batch(values: Any, tail: int) -> Array:
        """(*batch, …) with an axis for the heads, `tail` axes at its end."""
        values = np.broadcast_to(_whole(values), (*batch, *_whole(values).shape[_whole(values).ndim - tail :]))
        return values if len(shape) == 2 else np.expand_dims(values, len(batch))

    for atom in mask.atoms:
        if isinstance(atom, Band):
            offset = atom.offset if isinstance(atom.offset, int) else per_batch(atom.offset, 0)[..., None, None]
            apart = j - i - offset
            visible &= True if atom.highest is None else apart <= atom.highest
            visible &= True if atom.lowest is None else apart >= atom.lowest
        elif isinstance(atom, Keep) and atom.keys.dtype == torch.bool:
            visible &= per_batch(atom.keys, 1)[..., None, :]
        elif isinstance(atom, Keep):
            visible &= j < per_batch(atom.keys, 0)[..., None, None]
        elif isinstance(atom, Same):
            visible &= per_batch(atom.queries, 1)[..., :, None] == per_batch(atom.keys, 1)[..., None, :]
        elif isinstance(atom, Cut):
            rows, columns = (
                per_batch(place, 1) if isinstance(place, torch.Tensor) else (place.start <= n) & (n < place.stop)
                for n, place in ((np.arange(queries), atom.queries), (j, atom.keys))
            )
            inside = np.broadcast_to(rows[..., :, None] & columns[..., None, :], shape).copy()
            if isinstance(atom.heads, torch.Tensor):
                inside &= _whole(atom.heads)[..., None, None]
            elif atom.heads is not None:
                inside &= np.isin(np.arange(shape[-3]), atom.heads)[:, None, None]
            if atom.band is not None:
                inside &= _dense_mask(Mask((atom.band,)), shape)[0]
            visible &= ~inside if atom.hides else True
            added = added if atom.hides else added + np.where(inside, atom.bias, 0.0)
        elif atom.tensor.dtype == torch.bool:
            visible &= _whole(atom.tensor)
        else:
            hidden = _whole(hides(atom.tensor))
            visible &= ~hidden
            added = added + np.where(hidden, 0.0, _double(atom.tensor))
    return visible, added
