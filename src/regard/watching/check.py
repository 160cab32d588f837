"""`Check`: a sample of what was seen, computed again in the plainest way."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.scores import bind
from regard.support import Float
from regard.watching.entry import Entry

__all__ = ["Check", "checked"]


@dataclass(frozen=True)
class Check:
    """How far the weights of a record are from the dense computation, and what was counted."""

    entries: int
    heads: int
    calls: int
    rows: int
    difference: float  # the greatest, of any weight
    row_sum: float  # the greatest distance of a row's sum from 1 less its sink's share

    def __str__(self) -> str:
        return (
            f"{self.entries} attentions, {self.heads} heads, {self.calls} calls. "
            f"{self.rows:,} rows computed again in float64: weights differ by {self.difference:.1e} at most, "
            f"rows sum to 1 within {self.row_sum:.1e}."
        )


def checked(entries: Sequence[Entry], rows: int) -> Check:
    """Compare some rows of every head with softmax(QKᵀ · scale + mask), written out."""
    count, difference, off = 0, 0.0, 0.0
    for entry in entries:
        batch, heads, queries, _ = entry.shape
        chosen = torch.linspace(0, max(queries - 1, 0), min(rows, queries)).round().long().unique()  # type: ignore[no-untyped-call]
        exact, sums = _plainly(entry, chosen)
        ours = torch.stack([entry.matrix[:, :, row] for row in chosen.tolist()], 2).double().cpu()
        difference = max(difference, float((ours - exact).abs().max()))
        off = max(off, float((ours.sum(-1) - sums).abs().max()))
        count += batch * heads * len(chosen)
    heads = sum(entry.shape[1] for entry in entries)
    return Check(len(entries), heads, sum(entry.calls for entry in entries), count, difference, off)


def _plainly(entry: Entry, rows: Tensor) -> tuple[Float[Tensor, "batch heads rows keys"], Tensor]:
    """The weights of these rows, and what each row sums to."""
    _ = entry.matrix  # where only reductions were kept, this says so
    source = entry.source
    assert source is not None
    places = rows.to(source.query.device)
    heads = slice(entry.heads.start, entry.heads.stop)
    group = source.query.shape[1] // source.key.shape[1]
    query = source.query[:, heads].index_select(2, places).double()
    key = source.key.repeat_interleave(group, 1)[:, heads].double()
    scores = query @ key.mT * (query.shape[-1] ** -0.5 if source.scale is None else source.scale)
    if source.softcap is not None:
        scores = source.softcap * torch.tanh(scores / source.softcap)
    shape = (*source.query.shape[:3], key.shape[2])
    mask, every = bind(source.mask, shape, source.query.device, plain=False), range(shape[3])
    if (bias := mask.bias_tile(places, every)) is not None:
        scores = scores + (bias if bias.shape[1] == 1 else bias[:, heads])
    if (seen := mask.tile(places, every, source.query.device)) is not None:
        scores = scores.masked_fill(~(seen if seen.shape[1] == 1 else seen[:, heads]), -math.inf)
    if source.sinks is not None:
        sinks = source.sinks.double().expand(shape[0], shape[1])[:, heads, None, None]
        scores = torch.cat([scores, sinks.expand(*scores.shape[:3], 1)], -1)
    weights = torch.softmax(scores, -1).nan_to_num(0.0)  # a row that sees nothing
    weights = weights if source.sinks is None else weights[..., :-1]
    return weights.cpu(), weights.sum(-1).cpu()
