"""`Take`: what was seen of one module on one text, put together where the model took several steps."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor
from torch.nn import functional

from regard.errors import WatchError
from regard.matrix import AttentionMatrix
from regard.scores import Dense, Mask, bind
from regard.watching.call import Call, Source
from regard.watching.summary import Kept

__all__ = ["Take"]


class Take:
    """One call of a module, or all the steps of a generation."""

    def __init__(self, call: Call, matrix: AttentionMatrix, keep: Sequence[str] | None):
        self.kind, self.calls = call.kind, 1
        self.kept: Kept | None = None
        self._keep = keep
        self._steps: list[Call] = []
        self._source: Source | None = None
        self._matrix: AttentionMatrix | None = None
        self._queries, self._keys = call.queries, call.keys
        self._remember(call)
        if keep is None:
            self._matrix, self._source = matrix.detach(), call.source.detach()
            self._steps.append(replace(call, source=self._source))
        else:
            self.kept = Kept.of(matrix.detach(), keep)

    def follows(self, call: Call, in_step: bool) -> bool:
        """Whether a call goes on where this take ended; `in_step`: the text itself did, just before."""
        if call.kind != "cross":
            return 0 < call.queries.start == self._queries.stop
        last, key = self._last_keys(), call.source.key
        if last is key:  # a cache hands out the very same keys
            return True
        return in_step and (last is None or (last.shape == key.shape and torch.equal(last, key)))

    def add(self, call: Call, matrix: AttentionMatrix) -> None:
        """A further step."""
        self._refuse_another_past(call)
        self.calls += 1
        end = max(self._keys.stop, call.keys.stop)
        if self.kept is None:
            self._matrix = self._source = None
            self._steps.append(replace(call, source=replace(call.source.detach(), key=self._new_keys(call))))
        else:
            assert self._keep is not None
            self.kept = self.kept.grown(Kept.of(matrix.detach(), self._keep), call.keys.start, end)
        self._queries = range(self._queries.start, call.queries.stop)
        self._keys = range(self._keys.start, end)
        self._remember(call)

    def source(self) -> Source | None:
        """What the matrix of the whole text is made of; None where only reductions were kept."""
        if self._source is None and self.kept is None:
            self._source = _joined(self._steps, self._keys)
        return self._source

    def matrix(self) -> AttentionMatrix | None:
        """The attention matrix of the whole text; None where only reductions were kept."""
        if self._matrix is None and (source := self.source()) is not None:
            self._matrix = source.matrix()
        return self._matrix

    def _remember(self, call: Call) -> None:
        key = call.source.key
        self._last_keys = weakref.ref(key)
        self._edge = key[:, :, -1:].detach().clone() if call.kind == "decoder" else None

    def _new_keys(self, call: Call) -> Tensor:
        """The keys of this step only, copied: a cache may overwrite them, and must not be kept alive."""
        if call.kind == "cross":
            return call.source.key[:, :, :0].detach()
        first = self._keys.stop - call.keys.start
        return call.source.key[:, :, first:].detach().clone()

    def _refuse_another_past(self, call: Call) -> None:
        """Beam search reorders the cache: rows would be put beside keys that they never saw."""
        place = self._keys.stop - 1 - call.keys.start
        if self._edge is None or place < 0:
            return
        if not torch.equal(self._edge, call.source.key[:, :, place : place + 1]):
            raise WatchError(
                "the cache was reordered or rewritten between two steps, as beam search does: rows would be put beside "
                "keys that they never saw. Generate with num_beams=1, or watch model(sequences) on what came out."
            )


def _joined(steps: Sequence[Call], keys: range) -> Source:
    """The steps of a generation as one matrix over the whole text."""
    last = steps[-1]
    query = torch.cat([step.source.query for step in steps], 2)
    key = torch.cat([step.source.key for step in steps], 2)
    mask = last.pattern.mask(range(steps[0].queries.start, last.queries.stop), keys)
    count = max(len(step.dense.atoms) for step in steps)
    for n in range(count):  # what the model gave as numbers, row under row
        rows = [_rows(step, n, key.shape[2]) for step in steps]
        shape = [max(sizes) for sizes in zip(*(row.shape[:2] for row in rows), strict=True)]
        mask &= torch.cat([row.expand(*shape, *row.shape[2:]) for row in rows], 2)
    return replace(last.source, query=query, key=key, mask=mask)


def _rows(step: Call, n: int, keys: int) -> Tensor:
    """The n-th dense part of a step's mask, 4-D, up to the last key of all."""
    like, queries = step.source.query, len(step.queries)
    if n >= len(step.dense.atoms):
        return like.new_ones(1, 1, queries, keys, dtype=torch.bool)
    atom = step.dense.atoms[n]
    if isinstance(atom, Dense):
        tensor = atom.tensor[(None,) * (4 - atom.tensor.dim())]
        tensor = tensor.expand(*tensor.shape[:2], queries, len(step.keys))
    else:
        shape = (*like.shape[:3], len(step.keys))
        tile = bind(Mask((atom,)), shape, like.device, plain=False).tile(range(queries), range(shape[3]), like.device)
        assert tile is not None
        tensor = tile.expand(*tile.shape[:2], *shape[2:])
    return functional.pad(tensor, (step.keys.start, keys - step.keys.stop))
