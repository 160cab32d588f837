"""`curves`: numbers over steps, a panel for each name: what a training did."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from rich.text import Text

from regard.drawing.picture import Picture
from regard.drawing.svg import Canvas
from regard.errors import ShapeError

__all__ = ["curves"]

_WIDTH, _HEIGHT, _MARGIN, _GAP = 420.0, 150.0, 64.0, 56.0
_BLOCKS = "▁▂▃▄▅▆▇█"
_POINTS = 600  # of a drawn curve; more are means of neighbours


def curves(
    drawn: Mapping[str, tuple[NDArray[np.number], NDArray[np.number]]], *, title: str = "", caption: str = ""
) -> Picture:
    """Each name with its (steps, numbers) as a curve of its own, on the same steps.

    >>> print(curves({"loss": (np.arange(8), np.array([8.0, 7, 6, 5, 4, 3, 2, 1]))}))
    loss  █▇▆▅▄▃▂▁  8 → 1, least 1, greatest 8
    """
    known = {name: _checked(name, *both) for name, both in drawn.items()}
    if not known:
        raise ShapeError("curves needs at least one name with its steps and numbers. Got none.")
    last = max(float(x[-1]) for x, _ in known.values())
    first = min(float(x[0]) for x, _ in known.values())

    def draw(canvas: Canvas) -> None:
        for n, (name, (x, y)) in enumerate(known.items()):
            _panel(canvas, n * (_HEIGHT + _GAP), name, x, y, (first, last))

    def text(room: int) -> Text:
        wide = max(map(len, known))
        return Text("\n").join(_line(name.ljust(wide), y, room) for name, (_, y) in known.items())

    return Picture("curves", {name: y for name, (_, y) in known.items()}, draw, text, title, caption, tuple(known))


def _checked(
    name: str, x: NDArray[np.number], y: NDArray[np.number]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    if x.ndim != 1 or x.shape != y.shape or not len(x):
        raise ShapeError(f"{name} must have as many steps as numbers, at least 1. Got {x.shape} and {y.shape}.")
    return x.astype(np.float64), y.astype(np.float64)


def _panel(
    canvas: Canvas, top: float, name: str, x: NDArray[np.float64], y: NDArray[np.float64], span: tuple[float, float]
) -> None:
    theme = canvas.theme
    low, high = float(np.nanmin(y)), float(np.nanmax(y))
    room = (high - low) or 1.0
    canvas.text(_MARGIN, top + 14, name, bold=True)
    upper, lower = top + 28, top + 28 + _HEIGHT - 40
    canvas.rect(_MARGIN, upper, _WIDTH, lower - upper, fill=theme.panel, stroke=theme.faint)
    for share in (0.0, 0.5, 1.0):
        level = lower - share * (lower - upper)
        canvas.line(_MARGIN, level, _MARGIN + _WIDTH, level, theme.faint, 0.6)
        canvas.text(_MARGIN - 8, level + 4, f"{low + share * room:.3g}", size=12, fill=theme.muted, anchor="end")
    for share in (0.0, 0.5, 1.0):
        step = span[0] + share * (span[1] - span[0])
        canvas.text(_MARGIN + share * _WIDTH, lower + 18, f"{step:,.0f}", size=12, fill=theme.muted, anchor="middle")
    across = _MARGIN + (_means(x) - span[0]) / ((span[1] - span[0]) or 1.0) * _WIDTH
    down = lower - (_means(y) - low) / room * (lower - upper)
    points = [f"{a:.1f} {b:.1f}" for a, b in zip(across, down, strict=True) if np.isfinite(b)]
    canvas.path("M" + "L".join(points), theme.colours[0], 1.8)
    canvas.circle(across[-1], down[-1], 3, fill=theme.accent, title=f"{name} {y[-1]:.4g}")
    canvas.text(_MARGIN + _WIDTH + 8, float(down[-1]) + 4, f"{y[-1]:.3g}", size=12, fill=theme.accent)
    canvas.reach(_MARGIN + _WIDTH + 60, lower + 24)


def _means(numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    """At most so many points as can be told apart."""
    if len(numbers) <= _POINTS:
        return numbers
    return np.array([part.mean() for part in np.array_split(numbers, _POINTS)])


def _line(name: str, y: NDArray[np.float64], room: int) -> Text:
    low, high = float(np.nanmin(y)), float(np.nanmax(y))
    said = f"  {y[0]:.3g} → {y[-1]:.3g}, least {low:.3g}, greatest {high:.3g}"
    cells = max(min(room - len(name) - 2 - len(said), len(y), 60), 1)
    means = np.array([part.mean() for part in np.array_split(y, cells)])
    levels = np.nan_to_num((means - low) / ((high - low) or 1.0)) * (len(_BLOCKS) - 1)
    return Text(f"{name}  {''.join(_BLOCKS[round(float(level))] for level in levels)}{said}")
