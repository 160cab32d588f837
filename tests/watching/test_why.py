"""A score or a logit taken apart: the parts are those of plain hooks, and add up to what the model computed."""

import copy
import functools
import math

import pytest
import torch
from transformers import (
    AlbertConfig,
    AlbertModel,
    BertConfig,
    BertModel,
    Gemma2Config,
    Gemma2ForCausalLM,
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    GemmaConfig,
    GemmaForCausalLM,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    MarianConfig,
    MarianMTModel,
    MixtralConfig,
    MixtralForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
    T5Config,
    T5ForConditionalGeneration,
)

import regard
from regard.errors import InputError, WatchError

WORDS = ["A", "dog", "ate", "the", "food", "because", "it", "was", "hungry"]
SIZES = {"vocab_size": 99, "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4}
GROUPED = SIZES | {"num_key_value_heads": 2, "intermediate_size": 48, "head_dim": 8}
MARIAN = {
    "vocab_size": 99, "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "pad_token_id": 0,
    "decoder_start_token_id": 1, "eos_token_id": 2, "max_position_embeddings": 64,
}  # fmt: skip
T5 = {
    "vocab_size": 99,
    "d_model": 32,
    "d_kv": 8,
    "d_ff": 48,
    "num_layers": 2,
    "num_heads": 4,
    "decoder_start_token_id": 1,
}
DECODERS = {
    "gpt2": lambda: GPT2LMHeadModel(
        GPT2Config(vocab_size=99, n_embd=32, n_layer=3, n_head=4, bos_token_id=1, eos_token_id=2)
    ),
    "llama": lambda: LlamaForCausalLM(LlamaConfig(**GROUPED)),
    "qwen2": lambda: Qwen2ForCausalLM(Qwen2Config(**SIZES, num_key_value_heads=2, intermediate_size=48)),
    "qwen3": lambda: Qwen3ForCausalLM(Qwen3Config(**GROUPED)),
    "gemma": lambda: GemmaForCausalLM(GemmaConfig(**GROUPED)),
    "gemma2": lambda: Gemma2ForCausalLM(Gemma2Config(**GROUPED, final_logit_softcapping=None)),
    "gemma3": lambda: Gemma3ForCausalLM(Gemma3TextConfig(**GROUPED)),
}
ENCODERS = {
    "bert": lambda: BertModel(BertConfig(**SIZES, intermediate_size=48)),
    "albert": lambda: AlbertModel(AlbertConfig(**SIZES, intermediate_size=48, embedding_size=16)),
}
BOTH = {
    "t5": lambda: T5ForConditionalGeneration(T5Config(**T5)),
    "t5-gated": lambda: T5ForConditionalGeneration(T5Config(**T5, feed_forward_proj="gated-gelu")),
    "marian": lambda: MarianMTModel(MarianConfig(**MARIAN)),
    "ours": lambda: regard.Transformer(regard.TransformerConfig.tiny(vocabulary=99)),
    "ours, norms first": lambda: regard.Transformer(regard.TransformerConfig.tiny(vocabulary=99, norm_first=True)),
}


def model_of(make):
    """A small model with large random weights, so that no part of a score is small by chance."""
    torch.manual_seed(0)
    model = make()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * (0.2 if parameter.dim() > 1 else 0.1))
    return model.eval()


def texts(*shape, seed=1):
    return torch.randint(5, 99, shape, generator=torch.Generator().manual_seed(seed))


def watched(model, *inputs, **options):
    with torch.no_grad(), regard.watch(model, **options) as record:
        record.output = model(*inputs) if isinstance(model, regard.Transformer) else model(**inputs[0])
    return record


def of_both(model):
    source, target = texts(1, 9), texts(1, 5, seed=2)
    if isinstance(model, regard.Transformer):
        return watched(model, source, target)
    return watched(model, {"input_ids": source, "decoder_input_ids": target})


def close(value, expected, parts):
    assert value == pytest.approx(expected, abs=1e-4 * max(float(parts.abs().sum()), 1e-3))


def check_score(record, name, head, query, key, **options):
    """The parts of one score add up to the score of the record."""
    entry = record[name]
    answer = record.why(query, key, layer=entry.layer, head=head, kind=entry.kind, **options)
    close(answer.score, float(entry.matrix.scaled[0, head, query, key]), answer.parts)
    assert len(set(answer.writers)) == len(answer.writers)
    close(answer.query.sum, answer.score, answer.parts)
    close(answer.key.sum, answer.score, answer.parts)
    return answer


