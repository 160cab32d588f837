"""Curves: a panel for each name, the last number said, and long ones thinned to means."""

import re

import numpy as np
import pytest

import regard
from regard.drawing import curves


def test_a_panel_for_each_name_with_its_last_number():
    drawn = curves(
        {"loss": (np.arange(5), np.array([5.0, 4, 3, 2, 1.5])), "chrf": (np.array([2, 4]), np.array([10.0, 30]))}
    )
    svg = drawn.to_svg()
    assert svg.count("<circle") == 2
    assert ">loss<" in svg
    assert ">chrf<" in svg
    assert ">1.5<" in svg
    assert str(drawn).splitlines()[1].endswith("10 → 30, least 10, greatest 30")


def test_the_curve_falls_where_the_numbers_do():
    path = re.search(
        r'd="M([\d. L]+)"[^>]*stroke-width="1.8"', curves({"x": (np.arange(3), np.array([3, 2, 1]))}).to_svg()
    )
    heights = [float(point.split(" ")[1]) for point in path[1].split("L")]
    assert heights == sorted(heights)
    assert heights[2] - heights[1] == pytest.approx(heights[1] - heights[0], abs=0.2)


def test_a_long_curve_is_thinned():
    svg = curves({"x": (np.arange(10_000), np.random.default_rng(0).normal(size=10_000))}).to_svg()
    assert len(svg) < 20_000


@pytest.mark.usefixtures("unchecked")
def test_refusals():
    with pytest.raises(regard.ShapeError, match="at least one name"):
        curves({})
    with pytest.raises(regard.ShapeError, match=r"as many steps as numbers, at least 1. Got \(2,\) and \(3,\)"):
        curves({"x": (np.arange(2), np.arange(3))})
