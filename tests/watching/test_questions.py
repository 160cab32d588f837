"""The questions that a `Record` answers, each against the dense weights."""

import json
import re
from dataclasses import replace

import pytest
import torch
from support.models import FAMILIES, WORDS, Layer, made

import regard
from regard.drawing.terminal import percent
from regard.watching import see
from regard.watching.record.tokens import Tokens


def _dense(record, **chosen):
    return torch.stack([entry.to_dense() for entry in record.at(**chosen).values()])  # layers first


def test_looks_is_the_mean_row_by_word(llama):
    dense = _dense(llama)
    looks = llama.looks("it", sequence=0)
    row = dense[:, 0, :, 6].mean((0, 1))
    assert [look.weight for look in looks] == sorted((look.weight for look in looks), reverse=True)
    assert looks.of("food") == pytest.approx(float(row[4]), abs=1e-6)
    assert looks.of("hungry") == pytest.approx(float(row[8:10].sum()), abs=1e-6)
    assert sum(look.weight for look in looks) == pytest.approx(1, abs=1e-5)


def test_a_word_of_several_tokens_is_one_word(llama):
    rows = _dense(llama, layer=1, head=2)[0, 0, 0, 8:10].mean(0)
    looks = llama.looks("hungry", layer=1, head=2)
    assert looks.word == "hungry"
    assert looks.of("it") == pytest.approx(float(rows[6]), abs=1e-6)
    assert llama.looks(range(8, 10), layer=1, head=2).of("it") == pytest.approx(looks.of("it"))


def test_what_looks_at_a_word(llama):
    columns = _dense(llama)[:, 0].mean((0, 1))[:, 4]
    looks = llama.looked_at("food")
    found = {look.position: look.weight for look in looks}
    assert found[6] == pytest.approx(float(columns[6]), abs=1e-6)
    assert found[8] == pytest.approx(float(columns[8:10].mean()), abs=1e-6)  # "hungry": the mean of its two rows


def test_heads_between_two_words(llama):
    dense = _dense(llama)
    heads = llama.heads("hungry", "food")
    assert len(heads) == 8
    best = heads[0]
    want = dense[:, 0, :, 8:10, 4].mean(-1)
    assert best.weight == pytest.approx(float(want.max()), abs=1e-6)
    assert (best.layer, best.head) == tuple(torch.tensor(want.shape).new_tensor(divmod(int(want.argmax()), 4)).tolist())
    assert best.name == f"model.layers.{best.layer}.self_attn"


@pytest.mark.parametrize("sinks", [None, True])
def test_an_answer_says_what_the_words_have_that_are_not_listed(llama, sinks):
    looks = llama.looks(".", sinks=sinks)  # the last of 11 words
    assert len(looks) == 11
    rest = sum(look.weight for look in looks[5:])
    assert str(looks).endswith(f"  … and 6 others {percent(rest)}")
    assert re.findall(r"([\d.]+) %", str(looks).rpartition(":")[2])[:5] == [
        f"{100 * look.weight:.1f}".removesuffix(".0") for look in looks[:5]
    ]
    assert f"… and 1 other</td><td{_share(looks[10].weight)}" in re.sub(' style="[^"]*"', "", looks._repr_html_())
    assert "other" not in str(llama.looks("the"))  # it sees four


def test_shares_of_several_rows_have_no_sum(llama):
    assert str(llama.looked_at("A")).endswith(" %  … and 6 others")
    assert "… and 1 other</td><td></td>" in re.sub(' style="[^"]*"', "", llama.looked_at("A")._repr_html_())


def _share(weight):
    return f"><span>{percent(weight)}</span>"


def test_json_has_all_words_and_all_heads(llama, monkeypatch):
    def answers(*question):
        return json.loads(see.describe(llama, see.Question(*question), "…", as_json=True))["answers"]

    (looks,) = answers(".")
    assert [look["weight"] for look in looks["looks"]] == [look.weight for look in llama.looks(".")]
    assert "others" not in looks
    monkeypatch.setattr(see, "_ALL", 10)  # a long text, for which all would be too many
    (looks,) = answers(".")
    assert len(looks["looks"]) == 8
    assert looks["others"] == {"words": 3, "weight": sum(look.weight for look in llama.looks(".")[8:])}
    assert answers(None, "A")[0]["others"] == {"words": 3, "weight": None}
    assert len(answers("it", "A")[0]["heads"]) == 8


