"""Models that are not regard's own: those that read, that write on, and that write another text; and records."""

import json
from contextlib import closing
from itertools import pairwise

import numpy as np
import pytest
import torch
import transformers as hf
from starlette.testclient import TestClient
from support.models import FAMILIES
from support.page_client import events, read
from tokenizers import Tokenizer, models, pre_tokenizers

import regard
from regard.errors import FileError, InputError
from regard.page import HuggingFaceReader, Page, RecordReader, TranslatorReader, open_model

WORDS = ["A", "dog", "ate", "the", "food", "because", "it", "was", "hungry", "."]
TEXT = "A dog ate the food because it was hungry ."


@pytest.fixture(scope="module")
def tokenizer():
    """One that has a token for each id of the small models."""
    known = ["<pad>", "<s>", "</s>", "<unk>", *WORDS]
    vocabulary = {word: n for n, word in enumerate([*known, *(f"w{n}" for n in range(99 - len(known)))])}
    made = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return hf.PreTrainedTokenizerFast(tokenizer_object=made, unk_token="<unk>", pad_token="<pad>", eos_token="</s>")


def network(family):
    torch.manual_seed(3)
    made = FAMILIES[family].make().eval()
    for parameter in made.parameters():  # far from alike
        parameter.data *= 3
    return made


def opened(reader):
    return TestClient(Page(reader).app(), base_url="http://127.0.0.1")


def weights(client, reading, entry):
    answer = client.get("/api/weights", params={"reading": reading["id"], "entry": entry})
    shape = [int(n) for n in answer.headers["x-shape"].split(",")]
    return np.frombuffer(answer.content, "<f4").reshape(shape)


def test_a_model_that_reads(tokenizer):
    bert = network("BERT")
    ids = tokenizer(TEXT, return_tensors="pt")["input_ids"]
    with torch.no_grad(), regard.watch(bert) as record:
        bert(ids)
    with opened(HuggingFaceReader(bert, tokenizer, "bert")) as client:
        about = client.get("/api/about").json()
        assert (about["task"], about["name"]) == ("read", "bert")
        reading = read(client, text=TEXT)
        assert reading["written"] is None
        assert reading["sides"]["target"] is None
        assert [word for word, _, _ in reading["sides"]["source"]["words"]] == WORDS
        for n, entry in enumerate(record.values()):
            assert np.array_equal(weights(client, reading, n), entry.matrix[0].numpy())
        steps = client.get("/api/steps", params={"reading": reading["id"], "entry": 1, "head": 2, "token": 4}).json()
        assert steps["q"] == pytest.approx(record["encoder.layer.1.attention.self"].call.query[0, 2, 4].numpy())
        assert steps["v"] is None
        hidden = read(client, text=TEXT, hide=[1, 5])
        assert all(weights(client, hidden, n)[..., [1, 5]].max() == 0 for n in range(2))
        (error,) = [event["error"] for event in events(client, text="A dog " * 300) if "error" in event]
        assert "at most 512 tokens" in error


@pytest.mark.parametrize("family", ["GPT-2", "Llama", "Mistral", "Gemma 2", "GPT-NeoX", "OPT"])
def test_a_model_that_writes_on(family, tokenizer):
    """What it writes is what transformers' own greedy generation writes, and its record is that of the whole text."""
    model = network(family)
    ids = tokenizer(TEXT, return_tensors="pt")["input_ids"]
    expected = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=11, do_sample=False, num_beams=1)
    with torch.no_grad(), regard.watch(model) as record:
        model(expected)
    with opened(HuggingFaceReader(model, tokenizer, family)) as client:
        assert client.get("/api/about").json()["task"] == "generate"
        said = events(client, text=TEXT, new_tokens=11)
        reading = said[-1]["reading"]
        assert reading["written"] == tokenizer.decode(expected[0, 10:], skip_special_tokens=True)
        written = [event["written"] for event in said if "written" in event]
        assert all(b.startswith(a) for a, b in pairwise(written))
        assert len(written) >= min(len(expected[0]) - 10, 11) // 4
        assert reading["prompt"] == 10
        assert reading["sides"]["source"]["count"] == expected.shape[1]
        for n, entry in enumerate(record.values()):
            assert weights(client, reading, n) == pytest.approx(entry.matrix[0].numpy(), abs=1e-5)


@pytest.mark.parametrize("family", ["GPT-2", "Llama", "OPT"])
def test_hidden_words_and_heads_that_are_off(family, tokenizer):
    """A step of the generation with a hidden word equals the whole text read at once with it hidden."""
    model = network(family)
    with opened(HuggingFaceReader(model, tokenizer, family)) as client:
        before, after = read(client, text=TEXT, new_tokens=5), read(client, text=TEXT, new_tokens=5, hide=[1, 4])
        assert all(weights(client, after, n)[:, 5:, [1, 4]].max() == 0 for n in range(2))
        ids = tokenizer(f"{TEXT} {after['written']}", return_tensors="pt")["input_ids"]
        visible = torch.ones_like(ids)
        visible[0, [1, 4]] = 0
        places = torch.arange(ids.shape[1])[None]
        with torch.no_grad():
            logits = model(input_ids=ids, attention_mask=visible, position_ids=places).logits[0]
        written = tokenizer(after["written"])["input_ids"]
        assert logits[9 : 9 + len(written)].argmax(-1).tolist() == written
        off = read(client, text=TEXT, new_tokens=5, off=[[0, 1], [1, 3]])
        names = [entry["name"] for entry in before["entries"]]
        ids = tokenizer(f"{TEXT} {off['written']}", return_tensors="pt")["input_ids"]
        with torch.no_grad(), regard.watch(model, without={names[0]: [1], names[1]: [3]}) as record:
            logits = model(ids).logits[0]
        written = tokenizer(off["written"])["input_ids"]
        assert logits[9 : 9 + len(written)].argmax(-1).tolist() == written
        assert weights(client, off, 1) == pytest.approx(record[names[1]].matrix[0].numpy(), abs=1e-5)
        assert not np.allclose(weights(client, off, 1)[:, :10, :10], weights(client, before, 1)[:, :10, :10], atol=1e-3)


