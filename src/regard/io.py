"""Helpers that need no torch: files that are written as a whole, and a bar for what takes long."""

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


def write_file(path: Path, fill: Callable[[Path], object], before: Callable[[Path], None] | None = None) -> None:
    """Let `fill` write a draft beside the file, then rename it: readers see the old content or the new, never a part.

    `before` gets the finished draft before it is renamed. Both the content and the name are flushed to the disk. A link
    stays: its target is written. A device or pipe stays, too: it receives what `fill` wrote.
    """
    unharmed = " What was there before is unharmed."
    try:
        mode = _mode(path)
        if mode is None or stat.S_ISREG(mode) or stat.S_ISDIR(mode):  # a folder cannot be replaced: os.replace says so
            _replace(Path(os.path.realpath(path)), mode, fill, before)
        else:
            unharmed = ""
            with TemporaryDirectory() as room:
                draft = Path(room, f"content{DRAFT}")
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


def _mode(path: Path) -> int | None:
    """The type and permissions of what is at a path or at the end of its links; None: nothing."""
    try:
        return path.stat().st_mode
    except FileNotFoundError:
        return None


def _replace(
    path: Path, mode: int | None, fill: Callable[[Path], object], before: Callable[[Path], None] | None
) -> None:
    draft = path.with_name(f".{path.name[:100]}.{secrets.token_hex(4)}{DRAFT}")
    try:
        draft.touch()
        if mode is None:
            mode = draft.stat().st_mode  # as the user wants new files
        draft.chmod(mode)  # first: what is written to a private file is private from the start
        fill(draft)
        draft.chmod(mode)  # `fill` may have put another file there
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
_in_lines = threading.Event()  # set while a command runs; a library leaves the logs of others alone


@contextmanager
def progress(what: str, total: float | None = None) -> Iterator[Callable[[float], None]]:
    """Show a bar if the work inside takes longer than two seconds; yields a function that advances it.

    The bar is on standard error, only if that is a terminal, and is removed at the end. Without a total it only moves.
    Where standard error is no terminal, a command (`progress_lines`) prints a line every half minute instead.

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
    """While a command runs, long work is told in lines where no bar can be shown."""
    _in_lines.set()
    try:
        yield
    finally:
        _in_lines.clear()


class _Bar:
    """A bar that a timer shows, unless it is closed before; one at a time."""

    _only = threading.Lock()

    def __init__(self, what: str, total: float | None):
        self._what, self._total, self._done = what, total, 0.0
        self._lock, self._closed = threading.Lock(), False
        self._bar: Any = None
        self._timer = threading.Timer(_PATIENCE, self._show)
        self._timer.daemon = True
        self._timer.start()

    def _show(self) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            Progress,
            ProgressColumn,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        columns: list[ProgressColumn] = [TextColumn("{task.description}"), BarColumn()]
        columns += [TimeElapsedColumn()] if self._total is None else [TimeRemainingColumn()]
        with self._lock:
            if self._closed or not self._only.acquire(blocking=False):
                return
            # The stream itself: the one that commands write to shows escape sequences instead of obeying them.
            console = Console(file=sys.__stderr__)
            self._bar = Progress(
                *columns, console=console, transient=True, redirect_stdout=False, redirect_stderr=False
            )
            self._task = self._bar.add_task(self._what, total=self._total, completed=self._done)
            self._bar.start()

    def advance(self, amount: float) -> None:
        """So much more is done."""
        self._done += amount
        with self._lock:
            if self._bar is not None:
                self._bar.update(self._task, completed=self._done)

    def close(self) -> None:
        """Remove the bar, or see to it that it never appears."""
        self._timer.cancel()
        with self._lock:
            self._closed = True
            if self._bar is not None:
                self._bar.stop()
                self._only.release()


class _Lines:
    """The same as a line at intervals: how much is done, if that is known, and for how long it has run."""

    def __init__(self, what: str, total: float | None):
        self._what, self._total, self._done = what, total, 0.0
        self._start, self._closed = time.monotonic(), threading.Event()
        threading.Thread(target=self._tell, name="regard-progress", daemon=True).start()

    def _tell(self) -> None:
        while not self._closed.wait(_INTERVAL):
            share = f"{min(self._done / self._total, 1.0):.0%}, " if self._total else ""
            with suppress(OSError, ValueError):  # nobody reads it any more
                print(
                    f"regard: {self._what}: {share}{time.monotonic() - self._start:.0f} s", file=sys.stderr, flush=True
                )

    def advance(self, amount: float) -> None:
        """So much more is done."""
        self._done += amount

    def close(self) -> None:
        """No more lines."""
        self._closed.set()
