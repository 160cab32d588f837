"""The pictures: a mark for each number, in its ratio; words as text whatever they are; a clear error otherwise."""

import re
import xml.etree.ElementTree as ET
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import regard
from regard import drawing, textbook
from regard.drawing.pooling import pooled
from regard.drawing.svg import measure, shorten
from regard.drawing.terminal import Table
from regard.drawing.theme import DARK, LIGHT

SVG = "{http://www.w3.org/2000/svg}"
DOG = ["A", "dog", "ate", "the", "food", "because", "it", "was", "hungry"]
HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</title></svg>",
    "&lt;",
    "\x00\x1b[31m",
    "]]>",
]
CONFIG = SimpleNamespace(width=512, heads=8, hidden=2048, encoder_layers=6, decoder_layers=4, vocabulary=32_000)


def random_weights(*shape, seed=0):
    return np.random.default_rng(seed).dirichlet(np.ones(shape[-1]) * 0.4, size=shape[:-1])


def parsed(picture, **look):
    return ET.fromstring(picture.to_svg(**look))


def marks(picture, **look):
    """The drawn weights: (head, row, column) → element."""
    found = {}
    for element in parsed(picture, **look).iter():
        if element.get("data-mark") == "":
            place = tuple(int(element.get(f"data-{axis}", 0)) for axis in ("head", "row", "column"))
            assert place not in found
            found[place] = element
    return found


def texts(picture, **look):
    """What can be read, in the order it is drawn (titles are for hover)."""
    return ["".join([e.text or "", *(f"{c.text or ''}{c.tail or ''}" if not c.tag.endswith("title") else c.tail or "" for c in e)])
            for e in parsed(picture, **look).iter(f"{SVG}text")]  # fmt: skip


def titles(picture):
    return [element.text for element in parsed(picture).iter(f"{SVG}title")]


def all_kinds(words, weights):
    """One picture of each kind on the same words and weights (words, words)."""
    n, x = len(words), np.random.default_rng(1).normal(size=(len(words), 3))
    return {
        "lines": drawing.lines(weights, words),
        "rows": drawing.lines(weights, words, layout="rows"),
        "arcs": drawing.lines(weights, words, layout="arcs", pick=0),
        "matrix": drawing.matrix(weights, words),
        "heat map": drawing.matrix(np.tile(weights, (7, 7)), list(words) * 7),
        "grid": drawing.grid(weights[None, None], words),
        "flow": drawing.flow([weights, weights], words, 0),
        "map": drawing.landscape(weights, (n, n), landmarks=[(0, words[0])], window=drawing.Window((0, 0), weights, words, words)),
        "alignment": drawing.alignment(weights, words, words),
        "mixture": drawing.mixture(weights, x, words),
        "dot": drawing.dot(x[0], x[-1], (words[0], words[-1])),
        "schematic": drawing.schematic(x=x, queries=x, keys=x, values=x, words=tuple(words)),
        "set layer": drawing.set_layer(words, weights),
        "architecture": drawing.architecture(CONFIG, source=words[0], target=words[-1], title=words[0]),
        "steps": regard.steps(x, np.eye(3), np.eye(3), np.eye(3), words=words).picture(),
    }  # fmt: skip


KINDS = list(all_kinds(["a", "b"], np.eye(2)))


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
            ({"pick": "cat"}, "It is not there"),
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


class TestPooling:
    @pytest.mark.parametrize(("rows", "columns"), [(1, 1), (3, 7), (10, 13), (64, 64)])
    def test_bins_are_means_of_their_blocks_as_the_matrix_has_them(self, rows, columns):
        A = regard.AttentionMatrix(torch.randn(10, 4, dtype=torch.float64), torch.randn(13, 4, dtype=torch.float64))
        np.testing.assert_allclose(
            pooled(A.to_dense().numpy(), rows, columns), A.pool(rows, columns).numpy(), rtol=1e-9
        )


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


