"""The fused forward and backward: torch's flash kernel for the CPU, every mask brought to it in a form it takes.

The kernel knows a causal flag and an added float mask. Padding becomes one mask row; anything that depends on the
query is cut into runs of rows, each with the few keys it can see and a mask of just that block. What the kernel
does wrong is kept away from it: zero-length inputs (they kill the process), strided widths, values wider or
narrower than keys, and its logsumexp of 0 for a row that sees nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from regard.backends.tiles import key_span
from regard.scores import Positions, Scores
from regard.support import Float

__all__ = ["backward", "forward", "suits"]

_kernel = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default
_kernel_backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward.default
_POINTS = 2**21  # numbers in one block of mask: 8 MB of float32


def suits(scores: Scores) -> bool:
    """Whether the fused kernel can compute these scores."""
    return scores.query.device.type == "cpu" and scores.softcap is None and 0 not in scores.shape


class _Run(NamedTuple):
    """One call of the kernel: some rows, the keys they can see, and how."""

    rows: slice
    keys: slice
    causal: bool
    mask: Tensor | None
    empty: Tensor | None  # rows that see nothing, where there may be any


def _runs(scores: Scores) -> Iterator[_Run]:
    mask, (batch, _, queries, keys) = scores.mask, scores.shape
    everything = slice(0, queries), slice(0, keys)
    causal = mask.plain_causal and scores.rows == range(queries) and scores.columns == range(keys)
    causal = causal and scores.scale > 0  # the kernel multiplies its own -inf by the scale
    if not mask or (causal and mask.only_bands):
        yield _Run(*everything, causal, None, None)
        return
    shared = all(dense.shape[2] == 1 for dense in (*mask.visible, *mask.biases)) and not mask.ids
    if shared and (causal or not mask.bands):  # at most one row of mask, the same for all queries
        bar = _bar(scores, scores.rows[:1], scores.columns, with_bands=False)
        yield _Run(*everything, causal, bar, None if bar is None else _shut(bar, causal, queries))
        return
    heads = max((dense.shape[1] for dense in (*mask.visible, *mask.biases)), default=1)
    rows = min(max(_POINTS // (batch * heads * keys), 16), 1024)
    for begin in range(0, queries, rows):
        part = slice(begin, min(begin + rows, queries))
        here = scores.rows[part]
        first, whole_first, whole_end, end = key_span(scores, mask, here)
        seen = slice(first, end)
        if first == end:
            blind = scores.query.new_ones(1, 1, part.stop - part.start, dtype=torch.bool)
            yield _Run(part, seen, False, None, blind)
        elif (whole_first, whole_end) == (first, end) and not mask.biases:
            yield _Run(part, seen, False, None, None)
        else:
            bar = _bar(scores, here, scores.columns[seen], with_bands=True)
            yield _Run(part, seen, False, bar, None if bar is None else (bar == -math.inf).all(-1))


def _bar(scores: Scores, rows: Positions, columns: Positions, with_bands: bool) -> Tensor | None:
    """A block of the mask as the kernel wants it: added numbers, -inf where hidden, 4-D."""
    mask = scores.mask if with_bands else scores.mask.without_bands()
    visible = mask.tile(rows, columns, scores.query.device)
    bias = mask.bias_tile(rows, columns)
    if bias is not None:
        bias = bias.to(scores.working_dtype)
    if visible is not None:
        bias = torch.where(
            visible, scores.query.new_zeros((), dtype=scores.working_dtype) if bias is None else bias, -math.inf
        )
    return bias


def _shut(bar: Tensor, causal: bool, queries: int) -> Tensor:
    """Which rows see nothing, where one row of mask serves all queries."""
    seen = bar[:, :, 0] > -math.inf
    if not causal:
        return ~seen.any(-1, keepdim=True)
    return ~(seen.cumsum(-1) > 0)[..., torch.arange(queries, device=bar.device).clamp_max(bar.shape[-1] - 1)]


def _widened(width: int, *tensors: Tensor) -> list[Tensor]:
    """Zeros appended up to one width, which change neither scores nor sums; and no stride within a row."""
    return [
        t if t.shape[-1] == width and t.stride(-1) == 1 else functional.pad(t, (0, width - t.shape[-1])).contiguous()
        for t in tensors
    ]


def forward(
    scores: Scores, value: Float[Tensor, "batch key_heads keys any"]
) -> tuple[Float[Tensor, "batch heads queries any"], Float[Tensor, "batch heads queries"]]:
    """(weights @ value, logsumexp), without sinks."""
    width = max(scores.query.shape[-1], value.shape[-1])
    query, key, wide = _widened(width, scores.query, scores.key, value)
    outputs, sums = [], []
    for run in _runs(scores):
        q = _part(query, run.rows)
        if run.keys.start == run.keys.stop:
            out, lse = torch.zeros_like(q), q.new_zeros(q.shape[:3], dtype=scores.working_dtype)
        else:
            out, lse = _kernel(
                q, _part(key, run.keys), _part(wide, run.keys), 0.0, run.causal, attn_mask=run.mask, scale=scores.scale
            )
        if run.empty is not None:
            lse = lse.masked_fill(run.empty, -math.inf)
            out = out.masked_fill(run.empty[..., None], 0.0)
        outputs.append(out)
        sums.append(lse)
    output, lse = (outputs[0], sums[0]) if len(outputs) == 1 else (torch.cat(outputs, 2), torch.cat(sums, 2))
    return output if value.shape[-1] == width else output[..., : value.shape[-1]], lse


def _part(tensor: Tensor, tokens: slice) -> Tensor:
    return tensor if tokens == slice(0, tensor.shape[2]) else tensor[:, :, tokens]


def backward(
    scores: Scores,
    value: Float[Tensor, "batch key_heads keys any"],
    output: Float[Tensor, "batch heads queries any"],
    normaliser: Float[Tensor, "batch heads queries"],
    d_output: Float[Tensor, "batch heads queries any"],
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of (query, key, value); output and normaliser may include sinks."""
    width = max(scores.query.shape[-1], value.shape[-1])
    query, key, wide, output, d_output = _widened(width, scores.query, scores.key, value, output, d_output)
    empty = normaliser == -math.inf
    normaliser = normaliser.masked_fill(empty, 0.0).to(
        scores.working_dtype
    )  # 0: the kernel's own sign for an empty row
    d_query = torch.zeros_like(query)
    d_key, d_value = (torch.zeros_like(t, memory_format=torch.contiguous_format) for t in (key, wide))
    for run in _runs(scores):
        if run.keys.start == run.keys.stop:
            continue
        r, k = run.rows, run.keys
        d_q, d_k, d_v = _kernel_backward(
            d_output[:, :, r].contiguous(), query[:, :, r], key[:, :, k], wide[:, :, k], output[:, :, r].contiguous(),
            normaliser[:, :, r].contiguous(), 0.0, run.causal, attn_mask=run.mask, scale=scores.scale,
        )  # fmt: skip
        d_query[:, :, r] = d_q
        d_key[:, :, k] += d_k
        d_value[:, :, k] += d_v
    own = scores.query.shape[-1]
    return d_query[..., :own], d_key[..., :own], d_value[..., : value.shape[-1]]
