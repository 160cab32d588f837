"""Sets, not sequences: a motif in DNA, found by attention. About twenty seconds.

A stretch of DNA is cut into words of 4 letters, and the words are handed over in no order. An encoder learns to say
whether the motif is whole or has its halves swapped. Nobody tells it what the motif is, or where: its attention does.

python examples/sets_dna.py
"""

from __future__ import annotations

import argparse
from typing import Any

import torch
from rich.console import Console
from rich.progress import track
from rich.text import Text
from torch import Tensor, nn
from torch.nn import functional

import regard

MOTIF = "TATACGTG"
LETTERS, K = 60, 4  # of a stretch, of a word
QUESTION = 4**K  # a word of our own, after the 256 that DNA can spell: the answer is read where it stands
console = Console(highlight=False)


class Reader(nn.Module):
    """A set of words in; whole or not, as two logits, out. No positions: one encoder layer with two heads."""

    def __init__(self, width: int = 32):
        super().__init__()
        self.words, self.answer = nn.Embedding(QUESTION + 1, width), nn.Linear(width, 2)
        self.encoder = regard.Encoder(1, width, heads=2, hidden=64)

    def forward(self, words: Tensor) -> Tensor:
        """(stretches, words) to (stretches, 2)."""
        logits: Tensor = self.answer(self.encoder(self.words(words))[:, 0])
        return logits


def dna(stretches: int) -> tuple[Tensor, Tensor, Tensor]:
    """Letters 0 to 3 (stretches, LETTERS), where the motif begins, and whether it is whole.

    Where it is not, its halves are swapped: the same letters, so that counting letters tells nothing.
    """
    letters = torch.randint(4, (stretches, LETTERS))
    motif = torch.tensor(["ACGT".index(letter) for letter in MOTIF])
    place = torch.randint(LETTERS - len(MOTIF), (stretches, 1)) + torch.arange(len(MOTIF))
    whole = torch.rand(stretches) < 0.5
    planted = torch.where(whole[:, None], motif, motif.roll(len(MOTIF) // 2))
    return letters.scatter(1, place, planted), place, whole.long()


def spell(letters: Tensor) -> Tensor:
    """Every 4 neighbouring letters as one word, after the question: (stretches, 1 + LETTERS - K + 1)."""
    spelled = (letters.unfold(-1, K, 1) * torch.tensor([64, 16, 4, 1])).sum(-1)
    return functional.pad(spelled, (1, 0), value=QUESTION)


def received(model: Reader, words: Tensor) -> Tensor:
    """How much the question looks at each letter: the mean over the words that the letter is in."""
    kept: list[regard.AttentionMatrix] = []

    def attend(query: Tensor, key: Tensor, value: Tensor, *, mask: Any, dropout: float) -> Tensor:
        kept.append(regard.AttentionMatrix(query, key, mask=mask))
        return kept[-1] @ value  # this is attention

    layer = model.encoder.layers[0].attention
    layer.attend = attend
    model(words)
    layer.attend = regard.attention
    weights = kept[0][:, :, 0, 1:].mean(1)  # one row of each head: from the question to every word

    def over_letters(x: Tensor) -> Tensor:
        return functional.pad(x, (K - 1, K - 1)).unfold(-1, K, 1).sum(-1)

    return over_letters(weights) / over_letters(torch.ones_like(weights))


def shaded(letters: Tensor, shares: Tensor) -> Text:
    """Letters, brighter the more they receive, over bars that say the same without colour."""
    levels = (shares / shares.max() * 8).round().long().tolist()
    line = Text()
    for letter, level in zip(letters.tolist(), levels, strict=True):
        ink = "black" if level > 4 else "white"
        line.append("ACGT"[letter], f"{ink} on rgb({40 + 26 * level},{50 + 17 * level},{90 - 4 * level})")
    return Text("\n").join([line, Text("".join(" ▁▂▃▄▅▆▇█"[level] for level in levels) + "\n", "cyan")])


def main(quick: bool = False) -> dict[str, float]:
    """Learn, read new stretches, draw three of them; give the numbers that the test holds on to."""
    torch.manual_seed(0)
    updates = 250 if quick else 400
    model = Reader()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.005)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.005, total_steps=updates)
    for _ in track(range(updates), "reading", console=console, transient=True):
        letters, _, whole = dna(64)
        loss = functional.cross_entropy(model(spell(letters)), whole)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()

    letters, place, whole = dna(1000)
    words = spell(letters)
    order = torch.cat([torch.tensor([0]), 1 + torch.randperm(words.shape[1] - 1)])  # the question stays in front
    with torch.no_grad():
        logits, shares = model(words), received(model, words)
        moved = (model(words[:, order]) - logits).abs().max().item()
    right = logits.argmax(-1).eq(whole).float().mean().item()
    inside = torch.zeros_like(letters).scatter(1, place, 1).bool()
    found = whole.bool()
    times = (shares[found][inside[found]].mean() / shares[found].mean()).item()
    top = inside[found].gather(1, shares[found].argmax(-1, keepdim=True)).float().mean().item()
    console.print(
        f"{right:.1%} right on 1,000 new stretches; shuffling the words moves no logit by more than {moved:.0e}"
    )
    console.print(f"a letter of the motif, {MOTIF}, receives {times:.1f} × what the average letter does,")
    console.print(f"and the letter that receives most lies in it in {top:.0%} of the stretches:\n")
    for stretch in found.nonzero()[:3, 0].tolist():
        console.print(shaded(letters[stretch], shares[stretch]))
    return {"right": right, "moved": moved, "times": times, "top": top}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a smaller run, as the tests do")
    main(parser.parse_args().quick)
