"""The fold: `Passes` sorts the calls of a running model into texts, and `ModuleCalls` joins the calls of a module.

AttentionCall ──Passes.place──▶ Placed ──Passes.observe──▶ Pass ──▶ ModuleCalls ──entry()──▶ Entry
one call, as the model          its module,                all modules,         one matrix over the whole
made it (frozen)                its text (frozen)          one text             text, or its reductions (frozen)
"""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from regard.errors import WatchError
from regard.matrix import AttentionMatrix
from regard.scores import cut
from regard.support import Bool
from regard.watching.capture.activations import put, put_inputs
from regard.watching.capture.calls import AttentionCall, Placed, joined_parts
from regard.watching.capture.links import Changes, LocatedLink, Seen
from regard.watching.capture.masks import LazyMask, Pattern
from regard.watching.capture.steps import BeamSteps, Hypotheses, Steps
from regard.watching.images.images import Images, Stated, read_images
from regard.watching.record.entries import Entry, KeptValues, Projections, layer_of
from regard.watching.record.reductions import Growing, Keep, extend, finished, reduce
from regard.watching.record.tokens import Text, Tokens, Vocabulary

_ROWS = 256  # steps that wait to be reduced together: one reduction is hardly slower for many rows than for few


# The calls of one module


class ModuleCalls:
    """All calls of one module on one text: a single call, or the steps of a generation.

    A step of self-attention does not wait for the device and, unless its cache is written in place, copies only its new
    keys. `entry()` is the state so far, as a value.
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
        values: KeptValues | None = None,
    ):
        self.first = call.queries.start  # the first query seen, kept or not; the tokens before it were in a cache
        self._reduced_to = keep.reductions  # None: the matrix is kept
        if keep.rows is not None and call.kind == "encoder":  # such a text does not grow, so it has no last rows
            self._reduced_to = ("received",)
        elif keep.rows is not None:
            matrix = None if call.query.shape[2] > keep.rows else matrix
            call = call.last(keep.rows)
        self._name, self.kind, self._graph, self._text = name, call.kind, keep.graph, text
        self._heads, self._shard, self.values = call.heads, call.shard, values
        self.output_norms: Tensor | None = None
        self._steps = Steps()  # with reductions, the steps that are not reduced yet
        self.beams = BeamSteps() if beams else None  # until the hypotheses are known
        self._reductions: Growing | None = None
        self._real_keys: Tensor | None = None  # of what was reduced
        self._entry: Entry | None = None
        self._last_key = weakref.ref(call.key)
        if call.kind != "cross":
            text.readers[name] = self
        if self.beams is not None:
            self._begin(call, 1)
            self.beams.add(call)
            return
        if keep.outputs:  # one call, which is measured beside others
            self._begin(call, 1, (call, matrix))
            return
        matrix = call.matrix() if matrix is None else matrix
        if call.requires_grad and not keep.graph:
            if torch.is_grad_enabled() and (tensors := [t for t in (call.query, call.key) if t.requires_grad]):
                tensors[0].register_hook(text.detached.passed)  # type: ignore[no-untyped-call]
            call, matrix = call.detach(), matrix.detach()
        self._take(call, matrix, 1)

    def _begin(
        self, call: AttentionCall, count: int, whole: tuple[AttentionCall, AttentionMatrix | None] | None = None
    ) -> None:
        """Let the text be that of this call, which stands for `count` calls."""
        self.batch, self.rows, self._count = call.query.shape[0], call.query.shape[2], count  # rows: kept queries
        self.queries, self._keys = call.queries, call.keys
        self._whole = whole  # all calls as one, once it was computed

    def _take(self, call: AttentionCall, matrix: AttentionMatrix, count: int) -> None:
        """Keep the first call, or its reductions."""
        self._begin(call, count)
        if self._reduced_to is None:
            self._whole = call, matrix
            self._steps.add(call)
        else:
            self._reductions = self._reduce(call, matrix.detach(), range(self.rows))
            self._steps.note(call)

    @property
    def _shape(self) -> tuple[int, int, int, int]:
        return self.batch, len(self._heads), self.rows, len(self._keys)

    def continues(self, call: AttentionCall, text_continues: bool) -> bool:
        """Whether a call continues this text; `text_continues`: self-attention did so in the same forward."""
        if call.kind != "cross":
            return 0 < call.queries.start == self.queries.stop
        last = self._last_key()
        if last is call.key:  # a cache returns the same tensor each time
            return True
        return text_continues and (last is None or (last.shape == call.key.shape and torch.equal(last, call.key)))

    def located(self, call: AttentionCall) -> AttentionCall:
        """Return the call in its place in this text if it is a step with a cache: one query, and one key more.

        torch's function does not receive the position of a query. Models of transformers and regard's own pass it.
        """
        last = self._keys.stop
        is_step = call.kind == "cross" and len(call.queries) == 1 and call.keys == range(last + 1)
        if not is_step or self.kind != "decoder":
            return call
        return replace(call, kind="decoder", queries=range(last, last + 1), pattern=Pattern(((None, 0),)))

    def append(self, call: AttentionCall) -> None:
        """Append a step."""
        if self._graph and call.requires_grad:
            raise WatchError(
                f'{self._name}: keep="graph" follows one forward over a whole text, and this one goes on with a cache. '
                "Give the model the whole text, or generate inside torch.no_grad()."
            )
        (self._steps if self.beams is None else self.beams).add(call, self._keys)
        if call.kind == "cross":
            self._last_key = weakref.ref(call.key)
        self._grow(call.queries.stop, max(self._keys.stop, call.keys.stop), call.query.shape[2])

    def follow(self, query: Tensor, key: Tensor, queries: range, scale: float | None, *, compare: bool) -> bool:
        """Append a step if it is like the last one; False: it may differ, and nothing was done."""
        if queries.start != self.queries.stop or self.kind != "decoder" or self.beams is not None:
            return False
        if not self._steps.follow(query, key, scale, compare=compare):
            return False
        self._grow(queries.stop, self._keys.stop + 1, 1)
        return True

    def _grow(self, queries: int, keys: int, rows: int) -> None:
        """Let the text end with these queries and keys, after a step of `rows` queries."""
        self.queries, self._keys = range(self.queries.start, queries), range(self._keys.start, keys)
        self.rows += rows
        self._count += 1
        self._whole = None
        if self._steps.rows >= _ROWS:
            self._reduce_steps()

    def resume(self) -> None:
        """Expect that a server computes the keys of this text again, which it dropped, before the next step."""
        self._reduce_steps()
        self._steps.resume()

    def choose(self, hypotheses: Hypotheses | None) -> None:
        """Turn the calls of a beam search into the calls of its hypotheses; None: they stay as they are."""
        if self.beams is not None:
            call, count = self.beams.chosen(hypotheses)
            self.beams, self._entry = None, None
            self._take(call, call.matrix(), count)

    def finish(self) -> None:
        """Do what was put off, and release the cache as far as the record does not need it."""
        self._steps.check()
        if self.values is not None and self._count > 1:
            self.values.settle()
        self._reduce_steps()

    def entry(self) -> Entry:
        """Return the attention over the whole text so far."""
        if self._entry is None or self._entry.calls != self._count:
            self._entry = self._make_entry()
        if self.values is not None:  # a gradient may come later
            return replace(self._entry, values=self.values.of(self._name, self._shape))
        return self._entry

    def _make_entry(self) -> Entry:
        if self.beams is not None:
            raise WatchError("the beam search has not ended: which rows belong to one hypothesis is not known yet.")
        tokens, real, unseen = self._place()
        real, keys = _where_any(real), _where_any(self._padding())
        sides = self._text.sides(self._name, self.kind, self._shape, tokens, unseen, (real, keys))
        return replace(self.measurable(), real=real, real_keys=keys, **sides._asdict())

    def measurable(self) -> Entry:
        """Return the entry without its tokens, whose ids would have to come from the device."""
        self._reduce_steps()
        call, matrix = self._joined() if self._reductions is None else (None, None)
        return Entry(
            self._name,
            self.kind,
            layer_of(self._name),
            self._shape,
            self._count,
            call=call,
            attention=matrix,
            reductions=None if self._reductions is None else finished(self._reductions),
            first_head=self._heads.start,
            shard=self._shard,
            detached=None if self._graph else self._text.detached,
            real=self._place()[1],
            output_norms=self.output_norms,
        )

    def _joined(self) -> tuple[AttentionCall, AttentionMatrix | None]:
        """Return all calls as one, and its matrix; without, where only the call was kept."""
        if self._whole is None:
            call = self._steps.joined()
            self._whole = call, call.matrix()
        return self._whole

    # Where the queries lie in the text, and which tokens are padding

    def real(self) -> Bool[Tensor, "batch tokens"] | None:
        """Return which tokens up to the last query are no padding; None if unknown, or if another text has them."""
        keys = self._padding()
        one_text = self.kind == "decoder" or self.rows == len(self._keys)
        return keys[:, : self.queries.stop - self._keys.start] if keys is not None and one_text else None

    def _place(self) -> tuple[int, Tensor | None, int]:
        """Return the number of tokens up to the last query, which are no padding, and how many were not seen."""
        if self.kind != "cross":
            return self.queries.stop, self.real(), self.first
        reader = self._text.reader(self._name, self.batch, self.rows)
        if reader is None:
            return self.queries.stop, None, self.first
        return reader.queries.stop, reader.real(), reader.first

    def _padding(self) -> Bool[Tensor, "batch keys"] | None:
        if self._reduced_to is not None:
            return self._real_keys
        return self._real(self._joined()[0], range(len(self._keys)), None)

    def _real(self, call: AttentionCall, keys: range, before: Tensor | None) -> Bool[Tensor, "batch keys"] | None:
        """Return which keys are no padding: by the mask of a call with these keys, as known `before`, and by ids."""
        by_ids = None if self.kind == "cross" else self._text.read(self._name, keys.stop, self.batch)
        sources = ((call.real_keys(), keys.start), (before, 0), (by_ids, 0))
        if all(known is None for known, _ in sources):
            return None
        real = torch.ones(self.batch, keys.stop, dtype=torch.bool, device=call.query.device)
        for known, start in sources:
            if known is not None:
                real[:, start : start + known.shape[1]] &= known.to(real.device)
        return real

    # Reductions

    def _reduce(self, call: AttentionCall, matrix: AttentionMatrix, queries: range) -> Growing:
        """Return the reductions of a call with these queries of the text, to which padding adds nothing."""
        assert self._reduced_to is not None
        keys = self._columns(call)
        self._real_keys = self._real(call, keys, self._real_keys)
        _, real, _ = self._place()
        if real is not None:
            rows = real[:, real.shape[1] - self.rows :][:, queries.start : queries.stop]
            matrix = matrix.where(cut(~rows))
        return reduce(matrix, self._reduced_to, queries, keys)

    def _reduce_steps(self) -> None:
        """Reduce the steps that wait, as one matrix, and add them to the reductions before."""
        if self._reductions is None or not self._steps.rows:
            return
        call = self._steps.joined()
        queries, keys = range(self.rows - self._steps.rows, self.rows), self._columns(call)
        added = self._reduce(call, call.matrix(), queries)
        self._reductions = extend(self._reductions, added, keys.start, keys.stop)
        self._steps.clear()

    def _columns(self, call: AttentionCall) -> range:
        """Return where the keys of a call lie in the record, which starts with the keys of its first call."""
        return range(call.keys.start - self._keys.start, call.keys.stop - self._keys.start)


def _where_any(real: Tensor | None) -> Tensor | None:
    """Return which tokens are no padding; None where all are."""
    return None if real is None or bool(real.all()) else real.cpu()


# The modules of a model on one text


class Pass(dict[str, ModuleCalls]):
    """What the modules of a model computed on one text, or one batch of texts: the calls of each module by its name."""

    def __init__(self, text: Text, keep: Keep, name: str = ""):
        super().__init__()
        self.text, self.name, self._keep = text, name, keep
        self.links: dict[str, tuple[LocatedLink, ...]] = {}  # by module

    def add(self, name: str, call: AttentionCall, matrix: AttentionMatrix | None = None, **options: Any) -> ModuleCalls:
        """Append a call of a module: a step, or the first call, with options of `ModuleCalls`."""
        if name in self:
            self[name].append(call)
        else:
            self[name] = ModuleCalls(name, call, matrix, self._keep, self.text, **options)
        return self[name]

    @cached_property
    def compared(self) -> str:
        """The module whose keys are compared from step to step: who reorders the cache of one module reorders all.

        The last module: in the first layer, keys of two texts are alike wherever both end with the same token.
        """
        return next((name for name in reversed(self) if self[name].kind == "decoder"), "")

    def finish(self) -> None:
        """Do what was put off."""
        for calls in self.values():
            calls.finish()

    def choose(self, hypotheses: Hypotheses | None) -> None:
        """Turn the beams of a search into its hypotheses; None: each step was a pass of its own and stays as it ran."""
        for calls in self.values():
            calls.choose(hypotheses)
        if hypotheses is not None:
            self.text.change(hypotheses.texts_of)


# All texts of a running model


@dataclass(frozen=True, eq=False)
class Setup:
    """What `Passes` knows of a model before it runs."""

    modules: Mapping[str, nn.Module]
    vocabulary: Vocabulary
    wordless: Callable[[str], bool]  # whether a module reads something else than words, by its name
    pads: Mapping[str, int]  # the id of padding, by module, where the mask does not tell it
    images: Stated
    keep: Keep


class _Generation(NamedTuple):
    mode: str = ""
    ends: tuple[int, ...] = ()
    images: Images | None = None  # the model encodes its images first, and is then called without them
    before: int = 0  # the number of passes before it


class Passes:
    """The watcher of a model: folds its events and calls into one `Pass` for each text, in `passes`.

    Calls are folded as they come, since a list of them would hold the keys of every step of a generation.
    """

    def __init__(self, setup: Setup, changes: Changes, parts: Collection[str] = ()):
        self._setup, self._keep, self._changes = setup, setup.keep, changes
        self.projections = Projections(dict(setup.modules))
        self._follows = not (changes or setup.keep.values)
        self.passes: list[Pass] = []
        self.unseen: dict[str, None] = {}  # the names of modules, in order
        self.observed: set[str] = set()
        self.seen: dict[str, Seen] = {}  # by module: what is known of its last text, where nothing is recorded
        self.forwards = 0  # how often the user's code called the model or a part of it
        self.thread = threading.get_ident()  # of the `with` block
        self._cache: Any = None  # the past_key_values of the running forward
        self._differentiable = False  # whether that forward was called with gradients
        self._generation = _Generation()
        self._ids: dict[str, Tensor] = {}  # by module: ids for which no attention was computed yet
        self._images: Images | None = None
        self._parts: dict[str, list[tuple[AttentionCall, AttentionMatrix | None]]] = {name: [] for name in parts}
        self._caches: dict[int, tuple[weakref.ref[Any], Pass]] = {}  # by id: a KV cache and the pass that filled it
        self._runs: dict[str, tuple[int, int]] = {}  # by module: the last forward that called it, and how often
        self._continued = -1  # the last forward that continued a text
        self._fresh: set[str] = set()  # modules that were observed in a forward which has not ended yet
        self._now = self._new_pass()

    # What happens to the model

    def begin_forward(self, cache: Any) -> None:
        """Note that the user's code calls the model or a part of it, with this KV cache."""
        self.forwards += 1
        self._cache, self._differentiable, self._images = cache, torch.is_grad_enabled(), self._generation.images
        filled = self._caches.get(id(cache))
        if filled is not None and filled[0]() is cache:  # two texts may be generated in turn, each with a cache
            self._now = filled[1]
        for calls in self._parts.values():  # of a forward that ended in an error
            calls.clear()

    def end_forward(self, cache: Any) -> None:
        """Note that this forward has ended, and the KV cache that it returned."""
        for each in (self._cache, cache):
            if type(each).__weakrefoffset__:  # neither None nor a tuple of tensors, as old models have
                self._caches[id(each)] = weakref.ref(each, functools.partial(self._forget, id(each))), self._now
        self._cache = None

    def _forget(self, key: int, freed: weakref.ref[Any]) -> None:
        """Forget the pass of a KV cache that was freed, so that a forgotten pass is freed too."""
        if self._caches.get(key, (None,))[0] is freed:
            del self._caches[key]

    def read_inputs(self, ids: Mapping[str, Tensor], images: Callable[[], Images | None]) -> None:
        """Note the ids (batch, tokens) that modules received; `images` reads those that the model received."""
        self._ids |= ids
        self._images = self._images or images()

    def begin_generation(
        self, name: str, model: nn.Module, inputs: Mapping[str, Any], mode: str, ends: tuple[int, ...]
    ) -> None:
        """Note that `generate` was called.

        Args:
            name: of the generating model inside the watched one.
            model: that model.
            inputs: its arguments.
            mode: "beams"; "guided": every second pass is the unconditional text; "": one row for each text.
            ends: the ids of tokens that end a text.
        """
        if mode == "beams" and (self._keep.values or self._keep.rows is not None):
            raise WatchError(
                "neither values nor the last rows are followed along the hypotheses of a beam search. Watch "
                'with keep="matrix", generate with num_beams=1, or watch model(sequences) on what came out.'
            )
        images = read_images(name, model, (), inputs, self._setup.images)
        self._generation = _Generation(mode, ends, images, len(self.passes))

    def end_generation(self, hypotheses: Hypotheses | None) -> None:
        """Note that `generate` has returned or raised an error; a beam search has hypotheses."""
        self._generation = _Generation()
        searched = [text for text in self.passes if any(calls.beams for calls in text.values())]
        for text in searched if hypotheses is not None else ():
            text.choose(hypotheses if len(searched) == 1 else None)  # without a cache each step is a pass of its own

    def note_output(self, name: str, output: Tensor) -> None:
        """Note what the attention function returned to a module: its output projection is recognised by its input."""
        if self._keep.values:
            self.projections.returned(name, output)

    def name_unseen(self, name: str) -> None:
        """Name a module that computed attention which cannot be recorded."""
        self.unseen[name] = None

    def end_module(self, name: str, boundaries: Callable[[], Tensor | None]) -> None:
        """Name a module as unseen unless it called transformers' function; record its parts as one row if it can be.

        `boundaries` returns where a vision model cuts its row of patches into parts.
        """
        if name not in self._fresh:
            self.unseen[name] = None
            return
        self._fresh.discard(name)
        calls = self._parts.get(name, ())
        row = joined_parts([call for call, _ in calls], boundaries()) if len(calls) > 1 else None
        for call, matrix in calls if row is None else [(row, None)]:
            self._record(self._sorted(name, call), matrix)
        if calls:
            self._parts[name] = []

    def finish(self) -> None:
        """Do what was put off, in all passes."""
        for each in self.passes:
            each.finish()

    # Calls

    def place(self, name: str, call: AttentionCall, value: Tensor) -> tuple[Placed, Tensor]:
        """Return the call of a module in its place in a text, and its values, with links and activations changed."""
        again = _recomputed()
        if name in self._parts or again:  # parts get their place when all of them are there
            placed = Placed(name, name, self._now, call)
        else:
            placed = self._passing(name, call) if self._keep.nothing else self._sorted(name, call)
        links = self._now.links
        if not self._changes.reach_calls or name in self._parts or (again and name not in links):
            return placed, value
        if placed.key not in links:
            links[placed.key] = self._changes.located(name, self._known(placed.key, placed.call), call.heads)
        changed = placed.call.changed(links[placed.key])
        changed, value = put_inputs(self._changes.replacements.get(placed.key, ()), changed, value)
        return placed._replace(call=changed), value

    def observe(self, placed: Placed, matrix: AttentionMatrix | None, output: Tensor, value: Tensor) -> Tensor:
        """Record a call that was computed; return its output with the changes of heads.

        `matrix`: the matrix that the output was computed with, if there was one: it knows its normalisers.
        """
        self.observed.add(placed.name)
        self._fresh.add(placed.name)
        if not _recomputed():
            if placed.name in self._parts:
                self._parts[placed.name].append((placed.call, matrix))
            elif not self._keep.nothing:
                self._record(placed, matrix, value, output)
        replacements = self._changes.replacements.get(placed.key, ())
        output = put(replacements, "output", output, placed.call.queries.start)
        output = self._changes.without_heads(placed.name, output, placed.call.all_heads, placed.call.heads)
        if self._changes.listener is not None:
            output = self._changes.listener(placed.key, placed.call, value, output)
        if self._keep.gradients:
            calls = placed.text.get(placed.key)
            if calls is not None and calls.values is not None:
                calls.values.differentiate(output)
        return output

    def follow(self, name: str, query: Tensor, key: Tensor, mask: LazyMask, scale: float | None) -> bool:
        """Record a step of a generation that is like the step before and unchanged; False: it may differ.

        The short way of `place` and `observe`, which nearly all steps of a generation take.
        """
        calls, forward = self._now.get(name), self.forwards
        if calls is None or not self._follows or self._runs[name][0] == forward or name in self._parts:
            return False
        if not calls.follow(query, key, mask.queries, scale, compare=self._now.compared == name):
            return False
        self._runs[name], self._continued = (forward, 0), forward
        if self._ids:
            self._read()
        self._fresh.add(name)
        return True

    def _record(
        self, placed: Placed, matrix: AttentionMatrix | None, value: Tensor | None = None, output: Tensor | None = None
    ) -> None:
        name = placed.name
        lost = self._keep.graph and not torch.is_grad_enabled() and self._differentiable
        if lost and any(parameter.requires_grad for parameter in self._setup.modules[name].parameters()):
            raise WatchError(
                f'{name} ran without gradients, though the model was called with them: keep="graph" has none to keep. '
                "If it is checkpointed, choose use_reentrant=False."
            )
        beams = self._generation.mode == "beams"
        values = KeptValues(functools.partial(self.projections.of, name)) if self._keep.values else None
        calls = placed.text.add(placed.key, placed.call, matrix, beams=beams, values=values)
        if calls.values is not None and value is not None:
            calls.values.take(value)
        if self._keep.outputs and output is not None:  # at once: the model may change it in place
            dtype = torch.promote_types(output.dtype, torch.float32)
            calls.output_norms = torch.linalg.vector_norm(output, dim=-1, dtype=dtype)

    # Which text a call belongs to

    def _sorted(self, name: str, call: AttentionCall) -> Placed:
        """Return the call with the text that it continues, or else with a new text."""
        key = self._key(name)
        if not self.passes:
            self._begin_pass()
        calls = self._now.get(key)
        if calls is not None:
            call = calls.located(call)
            if calls.continues(call, self._continued == self.forwards):
                self._continued = self.forwards
            elif call.queries.start > 0 and calls.kind == "decoder":
                raise WatchError(
                    f"{name}: the cache was cut or rewound between two calls, so rows cannot be put together. "
                    "Watch one plain generation, or the model on the finished text."
                )
            else:
                self._begin_pass()
        self._read()
        return Placed(name, key, self._now, call)

    def _passing(self, name: str, call: AttentionCall) -> Placed:
        """Return the call with its text where nothing is recorded: steps and beams may come and go, links stay."""
        key = self._key(name)
        if call.kind != "cross" and call.queries.start == 0 and call.query.shape[2] >= call.key.shape[2]:
            if key in self._now.links:  # another text
                self._now = self._new_pass()
            self._read()
        if key not in self.seen:
            self.seen[key] = self._known(key, call)
        return Placed(name, key, self._now, call)

    def _key(self, name: str) -> str:
        """Return the name of a module, with the number of its run if it runs repeatedly in a forward as in ALBERT."""
        forward, repetition = self._runs.get(name, (-1, 0))
        repetition = repetition + 1 if forward == self.forwards else 0
        self._runs[name] = self.forwards, repetition
        return f"{name}#{repetition}" if repetition else name

    def _read(self) -> None:
        """Give the ids and images that came since the last call to the current text."""
        self._now.text.add(self._ids, self._images)
        self._ids = {}

    def _begin_pass(self) -> None:
        self._now.finish()
        mode, before = self._generation.mode, self._generation.before
        guide = mode == "guided" and (len(self.passes) - before) % 2 == 1
        self._now = self._new_pass("unconditional" if guide else "", self._generation.ends)
        self.passes.insert(len(self.passes) - guide, self._now)  # before the text that it guides

    def _new_pass(self, name: str = "", ends: Sequence[int] = ()) -> Pass:
        setup = self._setup
        return Pass(Text(setup.vocabulary, setup.wordless, ends, setup.pads), self._keep, name)

    def _known(self, key: str, call: AttentionCall) -> Seen:
        """Return what is known of a module by its call."""
        batch, heads, queries, keys = *call.query.shape[:3], call.key.shape[2]
        sides, real = self._now.text.sides(key, call.kind, (batch, heads, queries, keys), queries), call.real_keys()
        real_queries = real if call.kind != "cross" and queries == keys else None
        tokens, key_tokens = (
            [
                text if kept is None else text.without_padding(kept[n].nonzero().flatten().tolist(), 0)
                for n, text in enumerate([Tokens.numbered(length)] * batch if side is None else side)
            ]
            for side, length, kept in ((sides.tokens, queries, real_queries), (sides.key_tokens, keys, real))
        )
        return Seen(layer_of(key), call.kind, call.all_heads, (tokens, key_tokens))


def _recomputed() -> bool:
    """Whether a checkpoint computes a recorded call again, which it does in a backward pass."""
    return bool(torch._C._current_graph_task_id() != -1)
