"""`Given`: a `Scores` as Triton's kernels want it: blocks to load, flags, a band, and nothing of the mask's size."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.backends.normaliser import LOG2E
from regard.backends.triton import tuning as sizes
from regard.scores import HIDING, Scores, take

__all__ = ["FAR", "MOST", "Given", "described", "heads_of_grid", "lay_out", "power"]

FAR = 2**30  # further than any key
MOST = 2**16 - 1  # where the second and the third direction of a grid end


@dataclass
class Given:
    """A `Scores` as the kernels want it."""

    scores: Scores
    query: Any
    key: Any
    layouts: tuple[tuple[int, int, int], tuple[int, int, int]]
    low: Any
    high: Any
    mask: tuple[Any, ...]
    flags: int
    beside: int = 0  # 2 ** beside heads are walked side by side, the longest walks of all of them first

    @property
    def common(self) -> tuple[Any, ...]:
        """The band, (queries, keys) and (heads, group, beside): what every kernel takes."""
        _, heads, queries, keys = self.scores.shape
        return (self.low, self.high, (queries, keys), (heads, self.scores.group, self.beside))

    def grid(self, blocks: int, lanes: int) -> tuple[int, int, int]:
        """A grid of so many blocks for each head."""
        return (blocks << self.beside, *heads_of_grid(lanes >> self.beside))

    @property
    def numbers(self) -> tuple[float, float]:
        """(factor, cap): what turns a product into a base-2 logit."""
        scale, cap = self.scores.scale, self.scores.softcap
        return (scale * LOG2E, 0.0) if cap is None else (2 * LOG2E * scale / cap, cap * LOG2E)

    @property
    def exact(self) -> str:
        """How products are taken: float32 in full, not rounded to the tensor cores' shorter numbers."""
        return "ieee" if self.scores.query.dtype == torch.float32 else "tf32"

    def flagged(self, rest: Tensor | None) -> int:
        """The flags, with one for normalisers that have a `rest`."""
        from regard.backends.triton import kernels

        return self.flags if rest is None else self.flags | int(kernels.LOW.value)

    def edges(self, tokens: int, block: int, way: int) -> int:
        """Whether tiles at the beginning (1) or end (2) of a walk may be cut: all, where every tile has to be asked."""
        from regard.backends.triton import kernels

        if self.flags & (kernels.EACH.value | kernels.ALWAYS.value):
            return 3
        early, late = (self.low > -FAR, self.high < FAR)[::-way]
        return int(early) | int(late or tokens % block > 0) << 1


def lay_out(scores: Scores, rows: int, columns: int) -> Given:
    """Lay a Scores out for kernels that work on blocks of so many rows and columns."""
    from regard.backends.triton import kernels

    mask, (batch, _, queries, keys) = scores.mask, scores.shape
    query, query_layout = described(scores.query, rows)
    key, key_layout = described(scores.key, columns)
    nothing, flags = scores.query, 0
    low, high = _bands(scores)
    whole = not (queries % rows or keys % columns)
    flags |= kernels.WHOLE.value if whole else 0
    if mask.bands:
        flags |= kernels.BAND.value
        flags |= kernels.UNTIL.value if whole and all(lowest is None for lowest, _, _ in mask.bands) else 0
    if isinstance(low, Tensor):
        flags |= kernels.EACH.value
    keep = query_ids = key_ids = visible = bias = nothing
    if mask.kept:
        flags |= kernels.KEEP.value
        keep = _line(math.prod(take(kept, 3, scores.columns).int() for kept in mask.kept), batch, keys).to(torch.int8)
    if mask.ids:
        flags |= kernels.IDS.value
        mine, theirs = mask.ids[0]
        query_ids, key_ids = (
            _line(take(mine, 2, scores.rows), batch, queries),
            _line(take(theirs, 3, scores.columns), batch, keys),
        )
    strides = [0] * 8
    if mask.visible:
        flags |= kernels.SEEN.value
        visible = _part(mask.visible[0], scores)
        strides[:4] = visible.expand(scores.shape).stride()
        visible = visible.view(torch.int8)
    lowest = HIDING
    if mask.biases:
        flags |= kernels.BIAS.value
        bias = _part(mask.biases[0], scores)
        bias = bias.float() if bias.dtype == torch.float64 else bias
        strides[4:] = bias.expand(scores.shape).stride()
        lowest = max(HIDING, torch.finfo(bias.dtype).min)
    if scores.softcap is not None:
        flags |= kernels.CAP.value
    held = (keep, query_ids, key_ids, visible, bias, lowest, tuple(strides)) if flags & kernels.ALWAYS.value else ()
    return Given(scores, query, key, (query_layout, key_layout), low, high, held, flags, _beside(scores))


