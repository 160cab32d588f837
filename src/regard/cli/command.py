"""`Command`: what every command says about itself, how it is added to the parser, and where its picture goes."""

from __future__ import annotations

import argparse
import logging
import os
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from regard.cli import streams
from regard.drawing import Picture
from regard.drawing.picture import check_path, file_size

__all__ = ["Command", "Stopwatch", "add_options", "joined", "save", "show", "show_or_save", "text"]


class Command(NamedTuple):
    """A command of `regard`: its texts for --help, its options, and what it runs."""

    name: str
    help: str  # one line in the list of commands
    description: str
    epilog: str
    run: Callable[[argparse.Namespace], None]
    add_options: Callable[[argparse.ArgumentParser], None] = lambda parser: None

    def register(self, commands: Any) -> None:
        """Add a parser for this command to argparse's subparsers.

        >>> parser = argparse.ArgumentParser()
        >>> Command("hi", "", "", "", run=lambda options: print("hello")).register(parser.add_subparsers())
        >>> options = parser.parse_args(["hi"])
        >>> options.run(options)
        hello
        """
        parser = commands.add_parser(
            self.name,
            help=self.help,
            description=self.description,
            epilog=self.epilog,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        self.add_options(parser)
        parser.set_defaults(run=self.run)


_HELP = "save a picture instead: .svg, .html, or with regard[draw] .png, .pdf"


def add_options(parser: argparse.ArgumentParser, *, help: str = _HELP, title: bool = True) -> None:
    """Add -o, --theme and, unless the command has its own, --title."""
    parser.add_argument("-o", "--output", metavar="FILE", type=check_path, help=help)  # refused before any work
    parser.add_argument("--theme", choices=("light", "dark"), default="light", help="colours of the picture")
    if title:
        parser.add_argument("--title", type=text, help="a title for the picture (the words, if not given)")


def text(argument: str) -> str:
    """The type of an argument that is a text: UTF-8, where a path may be any bytes.

    >>> text("caf\\udce9")
    Traceback (most recent call last):
    argparse.ArgumentTypeError: 'caf\\udce9' is not UTF-8
    """
    try:
        argument.encode("utf-8")
    except UnicodeEncodeError:
        raise argparse.ArgumentTypeError(f"{argument!r} is not UTF-8") from None
    return argument


def joined(arguments: Sequence[str], reading: str) -> str:
    """A TEXT of the command line, its arguments joined; if it is the name of a file, a hint at -f for `reading` that.

    >>> joined(["Hello", "you"], reading="translate")
    'Hello you'
    """
    text = " ".join(arguments)
    if os.path.isfile(text):
        streams.report(f"{text} is a file: to {reading} what is in it, use -f {shlex.quote(text)}")
    return text


class Stopwatch:
    """How long something took, and how many cores it kept busy."""

    def __init__(self) -> None:
        self._seconds, self._busy = time.perf_counter(), time.process_time()

    def took(self) -> str:
        """Since the start, as "0.12 s, 1 core"."""
        seconds, busy = time.perf_counter() - self._seconds, time.process_time() - self._busy
        cores = max(round(busy / seconds), 1)
        return f"{seconds:.2f} s, {cores} core{'s' * (cores != 1)}"


def show(printable: Any) -> None:
    """Print what rich can render."""
    streams.console().print(printable)


def save(picture: Picture, options: argparse.Namespace, *, report: Any = None) -> None:
    """Write the picture to the file of -o, and report its path and size on standard output or another stream."""
    with _without_log():  # which says the size of a large file, too
        path = picture.save(options.output, theme=options.theme)
    size = f": {file_size(path.stat().st_size)}" if path.is_file() else ""  # a pipe or a device has none
    print(f"{path}{size}", file=report or sys.stdout)


@contextmanager
def _without_log() -> Iterator[None]:
    log = logging.getLogger("regard")
    before, log.disabled = log.disabled, True
    try:
        yield
    finally:
        log.disabled = before


def show_or_save(picture: Picture, options: argparse.Namespace, *, report: Any = None) -> None:
    """Print the picture, or write it to a file with -o."""
    if options.output is None:
        show(picture)
    else:
        save(picture, options, report=report)
