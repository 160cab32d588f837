"""`schematic`, `set_layer`, `architecture` and `mechanism`: self-attention and the Transformer as diagrams."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.cells import cell_len
from rich.text import Text

from regard.drawing.arguments import as_numbers, as_weights, as_words, bounded, places
from regard.drawing.matrices import strip, symbol
from regard.drawing.picture import Picture
from regard.drawing.svg import Canvas, curve, measure, rgb, shorten
from regard.drawing.terminal import formatted, largest, padded, percent, visible
from regard.errors import InputError, ShapeError, TooLargeError

__all__ = ["architecture", "mechanism", "schematic", "set_layer"]

_WORDS = 8  # side by side
_VECTOR_WIDTH = 96.0  # with the space beside it
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
    """One word from its input to its output: query, key and value; scores with all keys; weights; weighted sum.

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
    words = as_words("words", words, len(words), "words")
    (query,) = places("word", word, words)
    x, queries, keys, values = (
        bounded(name, as_numbers(name, each, ("words", "d"))).astype(np.float64)
        for name, each in (("x", x), ("queries", queries), ("keys", keys), ("values", values))
    )
    if {len(x), len(queries), len(keys), len(values)} != {len(words)} or queries.shape != keys.shape:
        shapes = ", ".join(str(each.shape) for each in (x, queries, keys, values))
        raise ShapeError(
            f"x, queries, keys and values must have a row for each of the words: {len(words)}; queries and keys the "
            f"same d. Got {shapes}."
        )
    vectors = {"queries": queries, "keys": keys, "values": values}
    shown = [name for name in _MATRICES if name in matrices]
    scores = keys @ queries[query]
    scaled = scores / np.sqrt(keys.shape[1])
    powers = np.exp(scaled - scaled.max())
    weights = powers / powers.sum()
    drawn = _Schematic(words, query, shown, _STAGES.index(until), x, vectors, scores, scaled, weights)
    numbers = {"x": x, **{name: vectors[name] for name in shown}, "weights": weights}
    return Picture("schematic", numbers, drawn.draw, drawn.text, title, caption, words)


