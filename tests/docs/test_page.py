"""How a Python file of cells becomes a page, and the small tools of the site."""

import re

import figures
import pytest
from doctests import fenced
from formulas import typeset
from page import ROOT, Page, pages
from reports import table


def test_a_table_is_read_by_its_column():
    text = "words\n\n| a | b |\n| --- | --- |\n| x | `1.5` × |\n\n| a | c |\n| --- | --- |\n| y | 2,000 ms |\n"
    assert table(text, "b") == {"x": 1.5}
    assert table(text, "c") == {"y": 2000.0}
    assert table(text, "d") == {}


def test_an_example_in_a_docstring_becomes_code():
    assert fenced("A.\n\n>>> f(\n...     1)\n2\n>>> 3\n3") == "A.\n\n```pycon\n>>> f(\n...     1)\n2\n>>> 3\n3\n```"
    assert fenced("A.\n\n>>> 1\n1\n\nB.") == "A.\n\n```pycon\n>>> 1\n1\n```\n\nB."


def test_a_formula_becomes_mathml():
    made = typeset(r'<p>a <span class="arithmatex">\(W_V x\)</span></p><div class="arithmatex">\[a &lt; b\]</div>')
    assert made.count("<math") == made.count("</math>") == 2
    assert "<msub><mi>W</mi><mi>V</mi></msub>" in made
    assert '<div class="formula"><math' in made
    assert "arithmatex" not in made


def write(folder, text):
    path = folder / "page.py"
    path.write_text(text)
    return path


def test_a_page_shows_what_is_printed_and_its_last_line(tmp_path):
    page = Page.read(
        write(tmp_path, "# %% [markdown]\n# # A page\n#\n# Text.\n\n# %%\na = 2\nprint('<a>')\n\n# %%\na * 3\n")
    )
    made = page.run().markdown()
    assert made.startswith("# A page\n\nText.\n\n```python\na = 2\n")
    assert "&lt;a&gt;" in made
    assert ">6<" in made
    assert page.cells[1].output.value == {}


def test_a_page_shows_a_report(tmp_path, monkeypatch):
    report = "# Trains\n\nOne GPU.\n\n## Long ones\n\n| ms |\n| --- |\n| 8 |\n\nMade by `x`.\n"
    (tmp_path / "trains-gpu.md").write_text(report)
    monkeypatch.setattr(figures.with_figures, "__defaults__", (tmp_path,))
    text = "# %% [markdown]\n# # A page\n#\n# <!-- report trains-gpu -->\n#\n# <!-- report night-trains-gpu -->\n"
    page = Page.read(write(tmp_path, text))
    for made in (page.markdown(), page.notebook().cells[0].source):
        assert "One GPU.\n\n**Long ones**\n\n| ms |\n| --- |\n| 8 |\n" in made
        assert "# Trains" not in made
        assert "Not measured yet: `python benchmarks/night_trains.py --report`" in made


def test_a_table_of_a_page_is_copied_from_its_report(tmp_path):
    (tmp_path / "trains-gpu.md").write_text(
        "| km | s |\n| --- | --- |\n| 1 | 8 |\n| 2 | 9 |\n\n| m | s |\n| --- | --- |\n"
    )
    page = "Two:\n<!-- table trains-gpu -->\n| km | h |\n| --- |\n| {} | 7 |\n<!-- /table -->\n"
    made = figures.copied(page.format(2), tmp_path)
    assert made == "Two:\n<!-- table trains-gpu -->\n| km | s |\n| --- | --- |\n| 2 | 9 |\n<!-- /table -->\n"
    with pytest.raises(ValueError, match=r"trains-gpu must have one row that begins with \['3', '7'\]"):
        figures.copied(page.format(3), tmp_path)


def test_what_a_page_shows_has_a_script():
    asked = [name for path in pages() for name in re.findall(r"<!-- report ([\w-]+) -->", path.read_text())]
    assert len(asked) >= 5
    for name in asked:
        assert (ROOT / "benchmarks" / f"{name.rpartition('-')[0].replace('-', '_')}.py").exists(), name


def test_an_error_names_the_line_of_the_file(tmp_path):
    path = write(tmp_path, "# %% [markdown]\n# # A page\n\n# %%\na = 2\nraise ZeroDivisionError\n")
    with pytest.raises(ZeroDivisionError) as error:
        Page.read(path).run()
    assert (str(error.traceback[-1].path), error.traceback[-1].lineno + 1) == (str(path), 6)


@pytest.mark.parametrize(
    ("text", "message"),
    [("import os\n# %%\n", "begins with"), ("# %% [markdown]\n# # A\nprint()\n", "begins with '#'")],
)
def test_what_is_no_page_is_refused(tmp_path, text, message):
    with pytest.raises(ValueError, match=message):
        Page.read(write(tmp_path, text))


def test_a_page_runs_again_only_when_it_changes(tmp_path):
    count = tmp_path / "count"
    text = f"# %% [markdown]\n# # A page\n\n# %%\nopen({str(count)!r}, 'a').write('x')\n1\n"
    for _ in range(2):
        page = Page.read(write(tmp_path, text)).run_cached(tmp_path / "cache")
        assert page.cells[1].output.value["text/plain"] == "1"
    assert count.read_text() == "x"
    Page.read(write(tmp_path, text + "2\n")).run_cached(tmp_path / "cache")
    assert count.read_text() == "xx"


def test_code_under_a_line_that_says_what_it_does_is_folded(tmp_path):
    page = Page.read(
        write(tmp_path, "# %% [markdown]\n# # A page\n\n# %% Add 1 & 1 \na = 1 + 1\n\n# %%\nprint(a)\n")
    ).run()
    assert [cell.fold for cell in page.cells] == ["", "Add 1 & 1", ""]
    made = page.markdown()
    assert "<summary>Add 1 &amp; 1</summary>\n\n```python\na = 1 + 1\n```\n\n</details>" in made
    assert made.index("</details>") < made.index("```python\nprint(a)")
    _, folded, plain = page.notebook().cells
    assert (folded.source, folded.metadata) == ("# Add 1 & 1\na = 1 + 1", {"jupyter": {"source_hidden": True}})
    assert (plain.source, plain.metadata) == ("print(a)", {})
