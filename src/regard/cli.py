"""`regard`: one thin command for each thing that can be done from a terminal."""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Sequence

from rich.console import Console

from regard import __version__, textbook
from regard.commands import score, translate
from regard.errors import RegardError
from regard.steps import steps

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
_EXAMPLES = {"good": textbook.i_am_good, "numbers": textbook.worked_example}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; 0 when it went well, 2 when regard could not do it.

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
        epilog="Example:  regard steps --example numbers\nIn Python:  print(regard.steps(x, w_q, w_k, w_v, words))",
        formatter_class=look,
    )
    command.add_argument(
        "--example",
        choices=_EXAMPLES,
        default="good",
        help='good: "I am good", 512 numbers for each word (the default); numbers: three words of four numbers',
    )
    command.set_defaults(run=_steps)
    translate.add(commands)
    score.add(commands)
    return parser


def _steps(options: argparse.Namespace) -> None:
    Console().print(steps(*_EXAMPLES[options.example]()))
