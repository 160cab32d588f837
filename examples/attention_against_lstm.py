"""Self-attention against an LSTM of the same size: recall a letter seen 8 to 512 steps ago. A minute or two.

A stream of random letters, one of them marked. At the end: which one was it? For every distance a new attention layer
and a new LSTM learn from scratch, with as many updates each. Then one more of each is taught short distances first.

python examples/attention_against_lstm.py
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from torch import Tensor, nn
from torch.nn import functional

import regard

LETTERS, WIDTH = 16, 64
MARK, QUESTION = 1, 2
console = Console(highlight=False)


def stream(streams: int, distance: int) -> tuple[Tensor, Tensor, Tensor]:
    """Letters and signs (streams, steps), and the marked letter (streams), which comes `distance` before the end."""
    letters = torch.randint(LETTERS, (streams, distance + 9))
    signs = torch.zeros_like(letters)
    signs[:, -distance - 1], signs[:, -1] = MARK, QUESTION
    return letters, signs, letters[:, -distance - 1]


def attention() -> nn.Module:
    """One layer of a GPT, without positions: what is marked is found by the mark, wherever it is."""
    return regard.Decoder(1, WIDTH, heads=1, hidden=2 * WIDTH, cross=False)


def lstm() -> nn.Module:
    """One layer as well. Its forget gates begin open, which is known to help it."""
    layer = nn.LSTM(WIDTH, WIDTH, batch_first=True)
    nn.init.ones_(layer.bias_hh_l0[WIDTH : 2 * WIDTH])
    return layer


class Reader(nn.Module):
    """Letters and signs as vectors, a body that reads them from left to right, and the answer at the end."""

    def __init__(self, body: nn.Module):
        super().__init__()
        self.letters, self.signs = nn.Embedding(LETTERS, WIDTH), nn.Embedding(3, WIDTH)
        self.body, self.answer = body, nn.Linear(WIDTH, LETTERS)

    def forward(self, letters: Tensor, signs: Tensor) -> Tensor:
        """(streams, steps) to logits of the marked letter (streams, LETTERS)."""
        read = self.body(self.letters(letters) + self.signs(signs))
        states = read[0] if isinstance(read, tuple) else read  # an LSTM gives its memory as well
        logits: Tensor = self.answer(states[:, -1])
        return logits


@dataclass
class Result:
    """What became of one way to remember."""

    name: str
    point: str  # how the plot shows it
    parameters: int
    seconds: float = 0.0
    accuracy: dict[int, float] = field(default_factory=dict)


def teach(body: nn.Module, lessons: Sequence[int], tick: Callable[[], None]) -> Reader:
    """One update for each lesson, a distance."""
    reader = Reader(body)
    optimizer = torch.optim.AdamW(reader.parameters(), lr=0.005)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.005, total_steps=len(lessons), pct_start=0.2)
    for distance in lessons:
        letters, signs, marked = stream(32, distance)
        loss = functional.cross_entropy(reader(letters, signs), marked)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(reader.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        tick()
    return reader


@torch.no_grad()
def ask(reader: Reader, distance: int) -> float:
    """The share of right answers on new streams."""
    letters, signs, marked = stream(256, distance)
    return reader(letters, signs).argmax(-1).eq(marked).float().mean().item()


def plot(results: list[Result], distances: list[int]) -> None:
    """Accuracy upwards, distance to the right; where points meet, they stand side by side."""
    for level in range(10, -1, -1):
        cells = ["".join(r.point for r in results if round(10 * r.accuracy[d]) == level) for d in distances]
        console.print(f"{10 * level:>5} % │" + "".join(f"{cell:^8}" for cell in cells), style="cyan")
    console.print("        └" + "─" * 8 * len(distances))
    console.print("         " + "".join(f"{distance:^8}" for distance in distances) + " steps ago")


def main(quick: bool = False) -> dict[str, Result]:
    """Teach and ask them all; print the table and the plot."""
    distances = [8, 48] if quick else [8, 16, 32, 64, 128, 256, 512]
    updates = 80 if quick else 100
    gentle = [distances[n * len(distances) // (3 * updates)] for n in range(3 * updates)]  # short ones first
    results = []
    with Progress(console=console, transient=True) as progress:
        for name, points, body in (("attention", "●◆", attention), ("LSTM", "○◇", lstm)):
            size = sum(p.numel() for p in body().parameters())
            alone, taught = Result(name, points[0], size), Result(f"{name}, short first", points[1], size)
            task = progress.add_task(name, total=updates * len(distances) + len(gentle))
            start = time.perf_counter()
            for distance in distances:
                torch.manual_seed(distance)
                reader = teach(body(), [distance] * updates, lambda task=task: progress.advance(task))
                alone.accuracy[distance] = ask(reader, distance)
            alone.seconds = time.perf_counter() - start
            torch.manual_seed(0)
            reader = teach(body(), gentle, lambda task=task: progress.advance(task))
            taught.accuracy = {distance: ask(reader, distance) for distance in distances}
            taught.seconds = time.perf_counter() - start - alone.seconds
            results += [alone, taught]

    table = Table("", "parameters", "seconds", *map(str, distances), title="Right answers, by steps since the letter")
    for r in results:
        shares = [f"{share:.0%}" for share in r.accuracy.values()]
        table.add_row(f"{r.point} {r.name}", f"{r.parameters:,}", f"{r.seconds:.0f}", *shares)
    console.print(table)
    console.print(
        f"[dim]chance is {1 / LETTERS:.0%}; {updates} updates for each distance; short first: {len(gentle)}\n"
    )
    plot(results, distances)
    for r in results:
        far = [str(distance) for distance, share in r.accuracy.items() if share > 0.9]
        console.print(f"{r.point} {r.name}: more than 90 % right at {', '.join(far) or 'no distance'}")
    console.print(
        "\nAn LSTM hands the letter on from step to step, and what it learns comes back the same way: n steps. For "
        "attention every letter is one step away, and all positions are computed at once (two CPU cores gain no time: "
        "see the seconds). This is why the documents say that attention replaced recurrence. It is not that an "
        "LSTM could not remember: with short distances first, it learns to. And attention has to find one letter among "
        "all: the more there are, the more updates that takes. One seed for each number."
    )
    return {result.name: result for result in results}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a smaller run, as the tests do")
    main(parser.parse_args().quick)
