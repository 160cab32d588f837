"""Decoding token by token: one protocol, `DecodingSession`, and the two computations behind it.

`start_decoding(model, source)` encodes the sources and chooses. `PlainSession` runs the model itself with a cache.
`PackedSession` gives the same numbers faster on a CPU. A step of a search has few rows and many small operators, so
its weights are packed once into the layout that few rows multiply fastest, the keys and values of all layers lie in
one tensor that a beam search reorders in one go, the encoder's products skip padding, and nothing is checked again.
It is used only where no hook, `watch` or subclass could notice the difference.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple, Protocol, runtime_checkable
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.matrix import attention
from regard.nn.layers import ACTIVATIONS, DecoderLayer, EncoderLayer, FeedForward, MultiHeadAttention
from regard.nn.transformer import Decoder, Encoder, Memory, Transformer
from regard.support import Bool, Float, Int

__all__ = [
    "DecodingSession",
    "PackedDecoder",
    "PackedEncoder",
    "PackedLinear",
    "PackedSession",
    "PlainSession",
    "start_decoding",
]

_BLOCK = 16  # keys are allocated in multiples of it: torch's softmax over 15 numbers takes five times that over 16
# In place where possible: the input is a fresh tensor, and no gradient will need it.
_ACTIVATIONS = ACTIVATIONS | {"silu": partial(functional.silu, inplace=True)}
_OURS = (
    nn.Linear, nn.Embedding, nn.LayerNorm, nn.Dropout, nn.ModuleList, MultiHeadAttention, FeedForward, EncoderLayer,
    DecoderLayer, Encoder, Decoder,
)  # fmt: skip


@runtime_checkable
class DecodingSession(Protocol):
    """Targets that grow by one token at a time, the same number for each source, those of one source in a row."""

    def step(self, tokens: Int[Tensor, " rows"]) -> Float[Tensor, "rows vocabulary"]:
        """Append a token to each target; returns the log-probabilities of the token after it."""

    def reorder(self, rows: Int[Tensor, " kept"], sources: Int[Tensor, " open"] | None = None) -> None:
        """Continue with these targets, in this order, and with these sources if some are finished."""


def start_decoding(model: Transformer, source: Int[Tensor, "batch tokens"]) -> DecodingSession:
    """A session over these sources, with one target for each to begin with.

    >>> import torch, regard
    >>> model = regard.Transformer(regard.TransformerConfig.tiny(vocabulary=50)).eval()
    >>> session = start_decoding(model, torch.randint(1, 49, (2, 6)))
    >>> session.step(torch.tensor([49, 49])).shape
    torch.Size([2, 50])
    >>> session.reorder(torch.tensor([0, 0, 0, 1, 1, 1]))           # three targets for each source from here on
    >>> session.step(torch.arange(6)).shape
    torch.Size([6, 50])
    """
    if not PackedDecoder.supports(model):
        return PlainSession(model, model.encode(source))
    decoder = PackedDecoder.of(model)
    if PackedEncoder.supports(model):
        return decoder.start(decoder.encoder.encode(*model.enter(source)))
    return decoder.start(model.encode(source))


class PlainSession:
    """The model itself, with a cache."""

    def __init__(self, model: Transformer, memory: Memory):
        self.model, self.memory, self.cache = model, memory, model.cache()

    def step(self, tokens: Int[Tensor, " rows"]) -> Float[Tensor, "rows vocabulary"]:
        """Append a token to each target; returns the log-probabilities of the token after it."""
        return torch.log_softmax(self.model.decode(tokens[:, None], self.memory, self.cache)[:, -1].float(), -1)

    def reorder(self, rows: Int[Tensor, " kept"], sources: Int[Tensor, " open"] | None = None) -> None:
        """Continue with these targets, in this order, and with these sources if some are finished."""
        self.memory = self.memory if sources is None else self.memory.pick(sources)
        self.cache.pick(rows, sources)


# Packed weights


class PackedLinear(NamedTuple):
    """A copy of a linear layer for inference: its weight transposed and contiguous, as products of few rows want it.

    >>> layer = nn.Linear(3, 4)
    >>> x = torch.randn(2, 3)
    >>> torch.allclose(PackedLinear.of(layer)(x), layer(x))
    True
    """

    weight: Float[Tensor, "inputs outputs"]
    bias: Float[Tensor, " first"] | None  # of the first outputs; the others have none

    @classmethod
    def of(cls, layer: nn.Linear) -> PackedLinear:
        """With the layer's own bias."""
        weight = layer.weight.detach().t().clone(memory_format=torch.contiguous_format)  # a copy, whatever its shape
        return cls(weight, None if layer.bias is None else layer.bias.detach())

    def __call__(self, x: Float[Tensor, "rows inputs"]) -> Float[Tensor, "rows outputs"]:
        """x · weight + bias. (`addmm` is slower: it copies the bias into every row first and reads it back.)"""
        out = torch.mm(x, self.weight)
        if self.bias is not None:
            out.narrow(1, 0, len(self.bias)).add_(self.bias)
        return out

    def add_to(self, total: Float[Tensor, "rows outputs"], x: Float[Tensor, "rows inputs"]) -> Tensor:
        """total + x · weight + bias, computed in place in `total`."""
        return (total if self.bias is None else total.add_(self.bias)).addmm_(x, self.weight)


