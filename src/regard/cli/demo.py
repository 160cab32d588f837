"""`regard demo`: a sentence translated, what "it" looks at while that happens, and attention in four steps."""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from regard.translation import Translator

__all__ = ["add", "lines"]

SENTENCE = "A dog ate the food because it was hungry."
_WIDTH = 78
_BAR, _LOOKS = 16, 4  # cells of 100 %; words named


def add(commands: Any) -> None:
    """Describe the command."""
    command = commands.add_parser(
        "demo",
        help="the first things to see: a translation, what its words look at, the four steps",
        description=__doc__,
        epilog="Next:  regard translate, regard see, regard steps; each with --help",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.set_defaults(run=_run)


def _run(_: argparse.Namespace) -> None:
    from regard.translation import Translator

    for line in lines(Translator.default()):
        print(line)


def lines(translator: Translator) -> list[str]:
    """All that the demo prints."""
    import torch

    from regard.drawing.terminal import percent
    from regard.learn import steps, textbook

    start = time.perf_counter()
    found = translator.translate(SENTENCE)
    taken, cores = time.perf_counter() - start, torch.get_num_threads()
    record = found.watch()
    best = record.heads("it", "dog", kind="encoder")[0]  # the head that says it most clearly, found here and now
    looks = record.looks("it", kind="encoder", layer=best.layer, head=best.head)
    where = f"encoder, layer {best.layer}, head {best.head}"
    bars = [
        f"{'━' * round(_BAR * look.weight)} {look.word} {percent(round(look.weight, 2))}" for look in looks[:_LOOKS]
    ]
    shown = "  ".join(bars)
    return [
        SENTENCE,
        f"{f'→ {found.text}':<{_WIDTH}}{taken:.2f} s, {cores} core{'s' * (cores != 1)}".rstrip(),
        f"{f'it {shown}':<{_WIDTH}}{where}",
        "",
        *(line.rstrip() for line in str(steps(*textbook.i_am_good())).splitlines()),
    ]
