"""Gradients equal those of the dense form in float64; twice in a row, in any order, cached or not, on parts too."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.attention.cases import BACKENDS, cases, using

import regard
from regard.backends.reference import Reference
from regard.scores.masks import Cut, hides

RESULTS = {
    "attend": (lambda A, v, x: A @ v, lambda D, v, x: D @ v),
    "reverse": (lambda A, v, x: A.mT @ x, lambda D, v, x: D.mT @ x),
    "sum": (lambda A, v, x: A.received(), lambda D, v, x: D.sum(-2)),
    "mean": (lambda A, v, x: A.received("mean"), lambda D, v, x: D.mean(-2)),
    "entropy": (lambda A, v, x: A.entropy(), lambda D, v, x: -(D * torch.where(D > 0, D, 1).log()).sum(-1)),
    "pool": (lambda A, v, x: A.pool(3, 2), lambda D, v, x: _pooled(D, 3, 2)),
    "row": (lambda A, v, x: A[..., -1, :], lambda D, v, x: D[..., -1, :]),
    "points": (lambda A, v, x: A.diagonal(), lambda D, v, x: D.diagonal(dim1=-2, dim2=-1)),
    "dense": (lambda A, v, x: A.to_dense(), lambda D, v, x: D),
    "pairs": (lambda A, v, x: A[..., [-1, 0], [0, 0]], lambda D, v, x: D[..., [-1, 0], [0, 0]]),
}


def _pooled(dense, rows, columns):
    queries, keys = dense.shape[-2:]
    rows, columns = min(rows, queries), min(columns, keys)
    bins = [
        dense[..., r * queries // rows : (r + 1) * queries // rows, c * keys // columns : (c + 1) * keys // columns]
        for r in range(rows)
        for c in range(columns)
    ]
    return torch.stack([b.mean((-1, -2)) for b in bins], -1).unflatten(-1, (rows, columns))


def _dense(case, query, key, biases, sinks):
    """The attention matrix by ordinary differentiable torch, N × N; and its logsumexp."""
    options = case.options
    if query.dim() > 2:
        key = key.repeat_interleave(query.shape[-3] // key.shape[-3], -3)
    s = query @ key.mT * options.get("scale", query.shape[-1] ** -0.5)
    if (cap := options.get("softcap")) is not None:
        s = cap * torch.tanh(s / cap)
    for bias in biases:
        s = s + bias.masked_fill(hides(bias), 0.0)
    if isinstance(mask := options.get("mask"), regard.Mask):  # what cuts add
        weakened = regard.Mask(tuple(a for a in mask.atoms if isinstance(a, Cut) and not a.hides))
        R = Reference(query, key, mask=weakened)
        s = s + torch.from_numpy(R.masked - R.scaled)
    hidden = torch.from_numpy(case.reference().masked == -torch.inf)
    s = s.masked_fill(hidden, -torch.inf)
    if sinks is not None:
        s = torch.cat([s, sinks.double()[..., None, None].expand(*s.shape[:-1], 1)], -1)
    empty = (s == -torch.inf).all(-1, keepdim=True)
    s = s.masked_fill(empty, 0.0)  # keep NaN out of softmax's backward
    lse = s.logsumexp(-1).masked_fill(empty[..., 0], 0.0)
    p = s.softmax(-1).masked_fill(empty, 0.0)
    return (p if sinks is None else p[..., :-1]), lse


def _leaves(case):
    """Everything a gradient may flow to, and the case's options with those tensors in them."""
    query, key, value = (t.clone().requires_grad_() for t in (case.query, case.key, case.value))
    options, biases = dict(case.options), []
    if isinstance(mask := options.get("mask"), torch.Tensor) and mask.is_floating_point():
        options["mask"] = regard.bias(mask)
    if isinstance(mask := options.get("mask"), regard.Mask):
        atoms = []
        for atom in mask.atoms:
            tensor = getattr(atom, "tensor", None)
            if tensor is not None and tensor.is_floating_point():
                biases.append(tensor.double().requires_grad_())
                atom = regard.bias(biases[-1]).atoms[0]
            atoms.append(atom)
        options["mask"] = regard.Mask(tuple(atoms))
    if "sinks" in options:
        options["sinks"] = options["sinks"].double().requires_grad_()
    return query, key, value, biases, options


