"""Records as pictures, and regard's own Transformer under watch."""

import numpy as np
import pytest
import torch

import regard
from regard.watching.record.tokens import Tokens

torch.manual_seed(0)
WORDS = ["A", "dog", "ate", "it"]


class Model(torch.nn.Module):
    """An encoder of three layers on given vectors."""

    def __init__(self):
        super().__init__()
        self.encoder = regard.Encoder(3, 16, 2, 16)

    def forward(self, x):
        return self.encoder(x)


@pytest.fixture
def record():
    model = Model().eval()
    with torch.no_grad(), regard.watch(model, tokens=WORDS) as record:
        model(torch.randn(1, 4, 16))
    return record


def test_lines_have_the_weights_of_the_record(record):
    picture = record.picture("lines", word="it", layer=1, head=0)
    expected = record.weights(layer=1, head=0).double().numpy()
    np.testing.assert_allclose(picture.numbers["weights"][0], expected, atol=1e-6)
    best = WORDS[int(expected[3].argmax())]
    assert str(picture).split("━ ")[1].split(" ")[0] == best
    assert "encoder, layer 1, head 0." in str(picture)
    assert str(record.picture("lines", word=3, layer=1, head=0)) == str(picture)
    assert str(record.picture("lines", word=-1, layer=1, head=0)) == str(picture)


def test_each_kind_draws(record, tmp_path):
    for kind in ("lines", "matrix", "grid", "flow", "map"):
        path = record.picture(kind).save(tmp_path / f"{kind}.svg")
        assert path.read_text().startswith("<svg")
    assert record.picture("grid").to_svg().count("<image") == 6
    chosen = record.picture("grid", layer=2).to_svg()
    assert "2 · 1" in chosen
    assert "0 · 1" not in chosen
    assert "1 layer, 2 heads" in chosen


def test_flow_ends_at_the_input_with_the_product_of_the_layers(record):
    total = torch.eye(4)
    for layer in range(3):
        total = record.weights(layer=layer) @ total
    best = WORDS[int(total[3].argmax())]
    line = next(line for line in str(record.picture("flow", word="it")).splitlines() if line.startswith("input"))
    assert f"{best} {100 * float(total[3].max()):.1f}"[:-2] in line


def test_a_word_that_stands_twice_stands_out_twice():
    model = Model().eval()
    with torch.no_grad(), regard.watch(model, tokens=["it", "saw", "it", "go"]) as record:
        model(torch.randn(1, 4, 16))
    assert len([line for line in str(record.picture("lines", word="it")).splitlines() if line.startswith("it")]) == 2


def test_refusals(record):
    with pytest.raises(regard.InputError, match="Got 'cake'"):
        record.picture("cake")
    with pytest.raises(regard.InputError, match=r'"cat" is not in the text\. Its words are: A dog ate it\.'):
        record.picture("lines", word="cat")
    with pytest.raises(regard.InputError, match="a map shows the whole text"):
        record.picture("map", word="it")


def test_long_texts_are_pooled(monkeypatch):
    model = Model().eval()
    with torch.no_grad(), regard.watch(model) as record:
        model(torch.randn(1, 700, 16))
    with monkeypatch.context() as refused:
        refused.setattr(regard.AttentionMatrix, "pool", lambda *_: pytest.fail("computed before it was drawn"))
        picture = record.picture("map")
    assert "700 × 700 weights in 192 × 192 cells" in picture.caption
    means = [entry.pool(192, 192)[0].double() for entry in record.values()]
    np.testing.assert_allclose(picture.numbers["pool"], torch.cat(means).mean(0).numpy(), atol=1e-9)
    assert "Tokens 0 to 40 of 700." in record.picture("lines").caption


def test_our_own_transformer():
    model = regard.Transformer(regard.TransformerConfig.tiny(40, width=32, hidden=32)).eval()
    source, target = torch.randint(1, 39, (2, 6)), torch.randint(1, 39, (2, 5))
    source[1, 4:] = 39
    with torch.no_grad():
        plain = model(source, target)
        with regard.watch(model) as record:
            watched = model(source, target)
        assert torch.equal(plain, watched)
        assert torch.equal(plain, model(source, target))
    kinds = [entry.kind for entry in record.values()]
    assert sorted(kinds) == ["cross"] * 2 + ["decoder"] * 2 + ["encoder"] * 2
    cross = record["decoder.layers.1.cross"]
    assert cross.shape == (2, 4, 5, 6)
    assert (cross[1, :, :, 4:] == 0).all()
    assert (record["decoder.layers.0.attention"][0, 0].triu(1) == 0).all()
    assert record.picture("matrix", kind="cross").numbers["weights"].shape[-2:] == (5, 6)
    with pytest.raises(regard.InputError, match="Choose kind"):
        record.picture("flow", kind="cross")


def test_knock_out_in_our_own_layers():
    model = Model().eval()
    x = torch.randn(1, 4, 16)
    with torch.no_grad():
        plain = model(x)
        with regard.watch(model, without={"encoder.layers.1.attention": [0]}):
            without = model(x)
        assert not torch.allclose(plain, without, atol=1e-3)
        assert torch.equal(plain, model(x))


@pytest.mark.parametrize("kind", ["map", "grid"])
def test_a_map_of_all_heads_is_one_sweep_over_one_sequence_for_each_layer(kind, monkeypatch):
    model = Model().eval()
    with torch.no_grad(), regard.watch(model) as record:
        model(torch.randn(3, 40, 16))
    expected = record.pool(64, 64, sequence=1).double().numpy()
    swept, pool = [], regard.AttentionMatrix.pool
    monkeypatch.setattr(
        regard.AttentionMatrix, "pool", lambda self, *sizes: swept.append(tuple(self.shape)) or pool(self, *sizes)
    )
    numbers = dict(record.picture(kind, sequence=1).numbers)
    assert swept == [(2, 40, 40)] * 3
    found = numbers["pool"] if kind == "map" else np.mean([layer.mean(0) for layer in numbers.values()], 0)
    np.testing.assert_allclose(found, expected, atol=1e-6)


class ByteTokenizer:
    """As byte-level tokenizers read: Ġ is a space, and letters outside of ASCII are bytes written as letters."""

    all_special_tokens = ()

    def convert_tokens_to_string(self, tokens):
        return {"Ġcaf": " caf", "Ã©": "é", "Ã": "\ufffd", "Ċ": "\n"}.get("".join(tokens), "".join(tokens))


def test_tokens_of_a_map_read_as_the_text():
    texts = Tokens(["Ġcaf", "Ã©", "Ċ", "Ã"], tokenizer=ByteTokenizer()).texts()
    assert texts == [" caf", "é", "\n", "Ã"]  # the last has a part of a letter only
    assert Tokens(["a", "##b", "."]).texts() == [" a", "b", "."]
    assert Tokens.numbered(3).texts() is None


def test_a_map_of_a_summary_stays_a_drawing():
    model = Model().eval()
    with torch.no_grad(), regard.watch(model, keep="summary") as record:
        model(torch.randn(1, 300, 16))
    picture = record.picture("map")
    assert picture.feed is None
    assert "<svg" in picture.to_html()
