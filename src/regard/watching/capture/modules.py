"""The modules of a model: their names, and what the class of each says about it."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

from torch import nn

from regard.matrix import attention
from regard.nn import MultiHeadAttention, SelfAttention
from regard.watching.capture import huggingface

__all__ = ["Kind", "attends", "kind_of", "named_modules"]

# What torch.compile, FSDP and activation checkpointing call the module that they wrap.
_WRAPPERS = frozenset(("_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module"))
_KNOWN = ("torch.", "regard.nn.", "transformers.")  # libraries whose modules are known by their code or type
# Modules of torch that have a fast path in C++, which shows no queries and keys.
_FAST = nn.MultiheadAttention | nn.TransformerEncoderLayer | nn.TransformerEncoder


@dataclass(frozen=True)
class Kind:
    """What the class of a module says about it."""

    transformers: bool  # part of a model of transformers
    model: bool  # such a model
    generates: bool
    routes: bool  # calls transformers' AttentionInterface
    parts: bool  # and may do so several times in a forward, for the parts of one row of tokens
    ours: bool  # one of regard's attention layers
    computes: bool  # may compute attention by code of its own, or call a function of torch's or regard's for it
    visible: bool  # may call an attention function that can be seen


@functools.cache
def kind_of(kind: Any) -> Kind:
    """The same for each module of a class, so that it is looked up once."""
    transformers = huggingface.is_model(kind)
    model = transformers and hasattr(kind, "get_input_embeddings")
    generates = model and hasattr(kind, "generate")
    routes = transformers and not model and huggingface.routes(kind)
    ours, fast = issubclass(kind, SelfAttention | MultiHeadAttention), issubclass(kind, _FAST)
    # Of all bases: FSDP and parametrizations make classes of torch out of those of others.
    foreign = any(not base.__module__.startswith(_KNOWN) for base in kind.__mro__ if issubclass(base, nn.Module))
    # Models of transformers compute losses by softmaxes, and what routes has another way that it does not take.
    computes = fast or foreign or (huggingface.computes(kind) and not (model or routes))
    visible = fast or foreign or ours or routes or huggingface.calls_torch(kind)
    parts = routes and huggingface.takes_parts(kind)
    return Kind(transformers, model, generates, routes, parts, ours, computes, visible)


def named_modules(model: nn.Module) -> tuple[dict[str, nn.Module], bool]:
    """The modules by name, as they are without what wraps some of them, and whether torch.compile is among that."""
    modules, compiled, wrapped = {}, False, set[str]()
    for path, module in model.named_modules():
        parts = path.split(".") if path else []
        compiled = compiled or "_orig_mod" in parts
        # DDP calls what it wraps "module", a name that others give to modules of their own.
        inside = (".".join(parts[: n + 1]) for n in range(len(parts)))
        name = ".".join(
            part for part, here in zip(parts, inside, strict=True) if part not in _WRAPPERS and here not in wrapped
        )
        if isinstance(module, nn.parallel.DistributedDataParallel | nn.DataParallel):
            wrapped.add(f"{path}.module" if path else "module")
        modules[name] = module
    return modules, compiled


def attends(module: nn.Module, kind: Kind) -> bool:
    """Whether a module is one of regard's attention layers and calls `regard.attention`, not a function of the user's.

    >>> from regard import MultiHeadAttention
    >>> attends(MultiHeadAttention(8, 2), kind_of(MultiHeadAttention))
    True
    """
    attend = vars(module).get("attend")
    return kind.ours and getattr(attend, "original", attend) is attention
