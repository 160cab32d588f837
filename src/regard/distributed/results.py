"""The results of a matrix in shards, computed block by block while tensors travel round the ring.

The parts of a product are merged by their logsumexp. A result per query is summed on the rank of the query. A result
per key travels with the keys and returns to their rank. A pool is summed over all ranks. For a slice the queries
travel, and each rank computes the columns of its keys.

In the backward pass the keys travel again, with their gradients. As on one device, each masked score receives
p × (dL/dp - Σ_j p dL/dp). A product knows that sum from its output. For all other results, and for parts that leave
out keys, the normaliser is an input (`outer`): it receives -Σ_j p dL/dp, and is itself a differentiable function of all
keys.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from regard import backends
from regard.backends import (
    Attend,
    Backward,
    Entropy,
    LogSumExp,
    Pool,
    Received,
    Reduction,
    Request,
    Result,
    Top,
    TransposedProduct,
)
from regard.backends.chooser import backward, shielded
from regard.backends.contract import TRUSTED, Gradients, with_operand, with_sinks
from regard.backends.tiles.reductions import bin_edges
from regard.distributed.ring import Carrier, Moving
from regard.distributed.share import Block, Run, Share, shifted
from regard.errors import InputError
from regard.matrix.normalised import dense_weights, without_graph
from regard.scores import BoundMask, Scores, take
from regard.support import Float

# Products and normalisers


def attend(
    share: Share, value: Float[Tensor, "batch key_heads keys width"]
) -> tuple[Float[Tensor, "batch heads queries width"], Float[Tensor, "batch heads queries"], bool]:
    """(weights @ value, normaliser, whether the normaliser is precise enough for every other result)."""
    scores, precise, dtype = share.scores, True, share.scores.working_dtype
    output = value.new_zeros(*scores.shape[:3], value.shape[-1], dtype=dtype)
    lse = scores.query.new_full(scores.shape[:3], -math.inf, dtype=torch.float64)
    moving = [*share.moving_keys(), share.per_key(value)]
    for owner, moved in share.ring.around(moving, "A @ value"):
        for block in share.blocks(owner, moved):
            data, rows = block.scores.detached(), block.rows.local
            part, block_lse = backends.compute(data, Attend(moved[-1][:, :, block.columns.local]))
            if not backends.trusted(block_lse, data.query.dtype):
                if bool(((block_lse.abs() > TRUSTED) & (block_lse != -math.inf)).any()):
                    block_lse = backends.logsumexp(data)  # the kernel's is too coarse to merge by
                else:
                    precise = False
            dtype = torch.promote_types(dtype, block_lse.dtype)
            lse_before, output_rows = lse[:, :, rows], output[:, :, rows]
            lse_after = torch.logaddexp(lse_before, block_lse.double())
            output_rows.mul_(backends.share(lse_before, lse_after)[..., None])
            output_rows.add_(part * backends.share(block_lse.double(), lse_after)[..., None].to(output.dtype))
            lse_before.copy_(lse_after)
    if scores.sinks is None:
        return output.to(scores.query.dtype), lse.to(dtype), precise
    widened = with_sinks(scores, lse)  # in float64: a sink may be large
    return output.mul_(backends.share(lse, widened)[..., None]).to(scores.query.dtype), widened, precise


def logsumexp(share: Share) -> Float[Tensor, "batch heads queries"]:
    """The normaliser of this rank's rows, over the keys of all ranks and the sinks."""
    scores, dtype = share.scores, share.scores.working_dtype
    lse = scores.query.new_full(scores.shape[:3], -math.inf, dtype=torch.float64)
    for owner, moved in share.ring.around(share.moving_keys(), "logsumexp"):
        for block in share.blocks(owner, moved):
            block_lse, rows = backends.logsumexp(block.scores.detached()), lse[:, :, block.rows.local]
            dtype = torch.promote_types(dtype, block_lse.dtype)  # float32 where that was precise enough for the kernel
            rows.copy_(torch.logaddexp(rows, block_lse.double()))
    return lse.to(dtype) if scores.sinks is None else with_sinks(scores, lse)


# Reductions


