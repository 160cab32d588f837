"""What it costs to know which keys of a cache may be forgotten: after a prompt, and step by step while a model writes.

python benchmarks/cache.py            on a GPU: 32/8 heads × 128, up to 131,072 tokens, bf16; on a CPU smaller
python benchmarks/cache.py --report   and keep it in benchmarks/reports/

After a prompt: one layer's attention with the scores of each rule, beside SDPA alone. While it writes: a step of a
Llama shape with random weights, plain and with the sums of H2O (`watch(model, keep="received")`).
"""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import transformers
from atlas import llama
from measure import GPU, arguments, attempt, keep_report, where
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

import regard
from regard.watching.cache import RULES, cache_scores


class Shape(NamedTuple):
    """Of one layer, and of the model that writes."""

    heads: int
    key_heads: int
    width: int  # of a head
    tokens: tuple[int, ...]
    caches: tuple[tuple[int, int], ...]  # of a step: texts, and keys of each
    dtype: torch.dtype


LARGE = Shape(32, 8, 128, (4_096, 16_384, 65_536, 131_072), ((1, 16_384), (1, 131_072), (8, 131_072)), torch.bfloat16)
SMALL = Shape(8, 2, 64, (1_024, 4_096, 16_384), ((1, 256), (1, 4_096)), torch.float32)
SHAPE, DEVICE = (LARGE, "cuda") if GPU else (SMALL, "cpu")
DENSE = 4_096  # tokens up to which the weights are computed too, to compare with
STEPS = 256  # that are timed together: so many are reduced at once


def wait() -> None:
    if GPU:
        torch.cuda.synchronize()


# After a prompt


def milliseconds(call: Callable[[], object], rounds: int) -> float:
    taken = []
    for number in range(rounds + 1):
        wait()
        start = time.perf_counter()
        call()
        wait()
        if number:
            taken.append((time.perf_counter() - start) * 1e3)
    return statistics.median(taken)


def by_weights(query: Tensor, key: Tensor, groups: int) -> Tensor:
    """H2O as eager attention gives it: all weights in the dtype of the model, then their sums."""
    scores = query @ key.repeat_interleave(groups, 1).mT * query.shape[-1] ** -0.5
    hidden = torch.ones(scores.shape[-2:], dtype=torch.bool, device=query.device).triu(1)
    weights = scores.masked_fill(hidden, -torch.inf).softmax(-1, dtype=torch.float32)
    return weights.sum(2).reshape(len(query), key.shape[1], groups, -1).mean(2)


def prompt(tokens: int, rounds: int) -> list[str]:
    """The line of one length."""
    torch.manual_seed(0)
    query, key, value = (
        torch.randn(1, heads, tokens, SHAPE.width, dtype=SHAPE.dtype, device=DEVICE)
        for heads in (SHAPE.heads, SHAPE.key_heads, SHAPE.key_heads)
    )

    def scored(by: str) -> Tensor:
        matrix = regard.AttentionMatrix(query, key, mask=regard.causal())
        matrix @ value
        return cache_scores(matrix, by, SHAPE.key_heads)

    base = milliseconds(
        lambda: scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True), rounds
    )
    ratios = [milliseconds(lambda by=by: scored(by), rounds) / base for by in RULES]
    eager, error = "", ""
    if tokens <= DENSE:
        groups = SHAPE.heads // SHAPE.key_heads
        dense = by_weights(query.double(), key.double(), groups)
        eager = f"{milliseconds(lambda: by_weights(query, key, groups), rounds) / base:.1f} ×"
        error = f"{(scored('h2o') - dense).abs().max() / dense.max():.1e}"
    shown = " | ".join(f"{ratio:.2f} ×" for ratio in ratios)
    return [f"| {tokens:,} | {base:,.2f} ms | {shown} | {eager} | {error} |"]


# While it writes


