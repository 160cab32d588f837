"""`regard translate`: translate a text, a file or standard input."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from regard.cli import command
from regard.cli.command import Command, report
from regard.errors import InputError
from regard.io import progress

if TYPE_CHECKING:
    from rich.text import Text

    from regard.translation import Translation, Translator

_ABOUT = """\
Translate from English to French with the bundled model, which needs no network; or
with another model (--model).

For a TEXT, the output shows the time and, for each word of the translation, the
source words with the largest weights: the share of attention that the decoder gave
them while it wrote the word (mean over all heads). Each line of a file or of standard
input gives one line of output and nothing else, for pipes; --paragraphs translates
texts whose sentences run over several lines. A low confidence is reported on standard
error: for a TEXT, for typed lines, and with --json.
"""
_EXAMPLES = """\
Examples:
  regard translate "A dog ate the food because it was hungry."
  regard translate Hello how are you                         one sentence, without quotes
  regard translate --alternatives 3 --beam 8 "I am good."
  regard translate -f letters.txt > lettres.txt              line by line
  regard translate --paragraphs -f chapter.txt               paragraphs, sentence by sentence
  regard translate "I am good." --picture                    the alignment, in the terminal
  regard translate "I am good." --picture -o good.svg        the same in a file
  regard translate --model FOLDER "I am hungry."             with your own model
  echo "I am hungry." | regard translate --json              tokens, scores, word alignment
