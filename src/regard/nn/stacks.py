"""`Encoder` and `Decoder`: stacks of N layers; `Cache`: the keys and values of a decoder's past tokens."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from regard.errors import InputError
from regard.nn.layers import DecoderLayer, EncoderLayer, KeyValues
from regard.scores import Mask
from regard.support import Float

__all__ = ["Cache", "Decoder", "Encoder"]


class Encoder(nn.Module):
    """N encoder layers. Options are those of `EncoderLayer`.

    >>> import torch, regard
    >>> encoder = regard.Encoder(2, width=64, heads=4, hidden=128)
    >>> encoder(torch.randn(3, 10, 64), mask=regard.padding([10, 7, 2])).shape
    torch.Size([3, 10, 64])
    """

    def __init__(self, layers: int, width: int, heads: int, hidden: int, *, final_norm: bool = False, **options: Any):
        super().__init__()
        self.layers = nn.ModuleList(EncoderLayer(width, heads, hidden, **options) for _ in range(layers))
        self.norm = nn.LayerNorm(width, bias=options.get("bias", True)) if final_norm else None

    def forward(
        self, x: Float[Tensor, "*batch tokens width"], mask: Mask | Tensor | None = None
    ) -> Float[Tensor, "*batch tokens width"]:
        """All layers, one after the other."""
        for layer in self.layers:
            x = layer(x, mask)
        return x if self.norm is None else self.norm(x)


class Cache:
    """Keys and values of past tokens, so that each new token costs one token rather than the whole sentence.

    >>> import torch, regard
    >>> decoder = regard.Decoder(2, width=64, heads=4, hidden=128, cross=False).eval()
    >>> x, cache = torch.randn(1, 5, 64), regard.Cache(decoder)
    >>> steps = [decoder(x[:, i : i + 1], cache=cache) for i in range(5)]
    >>> torch.allclose(torch.cat(steps, 1), decoder(x), atol=1e-5), cache
    (True, Cache(tokens=5, layers=2))
    """

    def __init__(self, decoder: Decoder):
        self.layers = [(KeyValues(), KeyValues()) for _ in decoder.layers]

    @property
    def tokens(self) -> int:
        """The number of tokens it holds."""
        key = self.layers[0][0].key if self.layers else None
        return 0 if key is None else key.shape[-2]

    def pick(self, batch: Tensor, context: Tensor | None = None) -> None:
        """Continue with these members of the batch, in this order, as a beam search does after every step.

        Keys and values of the context stay as they are unless `context` picks them too: targets of one source share it.
        """
        for own, cross in self.layers:
            own.pick(batch)
            if context is not None:
                cross.pick(context)

    def check(self, decoder: Decoder, batch: tuple[int, ...]) -> None:
        """Refuse the cache of another model or another batch."""
        if len(self.layers) != len(decoder.layers):
            raise InputError(
                f"this cache was made for a decoder of {len(self.layers)} layers; this one has {len(decoder.layers)}. "
                "Make one with regard.Cache(decoder)."
            )
        if not self.tokens:
            return
        key, (first, *_) = self.layers[0][0].key, decoder.layers
        assert key is not None
        assert isinstance(first, DecoderLayer)
        expected = (*batch, first.attention.key_heads, first.attention.head_width)
        cached = (*key.shape[:-2], key.shape[-1])
        if cached != expected:
            raise InputError(
                f"this cache holds (batch, key heads, head width) = {cached}, but the call has {expected}. A cache "
                "goes on with the batch it began with: make a new one, or pick its members with cache.pick(batch)."
            )

    def __repr__(self) -> str:
        return f"Cache(tokens={self.tokens}, layers={len(self.layers)})"


class Decoder(nn.Module):
    """N decoder layers. Options are those of `DecoderLayer`: with cross=False it is a GPT without its embeddings.

    >>> import torch, regard
    >>> decoder = regard.Decoder(2, width=64, heads=4, hidden=128)
    >>> decoder(torch.randn(3, 5, 64), torch.randn(3, 9, 64), context_mask=regard.padding([9, 4, 6])).shape
    torch.Size([3, 5, 64])
    """

    def __init__(self, layers: int, width: int, heads: int, hidden: int, *, final_norm: bool = False, **options: Any):
        super().__init__()
        self.layers = nn.ModuleList(DecoderLayer(width, heads, hidden, **options) for _ in range(layers))
        self.norm = nn.LayerNorm(width, bias=options.get("bias", True)) if final_norm else None

    def forward(
        self,
        x: Float[Tensor, "*batch tokens width"],
        context: Float[Tensor, "*sources others context_width"] | None = None,
        mask: Mask | Tensor | None = None,
        context_mask: Mask | Tensor | None = None,
        cache: Cache | None = None,
    ) -> Float[Tensor, "*batch tokens width"]:
        """All layers, one after the other; with a cache, x holds only the tokens that are new."""
        if cache is not None:
            cache.check(self, tuple(x.shape[:-2]))
        for n, layer in enumerate(self.layers):
            x = layer(x, context, mask, context_mask, None if cache is None else cache.layers[n])
        return x if self.norm is None else self.norm(x)
