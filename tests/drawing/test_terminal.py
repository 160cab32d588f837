import io
import re

import numpy as np
import pytest
from rich.cells import cell_len
from rich.console import Console
from rich.style import Style

from regard import drawing
from regard.drawing.terminal import Table, beside, mixtures, percent, visible
from regard.learn.four_steps import steps
from regard.learn.textbook import i_am_good


def shown(drawn, width=80, **options):
    """What arrives at a terminal."""
    Style._add.cache_clear()  # rich keeps a style's codes, even for a terminal with other colours
    console = Console(file=io.StringIO(), width=width, **options)
    console.print(drawn)
    return console.file.getvalue()


def square(words, seed=0, **look):
    values = np.random.default_rng(seed).normal(size=(len(words), len(words)))
    return Table(values, "square", "S", f"{len(words)}×{len(words)}", words, words, **look)


def numbers(values, **look):
    """The rows of a small table without its caption, as lists of what is printed."""
    drawn = beside([Table(np.array(values, dtype=float), "t", **look)], 200).plain
    return [line.split() for line in drawn.split("\n")[1:]]


def in_cells(line):
    """What each cell of a line shows: a character with its accents, or nothing in the second cell of a wide one."""
    found = []
    for character in line:
        if cell_len(character):
            found += [character, ""][: cell_len(character)]
        else:
            found[-1] += character
    return found


class TestWords:
    @pytest.mark.parametrize(
        ("word", "seen"),
        [
            ("plain", "plain"),
            ("[red]x[/red]", "[red]x[/red]"),
            ("\x1b[31m", "␛[31m"),
            ("a\tb\r\n", "a␉b␍␊"),
            ("\x7f", "\\x7f"),
            ("\x9b31m", "\\x9b31m"),
            ("\u202eabc", "\\u202eabc"),
            ("a\u2028b", "a\\u2028b"),
            ("\ud800", "\\ud800"),
            ("👩\u200d🔬", "👩\u200d🔬"),
            ("日本語", "日本語"),
            ("", ""),
        ],
    )
    def test_control_characters_are_drawn_and_the_rest_is_kept(self, word, seen):
        assert visible(word) == seen

    @pytest.mark.parametrize("word", ["a" * 17, "日" * 9, "a日" * 50, "\n" * 10**6, "e\u0301" * 20])
    def test_long_words_are_shortened(self, word):
        assert visible(word).endswith("…")
        assert 14 <= cell_len(visible(word)) <= 16

    def test_nothing_of_a_word_is_obeyed(self):
        words = ("[bold]b[/bold]", "\x1b[2J", "new\nline", "[/]")
        tables = beside([square(words, shares=True)], 80)
        lines = mixtures(words, np.full((4, 4), 0.25), 80)
        for drawn in (tables, lines):
            text = shown(drawn, color_system=None)
            assert "\x1b" not in text
            for seen in ("[bold]b[/bold]", "␛[2J", "new␊line", "[/]"):
                assert seen in text

    def test_wide_characters_align(self):
        text = beside([square(("I", "日本語", "é", "안녕"))], 80).plain
        rows = text.split("\n")[2:]
        assert len(rows) == 5
        assert len({cell_len(row) for row in rows}) == 1
        assert len({len(row) for row in rows}) > 1  # so that counting characters would not do


