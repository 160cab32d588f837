"""The map in a real browser: from all of it to one cell, by mouse, keys and fingers; from a file, with nothing fetched."""

import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest
import torch
from support.browser import in_browser

import regard
from regard.drawing.svg import DARK, LIGHT
from regard.drawing.viewer import MAP_MODULES, Packed, browser_files, page

pytestmark = in_browser
TOKENS = 400
WORDS = [f"w{n}" for n in range(TOKENS)]
WORDS[37], WORDS[201], WORDS[333] = "dog", "Dog", "doghouse"
HOSTILE = [
    "<img src=x onerror=alert(1)>",
    "</script><script>alert(2)</script>",
    "a\x00b",
    "\u202eevil",
    "&lt;b&gt;",
    "\n",
]


def matrix(heads=3, tokens=TOKENS, **options):
    generator = torch.Generator().manual_seed(0)
    query, key = (torch.randn(1, heads, tokens, 8, generator=generator) * 1.5 for _ in range(2))
    return regard.AttentionMatrix(query, key, **options)


@pytest.fixture
def opened(browser, tmp_path):
    """A picture's page, from a file; at the end nothing must have been asked of a network, nothing said to the console."""
    asked, said, contexts = [], [], []

    def look(picture, address="", width=1280, height=800, scheme="light", **options):
        context = browser.new_context(
            offline=True,
            viewport={"width": width, "height": height},
            color_scheme=scheme,
            reduced_motion="reduce",
            **options,
        )
        contexts.append(context)
        tab = context.new_page()
        tab.on("request", lambda request: asked.append(request.url))
        tab.on("console", lambda message: said.append(message.text))
        tab.on("pageerror", lambda error: said.append(str(error)))
        tab.on("dialog", lambda dialog: (said.append(dialog.message), dialog.dismiss()))
        tab.goto(picture.save(tmp_path / "map.html").as_uri() + address)
        idle(tab)
        return tab

    yield look
    for context in contexts:
        context.close()
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []
    assert said == []


def idle(tab):
    tab.wait_for_timeout(60)
    tab.wait_for_selector("#regard-map[data-state=idle]")


def view(tab):
    return tab.evaluate("regardMap.view()")


def drawn(tab):
    """The texts on the screen: what is saved as SVG is drawn by the same calls."""
    idle(tab)
    return [
        node.text for node in ET.fromstring(tab.evaluate("regardMap.svg()")).iter("{http://www.w3.org/2000/svg}text")
    ]


def place(tab, row, column):
    """Where a cell lies on the screen."""
    return tab.evaluate("cell => regardMap.place(cell)", [row, column])


def panel(tab):
    tab.wait_for_selector(".map-panel:visible .map-list")
    return tab.locator(".map-panel").inner_text()


@pytest.fixture(scope="module")
def A():
    return matrix(mask=regard.causal())


@pytest.fixture(scope="module")
def weights(A):
    return A[0].double()


@pytest.fixture(scope="module")
def picture(A):
    return A.picture(WORDS, kind="map", title="Three heads")


