"""The pages in a real browser: hover says the number, a click picks, hostile words do nothing, nothing is fetched."""

import re

import numpy as np
import pytest
from support.browser import in_browser
from support.samples import DOG, HOSTILE, random_weights

import regard
from regard import drawing, textbook

pytestmark = in_browser


@pytest.fixture
def opened(browser, tmp_path):
    """A picture's page; at the end nothing must have been asked of a network, nothing said to the console."""
    asked, said = [], []
    context = browser.new_context(offline=True, viewport={"width": 1200, "height": 900})

    def look(picture, **options):
        page = context.new_page()
        page.on("request", lambda request: asked.append(request.url))
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("dialog", lambda dialog: (said.append(dialog.message), dialog.dismiss()))
        page.goto(picture.save(tmp_path / "picture.html", **options).as_uri())
        return page

    yield look
    context.close()
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []
    assert said == []


def tip(page):
    """What the pointer is told."""
    found = page.locator(".regard-tip")
    return found.inner_text() if found.is_visible() else None


def test_hover_on_a_line_says_its_number(opened):
    done = regard.steps(*textbook.dog())
    page = opened(drawing.lines(done.weights, DOG))
    line = page.locator('[data-mark][data-row="6"][data-column="1"]')
    spot = line.evaluate(
        "line => { const at = line.getPointAtLength(line.getTotalLength() / 5).matrixTransform(line.getScreenCTM());"
        " return [at.x, at.y]; }"
    )
    page.mouse.move(*spot)
    assert tip(page) == "it → dog: 55.2 %"
    page.mouse.move(5, 890)
    assert tip(page) is None


def test_hover_on_a_cell_says_its_number(opened):
    page = opened(drawing.matrix(regard.steps(*textbook.i_am_good()).weights, ["I", "am", "good"]))
    page.locator('[data-row="0"][data-column="1"]').hover()
    assert tip(page) == "I → am: 7 %"


def test_hover_on_a_patch_says_its_number(opened):
    weights = np.zeros((4, 6))
    weights[2, 5], weights[0, 0] = 0.125, 0.5
    heat = drawing.Heat(weights, name="layer 3", marks=weights == 0.5)
    page = opened(drawing.overlay(np.zeros((80, 120, 3), np.uint8), [heat]))
    box = page.locator('[data-raster="0"]').bounding_box()
    for row, column, number in ((2, 5, "0.125"), (0, 0, "0.500"), (3, 1, "0.00")):
        page.mouse.move(box["x"] + (column + 0.5) * box["width"] / 6, box["y"] + (row + 0.5) * box["height"] / 4)
        assert re.sub("[\u2068\u2069]", "", tip(page)) == f"layer 3\nrow {row} → column {column}: {number}"


def test_hover_on_a_pixel_says_its_number(opened):
    weights = random_weights(2, 3, 40, 40)
    page = opened(drawing.grid(weights, [f"w{n}" for n in range(40)]), theme="dark")
    box = page.locator('[data-raster="4"]').bounding_box()  # layer 1, head 1
    for row, column in ((0, 0), (7, 31), (39, 39)):
        page.mouse.move(box["x"] + (column + 0.5) * box["width"] / 40, box["y"] + (row + 0.5) * box["height"] / 40)
        name, pair = tip(page).split("\n")
        assert name == "layer 1, head 1"
        words, number = re.sub("[\u2068\u2069]", "", pair).split(": ")
        assert words == f"w{row} → w{column}"
        assert float(number) == pytest.approx(weights[1, 1, row, column], abs=2e-3 * weights[1, 1].max())


def test_picking_a_word_fades_the_others(opened):
    page = opened(drawing.lines(random_weights(9, 9), DOG))

    def faded():
        marks = page.locator("[data-mark]")
        return {int(row) for row, opacity in marks.evaluate_all(
            "found => found.map(mark => [mark.dataset.row, getComputedStyle(mark).opacity])") if float(opacity) < 0.5}  # fmt: skip

    assert faded() == set()
    page.locator('[data-pick="row:6"]').hover()
    assert faded() == set(range(9)) - {6}
    page.mouse.move(5, 890)
    assert faded() == set()
    page.locator('[data-pick="row:1"]').click()
    page.mouse.move(5, 890)
    assert faded() == set(range(9)) - {1}  # it stays
    page.locator('[data-pick="row:1"]').click()
    page.mouse.move(5, 890)
    assert faded() == set()


def test_shares_are_those_of_the_picked_word_only(opened):
    page = opened(drawing.lines(random_weights(9, 9), DOG, pick="it"))
    shares = page.locator('[data-mark="share"]')
    assert shares.count() == 9
    page.locator('[data-pick="row:1"]').hover()
    assert set(shares.evaluate_all("found => found.map(share => getComputedStyle(share).opacity)")) == {"0.04"}


def test_heads_can_be_picked(opened):
    page = opened(drawing.lines(random_weights(3, 9, 9), DOG))
    page.locator('[data-pick="head:2"]').click()
    shown = page.locator("[data-mark]").evaluate_all(
        "found => found.filter(mark => getComputedStyle(mark).opacity > 0.5).map(mark => mark.dataset.head)"
    )
    assert set(shown) == {"2"}