class TestNumbers:
    def test_short_decimals_are_shown_as_they_are(self):
        assert numbers([[1, 0.25], [-0.5, 0.631]]) == [["1", "0.25"], ["-0.5", "0.631"]]

    def test_float_noise_is_not(self):
        assert numbers([[0.1 + 0.2, -1e-17]]) == [["0.3", "0"]]
        assert numbers([[np.float32(0.1), 1]]) == [["0.1", "1"]]

    @pytest.mark.parametrize(
        ("row", "seen"),
        [
            ([0.012345, -0.05], "0.012 -0.050"),
            ([0.12345, 0.01], "0.123 0.010"),
            ([1.23456, 0.5], "1.23 0.50"),
            ([12.3456, 0.5], "12.3 0.5"),
            ([123.4567, 0.5], "123 0.5"),
            ([13.749999999999998, 8.7413], "13.8 8.7"),
            ([1.23456e-7, 0], "1.23e-07 0"),
            ([1.23456e9, 1], "1.23e+09 1.00e+00"),
            ([np.nan, 1], "nan 1"),
            ([np.inf, -np.inf], "inf -inf"),
            ([np.nan, 1.23456], "nan 1.23"),
            ([-0.0, 0.0], "0 0"),
            ([-0.0001, 1.23456], "0.00 1.23"),
        ],
    )
    def test_digits(self, row, seen):
        assert numbers([row]) == [seen.split()]

    def test_decimal_points_stand_below_each_other(self):
        text = beside([Table(np.array([[1.5], [110.0], [0.631]]), "t")], 80).plain
        assert text.split("\n")[1:] == ["   1.5   ", " 110     ", "   0.631 "]

    @pytest.mark.parametrize(
        ("share", "seen"),
        [
            (0.9, "90 %"),
            (0.025, "2.5 %"),
            (1.0, "100 %"),
            (0.0, "0 %"),
            (1 / 3, "33.3 %"),
            (0.0004, "0 %"),
            (-0.0, "0 %"),
        ],
    )
    def test_percent(self, share, seen):
        assert percent(share) == seen


class TestTables:
    def test_wide_matrices_are_elided_in_the_middle(self):
        row = np.arange(512.0) + 0.5
        assert numbers([row]) == [["0.5", "1.5", "…", "511.5"]]
        assert numbers([row[:6]]) == [["0.5", "1.5", "2.5", "3.5", "4.5", "5.5"]]

    def test_tall_ones_too(self):
        assert numbers(np.arange(512.0)[:, None]) == [["0"], ["1"], ["⋮"], ["511"]]

    def test_words_are_shown_up_to_twelve(self):
        twelve, thirteen = ([f"w{n}" for n in range(count)] for count in (12, 13))
        assert "⋮" not in beside([square(twelve)], 200).plain
        assert [line.split()[0] for line in beside([square(thirteen)], 200).plain.split("\n")[3:]] == (
            ["w0", "w1", "w2", "w3", "w4", "w5", "⋮", "w8", "w9", "w10", "w11", "w12"]
        )

    def test_side_by_side_where_there_is_room(self):
        table = square(("a", "b", "c"))
        lines = {width: len(beside([table] * 3, width).plain.split("\n")) for width in (80, 50, 30)}
        assert lines == {80: 6, 50: 13, 30: 20}

    def test_rows_are_named_once_in_a_line(self):
        row = beside([square(("yes", "no"))] * 2, 80).plain.split("\n")[3]
        assert row.count("yes") == 1
        assert len(row.split()) == 1 + 4

    @pytest.mark.parametrize("width", [40, 60, 80, 100, 140])
    @pytest.mark.parametrize("count", [1, 3, 9, 12, 50])
    def test_nothing_runs_over_the_edge(self, width, count):
        words = [f"word{n}" for n in range(count)]
        weights = np.random.default_rng(0).dirichlet(np.ones(count), size=count)
        tables = [square(words), square(words, 1), Table(weights, "shares", "", "", words, words, shares=True)]
        for drawn in (beside(tables, width), mixtures(words, weights, width)):
            assert max(cell_len(line.rstrip()) for line in drawn.plain.split("\n")) <= width
            assert shown(drawn, width, color_system=None).rstrip("\n").count("\n") == drawn.plain.count("\n")


