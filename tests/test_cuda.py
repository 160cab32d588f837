"""torch's fused kernels of a GPU: where a version lacks one or refuses, the forward of sweep.py takes its place."""

import pytest
import torch
from cases import TOLERANCE, Case, close, using

import regard
from regard.backends import cuda

pytestmark = pytest.mark.gpu


KINDS = {cuda._CUDNN: "cudnn", cuda._FLASH: "flash", cuda._EFFICIENT: "efficient"}


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
    monkeypatch.setattr(cuda, "_choice", lambda scores, value: kind)
    monkeypatch.setattr(cuda, "_DEVICE", "cpu" if not torch.cuda.is_available() else "cuda")
    monkeypatch.setattr(cuda, "_refused", set())
    torch.manual_seed(0)
    case = Case(*torch.randn(3, 1, 2, 40, 16).half(), {"mask": regard.causal()})
    with using("sweep", False):
        for _ in range(2):  # it is asked once, and then no more
            A, R = case.matrix(), case.reference()
            close(A @ case.value, R.output(case.value), 4 * TOLERANCE[torch.float16])
            close(A.received(), R.received("sum"), TOLERANCE[torch.float16])
            assert asked == [KINDS[kind]]
