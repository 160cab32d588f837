"""Rollout: from a token back to the input, through every layer, as matrix-vector products."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.errors import InputError
from regard.support import Float
from regard.watching.entry import Entry
from regard.watching.looks import Looks, by_word, query_side

__all__ = ["Rollout", "rollout"]


@dataclass(frozen=True)
class Rollout:
    """What a token is made of, down to the input: of its own text and, in a translation, of the source."""

    own: Looks
    source: Looks | None = None

    def __str__(self) -> str:
        return str(self.own) if self.source is None else f"{self.own}\n{self.source}   (source)"


def rollout(entries: Sequence[Entry], what: str | int | range, sequence: int) -> Rollout:
    """Each layer is half itself (the residual) and half its attention, the mean over heads (Abnar & Zuidema, 2020).

    A row of the product of all layers is a vector sent down through the transposed matrices: O(tokens) memory.
    """
    kinds = {entry.kind for entry in entries}
    stack = "decoder" if "decoder" in kinds else "encoder"
    own = sorted((entry for entry in entries if entry.kind == stack), key=lambda entry: entry.layer)
    cross = {entry.layer: entry for entry in entries if entry.kind == "cross"}
    if not own or len({entry.shape[2:] for entry in own}) != 1 or own[0].shape[2] != own[0].shape[3]:
        raise InputError(
            "rollout needs layers of one text, each looking at itself. Choose them with record.at(kind=…)."
        )
    places = query_side(own[0], sequence).find(what)
    flow = torch.zeros(own[0].shape[2])
    flow[places.start : places.stop] = 1 / len(places)
    source: Tensor | None = None
    for entry in reversed(own):
        if (beside := cross.get(entry.layer)) is not None:  # it comes after the layer's own attention, so first here
            given = _back(beside, flow, sequence) / 2
            source, flow = given if source is None else source + given, flow / 2
        flow = flow / 2 + _back(entry, flow, sequence) / 2
    said = what if isinstance(what, str) else query_side(own[0], sequence).word_at(places.start).text
    rolled = by_word(said, query_side(own[0], sequence), flow)
    if source is None:
        return Rollout(rolled)
    encoder = sorted((entry for entry in entries if entry.kind == "encoder"), key=lambda entry: entry.layer)
    for entry in reversed(encoder):
        source = source / 2 + _back(entry, source, sequence) / 2
    side = query_side(encoder[0], sequence) if encoder else None
    return Rollout(rolled, None if side is None else by_word(said, side, source))


def _back(entry: Entry, flow: Float[Tensor, " queries"], sequence: int) -> Float[Tensor, " keys"]:
    """The transposed matrix times a vector, the mean over heads."""
    matrix = entry.matrix.part[sequence : sequence + 1]
    x = flow.to(device=matrix.device, dtype=matrix.dtype)[:, None]
    return (matrix.mT @ x)[0, ..., 0].float().mean(0).cpu()
