"""The chunked cross-entropy against torch's, and the loss of the model against its logits."""

import copy
from functools import partial

import pytest
import torch
from torch.nn import functional

import regard
from regard.nn import loss

torch.manual_seed(0)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("chunk", [1, 40, 2**26])
def test_values_and_gradients_are_those_of_cross_entropy(monkeypatch, smoothing, chunk):
    monkeypatch.setattr(loss, "_CHUNK", chunk)
    states, weight = (torch.randn(n, 6, dtype=torch.float64, requires_grad=True) for n in (11, 9))
    bias, labels = torch.randn(9, dtype=torch.float64), torch.randint(9, (11,))
    labels[3:5] = 8
    plain = functional.cross_entropy(states @ weight.mT + bias, labels, ignore_index=8, label_smoothing=smoothing)
    expected = torch.autograd.grad(plain * 3, (states, weight))
    ours = loss.token_loss(states, weight, bias, labels, ignore=8, smoothing=smoothing)
    torch.testing.assert_close(ours, plain)
    torch.testing.assert_close(torch.autograd.grad(ours * 3, (states, weight)), expected)


@pytest.mark.usefixtures("unchecked")  # torch.compile cannot see through the checks
def test_a_compiled_training_has_the_same_loss_and_gradients(monkeypatch):
    monkeypatch.setattr(loss, "_CHUNK", 40 * 5)  # several chunks, the last one shorter
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="aot_eager"))  # inductor takes a minute
    loss._fused.cache_clear()
    plain = regard.Transformer(regard.TransformerConfig.tiny(40, dropout=0.0))
    compiled = copy.deepcopy(plain)
    compiled.compile_for_training()
    for shape in ((3, 7), (4, 9)):
        source, target = torch.randint(1, 39, shape), torch.randint(1, 39, shape)
        target[:, 0], target[1, 4:], source[0, 5:] = 39, 39, 39
        found = []
        for model in (plain, compiled):
            model.zero_grad()
            value = model.loss(source, target, 0.1)
            value.backward()
            found.append((value.detach(), [p.grad.clone() for p in model.parameters()]))
        torch.testing.assert_close(found[1], found[0])
    assert all(layer._compiled_call_impl is not None for layer in compiled.encoder.layers)
    assert list(compiled.state_dict()) == list(plain.state_dict())
    loss._fused.cache_clear()


def test_nothing_but_padding_costs_nothing():
    states = torch.randn(3, 6, requires_grad=True)
    ours = loss.token_loss(states, torch.randn(9, 6), torch.zeros(9), torch.full((3,), 8), ignore=8)
    ours.backward()
    assert ours == 0
    assert (states.grad == 0).all()


def test_the_models_loss():
    model = regard.Transformer(regard.TransformerConfig.tiny(40, dropout=0.0))
    source, target = torch.randint(1, 39, (3, 7)), torch.randint(1, 39, (3, 6))
    target[:, 0], target[1, 4:] = 39, 39
    logits = model(source, target[:, :-1]).flatten(0, 1)
    plain = functional.cross_entropy(logits, target[:, 1:].flatten(), ignore_index=39, label_smoothing=0.1)
    torch.testing.assert_close(model.loss(source, target, smoothing=0.1), plain)
