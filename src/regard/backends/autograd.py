"""Results that autograd knows: each is a function of (query, key, sinks, biases, operand), differentiated by tiles.

Every result here is a function of the weights p = exp(s - lse). If it pulls each weight with G = dL/dp, then each
masked score receives p × (G - Σ_j p G): the full softmax Jacobian, in which the cached lse is only data. A `Job`
says how its result is computed and how it pulls; the rest is the same for all of them.

A part of the matrix that leaves out keys keeps the normaliser of all keys: it is then an input (`outer`) of its own,
and receives -Σ_j p G instead of the scores.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from regard import backends
from regard.backends import contract, reductions
from regard.backends import tiles as tiled
from regard.backends import torch_cpu as fused
from regard.backends.normaliser import LN2
from regard.backends.tiles import Dropout, Pull, Tile
from regard.backends.triton import backend as triton
from regard.errors import InputError
from regard.scores import Scores

__all__ = ["Attend", "Entropy", "LogSumExp", "Pool", "Received", "Reverse", "attend_gradients", "compute"]


@runtime_checkable
class Job(Protocol):
    """A result of the weights."""

    def run(self, scores: Scores, lse: Tensor | None, outer: bool, operand: Tensor | None) -> tuple[Tensor, Tensor]:
        """(result, lse): without a graph."""

    def pulls(self, scores: Scores, lse: Tensor, operand: Tensor | None, result: Tensor, back: Tensor) -> Pulls:
        """How the result's gradient `back` pulls at the weights."""


@dataclass
class Pulls:
    """dL/dp as a function of the tile, its row sums Σ_j p dL/dp if known, and the operand's own gradient."""

    pull: Pull | None
    row_dot: Tensor | None = None
    operand: Tensor | None = None  # filled while the tiles are walked, where the job has an operand


@dataclass(frozen=True)
class Attend:
    """weights @ value."""

    dropout: Dropout | None = None

    def run(self, scores: Scores, lse: Tensor | None, outer: bool, operand: Tensor | None) -> tuple[Tensor, Tensor]:
        assert operand is not None
        output, own = backends.forward(scores, scores.shielded(operand), self.dropout)
        if not outer:
            return output, own
        assert lse is not None
        return (output * tiled.share(own, lse)[..., None]).to(output.dtype), lse

    def pulls(self, scores: Scores, lse: Tensor, operand: Tensor | None, result: Tensor, back: Tensor) -> Pulls:
        assert operand is not None
        back = back.to(scores.working_dtype)
        value = scores.shielded(operand).to(back.dtype)
        d_value = torch.zeros_like(value, memory_format=torch.contiguous_format)

        def pull(tile: Tile) -> Tensor:
            kept = None if self.dropout is None else self.dropout.factor(tile)
            b = back[tile.batch, tile.heads, tile.rows].reshape(tile.lanes, -1, back.shape[-1])
            v = value[tile.batch, tile.key_heads, tile.columns]
            used = tile.weights if kept is None else tile.weights * kept
            d_v = d_value[tile.batch, tile.key_heads, tile.columns]
            d_v.add_((tile.grouped(used).mT @ b).view(d_v.shape))
            pulled = (b @ v.reshape(tile.lanes, -1, v.shape[-1]).mT).view(tile.weights.shape)
            return pulled if kept is None else pulled * kept

        return Pulls(pull, (back * result).sum(-1), d_value)


@dataclass(frozen=True)
class Reverse:
    """weightsᵀ @ x."""

    def run(self, scores: Scores, lse: Tensor | None, outer: bool, operand: Tensor | None) -> tuple[Tensor, Tensor]:
        assert operand is not None
        assert lse is not None
        reverse = reductions.Reverse(scores, operand)
        backends.reduce(scores, lse, [reverse])
        return reverse.result().to(operand.dtype), lse

    def pulls(self, scores: Scores, lse: Tensor, operand: Tensor | None, result: Tensor, back: Tensor) -> Pulls:
        assert operand is not None
        x, back = operand.to(scores.working_dtype), back.to(scores.working_dtype)
        straight = reductions.Straight(scores, back)
        tiled.sweep(scores, lse, [straight])
        d_x = straight.result()

        def pull(tile: Tile) -> Tensor:
            return x[tile.batch, tile.heads, tile.rows] @ back[tile.batch, tile.heads, tile.columns].mT

        return Pulls(pull, (x * d_x).sum(-1), d_x)