class TestZoom:
    def test_first_all_of_it_then_words_then_numbers(self, opened, picture, weights):
        tab = opened(picture)
        assert tab.title() == "Three heads"
        assert "w0 w1 w2" in " ".join(drawn(tab))
        assert "A pixel is the mean" not in " ".join(drawn(tab))  # 400 tokens have a pixel each
        tab.evaluate("regardMap.setView({x: 60.5, y: 60.5, z: 4.5})")
        assert {"w60", "w55", "w65"} <= set(drawn(tab))
        tab.evaluate("regardMap.setView({x: 60.5, y: 60.5, z: 6})")
        mean = float(weights[:, 60, 60].mean())
        assert f"{100 * mean:.3g} %" in [re.sub(r"0+ %$", " %", text) for text in drawn(tab)] + drawn(tab)
        tab.evaluate("regardMap.setView({x: 60.5, y: 60.5, z: 7})")
        assert "w60 → w59" in drawn(tab)

    def test_the_wheel_zooms_where_the_pointer_is(self, opened, picture):
        tab = opened(picture)
        spot, before = place(tab, 300, 100), view(tab)["z"]
        tab.mouse.move(*spot)
        for _ in range(6):
            tab.mouse.wheel(0, -240)
        idle(tab)
        assert view(tab)["z"] > 3
        assert place(tab, 300, 100) == pytest.approx(
            spot, abs=2 ** (view(tab)["z"] - before)
        )  # a pointer is at a whole pixel
        for _ in range(20):
            tab.mouse.wheel(0, 240)
        idle(tab)
        assert (view(tab)["x"], view(tab)["y"]) == (TOKENS / 2, TOKENS / 2)  # all of it again

    def test_dragging_moves_it(self, opened, picture):
        tab = opened(picture, "#x=200&y=200&z=4")
        start = place(tab, 200, 200)
        tab.mouse.move(*start)
        tab.mouse.down()
        tab.mouse.move(start[0] + 160, start[1] - 80, steps=4)
        tab.mouse.up()
        assert (view(tab)["x"], view(tab)["y"]) == pytest.approx((190, 205), abs=0.5)
        assert view(tab)["cell"] is None  # that was no click

    def test_buttons(self, opened, picture):
        tab = opened(picture)
        first = view(tab)["z"]
        tab.get_by_role("button", name="Zoom in").click()
        idle(tab)
        assert view(tab)["z"] == pytest.approx(first + 1, abs=0.01)
        tab.get_by_role("button", name="Show the whole matrix").click()
        idle(tab)
        assert view(tab)["z"] == pytest.approx(first, abs=0.01)

    def test_a_short_text_beside_a_long_one_has_room(self, opened):
        A = regard.AttentionMatrix(torch.randn(6, 8), torch.randn(900, 8))
        tab = opened(A.picture([*"abcdef"], kind="map", columns=[f"k{n}" for n in range(900)]))
        assert {*"abcdef"} <= set(drawn(tab))


class TestCells:
    def test_hover_says_the_weight(self, opened, picture, weights):
        tab = opened(picture, "#x=40&y=60&z=5&head=1")
        tab.mouse.move(*place(tab, 60, 37))
        tip = tab.locator(".map-tip").inner_text()
        assert "w60 → dog" in tip
        assert float(tip.split("\n")[-1]) == pytest.approx(float(weights[1, 60, 37]), abs=2e-3)

    def test_a_click_opens_both_passages(self, opened, picture, weights):
        tab = opened(picture, "#x=40&y=60&z=5&head=2")
        tab.mouse.click(*place(tab, 60, 37))
        text = panel(tab)
        assert "w60 → dog" in text
        assert float(tab.locator(".map-exact").inner_text()) == pytest.approx(float(weights[2, 60, 37]), abs=2e-3)
        assert tab.locator("mark").all_inner_texts() == ["w60", "dog"]
        assert "w58 w59 w60 w61" in text
        assert "w35 w36 dog w38" in text
        top = weights[2, 60].argsort(descending=True)[:6].tolist()
        first = tab.locator(".map-lists section").nth(0).locator("b").all_inner_texts()
        assert first == [WORDS[n] for n in top]
        best = weights[2, :, 37].argsort(descending=True)[:6].tolist()
        assert tab.locator(".map-lists section").nth(1).locator("b").all_inner_texts() == [WORDS[n] for n in best]
        tab.locator(".map-lists section").nth(0).locator("button").nth(3).click()
        tab.wait_for_function(f"() => regardMap.view().cell[1] === {top[3]}")
        assert f"w60 → {WORDS[top[3]]}" in panel(tab)
        tab.get_by_role("button", name="Close the cell").click()
        assert tab.locator(".map-panel").is_hidden()

    def test_a_pixel_of_many_opens_its_strongest(self, opened):
        tokens = 1600
        query = torch.zeros(tokens, 4)
        query[1201] = 9.0
        key = torch.zeros(tokens, 4)
        key[603] = 9.0
        tab = opened(regard.AttentionMatrix(query, key).picture(kind="map"))
        assert "A pixel is the mean of" in " ".join(drawn(tab))
        tab.mouse.click(*place(tab, 1201, 603))
        tab.wait_for_selector(".map-panel:visible")
        assert view(tab)["cell"] == [1201, 603]

    def test_a_word_of_a_ruler_is_followed(self, opened, picture, weights):
        tab = opened(picture, "#x=40&y=60&z=5&head=0")
        _, y = place(tab, 61, 37)
        box = tab.locator(".map-plot").bounding_box()
        tab.mouse.click(box["x"] + 30, y)
        panel(tab)
        assert view(tab)["cell"] == [61, int(weights[0, 61].argmax())]


