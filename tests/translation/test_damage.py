"""A damaged model is refused by name, whatever the damage; it never translates wrongly."""

import json
import os
import random

import pytest
import torch
from safetensors.torch import load_file, save_file
from support.translation import mutations, tiny

import regard
from regard.translation import Translator, Vocabulary, search
from regard.translation.translator import SHIPPED

pytestmark = pytest.mark.usefixtures("unchecked")


@pytest.fixture
def folder(tmp_path):
    """A translator that was never trained, on disk."""
    words = Vocabulary.train([line for both in tiny.pairs(200) for line in both], size=100)
    config = regard.TransformerConfig.tiny(len(words), width=16, heads=2, hidden=16, positions=64)
    torch.manual_seed(0)
    Translator(regard.Transformer(config), words).save(tmp_path / "model", int8=True)
    return tmp_path / "model"


def edit_config(folder, **changes):
    path = folder / "config.json"
    fields = json.loads(path.read_text()) | changes
    path.write_text(json.dumps({name: value for name, value in fields.items() if value != "absent"}))


def edit_weights(folder, edit):
    tensors = load_file(folder / "model.safetensors")
    edit(tensors)
    save_file(tensors, folder / "model.safetensors")


SCALE = "encoder.layers.0.attention.output.weight.scale"


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), 3e38])  # 127 times the last is inf
def test_a_scale_that_is_not_finite_is_refused(folder, bad):
    """It used to answer with the source text, score 0, exit 0."""
    edit_config(folder, sha256="absent")
    edit_weights(folder, lambda tensors: tensors[SCALE].__setitem__(3, bad))
    with pytest.raises(regard.FileError, match=r"encoder.layers.0.attention.output.weight holds NaN or inf"):
        Translator.load(folder)


def test_a_search_that_finds_nothing_is_an_error(folder):
    translator = Translator.load(folder)
    with torch.no_grad():
        translator.model.decoder.layers[0].feed_forward.up.weight[3] = float("nan")
    with pytest.raises(regard.RegardError, match=r"found no target: .* NaN"):
        translator.translate("The dog sees the apple.")
    for beam in (1, 3):
        with pytest.raises(regard.RegardError, match="found no target"):
            search(translator.model, torch.tensor([[5, 6, 0]]), beam=beam)


@pytest.mark.parametrize("name", ["model.safetensors", "vocabulary.spm"])
def test_one_bit_is_noticed(folder, name):
    data = bytearray((folder / name).read_bytes())
    data[-1] ^= 1
    (folder / name).write_bytes(data)
    with pytest.raises(
        regard.FileError, match=rf"Checksum mismatch for .*{name}: the file is damaged|not a SentencePiece model"
    ):
        Translator.load(folder)


@pytest.mark.parametrize("change", [{"heads": 4}, {"activation": "gelu"}, {"positions": 32}, {"start": 5}], ids=str)
def test_a_config_that_fits_but_was_changed_is_refused(folder, change):
    edit_config(folder, **change)
    with pytest.raises(regard.FileError, match=r"config.json: the file is damaged or was edited\. .* delete its field"):
        Translator.load(folder)
    edit_config(folder, sha256="absent")  # what is meant is loaded
    assert Translator.load(folder).model.config != Translator.load(SHIPPED).model.config


def test_sums_are_those_of_the_files_and_old_folders_open_without(folder):
    sums = json.loads((folder / "config.json").read_text())["sha256"]
    assert sums.keys() == {"config.json", "model.safetensors", "vocabulary.spm"}
    edit_config(folder, sha256="absent")
    assert Translator.load(folder).translate("The dog.").text
    assert json.loads((SHIPPED / "config.json").read_text())["sha256"].keys() == sums.keys()


def test_killed_while_it_replaces_a_model_it_leaves_one_that_opens(folder, monkeypatch):
    """Stopped at each of its renames in turn."""
    old = Translator.load(folder)
    new = Translator(regard.Transformer(old.model.config), old.words)
    replace = os.replace
    weights = [t.model.state_dict()["embedding.weight"] for t in (old, new)]
    for stop in range(5):
        old.save(folder)
        done = []

        def stopping(*paths, done=done, stop=stop):
            if len(done) == stop:
                raise KeyboardInterrupt
            done.append(replace(*paths))

        with monkeypatch.context() as patch:
            patch.setattr("os.replace", stopping)
            with pytest.raises(KeyboardInterrupt):
                new.save(folder)
        found = Translator.load(folder).model.state_dict()["embedding.weight"]
        assert any(torch.equal(found, tensor) for tensor in weights)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"positions": 5_000_000}, "positions × width must be at most 67,108,864"),
        ({"encoder_layers": 2_000_000}, "encoder_layers must be at most 1,000"),
        ({"decoder_layers": 999}, r"but its config.json describes [\d,]+ parameters"),
        ({"vocabulary": 10**15}, "vocabulary must be at most 16,777,216"),
        ({"vocabulary": 10**7}, r"its config.json describes 160,\d+,\d+ parameters"),
        ({"hidden": 10**7}, r"its config.json describes [\d,]+ parameters"),
        ({"width": 10**6, "positions": 10}, r"its config.json describes [\d,]+ parameters"),
        ({"dropout": "x"}, "dropout must be at least 0"),
        ({"norm_first": 1}, "norm_first must be true or false"),
        ({"activation": "tanh"}, "activation must be one of"),
        ({"heads": 3}, "heads must divide width"),
        ({"key_heads": [1]}, "key_heads must be a whole number"),
    ],
    ids=str,
)
def test_a_config_that_asks_for_more_than_the_file_holds_is_refused_before_it_is_built(folder, change, message):
    edit_config(folder, **change)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "regard.nn.transformer.sinusoids", lambda length, _: torch.zeros(length) if length == 1 else 1 / 0
        )
        with pytest.raises(regard.FileError, match=message):
            Translator.load(folder)


@pytest.mark.parametrize(
    ("text", "message"),
    [("[" * 100_000, "its JSON is nested too deeply"), ('{"width": ' + "9" * 5000 + "}", "is not JSON")],
)
def test_nested_or_huge_json_is_refused(folder, text, message):
    (folder / "config.json").write_text(text)
    with pytest.raises(regard.FileError, match=message):
        Translator.load(folder)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "vocabulary.spm"])
def test_a_file_with_any_damage_is_refused_or_the_same(folder, name):
    choose = random.Random(0)
    whole, data = Translator.load(folder), (folder / name).read_bytes()
    refused = 0
    for _ in range(mutations.COUNT):
        (folder / name).write_bytes(mutations.mutated(data, choose))
        try:
            found = Translator.load(folder)
        except regard.FileError:
            refused += 1
            continue
        assert found.model.config == whole.model.config
        assert found.words.model == whole.words.model
        theirs = found.model.state_dict()
        assert all(torch.equal(theirs[name], tensor) for name, tensor in whole.model.state_dict().items())
    assert refused > 0.8 * mutations.COUNT


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "vocab.json", "source.spm"])
def test_a_marian_folder_with_any_damage_is_read_or_refused(folder, tmp_path, name):
    choose = random.Random(0)
    Translator.load(folder).to_marian(tmp_path / "marian")
    data = (tmp_path / "marian" / name).read_bytes()
    refused = 0
    for _ in range(mutations.COUNT // 2):
        (tmp_path / "marian" / name).write_bytes(mutations.mutated(data, choose))
        try:
            Translator.load(tmp_path / "marian")
        except regard.RegardError:
            refused += 1
    assert refused
