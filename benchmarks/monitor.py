"""What it costs to monitor the heads of a GPT while it trains, beside the same numbers from eager attention.

python benchmarks/monitor.py            a small GPT on a CPU; on a GPU one of 124 million parameters, bf16
python benchmarks/monitor.py --report   and keep the tables in benchmarks/reports/
"""

from __future__ import annotations

import functools
import statistics
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from measure import GPU, arguments, run, table, wait, ways
from torch import Tensor, nn
from torch.nn import functional

import regard
from regard.watching.capture.session import Watching
from regard.watching.head_numbers import Measured, measure
from regard.watching.monitoring import Sample, alarms
from regard.watching.record.reductions import Keep
from regard.watching.record.tokens import Vocabulary

DEVICE = "cuda" if GPU else "cpu"
WIDTH, LAYERS, HEADS, WORDS = (768, 12, 12, 50_304) if GPU else (256, 4, 4, 2_048)
BATCH, TOKENS = (8, 1024) if GPU else (2, 256)
EVERY, TURNS = (50, 7) if GPU else (50, 3)
FEW = BATCH // 4 or 1  # texts, where a sample takes only some of the batch


class Block(nn.Module):
    """As in nanoGPT; by hand it returns the weights too."""

    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2))
        self.project, self.output = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.feed = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x: Tensor, see: Callable[[Tensor, Tensor, Tensor], object] | None = None) -> Tensor:
        query, key, value = self.project(self.norms[0](x)).unflatten(-1, (3, HEADS, -1)).movedim(-3, 0).transpose(2, 3)
        if see is None:
            mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        else:
            hidden = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1)
            scores = (query @ key.mT / query.shape[-1] ** 0.5).float().masked_fill(hidden, -torch.inf)
            weights = scores.softmax(-1)
            mixed = weights.to(value.dtype) @ value
            see(scores, weights, mixed)
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

    def forward(self, ids: Tensor, see: Callable[[Tensor, Tensor, Tensor], object] | None = None) -> Tensor:
        x = self.words(ids) + self.places.weight
        for layer in self.layers:
            x = layer(x, see)
        return self.head(self.norm(x))


