"""What every benchmark needs: timing, peak memory, and the one writer of reports.

A script lists its sections and calls `run`. `python benchmarks/NAME.py` prints them; with `--report` they are written
to reports/NAME-cpu.md or reports/NAME-gpu.md. Nobody edits that file: its last line has a checksum of what is above.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import hashlib
import json
import os
import platform
import shlex
import statistics
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import torch

GPU = torch.cuda.is_available()
ROOT = Path(__file__).parents[1]
REPORTS = ROOT / "benchmarks" / "reports"
T = TypeVar("T")
_load_before = os.getloadavg()[0]

# Time and memory


class Times(NamedTuple):
    """Of one call over several rounds."""

    median: float  # seconds
    least: float
    first: float = 0.0  # the first call, in which kernels are compiled; it counts in no other number
    peak: float = 0.0  # GiB above what was allocated before, on a GPU

    def ms(self) -> str:
        """The median in milliseconds, in brackets the least."""
        digits = 1 if self.median >= 0.01 else 3
        return f"{1e3 * self.median:,.{digits}f} ms ({1e3 * self.least:,.{digits}f})"


def wait() -> None:
    if GPU:
        torch.cuda.synchronize()


def rounds(calls: dict[str, Callable[[], Any]], count: int = 7, warm: int = 1) -> dict[str, Times]:
    """The times of each call, the calls taken in turn, each with its own peak; `warm` rounds before count in none."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    peaks = dict.fromkeys(calls, 0.0)
    for _ in range(warm + count):
        for name, call in calls.items():
            wait()
            if GPU:
                gc.collect()
                torch.cuda.reset_peak_memory_stats()
                held = torch.cuda.memory_allocated()
            start = time.perf_counter()
            result = call()
            wait()
            times[name].append(time.perf_counter() - start)
            if GPU:
                peaks[name] = max(peaks[name], (torch.cuda.max_memory_allocated() - held) / 2**30)
            del result
    return {n: Times(statistics.median(t[warm:]), min(t[warm:]), t[0], peaks[n]) for n, t in times.items()}


def kernels(call: Callable[[], Any], count: int = 15) -> Times:
    """The times of one call by CUDA events, by itself: calls taken in turn would share the GPU's power limit.

    The cache is swept in between, for so long that the CPU has the next call ready.
    """
    sweeper = torch.empty(2**32, dtype=torch.int8, device="cuda")
    start_first = time.perf_counter()
    call()
    wait()
    first, events = time.perf_counter() - start_first, []
    for _ in range(count):
        sweeper.zero_()
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        call()
        end.record()
        events.append((start, end))
    wait()
    seconds = [start.elapsed_time(end) / 1e3 for start, end in events]
    return Times(statistics.median(seconds), min(seconds), first)


def each(calls: dict[str, Callable[[], Any]], count: int) -> dict[str, Times]:
    """The times of calls that each launch a few kernels: by events on a GPU, in turn on a CPU."""
    return {name: kernels(call, count) for name, call in calls.items()} if GPU else rounds(calls, count)


def overhead(call: Callable[[], Any], repeats: int = 50) -> float:
    """Microseconds of the CPU for one short call: the median over rounds of a mean, the GPU's queue emptied between."""
    means = []
    for _ in range(16):
        wait()
        start = time.perf_counter()
        for _ in range(repeats):
            call()
        means.append((time.perf_counter() - start) / repeats * 1e6)
    return statistics.median(means[1:])


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


def in_process(*arguments: str, limit: float | None = None, **environment: str) -> Any:
    """What this script prints last, as JSON, when it runs with these arguments in a process of its own."""
    command = [sys.executable, sys.argv[0], *arguments]
    printed = subprocess.run(command, env=os.environ | environment, stdout=subprocess.PIPE, text=True, timeout=limit)
    if printed.returncode:
        raise RuntimeError(f"{shlex.join(command[1:])} ended with {printed.returncode}: {printed.stdout[-200:]}")
    return json.loads(printed.stdout.splitlines()[-1])


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
        if isinstance(error, torch.OutOfMemoryError):
            return "out of memory"
        return f"failed: {type(error).__name__}: {str(error).partition(chr(10))[0][:120]}"


