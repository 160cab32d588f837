"""The layers beside those of torch and Hugging Face: the base encoder on a CPU, training the base model on a GPU.

python benchmarks/layers.py            print the tables
python benchmarks/layers.py --report   and keep them in benchmarks/reports/
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable

import torch
from measure import GPU, arguments, attempt, in_process, kernels, rounds, run, table
from torch import Tensor, nn
from torch.nn import functional

import regard

# The encoder

SHAPES = [(8, 128), (1, 128), (32, 32), (1, 1024)]


def encoder() -> list[str]:
    """A forward, with nn.TransformerEncoder's fast path; neither is compiled."""
    columns = ["batch × tokens", "`nn.TransformerEncoder`", "ours", "the same, padded", "ours, padded"]
    return table(columns, [encoder_row(*shape) for shape in SHAPES])


@torch.inference_mode()
def encoder_row(batch: int, tokens: int) -> list[str]:
    theirs = nn.TransformerEncoder(nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True), 6).eval()
    ours = regard.from_torch(theirs)
    x, lengths = torch.randn(batch, tokens, 512), torch.linspace(tokens // 2, tokens, batch).long()
    pad, mask = torch.arange(tokens) >= lengths[:, None], regard.padding(lengths)
    torch.testing.assert_close(ours(x), theirs(x), atol=1e-4, rtol=1e-4)
    calls = {
        "theirs": lambda: theirs(x), "ours": lambda: ours(x),
        "theirs, padded": lambda: theirs(x, src_key_padding_mask=pad), "ours, padded": lambda: ours(x, mask),
    }  # fmt: skip
    found, cells = rounds(calls, 11), [f"{batch} × {tokens}"]
    for kind in ("", ", padded"):
        base, own = found["theirs" + kind], found["ours" + kind]
        cells += [base.ms(), f"{own.median / base.median:.2f} × ({own.least / base.least:.2f})"]
    return cells


# Training

SENTENCES, TOKENS, VOCABULARY = 256, 32, 16_000
PAD = VOCABULARY - 1


class Plain(nn.Module):
    """The model from torch.nn's parts."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, 512)
        self.body = nn.Transformer(512, 8, 6, 6, 2048, 0.1, batch_first=True)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        size = target.shape[1] - 1
        future = nn.Transformer.generate_square_subsequent_mask(size, device=source.device)
        y = self.body(self.embedding(source), self.embedding(target[:, :-1]), tgt_mask=future, tgt_is_causal=True)
        logits = functional.linear(y, self.embedding.weight).float()
        return functional.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten(), label_smoothing=0.1)


class Marian(nn.Module):
    """The same model from Hugging Face."""

    def __init__(self) -> None:
        super().__init__()
        from transformers import MarianConfig, MarianMTModel

        sides = {f"{side}_{what}": n for side in ("encoder", "decoder") for what, n in
                 (("layers", 6), ("attention_heads", 8), ("ffn_dim", 2048))}  # fmt: skip
        special = {"pad_token_id": PAD, "decoder_start_token_id": PAD, "eos_token_id": 0}
        self.body = MarianMTModel(MarianConfig(vocab_size=VOCABULARY, d_model=512, **sides, **special))

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        logits = self.body(input_ids=source, decoder_input_ids=target[:, :-1]).logits.float()
        return functional.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten(), label_smoothing=0.1)


class Ours(nn.Module):
    """regard's Transformer and its loss."""

    def __init__(self) -> None:
        super().__init__()
        self.body = regard.Transformer(regard.TransformerConfig.base(VOCABULARY))

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        return self.body.loss(source, target, smoothing=0.1)


MODELS: dict[str, type[nn.Module]] = {"nn.Transformer": Plain, "Hugging Face Marian": Marian, "regard": Ours}
MODES = {"as it is": None, "compiled, CUDA graphs": "reduce-overhead"}


def step_of(model: nn.Module, mode: str | None) -> Callable[[], None]:
    model = model.cuda().train()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4, fused=True)
    compiled = model if mode is None else torch.compile(model, mode=mode)
    batches = [torch.randint(1, PAD, (2, SENTENCES, TOKENS + 1), device="cuda") for _ in range(8)]

    def step() -> None:
        batches.append(batches.pop(0))
        source, target = batches[0][0, :, :TOKENS].contiguous(), batches[0][1].contiguous()
        with torch.autocast("cuda", torch.bfloat16):
            loss = compiled(source, target)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


def one(name: str) -> dict[str, list[float] | str]:
    """Seconds of a step in each mode, median and least, and GiB at the peak."""

    def timed(mode: str | None) -> list[float]:
        step = step_of(MODELS[name](), mode)
        for _ in range(8):
            step()
        torch.cuda.reset_peak_memory_stats()
        step()
        peak = torch.cuda.max_memory_allocated() / 2**30
        return [*kernels(step, 30)[:2], peak]

    return {how: attempt(f"{name}, {how}", lambda mode=mode: timed(mode)) for how, mode in MODES.items()}


def training() -> list[str]:
    """Each model in a process of its own, as it is and compiled."""
    found: dict[tuple[str, str], list[float] | str] = {}
    for name in MODELS:
        given = attempt(name, lambda name=name: in_process("--one", name))
        found |= {(name, how): given if isinstance(given, str) else given[how] for how in MODES}
    rows = []
    known = {key: times for key, times in found.items() if not isinstance(times, str)}
    peers = [times[0] for (name, _), times in known.items() if name != "regard"]
    for (name, how), times in found.items():
        cells = [times]
        if not isinstance(times, str):
            median, least, peak = times
            rate = SENTENCES * 2 * TOKENS / median / 1e3
            cells = [
                f"{1e3 * median:.1f} ms ({1e3 * least:.1f})",
                f"{rate:,.0f}",
                f"{min(peers, default=math.nan) / median:.2f} ×",
                f"{peak:.1f} GiB",
            ]
        rows.append([f"{name}, {how}", *cells])
    columns = ["model", "a step, median (least)", "thousand tokens/s", "speed, of the fastest peer", "peak memory"]
    about = (
        f"One step: {SENTENCES} sentences of {TOKENS} + {TOKENS} tokens, vocabulary {VOCABULARY:,}, bf16 autocast, "
        "dropout 0.1, label smoothing 0.1, forward, backward and fused AdamW."
    )
    return [about, "", *table(columns, rows)]


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--one", choices=MODELS, help="print the times of this model, as JSON")
    options = parser.parse_args()
    torch.manual_seed(0)
    if options.one:
        print(json.dumps(one(options.one)))
    elif GPU:
        how = "Each model in a process of its own, by CUDA events."
        run("Training the base model on a GPU", how, {"Training": training}, "nn matrix backends", options)
    else:
        how = "float32, eval mode; medians, in brackets the least, calls taken in turn."
        run("The base encoder on a CPU", how, {"Encoder": encoder}, "nn matrix backends", options)


if __name__ == "__main__":
    main()
