"""What bounds the figures of wild_gpu.py that are above what was asked, each measured beside its bound, in one run.

python benchmarks/bounds_gpu.py             time, print
python benchmarks/bounds_gpu.py --report    and keep it in benchmarks/reports/
"""

from __future__ import annotations

import argparse
import math
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import Any

import torch
from bounds_calls import Row, first, handed
from measure import gpu
from sight_gpu import made, timed
from torch import Tensor
from wild_gpu import HEADS, KEY_HEADS, TOKENS, WIDTH, sdpa

import regard
from regard.backends import Attend, Entropy, Pool, Received, Top, TransposedProduct
from regard.backends.triton import backend, reduce_launch, tuning
from regard.backends.triton.launch import normaliser

KEPT = 6_000  # of the tokens, where the rest is padding
ODD = {1_000: 1_024, 2_000: 2_048, 3_000: 4_096}  # tokens, and the next power of two
KEYS = 131_072  # that one query looks at
SMALL = (64, 12, 12, 512, 64)  # batch, heads, key heads, tokens, width


def tried(call: Callable[[], Any], rounds: int = 9) -> float:
    """As `timed`; inf where a kernel cannot be built."""
    try:
        return timed(call, rounds)
    except Exception as error:
        print(f"    {type(error).__name__}: {str(error)[:150]}", flush=True)
        return math.inf


@contextmanager
def blocks(name: str, kind: int, chosen: tuple[int, int, int, int, int]) -> Iterator[None]:
    """Another block size for one kernel."""
    before, tuning.BLOCKS[name][kind] = tuning.BLOCKS[name][kind], chosen
    try:
        yield
    finally:
        tuning.BLOCKS[name][kind] = before


def bandwidth(size: int) -> float:
    """Bytes per second, read and written, of copies of so many bytes; small ones stay in the cache."""
    source = torch.empty(size, dtype=torch.int8, device="cuda").random_()
    target = torch.empty_like(source)
    target.copy_(source)
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(50):
        target.copy_(source)
    end.record()
    torch.cuda.synchronize()
    return 50 * 2 * size / start.elapsed_time(end) * 1e3


# Products and reductions of long rows


def padding() -> list[Row]:
    """How much of a padded product is the kernel, and how much is the mask."""
    q, k, v = made(1, HEADS, KEY_HEADS, TOKENS, WIDTH)
    causal, keep = regard.causal(), (torch.arange(TOKENS, device="cuda") < KEPT)[None]
    mask = causal & regard.padding(keep)
    pairs = TOKENS * (TOKENS + 1) // 2
    seen = KEPT * (KEPT + 1) // 2 + (TOKENS - KEPT) * KEPT
    peer = timed(lambda: sdpa(q, k, v, is_causal=True))
    ours = timed(lambda: regard.AttentionMatrix(q, k, mask=mask) @ v)
    plain_scores = regard.AttentionMatrix(q, k, mask=causal)._core.data
    plain = timed(lambda: backend.forward(plain_scores, Attend(v)))
    rates = {name: 4 * HEADS * WIDTH * n / t / 1e9 for name, n, t in (("SDPA", pairs, peer), ("plain", pairs, plain))}
    rates["padded"] = 4 * HEADS * WIDTH * seen / ours / 1e9
    choices = [(64, 64, 4, 3, 0), (64, 64, 4, 2, 0), (64, 128, 4, 2, 0), (128, 64, 8, 3, 0), (128, 64, 4, 3, 0),
               (128, 128, 8, 2, 0)]  # fmt: skip
    found = {}
    for choice in choices:
        with blocks("forward", 1, choice):
            found[choice] = tried(lambda: regard.AttentionMatrix(q, k, mask=mask) @ v)
    print("    blocks:", ", ".join(f"{c[:4]} {t:.3f} ms" for c, t in found.items()))
    best = min(found, key=lambda c: found[c])
    why = (
        f"The same kernel without padding takes {plain:.2f} ms ({rates['plain']:.0f} TFLOP/s; cuDNN's, which takes no "
        f"such mask, {peer:.2f} ms and {rates['SDPA']:.0f}); padding hides {1 - seen / pairs:.0%} of the pairs, and "
        f"runs at {rates['padded']:.0f}. Best of {len(choices)} block sizes: {best[0]} × {best[1]}, "
        f"{found[best]:.2f} ms."
    )
    return [Row("causal & right padding, `A @ v`", "1.0 ms", f"{ours:.2f} ms", f"{plain * seen / pairs:.2f} ms", why)]


