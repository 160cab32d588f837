"""torch's fused kernels of a GPU: where a version lacks one or refuses, Triton's forward takes its place."""

import itertools
from dataclasses import replace

import pytest
import torch
from support.attention.cases import DEVICE, TOLERANCE, Case, close, using

import regard
from regard.backends import tiles, torch_cuda
from regard.backends.contract import Attend, Capabilities
from regard.backends.tiles.reductions import _sums_of_bins, bin_edges

pytestmark = pytest.mark.gpu


KINDS = {torch_cuda._CUDNN: "cudnn", torch_cuda._FLASH: "flash", torch_cuda._EFFICIENT: "efficient"}


def _let_it_run_here(monkeypatch):
    """Let the backend take problems on a CPU where there is no GPU: its kernels are replaced then."""
    if not torch.cuda.is_available():
        can = torch_cuda.backend.can
        monkeypatch.setattr(torch_cuda.backend, "can", replace(can, dtypes={"cpu": can.dtypes["cuda"]}))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("error", [RuntimeError, AttributeError, TypeError])
def test_whatever_refuses_is_computed_all_the_same(monkeypatch, kind, error):
    asked = []

    def refusing(name):
        def refuse(*args, **options):
            asked.append(name)
            raise error("not in this version")

        return refuse

    for name in KINDS.values():
        monkeypatch.setattr(torch.ops.aten, f"_scaled_dot_product_{name}_attention", refusing(name))
    monkeypatch.setattr(torch_cuda.backend, "kernel", lambda scores, value: kind)
    _let_it_run_here(monkeypatch)
    monkeypatch.setattr(torch_cuda.backend, "refused", set())
    torch.manual_seed(0)
    case = Case(*torch.randn(3, 1, 2, 40, 16).half(), {"mask": regard.causal()})
    with using("triton", False), regard.backends.use("torch_cuda", "triton"):
        for _ in range(2):  # it is asked once, and then no more
            A, R = case.matrix(), case.reference()
            close(A @ case.value, R.output(case.value), 4 * TOLERANCE[torch.float16])
            close(A.received(), R.received("sum"), TOLERANCE[torch.float16])
            assert asked == [KINDS[kind]]


