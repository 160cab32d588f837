"""`Turned`: a linear layer whose matrix lies in the order in which few rows meet it fastest; and who may use it.

`Encoding` and `Decoding` are a Transformer's two stacks without anything between the products: what a search on a CPU
runs, where nobody looks.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.matrix import attention
from regard.nn.layers import ACTIVATIONS, DecoderLayer, EncoderLayer, FeedForward, MultiHeadAttention
from regard.nn.stacks import Decoder, Encoder
from regard.nn.transformer import Transformer
from regard.support import Float

__all__ = ["BENDS", "ROOM", "Turned", "heads", "normed", "own", "residual", "unwatched"]

ROOM = 16  # keys are laid out in steps of as many: torch's softmax over 15 numbers takes five times that over 16
# In the place of what comes in, where that can be: it is new, and no gradient will ask for it.
BENDS = ACTIVATIONS | {"silu": partial(functional.silu, inplace=True)}

_OURS = (
    nn.Linear, nn.Embedding, nn.LayerNorm, nn.Dropout, nn.ModuleList, MultiHeadAttention, FeedForward, EncoderLayer,
    DecoderLayer, Encoder, Decoder,
)  # fmt: skip


class Turned(NamedTuple):
    """A copy of a linear layer, for numbers and not for gradients.

    >>> layer = nn.Linear(3, 4)
    >>> x = torch.randn(2, 3)
    >>> torch.allclose(Turned.of(layer)(x), layer(x))
    True
    """

    weight: Float[Tensor, "inputs outputs"]
    bias: Float[Tensor, " first"] | None  # of the first outputs; the others have none

    @classmethod
    def of(cls, layer: nn.Linear) -> Turned:
        """With the layer's own bias."""
        turned = layer.weight.detach().t().clone(memory_format=torch.contiguous_format)  # a copy, whatever its shape
        return cls(turned, None if layer.bias is None else layer.bias.detach())

    def __call__(self, x: Float[Tensor, "rows inputs"]) -> Float[Tensor, "rows outputs"]:
        """x · weight + bias. (`addmm` takes longer: it lays out the bias for every row and reads it again.)"""
        out = torch.mm(x, self.weight)
        if self.bias is not None:
            out.narrow(1, 0, len(self.bias)).add_(self.bias)
        return out

    def onto(self, total: Float[Tensor, "rows outputs"], x: Float[Tensor, "rows inputs"]) -> Tensor:
        """total + x · weight + bias, in the place of the total."""
        return (total if self.bias is None else total.add_(self.bias)).addmm_(x, self.weight)


@torch.no_grad()
def heads(look: MultiHeadAttention) -> tuple[Turned, Turned]:
    """The way into an attention (scaled queries, keys, values), with a bias for queries only, and the way out.

    The keys' bias would add the same to all scores of a query, which its softmax does not see. The values' bias comes
    through the softmax as it is: it is part of the last one.

    >>> look = MultiHeadAttention(8, heads=2)
    >>> into, out = heads(look)
    >>> into.weight.shape, into.bias.shape, out.bias.shape
    (torch.Size([8, 24]), torch.Size([8]), torch.Size([8]))
    """
    into, out, scale = Turned.of(look.projection), Turned.of(look.output), look.head_width**-0.5
    into.weight[:, : look.sizes[0]] *= scale
    if into.bias is None:
        return into, out
    query, _, value = torch.split(into.bias, look.sizes)
    group = look.heads // look.key_heads  # of queries that share a value
    value = value.view(look.key_heads, 1, -1).expand(-1, group, -1).reshape(1, -1)
    return Turned(into.weight, query * scale), Turned(out.weight, out(value)[0])


def normed(x: Float[Tensor, "rows width"], norm: nn.LayerNorm) -> Float[Tensor, "rows width"]:
    """The norm, without the call of a module."""
    return functional.layer_norm(x, norm.normalized_shape, norm.weight, norm.bias, norm.eps)


def residual(
    x: Float[Tensor, "rows width"], norm: nn.LayerNorm, norm_first: bool, sublayer: Callable[[Tensor], Tensor],
    out: Turned,
) -> Float[Tensor, "rows width"]:  # fmt: skip
    """x + out(sublayer(x)), with the norm before the sublayer or after the sum; the sum takes the place of x.

    >>> x, norm, out = torch.randn(2, 3), nn.LayerNorm(3), nn.Linear(3, 3)
    >>> expected = norm(x + out(x.exp()))
    >>> torch.allclose(residual(x, norm, False, torch.exp, Turned.of(out)), expected, atol=1e-6)
    True
    """
    total = out.onto(x, sublayer(normed(x, norm) if norm_first else x))
    return total if norm_first else normed(total, norm)


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
