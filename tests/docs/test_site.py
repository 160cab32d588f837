"""The site builds without a warning, loads nothing from elsewhere, has no broken link, and names all that is public."""

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
from filelock import FileLock
from lists import INDEXES, REFERENCE, filled
from page import Page, pages
from reference import GROUPS
from reports import DRAWN, reports
from support.browser import in_browser, launched
from test_package import ROOMS

import regard
from regard.learn.questions import chapter

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
NAMES = [path.relative_to(DOCS).as_posix() for path in pages(DOCS)]


LOADING = ("script", "link", "img", "image", "iframe", "source", "use", "object", "video", "audio", "embed")


# How far a page runs over, which pictures it shows, and what is cut off: whatever is wider than an ancestor shows must
# scroll in it by the mouse (a scrollbar that takes up room), by the keyboard and by its name.
LOOK = """async () => {
  for (let frame = 0; frame < 2; frame++) await new Promise(requestAnimationFrame);  // until it is laid out anew
  for (const one of document.getAnimations()) {  // the box of the search takes its new place slowly
    if (isFinite(one.effect.getComputedTiming().endTime)) one.finish();
  }
  const root = document.documentElement, clipped = [];
  for (const shown of document.querySelectorAll(".md-content :is(svg, img, math, pre, pre > code, table)")) {
    const {right, width} = shown.getBoundingClientRect();
    if (width === 0 || shown.parentElement.closest("svg")) continue;
    const tell = why => clipped.push(`${shown.tagName} in ${shown.parentElement.className}: ${why}`);
    for (let box = shown.tagName === "CODE" ? shown : shown.parentElement; box; box = box.parentElement) {
      const {overflowX} = getComputedStyle(box), end = box.getBoundingClientRect().left + box.clientWidth;
      const cut = box === shown ? box.scrollWidth > box.clientWidth + 5 : right > end + 1;  // 5: the padding of code
      if (box !== root && overflowX === "visible" || !cut) continue;
      if (!["auto", "scroll"].includes(overflowX) || box.scrollWidth <= box.clientWidth) tell("cannot be scrolled to");
      else if (box.offsetHeight - box.clientHeight < 5) tell("no scrollbar");
      else if (box.tabIndex < 0 || !box.ariaLabel) tell("no stop of the tab key with a name");
      break;
    }
  }
  const pictures = [...document.querySelectorAll(".picture[class*=picture-]")];
  return [root.scrollWidth - root.clientWidth, pictures.map(box => [box.className, box.offsetHeight]), clipped];
}"""


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
def site(shared, cache):
    """The whole site, built once for all workers as `make docs` builds it: no warning is let through."""
    folder = shared / "site"
    environment = os.environ | {"REGARD_PAGES": str(cache), "NO_MKDOCS_2_WARNING": "1"}
    environment["PYTHONPATH"] = str(ROOT / "src")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]  # --quiet hides warnings
    with FileLock(shared / "site.lock"):
        if not (folder / "built").exists():
            done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
            said = [line for line in (done.stdout + done.stderr).splitlines() if not line.startswith("INFO")]
            assert (done.returncode, said) == (0, [])
            (folder / "built").touch()
    return {path: Found(path.read_text()) for path in sorted(folder.rglob("*.html"))}, folder


@pytest.mark.slow
def test_the_site_builds_and_loads_nothing_from_elsewhere(site):
    read, folder = site
    assert {name.removesuffix(".py") + ".html" for name in NAMES} <= {
        path.relative_to(folder).as_posix() for path in read
    }
    for path, found in read.items():
        for target in found.loads:
            assert not re.match(r"(\w+:)?//", target), f"{path.name} loads {target}"
            if target.startswith("#"):  # a picture that is drawn several times, and lies in the page once
                assert target[1:] in found.ids, f"{path.name} draws {target}, which it does not have"
                continue
            assert (
                target.startswith("data:") or (path.parent / target.split("?")[0]).exists() or path.name == "404.html"
            )
    for path in folder.rglob("*.css"):
        assert not re.search(r"(url\(|@import)\s*['\"]?(https?:)?//", path.read_text()), path.name


@pytest.mark.slow
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


