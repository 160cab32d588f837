"""Attention sinks: which tokens they are, and what the answers and pictures say without them."""

import numpy as np
import pytest
import torch
from support.models import FAMILIES, made

import regard
from regard.matrix import AttentionMatrix
from regard.watching.questions import sinks as measured
from regard.watching.see import Question, describe

WORDS = ["A", "dog", "ate", "the", "food", "because", "it", "was", "hungry"]
WIDTH = 16


class Layer(torch.nn.Module):
    """Four heads on given queries and keys."""

    heads, kind, attend = 4, "decoder", staticmethod(regard.attention)

    def forward(self, query, key, mask):
        return self.attend(query, key, key, mask=mask)


class Model(torch.nn.Module):
    def __init__(self, layers=2):
        super().__init__()
        self.layers = torch.nn.ModuleList(Layer() for _ in range(layers))

    def forward(self, sink, length, mask, strength):
        """Random attention; all queries have a direction in common, and so has the key of the sink."""
        generator = torch.Generator().manual_seed(0)
        for layer in self.layers:
            query, key = torch.randn(2, 1, 4, length, WIDTH, generator=generator)
            query[..., 0] = 4.0
            key[..., 0] = 0.0
            key[..., sink, 0] = strength
            layer(query, key, mask)


def _record(sink=0, *, words=WORDS, mask=None, strength=4.0):
    model = Model()
    with torch.no_grad(), regard.watch(model, tokens=words) as record:
        model(sink, len(words), regard.causal() if mask is None else mask, strength)
    return record


def _mean(record):
    return torch.stack([entry.to_dense()[0].mean(0) for entry in record.values()])


def test_the_first_token_is_set_aside_and_what_is_left_are_shares_of_the_rest():
    record = _record()
    row = _mean(record).mean(0)[6]
    looks = record.looks("it")
    assert [(each.name, each.word, each.position) for each in looks.aside] == [('the first token ("A")', "A", 0)]
    assert looks.aside[0].weight == pytest.approx(float(row[0]), abs=1e-6)
    assert looks.of("dog") == pytest.approx(float(row[1] / row[1:].sum()), abs=1e-6)
    assert sum(look.weight for look in looks) == pytest.approx(1, abs=1e-5)
    share = f"{100 * float(row[0]):.3g} %"
    assert str(looks).startswith(f'it: {share} rests on the first token ("A"); of the rest: ━')
    assert f"{share} rests on the first token (&quot;A&quot;); of the rest" in looks._repr_html_()
    with pytest.raises(regard.InputError, match="'A' was set aside as an attention sink"):
        looks.of("A")


def test_the_plain_numbers_are_one_argument_away():
    record = _record()
    row = _mean(record).mean(0)[6]
    looks = record.looks("it", sinks=True)
    assert looks.of("A") == pytest.approx(float(row[0]), abs=1e-6)
    assert looks.of("dog") == pytest.approx(float(row[1]), abs=1e-6)
    assert not looks.aside
    assert "rests" not in str(looks)
    assert record.heads("it", "dog")[0].weight == pytest.approx(float(_mean_head(record, 6, 1).max()), abs=1e-6)


def _mean_head(record, row, column):
    return torch.stack([entry[0, :, row, column] for entry in record.values()])


def test_a_single_head_is_shown_as_it_is():
    record = _record()
    assert record.looks("it", layer=1, head=2).of("A") == pytest.approx(float(_mean_head(record, 6, 0)[1, 2]), abs=1e-6)
    aside = record.looks("it", layer=1, head=2, sinks=False).aside
    assert [each.word for each in aside] == ["A"]  # a sink of the whole record, not of this head
    assert record.at(layer=1).looks("it").aside


def test_a_word_that_sees_only_the_sink_has_no_rest():
    looks = _record().looks("A")
    assert not len(looks)
    assert str(looks) == 'A: 100 % rests on the first token ("A")'


