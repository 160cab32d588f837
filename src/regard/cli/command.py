"""`Command`: what every command says about itself, and how it is added to the parser."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any, NamedTuple

__all__ = ["Command"]


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
