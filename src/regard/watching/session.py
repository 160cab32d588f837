"""`watch`: a `with` block in which the attention of a model is recorded.

Inside the block the modules of the model call us instead of their usual attention function: regard's own through their
`attend`, those of Hugging Face through a registered function (huggingface.py), all others through torch's function
(plain_torch.py). Either way `Watching.observe` receives every call, sorts it into a text, and returns the output.
"""

from __future__ import annotations

import contextlib
import difflib
import functools
import inspect
import re
import threading
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import torch
from torch import Tensor, nn

from regard.errors import InputError, UnseenWarning, WatchError
from regard.matrix import AttentionMatrix, attention
from regard.nn import Transformer
from regard.scores import Atom, Band, Mask, as_mask
from regard.support import some_of
from regard.watching import huggingface, packed, plain_torch, registry
from regard.watching.calls import AttentionCall
from regard.watching.entries import ModuleCalls
from regard.watching.images import Stated, check_stated, read_images
from regard.watching.masks import Pattern
from regard.watching.record import Record
from regard.watching.reductions import to_keep
from regard.watching.tokens import Images, Text, Vocabulary

__all__ = ["Watching", "watch"]

# Attention modules are found by the name of their class; those that adapt or project what another one gave are none.
_ATTENTION = re.compile(r"Atte?n(tio)?n(?!\w*(Output|Adapter|Norm|Mask|Bias|Embed|MLP|FeedForward))")


