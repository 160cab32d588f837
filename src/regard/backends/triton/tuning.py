"""Block sizes, warps, stages and register limits of the kernels, and their workspace: chosen on an H200."""

from __future__ import annotations

from functools import cache

import torch

from regard.scores import Scores

# (BLOCK_M, BLOCK_N, warps, stages, registers or 0 for no limit) for half precision of width up to 64, 128 and 256, and
# for float32
BLOCKS: dict[str, list[tuple[int, int, int, int, int]]] = {
    "forward": [(64, 64, 4, 3, 0), (64, 64, 4, 3, 0), (64, 32, 4, 2, 0), (32, 32, 4, 2, 0)],
    "forward_documents": [(64, 64, 4, 3, 0), (128, 64, 8, 3, 0), (64, 32, 4, 2, 0), (32, 32, 4, 2, 0)],
    "rows": [(64, 64, 4, 3, 0), (64, 64, 4, 3, 0), (64, 64, 4, 2, 0), (32, 32, 4, 2, 0)],
    "sums": [(64, 64, 4, 3, 128), (64, 64, 4, 2, 128), (64, 64, 4, 2, 255), (32, 32, 4, 2, 255)],
    "sums_dense": [(64, 64, 4, 3, 0), (64, 32, 4, 3, 0), (64, 64, 4, 2, 255), (32, 32, 4, 2, 255)],  # a bias, say
    "top": [(64, 128, 4, 3, 168), (64, 128, 4, 3, 0), (64, 64, 4, 2, 0), (32, 32, 4, 2, 0)],
    "top_short": [(64, 64, 4, 3, 128), (64, 64, 4, 3, 0), (64, 64, 4, 2, 0), (32, 32, 4, 2, 0)],  # short rows
    "top_masked": [(64, 64, 4, 3, 0), (64, 64, 4, 3, 0), (64, 64, 4, 2, 0), (32, 32, 4, 2, 0)],  # more than a band
    "columns": [(128, 64, 4, 2, 0), (64, 128, 4, 3, 0), (64, 64, 4, 2, 0), (32, 32, 4, 2, 0)],
    "columns_pool": [(128, 64, 4, 2, 0), (64, 64, 4, 3, 0), (64, 64, 4, 2, 0), (32, 32, 4, 2, 0)],  # with bins
    "columns_product": [(64, 128, 4, 3, 0), (64, 64, 4, 3, 0), (64, 64, 4, 2, 0), (32, 32, 4, 2, 0)],  # times x
    "bins": [(64, 128, 4, 2, 0), (64, 128, 4, 2, 0), (64, 64, 4, 2, 0), (32, 32, 4, 2, 0)],  # queries: at most
    "dense_rows": [(16, 128, 4, 1, 0), (16, 128, 4, 1, 0), (16, 64, 4, 1, 0), (16, 64, 4, 1, 0)],
    "grad_query": [(64, 64, 4, 3, 0), (128, 64, 8, 3, 0), (128, 32, 8, 2, 0), (16, 16, 4, 1, 0)],
    "grad_key": [(64, 64, 4, 3, 168), (64, 64, 4, 2, 0), (32, 64, 8, 2, 0), (16, 16, 4, 1, 0)],
}
# The same where a multiprocessor has less shared memory than an H200's: blocks that need it are smaller there.
SMALL: dict[str, list[tuple[int, int, int, int, int]]] = {
    "grad_query": [(64, 64, 4, 2, 0), (64, 64, 8, 2, 0), (32, 32, 4, 1, 0), (16, 16, 4, 1, 0)],
    "grad_key": [(64, 64, 4, 2, 0), (32, 64, 8, 2, 0), (32, 32, 4, 1, 0), (16, 16, 4, 1, 0)],
}
CACHE = 2**24  # bytes of queries or keys of the heads that are worked on side by side
WORKSPACE = 2**26  # bytes for intermediate results
TAG_BITS = 6, 8  # of a weight, for the number of its tile: at least and, except for the very longest rows, at most
SHORT_ROW = 1024  # keys: in such rows tags take so few bits that tagged weights are accurate enough for half precision
SHARED_MAXIMUM = 1, 4  # keys of a tile that share one maximum in `top(1)`, in short rows and in others
SETTLE = (4, 32, 1)  # rows, numbers of a key and warps at a time, where keys are weighed one by one
SEARCH = [(16, 1, 128), (64, 1, 128), (64, 1, 128), (32, 1, 128)]  # numbers of a key, warps, programs per processor


def blocks(name: str, scores: Scores, *widths: int) -> tuple[int, int, dict[str, int]]:
    """(BLOCK_M, BLOCK_N, launch options with both); `widths`: the widths of the other tensors that a kernel loads."""
    table = SMALL if name in SMALL and not _much_shared_memory(scores.query.device) else BLOCKS
    block_m, block_n, warps, stages, registers = table[name][_kind(scores, *widths)]
    options = {"BLOCK_M": block_m, "BLOCK_N": block_n, "num_warps": warps, "num_stages": stages}
    return block_m, block_n, options | ({"maxnreg": registers} if registers else {})


def search(scores: Scores) -> tuple[int, int, int]:
    """(numbers of a key at a time, warps, programs) for the search of the rows that `top` left open."""
    step, warps, programs = SEARCH[_kind(scores)]
    return step, warps, programs * processors(scores.query.device)


def resident_programs(scores: Scores) -> int:
    """How many programs of "sums" the GPU runs at once: a multiprocessor has 65,536 registers."""
    _, _, warps, _, registers = BLOCKS["sums"][_kind(scores)]
    return 65_536 // (32 * warps * (registers or 255)) * processors(scores.query.device)


@cache
def processors(device: torch.device) -> int:
    """How many multiprocessors a GPU has; 2 in the interpreter, so that each has more than one block to do."""
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 2


@cache
def _much_shared_memory(device: torch.device) -> bool:
    """Whether a multiprocessor has 227 KiB, as compute capability 9.x and 10.x have; the interpreter has no limit."""
    return device.type != "cuda" or torch.cuda.get_device_capability(device)[0] in (9, 10)


def _kind(scores: Scores, *widths: int) -> int:
    width = max(scores.query.shape[-1], *widths) if widths else scores.query.shape[-1]
    return 3 if scores.query.dtype == torch.float32 else 0 if width <= 64 else 1 if width <= 128 else 2
