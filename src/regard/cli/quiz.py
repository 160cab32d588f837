"""`regard quiz`: the questions of the course, asked in the terminal."""

from __future__ import annotations

import argparse
import sys
import textwrap
from typing import TYPE_CHECKING

from regard.cli.command import Command, console
from regard.errors import FileError, InputError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

_PROSE = 88  # columns

_ABOUT = """\
Ask the questions of the course (docs/course) one by one. Answer with a letter. Each
answer is explained, with code that prints it: run it yourself. An empty line skips a
question; q ends the quiz.
"""
_EXAMPLES = """\
Examples:
  regard quiz           all chapters
  regard quiz 3         scores and scaling
  printf 'a\\nb\\nc\\n' | regard quiz 1
"""


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("chapter", nargs="?", metavar="CHAPTER", help="a chapter from 1 to 8 (default: all)")


def _run(options: argparse.Namespace) -> None:
    from regard.learn import CHAPTERS, chapter

    if sys.stdin is None:
        raise FileError("standard input is closed: answers are read from it.")
    number = options.chapter
    if number is not None and number.lstrip("0") not in map(str, CHAPTERS):
        first, last = CHAPTERS[0], CHAPTERS[-1]
        raise InputError(f"CHAPTER must be a number from {first} to {last}. Got {number!r}. Leave it out for all.")
    chapters = [chapter(each) for each in (CHAPTERS if number is None else [int(number)])]
    output = console(highlight=False)
    right = done = 0
    total = sum(len(part.questions) for part in chapters)
    for part in chapters:
        output.print(f"\n[bold]{part.number}. {part.title}[/]")
        for position, question in enumerate(part.questions, 1):
            output.print()
            _print_prose(output, question.ask, lead=f"{position}. ")
            for letter, choice in question.lettered():
                _print_prose(output, choice, lead=f"   {letter}  ")
            reply = _read_reply(output, [letter for letter, _ in question.lettered()])
            if reply is None:
                _print_score(output, right, done, total)
                return
            done += 1
            right += reply == question.answer
            verdict, style = _verdict(reply, question.answer)
            _print_prose(output, f"{verdict} {question.because}", styled=len(verdict), style=style)
            output.print()
            # Lines of code stay whole: the terminal wraps them, and a copy of them still runs.
            output.print(_highlighted(textwrap.indent(question.code.strip(), " " * 4)), soft_wrap=True)
    _print_score(output, right, done, total)


def _print_prose(console: Console, text: str, *, lead: str = "", styled: int = 0, style: str = "") -> None:
    """Print `lead` and a text aligned after it, at most 88 columns wide, the first `styled` letters in a style."""
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


def _read_reply(console: Console, letters: list[str]) -> str | None:
    """Read a letter, an empty string to skip the question, or None to end the quiz."""
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
    """The comment on a reply and its colour; skipping a question is not a mistake."""
    if reply == answer:
        return "Right.", "green"
    return (f"No: it is {answer}.", "red") if reply else (f"It is {answer}.", "yellow")


def _print_score(console: Console, right: int, done: int, total: int) -> None:
    left = f", {total - done} not asked" if done < total else ""
    console.print(f"\n[bold]{right} of {done} right[/]{left}.")


_HELP = "questions on how attention works, checked and explained"
COMMAND = Command("quiz", _HELP, _ABOUT, _EXAMPLES, _run, _add_options)
