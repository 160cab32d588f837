"""`architecture`: a Transformer as boxes and arrows, drawn from its own config."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np
from rich.text import Text

from regard.drawing.picture import Picture
from regard.drawing.svg import Canvas, shorten
from regard.errors import InputError

__all__ = ["Config", "architecture", "mechanism"]

_BOX, _HIGH = 220.0, 40.0
_PARTS = ("layer", "encoder", "transformer")


@runtime_checkable
class Config(Protocol):
    """What a drawing must know of a Transformer."""

    @property
    def width(self) -> int:
        """Numbers for each token."""

    @property
    def heads(self) -> int:
        """Heads of each attention."""

    @property
    def hidden(self) -> int:
        """Numbers inside of a feed-forward network."""

    @property
    def encoder_layers(self) -> int:
        """Layers of the encoder."""

    @property
    def decoder_layers(self) -> int:
        """Layers of the decoder."""

    @property
    def vocabulary(self) -> int:
        """Tokens that can be said."""


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

    >>> from types import SimpleNamespace
    >>> six = SimpleNamespace(width=512, heads=8, hidden=2048, encoder_layers=6, decoder_layers=6, vocabulary=32000)
    >>> print(architecture(six, "encoder"))
    encoder: 6 layers, one above the other
      multi-head attention: 8 heads of 64
      feed-forward network: 512 → 2,048 → 512
    Each + adds a sublayer's input to its output: the residual connection.
    """
    if part not in _PARTS:
        raise InputError(f"part must be one of {', '.join(map(repr, _PARTS))}. Got {part!r}.")

    def draw(canvas: Canvas) -> None:
        if part == "layer":
            _io(canvas, _BOX / 2 + 20, _layer(canvas, 0, 44, config, "encoder layer"), "input", "output")
        elif part == "encoder":
            _stack(canvas, config, unfold, source)
        else:
            _transformer(canvas, config, source, target)

    names = ("width", "heads", "hidden", "encoder_layers", "decoder_layers", "vocabulary")
    numbers = {name: np.array(float(getattr(config, name))) for name in names}
    note = (
        "Each + adds a sublayer's input to its output: the residual connection." if unfold or part != "encoder" else ""
    )
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
                canvas.arrow(115, bottoms[n - 1], 115, y + _HIGH, theme.muted)
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
    canvas: Canvas,
    middle: float,
    y: float,
    width: float,
    text: str,
    below: str = "",
    fill: str = "",
    high: float = _HIGH,
) -> None:
    theme = canvas.theme
    canvas.rect(middle - width / 2, y, width, high, fill or theme.panel, rx=6, stroke=theme.muted, stroke_width=1.1)
    canvas.text(
        middle, y + high / 2 + (5 if not below else -2), shorten(text, width - 8, 14), 14, "middle", bold=bool(below)
    )
    if below:
        canvas.text(middle, y + high / 2 + 14, below, 11, "middle", theme.muted)


def _sublayers(config: Config, decoder: bool) -> list[tuple[str, str]]:
    """From the bottom to the top."""
    each = config.width // config.heads
    heads = f"{config.heads} heads of {each}"
    forward = ("feed-forward network", f"{config.width:,} → {config.hidden:,} → {config.width:,}")
    if not decoder:
        return [("multi-head attention", heads), forward]
    return [("masked multi-head attention", heads), ("attention to the encoder", heads), forward]


def _layer(canvas: Canvas, x: float, y: float, config: Config, name: str, decoder: bool = False) -> float:
    """One layer's sublayers in a frame, the first at the bottom; gives back where it ends."""
    theme = canvas.theme
    parts = _sublayers(config, decoder)
    step = 84.0
    high = step * len(parts) + 34
    canvas.rect(x, y, _BOX + 60, high, "none", rx=10, stroke=theme.faint, stroke_width=1.6)
    canvas.text(x + 12, y + 19, name, 12, fill=theme.muted)
    middle = x + _BOX / 2 + 20
    for n, (text, below) in enumerate(reversed(parts)):
        top = y + 36 + n * step
        canvas.arrow(middle, top + 74, middle, top + 62, theme.muted)
        _box(canvas, middle, top + 20, _BOX, text, below, high=42)
        canvas.line(middle, top + 20, middle, top + 12, theme.muted, 1.4)
        side = x + _BOX + 44  # the residual connection
        canvas.path(f"M{middle:.1f} {top + 70:.1f}H{side:.1f}V{top + 4:.1f}H{middle + 9:.1f}", theme.muted, 1.2)
        canvas.circle(middle, top + 4, 8, theme.background, stroke=theme.muted, stroke_width=1.2)
        canvas.text(middle, top + 8.5, "+", 14, "middle")
        if n:
            canvas.line(middle, top - 4, middle, top - 10, theme.muted, 1.4)
    return y + high


