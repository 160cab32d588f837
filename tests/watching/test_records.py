"""What a record keeps, and records as files."""

import json
import os
import random
import re
from pathlib import Path

import pytest
import torch
import transformers as hf
from support.disk import limited
from support.models import FAMILIES, SIZE, VISION, WORDS, Layer, made

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
    for keep in ("everything", "value", ["top", "bottom"], ""):
        with pytest.raises(regard.InputError, match="keep must be"):
            regard.watch(Layer(), keep=keep)
    with regard.watch(Layer(), keep=()) as record:  # to change a model, and no more
        record.model(torch.randn(1, 3, 16))
    assert len(record) == 0
    with pytest.raises(regard.WatchError, match="nothing was watched"):
        record.check()  # it said that 0 attentions differ by 0


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


@pytest.mark.parametrize("name", ["Llama", "Gemma 2", "GPT-OSS", "BERT"])
def test_the_normaliser_is_saved_too(name, tmp_path):
    """So that a part of a long text is computed without all the rest of it, and is the same to the last digit."""
    model, path = made(name), tmp_path / "record.safetensors"
    with torch.no_grad(), regard.watch(model, tokens=[WORDS, WORDS]) as record:
        model(**FAMILIES[name].inputs("right"))
    known = {key: entry.matrix.known_logsumexp for key, entry in record.items()}
    record.save(path)
    again = regard.Record.open(path)
    for key, entry in again.items():
        assert (entry.matrix.known_logsumexp is None) == (known[key] is None)
        if known[key] is not None:
            assert torch.equal(entry.matrix.known_logsumexp, known[key])
            assert torch.equal(entry.to_dense(), record[key].to_dense())
    assert any(each is not None for each in known.values())
    one = record.at(head=1)  # a part of the heads is saved without: its queries are those of all
    one.save(path)
    for key, entry in regard.Record.open(path).items():
        assert torch.allclose(entry.to_dense(), one[key].to_dense(), atol=1e-6)


@pytest.mark.parametrize(
    "wrong", [torch.zeros(2, 4, 9), torch.zeros(2, 4, 12).long(), torch.full((2, 4, 12), torch.nan)]
)
def test_a_normaliser_that_does_not_fit_is_refused(wrong, tmp_path, monkeypatch):
    model = made("BERT")
    with torch.no_grad(), regard.watch(model, tokens=[WORDS, WORDS]) as record:
        model(**FAMILIES["BERT"].inputs(None))
    monkeypatch.setattr(regard.AttentionMatrix, "known_logsumexp", wrong)
    record.save(tmp_path / "record.safetensors")
    with pytest.raises(regard.FileError, match="normaliser"):
        regard.Record.open(tmp_path / "record.safetensors")


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
    assert record.looks("slept", sinks=True).of("dog") == pytest.approx(0.2768286168575287, abs=1e-6)
    for name, entry in kept.items():
        second = record.at(head=1)[name]
        assert repr(entry) == repr(second).replace(")", ", keeps received, entropy, pool, top)")
        whole = second.matrix  # padding was not left out then
        torch.testing.assert_close(entry.received(), whole.received())
        torch.testing.assert_close(entry.entropy(), whole.entropy())
        torch.testing.assert_close(entry.pool(), whole.pool(256, 256))
        torch.testing.assert_close(entry.top(4).weights, whole.top(4).weights)
    for saved in (record, kept):
        saved.save(tmp_path / "again")
        name = "record" if saved is record else "reductions"
        (old, old_data), (new, new_data) = split(DATA / f"{name}_format_1.safetensors"), split(tmp_path / "again")
        assert new_data == old_data
        assert new == old


def split(path):
    """A safetensors file as its header and its numbers."""
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    return json.loads(data[8 : 8 + size]), data[8 + size :]


def joined(header, numbers):
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + numbers


# Damaged files