In Python:  regard.Translator.default().translate("I am hungry.").text
"""
_END_OF_INPUT = "Ctrl-Z and Enter" if os.name == "nt" else "Ctrl-D"
_MOST_WEIGHTS = 1_000_000  # in a line of JSON
_LOW = 0.5  # with a confidence below this, the translation is more likely wrong than right
_BAR, _LOOKS, _SMALLEST = 20, 3, 0.05  # cells of a bar for 100 %; words in a line; smallest weight shown
_FOREIGN = "like English, which is what the model reads"


def _add_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    words = "the text; several arguments are one text, joined by spaces; none: standard input"
    add("words", metavar="TEXT", nargs="*", type=command.text, help=words)
    add("-f", "--file", help="translate a UTF-8 file, line by line")
    add("--paragraphs", action="store_true", help="translate sentence by sentence and keep the line ends")
    add("--model", metavar="FOLDER", help="a model of `regard train` or of Marian (default: the bundled one)")
    add("--beam", type=int, default=4, metavar="N", help="number of hypotheses that the search follows (4)")
    add("--length-penalty", type=float, default=1.0, metavar="X", help="above 1: prefer longer translations (1)")
    add("--alternatives", type=int, default=1, metavar="N", help="print the N best translations")
    add("--json", action="store_true", help="print one JSON object per line: text, scores, confidence, alignment")
    add("--typography", action="store_true", help="write French with ’ « » and no-break spaces")
    add("--picture", action="store_true", help="draw the alignment of a TEXT")
    command.add_picture_options(parser, title=False)


def _run(options: argparse.Namespace) -> None:
    if options.words and options.file:
        raise InputError("give a TEXT or a file, not both.")
    if (options.picture or options.output is not None) and not options.words:
        raise InputError("a picture shows a TEXT of the command line. Got none.")
    from regard.translation import Translator

    translator = Translator.default() if options.model is None else Translator.load(options.model)
    settings = {name: getattr(options, name) for name in ("beam", "length_penalty", "alternatives")}
    settings |= {"split": options.paragraphs, "typography": options.typography or None}
    if options.words:
        _translate_text(translator, options, settings)
    else:
        _translate_lines(translator, options, settings)


def _translate_text(translator: Translator, options: argparse.Namespace, settings: dict[str, Any]) -> None:
    """Translate the TEXT of the command line, and print or draw its alignment."""
    text = command.join(options.words, verb="translate")
    if not text.strip() and not options.json:
        raise InputError(f"no words: the TEXT must have at least one. Got {text!r}.")
    translation, took = command.timed(lambda: translator.translate(text, **settings))
    if _is_foreign(translator, translation):
        report(f"this does not look {_FOREIGN}.")
    _show(translation, took, options)
    _warn_of_low_confidence(translation)
    if options.picture or options.output is not None:
        command.show_or_save(translation.picture(title=translation.text), options, stream=sys.stderr)


def _translate_lines(translator: Translator, options: argparse.Namespace, settings: dict[str, Any]) -> None:
    """Translate a file or standard input, and report the number of lines and the time."""
    if _is_typed(options):
        report(f"type a text, then Enter; {_END_OF_INPUT} ends the input.")
    count, start, foreign, unsure = 0, time.perf_counter(), 0, 0
    with _bar(options) as advance:
        for translation in _translations(translator, options, settings):
            count += 1
            foreign += _is_foreign(translator, translation)
            _print_line(translation, options)
            sys.stdout.flush()
            if options.json:  # without --json, the confidence of many lines would take as long as their translation
                unsure += translation.confidence < _LOW
            elif _is_typed(options):
                _warn_of_low_confidence(translation)
            advance(len(translation.source.encode()) + 1)
    seconds = time.perf_counter() - start
    unit = "text" if options.paragraphs else "line"
    if foreign:
        report(f"{foreign:,} of {count:,} {unit}s do not look {_FOREIGN}.")
    if unsure:
        report(f"low confidence in {unsure:,} of {count:,} {unit}s: below {_LOW}, more likely wrong than right.")
    print(f"{count:,} {unit}{'s' * (count != 1)} in {seconds:.1f} s", file=sys.stderr)


def _is_foreign(translator: Translator, translation: Translation) -> bool:
    """Whether a translator from English was given a text in another language."""
    return translator.languages.startswith("en-") and not translation.looks_english


def _is_typed(options: argparse.Namespace) -> bool:
    """Whether the user types the lines on a terminal."""
    return options.file is None and sys.stdin is not None and sys.stdin.isatty()


def _warn_of_low_confidence(translation: Translation) -> None:
    from regard.drawing.terminal import percent

    if translation.confidence < _LOW:
        report(f"low confidence, {percent(translation.confidence)}: this translation is more likely wrong than right.")


def _bar(options: argparse.Namespace) -> AbstractContextManager[Callable[[float], None]]:
    """A bar over the bytes of the input, unless the translations themselves appear on the terminal."""
    if options.paragraphs or (sys.stdout is not None and sys.stdout.isatty()):
        return nullcontext(lambda amount: None)
    size = os.path.getsize(options.file) if options.file and os.path.isfile(options.file) else None
    return progress("translating", total=size)


def _translations(
    translator: Translator, options: argparse.Namespace, settings: dict[str, Any]
) -> Iterator[Translation]:
    """The translations of the lines, in order; typed lines are translated one by one."""
    from regard.translation import read_lines

    lines: Iterable[str] = read_lines(options.file) if options.file else command.input_lines()
    if options.paragraphs:
        yield translator.translate("\n".join(lines), **settings)
    elif _is_typed(options):
        for line in lines:
            yield translator.translate(line, **settings)
    else:
        yield from translator.translate_lines(lines, aligned=options.json, **settings)


def _print_line(translation: Translation, options: argparse.Namespace) -> None:
    """Print a translation for a pipe, and its alternatives."""
    if options.json:
        print(json.dumps(_fields(translation), ensure_ascii=False))
        return
    print(translation.text)
    for other in translation.alternatives[1:]:
        print(f"\t{other.score:.2f}\t{other.text}")


def _show(translation: Translation, took: str, options: argparse.Namespace) -> None:
    """Print the translation of a TEXT: the time, the alternatives, and the source words of each word."""
    from rich.text import Text

    if options.json:
        _print_line(translation, options)
        return
    console = command.console(soft_wrap=True, highlight=False)
    console.print(Text(translation.source, "dim"))
    console.print(Text.assemble("→ ", (translation.text, "bold"), (f"   {took}", "dim")))
    for other in translation.alternatives[1:]:
        console.print(Text(f"  {other.text}   {other.score:.2f}"))
    is_drawn_here = options.picture and options.output is None  # the picture shows the same as the bars
    if translation.words and not is_drawn_here:
        console.print()
        console.print(_looks(translation))


def _looks(translation: Translation) -> Text:
    """For each word of the translation, the source words with the largest weights, as bars."""
    from rich.cells import cell_len
    from rich.text import Text

    from regard.drawing.terminal import labelled_bar, visible

    words = [visible(word) for word in translation.words]
    width = max(map(cell_len, words))
    lines = []
    with progress("aligning", total=len(words)) as advance:
        for word, (_, best) in zip(words, translation.looks(_LOOKS), strict=True):
            line = Text(" " * (width - cell_len(word)) + word, "cyan")
            for source, weight in [look for look in best if look[1] >= _SMALLEST] or best[:1]:
                line.append(f" {labelled_bar(source, weight, _BAR, digits=2)}  ", "")
            line.rstrip()
            lines.append(line)
            advance(1)
    return Text("\n").join(lines)


def _fields(translation: Translation) -> dict[str, Any]:
    """A translation as a JSON object."""
    rows, columns, alignment = len(translation.words), len(translation.source_words), None
    if rows * columns <= _MOST_WEIGHTS:
        alignment = [[round(share, 4) for share in row] for row in translation.alignment.tolist()]
    else:
        report(
            f"the alignment is left out: {columns:,} words with a translation of {rows:,} have more than "
            f"{_MOST_WEIGHTS:,} weights. Split the text."
        )
    return {
        "source": translation.source,
        "text": translation.text,
        "score": round(translation.score, 4),
        "confidence": round(translation.confidence, 4),
        "looks_english": translation.looks_english,
        "source_tokens": translation.source_tokens,
        "tokens": translation.tokens,
        "source_words": translation.source_words,
        "words": translation.words,
        "word_confidence": [round(share, 4) for share in translation.word_confidence],
        "alignment": alignment,
        "alternatives": [{"text": other.text, "score": round(other.score, 4)} for other in translation.alternatives],
    }


_HELP = "translate from English to French, or with your own model"
COMMAND = Command("translate", _HELP, _ABOUT, _EXAMPLES, _run, _add_options)
