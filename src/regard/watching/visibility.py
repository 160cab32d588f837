"""Which words the mask shows: what is hidden is no answer, not even at 0 %."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from regard.scores import bind
from regard.support import Bool, Float
from regard.watching.entries import Entry

__all__ = ["seen_keys", "seen_queries"]


def seen_keys(
    entries: Sequence[Entry], sequence: int, rows: range, weights: Float[Tensor, " keys"]
) -> Bool[Tensor, " keys"]:
    """The keys that one of these queries may see in any head; only a key of weight 0 can be hidden."""
    return _seen(entries, sequence, rows, range(len(weights)), weights != 0, 0)


def seen_queries(
    entries: Sequence[Entry], sequence: int, columns: range, weights: Float[Tensor, " queries"]
) -> Bool[Tensor, " queries"]:
    """The queries that may see one of these keys in any head."""
    return _seen(entries, sequence, range(len(weights)), columns, weights != 0, 1)


def _seen(
    entries: Sequence[Entry], sequence: int, rows: range, columns: range, seen: Bool[Tensor, " n"], axis: int
) -> Tensor:
    for entry in entries:
        if seen.all():
            break
        seen = seen | _shown(entry, sequence, rows, columns).any(axis).cpu()
    return seen


def _shown(entry: Entry, sequence: int, rows: range, columns: range) -> Bool[Tensor, "rows columns"]:
    """Whether any head may see a place, by the mask alone: no score is computed."""
    call = entry.call
    assert call is not None, "an entry that has its matrix has its call"
    device = call.query.device
    mask = bind(call.mask, (*call.query.shape[:3], call.key.shape[2]), device, plain=False)
    shown = torch.ones(1, 1, len(rows), len(columns), dtype=torch.bool, device=device)
    if (tile := mask.tile(rows, columns, device)) is not None:
        shown = shown & tile
    if (bias := mask.bias_tile(rows, columns)) is not None:
        shown = shown & (bias != -math.inf)
    heads = shown[sequence if len(shown) > 1 else 0]
    return (heads if len(heads) == 1 else heads[entry.heads.start : entry.heads.stop]).any(0)
