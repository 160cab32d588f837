"""The kernels of the gradients: those of float64's dense form, in Triton's interpreter where there is no GPU."""

import os

import pytest
import torch
from hypothesis import given as for_all
from hypothesis import settings
from hypothesis import strategies as st
from support.attention.cases import Case, cases, moved, there, using
from test_gradients import RESULTS, _dense, _leaves, _pooled
from test_triton import HALVES, MASKS

import regard
from regard.backends import tiles
from regard.backends.chooser import supports
from regard.backends.contract import Attend, Entropy, LogSumExp, Pool, Received, Top, TransposedProduct
from regard.backends.triton import backend, tuning

pytestmark = pytest.mark.gpu

# By name: the result, the same from the dense weights and their logsumexp, and how many weights a number is the mean of
LOOKS = {
    name: (
        lazy,
        lambda D, lse, x, dense=dense: dense(D, None, x),
        lambda shape, n=name: shape[-2] if n == "mean" else 1,
    )
    for name, (lazy, dense) in RESULTS.items()
    if name in ("reverse", "sum", "mean", "entropy")
}
LOOKS["logsumexp"] = (lambda A, v, x: _finite(A.logsumexp), lambda D, lse, x: lse, lambda shape: 1)
for _bins in ((3, 2), (1, 7), (16, 16)):  # smaller than a block, uneven, and nearly one for each token
    LOOKS[f"pool {_bins}"] = (
        lambda A, v, x, bins=_bins: A.pool(*(min(pair) for pair in zip(bins, A.shape[-2:], strict=True))),
        lambda D, lse, x, bins=_bins: _pooled(D, *bins),
        lambda shape, bins=_bins: shape[-2] * shape[-1] / (min(bins[0], shape[-2]) * min(bins[1], shape[-1])),
    )
LIMIT = {torch.float32: 2e-5, torch.float16: 2e-3}  # scores and, in halves, each gradient of one are rounded


def _finite(lse):
    return lse.masked_fill(lse == -torch.inf, 0.0)


def _same(found, exact, limit, unit=1.0):
    """Equal up to the limit, relative to the greatest number there (at least `unit`)."""
    for ours, theirs in zip(found, exact, strict=True):
        theirs = torch.zeros_like(ours, dtype=torch.float64) if theirs is None else theirs
        apart = (ours.double().cpu() - theirs.cpu()).abs().max()
        rounded = 2.0**-25 if ours.dtype == torch.float16 else 0.0  # the least that float16 holds, halved
        assert apart <= limit * max(unit, float(theirs.abs().max())) + rounded, (apart, theirs.abs().max())


def _compare(case, name, part=None, size=1.0, limit=None):
    """Gradients by the kernels, and those of the dense form in float64, with weights that receive numbers of a size."""
    lazy, dense, mean = LOOKS[name]
    generator = torch.Generator().manual_seed(case.seed)
    exact = Case(case.query.double(), case.key.double(), case.value.double(), case.options, case.seed)
    query, key, _, biases, options = _leaves(exact)
    D, lse = _dense(exact, query, key, [bias.detach() for bias in biases], options.get("sinks"))
    D, lse = (D, lse) if part is None else (D[part], lse)
    x = torch.randn(*D.shape[:-1], 5, generator=generator).to(case.dtype)
    wide = x.double().requires_grad_()
    expected = dense(D, lse, wide)
    pull = torch.randn(expected.shape, generator=generator, dtype=torch.float64).to(case.dtype) * size * mean(D.shape)
    inputs = [query, key, wide, *([options["sinks"]] if "sinks" in options else [])]
    theirs = torch.autograd.grad(expected, inputs, pull.double(), allow_unused=True)
    with using("triton", False):
        leaves = [there(tensor).clone().requires_grad_() for tensor in (case.query, case.key, x)]
        given = moved(case.options)
        if "sinks" in given:
            given["sinks"] = given["sinks"].clone().requires_grad_()
            leaves.append(given["sinks"])
        A = regard.AttentionMatrix(*leaves[:2], **given)
        out = lazy(A if part is None else A.part[part], None, leaves[2])
        ours = torch.autograd.grad(out, leaves, there(pull).to(out.dtype), allow_unused=True)
    zeros = [torch.zeros_like(leaf) if grad is None else grad for grad, leaf in zip(ours, leaves, strict=True)]
    _same(zeros, theirs, limit or LIMIT[case.dtype], size)


@pytest.fixture
def no_tiles(monkeypatch):
    def refuse(*args, **options):
        raise AssertionError("the kernels should have done this")

    monkeypatch.setattr(tiles.backend, "backward", refuse)


@pytest.mark.slow
@for_all(case=cases(dtypes=HALVES, least=1, most=40), name=st.sampled_from(sorted(LOOKS)))
@settings(max_examples=int(os.environ.get("REGARD_EXAMPLES", "8")))
def test_gradients_are_those_of_the_dense_form(case, name):
    _compare(case, name)


def _problem(mask, queries=40, keys=50, dtype=torch.float32, **options):
    torch.manual_seed(0)
    query, key = torch.randn(2, 2, queries, 16).to(dtype), torch.randn(2, 1, keys, 16).to(dtype)
    return Case(query, key, key, {"mask": MASKS[mask](queries, keys), **options})


@pytest.mark.usefixtures("no_tiles")
@pytest.mark.parametrize(
    ("mask", "options"),
    [("none", {}), ("causal", {"sinks": torch.randn(2)}), ("window", {"softcap": 2.0}), ("padding", {}),
     ("beyond the end", {}), ("documents", {}), ("bias", {}), ("dense", {"softcap": 2.0, "sinks": torch.randn(2)})],
)  # fmt: skip
def test_every_mask(mask, options):
    first = list(MASKS).index(mask)
    for name in (list(LOOKS) * 2)[first : first + 3]:
        _compare(_problem(mask, 70, 90, torch.float16, **options), name)