def step_of(model: Any, texts: int, keys: int, watched: bool) -> float:
    """Milliseconds of a step on so many keys: the mean of as many as are reduced at once, after a few that warm up."""
    cache, config = transformers.DynamicCache(), model.config
    shape = (texts, config.num_key_value_heads, keys, config.hidden_size // config.num_attention_heads)
    for layer in range(config.num_hidden_layers):
        cache.update(*(torch.randn(shape, dtype=model.dtype, device=model.device) for _ in range(2)), layer)
    token = torch.zeros(texts, 1, dtype=torch.long, device=model.device)
    clock = time.perf_counter if GPU else time.process_time
    block = regard.watch(model, keep="received") if watched else contextlib.nullcontext()
    with torch.no_grad(), block:
        for count in (8, STEPS):
            wait()
            start = clock()
            for _ in range(count):
                model(token, past_key_values=cache, use_cache=True)
            wait()
        return (clock() - start) / STEPS * 1e3


def writing(model: Any, texts: int, keys: int, rounds: int) -> list[str]:
    """The lines of one length: both ways taken in turn, the first of each not counted."""
    found: dict[bool, list[float]] = {False: [], True: []}
    for number in range(rounds + 1):
        for watched, times in found.items():
            taken = step_of(model, texts, keys, watched)
            times += [taken] if number else []
    lines = []
    for watched, name in ((False, "plain (SDPA)"), (True, 'watched, `keep="received"`')):
        least, median = (
            [statistic(found[which]) for which in (watched, False)] for statistic in (min, statistics.median)
        )
        ratios = f"{least[0] / least[1]:.3f} × | {median[0] / median[1]:.3f} ×"
        lines.append(f"| {texts} × {keys:,} | {name} | {least[0]:.3f} ms | {ratios} |")
    return lines


def table(head: str, found: list[list[str] | str], names: list[str]) -> list[str]:
    """A table of lines, with what failed in the place of its line."""
    columns = head.count("|") - 1
    lines = [head, "| --- " * columns + "|"]
    for name, some in zip(names, found, strict=True):
        lines += [f"| {name} | {some} |" + " |" * (columns - 2)] if isinstance(some, str) else some
    return lines


def main() -> None:
    """Print the tables, and keep them if asked."""
    parser = arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--layers", type=int, default=4, help="of the model that writes")
    options = parser.parse_args()
    transformers.logging.set_verbosity_error()
    found: list[list[str] | str] = []
    for tokens in SHAPE.tokens:
        found.append(attempt(f"{tokens:,} tokens", lambda tokens=tokens: prompt(tokens, options.rounds)))
        print(found[-1], flush=True)
    rules = " | ".join(f"`{by}`" for by in RULES)
    after = table(
        f"| tokens | SDPA | {rules} | eager's weights | h2o, largest error |", found, [f"{n:,}" for n in SHAPE.tokens]
    )
    model = llama(SHAPE.heads * SHAPE.width, options.layers)
    found = []
    for texts, keys in SHAPE.caches:
        name = f"a step on {texts} × {keys:,} keys"
        found.append(attempt(name, lambda n=texts, keys=keys: writing(model, n, keys, 2 if GPU else 3)))
        print(found[-1], flush=True)
    names = [f"{texts} × {keys:,}" for texts, keys in SHAPE.caches]
    while_writing = table("| texts × keys | a step | least | to plain | medians to plain |", found, names)
    dtype = str(SHAPE.dtype).removeprefix("torch.")
    heads = f"{model.config.num_attention_heads}/{model.config.num_key_value_heads} heads"
    text = f"""# What a cache may forget

{where()}, transformers {transformers.__version__}.{options.note and " " + options.note}

## After a prompt

One layer, {SHAPE.heads}/{SHAPE.key_heads} heads × {SHAPE.width}, causal, {dtype}. Medians of {options.rounds} calls;
attention and scores together, as ratios to torch's `scaled_dot_product_attention` alone. "Eager's weights": all weights
and their sums, without the product by the values.

{chr(10).join(after)}

## While it writes

{options.layers} layers, width {SHAPE.heads * SHAPE.width}, {heads}, {dtype}, random weights, a cache of random keys and
values; the mean of {STEPS} steps, the ways taken in turn{"" if GPU else "; times are those of the processor"}.

{chr(10).join(while_writing)}
"""
    print(f"\n{text}")
    if options.report:
        keep_report(f"cache-{'gpu' if GPU else 'cpu'}", text)


if __name__ == "__main__":
    main()
