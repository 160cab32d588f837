"""`main`: the entry point of `regard`."""

from __future__ import annotations

import argparse
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from regard import __version__, _interrupts
from regard.cli import demo, quiz, score, see, serve, steps, streams, train, translate
from regard.errors import RegardError
from regard.io import progress, progress_lines

__all__ = ["main"]

_loading = threading.Event()  # set while torch is imported
_COMMANDS = [module.COMMAND for module in (steps, see, translate, serve, train, score, quiz, demo)]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns 0 on success, 2 after an error, 1 if the output's reader has gone, 130 after Ctrl-C.

    >>> main(["--version"])
    Traceback (most recent call last):
    SystemExit: 0
    """
    with streams.guarded(), progress_lines(), _noted(last=arguments is None) as interrupted:
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
        except Exception as error:
            if interrupted.is_set():  # safetensors, for one, turns a KeyboardInterrupt into an error of its own
                streams.report("interrupted.")
                return 130
            if isinstance(error, RegardError):
                streams.report(error)
                return 2
            if not isinstance(error, OSError):
                raise
            streams.discard_output()  # a full disk, for instance
            streams.report(f"{error.filename}: {error.strerror}." if error.filename else f"{error.strerror or error}.")
            return 2
    return 0


@contextmanager
def _noted(*, last: bool) -> Iterator[threading.Event]:
    """Note whether Ctrl-C was pressed, for the exception it raises may arrive as another.

    Where this is the `last` thing that the process does, Ctrl-C while torch is imported ends it at once, and Ctrl-C is
    ignored afterwards: all has been said, and while Python shuts down it would print a traceback.
    """
    pressed = threading.Event()
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or before in (signal.SIG_IGN, None):
        yield pressed
        return

    def note(*_: Any) -> None:
        if last and _loading.is_set():
            _interrupts.stop()
        pressed.set()
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, note)
    try:
        yield pressed
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN if last else before)


def _run(arguments: Sequence[str] | None) -> None:
    parser = _parser()
    options = parser.parse_args(arguments)
    if "run" not in options:
        parser.print_help()
        return
    _load()
    options.run(options)


def _load() -> None:
    """Import what commands use. torch takes seconds on a busy machine, and whoever waits should know."""
    _loading.set()
    try:
        with progress("starting"):
            import regard.translation
            import regard.watching  # noqa: F401
    finally:
        _loading.clear()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "regard",
        description="Self-attention computed at full speed, with nothing hidden.",
        epilog="Start with:  regard demo",
    )
    parser.add_argument("--version", action="version", version=f"regard {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="command")
    for command in _COMMANDS:
        command.register(commands)
    return parser
