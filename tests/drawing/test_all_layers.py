"""Every layer at once: thumbnails of the heads, and the path of a word."""

import re

import numpy as np
import pytest
from support.samples import DOG, SVG, parsed, random_weights, texts, titles

import regard
from regard import drawing


class TestGrid:
    def test_a_thumbnail_for_each_head(self):
        picture = drawing.grid(random_weights(4, 6, 9, 9), DOG)
        images = list(parsed(picture).iter(f"{SVG}image"))
        assert len(images) == 24
        assert len({image.get("y") for image in images}) == 4
        assert [t for t in texts(picture) if re.fullmatch(r"\d · \d", t)][:7] == [
            "0 · 0",
            "0 · 1",
            "0 · 2",
            "0 · 3",
            "0 · 4",
            "0 · 5",
            "1 · 0",
        ]

    def test_sorted_the_greatest_comes_first(self):
        weights = random_weights(2, 3, 4, 4)
        key = np.array([[1.0, 5.0, 3.0], [2.0, 6.0, 4.0]])
        shown = [t for t in texts(drawing.grid(weights, sort=key)) if re.fullmatch(r"\d · \d", t)]
        assert shown == ["1 · 1", "0 · 1", "1 · 2", "0 · 2", "1 · 0", "0 · 0"]

    def test_captions_stand_below(self):
        captions = [["first", "second"], ["third", "fourth"]]
        shown = texts(drawing.grid(random_weights(2, 2, 4, 4), captions=captions))
        assert [t for t in shown if t in ("first", "second", "third", "fourth")] == [
            "first",
            "second",
            "third",
            "fourth",
        ]
        with pytest.raises(regard.ShapeError, match=re.escape("heads = [2, 2]. Got [2, 1]")):
            drawing.grid(random_weights(2, 2, 4, 4), captions=[["a", "b"], ["c"]])

    def test_layers_may_have_their_own_heads(self):
        layers = [random_weights(2, 5, 5), random_weights(3, 5, 5)]
        assert len(list(parsed(drawing.grid(layers)).iter(f"{SVG}image"))) == 5

    def test_two_hundred_heads(self):
        picture = drawing.grid(random_weights(1, 200, 5, 5))
        assert len(list(parsed(picture).iter(f"{SVG}image"))) == 200
        with pytest.raises(regard.InputError, match=r"Got 200\. Use heads"):
            drawing.lines(random_weights(200, 5, 5))
        with pytest.raises(regard.InputError, match=r"Got 200\. Use heads"):
            drawing.matrix(random_weights(200, 5, 5))
        assert drawing.lines(random_weights(200, 5, 5), heads=[199]).to_svg()


class TestFlow:
    def test_shares_are_products_of_the_layers(self):
        layers = [random_weights(5, 5, seed=n) for n in range(3)]
        picture = drawing.flow(layers, list("abcde"), "d")
        want = np.eye(5)[3] @ layers[2] @ layers[1] @ layers[0]
        said = {t.split(": ")[1]: t.split(": ")[2] for t in titles(picture) if t.startswith("input: ")}
        assert [t for t in texts(picture) if t.startswith(("input", "layer"))] == [
            "input",
            "layer 0",
            "layer 1",
            "layer 2",
        ]
        assert str(picture).splitlines()[0].startswith("layer 2  d 100 %")
        for word, share in zip("abcde", want, strict=True):
            assert float(said[word].removesuffix(" %")) == pytest.approx(100 * share, abs=0.051)

    def test_lines_are_thick_in_their_ratio(self):
        layers = [random_weights(4, 4, seed=n) for n in range(2)]
        shares = [np.eye(4)[0] @ layers[1], np.eye(4)[0]]
        for element in parsed(drawing.flow(layers, start=0)).iter(f"{SVG}path"):
            if element.get("data-mark") is not None:
                n, row, column = (int(element.get(f"data-{axis}")) for axis in ("layer", "row", "column"))
                amount = shares[n][row] * layers[n][row, column]
                assert float(element.get("stroke-width")) == pytest.approx(24 * amount, abs=0.006)

    def test_layers_must_agree(self):
        with pytest.raises(regard.ShapeError, match=re.escape("Got (2, 2), (3, 3)")):
            drawing.flow([np.eye(2), np.eye(3)])
