"""The calls of a generation that become one: `Steps` of a text, `BeamSteps` of a beam search and its `Hypotheses`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from regard.errors import WatchError
from regard.scores import Dense, Mask, as_mask, bind, cut, padding
from regard.support import Int
from regard.watching.capture.calls import AttentionCall, Shard
from regard.watching.capture.links import LocatedLink
from regard.watching.capture.masks import Pattern


class Step(NamedTuple):
    """What the call of a step is made of, but for its keys."""

    query: Tensor
    kind: str
    queries: range
    keys: range
    pattern: Pattern
    dense: Mask


class _NewKeys(NamedTuple):
    """A copy of the keys that a step added, after the key before them as the cache had it in that step."""

    tensor: Tensor
    overlap: int  # 1 with that key, 0 where there is none
    stop: int  # the position in the text where they end


class Steps:
    """Calls in a row, each with its new keys only, and the keys of the cache once.

    A cache that makes a new tensor in each step holds all keys in the newest one: so do we, and no older one. A cache
    that writes into one tensor may write over it later: its keys are copied once, and then those of each step, as are
    those of a cache that drops keys.
    """

    def __init__(self) -> None:
        self.rows = 0  # queries of all calls
        self._steps: list[Step] = []
        self._last: tuple[float | None, float | None, Tensor | None] = None, None, None  # scale, softcap and sinks
        self._shard: Shard | None = None
        self._new: list[_NewKeys] = []
        self._checked = 1  # of the new keys, so many were compared with the step before
        self._key: Tensor | None = None  # the keys at the positions below
        self._positions = range(0)
        self._version: int | None = None  # of these keys; None where they are a copy
        self._address = 0  # of the keys of the last call
        self._like: tuple[Any, ...] | None = None  # what the tensors of a further step are like, once one was followed

    def add(self, call: AttentionCall, before: range = range(0)) -> None:
        """A further call; the text had the keys at `before` until now."""
        key, address, is_self = call.key, call.key.data_ptr(), call.kind != "cross"
        self._like = None
        if is_self and len(before):
            self._copy_new(key, call.keys, before)
        if self._key is None:
            written = address == self._address  # into the keys of the last call
            self._hold(key, call.keys, copy=is_self and (written or call.keys.start > 0))
        elif self._version is not None and is_self:
            written = address == self._key.data_ptr()
            if call.keys.start == self._positions.start:
                self._hold(*((self._key, self._positions) if written else (key, call.keys)), copy=written)
            elif written:
                raise _rewritten()
        self._address = address
        self._last, self._shard = (call.scale, call.softcap, call.sinks), call.shard
        query = call.query.detach() if call.query.requires_grad else call.query
        self.rows += query.shape[2]
        self._steps.append(Step(query, call.kind, call.queries, call.keys, call.pattern, call.dense))

    def follow(self, query: Tensor, key: Tensor, scale: float | None, *, compare: bool) -> bool:
        """Add a step of one query that is like the last one, but for one key more; False where it is not surely that.

        Every layer of a step runs this, and a GPU waits for it, so it does as little as possible: keys are copied for
        `check` only if they are to be compared.
        """
        shape, address = key.shape, key.data_ptr()
        like = (query.shape, query.dtype, key.dtype, shape[0], shape[1], scale)
        if like != self._like and not self._is_like_last(query, key, scale):
            return False
        positions = self._positions
        if shape[2] != len(positions) + 1 or address == self._address:
            return False
        last = self._steps[-1]
        keys = range(positions.start, positions.stop + 1)
        if compare:
            self._copy_new(key, keys, positions)
        self._key, self._positions, self._version, self._address, self._like = key, keys, _version(key), address, like
        queries = range(last.queries.stop, last.queries.stop + 1)
        self._steps.append(Step(query, last.kind, queries, keys, last.pattern, last.dense))
        self.rows += 1
        return True

    def _is_like_last(self, query: Tensor, key: Tensor, scale: float | None) -> bool:
        """Whether nothing but the number of keys is other than in the last call."""
        if self._version is None or self._key is None or not self._steps:  # a copy, or nothing to be like
            return False
        last = self._steps[-1]
        return (
            query.shape == last.query.shape
            and query.dtype == last.query.dtype == key.dtype == self._key.dtype
            and key.shape[:2] == self._key.shape[:2]
            and self._address == self._key.data_ptr()
            and (scale, None, None) == self._last
            and last.pattern.only_causal
            and not last.dense.atoms
        )

    def note(self, call: AttentionCall) -> None:
        """A call that is not added: only its last key is stored, for the next one to be compared with."""
        self._address, self._like = call.key.data_ptr(), None
        if call.kind != "cross":
            self._new = [_NewKeys(call.key[:, :, -1:].detach().clone(), 0, call.keys.stop)]

    def joined(self) -> AttentionCall:
        """All calls as one."""
        self.check()
        assert self._key is not None
        if self._version is not None and _version(self._key) != self._version:
            raise _rewritten()
        keys, stop = [self._key], self._positions.stop
        for tensor, overlap, end in self._new:
            if (missing := end - stop) > 0 and overlap < tensor.shape[2]:
                keys.append(tensor[:, :, -missing:])
                stop = end
        key = self._key if len(keys) == 1 else torch.cat(keys, 2)
        scale, softcap, sinks = self._last
        positions = (
            range(self._steps[0].queries.start, self._steps[-1].queries.stop),
            range(self._positions.start, stop),
        )
        last, mask = self._steps[-1], joined_mask(self._steps, *positions)
        query = torch.cat([step.query for step in self._steps], 2)
        sinks = None if sinks is None else sinks.detach()
        return AttentionCall(
            query, key.detach(), mask, scale, softcap, sinks, last.kind, *positions, last.pattern, last.dense,
            last.pattern.zeroed(*positions), self._shard,
        )  # fmt: skip

    def check(self) -> None:
        """Raise where the cache was rewritten between two steps: rows would be joined with keys they never saw."""
        pairs = [
            (before.tensor[:, :, -1:], now.tensor[:, :, :1])
            for before, now in zip(self._new[self._checked - 1 :], self._new[self._checked :], strict=False)
            if now.overlap
        ]
        if pairs:
            before, now = (torch.cat(rows, 2) for rows in zip(*pairs, strict=True))
            if not torch.equal(before, now):  # waits for the device: once for all steps
                raise _rewritten()
        self._checked = max(len(self._new), 1)

    def resume(self) -> None:
        """What comes next has keys that were computed again: their last digits may be others."""
        self.check()
        self._checked = len(self._new) + 1

    def clear(self) -> None:
        """No calls any more; the next one is still compared with the last."""
        self.rows, self._steps, self._key, self._like = 0, [], None, None
        self._new, self._checked = self._new[-1:], 1

    def _copy_new(self, key: Tensor, keys: range, before: range) -> None:
        first = before.stop - keys.start
        skipped = bool(self._new) and self._new[-1].stop != before.stop  # steps whose keys were not to be compared
        overlap = 0 if skipped else min(first, 1)
        new = key[:, :, first - overlap :].detach().clone()
        if not self._new:
            assert self._key is not None
            self._new.append(_NewKeys(self._key[:, :, -1:].clone(), 0, before.stop))
        if new.shape[:2] != self._new[-1].tensor.shape[:2]:
            raise _rewritten()
        self._new.append(_NewKeys(new, overlap, keys.stop))

    def _hold(self, key: Tensor, positions: range, *, copy: bool) -> None:
        self._key, self._positions = key.clone() if copy else key, positions
        self._version = None if copy else _version(key)


def _version(tensor: Tensor) -> int:
    """How often it was written to; tensors of the inference mode do not count."""
    return 0 if tensor.is_inference() else tensor._version


def _rewritten() -> WatchError:
    return WatchError(
        "the cache was reordered or rewritten between two steps: rows would be put beside keys that they never saw. "
        "Generate with model.generate, whose beams can be followed, or watch model(sequences) on what came out."
    )


def joined_mask(steps: Sequence[Step], queries: range, keys: range) -> Mask:
    """The mask of all steps over all of these keys."""
    mask = _without_dropped_keys(steps, queries, keys) & steps[-1].pattern.mask(queries, keys)
    for n in range(max(len(step.dense.atoms) for step in steps)):
        rows = [dense_rows(step, n, keys) for step in steps]
        shape = [max(sizes) for sizes in zip(*(row.shape[:2] for row in rows), strict=True)]
        mask &= torch.cat([row.expand(*shape, *row.shape[2:]) for row in rows], 2)
    return mask


def _without_dropped_keys(steps: Sequence[Step], queries: range, keys: range) -> Mask:
    """Hides the keys that a cache had dropped by the time of a step, where the masks of the steps do not say so."""
    dropped = [s for s in steps if s.keys.start > keys.start and s.kind != "cross" and not _hides_dropped(s)]
    if not dropped:
        return Mask()
    lowest = {step.keys.start - step.queries.start for step in dropped}
    others = max((step.queries.stop - 1 for step in steps if step.keys.start == keys.start), default=-1)
    if len(lowest) == 1 and all(len(step.queries) == 1 for step in dropped) and others + min(lowest) <= keys.start:
        return Pattern(bands=((min(lowest), None),)).mask(queries, keys)  # a window, as long as the cache
    first = torch.cat([torch.full((len(step.queries),), step.keys.start) for step in steps])
    visible = torch.arange(keys.start, keys.stop) >= first[:, None]
    return as_mask(visible.to(steps[0].query.device))


def _hides_dropped(step: Step) -> bool:
    return any(low is not None and step.queries.start + low >= step.keys.start for low, _ in step.pattern.bands)


def dense_rows(step: Step, n: int, keys: range) -> Tensor:
    """The n-th dense part of a step's mask as a 4-D tensor, padded to all of these keys."""
    like, queries = step.query, len(step.queries)
    if n >= len(step.dense.atoms):
        return like.new_ones(1, 1, queries, len(keys), dtype=torch.bool)
    atom = step.dense.atoms[n]
    if isinstance(atom, Dense):
        tensor = atom.tensor[(None,) * (4 - atom.tensor.dim())]
        tensor = tensor.expand(*tensor.shape[:2], queries, len(step.keys))
    else:
        shape = (*like.shape[:3], len(step.keys))
        bound, place = bind(Mask((atom,)), shape, like.device, plain=False), (range(queries), range(shape[3]))
        tile = bound.bias_tile(*place) if bound.biased else bound.tile(*place, like.device)
        if tile is None:  # a cut of other rows
            return like.new_ones(1, 1, queries, len(keys), dtype=torch.bool)
        tensor = tile.expand(*tile.shape[:2], *shape[2:])
    hidden = -math.inf if tensor.is_floating_point() else False  # keys that were not there in this step
    return functional.pad(tensor, (step.keys.start - keys.start, keys.stop - step.keys.stop), value=hidden)