def test_heads_that_the_mask_keeps_from_a_word_are_not_listed(llama):
    hidden = llama.heads("food", "hungry")  # a causal model does not see what comes later
    assert len(hidden) == 0
    assert str(hidden) == "food → hungry: the mask hides it from all heads."
    assert "the mask hides it" in hidden._repr_html_()
    question = see.Question("food", "hungry")
    assert see.describe(llama, question, "…").endswith("from all heads.")
    (answer,) = json.loads(see.describe(llama, question, "…", as_json=True))["answers"]
    assert answer == {"question": "food → hungry", "heads": [], "note": "the mask hides it from all heads."}


def test_heads_of_a_layer_with_a_window_are_not_listed_beyond_it():
    model = made("Gemma 3")  # layer 0 looks back 5 tokens, layer 1 at everything
    with torch.no_grad(), regard.watch(model, tokens=WORDS) as record:
        model(torch.arange(5, 17)[None])
    near, far = record.heads("it", "the"), record.heads(".", "A")
    assert ({head.layer for head in near}, near.note) == ({0, 1}, "")
    assert ({head.layer for head in far}, far.note) == ({1}, "the mask hides it from 4 of 8 heads.")


def test_heads_that_each_have_a_mask():
    mask = torch.stack([torch.ones(4, 4), torch.eye(4)]).bool()[None]  # a token of the second head sees only itself
    with regard.watch(Layer(), tokens=["A", "dog", "ate", "it"]) as record:
        record.model(torch.randn(1, 4, 16), mask)
    assert [head.head for head in record.heads("it", "dog")] == [0]
    assert {head.head for head in record.heads("it", "it")} == {0, 1}


@pytest.mark.parametrize("habit", ["sink", "previous", "diagonal", "induction"])
@pytest.mark.parametrize("sequence", [0, 1])
def test_habits_of_heads(llama, habit, sequence):
    dense = _dense(llama)[:, sequence]
    first = 4 if sequence else 0  # the second text is padded on the left
    rows = torch.arange(first + 1, 12)
    ids = FAMILIES["Llama"].inputs("left")["input_ids"][sequence].tolist()
    if habit == "induction":
        pairs = [
            (i, max(j for j in range(first, i) if ids[j] == ids[i]) + 1)
            for i in range(first, 12)
            if ids[i] in ids[first:i]
        ]
        if not pairs:
            with pytest.raises(regard.InputError, match="twice"):
                llama.scores(habit, sequence=sequence)
            return
        rows, columns = torch.tensor(pairs).unbind(1)
    else:
        columns = {"sink": torch.full_like(rows, first), "previous": rows - 1, "diagonal": rows}[habit]
    want = dense[:, :, rows, columns].mean(-1)
    heads = llama.scores(habit, sequence=sequence)
    for head in heads:
        assert head.weight == pytest.approx(float(want[head.layer, head.head]), abs=1e-6)


def test_induction_sees_what_came_after_the_same_token():
    model = made("Llama")
    ids = torch.tensor([[5, 6, 7, 8, 5, 6, 7, 8]])
    with torch.no_grad(), regard.watch(model) as record:
        model(ids)
    want = _dense(record)[:, 0][:, :, [4, 5, 6, 7], [1, 2, 3, 4]].mean(-1)
    assert record.scores("induction")[0].weight == pytest.approx(float(want.max()), abs=1e-6)


def test_spans_are_sums_over_keys_and_means_over_queries(llama):
    mean = _dense(llama)[:, 0].mean((0, 1))
    spans = llama.spans({"animal": "A dog", "food": (3, 5), "it": 6})
    assert spans["it"]["animal"] == pytest.approx(float(mean[6, :2].sum()), abs=1e-6)
    assert spans["food"]["food"] == pytest.approx(float(mean[3:5, 3:5].sum(-1).mean()), abs=1e-6)
    words = llama.spans("word")
    assert words.names[-3:] == ("hungry", "dog 2", ".")
    assert words["hungry"]["it"] == pytest.approx(float(mean[8:10, 6].mean()), abs=1e-6)
    assert llama.spans("sentence").names == ("A dog ate the food because it was hungr…",)


