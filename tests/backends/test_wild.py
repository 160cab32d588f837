"""What people really have on a GPU: one query at a time, bins of any size, rows that see nothing, one mask for layers."""

import copy
import gc

import pytest
import torch
from hypothesis import given as for_all
from hypothesis import settings
from hypothesis import strategies as st
from support.attention.cases import DEVICE, TOLERANCE, Case, close, there, using

import regard
from regard.backends.triton import bins as bin_kernels
from regard.backends.triton import kernels, launch, problem, rescale
from regard.scores import bound_mask

pytestmark = pytest.mark.gpu

MASKS = {
    "none": lambda q, k: None,
    "causal": lambda q, k: regard.causal(k - q),
    "window": lambda q, k: regard.window(20, 3, offset=k - q),
    "padding": lambda q, k: regard.padding(torch.tensor([k, 0])),
    "documents": lambda q, k: regard.documents(torch.arange(q) % 3, torch.arange(k) % 3),
    "bias": lambda q, k: regard.bias(torch.randn(q, k).masked_fill(torch.rand(q, k) < 0.2, -torch.inf)),
}


def made(queries, keys, mask, dtype=torch.float32, **options):
    q, k, v = torch.randn(2, 4, queries, 16), torch.randn(2, 2, keys, 16), torch.randn(2, 2, keys, 16)
    return Case(*(t.to(dtype) for t in (q, k, v)), {"mask": MASKS[mask](queries, keys), **options})


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("queries", [1, 5])
def test_a_few_rows_are_worked_on_as_they_are(monkeypatch, queries, mask):
    torch.manual_seed(queries)
    options = {"softcap": 3.0, "sinks": torch.randn(4)} if mask == "window" else {}
    case, stored = made(queries, 150, mask, **options), []
    dense = kernels.dense_rows
    monkeypatch.setattr(kernels, "dense_rows", lambda *a, **o: stored.append(1) or dense(*a, **o))
    with using("triton", False):
        A, R = case.matrix(), case.reference()
        assert launch.few(A._core.scores)
        close(A[..., 0, :], R.weights[..., 0, :], 1e-6)  # before anything else is known
        seen = A.summary(top=4, pool=(1, 7))
        close(A.logsumexp, R.logsumexp, 1e-5)
    assert len(stored) == 4  # the normaliser of that row, the row, the normaliser of all, the summary
    close(seen.received, R.received("sum"), 1e-6)
    close(seen.entropy, R.entropy(), 1e-5)
    close(seen.pool, R.pool(1, 7, "mean"), 1e-6)
    close(seen.top.weights, R.top(4), 1e-6)
    exact = torch.from_numpy(R.weights)
    at_keys = exact.gather(-1, seen.top.keys.cpu().clamp(min=0))
    close(torch.where(seen.top.keys.cpu() >= 0, at_keys, 0.0), R.top(4), 1e-6)


@pytest.mark.parametrize("keys", [48, 64, 71])
@pytest.mark.parametrize("short", [0, 100])
def test_the_largest_of_a_few_rows_lie_in_the_blocks_with_the_largest_maxima(keys, short):
    torch.manual_seed(0)
    log2 = torch.randn(1, 2, 3, keys).round(decimals=1)
    log2[..., :40], log2[:, 1] = -1e30, log2[:, 1].flip(-1)
    log2[:, :, 2] = torch.nan
    with using("triton", False):
        log2 = there(log2)
        values, places = kernels.top_of_rows(log2, 12, block=4, short=short)
    assert values[:, :, 2].isnan().all()
    log2, values, places = log2[:, :, :2], values[:, :, :2], places[:, :, :2]
    assert torch.allclose(values, log2.topk(12).values.exp2())
    assert torch.allclose(log2.gather(-1, places.clamp(min=0)).exp2()[places >= 0], values[places >= 0])
    assert torch.equal(places < 0, values == 0)
    for row in places.reshape(-1, 12).tolist():
        found = [place for place in row if place >= 0]
        assert len(found) == len(set(found))


