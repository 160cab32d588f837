"""What people really have, on a CPU: padded batches, packed documents, odd lengths, short rows, gradients, decoding.

python benchmarks/wild_cpu.py             time us and the peers in one run, print
python benchmarks/wild_cpu.py --report    and keep it in benchmarks/reports/, and its tables in docs/benchmarks.md

The peer is `F.scaled_dot_product_attention` with the same mask, in the same run; where it knows no such thing (sinks,
softcap) it is the causal one. Looks come after `A @ v`, whose normaliser they use.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import torch
from measure import machine, rounds
from rich.console import Console
from torch import Tensor
from torch.nn import functional

import regard

progress = Console(stderr=True)
HEADS, TOKENS, WIDTH = 8, 4_096, 64
KEYS = 32_768  # of the decoding steps
BINS, TOP = 256, 8
LOOKS: dict[str, Callable[[Any], Any]] = {
    "`received`": lambda A: A.received(),
    "`entropy`": lambda A: A.entropy(),
    f"`pool({BINS}, {BINS})`": lambda A: A.pool(BINS, BINS),
    f"`top({TOP})`": lambda A: A.top(TOP),
    f"`summary(pool={BINS})`": lambda A: A.summary(pool=BINS),
    f"`summary(pool={BINS}, top={TOP})`": lambda A: A.summary(pool=BINS, top=TOP),
}
THROUGH: dict[str, Callable[[Any, Tensor], Tensor]] = {
    "`entropy()`": lambda A, x: A.entropy().square(),
    "`received()`": lambda A, x: A.received().square(),
    "`pool(64, 64)`": lambda A, x: A.pool(64, 64).square(),
    "`logsumexp`": lambda A, x: A.logsumexp.square(),
    "`A.mT @ x`": lambda A, x: (A.mT @ x).square(),
}


def sdpa(q: Tensor, k: Tensor, v: Tensor, **options: Any) -> Tensor:
    return functional.scaled_dot_product_attention(q, k, v, enable_gqa=q.shape[1] != k.shape[1], **options)


def normal(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(shape).to(dtype)


def compared(calls: dict[str, Callable[[], Any]], count: int) -> list[str]:
    """The first call's milliseconds, and how many times as long each other one takes."""
    taken = list(rounds(calls, count).values())
    base = taken[0].least
    return [f"{base * 1e3:,.2f} ms", *(f"{times.least / base:.2f} ×" for times in taken[1:])]


def table(first: str, others: Any) -> list[str]:
    return [f"| {first} | {' | '.join(others)} |", "| --- " * (1 + len(list(others))) + "|"]


def looked_at(q: Tensor, k: Tensor, v: Tensor, peer: Callable[[], Any], count: int, **options: Any) -> list[str]:
    A = regard.AttentionMatrix(q, k, **options)
    _ = A @ v
    calls: dict[str, Callable[[], Any]] = {"SDPA": peer, "`A @ v`": lambda: regard.AttentionMatrix(q, k, **options) @ v}
    return compared(calls | {name: lambda look=look: look(A) for name, look in LOOKS.items()}, count)


