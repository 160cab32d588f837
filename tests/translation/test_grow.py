"""recipes/grow.py: a larger model that begins as the smaller one."""

import sys

import pytest
import torch

import regard
from recipes import grow
from regard.nn import Transformer, TransformerConfig
from regard.translation import Translator
from regard.translation.training.vocabulary import Vocabulary


def small(seed=0, **options):
    """A model whose norms have scales and shifts, as trained ones have."""
    torch.manual_seed(seed)
    config = TransformerConfig.tiny(50, width=32, heads=2, hidden=64, encoder_layers=2, decoder_layers=2, **options)
    model = Transformer(config).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
        model.output_bias.normal_()
    return model


@pytest.mark.parametrize("sizes", [(2, 2, 64), (2, 2, 100), (3, 2, 64), (2, 5, 64), (4, 3, 128)])
def test_it_computes_the_same_and_can_learn_more(sizes):
    model, (encoder_layers, decoder_layers, hidden) = small(), sizes
    larger = grow.grown(model, encoder_layers=encoder_layers, decoder_layers=decoder_layers, hidden=hidden).double()
    # Each norm adds 1e-5 to a variance of one.
    source, target = torch.randint(1, 49, (3, 9)), torch.randint(1, 49, (3, 7))
    assert torch.allclose(larger(source, target), model(source, target), atol=2e-3)
    assert (larger.config.encoder_layers, larger.config.decoder_layers, larger.config.hidden) == sizes
    larger(source, target).logsumexp(-1).sum().backward()
    for name, parameter in larger.named_parameters():
        if ".output.weight" in name or ".down.weight" in name:
            assert parameter.grad.abs().amax() > 0, name


def test_a_folder_in_and_a_folder_out(tmp_path, monkeypatch):
    words = Vocabulary.train(["a dog ate the food", "un chien a mangé la nourriture"] * 20, 40)
    config = TransformerConfig.tiny(len(words), pad=words.pad, end=words.end, start=words.pad)
    Translator(Transformer(config).eval(), words, languages="en-fr").save(tmp_path / "small")
    wide = ["--encoder-layers", "3", "--decoder-layers", "4", "--hidden", str(config.hidden + 8)]
    monkeypatch.setattr(sys, "argv", ["grow.py", str(tmp_path / "small"), str(tmp_path / "large"), *wide])
    grow.main()
    found = Translator.load(tmp_path / "large")
    assert (found.model.config.decoder_layers, found.languages) == (4, "en-fr")


def test_what_cannot_grow_says_why():
    with pytest.raises(regard.InputError, match="hidden is 64 already; 32 would be smaller"):
        grow.grown(small(), encoder_layers=2, decoder_layers=2, hidden=32)
    with pytest.raises(regard.InputError, match="normalises before"):
        grow.grown(small(norm_first=True), encoder_layers=2, decoder_layers=2, hidden=64)
