"""The course and the site: every cell runs, every number in the text is printed, nothing is fetched, no link is broken."""

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import nbformat
import pytest
from browser import CHROMIUM, FLAGS
from doctests import fenced
from page import Page, pages
from reference import GROUPS
from reports import DRAWN, reports, table
from test_package import ROOMS

import regard

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = pages(DOCS)
NAMES = [path.relative_to(DOCS).as_posix() for path in PAGES]
STABLE = ["1_words_as_vectors.py", "2_queries_keys_values.py", "4_weights.py"]  # quick, and without timings


@pytest.fixture(scope="session")
def cache(tmp_path_factory):
    """What the pages gave, for all workers of one run."""
    base = tmp_path_factory.getbasetemp()
    return (base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base) / "pages"


@pytest.fixture
def ran(cache, monkeypatch, unchecked):
    """A page that has run, reduced where it is long."""
    monkeypatch.setenv("REGARD_QUICK", "1")
    return lambda path: Page.read(path).run_cached(cache)


def numbers(text):
    """The numbers that a reader would take for results: 2.5, 90 %, 1,000, 512; not a lone digit, nor 001, a name."""
    text = re.sub(r"`[^`]*`|\]\([^)]*\)|^#+ .*$", " ", text, flags=re.MULTILINE)
    found = re.findall(r"(?<![\w.])\d[\d.,]*\d(?![\w.]*\w)", text)
    return {number for number in found if not re.fullmatch(r"0\d+", number)}


@pytest.mark.parametrize("path", PAGES, ids=NAMES)
def test_every_cell_runs_and_every_number_of_the_text_is_on_the_page(path, ran):
    page = ran(path)
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
    assert any(cell.output.light for cell in page.cells) or page.chapter is None, "a chapter has a picture"


@pytest.mark.parametrize("path", [p for p in PAGES if p.name in STABLE], ids=STABLE)
def test_a_page_says_the_same_each_time(path, ran):
    once, again = ran(path), Page.read(path).run()
    assert [cell.output for cell in again.cells] == [cell.output for cell in once.cells]


@pytest.mark.parametrize("path", PAGES, ids=NAMES)
def test_notebooks_are_notebooks(path, ran):
    made = ran(path).notebook()
    nbformat.validate(made)
    assert [cell.cell_type for cell in made.cells] == [cell.kind for cell in Page.read(path).cells]
    assert not any(re.search(r"\]\([^)]*\.md", cell.source) for cell in made.cells)


LOADING = ("script", "link", "img", "image", "iframe", "source", "use", "object", "video", "audio", "embed")


class Found(HTMLParser):
    """What a page of the site loads, links to, and can be linked at."""

    def __init__(self, text):
        super().__init__()
        self.loads, self.links, self.ids = [], [], set()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.ids |= {found[name] for name in ("id", "name") if found.get(name)}
        if tag == "a" and found.get("href"):
            self.links.append(found["href"])
        elif tag in LOADING and found.get("rel") not in ("canonical", "prev", "next"):
            self.loads += [found[name] for name in ("src", "href", "data", "srcset") if found.get(name)]


@pytest.fixture(scope="session")
def site(tmp_path_factory, cache):
    """The whole site, built as `make docs` builds it: no warning is let through."""
    folder = tmp_path_factory.mktemp("site")
    environment = os.environ | {"REGARD_QUICK": "1", "REGARD_PAGES": str(cache), "NO_MKDOCS_2_WARNING": "1"}
    environment["PYTHONPATH"] = str(ROOT / "src")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    return {path: Found(path.read_text()) for path in sorted(folder.rglob("*.html"))}, folder


def test_the_site_builds_and_loads_nothing_from_elsewhere(site):
    read, folder = site
    assert {name.removesuffix(".py") + ".html" for name in NAMES} <= {
        path.relative_to(folder).as_posix() for path in read
    }
    for path, found in read.items():
        for target in found.loads:
            assert not re.match(r"(\w+:)?//", target), f"{path.name} loads {target}"
            assert (
                target.startswith("data:") or (path.parent / target.split("?")[0]).exists() or path.name == "404.html"
            )
    for path in folder.rglob("*.css"):
        assert not re.search(r"(url\(|@import)\s*['\"]?(https?:)?//", path.read_text()), path.name


