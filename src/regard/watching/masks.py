"""Masks of a watched model: `Pattern`, a rule in positions of the whole text, and `LazyMask`, a rule in tensor form.

A model with a cache passes few queries and many keys, one with a sliding window only the last keys. In positions of the
whole text the rule is the same for all of these calls, so the steps of a generation can be joined into one matrix.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional
from torch.utils._pytree import tree_map_only

from regard.scores import Band, Keep, Mask, Same, as_mask, bind
from regard.support import Bool
from regard.watching.links import LocatedLink

__all__ = ["LazyMask", "Pattern", "ReadMask", "looks_causal", "read_mask"]


@dataclass(frozen=True, eq=False)
class Pattern:
    """Bands, padding, documents and links: what a mask can say without queries × keys numbers.

    >>> Pattern(bands=((-2, 0),)).mask(queries=range(10, 11), keys=range(4, 11))     # one step with a cache
    window(2, 0, offset=6)
    """

    bands: tuple[tuple[int | None, int | None], ...] = ()  # bounds of key position - query position
    padding: tuple[Tensor, ...] = ()  # bool (batch, keys), True = a real token
    documents: tuple[Tensor, ...] = ()  # ids (batch, tokens): a query sees the keys that have its id
    links: tuple[LocatedLink, ...] = ()  # that are cut or steered
    zeroed: tuple[LocatedLink, ...] = ()  # whose weights are set to 0 after the softmax

    @cached_property
    def causal(self) -> bool:
        """Whether no query sees a key after itself."""
        return any(highest is not None and highest <= 0 for _, highest in self.bands)

    @cached_property
    def only_causal(self) -> bool:
        """Whether it says nothing else."""
        return self.bands == ((None, 0),) and not (self.padding or self.documents or self.links or self.zeroed)

    def mask(self, queries: range, keys: range) -> Mask:
        """The rule for these queries and keys, as one of regard's masks."""
        shift = queries.start - keys.start
        atoms: list[Any] = []
        for lowest, highest in self.bands:
            hides_later = highest is not None and queries.start + highest < keys.stop - 1
            hides_earlier = lowest is not None and queries.stop - 1 + lowest > keys.start
            if hides_later or hides_earlier:  # a band that hides nothing would only slow the kernels down
                atoms.append(Band(lowest, highest, shift))
        if self.padding or self.documents:
            atoms += [Keep(_slice(padding, keys)) for padding in self.padding]
            atoms += [Same(_slice(ids, queries), _slice(ids, keys)) for ids in self.documents]
        if self.links:
            atoms += _linked(self.links, queries, keys).atoms
        return Mask(tuple(atoms)) if atoms else as_mask(None)

    def hidden(self, queries: range, keys: range) -> Mask:
        """What is set to 0 after the softmax, for these queries and keys."""
        return _linked(self.zeroed, queries, keys)


def _linked(links: Sequence[LocatedLink], queries: range, keys: range) -> Mask:
    return Mask(tuple(atom for link in links for atom in link.mask(queries, keys).atoms))


def _slice(tensor: Tensor, positions: range) -> Tensor:
    """The columns for these positions; positions past the end of the tensor are padding."""
    missing = positions.stop - tensor.shape[-1]
    if missing > 0:
        tensor = functional.pad(tensor, (0, missing))
    return tensor[..., positions.start : positions.stop]


def looks_causal(mask: Tensor) -> bool:
    """Whether the second key of a dense mask is hidden from the first query, and from no later one by padding."""
    if min(mask.shape[-2:]) < 2:
        return False
    second = mask[..., :2, 1]
    hidden = ~second if mask.dtype == torch.bool else second <= torch.finfo(mask.dtype).min
    return bool((hidden[..., 0] & ~hidden[..., 1]).any())