@dataclass(frozen=True, eq=False)
class _Schematic:
    """A column for each word, a line for each stage."""

    words: tuple[str, ...]
    query: int
    shown: Sequence[str]
    depth: int  # how many stages are drawn after the inputs
    x: NDArray[np.float64]
    vectors: dict[str, NDArray[np.float64]]
    scores: NDArray[np.float64]
    scaled: NDArray[np.float64]
    weights: NDArray[np.float64]

    @property
    def column_width(self) -> float:
        return max(_VECTOR_WIDTH * max(len(self.shown), 1) + 30, 150.0)

    @property
    def right(self) -> float:
        return self.column_width * len(self.words) - 30

    def middle(self, n: int) -> float:
        return n * self.column_width + (self.column_width - 30) / 2

    def vector_middle(self, n: int, name: str) -> float:
        """The middle of a word's query, key or value."""
        return self.middle(n) + _VECTOR_WIDTH * (self.shown.index(name) - (len(self.shown) - 1) / 2)

    def draw(self, canvas: Canvas) -> None:
        theme = canvas.theme
        for n, word in enumerate(self.words):
            middle, highlighted = self.middle(n), n == self.query and self.depth > 1
            canvas.text(
                middle, 14, shorten(word, self.column_width - 30, 16), 16, "middle",
                theme.accent if highlighted else "", bold=True, title=visible(word, 400),
            )  # fmt: skip
            self._vector(canvas, middle, 28, self.x[n], self.x, "x", n)
            for name in self.shown if self.depth else ():
                letter, x = name[0], self.vector_middle(n, name)
                canvas.arrow(middle, 66, x, 104, theme.muted)
                side, anchor = (x + 8, "start") if x >= middle else (x - 8, "end")
                canvas.text(side, 92, "W", 12, anchor, theme.muted, italic=True, sub=letter.upper())
                self._vector(canvas, x, 108, self.vectors[name][n], self.vectors[name], letter, n)
        for stage in (self._draw_scores, self._draw_weights, self._draw_output)[: max(self.depth - 1, 0)]:
            stage(canvas)
        canvas.reach(self.right, 0)

    def _vector(
        self, canvas: Canvas, middle: float, y: float, numbers: NDArray[np.float64], scale_of: NDArray[np.float64],
        letter: str, n: int,
    ) -> None:  # fmt: skip
        width = 14.0 * min(len(numbers), 5)
        strip(canvas, middle - width / 2, y, numbers, largest(np.abs(scale_of)))
        symbol(canvas, middle, y + 32, letter, self.words[n])

    def _draw_scores(self, canvas: Canvas) -> None:
        theme, d = canvas.theme, self.vectors["keys"].shape[1]
        products, quotients = formatted(self.scores), formatted(self.scaled)
        for n, word in enumerate(self.words):
            if "queries" in self.shown:
                a, b = self.vector_middle(self.query, "queries"), self.middle(n) - 20
                canvas.path(f"M{a:.1f} 146C{a:.1f} 186 {b:.1f} 166 {b:.1f} 204", theme.accent, 1.6)
            if "keys" in self.shown:
                a, b = self.vector_middle(n, "keys"), self.middle(n) + 20
                canvas.path(f"M{a:.1f} 146C{a:.1f} 176 {b:.1f} 176 {b:.1f} 204", theme.muted, 1.6)
            boxes = ((204, f"q · k = {products[n]}", f"{self.words[self.query]} · {word}"),
                     (256, f"÷ {float(np.sqrt(d)):.3g} = {quotients[n]}", f"÷ √{d}"))  # fmt: skip
            for y, text, title in boxes:
                canvas.rect(self.middle(n) - 60, y, 120, 26, theme.panel, title=title, rx=5, stroke=theme.faint)
                canvas.text(self.middle(n), y + 18, text, 13, "middle", pointer_events="none")
                if y == 204:
                    canvas.arrow(self.middle(n), 230, self.middle(n), 256, theme.muted)

    def _draw_weights(self, canvas: Canvas) -> None:
        theme, middles = canvas.theme, [self.middle(n) for n in range(len(self.words))]
        if "values" in self.shown:  # behind the box
            for n in range(len(self.words)):
                x = self.vector_middle(n, "values")
                canvas.line(x, 148, x, 396, theme.faint, 1.6)
        for middle in middles:
            canvas.arrow(middle, 282, middle, 306, theme.muted)
        canvas.rect(0, 306, self.right, 28, theme.panel, rx=5, stroke=theme.faint)
        canvas.text(self.right / 2, 325, "softmax: exp of each, divided by the sum of all", 13, "middle")
        for middle, share in zip(middles, self.weights.tolist(), strict=True):
            colour = theme.heat(np.array(share))
            canvas.arrow(middle, 334, middle, 356, theme.muted)
            canvas.rect(middle - 32, 356, 64, 24, rgb(colour), rx=12, stroke=theme.faint)
            canvas.text(middle, 373, percent(share), 13, "middle", theme.ink_on(colour), bold=True)

    def _draw_output(self, canvas: Canvas) -> None:
        theme, total, values = canvas.theme, self.middle(self.query), self.vectors["values"]
        for n, share in enumerate(self.weights.tolist()):
            middle = self.middle(n)
            x = self.vector_middle(n, "values") if "values" in self.shown else middle
            canvas.line(middle + (32 if x > middle else 0), 370, x, 404, theme.muted)
            canvas.path(
                f"M{x:.1f} 412C{x:.1f} 450 {total:.1f} 440 {total:.1f} 474", theme.colour(0),
                max(10 * share, 0.4), stroke_opacity=0.4 + 0.6 * share, data_mark="",
            )  # fmt: skip
            canvas.circle(x, 406, 10, theme.background, stroke=theme.muted)
            canvas.text(x, 411, "×", 15, "middle")
        canvas.circle(total, 482, 12, theme.background, stroke=theme.ink, stroke_width=1.4)
        canvas.text(total, 488, "+", 18, "middle")
        canvas.arrow(total, 494, total, 516, theme.muted)
        self._vector(canvas, total, 520, self.weights @ values, values, "z", self.query)

    def text(self, room: int) -> Text:
        name = visible(self.words[self.query])
        vectors = ", ".join(f'{letter[0]}("{name}")' for letter in self.shown)
        lines = [f'x("{name}")' + (f"  →  {vectors}" if self.depth and vectors else "")]
        shares = [percent(share) for share in self.weights.tolist()]
        d = self.vectors["keys"].shape[1]
        stages = {"scores": formatted(self.scores), f"÷ √{d}": formatted(self.scaled), "softmax": shares}
        terms = [[f"{visible(w)} {cell}" for w, cell in zip(self.words, row, strict=True)] for row in stages.values()]
        widths = [max(map(cell_len, column)) for column in zip(*terms, strict=True)]
        for stage, row in list(zip(stages, terms, strict=True))[: (0, 0, 2, 3, 3)[self.depth]]:
            columns = (padded(term, width) for term, width in zip(row, widths, strict=True))
            lines.append(f"{stage:<10}  " + "  ".join(columns).rstrip())
        if self.depth > 3:
            total = " + ".join(f'{share} v("{visible(w)}")' for w, share in zip(self.words, shares, strict=True))
            lines.append(f'z("{name}") = {total}')
        return Text("\n".join(lines))


