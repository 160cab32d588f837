"""`Encoding`: a Transformer's encoder for sentences of unequal lengths on a CPU: its products never meet padding."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.nn.layers import EncoderLayer
from regard.nn.packed_linear import BENDS, ROOM, Turned, heads, normed, own, residual, unwatched
from regard.nn.transformer import Memory, Transformer
from regard.support import Bool, Float

__all__ = ["Encoding"]


class _Layer(NamedTuple):
    """The matrices of one encoder layer."""

    own: Turned  # queries, keys and values
    out: Turned
    own_norm: nn.LayerNorm
    up: Turned
    down: Turned
    norm: nn.LayerNorm


class Encoding:
    """The encoder of one model, ready for many sentences.

    >>> import torch, regard
    >>> model = regard.Transformer(regard.TransformerConfig.tiny(vocabulary=50)).eval()
    >>> source = torch.tensor([[5, 6, 7, 8], [9, 8, 49, 49]])                   # 49 is padding
    >>> states, seen = Encoding(model).memory(*model.enter(source))
    >>> torch.allclose(states[seen], model.encode(source).states[seen], atol=1e-5)
    True
    """

    def __init__(self, model: Transformer):
        # Not the model itself: it is forgotten when its owner forgets it, and this with it.
        first = model.encoder.layers[0]
        assert isinstance(first, EncoderLayer)
        self.look, self.norm_first = first.attention, first.norm_first
        self.bend = BENDS[first.feed_forward.activation]
        self.norm = model.encoder.norm
        self.layers = [self._layer(layer) for layer in model.encoder.layers if isinstance(layer, EncoderLayer)]

    @staticmethod
    def _layer(layer: EncoderLayer) -> _Layer:
        return _Layer(
            *heads(layer.attention), layer.attention_norm,
            Turned.of(layer.feed_forward.up), Turned.of(layer.feed_forward.down), layer.feed_forward_norm,
        )  # fmt: skip

    @staticmethod
    def suits(model: Transformer) -> bool:
        """Whether it may stand in for the model's encoder."""
        return unwatched(model.encoder) and own(model, "encode")

    @torch.no_grad()
    def memory(self, entered: Float[Tensor, "batch tokens width"], visible: Bool[Tensor, "batch tokens"]) -> Memory:
        """A vector for each source token, given what `Transformer.enter` gives; where there is padding, zeros."""
        batch, tokens, width = entered.shape
        more = -tokens % ROOM
        seen = functional.pad(visible, (0, more)).flatten()
        places = seen.nonzero()[:, 0]
        x = functional.pad(entered, (0, 0, 0, more)).view(-1, width).index_select(0, places)
        # For attention the sentences lie side by side. Nobody sees what is behind a sentence: its last row once more.
        side = (seen.cumsum(0) - 1).clamp_(0)
        hidden = torch.zeros(seen.shape).masked_fill_(~seen, -math.inf).view(batch, 1, 1, -1)

        def look(y: Tensor) -> Tensor:
            return self._mixed(y.index_select(0, side), hidden).index_select(0, places)

        for layer in self.layers:
            x = self._through(layer, x, look)
        x = x if self.norm is None else normed(x, self.norm)
        states = entered.new_zeros(len(seen), width).index_copy_(0, places, x)
        return Memory(states.view(batch, -1, width)[:, :tokens], visible)

    def _through(self, layer: _Layer, x: Tensor, look: Callable[[Tensor], Tensor]) -> Tensor:
        x = residual(x, layer.own_norm, self.norm_first, lambda y: look(layer.own(y)), layer.out)
        return residual(x, layer.norm, self.norm_first, lambda y: self.bend(layer.up(y)), layer.down)

    def _mixed(self, side: Tensor, hidden: Tensor) -> Tensor:
        batch, _, _, tokens = hidden.shape
        parts = torch.split(side, self.look.sizes, -1)
        query, key, value = (t.view(batch, tokens, -1, self.look.head_width).transpose(1, 2) for t in parts)
        grouped = self.look.heads != self.look.key_heads
        mixed = functional.scaled_dot_product_attention(query, key, value, hidden, scale=1.0, enable_gqa=grouped)
        return mixed.transpose(1, 2).reshape(-1, self.look.width)
