"""Ctrl-C while the command `regard` is still importing what it needs: one line and exit code 130, not a traceback.

Imported before everything else, and without effect where regard is used as a library. `regard.cli.main` takes over.
"""

import os
import signal
import sys

__all__ = ["stop"]

_SHOWN = b"\r\x1b[K\x1b[?25h"  # on a terminal: no bar any more, and the cursor is visible again


def _is_command() -> bool:
    """Whether this process was started as `regard` or as `python -m regard`."""
    started = [*getattr(sys, "argv", []), ""][0]
    if started == "-m":  # Python is still importing the package of the module to run
        return ("-m", "regard") in zip(sys.orig_argv, sys.orig_argv[1:], strict=False)
    return os.path.basename(started) in ("regard", "regard.exe")


def stop(*_: object) -> None:
    """End at once: nothing has begun yet, and an exception inside an extension's import may turn into another."""
    os.write(2, (_SHOWN if os.isatty(2) else b"") + b"regard: interrupted.\n")
    os._exit(130)


if _is_command() and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, stop)
