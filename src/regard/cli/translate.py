"""`regard translate`: texts, files or standard input, with a model that was trained here or a Marian folder."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from regard.cli import command, streams
from regard.cli.command import Command
from regard.errors import InputError

if TYPE_CHECKING:
    from rich.text import Text

    from regard.translation import Translation, Translator

__all__ = ["COMMAND"]

_ABOUT = """\
Translate from English to French with the model in this package, which needs no
network; or with a model that `regard train` made, or any Marian folder (--model).

A TEXT given here is shown with the time it took and, for each word of the
translation, the words of the source that the decoder looked at while it wrote the
word, as shares of all words of the source (the mean over all heads). Quotes are
optional: several arguments are one text, joined by spaces. Lines of a file or of
standard input give one line each and nothing else, for pipes. Low confidence is
reported on standard error: for a TEXT, typed lines, and with --json.
"""
_EXAMPLES = """\
Examples:
  regard translate "A dog ate the food because it was hungry."
  regard translate Hello how are you                         one sentence, without quotes
  regard translate --alternatives 3 --beam 8 "I am good."
  regard translate -f letters.txt > lettres.txt              line by line
  regard translate --paragraphs -f chapter.txt               paragraphs, sentence by sentence
  regard translate "I am good." --picture                    who looked at whom, here
  regard translate "I am good." --picture -o good.svg        and in a file
  regard translate --model FOLDER "I am hungry."             with a model of yours
  echo "I am hungry." | regard translate --json              tokens, scores, word alignment
In Python:  regard.Translator.default().translate("I am hungry.").text
"""
_END_OF_INPUT = "Ctrl-Z and Enter" if os.name == "nt" else "Ctrl-D"
_ALIGNED = 1_000_000  # weights in a line of JSON, at most
_LOW = 0.5  # a confidence below it is low: the translation is more likely wrong than right
_BAR, _LOOKS, _FAINT = 20, 3, 0.05  # cells of a bar for 100 %; words in a line; smallest weight shown


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "words",
        metavar="TEXT",
        nargs="*",
        type=command.text,
        help="what to translate: several arguments are one text, joined by spaces; none: standard input",
    )
    parser.add_argument("-f", "--file", help="translate a UTF-8 file")
    parser.add_argument("--paragraphs", action="store_true", help="translate sentence by sentence, line ends kept")
    parser.add_argument("--model", metavar="FOLDER", help="a folder of regard's or of Marian's; none: ours")
    parser.add_argument("--beam", type=int, default=4, metavar="N", help="translations followed at a time (4)")
    parser.add_argument("--length-penalty", type=float, default=1.0, metavar="X", help="above 1: longer ones (1)")
    parser.add_argument("--alternatives", type=int, default=1, metavar="N", help="show the N best")
    parser.add_argument("--json", action="store_true", help="an object a line: text, scores, confidence, alignment")
    parser.add_argument("--typography", action="store_true", help="of French: ’ « » and no-break spaces")
    parser.add_argument("--picture", action="store_true", help="of a TEXT: draw its alignment")
    command.add_options(parser, help="the picture as a file: .svg, .html, .png, .pdf", title=False)


def _run(options: argparse.Namespace) -> None:
    if options.words and options.file:
        raise InputError("give a TEXT or a file, not both.")
    drawn = options.picture or options.output is not None
    if drawn and not options.words:
        raise InputError("a picture shows a TEXT of the command line. Got none.")
    from regard.translation import Translator

    translator = Translator.default() if options.model is None else Translator.load(options.model)
    settings = {name: getattr(options, name) for name in ("beam", "length_penalty", "alternatives")}
    settings |= {"split": options.paragraphs, "typography": options.typography or None}
    if options.words:
        text = command.joined(options.words, reading="translate")
        if not text.strip() and not options.json:
            raise InputError(f"no words: the TEXT must have at least one. Got {text!r}.")
        watch = command.Stopwatch()
        found = translator.translate(text, **settings)
        if translator.languages.startswith("en-") and not found.looks_english:
            streams.report("this does not look like English, which is what the model reads.")
        _show(found, watch.took(), options)
        _warn_of_low_confidence(found)
        if drawn:
            picture = found.picture(title=found.text)
            command.show_or_save(picture, options, report=sys.stderr)
        return
    if _is_typed(options):
        streams.report(f"type what to translate, then Enter; {_END_OF_INPUT} ends it.")
    count, start, foreign, unsure = 0, time.perf_counter(), 0, 0
    with _bar(options) as advance:
        for translation in _translations(translator, options, settings):
            count += 1
            foreign += translator.languages.startswith("en-") and not translation.looks_english
            _print_line(translation, options)
            sys.stdout.flush()
            if options.json:  # else the confidence of many lines takes as long as their translation
                unsure += translation.confidence < _LOW
            elif _is_typed(options):
                _warn_of_low_confidence(translation)
            advance(len(translation.source.encode()) + 1)
    seconds = time.perf_counter() - start
    unit = "text" if options.paragraphs else "line"
    if foreign:
        streams.report(f"{foreign:,} of {count:,} {unit}s do not look like English, which is what the model reads.")
    if unsure:
        streams.report(
            f"low confidence in {unsure:,} of {count:,} {unit}s: below {_LOW}, more likely wrong than right."
        )
    print(f"{count:,} {unit}{'s' * (count != 1)} in {seconds:.1f} s", file=sys.stderr)


def _is_typed(options: argparse.Namespace) -> bool:
    """Whether lines are typed on a terminal."""
    return options.file is None and sys.stdin is not None and sys.stdin.isatty()


def _warn_of_low_confidence(translation: Translation) -> None:
    from regard.drawing.terminal import percent

    if translation.confidence < _LOW:
        sure = percent(translation.confidence)
        streams.report(f"low confidence, {sure}: this translation is more likely wrong than right.")


def _bar(options: argparse.Namespace) -> AbstractContextManager[Callable[[float], None]]:
    """A bar for the whole input, in bytes, unless the lines themselves appear on the terminal."""
    from regard.support import progress

    if options.paragraphs or (sys.stdout is not None and sys.stdout.isatty()):
        return nullcontext(lambda amount: None)
    size = os.path.getsize(options.file) if options.file and os.path.isfile(options.file) else None
    return progress("translating", total=size)


def _translations(
    translator: Translator, options: argparse.Namespace, settings: dict[str, Any]
) -> Iterator[Translation]:
    """Those of the lines, in order; of lines that are typed, each at once."""
    from regard.translation import read_lines

    lines: Iterable[str] = read_lines(options.file) if options.file else streams.input_lines()
    if options.paragraphs:
        yield translator.translate("\n".join(lines), **settings)
    elif _is_typed(options):
        for line in lines:
            yield translator.translate(line, **settings)
    else:
        yield from translator.translate_lines(lines, aligned=options.json, **settings)


def _print_line(translation: Translation, options: argparse.Namespace) -> None:
    """A translation for a pipe, and its alternatives."""
    if options.json:
        print(json.dumps(_fields(translation), ensure_ascii=False))
        return
    print(translation.text)
    for other in translation.alternatives[1:]:
        print(f"\t{other.score:.2f}\t{other.text}")


def _show(translation: Translation, took: str, options: argparse.Namespace) -> None:
    """The translation of the command line's text: time, alternatives, and what each word looked at."""
    from rich.text import Text

    if options.json:
        _print_line(translation, options)
        return
    console = streams.console(soft_wrap=True, highlight=False)
    console.print(Text(translation.source, "dim"))
    console.print(Text.assemble("→ ", (translation.text, "bold"), (f"   {took}", "dim")))
    for other in translation.alternatives[1:]:
        console.print(Text(f"  {other.text}   {other.score:.2f}"))
    printed = options.picture and options.output is None  # the picture shows the same as the bars
    if translation.words and not printed:
        console.print()
        console.print(_looks(translation))


