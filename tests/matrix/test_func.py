"""`regard.attention` inside torch.func: grad, vmap, jacobians and what they are made of."""

import pytest
import torch
from torch.func import grad, hessian, jacrev, jvp, vmap

import regard

MASKS = {
    "none": None,
    "causal": regard.causal(),
    "window": regard.window(2, 1),
    "padding": regard.padding([3, 6]),
    "documents": regard.documents([0, 0, 1, 1, 1], [0, 0, 0, 1, 1, 2]),
    "bools": torch.ones(5, 6).tril(1).bool(),
    "bias": torch.randn(4, 5, 6, dtype=torch.float64),
    "two": regard.causal(1) & regard.bias(torch.randn(5, 6)),
}
OPTIONS = {
    "plain": {},
    "capped": {"softcap": 3.0, "scale": 0.7},
    "sinks": {"sinks": torch.randn(4, dtype=torch.float64)},
}


def tensors(*batch, key_heads=2):
    torch.manual_seed(0)
    shapes = (4, 5, 8), (key_heads, 6, 8), (key_heads, 6, 3)
    return [torch.randn(*batch, *shape, dtype=torch.float64) for shape in shapes]


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("key_heads", [2, 4])
def test_grad_is_that_of_backward(mask, options, key_heads):
    options, leaves = {"mask": MASKS[mask], **OPTIONS[options]}, tensors(2, key_heads=key_heads)

    def loss(q, k, v):
        return regard.attention(q, k, v, **options).square().sum()

    found = grad(loss, argnums=(0, 1, 2))(*leaves)
    expected = torch.autograd.grad(loss(*(t.requires_grad_() for t in leaves)), leaves)
    for one, other in zip(found, expected, strict=True):
        assert torch.allclose(one, other, atol=1e-12)


@pytest.mark.parametrize("mask", sorted(set(MASKS) - {"padding"}))
@pytest.mark.parametrize("options", OPTIONS)
def test_vmap_is_a_batch_axis(mask, options):
    options, (q, k, v) = {"mask": MASKS[mask], **OPTIONS[options]}, tensors(3)
    expected = regard.attention(q, k, v, **options)
    assert torch.allclose(vmap(lambda *t: regard.attention(*t, **options))(q, k, v), expected, atol=1e-12)
    one_key = vmap(lambda q: regard.attention(q, k[0], v[0], **options))(q)
    assert torch.allclose(one_key, regard.attention(q, k[:1].expand_as(k), v[:1].expand_as(v), **options), atol=1e-12)
    lengths = torch.tensor([2, 6, 0])
    found = vmap(lambda q, k, v, n: regard.attention(q, k, v, mask=regard.padding(n)))(q, k, v, lengths)
    assert torch.allclose(found, regard.attention(q, k, v, mask=regard.padding(lengths)), atol=1e-12)


@pytest.mark.parametrize("name", ["query", "key", "value", "sinks", "bias"])
def test_any_one_input_may_be_the_transformed_one(name):
    inputs = dict(zip(("query", "key", "value"), tensors(2), strict=True))
    inputs |= {"sinks": torch.randn(4, dtype=torch.float64), "bias": torch.randn(5, 6, dtype=torch.float64)}

    def loss(changed):
        query, key, value, sinks, bias = (inputs | {name: changed}).values()
        return regard.attention(query, key, value, mask=regard.bias(bias), sinks=sinks).square().sum()

    leaf = inputs[name].clone().requires_grad_()
    (expected,) = torch.autograd.grad(loss(leaf), leaf)
    assert torch.allclose(grad(loss)(inputs[name]), expected, atol=1e-12)


def test_gradients_per_sample_jacobians_and_second_derivatives():
    q, k, v = tensors(3)

    def loss(q, k, v):
        return regard.attention(q, k, v, mask=regard.causal(), softcap=4.0).square().sum()

    each = vmap(grad(loss))(q, k, v)
    assert torch.allclose(each[1], grad(loss)(q[1], k[1], v[1]), atol=1e-12)
    q, k, v = (t[0, :2, :3] for t in (q, k, v))
    whole = hessian(loss)(q, k, v)
    assert torch.allclose(whole, jacrev(grad(loss))(q, k, v), atol=1e-10)
    assert torch.allclose(whole, whole.permute(3, 4, 5, 0, 1, 2), atol=1e-10)
    _, forward = jvp(lambda q: regard.attention(q, k, v, softcap=4.0), (q,), (torch.ones_like(q),))
    step = 1e-6
    moved = [regard.attention(q + s * step, k, v, softcap=4.0) for s in (1, -1)]
    assert torch.allclose(forward, (moved[0] - moved[1]) / (2 * step), atol=1e-8)


def test_rows_that_see_nothing_and_hidden_nan_are_as_ever():
    q, k, v = tensors(2)
    k[1, :, 4:], v[1, :, 4:], q[0] = torch.nan, torch.inf, torch.nan
    mask = regard.padding([0, 4])
    found = grad(lambda q, k, v: regard.attention(q, k, v, mask=mask).sum(), argnums=(0, 1, 2))(q, k, v)
    assert all(torch.isfinite(t).all() for t in found)
    assert not found[0][0].any()
    assert not found[1][1, :, 4:].any()


def test_dropout_inside_a_transform():
    q, k, v = tensors(2)
    found = grad(lambda q: regard.attention(q, k, v, dropout=0.5).sum())(q)
    assert torch.isfinite(found).all()
    torch.manual_seed(0)
    kept = grad(lambda v: regard.attention(q * 0, k, v, dropout=0.2).sum())(v)[..., 0] * 6 * 0.8  # of equal weights
    torch.testing.assert_close(kept, kept.round())
    assert 0.6 < float(kept.sum()) / (2 * 4 * 5 * 6) < 0.95


@pytest.mark.usefixtures("unchecked")
def test_values_of_another_dtype_are_refused_there_too():
    q, k, v = tensors(2)
    with pytest.raises(regard.DTypeError, match="query and value must have one dtype"):
        grad(lambda q: regard.attention(q, k, v.float(), softcap=3.0).sum())(q)


@pytest.mark.usefixtures("unchecked")
def test_a_matrix_inside_a_transform_is_refused_with_a_way_out():
    q, k, v = tensors(2)
    made = regard.AttentionMatrix(q, k)
    for function in (
        lambda q: regard.AttentionMatrix(q, q).received().sum(),
        lambda q: (regard.AttentionMatrix(q, q) @ q).sum(),
    ):
        for transform in (grad, vmap):
            with pytest.raises(regard.InputError, match=r"torch.func.*regard.attention"):
                transform(function)(q)
    with pytest.raises(regard.InputError, match=r"torch.func.*regard.attention"):
        grad(lambda v: (made @ v).sum())(v)
    assert made.received().shape == (2, 4, 6)
