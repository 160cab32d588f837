"""`MatrixFeed`: the numbers of a map of attention matrices, computed when the viewer requests them."""

from __future__ import annotations

import json
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.drawing.arguments import chosen
from regard.drawing.viewer import Packed, find_text, readable
from regard.errors import InputError, OutOfRangeError, ShapeError, TooLargeError
from regard.maps.levels import FINEST, Bins, Levels, Sweeps, level_size
from regard.maps.packing import SAMPLE, Blocks, Rounded
from regard.matrix.attention_matrix import AttentionMatrix
from regard.matrix.axes import Axes
from regard.support import one_of, progress, threads

__all__ = ["MapEntry", "MatrixFeed"]

_TOKENS = 4096  # in one answer
_PACKED = 1024  # bins on a side of the level that a file carries; a page computes the other levels
_BINS = 2**20  # of a tile: a row of a million tokens is a tile
_WAIT = 2**34  # multiply-adds of a tile that a visitor can wait for: about a second
_NOW = 2**31  # multiply-adds of a sweep that is done at once
_Head = tuple[int, int]  # the number of the entry, and the number of the head in it


@dataclass(frozen=True, eq=False)
class MapEntry:
    """A matrix (heads, queries, keys): the attention of one layer."""

    matrix: AttentionMatrix
    heads: Sequence[int]  # the numbers of its heads, as the model counts them
    name: str = ""
    kind: str = ""
    layer: int = 0

    @classmethod
    def from_matrix(cls, matrix: AttentionMatrix, heads: Sequence[int] | None = None) -> MapEntry:
        """Some or all heads of a matrix (heads, queries, keys) or (queries, keys)."""
        if not matrix._axes.has_heads:
            matrix = matrix._derived(axes=Axes((), True))
        some = chosen(heads, len(matrix), len(matrix))
        if heads is not None:
            matrix = matrix._part([torch.tensor(some), *(range(size) for size in matrix.shape[1:])])
        return cls(matrix, some)


