"""Ways to look at an `AttentionMatrix`: its transpose, its stages and its parts, as lazy as itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from regard.errors import InputError
from regard.matrix.indexing import basic
from regard.support import Float

if TYPE_CHECKING:
    from regard.matrix.attention_matrix import AttentionMatrix

__all__ = ["Parts", "Stage", "Transposed"]


class Transposed:
    """`A.mT`: one row per key. `A.mT @ x` streams as `A @ v` does; `A.mT.mT is A`."""

    def __init__(self, matrix: AttentionMatrix, multiply: Callable[[Tensor], Tensor]):
        self._matrix, self._multiply = matrix, multiply

    @property
    def mT(self) -> AttentionMatrix:
        """The matrix itself."""
        return self._matrix

    @property
    def shape(self) -> torch.Size:
        """(*batch, heads, keys, queries)."""
        *leading, queries, keys = self._matrix.shape
        return torch.Size((*leading, keys, queries))

    @property
    def dtype(self) -> torch.dtype:
        """The query's dtype."""
        return self._matrix.dtype

    @property
    def device(self) -> torch.device:
        """Where it is computed."""
        return self._matrix.device

    def __repr__(self) -> str:
        return f"{self._matrix!r}.mT"

    def __matmul__(self, x: Float[Tensor, "*any queries width"]) -> Float[Tensor, "*any_too keys width"]:
        return self._multiply(x)

    def to_dense(self) -> Tensor:
        """All of it as a tensor, if it fits in memory."""
        return self._matrix.to_dense().mT


class Stage:
    """One stage before the softmax, computed where it is indexed: `A.scores[..., 3, :]`."""

    def __init__(self, matrix: AttentionMatrix, name: str, read: Callable[[Any], Tensor]):
        self._matrix, self._name, self._read = matrix, name, read

    def __getitem__(self, index: Any) -> Tensor:
        return self._read(index)

    def __repr__(self) -> str:
        return f"{self._matrix!r}.{self._name}"


class Parts:
    """`A.part`: `A.part[…]` gives lazy parts of A."""

    def __init__(self, matrix: AttentionMatrix, select: Callable[[list[int | range | Tensor]], AttentionMatrix]):
        self._matrix, self._select = matrix, select

    def __getitem__(self, index: Any) -> AttentionMatrix:
        axes = basic(index, tuple(self._matrix.shape))
        if axes is None or any(isinstance(axis, Tensor) for axis in axes):
            raise InputError(
                "A.part takes ints, slices and ... only. For index tensors use A[…], which gives a tensor."
            )
        if any(isinstance(axis, int) for axis in axes[-2:]):
            raise InputError("a part is still a matrix: for one row or column write i:i+1, or use A[…] for a tensor.")
        return self._select(axes)
