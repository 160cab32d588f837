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
from regard.watching.capture.calls import AttentionCall
from regard.watching.capture.masks import Pattern


class Step(NamedTuple):
    """The call of a step without its keys."""

    query: Tensor
    kind: str
    queries: range
    keys: range
    pattern: Pattern
    dense: Mask

    @property
    def hides_dropped(self) -> bool:
        """Whether its mask hides all keys before its first key."""
        return any(low is not None and self.queries.start + low >= self.keys.start for low, _ in self.pattern.bands)


def _step(call: AttentionCall) -> Step:
    return Step(call.query.detach(), call.kind, call.queries, call.keys, call.pattern, call.dense)


class _NewKeys(NamedTuple):
    """A copy of the keys that a step added, after the key before them as the cache had it in that step."""

    tensor: Tensor
    overlap: int  # 1 with the key before them, 0 without
    stop: int  # the position in the text where they end


class Steps:
    """Calls in a row, each with its new keys only, and the keys of the cache once.

    A cache that makes a new tensor in each step has all keys in the newest tensor: only this tensor is held. A cache
    that writes into one tensor may write over it later: its keys are copied once, and then the keys of each step. So
    are the keys of a cache that drops keys.
    """

    def __init__(self) -> None:
        self.rows = 0  # queries of all calls
        self._steps: list[Step] = []
        self._last: AttentionCall | None = None  # without its tensors
        self._new: list[_NewKeys] = []
        self._checked = 1  # so many of the new keys were compared with the step before
        self._key: Tensor | None = None  # the keys at the positions below
        self._positions = range(0)
        self._version: int | None = None  # of these keys; None where they are a copy
        self._address = 0  # of the keys of the last call
        self._like: tuple[Any, ...] | None = None  # shapes, dtypes and scale of a step that `follow` takes

    def add(self, call: AttentionCall, before: range = range(0)) -> None:
        """Append a call; the text had the keys at `before` until now."""
        key, address, is_self = call.key, call.key.data_ptr(), call.kind != "cross"
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
        plain = call.pattern.only_causal and not call.dense.atoms and call.softcap is None and call.sinks is None
        held = self._version is not None and self._key is not None and address == self._key.data_ptr()
        like = call.query.shape, call.query.dtype, key.dtype, *key.shape[:2], call.scale
        self._address, self._like = address, like if plain and held and call.query.dtype == key.dtype else None
        self._last = _without_tensors(call)
        self.rows += call.query.shape[2]
        self._steps.append(_step(call))

    def follow(self, query: Tensor, key: Tensor, scale: float | None, *, compare: bool) -> bool:
        """Append a step of one query if it is certainly like the last step, with one key more; else return False.

        Every layer of a step runs this, and a GPU waits for it, so it does as little as possible: keys are copied for
        `check` only if they are to be compared.
        """
        shape, address, positions = key.shape, key.data_ptr(), self._positions
        if (query.shape, query.dtype, key.dtype, shape[0], shape[1], scale) != self._like:
            return False
        if shape[2] != len(positions) + 1 or address == self._address:
            return False
        last = self._steps[-1]
        keys = range(positions.start, positions.stop + 1)
        if compare:
            self._copy_new(key, keys, positions)
        self._key, self._positions, self._version, self._address = key, keys, _version(key), address
        queries = range(last.queries.stop, last.queries.stop + 1)
        self._steps.append(Step(query, last.kind, queries, keys, last.pattern, last.dense))
        self.rows += 1
        return True

    def note(self, call: AttentionCall) -> None:
        """Note a call that is not appended: store only its last key, to compare the next call with it."""
        self._address, self._like = call.key.data_ptr(), None
        if call.kind != "cross":
            self._new = [_NewKeys(call.key[:, :, -1:].detach().clone(), 0, call.keys.stop)]

    def joined(self) -> AttentionCall:
        """Return all calls as one."""
        self.check()
        assert self._key is not None
        assert self._last is not None
        if self._version is not None and _version(self._key) != self._version:
            raise _rewritten()
        keys, stop = [self._key], self._positions.stop
        for tensor, overlap, end in self._new:
            if (missing := end - stop) > 0 and overlap < tensor.shape[2]:
                keys.append(tensor[:, :, -missing:])
                stop = end
        key = self._key if len(keys) == 1 else torch.cat(keys, 2)
        return _join(self._steps, self._last, key.detach(), self._positions.start)

    def check(self) -> None:
        """Raise if the cache was rewritten between two steps: rows would be joined with keys they never saw."""
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
        """Expect keys that were computed again: their last digits may differ."""
        self.check()
        self._checked = len(self._new) + 1

    def clear(self) -> None:
        """Drop all calls; the next call is still compared with the last."""
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


