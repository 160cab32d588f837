"""Modules of one's own that call torch's attention function, and torch's modules with a padded batch."""

import warnings

import pytest
import torch
from support.models import Direct
from torch import nn
from torch.nn import functional
from torch.nn.functional import scaled_dot_product_attention

import regard

WORDS = ["A", "dog", "ate", "the", "food", "because", "it"]
TOKENS, WIDTH, HEADS = 7, 16, 4
CLOSE = {"atol": 1e-10, "rtol": 1e-8}
ORIGINAL = functional.scaled_dot_product_attention


def _random(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


class Own(nn.Module):
    """A small GPT in plain torch; `mix` is no attention by its name."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(99, 16, dtype=torch.float64)
        self.blocks = nn.ModuleList(nn.ModuleDict({"mix": Direct()}) for _ in range(2))

    def forward(self, ids):
        x = self.embed(ids)
        for block in self.blocks:
            x = x + block["mix"](x)
        return x


def test_a_model_that_calls_torchs_function():
    model, ids = Own(), torch.arange(7)[None]
    plain = model(ids)
    with regard.watch(model, tokens=WORDS, strict=True) as record:
        assert torch.equal(model(ids), plain)
        assert torch.equal(model(ids), plain)
    assert list(record) == ["blocks.0.mix", "blocks.1.mix"]
    assert len(record.passes) == 2
    assert {entry.kind for entry in record.values()} == {"decoder"}
    x = model.embed(ids).unflatten(-1, (2, 8)).transpose(1, 2)
    scores = (x @ x.mT / 8**0.5).masked_fill(torch.ones(7, 7).triu(1).bool(), -torch.inf)
    torch.testing.assert_close(record["blocks.0.mix"].to_dense(), scores.softmax(-1).detach(), **CLOSE)
    assert functional.scaled_dot_product_attention is ORIGINAL


@pytest.mark.parametrize("keep", ["matrix", "received"])
def test_steps_with_a_cache_become_one_matrix(keep):
    class Cached(nn.Module):
        past = None

        def forward(self, x):
            query = x.unflatten(-1, (2, -1)).transpose(1, 2)
            key = query if self.past is None else torch.cat([self.past, query], 2)
            self.past = key
            return functional.scaled_dot_product_attention(query, key, key, is_causal=x.shape[1] > 1)

    x, model = _random(1, TOKENS, WIDTH), Cached()
    with regard.watch(Direct()) as whole:
        whole.model(x)
    with regard.watch(model, tokens=WORDS, keep=keep) as record:
        for part in (x[:, :4], x[:, 4:5], x[:, 5:6], x[:, 6:]):
            model(part)
    assert (len(record.passes), record[""].shape, record[""].kind) == (1, (1, 2, 7, 7), "decoder")
    torch.testing.assert_close(record[""].received(), whole[""].received(), **CLOSE)


SHAPES = [((7, 8), (5, 8), (7, 5)), ((2, 7, 8), (2, 5, 8), (2, 7, 5)), ((2, 3, 7, 8), (2, 3, 5, 8), (3, 7, 5))]
SHAPES += [((2, 3, 7, 8), (2, 1, 5, 8), (2, 1, 1, 5)), ((1, 3, 7, 8), (2, 3, 5, 8), None)]
SHAPES += [((2, 3, 4, 7, 8), (2, 3, 4, 5, 8), (3, 1, 7, 5)), ((1, 1, 7, 8), (2, 3, 5, 8), (7, 5))]


@pytest.mark.parametrize("shapes", SHAPES)
@pytest.mark.parametrize("options", [{}, {"scale": 0.2}, {"is_causal": True}])
@pytest.mark.parametrize("bools", [False, True])
def test_torchs_function_takes_any_shape(shapes, options, bools):
    class Any(nn.Module):
        def forward(self, *inputs, **options):
            return functional.scaled_dot_product_attention(*inputs, **options)

    query, key, mask = (None if shape is None else _random(*shape, seed=n) for n, shape in enumerate(shapes))
    mask = None if mask is None or "is_causal" in options else mask > -1 if bools else mask
    value = _random(*key.shape[:-1], 3, seed=9)
    model = Any()
    plain = model(query, key, value, mask, **options)
    with regard.watch(model) as record:
        assert torch.equal(model(query, key, value, mask, **options), plain)
    dense = record[""].to_dense()
    weights = model(query, key, torch.eye(5, dtype=torch.float64).expand(*key.shape[:-1], 5), mask, **options)
    torch.testing.assert_close(dense, weights.reshape(dense.shape), **CLOSE)


def test_grouped_heads():
    class Grouped(nn.Module):
        def forward(self, query, key):
            return functional.scaled_dot_product_attention(query, key, key, enable_gqa=True)

    query, key = _random(1, 4, 7, 8), _random(1, 2, 7, 8, seed=2)
    with regard.watch(Grouped()) as record:
        record.model(query, key)
    want = regard.AttentionMatrix(query, key.repeat_interleave(2, 1)).to_dense()
    torch.testing.assert_close(record[""].to_dense(), want, **CLOSE)


def test_what_regard_and_transformers_compute_is_counted_once():
    class Mixed(nn.Module):
        def __init__(self):
            super().__init__()
            self.ours = regard.Encoder(1, WIDTH, HEADS, 32)
            self.torchs = nn.TransformerEncoderLayer(WIDTH, HEADS, 32, batch_first=True)
            self.direct = Direct()

        def forward(self, x):
            return self.direct(self.torchs(self.ours(x)))

    model, x = Mixed().eval(), torch.randn(1, TOKENS, WIDTH)
    with torch.no_grad():
        plain = model(x)
        with regard.watch(model, strict=True) as record:
            torch.testing.assert_close(model(x), plain, atol=1e-5, rtol=1e-5)
    kinds = [type(model.get_submodule(name)).__name__ for name in record]
    assert kinds == ["MultiHeadAttention", "MultiheadAttention", "Direct"]


def test_attention_by_hand_is_named():
    class ByHandAttention(nn.Module):
        def forward(self, x):
            return (x @ x.mT).softmax(-1) @ x

    x = _random(1, TOKENS, WIDTH)
    model = nn.Sequential(ByHandAttention(), Direct())
    with pytest.warns(regard.UnseenWarning, match="0 computed attention"), regard.watch(model) as record:
        model(x)
    assert (record.unseen, list(record)) == (("0",), ["1"])
    with pytest.raises(regard.WatchError, match="has no attention that regard can see"):  # noqa: SIM117
        with regard.watch(model[:1]) as record:
            record.model(x)


# However it is called

MASK = regard.causal()
OTHER = torch.rand(TOKENS, TOKENS, generator=torch.Generator().manual_seed(0)) < 0.7
# How a module computes attention, the mask and the kind that are recorded, and whether all of it is.
CALLS = {
    "imported by name": (lambda q, k, v: scaled_dot_product_attention(q, k, v, is_causal=True), MASK, "decoder"),
    "regard.attention": (regard.attention, None, "encoder"),
    "causal": (lambda q, k, v: regard.attention(q, k, v, mask=MASK), MASK, "decoder"),
    "masked": (lambda q, k, v: regard.attention(q, k, v, mask=OTHER, scale=0.3), OTHER, "encoder"),
    "text by text": (lambda q, k, v: regard.attention(q[0], k[0], v[0], mask=MASK)[None], MASK, "decoder"),
    "a matrix": (lambda q, k, v: regard.AttentionMatrix(q, k, mask=MASK) @ v, MASK, "decoder"),
    "of one text": (lambda q, k, v: (regard.AttentionMatrix(q[0], k[0], mask=OTHER) @ v[0])[None], OTHER, "encoder"),
    "compiled": (torch.compile(lambda q, k, v: regard.attention(q, k, v), backend="eager"), None, "encoder"),
    "a part": (lambda q, k, v: regard.AttentionMatrix(q, k).part[..., :2] @ v[..., :2, :], None, ""),
    "without some": (lambda q, k, v: regard.AttentionMatrix(q, k).where(MASK) @ v, None, ""),
    "weights read": (lambda q, k, v: regard.AttentionMatrix(q, k, mask=MASK).to_dense() @ v, None, ""),
    "one head's rows": (
        lambda q, k, v: torch.einsum("bqk,bkd->bqd", regard.AttentionMatrix(q, k)[:, 0].float().double(), v[:, 0])[
            :, None
        ],
        None,
        "",
    ),
    "several batches": (lambda q, k, v: regard.attention(q[None], k[None], v[None])[0], None, ""),
}


class Calls(nn.Module):
    """`attend` is a method, and its name says nothing: it normalises the queries."""

    def __init__(self, function):
        super().__init__()
        self.function, self.project = function, nn.Linear(WIDTH, 3 * WIDTH, dtype=torch.float64)

    def heads(self, x):
        query, key, value = self.project(x).unflatten(-1, (3, HEADS, -1)).movedim(-3, 0).transpose(-3, -2)
        return functional.normalize(query, dim=-1), key, value

    def attend(self, x):
        return self.function(*self.heads(x))

    def forward(self, x):
        return self.attend(x).transpose(1, 2).flatten(2)


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("grad", [False, True])
def test_a_call_is_seen_however_it_is_made(name, grad):
    function, mask, kind = CALLS[name]
    model, x = nn.Sequential(Calls(function), Direct()), _random(1, TOKENS, WIDTH)
    with torch.set_grad_enabled(grad), warnings.catch_warnings():
        warnings.simplefilter("ignore", regard.UnseenWarning)
        plain = model(x)
        with regard.watch(model) as record:
            assert torch.equal(model(x), plain)
        assert torch.equal(model(x), plain)
    assert (list(record), record.unseen) == ((["0", "1"], ()) if kind else (["1"], ("0",)))
    if kind:
        query, key, _ = model[0].heads(x)
        want = regard.AttentionMatrix(query, key, mask=mask, scale=0.3 if name == "masked" else None)
        torch.testing.assert_close(record["0"].to_dense(), want.to_dense().detach(), **CLOSE)
        assert (record["0"].kind, record.check().difference < 1e-6) == (kind, True)
        assert regard.effect(model, x, without={"0": [0]}).difference > 1e-3


def test_weights_that_are_only_looked_at_are_no_attention_of_their_own():
    def looked_at(query, key, value):
        A = regard.AttentionMatrix(query, key)
        assert bool((A.to_dense() > 0).all())
        return A @ value * A[..., 0].amax()

    with regard.watch(Calls(looked_at), strict=True) as record:
        record.model(_random(1, TOKENS, WIDTH))
    assert (list(record), record.unseen) == ([""], ())


@pytest.mark.parametrize("call", ["regard.attention", "a matrix", "imported by name"])
def test_links_are_cut_in_all_of_them(call):
    model, x = Calls(CALLS[call][0]), _random(1, TOKENS, WIDTH)
    with regard.watch(model, without=regard.Link(5, 2)) as record:
        watched = model(x)
    query, key, value = model.heads(x)
    scores = (query @ key.mT / 2).masked_fill(
        torch.ones(TOKENS, TOKENS).triu(1).bool() & (CALLS[call][1] is MASK), -torch.inf
    )
    scores[..., 5, 2] = -torch.inf
    torch.testing.assert_close(watched, (scores.softmax(-1) @ value).transpose(1, 2).flatten(2), **CLOSE)
    assert record[""].to_dense()[0, 0, 5, 2] == 0


class Renamed(regard.MultiHeadAttention):
    """What FSDP makes of a layer: a class of its own."""

    __module__ = "torch.distributed.fsdp"


@pytest.mark.parametrize("kind", [regard.MultiHeadAttention, Renamed])
@pytest.mark.parametrize("wrap", [lambda m: m, lambda m: torch.compile(m, backend="eager"), nn.Sequential])
def test_our_layers_are_known_by_their_type(kind, wrap):
    layer, x = kind(16, 4), torch.randn(1, 5, 16)
    with regard.watch(wrap(layer), strict=True) as record:
        record.model(x)
        assert layer.attend is not regard.attention
    assert [entry.shape for entry in record.values()] == [(1, 4, 5, 5)]
    layer.attend = lambda query, key, value, **_: (query @ key.mT).softmax(-1) @ value  # not what regard computes
    with pytest.raises(regard.WatchError, match="was computed by"), regard.watch(wrap(layer)) as record:
        record.model(x)
    assert len(record.unseen) == 1


# What a reader asks of a padded batch

PADDED = [["A", "dog", "ate", "it"], ["It", "rains"]]


@pytest.fixture
def padded():
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(16, 2, dim_feedforward=16, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 2).eval()
    hidden = torch.tensor([[False] * 4, [False, False, True, True]])
    with torch.no_grad(), regard.watch(encoder, tokens=PADDED) as record:  # the second list is shorter: it is padded
        encoder(torch.randn(2, 4, 16), src_key_padding_mask=hidden)
    return record


def test_padding_neither_looks_nor_is_looked_at(padded):
    assert {look.word for look in padded.looked_at("rains", sequence=1)} == {"It", "rains"}
    assert {look.word for look in padded.looks("rains", sequence=1)} == {"It", "rains"}
    with pytest.raises(regard.InputError, match=r"tokens are counted from 0 to 1. Got range\(2, 3\)"):
        padded.looked_at(2, sequence=1)
    assert len(padded.looked_at("dog")) == 4


@pytest.mark.parametrize("tokens", [["A", "dog"], [["A", "dog", "ate", "it"]] * 3])
def test_tokens_that_fit_nothing_are_said(tokens):
    attention = nn.MultiheadAttention(16, 2, batch_first=True).eval()
    x = torch.randn(2, 4, 16)
    with torch.no_grad(), regard.watch(attention, tokens=tokens) as record:
        attention(x, x, x)
    with pytest.warns(UserWarning, match=r"but the model read 2 × 4"):
        record.looks(1)


def test_the_decoder_of_nn_transformer_is_one_without_a_mask_too():
    model = nn.Transformer(16, 2, 1, 1, 16, batch_first=True).eval()
    with torch.no_grad(), regard.watch(model) as record:
        model(torch.randn(1, 5, 16), torch.randn(1, 3, 16))
    assert {name: entry.kind for name, entry in record.items()} == {
        "encoder.layers.0.self_attn": "encoder", "decoder.layers.0.self_attn": "decoder",
        "decoder.layers.0.multihead_attn": "cross",
    }  # fmt: skip
