"""Links cut and steered while a model runs: equal to eager attention with an edited mask."""

import pytest
import torch
from support.eager import Edit, attend, edited
from support.models import FAMILIES, WORDS, Direct, Layers, made
from torch import nn

import regard
from regard import Link

END = 2**40
FAMILIES_WITH_LINKS = ["BERT", "GPT-2", "Llama", "Mistral", "Gemma 2", "GPT-OSS", "T5", "BART"]
IT, DOG, ANOTHER_DOG = range(6, 7), range(1, 2), range(10, 11)
# What is given to watch, and the same as edits of a dense matrix; "dog" is there twice.
CHANGES = {
    "a word": ({"without": Link("it", "dog")}, [Edit(IT, DOG), Edit(IT, ANOTHER_DOG)]),
    "numbers": ({"without": Link(slice(4, None), 2)}, [Edit(range(4, END), range(2, 3))]),
    "from all": ({"without": Link(None, "[dog] ate")}, [Edit(range(END), DOG)]),
    "to all": ({"without": Link("it", None)}, [Edit(IT, range(END))]),
    "some heads of a layer": (
        {"without": Link("it was", "the food", layers=-1, heads=[0, 3])},
        [Edit(range(6, 8), range(3, 5), heads=(0, 3), layers=(1,))],
    ),
    "several": (
        {"without": [Link("it", "food"), Link(9, 4, heads=2)]},
        [Edit(IT, range(4, 5)), Edit(range(9, 10), range(4, 5), heads=(2,))],
    ),
    "the token before": ({"without": Link(back=1)}, [Edit(range(END), range(END), back=range(1, 2))]),
    "far away, in a head": (
        {"without": Link(slice(5, None), back=slice(4, None), heads=1)},
        [Edit(range(5, END), range(END), heads=(1,), back=range(4, END))],
    ),
    "zeroed": (
        {"without": [Link("it", "[dog] ate"), Link(None, 3, heads=2)], "renormalise": False},
        [Edit(IT, DOG, zeroed=True), Edit(range(END), range(3, 4), heads=(2,), zeroed=True)],
    ),
    "steered": (
        {"steer": {Link("it", "[dog] ate"): 3.0, Link("it", None, heads=[1]): -1.0, Link(None, "food"): -2.5}},
        [Edit(IT, DOG, bias=3.0), Edit(IT, range(END), heads=(1,), bias=-1.0), Edit(range(END), range(4, 5), bias=-2.5)],
    ),
    "both": (
        {"without": Link("was", "it"), "steer": {Link("was", "ate"): 1.5}},
        [Edit(range(7, 8), IT), Edit(range(7, 8), range(2, 3), bias=1.5)],
    ),
}  # fmt: skip


def _compared(record, seen, inputs):
    """Every weight of the record is that of the edited eager attention; rows of padding aside."""
    real = inputs["attention_mask"].bool()
    for name, expected in seen.items():
        entry, rows = record[name], torch.ones(2, expected.shape[2], dtype=torch.bool)
        if entry.kind != "cross" and real.shape[1] <= expected.shape[2]:
            rows[:, : real.shape[1]] = real
        found = entry.to_dense().movedim(1, 2)[rows]
        torch.testing.assert_close(found, expected.movedim(1, 2)[rows], atol=2e-4, rtol=1e-4)  # T5's scores are large


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("name", FAMILIES_WITH_LINKS)
def test_a_model_without_links_is_eager_attention_with_an_edited_mask(name, change):
    model, inputs = made(name), FAMILIES[name].inputs("right")
    asked, edits = CHANGES[change]
    if name in ("T5", "BART"):  # of three kinds: the encoder has these words
        asked = {k: _of_kind(value, "encoder") for k, value in asked.items()}
        edits = [Edit(**{**vars(edit), "kind": "encoder"}) for edit in edits]
    with torch.no_grad():
        plain = model(**inputs)[0]
        with edited(model, edits) as seen:
            expected = model(**inputs)[0]
        with regard.watch(model, tokens=[WORDS, WORDS], **asked) as record:
            found = model(**inputs)[0]
        again = model(**inputs)[0]
    real = inputs["attention_mask"].bool() if name not in ("T5", "BART") else slice(None)
    torch.testing.assert_close(found[real], expected[real], atol=5e-4, rtol=1e-4)
    assert (found[real] - plain[real]).abs().max() > 1e-3 or (name, change) == (
        "Mistral",
        "a word",
    )  # out of its window
    assert torch.equal(again, plain)
    _compared(record, {module: weights[-1] for module, weights in seen.items()}, inputs)
    assert record.check().difference < 1e-5
    said = repr(record)
    assert ("stay as they are" in said) == ("renormalise" in asked)
    assert "Changed: " in said


