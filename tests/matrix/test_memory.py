"""Nothing but to_dense() and an explicit slice ever holds queries × keys numbers."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import regard
from regard import support

pytestmark = pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="reads Linux's high-water mark")

TOKENS = 10_240  # dense: 2 heads × 10,240² × 4 bytes = 839 MB
LIMIT = 115  # MB (benchmarks/attention.py measures 100,000 tokens)

PROBE = f"""
import json, sys, torch, regard
torch.set_num_threads(1)  # other tests run beside this one
sys.path.insert(0, {str(Path(__file__).parents[2] / "benchmarks")!r})
from measure import peak_extra
q, k, v = (torch.randn(2, {TOKENS}, 64, requires_grad=True) for _ in range(3))
N = {TOKENS}
def matrix(mask): return regard.AttentionMatrix(q, k, mask=mask)
def data(mask): return regard.AttentionMatrix(q.detach(), k.detach(), mask=mask)
A = data(regard.causal())
A.received(); A[..., 5, :]  # warm up: libraries allocate once
calls = {{
    "row": lambda: A[..., N // 2, :],
    "rows by tensor": lambda: A[..., torch.tensor([5, 7, N - 1]), :],
    "rows of a head by tensor": lambda: A[1, torch.arange(0, N, 64)],
    "points": lambda: A[0, torch.arange(N), torch.arange(N)],
    "part top": lambda: A.part[..., N // 2 : N // 2 + 1000, :].top(8),
    "received": A.received,
    "pool": lambda: A.pool(256, 256),
    "summary": lambda: A.summary(top=8, pool=256),
    "diagonal": A.diagonal,
    "attend": lambda: A @ v.detach(),
    "reverse": lambda: A.mT @ v.detach(),
    "window": lambda: data(regard.window(100, 0)).summary(top=4),
    "documents": lambda: data(regard.documents(torch.arange(N) // 999) & regard.causal()) @ v.detach(),
    "cut": lambda: data(regard.causal() & regard.cut(slice(N // 2, None), slice(9, 99), heads=[1])) @ v.detach(),
    "weaker": lambda: data(regard.causal() & regard.cut(slice(N // 2, None), 9, heads=[1], bias=-1.0)) @ v.detach(),
    "gradient of a cut": lambda: (matrix(regard.causal() & regard.cut(torch.arange(N) % 2000 > 999, 9)) @ v)
    .sum().backward(),
    "a band cut": lambda: data(regard.causal() & regard.cut(within=regard.window(9, -2))).summary(top=4),
    "zeroed": lambda: A.where(regard.cut(slice(99, 199), slice(9, 99))) @ v.detach(),
    "gradient": lambda: (matrix(regard.causal()) @ v).sum().backward(),
    "gradient of guide": lambda: regard.guide(matrix(regard.causal()), torch.arange(N - 1)[:, None] * torch.tensor([0, 1, 1])
    + torch.tensor([1, 1, 0])).backward(),
    "gradient of entropy": lambda: matrix(regard.window(300, 300)).entropy().sum().backward(),
}}
print(json.dumps({{name: peak_extra(call) for name, call in calls.items()}}))
"""


@pytest.mark.slow
def test_nothing_allocates_queries_times_keys():
    done = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    taken = json.loads(done.stdout)
    assert len(taken) == 21
    assert {name: extra for name, extra in taken.items() if extra >= LIMIT} == {}


@pytest.mark.slow
def test_the_measure_sees_a_dense_matrix():
    code = PROBE.split("A = data")[0] + f"print(peak_extra(lambda: data(None)[..., : {TOKENS // 4}, :]))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert float(done.stdout) > 200


def test_what_cannot_fit_is_refused_with_its_size_and_a_way_out():
    q = torch.randn(1, 8).expand(10**7, 8)
    A = regard.AttentionMatrix(q, q)
    for look in (A.to_dense, lambda: A[...], lambda: A[:, ::2], lambda: A.scores[...], lambda: A[None]):
        with pytest.raises(regard.TooLargeError, match="GiB are free") as caught:
            look()
        assert "A.received()" in str(caught.value)
    assert A[3].shape == (10**7,)
    for look in (lambda: A.pool(10**6, 10**6), lambda: A.summary(pool=10**6), lambda: A.top(10**5)):
        with pytest.raises(regard.TooLargeError, match="GiB are free"):
            look()


def test_a_small_room_is_enough_to_refuse(monkeypatch):
    A = regard.AttentionMatrix(torch.randn(8192, 4), torch.randn(8192, 4))
    monkeypatch.setattr(support, "available", lambda device: 2**20)
    with pytest.raises(MemoryError, match="8192, 8192"):
        A.to_dense()
    monkeypatch.setattr(support, "available", lambda device: None)  # nobody knows: try
    assert A[:10].shape == (10, 8192)
