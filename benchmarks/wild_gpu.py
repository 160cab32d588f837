"""What people really have on one CUDA device: padded batches, packed documents, odd lengths, gradients, decoding.

python benchmarks/wild_gpu.py             time us and the peers in one run, print
python benchmarks/wild_gpu.py --report    and keep it in benchmarks/reports/

Peers: `scaled_dot_product_attention` (causal, with a dense mask, with its backward) and FlexAttention.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import torch
from measure import gpu, overhead
from rich.console import Console
from sight_gpu import made, timed
from torch import Tensor
from torch.nn import functional
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

import regard

progress = Console(stderr=True)
TOKENS, HEADS, KEY_HEADS, WIDTH = 8_192, 32, 8, 128
DOCUMENTS = 8
ODD = [1_000, 1_024, 2_000, 2_048, 3_000, 4_096, 10_000, 16_384]


def sdpa(q: Tensor, k: Tensor, v: Tensor, **options: Any) -> Tensor:
    return functional.scaled_dot_product_attention(q, k, v, enable_gqa=q.shape[1] != k.shape[1], **options)


def masks() -> dict[str, tuple[dict[str, Any], Callable[..., Any] | None]]:
    """What is asked of us, and the same as a rule for FlexAttention."""
    place = torch.arange(TOKENS, device="cuda")
    right, left, ids = (place < 6_000)[None], (place >= 2_192)[None], place // (TOKENS // DOCUMENTS)
    causal = regard.causal()
    dense = torch.randn(TOKENS, TOKENS, device="cuda", dtype=torch.bfloat16)

    def rule(hides: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., Tensor]:
        return lambda b, h, q, k: (k <= q) & hides(q, k)

    return {
        "causal": ({"mask": causal}, lambda b, h, q, k: k <= q),
        "causal & padding on the right": ({"mask": causal & regard.padding(right)}, rule(lambda q, k: k < 6_000)),
        "causal & padding on the left": ({"mask": causal & regard.padding(left)}, rule(lambda q, k: k >= 2_192)),
        "causal & 8 documents": (
            {"mask": causal & regard.documents(ids[None])}, rule(lambda q, k: q // 1_024 == k // 1_024)
        ),
        "bias of N × N": ({"mask": regard.bias(dense)}, None),
        "causal & sinks": ({"mask": causal, "sinks": torch.zeros(HEADS, device="cuda")}, None),
        "causal & softcap": ({"mask": causal, "softcap": 50.0}, None),
    }  # fmt: skip


def masked() -> list[str]:
    q, k, v = made(1, HEADS, KEY_HEADS, TOKENS, WIDTH)
    flexible = torch.compile(flex_attention)
    causal = timed(lambda: sdpa(q, k, v, is_causal=True))
    lines = [
        f"1 × {HEADS}/{KEY_HEADS} heads × {TOKENS:,} × {WIDTH}, bf16. SDPA, causal: {causal:.2f} ms.", "",
        "| mask | `A @ v` | peer | `received` | `summary(pool=256, top=8)` | of its own `A @ v` |",
        "| --- | --- | --- | --- | --- | --- |",
    ]  # fmt: skip
    for name, (options, rule) in masks().items():
        progress.print(f"{name} …")
        ours = timed(lambda o=options: regard.AttentionMatrix(q, k, **o) @ v)
        matrix = regard.AttentionMatrix(q, k, **options)
        matrix @ v
        received = timed(matrix.received)
        summary = timed(lambda m=matrix: m.summary(pool=256, top=8))
        peer = ""
        if rule is not None:
            block_mask = create_block_mask(rule, None, None, TOKENS, TOKENS, device="cuda")
            took = timed(lambda b=block_mask: flexible(q, k, v, block_mask=b, enable_gqa=True))
            peer = f"FlexAttention {took:.2f} ms"
        elif name.startswith("bias"):
            dense = options["mask"].atoms[0].tensor[None, None]
            peer = f"SDPA {timed(lambda d=dense: sdpa(q, k, v, attn_mask=d)):.2f} ms"
        lines.append(
            f"| {name} | {ours:.2f} ms, {ours / causal:.2f} × | {peer} | {received:.2f} ms | {summary:.2f} ms | "
            f"{summary / ours:.1f} × |"
        )
    return lines


def lengths() -> list[str]:
    lines = ["| tokens, 16/4 heads × 128 causal | SDPA | `pool(256, 256)` | `top(8)` | `summary(pool=256, top=8)` |",
             "| --- | --- | --- | --- | --- |"]  # fmt: skip
    shapes = [(1, 16, 4, tokens, 128, True) for tokens in ODD] + [(1, 8, 8, 3_000, 64, False)]
    for batch, heads, key_heads, tokens, width, causal in shapes:
        progress.print(f"{tokens} tokens …")
        q, k, v = made(batch, heads, key_heads, tokens, width)
        peer = timed(lambda q=q, k=k, v=v, c=causal: sdpa(q, k, v, is_causal=c))
        matrix = regard.AttentionMatrix(q, k, mask=regard.causal() if causal else None)
        matrix @ v
        calls: list[Callable[[], Any]] = [
            lambda m=matrix: m.pool(256, 256), lambda m=matrix: m.top(8), lambda m=matrix: m.summary(pool=256, top=8),
        ]  # fmt: skip
        about = f"{tokens:,}" if causal else f"{tokens:,} ({heads} heads × {width}, full)"
        lines.append(f"| {about} | {peer:.3f} ms | " + " | ".join(f"{timed(call):.3f} ms" for call in calls) + " |")
    return lines


def gradients() -> list[str]:
    q, k, v = (t.requires_grad_() for t in made(1, HEADS, KEY_HEADS, TOKENS, WIDTH))
    back = torch.randn_like(q)

    def both(output: Tensor) -> None:
        torch.autograd.grad(output, (q, k, v), back)

    peer = timed(lambda: both(sdpa(q, k, v, is_causal=True)), 7)
    ours = timed(lambda: both(regard.AttentionMatrix(q, k, mask=regard.causal()) @ v), 7)
    lines = ["| forward and backward | ms | × SDPA's |", "| --- | --- | --- |"]
    lines += [f"| SDPA, causal | {peer:.2f} | 1.00 |", f"| `A @ v` | {ours:.2f} | {ours / peer:.2f} |"]
    for name, look in LOOKS.items():
        progress.print(f"gradient through {name} …")

        def through(look: Callable[[Any], Tensor] = look) -> None:
            torch.autograd.grad(look(regard.AttentionMatrix(q, k, mask=regard.causal())).float().sum(), (q, k))

        took = timed(through, 3)
        lines.append(f"| through `{name}` | {took:.1f} | {took / peer:.1f} |")
    progress.print("gradient through A.mT @ x …")
    x = torch.randn_like(q).requires_grad_()
    took = timed(
        lambda: torch.autograd.grad(regard.AttentionMatrix(q, k, mask=regard.causal()).mT @ x, (q, k, x), back), 3
    )
    lines.append(f"| through `A.mT @ x` | {took:.1f} | {took / peer:.1f} |")
    return lines


LOOKS: dict[str, Callable[[Any], Tensor]] = {
    "entropy": lambda A: A.entropy().square(),
    "received": lambda A: A.received().square(),
    "pool(64, 64)": lambda A: A.pool(64, 64).square(),
    "logsumexp": lambda A: A.logsumexp.square(),
}


def small() -> list[str]:
    q, k, v = made(64, 12, 12, 512, 64)
    A = regard.AttentionMatrix(q, k)
    calls: dict[str, Callable[[], Any]] = {
        "SDPA": lambda: sdpa(q, k, v), "`A @ v`": lambda: regard.AttentionMatrix(q, k) @ v, "`received`": A.received,
        "`summary`": A.summary, "`summary(top=8)`": lambda: A.summary(top=8),
    }  # fmt: skip
    A @ v
    lines = [
        "| 64 × 12 heads × 512 × 64, calls in a row | µs of the CPU, with the GPU's queue never full |",
        "| --- | --- |",
    ]

    def paced(call: Callable[[], Any]) -> float:
        torch.cuda.synchronize()
        return overhead(call, repeats=20, rounds=15)

    return lines + [f"| {name} | {paced(call):.0f} |" for name, call in calls.items()]


def decoding() -> list[str]:
    def normal(heads: int, tokens: int) -> Tensor:
        return torch.randn(1, heads, tokens, WIDTH, device="cuda", dtype=torch.bfloat16)

    q, k, v = normal(HEADS, 1), normal(KEY_HEADS, 131_072), normal(KEY_HEADS, 131_072)
    peer = timed(lambda: sdpa(q, k, v))
    A = regard.AttentionMatrix(q, k)
    A @ v
    calls: dict[str, Callable[[], Any]] = {
        "`A @ v`": lambda: regard.AttentionMatrix(q, k) @ v, "`received`": A.received, "`entropy`": A.entropy,
        "`top(8)`": lambda: A.top(8), "`summary(top=8)`": lambda: A.summary(top=8),
        "`A[..., 0, :]`": lambda: A[..., 0, :],
    }  # fmt: skip
    lines = [
        "| 1 query × 131,072 keys, 32/8 heads × 128 | ms | × SDPA |",
        "| --- | --- | --- |",
        f"| SDPA | {peer:.3f} | 1.00 |",
    ]
    for name, call in calls.items():
        took = timed(call)
        lines.append(f"| {name} | {took:.3f} | {took / peer:.2f} |")
    return lines


def transposed() -> list[str]:
    lines = ["| `A.mT @ x` | ms | SDPA, ms | ratio |", "| --- | --- | --- | --- |"]
    shapes = [(1, HEADS, KEY_HEADS, TOKENS, WIDTH, True), (1, HEADS, KEY_HEADS, TOKENS, WIDTH, False)]
    for batch, heads, key_heads, tokens, width, causal in [*shapes, (64, 12, 12, 512, 64, False)]:
        q, k, v = made(batch, heads, key_heads, tokens, width)
        A, x = regard.AttentionMatrix(q, k, mask=regard.causal() if causal else None), torch.randn_like(q)
        A @ v
        peer = timed(lambda q=q, k=k, v=v, c=causal: sdpa(q, k, v, is_causal=c))
        ours = timed(lambda A=A, x=x: A.mT @ x)
        about = f"{batch} × {heads}/{key_heads} × {tokens:,} × {width}{', causal' if causal else ''}"
        lines.append(f"| {about} | {ours:.2f} | {peer:.2f} | {ours / peer:.2f} |")
    return lines


FIRST = """
import sys, time, torch, regard
dtype = getattr(torch, sys.argv[1])
q, k, v = torch.randn(3, 1, 8, 2048, 64, device="cuda", dtype=dtype).unbind(0)
A = regard.AttentionMatrix(q, k, mask=regard.causal())
calls = {
    "A @ v": lambda: A @ v, "received": A.received, "entropy": A.entropy, "top(8)": lambda: A.top(8),
    "pool(256, 256)": lambda: A.pool(256, 256), "pool(60, 60)": lambda: A.pool(60, 60), "summary": A.summary,
    "summary(pool=256, top=8)": lambda: A.summary(pool=256, top=8), "A.mT @ x": lambda: A.mT @ q,
}
for name, call in calls.items():
    began = time.perf_counter()
    call()
    torch.cuda.synchronize()
    print(name, time.perf_counter() - began, sep="\t")
