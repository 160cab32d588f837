"""Where a picture goes: the options -o, --theme and --title, which several commands share."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from regard.drawing import Picture
from regard.drawing.picture import file_size

__all__ = ["add_options", "save", "show", "show_or_save"]

_HELP = "save a picture instead: .svg, .html, or with regard[draw] .png, .pdf"


def add_options(parser: argparse.ArgumentParser, *, help: str = _HELP, title: bool = True) -> None:
    """Add -o, --theme and, unless the command has its own, --title."""
    parser.add_argument("-o", "--output", metavar="FILE", help=help)
    parser.add_argument("--theme", choices=("light", "dark"), default="light", help="colours of the picture")
    if title:
        parser.add_argument("--title", help="a title for the picture (the words, if not given)")


def show(printable: Any) -> None:
    """Print what rich can render."""
    from rich.console import Console

    Console().print(printable)


def save(picture: Picture, options: argparse.Namespace, *, report: Any = None) -> None:
    """Write the picture to the file of -o, and report its path and size on standard output or another stream."""
    path = picture.save(options.output, theme=options.theme)
    print(f"{path}: {file_size(path.stat().st_size)}", file=report or sys.stdout)


def show_or_save(picture: Picture, options: argparse.Namespace, *, report: Any = None) -> None:
    """Print the picture, or write it to a file with -o."""
    if options.output is None:
        show(picture)
    else:
        save(picture, options, report=report)
