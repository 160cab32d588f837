"""The page of the shipped translator, served by a thread of this process, and a browser that opens it."""

import atexit
import threading
from functools import cache, partial

import pytest
from playwright.sync_api import expect

from regard.drawing.terminal import percent

__all__ = [
    "DOG_HASH",
    "address",
    "bars",
    "expected",
    "head",
    "opened",
    "percent",
    "plain",
    "record",
    "shows",
    "small_model",
    "until",
    "word",
]

DOG = "A dog ate the food because it was hungry."
DOG_HASH = "#text=A+dog+ate+the+food+because+it+was+hungry."
expect.set_options(timeout=30_000)  # a busy machine


@cache
def address(of="translator"):
    """Where a page is: one server of each kind for all tests of a process."""
    import uvicorn

    from regard.page import Page, listen, url

    page, listening = Page(_READERS[of]()), listen("127.0.0.1", 0)
    server = uvicorn.Server(uvicorn.Config(page.app(), log_level="error", lifespan="off"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()

    def end():
        server.should_exit = True
        thread.join(5)
        page.close()

    atexit.register(end)
    return url(listening)


def _translator():
    import regard
    from regard.page import TranslatorReader

    return TranslatorReader(regard.Translator.default(), "English to French")


def _record():
    from regard.page import RecordReader

    return RecordReader(record(), "a record")


@cache
def small_model(family):
    """A random model of Hugging Face, and a tokenizer whose tokens are the words of the sentence."""
    import torch
    import transformers as hf
    from tokenizers import Tokenizer, models, pre_tokenizers

    from support.models import FAMILIES

    torch.manual_seed(3)
    words = ["<unk>", *DOG.split(), *(f"w{n}" for n in range(89))]
    made = Tokenizer(models.WordLevel({word: n for n, word in enumerate(words)}, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return FAMILIES[family].make().eval(), hf.PreTrainedTokenizerFast(tokenizer_object=made, unk_token="<unk>")


def _hugging_face(family):
    from regard.page import HuggingFaceReader

    return HuggingFaceReader(*small_model(family), family)


_READERS = {
    "translator": _translator,
    "record": _record,
    "BERT": partial(_hugging_face, "BERT"),
    "GPT-2": partial(_hugging_face, "GPT-2"),
}


@cache
def record(sentence=DOG):
    """What Python says of the same sentence."""
    import regard

    return regard.Translator.default().translate(sentence).watch()


@pytest.fixture
def opened(browser):
    """Opens the page with what its address holds; at the end nothing was said to the console, or asked of others."""
    asked, said, contexts = [], [], []

    def look(hash="", *, of="translator", quiet=True, **options):
        options = {"viewport": {"width": 1280, "height": 860}} | options
        context = browser.new_context(**options)
        contexts.append(context)
        page = context.new_page()
        page.on("request", lambda request: asked.append(request.url))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("dialog", lambda dialog: (said.append(dialog.message), dialog.dismiss()))
        if quiet:
            page.on("console", lambda message: said.append(message.text))
        page.goto(address(of) + hash)
        page.locator(".word[data-place]").first.wait_for(state="attached")
        return page

    yield look
    for context in contexts:
        context.close()
    assert [url for url in asked if not url.startswith(("http://127.0.0.1:", "data:", "blob:", "file:"))] == []
    assert said == []


def word(page, place):
    """A word by its side and token: "source.6"."""
    return page.locator(f'.word[data-place="{place}"]')


def head(page, name):
    """A head on the grid by its entry and number: "3.1"."""
    return page.locator(f'.thumb[data-head="{name}"]')


def bars(page):
    """What the panel says: {word: share}."""
    rows = page.locator(".bars li").evaluate_all(
        "rows => rows.map(row => ['.bar-word', '.bar-share'].map(name => row.querySelector(name).innerText))"
    )
    return {word: plain(share) for word, share in rows}


def until(page, value, expected):
    """Wait until the page shows a value: answers come from the server."""
    for _ in range(100):
        if value() == expected:
            return
        page.wait_for_timeout(100)
    assert value() == expected


def shows(page, answer):
    """Wait until the panel says this."""
    until(page, lambda: bars(page), answer)


def plain(text):
    """With a plain space before %."""
    return text.replace("\u00a0", " ")


def expected(looks, most=6):
    """The same of an answer of Python; the page rounds to seven digits, and equal shares are in the order of the text."""
    ranked = sorted(looks, key=lambda look: (-round(look.weight, 7), look.position))
    return {look.word: percent(look.weight) for look in ranked[:most]}
