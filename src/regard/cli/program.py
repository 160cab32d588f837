"""`main`: the entry point of `regard`."""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Sequence

from regard import __version__
from regard.cli import demo, quiz, score, see, steps, train, translate
from regard.errors import RegardError

__all__ = ["main"]

_COMMANDS = [module.COMMAND for module in (steps, see, translate, train, score, quiz, demo)]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns 0 on success, 2 after an error of regard's, 1 if the output's reader has gone.

    >>> main(["--version"])
    Traceback (most recent call last):
    SystemExit: 0
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without √ still shows the rest
    parser = _parser()
    options = parser.parse_args(arguments)
    if "run" not in options:
        parser.print_help()
        return 0
    try:
        options.run(options)
        sys.stdout.flush()
    except BrokenPipeError:  # as in `regard demo | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python reports the error again at exit
        return 1  # as rich does
    except RegardError as error:
        print(f"regard: {error}", file=sys.stderr)
        return 2
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "regard",
        description="Self-attention computed at full speed, with nothing hidden.",
        epilog="Start with:  regard steps",
    )
    parser.add_argument("--version", action="version", version=f"regard {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="command")
    for command in _COMMANDS:
        command.register(commands)
    return parser
