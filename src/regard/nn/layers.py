"""The layers of a Transformer, from one attention head to the decoder layer, all built on `regard.attention`.

A layer maps (*batch, tokens, width) to the same shape. A layer works on sets: only positions, which the `Transformer`
adds, or a mask bring in an order. Masks are regard's (`padding`, `documents`, `causal`, …) or plain tensors where True
means "attend". Padding costs one row per sentence, never tokens × tokens.

Every attention layer calls its kernel through `attend`, an attribute with the signature of `regard.attention`. Replace
`attend` to see the weights or to switch a head off.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.errors import InputError, ShapeError
from regard.learn import Steps, steps
from regard.matrix import attention
from regard.nn.config import check_positive
from regard.scores import Atom, Band, Dense, Keep, Mask, as_mask, bind, causal
from regard.support import Float

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": functional.relu_,  # in place: the input is a fresh tensor, and the gradient needs the output only
    "silu": functional.silu,
    "gelu": functional.gelu,
}


class SelfAttention(nn.Module):
    """One head over a set of vectors: queries, keys and values by three matrices, then attention.

    >>> import torch, regard
    >>> layer = regard.SelfAttention(512, 64)
    >>> layer(torch.randn(3, 512)).shape                        # "I am good": three words in, three vectors out
    torch.Size([3, 64])
    >>> layer.steps(torch.randn(3, 512), words=["I", "am", "good"]).weights.shape
    torch.Size([3, 3])
    """

    kind, heads = "encoder", 1

    def __init__(self, width: int, head_width: int | None = None):
        super().__init__()
        size = width if head_width is None else head_width
        check_positive(width=width, head_width=size)
        self.width = width
        self.query, self.key, self.value = (nn.Linear(width, size, bias=False) for _ in range(3))
        self.attend: Callable[..., Tensor] = attention

    def forward(
        self, x: Float[Tensor, "*batch tokens width"], mask: Mask | Tensor | None = None
    ) -> Float[Tensor, "*batch tokens head_width"]:
        """Return a weighted mean of the values for each vector of the set."""
        _check_width(x, self.width, "x")
        query, key, value = (layer(x).unsqueeze(-3) for layer in (self.query, self.key, self.value))
        return self.attend(query, key, value, mask=mask).squeeze(-3)

    def steps(self, x: Float[Tensor, "tokens width"], words: list[str] | None = None) -> Steps[Tensor]:
        """Compute the same with every intermediate result kept, for printing."""
        w_q, w_k, w_v = (layer.weight.detach().mT for layer in (self.query, self.key, self.value))
        return steps(x.detach(), w_q, w_k, w_v, words=words)


@dataclass
class KeyValues:
    """The cache of one attention layer: keys and values of the tokens so far."""

    key: Tensor | None = None
    value: Tensor | None = None

    def extend(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Append the keys and values of new tokens; return all keys and values."""
        if self.key is not None and self.value is not None:
            key, value = torch.cat([self.key, key], -2), torch.cat([self.value, value], -2)
        self.key, self.value = key, value
        return key, value

    def pick(self, batch: Tensor) -> None:
        """Keep these members of the batch, in this order, as a beam search does after every step."""
        if self.key is not None and self.value is not None:
            self.key, self.value = self.key.index_select(0, batch), self.value.index_select(0, batch)