def _padded_kernel(query, key, value, bias, compute_lse, dropout, causal, scale):
    """torch's efficient kernel on a GPU: its logsumexp has room for whole blocks of 32 queries."""
    logits = query @ key.mT * scale
    lse = torch.full((*query.shape[:2], -(-query.shape[2] // 32) * 32), torch.inf)
    lse[..., : query.shape[2]] = logits.logsumexp(-1)
    output = (logits.softmax(-1) @ value).transpose(1, 2).contiguous().transpose(1, 2)
    return output, lse


@pytest.mark.parametrize("width", [32, 64, 80])
@pytest.mark.parametrize("queries", [1, 31, 33, 129])
def test_sinks_beside_a_logsumexp_with_padded_rows(monkeypatch, queries, width):
    if not torch.cuda.is_available():
        monkeypatch.setattr(torch.ops.aten, "_scaled_dot_product_efficient_attention", _padded_kernel)
        monkeypatch.setattr(torch_cuda.backend, "kernel", lambda scores, value: torch_cuda._EFFICIENT)
        _let_it_run_here(monkeypatch)
    torch.manual_seed(queries + width)
    case = Case(*torch.randn(3, 1, 2, queries, width), {"sinks": torch.randn(2)})
    with using("triton", False), regard.backends.use("torch_cuda", "triton"):
        A, R, limit = case.matrix(), case.reference(), TOLERANCE[torch.float32]
        close(A @ case.value, R.output(case.value), 4 * limit)  # first: its logsumexp is kept for the others
        close(A.logsumexp, R.logsumexp, limit)
        close(A.sink_share, R.sink_share, limit)
        close(A.received(), R.received(), limit)
        close(A.entropy(), R.entropy(), 4 * limit)
        close(A.top(1).weights, R.top(1), limit)


def _among_other_numbers(tensor):
    """The same numbers in a view that starts at an odd place, with rows of odd lengths."""
    wide = tensor.new_full((*tensor.shape[:-1], 3 * tensor.shape[-1] + 1), torch.nan)
    wide[..., 1 : tensor.shape[-1] + 1] = tensor
    return wide[..., 1 : tensor.shape[-1] + 1]


def _aligned_only(*tensors):
    for tensor in tensors:
        unit = 16 // tensor.element_size()
        assert tensor.data_ptr() % 16 == 0
        assert all(stride % unit == 0 for stride in tensor.stride()[:-1])
        assert tensor.stride(-1) == 1


def _careless_kernel(query, key, value, bias, compute_lse, dropout, causal, debug, scale):
    """cuDNN's kernel on a GPU, which reads other numbers where rows do not start at multiples of 16 bytes."""
    _aligned_only(query, key, value)
    logits = (query @ key.mT).float() * scale
    return (logits.softmax(-1).to(value.dtype) @ value), logits.logsumexp(-1)


def _careless_backward(grad, query, key, value, result, lse, *others, scale):
    _aligned_only(grad, query, key, value, result)
    weights = ((query @ key.mT).float() * scale - lse).exp()
    score_grad = weights * ((grad @ value.mT).float() - (grad * result).sum(-1, keepdim=True)) * scale
    return score_grad.to(key.dtype) @ key, score_grad.mT.to(key.dtype) @ query, weights.mT.to(key.dtype) @ grad


def _with_gaps(tensor):
    """The same numbers in a view with another number after each."""
    return torch.stack([tensor, torch.full_like(tensor, torch.nan)], -1)[..., 0]


@pytest.mark.parametrize("view", [_among_other_numbers, _with_gaps])
def test_views_that_start_at_odd_places(monkeypatch, view):
    if not torch.cuda.is_available():
        monkeypatch.setattr(torch.ops.aten, "_scaled_dot_product_cudnn_attention", _careless_kernel)
        monkeypatch.setattr(torch.ops.aten, "_scaled_dot_product_cudnn_attention_backward", _careless_backward)
        monkeypatch.setattr(torch_cuda.backend, "kernel", lambda scores, value: torch_cuda._CUDNN)
        _let_it_run_here(monkeypatch)
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    plain = [torch.randn(1, 2, 40, 16, device=device, dtype=torch.float16, requires_grad=True) for _ in range(3)]
    pull = torch.randn(1, 2, 40, 16, device=device, dtype=torch.float16)
    with regard.backends.use("torch_cuda", "triton"):
        for compute in (lambda q, k, v: regard.AttentionMatrix(q, k) @ v, regard.attention):
            expected = compute(*plain)
            gradients = torch.autograd.grad(expected, plain, pull)
            views = [view(tensor.detach()).requires_grad_() for tensor in plain]
            output = compute(*views)
            close(output.detach(), expected.detach(), TOLERANCE[torch.float16])
            found = torch.autograd.grad(output, views, view(pull))
            for gradient, right in zip(found, gradients, strict=True):
                close(gradient, right, 4 * TOLERANCE[torch.float16])


def test_gradients_in_other_layouts_than_those_of_the_first_call(monkeypatch):
    """torch keeps cuDNN's graph of the first call, and the graph reads the gradient where it lay then."""
    layouts = {}

    def keeping_backward(grad, query, key, value, result, lse, *others, scale):
        known = tuple((tensor.shape, tensor.stride()) for tensor in (query, key, value))
        places = layouts.setdefault(known, (grad.stride(), result.stride()))
        grad, result = (each.as_strided(each.shape, place) for each, place in zip((grad, result), places, strict=True))
        return _careless_backward(grad, query, key, value, result, lse, *others, scale=scale)

    if not torch.cuda.is_available():
        monkeypatch.setattr(torch.ops.aten, "_scaled_dot_product_cudnn_attention", _careless_kernel)
        monkeypatch.setattr(torch.ops.aten, "_scaled_dot_product_cudnn_attention_backward", keeping_backward)
        monkeypatch.setattr(torch_cuda.backend, "kernel", lambda scores, value: torch_cuda._CUDNN)
        _let_it_run_here(monkeypatch)
    torch.manual_seed(0)
    tensors = [torch.randn(1, 2, 40, 64).to(DEVICE, torch.float16).requires_grad_() for _ in range(3)]
    pull = torch.randn(1, 2, 40, 64).to(DEVICE, torch.float16)
    among_others = torch.stack([pull, torch.full_like(pull, torch.nan)], -2).flatten(-3, -2)[..., ::2, :]
    with using("triton", False), regard.backends.use("torch_cuda", "triton"):
        for mask in (None, regard.cut(20, 7)):  # the cut leaves the rows before it and after it
            expected = torch.autograd.grad(regard.attention(*tensors, mask=mask), tensors, pull)
            for layout in (among_others, pull.mT.contiguous().mT, pull.transpose(1, 2).contiguous().transpose(1, 2)):
                found = torch.autograd.grad(regard.attention(*tensors, mask=mask), tensors, layout)
                for gradient, right in zip(found, expected, strict=True):
                    close(gradient, right.double(), 4 * TOLERANCE[torch.float16])


def test_too_few_digits_of_a_normaliser_are_noticed_without_our_kernels_too(monkeypatch):
    def rounded(scores, request):
        output, lse = tiles.backend.forward(scores, request)
        return output, lse.float()

    torch.manual_seed(0)
    monkeypatch.setattr(torch_cuda.backend, "can", Capabilities((Attend,), (), {"cpu": (torch.float32,)}))
    monkeypatch.setattr(torch_cuda.backend, "accepts", lambda scores, request, gradient: True)
    monkeypatch.setattr(torch_cuda.backend, "forward", rounded)
    q, k, v = torch.randn(3, 1, 2, 30, 16)
    q[..., 0] = k[..., 7, 0] = (1e4 * 16**0.5) ** 0.5
    k[..., 9, :] = k[..., 7, :]  # two keys take everything
    found = []
    for dtype in (torch.float32, torch.float64):
        with using("torch_cuda", False):
            leaves = [t.to(dtype).requires_grad_() for t in (q, k, v)]
            output = regard.AttentionMatrix(*leaves[:2]) @ leaves[2]
            found.append(torch.autograd.grad(output.square().sum(), leaves)[2])  # of the values: the weights alone
    close(found[0], found[1].numpy(), 1e-6)


@pytest.mark.parametrize(("size", "bins"), [(1, 1), (7, 7), (7, 3), (100, 9), (64, 8), (1000, 7)])
def test_bins_on_a_gpu_are_added_up_in_one_order(size, bins):
    values, edges = torch.rand(2, size, device=DEVICE), bin_edges(size, bins)
    expected = torch.stack([values[:, a:b].sum(-1) for a, b in itertools.pairwise(edges)], -1)
    close(_sums_of_bins(values, edges), expected, TOLERANCE[torch.float32])
    query, key = torch.randn(2, 2, 2 * size, 8, device=DEVICE, dtype=torch.float64).unbind(0)
    A = regard.AttentionMatrix(query, key, mask=regard.cut(slice(1, 3), slice(0, 2), bias=1.0))
    assert torch.equal(A.pool(bins, bins), A.pool(bins, bins))
