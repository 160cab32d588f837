"""`Decoding`: a Transformer's decoder for one token after the other on a CPU, with nothing on the way but its products.

The same numbers as `Transformer.decode` with a cache. A step of a search has a few rows and many small operators: here
the matrices are turned once into the order in which few rows meet them fastest, all layers' keys and values lie in
one tensor, which a beam reorders in one go, and nothing is checked again.
"""

from __future__ import annotations

import math
from typing import NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.attention import attention
from regard.layers import ACTIVATIONS, DecoderLayer, MultiHeadAttention
from regard.shapes import Float, Int
from regard.transformer import Memory, Transformer

__all__ = ["Decoding"]

_ROOM = 32  # tokens that the keys and values have room for at first
_known: WeakKeyDictionary[Transformer, tuple[tuple[tuple[int, int], ...], Decoding]] = WeakKeyDictionary()


class _Linear(NamedTuple):
    weight: Tensor  # (inputs, outputs)
    bias: Tensor | None

    def __call__(self, x: Tensor) -> Tensor:
        return x @ self.weight if self.bias is None else torch.addmm(self.bias, x, self.weight)


class _Layer(NamedTuple):
    """The matrices of one decoder layer."""

    own: _Linear  # queries, keys and values of the tokens so far
    own_out: _Linear
    own_norm: nn.LayerNorm
    other: _Linear  # queries to the source
    other_out: _Linear
    other_norm: nn.LayerNorm
    source: _Linear  # keys and values of the source
    up: _Linear
    down: _Linear
    norm: nn.LayerNorm


def _turned(layer: nn.Linear, part: slice = slice(None)) -> _Linear:
    bias = None if layer.bias is None else layer.bias.detach()[part]
    return _Linear(layer.weight.detach()[part].t().contiguous(), bias)


class Decoding:
    """The decoder of one model, ready for many searches; `start` begins one.

    >>> import torch, regard
    >>> model = regard.Transformer(regard.TransformerConfig.tiny(vocabulary=50)).eval()
    >>> memory = model.encode(torch.randint(1, 49, (2, 6)))
    >>> run = Decoding.of(model).start(memory)
    >>> run.logits(torch.tensor([49, 49])).shape
    torch.Size([2, 50])
    >>> run.pick(torch.tensor([0, 0, 0, 1, 1, 1]))                  # three targets for each source from here on
    >>> run.logits(torch.arange(6)).shape
    torch.Size([6, 50])
    """

    def __init__(self, model: Transformer):
        first = model.decoder.layers[0]
        assert isinstance(first, DecoderLayer)
        self.model, self.look = model, first.attention
        self.bend = ACTIVATIONS[first.feed_forward.activation]
        self.norm_first = first.norm_first
        self.head = model.embedding.weight.detach().t().contiguous()
        self.layers = [self._layer(layer) for layer in model.decoder.layers if isinstance(layer, DecoderLayer)]

    @staticmethod
    def _layer(layer: DecoderLayer) -> _Layer:
        queries = layer.cross.sizes[0]
        return _Layer(
            _turned(layer.attention.projection), _turned(layer.attention.output), layer.attention_norm,
            _turned(layer.cross.projection, slice(queries)), _turned(layer.cross.output), layer.cross_norm,
            _turned(layer.cross.projection, slice(queries, None)),
            _turned(layer.feed_forward.up), _turned(layer.feed_forward.down), layer.feed_forward_norm,
        )  # fmt: skip

    @staticmethod
    def suits(model: Transformer) -> bool:
        """Whether it may stand in for the model: in float32 on a CPU, not training, and watched by nobody."""
        weight = model.embedding.weight
        if model.training or weight.device.type != "cpu" or weight.dtype != torch.float32:
            return False
        looks = [module for module in model.decoder.modules() if isinstance(module, MultiHeadAttention)]
        return all(look.attend is attention for look in looks) and not torch.is_autocast_enabled("cpu")

    @classmethod
    def of(cls, model: Transformer) -> Decoding:
        """The model's own, made at its first search and again when its weights have changed."""
        state = tuple((p.data_ptr(), 0 if p.is_inference() else p._version) for p in model.parameters())
        known = _known.get(model)
        if known is None or known[0] != state:
            known = _known[model] = state, cls(model)
        return known[1]

    def start(self, memory: Memory) -> Run:
        """A search over these sources, with one target for each to begin with."""
        return Run(self, memory)