def reduce(share: Share, lse: Float[Tensor, "batch heads queries"], requests: Sequence[Reduction]) -> list[Result]:
    """Several reductions while the keys travel round the ring once."""
    batch, heads, _, _ = share.shape
    accumulators = [_accumulator(share, request) for request in requests]
    per_key = [each for each in accumulators if isinstance(each, _PerKey)]
    edges = next((each.row_edges for each in accumulators if isinstance(each, _Pool)), [0, share.queries.size])
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
                local = slice(block.rows.here + rows.start, block.rows.here + rows.stop)
                needed = [each.request(block, local) for each in accumulators]
                distinct = list(dict.fromkeys(needed))  # a pool and `Received` need the same sums
                answers = dict(zip(distinct, backends.reduce(part, lse[:, :, local], distinct), strict=True))
                for each, request in zip(accumulators, needed, strict=True):
                    each.add(block, local, answers[request])
        if per_key:
            carrier.add(owner, [share.per_key(keyed.total) for keyed in per_key])
    if per_key:
        for keyed, total in zip(per_key, carrier.home(), strict=True):
            keyed.total = total
    return [each.result() for each in accumulators]


def _pieces(run: Run, edges: Sequence[int]) -> Iterator[range]:
    """A run split where a bin begins, counted from its first token."""
    first, end = run.indices.start, run.indices.stop
    cuts = [first, *(edge for edge in edges if first < edge < end), end]
    return (range(a - first, b - first) for a, b in pairwise(cuts))


# Each class below gathers one result: `request` says what to compute of a piece of a block, `add` takes the answer in.
# `rows` are the queries of the piece among those of this rank.


class _Entropy:
    def __init__(self, share: Share):
        scores = share.scores
        self.total = scores.query.new_zeros(scores.shape[:3], dtype=scores.working_dtype)

    def request(self, block: Block, rows: slice) -> Entropy:
        return Entropy()

    def add(self, block: Block, rows: slice, answer: Result) -> None:
        assert isinstance(answer, Tensor)
        self.total[:, :, rows] += answer

    def result(self) -> Float[Tensor, "batch heads queries"]:
        return self.total


class _Top:
    """The k largest weights of each row so far. Keys are counted in the whole matrix."""

    def __init__(self, share: Share, k: int):
        scores, self.k = share.scores, k
        shape = (*scores.shape[:3], k)
        self.weights = scores.query.new_full(shape, -1.0, dtype=scores.working_dtype)  # below any weight, also 0
        self.keys = scores.query.new_full(shape, -1, dtype=torch.int64)

    def request(self, block: Block, rows: slice) -> Top:
        return Top(min(self.k, len(block.columns.picked)))

    def add(self, block: Block, rows: slice, answer: Result) -> None:
        weights, keys = answer
        hidden = keys < 0
        weights = torch.cat([self.weights[:, :, rows], weights.masked_fill(hidden, -1.0)], -1)
        keys = torch.cat([self.keys[:, :, rows], (keys + block.columns.index).masked_fill(hidden, -1)], -1)
        self.weights[:, :, rows], order = weights.topk(self.k, -1)
        self.keys[:, :, rows] = keys.gather(-1, order)

    def result(self) -> tuple[Float[Tensor, "batch heads queries k"], Tensor]:
        return self.weights.clamp_min_(0.0), self.keys


class _PerKey:
    """Sums or maxima for the keys of one rank after the other; they travel with these keys."""

    def __init__(self, share: Share, request: Received | TransposedProduct):
        scores, self.operand = share.scores, request.operand
        self.maximum = request == Received("max")
        self.divisor = max(share.queries.size, 1) if request == Received("mean") else 1
        self.leading, self.width = scores.shape[:2], () if self.operand is None else self.operand.shape[-1:]
        self.total = scores.query.new_zeros(0, dtype=scores.working_dtype)

    def begin(self, keys: int) -> None:
        """Begin with the keys of another rank."""
        self.total = self.total.new_zeros(*self.leading, keys, *self.width)

    def request(self, block: Block, rows: slice) -> Received | TransposedProduct:
        if self.operand is not None:
            return TransposedProduct(self.operand[:, :, rows])
        return Received("max" if self.maximum else "sum")

    def add(self, block: Block, rows: slice, answer: Result) -> None:
        assert isinstance(answer, Tensor)
        total = self.total[:, :, block.columns.local]
        torch.maximum(total, answer, out=total) if self.maximum else total.add_(answer)

    def result(self) -> Tensor:
        return self.total / self.divisor


