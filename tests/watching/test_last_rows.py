"""`keep=` a number: the rows of the last tokens and of all that is written, with the numbers of the whole matrix."""

import pytest
import torch
from support.models import FAMILIES, WORDS, made
from support.watching.image_models import fed, pictures
from support.watching.image_models import made as made_with_images

import regard

DECODERS = ["Llama", "GPT-2", "Gemma 2", "Gemma 3", "GPT-OSS", "Mistral", "BART", "T5"]


@pytest.mark.parametrize("side", [None, "left"])
@pytest.mark.parametrize("name", DECODERS)
def test_they_are_those_of_the_whole_matrix(name, side):
    model, inputs = made(name), FAMILIES[name].inputs(side)
    with torch.no_grad(), regard.watch(model) as whole:
        model(**inputs)
    with torch.no_grad(), regard.watch(model, keep=4) as record:
        model(**inputs)
    for module, entry in record.items():
        if entry.kind == "encoder":
            assert entry.keeps == ("received",)
            continue
        assert entry.shape[2] == 4
        torch.testing.assert_close(entry.to_dense(), whole[module].to_dense()[:, :, -4:])
        assert entry.tokens[0].first == whole[module].shape[2] - 4


def test_a_generation_keeps_all_that_it_writes():
    model = made("Llama")
    ids = torch.randint(5, 90, (2, 20))
    options = {"max_new_tokens": 5, "min_new_tokens": 5, "do_sample": False}
    with torch.no_grad(), regard.watch(model) as whole:
        model.generate(ids, **options)
    with torch.no_grad(), regard.watch(model, keep=3) as record:
        model.generate(ids, **options)
    for module, entry in record.items():
        assert entry.shape == (2, 4, 7, 24)
        torch.testing.assert_close(entry.to_dense(), whole[module].to_dense()[:, :, -7:])
        assert entry.call.query.untyped_storage().nbytes() == entry.call.query.numel() * 4  # the other rows are gone
    atlas, want = record.atlas(), whole.atlas()
    assert [h.retrieval for h in atlas] == [h.retrieval for h in want]
    torch.testing.assert_close(atlas.lookback_steps[:, 1:], want.lookback_steps[:, 1:])
    with torch.no_grad(), regard.watch(model, keep=1) as record:
        model(whole["model.layers.0.self_attn"].ids)
    with pytest.raises(
        regard.InputError,
        match=r"the rows of the last 1 tokens were kept, but 5 tokens were written: watch with more rows",
    ):
        record.atlas(context=20)


@pytest.fixture(scope="module")
def both():
    model, inputs = made("Llama"), FAMILIES["Llama"].inputs(None)
    with torch.no_grad(), regard.watch(model, tokens=[WORDS, WORDS]) as whole:
        model(**inputs)
    with torch.no_grad(), regard.watch(model, tokens=[WORDS, WORDS], keep=5) as record:
        model(**inputs)
    return record, whole


def test_tokens_are_numbered_as_in_the_text(both, tmp_path):
    record, whole = both
    record.save(tmp_path / "record")
    for some in (record, regard.Record.open(tmp_path / "record")):
        for place in ("was", 7, -5, range(7, 9), "[hungry] dog"):
            assert str(some.looks(place, sinks=True)) == str(whole.looks(place, sinks=True))
        assert str(some.looks("dog", sinks=True)).startswith("dog ")  # the one that was kept
    given = {look.word: look for look in whole.looked_at("food", sinks=True) if look.position >= 7}
    assert {look.word: look for look in record.looked_at("food", sinks=True)} == given
    with pytest.raises(
        regard.InputError, match=r"counted from 0 to 11, of which those from 7 on were kept. Got range\(3, 4\)"
    ):
        record.looks(3)
    with pytest.raises(
        regard.InputError, match='"because" is in the text, but not among the tokens from 7 on, whose rows'
    ):
        record.looks("because")
    with pytest.raises(regard.InputError, match=r'"cat" is not among the tokens from 7 on. Its words are: was'):
        record.looks("cat")
    with pytest.raises(regard.InputError, match="a habit is measured on all rows"):
        record.scores("previous")
    assert record.picture("lines", word="was").to_svg()


def test_so_they_are_after_a_cache_that_was_filled_before(both):
    _, whole = both
    model, ids = whole.model, FAMILIES["Llama"].inputs(None)["input_ids"]
    for tokens in ([WORDS, WORDS], [WORDS[7:], WORDS[7:]]):
        with torch.no_grad():
            cache = model(ids[:, :7], use_cache=True).past_key_values
            with regard.watch(model, tokens=tokens) as record:
                model(ids[:, 7:], past_key_values=cache)
        assert record["model.layers.0.self_attn"].tokens[0].first == 7
        for place in ("was", 7, -5, range(7, 9)):
            found, want = (some.looks(place, sinks=True) for some in (record, whole))
            assert (found.word, len(found)) == (want.word, len(want))
            assert found[0].weight == pytest.approx(want[0].weight, abs=1e-5)
        with pytest.raises(regard.InputError, match=r"those from 7 on were kept. Got range"):
            record.looks(3)
        assert record.spans("word").names[0] == "was"


def test_passages_are_those_of_the_whole_text(both):
    """What the kept ones give to all of them; a name that is also written among the kept rows is still its passage."""
    record, whole = both
    parts = {"beginning": (0, 4), "dog": 1, "middle": range(5, 8), "end": (8, 12), "was": "was"}
    found, want = record.spans(parts), whole.spans(parts)
    assert found.names == ("end", "was")
    assert found.key_names == want.key_names
    rows = [want.names.index(name) for name in found.names]
    torch.testing.assert_close(found.weights, want.weights[rows])
    with pytest.raises(regard.InputError, match="is among the tokens that were kept, from 7 on"):
        record.spans({"beginning": (0, 4)})


def test_a_word_over_an_image():
    model, shown = made_with_images("qwen2_vl"), pictures("qwen2_vl")
    inputs = fed("qwen2_vl", model, shown)
    records = []
    for keep in ("matrix", 4):
        with torch.no_grad(), regard.watch(model, keep=keep) as record:
            model(**inputs)
        records.append(record)
    whole, record = records
    last = inputs["input_ids"].shape[1] - 1
    drawn = [some.over(last, shown[1], number=1, kind="decoder") for some in records]
    assert torch.equal(*(torch.from_numpy(each.numbers["weights"]) for each in drawn))
    towers = [name for name in record if "visual" in name]
    assert all(record[name].keeps == ("received",) for name in towers)
    for name in towers:
        torch.testing.assert_close(record[name].received(), whole[name].received())


def test_memory_beside_a_cache_is_that_of_the_rows():
    """The keys are those of the cache, and of the queries only the last are there."""
    model = made("Llama")
    with torch.no_grad(), regard.watch(model, keep=16) as record:
        output = model(torch.randint(5, 90, (1, 2048)), use_cache=True, logits_to_keep=1)
    for entry, layer in zip(record.values(), output.past_key_values.layers, strict=True):
        assert entry.call.key.data_ptr() == layer.keys.data_ptr()
        assert entry.call.query.untyped_storage().nbytes() == 4 * 16 * model.config.hidden_size


def test_errors():
    for wrong in (0, -3, True):
        with pytest.raises(regard.InputError, match="keep takes a number of rows from 1 on"):
            regard.watch(made("Llama"), keep=wrong)
