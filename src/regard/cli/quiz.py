"""`regard quiz`: the questions of the course, asked in the terminal."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.syntax import Syntax

from regard.errors import InputError

__all__ = ["add"]

_ABOUT = """\
The questions at the end of each chapter of the course (docs/course), asked one
by one. Answer with a letter; every answer is explained, and shown with the code
that prints it, for you to run. An empty line leaves a question, q ends the quiz.
"""
_EXAMPLES = """\
Examples:
  regard quiz           all chapters
  regard quiz 3         scores and scaling
  printf 'a\\nb\\na\\nc\\n' | regard quiz 1
"""


def add(commands: Any) -> None:
    """Describe the command."""
    command = commands.add_parser(
        "quiz",
        help="questions on how attention works, checked and explained",
        description=_ABOUT,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument("chapter", nargs="?", metavar="CHAPTER", help="1 to 8; all of them if not given")
    command.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> None:
    from regard.learn import CHAPTERS, chapter

    given = options.chapter
    if given is not None and not (given.isascii() and given.isdigit() and int(given) in CHAPTERS):
        raise InputError(
            f"CHAPTER must be a number from {CHAPTERS[0]} to {CHAPTERS[-1]}. Got {given!r}. "
            f"Leave it out for all of them."
        )
    asked = [chapter(number) for number in (CHAPTERS if given is None else [int(given)])]
    console = Console(highlight=False)
    right = done = 0
    total = sum(len(one.questions) for one in asked)
    for one in asked:
        console.print(f"\n[bold]{one.number}. {one.title}[/]")
        for number, question in enumerate(one.questions, 1):
            console.print(f"\n{number}. ", end="")
            console.print(question.ask, markup=False)
            for letter, choice in question.lettered():
                console.print(f"   {letter}  {choice}", markup=False)
            reply = _reply(console, [letter for letter, _ in question.lettered()])
            if reply is None:
                _score(console, right, done, total)
                return
            done += 1
            right += reply == question.answer
            word = "[green]Right.[/] " if reply == question.answer else f"[red]It is {question.answer}.[/] "
            console.print(word, end="")
            console.print(question.because, markup=False)
            code = Syntax(
                question.code.strip(), "python", theme="ansi_light", background_color="default", word_wrap=True
            )
            console.print(Padding(code, (1, 0, 0, 4)))
    _score(console, right, done, total)


def _reply(console: Console, letters: list[str]) -> str | None:
    """A letter, an empty string for a question left out, or None at the end."""
    while True:
        console.print(f"   {letters[0]}–{letters[-1]}? ", end="")
        line = sys.stdin.readline()
        if not sys.stdin.isatty():
            console.print(line.strip(), markup=False)  # what was piped in, so that the page reads like a talk
        reply = line.strip().casefold()
        if not line or reply == "q":
            return None
        if not reply or reply in letters:
            return reply
        console.print(f"   One of {', '.join(letters)}, an empty line to go on, or q to end.")


def _score(console: Console, right: int, done: int, total: int) -> None:
    left = f", {total - done} not asked" if done < total else ""
    console.print(f"\n[bold]{right} of {done} right[/]{left}.")