def _same(found, expected):
    for one, other in zip(found, expected, strict=True):
        other = torch.zeros_like(one) if other is None else other
        assert one is not None
        assert torch.allclose(one, other, atol=1e-9, rtol=1e-8), (one - other).abs().max()


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", RESULTS)
@given(
    case=cases(dtypes=(torch.float64,), least=1, most=20),
    small=st.booleans(),
    warm=st.booleans(),
    seed=st.integers(0, 99),
)
@settings(max_examples=30)
def test_gradients_are_those_of_the_dense_form(backend, name, case, small, warm, seed):
    lazy, dense = RESULTS[name]
    query, key, value, biases, options = _leaves(case)
    inputs = [query, key, *biases, *([options["sinks"]] if "sinks" in options else [])]
    with using(backend, small):
        A = regard.AttentionMatrix(query, key, **options)
        D, lse = _dense(case, query, key, biases, options.get("sinks"))
        x = torch.randn(
            *A.shape[:-1], 3, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)
        ).requires_grad_()
        if warm:  # a cached normaliser must not change a gradient
            A.logsumexp  # noqa: B018
        wide = value
        if value.dim() > 2:
            wide = value.repeat_interleave(query.shape[-3] // key.shape[-3], -3)
        out, expected = lazy(A, value, x), dense(D, wide, x)
        back = torch.randn(expected.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed + 1))
        everything = [*inputs, value, x]
        theirs = torch.autograd.grad(expected, everything, back, allow_unused=True, retain_graph=True)
        for _ in range(2):
            ours = torch.autograd.grad(out, everything, back, allow_unused=True, retain_graph=True)
            _same([o if o is not None else torch.zeros_like(t) for o, t in zip(ours, everything, strict=True)], theirs)
        # The same again from the same matrix, now that it knows its normaliser, and after another result was asked for.
        A.received()
        ours = torch.autograd.grad(lazy(A, value, x), inputs, back, allow_unused=True)
        _same(
            [o if o is not None else torch.zeros_like(t) for o, t in zip(ours, inputs, strict=True)],
            theirs[: len(inputs)],
        )
        # And through the normaliser.
        A = regard.AttentionMatrix(query, key, **options)
        ours_lse = A.logsumexp.masked_fill(A.logsumexp == -torch.inf, 0.0)
        back = torch.randn(lse.shape, dtype=torch.float64)
        ours = torch.autograd.grad(ours_lse, inputs, back, allow_unused=True)
        theirs = torch.autograd.grad(lse, inputs, back, allow_unused=True)
        _same([o if o is not None else torch.zeros_like(t) for o, t in zip(ours, inputs, strict=True)], theirs)


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", ["attend", "reverse", "sum", "entropy", "pool", "dense"])
@given(case=cases(dtypes=(torch.float64,), least=3, most=20), small=st.booleans())
@settings(max_examples=20)
def test_gradients_of_parts_reach_all_keys(backend, name, case, small):
    lazy, dense = RESULTS[name]
    query, key, _, biases, options = _leaves(case)
    inputs = [query, key, *biases, *([options["sinks"]] if "sinks" in options else [])]
    index = (..., slice(1, None), slice(1, None, 2))
    with using(backend, small):
        A = regard.AttentionMatrix(query, key, **options).part[index]
        D = _dense(case, query, key, biases, options.get("sinks"))[0][index]
        torch.manual_seed(case.seed)
        x = torch.randn(*A.shape[:-1], 3, dtype=torch.float64)
        v = torch.randn(*A.shape[:-2], A.shape[-1], 2, dtype=torch.float64)
        out, expected = lazy(A, v, x), dense(D, v, x)
        back = torch.randn(expected.shape, dtype=torch.float64)
        ours, theirs = (torch.autograd.grad(r, inputs, back, allow_unused=True) for r in (out, expected))
        _same([o if o is not None else torch.zeros_like(t) for o, t in zip(ours, inputs, strict=True)], theirs)


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
@given(
    case=cases(dtypes=(torch.float64,), least=1, most=20),
    small=st.booleans(),
    part=st.booleans(),
    warm=st.booleans(),
    share=st.sampled_from([0.02, 0.2, 1.0]),
)
@settings(max_examples=60)
def test_guide_is_the_mean_of_minus_log_of_what_linked_rows_put_on_their_keys(backend, case, small, part, warm, share):
    query, key, _, biases, options = _leaves(case)
    inputs = [query, key, *biases, *([options["sinks"]] if "sinks" in options else [])]
    with using(backend, small):
        A = regard.AttentionMatrix(query, key, **options)
        D = _dense(case, query, key, biases, options.get("sinks"))[0]
        if part:  # of one head, from the second row on: each row is normalised over all its keys
            index = (..., 0, slice(1, None), slice(None)) if D.dim() > 2 else (slice(1, None), slice(None))
            A, D = A.part[index], D[index]
        linked = torch.rand(D.shape, generator=torch.Generator().manual_seed(case.seed)) < share
        linked &= (D > 0).any(-1, keepdim=True)  # a row that sees nothing cannot look anywhere
        linked[..., 0] |= (linked & (D > 0)).any(-1) != linked.any(-1)
        linked &= (linked & (D > 0)).any(-1, keepdim=True)  # nor one all of whose linked keys are hidden
        if warm:
            A.logsumexp  # noqa: B018
        found = regard.guide(A, linked)
        rows = linked.any(-1)
        if not rows.any():
            assert found == 0
            return
        expected = -torch.where(linked, D, 0.0).sum(-1)[rows].log().mean()
        assert torch.allclose(found, expected, atol=1e-10, rtol=1e-10)
        ours, theirs = (torch.autograd.grad(loss, inputs, allow_unused=True) for loss in (found, expected))
        _same([o if o is not None else torch.zeros_like(t) for o, t in zip(ours, inputs, strict=True)], theirs)
        # As positions, in any order, some of them twice and counted from the end.
        links = linked.nonzero().repeat(2, 1)
        links = links[torch.randperm(len(links), generator=torch.Generator().manual_seed(1))]
        links[::2] -= torch.tensor(D.shape)
        assert torch.allclose(regard.guide(A, links), found, atol=1e-12)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_second_derivative_is_refused_not_wrong(backend):
    with using(backend, small=False):
        q = torch.randn(2, 5, 4, dtype=torch.float64, requires_grad=True)
        out = regard.attention(q, q, q)
        with pytest.raises(regard.InputError, match="first order"):
            torch.autograd.grad(out.sum(), q, create_graph=True)