def _without_tensors(call: AttentionCall) -> AttentionCall:
    """Return the call without its query, keys and mask, so that no cache is held."""
    query, key = (tensor.new_empty(0, *tensor.shape[1:]) for tensor in (call.query, call.key))
    return replace(call.detach(), query=query, key=key, mask=Mask())


def _join(steps: Sequence[Step], last_call: AttentionCall, key: Tensor, first_key: int) -> AttentionCall:
    """Return the steps as one call with these keys, which begin at this position."""
    last, queries = steps[-1], range(steps[0].queries.start, steps[-1].queries.stop)
    keys = range(first_key, first_key + key.shape[2])
    mask = _without_dropped_keys(steps, queries, keys) & last.pattern.mask(queries, keys)
    for n in range(max(len(step.dense.atoms) for step in steps)):
        rows = [_dense_rows(step, n, keys) for step in steps]
        shape = [max(sizes) for sizes in zip(*(row.shape[:2] for row in rows), strict=True)]
        mask &= torch.cat([row.expand(*shape, *row.shape[2:]) for row in rows], 2)
    return replace(
        last_call,
        query=torch.cat([step.query for step in steps], 2),
        key=key,
        mask=mask,
        queries=queries,
        keys=keys,
        pattern=last.pattern,
        dense=last.dense,
        zeroed=last.pattern.zeroed(queries, keys),
    )


def _without_dropped_keys(steps: Sequence[Step], queries: range, keys: range) -> Mask:
    """Return a mask that hides the keys which a cache had dropped before a step, where no mask of a step hides them."""
    dropped = [s for s in steps if s.keys.start > keys.start and s.kind != "cross" and not s.hides_dropped]
    if not dropped:
        return Mask()
    lowest = {step.keys.start - step.queries.start for step in dropped}
    others = max((step.queries.stop - 1 for step in steps if step.keys.start == keys.start), default=-1)
    if len(lowest) == 1 and all(len(step.queries) == 1 for step in dropped) and others + min(lowest) <= keys.start:
        return Pattern(bands=((min(lowest), None),)).mask(queries, keys)  # a window, as long as the cache
    first = torch.cat([torch.full((len(step.queries),), step.keys.start) for step in steps])
    visible = torch.arange(keys.start, keys.stop) >= first[:, None]
    return as_mask(visible.to(steps[0].query.device))


def _dense_rows(step: Step, n: int, keys: range) -> Tensor:
    """Return the n-th dense part of a step's mask as a 4-D tensor, padded to all of these keys."""
    device, atoms, shape = step.query.device, step.dense.atoms[n : n + 1], (*step.query.shape[:3], len(step.keys))
    tensor: Tensor | None = None
    for atom in atoms:
        if isinstance(atom, Dense):
            tensor = atom.tensor[(None,) * (4 - atom.tensor.dim())]
        else:
            bound, place = bind(Mask((atom,)), shape, device, plain=False), (range(shape[2]), range(shape[3]))
            tensor = bound.bias_tile(*place) if bound.biased else bound.tile(*place, device)
    if tensor is None:  # no such part, or a cut of other rows
        return torch.ones(1, 1, shape[2], len(keys), dtype=torch.bool, device=device)
    tensor = tensor.expand(*tensor.shape[:2], *shape[2:])
    hidden = -math.inf if tensor.is_floating_point() else False  # keys that were not there in this step
    return functional.pad(tensor, (step.keys.start - keys.start, keys.stop - step.keys.stop), value=hidden)


