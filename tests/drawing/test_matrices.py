"""Matrices and tables: numbers while they fit, pooled when they do not."""

import numpy as np
from support.samples import DOG, SVG, marks, parsed, random_weights, texts

from regard import drawing
from regard.drawing.svg import LIGHT
from regard.drawing.terminal import Table


class TestMatrix:
    def test_numbers_while_they_fit(self):
        weights = random_weights(3, 3)
        picture = drawing.matrix(weights, ["I", "am", "good"])
        assert len(marks(picture)) == 9
        shown = texts(picture)
        assert all(f"{100 * w:.1f}".removesuffix(".0") + " %" in shown for w in weights.ravel())

    def test_many_heads_stand_in_lines(self):
        tree = parsed(drawing.matrix(random_weights(8, 9, 9), DOG))
        assert float(tree.get("viewBox").split()[2]) < 1300
        names = [e for e in tree.iter(f"{SVG}text") if (e.text or "").startswith("head ")]
        assert len(names) == 8
        assert len({e.get("y") for e in names}) == 4

    def test_shades_grow_with_the_numbers(self):
        values = np.linspace(0, 1, 9).reshape(3, 3)
        fills = [cell.get("fill") for _, cell in sorted(marks(drawing.matrix(values)).items())]
        lightness = [int(fill[1:3], 16) + int(fill[3:5], 16) + int(fill[5:], 16) for fill in fills]
        assert lightness == sorted(lightness, reverse=True)
        assert len(set(lightness)) == 9

    def test_a_heat_map_says_its_numbers(self):
        picture = drawing.matrix(random_weights(30, 30))
        images = list(parsed(picture).iter(f"{SVG}image"))
        assert len(images) == 2  # it, and its scale
        assert picture.caption == ""

    def test_a_large_one_is_pooled_and_says_so(self):
        picture = drawing.matrix(random_weights(200, 300))
        assert picture.caption == "Each cell is the mean of about 3 × 5 weights."

    def test_tables_have_signs_and_a_row_that_stands_out(self):
        tables = [Table(np.eye(2), name, rows=("a", "b")) for name in ("A", "B", "AB")]
        drawn = drawing.tables(tables, signs=("·", "="), row=1)
        assert [text for text in texts(drawn) if text in ("·", "=")] == ["·", "="]
        frames = [e for e in parsed(drawn).iter(f"{SVG}rect") if e.get("stroke") == LIGHT.accent]
        assert len(frames) == 2