class TestMap:
    def test_landmarks_stand_on_both_edges(self):
        marks_ = [(0, "Chapter 1"), (500, "Chapter 2")]
        shown = texts(drawing.landscape(np.full((10, 10), 0.1), (1000, 1000), landmarks=marks_))
        assert [text for text in shown if text.startswith("Chapter")] == ["Chapter 1", "Chapter 2"] * 2

    def test_the_window_is_exact(self):
        weights = random_weights(3, 3)
        window = drawing.Window((400, 100), weights, list("abc"), list("xyz"))
        picture = drawing.landscape(np.full((10, 10), 0.1), (1000, 1000), window=window)
        assert len(marks(picture)) == 9
        assert "from 400 and 100" in str(picture)

    def test_a_matrix_with_only_zeros(self):
        assert drawing.landscape(np.zeros((4, 4)), (8, 8)).to_svg()


class TestMadeOf:
    def test_a_strip_and_a_share_for_each_term(self):
        done = regard.steps(*textbook.i_am_good())
        shown = texts(drawing.mixture(done.weights, done.values, done.words, pick="I"))
        assert [text for text in shown if text.endswith("%")] == ["90 %", "7 %", "3 %"]

    def test_a_score_term_by_term(self):
        done = regard.steps(*textbook.i_am_good())
        picture = drawing.dot(done.queries[0], done.keys[1], ("I", "am"))
        assert "= 89.6" in texts(picture)
        assert str(picture).endswith("= 89.6")

    def test_one_word_all_the_way(self):
        done = regard.steps(*textbook.i_am_good())
        parts = {"x": done.x, "queries": done.queries, "keys": done.keys, "values": done.values, "words": done.words}
        shown = texts(drawing.schematic(**parts, word="I"))
        assert {"q · k = 89.6", "÷ 8 = 11.2", "90 %", "7 %", "3 %"} <= set(shown)
        assert not {"90 %", "7 %"} & set(texts(drawing.schematic(**parts, until="scores")))
        assert (
            sum(
                text.startswith("W")
                for text in texts(drawing.schematic(**parts, matrices=["values"], until="projections"))
            )
            == 3
        )


class TestArchitecture:
    def test_it_is_drawn_from_the_config(self):
        shown = " ".join(texts(drawing.architecture(CONFIG)))
        for said in ("encoder layer, 6 ×", "decoder layer, 4 ×", "8 heads of 64", "512 → 2,048 → 512", "512 → 32,000"):
            assert said in shown

    def test_the_stack_has_as_many_layers(self):
        shown = texts(drawing.architecture(CONFIG, "encoder", unfold=False))
        assert [text for text in shown if text.startswith("encoder")] == [f"encoder {n}" for n in range(6, 0, -1)]
        unfolded = texts(drawing.architecture(SimpleNamespace(**vars(CONFIG) | {"encoder_layers": 2}), "encoder"))
        assert unfolded.count("multi-head attention") == unfolded.count("feed-forward network") == 2

    def test_part(self):
        with pytest.raises(regard.InputError, match="'layer', 'encoder', 'transformer'"):
            drawing.architecture(CONFIG, "decoder")


class TestWords:
    @pytest.mark.parametrize("kind", KINDS)
    def test_hostile_ones_are_drawn_as_text(self, kind):
        picture = all_kinds(HOSTILE, np.full((6, 6), 1 / 6))[kind]
        drawn = picture.to_svg()
        tree = ET.fromstring(drawn)  # well-formed whatever the words
        allowed = {"svg", "g", "rect", "circle", "path", "text", "tspan", "title", "image"}
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
        picture = all_kinds(words, np.array([[0.25, 0.75], [0.5, 0.5]]))[kind]
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
        picture = all_kinds(["a", "b"], weights)[kind]
        assert "nan" in picture.to_svg() or kind in (
            "rows",
            "heat map",
            "grid",
            "map",
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
        picture = all_kinds(["alone"], np.ones((1, 1)))[kind]
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
        ],
    )
    def test_no_token_is_a_clear_error(self, call):
        with pytest.raises(regard.ShapeError, match="at least 1"):
            call()

    def test_numbers_must_be_numbers(self, unchecked):
        with pytest.raises(regard.DTypeError, match="must hold numbers"):
            drawing.lines(np.array([["a"]]))


