"""recipes/halfway.py: the mean of two trainings."""

import sys

import pytest
import torch

import regard
from recipes import halfway
from regard.nn import Transformer, TransformerConfig
from regard.translation import Translator
from regard.translation.training.vocabulary import Vocabulary


@pytest.fixture(scope="module")
def words():
    return Vocabulary.train(["a dog ate the food", "un chien a mangé la nourriture"] * 20, 40)


def translator(words, seed, **sizes):
    torch.manual_seed(seed)
    config = TransformerConfig.tiny(len(words), pad=words.pad, end=words.end, start=words.pad, **sizes)
    return Translator(Transformer(config).eval(), words, languages="en-fr")


def test_the_weights_are_the_mean_of_both(words, tmp_path, monkeypatch):
    for seed in (0, 1):
        translator(words, seed).save(tmp_path / f"{seed}")
    monkeypatch.setattr(sys, "argv", ["halfway.py", *(str(tmp_path / name) for name in ("0", "1", "out"))])
    halfway.main()
    found = Translator.load(tmp_path / "out")
    assert found.languages == "en-fr"
    first, second, mean = (each.model.state_dict() for each in (translator(words, 0), translator(words, 1), found))
    for name, weight in mean.items():
        step = weight.abs().max() / 100  # of int8
        assert (weight - (first[name] + second[name]) / 2).abs().max() <= step, name
    assert any((first[name] - second[name]).abs().max() > 0.1 for name in mean)


def test_with_all_digits(words, tmp_path, monkeypatch):
    for seed in (0, 1):
        translator(words, seed).save(tmp_path / f"{seed}")
    asked = ["halfway.py", *(str(tmp_path / name) for name in ("0", "1", "out")), "--float32"]
    monkeypatch.setattr(sys, "argv", asked)
    halfway.main()
    first, second = (translator(words, seed).model.state_dict() for seed in (0, 1))
    for name, weight in Translator.load(tmp_path / "out").model.state_dict().items():
        assert torch.equal(weight, torch.lerp(first[name], second[name], 0.5)), name


def test_two_models_have_no_middle(words):
    with pytest.raises(regard.InputError, match="same sizes"):
        halfway.halfway(translator(words, 0), translator(words, 0, width=32, heads=2))


def test_one_head_looks_as_in_a_third_training(words, tmp_path, monkeypatch):
    given = [translator(words, seed) for seed in (0, 1, 2)]
    with torch.no_grad():
        given[2].model.encoder.layers[1].attention.projection.bias.normal_()
    for n, each in enumerate(given):
        each.save(tmp_path / f"{n}")
    asked = ["halfway.py", *(str(tmp_path / name) for name in ("0", "1", "out")), "--float32"]
    monkeypatch.setattr(sys, "argv", [*asked, "--head", str(tmp_path / "2"), "1", "1"])
    halfway.main()
    found, third, mean = Translator.load(tmp_path / "out").model, given[2].model, halfway.halfway(*given[:2]).model

    x = torch.randn(5, mean.config.width)

    def weights(model, head):
        layer = model.encoder.layers[1].attention
        queries, keys, _ = (part.chunk(layer.heads, -1)[head] for part in layer.projection(x).chunk(3, -1))
        return regard.AttentionMatrix(queries, keys).to_dense()

    assert torch.equal(weights(found, 1), weights(third, 1))
    assert torch.equal(weights(found, 0), weights(mean, 0))
    assert not torch.allclose(weights(found, 1), weights(mean, 1))
    own, others = found.state_dict(), mean.state_dict()
    changed = [name for name in own if not torch.equal(own[name], others[name])]
    assert changed == [f"encoder.layers.1.attention.projection.{kind}" for kind in ("weight", "bias")]
    values = slice(2 * mean.config.width, None)
    assert all(torch.equal(own[name][values], others[name][values]) for name in changed)


def test_a_head_that_is_not_there(words):
    with pytest.raises(regard.InputError, match="no layer 9, head 0"):
        halfway.look_as(translator(words, 0).model, translator(words, 1).model, 9, 0)
