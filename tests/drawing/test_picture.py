"""`Picture` in its media: terminal, notebook, SVG, PNG, PDF, HTML; and from what has numbers."""

import io
import json
import logging
import re
import struct
import subprocess
import sys
import xml.etree.ElementTree as ET
from dataclasses import replace

import numpy as np
import pytest
import torch
from rich.console import Console
from support.samples import DOG, KINDS, SVG, parsed, random_weights

import regard
from regard import drawing, textbook
from regard.drawing.svg import DARK, LIGHT


@pytest.fixture
def picture():
    return drawing.lines(regard.steps(*textbook.dog()).weights, DOG, pick="it", title="Who is “it”?")


def shown(drawn, width=80, **options):
    console = Console(file=io.StringIO(), width=width, **options)
    console.print(drawn)
    return console.file.getvalue()


class TestTerminal:
    def test_print_is_plain(self, picture):
        assert str(picture).splitlines()[0] == "Who is “it”?"
        assert "\x1b" not in str(picture)

    @pytest.mark.parametrize("system", ["truecolor", "256", "standard"])
    def test_colour_changes_no_character(self, picture, system):
        coloured = shown(picture, color_system=system, force_terminal=True)
        assert "\x1b[" in coloured
        assert re.sub(r"\x1b\[[\d;]*m", "", coloured) == shown(picture, color_system=None)

    def test_in_colour_the_greatest_is_the_lightest_cell(self):
        coloured = shown(
            drawing.grid(np.array([[[[1.0, 0.2], [0.0, 0.0]]]])), color_system="truecolor", force_terminal=True
        )
        cells = re.findall(r"\x1b\[38;2;([\d;]+);48;2;([\d;]+)m(..)", coloured)
        assert [(ink == ground, sign) for ink, ground, sign in cells] == [(True, "██"), (True, "▒▒")]  # √0.2
        light = [sum(map(int, ground.split(";"))) for _, ground, _ in cells]
        assert light[0] > light[1]

    def test_only_who_looks_is_marked(self, picture):
        for drawn in (picture, drawing.flow([np.eye(2)], ["dog", "it"], "it")):
            coloured = shown(drawn, color_system="truecolor", force_terminal=True)
            name = "layer 0" if drawn.kind == "flow" else "it"
            assert re.findall(r"\x1b\[36m([^\x1b]*)", coloured)[0].strip() == name
            assert not re.search(r"\x1b\[36m[^\x1b]*(dog|%)", coloured)

    def test_a_grid_in_a_log_file(self):
        heads = np.stack([np.eye(3), np.full((3, 3), 1 / 3)])[None]
        assert str(drawing.grid(heads)).splitlines()[:4] == [
            "0·0               0·1",
            "██                ██████",
            "  ██              ██████",
            "    ██            ██████",
        ]

    def test_a_map_in_a_log_file(self):
        causal = np.tri(4) / np.arange(1, 5)[:, None]
        text = str(drawing.landscape(causal, (400, 400), landmarks=[(100, "Chapter 2")]))
        assert text.splitlines()[:4] == ["0         ██", "Chapter 2 ▓▓▓▓", "200       ▒▒▒▒▒▒", "300       ░░░░░░░░"]

    @pytest.mark.parametrize("width", [40, 80, 120])
    def test_every_kind_fits_the_width(self, width):
        weights = random_weights(9, 9)
        for drawn in (
            drawing.matrix(weights, DOG), drawing.matrix(np.tile(weights, (5, 5))), drawing.flow([weights] * 3, DOG, "it"),
            drawing.grid(weights[None, None].repeat(12, 1)), drawing.alignment(weights, DOG, DOG),
            drawing.landscape(weights, (900, 900)),
        ):  # fmt: skip
            lines = drawn.text(width).plain.split("\n")
            assert max(len(line.rstrip()) for line in lines) <= width


