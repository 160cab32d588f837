"""Translate and look, in a real browser: the numbers are Python's; by pointer, keyboard and touch."""

import json
import re

import pytest
import torch
from playwright.sync_api import expect
from support.browser import in_browser
from support.browsing import (
    DOG,
    DOG_HASH,
    bars,
    expected,
    head,
    opened,
    percent,
    plain,
    record,
    shows,
    small_model,
    until,
    word,
)

import regard

__all__ = ["opened"]  # a fixture
pytestmark = in_browser


def test_the_first_view_ties_it_to_dog_by_the_thickest_line_of_the_taught_head(opened):
    page = opened()
    expect(page.locator(".word.chosen .text")).to_have_text("it")
    looks = record().looks("it", kind="encoder", layer=5, head=0)
    assert looks[0].word == "dog"
    shows(page, expected(looks))
    assert page.locator(".word.best").inner_text().split() == ["dog", f"{100 * looks[0].weight:.0f}", "%"]
    lines = page.locator("path.line[data-kind=encoder]").evaluate_all(
        "all => all.map(line => [Number(line.getAttribute('stroke-width')), line.getPointAtLength(1e9).x])"
    )
    x = word(page, "source.1").evaluate(
        "e => e.getBoundingClientRect().x + e.offsetWidth / 2 - e.closest('.stage').getBoundingClientRect().x"
    )
    assert abs(max(lines)[1] - x) < 2, "the thickest line ends at dog"
    expect(page.locator(".answer")).to_contain_text('encoder, layer 5, head 0, taught what "it" stands for')
    page.get_by_role("button", name="A dog ate the food because it was delicious.").click()
    expect(page.locator(".word.best .text")).to_have_text("food")
    page.get_by_role("button", name="Which heads look from it to food?").click()
    delicious = record("A dog ate the food because it was delicious.")
    heads = delicious.heads("it", "food", kind="encoder")[:4]
    expect(page.locator(".ranking .pill")).to_have_count(5)
    ranked = [plain(text) for text in page.locator(".ranking .pill").all_inner_texts()]
    assert ranked == [*(f"layer {h.layer}, head {h.head} {percent(h.weight)}" for h in heads), "mean of all"]


def test_a_written_word_shows_where_it_looked_and_sinks_are_set_aside_and_said(opened):
    page = opened(DOG_HASH)
    word(page, "target.11").hover()
    looks = record().looks("faim", kind="cross")
    shows(page, expected(looks))
    said = plain(page.locator(".aside-note").inner_text())
    assert f"Set aside: {percent(looks.aside[0].weight)} on </s>. The shares are of the rest." in said
    assert page.locator(".word.aside").inner_text().split() == ["</s>", f"{100 * looks.aside[0].weight:.0f}", "%"]
    word(page, "target.11").click()
    page.get_by_label("Set sinks aside").uncheck()
    shows(page, expected(record().looks("faim", kind="cross", sinks=True)))
    page.get_by_role("radio", name="Decoder").click()
    page.get_by_label("Set sinks aside").check()
    shows(page, expected(record().looks("faim", kind="decoder")))


def test_any_mix_of_heads(opened):
    page = opened(DOG_HASH + "&word=source.6&kind=encoder")
    shows(page, expected(record().looks("it", kind="encoder")))
    page.get_by_role("button", name="All heads of layer 4").click()
    shows(page, expected(record().looks("it", kind="encoder", layer=4)))
    head(page, "3.1").click()
    page.get_by_role("button", name="All heads of layer 4").click()
    shows(page, expected(record().looks("it", kind="encoder", layer=3, head=1)))
    head(page, "1.3").click()
    weights = (record()["encoder.layers.3.attention"][0, 1, 6] + record()["encoder.layers.1.attention"][0, 3, 6]) / 2
    shares = weights[:-1] / weights[:-1].sum()
    best = percent(float(shares.max()))
    until(page, lambda: max(bars(page).values(), key=lambda text: float(text[:-2])), best)
    page.get_by_role("button", name="none", exact=True).click()
    expect(page.locator(".answer")).to_contain_text("No head is chosen")
    page.get_by_role("button", name="all 48").click()
    shows(page, expected(record().looks("it", kind="encoder")))
    head(page, "4.1").hover()  # a look at one head, without choosing it
    shows(page, expected(record().looks("it", kind="encoder", layer=4, head=1)))
    page.locator("h1").hover()
    shows(page, expected(record().looks("it", kind="encoder")))


