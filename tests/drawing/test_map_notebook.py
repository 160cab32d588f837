"""The map in a notebook: in a frame that carries its numbers, or as a widget that asks Python."""

import base64
import re
import sys

import numpy as np
import pytest
import torch
from support.browser import in_browser

import regard
from regard.drawing import viewer
from regard.drawing.viewer import answer

TOKENS = 400
WORDS = [f"w{n}" for n in range(TOKENS)]
WORDS[37] = "dog"


@pytest.fixture(scope="module")
def A():
    generator = torch.Generator().manual_seed(0)
    query, key = (torch.randn(1, 3, TOKENS, 8, generator=generator) * 1.5 for _ in range(2))
    return regard.AttentionMatrix(query, key, mask=regard.causal())


@pytest.fixture(scope="module")
def weights(A):
    return A[0].double()


@pytest.fixture(scope="module")
def picture(A):
    return A.picture(WORDS, kind="map", title="Three heads")


@in_browser
def test_the_map_is_in_a_frame_of_its_own(browser, picture):
    html = picture._repr_mimebundle_()["text/html"]
    said = []
    tab = browser.new_page(viewport={"width": 900, "height": 800})
    tab.on("console", lambda message: said.append(message.text))
    tab.on("pageerror", lambda error: said.append(str(error)))
    tab.set_content(f"<main>{html}</main>")
    frame = tab.frame_locator("iframe")
    frame.locator("#regard-map[data-state=idle]").wait_for()
    assert frame.locator("h1").inner_text() == "Three heads"
    tab.mouse.move(400, 400)
    box = frame.locator(".map-plot").bounding_box()
    before = frame.locator("body").evaluate("() => regardMap.view().z")
    tab.mouse.wheel(0, -300)  # scrolls the notebook
    assert frame.locator("body").evaluate("() => regardMap.view().z") == before
    tab.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] * 0.7)
    frame.locator(".map-panel .map-list").first.wait_for()
    tab.mouse.wheel(0, -300)  # a map that has the focus is zoomed
    tab.wait_for_timeout(600)
    assert frame.locator("body").evaluate("() => regardMap.view().z") > before
    tab.close()
    assert said == []


def test_the_still_picture_waits_until_it_is_drawn(A, monkeypatch):
    """A widget of a long text, or a page, would wait for it in vain."""
    pool, asked = regard.AttentionMatrix.pool, []

    def counting(A, *bins):
        asked.append((bins, torch.get_num_threads()))
        return pool(A, *bins)

    monkeypatch.setattr(regard.AttentionMatrix, "pool", counting)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        picture = A.picture(WORDS, kind="map")
        picture.widget()
        assert repr(picture) == "Picture('map', pool=(192, 192))"
        assert list(picture.numbers) == ["pool"]
        assert "400 × 400 weights in 192 × 192 cells" in picture.caption
        assert asked == []
        assert "w0 w1 w2 w3" in str(picture)
        picture.to_svg()
        assert picture.numbers["pool"].shape == (192, 192)
        assert asked == [((192, 192), 1)]  # once, and this little work by one thread
    finally:
        torch.set_num_threads(before)


def test_what_is_too_large_is_the_drawing(A, monkeypatch):
    monkeypatch.setattr("regard.drawing.picture._NOTEBOOK_BUDGET", 1000)
    html = A.picture(WORDS, kind="map")._repr_mimebundle_()["text/html"]
    assert "<iframe" not in html
    assert "<svg" in html


def test_other_files_stay_drawings(picture, tmp_path):
    assert picture.save(tmp_path / "map.svg").read_text().startswith("<svg")
    assert picture.to_svg() in picture._repr_mimebundle_()["image/svg+xml"]
    assert picture.to_html() == picture.to_html()


@in_browser
def test_a_widget_asks_python(browser, A, weights):
    """Its module as a notebook runs it, with a model that hands questions to the Python side."""
    picture = A.picture(WORDS, kind="map")
    made = picture.widget()
    said, questions = [], []
    tab = browser.new_page(viewport={"width": 1000, "height": 800})
    tab.on("console", lambda message: said.append(message.text))
    tab.on("pageerror", lambda error: said.append(str(error)))

    def ask(question):
        questions.append(question["ask"])
        message, buffers = answer(picture.feed, question)
        return {"message": message, "buffers": [base64.b64encode(each).decode() for each in buffers]}

    tab.expose_function("askPython", ask)
    tab.set_content("<main></main>")
    tab.add_style_tag(content=made._css)
    tab.evaluate(
        """async ([source, about]) => {
            const listeners = [];
            const model = {
                get: () => about, on: (_, listener) => listeners.push(listener), off: () => {},
                send: async question => {
                    const {message, buffers} = await askPython(question);
                    const bytes = buffers.map(text => new DataView(Uint8Array.from(atob(text), c => c.charCodeAt(0)).buffer));
                    for (const listener of listeners) listener(message, bytes);
                },
            };
            const {default: widget} = await import(URL.createObjectURL(new Blob([source], {type: "text/javascript"})));
            window.close_it = widget.render({model, el: document.querySelector("main")});
        }""",
        [made._esm, made.about],
    )
    tab.wait_for_selector(".regard-map[data-state=idle]")
    tab.get_by_label("Head").select_option("head 1")
    box = tab.get_by_label("Find a word")
    box.fill("dog")
    box.press("Enter")
    tab.wait_for_selector(".map-panel:visible .map-list")
    assert f"dog → {WORDS[int(weights[1, 37].argmax())]}" in tab.locator(".map-panel h2").inner_text()
    assert float(tab.locator(".map-exact").inner_text()) == pytest.approx(float(weights[1, 37].max()), rel=1e-5)
    assert {"tile", "tokens", "find"} <= set(questions)
    tab.evaluate("close_it()")
    tab.close()
    assert said == []


def test_the_python_side_of_the_widget(A, weights):
    made = A.picture(WORDS, kind="map").widget()
    assert made.about["queries"] == TOKENS
    sent = []
    made.send = lambda message, buffers: sent.append((message, buffers))
    made._handle_custom_msg(
        {"id": 7, "ask": "tile", "heads": [[0, 2]], "rows": [5, 9], "columns": [0, 4], "bins": [4, 4]}, []
    )
    made._handle_custom_msg(
        {"id": 8, "ask": "tile", "heads": [[0, 9]], "rows": [5, 9], "columns": [0, 4], "bins": [4, 4]}, []
    )
    made._handle_custom_msg({"id": 9, "ask": "ready", "heads": [[0, 2]]}, [])
    assert sent[0][0] == {"id": 7}
    np.testing.assert_allclose(np.frombuffer(sent[0][1][0], "<f4").reshape(4, 4), weights[2, 5:9, :4], atol=1e-6)
    assert "Got (0, 9)" in sent[1][0]["error"]
    assert sent[2][0] == {"id": 9, "answer": 1.0}


def test_without_the_extra_it_says_what_to_install(picture, monkeypatch):
    viewer._widget_class.cache_clear()
    monkeypatch.setitem(sys.modules, "anywidget", None)
    with pytest.raises(regard.MissingDependencyError, match=re.escape("pip install 'regard[notebook]'")):
        picture.widget()
    viewer._widget_class.cache_clear()
