"""The benchmark reports for the site: each as it was written, and its numbers as bars."""

from __future__ import annotations

import re
from pathlib import Path

from page import Output

from regard.drawing import bars

# Which column of which table is drawn: report → (heading words of the column, unit).
DRAWN = {
    "attention-cpu": ("received", "× the time of SDPA for A.received()"),
    "layers-cpu": ("ours", "× the time of nn.TransformerEncoder"),
    "layers-gpu": ("thousand tokens/s", "thousand tokens/s"),
    "watching-cpu": ("of the first", "× the time of the plain forward"),
    "pictures-cpu": ("median (least)", "seconds"),
}


def reports(folder: Path) -> str:
    """All of them, as Markdown; each heading can be linked to by the report's name."""
    parts = [
        "## The reports\n\nEach report as its script in `benchmarks/` wrote it when it ran; commit, hardware, load and "
        "versions are in its first lines. The bars are drawn from the tables below them."
    ]
    for path in sorted(folder.glob("*.md")):
        name = path.stem
        text = re.sub(r"^#", "###", path.read_text(), flags=re.MULTILINE)
        heading, _, rest = text.partition("\n")
        drawn = _bars(name, text)
        parts.append(
            f'{heading} {{#{name}}}\n\n{drawn}\n\n<div class="report" markdown="1">\n\n{rest.strip()}\n\n</div>'
        )
    return "\n\n".join(parts) + "\n"


def table(text: str, column: str) -> dict[str, float]:
    """The first column of a report's first table that has this one, and its numbers.

    >>> table("| a | b |\\n| --- | --- |\\n| x | 1.5 × (2) |\\n| y | 1,024 ms |\\n", "b")
    {'x': 1.5, 'y': 1024.0}
    """
    found: dict[str, float] = {}
    place = None
    for line in text.splitlines():
        cells = [re.sub(r"[`*]", "", cell.strip()) for cell in line.strip().strip("|").split("|")]
        if not line.startswith("|"):
            if found:
                break
            place = None
        elif place is None:
            place = cells.index(column) if column in cells else None
        elif not set(line) <= set("|- "):
            number = re.match(r"[\d.,]+", cells[place])
            if number:
                found[cells[0]] = float(number[0].replace(",", ""))
    return found


def _bars(name: str, text: str) -> str:
    if name not in DRAWN:
        return ""
    column, unit = DRAWN[name]
    numbers = table(text, column)
    if not numbers:
        raise ValueError(f"the report {name} has no column {column!r} to draw: see docs/tools/reports.py")
    picture = bars(numbers, caption=unit)
    return Output(light=picture.to_svg(transparent=True), dark=picture.to_svg(theme="dark", transparent=True)).html()