def test_sinks_are_found_where_they_are():
    looks = _record(3, mask=regard.causal() & regard.bias(torch.zeros(9, 9))).looks("it")
    assert [each.name for each in looks.aside] == ['"the" (token 3)']
    numbered = Model()
    with torch.no_grad(), regard.watch(numbered) as record:
        numbered(3, 9, regard.window(8, 8), 4.0)
    assert str(record.looks(6)).startswith("6: ")
    assert [each.name for each in record.looks(6).aside] == ["token 3"]


def test_no_word_is_called_a_sink_without_cause(llama):
    assert not llama.looks("it").aside
    assert not _record(strength=0.0).looks("it").aside  # random attention
    for length in (1, 2, 3):
        assert not _record(words=WORDS[:length], strength=0.0).looks(length - 1).aside
    # The first row of a causal model sees one key, the second two: they tell nothing.
    assert not _record(words=WORDS[:2]).looks("dog").aside
    assert _record(words=WORDS[:3]).looks("ate").aside


def test_few_heads_have_no_sinks():
    """A head that always looks at the verb is a head that finds the verb."""
    model = Model(layers=1)
    with torch.no_grad(), regard.watch(model, tokens=WORDS) as record:
        model(2, 9, regard.window(8, 8), 4.0)
    assert record.looks("it").aside
    assert not regard.Record([dict(record.at(head=slice(0, 3)))]).looks("it").aside


def test_long_texts_are_measured_once_in_few_rows(monkeypatch):
    model, seen, top = Model(), [], AttentionMatrix.top
    monkeypatch.setattr(AttentionMatrix, "top", lambda self, k: seen.append(tuple(self.shape)) or top(self, k))
    monkeypatch.setattr(AttentionMatrix, "to_dense", lambda self: pytest.fail("queries × keys"))
    with torch.no_grad(), regard.watch(model) as record:
        model(0, 3000, regard.causal(), 6.0)
    assert [each.position for each in record.looks(2999).aside] == [0]
    record.looks(1500, layer=1)
    record.looked_at(7)
    record.rollout(2000)
    assert seen == [(1, 4, 32, 3000)] * 2


def test_the_same_pair_of_words_has_one_number():
    record = _record()
    for sinks in (None, True):
        for word in ("food", "hungry"):
            given = record.looks(word, sinks=sinks).of("dog")
            assert record.looked_at("dog", sinks=sinks).of(word) == pytest.approx(given, abs=1e-6)
    assert " on average; of the rest: ━" in str(record.looked_at("dog"))
    assert not record.looked_at("A").aside  # what looks at the sink is what was asked


def test_what_rests_on_a_sink_stays_in_rollout():
    record = _record()
    eye = product = torch.eye(9)
    for layer in _mean(record):
        stays = layer[:, 0].diag()
        rest = layer.clone()
        rest[:, 0] = 0
        product = (eye + stays + rest) / 2 @ product
    rolled = record.rollout("hungry").own
    for position, word in enumerate(WORDS):
        if word != "A":
            assert rolled.of(word) == pytest.approx(float(product[8, position]), abs=1e-5)
    assert sum(look.weight for look in rolled) == pytest.approx(1, abs=1e-5)
    assert "rests on the first token" in str(rolled)
    classic = eye
    for layer in _mean(record):
        classic = (eye + layer) / 2 @ classic
    assert record.rollout("hungry", sinks=True).own.of("A") == pytest.approx(float(classic[8, 0]), abs=1e-5)


def test_lines_without_the_sink():
    record = _record()
    mean = _mean(record).mean(0)
    picture = record.picture("lines", word="it")
    rest = mean[:, 1:] / mean[:, 1:].sum(-1, keepdim=True).clamp_min(1e-9)
    np.testing.assert_allclose(picture.numbers["weights"][0], rest.numpy(), atol=1e-5)
    share = f"{100 * float(mean[6, 0]):.3g} %"
    assert f'{share} of "it" rests on the first token ("A"); lines are shares of the rest.' in picture.caption
    plain = record.picture("lines", word="it", sinks=True)
    np.testing.assert_allclose(plain.numbers["weights"][0], mean.numpy(), atol=1e-6)
    assert "rests" not in plain.caption


