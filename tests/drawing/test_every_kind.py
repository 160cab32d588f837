"""What holds for every kind of picture: words are drawn as text whatever they are; NaN, one token and none; themes."""

import xml.etree.ElementTree as ET

import numpy as np
import pytest
from support.samples import HOSTILE, KINDS, SVG, parsed, texts, titles

import regard
from regard import drawing
from regard.drawing.svg import DARK, measure, shorten


class TestWords:
    @pytest.mark.parametrize("kind", KINDS)
    def test_hostile_ones_are_drawn_as_text(self, kind):
        picture = KINDS[kind](HOSTILE, np.full((6, 6), 1 / 6))
        drawn = picture.to_svg()
        tree = ET.fromstring(drawn)  # well-formed whatever the words
        allowed = {"svg", "g", "rect", "circle", "path", "text", "tspan", "title", "image", "defs", "use"}
        assert {element.tag.removeprefix(SVG) for element in tree.iter()} <= allowed
        assert not any(name.startswith("on") for element in tree.iter() for name in element.attrib)
        page = picture.to_html()
        assert page.count("<script") == 1
        assert "<img" not in page
        assert "\x1b" not in str(picture)

    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize(
        "words",
        [
            ["x" * 3000, "日本語" * 1000],
            ["שלום", "مرحبا"],
            ["", " "],
            ["👩\u200d🔬", "e\u0301"],
            ["\ud800", "a\u2028b"],
        ],
        ids=["long", "right to left", "empty", "joined", "broken"],
    )
    def test_strange_ones_have_their_place(self, kind, words):
        picture = KINDS[kind](words, np.array([[0.25, 0.75], [0.5, 0.5]]))
        tree = parsed(picture)
        wide = float(tree.get("viewBox").split()[2])
        assert 100 < wide < 2500
        assert picture.to_html()
        for line in str(picture).split("\n"):
            assert len(line) < 400

    def test_the_whole_of_a_long_one_is_in_its_title(self):
        word = "x" * 3000
        picture = drawing.lines(np.eye(2), [word, "b"])
        assert titles(picture).count(word) == 2
        assert max(len(text) for text in texts(picture)) < 40

    def test_the_direction_of_a_word_stays_inside_of_it(self):
        assert "\u2068שלום\u2069 → b: 100 %" in titles(drawing.lines(np.array([[0.0, 1.0], [0.0, 1.0]]), ["שלום", "b"]))

    @pytest.mark.parametrize(
        "word", ["a" * 50, "日本語" * 9, "WWWWWWWWWWWWWWW", "iiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiii"]
    )
    def test_shortened_to_the_room(self, word):
        assert measure(shorten(word, 100)) <= 100
        assert shorten(word, 100).endswith("…")


class TestEdges:
    @pytest.mark.parametrize("kind", KINDS)
    def test_nan_is_a_picture(self, kind):
        weights = np.array([[np.nan, np.nan], [0.5, 0.5]])
        picture = KINDS[kind](["a", "b"], weights)
        assert "nan" in picture.to_svg() or kind in (
            "rows",
            "heat map",
            "grid",
            "map",
            "overlay",
            "dot",
            "schematic",
            "set layer",
            "architecture",
            "steps",
        )
        assert "nan" not in "".join(e.get("d", "") + e.get("stroke-width", "") for e in parsed(picture).iter())
        assert picture.to_html()
        assert str(picture)

    @pytest.mark.parametrize("kind", KINDS)
    def test_one_token(self, kind):
        picture = KINDS[kind](["alone"], np.ones((1, 1)))
        assert picture.to_svg()
        assert str(picture)

    @pytest.mark.parametrize(
        "call",
        [
            lambda: drawing.lines(np.zeros((0, 0))),
            lambda: drawing.matrix(np.zeros((0, 3))),
            lambda: drawing.grid(np.zeros((0, 0, 0, 0))),
            lambda: drawing.grid(np.zeros((1, 1, 0, 0))),
            lambda: drawing.flow([np.zeros((0, 0))]),
            lambda: drawing.landscape(np.zeros((0, 0)), (0, 0)),
            lambda: drawing.alignment(np.zeros((0, 2)), ["a", "b"], []),
            lambda: drawing.set_layer([]),
            lambda: drawing.head_map([], []),
            lambda: drawing.head_map([[]], [[]]),
        ],
    )
    def test_no_token_is_a_clear_error(self, call):
        with pytest.raises(regard.ShapeError, match="at least 1"):
            call()

    def test_numbers_must_be_numbers(self, unchecked):
        with pytest.raises(regard.DTypeError, match="must hold numbers"):
            drawing.lines(np.array([["a"]]))


@pytest.mark.parametrize("kind", KINDS)
def test_both_themes_draw_the_same_things(kind):
    picture = KINDS[kind](["a", "b"], np.array([[0.25, 0.75], [0.5, 0.5]]))
    light, dark = picture.to_svg(theme="light"), picture.to_svg(theme="dark")
    assert light.count("<") == dark.count("<")
    assert DARK.background in dark
    assert DARK.background not in light
