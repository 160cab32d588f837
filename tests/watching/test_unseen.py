"""Models that mix attention which can be seen with attention which cannot: nothing changes, and nothing is silent."""

import copy
import importlib
import importlib.util
import json
import sys
import types
import warnings

import pytest
import torch
import transformers as hf
from support.models import SIZE, SPECIAL, VISION, Direct, made
from torch import nn
from torch.nn import functional
from torch.nn.attention.flex_attention import flex_attention

import regard
from regard.watching.capture import huggingface
from regard.watching.capture.masks import LazyMask, Pattern, looks_causal
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


def test_a_module_that_the_model_replaces_while_it_runs_is_named():
    """BigBird-Pegasus takes full attention for a text that is shorter than its blocks; `unseen` was empty then."""
    torch.manual_seed(0)
    sizes = {"d_model": 32, "vocab_size": 99, "block_size": 4, "max_position_embeddings": 64, **SPECIAL}
    for part in ("encoder", "decoder"):
        sizes |= {f"{part}_layers": 2, f"{part}_attention_heads": 4, f"{part}_ffn_dim": 64}
    model = hf.BigBirdPegasusModel(hf.BigBirdPegasusConfig(**sizes)).eval()
    replaced = model.encoder.layers[0].self_attn.self
    with torch.no_grad(), pytest.warns(regard.UnseenWarning), regard.watch(model) as record:
        model(input_ids=IDS, **DECODED)
    assert model.encoder.layers[0].self_attn.self is not replaced
    assert record.unseen == tuple(f"encoder.layers.{layer}.self_attn.self" for layer in range(2))


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


def test_torchs_function_of_several_heads_is_seen_where_transformers_calls_it():
    sizes = {"conv_dim": (16, 16), "conv_stride": (4, 2), "conv_kernel": (8, 4), "num_feat_extract_layers": 2}
    more = {"num_conv_pos_embeddings": 4, "num_conv_pos_embedding_groups": 2, "intermediate_size": 32}
    model = hf.WavLMModel(
        hf.WavLMConfig(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, **sizes, **more)
    ).eval()
    sound = torch.randn(1, 200)
    with torch.no_grad():
        plain = model(sound).last_hidden_state
        with regard.watch(model, strict=True) as record:
            assert torch.equal(model(sound).last_hidden_state, plain)
    assert [entry.shape[1] for entry in record.values()] == [4, 4]
    assert record.check().difference < 1e-5


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
        assert not any(part._forward_hooks or part._forward_pre_hooks for part in twin.modules())
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


# Attention by hand: known from what is computed, whatever the module is called

TOKENS = 5
LATER = torch.ones(TOKENS, TOKENS).triu(1).bool()


def _by_exponentials(m, q, k, v):
    weights = (q @ k.mT).sub(1).exp()
    return (weights @ v) / weights.sum(-1, keepdim=True)


def _row_by_row(m, q, k, v):
    scores = torch.full((1, 2, TOKENS, TOKENS), -1e9)
    for n in range(TOKENS):
        scores[:, :, n, : n + 1] = (q[:, :, n : n + 1] @ k[:, :, : n + 1].mT)[:, :, 0]
    return scores.softmax(-1) @ v


def _number_by_number(m, q, k, v):
    rows = [torch.stack([torch.dot(query, key) for key in k[0, 0]]).softmax(0) @ v[0, 0] for query in q[0, 0]]
    return torch.stack(rows)[None, None].expand_as(v)


