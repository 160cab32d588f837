"""What every benchmark needs: fair timing, peak memory, and the name of the machine."""

from __future__ import annotations

import platform
import statistics
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

import torch

__all__ = ["Times", "gpu", "machine", "overhead", "peak_extra", "rounds"]


def machine() -> str:
    """Hardware and versions, in one line."""
    model = "unknown CPU"
    info = Path("/proc/cpuinfo")
    if info.exists():
        model = next((li.split(":")[1].strip() for li in info.read_text().splitlines() if "model name" in li), model)
    return (
        f"{date.today()}, {model}, {torch.get_num_threads()} threads, {platform.system()}, "
        f"Python {platform.python_version()}, torch {torch.__version__}"
    )


class Times(NamedTuple):
    """Seconds of one call over several rounds."""

    least: float  # on a shared machine it comes nearest to an idle one: a busy moment can only add
    median: float


def rounds(calls: dict[str, Callable[[], Any]], count: int = 7) -> dict[str, Times]:
    """The times of each call, the calls taken in turn."""
    taken: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        call()
    for _ in range(count):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            taken[name].append(time.perf_counter() - start)
    return {name: Times(min(times), statistics.median(times)) for name, times in taken.items()}


def overhead(call: Callable[[], Any], repeats: int = 500, rounds: int = 7) -> float:
    """Microseconds of one short call: the least over rounds of the mean over repeats."""
    means = []
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(repeats):
            call()
        means.append((time.perf_counter() - start) / repeats * 1e6)
    return min(means)


def peak_extra(call: Callable[[], Any]) -> float:
    """MB by which the process grew at most during the call (Linux: the kernel's own high-water mark)."""
    Path("/proc/self/clear_refs").write_text("5")  # the high-water mark starts anew
    before = _status("VmRSS")
    result = call()
    peak = _status("VmHWM")
    del result
    return (peak - before) / 1e6


def _status(field: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))


def gpu() -> str:
    """The GPU and the versions, in one line."""
    name = torch.cuda.get_device_name()
    return f"{date.today()}, {name}, Python {platform.python_version()}, torch {torch.__version__}"
