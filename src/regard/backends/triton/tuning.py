"""How much of a matrix a program of a GPU kernel takes at a time, and how many there are: chosen on an H200."""

from __future__ import annotations

from functools import cache

import torch

from regard.scores import Scores

__all__ = ["ALIKE", "BLOCKS", "CACHE", "MARKS", "ROOM", "SEARCH", "SETTLE", "SHORT", "SMALL"]
__all__ += ["crowd", "of", "processors", "searching"]

# (rows, columns, warps, stages, at most so many registers or 0 for any) for halves of width up to 64, 128, 256; and for
# float32
BLOCKS: dict[str, list[tuple[int, int, int, int, int]]] = {
    "forward": [(64, 64, 4, 3, 0), (64, 64, 4, 3, 0), (64, 32, 4, 2, 0), (32, 32, 4, 2, 0)],
    "rows": [(64, 64, 4, 3, 0), (64, 64, 4, 3, 0), (64, 64, 4, 2, 0), (32, 32, 4, 2, 0)],
    "sums": [(64, 64, 4, 3, 128), (64, 64, 4, 2, 128), (64, 64, 4, 2, 255), (32, 32, 4, 2, 255)],
    "best": [(64, 128, 4, 3, 168), (64, 128, 4, 3, 0), (64, 64, 4, 2, 0), (32, 32, 4, 2, 0)],
    "short": [(64, 64, 4, 3, 128), (64, 64, 4, 3, 0), (64, 64, 4, 2, 0), (32, 32, 4, 2, 0)],  # `best` of short rows
    "columns": [(128, 64, 4, 2, 0), (64, 128, 4, 3, 0), (64, 64, 4, 2, 0), (32, 32, 4, 2, 0)],
    "pooled": [(128, 64, 4, 2, 0), (64, 64, 4, 3, 0), (64, 64, 4, 2, 0), (32, 32, 4, 2, 0)],  # `columns` with bins
    "reverse": [(64, 64, 4, 3, 0), (128, 64, 4, 3, 0), (64, 64, 4, 2, 0), (32, 32, 4, 2, 0)],  # `columns` times x
    "back_query": [(64, 64, 4, 3, 0), (128, 64, 8, 3, 0), (128, 32, 8, 2, 0), (16, 16, 4, 1, 0)],
    "back_key": [(64, 64, 4, 3, 168), (64, 64, 4, 2, 0), (32, 64, 8, 2, 0), (16, 16, 4, 1, 0)],
}
# The same where a processor has less shared memory than an H200's: blocks that need it are smaller there.
SMALL: dict[str, list[tuple[int, int, int, int, int]]] = {
    "back_query": [(64, 64, 4, 2, 0), (64, 64, 8, 2, 0), (32, 32, 4, 1, 0), (16, 16, 4, 1, 0)],
    "back_key": [(64, 64, 4, 2, 0), (32, 64, 8, 2, 0), (32, 32, 4, 1, 0), (16, 16, 4, 1, 0)],
}
CACHE = 2**24  # bytes of heads that are walked side by side
ROOM = 2**26  # bytes of what is put by on the way
MARKS = 6, 8  # bits of a weight that tell its tile: at least and, but for the very longest rows, at most
SHORT = 1024  # keys of a row that is short: marks of single keys leave its weights good enough for halves
ALIKE = 1, 4  # keys of a tile that share one maximum, in short rows and in others
SETTLE = (4, 32, 1)  # rows, numbers of a key and warps at a time, where keys are weighed one by one
SEARCH = [(16, 1, 128), (64, 1, 128), (64, 1, 128), (32, 1, 128)]  # numbers of a key, warps, programs to a processor


def of(name: str, scores: Scores, *others: int) -> tuple[int, int, dict[str, int]]:
    """(rows, columns, options of the launch) for a kernel; `others` are the widths of what else it loads."""
    kind = _kind(scores, *others)
    table = BLOCKS if name not in SMALL or _roomy(scores.query.device) else SMALL
    rows, columns, warps, stages, registers = table[name][kind]
    options = {"num_warps": warps, "num_stages": stages}
    return rows, columns, options | ({"maxnreg": registers} if registers else {})


def searching(scores: Scores) -> tuple[int, int, int]:
    """(numbers of a key at a time, warps, programs) for the search of the rows that `top` left open."""
    step, warps, programs = SEARCH[_kind(scores)]
    return step, warps, programs * processors(scores.query.device)


def crowd(scores: Scores) -> int:
    """How many programs of "sums" the GPU works on at once: a processor has 65,536 registers."""
    _, _, warps, _, registers = BLOCKS["sums"][_kind(scores)]
    return 65_536 // (32 * warps * (registers or 255)) * processors(scores.query.device)


@cache
def processors(device: torch.device) -> int:
    """How many processors a GPU has; the interpreter is given few, so that each has more than one block to do."""
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 2


@cache
def _roomy(device: torch.device) -> bool:
    """Whether a processor has 227 KiB of shared memory, as those of 9.x and 10.x have; the interpreter has no limit."""
    return device.type != "cuda" or torch.cuda.get_device_capability(device)[0] in (9, 10)


def _kind(scores: Scores, *others: int) -> int:
    width = max(scores.query.shape[-1], *others) if others else scores.query.shape[-1]
    return 3 if scores.query.dtype == torch.float32 else 0 if width <= 64 else 1 if width <= 128 else 2
