"""[[guide]] in a recipe: a head that learns where to look from the links of a corpus, and what is wrong with such links."""

from functools import partial

import pytest
import torch
from support.translation import tiny_recipe

import regard
from regard.errors import FileError, InputError
from regard.translation import Recipe, Translator, train
from regard.translation.training.corpus import Batches, read_linked
from regard.translation.training.loop import Trainer

LAST_TO_FIRST = [{"layer": 0, "head": 1, "weight": 1.0, "name": "the first word"}]


@pytest.fixture
def recipe(tmp_path):
    tiny_recipe.write_corpora(tmp_path)
    return partial(tiny_recipe.write, tmp_path)


def weight_on_first(translator, head, text="six two five"):
    """What the last word gives to the first."""
    words = translator.words
    with regard.watch(translator.model) as record:
        translator.model.encode(torch.tensor([[*words.encode(text), words.end]]))
    _, owner = words.words(words.encode(text))
    row = record["encoder.layers.0.attention"].matrix[0, head, owner.index(2)]
    return sum(row[n].item() for n, word in enumerate(owner) if word == 0)


@pytest.mark.usefixtures("unchecked")  # shape checks take most of the time
@pytest.mark.slow
def test_the_head_learns_where_to_look_and_the_model_says_so(recipe, tmp_path):
    guided, plain = tmp_path / "guided", tmp_path / "plain"
    train(Recipe.read(recipe(steps=160, check=160, guide=LAST_TO_FIRST)), guided, quiet=True)
    train(Recipe.read(recipe(steps=160, check=160)), plain, quiet=True)
    taught, free = Translator.load(guided), Translator.load(plain)
    assert taught.heads == {"the first word": (0, 1)}
    assert free.heads == {}
    others = weight_on_first(taught, 0), weight_on_first(free, 0), weight_on_first(free, 1)
    assert weight_on_first(taught, 1) > max(0.5, max(others) + 0.15), others


@pytest.mark.parametrize("changes", [{"joined": 0.0}, {"joined": 0.5}, {"joined": 0.0, "sampling": 0.5}])
def test_the_links_of_a_batch_are_those_of_its_sentences(recipe, tmp_path, changes):
    trainer = Trainer(Recipe.read(recipe(guide=LAST_TO_FIRST, **changes)), tmp_path / "out", quiet())
    trainer.prepare()
    batches, words, seen = trainer.batches, trainer.words, 0
    for rows in batches.plan(0):
        source, _ = batches.batch(rows)
        links = batches.links(rows)
        for n, row in enumerate(sorted(rows, key=len)):
            expected, before = set(), 0
            for pair in row:
                owner = words.words(batches.sides[0][pair][:-1].tolist())[1]  # without the end
                last = before + owner.index(max(owner))
                expected |= {(last, before + k) for k, word in enumerate(owner) if word == 0}
                before += len(owner)
            assert before + 1 == int((source[n] != words.pad).sum())
            assert {(q, k) for b, q, k in links.tolist() if b == n} == expected
            seen += len(row) > 1
    assert (seen > 0) == (changes["joined"] > 0)


def test_in_passes_the_gradient_is_that_of_the_whole_batch(recipe, tmp_path):
    found = []
    for accumulate, tokens in ((1, 96), (3, 32)):
        torch.manual_seed(0)
        path = recipe(guide=LAST_TO_FIRST, accumulate=accumulate, tokens=tokens)
        trainer = Trainer(Recipe.read(path), tmp_path / f"out{accumulate}", quiet())
        trainer.prepare()
        trainer.model.eval()  # no dropout
        loss = trainer._backward(trainer.batches.plan(0)[0])
        found.append([loss, *(p.grad for p in trainer.model.parameters())])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-4)


def test_without_links_a_batch_has_none():
    batches = Batches([([5, 6], [7])], end=0, pad=10, tokens=64)
    assert batches.links([(0,)]).shape == (0, 3)


@pytest.mark.slow
@pytest.mark.usefixtures("unchecked")
def test_it_trains_compiled(recipe, tmp_path):
    train(Recipe.read(recipe(steps=2, check=2, compile=True, guide=LAST_TO_FIRST)), tmp_path / "out", quiet=True)
    assert tiny_recipe.losses(tmp_path / "out")[2] > 0


def quiet():
    from rich.console import Console

    return Console(quiet=True)


@pytest.mark.usefixtures("unchecked")  # its own messages, not those of the type checker
@pytest.mark.parametrize(
    ("guide", "message"),
    [
        ({"layer": 1, "head": 0}, "layer 1, head 0: the encoder has 1 layers of 2 heads, from 0"),
        ({"layer": 0, "head": 2}, "layer 0, head 2"),
        ({"layer": 0}, r"\[\[guide\]\] .*head"),
        ({"layer": 0, "head": True}, "head must be a whole number"),
        ({"layer": 0, "head": 0, "weight": 0}, "weight must be a number above 0"),
        ({"layer": 0, "head": 0, "kind": "cross"}, 'kind must be "encoder"'),
        ({"layer": 0, "head": 0, "name": 7}, "name must be a text"),
        ({"layer": 0, "head": 0, "wait": 1}, r"\[\[guide\]\] .*wait"),
    ],
)
def test_a_wrong_guide_is_named(recipe, guide, message):
    with pytest.raises(FileError, match=message):
        Recipe.read(recipe(guide=[guide]))


def test_a_guide_is_of_the_first_column(recipe):
    with pytest.raises(FileError, match="guide and reverse exclude each other"):
        Recipe.read(recipe(guide=LAST_TO_FIRST, reverse=True))


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        ("one\tun\t0>x\n", FileError, r"train.tsv, line 1: links must be like \"7>1 7>2\""),
        ("one\n", FileError, "line 1: no tab"),
        ("one two\tun deux\t2>0\n", InputError, "'2>0' is to a word that the text does not have: 'one two'"),
        ("one two\tun deux\n", InputError, "needs links: a third column"),
    ],
)
def test_wrong_links_are_named(recipe, tmp_path, data, error, message):
    path = recipe(guide=LAST_TO_FIRST, vocabulary=16)
    (tmp_path / "train.tsv").write_text(data, encoding="utf-8")
    with pytest.raises(error, match=message):
        Trainer(Recipe.read(path), tmp_path / "out", quiet()).prepare()


def test_links_are_read_with_their_pairs(tmp_path):
    (tmp_path / "a.tsv").write_text("It is new.\tIl est neuf.\t0>2\nHello.\tBonjour.\n", encoding="utf-8")
    assert list(read_linked(tmp_path / "a.tsv")) == [("It is new.", "Il est neuf.", "0>2"), ("Hello.", "Bonjour.", "")]
