"""`attention`: the function form of `AttentionMatrix(query, key) @ value`."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.matrix import compiled, sdpa
from regard.matrix.attention_matrix import AttentionMatrix
from regard.scores import Mask, as_mask
from regard.support import Float

__all__ = ["attention"]


def attention(
    query: Float[Tensor, "*batch heads queries width"] | Float[Tensor, "queries width"],
    key: Float[Tensor, "*batch key_heads keys width"] | Float[Tensor, "keys width"],
    value: Float[Tensor, "*any keys value_width"],
    *,
    mask: Mask | Tensor | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    sinks: Tensor | float | None = None,
    dropout: float = 0.0,
) -> Float[Tensor, "*any_too queries value_width"]:
    """softmax(QKᵀ · scale) V, by the fused kernel and in O(tokens) memory, gradients included.

    >>> import torch, regard
    >>> query, key, value = torch.randn(2, 8, 5, 64), torch.randn(2, 2, 7, 64), torch.randn(2, 2, 7, 32)
    >>> regard.attention(query, key, value, mask=regard.causal(offset=2)).shape
    torch.Size([2, 8, 5, 32])
    """
    if torch.compiler.is_compiling():  # one opaque operator of the graph: tiles are not traced
        return compiled.attend(query, key, value, mask, scale, softcap, sinks, dropout)
    fast = query.is_cuda or sdpa.bare(query, key, value, mask, dropout)
    if fast and sdpa.supports(query, key, value, as_mask(mask), scale, softcap, sinks):
        return sdpa.attend(query, key, value, as_mask(mask), scale, dropout)
    return AttentionMatrix(query, key, mask=mask, scale=scale, softcap=softcap, sinks=sinks).attend(value, dropout)