@dataclass(frozen=True)
class Received:
    """The sums or means of the columns."""

    reduce: str

    def run(self, scores: Scores, lse: Tensor | None, outer: bool, operand: Tensor | None) -> tuple[Tensor, Tensor]:
        return _swept(scores, lse, reductions.Received(scores, self.reduce))

    def pulls(self, scores: Scores, lse: Tensor, operand: Tensor | None, result: Tensor, back: Tensor) -> Pulls:
        share = back / max(scores.shape[2], 1) if self.reduce == "mean" else back
        return Pulls(lambda tile: share[tile.batch, tile.heads, None, tile.columns])


@dataclass(frozen=True)
class Entropy:
    """-Σ p log p of the rows."""

    def run(self, scores: Scores, lse: Tensor | None, outer: bool, operand: Tensor | None) -> tuple[Tensor, Tensor]:
        return _swept(scores, lse, reductions.Entropy(scores))

    def pulls(self, scores: Scores, lse: Tensor, operand: Tensor | None, result: Tensor, back: Tensor) -> Pulls:
        def pull(tile: Tile) -> Tensor:
            # Where a weight is 0 its logarithm does not matter, but must not take a large `back` beyond all numbers.
            log2 = tile.log2.clamp_min(-1100.0)
            return -(log2 * LN2 + 1) * back[tile.batch, tile.heads, tile.rows, None]

        return Pulls(pull)


@dataclass(frozen=True)
class Pool:
    """Means over rows × columns bins."""

    rows: int
    columns: int

    def run(self, scores: Scores, lse: Tensor | None, outer: bool, operand: Tensor | None) -> tuple[Tensor, Tensor]:
        return _swept(scores, lse, reductions.Pool(scores, self.rows, self.columns, "mean"))

    def pulls(self, scores: Scores, lse: Tensor, operand: Tensor | None, result: Tensor, back: Tensor) -> Pulls:
        bins, areas = [], []
        for size, count in ((scores.shape[2], self.rows), (scores.shape[3], self.columns)):
            widths = torch.tensor(reductions.edges(size, count), device=back.device).diff()
            bins.append(torch.repeat_interleave(widths))
            areas.append(widths)
        share = back / (areas[0][:, None] * areas[1])

        def pull(tile: Tile) -> Tensor:
            return share[tile.batch, tile.heads][:, :, bins[0][tile.rows]][..., bins[1][tile.columns]]

        return Pulls(pull)


@dataclass(frozen=True)
class LogSumExp:
    """The normaliser itself; its gradient is the weights."""

    def run(self, scores: Scores, lse: Tensor | None, outer: bool, operand: Tensor | None) -> tuple[Tensor, Tensor]:
        assert lse is not None
        return lse.clone(), lse

    def pulls(self, scores: Scores, lse: Tensor, operand: Tensor | None, result: Tensor, back: Tensor) -> Pulls:
        return Pulls(None, -back)


def _swept(scores: Scores, lse: Tensor | None, reduction: Any) -> tuple[Tensor, Tensor]:
    assert lse is not None
    backends.reduce(scores, lse, [reduction])
    return reduction.result(), lse


def compute(
    job: Job, scores: Scores, lse: Tensor | None = None, outer: Tensor | None = None, operand: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """(the job's result, differentiable; the normaliser, as data)."""
    sinks = scores.sinks if outer is None else None
    tensors = (outer, scores.query, scores.key, sinks, operand, *scores.mask.biases)
    if torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in tensors):
        result, lse = _Streamed.apply(job, scores, lse, *tensors)  # type: ignore[no-untyped-call]
        return result, lse
    return _run(job, scores.detached(), lse, outer, operand)


def _run(
    job: Job, data: Scores, lse: Tensor | None, outer: Tensor | None, operand: Tensor | None
) -> tuple[Tensor, Tensor]:
    if outer is not None:
        data, lse = replace(data, sinks=None), outer.detach()
    return job.run(data, lse, outer is not None, None if operand is None else operand.detach())


