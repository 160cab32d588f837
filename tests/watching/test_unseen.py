"""Models that mix attention which can be seen with attention which cannot: nothing changes, and nothing is silent."""

import copy
import json
import warnings

import pytest
import torch
import transformers as hf
from models import SIZE, SPECIAL, VISION, made

import regard
from regard.watching import huggingface
from regard.watching.masks import LazyMask, Pattern, looks_causal
from regard.watching.see import Question, describe

TEXT = {**SIZE, **SPECIAL}


def _trocr():
    vision = hf.ViTConfig(**VISION)
    text = hf.TrOCRConfig(
        d_model=32, decoder_layers=2, decoder_attention_heads=4, decoder_ffn_dim=64, vocab_size=99, **SPECIAL
    )
    return hf.VisionEncoderDecoderConfig.from_encoder_decoder_configs(vision, text)


def _pair(encoder, decoder):
    return hf.EncoderDecoderConfig.from_encoder_decoder_configs(encoder, decoder)


PIXELS = {"pixel_values": torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))}
IDS = torch.randint(5, 90, (2, 9), generator=torch.Generator().manual_seed(1))
PADDED = torch.ones(2, 9, dtype=torch.long)
PADDED[1, 6:] = 0
DECODED = {"decoder_input_ids": IDS[:, :7]}
# By name: the model, its inputs, and where the attention lies that cannot be seen.
MIXED = {
    "ViT + TrOCR": (lambda: hf.VisionEncoderDecoderModel(_trocr()), PIXELS | DECODED, "decoder."),
    "GIT": (
        lambda: hf.GitForCausalLM(hf.GitConfig(vision_config=VISION, **TEXT)),
        {"input_ids": IDS, "attention_mask": PADDED, **PIXELS},
        "git.encoder.",
    ),
    "BERT + RemBERT": (
        lambda: hf.EncoderDecoderModel(
            _pair(hf.BertConfig(**TEXT), hf.RemBertConfig(**TEXT, input_embedding_size=16, output_embedding_size=16))
        ),
        {"input_ids": IDS, "attention_mask": PADDED, **DECODED},
        "decoder.",
    ),
    "RoFormer + BERT": (
        lambda: hf.EncoderDecoderModel(_pair(hf.RoFormerConfig(**TEXT), hf.BertConfig(**TEXT))),
        {"input_ids": IDS, "attention_mask": PADDED, **DECODED},
        "encoder.",
    ),
}  # fmt: skip


def _model(name):
    torch.manual_seed(0)
    model = MIXED[name][0]().eval()
    with torch.no_grad():
        for parameter in model.parameters():  # larger weights: otherwise attention would be all but uniform
            parameter.mul_(3) if parameter.dim() > 1 else None
    return model


@pytest.mark.parametrize("name", MIXED)
def test_outputs_are_the_same_and_what_was_not_seen_is_named(name):
    model, (_, inputs, unseen) = _model(name), MIXED[name]
    with torch.no_grad():
        plain = model(**inputs)[0]
        with pytest.warns(regard.UnseenWarning, match="not in the record"), regard.watch(model) as record:
            watched = model(**inputs)[0]
    torch.testing.assert_close(watched, plain, atol=1e-5 * float(plain.abs().max()), rtol=0)
    names = dict(model.named_modules())
    assert record.unseen
    assert len(record) > 0
    assert all(name in names and name.startswith(unseen) for name in record.unseen), record.unseen
    assert not any(name.startswith(unseen) for name in record)


@pytest.mark.parametrize("name", ["ViT + TrOCR", "GIT"])
def test_strict_raises(name):
    model, (_, inputs, unseen) = _model(name), MIXED[name]
    with pytest.raises(regard.WatchError, match=unseen), torch.no_grad(), regard.watch(model, strict=True):
        model(**inputs)