@pytest.mark.parametrize("family", ["BART", "T5"])
def test_a_model_that_writes_another_text(family, tokenizer):
    model = network(family)
    ids = tokenizer(TEXT, return_tensors="pt")["input_ids"]
    expected = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=8, do_sample=False, num_beams=1)
    with torch.no_grad(), regard.watch(model) as record:
        model(input_ids=ids, decoder_input_ids=expected[:, :-1])
    with opened(HuggingFaceReader(model, tokenizer, family)) as client:
        reading = read(client, text=TEXT, new_tokens=8)
        assert reading["written"] == tokenizer.decode(expected[0], skip_special_tokens=True)
        kinds = {entry["kind"]: (entry["rows"], entry["columns"]) for entry in reading["entries"]}
        assert kinds == {"encoder": ("source", "source"), "decoder": ("read", "read"), "cross": ("target", "source")}
        tokens = tokenizer.convert_ids_to_tokens(expected[0].tolist())
        assert [token.strip() for token in reading["sides"]["target"]["tokens"]] == tokens[1:]
        assert [token.strip() for token in reading["sides"]["read"]["tokens"]] == tokens[:-1]
        for n, entry in enumerate(record.values()):
            assert weights(client, reading, n) == pytest.approx(entry.matrix[0].numpy(), abs=1e-5)
        hidden = read(client, text=TEXT, new_tokens=8, hide=[2])
        for n, entry in enumerate(hidden["entries"]):
            if entry["columns"] == "source":
                assert weights(client, hidden, n)[..., 2].max() == 0 < weights(client, hidden, n)[..., 3].max()


def test_a_head_that_cannot_be_off_is_said(tokenizer):
    with opened(HuggingFaceReader(network("ALBERT"), tokenizer, "albert")) as client:
        for off, says in (([[1, 0]], "one module for several layers"), ([[9, 0]], "no entry 9")):
            assert says in events(client, text=TEXT, off=off)[-1]["error"]
    with opened(HuggingFaceReader(network("BERT"), tokenizer, "bert")) as client:
        assert "4 heads" in events(client, text=TEXT, off=[[0, 7]])[-1]["error"]
        assert "part" in events(client, text=TEXT, part=1)[-1]["error"]
        assert "reading" in events(client, text=TEXT)[-1]  # and then it still reads


# Folders and records


def test_which_reader_a_folder_gets(tmp_path, tokenizer, tiny_translator):
    tiny_translator.save(tmp_path / "own")
    tiny_translator.to_marian(tmp_path / "marian")
    network("BERT").save_pretrained(tmp_path / "bert")
    tokenizer.save_pretrained(tmp_path / "bert")
    for name, kind in (("own", TranslatorReader), ("marian", TranslatorReader), ("bert", HuggingFaceReader)):
        reader = open_model(str(tmp_path / name))
        assert isinstance(reader, kind)
        assert reader.name == name
        with opened(reader) as client:
            assert read(client, text="The dog sees the bread .")["entries"]
    with pytest.raises(InputError, match="does not exist"):
        open_model(str(tmp_path / "nothing"))


def test_a_record(tmp_path, tokenizer):
    bert = network("BERT")
    texts = [TEXT, "the dog was hungry ."]
    with torch.no_grad(), regard.watch(bert, tokenizer=tokenizer) as record:
        bert(**tokenizer(texts, return_tensors="pt", padding=True))
    record.save(tmp_path / "two.safetensors")
    record = regard.Record.open(tmp_path / "two.safetensors")
    reader = RecordReader(record, "two")
    page = Page(reader)
    with closing(page), TestClient(page.app(), base_url="http://127.0.0.1") as client:
        about = client.get("/api/about").json()
        assert about["task"] == "record"
        reading = client.get(f"/api/reading/{about['reading']}").json()
        assert reading["text"] == TEXT.replace(" .", ".")
        assert (reading["part"]["index"], len(reading["part"]["ids"])) == (0, 2)
        other = client.get(f"/api/reading/{reading['part']['ids'][1]}").json()
        assert other["text"].startswith("the dog was hungry.")
        for n, entry in enumerate(record.values()):
            assert np.array_equal(weights(client, reading, n), entry.matrix[0].numpy())
            np.testing.assert_allclose(weights(client, other, n), entry.text(1).matrix[0].numpy(), atol=1e-6)
        answer = client.post("/api/read", json={"text": TEXT})
        assert "record" in json.loads(answer.text)["error"]


def test_a_record_without_a_matrix_is_refused(tmp_path, tokenizer):
    bert = network("BERT")
    with torch.no_grad(), regard.watch(bert, keep="summary") as record:
        bert(**tokenizer(TEXT, return_tensors="pt"))
    record.save(tmp_path / "kept.safetensors")
    with pytest.raises(InputError, match='keep="matrix"'):
        RecordReader(regard.Record.open(tmp_path / "kept.safetensors"), "kept")
    with pytest.raises(FileError):
        regard.Record.open(tmp_path / "nothing.safetensors")
