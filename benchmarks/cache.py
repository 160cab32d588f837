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
from typing import Any, NamedTuple

import torch
import transformers
from measure import GPU, Times, arguments, llama, rounds, run, table, wait
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

import regard
from regard.watching.questions.cache import RULES, cache_scores


class Shape(NamedTuple):
    """Of one layer, and of the model that writes."""

    heads: int
    key_heads: int
    width: int  # of a head
    tokens: tuple[int, ...]
    caches: tuple[tuple[int, int], ...]  # of a step: texts, and keys of each
    dtype: torch.dtype


LARGE = Shape(32, 8, 128, (4_096, 16_384, 65_536, 131_072), ((1, 16_384), (1, 131_072)), torch.bfloat16)
SMALL = Shape(8, 2, 64, (1_024, 4_096, 16_384), ((1, 256), (1, 4_096)), torch.float32)
SHAPE, DEVICE = (LARGE, "cuda") if GPU else (SMALL, "cpu")
DENSE = 4_096  # tokens up to which the weights are computed too, to compare with
LAYERS = 16 if GPU else 4
STEPS = 256  # that are timed together: so many are reduced at once


# After a prompt


def by_weights(query: Tensor, key: Tensor, groups: int) -> Tensor:
    """H2O as eager attention gives it: all weights in the dtype of the model, then their sums."""
    scores = query @ key.repeat_interleave(groups, 1).mT * query.shape[-1] ** -0.5
    hidden = torch.ones(scores.shape[-2:], dtype=torch.bool, device=query.device).triu(1)
    weights = scores.masked_fill(hidden, -torch.inf).softmax(-1, dtype=torch.float32)
    return weights.sum(2).reshape(len(query), key.shape[1], groups, -1).mean(2)


def prompt(tokens: int) -> list[str]:
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

    def plain() -> Tensor:
        return scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)

    groups = SHAPE.heads // SHAPE.key_heads
    calls = {"SDPA": plain} | {by: lambda by=by: scored(by) for by in RULES}
    if tokens <= DENSE:
        calls["eager"] = lambda: by_weights(query, key, groups)
    base, *others = rounds(calls, 5).values()
    cells = [f"{tokens:,}", base.ms(), *(f"{one.median / base.median:.2f} ×" for one in others)]
    if tokens <= DENSE:
        dense = by_weights(query.double(), key.double(), groups)
        cells.append(f"{(scored('h2o') - dense).abs().max() / dense.max():.1e}")
    return cells


def prompts() -> list[str]:
    """Attention and scores together, as ratios to SDPA alone."""
    columns = ["tokens", "SDPA", *(f"`{by}`" for by in RULES), "eager's weights", "h2o, largest error"]
    about = 'Attention and scores together, of SDPA alone. "Eager\'s weights": all weights and their sums, no product.'
    return [about, "", *table(columns, [prompt(tokens) for tokens in SHAPE.tokens])]


# While it writes


def step_of(model: Any, texts: int, keys: int, watched: bool) -> float:
    """Seconds of a step on so many keys: the mean of as many as are reduced at once, after a few that warm up."""
    cache, config = transformers.DynamicCache(), model.config
    shape = (texts, config.num_key_value_heads, keys, config.hidden_size // config.num_attention_heads)
    for layer in range(config.num_hidden_layers):
        cache.update(*(torch.randn(shape, dtype=model.dtype, device=model.device) for _ in range(2)), layer)
    token = torch.zeros(texts, 1, dtype=torch.long, device=model.device)
    block = regard.watch(model, keep="received") if watched else contextlib.nullcontext()
    with torch.no_grad(), block:
        for count in (8, STEPS):
            wait()
            start = time.perf_counter()
            for _ in range(count):
                model(token, past_key_values=cache, use_cache=True)
            wait()
        return (time.perf_counter() - start) / STEPS


def writing() -> list[str]:
    """Each length both ways, taken in turn, the first of each not counted."""
    model = llama(SHAPE.heads * SHAPE.width, LAYERS)
    rows = []
    for texts, keys in SHAPE.caches:
        found: dict[bool, list[float]] = {False: [], True: []}
        for _ in range(4):
            for watched, times in found.items():
                times.append(step_of(model, texts, keys, watched))
        plain, ours = (Times(statistics.median(times[1:]), min(times[1:])) for times in found.values())
        ratio = f"{ours.median / plain.median:.3f} × ({ours.least / plain.least:.3f})"
        rows.append([f"{texts} × {keys:,}", plain.ms(), ours.ms(), ratio])
    columns = ["texts × keys", "a step, plain (SDPA)", 'watched, `keep="received"`', "of plain, medians (least)"]
    return [f"{LAYERS} layers; each the mean of {STEPS} steps.", "", *table(columns, rows)]


def main() -> None:
    options = arguments(__doc__).parse_args()
    transformers.logging.set_verbosity_error()
    how = (
        f"{SHAPE.heads}/{SHAPE.key_heads} heads × {SHAPE.width}, causal, {str(SHAPE.dtype).removeprefix('torch.')}, "
        "random weights, a cache of random keys and values. Calls taken in turn; medians, in brackets the least."
    )
    sections = {"After a prompt": prompts, "While it writes": writing}
    run("What a cache may forget", how, sections, "watching matrix backends", options)


if __name__ == "__main__":
    main()
