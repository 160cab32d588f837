"""The view of all heads in a browser: menus, heads that switch, weights beside the words, long and hostile texts."""

import re

import numpy as np
import pytest
import torch
from support.browser import in_browser

import regard
from regard.drawing.attention_lines import _HeadsFeed

WORDS = ["A", "dog", "ate", "<b>it</b>", "</script><script>alert(1)</script>", "שלום"]


class Model(torch.nn.Module):
    def __init__(self, layers, heads):
        super().__init__()
        self.encoder = regard.Encoder(layers, 8 * heads, heads, 16)

    def forward(self, x):
        return self.encoder(x)


def watched(words, layers=3, heads=4):
    torch.manual_seed(0)
    model = Model(layers, heads).eval()
    with torch.no_grad(), regard.watch(model, tokens=words) as record:
        model(4 * torch.randn(1, len(words), 8 * heads))
    return record


@pytest.fixture(scope="module")
def record():
    return watched(WORDS)


@pytest.fixture
def opened(browser, tmp_path):
    """A picture's page, from a file; at the end nothing must have been fetched, nothing said to the console."""
    requests, messages, contexts = [], [], []

    def look(picture, scheme="light", **options):
        contexts.append(browser.new_context(offline=True, color_scheme=scheme))
        tab = contexts[-1].new_page()
        tab.on("request", lambda request: requests.append(request.url))
        tab.on("console", lambda message: messages.append(message.text))
        tab.on("pageerror", lambda error: messages.append(str(error)))
        tab.on("dialog", lambda dialog: (messages.append(dialog.message), dialog.dismiss()))
        tab.goto(picture.save(tmp_path / "heads.html", **options).as_uri())
        settle(tab)
        return tab

    yield look
    for context in contexts:
        context.close()
    assert [url for url in requests if not url.startswith("file:")] == []
    assert messages == []


def settle(tab):
    tab.wait_for_selector("#regard-map[data-state=idle]")


def hover(tab, side, place):
    box = tab.locator(f"[data-side={side}] >> nth={place}").bounding_box()
    tab.mouse.move(box["x"] + 3, box["y"] + 8)


def shares(tab, side):
    """The weights beside the words of a side, by place; NaN where there is none."""
    texts = tab.locator(f"[data-side={side}]").evaluate_all(
        "all => all.map(e => e.querySelector('small')?.textContent)"
    )
    return [float(text.replace("%", "")) / 100 if text else np.nan for text in texts]


def same(shown, expected):
    expected = expected.double().numpy()
    np.testing.assert_allclose(np.nan_to_num(shown), expected, rtol=0.006, atol=2e-5)  # three digits, or two


