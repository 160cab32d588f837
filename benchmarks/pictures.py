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
from measure import arguments, peak_extra, rounds, run, table

import regard
from regard import drawing, textbook
from regard.drawing.picture import file_size


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


def saved() -> list[str]:
    """Each picture made and saved, several times."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name, (make, suffix) in pictures().items():
            path = Path(folder) / f"picture.{suffix}"
            extra = peak_extra(lambda make=make, path=path: make().save(path))
            taken = rounds({"": lambda make=make, path=path: make().save(path)}, 3)[""]
            size = file_size(path.stat().st_size)
            rows.append([name, f".{suffix}", f"{taken.median:.2f} s ({taken.least:.2f})", size, f"{extra:.0f} MB"])
    return table(["picture", "file", "median (least)", "size", "extra memory at its peak"], rows)


def main() -> None:
    how = "From the numbers to the file, three times. Budget: 5 MB and 5 s for 12 × 12 heads at 512 tokens."
    run("Pictures", how, {"Files": saved}, "drawing maps", arguments(__doc__).parse_args())


if __name__ == "__main__":
    main()