class _Pool:
    """Bins of the whole matrix. A piece lies in one bin of rows; the sums of its keys go to the bins of columns."""

    def __init__(self, share: Share, request: Pool):
        batch, heads, queries, keys = share.shape
        self.ring, self.maximum, self.dtype = share.ring, request.reduce == "max", share.scores.working_dtype
        self.row_edges, self.column_edges = bin_edges(queries, request.rows), bin_edges(keys, request.columns)
        device = share.scores.query.device
        self.ends = torch.tensor(self.column_edges[1:], device=device)
        shape = (batch, heads, request.rows, request.columns)
        self.total = torch.zeros(shape, dtype=torch.float64, device=device)  # sums of many small numbers

    def request(self, block: Block, rows: slice) -> Received:
        return Received("max" if self.maximum else "sum")

    def add(self, block: Block, rows: slice, answer: Result) -> None:
        assert isinstance(answer, Tensor)
        index = block.rows.index + rows.start - block.rows.here
        row = self.total[:, :, bisect_right(self.row_edges, index) - 1]
        keys = block.columns.indices
        bins = torch.bucketize(torch.arange(keys.start, keys.stop, device=answer.device), self.ends, right=True)
        if self.maximum:
            row.scatter_reduce_(-1, bins.expand(answer.shape), answer.double(), "amax")
        else:
            row.index_add_(-1, bins, answer.double())

    def result(self) -> Float[Tensor, "batch heads rows columns"]:
        total = self.ring.reduce(self.total, "pool", self.maximum)
        if not self.maximum:
            edges = (self.row_edges, self.column_edges)
            heights, widths = (torch.tensor(each, device=total.device).diff() for each in edges)
            total = total / (heights[:, None] * widths)
        return total.to(self.dtype)


def _accumulator(share: Share, request: Reduction) -> _Entropy | _Top | _PerKey | _Pool:
    if isinstance(request, Entropy):
        return _Entropy(share)
    if isinstance(request, Top):
        return _Top(share, request.k)
    return _Pool(share, request) if isinstance(request, Pool) else _PerKey(share, request)


# Slices


def dense(
    share: Share, stage: str, lse: Float[Tensor, "batch heads queries"] | None
) -> Float[Tensor, "batch heads all_queries all_keys"]:
    """One whole stage or, with the normaliser of these rows, the weights: the same on all ranks."""
    scores, ring, queries, mask = share.scores, share.ring, share.queries, share.scores.mask
    batch, heads, _, keys = scores.shape
    lengths = [queries.tokens(rank) for rank in range(ring.size)]
    rows = [scores.query.detach(), *([] if lse is None else [lse.double()])]  # one dtype on all ranks
    per_query = [*(of_queries for of_queries, _ in mask.ids), *(cut.queries for cut in mask.cuts)]
    rows += [_picked(tensor.detach(), share) for tensor in (*per_query, *mask.visible, *mask.biases)]
    columns = scores.query.new_empty(batch, heads, queries.size, keys)
    for owner, moved in ring.around([Moving(tensor, 2, lengths) for tensor in rows], "A[…]"):
        for run in queries.runs[owner]:
            for key_run in share.keys.runs[ring.rank]:
                block = _with_dense_mask(share, run, key_run, moved[0], moved[1 if lse is None else 2 :])
                numbers = block.stage(stage) if lse is None else dense_weights(block, moved[1][:, :, run.local])
                columns[:, :, run.index : run.index + len(run.picked), key_run.local] = numbers.to(columns.dtype)
    whole = scores.query.new_empty(batch, heads, queries.size, share.keys.size)
    lengths = [share.keys.tokens(rank) for rank in range(ring.size)]
    for owner, part in enumerate(ring.collect(Moving(columns, 3, lengths), "A[…]")):
        share.keys.put(owner, whole, part, 3)
    return whole


def _picked(tensor: Tensor, share: Share) -> Tensor:
    """The rows of a tensor of the mask that belong to the picked queries."""
    runs = share.rows
    if tensor.shape[2] == 1:  # one row for all queries, or a single query
        return tensor.expand(-1, -1, sum(len(run.picked) for run in runs), -1)
    rows = [tensor[:, :, shifted(run.picked, run.offset)] for run in runs]
    return torch.cat(rows, 2) if rows else tensor[:, :, :0]


