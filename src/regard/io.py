"""Helpers that need no torch: files that are written as a whole, and progress bars."""

from __future__ import annotations

import os
import secrets
import shutil
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from regard.errors import FileError, RegardError

# Files


DRAFT = ".draft"


@contextmanager
def reading(path: str | Path) -> Iterator[None]:
    """Name the file in the error if it cannot be read."""
    try:
        yield
    except RegardError:
        raise
    except (OSError, ValueError) as error:  # ValueError: a name with a null character
        raise FileError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}.") from None


def write_file(path: Path, fill: Callable[[Path], object], before: Callable[[Path], None] | None = None) -> None:
    """Write a file as a whole: readers see the old content or the new content, never a part.

    The content and the name are flushed to the disk. If the path is a link, its target is written. If it is a device or
    a pipe, the content is copied into it.

    Args:
        path: the file.
        fill: writes a draft beside the file, which is then renamed.
        before: gets the finished draft before it is renamed.
    """
    unharmed = " What was there before is unharmed."
    try:
        mode: int | None = None
        with suppress(FileNotFoundError):
            mode = path.stat().st_mode
        if mode is None or stat.S_ISREG(mode) or stat.S_ISDIR(mode):  # os.replace refuses to replace a folder
            _replace(Path(os.path.realpath(path)), mode, fill, before)
        else:
            unharmed = ""
            with TemporaryDirectory() as folder:
                draft = Path(folder, f"content{DRAFT}")
                fill(draft)
                if before is not None:
                    before(draft)
                with draft.open("rb") as content, path.open("wb") as stream:
                    shutil.copyfileobj(content, stream)
    except RegardError:
        raise
    except OSError as error:
        why = error.strerror or error
        raise FileError(f"{path} cannot be written: {why}.{unharmed}") from None


def _replace(
    path: Path, mode: int | None, fill: Callable[[Path], object], before: Callable[[Path], None] | None
) -> None:
    draft = path.with_name(f".{path.name[:100]}.{secrets.token_hex(4)}{DRAFT}")
    try:
        draft.touch()
        if mode is None:
            mode = draft.stat().st_mode  # by the umask of the user
        draft.chmod(mode)  # first: the draft of a private file is private from the start
        fill(draft)
        draft.chmod(mode)  # `fill` may have replaced the file
        _flush(draft, os.O_RDWR)
        if before is not None:
            before(draft)
        os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)
    if hasattr(os, "O_DIRECTORY"):
        _flush(path.parent, os.O_RDONLY)


def _flush(path: Path, flags: int) -> None:
    handle = os.open(path, flags)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


# Progress


_PATIENCE = 2.0  # seconds before a bar appears
_INTERVAL = 30.0  # seconds between the lines of a command whose standard error is a pipe or a file
_in_lines = threading.Event()  # set while a command runs; a library writes no lines into the logs of others


@contextmanager
def progress(what: str, total: float | None = None) -> Iterator[Callable[[float], None]]:
    """Show a bar if the work inside takes longer than two seconds; yields a function that advances the bar.

    The bar is on standard error if that is a terminal, and is removed at the end. Without a total it only moves. If
    standard error is not a terminal, a command (`progress_lines`) prints a line every half minute instead.

    >>> with progress("squaring", total=3) as advance:
    ...     for n in range(3):
    ...         advance(1)
    """
    bar: _Bar | _Lines
    if all(stream is not None and stream.isatty() for stream in (sys.stderr, sys.__stderr__)):
        bar = _Bar(what, total)
    elif _in_lines.is_set() and sys.stderr is not None:
        bar = _Lines(what, total)
    else:
        yield lambda amount: None
        return
    try:
        yield bar.advance
    finally:
        bar.close()


@contextmanager
def progress_lines() -> Iterator[None]:
    """While a command runs, report long work in lines if no bar can be shown."""
    _in_lines.set()
    try:
        yield
    finally:
        _in_lines.clear()


class _Bar:
    """A bar that a timer shows, unless it is closed before; one bar at a time."""

    _only = threading.Lock()

    def __init__(self, what: str, total: float | None):
        self._what, self._total, self._done = what, total, 0.0
        self._lock, self._closed = threading.Lock(), False
        self._bar: Any = None
        self._timer = threading.Timer(_PATIENCE, self._show)
        self._timer.daemon = True
        self._timer.start()

    def _show(self) -> None:
        from rich import progress as bars
        from rich.console import Console

        time_column = bars.TimeElapsedColumn() if self._total is None else bars.TimeRemainingColumn()
        with self._lock:
            if self._closed or not self._only.acquire(blocking=False):
                return
            # The original stream: the stream of a command shows escape sequences instead of obeying them.
            options: Any = {"console": Console(file=sys.__stderr__), "redirect_stdout": False, "redirect_stderr": False}
            columns = (bars.TextColumn("{task.description}"), bars.BarColumn(), time_column)
            self._bar = bars.Progress(*columns, transient=True, **options)
            self._task = self._bar.add_task(self._what, total=self._total, completed=self._done)
            self._bar.start()

    def advance(self, amount: float) -> None:
        """Add an amount of work to the bar."""
        self._done += amount
        with self._lock:
            if self._bar is not None:
                self._bar.update(self._task, completed=self._done)

    def close(self) -> None:
        """Remove the bar, or prevent that it appears."""
        self._timer.cancel()
        with self._lock:
            self._closed = True
            if self._bar is not None:
                self._bar.stop()
                self._only.release()


class _Lines:
    """The same as a line at intervals: the share of the work, if it is known, and the time."""

    def __init__(self, what: str, total: float | None):
        self._what, self._total, self._done = what, total, 0.0
        self._start, self._ended = time.monotonic(), threading.Event()
        threading.Thread(target=self._report, name="regard-progress", daemon=True).start()

    def _report(self) -> None:
        while not self._ended.wait(_INTERVAL):
            share = f"{min(self._done / self._total, 1.0):.0%}, " if self._total else ""
            line = f"regard: {self._what}: {share}{time.monotonic() - self._start:.0f} s"
            with suppress(OSError, ValueError):  # standard error is closed
                print(line, file=sys.stderr, flush=True)

    def advance(self, amount: float) -> None:
        """Add an amount of work."""
        self._done += amount

    def close(self) -> None:
        """End the lines."""
        self._ended.set()
