"""What a matrix in shards gives, block by block while the keys go round: products, normalisers, reductions.

A product is merged by the logsumexp of its parts. What belongs to queries is added up where they are; what belongs to
keys goes round with them and comes home; a picture of the whole is added up over all ranks. Everything here is data,
without a graph.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise

import torch
from torch import Tensor

from regard import backends
from regard.backends import Attend, Entropy, Pool, Received, Reduction, Result, Top, TransposedProduct
from regard.backends.contract import TRUSTED, with_sinks
from regard.backends.tiles.reductions import bin_edges
from regard.distributed.layout import Run
from regard.distributed.ring import Carrier
from regard.distributed.share import Block, Share
from regard.scores import Scores
from regard.support import Float

__all__ = ["attend", "logsumexp", "reduce"]


def attend(
    share: Share, value: Float[Tensor, "batch key_heads keys width"]
) -> tuple[Float[Tensor, "batch heads queries width"], Float[Tensor, "batch heads queries"], bool]:
    """(weights @ value, the normaliser, whether it has digits enough for all that is computed from it)."""
    scores, sure = share.scores, True
    output = value.new_zeros(*scores.shape[:3], value.shape[-1], dtype=scores.working_dtype)
    lse, digits = _nothing_seen(scores), scores.working_dtype
    moving = [*share.moving_keys(), share.per_key(value)]
    for owner, moved in share.ring.around(moving, "A @ value"):
        for block in share.blocks(owner, moved):
            data, here = block.scores.detached(), block.rows.local
            part, own = backends.compute(data, Attend(moved[-1][:, :, block.columns.local]))
            own, exact = _checked(data, own)
            sure, digits = sure and exact, torch.promote_types(digits, own.dtype)
            before, so_far = lse[:, :, here], output[:, :, here]
            total = torch.logaddexp(before, own.double())
            so_far.mul_(backends.share(before, total)[..., None])
            so_far.add_(part * backends.share(own.double(), total)[..., None].to(output.dtype))
            before.copy_(total)
    if scores.sinks is None:
        return output.to(scores.query.dtype), lse.to(digits), sure
    widened = with_sinks(scores, lse)  # a sink may be large: all digits are kept
    return output.mul_(backends.share(lse, widened)[..., None]).to(scores.query.dtype), widened, sure


def _nothing_seen(scores: Scores) -> Tensor:
    return scores.query.new_full(scores.shape[:3], -math.inf, dtype=torch.float64)


def _checked(scores: Scores, lse: Tensor) -> tuple[Tensor, bool]:
    """A kernel's normaliser with digits enough to merge by, and whether it has enough for everything else too."""
    if backends.trusted(lse, scores.query.dtype):
        return lse, True
    if bool(((lse.abs() > TRUSTED) & (lse != -math.inf)).any()):
        return backends.logsumexp(scores), True
    return lse, False


def logsumexp(share: Share) -> Float[Tensor, "batch heads queries"]:
    """The normaliser of this rank's rows, over the keys of all ranks and the sinks."""
    scores = share.scores
    lse, digits = _nothing_seen(scores), scores.working_dtype
    for owner, moved in share.ring.around(share.moving_keys(), "logsumexp"):
        for block in share.blocks(owner, moved):
            own, before = backends.logsumexp(block.scores.detached()), lse[:, :, block.rows.local]
            digits = torch.promote_types(digits, own.dtype)  # float32 is said to be enough where a kernel gives it
            before.copy_(torch.logaddexp(before, own.double()))
    return lse.to(digits) if scores.sinks is None else with_sinks(scores, lse)


# Reductions


def reduce(share: Share, lse: Float[Tensor, "batch heads queries"], requests: Sequence[Reduction]) -> list[Result]:
    """The reductions asked for, all while the keys go round once."""
    batch, heads, _, _ = share.shape
    made = [_accumulator(share, request) for request in requests]
    per_key = [found for found in made if isinstance(found, _PerKey)]
    edges = next((each.row_edges for each in made if isinstance(each, _Pool)), [0, share.queries.size])
    carrier = Carrier(share.ring, "a reduction", any(keyed.maximum for keyed in per_key))
    for owner, moved in share.ring.around(share.moving_keys(), "a reduction"):
        for keyed in per_key:
            keyed.begin(share.keys.tokens(owner))
        for block in share.blocks(owner, moved):
            data = block.scores.detached()
            for rows in _pieces(block.rows, edges):
                part = data
                if len(rows) < len(block.rows.picked):
                    part = data.select(range(batch), range(heads), rows, range(data.shape[3]))
                here = slice(block.rows.here + rows.start, block.rows.here + rows.stop)
                asked = [each.request(block, here) for each in made]
                unlike = list(dict.fromkeys(asked))  # a pool and what each key receives take the same sums
                found = dict(zip(unlike, backends.reduce(part, lse[:, :, here], unlike), strict=True))
                for each, request in zip(made, asked, strict=True):
                    each.add(block, here, found[request])
        if per_key:
            carrier.add(owner, [share.per_key(keyed.total) for keyed in per_key])
    if per_key:
        for keyed, total in zip(per_key, carrier.home(), strict=True):
            keyed.total = total
    return [each.result() for each in made]


def _pieces(run: Run, edges: Sequence[int]) -> Iterator[range]:
    """A run cut where a bin begins, counted from its first token."""
    first, end = run.indices.start, run.indices.stop
    cuts = [first, *(edge for edge in edges if first < edge < end), end]
    return (range(a - first, b - first) for a, b in pairwise(cuts))


