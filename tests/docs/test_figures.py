"""docs/figures: a figure for each that the documents show or announce, and the committed ones are what the calls give."""

import runpy
from pathlib import Path
from xml.etree import ElementTree

import pytest

FOLDER = Path(__file__).parents[2] / "docs" / "figures"
MADE = runpy.run_path(str(FOLDER / "make.py"))
FIGURES = MADE["FIGURES"]
# How many images each document embeds; 001 announces some that it does not show (a letter behind the number).
EMBEDDED = {"000": 13, "001": 17}


@pytest.mark.parametrize("document", EMBEDDED)
def test_each_image_of_a_document_has_its_figure(document):
    numbers = [name.split("-")[1] for name in FIGURES if name.startswith(document)]
    plain = [int(number) for number in numbers if number.isdigit()]
    assert plain[: EMBEDDED[document]] == list(range(1, EMBEDDED[document] + 1))


def test_so_have_those_that_are_only_announced():
    announced = ("translation", "encoder-stack", "scores-of-good", "softmax")
    assert all(any(name.startswith("001") and name.endswith(what) for name in FIGURES) for what in announced)


def test_so_have_the_steps_of_002():
    assert [name[7:] for name in FIGURES if name.startswith("002")] == [
        "projections", "scores", "scaled", "softmax", "output", "all-steps",
    ]  # fmt: skip


def test_what_is_committed_is_the_table():
    assert {path.stem for path in FOLDER.glob("*.svg")} == set(FIGURES)
    assert (FOLDER / "README.md").read_text() == MADE["page"](list(FIGURES))


def test_the_page_says_what_each_shows_and_how_it_is_drawn():
    calls, page = MADE["calls"](), (FOLDER / "README.md").read_text()
    assert list(calls) == list(MADE["CAPTIONS"]) == list(FIGURES)
    assert all(f"]({name}.svg)\n\n```python\n{calls[name]}\n```" in page for name in FIGURES)
    assert eval(calls["001-13-output-of-i"], MADE).to_svg() == FIGURES["001-13-output-of-i"]().to_svg()


@pytest.mark.parametrize("name", FIGURES)
def test_made_again_it_is_what_is_committed(name):
    committed, made = (FOLDER / f"{name}.svg").read_text(), FIGURES[name]().to_svg()
    # The last digits of a sum may differ from one processor to another; what is drawn may not.
    assert _skeleton(made) == _skeleton(committed)


def _skeleton(svg):
    tree = ElementTree.fromstring(svg)
    return [(e.tag, e.get("x"), e.get("y"), (e.text or "").strip(), (e.tail or "").strip()) for e in tree.iter()]
