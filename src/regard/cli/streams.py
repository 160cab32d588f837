"""Standard streams: text that a terminal would obey is shown, and an output that fails is reported once."""

from __future__ import annotations

import io
import logging
import os
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TextIO

from regard.drawing.terminal import shown
from regard.errors import FileError

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["Terminal", "console", "discard_output", "folded", "guarded", "input_lines", "print_folded", "report"]

_COLOUR = re.compile(r"(\x1b\[[\d;]*m)")


class Terminal:
    r"""A terminal as a stream to print to; with `coloured`, escape sequences for colours are still obeyed.

    >>> screen = io.StringIO()
    >>> print("\x1b[2J", "\x1b[1m", file=Terminal(screen))
    >>> print("\x1b[2J", "\x1b[1m", file=Terminal(screen, coloured=True))
    >>> screen.getvalue()
    '\\x1b[2J \\x1b[1m\n\\x1b[2J \x1b[1m\n'
    """

    def __init__(self, stream: TextIO, coloured: bool = False):
        self.stream, self.coloured = stream, coloured

    def write(self, text: str) -> int:
        """Write a text, its control characters made visible."""
        parts = _COLOUR.split(text) if self.coloured else [text]
        self.stream.write("".join(part if n % 2 else shown(part) for n, part in enumerate(parts)))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write several texts."""
        for line in lines:
            self.write(line)

    @property
    def rich_proxied_file(self) -> Terminal:
        """Where a rich console writes, whose own colours must pass: rich asks for an attribute of this name."""
        return Terminal(self.stream, coloured=True)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


@contextmanager
def guarded() -> Iterator[None]:
    """While a command runs, terminals are written to through `Terminal`; pipes and files get every byte as it is.

    What regard logs as a warning is reported.
    """
    before = sys.stdout, sys.stderr
    logger, reporter = logging.getLogger("regard"), _Reporter(logging.WARNING)
    logger.addHandler(reporter)
    for name in ("stdin", "stdout", "stderr"):
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without √ still shows the rest
        if name != "stdin" and stream is not None and stream.isatty():
            setattr(sys, name, Terminal(stream))
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
        logger.removeHandler(reporter)


class _Reporter(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        report(record.getMessage())


def console(**options: Any) -> Console:
    """A rich console on standard output; on a terminal, what it renders holds no control characters but its own."""
    from rich.console import Console, ConsoleOptions, ConsoleRenderable, RenderHook, RenderResult

    class Shown:
        def __init__(self, renderable: ConsoleRenderable):
            self.renderable = renderable

        def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
            for segment in console.render(self.renderable, options):
                yield segment if segment.control else segment._replace(text=shown(segment.text))

    class Hook(RenderHook):
        def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
            return [Shown(renderable) for renderable in renderables]

    made = Console(**options)
    if made.is_terminal:
        made.push_render_hook(Hook())
    return made


def folded(text: str, width: int) -> str:
    """A text whose lines are broken where they are too wide: between parts, which two spaces or more separate.

    >>> print(folded("it ━━━ dog 30 %  ━━ food 20 %  ━ ate 10 %", 30))
    it ━━━ dog 30 %  ━━ food 20 %
        ━ ate 10 %
    """
    from rich.cells import cell_len

    lines: list[str] = []
    for line in text.split("\n"):
        first, *parts = re.split(r"(?<=\S)(?= {2,}\S)", line)
        lines.append(first)
        for part in parts:
            if cell_len(lines[-1] + part) <= width:
                lines[-1] += part
            else:
                lines.append(f"    {part.lstrip()}")
    return "\n".join(lines)


def print_folded(text: str) -> None:
    """Print a text; on a terminal, lines that are too wide for it are broken between their parts."""
    print(folded(text, console().width) if sys.stdout is not None and sys.stdout.isatty() else text)


def input_lines() -> Iterator[str]:
    """The lines of standard input, without line ends; one that is not UTF-8 is named."""
    if sys.stdin is None:
        raise FileError("standard input is closed. Give a TEXT, or a file with -f.")
    for number, line in enumerate(sys.stdin.buffer, 1):
        try:
            yield line.decode("utf-8").rstrip("\r\n")
        except UnicodeDecodeError as error:
            raise FileError(f"standard input, line {number}: not UTF-8 ({error.reason}).") from None


def report(message: object) -> None:
    """A message of regard's on standard error, in one line."""
    with suppress(OSError):  # nobody is left to tell
        print("regard:", " ".join(str(message).splitlines()), file=sys.stderr, flush=True)


def discard_output() -> None:
    """What could not be written is not tried again at exit, where Python would report the same error once more."""
    with suppress(OSError, ValueError):  # not a file of the system
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