class MatrixFeed:
    """The numbers of matrices with the same queries and keys; `rows` and `columns` are their tokens, counted from 0.

    >>> import torch, regard
    >>> A = regard.AttentionMatrix(torch.randn(2, 100, 8), torch.randn(2, 100, 8))
    >>> feed = MatrixFeed([MapEntry(A, heads=[0, 1])])
    >>> feed.tile([(0, 1)], rows=(0, 100), columns=(40, 44), bins=(50, 4)).shape
    (50, 4)
    """

    def __init__(
        self,
        entries: Sequence[MapEntry],
        rows: Sequence[str] | None = None,
        columns: Sequence[str] | None = None,
        *,
        same: bool | None = None,
        title: str = "",
        note: str = "",
    ):
        shapes = {tuple(entry.matrix.shape[-2:]) for entry in entries}
        if len(shapes) != 1 or any(entry.matrix.shape[:-2] != (len(entry.heads),) for entry in entries):
            got = ", ".join(str(tuple(entry.matrix.shape)) for entry in entries) or "none"
            raise ShapeError(f"a map takes matrices (heads, queries, keys) of the same queries and keys. Got {got}.")
        ((self.queries, self.keys),) = shapes
        if not self.queries or not self.keys:
            raise ShapeError(f"a map takes at least 1 query and 1 key. Got {self.queries} and {self.keys}.")
        self.entries = [replace(entry, matrix=entry.matrix.detach()) for entry in entries]
        self.title, self.note = title, note
        self._tokens = {"rows": _tokens("rows", rows, self.queries), "columns": _tokens("columns", columns, self.keys)}
        self._same = (rows is columns or rows == columns) and self.queries == self.keys if same is None else same
        self._weights = [_Weights(entry.matrix) for entry in self.entries]
        self._sweeps = Sweeps()
        weakref.finalize(self, self._sweeps.close)

    # What the viewer asks for

    def about(self) -> dict[str, Any]:
        """What the map shows, as JSON; heads are chosen by (number of the entry, head).

        "same": rows and columns are one text; "numbered": the sides whose tokens are unknown.
        """
        entries = [
            {"name": entry.name, "kind": entry.kind, "layer": entry.layer, "heads": list(entry.heads)}
            for entry in self.entries
        ]
        dtypes = {str(entry.matrix.dtype).removeprefix("torch.") for entry in self.entries}
        numbered = {side: known is None for side, known in self._tokens.items()}  # tokens whose texts are unknown
        size = {"queries": self.queries, "keys": self.keys, "same": self._same, "numbered": numbered}
        return {"title": self.title, **size, "entries": entries, "exact": ", ".join(sorted(dtypes)), "note": self.note}

    def tile(
        self, heads: Sequence[_Head], rows: tuple[int, int], columns: tuple[int, int], bins: tuple[int, int]
    ) -> NDArray[np.float32]:
        """The mean over these heads of the part rows × columns, each (start, stop), averaged over bins.

        Bins are nearly equal, as in `AttentionMatrix.pool`; as many bins as tokens give the weights themselves. A range
        may reach past the last token: a bin there has the mean of the tokens that exist, or 0. NaN: not computed yet
        (see `ready`).
        """
        runs = self._runs(heads)
        row_bins = Bins.cut("rows", rows, bins[0], self.queries)
        column_bins = Bins.cut("columns", columns, bins[1], self.keys)
        if bins[0] * bins[1] > _BINS:
            raise InputError(f"a tile has at most {_BINS:,} bins. Got {bins[0]} × {bins[1]}: ask for a smaller part.")
        # Small bins are computed from queries and keys, and so is what has finer bins than any level, if it is quick.
        size, finest = min(row_bins.size, column_bins.size), level_size(self.queries, self.keys)
        short = size < FINEST or max(self.queries, self.keys) <= 2 * FINEST
        if short or (size < finest and _work(runs, row_bins.tokens, column_bins.tokens) <= _WAIT):
            with self._sweeps.paused():
                return _mean(runs, row_bins, column_bins).astype(np.float32)
        whole = Bins(0, self.keys, finest, -(-self.keys // finest))

        def band(start: int, stop: int) -> NDArray[np.float64]:
            return _mean(runs, Bins(start, stop, finest, -(-(stop - start) // finest)), whole)

        levels = self._sweeps.levels(
            tuple(sorted(set(heads))), lambda: Levels(self.queries, self.keys, finest, band),
            at_once=_work(runs, self.queries, self.keys) <= _NOW,
        )  # fmt: skip
        return levels.tile(rows, columns, bins)

    def ready(self, heads: Sequence[_Head] | None = None) -> float:
        """The share of the coarse levels that is computed, of these heads or of all heads shown so far."""
        return self._sweeps.done(None if heads is None else tuple(sorted(set(heads))))

    def tokens(self, side: str, start: int, stop: int) -> list[str]:
        """The tokens of "rows" or "columns" as they read, at most 4,096; joined, they make the text."""
        one_of("side", side, ("rows", "columns"))
        count = self.queries if side == "rows" else self.keys
        if not 0 <= start <= stop <= count or stop - start > _TOKENS:
            raise OutOfRangeError(
                f"tokens must be a range in 0 to {side} = {count}, at most {_TOKENS:,} at once. Got {start} to {stop}."
            )
        known = self._tokens[side]
        return [f" {n}" for n in range(start, stop)] if known is None else known[start:stop]

    def find(self, side: str, text: str, limit: int = 1000) -> list[int]:
        """The tokens at which a text begins; none where the tokens are unknown."""
        one_of("side", side, ("rows", "columns"))
        return find_text(self._tokens[side] or (), text, limit)

    def packed(self, budget: int) -> Packed:
        """The content of a file of at most `budget` bytes: as many heads as fit, in their order."""
        blocks = Blocks()
        texts = {
            side: blocks.add(np.frombuffer(json.dumps(known, ensure_ascii=False).encode("utf-8", "replace"), np.uint8))
            for side, known in self._tokens.items()
            if known is not None
        }
        heads: list[dict[str, Any]] = []
        whole, error = budget, 0.0
        every = [(number, head) for number, entry in enumerate(self.entries) for head in entry.heads]
        with progress("packing the map", total=len(every)) as advance:
            for number, head in every:
                entry = self.entries[number]
                before = dict(blocks.stored)
                one = Rounded.from_head(entry.matrix._core, list(entry.heads).index(head))
                with torch.no_grad(), threads(self.queries * self.keys * one.query.shape[-1]):
                    packed = self._packed_head(one, blocks, budget)
                if packed is None:
                    blocks = Blocks(before)
                    break
                heads.append({"entry": number, "head": head, **packed})
                budget -= len(json.dumps(heads[-1]))
                error = max(error, one.error())
                advance(1)
        if not heads:
            raise TooLargeError(
                f"one head of {self.queries:,} × {self.keys:,} tokens must fit in {whole:,} bytes of a file, "
                "and does not. Choose a part, as in A.part[…, :8000, :8000], pass a larger budget, or save the "
                "record and open it with `regard serve --record FILE`."
            )
        inside = [(each["entry"], each["head"]) for each in heads]
        about = self.about() | {
            "exact": "float16",
            "error": error,
            "sample": min(SAMPLE, self.queries),
            "left_out": len(every) - len(inside),
            "tokens": texts,
            "heads": heads,
        }
        for number, entry in enumerate(about["entries"]):
            entry["heads"] = [head for head in entry["heads"] if (number, head) in inside]
        about["entries"] = [entry for entry in about["entries"] if entry["heads"]]  # the first ones
        return Packed(about, blocks.stored)

    def _packed_head(self, one: Rounded, blocks: Blocks, budget: int) -> dict[str, Any] | None:
        """One head in blocks; None if it does not fit, which is checked before the long computations if possible."""
        for halves in (one.query, one.key):
            blocks.add(halves)
        if blocks.size > budget:
            return None
        packed = one.about(blocks)
        longest = max(self.queries, self.keys)
        if longest > _PACKED:
            packed["level"] = one.level(1 << (-(-longest // _PACKED) - 1).bit_length(), blocks)
        return packed if blocks.size <= budget else None

    def close(self) -> None:
        """End the sweep in the background."""
        self._sweeps.close()

    # How it is done

    def _runs(self, heads: Sequence[_Head]) -> list[_Run]:
        """The heads as runs of neighbouring heads of one entry, each computed at once."""
        places = []
        for number, head in sorted(set(heads)):
            if not 0 <= number < len(self.entries) or head not in self.entries[number].heads:
                raise OutOfRangeError(
                    f"heads must be pairs (entry, head): entries from 0 to {len(self.entries) - 1}, each with its own "
                    f"heads. Got {(number, head)}."
                )
            places.append((number, list(self.entries[number].heads).index(head)))
        if not places:
            raise InputError("a tile takes at least one head. Got none.")
        runs: list[_Run] = []
        for number, place in sorted(places):
            weights = self._weights[number]
            if runs and runs[-1][0] is weights and runs[-1][1].stop == place:
                runs[-1] = weights, slice(runs[-1][1].start, place + 1)
            else:
                runs.append((weights, slice(place, place + 1)))
        return runs


def _tokens(name: str, tokens: Sequence[str] | None, count: int) -> list[str] | None:
    if tokens is None:
        return None
    if len(tokens) != count:
        raise ShapeError(f"{name} must name each token: {count}. Got {len(tokens)}.")
    return readable(tokens)


class _Weights:
    """The weights of one entry; a tile computes the normalisers of its own rows only, and keeps them."""

    def __init__(self, matrix: AttentionMatrix):
        self._matrix = matrix
        self.width = matrix._core.scores.query.shape[-1]
        self._lse: Tensor | None = None  # (heads, queries), NaN where it is unknown

    def pooled(self, heads: slice, rows: Bins, columns: Bins) -> NDArray[np.float64]:
        """The sum over some heads of the mean of each bin."""
        total = np.zeros((rows.bins, columns.bins))
        skipped, columns = self._seen(rows, columns)
        if not columns.tokens:
            return total
        with torch.no_grad(), threads((heads.stop - heads.start) * rows.tokens * columns.tokens * self.width):
            part = self._part(heads, rows, columns)
            for first_row, row, row_bins in rows.runs():
                for first_column, column, column_bins in columns.runs():
                    pool = part.part[:, row, column].pool(row_bins, column_bins)
                    place = skipped + first_column
                    part_bins = slice(first_row, first_row + row_bins), slice(place, place + column_bins)
                    total[part_bins] = pool.double().sum(0).cpu().numpy()
        return total

    def _seen(self, rows: Bins, columns: Bins) -> tuple[int, Bins]:
        """The bins of keys that some of these rows can see: with a window over a long text, few."""
        scores = self._matrix._core.scores
        if scores.columns != range(scores.shape[-1]):
            return 0, columns  # the mask of a part of a matrix counts other keys
        first, _, _, end = scores.mask.span(scores.rows[rows.start : rows.stop], columns.stop)
        return columns.within(first, end)

    def _part(self, heads: slice, rows: Bins, columns: Bins) -> AttentionMatrix:
        row, column = slice(rows.start, rows.stop), slice(columns.start, columns.stop)
        if self._matrix._core.knows_lse():
            return self._matrix.part[heads, row, column]
        if self._lse is None:
            self._lse = torch.full(self._matrix.shape[:2], torch.nan, dtype=torch.float64, device=self._matrix.device)
        known, part = self._lse[heads, row], self._matrix.part[heads, row]
        if known.isnan().any():
            known = part._core.lse()[0].double()
            self._lse[heads, row] = known
        return part._derived(core=part._core.normalised_by(known[None])).part[:, :, column]


_Run = tuple[_Weights, slice]  # an entry, and neighbouring heads of it


def _work(runs: Sequence[_Run], rows: int, columns: int) -> int:
    """The multiply-adds of a part of the matrix."""
    width: int = sum((heads.stop - heads.start) * weights.width for weights, heads in runs)
    return width * rows * columns


def _mean(runs: Sequence[_Run], rows: Bins, columns: Bins) -> NDArray[np.float64]:
    """The mean over all these heads, from queries and keys."""
    total = sum(weights.pooled(heads, rows, columns) for weights, heads in runs)
    mean: NDArray[np.float64] = total / sum(heads.stop - heads.start for _, heads in runs)
    return mean
