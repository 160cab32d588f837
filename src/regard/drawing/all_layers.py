"""All layers of a model: `grid`, thumbnails of the heads; `flow`, one word's path; `head_map`, what each head does."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from rich.text import Text

from regard.drawing.arguments import (
    as_array,
    as_numbers,
    as_weights,
    as_words,
    axis_words,
    places,
    pooling_note,
    spans,
)  # fmt: skip
from regard.drawing.picture import Picture
from regard.drawing.svg import Canvas, Raster, curve, in_full, isolated, measure, shorten
from regard.drawing.terminal import heat, largest, padded, percent, pooled, shaded, visible
from regard.errors import ShapeError, TooLargeError

__all__ = ["flow", "grid", "head_map"]

_NUMBERS = 700_000  # in all thumbnails together: at four bytes each, a page stays within its budget
_BINS = 64
_THUMBNAILS = 12  # in a line that is not one layer
_FLOW_WORDS, _FLOW_LAYERS = 200, 60
_SMALLEST = 0.003  # share of the whole below which no line is drawn
_ROW_HEIGHT, _STEP, _THICKNESS, _FONT = 24.0, 120.0, 24.0, 14.0
_FLOW_WIDTH = 1100.0  # of all steps together, so that a deep model fits on a page


def grid(
    weights: NDArray[np.floating] | Sequence[NDArray[np.floating]],
    rows: Iterable[str] | None = None,
    columns: Iterable[str] | None = None,
    *,
    captions: Sequence[Sequence[str]] | None = None,
    numbers: Sequence[Sequence[tuple[int, int]]] | None = None,
    sort: NDArray[np.floating] | None = None,
    title: str = "",
    caption: str = "",
) -> Picture:
    """Weights (layers, heads, rows, columns) as thumbnails, a line for each layer; or sorted by `sort`, descending.

    `captions` and `sort` hold a text and a number for each layer and head; `numbers` holds the (layer, head) to show
    if they are not counted from 0.

    >>> heads = np.random.default_rng(0).dirichlet(np.ones(4), size=(2, 3, 4))
    >>> picture = grid(heads, "a dog ate it".split(), sort=heads.max((-2, -1)))
    >>> picture.to_svg().count("<image")
    6
    """
    layers = [as_array(f"weights[{n}]", layer) for n, layer in enumerate(weights)]
    # Pooled layer by layer, to avoid a copy of all weights.
    bins = max(min(math.isqrt(_NUMBERS // max(sum(map(len, layers)), 1)), _BINS), 8)
    axes = ("heads", "rows", "columns")
    small = [pooled(as_weights(f"weights[{n}]", layer, axes), bins, bins) for n, layer in enumerate(layers)]
    if not layers:
        raise ShapeError("weights must be (layers, heads, rows, columns), each at least 1. Got no layer.")
    if len({layer.shape[1:] for layer in layers}) > 1:
        shapes = ", ".join(str(layer.shape) for layer in layers)
        raise ShapeError(f"the layers must have the same rows and columns. Got {shapes}. Draw one grid for each.")
    height, width = layers[0].shape[1:]
    row_words, column_words = axis_words(rows, columns, (height, width))
    order = [(layer, head) for layer, heads in enumerate(small) for head in range(len(heads))]
    key = None if sort is None else as_numbers("sort", sort, ("layers", "heads"))
    counts = [len(layer) for layer in small]
    for name, table in (("sort", key), ("captions", captions), ("numbers", numbers)):
        if table is not None and [len(line) for line in table] != counts:
            got = [len(line) for line in table]
            raise ShapeError(f"{name} must have one for each head of each layer: heads = {counts}. Got {got}.")
    names, texts = {place: place for place in order}, {}
    if key is not None:
        order.sort(key=lambda place: -float(key[place]))
        texts = {place: f"{key[place]:.3g}" for place in order}
    if captions is not None:
        texts = {(layer, head): captions[layer][head] for layer, head in order}
    if numbers is not None:
        names = {(layer, head): numbers[layer][head] for layer, head in order}
    notes = [caption, "Named layer · head; each is shaded up to its own greatest weight, by the square root."]
    if max(height, width) > bins:
        notes.append(pooling_note((height, width), small[0].shape[1:]))
    by_layer = [[place for place in order if place[0] == layer] for layer in range(len(small))]
    groups, most = (by_layer, 16) if sort is None else ([order], _THUMBNAILS)
    lines = [heads[start : start + most] for heads in groups for start in range(0, len(heads), most)]

    def draw(canvas: Canvas) -> None:
        rows, columns = small[0].shape[1:]
        canvas.labels |= {"rows": spans(row_words, rows), "columns": spans(column_words, columns)}
        tall, wide = (84.0 * max(side / max(rows, columns), 0.25) for side in (rows, columns))
        step = tall + (34 if texts else 20)
        for n, line in enumerate(lines):
            for m, (layer, head) in enumerate(line):
                values = small[layer][head]
                x, y = m * (wide + 12), n * step + 14
                name = "layer {}, head {}".format(*names[layer, head])
                canvas.text(x, y - 4, "{} · {}".format(*names[layer, head]), 11, fill=canvas.theme.muted, title=name)
                shares = np.sqrt(values / largest(values))
                canvas.image(x, y, wide, tall, Raster(values, name, "rows", "columns"), shares)
                canvas.rect(x, y, wide, tall, stroke=canvas.theme.faint, pointer_events="none")
                if texts:
                    below = texts[layer, head]
                    canvas.text(x, y + tall + 13, shorten(below, wide, 11), 11, title=below)

    held = {f"layer {names[n, 0][0]}": layer for n, layer in enumerate(small)}
    return Picture(
        "grid", held, draw, lambda room: _grid_text(small, lines, names, texts, room), title,
        " ".join(filter(None, notes)), row_words,
    )  # fmt: skip


def _grid_text(
    small: Sequence[NDArray[np.floating]],
    lines: list[list[tuple[int, int]]],
    names: dict[tuple[int, int], tuple[int, int]],
    texts: dict[tuple[int, int], str],
    width: int,
) -> Text:
    """Thumbnails of eight by eight numbers, side by side."""
    per_line = max((width + 2) // 18, 1)
    blocks = []
    for line in lines:
        for start in range(0, len(line), per_line):
            thumbnails = []
            for layer, head in line[start : start + per_line]:
                values = np.sqrt(pooled(small[layer][head], 8, 8))
                name = "{}·{} {}".format(*names[layer, head], texts.get((layer, head), ""))[:16]
                body = shaded(values, [""] * len(values), 34).split("\n")
                thumbnails.append([Text(name, "cyan"), *(row[1:] for row in body)])
            blocks.append(_side_by_side(thumbnails))
    shown = blocks[:40]
    if len(blocks) > len(shown):
        shown.append(Text(f"… {len(blocks) - 40} lines more", "dim"))
    return Text("\n").join(shown)


def _side_by_side(blocks: list[list[Text]]) -> Text:
    """Join blocks of lines, each 18 cells wide."""
    lines = []
    for parts in zip(*blocks, strict=True):
        line = Text()
        for n, part in enumerate(parts):
            line.append(" " * (18 * n - line.cell_len))
            line.append_text(part)
        line.rstrip()
        lines.append(line)
    return Text("\n").join(lines)


def flow(
    layers: Sequence[NDArray[np.floating]],
    words: Iterable[str] | None = None,
    start: int | str = -1,
    *,
    title: str = "",
    caption: str = "",
) -> Picture:
    """A word's attention as a layered graph: `layers` are (words, words), the model's first layer first.

    At the top the word has all of it; in each layer, every word passes its share on to the words it looks at.

    >>> halves = np.array([[1.0, 0.0], [0.5, 0.5]])
    >>> print(flow([halves, halves], ["dog", "it"], "it"))
    layer 1  it 100 %
    layer 0  dog 50 %  it 50 %
    input    dog 75 %  it 25 %
    Lines below 0.3 % of the whole are not drawn.
    """
    checked = [as_weights(f"layers[{n}]", layer, ("words", "words")) for n, layer in enumerate(layers)]
    if not checked or len({layer.shape for layer in checked}) > 1 or checked[0].shape[0] != checked[0].shape[1]:
        shapes = ", ".join(str(layer.shape) for layer in checked) or "none"
        raise ShapeError(f"layers must be one or more of one shape (words, words). Got {shapes}.")
    names = as_words("words", words, len(checked[0]), "layers' rows")
    if len(names) > _FLOW_WORDS or len(checked) > _FLOW_LAYERS:
        raise TooLargeError(
            f"flow can follow {_FLOW_WORDS} words through {_FLOW_LAYERS} layers. "
            f"Got {len(names)} and {len(checked)}. Choose a part."
        )
    (first,) = places("start", start, names)
    shares = [np.zeros(len(names))]  # from the top down
    shares[0][first] = 1.0
    for layer in reversed(checked):
        shares.append(shares[-1] @ layer)
    shares = shares[::-1]

    note = f"Lines below {percent(_SMALLEST)} of the whole are not drawn."
    numbers = {f"layer {n}": layer for n, layer in enumerate(checked)}
    return Picture(
        "flow", numbers, lambda canvas: _draw_flow(canvas, checked, names, shares, first),
        lambda room: _flow_text(names, shares, room), title, f"{caption} {note}".strip(), names,
    )  # fmt: skip


def _draw_flow(
    canvas: Canvas, layers: Sequence[NDArray[np.floating]], words: Sequence[str],
    shares: Sequence[NDArray[np.floating]], first: int,
) -> None:  # fmt: skip
    theme = canvas.theme
    label = max(measure(shorten(word, 130, _FONT), _FONT, bold=True) for word in words)
    left, top = label + 62, 34.0
    step = min(_STEP, _FLOW_WIDTH / len(layers))
    named = math.ceil(50 / step)  # one of this many layers has room for its name
    xs = [left + n * step for n in range(len(shares))]
    ys = [top + n * _ROW_HEIGHT for n in range(len(words))]
    for n, layer in enumerate(layers):
        amounts = shares[n + 1][:, None] * layer
        for row, column in np.argwhere(np.nan_to_num(amounts) >= _SMALLEST):
            amount = float(amounts[row, column])
            pair = f"{isolated(words[row])} → {isolated(words[column])}"
            canvas.path(
                curve(xs[n + 1], ys[row], xs[n], ys[column]),
                theme.colour(0), _THICKNESS * amount, stroke_opacity=0.35 + 0.5 * amount,
                title=f"layer {n}: {pair}: {percent(float(layer[row, column]))}, {percent(amount)} of the whole",
                data_mark="", data_row=row, data_column=column, data_layer=n,
            )  # fmt: skip
    for n, share in enumerate(shares):
        name = "input" if n == 0 else f"layer {n - 1}"
        if n == 0 or (n >= named and (len(layers) - n) % named == 0):
            canvas.text(xs[n], 12, name, 12, "middle", theme.muted)
        for place, amount in enumerate(share.tolist()):
            tooltip = f"{name}: {isolated(words[place])}: {percent(amount)}"
            if np.isnan(amount):
                canvas.text(xs[n], ys[place] + 4, "nan", 10, "middle", theme.muted, title=tooltip)
                continue
            radius = 2 + 9 * float(np.sqrt(amount))
            colour = theme.accent if n == len(shares) - 1 and place == first else theme.colour(0)
            canvas.circle(xs[n], ys[place], radius, colour if amount >= _SMALLEST else theme.faint, title=tooltip)
    for place, word in enumerate(words):
        amount = float(shares[0][place])
        canvas.text(
            label, ys[place] + 5, shorten(word, 130, _FONT), _FONT, "end", title=in_full(word),
            data_pick=f"column:{place}",
        )  # fmt: skip
        canvas.text(label + 8, ys[place] + 4, percent(amount), 11, fill=theme.muted)
    canvas.text(xs[-1] + 16, ys[first] + 5, shorten(words[first], 130, _FONT), _FONT, fill=theme.accent, bold=True)
    canvas.reach(xs[-1] + 30, ys[-1] + 14)


def _flow_text(words: Sequence[str], shares: Sequence[NDArray[np.floating]], width: int) -> Text:
    """The largest shares of each layer, from the top down."""
    names = ["input", *(f"layer {n}" for n in range(len(shares) - 1))]
    indent = max(map(len, names)) + 2
    lines = []
    for name, share in reversed(list(zip(names, shares, strict=True))):
        line = Text.assemble((name.ljust(indent), "cyan"))
        terms: dict[int, Text] = {}
        room = width - line.cell_len + 2
        for place in np.argsort(-share, kind="stable")[:8].tolist():
            amount = float(share[place])
            term = Text.assemble(visible(words[place]), " ", (percent(amount), heat(amount)), "  ")
            if percent(amount) != "0 %" and term.cell_len <= room:
                terms[place], room = term, room - term.cell_len
        for place in sorted(terms):
            line.append_text(terms[place])
        line.rstrip()
        lines.append(line)
    return Text("\n").join(lines)


_CELL, _GAP, _CELL_FONT = 26.0, 3.0, 12.0
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
    """What each head does, a line for each layer, and the share of its attention that goes there.

    `rows` name the layers, `hints` are shown on hover; `framed` heads have a frame, which the legend calls `frame`.

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
    names = [f"layer {n}" for n in range(len(counts))]
    names = names if rows is None else list(as_words("rows", rows, len(counts), "layers"))
    held = np.full((len(counts), max(counts)), np.nan)
    for n, line in enumerate(shares):
        held[n, : counts[n]] = as_weights("shares", line, ("heads",))
    every_role = Counter(role for line in roles for role in line)
    frequent = [role for role, _ in every_role.most_common() if role not in _PLAIN]
    signs = dict(zip(frequent, _SIGNS, strict=False)) | dict.fromkeys(frequent[len(_SIGNS) :], "+")
    signs |= dict.fromkeys(_PLAIN, "·")
    cells = [
        _HeadCell(
            n, m, signs[role], role, float(held[n, m]),
            hints[n][m] if hints is not None else f"{names[n]}, head {m}: {role}, {percent(float(held[n, m]))}",
            framed is not None and framed[n][m],
        )
        for n, line in enumerate(roles) for m, role in enumerate(line)
    ]  # fmt: skip
    legend = [(signs[role], role) for role in frequent[: len(_SIGNS)]]
    legend += [("+", "other")] if len(frequent) > len(_SIGNS) else []
    legend += [("·", role) for role in _PLAIN if role in every_role]
    explained = []
    for sign, role in legend:
        alike = [cell.share for cell in cells if cell.role == role or (role == "other" and cell.sign == "+")]
        mean = "" if role in _PLAIN else f", {percent(float(np.mean(alike)))} on average"
        explained.append((sign, role, f"{_heads(len(alike))}{mean}"))
    in_frames = sum(cell.framed for cell in cells)
    explained += [("□", frame, _heads(in_frames))] if in_frames else []
    return Picture(
        "head map", {"shares": held}, lambda canvas: _draw_head_map(canvas, cells, names, explained),
        lambda room: _head_map_text(cells, names, explained), title, caption, tuple(frequent),
    )  # fmt: skip


