"""`regard`: one thin command for each thing that can be done from a terminal."""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Sequence

from rich.console import Console

from regard import __version__
from regard.cli import demo, output, quiz, score, see, train, translate
from regard.errors import RegardError
from regard.learn import steps, textbook

__all__ = ["main"]

_REGARD = "Self-attention computed at full speed, with nothing hidden."
_STEPS = """\
Self-attention of a small sentence, with every number of it. Each word is a row
of X; three learned matrices turn it into a query, a key and a value. Then:

  1  scores   each query times each key: QKᵀ
  2  scaled   divided by √d, for else the softmax of long queries is all or none
  3  weights  the softmax of each row: shares that add up to 100 %
  4  output   a mixture of the values in these shares: Z = softmax(QKᵀ/√d) V
"""
_STEPS_EXAMPLES = """\
Examples:
  regard steps                                       "I am good", the textbook's
  regard steps "A dog ate the food because it was hungry"
  regard steps "Any words of yours" -o steps.html    hover says every number
  regard steps --example numbers -o steps.png --theme dark

Four sentences of the documents have numbers that mean something; the words of
any other have random ones, as in a model before its training.
In Python:  steps = regard.steps(x, w_q, w_k, w_v, words); steps.picture().save("steps.svg")
"""
_EXAMPLES = {"good": textbook.i_am_good, "numbers": textbook.worked_example}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; 0 when it went well, 2 when regard could not do it, 1 when nobody read on.

    >>> main(["--version"])
    Traceback (most recent call last):
    SystemExit: 0
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without √ shall see the rest
    parser = _parser()
    options = parser.parse_args(arguments)
    if "run" not in options:
        parser.print_help()
        return 0
    try:
        options.run(options)
        sys.stdout.flush()
    except BrokenPipeError:  # whoever read it has seen enough: `regard demo | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left goes nowhere, without a word
        return 1  # as rich does
    except RegardError as error:
        print(f"regard: {error}", file=sys.stderr)
        return 2
    return 0


def _parser() -> argparse.ArgumentParser:
    look = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("regard", description=_REGARD, epilog="Start with:  regard steps")
    parser.add_argument("--version", action="version", version=f"regard {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="command")

    command = commands.add_parser(
        "steps",
        help="self-attention of a small sentence, with every number of it",
        description=_STEPS,
        epilog=_STEPS_EXAMPLES,
        formatter_class=look,
    )
    command.add_argument("sentence", nargs="?", metavar="SENTENCE", help="the words to compute with, in quotes")
    command.add_argument(
        "--example",
        choices=_EXAMPLES,
        default="good",
        help='good: "I am good", 512 numbers for each word (the default); numbers: three words of four numbers',
    )
    output.add(command)
    command.set_defaults(run=_steps)

    for name in (see, translate, train, score, quiz, demo):
        name.add(commands)
    return parser


def _steps(options: argparse.Namespace) -> None:
    example = _EXAMPLES[options.example]() if options.sentence is None else textbook.sentence(options.sentence)
    done = steps(*example)
    if options.output is None:
        Console().print(done)
        return
    output.save(done.picture(title=options.title), options)
