"""The commands for learning: `regard demo`, `regard steps`, `regard quiz`."""

from __future__ import annotations

import argparse
import csv
import os
import shutil
import subprocess
import sys
import textwrap
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from regard.cli import command
from regard.cli.command import Command
from regard.errors import FileError, InputError
from regard.io import progress

if TYPE_CHECKING:
    from rich.console import Console

    from regard.learn.questions import Chapter
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
  regard steps "Any words of yours" --layer 1 --head 4
  regard steps "Any words of yours" --matrix weights > weights.csv
  regard steps "Any words of yours" --random         an untrained model
  regard steps --example numbers -o steps.png --theme dark

Four sentences have the numbers of the textbook: "I am good", "I am hungry", "A dog
ate the food because it was hungry", and "I like sushi because it makes me happy".
For any other sentence, or with --layer or --head, the numbers are those of one head of
the bundled translator (layers and heads count from 0); with --random they are random, as
in a model before its training.
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
_UNKNOWN = """\
Note: the translator has no token for {letters}: all of them are <unk>, with the same numbers.
"""
_BY_HAND = "The textbook's numbers, made by hand to show the idea: they are not from a trained model.\n"
_RANDOM = """\
Random numbers: X and the matrices W are random, as in an untrained model, so the
weights mean nothing. Without --random, a sentence of the textbook has the textbook's
numbers, as in `regard steps "I am good"`, and any other has those of a trained model.
"""
_MATRICES = "x", "w_q", "w_k", "w_v", "queries", "keys", "values", "scores", "scaled", "weights", "output"
_EXAMPLE = {"good": "i_am_good", "numbers": "worked_example"}  # functions of regard.learn.textbook
_EXAMPLE_HELP = 'good: "I am good", 512 numbers for each word (default); numbers: three words of four numbers'


def _add_steps_options(parser: argparse.ArgumentParser) -> None:
    sentence = "the words; several arguments are one sentence"
    parser.add_argument("sentence", nargs="*", type=command.text, metavar="SENTENCE", help=sentence)
    parser.add_argument("--example", choices=_EXAMPLE, default="good", help=_EXAMPLE_HELP)
    parser.add_argument("--random", action="store_true", help="use random numbers, as in an untrained model")
    parser.add_argument("--layer", type=int, metavar="N", help=f"layer of the translator, from 0 ({_LAYER})")
    parser.add_argument("--head", type=int, metavar="N", help=f"head of this layer, from 0 ({_HEAD})")
    only = "print only this matrix as CSV, all of it; with -o, its picture"
    parser.add_argument("--matrix", choices=_MATRICES, help=only)
    command.add_picture_options(parser)


def _run_steps(options: argparse.Namespace) -> None:
    from regard.learn import steps

    sentence = " ".join(options.sentence) if options.sentence else None
    example, note = _example(sentence, options)
    result = steps(*example)
    if options.output is not None:
        title = options.title
        if note != _BY_HAND:
            print(note)
            title = f"{sentence} ({note.partition(':')[0].lower()})" if title is None else title
        command.save(result.picture(title=title, only=options.matrix), options)
    elif options.matrix is None:
        print(note)
        command.console().print(result)
    else:
        numbers, square = getattr(result, options.matrix), options.matrix in ("scores", "scaled", "weights")
        names = range(len(numbers)) if options.matrix.startswith("w_") else result.words
        table = csv.writer(sys.stdout)
        table.writerow(["", *(result.words if square else range(numbers.shape[1]))])
        table.writerows([name, *row] for name, row in zip(names, numbers.tolist(), strict=True))


def _example(sentence: str | None, options: argparse.Namespace) -> tuple[Example, str]:
    """The arguments of `steps`, and a note on where their numbers come from."""
    from regard.learn import textbook

    chosen = [f"--{name}" for name in ("layer", "head") if getattr(options, name) is not None]
    if sentence is None:
        if options.random or chosen:
            raise InputError(f"{'--random' if options.random else chosen[0]} takes a SENTENCE. Got none.")
        return getattr(textbook, _EXAMPLE[options.example])(), _BY_HAND
    if options.random:
        if chosen:
            raise InputError(f"{chosen[0]} chooses numbers of the translator, --random takes none. Leave one out.")
        return textbook.untrained(sentence), _RANDOM
    example = None if chosen else textbook.known(sentence)
    return _trained(sentence, options.layer, options.head) if example is None else (example, _BY_HAND)


