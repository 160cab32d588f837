"""What a record keeps, and records as files."""

import pytest
import torch
from models import FAMILIES, WORDS, Layer, made

import regard

# What is kept


@pytest.mark.parametrize("keep", ["summary", ("received", "entropy", "pool", "top"), ["top"], "received", "entropy"])
def test_kept_reductions_equal_those_of_the_matrix(llama, keep):
    with torch.no_grad(), regard.watch(llama.model, tokens=[WORDS, WORDS], keep=keep) as kept:
        llama.model(**FAMILIES["Llama"].inputs("left"))
    for name, entry in kept.items():
        matrix = llama[name]
        assert entry.shape == matrix.shape
        if "received" in entry.keeps:
            torch.testing.assert_close(entry.received(), matrix.received())
        if "entropy" in entry.keeps:
            torch.testing.assert_close(entry.entropy(), matrix.entropy())
        if "pool" in entry.keeps:
            torch.testing.assert_close(entry.pool(), matrix.pool())
        if "top" in entry.keeps:
            torch.testing.assert_close(entry.top(3).weights, matrix.top(3).weights)
        with pytest.raises(regard.WatchError, match="was not kept"):
            entry.to_dense()
        with pytest.raises(regard.WatchError, match="was not kept"):
            kept.check()
    assert {what for entry in kept.values() for what in entry.keeps} <= {"received", "entropy", "pool", "top"}


def test_what_to_keep_must_be_known():
    for keep in ("everything", (), ["top", "bottom"]):
        with pytest.raises(regard.InputError, match="keep must be"):
            regard.watch(Layer(), keep=keep)


# To a file and back


@pytest.mark.parametrize("name", ["Llama", "Gemma 3", "GPT-OSS", "Gemma 2", "T5", "BART", "ViT", "CLIP"])
def test_saved_and_opened(name, tmp_path):
    model = made(name)
    with torch.no_grad(), regard.watch(model, tokens=[WORDS, WORDS]) as record:
        model(**FAMILIES[name].inputs("right" if FAMILIES[name].sides else None))
    record.save(tmp_path / "record.safetensors")
    again = regard.Record.open(tmp_path / "record.safetensors")
    assert list(again) == list(record)
    for key, entry in record.items():
        assert repr(again[key]) == repr(entry)
        torch.testing.assert_close(again[key].to_dense(), entry.to_dense(), rtol=0, atol=0)
    if name == "Llama":
        assert again.looks("hungry") == record.looks("hungry")
        record.at(head=2).save(tmp_path / "one")
        torch.testing.assert_close(regard.Record.open(tmp_path / "one").weights(), record.weights(head=2))


def test_saved_and_opened_reductions(tmp_path):
    model = made("BERT")
    with torch.no_grad(), regard.watch(model, keep=("received", "top")) as record:
        model(**FAMILIES["BERT"].inputs(None))
    record.at(head=1).save(tmp_path / "record")
    again = regard.Record.open(tmp_path / "record")
    for name, entry in record.items():
        assert again[name].heads == range(1, 2)
        assert torch.equal(again[name].received(), entry.received()[:, 1:2])
        assert torch.equal(again[name].top(2).keys, entry.top(2).keys[:, 1:2])
    from safetensors.torch import save_file

    save_file({"a": torch.zeros(1)}, tmp_path / "other")
    with pytest.raises(regard.InputError, match="no record"):
        regard.Record.open(tmp_path / "other")
