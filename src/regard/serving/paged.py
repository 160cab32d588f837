"""The keys of one request, gathered from the blocks of vLLM's cache.

A cache of vLLM is (blocks, key heads, tokens of a block, 2 × width): keys and values side by side. On a GPU the keys
are stored as they are. On a CPU the first half of a block has its keys in an order that depends on the processor's
kernel: mostly transposed, for AMX in pairs. The function that writes the cache tells where each number lies.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from regard.errors import WatchError
from regard.support import Float, Int


def gather(
    kind: str, cache: Float[Tensor, "blocks heads block both"], table: Int[Tensor, " n"], keys: range, isa: str = ""
) -> Float[Tensor, "1 heads keys width"]:
    """Return a copy of the keys at these positions of a request, whose blocks the table lists.

    >>> cache = torch.arange(24.0).view(3, 1, 2, 4)                          # three blocks of two tokens, width 2
    >>> gather("FlashAttentionImpl", cache, torch.tensor([2, 0]), range(1, 4))[0, 0]
    tensor([[20., 21.],
            [ 0.,  1.],
            [ 4.,  5.]])
    """
    block = cache.shape[2]
    first, last = keys.start // block, -(-keys.stop // block)
    blocks = READERS[kind](cache, table[first:last].long(), isa)  # (blocks, heads, block, width)
    whole = blocks.transpose(0, 1).flatten(1, 2)
    return whole[None, :, keys.start - first * block : keys.stop - first * block].contiguous()


def _unpacked(cache: Tensor, blocks: Tensor, _: str) -> Tensor:
    return cache[..., : cache.shape[3] // 2][blocks]


def _packed(cache: Tensor, blocks: Tensor, isa: str) -> Tensor:
    count, heads, block, both = cache.shape
    width = both // 2
    packed = cache.view(count, heads, block * 2, width)[:, :, :block][blocks]
    places = _places(isa, cache.dtype, block, width)
    if places is None:
        return packed.reshape(-1, heads, width, block).transpose(2, 3)
    return packed.flatten(2).index_select(2, places).view(-1, heads, block, width)


READERS: dict[str, Callable[[Any, Any, str], Tensor]] = {  # by the class that computes the attention
    "CPUAttentionBackendImpl": _packed,
    "FlashAttentionImpl": _unpacked,
    "TritonAttentionImpl": _unpacked,
}


@functools.cache
def _places(isa: str, dtype: torch.dtype, block: int, width: int) -> Tensor | None:
    """Return where each number of the keys lies in a packed block; None: the block is transposed."""
    from vllm import _custom_ops as ops  # type: ignore[import-not-found]

    whole = {2: torch.int16, 4: torch.int32}[dtype.itemsize]  # bits are copied, so any numbers will do
    size = block * width
    if size > 2**15:
        raise WatchError(f"blocks of {block} tokens × {width} numbers are larger than regard reads: up to 2¹⁵.")
    numbers = torch.arange(size, dtype=whole).view(block, 1, width).view(dtype)
    cache = torch.zeros(1, 1, block * 2, width, dtype=dtype)
    key, value = cache.chunk(2, dim=2)
    ops.cpu_attn_reshape_and_cache(numbers, numbers, key, value, torch.arange(block), isa)
    order = key.contiguous().view(whole).flatten().long()
    if not torch.equal(order.sort().values, torch.arange(size)):
        raise WatchError(f"the cache of vLLM's kernels for {isa} is laid out in a way that regard cannot read.")
    places = order.argsort()
    transposed = torch.arange(size).view(width, block).T.flatten()
    return None if torch.equal(places, transposed) else places
