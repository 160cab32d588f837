"""`Pass`: what the modules of a model computed on one text; `ModuleCalls`: the calls of one module, and its `Entry`."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from regard.errors import WatchError
from regard.matrix import AttentionMatrix
from regard.scores import cut
from regard.support import Bool
from regard.watching.capture.calls import AttentionCall
from regard.watching.capture.links import Links
from regard.watching.capture.masks import Pattern
from regard.watching.capture.steps import BeamSteps, Hypotheses, Steps
from regard.watching.record.entries import Entry, KeptValues, layer_of
from regard.watching.record.reductions import Growing, Keep, Reductions, extend, finished, reduce
from regard.watching.record.tokens import Rows, Text, Vocabulary

__all__ = ["Caches", "ModuleCalls", "Pass"]

_ROWS = 256  # steps that wait and are then reduced at once: one reduction takes hardly longer for many than for few


class ModuleCalls:
    """All calls of one module on one text: a single one, or the steps of a generation.

    The session appends calls; `entry()` gives the state so far as a value that does not change any more. A step of
    self-attention does not wait for the device and, unless its cache is written in place, copies only its new keys.
    """

    def __init__(
        self,
        name: str,
        call: AttentionCall,
        matrix: AttentionMatrix | None,
        keep: Keep,
        text: Text,
        *,
        beams: bool = False,
    ):
        kept = keep.reductions  # None: the matrix
        self._first = call.queries.start  # the number of its first token in the text, kept or not
        if keep.rows is not None and call.kind == "encoder":  # no text that goes on: no rows are the last ones
            kept = ("received",)
        elif keep.rows is not None:
            matrix = None if call.query.shape[2] > keep.rows else matrix
            call = call.last(keep.rows)
        self._name, self.kind, self._keep, self._graph, self._text = name, call.kind, kept, keep.graph, text
        self._count = 1
        self._queries, self._keys = call.queries, call.keys  # of the text so far
        self._shape = (*call.query.shape[:3], call.key.shape[2])
        self._first_head, self._shard = call.heads.start, call.shard
        self._steps: Steps | BeamSteps = BeamSteps() if beams else Steps()  # with reductions, those not reduced yet
        self._joined: AttentionCall | None = None  # the steps as one call; None until asked for
        self._matrix: AttentionMatrix | None = None
        self._reductions: Growing | None = None
        self._entry: Entry | None = None
        self.values: KeptValues | None = None  # where they were asked for
        self._last_key = weakref.ref(call.key)
        self._real_keys: Tensor | None = None  # of what was reduced
        if call.kind != "cross":
            text.readers[name] = self
        if isinstance(self._steps, BeamSteps):
            self._steps.add(call)
            return
        matrix = call.matrix() if matrix is None else matrix
        detached = call.requires_grad and not keep.graph
        if detached:
            call.warn_if_detached(text.detached)
        if kept is None:
            self._matrix, self._joined = (matrix.detach(), call.detach()) if detached else (matrix, call)
            self._steps.add(self._joined)
        else:
            self._reductions = self._reduced(call, matrix.detach(), range(self._shape[2]))
            self._steps.note(call)

    def continues(self, call: AttentionCall, text_continues: bool) -> bool:
        """Whether a call continues this text; `text_continues`: self-attention did so in the same step."""
        if call.kind != "cross":
            return 0 < call.queries.start == self._queries.stop
        last = self._last_key()
        if last is call.key:  # a cache returns the same tensor each time
            return True
        return text_continues and (last is None or (last.shape == call.key.shape and torch.equal(last, call.key)))

    def located(self, call: AttentionCall) -> AttentionCall:
        """The call, in its place in this text if it is a step with a cache: one query, and one key more than before.

        torch's function is not told where a query stands. Models of transformers and regard's own say so themselves.
        """
        last = self._keys.stop
        is_step = call.kind == "cross" and len(call.queries) == 1 and call.keys == range(last + 1)
        if not is_step or self.kind != "decoder":
            return call
        return replace(call, kind="decoder", queries=range(last, last + 1), pattern=Pattern(((None, 0),)))

    def append(self, call: AttentionCall) -> None:
        """A further step."""
        if self._graph and call.requires_grad:
            raise WatchError(
                f'{self._name}: keep="graph" follows one forward over a whole text, and this one goes on with a cache. '
                "Give the model the whole text, or generate inside torch.no_grad()."
            )
        self._count += 1
        self._entry = self._matrix = self._joined = None
        self._steps.add(call, self._keys)
        self._queries = range(self._queries.start, call.queries.stop)
        self._keys = range(self._keys.start, max(self._keys.stop, call.keys.stop))
        batch, heads, queries, _ = self._shape
        self._shape = batch, heads, queries + call.query.shape[2], len(self._keys)
        if call.kind == "cross":
            self._last_key = weakref.ref(call.key)
        if self._keep is not None and self._steps.rows >= _ROWS:
            self._reduce_steps()

    def follow(self, query: Tensor, key: Tensor, queries: range, scale: float | None, *, compare: bool) -> bool:
        """A further step, if it is like the last one; False where it is not surely that, and nothing was done."""
        steps = self._steps
        if queries.start != self._queries.stop or isinstance(steps, BeamSteps) or self.kind != "decoder":
            return False
        if not steps.follow(query, key, scale, compare=compare):
            return False
        self._count += 1
        self._entry = self._matrix = self._joined = None
        self._queries = range(self._queries.start, queries.stop)
        self._keys = range(self._keys.start, self._keys.stop + 1)
        batch, heads, rows, keys = self._shape
        self._shape = batch, heads, rows + 1, keys + 1
        if self._keep is not None and steps.rows >= _ROWS:
            self._reduce_steps()
        return True

    def resume(self) -> None:
        """A server has dropped the keys of this text, and computes them again before the next step."""
        if self._keep is not None:
            self._reduce_steps()
        if isinstance(self._steps, Steps):
            self._steps.resume()

    @property
    def searching(self) -> bool:
        """Whether the calls are those of a beam search, until `choose`."""
        return isinstance(self._steps, BeamSteps)

    def choose(self, found: Hypotheses | None) -> None:
        """The calls of a beam search become those of its hypotheses; None: they stay as they are."""
        if not isinstance(self._steps, BeamSteps):
            return
        call, self._count = self._steps.chosen(found)
        self._steps, self._entry = Steps(), None
        self._queries, self._keys = call.queries, call.keys
        self._shape = (*call.query.shape[:3], call.key.shape[2])
        if self._keep is None:
            self._joined, self._matrix = call, call.matrix()
            self._steps.add(call)
        else:
            self._reductions = self._reduced(call, call.matrix(), range(self._shape[2]))
            self._steps.note(call)

    def finish(self) -> None:
        """What was put off is done; nothing of the cache is held any longer that the record does not need."""
        self._steps.check()
        if self.values is not None and self._count > 1:
            self.values.settle()
        if self._keep is not None:
            self._reduce_steps()

    def entry(self) -> Entry:
        """The attention over the whole text so far."""
        if self._entry is None:
            self._entry = self._make_entry()
        if self.values is not None:  # a gradient may come later
            return replace(self._entry, values=self.values.of(self._name, self._shape))
        return self._entry

    def _make_entry(self) -> Entry:
        reductions: Reductions | None = None
        if isinstance(self._steps, BeamSteps):
            self._steps.joined()
        if self._keep is not None:
            self._reduce_steps()
            assert self._reductions is not None
            reductions = finished(self._reductions)
        else:
            if self._joined is None:
                self._joined = self._steps.joined()
            if self._matrix is None:
                self._matrix = self._joined.matrix()
        tokens, real, unseen = self._place()
        real, keys = _where_any(real), _where_any(self._padding())
        return Entry(
            self._name,
            self.kind,
            layer_of(self._name),
            self._shape,
            self._count,
            call=self._joined,
            attention=self._matrix,
            reductions=reductions,
            first_head=self._first_head,
            shard=self._shard,
            detached=None if self._graph else self._text.detached,
            real=real,
            real_keys=keys,
            **self._text.sides(self._name, self.kind, self._shape, tokens, unseen, (real, keys))._asdict(),
        )

    # Where the queries lie in the text, and what of it is padding

    @property
    def rows(self) -> Rows:
        """Where its queries lie in the text."""
        return Rows(self._shape[0], self._shape[2], self._queries.stop, self._first)

    def real(self) -> Bool[Tensor, "batch tokens"] | None:
        """Which tokens up to the last query are no padding; None where that is not known, or another text has them."""
        keys = self._padding()
        one_text = self.kind == "decoder" or self._shape[2] == self._shape[3]
        return keys[:, : self._queries.stop - self._keys.start] if keys is not None and one_text else None

    def _place(self) -> tuple[int, Tensor | None, int]:
        """How many tokens the text has up to the last query, which of them are no padding, how many were not seen."""
        if self.kind != "cross":
            return self._queries.stop, self.real(), self._first
        reader = self._text.reader(self._name, self._shape[0], self._shape[2])
        if reader is None:
            return self._queries.stop, None, self._first
        return reader.rows.tokens, reader.real(), reader.rows.unseen

    def _padding(self) -> Bool[Tensor, "batch keys"] | None:
        """Which keys are no padding."""
        if self._keep is not None:
            return self._real_keys
        if self._joined is None:
            self._joined = self._steps.joined()
        return self._real(self._joined, range(self._shape[3]), None)

    def _real(self, call: AttentionCall, keys: range, before: Tensor | None) -> Bool[Tensor, "batch keys"] | None:
        """Which keys are no padding: by the mask of a call with these keys, as far as was known before, and by ids."""
        batch = self._shape[0]
        read = None if self.kind == "cross" else self._text.read(self._name, keys.stop, batch)
        parts = [
            (part, start)
            for part, start in ((call.real_keys(), keys.start), (before, 0), (read, 0))
            if part is not None
        ]
        if not parts:
            return None
        found = torch.ones(batch, keys.stop, dtype=torch.bool, device=call.query.device)
        for part, start in parts:
            found[:, start : start + part.shape[1]] &= part.to(found.device)
        return found

    def _reduced(self, call: AttentionCall, matrix: AttentionMatrix, queries: range) -> Growing:
        """The reductions of a call with these queries of the text, to which padding adds nothing."""
        assert self._keep is not None
        keys = self._columns(call)
        self._real_keys = self._real(call, keys, self._real_keys)
        _, real, _ = self._place()
        if real is not None:
            rows = real[:, real.shape[1] - self._shape[2] :][:, queries.start : queries.stop]
            matrix = matrix.where(cut(~rows))
        return reduce(matrix, self._keep, queries, keys)

    def _reduce_steps(self) -> None:
        """The steps that wait, as one matrix, added to what was kept before."""
        if isinstance(self._steps, BeamSteps) or not self._steps.rows:
            return
        assert self._keep is not None
        assert self._reductions is not None
        call = self._steps.joined()
        queries, keys = range(self._shape[2] - self._steps.rows, self._shape[2]), self._columns(call)
        found = self._reduced(call, call.matrix(), queries)
        self._reductions = extend(self._reductions, found, keys.start, keys.stop)
        self._steps.clear()

    def _columns(self, call: AttentionCall) -> range:
        """Where the keys of a call lie in the record, which starts with those of its first call."""
        return range(call.keys.start - self._keys.start, call.keys.stop - self._keys.start)


def _where_any(real: Tensor | None) -> Tensor | None:
    """Which tokens are no padding; None where all are."""
    return None if real is None or bool(real.all()) else real.cpu()


class Pass(dict[str, ModuleCalls]):
    """The calls of each module, by its name."""

    def __init__(
        self, vocabulary: Vocabulary, wordless: Callable[[str], bool], name: str = "", ends: Sequence[int] = (),
        pads: Mapping[str, int] | None = None,
    ):  # fmt: skip
        self.name = name
        self.text = Text(vocabulary, wordless, ends, pads)
        self.links: dict[str, Links] = {}  # by module

    @cached_property
    def compared(self) -> str:
        """The module whose keys are compared from step to step, where one is enough: who reorders a cache reorders all.

        The last one: keys of the first layer are alike wherever two texts end with the same token.
        """
        return next((name for name in reversed(self) if self[name].kind == "decoder"), "")

    @property
    def searching(self) -> bool:
        """Whether it belongs to a beam search whose hypotheses are not known yet."""
        return any(calls.searching for calls in self.values())

    def finish(self) -> None:
        """What was put off is done."""
        for calls in self.values():
            calls.finish()

    def choose(self, found: Hypotheses | None) -> None:
        """The beams of a search become its hypotheses; None: each step was a pass of its own, and stays as it ran."""
        for calls in self.values():
            calls.choose(found)
        if found is not None:
            self.text.change(found.texts_of)


class Caches:
    """Which pass the keys of a cache belong to: two texts may be written in turn, each with a cache of its own."""

    def __init__(self) -> None:
        self._passes: dict[int, tuple[weakref.ref[Any], Pass]] = {}

    def find(self, cache: Any, otherwise: Pass) -> Pass:
        """The pass of a cache, where it is known."""
        known = self._passes.get(id(cache))
        return otherwise if cache is None or known is None or known[0]() is not cache else known[1]

    def note(self, cache: Any, one: Pass) -> None:
        """The cache has the keys of this pass from now on."""
        if type(cache).__weakrefoffset__:  # neither None nor a tuple of tensors, as models of old have
            self._passes[id(cache)] = weakref.ref(cache), one
