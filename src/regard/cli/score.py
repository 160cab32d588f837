"""`regard score`: BLEU and chrF2 of a file of translations."""

from __future__ import annotations

import argparse

from regard.cli.command import Command
from regard.errors import InputError

__all__ = ["COMMAND"]

_ABOUT = """\
BLEU and chrF2 of translations against references, line by line, by sacrebleu
and with its signatures. With the sources and the training pairs, also for the
lines that no training line comes near to: character-4-gram Jaccard below 0.6 on
both sides.
"""
_EXAMPLES = """\
Examples:
  regard score ours.fr test.fr
  regard score ours.fr test.fr --source test.en --train train.tsv
In Python:  regard.translation.score(hypotheses, references)
"""


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("hypotheses", metavar="HYPOTHESES", help="the translations, one a line")
    parser.add_argument("references", metavar="REFERENCES", help="what they should be, one a line")
    parser.add_argument("--source", metavar="FILE", help="what was translated, one a line")
    parser.add_argument("--train", metavar="FILE.tsv", help="the training pairs: source, tab, target")


def _run(options: argparse.Namespace) -> None:
    from regard.translation import score_files

    if (options.source is None) != (options.train is None):
        raise InputError("the part far from the training needs both --source and --train.")
    scores = score_files(options.hypotheses, options.references, source=options.source, train=options.train)
    print(scores)
    if options.train and scores.far is None:
        print("far from the training: no line")
    print(f"BLEU   {scores.bleu_signature}\nchrF2  {scores.chrf_signature}")


COMMAND = Command(
    "score",
    help="BLEU and chrF2 of a file of translations",
    description=_ABOUT,
    epilog=_EXAMPLES,
    add_options=_add_options,
    run=_run,
)