BY_HAND = {
    "matmul": lambda m, q, k, v: (q @ k.mT / 8**0.5).masked_fill(LATER, -1e9).softmax(-1) @ v,
    "a bias": lambda m, q, k, v: functional.softmax(torch.matmul(q, k.mT) + m.bias, -1) @ v,
    "einsum": lambda m, q, k, v: m.softmax(torch.einsum("bhid,bhjd->bhij", q, k) * m.scale) @ v,
    "bmm": lambda m, q, k, v: torch.bmm(torch.softmax(torch.bmm(q[0], k[0].mT), -1), v[0])[None],
    "baddbmm": lambda m, q, k, v: (torch.baddbmm(m.bias, q[0], k[0].mT).softmax(-1) @ v[0])[None],
    "operators": lambda m, q, k, v: torch.ops.aten.softmax(torch.ops.aten.matmul(q, k.mT), -1) @ v,
    "mixed heads": lambda m, q, k, v: torch.einsum("bhij,hg->bgij", q @ k.mT, m.mix).softmax(-1) @ v,
    "convolved heads": lambda m, q, k, v: m.convolve(q @ k.mT).softmax(-1) @ v,
    "pairs": lambda m, q, k, v: (q[..., :, None, :] * k[..., None, :, :]).sum(-1).softmax(-1) @ v,
    "log-softmax": lambda m, q, k, v: (q @ k.mT).log_softmax(-1).exp() @ v,
    "a mean": lambda m, q, k, v: (w := (q @ k.mT).exp()) / w.mean(-1, keepdim=True) @ v / TOKENS,
    "normalize": lambda m, q, k, v: functional.normalize((q @ k.mT).exp(), p=1, dim=-1) @ v,
    "logsumexp": lambda m, q, k, v: ((s := q @ k.mT) - s.logsumexp(-1, keepdim=True)).exp() @ v,
    "learned queries": lambda m, q, k, v: (m.query(m.table)[:TOKENS, :8] @ k.mT).softmax(-1) @ v,
    "a kernel": lambda m, q, k, v: torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, k, v)[0],
    "flex attention": lambda m, *heads: flex_attention(*(part.detach() for part in heads)),
    "exponentials": _by_exponentials,
    "row by row": _row_by_row,
    "number by number": _number_by_number,
}
# A softmax of something else: a router, a head with tied weights (in bfloat16 too), a mixer, and linear attention.
NO_ATTENTION = {
    "router": lambda m, q, k, v: v * m.route(v).softmax(-1)[..., :1],
    "tied weights": lambda m, q, k, v: (v @ m.embed.T).softmax(-1) @ m.embed,
    "half": lambda m, q, k, v: ((v.bfloat16() @ m.embed.bfloat16().T).softmax(-1) @ m.embed.bfloat16()).float(),
    "cosine": lambda m, q, k, v: (v @ functional.normalize(m.embed, dim=-1).T).softmax(-1) @ m.embed,
    "scaled weights": lambda m, q, k, v: (v @ (m.embed * m.scale * m.scale).T).softmax(-1) @ m.embed,
    "weights by their sum": lambda m, q, k, v: (v @ (m.embed / m.embed.sum(0)).T).softmax(-1) @ m.embed,
    "softmax of weights": lambda m, q, k, v: (v @ m.embed.softmax(-1).T).softmax(-1) @ m.embed,
    "exponentials of weights": lambda m, q, k, v: (v @ (0.5 * m.embed).exp().T).softmax(-1) @ m.embed,
    "mixer": lambda m, q, k, v: (m.bias @ v).softmax(-1),
    "linear attention": lambda m, q, k, v: q.softmax(-1) @ (k.softmax(-2).mT @ v),
    "the log of a product": lambda m, q, k, v: v + (q @ k.mT).log_softmax(-1).mean(),
}  # fmt: skip


class MHSA(nn.Module):
    """Queries, keys and values, and what is done with them."""

    def __init__(self, mixed):
        super().__init__()
        self.mixed, self.softmax, self.convolve = mixed, nn.Softmax(-1), nn.Conv2d(2, 2, 1)
        self.query, self.key, self.value, self.output = (nn.Linear(16, 16) for _ in range(4))
        self.route, self.scale = nn.Linear(8, 4), nn.Parameter(torch.ones(1))
        self.bias, self.mix = nn.Parameter(torch.randn(2, TOKENS, TOKENS)), nn.Parameter(torch.randn(2, 2))
        self.embed, self.table = nn.Parameter(torch.randn(9, 8)), nn.Parameter(torch.randn(9, 16))

    def forward(self, x):
        heads = (part(x).unflatten(-1, (2, 8)).transpose(1, 2) for part in (self.query, self.key, self.value))
        return x + self.output(self.mixed(self, *heads).transpose(1, 2).flatten(2))