def set_layer(
    words: Sequence[str], weights: NDArray[np.floating] | None = None, *, beside: bool = False, title: str = ""
) -> Picture:
    """Self-attention as a layer from a set of vectors to a set of vectors, optionally `beside` a fully connected layer.

    With weights (words, words), the lines inside show which word looks at which.

    >>> print(set_layer(["I", "am"], np.array([[0.9, 0.1], [0.5, 0.5]])))
    x(I), x(am) → self-attention → z(I), z(am)
      z(I) from x(I) 90 %, x(am) 10 %
      z(am) from x(I) 50 %, x(am) 50 %
    """
    shares = None if weights is None else as_weights("weights", weights, ("words", "words"))
    names = as_words("words", words, len(words) if shares is None else len(shares), "words")
    if not names:
        raise ShapeError("words must be at least 1. Got none: nothing to draw.")
    if shares is not None and shares.shape[0] != shares.shape[1]:
        raise ShapeError(f"weights must be (words, words), one shape on both sides. Got {shares.shape}.")

    def draw(canvas: Canvas) -> None:
        _draw_set(canvas, _draw_connected(canvas) + 90 if beside else 0.0, names, shares)

    def text(room: int) -> Text:
        shown = [visible(word) for word in names]
        lines = ["x → fully connected layer → h"] if beside else []
        ins, outs = (", ".join(f"{letter}({name})" for name in shown) for letter in "xz")
        lines.append(f"{ins} → self-attention → {outs}")
        for name, row in zip(shown, () if shares is None else shares.tolist(), strict=False):
            terms = ", ".join(f"x({n}) {percent(w)}" for n, w in zip(shown, row, strict=True))
            lines.append(f"  z({name}) from {terms}")
        return Text("\n".join(lines))

    return Picture("layer", {} if shares is None else {"weights": shares}, draw, text, title, "", names)


def _column(canvas: Canvas, x: float, y: float, letter: str, word: str) -> None:
    """A vector as a small vertical box of cells."""
    for n in range(4):
        canvas.rect(x - 9, y + n * 13, 18, 13, canvas.theme.panel, stroke=canvas.theme.muted, stroke_width=1)
    symbol(canvas, x, y + 70, letter, word)