@pytest.mark.parametrize("kind", ["lines", "matrix", "grid", "flow", "steps"])
def test_hostile_words_are_words(opened, kind):
    weights = np.full((6, 6), 1 / 6)
    picture = {
        "lines": lambda: drawing.lines(weights, HOSTILE, title=HOSTILE[0]),
        "matrix": lambda: drawing.matrix(weights, HOSTILE),
        "grid": lambda: drawing.grid(weights[None, None], HOSTILE, captions=[[HOSTILE[1]]], title=HOSTILE[2]),
        "flow": lambda: drawing.flow([weights], HOSTILE, 0),
        "steps": lambda: regard.steps(weights, weights, weights, weights, words=HOSTILE).picture(),
    }[kind]()
    page = opened(picture)
    assert page.locator("img").count() == 0
    assert page.locator("script").count() == 1
    if kind == "grid":
        page.locator("[data-raster]").hover()
        assert tip(page) is not None
    else:
        titled = kind in ("lines", "steps")  # a title is no token
        page.locator("text").filter(has_text="<script>al").nth(int(titled)).hover()
        assert "<script>" in tip(page)
        assert page.locator("img").count() == 0


def test_right_to_left_words_stand_in_their_place(opened):
    page = opened(drawing.lines(np.eye(3), ["first", "שלום", "last"]))
    left = [page.locator(f'[data-pick="row:{n}"]').bounding_box() for n in range(3)]
    ends = [box["x"] + box["width"] for box in left]
    assert max(ends) - min(ends) < 3  # all end at the lines
    assert left[0]["y"] < left[1]["y"] < left[2]["y"]


def test_texts_fit_what_was_measured(opened):
    """Nothing is drawn outside of the picture, and no word over a line of another column."""
    for picture in (
        drawing.lines(random_weights(9, 9), DOG, pick="it"), drawing.matrix(random_weights(9, 9), DOG),
        regard.steps(*textbook.i_am_good()).picture(), drawing.flow([random_weights(9, 9)] * 4, DOG, "it"),
    ):  # fmt: skip
        page = opened(picture)
        whole = page.locator("svg").bounding_box()
        boxes = page.locator("text").evaluate_all("found => found.map(text => text.getBoundingClientRect().toJSON())")
        assert all(box["left"] >= whole["x"] - 1 for box in boxes)
        assert all(box["right"] <= whole["x"] + whole["width"] + 1 for box in boxes)
        assert all(box["bottom"] <= whole["y"] + whole["height"] + 1 for box in boxes)


def test_in_a_notebook_each_output_works_for_itself(browser, tmp_path):
    """As JupyterLab does it: the HTML is put into the page, then its scripts are made anew so that they run."""
    first = drawing.lines(random_weights(9, 9), DOG)
    second = drawing.matrix(random_weights(3, 3), ["I", "am", "good"])
    page = browser.new_page()
    page.set_content("<main></main>")
    for picture in (first, second, first):  # the same twice, as when a cell is shown in two places
        page.evaluate(
            """html => {
                const output = document.createElement("div");
                output.innerHTML = html;
                document.querySelector("main").append(output);
                for (const dead of output.querySelectorAll("script")) {
                    const alive = document.createElement("script");
                    alive.textContent = dead.textContent;
                    dead.replaceWith(alive);
                }
            }""",
            picture._repr_mimebundle_()["text/html"],
        )
    page.locator('.regard-picture:visible >> nth=1 >> [data-row="0"][data-column="1"]').hover()
    tips = page.locator(".regard-tip").evaluate_all("found => found.map(tip => tip.hidden ? null : tip.textContent)")
    assert [text is None for text in tips] == [True, False, True]
    assert tips[1].startswith("I → am: ")
    page.locator('.regard-picture >> nth=2 >> [data-pick="row:6"]').hover()
    faded = page.locator("[data-mark]").evaluate_all(
        "found => found.filter(mark => mark.style.opacity == '0.04').length"
    )
    assert faded == 72  # of the third output, not of the first
    page.close()


def test_what_is_picked_can_be_saved(opened):
    page = opened(drawing.lines(random_weights(9, 9), DOG))
    page.locator('[data-pick="row:6"]').click()
    with page.expect_download() as download:
        page.locator(".regard-keep").click()
    svg = download.value.path().read_text()
    assert svg.startswith("<svg")
    assert svg.count("opacity: 0.04") == 72


def test_a_slider_goes_through_a_film(opened):
    weights = regard.steps(*textbook.i_am_good()).weights
    words = ["I", "am", "good"]
    page = opened(drawing.film({"before": drawing.matrix(np.eye(3), words), "after": drawing.matrix(weights, words)}))
    frames, slider = page.locator("[data-frame]"), page.locator(".regard-film")
    assert [frames.nth(n).is_visible() for n in range(2)] == [False, True]
    frames.nth(1).locator('[data-row="0"][data-column="1"]').hover()
    assert tip(page) == "I → am: 7 %"
    slider.focus()
    page.keyboard.press("ArrowLeft")
    assert [frames.nth(n).is_visible() for n in range(2)] == [True, False]
    frames.nth(0).locator('[data-row="0"][data-column="1"]').hover()
    assert tip(page) == "I → am: 0 %"


def test_a_picture_that_is_no_film_has_no_slider(opened):
    assert opened(drawing.matrix(np.eye(2), ["a", "b"])).locator(".regard-film").count() == 0
