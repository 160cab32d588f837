"""Mixtures of heads, and contacts: equal to the dense sums and to transformers' own, in memory linear in the tokens."""

import json
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
import torch
import transformers

import regard
from regard.matrix import mixture

LENGTH = 40


def _esm(**options):
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 64}
    options = {"position_embedding_type": "rotary", "vocab_size": 33, "token_dropout": True} | options
    config = transformers.EsmConfig(**sizes, pad_token_id=1, mask_token_id=32, max_position_embeddings=4100, **options)
    model = transformers.EsmForMaskedLM(config).eval()
    with torch.no_grad():
        for weights in model.parameters():
            weights.mul_(8 if weights.dim() > 1 else 1)
        model.esm.contact_head.regression.weight.mul_(10)
    return model


def _watched(model, ids, padding, **options):
    words = [[str(token) for token in row] for row in ids.tolist()]
    with torch.no_grad(), regard.watch(model, tokens=words, **options) as record:
        model(input_ids=ids, attention_mask=padding)
    return record


def _proteins():
    ids = torch.randint(4, 24, (2, LENGTH), generator=torch.Generator().manual_seed(1))
    ids[:, 0], ids[0, -1], ids[1, 30], ids[1, 31:] = 0, 2, 2, 1
    return ids, (ids != 1).long()


@pytest.fixture(scope="module")
def esm():
    model, (ids, padding) = _esm(), _proteins()
    record = _watched(model, ids, padding)
    model.set_attn_implementation("eager")
    with torch.no_grad():
        expected = model.predict_contacts(ids, padding)
    return record, expected


@pytest.fixture(scope="module")
def dense(esm):
    """All heads of the first text, in float64."""
    return torch.cat([entry.text(0).to_dense()[0].double() for entry in esm[0].values()])


def _mixed(heads, weights, symmetric, apc):
    """The definition."""
    heads = heads + heads.mT if symmetric else heads
    average = heads.sum(-1, keepdim=True) * heads.sum(-2, keepdim=True) / heads.sum((-1, -2), keepdim=True)
    return torch.einsum("h,hqk->qk", weights.double(), heads - average if apc else heads)


def test_contacts_are_those_of_transformers(esm):
    record, expected = esm
    assert expected.std() > 0.01
    torch.testing.assert_close(record.contacts().to_dense(), expected[0], atol=1e-5, rtol=0)
    padded = record.contacts(sequence=1).to_dense()
    torch.testing.assert_close(padded, expected[1, : len(padded), : len(padded)], atol=1e-5, rtol=0)
    assert len(padded) == 29
    assert record.contacts().words[0] == list(record[next(iter(record))].tokens[0].pieces[1:-1])