class TestKeys:
    def test_all_of_it_by_keys(self, opened, picture, weights):
        tab = opened(picture, "#head=0")
        tab.locator(".map-plot").focus()
        for _ in range(5):
            tab.keyboard.press("+")
            idle(tab)
        before = view(tab)
        tab.keyboard.press("Shift+ArrowRight")
        assert view(tab)["x"] > before["x"]
        tab.keyboard.press("Shift+ArrowLeft")
        for key in ("ArrowDown", "ArrowRight", "ArrowDown", "ArrowUp", "ArrowUp"):  # the first one shows the cell
            tab.keyboard.press(key)
        idle(tab)
        said = tab.locator("[aria-live]").inner_text()
        row, column = (int(number) for number in re.findall(r"(?:Row|column) (\d+)", said))
        assert (row, column) == (int(before["y"]) - 1, int(before["x"]) + 1)
        tab.keyboard.press("Enter")
        assert f"{WORDS[row]} → {WORDS[column]}" in panel(tab)
        assert float(tab.locator(".map-exact").inner_text()) == pytest.approx(float(weights[0, row, column]), abs=2e-3)
        tab.keyboard.press("Escape")
        assert tab.locator(".map-panel").is_hidden()
        tab.keyboard.press("-")
        idle(tab)
        assert view(tab)["z"] < before["z"]
        tab.keyboard.press("Home")
        idle(tab)
        assert view(tab)["x"] == TOKENS / 2

    def test_tab_goes_through_everything_and_can_leave(self, opened, picture):
        tab = opened(picture, "#cell=60,37&x=37&y=60&z=5")
        panel(tab)
        names = []
        for _ in range(40):
            tab.keyboard.press("Tab")
            names.append(
                tab.evaluate(
                    "(at => at === document.body ? 'end' : at.getAttribute('aria-label') ?? at.labels?.[0]?.innerText ?? at.innerText)"
                    "(document.activeElement)"
                )
            )
            if names[-1] == "end":
                break
        expected = ["Head", "Colours", "Find a word", "Zoom out", "Zoom in", "Show the whole matrix"]
        assert [name.split("\n")[0] for name in names[:6]] == expected
        assert any(name.startswith("Attention map") for name in names)
        assert names[-1] == "end"


class TestFingers:
    def test_pan_pinch_and_tap(self, opened, picture):
        tab = opened(picture, "#x=200&y=200&z=4", width=390, height=800, has_touch=True, is_mobile=True)
        session = tab.context.new_cdp_session(tab)

        def touch(kind, *points):
            fingers = [{"x": x, "y": y, "id": n} for n, (x, y) in enumerate(points)]
            session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": fingers})

        x, y = place(tab, 200, 200)
        touch("touchStart", (x, y))
        for step in range(1, 5):
            touch("touchMove", (x + 12 * step, y))
        touch("touchEnd")
        assert view(tab)["x"] == pytest.approx(197, abs=0.6)
        before = view(tab)["z"]
        touch("touchStart", (x - 30, y), (x + 30, y))
        for step in range(1, 7):
            touch("touchMove", (x - 30 - 5 * step, y), (x + 30 + 5 * step, y))
        touch("touchEnd")
        assert view(tab)["z"] == pytest.approx(before + 1, abs=0.15)
        idle(tab)
        tab.touchscreen.tap(*place(tab, 199, 196))
        panel(tab)
        assert view(tab)["cell"] == [199, 196]
        assert tab.evaluate("document.documentElement.scrollWidth") <= 390


