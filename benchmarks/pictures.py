"""What pictures cost: bytes and seconds of a page with every head of a model, and of a long input's map.

python benchmarks/pictures.py            print the table
python benchmarks/pictures.py --report   and keep it in benchmarks/reports/
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from measure import arguments, finish, machine, peak_extra, rounds
from rich.console import Console

import regard
from regard import drawing, textbook
from regard.drawing.picture import file_size

progress = Console(stderr=True)


def model(layers: int, heads: int, tokens: int) -> list[np.ndarray]:
    """Random causal heads, in float32, layer by layer."""
    made = []
    for layer in range(layers):
        torch.manual_seed(layer)
        q, k = torch.randn(2, heads, tokens, 32).unbind(0)
        made.append(regard.AttentionMatrix(2 * q, k, mask=regard.causal()).to_dense().numpy())
    return made


def pictures() -> dict[str, tuple[Callable[[], regard.Picture], str]]:
    """What is measured: from the numbers to the file."""
    words = [f"token{n}" for n in range(512)]
    heads = model(12, 12, 512)
    dog = regard.steps(*textbook.dog())
    q, k = torch.randn(2, 10_000, 64).unbind(0)
    long = regard.AttentionMatrix(q, k, mask=regard.causal())
    return {
        "grid, 12 × 12 heads × 512 tokens": (lambda: drawing.grid(heads, words), "html"),
        "grid, the same": (lambda: drawing.grid(heads, words), "svg"),
        "flow, 12 layers × 128 tokens": (
            lambda: drawing.flow([layer[:, :128, :128].mean(0) for layer in heads], words[:128], 100),
            "html",
        ),
        "lines, 8 heads × 128 tokens": (lambda: drawing.lines(heads[0][:8, :128, :128], words[:128]), "html"),
        "map, 10,000 × 10,000": (lambda: long.picture(), "html"),
        "lines, “it” and “dog”": (lambda: drawing.lines(dog.weights, dog.words, pick="it"), "html"),
        "steps, “A dog ate …”": (dog.picture, "html"),
        "steps, the same": (dog.picture, "png"),
    }


def table() -> list[str]:
    """Each picture made and saved, several times."""
    lines = ["| picture | file | seconds | size | extra memory at its peak |", "| --- | --- | --- | --- | --- |"]
    with tempfile.TemporaryDirectory() as folder:
        for name, (make, suffix) in pictures().items():
            progress.print(f"[dim]{name} …")
            path = Path(folder) / f"picture.{suffix}"
            extra = peak_extra(lambda make=make, path=path: make().save(path))
            taken = rounds({"save": lambda make=make, path=path: make().save(path)}, 3)["save"].least
            lines.append(f"| {name} | .{suffix} | {taken:.2f} | {file_size(path.stat().st_size)} | {extra:.0f} MB |")
    return lines


def main() -> None:
    """Print the table, and keep it if asked."""
    parser = arguments(__doc__)
    options = parser.parse_args()
    how = (
        "From the numbers to the file, the least of three times. Budget: 5 MB and 5 s for 12 × 12 heads at 512 tokens."
    )
    text = f"# Pictures\n\n{machine()}. {how}\n\n" + "\n".join(table()) + "\n"
    finish(options, "pictures", text)


if __name__ == "__main__":
    main()
