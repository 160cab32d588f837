"""How a matrix in shards behaves, as jobs for `worlds`: memory, balance, overlap, DTensors, half precision, NaN."""

import json

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import regard
from regard import backends
from regard.backends.reference import Reference
from regard.backends.tiles import reductions, tile
from regard.distributed import ShardedMatrix, attention, gather, shard
from regard.distributed.ring import Ring


class Memory(TorchDispatchMode):
    """The most bytes that tensors made inside held at one time, and the largest single one."""

    def __init__(self):
        super().__init__()
        self.live, self.peak, self.largest = {}, 0, 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        for tensor in tree_leaves(result):
            if isinstance(tensor, torch.Tensor):
                storage = tensor.untyped_storage()
                self.live[storage._cdata] = StorageWeakRef(storage), storage.nbytes()
                self.largest = max(self.largest, storage.nbytes())
        self.live = {key: (ref, size) for key, (ref, size) in self.live.items() if not ref.expired()}
        self.peak = max(self.peak, sum(size for _, size in self.live.values()))
        return result


def memory(rank, size, tokens):
    """What each kind of call takes beyond this rank's share of the inputs."""
    # Small tiles: what is the same for any length shall not hide what grows with it.
    tile._SIZE, tile._ROWS, reductions._STRIP = 2**13, 64, 2**8
    torch.manual_seed(0)
    whole = torch.randn(3, 1, 2, tokens, 64)
    query, key, value = (shard(tensor).requires_grad_() for tensor in whole.unbind(0))
    key, value = (tensor[:, :1] for tensor in (key, value))
    x = torch.ones_like(query)
    A = ShardedMatrix(query, key, mask=regard.causal())
    del whole
    calls = {
        "A @ value": lambda: A.detach() @ value.detach(),
        "gradients": lambda: (A @ value).square().sum().backward(),
        "summary": lambda: A.detach().summary(top=4, pool=8),
        "A.mT @ x": lambda: A.detach().mT @ x.detach(),
        "one row": lambda: A.detach()[..., 77, :],
    }
    found = {"share": query.nbytes}
    for name, call in calls.items():
        with Memory() as seen:
            call()
        found[name] = [seen.peak, seen.largest]
    if rank == 0:
        print(json.dumps(found))


