"""`Pattern`: which query may see which key, in positions of the whole text.

A model with a cache hands over few queries and many keys, one with a window only the last keys. In positions of the
whole text the rule is the same for all of them, so that steps of a generation can be put together again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor
from torch.nn import functional

from regard.scores import Band, Keep, Mask, Same

__all__ = ["Pattern"]


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
