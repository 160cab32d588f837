"""Every family of models: the same outputs and the same weights as eager attention gives, and no N × N mask."""

from pathlib import Path

import pytest
import torch
from models import BLIND, FAMILIES, made

import regard
from regard.watch.lazy_mask import LazyMask

CASES = [(name, side) for name, family in FAMILIES.items() for side in (None, *family.sides)]


def _eager(model, inputs):
    """Outputs and weights as transformers' own eager attention gives them, by kind and layer."""
    before = (
        model.get_attn_implementation()
        if hasattr(model, "get_attn_implementation")
        else model.config._attn_implementation
    )
    model.set_attn_implementation("eager")
    with torch.no_grad():
        output = model(**inputs, output_attentions=True)
    model.set_attn_implementation(before)
    weights = {}
    for kind, field in (
        ("encoder", "encoder_attentions"), ("decoder", "decoder_attentions"), ("cross", "cross_attentions"),
        ("own", "attentions"),
    ):  # fmt: skip
        for layer, dense in enumerate(getattr(output, field, None) or ()):
            weights[kind, layer] = dense
    for kind, part in (("decoder", "text_model_output"), ("encoder", "vision_model_output")):  # CLIP
        for layer, dense in enumerate(getattr(output.get(part), "attentions", None) or ()):
            weights[kind, layer] = dense
    return output, weights


def _first(output):
    for field in ("logits", "last_hidden_state", "logits_per_image"):
        if field in output:
            return output[field]
    raise AssertionError(output.keys())


def _rows(inputs, kind, queries):
    """Which rows are real tokens; padded rows may hold anything."""
    real = inputs.get("attention_mask")
    if real is None or real.shape[1] != queries or kind == "cross":
        return torch.ones(2, queries, dtype=torch.bool)
    return real.bool()


@pytest.mark.parametrize(("name", "side"), CASES)
def test_same_outputs_and_weights_as_eager(name, side, monkeypatch):
    model, inputs = made(name), FAMILIES[name].inputs(side)
    before = [(config, config._attn_implementation) for config in _configs(model)]
    expected, weights = _eager(model, inputs)

    monkeypatch.setattr(LazyMask, "spelt_out", lambda self: pytest.fail("an N × N mask was built"))
    with torch.no_grad(), regard.watch(model) as record:
        output = model(**inputs)
    assert [(config, config._attn_implementation) for config in _configs(model)] == before

    a, b = _first(expected), _first(output)
    if a.dim() == 3 and FAMILIES[name].feeds == "text":
        real = _rows(inputs, "own", a.shape[1])
        a, b = a[real], b[real]
    assert a.abs().max() > 0.1  # else it would be no test
    torch.testing.assert_close(b, a, atol=1e-5 * max(1.0, float(a.abs().max())), rtol=0)

    assert len(record) == len(weights)
    for entry in record.values():
        dense = weights[(entry.kind, entry.layer) if (entry.kind, entry.layer) in weights else ("own", entry.layer)]
        real = _rows(inputs, entry.kind, dense.shape[2])
        seen, want = entry.to_dense().movedim(1, 2)[real], dense[..., : entry.shape[3]].movedim(1, 2)[real]
        torch.testing.assert_close(seen, want, atol=1e-5, rtol=1e-5)
        assert entry.calls == 1


def _configs(model):
    return {id(m.config): m.config for m in model.modules() if hasattr(m, "config")}.values()


@pytest.mark.parametrize("name", ["BERT", "Llama", "T5"])
def test_five_per_cent_of_scale_would_be_seen(name, monkeypatch):
    from regard.watch import call

    original = call.Source.matrix
    monkeypatch.setattr(
        call.Source, "matrix",
        lambda self: original(call.replace(self, scale=1.05 * (self.scale or self.query.shape[-1] ** -0.5))),
    )  # fmt: skip
    with pytest.raises(AssertionError, match="not close"):
        test_same_outputs_and_weights_as_eager(name, None, monkeypatch)


@pytest.mark.parametrize("name", BLIND)
def test_a_model_that_does_not_route_is_refused(name):
    model = made(name)
    before = model.config._attn_implementation
    with pytest.raises(regard.WatchError, match="AttentionInterface"), torch.no_grad(), regard.watch(model):
        model(torch.randint(5, 90, (1, 8)))
    assert model.config._attn_implementation == before


@pytest.mark.parametrize("name", BLIND)
def test_it_is_also_refused_where_the_source_does_not_tell(name, monkeypatch):
    """The calls are counted: a model that nobody knows to be blind is found out when it ran."""
    from regard.watch import huggingface

    monkeypatch.setattr(huggingface, "routes", lambda model: True)
    test_a_model_that_does_not_route_is_refused(name)


def test_the_readme_counts_the_families():
    readme = (Path(__file__).parents[1] / "README.md").read_text()
    assert f"tests hold {len(FAMILIES)} families" in readme