class Hypotheses(NamedTuple):
    """What a beam search found.

    >>> found = Hypotheses(torch.tensor([[0, 1, 0], [2, 3, -1]]), torch.zeros(2, 5), texts=2, beams=2)
    >>> found.of(batch=4, steps=3), found.of(batch=2, steps=1)              # a decoder's steps, and an encoder's call
    (tensor([[0, 1, 0],
            [2, 3, 2]]), tensor([[0],
            [1]]))
    """

    rows: Int[Tensor, "hypotheses steps"]  # in which row of each step; -1 after the end of a hypothesis
    ids: Tensor  # (hypotheses, tokens), with those of the prompt
    texts: int
    beams: int  # of each text

    def of(self, batch: int, steps: int) -> Tensor:
        """For each hypothesis and step, its row in calls with so many; for one that has ended, that of its prompt."""
        rows = self.rows.where(self.rows >= 0, self.rows[:, :1])
        if batch == self.texts:
            return rows[:, :1] // self.beams
        if batch != self.texts * self.beams:  # not of these texts, as windows of an image
            return torch.arange(batch, device=rows.device)[:, None].expand(batch, steps)
        if 1 < steps < rows.shape[1]:
            raise WatchError(
                f"a module was called {steps} times in {rows.shape[1]} steps of a beam search: its rows belong to no "
                "hypothesis. Generate with num_beams=1, or watch model(sequences) on what came out."
            )
        return rows[:, :steps]

    def ended(self, rows: Tensor) -> Tensor:
        """(hypotheses, steps): whether a hypothesis had ended before a step, for rows that `of` gave."""
        if rows.shape[1] == 1 or len(rows) != len(self.rows):
            return torch.zeros(rows.shape, dtype=torch.bool, device=rows.device)
        return self.rows[:, : rows.shape[1]] < 0

    def texts_of(self, steps: list[Tensor]) -> list[Tensor]:
        """Ids that the beams got in each step, as those of the hypotheses."""
        rows = self.of(len(steps[0]), len(steps)).cpu()
        found = torch.cat([step.cpu()[row] for step, row in zip(steps, rows.mT, strict=False)], 1)
        own = self.ids.cpu()[:, : found.shape[1]]  # goes on with padding where a hypothesis has ended
        return [own if rows.shape[1] > 1 and own.shape == found.shape else found]