def test_printed_spans_are_blank_where_the_mask_hides(llama):
    spans = llama.spans({"first": (0, 4), "rest": (4, 12)})
    printed = str(spans).splitlines()
    assert printed[-2].split() == ["first", "100", "%"]
    assert printed[-1].count("%") == 2


def test_spans_of_a_chat():
    turns = ["<|im_start|>", "user", "Hi", "<|im_end|>", "<|im_start|>", "assistant", "Hello", "."]
    with regard.watch(Layer(), tokens=turns) as record:
        record.model(torch.randn(1, 8, 16))
    spans = record.spans("message")
    with regard.watch(Layer(), tokens=turns[1:3]) as plain:
        plain.model(torch.randn(1, 2, 16))
    with pytest.raises(regard.InputError, match=r"no message begins in this text: none of .*im_start"):
        plain.spans("message")
    assert spans.names == ("user", "assistant")
    assert torch.allclose(spans.weights.sum(-1), torch.ones(2))


def test_rollout_is_a_row_of_the_product_of_layers(llama):
    eye = torch.eye(12)
    product = eye
    for layer in _dense(llama)[:, 0].mean(1):
        product = (eye + layer) / 2 @ product
    rolled = llama.rollout("it").own
    assert rolled.of("food") == pytest.approx(float(product[6, 4]), abs=1e-5)
    assert rolled.of("hungry") == pytest.approx(float(product[6, 8:10].sum()), abs=1e-5)
    assert sum(look.weight for look in rolled) == pytest.approx(1, abs=1e-5)


def test_rollout_reaches_the_source_of_a_translation(bart):
    rolled = bart.rollout(2)
    total = sum(look.weight for look in rolled.own) + sum(look.weight for look in rolled.source)
    assert total == pytest.approx(1, abs=1e-4)
    assert {look.word for look in rolled.source} >= {"dog", "hungry"}


def test_kinds_and_lengths(bart):
    assert {entry.kind for entry in bart.values()} == {"encoder", "decoder", "cross"}
    assert bart["model.decoder.layers.1.encoder_attn"].shape == (2, 4, 5, 12)
    assert bart.looks(2, kind="cross")[0].word in {
        w.text for w in bart["model.encoder.layers.0.self_attn"].tokens[0].words
    }
    with pytest.raises(regard.InputError, match="choose kind"):
        bart.looks("it")


def test_slices_and_means(llama):
    dense = _dense(llama)
    assert len(llama.at(layer=1)) == 1
    one = llama.at(layer=1, head=3)["model.layers.1.self_attn"]
    assert one.heads == range(3, 4)
    torch.testing.assert_close(one.to_dense()[:, 0], dense[1, :, 3])
    assert llama.at(head=slice(1, 3)).at(head=2).heads("it", "dog ate")[0].head == 2
    torch.testing.assert_close(llama.weights(), dense[:, 0].mean((0, 1)))
    torch.testing.assert_close(
        llama.weights(layer=0, sequence=1), dense[0, 1, :, 4:, 4:].mean(0)
    )  # without the padding before it
    torch.testing.assert_close(llama.pool(12, 12), dense[:, 0].mean((0, 1)))
    assert llama.pool(3, 4).shape == (3, 4)


def test_check_compares_with_the_plain_computation(llama, bart, capsys):
    found = llama.check()
    assert "8 heads, 2 calls" in capsys.readouterr().out
    assert found.difference < 1e-6
    assert found.row_sum < 1e-5
    assert bart.check().difference < 1e-6
    for name in ("GPT-OSS", "Gemma 2", "T5"):  # sinks; softcap and windows; position bias
        model = made(name)
        with torch.no_grad(), regard.watch(model) as record:
            model(**FAMILIES[name].inputs("right"))
        assert record.check().difference < 2e-6
        narrow = record.at(head=slice(1, 3), kind="decoder").check()
        assert narrow.difference < 2e-6
        assert narrow.heads == 4


