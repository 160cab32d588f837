"""The steps unfolded, what if, save and share, in a real browser; nothing runs over, and axe-core finds nothing serious."""

import re
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from playwright.sync_api import expect
from support.browser import in_browser
from support.browsing import DOG_HASH, opened, percent, plain, record, until

import regard

__all__ = ["opened"]  # a fixture
pytestmark = in_browser
STEPS = DOG_HASH + "&tab=steps&step=1.3.source.6"


def numbers(texts):
    return np.array([float(plain(text).replace("−", "-").removesuffix(" %")) for text in texts])


def test_every_number_of_a_step_is_pythons(opened):
    page = opened(STEPS)
    page.locator(".softmax-row").first.wait_for()
    entry = record()["encoder.layers.1.attention"]
    query, key = entry.call.query[0, 3, 6].double(), entry.call.key[0, 3].double()
    scores = numbers(page.locator(".score-row .number").all_inner_texts())
    assert np.allclose(scores, key @ query, rtol=6e-3, atol=6e-4)
    shares = [plain(text) for text in page.locator(".softmax-row .strong").all_inner_texts()]
    assert shares == [percent(weight) for weight in entry[0, 3, 6].tolist()]
    assert page.locator(".score-row [aria-pressed=true]").inner_text() == "dog"
    expect(page.locator(".product h3")).to_have_text(f"q(it) · k(dog) = {float(key[1] @ query):.1f}")
    page.locator(".product summary").click()
    terms = page.locator(".product details .terms li").all_inner_texts()
    found = numbers([re.search(r"= (\S+)", term)[1] for term in terms])
    assert len(found) == 64
    assert np.allclose(found, query * key[1], rtol=6e-3, atol=6e-4)
    page.get_by_role("button", name="hungry", exact=True).last.click()
    expect(page.locator(".product h3")).to_contain_text("k(hungry)")
    strip = page.get_by_role("slider", name="q(it): 64 numbers").first
    strip.focus()
    page.keyboard.press("ArrowRight")
    assert strip.get_attribute("aria-valuetext").replace("−", "-") == f"number 1: {_said(float(query[1]))}"


def _said(value):
    digits = 0 if abs(value) >= 99.95 else 1 if abs(value) >= 9.995 else 2 if abs(value) >= 0.9995 else 3
    return f"{value:.{digits}f}"


def test_the_slider_shows_what_the_root_of_d_does(opened):
    page = opened(STEPS)
    slider = page.get_by_label("Divide the scores by")
    figures = page.locator(".figures dd")
    figures.first.wait_for()
    before = figures.all_inner_texts()
    slider.fill("0")  # the logarithm of 1: no division
    expect(page.locator(".divisor")).to_have_text("÷ 1")
    entry = record()["encoder.layers.1.attention"]
    scores = entry.call.key[0, 3].double() @ entry.call.query[0, 3, 6].double()
    undivided = torch.softmax(scores, -1)
    shares = [plain(text) for text in page.locator(".softmax-row .strong").all_inner_texts()]
    assert shares == [percent(share) for share in undivided.tolist()]
    entropy = float(-(undivided * undivided.log2()).sum())
    assert [plain(text) for text in figures.all_inner_texts()[:2]] == [
        f"dog {percent(float(undivided.max()))}",
        f"{entropy:.2f} bits",
    ]
    expect(page).to_have_url(re.compile("divisor=1.000"))
    page.get_by_role("button", name="back to ÷ 8").click()
    assert figures.all_inner_texts() == before