def watch(
    model: nn.Module,
    *,
    tokenizer: Any = None,
    tokens: Sequence[str] | Sequence[Sequence[str]] | None = None,
    keep: str | int | Collection[str] = "matrix",
    without: Mapping[str, Collection[int]] | None = None,
    images: Sequence[tuple[int, ...]] | None = None,
    strict: bool = False,
) -> Watching:
    """Record the attention of every layer while the model runs in a `with` block, at the speed of fused kernels.

    The model: of Hugging Face, of regard's layers, of `torch.nn`'s, or one of your own that calls
    `torch.nn.functional.scaled_dot_product_attention`; an entry is named after the module that computed it.

    `keep`: "matrix" (queries and keys: ask anything later), "summary" (received, entropy, pool), a choice of
    "received", "entropy", "pool", "top", or a number: then the rows of so many last tokens of a text and of all that is
    written after it, which is little memory beside a cache, and of layers that are not causal what is received.
    `without`: heads to knock out, by module name. Attention that ran where regard
    could not see it is named in `record.unseen`, with a warning at the end of the block; `strict`: with an error.

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
    return Watching(model, Vocabulary(tokenizer, tokens), to_keep(keep), without or {}, strict, check_stated(images))


class Watching:
    """A model being watched between `__enter__` and `__exit__`; the record grows as the model runs."""

    def __init__(
        self,
        model: nn.Module,
        vocabulary: Vocabulary,
        keep: tuple[str, ...] | int | None,
        without: Mapping[str, Collection[int]],
        strict: bool = False,
        images: Stated = (),
    ):
        if not isinstance(model, nn.Module):
            raise InputError(f"watch takes a torch module. Got {type(model).__name__}.")
        self._model, self._vocabulary, self._keep, self._strict = model, vocabulary, keep, strict
        self._images = images
        self._names, self._wrapped = _modules(model)
        self._wordless = huggingface.wordless(self._names)
        self._without = {name: _check_heads(name, heads, self._names) for name, heads in without.items()}
        self._undo: contextlib.ExitStack | None = None
        self._configs: list[tuple[Any, str]] = []
        self._takes_parts: set[str] = set()  # names of modules that may call attention several times in a forward
        self._reset()

    def _reset(self) -> None:
        self._passes: list[dict[str, ModuleCalls]] = []
        self._text = Text(self._vocabulary, self._wordless)  # of the last pass
        self._step = 0  # how often the model, or a part of it, was called from outside
        self._continued_step = -1  # the last step that continued a text
        self._repetitions: dict[str, tuple[int, int]] = {}  # by module: the last step that called it, and how often
        self._new_ids: dict[str, Tensor] = {}  # by module: input ids that no attention was computed for yet
        self._new_images: Images | None = None  # and images
        self._images_of_generation: Images | None = None
        self._thread = threading.local()  # .depth: how many hooked modules are running; .running: see _Running
        self._unseen: dict[str, None] = {}  # the names of modules, in order
        self._observed: set[str] = set()
        self._fresh: set[str] = set()  # observed in a forward that has not ended yet
        self._parts: dict[str, list[tuple[AttentionCall, AttentionMatrix | None]]] = {}  # their calls, see packed.py

    # Entering and leaving

    def __enter__(self) -> Record:
        if self._undo is not None:
            raise WatchError("this watch is already open. Call regard.watch again for another one.")
        self._reset()
        kinds: dict[Any, _Kind] = {kind: _kind(kind) for kind in set[Any](map(type, self._names.values()))}
        found = [(name, module, kinds[type(module)]) for name, module in self._names.items()]
        ours = [(n, m) for n, m, kind in found if _attends(m, kind)]
        theirs = [(n, m) for n, m, kind in found if kind.transformers]
        if not ours and not theirs and not plain_torch.may_attend(self._names.values()):
            raise self._nothing_seen()
        attentions = [(n, m, kind) for n, m, kind in found if kind.attention]
        self._takes_parts = {name for name, _, kind in attentions if kind.parts}
        with contextlib.ExitStack() as undo:
            undo.callback(registry.remove, self)
            registry.add(self, self._names.items())
            for name, module in ours:
                _replace(undo, module, "attend", functools.partial(_WatchedAttend, module, name))
            for replacement in plain_torch.replacements(self._names.values()):
                _replace(undo, *replacement)
            if theirs:
                huggingface.prepare()
                if not ours and attentions and not any(kind.visible for _, _, kind in attentions):
                    raise self._nothing_seen()
                self._configs = huggingface.configs(module for _, module in theirs)
                for config, attribute in self._configs:
                    _replace(undo, config, attribute, huggingface.Name)
            for name, module, kind in found:
                contains = module._modules and not kind.transformers and not isinstance(module, nn.ModuleList)
                if name == "" or kind.model or contains:  # what a user may call
                    _hook(undo, module, functools.partial(self._before_forward, name), self._after_forward)
                if kind.generates:
                    _replace(undo, module, "generate", huggingface.PlainGenerate)
            for name, module, kind in attentions:
                if kind.routes:
                    ends = _Hook(functools.partial(self._routed_ends, name))
                    undo.callback(module.register_forward_hook(ends, with_kwargs=True).remove)
                else:
                    _hook(undo, module, functools.partial(self._attention_starts, name), self._attention_ends)
            for module in self._names.values():
                for register, hook in plain_torch.hooks(module):
                    undo.callback(register(_Hook(hook), with_kwargs=True).remove)
            if self._wrapped or any(module._compiled_call_impl for module in self._names.values()):
                undo.enter_context(torch.compiler.set_stance("force_eager"))  # a compiled graph would not call us
            self._undo = undo.pop_all()
        return Record(self._passes, self._model, self._unseen)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._undo is not None
        changed = {getattr(config, attribute) for config, attribute in self._configs} - {huggingface.NAME}
        self._undo.close()
        self._undo = None
        own_table = isinstance(error, KeyError) and huggingface.NAME in str(error)  # a model's own lookup by name
        if self._step and not self._passes and (error is None or own_table):
            raise self._nothing_seen() from error
        if changed and error is None:
            raise WatchError(
                f"the model's attention was set to {', '.join(sorted(map(repr, changed)))} while it was watched, so "
                "what ran after that was not seen. Choose it before the block; watched, the outputs are the same."
            )
        idle = [name for name in self._without if name not in self._observed] if self._passes else []
        if idle and error is None:
            raise WatchError(
                f"without: {some_of(idle)} computed no attention that could be seen, so no head was removed."
            )
        if error is None:
            for calls in (calls for one in self._passes for calls in one.values()):
                calls.finish()
        if self._unseen and error is None:
            said = (
                f"{some_of(self._unseen)} computed attention without calling transformers' AttentionInterface or "
                "torch's scaled_dot_product_attention: it ran unchanged, and is not in the record. "
                "record.unseen has all names."
            )
            if self._strict:
                raise WatchError(said)
            warnings.warn(said, UnseenWarning, stacklevel=2)

    def _nothing_seen(self) -> WatchError:
        name = type(self._model).__name__
        if any(huggingface.is_model(type(module)) for module in self._names.values()):
            return WatchError(
                f"{name} does not call its attention through transformers' AttentionInterface, so nothing of it can be "
                "seen. Models that do: BERT, GPT-2, Llama, T5, BART, ViT and most others."
            )
        return WatchError(
            f"{name} has no attention that regard can see. It sees Hugging Face models, regard's own layers, "
            "nn.MultiheadAttention, nn.Transformer and its parts, and modules that call "
            "torch.nn.functional.scaled_dot_product_attention under that name (not one imported from there)."
        )

    def _before_forward(self, name: str, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Count the step, and note the input ids."""
        depth = getattr(self._thread, "depth", 0)
        self._thread.depth = depth + 1
        self._step += depth == 0
        if depth == 0:
            self._parts = {}  # of a forward that ended in an error
            self._new_images = self._images_of_generation
        self._new_images = self._new_images or read_images(name, module, args, kwargs, self._images)
        inputs = {name: kwargs.get("input_ids", args[0] if args else None)}
        if isinstance(module, Transformer):  # its encoder and decoder receive vectors: only here are there ids
            both = inspect.signature(module.forward).bind(*args, **kwargs).arguments
            dot = name and f"{name}."
            inputs = {f"{dot}encoder": both["source"], f"{dot}decoder": both["target"]}
        for part, ids in inputs.items():
            if isinstance(ids, Tensor) and not ids.is_floating_point() and ids.dim() == 2:
                self._new_ids[part] = ids

    def _after_forward(self, *_: Any) -> None:
        self._thread.depth -= 1

    def generates(self, name: str, model: nn.Module, inputs: Mapping[str, Any]) -> None:
        """Note the images that a generation begins with."""
        self._images_of_generation = read_images(name, model, (), inputs, self._images)

    # Attention that nobody sees

    def _routed_ends(
        self, name: str, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], *_: Any
    ) -> None:
        """The same for modules that call transformers' function themselves: one hook is enough for them."""
        if name in self._fresh:
            self._fresh.discard(name)
            self._record_parts(name, module, args, kwargs)
            return
        self._unseen[name] = None
        if running := self._running():
            running[-1].named = True

    def _attention_starts(self, name: str, *_: Any) -> None:
        self._running().append(_Running(name))

    def _attention_ends(self, *_: Any) -> None:
        """An attention module in which no call was observed is unseen; so that it is named once, the innermost."""
        running = self._running()
        ended = running.pop()
        if not ended.seen and not ended.named:
            self._unseen[ended.name] = None
        if running and (ended.named or not ended.seen):
            running[-1].named = True

    def _running(self) -> list[_Running]:
        if not hasattr(self._thread, "running"):
            self._thread.running = []
        running: list[_Running] = self._thread.running
        return running

    # Every attention call

    def observe(self, name: str, call: AttentionCall, matrix: AttentionMatrix | None, output: Tensor) -> Tensor:
        """Record a call of the module of this name; its output, without the heads that are knocked out."""
        self._observed.add(name)
        self._fresh.add(name)
        for running in self._running():
            running.seen = True
        if torch._C._current_graph_task_id() == -1:  # in a backward pass, a checkpoint recomputes a recorded call
            if name in self._takes_parts:
                self._parts.setdefault(name, []).append((call, matrix))
            else:
                self._record(name, call, matrix)
        for head in self._without.get(name, ()):
            if head >= output.shape[1]:
                raise InputError(f"{name} has {output.shape[1]} heads, numbered from 0. Got without = {head}.")
        if name in self._without:
            removed = torch.tensor(self._without[name], device=output.device)
            output = output.index_fill(1, removed, 0.0)
        return output

    def _record_parts(self, name: str, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Record the calls of a forward that has ended: as one, where they are the parts of one row of tokens."""
        parts = self._parts.pop(name, [])
        row = packed.joined(module, args, kwargs, [call for call, _ in parts]) if len(parts) > 1 else None
        for call, matrix in parts if row is None else [(row, None)]:
            self._record(name, call, matrix)

    def _record(self, name: str, call: AttentionCall, matrix: AttentionMatrix | None) -> None:
        step, repetition = self._repetitions.get(name, (-1, 0))
        repetition = repetition + 1 if step == self._step else 0
        self._repetitions[name] = self._step, repetition
        key = f"{name}#{repetition}" if repetition else name  # ALBERT calls one module for every layer
        if not self._passes:
            self._begin_pass()
        calls = self._passes[-1].get(key)
        call = call if calls is None else calls.located(call)
        continues = calls is not None and calls.continues(call, self._continued_step == self._step)
        if calls is not None and not continues:
            if call.queries.start > 0 and calls.kind == "decoder":
                raise WatchError(
                    f"{name}: the cache was cut or rewound between two calls, so rows cannot be put together. "
                    "Watch one plain generation, or the model on the finished text."
                )
            self._begin_pass()
        self._text.add(self._new_ids, self._new_images)
        self._new_ids = {}
        if calls is not None and continues:
            self._continued_step = self._step
            calls.append(call)
        else:
            self._passes[-1][key] = ModuleCalls(key, call, matrix, self._keep, self._text)

    def _begin_pass(self) -> None:
        for calls in self._passes[-1].values() if self._passes else ():
            calls.finish()
        self._text = Text(self._vocabulary, self._wordless)
        self._passes.append({})


@dataclass(frozen=True)
class _Kind:
    """What the class of a module says about it."""

    transformers: bool  # part of a model of transformers
    model: bool  # such a model
    generates: bool
    attention: bool
    routes: bool  # calls transformers' AttentionInterface
    parts: bool  # and may do so several times in a forward, for the parts of one row of tokens
    attend: bool  # has attention of regard's kind
    visible: bool  # attention that calls a function which is replaced


@functools.cache
def _kind(kind: Any) -> _Kind:
    """The same for each module of a class, so that it is looked up once."""
    transformers = huggingface.is_model(kind)
    model = transformers and hasattr(kind, "get_input_embeddings")
    attention = _ATTENTION.search(kind.__name__) is not None
    routes = attention and huggingface.routes(kind)
    generates, attend = model and hasattr(kind, "generate"), hasattr(kind, "attend")
    visible = routes or issubclass(kind, nn.MultiheadAttention) or (attention and huggingface.calls_torch(kind))
    parts = routes and packed.takes_parts(kind)
    return _Kind(transformers, model, generates, attention, routes, parts, attend, visible)


def _modules(model: nn.Module) -> tuple[dict[str, nn.Module], bool]:
    """The modules by name, as they are without torch.compile, and whether it wraps one of them."""
    modules, wrapped = {}, False
    for name, module in model.named_modules():
        if "_orig_mod" in name:
            wrapped, name = True, name.replace("_orig_mod.", "").removesuffix("_orig_mod")
        modules[name] = module
    return modules, wrapped


def _attends(module: nn.Module, kind: _Kind) -> bool:
    """Whether a module has `attend`; asking torch for an attribute that it does not have is slow."""
    has = kind.attend or "attend" in vars(module) or "attend" in module._modules
    return has and callable(getattr(module, "attend", None))


@dataclass
class _Running:
    """An attention module whose forward has begun: whether a call was observed, or a module inside named as unseen."""

    name: str
    seen: bool = False
    named: bool = False


class _Hook:
    """A hook that a copy of the module does not have: a copy is not watched."""

    def __init__(self, call: Callable[..., Any]):
        self._call = call

    def __call__(self, *args: Any) -> Any:
        return self._call(*args)

    def __deepcopy__(self, _: Any) -> _Hook:
        return _Hook(_do_nothing)


def _do_nothing(*_: Any) -> None:
    pass


def _hook(
    undo: contextlib.ExitStack, module: nn.Module, before: Callable[..., None], after: Callable[..., None]
) -> None:
    undo.callback(module.register_forward_pre_hook(_Hook(before), with_kwargs=True).remove)
    undo.callback(module.register_forward_hook(_Hook(after), always_call=True).remove)


class _WatchedAttend:
    """Replaces `attend` in one of our modules while it is watched."""

    def __deepcopy__(self, _: Any) -> Callable[..., Tensor]:
        return self._original  # a copy is not watched

    def __init__(self, module: nn.Module, name: str, original: Callable[..., Tensor]):
        self._module, self._original = module, original
        self._kind = str(getattr(module, "kind", "cross" if "cross" in name else "encoder"))

    def __call__(
        self, query: Tensor, key: Tensor, value: Tensor, *, mask: Mask | Tensor | None = None,
        scale: float | None = None, softcap: float | None = None, sinks: Tensor | float | None = None,
        dropout: float = 0.0,
    ) -> Tensor:  # fmt: skip
        options = {"mask": mask, "scale": scale, "softcap": softcap, "sinks": sinks}
        matrix = AttentionMatrix(query, key, **options)  # type: ignore[arg-type]
        if self._original is attention:
            output = matrix.attend(value, dropout)
        else:
            output = self._original(query, key, value, **options, dropout=dropout)
        call = _our_call(self._kind, query, key, as_mask(mask), scale, softcap, sinks)
        batched = query.dim() == 4
        matrix, output = (matrix, output) if batched else (call.matrix(), output[None])
        for watcher, name in registry.watchers(self._module):
            output = watcher.observe(name, call, matrix, output)
        return output if batched else output[0]


def _our_call(
    kind: str, query: Tensor, key: Tensor, mask: Mask, scale: float | None, softcap: float | None,
    sinks: Tensor | float | None,
) -> AttentionCall:  # fmt: skip
    """A call of our own layers, with a batch axis and in positions of the whole text."""
    if query.dim() == 3:
        query, key = query[None], key[None]
    if query.dim() != 4:
        raise WatchError(f"watch reads queries (batch, heads, queries, width). Got shape {tuple(query.shape)}.")
    queries, keys = query.shape[2], key.shape[2]
    first = keys - queries if kind == "decoder" and keys > queries else 0  # the earlier keys come from a cache
    bands: list[tuple[int | None, int | None]] = []
    others: list[Atom] = []
    for atom in mask.atoms:
        if isinstance(atom, Band) and isinstance(atom.offset, int):
            shift = atom.offset - first
            bands.append(tuple(None if edge is None else edge + shift for edge in (atom.lowest, atom.highest)))  # type: ignore[arg-type]
        else:
            others.append(atom)
    sinks = sinks if sinks is None or isinstance(sinks, Tensor) else query.new_tensor(sinks)
    positions = range(first, first + queries), range(keys)
    parts = Pattern(tuple(bands)), Mask(tuple(others))
    return AttentionCall(query, key, mask, scale, softcap, sinks, kind, *positions, *parts)


def _replace(undo: contextlib.ExitStack, owner: Any, attribute: str, make: Callable[[Any], Any]) -> None:
    registry.replace(owner, attribute, make)
    undo.callback(registry.restore, owner, attribute)


def _check_heads(name: str, heads: Collection[int], names: Mapping[str, nn.Module]) -> list[int]:
    if name not in names:
        close = difflib.get_close_matches(name, names, n=3, cutoff=0.3)
        raise InputError(f"without: the model has no module {name!r}. Did you mean {' or '.join(map(repr, close))}?")
    numbers = [int(head) for head in heads]
    if any(head < 0 for head in numbers):
        raise InputError(f"without: heads are numbered from 0. Got {numbers} for {name!r}.")
    return numbers