@functools.cache
class Training:
    """A model with its optimizer; the forward, the loss and the backward are compiled."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.model = GPT().to(DEVICE)
        self.compiled_loss = torch.compile(self.loss)
        self.compiled_by_hand = torch.compile(self.numbers_layer_by_layer)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), 3e-4, fused=True)
        self.ids = torch.randint(WORDS, (BATCH, TOKENS + 1), device=DEVICE)
        for _ in range(3):  # compiles, and makes the state of the optimizer
            self.step()

    @property
    def inputs(self) -> Tensor:
        """What the model reads in each step."""
        return self.ids[:, :-1]

    def loss(self, ids: Tensor) -> Tensor:
        return functional.cross_entropy(self.model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())

    def step(self) -> None:
        with autocast():
            loss = self.compiled_loss(self.ids)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)

    @torch.no_grad()
    def by_hand(self) -> Tensor:
        """The numbers of `regard.monitor` from eager attention that returns its weights, as `output_attentions`."""
        seen: list[tuple[Tensor, ...]] = []
        with autocast():
            self.model(self.inputs, lambda *tensors: seen.append(tensors))
        return torch.stack([numbers_by_hand(*tensors) for tensors in seen]).cpu()

    @torch.no_grad()
    def by_hand_compiled(self) -> Tensor:
        """The same at its best: compiled, and the weights of a layer freed before the next."""
        with autocast():
            return self.compiled_by_hand().cpu()

    def numbers_layer_by_layer(self) -> Tensor:
        found: list[Tensor] = []
        self.model(self.inputs, lambda *tensors: found.append(numbers_by_hand(*tensors)))
        return torch.stack(found)


def numbers_by_hand(scores: Tensor, weights: Tensor, mixed: Tensor) -> Tensor:
    """(numbers, heads), in the order of `MEANINGS`."""
    possible = torch.arange(1, TOKENS + 1, device=DEVICE).log().sum()
    entropy = torch.special.entr(weights).sum(-1)
    return torch.stack([
        scores.amax((0, 2, 3)), entropy.mean((0, 2)), entropy[:, :, 1:].amin((0, 2)),
        entropy.sum((0, 2)) / (BATCH * possible), weights.sum(2).amax(-1).mean(0) / TOKENS,
        weights.diagonal(0, 2, 3).mean((0, 2)), weights.diagonal(-1, 2, 3).sum(-1).mean(0) / TOKENS,
        weights.amax(-1).mean((0, 2)), mixed.float().norm(dim=-1).mean((0, 2)),
    ])  # fmt: skip


def autocast() -> Any:
    return torch.autocast(DEVICE, torch.bfloat16, enabled=GPU)


def whole_training() -> list[str]:
    """Tokens per second with a sample at every 50th step and without, in turns."""
    training, seconds, shares = Training(), dict[str, list[float]]({"without": [], "with": []}), []
    monitor = regard.monitor(training.model, every=EVERY, log=logger)

    def steps(name: str) -> None:
        wait()
        start = time.perf_counter()
        for _ in range(EVERY):
            training.step()
            if name == "with":
                with autocast():
                    monitor.step(training.inputs)
        wait()
        seconds[name].append(time.perf_counter() - start)

    start = time.perf_counter()
    with autocast():
        monitor.sample(training.inputs)
    wait()
    first = time.perf_counter() - start
    monitor.steps = EVERY // 2  # then the sample of a turn is in its middle
    for turn in range(TURNS):
        for name in list(seconds)[:: -1 if turn % 2 else 1]:
            steps(name)
        shares.append(seconds["without"][-1] / seconds["with"][-1])
    assert len(monitor.samples) == 1 + TURNS
    rates = {name: [EVERY * BATCH * TOKENS / each for each in times] for name, times in seconds.items()}
    rows = [
        ["without", rate(rates["without"])],
        [f"with `every={EVERY}`", rate(rates["with"]), f"{statistics.median(shares):.3f} × ({spread(shares)})"],
    ]
    title = f"{TURNS} turns of {EVERY} steps each"
    lines = table([title, "tokens per second (least to most)", "of the turn without (least to most)"], rows)
    return [*lines, "", f"The first sample, for which kernels are compiled, took {first:.1f} s; it counts in no turn."]


def rate(rates: Sequence[float]) -> str:
    return f"{statistics.median(rates):,.0f} ({min(rates):,.0f} to {max(rates):,.0f})"


def spread(shares: Sequence[float]) -> str:
    return f"{min(shares):.3f} to {max(shares):.3f}"


def one_step() -> list[str]:
    """A plain step, and one that is sampled by `regard.monitor`."""
    training = Training()
    monitor = regard.monitor(training.model, every=1, log=logger)

    def sampled(texts: int) -> None:
        training.step()
        with autocast():
            monitor.step(training.inputs[:texts])

    return ways(f"a step of {BATCH} × {TOKENS:,} tokens", {
        "plain": training.step,
        "sampled by `regard.monitor`": functools.partial(sampled, BATCH),
        f"the same, on {FEW} texts of the batch": functools.partial(sampled, FEW),
    }, 15)  # fmt: skip


def logger(numbers: dict[str, float], step: int) -> None:
    """Take the numbers, as a logger does."""
    assert numbers["attention/heads"] == LAYERS * HEADS


def host_time() -> list[str]:
    """What Python and the launches take, part by part, while the device does not have to be waited for."""
    training = Training()
    model, inputs = training.model, training.inputs
    monitor = regard.monitor(model, every=1, log=logger)
    waiting: list[Measured] = []

    def forward() -> None:
        model(inputs)

    def watched() -> None:
        with Watching(model, Vocabulary(), Keep(outputs=True), by_parts=False):
            model(inputs)

    def handed_over() -> None:
        found = waiting.pop()
        layers = found.layers({})
        logger(Sample(0, layers, tuple(alarms(0, layers, layers, dict.fromkeys(layers, 0.0)))).numbers, 0)

    def once(call: Callable[[], Any]) -> tuple[float, float]:
        if call is handed_over:
            waiting.append(measure(model, (inputs,), {}))
        wait()
        start = time.perf_counter()
        with autocast(), torch.set_grad_enabled(call == training.step):
            call()
        host = time.perf_counter() - start
        wait()
        return host, time.perf_counter() - start

    calls: dict[str, Callable[[], Any]] = {
        "a step of the training": training.step, "the plain forward, without gradients": forward,
        "the same, watched": watched, "the same, watched and measured": lambda: measure(model, (inputs,), {}),
        "a sample: all of that, and an earlier one handed over": lambda: monitor.sample(inputs),
        "numbers, alarms and the logger's dict, handed over": handed_over,
    }  # fmt: skip
    rows = []
    for name, call in calls.items():
        times = [once(call) for _ in range(20 if GPU else 8)][3:]
        rows.append([name, *(f"{1e3 * statistics.median(each):.2f} ms" for each in zip(*times, strict=True))])
    return [*table(["part", "until Python goes on", "until the device is done"], rows), "", *waits(monitor, inputs)]


def waits(monitor: regard.watching.Monitor, inputs: Tensor) -> list[str]:
    """Count where a sample waits for the GPU."""
    if not GPU:
        return ["A sample on a CPU has nothing to wait for."]
    torch.cuda.set_sync_debug_mode("warn")
    try:
        with warnings.catch_warnings(record=True) as caught, autocast():
            warnings.simplefilter("always")
            monitor.sample(inputs)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    places = sorted({f"{Path(w.filename).name}:{w.lineno}" for w in caught if "synchron" in str(w.message)})
    return [f"A sample waits for the GPU at {len(places)} places{': ' if places else '.'}{', '.join(places)}"]


def by_hand() -> list[str]:
    """The same numbers without regard, from dense weights."""
    training = Training()
    monitor = regard.monitor(training.model)
    with autocast():
        numbers = monitor.sample(training.inputs)
    ours = torch.tensor(list(monitor.samples[-1].layers["layer00"].values()))
    theirs = training.by_hand()[0]
    apart = float(((ours - theirs).abs().amax(1) / theirs.abs().amax(1)).max())

    def followed_by(call: Callable[[], Any]) -> None:
        training.step()
        call()

    lines = ways(f"a step of {BATCH} × {TOKENS:,} tokens", {
        "plain": training.step,
        "sampled by eager attention, all weights kept": functools.partial(followed_by, training.by_hand),
        "the same compiled, weights freed layer by layer": functools.partial(followed_by, training.by_hand_compiled),
    }, 15)  # fmt: skip
    return [
        *lines,
        "",
        f"Of the {len(numbers)} numbers of `regard.monitor`, those of the first layer differ from these by {apart:.1e} "
        "of the largest at most.",
    ]


SECTIONS: dict[str, Callable[[], list[str]]] = {
    "Training": whole_training, "One step": one_step, "Host time": host_time,
    "The same numbers from eager attention": by_hand,
}  # fmt: skip


def main() -> None:
    options = arguments(__doc__).parse_args()
    size = sum(parameter.numel() for parameter in GPT().parameters()) / 1e6
    how = f"A GPT of {size:.0f} million parameters, {LAYERS} layers of {HEADS} heads, compiled, "
    how += "bf16 by autocast." if GPU else "float32."
    run(f"Monitoring on a {'GPU' if GPU else 'CPU'}", how, SECTIONS, "watching matrix backends", options)


if __name__ == "__main__":
    main()
