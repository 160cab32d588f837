"""The laws of the attention matrix, over backends × masks × dtypes × shapes, against the float64 definition."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.attention.cases import BACKENDS, TOLERANCE, cases, close, there, using

import regard

backends = pytest.mark.parametrize("backend", BACKENDS)
LOW = {torch.float64: 0.0, torch.float32: 0.0, torch.bfloat16: 2**-8, torch.float16: 2**-11}  # half a unit, as stored


@pytest.mark.slow
@backends
@given(case=cases(), small=st.booleans(), first=st.booleans())
@settings(max_examples=150)
def test_every_number_is_the_definitions(backend, case, small, first):
    with using(backend, small):
        A, R, limit = case.matrix(), case.reference(), TOLERANCE[case.dtype]
        stored = limit + LOW[case.dtype]
        if first:  # the logsumexp comes from the kernel then, not from the tiles
            close(A @ case.value, R.output(case.value), 4 * stored)
        assert tuple(A.shape) == R.weights.shape
        assert A.dtype == case.dtype
        for stage in ("scores", "scaled", "capped", "masked"):
            close(getattr(A, stage)[...], getattr(R, stage), stored)
        close(A.logsumexp, R.logsumexp, limit)
        close(A.sink_share, R.sink_share, limit)
        close(A.to_dense(), R.weights, stored)
        close(A @ case.value, R.output(case.value), 4 * stored)
        for reduce in ("sum", "mean", "max"):
            close(A.received(reduce), R.received(reduce), limit)
        close(A.entropy(), R.entropy(), 4 * limit)
        close(A.diagonal(), np.diagonal(R.weights, axis1=-2, axis2=-1), stored)
        close(A.diagonal(-1), np.diagonal(R.weights, -1, axis1=-2, axis2=-1), stored)
        close(A.max_score(), R.max_score(), limit)
        close(-A.min_score(), -R.min_score(), limit)
        for reduce in ("mean", "max"):
            close(A.pool(4, 5, reduce), R.pool(4, 5, reduce), limit)
        x = torch.randn(*A.shape[:-1], 3).to(case.dtype)
        close(A.mT @ x.to(A.device), R.reverse(x), 4 * stored)
        assert A.mT.mT is A
        assert A.logsumexp.dtype == A.entropy().dtype == torch.promote_types(case.dtype, torch.float32)


@backends
@given(case=cases(least=1), small=st.booleans(), k=st.integers(1, 9))
def test_top_is_exact(backend, case, small, k):
    with using(backend, small):
        A, R = case.matrix(), case.reference()
        k = min(k, A.shape[-1])
        top = A.top(k)
        close(top.weights, R.top(k), TOLERANCE[case.dtype])
        top = regard.Top(*(t.cpu() for t in top))
        # Each key is one of its own, is visible, and has the weight that is said to lie on it.
        dense = torch.from_numpy(R.weights)
        found = torch.where(top.keys >= 0, dense.gather(-1, top.keys.clamp_min(0)), 0.0)
        close(top.weights, found.numpy(), TOLERANCE[case.dtype])
        visible = torch.from_numpy(~np.isneginf(R.masked)).sum(-1, keepdim=True).clamp_max(k)
        assert ((top.keys >= 0).sum(-1, keepdim=True) == visible).all()
        assert (
            (top.keys.unsqueeze(-1) == top.keys.unsqueeze(-2)) & (top.keys >= 0).unsqueeze(-1)
        ).sum() == visible.sum()


@pytest.mark.slow
@backends
@given(case=cases(least=1), small=st.booleans())
def test_a_summary_is_its_single_reductions(backend, case, small):
    with using(backend, small):
        A = case.matrix()
        seen = case.matrix().summary(top=1, pool=(3, 4))
        for found, expected in (
            (seen.received, A.received()), (seen.entropy, A.entropy()), (seen.logsumexp, A.logsumexp),
            (seen.top.weights, A.top(1).weights), (seen.pool, A.pool(3, 4)), (seen.max_score, A.max_score()),
        ):  # fmt: skip
            limit = 1e-12 if case.dtype == torch.float64 else 1e-5  # other tiles, so other roundings
            close(found, expected.double().cpu().numpy(), limit)
        nothing = A.summary()
        assert nothing.top is None
        assert nothing.pool is None
        assert nothing.max_score is None


@backends
@given(case=cases(), small=st.booleans(), first=st.booleans())
def test_the_largest_and_smallest_scores_are_the_definitions(backend, case, small, first):
    with using(backend, small):
        A, R, limit = case.matrix(), case.reference(), TOLERANCE[case.dtype]
        if first:  # the logsumexp comes from the kernel then
            _ = A @ case.value
        close(A.max_score(), R.max_score(), limit)
        close(-A.min_score(), -R.min_score(), limit)
        assert A.max_score().dtype == A.min_score().dtype == torch.promote_types(case.dtype, torch.float32)
        assert not A.max_score().requires_grad


@pytest.mark.parametrize("backend", [*BACKENDS, "triton"])
@pytest.mark.parametrize("sinks", [None, 500.0], ids=["plain", "a sink that takes everything"])
@pytest.mark.parametrize("spread", [1.0, 30.0], ids=["moderate", "up to thousands"])
def test_scores_far_below_the_normaliser_keep_their_digits(backend, sinks, spread):
    """Weights underflow there: of the least keys, beside a sink, and in a part that leaves out the largest key."""
    torch.manual_seed(5)
    q, k = torch.randn(2, 1, 2, 40, 16).mul(spread).unbind(0)
    with using(backend, small=False):
        for mask in (regard.causal(), regard.bias(1e4 * torch.randn(40, 40))):
            A = regard.AttentionMatrix(q, k, mask=mask, sinks=sinks)
            R = regard.backends.reference.Reference(q, k, mask=mask, sinks=sinks)
            close(A.max_score(), R.max_score(), 2e-6)
            close(-A.min_score(), -R.min_score(), 2e-6)
            close(A.summary(top=2).max_score, R.max_score(), 2e-6)
            visible = R.masked[..., 7:9]
            close(A.part[..., 7:9].max_score(), visible.max(-1), 2e-6)


@given(case=cases(), small=st.booleans())
def test_rows_sum_to_one_or_to_what_the_sink_leaves(case, small):
    with using("tiles", small):
        A = case.matrix()
        empty = A.logsumexp == -torch.inf
        total = A.to_dense().double().sum(-1)
        expected = torch.where(empty, 0.0, 1 - A.sink_share.double())
        assert torch.allclose(total, expected, atol=TOLERANCE[case.dtype] + 40 * LOW[case.dtype])


@pytest.mark.slow
@backends
@given(case=cases(least=3, dtypes=(torch.float64,)), small=st.booleans(), data=st.data())
@settings(max_examples=120)
def test_slices_and_parts_are_those_of_the_dense_matrix(backend, case, small, data):
    with using(backend, small):
        A = case.matrix()
        dense = A.to_dense()
        index = data.draw(_indices(A.shape))
        assert torch.equal(A[index], dense[index]) or torch.allclose(A[index], dense[index], atol=1e-13)
        assert A[index].shape == dense[index].shape
        assert torch.allclose(A.masked[index].exp(), case.matrix().masked[...][index].exp(), atol=1e-13)
        part_index = data.draw(_part_indices(A.shape))
        part, expected = A.part[part_index], dense[part_index]
        assert part.shape == expected.shape
        assert torch.allclose(part.to_dense(), expected, atol=1e-12)
        assert torch.allclose(part.received(), expected.sum(-2), atol=1e-11)
        assert torch.allclose(part.entropy(), torch.special.entr(expected).sum(-1), atol=1e-11)
        v = torch.randn(*part.shape[:-2], part.shape[-1], 2, dtype=torch.float64)
        if len(part.shape) < 3 or part.shape[-3] not in part._key_heads_before:  # else: whose heads are they? refused
            assert torch.allclose(part @ v, expected @ v, atol=1e-11)
        x = torch.randn(*part.shape[:-1], 2, dtype=torch.float64)
        assert torch.allclose(part.mT @ x, expected.mT @ x, atol=1e-11)
        if 0 not in part.shape:
            assert torch.allclose(part.top(1).weights, expected.topk(1).values, atol=1e-12)
            masked = A.masked[...][part_index]
            assert torch.allclose(part.max_score(), masked.amax(-1), atol=1e-11)
            shown = masked.masked_fill(masked == -torch.inf, torch.inf)
            assert torch.allclose(part.min_score(), shown.amin(-1), atol=1e-11)
            again = part.part[..., 1:, ::2]
            assert torch.allclose(again.to_dense(), expected[..., 1:, ::2], atol=1e-12)
            assert torch.allclose(part.pool(2, 2, "max").amax((-1, -2)), expected.amax((-1, -2)), atol=1e-12)


def _slices(size: int):
    return st.builds(slice, st.none() | st.integers(-size, size), st.none() | st.integers(-size, size),
                     st.none() | st.integers(1, 3))  # fmt: skip


def _index(size: int):
    return _slices(size) | (st.integers(-size, size - 1) if size else _slices(size))


@st.composite
def _part_indices(draw, shape):
    *leading, queries, keys = shape
    return (*(draw(_index(n)) for n in leading), draw(_slices(queries)), draw(_slices(keys)))


@st.composite
def _indices(draw, shape):
    def vector(size: int):
        return st.lists(st.integers(-size, size - 1), min_size=1, max_size=4).map(torch.tensor)

    kind = draw(st.sampled_from(["basic", "ellipsis", "vector", "mixed", "paired", "bool", "one bool", "none"]))
    if kind == "mixed":  # ints, slices and one vector, bools or nothing, wherever they stand
        index = [draw(_index(n)) for n in shape]
        spot = draw(st.integers(0, len(shape) - 1))
        index[spot] = draw(vector(shape[spot]) | st.just(torch.arange(shape[spot]) % 2 == 0) | st.just([]))
        return tuple(index)
    if kind == "one bool":
        return (torch.tensor(draw(st.booleans())), draw(_index(shape[0])))
    if kind == "basic":
        return tuple(draw(_index(n)) for n in shape[: draw(st.integers(1, len(shape)))])
    if kind == "ellipsis":
        return (..., draw(_index(shape[-2])), draw(_index(shape[-1])))
    if kind == "vector":
        return (..., draw(vector(shape[-2])), slice(None))
    if kind == "paired":
        rows = draw(vector(shape[-2]))
        return (..., rows, torch.zeros_like(rows))
    if kind == "bool":
        return (..., torch.arange(shape[-1]) % 2 == 0)
    return (None, ..., draw(_index(shape[-1])))


@pytest.mark.slow
@backends
@given(case=cases(least=1, dtypes=(torch.float64,)), small=st.booleans())
def test_values_may_have_the_heads_of_the_queries(backend, case, small):
    with using(backend, small):
        A = case.matrix()
        v = torch.randn(*A.shape[:-2], A.shape[-1], 5, dtype=torch.float64)
        assert torch.allclose(A @ v, A.to_dense() @ v, atol=1e-11)
        shared = torch.randn(A.shape[-1], 2, dtype=torch.float64)
        assert torch.allclose(A @ shared, A.to_dense() @ shared, atol=1e-11)


@backends
def test_permuting_the_tokens_permutes_the_output(backend):
    with using(backend, small=True):
        x = torch.randn(2, 4, 20, 8, dtype=torch.float64)
        order = torch.randperm(20)
        straight = regard.attention(x, x, x)
        assert torch.allclose(regard.attention(*[x[:, :, order]] * 3), straight[:, :, order], atol=1e-12)


@backends
@pytest.mark.parametrize("dtype", LOW, ids=str)
def test_results_have_the_dtypes_of_the_conventions(backend, dtype):
    """Slices and outputs that of the query; the normaliser and reductions float32, or float64 for float64."""
    with using(backend, small=False):
        q, k, v = (there(torch.randn(1, 2, n, 16).to(dtype)) for n in (5, 7, 7))
        A = regard.AttentionMatrix(q, k, mask=regard.window(3, 1), softcap=9.0)
        results = [A @ v, A.mT @ q, A.to_dense(), A[..., 2, :], A.part[..., :3] @ v[..., :3, :], A.diagonal()]
        assert [result.dtype for result in results] == [dtype] * 6
        wide = torch.promote_types(dtype, torch.float32)
        numbers = [A.logsumexp, A.received(), A.entropy(), A.top(2).weights, A.pool(2, 2), A.pool(2, 2, "max")]
        assert [number.dtype for number in numbers] == [wide] * 6


@backends
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("spread", [1.0, 8.0, 100.0])
@pytest.mark.parametrize("mask", [None, regard.causal(), regard.window(20, 5), regard.padding([90, 128])], ids=str)
def test_half_precision_errs_at_most_twice_as_much_as_plain_torch(backend, dtype, spread, mask):
    """Both against float64 on the same rounded inputs; logits up to about 10⁴ with the widest spread."""
    torch.manual_seed(0)
    q, k, v = ((torch.randn(2, 4, 128, 64) * s).to(dtype) for s in (spread, spread, 1.0))
    R = regard.backends.reference.Reference(q, k, mask=mask)
    hidden = torch.from_numpy(np.isneginf(R.masked))
    plain = ((q * 64**-0.5) @ k.mT).masked_fill(hidden, -torch.inf).softmax(-1) @ v
    with using(backend, small=False):
        ours = regard.attention(q, k, v, mask=mask)
    exact = R.output(v)
    error, theirs = (float(np.abs(out.double().numpy() - exact).max()) for out in (ours, plain))
    assert error <= 2 * theirs


@pytest.mark.slow
@backends
def test_nan_and_inf_in_hidden_keys_and_values_never_leak(backend):
    torch.manual_seed(1)
    ids = torch.tensor([[0, 0, 0, 1, 1, 2]])
    masks = {
        "padding": (regard.padding([4]), 4), "bools": (regard.padding(torch.tensor([True] * 4 + [False] * 2)), 4),
        "causal": (regard.causal(-2), 4), "window": (regard.window(2, -2), 4), "documents": (regard.documents(ids, torch.tensor([0, 1, 2, 1, 5, 5])), 4),
        "bool tensor": (torch.ones(6, 6, dtype=torch.bool).tril(-2), 4), "bias": (torch.full((6, 6), -torch.inf).triu(-1), 4),
        "together": (regard.causal() & torch.ones(6, 6, dtype=torch.bool).triu(-9) & regard.causal(-2), 4),
        "jointly": (regard.documents(ids) & regard.causal(-1) & regard.padding([5]), 5),
    }  # fmt: skip
    for name, (mask, first_hidden) in masks.items():
        q, k, v = torch.randn(3, 1, 2, 6, 8, dtype=torch.float64).unbind(0)
        clean = [t.clone().requires_grad_() for t in (q, k, v)]
        for bad in (torch.nan, torch.inf, -torch.inf):
            dirty = [t.clone() for t in (q, k, v)]
            for t in dirty[1:]:
                t[:, :, first_hidden:] = bad
            dirty = [t.requires_grad_() for t in dirty]
            with using(backend, small=True):
                found = []
                for a, b, c in (clean, dirty):
                    A = regard.AttentionMatrix(a, b, mask=mask)
                    loss = (
                        (A @ c).square().sum()
                        + A.entropy().sum()
                        + A.received().square().sum()
                        + A[..., 1:, :].square().sum()
                        + A.diagonal(-3).square().sum()
                        + A[..., [5, 4], [0, 1]].square().sum()
                        + A.masked[..., 4, :].exp().sum()
                        + A.masked[..., [4, 5], [0, 5]].exp().sum()
                    )
                    seen = A @ c, A.to_dense(), A.received(), A.entropy(), A.diagonal(), A.masked[...].exp()
                    found.append((*seen, A[..., [0, 1], 5], *torch.autograd.grad(loss, (a, b, c))))
            for one, other in zip(*found, strict=True):
                assert torch.allclose(one, other, atol=1e-12), f"{name} lets {bad} through"


@pytest.mark.parametrize("backend", [*BACKENDS, "triton"])
@pytest.mark.parametrize("kinds", ["bf16 bf16", "f16 bf16", "f32 f32", "bf16 f32", "f64 bf16", "f16 f16 f16"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
def test_biases_are_summed_with_the_digits_of_the_result(backend, kinds, dtype):
    """A large one and small ones: in halves the sum would lose the small ones."""
    if backend == "triton" and dtype != torch.float32:
        pytest.skip("the interpreter has no bfloat16, Triton no float64, and several biases go to the tiles anyway")
    torch.manual_seed(2)
    q, k, v = torch.randn(3, 1, 2, 24, 8).to(dtype).unbind(0)
    of = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32, "f64": torch.float64}
    biases = [(torch.randn(24, 24) * s).to(of[kind]) for s, kind in zip((20.0, 0.3, 0.3), kinds.split(), strict=False)]
    mask = regard.Mask()
    for bias in biases:
        mask = mask & bias
    expected = regard.backends.reference.Reference(q, k, mask=mask)
    limit = 1e-13 if dtype == torch.float64 else 2e-6
    with using(backend, small=True):
        A = regard.AttentionMatrix(q, k, mask=mask)
        if dtype != torch.bfloat16:
            close(A @ v, expected.output(v), 10 * limit)
            close(A.to_dense(), expected.weights, limit)
            close(A[..., [3, 4], [1, 2]], expected.weights[..., [3, 4], [1, 2]], limit)
            close(A.masked[...], expected.masked, limit)
        for look in ("received", "entropy"):
            close(getattr(A, look)(), getattr(expected, look)(), 4 * limit)
        close(A.logsumexp, expected.logsumexp, limit)


@pytest.mark.parametrize("backend", [*BACKENDS, "triton"])
def test_a_large_softcap_costs_no_digits(backend):
    torch.manual_seed(4)
    q, k = torch.randn(2, 1, 2, 20, 8).unbind(0)
    with using(backend, small=False):
        found = regard.AttentionMatrix(q, k, softcap=1e4).received()
    close(found, regard.backends.reference.Reference(q, k, softcap=1e4).received(), 2e-6)


def test_large_half_biases_do_not_overflow_together():
    q, k = torch.randn(2, 1, 2, 6, 8).half().unbind(0)
    low = torch.full((6, 6), -6e4).half()
    A = regard.AttentionMatrix(q, k, mask=regard.bias(low) & low)  # -inf in float16, and then nothing would be seen
    assert torch.allclose(A.received(), regard.AttentionMatrix(q, k).received(), atol=0.02)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("mask", [None, regard.causal(), regard.padding([90, 128])], ids=str)
def test_reductions_are_as_exact_after_a_product_as_before(dtype, mask):
    """The kernel's own logsumexp has fewer digits in halves."""
    torch.manual_seed(3)
    q, k, v = torch.randn(3, 2, 4, 128, 64).to(dtype).unbind(0)
    expected = regard.backends.reference.Reference(q, k, mask=mask)
    for first in (False, True):
        A = regard.AttentionMatrix(q, k, mask=mask)
        if first:
            _ = A @ v
        part = A.part[..., 10:50, 5:90]
        close(A.logsumexp, expected.logsumexp, 1e-6)
        close(A.received(), expected.received(), 2e-6)
        close(A.entropy(), expected.entropy(), 2e-6)
        close(part.received(), expected.weights[..., 10:50, 5:90].sum(-2), 2e-6)


