"""More than weights: norms of what they bring, gradient × attention, and rollout weighted by values."""

import pytest
import torch
import transformers as hf
from support.models import FAMILIES, WORDS, made
from torch import nn

import regard
from regard import Link

PROJECTIONS = {
    "BERT": "encoder.layer.1.attention.output.dense",
    "GPT-2": "transformer.h.1.attn.c_proj",
    "GPT-NeoX": "gpt_neox.layers.1.attention.dense",
    "Llama": "model.layers.1.self_attn.o_proj",
    "DeepSeek-V3": "model.layers.1.self_attn.o_proj",  # whose values are narrower than its keys
    "GPT-OSS": "model.layers.1.self_attn.o_proj",
    "T5": "encoder.block.1.layer.0.SelfAttention.o",
    "BART": "model.encoder.layers.1.self_attn.out_proj",
}
MODULES = {"BERT": "encoder.layer.1.attention.self"}


def _module(name):
    return MODULES.get(name, PROJECTIONS[name].rpartition(".")[0])


@pytest.mark.parametrize("name", PROJECTIONS)
def test_norms_are_the_lengths_of_what_each_head_brings(name):
    """The projection is found by what goes into it; a head alone goes through it by setting all others to 0."""
    model, inputs = made(name), FAMILIES[name].inputs("right")
    caught = {}
    linear = model.get_submodule(PROJECTIONS[name])
    hook = linear.register_forward_pre_hook(lambda _, args: caught.update(mixed=args[0].detach()))
    with torch.no_grad(), regard.watch(model, tokens=[WORDS, WORDS], keep=("matrix", "value")) as record:
        model(**inputs)
    hook.remove()
    entry = record[_module(name)]
    batch, heads, queries, keys = entry.shape
    value = entry.values.value.repeat_interleave(heads // entry.values.value.shape[1], 1)
    width = value.shape[-1]
    torch.testing.assert_close(
        (entry.matrix @ value).transpose(1, 2).flatten(2),
        caught["mixed"].reshape(batch, queries, -1),
        atol=1e-4,
        rtol=1e-4,
    )
    bias = linear(torch.zeros(1, heads * width))
    with torch.no_grad():
        for head in range(heads):
            alone = torch.zeros(batch, keys, heads, width)
            alone[:, :, head] = value[:, head]
            brought = linear(alone.flatten(2)) - bias
            torch.testing.assert_close(entry.norms()[:, head], brought.norm(dim=-1), atol=1e-4, rtol=1e-3)
    # ‖α f(x)‖ of every pair, and the same as shares of its row.
    products = entry.to_dense() * entry.norms()[:, :, None]
    shares = products / products.sum(-1, keepdim=True)
    found = record.by_norm()[entry.name]
    torch.testing.assert_close(found.to_dense(), shares, atol=1e-5, rtol=1e-3)
    torch.testing.assert_close(found.matrix.received(), shares.sum(-2), atol=1e-4, rtol=1e-3)
    torch.testing.assert_close(found.head(1).to_dense(), shares[:, 1:2], atol=1e-5, rtol=1e-3)
    assert record.by_norm().check().difference < 1e-5
    assert "norms of the projected values" in repr(record.by_norm())


def test_rollout_weighted_by_values():
    model, inputs = made("Llama"), FAMILIES["Llama"].inputs(None)
    with torch.no_grad(), regard.watch(model, tokens=[WORDS, WORDS], keep=("matrix", "value")) as record:
        model(**inputs)
    flow = torch.eye(12)[11]
    for entry in reversed(list(record.values())):
        shares = entry.to_dense()[0] * entry.norms()[0, :, None]
        flow = flow / 2 + flow @ (shares / shares.sum(-1, keepdim=True)).mean(0) / 2
    found = record.by_norm().rollout(11, sinks=True).own
    assert found.of("A") == pytest.approx(float(flow[0]), abs=1e-5)
    assert found.of("dog") == pytest.approx(float(flow[1] + flow[10]), abs=1e-5)
    assert found.of("A") != pytest.approx(record.rollout(11, sinks=True).own.of("A"), abs=1e-3)


def test_our_layers_and_torchs():
    torch.manual_seed(0)
    x = torch.randn(2, 5, 16)
    ours = regard.MultiHeadAttention(16, heads=4, key_heads=2)
    theirs = nn.MultiheadAttention(16, 4, batch_first=True)
    for model, linear, call in (
        (ours, ours.output, lambda: ours(x)),
        (theirs, theirs.out_proj, lambda: theirs(x, x, x)),
    ):
        with torch.no_grad(), regard.watch(model, keep=("matrix", "value")) as record:
            call()
        entry = record[""]
        value = entry.values.value.repeat_interleave(4 // entry.values.value.shape[1], 1)
        brought = torch.einsum("bhkd,hdo->bhko", value, linear.weight.detach().mT.reshape(4, 4, 16))
        torch.testing.assert_close(entry.norms(), brought.norm(dim=-1), atol=1e-5, rtol=1e-4)
    one = regard.SelfAttention(16, 8)
    with torch.no_grad(), regard.watch(one, keep=("matrix", "value")) as record:
        one(x)
    torch.testing.assert_close(record[""].norms()[:, 0], one.value(x).norm(dim=-1).detach(), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("cache", [None, "static"])
def test_values_of_a_generation(cache):
    model, inputs = made("Llama"), FAMILIES["Llama"].inputs(None)
    options = {"cache_implementation": "static", "disable_compile": True} if cache else {}
    with torch.no_grad():
        with regard.watch(model, keep=("matrix", "value")) as record:
            ids = model.generate(**inputs, max_new_tokens=5, min_new_tokens=5, do_sample=False, **options)
        with regard.watch(model, keep=("matrix", "value")) as whole:
            model(ids[:, :-1])
    for name, entry in whole.items():
        torch.testing.assert_close(record[name].norms(), entry.norms(), atol=1e-4, rtol=1e-4)


# Gradient × attention


@pytest.mark.parametrize("name", ["BERT", "Llama", "GPT-OSS"])
def test_gradient_times_attention_is_that_of_eager_attention(name):
    model, inputs = made(name), FAMILIES[name].inputs(None)

    def number(output):
        return (output.logits if "logits" in output else output.last_hidden_state)[0, -1, 3]

    model.set_attn_implementation("eager")
    output = model(**inputs, output_attentions=True)
    slopes = torch.autograd.grad(number(output), output.attentions)
    expected = [(a * g).detach() for a, g in zip(output.attentions, slopes, strict=True)]
    model.set_attn_implementation("sdpa" if name != "GPT-OSS" else "eager")
    with regard.watch(model, tokens=[WORDS, WORDS], keep=("matrix", "value", "gradient")) as record:
        number(model(**inputs)).backward()
    flow = torch.eye(12)[11]
    for entry, dense in zip(reversed(list(record.values())), reversed(expected), strict=True):
        found = entry.attribution
        assert found.shape == dense.shape
        scale = dense.abs().max()
        torch.testing.assert_close(found[...] / scale, dense / scale, atol=1e-4, rtol=1e-3)
        torch.testing.assert_close(found[0, 2, 5:, ::2] / scale, dense[0, 2, 5:, ::2] / scale, atol=1e-4, rtol=1e-3)
        torch.testing.assert_close(found.received() / scale, dense.sum(-2) / scale, atol=1e-3, rtol=1e-3)
        torch.testing.assert_close(found.given() / scale, dense.sum(-1) / scale, atol=1e-3, rtol=1e-3)
        torch.testing.assert_close(entry.head(2).attribution[...] / scale, dense[:, 2:3] / scale, atol=1e-4, rtol=1e-3)
        flow = flow + flow @ dense[0].clamp_min(0).mean(0)
    flow = flow - torch.eye(12)[11]
    shares = flow / flow.sum()
    relevance = record.relevance(11)
    assert relevance.of("ate") == pytest.approx(float(shares[2]), abs=1e-4)
    assert sum(look.weight for look in relevance) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("reentrant", [False, True])
def test_gradients_come_after_the_block_and_through_checkpoints(reentrant):
    model, inputs = made("Llama"), FAMILIES["Llama"].inputs(None)
    keep = ("matrix", "value", "gradient")
    with regard.watch(model, keep=keep) as record:
        output = model(**inputs)
        with pytest.raises(regard.WatchError, match="has no gradient"):
            record["model.layers.0.self_attn"].attribution  # noqa: B018
    output.logits[0, -1, 3].backward()
    plain = record["model.layers.0.self_attn"].attribution.received()
    output = model(**inputs)
    model.train()
    model.gradient_checkpointing_enable({"use_reentrant": reentrant})
    model.enable_input_require_grads()
    with regard.watch(model, keep=keep) as again:
        model(**inputs, use_cache=False).logits[0, -1, 3].backward()
    torch.testing.assert_close(again["model.layers.0.self_attn"].attribution.received(), plain, atol=1e-5, rtol=1e-3)


# What was not kept, and files


def test_values_are_kept_only_when_asked_for(tmp_path):
    model, inputs = made("Llama"), FAMILIES["Llama"].inputs(None)
    with torch.no_grad(), regard.watch(model) as record:
        model(**inputs)
    for ask in (record.by_norm, record["model.layers.0.self_attn"].norms):
        with pytest.raises(regard.WatchError, match=r'keep=\("matrix", "value"\)'):
            ask()
    assert all(entry.values is None for entry in record.values())
    with pytest.raises(regard.InputError, match="keep must be"):
        regard.watch(model, keep=("received", "value"))
    with regard.watch(
        model, tokens=[WORDS, WORDS], keep=("matrix", "value", "gradient"), without=Link("it", "ate"), renormalise=False
    ) as record:
        model(**inputs).logits[0, -1, 3].backward()
    record.save(tmp_path / "record.safetensors")
    again = regard.Record.open(tmp_path / "record.safetensors")
    for name, entry in record.items():
        torch.testing.assert_close(again[name].norms(), entry.norms())
        torch.testing.assert_close(again[name].attribution.received(), entry.attribution.received())
        assert entry.by_norm()[0, :, 6, 2].sum() == 0  # what is zeroed brings nothing
        assert entry.attribution[0, :, 6, 2].abs().sum() == 0


def test_a_projection_that_is_not_known_is_said_so():
    config = hf.Qwen3NextConfig(
        hidden_size=32, num_hidden_layers=1, num_attention_heads=4, num_key_value_heads=2, head_dim=8, intermediate_size=32,
        vocab_size=99, layer_types=["full_attention"], num_experts=2, num_experts_per_tok=1, moe_intermediate_size=16,
        shared_expert_intermediate_size=16,
    )  # fmt: skip
    model = hf.Qwen3NextForCausalLM(config).eval()  # its attention output is multiplied by a gate first
    with torch.no_grad(), regard.watch(model, keep=("matrix", "value")) as record:
        model(torch.arange(6)[None])
    with pytest.raises(regard.WatchError, match="was not recognised"):
        record.by_norm()