@pytest.mark.parametrize("name", [*DECODERS, *ENCODERS])
def test_a_score_is_the_sum_of_its_parts(name):
    record = watched(model_of((DECODERS | ENCODERS)[name]), {"input_ids": texts(1, 9)}, tokens=WORDS)
    for layer, entry in enumerate(record):
        answer = check_score(record, entry, 1, 8, 3)
        heads = [f"layer {n} head {h}" for n in range(layer) for h in range(4)]
        assert set(heads) <= set(answer.writers)
        assert {f"layer {n} feed-forward" for n in range(layer)} <= set(answer.writers)
        assert ("embedding_hidden_mapping_in" if name == "albert" else "token") in answer.writers
        assert len(answer.writers) <= 5 * layer + 4


@pytest.mark.parametrize("name", BOTH)
def test_a_score_of_an_encoder_and_a_decoder_is_the_sum_of_its_parts(name):
    record = of_both(model_of(BOTH[name]))
    for entry in record:
        answer = check_score(record, entry, 1, 4, 3)
        assert "token" in answer.writers
        assert "token" in answer.key_writers
        assert ("position" in answer.key_writers) == (not name.startswith("t5"))
        if record[entry].kind == "cross":
            assert any(writer.startswith("encoder layer 1 head") for writer in answer.key_writers)
            assert not any(writer.startswith("encoder") for writer in answer.writers)
    assert any("feed-forward" in writer for writer in answer.writers)


def seen_by(model, ids, modules):
    """The inputs and outputs of some modules of a model that nothing watches."""
    inputs, outputs = {}, {}

    def see(name, _, args, output):
        inputs[name], outputs[name] = args[0][0], output[0]

    hooks = [module.register_forward_hook(functools.partial(see, name)) for name, module in modules.items()]
    with torch.no_grad():
        model(ids)
    for hook in hooks:
        hook.remove()
    return inputs, outputs


def test_parts_are_those_of_plain_hooks_in_float64():
    """A Llama: each head's output through its projection, each feed-forward layer's output, through the frozen norm."""
    model, ids = model_of(DECODERS["llama"]).double(), texts(1, 9)
    layers = model.model.layers
    sublayers = {
        (n, part): getattr(layer, part) for n, layer in enumerate(layers) for part in ("mlp", "input_layernorm")
    }
    sublayers |= {(n, "o_proj"): layer.self_attn.o_proj for n, layer in enumerate(layers)}
    inputs, outputs = seen_by(model, ids, sublayers)
    answer = watched(model, {"input_ids": ids}).why(8, 3, layer=2, head=1)
    x, norm = inputs[2, "input_layernorm"], layers[2].input_layernorm
    scale = (x.pow(2).mean(-1, keepdim=True) + norm.variance_epsilon).rsqrt() * norm.weight
    writes = {"token": model.model.embed_tokens(ids)[0]}
    for n in range(2):
        weight = model.model.layers[n].self_attn.o_proj.weight
        for h in range(4):
            writes[f"layer {n} head {h}"] = inputs[n, "o_proj"][:, 8 * h : 8 * h + 8] @ weight[:, 8 * h : 8 * h + 8].mT
        writes[f"layer {n} feed-forward"] = outputs[n, "mlp"]
    assert torch.allclose(sum(writes.values()), x)
    attention = model.model.layers[2].self_attn
    cos, sin = model.model.rotary_emb(x[None], torch.arange(9)[None])
    cos, sin = cos[0].double(), sin[0].double()

    def turned(vector, place):
        first, second = vector.chunk(2)
        return vector * cos[place] + torch.cat([-second, first]) * sin[place]

    for query, key in [
        ("token", "layer 1 head 2"),
        ("layer 1 feed-forward", "token"),
        ("layer 0 head 3", "layer 0 head 0"),
    ]:
        q = turned(attention.q_proj.weight[8:16] @ (writes[query] * scale)[8], 8)
        k = turned(attention.k_proj.weight[0:8] @ (writes[key] * scale)[3], 3)
        part = next(pair.amount for pair in answer if (pair.query, pair.key) == (query, key))
        assert part == pytest.approx(float(q @ k) / math.sqrt(8), abs=1e-6)


