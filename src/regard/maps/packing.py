"""One head of a map as a file carries it: rounded queries and keys, normalisers, the mask as rules, a coarse level.

The normaliser of each row is computed again from the rounded numbers, so that the rows of a page sum to 1. How far its
weights are from the model's is measured on some rows.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.backends import Pool
from regard.drawing.viewer import Block, block
from regard.errors import TooLargeError
from regard.maps.levels import Bins
from regard.matrix.normalised import NormalisedScores, dense_weights
from regard.scores import Positions, Scores, hides, take
from regard.scores.bound_mask import BoundCut, at
from regard.support import Float

__all__ = ["SAMPLE", "Blocks", "Rounded"]

SAMPLE = 64  # rows of a head on which the error is measured
_NAMED = 128  # bytes around a block in a page
_DENSE = 2**24  # numbers of a mask that follows no rule, at most
_TRUSTED = 32.0  # up to this size a float32 normaliser gives weights right to about 1e-6
_DECADES, _LEVELS = 6, 254  # of a coarse level: smaller numbers are drawn as the smallest


class Blocks:
    """Arrays by the hash of their content: an array that heads share is stored once.

    >>> blocks = Blocks()
    >>> blocks.add(np.ones(3)) == blocks.add(np.ones(3)), len(blocks.stored)
    (True, 1)
    """

    def __init__(self, stored: dict[str, Block] | None = None) -> None:
        self.stored = {} if stored is None else stored

    def add(self, array: NDArray[Any]) -> str:
        """Store an array, if it is new, and return its name."""
        content = hashlib.sha256(repr((array.dtype.name, array.shape)).encode() + np.ascontiguousarray(array).tobytes())
        name = content.hexdigest()[:12]
        if name not in self.stored:
            self.stored[name] = block(array)
        return name

    @property
    def size(self) -> int:
        """The bytes in a page, with the names of the arrays."""
        return sum(len(each.text) + _NAMED for each in self.stored.values())


@dataclass(frozen=True, eq=False)
class Rounded:
    """One head with its queries and keys in float16, times powers of two so that none overflows."""

    core: NormalisedScores  # of the rounded numbers
    original: Scores  # the rows over all keys before rounding
    query: NDArray[np.float16]
    key: NDArray[np.float16]
    scale: float  # of the products of these

    @classmethod
    def from_head(cls, core: NormalisedScores, head: int) -> Rounded:
        """A head of a matrix."""
        _, _, queries, keys = core.scores.shape
        one = core.select([0], [head], range(queries), range(keys))
        part, rows = one.scores.detached(), one.row_scores.detached()
        query, query_power = _halves(part.query)
        every_key, key_power = _halves(rows.key)
        key = every_key if one.has_all_keys else _halved(part.key, key_power)
        whole = _times(query, -query_power)
        row_scores = replace(rows, query=whole, key=_times(every_key, -key_power))
        scores = row_scores if one.has_all_keys else replace(part, query=whole, key=_times(key, -key_power))
        core = NormalisedScores(scores, [], row_scores)
        return cls(core, rows, _numpy(query[0, 0]), _numpy(key[0, 0]), part.scale * 2.0 ** -(query_power + key_power))

    def about(self, blocks: Blocks) -> dict[str, Any]:
        """The head as JSON, with its arrays by name, except for its coarse level."""
        return {
            "query": blocks.add(self.query),
            "key": blocks.add(self.key),
            "scale": self.scale,
            "softcap": self.core.scores.softcap,
            "normaliser": blocks.add(self.normaliser),
            "mask": _rules(self.core.scores, blocks),
        }

    def level(self, size: int, blocks: Blocks) -> dict[str, Any]:
        """The means of bins of size × size tokens in one byte each, by their logarithm: 0 is 0, 255 is NaN."""
        _, _, queries, keys = self.core.scores.shape
        rows, columns = (Bins(0, count, size, -(-count // size)) for count in (queries, keys))
        means = np.zeros((rows.bins, columns.bins))
        self.core.lse()  # once for all parts
        for first_row, row, row_bins in rows.runs():
            for first_column, column, column_bins in columns.runs():
                part = self.core.select([0], [0], range(row.start, row.stop), range(column.start, column.stop))
                pool = part.compute(Pool(row_bins, column_bins))[0, 0].double().cpu().numpy()
                means[first_row : first_row + row_bins, first_column : first_column + column_bins] = pool
        positive = means[np.isfinite(means) & (means > 0)]
        high = float(positive.max(initial=0.0)) or 1.0
        low = max(float(positive.min(initial=high)), high / 10**_DECADES)
        share = np.log(np.maximum(np.nan_to_num(means), low) / low) / max(np.log(high / low), 1e-9)
        codes = np.where(means > 0, 1 + np.rint(share * (_LEVELS - 1)), 0)
        values = np.where(np.isnan(means), _LEVELS + 1, codes).astype(np.uint8)
        return {"size": size, "low": low, "high": high, "values": blocks.add(values)}

    def error(self) -> float:
        """The largest difference between a weight in the page and the model's, on a sample of rows."""
        queries = self.core.scores.shape[2]
        rows = torch.from_numpy(np.unique(np.linspace(0, queries - 1, min(SAMPLE, queries)).astype(np.int64)))
        rows = rows.to(self.original.query.device)
        with torch.no_grad():
            theirs = dense_weights(_double_rows(self.original, rows))[0, 0]
            masked = _double_rows(self.core.row_scores, rows).stage("masked")[0, 0]
            normaliser = torch.as_tensor(self.normaliser, dtype=torch.float64, device=rows.device)[rows, None]
            ours = torch.exp(masked - normaliser.masked_fill(normaliser == -torch.inf, 0.0))
        return float((ours - theirs).abs().nan_to_num(0.0).max())

    @cached_property
    def normaliser(self) -> NDArray[Any]:
        """The normaliser of each row: float32 or, if float32 has too few digits, float64."""
        lse = _numpy(self.core.lse()[0, 0].double())
        if np.abs(lse[np.isfinite(lse)]).max(initial=0.0) <= _TRUSTED:
            return lse.astype(np.float32)
        rows = self.core.row_scores
        precise = replace(rows, query=rows.query.double(), key=rows.key.double())
        return _numpy(NormalisedScores(precise, []).lse()[0, 0].double())


