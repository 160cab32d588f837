"""The hands of top_kernels.py: the greatest weights of each row, and with them, if wanted, the entropy."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from regard.backends import reductions, sizes
from regard.backends.given import lay_out, power
from regard.scores import Scores

__all__ = ["sweep"]


def sweep(
    scores: Scores, norm: Tensor, rest: Tensor | None, top: reductions.Top, entropy: reductions.Entropy | None = None
) -> None:
    """Fill a `Top`, and an `Entropy` on the same walk: its exponentials run beside the comparisons."""
    from regard.backends import top_kernels

    batch, heads, queries, keys = scores.shape
    lanes, width = batch * heads, scores.query.shape[-1]
    rows, columns, options = sizes.of("best", scores)
    given = lay_out(scores, rows, columns)
    few, bits, tiles = power(top.k), sizes.MARK, -(-keys // columns)
    kinds = (columns // 2 - 1).bit_length()
    if tiles <= 1 << sizes.SHORT:  # a mark has room for the class too, which makes choosing cheaper
        bits = kinds + max(tiles - 1, 1).bit_length()
    else:
        kinds = 0
        while tiles > 16 << bits:  # not more than so many segments
            bits += 1
    pairs = few + 4  # some more, since marks may have changed their order
    slots, segments = power(pairs), power(-(-tiles // (1 << bits - kinds)))
    chunk = min(sizes.ROOM // (8 * lanes * rows * segments * slots), -(-queries // rows)) * rows or rows
    values, lost = norm.new_empty(lanes * chunk, segments, slots), norm.new_empty(lanes * chunk, segments)
    names = torch.empty_like(values, dtype=torch.int32)
    parts = norm
    if entropy is not None:
        entropy.total = entropy.empty()
        parts = entropy.total if segments == 1 and chunk == queries else torch.empty_like(lost)
    more = torch.empty(lanes * chunk + 1, dtype=torch.int32, device=norm.device)
    shared: Any = {"FLAGS": given.flagged(rest), "SLOTS": slots, "SEGMENTS": segments, "BITS": bits}
    operands = (norm, norm if rest is None else rest, values, names, lost, more)
    strides = (scores.query.stride(), scores.key.stride())
    rules = (*given.common, *given.numbers, given.mask)
    weighed: Any = {"TOP": top.k, "WIDTH": width, **shared}
    height, step, warps = sizes.SETTLE
    best, found = top.settle()
    for above in range(0, queries, chunk):
        lines = min(chunk, -(-(queries - above) // rows) * rows)
        top_kernels.best[(lines // rows * segments, lanes)](
            given.query, given.key, *operands, parts, *given.common, given.layouts, *given.numbers, given.mask, above,
            lines, ENTROPY=entropy is not None, PAIRS=pairs, CLASS=kinds, EDGES=given.edges(keys, columns, -1),
            EXACT=given.exact, BM=rows, BN=columns, **shared, **options,
        )  # fmt: skip
        if entropy is not None and parts is not entropy.total:
            part = parts[: lanes * lines].view(batch, heads, lines, segments).sum(-1)
            entropy.total[:, :, above : above + lines] = part[:, :, : queries - above]
        top_kernels.settle[(-(-lines // height), lanes)](
            scores.query, scores.key, *operands, best, found, strides, *rules, above, lines, FEW=few,
            STEP=min(power(width), step), ROWS=height, num_warps=warps, **weighed,
        )  # fmt: skip
        top_kernels.search[(min(lanes * lines, 16 * sizes.processors(norm.device)),)](
            scores.query, scores.key, *operands, best, found, strides, *rules, above, lines, PAIRS=pairs, CLASS=kinds,
            STEP=min(power(width), sizes.SEARCH[0]), ROOM=few, BN=columns, num_warps=sizes.SEARCH[1],
            enable_fp_fusion=False, **weighed,
        )  # fmt: skip
