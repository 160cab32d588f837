"""How the three kernels of `top` are launched, chunk by chunk, and what they hand on to one another."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from regard.backends.triton import tuning
from regard.backends.triton.problem import Chunk, Launch, Normaliser, cdiv, head_grid, next_power, prepare, tensors
from regard.scores import Scores

__all__ = ["empty_top", "top"]


def empty_top(scores: Scores, k: int) -> tuple[Tensor, Tensor]:
    """Room for the k largest weights of each row, and for their keys."""
    shape = (*scores.shape[:3], k)
    return tuple(scores.query.new_empty(shape, dtype=dtype) for dtype in (torch.float32, torch.int64))  # type: ignore[return-value]


class TopShape(NamedTuple):
    """What the kernels of `top` are compiled for."""

    k: int
    unit: int  # keys that a tag names: 1 in short rows, 2 elsewhere
    tag_bits: int
    segments: int  # of as many tiles as there are tags
    slots: int  # pairs that a row and segment hands on, at most
    pairs: int  # … of which so many are used
    room: int  # the smallest power of two that is at least k


class TopBuffers(NamedTuple):
    """What the kernels of `top` hand on to one another, and the results."""

    candidates: Tensor  # tagged log2 weights (`values` is a name of Triton's own tuples)
    keys: Tensor
    dropped: Tensor  # the largest weight that came third in its class
    open_rows: Tensor  # how many, then which
    logs: Tensor  # log2 weights of the open rows
    weights: Tensor
    indices: Tensor


def top(scores: Scores, norm: Normaliser, k: int, entropy: bool) -> tuple[tuple[Tensor, Tensor], Tensor | None]:
    """The k largest weights with their keys, and entropies in the same pass: exponentials run beside comparisons."""
    from regard.backends.triton import top_kernels

    batch, heads, queries, keys = scores.shape
    lanes, width = batch * heads, scores.query.shape[-1]
    short = scores.query.dtype != torch.float32 and keys <= tuning.SHORT_ROW
    name = "top_short" if short else "top" if scores.mask.only_bands else "top_masked"  # else registers would spill
    block_m, block_n, options = tuning.blocks(name, scores)
    prepared, room, tiles = prepare(scores, block_m, block_n), next_power(k), cdiv(keys, block_n)
    bits, (fewest, most) = (tiles - 1).bit_length(), tuning.TAG_BITS
    bits = bits + 1 if short else max(fewest, min(bits, most), bits - 4)  # not more than 16 segments
    pairs = room + 4  # some more, since tags may have changed their order
    slots, segments = room if short else next_power(pairs), next_power(cdiv(tiles, 1 << bits))
    shape = TopShape(k, 1 if short else 2, bits, segments, slots, pairs, room)
    row_bytes = 8 * segments * slots + 4 * k
    fitting = tuning.WORKSPACE // (row_bytes * lanes * block_m)  # blocks of rows
    chunk = max(min(fitting, cdiv(queries, block_m)), 1) * block_m
    logs, dropped = norm.high.new_empty(lanes * chunk, k), norm.high.new_empty(lanes * chunk, segments)
    values = logs if short else norm.high.new_empty(lanes * chunk, segments, slots)
    places = norm.high.new_empty(lanes * chunk, 2 * slots if short else segments * slots, dtype=torch.int32)
    open_rows = norm.high.new_empty(lanes * chunk + 1, dtype=torch.int32)
    how_many = open_rows[:1]
    weights, indices = empty_top(scores, k)
    buffers = TopBuffers(values, places, dropped, open_rows, logs, weights, indices)
    entropies = norm.high.new_empty(batch, heads, queries) if entropy else None
    direct = entropies is None or (segments == 1 and chunk == queries)
    parts = entropies if direct else torch.empty_like(dropped)
    flags, singles = prepared.along_keys(block_n, norm), tensors(scores)
    any_stages = flags._replace(stages=(True, True, True))  # where there are no tiles: not compiled for each of them
    settle_rows, settle_step, settle_warps = tuning.SETTLE
    search_step, search_warps, search_programs = tuning.search(scores)
    problem = prepared.keys_problem
    for start in range(0, queries, chunk):
        part = Chunk(start, min(chunk, cdiv(queries - start, block_m) * block_m))
        if short:
            how_many.zero_()
        single = (singles, buffers, norm, prepared.problem, part)
        launches = [Launch(
            top_kernels.top_pass, prepared.grid(part.rows // block_m * segments, lanes),
            (prepared.q, prepared.k, parts, buffers, norm, problem, prepared.layouts, part),
            {"FLAGS": flags, "TOP": shape, "ENTROPY": entropy, "PRECISION": prepared.precision, "BLOCK_M": block_m,
             "BLOCK_N": block_n, **options},
        )]  # fmt: skip
        if not short:
            launches.append(Launch(
                top_kernels.top_settle, (cdiv(part.rows, settle_rows), *head_grid(lanes)), single,
                {"FLAGS": any_stages, "TOP": shape, "WIDTH": width, "STEP": min(next_power(width), settle_step),
                 "ROWS": settle_rows, "num_warps": settle_warps},
            ))  # fmt: skip
        launches.append(Launch(
            top_kernels.top_search, (min(lanes * part.rows, search_programs),), single,
            {"FLAGS": any_stages, "TOP": shape, "WIDTH": width, "STEP": min(next_power(width), search_step),
             "BLOCK_N": block_n, "num_warps": search_warps, "enable_fp_fusion": False},
        ))  # fmt: skip
        prepared.launch_all(*launches)
        if not direct:
            assert entropies is not None
            assert parts is not None
            summed = parts[: lanes * part.rows].view(batch, heads, part.rows, segments).sum(-1)
            entropies[:, :, start : start + part.rows] = summed[:, :, : queries - start]
    return (weights, indices), entropies