def _of_kind(value, kind):
    def one(link):
        return Link(link.start, link.end, link.back, link.layers, link.heads, kind)

    if isinstance(value, dict):
        return {one(link): bias for link, bias in value.items()}
    if isinstance(value, list):
        return [one(link) for link in value]
    return one(value) if isinstance(value, Link) else value


@pytest.mark.parametrize("name", ["BART", "T5"])
@pytest.mark.parametrize("renormalise", [True, False])
def test_links_of_cross_attention(name, renormalise):
    model, inputs = made(name), FAMILIES[name].inputs("right")
    links = [
        Link(3, 2, kind="cross"),
        Link(None, slice(4, 6), kind="cross", heads=[1]),
        Link(slice(2, None), 0, kind="decoder"),
    ]
    edits = [
        Edit(range(3, 4), range(2, 3), kind="cross", zeroed=not renormalise),
        Edit(range(END), range(4, 6), kind="cross", heads=(1,), zeroed=not renormalise),
        Edit(range(2, END), range(1), kind="decoder", zeroed=not renormalise),
    ]
    with torch.no_grad():
        with edited(model, edits) as seen:
            expected = model(**inputs)[0]
        with regard.watch(model, without=links, renormalise=renormalise) as record:
            found = model(**inputs)[0]
    torch.testing.assert_close(found, expected, atol=5e-4, rtol=1e-4)
    _compared(record, {module: weights[-1] for module, weights in seen.items()}, inputs)


# Generation with a cache

STEPS = 6


@pytest.mark.parametrize("change", ["a word", "numbers", "from all", "the token before", "zeroed", "steered"])
@pytest.mark.parametrize("name", ["GPT-2", "Llama", "Mistral"])
def test_generation_goes_on_without_the_link(name, change):
    model, inputs = made(name), FAMILIES[name].inputs(None)
    asked, edits = CHANGES[change]
    options = {"max_new_tokens": STEPS, "min_new_tokens": STEPS, "do_sample": False}
    with torch.no_grad():
        with edited(model, edits) as seen:  # without a cache: the last call has the whole text
            expected = model.generate(**inputs, **options, use_cache=False)
        with regard.watch(model, tokens=[WORDS, WORDS], **asked) as record:
            found = model.generate(**inputs, **options)
    assert torch.equal(found, expected)
    assert len(record.passes) == 1
    _compared(record, {module: weights[-1] for module, weights in seen.items()}, inputs)
    assert record.check().difference < 2e-6


def test_a_translator_writes_without_a_word_of_its_source():
    model, inputs = made("BART"), FAMILIES["BART"].inputs("right")
    del inputs["decoder_input_ids"]
    options = {"max_new_tokens": STEPS, "min_new_tokens": STEPS, "do_sample": False, "num_beams": 1}
    with torch.no_grad():
        with edited(model, [Edit(range(END), DOG, kind="cross")]) as seen:
            expected = model.generate(**inputs, **options, use_cache=False)
        with regard.watch(model, tokens=[WORDS, WORDS], without=Link(None, "[dog] ate", kind="cross")) as record:
            found = model.generate(**inputs, **options)
    assert torch.equal(found, expected)
    _compared(record, {module: weights[-1] for module, weights in seen.items()}, inputs)
    assert record.looked_at("[dog] ate", kind="cross").note == "the mask hides it: nothing looks at it."


# Regard's own layers, and torch's


