"""The ways in which a model may be built and run: own layers, compiled, quantised, in training, with other masks."""

import pytest
import torch
import transformers as hf
from support.models import FAMILIES, GROUPED, Layer, Layers, made
from torch import nn

import regard

# Our own layers


def test_our_own_layers():
    model, x = Layers(), torch.randn(2, 6, 16)
    before = model(x, regard.causal())
    with regard.watch(model, tokens=[["a", "b", "c", "d", "e", "f"]] * 2) as record:
        inside = model(x, regard.causal())
    torch.testing.assert_close(inside, before, rtol=0, atol=0)
    assert list(record) == ["layers.0", "layers.1", "layers.2"]
    assert all(layer.attend is regard.attention for layer in model.layers)
    assert "attend" in vars(model.layers[0])
    assert record["layers.1"].layer == 1
    assert record.looks("c").of("f") == 0
    assert record.check().difference < 1e-6
    effect = regard.effect(model, x, without={"layers.2": [0]})
    assert effect.difference > 1e-3
    inside.sum().backward()  # watching keeps the graph
    assert model.layers[0].project.weight.grad.abs().sum() > 0
    assert not record["layers.0"].received().requires_grad


def test_our_own_layers_with_a_function_of_the_users():
    model, seen = Layer(), []

    def attend(query, key, value, **options):
        seen.append(query.shape)
        return 2 * regard.attention(query, key, value, **options)

    model.attend = attend
    x = torch.randn(2, 5, 16)
    before = model(x)
    with regard.watch(model) as record:
        torch.testing.assert_close(model(x), before, rtol=0, atol=0)
    assert len(seen) == 2
    assert model.attend is attend
    assert record[""].shape == (2, 2, 5, 5)


def test_our_own_layers_step_by_step():
    """A decoder with a cache: steps join to the matrix of the whole text."""
    q, k, v = torch.randn(3, 2, 2, 7, 8).unbind(0)
    kept = regard.padding(torch.tensor([7, 5]))

    class Cached(nn.Module):
        heads, kind, attend = 2, "decoder", staticmethod(regard.attention)

        def forward(self, start, stop):
            keep = torch.tensor([stop, min(stop, 5)])
            mask = regard.causal(start) & regard.padding(keep)
            return self.attend(q[:, :, start:stop], k[:, :, :stop], v[:, :, :stop], mask=mask)

    with regard.watch(Cached()) as record:
        for start, stop in ((0, 4), (4, 5), (5, 6), (6, 7)):
            record.model(start, stop)
    whole = regard.AttentionMatrix(q, k, mask=regard.causal() & kept)
    assert record[""].calls == 4
    torch.testing.assert_close(record[""].to_dense(), whole.to_dense())


# How a model is run