class TestNotebook:
    def test_it_is_shown_inline_without_network(self, picture):
        bundle = picture._repr_mimebundle_()
        assert set(bundle) == {"text/plain", "text/html", "image/svg+xml"}
        html = bundle["text/html"]
        ET.fromstring(bundle["image/svg+xml"])
        assert "<svg" in html
        assert html.count("://") == 1  # the name of SVG itself
        assert not re.search(r"(src|href)=(?!\"data:)", html)
        assert "require(" not in html
        json.dumps(bundle)

    def test_without_scripts_it_is_still_a_drawing(self, picture):
        html = picture._repr_mimebundle_()["text/html"]
        drawn = ET.fromstring(html[html.index("<svg") : html.index("</svg>") + 6])
        assert len(list(drawn.iter("{http://www.w3.org/2000/svg}title"))) > 81

    def test_steps_show_theirs(self):
        done = regard.steps(*textbook.i_am_good())
        assert done._repr_mimebundle_() == done.picture()._repr_mimebundle_()

    def test_two_of_them_do_not_meet(self, picture):
        other = drawing.lines(np.eye(2), ["a", "b"])
        ids = {re.search(r'id="([^"]+)"', p._repr_mimebundle_()["text/html"])[1] for p in (picture, other, picture)}
        assert len(ids) == 2


class TestFiles:
    def test_svg(self, picture, tmp_path):
        path = picture.save(tmp_path / "it.svg")
        assert path.read_text() == picture.to_svg()
        assert ET.parse(path).getroot().tag.endswith("svg")

    @pytest.mark.parametrize("theme", [LIGHT, DARK])
    def test_png_has_the_width_and_the_theme(self, picture, tmp_path, theme):
        data = picture.save(str(tmp_path / "it.PNG"), width=640, theme=theme.name).read_bytes()
        assert data[:8] == b"\x89PNG\r\n\x1a\n"
        width, height = struct.unpack(">II", data[16:24])
        assert width == 640
        assert 200 < height < 640
        assert _corner(data) == (*bytes.fromhex(theme.background[1:]), 255)

    def test_a_transparent_ground(self, picture, tmp_path):
        assert _corner(picture.save(tmp_path / "it.png", transparent=True).read_bytes())[3] == 0
        assert LIGHT.background not in picture.to_svg(transparent=True)
        assert "body{margin:24px;background:transparent" in picture.to_html(transparent=True)

    def test_pdf(self, picture, tmp_path):
        data = picture.save(tmp_path / "it.pdf").read_bytes()
        assert data.startswith(b"%PDF-")
        assert b"%%EOF" in data[-32:]

    def test_html_holds_everything(self, picture, tmp_path):
        page = picture.save(tmp_path / "it.html", theme="dark").read_text()
        assert "Content-Security-Policy" in page
        assert "default-src 'none'" in page
        assert not re.search(r"(src|href)=(?!\"data:)", page)
        assert len(page) < 60_000
        assert "<title>Who is “it”?</title>" in page

    def test_title(self, picture):
        assert "A slide" in picture.to_svg(title="A slide")
        assert "Who is" not in picture.to_svg(title="")

    def test_the_same_picture_is_the_same_bytes(self, picture):
        assert picture.to_html() == picture.to_html()

    @pytest.mark.parametrize("name", ["it.gif", "it", "svg", "it.svg.zip"])
    def test_other_files_are_refused(self, picture, tmp_path, name):
        with pytest.raises(regard.InputError, match=r"\.svg, \.png, \.pdf, \.html"):
            picture.save(tmp_path / name)
        assert not list(tmp_path.iterdir())

    @pytest.mark.parametrize("look", [{"width": 0}, {"width": -3}, {"theme": "sepia"}])
    def test_other_looks_are_refused(self, picture, tmp_path, look):
        with pytest.raises(regard.InputError, match="Got"):
            picture.save(tmp_path / "it.svg", **look)

    def test_without_the_extra_it_says_what_to_install(self, picture, tmp_path, monkeypatch):
        monkeypatch.setitem(sys.modules, "vl_convert", None)
        with pytest.raises(regard.MissingDependencyError, match=re.escape("pip install 'regard[draw]'")):
            picture.save(tmp_path / "it.png")
        assert picture.save(tmp_path / "it.svg").exists()
        assert picture.save(tmp_path / "it.html").exists()

    @pytest.mark.parametrize("kind", KINDS)
    def test_clusters_of_several_glyphs(self, kind, tmp_path, monkeypatch):
        """usvg panics, or loses glyphs, where the second span of a chunk has one: each subscript is a chunk."""
        monkeypatch.setattr("regard.drawing.picture._converted_apart", None, raising=False)
        for word in ("e\u035f\u035e", "❤️ 👩\u200d🔬", "नमस्ते", "مرحبا", "e\u035fᵀe\u035f"):
            drawn = KINDS[kind]([word, "b"], np.full((2, 2), 0.5))
            for span in parsed(drawn).iter(f"{SVG}tspan"):
                assert (span.get("x") and span.get("y")) or word not in f"{span.text}{span.tail}"
            assert drawn.save(tmp_path / "it.png", width=200).stat().st_size > 500

    def test_a_sign_without_a_font_is_named(self, tmp_path, caplog):
        words = ["dog …é", "\U0010fffd" + "".join(map(chr, range(0xF1230, 0xF1236)))]
        drawing.lines(np.full((2, 2), 0.5), words).save(tmp_path / "it.png")
        (said,) = [record.message for record in caplog.records if record.name == "regard.fonts"]
        assert "it.png: no font on this machine has \U000f1230 (U+F1230), " in said
        assert "(U+F1234) and 2 more: the picture shows boxes instead." in said
        caplog.clear()
        drawing.lines(np.full((2, 2), 0.5), DOG[:2]).save(tmp_path / "it.png")
        assert not [record for record in caplog.records if record.name == "regard.fonts"]

    def test_after_a_panic_of_the_converter_pictures_are_drawn_in_another_process(self, picture, tmp_path, monkeypatch):
        before = picture.save(tmp_path / "it.png").read_bytes()

        def poisoned(*_, **__):
            raise RuntimeError("Failed to acquire usvg options lock: poisoned lock: another task failed inside")

        monkeypatch.setattr("vl_convert.svg_to_png", poisoned)
        assert picture.save(tmp_path / "again.png").read_bytes() == before
        broken = replace(picture, draw=lambda canvas: canvas._parts.append("<text>"))
        with pytest.raises(regard.FileError, match=r"broken\.png cannot be drawn: .*Save it as \.svg or \.html"):
            broken.save(tmp_path / "broken.png")

    def test_its_size_is_said_first_and_held_to_the_budget(self, picture, tmp_path, caplog):
        with caplog.at_level(logging.INFO, "regard"), pytest.raises(regard.TooLargeError, match="budget = 1 kB"):
            picture.save(tmp_path / "it.html", budget=1000)
        assert re.fullmatch(r"it.html: \d+ kB", caplog.messages[0])
        assert not (tmp_path / "it.html").exists()

    @pytest.mark.slow
    def test_twelve_by_twelve_heads_at_512_tokens_stay_in_it(self, tmp_path, caplog):
        weights = np.random.default_rng(0).random((12, 12, 512, 512), np.float32)
        path = drawing.grid(weights).save(tmp_path / "grid.html")
        (said,) = caplog.records
        assert re.fullmatch(r"grid.html: \d\.\d\d MB", said.getMessage())
        assert said.levelno == logging.WARNING  # shown without being asked for
        assert path.stat().st_size <= 5_000_000
        values = json.loads(re.search(r"look\(root, (\[.*?\]), \{", path.read_text())[1])
        assert len(values) == 144