def test_check_sees_a_wrong_matrix(llama):
    name = "model.layers.0.self_attn"
    entry = llama[name]
    wrong = replace(entry, call=replace(entry.call, scale=0.9 * entry.call.scale))
    assert regard.Record([{name: wrong}]).check().difference > 1e-3


# Words


def test_words_of_several_tokenizers():
    words = lambda pieces, special=(): [w.text for w in Tokens(pieces, special).words]  # noqa: E731
    assert words(["[CLS]", "hun", "##gry", "dog"], ["[CLS]"]) == ["[CLS]", "hungry", "dog"]
    assert words(["▁hun", "gry", "▁dog", ".", "</s>"], ["</s>"]) == ["hungry", "dog", ".", "</s>"]
    assert words(["hun", "gry", "Ġdog", "'", "s", "Ċ", "The"]) == ["hungry", "dog", "'", "s", "↵", "The"]
    assert words(["A", "dog"]) == ["A", "dog"]


def test_a_word_is_found_or_the_error_says_why(llama):
    with pytest.raises(regard.InputError, match=r'"cat" is not in the text. Its words are: A dog ate'):
        llama.looks("cat")
    with pytest.raises(regard.InputError, match=r'"dog" occurs 2 times.* "A \[dog\] ate the" \(token 1\), '):
        llama.spans({"dog": "dog"})
    assert llama.looks("IT").of("food") == llama.looks("it").of("food")
    assert llama.looks("the food").of("A") == pytest.approx(llama.looks(range(3, 5)).of("A"))
    with pytest.raises(regard.InputError, match="from 0 to 11"):
        llama.looks(12)
    with pytest.raises(regard.InputError, match="2 sequences"):
        llama.looks("it", sequence=2)
    with regard.watch(Layer()) as record:
        record.model(torch.randn(1, 4, 16))
    with pytest.raises(regard.InputError, match="tokenizer="):
        record.looks("it")
    assert record.looks(2).word == "2"


def test_names_that_were_not_seen(llama):
    with pytest.raises(KeyError, match="was not seen"):
        llama["layers.0"]
    with pytest.raises(regard.InputError, match=r"decoder layers 0, 1\. Layers also count back from -1"):
        llama.at(layer=7)
    with pytest.raises(regard.InputError, match=r"^nothing was seen of kind = cross\. There are decoder layers 0, 1"):
        llama.at(kind="cross")
    with pytest.raises(regard.InputError, match="heads 0 to 3"):
        llama.looks("it", head=9)


class _Numbers:
    """A tokenizer whose words are numbers."""

    all_special_tokens = ("<0>", "<1>", "<2>")

    def __call__(self, text, return_tensors, verbose):
        assert not verbose  # of a text that is too long, regard says so
        return {"input_ids": torch.tensor([[int(word) for word in text.split()]])}

    def convert_ids_to_tokens(self, ids):
        return [f"<{n}>" if n < 3 else f"▁{n}" for n in ids]

    def convert_tokens_to_string(self, pieces):
        return "".join(pieces).replace("▁", " ")


def test_cross_attention_of_any_translator_is_asked_by_the_word_that_is_written(monkeypatch):
    model = made("BART")
    ids = model.generate(torch.tensor([[5, 6, 7, 8, 2]]), max_new_tokens=64, num_beams=1, do_sample=False)[0].tolist()
    monkeypatch.setattr(see, "load", lambda *_, **__: (model, _Numbers()))
    record = see.watch_text("…", "5 6 7 8 2")
    cross, own = (next(entry for entry in record.values() if entry.kind == kind) for kind in ("cross", "decoder"))
    assert list(cross.tokens[0]) == _Numbers().convert_ids_to_tokens(ids[1:])
    assert list(own.tokens[0]) == _Numbers().convert_ids_to_tokens(ids[:-1])
    looks = record.looks(0, kind="cross")
    assert [each.name for each in looks.aside] == ["<2>"]  # the end of the source is no word of it
    assert {look.word for look in looks} == {"5", "6", "7", "8"}
