"""The newest report of a benchmark inside a page: `<!-- report atlas-gpu -->` becomes what the script wrote."""

from __future__ import annotations

import re
from pathlib import Path

__all__ = ["newest", "with_figures"]

REPORTS = Path(__file__).parents[2] / "benchmarks" / "reports"
_ASKED = re.compile(r"<!-- report ([\w-]+) -->")


def newest(folder: Path = REPORTS) -> dict[str, Path]:
    """The newest report of each name.

    >>> newest()["atlas-cpu"].name >= "2026-11-17-atlas-cpu.md"
    True
    """
    return {path.stem[len("2026-01-01-") :]: path for path in sorted(folder.glob("*.md"))}  # the dates sort


def with_figures(text: str, folder: Path = REPORTS) -> str:
    """A text with its reports, between marks; one that is not there yet says which script would write it.

    >>> with_figures("<!-- report flights-gpu -->")
    '*Not measured yet: `python benchmarks/flights.py --report`, on a machine with a GPU.*'
    """
    known = newest(folder)

    def shown(asked: re.Match[str]) -> str:
        if asked[1] not in known:
            script, _, kind = asked[1].rpartition("-")
            on = "a machine with a GPU" if kind == "gpu" else "a CPU"
            return f"*Not measured yet: `python benchmarks/{script.replace('-', '_')}.py --report`, on {on}.*"
        _, _, report = known[asked[1]].read_text().partition("\n")
        report = re.sub(r"^#+ (.+)$", r"**\1**", report.strip(), flags=re.MULTILINE)  # a page has headings of its own
        return f"<!-- figures -->\n{report}\n<!-- /figures -->"

    return _ASKED.sub(shown, text)
