"""`schematic`: the way of one word through self-attention, from its vector to its output."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from rich.cells import cell_len
from rich.text import Text

from regard.drawing.arguments import places
from regard.drawing.cells import strip, symbol
from regard.drawing.picture import Picture
from regard.drawing.svg import Canvas, rgb, shorten
from regard.drawing.terminal import formatted, percent, visible
from regard.errors import InputError, TooLargeError

__all__ = ["schematic"]

_WORDS = 8  # side by side
_PART = 96.0  # a vector and the space beside it
_STAGES = ("inputs", "projections", "scores", "weights", "output")
_MATRICES = ("queries", "keys", "values")


def schematic(
    *,
    x: NDArray[np.float64],
    queries: NDArray[np.float64],
    keys: NDArray[np.float64],
    values: NDArray[np.float64],
    words: tuple[str, ...],
    word: int | str = 0,
    until: str = "output",
    matrices: Sequence[str] = _MATRICES,
    title: str = "",
    caption: str = "",
) -> Picture:
    """One word's way: its input, query, key and value; its scores with all keys; its weights; its output.

    >>> eye = np.eye(2)
    >>> print(schematic(x=eye, queries=eye, keys=eye, values=eye, words=("I", "am"), word="I"))
    x("I")  →  q("I"), k("I"), v("I")
    scores      I 1      am 0
    ÷ √2        I 0.707  am 0.000
    softmax     I 67 %   am 33 %
    z("I") = 67 % v("I") + 33 % v("am")
    """
    if until not in _STAGES:
        raise InputError(f"until must be one of {', '.join(map(repr, _STAGES))}. Got {until!r}.")
    if not set(matrices) <= set(_MATRICES):
        raise InputError(f"matrices must be some of {', '.join(map(repr, _MATRICES))}. Got {list(matrices)}.")
    if len(words) > _WORDS:
        raise TooLargeError(f"a schematic has room for {_WORDS} words side by side. Got {len(words)}. Choose a part.")
    (at,) = places("word", word, words)
    depth = _STAGES.index(until)
    scores = keys @ queries[at]
    scaled = scores / np.sqrt(keys.shape[1])
    powers = np.exp(scaled - scaled.max())
    weights = powers / powers.sum()
    vectors = {"queries": queries, "keys": keys, "values": values}
    shown = [name for name in _MATRICES if name in matrices]

    def draw(canvas: Canvas) -> None:
        _Schematic(canvas, words, at, shown).draw(depth, x, vectors, scores, scaled, weights)

    def text(room: int) -> Text:
        return _text(words, at, shown, depth, scores, scaled, weights, keys.shape[1])

    numbers = {"x": x, **{name: vectors[name] for name in shown}, "weights": weights}
    return Picture("schematic", numbers, draw, text, title, caption, words)


class _Schematic:
    """The places of a schematic: a column for each word, a line for each stage."""

    def __init__(self, canvas: Canvas, words: tuple[str, ...], at: int, shown: Sequence[str]):
        self.canvas, self.words, self.at, self.shown = canvas, words, at, shown
        self.wide = max(_PART * max(len(shown), 1) + 30, 150.0)
        self.lefts = [n * self.wide for n in range(len(words))]

    def middle(self, n: int) -> float:
        return self.lefts[n] + (self.wide - 30) / 2

    def spot(self, n: int, name: str) -> float:
        """The middle of a word's query, key or value."""
        return self.middle(n) + _PART * (self.shown.index(name) - (len(self.shown) - 1) / 2)

    def draw(
        self, depth: int, x: NDArray[np.float64], vectors: dict[str, NDArray[np.float64]],
        scores: NDArray[np.float64], scaled: NDArray[np.float64], weights: NDArray[np.float64],
    ) -> None:  # fmt: skip
        canvas, theme = self.canvas, self.canvas.theme
        for n, word in enumerate(self.words):
            strong = n == self.at and depth > 1
            canvas.text(
                self.middle(n), 14, shorten(word, self.wide - 30, 16), 16, "middle",
                theme.accent if strong else "", bold=True, title=visible(word, 400),
            )  # fmt: skip
            self._vector(self.middle(n), 28, x[n], _scale(x), "x", n)
            for name in self.shown if depth else ():
                letter = name[0]
                canvas.arrow(self.middle(n), 66, self.spot(n, name), 104, theme.muted)
                side = self.spot(n, name) + (8 if self.spot(n, name) >= self.middle(n) else -8)
                anchor = "start" if side > self.spot(n, name) else "end"
                canvas.text(side, 92, "W", 12, anchor, theme.muted, italic=True, sub=letter.upper())
                self._vector(self.spot(n, name), 108, vectors[name][n], _scale(vectors[name]), letter, n)
        if depth > 1:
            self._scores(scores, scaled, len(vectors["keys"][0]))
        if depth > 2:
            self._weights(weights)
        if depth > 3:
            self._output(weights, vectors["values"])
        canvas.reach(self.lefts[-1] + self.wide - 30, 0)

    def _vector(self, middle: float, y: float, numbers: NDArray[np.float64], scale: float, letter: str, n: int) -> None:
        width = 14.0 * min(len(numbers), 5)
        strip(self.canvas, middle - width / 2, y, numbers, scale)
        symbol(self.canvas, middle, y + 32, letter, self.words[n], "middle")

    def _box(self, n: int, y: float, text: str, number: str, title: str) -> None:
        canvas, theme = self.canvas, self.canvas.theme
        canvas.rect(self.middle(n) - 60, y, 120, 26, theme.panel, title=title, rx=5, stroke=theme.faint)
        canvas.text(self.middle(n), y + 18, f"{text}{number}", 13, "middle", pointer_events="none")

    def _scores(self, scores: NDArray[np.float64], scaled: NDArray[np.float64], d: int) -> None:
        canvas, theme = self.canvas, self.canvas.theme
        said, divided = formatted(scores), formatted(scaled)
        root = float(np.sqrt(d))
        for n, word in enumerate(self.words):
            if "queries" in self.shown:
                a, b = self.spot(self.at, "queries"), self.middle(n) - 20
                canvas.path(f"M{a:.1f} 146C{a:.1f} 186 {b:.1f} 166 {b:.1f} 204", theme.accent, 1.6)
            if "keys" in self.shown:
                a, b = self.spot(n, "keys"), self.middle(n) + 20
                canvas.path(f"M{a:.1f} 146C{a:.1f} 176 {b:.1f} 176 {b:.1f} 204", theme.muted, 1.6)
            self._box(n, 204, "q · k = ", said[n], f"{self.words[self.at]} · {word}")
            canvas.arrow(self.middle(n), 230, self.middle(n), 256, theme.muted)
            self._box(n, 256, f"÷ {root:.3g} = ", divided[n], f"÷ √{d}")

    def _weights(self, weights: NDArray[np.float64]) -> None:
        canvas, theme = self.canvas, self.canvas.theme
        right = self.lefts[-1] + self.wide - 30
        if "values" in self.shown:  # behind the box
            for n in range(len(self.words)):
                canvas.line(self.spot(n, "values"), 148, self.spot(n, "values"), 396, theme.faint, 1.6)
        for n in range(len(self.words)):
            canvas.arrow(self.middle(n), 282, self.middle(n), 306, theme.muted)
        canvas.rect(0, 306, right, 28, theme.panel, rx=5, stroke=theme.faint)
        canvas.text(right / 2, 325, "softmax: exp of each, divided by the sum of all", 13, "middle")
        for n, share in enumerate(weights.tolist()):
            paint = theme.heat(np.array(share))
            canvas.arrow(self.middle(n), 334, self.middle(n), 356, theme.muted)
            canvas.rect(self.middle(n) - 32, 356, 64, 24, rgb(paint), rx=12, stroke=theme.faint)
            canvas.text(self.middle(n), 373, percent(share), 13, "middle", theme.ink_on(paint), bold=True)

    def _output(self, weights: NDArray[np.float64], values: NDArray[np.float64]) -> None:
        canvas, theme = self.canvas, self.canvas.theme
        total = self.middle(self.at)
        for n, share in enumerate(weights.tolist()):
            x = self.spot(n, "values") if "values" in self.shown else self.middle(n)
            canvas.line(self.middle(n) + (32 if x > self.middle(n) else 0), 370, x, 404, theme.muted)
            canvas.path(
                f"M{x:.1f} 412C{x:.1f} 450 {total:.1f} 440 {total:.1f} 474", theme.colour(0),
                max(10 * share, 0.4), stroke_opacity=0.4 + 0.6 * share, data_mark="",
            )  # fmt: skip
            canvas.circle(x, 406, 10, theme.background, stroke=theme.muted)
            canvas.text(x, 411, "×", 15, "middle")
        canvas.circle(total, 482, 12, theme.background, stroke=theme.ink, stroke_width=1.4)
        canvas.text(total, 488, "+", 18, "middle")
        canvas.arrow(total, 494, total, 516, theme.muted)
        self._vector(total, 520, weights @ values, _scale(values), "z", self.at)


