"""The commands for learning: `regard demo`, `regard steps`, `regard quiz`."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import textwrap
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from regard.cli import command
from regard.cli.command import Command
from regard.errors import FileError, InputError

if TYPE_CHECKING:
    from rich.console import Console

    from regard.learn.textbook import Example
    from regard.translation import Translator

# regard demo

SENTENCES = "A dog ate the food because it was hungry.", "A dog ate the food because it was delicious."
_WIDTH = 78
_BAR, _LOOKS = 16, 2  # cells of a bar for 100 %; words shown
_ABOUT_DEMO = """\
Translate two sentences that differ in one word, show what "it" attends to in each
of them, and print the four steps of self-attention for the textbook's "I am good".
"""


def _run_demo(_: argparse.Namespace) -> None:
    from regard.translation import Translator

    for line in lines(Translator.default()):
        print(line)
    # The path of the program if it is not on the PATH
    has_path = os.path.basename(sys.argv[0]).startswith("regard") and shutil.which("regard") is None
    print(f"\nThe same in your browser, to explore:  {sys.argv[0] if has_path else 'regard'} serve --open")


def lines(translator: Translator) -> list[str]:
    """Everything that the demo prints."""
    from regard.drawing.terminal import labelled_bar
    from regard.learn import steps, textbook

    ((layer, head),) = translator.heads.values()
    printed = []
    for sentence in SENTENCES:
        translation, took = command.timed(partial(translator.translate, sentence))
        looks = translation.watch().looks("it", kind="encoder", layer=layer, head=head)
        bars = "  ".join(labelled_bar(look.word, look.weight, _BAR, digits=2) for look in looks[:_LOOKS])
        printed += [sentence, f"{f'→ {translation.text}':<{_WIDTH}}{took}", f"it {bars}"]
    return [
        *printed,
        *textwrap.wrap(translator.note, _WIDTH),
        "",
        'The textbook\'s "I am good", with numbers made by hand:',
        *(line.rstrip() for line in str(steps(*textbook.i_am_good())).splitlines()),
    ]


_NEXT = "Next:  regard serve, regard translate, regard see, regard steps; each with --help"
DEMO = Command("demo", "start here: a translation, its attention, the four steps", _ABOUT_DEMO, _NEXT, _run_demo)


# regard steps

_ABOUT_STEPS = """\
Compute self-attention for a short sentence and print every number. Each word is a
row of X; three learned matrices turn it into a query, a key and a value. Then:

  1  scores   the dot product of each query with each key: QKᵀ
  2  scaled   divided by √d; without it, long vectors make the softmax all or nothing
  3  weights  the softmax of each row: percentages that add up to 100 %
  4  output   the weighted sum of the values: Z = softmax(QKᵀ/√d) V
"""
_EXAMPLES_STEPS = """\
Examples:
  regard steps                                       "I am good", from the textbook
  regard steps "A dog ate the food because it was hungry"
  regard steps "Any words of yours" -o steps.html    hover over any number
  regard steps "Any words of yours" --random         an untrained model
  regard steps --example numbers -o steps.png --theme dark