def test_the_walk_goes_on_into_the_next_layer_and_to_other_words_and_heads(opened):
    page = opened(STEPS)
    where = page.locator("#steps .model [role=status]")
    expect(where).to_have_text("it is in encoder, layer 1, head 3.")
    page.get_by_role("button", name="Walk on into layer 2").click()
    expect(where).to_have_text("it is in encoder, layer 2, head 3.")
    expect(page.locator(".step").first).to_contain_text("What layer 1 made of it")
    model_head(page, "0.0").click()
    expect(page.locator(".step").first).to_contain_text("Its embedding, times 19.6")
    model_head(page, "9.3").click()
    expect(page.locator(".step").first).to_contain_text("own attention")
    page.locator("#steps .pick", has_text="chien").click()
    expect(page.locator(".step").first).to_contain_text("x(chien)")
    expect(where).to_have_text("chien is in cross-attention, layer 0, head 3.")
    weights = record()["decoder.layers.0.cross"][0, 3, 1].tolist()
    largest = page.locator(".figures dd").first
    expect(largest).to_have_text(re.compile(re.escape(f"{100 * max(weights):.1f}".removesuffix(".0")) + "\\s%"))
    page.evaluate(
        """() => {  // another word, and at once on to a feed-forward layer
            [...document.querySelectorAll("#steps .pick")].find(word => word.innerText === "mangé").click();
            document.querySelectorAll("#steps .feed")[9].click();
        }"""
    )
    expect(page.get_by_role("heading", name="Feed-forward")).to_be_focused()
    expect(where).to_have_text("mangé is in cross-attention, layer 1, head 3.")
    page.get_by_role("button", name="← back").click()
    expect(where).to_have_text("mangé is in cross-attention, layer 0, head 3.")
    page.go_back()
    expect(where).to_have_text(re.compile("encoder, layer 0, head 0"))


def model_head(page, name):
    """A head in the picture of the model."""
    return page.locator(f'#steps .model [data-head="{name}"]')


def test_formulas_have_their_biases_and_names_are_defined(opened):
    page = opened(STEPS)
    page.locator(".softmax-row").first.wait_for()
    formulas = page.locator(".step .vector-head")
    shown = [" ".join(text.split()) for text in formulas.all_inner_texts()]
    listed = dict(re.match(r"(\S+) (.*?) ?\d+ numbers", text).groups() for text in shown)
    assert listed["q(it)"] == "x · WQ + bQ"
    assert listed["joined"] == "the outputs of all heads, side by side"
    assert listed["projected"] == "joined · WO + bO"
    assert listed["residual"] == "x + projected"


def test_the_matrices_of_the_textbook_and_of_the_model(opened):
    page = opened("#text=I+am+good.&tab=matrices&step=5.2.source.0")
    page.get_by_role("button", name="the textbook: I am good").click()
    shares = page.get_by_role("slider", name="softmax: 9 numbers")
    cells = shares.locator(".cells span")
    expect(cells).to_have_count(9)
    done = regard.steps(*regard.textbook.i_am_good())
    assert [plain(text) for text in cells.all_inner_texts()] == [percent(share) for share in done.weights.flatten()]
    assert [plain(text) for text in cells.all_inner_texts()[:3]] == ["90 %", "7 %", "3 %"]
    assert page.locator(".sums").inner_text() == "z(I) = 90 % v(I) + 7 % v(am) + 3 % v(good)".replace(" %", "\u00a0%")
    page.get_by_role("slider", name="QKᵀ: 9 numbers").press("ArrowRight")
    expect(page.get_by_text("QKᵀ[I, am] = q(I) · k(am) = 89.6")).to_be_visible()
    page.get_by_role("button", name="good", exact=True).first.click()
    expect(page.locator(".sums")).to_have_text(re.compile(r"z\(good\) = 76.%"))
    shares.press("ArrowDown")
    expect(page.locator(".sums")).to_have_text(re.compile(r"z\(am\) = 95.%"))
    page.get_by_role("button", name="this text, in the model").click()
    entry = record("I am good.")["encoder.layers.5.attention"]
    cells = page.get_by_role("slider", name="softmax: 25 numbers").locator(".cells span")
    expect(cells).to_have_count(25)
    assert [plain(text) for text in cells.all_inner_texts()] == [
        percent(share) for share in entry[0, 2].flatten().tolist()
    ]
    z = page.get_by_role("slider", name="Z: 320 numbers")
    z.press("ArrowRight")
    assert plain(z.get_attribute("aria-valuetext")).startswith("Z[I, 1] = ")
    page.locator('#matrices .model [data-head="5.3"]').click()
    expect(page.get_by_role("slider", name="softmax: 25 numbers")).to_be_visible()
    until(page, lambda: plain(cells.first.inner_text()), percent(float(entry[0, 3, 0, 0])))


