"""Words, numbers, bars and tables as text, coloured in a terminal and plain elsewhere; `html_table` for notebooks."""

from __future__ import annotations

import html
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

import numpy as np
from numpy.typing import NDArray
from rich.cells import cell_len, set_cell_size
from rich.color import Color
from rich.style import Style
from rich.text import Text

_LABEL_WIDTH, _HEADER_WIDTH = 16, 7  # cells for a word beside its row, above its column
_TERMS = 8  # of a mixture: of more than 9 words, only the 8 with the largest weights are named
_INVISIBLE = {"Cc", "Cf", "Cs", "Zl", "Zp"}  # controls, directions, lone surrogates, line ends
_JOINERS = "\u200c\u200d"  # invisible as well, but part of words and emoji
# Characters that a terminal obeys instead of showing: controls, other line ends, changes of direction, lone surrogates.
_OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_SHADES = " ·░▒▓█"
_LINES = 32  # of shades, at most
_HEIGHT = 8  # letters of a word above a column of shades, at most
_HEAT = ((52, 61, 92), (38, 139, 140), (255, 190, 60))  # slate, teal, amber: lightness increases, so it works in grey


@dataclass(frozen=True, eq=False)
class Table:
    """A matrix to draw: its numbers, its name, and the words that its rows and columns stand for.

    >>> print(beside([Table(np.eye(2), "identity", "I = I I", "2×2", rows=("a", "b"))], width=80).plain)
       identity  I = I I
       2×2
    a  1  0
    b  0  1
    """

    values: NDArray[np.float64]
    name: str
    formula: str = ""
    shape: str = ""
    rows: Sequence[str] = ()
    columns: Sequence[str] = ()
    shares: bool = False  # shown in per cent, and shaded
    blank_zeros: bool = False  # of shares: nothing where there is nothing at all


def beside(tables: Sequence[Table], width: int) -> Text:
    """Tables side by side where the width allows, otherwise in several lines; columns that still do not fit are elided.

    Tables with row words must have the same ones: the first table of a line shows them for all.

    >>> ramp = Table(np.arange(512.0)[None], "ramp", shape="1×512", rows=("x",))
    >>> print(beside([ramp, ramp], width=80).plain)
       ramp  1×512      ramp  1×512
    x  0  1  …  511     0  1  …  511
    """
    indent = max((cell_len(label) + 1 for table in tables for label in _labels(table)), default=0)
    for lines in range(1, len(tables) + 1):
        size = math.ceil(len(tables) / lines)
        room = width if size == 1 else None
        groups = [_in_one_line(tables[start : start + size], indent, room) for start in range(0, len(tables), size)]
        if all(_reach(line) <= width for group in groups for line in group):
            break
    return Text("\n\n").join(Text("\n").join(group) for group in groups)


def mixtures(words: Sequence[str], weights: NDArray[np.float64], width: int) -> Text:
    """Each word's output as a sum of values, one line for each word.

    >>> print(mixtures(("I", "am"), np.array([[0.975, 0.025], [0.5, 0.5]]), width=80).plain)
    z("I") = 97.5 % v("I") + 2.5 % v("am")
    z("am") = 50 % v("I") + 50 % v("am")
    """
    shown = next(elisions(len(words), named=True))
    lines = [Text("⋮") if row is None else made_of(row, words, weights[row], width) for row in shown]
    return Text("\n").join(lines)


def percent(share: float) -> str:
    """A share to a tenth of a per cent.

    >>> percent(0.9), percent(0.025), percent(float("nan"))
    ('90 %', '2.5 %', 'nan')
    """
    return "nan" if math.isnan(share) else f"{100 * share:z.1f}".removesuffix(".0") + " %"


def visible(word: str, width: int = _LABEL_WIDTH) -> str:
    r"""A word that is safe to print: control characters made visible, at most `width` cells wide.

    >>> visible("two\nlines"), visible("\x1b[31m"), visible("extraordinary", 8)
    ('two␊lines', '␛[31m', 'extraor…')
    """
    start = word[: 4 * width]  # a word can be very long
    shown = start if start.isprintable() else "".join(map(_printable, start))
    return shown if cell_len(shown) <= width else set_cell_size(shown, width - 1).rstrip() + "…"