def balance(rank, size):
    """In zig-zag order every rank computes as much of a causal matrix; what a mask hides is not computed at all."""

    def points(zigzag, mask, own=lambda ids: ids):
        x = shard(torch.zeros(1, 64 * size, 4), zigzag=zigzag)
        share = ShardedMatrix(x, x, mask=mask, zigzag=zigzag)._core.share
        blocks = [
            (block.rows.length, block.columns.length, bool(block.scores.mask))
            for owner, moved in share.ring.around(share.moving_keys(), "counting")
            for block in share.blocks(owner, moved)
        ]
        everyone = [None] * size
        dist.all_gather_object(everyone, sum(a * b // (2 if masked else 1) for a, b, masked in blocks))
        return everyone, len(blocks)

    causal = points(True, regard.causal())[0]
    assert len(set(causal)) == 1, causal
    straight = points(False, regard.causal())[0]
    assert straight[0] < straight[-1] / size, straight
    ids = shard(torch.arange(64 * size) // 64, dim=0, zigzag=False)  # each rank has one document
    assert points(False, regard.documents(ids))[1] == 1
    assert points(False, regard.window(10, 0))[1] == (1 if rank == 0 else 2)
    assert points(False, regard.padding(64))[1] == 1
    assert points(False, regard.causal(-(10**6)))[1] == 0
    rows = shard(torch.ones(64 * size, 64 * size, dtype=torch.bool).tril(-64), zigzag=False)
    assert points(False, rows)[1] == rank
    hiding = torch.zeros(64 * size, 64 * size).masked_fill(torch.ones(64 * size, 64 * size).triu(-63) > 0, -torch.inf)
    assert points(False, shard(hiding, zigzag=False))[1] == rank


def overlap(rank, size):
    """The next keys are on their way before these are computed with, and nobody waits for them until that is done."""
    events = []
    start, finish, compute = Ring.start, Ring.finish, backends.compute
    Ring.start = lambda self, *given: events.append("send") or start(self, *given)
    Ring.finish = lambda self, *given: events.append("wait") or finish(self, *given)
    backends.compute = lambda *given: events.append("compute") or compute(*given)
    try:
        x = shard(torch.randn(1, 2, 32, 8), zigzag=False)
        attention(x, x, x, zigzag=False)
    finally:
        Ring.start, Ring.finish, backends.compute = start, finish, compute
    assert events == ["send", "compute", "wait"] * (size - 1) + ["compute"], events


def dtensors(rank, size):
    """Placements are taken, and results have them; heads may lie on other ranks too."""
    torch.manual_seed(0)
    whole = torch.randn(3, 2, 4, 10, 8, dtype=torch.float64).requires_grad_()  # 10 tokens: uneven on 4 ranks
    query, key, value = whole.unbind(0)
    A = regard.AttentionMatrix(query, key, mask=regard.causal())
    (expected,) = torch.autograd.grad((A @ value).square().sum() + A.received().square().sum(), whole)
    line = init_device_mesh("cpu", (size,))
    meshes = [(line, [Shard(2)])]
    if size == 4:
        grid = init_device_mesh("cpu", (2, 2), mesh_dim_names=("heads", "tokens"))
        meshes += [(grid, [Shard(1), Shard(2)]), (grid, [Replicate(), Shard(2)])]
    for mesh, placements in meshes:
        q, k, v = (distribute_tensor(each.detach(), mesh, placements).requires_grad_() for each in (query, key, value))
        B = ShardedMatrix(q, k, mask=regard.causal())
        output, received = B @ v, B.received()
        assert list(output.placements) == list(received.placements) == placements
        assert torch.allclose(output.full_tensor(), A @ value)
        assert torch.allclose(received.full_tensor(), A.received())
        for found, same in (
            (B.entropy(), A.entropy()),
            (B.logsumexp, A.logsumexp),
            (B.top(3).weights, A.top(3).weights),
        ):
            assert torch.allclose(found.full_tensor(), same)
        assert torch.allclose(B.pool(3, 4).full_tensor(), A.pool(3, 4))
        assert torch.allclose((B.mT @ q).full_tensor(), A.mT @ query)
        assert torch.allclose(attention(q, k, v, mask=regard.causal()).full_tensor(), A @ value)
        (output.square().sum() + received.square().sum()).backward()
        for tensor, want in zip((q, k, v), expected, strict=True):
            assert torch.allclose(tensor.grad.full_tensor(), want)
    for bad in ([Shard(3)], [Replicate()]):
        q = distribute_tensor(query.detach(), line, bad)
        with pytest.raises(regard.InputError, match="axis of tokens"):
            ShardedMatrix(q, q)
    q = distribute_tensor(query.detach(), line, [Shard(2)])
    for given in ((q, key), (query, q)):
        with pytest.raises(regard.DTypeError, match="both be DTensors"):
            ShardedMatrix(*given)


def meshes(rank, size):
    """A mesh of one dimension, one of several by its name, a group of some ranks, or nothing."""
    x = torch.randn(1, 12, 4, generator=torch.Generator().manual_seed(0))
    expected = regard.attention(x, x, x)
    line = init_device_mesh("cpu", (size,))
    for mesh in (None, line, line.get_group()):
        own = shard(x, mesh)
        assert torch.allclose(gather(attention(own, own, own, mesh=mesh), mesh), expected, atol=1e-6)
    if size == 4:
        grid = init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "tokens"))
        own = shard(x, grid["tokens"])
        assert own.shape[1] == 6
        assert torch.allclose(
            gather(attention(own, own, own, mesh=grid["tokens"]), grid["tokens"]), expected, atol=1e-6
        )
        with pytest.raises(regard.InputError, match="one dimension"):
            shard(x, grid)


def halves(rank, size):
    """In half precision the error is at most twice that of the plain computation, with logits up to about 10⁴ too."""
    for dtype in (torch.bfloat16, torch.float16):
        for spread in (1.0, 8.0, 100.0):
            for mask in (None, regard.causal(), regard.window(20, 5)):
                torch.manual_seed(0)
                q, k, v = ((torch.randn(2, 4, 128, 64) * s).to(dtype) for s in (spread, spread, 1.0))
                R = Reference(q, k, mask=mask)
                hidden = torch.from_numpy(np.isneginf(R.masked))
                plain = ((q * 64**-0.5) @ k.mT).masked_fill(hidden, -torch.inf).softmax(-1) @ v
                ours = gather(attention(*(shard(tensor) for tensor in (q, k, v)), mask=mask))
                exact = R.output(v)
                error, theirs = (float(np.abs(out.double().numpy() - exact).max()) for out in (ours, plain))
                assert error <= 2 * theirs, f"{dtype}, spread {spread}, {mask}: {error}, plain {theirs}"


def large(rank, size):
    """Where logits are so large that float32 has too few digits for their logsumexp, parts are merged by one that has."""
    for dtype in (torch.float32, torch.bfloat16):
        x = shard(torch.full((1, 1, 100, 1), 1000.0, dtype=dtype))
        value = torch.randn(100, 4, generator=torch.Generator().manual_seed(0)).to(dtype)
        A = ShardedMatrix(x, x, scale=1.0)
        expected = value.double().mean(0).expand(x.shape[2], 4)  # all scores are 10⁶
        close = {"atol": 1e-5 if dtype == torch.float32 else 2e-3, "rtol": 0.0}
        assert torch.allclose((A @ shard(value))[0, 0].double(), expected, **close)
        assert torch.allclose(A.received(), torch.tensor(1.0), atol=1e-4)


def nan(rank, size):
    """NaN in a key or value that no query sees leaks nowhere, not even into gradients."""
    tokens = 4 * size
    hidden = torch.arange(tokens) >= tokens - 3
    masks = [regard.padding([tokens - 3]), regard.causal(-3), regard.padding(shard(~hidden, dim=0))]
    masks.append(shard(torch.zeros(tokens, tokens).masked_fill(hidden, -torch.inf)))
    for mask in masks:
        found = []
        for dirty in (False, True):
            torch.manual_seed(0)
            whole = torch.randn(3, 1, 2, tokens, 8, dtype=torch.float64)
            if dirty:
                whole[1:, ..., hidden, :] = torch.nan
            q, k, v = (shard(tensor).requires_grad_() for tensor in whole.unbind(0))
            A = ShardedMatrix(q, k, mask=mask)
            results = A @ v, A.received(), A.entropy(), A[..., 1, :], A.top(2).weights, A.pool(3, 3)
            loss = sum(result.square().sum() for result in results[:3])
            found.append((*results, *torch.autograd.grad(loss, (q, k, v))))
        for clean, other in zip(*found, strict=True):
            assert torch.allclose(clean, other, atol=1e-12), f"{mask} lets NaN through"


def pictures(rank, size):
    """The picture of a long sequence is drawn from pooled weights, alike on all ranks."""
    x = shard(torch.randn(2, 400, 8, generator=torch.Generator().manual_seed(0)))
    A = ShardedMatrix(x, x, mask=regard.causal())
    drawn = [None] * size
    dist.all_gather_object(drawn, A.picture(title="all").to_svg())
    assert len(set(drawn)) == 1
    assert A.picture().numbers["pool"].shape == (192, 192)
