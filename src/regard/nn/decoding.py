"""`Decoding`: a Transformer's decoder for one token after the other on a CPU, with nothing on the way but its products.

The same numbers as `Transformer.decode` with a cache. A step of a search has a few rows and many small operators: here
the matrices are turned once into the order in which few rows meet them fastest, all layers' keys and values lie in
one tensor, where beams change places in one go, and nothing is checked again.
"""

from __future__ import annotations

import math
from typing import NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.nn.encoding import Encoding
from regard.nn.layers import DecoderLayer
from regard.nn.packed_linear import BENDS, ROOM, Turned, heads, normed, own, residual, unwatched
from regard.nn.transformer import Memory, Transformer
from regard.support import Float, Int

__all__ = ["Decoding", "Run"]

_known: WeakKeyDictionary[Transformer, tuple[tuple[tuple[int, int], ...], Decoding]] = WeakKeyDictionary()


class _Layer(NamedTuple):
    """The matrices of one decoder layer."""

    own: Turned  # queries to the tokens so far
    own_key: Tensor
    own_value: Tensor
    own_out: Turned
    own_norm: nn.LayerNorm
    other: Turned  # queries to the source
    other_out: Turned
    other_norm: nn.LayerNorm
    source: Turned  # keys and values of the source
    up: Turned
    down: Turned
    norm: nn.LayerNorm


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
        # Not the model itself: it is forgotten when its owner forgets it, and this with it.
        self.look, self.encoding = first.attention, Encoding(model)
        self.words, self.positions, self.norm = model.embedding.weight.detach(), model.positions, model.decoder.norm
        self.bend = BENDS[first.feed_forward.activation]
        self.norm_first = first.norm_first
        bias = model.output_bias if model.output_bias.any() else None
        self.head = Turned(self.words.t().contiguous(), bias)
        self.layers = [self._layer(layer) for layer in model.decoder.layers if isinstance(layer, DecoderLayer)]

    @staticmethod
    def _layer(layer: DecoderLayer) -> _Layer:
        (own, own_out), (other, other_out) = heads(layer.attention), heads(layer.cross)
        query, key, value = (w.contiguous() for w in torch.split(own.weight, layer.attention.sizes, 1))
        queries = layer.cross.sizes[0]
        return _Layer(
            Turned(query, own.bias), key, value, own_out, layer.attention_norm,
            Turned(other.weight[:, :queries].contiguous(), other.bias), other_out, layer.cross_norm,
            Turned(other.weight[:, queries:].contiguous(), None),
            Turned.of(layer.feed_forward.up), Turned.of(layer.feed_forward.down), layer.feed_forward_norm,
        )  # fmt: skip

    @staticmethod
    def suits(model: Transformer) -> bool:
        """Whether it may stand in for the model's decoder."""
        return unwatched(model.decoder) and unwatched(model.embedding) and own(model, "decode", "states", "logits")

    @classmethod
    def of(cls, model: Transformer) -> Decoding:
        """The model's own, made at its first search and again when its weights have changed."""
        weights = (*model.parameters(), model.output_bias)
        state = tuple((w.data_ptr(), 0 if w.is_inference() else w._version) for w in weights)
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
        # The source's number, and the tokens that were said: targets that are equal so far have the same keys there.
        self.decoding, self.said = decoding, torch.arange(len(memory.states))[:, None]
        look, (sources, length, width) = decoding.look, memory.states.shape
        self.key_heads, self.size = look.key_heads, look.head_width
        more = -length % ROOM
        states = functional.pad(memory.states, (0, 0, 0, more)).view(-1, width)
        both = [layer.source(states).view(sources, -1, 2, self.key_heads, self.size) for layer in decoding.layers]
        # (layers, sources, heads, size, tokens) and (…, tokens, size): as the products want them
        self.source_keys = torch.stack([each[:, :, 0].permute(0, 2, 3, 1) for each in both])
        self.source_values = torch.stack([each[:, :, 1].transpose(1, 2) for each in both])
        self.visible = functional.pad(memory.visible, (0, more))
        self._see(torch.arange(sources))
        # Of what was said: (room, layers, keys and values, most rows, heads, size)
        self.memory = states.new_empty(ROOM, len(decoding.layers), 2, sources, self.key_heads, self.size)

    @torch.no_grad()
    def logits(self, tokens: Int[Tensor, " rows"]) -> Float[Tensor, "rows vocabulary"]:
        """Of the next token, after these ones."""
        decoding, place = self.decoding, self.said.shape[1] - 1
        if place == len(self.memory):
            self._lay(2 * place, torch.arange(len(tokens)))
        self.said = torch.cat([self.said, tokens[:, None]], 1)
        x = functional.embedding(tokens, decoding.words) * math.sqrt(decoding.look.width)
        x += decoding.positions[place]
        # For each layer, ready for the products: where the new key and value go, all keys, all values.
        said = self.memory[: place + 1, :, :, : len(tokens)]
        keys, values = said.flatten(3, 4).permute(2, 1, 3, 0, 4)  # each (layers, rows × heads, tokens, size)
        own = zip(said[-1].flatten(3), keys.mT, values, strict=True)
        for layer, mine, other in zip(decoding.layers, own, self.sources, strict=True):
            x = self._through(layer, x, mine, other)
        x = x if decoding.norm is None else normed(x, decoding.norm)
        return decoding.head(x)

    def logs(self, tokens: Int[Tensor, " rows"]) -> Float[Tensor, "rows vocabulary"]:
        """The log-probabilities of the next token, after these ones."""
        logits = self.logits(tokens)
        return torch.log_softmax(logits, -1, out=logits)  # in their place: half the time where there are many

    def _through(self, layer: _Layer, x: Tensor, own: tuple[Tensor, ...], other: tuple[Tensor, ...]) -> Tensor:
        first, bend = self.decoding.norm_first, self.decoding.bend
        x = residual(x, layer.own_norm, first, lambda y: self._own(layer, y, *own), layer.own_out)
        x = residual(x, layer.other_norm, first, lambda y: self._other(layer, y, *other), layer.other_out)
        return residual(x, layer.norm, first, lambda y: bend(layer.up(y)), layer.down)

    def _own(self, layer: _Layer, x: Tensor, new: Tensor, key: Tensor, value: Tensor) -> Tensor:
        torch.mm(x, layer.own_key, out=new[0])
        torch.mm(x, layer.own_value, out=new[1])
        # Query heads that share their keys are more queries of one attention.
        scores = torch.bmm(layer.own(x).view(len(key), -1, self.size), key)
        return torch.bmm(torch.softmax(scores, -1), value).view(len(x), -1)

    def _other(self, layer: _Layer, x: Tensor, key: Tensor, value: Tensor) -> Tensor:
        # So are the targets of one source: its keys are read once for all of them.
        shape = (len(key) // self.key_heads, -1, self.key_heads, x.shape[1] // self.key_heads)
        query = layer.other(x).view(shape).transpose(1, 2).reshape(len(key), -1, self.size)
        mixed = torch.bmm(torch.softmax(torch.baddbmm(self.hidden, query, key), -1), value)
        return mixed.view(shape[0], self.key_heads, -1, shape[3]).transpose(1, 2).reshape(x.shape)

    @torch.no_grad()
    def pick(self, rows: Int[Tensor, " some"], sources: Int[Tensor, " few"] | None = None) -> None:
        """Go on with these targets, as many for each source, and with these sources, if some are done.

        Cheap where little changes: keys and values are moved from the first place on in which a row differs.
        """
        said = self.said.index_select(0, rows)
        if len(rows) > len(self.said):  # more than before: all are laid out anew
            self._lay(len(self.memory), rows)
        else:
            place, row = ((said != self.said[: len(rows)]).cumsum(1)[:, 1:] > 0).t().nonzero().unbind(1)
            _, layers, two, most, *_ = self.memory.shape
            line = (place[:, None] * layers * two + torch.arange(layers * two)) * most
            flat = self.memory.view(-1, self.key_heads * self.size)
            moved = flat.index_select(0, (line + rows[row][:, None]).flatten())
            flat.index_copy_(0, (line + row[:, None]).flatten(), moved)
        self.said = said
        if sources is not None:
            self._see(sources)

    def _see(self, sources: Tensor) -> None:
        """Go on with these sources."""
        self.visible = self.visible.index_select(0, sources)
        new = (sources != torch.arange(len(sources))).nonzero()[:, 0]
        for kept in (self.source_keys, self.source_values):
            kept.index_copy_(1, new, kept.index_select(1, sources[new]))
        # For each layer, ready for the products: keys and values.
        live = (kept[:, : len(sources)].flatten(1, 2) for kept in (self.source_keys, self.source_values))
        self.sources = list(zip(*live, strict=True))
        hidden = torch.zeros(self.visible.shape).masked_fill_(~self.visible, -math.inf)
        self.hidden = hidden.repeat_interleave(self.key_heads, 0)[:, None]

    def _lay(self, room: int, rows: Tensor) -> None:
        """Lay out what these targets have said anew, with room for as many tokens."""
        said = self.memory[: self.said.shape[1] - 1]
        self.memory = said.new_empty(room, *said.shape[1:3], len(rows), *said.shape[4:])
        torch.index_select(said, 3, rows, out=self.memory[: len(said)])