def told_apart(words: Sequence[str]) -> tuple[str, ...]:
    """The words, each that occurs several times with its number, counted from 0.

    >>> told_apart(("dog", "bites", "dog"))
    ('dog @0', 'bites', 'dog @2')
    """
    times = Counter(words)
    return tuple(word if times[word] == 1 else f"{word} @{n}" for n, word in enumerate(words))


def _printable(character: str) -> str:
    if unicodedata.category(character) not in _INVISIBLE or character in _JOINERS:
        return character
    if ord(character) < 32:
        return chr(0x2400 + ord(character))  # Unicode's control pictures
    return character.encode("unicode_escape").decode()


def shown(text: str) -> str:
    r"""A text that is safe to print: control characters in Python's notation; tabs and line ends stay.

    >>> print(shown("\x1b[2J\u202e is text"))
    \x1b[2J\u202e is text
    """
    return _OBEYED.sub(lambda match: match.group().encode("unicode_escape").decode(), text)


def harmless(text: str) -> str:
    """A text of the same length that is safe to print: every control character but line ends becomes a symbol."""
    return _OBEYED.sub(lambda match: chr(0x2400 + ord(match.group())) if match.group() < " " else "\ufffd", text)


def padded(word: str, width: int) -> str:
    """A word with spaces after it, up to a width in cells."""
    return word + " " * (width - cell_len(word))


# Bars


def bar(length: float, shortest: int = 1) -> str:
    """A bar of about this many cells."""
    return "━" * max(round(length), shortest)


def labelled_bar(word: str, weight: float, cells: int, *, digits: int | None = None) -> str:
    """A weight as a bar, `cells` long for a weight of 1, then its word and its per cent, rounded to `digits`.

    >>> labelled_bar("dog", 0.614, 10), labelled_bar("dog", 0.614, 10, digits=2)
    ('━━━━━━ dog 61.4 %', '━━━━━━ dog 61 %')
    """
    return f"{bar(cells * weight)} {visible(word)} {percent(weight if digits is None else round(weight, digits))}"


# Numbers


def formatted(numbers: NDArray[np.float64]) -> list[str]:
    """Numbers with few decimals unchanged, others with three digits of the largest: 0.123, 1.23, 12.3, 123.

    >>> formatted(np.array([0.5, 13.7413]))
    ['0.5', '13.7']
    """
    sizes = np.abs(numbers[np.isfinite(numbers) & (numbers != 0)])
    if not sizes.size:
        return [f"{number:zg}" for number in numbers]
    if not 1e-4 <= sizes.max() < 1e6:
        return [f"{number:.2e}" if number else "0" for number in numbers]
    if np.abs(sizes - sizes.round(3)).max() <= min(1e-7 * sizes.max(), 1e-5):  # equal up to float32 rounding
        return [f"{number:z.3f}".rstrip("0").rstrip(".") for number in numbers]
    order = math.floor(math.log10(sizes.max()))
    decimals = 1 - order if order < -1 else max(2 - order, 1)  # one less after leading zeros: 0.012
    # 110/8 may arrive as 13.749999999999998 and should still read 13.8: first round away the error of float64.
    return [f"{round(number, 9):z.{decimals if abs(number) < 100 else 0}f}" for number in numbers]


def heat(share: float) -> Style:
    """A share as a background colour, with black or white on it, whichever is more legible."""
    if not share >= 0.0005:  # shown as 0 %, or not a number
        return Style()
    red, green, blue = (float(np.interp(share, (0, 0.5, 1), channel)) for channel in zip(*_HEAT, strict=True))
    ink = "#000000" if 0.299 * red + 0.587 * green + 0.114 * blue > 118 else "#ffffff"
    return Style(color=ink, bgcolor=Color.from_rgb(red, green, blue))


# Tables


