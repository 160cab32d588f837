"""Bad input gets an error that says what must hold, what came and what to do; odd input works as the conventions say."""

import copy
import pickle
import re
import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import regard
from regard import AttentionMatrix, attention
from regard.matrix.functional import by_torch, torch_supports
from regard.scores.bound_mask import bind
from regard.scores.masks import Mask, as_mask

Q, K, V = torch.randn(2, 8, 5, 16), torch.randn(2, 4, 7, 16), torch.randn(2, 4, 7, 12)

BAD = [
    # what is wrong, the call, the error, words that must be in it
    ("rank 1", lambda: AttentionMatrix(Q[0, 0, 0], K[0, 0, 0]), regard.ShapeError, ["(*batch, heads, queries, width)", "(16,)"]),
    ("ranks differ", lambda: AttentionMatrix(Q, K[0]), regard.ShapeError, ["(2, 8, 5, 16)", "(4, 7, 16)"]),
    ("widths differ", lambda: AttentionMatrix(Q, K[..., :9]), regard.ShapeError, ["16 and 9", "same width"]),
    ("width 0", lambda: AttentionMatrix(Q[..., :0], K[..., :0]), regard.ShapeError, ["at least 1"]),
    ("heads do not divide", lambda: AttentionMatrix(Q, K[:, :3]), regard.ShapeError, ["heads = 8", "key heads = 3", "Axis -3"]),
    ("no key heads", lambda: AttentionMatrix(Q, K[:, :0]), regard.ShapeError, ["key heads = 0"]),
    ("batches differ", lambda: AttentionMatrix(Q, K[:1]), regard.ShapeError, ["(2,)", "(1,)", "expand"]),
    ("dtypes differ", lambda: AttentionMatrix(Q, K.double()), regard.DTypeError, ["float32", "float64", "key.to(query.dtype)"]),
    ("devices differ", lambda: AttentionMatrix(Q, K.to("meta")), regard.DeviceError, ["cpu", "meta", "key.to(query.device)"]),
    ("integers", lambda: AttentionMatrix(Q.long(), K.long()), regard.DTypeError, ["int64", "query.float()"]),
    ("complex", lambda: AttentionMatrix(Q + 0j, K + 0j), regard.DTypeError, ["complex64"]),
    ("no tensor", lambda: AttentionMatrix(Q.numpy(), K), regard.DTypeError, ["ndarray", "torch.as_tensor(query)"]),
    ("scale", lambda: AttentionMatrix(Q, K, scale="big"), regard.DTypeError, ["scale must be a number", "str"]),
    ("scale NaN", lambda: AttentionMatrix(Q, K, scale=float("nan")), regard.InputError, ["finite"]),
    ("softcap 0", lambda: AttentionMatrix(Q, K, softcap=0), regard.InputError, ["above 0", "None"]),
    ("sinks", lambda: AttentionMatrix(Q, K, sinks=torch.zeros(3)), regard.ShapeError, ["(2, 8)", "(3,)", "per head"]),
    ("integer sinks", lambda: AttentionMatrix(Q, K, sinks=torch.zeros(8).long()), regard.DTypeError, ["int64"]),
    ("sinks word", lambda: AttentionMatrix(Q, K, sinks="a"), regard.DTypeError, ["per head", "str"]),
    ("scale tensor", lambda: AttentionMatrix(Q, K, scale=torch.tensor(0.5)), regard.DTypeError, ["number", "scale.item()"]),
    ("sinks elsewhere", lambda: AttentionMatrix(Q, K, sinks=torch.zeros(8, device="meta")), regard.DeviceError, ["meta"]),
    ("mask shape", lambda: AttentionMatrix(Q, K, mask=torch.ones(2, 5, 5).bool()), regard.ShapeError,
     ["(2, 8, 5, 7)", "(2, 5, 5)", "self-attention?"]),
    ("mask rank", lambda: AttentionMatrix(Q, K, mask=torch.zeros(1, 2, 8, 5, 7)), regard.ShapeError, ["(1, 2, 8, 5, 7)"]),
    ("mask of ints", lambda: AttentionMatrix(Q, K, mask=torch.ones(5, 7).long()), regard.DTypeError, ["int64", "mask.bool()"]),
    ("mask of lists", lambda: AttentionMatrix(Q, K, mask=[[True]]), regard.DTypeError, ["list"]),
    ("mask elsewhere", lambda: AttentionMatrix(Q, K, mask=torch.zeros(5, 7, device="meta")), regard.DeviceError, ["meta", "cpu"]),
    ("lengths", lambda: AttentionMatrix(Q, K, mask=regard.padding([1, 2, 3])), regard.ShapeError, ["padding lengths", "(2,)", "(3,)"]),
    ("padding bools", lambda: AttentionMatrix(Q, K, mask=regard.padding(torch.ones(2, 5).bool())), regard.ShapeError, ["(2, 7)", "(2, 5)"]),
    ("padding of 0 and 1", lambda: AttentionMatrix(Q, K, mask=regard.padding(torch.ones(2, 7).long())), regard.ShapeError, ["(2, 7)", "mask.bool()"]),
    ("bools per key", lambda: AttentionMatrix(Q, K, mask=torch.ones(2, 7).bool()), regard.ShapeError, ["Got (2, 7). For True per real token write regard.padding(mask)."]),
    ("padding floats", lambda: regard.padding(torch.ones(2, 5)), regard.DTypeError, ["float32", "regard.bias"]),
    ("documents", lambda: AttentionMatrix(Q, K, mask=regard.documents(torch.zeros(2, 5).long())), regard.ShapeError, ["of the keys", "(2, 7)"]),
    ("documents floats", lambda: regard.documents(torch.zeros(5)), regard.DTypeError, ["whole number per token"]),
    ("offsets", lambda: AttentionMatrix(Q, K, mask=regard.causal([1, 2, 3])), regard.ShapeError, ["offset", "(3,)"]),
    ("offset float", lambda: regard.causal(torch.tensor(1.5)), regard.DTypeError, ["offset"]),
    ("offset None", lambda: regard.causal(None), regard.DTypeError, ["offset", "None"]),
    ("offset word", lambda: regard.causal("a"), regard.DTypeError, ["offset", "str"]),
    ("lengths None", lambda: regard.padding(None), regard.DTypeError, ["lengths", "NoneType"]),
    ("documents None", lambda: regard.documents(None), regard.DTypeError, ["whole number per token", "NoneType"]),
    ("window", lambda: regard.window(1.5), regard.DTypeError, ["left", "1.5"]),
    ("bias bool", lambda: regard.bias(torch.ones(5, 7).bool()), regard.DTypeError, ["bool", "mask=…"]),
    ("value keys", lambda: AttentionMatrix(Q, K) @ V[:, :, :6], regard.ShapeError, ["(2, 4, 7, width)", "(2, 4, 6, 12)"]),
    ("value heads", lambda: AttentionMatrix(Q, K) @ V[:, :3], regard.ShapeError, ["or 8 heads", "(2, 3, 7, 12)"]),
    ("value vector", lambda: AttentionMatrix(Q, K) @ V[0, 0, :, 0], regard.ShapeError, ["value[:, None]"]),
    ("value dtype", lambda: AttentionMatrix(Q, K) @ V.half(), regard.DTypeError, ["float16", "value.to(query.dtype)"]),
    ("x", lambda: AttentionMatrix(Q, K).mT @ V, regard.ShapeError, ["x must", "(2, 8, 5, width)"]),
    ("k too large", lambda: AttentionMatrix(Q, K).top(8), regard.OutOfRangeError, ["keys = 7", "k = 8", "min(k"]),
    ("no keys", lambda: AttentionMatrix(Q, K[..., :0, :]).top(1), regard.OutOfRangeError, ["no keys"]),
    ("k True", lambda: AttentionMatrix(Q, K).top(True), regard.DTypeError, ["k must be a whole number", "True"]),
    ("k 1.5", lambda: AttentionMatrix(Q, K).top(1.5), regard.DTypeError, ["k must be a whole number", "1.5"]),
    ("diagonal", lambda: AttentionMatrix(Q, K).diagonal(1.5), regard.DTypeError, ["offset", "1.5"]),
    ("pool sides", lambda: AttentionMatrix(Q, K).summary(pool=(3,)), regard.InputError, ["(rows, columns)", "(3,)"]),
    ("pool word", lambda: AttentionMatrix(Q, K).summary(pool=1.5), regard.DTypeError, ["rows", "1.5"]),
    ("heads of a part", lambda: AttentionMatrix(Q, K).part[:, 4:] @ V, regard.ShapeError, ["value has 4 heads", "A.part[…, h, :, :]"]),
    ("k 0", lambda: AttentionMatrix(Q, K).top(0), regard.OutOfRangeError, ["1 <= k"]),
    ("reduce", lambda: AttentionMatrix(Q, K).received("median"), regard.InputError, ["'sum'", "'median'"]),
    ("pool reduce", lambda: AttentionMatrix(Q, K).pool(2, 2, "sum"), regard.InputError, ["'mean'", "'sum'"]),
    ("pool bins", lambda: AttentionMatrix(Q, K).pool(0, 2), regard.InputError, ["rows = 0"]),
    ("index", lambda: AttentionMatrix(Q, K)[0, 0, 5], regard.OutOfRangeError, ["index 5", "size 5"]),
    ("index tensor", lambda: AttentionMatrix(Q, K)[..., torch.tensor([9]), :], regard.OutOfRangeError, ["size 5", "9"]),
    ("index pairs", lambda: AttentionMatrix(Q, K)[0, 0, torch.tensor([[9]]), 0], regard.OutOfRangeError, ["(2, 8, 5, 7)"]),
    ("too many", lambda: AttentionMatrix(Q, K)[0, 0, 0, 0, 0], regard.OutOfRangeError, ["4 axes", "Got 5"]),
    ("two ellipses", lambda: AttentionMatrix(Q, K)[..., 0, ...], regard.OutOfRangeError, ["one ellipsis"]),
    ("float index", lambda: AttentionMatrix(Q, K)[1.5], regard.DTypeError, ["whole numbers"]),
    ("word index", lambda: AttentionMatrix(Q, K)["it"], regard.DTypeError, ["str"]),
    ("negative step", lambda: AttentionMatrix(Q, K)[..., ::-1], regard.OutOfRangeError, ["step", "flip"]),
    ("part of a row", lambda: AttentionMatrix(Q, K).part[..., 3, :], regard.InputError, ["i:i+1", "A[…]"]),
    ("part by tensor", lambda: AttentionMatrix(Q, K).part[..., torch.tensor([1]), :], regard.InputError, ["A[…]"]),
    ("value no tensor", lambda: attention(Q, Q, [1.0]), regard.DTypeError, ["value must be a torch tensor. Got list."]),
    ("dropout word", lambda: attention(Q, K, V, dropout="a"), regard.DTypeError, ["dropout must be a number", "str"]),
    ("dropout", lambda: attention(Q, K, V, dropout=1.0), regard.InputError, ["below 1", "1.0"]),
    ("left", lambda: regard.window("a"), regard.DTypeError, ["\nleft (or None for no bound) must be a whole number"]),
    ("right", lambda: regard.window(1, 1.5), regard.DTypeError, ["\nright (or None for no bound) must be a whole number"]),
    ("mask of a plain matrix", lambda: AttentionMatrix(Q[0, 0], K[0, 0], mask=torch.ones(5, 5).bool()), regard.ShapeError,
     ["mask must broadcast to (5, 7), for a matrix (queries, keys) = (5, 7). Got (5, 5). Was it made for"]),
    ("mask of a whole matrix", lambda: AttentionMatrix(Q, K, mask=torch.ones(5, 5).bool()), regard.ShapeError, ["a matrix (*batch, heads, queries, keys) = (2, 8, 5, 7)"]),
    ("padding of 0 and 1 without a batch", lambda: AttentionMatrix(Q[0], K[0], mask=regard.padding(torch.ones(7).long())), regard.ShapeError,
     ["padding lengths must", "Got (7,). For a 0/1 mask write mask.bool()."]),
    ("sparse padding", lambda: regard.padding(torch.ones(7).bool().to_sparse()), regard.InputError, ["\nthe tensor of a mask must"]),
    ("sparse bias", lambda: regard.bias(torch.ones(7).to_sparse()), regard.InputError, ["\nbias must be a dense"]),
    ("softcap word", lambda: AttentionMatrix(Q, K, softcap="a"), regard.DTypeError, ["\nsoftcap must be a number"]),
    ("padding elsewhere", lambda: AttentionMatrix(Q, K, mask=regard.padding(torch.ones(2, 7, device="meta").bool())), regard.DeviceError, ["\npadding lies on meta"]),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "words"), [b[1:] for b in BAD], ids=[b[0] for b in BAD])
