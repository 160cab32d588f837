"""`html_table`: a small table for a notebook, in the colours and the font of the page around it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from regard.drawing.terminal import percent, visible

__all__ = ["Cell", "html_table"]

Cell = str | int | float | None  # text; a number; a share, drawn as a bar; nothing
_WIDTH = 200  # cells of a text, before it is cut off
_BAR = 4.0  # em of a bar that stands for 1
_BAR_STYLE = "display:inline-block;height:.6em;background:currentColor;opacity:.4"
_NUMBER_STYLE = "display:inline-block;min-width:3.5em;margin-right:.4em;text-align:right"
_CELL = "padding:.2em .8em .2em 0;color:inherit;background:none"


def html_table(rows: Sequence[Sequence[Cell]], columns: Sequence[str] = (), *, caption: str = "", more: int = 0) -> str:
    """Rows below the names of their columns, everything escaped; `more` is how many rows were left out.

    >>> html_table([["<b>", 0.25]]).count("<td"), "&lt;b&gt;" in html_table([["<b>", 0.25]])
    (2, True)
    """
    whole = [any(type(row[n]) is int for row in rows if n < len(row)) for n in range(len(columns))]
    sides = ["right" if numbers else "left" for numbers in whole]  # a name stands over its numbers
    head = "".join(
        f'<th scope="col" style="{_CELL};min-width:0;text-align:{side}">{_escaped(name)}</th>'
        for name, side in zip(columns, sides, strict=True)
    )
    body = "".join(f"<tr>{''.join(map(_td, row))}</tr>" for row in rows)
    width = max([len(columns), *map(len, rows)], default=1)
    left_out = f'<tr><td colspan="{width}" style="{_CELL};text-align:left">… and {more:,} more</td></tr>'
    return (
        '<div style="overflow-x:auto">'
        '<table style="color:inherit;background:none;border:none;border-collapse:collapse">'
        + (f'<caption style="color:inherit;text-align:left">{_escaped(caption)}</caption>' if caption else "")
        + (f"<thead><tr>{head}</tr></thead>" if head else "")
        + f"<tbody>{body}{left_out if more > 0 else ''}</tbody></table></div>"
    )


def _td(cell: Cell) -> str:
    if isinstance(cell, float):
        return f'<td style="{_CELL};text-align:left;white-space:nowrap">{_bar(cell)}</td>'
    if isinstance(cell, int):
        return f'<td style="{_CELL};text-align:right">{cell:,}</td>'
    return f'<td style="{_CELL};text-align:left">{_escaped(cell or "")}</td>'


def _bar(share: float) -> str:
    length = 0.0 if math.isnan(share) else _BAR * min(max(share, 0.0), 1.0)
    number = f'<span style="{_NUMBER_STYLE}">{percent(share)}</span>'
    return f'{number}<span style="{_BAR_STYLE};width:{length:.2f}em"></span>'


def _escaped(text: str) -> str:
    from html import escape

    return escape(visible(text, _WIDTH))