class LazyMask(Tensor):
    """A mask (batch, 1, queries, keys) that stores what it is made of, and no numbers.

    Watched attention reads the pattern. To all other code it is the tensor that the model had without us: for SDPA
    bools, for eager attention 0 where a query sees a key and the lowest number of the dtype where it does not. An
    operation computes these numbers at that moment.

    >>> lazy = LazyMask(Pattern(bands=((None, 0),)), range(2), range(2), 1, torch.float16, torch.device("cpu"))
    >>> lazy.shape, lazy + 0
    (torch.Size([1, 1, 2, 2]), tensor([[[[     0., -65504.],
              [     0.,      0.]]]], dtype=torch.float16))
    """

    pattern: Pattern
    dense: Bool[Tensor, "batch 1 queries keys"] | None  # where no pattern is known; True = visible
    queries: range
    keys: range
    causal_to_the_end: bool  # it says nothing else, and the last query sees the last key
    read: tuple[tuple[int, int], ReadMask] | None = None  # what it says to so many queries and keys: in all layers

    @staticmethod
    def __new__(  # noqa: D102 (the class docstring covers it)
        cls: type[LazyMask], pattern: Pattern, queries: range, keys: range, batch: int, dtype: torch.dtype,
        device: torch.device, dense: Tensor | None = None,
    ) -> LazyMask:  # fmt: skip
        shape = (batch, 1, len(queries), len(keys))
        mask: LazyMask = Tensor._make_wrapper_subclass(cls, shape, dtype=dtype, device=device)  # type: ignore[attr-defined]
        mask.pattern, mask.queries, mask.keys, mask.dense = pattern, queries, keys, dense
        mask.causal_to_the_end = dense is None and pattern.only_causal and queries.stop == keys.stop
        return mask

    def __init__(self, *_: Any) -> None:
        super().__init__()

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        rule = "dense" if self.dense is not None else self.pattern.mask(self.queries, self.keys)
        return f"LazyMask({rule}, shape={tuple(self.shape)})"

    def materialize(self) -> Tensor:
        """The numbers."""
        if self.dtype == torch.bool:
            return self.visible()
        numbers = torch.zeros(self.shape, dtype=self.dtype, device=self.device)
        return numbers.masked_fill_(~self.visible(), torch.finfo(self.dtype).min)

    def visible(self) -> Bool[Tensor, "batch 1 queries keys"]:
        """Which keys a query sees."""
        if self.dense is not None:
            return self.dense
        shape = tuple(self.shape)
        mask = bind(self.pattern.mask(self.queries, self.keys), shape, self.device, plain=False)
        tile = mask.tile(range(shape[2]), range(shape[3]), self.device)
        return torch.ones(shape, dtype=torch.bool, device=self.device) if tile is None else tile.expand(shape)

    def _cut(self, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> LazyMask | None:
        """A run of its queries or keys, as lazy as itself; None for other slices."""
        if dim % 4 < 2 or step != 1:
            return None
        chosen = slice(start, end)
        queries, keys = (self.queries[chosen], self.keys) if dim % 4 == 2 else (self.queries, self.keys[chosen])
        dense = self.dense
        if dense is not None:
            dense = dense[:, :, chosen] if dim % 4 == 2 else dense[..., chosen]
        return LazyMask(self.pattern, queries, keys, self.shape[0], self.dtype, self.device, dense)

    # Results of operations are plain tensors, not lazy masks.
    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Run any operation on the numbers; only slices stay lazy, because models cut their masks to the keys."""
        if func is torch.ops.aten.slice.Tensor and isinstance(args[0], LazyMask):
            cut = args[0]._cut(*args[1:], **(kwargs or {}))
            if cut is not None:
                return cut
        args, kwargs = tree_map_only(LazyMask, LazyMask.materialize, (args, kwargs or {}))
        return func(*args, **kwargs)


# What a model passes


class ReadMask(NamedTuple):
    """What the mask of a call says."""

    pattern: Pattern
    mask: Mask  # the pattern for these queries and keys
    dense: tuple[Tensor, ...]
    queries: range  # where they lie in the text
    keys: range
    causal: bool


def read_mask(mask: Tensor | None, queries: int, keys: int, causal: bool) -> ReadMask:
    """What a mask says to so many queries and keys; None is `causal` or not, as the module says."""
    if isinstance(mask, LazyMask) and mask.read is not None and mask.read[0] == (queries, keys):
        return mask.read[1]
    pattern, dense, *places = _located(mask, queries, keys)
    pattern = Pattern(bands=((None, 0),)) if causal else pattern
    causal = pattern.causal
    if causal and places[0].stop < places[1].stop:  # a static cache is longer than the text so far
        places[1] = range(places[1].start, places[0].stop)
    found = ReadMask(pattern, pattern.mask(*places), tuple(dense), places[0], places[1], causal)
    if isinstance(mask, LazyMask):
        mask.read = (queries, keys), found
    return found


def _located(mask: Tensor | None, queries: int, keys: int) -> tuple[Pattern, list[Tensor], range, range]:
    """The mask as a pattern and as dense tensors, and where the queries and keys lie in the text."""
    if isinstance(mask, LazyMask):  # it may have more keys than the model uses; eager slices it too
        if len(mask.queries) >= queries and len(mask.keys) >= keys:
            dense = [] if mask.dense is None else [mask.dense[..., :keys]]
            return mask.pattern, dense, mask.queries, range(mask.keys.start, mask.keys.start + keys)
        mask = mask.visible()  # made for one query or key, and meant for all of them
    positions = range(max(keys - queries, 0), max(keys, queries)), range(keys)
    if mask is None:
        return Pattern(), [], range(queries), positions[1]
    if mask.dim() == 2:
        return Pattern(padding=(mask.bool(),)), [], *positions
    return Pattern(), [mask[..., :keys]], *positions