"""


def first() -> list[str]:
    """What the first call of each kind takes in a new process with an empty cache of kernels."""
    found: dict[str, list[float]] = {}
    for dtype in ("bfloat16", "float32"):
        progress.print(f"first calls, {dtype} …")
        with tempfile.TemporaryDirectory() as cache:
            there = os.environ | {"TRITON_CACHE_DIR": cache}
            command = [sys.executable, "-c", FIRST, dtype]
            printed = subprocess.run(command, env=there, check=True, capture_output=True, text=True).stdout
        for line in printed.splitlines():
            name, seconds = line.split("\t")
            found.setdefault(name, []).append(float(seconds))
    lines = ["| the first call, in this order | bf16, s | float32, s |", "| --- | --- | --- |"]
    lines += [f"| `{name}` | {bf16:.2f} | {float32:.2f} |" for name, (bf16, float32) in found.items()]
    totals = [sum(column) for column in zip(*found.values(), strict=True)]
    return [*lines, f"| all | {totals[0]:.1f} | {totals[1]:.1f} |"]


SECTIONS = {
    "Masks": masked, "Lengths": lengths, "Gradients": gradients, "Small problems": small, "Decoding": decoding,
    "Transposed product": transposed, "First calls": first,
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--report", action="store_true", help="write benchmarks/reports/DATE-wild-gpu.md")
    parser.add_argument(
        "--only", nargs="*", choices=[name.split()[0].lower() for name in SECTIONS], help="some sections"
    )
    options = parser.parse_args()
    torch.manual_seed(0)
    chosen = [name for name in SECTIONS if not options.only or name.split()[0].lower() in options.only]
    text = f"# In the wild, on one GPU\n\n{gpu()}. Medians, by CUDA events, the cache swept in between.\n"
    print(text)
    for name in chosen:  # each is printed and kept as soon as it is there
        section = "\n".join(["", f"## {name}", "", *SECTIONS[name](), ""])
        print(section, flush=True)
        text += section
        if options.report:
            path = Path(__file__).parent / "reports" / f"{date.today()}-wild-gpu.md"
            path.write_text(text + "\nMade by `python benchmarks/wild_gpu.py --report`.\n")


if __name__ == "__main__":
    main()