Four sentences have the numbers of the textbook: "I am good", "I am hungry", "A dog
ate the food because it was hungry", and "I like sushi because it makes me happy".
For any other sentence the numbers are those of one head of the bundled translator;
with --random they are random, as in a model before its training.
In Python:  steps = regard.steps(x, w_q, w_k, w_v, words); steps.picture().save("steps.svg")
"""
# Of the 48 heads, this one is soft and still has a pattern: in short sentences, the token before gets about half.
_LAYER, _HEAD = 3, 0
_TRAINED = """\
Numbers of a trained model: the bundled translator, encoder, layer {layer}, head {head}.
A row of X is the input of this layer for one token, and a 1 that multiplies the bias: the
last row of each W. A word may be several tokens; </s> ends the sentence.
Note: in this sentence {count} of {tokens} tokens give their largest weight to {where}.
"""
_BY_HAND = "The textbook's numbers, made by hand to show the idea: they are not from a trained model.\n"
_RANDOM = """\
Random numbers: X and the matrices W are random, as in an untrained model, so the
weights mean nothing. Without --random, a sentence of the textbook has the textbook's
numbers, as in `regard steps "I am good"`, and any other has those of a trained model.
"""
_EXAMPLE = {"good": "i_am_good", "numbers": "worked_example"}  # functions of regard.learn.textbook
_EXAMPLE_HELP = 'good: "I am good", 512 numbers for each word (default); numbers: three words of four numbers'


def _add_steps_options(parser: argparse.ArgumentParser) -> None:
    sentence = "the words; several arguments are one sentence"
    parser.add_argument("sentence", nargs="*", type=command.text, metavar="SENTENCE", help=sentence)
    parser.add_argument("--example", choices=_EXAMPLE, default="good", help=_EXAMPLE_HELP)
    parser.add_argument("--random", action="store_true", help="use random numbers, as in an untrained model")
    command.add_picture_options(parser)


def _run_steps(options: argparse.Namespace) -> None:
    from regard.learn import steps

    sentence = " ".join(options.sentence) if options.sentence else None
    example, note = _example(sentence, options)
    result = steps(*example)
    if note == _TRAINED:
        note = note.format(layer=_LAYER, head=_HEAD, **_pattern(result.weights))
    if options.output is None:
        print(note)
        command.console().print(result)
        return
    title = options.title
    if note != _BY_HAND:
        print(note)
        title = f"{sentence} ({note.partition(':')[0].lower()})" if title is None else title
    command.save(result.picture(title=title), options)


def _example(sentence: str | None, options: argparse.Namespace) -> tuple[Example, str]:
    """The arguments of `steps`, and a note on where their numbers come from."""
    from regard.learn import textbook

    if sentence is None:
        if options.random:
            raise InputError("--random takes a SENTENCE. Got none.")
        return getattr(textbook, _EXAMPLE[options.example])(), _BY_HAND
    if options.random:
        return textbook.untrained(sentence), _RANDOM
    example = textbook.known(sentence)
    return (_trained(sentence), _TRAINED) if example is None else (example, _BY_HAND)


def _trained(sentence: str) -> Example:
    """The input of an encoder layer of the translator for a sentence, and the matrices of one of its heads."""
    import torch

    from regard.learn.textbook import Example
    from regard.translation import Translator

    translator = Translator.default()
    model, words = translator.model, translator.words
    ids, most = [*words.encode(sentence), words.end], model.config.positions
    if len(ids) > most:
        raise InputError(f"the sentence must have at most {most} tokens. Got {len(ids)}. Shorten it, or use --random.")
    attention: Any = model.encoder.layers[_LAYER].attention
    with torch.no_grad():
        x, _ = model.enter(torch.tensor([ids]))
        for layer in model.encoder.layers[:_LAYER]:
            x = layer(x)
        x = torch.cat([x[0], torch.ones(len(ids), 1)], 1)  # times the bias, the last row of each W
        joined = torch.cat([attention.projection.weight, attention.projection.bias[:, None]], 1)
        parts = (torch.split(part, attention.head_width)[_HEAD] for part in torch.split(joined, attention.sizes))
        w_q, w_k, w_v = (part.mT.double().numpy() for part in parts)
    names = tuple(piece.removeprefix("\u2581") or piece for piece in words.pieces(ids))
    return Example(x.double().numpy(), w_q, w_k, w_v, names)


def _pattern(weights: NDArray[np.float64]) -> dict[str, Any]:
    """Where most tokens have their largest weight: on themselves, on a neighbour or on the last token.

    >>> _pattern(np.array([[0.1, 0.9, 0], [0, 0.2, 0.8], [0, 0, 1]]))
    {'count': 2, 'tokens': 3, 'where': 'the token after'}
    """
    tokens, best = len(weights), weights.argmax(1)
    distances = {"themselves": 0, "the token before": -1, "the token after": 1}
    counts = {where: int((best == np.arange(tokens) + distance).sum()) for where, distance in distances.items()}
    counts["the last token"] = int((best == tokens - 1).sum())
    where = max(counts, key=lambda name: counts[name])
    return {"count": counts[where], "tokens": tokens, "where": where}


_HELP_STEPS = "self-attention of a short sentence, with every number"
STEPS = Command("steps", _HELP_STEPS, _ABOUT_STEPS, _EXAMPLES_STEPS, _run_steps, _add_steps_options)


# regard quiz

_PROSE = 88  # columns

_ABOUT_QUIZ = """\
Ask the questions of the course (docs/course) one by one. Answer with a letter. Each
answer is explained, with code that prints it: run it yourself. An empty line skips a
question; q ends the quiz.
"""
_EXAMPLES_QUIZ = """\
Examples:
  regard quiz           all chapters
  regard quiz 3         scores and scaling
  printf 'a\\nb\\nc\\n' | regard quiz 1
"""


def _add_quiz_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("chapter", nargs="?", metavar="CHAPTER", help="a chapter from 1 to 14 (default: all)")


def _run_quiz(options: argparse.Namespace) -> None:
    from rich.syntax import Syntax

    from regard.learn import CHAPTERS, chapter

    if sys.stdin is None:
        raise FileError("standard input is closed: answers are read from it.")
    number = options.chapter
    if number is not None and number.lstrip("0") not in map(str, CHAPTERS):
        first, last = CHAPTERS[0], CHAPTERS[-1]
        raise InputError(f"CHAPTER must be a number from {first} to {last}. Got {number!r}. Leave it out for all.")
    chapters = [chapter(each) for each in (CHAPTERS if number is None else [int(number)])]
    output = command.console(highlight=False)
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
                output.print(f"\n[bold]{right} of {done} right[/], {total - done} not asked.")
                return
            done += 1
            right += reply == question.answer
            verdict, style = f"It is {question.answer}.", "yellow"  # for an empty line: skipping is not a mistake
            if reply:
                is_right = reply == question.answer
                verdict, style = ("Right.", "green") if is_right else (f"No: it is {question.answer}.", "red")
            _print_prose(output, f"{verdict} {question.because}", styled=len(verdict), style=style)
            output.print()
            code = Syntax("", "python", theme="ansi_light", background_color="default").highlight(
                textwrap.indent(question.code.strip(), " " * 4)
            )
            code.rstrip()
            # Lines of code stay whole: the terminal wraps them, and a copy of them still runs.
            output.print(code, soft_wrap=True)
    output.print(f"\n[bold]{right} of {done} right[/].")


def _print_prose(console: Console, text: str, *, lead: str = "", styled: int = 0, style: str = "") -> None:
    """Print `lead` and a text aligned after it, at most 88 columns wide, the first `styled` letters in a style."""
    from rich.text import Text

    width = max(min(console.width, _PROSE), len(lead) + 10)
    lines = textwrap.fill(text, width, initial_indent=lead, subsequent_indent=" " * len(lead), break_on_hyphens=False)
    shown = Text(lines)
    shown.stylize(style, 0, styled)
    console.print(shown, soft_wrap=True)


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


_HELP_QUIZ = "questions on how attention works, checked and explained"
QUIZ = Command("quiz", _HELP_QUIZ, _ABOUT_QUIZ, _EXAMPLES_QUIZ, _run_quiz, _add_quiz_options)