def test_no_link_of_the_site_is_broken(site):
    read, folder = site
    checked = 0
    for path, found in read.items():
        if path.name == "404.html":  # its links begin at the root of a server
            continue
        for link in found.links:
            place, _, anchor = link.partition("#")
            if re.match(r"(https?:|mailto:)", place):
                continue
            target = (path.parent / place).resolve() if place else path
            assert target.exists(), f"{path.relative_to(folder)}: {link}"
            if anchor and target in read:
                assert anchor in read[target].ids, f"{path.relative_to(folder)}: {link}"
            checked += 1
    assert checked > 100


def test_pictures_and_questions_are_on_the_page(site):
    _, folder = site
    page = (folder / "course" / "4_weights.html").read_text()
    assert page.count('class="picture picture-light') == page.count('class="picture picture-dark') > 2
    assert page.count("<summary>Answer</summary>") == 4
    assert "&#8203;" not in page
    assert (folder / "course" / "4_weights.ipynb").exists()
    assert ">>>" not in re.sub(
        r"<(code|pre).*?</\1>", "", (folder / "reference" / "masks.html").read_text(), flags=re.S
    )


def test_every_public_name_is_in_the_reference():
    listed = [name for _, names in GROUPS.values() for name in names]
    assert sorted(listed) == list(regard.__all__)


def test_the_design_names_every_room():
    rooms = re.findall(r"^\| (`.+?) \|", (DOCS / "design.md").read_text(), flags=re.MULTILINE)
    assert re.findall(r"`(\w+)`", " ".join(rooms)) == ROOMS


def test_the_benchmarks_are_the_reports():
    folder = ROOT / "benchmarks" / "reports"
    page = reports(folder)
    newest = {path.stem[11:]: path for path in sorted(folder.glob("*.md"))}
    for path in newest.values():
        for line in path.read_text().splitlines():
            assert line.startswith("#") or line in page
    assert page.count("picture-light") == len(DRAWN.keys() & newest) > 3


def test_a_table_is_read_by_its_column():
    text = "words\n\n| a | b |\n| --- | --- |\n| x | `1.5` × |\n\n| a | c |\n| --- | --- |\n| y | 2,000 ms |\n"
    assert table(text, "b") == {"x": 1.5}
    assert table(text, "c") == {"y": 2000.0}
    assert table(text, "d") == {}


def test_an_example_in_a_docstring_becomes_code():
    assert fenced("A.\n\n>>> f(\n...     1)\n2\n>>> 3\n3") == "A.\n\n```pycon\n>>> f(\n...     1)\n2\n>>> 3\n3\n```"
    assert fenced("A.\n\n>>> 1\n1\n\nB.") == "A.\n\n```pycon\n>>> 1\n1\n```\n\nB."


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


def test_an_error_names_the_line_of_the_file(tmp_path):
    path = write(tmp_path, "# %% [markdown]\n# # A page\n\n# %%\na = 2\nraise ZeroDivisionError\n")
    with pytest.raises(ZeroDivisionError) as error:
        Page.read(path).run()
    assert (str(error.traceback[-1].path), error.traceback[-1].lineno + 1) == (str(path), 6)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("import os\n# %%\n", "begins with"),
        ("# %% [markdown]\n# # A\nprint()\n", "begins with '#'"),
    ],
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


@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed: apt-get install chromium")
@pytest.mark.parametrize("width", [390, 1280])
def test_in_a_browser_nothing_runs_over_and_one_theme_is_seen(site, width):
    from playwright.sync_api import sync_playwright

    read, _ = site
    shown = [path for path in read if path.parent.name in ("course", "how-to") or path.name == "benchmarks.html"]
    shown = shown if width < 1000 else shown[:3]  # a wide window hides less
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        for scheme in ("light", "dark"):
            page = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme).new_page()
            asked = []
            page.on("request", lambda request, asked=asked: asked.append(request.url))
            for path in shown:
                page.goto(path.as_uri())
                over = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
                assert over <= 0, f"{path.name} runs over by {over} pixels"
                seen = page.evaluate(
                    "[...document.querySelectorAll('.picture')].map(p => [p.className, p.offsetHeight])"
                )
                assert all((f"picture-{scheme}" in name) == (height > 0) for name, height in seen), path.name
            assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []
        browser.close()
