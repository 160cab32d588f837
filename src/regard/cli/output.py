"""Where a picture goes: the options that several commands share."""

from __future__ import annotations

import argparse

from regard.drawing import Picture
from regard.drawing.picture import size

__all__ = ["add", "save"]


def add(command: argparse.ArgumentParser) -> None:
    """The options -o, --theme and --title."""
    command.add_argument(
        "-o", "--output", metavar="FILE", help="save a picture instead: .svg, .html, or with regard[draw] .png, .pdf"
    )
    command.add_argument("--theme", choices=("light", "dark"), default="light", help="colours of the picture")
    command.add_argument("--title", help="a title for the picture (the words, if not given)")


def save(picture: Picture, options: argparse.Namespace) -> None:
    """Write the picture, and say where and how large."""
    path = picture.save(options.output, theme=options.theme)
    print(f"{path}: {size(path.stat().st_size)}")