def test_bad_input_says_what_to_do(unchecked, call, error, words):
    with pytest.raises(error) as caught:
        call()
    assert isinstance(caught.value, regard.RegardError)
    for word in words:
        assert word in f"\n{caught.value}\n"


@pytest.mark.parametrize(
    ("read", "options"),
    [
        ("query", lambda q, k, t: {}),
        ("key", lambda q, k, t: {}),
        ("mask (0)", lambda q, k, t: {"mask": t}),
        ("mask (0)", lambda q, k, t: {"mask": regard.bias(t) & regard.causal()}),
        ("sinks", lambda q, k, t: {"sinks": t[0, :, 0, 0]}),
    ],
)
def test_a_tensor_changed_in_place_is_noticed(unchecked, read, options):
    q, k, t = Q.clone(), K.clone(), torch.zeros(2, 8, 5, 7)
    A = AttentionMatrix(q, k, **options(q, k, t))
    part = A.part[0]
    A.received()
    {"query": q, "key": k}.get(read, t).add_(1)
    for look in (
        A.received,
        A.entropy,
        lambda: A @ V,
        lambda: A[0],
        lambda: A.logsumexp,
        lambda: A.summary(),
        part.to_dense,
    ):
        with pytest.raises(regard.ModifiedInPlaceError, match="changed in place") as caught:
            look()
        assert caught.value.args[0].startswith(read)