def test_why_a_head_looks_there_is_a_sum_that_python_gives(opened):
    page = opened(DOG_HASH)
    page.get_by_role("tab", name="Why").click()
    translator = regard.Translator.default()
    ids = translator.words.encode("A dog ate the food because it was hungry.")
    written = translator.words.encode("Un chien a mangé la nourriture parce qu'il avait faim.")
    inputs = torch.tensor([[*ids, translator.words.end]]), torch.tensor([[translator.model.config.start, *written]])
    with torch.no_grad(), regard.watch(translator.model) as record:
        translator.model(*inputs)
    terms = page.locator("#why section").nth(1).locator("li")
    expect(page.get_by_role("group", name="Look at").locator("[aria-pressed=true]")).to_have_text("dog")
    for minus in (None, 4):
        if minus is not None:
            page.get_by_role("group", name="And not at").get_by_role("button", name="food").click()
        why = record.why(6, 1, layer=5, head=0, kind="encoder", minus=minus)
        expect(page.locator("#why .strong").first).to_have_text(f"{_said(why.score)} = the sum of 1,444 terms")
        shown = terms.all_inner_texts()
        assert [text.split("\n")[0] for text in shown[:8]] == [term.name for term in why.query[:8]]
        assert shown[8].startswith("… and 30 others")
        amounts = numbers(text.split("\n")[-1] for text in shown)
        assert amounts[:8] == pytest.approx([term.amount for term in why.query[:8]], rel=1e-2, abs=1e-3)
        assert amounts.sum() == pytest.approx(why.score, abs=0.1), "the terms that are shown, and the rest"
    expect(page).to_have_url(re.compile("minus=4"))
    page.get_by_role("group", name="Look at").get_by_role("button", name="food").click()
    expect(page.locator("#why .strong").first).to_have_text("0 = the sum of 1,444 terms".replace("0", "0.000", 1))


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_what_made_a_word_is_what_effects_say(opened, theme, tmp_path):
    page = opened(DOG_HASH + "&word=target.9")
    page.emulate_media(color_scheme=theme)
    page.get_by_role("tab", name="Why").click()
    chosen = page.get_by_role("group", name="Word of the output").locator("[aria-pressed=true]")
    expect(chosen).to_have_text("il")
    page.get_by_role("button", name="What made this word").click()
    drawing = page.get_by_role("img", name="Why “il”, and not “elle”?")
    expect(drawing).to_contain_text("It leaves out that later heads may make up for the change", timeout=120_000)
    translator = regard.Translator.default()
    vocabulary, model = translator.words, translator.model
    source = torch.tensor([[*vocabulary.encode("A dog ate the food because it was hungry."), vocabulary.end]])
    *begun, il = vocabulary.encode("Un chien a mangé la nourriture parce qu'il")
    *_, elle = vocabulary.encode("parce qu'elle")  # no space before it: another token than that of "elle" alone
    found = regard.effects(
        model, [source, torch.tensor([[model.config.start, *begun]])], ("head", "link"), answer=(il, elle),
        kind="encoder", estimate=True, tokenizer=translator.tokenizer,
    )  # fmt: skip
    bars = re.findall("(.*), (estimate|true): (.*)", "\n".join(drawing.locator("rect title").all_text_contents()))
    for word in ("estimate", "true"):
        shown = {name: float(number) for name, what, number in bars if what == word}
        assert shown == pytest.approx({each.name: getattr(each, word) for each in found[:10]}, rel=1e-2, abs=1e-3)
    assert "it → dog: 100 %" in drawing.locator("path title").all_text_contents(), "the arc of the largest effect"
    ink = {"light": "rgb(27, 31, 36)", "dark": "rgb(233, 237, 242)"}[theme]
    expect(drawing.locator("text[data-pick]").first).to_have_css("fill", ink)
    page.get_by_role("button", name="Save").click()
    with page.expect_download() as download:
        page.get_by_role("menuitem", name="Picture as SVG").click()
    download.value.save_as(tmp_path / "x.svg")
    assert ">layer 5 head 0</text>" in (tmp_path / "x.svg").read_text()
    page.get_by_role("group", name="Word of the output").get_by_role("button", name="faim").click()
    expect(page.locator(".made svg")).to_have_count(0)