def test_norms_that_subtract_the_mean_are_frozen_so():
    """GPT-2 by hand: a head's part goes through x minus its mean, at the scale that the norm had."""
    model, ids = model_of(DECODERS["gpt2"]).double(), texts(1, 9)
    seen, _ = seen_by(model, ids, {"z": model.transformer.h[0].attn.c_proj, "x": model.transformer.h[1].ln_1})
    answer = watched(model, {"input_ids": ids}).why(8, 3, layer=1, head=2)
    norm, attention = model.transformer.h[1].ln_1, model.transformer.h[1].attn
    write = seen["z"][:, 8:16] @ model.transformer.h[0].attn.c_proj.weight[8:16]
    scale = norm.weight / (seen["x"].var(-1, unbiased=False, keepdim=True) + norm.eps).sqrt()
    part = (write - write.mean(-1, keepdim=True)) * scale
    query, key, _ = attention.c_attn.weight.split(32, 1)
    expected = float((part[8] @ query[:, 16:24]) @ (part[3] @ key[:, 16:24])) / math.sqrt(8)
    (pair,) = [pair for pair in answer if pair.query == pair.key == "layer 0 head 1"]
    assert pair.amount == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("name", ["llama", "gpt2", "bert"])
def test_what_a_head_adds_comes_from_words(name):
    record = watched(model_of((DECODERS | ENCODERS)[name]), {"input_ids": texts(1, 9)}, tokens=WORDS)
    answer = record.why("hungry", "dog", layer=2, head=1)
    if name == "bert":  # the value's bias goes with the weights, and the output's bias is in the biases
        assert len(answer.source("layer 1 head 2")) == 9
    for side, sums in (("query", answer.query), ("key", answer.key)):
        for head in ("layer 0 head 3", "layer 1 head 2"):
            close(answer.source(head, side).sum, sums.of(head), answer.parts)
    words = [term.name for term in answer.source("layer 1 head 2", "key")]
    assert name == "bert" or set(words) == set(WORDS)
    with pytest.raises(InputError, match=r"the heads that write the query are layer 0 head 0, .*Got 'token'"):
        answer.source("token")


def test_why_not_there():
    record = watched(model_of(DECODERS["llama"]), {"input_ids": texts(1, 9)}, tokens=WORDS)
    answer = record.why("hungry", "dog", minus="food", layer=2, head=1)
    apart = [record.why("hungry", word, layer=2, head=1) for word in ("dog", "food")]
    close(answer.score, apart[0].score - apart[1].score, answer.parts)
    assert str(answer).startswith("hungry → dog, not food, layer 2 head 1: score ")


def test_a_padded_text_is_taken_apart_as_the_text_alone():
    model = model_of(DECODERS["llama"])
    ids, mask = texts(2, 9), torch.ones(2, 9, dtype=torch.long)
    mask[1, :3] = 0  # on the left
    positions = (mask.cumsum(-1) - 1).clamp_min(0)
    padded = watched(model, {"input_ids": ids, "attention_mask": mask, "position_ids": positions})
    alone = watched(model, {"input_ids": ids[1:, 3:]})
    one, other = padded.why(5, 2, layer=2, head=1, sequence=1), alone.why(5, 2, layer=2, head=1)
    assert one.writers == other.writers
    torch.testing.assert_close(one.parts, other.parts, atol=1e-4, rtol=1e-4)
    sources = [answer.source("layer 1 head 0", "query") for answer in (one, other)]
    for term in sources[1]:
        assert sources[0].of(term.name) == pytest.approx(term.amount, abs=1e-4)
    said = padded.says(7, 8, sequence=1), alone.says(7, 8)
    assert dict(said[0]) == pytest.approx(dict(said[1]), abs=1e-4)


@pytest.mark.parametrize("name", DECODERS)
def test_a_logit_is_the_sum_of_what_heads_and_layers_say(name):
    record = watched(model_of(DECODERS[name]), {"input_ids": texts(1, 9)}, tokens=WORDS)
    logits, amounts = record.output.logits[0], torch.ones(1)
    for place, at in ((8, None), (1, "dog")):
        close(record.says(7, 8, at=at).sum, float(logits[place, 7] - logits[place, 8]), amounts)
        close(record.says(7, at=at).sum, float(logits[place, 7]), amounts * 10)
    said = record.says(7, 8)
    assert {f"layer 2 head {h}" for h in range(4)} <= {term.name for term in said}
    assert str(said).startswith("7 − 8 after hungry: ")


