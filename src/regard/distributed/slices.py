"""`A[…]` of a matrix in shards: the queries that are asked for go round, and every rank computes its own columns."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor

from regard.distributed.layout import Run
from regard.distributed.ring import Moving
from regard.distributed.share import Share
from regard.matrix.normalised import dense_weights
from regard.scores import BoundMask, Scores, take
from regard.support import Float

__all__ = ["dense"]


def dense(
    share: Share, stage: str, lse: Float[Tensor, "batch heads queries"] | None
) -> Float[Tensor, "batch heads all_queries all_keys"]:
    """All of one stage, or of the "weights" with the normaliser of these rows, the same on all ranks."""
    scores, ring, queries = share.scores, share.ring, share.queries
    batch, heads, _, keys = scores.shape
    lengths = [queries.tokens(rank) for rank in range(ring.size)]
    rows = [scores.query.detach(), *([] if lse is None else [lse.double()])]  # one dtype on all ranks
    rows += [_picked(tensor.detach(), share) for tensor in _query_side(scores.mask)]
    columns = scores.query.new_empty(batch, heads, queries.size, keys)
    for owner, moved in ring.around([Moving(tensor, 2, lengths) for tensor in rows], "A[…]"):
        for run in queries.runs[owner]:
            for own in share.keys.runs[ring.rank]:
                block = _block(share, run, own, moved[0], moved[1 if lse is None else 2 :])
                found = block.stage(stage) if lse is None else dense_weights(block, moved[1][:, :, run.local])
                columns[:, :, run.index : run.index + len(run.picked), own.local] = found.to(columns.dtype)
    whole = scores.query.new_empty(batch, heads, queries.size, share.keys.size)
    lengths = [share.keys.tokens(rank) for rank in range(ring.size)]
    for owner, part in enumerate(ring.collect(Moving(columns, 3, lengths), "A[…]")):
        share.keys.put(owner, whole, part, 3)
    return whole


def _query_side(mask: BoundMask) -> list[Tensor]:
    return [*(mine for mine, _ in mask.ids), *(cut.queries for cut in mask.cuts), *mask.visible, *mask.biases]


def _picked(tensor: Tensor, share: Share) -> Tensor:
    """What a mask says of the queries that are picked, not of all: one row of a bias, where one row is asked for."""
    runs = share.rows
    if tensor.shape[2] == 1:  # one for all, or there is but one
        return tensor.expand(-1, -1, sum(len(run.picked) for run in runs), -1)
    rows = [tensor[:, :, _shifted(run.picked, run.offset)] for run in runs]
    return torch.cat(rows, 2) if rows else tensor[:, :, :0]


def _shifted(picked: range, by: int) -> slice:
    return slice(picked.start + by, picked.stop + by, picked.step)


def _block(share: Share, run: Run, own: Run, query: Tensor, sides: list[Tensor]) -> Scores:
    """Some rank's queries × keys of this rank; what the mask hides is written out, as the block itself will be."""
    scores, device = share.scores, query.device
    mask = scores.mask
    hers = [tensor[:, :, run.local] for tensor in sides]
    seen = [BoundMask(bands=mask.bands).tile(run.positions, own.positions, device)] if mask.bands else []
    keys = _shifted(own.picked, own.offset)
    seen += [kept[..., keys] for kept in mask.kept]
    places = torch.arange(own.positions.start, own.positions.stop, own.positions.step, device=device)
    seen += [places < length for length in share.lengths]
    seen += [ids == theirs[..., keys] for ids, (_, theirs) in zip(hers, mask.ids, strict=False)]
    after = len(mask.ids) + len(mask.cuts)
    tiles = [take(tensor, 3, own.positions) for tensor in hers[after:]]
    visible, biases = tiles[: len(mask.visible)], tiles[len(mask.visible) :]
    for cut, rows in zip(mask.cuts, hers[len(mask.ids) : after], strict=True):
        band = None if cut.band is None else BoundMask(bands=(cut.band,)).tile(run.positions, own.positions, device)
        here = rows & cut.keys[..., keys]
        here = here if band is None else here & band
        if cut.bias == -math.inf:
            seen.append(~here)
        else:
            biases.append(torch.where(here, cut.bias, 0.0).to(scores.working_dtype))
    every = [tensor for tensor in (*seen, *visible) if tensor is not None]
    return replace(
        scores,
        query=query[:, :, run.local],
        key=scores.key.detach()[:, :, own.local],
        mask=BoundMask(visible=tuple(every), biases=tuple(biases)),
        sinks=None,
        rows=range(len(run.picked)),
        columns=range(len(own.picked)),
    )