def test_what_is_not_a_tensor_is_copied_so_that_later_changes_do_not_matter(unchecked):
    keep, ids, sinks = np.array([True] * 3 + [False] * 4), np.array([0, 0, 0, 1, 1, 1, 1]), np.zeros(8)
    mask = regard.padding(keep) & regard.documents(np.zeros(5, dtype=int), ids) & regard.causal(np.array([2, 2]))
    A = AttentionMatrix(Q, K, mask=mask, sinks=sinks)
    before = A.received()
    keep[:], ids[:], sinks[:] = True, 0, 9.0
    assert torch.equal(A.received(), before)
    assert torch.equal(AttentionMatrix(Q, K, mask=mask, sinks=[0] * 8).received(), before)


def test_a_mask_from_a_list_follows_the_query_to_its_device():
    away = torch.device("meta")
    mask = regard.documents([0, 1]) & regard.padding([True, False]) & regard.causal([1]) & regard.cut(0, 1, heads=[0])
    bound = bind(mask, (1, 1, 2, 2), away, False)
    assert bound.cuts[0].queries.device == bound.cuts[0].keys.device == away
    assert {t.device for pair in bound.ids for t in (*pair, *bound.kept, bound.bands[0][2])} == {away}


def test_what_was_seen_in_inference_mode_does_not_spoil_a_later_gradient():
    for look in (AttentionMatrix.received, lambda A: A @ V, lambda A: A[..., 1:3]):
        q = Q.clone().requires_grad_()
        A = AttentionMatrix(q, K)
        part = A.part[..., 2:, 1:]
        with torch.inference_mode():
            look(A)
            look(A.part[0, :, 1:] if look is AttentionMatrix.received else A)
        (A.received().square().sum() + (A @ V).sum() + A.diagonal().sum() + part.received().square().sum()).backward()
        assert q.grad.any()