def _corner(png):
    """The first pixel, by a decoder of our own: filter types do not matter for the first of all."""
    import zlib

    kind = png[25]
    data, place = b"", 8
    while place < len(png):
        length = struct.unpack(">I", png[place : place + 4])[0]
        if png[place + 4 : place + 8] == b"IDAT":
            data += png[place + 8 : place + 8 + length]
        place += 12 + length
    assert kind == 6  # red, green, blue, alpha
    return tuple(zlib.decompress(data)[1:5])


class TestFromAMatrix:
    def words(self, count):
        return [f"w{n}" for n in range(count)]

    def test_what_suits_the_size(self):
        kinds = {}
        for count in (5, 32, 40, 64, 65, 300):
            x = torch.randn(count, 8)
            kinds[count] = regard.AttentionMatrix(x, x).picture(self.words(count)).kind
        assert kinds == {5: "lines", 32: "lines", 40: "matrix", 64: "matrix", 65: "map", 300: "map"}

    def test_lines_are_its_weights(self):
        A = regard.AttentionMatrix(torch.randn(2, 5, 8), torch.randn(2, 5, 8))
        picture = A.picture(self.words(5), heads=[1])
        np.testing.assert_allclose(picture.numbers["weights"], A.to_dense().numpy(), rtol=1e-6)
        assert picture.to_svg() != A.picture(self.words(5), heads=[0]).to_svg()

    def test_bins_are_named_by_their_own_tokens(self):
        picture = regard.AttentionMatrix(torch.randn(130, 8), torch.randn(260, 8)).picture(kind="matrix")
        assert picture.words[-1] == "127 … 129"
        assert ">255 … 259<" in picture.to_svg()

    def test_a_long_one_is_pooled_and_never_stored(self, monkeypatch):
        x = torch.randn(1, 2, 3000, 8)
        A = regard.AttentionMatrix(x, x, mask=regard.causal())
        sizes = []
        dense = regard.AttentionMatrix.to_dense
        monkeypatch.setattr(regard.AttentionMatrix, "to_dense", lambda part: sizes.append(part.shape) or dense(part))
        for kind in ("map", "matrix"):
            picture = A.picture(kind=kind)
            assert "mean of about" in picture.caption
            assert max(next(iter(picture.numbers.values())).shape) <= 192
        both = A.picture(kind="map")
        assert "The mean of 2 heads." in both.caption
        np.testing.assert_allclose(both.numbers["pool"], A.pool(192, 192)[0].mean(0).numpy(), rtol=1e-5)
        window = A.picture(self.words(3000), kind="map", window=(2000, 1990), heads=[1])
        assert sizes == [torch.Size((2, 10, 10))]
        np.testing.assert_allclose(window.numbers["window"], A[0, 1, 2000:2010, 1990:2000].numpy(), rtol=1e-5)
        with pytest.raises(regard.TooLargeError, match="kind='map'"):
            A.picture(kind="lines")

    def test_landmarks_are_its_words(self):
        x = torch.randn(100, 8)
        svg = regard.AttentionMatrix(x, x).picture(self.words(100)).to_svg()
        assert ">w0 w1 w2 w3<" in svg
        assert ">w48 w49 w50 w51<" in svg

    def test_keys_may_have_words_of_their_own(self):
        A = regard.AttentionMatrix(torch.randn(2, 8), torch.randn(3, 8))
        assert "two</text>" in A.picture(["a", "b"], columns=["one", "two", "three"]).to_svg()

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"kind": "pie"}, "'lines', 'matrix', 'map'"),
            ({"kind": "matrix", "pick": 0}, "pick is for lines"),
            ({"kind": "lines", "window": (0, 0)}, "window is for a map"),
            ({"kind": "map", "window": (5, 0)}, "(5, 5). Got (5, 0)"),
            ({"words": ["a"]}, "words must name the queries: 5. Got 1"),
            ({"columns": ["a"]}, "columns must name the keys: 5. Got 1"),
        ],
    )
    def test_errors(self, arguments, message):
        A = regard.AttentionMatrix(torch.randn(5, 8), torch.randn(5, 8))
        with pytest.raises(regard.InputError, match=re.escape(message)):
            A.picture(**arguments)

    def test_of_a_batch_one_must_be_chosen(self):
        A = regard.AttentionMatrix(torch.randn(2, 3, 5, 8), torch.randn(2, 3, 5, 8))
        with pytest.raises(regard.InputError, match=re.escape("A.part[0]")):
            A.picture()
        assert A.part[0].picture(heads=[0]).to_svg()