class BeamSteps:
    """The calls of a module in a beam search, each with the keys that it added."""

    rows = 0  # none that may be reduced before the end

    def __init__(self) -> None:
        self._steps: list[Step] = []
        self._new: list[Tensor] = []
        self._last: AttentionCall | None = None

    def add(self, call: AttentionCall, before: range = range(0)) -> None:
        """A further call; the text had the keys at `before` until now."""
        call = call.detach()
        if call.kind != "cross" or not self._new:  # all beams of a text look at the same other text
            self._new.append(call.key[:, :, max(before.stop - call.keys.start, 0) :].clone())
        self._steps.append(Step(call.query, call.kind, call.queries, call.keys, call.pattern, call.dense))
        self._last = replace(call, query=call.query[:0], key=call.key[:0], mask=Mask())  # the cache is not held

    def follow(self, query: Tensor, key: Tensor, scale: float | None, *, compare: bool) -> bool:
        """False: every call has to be added."""
        return False

    def check(self) -> None:
        """Nothing can have been rewritten: all is copied."""

    def joined(self) -> AttentionCall:
        """Refused: only the end of the search tells which rows belong together."""
        raise WatchError("the beam search has not ended: which rows belong to one hypothesis is not known yet.")

    def chosen(self, found: Hypotheses | None) -> tuple[AttentionCall, int]:
        """The calls of all hypotheses as one, and how many they were; None: a single call, as the beams ran."""
        assert self._last is not None
        batch = len(self._steps[0].query)
        if found is None:
            found = Hypotheses(torch.arange(batch)[:, None], torch.empty(batch, 0), batch, 1)
        rows = found.of(batch, len(self._steps)).to(self._steps[0].query.device)
        steps = [_selected(step, row) for step, row in zip(self._steps, rows.mT, strict=False)]
        new = [key[row] for key, row in zip(self._new, rows.mT, strict=False)]
        key = new[0] if len(new) == 1 else torch.cat(new, 2)
        queries = range(steps[0].queries.start, steps[-1].queries.stop)
        keys = range(steps[0].keys.start, steps[0].keys.start + key.shape[2])
        mask = joined_mask(steps, queries, keys)
        ended = found.ended(rows.cpu()).to(rows.device)
        if bool(ended.any()):
            counts = torch.tensor([step.query.shape[2] for step in steps], device=rows.device)
            after = ended.repeat_interleave(counts, 1)
            mask &= cut(after)
            if self._last.kind != "cross":
                mask &= padding(~after)
        pattern = steps[-1].pattern
        call = replace(
            self._last, query=torch.cat([step.query for step in steps], 2), key=key, mask=mask, queries=queries,
            keys=keys, pattern=pattern, dense=steps[-1].dense, zeroed=pattern.zeroed(queries, keys),
        )  # fmt: skip
        return call, len(steps)


def _selected(step: Step, rows: Tensor) -> Step:
    """These rows of a step."""
    dense = [dense_rows(step, n, step.keys) for n in range(len(step.dense.atoms))]
    atoms = tuple(Dense(_pick(tensor, rows)) for tensor in dense)
    return step._replace(query=step.query[rows], pattern=_of_rows(step.pattern, rows), dense=Mask(atoms))


def _of_rows(pattern: Pattern, rows: Tensor) -> Pattern:
    return replace(
        pattern,
        padding=tuple(_pick(tensor, rows) for tensor in pattern.padding),
        documents=tuple(_pick(tensor, rows) for tensor in pattern.documents),
        links=tuple(_linked(link, rows) for link in pattern.links),
    )


def _linked(link: LocatedLink, rows: Tensor) -> LocatedLink:
    queries, keys = (_pick(side, rows) if isinstance(side, Tensor) else side for side in (link.queries, link.keys))
    return replace(link, queries=queries, keys=keys)


def _pick(tensor: Tensor, rows: Tensor) -> Tensor:
    return tensor if len(tensor) == 1 else tensor[rows.to(tensor.device)]
