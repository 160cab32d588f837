"""`flow`: where a word's attention goes, from layer to layer, down to the words of the input."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray
from rich.text import Text

from regard.drawing.arguments import as_numbers, as_words, isolated, places
from regard.drawing.picture import Picture
from regard.drawing.svg import Canvas, measure, shorten
from regard.drawing.terminal import heat, percent, visible
from regard.errors import ShapeError, TooLargeError

__all__ = ["flow"]

_WORDS, _LAYERS = 200, 60
_LEAST = 0.003  # of the whole: thinner is not drawn
_ROW, _STEP, _THICK, _FONT = 24.0, 120.0, 24.0, 14.0


def flow(
    layers: Sequence[NDArray[np.floating]],
    words: Iterable[str] | None = None,
    start: int | str = -1,
    *,
    title: str = "",
    caption: str = "",
) -> Picture:
    """A word's attention as a layered graph: `layers` are (words, words), the first layer of the model first.

    The word has all of it at the top; each word there hands its share on to those that it looks at.

    >>> halves = np.array([[1.0, 0.0], [0.5, 0.5]])
    >>> print(flow([halves, halves], ["dog", "it"], "it"))
    layer 2  it 100 %
    layer 1  dog 50 %  it 50 %
    input    dog 75 %  it 25 %
    Lines below 0.3 % of the whole are not drawn.
    """
    every = [as_numbers(f"layers[{n}]", layer, ("words", "words")) for n, layer in enumerate(layers)]
    if not every or len({layer.shape for layer in every}) > 1 or every[0].shape[0] != every[0].shape[1]:
        shapes = ", ".join(str(layer.shape) for layer in every) or "none"
        raise ShapeError(f"layers must be one or more of one shape (words, words). Got {shapes}.")
    known = as_words("words", words, len(every[0]), "layers' rows")
    if len(known) > _WORDS or len(every) > _LAYERS:
        raise TooLargeError(
            f"flow can follow {_WORDS} words through {_LAYERS} layers. "
            f"Got {len(known)} and {len(every)}. Choose a part."
        )
    (first,) = places("start", start, known)
    shares = [np.zeros(len(known))]  # from the top down
    shares[0][first] = 1.0
    for layer in reversed(every):
        shares.append(shares[-1] @ layer)
    shares = shares[::-1]

    def draw(canvas: Canvas) -> None:
        _draw(canvas, every, known, shares, first)

    def text(room: int) -> Text:
        return _text(known, shares, room)

    note = f"Lines below {percent(_LEAST)} of the whole are not drawn."
    numbers = {f"layer {n + 1}": layer for n, layer in enumerate(every)}
    return Picture("flow", numbers, draw, text, title, f"{caption} {note}".strip(), known)


def _draw(
    canvas: Canvas, layers: Sequence[NDArray[np.floating]], words: Sequence[str],
    shares: Sequence[NDArray[np.floating]], first: int,
) -> None:  # fmt: skip
    theme = canvas.theme
    room = max(measure(shorten(word, 130, _FONT), _FONT, bold=True) for word in words)
    left, top = room + 62, 34.0
    xs = [left + n * _STEP for n in range(len(shares))]
    ys = [top + n * _ROW for n in range(len(words))]
    for n, layer in enumerate(layers):
        amounts = shares[n + 1][:, None] * layer
        for row, column in np.argwhere(np.nan_to_num(amounts) >= _LEAST):
            amount = float(amounts[row, column])
            x1, x2, middle = xs[n + 1], xs[n], (xs[n] + xs[n + 1]) / 2
            said = f"layer {n + 1}: {isolated(visible(words[row], 40))} → {isolated(visible(words[column], 40))}: "
            y1, y2 = ys[row], ys[column]
            canvas.path(
                f"M{x1:.1f} {y1:.1f}C{middle:.1f} {y1:.1f} {middle:.1f} {y2:.1f} {x2:.1f} {y2:.1f}",
                theme.colour(0), _THICK * amount, stroke_opacity=0.35 + 0.5 * amount,
                title=said + f"{percent(float(layer[row, column]))}, {percent(amount)} of the whole",
                data_mark="", data_row=row, data_column=column, data_layer=n,
            )  # fmt: skip
    for n, share in enumerate(shares):
        name = "input" if n == 0 else f"layer {n}"
        canvas.text(xs[n], 12, name, 12, "middle", theme.muted)
        for place, amount in enumerate(share.tolist()):
            said = f"{name}: {isolated(visible(words[place], 40))}: {percent(amount)}"
            if np.isnan(amount):
                canvas.text(xs[n], ys[place] + 4, "nan", 10, "middle", theme.muted, title=said)
                continue
            radius = 2 + 9 * float(np.sqrt(amount))
            paint = theme.accent if n == len(shares) - 1 and place == first else theme.colour(0)
            canvas.circle(xs[n], ys[place], radius, paint if amount >= _LEAST else theme.faint, title=said)
    for place, word in enumerate(words):
        amount = float(shares[0][place])
        canvas.text(
            room, ys[place] + 5, shorten(word, 130, _FONT), _FONT, "end", title=visible(word, max(8 * len(word), 1)),
            data_pick=f"column:{place}",
        )  # fmt: skip
        canvas.text(room + 8, ys[place] + 4, percent(amount), 11, fill=theme.muted)
    canvas.text(xs[-1] + 16, ys[first] + 5, shorten(words[first], 130, _FONT), _FONT, fill=theme.accent, bold=True)
    canvas.reach(xs[-1] + 30, ys[-1] + 14)


def _text(words: Sequence[str], shares: Sequence[NDArray[np.floating]], width: int) -> Text:
    """The greatest shares of each layer, from the top down."""
    names = ["input", *(f"layer {n}" for n in range(1, len(shares)))]
    indent = max(map(len, names)) + 2
    lines = []
    for name, share in reversed(list(zip(names, shares, strict=True))):
        line = Text.assemble((name.ljust(indent), "cyan"))
        for place in sorted(np.argsort(-share, kind="stable")[:8].tolist()):
            amount = float(share[place])
            term = Text.assemble(visible(words[place]), " ", (percent(amount), heat(amount)), "  ")
            if percent(amount) != "0 %" and line.cell_len + term.cell_len - 2 <= width:
                line.append_text(term)
        line.rstrip()
        lines.append(line)
    return Text("\n").join(lines)