def test_a_model_that_is_seen_as_a_whole_says_nothing():
    model = made("T5")
    ids = torch.randint(5, 90, (1, 6))
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("error")
        with regard.watch(model, strict=True) as record:
            model(input_ids=ids, decoder_input_ids=ids)
    assert record.unseen == ()
    assert "Not seen" not in repr(record)


def test_torchs_own_attention_inside_is_seen():
    """The head of SigLIP is an `nn.MultiheadAttention`: one learned query looks at all patches."""
    torch.manual_seed(0)
    model = hf.SiglipVisionModel(hf.SiglipVisionConfig(**VISION)).eval()
    with torch.no_grad():
        plain = model(**PIXELS).pooler_output
        with regard.watch(model, strict=True) as record:
            torch.testing.assert_close(model(**PIXELS).pooler_output, plain)
    head = next(entry for name, entry in record.items() if name.endswith("head.attention"))
    assert (head.kind, head.shape) == ("cross", (2, 4, 1, 16))


def test_records_answers_and_pictures_say_it(tmp_path):
    model, (_, inputs, _) = _model("ViT + TrOCR"), MIXED["ViT + TrOCR"]
    with pytest.warns(regard.UnseenWarning), torch.no_grad(), regard.watch(model) as record:
        model(**inputs)
    first = record.unseen[0]
    assert f"Not seen: {first}" in repr(record)
    assert record.at(layer=0).unseen == record.passes[0].unseen == record.unseen
    for drawing in ("grid", "map"):
        assert f"Not seen: {first}" in str(record.at(kind="encoder").picture(drawing))
    assert f"Not seen: {first}" in describe(record, Question(kind="encoder"), "x")
    record.save(tmp_path / "record")
    assert regard.Record.open(tmp_path / "record").unseen == record.unseen
    assert json.loads(describe(record, Question(kind="encoder"), "x", as_json=True))["unseen"] == list(record.unseen)


def test_heads_of_an_unseen_module_cannot_be_knocked_out():
    model, (_, inputs, _) = _model("ViT + TrOCR"), MIXED["ViT + TrOCR"]
    name = "decoder.model.decoder.layers.0.self_attn"
    with pytest.raises(regard.WatchError, match="no head was removed"), torch.no_grad():  # noqa: SIM117
        with regard.watch(model, without={name: [0]}):
            model(**inputs)


def test_only_what_routes_is_swapped():
    model = _model("ViT + TrOCR")
    decoder, encoder = model.decoder.config._attn_implementation, model.encoder.config._attn_implementation
    with regard.watch(model):
        assert (model.encoder.config._attn_implementation, encoder) == ("regard", "sdpa")
        assert model.decoder.config._attn_implementation == decoder != "regard"
    assert model.encoder.config._attn_implementation == encoder != "regard"


@pytest.mark.parametrize("original", ["sdpa", "eager"])
def test_code_of_a_model_gets_the_masks_that_it_had(original):
    """Some of it asks for the implementation, and for bools, before it changes a mask."""
    model = made("Llama")
    model.set_attn_implementation(original)
    masks = []

    def note(module, args, kwargs):
        masks.append((kwargs["attention_mask"].dtype, module.self_attn.config._attn_implementation == "sdpa"))

    model.model.layers[0].register_forward_pre_hook(note, with_kwargs=True)
    ids = torch.randint(5, 90, (2, 6))
    with torch.no_grad(), regard.watch(model):
        model(ids)
    assert masks == [(torch.bool, True) if original == "sdpa" else (torch.float32, False)]


def test_an_argument_that_could_change_the_mask_is_refused_unless_known():
    """Sparse models pass the keys that they selected in one: what is not understood must not be left out."""
    module, keys = torch.nn.Identity(), torch.randn(1, 2, 6, 8)
    with pytest.raises(regard.WatchError, match="passes 'row_indices' to its attention function"):
        huggingface._attention(module, keys, keys, keys, row_indices=torch.zeros(1, 6, dtype=torch.long))
    selected = torch.tensor([[[0, 1]] * 6])
    _, weights = huggingface._attention(module, keys, keys, keys, indices=selected, output_attentions=True)
    assert not weights[..., 2:].any()
    torch.testing.assert_close(weights.sum(-1), torch.ones(1, 2, 6))


