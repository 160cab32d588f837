"""Ways to look at an `AttentionMatrix`: its transpose, its stages, its parts, and exact numbers out of it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from regard.errors import InputError
from regard.matrix.indexing import basic, coordinates
from regard.scores import Scores, pick
from regard.support import Float, ensure_room, no_compile

if TYPE_CHECKING:
    from regard.matrix.attention_matrix import AttentionMatrix

__all__ = ["Parts", "Stage", "Transposed", "look", "points"]

_POINTS = 2**16  # single points computed in one go
_LOG2E = math.log2(math.e)


class Transposed:
    """`A.mT`: one row per key. `A.mT @ x` streams as `A @ v` does; `A.mT.mT is A`."""

    def __init__(self, matrix: AttentionMatrix):
        self._matrix = matrix

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
        return self._matrix._reverse(x)

    def to_dense(self) -> Tensor:
        """All of it as a tensor, if it fits in memory."""
        return self._matrix.to_dense().mT


class Stage:
    """One stage before the softmax, computed where it is indexed: `A.scores[..., 3, :]`."""

    def __init__(self, matrix: AttentionMatrix, name: str):
        self._matrix, self._name = matrix, name

    def __getitem__(self, index: Any) -> Tensor:
        return look(self._matrix, index, self._name)

    def __repr__(self) -> str:
        return f"{self._matrix!r}.{self._name}"


class Parts:
    """`A.part`: what gives lazy parts of A."""

    def __init__(self, matrix: AttentionMatrix):
        self._matrix = matrix

    def __getitem__(self, index: Any) -> AttentionMatrix:
        matrix = self._matrix
        axes = basic(index, tuple(matrix.shape))
        if axes is None or any(isinstance(axis, Tensor) for axis in axes):
            raise InputError(
                "A.part takes ints, slices and ... only. For index tensors use A[…], which gives a tensor."
            )
        if any(isinstance(axis, int) for axis in axes[-2:]):
            raise InputError("a part is still a matrix: for one row or column write i:i+1, or use A[…] for a tensor.")
        return _parted(matrix, axes)


@no_compile
def _parted(matrix: AttentionMatrix, axes: list[int | range | Tensor]) -> AttentionMatrix:
    """The part that these axes pick; an int drops its axis (for rows and columns the caller does that)."""
    *leading, rows, columns = (
        range(a, a + 1) if n >= len(axes) - 2 and isinstance(a, int) else a for n, a in enumerate(axes)
    )
    heads: int | range | Tensor = leading.pop() if matrix._heads else range(matrix._scores.shape[1])
    numbered = torch.arange(matrix._scores.shape[0], device="cpu").view(matrix._batch)
    for axis, chosen in reversed(list(enumerate(leading))):
        numbered = numbered.select(axis, chosen) if isinstance(chosen, int) else pick(numbered, axis, chosen)
    chosen_heads = [heads] if isinstance(heads, int) else [int(h) for h in heads]
    assert not isinstance(rows, int)
    assert not isinstance(columns, int)
    has_heads = matrix._heads and not isinstance(heads, int)
    return matrix._selected(numbered.flatten().tolist(), chosen_heads, rows, columns, tuple(numbered.shape), has_heads)


@no_compile
def look(matrix: AttentionMatrix, index: Any, stage: str) -> Tensor:
    """The numbers that an index asks for, of the weights or of a stage before them."""
    matrix._check()
    axes = basic(index, tuple(matrix.shape))
    if axes is None:
        grids = coordinates(index, tuple(matrix.shape), matrix.device)
        size = grids[0].shape
        ensure_room(size, 12 + 8 * len(grids), matrix.device, lambda: f"A[…] of shape {tuple(size)}")
        return points(matrix, grids, stage)
    shape = [1 if isinstance(a, int) else len(a) for a in axes]
    ensure_room(shape, 2 * matrix.dtype.itemsize + 8, matrix.device, lambda: f"{tuple(shape)} numbers of {matrix!r}")
    part = _parted(matrix, axes)
    dense = part._unfold(_dense(part, stage))
    for axis in (-2, -1):
        dense = dense.squeeze(axis) if isinstance(axes[axis], int) else dense
    return dense


def _dense(matrix: AttentionMatrix, stage: str) -> Tensor:
    scores = matrix._scores
    if stage != "weights":
        return scores.stage(stage).to(matrix.dtype)
    # With all keys at hand a row is its own normaliser; a part of them needs that of all.
    lse = None if scores is matrix._wide else matrix._normaliser()
    if torch.is_grad_enabled() and scores.requires_grad:
        return _weights(scores, lse).to(matrix.dtype)
    dense = scores.query.new_empty(scores.shape)
    batch, heads, queries, keys = scores.shape
    rows = max(2**22 // max(batch * heads * keys, 1), 1)
    for start in range(0, queries, rows):
        here = slice(start, min(start + rows, queries))
        block = scores.select(range(batch), range(heads), range(here.start, here.stop), range(keys))
        dense[:, :, here] = _weights(block, None if lse is None else lse[:, :, here])
    return dense


@no_compile
def points(matrix: AttentionMatrix, grids: list[Tensor], stage: str) -> Tensor:
    """Single points, given as one index tensor per axis of the user's shape."""
    *leading, row, column = (grid.reshape(-1) for grid in grids)
    head = leading.pop() if matrix._heads else torch.zeros_like(row)
    batch = torch.zeros_like(row)
    for size, place in zip(matrix._batch, leading, strict=True):
        batch = batch * size + place
    lse = matrix._normaliser() if stage == "weights" else None
    found = []
    for start in range(0, len(row), _POINTS):
        spots = tuple(axis[start : start + _POINTS] for axis in (batch, head, row, column))
        values = matrix._scores.points("masked" if lse is not None else stage, *spots)
        found.append(values if lse is None else _normalised(values, lse[spots[0], spots[1], spots[2]]))
    flat = torch.cat(found) if found else matrix._scores.query.new_zeros(0)
    return flat.view(grids[0].shape).to(matrix.dtype)


def _weights(scores: Scores, lse: Tensor | None) -> Tensor:
    """Dense weights, differentiable, 0 in a row that sees nothing: by softmax, or by the normaliser of more keys."""
    masked = scores.stage("masked")
    if lse is not None:
        return _normalised(masked, lse[..., None])
    if scores.sinks is not None:
        sink = scores.sinks.to(masked.dtype)[..., None, None].expand(*masked.shape[:-1], 1)
        masked = torch.cat([masked, sink], -1)
    elif not scores.mask:
        return torch.softmax(masked, -1)
    empty = (masked == -math.inf).all(-1, keepdim=True)
    return torch.softmax(masked.masked_fill(empty, 0.0), -1).masked_fill(empty, 0.0)[..., : scores.shape[3]]


def _normalised(masked: Tensor, lse: Tensor) -> Tensor:
    """exp(masked - lse), 0 in a row that sees nothing; by exp2, which does not slow down where it underflows."""
    return torch.exp2((masked - lse.masked_fill(lse == -math.inf, 0.0)) * _LOG2E)