def _trained(sentence: str, layer: int | None, head: int | None) -> tuple[Example, str]:
    """The input of an encoder layer of the translator for a sentence, the matrices of one of its heads, and a note."""
    import torch

    from regard.learn import steps
    from regard.learn.textbook import Example
    from regard.translation import Translator

    translator = Translator.default()
    model, words = translator.model, translator.words
    layer, head = _LAYER if layer is None else layer, _HEAD if head is None else head
    layers, heads = len(model.encoder.layers), model.config.heads
    if layer not in range(layers) or head not in range(heads):
        raise InputError(
            f"the translator has layers 0 to {layers - 1} with heads 0 to {heads - 1}. Got layer {layer}, head {head}."
        )
    ids, most = [*words.encode(sentence), words.end], model.config.positions
    if len(ids) > most:
        raise InputError(f"the sentence must have at most {most} tokens. Got {len(ids)}. Shorten it, or use --random.")
    attention: Any = model.encoder.layers[layer].attention
    with torch.no_grad():
        x, _ = model.enter(torch.tensor([ids]))
        for before in model.encoder.layers[:layer]:
            x = before(x)
        x = torch.cat([x[0], torch.ones(len(ids), 1)], 1)  # times the bias, the last row of each W
        joined = torch.cat([attention.projection.weight, attention.projection.bias[:, None]], 1)
        parts = (torch.split(part, attention.head_width)[head] for part in torch.split(joined, attention.sizes))
        w_q, w_k, w_v = (part.mT.double().numpy() for part in parts)
    names = tuple(piece.removeprefix("\u2581") or piece for piece in words.pieces(ids))
    example = Example(x.double().numpy(), w_q, w_k, w_v, names)
    note = _TRAINED.format(layer=layer, head=head, **_pattern(steps(*example).weights))
    letters = "".join(dict.fromkeys(letter for letter in sentence if not words.knows(letter)))
    return example, note + (_UNKNOWN.format(letters=letters) if letters else "")


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
_KILLED = 60  # seconds for all functions of a file; each of them stops itself earlier, unless it hangs in C
_CHECK = """\
import sys
from regard.learn import check_file
verdicts = check_file(sys.argv[1], int(sys.argv[2]))
print(*verdicts, sep="\\n")
sys.exit(not all(verdicts))
"""

_ABOUT_QUIZ = """\
Ask the questions of the course (docs/course) one by one. Answer with a letter. Each
answer is explained, with code that prints it: run it yourself. An empty line skips a
question; q ends the quiz.

With --code: write the functions of a chapter yourself. The first time, a file with
their heads is written into this folder. Fill it in and run the same command again: it
compares your functions with ours on random inputs, and says what differs. They run in
a process of their own for a few seconds at most. Exit code 1: something is not right.
"""
_EXAMPLES_QUIZ = """\
Examples:
  regard quiz           all chapters
  regard quiz 3         scores and scaling
  regard quiz --code 4  write softmax; from 1 to 14, the parts of a Transformer
  printf 'a\\nb\\nc\\n' | regard quiz 1
"""


def _add_quiz_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("chapter", nargs="?", metavar="CHAPTER", help="the number of a chapter (default: all)")
    parser.add_argument("--code", action="store_true", help="write the functions of a chapter, and have them checked")


def _run_quiz(options: argparse.Namespace) -> None:
    from regard.learn.questions import chapter, chapters

    number, known = options.chapter, chapters("code" if options.code else "quiz")
    if number is None and options.code:
        raise InputError("--code takes a CHAPTER. Got none.")
    if number is not None and number.lstrip("0") not in map(str, known):
        leave = "" if options.code else " Leave it out for all."
        raise InputError(f"CHAPTER must be a number from {known[0]} to {known[-1]}. Got {number!r}.{leave}")
    if options.code:
        _check_code(int(number))
    else:
        _ask([chapter(each) for each in (known if number is None else [int(number)])])


def _check_code(number: int) -> None:
    """Write a file with functions to fill in or, if it exists, check the functions in it."""
    from regard.learn import exercises

    path, every = Path(f"chapter_{number}.py"), exercises(number)
    if not path.exists():
        head = f'"""Chapter {number}: write the functions, then run `regard quiz --code {number}` again."""'
        with path.open("x", encoding="utf-8") as file:
            file.write("\n\n".join([f"{head}\n\nimport numpy as np\n", *(each.stub for each in every)]))
        print(f"Wrote {path}. Fill in {' and '.join(each.name for each in every)}, then run the same command again.")
        return
    command_line = [sys.executable, "-X", "utf8", "-c", _CHECK, str(path), str(number)]
    try:
        with progress("checking"):
            done = subprocess.run(
                command_line, capture_output=True, encoding="utf-8", errors="replace", timeout=_KILLED
            )
    except subprocess.TimeoutExpired:
        raise InputError(f"{path} did not end in {_KILLED} seconds. Is there a loop that never ends?") from None
    print(done.stdout, end="")
    if done.returncode not in (0, 1):
        raise InputError(f"{path} ended Python with exit code {done.returncode}. {done.stderr}".strip())
    if done.returncode:
        raise SystemExit(1)


def _ask(chapters: list[Chapter]) -> None:
    """Ask the questions of some chapters."""
    from rich.syntax import Syntax

    if sys.stdin is None:
        raise FileError("standard input is closed: answers are read from it.")
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
QUIZ = Command("quiz", _HELP_QUIZ, _ABOUT_QUIZ, _EXAMPLES_QUIZ, _run_quiz, _add_quiz_options, needs_torch=False)