class _Streamed(torch.autograd.Function):
    @staticmethod
    def forward(  # type: ignore[override]
        ctx: Any, job: Job, scores: Scores, lse: Tensor | None, outer: Tensor | None, *tensors: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        data = scores.detached()
        result, lse = _run(job, data, lse, outer, tensors[3])
        if outer is not None:
            data = replace(data, sinks=None)
        ctx.job, ctx.scores, ctx.outer = job, data, outer is not None
        ctx.save_for_backward(lse, result, *tensors)
        ctx.mark_non_differentiable(lse)
        ctx.set_materialize_grads(False)
        return result, lse

    @staticmethod
    def backward(ctx: Any, back: Tensor | None, _: Tensor | None) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():  # create_graph=True: the results below would count as constants, silently
            raise InputError(
                "regard's gradients are of first order: create_graph=True cannot go through them. "
                "For a second derivative write this step in plain torch: softmax(query @ key.mT * scale) @ value."
            )
        if back is None:
            return (None,) * len(ctx.needs_input_grad)
        lse, result, _query, _key, sinks, operand, *biases = ctx.saved_tensors  # raises if one was changed in place
        wanted = ctx.needs_input_grad
        if isinstance(ctx.job, Attend):
            grads = attend_gradients(ctx.job, ctx.scores, lse, operand, result, back, ctx.outer, any(wanted[8:]))
        else:
            grads = _gradients(ctx.job, ctx.scores, lse, operand, result, back, ctx.outer)
        like = (lse, _query, _key, sinks, operand, *biases)
        cast = [None if g is None or t is None else g.to(t.dtype) for g, t in zip(grads, like, strict=True)]
        return None, None, None, *(g if need else None for g, need in zip(cast, wanted[3:], strict=True))


def attend_gradients(
    job: Attend, scores: Scores, lse: Tensor, value: Tensor, output: Tensor, back: Tensor, outer: bool, biased: bool
) -> list[Tensor | None]:
    """Gradients of (outer, query, key, sinks, value, *biases), by the fused kernel where it can."""
    on_cpu, dtype = fused.suits(scores), scores.query.dtype
    asked = contract.Attend(value)
    on_gpu = not on_cpu and triton.supports(scores, asked, gradient=True, biases=biased)
    if dtype == torch.float32 and not (on_cpu or outer or tiled.trusted(lse, dtype)):
        lse = backends.logsumexp(scores)  # the forward's own has too few digits; halves have no more than that
    by_tiles = biased or job.dropout is not None
    if by_tiles or not (on_gpu or on_cpu):
        return _gradients(job, scores, lse, value, output, back, outer)
    scores = scores.seeing(lse)
    needed = not on_gpu and (outer or scores.sinks is not None)
    row_dot = (back.to(lse.dtype) * output).sum(-1) if needed else None  # in the wider dtype: it soon overflows halves
    shielded = scores.shielded(value)
    if on_gpu:
        found = triton.backward(scores, contract.Attend(shielded), output, lse, back, subtract=not outer)
        d_query, d_key, d_value, row_dot = found.query, found.key, found.operand, found.row_dot
    else:
        seen = torch.zeros_like(output) if outer else output  # with nothing to subtract, the kernel gives p × G
        d_query, d_key, d_value = fused.backward(scores, shielded, seen, lse, back)
    d_outer = -row_dot if outer and row_dot is not None else None
    d_biases = [None] * len(scores.mask.biases)
    return [d_outer, d_query, d_key, _sink_gradient(scores, lse, row_dot), d_value, *d_biases]


def _gradients(
    job: Job, scores: Scores, lse: Tensor, operand: Tensor | None, result: Tensor, back: Tensor, outer: bool
) -> list[Tensor | None]:
    scores = scores.seeing(lse)
    near = backends.for_tiles(scores, lse)
    pulls = job.pulls(scores, near, operand, result, back)
    row_dot = pulls.row_dot
    if row_dot is None:
        assert pulls.pull is not None
        summed = reductions.RowDot(scores, pulls.pull)
        tiled.sweep(scores, near, [summed])
        row_dot = summed.result()
    row_dot = row_dot.to(scores.working_dtype)
    d_query, d_key, d_biases = tiled.backward(scores, near, pulls.pull, None if outer else -row_dot)
    return [-row_dot if outer else None, d_query, d_key, _sink_gradient(scores, lse, row_dot), pulls.operand, *d_biases]


def _sink_gradient(scores: Scores, lse: Tensor, row_dot: Tensor | None) -> Tensor | None:
    """A sink has a weight but no pull: it only gives back its share of the row."""
    if scores.sinks is None or row_dot is None:
        return None
    return -(tiled.share(scores.sinks.to(lse.dtype)[..., None], lse) * row_dot).sum(-1)