class _HeadCell(NamedTuple):
    """A head as a head map shows it."""

    layer: int
    place: int
    sign: str
    role: str
    share: float
    hint: str
    framed: bool


def _heads(count: int) -> str:
    return f"{count} head{'s' * (count != 1)}"


def _role_colour(canvas: Canvas, sign: str) -> str:
    order = (0, 1, 2, 3, 4, 6, 7, 5)  # the two blues of the palette far apart
    return canvas.theme.colour(order[_SIGNS.index(sign) % len(order)]) if sign in _SIGNS else canvas.theme.muted


def _draw_head_map(
    canvas: Canvas, cells: Sequence[_HeadCell], names: Sequence[str], legend: Sequence[tuple[str, str, str]]
) -> None:
    theme = canvas.theme
    frame: dict[str, Any] = {"stroke": theme.ink, "stroke_width": 2.5, "rx": 3}
    labels = [shorten(name, _LABEL, _CELL_FONT) for name in names]
    left, top = max(measure(label, _CELL_FONT) for label in labels) + 10, 18.0
    step = _CELL + _GAP
    width = max(cell.place for cell in cells) + 1
    for n in range(0, width, max(-(-width // 16), 1)):
        canvas.text(left + n * step + _CELL / 2, 10, str(n), 10, "middle", theme.muted)
    for cell in cells:
        x, y = left + cell.place * step, top + cell.layer * step
        if cell.place == 0:
            name = names[cell.layer]
            canvas.text(left - 10, y + 17, labels[cell.layer], _CELL_FONT, "end", theme.muted, title=in_full(name))
        faint = cell.sign == "·" or np.isnan(cell.share)
        canvas.rect(
            x, y, _CELL, _CELL, _role_colour(canvas, cell.sign), cell.hint, rx=3,
            fill_opacity=0.15 if faint else 0.25 + 0.65 * min(max(cell.share, 0.0), 1.0), data_mark="",
            data_role=cell.sign,
        )  # fmt: skip
        canvas.text(x + _CELL / 2, y + 18, cell.sign, 13, "middle", theme.ink, pointer_events="none")
        if cell.framed:
            canvas.rect(x, y, _CELL, _CELL, **frame, pointer_events="none")
    right = left + width * step + 24
    for n, (sign, role, heads) in enumerate(legend):
        y = top + n * 36
        if sign == "□":
            canvas.rect(right, y, 18, 18, **frame)
        else:
            opacity = 0.15 if sign == "·" else 0.7
            canvas.rect(right, y, 18, 18, _role_colour(canvas, sign), rx=3, fill_opacity=opacity)
            canvas.text(right + 9, y + 14, sign, 12, "middle")
        canvas.text(right + 26, y + 9, shorten(role, _LEGEND, 13), 13, title=in_full(role), data_pick=f"role:{sign}")
        canvas.text(right + 26, y + 24, heads, 11, fill=theme.muted)
    canvas.reach(right + _LEGEND, top + max(len(names) * step, len(legend) * 36))


def _head_map_text(cells: Sequence[_HeadCell], names: Sequence[str], legend: Sequence[tuple[str, str, str]]) -> Text:
    """A letter for each head, and a square after each framed head."""
    shown = [visible(name) for name in names]
    indent = max(map(len, shown))
    lines = [Text.assemble((padded(name, indent), "cyan"), "  ") for name in shown]
    for cell in cells:
        lines[cell.layer].append(f"{cell.sign}{'□' if cell.framed else ' '}")
    for line in lines:
        line.rstrip()
    width = max(len(visible(role, 40)) for _, role, _ in legend)
    lines += [Text(f"{sign} {padded(visible(role, 40), width)}  {heads}") for sign, role, heads in legend]
    return Text("\n").join(lines)