def bias() -> list[Row]:
    """A summary with a bias: what its two passes take without it, and what reading it adds."""
    q, k, v = made(1, HEADS, KEY_HEADS, TOKENS, WIDTH)
    dense = torch.randn(TOKENS, TOKENS, device="cuda", dtype=torch.bfloat16)
    A, plain = regard.AttentionMatrix(q, k, mask=regard.bias(dense)), regard.AttentionMatrix(q, k)
    product = timed(lambda: regard.AttentionMatrix(q, k, mask=regard.bias(dense)) @ v)
    product_plain = timed(lambda: plain @ v)
    A @ v
    whole = timed(lambda: A.summary(pool=256, top=8), 9)
    passes: dict[str, list[float]] = {}
    for name, requests in {"top": [Top(8)], "sums": [Received(), Entropy(), Pool(256, 256)]}.items():
        for matrix in (A, plain):
            scores, lse = matrix._core.data, matrix._core.lse()
            passes.setdefault(name, []).append(
                timed(lambda s=scores, e=lse, r=requests: backend.reduce(s, e, r), 9)  # type: ignore[misc]
            )
    size = 2 * TOKENS**2
    memory, added = bandwidth(2**30), product - product_plain
    parts = ", ".join(
        f"{name} {took:.2f} ms ({without:.2f} without a bias)" for name, (took, without) in passes.items()
    )
    why = (
        f"Passes: {parts}. A pass reads the {size / 2**20:.0f} MiB of bias once for each of {HEADS} heads, most of it "
        f"from the cache: once from memory ({memory / 1e12:.1f} TB/s) it would take {size / memory * 1e3:.2f} ms. "
        f"cuDNN's product takes {product:.2f} ms, {product_plain:.2f} without a bias; if a bias added as little to our "
        f"two passes as to cuDNN's one, they would take the bound."
    )
    bound = sum(without + added for _, without in passes.values())
    return [Row("bias of N × N, `summary(pool=256, top=8)`", "6.4 ms", f"{whole:.2f} ms", f"{bound:.2f} ms", why)]


def odd() -> list[Row]:
    """Pools at odd lengths: the same kernel where bins are aligned, and passes that add up no bins."""
    rows = []
    for tokens, power in ODD.items():
        taken = {}
        for n in (tokens, power):
            q, k, v = made(1, 16, 4, n, 128)
            A = regard.AttentionMatrix(q, k, mask=regard.causal())
            A @ v
            scores, norm = A._core.data, normaliser(A._core.lse())
            taken[n] = {
                "pool": timed(lambda A=A: A.pool(256, 256)), "received": timed(A.received),  # type: ignore[misc]
                "bins": timed(lambda s=scores, m=norm: reduce_launch.bins(s, m, Pool(256, 256))),  # type: ignore[misc]
            }  # fmt: skip
        own, even = taken[tokens], taken[power]
        found = {}
        if tokens != 2_000:  # compiling takes a second and a half each
            q, k, v = made(1, 16, 4, tokens, 128)
            A = regard.AttentionMatrix(q, k, mask=regard.causal())
            A @ v
            for choice in [(64, 128, 4, 2, 0), (64, 128, 8, 2, 0), (64, 64, 4, 2, 0), (128, 128, 8, 2, 0)]:
                with blocks("bins", 1, choice):
                    found[choice] = tried(lambda A=A: A.pool(256, 256))  # type: ignore[misc]
            print("    blocks:", ", ".join(f"{c[:4]} {t:.3f} ms" for c, t in found.items()))
        computed, needed, straddling = tiles(tokens, 256)
        best = f" Best of {len(found)} block sizes {min(found.values()):.3f} ms." if found else ""
        why = (
            f"At {power:,} tokens, where bins are powers of two, `pool` takes {even['pool']:.3f} ms, and this kernel, "
            f"for bins of any size, {even['bins']:.3f}. It computes {computed / needed:.2f} × the pairs that are seen: "
            f"its tiles begin where bins do (of a regular grid, {straddling:.0%} would cut a bin). A pass without "
            f"bins, `received`, takes {own['received']:.3f}.{best}"
        )
        asked, ratio = f"1.3 × that of {power:,}: {1.3 * even['pool']:.3f} ms", own["pool"] / even["pool"]
        bound = even["bins"] * (tokens / power) ** 2
        about, measured = f"`pool(256, 256)`, {tokens:,} tokens", f"{own['pool']:.3f} ms ({ratio:.1f} ×)"
        rows.append(Row(about, asked, measured, f"{bound:.3f} ms", why))
    return rows


