"""Keys gathered from blocks as vLLM's own function writes them, for every kernel that a CPU may have."""

import pytest

pytest.importorskip("vllm", reason="make test-vllm runs these")

import torch
from vllm import _custom_ops as ops

from regard.serving.plugin import gather


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    ("isa", "block", "width"), [("vec", 32, 64), ("vec", 128, 32), ("vec16", 16, 80), ("amx", 32, 64)]
)
def test_keys_come_back_as_they_were_written(isa, block, width, dtype):
    heads, tokens = 3, 5 * block // 2
    key = torch.randn(tokens, heads, width).to(dtype)
    table = torch.tensor([4, 1, 5])
    cache = torch.full((6, heads, block, 2 * width), torch.nan, dtype=dtype)
    slots = (table[:, None] * block + torch.arange(block)).flatten()[:tokens]
    written = cache.view(6, heads, 2 * block, width).chunk(2, dim=2)
    ops.cpu_attn_reshape_and_cache(key, key + 1, *written, slots, isa)
    for keys in (range(tokens), range(block + 3, tokens - 1), range(2, 3)):
        found = gather("CPUAttentionBackendImpl", cache, table, keys, isa)
        assert torch.equal(found[0], key.transpose(0, 1)[:, keys.start : keys.stop])


@pytest.mark.parametrize("kind", ["FlashAttentionImpl", "TritonAttentionImpl"])
def test_keys_of_a_gpu_lie_as_they_are(kind):
    cache, table = torch.randn(6, 3, 16, 2 * 64), torch.tensor([4, 1, 5])
    whole = torch.cat([cache[block, :, :, :64] for block in (4, 1, 5)], 1)
    assert torch.equal(gather(kind, cache, table, range(7, 40))[0], whole[:, 7:40])