def elisions(count: int, named: bool) -> Iterator[list[int | None]]:
    """The indices of an axis to show, as many as are legible, then fewer and fewer; None marks a gap.

    >>> next(elisions(512, named=False))
    [0, 1, None, 511]
    """
    whole, kept = (12, 11) if named else (6, 3)
    if count <= whole:
        yield list(range(count))
    for shown in range(min(kept, count - 1), 0, -1):
        yield [*range(shown - shown // 2), None, *range(count - shown // 2, count)]


def _in_one_line(tables: Sequence[Table], indent: int, room: int | None) -> list[Text]:
    lines = _block(tables[0], indent, room)
    for table in tables[1:]:
        edge = max(map(_reach, lines)) + 2
        pairs = zip_longest(lines, _block(table, 0, room), fillvalue=Text())
        lines = [Text.assemble(left, " " * (edge - left.cell_len), right) for left, right in pairs]
    return lines


def _block(table: Table, indent: int, room: int | None) -> list[Text]:
    """One table, with row labels if there is an indent, and fewer columns where not all fit."""
    rows = next(elisions(table.values.shape[0], named=bool(table.rows)))
    for columns in elisions(table.values.shape[1], named=bool(table.columns)):
        grid = _grid(table, rows, columns)
        if room is None or indent + max(map(_reach, grid)) <= room:
            break
    labels = _labels(table) if indent else []
    labels = [""] * (len(grid) - len(labels)) + labels
    named = [Text.assemble((padded(label, indent), "cyan"), line) for label, line in zip(labels, grid, strict=True)]
    return [Text(" " * (indent + 1)) + line for line in _caption(table)] + named


def _labels(table: Table) -> list[str]:
    shown = next(elisions(len(table.rows), named=True))
    return ["⋮" if row is None else visible(table.rows[row]) for row in shown]


def _caption(table: Table) -> list[Text]:
    name, formula, shape = Text(table.name, "bold"), Text(table.formula), Text(table.shape, "dim")
    lines = [(name, formula), (shape,)] if table.formula else [(name, shape)]
    return [Text("  ").join(line) for line in lines]


def _grid(table: Table, rows: list[int | None], columns: list[int | None]) -> list[Text]:
    """The numbers as lines of equal width, below the column words if there are any."""
    values = table.values[np.ix_(*([place for place in axis if place is not None] for axis in (rows, columns)))]
    texts = [percent(share) for share in values.ravel().tolist()] if table.shares else formatted(values.ravel())
    if table.shares and table.blank_zeros:
        texts = [text if share else "" for text, share in zip(texts, values.ravel().tolist(), strict=True)]
    cells = np.array(texts, dtype=object).reshape(values.shape)
    if None in columns:
        cells = np.insert(cells, columns.index(None), "…", axis=1)
    if None in rows:
        cells = np.insert(cells, rows.index(None), "⋮", axis=0)
    heads = [Text()] if table.columns else []
    lines = [Text() for _ in rows]
    for place, column in zip(columns, cells.T.tolist(), strict=True):
        if not table.shares:  # aligned at the decimal points
            tails = [len(cell) - len(cell.partition(".")[0]) for cell in column]
            column = [cell + " " * (max(tails) - tail) for cell, tail in zip(column, tails, strict=True)]
        word = "…" if place is None else visible(table.columns[place], _HEADER_WIDTH) if table.columns else ""
        width = max(map(cell_len, [word, *column]))
        for head in heads:
            head.append(f" {' ' * (width - cell_len(word))}{word} ", "cyan")
        for row, line, cell in zip(rows, lines, column, strict=True):
            shaded = table.shares and row is not None and place is not None
            line.append(f" {cell:>{width}} ", heat(float(table.values[row, place])) if shaded else None)
    return heads + lines


def _reach(line: Text) -> int:
    """The width without trailing spaces."""
    return cell_len(line.plain.rstrip())


# Mixtures


def made_of(row: int, words: Sequence[str], weights: NDArray[np.float64], width: int) -> Text:
    """One output as a sum of values, wrapped between terms."""
    elided = len(words) > _TERMS + 1
    named = _TERMS if elided else len(words)
    heaviest = sorted(np.argsort(-weights)[:named].tolist())  # in word order
    shares = {place: float(weights[place]) for place in heaviest}
    if elided:
        shares = {place: share for place, share in shares.items() if percent(share) != "0 %"}
    terms = [
        Text.assemble((percent(share), heat(share)), f' v("{visible(words[place])}")')
        for place, share in shares.items()
    ]
    others = percent(float(np.delete(weights, list(shares)).sum()))
    if elided and others != "0 %":
        terms.append(Text(f"{others} of {len(words) - len(shares)} others"))
    lines = [Text(f'z("{visible(words[row])}")')]
    for n, term in enumerate(terms):
        term = Text(" + " if n else " = ") + term
        if lines[-1].cell_len + term.cell_len > width:
            lines.append(Text("   "))
        lines[-1].append_text(term)
    return Text("\n").join(lines)


# Shades


def largest(values: NDArray[np.floating]) -> float:
    """The largest number, to divide by: NaN is ignored, and it is 1 if nothing is above 0."""
    return float(np.nanmax(values, initial=0.0)) or 1.0


def pooled(values: NDArray[np.floating], rows: int, columns: int) -> NDArray[np.floating]:
    """The last two axes in at most this many bins of even size: bin n of N starts at n · tokens // N.

    >>> pooled(np.arange(8.0).reshape(2, 4), 2, 2).tolist()
    [[0.5, 2.5], [4.5, 6.5]]
    """
    for axis, bins in ((-2, rows), (-1, columns)):
        count = values.shape[axis]
        if count > bins:
            edges = np.arange(bins + 1) * count // bins
            sizes = np.diff(edges).astype(values.dtype)
            summed = np.add.reduceat(values, edges[:-1], axis=axis)
            values = summed / (sizes[:, None] if axis == -2 else sizes)
    return values


def shaded(
    values: NDArray[np.floating], rows: Sequence[str], width: int, lines: int = _LINES, columns: Sequence[str] = ()
) -> Text:
    """Two characters for each number, darker for larger ones, pooled to fit; legible in a log file too.

    The words of the columns, if there are any, stand upright above them.

    >>> print(shaded(np.array([[1.0, 0.0], [0.5, 0.5]]), ["a", "b"], 80, columns=["a", "to"]).plain)
        t
      a o
    a ██
    b ▒▒▒▒
    """
    bins = pooled(values, *shaded_bins(values.shape, width, lines))
    labels, heads = (
        [visible(words[n * len(words) // count]) for n in range(count) if words]
        for words, count in zip((rows, columns), bins.shape, strict=True)
    )
    indent = max(map(cell_len, labels))
    scale = largest(bins)
    drawn = [Text(" " * (indent + 1) + line, "cyan") for line in _upright(heads)]
    for label, row in zip(labels, bins, strict=True):
        line = Text.assemble((padded(label, indent) + " ", "cyan"))
        for share in (row / scale).tolist():
            line.append_text(shade(share, _SHADES))
        drawn.append(line)
    for line in drawn:
        line.rstrip()
    return Text("\n").join(drawn)


def shade(share: float, signs: str) -> Text:
    """Two cells in the colour of a share; without colour, the sign (of six) is the shade."""
    sign = "?" if math.isnan(share) else signs[min(math.ceil(share * 5 - 1e-9), 5)]
    colour = heat(share).bgcolor
    return Text(2 * sign, Style(color=colour, bgcolor=colour))


def shaded_bins(shape: Sequence[int], width: int, lines: int = _LINES) -> tuple[int, int]:
    """How many lines a heat map has, and how many places a line, where there is room for `width` cells."""
    return min(shape[0], lines), min(shape[1], max((width - 18) // 2, 1))


def _upright(words: Sequence[str]) -> list[str]:
    """Words written downwards, two cells for each, ending in the same line.

    >>> _upright(["A", "dog", "ate"])
    ['  d a ', '  o t ', 'A g e ']
    """
    columns: list[list[str]] = []
    for word in words:
        characters: list[str] = []
        for character in word:
            if characters and not cell_len(character):  # an accent or joiner
                characters[-1] += character
            else:
                characters.append(character)
        columns.append(characters if len(characters) <= _HEIGHT else [*characters[: _HEIGHT - 1], "…"])
    height = max(map(len, columns), default=0)
    filled = [[""] * (height - len(each)) + each for each in columns]
    return ["".join(padded(each[line], 2) for each in filled) for line in range(height)]


# HTML

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
        length = 0.0 if math.isnan(cell) else _BAR * min(max(cell, 0.0), 1.0)
        number = f'<span style="{_NUMBER_STYLE}">{percent(cell)}</span>'
        bar = f'{number}<span style="{_BAR_STYLE};width:{length:.2f}em"></span>'
        return f'<td style="{_CELL};text-align:left;white-space:nowrap">{bar}</td>'
    if isinstance(cell, int):
        return f'<td style="{_CELL};text-align:right">{cell:,}</td>'
    return f'<td style="{_CELL};text-align:left">{_escaped(cell or "")}</td>'


def _escaped(text: str) -> str:
    return html.escape(visible(text, _WIDTH))
