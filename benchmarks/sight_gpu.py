"""Seeing attention on one CUDA device, timed beside `scaled_dot_product_attention`; errors_gpu.py checks it.

python benchmarks/sight_gpu.py             time, print
python benchmarks/sight_gpu.py --report    and keep it in benchmarks/reports/
python benchmarks/sight_gpu.py --tune      time other block sizes of the kernels
python benchmarks/sight_gpu.py --once 2    only call everything once on the second shape: for a profiler to watch

Peers: plain softmax with stored weights and, where the package is installed, flash-colreduce's column sums.
"""

from __future__ import annotations

import argparse
import math
import statistics
import subprocess
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import torch
from measure import gpu, overhead
from rich.console import Console
from torch import Tensor
from torch.nn import functional

import regard
from regard.backends.contract import Attend, Entropy, Pool, Received, Top
from regard.backends.triton import backend, launch, reduce_launch, tuning

progress = Console(stderr=True)
SHAPES = [  # batch, heads, key heads, tokens, width, causal
    (1, 32, 8, 32_768, 128, True),
    (1, 32, 8, 8_192, 128, True),
    (1, 32, 32, 16_384, 64, False),
    (64, 12, 12, 512, 64, False),
]
TRAINED = [*SHAPES, (1, 16, 16, 4_096, 256, True)]  # in bf16
SINGLE = [(1, 8, 8, 4_096, 64, False), (1, 8, 8, 4_096, 128, True), (64, 12, 12, 512, 64, False)]  # in float32
GOALS = [
    (1.02, 0.50, 0.60, 1.0, 1.5),
    (1.05, 0.60, 0.75, 1.2, 1.8),
    (1.02, 0.65, 0.75, 1.2, 1.8),
    (1.1, 1.0, 1.0, 2, 3),
]


def timed(call: Callable[[], Any], rounds: int = 15) -> float:
    """Median milliseconds of the GPU by CUDA events.

    In between the cache is swept, for so long that the CPU has the next call ready: what handing over takes the CPU is
    told by itself.
    """
    sweeper = torch.empty(2**32, dtype=torch.int8, device="cuda")
    call()
    events = []
    for _ in range(rounds):
        sweeper.zero_()
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        call()
        end.record()
        events.append((start, end))
    torch.cuda.synchronize()
    return statistics.median(start.elapsed_time(end) for start, end in events)


def made(batch: int, heads: int, key_heads: int, tokens: int, width: int, dtype: torch.dtype = torch.bfloat16) -> Any:
    def normal(count: int) -> Tensor:
        return torch.randn(batch, count, tokens, width, device="cuda", dtype=dtype)

    return normal(heads), normal(key_heads), normal(key_heads)


def named(shape: tuple[Any, ...]) -> str:
    batch, heads, key_heads, tokens, width, causal = shape
    shared = f"{heads}/{key_heads}" if key_heads != heads else f"{heads}"
    return f"{batch} × {shared} heads × {tokens:,} × {width} {'causal' if causal else 'full'}"


