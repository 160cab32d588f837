"""`Check`: a sample of the recorded weights, computed again as softmax(QKᵀ · scale + mask) in float64."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.scores import bind
from regard.support import Float
from regard.watching.entries import Entry

__all__ = ["Check", "compare"]


@dataclass(frozen=True)
class Check:
    """How far the weights of a record are from the dense computation, and how much was compared."""

    entries: int
    heads: int
    calls: int
    rows: int
    difference: float  # of any weight, at most
    row_sum: float  # of the sum of any row from 1 - the share of its sink, at most

    def __str__(self) -> str:
        return (
            f"{self.entries} attentions, {self.heads} heads, {self.calls} calls. "
            f"{self.rows:,} rows computed again in float64: weights differ by {self.difference:.1e} at most, "
            f"rows sum to 1 within {self.row_sum:.1e}."
        )


def compare(entries: Sequence[Entry], rows: int) -> Check:
    """Compare some rows of every head with softmax(QKᵀ · scale + mask), written out."""
    count, difference, row_sum = 0, 0.0, 0.0
    for entry in entries:
        batch, heads, queries, _ = entry.shape
        sample = torch.linspace(0, max(queries - 1, 0), min(rows, queries)).round().long().unique()  # type: ignore[no-untyped-call]
        exact, sums = _dense_rows(entry, sample)
        ours = torch.stack([entry.matrix[:, :, row] for row in sample.tolist()], 2).double().cpu()
        difference = max(difference, float((ours - exact).abs().max()))
        row_sum = max(row_sum, float((ours.sum(-1) - sums).abs().max()))
        count += batch * heads * len(sample)
    heads = sum(entry.shape[1] for entry in entries)
    return Check(len(entries), heads, sum(entry.calls for entry in entries), count, difference, row_sum)


def _dense_rows(entry: Entry, rows: Tensor) -> tuple[Float[Tensor, "batch heads rows keys"], Tensor]:
    """The weights of these rows, and what each row sums to."""
    _ = entry.matrix  # raises where only reductions were kept
    call = entry.call
    assert call is not None
    positions = rows.to(call.query.device)
    heads = slice(entry.heads.start, entry.heads.stop)
    group = call.query.shape[1] // call.key.shape[1]
    query = call.query[:, heads].index_select(2, positions).double()
    key = call.key.repeat_interleave(group, 1)[:, heads].double()
    scores = query @ key.mT * (query.shape[-1] ** -0.5 if call.scale is None else call.scale)
    if call.softcap is not None:
        scores = call.softcap * torch.tanh(scores / call.softcap)
    shape = (*call.query.shape[:3], key.shape[2])
    mask, keys = bind(call.mask, shape, call.query.device, plain=False), range(shape[3])
    if (bias := mask.bias_tile(positions, keys)) is not None:
        scores = scores + (bias if bias.shape[1] == 1 else bias[:, heads])
    if (visible := mask.tile(positions, keys, call.query.device)) is not None:
        scores = scores.masked_fill(~(visible if visible.shape[1] == 1 else visible[:, heads]), -math.inf)
    if call.sinks is not None:
        sinks = call.sinks.double().expand(shape[0], shape[1])[:, heads, None, None]
        scores = torch.cat([scores, sinks.expand(*scores.shape[:3], 1)], -1)
    weights = torch.softmax(scores, -1).nan_to_num(0.0)  # a row that sees no key
    weights = weights if call.sinks is None else weights[..., :-1]
    return weights.cpu(), weights.sum(-1).cpu()