@torch.no_grad()
def _packed_attention(layer: MultiHeadAttention) -> tuple[PackedLinear, PackedLinear]:
    """The projection to scaled queries, keys and values, with a bias for queries only, and the output projection.

    The keys' bias would add the same number to all scores of a query, which softmax ignores. The values' bias passes
    through softmax unchanged, so it is folded into the bias of the output.

    >>> layer = MultiHeadAttention(8, heads=2)
    >>> projection, output = _packed_attention(layer)
    >>> projection.weight.shape, projection.bias.shape, output.bias.shape
    (torch.Size([8, 24]), torch.Size([8]), torch.Size([8]))
    """
    projection, output = PackedLinear.of(layer.projection), PackedLinear.of(layer.output)
    scale = layer.head_width**-0.5
    projection.weight[:, : layer.sizes[0]] *= scale
    if projection.bias is None:
        return projection, output
    query, _, value = torch.split(projection.bias, layer.sizes)
    group = layer.heads // layer.key_heads  # query heads that share a value head
    value = value.view(layer.key_heads, 1, -1).expand(-1, group, -1).reshape(1, -1)
    return PackedLinear(projection.weight, query * scale), PackedLinear(output.weight, output(value)[0])


def _normed(x: Float[Tensor, "rows width"], norm: nn.LayerNorm) -> Float[Tensor, "rows width"]:
    """The norm, without the overhead of a module call."""
    return functional.layer_norm(x, norm.normalized_shape, norm.weight, norm.bias, norm.eps)


def _residual(
    x: Float[Tensor, "rows width"], norm: nn.LayerNorm, norm_first: bool, sublayer: Callable[[Tensor], Tensor],
    output: PackedLinear,
) -> Float[Tensor, "rows width"]:  # fmt: skip
    """x + output(sublayer(x)), with the norm before the sublayer or after the sum; overwrites x with the sum.

    >>> x, norm, output = torch.randn(2, 3), nn.LayerNorm(3), nn.Linear(3, 3)
    >>> expected = norm(x + output(x.exp()))
    >>> torch.allclose(_residual(x, norm, False, torch.exp, PackedLinear.of(output)), expected, atol=1e-6)
    True
    """
    total = output.add_to(x, sublayer(_normed(x, norm) if norm_first else x))
    return total if norm_first else _normed(total, norm)


def _replaceable(module: nn.Module) -> bool:
    """Whether another computation of the same numbers may replace a module unnoticed.

    In float32 on a CPU, in eval mode, where all submodules are ours and none is hooked or watched.

    >>> layer = nn.Linear(3, 4).eval()
    >>> _replaceable(layer)
    True
    >>> hook = layer.register_forward_hook(print)
    >>> _replaceable(layer)
    False
    """
    first = next(module.parameters())
    if module.training or first.device.type != "cpu" or first.dtype != torch.float32:
        return False
    if torch.is_autocast_enabled("cpu"):
        return False
    for part in module.modules():
        if type(part) not in _OURS or part._forward_hooks or part._forward_pre_hooks:
            return False
        if isinstance(part, MultiHeadAttention) and part.attend is not attention:
            return False
    return True


def _inherited(model: Transformer, *methods: str) -> bool:
    """Whether these methods are those of `Transformer`, neither overridden nor patched.

    >>> import regard
    >>> _inherited(regard.Transformer(regard.TransformerConfig.tiny()), "encode")
    True
    """
    return all(getattr(getattr(model, name), "__func__", None) is getattr(Transformer, name) for name in methods)


# The encoder


class _EncoderWeights(NamedTuple):
    """One encoder layer."""

    projection: PackedLinear  # queries, keys and values
    output: PackedLinear
    attention_norm: nn.LayerNorm
    up: PackedLinear
    down: PackedLinear
    feed_forward_norm: nn.LayerNorm


