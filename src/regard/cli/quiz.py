"""`regard quiz`: the questions of the course, asked in the terminal."""

from __future__ import annotations

import argparse
import sys
import textwrap
from typing import TYPE_CHECKING

from regard.cli import streams
from regard.cli.command import Command
from regard.errors import FileError, InputError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

__all__ = ["COMMAND"]

_PROSE = 88  # columns

_ABOUT = """\
The questions at the end of each chapter of the course (docs/course), asked one
by one. Answer with a letter; every answer is explained and shown with the code
that prints it, for you to run. An empty line skips a question, q ends the quiz.
"""
_EXAMPLES = """\
Examples:
  regard quiz           all chapters
  regard quiz 3         scores and scaling
  printf 'a\\nb\\nc\\n' | regard quiz 1
"""


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("chapter", nargs="?", metavar="CHAPTER", help="1 to 8; all of them if not given")


def _run(options: argparse.Namespace) -> None:
    from regard.learn import CHAPTERS, chapter

    if sys.stdin is None:
        raise FileError("standard input is closed: answers are read from it.")
    wanted = options.chapter
    if wanted is not None and wanted.lstrip("0") not in map(str, CHAPTERS):
        raise InputError(
            f"CHAPTER must be a number from {CHAPTERS[0]} to {CHAPTERS[-1]}. Got {wanted!r}. "
            f"Leave it out for all of them."
        )
    chapters = [chapter(number) for number in (CHAPTERS if wanted is None else [int(wanted)])]
    console = streams.console(highlight=False)
    right = done = 0
    total = sum(len(part.questions) for part in chapters)
    for part in chapters:
        console.print(f"\n[bold]{part.number}. {part.title}[/]")
        for number, question in enumerate(part.questions, 1):
            console.print()
            _say(console, question.ask, lead=f"{number}. ")
            for letter, choice in question.lettered():
                _say(console, choice, lead=f"   {letter}  ")
            reply = _reply(console, [letter for letter, _ in question.lettered()])
            if reply is None:
                _score(console, right, done, total)
                return
            done += 1
            right += reply == question.answer
            verdict, style = _verdict(reply, question.answer)
            _say(console, f"{verdict} {question.because}", styled=len(verdict), style=style)
            console.print()
            # Lines of code stay whole: a narrow terminal wraps them itself, and what is copied from it still runs.
            console.print(_highlighted(textwrap.indent(question.code.strip(), " " * 4)), soft_wrap=True)
    _score(console, right, done, total)


def _say(console: Console, text: str, *, lead: str = "", styled: int = 0, style: str = "") -> None:
    """Prose, in lines that are comfortable to read on a wide terminal too; they align after what leads the first."""
    from rich.text import Text

    width = max(min(console.width, _PROSE), len(lead) + 10)
    lines = textwrap.fill(text, width, initial_indent=lead, subsequent_indent=" " * len(lead), break_on_hyphens=False)
    shown = Text(lines)
    shown.stylize(style, 0, styled)
    console.print(shown, soft_wrap=True)


def _highlighted(code: str) -> Text:
    from rich.syntax import Syntax

    text = Syntax("", "python", theme="ansi_light", background_color="default").highlight(code)
    text.rstrip()
    return text


def _reply(console: Console, letters: list[str]) -> str | None:
    """A letter, an empty string to skip the question, or None to end the quiz."""
    while True:
        console.print(f"   {letters[0]}–{letters[-1]}? ", end="")
        line = sys.stdin.readline()
        if not sys.stdin.isatty():
            console.print(line.strip(), markup=False)  # echo what was piped in
        reply = line.strip().casefold()
        if not line or reply == "q":
            return None
        if not reply or reply in letters:
            return reply
        console.print(f"   One of {', '.join(letters)}, an empty line to go on, or q to end.")


def _verdict(reply: str, answer: str) -> tuple[str, str]:
    """What to say to a reply, and in which colour; to skip a question is no mistake."""
    if reply == answer:
        return "Right.", "green"
    return (f"No: it is {answer}.", "red") if reply else (f"It is {answer}.", "yellow")


def _score(console: Console, right: int, done: int, total: int) -> None:
    left = f", {total - done} not asked" if done < total else ""
    console.print(f"\n[bold]{right} of {done} right[/]{left}.")


COMMAND = Command(
    "quiz",
    help="questions on how attention works, checked and explained",
    description=_ABOUT,
    epilog=_EXAMPLES,
    add_options=_add_options,
    run=_run,
)