@pytest.mark.parametrize("renormalise", [True, False])
@pytest.mark.parametrize(
    "make",
    [lambda: Layers(), lambda: _MultiHead(False), lambda: _MultiHead(True)],
    ids=["ours", "torch", "torch, with weights"],
)
def test_layers_of_other_kinds(make, renormalise):
    torch.manual_seed(0)
    model, x = make().eval(), torch.randn(2, 6, 16)
    links = [Link("c", "a", heads=[1]), Link(None, 4)]
    edits = [
        Edit(range(2, 3), range(1), heads=(1,), zeroed=not renormalise),
        Edit(range(END), range(4, 5), zeroed=not renormalise),
    ]
    with (
        torch.no_grad(),
        regard.watch(model, tokens=[list("abcdef")] * 2, without=links, renormalise=renormalise) as record,
    ):
        found = model(x)
    expected = model.eager(x, edits) if isinstance(model, _MultiHead) else _ours_eager(model, x, edits)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)
    assert record.check().difference < 2e-6
    assert not torch.allclose(model(x), expected, atol=1e-3)


def _ours_eager(model, x, edits):
    def eager(query, key, value, **_):
        return attend(query @ key.mT * query.shape[-1] ** -0.5, value, edits, 0)[0]

    with torch.no_grad():
        for layer in model.layers:
            layer.attend = eager
        try:
            return model(x)
        finally:
            for layer in model.layers:
                layer.attend = regard.attention


class _MultiHead(nn.Module):
    def __init__(self, weights):
        super().__init__()
        self.attention, self.weights = nn.MultiheadAttention(16, 2, batch_first=True), weights

    def forward(self, x):
        mixed, self.seen = self.attention(x, x, x, need_weights=self.weights, average_attn_weights=False)
        return mixed

    def eager(self, x, edits):
        query, key, value = nn.functional.linear(x, self.attention.in_proj_weight, self.attention.in_proj_bias).chunk(
            3, -1
        )
        query, key, value = (t.unflatten(-1, (2, 8)).transpose(1, 2) for t in (query, key, value))
        mixed, weights = attend(query @ key.mT * 8**-0.5, value, edits, 0)
        if self.weights:
            torch.testing.assert_close(self.seen, weights, atol=1e-5, rtol=1e-4)
        return self.attention.out_proj(mixed.transpose(1, 2).flatten(2))


def test_a_model_that_calls_torchs_function():
    model, x = Direct(), torch.randn(2, 7, 8)
    with regard.watch(model, without=Link(5, slice(1, 3), heads=[0])) as record:
        found = model(x)
    query = x.unflatten(-1, (2, 4)).transpose(1, 2)
    scores = (query @ query.mT / 2).masked_fill(~torch.ones(7, 7).tril().bool(), -torch.inf)
    expected, _ = attend(scores, query, [Edit(range(5, 6), range(1, 3), heads=(0,))], 0)
    torch.testing.assert_close(found, expected.transpose(1, 2).flatten(2))
    assert record[""][0, 0, 5, 1:3].sum() == 0


def test_our_transformer_token_by_token():
    torch.manual_seed(0)
    model = regard.Transformer(regard.TransformerConfig.tiny(vocabulary=50)).eval()
    source, target = torch.randint(1, 49, (2, 7)), torch.randint(1, 49, (2, 5))
    links = [Link(None, 3, kind="cross"), Link(slice(2, None), 0, kind="decoder", layers=0), Link(4, 2, kind="encoder")]
    with torch.no_grad():
        plain = model(source, target)
        with regard.watch(model, without=links) as whole:
            expected = model(source, target)
        with regard.watch(model, without=links) as record:
            memory, cache = model.encode(source), model.cache()
            steps = [model.decode(target[:, i : i + 1], memory, cache) for i in range(5)]
    torch.testing.assert_close(torch.cat(steps, 1), expected, atol=1e-4, rtol=1e-4)
    assert (expected - plain).abs().max() > 1e-3
    for name, entry in whole.items():
        torch.testing.assert_close(record[name].to_dense(), entry.to_dense(), atol=1e-5, rtol=1e-4)
        column = {"cross": 3, "encoder": 2, "decoder": 0}[entry.kind]
        hidden = entry.to_dense()[
            :, :, {"cross": slice(None), "encoder": 4, "decoder": slice(2, None)}[entry.kind], column
        ]
        assert (hidden.sum() == 0) == (entry.kind != "decoder" or entry.layer == 0)