def test_a_model_of_dna_is_read_in_the_same_way():
    model = _esm(vocab_size=4107, position_embedding_type="absolute", token_dropout=False, emb_layer_norm_before=False)
    ids = torch.randint(4, 4100, (1, 25))
    record = _watched(model.esm, ids, torch.ones_like(ids))
    model.set_attn_implementation("eager")
    with torch.no_grad():
        expected = model.esm.predict_contacts(ids, torch.ones_like(ids))[0]
    torch.testing.assert_close(record.contacts().to_dense(), expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("apc", [False, True])
@pytest.mark.parametrize("tokens", [None, slice(3, -5)])
def test_every_view_is_that_of_the_dense_sum(esm, dense, symmetric, apc, tokens, monkeypatch):
    monkeypatch.setattr(mixture, "_WEIGHTS", 1000)  # several blocks of rows, of unequal sizes
    weights = torch.linspace(-1, 2, 12).view(3, 4)
    M = esm[0].mix(weights, symmetric=symmetric, apc=apc, tokens=tokens)
    chosen = slice(None) if tokens is None else tokens
    expected = _mixed(dense[:, chosen, chosen], weights.flatten(), symmetric, apc)

    def same(ours, theirs):
        torch.testing.assert_close(ours.double(), theirs, atol=2e-5, rtol=1e-5)

    same(M.to_dense(), expected)
    for index in (
        5,
        (..., 7),
        (slice(2, 20, 3), slice(9)),
        ([4, 1, 4], slice(None)),
        (slice(1, 5), torch.tensor([8, 2])),
        (3, -1),
    ):
        same(M[index], expected[index])
    x = torch.randn(len(expected), 3, dtype=torch.float64)
    same(M @ x, expected @ x)
    same(M.mT @ x, expected.mT @ x)
    same(M.mT.to_dense(), expected.mT)
    part = M.part[4:19:2, 3:]
    same(part.to_dense(), expected[4:19:2, 3:])
    same(part.part[1:3].received(), expected[4:19:2, 3:][1:3].sum(0))
    same(M.received(), expected.sum(0))
    same(M.received("max"), expected.amax(0))
    same(M.received("mean"), expected.mean(0))
    edges = [i * len(expected) // 7 for i in range(8)]
    bins = [[expected[a:b, c:d] for c, d in pairwise(edges)] for a, b in pairwise(edges)]
    same(M.pool(7, 7), torch.tensor([[cell.mean() for cell in row] for row in bins]))
    same(M.pool(7, 7, "max"), torch.tensor([[cell.max() for cell in row] for row in bins]))
    same(M.top(4).weights, expected.topk(4).values)
    same(expected.gather(1, M.top(4).keys), expected.topk(4).values)
    drawn = M.picture(kind="matrix")
    same(torch.from_numpy(drawn.numbers["weights"]), expected.relu())
    assert "below 0" in drawn.caption
    assert list(drawn.words) == M.words[0]
    same(torch.from_numpy(M.picture(kind="map").numbers["pool"]), expected.relu())


def test_by_default_it_is_the_mean_of_the_chosen_heads(esm, dense):
    mean = esm[0].mix()
    torch.testing.assert_close(mean.to_dense().double(), dense.mean(0), atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(mean.entropy().double(), torch.special.entr(dense.mean(0)).sum(-1), atol=1e-5, rtol=1e-5)
    one = esm[0].mix(layer=1, head=2).to_dense().double()
    torch.testing.assert_close(one, dense[6], atol=1e-6, rtol=1e-5)
    assert "of 12 heads" in repr(esm[0].mix())


def test_halves_are_summed_in_float32():
    query, key = torch.randn(2, 1, 2, 50, 8).bfloat16().unbind(0)
    A = regard.AttentionMatrix(query, key)
    M = mixture.Mixture([(A, torch.ones(2))], range(50), range(50))
    assert M.dtype == torch.float32
    torch.testing.assert_close(M.to_dense(), A.to_dense()[0].float().sum(0))


def test_what_does_not_fit_is_refused(esm):
    record = esm[0]
    with pytest.raises(regard.InputError, match=r"3 layers have 12 heads\. Got 5 numbers"):
        record.mix([1, 2, 3, 4, 5])
    with pytest.raises(regard.InputError, match="regression over all heads"):
        regard.Record(record._passes).contacts()
    with pytest.raises(regard.InputError, match="1 layers have 4 heads"):
        record.at(layer=0).contacts()
    ids = _proteins()[0][:1]
    ids[0, 20] = 2  # two chains: transformers leaves out the weights of the middle <eos>
    with pytest.raises(regard.InputError, match=r"single chain\. Got <eos> inside"):
        _watched(_esm(), ids, torch.ones_like(ids)).contacts()
    with pytest.raises(regard.InputError, match="one list of whole numbers"):
        record.mix()[[1, 2], [3, 4]]
    with pytest.raises(regard.InputError, match="logsumexp is about a softmax"):
        _ = record.mix().logsumexp
    with pytest.raises(regard.InputError, match="top"):
        record.mix().top(0)


PROBE = f"""
import json, sys, torch, regard
torch.set_num_threads(1)
sys.path[:0] = [{str(Path(__file__).parents[2] / "benchmarks")!r}, {str(Path(__file__).parent)!r}]
from measure import peak_extra
from test_mixture import _esm, _watched
ids = torch.cat([torch.tensor([0]), torch.randint(4, 24, (4000,)), torch.tensor([2])])[None]
def called(): return _watched(_esm(), ids, torch.ones_like(ids)).contacts()
called().part[:100].pool(8, 8)  # warm up: libraries allocate once
print(json.dumps([peak_extra(called), peak_extra(lambda: called().part[:400].top(5))]))
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="reads Linux's high-water mark")
def test_four_thousand_residues_take_memory_linear_in_their_number():
    done = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    made, best = json.loads(done.stdout.splitlines()[-1])
    assert made < 100  # MB; a single head takes 64 when dense, and transformers stacks all 12
    assert best < 100
