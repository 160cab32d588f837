"""`main`: the entry point of `regard`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from regard import __version__
from regard.cli import demo, quiz, score, see, steps, streams, train, translate
from regard.errors import RegardError

__all__ = ["main"]

_COMMANDS = [module.COMMAND for module in (steps, see, translate, train, score, quiz, demo)]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns 0 on success, 2 after an error, 1 if the output's reader has gone, 130 after Ctrl-C.

    >>> main(["--version"])
    Traceback (most recent call last):
    SystemExit: 0
    """
    with streams.guarded():
        if sys.stdout is None:
            streams.report("standard output is closed. To run without output, redirect it to a file or a null device.")
            return 2
        try:
            try:
                _run(arguments)
            finally:
                sys.stdout.flush()  # here, where an error can still be reported
        except KeyboardInterrupt:
            streams.report("interrupted.")
            return 130
        except BrokenPipeError:  # as in `regard demo | head`
            streams.discard_output()
            return 1  # as rich does
        except RegardError as error:
            streams.report(error)
            return 2
        except OSError as error:  # a full disk, for instance
            streams.discard_output()
            streams.report(f"{error.filename}: {error.strerror}." if error.filename else f"{error.strerror or error}.")
            return 2
    return 0


def _run(arguments: Sequence[str] | None) -> None:
    parser = _parser()
    options = parser.parse_args(arguments)
    if "run" in options:
        options.run(options)
    else:
        parser.print_help()


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
