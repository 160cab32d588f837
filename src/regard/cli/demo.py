"""`regard demo`: a sentence translated, what "it" looks at while that happens, and attention in four steps."""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING

from regard.cli.command import Command

if TYPE_CHECKING:
    from regard.translation import Translator

__all__ = ["COMMAND", "SENTENCE", "lines"]

SENTENCE = "A dog ate the food because it was hungry."
_WIDTH = 78
_BAR, _LOOKS = 16, 4  # cells of a bar for 100 %; words shown


def _run(_: argparse.Namespace) -> None:
    from regard.translation import Translator

    for line in lines(Translator.default()):
        print(line)


def lines(translator: Translator) -> list[str]:
    """Everything that the demo prints."""
    import torch

    from regard.drawing.terminal import labelled_bar
    from regard.learn import steps, textbook

    start = time.perf_counter()
    translation = translator.translate(SENTENCE)
    seconds, cores = time.perf_counter() - start, torch.get_num_threads()
    record = translation.watch()
    best = record.heads("it", "dog", kind="encoder")[0]  # the head with the largest weight, measured now
    looks = record.looks("it", kind="encoder", layer=best.layer, head=best.head)
    where = f"encoder, layer {best.layer}, head {best.head}"
    bars = "  ".join(labelled_bar(look.word, look.weight, _BAR, digits=2) for look in looks[:_LOOKS])
    return [
        SENTENCE,
        f"{f'→ {translation.text}':<{_WIDTH}}{seconds:.2f} s, {cores} core{'s' * (cores != 1)}".rstrip(),
        f"{f'it {bars}':<{_WIDTH}}{where}",
        "",
        *(line.rstrip() for line in str(steps(*textbook.i_am_good())).splitlines()),
    ]


COMMAND = Command(
    "demo",
    help="the first things to see: a translation, what its words look at, the four steps",
    description=__doc__,
    epilog="Next:  regard translate, regard see, regard steps; each with --help",
    run=_run,
)