def _with_dense_mask(share: Share, rows: Run, columns: Run, query: Tensor, per_query: list[Tensor]) -> Scores:
    """A run of any rank's queries × a run of this rank's keys; all parts of the mask become tensors of that shape."""
    scores, mask, device = share.scores, share.scores.mask, query.device
    per_query = [tensor[:, :, rows.local] for tensor in per_query]
    keys, positions = shifted(columns.picked, columns.offset), columns.positions
    visible = [BoundMask(bands=mask.bands).tile(rows.positions, positions, device)] if mask.bands else []
    visible += [kept[..., keys] for kept in mask.kept]
    places = torch.arange(positions.start, positions.stop, positions.step, device=device)
    visible += [places < length for length in share.lengths]
    visible += [ids == key_ids[..., keys] for ids, (_, key_ids) in zip(per_query, mask.ids, strict=False)]
    first_dense = len(mask.ids) + len(mask.cuts)
    tiles = [take(tensor, 3, positions) for tensor in per_query[first_dense:]]
    visible, biases = [*visible, *tiles[: len(mask.visible)]], tiles[len(mask.visible) :]
    for cut, cut_rows in zip(mask.cuts, per_query[len(mask.ids) : first_dense], strict=True):
        is_cut = cut_rows & cut.keys[..., keys]
        band = None if cut.band is None else BoundMask(bands=(cut.band,)).tile(rows.positions, positions, device)
        is_cut = is_cut if band is None else is_cut & band
        if cut.bias == -math.inf:
            visible.append(~is_cut)
        else:
            biases.append(torch.where(is_cut, cut.bias, 0.0).to(scores.working_dtype))
    block_mask = BoundMask(visible=tuple(t for t in visible if t is not None), biases=tuple(biases))
    query, key = query[:, :, rows.local], scores.key.detach()[:, :, columns.local]
    sizes: Any = {"rows": range(len(rows.picked)), "columns": range(len(columns.picked))}
    return replace(scores, query=query, key=key, mask=block_mask, sinks=None, **sizes)


# Gradients


def compute(
    share: Share, request: Request, lse: Tensor | None = None, *, outer: bool = False
) -> tuple[Tensor, Tensor, bool]:
    """(result, normaliser, whether the normaliser is precise enough for every other result), without a graph.

    Only `Attend` computes the normaliser; with `outer`, `lse` covers more keys than this share.
    """
    if isinstance(request, Attend):
        output, share_lse, precise = attend(share, request.operand)
        if not outer:
            return output, share_lse, precise
        assert lse is not None
        return (output * backends.share(share_lse, lse)[..., None]).to(output.dtype), lse, True
    assert lse is not None
    if isinstance(request, LogSumExp):
        return lse.clone(), lse, True
    (result,) = reduce(share, lse, [request])
    assert isinstance(result, Tensor)
    return (result.to(request.operand.dtype) if isinstance(request, TransposedProduct) else result), lse, True


def differentiable(
    share: Share, request: Request, lse: Tensor | None = None, outer: Tensor | None = None
) -> tuple[Tensor, Tensor, bool]:
    """`compute` with a graph; the normaliser comes as data."""
    scores = share.scores
    if outer is not None:
        share = replace(share, scores=replace(scores, sinks=None))
    tensors = (outer, scores.query, scores.key, share.scores.sinks, request.operand, *scores.mask.biases)
    results: tuple[Tensor, Tensor, bool] = _OverRanks.apply(request, share, lse, *tensors)  # type: ignore[no-untyped-call]
    return results


class _OverRanks(torch.autograd.Function):
    @staticmethod
    def forward(  # type: ignore[override]
        ctx: Any, request: Request, share: Share, lse: Tensor | None, *tensors: Tensor | None
    ) -> tuple[Tensor, Tensor, bool]:
        outer, operand = tensors[0], tensors[4]
        if outer is not None:
            lse = outer.detach()
        detached = with_operand(request, None if operand is None else operand.detach())
        result, lse, precise = compute(share, detached, lse, outer=outer is not None)
        ctx.share = replace(share, scores=without_graph(share.scores))
        ctx.request = with_operand(request, torch.empty(0, 0, 0, 0))  # the operand is saved below, not twice
        ctx.save_for_backward(lse, result, *tensors)
        ctx.mark_non_differentiable(lse)
        return result, lse, precise

    @staticmethod
    def backward(ctx: Any, grad: Tensor, *_: Any) -> tuple[Tensor | None, ...]:
        share, needed = ctx.share, ctx.needs_input_grad[3:]

        def prepare() -> tuple[Sequence[Any], dict[str, Any]]:
            if torch.is_grad_enabled():  # create_graph=True would silently take the gradients for constants
                raise InputError(
                    "regard's gradients are of first order: create_graph=True cannot go through them. "
                    "Write this step in plain torch, on one rank."
                )
            return ctx.saved_tensors, {}  # raises if a tensor was modified in place

        saved, _ = share.ring.agree(f"the gradient of {type(ctx.request).__name__}", prepare)
        lse, result, outer, query, key, sinks, operand, *biases = saved
        request = with_operand(ctx.request, operand)
        task = Backward(request, result, lse, grad, subtract=outer is None, biases=any(needed[5:]))
        totals = _gradients(share, task)
        if isinstance(request, Attend):
            row_dot = (grad.to(lse.dtype) * result).sum(-1)  # float16 would overflow
        else:
            row_dot = -grad.to(lse.dtype) if isinstance(request, LogSumExp) else totals.row_dot
        d_sinks = None
        if sinks is not None:  # a sink has a weight, and its value is 0
            d_sinks = -(backends.share(sinks.to(lse.dtype)[..., None], lse) * row_dot).sum(-1)
        d_outer = None if outer is None else -row_dot
        grads = (d_outer, totals.query, totals.key, d_sinks, totals.operand, *(totals.biases or [None] * len(biases)))
        inputs = (outer, query, key, sinks, operand, *biases)
        cast = [None if g is None or t is None else g.to(t.dtype) for g, t in zip(grads, inputs, strict=True)]
        return None, None, None, *(g if need else None for g, need in zip(cast, needed, strict=True))


