"""The small functions that all pictures share, one example each: checks of arguments, words, colours and shades."""

import numpy as np
import pytest

from regard.drawing.arguments import as_array, as_heads, as_numbers, as_weights, as_words, axis_words, bounded
from regard.drawing.matrices import cells, strip
from regard.drawing.picture import file_size
from regard.drawing.svg import DARK, LIGHT, Canvas, in_full, measure, rgb, theme_named
from regard.drawing.terminal import Table, bar, harmless, heat, largest, made_of, padded
from regard.drawing.viewer import block, browser_files, joined_modules
from regard.errors import ShapeError

PAIR = ("rows", "columns")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (as_numbers("weights", [[1, 0]], PAIR).shape, (1, 2)),
        (bounded("weights", np.array([0.5, 1e30])).tolist(), [0.5, 1e30]),
        (as_weights("weights", [[1, 0]], PAIR).shape, (1, 2)),
        (as_heads(np.eye(3)).shape, (1, 3, 3)),
        (as_words("rows", None, 3, "weights' rows"), ("1", "2", "3")),
        (axis_words(["it", "is"], None, (2, 2)), (("it", "is"), ("it", "is"))),
        (theme_named("dark").background, "#14181d"),
        (LIGHT.ink_on(np.array([247, 251, 255], np.uint8)), "#000000"),
        (DARK.heat(np.array([np.nan])).tolist(), [[90, 60, 80]]),
        (rgb(np.array([0, 114, 178], np.uint8)), "#0072b2"),
        (round(measure("attention", 10), 1), 39.5),
        (in_full("extraordinary"), "extraordinary"),
        ((bar(4.8), bar(0.01), bar(0.01, shortest=0)), ("━━━━━", "━", "")),
        ((padded("it", 4), padded("日", 4)), ("it  ", "日  ")),
        (str(heat(1.0)), "#000000 on #ffbe3c"),
        ((largest(np.array([0.5, np.nan])), largest(np.zeros(2))), (0.5, 1.0)),
        (harmless("\x1b[2J\u202e\n"), "␛[2J�\n"),
        (made_of(1, ("I", "am"), np.array([0.025, 0.975]), 80).plain, 'z("am") = 2.5 % v("I") + 97.5 % v("am")'),
        ((file_size(431), file_size(12_345), file_size(4_900_000)), ("431 bytes", "12 kB", "4.90 MB")),
        ("import " in joined_modules("elements.js"), False),
        ("map.js" in browser_files("regard.drawing", "viewer"), True),
    ],
)
def test_an_example_of_each(value, expected):
    assert value == expected


def test_nan_is_bounded():
    assert np.isnan(bounded("weights", np.array([0.5, np.nan]))).tolist() == [False, True]


def test_rows_must_have_one_length():
    with pytest.raises(ShapeError, match=r"weights must have rows of one length\. Got rows of several lengths"):
        as_array("weights", [[1, 0], [0.5]])


def test_zeros_take_little_room_as_text():
    zeros = block(np.zeros((20, 50), np.float32))
    assert (zeros.dtype, zeros.shape) == ("float32", (20, 50))
    assert len(zeros.text) < 50


def test_numbers_in_cells():
    canvas = Canvas(LIGHT)
    assert strip(canvas, 0, 0, np.arange(64.0), 63.0) == 84
    assert canvas.body().count("<rect") == 5
    canvas = Canvas(LIGHT)
    cells(canvas, 0, 0, Table(np.eye(2), "I", rows=("a", "b"), shares=True))
    assert (canvas.body().count("<rect"), canvas.body().count("100 %</text>")) == (4, 2)