@pytest.mark.parametrize("name", BOTH)
def test_a_logit_of_a_translation(name):
    record = of_both(model_of(BOTH[name]))
    output = getattr(record.output, "logits", record.output)
    said = record.says(7, 8)
    close(said.sum, float(output[0, -1, 7] - output[0, -1, 8]), torch.ones(1) * 10)
    assert any(term.name.startswith("cross layer 1 head") for term in said)


def test_what_cannot_be_taken_apart_is_refused():
    ids = {"input_ids": texts(1, 9)}
    mixtral = watched(model_of(lambda: MixtralForCausalLM(MixtralConfig(**GROUPED, num_local_experts=4))), ids)
    with pytest.raises(WatchError, match=r"MixtralForCausalLM cannot be taken apart: the parts differ from the whole"):
        mixtral.why(8, 3, layer=2, head=1)
    capped = watched(model_of(lambda: Gemma2ForCausalLM(Gemma2Config(**GROUPED, final_logit_softcapping=1.0))), ids)
    with pytest.raises(WatchError, match="cannot be taken apart"):
        capped.says(7, 8)
    with pytest.raises(InputError, match="predicts no tokens"):
        watched(model_of(ENCODERS["bert"]), ids).says(7)


def test_layers_that_read_vectors():
    """What they read is no embedding; layers that compute without modules are refused."""
    torch.manual_seed(0)
    x = torch.randn(1, 5, 16)
    encoder = regard.Encoder(2, width=16, heads=2, hidden=32).eval()
    with torch.no_grad(), regard.watch(encoder) as record:
        encoder(x)
    answer = check_score(record, "layers.1.attention", 1, 4, 3)
    assert answer.writers[0] == "input and biases"
    theirs = torch.nn.TransformerEncoder(torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), 2).eval()
    with torch.no_grad(), regard.watch(theirs) as record:
        theirs(x)
    with pytest.raises(WatchError, match=r"what layers.0.self_attn.* wrote cannot be told apart by heads"):
        record.why(4, 3, layer=1, head=1)


def test_a_model_that_changed_is_noticed():
    model = model_of(DECODERS["llama"])
    record = watched(model, {"input_ids": texts(1, 9)})
    with torch.no_grad():
        model.model.layers[0].mlp.down_proj.weight.mul_(2)
    for ask in (lambda: record.why(8, 3, layer=2, head=1), lambda: record.says(7, 8)):
        with pytest.raises(WatchError, match=r"gives other scores than when it was watched"):
            ask()
    with pytest.raises(WatchError, match=r"in training mode"):
        watched(model.train(), {"input_ids": texts(1, 9)}).says(7)


class OddNorm(torch.nn.Module):
    """Not linear in x, whatever its scale."""

    def forward(self, x):
        return torch.tanh(x)


class OddRMSNorm(OddNorm):
    """Taken for a norm by its name."""


@pytest.mark.parametrize("odd", [OddNorm, OddRMSNorm])
def test_an_unknown_norm_is_refused(odd):
    model = model_of(DECODERS["llama"])
    model.model.norm = odd()
    record = watched(model, {"input_ids": texts(1, 9)})
    with pytest.raises(WatchError, match="cannot be taken apart"):
        record.says(7, 8)
    model = model_of(DECODERS["llama"])
    model.model.layers[2].input_layernorm = odd()
    with pytest.raises(WatchError, match="cannot be taken apart"):
        watched(model, {"input_ids": texts(1, 9)}).why(8, 3, layer=2, head=1)