def _draw_connected(canvas: Canvas) -> float:
    """A fully connected layer: lines from each number of one vector to each number of the next; returns its width."""
    theme = canvas.theme
    canvas.text(0, 14, "fully connected layer", 14, bold=True)
    canvas.text(0, 32, "one vector to one vector", 12, fill=theme.muted)
    for a in range(4):
        for b in range(4):
            canvas.line(54, 96 + 26 * a, 156, 96 + 26 * b, theme.colour(0), 1.1, stroke_opacity=0.55)
    for x, letter in ((40, "x"), (170, "h")):
        for n in range(4):
            canvas.circle(x, 96 + 26 * n, 11, theme.panel, stroke=theme.muted)
        canvas.text(x, 226, letter, 15, "middle", italic=True)
    return 184.0


def _draw_set(canvas: Canvas, left: float, words: tuple[str, ...], weights: NDArray[np.floating] | None) -> None:
    theme = canvas.theme
    step = max(80.0, max(measure(shorten(word, 110, 14), 14) for word in words) + 24)
    xs = [left + step * (n + 0.5) for n in range(len(words))]
    right = left + step * len(words)
    canvas.text(left, 14, "self-attention layer", 14, bold=True)
    canvas.text(left, 32, "a set of vectors to a set of the same size", 12, fill=theme.muted)
    high, low, base = (230.0, 294.0, 298.0) if weights is not None else (190.0, 250.0, 254.0)
    top = 136.0
    canvas.rect(left, top, right - left, high - top + 40, "none", rx=8, stroke=theme.muted, stroke_width=1.3)
    if weights is None:
        canvas.text((left + right) / 2, (top + high + 40) / 2 + 5, "self-attention", 15, "middle")
    else:
        scale = largest(weights)
        for row, column in np.argwhere(np.nan_to_num(weights) > 0):
            share = float(weights[row, column])
            canvas.path(
                curve(xs[row], top, xs[column], high + 40, upright=True),
                theme.colour(int(row)), 10 * share / scale, stroke_opacity=0.3 + 0.6 * share,
                title=f"{visible(words[row], 40)} → {visible(words[column], 40)}: {percent(share)}",
                data_mark="", data_row=row, data_column=column,
            )  # fmt: skip
    for n, (x, word) in enumerate(zip(xs, words, strict=True)):
        canvas.arrow(x, low, x, high + 40, theme.muted)
        _column(canvas, x, base, "x", word)
        canvas.text(x, base + 94, shorten(word, step - 8, 14), 14, "middle", data_pick=f"column:{n}")
        canvas.arrow(x, top, x, top - 14, theme.muted)
        _column(canvas, x, top - 88, "z", word)
        canvas.reach(x, base + 100)
    canvas.reach(right, 0)


_BOX_WIDTH, _BOX_HEIGHT = 220.0, 40.0
_MIDDLE = _BOX_WIDTH / 2 + 20  # of a layer's frame
_SUBLAYER_HEIGHT = 110.0
_NORM_HEIGHT = 20.0
_PARTS = ("layer", "encoder", "transformer")


