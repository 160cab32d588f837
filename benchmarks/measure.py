"""What every benchmark needs: fair timing, peak memory, and the name of the machine."""

from __future__ import annotations

import platform
import statistics
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import torch

__all__ = ["machine", "overhead", "peak_extra", "side_by_side", "spread"]


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


def side_by_side(calls: dict[str, Callable[[], Any]], rounds: int = 7) -> dict[str, float]:
    """Least seconds of each call over the rounds, the calls taken in turn.

    On a shared machine the least is what comes nearest to an idle one: a busy moment can only add.
    """
    return {name: least for name, (least, _) in spread(calls, rounds).items()}


def spread(calls: dict[str, Callable[[], Any]], rounds: int = 7) -> dict[str, tuple[float, float]]:
    """Least and median seconds of each call over the rounds, the calls taken in turn."""
    taken: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        call()
    for _ in range(rounds):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            taken[name].append(time.perf_counter() - start)
    return {name: (min(times), statistics.median(times)) for name, times in taken.items()}


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
