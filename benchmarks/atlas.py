"""What an atlas of all heads costs beside the forward, in time and memory: Llama shapes, random weights, no network.

python benchmarks/atlas.py            131,072 tokens on a GPU, 2,048 on a CPU, with 512 tokens that count as written
python benchmarks/atlas.py --report   and keep the table in benchmarks/reports/
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import torch
import transformers
from measure import gpu, machine

import regard

GPU = torch.cuda.is_available()


def llama(width: int, layers: int) -> Any:
    """A Llama with random weights: bf16 on a GPU, float32 on a CPU."""
    heads = max(width // 128, 4)
    config = transformers.LlamaConfig(
        hidden_size=width, intermediate_size=int(3.5 * width), num_hidden_layers=layers, num_attention_heads=heads,
        num_key_value_heads=max(heads // 4, 1), vocab_size=32_000, max_position_embeddings=2**18, rope_theta=500_000.0,
    )  # fmt: skip
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16 if GPU else torch.float32)
    try:
        with torch.device("cuda" if GPU else "cpu"):
            return transformers.LlamaModel(config).eval()
    finally:
        torch.set_default_dtype(before)


def taken(call: Callable[[Any], Any], rounds: int, before: Callable[[], Any] = lambda: None) -> tuple[float, float]:
    """The least milliseconds of some rounds, and the peak in GiB above what lay there before; each begins anew.

    On a CPU the times are the processor's, over all threads: other work counts for little; and the peak is 0.
    """
    clock = time.perf_counter if GPU else time.process_time
    call(before())
    least, peak = float("inf"), 0.0
    for _ in range(rounds):
        given = before()
        if GPU:
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
            held = torch.cuda.memory_allocated()
        start = clock()
        call(given)
        if GPU:
            torch.cuda.synchronize()
            peak = (torch.cuda.max_memory_allocated() - held) / 2**30
        least = min(least, 1e3 * (clock() - start))
    return least, peak


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--report", action="store_true", help="write benchmarks/reports/DATE-atlas.md")
    parser.add_argument("--tokens", type=int, nargs="+", default=[8192, 131_072] if GPU else [512, 2048])
    parser.add_argument("--width", type=int, default=4096 if GPU else 512)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--note", default="", help="a sentence for the report: what else the machine did, say")
    options = parser.parse_args()
    transformers.logging.set_verbosity_error()
    torch.manual_seed(0)
    model = llama(options.width, options.layers)
    lines = [
        "| tokens | | least | ratio to the forward | peak above what was there | heads × tokens² weights would be |"
    ]
    lines.append("| --- " * 6 + "|")
    for tokens in options.tokens:
        ids = torch.randint(0, 32_000, (1, tokens), device=model.device)
        written = min(512, tokens // 4)

        def plain(_: Any, ids: torch.Tensor = ids) -> Any:
            with torch.no_grad():
                return model(ids, use_cache=False)

        def watched(keep: Any = "matrix", ids: torch.Tensor = ids) -> regard.Record:
            with torch.no_grad(), regard.watch(model, keep=keep) as record:
                model(ids, use_cache=False)
            return record

        def of_rows(_: Any = None, rows: int = written + 1) -> regard.Record:
            return watched(rows)

        def atlas(record: regard.Record, context: int = tokens - written) -> Any:
            return record.atlas(context=context, needle=range(context // 2, context // 2 + 64))

        heads = next(iter(watched().values())).shape[1]
        forward = taken(plain, options.rounds)
        dense = f"{options.layers * heads * tokens**2 * model.dtype.itemsize / 2**30:,.1f} GiB"
        measured = {
            "forward": forward,
            "atlas": taken(atlas, options.rounds, watched),
            "forward, watched with the rows of what is written": taken(of_rows, options.rounds),
            "retrieval and lookback of these rows": taken(atlas, options.rounds, of_rows),
        }
        for name, (least, peak) in measured.items():
            ratio = f"{least / forward[0]:.2f} ×"
            memory = f"{peak:,.2f} GiB" if GPU else ""  # a process keeps what earlier rounds have left
            lines.append(f"| {tokens:,} | {name} | {least:,.0f} ms | {ratio} | {memory} | {dense} |")
    dtype = str(model.dtype).removeprefix("torch.")
    shape = f"{options.layers} layers, width {options.width}, {heads} heads, {dtype}"
    clock = "" if GPU else "Times are those of the processor. "
    about = f"{gpu() if GPU else machine()}. {shape}, random weights. {clock}{options.note}".strip()
    text = "\n".join(["# An atlas of heads", "", about, "", *lines, ""])
    print(text)
    if options.report:
        path = Path(__file__).parent / "reports" / f"{date.today()}-atlas-{'gpu' if GPU else 'cpu'}.md"
        path.write_text(text + "\nMade by `python benchmarks/atlas.py --report`.\n")


if __name__ == "__main__":
    main()