class PackedEncoder:
    """The encoder of one model for sentences of unequal lengths: its products skip padding.

    >>> import torch, regard
    >>> model = regard.Transformer(regard.TransformerConfig.tiny(vocabulary=50)).eval()
    >>> source = torch.tensor([[5, 6, 7, 8], [9, 8, 49, 49]])                   # 49 is padding
    >>> states, visible = PackedEncoder(model).encode(*model.enter(source))
    >>> torch.allclose(states[visible], model.encode(source).states[visible], atol=1e-5)
    True
    """

    def __init__(self, model: Transformer):
        # No reference to the model itself, so that it can be freed, and this with it.
        first = model.encoder.layers[0]
        assert isinstance(first, EncoderLayer)
        self.attention, self.norm_first = first.attention, first.norm_first
        self.activation = _ACTIVATIONS[first.feed_forward.activation]
        self.norm = model.encoder.norm
        self.layers = [self._pack(layer) for layer in model.encoder.layers if isinstance(layer, EncoderLayer)]

    @staticmethod
    def _pack(layer: EncoderLayer) -> _EncoderWeights:
        up, down = PackedLinear.of(layer.feed_forward.up), PackedLinear.of(layer.feed_forward.down)
        return _EncoderWeights(
            *_packed_attention(layer.attention), layer.attention_norm, up, down, layer.feed_forward_norm
        )

    @staticmethod
    def supports(model: Transformer) -> bool:
        """Whether it may replace the model's encoder."""
        return _replaceable(model.encoder) and _inherited(model, "encode")

    @torch.no_grad()
    def encode(self, embedded: Float[Tensor, "batch tokens width"], visible: Bool[Tensor, "batch tokens"]) -> Memory:
        """A vector for each source token, from what `Transformer.enter` returns; zeros where there is padding."""
        batch, tokens, width = embedded.shape
        extra = -tokens % _BLOCK
        seen = functional.pad(visible, (0, extra)).flatten()
        places = seen.nonzero()[:, 0]
        x = functional.pad(embedded, (0, 0, 0, extra)).view(-1, width).index_select(0, places)
        # Attention needs a padded batch again. Padding is masked, so any row will do: the last one of the sentence.
        padded = (seen.cumsum(0) - 1).clamp_(0)
        mask = torch.zeros(seen.shape).masked_fill_(~seen, -math.inf).view(batch, 1, 1, -1)

        def attend(projected: Tensor) -> Tensor:
            return self._attend(projected.index_select(0, padded), mask).index_select(0, places)

        for layer in self.layers:
            x = self._layer(layer, x, attend)
        x = x if self.norm is None else _normed(x, self.norm)
        states = embedded.new_zeros(len(seen), width).index_copy_(0, places, x)
        return Memory(states.view(batch, -1, width)[:, :tokens], visible)

    def _layer(self, layer: _EncoderWeights, x: Tensor, attend: Callable[[Tensor], Tensor]) -> Tensor:
        x = _residual(x, layer.attention_norm, self.norm_first, lambda y: attend(layer.projection(y)), layer.output)
        return _residual(
            x, layer.feed_forward_norm, self.norm_first, lambda y: self.activation(layer.up(y)), layer.down
        )

    def _attend(self, projected: Tensor, mask: Tensor) -> Tensor:
        batch, _, _, tokens = mask.shape
        parts = torch.split(projected, self.attention.sizes, -1)
        query, key, value = (t.view(batch, tokens, -1, self.attention.head_width).transpose(1, 2) for t in parts)
        grouped = self.attention.heads != self.attention.key_heads
        mixed = functional.scaled_dot_product_attention(query, key, value, mask, scale=1.0, enable_gqa=grouped)
        return mixed.transpose(1, 2).reshape(-1, self.attention.width)


# The decoder


class _DecoderWeights(NamedTuple):
    """One decoder layer."""

    query: PackedLinear  # self-attention
    key: Tensor
    value: Tensor
    output: PackedLinear
    attention_norm: nn.LayerNorm
    cross_query: PackedLinear
    cross_output: PackedLinear
    cross_norm: nn.LayerNorm
    cross_key_value: PackedLinear
    up: PackedLinear
    down: PackedLinear
    feed_forward_norm: nn.LayerNorm


