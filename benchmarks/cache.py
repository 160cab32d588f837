"""What it costs to know which keys of a cache may be forgotten: one layer's attention over a prompt, then the scores.

python benchmarks/cache.py            on CUDA: 32/8 heads × 128, 4,096 to 131,072 tokens, bf16
python benchmarks/cache.py --small    on a CPU: 8/2 heads × 64, 1,024 to 16,384 tokens, float32
python benchmarks/cache.py --report   and keep it in benchmarks/reports/

The cost while a model generates is that of the row "received" of benchmarks/watch_generate.py.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import NamedTuple

import torch
from measure import gpu, machine
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

import regard
from regard.watching.cache import RULES, cache_scores


class Shape(NamedTuple):
    """Of one layer."""

    heads: int
    key_heads: int
    width: int
    tokens: tuple[int, ...]
    dtype: torch.dtype
    device: str


LARGE = Shape(32, 8, 128, (4_096, 16_384, 65_536, 131_072), torch.bfloat16, "cuda")
SMALL = Shape(8, 2, 64, (1_024, 4_096, 16_384), torch.float32, "cpu")
DENSE = 4_096  # tokens up to which the weights are computed too, to compare with


def milliseconds(call: Callable[[], object], device: str, rounds: int) -> float:
    taken = []
    for number in range(rounds + 1):
        if device == "cuda":
            torch.cuda.synchronize()
        start = time.perf_counter()
        call()
        if device == "cuda":
            torch.cuda.synchronize()
        if number:
            taken.append((time.perf_counter() - start) * 1e3)
    return statistics.median(taken)


def by_weights(query: Tensor, key: Tensor, groups: int) -> Tensor:
    """H2O as eager attention gives it: all weights in the dtype of the model, then their sums."""
    scores = query @ key.repeat_interleave(groups, 1).mT * query.shape[-1] ** -0.5
    hidden = torch.ones(scores.shape[-2:], dtype=torch.bool, device=query.device).triu(1)
    weights = scores.masked_fill(hidden, -torch.inf).softmax(-1, dtype=torch.float32)
    return weights.sum(2).reshape(len(query), key.shape[1], groups, -1).mean(2)


def rows(shape: Shape, rounds: int) -> list[str]:
    """One line a length."""
    rules = " | ".join(f"`{by}`" for by in RULES)
    lines = [f"| tokens | SDPA | {rules} | eager's weights | h2o, largest error |", "| ---: " * (len(RULES) + 4) + "|"]
    groups = shape.heads // shape.key_heads
    for tokens in shape.tokens:
        torch.manual_seed(0)
        query, key, value = (
            torch.randn(1, heads, tokens, shape.width, dtype=shape.dtype, device=shape.device)
            for heads in (shape.heads, shape.key_heads, shape.key_heads)
        )

        def plain(q: Tensor = query, k: Tensor = key, v: Tensor = value) -> Tensor:
            return scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)

        def scored(by: str, q: Tensor = query, k: Tensor = key, v: Tensor = value) -> Tensor:
            matrix = regard.AttentionMatrix(q, k, mask=regard.causal())
            matrix @ v
            return cache_scores(matrix, by, shape.key_heads)

        base = milliseconds(plain, shape.device, rounds)
        ratios = [milliseconds(lambda by=by: scored(by), shape.device, rounds) / base for by in RULES]
        eager, error = "", ""
        if tokens <= DENSE:
            dense = by_weights(query.double(), key.double(), groups)
            taken = milliseconds(lambda q=query, k=key: by_weights(q, k, groups), shape.device, rounds)
            eager, error = f"{taken / base:.1f} ×", f"{(scored('h2o') - dense).abs().max() / dense.max():.1e}"
        shown = " | ".join(f"{ratio:.2f} ×" for ratio in ratios)
        lines.append(f"| {tokens:,} | {base:,.2f} ms | {shown} | {eager} | {error} |")
        print(lines[-1], flush=True)
    return lines


def main() -> None:
    """Print the table, and keep it if asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="sizes for a CPU")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--report", action="store_true", help="write benchmarks/reports/DATE-cache-….md")
    options = parser.parse_args()
    shape = SMALL if options.small else LARGE
    table = rows(shape, options.rounds)
    dtype = str(shape.dtype).removeprefix("torch.")
    text = f"""# What a cache may forget

{machine() if options.small else gpu()}. One layer, {shape.heads}/{shape.key_heads} heads × {shape.width}, causal,
{dtype}. Medians of {options.rounds} calls; attention and scores together, as ratios to torch's
`scaled_dot_product_attention` alone. "Eager's weights": all weights and their sums, without the product by the values.

{chr(10).join(table)}
"""
    if options.report:
        kind = "cpu" if options.small else "gpu"
        command = f"python benchmarks/cache.py {'--small ' if options.small else ''}--report"
        path = Path(__file__).parent / "reports" / f"{date.today()}-cache-{kind}.md"
        path.write_text(text + f"\nMade by `{command}`.\n")


if __name__ == "__main__":
    main()