class MultiHeadAttention(nn.Module):
    """Several heads in parallel; with a `context`, queries come from x, keys and values from the context.

    Args:
        width: numbers in each vector of the input and of the output.
        heads: heads, each of width / heads numbers.
        key_heads: heads of keys and values; fewer than `heads` lets groups of heads share them.
        context_width: numbers in each vector of a context, if not `width`.
        bias: whether the projections have biases.
        dropout: the rate at which weights are dropped in training.
        kind: "encoder", "decoder" or "cross", the name that a record gives the layer.
        add_bias_kv: as in torch, a learned key and value before the first token, which every query sees.
        add_zero_attn: as in torch, a key and value of zeros, which every query sees.

    >>> import torch, regard
    >>> layer = regard.MultiHeadAttention(512, heads=8)
    >>> layer(torch.randn(2, 5, 512), mask=regard.padding([5, 3])).shape
    torch.Size([2, 5, 512])
    >>> cross = regard.MultiHeadAttention(512, heads=8, key_heads=2, context_width=300)
    >>> cross(torch.randn(2, 5, 512), torch.randn(2, 9, 300)).shape
    torch.Size([2, 5, 512])
    """

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        key_heads: int | None = None,
        context_width: int | None = None,
        bias: bool = True,
        dropout: float = 0.0,
        kind: str = "encoder",
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
    ):
        super().__init__()
        key_heads = heads if key_heads is None else key_heads
        check_positive(width=width, heads=heads, key_heads=key_heads)
        if width % heads or heads % key_heads:
            raise ShapeError(
                f"heads must divide width, and key_heads must divide heads. Got {width=}, {heads=}, {key_heads=}."
            )
        self.width, self.heads, self.key_heads, self.head_width = width, heads, key_heads, width // heads
        self.context_width = width if context_width is None else context_width
        self.kind, self.dropout = kind, dropout
        self.sizes = [heads * self.head_width, key_heads * self.head_width, key_heads * self.head_width]
        # One projection for queries, keys and values; two where x and context differ in width.
        if self.context_width == width:
            self.projection = nn.Linear(width, sum(self.sizes), bias=bias)
        else:
            self.query = nn.Linear(width, self.sizes[0], bias=bias)
            self.key_value = nn.Linear(self.context_width, sum(self.sizes[1:]), bias=bias)
        self.output = nn.Linear(width, width, bias=bias)
        self.add_bias_kv, self.add_zero_attn = add_bias_kv, add_zero_attn
        if add_bias_kv:
            self.bias_k, self.bias_v = (nn.Parameter(torch.empty(self.sizes[1])) for _ in range(2))
        self.attend: Callable[..., Tensor] = attention
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialize matrices by Xavier's uniform rule and biases with zeros.

        Queries, keys and values start smaller by √½, so that deep post-norm stacks begin to learn sooner.
        """
        for layer in self.children():
            assert isinstance(layer, nn.Linear)
            parts = self.sizes if layer.out_features == sum(self.sizes) else [layer.out_features]
            for part in torch.split(layer.weight, parts):
                nn.init.xavier_uniform_(part, gain=1.0 if layer is self.output else 0.5**0.5)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
        if self.add_bias_kv:
            for vector in (self.bias_k, self.bias_v):
                nn.init.xavier_normal_(vector[None])

    def forward(
        self,
        x: Float[Tensor, "*batch tokens width"],
        context: Float[Tensor, "*batch others context_width"] | None = None,
        mask: Mask | Tensor | None = None,
        cache: KeyValues | None = None,
    ) -> Float[Tensor, "*batch tokens width"]:
        """Compute self-attention over x or, with a context, attention from x to the context.

        A cache appends the keys and values of x to those of earlier calls; it keeps those of a context.
        """
        _check_width(x, self.width, "x")
        query, key, value = self._project(x, context, cache)
        if self.add_bias_kv:
            mask = _with_key_in_front(mask, (*query.shape[:-1], key.shape[-2]), query.device)
            pairs = ((self.bias_k, key), (self.bias_v, value))
            firsts = [self._heads(vector[None].to(t.dtype)).expand(*t.shape[:-2], 1, -1) for vector, t in pairs]
            key, value = torch.cat([firsts[0], key], -2), torch.cat([firsts[1], value], -2)
        # A key and value of zeros is a sink: a logit of 0 that contributes nothing.
        sink = {"sinks": 0.0} if self.add_zero_attn else {}
        mixed = self.attend(query, key, value, mask=mask, dropout=self.dropout if self.training else 0.0, **sink)
        joined: Tensor = self.output(mixed.transpose(-3, -2).flatten(-2))
        return joined

    def _project(self, x: Tensor, context: Tensor | None, cache: KeyValues | None) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries (*batch, heads, tokens, head_width), and keys and values with key_heads instead of heads."""
        fused = self.context_width == self.width
        if context is None:
            if not fused:
                raise InputError(
                    f"this layer takes keys and values from a context of width {self.context_width}: layer(x, context)."
                )
            query, key, value = (self._heads(t) for t in torch.split(self.projection(x), self.sizes, -1))
            return (query, key, value) if cache is None else (query, *cache.extend(key, value))
        _check_width(context, self.context_width, "context")
        if fused:
            weight, bias = self.projection.weight, self.projection.bias
            ends = [self.sizes[0], sum(self.sizes[1:])]
            w_q, w_kv = torch.split(weight, ends)
            b_q, b_kv = (None, None) if bias is None else torch.split(bias, ends)
        else:
            (w_q, b_q), (w_kv, b_kv) = ((layer.weight, layer.bias) for layer in (self.query, self.key_value))
        query = self._heads(functional.linear(x, w_q, b_q))
        if cache is not None and cache.key is not None and cache.value is not None:
            return query, cache.key, cache.value
        both = functional.linear(context, w_kv, b_kv)
        key, value = (self._heads(t) for t in torch.split(both, self.sizes[1:], -1))
        return (query, key, value) if cache is None else (query, *cache.extend(key, value))

    def _heads(self, joined: Tensor) -> Tensor:
        return joined.view(*joined.shape[:-1], -1, self.head_width).transpose(-3, -2)

    def extra_repr(self) -> str:
        """The sizes that the submodules do not show."""
        added = "".join(f", {name}=True" for name in ("add_bias_kv", "add_zero_attn") if getattr(self, name))
        return f"heads={self.heads}, key_heads={self.key_heads}, head_width={self.head_width}{added}"


