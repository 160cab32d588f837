"""The reports of the benchmarks inside pages: python docs/tools/figures.py copies their tables into the pages.

`<!-- report atlas-gpu -->` in a page of cells becomes what the script wrote. Between `<!-- table NAME -->` and
`<!-- /table -->` in the README and in docs/benchmarks.md stand rows of that report, found by their first cells.
"""

from __future__ import annotations

import re
from pathlib import Path

__all__ = ["PAGES", "copied", "with_figures"]

ROOT = Path(__file__).parents[2]
REPORTS = ROOT / "benchmarks" / "reports"
PAGES = [ROOT / "README.md", ROOT / "docs" / "benchmarks.md"]
_ASKED = re.compile(r"<!-- report ([\w-]+) -->")
_TABLE = re.compile(r"(<!-- table ([\w-]+) -->\n)(.*?)(<!-- /table -->)", flags=re.DOTALL)


def with_figures(text: str, folder: Path = REPORTS) -> str:
    """A text with its reports, between marks; one that is not there yet says which script would write it.

    >>> with_figures("<!-- report flights-gpu -->")
    '*Not measured yet: `python benchmarks/flights.py --report`, on a machine with a GPU.*'
    """

    def shown(asked: re.Match[str]) -> str:
        path = folder / f"{asked[1]}.md"
        if not path.exists():
            script, _, kind = asked[1].rpartition("-")
            on = "a machine with a GPU" if kind == "gpu" else "a CPU"
            return f"*Not measured yet: `python benchmarks/{script.replace('-', '_')}.py --report`, on {on}.*"
        _, _, report = path.read_text().partition("\n")
        report = re.sub(r"^#+ (.+)$", r"**\1**", report.strip(), flags=re.MULTILINE)  # a page has headings of its own
        return f"<!-- figures -->\n{report}\n<!-- /figures -->"

    return _ASKED.sub(shown, text)


def copied(text: str, folder: Path = REPORTS) -> str:
    """A page with the rows of its tables as the reports have them."""

    def filled(found: re.Match[str]) -> str:
        wanted = [_first(line) for line in found[3].splitlines()]
        report = (folder / f"{found[2]}.md").read_text()
        tables = [part.splitlines() for part in report.split("\n\n") if _first(part) == wanted[0]]
        if len(tables) > 1:  # then the page has the whole first line
            tables = [table for table in tables if table[0] == found[3].splitlines()[0]]
        if len(tables) != 1:
            raise ValueError(f"{found[2]} must have one table that begins with {wanted[0]!r}. Got {len(tables)}.")
        rows = {_first(line): line for line in tables[0]}
        if missing := [first for first in wanted if first not in rows]:
            raise ValueError(f"{found[2]} has no row {missing[0]!r}. Its rows are {list(rows)[2:]}.")
        return found[1] + "".join(f"{rows[first]}\n" for first in wanted) + found[4]

    return _TABLE.sub(filled, text)


def _first(line: str) -> str | None:
    """The first cell of a row."""
    return line.split("|")[1].strip() if line.startswith("|") else None


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(copied(page.read_text()))
