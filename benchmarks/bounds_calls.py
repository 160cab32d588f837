"""Where the time of a call goes on the CPU: handing it over to the GPU, and the first call of each kind.

python benchmarks/bounds_calls.py bfloat16    first calls in this process, as JSON: `bounds_gpu.py` starts it

`handed` and `first` are the sections of bounds_gpu.py that look at calls rather than at kernels.
"""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from measure import overhead
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

import regard
from regard import backends
from regard.backends import Received
from regard.backends.triton import backend, problem, reduce_launch
from regard.backends.triton.launch import normaliser

SMALL = (64, 12, 512, 64)  # batch, heads, tokens, width


class Row(NamedTuple):
    """One line of the table."""

    figure: str
    asked: str
    measured: str
    bound: str
    why: str


# Handing over


class Counted(TorchDispatchMode):
    """Which operators of torch run."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(str(func).removeprefix("aten.").split(".")[0])
        return func(*args, **(kwargs or {}))


def launches(call: Callable[[], Any], rounds: int = 100) -> list[float]:
    """Microseconds in Triton's launcher for each launch of a call, where Triton has compiled it before.

    They are timed where they happen: by itself a launch may read what another one must have written.
    """
    from triton.compiler import CompiledKernel

    getitem, taken = CompiledKernel.__getitem__, []

    def timed(self: Any, grid: tuple[int, ...]) -> Callable[..., Any]:
        def runner(*values: Any) -> None:
            began = time.perf_counter()
            getitem(self, grid)(*values)
            taken[-1].append((time.perf_counter() - began) * 1e6)

        return runner

    call()
    CompiledKernel.__getitem__ = timed
    try:
        for _ in range(rounds):
            torch.cuda.synchronize()
            taken.append([])
            call()
    finally:
        CompiledKernel.__getitem__ = getitem
    return [statistics.median(each) for each in zip(*taken, strict=True)]


def whole_launch(call: Callable[[], Any]) -> Callable[[], Any]:
    """The one launch of a call, with all that we do for it."""
    found: list[Callable[[], Any]] = []
    launch = problem.Prepared.launch

    def kept(self: Any, *args: Any, **constants: Any) -> None:
        found.append(lambda: launch(self, *args, **constants))
        launch(self, *args, **constants)

    problem.Prepared.launch = kept  # type: ignore[method-assign]
    try:
        call()
    finally:
        problem.Prepared.launch = launch  # type: ignore[method-assign]
    return found[0]


def paced(call: Callable[[], Any], repeats: int = 20, rounds: int = 25) -> float:
    """Microseconds of the CPU for a call, the GPU's queue never full: it is emptied between rounds."""

    def after_the_others() -> float:
        torch.cuda.synchronize()
        return overhead(call, repeats, 1)

    call()
    return min(after_the_others() for _ in range(rounds))


def handed() -> list[Row]:
    """Where the CPU's microseconds go: our Python, our launcher, Triton's, torch's allocations."""
    import triton

    @triton.jit  # type: ignore[untyped-decorator]
    def nothing():  # type: ignore[no-untyped-def]
        pass

    q, k, v = torch.randn(3, *SMALL, device="cuda", dtype=torch.bfloat16).unbind(0)
    A = regard.AttentionMatrix(q, k)
    A @ v
    data, lse, request = A._core.data, A._core.lse(), Received()
    norm = normaliser(lse)
    calls: dict[str, Callable[[], Any]] = {
        "`received`": A.received, "`summary`": A.summary, "`summary(top=8)`": lambda: A.summary(top=8)
    }  # fmt: skip
    for call in calls.values():
        call()
    nothing[(1,)]()
    compiled = nothing.warmup(grid=(1,))
    alone = {
        "SDPA": paced(lambda: functional.scaled_dot_product_attention(q, k, v)),
        "A @ v": paced(lambda: regard.AttentionMatrix(q, k) @ v),
        "torch.empty": paced(lambda: norm.high.new_empty(*SMALL[:3])),
        "Triton's kernel[grid](), no arguments": paced(lambda: nothing[(1,)]()),
        "compiled[grid](), no arguments": paced(lambda: compiled[(1, 1, 1)]()),
    }
    print("    alone, µs:", ", ".join(f"{name} {t:.1f}" for name, t in alone.items()))
    layers: dict[str, Callable[[], Any]] = {
        "A.received()": A.received,
        "NormalisedScores.compute": lambda: A._core.compute(request),
        "backends.compute": lambda: backends.compute(data, request, lse),
        "backend.reduce": lambda: backend.reduce(data, lse, [request]),
        "reduce_launch.columns": lambda: reduce_launch.columns(data, norm, request),
        "Prepared.launch": whole_launch(A.received),
    }
    print("    received, each within the one before, µs:", end=" ")
    print(", ".join(f"{name} {paced(call):.1f}" for name, call in layers.items()), end=", ")
    print(f"compiled[grid](…) {launches(A.received)[0]:.1f}")
    rows, empty = [], alone["torch.empty"]
    for (name, call), asked in zip(calls.items(), (60, 120, 200), strict=True):
        with Counted() as counted:
            call()
        allocated = sum("empty" in operator for operator in counted.names)
        others = [operator for operator in counted.names if "empty" not in operator and operator != "detach"]
        ours = launches(call)
        measured, bound = paced(call), sum(ours) + allocated * empty
        print(f"    {name}: one call {paced(call, 1):.0f} µs, each of 20 in a row {measured:.0f}")
        why = (
            f"Triton's launcher takes {' + '.join(f'{t:.0f}' for t in ours)} µs of it (of a kernel without arguments "
            f"{alone['compiled[grid](), no arguments']:.0f}: it reads some fifty arguments, and encodes tensor maps), "
            f"{allocated} allocations {allocated * empty:.0f}. Our Python and {len(others)} other operators of torch "
            f"({', '.join(sorted(set(others)))}) take the other {measured - bound:.0f}."
        )
        rows.append(Row(f"{name}, µs of the CPU", f"{asked} µs", f"{measured:.0f} µs", f"{bound:.0f} µs", why))
    return rows