@pytest.mark.slow
@pytest.mark.parametrize("how", ["wrapped", "in place"])
def test_compiled_models_run_uncompiled_while_watched(how):
    model = made("Llama")
    ids = torch.tensor([[5, 6, 7, 8]])
    with torch.no_grad():
        before = model(ids).logits
        compiled = torch.compile(model, backend="eager") if how == "wrapped" else model
        if how == "in place":
            model.compile(backend="eager")
        compiled(ids)
        with regard.watch(compiled) as record:
            inside = compiled(ids).logits
        after = compiled(ids).logits
    assert list(record) == ["model.layers.0.self_attn", "model.layers.1.self_attn"]
    torch.testing.assert_close(inside, before, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(after, before, atol=1e-5, rtol=1e-5)


@pytest.mark.filterwarnings("ignore")  # torch would like torchao better
def test_quantised_models():
    model = torch.ao.quantization.quantize_dynamic(made("BERT"), {nn.Linear}, dtype=torch.qint8)
    ids = torch.tensor([[5, 6, 7, 8]])
    with torch.no_grad():
        before = model(ids).last_hidden_state
        with regard.watch(model) as record:
            inside = model(ids).last_hidden_state
    torch.testing.assert_close(inside, before, atol=0.1, rtol=0.1)  # rounding may differ
    assert len(record) == 2


def test_a_model_that_moves_to_another_dtype():
    model = made("Llama")
    ids = torch.tensor([[5, 6, 7, 8]])
    with torch.no_grad(), regard.watch(model) as record:
        model(ids)
        model.to(torch.bfloat16)
        model(ids)
        model.to(torch.float64)
        model(ids)
    dtypes = [one["model.layers.0.self_attn"].matrix.dtype for one in record.passes]
    assert dtypes == [torch.float32, torch.bfloat16, torch.float64]


def test_autocast():
    model = made("Llama")
    ids = torch.tensor([[5, 6, 7, 8]])
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        before = model(ids).logits
        with regard.watch(model):
            inside = model(ids).logits
    torch.testing.assert_close(inside, before, atol=0.1, rtol=0.1)


def test_training_with_dropout_and_checkpoints():
    model = made("Llama")
    model.config.attention_dropout = 0.5
    for layer in model.model.layers:
        layer.self_attn.attention_dropout = 0.5
    model.train()
    model.gradient_checkpointing_enable({"use_reentrant": False})
    ids = torch.randint(5, 90, (1, 12))
    torch.manual_seed(0)
    with regard.watch(model) as record:
        loss = model(ids, labels=ids).loss
        loss.backward()
    assert [entry.calls for entry in record.values()] == [1, 1]  # recomputing in the backward pass is no second call
    assert model.model.layers[0].self_attn.q_proj.weight.grad.abs().sum() > 0
    assert not record["model.layers.0.self_attn"].received().requires_grad
    torch.manual_seed(1)
    with regard.watch(model):
        other = model(ids, labels=ids).loss
    assert other.item() != loss.item()  # dropout is at work


@pytest.mark.parametrize("keep", ["matrix", "summary"])
def test_inference_mode(keep):
    model = made("Llama")
    with torch.inference_mode(), regard.watch(model, keep=keep) as record:
        model(torch.tensor([[5, 6, 7]]))
    assert float(record["model.layers.0.self_attn"].received().sum()) == pytest.approx(12, abs=1e-4)
    if keep == "matrix":
        assert record.check().difference < 1e-6


def test_output_attentions_inside_the_block():
    model = made("Llama")
    ids = torch.tensor([[5, 6, 7, 8]])
    with torch.no_grad(), regard.watch(model) as record:
        weights = model(ids, output_attentions=True).attentions
    for entry, dense in zip(record.values(), weights, strict=True):
        torch.testing.assert_close(dense, entry.to_dense())


# Masks


def test_a_mask_of_the_users():
    model = made("Llama")
    ids = torch.randint(5, 90, (1, 6))
    dense = torch.rand(1, 1, 6, 6) < 0.6
    dense |= torch.eye(6, dtype=torch.bool)
    with torch.no_grad():
        before = model(ids, attention_mask=dense).logits
        with regard.watch(model) as record:
            inside = model(ids, attention_mask=dense).logits
    torch.testing.assert_close(inside, before, atol=1e-5, rtol=1e-5)
    assert torch.equal(record["model.layers.0.self_attn"].to_dense() > 0, dense.expand(1, 4, 6, 6))


@pytest.mark.parametrize("name", ["Llama", "Mistral", "Llama 4"])
def test_packed_sequences_stay_a_pattern(name):
    """With a window or chunks too, which are counted from the beginning of each packed sequence."""
    if name == "Llama 4":
        config = hf.Llama4TextConfig(
            **GROUPED, head_dim=16, intermediate_size_mlp=64, num_local_experts=2, attention_chunk_size=3,
            layer_types=["chunked_attention", "full_attention"],
        )  # fmt: skip
        model = hf.Llama4ForCausalLM(config).eval()
    else:
        model = made(name)
    ids = torch.randint(5, 90, (1, 11))
    places = torch.tensor([[0, 1, 2, 3, 0, 1, 2, 3, 4, 5, 6]])
    with torch.no_grad():
        before = model(ids, position_ids=places, use_cache=False).logits
        with regard.watch(model) as record:
            inside = model(ids, position_ids=places, use_cache=False).logits
    torch.testing.assert_close(inside, before, atol=1e-5, rtol=1e-5)
    for entry in record.values():
        assert "documents" in repr(entry.matrix)
        assert "visible" not in repr(entry.matrix)  # no queries × keys numbers
    assert record.looks(5).of("3") == 0


# Heads knocked out


@pytest.mark.parametrize("name", ["BERT", "GPT-2", "Llama", "BART"])
def test_knocking_out_a_head_is_zeroing_its_output(name):
    model, inputs = made(name), FAMILIES[name].inputs(None)
    with torch.no_grad(), regard.watch(model) as record:
        model(**inputs)
    target = list(record)[-1]
    effect = regard.effect(model, inputs, without={target: [1, 3]})
    projection = {
        "BERT": "encoder.layer.1.attention.output.dense",
        "GPT-2": "transformer.h.1.attn.c_proj",
        "Llama": "model.layers.1.self_attn.o_proj",
        "BART": f"{target}.out_proj",
    }[name]

    def zero(_, args):
        heads = args[0].unflatten(-1, (4, 8)).clone()
        heads[..., [1, 3], :] = 0
        return (heads.flatten(-2), *args[1:])

    hook = model.get_submodule(projection).register_forward_pre_hook(zero)
    with torch.no_grad():
        output = model(**inputs)
    hook.remove()
    want = output.logits if "logits" in output else output.last_hidden_state
    torch.testing.assert_close(effect.after, want, atol=1e-4, rtol=1e-5)
    assert effect.difference > 1e-3
    if name == "GPT-2":
        assert effect.divergence.shape == (2, 12)
        assert effect.divergence.min() > -1e-6
        assert len(effect.moved(k=3)) == 3
    assert "changed by" in str(effect)


def test_heads_to_knock_out_must_exist():
    model = Layers()
    with pytest.raises(regard.InputError, match=r"no module 'layer.1'.*'layers.1'"):
        regard.watch(model, without={"layer.1": [0]})
    with pytest.raises(regard.InputError, match="has 2 heads"), regard.watch(model, without={"layers.1": [2]}):
        model(torch.randn(1, 3, 16))
    with pytest.raises(regard.InputError, match="numbered from 0"):
        regard.watch(model, without={"layers.1": [-1]})