class Run:
    """One search: the keys and values of the sources, and of what each target has said."""

    @torch.no_grad()
    def __init__(self, decoding: Decoding, memory: Memory):
        self.decoding, self.tokens = decoding, 0
        look, (sources, length, width) = decoding.look, memory.states.shape
        self.heads, self.key_heads, self.size = look.heads, look.key_heads, look.head_width
        flat = memory.states.reshape(-1, width)
        both = [layer.source(flat).view(sources, length, 2, self.key_heads, self.size) for layer in decoding.layers]
        # (layers, keys and values, sources, heads, tokens, size)
        self.source = torch.stack([each.permute(2, 0, 3, 1, 4) for each in both])
        hidden = ~memory.visible
        self.hidden: Tensor | None = None
        if hidden.any():
            self.hidden = torch.zeros(sources, 1, 1, length).masked_fill_(hidden[:, None, None], -math.inf)
        # What was said, (tokens, layers, keys and values, rows, heads, size), in one of two memories: beams that change
        # places are written from one into the other, and nothing is allocated on the way.
        self.shape = (len(decoding.layers), 2, sources, self.key_heads, self.size)
        self.memory, self.spare = (flat.new_empty(_ROOM * math.prod(self.shape)) for _ in range(2))

    @torch.no_grad()
    def logits(self, tokens: Int[Tensor, " rows"]) -> Float[Tensor, "rows vocabulary"]:
        """Of the next token, after these ones."""
        decoding, model = self.decoding, self.decoding.model
        if (self.tokens + 1) * math.prod(self.shape) > len(self.memory):
            self.memory = torch.cat([self.memory, torch.empty_like(self.memory)])
        if len(self.spare) < len(self.memory):
            self.spare = torch.empty_like(self.memory)
        x = functional.embedding(tokens, model.embedding.weight) * math.sqrt(model.config.width)
        x += model.positions[self.tokens]
        self.tokens += 1
        said = self._said(self.memory)
        for n, layer in enumerate(decoding.layers):
            x = self._sum(x, layer.own_norm, lambda y, n=n, layer=layer: self._own(y, said[:, n], layer))  # type: ignore[misc]
            x = self._sum(x, layer.other_norm, lambda y, n=n, layer=layer: self._other(y, n, layer))  # type: ignore[misc]
            x = self._sum(x, layer.norm, lambda y, layer=layer: layer.down(decoding.bend(layer.up(y))))  # type: ignore[misc]
        norm = model.decoder.norm
        x = x if norm is None else _normed(x, norm)
        return torch.addmm(model.output_bias, x, decoding.head)

    def _sum(self, x: Tensor, norm: nn.LayerNorm, sublayer: object) -> Tensor:
        if self.decoding.norm_first:
            return sublayer(_normed(x, norm)).add_(x)  # type: ignore[operator, no-any-return]
        return _normed(sublayer(x).add_(x), norm)  # type: ignore[operator]

    def _said(self, memory: Tensor) -> Tensor:
        return memory[: self.tokens * math.prod(self.shape)].view(self.tokens, *self.shape)

    def _own(self, x: Tensor, said: Float[Tensor, "tokens 2 rows heads size"], layer: _Layer) -> Tensor:
        rows, keys = len(x), self.key_heads * self.size
        query, new = torch.split(layer.own(x), [self.heads * self.size, 2 * keys], -1)
        said[-1] = new.view(rows, 2, self.key_heads, self.size).transpose(0, 1)
        key, value = said.permute(1, 2, 3, 0, 4)
        mixed = functional.scaled_dot_product_attention(
            query.view(rows, self.heads, 1, self.size), key, value, enable_gqa=self.heads != self.key_heads
        )
        return layer.own_out(mixed.reshape(rows, -1))

    def _other(self, x: Tensor, n: int, layer: _Layer) -> Tensor:
        # The targets of one source are more queries of one attention: its keys are read once for all of them.
        key, value = self.source[n]
        query = layer.other(x).view(len(key), -1, self.heads, self.size).transpose(1, 2)
        mixed = functional.scaled_dot_product_attention(
            query, key, value, attn_mask=self.hidden, enable_gqa=self.heads != self.key_heads
        )
        return layer.other_out(mixed.transpose(1, 2).reshape(len(x), -1))

    @torch.no_grad()
    def pick(self, rows: Int[Tensor, " some"], sources: Int[Tensor, " few"] | None = None) -> None:
        """Go on with these targets, as many for each source, and with these sources, if some are done."""
        same = len(rows) == self.shape[2] and bool((rows == torch.arange(len(rows))).all())
        if not same:
            past = self._said(self.memory)
            self.shape = (*self.shape[:2], len(rows), *self.shape[3:])
            if _ROOM * math.prod(self.shape) > len(self.spare):  # more targets than ever
                self.spare = past.new_empty(_ROOM * math.prod(self.shape))
            torch.index_select(past, 3, rows, out=self._said(self.spare))
            self.memory, self.spare = self.spare, self.memory
        if sources is not None:
            self.source = self.source.index_select(2, sources)
            self.hidden = None if self.hidden is None else self.hidden.index_select(0, sources)


def _normed(x: Tensor, norm: nn.LayerNorm) -> Tensor:
    return functional.layer_norm(x, norm.normalized_shape, norm.weight, norm.bias, norm.eps)
