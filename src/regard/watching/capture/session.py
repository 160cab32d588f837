"""`watch`: a `with` block in which the attention of a model is recorded.

Inside the block the attention of the model passes through us: that of regard's own layers through their `attend`
(own_layers.py), that of Hugging Face through a registered function (huggingface.py), and what all other modules call,
of torch or of regard, through a mode of torch (plain_torch.py). Either way `Watching.change` receives every call, sorts
it into a text, and takes links out of it; `Watching.observe` records it, and returns the output.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import sys
import threading
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from types import TracebackType
from typing import Any

import torch
from torch import Tensor, nn

from regard.errors import InputError, UnseenWarning, WatchError
from regard.matrix import AttentionMatrix
from regard.nn import Decoder, Encoder, Transformer
from regard.support import some_of
from regard.watching.capture import huggingface, plain_torch, registry
from regard.watching.capture.calls import AttentionCall
from regard.watching.capture.links import Changes, Link, Seen, Without
from regard.watching.capture.masks import LazyMask
from regard.watching.capture.modules import Kind, attends, kind_of, named_modules
from regard.watching.capture.own_layers import WatchedAttend
from regard.watching.capture.passes import Caches, ModuleCalls, Pass
from regard.watching.capture.steps import Hypotheses
from regard.watching.images.images import Stated, check_stated, read_images
from regard.watching.record.entries import KeptValues, Projections, layer_of
from regard.watching.record.record import Record
from regard.watching.record.reductions import Keep, to_keep
from regard.watching.record.tokens import Images, Tokens, Vocabulary

__all__ = ["Watching", "watch"]


def watch(
    model: nn.Module,
    *,
    tokenizer: Any = None,
    tokens: Sequence[str] | Sequence[Sequence[str]] | None = None,
    keep: str | int | Collection[str] = "matrix",
    without: Without | None = None,
    steer: Mapping[Link, float] | None = None,
    renormalise: bool = True,
    images: Sequence[tuple[int, ...]] | None = None,
    strict: bool = False,
) -> Watching:
    """Record the attention of every layer while the model runs in a `with` block, at the speed of fused kernels.

    The model: of Hugging Face, of regard's layers, of `torch.nn`'s, or one of your own that calls `regard.attention`
    or `torch.nn.functional.scaled_dot_product_attention`; an entry is named after the module that computed it.

    `keep`: "matrix" (queries and keys: ask anything later), "summary" (received, entropy, pool) or a choice of
    "received", "entropy", "pool", "top"; with () nothing is recorded. A number keeps the rows of so many last tokens of
    a text and of all that is written after it, little beside a cache; of layers that are not causal, what is received.
    "graph" is "matrix" as a part of the autograd graph: `loss + 0.1 * record[name].entropy().mean()` trains. Run the
    backward pass inside the block where the model recomputes its forward (checkpointing, with use_reentrant=False).
    ("matrix", "value") keeps values and output projections too, for `record.by_norm()`; "gradient" beside them what a
    backward pass inside the block, or after it, brings, for `entry.attribution`. Attention that ran where regard could
    not see it is named in `record.unseen`, with a warning at the end of the block; `strict`: with an error.

    `without`: what the model runs without: heads by module name, a `Link` or several, or a list of both. Where a link
    is cut, the other weights of its queries are normalised to 1 again; with renormalise=False they stay as they are.
    `steer`: a number for each link, which is added to its scores.

    `tokens`: the words themselves, in one list for each sequence; of a generation, those of the prompt.
    `tokenizer`: or the processor of a model that reads images. Which tokens are patches of an image is known of many
    models (docs/how-to); of others, `images` says it: (rows, columns) of patches for each image of a text, and where
    the tokens cannot be found by their number alone, (rows, columns, first token).

    >>> import torch, regard
    >>> class Layer(torch.nn.Module):
    ...     heads, kind, attend = 2, "encoder", staticmethod(regard.attention)
    ...     def forward(self, x):
    ...         return self.attend(x, x, x, mask=None, dropout=0.0)
    >>> with regard.watch(Layer(), tokens=["a", "dog"]) as record:
    ...     output = record.model(torch.eye(2).expand(1, 2, 2, 2))
    >>> record[""].shape
    (1, 2, 2, 2)
    """
    tokenizer = getattr(tokenizer, "tokenizer", tokenizer)  # that of a processor
    watching = Watching(model, Vocabulary(tokenizer, tokens), to_keep(keep), strict, check_stated(images))
    watching.changes.add(without, steer, renormalise)
    return watching


class Watching:
    """A model being watched between `__enter__` and `__exit__`; the record grows as the model runs."""

    def __init__(self, model: nn.Module, vocabulary: Vocabulary, keep: Keep, strict: bool = False, images: Stated = ()):
        if not isinstance(model, nn.Module):
            raise InputError(f"watch takes a torch module. Got {type(model).__name__}.")
        self._model, self._vocabulary, self._keep, self._strict = model, vocabulary, keep, strict
        self._stated = images
        self._names, self._wrapped = named_modules(model)
        self._wordless = huggingface.wordless(self._names)
        transformers = {name and f"{name}.": m for name, m in self._names.items() if isinstance(m, Transformer)}
        self._pads = {f"{before}decoder": module.config.pad for before, module in transformers.items()}
        self._projections = Projections(self._names)
        self.changes = Changes(self._names)
        self._undo: contextlib.ExitStack | None = None
        self._configs: list[tuple[Any, str]] = []
        self._reset()

    def _reset(self) -> None:
        self._passes: list[Pass] = []
        self._now = Pass(self._vocabulary, self._wordless)  # that the model works on
        self._caches, self._given = Caches(), None  # the cache that this step got
        self._ends: tuple[int, ...] = ()  # the ids of tokens that end the texts which the model writes
        self._generation = "", 0  # while the model generates: how, and how many passes there were before
        self._step = 0  # how often the model, or a part of it, was called from outside
        self._continued_step = -1  # the last step that continued a text
        self._repetitions: dict[str, tuple[int, int]] = {}  # by module: the last step that called it, and how often
        self._new_ids: dict[str, Tensor] = {}  # by module: input ids that no attention was computed for yet
        self._new_images: Images | None = None  # and images
        self._images_of_generation: Images | None = None
        self._parts = huggingface.Parts()
        self._placed: tuple[str, ModuleCalls | None] = "", None  # of the call that is computed: see _place
        self._embedded: Tensor | None = None  # ids that one of our models has embedded last
        self.seen: dict[str, Seen] = {}  # by module: what is known of its last text, where nothing is recorded
        self.changes.restart()
        self._thread = threading.local()  # .depth: how many hooked modules are running
        self._unseen: dict[str, None] = {}  # the names of modules, in order
        self._observed: set[str] = set()
        self._fresh: set[str] = set()  # observed in a forward that has not ended yet

    # Entering and leaving

    def __enter__(self) -> Record:
        if self._undo is not None:
            raise WatchError("this watch is already open. Call regard.watch again for another one.")
        self._reset()
        kinds: dict[Any, Kind] = {kind: kind_of(kind) for kind in set[Any](map(type, self._names.values()))}
        found = [(name, module, kinds[type(module)]) for name, module in self._names.items()]
        ours = [(n, m) for n, m, kind in found if attends(m, kind)]
        theirs = [m for _, m, kind in found if kind.transformers]
        own_code = [m for _, m, kind in found if kind.computes or (kind.ours and not attends(m, kind))]
        if not ours and not any(kind.visible for _, _, kind in found):
            raise self._nothing_seen()
        if not (self.changes.has_links or self._keep.values or self._keep.nothing):  # which each part has for itself
            self._parts = huggingface.Parts(name for name, _, kind in found if kind.parts)
        with contextlib.ExitStack() as undo:
            undo.callback(registry.remove, self)
            registry.add(self, self._names.items())
            for name, module in ours:
                _replace(undo, module, "attend", functools.partial(WatchedAttend, module, name))
            if theirs:
                huggingface.prepare()
                self._configs = huggingface.configs(theirs)
                for config, attribute in self._configs:
                    _replace(undo, config, attribute, huggingface.Name)
            undo.callback(self._leave, plain_torch.depth())
            for module in own_code:
                _around(undo, module, plain_torch.begin, plain_torch.end)
            for name, module, kind in found:
                contains = module._modules and not kind.transformers and not isinstance(module, nn.ModuleList)
                if name == "" or kind.model or contains:  # what a user may call
                    _around(undo, module, functools.partial(self._before_forward, name), self._after_forward)
                if isinstance(module, Transformer):
                    _hook(undo, module.embedding.register_forward_pre_hook, self._before_embedding)
                if kind.generates and not self._keep.nothing:
                    _replace(undo, module, "generate", huggingface.WatchedGenerate)
            for name, module, kind in found:
                if kind.routes:
                    ends = functools.partial(self._routed_ends, name)
                    _hook(undo, module.register_forward_hook, ends, with_kwargs=True)
            for module in self._names.values():
                for register, hook in plain_torch.hooks(module):
                    _hook(undo, register, hook, with_kwargs=True)
            for module, hook in self._projections.hooks() if self._keep.values else ():
                _hook(undo, module.register_forward_pre_hook, hook)
            compiled = self._wrapped or any(module._compiled_call_impl for module in self._names.values())
            if compiled or (own_code and "torch._dynamo" in sys.modules):  # a compiled graph would show us nothing
                undo.enter_context(torch.compiler.set_stance("force_eager"))
            self._undo = undo.pop_all()
        return Record(self._passes, self._model, self._unseen, changes=tuple(self.changes))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._undo is not None
        self._undo.close()
        self._undo = None
        self._name_replaced_modules()
        own_table = isinstance(error, KeyError) and huggingface.NAME in str(error)  # a model's own lookup by name
        if self._step and not self._observed and (error is None or own_table):
            raise self._nothing_seen() from error
        if error is None and self._observed and (said := self.changes.in_vain()):
            raise WatchError(said)
        if error is None:
            for one in self._passes:
                one.finish()
        if self._unseen and error is None:
            said = (
                f"{self._names_of_unseen()} computed attention by hand, or by a function that regard does not know: it "
                "ran unchanged, and is not in the record. record.unseen has all names."
            )
            if self._strict:
                raise WatchError(said)
            warnings.warn(said, UnseenWarning, stacklevel=2)

    def _nothing_seen(self) -> WatchError:
        name = type(self._model).__name__
        by_hand = f" It was computed by {self._names_of_unseen()}." if self._unseen else ""
        if any(huggingface.is_model(type(module)) for module in self._names.values()):
            return WatchError(
                f"{name} does not call its attention through transformers' AttentionInterface, so nothing of it can be "
                f"seen.{by_hand} Models that do: BERT, GPT-2, Llama, T5, BART, ViT and most others."
            )
        return WatchError(
            f"{name} has no attention that regard can see.{by_hand} It sees Hugging Face models, regard's own layers, "
            "nn.MultiheadAttention, nn.Transformer and its parts, and modules that call regard.attention or "
            "torch.nn.functional.scaled_dot_product_attention."
        )

    def _names_of_unseen(self) -> str:
        return some_of([name or type(self._model).__name__ for name in self._unseen])

    def _before_forward(self, name: str, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Count the step, and note the input ids."""
        depth = getattr(self._thread, "depth", 0)
        self._thread.depth = depth + 1
        if depth == 0:
            self._thread.differentiable = torch.is_grad_enabled()
            self._step, self._given = self._step + 1, kwargs.get("past_key_values")
            self._now = self._caches.find(self._given, self._now)
            self._parts.clear()  # of a forward that ended in an error
            huggingface.keep_seeing(self._configs)
            self._new_images = self._images_of_generation
        self._new_images = self._new_images or read_images(name, module, args, kwargs, self._stated)
        inputs = {name: kwargs.get("input_ids", args[0] if args else None)}
        if isinstance(module, Encoder | Decoder) and depth == 0:  # of our Transformer, called by its encode or decode
            inputs, self._embedded = {name: self._embedded}, None
        if isinstance(module, Transformer):  # its encoder and decoder receive vectors: only here are there ids
            both = inspect.signature(module.forward).bind(*args, **kwargs).arguments
            dot = name and f"{name}."
            inputs = {f"{dot}encoder": both["source"], f"{dot}decoder": both["target"]}
        for part, ids in inputs.items():
            if isinstance(ids, Tensor) and not ids.is_floating_point() and ids.dim() == 2:
                self._new_ids[part] = ids

    def _before_embedding(self, _: nn.Module, args: tuple[Any, ...]) -> None:
        self._embedded = args[0] if args else None

    def _after_forward(self, _: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        self._thread.depth -= 1
        if self._thread.depth == 0:
            for cache in (self._given, getattr(output, "past_key_values", None)):
                self._caches.note(cache, self._now)
            self._given = None

    def generation_begins(
        self, mode: str, name: str, model: nn.Module, inputs: Mapping[str, Any], ends: tuple[int, ...]
    ) -> None:
        """From here on the rows of a step are beams ("beams"), or each second pass is the unconditional ("guided")."""
        if mode == "beams" and (self._keep.values or self._keep.rows is not None):
            raise WatchError(
                "neither values nor the last rows are followed along the hypotheses of a beam search. Watch with "
                'keep="matrix", generate with num_beams=1, or watch model(sequences) on what came out.'
            )
        self._generation, self._ends = (mode, len(self._passes)), ends
        # The model encodes its images first, and is then called without them.
        self._images_of_generation = read_images(name, model, (), inputs, self._stated)

    def generation_ends(self, found: Hypotheses | None) -> None:
        """Beams become hypotheses; without a cache, where each step is a pass, they stay what they are."""
        self._generation, self._ends, self._images_of_generation = ("", 0), (), None
        searched = [one for one in self._passes if one.searching]
        for one in searched if found is not None else ():
            one.choose(found if len(searched) == 1 else None)

    # Attention that nobody sees

    def _routed_ends(self, name: str, module: nn.Module, args: Any, kwargs: Any, *_: Any) -> None:
        """A module that calls transformers' function has done so, or else its attention is unseen."""
        if name not in self._fresh:
            self.unseen(name)
            return
        self._fresh.discard(name)
        for call, matrix in self._parts.ended(name, module, args, kwargs):
            self._record(name, self._place(name, call), matrix, None)

    def unseen(self, name: str) -> None:
        """The module of this name has computed attention that cannot be recorded."""
        self._unseen[name] = None

    def _name_replaced_modules(self) -> None:
        """Name as unseen the modules that the model put in place of watched ones while it ran: they have no hooks.

        BigBird-Pegasus replaces its sparse attention by full attention when the first short text comes.
        """
        hooked = {id(module) for module in self._names.values()}
        for name, module in named_modules(self._model)[0].items():
            module_class: Any = type(module)
            kind = kind_of(module_class)
            if id(module) not in hooked and (kind.computes or kind.visible):
                self.unseen(name)

    def _leave(self, depth: int) -> None:
        """Of modules that an interrupt ended, nothing is left; `depth`: how many were running at the beginning."""
        while plain_torch.depth() > depth:
            plain_torch.end()

    # Every attention call

    def change(self, name: str, call: AttentionCall) -> AttentionCall:
        """The call of the module of this name as it is computed: in its place in the text, without the links."""
        if name in self._parts.names:  # placed when all of them are there
            return call
        if not _recomputed():
            call = self._pass_by(name, call) if self._keep.nothing else self._place(name, call)
        key = name if _recomputed() else self._placed[0]
        if not self.changes.has_links or (_recomputed() and key not in self._now.links):
            return call
        if key not in self._now.links:
            self._now.links[key] = self.changes.located(name, self._known(key, call), call.heads)
        links, zeroed = self._now.links[key]
        return call.changed(links, zeroed) if links or zeroed else call

    def follow(self, name: str, query: Tensor, key: Tensor, mask: LazyMask, scale: float | None) -> bool:
        """Record a step of a generation that is like the one before, and changed by nobody; False: it may be another.

        What `change` and `observe` do, for the case that a model which writes is in nearly all the time.
        """
        calls = self._now.get(name)
        if calls is None or self.changes or self._keep.values or self._repetitions[name][0] == self._step:
            return False
        compare = self._now.compared == name
        if name in self._parts.names or not calls.follow(query, key, mask.queries, scale, compare=compare):
            return False
        self._repetitions[name] = self._step, 0
        if self._new_ids:
            self._now.text.add(self._new_ids, self._new_images)
            self._new_ids = {}
        self._continued_step, self._placed = self._step, (name, calls)
        self._fresh.add(name)
        return True

    def observe(
        self, name: str, call: AttentionCall, matrix: AttentionMatrix | None, output: Tensor, value: Tensor
    ) -> Tensor:
        """Record a call of the module of this name; its output, without the heads that are removed."""
        self._observed.add(name)
        self._fresh.add(name)
        if not _recomputed() and name in self._parts.names:
            self._parts.add(name, call, matrix)
        elif not _recomputed() and not self._keep.nothing:
            self._record(name, call, matrix, value)
        output = self.changes.without_heads(name, output, call.all_heads, call.heads)
        if self._keep.gradients:
            recorded = self._now.get(name if _recomputed() else self._placed[0])
            if recorded is not None and recorded.values is not None:
                recorded.values.differentiate(output)
        return output

    def _record(self, name: str, call: AttentionCall, matrix: AttentionMatrix | None, value: Tensor | None) -> None:
        """A call that has its place."""
        key, calls = self._placed
        lost = self._keep.graph and not torch.is_grad_enabled() and getattr(self._thread, "differentiable", False)
        if lost and any(parameter.requires_grad for parameter in self._names[name].parameters()):
            raise WatchError(
                f'{name} ran without gradients, though the model was called with them: keep="graph" has none to keep. '
                "If it is checkpointed, choose use_reentrant=False."
            )
        if calls is not None:
            calls.append(call)
        else:
            beams = self._generation[0] == "beams"
            calls = ModuleCalls(key, call, matrix, self._keep, self._now.text, beams=beams)
            self._now[key] = calls
            if self._keep.values:
                calls.values = KeptValues(functools.partial(self._projections.of, name))
        if calls.values is not None and value is not None:
            calls.values.take(value)

    def returned(self, name: str, output: Tensor) -> None:
        """What the code of a module got: its output projection is recognised by it."""
        if self._keep.values:
            self._projections.returned(name, output)

    def _place(self, name: str, call: AttentionCall) -> AttentionCall:
        """Find the text that a call belongs to, or begin one; the call in its place there."""
        key = self._key(name)
        if not self._passes:
            self._begin_pass()
        calls = self._now.get(key)
        call = call if calls is None else calls.located(call)
        continues = calls is not None and calls.continues(call, self._continued_step == self._step)
        if calls is not None and not continues:
            if call.queries.start > 0 and calls.kind == "decoder":
                raise WatchError(
                    f"{name}: the cache was cut or rewound between two calls, so rows cannot be put together. "
                    "Watch one plain generation, or the model on the finished text."
                )
            self._begin_pass()
        self._now.text.add(self._new_ids, self._new_images)
        self._new_ids = {}
        if continues:
            self._continued_step = self._step
        self._placed = key, calls if continues else None
        return call

    def _pass_by(self, name: str, call: AttentionCall) -> AttentionCall:
        """`_place` for a call that is not recorded, so that beams may come and go: its links are those of its text."""
        key = self._key(name)
        if call.kind != "cross" and call.queries.start == 0 and call.query.shape[2] >= call.key.shape[2]:
            if key in self._now.links:  # another text
                self._now = Pass(self._vocabulary, self._wordless)
            self._now.text.add(self._new_ids, self._new_images)
            self._new_ids = {}
        if key not in self.seen:
            self.seen[key] = self._known(key, call)
        self._placed = key, None
        return call

    def _known(self, key: str, call: AttentionCall) -> Seen:
        batch, heads, queries, keys = *call.query.shape[:3], call.key.shape[2]
        found, real = self._now.text.sides(key, call.kind, (batch, heads, queries, keys), queries), call.real_keys()
        of_queries = real if call.kind != "cross" and queries == keys else None
        tokens, key_tokens = (
            [
                each if own is None else each.without_padding(own[n].nonzero().flatten().tolist(), 0)
                for n, each in enumerate([Tokens.numbered(length)] * batch if side is None else side)
            ]
            for side, length, own in ((found.tokens, queries, of_queries), (found.key_tokens, keys, real))
        )
        return Seen(layer_of(key), call.kind, call.all_heads, (tokens, key_tokens))

    @property
    def tokens(self) -> Sequence[Tokens] | None:
        """The tokens of the text that was read, where nothing is recorded: of a translation, of its target."""
        own = [seen for seen in self.seen.values() if seen.kind != "cross"]
        return max(own, key=lambda seen: seen.kind == "decoder").sides[0] if own else None

    def _key(self, name: str) -> str:
        """The name of a module and, where it runs several times in a step as in ALBERT, which time this is."""
        step, repetition = self._repetitions.get(name, (-1, 0))
        repetition = repetition + 1 if step == self._step else 0
        self._repetitions[name] = self._step, repetition
        return f"{name}#{repetition}" if repetition else name

    def _begin_pass(self) -> None:
        self._now.finish()
        mode, before = self._generation
        guide = mode == "guided" and (len(self._passes) - before) % 2 == 1
        self._now = Pass(self._vocabulary, self._wordless, "unconditional" if guide else "", self._ends, self._pads)
        self._passes.insert(len(self._passes) - guide, self._now)  # before the text that it guides


def _recomputed() -> bool:
    """Whether a checkpoint computes a call again, which was recorded before: it does so in a backward pass."""
    return bool(torch._C._current_graph_task_id() != -1)


class _Hook(functools.partial[Any]):
    """A hook that a copy of its module does not keep: a copy is not watched."""

    module: nn.Module

    def __deepcopy__(self, memo: dict[int, Any]) -> _Hook:
        if (copied := memo.get(id(self.module))) is not None:
            memo.setdefault(id(_Copies), _Copies()).append(copied)
        return _Hook(_do_nothing)


class _Copies(list[nn.Module]):
    """The copied modules of one `deepcopy`, which gives them up when all are complete: then their hooks are removed."""

    def __del__(self) -> None:
        for module in self:
            every = [hooks for name, hooks in vars(module).items() if "_forward_" in name and "hooks" in name]
            ours = [key for hooks in every for key, hook in hooks.items() if isinstance(hook, _Hook)]
            for hooks in every:
                for key in ours:
                    hooks.pop(key, None)


def _do_nothing(*_: Any) -> None:
    pass


def _hook(undo: contextlib.ExitStack, register: Callable[..., Any], run: Callable[..., Any], **options: bool) -> None:
    """Run something before or after a module, by the method of it that registers hooks."""
    hook = _Hook(run)
    hook.module = register.__self__  # type: ignore[attr-defined]
    undo.callback(register(hook, **options).remove)


def _around(
    undo: contextlib.ExitStack, module: nn.Module, before: Callable[..., None], after: Callable[..., None]
) -> None:
    _hook(undo, module.register_forward_pre_hook, before, with_kwargs=True)
    _hook(undo, module.register_forward_hook, after, always_call=True)


def _replace(undo: contextlib.ExitStack, owner: Any, attribute: str, make: Callable[[Any], Any]) -> None:
    registry.replace(owner, attribute, make)
    undo.callback(registry.restore, owner, attribute)