@pytest.mark.parametrize("reentrant", [False, True])
def test_links_have_gradients_and_checkpoints_recompute_them(reentrant):
    model, inputs = made("Llama").train(), FAMILIES["Llama"].inputs(None)

    def gradient(checkpoint):
        model.zero_grad()
        if checkpoint:
            model.gradient_checkpointing_enable({"use_reentrant": reentrant})
            model.enable_input_require_grads()
        with regard.watch(model, without=[Link(6, 2, layers=0), Link(8, 1, layers=1)]):
            model(**inputs, labels=inputs["input_ids"]).loss.backward()
        return model.model.layers[0].self_attn.q_proj.weight.grad.clone()

    torch.testing.assert_close(gradient(False), gradient(True), atol=1e-5, rtol=1e-4)


# To a file, and what is refused


@pytest.mark.parametrize("change", ["several", "far away, in a head", "zeroed", "steered"])
def test_saved_and_opened(tmp_path, change):
    model, inputs = made("Llama"), FAMILIES["Llama"].inputs("right")
    with torch.no_grad(), regard.watch(model, tokens=[WORDS, WORDS], **CHANGES[change][0]) as record:
        model(**inputs)
    record.save(tmp_path / "record.safetensors")
    again = regard.Record.open(tmp_path / "record.safetensors")
    assert again.changes == record.changes != ()
    for name, entry in record.items():
        torch.testing.assert_close(again[name].to_dense(), entry.to_dense())
    assert "Changed: " in record.picture("lines", word="it", layer=0).caption


def test_links_in_texts_that_differ():
    """A word is cut in each text of a batch where it stands there; a text without it is not changed."""
    model, inputs = made("Llama"), FAMILIES["Llama"].inputs(None)
    texts = [WORDS, [*WORDS[1:], "dog"]]
    with torch.no_grad():
        plain = model(**inputs).logits
        with regard.watch(model, tokens=texts, without=Link("was", "A")):
            only_first = model(**inputs).logits
        with regard.watch(model, tokens=texts, without=Link("was", "ate")) as record:
            model(**inputs)
    torch.testing.assert_close(only_first[1], plain[1], atol=1e-5, rtol=1e-4)
    assert (only_first[0] - plain[0]).abs().max() > 1e-3
    entry = record["model.layers.0.self_attn"]
    assert entry[0, :, 7, 2].sum() == entry[1, :, 6, 1].sum() == 0
    assert entry[1, :, 7, 2].sum() > 0


def test_what_is_refused(unchecked):
    model, inputs = made("Llama"), FAMILIES["Llama"].inputs(None)

    def run(**asked):
        with torch.no_grad(), regard.watch(model, tokens=[WORDS, WORDS], **asked):
            model(**inputs)

    for asked, said in (
        ({"without": Link("it", "cat")}, '"cat" is not in the text'),
        ({"without": Link("it", "dog", kind="cross")}, "no attention of this layer and kind"),
        ({"without": Link("it", "dog", layers=7)}, "no attention of this layer and kind"),
        ({"without": Link(40, 2)}, "counted from 0 to 11"),
    ):
        with pytest.raises(regard.WatchError, match=said):
            run(**asked)
    for asked, said in (
        ({"without": Link("it", "dog", heads=[4])}, "has 4 heads"),
        ({"without": "it->dog"}, "without takes heads by module"),
        ({"steer": {"it": 2.0}}, "a bias for each link"),
        ({"steer": [Link("it", "dog")]}, "a bias for each link"),
    ):
        with pytest.raises(regard.InputError, match=said):
            run(**asked)
    for make, said in (
        (lambda: Link("it", "dog", kind="self"), "kind must be one of"),
        (lambda: Link(slice(3, 1)), "at least one"),
        (lambda: Link(back=-1), "before its query"),
        (lambda: Link(back=slice(1, 3, 2)), "before its query"),
        (lambda: Link(back=slice("it", 3)), "back must be a whole number"),
        (lambda: Link(back=slice(0, "it")), "back must be a whole number"),
        (lambda: Link(heads=[-1]), "numbered from 0"),
        (lambda: Link.read("it dog"), "an arrow"),
    ):
        with pytest.raises(regard.InputError, match=said):
            make()