def tiles(tokens: int, bins: int) -> tuple[int, int, float]:
    """(pairs in the tiles that are computed, pairs that are seen, share of tiles of a regular grid that cut a bin)."""
    block_m, block_n, *_ = tuning.BLOCKS["bins"][1]
    size = -(-tokens // bins)
    together, mine = max(block_m // size, 1), max(block_n // size, 1)
    edges = [n * tokens // bins for n in range(bins + 1)]
    count = 0
    for own in range(0, bins, mine):
        groups = [g for g in range(0, bins, together) if edges[min(g + together, bins)] > edges[own]]
        count += len(groups)
    starts = set(edges)
    cut = 1 - sum(n in starts for n in range(0, tokens, block_m)) / -(-tokens // block_m)
    across = 1 - sum(n in starts for n in range(0, tokens, block_n)) / -(-tokens // block_n)
    return count * block_m * block_n, tokens * (tokens + 1) // 2, 1 - (1 - cut) * (1 - across)


# One query


def one_query() -> list[Row]:
    """`top` of one query: reading the keys, and choosing from what they gave, each alone; other ways to choose."""

    def normal(heads: int, tokens: int) -> Tensor:
        return torch.randn(1, heads, tokens, WIDTH, device="cuda", dtype=torch.bfloat16)

    q, k, v = normal(HEADS, 1), normal(KEY_HEADS, KEYS), normal(KEY_HEADS, KEYS)
    peer = timed(lambda: sdpa(q, k, v))
    A = regard.AttentionMatrix(q, k)
    A @ v
    scores, norm = A._core.data, normaliser(A._core.lse())
    whole, received = timed(lambda: A.top(8)), timed(A.received)
    rows = reduce_launch.dense_rows(scores, norm, log2=True)
    reading = timed(lambda: reduce_launch.dense_rows(scores, norm, log2=True))
    choosing = timed(lambda: reduce_launch._top_of_few(rows, 8))

    def by_maxima(block: int) -> Any:
        parts = rows.unflatten(-1, (-1, block))
        best = parts.amax(-1).topk(8).indices
        return parts.gather(-2, best[..., None].expand(*best.shape, block)).flatten(-2).topk(8)

    ways = {
        f"blocks of {block}": tried(lambda b=block: reduce_launch._top_of_few(rows, 8, b))  # type: ignore[misc]
        for block in (32, 64, 256, 512)
    }
    ways["torch.topk"] = tried(lambda: rows.topk(8))
    ways |= {f"maxima in torch, of {block}": tried(lambda b=block: by_maxima(b)) for block in (64, 128, 512)}  # type: ignore[misc]
    print("    ways to choose:", ", ".join(f"{name} {t:.3f} ms" for name, t in ways.items()))
    nothing = timed(lambda: rows[0, 0, 0, :8].exp2())
    least = KEY_HEADS * KEYS * WIDTH * 2 / bandwidth(2**30) * 1e3
    way = min(ways, key=lambda name: ways[name])
    why = (
        f"Reading the keys and storing the rows takes {reading:.3f} ms (bytes of the keys alone {least:.3f}; "
        f"`received` {received:.3f}), choosing {choosing:.3f} (one tiny operator: {nothing:.3f}). The best of "
        f"{len(ways)} other ways to choose, {way}, takes {ways[way]:.3f}. SDPA reads keys and values in {peer:.3f}."
    )
    asked, bound = f"1.2 × SDPA: {1.2 * peer:.3f} ms", f"{reading + min(choosing, ways[way]):.3f} ms"
    about, measured = f"`top(8)` of one query × {KEYS:,} keys", f"{whole:.3f} ms ({whole / peer:.2f} ×)"
    return [Row(about, asked, measured, bound, why)]


def transposed() -> list[Row]:
    """The transposed product of small rows: its kernel alone, the bytes it moves, other block sizes."""
    q, k, v = made(*SMALL)
    A, x = regard.AttentionMatrix(q, k), torch.randn_like(q)
    A @ v
    peer, ours = timed(lambda: sdpa(q, k, v)), timed(lambda: A.mT @ x)
    scores, norm, product = A._core.data, normaliser(A._core.lse()), TransposedProduct(x, rounded=True)
    own = timed(lambda: reduce_launch.columns(scores, norm, product=product))
    in_float32 = timed(lambda: backend.reduce(scores, A._core.lse(), [TransposedProduct(x)])[0].to(x.dtype))  # type: ignore[union-attr]
    choices = [(64, 128, 4, 3, 0), (64, 64, 4, 3, 0), (128, 64, 4, 3, 0), (64, 64, 4, 2, 0), (128, 128, 8, 2, 0)]
    found = {}
    for choice in choices:
        with blocks("columns_product", 0, choice):
            found[choice] = tried(lambda: reduce_launch.columns(scores, norm, product=product))
    print("    blocks:", ", ".join(f"{c[:4]} {t:.3f} ms" for c, t in found.items()))
    moved = sum(t.numel() * t.element_size() for t in (q, k, x, x))
    least = moved / bandwidth(2**30) * 1e3
    with_lse = timed(lambda: backend.forward(scores, Attend(v)))
    why = (
        f"Its one kernel takes {own:.3f} ms (best of {len(choices)} block sizes {min(found.values()):.3f}), our "
        f"forward of the same shapes {with_lse:.3f}, cuDNN's {peer:.3f}. The bytes alone: {least:.3f} ms. In float32, "
        f"rounded afterwards it takes {in_float32:.3f}."
    )
    about = f"`A.mT @ x`, {SMALL[0]} × {SMALL[1]} heads × {SMALL[3]} × {SMALL[4]}"
    asked, measured = f"1.2 × SDPA: {1.2 * peer:.3f} ms", f"{ours:.3f} ms ({ours / peer:.2f} ×)"
    return [Row(about, asked, measured, f"{min(*found.values(), own):.3f} ms", why)]


SECTIONS = {
    "padding": padding, "bias": bias, "odd": odd, "one_query": one_query, "transposed": transposed, "handed": handed,
    "first": first,
}  # fmt: skip


def main() -> None:
    """Time, print; keep it if asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--report", action="store_true", help="write benchmarks/reports/DATE-bounds-gpu.md")
    parser.add_argument("--only", nargs="*", choices=list(SECTIONS), help="some sections")
    options = parser.parse_args()
    torch.manual_seed(0)
    head = [
        "# What bounds the figures above what was asked", "",
        f"{gpu()}, bf16 unless said; medians by CUDA events, the cache swept in between. Bound: what its parts take at "
        "the rates measured in this run.", "",
        "| figure | asked | measured | bound | what bounds it |", "| --- | --- | --- | --- | --- |",
    ]  # fmt: skip
    lines: list[str] = []
    for name in options.only or SECTIONS:
        began = time.perf_counter()
        print(f"{name} …", flush=True)
        try:
            with torch.no_grad():
                rows = SECTIONS[name]()
        except Exception:  # the other sections are worth having
            traceback.print_exc()
            continue
        finally:
            torch.cuda.empty_cache()
            print(f"    {time.perf_counter() - began:.0f} s", flush=True)
        for row in rows:
            lines.append("| " + " | ".join(row) + " |")
            print(lines[-1], flush=True)
        if options.report:
            text = "\n".join([*head, *lines, "", "Made by `python benchmarks/bounds_gpu.py --report`.", ""])
            (Path(__file__).parent / "reports" / f"{date.today()}-bounds-gpu.md").write_text(text)
    print("\n" + "\n".join([*head, *lines]))


if __name__ == "__main__":
    main()
