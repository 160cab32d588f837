"""Masks with cuts, which the kernels do not support: the matrix in parts without cuts, each for the backend it suits.

Parts of different rows are concatenated. Parts of the same rows, which show different keys, are joined by their
normalisers. Pools, dropout and cuts along a band to only some of the keys are left to tiles.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import NamedTuple

import torch
from torch import Tensor

from regard.backends import chooser
from regard.backends.contract import (
    Attend,
    Backend,
    Backward,
    Capabilities,
    Dense,
    Entropy,
    Gradients,
    LogSumExp,
    Received,
    Reduction,
    Request,
    Result,
    Top,
    TransposedProduct,
)
from regard.scores import BoundMask, Positions, Scores, as_range, bands_between, cut_runs, in_pieces, pick, share

_FEW = 16  # where less than one row in 16 is cut, computing all rows and the cut rows once more is faster


class Part(NamedTuple):
    """A piece of a matrix, as scores without cuts or sinks."""

    rows: slice  # of the matrix
    scores: Scores
    shift: float  # a bias on all of these scores
    cut: bool  # whether a cut concerns its rows


class Cuts(Backend):
    """Any mask with cuts, in parts."""

    name = "cuts"
    can = Capabilities(
        requests=(Attend, LogSumExp, Received, Entropy, Top, TransposedProduct),
        gradients=(Attend, LogSumExp),
        always=True,
    )

    def accepts(self, scores: Scores, request: Request | Dense, gradient: bool) -> bool:
        """Masks with cuts that can be written as pieces, or whose cuts differ by head."""
        if not scores.mask.cuts:
            return False
        if in_pieces(scores.mask, scores.rows) is not None:
            return True
        return isinstance(request, Attend) and not gradient and _heads_differ(scores)

    def sources(self, scores: Scores) -> frozenset[str]:
        """The backends of the parts."""
        return frozenset(chooser.choose(part.scores, LogSumExp()).name for part in parts_of(scores))

    def forward(self, scores: Scores, request: Attend) -> tuple[Tensor, Tensor]:
        """(weights @ operand, logsumexp), without sinks: patched, by heads, in blocks or in parts."""
        scores = replace(scores, sinks=None)
        parts = parts_of(scores) if in_pieces(scores.mask, scores.rows) is not None else []
        cut = [part for part in parts if part.cut]
        if parts and sum(rows.stop - rows.start for rows, _ in _by_rows(cut)) * _FEW <= scores.shape[2]:
            return _patched(scores, request, cut)
        if _heads_differ(scores):
            return _by_heads(scores, request)
        return _in_blocks(scores, request) or _in_parts(request, parts)

    def logsumexp(self, scores: Scores) -> Tensor:
        """The row normaliser without sinks."""
        rows = []
        for _, parts in _by_rows(parts_of(scores)):
            sums = [chooser.logsumexp(part.scores) + part.shift for part in parts]
            rows.append(sums[0] if len(sums) == 1 else torch.logsumexp(torch.stack(sums), 0))
        return torch.cat(rows, 2)

    def reduce(self, scores: Scores, lse: Tensor, requests: Sequence[Reduction]) -> list[Result]:
        """The results of the parts, put together."""
        runs: list[list[list[Result]]] = []  # by run of rows, part and request
        for rows, parts in _by_rows(parts_of(scores)):
            narrowed = [_narrowed(request, rows) for request in requests]
            runs.append([chooser.reduce(part.scores, lse[:, :, rows] - part.shift, narrowed) for part in parts])
        return [
            _gathered(request, [[results[n] for results in run] for run in runs], scores)
            for n, request in enumerate(requests)
        ]

    def backward(self, scores: Scores, task: Backward) -> Gradients:
        """Gradients of a product or a normaliser."""
        d_query = torch.zeros_like(scores.query, dtype=scores.working_dtype)
        d_key = torch.zeros_like(scores.key, dtype=scores.working_dtype)
        d_operand: Tensor | None = None
        dots: list[Tensor | None] = []
        for rows, parts in _by_rows(parts_of(scores)):
            for part in parts:
                lse = task.lse[:, :, rows] - part.shift
                part_task = replace(task, result=task.result[:, :, rows], lse=lse, grad=task.grad[:, :, rows])
                gradients = chooser.backward(part.scores, part_task)
                d_query[:, :, rows] += gradients.query
                d_key += gradients.key
                if gradients.operand is not None:
                    d_operand = (0 if d_operand is None else d_operand) + gradients.operand.to(d_key.dtype)
            dots.append(gradients.row_dot)
        known = [dot for dot in dots if dot is not None]
        row_dot = torch.cat(known, 2) if len(known) == len(dots) else None
        return Gradients(d_query, d_key, d_operand, row_dot=row_dot)


def parts_of(scores: Scores) -> list[Part]:
    """The pieces of a matrix whose cuts can be written as pieces."""
    pieces = in_pieces(scores.mask, scores.rows)
    assert pieces is not None
    batch, heads, _, keys = (range(n) for n in scores.shape)
    first, parts = scores.rows[0], []
    for piece in pieces:
        rows = range(piece.rows.start - first, piece.rows.stop - first)
        part = replace(scores, sinks=None).select(batch, heads, rows, keys)
        parts.append(Part(slice(rows.start, rows.stop), replace(part, mask=piece.mask), piece.shift, piece.cut))
    return parts


def _by_rows(parts: Sequence[Part]) -> Iterator[tuple[slice, list[Part]]]:
    """The parts that have the same rows, from top to bottom."""
    for rows, members in groupby(parts, key=lambda part: part.rows):
        yield rows, list(members)


def _heads_differ(scores: Scores) -> bool:
    """Whether a cut concerns only some heads."""
    return any(cut.heads is not None for cut in scores.mask.cuts)


# Products


def _patched(scores: Scores, request: Attend, cut: Sequence[Part]) -> tuple[Tensor, Tensor]:
    """All rows without any cut, then the rows with cuts once more."""
    plain = replace(scores, mask=replace(scores.mask, cuts=(), cache={}))
    output, lse = chooser.forward(plain, request)
    for rows, parts in _by_rows(cut):
        output[:, :, rows], cut_lse = _joined([_forward(part, request) for part in parts])
        lse = lse.to(torch.promote_types(lse.dtype, cut_lse.dtype))
        lse[:, :, rows] = cut_lse
    return output, lse


def _by_heads(scores: Scores, request: Attend) -> tuple[Tensor, Tensor]:
    """The heads with the same cuts together."""
    heads: list[int] = []
    products: list[tuple[Tensor, Tensor]] = []
    for members, part in scores.by_heads():
        value = pick(request.operand, 1, as_range(scores.key_heads(members), request.operand))
        products.append(chooser.forward(part, replace(request, operand=value)))
        heads += members
    output, lse = (torch.cat(tensors, 1) for tensors in zip(*products, strict=True))
    order = torch.tensor(heads, device=output.device).argsort()
    return output.index_select(1, order), lse.index_select(1, order)


def _in_parts(request: Attend, parts: Sequence[Part]) -> tuple[Tensor, Tensor]:
    """The product of each part, joined and concatenated."""
    runs = [_joined([_forward(part, request) for part in members]) for _, members in _by_rows(parts)]
    outputs, sums = zip(*runs, strict=True)
    return (outputs[0], sums[0]) if len(runs) == 1 else (torch.cat(outputs, 2), torch.cat(sums, 2))


def _in_blocks(scores: Scores, request: Attend) -> tuple[Tensor, Tensor] | None:
    """The product by kernels that support no mask or the causal mask only; None where they cannot compute it."""
    whole = isinstance(scores.columns, range) and scores.columns == range(scores.shape[3])
    blocks = in_blocks(scores.mask, scores.rows, scores.shape[3]) if whole else None
    if not blocks:
        return None
    batch, heads = range(scores.shape[0]), range(scores.shape[1])
    bare = replace(scores, mask=BoundMask())
    output: Tensor | None = None
    for block in blocks:
        rows = range(block.rows.start - scores.rows[0], block.rows.stop - scores.rows[0])
        part = bare.select(batch, heads, rows, block.columns)
        values = replace(request, operand=pick(request.operand, 2, block.columns))
        if block.mask is CAUSAL:
            part = replace(part, mask=CAUSAL, rows=range(len(rows)), columns=range(len(rows)))
        elif block.mask is not None:
            part = replace(part, mask=block.mask)
        unmasked = block.mask is None or block.mask is CAUSAL
        if unmasked and not chooser.choose(part, values).can.fastest_unmasked:
            return None
        product, block_lse = chooser.forward(part, values)
        if output is None:
            shape = (*scores.shape[:3], product.shape[-1])
            output = product.new_zeros(shape, dtype=scores.working_dtype)
            lse = block_lse.new_full(shape[:3], -math.inf)
        span = slice(rows.start, rows.stop)
        total = torch.logaddexp(lse[:, :, span], block_lse.to(lse.dtype))
        old, new = (share(part_lse, total)[..., None].to(output.dtype) for part_lse in (lse[:, :, span], block_lse))
        output[:, :, span] = output[:, :, span] * old + product * new
        lse[:, :, span] = total
    assert output is not None
    return output.to(scores.query.dtype), lse


def _forward(part: Part, request: Attend) -> tuple[Tensor, Tensor]:
    output, lse = chooser.forward(part.scores, request)
    return output, lse + part.shift if part.shift else lse


def _joined(products: Sequence[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    """Products of the same rows with different keys, as one product."""
    if len(products) == 1:
        return products[0]
    total = torch.logsumexp(torch.stack([lse for _, lse in products]), 0)
    output = sum(output * share(lse, total)[..., None] for output, lse in products)
    assert isinstance(output, Tensor)
    return output.to(products[0][0].dtype), total


# Blocks: where all cuts hide keys, and the rest of the mask is at most causal, the matrix consists of blocks without a
# mask or with the causal mask: the fastest kernels support these two


class Block(NamedTuple):
    """Some rows and columns of the matrix: all of it, what `causal()` shows of a square, or what a mask shows."""

    rows: range
    columns: range
    mask: BoundMask | None = None  # None: all; CAUSAL: in the positions of the block; others: in those of the matrix


CAUSAL = BoundMask(bands=((None, 0, 0),))


def in_blocks(mask: BoundMask, rows: Positions, keys: int) -> list[Block] | None:
    """Blocks that show everything that the mask shows, each point once; None where it cannot be written as blocks."""
    if not isinstance(rows, range) or rows.step != 1 or not replace(mask, cuts=()).only_bands:
        return None
    if any(cut.bias > -math.inf or cut.columns is None or cut.heads is not None for cut in mask.cuts):
        return None
    if any(low is not None or high is None or not isinstance(by, int) for low, high, by in mask.bands):
        return None
    reach = min((high + by for _, high, by in mask.bands if high is not None and isinstance(by, int)), default=None)
    plain = replace(mask, cuts=(), cache={})
    blocks: list[Block] = []
    for run, active in cut_runs(mask, rows):
        if any(cut.band is not None and not cut.everywhere for cut in active):
            return None
        hidden = [cut.columns for cut in active if cut.band is None and cut.columns is not None]
        for band, _ in bands_between([cut for cut in active if cut.band is not None], plain):
            low, high = (None, None) if band is None else band[:2]
            ends = [end for end in (reach, high) if end is not None]
            for columns in _complement(hidden, keys):
                if low is None:
                    blocks += _causal_blocks(run, columns, min(ends, default=None))
                else:
                    blocks.append(Block(run, columns, plain & BoundMask(bands=((low, high, 0),))))
    return [block for block in blocks if len(block.rows) and len(block.columns)]


def _complement(hidden: Sequence[range], keys: int) -> list[range]:
    """The runs of keys that are in none of these ranges."""
    shown, start = [], 0
    for span in sorted(hidden, key=lambda span: span.start):
        if span.start > start:
            shown.append(range(start, span.start))
        start = max(start, span.stop)
    return [*shown, range(start, keys)]


def _causal_blocks(rows: range, columns: range, reach: int | None) -> list[Block]:
    """The blocks of a run of columns where row i sees columns up to i + reach: a triangle and rectangles."""
    if reach is None:
        return [Block(rows, columns)]
    first, last = max(rows.start, columns.start - reach), min(rows.stop, columns.stop - reach)
    full = range(max(rows.start, min(columns.stop - reach, rows.stop)), rows.stop)  # these rows see all columns
    if first >= last:
        return [Block(full, columns)]
    corner = first + reach
    return [
        Block(range(first, last), range(columns.start, corner)),
        Block(range(first, last), range(corner, last + reach), CAUSAL),
        Block(full, columns),
    ]


# Reductions


def _narrowed(request: Reduction, rows: slice) -> Reduction:
    """The request for one run of rows, in a form whose results can be added up."""
    if isinstance(request, TransposedProduct):
        return TransposedProduct(request.operand[:, :, rows])  # not rounded: it is added up first
    return Received() if isinstance(request, Received) and request.reduce == "mean" else request


def _gathered(request: Reduction, runs: Sequence[Sequence[Result]], scores: Scores) -> Result:
    """One result from the results of the parts of each run of rows."""
    if isinstance(request, Top):
        tops = [_best([top for top in run if isinstance(top, tuple)], request.k) for run in runs]
        return torch.cat([weights for weights, _ in tops], 2), torch.cat([keys for _, keys in tops], 2)
    tensors = [[result for result in run if isinstance(result, Tensor)] for run in runs]
    if isinstance(request, Entropy):
        return torch.cat([torch.stack(run).sum(0) for run in tensors], 2)
    parts = torch.stack([result for run in tensors for result in run])
    if isinstance(request, Received) and request.reduce == "max":
        return parts.amax(0)
    total = parts.sum(0)
    return total / scores.shape[2] if isinstance(request, Received) and request.reduce == "mean" else total


def _best(tops: Sequence[tuple[Tensor, Tensor]], k: int) -> tuple[Tensor, Tensor]:
    """The k largest weights of several tops. A key comes before no key (-1), even where its weight is 0."""
    if len(tops) == 1:
        return tops[0]
    weights, keys = (torch.cat(tensors, -1) for tensors in zip(*tops, strict=True))
    best, places = weights.masked_fill(keys < 0, -1.0).topk(k, -1)
    return best.clamp_min(0.0), keys.gather(-1, places)


backend = Cuts()