def architecture(
    config: Any, part: str = "transformer", *, source: str = "", target: str = "", title: str = "", unfold: bool = True
) -> Picture:
    """A model from its config: one "layer" of the encoder, the "encoder" as a stack, or the whole "transformer".

    The config is a `TransformerConfig`, or any object with the same names. Layer norms follow the sums, as in the
    paper, or precede the sublayers where the config has `norm_first`.

    >>> from types import SimpleNamespace
    >>> six = SimpleNamespace(width=512, heads=8, hidden=2048, encoder_layers=6, decoder_layers=6, vocabulary=32000)
    >>> print(architecture(six, "encoder"))
    encoder: 6 layers, one above the other
      multi-head attention: 8 heads of 64
      feed-forward network: 512 → 2,048 → 512
    Each + adds a sublayer's input to its output, the residual connection; a layer norm follows.
    """
    if part not in _PARTS:
        raise InputError(f"part must be one of {', '.join(map(repr, _PARTS))}. Got {part!r}.")

    def draw(canvas: Canvas) -> None:
        if part == "layer":
            bottom, muted = _layer(canvas, 0, 44, config, "encoder layer"), canvas.theme.muted
            canvas.arrow(_MIDDLE, bottom + 24, _MIDDLE, bottom - 8, muted)
            canvas.text(_MIDDLE, bottom + 42, "input", 14, "middle")
            canvas.arrow(_MIDDLE, 44 + _outlet(config), _MIDDLE, 22, muted)
            canvas.text(_MIDDLE, 14, "output", 14, "middle")
        elif part == "encoder":
            _stack(canvas, config, unfold, source)
        else:
            _transformer(canvas, config, source, target)

    names = ("width", "heads", "hidden", "encoder_layers", "decoder_layers", "vocabulary")
    numbers = {name: np.array(float(getattr(config, name))) for name in names}
    norm = "a layer norm follows"
    if _norm_first(config):
        norm = "a layer norm precedes each sublayer, and another follows the last layer"
    note = f"Each + adds a sublayer's input to its output, the residual connection; {norm}."
    note = note if unfold or part != "encoder" else ""
    words = tuple(filter(None, (source, target)))
    return Picture("architecture", numbers, draw, lambda room: _text(config, part), title, note, words)


def mechanism(d: int, *, title: str = "") -> Picture:
    """Scaled dot-product attention as a graph of its four steps.

    >>> print(mechanism(64))
    Q, K → QKᵀ → ÷ √64 → softmax → · V → Z
    """
    steps = (
        "1  product with the keys: QKᵀ",
        f"2  divide by √{d}",
        "3  softmax of each row",
        "4  product with the values",
    )

    def draw(canvas: Canvas) -> None:
        theme = canvas.theme
        xs = (60.0, 170.0, 300.0)
        for x, name in zip(xs, "QKV", strict=True):
            _box(canvas, x, 380, 70, name)
        bottoms = (300.0, 220.0, 140.0, 60.0)
        for n, (y, step) in enumerate(zip(bottoms, steps, strict=True)):
            _box(canvas, 115, y, 230, step)
            if 0 < n < 4:
                canvas.arrow(115, bottoms[n - 1], 115, y + _BOX_HEIGHT, theme.muted)
        canvas.arrow(60, 380, 80, 340, theme.muted)
        canvas.arrow(170, 380, 150, 340, theme.muted)
        canvas.path("M300 380V80", theme.muted, 1.4)
        canvas.arrow(300, 80, 230, 80, theme.muted)
        canvas.arrow(115, 60, 115, 30, theme.muted)
        canvas.text(115, 20, f"Z = softmax(QKᵀ/√{d}) V", 15, "middle", bold=True)
        canvas.reach(340, 424)

    steps_in_a_line = f"Q, K → QKᵀ → ÷ √{d} → softmax → · V → Z"
    return Picture("mechanism", {"d": np.array(float(d))}, draw, lambda room: Text(steps_in_a_line), title)


# Boxes


def _box(
    canvas: Canvas, middle: float, y: float, width: float, text: str, detail: str = "", height: float = _BOX_HEIGHT
) -> None:
    theme = canvas.theme
    canvas.rect(middle - width / 2, y, width, height, theme.panel, rx=6, stroke=theme.muted, stroke_width=1.1)
    baseline = y + height / 2 + (-2 if detail else 5)
    canvas.text(middle, baseline, shorten(text, width - 8, 14), 14, "middle", bold=bool(detail))
    if detail:
        canvas.text(middle, y + height / 2 + 14, detail, 11, "middle", theme.muted)


