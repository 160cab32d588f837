"""recipes/guided.py: its batches, the loss of a guided head, a head that is turned; and the grammars' links."""

import random
import re

import numpy as np
import pytest
import torch

import regard
from recipes import guided
from recipes.grammars import english, french, number_words, sense
from regard.nn.loss import token_loss
from regard.translation import Translator

pytestmark = pytest.mark.usefixtures("unchecked")
PAIRS = [
    ("The ferry hit the pier because it was too fast.", "Le ferry a heurté la jetée parce qu'il allait trop vite.", "6>1"),
    ("The ferry hit the pier because it was too long.", "Le ferry a heurté la jetée parce qu'elle était trop longue.", "6>4"),
]  # fmt: skip


@pytest.fixture(scope="module")
def translator():
    return Translator.default()


@pytest.fixture
def settled(translator, monkeypatch):
    """A kind of linked sentences, one of turned sentences and one of others, as batches find them."""
    monkeypatch.setattr(guided, "_POOL", [])
    monkeypatch.setattr(guided, "_PLACES", [])
    others = [("Hello!", "Bonjour !"), ("The sun is shining this morning.", "Le soleil brille ce matin.")]
    kinds = [
        guided.encoded(translator.words, rows, turned)
        for rows, turned in ((PAIRS, False), (PAIRS, True), (others, False))
    ]
    guided.settle(kinds)
    return kinds


def tensors(rows, model):
    source, target, it, nouns, turned = map(
        torch.from_numpy, guided.batch(np.array(rows), model.config.pad, model.config.end)
    )
    return source.long(), target.long(), it, nouns, turned


def test_batches_hold_what_the_sentences_say(translator, settled):
    words, model = translator.words, translator.model
    source, target, it, nouns, turned = tensors([[0, 0], [2, 1], [1, 1]], model)
    assert [words.decode([n for n in row.tolist() if n not in (model.config.pad, model.config.end)]) for row in source] == [
        PAIRS[0][0], "The sun is shining this morning.", PAIRS[1][0],
    ]  # fmt: skip
    assert words.decode([n for n in target[2].tolist() if n not in (model.config.pad, model.config.end)]) == PAIRS[1][1]
    assert (target[:, 0] == model.config.start).all()
    assert (source == model.config.end).sum(1).tolist() == [1, 1, 1]
    assert turned.tolist() == [False, False, True]
    assert it[1] == -1
    assert not nouns[1].any()
    for n, noun in ((0, "ferry"), (2, "pier")):
        assert words.decode([int(source[n, it[n]])]) == "it"
        assert words.decode(source[n][nouns[n]].tolist()) == noun


def test_a_pass_has_each_kind_in_its_share(settled):
    plan = guided.plan([1.0, 2.0, 0.5], seed=3, tokens=40)
    rows = np.concatenate(plan)
    assert np.bincount(rows[:, 0]).tolist() == [2, 4, 1]
    for batch in plan:
        longest = max(int(settled[kind].sizes[n].max()) + 1 for kind, n in batch)
        assert len(batch) == 1 or -(-longest // 8) * 8 * len(batch) <= 40
    assert [batch.tolist() for batch in guided.plan([1.0, 2.0, 0.5], 3, 40)] == [batch.tolist() for batch in plan]


def test_its_losses_are_those_of_the_library(translator, settled):
    translator = Translator.default()
    model, words = translator.model, translator.words
    source, target, it, nouns, turned = tensors([[0, 0], [0, 1], [2, 1]], model)
    with torch.no_grad(), regard.watch(model) as record:
        states = model.states(target[:, :-1], model.encode(source))
    A = record[f"encoder.layers.{guided.LAYER}.attention"].matrix.part[:, guided.HEAD]
    links = torch.tensor([(n, int(it[n]), int(k)) for n in (0, 1) for k in nouns[n].nonzero()])
    expected = regard.guide(A, links)
    labels = target[:, 1:].flatten()
    plain = token_loss(
        states.flatten(0, 1),
        model._head(),
        model.output_bias,
        labels,
        ignore=model.config.pad,
        smoothing=guided.SMOOTHING,
    )
    taught = guided.Guided(model, words, compiled=False)
    with torch.no_grad():
        french_loss, head = taught.french(source, target, it, nouns, turned)
        torch.testing.assert_close(taught.head(source, it, nouns), expected)
        taught.counts.fill_(1.0)
        torch.testing.assert_close(taught.french(source, target, it, nouns, turned)[0], plain)
    torch.testing.assert_close(head, expected)
    assert french_loss.item() != pytest.approx(plain.item(), abs=1e-4)  # pronouns count more


def test_the_gradient_of_the_weighted_loss():
    torch.manual_seed(0)
    states, weight, bias = torch.randn(6, 4, requires_grad=True), torch.randn(9, 4, requires_grad=True), torch.zeros(9)
    labels, weights = torch.tensor([1, 2, 3, 8, 8, 5]), torch.tensor([1.0, 4.0, 1.0, 0.0, 0.0, 1.0])
    loss = guided._WeightedLoss.apply(states, weight, bias, labels, weights, guided._chunk)
    found = torch.autograd.grad(3 * loss, (states, weight))
    each = torch.nn.functional.cross_entropy(
        states @ weight.mT, labels, label_smoothing=guided.SMOOTHING, reduction="none"
    )
    expected = (each * weights).sum() / weights.sum()
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(found, torch.autograd.grad(3 * expected, (states, weight)))


def test_a_turned_head_looks_where_it_is_told(translator, settled):
    model = Translator.default().model
    source, _, it, nouns, _ = tensors([[0, 0], [0, 1]], model)
    taught = guided.Guided(model, translator.words, compiled=False)
    taught.visible = source.ne(model.config.pad)
    query, key, value = torch.randn(3, 2, model.config.heads, source.shape[1], 64)
    plain = taught.attend(query, key, value)
    taught.turn = it, nouns, torch.tensor([False, True])
    mixed = taught.attend(query, key, value)
    changed = (plain - mixed).abs().amax(-1) > 0
    assert changed.nonzero().tolist() == [[1, guided.HEAD, int(it[1])]]
    torch.testing.assert_close(mixed[1, guided.HEAD, it[1]], value[1, guided.HEAD, nouns[1]].mean(0))


def test_sentences_in_english_link_it_to_its_noun():
    nouns = {each.name for pairs in english.things().values() for both in pairs for each in both if each}
    nouns |= {each.english for pairs in french.GROUPS.values() for both in pairs for each in both if each}
    assert len(nouns) > 3_000  # with plurals
    for text, _, links in english.sentences(2_000, seed=5):
        words = [re.sub(r"[.,;:!?]", "", word) for word in text.split()]
        assert "{" not in text
        assert ">" not in text
        for link in links.split():
            row = int(link.split(">")[0])
            assert words[row].lower() in ("it", "they", "them"), text
        keys = sorted({int(link.split(">")[1]) for link in links.split()})
        assert " ".join(words[key] for key in keys).lower() in {noun.lower() for noun in nouns}, text


def test_nouns_are_held_out_and_tests_kept_away():
    held = guided.nouns_held_out()
    assert 60 < len(held) < 400
    rows = guided.held_out(20)
    assert all(held & set(re.findall(r"\w+", text.lower())) for text, _ in rows)


def test_turned_sentences_say_the_other_pronoun():
    draw, seen = random.Random(0), 0
    for _ in range(300):
        for text, said, noun, other_said, other in sense.turned(draw):
            if other.english == noun.english:
                continue
            assert noun.plural == other.plural
            seen += noun.feminine != other.feminine
            assert (said != other_said) == (noun.feminine != other.feminine), text
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