@for_all(
    queries=st.integers(1, 80), keys=st.integers(1, 90), rows=st.integers(1, 40), columns=st.integers(1, 40),
    mask=st.sampled_from(sorted(MASKS)), seed=st.integers(0, 9),
)  # fmt: skip
@settings(max_examples=12)
def test_bins_of_any_size(queries, keys, rows, columns, mask, seed):
    torch.manual_seed(seed)
    case, bins = made(queries, keys, mask), (min(rows, queries), min(columns, keys))
    with using("triton", False):
        A, R = case.matrix(), case.reference()
        step = launch.Pass("bins", pool=regard.backends.Pool(*bins))
        found = bin_kernels.bins(A._core.data, launch.normaliser(A._core.lse()), step)
    close(found.pool, R.pool(*bins, "mean"), 1e-6)
    close(found.received, R.received("sum"), 1e-5)


def test_bins_of_many_tokens_need_more_than_32_bits(monkeypatch):
    torch.manual_seed(0)
    case, shapes = made(30, 30, "causal"), []
    shape = bin_kernels.BinShape
    monkeypatch.setattr(bin_kernels, "BinShape", lambda *a: shapes.append(shape(*a[:4], True)) or shapes[-1])
    with using("triton", False):
        close(case.matrix().pool(7, 7), case.reference().pool(7, 7, "mean"), 1e-6)
    assert shapes


def test_one_bin_of_nan_spoils_no_other():
    torch.manual_seed(0)
    case = made(60, 60, "none")
    case.query[0, 0, 20] = torch.nan
    with using("triton", False):
        pool = case.matrix().pool(7, 7)
    spoilt = pool.isnan()
    assert spoilt[0, 0, 2].all()
    assert spoilt.sum() == 7


def test_a_mask_is_bound_once_for_all_layers(monkeypatch):
    torch.manual_seed(0)
    bound, bind = [], bound_mask._bind
    monkeypatch.setattr(bound_mask, "_bind", lambda *args: bound.append(1) or bind(*args))
    lengths = torch.tensor([30, 9], device=DEVICE)
    mask = regard.causal() & regard.padding(lengths)
    layers = [torch.randn(2, 2, 2, 30, 16, device=DEVICE).unbind(0) for _ in range(3)]
    with using("triton", False):
        first = [regard.AttentionMatrix(*qk, mask=mask).received() for qk in layers]
        assert len(bound) == 1
        lengths += 1  # a change is noticed, though the mask is the same object
        with torch.inference_mode():
            regard.AttentionMatrix(*layers[0], mask=mask)
        again = regard.AttentionMatrix(*layers[0], mask=mask)
        assert len(bound) == 3
    assert again.received()[1, :, 9].sum() > 0
    assert first[0][1, :, 9].sum() == 0
    known = len(bound_mask._BOUND)
    del mask, again
    gc.collect()
    assert len(bound_mask._BOUND) == known - 1


def test_scores_keep_what_kernels_need_but_no_copies():
    contiguous, strided = torch.randn(1, 2, 40, 16, device=DEVICE), torch.randn(1, 2, 40, 32, device=DEVICE)[..., ::2]
    with using("triton", False):
        for key, kept in ((contiguous, True), (strided, False)):
            A = regard.AttentionMatrix(contiguous, key)
            A.received(), A.received()
            prepared = [value for value in A._core.data.cache.values() if isinstance(value, problem.Prepared)]
            assert bool(prepared) == kept
            assert A._core.data is A._core.data
            twin = copy.deepcopy(A)
            assert "cache" in vars(A._core.data)
            assert "cache" not in vars(copy.deepcopy(A._core.data))
            close(twin.received(), A.received().double().cpu().numpy(), 1e-6)


class Kernel:
    """Stands for one of Triton's: notes for which blocks it was compiled."""

    arg_names = ("q", "k", "WIDTH")

    def __init__(self):
        self.widths = []

    def __getitem__(self, grid):
        def compile_and_run(q, k, WIDTH):
            self.widths.append(q.block_shape[1])
            return {(1, 1, 1): lambda *arguments: None}

        return compile_and_run


