"""What the commands share: `Command`, texts and pictures as options, and safe input and output.

Control characters in a text are shown on a terminal, never obeyed; an output that fails is reported once.
"""

from __future__ import annotations

import argparse
import io
import logging
import os
import re
import shlex
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO, TypeVar

from regard.drawing import Picture
from regard.drawing.picture import check_path, file_size
from regard.drawing.terminal import shown
from regard.errors import FileError

if TYPE_CHECKING:
    from rich.console import Console

R = TypeVar("R")


# Commands and their options


MODEL_HELP = (
    "a folder with a model that `regard train` made or one of Hugging Face; a GGUF file; or the name of a model in an "
    "installed package or in the Hugging Face cache (default: the bundled translator)"
)
TRUST_HELP = "run the Python code in the model's folder: it can do anything that you can do"


class Command(NamedTuple):
    """A command of `regard`: its texts for --help, what it runs, and its options."""

    name: str
    help: str  # one line in the list of commands
    description: str
    epilog: str
    run: Callable[[argparse.Namespace], None]
    add_options: Callable[[argparse.ArgumentParser], None] = lambda parser: None
    needs_torch: bool = True

    def register(self, commands: Any) -> None:
        """Add a parser for this command to argparse's subparsers.

        >>> parser = argparse.ArgumentParser()
        >>> Command("hi", "", "", "", run=lambda options: print("hello")).register(parser.add_subparsers())
        >>> options = parser.parse_args(["hi"])
        >>> options.run(options)
        hello
        """
        texts = {"help": self.help, "description": self.description, "epilog": self.epilog}
        parser = commands.add_parser(self.name, **texts, formatter_class=argparse.RawDescriptionHelpFormatter)
        self.add_options(parser)
        parser.set_defaults(run=self.run, needs_torch=self.needs_torch)


def add_picture_options(parser: argparse.ArgumentParser, *, title: bool = True) -> None:
    """Add -o, --theme and, unless the picture has a title of its own, --title."""
    formats = "save the picture to FILE: .svg or .html; .png or .pdf with regard[draw] installed"
    parser.add_argument("-o", "--output", metavar="FILE", type=check_path, help=formats)  # refused before any work
    parser.add_argument("--theme", choices=("light", "dark"), default="light", help="colours of the picture (light)")
    if title:
        parser.add_argument("--title", type=text, help="title of the picture (default: the text)")


def text(argument: str) -> str:
    """The argparse type of a text, which must be UTF-8; a path may hold any bytes.

    >>> text("caf\\udce9")
    Traceback (most recent call last):
    argparse.ArgumentTypeError: 'caf\\udce9' is not UTF-8
    """
    try:
        argument.encode("utf-8")
    except UnicodeEncodeError:
        raise argparse.ArgumentTypeError(f"{argument!r} is not UTF-8") from None
    return argument


def join(arguments: Sequence[str], verb: str) -> str:
    """Join the words of a TEXT; if the TEXT is the name of a file, report how to `verb` the content of that file.

    >>> join(["Hello", "you"], verb="translate")
    'Hello you'
    """
    text = " ".join(arguments)
    if os.path.isfile(text):
        report(f"{text} is a file: to {verb} its content, use -f {shlex.quote(text)}")
    return text


def timed(work: Callable[[], R]) -> tuple[R, str]:
    """Do a piece of work; return its result, and how long it took on how many cores, as "0.12 s, 1 core"."""
    start, busy_before = time.perf_counter(), time.process_time()
    result = work()
    seconds, busy = time.perf_counter() - start, time.process_time() - busy_before
    cores = max(round(busy / seconds), 1)
    return result, f"{seconds:.2f} s, {cores} core{'s' * (cores != 1)}"


def save(picture: Picture, options: argparse.Namespace, *, stream: TextIO | None = None) -> None:
    """Write the picture to the file of -o, and print its path and size to standard output or another stream."""
    log = logging.getLogger("regard")
    before, log.disabled = log.disabled, True  # it would warn of a large file, whose size is printed below
    try:
        path = picture.save(options.output, theme=options.theme)
    finally:
        log.disabled = before
    size = f": {file_size(path.stat().st_size)}" if path.is_file() else ""  # a pipe or a device has none
    print(f"{path}{size}", file=stream or sys.stdout)


def show_or_save(picture: Picture, options: argparse.Namespace, *, stream: TextIO | None = None) -> None:
    """Print the picture, or write it to a file with -o."""
    if options.output is None:
        console().print(picture)
    else:
        save(picture, options, stream=stream)


# Output


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
        """Write a text, with its control characters made visible."""
        parts = _COLOUR.split(text) if self.coloured else [text]
        self.stream.write("".join(part if n % 2 else shown(part) for n, part in enumerate(parts)))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write several texts."""
        for line in lines:
            self.write(line)

    @property
    def rich_proxied_file(self) -> Terminal:
        """The stream of a rich console, whose own colours must pass: rich asks for an attribute of this name."""
        return Terminal(self.stream, coloured=True)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


class _Reporter(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        report(record.getMessage())


@contextmanager
def guarded_streams() -> Iterator[None]:
    """While a command runs, write to terminals through `Terminal`, and report the warnings that regard logs.

    Pipes and files receive every byte as it is.
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

    output = Console(**options)
    if output.is_terminal:
        output.push_render_hook(Hook())
    return output


def fold(text: str, width: int) -> str:
    """Break the lines that are too wide, only between parts that two spaces or more separate.

    >>> print(fold("it ━━━ dog 30 %  ━━ food 20 %  ━ ate 10 %", 30))
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


def report(message: object) -> None:
    """Print a message on standard error, in one line that begins with "regard:"."""
    with suppress(OSError):  # standard error is closed
        print("regard:", " ".join(str(message).splitlines()), file=sys.stderr, flush=True)


def discard_output() -> None:
    """Drop the output that could not be written: at exit, Python would try again and report the same error."""
    with suppress(OSError, ValueError):  # standard output is not a file of the system
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


# Input


def input_lines() -> Iterator[str]:
    """The lines of standard input, without line ends; an error names the line that is not UTF-8."""
    if sys.stdin is None:
        raise FileError("standard input is closed. Give a TEXT, or a file with -f.")
    for number, line in enumerate(sys.stdin.buffer, 1):
        try:
            yield line.decode("utf-8").rstrip("\r\n")
        except UnicodeDecodeError as error:
            raise FileError(f"standard input, line {number}: not UTF-8 ({error.reason}).") from None
