"""Bars as long as their numbers; curves in a panel for each name, long ones thinned to means."""

import re

import numpy as np
import pytest

import regard
from regard.drawing import bars, curves, film, matrix


class TestBars:
    def test_lengths_are_proportional(self):
        svg = bars({"one": 1.0, "two": 2, "four": 4.0}).to_svg()
        widths = [float(width) for width in re.findall(r'<rect x="[\d.]+" y="[\d.]+" width="([\d.]+)"', svg)]
        assert widths[1] == pytest.approx(2 * widths[0], abs=0.1)
        assert widths[2] == pytest.approx(4 * widths[0], abs=0.1)
        assert "one: 1" in svg

    def test_text_says_the_numbers(self):
        lines = str(bars({"a": 1234.5, "bb": 0.0}, title="T", caption="ms")).splitlines()
        assert lines[0] == "T"
        assert lines[1].startswith("a   ━━━")
        assert lines[1].endswith(" 1,234")
        assert lines[2].split() == ["bb", "0"]
        assert lines[3] == "ms"

    def test_all_zero_and_hostile_names(self):
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
    def test_what_cannot_be_a_bar_is_refused(self, numbers, error):
        with pytest.raises(error, match="bar"):
            bars(numbers)


def steps_of(svg):
    """The labels of the steps' axis, and where they stand."""
    found = re.findall(r'<text x="([\d.]+)"[^>]*text-anchor="middle"[^>]*>([-\d,.]+)<', svg)
    return [(label, float(x)) for x, label in found]


class TestCurves:
    def test_a_panel_for_each_name_with_its_last_number(self):
        drawn = curves(
            {"loss": (np.arange(5), np.array([5.0, 4, 3, 2, 1.5])), "chrf": (np.array([2, 4]), np.array([10.0, 30]))}
        )
        svg = drawn.to_svg()
        assert svg.count("<circle") == 2
        assert ">loss<" in svg
        assert ">chrf<" in svg
        assert ">1.5<" in svg
        assert str(drawn).splitlines()[1].endswith("10 → 30, least 10, greatest 30")

    def test_the_curve_falls_where_the_numbers_do(self):
        path = re.search(
            r'd="M([\d. L]+)"[^>]*stroke-width="1.8"', curves({"x": (np.arange(3), np.array([3, 2, 1]))}).to_svg()
        )
        heights = [float(point.split(" ")[1]) for point in path[1].split("L")]
        assert heights == sorted(heights)
        assert heights[2] - heights[1] == pytest.approx(heights[1] - heights[0], abs=0.2)

    def test_panels_of_one_scale_can_be_compared(self):
        small, large = (np.arange(3), np.array([0.0, 1, 2])), (np.arange(3), np.array([0.0, 5, 10]))

        def ends(**options):
            paths = re.findall(
                r'd="M([\d. L]+)"[^>]*stroke-width="1.8"', curves({"a": small, "b": large}, **options).to_svg()
            )
            heights = [[float(point.split(" ")[1]) for point in path.split("L")] for path in paths]
            return [h[0] - h[-1] for h in heights]

        own, same = ends(), ends(same_scale=True)
        assert own[0] == pytest.approx(own[1], abs=0.2)
        assert same[1] == pytest.approx(5 * same[0], abs=0.5)
        assert str(curves({"a": small, "b": large}, same_scale=True)).splitlines()[0].split()[1] == "▁▂▂"

    def test_ticks_are_round(self):
        numbers = np.array([-3.92e-05, 0.31, 0.93])
        ticks = re.findall(r'text-anchor="end"[^>]*>([^<]+)<', curves({"x": (np.arange(3), numbers)}).to_svg())
        assert ticks == ["0", "0.5", "1"]
        svg = curves({"x": (np.arange(3), 1e5 * np.arange(3))}).to_svg()
        assert re.findall(r'text-anchor="end"[^>]*>([^<]+)<', svg) == ["0", "100,000", "200,000"]
        assert svg.count(">200,000<") == 2  # the last number, too

    def test_the_label_of_a_step_stands_where_the_step_is(self):
        svg = curves({"x": (np.arange(1, 9), np.arange(8.0))}).to_svg()
        path = re.search(r'd="M([\d. L]+)"[^>]*stroke-width="1.8"', svg)[1]
        places = [float(point.split(" ")[0]) for point in path.split("L")]  # of steps 1 to 8
        found = {int(step): x for step, x in steps_of(svg)}
        assert list(found) == [2, 4, 6, 8]
        assert [found[step] for step in found] == pytest.approx([places[step - 1] for step in found], abs=0.1)

    @pytest.mark.parametrize(
        ("steps", "labels"),
        [
            (np.arange(1, 7313, 50), ["2,000", "4,000", "6,000"]),
            (np.arange(0, 100_001, 1000), ["0", "20,000", "40,000", "60,000", "80,000", "100,000"]),
            (np.array([0, 1, 2]), ["0", "1", "2"]),  # no half steps
            (np.array([0.0, 0.15, 0.31]), ["0", "0.1", "0.2", "0.3"]),
            (np.array([-5, 5]), ["-4", "-2", "0", "2", "4"]),
            (np.array([4, 512]), ["100", "200", "300", "400", "500"]),
            (np.array([10**12, 10**12 + 3]), [f"1,000,000,000,00{n}" for n in range(4)]),
            (np.array([7]), ["7"]),
        ],
    )  # fmt: skip
    def test_steps_are_named_by_round_numbers(self, steps, labels):
        svg = curves({"x": (steps, np.arange(float(len(steps))))}).to_svg()
        assert [label for label, _ in steps_of(svg)] == labels

    def test_a_long_curve_is_thinned(self):
        svg = curves({"x": (np.arange(10_000), np.random.default_rng(0).normal(size=10_000))}).to_svg()
        assert len(svg) < 20_000

    @pytest.mark.usefixtures("unchecked")
    def test_refusals(self):
        with pytest.raises(regard.ShapeError, match="at least one name"):
            curves({})
        with pytest.raises(regard.ShapeError, match=r"as many steps as numbers. Got 2 and 3"):
            curves({"x": (np.arange(2), np.arange(3))})


def test_a_film_is_as_high_as_its_highest_frame():
    """The scale below a matrix stood lower in each frame, since it was put below all frames before."""
    frame = matrix(np.eye(30), [f"word {n}" for n in range(30)])  # so many have a scale instead of numbers

    def height(count):
        svg = film({f"step {n}": frame for n in range(count)}, title="t").to_svg()
        return float(re.search(r' height="([\d.]+)"', svg)[1])

    assert height(20) == height(1)
