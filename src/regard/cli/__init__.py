"""The command line: `regard` and its commands.

Read in this order:
    __init__     `main`: parse the arguments, run one command, report an error in one line
    command      what the commands share: `Command`, the options of pictures, safe input and output
    learning     demo, steps, quiz
then see, translate, serve, train (with score). These files import nothing that needs torch until a command runs, so
that --help, --version and a wrong option are answered at once.
"""

from __future__ import annotations

import argparse
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from regard import __version__, _interrupts
from regard.cli import learning, see, serve, train, translate
from regard.cli.command import discard_output, guarded_streams, report
from regard.errors import RegardError
from regard.io import progress, progress_lines

__all__ = ["main"]

_loading = threading.Event()  # set while torch is imported
_COMMANDS = [
    learning.DEMO, learning.STEPS, see.COMMAND, translate.COMMAND, serve.COMMAND, learning.QUIZ, train.COMMAND,
    train.SCORE,
]  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return 0 on success, 2 after an error, 1 if the output pipe is closed, 130 after Ctrl-C.

    >>> main(["--version"])
    Traceback (most recent call last):
    SystemExit: 0
    """
    with guarded_streams(), progress_lines(), _interruptible(is_process=arguments is None) as interrupted:
        if sys.stdout is None:
            report("standard output is closed. To run without output, redirect it to a file or a null device.")
            return 2
        try:
            try:
                _run(arguments)
            finally:
                sys.stdout.flush()  # here, where an error can still be reported
        except KeyboardInterrupt:
            report("interrupted.")
            return 130
        except BrokenPipeError:  # as in `regard demo | head`
            discard_output()
            return 1  # as rich does
        except Exception as error:
            if interrupted.is_set():  # libraries such as safetensors turn a KeyboardInterrupt into another error
                report("interrupted.")
                return 130
            if isinstance(error, RegardError):
                report(error)
                return 2
            if not isinstance(error, OSError):
                raise
            discard_output()  # a full disk, for instance
            report(f"{error.filename}: {error.strerror}." if error.filename else f"{error.strerror or error}.")
            return 2
    return 0


@contextmanager
def _interruptible(*, is_process: bool) -> Iterator[threading.Event]:
    """Yield an event that is set by Ctrl-C, because a library may turn KeyboardInterrupt into another error.

    If this process only runs the command, Ctrl-C during the import of torch ends it at once, and Ctrl-C after the
    command is ignored: it would print a traceback while Python shuts down.
    """
    pressed = threading.Event()
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or before in (signal.SIG_IGN, None):
        yield pressed
        return

    def interrupt(*_: Any) -> None:
        if is_process and _loading.is_set():
            _interrupts.stop()
        pressed.set()
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, interrupt)
    try:
        yield pressed
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN if is_process else before)


def _run(arguments: Sequence[str] | None) -> None:
    parser = argparse.ArgumentParser(
        "regard",
        description="Self-attention computed at full speed, with nothing hidden.",
        epilog="Start with: regard demo. Every command explains itself: regard COMMAND --help",
    )
    parser.add_argument("--version", action="version", version=f"regard {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    for command in _COMMANDS:
        command.register(commands)
    options = parser.parse_args(arguments)
    if "run" not in options:
        parser.print_help()
        return
    if options.needs_torch:
        _load()
    options.run(options)


def _load() -> None:
    """Import what commands use. Importing torch takes seconds on a busy machine: show the progress."""
    _loading.set()
    try:
        with progress("starting"):
            import regard.translation
            import regard.watching  # noqa: F401
    finally:
        _loading.clear()