def speed(shape: tuple[Any, ...]) -> dict[str, float]:
    """Milliseconds of SDPA, of ours, and of the peers."""
    *sizes, causal = shape
    q, k, v = made(*sizes)
    grouped = q.shape[1] != k.shape[1]
    A = regard.AttentionMatrix(q, k, mask=regard.causal() if causal else None)

    def fresh() -> regard.AttentionMatrix:
        return regard.AttentionMatrix(q, k, mask=regard.causal() if causal else None)

    with torch.no_grad():
        taken = {
            "SDPA": timed(
                lambda: functional.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=grouped)
            ),
            "A @ v": timed(lambda: fresh() @ v),
        }
        A @ v
        taken["received"] = timed(A.received)
        taken["most"] = timed(lambda: walked(A))
        taken["pool"] = timed(lambda: A.summary(pool=256))
        taken["top"] = timed(lambda: A.summary(pool=256, top=8))
        taken["entropy alone"] = timed(A.entropy)
        taken["top(1) alone"] = timed(lambda: A.top(1))
        taken["summary(top=1)"] = timed(lambda: A.summary(top=1))
        taken["logsumexp, cold"] = timed(lambda: fresh().logsumexp)
        taken["A.mT @ x"] = timed(lambda: A.mT @ q)
        try:
            from flash_colreduce import flash_colreduce

            every = k.repeat_interleave(q.shape[1] // k.shape[1], 1)
            taken["flash-colreduce"] = timed(lambda: flash_colreduce(q, every, reduction="sum", is_causal=causal), 5)
        except ImportError:
            pass
        if sizes[3] <= 16_384 and not causal:

            def plain() -> Tensor:
                weights = torch.softmax(q @ k.mT * q.shape[-1] ** -0.5, -1)
                return weights @ v + weights.sum((-2, -1), keepdim=True)

            taken["plain softmax, weights stored"] = timed(plain, 3)
    return taken


def trained(shape: tuple[Any, ...], dtype: torch.dtype) -> str:
    """A line: forward alone, and with the gradients of query, key and value."""
    *sizes, causal = shape
    leaves = [tensor.requires_grad_() for tensor in made(*sizes, dtype=dtype)]
    q, k, v = leaves
    pull, grouped = torch.randn_like(q), q.shape[1] != k.shape[1]

    def theirs() -> Tensor:
        return functional.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=grouped)

    def ours() -> Tensor:
        return regard.AttentionMatrix(q, k, mask=regard.causal() if causal else None) @ v

    with torch.no_grad():
        one, other = timed(theirs, 7), timed(ours, 7)
    both = [timed(lambda f=f: torch.autograd.grad(f(), leaves, pull), 7) for f in (theirs, ours)]  # type: ignore[misc]
    name = f"{str(dtype).removeprefix('torch.')}, {named(shape)}"
    return f"| {name} | {one:.2f} ms | {other / one:.2f} × | {both[0]:.2f} ms | {both[1] / both[0]:.2f} × |"


def walked(A: regard.AttentionMatrix) -> None:
    """Entropy, largest weight and its key of each row in one pass, as in `summary(top=1)`."""
    backend.reduce(A._scores, A._known(), [Top(1), Entropy()])


def handed() -> str:
    """Microseconds that the CPU takes to hand a call over to the GPU."""
    q, k, v = made(2, 2, 2, 512, 64)
    A = regard.AttentionMatrix(q, k)
    with torch.no_grad():
        A @ v
        calls: dict[str, Callable[[], Any]] = {
            "SDPA": lambda: functional.scaled_dot_product_attention(q, k, v),
            "A @ v": lambda: regard.AttentionMatrix(q, k) @ v,
            "received": A.received,
            "entropy": A.entropy,
            "top(1)": lambda: A.top(1),
            "summary(pool=256)": lambda: A.summary(pool=256),
            "summary(pool=256, top=8)": lambda: A.summary(pool=256, top=8),
        }
        parts = []
        for name, call in calls.items():
            call()
            torch.cuda.synchronize()
            parts.append(f"{name} {overhead(call, 20, 5):,.0f}")
    return f"Microseconds of the CPU to hand a call over, which small problems wait for: {', '.join(parts)}."


def once(shape: tuple[Any, ...]) -> None:
    """Everything that is timed, called once."""
    *sizes, causal = shape
    q, k, v = made(*sizes)
    A = regard.AttentionMatrix(q, k, mask=regard.causal() if causal else None)
    with torch.no_grad():
        A @ v
        A.received()
        A.entropy()
        walked(A)
        A.summary(pool=256)
        A.summary(pool=256, top=8)
    torch.cuda.synchronize()


