"""The map of a long input: landmarks, and an exact window."""

import numpy as np
import torch
from support.samples import marks, random_weights, texts

import regard
from regard import drawing


class TestMap:
    def test_landmarks_stand_on_both_edges(self):
        marks_ = [(0, "Chapter 1"), (500, "Chapter 2")]
        shown = texts(drawing.landscape(np.full((10, 10), 0.1), (1000, 1000), landmarks=marks_))
        assert [text for text in shown if text.startswith("Chapter")] == ["Chapter 1", "Chapter 2"] * 2

    def test_of_a_short_text_each_word_stands_alone(self):
        """Four words stood at each single one, and a weight was "the mean of about 1 × 1"."""
        words = ["A", "dog", "ate", "the", "food", "because", "it", "was", "hungry"]
        A = regard.AttentionMatrix(torch.eye(9), torch.eye(9))
        drawn = A.picture(words, "map")
        assert [text for text in drawn.words if " " in text] == []
        assert drawn.caption.endswith("9 × 9 weights in cells of their own; shades by the logarithm.")

    def test_the_window_is_exact(self):
        weights = random_weights(3, 3)
        window = drawing.Window((400, 100), weights, list("abc"), list("xyz"))
        picture = drawing.landscape(np.full((10, 10), 0.1), (1000, 1000), window=window)
        assert len(marks(picture)) == 9
        assert "from 400 and 100" in str(picture)

    def test_a_matrix_with_only_zeros(self):
        assert drawing.landscape(np.zeros((4, 4)), (8, 8)).to_svg()

    def test_a_few_cells_say_how_many(self):
        assert "in 4 × 2 cells" in drawing.landscape(np.ones((4, 2)), (4, 4)).caption