def test_a_text_is_read_while_it_is_typed(opened):
    page = opened()
    page.get_by_label("English", exact=True).fill("I am tired.")
    expect(page.locator(".target .word .text").last).to_have_text("</s>")
    expect(page.locator(".target .sentence")).to_contain_text("fatigué")
    page.get_by_label("English", exact=True).fill("It is late. ")
    page.keyboard.press("Enter")
    expect(page.locator(".target .sentence")).to_contain_text("tard")
    expect(page).to_have_url(re.compile(r"text=It\+is\+late"))
    expect(page.locator(".target h2")).to_contain_text("confidence")
    assert page.locator(".target .sentence").get_attribute("lang") == "fr"


def test_all_sentences_of_a_long_text_are_in_view_and_each_can_be_looked_into(opened):
    page = opened("#text=I+am+hungry.%0A%0AIt+is+late.&part=1", permissions=["clipboard-read", "clipboard-write"])
    listed = page.locator("#sentences button")
    texts = ["I am hungry.\nJ'ai faim.", "It is late.\nIl est tard.", "The whole text, on one map"]
    until(page, listed.all_inner_texts, texts)
    expect(listed.nth(1)).to_have_attribute("aria-current", "true")
    expect(page.locator(".source .sentence")).to_contain_text("late")
    listed.first.click()
    expect(page.locator(".source .sentence")).to_contain_text("hungry")
    page.get_by_role("tab", name="Steps").click()
    expect(page.locator(".pick").nth(2)).to_have_text("hungry")
    page.get_by_role("button", name="Copy the translation").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == "J'ai faim.\nIl est tard."
    page.get_by_role("tab", name="Map").click()
    page.get_by_role("radio", name="Encoder").click()
    expect(page.get_by_role("application")).to_have_attribute("aria-label", re.compile("5 rows that look"))
    listed.last.click()
    expect(page.get_by_role("application")).to_have_attribute("aria-label", re.compile("10 rows that look"))


@pytest.mark.parametrize(
    ("text", "word", "head", "best"),
    [
        ("She said that her brother would come tomorrow.", "would", (5, 3), "said"),
        ("My sister bought a red car, but she sold it.", "it", (5, 0), "car"),
    ],
)
def test_any_sentence_opens_on_its_most_telling_pair_and_says_why(opened, text, word, head, best):
    page = opened("#text=" + text.replace(" ", "+"))
    layer, number = head
    expect(page.locator(".word.chosen .text")).to_have_text(word)
    looks = record(text).looks(word, kind="encoder", layer=layer, head=number)
    assert looks[0].word == best
    shows(page, expected(looks))
    expect(page.locator(".answer")).to_contain_text(
        re.compile("Opened on (this head because it was taught|the two words)")
    )
    if word != "it":
        assert percent(looks[0].weight) in plain(page.locator(".answer").inner_text().split("most in any head:")[1])
    page.get_by_label("English", exact=True).fill("The keys to the cabinet are on the table.")
    expect(page.locator(".word.chosen .text")).to_have_text("on")  # until the visitor chooses heads
    head_button = page.locator(".thumb").nth(9)
    head_button.click()
    page.get_by_label("English", exact=True).fill("The dog was old.")
    expect(page.locator(".source .sentence")).to_contain_text("old")
    expect(page.locator(".word.chosen")).to_have_count(0)


