"""`Encoding`: a Transformer's encoder for sentences of unequal lengths on a CPU: its products never meet padding."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.layers import ACTIVATIONS, EncoderLayer
from regard.shapes import Bool, Float
from regard.transformer import Memory, Transformer
from regard.turned import Turned, normed, own, residual, unwatched

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
        self.bend = ACTIVATIONS[first.feed_forward.activation]
        self.norm = model.encoder.norm
        self.layers = [self._layer(layer) for layer in model.encoder.layers if isinstance(layer, EncoderLayer)]

    @staticmethod
    def _layer(layer: EncoderLayer) -> _Layer:
        return _Layer(
            Turned.of(layer.attention.projection), Turned.of(layer.attention.output), layer.attention_norm,
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
        places = visible.flatten().nonzero()[:, 0]
        x = entered.view(-1, width).index_select(0, places)
        hidden = None
        if len(places) < visible.numel():
            hidden = torch.zeros(batch, 1, 1, tokens).masked_fill_(~visible[:, None, None], -math.inf)
        # The sentences side by side, for attention only.
        laid = entered.new_zeros(batch, tokens, sum(self.look.sizes))
        for layer in self.layers:
            x = self._through(layer, x, laid, places, hidden)
        x = x if self.norm is None else normed(x, self.norm)
        states = entered.new_zeros(batch * tokens, width).index_copy_(0, places, x)
        return Memory(states.view(batch, tokens, width), visible)

    def _through(self, layer: _Layer, x: Tensor, laid: Tensor, places: Tensor, hidden: Tensor | None) -> Tensor:
        def own(y: Tensor) -> Tensor:
            laid.flatten(0, 1).index_copy_(0, places, layer.own(y))
            return layer.out(self._mixed(laid, hidden).index_select(0, places))

        x = residual(x, layer.own_norm, self.norm_first, own)
        return residual(x, layer.norm, self.norm_first, lambda y: layer.down(self.bend(layer.up(y))))

    def _mixed(self, laid: Tensor, hidden: Tensor | None) -> Tensor:
        parts = torch.split(laid, self.look.sizes, -1)
        query, key, value = (t.view(*t.shape[:2], -1, self.look.head_width).transpose(1, 2) for t in parts)
        grouped = self.look.heads != self.look.key_heads
        mixed = functional.scaled_dot_product_attention(query, key, value, attn_mask=hidden, enable_gqa=grouped)
        return mixed.transpose(1, 2).reshape(-1, self.look.width)
