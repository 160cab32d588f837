"""`Page`: a Python file of cells, run once, as Markdown for the site and as a notebook.

A page is a plain Python file. `# %% [markdown]` begins a cell of text (each line a comment), `# %%` one of code, and
`# %% What it does` one whose code is folded under this line. All code cells of a page share one namespace; what a cell
prints, and the value of its last line, are its output.
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import importlib.util
import io
import json
import re
from dataclasses import asdict, dataclass, field
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

from figures import with_figures
from filelock import FileLock

from regard.errors import TooLargeError

ROOT = Path(__file__).parents[2]
_MARK = re.compile(r"^# %%(?P<text> \[markdown\])?(?: (?P<fold>\S.*?))?\s*$")
_EXTRAS = {"diffusers"}  # of `regard[sciences]`: `make docs` has them, `make test` has not
_MAP_BUDGET = 4_000_000  # bytes of a map that the site shows in a frame; a larger one stays a drawing


@dataclass
class Output:
    """What a cell gave: what it printed, and its last value in the media of a notebook, pictures in both themes.

    `maps`: by theme, the page of a map that can be walked into, or of a film, for a frame in place of the drawing.
    """

    printed: str = ""
    value: dict[str, str] = field(default_factory=dict)
    light: str = ""
    dark: str = ""
    maps: dict[str, str] = field(default_factory=dict)

    def html(self, name: str = "") -> str:
        """For the site, its maps in files of this name. Search shall not find the numbers of pictures."""
        parts = []
        text = self.printed + ("" if self.light or "text/html" in self.value else self.value.get("text/plain", ""))
        if text.strip():
            parts.append(f'<pre class="output"><code>{escape(text.rstrip())}</code></pre>')
        if self.maps:
            for theme in self.maps:
                frame = f'<iframe src="{name}-{theme}.html" loading="lazy" title="Attention, to be explored"></iframe>'
                alone = f'<a href="{name}-{theme}.html">Open the picture alone</a>'
                parts.append(f'<div class="map picture-{theme}" data-search-exclude>{frame}{alone}</div>')
        elif self.light:
            for theme, drawn in (("light", self.light), ("dark", self.dark)):
                parts.append(boxed(drawn, drawn, f"picture-{theme}"))
        elif "text/html" in self.value:
            parts.append(f'<div class="output" data-search-exclude>{self.value["text/html"]}</div>')
        # An empty line would end the HTML, and four spaces would begin code.
        return "\n".join(re.sub(r"\n\s*\n", "\n&#8203;\n", part) for part in parts)


@dataclass
class Cell:
    """One cell: text, or code that begins on a line of its file; `fold` says what it does, if it is to be folded."""

    kind: str
    source: str
    line: int
    fold: str = ""
    output: Output = field(default_factory=Output)


@dataclass
class Page:
    """The cells of one file.

    >>> page = Page.read(ROOT / "docs" / "course" / "1_words_as_vectors.py")
    >>> page.title, page.chapter
    ('Words as vectors', 1)
    """

    path: Path
    cells: list[Cell]

    @classmethod
    def read(cls, path: Path) -> Page:
        """The cells as they stand, not yet run."""
        cells: list[Cell] = []
        for number, line in enumerate(path.read_text().splitlines()):
            mark = _MARK.match(line)
            if mark:
                cells.append(Cell("markdown" if mark["text"] else "code", "", number + 1, mark["fold"] or ""))
            elif cells:
                cells[-1].source += line + "\n"
            elif line.strip():
                raise ValueError(f"{path.name}: a page begins with '# %% [markdown]'. Got {line!r}.")
        for cell in cells:
            if cell.kind == "markdown":
                cell.source = _uncommented(cell.source, path)
            cell.source = cell.source.strip("\n")
        return cls(path, cells)

    @property
    def title(self) -> str:
        """Its first heading, without the number that a chapter has."""
        found = re.search(r"^# (?:\d+\. )?(.+)$", self.cells[0].source, flags=re.MULTILINE)
        if not found:
            raise ValueError(f"{self.path.name}: the first cell has no heading '# …'.")
        return found[1]

    @property
    def chapter(self) -> int | None:
        """The number of a chapter; none of any other page."""
        found = re.match(r"(\d+)_", self.path.name)
        return int(found[1]) if found and self.path.parent.name == "course" else None

    @property
    def missing(self) -> list[str]:
        """The packages that it needs beyond those of the docs, and that are not installed here."""
        imports = {name for cell in self.cells for name in re.findall(r"^import (\w+)$", cell.source, re.MULTILINE)}
        return sorted(name for name in imports & _EXTRAS if importlib.util.find_spec(name) is None)

    def run(self) -> Page:
        """Run all code cells in one namespace, from the root of the repository, and keep what they give.

        Without the packages that it needs, it is shown without outputs.
        """
        if self.missing:
            return self
        names: dict[str, Any] = {"__name__": "__main__"}
        with contextlib.chdir(ROOT):
            for cell in self.cells:
                if cell.kind == "code":
                    cell.output = _run(cell, self.path, names)
        return self

    def run_cached(self, folder: Path) -> Page:
        """The same, or what it gave the last time if neither the page nor the library has changed since."""
        if self.missing:
            return self
        known = hashlib.sha256((self.path.read_text() + _library()).encode()).hexdigest()
        path = folder / f"{self.path.stem}-{known[:16]}.json"
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(path.with_suffix(".lock")):  # who comes second waits, and reads
            if path.exists():
                for cell, kept in zip(self.cells, json.loads(path.read_text()), strict=True):
                    cell.output = Output(**kept)
                return self
            self.run()
            path.write_text(json.dumps([asdict(cell.output) for cell in self.cells]))
        return self

    def markdown(self) -> str:
        """For the site: text, code, and below it what it gave."""
        parts = []
        for number, cell in enumerate(self.cells):
            text = cell.kind == "markdown"
            parts.append(_linked(with_figures(cell.source), ".md") if text else _code(cell))
            parts.append(cell.output.html(f"maps/{self.path.stem}-{number}"))
        return "\n\n".join(part for part in parts if part) + "\n"

    def maps(self) -> dict[str, str]:
        """The files beside the page on the site, by their names: its maps in both themes."""
        return {
            f"maps/{self.path.stem}-{number}-{theme}.html": html
            for number, cell in enumerate(self.cells)
            for theme, html in cell.output.maps.items()
        }

    def notebook(self) -> Any:
        """For Jupyter, with its outputs; links lead to the other notebooks, and other files are named."""
        from nbformat import v4

        cells = []
        for number, cell in enumerate(self.cells):
            if cell.kind == "markdown":
                made = v4.new_markdown_cell(self._named_files(_linked(with_figures(cell.source), ".ipynb")))
            else:
                made = v4.new_code_cell(cell.source, outputs=_outputs(cell.output))
                if cell.fold:
                    made["source"] = f"# {cell.fold}\n{cell.source}"  # of a folded cell, Jupyter shows the first line
                    made["metadata"] = {"jupyter": {"source_hidden": True}}
            made["id"] = f"cell-{number}"  # or a new one each time
            cells.append(made)
        kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
        return v4.new_notebook(cells=cells, metadata={"kernelspec": kernel, "title": self.title})

    def _named_files(self, text: str) -> str:
        """Text in which a page of plain Markdown, which no notebook is made of, is named instead of linked."""

        def named(link: re.Match[str]) -> str:
            return f"{link[1]} (`{(self.path.parent / link[2]).resolve().relative_to(ROOT.resolve()).as_posix()}`)"

        return re.sub(r"\[([^\]]+)\]\(([\w/.-]+\.md)\)", named, text)


def boxed(svg: str, shown: str, name: str = "") -> str:
    """A box for a picture that knows how wide it was drawn, so that the style sheet can limit how far it shrinks.

    >>> boxed('<svg width="956">', '<img src="a.svg">')
    '<div class="picture" style="--width: 956px" data-search-exclude><img src="a.svg"></div>'
    """
    width = re.search(r'width="([\d.]+)"', svg)[1]
    return f'<div class="{f"picture {name}".strip()}" style="--width: {width}px" data-search-exclude>{shown}</div>'


def pages(docs: Path = ROOT / "docs") -> list[Path]:
    """Every page of cells, the chapters in their order."""
    chapters = sorted(docs.glob("course/*.py"), key=lambda path: (len(re.match(r"\d*", path.name)[0]) or 9, path.name))
    return chapters + sorted(docs.glob("how-to/*.py"))


@cache
def _library() -> str:
    known = hashlib.sha256()
    for path in [Path(__file__), *sorted((ROOT / "src").rglob("*.py"))]:
        known.update(path.read_bytes())
    return known.hexdigest()


def _linked(text: str, suffix: str) -> str:
    """Text whose links to other pages of cells lead to what these are built into."""
    return re.sub(r"\]\(([\w/.-]+)\.py\b", rf"](\1{suffix}", text)


def _code(cell: Cell) -> str:
    """Code for the site, folded under the line that says what it does."""
    code = f"```python\n{cell.source}\n```"
    summary = f"<summary>{escape(cell.fold)}</summary>"
    return f'<details class="fold" markdown="1">{summary}\n\n{code}\n\n</details>' if cell.fold else code


def _uncommented(source: str, path: Path) -> str:
    lines = source.splitlines()
    for line in lines:
        if line.strip() and not line.startswith("#"):
            raise ValueError(f"{path.name}: each line of a text cell begins with '#'. Got {line!r}.")
    return "\n".join(line.removeprefix("#").removeprefix(" ") for line in lines)


def _run(cell: Cell, path: Path, names: dict[str, Any]) -> Output:
    tree = ast.parse("\n" * cell.line + cell.source, str(path))  # so that an error names the line of the file
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed, value = io.StringIO(), None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, str(path), "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), str(path), "eval"), names)
    output = Output(printed.getvalue())
    if value is None:
        return output
    picture = value.picture() if hasattr(value, "picture") and hasattr(value, "_repr_mimebundle_") else value
    if hasattr(picture, "to_svg"):
        output.light, output.dark = (picture.to_svg(theme=theme, transparent=True) for theme in ("light", "dark"))
    if getattr(picture, "feed", None) is not None or getattr(picture, "kind", "") == "film":
        with contextlib.suppress(TooLargeError):
            output.maps = {theme: picture.to_html(theme=theme, budget=_MAP_BUDGET) for theme in ("light", "dark")}
    output.value = {"text/plain": repr(value)}
    if hasattr(value, "_repr_mimebundle_"):
        output.value |= value._repr_mimebundle_()
    for kind, name in (("text/html", "_repr_html_"), ("image/svg+xml", "_repr_svg_")):
        if hasattr(value, name):
            output.value[kind] = getattr(value, name)()
    return output


def _outputs(output: Output) -> list[Any]:
    from nbformat import v4

    made = [v4.new_output("stream", name="stdout", text=output.printed)] if output.printed else []
    return made + ([v4.new_output("display_data", data=output.value)] if output.value else [])