def test_the_guide_is_ticked_and_can_be_closed_for_good(opened):
    page = opened()
    steps = page.locator("#guide li")
    word(page, "source.1").hover()
    expect(steps.nth(0)).to_have_class("done")
    page.get_by_label("English", exact=True).fill("A dog ate the food because it was old.")
    expect(steps.nth(2)).to_have_class("done")
    page.get_by_role("button", name="Unfold the steps").click()
    page.get_by_role("tab", name="Look").click()
    expect(steps.nth(1)).to_have_class("done")
    page.get_by_role("button", name="Close the guide").click()
    page.reload()
    page.locator(".word[data-place]").first.wait_for()
    expect(page.locator("#guide")).to_be_hidden()


def test_labels_say_what_they_mean_where_they_stand(opened):
    page = opened(DOG_HASH)
    page.get_by_text("What do the names of heads mean?").click()
    from regard.watching.questions.atlas import ROLES

    meant = page.locator(".heads dl")
    for role in ("mixed", "next token", "one at a time"):
        expect(meant).to_contain_text(f"{role}{ROLES[role]}")
    expect(meant).to_contain_text(f"</s> (a sink){ROLES['(a sink)']}")
    head(page, "0.0").hover()
    expect(page.locator(".head-said")).to_contain_text(ROLES["next token"])
    for label, meaning in (("What is a sink?", "rests on a token without meaning"), ("confidence", "chrF2")):
        page.locator("summary", has_text=label).click()
        expect(page.locator(".meaning[open]", has_text=meaning)).to_be_visible()
    page.get_by_role("tab", name="Steps").click()
    for label, meaning in (("How to read a strip", "blue is positive"), ("What is the tick", "the share in the model")):
        page.locator("summary", has_text=label).click()
        expect(page.locator(".meaning[open]", has_text=meaning)).to_be_visible()


def test_the_lines_of_a_paragraph_pass_over_words_and_not_through_the_two_that_they_join(opened):
    text = "The dog was old. It slept all day in the sun. The children were at school, and nobody was at home. "
    page = opened("#text=" + (text + "At four they came back and played with the dog in the garden.").replace(" ", "+"))
    expect(page.locator(".stage")).to_have_attribute("data-layout", "paragraphs")
    page.locator("path.line[data-kind=encoder]").first.wait_for(state="attached")
    ends = page.locator("path.line[data-kind=encoder]").evaluate_all(
        """lines => {
            const top = lines[0].closest(".stage").getBoundingClientRect().y;
            const box = document.querySelector(".word.chosen").getBoundingClientRect();
            const edges = [box.top - top, box.bottom - top];
            return lines.map(line => Math.min(...edges.map(edge => Math.abs(line.getPointAtLength(0).y - edge))));
        }"""
    )
    assert len(ends) > 3
    assert max(ends) < 1.5


def test_print_is_light_and_without_controls(opened):
    page = opened(color_scheme="dark")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")
    assert (
        page.evaluate("getComputedStyle(document.querySelector('.card.answer')).backgroundColor")
        == "rgb(255, 255, 255)"
    )
    for control in (".tabs", "#save", "#guide", "#examples", "#read"):
        expect(page.locator(control)).to_be_hidden()
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.evaluate("document.documentElement.dataset.theme ?? ''") == ""


def test_the_heads_that_are_listed_are_those_whose_lines_are_shown(opened):
    page = opened(DOG_HASH)
    expect(page.get_by_role("radio", name="Encoder")).to_be_checked()
    word(page, "target.1").hover()
    expect(page.get_by_role("radio", name="Cross")).to_be_checked()
    expect(page.locator(".thumb")).to_have_count(18)
    page.locator("h1").hover()
    expect(page.get_by_role("radio", name="Encoder")).to_be_checked()
    expect(page.locator(".thumb")).to_have_count(48)