# First calls


def first() -> list[Row]:
    """The first call of each kind in a new process with an empty cache: where Triton's seconds go, kernel by kernel."""
    rows, totals, count = [], [], 0
    for dtype in ("bfloat16", "float32"):
        with tempfile.TemporaryDirectory() as cache:
            command, there = [sys.executable, __file__, dtype], os.environ | {"TRITON_CACHE_DIR": cache}
            ran = subprocess.run(command, env=there, capture_output=True, text=True)
        if ran.returncode:
            print(f"    {ran.stderr[-1500:]}")
        *lines, (once,) = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith("[")]
        told_once = ", ".join(f"{name} {took:.2f} s" for name, took in once.items())
        print(f"    {dtype}, once: {told_once}")
        stages: dict[str, float] = {}
        for name, took, kernels, built in lines:
            for _, own in kernels:
                for stage, seconds in own.items():
                    stages[stage] = stages.get(stage, 0.0) + seconds
            stages["launchers in C"] = stages.get("launchers in C", 0.0) + sum(built)
            told = "; ".join(
                f"{kernel} " + ", ".join(f"{s} {t:.2f}" for s, t in own.items()) for kernel, own in kernels
            )
            print(f"    {name} {took:.2f} s: {told}; in C {', '.join(f'{t:.2f}' for t in built)}", flush=True)
        number = sum(len(kernels) for _, _, kernels, _ in lines)
        slowest, longest = max(((name, took) for name, took, *_ in lines), key=lambda pair: pair[1])
        inside = sum(stages.values())
        totals.append(sum(took for _, took, *_ in lines) + sum(once.values()))
        count += number
        why = (
            f"{number} kernels, in Triton's compiler {inside:.1f} s if one came after the other: "
            f"{', '.join(f'{stage} {t:.1f}' for stage, t in stages.items() if t > 0.05)} (cubin: ptxas). Before the "
            f"first: {told_once}. First calls: {', '.join(f'{name} {took:.2f}' for name, took, *_ in lines)}."
        )
        asked, bound = "1 s", f"{inside / max(number, 1):.2f} s a kernel"
        rows.append(Row(f"the slowest first call, {dtype}", asked, f"{longest:.2f} s (`{slowest}`)", bound, why))
    total = " + ".join(f"{t:.1f}" for t in totals)
    why = "The kernels of the rows above: each is compiled for its dtype, its mask and what is asked."
    return [*rows, Row("all first calls, bf16 and float32", "6 s", f"{total} s", f"{count} kernels", why)]


def first_calls(dtype: torch.dtype) -> None:
    """Print what each first call takes here: its name, seconds, Triton's seconds by kernel and stage, C compilers."""
    q, k, v = torch.randn(3, 1, 8, 2048, 64, device="cuda", dtype=dtype).unbind(0)
    torch.cuda.synchronize()

    def taken(call: Callable[[], Any]) -> float:
        began = time.perf_counter()
        call()
        torch.cuda.synchronize()
        return time.perf_counter() - began

    def load() -> None:
        from regard.backends.triton import bin_kernels, reduction_kernels, top_kernels  # noqa: F401

    def identify() -> None:
        from triton.runtime.cache import triton_key

        triton_key()

    once = {"import of Triton and of the kernels": taken(load)}
    with contextlib.suppress(ImportError):  # another version of Triton's
        once["Triton's hash of its own library"] = taken(identify)
    kernels, built = _listening()
    A = regard.AttentionMatrix(q, k, mask=regard.causal())
    calls: dict[str, Callable[[], Any]] = {
        "A @ v": lambda: A @ v, "received": A.received, "entropy": A.entropy, "top(8)": lambda: A.top(8),
        "pool(256, 256)": lambda: A.pool(256, 256), "pool(60, 60)": lambda: A.pool(60, 60), "summary": A.summary,
        "summary(pool=256, top=8)": lambda: A.summary(pool=256, top=8), "A.mT @ x": lambda: A.mT @ q,
    }  # fmt: skip
    for name, call in calls.items():
        had = len(kernels), len(built)
        seconds = taken(call)
        print(json.dumps([name, seconds, kernels[had[0] :], built[had[1] :]]), flush=True)
    print(json.dumps([once]), flush=True)


def _listening() -> tuple[list[Any], list[float]]:
    """What Triton compiles from now on: (kernel, seconds of each stage), and seconds of each C compiler that it ran."""
    from triton import knobs
    from triton.backends.nvidia import driver

    kernels: list[Any] = []
    built: list[float] = []

    def listen(*, src: Any, metadata: Any, metadata_group: Any, times: Any, cache_hit: bool) -> None:
        stages = {name: microseconds / 1e6 for name, microseconds in times.lowering_stages}
        kernels.append((src.name, {"Python": times.ir_initialization / 1e6} | stages))

    knobs.compilation.listener = listen
    build = getattr(driver, "compile_module_from_src", None)

    def timed_build(*args: Any, **options: Any) -> Any:
        began = time.perf_counter()
        try:
            return build(*args, **options)  # type: ignore[misc]
        finally:
            built.append(time.perf_counter() - began)

    if build is not None:
        driver.compile_module_from_src = timed_build
    return kernels, built


if __name__ == "__main__":
    first_calls(getattr(torch, sys.argv[1]))
