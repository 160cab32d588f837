"""The course and the how-to pages: every cell runs, every number in the text is printed, the notebooks are notebooks."""

import re
from pathlib import Path

import nbformat
import pytest
from page import Page, pages

DOCS = Path(__file__).parents[2] / "docs"
PAGES = pages(DOCS)
NAMES = [path.relative_to(DOCS).as_posix() for path in PAGES]
LONG = 18  # lines of code; a longer cell of the course is folded under a line that says what it does
STABLE = ["1_words_as_vectors.py", "2_queries_keys_values.py", "4_weights.py"]  # quick, and without timings


def numbers(text):
    """The numbers that a reader would take for results: 2.5, 90 %, 1,000, 512; not a lone digit, nor 001, a name."""
    text = re.sub(r"`[^`]*`|\]\([^)]*\)|^#+ .*$", " ", text, flags=re.MULTILINE)
    found = re.findall(r"(?<![\w.])\d[\d.,]*\d(?![\w.]*\w)", text)
    return {number for number in found if not re.fullmatch(r"0\d+", number)}


@pytest.mark.slow
@pytest.mark.parametrize("path", PAGES, ids=NAMES)
def test_every_cell_runs_and_every_number_of_the_text_is_on_the_page(path, ran):
    page = ran(path)
    if page.missing:
        pytest.skip(f"needs {', '.join(page.missing)}: make test-sciences")
    shown = "\n".join(
        text
        for cell in page.cells
        if cell.kind == "code"
        for text in (cell.source, cell.output.printed, cell.output.value.get("text/plain", ""), cell.output.light)
    )
    written = set().union(*(numbers(cell.source) for cell in page.cells if cell.kind == "markdown"))
    plain = shown.replace("_", "").replace(",", "")
    assert sorted(n for n in written if n.replace(",", "") not in plain) == []
    assert page.title
    if page.chapter is not None:  # another machine is as fast as it likes, and the text stays as it is
        assert not re.search(r"\d\s*(ms|milliseconds|seconds|times as fast)\b|milliseconds", shown)
    assert any(cell.output.light for cell in page.cells) or page.chapter is None, "a chapter has a picture"


@pytest.mark.slow
@pytest.mark.parametrize("path", [p for p in PAGES if p.name in STABLE], ids=STABLE)
def test_a_page_says_the_same_each_time(path, ran):
    once, again = ran(path), Page.read(path).run()
    assert [cell.output for cell in again.cells] == [cell.output for cell in once.cells]


@pytest.mark.parametrize("path", [p for p in PAGES if p.parent.name == "course"], ids=lambda path: path.stem)
def test_long_code_is_folded_and_says_what_it_does(path):
    page = Page.read(path)
    code = [cell for cell in page.cells if cell.kind == "code"]
    lines = {cell.line: sum(bool(line.strip()) for line in cell.source.splitlines()) for cell in code if not cell.fold}
    assert [line for line, count in lines.items() if count > LONG] == []
    folded = [cell for cell in code if cell.fold]
    assert page.markdown().count('<details class="fold"') == len(folded)
    hidden = [cell.source for cell in page.notebook().cells if cell.metadata.get("jupyter") == {"source_hidden": True}]
    assert hidden == [f"# {cell.fold}\n{cell.source}" for cell in folded]


@pytest.mark.parametrize("path", PAGES, ids=NAMES)
def test_the_links_of_a_notebook_lead_to_notebooks(path):
    text = "\n".join(cell.source for cell in Page.read(path).notebook().cells if cell.cell_type == "markdown")
    for link in re.findall(r"\]\((?!https?:)([^)]+)\)", text):
        assert link.endswith(".ipynb")
        assert (path.parent / link).with_suffix(".py").exists(), link


@pytest.mark.slow
@pytest.mark.parametrize("path", PAGES, ids=NAMES)
def test_notebooks_are_notebooks(path, ran):
    made = ran(path).notebook()
    nbformat.validate(made)
    assert [cell.cell_type for cell in made.cells] == [cell.kind for cell in Page.read(path).cells]
    assert not any(re.search(r"\]\([^)]*\.md", cell.source) for cell in made.cells)