def _sublayers(config: Any, decoder: bool) -> list[tuple[str, str]]:
    """Name and sizes of each sublayer, from the bottom to the top."""
    heads = f"{config.heads} heads of {config.width // config.heads}"
    forward = ("feed-forward network", f"{config.width:,} → {config.hidden:,} → {config.width:,}")
    if not decoder:
        return [("multi-head attention", heads), forward]
    return [("masked multi-head attention", heads), ("attention to the encoder", heads), forward]


def _layer(canvas: Canvas, x: float, y: float, config: Any, name: str, decoder: bool = False) -> float:
    """One layer's sublayers in a frame, the first at the bottom; returns the bottom of the frame."""
    theme = canvas.theme
    sublayers = _sublayers(config, decoder)
    height = _layer_height(len(sublayers))
    canvas.rect(x, y, _BOX_WIDTH + 60, height, "none", rx=10, stroke=theme.faint, stroke_width=1.6)
    canvas.text(x + 12, y + 19, name, 12, fill=theme.muted)
    middle = x + _MIDDLE
    for n, (text, detail) in enumerate(reversed(sublayers)):
        first = y + 36 + n * _SUBLAYER_HEIGHT  # the upper end of what belongs to this sublayer
        end = first + _SUBLAYER_HEIGHT - 10  # and its lower end, where the input arrives
        if _norm_first(config):
            top, norm, arrow = first, first + 70, first + 90
            canvas.line(middle, norm, middle, top + 62, theme.muted, 1.4)
        else:
            top, norm, arrow = first + 26, first, first + 88
            canvas.line(middle, top - 4, middle, norm + _NORM_HEIGHT, theme.muted, 1.4)
        canvas.arrow(middle, end, middle, arrow, theme.muted)
        canvas.rect(middle - 60, norm, 120, _NORM_HEIGHT, theme.background, rx=5, stroke=theme.muted, stroke_width=1.1)
        canvas.text(middle, norm + 14, "layer norm", 11, "middle")
        _box(canvas, middle, top + 20, _BOX_WIDTH, text, detail, height=42)
        canvas.line(middle, top + 20, middle, top + 12, theme.muted, 1.4)
        side = x + _BOX_WIDTH + 44  # the residual connection
        canvas.path(f"M{middle:.1f} {end - 4:.1f}H{side:.1f}V{top + 4:.1f}H{middle + 9:.1f}", theme.muted, 1.2)
        canvas.circle(middle, top + 4, 8, theme.background, stroke=theme.muted, stroke_width=1.2)
        canvas.text(middle, top + 8.5, "+", 14, "middle")
        if n:
            canvas.line(middle, first - (4 if _norm_first(config) else 0), middle, first - 10, theme.muted, 1.4)
    return y + height


def _norm_first(config: Any) -> bool:
    return bool(getattr(config, "norm_first", False))  # the paper normalises after the sum


def _outlet(config: Any) -> float:
    """Where a layer's output begins, below the top of its frame: at the last sum, or at the norm after it."""
    return 32.0 if _norm_first(config) else 36.0


def _layer_height(sublayers: int) -> float:
    return _SUBLAYER_HEIGHT * sublayers + 34


def _stack(canvas: Canvas, config: Any, unfold: bool, source: str) -> None:
    theme = canvas.theme
    count = config.encoder_layers
    shown: list[int | None] = list(range(count, 0, -1))
    most = 2 if unfold else 6
    if count > most:
        shown = [count, None, *range(most - 1, 0, -1)]
    canvas.text(_MIDDLE, 14, "representation", 14, "middle")
    y = 44.0
    for place in shown:
        if place is None:
            canvas.text(_MIDDLE, y + 14, "⋮", 20, "middle", theme.muted)
            y += 44
            continue
        canvas.arrow(_MIDDLE, y, _MIDDLE, y - 22, theme.muted)
        if unfold:
            y = _layer(canvas, 0, y, config, f"encoder {place}")
        else:
            _box(canvas, _MIDDLE, y, _BOX_WIDTH, f"encoder {place}")
            y += _BOX_HEIGHT
        y += 24
    canvas.arrow(_MIDDLE, y + 2, _MIDDLE, y - 22, theme.muted)
    canvas.text(_MIDDLE, y + 20, shorten(source, 400, 15) or "input", 15, "middle", italic=bool(source))
    canvas.text(_BOX_WIDTH + (76 if unfold else 30), (y + 30) / 2, f"N = {count}", 16, bold=True)
    canvas.reach(_BOX_WIDTH + 140, y + 24)