def _io(canvas: Canvas, middle: float, bottom: float, below: str, above: str) -> None:
    theme = canvas.theme
    canvas.arrow(middle, bottom + 24, middle, bottom - 8, theme.muted)
    canvas.text(middle, bottom + 42, below, 14, "middle")
    canvas.arrow(middle, 76, middle, 22, theme.muted)
    canvas.text(middle, 14, above, 14, "middle")


def _stack(canvas: Canvas, config: Config, unfold: bool, source: str) -> None:
    theme = canvas.theme
    count = config.encoder_layers
    shown: list[int | None] = list(range(count, 0, -1))
    most = 2 if unfold else 6
    if count > most:
        shown = [count, None, *range(most - 1, 0, -1)]
    canvas.text(_BOX / 2 + 20, 14, "representation", 14, "middle")
    y = 44.0
    for place in shown:
        middle = _BOX / 2 + 20
        if place is None:
            canvas.text(middle, y + 14, "⋮", 20, "middle", theme.muted)
            y += 44
            continue
        canvas.arrow(middle, y, middle, y - 22, theme.muted)
        if unfold:
            y = _layer(canvas, 0, y, config, f"encoder {place}")
        else:
            _box(canvas, middle, y, _BOX, f"encoder {place}", fill=theme.panel)
            y += _HIGH
        y += 24
    canvas.arrow(_BOX / 2 + 20, y + 2, _BOX / 2 + 20, y - 22, theme.muted)
    canvas.text(_BOX / 2 + 20, y + 20, shorten(source, 400, 15) or "input", 15, "middle", italic=bool(source))
    canvas.text(_BOX + (76 if unfold else 30), (y + 30) / 2, f"N = {count}", 16, bold=True)
    canvas.reach(_BOX + 140, y + 24)


def _transformer(canvas: Canvas, config: Config, source: str, target: str) -> None:
    theme = canvas.theme
    wide, apart = _BOX + 60, 90.0
    deep, shallow = 84.0 * 3 + 34, 84.0 * 2 + 34
    top = 116.0
    right = wide + apart
    _layer(canvas, right, top, config, f"decoder layer, {config.decoder_layers} ×", decoder=True)
    low = top + deep
    _layer(canvas, 0, low - shallow, config, f"encoder layer, {config.encoder_layers} ×")
    middles = (_BOX / 2 + 20, right + _BOX / 2 + 20)
    for middle, text in zip(middles, (source, target), strict=True):
        canvas.arrow(middle, low + 26, middle, low - 8, theme.muted)
        _box(
            canvas,
            middle,
            low + 26,
            _BOX,
            "embedding + position",
            f"{config.vocabulary:,} tokens → {config.width:,}",
            high=42,
        )
        canvas.arrow(middle, low + 94, middle, low + 68, theme.muted)
        said = shorten(text, wide, 15)
        canvas.text(
            middle,
            low + 112,
            said or ("source" if middle == middles[0] else "target so far"),
            15,
            "middle",
            italic=bool(text),
        )
    # The encoder's output goes to the decoder's second sublayer.
    high = low - shallow
    y = top + 36 + 84 + 41
    canvas.path(
        f"M{middles[0]:.1f} {high + 32:.1f}V{high - 22:.1f}H{wide + 44:.1f}V{y:.1f}H{middles[1] - _BOX / 2 - 8:.1f}",
        theme.accent,
        1.8,
    )
    canvas.arrow(middles[1] - _BOX / 2 - 14, y, middles[1] - _BOX / 2, y, theme.accent, 1.8)
    canvas.text(middles[0] + 8, high - 30, "keys and values", 12, fill=theme.accent)
    canvas.arrow(middles[1], top + 32, middles[1], top - 22, theme.muted)
    _box(canvas, middles[1], top - 64, _BOX, "linear, softmax", f"{config.width:,} → {config.vocabulary:,}", high=42)
    canvas.arrow(middles[1], top - 64, middles[1], top - 92, theme.muted)
    canvas.text(middles[1], top - 100, "next word", 14, "middle")
    canvas.reach(right + wide, low + 118)


def _text(config: Config, part: str) -> Text:
    """The same as nested lines."""

    def layer(decoder: bool, indent: str) -> list[str]:
        return [f"{indent}{name}: {below}" for name, below in _sublayers(config, decoder)]

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
