"""What watching costs on one CUDA device: a 4-layer Llama shape (4096, 32/8 heads, bf16), random weights, no network.

python benchmarks/watch_gpu.py            print the tables
python benchmarks/watch_gpu.py --report   and keep them in benchmarks/reports/
"""

from __future__ import annotations

import gc
import statistics
from collections.abc import Callable
from typing import Any

import torch
import transformers
from atlas import llama
from measure import arguments, finish, gpu
from rich.console import Console

import regard

progress = Console(stderr=True)
KEPT = ("received", "entropy", "pool")


def measured(calls: dict[str, Callable[[], Any]], rounds: int) -> dict[str, tuple[float, float, float]]:
    """Least and median milliseconds, and peak GiB above what lay there before; calls taken in turn."""
    taken: dict[str, list[float]] = {name: [] for name in calls}
    peak = {}
    for round_ in range(rounds + 1):  # the first warms up
        for name, call in calls.items():
            gc.collect()
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
            held = torch.cuda.memory_allocated()
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            result = call()
            end.record()
            torch.cuda.synchronize()
            peak[name] = (torch.cuda.max_memory_allocated() - held) / 2**30
            del result
            if round_:
                taken[name].append(start.elapsed_time(end))
    return {name: (min(times), statistics.median(times), peak[name]) for name, times in taken.items()}


def table(model: Any, tokens: int, kept: dict[str, Any], with_eager: bool, rounds: int) -> list[str]:
    """One line for each way to run the model."""
    ids = torch.randint(0, 32_000, (1, tokens), device="cuda")

    def plain() -> Any:
        with torch.no_grad():
            return model(ids, use_cache=False)

    def eager() -> Any:
        before = model.config._attn_implementation
        model.set_attn_implementation("eager")
        try:
            with torch.no_grad():
                return model(ids, use_cache=False, output_attentions=True)
        finally:
            model.set_attn_implementation(before)

    def watched(keep: Any) -> Callable[[], Any]:
        def run() -> Any:
            with torch.no_grad(), regard.watch(model, keep=keep) as record:
                return model(ids, use_cache=False), record

        return run

    calls: dict[str, Callable[[], Any]] = {"plain (SDPA)": plain}
    if with_eager:
        calls["eager, `output_attentions`"] = eager
    calls |= {f"watched, `keep={keep!r}`": watched(keep) for keep in kept.values()}
    progress.print(f"[dim]{tokens:,} tokens …")
    taken = measured(calls, rounds)
    base = taken["plain (SDPA)"]
    lines = ["| forward | least | median | ratio of the least | of the medians | peak above the model | to plain |"]
    lines.append("| --- " * 7 + "|")
    for name, (least, median, peak) in taken.items():
        lines.append(
            f"| {name} | {least:,.1f} ms | {median:,.1f} ms | {least / base[0]:.2f} × | {median / base[1]:.2f} × "
            f"| {peak:,.2f} GiB | {peak / base[2]:.2f} × |"
        )
    if with_eager:
        slow = taken["eager, `output_attentions`"]
        for name, (least, _, peak) in taken.items():
            if name.startswith("watched"):
                lines.append(f"\n{name}: {slow[0] / least:.2f} × faster than eager, {peak / slow[2]:.2f} × its memory.")
    return lines


def main() -> None:
    """Print the tables, and keep them if asked."""
    parser = arguments(__doc__)
    parser.add_argument("--width", type=int, default=4096)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--tokens", type=int, nargs=2, default=(8192, 131_072), help="beside eager; without it")
    options = parser.parse_args()
    transformers.logging.set_verbosity_error()
    torch.manual_seed(0)
    heads = options.width // 128
    model = llama(options.width, options.layers)
    few, many = options.tokens
    parts = {
        f"{few:,} tokens": table(model, few, {"matrix": "matrix", "summary": KEPT}, with_eager=True, rounds=5),
        f"{many:,} tokens": table(model, many, {"matrix": "matrix", "summary": KEPT}, with_eager=False, rounds=2),
    }
    shape = f"{options.layers} layers, width {options.width}, {heads} heads, bf16, random weights"
    text = f"# Watching on a GPU\n\n{gpu()}, transformers {transformers.__version__}. {shape}.\n"
    for title, lines in parts.items():
        text += f"\n## {title}\n\n" + "\n".join(lines) + "\n"
    finish(options, "watch-gpu", text)


if __name__ == "__main__":
    main()
