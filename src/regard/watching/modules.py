"""The modules of a model: their names, and what the class of each says about it."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import Any

from torch import nn

from regard.watching import huggingface, packed

__all__ = ["Kind", "attends", "kind_of", "named_modules"]

# What torch.compile, FSDP and activation checkpointing call the module that they wrap.
_WRAPPERS = frozenset(("_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module"))
# Attention modules are found by the name of their class; those that adapt or project what another one gave are none.
_ATTENTION = re.compile(r"Atte?n(tio)?n(?!\w*(Output|Adapter|Norm|Mask|Bias|Embed|MLP|FeedForward))")


@dataclass(frozen=True)
class Kind:
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
def kind_of(kind: Any) -> Kind:
    """The same for each module of a class, so that it is looked up once."""
    transformers = huggingface.is_model(kind)
    model = transformers and hasattr(kind, "get_input_embeddings")
    attention = _ATTENTION.search(kind.__name__) is not None
    routes = attention and huggingface.routes(kind)
    generates, attend = model and hasattr(kind, "generate"), hasattr(kind, "attend")
    visible = routes or issubclass(kind, nn.MultiheadAttention) or (attention and huggingface.calls_torch(kind))
    parts = routes and packed.takes_parts(kind)
    return Kind(transformers, model, generates, attention, routes, parts, attend, visible)


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
    """Whether a module has `attend`; asking torch for an attribute that it does not have is slow."""
    has = kind.attend or "attend" in vars(module) or "attend" in module._modules
    return has and callable(getattr(module, "attend", None))
