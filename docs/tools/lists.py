"""The lists of pages and names: python docs/tools/lists.py writes them into the index pages.

The files in the repository link to what can be read there, pages of cells and sources; the site replaces these lists
by lists of its own pages.
"""

from __future__ import annotations

import inspect
import operator
import re
import sys
from pathlib import Path

from page import ROOT, Page
from reference import GROUPS, names

import regard

DOCS = ROOT / "docs"
INDEXES = {"course": DOCS / "course" / "index.md", "how-to": DOCS / "how-to" / "index.md"}
REFERENCE = DOCS / "reference" / "index.md"
_LIST = re.compile(r"(<!-- list ([\w-]+) -->\n).*?(<!-- /list -->)", flags=re.DOTALL)


def filled(text: str, *, site: bool) -> str:
    """An index page with its list, for the site or for the repository."""

    def made(found: re.Match[str]) -> str:
        shown = named(site=site) if found[2] == "names" else listed(found[2], site=site)
        return f"{found[1]}\n{shown}\n\n{found[3]}"

    return _LIST.sub(made, text)


def found(folder: str) -> list[str]:
    """Pages of cells and of plain text, chapters first; as the site names them."""
    pages = {path.with_suffix(".md").name for path in (DOCS / folder).glob("*") if path.suffix in (".py", ".md")}
    return [f"{folder}/{name}" for name in sorted(pages - {"index.md"}, key=_order)]


def listed(folder: str, *, site: bool) -> str:
    """Each page with its title and what it is about."""
    lines = []
    for place in found(folder):
        source = (DOCS / place).with_suffix(".py")
        path = source if source.exists() else DOCS / place
        text = Page.read(path).cells[0].source if source.exists() else path.read_text()
        begin = re.match(r"# (.+)\n+((?:.+\n?)*)", text)
        if not begin:
            raise ValueError(f"{place} must begin with a heading '# …' and a line that says what it is about.")
        title, about = begin.groups()
        if about.rstrip().endswith(":"):
            raise ValueError(f"{place}: its first paragraph stands alone in lists, so it must not end with a colon.")
        name = Path(place).name if site else path.name
        # A numbered list would begin anew with each chapter that is not yet written.
        lines.append(f"- **[{title}]({name})** " + " ".join(about.split()))
    return "\n".join(lines)


def named(*, site: bool) -> str:
    """Every public name with the first line of its docstring, in a table for each group."""
    parts = []
    for place, (title, _) in GROUPS.items():
        heading = f"[{title}]({place}.md)" if site else title
        lines = [f"## {heading}", "", "| name | what it is |", "| --- | --- |"]
        for name in names(place):
            thing = operator.attrgetter(name)(regard)
            path = Path(sys.modules[thing.__module__].__file__ or "").relative_to(Path(regard.__file__).parents[2])
            target = f"{place}.md#regard.{name}" if site else f"../../{path.as_posix()}"
            about = (inspect.getdoc(thing) or "").partition("\n")[0].replace("|", "\\|")
            lines.append(f"| [`{name}`]({target}) | {about} |")
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def _order(name: str) -> tuple[bool, int, str]:
    number = re.match(r"\d+", name)
    return number is None, int(number[0]) if number else 0, name


if __name__ == "__main__":
    for path in (*INDEXES.values(), REFERENCE):
        path.write_text(filled(path.read_text(), site=False))