def test_a_compiled_kernel_is_not_used_for_blocks_of_another_width():
    kernel = Kernel()
    for width in (16, 32, 48, 64, 128, 32, 48):
        q, k = torch.randn(2, 1, 2, 40, width)
        prepared = problem.prepare(regard.AttentionMatrix(q, k)._core.data, 16, 16)
        prepared.launch(kernel, (1,), prepared.q, prepared.k, WIDTH=1)
    assert kernel.widths == [16, 32, 64, 128]  # 48 is padded to 64


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_widths_one_after_the_other(dtype):
    torch.manual_seed(0)
    for width in (16, 128, 32, 48, 64, 16):
        for queries in (3, 40):
            q, k, v = torch.randn(1, 1, queries, width), torch.randn(1, 1, 50, width), torch.randn(1, 1, 50, width)
            case = Case(q.to(dtype), k.to(dtype), v.to(dtype), {})
            with using("triton", False):
                A, R = regard.AttentionMatrix(case.query.to(DEVICE), case.key.to(DEVICE)), case.reference()
                close(A.received(), R.received(), TOLERANCE[dtype])
                close(A.entropy(), R.entropy(), TOLERANCE[dtype])
                close(A.top(4).weights, R.top(4), TOLERANCE[dtype])
                close(A.to_dense(), R.weights, 2 * TOLERANCE[dtype])


# Only where there is a GPU

on_a_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="a GPU's own kernels and graphs")


@on_a_gpu
@pytest.mark.parametrize("shape", [(1, 1, 70, 70), (2, 4, 70, 70), (1, 1, 1, 70)])
def test_a_bias_takes_the_kernel_for_biases(shape):
    torch.manual_seed(0)
    bias = torch.randn(shape).bfloat16().masked_fill(torch.rand(shape) < 0.2, torch.finfo(torch.bfloat16).min)
    if shape[2] > 1:
        bias[..., 9, :] = -1e38  # hides every key, though it is a number
    q, k, v = (torch.randn(2, heads, 70, 16).bfloat16() for heads in (4, 2, 2))
    A = regard.AttentionMatrix(q.cuda(), k.cuda(), mask=regard.bias(bias.cuda()))
    R = Case(q, k, v, {"mask": regard.bias(bias)}).reference()
    assert regard.backends.choose(A._core.scores, regard.backends.Attend(v.cuda())).name == "torch_cuda"
    close(A @ v.cuda(), R.output(v), 4 * TOLERANCE[torch.bfloat16])
    close(A.logsumexp, R.logsumexp, 1e-4)
    close(A.received(), R.received("sum"), 1e-4)


@on_a_gpu
def test_sinks_are_counted_in_place_in_any_layout():
    torch.manual_seed(0)
    lse = torch.tensor([[[0.5, -torch.inf, 3.0, -1e30], [2.0, 1.0, -torch.inf, torch.nan]]], device="cuda")
    sinks = torch.tensor([[1.0, -torch.inf]], device="cuda")
    output = torch.randn(1, 4, 2, 24, device="cuda").transpose(1, 2)
    wide = torch.logaddexp(lse.masked_fill(lse < -1e29, -torch.inf), sinks[..., None])
    share = torch.exp(lse - wide.masked_fill(wide == -torch.inf, 0.0)).masked_fill(lse < -1e29, 0.0)
    expected = output * share[..., None]
    assert rescale(output, lse, sinks)
    torch.testing.assert_close(output, expected, equal_nan=True)
    torch.testing.assert_close(lse, wide, equal_nan=True)


@on_a_gpu
@pytest.mark.parametrize("queries", [1, 96])
@pytest.mark.parametrize("has_sinks", [False, True])
@pytest.mark.parametrize("mask", [None, regard.causal(), "padding"])
def test_a_cuda_graph_holds_all_of_it(queries, mask, has_sinks):
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, 2, n, 64, device="cuda", dtype=torch.bfloat16) for n in (queries, 96, 96))
    if mask == "padding":
        mask = regard.padding(torch.arange(96, device="cuda")[None] < 70)
    sinks = torch.full((2,), 0.5, device="cuda") if has_sinks else None

    def look():
        A = regard.AttentionMatrix(q, k, mask=mask, sinks=sinks)
        return A @ v, A.received(), *vars(A.summary(top=3, pool=(1, 8))).values()

    look()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = look()
    q.copy_(torch.randn_like(q))
    graph.replay()
    expected = look()
    torch.testing.assert_close(list(found), list(expected))