def _with_key_in_front(mask: Mask | Tensor | None, shape: tuple[int, ...], device: torch.device) -> Mask:
    """Extend a mask over (*batch, heads, queries, keys) by a key before the first one that every query sees."""
    *batch, _, queries, keys = shape
    shifted: list[Atom] = []
    dense: list[Atom] = []

    def widened(tensor: Tensor) -> Tensor:
        over_keys = tensor.expand(*tensor.shape[:-1], keys)
        return functional.pad(over_keys, (1, 0), value=tensor.dtype == torch.bool)

    for atom in as_mask(mask).atoms:
        if isinstance(atom, Dense):
            shifted.append(Dense(widened(atom.tensor)))
        elif isinstance(atom, Keep):
            shifted.append(Keep(widened(atom.keys) if atom.keys.dtype == torch.bool else atom.keys.long() + 1))
        elif (
            isinstance(atom, Band)
            and isinstance(atom.offset, int)
            and atom.lowest is None
            and (atom.highest is None or atom.highest + atom.offset >= -1)
        ):  # all rows of this band see a key before the first one
            shifted.append(Band(None, atom.highest, atom.offset + 1))
        else:  # windows and documents would hide the new key, and a cut has the positions of the other keys
            dense.append(atom)
    bound = bind(Mask(tuple(dense)), shape, device, plain=False)
    visible = bound.tile(range(queries), range(keys), device)
    for tensor in (visible, bound.bias_tile(range(queries), range(keys), torch.float32)):
        if tensor is not None:
            leading = [1] * len(batch) if len(tensor) == 1 else batch
            shifted.append(Dense(widened(tensor.view(*leading, *tensor.shape[1:]))))
    return Mask(tuple(shifted))