def test_a_mask_that_was_bound_before_has_its_gradient_again():
    numbers = torch.zeros(5, 7, requires_grad=True)
    mask = regard.bias(numbers) & regard.padding([3, 7])
    with torch.no_grad():
        AttentionMatrix(Q, K, mask=mask).received()
    AttentionMatrix(Q, K, mask=mask).received().square().sum().backward()
    assert numbers.grad.any()
    with torch.inference_mode():
        mask = regard.bias(torch.ones(5, 7))
    assert AttentionMatrix(Q, K, mask=mask).received().isfinite().all()


def test_copies_and_pickles_are_matrices_of_their_own():
    q, k = Q.clone(), K.clone()
    q.add_(0)  # a tensor that has a history
    A = AttentionMatrix(q, k, mask=regard.causal() & regard.padding([3, 7]), sinks=torch.zeros(8))
    before = A.received()
    copies = [copy.deepcopy(A), pickle.loads(pickle.dumps(A)), copy.deepcopy(A.part[..., 1:])]
    q.zero_()
    for other in copies[:2]:
        assert torch.equal(other.received(), before)
        assert torch.allclose(other.part[..., :4].received(), before[..., :4])  # other products, other roundings
    assert torch.allclose(copies[2].received(), before[..., 1:])
    with pytest.raises(regard.ModifiedInPlaceError):
        copy.deepcopy(A)


def test_a_part_of_grouped_heads_takes_the_values_of_its_own_heads():
    A = AttentionMatrix(Q, K)  # 8 heads on 4 key heads
    whole = A @ V
    assert torch.allclose(A.part[:, 4:6] @ V[:, 2:3], whole[:, 4:6], atol=1e-6)
    assert torch.allclose(A.part[:, ::2] @ V, whole[:, ::2], atol=1e-6)  # its heads read the key heads one by one
    assert torch.allclose(A.part[1:] @ V[1:], whole[1:], atol=1e-6)
    assert torch.allclose(A.part[:, 5] @ V[:, 2], whole[:, 5], atol=1e-6)
    own = torch.randn(2, 3, 7, 12)
    assert torch.allclose(A.part[:, 5:] @ own, A.to_dense()[:, 5:] @ own, atol=1e-6)


