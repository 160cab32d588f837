"""Triton kernels read memory by pointers: whatever is handed to them may be a view."""

import pytest
import torch
from support.attention.cases import there, using

import regard
from regard.backends.triton.problem import prepare

pytestmark = pytest.mark.gpu


def _as_is(tensor):
    return there(tensor)


def _strided(tensor):
    """The same numbers, each with another behind it, the last axis first in memory."""
    axes = range(tensor.dim())[::-1]
    tensor = there(tensor).permute(*axes)
    return torch.stack([tensor, torch.full_like(tensor, 7)], -1)[..., 0].permute(*axes)


VIEWS = {
    "sinks": lambda lay, q, k: {"sinks": lay(torch.arange(2.0)), "mask": regard.causal(lay(torch.tensor([3, -2])))},
    "bias": lambda lay, q, k: {"mask": regard.bias(lay(torch.randn(2, 1, q, k))), "softcap": 9.0},
    "kept": lambda lay, q, k: {"mask": regard.padding(lay(torch.rand(2, k) < 0.6))},
    "shown": lambda lay, q, k: {"mask": lay(torch.rand(1, 2, q, k) < 0.6)},
    "documents": lambda lay, q, k: {"mask": regard.documents(lay(torch.arange(q) // 7), lay(torch.arange(k) // 7))},
}


@pytest.mark.slow
@pytest.mark.parametrize(("mask", "queries"), [*((mask, 5) for mask in VIEWS), ("sinks", 37), ("documents", 37)])
def test_kernels_read_views_as_they_are(mask, queries):
    """The same from tensors with gaps between their numbers, a given logsumexp and gradients among them."""
    found = []
    for lay in (_as_is, _strided):
        torch.manual_seed(0)
        with using("triton", False):
            tensors = torch.randn(2, 2, queries, 16), *torch.randn(2, 2, 1, 45, 16)
            query, key, value = (lay(tensor).detach().requires_grad_() for tensor in tensors)
            A = regard.AttentionMatrix(query, key, **VIEWS[mask](lay, queries, 45))
            B = A.detach().normalised_by(lay(A.logsumexp.detach().cpu()))
            seen = B.summary(top=3, pool=(3, 7))
            found += [
                [seen.received, seen.entropy, *seen.top, seen.pool, B.received("max"), B.top(1).keys, B.pool(1, 1)]
            ]
            for result in (A @ value, A.entropy(), A.received(), A.pool(2, 3), A.logsumexp, A.mT @ lay(tensors[0])):
                pull = lay(torch.randn(result.shape).to(result.dtype))
                grads = torch.autograd.grad(result, (query, key), pull, allow_unused=True)
                found[-1] += [result, *grads]
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, atol=2e-6, rtol=0)  # torch adds up the rows of views in another order


def test_a_view_that_begins_elsewhere_is_read_as_it_is():
    """`top` reads query and key without a copy: what is compiled for aligned rows must not read others."""
    compiled_for = []
    with using("triton", False):
        query, key = there(torch.randn(2, 1, 2, 20, 80, generator=torch.Generator().manual_seed(0)).half())
        for first in (0, 1):  # the same strides: the second begins two bytes later
            A = regard.AttentionMatrix(query[..., first : first + 64], key[..., first : first + 64])
            compiled_for.append(prepare(A._core.scores, 64, 64)._compiled_for)
            for n in (1, 3):
                found, want = A.top(n), A.to_dense().float().topk(n)
                torch.testing.assert_close(found.weights, want.values, atol=1e-3, rtol=0)
    assert compiled_for[0] != compiled_for[1]
