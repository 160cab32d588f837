"""`Pattern`: which query may see which key, in positions of the whole text.

A model with a cache hands over few queries and many keys, one with a window only the last keys. In positions of the
whole text the rule is the same for all of them, so that steps of a generation can be put together again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from regard.bound_mask import bind
from regard.masks import Band, Keep, Mask, Same
from regard.shapes import Bool

__all__ = ["LazyMask", "Pattern"]


@dataclass(frozen=True, eq=False)
class Pattern:
    """Bands, padding and documents, none of which is queries × keys.

    >>> Pattern(bands=((-2, 0),)).mask(queries=range(10, 11), keys=range(4, 11))     # one step behind a cache
    window(2, 0, offset=6)
    """

    bands: tuple[tuple[int | None, int | None], ...] = ()  # key - query lies between these
    kept: tuple[Tensor, ...] = ()  # bool (batch, keys), True = a real token
    ids: tuple[Tensor, ...] = ()  # (batch, tokens): a query sees the keys of its own id

    @property
    def causal(self) -> bool:
        """Whether no query sees a key after itself."""
        return any(highest is not None and highest <= 0 for _, highest in self.bands)

    def mask(self, queries: range, keys: range) -> Mask:
        """The rule for these queries and keys, as a mask of regard."""
        shift = queries.start - keys.start
        atoms: list[Any] = []
        for lowest, highest in self.bands:
            late = highest is not None and queries.start + highest < keys.stop - 1
            early = lowest is not None and queries.stop - 1 + lowest > keys.start
            if late or early:  # else it hides nothing here, and kernels are faster without it
                atoms.append(Band(lowest, highest, shift))
        atoms += [Keep(_cut(kept, keys)) for kept in self.kept]
        atoms += [Same(_cut(ids, queries), _cut(ids, keys)) for ids in self.ids]
        return Mask(tuple(atoms))


def _cut(tensor: Tensor, positions: range) -> Tensor:
    """The part for these positions; where a tensor ends before them, they are padding."""
    missing = positions.stop - tensor.shape[-1]
    if missing > 0:
        tensor = functional.pad(tensor, (0, missing))
    return tensor[..., positions.start : positions.stop]


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
    def __new__(
        cls: type[LazyMask], pattern: Pattern, queries: range, keys: range, batch: int, device: torch.device
    ) -> LazyMask:
        shape = (batch, 1, len(queries), len(keys))
        made: LazyMask = Tensor._make_wrapper_subclass(cls, shape, dtype=torch.bool, device=device)  # type: ignore[attr-defined]
        made.pattern, made.queries, made.keys = pattern, queries, keys
        return made

    def __init__(self, *_: Any) -> None:
        super().__init__()

    def __repr__(self, **_: Any) -> str:
        return f"LazyMask({self.pattern.mask(self.queries, self.keys)}, shape={tuple(self.shape)})"

    def spelt_out(self) -> Bool[Tensor, "batch 1 queries keys"]:
        """The numbers."""
        shape = tuple(self.shape)
        mask = bind(self.pattern.mask(self.queries, self.keys), shape, self.device, plain=False)
        tile = mask.tile(range(shape[2]), range(shape[3]), self.device)
        return torch.ones(shape, dtype=torch.bool, device=self.device) if tile is None else tile.expand(shape)

    # Results are plain tensors, never masks of this kind.
    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Whatever is done with it is done with its numbers."""
        from torch.utils._pytree import tree_map_only

        args, kwargs = tree_map_only(LazyMask, LazyMask.spelt_out, (args, kwargs or {}))
        return func(*args, **kwargs)
