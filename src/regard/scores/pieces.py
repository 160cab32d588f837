"""A mask with cuts as pieces without any: runs of rows, each with a mask that every kernel knows.

A cut concerns some rows and some keys. In a run of rows that it concerns it is one row of padding or of bias; where it
goes along a band, the keys on either side of the band, and those in it, are pieces of their own.

Where all cuts hide, and the rest of the mask is at most causal, the matrix is even made of `Block`s that need no mask
at all, or the plain causal one: the two that the fastest kernels know.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from regard.scores.bound_mask import BoundCut, BoundMask, Positions
from regard.scores.masks import FAR

__all__ = ["PLAIN", "Block", "Piece", "in_blocks", "in_pieces"]


class Piece(NamedTuple):
    """Some rows, with a mask that shows them a part of their keys; the parts of a row do not overlap."""

    rows: range  # positions in the whole matrix
    mask: BoundMask  # without cuts
    shift: float  # a bias on all that it shows
    cut: bool  # whether a cut concerns these rows


def in_pieces(mask: BoundMask, rows: Positions) -> list[Piece] | None:
    """The pieces of these rows, from top to bottom; None where a cut cannot be written so."""
    if not isinstance(rows, range) or rows.step != 1:
        return None
    if any(cut.band is not None and not cut.everywhere for cut in mask.cuts):
        return None
    known = mask.cache.get(("pieces", rows))
    if known is None:
        known = mask.cache["pieces", rows] = list(_pieces(mask, rows))
    found: list[Piece] = known
    return found


def _pieces(mask: BoundMask, rows: range) -> Iterator[Piece]:
    plain = replace(mask, cuts=(), cache={})
    inside = {e for cut in mask.cuts for run in cut.runs for e in (run.start, run.stop) if rows.start < e < rows.stop}
    for start, stop in pairwise(sorted({rows.start, rows.stop} | inside)):
        active = [cut for cut in mask.cuts if any(run.start <= start < run.stop for run in cut.runs)]
        if not active:
            yield Piece(range(start, stop), plain, 0.0, False)
            continue
        here = plain & _one_row([cut for cut in active if cut.band is None], start)
        for band, shift in _bands([cut for cut in active if cut.band is not None], here):
            part = here if band is None else here & BoundMask(bands=(band,))
            yield Piece(range(start, stop), part, shift, True)


def _one_row(cuts: Sequence[BoundCut], row: int) -> BoundMask:
    """What these cuts say in one row, as a mask that is the same for all rows."""
    hidden: Tensor | None = None
    bias: Tensor | None = None
    for cut in cuts:
        at_row = cut.queries if cut.queries.shape[2] == 1 else cut.queries[:, :, row : row + 1]
        here = at_row & cut.keys
        if cut.bias == -math.inf:
            hidden = here if hidden is None else hidden | here
        else:
            added = torch.where(here, cut.bias, 0.0)
            bias = added if bias is None else bias + added
    biases = () if bias is None else (bias,)
    if hidden is None:
        return BoundMask(biases=biases)
    shown = ~hidden
    return (
        BoundMask(kept=(shown,), biases=biases) if shown.shape[1] == 1 else BoundMask(visible=(shown,), biases=biases)
    )


_Band = tuple[int | None, int | None, int]


def _bands(cuts: Sequence[BoundCut], mask: BoundMask) -> list[tuple[_Band | None, float]]:
    """The bands that cuts along bands leave, or add a bias to: together all distances that are not hidden."""
    if not cuts:
        return [(None, 0.0)]
    spans = []
    for cut in cuts:
        assert cut.band is not None
        lowest, highest, offset = cut.band
        spans.append((-FAR if lowest is None else lowest + offset, FAR if highest is None else highest + offset))
    edges = sorted({-FAR, FAR + 1} | {edge for low, high in spans if low <= high for edge in (low, high + 1)})
    found: list[tuple[_Band | None, float]] = []
    for low, after in pairwise(edges):
        shift = sum(cut.bias for cut, span in zip(cuts, spans, strict=True) if span[0] <= low and after - 1 <= span[1])
        if shift > -math.inf and not _hidden(mask, low, after - 1):
            found.append(((None if low <= -FAR else low, None if after > FAR else after - 1, 0), shift))
    return found or [((1, 0, 0), 0.0)]  # no distance at all


def _hidden(mask: BoundMask, low: int, high: int) -> bool:
    """Whether the mask's own bands hide all of these distances."""
    for lowest, highest, offset in mask.bands:
        if isinstance(offset, int) and (
            (lowest is not None and high < lowest + offset) or (highest is not None and low > highest + offset)
        ):
            return True
    return False


# Blocks


class Block(NamedTuple):
    """Some rows and columns of the matrix: all of it, what `causal()` shows of a square, or what a mask shows."""

    rows: range
    columns: range
    mask: BoundMask | None = None  # None: all; PLAIN: causal in the block's own places; others: in those of the matrix


PLAIN = BoundMask(bands=((None, 0, 0),))


def in_blocks(mask: BoundMask, rows: Positions, keys: int) -> list[Block] | None:
    """Blocks that show all that the mask shows, each once; None where it cannot be written so."""
    if not isinstance(rows, range) or rows.step != 1 or not replace(mask, cuts=()).only_bands:
        return None
    if any(cut.bias > -math.inf or cut.columns is None or cut.heads is not None for cut in mask.cuts):
        return None
    if any(low is not None or high is None or not isinstance(by, int) for low, high, by in mask.bands):
        return None
    reach = min((high + by for _, high, by in mask.bands if high is not None and isinstance(by, int)), default=None)
    plain = replace(mask, cuts=(), cache={})
    inside = {e for cut in mask.cuts for run in cut.runs for e in (run.start, run.stop) if rows.start < e < rows.stop}
    found: list[Block] = []
    for start, stop in pairwise(sorted({rows.start, rows.stop} | inside)):
        here, active = range(start, stop), [cut for cut in mask.cuts if any(start in run for run in cut.runs)]
        if any(cut.band is not None and not cut.everywhere for cut in active):
            return None
        seen = _visible([cut.columns for cut in active if cut.band is None and cut.columns is not None], keys)
        for band, _ in _bands([cut for cut in active if cut.band is not None], plain):
            low, high = (None, None) if band is None else band[:2]
            farthest = reach if high is None else high if reach is None else min(high, reach)
            for columns in seen:
                if low is None:
                    found += _below(here, columns, farthest)
                else:
                    found.append(Block(here, columns, plain & BoundMask(bands=((low, high, 0),))))
    return [block for block in found if len(block.rows) and len(block.columns)]


def _visible(hidden: Sequence[range], keys: int) -> list[range]:
    """The runs of keys that are in none of these."""
    found, start = [], 0
    for span in sorted(hidden, key=lambda span: span.start):
        if span.start > start:
            found.append(range(start, span.start))
        start = max(start, span.stop)
    return [*found, range(start, keys)]


def _below(rows: range, columns: range, reach: int | None) -> list[Block]:
    """What these rows see of a run of columns, where row i sees columns up to i + reach: a triangle and rectangles."""
    if reach is None:
        return [Block(rows, columns)]
    first, last = max(rows.start, columns.start - reach), min(rows.stop, columns.stop - reach)
    full = range(max(rows.start, min(columns.stop - reach, rows.stop)), rows.stop)  # these see all of them
    if first >= last:
        return [Block(full, columns)]
    corner = first + reach
    return [
        Block(range(first, last), range(columns.start, corner)),
        Block(range(first, last), range(corner, last + reach), PLAIN),
        Block(full, columns),
    ]