def test_dropout_keeps_the_mean_and_its_gradient_is_that_of_the_weights_it_kept():
    torch.manual_seed(3)
    q, k = (torch.randn(2, 2, 40, 8, dtype=torch.float64, requires_grad=True) for _ in range(2))
    v = torch.eye(40, dtype=torch.float64).expand(2, 2, 40, 40).clone().requires_grad_()
    dropped = regard.attention(q, k, v, dropout=0.25)  # with V = 1, the output is the dropped weights themselves
    weights = regard.AttentionMatrix(q, k).to_dense()
    kept = dropped != 0
    assert torch.allclose(dropped[kept], weights[kept] / 0.75, atol=1e-12)
    assert 0.7 < kept.double().mean() < 0.8
    assert not torch.equal(kept, regard.attention(q, k, v, dropout=0.25) != 0)
    back = torch.randn_like(dropped)
    ours = torch.autograd.grad(dropped, (q, k, v), back)
    theirs = torch.autograd.grad((weights * kept / 0.75) @ v, (q, k, v), back)
    _same(ours, theirs)
    torch.manual_seed(9)
    one = regard.attention(q, k, v, dropout=0.25)
    torch.manual_seed(9)
    with using("tiles", small=True):  # what is dropped does not depend on the tiles
        assert torch.allclose(one, regard.attention(q, k, v, dropout=0.25), atol=1e-12)


def test_a_sinks_gradient_does_not_overflow_in_half_precision():
    """Σ back × output goes beyond float16, the gradient does not."""
    sinks = torch.zeros(1, requires_grad=True)
    ones = torch.ones(1, 1, 4, 8, dtype=torch.float16)
    out = regard.attention(ones * 0, ones * 0, ones * 50, sinks=sinks)
    (found,) = torch.autograd.grad(out, sinks, torch.full_like(out, 2000.0))
    assert torch.allclose(found, torch.tensor([-4 * 8 * 2000 * 40 * 0.2]))


def test_a_large_gradient_of_the_entropy_stays_finite():
    q = torch.randn(1, 6, 8, requires_grad=True)
    regard.AttentionMatrix(q, q, mask=regard.causal()).entropy().backward(torch.full((1, 6), 1e30))
    assert q.grad.isfinite().all()
    assert q.grad.any()


def test_every_head_drops_weights_of_its_own():
    q, k = torch.zeros(1, 4, 20, 8), torch.zeros(1, 2, 20, 8)
    A = regard.AttentionMatrix(q, k)
    kept = A.attend(torch.eye(20).expand(1, 4, 20, 20), dropout=0.5, seed=torch.tensor(7)) != 0
    assert all(not torch.equal(kept[0, a], kept[0, b]) for a in range(4) for b in range(a))
    again = A.attend(torch.eye(20).expand(1, 4, 20, 20), dropout=0.5, seed=torch.tensor(7)) != 0
    assert torch.equal(kept, again)