def test_everything_by_keyboard(opened):
    page = opened(DOG_HASH + "&kind=encoder")
    word(page, "source.0").focus()
    for _ in range(6):
        page.keyboard.press("ArrowRight")
    shows(page, expected(record().looks("it", kind="encoder")))
    page.keyboard.press("Enter")
    expect(word(page, "source.6")).to_have_attribute("aria-pressed", "true")
    page.keyboard.press("End")
    assert page.evaluate("document.activeElement.dataset.place") == "source.10"
    page.keyboard.press("Tab")  # from one sentence to the next, past the meaning of its confidence
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.dataset.place.split('.')[0]") == "target"
    page.get_by_role("radio", name="Encoder").focus()
    expect(page.locator(".thumb")).to_have_count(48)
    page.locator(".thumb").first.focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowDown", "ArrowRight", "Enter"):
        page.keyboard.press(key)
    expect(head(page, "3.1")).to_have_attribute("aria-pressed", "true")
    assert page.locator('.thumb[aria-pressed="true"]').count() == 1
    page.keyboard.press("Escape")
    expect(word(page, "source.6")).to_have_attribute("aria-pressed", "false")
    page.get_by_role("tab", name="Look").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    expect(page.get_by_role("tabpanel", name="Steps")).to_be_visible()


def test_by_touch_on_a_phone(opened):
    page = opened(DOG_HASH, viewport={"width": 360, "height": 740}, has_touch=True, is_mobile=True)
    word(page, "target.1").tap()
    shows(page, expected(record().looks("chien", kind="cross")))
    page.get_by_role("button", name="all 18").tap()
    head(page, "11.1").tap()
    shows(page, expected(record().looks("chien", kind="cross", layer=1, head=1)))
    word(page, "target.1").tap()  # and lets it go
    expect(page.locator(".word.chosen")).to_have_count(0)


def test_the_address_holds_the_view(opened):
    page = opened()
    page.get_by_role("radio", name="Cross").click()
    head(page, "9.1").click()
    word(page, "target.3").click()
    page.get_by_label("Set sinks aside").check()
    expect(page).to_have_url(re.compile("sinks=aside"))
    hash, said = page.evaluate("location.hash"), page.locator(".answer").inner_text()
    assert "mangé" in said
    again = opened(hash)
    expect(again.locator(".answer")).to_have_text(page.locator(".answer").text_content())
    assert again.locator(".answer").inner_text() == said
    page.get_by_role("tab", name="Steps").click()
    page.go_back()
    expect(page.get_by_role("tabpanel", name="Look")).to_be_visible()
    nonsense = opened(
        "#text=I+am+hungry.&word=target.999&heads=cross-99.99_x&step=9&tab=else&divisor=-1&hide=x&map=%7B&x=nan"
    )
    expect(nonsense.locator(".answer")).to_contain_text("Point at a word")


def test_hostile_words_are_words(opened):
    hostile = "<img src=x onerror=alert(1)>\u202e\x07</script><b>שלום"

    def replaced(route):
        answer = route.fetch()
        lines = [json.loads(line) for line in answer.text().splitlines()]
        side = lines[-1]["reading"]["sides"]["source"]
        side["words"][1][0], side["tokens"][1] = hostile, hostile
        route.fulfill(response=answer, body="\n".join(map(json.dumps, lines)))

    page = opened()
    page.route("**/api/read", replaced)
    page.get_by_label("English", exact=True).fill("A cat ate the food because it was hungry.")
    expect(word(page, "source.1")).to_contain_text("<img src=x onerror=alert(1)>\\u202e␇</script><b>שלום")
    word(page, "source.6").click()
    for tab in ("Steps", "What if", "Look"):
        page.get_by_role("tab", name=tab).click()
        page.wait_for_timeout(300)
    assert page.locator("main img, main script").count() == 0


