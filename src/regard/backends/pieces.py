"""Matrices with cuts, computed in the pieces that scores/pieces.py finds: the kernels themselves know no cuts.

Pieces of other rows are put one below the other; pieces of the same rows, which show other keys, are joined by their
normalisers. What cannot be done in pieces (pools, dropout, cuts along a band to some keys only) is left to the tiles.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import NamedTuple

import torch
from torch import Tensor

from regard.backends import chooser, tiles
from regard.backends.contract import (
    Attend,
    Entropy,
    Gradients,
    LogSumExp,
    Pool,
    Received,
    Reduction,
    Request,
    Result,
    Top,
    TransposedProduct,
    share,
    with_sinks,
)
from regard.scores import PLAIN, BoundMask, Scores, as_range, in_blocks, in_pieces, pick
from regard.support import Float

__all__ = ["Part", "backward", "compute", "logsumexp", "parts_of", "reduce"]

_FEW = 16  # where less than one row in so many is cut, the others are not split: a whole matrix has the fastest kernel


class Part(NamedTuple):
    """A piece of a matrix, as scores without cuts or sinks."""

    rows: slice  # which rows of the matrix it has
    scores: Scores
    shift: float  # a bias on all of its scores
    cut: bool  # whether a cut concerns its rows


def parts_of(scores: Scores, request: Request) -> list[Part] | None:
    """The pieces in which a request is computed; None where it is computed as it is."""
    if not scores.mask.cuts or 0 in scores.shape or isinstance(request, Pool):
        return None
    if isinstance(request, Attend) and request.dropout is not None:
        return None
    found = in_pieces(scores.mask, scores.rows)
    if found is None:
        return None
    batch, heads, _, keys = (range(n) for n in scores.shape)
    first, parts = scores.rows[0], []
    for piece in found:
        rows = range(piece.rows.start - first, piece.rows.stop - first)
        part = replace(scores, sinks=None).select(batch, heads, rows, keys)
        parts.append(Part(slice(rows.start, rows.stop), replace(part, mask=piece.mask), piece.shift, piece.cut))
    return parts


def _by_rows(parts: Sequence[Part]) -> Iterator[tuple[slice, list[Part]]]:
    """The parts that have the same rows, from top to bottom."""
    for rows, some in groupby(parts, key=lambda part: part.rows):
        yield rows, list(some)


# The softmax


def compute(
    scores: Scores, request: Request, lse: Float[Tensor, "batch heads queries"] | None = None, *, outer: bool = False
) -> tuple[Tensor, Tensor]:
    """(result, normaliser) of one request other than Top, without a graph: `chooser.compute` for any mask."""
    split = parts_of(scores, request) is not None or (isinstance(request, Attend) and _has_heads(scores, request))
    if not split or isinstance(request, LogSumExp):
        return chooser.compute(scores, request, lse, outer=outer)
    if not isinstance(request, Attend):
        assert lse is not None
        (result,) = reduce(scores, lse, [request])
        assert isinstance(result, Tensor)
        return (result.to(request.x.dtype) if isinstance(request, TransposedProduct) else result), lse
    output, own = _attend(scores, chooser.shielded(scores, request))
    whole = with_sinks(scores, own) if lse is None or not outer else lse
    if scores.sinks is not None or outer:
        output = (output * share(own, whole)[..., None]).to(output.dtype)
    return output, whole


def _attend(scores: Scores, request: Attend) -> tuple[Tensor, Tensor]:
    """(weights @ value, logsumexp), without sinks: heads with the same cuts together, in blocks or in pieces."""
    parts = parts_of(scores, request)
    cut = [part for part in parts or () if part.cut]
    if parts and sum(rows.stop - rows.start for rows, _ in _by_rows(cut)) * _FEW <= scores.shape[2]:
        return _patched(scores, request, cut)
    if _has_heads(scores, request):
        return _by_heads(scores, request)
    if parts is None:
        return chooser.forward(replace(scores, sinks=None), request)
    return _in_blocks(scores, request) or _in_pieces(request, parts)


def _has_heads(scores: Scores, request: Attend) -> bool:
    """Whether the product may be computed for some heads at a time, since a cut concerns some only."""
    some = any(cut.heads is not None for cut in scores.mask.cuts)
    return some and request.dropout is None and 0 not in scores.shape


def _patched(scores: Scores, request: Attend, cut: Sequence[Part]) -> tuple[Tensor, Tensor]:
    """All rows without any cut, and those that one concerns once more."""
    plain = replace(scores, mask=replace(scores.mask, cuts=(), cache={}), sinks=None)
    output, lse = chooser.forward(plain, request)
    for here, some in _by_rows(cut):
        output[:, :, here], own = _joined([_forward(part, request) for part in some])
        lse = lse.to(torch.promote_types(lse.dtype, own.dtype))
        lse[:, :, here] = own
    return output, lse


def _by_heads(scores: Scores, request: Attend) -> tuple[Tensor, Tensor]:
    found: list[tuple[list[int], Tensor, Tensor]] = []
    for some, part in replace(scores, sinks=None).by_heads():
        value = pick(request.value, 1, as_range(scores.key_heads(some), request.value))
        found.append((some, *_attend(part, replace(request, value=value))))
    output = torch.cat([part for _, part, _ in found], 1)
    lse = torch.cat([part for _, _, part in found], 1)
    order = torch.tensor([head for some, _, _ in found for head in some], device=output.device).argsort()
    return output.index_select(1, order), lse.index_select(1, order)


def _in_pieces(request: Attend, parts: Sequence[Part]) -> tuple[Tensor, Tensor]:
    found = [_joined([_forward(part, request) for part in some]) for _, some in _by_rows(parts)]
    outputs, sums = zip(*found, strict=True)
    return (outputs[0], sums[0]) if len(found) == 1 else (torch.cat(outputs, 2), torch.cat(sums, 2))


def _in_blocks(scores: Scores, request: Attend) -> tuple[Tensor, Tensor] | None:
    """The same by kernels that know no mask but the plain causal one, if they can."""
    whole = isinstance(scores.columns, range) and scores.columns == range(scores.shape[3])
    blocks = in_blocks(scores.mask, scores.rows, scores.shape[3]) if whole else None
    if not blocks:
        return None
    batch, heads = range(scores.shape[0]), range(scores.shape[1])
    bare = replace(scores, mask=BoundMask(), sinks=None)
    output: Tensor | None = None
    for block in blocks:
        rows = range(block.rows.start - scores.rows[0], block.rows.stop - scores.rows[0])
        part = bare.select(batch, heads, rows, block.columns)
        if block.mask is PLAIN:
            part = replace(part, mask=PLAIN, rows=range(len(rows)), columns=range(len(rows)))
        elif block.mask is not None:
            part = replace(part, mask=block.mask)
        values = replace(request, value=pick(request.value, 2, block.columns))
        plain = block.mask is None or block.mask is PLAIN
        if plain and chooser.choose(part, values).name not in ("torch_cpu", "torch_cuda"):
            return None
        here, own = chooser.forward(part, values)
        if output is None:
            shape = (*scores.shape[:3], here.shape[-1])
            output, lse = here.new_zeros(shape, dtype=scores.working_dtype), own.new_full(shape[:3], -math.inf)
        span = slice(rows.start, rows.stop)
        total = torch.logaddexp(lse[:, :, span], own.to(lse.dtype))
        old, new = (share(lse_, total)[..., None].to(output.dtype) for lse_ in (lse[:, :, span], own))
        output[:, :, span] = output[:, :, span] * old + here * new
        lse[:, :, span] = total
    assert output is not None
    return output.to(scores.query.dtype), lse


def _forward(part: Part, request: Attend) -> tuple[Tensor, Tensor]:
    output, lse = chooser.forward(part.scores, request)
    return output, lse + part.shift if part.shift else lse


def _joined(found: Sequence[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    """Products of the same rows with other keys, as one."""
    if len(found) == 1:
        return found[0]
    total = torch.logsumexp(torch.stack([lse for _, lse in found]), 0)
    output = sum(output * share(lse, total)[..., None] for output, lse in found)
    assert isinstance(output, Tensor)
    return output.to(found[0][0].dtype), total


def logsumexp(scores: Scores) -> Float[Tensor, "batch heads queries"]:
    """The row normaliser, sinks included: `chooser.logsumexp` for any mask."""
    parts = parts_of(scores, LogSumExp())
    return chooser.logsumexp(scores) if parts is None else with_sinks(scores, _sums(parts))


def _sums(parts: Sequence[Part]) -> Tensor:
    rows = []
    for _, some in _by_rows(parts):
        sums = [chooser.logsumexp(part.scores) + part.shift for part in some]
        rows.append(sums[0] if len(sums) == 1 else torch.logsumexp(torch.stack(sums), 0))
    return torch.cat(rows, 2)


# Reductions


def reduce(scores: Scores, lse: Float[Tensor, "batch heads queries"], requests: Sequence[Reduction]) -> list[Result]:
    """`chooser.reduce` for any mask."""
    parts = parts_of(scores, Entropy()) if scores.mask.cuts else None
    if parts is None:
        return chooser.reduce(scores, lse, requests)
    split = [n for n, request in enumerate(requests) if not isinstance(request, Pool)]
    results: dict[int, Result] = {}
    if split:
        results |= zip(split, _reduce(scores, lse, [requests[n] for n in split], parts), strict=True)
    whole = [n for n in range(len(requests)) if n not in results]
    if whole:
        own = _for_tiles(scores, lse, parts)
        results |= zip(whole, chooser.reduce(scores, own, [requests[n] for n in whole]), strict=True)
    return [results[n] for n in range(len(requests))]


def _for_tiles(scores: Scores, lse: Tensor, parts: Sequence[Part]) -> Tensor:
    """The normaliser of the tiles, where other kernels computed it from other digits: see `chooser.for_tiles`."""
    if lse.dtype != torch.float64 or all(chooser.choose(p.scores, LogSumExp()) is tiles.backend for p in parts):
        return lse
    return lse + (tiles.backend.logsumexp(scores) - _sums(parts)).nan_to_num(0.0, 0.0, 0.0)


def _reduce(scores: Scores, lse: Tensor, requests: Sequence[Reduction], parts: Sequence[Part]) -> list[Result]:
    found: list[list[list[Result]]] = []  # for each run of rows, each of its parts: a result for each request
    for rows, some in _by_rows(parts):
        asked = [_of_rows(request, rows) for request in requests]
        found.append([chooser.reduce(part.scores, lse[:, :, rows] - part.shift, asked) for part in some])
    return [_gathered(request, [[of[n] for of in run] for run in found], scores) for n, request in enumerate(requests)]


def _of_rows(request: Reduction, rows: slice) -> Reduction:
    if isinstance(request, TransposedProduct):
        return replace(request, x=request.x[:, :, rows])
    return Received() if isinstance(request, Received) and request.reduce == "mean" else request


def _gathered(request: Reduction, runs: Sequence[Sequence[Result]], scores: Scores) -> Result:
    """One result from those of the parts of each run of rows."""
    if isinstance(request, Top):
        tops = [_best([top for top in run if isinstance(top, tuple)], request.k) for run in runs]
        return torch.cat([weights for weights, _ in tops], 2), torch.cat([keys for _, keys in tops], 2)
    tensors = [[result for result in run if isinstance(result, Tensor)] for run in runs]
    if isinstance(request, Entropy):
        return torch.cat([torch.stack(run).sum(0) for run in tensors], 2)
    every = torch.stack([result for run in tensors for result in run])
    if isinstance(request, Received) and request.reduce == "max":
        return every.amax(0)
    total = every.sum(0)
    return total / scores.shape[2] if isinstance(request, Received) and request.reduce == "mean" else total


def _best(tops: Sequence[tuple[Tensor, Tensor]], k: int) -> tuple[Tensor, Tensor]:
    """The k largest of several; a key that is there comes before one that is not, even where its weight is 0."""
    if len(tops) == 1:
        return tops[0]
    weights, keys = (torch.cat(some, -1) for some in zip(*tops, strict=True))
    best, places = weights.masked_fill(keys < 0, -1.0).topk(k, -1)
    return best.clamp_min(0.0), keys.gather(-1, places)


# Gradients


def backward(
    parts: Sequence[Part], scores: Scores, request: Request, result: Tensor, lse: Tensor, grad: Tensor, *, outer: bool
) -> Gradients:
    """Gradients of a product or a normaliser that was computed in parts."""
    d_query = torch.zeros_like(scores.query, dtype=scores.working_dtype)
    d_key = torch.zeros_like(scores.key, dtype=scores.working_dtype)
    d_value: Tensor | None = None
    dots: list[Tensor | None] = []
    for rows, some in _by_rows(parts):
        for part in some:
            backend = chooser.choose(part.scores, request, gradient=True, outer=outer)
            own = lse[:, :, rows] - part.shift
            own = chooser.for_tiles(part.scores, own) if backend is tiles.backend else own
            found = backend.backward(
                part.scores, request, result[:, :, rows], own, grad[:, :, rows], subtract=not outer
            )
            d_query[:, :, rows] += found.query
            d_key += found.key
            if found.operand is not None:
                d_value = found.operand.to(d_key.dtype) if d_value is None else d_value + found.operand
        dots.append(found.row_dot)
    known = [dot for dot in dots if dot is not None]
    row_dot = torch.cat(known, 2) if len(known) == len(dots) else None
    return Gradients(d_query, d_key, d_value, (None,) * len(scores.mask.biases), row_dot)