def masks() -> list[str]:
    q, k, v = (normal(1, HEADS, TOKENS, WIDTH) for _ in range(3))
    place, causal = torch.arange(TOKENS), regard.causal()
    right, left, ids = (place < 3_000)[None], (place >= 1_096)[None], (place // 512)[None]
    seen = place <= place[:, None]
    bias = torch.randn(TOKENS, TOKENS)
    rows: dict[str, tuple[dict[str, Any], Tensor | None]] = {
        "causal": ({"mask": causal}, None),
        "causal & padding on the right": ({"mask": causal & regard.padding(right)}, seen & right),
        "causal & padding on the left": ({"mask": causal & regard.padding(left)}, seen & left),
        "causal & 8 documents": ({"mask": causal & regard.documents(ids)}, seen & (ids == ids.mT)),
        "bias of N × N": ({"mask": regard.bias(bias)}, bias),
        "causal & sinks": ({"mask": causal, "sinks": torch.zeros(HEADS)}, None),
        "causal & softcap": ({"mask": causal, "softcap": 50.0}, None),
    }
    lines = table(f"mask ({HEADS} heads × {TOKENS:,} × {WIDTH}, float32)", ["SDPA", "`A @ v`", *LOOKS])
    for name, (options, dense) in rows.items():
        progress.print(f"[dim]{name} …")
        peer = {"is_causal": True} if dense is None else {"attn_mask": dense[None, None]}
        cells = looked_at(q, k, v, lambda peer=peer: sdpa(q, k, v, **peer), 3, **options)
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


def lengths() -> list[str]:
    tokens = (1_000, 1_024, 2_000, 2_048, 3_000, 4_096)
    return shapes("tokens (8 heads × 64, causal, float32)", [(1, 8, n, True) for n in tokens])


SHORT = [(64, 12, 128, False), (64, 12, 512, False), (8, 12, 77, True), (1, 12, 512, False)]


def short() -> list[str]:
    return shapes("short rows (float32)", SHORT)


def bounds() -> list[str]:
    """Single steps of the above alone, on dense numbers that lie in the cache: no look can take less than its steps."""
    steps = ["QKᵀ", "`exp2`", f"`torch.topk({TOP})`", f"the same in {TOP} rounds of `amax`"]
    lines = table("short rows (float32)", ["SDPA", *steps])
    for batch, heads, tokens, causal in SHORT:
        progress.print(f"[dim]what bounds {batch} × {heads} × {tokens} …")
        q, k, v = (normal(batch, heads, tokens, WIDTH) for _ in range(3))
        each = max(torch.get_num_threads() * 2**17 // tokens**2, 1)  # matrices that fit in the cache
        pieces = list(zip(*(t.flatten(0, 1).split(each) for t in (q, k)), strict=True))
        tile = torch.rand(each, tokens, tokens)
        packed = tile.double()
        room = torch.empty_like(tile)
        repeated = range(len(pieces))
        calls: dict[str, Callable[[], Any]] = {
            "SDPA": lambda q=q, k=k, v=v, c=causal: sdpa(q, k, v, is_causal=c),
            "product": lambda p=pieces, r=room: [torch.bmm(a, b.mT, out=r[: len(a)]) for a, b in p],
            "exp2": lambda n=repeated, t=tile, r=room: [torch.exp2(t, out=r) for _ in n],
            "topk": lambda n=repeated, t=tile: [t.topk(TOP) for _ in n],
            "rounds": lambda n=repeated, t=packed: [t.amax(-1) for _ in n for _ in range(TOP)],
        }
        name = f"{batch} × {heads} heads × {tokens} × {WIDTH}{' causal' if causal else ''}"
        lines.append(f"| {name} | {' | '.join(compared(calls, 3))} |")
    return lines


def shapes(title: str, chosen: list[tuple[int, int, int, bool]]) -> list[str]:
    lines = table(title, ["SDPA", "`A @ v`", *LOOKS])
    for batch, heads, tokens, causal in chosen:
        progress.print(f"[dim]{batch} × {heads} × {tokens} …")
        q, k, v = (normal(batch, heads, tokens, WIDTH) for _ in range(3))
        mask = regard.causal() if causal else None
        count = 3 if q.numel() * tokens > 2**32 else 7
        cells = looked_at(q, k, v, lambda q=q, k=k, v=v, c=causal: sdpa(q, k, v, is_causal=c), count, mask=mask)
        name = f"{tokens:,}" if "tokens" in title else f"{batch} × {heads} heads × {tokens} × {WIDTH}"
        lines.append(f"| {name}{' causal' if causal and 'tokens' not in title else ''} | {' | '.join(cells)} |")
    return lines


def gradients() -> list[str]:
    names = ["SDPA, forward and backward", "`A @ v`", *(f"through {name}" for name in THROUGH)]
    lines = table("gradients (causal)", names)
    single, half = torch.float32, torch.bfloat16
    for batch, heads, tokens, dtype in ((1, 8, 2_048, single), (1, 8, 2_048, half), (64, 12, 128, single)):
        progress.print(f"[dim]gradients, {tokens}, {dtype} …")
        q, k, v = (normal(batch, heads, tokens, WIDTH, dtype=dtype).requires_grad_() for _ in range(3))
        x = normal(batch, heads, tokens, WIDTH, dtype=dtype)

        def matrix(q: Tensor = q, k: Tensor = k) -> Any:
            return regard.AttentionMatrix(q, k, mask=regard.causal())

        calls: dict[str, Callable[[], Any]] = {
            "sdpa": lambda q=q, k=k, v=v, x=x: torch.autograd.grad(sdpa(q, k, v, is_causal=True), (q, k, v), x),
            "A @ v": lambda q=q, k=k, v=v, x=x, A=matrix: torch.autograd.grad(A() @ v, (q, k, v), x),
        }
        for name, look in THROUGH.items():
            calls[name] = lambda q=q, k=k, x=x, A=matrix, look=look: torch.autograd.grad(
                look(A(), x).float().sum(), (q, k)
            )
        cells = compared(calls, 3)
        kind = str(dtype).removeprefix("torch.")
        lines.append(f"| {batch} × {heads} heads × {tokens:,} × {WIDTH}, {kind} | {' | '.join(cells)} |")
    return lines


def decoding() -> list[str]:
    names = ["SDPA", "`A @ v`", "`received`", f"`top({TOP})`", "`A[..., 0, :]`", "`entropy`"]
    lines = table(f"1 query × {KEYS:,} keys × 128", names)
    for heads, key_heads, dtype in ((32, 8, torch.float32), (8, 8, torch.float32), (32, 8, torch.bfloat16)):
        progress.print(f"[dim]decoding, {heads}/{key_heads} heads, {dtype} …")
        q = normal(1, heads, 1, 128, dtype=dtype)
        k, v = (normal(1, key_heads, KEYS, 128, dtype=dtype) for _ in range(2))
        A = regard.AttentionMatrix(q, k)
        _ = A @ v
        calls: dict[str, Callable[[], Any]] = {
            "sdpa": lambda q=q, k=k, v=v: sdpa(q, k, v),
            "A @ v": lambda q=q, k=k, v=v: regard.AttentionMatrix(q, k) @ v,
            "received": A.received, "top": lambda A=A: A.top(TOP), "row": lambda A=A: A[..., 0, :],
            "entropy": A.entropy,
        }  # fmt: skip
        kind = str(dtype).removeprefix("torch.")
        lines.append(f"| {heads}/{key_heads} heads, {kind} | {' | '.join(compared(calls, 7))} |")
    return lines


def transposed() -> list[str]:
    lines = table("`A.mT @ x` (width 64, float32)", ["SDPA", "`A @ v`", "`A.mT @ x`"])
    for batch, heads, tokens, causal in ((1, 8, 4_096, True), (1, 8, 4_096, False), (64, 12, 128, False)):
        progress.print(f"[dim]A.mT @ x, {tokens} …")
        q, k, v = (normal(batch, heads, tokens, WIDTH) for _ in range(3))
        mask = regard.causal() if causal else None
        A = regard.AttentionMatrix(q, k, mask=mask)
        _ = A @ v
        calls: dict[str, Callable[[], Any]] = {
            "sdpa": lambda q=q, k=k, v=v, c=causal: sdpa(q, k, v, is_causal=c),
            "A @ v": lambda q=q, k=k, v=v, mask=mask: regard.AttentionMatrix(q, k, mask=mask) @ v,
            "A.mT @ x": lambda A=A, v=v: A.mT @ v,
        }
        name = f"{batch} × {heads} heads × {tokens:,}{' causal' if causal else ''}"
        lines.append(f"| {name} | {' | '.join(compared(calls, 5))} |")
    return lines


SECTIONS = {
    "Masks": masks, "Lengths": lengths, "Short rows": short, "What bounds short rows": bounds, "Gradients": gradients,
    "Decoding": decoding, "Transposed": transposed,
}  # fmt: skip
DOCS = Path(__file__).parents[1] / "docs" / "benchmarks.md"


def into_docs(sections: dict[str, list[str]], report: str) -> None:
    """Put the tables that docs/benchmarks.md shows in their places there."""
    text = DOCS.read_text()
    for mark, name in (("wild-cpu", "Masks"), ("short-cpu", "Short rows")):
        before, rest = text.split(f"<!-- {mark} -->\n")
        text = "\n".join([f"{before}<!-- {mark} -->", *sections[name], f"<!-- /{mark} -->"])
        text += rest.split(f"<!-- /{mark} -->")[1]
    DOCS.write_text(re.sub(r"reports/[^/]*-wild-cpu\.md", f"reports/{report}", text))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--report", action="store_true", help="write benchmarks/reports/DATE-wild-cpu.md, and its tables into the docs"
    )
    parser.add_argument("--only", nargs="*", choices=[name.split()[0].lower() for name in SECTIONS])
    options = parser.parse_args()
    if options.report and options.only:
        parser.error("a report holds all sections")
    torch.manual_seed(0)
    made = {
        name: section()
        for name, section in SECTIONS.items()
        if not options.only or name.split()[0].lower() in options.only
    }
    lines = ["# In the wild, on a CPU", "", f"{machine()}. The least of several rounds, calls taken in turn.", ""]
    for name, section in made.items():
        lines += [f"## {name}", "", *section, ""]
    text = "\n".join([*lines, "Made by `python benchmarks/wild_cpu.py --report`."])
    print(text)
    if options.report:
        path = Path(__file__).parent / "reports" / f"{date.today()}-wild-cpu.md"
        path.write_text(text + "\n")
        into_docs(made, path.name)
        progress.print(f"[green]kept in {path.name}, its tables in docs/benchmarks.md")


if __name__ == "__main__":
    main()
