"""Lines: one for each weight, thick in proportion to it."""

import re

import numpy as np
import pytest
from support.samples import DOG, SVG, marks, parsed, random_weights, texts

import regard
from regard import drawing, textbook
from regard.drawing.svg import LIGHT


class TestLines:
    def test_a_line_for_each_weight_thick_in_its_ratio(self):
        weights = random_weights(9, 9)
        drawn = marks(drawing.lines(weights, DOG))
        assert len(drawn) == 81
        widths = np.zeros((9, 9))
        for (_, row, column), line in drawn.items():
            widths[row, column] = float(line.get("stroke-width"))
        np.testing.assert_allclose(widths / widths.max(), weights / weights.max(), atol=1e-3)
        opacity = [
            float(line.get("stroke-opacity")) for _, line in sorted(drawn.items(), key=lambda i: weights[i[0][1:]])
        ]
        assert opacity == sorted(opacity)
        assert opacity[0] < opacity[-1]

    def test_no_line_for_nothing(self):
        assert set(marks(drawing.lines(np.eye(3)))) == {(0, 0, 0), (0, 1, 1), (0, 2, 2)}

    def test_what_is_picked_stands_out(self):
        drawn = marks(drawing.lines(random_weights(9, 9), DOG, pick="it"))
        faded = {row for (_, row, _), line in drawn.items() if float(line.get("opacity", 1)) < 0.2}
        assert faded == set(range(9)) - {6}

    def test_its_shares_are_written(self):
        done = regard.steps(*textbook.dog())
        drawn = texts(drawing.lines(done.weights, DOG, pick="it"))
        assert "55.2 %" in drawn
        assert drawn.index("55.2 %") == drawn.index("dog", drawn.index("hungry") + 1) + 1  # beside the dog on the right

    def test_heads_have_colours_and_a_legend(self):
        picture = drawing.lines(random_weights(5, 9, 9), DOG, heads=[3, 1])
        colours = {place[0]: set() for place in marks(picture)}
        for (head, _, _), line in marks(picture).items():
            colours[head].add(line.get("stroke"))
        assert colours == {0: {LIGHT.colours[0]}, 1: {LIGHT.colours[1]}}
        assert texts(picture)[-2:] == ["head 3", "head 1"]

    def test_lines_end_at_their_words(self):
        picture = drawing.lines(np.array([[0.0, 1.0], [0.0, 0.0]]), ["I", "am"])
        (line,) = marks(picture).values()
        start, end = re.findall(r"([\d.]+) ([\d.]+)", line.get("d"))[::3]
        heights = {e.text or e[0].tail: float(e.get("y")) for e in parsed(picture).iter(f"{SVG}text")}
        assert abs(float(start[1]) - heights["I"]) < 8
        assert abs(float(end[1]) - heights["am"]) < 8

    def test_arcs_are_of_the_picked_word_only(self):
        assert {row for _, row, _ in marks(drawing.lines(random_weights(9, 9), DOG, pick=[6, 1], layout="arcs"))} == {
            1,
            6,
        }

    def test_too_many_lines_are_said_to_be(self):
        picture = drawing.lines(random_weights(100, 100))
        assert len(marks(picture)) == 3000
        assert picture.caption == "The 3,000 greatest of 10,000 weights."

    def test_text(self):
        picture = drawing.lines(regard.steps(*textbook.dog()).weights, DOG, pick="it")
        assert str(picture) == "it ━━━━━━━━━━ dog 55.2 %   ━━ hungry 11 %   ━━ food 8.4 %   ━ it 6.5 %"

    @pytest.mark.parametrize("width", [30, 50, 80, 140])
    def test_text_stays_in_its_width(self, width):
        for line in drawing.lines(random_weights(9, 9), DOG).text(width).plain.split("\n"):
            assert len(line) <= width

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"pick": "cat"}, "'cat' is not one of the words"),
            ({"pick": 9}, "below 9"),
            ({"heads": [1]}, "below 1"),
            ({"layout": "spiral"}, "'columns', 'rows', 'arcs'"),
            ({"rows": DOG[:3]}, "9. Got 3"),
            ({"rows": "A dog"}, "Use .split()"),
            ({"layout": "arcs", "columns": list("abcdefghi")}, "Use 'columns'"),
        ],
    )
    def test_errors_say_what_to_do(self, arguments, message):
        with pytest.raises(regard.InputError, match=re.escape(message)):
            drawing.lines(np.eye(9), **({"rows": DOG} | arguments))

    def test_a_word_that_occurs_twice_must_be_a_place(self):
        with pytest.raises(regard.InputError, match="It stands at 0, 2"):
            drawing.lines(np.eye(3), ["it", "is", "it"], pick="it")
        assert drawing.lines(np.eye(3), ["it", "is", "it"], pick=-1)
