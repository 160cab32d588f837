"""`watch`: look into a model while it runs."""

from __future__ import annotations

import contextlib
import difflib
import functools
import inspect
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any

import torch
from torch import Tensor, nn

from regard.errors import InputError, WatchError
from regard.matrix import AttentionMatrix, attention
from regard.nn import Transformer
from regard.scores import Atom, Band, Mask, as_mask
from regard.watching import huggingface, registry
from regard.watching.call import Call, Source
from regard.watching.passes import Pass, Vocabulary
from regard.watching.pattern import Pattern
from regard.watching.record import Record
from regard.watching.summary import wanted
from regard.watching.take import Take

__all__ = ["Watching", "watch"]


def watch(
    model: nn.Module,
    *,
    tokenizer: Any = None,
    tokens: Sequence[str] | Sequence[Sequence[str]] | None = None,
    keep: str | Collection[str] = "matrix",
    without: Mapping[str, Collection[int]] | None = None,
) -> Watching:
    """Record the attention of every layer while the model runs in a `with` block, at the speed of fused kernels.

    `keep`: "matrix" (queries and keys: any look later), "summary" (received, entropy, pool) or a choice of "received",
    "entropy", "pool", "top". `without`: heads to knock out, by module name.

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
    return Watching(model, Vocabulary(tokenizer, tokens), wanted(keep), without or {})


class Watching:
    """A model being watched between `__enter__` and `__exit__`; the record fills as the model runs."""

    def __init__(
        self,
        model: nn.Module,
        vocabulary: Vocabulary,
        keep: tuple[str, ...] | None,
        without: Mapping[str, Collection[int]],
    ):
        if not isinstance(model, nn.Module):
            raise InputError(f"watch takes a torch module. Got {type(model).__name__}.")
        self._model, self._vocabulary, self._keep = model, vocabulary, keep
        self._names = {name.replace("_orig_mod.", "").removesuffix("_orig_mod"): m for name, m in model.named_modules()}
        self._without = {name: _heads(name, heads, self._names) for name, heads in without.items()}
        self._undo: contextlib.ExitStack | None = None
        self._configs: list[tuple[Any, str]] = []
        self._begin()

    def _begin(self) -> None:
        self._passes: list[Pass] = []
        self._step = 0  # how often the model, or a part of it, was called from outside
        self._went_on = -1  # the last step that went on with a text
        self._calls: dict[str, tuple[int, int]] = {}  # by module: the last step that called it, and how often
        self._given: dict[str, Tensor] = {}  # ids on their way to an attention
        self._local = threading.local()

    # Coming and going

    def __enter__(self) -> Record:
        if self._undo is not None:
            raise WatchError("this watch is already open. Call regard.watch again for another one.")
        self._begin()
        ours = [(n, m) for n, m in self._names.items() if callable(getattr(m, "attend", None))]
        theirs = [(n, m) for n, m in self._names.items() if huggingface.is_model(m)]
        if not ours and not theirs:
            raise WatchError(
                f"{type(self._model).__name__} has no attention that regard knows: neither modules with `attend`, as "
                "regard's own have, nor a Hugging Face model inside."
            )
        with contextlib.ExitStack() as undo:
            undo.callback(registry.leave, self)
            registry.enter(self, ((name, module) for name, module in self._names.items()))
            for name, module in ours:
                _swapped(undo, module, "attend", functools.partial(_Attend, module, name))
            if theirs:
                huggingface.prepare()
                if not ours and not huggingface.routes(module for _, module in theirs):
                    raise self._not_routed()
                self._configs = list(huggingface.configs(module for _, module in theirs))
                for config, attribute in self._configs:
                    _swapped(undo, config, attribute, lambda _: huggingface.NAME)
            for name, module in self._outer(ours):
                undo.callback(module.register_forward_pre_hook(self._came(name), with_kwargs=True).remove)
                undo.callback(module.register_forward_hook(self._went, always_call=True).remove)
            if any(m._compiled_call_impl or "_orig_mod" in m._modules for m in self._model.modules()):
                undo.enter_context(torch.compiler.set_stance("force_eager"))  # a compiled graph cannot be watched
            self._undo = undo.pop_all()
        return Record(self._passes, self._model)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._undo is not None
        now = {getattr(config, attribute) for config, attribute in self._configs} - {huggingface.NAME}
        self._undo.close()
        self._undo = None
        looked_up = isinstance(error, KeyError) and huggingface.NAME in str(error)  # in a table of its own
        if self._step and not self._passes and (error is None or looked_up):
            raise self._not_routed() from error
        if now and error is None:
            raise WatchError(
                f"the model's attention was set to {', '.join(sorted(map(repr, now)))} while it was watched, so what "
                "ran after that was not seen. Choose it before the block; watched, the outputs are the same."
            )

    def _not_routed(self) -> WatchError:
        return WatchError(
            f"{type(self._model).__name__} does not call its attention through transformers' AttentionInterface, so "
            "nothing of it can be seen. Models that do: BERT, GPT-2, Llama, T5, BART, ViT and most others."
        )

    def _outer(self, ours: Sequence[tuple[str, nn.Module]]) -> Iterator[tuple[str, nn.Module]]:
        """The modules that somebody may call from outside: the model, its parts that are models, what holds ours."""
        for name, module in self._names.items():
            holds = any(inner.startswith(f"{name}.") for inner, _ in ours) and not isinstance(module, nn.ModuleList)
            if name == "" or (huggingface.is_model(module) and hasattr(module, "get_input_embeddings")) or holds:
                yield name, module

    def _came(self, name: str) -> Callable:
        def hook(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            depth = getattr(self._local, "depth", 0)
            self._local.depth = depth + 1
            self._step += depth == 0
            given = {name: kwargs.get("input_ids", args[0] if args else None)}
            if isinstance(module, Transformer):  # its parts are given vectors: which ids they were is known here only
                both = inspect.signature(module.forward).bind(*args, **kwargs).arguments
                dot = name and f"{name}."
                given = {f"{dot}encoder": both["source"], f"{dot}decoder": both["target"]}
            for part, ids in given.items():
                if isinstance(ids, Tensor) and not ids.is_floating_point() and ids.dim() == 2:
                    self._given[part] = ids

        return hook

    def _went(self, *_: Any) -> None:
        self._local.depth -= 1

    # What the active watchers are told

    def saw(self, name: str, call: Call, matrix: AttentionMatrix, output: Tensor) -> Tensor:
        """A module of this name attended."""
        if torch._C._current_graph_task_id() == -1:  # else a checkpoint is computing again what was seen before
            self._note(name, call, matrix)
        for head in self._without.get(name, ()):
            if head >= output.shape[1]:
                raise InputError(f"{name} has {output.shape[1]} heads, numbered from 0. Got without = {head}.")
        if name in self._without:
            gone = torch.tensor(self._without[name], device=output.device)
            output = output.index_fill(1, gone, 0.0)
        return output

    def _note(self, name: str, call: Call, matrix: AttentionMatrix) -> None:
        step, times = self._calls.get(name, (-1, 0))
        times = times + 1 if step == self._step else 0
        self._calls[name] = self._step, times
        key = f"{name}#{times}" if times else name  # ALBERT calls one module for every layer
        if not self._passes:
            self._passes.append(Pass(self._vocabulary))
        take = self._passes[-1].takes.get(key)
        goes_on = take is not None and take.follows(call, self._went_on == self._step)
        if take is not None and not goes_on:
            if call.queries.start > 0 and call.kind == "decoder":
                raise WatchError(
                    f"{name}: the cache was cut or rewound between two calls, so rows cannot be put together. "
                    "Watch one plain generation, or the model on the finished text."
                )
            self._passes.append(Pass(self._vocabulary))
        self._passes[-1].was_given(self._given)
        self._given = {}
        if goes_on and take is not None:
            self._went_on = self._step
            take.add(call, matrix)
        else:
            self._passes[-1].takes[key] = Take(call, matrix, self._keep)


class _Attend:
    """What stands in for `attend` in a module of ours while it is watched."""

    def __init__(self, module: nn.Module, name: str, before: Callable[..., Tensor]):
        self._module, self._before = module, before
        self._kind = str(getattr(module, "kind", "cross" if "cross" in name else "encoder"))

    def __call__(
        self, query: Tensor, key: Tensor, value: Tensor, *, mask: Mask | Tensor | None = None,
        scale: float | None = None, softcap: float | None = None, sinks: Tensor | float | None = None,
        dropout: float = 0.0,
    ) -> Tensor:  # fmt: skip
        options = {"mask": mask, "scale": scale, "softcap": softcap, "sinks": sinks}
        matrix = AttentionMatrix(query, key, **options)  # type: ignore[arg-type]
        if self._before is attention:
            output = matrix.attend(value, dropout)
        else:
            output = self._before(query, key, value, **options, dropout=dropout)
        call = _our_call(self._kind, query, key, as_mask(mask), scale, softcap, sinks)
        whole = matrix if query.dim() == 4 else call.source.matrix()
        lead = output.dim()
        output = output if lead == 4 else output[None]
        for watcher, name in registry.watchers(self._module):
            output = watcher.saw(name, call, whole, output)
        return output if lead == 4 else output[0]


def _our_call(
    kind: str, query: Tensor, key: Tensor, mask: Mask, scale: float | None, softcap: float | None,
    sinks: Tensor | float | None,
) -> Call:  # fmt: skip
    """A call of our own layers, with a batch axis and in positions of the whole text."""
    if query.dim() == 3:
        query, key = query[None], key[None]
    if query.dim() != 4:
        raise WatchError(f"watch reads queries (batch, heads, queries, width). Got shape {tuple(query.shape)}.")
    queries, keys = query.shape[2], key.shape[2]
    first = keys - queries if kind == "decoder" and keys > queries else 0  # behind a cache
    bands: list[tuple[int | None, int | None]] = []
    others: list[Atom] = []
    for atom in mask.atoms:
        if isinstance(atom, Band) and isinstance(atom.offset, int):
            shift = atom.offset - first
            bands.append(tuple(None if edge is None else edge + shift for edge in (atom.lowest, atom.highest)))  # type: ignore[arg-type]
        else:
            others.append(atom)
    sinks = sinks if sinks is None or isinstance(sinks, Tensor) else query.new_tensor(sinks)
    source = Source(query, key, mask, scale, softcap, sinks)
    pattern = Pattern(tuple(bands))
    return Call(source, kind, range(first, first + queries), range(keys), pattern, Mask(tuple(others)))


def _swapped(undo: contextlib.ExitStack, owner: Any, attribute: str, make: Callable[[Any], Any]) -> None:
    registry.swap(owner, attribute, make)
    undo.callback(registry.put_back, owner, attribute)


def _heads(name: str, heads: Collection[int], names: Mapping[str, nn.Module]) -> list[int]:
    if name not in names:
        close = difflib.get_close_matches(name, names, n=3, cutoff=0.3)
        raise InputError(f"without: the model has no module {name!r}. Did you mean {' or '.join(map(repr, close))}?")
    chosen = [int(head) for head in heads]
    if any(head < 0 for head in chosen):
        raise InputError(f"without: heads are numbered from 0. Got {chosen} for {name!r}.")
    return chosen
