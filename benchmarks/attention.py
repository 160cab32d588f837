"""Attention and what can be asked of its matrix, beside F.scaled_dot_product_attention in the same run.

python benchmarks/attention.py            print the tables, on a GPU where there is one
python benchmarks/attention.py --report   and keep them in benchmarks/reports/
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import torch
from measure import (
    GPU,
    arguments,
    attempt,
    each,
    in_process,
    kernels,
    overhead,
    peak_extra,
    ratios,
    rounds,
    run,
    table,
    wait,
)  # fmt: skip
from torch import Tensor
from torch.nn import functional

import regard

DEVICE, DTYPE = ("cuda", torch.bfloat16) if GPU else ("cpu", torch.float32)
Shape = tuple[int, int, int, int, int, bool]  # batch, heads, key heads, tokens, width, causal
SHAPES: list[Shape] = [
    (1, 32, 8, 32_768, 128, True), (1, 32, 8, 8_192, 128, True), (1, 32, 32, 16_384, 64, False),
    (64, 12, 12, 512, 64, False),
] if GPU else [
    (1, 8, 8, 8_192, 64, True), (1, 8, 8, 8_192, 64, False), (1, 8, 8, 2_048, 64, True), (1, 8, 2, 4_096, 128, True),
    (1, 12, 12, 512, 64, False),
]  # fmt: skip
OTHERS: list[Shape] = [  # lengths that are no multiple of a block, and short rows
    *((1, 16, 4, tokens, 128, True) for tokens in ((1_000, 1_024, 3_000, 4_096, 10_000) if GPU else (1_000, 1_024))),
    *([] if GPU else [(64, 12, 12, 128, 64, False), (8, 12, 12, 77, 64, True)]),
]
MASKED = (32, 8, 8_192, 128) if GPU else (8, 8, 4_096, 64)  # heads, key heads, tokens, width
TRAINED: list[tuple[Shape, torch.dtype]] = [
    *((shape, torch.bfloat16) for shape in SHAPES), ((1, 8, 8, 4_096, 64, False), torch.float32),
    ((64, 12, 12, 512, 64, False), torch.float32),
] if GPU else [((1, 8, 8, 2_048, 64, True), torch.float32), ((64, 12, 12, 128, 64, True), torch.float32)]  # fmt: skip
LOOKS: dict[str, Callable[[Any], Any]] = {
    "`received`": lambda A: A.received(),
    "`entropy`": lambda A: A.entropy(),
    "`summary(top=1)`": lambda A: A.summary(top=1),
    "`summary(pool=256)`": lambda A: A.summary(pool=256),
    "+ `top=8`": lambda A: A.summary(pool=256, top=8),
}
THROUGH: dict[str, Callable[[Any, Tensor], Tensor]] = {
    "`entropy`": lambda A, x: A.entropy().square(),
    "`received`": lambda A, x: A.received().square(),
    "`pool(64, 64)`": lambda A, x: A.pool(64, 64).square(),
    "`logsumexp`": lambda A, x: A.logsumexp.square(),
    "`A.mT @ x`": lambda A, x: (A.mT @ x).square(),
}


def sdpa(q: Tensor, k: Tensor, v: Tensor, **options: Any) -> Tensor:
    return functional.scaled_dot_product_attention(q, k, v, enable_gqa=q.shape[1] != k.shape[1], **options)


def made(shape: Shape, dtype: torch.dtype = DTYPE) -> tuple[Tensor, Tensor, Tensor]:
    batch, heads, key_heads, tokens, width, _ = shape
    q, k, v = (torch.randn(batch, n, tokens, width, device=DEVICE).to(dtype) for n in (heads, key_heads, key_heads))
    return q, k, v


def named(shape: Shape) -> str:
    batch, heads, key_heads, tokens, width, causal = shape
    shared = f"{heads}/{key_heads}" if key_heads != heads else f"{heads}"
    return f"{batch} × {shared} heads × {tokens:,} × {width} {'causal' if causal else 'full'}"


@torch.no_grad()
def shape_row(shape: Shape) -> list[str]:
    """`A @ v`, and each look after it, once the normaliser is known."""
    q, k, v = made(shape)
    mask = regard.causal() if shape[-1] else None
    A = regard.AttentionMatrix(q, k, mask=mask)
    _ = A @ v
    calls: dict[str, Callable[[], Any]] = {
        "sdpa": lambda: sdpa(q, k, v, is_causal=shape[-1]),
        "`A @ v`": lambda: regard.AttentionMatrix(q, k, mask=mask) @ v,
        **{name: lambda look=look: look(A) for name, look in LOOKS.items()},
        "`A.mT @ x`": lambda: A.mT @ q,
        "cold `received`": lambda: regard.AttentionMatrix(q, k, mask=mask).received(),
    }
    base, *others = each(calls, 5 if not GPU and shape[3] > 4_096 else 15).values()
    return [named(shape), base.ms(), *ratios(others, base)]


def shapes(title: str, chosen: list[Shape]) -> list[str]:
    kind = str(DTYPE).removeprefix("torch.")
    columns = [f"{title} ({kind})", "SDPA", "`A @ v`", *LOOKS, "`A.mT @ x`", "cold `received`"]
    return table(columns, [shape_row(shape) for shape in chosen])


# Masks


def masks() -> dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any] | None]]:
    """What is asked of us, the same of SDPA, and as functions for FlexAttention; {} or None where it has none."""
    heads, _, tokens, _ = MASKED
    place, causal = torch.arange(tokens, device=DEVICE), regard.causal()
    most, size = 3 * tokens // 4, tokens // 8
    right, left, ids = (place < most)[None], (place >= tokens - most)[None], (place // size)[None]
    seen, bias = place <= place[:, None], torch.randn(tokens, tokens, device=DEVICE, dtype=DTYPE)

    def rule(hides: Callable[[Tensor, Tensor], Tensor]) -> dict[str, Any]:
        return {"mask_mod": lambda b, h, q, k: (k <= q) & hides(q, k)}

    def capped(score: Tensor, *_: Tensor) -> Tensor:
        return 50.0 * torch.tanh(score / 50.0)

    everything = {"mask_mod": lambda b, h, q, k: k <= q}
    return {
        "causal": ({"mask": causal}, {"is_causal": True}, everything),
        "causal & padding on the right": (
            {"mask": causal & regard.padding(right)}, {"attn_mask": seen & right}, rule(lambda q, k: k < most)
        ),
        "causal & padding on the left": (
            {"mask": causal & regard.padding(left)}, {"attn_mask": seen & left}, rule(lambda q, k: k >= tokens - most)
        ),
        "causal & 8 documents": (
            {"mask": causal & regard.documents(ids)}, {"attn_mask": seen & (ids == ids.mT)},
            rule(lambda q, k: q // size == k // size),
        ),
        "bias of N × N": ({"mask": regard.bias(bias)}, {"attn_mask": bias}, None),
        "causal & sinks": ({"mask": causal, "sinks": torch.zeros(heads, device=DEVICE)}, {}, None),
        "causal & softcap": ({"mask": causal, "softcap": 50.0}, {}, everything | {"score_mod": capped}),
    }  # fmt: skip


@torch.no_grad()
def masked() -> list[str]:
    """Each mask beside the fastest peer that computes the same."""
    heads, key_heads, tokens, width = MASKED
    shape = (1, heads, key_heads, tokens, width, True)
    q, k, v = made(shape)
    rows = []
    for name, (options, theirs, flexible) in masks().items():
        A = regard.AttentionMatrix(q, k, **options)
        _ = A @ v
        calls: dict[str, Callable[[], Any]] = {
            "`A @ v`": lambda o=options: regard.AttentionMatrix(q, k, **o) @ v,
            **{look: lambda call=call, A=A: call(A) for look, call in LOOKS.items()},
        }
        if theirs:
            calls["SDPA"] = lambda o=theirs: sdpa(q, k, v, **o)
        found = each(calls, 15 if GPU else 5)
        own, failed = [found[name] for name in calls if name != "SDPA"], ""
        peers = {"SDPA": found["SDPA"]} if theirs else {}
        if flexible is not None and GPU:
            took = attempt("FlexAttention", lambda f=flexible: kernels(flex(q, k, v, **f)))
            if isinstance(took, str):
                failed = f" (FlexAttention {took})"
            else:
                peers["FlexAttention"] = took
        if not peers:
            peers["SDPA, causal"] = each({"": lambda: sdpa(q, k, v, is_causal=True)}, 15 if GPU else 5)[""]
        best = min(peers, key=lambda name: peers[name].median)
        rows.append([name, f"{best}{failed}", peers[best].ms(), *ratios(own, peers[best])])
    return [f"{named(shape)[:-7]}, {DTYPE}.", "", *table(["mask", "peer", "its time", "`A @ v`", *LOOKS], rows)]


def flex(q: Tensor, k: Tensor, v: Tensor, mask_mod: Any, score_mod: Any = None) -> Callable[[], Tensor]:
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    compiled = torch.compile(flex_attention)
    block_mask = create_block_mask(mask_mod, None, None, q.shape[2], k.shape[2], device=DEVICE)
    return lambda: compiled(q, k, v, score_mod=score_mod, block_mask=block_mask, enable_gqa=q.shape[1] != k.shape[1])


# Gradients, one query, short calls


def gradients() -> list[str]:
    """Forward and backward, for query, key and value; through a look, for query and key."""
    columns = ["forward and backward", "SDPA", "`A @ v`", *(f"through {name}" for name in THROUGH)]
    return table(columns, [gradient_row(*case) for case in TRAINED])


def gradient_row(shape: Shape, dtype: torch.dtype) -> list[str]:
    q, k, v = leaves = [t.requires_grad_() for t in made(shape, dtype)]
    mask, x = regard.causal() if shape[-1] else None, torch.randn_like(q)

    def matrix() -> regard.AttentionMatrix:
        return regard.AttentionMatrix(q, k, mask=mask)

    calls: dict[str, Callable[[], Any]] = {
        "sdpa": lambda: torch.autograd.grad(sdpa(q, k, v, is_causal=shape[-1]), leaves, x),
        "`A @ v`": lambda: torch.autograd.grad(matrix() @ v, leaves, x),
    }
    for name, look in THROUGH.items():
        calls[name] = lambda look=look: torch.autograd.grad(look(matrix(), x).float().sum(), leaves[:2])
    base, *others = each(calls, 5).values()
    kind = str(dtype).removeprefix("torch.")
    return [f"{kind}, {named(shape)}", base.ms(), *ratios(others, base)]


@torch.no_grad()
def decoding() -> list[str]:
    """One query, as in a step of a generation."""
    keys = 131_072 if GPU else 32_768
    q = torch.randn(1, 32, 1, 128, device=DEVICE, dtype=DTYPE)
    k, v = torch.randn(2, 1, 8, keys, 128, device=DEVICE, dtype=DTYPE).unbind(0)
    A = regard.AttentionMatrix(q, k)
    _ = A @ v
    calls: dict[str, Callable[[], Any]] = {
        "sdpa": lambda: sdpa(q, k, v), "`A @ v`": lambda: regard.AttentionMatrix(q, k) @ v, "`received`": A.received,
        "`entropy`": A.entropy, "`top(8)`": lambda: A.top(8), "`summary(top=8)`": lambda: A.summary(top=8),
        "`A[..., 0, :]`": lambda: A[..., 0, :],
    }  # fmt: skip
    base, *others = each(calls, 9).values()
    columns = [f"1 query × {keys:,} keys, 32/8 heads × 128", "SDPA", *list(calls)[1:]]
    return table(columns, [[str(DTYPE).removeprefix("torch."), base.ms(), *ratios(others, base)]])


@torch.no_grad()
def short_calls() -> list[str]:
    """What a call costs where there is next to nothing to compute."""
    sizes = (64, 12, 512, 64) if GPU else (1, 8, 32, 64)
    q, k, v = torch.randn(3, *sizes, device=DEVICE, dtype=DTYPE).unbind(0)
    A = regard.AttentionMatrix(q, k)
    _ = A @ v
    calls: dict[str, Callable[[], Any]] = {
        "SDPA": lambda: sdpa(q, k, v), "`regard.attention`": lambda: regard.attention(q, k, v),
        "`AttentionMatrix(q, k) @ v`": lambda: regard.AttentionMatrix(q, k) @ v, "`received`": A.received,
        "`summary`": A.summary, "`summary(top=8)`": lambda: A.summary(top=8),
    }  # fmt: skip
    repeats = 20 if GPU else 200
    rows = [[name, f"{overhead(call, repeats):.0f} µs"] for name, call in calls.items()]
    return table([f"{' × '.join(map(str, sizes))}, {repeats} calls in a row", "the CPU's time for one"], rows)


def imports() -> list[str]:
    """The first use of regard, which imports torch, beside `import torch`, each in processes of its own."""
    # With bytecode kept, as users have it: where it is not, every import compiles regard anew.
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    lines = ("import torch", "import regard; regard.AttentionMatrix")
    found = rounds({c: lambda c=c: subprocess.run([sys.executable, "-c", c], check=True, env=kept) for c in lines}, 5)
    return table(["", "median (least)"], [[f"`{line}`", times.ms()] for line, times in found.items()])


def first_calls(kind: str) -> dict[str, float]:
    """Seconds of the first call of each kind, in this process."""
    q, k, v = torch.randn(3, 1, 8, 2048, 64, device=DEVICE, dtype=getattr(torch, kind)).unbind(0)
    A = regard.AttentionMatrix(q, k, mask=regard.causal())
    calls: dict[str, Callable[[], Any]] = {
        "A @ v": lambda: A @ v, "received": A.received, "entropy": A.entropy, "top(8)": lambda: A.top(8),
        "pool(256, 256)": lambda: A.pool(256, 256), "pool(60, 60)": lambda: A.pool(60, 60), "summary": A.summary,
        "summary(pool=256, top=8)": lambda: A.summary(pool=256, top=8), "A.mT @ x": lambda: A.mT @ q,
    }  # fmt: skip
    found = {}
    for name, call in calls.items():
        start = time.perf_counter()
        call()
        wait()
        found[name] = time.perf_counter() - start
    return found


def compiling() -> list[str]:
    """The first call of each kind in a new process with an empty cache of kernels."""
    found = []
    for kind in ("bfloat16", "float32"):
        with tempfile.TemporaryDirectory() as cache:
            found.append(in_process("--first-calls", kind, TRITON_CACHE_DIR=cache))
    rows = [[f"`{name}`", *(f"{one[name]:.2f} s" for one in found)] for name in found[0]]
    rows.append(["all", *(f"{sum(one.values()):.1f} s" for one in found)])
    return table(["the first call, in this order", "bfloat16", "float32"], rows)


# Long inputs


def stored() -> list[str]:
    """The plain way to see the weights: compute and keep them all."""
    shape = (1, 8, 8, 8_192, 64, True)
    q, k, v = made(shape)
    hidden = torch.ones(8_192, 8_192, dtype=torch.bool, device=DEVICE).triu(1)

    @torch.no_grad()
    def plain() -> Tensor:
        weights = (q @ k.mT * 64**-0.5).masked_fill_(hidden, -torch.inf).softmax(-1)
        return weights @ v

    @torch.no_grad()
    def ours() -> regard.Summary:
        A = regard.AttentionMatrix(q, k, mask=regard.causal())
        _ = A @ v
        return A.summary(top=8, pool=256)

    calls = {"plain softmax, weights stored": plain, "`A @ v` and `summary(top=8, pool=256)`": ours}
    found = rounds(calls, 3)
    base = next(iter(found.values()))
    rows = []
    for name, one in found.items():
        extra = 1024 * one.peak if GPU else peak_extra(calls[name]) * 1e6 / 2**20
        rows.append([name, one.ms(), *ratios([one], base), f"{extra:,.0f} MiB"])
    return table([named(shape), "median (least)", "of the first", "extra memory at its peak"], rows)


@torch.no_grad()
def long() -> list[str]:
    """A matrix that nobody could store; each call once, after one that compiles its kernels on a GPU."""
    tokens, heads, width = (2**20, 4, 128) if GPU else (100_000, 2, 64)
    q = torch.randn(1, heads, tokens, width, device=DEVICE, dtype=DTYPE)
    k, v = torch.randn(2, 1, 1 if GPU else heads, tokens, width, device=DEVICE, dtype=DTYPE).unbind(0)
    A = regard.AttentionMatrix(q, k, mask=regard.causal())
    bins, half = tokens // 1024 if GPU else 256, tokens // 2
    calls: dict[str, Callable[[], Any]] = {
        "A @ v": lambda: A @ v, f"A[..., {half:_}, :]": lambda: A[..., half, :],
        f"A.part[..., {half:_} : {half + 1000:_}, :].top(8)": lambda: A.part[..., half : half + 1000, :].top(8),
        "A.received()": A.received, f"A.pool({bins}, {bins})": lambda: A.pool(bins, bins),
    } | ({"A.top(8)": lambda: A.top(8)} if GPU else {})  # fmt: skip
    rows = []
    for name, call in calls.items():
        if GPU:
            call()
            wait()
            torch.cuda.reset_peak_memory_stats()
            held = torch.cuda.memory_allocated()
        start = time.perf_counter()
        result = call() if GPU else peak_extra(call)
        wait()
        taken = time.perf_counter() - start
        if GPU:
            results = result if isinstance(result, tuple) else (result,)
            own = sum(t.numel() * t.element_size() for t in results)
            extra = (torch.cuda.max_memory_allocated() - held - own) / 2**20
        else:
            extra = result * 1e6 / 2**20
        rows.append([f"`{name}`", f"{1e3 * taken:,.0f} ms", f"{extra:,.0f} MiB"])
        del result
    inputs = sum(t.numel() * t.element_size() for t in (q, k, v, q)) / 2**20
    weights = heads * tokens**2 * DTYPE.itemsize / 2**30
    about = f"{heads} heads × {tokens:,} × {width} causal; q, k, v and the output take {inputs:,.0f} MiB, the weights "
    memory = f"peak beyond them{' and the result' if GPU else ''}"
    return [f"{about}would take {weights:,.0f} GiB.", "", *table([f"{tokens:,} tokens", "time", memory], rows)]


SECTIONS = {
    "Shapes": lambda: shapes("shape", SHAPES), "Other lengths": lambda: shapes("other length", OTHERS),
    "Masks": masked, "Gradients": gradients, "Decoding": decoding, "Short calls": short_calls,
    "Against stored weights": stored, "Long": long, **({"First calls": compiling} if GPU else {"Import": imports}),
}  # fmt: skip
HOW = (
    "Ratios are those of the medians, to SDPA or to the peer that is named, the fastest, in the same run; after a time "
    "in brackets the least. Fresh random inputs. Looks come after `A @ v`, so that the row sums are known; "
)
HOW += "each call is timed by itself by CUDA events, the cache swept in between." if GPU else "calls are taken in turn."


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--first-calls", metavar="DTYPE", help="print what first calls take here, as JSON")
    options = parser.parse_args()
    torch.manual_seed(0)
    if options.first_calls:
        print(json.dumps(first_calls(options.first_calls)))
    else:
        run(f"Attention on a {'GPU' if GPU else 'CPU'}", HOW, SECTIONS, "matrix scores backends", options)


if __name__ == "__main__":
    main()