class FeedForward(nn.Module):
    """Two linear layers with an activation between them, the same for every token.

    >>> import torch, regard
    >>> regard.FeedForward(512, 2048)(torch.randn(3, 512)).shape
    torch.Size([3, 512])
    """

    def __init__(self, width: int, hidden: int, *, activation: str = "relu", bias: bool = True, dropout: float = 0.0):
        super().__init__()
        check_positive(width=width, hidden=hidden)
        _check_dropout(dropout)
        if activation not in ACTIVATIONS:
            raise InputError(f"activation must be one of {', '.join(ACTIVATIONS)}. Got {activation!r}.")
        self.activation, self.dropout = activation, dropout
        self.up, self.down = nn.Linear(width, hidden, bias=bias), nn.Linear(hidden, width, bias=bias)
        for layer in (self.up, self.down):
            nn.init.xavier_uniform_(layer.weight)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)

    def forward(self, x: Float[Tensor, "*batch width"]) -> Float[Tensor, "*batch width"]:
        """Compute down(activation(up(x))), with dropout before the second layer."""
        hidden = ACTIVATIONS[self.activation](self.up(x))
        if self.training and self.dropout:
            hidden = functional.dropout(hidden, self.dropout)
        out: Tensor = self.down(hidden)
        return out


class _Layer(nn.Module):
    """Sublayers with a residual sum and a norm: after the sum, as in the paper, or before the sublayer."""

    def __init__(self, norm_first: bool, dropout: float):
        super().__init__()
        _check_dropout(dropout)
        self.norm_first, self.drop = norm_first, nn.Dropout(dropout)

    def _residual(self, x: Tensor, norm: nn.Module, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        added: Tensor = self.drop(sublayer(norm(x) if self.norm_first else x))
        # The output of a sublayer is a fresh tensor that nothing else uses: add in place.
        total = added.add_(x) if added.dtype == x.dtype else added + x
        return total if self.norm_first else norm(total)  # type: ignore[no-any-return]


class EncoderLayer(_Layer):
    """Self-attention and a feed-forward layer, each with residual and norm.

    >>> import torch, regard
    >>> layer = regard.EncoderLayer(512, heads=8, hidden=2048).eval()
    >>> x, order = torch.randn(4, 512), torch.tensor([2, 0, 3, 1])
    >>> torch.allclose(layer(x)[order], layer(x[order]), atol=1e-5)     # a layer on sets
    True
    """

    def __init__(
        self,
        width: int,
        heads: int,
        hidden: int,
        *,
        key_heads: int | None = None,
        activation: str = "relu",
        norm_first: bool = False,
        bias: bool = True,
        dropout: float = 0.0,
    ):
        super().__init__(norm_first, dropout)
        self.attention = MultiHeadAttention(width, heads, key_heads=key_heads, bias=bias, kind="encoder")
        self.attention_norm = nn.LayerNorm(width, bias=bias)
        self.feed_forward = FeedForward(width, hidden, activation=activation, bias=bias)
        self.feed_forward_norm = nn.LayerNorm(width, bias=bias)

    def forward(
        self, x: Float[Tensor, "*batch tokens width"], mask: Mask | Tensor | None = None
    ) -> Float[Tensor, "*batch tokens width"]:
        """Apply self-attention, then the feed-forward layer."""
        x = self._residual(x, self.attention_norm, lambda y: self.attention(y, mask=mask))
        return self._residual(x, self.feed_forward_norm, self.feed_forward)


class DecoderLayer(_Layer):
    """Causal self-attention, attention to the encoder's output, and a feed-forward layer.

    >>> import torch, regard
    >>> layer = regard.DecoderLayer(512, heads=8, hidden=2048)
    >>> layer(torch.randn(2, 4, 512), torch.randn(2, 7, 512)).shape
    torch.Size([2, 4, 512])
    >>> regard.DecoderLayer(512, heads=8, hidden=2048, cross=False)(torch.randn(4, 512)).shape    # a layer of a GPT
    torch.Size([4, 512])

    Args:
        width, heads, key_heads, context_width, bias: as in `MultiHeadAttention`.
        hidden, activation: as in `FeedForward`.
        cross: whether the layer attends to a context.
        causal: whether a token sees only earlier tokens; with False, all that the mask shows.
        norm_first: whether a sublayer normalizes its input; else the norm follows the residual sum.
        dropout: the rate at which the output of each sublayer is dropped in training.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        hidden: int,
        *,
        cross: bool = True,
        causal: bool = True,
        context_width: int | None = None,
        key_heads: int | None = None,
        activation: str = "relu",
        norm_first: bool = False,
        bias: bool = True,
        dropout: float = 0.0,
    ):
        super().__init__(norm_first, dropout)
        shared: dict[str, Any] = {"key_heads": key_heads, "bias": bias}
        self.attention = MultiHeadAttention(width, heads, kind="decoder", **shared)
        self.attention_norm = nn.LayerNorm(width, bias=bias)
        if cross:
            self.cross = MultiHeadAttention(width, heads, context_width=context_width, kind="cross", **shared)
            self.cross_norm = nn.LayerNorm(width, bias=bias)
        self.crosses, self.causal = cross, causal
        self.feed_forward = FeedForward(width, hidden, activation=activation, bias=bias)
        self.feed_forward_norm = nn.LayerNorm(width, bias=bias)

    def forward(
        self,
        x: Float[Tensor, "*batch tokens width"],
        context: Float[Tensor, "*sources others context_width"] | None = None,
        mask: Mask | Tensor | None = None,
        context_mask: Mask | Tensor | None = None,
        cache: tuple[KeyValues, KeyValues] | None = None,
    ) -> Float[Tensor, "*batch tokens width"]:
        """Apply self-attention, attention to the context, then the feed-forward layer.

        `mask` applies together with the causal mask. k × n targets may share n contexts, k consecutive targets each, as
        the beams of a search do.
        """
        if self.crosses != (context is not None):
            needs = "needs a context" if self.crosses else "has no cross-attention, so it takes no context"
            raise InputError(f"this decoder layer {needs}: layer(x{', context' * self.crosses}).")
        if cache is not None and not self.causal:
            raise InputError("A cache needs causal=True: without it, later tokens change the earlier ones.")
        past_keys, context_keys = (None, None) if cache is None else cache
        past = 0 if past_keys is None or past_keys.key is None else past_keys.key.shape[-2]
        # A single new token attends to all tokens before it: no mask needed.
        sees_all = not self.causal or (past and x.shape[-2] == 1)
        visible = as_mask(mask) if sees_all else causal(past) & as_mask(mask)
        x = self._residual(x, self.attention_norm, lambda y: self.attention(y, mask=visible, cache=past_keys))
        if self.crosses:
            assert context is not None
            # Targets that share a source become queries of one attention, which reads the keys of the source once.
            shared = x.dim() == context.dim() == 3 and len(x) != len(context) > 0 == len(x) % len(context)
            shape = (len(context), -1, x.shape[-1]) if shared else x.shape

            def cross(y: Tensor) -> Tensor:
                mixed: Tensor = self.cross(y.reshape(shape), context, mask=context_mask, cache=context_keys)
                return mixed.view_as(y)

            x = self._residual(x, self.cross_norm, cross)
        return self._residual(x, self.feed_forward_norm, self.feed_forward)


def _check_width(x: Tensor, width: int, name: str) -> None:
    if x.dim() < 2 or x.shape[-1] != width:
        raise ShapeError(
            f"{name} must be (*batch, tokens, width) with width = {width}. Got {tuple(x.shape)}."
            + (" A single vector is a set of one: x[None]." if x.dim() == 1 else "")
        )


def _check_dropout(rate: float) -> None:
    if not 0 <= rate < 1:
        raise InputError(f"dropout must be at least 0 and below 1. Got {rate}.")
