"""How much memory is left, so that what cannot fit is refused with its size and not with a crash."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import torch

from regard.errors import TooLargeError

__all__ = ["available", "ensure_room"]


def available(device: torch.device) -> int | None:
    """Bytes that can still be allocated there; None where nobody says."""
    if device.type == "cuda":  # what torch keeps for later is free to us
        kept = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return torch.cuda.mem_get_info(device)[0] + kept
    if device.type != "cpu":
        return None
    found = []
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        found += [int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")]
    except OSError:
        pass
    try:  # a container's own limit
        root = Path("/sys/fs/cgroup")
        found.append(int((root / "memory.max").read_text()) - int((root / "memory.current").read_text()))
    except (OSError, ValueError):
        pass
    return min(found, default=None)


@cache
def _total(device: torch.device) -> int:
    return torch.cuda.get_device_properties(device).total_memory


def ensure_room(shape: Sequence[int], bytes_each: int, device: torch.device, what: Callable[[], str]) -> None:
    """Refuse what would not fit; small things are not asked about, since asking a GPU takes it time."""
    needed = math.prod(shape) * bytes_each
    if needed < 2**28 or (device.type == "cuda" and needed < _total(device) // 64):
        return
    free = available(device)
    if free is not None and needed > free:
        raise TooLargeError(
            f"{what()}: needs about {needed / 2**30:,.1f} GiB, {free / 2**30:,.1f} GiB are free on {device}. "
            "Ask for less: a slice A[…, rows, :], A.part[…], A.top(k), A.received() or A.pool(256, 256)."
        )