def test_flow_without_the_sink():
    record = _record()
    drawn = record.picture("flow", word="hungry")
    total = torch.eye(8)
    for n, layer in enumerate(_mean(record)):
        layer = layer[1:, 1:] + layer[1:, 0].diag()
        np.testing.assert_allclose(drawn.numbers[f"layer {n}"], layer.numpy(), atol=1e-5)
        total = layer @ total
    assert 'rests on the first token ("A") and stays where it is.' in drawn.caption
    assert record.picture("flow", word="hungry", sinks=True).numbers["layer 1"].shape == (9, 9)
    assert record.picture("flow", word="A").numbers["layer 1"].shape == (9, 9)  # the way of the sink itself


def test_sinks_of_the_model_itself_are_named():
    model = made("GPT-OSS")
    with torch.no_grad(), regard.watch(model) as record:
        model(**FAMILIES["GPT-OSS"].inputs(None))
    entry = next(iter(record.values()))
    plain, looks = record.looks(5, layer=entry.layer, sinks=True), record.looks(5, layer=entry.layer)
    own = float(entry.matrix.sink_share[0, :, 5].mean())
    assert looks.aside[-1].name == "the model's own sinks"
    assert looks.aside[-1].weight == pytest.approx(own, abs=1e-5)
    assert sum(look.weight for look in plain) == pytest.approx(1 - own, abs=1e-5)
    assert sum(look.weight for look in looks) == pytest.approx(1, abs=1e-5)
    other = record.looked_at(2, layer=entry.layer)  # the same pair has one number
    assert other.aside[-1].name == "the model's own sinks"
    assert other.of("5") == pytest.approx(looks.of("2"), abs=1e-5)
    assert other.of("5") != pytest.approx(plain.of("2"), rel=0.01)


def test_rows_of_padding_do_not_say_what_a_sink_is():
    """Half of the rows are padding, and give all they have to one word; those of the text look at themselves."""

    class Padded(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = torch.nn.ModuleList([Layer()])

        def forward(self, key):
            query = 9 * key.clone()
            query[..., 5:, :] = 9 * key[..., 2:3, :]
            return self.layers[0](query, key, regard.padding([5]))

    with torch.no_grad(), regard.watch(Padded(), tokens=WORDS) as record:
        record.model(torch.eye(9, WIDTH)[None, None].expand(1, 4, 9, WIDTH))
    assert float(record["layers.0"].matrix[0, :, 5:, 2].min()) > 0.6
    assert not record.looks("dog", sinks=False).aside


def test_special_tokens_are_named_by_themselves():
    keys = regard.watching.record.tokens.Tokens(
        ["[CLS]", "Photo", "##syn", "[UNK]", "[SEP]"], ["[CLS]", "[SEP]", "[UNK]"]
    )
    names = [each.name for each in measured.named(range(5), [0.1] * 5, keys)]
    assert names == ["[CLS]", '"Photo" (token 1)', '"##syn" (token 2)', '"[UNK]" (token 3)', "[SEP]"]
    assert measured.sentence(measured.named([0, 4], [0.5, 0.125], keys)) == "50 % rests on [CLS], 12.5 % on [SEP]"


def test_what_is_said_on_the_command_line():
    record = _record()
    text = describe(record, Question(start="it"), "…")
    assert "it looks at: " in text
    assert 'rests on the first token ("A"); of the rest: ━' in text
    assert '"aside": [' in describe(record, Question(start="it"), "…", as_json=True)
    plain = describe(record, Question(start="it", sinks=True), "…")
    assert "it looks at: ━" in plain
    assert "rests" not in plain


def test_rollout_of_a_word_of_the_source(shipped):
    rolled = shipped.translate("A dog ate the food because it was hungry.").watch().rollout("it")
    assert rolled.source is None
    assert "dog" in [look.word for look in rolled.own]
