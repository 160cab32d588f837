"""`TransformerConfig`: the sizes and options of a Transformer; printed, a drawing of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from regard.errors import InputError, ShapeError

_BOX = 35  # characters inside a box of the drawing
# Limits far beyond any model. A larger number comes from a damaged file, or from a file made to exhaust the memory.
_LIMITS = {"vocabulary": 2**24, "width": 2**24, "heads": None, "hidden": 2**24, "encoder_layers": 1_000}
_LIMITS |= {"decoder_layers": 1_000, "positions": None, "key_heads": None}
_LARGEST_TABLE = 2**26  # positions × width


@dataclass(frozen=True)
class TransformerConfig:
    """The sizes and options of a `Transformer`. Printed, it draws the model.

    >>> import regard
    >>> config = regard.TransformerConfig.base()
    >>> config.width, config.heads, config.encoder_layers, config.hidden
    (512, 8, 6, 2048)
    >>> print(config)  # doctest: +ELLIPSIS
    the source, n tokens...
    """

    vocabulary: int
    width: int = 512
    heads: int = 8
    hidden: int = 2048
    encoder_layers: int = 6
    decoder_layers: int = 6
    key_heads: int | None = None  # fewer than heads: groups of heads share keys and values
    activation: str = "relu"
    norm_first: bool = False  # the paper normalizes after the sum
    bias: bool = True
    dropout: float = 0.1  # on embeddings and on the output of each sublayer, in training
    positions: int = 512  # the longest sequence
    pad: int = -1  # -1: the last id, as in Marian
    end: int = 0
    start: int = -1  # the decoder's first token; -1: pad, as in Marian

    def __post_init__(self) -> None:
        for name, limit in _LIMITS.items():
            size = getattr(self, name)
            if name != "key_heads" or size is not None:
                check_positive(**{name: size})
            if limit is not None and size > limit:
                raise InputError(f"{name} must be at most {limit:,}. Got {size:,}.")
        if self.positions * self.width > _LARGEST_TABLE:
            raise InputError(
                f"positions × width must be at most {_LARGEST_TABLE:,}, the largest table of positions. "
                f"Got positions = {self.positions:,}, width = {self.width:,}."
            )
        for name in ("norm_first", "bias"):
            if not isinstance(getattr(self, name), bool):
                raise InputError(f"{name} must be true or false. Got {getattr(self, name)!r}.")
        if not isinstance(self.activation, str):
            raise InputError(f"activation must be a name. Got {self.activation!r}.")
        if isinstance(self.dropout, bool) or not isinstance(self.dropout, int | float) or not 0 <= self.dropout < 1:
            raise InputError(f"dropout must be at least 0 and below 1. Got {self.dropout!r}.")
        if self.width % 2:
            raise InputError(f"width must be even, half sines and half cosines. Got {self.width}.")
        if self.width % self.heads or self.heads % (self.key_heads or self.heads):
            raise ShapeError(
                "heads must divide width, and key_heads must divide heads. "
                f"Got width={self.width}, heads={self.heads}, key_heads={self.key_heads}."
            )
        if self.pad == -1:
            object.__setattr__(self, "pad", self.vocabulary - 1)
        if self.start == -1:
            object.__setattr__(self, "start", self.pad)
        for name in ("pad", "end", "start"):
            token = getattr(self, name)
            if isinstance(token, bool) or not isinstance(token, int) or not 0 <= token < self.vocabulary:
                raise InputError(f"{name} must be an id from 0 to {self.vocabulary - 1}. Got {token!r}.")

    @classmethod
    def base(cls, vocabulary: int = 37_000, **changes: Any) -> TransformerConfig:
        """The base model of "Attention Is All You Need": 512, 8 heads of 64, 6 + 6 layers, 2048."""
        return replace(cls(vocabulary), **changes)

    @classmethod
    def big(cls, vocabulary: int = 37_000, **changes: Any) -> TransformerConfig:
        """The big model of the paper: 1024, 16 heads of 64, 6 + 6 layers, 4096, dropout 0.3."""
        return replace(cls(vocabulary, width=1024, heads=16, hidden=4096, dropout=0.3), **changes)

    @classmethod
    def tiny(cls, vocabulary: int = 1_000, **changes: Any) -> TransformerConfig:
        """A model that trains in a minute on a laptop: 128, 4 heads of 32, 2 + 2 layers, 256."""
        return replace(cls(vocabulary, 128, 4, 256, 2, 2), **changes)

    @classmethod
    def documents(cls, vocabulary: int = 37_000, **changes: Any) -> TransformerConfig:
        """The base model stacked N = 2 times, as the documents draw it."""
        return replace(cls(vocabulary, encoder_layers=2, decoder_layers=2), **changes)

    @property
    def parameters(self) -> int:
        """The number of trainable parameters, from the sizes alone.

        >>> TransformerConfig.base().parameters
        63082496
        """
        norm = self.width * (1 + self.bias)

        def linear(inputs: int, outputs: int) -> int:
            return inputs * outputs + outputs * self.bias

        shared = self.width // self.heads * (self.key_heads or self.heads)
        attention = 2 * linear(self.width, self.width) + 2 * linear(self.width, shared) + norm
        feed_forward = linear(self.width, self.hidden) + linear(self.hidden, self.width) + norm
        encoder = self.encoder_layers * (attention + feed_forward)
        decoder = self.decoder_layers * (2 * attention + feed_forward)
        final = 2 * norm * self.norm_first
        return self.vocabulary * self.width + encoder + decoder + final

    def __str__(self) -> str:
        heads = f"{self.heads} heads of {self.width // self.heads}"
        if self.key_heads not in (None, self.heads):
            heads += f" ({self.key_heads} of keys)"
        attention = f"{self.width} → {heads} → {self.width}"
        feed_forward = f"{self.width} → {self.hidden} → {self.width}, {self.activation}"
        norm = "norm, then each of them, then + x" if self.norm_first else "each of them + x, then norm"
        encoder = _box(
            f"{self.encoder_layers} × encoder layer",
            ["", "self-attention", attention, "", "", "feed-forward", feed_forward, "", norm],
        )
        sublayers = ["self-attention, to the left only", attention, "", "attention to the source", attention, ""]
        decoder = _box(f"{self.decoder_layers} × decoder layer", [*sublayers, "feed-forward", feed_forward, norm])
        table = f"E: {self.vocabulary:,} × {self.width}"
        before = [
            ("the source, n tokens", "the target so far, m tokens"),
            (f"  ↓  {table}", f"  ↓  the same {table}"),
            (f"  ↓  × √{self.width}, + sines of the place", f"  ↓  × √{self.width}, + sines of the place"),
            (f"n × {self.width}", f"m × {self.width}"),
        ]
        after = [
            ("", "  ↓"),
            (f"n × {self.width}  ─→  to each decoder layer", f"m × {self.width}"),
            ("", "  ↓  × Eᵀ, + a bias, softmax"),
            ("", f"m × {self.vocabulary:,}: the next token"),
        ]
        rows = [*before, *zip(encoder, decoder, strict=True), *after]
        lines = [f"{left:<{_BOX + 4}} {right}".rstrip() for left, right in rows]
        return "\n".join([*lines, "", f"{self.parameters:,} parameters, at most {self.positions} tokens"])


def _box(title: str, lines: list[str]) -> list[str]:
    rule = "─" * (_BOX - len(title))
    middle = [f"│ {line:<{_BOX}} │" for line in lines]
    return [f"┌ {title} {rule}┐", *middle, f"└{'─' * (_BOX + 2)}┘"]


def check_positive(**numbers: int) -> None:
    """Raise unless every size is a whole number of at least 1; the error names the size."""
    for name, number in numbers.items():
        if isinstance(number, bool) or not isinstance(number, int) or number < 1:
            raise InputError(f"{name} must be a whole number, at least 1. Got {number!r}.")
