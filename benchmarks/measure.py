"""What every benchmark needs: fair timing, peak memory, the name of the machine, and a report that is kept."""

from __future__ import annotations

import argparse
import gc
import platform
import statistics
import sys
import time
import traceback
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import torch

__all__ = [
    "GPU", "Times", "arguments", "attempt", "build", "gpu", "keep_report", "machine", "overhead", "peak_extra",
    "rounds", "taken", "where",
]  # fmt: skip

GPU = torch.cuda.is_available()
T = TypeVar("T")

# The machine


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


def gpu() -> str:
    """The GPU and the versions, in one line."""
    name = torch.cuda.get_device_name()
    return f"{date.today()}, {name}, Python {platform.python_version()}, torch {torch.__version__}"


def where() -> str:
    """The GPU, or the machine without one."""
    return gpu() if GPU else machine()


def build(model: Callable[[], T]) -> T:
    """A model with random weights, made where it will run: bf16 on a GPU, float32 on a CPU."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16 if GPU else torch.float32)
    try:
        with torch.device("cuda" if GPU else "cpu"):
            return model()
    finally:
        torch.set_default_dtype(before)


# Time and memory


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


def taken(call: Callable[[Any], Any], count: int, before: Callable[[], Any] = lambda: None) -> tuple[float, float]:
    """The least milliseconds of some rounds, and the peak in GiB above what lay there before; each begins anew.

    The first call, in which kernels are compiled, is not counted. On a CPU the times are the processor's, over all
    threads, so that other work counts for little; and the peak is 0.
    """
    clock = time.perf_counter if GPU else time.process_time
    call(before())
    least, peak = float("inf"), 0.0
    for _ in range(count):
        given = None  # what the last round was given need not be there beside the next
        gc.collect()
        given, held = before(), 0
        if GPU:
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
            held = torch.cuda.memory_allocated()
        start = clock()
        call(given)
        if GPU:
            torch.cuda.synchronize()
            peak = max(peak, (torch.cuda.max_memory_allocated() - held) / 2**30)
        least = min(least, 1e3 * (clock() - start))
    return least, peak


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


# The report


def arguments(about: str | None) -> argparse.ArgumentParser:
    """A parser with what every script takes."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--report", action="store_true", help="keep what is printed in benchmarks/reports/")
    parser.add_argument("--note", default="", help="a sentence for the report: what else the machine did, say")
    return parser


def attempt(name: str, call: Callable[[], T]) -> T | str:
    """What a call gives, or the first line of its error: the other figures of a long run are worth having."""
    try:
        return call()
    except Exception as error:
        traceback.print_exc()
        print(f"{name} failed, the rest goes on.", file=sys.stderr, flush=True)
        gc.collect()
        if GPU:
            torch.cuda.empty_cache()
        return f"failed: {type(error).__name__}: {str(error).partition(chr(10))[0][:120]}"


def keep_report(name: str, text: str) -> None:
    """Write a report of this name and today's date, with the command that made it."""
    path = Path(__file__).parent / "reports" / f"{date.today()}-{name}.md"
    command = " ".join(["python", f"benchmarks/{Path(sys.argv[0]).name}", *sys.argv[1:]])
    path.write_text(f"{text.rstrip()}\n\nMade by `{command}`.\n")
