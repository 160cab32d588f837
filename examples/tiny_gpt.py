"""A GPT of two layers learns to write, word by word, from `tiny_gpt.txt` (5 KB, written for it). About half a minute.

Every line of the text has an animal, a thing and what the animal did: "The dog saw the boat, and it barked by the
moat." A third of all pairs of animal and thing never occur. If the model writes the right word after "it" for those
too, it has learned to look back at the animal, and its attention shows it.

python examples/tiny_gpt.py
"""

from __future__ import annotations

import argparse
import math
import re
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import Progress
from torch import Tensor, nn
from torch.nn import functional

import regard

TEXT = (Path(__file__).parent / "tiny_gpt.txt").read_text()
CONTEXT = 32  # words it reads at once: two lines and a half
console = Console(highlight=False)


class GPT(nn.Module):
    """Words in, logits of the next word out: embeddings, a decoder without cross-attention, the embeddings again."""

    def __init__(self, words: int, width: int = 64, layers: int = 2, heads: int = 4):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(CONTEXT, width)
        for table in (self.words, self.places):
            nn.init.normal_(table.weight, std=width**-0.5)
        self.decoder = regard.Decoder(
            layers, width, heads, 4 * width, cross=False, activation="gelu", norm_first=True, final_norm=True
        )
        self.scale = math.sqrt(width)

    def forward(self, tokens: Tensor, cache: regard.Cache | None = None) -> Tensor:
        """(batch, tokens) to (batch, tokens, words); with a cache, `tokens` are only those that are new."""
        past = 0 if cache is None else cache.tokens
        x = (self.words(tokens) + self.places.weight[past : past + tokens.shape[1]]) * self.scale
        return functional.linear(self.decoder(x, cache=cache), self.words.weight)


def split(text: str) -> list[str]:
    """Words, commas, full stops and line ends."""
    return re.findall(r"\w+|[,.\n]", text.lower())


def join(words: list[str]) -> str:
    """And back to lines."""
    return re.sub(r" ([,.])", r"\1", " ".join(words)).replace(" \n ", "\n").strip()


@torch.no_grad()
def write(model: GPT, vocabulary: list[str], start: str, most: int = 20) -> str:
    """Go on with a line until it ends. Each word is computed once: the cache remembers the words before."""
    words, cache = split(start), regard.Cache(model.decoder)
    new = torch.tensor([[vocabulary.index("\n"), *map(vocabulary.index, words)]])
    while len(words) < most and words[-1:] != ["\n"]:
        new = torch.multinomial(model(new, cache)[:, -1].softmax(-1), 1)
        words.append(vocabulary[int(new)])
    return join([word for word in words if word != "\n"])


@torch.no_grad()
def look(model: GPT, vocabulary: list[str], line: str) -> list[regard.AttentionMatrix]:
    """The attention matrices (1, heads, words, words) of each layer, kept while it reads a line."""
    kept: list[regard.AttentionMatrix] = []

    def attend(query: Tensor, key: Tensor, value: Tensor, *, mask: Any, dropout: float) -> Tensor:
        kept.append(regard.AttentionMatrix(query, key, mask=mask))
        return kept[-1] @ value  # this is attention

    for layer in model.decoder.layers:
        layer.attention.attend = attend
    model(torch.tensor([[vocabulary.index(word) for word in ["\n", *split(line)]]]))
    for layer in model.decoder.layers:
        layer.attention.attend = regard.attention
    return kept


def unwritten() -> list[tuple[str, str]]:
    """Beginnings that the text does not hold, each with the word that must come next."""
    lines = [re.findall(r"\w+", line.lower()) for line in TEXT.splitlines()]
    voices = {line[1]: line[line.index("it") + 1] for line in lines}
    things = {line[line.index("and") - 1] for line in lines}
    pairs = {(line[1], line[line.index("and") - 1]) for line in lines}
    new = sorted((animal, thing) for animal in voices for thing in things if (animal, thing) not in pairs)
    return [(f"the {animal} saw the {thing}, and it", voices[animal]) for animal, thing in new]


@torch.no_grad()
def examine(model: GPT, vocabulary: list[str]) -> float:
    """How often the word after "it" is right where the text holds no such line."""
    lines, answers = zip(*unwritten(), strict=True)
    tokens = torch.tensor([[vocabulary.index(word) for word in ["\n", *split(line)]] for line in lines])
    guesses = model(tokens)[:, -1].argmax(-1)
    return sum(vocabulary[int(g)] == a for g, a in zip(guesses, answers, strict=True)) / len(answers)


def main(quick: bool = False) -> dict[str, float]:
    """Train, write, look; give the first and last loss, and the shares that the test holds on to."""
    torch.manual_seed(0)
    updates, batch = (200, 24) if quick else (600, 48)
    words = split(TEXT)
    vocabulary = sorted(set(words))
    ids = torch.tensor([vocabulary.index(word) for word in words])
    starts = torch.tensor([place for place, word in enumerate(words[: -CONTEXT - 1]) if word == "\n"])
    model = GPT(len(vocabulary))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.1)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, total_steps=updates, pct_start=0.1)
    size = sum(p.numel() for p in model.parameters())
    console.print(f"{len(words):,} words, {len(vocabulary)} different ones; a model of {size:,} numbers\n")

    losses = []
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("reading", total=updates)
        for update in range(updates):
            place = starts[torch.randint(len(starts), (batch, 1))] + torch.arange(CONTEXT + 1)
            lines = ids[place]
            loss = functional.cross_entropy(model(lines[:, :-1]).flatten(0, 1), lines[:, 1:].flatten())
            if update in (0, updates // 8, updates // 3, updates - 1):
                progress.console.print(f"update {update:>3}  loss {loss:.2f}  [cyan]{write(model, vocabulary, '')}")
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            losses.append(float(loss.detach()))
            progress.advance(task)

    right = examine(model, vocabulary)
    line = unwritten()[0][0]
    console.print(f"\nA line that the text does not hold: [cyan]{write(model, vocabulary, line)}")
    console.print(f'After "it", the right word for {right:.0%} of {len(unwritten())} pairs it never read together.\n')

    shown = ["⏎", *split(line)]
    matrices = look(model, vocabulary, line)
    rows = torch.stack([A[0, :, -1, :] for A in matrices])  # layers, heads, words: where "it" looks
    layer, head = divmod(int(rows[..., 2].argmax()), rows.shape[1])  # the animal is the second word
    for share, word in zip(*rows[layer, head].topk(3), strict=True):
        console.print(f"it → {shown[int(word)]:<6} [cyan]{'━' * round(40 * float(share))}[/] {share:.0%}")
    console.print(f"[dim]layer {layer + 1}, head {head + 1}: the one of {rows[..., 0].numel()} that looks there most")
    return {"first": losses[0], "last": losses[-1], "right": right, "animal": float(rows[layer, head, 2])}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a smaller run, as the tests do")
    main(parser.parse_args().quick)
