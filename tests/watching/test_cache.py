"""What a cache may forget: the rules held to their definitions on dense weights, and to kvpress."""

import sys
from importlib.machinery import ModuleSpec
from types import ModuleType

import pytest
import torch
from support.models import GROUPED, made
from torch.nn import functional
from transformers import LlamaConfig, LlamaForCausalLM

import regard
from regard.watching.questions.cache import RULES, cache_scores, press


def by_definition(weights, by, key_heads, window):
    """The published rules on weights (batch, heads, queries, keys), causal, the queries being the last of the text."""
    batch, heads, queries, keys = weights.shape

    def grouped(values):
        return values.view(batch, key_heads, heads // key_heads, -1).mean(2)

    if by == "h2o":
        return grouped(weights.sum(2))
    if by == "observed":
        seen_by = torch.tensor([min(keys - key, queries) for key in range(keys)])
        return grouped(weights.sum(2) / seen_by)
    if by == "tova":
        scores = weights[:, :, -1].mean(1, keepdim=True).repeat(1, key_heads, 1)
        return torch.cat([scores[..., :-1], scores.max().expand(batch, key_heads, 1) + 1], -1)
    before = grouped(weights[:, :, -window:, :-window].mean(2))
    before = functional.avg_pool1d(before, 5, 1, 2)
    return torch.cat([before, before.max().expand(batch, key_heads, window) + 1], -1)


@pytest.mark.parametrize("by", RULES)
@pytest.mark.parametrize("queries", [50, 20])
def test_rules_equal_their_definitions(by, queries):
    query, key = torch.randn(2, 4, queries, 8).double() * 2, torch.randn(2, 2, 50, 8).double()
    A = regard.AttentionMatrix(query, key, mask=regard.causal(offset=50 - queries))
    expected = by_definition(A.to_dense(), by, 2, 8)
    torch.testing.assert_close(cache_scores(A, by, 2, window=8), expected)


@pytest.mark.parametrize("by", RULES)
def test_they_are_those_of_eager_attention(by):
    model = made("Llama")
    ids = torch.randint(5, 90, (1, 40))
    with torch.no_grad():
        with regard.watch(model) as record:
            model(ids)
        model.set_attn_implementation("eager")
        weights = model(ids, output_attentions=True).attentions
    for entry, dense in zip(record.values(), weights, strict=True):
        scores = cache_scores(entry, by, 2, window=8)
        torch.testing.assert_close(scores, by_definition(dense, by, 2, 8), atol=1e-5, rtol=1e-4)


def test_running_sums_of_a_generation_are_enough():
    model = made("Llama")
    ids = torch.randint(5, 90, (1, 9))
    answers = []
    for keep in ("matrix", "received"):
        with torch.no_grad(), regard.watch(model, keep=keep) as record:
            model.generate(ids, max_new_tokens=12, do_sample=False)
        answers.append(record.forgettable(8, by="h2o"))
    whole, sums = answers
    assert whole.kept[0].shape == (2, 8)  # heads of the cache
    assert sums.kept[0].shape == (4, 8)  # where only sums were kept, each head has its own
    assert all(set(range(16, 20)) <= set(head.tolist()) for kept in whole.kept for head in kept)  # half are the newest
    assert all(0.4 < share <= 1 for share in whole.weights + sums.weights)
    # Each head that chooses its own tokens loses less.
    assert min(b - a for a, b in zip(whole.weights, sums.weights, strict=True)) > -1e-6
    with pytest.raises(regard.errors.WatchError, match="was not kept"):
        record.forgettable(8, by="snapkv")


def test_padding_is_in_no_cache():
    model = made("Llama")
    ids = torch.randint(5, 90, (2, 12))
    real = torch.ones(2, 12, dtype=torch.long)
    real[1, 7:] = 0
    with torch.no_grad():
        with regard.watch(model) as both:
            model(ids, attention_mask=real)
        with regard.watch(model) as alone:
            model(ids[1:, :7])
    for by in RULES:
        one, other = both.forgettable(4, by=by, sequence=1, window=3), alone.forgettable(4, by=by, window=3)
        assert one.tokens == other.tokens == 7
        assert all(torch.equal(a, b) for a, b in zip(one.kept, other.kept, strict=True))
        assert one.weights == pytest.approx(other.weights, abs=1e-5)


def test_it_is_a_table_and_a_picture():
    model = made("Llama")
    with torch.no_grad(), regard.watch(model) as record:
        model(torch.randint(5, 90, (1, 20)))
    found = record.forgettable(1.0)
    assert str(found).splitlines()[0] == "by h2o, 20 of 20 tokens stay; of the observed attention they have:"
    assert str(found).splitlines()[1].split() == ["layer", "0", "100", "%"]
    assert "100 %" in found._repr_html_()
    assert found.picture().numbers
    with pytest.raises(regard.errors.InputError, match="size must be a share"):
        record.forgettable(21)
    with pytest.raises(regard.errors.InputError, match="by must be one of"):
        record.forgettable(4, by="newest")
    encoder = made("BERT")
    with torch.no_grad(), regard.watch(encoder) as record:
        encoder(torch.randint(5, 90, (1, 6)))
    with pytest.raises(regard.errors.InputError, match="belongs to a decoder"):
        record.forgettable(4)


# kvpress is installed without what it asks for: an older transformers, and packages of presses that load statistics.


@pytest.fixture
def kvpress(monkeypatch):
    for name, functions in {
        "cachetools": ("LRUCache", "cached"),
        "datasets": ("load_dataset",),
        "fire": ("Fire",),
    }.items():
        module = ModuleType(name)
        module.__spec__ = ModuleSpec(name, None)  # transformers asks for it
        for function in functions:
            setattr(module, function, lambda *_, **__: lambda decorated: decorated)
        monkeypatch.setitem(sys.modules, name, module)
    from transformers import AttentionInterface
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    # When first imported, kvpress wraps every function of attention, for all models and in a form that some cannot call.
    kept = [
        (mapping, dict(mapping))
        for mapping in (ALL_ATTENTION_FUNCTIONS._local_mapping, AttentionInterface._global_mapping)
    ]
    import kvpress

    yield kvpress
    for mapping, functions in kept:
        mapping.clear()
        mapping.update(functions)


@pytest.mark.parametrize("by", ["observed", "snapkv", "tova"])
def test_a_press_of_kvpress_keeps_what_its_own_keeps(by, kvpress):
    torch.manual_seed(0)
    config = LlamaConfig(**{**GROUPED, "vocab_size": 99})
    model = LlamaForCausalLM(config).eval()
    ids = torch.randint(5, 90, (1, 60))
    own = {
        "observed": lambda: kvpress.ObservedAttentionPress(0.5),
        "snapkv": lambda: kvpress.SnapKVPress(0.5, window_size=8),
        "tova": lambda: kvpress.TOVAPress(0.5),
    }[by]()
    kept = []
    for implementation, one in (("eager", own), ("sdpa", press(by, 0.5, window=8))):
        model.set_attn_implementation(implementation)
        with torch.no_grad(), one(model):
            places = torch.arange(60)  # which transformers hands on, and has itself no longer
            cache = model(ids, use_cache=True, cache_position=places).past_key_values
        kept.append([torch.sort(layer.keys, 2).values for layer in cache.layers])  # in any order
    for theirs, ours in zip(*kept, strict=True):
        assert ours.shape[2] == 30
        torch.testing.assert_close(ours, theirs)