class TestMixtures:
    def test_in_the_order_of_the_words_with_zeros_while_few(self):
        text = mixtures(("a", "b", "c"), np.array([[0.2, 0.8, 0.0]] * 3), 80).plain
        assert text.split("\n")[2] == 'z("c") = 20 % v("a") + 80 % v("b") + 0 % v("c")'

    def test_of_many_words_only_the_greatest(self):
        words = [f"w{n}" for n in range(10)]
        few = np.zeros(10)
        few[[7, 2]] = 0.7, 0.3
        assert mixtures(words, np.array([few] * 10), 80).plain.split("\n")[0] == 'z("w0") = 30 % v("w2") + 70 % v("w7")'
        even = mixtures(words, np.full((10, 10), 0.1), 300).plain.split("\n")[0]
        assert even.count("10 % v(") == 8
        assert even.endswith(" + 20 % of 2 others")

    def test_one_word_is_never_left_over(self):
        words = [f"w{n}" for n in range(9)]
        even = mixtures(words, np.full((9, 9), 1 / 9), 300).plain.split("\n")[0]
        assert even.count("11.1 % v(") == 9
        assert "other" not in even

    def test_a_long_one_is_broken_before_a_term(self):
        words = ("first", "second", "third")
        text = mixtures(words, np.full((3, 3), 1 / 3), 40).plain
        assert text.split("\n")[:3] == [
            'z("first") = 33.3 % v("first")',
            '    + 33.3 % v("second")',
            '    + 33.3 % v("third")',
        ]

    def test_many_lines_are_elided(self):
        words = [f"w{n}" for n in range(30)]
        assert mixtures(words, np.eye(30), 80).plain.split("\n")[5:8] == [
            'z("w5") = 100 % v("w5")',
            "⋮",
            'z("w25") = 100 % v("w25")',
        ]


class TestColour:
    def test_colour_changes_no_character(self):
        done = steps(*i_am_good())
        coloured = shown(done, color_system="truecolor", force_terminal=True)
        assert re.sub(r"\x1b\[[\d;]*m", "", coloured) == shown(done, color_system=None)
        assert [line.rstrip() for line in shown(done, color_system=None).split("\n")] == f"{done}\n".split("\n")

    def test_rows_that_share_a_line_are_said(self):
        words = [f"w{n}" for n in range(41)]
        assert str(drawing.matrix(np.eye(41), words, words)).endswith(
            "32 lines for 41 rows,\n31 places for 41 columns, each\nnamed after its first word."
        )
        assert "lines for" not in str(drawing.matrix(np.eye(30), words[:30], words[:30]))

    @pytest.mark.parametrize("room", [80, 34])
    def test_the_words_of_columns_stand_above_their_shades(self, room):
        rows, columns = (
            [f"row {n}" for n in range(14)],
            ["Aé", "e\u0301te", "日本語", "extraordinary", "", "x\ty", "of"],
        )
        picture = drawing.matrix(np.eye(14, 7)[::-1] + 0.01, rows, columns)
        above, _, _ = picture.text(room).plain.partition("row 0")
        assert all(cell_len(line) <= room for line in above.split("\n"))
        cells = [in_cells(line.ljust(30))[7:] for line in above.split("\n")[:-1]]  # after "row 10 "
        read = ["".join(line[2 * n] for line in cells).strip() for n in range(7)]
        assert read == ["Aé", "e\u0301te", "日本語", "extraor…", "", "x␉y", "of"]
        assert {line[n] for line in cells for n in range(1, 14, 2)} <= {" ", ""}

    def test_words_of_columns_that_share_a_place_are_named_after_the_first(self):
        words = [f"{n:02}" for n in range(40)]
        tens, ones = str(drawing.matrix(np.eye(13, 40), words[:13], words)).split("\n")[:2]
        assert [a + b for a, b in zip(tens[3::2], ones[3::2], strict=True)] == [f"{n * 40 // 31:02}" for n in range(31)]

    def test_weights_are_shaded_the_more_the_lighter(self):
        coloured = shown(steps(*i_am_good()), color_system="truecolor", force_terminal=True)
        backgrounds = {}
        for *rgb, text in re.findall(r"\x1b\[[\d;]*48;2;(\d+);(\d+);(\d+)m *([\d.]+) % *\x1b", coloured):
            backgrounds[float(text)] = np.dot([0.299, 0.587, 0.114], [int(c) for c in rgb])
        assert sorted(backgrounds) == [2.5, 3, 7, 21, 76, 90, 95]
        lightness = [backgrounds[share] for share in sorted(backgrounds)]
        assert lightness == sorted(lightness)
        assert lightness[-1] - lightness[0] > 80

    def test_what_is_not_there_is_not_shaded(self):
        lines = mixtures(("a", "b"), np.array([[0, 1], [np.nan, np.nan]]), 80)
        text = shown(lines, color_system="truecolor", force_terminal=True)
        assert len(re.findall(r"\x1b\[[\d;]*48;", text)) == 1
