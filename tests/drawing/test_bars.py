"""Bars: from 0, each as long as its number."""

import re

import pytest

import regard
from regard.drawing import bars


def test_lengths_are_proportional():
    svg = bars({"one": 1.0, "two": 2, "four": 4.0}).to_svg()
    widths = [float(width) for width in re.findall(r'<rect x="[\d.]+" y="[\d.]+" width="([\d.]+)"', svg)]
    assert widths[1] == pytest.approx(2 * widths[0], abs=0.1)
    assert widths[2] == pytest.approx(4 * widths[0], abs=0.1)
    assert "one: 1" in svg


def test_text_says_the_numbers():
    lines = str(bars({"a": 1234.5, "bb": 0.0}, title="T", caption="ms")).splitlines()
    assert lines[0] == "T"
    assert lines[1].startswith("a   ━━━")
    assert lines[1].endswith(" 1,234")
    assert lines[2].split() == ["bb", "0"]
    assert lines[3] == "ms"


def test_all_zero_and_hostile_names():
    drawn = bars({"<b>&": 0, "x" * 300: 0})
    assert "<b>" not in drawn.to_svg()
    assert str(drawn)


@pytest.mark.parametrize(
    ("numbers", "error"),
    [
        ({}, regard.ShapeError),
        ({"a": -1}, regard.InputError),
        ({"a": float("nan")}, regard.InputError),
        ({"a": float("inf")}, regard.InputError),
    ],
)
def test_what_cannot_be_a_bar_is_refused(numbers, error):
    with pytest.raises(error, match="bar"):
        bars(numbers)