class TestTheme:
    @pytest.mark.parametrize("theme", [LIGHT, DARK])
    @pytest.mark.parametrize("sign", [1, -1])
    def test_shades_are_even_to_the_eye(self, theme, sign):
        steps = _oklab(theme.heat(sign * np.linspace(0, 1, 11)))
        apart = np.linalg.norm(np.diff(steps, axis=0), axis=1)
        assert apart.max() / apart.min() < 1.7
        lightness = steps[:, 0] if theme is DARK else -steps[:, 0]
        assert (np.diff(lightness) > 0.03).all()

    @pytest.mark.parametrize("theme", [LIGHT, DARK])
    def test_what_is_written_can_be_read(self, theme):
        for ink, least in ((theme.ink, 12), (theme.muted, 4.5), (theme.accent, 4.5)):
            assert _contrast(ink, theme.background) >= least
        assert all(_contrast(colour, theme.background) >= 3 for colour in theme.colours)
        for shade in theme.heat(np.linspace(-1, 1, 41)):
            assert _contrast(theme.ink_on(shade), "#" + bytes(shade).hex()) >= 3.8

    @pytest.mark.parametrize("theme", [LIGHT, DARK])
    def test_the_first_heads_differ_for_the_colour_blind(self, theme):
        # Viénot, Brettel and Mollon's reduction to what a deuteranope and a protanope see, on linear light.
        kinds = {
            "deuteranopia": [[0.29275, 0.70725, 0], [0.29275, 0.70725, 0], [-0.02234, 0.02234, 1]],
            "protanopia": [[0.11238, 0.88762, 0], [0.11238, 0.88762, 0], [0.00401, -0.00401, 1]],
        }
        colours = np.array([list(bytes.fromhex(colour[1:])) for colour in theme.colours[:4]])
        for reduce in kinds.values():
            seen = _oklab_of_linear(np.clip(_linear(colours) @ np.array(reduce).T, 0, 1))
            for a in range(4):
                for b in range(a):
                    assert np.linalg.norm(seen[a] - seen[b]) > 0.05

    @pytest.mark.parametrize("kind", KINDS)
    def test_both_themes_draw_the_same_things(self, kind):
        picture = all_kinds(["a", "b"], np.array([[0.25, 0.75], [0.5, 0.5]]))[kind]
        light, dark = picture.to_svg(theme="light"), picture.to_svg(theme="dark")
        assert light.count("<") == dark.count("<")
        assert DARK.background in dark
        assert DARK.background not in light


def _linear(rgb):
    share = np.asarray(rgb) / 255
    return np.where(share <= 0.04045, share / 12.92, ((share + 0.055) / 1.055) ** 2.4)


def _oklab(rgb):
    return _oklab_of_linear(_linear(rgb))


def _oklab_of_linear(light):
    """Ottosson's forward matrices, as published: the theme has only their inverses."""
    cones = np.array(
        [
            [0.4122214708, 0.5363325363, 0.0514459929],
            [0.2119034982, 0.6806995451, 0.1073969566],
            [0.0883024619, 0.2817188376, 0.6299787005],
        ]
    )
    lab = np.array(
        [
            [0.2104542553, 0.7936177850, -0.0040720468],
            [1.9779984951, -2.4285922050, 0.4505937099],
            [0.0259040371, 0.7827717662, -0.8086757660],
        ]
    )
    return np.cbrt(light @ cones.T) @ lab.T


def _contrast(one, other):
    light = sorted(float(_linear(list(bytes.fromhex(c[1:]))) @ [0.2126, 0.7152, 0.0722]) for c in (one, other))
    return (light[1] + 0.05) / (light[0] + 0.05)