def test_autocast_leaves_exact_numbers_exact():
    A = AttentionMatrix(Q, K, softcap=5.0)
    x = torch.randn(2, 8, 5, 3)
    calls = (A.to_dense, lambda: A.mT @ x, lambda: A.pool(3, 4), lambda: A @ V, lambda: A.scores[..., 1, :], A.entropy)
    calls += (lambda: attention(Q, Q, Q),)
    for call in calls:
        expected = call()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            found = call()
        assert found.dtype == torch.float32
        assert torch.allclose(found, expected, atol=1e-6)


def test_numpy_numbers_are_numbers(unchecked):
    A, two = AttentionMatrix(Q, K, scale=np.float32(0.25), sinks=1), np.int64(2)
    assert A.top(two).keys.shape[-1] == A.pool(two, two).shape[-1] == A.summary(pool=two).pool.shape[-1] == 2
    assert A.diagonal(two).shape[-1] == 5
    assert repr(regard.window(two, two, two)) == "window(2, 2, offset=2)"


@pytest.mark.filterwarnings("ignore:indexing with dtype torch.uint8")
def test_uint8_indices_are_bools_as_in_torch():
    A, dense = AttentionMatrix(Q, K), AttentionMatrix(Q, K).to_dense()
    for index in (torch.tensor([1, 0, 1, 1, 0], dtype=torch.uint8), torch.tensor(1, dtype=torch.uint8)):
        place = (..., index, slice(None)) if index.dim() else index
        assert torch.allclose(A[place], dense[place], atol=1e-6)


def test_another_default_device_does_not_matter():
    with torch.device("meta"):
        A = AttentionMatrix(Q, K, mask=regard.causal() & regard.padding(torch.tensor([3, 7], device="cpu")))
        assert (A @ V).device == A.part[0].to_dense().device == A.attend(V, dropout=0.5).device == Q.device


def test_inference_mode_works_without_version_counters():
    with torch.inference_mode():
        q = torch.randn(2, 5, 8)
        assert torch.allclose(AttentionMatrix(q, q) @ q, attention(q.clone(), q, q))


@pytest.mark.parametrize("shape", [(0, 8, 5, 7), (2, 8, 0, 7), (2, 8, 5, 0), (2, 8, 0, 0)], ids=str)
@pytest.mark.parametrize("mask", [None, regard.causal(), regard.window(1, 1) & regard.causal(3)], ids=str)
@pytest.mark.parametrize("softcap", [None, 3.0])
def test_empty_sequences_work(shape, mask, softcap):
    """Zero-length inputs kill torch's raw CPU kernel."""
    batch, heads, queries, keys = shape
    q, k, v = torch.randn(batch, heads, queries, 4), torch.randn(batch, 2, keys, 4), torch.randn(batch, 2, keys, 6)
    for t in (q, k, v):
        t.requires_grad_()
    A = AttentionMatrix(q, k, mask=mask, softcap=softcap)
    out = A @ v
    assert out.shape == (batch, heads, queries, 6)
    assert not out.any()
    out.sum().backward()
    assert not any(t.grad.any() for t in (q, k, v))
    assert A.to_dense().shape == shape
    assert A.received().shape == (batch, heads, keys)
    assert not A.received("mean").any()
    assert not A.entropy().any()
    assert (A.logsumexp == -torch.inf).all()
    assert A.pool(3, 3).shape == (batch, heads, min(3, queries), min(3, keys))
    assert A.summary(pool=2).received.shape == (batch, heads, keys)
    assert (A.mT @ torch.randn(batch, heads, queries, 3)).shape == (batch, heads, keys, 3)


def test_an_empty_part_works_with_gradients():
    q = Q.clone().requires_grad_()
    A = AttentionMatrix(q, K, mask=torch.ones(8, 5, 7, dtype=torch.bool))
    for index in ((..., slice(0)), (..., slice(0), slice(None)), (slice(None), slice(0)), slice(0)):
        part = A.part[index]
        found = part.to_dense(), part.received(), part.entropy(), part.diagonal()
        assert found[0].shape == A.to_dense()[index].shape
        sum(result.sum() for result in found).backward()
    assert not q.grad.any()


def test_a_fully_masked_row_is_nothing_everywhere():
    mask = torch.ones(5, 7, dtype=torch.bool)
    mask[2] = False
    q, k, v = (t.clone().requires_grad_() for t in (Q, K, V))
    A = AttentionMatrix(q, k, mask=mask)
    for result in (A @ v, A.to_dense(), A.entropy()[..., None], A.top(3).weights):
        assert not result[:, :, 2].any()
        assert not result.isnan().any()
    assert (A.top(3).keys[:, :, 2] == -1).all()
    assert (A.logsumexp[:, :, 2] == -torch.inf).all()
    ((A @ v).sum() + A.entropy().sum() + A.to_dense().square().sum()).backward()
    assert not q.grad[:, :, 2].any()
    assert not any(t.grad.isnan().any() for t in (q, k, v))
    with_sink = AttentionMatrix(q, k, mask=mask, sinks=torch.zeros(8))
    assert torch.allclose(with_sink.logsumexp[:, :, 2], torch.zeros(()))
    assert torch.allclose(with_sink.sink_share[:, :, 2], torch.ones(()))