def floors(shape: tuple[Any, ...], base: float) -> str:
    """What one walk takes at least, at the highest clock, as multiples of SDPA: each pipe by itself.

    A Hopper multiprocessor does 4,096 bf16 operations, 16 exponentials and 64 comparisons a clock. For two keys `top`
    compares seven times: the two, their mark, first, second, and the greatest of the others; in short rows, where each
    has its own mark, ten times.
    """
    batch, heads, _, tokens, width, causal = shape
    asked = ["nvidia-smi", "--query-gpu=clocks.max.sm", "--format=csv,noheader,nounits"]
    megahertz = float(subprocess.run(asked, capture_output=True, text=True, check=True).stdout.split()[0])
    clocks = base * 1e3 * megahertz * torch.cuda.get_device_properties(0).multi_processor_count
    pairs = batch * heads * tokens**2 / (2 if causal else 1)
    compared = 5 if tokens <= tuning.SHORT_ROW else 3.5
    parts = {"products": 2 * width / 4096, "exponentials": 1 / 16, "comparisons of top": compared / 64}
    shares = ", ".join(f"{name} {pairs * c / clocks:.2f} ×" for name, c in parts.items())
    own = pairs * (2 * parts["products"] + parts["exponentials"]) / clocks
    return f"- {named(shape)}: {shares}; two products and the exponentials of SDPA itself, all in turn, {own:.2f} ×."


def drawn(shape: tuple[Any, ...], rounds: int = 60) -> list[str]:
    """What the GPU draws, and at which clock it runs, while it does one thing over and over, as `timed` does."""
    *sizes, causal = shape
    q, k, v = made(*sizes)
    A = regard.AttentionMatrix(q, k, mask=regard.causal() if causal else None)
    calls: dict[str, Callable[[], Any]] = {
        "SDPA": lambda: functional.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=True),
        "received": A.received,
        "entropy": A.entropy,
    }
    fields = "clocks.sm,clocks.max.sm,power.draw.instant,power.limit,clocks_event_reasons.sw_power_cap"
    asked = ["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader,nounits", "--loop-ms=20"]
    lines = []
    with torch.no_grad():
        A @ v
        for name, call in calls.items():
            with subprocess.Popen(asked, stdout=subprocess.PIPE, text=True) as watcher:
                assert watcher.stdout is not None
                watcher.stdout.readline()  # it has begun
                taken = timed(call, rounds)
                watcher.terminate()
                samples = [line.split(", ") for line in watcher.stdout if line.count(", ") == 4]
            clock, most, watts, limit = (statistics.median(float(sample[i]) for sample in samples) for i in range(4))
            capped = sum(sample[4].strip() == "Active" for sample in samples) / len(samples)
            lines.append(
                f"- {name}: {taken:.2f} ms at {clock:,.0f} of {most:,.0f} MHz, {watts:.0f} W of {limit:.0f} W; held "
                f"back by that limit in {capped:.0%} of {len(samples)} samples. {taken * watts / 1e3:.1f} J a call."
            )
    return lines


def long(tokens: int = 2**20) -> list[str]:
    """A million tokens, one group of heads."""
    q, k, v = made(1, 4, 1, tokens, 128)
    A, before = regard.AttentionMatrix(q, k, mask=regard.causal()), torch.cuda.memory_allocated()
    held = 2 * (2 * q.numel() + 2 * k.numel())
    stored = 4 * tokens**2 * 2 / 2**40
    lines = [f"q, k, v and the output take {held / 2**20:,.0f} MiB; the weights would take {stored:.1f} TiB.", ""]
    lines += ["| | time | peak beyond q, k, v and the result | of q, k, v, output |", "| --- " * 4 + "|"]
    calls = {
        "A @ v": lambda: A @ v,
        "received": A.received,
        "top(8)": lambda: A.top(8),
        "pool(1024, 1024)": lambda: A.pool(1024, 1024),
    }
    for name, call in calls.items():
        with torch.no_grad():
            call()  # compiles what is not compiled yet
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        with torch.no_grad():
            result = call()
        end.record()
        torch.cuda.synchronize()
        results = result if isinstance(result, tuple) else (result,)
        own = sum(t.numel() * t.element_size() for t in results)
        extra = torch.cuda.max_memory_allocated() - before - own
        lines.append(
            f"| {name} | {start.elapsed_time(end):,.0f} ms | {extra / 2**20:,.0f} MiB | {100 * extra / held:.1f} % |"
        )
        del result, results
    return lines


