"""`regard train`: train a translator from a recipe; `regard score`: compare its translations with references."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from regard.cli.command import Command
from regard.errors import FileError, InputError

_ABOUT = """\
Train a translator from a recipe: a TOML file that names the corpora (TSV, or two
files with the same lines), the sizes of the model, and the length of the training.
The terminal shows the loss, the speed, the remaining time and a sample translation.
The model with the best chrF2 on the dev set is kept.

Ctrl-C stops after the current step and writes a checkpoint; a second Ctrl-C stops at
once. --resume continues from the checkpoint, with the same numbers as an
uninterrupted training. On several GPUs or machines, start the command with torchrun:
all processes train one model, with the losses of a single process.
"""
_EXAMPLES = """\
Examples:
  regard train recipes/small.toml -o small-model            two minutes on two cores
  regard train recipes/small.toml -o small-model --resume   continue after a stop
  regard translate --model small-model "Our grandfather found the grass, but it was white."
  torchrun --standalone --nproc-per-node=8 -m regard train recipe.toml -o my-model   8 GPUs

In the output folder: config.json, model.safetensors and vocabulary.spm are the model;
log.jsonl has the numbers of the training, curves.svg draws them. With monitor = 50 in
the recipe, attention.html shows every head at every 50th step. --resume reads the
checkpoint files, and needs the same recipe and corpora.
"""


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("recipe", metavar="RECIPE", help="a TOML file, as recipes/small.toml")
    parser.add_argument("-o", "--output", required=True, metavar="FOLDER", help="the folder of the model and its log")
    parser.add_argument("--resume", action="store_true", help="continue the training that stopped in FOLDER")


def _run(options: argparse.Namespace) -> None:
    import numpy as np

    from regard.drawing import curves
    from regard.translation import Recipe, train
    from regard.translation.training.processes import is_first

    try:
        train(Recipe.read(options.recipe), options.output, resume=options.resume)
    except KeyboardInterrupt as stop:
        print(f"regard: {stop or 'stopped.'}", file=sys.stderr)
        raise SystemExit(130) from None  # as a shell reports SIGINT
    if not is_first():
        return
    folder = Path(options.output)
    entries = [json.loads(line) for line in (folder / "log.jsonl").read_text(encoding="utf-8").splitlines()]
    series = {}
    for name in ("loss", "chrf"):
        steps, numbers = zip(*((entry["step"], entry[name]) for entry in entries if name in entry), strict=True)
        series[name] = np.array(steps, np.float64), np.array(numbers, np.float64)
    picture = curves(series, title=folder.name)
    print(picture)
    path = folder / "curves.svg"
    try:
        picture.save(path)
    except OSError as error:
        raise FileError(f"{path} cannot be written: {error.strerror or error}. The model is complete.") from None
    print(path)


COMMAND = Command("train", "train a translator from a recipe", _ABOUT, _EXAMPLES, _run, _add_options)


# regard score


_ABOUT_SCORE = """\
Compare translations with references, line by line: BLEU and chrF2, computed by
sacrebleu and printed with its signatures. With --source and --train, the scores
are also computed for the test lines that are far from the training data: those
whose Jaccard similarity of character 4-grams to every training pair is below 0.6
on both sides.
"""
_EXAMPLES_SCORE = """\
Examples:
  regard score ours.fr test.fr
  regard score ours.fr test.fr --source test.en --train train.tsv
In Python:  regard.translation.score(hypotheses, references)
Needs:      pip install 'regard[train]'
"""


def _add_score_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("hypotheses", metavar="HYPOTHESES", help="a file of translations, one in each line")
    parser.add_argument("references", metavar="REFERENCES", help="a file of reference translations of the same lines")
    parser.add_argument("--source", metavar="FILE", help="a file of the lines that were translated")
    parser.add_argument("--train", metavar="FILE.tsv", help="the training pairs: source, tab, target")


def _run_score(options: argparse.Namespace) -> None:
    from regard.translation import score_files

    if (options.source is None) != (options.train is None):
        raise InputError("scores far from the training data need both --source and --train. Got one of them.")
    scores = score_files(options.hypotheses, options.references, source=options.source, train=options.train)
    print(scores)
    if options.train and scores.far is None:
        print("far from the training: no line")
    print(f"BLEU   {scores.bleu_signature}\nchrF2  {scores.chrf_signature}")


_HELP_SCORE = "BLEU and chrF2 of a file of translations"
SCORE = Command("score", _HELP_SCORE, _ABOUT_SCORE, _EXAMPLES_SCORE, _run_score, _add_score_options)