class PackedDecoder:
    """The decoder of one model, packed once for many searches.

    >>> import torch, regard
    >>> model = regard.Transformer(regard.TransformerConfig.tiny(vocabulary=50)).eval()
    >>> session = PackedDecoder.of(model).start(model.encode(torch.randint(1, 49, (2, 6))))
    >>> session.logits(torch.tensor([49, 49])).shape
    torch.Size([2, 50])
    """

    def __init__(self, model: Transformer):
        first = model.decoder.layers[0]
        assert isinstance(first, DecoderLayer)
        # No reference to the model itself, so that it can be freed, and this with it.
        self.attention, self.encoder = first.attention, PackedEncoder(model)
        self.embedding, self.positions = model.embedding.weight.detach(), model.positions
        self.norm, self.norm_first = model.decoder.norm, first.norm_first
        self.activation = _ACTIVATIONS[first.feed_forward.activation]
        bias = model.output_bias if model.output_bias.any() else None
        self.head = PackedLinear(self.embedding.t().contiguous(), bias)
        self.layers = [self._pack(layer) for layer in model.decoder.layers if isinstance(layer, DecoderLayer)]

    @staticmethod
    def _pack(layer: DecoderLayer) -> _DecoderWeights:
        (own, own_output), (cross, cross_output) = _packed_attention(layer.attention), _packed_attention(layer.cross)
        query, key, value = (w.contiguous() for w in torch.split(own.weight, layer.attention.sizes, 1))
        queries = layer.cross.sizes[0]
        return _DecoderWeights(
            PackedLinear(query, own.bias), key, value, own_output, layer.attention_norm,
            PackedLinear(cross.weight[:, :queries].contiguous(), cross.bias), cross_output, layer.cross_norm,
            PackedLinear(cross.weight[:, queries:].contiguous(), None),
            PackedLinear.of(layer.feed_forward.up), PackedLinear.of(layer.feed_forward.down), layer.feed_forward_norm,
        )  # fmt: skip

    @staticmethod
    def supports(model: Transformer) -> bool:
        """Whether it may replace the model's decoder."""
        parts = model.decoder, model.embedding
        return all(map(_replaceable, parts)) and _inherited(model, "decode", "states", "logits")

    @classmethod
    def of(cls, model: Transformer) -> PackedDecoder:
        """The one for this model, packed at its first search and again when its weights have changed."""
        weights = (*model.parameters(), model.output_bias)
        versions = tuple((w.data_ptr(), 0 if w.is_inference() else w._version) for w in weights)
        cached = _packed_decoders.get(model)
        if cached is None or cached[0] != versions:
            cached = _packed_decoders[model] = versions, cls(model)
        return cached[1]

    def start(self, memory: Memory) -> PackedSession:
        """A session over these sources, with one target for each to begin with."""
        return PackedSession(self, memory)


_packed_decoders: WeakKeyDictionary[Transformer, tuple[tuple[tuple[int, int], ...], PackedDecoder]] = (
    WeakKeyDictionary()
)