def _halves(tensor: Float[Tensor, "1 1 tokens width"]) -> tuple[Float[Tensor, "1 1 tokens width"], int]:
    """A tensor times a power of two, in float16, and that power: the largest number is just below 2¹⁵."""
    finite = tensor.abs().nan_to_num(0.0, 0.0, 0.0)
    largest = float(finite.max()) if finite.numel() else 0.0
    power = 15 - int(np.frexp(largest)[1]) if largest else 0
    return _halved(tensor, power), power


def _halved(tensor: Tensor, power: int) -> Tensor:
    return (tensor.double() * 2.0**power).half()


def _times(halves: Tensor, power: int) -> Tensor:
    return (halves.double() * 2.0**power).float()


def _double_rows(scores: Scores, rows: Tensor) -> Scores:
    some = scores.select([0], [0], rows, range(scores.shape[3]))
    return replace(some, query=some.query.double(), key=some.key.double())


# The mask as rules for any pair of tokens


def _rules(scores: Scores, blocks: Blocks) -> dict[str, Any]:
    """Bands of distances, kept keys, ids that must agree, and added numbers, with the places of rows and columns."""
    mask, rows, columns = scores.mask, scores.rows, scores.columns
    added = [_dense(tensor, scores, blocks) for tensor in (*mask.visible, *mask.biases)]
    added += [_cut(cut, scores, blocks) for cut in mask.cuts]
    return {
        "rows": _places(rows, blocks),
        "columns": _places(columns, blocks),
        "bands": [  # bounds on the distance between key and query, cut to int32
            [None if bound is None else max(min(bound + int(offset), 2**31 - 1), -(2**31)) for bound in bounds]
            for *bounds, offset in mask.bands
        ],
        "kept": [blocks.add(_numpy(take(kept, 3, columns)).reshape(-1).astype(np.uint8)) for kept in mask.kept],
        "ids": [
            [blocks.add(each) for each in _as_int32(take(query_ids, 2, rows), take(key_ids, 3, columns))]
            for query_ids, key_ids in mask.ids
        ],
        "added": added,
    }


def _places(positions: Positions, blocks: Blocks) -> dict[str, Any]:
    """The places of rows or columns in the whole matrix, to which bands refer."""
    if isinstance(positions, range):
        return {"start": positions.start, "step": positions.step}
    return {"values": blocks.add(_numpy(at(positions, positions.device)).astype(np.int32))}


def _as_int32(*ids: Tensor) -> list[NDArray[np.int32]]:
    flat = [_numpy(each).reshape(-1) for each in ids]
    _, small = np.unique(np.concatenate(flat), return_inverse=True)
    return np.split(small.astype(np.int32), [len(flat[0])])


def _dense(tensor: Tensor, scores: Scores, blocks: Blocks) -> dict[str, Any]:
    """A bool mask or a bias: by row, by column or by distance if that is enough, otherwise all of it."""
    tensor = take(take(tensor, 2, scores.rows), 3, scores.columns)[0, 0]
    rows, columns = tensor.shape
    if tensor.dtype != torch.bool:
        tensor = tensor.float().masked_fill(hides(tensor), -torch.inf)
    if rows == 1 or columns == 1:
        side = "columns" if rows == 1 else "rows"
        values = _numpy(tensor).reshape(-1)
        count = scores.shape[3] if rows == 1 else scores.shape[2]
        return {"by": side, "values": blocks.add(_plain(np.broadcast_to(values, (count,))))}
    below, above = tensor[1:, 1:], tensor[:-1, :-1]
    if bool(((below == above) | (below.isnan() & above.isnan())).all()):
        values = np.concatenate([_numpy(tensor[:, 0])[::-1], _numpy(tensor[0, 1:])])
        return {"by": "distance", "values": blocks.add(_plain(values))}
    _check_size(rows, columns)
    return {"by": "both", "values": blocks.add(_plain(_numpy(tensor)))}


def _cut(cut: BoundCut, scores: Scores, blocks: Blocks) -> dict[str, Any]:
    """The number that is added to the score of each pair, for some queries and keys."""
    _check_size(*scores.shape[2:])
    is_cut = cut.tile(scores.rows, scores.columns)[0, 0].expand(scores.shape[2:])
    return {"by": "both", "values": blocks.add(_plain(_numpy(torch.where(is_cut, cut.bias, 0.0))))}


def _check_size(rows: int, columns: int) -> None:
    if rows * columns > _DENSE:
        raise TooLargeError(
            f"the mask of this matrix is a tensor over queries × keys = {rows:,} × {columns:,} that follows no rule: a "
            f"file can carry up to {_DENSE:,} numbers of it. Choose a part, as in A.part[…, :4000, :4000], or save the "
            "record and open it with `regard serve --record FILE`."
        )


def _plain(values: NDArray[Any]) -> NDArray[Any]:
    return values.astype(np.uint8 if values.dtype == np.bool_ else np.float32)


def _numpy(tensor: Tensor) -> NDArray[Any]:
    array: NDArray[Any] = tensor.cpu().numpy()
    return array
