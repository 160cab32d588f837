"""torch's flash kernel for the CPU, forward and backward, with every mask in a form that it accepts.

The kernel supports a causal flag and an additive float mask. Padding becomes one row of mask; what `causal` with an
offset shows is a rectangle and a square with the flag, whose products are joined by their normalisers; any other mask
that depends on the query is cut into blocks of rows, each with the few keys those rows can see and the mask of that
block. Inputs that the kernel gets wrong never reach it: zero-length inputs (they kill the process), strided widths,
values wider or narrower than keys; and its logsumexp of 0 for a row that sees no key is replaced.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from regard.backends.contract import Attend, Backend, Backward, Capabilities, Gradients
from regard.scores import MASK_PARTS, Positions, Scores, key_span, share
from regard.support import FLOATS

_kernel = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default
_kernel_backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward.default
_POINTS = 2**21  # numbers in one block of mask: 8 MB of float32


class _Block(NamedTuple):
    """One call of the kernel: some rows, the keys they can see, and how."""

    rows: slice
    keys: slice
    causal: bool = False
    mask: Tensor | None = None
    empty: Tensor | None = None  # rows that see no key, where there may be some


def _blocks(scores: Scores) -> Iterator[_Block]:
    mask, (batch, _, queries, keys) = scores.mask, scores.shape
    everything = slice(0, queries), slice(0, keys)
    causal = mask.plain_causal and scores.rows == range(queries) and scores.columns == range(keys)
    causal = causal and scores.scale > 0  # the kernel multiplies its own -inf by the scale
    if not mask or (causal and mask.only_bands):
        yield _Block(*everything, causal)
        return
    shared = all(dense.shape[2] == 1 for dense in (*mask.visible, *mask.biases)) and not mask.ids
    if shared and (causal or not mask.bands):  # at most one row of mask, the same for all queries
        yield _one_row_block(scores, *everything, causal)
        return
    reach = _reach(scores) if shared and queries > 1 else None
    if reach is not None:
        yield from _below(scores, reach)
        return
    heads = max((dense.shape[1] for dense in (*mask.visible, *mask.biases)), default=1)
    rows = min(max(_POINTS // (batch * heads * keys), 16), 1024)
    for begin in range(0, queries, rows):
        part = slice(begin, min(begin + rows, queries))
        positions = scores.rows[part]
        first, whole_first, whole_end, end = key_span(scores, mask, positions)
        seen = slice(first, end)
        if first == end:
            yield _empty_block(scores, part)
        elif (whole_first, whole_end) == (first, end) and not mask.biases:
            yield _Block(part, seen)
        else:
            added = _additive_mask(scores, positions, scores.columns[seen])
            yield _Block(part, seen, False, added, None if added is None else (added == -math.inf).all(-1))


def _reach(scores: Scores) -> int | None:
    """The largest key - query that a row sees, in indices of these scores, where rows differ in nothing else."""
    rows, columns, ends = scores.rows, scores.columns, []
    for lowest, highest, offset in scores.mask.bands:
        if lowest is not None or highest is None or isinstance(offset, Tensor):
            return None
        ends.append(highest + offset)
    if isinstance(rows, Tensor) or isinstance(columns, Tensor) or rows.step != 1 or columns.step != 1:
        return None
    return rows.start + min(ends) - columns.start if scores.scale > 0 else None


def _below(scores: Scores, reach: int) -> Iterator[_Block]:
    """The keys up to i + reach that row i sees: none, a rectangle and a triangle, or all of them."""
    _, _, queries, keys = scores.shape
    first = min(max(-reach, 0), queries)
    last = min(max(keys - reach, first), queries)
    corner = first + reach
    if first:
        yield _empty_block(scores, slice(0, first))
    for rows, columns, causal in (
        (slice(first, last), slice(0, corner), False),
        (slice(first, last), slice(corner, last + reach), True),
        (slice(last, queries), slice(0, keys), False),
    ):
        if rows.start < rows.stop and columns.start < columns.stop:
            yield _one_row_block(scores, rows, columns, causal)


def _empty_block(scores: Scores, rows: slice) -> _Block:
    return _Block(rows, slice(0, 0), empty=scores.query.new_ones(1, 1, rows.stop - rows.start, dtype=torch.bool))


def _one_row_block(scores: Scores, rows: slice, columns: slice, causal: bool) -> _Block:
    """A block whose rows share one row of mask, beside the bands."""
    unbanded = replace(scores, mask=replace(scores.mask, bands=()))
    mask = _additive_mask(unbanded, scores.rows[:1], scores.columns[columns])
    if mask is None:
        return _Block(rows, columns, causal)
    seen = mask[:, :, 0] > -math.inf
    if not causal:
        return _Block(rows, columns, causal, mask, ~seen.any(-1, keepdim=True))
    last = torch.arange(rows.stop - rows.start, device=mask.device).clamp_max(mask.shape[-1] - 1)
    return _Block(rows, columns, causal, mask, ~(seen.cumsum(-1) > 0)[..., last])


def _additive_mask(scores: Scores, rows: Positions, columns: Positions) -> Tensor | None:
    """A block of the mask as the kernel takes it: numbers to add, -inf where hidden, 4-D."""
    visible = scores.mask.tile(rows, columns, scores.query.device)
    bias = scores.mask.bias_tile(rows, columns, scores.working_dtype)
    if bias is not None:
        bias = bias.to(scores.working_dtype)
    if visible is not None:
        zero = scores.query.new_zeros((), dtype=scores.working_dtype)
        bias = torch.where(visible, zero if bias is None else bias, -math.inf)
    return bias


def _widened(width: int, *tensors: Tensor) -> list[Tensor]:
    """Tensors padded with zeros to one width, which changes neither scores nor sums, and contiguous along it."""
    return [
        t if t.shape[-1] == width and t.stride(-1) == 1 else functional.pad(t, (0, width - t.shape[-1])).contiguous()
        for t in tensors
    ]


def _part(tensor: Tensor, tokens: slice) -> Tensor:
    """The tensor itself where the slice has all tokens: a view takes longer than a small product."""
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
        lse = task.lse.masked_fill(task.lse == -math.inf, 0.0).to(scores.working_dtype)  # as the kernel returns it
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
        key_width = scores.query.shape[-1]
        return Gradients(d_query[..., :key_width], d_key[..., :key_width], d_value[..., : value.shape[-1]])


backend = TorchCPU()
