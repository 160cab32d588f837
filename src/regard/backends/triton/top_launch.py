"""The hands of top_kernels.py and search_kernels.py: the greatest weights of each row and, if wanted, its entropy."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from regard.backends import reductions
from regard.backends.triton import tuning as sizes
from regard.backends.triton.problem import heads_of_grid, lay_out, power
from regard.scores import Scores

__all__ = ["sweep"]


def sweep(
    scores: Scores, norm: Tensor, rest: Tensor | None, top: reductions.Top, entropy: reductions.Entropy | None = None
) -> None:
    """Fill a `Top`, and an `Entropy` on the same walk: its exponentials run beside the comparisons."""
    from regard.backends.triton import search_kernels, top_kernels

    batch, heads, queries, keys = scores.shape
    lanes, width = batch * heads, scores.query.shape[-1]
    short = scores.query.dtype != torch.float32 and keys <= sizes.SHORT
    rows, columns, options = sizes.of("short" if short else "best", scores)
    given = lay_out(scores, rows, columns)
    few, tiles = power(top.k), -(-keys // columns)
    bits, (least, most) = (tiles - 1).bit_length(), sizes.MARKS
    bits = bits + 1 if short else max(least, min(bits, most), bits - 4)  # not more than 16 segments
    pairs = few + 4  # some more, since marks may have changed their order
    slots, segments = few if short else power(pairs), power(-(-tiles // (1 << bits)))
    best, found = top.settle()
    each = 8 * segments * slots + 4 * top.k  # bytes of what is put by of a row
    chunk = min(sizes.ROOM // (each * lanes * rows) * rows, -(-queries // rows) * rows) or rows
    logs = norm.new_empty(lanes * chunk, top.k)
    values = logs if short else norm.new_empty(lanes * chunk, segments, slots)
    names = norm.new_empty(lanes * chunk, 2 * slots if short else segments * slots, dtype=torch.int32)
    lost, parts = norm.new_empty(lanes * chunk, segments), norm
    if entropy is not None:
        entropy.total = entropy.empty()
        parts = entropy.total if segments == 1 and chunk == queries else torch.empty_like(lost)
    more = torch.empty(lanes * chunk + 1, dtype=torch.int32, device=norm.device)
    shared: Any = {"FLAGS": given.flagged(rest), "TOP": top.k, "SLOTS": slots, "SEGMENTS": segments, "BITS": bits}
    unit: Any = {"UNIT": 1 if short else 2, "PAIRS": pairs}
    operands = (norm, norm if rest is None else rest, values, names, lost, more, logs, best, found)
    strides = (scores.query.stride(), scores.key.stride())
    rules = (*given.common, *given.numbers, given.mask)
    height, step, warps = sizes.SETTLE
    part_of_key, searchers, programs = sizes.searching(scores)
    for above in range(0, queries, chunk):
        lines = min(chunk, -(-(queries - above) // rows) * rows)
        if short:
            more[:1] = 0
        top_kernels.best[given.grid(lines // rows * segments, lanes)](
            given.query, given.key, *operands, parts, *given.common, given.layouts, *given.numbers, given.mask, above,
            lines, ENTROPY=entropy is not None, EDGES=given.edges(keys, columns, -1), EXACT=given.exact, BM=rows,
            BN=columns, **unit, **shared, **options,
        )  # fmt: skip
        if entropy is not None and parts is not entropy.total:
            part = parts[: lanes * lines].view(batch, heads, lines, segments).sum(-1)
            entropy.total[:, :, above : above + lines] = part[:, :, : queries - above]
        if not short:
            top_kernels.settle[(-(-lines // height), *heads_of_grid(lanes))](
                scores.query, scores.key, *operands, strides, *rules, above, lines, FEW=few, WIDTH=width,
                STEP=min(power(width), step), ROWS=height, num_warps=warps, **shared,
            )  # fmt: skip
        search_kernels.search[(min(lanes * lines, programs),)](
            scores.query, scores.key, *operands, strides, *rules, above, lines, WIDTH=width,
            STEP=min(power(width), part_of_key), ROOM=few, BN=columns, num_warps=searchers, enable_fp_fusion=False,
            **unit, **shared,
        )  # fmt: skip
