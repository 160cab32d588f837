"""`attention` over a sequence in shards: the function form of `ShardedMatrix(query, key) @ value`."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from regard.distributed.sharded_matrix import ShardedMatrix
from regard.scores import Mask
from regard.support import Float, no_compile

__all__ = ["attention"]


@no_compile
def attention(
    query: Float[Tensor, "*batch heads own_queries width"] | Float[Tensor, "own_queries width"],
    key: Float[Tensor, "*batch key_heads own_keys width"] | Float[Tensor, "own_keys width"],
    value: Float[Tensor, "*any own_keys value_width"],
    *,
    mask: Mask | Tensor | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    sinks: Tensor | float | None = None,
    mesh: Any = None,
    zigzag: bool | None = None,
) -> Float[Tensor, "*any_too own_queries value_width"]:
    """softmax(QKᵀ · scale) V over a sequence in shards, gradients included: `ShardedMatrix(…) @ value`.

    >>> import torch, regard
    >>> query, key, value = torch.randn(2, 8, 5, 64), torch.randn(2, 2, 7, 64), torch.randn(2, 2, 7, 32)
    >>> regard.distributed.attention(query, key, value, mask=regard.causal(offset=2)).shape
    torch.Size([2, 8, 5, 32])
    """
    matrix = ShardedMatrix(query, key, mask=mask, scale=scale, softcap=softcap, sinks=sinks, mesh=mesh, zigzag=zigzag)
    return matrix.attend(value)