class Hypotheses(NamedTuple):
    """The hypotheses of a beam search, as rows of its steps.

    >>> best = Hypotheses(torch.tensor([[0, 1, 0], [2, 3, -1]]), torch.zeros(2, 5), texts=2, beams=2)
    >>> best.rows_of(batch=4, steps=3), best.rows_of(batch=2, steps=1)      # a decoder's steps, and an encoder's call
    (tensor([[0, 1, 0],
            [2, 3, 2]]), tensor([[0],
            [1]]))
    """

    rows: Int[Tensor, "hypotheses steps"]  # the row of each step; -1 after the end of a hypothesis
    ids: Tensor  # (hypotheses, tokens), with the prompt
    texts: int
    beams: int  # of each text

    def rows_of(self, batch: int, steps: int) -> Tensor:
        """Return the row of each hypothesis in each of `steps` calls; after its end, the row of its prompt."""
        rows = self.rows.where(self.rows >= 0, self.rows[:, :1])
        if batch == self.texts:
            return rows[:, :1] // self.beams
        if batch != self.texts * self.beams:  # other rows than texts, such as windows of an image
            return torch.arange(batch, device=rows.device)[:, None].expand(batch, steps)
        if 1 < steps < rows.shape[1]:
            raise WatchError(
                f"a module was called {steps} times in {rows.shape[1]} steps of a beam search: its rows belong to no "
                "hypothesis. Generate with num_beams=1, or watch model(sequences) on what came out."
            )
        return rows[:, :steps]

    def texts_of(self, steps: list[Tensor]) -> list[Tensor]:
        """Turn the ids that the beams received in each step into the ids of the hypotheses."""
        rows = self.rows_of(len(steps[0]), len(steps)).cpu()
        received = torch.cat([step.cpu()[row] for step, row in zip(steps, rows.mT, strict=False)], 1)
        written = self.ids.cpu()[:, : received.shape[1]]  # padding follows where a hypothesis has ended
        return [written if rows.shape[1] > 1 and written.shape == received.shape else received]


class BeamSteps:
    """The calls of a module in a beam search, each with the keys that it added."""

    def __init__(self) -> None:
        self._steps: list[Step] = []
        self._new: list[Tensor] = []
        self._last: AttentionCall | None = None

    def add(self, call: AttentionCall, before: range = range(0)) -> None:
        """Append a call; the text had the keys at `before` until now."""
        key = call.key.detach()
        if call.kind != "cross" or not self._new:  # all beams of a text look at the same other text
            self._new.append(key[:, :, max(before.stop - call.keys.start, 0) :].clone())
        self._steps.append(_step(call))
        self._last = _without_tensors(call)

    def chosen(self, hypotheses: Hypotheses | None) -> tuple[AttentionCall, int]:
        """Return the calls of all hypotheses as one, and their number; None: a single call, as the beams ran."""
        assert self._last is not None
        batch = len(self._steps[0].query)
        if hypotheses is None:
            hypotheses = Hypotheses(torch.arange(batch)[:, None], torch.empty(batch, 0), batch, 1)
        rows = hypotheses.rows_of(batch, len(self._steps)).to(self._steps[0].query.device)
        steps = [_selected(step, row) for step, row in zip(self._steps, rows.mT, strict=False)]
        key = torch.cat([key[row] for key, row in zip(self._new, rows.mT, strict=False)], 2)
        call = _join(steps, self._last, key, steps[0].keys.start)
        ended = (hypotheses.rows[:, : rows.shape[1]] < 0).to(rows.device)
        if rows.shape[1] > 1 and len(rows) == len(ended) and bool(ended.any()):
            counts = torch.tensor([step.query.shape[2] for step in steps], device=rows.device)
            after = ended.repeat_interleave(counts, 1)
            hidden = cut(after) if call.kind == "cross" else cut(after) & padding(~after)
            call = replace(call, mask=call.mask & hidden)
        return call, len(steps)


def _selected(step: Step, rows: Tensor) -> Step:
    """Return these rows of a step."""
    pattern = replace(
        step.pattern,
        padding=tuple(_pick(tensor, rows) for tensor in step.pattern.padding),
        documents=tuple(_pick(tensor, rows) for tensor in step.pattern.documents),
        links=tuple(
            replace(link, queries=_pick(link.queries, rows), keys=_pick(link.keys, rows)) for link in step.pattern.links
        ),
    )
    atoms = tuple(Dense(_pick(_dense_rows(step, n, step.keys), rows)) for n in range(len(step.dense.atoms)))
    return step._replace(query=step.query[rows], pattern=pattern, dense=Mask(atoms))


def _pick(places: Any, rows: Tensor) -> Any:
    """Return these rows of a tensor (batch or 1, …); anything else as it is."""
    return places[rows.to(places.device)] if isinstance(places, Tensor) and len(places) > 1 else places
