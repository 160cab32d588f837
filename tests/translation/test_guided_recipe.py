"""recipes/guided.py computes what the model computes, teaches a head by what `regard.guide` says, and turns it."""

import random

import pytest
import torch

import regard
from recipes import guided
from recipes.grammars import french, number_words, sense
from regard.translation import Translator

pytestmark = pytest.mark.usefixtures("unchecked")
PAIRS = [
    ("The ferry hit the pier because it was too fast.", "Le ferry a heurté la jetée parce qu'il allait trop vite.", "7>1"),
    ("The ferry hit the pier because it was too long.", "Le ferry a heurté la jetée parce qu'elle était trop longue.", "7>4"),
]  # fmt: skip


@pytest.fixture(scope="module")
def training():
    torch.manual_seed(0)
    return guided.Training(Translator.default(), Translator.default(), rate=1e-4, dropout=0.0)


@pytest.fixture
def batch(training):
    lines = training.lines(PAIRS)
    return next(iter(guided.Lines(lines, 100, training.words.pad, random.Random(0))))


def test_it_computes_what_the_model_computes(training, batch):
    source, target, it, nouns = batch
    model = training.model
    with torch.no_grad(), regard.watch(model) as record:
        expected = model(source, target[:, :-1])
    expected = expected[target[:, 1:] != training.words.pad].log_softmax(-1)
    with torch.no_grad():
        memory, below = training.now.encode(source, model.config.encoder_layers)
        found = training.now.logits(memory, target, torch.arange(len(training.words))).log_softmax(-1)
    assert float((expected.exp() - found.exp()).abs().max()) < 0.05  # bfloat16
    torch.testing.assert_close(training.now.encode(source, guided.LAYER)[1], below)
    A = record[f"encoder.layers.{guided.LAYER}.attention"].matrix.part[:, guided.HEAD]
    links = torch.stack([*nouns.nonzero().unbind(1)], 1)
    links = torch.stack([links[:, 0], it[links[:, 0]], links[:, 1]], 1)
    with torch.no_grad():
        torch.testing.assert_close(training.now.guide(below, it, nouns), regard.guide(A, links), atol=0.05, rtol=0.02)


def test_a_turned_head_looks_where_it_is_told(training, batch):
    source, _, it, nouns = batch
    rows = torch.arange(len(it))
    turn = torch.zeros(*source.shape, source.shape[1])
    turn[rows, it] = nouns / nouns.sum(-1, keepdim=True)
    x = torch.randn(*source.shape, training.model.config.width).bfloat16()
    name = f"encoder.layers.{guided.LAYER}.attention"
    with torch.no_grad():
        plain, turned = (training.now.attention(x, x, name, None, t) for t in (None, turn))
        value = training.now.heads(training.now.linear(x, f"{name}.projection", slice(2 * 384, None)))
        output = training.now.weights[f"{name}.output.weight"]
    changed = (plain - turned).abs().amax(-1) > 0
    assert changed[rows, it].all()
    assert int(changed.sum()) == len(it)  # and no other row
    width = value.shape[-1]
    head = slice(guided.HEAD * width, (guided.HEAD + 1) * width)
    query, key = (training.now.heads(t) for t in training.now.linear(x, f"{name}.projection").split(384, -1)[:2])
    before = (query * width**-0.5 @ key.mT).softmax(-1)[:, guided.HEAD]
    difference = (turn.bfloat16() - before)[rows, it][:, None] @ value[:, guided.HEAD]
    torch.testing.assert_close(
        (turned - plain)[rows, it], (difference[:, 0] @ output[:, head].mT), atol=0.05, rtol=0.05
    )


def test_a_step_changes_what_may_learn_and_nothing_else(training, batch):
    before = {name: p.detach().clone() for name, p in training.model.named_parameters()}
    loss, head = training.translation(batch)
    (loss + head + training.head(batch) + training.translation(batch, turned=True)[0]).backward()
    training.divergence(batch).backward()
    training.step(1e-4)
    changed = {name for name, p in training.model.named_parameters() if not torch.equal(p, before[name])}
    assert changed == set(training.names)
    assert not any(name.startswith(("embedding.", "encoder.layers.0.", "encoder.layers.1.")) for name in changed)


def test_turned_sentences_say_the_other_pronoun():
    draw, seen = random.Random(0), 0
    for _ in range(300):
        for english, said, noun, other_said, other in sense.turned(draw):
            if other.english == noun.english:
                continue
            assert noun.plural == other.plural
            seen += noun.feminine != other.feminine
            assert (said != other_said) == (noun.feminine != other.feminine), english
            pronouns = [french.pronouns(each)["il"] for each in (noun, other)]
            if noun.feminine != other.feminine:
                assert pronouns[0] in said.lower()
                assert pronouns[1] in other_said.lower()
    assert seen > 100


NUMBERS = {0: "zéro", 17: "dix-sept", 21: "vingt et un", 70: "soixante-dix", 71: "soixante et onze", 72: "soixante-douze",
           77: "soixante-dix-sept", 79: "soixante-dix-neuf", 80: "quatre-vingts", 81: "quatre-vingt-un",
           90: "quatre-vingt-dix", 91: "quatre-vingt-onze", 99: "quatre-vingt-dix-neuf", 100: "cent", 101: "cent un",
           200: "deux cents", 280: "deux cent quatre-vingts", 1000: "mille", 2_100: "deux mille cent",
           71_000: "soixante et onze mille", 200_080: "deux cent mille quatre-vingts"}  # fmt: skip


def test_number_words():
    assert {number: number_words.french(number) for number in NUMBERS} == NUMBERS
    assert number_words.english(99_999) == "ninety-nine thousand nine hundred and ninety-nine"
    pairs = number_words.sentences(500)
    assert len(pairs) == 500
    assert not any("{" in side or "-un pages" in side or "et un pages" in side for pair in pairs for side in pair)
