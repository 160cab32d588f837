"""`Turned`: a linear layer whose matrix lies in the order in which few rows meet it fastest; and who may use it.

`Encoding` and `Decoding` are a Transformer's two stacks without anything between the products: what a search on a CPU
runs, where nobody looks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.attention import attention
from regard.layers import DecoderLayer, EncoderLayer, FeedForward, MultiHeadAttention
from regard.shapes import Float
from regard.stacks import Decoder, Encoder
from regard.transformer import Transformer

__all__ = ["Turned", "normed", "own", "residual", "unwatched"]

_OURS = (
    nn.Linear, nn.Embedding, nn.LayerNorm, nn.Dropout, nn.ModuleList, MultiHeadAttention, FeedForward, EncoderLayer,
    DecoderLayer, Encoder, Decoder,
)  # fmt: skip


class Turned(NamedTuple):
    """A copy of a linear layer, or of some of its outputs, for numbers and not for gradients.

    >>> layer = nn.Linear(3, 4)
    >>> x = torch.randn(2, 3)
    >>> torch.allclose(Turned.of(layer, slice(2))(x), layer(x)[:, :2])
    True
    """

    weight: Float[Tensor, "inputs outputs"]
    bias: Float[Tensor, " outputs"] | None

    @classmethod
    def of(cls, layer: nn.Linear, part: slice = slice(None)) -> Turned:
        """With these outputs."""
        bias = None if layer.bias is None else layer.bias.detach()[part]
        return cls(layer.weight.detach()[part].t().contiguous(), bias)

    def __call__(self, x: Float[Tensor, "rows inputs"]) -> Float[Tensor, "rows outputs"]:
        """x · weight + bias."""
        return x @ self.weight if self.bias is None else torch.addmm(self.bias, x, self.weight)


def normed(x: Float[Tensor, "rows width"], norm: nn.LayerNorm) -> Float[Tensor, "rows width"]:
    """The norm, without the call of a module."""
    return functional.layer_norm(x, norm.normalized_shape, norm.weight, norm.bias, norm.eps)


def residual(
    x: Float[Tensor, "rows width"], norm: nn.LayerNorm, norm_first: bool, sublayer: Callable[[Tensor], Tensor]
) -> Float[Tensor, "rows width"]:
    """x + sublayer(x), with the norm before the sublayer or after the sum.

    >>> x, norm = torch.randn(2, 3), nn.LayerNorm(3)
    >>> torch.allclose(residual(x, norm, False, torch.exp), norm(x + x.exp()))
    True
    """
    if norm_first:
        return sublayer(normed(x, norm)).add_(x)
    return normed(sublayer(x).add_(x), norm)


def unwatched(part: nn.Module) -> bool:
    """Whether another computation of the same numbers may stand in for a part of a model.

    It may in float32 on a CPU, in eval mode, where all its parts are ours and no hook or `watch` waits for them.

    >>> layer = nn.Linear(3, 4).eval()
    >>> unwatched(layer)
    True
    >>> hook = layer.register_forward_hook(print)
    >>> unwatched(layer)
    False
    """
    first = next(part.parameters())
    if part.training or first.device.type != "cpu" or first.dtype != torch.float32 or torch.is_autocast_enabled("cpu"):
        return False
    for module in part.modules():
        if type(module) not in _OURS or module._forward_hooks or module._forward_pre_hooks:
            return False
        if isinstance(module, MultiHeadAttention) and module.attend is not attention:
            return False
    return True


def own(model: Transformer, *methods: str) -> bool:
    """Whether these methods are those of `Transformer`: no class or user has put others in their place.

    >>> import regard
    >>> own(regard.Transformer(regard.TransformerConfig.tiny()), "encode")
    True
    """
    return all(getattr(getattr(model, name), "__func__", None) is getattr(Transformer, name) for name in methods)
