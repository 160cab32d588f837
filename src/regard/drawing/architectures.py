"""`architecture` and `mechanism`: a Transformer from its config, and attention in four steps, as boxes and arrows."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np
from rich.text import Text

from regard.drawing.picture import Picture
from regard.drawing.svg import Canvas, shorten
from regard.errors import InputError

__all__ = ["architecture", "mechanism"]

_BOX_WIDTH, _BOX_HEIGHT = 220.0, 40.0
_MIDDLE = _BOX_WIDTH / 2 + 20  # of a layer's frame
_SUBLAYER_HEIGHT = 110.0
_NORM_HEIGHT = 20.0
_PARTS = ("layer", "encoder", "transformer")


@runtime_checkable
class Config(Protocol):
    """What a drawing needs to know about a Transformer."""

    @property
    def width(self) -> int:
        """Numbers per token."""

    @property
    def heads(self) -> int:
        """Heads per attention."""

    @property
    def hidden(self) -> int:
        """Hidden units of a feed-forward network."""

    @property
    def encoder_layers(self) -> int:
        """Layers of the encoder."""

    @property
    def decoder_layers(self) -> int:
        """Layers of the decoder."""

    @property
    def vocabulary(self) -> int:
        """Tokens in the vocabulary."""


def architecture(
    config: Config,
    part: str = "transformer",
    *,
    source: str = "",
    target: str = "",
    title: str = "",
    unfold: bool = True,
) -> Picture:
    """A model from its config: one "layer" of the encoder, the "encoder" as a stack, or the whole "transformer".

    Layer norms follow the sums, as in the paper, or precede the sublayers where the config has `norm_first`.

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
            _input_and_output(canvas, config, _layer(canvas, 0, 44, config, "encoder layer"))
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
    words = tuple(word for word in (source, target) if word)
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

    return Picture(
        "mechanism",
        {"d": np.array(float(d))},
        draw,
        lambda room: Text(f"Q, K → QKᵀ → ÷ √{d} → softmax → · V → Z"),
        title,
    )


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


def _sublayers(config: Config, decoder: bool) -> list[tuple[str, str]]:
    """Name and sizes of each sublayer, from the bottom to the top."""
    heads = f"{config.heads} heads of {config.width // config.heads}"
    forward = ("feed-forward network", f"{config.width:,} → {config.hidden:,} → {config.width:,}")
    if not decoder:
        return [("multi-head attention", heads), forward]
    return [("masked multi-head attention", heads), ("attention to the encoder", heads), forward]


def _layer(canvas: Canvas, x: float, y: float, config: Config, name: str, decoder: bool = False) -> float:
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
        _norm(canvas, middle, norm)
        _box(canvas, middle, top + 20, _BOX_WIDTH, text, detail, height=42)
        canvas.line(middle, top + 20, middle, top + 12, theme.muted, 1.4)
        side = x + _BOX_WIDTH + 44  # the residual connection
        canvas.path(f"M{middle:.1f} {end - 4:.1f}H{side:.1f}V{top + 4:.1f}H{middle + 9:.1f}", theme.muted, 1.2)
        canvas.circle(middle, top + 4, 8, theme.background, stroke=theme.muted, stroke_width=1.2)
        canvas.text(middle, top + 8.5, "+", 14, "middle")
        if n:
            canvas.line(middle, first - (4 if _norm_first(config) else 0), middle, first - 10, theme.muted, 1.4)
    return y + height


def _norm(canvas: Canvas, middle: float, y: float) -> None:
    theme = canvas.theme
    canvas.rect(middle - 60, y, 120, _NORM_HEIGHT, theme.background, rx=5, stroke=theme.muted, stroke_width=1.1)
    canvas.text(middle, y + 14, "layer norm", 11, "middle")


def _norm_first(config: Config) -> bool:
    return bool(getattr(config, "norm_first", False))  # the paper normalises after the sum


def _outlet(config: Config) -> float:
    """Where a layer's output begins, below the top of its frame: at the last sum, or at the norm after it."""
    return 32.0 if _norm_first(config) else 36.0


def _layer_height(sublayers: int) -> float:
    return _SUBLAYER_HEIGHT * sublayers + 34


def _input_and_output(canvas: Canvas, config: Config, bottom: float) -> None:
    theme = canvas.theme
    canvas.arrow(_MIDDLE, bottom + 24, _MIDDLE, bottom - 8, theme.muted)
    canvas.text(_MIDDLE, bottom + 42, "input", 14, "middle")
    canvas.arrow(_MIDDLE, 44 + _outlet(config), _MIDDLE, 22, theme.muted)
    canvas.text(_MIDDLE, 14, "output", 14, "middle")


def _stack(canvas: Canvas, config: Config, unfold: bool, source: str) -> None:
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


def _transformer(canvas: Canvas, config: Config, source: str, target: str) -> None:
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


def _text(config: Config, part: str) -> Text:
    """The parts as nested lines."""

    def layer(decoder: bool, indent: str) -> list[str]:
        return [f"{indent}{name}: {detail}" for name, detail in _sublayers(config, decoder)]

    stacked = f"{config.encoder_layers} layers, one above the other"
    if part == "layer":
        lines = ["encoder layer", *layer(False, "  ")]
    elif part == "encoder":
        lines = [f"encoder: {stacked}", *layer(False, "  ")]
    else:
        embedding = f"  embedding + position: {config.vocabulary:,} tokens → {config.width:,}"
        lines = [
            "transformer", embedding, f"  encoder: {stacked}", *layer(False, "    "),
            f"  decoder: {config.decoder_layers} layers, one above the other", *layer(True, "    "),
            f"  linear, softmax: {config.width:,} → {config.vocabulary:,}",
        ]  # fmt: skip
    return Text("\n".join(lines))
