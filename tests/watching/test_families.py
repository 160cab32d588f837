"""Every family of models: the same outputs and the same weights as eager attention gives, and no N × N mask."""

from dataclasses import replace

import pytest
import torch
from support.models import FAMILIES, UNROUTED, made
from transformers import masking_utils

import regard
from regard.watching.capture import huggingface
from regard.watching.capture.calls import AttentionCall
from regard.watching.capture.masks import LazyMask, Pattern, read_mask

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

    monkeypatch.setattr(LazyMask, "materialize", lambda self: pytest.fail("an N × N mask was built"))
    with torch.no_grad(), regard.watch(model) as record:
        output = model(**inputs)
    assert [(config, config._attn_implementation) for config in _configs(model)] == before

    a, b = _first(expected), _first(output)
    if a.dim() == 3 and FAMILIES[name].feeds == "text":
        real = _rows(inputs, "own", a.shape[1])
        a, b = a[real], b[real]
    assert a.abs().max() > 0.1  # otherwise the comparison would show nothing
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
def test_five_per_cent_of_scale_would_be_noticed(name, monkeypatch):
    original = AttentionCall.matrix
    monkeypatch.setattr(
        AttentionCall, "matrix",
        lambda self: original(replace(self, scale=1.05 * (self.scale or self.query.shape[-1] ** -0.5))),
    )  # fmt: skip
    with pytest.raises(AssertionError, match="not close"):
        test_same_outputs_and_weights_as_eager(name, None, monkeypatch)


@pytest.mark.parametrize("name", UNROUTED)
def test_a_model_that_does_not_route_is_refused(name):
    model = made(name)
    before = model.config._attn_implementation
    with pytest.raises(regard.WatchError, match="AttentionInterface"), torch.no_grad(), regard.watch(model):
        model(torch.randint(5, 90, (1, 8)))
    assert model.config._attn_implementation == before


@pytest.mark.parametrize("name", UNROUTED)
def test_it_is_also_refused_where_its_source_does_not_show_it(name, monkeypatch):
    """The calls are counted: a model that calls nothing is refused after it ran."""
    monkeypatch.setattr(huggingface, "routes", lambda model: True)
    test_a_model_that_does_not_route_is_refused(name)


@pytest.mark.parametrize("padded", [None, "left", "right"])
@pytest.mark.parametrize(
    ("q_offset", "q_length", "kv_offset", "kv_length"),
    [(0, 9, 0, 9), (8, 1, 0, 9), (6, 3, 0, 9), (8, 1, 4, 5), (0, 5, 0, 9)],
)
@pytest.mark.parametrize("kind", ["causal", "both ways", "sliding", "sliding both ways", "chunked", "packed"])
def test_patterns_are_what_transformers_makes_of_them(kind, q_offset, q_length, kv_offset, kv_length, padded):
    function = {
        "causal": masking_utils.causal_mask_function,
        "both ways": masking_utils.bidirectional_mask_function,
        "sliding": masking_utils.sliding_window_causal_mask_function(3),
        "sliding both ways": masking_utils.sliding_window_bidirectional_mask_function(2),
        "chunked": masking_utils.chunked_causal_mask_function(4, torch.tensor([0, 2])),
        "packed": masking_utils.and_masks(
            masking_utils.causal_mask_function,
            masking_utils.packed_sequence_mask_function(torch.tensor([[0, 0, 0, 1, 1, 1, 1, 2, 2], [0] * 9])),
        ),
    }[kind]
    mask = None
    if padded:
        mask = torch.ones(2, 9, dtype=torch.bool)
        mask[1, slice(0, 2) if padded == "left" else slice(7, 9)] = False
    options = {
        "batch_size": 2, "q_length": q_length, "kv_length": kv_length, "q_offset": q_offset, "kv_offset": kv_offset,
        "mask_function": function, "attention_mask": mask, "device": "cpu",
    }  # fmt: skip
    ours = huggingface._mask(**options)
    assert isinstance(ours, LazyMask)
    theirs = masking_utils.eager_mask(**options, dtype=ours.dtype)
    assert torch.equal(ours.materialize(), theirs.expand(2, 1, q_length, kv_length))


def test_an_unknown_pattern_becomes_a_dense_mask():
    def diagonal(batch_idx, head_idx, q_idx, kv_idx):
        return q_idx == kv_idx

    for function in (diagonal, masking_utils.or_masks(diagonal, masking_utils.causal_mask_function)):
        ours = huggingface._mask(batch_size=1, q_length=3, kv_length=3, mask_function=function, device="cpu")
        want = torch.eye(3) if function is diagonal else torch.ones(3, 3).tril()
        assert torch.equal(ours.dense[0, 0], want.bool())
        assert torch.equal((ours + 0)[0, 0], torch.where(want.bool(), 0.0, torch.finfo(torch.float32).min))


def test_older_transformers_pass_the_positions_of_the_queries():
    ours = huggingface._mask(batch_size=1, cache_position=torch.tensor([4, 5]), kv_length=6, device="cpu")
    assert torch.equal(ours.materialize()[0, 0] == 0, torch.ones(6, 6).tril()[4:].bool())


def test_an_error_in_the_call_of_the_model_is_raised_unchanged():
    model = made("BERT")
    with pytest.raises(ValueError, match="input_ids"), regard.watch(model):
        model()
    assert model.config._attn_implementation == "sdpa"


def test_a_mask_is_read_for_each_number_of_keys():
    """Layers of a step may share a mask and use more or fewer of its keys."""
    mask = LazyMask(Pattern(bands=((-2, 0),)), range(5, 6), range(8), 1, torch.bool, torch.device("cpu"))
    for _ in range(2):
        for keys in (8, 4):
            read = read_mask(mask, 1, keys, False)
            assert (read.queries, read.keys) == (range(5, 6), range(min(keys, 6)))  # none after the query
            assert str(read.mask) == "window(2, 0, offset=5)"
