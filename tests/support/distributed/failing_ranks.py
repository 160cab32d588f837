"""Ranks that fail, differ, do not come or are killed: jobs for `worlds`, and `python -m support.distributed.failing_ranks COUNT SEED`."""

import os
import random
import signal
import sys
import time

import pytest
import torch

import regard
from regard.distributed import ShardedMatrix, gather, shard


def _matrix(**options):
    torch.manual_seed(0)
    whole = torch.randn(2, 4, 12, 8)
    return ShardedMatrix(shard(whole), shard(whole), **({"mask": regard.causal()} | options))


def differences(rank, size):
    """All ranks get an error that says who differs, and can go on together."""
    first = rank == 0
    A = _matrix()
    with pytest.raises(regard.RankError, match=r"same calls.*(received|entropy)"):
        A.received() if first else A.entropy()
    with pytest.raises(regard.RankError, match="with gradients"):
        A @ shard(torch.ones(12, 8)).requires_grad_(first)
    with pytest.raises(
        regard.RankError, match=r"alike.*\[2, 4, tokens, 8\].*\[2, 4, tokens, 7\]|\[2, 4, tokens, 7\].*8\]"
    ):
        A @ shard(torch.ones(12, 8 - rank))
    with pytest.raises(regard.RankError, match=r"causal.* shifted by 1"):
        _matrix(mask=regard.causal(rank))
    with pytest.raises(regard.RankError, match="zigzag=False"):
        _matrix(zigzag=first)
    with pytest.raises(regard.RankError, match=r"padding\(\[3, 5\]\)"):
        _matrix(mask=regard.padding([3, 5 - rank]))
    bias = shard(torch.zeros(12, 12))
    with pytest.raises(regard.RankError, match=r"alike.*float64"):
        _matrix(mask=bias if first else bias.double())
    with pytest.raises(regard.RankError, match=r"gather\(dim=-1"):
        gather(shard(torch.zeros(12, 8)), dim=-1 - rank)
    # What goes wrong on one rank has its own error there, and is told to the others.
    with pytest.raises(
        regard.RankError if first else regard.OutOfRangeError, match=r"OutOfRange|top\(k\)" if first else "top"
    ):
        A.part[..., : 12 - 12 * rank].top(3)
    with pytest.raises(regard.RankError if first else regard.DTypeError, match="mask must be"):
        _matrix(mask=None if first else torch.zeros(12, dtype=torch.int64))
    with pytest.raises(regard.RankError if first else regard.ShapeError, match="mask must broadcast"):
        _matrix(mask=shard(torch.zeros(12, 12 + rank)))
    with pytest.raises(regard.RankError if first else regard.ShapeError, match="value must broadcast"):
        A @ torch.ones(6 - rank, 8)
    query = torch.randn(2, 4, 6, 8)
    B = ShardedMatrix(query, query)
    if not first:
        query.add_(1)
    with pytest.raises(regard.RankError if first else regard.ModifiedInPlaceError, match="ShardedMatrix was made"):
        B.received()
    assert A.received().shape == (2, 4, 6)  # and they still understand each other
    print(f"rank {rank} can go on")


def absence(rank, size):
    """A rank that does not come: the others wait as long as the group says, and are told what to do."""
    A = _matrix()
    if rank == 0:
        time.sleep(5)
        return
    with pytest.raises(regard.RankError, match=r"no answer.*received.*[Tt]imed? ?out.*init_process_group\(timeout"):
        A.received()
    print(f"rank {rank} was told")


absence.patience = 2


def busy(rank, size, ready, seed):
    """Calls without end, from a seed that all ranks share."""
    os.write(ready, b"r")
    draw = random.Random(seed)
    torch.manual_seed(0)
    while True:
        count = draw.randint(2, 60)
        x = torch.randn(2, 4, count, 16)
        query, key, value = (shard(x, zigzag=False).requires_grad_() for _ in range(3))
        A = ShardedMatrix(query, key, mask=draw.choice([None, regard.causal()]), zigzag=False)
        (A @ value).square().sum().backward()
        A.summary(top=1, pool=4)
        A[..., 0, :]
        gather(query.detach(), zigzag=False)


def kills(count, seed):
    """Kill one rank of a busy world at a moment of chance, again and again: the others end, and say what to do."""
    import tempfile

    from support.distributed import worlds

    draw = random.Random(seed)
    for _ in range(count):
        size, out = draw.choice([2, 3, 4]), tempfile.TemporaryFile("w+")  # noqa: SIM115
        seen, ready = os.pipe()
        before = [os.dup(1), os.dup(2)]
        for handle in (1, 2):
            os.dup2(out.fileno(), handle)
        try:
            children = worlds.start(size, busy, ready, draw.randrange(10**6), patience=30)
        finally:
            for handle, saved in zip((1, 2), before, strict=True):
                os.dup2(saved, handle)
        arrived = b""
        while len(arrived) < size:
            arrived += os.read(seen, size)
        time.sleep(draw.random() * 0.5)
        killed = draw.randrange(size)
        os.kill(children[killed], signal.SIGKILL)
        since = time.monotonic()
        codes = worlds.ends(children, 90)
        took = time.monotonic() - since
        out.seek(0)
        said = out.read()
        told = said.count("regard.errors.RankError")
        assert codes[killed] == -signal.SIGKILL, codes
        assert None not in codes, f"a rank hangs: {codes}\n{said}"
        assert [code for n, code in enumerate(codes) if n != killed] == [1] * (size - 1), f"{codes}\n{said}"
        assert told >= size - 1, f"{told} of {size - 1} were told\n{said}"
        assert "init_process_group(timeout=" in said
        print(f"{size} ranks, rank {killed} killed: the others ended after {took:.1f} s", flush=True)


if __name__ == "__main__":
    kills(int(sys.argv[1]), int(sys.argv[2]))
