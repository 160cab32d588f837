"""torch's fused kernels of a GPU: where a version lacks one or refuses, Triton's forward takes its place."""

import pytest
import torch
from cases import TOLERANCE, Case, close, using

import regard
from regard.backends import tiles, torch_cuda
from regard.backends.contract import Attend

pytestmark = pytest.mark.gpu


KINDS = {torch_cuda._CUDNN: "cudnn", torch_cuda._FLASH: "flash", torch_cuda._EFFICIENT: "efficient"}


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
    monkeypatch.setattr(torch_cuda.backend, "device", "cpu" if not torch.cuda.is_available() else "cuda")
    monkeypatch.setattr(torch_cuda.backend, "refused", set())
    torch.manual_seed(0)
    case = Case(*torch.randn(3, 1, 2, 40, 16).half(), {"mask": regard.causal()})
    with using("triton", False), regard.backends.use("torch_cuda", "triton"):
        for _ in range(2):  # it is asked once, and then no more
            A, R = case.matrix(), case.reference()
            close(A @ case.value, R.output(case.value), 4 * TOLERANCE[torch.float16])
            close(A.received(), R.received("sum"), TOLERANCE[torch.float16])
            assert asked == [KINDS[kind]]


def test_too_few_digits_of_a_normaliser_are_noticed_without_our_kernels_too(monkeypatch):
    def rounded(scores, request):
        output, lse = tiles.backend.forward(scores, request)
        return output, lse.float()

    def supports(scores, request, gradient=False, biases=False):
        return isinstance(request, Attend) and request.value.dtype == torch.float32 and not gradient

    torch.manual_seed(0)
    monkeypatch.setattr(torch_cuda.backend, "supports", supports)
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
