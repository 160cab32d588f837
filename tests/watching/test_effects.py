"""What a change does: `effect` for one, `effects` for many in a batch."""

import html
import re

import pytest
import torch
from support.models import FAMILIES, WORDS, Direct, Layers, made

import regard
from regard import Link


class Letters:
    """A tokenizer that names ids."""

    all_special_tokens = ()

    def convert_ids_to_tokens(self, ids):
        return [f"w{n}" for n in ids]

    def convert_tokens_to_string(self, tokens):
        return " ".join(tokens)

    def decode(self, ids):
        return " ".join(self.convert_ids_to_tokens(ids))

    def encode(self, text, add_special_tokens=True):
        return [int(word[1:]) for word in text.split()]

    def batch_decode(self, ids, skip_special_tokens=True):
        return [self.decode(row) for row in ids.tolist()]


def _one(name):
    """The first text of a family's batch."""
    return {key: value[:1] for key, value in FAMILIES[name].inputs(None).items()}


def test_an_effect_is_the_difference_of_two_runs():
    model, inputs = made("Llama"), _one("Llama")
    link = Link("it", "ate")
    with torch.no_grad():
        plain = model(**inputs).logits
        with regard.watch(model, tokens=[WORDS], without=link):
            changed = model(**inputs).logits
    effect = regard.effect(model, inputs, without=link, tokens=WORDS)
    torch.testing.assert_close(effect.before, plain)
    torch.testing.assert_close(effect.after, changed)
    p, q = plain[0].softmax(-1), changed[0].softmax(-1)
    torch.testing.assert_close(effect.divergence[0], (p * (p / q).log()).sum(-1), atol=1e-5, rtol=1e-4)
    assert (effect.divergence[0, :6] < 1e-6).all()  # before "it" nothing changes but the last digits
    assert effect.divergence[0, 6] > 1e-4
    moved = effect.moved(6, k=20)
    assert [abs(after - before) for _, before, after in moved] == pytest.approx(
        (q[6] - p[6]).abs().topk(20).values.tolist(), abs=1e-6
    )
    for token, before, after in moved:
        assert (before, after) == pytest.approx((float(p[6, token]), float(q[6, token])), abs=1e-6)


@pytest.mark.parametrize("change", [{}, {"without": {}}, {"steer": {Link("it", "ate"): 0.0}}])
def test_no_change_has_no_effect(change):
    effect = regard.effect(made("Llama"), _one("Llama"), tokens=WORDS, **change)
    assert effect.difference < 1e-4
    assert len(effect.changes) == len(change.get("steer", ()))


def test_inputs_of_every_form(unchecked):
    torch.manual_seed(0)
    x = torch.randn(2, 6, 16)
    for inputs in (x, [x], {"x": x}):
        assert regard.effect(Layers(), inputs, without=Link(3, 1)).before.shape == (2, 6, 16)
    model, ids = regard.Transformer(regard.TransformerConfig.tiny(vocabulary=50)).eval(), torch.randint(1, 49, (1, 6))
    effect = regard.effect(model, (ids, ids), without=Link(None, 2, kind="cross"))
    assert effect.logits
    assert effect.divergence.max() > 1e-6
    with pytest.raises(regard.InputError, match="torch module"):
        regard.effect(lambda x: x, x)
    with pytest.raises(regard.InputError, match="no generate"):
        regard.effect(Layers(), x, without=Link(3, 1), generate=3)


def test_it_prints_and_draws():
    inputs = _one("Llama")
    effect = regard.effect(made("Llama"), inputs, without=Link("it", "ate"), tokens=WORDS, generate=4)
    lines = str(effect).splitlines()
    assert lines[0] == "it → ate is cut: the other weights are normalised to 1 again"
    assert "nats a token" in lines[1]
    assert re.fullmatch(r'after "\."\s+before\s+after', lines[2])
    assert re.fullmatch(r"token \d+\s+[\d.]+ %\s+[\d.]+ %", lines[3])
    assert len(lines) == 10
    assert repr(effect) == str(effect)
    page = html.unescape(effect._repr_html_())
    assert page.count("<tr>") == 1 + 10 + 3
    assert "it → ate is cut" in page
    picture = effect.picture()
    assert picture.words[:2] == ("A", "dog @1")
    assert picture.numbers["numbers"][6] == pytest.approx(float(effect.divergence[0, 6]), rel=1e-5)
    assert "in nats" in picture.caption
    hidden = regard.effect(made("BERT"), _one("BERT"), without=Link("it", "ate"), tokens=WORDS)
    assert "a vector by" in str(hidden)
    assert "as a share of its length" in hidden.picture().caption
    for ask in (lambda: hidden.divergence, hidden.moved):
        with pytest.raises(regard.InputError, match="predicts tokens"):
            ask()
    long = regard.effect(Direct(), torch.randn(1, 99, 8), without=Link(50, 3))
    assert long.picture().kind == "curves"


