"""torch's flash kernel for the CPU, forward and backward, with every mask in a form that it accepts.

The kernel knows a causal flag and an additive float mask. Padding becomes one row of mask; what `causal` with an offset
shows is a rectangle and a square with the flag, whose products are joined by their normalisers; any other mask that
depends on the query is cut into blocks of rows, each with the few keys those rows can see and the mask of just that
block. What the
kernel gets wrong is kept away from it: zero-length inputs (they kill the process), strided widths, values wider or
narrower than keys, and its logsumexp of 0 for a row that sees no key.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from regard.backends.contract import Attend, Backend, Backward, Capabilities, Gradients, share
from regard.backends.tiles.tile import key_span
from regard.scores import MASK_PARTS, Positions, Scores
from regard.support import FLOATS

__all__ = ["backend"]

_kernel = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default
_kernel_backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward.default
_POINTS = 2**21  # numbers in one block of mask: 8 MB of float32


class _Block(NamedTuple):
    """One call of the kernel: some rows, the keys they can see, and how."""

    rows: slice
    keys: slice
    causal: bool
    mask: Tensor | None
    empty: Tensor | None  # rows that see no key, where there may be some


def _blocks(scores: Scores) -> Iterator[_Block]:
    mask, (batch, _, queries, keys) = scores.mask, scores.shape
    everything = slice(0, queries), slice(0, keys)
    causal = mask.plain_causal and scores.rows == range(queries) and scores.columns == range(keys)
    causal = causal and scores.scale > 0  # the kernel multiplies its own -inf by the scale
    if not mask or (causal and mask.only_bands):
        yield _Block(*everything, causal, None, None)
        return
    shared = all(dense.shape[2] == 1 for dense in (*mask.visible, *mask.biases)) and not mask.ids
    if shared and (causal or not mask.bands):  # at most one row of mask, the same for all queries
        block_mask = _additive_mask(scores, scores.rows[:1], scores.columns, with_bands=False)
        yield _Block(
            *everything, causal, block_mask, None if block_mask is None else _empty_rows(block_mask, causal, queries)
        )
        return
    reach = _reach(scores) if shared and queries > 1 else None
    if reach is not None:
        yield from _below(scores, reach)
        return
    heads = max((dense.shape[1] for dense in (*mask.visible, *mask.biases)), default=1)
    rows = min(max(_POINTS // (batch * heads * keys), 16), 1024)
    for begin in range(0, queries, rows):
        part = slice(begin, min(begin + rows, queries))
        here = scores.rows[part]
        first, whole_first, whole_end, end = key_span(scores, mask, here)
        seen = slice(first, end)
        if first == end:
            yield _Block(part, seen, False, None, scores.query.new_ones(1, 1, len(here), dtype=torch.bool))
        elif (whole_first, whole_end) == (first, end) and not mask.biases:
            yield _Block(part, seen, False, None, None)
        else:
            block_mask = _additive_mask(scores, here, scores.columns[seen], with_bands=True)
            empty = None if block_mask is None else (block_mask == -math.inf).all(-1)
            yield _Block(part, seen, False, block_mask, empty)


def _reach(scores: Scores) -> int | None:
    """How far right of its own number a row of these sees, where nothing but that depends on the row."""
    rows, columns, ends = scores.rows, scores.columns, []
    for lowest, highest, offset in scores.mask.bands:
        if lowest is not None or highest is None or isinstance(offset, Tensor):
            return None
        ends.append(highest + offset)
    if isinstance(rows, Tensor) or isinstance(columns, Tensor) or rows.step != 1 or columns.step != 1:
        return None
    return rows.start + min(ends) - columns.start if scores.scale > 0 else None


def _below(scores: Scores, reach: int) -> Iterator[_Block]:
    """What row i sees of the keys up to i + reach: nothing, a rectangle and a triangle, or all of them."""
    _, _, queries, keys = scores.shape
    first = min(max(-reach, 0), queries)
    last = min(max(keys - reach, first), queries)
    corner = first + reach
    for rows, columns, causal in (
        (slice(0, first), slice(0, 0), False),
        (slice(first, last), slice(0, corner), False),
        (slice(first, last), slice(corner, last + reach), True),
        (slice(last, queries), slice(0, keys), False),
    ):
        count = rows.stop - rows.start
        if count and rows.stop <= first:
            yield _Block(rows, columns, False, None, scores.query.new_ones(1, 1, count, dtype=torch.bool))
        elif count and columns.start < columns.stop:
            mask = _additive_mask(scores, scores.rows[:1], scores.columns[columns], with_bands=False)
            yield _Block(rows, columns, causal, mask, None if mask is None else _empty_rows(mask, causal, count))


def _additive_mask(scores: Scores, rows: Positions, columns: Positions, with_bands: bool) -> Tensor | None:
    """A block of the mask as the kernel takes it: numbers to add, -inf where hidden, 4-D."""
    mask = scores.mask if with_bands else scores.mask.without_bands()
    visible = mask.tile(rows, columns, scores.query.device)
    bias = mask.bias_tile(rows, columns, scores.working_dtype)
    if bias is not None:
        bias = bias.to(scores.working_dtype)
    if visible is not None:
        bias = torch.where(
            visible, scores.query.new_zeros((), dtype=scores.working_dtype) if bias is None else bias, -math.inf
        )
    return bias


def _empty_rows(mask: Tensor, causal: bool, queries: int) -> Tensor:
    """Which rows see no key, where all queries share one row of mask."""
    seen = mask[:, :, 0] > -math.inf
    if not causal:
        return ~seen.any(-1, keepdim=True)
    return ~(seen.cumsum(-1) > 0)[..., torch.arange(queries, device=mask.device).clamp_max(mask.shape[-1] - 1)]


def _widened(width: int, *tensors: Tensor) -> list[Tensor]:
    """Tensors padded with zeros to one width, which changes neither scores nor sums, and contiguous along it."""
    return [
        t if t.shape[-1] == width and t.stride(-1) == 1 else functional.pad(t, (0, width - t.shape[-1])).contiguous()
        for t in tensors
    ]


def _part(tensor: Tensor, tokens: slice) -> Tensor:
    return tensor if tokens == slice(0, tensor.shape[2]) else tensor[:, :, tokens]


class TorchCPU(Backend):
    """torch's flash kernel for the CPU."""

    name = "torch_cpu"
    can = Capabilities(
        requests=(Attend,), gradients=(Attend,), dtypes={"cpu": tuple(FLOATS)}, softcap=False, uses_forward_lse=True,
        mask_parts=frozenset(MASK_PARTS) - {"cuts"}, fastest_unmasked=True,
    )  # fmt: skip

    def forward(self, scores: Scores, request: Attend) -> tuple[Tensor, Tensor]:
        """(weights @ value, logsumexp), without sinks."""
        value = request.operand
        width = max(scores.query.shape[-1], value.shape[-1])
        query, key, wide = _widened(width, scores.query, scores.key, value)
        outputs: list[Tensor] = []
        sums: list[Tensor] = []
        last: slice | None = None
        for block in _blocks(scores):
            q = _part(query, block.rows)
            if block.keys.start == block.keys.stop:
                out, lse = torch.zeros_like(q), q.new_zeros(q.shape[:3], dtype=scores.working_dtype)
            else:
                k, v = _part(key, block.keys), _part(wide, block.keys)
                out, lse = _kernel(q, k, v, 0.0, block.causal, attn_mask=block.mask, scale=scores.scale)
            if block.empty is not None:
                lse = lse.masked_fill(block.empty, -math.inf)
                out = out.masked_fill(block.empty[..., None], 0.0)
            if block.rows == last:  # the same rows with other keys
                total = torch.logaddexp(sums[-1], lse)
                before, now = (share(part, total)[..., None] for part in (sums[-1], lse))
                outputs[-1], sums[-1] = (outputs[-1] * before + out * now).to(out.dtype), total
                continue
            outputs.append(out)
            sums.append(lse)
            last = block.rows
        output, lse = (outputs[0], sums[0]) if len(outputs) == 1 else (torch.cat(outputs, 2), torch.cat(sums, 2))
        return output if value.shape[-1] == width else output[..., : value.shape[-1]], lse

    def backward(self, scores: Scores, task: Backward) -> Gradients:
        """Gradients of (query, key, value); result and normaliser may include sinks."""
        assert isinstance(task.request, Attend)
        value = task.request.operand
        # The kernel subtracts the row sums of grad × output: with an output of 0 it subtracts nothing.
        result = task.result if task.subtract else torch.zeros_like(task.result)
        width = max(scores.query.shape[-1], value.shape[-1])
        query, key, wide, output, d_output = _widened(width, scores.query, scores.key, value, result, task.grad)
        lse = task.lse.masked_fill(task.lse == -math.inf, 0.0).to(scores.working_dtype)  # the kernel's own: 0
        d_query = torch.zeros_like(query)
        d_key, d_value = (torch.zeros_like(t, memory_format=torch.contiguous_format) for t in (key, wide))
        for block in _blocks(scores):
            if block.keys.start == block.keys.stop:
                continue
            r, k = block.rows, block.keys
            d_q, d_k, d_v = _kernel_backward(
                d_output[:, :, r].contiguous(), query[:, :, r], key[:, :, k], wide[:, :, k],
                output[:, :, r].contiguous(), lse[:, :, r].contiguous(), 0.0, block.causal, attn_mask=block.mask,
                scale=scores.scale,
            )  # fmt: skip
            d_query[:, :, r] += d_q
            d_key[:, :, k] += d_k
            d_value[:, :, k] += d_v
        own = scores.query.shape[-1]
        none = (None,) * len(scores.mask.biases)
        return Gradients(d_query[..., :own], d_key[..., :own], d_value[..., : value.shape[-1]], none, None)


backend = TorchCPU()
