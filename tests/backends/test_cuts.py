"""Masks with cuts: their pieces have the fast kernels, and `where` leaves weights as they are."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from support.attention.cases import TOLERANCE, Case, close, using

import regard
from regard.backends import chooser, tiles, torch_cpu
from regard.backends.contract import Attend
from regard.backends.cuts import parts_of
from regard.backends.reference import Reference
from regard.scores.masks import Mask

some = torch.zeros(2, 50, dtype=torch.bool)
some[0, 7:9] = some[1, 30:40] = True
CUTS = {
    "a word": regard.causal() & regard.cut(40, slice(3, 5)),
    "a span": regard.causal() & regard.cut(slice(20, 45), slice(3, 5)) & regard.cut(slice(30, None), 20),
    "in one head": regard.causal() & regard.cut(40, slice(3, 5), heads=[1]),
    "of each text": regard.causal() & regard.cut(some, some.roll(-5, -1)),
    "for all": regard.padding([50, 44]) & regard.cut(None, slice(3, 5)),
    "the token before": regard.causal() & regard.cut(within=regard.window(1, -1)),
    "far away": regard.causal() & regard.cut(slice(20, None), within=regard.window(None, -9)),
    "weaker": regard.causal() & regard.cut(slice(20, None), slice(3, 5), bias=-2.0),
    "a weaker band": regard.cut(within=regard.window(9, -2), bias=1.5),
    "a band further on": regard.causal(offset=9) & regard.cut(within=regard.window(1, 2, offset=7)),
    "nothing": regard.causal() & regard.cut(60, slice(3, 5)),
    "everything": regard.cut(slice(10, 20)),
}


@pytest.mark.parametrize("name", CUTS)
@pytest.mark.parametrize("backend", ["torch_cpu", pytest.param("triton", marks=pytest.mark.gpu)])
def test_pieces_are_computed_by_kernels(backend, name):
    torch.manual_seed(0)
    q, k, v = torch.randn(2, 2, 50, 16), torch.randn(2, 1, 50, 16), torch.randn(2, 1, 50, 16)
    case, limit = Case(q, k, v, {"mask": CUTS[name]}), TOLERANCE[torch.float32]
    with using(backend, False):
        A, R = case.matrix(), case.reference()
        parts = parts_of(A._core.scores)
        assert {chooser.choose(part.scores, Attend(case.value)).name for part in parts} == {backend}
        close(A @ case.value, R.output(v), 4 * limit)
        seen = A.summary(top=5, pool=(5, 4))
        close(seen.received, R.received(), limit)
        close(seen.entropy, R.entropy(), 4 * limit)
        close(seen.top.weights, R.top(5), limit)
        close(seen.pool, R.pool(5, 4), limit)
        rows, columns = torch.arange(50).repeat_interleave(50), torch.arange(50).repeat(50)
        close(A[..., rows, columns].unflatten(-1, (50, 50)), R.weights, limit)  # point by point


def test_where_few_rows_are_cut_the_others_are_not_split():
    q, k, v = torch.randn(3, 1, 2, 200, 16).unbind(0)
    mask = regard.causal() & regard.cut(slice(100, 103), slice(3, 50), heads=[1])
    calls, forward = [], torch_cpu.backend.forward

    def counted(scores, request):
        calls.append(scores.shape[2])
        return forward(scores, request)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch_cpu.backend, "forward", counted)
        output = regard.attention(q, k, v, mask=mask)
    assert calls == [200, 3]
    close(output, Reference(q, k, mask=mask).output(v), 1e-5)


IN_SOME_HEADS = {
    "many rows": regard.causal() & regard.cut(slice(90, None), slice(3, 50), heads=[1, 2]),
    "other rows elsewhere": regard.cut(slice(90, None), 9, heads=[0]) & regard.cut(slice(0, 70), slice(3, 50)),
    "a band": regard.causal() & regard.cut(within=regard.window(9, -2), heads=[1, 3]),
    "of each text": regard.cut(slice(90, None), 9, heads=[0]) & regard.cut(None, 3, heads=torch.rand(2, 4) < 0.5),
    "a weaker band": regard.causal(offset=-20) & regard.cut(within=regard.window(9, -2), heads=[0], bias=-1.0),
}


@pytest.mark.parametrize("name", IN_SOME_HEADS)
def test_heads_with_the_same_cuts_have_the_fast_kernel(name, monkeypatch):
    q, (k, v), mask = torch.randn(2, 4, 200, 16), torch.randn(2, 2, 2, 200, 16), IN_SOME_HEADS[name]
    monkeypatch.setattr(tiles.backend, "forward", None)
    close(regard.attention(q, k, v, mask=mask), Reference(q, k, mask=mask).output(v), 1e-5)


OFFSETS = [
    regard.causal(offset=n) & more for n in (-260, -30, 0, 60, 230) for more in (Mask(), regard.padding([99, 0]))
]


@pytest.mark.parametrize("mask", OFFSETS, ids=str)
def test_what_causal_with_an_offset_shows_needs_no_dense_mask(mask, monkeypatch):
    shapes = []
    additive = torch_cpu._additive_mask

    def counted(*args, **kwargs):
        found = additive(*args, **kwargs)
        shapes.append(None if found is None else found.shape[2])
        return found

    monkeypatch.setattr(torch_cpu, "_additive_mask", counted)
    q, (k, v) = torch.randn(2, 4, 200, 16, requires_grad=True), torch.randn(2, 2, 2, 250, 16)
    output = regard.attention(q, k, v, mask=mask)
    close(output.detach(), Reference(q.detach(), k, mask=mask).output(v), 1e-5)
    (gradient,) = torch.autograd.grad(output.sum(), q)
    shown = torch.from_numpy(Reference(q.detach(), k, mask=mask).masked > -np.inf)
    wide = torch.where(shown, q.double() @ k.double().repeat_interleave(2, 1).mT / 4, -torch.inf)
    dense = wide.softmax(-1).nan_to_num(0.0) @ v.double().repeat_interleave(2, 1)
    (expected,) = torch.autograd.grad(dense.sum(), q)
    close(gradient, expected.nan_to_num(0.0), 1e-4)
    assert set(shapes) <= {None, 1}


def test_what_is_cut_from_all_queries_never_leaks():
    q, k, v = torch.randn(3, 1, 2, 30, 8, dtype=torch.float64).unbind(0)
    expected = regard.attention(q, k, v, mask=regard.causal() & regard.cut(None, slice(4, 6)))
    k, v = k.clone(), v.clone()
    k[:, :, 4:6], v[:, :, 4:6] = torch.nan, torch.inf
    apart = regard.cut(slice(0, 9), slice(4, 6)) & regard.cut(slice(9, None), slice(3, 6)) & regard.cut(3, slice(0, 2))
    assert torch.equal(regard.attention(q, k, v, mask=regard.causal() & regard.cut(None, slice(4, 6))), expected)
    assert regard.attention(q, k, v, mask=regard.causal() & apart).isfinite().all()


def test_what_a_band_cuts_from_all_queries_of_a_head_never_leaks():
    """A key that one head alone may see has to be a number; one that neither sees does not."""
    q, k, v = torch.randn(3, 1, 2, 30, 8, dtype=torch.float64).unbind(0)
    mask = regard.causal() & regard.cut(None, slice(4, 6), within=regard.window(None, None), heads=[1])
    expected = regard.attention(q, k, v, mask=mask)
    close(expected, Reference(q, k, mask=mask).output(v), 1e-12)
    k, v = k.clone(), v.clone()
    k[:, 1, 4:6], v[:, 1, 4:6] = torch.nan, torch.inf
    assert torch.equal(regard.attention(q, k, v, mask=mask), expected)
    assert regard.AttentionMatrix(q, k, mask=mask).received().isfinite().all()


# Zeroed, and not normalised again


@pytest.mark.parametrize("name", [name for name in CUTS if "weaker" not in name])
def test_where_is_the_dense_matrix_with_zeros(name):
    torch.manual_seed(0)
    q, k = torch.randn(2, 4, 50, 8, dtype=torch.float64), torch.randn(2, 2, 50, 8, dtype=torch.float64)
    sinks = torch.randn(4, dtype=torch.float64)
    A = regard.AttentionMatrix(q, k, mask=regard.causal(), sinks=sinks)
    cuts = Mask(tuple(atom for atom in CUTS[name].atoms if not isinstance(atom, type(regard.causal().atoms[0]))))
    shown = torch.from_numpy(~np.isneginf(Reference(q, k, mask=cuts).masked))
    expected, zeroed = A.to_dense() * shown, A.where(cuts)
    torch.testing.assert_close(zeroed.to_dense(), expected)
    torch.testing.assert_close(zeroed.received(), expected.sum(-2))
    torch.testing.assert_close(zeroed.part[1, :, 5:30, 2:].received(), expected[1, :, 5:30, 2:].sum(-2))
    torch.testing.assert_close(zeroed.top(3).weights, expected.topk(3).values)
    torch.testing.assert_close(zeroed.pool(4, 5), _pooled(expected))
    v = torch.randn(2, 4, 50, 3, dtype=torch.float64)
    torch.testing.assert_close(zeroed @ v, expected @ v)
    torch.testing.assert_close(zeroed.mT @ v, expected.mT @ v)


def _pooled(dense):
    rows, columns = ([n * 50 // bins for n in range(bins + 1)] for bins in (4, 5))
    bins = [dense[..., a:b, c:d] for a, b in pairwise(rows) for c, d in pairwise(columns)]
    return torch.stack([each.mean((-1, -2)) for each in bins], -1).unflatten(-1, (4, 5))


def test_gradients_of_where():
    q, k, v = (torch.randn(1, 2, 9, 4, dtype=torch.float64, requires_grad=True) for _ in range(3))
    link = regard.cut(slice(5, None), slice(1, 3), heads=[0])
    shown = torch.ones(1, 2, 9, 9, dtype=torch.bool)
    shown[:, 0, 5:, 1:3] = False
    ours = regard.AttentionMatrix(q, k, mask=regard.causal()).where(link) @ v
    hidden = torch.ones(9, 9).tril().bool()
    theirs = (q @ k.mT / 2).masked_fill(~hidden, -torch.inf).softmax(-1) * shown @ v
    back = torch.randn_like(theirs)
    for one, other in zip(*(torch.autograd.grad(x, (q, k, v), back) for x in (ours, theirs)), strict=True):
        torch.testing.assert_close(one, other)


# What is refused


@pytest.mark.usefixtures("unchecked")
def test_bad_cuts():
    q = torch.randn(2, 3, 5, 8)
    for bad, said in (
        (lambda: regard.cut(-1), "counted from 0"),
        (lambda: regard.cut(slice(0, 9, 2)), "steps of 1"),
        (lambda: regard.cut(torch.ones(5)), "bool tensor"),
        (lambda: regard.cut(bias=torch.inf), "-inf to hide"),
        (lambda: regard.cut(heads=[-1]), "numbered from 0"),
        (lambda: regard.cut(within=regard.padding([3])), "one window"),
        (lambda: regard.AttentionMatrix(q, q, mask=regard.cut(heads=[3])), "heads up to 2"),
        (lambda: regard.AttentionMatrix(q, q, mask=regard.cut(torch.ones(4).bool())), "^the queries of a cut"),
        (lambda: regard.cut(-1), "^queries are counted from 0. Got -1"),
        (lambda: regard.cut(0, slice(-1, 3)), "^keys are counted from 0, in steps of 1"),
        (lambda: regard.cut(0, "a"), "^keys must be a whole number"),
        (lambda: regard.cut(bias=1e30), "at most 1e.29"),
        (lambda: regard.cut(bias="a"), r"^bias \(or -inf to hide\) must"),
        (lambda: regard.cut(within=3), "Got int"),
        (lambda: regard.cut(within=regard.causal([1, 2])), "one offset for all"),
        (lambda: regard.cut(heads=1), "heads must be numbers.*Got int"),
        (lambda: regard.cut(heads="a"), "heads must be numbers.*Got str"),
        (lambda: regard.cut(heads=torch.ones(3)), "heads must be numbers.*Got torch.float32"),
        (lambda: regard.cut(heads=["a"]), "^a head must be"),
        (lambda: regard.AttentionMatrix(q, q, mask=regard.cut(0, torch.ones(4).bool())), "^the keys of a cut"),
        (lambda: regard.AttentionMatrix(q, q, mask=regard.cut(heads=torch.ones(4).bool())), "^the heads of a cut"),
        (lambda: regard.AttentionMatrix(q, q).where(torch.randn(5, 5)), "adds to the scores"),
        (lambda: regard.AttentionMatrix(q, q).part[0].where(regard.causal()), "whole matrix"),
    ):
        with pytest.raises(regard.InputError, match=said):
            bad()


def test_a_part_whose_rows_no_cut_concerns():
    """Every other row of it, so that it is not cut into runs of rows."""
    x = torch.randn(2, 8, 4, dtype=torch.float64)
    A = regard.AttentionMatrix(x, x, mask=regard.cut(slice(0, 2), slice(0, 3)))
    part = A.part[..., 4::2, :]
    assert torch.allclose(part.received(), A.to_dense()[..., 4::2, :].sum(-2))
