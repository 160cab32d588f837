"""`regard see`: what a model looks at in a text."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.cli import output
from regard.errors import InputError

if TYPE_CHECKING:
    from regard.translation import Translation
    from regard.watching import Record
    from regard.watching.see import Question

__all__ = ["add"]

_ABOUT = """\
What a model looks at in a text: for each word, or from one word to another. The
model is the English to French translator in this package, unless --model names
another: one that `regard train` made or one of Hugging Face, in a folder or a GGUF
file on this machine. It runs at full speed, and no weights are stored. Words may
be several tokens.

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


def add(commands: Any) -> None:
    """Describe the command."""
    command = commands.add_parser(
        "see",
        help="what a model looks at in a text",
        description=_ABOUT,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument("text", help="what the model reads")
    command.add_argument("--model", metavar="PATH", help="a folder with a model, or a GGUF file; none: ours")
    command.add_argument("--from", dest="start", metavar="WORD", help="what does this word look at?")
    command.add_argument("--to", dest="end", metavar="WORD", help="what looks at this word? With --from: which heads?")
    command.add_argument("--layer", type=int, metavar="N", help="in this layer only, counted from 0")
    command.add_argument("--head", type=int, metavar="N", help="in this head only, counted from 0")
    command.add_argument("--kind", choices=("encoder", "decoder", "cross"), help="of a translator: which attention")
    command.add_argument("--json", action="store_true", help="the same as JSON")
    drawn = command.add_argument_group("pictures, in the terminal or with -o in a file").add_mutually_exclusive_group()
    for name, help in _PICTURES.items():
        drawn.add_argument(f"--{name}", dest="drawing", action="store_const", const=name, help=help)
    output.add(command)
    command.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> None:
    from regard.watching.see import Question, drawn, run, told

    question = Question(options.start, options.end, options.layer, options.head, options.kind)
    found = _translated(options.text, options.model)
    record = run(options.model, options.text) if found is None else found.watch()
    if found is not None and len(record.passes) > 1:
        raise InputError(f"see takes one sentence. Got {len(record.passes)}.")
    if found is not None and question.kind is None:
        question = replace(question, kind=_kind(record, question))
    if options.drawing is None and options.output is None:
        print(told(record, question, options.text, as_json=options.json, target=None if found is None else found.text))
        return
    title = options.text if options.title is None else options.title
    picture = drawn(record, question, options.drawing or "lines", title)
    if options.output is None:
        from rich.console import Console

        Console().print(picture)
    else:
        output.save(picture, options)


def _translated(text: str, model: str | None) -> Translation | None:
    """What a translator of ours makes of a text; nothing, if the model is not ours."""
    from regard.nn import FORMAT, model_folder
    from regard.translation import Translator

    if model is None:
        return Translator.default().translate(text)
    place = Path(model)
    ours = (place / "config.json").is_file() and model_folder.read_config(place).get("format") == FORMAT
    return Translator.load(place).translate(text) if ours else None


def _kind(record: Record, question: Question) -> str:
    """The kind of attention that a question is about: from a word of the target only, it is cross-attention."""
    sides = {entry.kind: entry.tokens[0] for entry in record.values() if entry.tokens is not None}
    word = question.start
    return "cross" if word is not None and sides["cross"].has(word) and not sides["encoder"].has(word) else "encoder"