CHOICES = {  # rows, columns, warps, stages, registers
    "columns": [
        (64, 128, 4, 3, 168), (64, 128, 4, 2, 168), (64, 128, 4, 3, 0), (128, 64, 4, 3, 0), (128, 64, 4, 3, 168),
        (64, 64, 4, 3, 128), (64, 64, 4, 3, 0), (128, 64, 4, 2, 0),
    ],
    "columns_pool": [(64, 128, 4, 3, 168), (64, 64, 4, 3, 0), (64, 64, 4, 3, 128), (128, 64, 4, 2, 0)],
    "sums": [
        (64, 64, 4, 2, 128), (64, 64, 4, 3, 128), (64, 128, 4, 2, 168), (64, 128, 8, 2, 128), (64, 128, 8, 3, 96),
    ],
    "rows": [(128, 64, 4, 3, 0), (128, 64, 4, 3, 168), (64, 64, 4, 3, 0), (64, 128, 4, 3, 0)],
    "top": [
        (64, 128, 4, 3, 0), (64, 128, 4, 2, 168), (64, 128, 8, 3, 0), (64, 128, 8, 2, 128), (64, 128, 8, 3, 128),
    ],
    "top_short": [(64, 64, 4, 3, 128), (64, 64, 4, 2, 128), (64, 64, 4, 3, 168), (64, 128, 4, 3, 0), (64, 32, 4, 3, 0)],
    "forward": [(128, 64, 4, 3, 0), (128, 64, 8, 3, 0), (128, 128, 8, 2, 0), (64, 64, 4, 3, 0)],
}  # fmt: skip


def tune(names: list[str]) -> None:
    """Time other block sizes for the kernels; the best go into `tuning.BLOCKS` by hand."""
    for shape in SHAPES:
        *sizes, causal = shape
        query, key, value = made(*sizes)
        A = regard.AttentionMatrix(query, key, mask=regard.causal() if causal else None)
        base = timed(lambda A=A, v=value: A @ v, 9)  # type: ignore[misc]
        scores, norm = A._scores, A._known()
        print(f"\n{named(shape)}: A @ v {base:.3f} ms", flush=True)
        for name in names:
            found = [(tried(name, blocks, scores, norm, value) / base, blocks) for blocks in CHOICES[name]]
            print(f"  {name}: " + "  ".join(f"{part:.2f} {blocks}" for part, blocks in sorted(found)), flush=True)


def tried(name: str, blocks: tuple[int, ...], scores: Any, norm: Tensor, value: Tensor) -> float:
    """Milliseconds of one kernel with these blocks; inf where it cannot be."""
    kind = 0 if scores.query.shape[-1] <= 64 else 1
    before, tuning.BLOCKS[name][kind] = tuning.BLOCKS[name][kind], blocks
    pool = Pool(*(min(256, tokens) for tokens in scores.shape[2:]))
    calls: dict[str, Callable[[], Any]] = {
        "columns": lambda: reduce_launch.columns(scores, launch.normaliser(norm), Received()),
        "sums": lambda: backend.reduce(scores, norm, [pool, Received(), Entropy()]),
        "rows": lambda: backend.reduce(scores, norm, [Entropy()]),
        "columns_pool": lambda: backend.reduce(scores, norm, [pool, Received()]),
        "top": lambda: backend.reduce(scores, norm, [Top(8), Entropy()]),
        "top_short": lambda: backend.reduce(scores, norm, [Top(8)]),
        "forward": lambda: backend.forward(scores, Attend(value)),
    }
    try:
        return timed(calls[name], 7)
    except Exception as error:
        progress.print(f"{name} {blocks}: {type(error).__name__} {str(error)[:200]}", markup=False)
        return math.inf
    finally:
        tuning.BLOCKS[name][kind] = before