class TestFromSteps:
    def test_every_matrix_is_there(self):
        svg = regard.steps(*textbook.i_am_good()).picture().to_svg()
        for said in (
            "X</text>",
            "queries",
            "keys",
            "values",
            "1 scores",
            "2 scaled",
            "3 weights",
            "4 output",
            "÷ √64 = 8",
        ):
            assert said in svg
        for number in ("110", "89.6", "13.8", "90 %", "2.5 %"):
            assert f">{number}</text>" in svg or f"</title>{number}<" in svg

    def test_the_cell_that_is_unfolded(self):
        done = regard.steps(*textbook.i_am_good())
        assert "= 82.8" in done.picture(cell=(0, 2)).to_svg()
        assert "= 89.7" in done.picture().to_svg()  # "good" looks most at another word: "I"
        with pytest.raises(regard.InputError, match=re.escape("from 0 to 2. Got (3, 0)")):
            done.picture(cell=(3, 0))

    def test_printed_it_is_the_same_as_the_steps(self):
        done = regard.steps(*textbook.i_am_good())
        assert str(done.picture(title="")) == str(done)


@pytest.mark.slow
def test_nothing_heavy_is_imported_to_draw_and_print():
    code = (
        "import sys, numpy as np; from regard.drawing import matrix; p = matrix(np.eye(2)); p.to_html(); str(p); "
        "print(*({'vl_convert', 'altair', 'IPython', 'PIL', 'rich.console'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
