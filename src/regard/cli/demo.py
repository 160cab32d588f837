"""`regard demo`: a sentence translated, what its word "it" attends to, and attention in four steps."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import textwrap
from typing import TYPE_CHECKING

from regard.cli.command import Command, Stopwatch

if TYPE_CHECKING:
    from regard.translation import Translator

SENTENCE = "A dog ate the food because it was hungry."
_WIDTH = 78
_BAR, _LOOKS = 16, 4  # cells of a bar for 100 %; words shown
_ABOUT = """\
Translate a sentence, show which words "it" attends to while the translator reads
it, and print the four steps of self-attention for the textbook's "I am good".
"""


def _run(_: argparse.Namespace) -> None:
    from regard.translation import Translator

    for line in lines(Translator.default()):
        print(line)
    print(f"\nThe same in your browser, to explore:  {_program()} serve --open")


def _program() -> str:
    """How this process was started: by its path where `regard` is not on the PATH."""
    started = sys.argv[0]
    by_path = os.path.basename(started).startswith("regard") and shutil.which("regard") is None
    return started if by_path else "regard"


def lines(translator: Translator) -> list[str]:
    """Everything that the demo prints."""
    from regard.drawing.terminal import labelled_bar
    from regard.learn import steps, textbook

    watch = Stopwatch()
    translation = translator.translate(SENTENCE)
    took = watch.took()
    record = translation.watch()
    best = record.heads("it", "dog", kind="encoder")[0]  # the head with the largest weight, measured now
    looks = record.looks("it", kind="encoder", layer=best.layer, head=best.head)
    heads = sum(entry.shape[1] for entry in record.at(kind="encoder").values())
    bars = "  ".join(labelled_bar(look.word, look.weight, _BAR, digits=2) for look in looks[:_LOOKS])
    return [
        SENTENCE,
        f"{f'→ {translation.text}':<{_WIDTH}}{took}",
        f"it {bars}",
        f'encoder, layer {best.layer}, head {best.head}: of {heads} heads, the one that looks most from "it" to "dog"',
        *textwrap.wrap(translator.note, _WIDTH),
        "",
        'The textbook\'s "I am good", with numbers made by hand:',
        *(line.rstrip() for line in str(steps(*textbook.i_am_good())).splitlines()),
    ]


_NEXT = "Next:  regard serve, regard translate, regard see, regard steps; each with --help"
COMMAND = Command("demo", "start here: a translation, its attention, the four steps", _ABOUT, _NEXT, _run)