def _beside(scores: Scores) -> int:
    """As many heads as a cache holds, where some walks are longer than others: so no long one is left for the end."""
    batch, heads, queries, keys = scores.shape
    lanes, head = batch * heads, max(queries, keys) * scores.query.shape[-1] * scores.query.element_size()
    beside = 0
    while scores.mask.bands and lanes % (2 << beside) == 0 and head << beside + 1 <= sizes.CACHE:
        beside += 1
    return beside


def _part(dense: Tensor, scores: Scores) -> Tensor:
    return take(take(dense, 2, scores.rows), 3, scores.columns)


def _line(tensor: Any, batch: int, tokens: int) -> Tensor:
    """One number for each token of each batch."""
    flat: Tensor = tensor.expand(batch, *tensor.shape[1:]).reshape(batch, tokens)
    return flat.contiguous()


def _bands(scores: Scores) -> tuple[Any, Any]:
    """How far before and behind its query a key may lie, all bands together, in own indices: two numbers, or two for
    each batch."""
    low, high, shift = [-FAR], [FAR], scores.rows[0] - scores.columns[0]
    for lowest, highest, offset in scores.mask.bands:
        by = offset.reshape(-1) if isinstance(offset, Tensor) else offset
        if lowest is not None:
            low.append(by + lowest + shift)  # type: ignore[arg-type]
        if highest is not None:
            high.append(by + highest + shift)  # type: ignore[arg-type]
    if not any(isinstance(edge, Tensor) for edge in low + high):
        return max(max(low), -FAR), min(min(high), FAR)
    batch, device = scores.shape[0], scores.query.device
    every = [[torch.as_tensor(edge, device=device).expand(batch) for edge in edges] for edges in (low, high)]
    both = torch.stack(every[0]).amax(0), torch.stack(every[1]).amin(0)
    return both[0].clamp(-FAR, FAR).int(), both[1].clamp(-FAR, FAR).int()


def described(tensor: Tensor, tokens: int) -> tuple[Any, tuple[int, int, int]]:
    """(batch, heads, tokens, width) as a descriptor of blocks of tokens, and how to find a head in it.

    Both usual layouts are read as they lie: heads one after the other, or side by side as a projection leaves them.
    """
    from triton.tools.tensor_descriptor import TensorDescriptor  # type: ignore[import-untyped]

    _, heads, length, width = tensor.shape
    size = max(power(width), 16)
    if width * tensor.element_size() % 16:
        tensor = torch.nn.functional.pad(tensor, (0, size - width))
        width = size
    side_by_side = tensor.transpose(1, 2)
    if tensor.is_contiguous() and tensor.data_ptr() % 16 == 0:
        flat, layout = tensor.view(-1, width), (heads * length, length, 0)
    elif side_by_side.is_contiguous() and width == size and tensor.data_ptr() % 16 == 0:
        flat, layout = side_by_side.view(-1, heads * width), (length, 0, width)
    else:
        flat, layout = tensor.contiguous().clone().view(-1, width), (heads * length, length, 0)
    return TensorDescriptor(flat, list(flat.shape), list(flat.stride()), [tokens, size]), layout


def heads_of_grid(lanes: int) -> tuple[int, int]:
    """So many heads in the second and in the third direction of a grid."""
    fits = (deep for deep in range(1, min(lanes, MOST) + 1) if lanes % deep == 0 and lanes // deep <= MOST)
    deep = next(fits, lanes)
    return lanes // deep, deep


def power(number: int) -> int:
    """The least power of two that is not smaller."""
    return 1 << max(number - 1, 0).bit_length()