@in_browser
class TestView:
    def test_a_word_shows_what_it_gives_and_receives(self, opened, record):
        tab = opened(record.picture("heads", title="Dog & <food>"))
        assert tab.locator("h1").inner_text() == "Dog & <food>"
        assert tab.locator("[data-side=rows]").all_inner_texts() == WORDS
        hover(tab, "rows", 3)
        same(shares(tab, "columns"), record.weights(layer=0)[3])
        assert "<b>it</b> looks at" in tab.locator(".map-panel").inner_text()
        hover(tab, "columns", 1)
        same(shares(tab, "rows"), record.weights(layer=0)[:, 1])
        assert "dog is looked at by" in tab.locator(".map-panel").inner_text()
        tab.mouse.move(0, 0)
        assert np.isnan(shares(tab, "columns")).all()

    def test_heads_switch(self, opened, record):
        tab = opened(record.picture("heads", layer=1))
        heads = tab.get_by_role("button")
        assert heads.count() == 4
        heads.nth(2).click()
        assert heads.nth(2).get_attribute("aria-pressed") == "false"
        hover(tab, "rows", 1)
        dense = record.at(layer=1)["encoder.layers.1.attention"].to_dense()[0]
        same(shares(tab, "columns"), dense[[0, 1, 3], 1].mean(0))
        assert "mean of 3 heads" in tab.locator(".map-panel").inner_text()
        heads.nth(3).dblclick()
        assert [heads.nth(n).get_attribute("aria-pressed") for n in range(4)] == ["false"] * 3 + ["true"]
        hover(tab, "rows", 1)
        same(shares(tab, "columns"), dense[3, 1])
        heads.nth(3).dblclick()
        assert [heads.nth(n).get_attribute("aria-pressed") for n in range(4)] == ["true"] * 4

    def test_the_menu_changes_the_layer_and_a_click_keeps_the_word(self, opened, record):
        tab = opened(record.picture("heads"))
        hover(tab, "rows", 2)
        tab.mouse.down()
        tab.mouse.up()
        tab.mouse.move(0, 0)
        same(shares(tab, "columns"), record.weights(layer=0)[2])
        tab.select_option("select", label="encoder, layer 2")
        settle(tab)
        same(shares(tab, "columns"), record.weights(layer=2)[2])

    def test_layers_may_have_different_numbers_of_heads(self, opened, record):
        class Uneven(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.layers = torch.nn.ModuleList(regard.MultiHeadAttention(24, heads) for heads in (6, 2))

            def forward(self, x):
                for layer in self.layers:
                    x = layer(x)
                return x

        with torch.no_grad(), regard.watch(Uneven().eval(), tokens=WORDS) as uneven:
            uneven.model(3 * torch.randn(1, len(WORDS), 24))
        tab = opened(uneven.picture("heads"))
        tab.select_option("select", index=1)
        settle(tab)
        assert tab.get_by_role("button").count() == 2
        hover(tab, "rows", 1)
        same(shares(tab, "columns"), uneven.weights(layer=1)[1])

    def test_in_the_frame_of_a_notebook(self, browser, record):
        tab = browser.new_page()
        tab.set_content(record.picture("heads", word="ate")._repr_mimebundle_()["text/html"])
        tab.frame_locator("iframe").locator("#regard-map[data-state=idle]").wait_for()
        panel = tab.frame_locator("iframe").locator(".map-panel")
        assert "ate looks at" in panel.inner_text()
        tab.close()

    def test_a_word_can_be_chosen_from_python(self, opened, record):
        tab = opened(record.picture("heads", word="ate"))
        same(shares(tab, "columns"), record.weights(layer=0)[2])

    @pytest.mark.parametrize("scheme", ["light", "dark"])
    def test_lines_have_the_colours_of_their_heads(self, opened, record, scheme):
        tab = opened(record.picture("heads"), scheme)
        colours = tab.get_by_role("button").evaluate_all("all => all.map(e => getComputedStyle(e).borderLeftColor)")
        assert colours[1] == {"light": "rgb(213, 94, 0)", "dark": "rgb(255, 138, 76)"}[scheme]
        strongest = int(record.weights(layer=0, head=1).max(-1).values.argmax())
        tab.get_by_role("button").nth(1).dblclick()
        hover(tab, "rows", strongest)
        painted = tab.evaluate(
            """() => {
                const canvas = document.querySelector("canvas"), seen = new Map();
                const {data} = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
                for (let n = 0; n < data.length; n += 4) {
                  if (data[n + 3] > 150) seen.set(data.slice(n, n + 3).join(", "), true);
                }
                return [...seen.keys()];
            }"""
        )
        exact = [int(part) for part in re.findall(r"\d+", colours[1])]
        assert painted
        assert all(np.abs(np.array(each.split(", "), int) - exact).max() <= 4 for each in painted)

    def test_a_translator_has_three_kinds(self, opened):
        translation = regard.Translator.default().translate("A dog ate the food because it was hungry.")
        record = translation.watch()
        tab = opened(record.picture("heads"))
        labels = tab.locator("option").all_inner_texts()
        assert {label.split(",")[0] for label in labels} == {"encoder", "decoder", "cross"}
        assert labels[0] == "encoder, layer 0"
        tab.select_option("select", label="cross, layer 1")
        settle(tab)
        hover(tab, "rows", 1)
        same(shares(tab, "columns"), record.weights(kind="cross", layer=1)[1])

    @pytest.mark.slow
    def test_a_long_text_keeps_the_largest_weights_and_says_so(self, opened):
        record = watched([f"w{n}" for n in range(600)], layers=2, heads=3)
        tab = opened(record.picture("heads"), budget=400_000)
        note = tab.locator(".map-note").inner_text()
        kept = int(re.match(r"The (\d+) largest weights of each row, as they are", note)[1])
        assert tab.locator("[data-side=rows]").count() < 60  # only what is on the screen
        tab.locator(".heads-body").evaluate("body => { body.scrollTop = 22 * 500; }")
        tab.get_by_role("button").nth(1).dblclick()
        row = tab.locator("[data-side=rows]", has_text="w505")
        box = row.bounding_box()
        tab.mouse.move(box["x"] + 3, box["y"] + 8)
        top = record.at(layer=0, head=1)["encoder.layers.0.attention"].top(kept)
        lines = tab.locator(".map-panel div").all_inner_texts()
        expected = [f"w{key}" for key in top.keys[0, 0, 505].tolist()][:12]
        assert [line.split()[2] for line in lines] == expected
        rest = re.search(r"([\d.]+) % all others", tab.locator(".map-panel").inner_text())[1]
        assert float(rest) / 100 == pytest.approx(1 - float(top.weights[0, 0, 505, :12].sum()), abs=1e-4)


def test_the_file_has_as_many_weights_as_fit(record):
    feed = record.picture("heads").feed
    assert feed.packed(10**6).about["kept"] is None  # all of a short text
    long = watched([f"w{n}" for n in range(300)], layers=2, heads=2).picture("heads").feed
    sizes = {budget: long.packed(budget) for budget in (30_000, 100_000)}
    for budget, packed in sizes.items():
        assert sum(len(each.text) for each in packed.blocks.values()) <= budget
    assert 1 <= sizes[30_000].about["kept"] < sizes[100_000].about["kept"]
    with pytest.raises(regard.TooLargeError, match="Choose fewer layers"):
        long.packed(1000)


def test_nothing_is_computed_before_it_is_needed(record, monkeypatch):
    monkeypatch.setattr(_HeadsFeed, "tops", property(lambda _: pytest.fail("computed before it was saved")))
    picture = record.picture("heads")
    assert str(picture)
    assert picture.to_svg().startswith("<svg")
    assert "encoder, layer 0, heads 0 to 3. Tokens 0 to 5 of 6." in picture.caption
    with pytest.raises(regard.InputError, match="a widget shows a map"):
        picture.widget()


def test_the_plain_picture_names_heads_as_the_model_does(record):
    picture = record.at(head=slice(1, 3)).picture("heads", layer=2, word="dog")
    assert "encoder, layer 2, heads 1 to 2. Tokens 0 to 5 of 6. In a notebook and as .html: 2 heads" in picture.caption
    assert re.findall(r">(head \d)</text>", picture.to_svg()) == ["head 1", "head 2"]
    dense = record["encoder.layers.2.attention"].to_dense()[0].double().numpy()
    np.testing.assert_allclose(picture.numbers["weights"][1:3], dense[1:3], atol=1e-6)
    single = record.picture("heads", layer=2, head=3)
    assert re.findall(r">(head \d)</text>", single.to_svg()) == ["head 3"]


def test_in_a_notebook_it_is_a_frame_without_rights(record):
    shown = record.picture("heads")._repr_mimebundle_()
    assert shown["text/html"].startswith('<iframe sandbox="allow-scripts allow-downloads"')
    assert "alert(1)</script>" not in shown["text/html"]
    assert shown["image/svg+xml"].startswith("<svg")


def test_lines_of_all_words_leave_room(record):
    """Without a picked word, the lines of a word are together as thick as the thickest line of a picked word."""
    svg = record.picture("lines", layer=0, sinks=True).to_svg()
    widths = [float(width) for width in re.findall(r'stroke-width="([\d.]+)"', svg)]
    assert sum(widths) == pytest.approx(12 * len(WORDS), rel=0.02)
