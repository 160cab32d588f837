"""The Triton kernels, held to the same laws as every other backend: in Triton's interpreter where there is no GPU."""

import gc

import numpy as np
import pytest
import test_laws
import torch
from hypothesis import given as for_all
from hypothesis import settings
from hypothesis import strategies as st
from support.attention.cases import DEVICE, TOLERANCE, Case, cases, close, moved, there, using

import regard
from regard.backends.chooser import supports
from regard.backends.contract import (
    Attend,
    Backward,
    Dropout,
    Entropy,
    LogSumExp,
    Pool,
    Received,
    Top,
    TransposedProduct,
    trusted,
)
from regard.backends.triton import backend, launch, problem, tuning

pytestmark = pytest.mark.gpu
HALVES = (torch.float32, torch.float16)


@for_all(case=cases(dtypes=HALVES, most=40), first=st.booleans())
@settings(max_examples=12)
def test_every_number_is_the_definitions(case, first):
    test_laws.test_every_number_is_the_definitions.hypothesis.inner_test("triton", case, False, first)


@for_all(case=cases(dtypes=HALVES, least=1, most=40), k=st.integers(1, 9))
@settings(max_examples=12)
def test_top_is_exact(case, k):
    test_laws.test_top_is_exact.hypothesis.inner_test("triton", case, False, k)


@for_all(case=cases(dtypes=HALVES, least=1, most=40))
@settings(max_examples=8)
def test_a_summary_is_its_single_reductions(case):
    test_laws.test_a_summary_is_its_single_reductions.hypothesis.inner_test("triton", case, False)


@for_all(case=cases(dtypes=HALVES, most=40), first=st.booleans())
@settings(max_examples=8)
def test_the_largest_and_smallest_scores_are_the_definitions(case, first):
    law = test_laws.test_the_largest_and_smallest_scores_are_the_definitions
    law.hypothesis.inner_test("triton", case, False, first)


