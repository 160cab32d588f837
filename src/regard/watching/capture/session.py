"""`watch`: a `with` block in which the attention of a model is recorded.

Inside the block, attention is seen in one of three ways: Hugging Face models call it by a registered function
(huggingface.py), regard's own layers by their `attend`, and all other modules are seen by a mode of torch (both in
torch_modules.py). Each way brings its calls to `attend` (calls.py), and so to `Passes` (passes.py): `place` sorts a
call into a text and cuts links, `observe` records it and removes heads.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import sys
import threading
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from regard.errors import InputError, UnseenWarning, WatchError
from regard.matrix import attention
from regard.nn import Decoder, Encoder, MultiHeadAttention, SelfAttention, Transformer
from regard.support import some_of
from regard.watching.capture import huggingface, torch_modules
from regard.watching.capture.calls import add_watcher, remove_watcher, replaced
from regard.watching.capture.links import Changes, Link, Seen, Without
from regard.watching.capture.passes import Passes, Setup
from regard.watching.images.images import Stated, check_stated, read_images
from regard.watching.record.record import Record
from regard.watching.record.reductions import Keep, to_keep
from regard.watching.record.tokens import Tokens, Vocabulary


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

    Attention that ran where regard could not see it is named in `record.unseen`.

    Args:
        model: a Hugging Face model, one of regard's or `torch.nn`'s layers, or any module that calls `regard.attention`
            or `torch.nn.functional.scaled_dot_product_attention`. An entry of the record is named after the module
            that computed it.
        tokenizer: names the tokens by their ids. The processor of a model that reads images will do.
        tokens: the words themselves, one list for each sequence; of a generation, those of the prompt.
        keep: what is stored of each attention.
            "matrix": its queries and keys, from which everything can be computed later.
            "summary": "received", "entropy" and "pool"; or choose among these and "top".
            n: the rows of the last n tokens of a text and of all tokens generated after it, small compared with the KV
            cache; of layers that are not causal, "received".
            "graph": "matrix", as a part of the autograd graph: `loss + 0.1 * record[name].entropy().mean()` trains.
            Where the model recomputes its forward (checkpointing, with use_reentrant=False), run the backward pass
            inside the block.
            ("matrix", "value"): values and output projections too, for `record.by_norm()`.
            ("matrix", "value", "gradient"): the gradients of a backward pass inside the block or after it, too, for
            `entry.attribution`.
            (): nothing.
        without: what the model runs without: heads by module name ({"layers.0": [3]}), a `Link`, or a list of both.
        steer: a bias for each link, which is added to its scores.
        renormalise: normalise the other weights of a query to 1 where a link is cut; False leaves them as they are.
        images: (rows, columns) of patches for each image of a text, for a model whose patches regard does not know
            (docs/how-to); (rows, columns, first token) where their number alone does not tell them.
        strict: raise an error at the end of the block, instead of a warning, if some attention was not seen.

    >>> import torch, regard
    >>> class Layer(torch.nn.Module):
    ...     def forward(self, x):
    ...         return regard.attention(x, x, x)
    >>> with regard.watch(Layer(), tokens=["a", "dog"]) as record:
    ...     output = record.model(torch.eye(2).expand(1, 2, 2, 2))
    >>> record[""].shape
    (1, 2, 2, 2)
    """
    tokenizer = getattr(tokenizer, "tokenizer", tokenizer)  # a processor has one
    watching = Watching(model, Vocabulary(tokenizer, tokens), to_keep(keep), strict, check_stated(images))
    watching.changes.add(without, steer, renormalise)
    return watching


class Again(NamedTuple):
    """A model that ran again."""

    record: Record
    output: Any
    modules: Mapping[str, nn.Module]
    projections: Mapping[str, nn.Module | None]  # output projections, by the module of the attention, as far as known
    tokenizer: Any
    seen: Mapping[str, Seen]  # where nothing was recorded


