"""Sums and dot products in numbers."""

from samples import texts

import regard
from regard import drawing, textbook


class TestArithmetic:
    def test_a_strip_and_a_share_for_each_term(self):
        done = regard.steps(*textbook.i_am_good())
        shown = texts(drawing.mixture(done.weights, done.values, done.words, pick="I"))
        assert [text for text in shown if text.endswith("%")] == ["90 %", "7 %", "3 %"]

    def test_a_score_term_by_term(self):
        done = regard.steps(*textbook.i_am_good())
        picture = drawing.dot(done.queries[0], done.keys[1], ("I", "am"))
        assert "= 89.6" in texts(picture)
        assert str(picture).endswith("= 89.6")
