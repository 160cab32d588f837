"""What it costs to monitor the heads of a GPT while it trains, beside the same numbers from eager attention.

python benchmarks/monitor.py            a small GPT on a CPU; on a GPU one of 124 million parameters, bf16
python benchmarks/monitor.py --report   and keep the tables in benchmarks/reports/
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from measure import GPU, arguments, run, table, wait, ways
from torch import Tensor, nn
from torch.nn import functional

import regard
from regard.watching.training.head_numbers import MEANINGS

DEVICE = "cuda" if GPU else "cpu"
WIDTH, LAYERS, HEADS, WORDS = (768, 12, 12, 50_304) if GPU else (256, 4, 4, 2_048)
BATCH, TOKENS = (8, 1024) if GPU else (4, 256)
EVERY, STEPS, TURNS = (50, 100, 3) if GPU else (50, 50, 3)


class Block(nn.Module):
    """As in nanoGPT; by hand it returns the weights too."""

    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2))
        self.project, self.output = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.feed = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x: Tensor, seen: list[tuple[Tensor, Tensor, Tensor]] | None = None) -> Tensor:
        query, key, value = self.project(self.norms[0](x)).unflatten(-1, (3, HEADS, -1)).movedim(-3, 0).transpose(2, 3)
        if seen is None:
            mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        else:
            hidden = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1)
            scores = (query @ key.mT / query.shape[-1] ** 0.5).float().masked_fill(hidden, -torch.inf)
            weights = scores.softmax(-1)
            mixed = weights.to(value.dtype) @ value
            seen.append((scores, weights, mixed))
        x = x + self.output(mixed.transpose(1, 2).flatten(2))
        return x + self.feed(self.norms[1](x))


class GPT(nn.Module):
    """Words in, logits of the next word out."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(TOKENS, WIDTH)
        self.layers = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WORDS, bias=False)
        self.head.weight = self.words.weight

    def forward(self, ids: Tensor, seen: list[Any] | None = None) -> Tensor:
        x = self.words(ids) + self.places.weight
        for layer in self.layers:
            x = layer(x, seen)
        return self.head(self.norm(x))


class Training:
    """A compiled model with its optimizer, the same each time."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.model = GPT().to(DEVICE)
        self.compiled = torch.compile(self.model)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), 3e-4, fused=True)
        self.ids = torch.randint(WORDS, (BATCH, TOKENS + 1), device=DEVICE)

    def step(self) -> None:
        with autocast():
            logits = self.compiled(self.ids[:, :-1])
            loss = functional.cross_entropy(logits.flatten(0, 1), self.ids[:, 1:].flatten())
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)

    @torch.no_grad()
    def by_hand(self) -> list[Tensor]:
        """The numbers of `regard.monitor` from eager attention, whose weights are stored."""
        seen: list[Any] = []
        with autocast():
            self.model(self.ids[:, :-1], seen)
        possible = torch.arange(1, TOKENS + 1, device=DEVICE).log().sum()
        found = []
        for scores, weights, mixed in seen:
            entropy = torch.special.entr(weights).sum(-1)
            found += [
                scores.amax((0, 2, 3)), entropy.mean((0, 2)), entropy[:, :, 1:].amin((0, 2)),
                entropy.sum((0, 2)) / (BATCH * possible), weights.sum(2).amax(-1).mean(0) / TOKENS,
                weights.diagonal(0, 2, 3).mean((0, 2)), weights.diagonal(-1, 2, 3).sum(-1).mean(0) / TOKENS,
                weights.amax(-1).mean((0, 2)), mixed.float().norm(dim=-1).mean((0, 2)),
            ]  # fmt: skip
        return [numbers.cpu() for numbers in found]


def autocast() -> Any:
    return torch.autocast(DEVICE, torch.bfloat16, enabled=GPU)


def one_step() -> list[str]:
    """A plain step, and one that is sampled, in each way."""
    training = Training()
    monitor = regard.monitor(training.model, every=1)

    def sampled() -> None:
        training.step()
        with autocast():
            monitor.step(training.ids[:, :-1])

    def sampled_by_hand() -> None:
        training.step()
        training.by_hand()

    calls: dict[str, Callable[[], Any]] = {
        "plain": training.step, "sampled by `regard.monitor`": sampled, "sampled by eager attention": sampled_by_hand,
    }  # fmt: skip
    sampled()
    with autocast():
        numbers = monitor.sample(training.ids[:, :-1])
    pairs = zip([*monitor.samples[-1].layers["layer00"].values()], training.by_hand()[: len(MEANINGS)], strict=True)
    apart = max(float((torch.tensor(ours) - theirs).abs().max() / theirs.abs().max()) for ours, theirs in pairs)
    lines = ways(f"a step of {BATCH} × {TOKENS:,} tokens", calls, 9)
    return [
        *lines,
        "",
        f"{len(numbers)} numbers; those of the first layer differ by {apart:.1e} of the largest at most.",
    ]


def whole_training() -> list[str]:
    """Tokens per second with a sample at every 50th step and without, in turns."""
    speeds: dict[str, list[float]] = {"without": [], "with `every=50`": []}
    training = Training()
    monitor = regard.monitor(training.model, every=EVERY)
    training.step()
    with autocast():
        monitor.sample(training.ids[:, :-1])
    for _ in range(TURNS):
        for name, kept in speeds.items():
            wait()
            start = time.perf_counter()
            for _ in range(STEPS):
                training.step()
                if name != "without":
                    with autocast():
                        monitor.step(training.ids[:, :-1])
            wait()
            kept.append(STEPS * BATCH * TOKENS / (time.perf_counter() - start))
    plain = statistics.median(speeds["without"])
    rows = [
        [name, f"{statistics.median(each):,.0f} ({max(each):,.0f})", f"{statistics.median(each) / plain:.3f} ×"]
        for name, each in speeds.items()
    ]
    return table([f"{STEPS} steps, {TURNS} turns", "tokens per second (most)", "of the first"], rows)


SECTIONS: dict[str, Callable[[], list[str]]] = {"One step": one_step, "A training": whole_training}


def main() -> None:
    options = arguments(__doc__).parse_args()
    size = sum(parameter.numel() for parameter in GPT().parameters()) / 1e6
    how = f"A GPT of {size:.0f} million parameters, {LAYERS} layers of {HEADS} heads, compiled, "
    how += "bf16 by autocast." if GPU else "float32."
    run(f"Monitoring on a {'GPU' if GPU else 'CPU'}", how, SECTIONS, "watching matrix backends", options)


if __name__ == "__main__":
    main()
