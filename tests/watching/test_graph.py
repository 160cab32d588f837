"""`keep="graph"`: the numbers of a record train the model, with the gradients of the dense computation."""

import warnings

import pytest
import torch
from support.models import Layers, made
from torch import nn

import regard

REAL = torch.tensor([[1] * 9, [1] * 6 + [0] * 3])


def entropy(weights):
    return -(weights * weights.clamp_min(1e-300).log()).sum(-1)


def eager(model, ids, real):
    """The entropies by transformers' eager attention, 0 for padding, as those of a record are."""
    model.set_attn_implementation("eager")
    output = model(ids, attention_mask=real, output_attentions=True)
    return output[0], [entropy(weights) * real[:, None] for weights in output.attentions]


def by_hand(model, x):
    """The same of our layers, written out."""
    found = []
    for layer in model.layers:
        q, k, v = layer.project(x).unflatten(-1, (3, 2, 8)).movedim(-3, 0).transpose(-3, -2).unbind(0)
        weights = (q @ k.mT / 8**0.5).softmax(-1)
        found.append(entropy(weights))
        x = x + (weights @ v).transpose(-3, -2).flatten(-2)
    return x, found


def torch_layers(model, x):
    """The same of torch's layers, which can return their weights."""
    found = []
    for layer in model.layers:
        found.append(entropy(layer.self_attn(x, x, x, average_attn_weights=False)[1]))
        x = layer(x)
    return x, found


def _ids():
    return torch.randint(5, 90, (2, 9)), REAL


def _vectors():
    return (torch.randn(2, 5, 16).double(),)


CASES = {
    "GPT-2": (lambda: made("GPT-2"), _ids, eager),
    "Llama": (lambda: made("Llama"), _ids, eager),
    "BERT": (lambda: made("BERT"), _ids, eager),
    "ours": (Layers, _vectors, by_hand),
    "torch": (lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 16, 0.0, batch_first=True), 2), _vectors, torch_layers),
}  # fmt: skip


def gradients(model, output, entropies):
    """Of a loss with the entropies in it, by each parameter; two sums, so that each is seen apart."""
    loss = output.pow(2).mean() + 0.1 * sum(each.pow(2).sum() for each in entropies)
    found = torch.autograd.grad(loss, list(model.parameters()), allow_unused=True)
    return [torch.zeros(1) if each is None else each for each in found]


@pytest.mark.parametrize("name", CASES)
def test_entropies_train_the_model(name):
    torch.manual_seed(0)
    make, inputs, dense = CASES[name]
    model, given = make().double(), inputs()
    expected = gradients(model, *dense(model, *given))
    with regard.watch(model, keep="graph") as record:
        output = model(*given) if len(given) == 1 else model(given[0], attention_mask=given[1])[0]
    found = gradients(model, output, [entry.entropy() for entry in record.values()])
    atol = 1e-6 if name == "Llama" else 1e-9  # whose eager softmax is of float32
    torch.testing.assert_close(found, expected, atol=atol, rtol=1e-7)
    assert any(each.abs().max() > 1e-3 for each in found)


def test_so_do_all_other_numbers():
    model, (ids, real) = made("Llama").double(), _ids()
    with regard.watch(model, keep="graph") as record:
        model(ids, attention_mask=real)
    dense = [entry.to_dense() for entry in record.values()]
    streamed = {
        "received": (sum(e.received()[1].pow(2).sum() for e in record.values()), sum((d * real[:, None, :, None])[1].sum(-2).pow(2).sum() for d in dense)),
        "weights": (record.weights(sequence=1).pow(2).sum(), (sum(d[1, :, :6, :6].sum(0) for d in dense) / 8).pow(2).sum()),
        "pool": (record.pool(2, 2, sequence=1).pow(2).sum(), (sum(d[1, :, :6, :6].sum(0) for d in dense) / 8).unflatten(1, (2, 3)).unflatten(0, (2, 3)).mean((1, 3)).pow(2).sum()),
    }  # fmt: skip
    parameters = [p for name, p in model.named_parameters() if "q_proj" in name or "k_proj" in name]
    for name, pair in streamed.items():
        ours, theirs = (torch.autograd.grad(each, parameters, retain_graph=True, allow_unused=True) for each in pair)
        torch.testing.assert_close(ours, theirs, atol=1e-7, rtol=1e-5, msg=lambda m, name=name: f"{name}: {m}")
    with regard.watch(model, keep="graph") as record:
        model(ids, attention_mask=real * (torch.arange(9) != 2))
    assert record.looks(1, sequence=1)  # answers in words are numbers all the same
    assert str(record.spans({"all": (0, 3)}))
    assert record.weights(sequence=1).requires_grad  # asked after a question that has no gradient, of the same text


def test_a_checkpointed_model_trains_too_or_says_that_it_cannot():
    torch.manual_seed(0)
    model, (ids, real) = made("Llama").double().train(), _ids()

    def found():
        with regard.watch(model, keep="graph") as record:
            output = model(ids, attention_mask=real)[0]
            return gradients(model, output, [entry.entropy() for entry in record.values()])

    expected = found()
    model.gradient_checkpointing_enable({"use_reentrant": False})
    torch.testing.assert_close(found(), expected)
    model.gradient_checkpointing_enable({"use_reentrant": True})
    model.enable_input_require_grads()
    with pytest.raises(regard.WatchError, match="ran without gradients, though the model was called with them"):
        found()


def test_a_generation_has_no_graph():
    model, ids = made("GPT-2"), torch.randint(5, 90, (1, 4))
    with regard.watch(model, keep="graph") as record:
        model.generate(ids, max_new_tokens=3, do_sample=False)
    assert not record["transformer.h.0.attn"].entropy().requires_grad
    with regard.watch(model, keep="graph"):
        cache = model(ids, use_cache=True).past_key_values
        with pytest.raises(regard.WatchError, match="follows one forward over a whole text"):
            model(ids[:, :1], past_key_values=cache)


@pytest.mark.parametrize(
    ("keep", "ask", "warns"),
    [
        ("matrix", lambda record: record["layers.0"].entropy().mean(), True),
        ("matrix", lambda record: record["layers.0"].matrix.received().mean(), True),
        ("entropy", lambda record: record["layers.0"].entropy().mean(), True),
        ("matrix", lambda record: record.weights(layer=0).mean(), True),
        ("graph", lambda record: record["layers.0"].entropy().mean(), False),
        ("matrix", lambda record: record.looks(1, layer=0)[0].weight, False),
        ("matrix", lambda record: record.check().difference, False),
        ("matrix", lambda record: 0.0, False),
    ],
)
def test_a_loss_with_constants_in_it_warns_once(keep, ask, warns):
    model = Layers()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        with regard.watch(model, keep=keep) as record:
            output = model(torch.randn(1, 5, 16))
        (output.pow(2).mean() + ask(record)).backward()
    assert len([each for each in said if 'keep="graph"' in str(each.message)]) == warns


def test_whoever_only_reads_is_not_warned():
    model = Layers()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with regard.watch(model) as record:
            output = model(torch.randn(1, 5, 16))
        record["layers.0"].entropy().mean()  # no gradient is ever computed
        with regard.watch(model) as record:
            output = model(torch.randn(1, 5, 16))
        with torch.no_grad():
            record["layers.0"].entropy().mean()
        output.mean().backward()
