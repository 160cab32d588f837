"""`bars`, named numbers; `curves`, numbers over steps; `film`, pictures of the same thing at several steps."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from rich.cells import cell_len
from rich.text import Text

from regard.drawing.arguments import as_numbers, bounded
from regard.drawing.picture import Picture
from regard.drawing.svg import Canvas, measure, shorten
from regard.drawing.terminal import bar, padded, visible
from regard.errors import InputError, ShapeError

__all__ = ["bars", "curves", "film"]

_BAR_WIDTH, _BAR_HEIGHT, _LABEL_WIDTH = 280.0, 18.0, 220.0
_BAR_CELLS = 24  # of the longest bar in a terminal
_PANEL_WIDTH, _PANEL_HEIGHT, _MARGIN, _GAP = 420.0, 150.0, 64.0, 56.0
_BLOCKS = "▁▂▃▄▅▆▇█"
_POINTS = 600  # of a drawn curve; longer curves are averaged


def bars(numbers: Mapping[str, float], *, title: str = "", caption: str = "") -> Picture:
    """Each name with its number as a bar, from 0.

    >>> print(bars({"a loop": 8.0, "matrix products": 1.0}, caption="milliseconds"))
    a loop           ━━━━━━━━━━━━━━━━━━━━━━━━ 8
    matrix products  ━━━ 1
    milliseconds
    """
    lengths = {str(name): float(number) for name, number in numbers.items()}
    if not lengths:
        raise ShapeError("bars needs at least one name with its number. Got none.")
    invalid = {name: number for name, number in lengths.items() if not 0 <= number < np.inf}
    if invalid:
        name, number = next(iter(invalid.items()))
        raise InputError(f"a bar must have a finite length of at least 0. Got {name!r}: {number}.")
    longest = max(lengths.values()) or 1.0

    def draw(canvas: Canvas) -> None:
        theme = canvas.theme
        names = [shorten(name, _LABEL_WIDTH, 13) for name in lengths]
        left = max(measure(name, 13) for name in names) + 10
        for n, (name, (full, number)) in enumerate(zip(names, lengths.items(), strict=True)):
            top, width = n * (_BAR_HEIGHT + 8), number / longest * _BAR_WIDTH
            canvas.text(left - 10, top + 13, name, 13, anchor="end", title=full)
            canvas.rect(left, top, width, _BAR_HEIGHT, fill=theme.colours[0], title=f"{full}: {number:,.4g}", rx=2)
            canvas.text(left + width + 6, top + 13, _rounded(number), 13, fill=theme.muted)

    def text(room: int) -> Text:
        names = [visible(name) for name in lengths]
        indent = max(map(cell_len, names))
        lines = [
            f"{padded(name, indent)}  {bar(number / longest * _BAR_CELLS, shortest=0)} {_rounded(number)}"
            for name, number in zip(names, lengths.values(), strict=True)
        ]
        return Text("\n".join(lines))

    held = {"numbers": np.array(list(lengths.values()))}
    return Picture("bars", held, draw, text, title, caption, tuple(lengths))


def _rounded(number: float) -> str:
    """Three significant digits, or all digits before the point of a larger number.

    >>> _rounded(3.14159), _rounded(-12345.6), _rounded(1e30)
    ('3.14', '-12,346', '1e+30')
    """
    return f"{number:,.0f}" if 1000 <= abs(number) < 1e9 else f"{number:.3g}"


def curves(
    drawn: Mapping[str, tuple[NDArray[np.number], NDArray[np.number]]], *, same_scale: bool = False, title: str = "",
    caption: str = "",
) -> Picture:  # fmt: skip
    """A panel for each name with its (steps, numbers); all panels share the axis of the steps.

    With `same_scale` they share the axis of the numbers too, and can be compared.

    >>> print(curves({"loss": (np.arange(8), np.array([8.0, 7, 6, 5, 4, 3, 2, 1]))}))
    loss  █▇▆▅▄▃▂▁  8 → 1, least 1, greatest 8
    """
    series = {str(name): _checked(str(name), *both) for name, both in drawn.items()}
    if not series:
        raise ShapeError("curves needs at least one name with its steps and numbers. Got none.")
    last = max(float(x[-1]) for x, _ in series.values())
    first = min(float(x[0]) for x, _ in series.values())
    whole = all(bool((x == x.round()).all()) for x, _ in series.values())
    steps = _ticks_within(first, last, whole=whole)
    ranges = {name: (float(np.nanmin(y)), float(np.nanmax(y))) for name, (_, y) in series.items()}
    if same_scale:
        ranges = dict.fromkeys(
            ranges, (min(low for low, _ in ranges.values()), max(high for _, high in ranges.values()))
        )

    def draw(canvas: Canvas) -> None:
        for n, (name, (x, y)) in enumerate(series.items()):
            _panel(canvas, n * (_PANEL_HEIGHT + _GAP), name, x, y, (first, last), steps, _ticks(*ranges[name]))

    def text(room: int) -> Text:
        names = [visible(name) for name in series]
        indent = max(map(cell_len, names))
        lines = [
            _sparkline(padded(shown, indent), y, room, ranges[name])
            for shown, (name, (_, y)) in zip(names, series.items(), strict=True)
        ]
        return Text("\n").join(lines)

    return Picture("curves", {name: y for name, (_, y) in series.items()}, draw, text, title, caption, tuple(series))


def _checked(
    name: str, steps: NDArray[np.number], numbers: NDArray[np.number]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    x = as_numbers(f"the steps of {name}", steps, ("steps",)).astype(np.float64)
    y = as_numbers(name, numbers, ("steps",)).astype(np.float64)
    if x.shape != y.shape:
        raise ShapeError(f"{name} must have as many steps as numbers. Got {len(x)} and {len(y)}.")
    y = np.where(np.isinf(y), np.nan, y)  # a loss without bound leaves a gap
    if np.isnan(y).all():
        raise InputError(f"{name} must have a finite number, at least 1. Got none.")
    return bounded(f"the steps of {name}", x), bounded(name, y)


def _ticks(low: float, high: float) -> list[float]:
    """Two to five round numbers, from at or below `low` to at or above `high`.

    >>> _ticks(-3.92e-05, 0.93)
    [0.0, 0.5, 1.0]
    """
    extent = max((high - low) or abs(high) or 1.0, 1e-9 * max(abs(low), abs(high)))  # ticks have 12 digits
    step = _round_up(extent / 3)
    slack = extent / 100  # a curve may reach this far beyond the first and last tick
    first, last = math.floor((low + slack) / step), math.ceil((high - slack) / step)
    return [float(f"{n * step:.12g}") for n in range(first, max(last, first + 1) + 1)]


def _ticks_within(first: float, last: float, *, whole: bool) -> list[float]:
    """Two to seven round numbers from `first` to `last`; with `whole`, no fractions.

    >>> _ticks_within(1, 7312, whole=True), _ticks_within(0, 3, whole=True), _ticks_within(0, 0.31, whole=False)
    ([2000.0, 4000.0, 6000.0], [0.0, 1.0, 2.0, 3.0], [0.0, 0.1, 0.2, 0.3])
    """
    if first == last:
        return [first]
    step = _round_up((last - first) / 6)
    step = max(step, 1.0) if whole else step
    slack = step / 1e6  # of rounding
    return [
        float(f"{n * step:.15g}") for n in range(math.ceil((first - slack) / step), int((last + slack) // step) + 1)
    ]


def _round_up(number: float) -> float:
    """The next 1, 2 or 5 times a power of ten."""
    number = max(number, 1e-300)  # a third of the smallest float64 is 0
    power = 10.0 ** math.floor(math.log10(number))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= number)


def _panel(
    canvas: Canvas, top: float, name: str, x: NDArray[np.float64], y: NDArray[np.float64], span: tuple[float, float],
    steps: list[float], ticks: list[float],
) -> None:  # fmt: skip
    theme = canvas.theme
    low, extent = ticks[0], ticks[-1] - ticks[0]
    canvas.text(_MARGIN, top + 14, shorten(name, _PANEL_WIDTH), bold=True, title=name)
    upper, lower = top + 28, top + 28 + _PANEL_HEIGHT - 40
    canvas.rect(_MARGIN, upper, _PANEL_WIDTH, lower - upper, fill=theme.panel, stroke=theme.faint)
    for tick in ticks:
        level = lower - (tick - low) / extent * (lower - upper)
        canvas.line(_MARGIN, level, _MARGIN + _PANEL_WIDTH, level, theme.faint, 0.6)
        canvas.text(_MARGIN - 8, level + 4, f"{tick:,.6g}", size=12, fill=theme.muted, anchor="end")
    length = (span[1] - span[0]) or 1.0
    for step in steps:
        place = _MARGIN + (step - span[0]) / length * _PANEL_WIDTH
        canvas.line(place, lower, place, lower + 4, theme.muted, 0.8)
        canvas.text(place, lower + 18, f"{step:,.15g}", size=12, fill=theme.muted, anchor="middle")
    across = _MARGIN + (_means(x, _POINTS) - span[0]) / length * _PANEL_WIDTH
    down = lower - (_means(y, _POINTS) - low) / extent * (lower - upper)
    points = [f"{a:.1f} {b:.1f}" for a, b in zip(across, down, strict=True) if np.isfinite(b)]
    canvas.path("M" + "L".join(points), theme.colours[0], 1.8)
    if np.isfinite(down[-1]):
        canvas.circle(across[-1], down[-1], 3, fill=theme.accent, title=f"{name} {y[-1]:.4g}")
        canvas.text(_MARGIN + _PANEL_WIDTH + 8, float(down[-1]) + 4, _rounded(float(y[-1])), size=12, fill=theme.accent)
    canvas.reach(_MARGIN + _PANEL_WIDTH + 60, lower + 24)


def _means(numbers: NDArray[np.float64], most: int) -> NDArray[np.float64]:
    """Averages of neighbouring points where there are more than can be told apart."""
    return np.array([part.mean() for part in np.array_split(numbers, min(most, len(numbers)))])


def _sparkline(name: str, y: NDArray[np.float64], room: int, span: tuple[float, float]) -> Text:
    low, high = span
    summary = f"  {y[0]:.3g} → {y[-1]:.3g}, least {np.nanmin(y):.3g}, greatest {np.nanmax(y):.3g}"
    cells = max(min(room - cell_len(name) - 2 - len(summary), len(y), 60), 1)
    levels = np.nan_to_num((_means(y, cells) - low) / ((high - low) or 1.0)) * (len(_BLOCKS) - 1)
    return Text(f"{name}  {''.join(_BLOCKS[round(float(level))] for level in levels)}{summary}")


def film(frames: Mapping[str, Picture], *, title: str = "", caption: str = "") -> Picture:
    """Pictures by the name of their moment ("step 50"): saved as .html a slider shows each, elsewhere the last.

    The frames share the words of their axes: all pictures must have the same.

    >>> from regard.drawing import matrix
    >>> print(film({f"step {n}": matrix(np.eye(2) ** n, ["I", "am"]) for n in (0, 1)}))
    step 1, the last of 2 frames
          I     am
    I   100 %   0 %
    am   0 %   100 %
    """
    if not frames:
        raise ShapeError("film needs at least one frame. Got none.")
    *_, last = frames

    def draw(canvas: Canvas) -> None:
        reached = [(0.0, 0.0)]
        for name, picture in frames.items():
            canvas.width = canvas.height = 0.0  # a picture puts its scale below what is drawn so far: of itself alone
            with canvas.group(data_frame=name, display=None if name == last else "none"):
                canvas.text(0, 12, name, 13, bold=True)
                with canvas.group(transform="translate(0 28)"):
                    picture.draw(canvas)
            reached.append((canvas.width, canvas.height))
        for width, height in reached:
            canvas.reach(width, height + 28)

    def text(room: int) -> Text:
        return Text(f"{last}, the last of {len(frames)} frames\n", "bold").append_text(frames[last].text(room))

    numbers = {f"{name} {what}": values for name, each in frames.items() for what, values in each.numbers.items()}
    held = {name: np.asarray(values) for name, values in numbers.items()}
    return Picture("film", held, draw, text, title, caption or frames[last].caption, tuple(frames))
