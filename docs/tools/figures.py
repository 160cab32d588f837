"""The reports of the benchmarks inside pages: python docs/tools/figures.py copies their tables into the pages.

`<!-- report atlas-gpu -->` in a page of cells becomes what the script wrote. Rows of a report, found by their first
cells, stand between `<!-- table NAME -->` and `<!-- /table -->` in the README, in docs/benchmarks.md and in the card of
the model.
"""

from __future__ import annotations

import re
from pathlib import Path

__all__ = ["PAGES", "copied", "with_figures"]

ROOT = Path(__file__).parents[2]
REPORTS = ROOT / "benchmarks" / "reports"
PAGES = [ROOT / "README.md", ROOT / "docs" / "benchmarks.md", ROOT / "src/regard/translation/model/README.md"]
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
        wanted = found[3].splitlines()
        report = (folder / f"{found[2]}.md").read_text()
        tables = [part.splitlines() for part in report.split("\n\n") if _first(part) == _first(wanted[0])]
        if len(tables) > 1:  # then the page has the whole first line
            tables = [table for table in tables if table[0] == wanted[0]]
        if len(tables) != 1:
            raise ValueError(
                f"{found[2]} must have one table that begins with {_first(wanted[0])!r}. Got {len(tables)}."
            )
        return found[1] + "".join(f"{_row(line, tables[0], found[2])}\n" for line in wanted) + found[4]

    return _TABLE.sub(filled, text)


def _row(line: str, table: list[str], report: str) -> str:
    """The row of a table that begins as this line does: with the same first cell, or, of several, with the same two."""
    for count in (1, 2):
        rows = [row for row in table if _cells(row)[:count] == _cells(line)[:count]]
        if len(rows) == 1:
            return rows[0]
    raise ValueError(f"{report} must have one row that begins with {_cells(line)[:2]}. Got {len(rows)}.")


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.split("|")[1:-1]]


def _first(line: str) -> str | None:
    """The first cell of a row."""
    return line.split("|")[1].strip() if line.startswith("|") else None


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(copied(page.read_text()))