@backends
@pytest.mark.parametrize("softcap", [None, 5.0])
@pytest.mark.parametrize("sinks", [None, torch.tensor([0.5, -torch.inf])], ids=["plain", "sinks"])
def test_nan_in_a_query_that_sees_nothing_never_leaks(backend, sinks, softcap):
    """The other way round: such a row is 0, and no key or value hears of it."""
    torch.manual_seed(1)
    shown = torch.ones(6, 6, dtype=torch.bool).tril()
    shown[2] = False
    masks = {"bool": shown, "bias": torch.zeros(6, 6, dtype=torch.float64).masked_fill(~shown, -torch.inf),
             "documents": regard.documents([0, 0, 7, 1, 1, 1], [0, 0, 0, 1, 1, 1]),
             "both": regard.causal() & shown}  # fmt: skip
    for name, mask in masks.items():
        q, k, v = torch.randn(3, 1, 2, 6, 8, dtype=torch.float64).unbind(0)
        for bad in (torch.nan, torch.inf):
            dirty = q.clone()
            dirty[:, :, 2] = bad
            found = []
            for query in (q, dirty):
                leaves = [t.clone().requires_grad_() for t in (query, k, v)]
                with using(backend, small=True):
                    A = regard.AttentionMatrix(*leaves[:2], mask=mask, sinks=sinks, softcap=softcap)
                    results = (A @ leaves[2], A.part[..., :4] @ leaves[2][..., :4, :], A.part[..., 2:].received(), A.to_dense(), A.received(), A.entropy(), A.diagonal(), A.logsumexp.exp(),
                               A[..., [2, 3], [0, 3]], A.part[..., 1:5].to_dense(), A.masked[...].exp())  # fmt: skip
                    loss = sum(result.square().sum() for result in results)
                    found.append((*results, *torch.autograd.grad(loss, leaves)))
            for one, other in zip(*found, strict=True):
                assert torch.allclose(one, other, atol=1e-12), f"{name} lets {bad} through"