def test_what_went_wrong_is_said_and_can_be_tried_again(opened):
    page = opened(quiet=False)  # a browser notes failed requests itself
    field, trouble = page.get_by_label("English", exact=True), page.get_by_role("alert")
    page.route("**/api/read", lambda route: route.abort())
    field.fill("I am here.")
    expect(trouble).to_contain_text("The server does not answer")
    nothing_of_the_dog(page)
    page.unroute("**/api/read")
    busy = {"status": 503, "json": {"error": "many texts are being read: try again in 5 seconds."}}
    page.route("**/api/read", lambda route: route.fulfill(**busy))
    page.get_by_role("button", name="Try again").click()
    expect(trouble).to_contain_text("Many texts are being read")
    page.unroute("**/api/read")
    page.get_by_role("button", name="Try again").click()
    expect(page.locator(".source .sentence")).to_contain_text("here")
    expect(trouble).to_be_hidden()
    gone = {"status": 404, "json": {"error": "this reading is not kept any more: read the text again."}}
    page.route("**/api/steps*", lambda route: route.fulfill(**gone), times=1)
    page.get_by_role("tab", name="Steps").click()  # it is read again, and nobody notices
    expect(page.locator(".step").first).to_be_visible()
    expect(trouble).to_be_hidden()
    field.fill("word " * 5000)
    expect(trouble).to_contain_text("a text has at most 20,000 characters", ignore_case=True)


def nothing_of_the_dog(page):
    """After an error, nothing of the sentence before stays: no view, no status, no title, no copy."""
    for tab in ("Look", "Steps", "Matrices", "Why", "What if", "Map"):
        page.get_by_role("tab", name=tab).click()
        assert "hungry" not in page.locator("main").inner_text().replace(" ".join(DOG.split()), "")
        assert page.locator("[role=tabpanel]:visible").count() == 0
    page.get_by_role("tab", name="Look").click()
    expect(page.get_by_role("button", name="Copy the translation")).to_be_hidden()
    assert "dog" not in page.title()


def test_a_record_opens_as_a_map_and_its_words_can_be_looked_at(opened):
    page = opened(of="record")
    expect(page.get_by_role("tabpanel", name="Map")).to_be_visible()
    expect(page.get_by_role("application")).to_be_visible()
    assert page.locator("#ask").is_hidden()
    page.get_by_role("tab", name="Look").click()
    word(page, "target.11").click()
    shows(page, expected(record().looks("faim", kind="cross")))


def test_a_model_that_reads_one_text(opened):
    page = opened(DOG_HASH + "&kind=encoder", of="BERT")
    model, tokenizer = small_model("BERT")
    with torch.no_grad(), regard.watch(model, tokenizer=tokenizer) as read:
        model(**tokenizer(DOG, return_tensors="pt"))
    word(page, "source.6").click()
    shows(page, expected(read.looks("it")))
    head(page, "1.2").click()
    shows(page, expected(read.looks("it", layer=1, head=2)))
    page.get_by_role("button", name="Unfold the steps").click()
    expect(page.locator("#steps .step").last).to_contain_text("stays inside")
    page.get_by_role("tab", name="Matrices").click()
    expect(page.get_by_role("slider", name="softmax: 81 numbers")).to_be_visible()
    assert page.get_by_role("slider", name="W_Q").count() == 0


def test_a_model_that_writes_on(opened):
    page = opened("#text=A+dog+ate&kind=decoder", of="GPT-2")
    expect(page.locator(".word.written-on").first).to_be_visible()
    assert page.locator(".word:not(.written-on)").count() == 3
    page.get_by_label("new tokens").fill("2")
    page.get_by_role("button", name="Write on").click()
    expect(page.locator(".word.written-on")).to_have_count(2)
    model, tokenizer = small_model("GPT-2")
    ids = tokenizer("A dog ate", return_tensors="pt")["input_ids"]
    written = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=2, do_sample=False)
    with torch.no_grad(), regard.watch(model, tokenizer=tokenizer) as record:
        model(written)
    word(page, "source.4").click()
    shows(page, expected(record.looks(4), 5))
