"""`LazyMask`: a mask that goes through a model as a tensor, and holds no numbers."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map_only

from regard.scores import bind
from regard.support import Bool
from regard.watching.pattern import Pattern

__all__ = ["LazyMask"]


class LazyMask(Tensor):
    """A bool mask (batch, 1, queries, keys) that holds its pattern and no numbers.

    Models pass it through untouched; one that computes with it gets the numbers, made at that moment.

    >>> lazy = LazyMask(Pattern(bands=((None, 0),)), range(2), range(2), 1, torch.device("cpu"))
    >>> lazy.shape, (lazy & True).int()
    (torch.Size([1, 1, 2, 2]), tensor([[[[1, 0], [1, 1]]]], dtype=torch.int32))
    """

    pattern: Pattern
    queries: range
    keys: range

    @staticmethod
    def __new__(  # noqa: D102 (the class says it)
        cls: type[LazyMask], pattern: Pattern, queries: range, keys: range, batch: int, device: torch.device
    ) -> LazyMask:
        shape = (batch, 1, len(queries), len(keys))
        made: LazyMask = Tensor._make_wrapper_subclass(cls, shape, dtype=torch.bool, device=device)  # type: ignore[attr-defined]
        made.pattern, made.queries, made.keys = pattern, queries, keys
        return made

    def __init__(self, *_: Any) -> None:
        super().__init__()

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        return f"LazyMask({self.pattern.mask(self.queries, self.keys)}, shape={tuple(self.shape)})"

    def spelt_out(self) -> Bool[Tensor, "batch 1 queries keys"]:
        """The numbers."""
        shape = tuple(self.shape)
        mask = bind(self.pattern.mask(self.queries, self.keys), shape, self.device, plain=False)
        tile = mask.tile(range(shape[2]), range(shape[3]), self.device)
        return torch.ones(shape, dtype=torch.bool, device=self.device) if tile is None else tile.expand(shape)

    # Results are plain tensors, never masks of this kind.
    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Whatever is done with it is done with its numbers."""
        args, kwargs = tree_map_only(LazyMask, LazyMask.spelt_out, (args, kwargs or {}))
        return func(*args, **kwargs)
