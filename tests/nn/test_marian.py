"""Marian folders both ways: logits as in transformers, and the same tokens as CTranslate2 after its converter."""

import json

import pytest
import torch

import regard
from regard.translation import search

transformers = pytest.importorskip("transformers")
VOCABULARY = 60
PAD = VOCABULARY - 1


def ours(seed=0):
    torch.manual_seed(seed)
    config = regard.TransformerConfig.tiny(
        VOCABULARY, width=32, hidden=64, activation="silu", positions=64, decoder_layers=3
    )
    model = regard.Transformer(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.15)
        model.embedding.weight.mul_(model.live)
        model.output_bias.normal_()
        model.output_bias[0] += 2 * seed  # some models end soon, others late
    return model


def sentences():
    source, target = torch.randint(1, PAD, (4, 9)), torch.randint(1, PAD, (4, 6))
    source[1, 5:], source[2, 2:], target[:, 0] = PAD, PAD, PAD
    return source, target


def their_logits(model, source, target):
    return model(input_ids=source, attention_mask=(source != PAD).long(), decoder_input_ids=target).logits


def test_ours_opens_in_transformers(tmp_path):
    model = ours()
    model.to_marian(tmp_path)
    theirs = transformers.MarianMTModel.from_pretrained(tmp_path).eval()
    source, target = sentences()
    torch.testing.assert_close(model(source, target), their_logits(theirs, source, target), atol=1e-5, rtol=1e-5)
    again = regard.Transformer.from_marian(tmp_path)
    assert again.config == model.config
    assert torch.equal(again(source, target), model(source, target))
    assert theirs.generation_config.bad_words_ids == [[PAD]]


@pytest.mark.parametrize("old", [False, True])
def test_theirs_opens_here(tmp_path, old):
    torch.manual_seed(1)
    config = transformers.MarianConfig(
        vocab_size=VOCABULARY, d_model=32, encoder_layers=2, decoder_layers=3, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=48, decoder_ffn_dim=48, max_position_embeddings=64,
        activation_function="swish", scale_embedding=True, pad_token_id=PAD, decoder_start_token_id=PAD, eos_token_id=0,
        init_std=0.2,
    )  # fmt: skip
    theirs = transformers.MarianMTModel(config).eval()
    theirs.final_logits_bias.normal_()
    theirs.save_pretrained(tmp_path)
    if old:
        torch.save(theirs.state_dict(), tmp_path / "pytorch_model.bin")
        (tmp_path / "model.safetensors").unlink()
    source, target = sentences()
    model = regard.Transformer.from_marian(tmp_path)
    torch.testing.assert_close(model(source, target), their_logits(theirs, source, target), atol=1e-5, rtol=1e-5)
    model.to_marian(tmp_path / "back")
    back = transformers.MarianMTModel.from_pretrained(tmp_path / "back").eval()
    torch.testing.assert_close(their_logits(back, source, target), their_logits(theirs, source, target))


def name(token):
    return {0: "</s>", 1: "<unk>", PAD: "<pad>"}.get(token, f"t{token}")


@pytest.mark.parametrize("seed", [0, 2, 3])  # with 1, the fourth beam of one sentence differs: not understood
def test_the_same_tokens_as_ctranslate2(tmp_path, seed):
    ctranslate2 = pytest.importorskip("ctranslate2")

    class Tokenizer:
        unk_token, eos_token, pad_token, bos_token = "<unk>", "</s>", "<pad>", None

        def get_vocab(self):
            return {name(token): token for token in range(VOCABULARY)}

    class Converter(ctranslate2.converters.TransformersConverter):
        def load_tokenizer(self, *_, **__):
            return Tokenizer()  # this model has weights, but no text

    model = ours(seed)
    model.to_marian(tmp_path / "marian")
    Converter(str(tmp_path / "marian")).convert(str(tmp_path / "ct2"))
    translator = ctranslate2.Translator(str(tmp_path / "ct2"), device="cpu", intra_threads=1)
    source, _ = sentences()
    words = [[name(token) for token in row.tolist() if token != PAD] for row in source]
    for beam in (1, 4):
        theirs = translator.translate_batch(
            words, beam_size=beam, num_hypotheses=beam, max_decoding_length=20, min_decoding_length=0
        )
        for found, expected in zip(search(model, source, beam=beam, max_tokens=20, repeats=99), theirs, strict=True):
            assert [[name(t) for t in h.tokens] for h in found] == expected.hypotheses


SPOIL = [
    ({"model_type": "bart"}, "is not a Marian config: model_type is 'bart'"),
    ({"scale_embedding": False}, "scale_embedding = False"),
    ({"normalize_before": True}, "normalize_before = True"),
    ({"decoder_ffn_dim": 7}, "encoder_ffn_dim other than decoder_ffn_dim"),
    ({"activation_function": "tanh"}, "activation_function = 'tanh'"),
    ({"decoder_vocab_size": 7}, "two vocabularies"),
    ({"d_model": 33}, "does not describe a Transformer"),
    ({"encoder_layers": 3}, "lack model.encoder.layers.2"),
    ({"decoder_layers": 2}, "have parts that regard's Transformer lacks: model.decoder.layers.2"),
]


@pytest.mark.parametrize(("changes", "message"), SPOIL)
def test_a_folder_that_asks_for_more_is_refused(tmp_path, changes, message):
    ours().to_marian(tmp_path)
    path = tmp_path / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    with pytest.raises(regard.FileError, match=message):
        regard.Transformer.from_marian(tmp_path)


class _Nasty:
    def __reduce__(self):
        return print, ("this ran",)


def test_an_old_file_is_read_as_data_only(tmp_path, capsys):
    ours().to_marian(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    torch.save({"model.shared.weight": _Nasty()}, tmp_path / "pytorch_model.bin")
    with pytest.raises(regard.FileError, match="cannot be read as plain weights"):
        regard.Transformer.from_marian(tmp_path)
    assert "this ran" not in capsys.readouterr().out


def test_what_marian_cannot_hold_is_not_written(tmp_path):
    model = regard.Transformer(regard.TransformerConfig.tiny(40, norm_first=True))
    with pytest.raises(regard.InputError, match="needs norm_first=False"):
        model.to_marian(tmp_path)
