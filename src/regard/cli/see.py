"""`regard see`: what a model looks at in a text."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from regard.cli import command, streams
from regard.cli.command import Command
from regard.errors import InputError

if TYPE_CHECKING:
    from regard.translation import Translation
    from regard.watching import Record
    from regard.watching.see import Question

__all__ = ["COMMAND"]

_ABOUT = """\
What a model looks at in a text: for each word, or from one word to another. The
model is the English to French translator in this package, unless --model names
another: one that `regard train` made or one of Hugging Face, in a folder or a GGUF
file on this machine. It runs at full speed, and no weights are stored. Words may
be several tokens. Without a TEXT, or with - in its place, the text is standard input.

A translator reads the text and what it translates it to. Its attention is of three
kinds: encoder (source to source), decoder (target to target) and cross (target to
source). Without --kind, it is cross where --from is a word of the target only, and
encoder otherwise.
"""
_EXAMPLES = """\
Examples:
  regard see "A dog ate the food because it was hungry." --from it --to dog
  regard see "A dog ate the food because it was hungry." --from chien
  regard see "A dog ate the food because it was hungry." --from it --lines -o it.svg
  regard see "A dog ate the food because it was hungry" --model FOLDER --from it --to dog
  regard see -f letter.txt --model FOLDER --from it --layer -1    the last layer
  echo "A dog ate the food because it was hungry." | regard see --from it
In Python:  regard.Translator.default().translate(text).watch().looks("it", kind="encoder")
            with regard.watch(model, tokenizer=tokenizer) as record: model(**inputs)
"""
_PICTURES = {
    "lines": "words joined by lines, the thicker the more one looks at the other (--from stands out)",
    "matrix": "a heat map with its numbers",
    "grid": "every layer and head as a thumbnail",
    "flow": "the way of a word (--from) through the layers",
    "map": "a long text as a small picture",
}


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "text", metavar="TEXT", nargs="?", type=command.text, help="what the model reads; - or none: standard input"
    )
    parser.add_argument("-f", "--file", metavar="FILE", help="read a UTF-8 file instead; -: standard input")
    parser.add_argument("--model", metavar="PATH", help="a folder with a model, or a GGUF file; none: ours")
    parser.add_argument("--from", dest="start", type=command.text, metavar="WORD", help="what does this word look at?")
    parser.add_argument(
        "--to", dest="end", type=command.text, metavar="WORD", help="what looks at this word? With --from: which heads?"
    )
    parser.add_argument("--layer", type=int, metavar="N", help="in this layer only, counted from 0; -1 is the last")
    parser.add_argument("--head", type=int, metavar="N", help="in this head only, counted from 0")
    parser.add_argument("--kind", choices=("encoder", "decoder", "cross"), help="of a translator: which attention")
    parser.add_argument("--json", action="store_true", help="the same as JSON")
    parser.add_argument(
        "--trust-remote-code", action="store_true", help="run the Python code in the folder: it can do what you can do"
    )
    group = parser.add_argument_group("pictures, in the terminal or with -o in a file")
    pictures = group.add_mutually_exclusive_group()
    for name, help in _PICTURES.items():
        pictures.add_argument(f"--{name}", dest="drawing", action="store_const", const=name, help=help)
    command.add_options(parser)


def _run(options: argparse.Namespace) -> None:
    from regard.watching.see import Question, describe, draw, watch_text

    text = _text(options)
    question = Question(options.start, options.end, options.layer, options.head, options.kind)
    translation = _translated(text, options.model)
    if translation is None:
        record = watch_text(options.model, text, trust_remote_code=options.trust_remote_code)
    else:
        record = translation.watch()
    if translation is not None and len(record.passes) > 1:
        raise InputError(f"see takes one sentence. Got {len(record.passes)}.")
    if translation is not None and question.kind is None:
        question = replace(question, kind=_kind(record, question))
    if question.layer is not None and question.layer < 0:
        question = replace(question, layer=_layer_from_end(record, question))
    if options.drawing is None and options.output is None:
        target = None if translation is None else translation.text
        print(describe(record, question, text, as_json=options.json, target=target))
        return
    title = " ".join(text.split()) if options.title is None else options.title  # a file may have several lines
    command.show_or_save(draw(record, question, options.drawing or "lines", title), options)


def _text(options: argparse.Namespace) -> str:
    """The text of the command line, of a file or of standard input, without the line end that closes it."""
    from regard.translation import read_lines

    if options.text is not None and options.file is not None:
        raise InputError("give a TEXT or a file, not both.")
    if options.text not in (None, "-"):
        return str(options.text)
    if options.file not in (None, "-"):
        return "\n".join(read_lines(options.file))
    if options.text is None and options.file is None and sys.stdin is not None and sys.stdin.isatty():
        raise InputError("there is no text. Give a TEXT, a file with -f, or - to type it here.")
    return "\n".join(streams.input_lines())


def _translated(text: str, model: str | None) -> Translation | None:
    """The translation of a text by a translator of regard's; None if the model is of another kind."""
    from regard.nn import FORMAT, model_folder
    from regard.translation import Translator

    if model is None:
        return Translator.default().translate(text)
    folder = Path(model)
    ours = (folder / "config.json").is_file() and model_folder.read_config(folder).get("format") == FORMAT
    return Translator.load(folder).translate(text) if ours else None


def _layer_from_end(record: Record, question: Question) -> int:
    """The number of a layer that is counted from the end, among those of the question's kind."""
    layers = sorted({entry.layer for entry in record.at(kind=question.kind).values()})
    assert question.layer is not None
    if -question.layer > len(layers):
        raise InputError(f"--layer counts from -1 back to -{len(layers)}. Got {question.layer}.")
    return layers[question.layer]


def _kind(record: Record, question: Question) -> str:
    """The kind of attention that a question is about: cross-attention for a word that only the target has."""
    sides = {entry.kind: entry.tokens[0] for entry in record.values() if entry.tokens is not None}
    word = question.start
    return "cross" if word is not None and sides["cross"].has(word) and not sides["encoder"].has(word) else "encoder"


COMMAND = Command(
    "see",
    help="what a model looks at in a text",
    description=_ABOUT,
    epilog=_EXAMPLES,
    add_options=_add_options,
    run=_run,
)