class PackedSession:
    """The keys and values of the sources, and of the tokens of each target."""

    @torch.no_grad()
    def __init__(self, decoder: PackedDecoder, memory: Memory):
        sources, length, width = memory.states.shape
        self.decoder = decoder
        # The source's number, then the target's tokens: rows with an equal beginning have equal keys there.
        self.history = torch.arange(sources)[:, None]
        self.key_heads, self.head_width = decoder.attention.key_heads, decoder.attention.head_width
        extra = -length % _BLOCK
        states = functional.pad(memory.states, (0, 0, 0, extra)).view(-1, width)
        shape = (sources, -1, 2, self.key_heads, self.head_width)
        projected = [layer.cross_key_value(states).view(shape) for layer in decoder.layers]
        # (layers, sources, heads, head_width, tokens) and (…, tokens, head_width): the layouts that `bmm` takes
        self.cross_keys = torch.stack([both[:, :, 0].permute(0, 2, 3, 1) for both in projected])
        self.cross_values = torch.stack([both[:, :, 1].transpose(1, 2) for both in projected])
        self.visible = functional.pad(memory.visible, (0, extra))
        self._keep_sources(torch.arange(sources))
        # Of the targets: (capacity in tokens, layers, key or value, rows, heads, head_width)
        self.cache = states.new_empty(_BLOCK, len(decoder.layers), 2, sources, self.key_heads, self.head_width)

    @torch.no_grad()
    def logits(self, tokens: Int[Tensor, " rows"]) -> Float[Tensor, "rows vocabulary"]:
        """Append a token to each target; returns the logits of the token after it."""
        decoder, place = self.decoder, self.history.shape[1] - 1
        if place == len(self.cache):
            self._reallocate(2 * place, torch.arange(len(tokens)))
        self.history = torch.cat([self.history, tokens[:, None]], 1)
        x = functional.embedding(tokens, decoder.embedding) * math.sqrt(decoder.attention.width)
        x += decoder.positions[place]
        # For each layer, as `bmm` takes them: where the new key and value go, all keys, all values.
        filled = self.cache[: place + 1, :, :, : len(tokens)]
        keys, values = filled.flatten(3, 4).permute(2, 1, 3, 0, 4)  # each (layers, rows × heads, tokens, head_width)
        own = zip(filled[-1].flatten(3), keys.mT, values, strict=True)
        for layer, cached, cross in zip(decoder.layers, own, self.cross, strict=True):
            x = self._layer(layer, x, cached, cross)
        x = x if decoder.norm is None else _normed(x, decoder.norm)
        return decoder.head(x)

    def step(self, tokens: Int[Tensor, " rows"]) -> Float[Tensor, "rows vocabulary"]:
        """Append a token to each target; returns the log-probabilities of the token after it."""
        logits = self.logits(tokens)
        return torch.log_softmax(logits, -1, out=logits)  # in place: half the time for a large batch

    def _layer(
        self, layer: _DecoderWeights, x: Tensor, cached: tuple[Tensor, ...], cross: tuple[Tensor, ...]
    ) -> Tensor:
        first, activation = self.decoder.norm_first, self.decoder.activation
        x = _residual(x, layer.attention_norm, first, lambda y: self._attend(layer, y, *cached), layer.output)
        x = _residual(x, layer.cross_norm, first, lambda y: self._cross_attend(layer, y, *cross), layer.cross_output)
        return _residual(x, layer.feed_forward_norm, first, lambda y: activation(layer.up(y)), layer.down)

    def _attend(self, layer: _DecoderWeights, x: Tensor, new: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        torch.mm(x, layer.key, out=new[0])
        torch.mm(x, layer.value, out=new[1])
        # Query heads that share a key head become more queries of one attention.
        scores = torch.bmm(layer.query(x).view(len(keys), -1, self.head_width), keys)
        return torch.bmm(torch.softmax(scores, -1), values).view(len(x), -1)

    def _cross_attend(self, layer: _DecoderWeights, x: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        # So do the targets of one source: its keys are read once for all of them.
        shape = (len(keys) // self.key_heads, -1, self.key_heads, x.shape[1] // self.key_heads)
        query = layer.cross_query(x).view(shape).transpose(1, 2).reshape(len(keys), -1, self.head_width)
        mixed = torch.bmm(torch.softmax(torch.baddbmm(self.cross_mask, query, keys), -1), values)
        return mixed.view(shape[0], self.key_heads, -1, shape[3]).transpose(1, 2).reshape(x.shape)

    @torch.no_grad()
    def reorder(self, rows: Int[Tensor, " kept"], sources: Int[Tensor, " open"] | None = None) -> None:
        """Continue with these targets, in this order, and with these sources if some are finished.

        Cheap where little changes: keys and values are copied only from the first token on in which a row differs.
        """
        history = self.history.index_select(0, rows)
        if len(rows) > len(self.history):  # more rows than before
            self._reallocate(len(self.cache), rows)
        else:
            place, row = ((history != self.history[: len(rows)]).cumsum(1)[:, 1:] > 0).t().nonzero().unbind(1)
            _, layers, two, capacity, *_ = self.cache.shape
            line = (place[:, None] * layers * two + torch.arange(layers * two)) * capacity
            flat = self.cache.view(-1, self.key_heads * self.head_width)
            moved = flat.index_select(0, (line + rows[row][:, None]).flatten())
            flat.index_copy_(0, (line + row[:, None]).flatten(), moved)
        self.history = history
        if sources is not None:
            self._keep_sources(sources)

    def _keep_sources(self, sources: Tensor) -> None:
        """Move these sources to the front, and look at them only."""
        self.visible = self.visible.index_select(0, sources)
        moved = (sources != torch.arange(len(sources))).nonzero()[:, 0]
        for stored in (self.cross_keys, self.cross_values):
            stored.index_copy_(1, moved, stored.index_select(1, sources[moved]))
        # Keys and values of each layer
        kept = (stored[:, : len(sources)].flatten(1, 2) for stored in (self.cross_keys, self.cross_values))
        self.cross = list(zip(*kept, strict=True))
        mask = torch.zeros(self.visible.shape).masked_fill_(~self.visible, -math.inf)
        self.cross_mask = mask.repeat_interleave(self.key_heads, 0)[:, None]

    def _reallocate(self, tokens: int, rows: Tensor) -> None:
        """Move the keys and values of these targets to a new cache with a capacity of so many tokens."""
        filled = self.cache[: self.history.shape[1] - 1]
        self.cache = filled.new_empty(tokens, *filled.shape[1:3], len(rows), *filled.shape[4:])
        torch.index_select(filled, 3, rows, out=self.cache[: len(filled)])
