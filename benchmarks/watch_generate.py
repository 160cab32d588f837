"""What watching costs while a model generates: a Llama shape with random weights, no network.

python benchmarks/watch_generate.py            on CUDA: 8 layers, 32/8 heads × 128, 16,384 tokens + 64, bf16
python benchmarks/watch_generate.py --small    on a CPU: 2 layers, 8 heads × 8, 2,048 tokens + 64, float32, one thread
python benchmarks/watch_generate.py --report   and keep it in benchmarks/reports/
"""

from __future__ import annotations

import argparse
import gc
import statistics
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

import torch
import transformers
from measure import gpu, machine, peak_extra
from rich.console import Console

import regard

progress = Console(stderr=True)
KEPT: dict[str, Any] = {
    "matrix": "matrix",
    "received": "received",  # all that a cache's scores by H2O need
    "summary": "summary",
    "received, entropy, top": ("received", "entropy", "top"),
}


class Shape(NamedTuple):
    """The model and the text."""

    layers: int
    heads: int
    key_heads: int
    width: int  # of a head
    prompt: int
    new: int
    dtype: torch.dtype
    device: str


LARGE = Shape(8, 32, 8, 128, 16_384, 64, torch.bfloat16, "cuda")
SMALL = Shape(2, 8, 8, 8, 2_048, 64, torch.float32, "cpu")


class Taken(NamedTuple):
    """Of one way to generate."""

    first: float  # seconds of the first time, kernels compiled where there are some to compile
    least: float
    median: float
    peak: float  # GiB above what lay there before


def llama(shape: Shape) -> Any:
    """A Llama with random weights, made on the device."""
    width = shape.heads * shape.width
    config = transformers.LlamaConfig(
        hidden_size=width, intermediate_size=int(3.5 * width), num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads, num_key_value_heads=shape.key_heads, vocab_size=32_000,
        max_position_embeddings=2**18, rope_theta=500_000.0,
    )  # fmt: skip
    before = torch.get_default_dtype()
    torch.set_default_dtype(shape.dtype)
    try:
        with torch.device(shape.device):
            return transformers.LlamaForCausalLM(config).eval()
    finally:
        torch.set_default_dtype(before)


def ways(model: Any, shape: Shape) -> dict[str, Callable[[], Any]]:
    """Each way to generate the same tokens."""
    ids = torch.randint(5, 32_000, (1, shape.prompt), device=shape.device)
    options = {"max_new_tokens": shape.new, "min_new_tokens": shape.new, "do_sample": False, "pad_token_id": 0}

    def plain(**more: Any) -> Any:
        with torch.no_grad():
            return model.generate(ids, **options, **more)

    def eager() -> Any:
        before = model.config._attn_implementation
        model.set_attn_implementation("eager")
        try:
            return plain(output_attentions=True, return_dict_in_generate=True)
        finally:
            model.set_attn_implementation(before)

    def watched(keep: Any) -> Callable[[], Any]:
        def run() -> Any:
            with regard.watch(model, keep=keep) as record:
                return plain(), record

        return run

    calls: dict[str, Callable[[], Any]] = {"plain (SDPA)": plain}
    calls |= {f"watched: {name}": watched(keep) for name, keep in KEPT.items()}
    return calls | {"eager, `output_attentions`": eager}


def once(call: Callable[[], Any], device: str) -> tuple[float, float]:
    """Seconds, as a user waits for them, and peak GiB."""
    gc.collect()
    if device == "cpu":
        start = time.perf_counter()
        call()
        return time.perf_counter() - start, 0.0
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    held, start = torch.cuda.memory_allocated(), time.perf_counter()
    result = call()
    torch.cuda.synchronize()
    seconds = time.perf_counter() - start
    peak = (torch.cuda.max_memory_allocated() - held) / 2**30
    del result
    return seconds, peak


def measured(calls: dict[str, Callable[[], Any]], device: str, rounds: int) -> dict[str, Taken | str]:
    """The ways taken in turn; a way that does not fit into memory says so."""
    firsts, peaks, taken, failed = {}, {}, {name: [] for name in calls}, {}
    for number in range(rounds + 1):
        for name, call in calls.items():
            if name in failed:
                continue
            try:
                seconds, peak = once(call, device)
            except torch.OutOfMemoryError:
                failed[name] = "out of memory"
                torch.cuda.empty_cache()
                continue
            peaks[name] = max(peak, peaks.get(name, 0.0))
            if number:
                taken[name].append(seconds)
            else:
                firsts[name] = seconds
            progress.print(f"[dim]{name}: {seconds:.2f} s")
    if device == "cpu":
        peaks = {name: max(peak_extra(call), 0.0) * 1e6 / 2**30 for name, call in calls.items()}
    found = {
        name: Taken(firsts[name], min(times), statistics.median(times), peaks[name])
        for name, times in taken.items() if times
    }  # fmt: skip
    return {name: found.get(name) or failed[name] for name in calls}


def table(found: dict[str, Taken | str], tokens: int) -> list[str]:
    """One line for each way."""
    base = found["plain (SDPA)"]
    assert isinstance(base, Taken)
    lines = ["| generate | first | least | median | ratio of the least | of the medians | more a token | peak |"]
    lines.append("| --- " * 8 + "|")
    for name, one in found.items():
        if isinstance(one, str):
            lines.append(f"| {name} | {one} |" + " |" * 6)
            continue
        more = (one.least - base.least) / tokens * 1e3
        ratios = f"{one.least / base.least:.2f} × | {one.median / base.median:.2f} ×"
        lines.append(
            f"| {name} | {one.first:.2f} s | {one.least * 1e3:,.0f} ms | {one.median * 1e3:,.0f} ms "
            f"| {ratios} | {more:.2f} ms | {one.peak:,.2f} GiB |"
        )
    return lines


def main() -> None:
    """Print the table, and keep it if asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--report", action="store_true", help="write benchmarks/reports/DATE-watch-generate-….md")
    parser.add_argument("--small", action="store_true", help="sizes for a CPU")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--layers", type=int)
    parser.add_argument("--prompt", type=int)
    parser.add_argument("--new", type=int)
    options = parser.parse_args()
    given = {name: value for name in ("layers", "prompt", "new") if (value := getattr(options, name)) is not None}
    shape = (SMALL if options.small else LARGE)._replace(**given)
    if shape.device == "cpu":
        torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    torch.manual_seed(0)
    model = llama(shape)
    found = measured(ways(model, shape), shape.device, options.rounds)
    where = machine() if shape.device == "cpu" else gpu()
    what = (
        f"{shape.layers} layers, {shape.heads}/{shape.key_heads} heads × {shape.width}, {shape.prompt:,} tokens + "
        f"{shape.new} generated, {str(shape.dtype).removeprefix('torch.')}, random weights"
    )
    how = "Wall clock, ways taken in turn; entering and leaving the block is part of the time; peak above the model."
    text = f"# Watching a generation\n\n{where}, transformers {transformers.__version__}. {what}. {how}\n\n"
    text += "\n".join(table(found, shape.new)) + "\n"
    print(text)
    if options.report:
        kind = "cpu" if shape.device == "cpu" else "gpu"
        path = Path(__file__).parent / "reports" / f"{date.today()}-watch-generate-{kind}.md"
        command = f"python benchmarks/watch_generate.py {'--small ' if options.small else ''}--report"
        path.write_text(text + f"\nMade by `{command}`.\n")
        progress.print(f"[green]kept in {path.name}")


if __name__ == "__main__":
    main()
