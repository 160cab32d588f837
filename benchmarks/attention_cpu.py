"""What attention and its sight cost on a CPU, as ratios to F.scaled_dot_product_attention in the same run.

python benchmarks/attention_cpu.py            print the tables
python benchmarks/attention_cpu.py --report   and keep them in benchmarks/reports/
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from measure import arguments, finish, machine, overhead, peak_extra, rounds
from rich.console import Console

import regard
from regard.backends import Entropy, Pool, Received, Top
from regard.backends.tiles import reductions
from regard.backends.tiles.tile import each_tile

SHAPES = [
    # heads, key heads, tokens, width, causal
    (8, 8, 8192, 64, True),
    (8, 8, 8192, 64, False),
    (8, 8, 2048, 64, True),
    (8, 2, 4096, 128, True),
    (12, 12, 512, 64, False),
]
progress = Console(stderr=True)


LOOKS = ("`A @ v`", "`received`", "`entropy`", "`summary(pool=256)`", "+ `top=8`", "cold `received`")


def ratios() -> list[str]:
    """`A @ v`, and each look after it, once the normaliser is known."""
    lines = [f"| shape (float32) | SDPA | {' | '.join(LOOKS)} |", "| --- " * (2 + len(LOOKS)) + "|"]
    return lines + [ratio_row(*shape) for shape in SHAPES]


def ratio_row(heads: int, key_heads: int, tokens: int, width: int, causal: bool) -> str:
    progress.print(f"[dim]{heads} heads × {tokens} × {width} …")
    q = torch.randn(1, heads, tokens, width)
    k, v = torch.randn(2, 1, key_heads, tokens, width).unbind(0)
    mask = regard.causal() if causal else None
    A = regard.AttentionMatrix(q, k, mask=mask)
    _ = A @ v  # from here on its normaliser is known
    calls = {
        "sdpa": lambda: F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=heads != key_heads),
        "attend": lambda: regard.AttentionMatrix(q, k, mask=mask) @ v,
        "received": A.received,
        "entropy": A.entropy,
        "pool": lambda: A.summary(pool=256),
        "top": lambda: A.summary(pool=256, top=8),
        "cold": lambda: regard.AttentionMatrix(q, k, mask=mask).received(),
    }
    taken = rounds(calls, 7 if tokens > 4096 else 15)
    name = f"{heads}{f'/{key_heads}' if heads != key_heads else ''} heads × {tokens:,} × {width}"
    base = taken.pop("sdpa")
    cells = [f"{name}{' causal' if causal else ''}", f"{base.least * 1e3:,.1f} ms"]
    cells += [f"{t.least / base.least:.2f} × ({t.median / base.median:.2f})" for t in taken.values()]
    return f"| {' | '.join(cells)} |"


class _Copied(reductions._Top):
    """`top` that only collects its tiles."""

    def finish(self) -> None:
        self.block = None


class _Maxima(_Copied):
    """And then takes the maxima of the blocks."""

    def finish(self) -> None:
        if self.block is not None:
            columns = self.columns.stop - self.columns.start
            size = min(2 ** (max(columns // (64 * self.k), 1).bit_length() - 1), 32)
            whole = self.strip[..., : columns // size * size]
            self.maxima = whole.view(*whole.shape[:-1], size, -1).amax(-2)
        self.block = None


class _Chosen(_Maxima):
    """And then finds the k largest of them."""

    def finish(self) -> None:
        full = self.block is not None
        super().finish()
        if full:
            self.maxima.topk(min(self.k, self.maxima.shape[-1]), -1, sorted=False)


def anatomy() -> list[str]:
    """What `top` adds to a summary, step by step: each line does one thing more than the one before it."""
    heads, tokens, width = 8, 8192, 64
    q, k, v = torch.randn(3, 1, heads, tokens, width).unbind(0)
    A = regard.AttentionMatrix(q, k, mask=regard.causal())
    _ = A @ v
    scores, own = A._core.scores.detached(), reductions._Top
    progress.print("[dim]what top is made of …")

    def swept(kind: type[reductions._Top] | None) -> Callable[[], Any]:
        wanted = [Received(), Entropy(), Pool(256, 256), *([] if kind is None else [Top(8)])]

        def run() -> Any:
            reductions._Top = kind or own  # type: ignore[misc]
            try:
                return reductions.reduce(scores, each_tile(scores, A._core.lse()), wanted)
            finally:
                reductions._Top = own  # type: ignore[misc]

        return run

    steps = {
        "summary(pool=256)": None,
        "+ every logit copied": _Copied,
        "+ maxima of blocks": _Maxima,
        "+ the 8 largest of them": _Chosen,
        "+ those blocks gathered and searched: `top=8`": own,
    }
    calls: dict[str, Callable[[], Any]] = {"sdpa": lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True)}
    taken = rounds(calls | {name: swept(kind) for name, kind in steps.items()}, 7)
    base = taken.pop("sdpa")
    lines = [f"| {heads} heads × {tokens:,} × {width} causal | of SDPA | more |", "| --- " * 3 + "|"]
    before = 0.0
    for name, times in taken.items():
        lines.append(f"| {name} | {times.least / base.least:.2f} × | {(times.least - before) / base.least:.2f} × |")
        before = times.least
    return lines


def stored() -> list[str]:
    """The plain way to see the weights: compute and keep them all."""
    heads, tokens, width = 8, 8192, 64
    q, k, v = torch.randn(3, 1, heads, tokens, width).unbind(0)
    hidden = torch.ones(tokens, tokens, dtype=torch.bool).triu(1)

    def plain() -> torch.Tensor:
        weights = (q @ k.mT * width**-0.5).masked_fill_(hidden, -torch.inf).softmax(-1)
        return weights @ v

    def ours() -> regard.Summary:
        A = regard.AttentionMatrix(q, k, mask=regard.causal())
        _ = A @ v
        return A.summary(top=8, pool=256)

    progress.print("[dim]stored weights …")
    taken = rounds({"plain": plain, "ours": ours}, 3)
    plainly, own = taken["plain"], taken["ours"]
    return [
        f"Plain softmax with stored weights, {heads} heads × {tokens:,} × {width} causal: {plainly.least:.2f} s, "
        f"{peak_extra(plain):,.0f} MB more at its peak. "
        f"`A @ v` and `summary(top=8, pool=256)`: {own.least:.2f} s, {peak_extra(ours):,.0f} MB. "
        f"**{plainly.least / own.least:.1f} × faster** (medians: {plainly.median / own.median:.1f} ×)."
    ]


def calls() -> list[str]:
    """What a call costs where there is next to nothing to compute."""
    q, k, v = torch.randn(3, 1, 8, 32, 64).unbind(0)
    mask = regard.causal()
    progress.print("[dim]short calls …")
    sdpa = overhead(lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True))
    ours = overhead(lambda: regard.attention(q, k, v, mask=mask))
    matrix = overhead(lambda: regard.AttentionMatrix(q, k, mask=mask) @ v)
    return [
        f"8 heads × 32 × 64, one call: SDPA {sdpa:.0f} µs, `regard.attention` {ours:.0f} µs "
        f"(**{ours - sdpa:.0f} µs more**), `AttentionMatrix(q, k) @ v` {matrix:.0f} µs ({matrix - sdpa:.0f} µs more)."
    ]


def imports() -> list[str]:
    """The first use of regard, which imports torch, beside `import torch`, each in processes of its own."""
    progress.print("[dim]imports …")

    # With bytecode kept, as users have it: where it is not, every import compiles regard anew.
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}

    def run(code: str) -> None:
        subprocess.run([sys.executable, "-c", code], check=True, env=kept)

    used = "import regard; regard.AttentionMatrix"
    taken = rounds({"torch": lambda: run("import torch"), "regard": lambda: run(used)}, 9)
    torch_s, ours = taken["torch"], taken["regard"]
    return [
        f"`import torch` {torch_s.least:.2f} s, `{used}` {ours.least:.2f} s: "
        f"**{ours.least - torch_s.least:.2f} s more** (medians: {ours.median - torch_s.median:.2f} s)."
    ]


def memory() -> list[str]:
    """A matrix of 100,000 × 100,000, which would take 80 GB."""
    tokens = 100_000
    q, k = torch.randn(2, 2, tokens, 64).unbind(0)
    A = regard.AttentionMatrix(q, k, mask=regard.causal())
    looks = {
        "A[..., 70_000, :]": lambda: A[..., 70_000, :],
        "A.part[..., 50_000:51_000, :].top(8)": lambda: A.part[..., 50_000:51_000, :].top(8),
        "A.received()": A.received,
        "A.pool(256, 256)": lambda: A.pool(256, 256),
    }
    lines = [
        f"2 heads × {tokens:,} × 64 causal (dense: 80 GB), each after the last:",
        "",
        "| look | time | extra memory at its peak |",
    ]
    lines.append("| --- | --- | --- |")
    for name, look in looks.items():
        progress.print(f"[dim]{name} …")
        start = time.perf_counter()
        extra = peak_extra(look)
        lines.append(f"| `{name}` | {time.perf_counter() - start:.2f} s | {extra:.0f} MB |")
    return lines


def main() -> None:
    """Print the tables, and keep them if asked."""
    parser = arguments(__doc__)
    options = parser.parse_args()
    torch.manual_seed(0)
    parts = {
        "Attention and its sight": ratios(),
        "What `top` is made of": anatomy(),
        "Against stored weights": stored(),
        "Overhead of a call": calls(),
        "Import": imports(),
        "Memory": memory(),
    }
    how = "The least of several rounds, calls taken in turn (in brackets the medians); looks come after `A @ v`."
    text = f"# Attention on a CPU\n\n{machine()}. {how}\n"
    for title, lines in parts.items():
        text += f"\n## {title}\n\n" + "\n".join(lines) + "\n"
    finish(options, "attention-cpu", text)


if __name__ == "__main__":
    main()