class Routed(nn.Module):
    """A mixture of experts, without experts."""

    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(16, 4)

    def forward(self, x):
        return x * self.gate(x).softmax(-1)[..., :1]


@pytest.mark.filterwarnings("ignore:flex_attention called without")
@pytest.mark.parametrize("name", [*BY_HAND, *NO_ATTENTION])
@pytest.mark.parametrize("grad", [False, True])
def test_attention_by_hand_is_known_from_what_is_computed(name, grad):
    torch.manual_seed(0)
    mixed = (BY_HAND | NO_ATTENTION)[name]
    model, x = nn.Sequential(nn.Sequential(MHSA(mixed), Routed()), Direct()), torch.randn(1, TOKENS, 16)
    with torch.set_grad_enabled(grad), warnings.catch_warnings():
        warnings.simplefilter("ignore", regard.UnseenWarning)
        plain = model(x)
        with regard.watch(model) as record:
            assert torch.equal(model(x), plain)
    assert record.unseen == (("0.0",) if name in BY_HAND else ())
    assert list(record) == ["1"]
    assert torch._C._len_torch_function_stack() == 0


SMALL = {"image_size": 32, "patch_size": 8, "num_classes": 5, "dim": 32, "depth": 2, "heads": 2, "mlp_dim": 32}


def _decoder(**options):
    from x_transformers import Decoder, TransformerWrapper

    layers = Decoder(dim=32, depth=2, heads=2, attn_dim_head=16, **options)
    return TransformerWrapper(num_tokens=50, max_seq_len=32, attn_layers=layers), torch.arange(9)[None]


def _vision(monkeypatch, module, kind, **options):
    """A model of vit-pytorch, whose other files need torchvision: they are not imported."""
    package = types.ModuleType("vit_pytorch")
    package.__path__ = importlib.util.find_spec("vit_pytorch").submodule_search_locations
    monkeypatch.setitem(sys.modules, "vit_pytorch", package)
    build = getattr(importlib.import_module(f"vit_pytorch.{module}"), kind)
    return build(**SMALL | options), torch.randn(1, 3, 32, 32)


# What their modules named `attend` compute: by torch's function, or by hand.
LIBRARIES = {
    "x-transformers": (lambda _: _decoder(attn_flash=True), ["attn_layers.layers.0.1.attend", "attn_layers.layers.2.1.attend"], True),
    "x-transformers, eager": (lambda _: _decoder(), ["attn_layers.layers.0.1.attend", "attn_layers.layers.2.1.attend"], False),
    "x-transformers, heads mixed": (lambda _: _decoder(attn_pre_talking_heads=True), ["attn_layers.layers.0.1.attend", "attn_layers.layers.2.1.attend"], False),
    "vit-pytorch": (lambda m: _vision(m, "vit", "ViT"), ["transformer.layers.0.0", "transformer.layers.1.0"], False),
    "vit-pytorch, flash": (lambda m: _vision(m, "simple_flash_attn_vit", "SimpleViT"), ["transformer.layers.0.0.attend", "transformer.layers.1.0.attend"], True),
    "vit-pytorch, CaiT": (lambda m: _vision(m, "cait", "CaiT", cls_depth=1), [f"{name}.fn" for name in ("patch_transformer.layers.0.0", "patch_transformer.layers.1.0", "cls_transformer.layers.0.0")], False),
}  # fmt: skip


@pytest.mark.parametrize("name", LIBRARIES)
def test_models_of_other_libraries_are_recorded_or_named(name, monkeypatch):
    make, names, recorded = LIBRARIES[name]
    model, inputs = make(monkeypatch)
    model.eval()
    with torch.no_grad():
        plain = model(inputs)
        if recorded:
            with regard.watch(model, strict=True) as record:
                assert torch.equal(model(inputs), plain)
            assert list(record) == names
        else:
            with pytest.raises(regard.WatchError, match="was computed by"), regard.watch(model) as record:
                assert torch.equal(model(inputs), plain)
            assert (list(record.unseen), len(record)) == (names, 0)