def _gradients(share: Share, task: Backward) -> Gradients:
    """The gradients for this rank's tokens, from the queries of all ranks."""
    scores, ring, call = share.scores, share.ring, "the backward pass"
    query, dtype, request = scores.query, scores.working_dtype, task.request
    d_query = torch.zeros_like(query, dtype=dtype, memory_format=torch.contiguous_format)
    d_biases = [torch.zeros_like(bias, dtype=dtype) for bias in scores.mask.biases] if task.biases else []
    row_dot = query.new_zeros(scores.shape[:3], dtype=dtype)
    d_x = torch.zeros_like(request.operand, dtype=dtype) if isinstance(request, TransposedProduct) else None
    extra: list[Tensor] = []  # travels with the keys: values, or the gradients of a result per key
    if isinstance(request, Attend):
        extra = [request.operand.detach()]
    elif isinstance(request, Received | TransposedProduct):
        extra = [task.grad]
    carrier = Carrier(ring, call)
    for owner, moved in ring.around([*share.moving_keys(), *map(share.per_key, extra)], call):
        key, last = moved[0], moved[-1]
        d_key = torch.zeros_like(key, dtype=dtype)
        d_value = torch.zeros_like(last, dtype=dtype) if isinstance(request, Attend) else None
        for block in share.blocks(owner, moved):
            rows, columns = block.rows.local, block.columns.local
            part = _block_gradients(block, task, last)
            d_query[:, :, rows] += part.query
            d_key[:, :, columns] += part.key
            if d_value is not None and part.operand is not None:
                d_value[:, :, columns] += part.operand
            if d_x is not None and part.operand is not None:
                d_x[:, :, rows] += part.operand
            if part.row_dot is not None:
                row_dot[:, :, rows] += part.row_dot
            for total, part_bias in zip(d_biases, part.biases, strict=True) if task.biases else ():
                first, start = block.rows.offset, block.columns.start
                of_rows = take(total, 2, range(first, first + block.rows.length))
                take(of_rows, 3, range(start, start + block.columns.length)).add_(part_bias)
        carrier.add(owner, [share.per_key(total) for total in (d_key, d_value) if total is not None])
    home = carrier.home()
    return Gradients(d_query, home[0], home[1] if isinstance(request, Attend) else d_x, tuple(d_biases), row_dot)


def _block_gradients(block: Block, task: Backward, moved: Tensor) -> Gradients:
    """The gradients of one block; `moved`: the values or the gradients that travelled with its keys."""
    request, result, grad = task.request, task.result, task.grad
    rows, columns = block.rows.local, block.columns.local
    lse = task.lse[:, :, rows]
    scores = block.scores.detached().seeing(lse)
    part: Request = request
    if isinstance(request, Attend):
        part = shielded(scores, replace(request, operand=moved[:, :, columns]))
    elif isinstance(request, TransposedProduct):
        part = replace(request, operand=request.operand.detach()[:, :, rows])
    if isinstance(request, Received | TransposedProduct):
        result, grad = result[:, :, :0], moved[:, :, columns]  # the result of the keys is not needed
    else:
        result, grad = result[:, :, rows], grad[:, :, rows]
    return backward(scores, replace(task, request=part, result=result, lse=lse, grad=grad))