def _looks(translation: Translation) -> Text:
    """For each word of the translation, the words of the source that it looked at most, as bars."""
    from rich.cells import cell_len
    from rich.text import Text

    from regard.drawing.terminal import labelled_bar, visible
    from regard.support import progress

    words = [visible(word) for word in translation.words]
    width = max(map(cell_len, words))
    lines = []
    with progress("aligning", total=len(words)) as advance:
        for word, (_, best) in zip(words, translation.looks(_LOOKS), strict=True):
            line = Text(" " * (width - cell_len(word)) + word, "cyan")
            for source, weight in [look for look in best if look[1] >= _FAINT] or best[:1]:
                line.append(f" {labelled_bar(source, weight, _BAR, digits=2)}  ", "")
            line.rstrip()
            lines.append(line)
            advance(1)
    return Text("\n").join(lines)


def _fields(translation: Translation) -> dict[str, Any]:
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
        "alignment": _alignment(translation),
        "alternatives": [{"text": other.text, "score": round(other.score, 4)} for other in translation.alternatives],
    }


def _alignment(translation: Translation) -> list[list[float]] | None:
    rows, columns = len(translation.words), len(translation.source_words)
    if rows * columns > _ALIGNED:
        streams.report(
            f"a text of {columns:,} words, translated to {rows:,}, has no alignment: more than {_ALIGNED:,} weights. "
            f"Give it in smaller parts."
        )
        return None
    return [[round(share, 4) for share in row] for row in translation.alignment.tolist()]


COMMAND = Command(
    "translate",
    help="translate, from English to French or with a model of yours",
    description=_ABOUT,
    epilog=_EXAMPLES,
    add_options=_add_options,
    run=_run,
)