def build(model: Callable[[], T]) -> T:
    """A model with random weights, made where it will run: bf16 on a GPU, float32 on a CPU."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16 if GPU else torch.float32)
    try:
        with torch.device("cuda" if GPU else "cpu"):
            return model()
    finally:
        torch.set_default_dtype(before)


def llama(width: int, layers: int, *, generates: bool = False) -> Any:
    """A Llama with random weights, of heads as wide as 128, four of them for each head of keys."""
    import transformers

    heads = max(width // 128, 4)
    config = transformers.LlamaConfig(
        hidden_size=width, intermediate_size=int(3.5 * width), num_hidden_layers=layers, num_attention_heads=heads,
        num_key_value_heads=max(heads // 4, 1), vocab_size=32_000, max_position_embeddings=2**18, rope_theta=500_000.0,
    )  # fmt: skip
    kind = transformers.LlamaForCausalLM if generates else transformers.LlamaModel
    return build(lambda: kind(config).eval())


@contextlib.contextmanager
def eager(model: Any) -> Iterator[None]:
    """Inside, the model computes eager attention."""
    before = model.config._attn_implementation
    model.set_attn_implementation("eager")
    try:
        yield
    finally:
        model.set_attn_implementation(before)


# Tables


def table(columns: list[str], rows: list[list[str]]) -> list[str]:
    """Lines of Markdown; a row that is too short is filled up."""
    full = [[*row, *[""] * (len(columns) - len(row))] for row in rows]
    return [f"| {' | '.join(cells)} |" for cells in (columns, ["---"] * len(columns), *full)]


def ratios(times: list[Times], base: Times) -> list[str]:
    """How many times as long as the base each takes, by the medians."""
    return [f"{one.median / base.median:.2f} ×" for one in times]


def ways(title: str, calls: dict[str, Callable[[], Any]], count: int) -> list[str]:
    """A table of several ways to do a thing, taken in turn, beside the first of them; a failing way says why."""
    failed = {name: found for name, call in calls.items() if isinstance(found := attempt(name, _tried(call)), str)}
    found = rounds({name: call for name, call in calls.items() if name not in failed}, count, warm=0)
    base = next(iter(found.values()))
    rows = []
    for name in calls:
        if name in failed:
            rows.append([name, failed[name]])
            continue
        one = found[name]
        peak = (
            [f"{one.peak:,.2f} GiB", f"{one.peak / base.peak:.2f} ×"] if GPU else [f"{peak_extra(calls[name]):,.0f} MB"]
        )
        rows.append([name, one.ms(), *ratios([one], base), *peak])
    memory = ["peak above the model", "of the first"] if GPU else ["extra memory at its peak"]
    return table([title, "median (least)", "of the first", *memory], rows)


def _tried(call: Callable[[], Any]) -> Callable[[], None]:
    def run() -> None:
        call()

    return run


# The report


def arguments(about: str | None) -> argparse.ArgumentParser:
    """A parser with what every script takes."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--report", nargs="?", type=Path, const=REPORTS, metavar="FOLDER", help="write the report there"
    )
    parser.add_argument("--only", nargs="+", metavar="SECTION", help="print these sections; for no report")
    return parser