@pytest.mark.slow
def test_pictures_and_questions_are_on_the_page(site):
    _, folder = site
    page = (folder / "course" / "4_weights.html").read_text()
    assert page.count('class="picture picture-light') == page.count('class="picture picture-dark') > 2
    assert page.count('<details class="choice right"') == page.count('<details class="proof"') == 4
    assert "&#8203;" not in page
    assert (folder / "course" / "4_weights.ipynb").exists()
    assert ">>>" not in re.sub(
        r"<(code|pre).*?</\1>", "", (folder / "reference" / "masks.html").read_text(), flags=re.S
    )


@pytest.mark.slow
def test_every_formula_is_typeset(site):
    read, folder = site
    for path in read:
        text = re.sub(r"<(code|pre|script|svg)\b.*?</\1>", "", path.read_text(), flags=re.S)
        left = re.findall(r"arithmatex|\$\$|\\(?:operatorname|text|mathbf|frac|sqrt|qquad|[(\[])|<mi>&(?!\w|#)", text)
        assert not left, f"{path.name}: {left[:3]}"
    for name in ("2_queries_keys_values", "3_scores_and_scaling", "4_weights", "5_the_weighted_sum", "slips"):
        assert "<math" in (folder / "course" / f"{name}.html").read_text()
    assert "$$" in (folder / "course" / "4_weights.ipynb").read_text(), "a notebook sets LaTeX itself"


@pytest.mark.slow
@in_browser
def test_in_a_browser_the_map_of_the_course_can_be_walked_into(site):
    _, folder = site
    with launched() as browser:
        page = browser.new_page()
        page.goto((folder / "course" / "8_inside_a_real_model.html").as_uri())
        shown = page.locator(".map:visible iframe")
        assert (shown.count(), page.locator(".map iframe").count()) == (1, 2), "in one theme of two"
        shown.scroll_into_view_if_needed()
        frame = shown.element_handle().content_frame()
        frame.wait_for_selector(".map-plot")
        rows = frame.evaluate("async () => [...await regardMap.pooled([4, 8], [0, 8], [4, 8])]")
        assert [round(sum(rows[row * 8 : row * 8 + 8]), 2) for row in range(4)] == [1.0] * 4, "causal: all of each row"


@pytest.mark.slow
@in_browser
def test_in_a_browser_the_film_of_the_course_can_be_moved(site):
    _, folder = site
    with launched() as browser:
        page = browser.new_page()
        page.goto((folder / "course" / "14_an_induction_head_appears.html").as_uri())
        shown = page.locator(".map:visible iframe")
        shown.scroll_into_view_if_needed()
        frame = shown.element_handle().content_frame()
        slider = frame.wait_for_selector("input[type=range]")
        for moved, step in (("0", "step 0"), ("24", "step 240")):
            slider.fill(moved)
            seen = frame.locator("[data-frame]:visible")
            assert seen.evaluate_all("all => all.map(each => each.dataset.frame)") == [step]


@pytest.mark.slow
@in_browser
def test_in_a_browser_every_question_is_answered_by_choosing(site):
    _, folder = site
    with launched() as browser:
        page = browser.new_page()
        for path in sorted((folder / "course").glob("[0-9]*_*.html")):
            page.goto(path.as_uri())
            choices = page.locator("details.choice")
            assert choices.count() == sum(len(q.choices) for q in chapter(int(path.name.partition("_")[0])).questions)
            assert page.locator("details.choice > p:visible").count() == 0
            for choice in choices.all():
                choice.locator("summary").press("Enter")
                said = choice.locator("p").inner_text()
                assert choice.locator("p").is_visible()
                assert said.startswith("Right." if "right" in choice.get_attribute("class") else "No, it is ")
                group = choice.get_attribute("name")
                assert page.locator(f'details[name="{group}"][open]').count() == 1, "one answer at a time"
            if page.locator("math").count():
                assert (
                    min(
                        page.locator("math").evaluate_all(
                            "all => all.map(math => math.offsetHeight || math.getBoundingClientRect().height)"
                        )
                    )
                    > 5
                )


