"""`head_map`: every head of a model as a cell, coloured by what it does, with the names of the colours beside it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from rich.text import Text

from regard.drawing.arguments import as_weights, as_words
from regard.drawing.picture import Picture
from regard.drawing.svg import Canvas, in_full, measure, shorten
from regard.drawing.terminal import padded, percent, visible
from regard.errors import ShapeError

__all__ = ["head_map"]

_CELL, _GAP, _FONT = 26.0, 3.0, 12.0
_LEGEND, _LABEL = 260.0, 110.0
_SIGNS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"  # of the roles, the most frequent first; more than that are "other"
_PLAIN = ("mixed", "too short to tell")  # drawn in grey


def head_map(
    roles: Sequence[Sequence[str]],
    shares: Sequence[Sequence[float]],
    *,
    rows: Sequence[str] | None = None,
    hints: Sequence[Sequence[str]] | None = None,
    framed: Sequence[Sequence[bool]] | None = None,
    frame: str = "framed",
    title: str = "",
    caption: str = "",
) -> Picture:
    """What each head does, in lines of a layer each, and the share of its attention that goes there.

    `rows` name the layers, `hints` are shown on hover; cells that are `framed` have a frame, and `frame` is its name.

    >>> print(head_map([["previous token", "mixed"], ["first token", "first token"]], [[0.9, 0.0], [0.8, 0.7]]))
    layer 0  B ·
    layer 1  A A
    A first token     2 heads, 75 % on average
    B previous token  1 head, 90 % on average
    · mixed           1 head
    """
    counts = [len(line) for line in roles]
    if not counts or 0 in counts:
        raise ShapeError(f"roles must have at least 1 head in at least 1 layer. Got {counts}.")
    for name, lines in (("shares", shares), ("hints", hints), ("framed", framed)):
        if lines is not None and [len(line) for line in lines] != counts:
            raise ShapeError(f"{name} must have one for each head: {counts}. Got {[len(line) for line in lines]}.")
    names = (
        [f"layer {n}" for n in range(len(counts))] if rows is None else as_words("rows", rows, len(counts), "layers")
    )
    numbers = [as_weights("shares", line, ("heads",)) for line in shares]
    frequent = [
        role for role, _ in Counter(role for line in roles for role in line if role not in _PLAIN).most_common()
    ]
    signs = dict(zip(frequent, _SIGNS, strict=False))
    legend = [(signs.get(role, "+"), role) for role in frequent[: len(_SIGNS)]]
    legend += [("+", "other")] if len(frequent) > len(_SIGNS) else []
    legend += [("·", role) for role in _PLAIN if any(role in line for line in roles)]
    in_frames = sum(map(sum, framed)) if framed is not None else 0

    def told(role: str) -> str:
        mine = [
            float(share)
            for line, own in zip(roles, numbers, strict=True)
            for each, share in zip(line, own, strict=True)
            if each == role or (role == "other" and each not in signs and each not in _PLAIN)
        ]
        mean = "" if role in _PLAIN else f", {percent(float(np.mean(mine)))} on average"
        return f"{len(mine)} head{'s' * (len(mine) != 1)}{mean}"

    explained = [(sign, role, told(role)) for sign, role in legend]
    explained += [("□", frame, f"{in_frames} head{'s' * (in_frames != 1)}")] if in_frames else []

    def draw(canvas: Canvas) -> None:
        _draw(canvas, roles, numbers, names, hints, framed, signs, explained)

    def text(room: int) -> Text:
        return _text(roles, names, framed, signs, explained)

    width = max(counts)
    held = np.full((len(counts), width), np.nan)
    for n, line in enumerate(numbers):
        held[n, : len(line)] = line
    return Picture("head map", {"shares": held}, draw, text, title, caption, tuple(frequent))


def _colour(canvas: Canvas, sign: str) -> str:
    order = (0, 1, 2, 3, 4, 6, 7, 5)  # the two blues of the palette far apart
    return canvas.theme.colour(order[_SIGNS.index(sign) % len(order)]) if sign in _SIGNS else canvas.theme.muted


def _draw(
    canvas: Canvas, roles: Sequence[Sequence[str]], shares: Sequence[np.ndarray], names: Sequence[str],
    hints: Sequence[Sequence[str]] | None, framed: Sequence[Sequence[bool]] | None, signs: dict[str, str],
    legend: Sequence[tuple[str, str, str]],
) -> None:  # fmt: skip
    theme = canvas.theme
    labels = [shorten(name, _LABEL, _FONT) for name in names]
    left, top = max(measure(label, _FONT) for label in labels) + 10, 18.0
    step = _CELL + _GAP
    width = max(map(len, roles))
    for n in range(0, width, max(-(-width // 16), 1)):
        canvas.text(left + n * step + _CELL / 2, 10, str(n), 10, "middle", theme.muted)
    for n, (line, own) in enumerate(zip(roles, shares, strict=True)):
        y = top + n * step
        canvas.text(left - 10, y + 17, labels[n], _FONT, "end", theme.muted, title=in_full(names[n]))
        for m, (role, share) in enumerate(zip(line, own.tolist(), strict=True)):
            sign = signs.get(role, "·" if role in _PLAIN else "+")
            hint = hints[n][m] if hints is not None else f"{names[n]}, head {m}: {role}, {percent(share)}"
            strong = 0.15 if sign == "·" or np.isnan(share) else 0.25 + 0.65 * min(max(share, 0.0), 1.0)
            x = left + m * step
            canvas.rect(x, y, _CELL, _CELL, _colour(canvas, sign), hint, rx=3, fill_opacity=strong, data_mark="",
                        data_role=sign)  # fmt: skip
            canvas.text(x + _CELL / 2, y + 18, sign, 13, "middle", theme.ink, pointer_events="none")
            if framed is not None and framed[n][m]:
                canvas.rect(x, y, _CELL, _CELL, stroke=theme.ink, stroke_width=2.5, rx=3, pointer_events="none")
    right = left + width * step + 24
    for n, (sign, role, told) in enumerate(legend):
        y = top + n * 36
        if sign == "□":
            canvas.rect(right, y, 18, 18, stroke=theme.ink, stroke_width=2.5, rx=3)
        else:
            canvas.rect(right, y, 18, 18, _colour(canvas, sign), rx=3, fill_opacity=0.15 if sign == "·" else 0.7)
            canvas.text(right + 9, y + 14, sign, 12, "middle")
        canvas.text(right + 26, y + 9, shorten(role, _LEGEND, 13), 13, title=in_full(role), data_pick=f"role:{sign}")
        canvas.text(right + 26, y + 24, told, 11, fill=theme.muted)
    canvas.reach(right + _LEGEND, top + max(len(roles) * step, len(legend) * 36))


def _text(
    roles: Sequence[Sequence[str]], names: Sequence[str], framed: Sequence[Sequence[bool]] | None,
    signs: dict[str, str], legend: Sequence[tuple[str, str, str]],
) -> Text:  # fmt: skip
    """A letter for each head, and a square after those that are framed."""
    shown = [visible(name) for name in names]
    indent = max(map(len, shown))
    lines = []
    for n, (name, line) in enumerate(zip(shown, roles, strict=True)):
        drawn = Text.assemble((padded(name, indent), "cyan"), "  ")
        for m, role in enumerate(line):
            in_frame = framed is not None and framed[n][m]
            drawn.append(f"{signs.get(role, '·' if role in _PLAIN else '+')}{'□' if in_frame else ' '}")
        drawn.rstrip()
        lines.append(drawn)
    width = max(len(visible(role, 40)) for _, role, _ in legend)
    lines += [Text(f"{sign} {padded(visible(role, 40), width)}  {told}") for sign, role, told in legend]
    return Text("\n").join(lines)