def _transformer(canvas: Canvas, config: Any, source: str, target: str) -> None:
    theme = canvas.theme
    width, gap = _BOX_WIDTH + 60, 90.0
    top = 116.0
    right = width + gap
    _layer(canvas, right, top, config, f"decoder layer, {config.decoder_layers} ×", decoder=True)
    bottom = top + _layer_height(3)
    encoder_top = bottom - _layer_height(2)
    _layer(canvas, 0, encoder_top, config, f"encoder layer, {config.encoder_layers} ×")
    middles = (_MIDDLE, right + _MIDDLE)
    for middle, text in zip(middles, (source, target), strict=True):
        canvas.arrow(middle, bottom + 26, middle, bottom - 8, theme.muted)
        detail = f"{config.vocabulary:,} tokens → {config.width:,}"
        _box(canvas, middle, bottom + 26, _BOX_WIDTH, "embedding + position", detail, height=42)
        canvas.arrow(middle, bottom + 94, middle, bottom + 68, theme.muted)
        label = shorten(text, width, 15) or ("source" if middle == middles[0] else "target so far")
        canvas.text(middle, bottom + 112, label, 15, "middle", italic=bool(text))
    # The encoder's output goes to the decoder's second sublayer.
    y = top + 36 + _SUBLAYER_HEIGHT + 41 + (0 if _norm_first(config) else 26)
    left = middles[1] - _BOX_WIDTH / 2
    canvas.path(
        f"M{middles[0]:.1f} {encoder_top + _outlet(config):.1f}V{encoder_top - 22:.1f}H{width + 44:.1f}V{y:.1f}"
        f"H{left - 8:.1f}",
        theme.accent,
        1.8,
    )
    canvas.arrow(left - 14, y, left, y, theme.accent, 1.8)
    canvas.text(middles[0] + 8, encoder_top - 30, "keys and values", 12, fill=theme.accent)
    canvas.arrow(middles[1], top + _outlet(config), middles[1], top - 22, theme.muted)
    sizes = f"{config.width:,} → {config.vocabulary:,}"
    _box(canvas, middles[1], top - 64, _BOX_WIDTH, "linear, softmax", sizes, height=42)
    canvas.arrow(middles[1], top - 64, middles[1], top - 92, theme.muted)
    canvas.text(middles[1], top - 100, "next word", 14, "middle")
    canvas.reach(right + width, bottom + 118)


def _text(config: Any, part: str) -> Text:
    """The parts as nested lines."""
    above = "layers, one above the other"
    encoder = [f"{name}: {detail}" for name, detail in _sublayers(config, decoder=False)]
    if part == "layer":
        return Text("\n  ".join(["encoder layer", *encoder]))
    if part == "encoder":
        return Text("\n  ".join([f"encoder: {config.encoder_layers} {above}", *encoder]))
    lines = [
        "transformer", f"embedding + position: {config.vocabulary:,} tokens → {config.width:,}",
        f"encoder: {config.encoder_layers} {above}", *(f"  {line}" for line in encoder),
        f"decoder: {config.decoder_layers} {above}",
        *(f"  {name}: {detail}" for name, detail in _sublayers(config, decoder=True)),
        f"linear, softmax: {config.width:,} → {config.vocabulary:,}",
    ]  # fmt: skip
    return Text("\n  ".join(lines))
