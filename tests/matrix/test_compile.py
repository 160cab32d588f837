"""torch.compile(fullgraph=True) of a function that calls regard.attention: no graph break, the same numbers."""

import pytest
import torch
from support.attention.cases import DEVICE, using

import regard
from regard.matrix import compiled
from regard.scores import Mask, as_mask


@pytest.fixture(autouse=True)
def _fresh():
    torch.compiler.reset()


def _tensors(*shapes):
    torch.manual_seed(0)
    return [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes]


MASKS = {
    "none": lambda b: None,
    "causal": lambda b: regard.causal(),
    "bool": lambda b: torch.ones(9, 11).tril(3).bool(),
    "bias": lambda b: b,
    "cut": lambda b: (
        regard.causal(2) & regard.cut(slice(3, None), 4, heads=[1, 2]) & regard.cut(within=regard.window(1, -1), bias=-1.5)
        & regard.cut(torch.arange(9) % 2 == 0, slice(2, 5), heads=torch.ones(2, 4).tril().bool())
    ),
    "all": lambda b: (
        regard.causal(torch.tensor([2, 5])) & regard.window(None, 3, 1) & regard.padding([9, 11]) & regard.bias(b)
        & regard.documents(torch.zeros(2, 9).long(), torch.zeros(2, 11).long())
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", MASKS)
def test_compiled_attention_agrees_forward_and_backward(name):
    q, k, v, b, s = _tensors((2, 4, 9, 8), (2, 2, 11, 8), (2, 2, 11, 6), (4, 1, 11), (4,))

    def model(q, k, v, b, s):
        return regard.attention(
            q * 2, k, v.sin(), mask=MASKS[name](b), softcap=20.0 if name == "all" else None, sinks=s
        ).cos()

    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    expected, found = model(q, k, v, b, s), compiled(q, k, v, b, s)
    assert torch.allclose(found, expected, atol=1e-12)
    back = torch.randn_like(expected)
    ours = torch.autograd.grad(found, (q, k, v, b, s), back, allow_unused=True)
    theirs = torch.autograd.grad(expected, (q, k, v, b, s), back, allow_unused=True)
    for one, other in zip(ours, theirs, strict=True):
        assert (one is None) == (other is None) or not (one if other is None else other).any()
        assert other is None or torch.allclose(one, other, atol=1e-11)


@pytest.mark.parametrize("value_heads", [2, 4])
@pytest.mark.parametrize("name", MASKS)
def test_the_operator_alone_agrees_forward_and_backward(name, value_heads):
    """What a compiled graph calls, called without one."""
    q, k, v, b, s = _tensors((2, 4, 9, 8), (2, 2, 11, 8), (2, value_heads, 11, 6), (4, 1, 11), (4,))
    options = {"mask": MASKS[name](b), "scale": 0.7, "softcap": 20.0 if name == "all" else None, "sinks": s}
    found = compiled.attend(q, k, v, as_mask(options["mask"]), 0.7, options["softcap"], s, 0.0)
    expected = regard.attention(q, k, v, **options)
    assert torch.allclose(found, expected, atol=1e-12)
    back = torch.randn_like(expected)
    for one, other in zip(
        *(torch.autograd.grad(each, (q, k, v, b, s), back, allow_unused=True) for each in (found, expected)),
        strict=True,
    ):
        assert (one is None or not one.any()) if other is None else torch.allclose(one, other, atol=1e-11)
    assert torch.allclose(
        compiled.attend(q, k, v, Mask(), None, None, 0.5, 0.0), regard.attention(q, k, v, sinks=0.5), atol=1e-12
    )
    spec, tensors = compiled._pack(as_mask(options["mask"]))
    again = compiled._unpack(spec, tensors)
    assert repr(again) == repr(as_mask(options["mask"]))
    fake = torch.library.opcheck
    fake(
        compiled._attend,
        (q.detach(), k.detach(), v.detach()[:, :2], s.detach(), tensors, torch.tensor(1), spec, None, None, 0.0),
        test_utils=["test_schema", "test_faketensor"],
    )
    torch.manual_seed(0)
    dropped = [compiled.attend(q, k, v, Mask(), None, None, None, 0.5) for _ in range(2)]
    assert not torch.equal(*dropped)


@pytest.mark.slow
def test_inductor_and_changing_lengths():
    compiled = torch.compile(
        lambda q: regard.attention(q, q, q, mask=regard.causal()) + 1, fullgraph=True, dynamic=True
    )
    for length in (5, 9, 17):
        (q,) = _tensors((1, 2, length, 8))
        assert torch.allclose(compiled(q), regard.attention(q, q, q, mask=regard.causal()) + 1, atol=1e-12)


def test_dropout_is_drawn_anew_in_each_call():
    q = torch.randn(2, 30, 8)
    compiled = torch.compile(lambda q: regard.attention(q, q, q, dropout=0.5), fullgraph=True, backend="aot_eager")
    assert not torch.equal(compiled(q), compiled(q))


def test_seeds_of_dropout_are_many():
    q = torch.randn(2, 6, 8)
    draws = [compiled.attend(q, q, q, Mask(), None, None, None, 0.5) for _ in range(40)]
    assert len({tuple(draw.flatten().tolist()) for draw in draws}) == 40


@pytest.mark.slow
def test_values_per_query_head_and_unusual_shapes():
    q, k, v, flat = _tensors((2, 4, 9, 8), (2, 2, 11, 8), (2, 4, 11, 6), (11, 3))
    compiled = torch.compile(lambda q, k, v: regard.attention(q, k, v), fullgraph=True, backend="aot_eager")
    for value in (v, flat):
        found, expected = compiled(q, k, value), regard.attention(q, k, value)
        assert torch.allclose(found, expected, atol=1e-12)
        grads = [torch.autograd.grad(out.square().sum(), (q, k, value)) for out in (found, expected)]
        assert all(torch.allclose(a, b, atol=1e-11) for a, b in zip(*grads, strict=True))
    plain = [t.detach()[0, 0].requires_grad_() for t in (q, k, v)]
    assert torch.allclose(compiled(*plain), regard.attention(*plain), atol=1e-12)
    compiled(*plain).sum().backward()
    assert all(t.grad is not None for t in plain)


def test_numbers_mean_the_same_compiled_or_not(unchecked):
    q = torch.randn(2, 5, 8).half()
    compiled = torch.compile(
        lambda q: regard.attention(q, q, q, sinks=1, scale=0.3), fullgraph=True, backend="aot_eager"
    )
    assert torch.equal(compiled(q), regard.attention(q, q, q, sinks=1, scale=0.3))
    scale = torch.tensor(0.3)
    for call in (regard.attention, torch.compile(regard.attention, backend="aot_eager")):
        with pytest.raises(regard.DTypeError, match="scale"):
            call(q, q, q, scale=scale)
    for options in ({"scale": scale}, {"softcap": scale}):
        with pytest.raises(regard.DTypeError, match="scale and softcap must be numbers"):
            torch.jit.trace(lambda q: regard.attention(q, q, q, **options), q)  # noqa: B023


def test_causal_with_a_negative_scale():
    (q,) = _tensors((1, 2, 9, 8))
    compiled = torch.compile(
        lambda q: regard.attention(q, q, q, mask=regard.causal(), scale=-0.5), fullgraph=True, backend="aot_eager"
    )
    D = regard.AttentionMatrix(q, q, mask=regard.causal(), scale=-0.5).to_dense()
    assert torch.allclose(compiled(q), D @ q, atol=1e-12)


def _looked(q, k, v):
    A = regard.AttentionMatrix(q * 2, k, mask=regard.causal())
    return A @ v, A.received(), A.entropy(), A.top(3).weights, A.logsumexp, A[..., 3, :], A.mT @ q


@pytest.mark.gpu
def test_a_matrix_inside_a_compiled_function(unchecked):
    torch.manual_seed(0)
    tensors = [torch.randn(1, heads, 20, 16, device=DEVICE).half().requires_grad_() for heads in (2, 1, 1)]
    with using("triton", False):  # Triton's kernels, by its interpreter where there is no GPU: nothing to trace
        expected, found = _looked(*tensors), torch.compile(_looked, backend="aot_eager")(*tensors)
        for one, other in zip(found, expected, strict=True):
            assert torch.allclose(one, other, atol=1e-3)
        ours, theirs = (
            torch.autograd.grad(results[0].float().square().sum() + results[1].square().sum(), tensors)
            for results in (found, expected)
        )
    for one, other in zip(ours, theirs, strict=True):
        assert torch.allclose(one, other, atol=1e-2)


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["none", "causal", "odd"])
def test_compiled_attention_in_half_precision(name, unchecked):
    torch.manual_seed(0)
    q, k, v = tensors = [torch.randn(2, heads, 40, 16, device=DEVICE).half().requires_grad_() for heads in (4, 2, 2)]
    options = {"none": {}, "causal": {"mask": regard.causal()}, "odd": {"mask": regard.window(5, 0), "softcap": 9.0}}

    def model(q, k, v):
        return regard.attention(q * 2, k, v, **options[name]).cos()

    expected, found = model(*tensors), torch.compile(model, fullgraph=True)(*tensors)
    assert torch.allclose(found, expected, atol=4e-3)
    back = torch.randn_like(expected)
    for one, other in zip(*(torch.autograd.grad(result, (q, k, v), back) for result in (found, expected)), strict=True):
        assert torch.allclose(one, other, atol=4e-2, rtol=1e-2)


RECORDED = {
    "attention": lambda q, k, v, n: regard.attention(q, k, v),
    "padding": lambda q, k, v, n: regard.attention(q, k, v, mask=regard.padding(n) & regard.causal(), softcap=3.0),
    "a matrix": lambda q, k, v, n: regard.AttentionMatrix(q, k, mask=regard.padding(n), sinks=torch.ones(4)) @ v,
}


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("name", RECORDED)
@pytest.mark.parametrize("gradient", [False, True])
def test_traced_and_exported_attention_agrees(name, gradient):
    class Model(torch.nn.Module):
        def forward(self, *inputs):
            return RECORDED[name](*inputs)

    def inputs():
        return torch.randn(2, 4, 5, 8, requires_grad=gradient), *torch.randn(2, 2, 2, 7, 8), torch.randint(1, 7, (2,))

    first, others = inputs(), inputs()
    for recorded in (torch.jit.trace(Model(), first), torch.export.export(Model(), first).module()):
        found, expected = recorded(*others), Model()(*others)
        assert torch.allclose(found, expected, atol=1e-6)
        if gradient:
            pair = (torch.autograd.grad(output.square().sum(), others[0])[0] for output in (found, expected))
            assert torch.allclose(*pair, atol=1e-5)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("record", [torch.jit.trace, torch.export.export])
@pytest.mark.parametrize(
    "look",
    [lambda A: A.received(), lambda A: A.top(2).weights, lambda A: A[..., 2, :], lambda A: A.part[..., :3, :] @ A.received()[..., None],
     lambda A: A.mT @ torch.ones(4, 5, 1), lambda A: A.where(regard.window(1, 1)) @ torch.ones(5, 1), lambda A: A.logsumexp],
)  # fmt: skip
def test_what_cannot_be_recorded_says_so(record, look):
    class Model(torch.nn.Module):
        def forward(self, q, k):
            return look(regard.AttentionMatrix(q, k, mask=regard.causal()))

    with pytest.raises(regard.InputError, match="Make the AttentionMatrix outside of what you record"):
        record(Model(), (torch.randn(4, 5, 8), torch.randn(4, 5, 8)))