@pytest.mark.usefixtures("no_tiles")
@pytest.mark.parametrize("name", LOOKS)
def test_in_float32(name):
    _compare(_problem("window", 17, 19, softcap=2.0, sinks=torch.randn(2)), name)
    _compare(_problem("causal", 32, 32), name)  # full blocks only


@pytest.mark.usefixtures("no_tiles")
@pytest.mark.parametrize("name", [name for name in LOOKS if name != "logsumexp"])
def test_of_a_part(name):
    """The normaliser is then that of more keys, and receives what the softmax would subtract."""
    _compare(_problem("causal", 32, 48, torch.float16, sinks=torch.randn(2)), name, (..., slice(3, 30), slice(5, 48)))


@pytest.mark.usefixtures("no_tiles")
@pytest.mark.parametrize("name", LOOKS)
def test_small_gradients_in_float16(name):
    """Each score receives less than float16 holds, but queries and keys receive 2 ** 8 times as much."""
    torch.manual_seed(0)
    query, key = torch.randn(2, 1, 1, 160, 16).half() * 2**-8
    case = Case(query, key, key, {"scale": 2.0**14})
    _compare(case, name, size=2.0**-20, limit=6e-3)


@pytest.mark.usefixtures("no_tiles")
@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("name", LOOKS)
def test_what_lies_beyond_a_heads_last_token_does_not_matter(name, dtype):
    """The tokens after those of the first head belong to another, whose numbers are NaN."""
    case, found = _problem("causal", 24, 20, dtype), []
    x = torch.randn(2, 2, 24, 5).to(dtype)
    for broken in (False, True):
        tensors = [tensor.clone() for tensor in (case.query, case.key.repeat(1, 2, 1, 1), x)]
        if broken:
            tensors[0][:, 1:], tensors[1][:, 1:], tensors[2][:, 1:] = torch.nan, torch.nan, torch.nan
            tensors[0][1:], tensors[1][1:], tensors[2][1:] = torch.nan, torch.nan, torch.nan
        with using("triton", False):
            leaves = [there(tensor).requires_grad_() for tensor in tensors]
            A = regard.AttentionMatrix(*leaves[:2], mask=case.options["mask"])
            out = LOOKS[name][0](A, None, leaves[2])
            pull = torch.full(out.shape, torch.nan if broken else 0.0)
            pull[0, 0] = torch.randn(out.shape[2:], generator=torch.Generator().manual_seed(1))
            pull = there(pull).to(out.dtype)
            found.append(torch.autograd.grad(out, leaves, pull, allow_unused=True))
    for one, other in zip(*found, strict=True):
        if one is not None:
            assert torch.equal(one[0, 0], other[0, 0])
            assert one[0, 0].any()


@pytest.mark.usefixtures("no_tiles")
@pytest.mark.parametrize("dtype", HALVES)
def test_a_large_gradient_of_the_entropy_stays_finite(dtype):
    with using("triton", False):
        q = there(torch.randn(1, 1, 40, 16).to(dtype)).requires_grad_()
        A = regard.AttentionMatrix(q, q.detach(), mask=regard.window(40, 0))  # causal, which tiles do faster in float32
        (grad,) = torch.autograd.grad(A.entropy(), q, there(torch.full((1, 1, 40), 1e30)))
    assert grad.any()
    assert not grad.isnan().any()  # float16 overflows, whatever computes it


@pytest.mark.usefixtures("no_tiles")
@pytest.mark.parametrize("name", ["reverse", "sum", "pool (3, 2)"])
def test_the_same_bits_every_time(name):
    case, found = _problem("causal", 70, 80, torch.float16), []
    for _ in range(2):
        with using("triton", False):
            leaves = [there(tensor).clone().requires_grad_() for tensor in (case.query, case.key)]
            A = regard.AttentionMatrix(*leaves, mask=case.options["mask"])
            found.append(torch.autograd.grad(LOOKS[name][0](A, None, leaves[0]).square().sum(), leaves))
    assert all(torch.equal(*pair) for pair in zip(*found, strict=True))


@pytest.mark.usefixtures("no_tiles")
@pytest.mark.parametrize(("width", "dtype", "much"), [(80, torch.float16, True), (256, torch.float16, False)])
def test_wide_heads(monkeypatch, width, dtype, much):
    torch.manual_seed(width)
    monkeypatch.setattr(tuning, "_much_shared_memory", lambda device: much)  # not on a smaller GPU
    query, key = torch.randn(1, 2, 40, width).to(dtype), torch.randn(1, 1, 40, width).to(dtype)
    for name in ("reverse", "entropy"):
        _compare(Case(query, key, key, {"mask": regard.causal()}), name)


def test_what_the_kernels_leave_to_the_tiles():
    q, k = torch.randn(2, 1, 2, 40, 16)
    x, wide = torch.randn(1, 2, 40, 8), torch.randn(1, 2, 40, 257)
    with using("triton", False):
        scores = regard.AttentionMatrix(there(q), there(k), mask=there(torch.randn(40, 40)))._core.scores
        known = [Entropy(), LogSumExp(), Received(), Received("mean"), Pool(7, 3), TransposedProduct(there(x))]
        for request in (*known, Attend(there(x))):
            assert supports(backend, scores, request, gradient=True)
            assert not supports(backend, scores, request, gradient=True, biases=True)
        for request in (
            Top(3),
            Received("max"),
            Pool(7, 3, "max"),
            TransposedProduct(there(wide)),
            Attend(there(wide)),
        ):
            assert not supports(backend, scores, request, gradient=True)
