"""`regard`: one thin command for each thing that can be done from a terminal."""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Sequence

from rich.console import Console

from regard import __version__, textbook
from regard.commands import quiz, score, train, translate
from regard.drawing.picture import Picture, size
from regard.errors import RegardError
from regard.steps import steps

__all__ = ["main"]

_REGARD = "Self-attention computed at full speed, with nothing hidden."
_STEPS = """\
Self-attention of a small sentence, with every number of it. Each word is a row
of X; three learned matrices turn it into a query, a key and a value. Then:

  1  scores   each query times each key: QKᵀ
  2  scaled   divided by √d, for else the softmax of long queries is all or none
  3  weights  the softmax of each row: shares that add up to 100 %
  4  output   a mixture of the values in these shares: Z = softmax(QKᵀ/√d) V
"""
_STEPS_EXAMPLES = """\
Examples:
  regard steps                                       "I am good", the textbook's
  regard steps "A dog ate the food because it was hungry"
  regard steps "Any words of yours" -o steps.html    hover says every number
  regard steps --example numbers -o steps.png --theme dark

Four sentences of the documents have numbers that mean something; the words of
any other have random ones, as in a model before its training.
In Python:  steps = regard.steps(x, w_q, w_k, w_v, words); steps.picture().save("steps.svg")
"""
_SEE = """\
What a model looks at in a text: for each word, or from one word to another. The
model is one of Hugging Face, in a folder or a GGUF file on this machine; it
runs at full speed, and no weights are stored. Words may be several tokens.
"""
_PICTURES = {
    "lines": "words joined by lines, the thicker the more one looks at the other (--from stands out)",
    "matrix": "a heat map with its numbers",
    "grid": "every layer and head as a thumbnail",
    "flow": "the way of a word (--from) through the layers",
    "map": "a long text as a small picture",
}
_EXAMPLES = {"good": textbook.i_am_good, "numbers": textbook.worked_example}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; 0 when it went well, 2 when regard could not do it.

    >>> main(["--version"])
    Traceback (most recent call last):
    SystemExit: 0
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without √ shall see the rest
    parser = _parser()
    options = parser.parse_args(arguments)
    if "run" not in options:
        parser.print_help()
        return 0
    try:
        options.run(options)
    except RegardError as error:
        print(f"regard: {error}", file=sys.stderr)
        return 2
    return 0


def _parser() -> argparse.ArgumentParser:
    look = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("regard", description=_REGARD, epilog="Start with:  regard steps")
    parser.add_argument("--version", action="version", version=f"regard {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="command")

    command = commands.add_parser(
        "steps",
        help="self-attention of a small sentence, with every number of it",
        description=_STEPS,
        epilog=_STEPS_EXAMPLES,
        formatter_class=look,
    )
    command.add_argument("sentence", nargs="?", metavar="SENTENCE", help="the words to compute with, in quotes")
    command.add_argument(
        "--example",
        choices=_EXAMPLES,
        default="good",
        help='good: "I am good", 512 numbers for each word (the default); numbers: three words of four numbers',
    )
    _add_output(command)
    command.set_defaults(run=_steps)

    command = commands.add_parser(
        "see",
        help="what a model of yours looks at in a text",
        description=_SEE,
        epilog='Example:  regard see "A dog ate the food because it was hungry" --model FOLDER --from it --to dog\n'
        "In Python:  with regard.watch(model, tokenizer=tokenizer) as record: model(**inputs)",
        formatter_class=look,
    )
    command.add_argument("text", help="what the model reads")
    command.add_argument("--model", required=True, metavar="PATH", help="a folder with a model, or a GGUF file")
    command.add_argument("--from", dest="start", metavar="WORD", help="what does this word look at?")
    command.add_argument("--to", dest="end", metavar="WORD", help="what looks at this word? With --from: which heads?")
    command.add_argument("--layer", type=int, metavar="N", help="in this layer only, counted from 0")
    command.add_argument("--head", type=int, metavar="N", help="in this head only, counted from 0")
    command.add_argument("--kind", choices=("encoder", "decoder", "cross"), help="of a translator: which attention")
    command.add_argument("--json", action="store_true", help="the same as JSON")
    drawn = command.add_argument_group("pictures, in the terminal or with -o in a file").add_mutually_exclusive_group()
    for name, help in _PICTURES.items():
        drawn.add_argument(f"--{name}", dest="drawing", action="store_const", const=name, help=help)
    _add_output(command)
    command.set_defaults(run=_see)

    translate.add(commands)
    train.add(commands)
    score.add(commands)
    quiz.add(commands)
    return parser


def _add_output(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "-o", "--output", metavar="FILE", help="save a picture instead: .svg, .html, or with regard[draw] .png, .pdf"
    )
    command.add_argument("--theme", choices=("light", "dark"), default="light", help="colours of the picture")
    command.add_argument("--title", help="a title for the picture (the words, if not given)")


def _steps(options: argparse.Namespace) -> None:
    example = _EXAMPLES[options.example]() if options.sentence is None else textbook.sentence(options.sentence)
    done = steps(*example)
    if options.output is None:
        Console().print(done)
        return
    _save(done.picture(title=options.title), options)


def _save(picture: Picture, options: argparse.Namespace) -> None:
    path = picture.save(options.output, theme=options.theme)
    print(f"{path}: {size(path.stat().st_size)}")


def _see(options: argparse.Namespace) -> None:
    from regard.watch.see import Question, drawn, see  # brings the whole of watching

    question = Question(options.start, options.end, options.layer, options.head, options.kind)
    if options.drawing is None and options.output is None:
        print(see(options.text, options.model, question, options.json))
        return
    title = options.text if options.title is None else options.title
    picture = drawn(options.text, options.model, question, options.drawing or "lines", title)
    if options.output is None:
        Console().print(picture)
    else:
        _save(picture, options)