class _Accumulator:
    """What gathers one result from pieces of blocks."""

    def request(self, block: Block, rows: slice) -> Reduction:
        """What it asks of a piece of a block; `rows`: which of this rank's queries these are."""
        raise NotImplementedError

    def add(self, block: Block, rows: slice, found: Result) -> None:
        """Take the answer in."""
        raise NotImplementedError

    def result(self) -> Result:
        """What was asked for, once all blocks are in."""
        raise NotImplementedError


def _accumulator(share: Share, request: Reduction) -> _Accumulator:
    if isinstance(request, Entropy):
        return _Entropy(share)
    if isinstance(request, Top):
        return _Top(share, request.k)
    if isinstance(request, Pool):
        return _Pool(share, request)
    return _Received(share, request) if isinstance(request, Received) else _TransposedProduct(share, request)


class _Entropy(_Accumulator):
    def __init__(self, share: Share):
        scores = share.scores
        self.total = scores.query.new_zeros(scores.shape[:3], dtype=scores.working_dtype)

    def request(self, block: Block, rows: slice) -> Entropy:
        return Entropy()

    def add(self, block: Block, rows: slice, found: Result) -> None:
        assert isinstance(found, Tensor)
        self.total[:, :, rows] += found

    def result(self) -> Float[Tensor, "batch heads queries"]:
        return self.total


class _Top(_Accumulator):
    """The best of each row so far; those of a block are compared with them. Keys are counted in the whole matrix."""

    def __init__(self, share: Share, k: int):
        scores, self.k = share.scores, k
        shape = (*scores.shape[:3], k)
        self.weights = scores.query.new_full(shape, -1.0, dtype=scores.working_dtype)  # below any weight, also 0
        self.keys = scores.query.new_full(shape, -1, dtype=torch.int64)

    def request(self, block: Block, rows: slice) -> Top:
        return Top(min(self.k, len(block.columns.picked)))

    def add(self, block: Block, rows: slice, found: Result) -> None:
        weights, keys = found
        hidden = keys < 0
        weights = torch.cat([self.weights[:, :, rows], weights.masked_fill(hidden, -1.0)], -1)
        keys = torch.cat([self.keys[:, :, rows], (keys + block.columns.index).masked_fill(hidden, -1)], -1)
        self.weights[:, :, rows], order = weights.topk(self.k, -1)
        self.keys[:, :, rows] = keys.gather(-1, order)

    def result(self) -> tuple[Float[Tensor, "batch heads queries k"], Tensor]:
        return self.weights.clamp_min_(0.0), self.keys


class _PerKey(_Accumulator):
    """Sums (or maxima) for the keys of whoever's turn it is; they go round with the keys."""

    maximum = False

    def __init__(self, share: Share, width: tuple[int, ...] = ()):
        scores = share.scores
        self.width, self.leading = width, scores.shape[:2]
        self.total = scores.query.new_zeros(0, dtype=scores.working_dtype)

    def begin(self, keys: int) -> None:
        """Another rank's keys, of which there are so many."""
        self.total = self.total.new_zeros(*self.leading, keys, *self.width)

    def add(self, block: Block, rows: slice, found: Result) -> None:
        assert isinstance(found, Tensor)
        here = self.total[:, :, block.columns.local]
        torch.maximum(here, found, out=here) if self.maximum else here.add_(found)

    def result(self) -> Tensor:
        return self.total


class _Received(_PerKey):
    def __init__(self, share: Share, request: Received):
        super().__init__(share)
        self.maximum = request.reduce == "max"
        self.divide = max(share.queries.size, 1) if request.reduce == "mean" else 1

    def request(self, block: Block, rows: slice) -> Received:
        return Received("max" if self.maximum else "sum")

    def result(self) -> Float[Tensor, "batch heads keys"]:
        return self.total / self.divide


class _TransposedProduct(_PerKey):
    def __init__(self, share: Share, request: TransposedProduct):
        super().__init__(share, (request.operand.shape[-1],))
        self.x = request.operand

    def request(self, block: Block, rows: slice) -> TransposedProduct:
        return TransposedProduct(self.x[:, :, rows])


class _Pool(_Accumulator):
    """Bins of the whole matrix. A piece lies in one bin of rows: what its keys receive goes to the bins of columns."""

    def __init__(self, share: Share, request: Pool):
        batch, heads, queries, keys = share.shape
        self.ring, self.maximum, self.dtype = share.ring, request.reduce == "max", share.scores.working_dtype
        self.row_edges, self.column_edges = bin_edges(queries, request.rows), bin_edges(keys, request.columns)
        device = share.scores.query.device
        self.ends = torch.tensor(self.column_edges[1:], device=device)
        shape = (batch, heads, request.rows, request.columns)
        self.total = torch.zeros(shape, dtype=torch.float64, device=device)  # many small numbers are added up in it

    def request(self, block: Block, rows: slice) -> Received:
        return Received("max" if self.maximum else "sum")

    def add(self, block: Block, rows: slice, found: Result) -> None:
        assert isinstance(found, Tensor)
        index = block.rows.index + rows.start - block.rows.here
        here = self.total[:, :, bisect_right(self.row_edges, index) - 1]
        keys = block.columns.indices
        bins = torch.bucketize(torch.arange(keys.start, keys.stop, device=found.device), self.ends, right=True)
        if self.maximum:
            here.scatter_reduce_(-1, bins.expand(found.shape), found.double(), "amax")
        else:
            here.index_add_(-1, bins, found.double())

    def result(self) -> Float[Tensor, "batch heads rows columns"]:
        total = self.ring.reduce(self.total, "pool", self.maximum)
        if not self.maximum:
            heights, widths = (
                torch.tensor(edges, device=total.device).diff() for edges in (self.row_edges, self.column_edges)
            )
            total = total / (heights[:, None] * widths)
        return total.to(self.dtype)
