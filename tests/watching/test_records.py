"""What a record keeps, and records as files."""

from pathlib import Path

import pytest
import torch
from models import FAMILIES, WORDS, Layer, made

import regard

DATA = Path(__file__).parents[1] / "data"

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


def test_records_saved_by_an_earlier_version_stay_readable(tmp_path):
    """Two files of format 1: five layers with every kind of mask, and the reductions of their second heads."""
    record = regard.Record.open(DATA / "record_format_1.safetensors")
    kept = regard.Record.open(DATA / "reductions_format_1.safetensors")
    assert list(record) == list(kept) == [f"layers.{n}" for n in range(5)]
    assert {type(atom).__name__ for entry in record.values() for atom in entry.call.mask.atoms} == {
        "Band", "Keep", "Same", "Dense",
    }  # fmt: skip
    assert record.check().difference < 1e-6
    assert record.looks("slept").of("dog") == pytest.approx(0.2768286168575287, abs=1e-6)
    for name, entry in kept.items():
        second = record.at(head=1)[name]
        assert repr(entry) == repr(second).replace(")", ", keeps received, entropy, pool, top)")
        torch.testing.assert_close(entry.received(), second.received())
        torch.testing.assert_close(entry.entropy(), second.entropy())
        torch.testing.assert_close(entry.pool(), second.pool())
        torch.testing.assert_close(entry.top(4).weights, second.top(4).weights)
    for saved in (record, kept):
        saved.save(tmp_path / "again")
        name = "record" if saved is record else "reductions"
        assert (tmp_path / "again").read_bytes() == (DATA / f"{name}_format_1.safetensors").read_bytes()
