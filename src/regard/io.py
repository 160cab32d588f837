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


_PATIENCE, _REFRESH = 2.0, 0.1  # seconds before a bar appears, and until it has moved
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
    on_terminal = all(stream is not None and stream.isatty() for stream in (sys.stderr, sys.__stderr__))
    if not on_terminal and (not _in_lines.is_set() or sys.stderr is None):
        yield lambda amount: None
        return
    bar = _Bar(what, total, in_lines=not on_terminal)
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
    """How far some work is, as a bar or in lines, shown by a thread until it is closed; one bar at a time."""

    _only = threading.Lock()

    def __init__(self, what: str, total: float | None, *, in_lines: bool):
        self._what, self._total, self._done = what, total, 0.0
        self._ended = threading.Event()
        self._thread = threading.Thread(
            target=self._lines if in_lines else self._bar, name="regard-progress", daemon=True
        )
        self._thread.start()

    def _bar(self) -> None:
        if self._ended.wait(_PATIENCE) or not self._only.acquire(blocking=False):
            return
        from rich import progress as bars
        from rich.console import Console

        time_column = bars.TimeElapsedColumn() if self._total is None else bars.TimeRemainingColumn()
        # The original stream: the stream of a command shows escape sequences instead of obeying them.
        options: Any = {"console": Console(file=sys.__stderr__), "redirect_stdout": False, "redirect_stderr": False}
        columns = (bars.TextColumn("{task.description}"), bars.BarColumn(), time_column)
        try:
            with bars.Progress(*columns, transient=True, **options) as shown:
                task = shown.add_task(self._what, total=self._total)
                while not self._ended.wait(_REFRESH):
                    shown.update(task, completed=self._done)
        finally:
            self._only.release()

    def _lines(self) -> None:
        """The share of the work, if it is known, and the time."""
        start = time.monotonic()
        while not self._ended.wait(_INTERVAL):
            share = f"{min(self._done / self._total, 1.0):.0%}, " if self._total else ""
            with suppress(OSError, ValueError):  # standard error is closed
                line = f"regard: {self._what}: {share}{time.monotonic() - start:.0f} s"
                print(line, file=sys.stderr, flush=True)

    def advance(self, amount: float) -> None:
        """Add an amount of work."""
        self._done += amount

    def close(self) -> None:
        """Remove the bar, or prevent that it appears; end the lines."""
        self._ended.set()
        self._thread.join()