@pytest.mark.slow
@in_browser
def test_in_a_browser_nothing_is_cut_off_and_one_theme_is_seen(site):
    read, _ = site
    # By default a headless browser hides the scrollbars that are checked here.
    with launched(ignore_default_args=["--hide-scrollbars"]) as browser:
        for scheme in ("light", "dark"):
            page = browser.new_context(color_scheme=scheme).new_page()
            asked = []
            page.on("request", lambda request, asked=asked: asked.append(request.url))
            drawn = [path for path in read if path.parent.name in ("course", "how-to") or path.stem == "benchmarks"]
            for path in read if scheme == "light" else drawn:
                page.goto(path.as_uri())
                for width in (1280, 390):
                    page.set_viewport_size({"width": width, "height": 900})
                    over, seen, clipped = page.evaluate(LOOK)
                    assert over <= 0, f"{path.name} runs over by {over} pixels at {width}"
                    assert all((f"picture-{scheme}" in name) == (height > 0) for name, height in seen), path.name
                    assert not clipped, f"{path.name} at {width} pixels: {clipped}"
            assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []


@pytest.mark.slow
@in_browser
def test_in_a_browser_the_search_works_without_a_server(site):
    """Opened as a file, as `make docs` says, the page had a dead search, because a file may start no Worker."""
    _, folder = site
    with launched() as browser:
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.goto((folder / "course" / "4_weights.html").as_uri())
        page.locator(".md-search__input").click(timeout=60_000)
        page.keyboard.type("entropy")
        page.locator(".md-search-result__link").first.click(timeout=60_000)
        page.wait_for_url("**/reference/*.html**", timeout=60_000)


def test_a_build_says_which_page_it_runs(caplog):
    """It was silent for minutes."""
    from hooks import announced

    with caplog.at_level("INFO", "mkdocs"):
        assert len(list(announced(pages(DOCS)))) == len(NAMES)
    assert f"Running {NAMES[1]} (2 of {len(NAMES)})" in caplog.text


def test_every_public_name_is_in_the_reference():
    listed = [name for _, names in GROUPS.values() for name in names]
    assert sorted(listed) == list(regard.__all__)


@pytest.mark.parametrize("path", [*INDEXES.values(), REFERENCE], ids=lambda path: path.parent.name)
def test_the_lists_in_the_repository_are_up_to_date_and_lead_to_files(path):
    text = path.read_text()
    assert text == filled(text, site=False), "run python docs/tools/lists.py"
    links = re.findall(r"\]\((?!https?:)([^)]+)\)", text)
    assert len(links) > 4
    assert [link for link in links if not (path.parent / link).exists()] == []


@pytest.mark.parametrize("name", NAMES)
def test_the_links_of_a_page_of_cells_lead_to_files(name):
    path = DOCS / name
    links = re.findall(r"\]\((?!https?:)([\w/.-]+)(?:#[\w-]*)?\)", "\n".join(_texts(path)))
    assert [link for link in links if not (path.parent / link).exists()] == []
    assert path.parent.name != "course" or links, "a chapter says what comes next"


def _texts(path):
    return [cell.source for cell in Page.read(path).cells if cell.kind == "markdown"]


def test_what_is_said_of_the_sources_is_not_on_the_site():
    from hooks import on_page_markdown

    for path in INDEXES.values():
        text = path.read_text()
        assert "These files are the sources" in text
        assert "sources" not in on_page_markdown(text)


@pytest.mark.slow
def test_the_reference_has_parameters_in_tables_and_signatures_that_fit(site):
    _, folder = site
    page = (folder / "reference" / "attention.html").read_text()
    assert "<th>parameter</th>" in page
    assert re.search(r"<td><code>mask</code></td>\s*<td><code>Mask", page)
    text = re.sub(r"<[^>]+>", "", "".join(re.findall(r'<div class="doc-signature.*?</pre>', page, flags=re.S)))
    assert "attention(" in text
    assert ": Tensor" not in text, "types are in the table"


def test_the_design_names_every_room():
    rooms = re.findall(r"^\| (`.+?) \|", (DOCS / "design.md").read_text(), flags=re.MULTILINE)
    assert re.findall(r"`(\w+)`", " ".join(rooms)) == ROOMS


def test_the_benchmarks_are_the_reports():
    folder = ROOT / "benchmarks" / "reports"
    page = reports(folder)
    paths = {path.stem: path for path in folder.glob("*.md")}
    for path in paths.values():
        for line in path.read_text().splitlines():
            assert line.startswith("#") or line in page
    assert page.count("picture-light") == len(DRAWN.keys() & paths) > 3
