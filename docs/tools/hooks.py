"""What mkdocs asks of us: pages of cells are run, reports and reference are written, and the navigation is found."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from formulas import typeset
from lists import filled, found
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from page import ROOT, Page, boxed, pages
from quiz import quiz
from reference import GROUPS, reference
from reports import reports

from regard.learn.questions import chapter

DOCS = ROOT / "docs"
_log = logging.getLogger("mkdocs.hooks")  # shown as mkdocs' own messages are
CACHE = Path(os.environ.get("REGARD_PAGES", ROOT / ".cache" / "pages"))  # what the pages gave when they last ran


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """The navigation: chapters by their numbers, then whatever else lies in a folder."""
    config["nav"] = [
        {"regard": "index.md"},
        {"Tour": "tour.md"},
        {"Learn": ["course/index.md", *found("course")]},
        {"How-to": ["how-to/index.md", *found("how-to")]},
        {"Reference": ["reference/index.md", *(f"reference/{name}.md" for name in GROUPS), "architectures.md"]},
        {"Design": ["design.md", "how-exact-top-works.md"]},
        {"Benchmarks": "benchmarks.md"},
        {"Figures": "figures/README.md"},
    ]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Take the Python files out, and put in what they become."""
    for path in announced(pages(DOCS)):
        place = path.relative_to(DOCS).as_posix()
        known = files.get_file_from_path(place)
        if known is not None:
            files.remove(known)
        page = Page.read(path).run_cached(CACHE)
        made = {".md": written(page), ".ipynb": notebook(page)}
        for suffix, text in made.items():
            files.append(File.generated(config, place.removesuffix(".py") + suffix, content=text))
        for name, html in page.maps().items():
            files.append(File.generated(config, f"{path.parent.name}/{name}", content=html))
    for place, text in reference().items():
        files.append(File.generated(config, place, content=text))
    return files


def announced(paths: list[Path]) -> Iterator[Path]:
    """The pages one by one, each after a line that says which it is: to run all of them takes minutes."""
    for number, path in enumerate(paths, 1):
        _log.info("Running %s (%d of %d)", path.relative_to(DOCS).as_posix(), number, len(paths))
        yield path


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Fill in the lists and reports, and turn links that suit the repository into links within the site."""
    markdown = re.sub(
        r"<!-- repository -->.*?<!-- /repository -->\n+", "", filled(markdown, site=True), flags=re.DOTALL
    )
    if "<!-- reports -->" in markdown:
        markdown = markdown.replace("<!-- reports -->", reports(ROOT / "benchmarks" / "reports"))
    # Tables of figures, which stand between marks, are as narrow as those of the reports.
    narrow = r'<div class="report" markdown="1">\n\n\2\n\n</div>'
    markdown = re.sub(r"<!-- (\w+)(?: [\w-]+)? -->\n(.*?)\n<!-- /\1 -->", narrow, markdown, flags=re.DOTALL)
    markdown = re.sub(r"\]\(\.\./benchmarks/reports/([\w-]+)\.md\)", r"](benchmarks.md#\1)", markdown)
    cells = "|".join(path.stem for path in pages(DOCS))
    return re.sub(rf"\]\(((?:course/|how-to/)?(?:{cells}))\.py\)", r"](\1.md)", markdown)


def on_page_content(html: str, page: Any, **_: Any) -> str:
    """Set the formulas, and put each picture from a file in the same box as those that a page draws."""
    folder = Path(page.file.abs_src_path).parent if page.file.abs_src_path else DOCS

    def box(image: re.Match[str]) -> str:
        return boxed((folder / image["source"]).read_text(), image["image"])

    return re.sub(r'<p>(?P<image><img [^>]*src="(?P<source>[^":]+\.svg)"[^>]*>)</p>', box, typeset(html))


def written(page: Page) -> str:
    """A page of cells with its questions, and the way to run it oneself."""
    name = page.path.stem
    own = f"*Run it yourself: [as a notebook]({name}.ipynb), or `python {page.path.relative_to(ROOT).as_posix()}`.*"
    asked = "" if page.chapter is None else "\n" + quiz(chapter(page.chapter))
    return f"{page.markdown()}{asked}\n---\n\n{own}\n"


def notebook(page: Page) -> str:
    """The same as a notebook."""
    import nbformat

    made = page.notebook()
    if page.chapter is not None:
        made.cells.append(nbformat.v4.new_markdown_cell(quiz(chapter(page.chapter)), id="questions"))
    return nbformat.writes(made) + "\n"