def run(
    title: str, how: str, sections: dict[str, Callable[[], list[str]]], measures: str, options: argparse.Namespace,
    *, name: str | None = None,
) -> None:  # fmt: skip
    """Run the sections one by one and print them; keep them if that is asked, after each: a run may be stopped.

    Args:
        title: Of the report.
        how: What all sections have in common, in a sentence or two.
        sections: By their headings, each a function that gives lines of Markdown.
        measures: The folders of src/regard whose speed the report shows, separated by spaces.
        options: As `arguments` gives them.
        name: Of the report; by default that of the script, and the device.
    """
    chosen = sections if not options.only else {k: v for k, v in sections.items() if k.split()[0] in options.only}
    if options.only and options.report:
        raise SystemExit("--only prints some sections; a report has all of them.")
    name = name or f"{Path(sys.argv[0]).stem.replace('_', '-')}-{'gpu' if GPU else 'cpu'}"
    paths = [f"benchmarks/{Path(sys.argv[0]).name}", *(f"src/regard/{room}" for room in measures.split())]
    if missing := [path for path in paths if not (ROOT / path).exists()]:
        raise SystemExit(f"a report measures files of this repository. {', '.join(missing)} does not exist.")
    others, failed = _others(), False
    found = {heading: ["*Not reached in this run.*"] for heading in chosen}
    for heading, section in chosen.items():
        print(f"{name}: {heading} …", file=sys.stderr, flush=True)
        start = time.perf_counter()
        lines = attempt(heading, section)
        failed = failed or isinstance(lines, str)
        found[heading] = [f"*{lines}*"] if isinstance(lines, str) else lines
        print("\n".join(["", f"## {heading}", "", *found[heading]]), flush=True)
        print(f"    {time.perf_counter() - start:.0f} s", file=sys.stderr, flush=True)
        if options.report:
            text = f"# {title}\n\n{_head(paths, others)}\n\n{how}\n"
            text += "".join(f"\n## {heading}\n\n" + "\n".join(lines) + "\n" for heading, lines in found.items())
            options.report.mkdir(parents=True, exist_ok=True)
            (options.report / f"{name}.md").write_text(signed(f"{text}\nMade by `python {paths[0]} --report`"))
    sys.exit(failed)


def signed(text: str) -> str:
    """A report with the checksum of its text, which a test compares."""
    return f"{text}, sha256 {hashlib.sha256(text.encode()).hexdigest()[:10]}.\n"


def _head(paths: list[str], others: str) -> str:
    """When, where and on what the report was made, in a paragraph."""
    cpu = "unknown CPU"
    info = Path("/proc/cpuinfo")
    if info.exists():
        cpu = next((li.split(":")[1].strip() for li in info.read_text().splitlines() if "model name" in li), cpu)
    device = f"{torch.cuda.get_device_name()}, {cpu}" if GPU else cpu
    packages = []
    for package in ("torch", "triton", "transformers", "ctranslate2"):
        with contextlib.suppress(metadata.PackageNotFoundError):
            packages.append(f"{package} {metadata.version(package)}")
    return (
        f"{datetime.now(UTC):%Y-%m-%d}, {device}, {os.cpu_count()} cores, {torch.get_num_threads()} threads, "
        f"{platform.system()}, Python {platform.python_version()}, {', '.join(packages)}. Commit {commit(paths)}. "
        f"Load average {_load_before:.1f} before, {os.getloadavg()[0]:.1f} after; {others}. "
        f"Measures {', '.join(f'`{path}`' for path in paths)}."
    )


def commit(paths: list[str]) -> str:
    """HEAD, when the newest commit of its history was written, and whether these paths have changes beside it.

    Where there is no repository, REGARD_COMMIT says it: what `python benchmarks/all.py --commit` prints in one.
    """
    if "REGARD_COMMIT" in os.environ:
        return os.environ["REGARD_COMMIT"]

    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True).stdout

    try:
        written = max(int(line) for line in git("log", "--format=%at").split())
        state = "with uncommitted changes" if git("status", "--porcelain", "--", *paths).strip() else "clean"
        head = git("rev-parse", "--short=12", "HEAD").strip()
        return f"{head} of {datetime.fromtimestamp(written, UTC).isoformat()}, {state}"
    except (OSError, subprocess.CalledProcessError):
        raise SystemExit("A report needs the commit: set REGARD_COMMIT where there is no git repository.") from None


def _others() -> str:
    """How many other processes use the machine now."""
    before = _ticks()
    time.sleep(1)
    ticks = 0.05 * os.sysconf("SC_CLK_TCK")
    busy = sum(used - before.get(process, used) > ticks for process, used in _ticks().items())
    text = f"{busy} other processes that used more than 5 % of a core before it began"
    if GPU:
        asked = ["nvidia-smi", "--query-compute-apps=pid", "--format=csv,noheader"]
        with contextlib.suppress(OSError):
            listed = subprocess.run(asked, capture_output=True, text=True).stdout.split()
            text += f", {len(set(listed) - {str(os.getpid())})} on the GPU"
    return text


def _ticks() -> dict[str, int]:
    """Clock ticks that each other process has used."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = path.read_text().rpartition(")")[2].split()
            found[path.parent.name] = int(fields[11]) + int(fields[12])
    found.pop(str(os.getpid()), None)
    return found