class Watching:
    """A model in a `with` block: replaces and hooks what the block needs, and tells `Passes` what runs."""

    def __init__(
        self, model: nn.Module, vocabulary: Vocabulary, keep: Keep, strict: bool = False, images: Stated = (),
        by_parts: bool = True,
    ):  # fmt: skip
        if not isinstance(model, nn.Module):
            raise InputError(f"watch takes a torch module. Got {type(model).__name__}.")
        self._model, self._strict = model, strict
        self._by_parts = by_parts  # whether the block may call parts of the model, or only the whole of it
        modules, self._is_compiled = _named_modules(model)
        transformers = {name: module for name, module in modules.items() if isinstance(module, Transformer)}
        pads = {f"{name}.decoder".lstrip("."): module.config.pad for name, module in transformers.items()}
        self._setup = Setup(modules, vocabulary, huggingface.wordless(modules), pads, images, keep)
        self.changes = Changes(modules)
        self._undo: contextlib.ExitStack | None = None
        self._passes = Passes(self._setup, self.changes)
        self._configs: list[Any] = []
        self._embedded: Tensor | None = None  # the ids that a regard.Transformer has embedded last
        self._thread = threading.local()  # .depth: how many hooked modules are running
        self._called: tuple[nn.Module, tuple[Any, ...], dict[str, Any]] | None = None  # the last call from outside

    @property
    def seen(self) -> Mapping[str, Seen]:
        """What is known of each module and its text, where nothing is recorded."""
        return self._passes.seen

    @property
    def tokens(self) -> Sequence[Tokens] | None:
        """The tokens of the text that was read, where nothing is recorded; of a translation, the target's."""
        texts = [seen for seen in self.seen.values() if seen.kind != "cross"]
        return max(texts, key=lambda seen: seen.kind == "decoder").sides[0] if texts else None

    @staticmethod
    def may_attend(module: nn.Module) -> bool:
        """Whether a module may compute attention by itself."""
        facts = _class_facts(type(module))  # type: ignore[arg-type]
        return facts.visible or _attends(module, facts)

    # Entering and leaving

    def __enter__(self) -> Record:
        if self._undo is not None:
            raise WatchError("this watch is already open. Call regard.watch again for another one.")
        keep, named = self._setup.keep, self._setup.modules
        kinds: dict[str, Any] = {name: type(module) for name, module in named.items()}
        modules = [(name, module, _class_facts(kinds[name])) for name, module in named.items()]
        # Which each part has for itself.
        joins_parts = not (self.changes.reach_calls or keep.values or keep.outputs or keep.nothing)
        self.changes.restart()
        routes = [name for name, _, facts in modules if facts.routes]
        parts = [name for name in routes if joins_parts and huggingface.takes_parts(kinds[name])]
        self._passes, self._thread = Passes(self._setup, self.changes, parts), threading.local()
        if not any(map(self.may_attend, named.values())):
            raise self._nothing_seen()
        with contextlib.ExitStack() as undo:
            undo.callback(remove_watcher, self._passes)
            add_watcher(self._passes, named.items())
            if theirs := [module for _, module, facts in modules if facts.transformers]:
                huggingface.prepare()
                self._configs = huggingface.configs(theirs)
                for config in self._configs:
                    undo.enter_context(replaced(config, huggingface.IMPLEMENTATION, huggingface.Name))
            undo.enter_context(torch_modules.unwinding())
            follows_all = not self._by_parts and _has_own_code(named[""], _class_facts(kinds[""]))
            for name, module, facts in modules:
                self._watch_module(undo, name, module, facts, follows_all)
            for module, hook in self.changes.hooks(named):
                _hook(undo, module.register_forward_hook, hook)
            for module, hook in self._passes.projections.hooks() if keep.values else ():
                _hook(undo, module.register_forward_pre_hook, hook)
            compiled = self._is_compiled or any(module._compiled_call_impl for module in named.values())
            own_code = any(_has_own_code(module, facts) for _, module, facts in modules)
            if compiled or (own_code and "torch._dynamo" in sys.modules):  # a compiled graph would show nothing
                undo.enter_context(torch.compiler.set_stance("force_eager"))
            self._undo = undo.pop_all()
        changes = tuple(self.changes)
        return Record(self._passes.passes, self._model, self._passes.unseen, changes=changes, again=self.again)

    def __deepcopy__(self, memo: dict[int, Any]) -> Watching:
        return self  # a copied record asks the model that was watched

    def again(
        self, *keep: str, gates: contextlib.AbstractContextManager[Any] | None = None, listener: Any = None
    ) -> Again:
        """Run the last call of the model again, with hooks of the caller's or a listener, and record it."""
        if self._undo is not None:
            raise WatchError("the model must run again, and it is still watched: ask after the `with` block.")
        if self._called is None:
            raise WatchError(
                "the model must run again on all of its inputs, and its last call went on with a cache. Call the model "
                "once on the whole text, prompt and answer."
            )
        watching = copy.copy(self)
        watching._setup, watching._undo, watching._strict = replace(self._setup, keep=to_keep(keep)), None, False
        watching.changes = copy.copy(self.changes)
        watching.changes.listener = listener
        model, args, kwargs = self._called  # inference tensors cannot be part of a graph
        args = tuple(x.clone() if isinstance(x, Tensor) and x.is_inference() else x for x in args)
        kwargs = {n: x.clone() if isinstance(x, Tensor) and x.is_inference() else x for n, x in kwargs.items()}
        with warnings.catch_warnings(), watching as record, gates or contextlib.nullcontext():
            warnings.simplefilter("ignore", UnseenWarning)
            output = model(*args, **kwargs)
        projections = {name: watching._passes.projections.module(name) for name in watching._passes.observed}
        return Again(record, output, self._setup.modules, projections, self._setup.vocabulary.tokenizer, watching.seen)

    def _watch_module(
        self, undo: contextlib.ExitStack, name: str, module: nn.Module, facts: _ClassFacts, followed: bool
    ) -> None:
        """Hook a module, or replace what it calls, as its class requires; `followed`: the whole model's code is."""
        if _attends(module, facts):
            watched = functools.partial(torch_modules.WatchedAttend, module, name)
            undo.enter_context(replaced(module, "attend", watched))
        if _has_own_code(module, facts) and not (followed and name):
            _around(undo, module, torch_modules.begin, torch_modules.end)
        contains = module._modules and not facts.transformers and not isinstance(module, nn.ModuleList)
        reads_ids = facts.model or isinstance(module, Transformer | Encoder | Decoder)
        if name == "" or reads_ids or (contains and self._by_parts):  # what a user may call
            _around(undo, module, functools.partial(self._before_forward, name), self._after_forward)
        if isinstance(module, Transformer):
            _hook(undo, module.embedding.register_forward_pre_hook, self._before_embedding)
        if facts.model and hasattr(type(module), "generate") and not self._setup.keep.nothing:
            undo.enter_context(replaced(module, "generate", huggingface.WatchedGenerate))
        if facts.routes:
            _hook(undo, module.register_forward_hook, functools.partial(self._after_module, name), with_kwargs=True)
        for register, hook in torch_modules.hooks(module):
            _hook(undo, register, hook, with_kwargs=True)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._undo is not None
        self._undo.close()
        self._undo = None
        passes = self._passes
        self._name_replaced_modules()
        own_table = isinstance(error, KeyError) and huggingface.NAME in str(error)  # a model's own lookup by name
        if passes.forwards and not passes.observed and (error is None or own_table):
            raise self._nothing_seen() from error
        if error is not None:
            return
        if passes.observed and (message := self.changes.unapplied()):
            raise WatchError(message)
        passes.finish()
        if passes.unseen:
            message = (
                f"{self._names_of_unseen()} computed attention by hand, or by a function that regard does not know: it "
                "ran unchanged, and is not in the record. record.unseen has all names."
            )
            if self._strict:
                raise WatchError(message)
            warnings.warn(message, UnseenWarning, stacklevel=2)

    def _name_replaced_modules(self) -> None:
        """Name as unseen the modules that the model put in place of watched ones while it ran: they have no hooks.

        BigBird-Pegasus replaces its sparse attention by full attention when the first short text comes.
        """
        hooked, modules = set(map(id, self._setup.modules.values())), self._setup.modules.values()
        if hooked.issuperset(id(part) for module in modules for part in module._modules.values() if part is not None):
            return
        for name, module in _named_modules(self._model)[0].items():
            kind: Any = type(module)
            facts = _class_facts(kind)
            if id(module) not in hooked and (facts.computes or facts.visible):
                self._passes.name_unseen(name)

    def _nothing_seen(self) -> WatchError:
        name = type(self._model).__name__
        by_hand = f" It was computed by {self._names_of_unseen()}." if self._passes.unseen else ""
        if any(huggingface.is_model(type(module)) for module in self._setup.modules.values()):
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
        return some_of([name or type(self._model).__name__ for name in self._passes.unseen])

    # Hooks

    def _before_forward(self, name: str, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Tell `Passes` that a forward from outside begins, and what each module inside it reads."""
        depth = getattr(self._thread, "depth", 0)
        self._thread.depth = depth + 1
        if depth == 0:
            self._passes.begin_forward(kwargs.get("past_key_values"))
            huggingface.keep_seeing(self._configs)
            replayable = not self._setup.keep.nothing and kwargs.get("past_key_values") is None
            self._called = (module, args, kwargs) if replayable else None
        inputs = {name: kwargs.get("input_ids", args[0] if args else None)}
        if isinstance(module, Encoder | Decoder):  # they receive vectors, which the Transformer has just embedded
            inputs, self._embedded = {name: self._embedded}, None
        elif isinstance(module, Transformer):
            inputs = {}
        ids = {
            part: tensor
            for part, tensor in inputs.items()
            if isinstance(tensor, Tensor) and not tensor.is_floating_point() and tensor.dim() == 2
        }
        images = functools.partial(read_images, name, module, args, kwargs, self._setup.images)
        self._passes.read_inputs(ids, images)

    def _before_embedding(self, _: nn.Module, args: tuple[Any, ...]) -> None:
        self._embedded = args[0] if args else None

    def _after_forward(self, _: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        self._thread.depth -= 1
        if self._thread.depth == 0:
            self._passes.end_forward(getattr(output, "past_key_values", None))

    def _after_module(self, name: str, module: nn.Module, args: Any, kwargs: Any, *_: Any) -> None:
        self._passes.end_module(name, functools.partial(huggingface.boundaries, module, args, kwargs))


# Modules: their names, and what the class of each tells

# What torch.compile, FSDP and activation checkpointing call the module that they wrap.
_WRAPPED = frozenset(("_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module"))
_KNOWN = ("torch.", "regard.nn.", "transformers.")  # libraries whose modules are known by their code or type
# Modules of torch that have a fast path in C++, which shows no queries and keys.
_FAST = nn.MultiheadAttention | nn.TransformerEncoderLayer | nn.TransformerEncoder


@dataclass(frozen=True)
class _ClassFacts:
    """What the class of a module tells."""

    transformers: bool  # part of a model of transformers
    model: bool  # such a model
    routes: bool  # calls transformers' AttentionInterface
    ours: bool  # one of regard's attention layers
    computes: bool  # may compute attention by code of its own, or call a function of torch's or regard's for it
    visible: bool  # may call an attention function that can be seen


@functools.cache
def _class_facts(kind: Any) -> _ClassFacts:
    transformers = huggingface.is_model(kind)
    model = transformers and hasattr(kind, "get_input_embeddings")
    routes = transformers and not model and huggingface.routes(kind)
    ours, fast = issubclass(kind, SelfAttention | MultiHeadAttention), issubclass(kind, _FAST)
    # Of all bases: FSDP and parametrizations make classes of torch out of the classes of others.
    foreign = any(not base.__module__.startswith(_KNOWN) for base in kind.__mro__ if issubclass(base, nn.Module))
    return _ClassFacts(
        transformers=transformers,
        model=model,
        routes=routes,
        ours=ours,
        # Models of transformers compute losses by softmaxes; modules that route have another way that they do not take.
        computes=fast or foreign or (huggingface.computes(kind) and not (model or routes)),
        visible=fast or foreign or ours or routes or huggingface.calls_torch(kind),
    )


def _attends(module: nn.Module, facts: _ClassFacts) -> bool:
    """Whether a module is one of regard's attention layers and calls `regard.attention`, not a user's function."""
    attend = vars(module).get("attend")
    return facts.ours and getattr(attend, "original", attend) is attention


def _has_own_code(module: nn.Module, facts: _ClassFacts) -> bool:
    """Whether a module may compute attention by code that is neither regard's nor transformers'."""
    return facts.computes or (facts.ours and not _attends(module, facts))


def _named_modules(model: nn.Module) -> tuple[dict[str, nn.Module], bool]:
    """Return the modules by their names without wrappers, and whether torch.compile is among the wrappers."""
    modules = dict(model.named_modules())
    names: dict[str, str] = {}
    for path in modules:  # a module comes before what it contains
        parent, _, attribute = path.rpartition(".")
        # DDP calls what it wraps "module", a name that others give to modules of their own.
        parallel = attribute == "module" and isinstance(
            modules[parent], nn.parallel.DistributedDataParallel | nn.DataParallel
        )
        prefix = names.get(parent, "")
        names[path] = prefix if parallel or attribute in _WRAPPED else f"{prefix}.{attribute}".lstrip(".")
    compiled = any(path.rpartition(".")[2] == "_orig_mod" for path in modules)
    return {names[path]: module for path, module in modules.items()}, compiled


# Hooks that copies of a model do not keep


class _Hook(functools.partial[Any]):
    """A hook that a copy of its module loses, since a copy is not watched."""

    module: nn.Module

    def __deepcopy__(self, memo: dict[int, Any]) -> _Hook:
        if (copied := memo.get(id(self.module))) is not None:
            memo.setdefault(id(_Copies), _Copies()).append(copied)
        return _Hook(lambda *_: None)


class _Copies(list[nn.Module]):
    """The copied modules of one `deepcopy`, which drops this list when all copies are complete: then hooks go."""

    def __del__(self) -> None:
        for module in self:
            every = [hooks for name, hooks in vars(module).items() if "_forward_" in name and "hooks" in name]
            ours = [key for hooks in every for key, hook in hooks.items() if isinstance(hook, _Hook)]
            for hooks in every:
                for key in ours:
                    hooks.pop(key, None)


def _hook(undo: contextlib.ExitStack, register: Callable[..., Any], run: Callable[..., Any], **options: bool) -> None:
    """Register a hook by a method of its module, until the block ends."""
    hook = _Hook(run)
    hook.module = register.__self__  # type: ignore[attr-defined]
    undo.callback(register(hook, **options).remove)


def _around(
    undo: contextlib.ExitStack, module: nn.Module, before: Callable[..., None], after: Callable[..., None]
) -> None:
    _hook(undo, module.register_forward_pre_hook, before, with_kwargs=True)
    _hook(undo, module.register_forward_hook, after, always_call=True)
