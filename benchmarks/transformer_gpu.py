"""Training the paper's base model on one GPU, in tokens a second, beside nn.Transformer and Hugging Face's Marian.

python benchmarks/transformer_gpu.py            print the table
python benchmarks/transformer_gpu.py --report   and keep it in benchmarks/reports/

One step: 256 sentences of 32 + 32 tokens, vocabulary 16,000, bf16 autocast, dropout 0.1, label smoothing 0.1,
forward, backward and fused AdamW. Fresh random tokens in every step.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import torch
from measure import arguments, finish, gpu
from torch import Tensor, nn
from torch.nn import functional

import regard

SENTENCES, TOKENS, VOCABULARY = 256, 32, 16_000
PAD = VOCABULARY - 1


class Plain(nn.Module):
    """The same model from torch.nn's parts."""

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


def step_of(model: nn.Module, mode: str | None) -> Callable[[Tensor, Tensor], None]:
    model = model.cuda().train()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4, fused=True)
    run = model if mode is None else torch.compile(model, mode=None if mode == "default" else mode)

    def step(source: Tensor, target: Tensor) -> None:
        with torch.autocast("cuda", torch.bfloat16):
            loss = run(source, target)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


def milliseconds(step: Callable[[Tensor, Tensor], None], repeats: int = 30) -> float:
    """The median time of a step by CUDA events."""
    batches = [torch.randint(1, PAD, (2, SENTENCES, TOKENS + 1), device="cuda") for _ in range(8)]
    times = []
    for n in range(10 + repeats):
        source, target = batches[n % 8][0, :, :TOKENS].contiguous(), batches[n % 8][1].contiguous()
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        step(source, target)
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end))
    return sorted(times[10:])[repeats // 2]


CASES = [
    ("nn.Transformer", Plain, None),
    ("nn.Transformer, compiled", Plain, "default"),
    ("Hugging Face Marian", Marian, None),
    ("regard, compiled", Ours, "default"),
    ("nn.Transformer, compiled, CUDA graphs", Plain, "reduce-overhead"),
    ("regard, compiled, CUDA graphs", Ours, "reduce-overhead"),
]


def main() -> None:
    """Print the table, and keep it if asked."""
    parser = arguments(__doc__)
    options = parser.parse_args()
    torch.manual_seed(0)
    found: dict[str, tuple[float, float]] = {}
    for name, kind, mode in CASES:
        torch.compiler.reset()
        torch.cuda.reset_peak_memory_stats()
        with contextlib.suppress(ImportError):  # transformers is a guest here
            found[name] = milliseconds(step_of(kind(), mode)), torch.cuda.max_memory_allocated() / 2**30
            print(name, *found[name], flush=True)
        torch.cuda.empty_cache()
    base = found["nn.Transformer, compiled"][0]
    lines = ["| model | step | thousand tokens/s | to compiled nn.Transformer | peak memory |", "| --- " * 5 + "|"]
    lines += [
        f"| {name} | {time:.1f} ms | {SENTENCES * 2 * TOKENS / time:,.0f} | {base / time:.2f} × | {memory:.1f} GiB |"
        for name, (time, memory) in found.items()
    ]
    text = f"# Training the base model on a GPU\n\n{gpu()}. {__doc__.split(chr(10) * 2)[-1].strip()}\n\n"
    text += "\n".join(lines) + "\n"
    finish(options, "transformer-gpu", text)


if __name__ == "__main__":
    main()
