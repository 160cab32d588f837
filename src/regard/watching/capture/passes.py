"""The fold: `Passes` sorts the calls of a running model into texts, and `ModuleCalls` joins those of a module.

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
from regard.watching.capture.calls import AttentionCall, joined_parts
from regard.watching.capture.events import (
    Event,
    ForwardBegan,
    ForwardEnded,
    GenerationBegan,
    GenerationEnded,
    InputsRead,
    ModuleEnded,
    Placed,
    Returned,
    Unseen,
)
from regard.watching.capture.links import Changes, LocatedLink, Seen
from regard.watching.capture.masks import LazyMask, Pattern
from regard.watching.capture.steps import BeamSteps, Hypotheses, Steps
from regard.watching.images.images import Images, Stated, read_images
from regard.watching.record.entries import Entry, KeptValues, Projections, layer_of
from regard.watching.record.reductions import Growing, Keep, Reductions, extend, finished, reduce
from regard.watching.record.tokens import Rows, Text, Tokens, Vocabulary

_ROWS = 256  # steps that wait and are then reduced at once: one reduction takes hardly longer for many than for few


# The calls of one module


class ModuleCalls:
    """All calls of one module on one text: a single one, or the steps of a generation.

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
        self._first = call.queries.start  # the number of its first token in the text, kept or not
        reductions = keep.reductions  # None: the matrix
        if keep.rows is not None and call.kind == "encoder":  # no text that goes on: no rows are the last ones
            reductions = ("received",)
        elif keep.rows is not None:
            matrix = None if call.query.shape[2] > keep.rows else matrix
            call = call.last(keep.rows)
        self._name, self.kind, self._keep, self._graph, self._text = name, call.kind, reductions, keep.graph, text
        self._heads, self._shard, self.values = call.heads, call.shard, values
        self._steps: Steps | BeamSteps = BeamSteps() if beams else Steps()  # with reductions, those not reduced yet
        self._reductions: Growing | None = None
        self._real_keys: Tensor | None = None  # of what was reduced
        self._entry: Entry | None = None
        self._last_key = weakref.ref(call.key)
        self._begin(call, 1)
        if call.kind != "cross":
            text.readers[name] = self
        if isinstance(self._steps, BeamSteps):
            self._steps.add(call)
            return
        matrix = call.matrix() if matrix is None else matrix
        if call.requires_grad and not keep.graph:
            call.warn_if_detached(text.detached)
            call, matrix = call.detach(), matrix.detach()
        self._take(call, matrix)

    def _begin(self, call: AttentionCall, count: int) -> None:
        """The text is that of this call, which stands for so many."""
        self._batch, self._count = call.query.shape[0], count
        self._queries, self._keys, self._rows = call.queries, call.keys, call.query.shape[2]
        self._whole: tuple[AttentionCall, AttentionMatrix] | None = None  # all calls as one, once it was computed

    def _take(self, call: AttentionCall, matrix: AttentionMatrix) -> None:
        """Keep the first call, or its reductions."""
        assert isinstance(self._steps, Steps)
        if self._keep is None:
            self._whole = call, matrix
            self._steps.add(call)
        else:
            self._reductions = self._reduced(call, matrix.detach(), range(self._rows))
            self._steps.note(call)

    @property
    def _shape(self) -> tuple[int, int, int, int]:
        return self._batch, len(self._heads), self._rows, len(self._keys)

    def continues(self, call: AttentionCall, text_continues: bool) -> bool:
        """Whether a call continues this text; `text_continues`: self-attention did so in the same forward."""
        if call.kind != "cross":
            return 0 < call.queries.start == self._queries.stop
        last = self._last_key()
        if last is call.key:  # a cache returns the same tensor each time
            return True
        return text_continues and (last is None or (last.shape == call.key.shape and torch.equal(last, call.key)))

    def located(self, call: AttentionCall) -> AttentionCall:
        """The call, in its place in this text if it is a step with a cache: one query, and one key more than before.

        torch's function does not receive the position of a query. Models of transformers and regard's own pass it.
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
        self._steps.add(call, self._keys)
        if call.kind == "cross":
            self._last_key = weakref.ref(call.key)
        self._grow(call.queries.stop, max(self._keys.stop, call.keys.stop), call.query.shape[2])

    def follow(self, query: Tensor, key: Tensor, queries: range, scale: float | None, *, compare: bool) -> bool:
        """A further step, if it is like the last one; False: it may differ, and nothing was done."""
        if queries.start != self._queries.stop or self.kind != "decoder":
            return False
        if not self._steps.follow(query, key, scale, compare=compare):
            return False
        self._grow(queries.stop, self._keys.stop + 1, 1)
        return True

    def _grow(self, queries: int, keys: int, rows: int) -> None:
        """The text ends with these queries and keys now, after a step of so many rows."""
        self._queries, self._keys = range(self._queries.start, queries), range(self._keys.start, keys)
        self._rows += rows
        self._count += 1
        self._whole = None
        if self._keep is not None and self._steps.rows >= _ROWS:
            self._reduce_steps()

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

    def choose(self, hypotheses: Hypotheses | None) -> None:
        """The calls of a beam search become those of its hypotheses; None: they stay as they are."""
        if isinstance(self._steps, BeamSteps):
            call, count = self._steps.chosen(hypotheses)
            self._steps, self._entry = Steps(), None
            self._begin(call, count)
            self._take(call, call.matrix())

    def finish(self) -> None:
        """Do what was put off; hold nothing of the cache any longer that the record does not need."""
        self._steps.check()
        if self.values is not None and self._count > 1:
            self.values.settle()
        if self._keep is not None:
            self._reduce_steps()

    def entry(self) -> Entry:
        """The attention over the whole text so far."""
        if self._entry is None or self._entry.calls != self._count:
            self._entry = self._make_entry()
        if self.values is not None:  # a gradient may come later
            return replace(self._entry, values=self.values.of(self._name, self._shape))
        return self._entry

    def _make_entry(self) -> Entry:
        reductions: Reductions | None = None
        call: AttentionCall | None = None
        matrix: AttentionMatrix | None = None
        if self._keep is None or isinstance(self._steps, BeamSteps):
            call, matrix = self._joined()
        else:
            self._reduce_steps()
            assert self._reductions is not None
            reductions = finished(self._reductions)
        tokens, real, unseen = self._place()
        real, keys = _where_any(real), _where_any(self._padding())
        return Entry(
            self._name,
            self.kind,
            layer_of(self._name),
            self._shape,
            self._count,
            call=call,
            attention=matrix,
            reductions=reductions,
            first_head=self._heads.start,
            shard=self._shard,
            detached=None if self._graph else self._text.detached,
            real=real,
            real_keys=keys,
            **self._text.sides(self._name, self.kind, self._shape, tokens, unseen, (real, keys))._asdict(),
        )

    def _joined(self) -> tuple[AttentionCall, AttentionMatrix]:
        """All calls as one, and its matrix."""
        if self._whole is None:
            call = self._steps.joined()
            self._whole = call, call.matrix()
        return self._whole

    # Where the queries lie in the text, and what of it is padding

    @property
    def rows(self) -> Rows:
        """Where its queries lie in the text."""
        return Rows(self._batch, self._rows, self._queries.stop, self._first)

    def real(self) -> Bool[Tensor, "batch tokens"] | None:
        """Which tokens up to the last query are no padding; None where that is not known, or another text has them."""
        keys = self._padding()
        one_text = self.kind == "decoder" or self._rows == len(self._keys)
        return keys[:, : self._queries.stop - self._keys.start] if keys is not None and one_text else None

    def _place(self) -> tuple[int, Tensor | None, int]:
        """How many tokens the text has up to the last query, which of them are no padding, how many were not seen."""
        if self.kind != "cross":
            return self._queries.stop, self.real(), self._first
        reader = self._text.reader(self._name, self._batch, self._rows)
        if reader is None:
            return self._queries.stop, None, self._first
        return reader.rows.tokens, reader.real(), reader.rows.unseen

    def _padding(self) -> Bool[Tensor, "batch keys"] | None:
        """Which keys are no padding."""
        if self._keep is not None:
            return self._real_keys
        return self._real(self._joined()[0], range(len(self._keys)), None)

    def _real(self, call: AttentionCall, keys: range, before: Tensor | None) -> Bool[Tensor, "batch keys"] | None:
        """Which keys are no padding: by the mask of a call with these keys, as far as was known before, and by ids."""
        read = None if self.kind == "cross" else self._text.read(self._name, keys.stop, self._batch)
        parts = [
            (part, start)
            for part, start in ((call.real_keys(), keys.start), (before, 0), (read, 0))
            if part is not None
        ]
        if not parts:
            return None
        real = torch.ones(self._batch, keys.stop, dtype=torch.bool, device=call.query.device)
        for part, start in parts:
            real[:, start : start + part.shape[1]] &= part.to(real.device)
        return real

    def _reduced(self, call: AttentionCall, matrix: AttentionMatrix, queries: range) -> Growing:
        """The reductions of a call with these queries of the text, to which padding adds nothing."""
        assert self._keep is not None
        keys = self._columns(call)
        self._real_keys = self._real(call, keys, self._real_keys)
        _, real, _ = self._place()
        if real is not None:
            rows = real[:, real.shape[1] - self._rows :][:, queries.start : queries.stop]
            matrix = matrix.where(cut(~rows))
        return reduce(matrix, self._keep, queries, keys)

    def _reduce_steps(self) -> None:
        """The steps that wait, as one matrix, added to what was kept before."""
        if isinstance(self._steps, BeamSteps) or not self._steps.rows:
            return
        assert self._reductions is not None
        call = self._steps.joined()
        queries, keys = range(self._rows - self._steps.rows, self._rows), self._columns(call)
        added = self._reduced(call, call.matrix(), queries)
        self._reductions = extend(self._reductions, added, keys.start, keys.stop)
        self._steps.clear()

    def _columns(self, call: AttentionCall) -> range:
        """Where the keys of a call lie in the record, which starts with those of its first call."""
        return range(call.keys.start - self._keys.start, call.keys.stop - self._keys.start)


def _where_any(real: Tensor | None) -> Tensor | None:
    """Which tokens are no padding; None where all are."""
    return None if real is None or bool(real.all()) else real.cpu()


# The modules of a model on one text


class Pass(dict[str, ModuleCalls]):
    """What the modules of a model computed on one text, or one batch of texts: the calls of each by its name."""

    def __init__(self, text: Text, keep: Keep, name: str = ""):
        super().__init__()
        self.text, self.name, self._keep = text, name, keep
        self.links: dict[str, tuple[LocatedLink, ...]] = {}  # by module

    def add(
        self,
        name: str,
        call: AttentionCall,
        matrix: AttentionMatrix | None = None,
        *,
        beams: bool = False,
        values: Callable[[], KeptValues | None] = lambda: None,
    ) -> ModuleCalls:
        """Append a call of a module: its first one, for which `values` says what is kept of values, or a step."""
        calls = self.get(name)
        if calls is None:
            calls = ModuleCalls(name, call, matrix, self._keep, self.text, beams=beams, values=values())
            self[name] = calls
        else:
            calls.append(call)
        return calls

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
        """Do what was put off."""
        for calls in self.values():
            calls.finish()

    def choose(self, hypotheses: Hypotheses | None) -> None:
        """The beams of a search become its hypotheses; None: each step was a pass of its own, and stays as it ran."""
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
    wordless: Callable[[str], bool]  # whether the module of a name reads something else than words
    pads: Mapping[str, int]  # the id of padding, by module, where the mask does not tell padding
    images: Stated
    keep: Keep


class _Generation(NamedTuple):
    """The generation that is running."""

    mode: str = ""
    ends: tuple[int, ...] = ()
    images: Images | None = None  # the model encodes its images first, and is then called without them
    before: int = 0  # how many passes there were before it


class Passes:
    """The `Watcher` of a model: folds its events and calls into one `Pass` for each text, in `passes`.

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
        self.forwards = 0  # how often the model, or a part of it, was called from outside
        self._forward = ForwardBegan(None, False)
        self._generation = _Generation()
        self._ids: dict[str, Tensor] = {}  # by module: ids that no attention was computed for yet
        self._images: Images | None = None
        self._parts: dict[str, list[tuple[AttentionCall, AttentionMatrix | None]]] = {name: [] for name in parts}
        self._caches: dict[int, tuple[weakref.ref[Any], Pass]] = {}  # by id: the pass whose keys a cache has
        self._runs: dict[str, tuple[int, int]] = {}  # by module: the last forward that called it, and how often
        self._continued = -1  # the last forward that continued a text
        self._fresh: set[str] = set()  # observed in a forward of the module that has not ended yet
        self._now = self._new_pass()
        self.thread = threading.get_ident()  # of the `with` block

    # Events

    def tell(self, event: Event) -> None:
        """Fold an event."""
        match event:
            case InputsRead(ids, images):
                self._ids |= ids
                self._images = self._images or images()
            case ForwardBegan(cache):
                self.forwards += 1
                self._forward, self._images = event, self._generation.images
                self._now = self._pass_of(cache)
                for calls in self._parts.values():  # of a forward that ended in an error
                    calls.clear()
            case ForwardEnded(cache):
                for each in (self._forward.cache, cache):
                    if type(each).__weakrefoffset__:  # neither None nor a tuple of tensors, as old models have
                        self._caches[id(each)] = weakref.ref(each), self._now
                self._forward = self._forward._replace(cache=None)
            case GenerationBegan():
                self._begin_generation(event)
            case GenerationEnded(hypotheses):
                self._generation = _Generation()
                searched = [one for one in self.passes if one.searching]
                for one in searched if hypotheses is not None else ():
                    # Without a cache each step is a pass of its own.
                    one.choose(hypotheses if len(searched) == 1 else None)
            case ModuleEnded(name, boundaries):
                self._end_module(name, boundaries)
            case Returned(name, output):
                if self._keep.values:  # the output projection is recognised by its input
                    self.projections.returned(name, output)
            case Unseen(name):
                self.unseen[name] = None

    def _begin_generation(self, event: GenerationBegan) -> None:
        if event.mode == "beams" and (self._keep.values or self._keep.rows is not None):
            raise WatchError(
                "neither values nor the last rows are followed along the hypotheses of a beam search. Watch with "
                'keep="matrix", generate with num_beams=1, or watch model(sequences) on what came out.'
            )
        images = read_images(event.name, event.model, (), event.inputs, self._setup.images)
        self._generation = _Generation(event.mode, event.ends, images, len(self.passes))

    def _end_module(self, name: str, boundaries: Callable[[], Tensor | None]) -> None:
        """Name a module as unseen unless it called transformers' function; record its parts as one row if it can be."""
        if name not in self._fresh:
            self.unseen[name] = None
            return
        self._fresh.discard(name)
        calls = self._parts.get(name, ())
        row = joined_parts([call for call, _ in calls], boundaries()) if len(calls) > 1 else None
        for call, matrix in calls if row is None else [(row, None)]:
            self._record(self._sorted(name, call), matrix, None)
        if calls:
            self._parts[name] = []

    def finish(self) -> None:
        """Do what was put off, in all passes."""
        for one in self.passes:
            one.finish()

    # Calls

    def place(self, name: str, call: AttentionCall) -> Placed:
        """The call of a module in its place in a text, with the links that are cut or steered."""
        again = _recomputed()
        if name in self._parts or again:  # parts have their place when all of them are there
            placed = Placed(name, name, self._now, call)
        else:
            placed = self._passing(name, call) if self._keep.nothing else self._sorted(name, call)
        links = self._now.links
        if not self._changes.has_links or name in self._parts or (again and name not in links):
            return placed
        if placed.key not in links:
            links[placed.key] = self._changes.located(name, self._known(placed.key, placed.call), call.heads)
        return placed._replace(call=placed.call.changed(links[placed.key]))

    def observe(self, placed: Placed, matrix: AttentionMatrix | None, output: Tensor, value: Tensor) -> Tensor:
        """Record a call; the output, without the heads that are removed."""
        self.observed.add(placed.name)
        self._fresh.add(placed.name)
        if not _recomputed():
            if placed.name in self._parts:
                self._parts[placed.name].append((placed.call, matrix))
            elif not self._keep.nothing:
                self._record(placed, matrix, value)
        output = self._changes.without_heads(placed.name, output, placed.call.all_heads, placed.call.heads)
        if self._keep.gradients:
            calls = placed.text.get(placed.key)
            if calls is not None and calls.values is not None:
                calls.values.differentiate(output)
        return output

    def follow(self, name: str, query: Tensor, key: Tensor, mask: LazyMask, scale: float | None) -> bool:
        """Record a step of a generation that is like the one before, and changed by nobody; False: it may differ.

        What `place` and `observe` do, for the case that a model which writes is in nearly all the time.
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

    def _record(self, placed: Placed, matrix: AttentionMatrix | None, value: Tensor | None) -> None:
        """A call that has its place."""
        name = placed.name
        lost = self._keep.graph and not torch.is_grad_enabled() and self._forward.differentiable
        if lost and any(parameter.requires_grad for parameter in self._setup.modules[name].parameters()):
            raise WatchError(
                f'{name} ran without gradients, though the model was called with them: keep="graph" has none to keep. '
                "If it is checkpointed, choose use_reentrant=False."
            )
        beams = self._generation.mode == "beams"
        calls = placed.text.add(
            placed.key, placed.call, matrix, beams=beams, values=functools.partial(self._new_values, name)
        )
        if calls.values is not None and value is not None:
            calls.values.take(value)

    def _new_values(self, name: str) -> KeptValues | None:
        return KeptValues(functools.partial(self.projections.of, name)) if self._keep.values else None

    # Which text a call belongs to

    def _sorted(self, name: str, call: AttentionCall) -> Placed:
        """The call with the text that it belongs to, where it continues one, or else with a new text."""
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
        """`_sorted` for a call that is not recorded, so that beams may come and go: its links are those of its text."""
        key = self._key(name)
        if call.kind != "cross" and call.queries.start == 0 and call.query.shape[2] >= call.key.shape[2]:
            if key in self._now.links:  # another text
                self._now = self._new_pass()
            self._read()
        if key not in self.seen:
            self.seen[key] = self._known(key, call)
        return Placed(name, key, self._now, call)

    def _key(self, name: str) -> str:
        """The name of a module and, where it runs several times in a forward as in ALBERT, which time this is."""
        forward, repetition = self._runs.get(name, (-1, 0))
        repetition = repetition + 1 if forward == self.forwards else 0
        self._runs[name] = self.forwards, repetition
        return f"{name}#{repetition}" if repetition else name

    def _read(self) -> None:
        """The ids and images that came since the last call are of this text."""
        self._now.text.add(self._ids, self._images)
        self._ids = {}

    def _pass_of(self, cache: Any) -> Pass:
        """The pass whose keys a cache has, where it is known: two texts may be written in turn, each with its cache."""
        known = self._caches.get(id(cache))
        return self._now if cache is None or known is None or known[0]() is not cache else known[1]

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
    """Whether a checkpoint computes a call again, which was recorded before: it does so in a backward pass."""
    return bool(torch._C._current_graph_task_id() != -1)