class TestControls:
    def test_heads(self, opened, picture, weights):
        tab = opened(picture)

        def shown():
            return tab.evaluate("regardMap.weights([60, 61], [0, 60]).then(found => [...found])")

        assert shown() == pytest.approx(weights[:, 60, :60].mean(0).tolist(), abs=2e-3)
        tab.get_by_label("Head").select_option("head 1")
        assert shown() == pytest.approx(weights[1, 60, :60].tolist(), abs=2e-3)
        idle(tab)
        tab.wait_for_function("() => location.hash.includes('head=1')")

    def test_layers(self, opened):
        class Model(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.encoder = regard.Encoder(2, 16, 2, 16)

            def forward(self, x):
                return self.encoder(x)

        model = Model().eval()
        with torch.no_grad(), regard.watch(model, tokens=["▁A", "▁hun", "gry", "▁dog"]) as record:
            model(torch.randn(1, 4, 16))
        tab = opened(record.picture("map"))
        assert {"hun", "gry", "dog"} <= set(drawn(tab))
        tab.get_by_label("Layer").select_option("layer 1")
        tab.get_by_label("Head").select_option("head 0")
        found = tab.evaluate("regardMap.weights([0, 4], [0, 4]).then(found => [...found])")
        assert found == pytest.approx(record.weights(layer=1, head=0).flatten().tolist(), abs=2e-3)

    def test_logarithm_and_linear(self, opened, picture):
        tab = opened(picture)
        log = tab.evaluate("regardMap.svg()")
        assert "≤" in "".join(drawn(tab))
        tab.get_by_label("Colours").select_option("linear")
        assert "≤" not in "".join(drawn(tab))
        assert tab.evaluate("regardMap.svg()") != log

    def test_a_word_is_found_and_followed(self, opened, picture, weights):
        tab = opened(picture, "#head=0")
        box = tab.get_by_label("Find a word")
        box.fill("dog")
        box.press("Enter")
        panel(tab)
        assert tab.locator(".map-count").inner_text() == "1 of 4: looks"  # whole words, in any case, on both axes
        assert view(tab)["cell"] == [37, int(weights[0, 37].argmax())]
        idle(tab)
        assert "dog" in drawn(tab)
        tab.get_by_role("button", name="The next place").click()
        tab.wait_for_function("() => regardMap.view().cell[0] === 201")
        tab.get_by_role("button", name="The place before").click()
        tab.wait_for_function("() => regardMap.view().cell[0] === 37")
        for _ in range(2):  # the rows, then the columns
            tab.get_by_role("button", name="The next place").click()
        tab.wait_for_function("() => regardMap.view().cell[1] === 37")
        assert tab.locator(".map-count").inner_text() == "3 of 4: is looked at"
        assert view(tab)["cell"] == [int(weights[0, :, 37].argmax()), 37]
        box.fill("cat")
        box.press("Enter")
        tab.wait_for_function("() => document.querySelector('.map-count').textContent === 'not found'")

    def test_the_address_holds_the_view(self, opened, picture):
        tab = opened(picture, "#x=100&y=150&z=5&head=2&colour=linear&cell=150,99")
        found = view(tab)
        assert {**found, "x": 100, "y": 150} == {
            "x": 100, "y": 150, "z": 5, "layer": "all", "head": 2, "colour": "linear", "cell": [150, 99],
        }  # fmt: skip
        assert tab.get_by_label("Colours").input_value() == "linear"
        tab.get_by_role("button", name="Close the cell").click()
        tab.wait_for_function("() => !location.hash.includes('cell')")
        tab.evaluate("location.hash = '#x=50&y=60&z=4'")
        tab.wait_for_function("() => regardMap.view().z === 4")
        assert view(tab)["head"] == "all"

    @pytest.mark.parametrize(
        "address", ["#x=nan&z=1e99&cell=9999,-1&head=77&layer=x", "#cell=a,b", "#%00%ff", "#x=1e300&y=2&z=3"]
    )
    def test_any_address_opens(self, opened, picture, address):
        tab = opened(picture, address)
        assert 0 <= view(tab)["x"] <= TOKENS


class TestSaved:
    def test_what_is_on_the_screen(self, opened, picture):
        tab = opened(picture, "#x=40&y=60&z=4.5")
        with tab.expect_download() as download:
            tab.get_by_role("button", name="Save what is on the screen as SVG").click()
        root = ET.parse(download.value.path()).getroot()
        texts = [node.text for node in root.iter("{http://www.w3.org/2000/svg}text")]
        assert {"dog", "w60"} <= set(texts)
        assert any("Three heads" in text for text in texts)
        assert len(list(root.iter("{http://www.w3.org/2000/svg}image"))) >= 1
        with tab.expect_download() as download:
            tab.get_by_role("button", name="Save what is on the screen as PNG").click()
        assert download.value.path().read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


class TestSafe:
    def test_hostile_words_are_words(self, opened):
        A = matrix(heads=1, tokens=6)
        tab = opened(A.picture(HOSTILE, kind="map", title=HOSTILE[0]), "#x=1&y=1&z=6.5&cell=0,1")
        text = panel(tab)
        assert "<img src=x onerror=alert(1)>" in text
        assert "</script>" in text
        assert tab.locator("h1").inner_text() == HOSTILE[0]
        tab.mouse.move(*place(tab, 1, 0))
        tab.mouse.move(*place(tab, 0, 0))
        assert "onerror" in tab.locator(".map-tip").inner_text()
        for row in range(6):
            tab.evaluate("row => regardMap.setView({cell: [row, 5 - row]})", row)
            tab.wait_for_timeout(30)
        ET.fromstring(tab.evaluate("regardMap.svg()"))
        assert tab.locator("img").count() == 0
        assert tab.evaluate("document.scripts.length") == 2  # what it is about, and its own

    def test_no_other_script_or_style_may_run(self, picture):
        policy = re.search(r'Content-Security-Policy" content="([^"]+)"', picture.to_html())[1]
        assert "unsafe" not in policy
        assert policy.startswith("default-src 'none'")
        assert " style=" not in picture.to_html().split("<script")[0]

    def test_names_are_unique_in_all_modules(self):
        """So that modules can be joined into one script."""
        declared = {}
        for name, text in browser_files("regard.drawing", "viewer").items():
            if name.endswith(".js"):
                for found in re.findall(
                    r"^(?:export )?(?:async )?(?:function\*?|const|let|class) (\w+)", text.decode(), re.M
                ):
                    declared.setdefault(found, []).append(name)
        assert {found: names for found, names in declared.items() if len(names) > 1} == {}

    def test_a_module_comes_after_what_it_imports(self):
        for place, name in enumerate((*MAP_MODULES, "open.js")):
            imported = re.findall(r'from "\./([\w.]+)"', browser_files("regard.drawing", "viewer")[name].decode())
            assert set(imported) <= set(MAP_MODULES[:place])


class TestFits:
    @pytest.mark.parametrize("scheme", ["light", "dark"])
    @pytest.mark.parametrize("width", [360, 1280, 2560])
    def test_everyone_can_use_it(self, opened, picture, width, scheme):
        """No serious finding of axe-core, with a cell open; nothing wider than the window."""
        from importlib.resources import files

        tab = opened(picture, "#x=40&y=60&z=5&cell=60,37", width=width, height=900, scheme=scheme)
        panel(tab)
        tab.evaluate((files("axe_playwright_python") / "axe.min.js").read_text())
        found = tab.evaluate("axe.run().then(found => found.violations)")
        assert [
            (each["id"], each["nodes"][0]["html"]) for each in found if each["impact"] in ("serious", "critical")
        ] == []
        assert tab.evaluate("document.documentElement.scrollWidth") <= width
        assert tab.evaluate("document.documentElement.scrollHeight") <= 900

    def test_the_last_words_lean_inside_the_picture(self, opened):
        A = matrix(1, 12)
        tab = opened(A.picture([*WORDS[:10], "unquestionably", "</s>"], kind="map"), width=360, height=740)
        assert drawn(tab).count("</s>") == 2  # in full on both sides
        tab.set_content(tab.evaluate("regardMap.svg()"))
        ends = tab.locator("text[transform]").evaluate_all("all => all.map(each => each.getBoundingClientRect().right)")
        assert [len(ends), max(ends) <= 8 + 360] == [12, True]

    def test_what_is_not_inside_is_said(self, A, browser, tmp_path):
        picture = A.picture(WORDS, kind="map")
        without, numbers = (
            len(page(Packed({"title": ""}, {}))),
            sum(len(block.text) for block in picture.feed.packed(10**7).blocks.values()),
        )
        tab = browser.new_page()
        budget = without + numbers * 6 // 10
        path = picture.save(tmp_path / "some.html", budget=budget)
        assert budget - numbers // 3 < path.stat().st_size <= budget
        tab.goto(path.as_uri())
        note = tab.locator(".map-note").inner_text()
        assert "1 of 3 heads are inside" in note
        assert "record.at(layer=…, head=…)" in note
        assert re.search(
            r"float16: weights differ from the model's by at most \d[\d.e-]* \(a sample of 64 rows of each head\)", note
        )
        tab.close()


def test_colours_are_those_of_pictures(opened, picture):
    """The scale of the map is that of `Theme.heat`."""
    for theme in (LIGHT, DARK):
        tab = opened(picture, scheme=theme.name)
        svg = ET.fromstring(tab.evaluate("regardMap.svg()"))
        rects = [node.get("fill", "") for node in svg.iter("{http://www.w3.org/2000/svg}rect")]
        found = [
            [int(part) for part in fill[4:-1].split()] for fill in rects if fill.startswith("rgb(") and "," not in fill
        ]
        expected = theme.heat(np.linspace(0, 1, 60)).astype(int)
        assert np.abs(np.array(found[-60:]) - expected).max() <= 2  # in 256 shades
