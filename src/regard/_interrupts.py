"""Ctrl-C while the command `regard` imports its modules: one line and exit code 130 instead of a traceback.

Imported first, and without effect if regard is used as a library. `regard.cli.main` replaces this handler.
"""

import os
import signal
import sys

__all__ = ["stop"]

_RESET = b"\r\x1b[K\x1b[?25h"  # on a terminal: erase the bar and show the cursor


def _is_command() -> bool:
    """Whether this process was started as `regard` or as `python -m regard`."""
    program = [*getattr(sys, "argv", []), ""][0]
    if program == "-m":  # Python is still importing the package of the module
        return ("-m", "regard") in zip(sys.orig_argv, sys.orig_argv[1:], strict=False)
    return os.path.basename(program) in ("regard", "regard.exe")


def stop(*_: object) -> None:
    """End at once: an exception during the import of an extension module may turn into another error."""
    os.write(2, (_RESET if os.isatty(2) else b"") + b"regard: interrupted.\n")
    os._exit(130)


if _is_command() and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, stop)