KINDS = ("record", "reductions")
MUTATIONS = int(os.environ.get("REGARD_MUTATIONS", 150))  # a long run once in a while: REGARD_MUTATIONS=2600
JUNK = [
    None,
    True,
    -1,
    0,
    1,
    7,
    2**31,
    2**63,
    10**30,
    0.5,
    float("nan"),
    float("inf"),
    "",
    "x",
    "tokens",
    "\ud800",
    [],
    {},
]
JUNK += [[0], [[]], {"tensor": "0"}, {"tensor": "9999"}, {"tensor": []}, ["Band", {}], [[["a"] * 3]] * 9]


@pytest.fixture
def files():
    """The two files of format 1."""
    return [DATA / f"{name}_format_1.safetensors" for name in KINDS]


def answers(record):
    """Everything that a record can be asked for, as far as it was kept."""
    found = {"all": repr(record)}
    for name, entry in record.items():
        for what in entry.keeps:
            found[f"{name} {what}"] = (
                entry.to_dense() if what == "matrix" else getattr(entry, what)(*[1] * (what == "top"))
            )
        found[f"{name} tokens"] = repr((entry.tokens, entry.key_tokens, entry.ids, entry.key_ids))
        for tokens in entry.tokens or ():
            found[f"{name} words"] = [tokens.word_at(n).text for n in range(len(tokens))]
    for ask in (lambda: record.looks(1), lambda: record.spans("word"), lambda: str(record.picture()), record.check):
        try:
            found[str(len(found))] = repr(ask())
        except regard.RegardError as error:  # there may be no words, or shapes that differ
            found[str(len(found))] = str(error)
    return found


def mutated(path, choose):
    """A file with one thing changed, in its bytes or in what its header says."""
    data = bytearray(path.read_bytes())
    how = choose.choice(["bit", "bit", "bytes", "cut", "header", "description", "description", "description"])
    if how == "bit":
        data[choose.randrange(len(data))] ^= 1 << choose.randrange(8)
    elif how == "bytes":
        start = choose.randrange(len(data))
        data[start : start + 8] = choose.randbytes(8)
    elif how == "cut":
        del data[choose.randrange(len(data)) :]
    else:
        header, numbers = split(path)
        if how == "header":
            change(choose.choice([part for name, part in header.items() if name != "__metadata__"]), choose)
        else:
            description = json.loads(header["__metadata__"]["regard"])
            change(description, choose)
            header["__metadata__"]["regard"] = json.dumps(description)
        data = joined(header, numbers)
    return bytes(data)


def change(tree, choose):
    """Replace, remove or repeat one part of a JSON tree."""
    places = []

    def walk(node):
        for key in node if isinstance(node, dict) else range(len(node)):
            places.append((node, key))
            if isinstance(node[key], dict | list):
                walk(node[key])

    walk(tree)
    node, key = choose.choice(places)
    if choose.random() < 0.2:
        del node[key]
    elif isinstance(node, list) and choose.random() < 0.2:
        node.append(node[key])
    else:
        node[key] = choose.choice(JUNK)