def test_the_least_float16_of_a_mask_hides_in_any_dtype():
    mask = torch.tensor([[-3.0, torch.finfo(torch.float16).min], [0.0, 0.0]]).half()
    assert huggingface._with_infinities(mask).tolist() == [[-3.0, -torch.inf], [0.0, 0.0]]
    assert looks_causal(mask)


def test_a_lazy_mask_is_additive_and_its_slices_are_lazy(monkeypatch):
    lowest = torch.finfo(torch.bfloat16).min
    mask = LazyMask(Pattern(bands=((None, 0),)), range(3), range(5), 2, torch.bfloat16, torch.device("cpu"))
    want = torch.where(torch.ones(3, 5).tril().bool(), 0.0, lowest).bfloat16().expand(2, 1, 3, 5)
    assert torch.equal(torch.zeros(3, 5) + mask, want.float())
    monkeypatch.setattr(LazyMask, "materialize", lambda self: pytest.fail("numbers were computed"))
    cut = mask[:, :, 1:, :4]
    monkeypatch.undo()
    assert isinstance(cut, LazyMask)
    assert cut.shape == (2, 1, 2, 4)
    assert torch.equal(cut + 0, want[:, :, 1:, :4])
    assert torch.equal(mask[..., ::2] + 0, want[..., ::2])


@pytest.mark.parametrize("name", ["BERT", "ours"])
def test_a_copy_made_while_watching_is_not_watched(name):
    if name == "ours":
        model = regard.Encoder(2, 16, 2, 32).eval()
        inputs = {"x": torch.randn(1, 5, 16)}
    else:
        model, inputs = made(name), {"input_ids": torch.randint(5, 90, (1, 6))}

    def run(network):
        result = network(**inputs)
        return result if isinstance(result, torch.Tensor) else result[0]

    with torch.no_grad():
        expected = run(model)
        with regard.watch(model) as record:
            run(model)
            twin = copy.deepcopy(model)
            torch.testing.assert_close(run(twin), expected)
            assert len(record.passes) == 1
        torch.testing.assert_close(run(twin), expected)
    if name == "BERT":
        assert twin.config._attn_implementation == model.config._attn_implementation == "sdpa"
    with torch.no_grad(), regard.watch(twin) as record:
        run(twin)
    assert len(record) == 2


def test_informer_gets_no_mask_where_there_is_no_padding():
    """Its sparse self-attention fails on a mask of all keys; its cross-attention can be seen."""
    sizes = {"encoder_ffn_dim": 32, "decoder_ffn_dim": 32, "encoder_attention_heads": 4, "decoder_attention_heads": 4}
    config = hf.InformerConfig(
        prediction_length=3, context_length=7, lags_sequence=[1, 2], d_model=32, encoder_layers=2, decoder_layers=2,
        num_time_features=1, **sizes,
    )  # fmt: skip
    model, inputs = hf.InformerModel(config).eval(), {"past_observed_mask": torch.ones(2, 9)}
    for name, length in (("past", 9), ("future", 3)):
        inputs |= {f"{name}_values": torch.randn(2, length), f"{name}_time_features": torch.randn(2, length, 1)}
    with torch.no_grad():
        torch.manual_seed(0)  # it samples keys
        plain = model(**inputs)[0]
        torch.manual_seed(0)
        with pytest.warns(regard.UnseenWarning, match="self_attn"), regard.watch(model) as record:
            watched = model(**inputs)[0]
    torch.testing.assert_close(watched, plain)
    assert {entry.kind for entry in record.values()} == {"cross"}