@pytest.mark.parametrize("options", [4, {"max_new_tokens": 4, "num_beams": 3}])
def test_the_answer_is_what_is_written_without_the_link(options):
    """Beams too: what only changes a model does not have to put steps together."""
    model, inputs = made("Llama"), _one("Llama")
    link = Link(None, 3)
    effect = regard.effect(model, inputs, without=link, tokenizer=Letters(), generate=options)
    given = {"do_sample": False, **({"max_new_tokens": options} if isinstance(options, int) else options)}
    with torch.no_grad():
        plain = model.generate(**inputs, **given)
    before, after = effect.answers
    assert before == (Letters().decode(plain[0, 12:].tolist()),)
    assert before != after
    if options == 4:
        with torch.no_grad(), regard.watch(model, without=link):
            changed = model.generate(**inputs, **given)
        assert after == (Letters().decode(changed[0, 12:].tolist()),)
    assert str(effect).endswith(f"before: {before[0]}\nafter:  {after[0]}")


def test_the_answer_of_a_translator():
    model, inputs = made("BART"), FAMILIES["BART"].inputs("right")
    effect = regard.effect(
        model,
        inputs,
        without=Link(None, slice(1, 4), kind="cross"),
        generate={"min_new_tokens": 4, "max_new_tokens": 4},
    )
    with torch.no_grad(), regard.watch(model, keep=(), without=Link(None, slice(1, 4), kind="cross")):
        ids = model.generate(input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"], min_new_tokens=4, max_new_tokens=4, do_sample=False, num_beams=1)  # fmt: skip
    assert effect.answers[1] == tuple(" ".join(map(str, row)) for row in ids[:, 1:].tolist())


# Many changes in a batch


def test_only_the_logits_that_are_compared_are_computed():
    """Of a long text, those of all tokens would take more memory than the attention."""
    model, lengths = made("Llama"), []
    model.lm_head.register_forward_hook(lambda _, inputs, output: lengths.append(output.shape[1]))
    regard.effects(model, _one("Llama"), tokens=WORDS)
    assert set(lengths) == {1}
    lengths.clear()
    regard.effects(model, _one("Llama"), tokens=WORDS, at="it")
    assert set(lengths) == {12}


@pytest.mark.parametrize("batch", [1, 3, 16])
@pytest.mark.parametrize("name", ["Llama", "BERT"])
def test_a_scan_of_heads_is_many_single_effects(name, batch):
    model, inputs = made(name), _one(name)
    found = regard.effects(model, inputs, batch=batch, tokens=WORDS)
    assert len(found) == 8
    assert [one.change for one in found] == sorted((one.change for one in found), reverse=True)
    with torch.no_grad(), regard.watch(model) as record:
        model(**inputs)
    names = {entry.layer: module for module, entry in record.items()}
    for one in found:
        effect = regard.effect(model, inputs, without={names[one.layer]: [one.head]})
        expected = effect.divergence[0, -1] if name == "Llama" else effect.moves.mean()
        assert one.change == pytest.approx(float(expected), rel=1e-3, abs=1e-6)
        if name == "Llama":
            token = int(effect.before[0, -1].argmax())
            assert found.answer == f"token {token}"
            assert one.before == pytest.approx(float(effect.before[0, -1].softmax(-1)[token]), rel=1e-4)
            assert one.after == pytest.approx(float(effect.after[0, -1].softmax(-1)[token]), rel=1e-3)


def test_a_scan_of_words_layers_and_whatever_is_named():
    model, inputs = made("Llama"), _one("Llama")
    words = regard.effects(model, inputs, "word", tokens=WORDS, batch=4)
    assert {one.name for one in words} == {
        "A",
        "dog",
        "ate",
        "the",
        "food",
        "because",
        "it",
        "was",
        "hungry",
        "dog 2",
        ".",
    }
    for one in words:
        if one.name in ("ate", "hungry"):
            span = {"ate": range(2, 3), "hungry": range(8, 10)}[one.name]
            single = regard.effect(model, inputs, without=Link(slice(span.stop, None), span))
            assert one.change == pytest.approx(float(single.divergence[0, -1]), rel=1e-3)
    named = regard.effects(
        model, inputs, {"a word": "ate", "a span": (8, 10), "a link": Link("was", "it"), "heads": {"model.layers.1.self_attn": [0, 1]},
                        "both": [Link("was", "it"), {"model.layers.0.self_attn": [2]}]}, tokens=WORDS, at="was", answer=7,
    )  # fmt: skip
    by_name = {one.name: one for one in named}
    assert set(by_name) == {"a word", "a span", "a link", "heads", "both"}
    assert by_name["a span"].change < 1e-6  # "was" is before it
    link = regard.effect(model, inputs, without=Link("was", "it"), tokens=WORDS)
    assert by_name["a link"].change == pytest.approx(float(link.divergence[0, 7]), rel=1e-3)
    assert by_name["a link"].after == pytest.approx(float(link.after[0, 7].softmax(-1)[7]), rel=1e-3)
    spelt = regard.effects(
        model, inputs, {"a link": Link("was", "it")}, tokenizer=Letters(), tokens=WORDS, at="was", answer="w7"
    )
    assert spelt[0].after == pytest.approx(by_name["a link"].after, rel=1e-3)
    layers = regard.effects(model, inputs, "layer", layers=[1])
    assert [one.name for one in layers] == ["layer 1"]
    zeroed = regard.effects(model, inputs, {"x": Link("was", "it")}, tokens=WORDS, at="was", renormalise=False)
    assert zeroed[0].change != pytest.approx(by_name["a link"].change, rel=1e-3)


def test_kinds_of_attention_are_told_apart():
    model, inputs = made("BART").double(), _one("BART")  # in float32 a divergence of 1e-4 has two digits
    found = regard.effects(model, inputs, "layer")
    assert {one.name for one in found} == {
        f"{kind}, layer {n}" for kind in ("encoder", "decoder", "cross") for n in (0, 1)
    }
    cross = regard.effects(model, inputs, "word", kind="cross", tokens=WORDS)
    assert len(cross) == 11
    single = regard.effect(model, inputs, without=Link(None, "ate", kind="cross"), tokens=WORDS)
    assert next(one.change for one in cross if one.name == "ate") == pytest.approx(
        float(single.divergence[0, -1]), rel=1e-3
    )


def test_a_scan_prints_and_draws():
    model, inputs = made("Llama"), _one("Llama")
    heads, words = (regard.effects(model, inputs, by, tokens=WORDS) for by in ("head", "word"))
    assert str(heads).splitlines()[0] == "without each head: how far the output moved"
    assert re.fullmatch(r"\s+moved  token \d+ before +after", str(heads).splitlines()[1])
    assert re.fullmatch(r"layer \d head \d\s+[\d.e-]+ nats\s+[\d.]+ %\s+[\d.]+ %", str(heads).splitlines()[2])
    assert str(words).endswith("… and 1 more")
    assert "<table" in heads._repr_html_()
    picture = heads.picture()
    assert picture.kind == "matrix"
    assert picture.numbers["weights"].shape == (2, 4)
    assert picture.numbers["weights"].max() == 1
    assert words.picture().kind == "bars"
    hidden = regard.effects(made("BERT"), _one("BERT"))
    assert "%" in str(hidden)
    assert "before" not in str(hidden)


def test_what_a_scan_refuses():
    model, inputs = made("Llama"), FAMILIES["Llama"].inputs(None)
    one = _one("Llama")
    for asked, said in (
        ((inputs,), "one text"),
        ((one, "heads"), "by must be one of"),
        ((one, "word"), "words of the text are not known"),
    ):
        with pytest.raises(regard.InputError, match=said):
            regard.effects(model, *asked)
    for asked, said in (
        ({"layers": [9]}, "no attention of layers"),
        ({"batch": 0}, "at least 1"),
        ({"answer": 1000}, "from 0 to 98"),
        ({"answer": "dog"}, "needs a tokenizer"),
        ({"answer": "", "tokenizer": Letters()}, "'' is 0 tokens"),
        ({"answer": "w7 w8", "tokenizer": Letters()}, r"'w7 w8' is 2 tokens, \[7, 8\]: give the id of one of them"),
    ):
        with pytest.raises(regard.InputError, match=said):
            regard.effects(model, one, **asked)
    with pytest.raises(regard.InputError, match="predicts no tokens"):
        regard.effects(made("BERT"), _one("BERT"), answer=3)
    with pytest.raises(regard.WatchError, match="not in the text"):
        regard.effects(model, one, {"x": Link("cat", "it")}, tokens=WORDS)