@pytest.mark.parametrize("backend", [*BACKENDS, pytest.param("triton", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
def test_the_least_number_of_a_dtype_hides(backend, dtype):
    q, k, v = torch.randn(3, 1, 2, 20, 8, dtype=torch.float16 if dtype == torch.float16 else torch.float32).unbind(0)
    bias = torch.zeros(20, 20, dtype=dtype)
    bias[2] = bias[3, 5:] = torch.finfo(dtype).min
    hidden = bias < 0
    with using(backend, small=False):
        A = regard.AttentionMatrix(there(q), there(k), mask=there(bias))
        for row in (
            (A @ there(v))[:, :, 2],
            A.entropy()[:, :, 2],
            A.pool(20, 1)[:, :, 2],
            A.part[..., 2:3, :].entropy(),
        ):
            assert not row.any()
        assert (A.logsumexp[:, :, 2] == -torch.inf).all()
        assert (A.top(9).keys[:, :, 3, 5:] == -1).all()
        assert not A.to_dense()[..., there(hidden)].any()
        assert not A[..., *hidden.nonzero().unbind(1)].any()


@pytest.mark.parametrize("backend", [*BACKENDS, pytest.param("triton", marks=pytest.mark.gpu)])
@pytest.mark.parametrize(
    ("queries", "keys"), [(1, 17), (20, 33), (20, 131), (1, 1025), (20, 1031), (3, 2049), (2, 8197)]
)
def test_the_last_keys_may_be_the_top(backend, queries, keys):
    """Also those that fill no block, tile or strip of their own."""
    query, key = torch.ones(1, 1, queries, 16), torch.zeros(1, 1, keys, 16)
    key[0, 0, :, 0] = torch.arange(keys) / keys * 40  # the later, the larger
    with using(backend, small=False):
        A = regard.AttentionMatrix(there(query), there(key))
        for k in (1, 3) if backend == "triton" else (1, 3, 9, 17):
            assert A.top(k).keys.tolist() == [[[list(range(keys - 1, keys - 1 - k, -1))] * queries]]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_small_weights_keep_their_digits_in_wide_bins(dtype):
    """One key takes nearly everything: beside it, sums in float32 would lose the other bins."""
    query, key = torch.ones(1, 1, 6, 4, dtype=dtype), torch.rand(1, 1, 1003, 4, dtype=dtype)
    key[:, :, 0] = 8.0
    with using("tiles", small=False):
        found = regard.AttentionMatrix(query, key).pool(2, 9).double()
    exact = torch.from_numpy(regard.backends.reference.Reference(query, key).pool(2, 9))
    assert (found / exact - 1).abs().max() < (1e-10 if dtype == torch.float64 else 2e-5)


@pytest.mark.parametrize("small", [False, True])
@pytest.mark.parametrize("mask", [None, regard.causal(4), regard.window(9, 5, 10)], ids=str)
@pytest.mark.parametrize(
    ("queries", "keys", "rows", "columns"),
    [
        (12, 20, 12, 20),  # a bin for every weight
        (12, 20, 6, 20),
        (12, 20, 12, 10),  # narrow bins, even and uneven
        (13, 20, 9, 15),
        (30, 640, 5, 10),  # and wide ones
        (30, 700, 7, 9),
    ],
)
def test_bins_of_any_width(queries, keys, rows, columns, mask, small):
    torch.manual_seed(0)
    q, k = torch.randn(2, 2, queries, 8), torch.randn(2, 2, keys, 8)
    expected = regard.backends.reference.Reference(q, k, mask=mask)
    with using("tiles", small):
        A = regard.AttentionMatrix(q, k, mask=mask)
        for reduce in ("mean", "max"):
            close(A.pool(rows, columns, reduce), expected.pool(rows, columns, reduce), 2e-6)
        seen = A.summary(pool=(rows, columns))
        close(seen.pool, expected.pool(rows, columns), 2e-6)
        close(seen.received, expected.received(), 2e-6)


@pytest.mark.parametrize("small", [False, True])
@pytest.mark.parametrize("keys", [20, 200, 1100])
@pytest.mark.parametrize("k", [1, 8, 17])
@pytest.mark.parametrize("kind", ["random", "equal", "causal", "nearly nothing", "minus infinity"])
def test_top_of_short_and_long_rows(kind, k, keys, small):
    torch.manual_seed(0)
    q, key = torch.randn(2, 3, 12, 1), torch.randn(2, 3, keys, 1)
    mask = {"causal": regard.causal(4), "nearly nothing": regard.padding([2, 0])}.get(kind)
    if kind == "equal":
        key = torch.ones_like(key)
    if kind == "minus infinity":
        q, key[..., 5:9, :] = q.abs(), -torch.inf
    with np.errstate(invalid="ignore"):
        expected = regard.backends.reference.Reference(q, key, mask=mask)
    with using("tiles", small):
        found = regard.AttentionMatrix(q, key, mask=mask).top(k)
    close(found.weights, expected.top(k), 2e-6)
    weights = torch.from_numpy(expected.weights)
    picked = torch.where(found.keys < 0, 0.0, weights.gather(-1, found.keys.clamp_min(0)))
    close(found.weights, picked.numpy(), 2e-6)
    seen = torch.from_numpy(~np.isneginf(expected.masked)).sum(-1, keepdim=True).clamp_max(k)
    assert torch.equal((found.keys >= 0).sum(-1, keepdim=True), seen)
    ordered = found.keys.sort(-1).values
    assert not ((ordered.diff(dim=-1) == 0) & (ordered[..., 1:] >= 0)).any()


def test_top_of_a_row_of_nan_names_no_key_that_is_not_there():
    q, k = torch.randn(1, 2, 5, 4), torch.randn(1, 2, 300, 4)
    clean = regard.AttentionMatrix(q, k).top(8)
    q[:, :, 2] = torch.nan
    found = regard.AttentionMatrix(q, k).top(8)
    assert found.weights[:, :, 2].isnan().all()
    assert found.keys.min() >= -1
    assert found.keys.max() < 300
    assert torch.equal(found.keys[:, :, 3:], clean.keys[:, :, 3:])