def main() -> None:
    """Time, print; keep it if asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--report", action="store_true", help="write benchmarks/reports/DATE-sight-gpu.md")
    parser.add_argument("--tune", nargs="*", choices=list(CHOICES), help="only time other block sizes")
    parser.add_argument("--once", type=int, choices=range(1, 5), help="only call everything once, on this shape")
    options = parser.parse_args()
    torch.manual_seed(0)
    if options.tune is not None:
        tune(options.tune or list(CHOICES))
        return
    if options.once is not None:
        once(SHAPES[options.once - 1])
        return
    names = ("A @ v", "received", "most", "pool", "top")
    columns = ("bf16", "SDPA", "`A @ v`", "`received`", "`entropy` + `top(1)`", "`summary(pool=256)`", "+ `top=8`")
    head = ["| " + " | ".join(columns) + " |", "| --- " * 7 + "|"]
    rows, peers, least = [], [], []
    for shape in SHAPES:
        progress.print(f"[dim]{named(shape)} …")
        taken = speed(shape)
        base = taken["SDPA"]
        cells = " | ".join(f"{taken[name] / base:.2f} ×" for name in names)
        rows.append(f"| {named(shape)} | {base:.2f} ms | {cells} |")
        others = [f"{name} {taken[name] / base:.2f} ×" for name in taken if name not in ("SDPA", *names)]
        peers.append(f"- {named(shape)}: " + ", ".join(others) + ".")
        least.append(floors(shape, base))
    progress.print("[dim]gradients …")
    learned = ["| | SDPA | `A @ v` | with gradients: SDPA | `A @ v` |", "| --- " * 5 + "|"]
    learned += [trained(shape, torch.bfloat16) for shape in TRAINED]
    learned += [trained(shape, torch.float32) for shape in SINGLE]
    progress.print("[dim]a million tokens …")
    parts = [
        f"# Sight on a GPU\n\n{gpu()}. Ratios to `scaled_dot_product_attention` in the same run, medians by CUDA "
        "events, fresh random inputs; reductions after `A @ v`, so the logsumexp is known. `entropy` + `top(1)`: the "
        "entropy of each row, its greatest weight and the key that has it, in one walk, as in `summary(top=1)`.\n",
        "\n".join(head + rows),
        "\nAsked at most, row by row: " + "; ".join(" / ".join(f"{goal:.2f}" for goal in row) for row in GOALS) + ".",
        f"\n{handed()}",
        "\nBeside them, to the same measure:\n",
        "\n".join(peers),
        "\nWhat one walk takes at least, if nothing else but one kind of work were done, at the highest clock:\n",
        "\n".join(least),
        f"\nWhat the GPU draws meanwhile, 60 calls in a row, {named(SHAPES[0])}. Where its limit holds it back, times "
        "depend on what ran just before, so these need not be those above:\n",
        "\n".join(drawn(SHAPES[0])),
        "\n## 1,048,576 tokens, 4 heads on one key head, width 128, causal\n",
        "\n".join(long()),
        "\n## Gradients\n\nOurs add nothing up in an order of chance: the same bits every time.\n",
        "\n".join(learned),
    ]
    text = "\n".join(parts) + "\n"
    print(text)
    if options.report:
        path = Path(__file__).parent / "reports" / f"{date.today()}-sight-gpu.md"
        path.write_text(text + "\nMade by `python benchmarks/sight_gpu.py --report`.\n")
        progress.print(f"[green]kept in {path.name}")


if __name__ == "__main__":
    main()