def test_asked_in_other_ways():
    """Without gradients, with the last rows only, of a copy, of a pass; not inside the block."""
    model = model_of(DECODERS["llama"])
    record = watched(model, {"input_ids": texts(1, 9)}, tokens=WORDS)
    expected = record.why("hungry", "dog", layer=-1, head=1)
    assert "layer 2 head 1" in str(expected)
    with torch.inference_mode():
        inferred = watched(model, {"input_ids": texts(1, 9)}, tokens=WORDS)
        answers = [inferred.why("hungry", "dog", layer=2, head=1)]
    last = watched(model, {"input_ids": texts(1, 9)}, tokens=WORDS, keep=2)
    others = (last, copy.deepcopy(record), *record.passes)
    answers += [other.why("hungry", "dog", layer=2, head=1) for other in others]
    for answer in answers:
        torch.testing.assert_close(answer.parts, expected.parts)
    with torch.no_grad(), regard.watch(model) as opened:
        model(texts(1, 9))
        with pytest.raises(WatchError, match="after the `with` block"):
            opened.says(7)
    assert len(opened.passes) == 1


def test_tokens_by_their_text(shipped):
    source = torch.tensor([[*shipped.words.encode("A dog ate."), shipped.words.end]])
    target = torch.tensor([[shipped.model.config.start, *shipped.words.encode("Un chien")]])
    with torch.no_grad(), regard.watch(shipped.model, tokenizer=shipped.tokenizer) as record:
        logits = shipped.model(source, target)
    il, elle = (shipped.words.encode(word)[0] for word in ("il", "elle"))
    said = record.says("il", "elle")
    assert said.sum == pytest.approx(float(logits[0, -1, il] - logits[0, -1, elle]), abs=1e-3)
    assert str(said).startswith("il − elle after chien: ")
    after_an_apostrophe = [shipped.words.encode(f"qu'{word}")[-1] for word in ("il", "elle")]
    assert after_an_apostrophe != [il, elle]  # other tokens of the same text
    assert str(record.says(*after_an_apostrophe)).startswith("il − elle after chien: ")
    with pytest.raises(InputError, match=r"'il elle' is 2 tokens"):
        record.says("il elle")
    with pytest.raises(InputError, match=r"a token is a number from 0 to"):
        record.says(-1)


def test_errors_say_what_to_do(tmp_path):
    model = model_of(DECODERS["llama"])
    record = watched(model, {"input_ids": texts(1, 9)}, tokens=WORDS)
    with pytest.raises(InputError, match=r"has heads 0 to 3. Got 4"):
        record.why("it", "dog", layer=2, head=4)
    with pytest.raises(InputError, match="'il' needs a tokenizer"):
        record.says("il")
    record.save(tmp_path / "record.safetensors")
    with pytest.raises(WatchError, match=r"the model must run again, and this record does not know its inputs"):
        regard.watching.Record.open(tmp_path / "record.safetensors").why(8, 3, layer=2, head=1)
    translated = of_both(model_of(BOTH["ours"]))
    with pytest.raises(InputError, match=r"why takes one score apart, and there are .*choose kind="):
        translated.why(3, 3, layer=0, head=0)
    with torch.no_grad(), regard.watch(model) as record:
        cache = model(texts(1, 5), use_cache=True).past_key_values
        model(texts(1, 1), past_key_values=cache)
    with pytest.raises(WatchError, match="Call the model once on the whole text"):
        record.why(5, 3, layer=2, head=1)


def test_the_model_is_as_before():
    """No hook stays, the output is the same, and parameters have no gradients."""
    for model in (model_of(DECODERS["gpt2"]), model_of(BOTH["ours"])):
        source, target = texts(1, 9), texts(1, 5, seed=2)
        inputs = (source, target) if isinstance(model, regard.Transformer) else (source,)
        before = model(*inputs)
        state = {name: tensor.clone() for name, tensor in [*model.named_buffers(), *model.named_parameters()]}
        with torch.no_grad(), regard.watch(model) as record:
            model(*inputs)
        record.why(4, 3, layer=1, head=1, kind="decoder")
        after = model(*inputs)
        assert torch.equal(getattr(before, "logits", before), getattr(after, "logits", after))
        for name, tensor in [*model.named_buffers(), *model.named_parameters()]:
            assert torch.equal(tensor, state[name])
            assert tensor.grad is None
        assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


def test_the_picture_names_the_largest_writers():
    record = watched(model_of(DECODERS["llama"]), {"input_ids": texts(1, 9)}, tokens=WORDS)
    answer = record.why("hungry", "dog", layer=2, head=1)
    drawn = answer.picture().to_svg()
    assert "4 others" in drawn
    assert "1·ff" in drawn
    assert f"{answer.score:.2f}" in drawn