@pytest.mark.slow
@given(
    batch=st.integers(1, 2), queries=st.integers(1, 9), keys=st.integers(1, 9), different=st.integers(1, 4),
    band=st.sampled_from([None, "causal", "each causal", "window", "each window"]), part=st.booleans(), seed=st.integers(0, 999),
)  # fmt: skip
@settings(max_examples=200)
def test_keys_that_nobody_sees_are_found_without_looking_at_every_point(
    batch, queries, keys, different, band, part, seed
):
    torch.manual_seed(seed)
    ids = [torch.randint(-1, different, (batch, tokens), dtype=torch.int32) for tokens in (queries, keys)]
    mask = regard.documents(*ids) & regard.padding(torch.randint(keys + 1, (batch,)))
    if band is not None:
        offset = torch.randint(-3, 4, (batch,)) if "each" in band else seed % 7 - 3
        mask = mask & (regard.causal(offset) if "causal" in band else regard.window(2, 1, offset=offset))
    A = regard.AttentionMatrix(torch.randn(batch, 1, queries, 4), torch.randn(batch, 1, keys, 4), mask=mask)
    scores = (A.part[..., queries // 2 :, :] if part else A)._core.scores
    seen = scores.mask.tile(scores.rows, scores.columns, scores.query.device).expand(scores.shape).any(2)
    assert torch.equal(scores.unseen.expand(seen.shape), ~seen)


def test_extreme_logits_stay_finite():
    """One key that takes everything; logits of order 10⁴ to 10⁷; all keys alike."""
    for size in (1e2, 1e3, 1e5):
        q = torch.full((1, 1, 3, 4), size)
        k = torch.stack([torch.full((4,), x) for x in (size, -size, 0.0, size / 2)])[None, None]
        A = AttentionMatrix(q, k)
        assert torch.allclose(A.to_dense(), torch.tensor([1.0, 0, 0, 0]))
        assert torch.allclose(A.entropy(), torch.zeros(()))
        assert torch.allclose(A.received(), torch.tensor([3.0, 0, 0, 0]))
        assert torch.isfinite(A @ torch.randn(1, 1, 4, 4)).all()


def test_repr_says_shape_dtype_device_and_mask():
    A = AttentionMatrix(Q, K, mask=regard.causal(2) & regard.padding([3, 7]))
    assert repr(A) == (
        "AttentionMatrix(shape=(2, 8, 5, 7), dtype=float32, device=cpu, mask=causal(offset=2) & padding([3, 7]))"
    )
    assert repr(A.part[0, ..., :3]).endswith("padding([3, 7]) of the whole (2, 8, 5, 7))")
    assert repr(A.mT).endswith(".mT")
    assert repr(A.scores).endswith(".scores")
    assert len(A) == 2
    assert A.mT.shape == (2, 8, 7, 5)
    assert A.mT.dtype == torch.float32
    assert torch.equal(A.mT.to_dense(), A.to_dense().mT)


def test_strided_and_expanded_tensors_work():
    q = torch.randn(2, 5, 16, 8).transpose(2, 3).transpose(1, 2)  # (2, 8, 5, 16), every stride unusual
    k = torch.randn(1, 4, 16, 7).expand(2, 4, 16, 7).mT
    v = torch.randn(7, 12).expand(2, 4, 7, 12)
    assert torch.allclose(attention(q, k, v), attention(q.contiguous(), k.contiguous(), v.contiguous()), atol=1e-6)


@pytest.mark.slow
def test_the_kernel_that_dies_on_empty_input_really_does():
    """The trap that torch_cpu.py keeps away from; if torch fixes it, the guard may go."""
    code = (
        "import torch; q = torch.randn(1, 1, 0, 8); k = torch.randn(1, 1, 0, 8);"
        "torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, k, k)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert done.returncode != 0


# The short way: a call on a CPU that needs nothing but torch's kernel


def _odd(tensor):
    return tensor.mT.contiguous().mT


@pytest.mark.parametrize(
    ("change", "short"),
    [
        (lambda q, k, v: ((q, k, v), {}), True),
        (lambda q, k, v: ((q, k, v), {"mask": Mask(())}), True),
        (lambda q, k, v: ((q, k, v), {"scale": 0.3}), True),
        (lambda q, k, v: ((q, k, v), {"mask": regard.causal(offset=2)}), False),
        (lambda q, k, v: ((q, k[:, :, :5], v[:, :, :5]), {"mask": regard.causal()}), False),
        (lambda q, k, v: ((q, k, v), {"dropout": 0.5}), False),
        (lambda q, k, v: ((q, k, v), {"mask": torch.zeros(5, 7)}), False),
        (lambda q, k, v: ((q, _odd(k), v), {}), False),
        (lambda q, k, v: ((q, k, v[..., :8]), {}), False),
        (lambda q, k, v: ((q, k[:, :2], v[:, :2]), {}), False),
        (lambda q, k, v: ((q, k, v), {"sinks": 1.0}), False),
        (lambda q, k, v: ((q, k, v), {"softcap": 3.0}), False),
        (lambda q, k, v: ((q.requires_grad_(), k, v), {}), False),
        (lambda q, k, v: ((q, k[:, :, :0], v[:, :, :0]), {}), False),
    ],
)
def test_the_short_way_is_taken_where_nothing_else_is_needed(change, short, monkeypatch):
    torch.manual_seed(0)
    arguments, options = change(torch.randn(2, 4, 5, 16), torch.randn(2, 4, 7, 16), torch.randn(2, 4, 7, 16))
    taken = []
    own = torch.nn.functional.scaled_dot_product_attention
    monkeypatch.setattr(
        "regard.matrix.functional.functional.scaled_dot_product_attention",
        lambda *a, **k: taken.append(1) or own(*a, **k),
    )
    output = regard.attention(*arguments, **options)
    query, key, value = arguments
    if "dropout" not in options:
        torch.testing.assert_close(output, regard.AttentionMatrix(query, key, **options) @ value)
    assert bool(taken) == short


PADDED = regard.padding(torch.arange(7) < torch.tensor([[3], [7]]))
# What is changed of a call that torch's kernels compute; whether they compute it still.
CHANGES = {
    "nothing": ({}, True), "causal": ({"mask": regard.causal()}, True), "padding": ({"mask": PADDED}, True), "lengths": ({"mask": regard.padding([3, 7])}, False),
    "scale": ({"scale": 0.3}, True), "a large scale": ({"scale": 1e20, "query": 1e-20}, True), "a whole scale": ({"scale": 2}, True),
    "twice": ({"mask": PADDED & regard.padding(torch.arange(7) > torch.tensor([[1], [4]]))}, True),
    "both": ({"mask": PADDED & regard.causal()}, False), "causal, fewer queries": ({"mask": regard.causal(), "query": slice(5)}, False),
    "an offset": ({"mask": regard.causal(2)}, False), "offsets": ({"mask": regard.causal(torch.tensor([0, 1]))}, False),
    "a window": ({"mask": regard.window(2, 0)}, False), "later keys": ({"mask": regard.window(None, 1)}, False),
    "two bands": ({"mask": regard.causal() & regard.window(None, 2)}, False), "one row of padding": ({"mask": regard.padding(torch.arange(7)[None] < 3)}, False),
    "padding of heads": ({"mask": regard.padding(torch.ones(2, 4, 7).bool())}, False), "bias": ({"mask": torch.zeros(7, 7)}, False),
    "documents": ({"mask": regard.documents(torch.arange(7) // 3)}, False), "softcap": ({"softcap": 3.0}, False),
    "sinks": ({"sinks": 0.0}, False), "all dropped": ({"dropout": 1}, False), "dropout below 0": ({"dropout": -0.1}, False),
    "dropout": ({"dropout": 0.5}, True), "no scale": ({"scale": 0}, False), "turned round": ({"scale": -1.0}, False),
    "a scale too large": ({"scale": 1e30}, False), "a tensor as scale": ({"scale": torch.tensor(1.0)}, False),
    "no queries": ({"query": slice(0)}, False), "fewer queries": ({"query": slice(5)}, True),
    "no keys": ({"key": slice(0), "value": slice(0)}, False), "no heads axis": ({"query": 0, "key": 0, "value": 0}, False),
    "narrow values": ({"value": (..., slice(8))}, False), "fewer key heads": ({"key": (slice(None), [0, 1]), "value": (slice(None), [0, 1])}, False),
    "wide queries": ({"query": (..., [*range(16), 0])}, False), "halves": ({"value": torch.float16}, False), "doubles": ({"query": torch.float64}, False),
    "a key elsewhere": ({"key": "meta"}, False), "a value elsewhere": ({"value": "meta"}, False),
    "whole numbers": (dict.fromkeys(("query", "key", "value"), torch.int64), False),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_torchs_kernels_get_what_they_compute_and_no_more(name):
    """On a GPU and under torch.compile; other calls go through a matrix."""
    torch.manual_seed(0)
    change, supported = CHANGES[name]
    call = dict(zip(("query", "key", "value"), torch.randn(3, 2, 4, 7, 16), strict=True))
    call |= {"mask": None, "scale": None, "softcap": None, "sinks": None, "dropout": 0.0}
    for what, new in change.items():
        if what not in ("query", "key", "value"):
            call[what] = new
        elif isinstance(new, str | torch.dtype):
            call[what] = call[what].to(new)
        elif isinstance(new, float):
            call[what] = call[what] * new
        else:
            call[what] = call[what][:, :, new] if isinstance(new, slice) else call[what][new]
    call["mask"] = as_mask(call["mask"])
    assert torch_supports(**call) == supported
    if supported and not call["dropout"]:
        query, key, value, mask, scale = (call[name] for name in ("query", "key", "value", "mask", "scale"))
        want = AttentionMatrix(query, key, mask=mask, scale=scale).to_dense() @ value
        torch.testing.assert_close(by_torch(query, key, value, mask, scale, 0.0), want)


IN_A_GRAPH = [None, regard.causal(), regard.padding(torch.arange(5) < torch.tensor([[5], [2], [0]]))]


@pytest.mark.parametrize("mask", [None, PADDED])
def test_torchs_kernels_drop_weights(mask):
    torch.manual_seed(0)
    query, key, value = *torch.randn(2, 2, 4, 7, 16), torch.ones(2, 4, 7, 16)
    torch.testing.assert_close(by_torch(query, key, value, as_mask(mask), None, 0.0), value)
    dropped = by_torch(query, key, value, as_mask(mask), None, 0.5)
    assert float(dropped.min()) < 0.5
    assert float(dropped.max()) > 1.5


@pytest.mark.parametrize("mask", IN_A_GRAPH)
def test_attention_in_a_graph_keeps_the_conventions(mask):
    """What runs inside a compiled graph on a GPU, held here to what runs outside of one."""
    tensors = [torch.randn(3, 2, 5, 8, requires_grad=True) for _ in range(3)]
    if mask is not None and "padding" in repr(mask):
        with torch.no_grad():
            tensors[1][1:, :, 4] = torch.nan
            tensors[2][1:, :, 4] = torch.inf
    assert torch_supports(*tensors, as_mask(mask), None, None, None)
    found, expected = by_torch(*tensors, as_mask(mask), None, 0.0), regard.attention(*tensors, mask=mask)
    torch.testing.assert_close(found, expected)
    back = torch.randn_like(found)
    for a, b in zip(*(torch.autograd.grad(out, tensors, back) for out in (found, expected)), strict=True):
        torch.testing.assert_close(a, b)


def test_padding_by_torchs_kernel_has_the_conventions():
    """As under torch.compile: rows that see nothing are 0, and a hidden NaN stays hidden."""
    query, key, value = torch.randn(3, 2, 5, 8), torch.randn(3, 2, 7, 8), torch.randn(3, 2, 7, 8)
    places = torch.arange(7)
    mask = regard.padding(places < torch.tensor([[7], [3], [0]])) & regard.padding(
        places >= torch.tensor([[0], [1], [0]])
    )
    want = regard.AttentionMatrix(query, key, mask=mask, scale=0.3) @ value
    key[1, :, 0], value[1, :, 3:] = torch.nan, torch.nan
    found = by_torch(query, key, value, mask, 0.3, 0.0)
    torch.testing.assert_close(found, want)
    assert not found[2].any()


def test_a_summary_is_data_of_its_own():
    A = AttentionMatrix(Q.double(), K.double())
    before = A.logsumexp.clone()
    A.summary(top=1).logsumexp.zero_()
    assert torch.equal(A.logsumexp, before)
    assert torch.equal(A.summary().logsumexp, before)


def test_a_top_of_many_matrices_shows_the_first():
    top = AttentionMatrix(torch.zeros(2, 3, 2, 8), torch.zeros(2, 3, 2, 8)).top(2)
    first, *rows = repr(top).splitlines()
    assert first == "Top of shape (2, 3, 2, 2); here [0, 0]"
    assert all(re.fullmatch(r"query \d: key \d 50 %, key \d 50 %", row) for row in rows)
    html = top._repr_html_()
    assert f">{first}</caption>" in html
    assert html.count(">key<") == html.count(">weight<") == 2


def test_an_empty_top_leaves_nothing_out():
    A = regard.AttentionMatrix(torch.randn(0, 2, 5, 4), torch.randn(0, 2, 5, 4))
    assert "more" not in str(A.top(2))