def _scale(values: NDArray[np.float64]) -> float:
    return float(np.nanmax(np.abs(values), initial=0.0)) or 1.0


def _text(
    words: tuple[str, ...], at: int, shown: Sequence[str], depth: int, scores: NDArray[np.float64],
    scaled: NDArray[np.float64], weights: NDArray[np.float64], d: int,
) -> Text:  # fmt: skip
    name = visible(words[at])
    some = ", ".join(f'{letter[0]}("{name}")' for letter in shown)
    lines = [f'x("{name}")' + (f"  →  {some}" if depth and some else "")]
    cells_ = [formatted(scores), formatted(scaled), [percent(share) for share in weights.tolist()]]
    heads = ["scores", f"÷ √{d}", "softmax"]
    terms = [[f"{visible(word)} {cell}" for word, cell in zip(words, row, strict=True)] for row in cells_]
    wide = [max(map(cell_len, column)) for column in zip(*terms, strict=True)]
    count = 3 if depth > 2 else 2 if depth > 1 else 0
    for head, row in zip(heads[:count], terms[:count], strict=True):
        padded = (term + " " * (w - cell_len(term)) for term, w in zip(row, wide, strict=True))
        lines.append(f"{head:<10}  " + "  ".join(padded).rstrip())
    if depth > 3:
        total = " + ".join(f'{percent(share)} v("{visible(word)}")' for word, share in zip(words, weights, strict=True))
        lines.append(f'z("{name}") = {total}')
    return Text("\n".join(lines))
