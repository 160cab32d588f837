"""`regard train`: follow a recipe, with everything on the way shown."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

__all__ = ["add"]

_ABOUT = """\
Train a translator from a recipe: a TOML file with the corpora (TSV, or two files
line by line), the sizes of the model, and how long. On the way you see the loss,
the speed, the time left, and a sample translated; the best model by dev chrF2 is
kept, and a checkpoint from which a stopped training goes on exactly (--resume).
"""
_EXAMPLES = """\
Examples:
  regard train recipes/small.toml -o small-model            two minutes on two cores
  regard train recipes/small.toml -o small-model --resume   go on after a stop
  regard translate --model small-model "Our grandfather found the grass, but it was white."

In the folder: config.json, model.safetensors and vocabulary.spm are the model,
log.jsonl says what happened, curves.svg shows it, checkpoint.safetensors goes on.
"""


def add(commands: Any) -> None:
    """Describe the command."""
    command = commands.add_parser(
        "train",
        help="train a translator from a recipe",
        description=_ABOUT,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument("recipe", help="a TOML file")
    command.add_argument("-o", "--output", required=True, metavar="FOLDER", help="where the model and its log go")
    command.add_argument("--resume", action="store_true", help="go on where the training in FOLDER stopped")
    command.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> None:
    from regard.translation import Recipe, train

    train(Recipe.read(options.recipe), options.output, resume=options.resume)
    picture = _curves(Path(options.output))
    print(picture)
    print(picture.save(Path(options.output) / "curves.svg"))


def _curves(folder: Path) -> Any:
    import numpy as np

    from regard.drawing import curves

    lines = [json.loads(line) for line in (folder / "log.jsonl").read_text(encoding="utf-8").splitlines()]
    found = {}
    for name in ("loss", "chrf"):
        steps, numbers = zip(*((line["step"], line[name]) for line in lines if name in line), strict=True)
        found[name] = np.array(steps, np.float64), np.array(numbers, np.float64)
    return curves(found, title=folder.name)