MASKS = {
    "none": lambda q, k: None,
    "causal": lambda q, k: regard.causal(k - q),
    "window 1": lambda q, k: regard.window(0, 0),
    "window": lambda q, k: regard.window(9, 4, offset=3),
    "beyond the end": lambda q, k: regard.causal(-q - 5),
    "ahead": lambda q, k: regard.causal(k - q + 9),
    "padding": lambda q, k: regard.causal(k - q) & regard.padding(torch.tensor([k, k // 3])),
    "documents": lambda q, k: regard.documents(torch.arange(q) // 7, torch.arange(k) // 7) & regard.causal(),
    "bias": lambda q, k: regard.bias(torch.randn(q, k).masked_fill(torch.rand(q, k) < 0.2, -torch.inf)),
    "dense": lambda q, k: torch.rand(2, 1, q, k) < 0.6,
}


ODD = [(*size, mask) for size in ((1, 17, 16), (50, 70, 48)) for mask in MASKS]
ODD += [(100, 129, 48, mask) for mask in ("window 1", "padding", "dense")]


@pytest.mark.parametrize(("queries", "keys", "width", "mask"), ODD)
def test_odd_sizes(queries, keys, width, mask):
    torch.manual_seed(queries + keys)
    dtype = torch.float16 if width == 16 else torch.float32
    q, k, v = torch.randn(2, 2, queries, width), torch.randn(2, 1, keys, width), torch.randn(2, 1, keys, 20)
    options = {"mask": MASKS[mask](queries, keys)}
    if mask == "window":
        options |= {"softcap": 2.0, "sinks": torch.randn(2)}
    case = Case(q.to(dtype), k.to(dtype), v.to(dtype), options)
    with using("triton", False):
        A, R, limit = case.matrix(), case.reference(), TOLERANCE[dtype]
        assert supports(backend, A._core.scores, Attend(case.value))
        close(A @ case.value, R.output(case.value), 4 * limit)
        seen = A.summary(top=5, pool=(min(5, queries), 4))
        close(seen.received, R.received("sum"), limit)
        close(seen.entropy, R.entropy(), 4 * limit)
        close(seen.pool, R.pool(min(5, queries), 4, "mean"), limit)
        close(seen.top.weights, R.top(5), limit)
        close(A.received("max"), R.received("max"), limit)
        plain = A.summary()  # without bins: one pass whatever the sizes
        close(plain.received, R.received("sum"), limit)
        close(plain.entropy, R.entropy(), 4 * limit)


@pytest.mark.parametrize("bins", [(16, 16), (32, 64), (7, 3), (4, 4), (2, 2), (64, 4), (2, 128), (8, 2)])
@pytest.mark.parametrize("mask", ["causal", "window", "none"])
def test_bins_smaller_and_larger_than_a_tile(bins, mask):
    torch.manual_seed(0)
    case = Case(*torch.randn(3, 1, 2, 128, 16), {"mask": MASKS[mask](128, 128)})
    with using("triton", False):
        A, R = case.matrix(), case.reference()
        close(A.pool(*bins), R.pool(*bins, "mean"), 1e-6)
        seen = A.summary(pool=bins, top=4)  # in one pass, or in two
        close(seen.pool, R.pool(*bins, "mean"), 1e-6)
        close(seen.received, R.received("sum"), 1e-5)
        close(seen.entropy, R.entropy(), 1e-5)
        close(seen.top.weights, R.top(4), 1e-6)


@pytest.mark.parametrize("bins", [(2, 2), (32, 1), (1, 2)])
@pytest.mark.parametrize("mask", ["causal", "window"])
def test_bins_of_several_blocks_of_keys(monkeypatch, bins, mask):
    torch.manual_seed(0)
    monkeypatch.setattr(tuning, "resident_programs", lambda scores: 1)  # one program has all keys of a bin
    case = Case(*torch.randn(3, 1, 2, 128, 16), {"mask": MASKS[mask](128, 128)})
    with using("triton", False):
        seen, R = case.matrix().summary(pool=bins), case.reference()
        close(seen.pool, R.pool(*bins, "mean"), 1e-6)
        close(case.matrix().pool(*bins), R.pool(*bins, "mean"), 1e-6)
        close(seen.received, R.received("sum"), 1e-5)
        close(seen.entropy, R.entropy(), 1e-5)
        monkeypatch.setattr(tuning, "WORKSPACE", 1)
        close(case.matrix().pool(*bins), R.pool(*bins, "mean"), 1e-6)


@pytest.mark.parametrize("bins", [(16, 8), (4, 8), (2, 4), (1, 1)])
@pytest.mark.parametrize("mask", ["causal", "window", "padding"])
def test_bins_of_sixteen_keys(bins, mask):
    torch.manual_seed(0)
    query, key = torch.randn(2, 1, 256, 16).half(), torch.randn(2, 1, 128, 16).half()
    case = Case(query, key, key, {"mask": MASKS[mask](256, 128)})
    with using("triton", False):
        A, R, limit = case.matrix(), case.reference(), TOLERANCE[torch.float16]
        assert launch.even(A._core.scores, Pool(*bins))
        assert launch._bins_by_columns(A._core.scores, Pool(*bins))
        seen = A.summary(pool=bins, top=2)
        close(seen.pool, R.pool(*bins, "mean"), limit)
        close(seen.top.weights, R.top(2), 1e-5)
        close(seen.received, R.received("sum"), limit)
        close(seen.entropy, R.entropy(), 4 * limit)


@pytest.mark.parametrize(
    ("requests", "passes"),
    [
        ([Received()], ["columns: received"]),
        ([Received("mean"), Received("max")], ["columns: received", "columns: received"]),
        ([Entropy()], ["rows: entropy"]),
        ([Received(), Entropy()], ["sums: received entropy"]),
        ([Received(), Entropy(), Pool(8, 8)], ["sums: received entropy pool"]),
        ([Received(), Entropy(), Pool(7, 8)], ["bins: received pool", "rows: entropy"]),
        ([Top(1), Entropy()], ["rows: entropy top"]),
        ([Received(), Entropy(), Top(3)], ["top: entropy top", "columns: received"]),
        ([Received(), Entropy(), Top(3), Pool(4, 4)], ["top: entropy top", "columns: received pool"]),
        ([Received(), Entropy(), Top(3), Pool(32, 32)], ["top: top", "sums: received entropy pool"]),
    ],
    ids=repr,
)
def test_a_plan_says_which_passes_compute_the_requests(requests, passes):
    scores = regard.AttentionMatrix(*torch.randn(2, 1, 2, 64, 16))._core.scores
    plan, fields = launch.plan(scores, requests), ("received", "entropy", "pool", "top", "product")
    planned = [{name: getattr(step, name) for name in fields if getattr(step, name) is not None} for step in plan]
    assert [f"{step.kernel}: {' '.join(names)}" for step, names in zip(plan, planned, strict=True)] == passes
    in_passes = [request for names in planned for request in names.values()]
    assert sorted(map(repr, in_passes)) == sorted(map(repr, requests))  # each request in one pass
    assert plan == launch.plan(scores, requests)  # values


def test_bins_beside_maxima():
    torch.manual_seed(0)
    case = Case(*torch.randn(3, 1, 2, 64, 16), {})
    with using("triton", False):
        scores, R = case.matrix()._core.scores, case.reference()
        pool, most = backend.reduce(scores, backend.logsumexp(scores), [Pool(2, 2), Received("max")])
        close(pool, R.pool(2, 2, "mean"), 1e-6)
        close(most, R.received("max"), 1e-6)


def test_blocks_of_rows_that_are_not_full():
    torch.manual_seed(0)
    q, k, v = torch.randn(1, 3, 48, 16), torch.randn(1, 3, 64, 16), torch.randn(1, 3, 64, 16)
    q[:, 1:] = torch.nan  # the rows after those of the first head belong to another
    case = Case(q, k, v, {})
    first = Case(q[:, :1], k[:, :1], v[:, :1], {})
    with using("triton", False):
        seen, R = case.matrix().summary(pool=(3, 4), top=3), first.reference()
        close(seen.received[:, :1], R.received("sum"), 1e-5)
        close(seen.pool[:, :1], R.pool(3, 4, "mean"), 1e-6)
        close(seen.entropy[:, :1], R.entropy(), 1e-5)


@pytest.mark.parametrize(("workspace", "bins"), [(1, 20), (2**12, 20), (2**13, 5), (2**26, 20)])
def test_little_workspace(monkeypatch, workspace, bins):
    torch.manual_seed(0)
    case = Case(*torch.randn(3, 1, 2, 160, 16), {"mask": regard.causal()})
    monkeypatch.setattr(tuning, "WORKSPACE", workspace)
    monkeypatch.setattr(tuning, "processors", lambda device: 2)
    monkeypatch.setattr(launch, "_problem_bytes", lambda scores: 0)
    with using("triton", False):
        seen, R = case.matrix().summary(pool=(bins, bins), top=5), case.reference()
        assert (launch._programs_with_lines(case.matrix()._core.scores, 5, 1) > 1) == (workspace > 1)
        close(seen.received, R.received("sum"), 1e-5)
        close(seen.entropy, R.entropy(), 1e-5)
        close(seen.pool, R.pool(bins, bins, "mean"), 1e-6)
        close(seen.top.weights, R.top(5), 1e-6)


def test_part_of_a_matrix():
    torch.manual_seed(0)
    case = Case(*torch.randn(3, 1, 2, 100, 16), {"mask": regard.causal()})
    with using("triton", False):
        part, dense = case.matrix().part[..., 20:70, 10:90], case.matrix().to_dense()[..., 20:70, 10:90]
        assert supports(backend, part._core.scores, LogSumExp())
        close(part.received(), dense.sum(-2).double().cpu().numpy(), 1e-5)
        close(part.entropy(), torch.special.entr(dense).sum(-1).double().cpu().numpy(), 1e-5)
        close(part @ case.value[..., 10:90, :], (dense @ case.value[..., 10:90, :]).double().cpu().numpy(), 1e-5)


def test_many_bins_of_rows_need_no_workspace(monkeypatch):
    shapes = []
    A = regard.AttentionMatrix(*torch.randn(2, 1, 1, 256, 16).to(DEVICE))
    zeros = torch.Tensor.new_zeros
    monkeypatch.setattr(
        torch.Tensor, "new_zeros", lambda self, *shape, **o: shapes.append(shape) or zeros(self, *shape, **o)
    )
    monkeypatch.setattr(tuning, "WORKSPACE", 2**10)
    with using("triton", False):
        close(A.pool(256, 1), A.to_dense().mean(-1, keepdim=True).double().cpu().numpy(), 1e-6)
    assert all(torch.Size(shape).numel() <= 512 for shape in shapes if isinstance(shape[0], int))


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("mask", ["none", "causal", "padding"])
@pytest.mark.parametrize("whose", ["query", "key"])
def test_nan_propagates(whose, mask, dtype):
    torch.manual_seed(0)
    query, key = torch.randn(2, 2, 1, 40, 16).to(dtype)
    (query if whose == "query" else key)[..., 3, :] = torch.nan
    case = Case(query, key, key.nan_to_num(), {"mask": MASKS[mask](40, 40)})
    with using("triton", False):
        A = case.matrix()
        seen, output = A.summary(top=3), A @ case.value
        _, most = backend.reduce(A._core.scores, A._core.lse(), [Pool(4, 4), Received("max")])  # maxima beside bins
        received = (A.received(), A.received("max"), most, seen.received)
    lost = np.isnan(case.reference().weights).any(-1)
    assert lost.any()
    assert all(found[..., 3].isnan().all() for found in received)
    top = seen.top.weights.isnan()
    for rows in (output.isnan().any(-1), seen.entropy.isnan(), top.any(-1), top.all(-1)):
        assert (rows.cpu().numpy() == lost).all()


def test_large_logits_and_hidden_nan():
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 1, 2, 60, 16)
    q = q * 3000  # logits of order 1e4
    k[..., 40:, :] = v[..., 40:, :] = torch.nan
    case = Case(q, k, v, {"mask": regard.padding([40])})
    plain = Case(q, k.nan_to_num(0.0), v.nan_to_num(0.0), case.options)
    with using("triton", False):
        A, R = case.matrix(), plain.reference()
        close(A @ case.value, R.output(plain.value), 2e-3)
        close(A.received(), R.received("sum"), 2e-3)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
@pytest.mark.parametrize("summed", [False, True])
def test_large_logits_cost_no_digits(dtype, summed):
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 1, 2, 240, 48).to(dtype)
    q = q[..., :60, :]
    q[..., 0] = k[..., 7, 0] = (1e4 * 48**0.5) ** 0.5  # one key takes everything
    with using("triton", False):
        A = regard.AttentionMatrix(*map(there, (q, k)))
        close(A @ there(v), v[..., 7:8, :].expand(1, 2, 60, 48).double().numpy(), 1e-3)
        seen = A.summary(top=5, pool=(15, 15)) if summed else None
        received, entropy = (seen.received, seen.entropy) if seen else (A.received(), A.entropy())
        top, pool = (seen.top, seen.pool) if seen else (A.top(5), A.pool(15, 15))
    everything = torch.zeros(1, 2, 240, dtype=torch.float64).index_fill_(-1, torch.tensor(7), 60.0)
    limit = 1e-6 if DEVICE == "cpu" else 5e-4  # products fused with an addition miss one rounding, of 3.4e-4
    close(received / 60, everything.numpy() / 60, limit)
    assert entropy.abs().max() < limit
    close(top.weights, torch.eye(5)[0].expand(1, 2, 60, 5).double().numpy(), limit)
    assert (top.keys[..., 0] == 7).all()
    close(pool, (everything.view(1, 2, 1, 15, 16).mean(-1) / 60).expand(-1, -1, 15, -1).numpy(), limit)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_large_logits_cost_the_tiles_no_digits_either(dtype):
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 1, 1, 96, 48)
    q[..., 0] = k[..., 7, 0] = (1e4 * 48**0.5) ** 0.5
    k[..., 9, :] = k[..., 7, :]  # two keys take everything
    pull, found = torch.randn(96), []
    for kind in (dtype, torch.float64):
        with using("triton", False):
            leaves = [there(t.to(dtype)).to(kind).requires_grad_() for t in (q, k, v)]
            A = regard.AttentionMatrix(*leaves[:2])
            jobs = A.received() @ there(pull).to(A.received().dtype), A.entropy().sum(), (A.mT @ leaves[2]).sum()
            grads = [grad for job in jobs for grad in torch.autograd.grad(job, leaves[:2], retain_graph=True)]
            grads += torch.autograd.grad((A @ leaves[2] @ there(pull[:48]).to(kind)).sum(), leaves)
            found.append([A.top(20).weights, A.pool(10, 10, "max"), A.summary(pool=7).pool, *grads])
    exact = [tensor.detach().double().cpu() for tensor in found[1]]
    # On a GPU gradients are sums of numbers that kernels have rounded, and where 0 is right they show it.
    unit = float(max(grad.abs().max() for grad in exact[-3:])) if DEVICE == "cuda" else 1.0
    for n, (ours, right) in enumerate(zip(found[0], exact, strict=True)):
        by = unit if n >= 3 else 1.0
        close(ours / by, (right / by).numpy(), 1e-3)
    if dtype == torch.float32 and DEVICE == "cpu":  # a GPU fuses products with additions
        for ours, right in zip(found[0][-3:], exact[-3:], strict=True):
            close(ours, right.numpy(), 1e-5)


@pytest.mark.parametrize("mask", ["none", "causal", "padding", "documents", "window"])
@pytest.mark.parametrize(("queries", "keys"), [(40, 50), (32, 48)])  # blocks that extend beyond the end, and full ones
def test_gradients(monkeypatch, queries, keys, mask):
    torch.manual_seed(0)
    monkeypatch.setattr(problem, "MAX_GRID", 4)
    if mask == "padding":
        monkeypatch.setattr(tuning, "_much_shared_memory", lambda device: False)  # as on a smaller GPU
    options = {"mask": MASKS[mask](queries, keys)}
    if mask == "window":
        options |= {"softcap": 2.0, "sinks": torch.randn(4)}
    tensors = [torch.randn(2, 4, queries, 16), torch.randn(2, 2, keys, 16), torch.randn(2, 2, keys, 20)]
    pull = torch.randn(2, 4, queries, 20)
    found = []
    for name in ("tiles", "triton"):
        with using(name, False):
            leaves = [there(t).clone().requires_grad_() for t in tensors]
            (regard.AttentionMatrix(*leaves[:2], **moved(options)) @ leaves[2] * there(pull)).sum().backward()
        found.append([leaf.grad.cpu() for leaf in leaves])
    for ours, theirs in zip(*found[::-1], strict=True):
        close(ours, theirs.double().numpy(), 1e-5)


@pytest.mark.parametrize("size", [1.0, 40.0])  # and logits of order 1e3
def test_gradients_by_tiles_where_those_are_faster(monkeypatch, size):
    torch.manual_seed(0)
    asked, found, pull = [], [], torch.randn(2, 4, 40, 20)
    monkeypatch.setattr(launch, "_faster_by_tiles", lambda scores: asked.append(scores) or True)
    tensors = [torch.randn(2, 4, 40, 16) * size, torch.randn(2, 2, 40, 16) * size, torch.randn(2, 2, 40, 20)]
    for name, dtype in (("tiles", torch.float64), ("triton", torch.float32)):
        with using(name, False, numpy_products=True):  # which are nearly those of torch's tiles
            leaves = [there(t.to(dtype)).requires_grad_() for t in tensors]
            A = regard.AttentionMatrix(*leaves[:2], mask=regard.causal(), sinks=there(torch.ones(4, dtype=dtype)))
            found.append(torch.autograd.grad(A @ leaves[2], leaves, there(pull.to(dtype))))
    assert len(asked) == 1
    for exact, ours in zip(*found, strict=True):
        close(ours, exact.cpu().numpy(), 1e-6 * size)


@pytest.mark.parametrize("dtype", HALVES)
def test_gradients_are_the_same_bits_every_time(dtype):
    torch.manual_seed(0)
    tensors, pull, found = torch.randn(3, 1, 2, 200, 16).to(dtype), torch.randn(1, 2, 200, 16), []
    for _ in range(2):
        with using("triton", False):
            leaves = [there(tensor).clone().requires_grad_() for tensor in tensors]
            output = regard.AttentionMatrix(*leaves[:2], mask=regard.causal()) @ leaves[2]
            found.append([output, *torch.autograd.grad(output, leaves, there(pull.to(dtype)))])
    assert all(torch.equal(*pair) for pair in zip(*found, strict=True))


@pytest.mark.parametrize(("width", "dtype"), [(80, torch.float16), (256, torch.float16), (256, torch.float32)])
def test_wide_heads(width, dtype):
    torch.manual_seed(width)
    query, key, value = (torch.randn(1, heads, 40, width).to(dtype) for heads in (2, 1, 1))
    case = Case(query, key, value, {"mask": regard.causal()})
    with using("triton", False):
        leaves = [there(t).clone().requires_grad_() for t in (query, key, value)]
        A, R, limit = regard.AttentionMatrix(*leaves[:2], mask=regard.causal()), case.reference(), TOLERANCE[dtype]
        assert supports(backend, A._core.scores, Attend(leaves[2]))
        close(A @ leaves[2], R.output(value), 4 * limit)
        seen = A.summary(top=3, pool=(4, 4))
        close(seen.received, R.received("sum"), limit)
        close(seen.entropy, R.entropy(), 4 * limit)
        close(seen.top.weights, R.top(3), limit)
        close(seen.pool, R.pool(4, 4, "mean"), limit)
        close(A.mT @ leaves[0], np.swapaxes(R.weights, -1, -2) @ query.double().numpy(), 4 * limit)
        (A @ leaves[2]).square().sum().backward()
    exact = [t.double().requires_grad_() for t in (query, key, value)]
    (regard.AttentionMatrix(*exact[:2], mask=regard.causal()) @ exact[2]).square().sum().backward()
    for leaf, plain in zip(leaves, exact, strict=True):
        close(leaf.grad, plain.grad.numpy(), 8 * limit)


def test_more_heads_than_one_dimension_of_a_grid_holds(monkeypatch):
    torch.manual_seed(0)
    assert problem.head_grid(65_535) == (65_535, 1)
    assert problem.head_grid(2**17) == (2**15, 4)
    monkeypatch.setattr(problem, "MAX_GRID", 3)
    case = Case(torch.randn(3, 2, 64, 16), *torch.randn(2, 3, 1, 64, 16), {"mask": regard.causal()})
    with using("triton", False):
        A, R = case.matrix(), case.reference()
        for bins in (3, 4):
            assert supports(backend, A._core.scores, Pool(bins, bins))
            close(A.pool(bins, bins), R.pool(bins, bins, "mean"), 1e-6)
        seen = A.summary(top=3, pool=4)
        close(A @ case.value, R.output(case.value), 1e-5)
        close(seen.received, R.received("sum"), 1e-5)
        close(seen.entropy, R.entropy(), 1e-5)
        close(seen.pool, R.pool(4, 4, "mean"), 1e-6)
        close(seen.top.weights, R.top(3), 1e-6)


@pytest.mark.parametrize(("cache", "beside"), [(0, 0), (2**13, 1), (2**24, 2)])
def test_heads_side_by_side(monkeypatch, cache, beside):
    torch.manual_seed(0)
    monkeypatch.setattr(tuning, "CACHE", cache)
    case = Case(torch.randn(1, 4, 64, 16), *torch.randn(2, 1, 2, 64, 16), {"mask": regard.causal()})
    with using("triton", False):
        A, R = case.matrix(), case.reference()
        assert problem.prepare(A._core.scores, 32, 32).problem.interleave == beside
        assert (
            problem.prepare(regard.AttentionMatrix(case.query, case.key)._core.scores, 32, 32).problem.interleave == 0
        )
        seen = A.summary(top=3)
        close(A @ case.value, R.output(case.value), 1e-5)
        close(seen.received, R.received("sum"), 1e-5)
        close(seen.entropy, R.entropy(), 1e-5)
        close(seen.top.weights, R.top(3), 1e-6)
        for bins in (3, 4):
            assert supports(backend, A._core.scores, Pool(bins, bins))
            close(A.pool(bins, bins), R.pool(bins, bins, "mean"), 1e-6)


def test_a_normaliser_is_prepared_once_and_kept_no_longer_than_its_matrix(monkeypatch):
    gc.collect()
    prepared, prepare = [], launch._in_base_2
    monkeypatch.setattr(launch, "_in_base_2", lambda lse: prepared.append(1) or prepare(lse))
    before = len(launch._NORMALISERS)
    with using("triton", False):
        A = regard.AttentionMatrix(*torch.randn(2, 1, 1, 20, 16).to(DEVICE))
        A.received(), A.entropy(), A.top(5), A.summary(pool=2)
    assert len(prepared) == 1
    assert len(launch._NORMALISERS) == before + 1
    del A
    gc.collect()
    assert len(launch._NORMALISERS) == before


def test_what_the_kernels_leave_to_the_tiles():
    q, k = torch.randn(2, 1, 2, 40, 16).to(DEVICE)
    A = regard.AttentionMatrix(q, k)
    with using("triton", False):
        assert supports(backend, A._core.scores, LogSumExp())
        assert not supports(backend, regard.AttentionMatrix(q.double(), k.double())._core.scores, LogSumExp())
        assert not supports(backend, A.part[..., ::2]._core.scores, LogSumExp())
        assert not supports(
            backend, regard.AttentionMatrix(*torch.zeros(2, 65_537, 1, 1, 16, device=DEVICE))._core.scores, LogSumExp()
        )
        assert not supports(backend, A._core.scores, Top(17))
        close(A.top(20).weights, A.to_dense().topk(20).values.double().cpu().numpy(), 1e-6)
    assert DEVICE == "cuda" or not supports(backend, A._core.scores, LogSumExp())
    assert trusted(torch.tensor([300.0], dtype=torch.float64), torch.float32)
    assert not trusted(torch.tensor([300.0]), torch.float32)


def test_what_the_backend_supports():
    q, k, v = torch.randn(3, 1, 2, 40, 16).to(DEVICE)
    biased, wide = regard.AttentionMatrix(q, k, mask=torch.randn(40, 40).to(DEVICE)), torch.zeros(1, 2, 40, 257)
    dropout = Dropout(0.5, torch.tensor(0))
    with using("triton", False):
        scores, halves = biased._core.scores, regard.AttentionMatrix(q.bfloat16(), k.bfloat16())._core.scores
        assert supports(backend, scores, Attend(v))
        assert supports(backend, scores, Attend(v), gradient=True)
        assert not supports(backend, scores, Attend(v), gradient=True, biases=True)
        assert not supports(backend, scores, Attend(v, dropout))
        assert not supports(backend, scores, Attend(wide.to(DEVICE)))
        assert supports(backend, scores, Entropy())
        assert supports(backend, scores, Entropy(), gradient=True)
        assert not supports(backend, scores, Pool(4, 4, "max"))
        assert supports(backend, scores, Pool(7, 7))  # bins smaller than 16 × 16, and uneven
        assert supports(backend, scores, TransposedProduct(q))
        assert supports(backend, halves, Attend(v.bfloat16())) == (DEVICE == "cuda")  # the interpreter's are wrong


def test_results_come_in_the_order_of_the_requests():
    torch.manual_seed(0)
    case = Case(*torch.randn(3, 1, 2, 64, 16), {"mask": regard.causal()})
    with using("triton", False):
        scores, R = case.matrix()._core.scores, case.reference()
        requests = [Received("max"), Top(3), Pool(3, 3), Entropy(), Received("mean"), Pool(4, 4), Top(1), Received()]
        found = backend.reduce(scores, backend.logsumexp(scores), requests)
    close(found[0], R.received("max"), 1e-6)
    close(found[1][0], R.top(3), 1e-6)
    close(found[2], R.pool(3, 3, "mean"), 1e-6)
    close(found[3], R.entropy(), 1e-5)
    close(found[4], R.received("sum") / 64, 1e-6)
    close(found[5], R.pool(4, 4, "mean"), 1e-6)
    close(found[6][0], R.top(1), 1e-6)
    close(found[7], R.received("sum"), 1e-5)


def test_a_transposed_product_may_come_in_the_dtype_of_x():
    torch.manual_seed(0)
    with using("triton", False):
        q, k, x = (there(tensor) for tensor in torch.randn(3, 1, 2, 40, 16).half())
        scores = regard.AttentionMatrix(q, k)._core.scores
        requests = [TransposedProduct(x), TransposedProduct(x, rounded=True)]
        full, rounded = backend.reduce(scores, backend.logsumexp(scores), requests)
    assert (full.dtype, rounded.dtype) == (torch.float32, torch.float16)
    assert torch.equal(full.half(), rounded)


@pytest.mark.parametrize("subtract", [True, False])
def test_gradients_with_and_without_the_row_sums(subtract):
    torch.manual_seed(0)
    query, key, value, grad = (there(tensor) for tensor in torch.randn(4, 1, 2, 40, 16))
    exact = [tensor.double().requires_grad_() for tensor in (query, key, value)]
    logits = exact[0] @ exact[1].mT / 4
    lse = logits.logsumexp(-1, keepdim=True)
    output = torch.exp(logits - (lse if subtract else lse.detach())) @ exact[2]
    right = torch.autograd.grad(output, exact, grad.double())
    with using("triton", False):
        scores = regard.AttentionMatrix(query.to(DEVICE), key.to(DEVICE))._core.scores
        request, pull = Attend(value.to(DEVICE)), grad.to(DEVICE)
        result, lse = backend.forward(scores, request)
        found = backend.backward(scores, Backward(request, result, lse, pull, subtract))
    for ours, theirs in zip(found[:3], right, strict=True):
        close(ours, theirs.numpy(), 1e-5)
    assert found.biases == ()
    close(found.row_dot, (grad.double() * output.detach()).sum(-1).numpy(), 1e-5)