@pytest.mark.parametrize("part", range(3))
def test_a_damaged_record_is_refused_or_harmless(files, part, tmp_path, unchecked, capsys):
    whole = {path: {key: str(value) for key, value in answers(regard.Record.open(path)).items()} for path in files}
    refused = 0
    for seed in range(part, MUTATIONS, 3):
        choose = random.Random(seed)
        path = files[seed // 3 % len(files)]
        data = mutated(path, choose)
        (tmp_path / "damaged").write_bytes(data)
        try:
            record = regard.Record.open(tmp_path / "damaged")
        except (regard.FileError, regard.InputError):
            refused += 1
            continue
        found = {key: str(value) for key, value in answers(record).items()}  # whatever was changed, no other error
        assert found == whole[path], f"seed {seed}"
    assert refused > MUTATIONS // 3 / 2


def test_a_record_that_is_not_there_or_no_file(tmp_path):
    for path in (tmp_path / "nowhere", tmp_path):
        with pytest.raises(regard.FileError, match=re.escape(str(path))):
            regard.Record.open(path)
    (tmp_path / "empty").write_bytes(b"")
    with pytest.raises(regard.FileError, match="damaged"):
        regard.Record.open(tmp_path / "empty")


@pytest.mark.parametrize("description", ["[" * 100_000, "1" * 5000, "null", "[]", '{"format": 1}', "{"])
def test_a_description_that_is_none(description, tmp_path):
    header, numbers = split(DATA / "record_format_1.safetensors")
    header["__metadata__"]["regard"] = description
    (tmp_path / "damaged").write_bytes(joined(header, numbers))
    with pytest.raises(regard.FileError, match="is damaged"):
        regard.Record.open(tmp_path / "damaged")


def test_a_later_format_is_named(tmp_path):
    header, numbers = split(DATA / "record_format_1.safetensors")
    header["__metadata__"]["regard"] = '{"format": 2}'
    (tmp_path / "later").write_bytes(joined(header, numbers))
    with pytest.raises(regard.InputError, match="has format 2, this regard reads 1"):
        regard.Record.open(tmp_path / "later")


def test_one_changed_number_is_noticed(files, tmp_path):
    path = files[0]
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    (tmp_path / "damaged").write_bytes(data)
    with pytest.raises(regard.FileError, match="its checksum is another"):
        regard.Record.open(tmp_path / "damaged")
    header, numbers = split(path)
    del header["__metadata__"]["sha256"]
    (tmp_path / "damaged").write_bytes(joined(header, numbers))
    with pytest.raises(regard.FileError, match="its checksum is missing"):
        regard.Record.open(tmp_path / "damaged")


def test_a_write_that_fails_leaves_the_old_file(files, tmp_path):
    record = regard.Record.open(files[0])
    path = tmp_path / "record"
    record.save(path)
    before = path.read_bytes()
    with limited(1000), pytest.raises(regard.FileError, match="record cannot be written"):
        record.save(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]  # no draft is left
    with pytest.raises(regard.FileError, match="cannot be written"):
        record.save(tmp_path / "nowhere" / "record")


def test_words_that_cannot_be_encoded_are_saved(tmp_path):
    with regard.watch(Layer(), tokens=["\ud800", "a"]) as record:
        record.model(torch.zeros(1, 2, 16))
    record.save(tmp_path / "record")
    assert regard.Record.open(tmp_path / "record")[""].tokens[0].pieces == ("\ud800", "a")


def test_the_towers_of_a_model_are_told_apart():
    text = {**SIZE, "max_position_embeddings": 64, "bos_token_id": 1, "eos_token_id": 2}
    model = hf.SiglipModel(hf.SiglipConfig(text_config=text, vision_config=VISION)).eval()
    with torch.no_grad(), regard.watch(model) as record:
        model(input_ids=torch.randint(5, 90, (2, 6)), pixel_values=torch.randn(2, 3, 32, 32))
    layers = [f"text_model.encoder.layers.{n}.self_attn" for n in (0, 1)]
    assert list(record.at(module="text_model")) == layers
    assert list(record.at(module="text_model", layer=-1)) == list(record.at(module=layers[1])) == layers[1:]
    assert len(record.at(module="encoder.layers.1")) == 2
    with pytest.raises(regard.InputError, match=r"nothing was seen of a module 'text'. There are vision_model"):
        record.at(module="text")
    with pytest.raises(
        regard.InputError, match=r"lengths \[\(6, 6\), \(16, 16\)\]: choose a layer, or a module by record"
    ):
        record.looks(3, kind="encoder")
    with torch.no_grad(), regard.watch(model, tokens=[[f"w{n}" for n in range(16)]] * 2) as record:
        model(input_ids=torch.randint(5, 90, (2, 16)), pixel_values=torch.randn(2, 3, 32, 32))
    for ask in (
        "looks",
        "looked_at",
    ):  # it mixed words and patches where a text has as many tokens as there are patches
        with pytest.raises(regard.InputError, match="look at different texts: choose a module by record"):
            getattr(record, ask)(3, kind="encoder")
    with pytest.raises(regard.InputError, match=r"one text, each looking at itself. .* or record.at\(module=…\)"):
        record.rollout(3)
    assert record.at(module="text_model").looks("w3").word == "w3"
    assert record.at(module="vision_model").rollout(3)
