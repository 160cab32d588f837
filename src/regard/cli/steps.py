"""`regard steps`: self-attention of a small sentence, with every number of it."""

from __future__ import annotations

import argparse

from regard.cli import command
from regard.cli.command import Command
from regard.learn import steps, textbook

__all__ = ["COMMAND"]

_ABOUT = """\
Self-attention of a small sentence, with every number of it. Each word is a row
of X; three learned matrices turn it into a query, a key and a value. Then:

  1  scores   each query times each key: QKᵀ
  2  scaled   divided by √d, for else the softmax of long queries is all or none
  3  weights  the softmax of each row: shares that add up to 100 %
  4  output   a mixture of the values in these shares: Z = softmax(QKᵀ/√d) V
"""
_EXAMPLES = """\
Examples:
  regard steps                                       "I am good", the textbook's
  regard steps "A dog ate the food because it was hungry"
  regard steps "Any words of yours" -o steps.html    hover says every number
  regard steps --example numbers -o steps.png --theme dark

Four sentences of the documents have numbers that mean something; the words of
any other have random ones, as in a model before its training.
In Python:  steps = regard.steps(x, w_q, w_k, w_v, words); steps.picture().save("steps.svg")
"""
_TEXTBOOK = {"good": textbook.i_am_good, "numbers": textbook.worked_example}


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "sentence", nargs="?", type=command.text, metavar="SENTENCE", help="the words to compute with, in quotes"
    )
    parser.add_argument(
        "--example",
        choices=_TEXTBOOK,
        default="good",
        help='good: "I am good", 512 numbers for each word (the default); numbers: three words of four numbers',
    )
    command.add_options(parser)


def _run(options: argparse.Namespace) -> None:
    example = _TEXTBOOK[options.example]() if options.sentence is None else textbook.sentence(options.sentence)
    done = steps(*example)
    if options.output is None:
        command.show(done)
    else:
        command.save(done.picture(title=options.title), options)


COMMAND = Command(
    "steps",
    help="self-attention of a small sentence, with every number of it",
    description=_ABOUT,
    epilog=_EXAMPLES,
    add_options=_add_options,
    run=_run,
)
