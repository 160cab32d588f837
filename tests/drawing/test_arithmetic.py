"""Sums and dot products in numbers."""

import numpy as np
from support.samples import texts

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


def test_one_word_of_a_sum_is_never_left_over():
    """Of eleven words ten were drawn, and "1 others"."""
    for count, named, rest in ((11, 11, 0), (12, 10, 1)):
        words = [f"w{n}" for n in range(count)]
        shown = texts(drawing.mixture(np.full((count, count), 1 / count), np.eye(count), words, pick="w0"))
        assert sum(text == f"{100 / count:.1f} %" for text in shown) == named
        assert sum("others" in text for text in shown) == rest


def test_words_that_are_alike_are_told_apart_in_sums():
    words = ["dog", "bites", "dog"]
    weights = np.array([[0.5, 0.25, 0.25]] * 3)
    picture = drawing.mixture(weights, np.eye(3), words, pick="bites")
    assert str(picture) == 'z("bites") = 50 % v("dog @0") + 25 % v("bites") + 25 % v("dog @2")'
    assert "dog @2" in picture.to_svg()
    x = np.eye(3)
    done = regard.steps(x, x, x, x, words)
    assert done.words == ("dog", "bites", "dog")
    assert str(done).splitlines()[-1].startswith('z("dog @2") = ')
    assert "dog @2" in done.picture().to_svg()
