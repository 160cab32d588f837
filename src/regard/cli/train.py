"""`regard train`: follow a recipe, with everything on the way shown."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from regard.cli.command import Command
from regard.errors import FileError

if TYPE_CHECKING:
    from regard.drawing import Picture

__all__ = ["COMMAND"]

_ABOUT = """\
Train a translator from a recipe: a TOML file with the corpora (TSV, or two files
line by line), the sizes of the model, and how long. On the way you see the loss,
the speed, the time left, and a sample translated; the best model by dev chrF2 is
kept, and a checkpoint from which a stopped training goes on exactly (--resume).
Ctrl-C stops it after the current step, with a checkpoint; once more, at once.
On several GPUs or machines, start it with torchrun: the processes train one model,
and the losses are those of one process.
"""
_EXAMPLES = """\
Examples:
  regard train recipes/small.toml -o small-model            two minutes on two cores
  regard train recipes/small.toml -o small-model --resume   go on after a stop
  regard translate --model small-model "Our grandfather found the grass, but it was white."
  torchrun --standalone --nproc-per-node=8 -m regard train recipe.toml -o my-model   8 GPUs

In the folder: config.json, model.safetensors and vocabulary.spm are the model,
log.jsonl says what happened, curves.svg shows it, checkpoint.safetensors and the
one before it are for --resume, which takes the same recipe and corpora only.
"""


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("recipe", help="a TOML file")
    parser.add_argument("-o", "--output", required=True, metavar="FOLDER", help="where the model and its log go")
    parser.add_argument("--resume", action="store_true", help="go on where the training in FOLDER stopped")


def _run(options: argparse.Namespace) -> None:
    from regard.translation import Recipe, train
    from regard.translation.training.processes import is_first

    try:
        train(Recipe.read(options.recipe), options.output, resume=options.resume)
    except KeyboardInterrupt as stop:
        print(f"regard: {stop or 'stopped.'}", file=sys.stderr)
        raise SystemExit(130) from None  # as a shell reports SIGINT
    if not is_first():
        return
    picture = _curves(Path(options.output))
    print(picture)
    path = Path(options.output) / "curves.svg"
    try:
        picture.save(path)
    except OSError as error:
        raise FileError(f"{path} cannot be written: {error.strerror or error}. The model is complete.") from None
    print(path)


def _curves(folder: Path) -> Picture:
    import numpy as np

    from regard.drawing import curves

    entries = [json.loads(line) for line in (folder / "log.jsonl").read_text(encoding="utf-8").splitlines()]
    series = {}
    for name in ("loss", "chrf"):
        steps, numbers = zip(*((entry["step"], entry[name]) for entry in entries if name in entry), strict=True)
        series[name] = np.array(steps, np.float64), np.array(numbers, np.float64)
    return curves(series, title=folder.name)


COMMAND = Command(
    "train",
    help="train a translator from a recipe",
    description=_ABOUT,
    epilog=_EXAMPLES,
    add_options=_add_options,
    run=_run,
)
