"""Attention that a model computes part by part: the calls of one forward, as the one matrix that they are.

Vision models read all images of a batch as one long row of patches, in which a patch sees its own image or window only.
Without a kernel for such rows, transformers cuts the row where `cu_seqlens` says, and calls its attention function once
for each part. What a reader wants to see is the row.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from regard.matrix import AttentionMatrix
from regard.scores import documents
from regard.support import Float
from regard.watching.capture.calls import AttentionCall

__all__ = ["Parts", "joined", "takes_parts"]

_BOUNDARIES = "cu_seqlens"


class Parts:
    """The calls of modules of these names, until the forward that made them has ended."""

    def __init__(self, names: Iterable[str] = ()):
        self.names = frozenset(names)
        self._calls: dict[str, list[tuple[AttentionCall, AttentionMatrix | None]]] = {}

    def clear(self) -> None:
        """Forget the calls so far."""
        self._calls = {}

    def add(self, name: str, call: AttentionCall, matrix: AttentionMatrix | None) -> None:
        """A call of a module, and its matrix if it was made."""
        self._calls.setdefault(name, []).append((call, matrix))

    def ended(
        self, name: str, module: nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> list[tuple[AttentionCall, AttentionMatrix | None]]:
        """The calls of a forward with these arguments, which has ended: as one, if they are the parts of one row."""
        calls = self._calls.pop(name, [])
        row = joined(module, args, kwargs, [call for call, _ in calls]) if len(calls) > 1 else None
        return calls if row is None else [(row, None)]


def takes_parts(kind: type[nn.Module]) -> bool:
    """Whether modules of a class are told where to cut a row into parts."""
    return _BOUNDARIES in inspect.signature(kind.forward).parameters


def joined(
    module: nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any], calls: Sequence[AttentionCall]
) -> AttentionCall | None:
    """The calls of one forward of a module as one call, if they are the parts of one row; else None.

    >>> from regard.scores import Mask
    >>> class Attention(nn.Module):
    ...     def forward(self, x, cu_seqlens): ...
    >>> row = torch.randn(1, 2, 5, 4)
    >>> parts = [AttentionCall(part, part, Mask()) for part in row.split([3, 2], 2)]
    >>> joined(Attention(), (row, torch.tensor([0, 3, 5])), {}, parts).matrix()
    AttentionMatrix(shape=(1, 2, 5, 5), dtype=float32, device=cpu, mask=documents(int64[5]))
    """
    boundaries = inspect.signature(module.forward).bind_partial(*args, **kwargs).arguments.get(_BOUNDARIES)
    first, sizes = calls[0], [call.query.shape[2] for call in calls]
    fits = isinstance(boundaries, Tensor) and len(boundaries) == len(calls) + 1
    alike = all(
        not call.mask.atoms and call.query.shape[0] == 1 and call.key.shape[2] == size and call.sinks is None
        for call, size in zip(calls, sizes, strict=True)
    )
    if not fits or not alike:
        return None
    query, key = _row([call.query for call in calls]), _row([call.key for call in calls])
    ids = torch.repeat_interleave(torch.tensor(sizes)).to(query.device)
    whole = range(sum(sizes))
    return replace(first, query=query, key=key, mask=documents(ids), queries=whole, keys=whole)


def _row(parts: Sequence[Float[Tensor, "1 heads _ width"]]) -> Float[Tensor, "1 heads tokens width"]:
    """The tensor that was cut into these parts, if they still lie in it side by side; else a copy."""
    first, start = parts[0], parts[0].storage_offset()
    step = first.stride(2)
    for part in parts:
        same = part.untyped_storage().data_ptr() == first.untyped_storage().data_ptr()
        if not same or part.stride() != first.stride() or part.storage_offset() != start or part.requires_grad:
            return torch.cat(list(parts), 2)
        start += part.shape[2] * step
    size = (*first.shape[:2], sum(part.shape[2] for part in parts), first.shape[3])
    return first.as_strided(size, first.stride(), first.storage_offset())