def test_what_if_a_word_is_hidden_or_a_head_is_off(opened):
    page = opened(DOG_HASH + "&tab=whatif")
    before, after = page.locator(".written").all()
    expect(before).to_have_text("Un chien a mangé la nourriture parce qu'il avait faim.")
    page.locator("#whatif .pick", has_text="hungry").click()
    expect(page.locator("#whatif [role=status]")).to_contain_text("changed without “hungry”")
    assert "faim" not in after.inner_text()
    assert after.locator("mark").count() > 0
    expect(page).to_have_url(re.compile("hide=8"))
    page.get_by_role("button", name="put everything back").click()
    expect(after).to_have_text(before.inner_text())
    for layer in range(3):
        page.get_by_label(re.compile(f"Layer {layer}, head 1")).nth(1).click()
    expect(page.locator("#whatif [role=status]")).to_contain_text("with 3 heads off")


def test_the_picture_and_the_map_are_saved(opened, tmp_path):
    page = opened(permissions=["clipboard-read", "clipboard-write"])
    page.locator(".word.chosen").wait_for()
    page.get_by_role("button", name="all 48").click()  # the taught head draws few lines
    page.get_by_role("button", name="Save").click()
    page.get_by_role("menuitem", name="Copy the address of this view").click()
    expect(page.get_by_text("The address of this view is copied.")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == page.evaluate("location.href")
    for item, name in (("Picture as SVG", "x.svg"), ("Picture as PNG", "x.png"), ("Map as one HTML file", "x.html")):
        page.get_by_role("button", name="Save").click()
        with page.expect_download() as download:
            page.get_by_role("menuitem", name=item).click()
        download.value.save_as(tmp_path / name)
    svg = ElementTree.parse(tmp_path / "x.svg").getroot()
    texts = ["".join(each.itertext()) for each in svg.iter("{http://www.w3.org/2000/svg}text")]
    assert {"dog", "it", "chien", "</s>"} <= set(texts)
    assert len(list(svg.iter("{http://www.w3.org/2000/svg}path"))) >= 10
    assert "var(" not in (tmp_path / "x.svg").read_text(), "colours are written out"
    from PIL import Image

    with Image.open(tmp_path / "x.png") as picture:
        assert picture.width > 1000
        assert len(picture.getcolors(1 << 20)) > 100
    assert "Attention map" in (tmp_path / "x.html").read_text()
    page.goto((tmp_path / "x.html").as_uri())
    expect(page.locator(".map-plot")).to_be_visible()


def test_the_map_has_its_tab_and_its_view_is_in_the_address(opened):
    page = opened(DOG_HASH + "&tab=map&kind=encoder&heads=encoder-3.1")
    plot = page.get_by_role("application")
    plot.focus()
    for key in ["ArrowDown"] * 6 + ["Enter"]:
        page.keyboard.press(key)
    expect(page).to_have_url(re.compile("&x=.*&cell="))
    page.get_by_role("radio", name="Cross").click()
    expect(page.get_by_role("application")).to_have_attribute("aria-label", re.compile("14 rows that look"))
    expect(page).to_have_url(re.compile("kind=cross"))
    expect(opened(page.evaluate("location.hash")).get_by_role("radio", name="Cross")).to_be_checked()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_nothing_runs_over_and_axe_finds_nothing_serious(opened, theme):
    from axe_playwright_python.sync_playwright import Axe

    for width, height in ((1280, 860), (360, 740), (2560, 1440)):
        page = opened(viewport={"width": width, "height": height}, color_scheme=theme)
        for tab in ("Look", "Steps", "Matrices", "Why", "What if", "Map"):
            page.get_by_role("tab", name=tab).click()
            page.get_by_role("tabpanel", name=tab).locator(".card, .map-plot").last.wait_for()
            assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, f"{tab} at {width}"
            if width == 1280 or (width, theme) == (360, "light"):
                found = Axe().run(page).response["violations"]
                assert [(each["id"], each["nodes"][0]["target"]) for each in found] == [], f"{tab} at {width}, {theme}"


def test_the_theme_can_be_chosen_and_is_kept(opened):
    page = opened(color_scheme="light")
    colour = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(colour)
    page.get_by_role("button", name="Dark theme").click()
    dark = page.evaluate(colour)
    assert dark != light
    page.reload()
    expect(page.get_by_role("button", name="Dark theme")).to_have_attribute("aria-pressed", "true")
    assert page.evaluate(colour) == dark
