"""Questions and pictures of texts in which words occur many times, or that are too long to be drawn word by word."""

import re

import numpy as np
import pytest
import torch
from support.models import Layer

import regard
from regard.drawing.terminal import percent
from regard.watching.questions import looks as questions
from regard.watching.questions.passages import Passage, by_word, flow_layers
from regard.watching.record.tokens import Tokens

STORY = [
    "the",
    "old",
    "dog",
    "slept",
    ".",
    "\n",
    "the",
    "young",
    "dog",
    "ran",
    "after",
    "the",
    "old",
    "dog",
    "\n",
    "and",
    "the",
    "cat",
    "saw",
    "a",
    "dog",
]
DOGS = [2, 8, 13, 20]
SEED = 7


class Model(torch.nn.Module):
    """An encoder of three layers on given vectors."""

    def __init__(self, causal=False):
        super().__init__()
        self.encoder, self.mask = regard.Encoder(3, 16, 2, 16), regard.causal() if causal else None

    def forward(self, x):
        return self.encoder(x, mask=self.mask)


def watched(words, causal=False):
    torch.manual_seed(SEED)
    model = Model(causal).eval()
    with torch.no_grad(), regard.watch(model, tokens=words) as record:
        model(2 * torch.randn(1, len(words), 16))
    return record


@pytest.fixture(scope="module")
def story():
    return watched(STORY)


@pytest.fixture(scope="module")
def novel():
    """300 words, "it" among them every 50."""
    return watched([f"w{n}" if n % 50 != 25 else "it" for n in range(300)])


def mean(record, **chosen):
    return torch.stack([entry.to_dense()[0].mean(0) for entry in record.at(**chosen).values()]).mean(0)


# A word that occurs many times


def test_looks_is_the_mean_of_all_occurrences(story):
    looks = story.looks("dog")
    assert looks.word == "dog (4 occurrences)"
    assert str(looks).startswith("dog (4 occurrences) ━")
    assert looks.of("cat") == pytest.approx(float(mean(story)[DOGS, 17].mean()), abs=1e-6)
    assert sum(look.weight for look in looks) == pytest.approx(1, abs=1e-5)


def test_an_occurrence_of_two_tokens_counts_as_much_as_one_of_one():
    record = watched(["▁dog", "▁ran", "▁do", "g", "▁sat"])
    weights = mean(record)
    assert record.looks("dog").of("sat") == pytest.approx(
        float(weights[0, 4] / 2 + weights[2:4, 4].mean() / 2), abs=1e-6
    )


def test_what_is_looked_at_is_the_sum_over_occurrences(story):
    looked = story.looked_at("dog")
    assert looked.word == "dog (4 occurrences)"
    assert looked.of("cat") == pytest.approx(float(mean(story)[17, DOGS].sum()), abs=1e-6)
    assert looked.of("cat") == pytest.approx(story.looks("cat").of("dog"), abs=1e-6)


def test_heads_and_rollout_take_all_occurrences(story):
    heads = story.heads("dog", "old")
    assert heads.about == "dog (4 occurrences) → old (2 occurrences)"
    best = heads[0]
    weights = story.at(layer=best.layer, head=best.head)[best.name].to_dense()[0, 0]
    assert best.weight == pytest.approx(float(weights[DOGS][:, [1, 12]].sum(-1).mean()), abs=1e-6)
    rolled, each = story.rollout("dog").own, [story.rollout(n).own.of("cat") for n in DOGS]
    assert rolled.word == "dog (4 occurrences)"
    assert rolled.of("cat") == pytest.approx(np.mean(each), abs=1e-6)


def test_words_that_no_occurrence_sees_are_not_listed():
    record = watched(STORY, causal=True)
    assert {look.position for look in record.looks("old")} == set(range(13))  # all up to the last "old"
    assert {look.position for look in record.looked_at("cat")} == set(range(17, 21))


def test_one_is_chosen_by_the_words_around_it(story):
    for phrase, token in [("the old [dog] slept", 2), ("Old [DOG] and", 13), ("[dog] ran", 8), ("saw a [dog]", 20)]:
        looks = story.looks(phrase)
        assert looks.word == phrase
        assert looks.items == story.looks(token).items, phrase
    assert len(story["encoder.layers.0.attention"].tokens[0].find_all("old [dog]")) == 2
    assert story.looks("old [dog]").word == "old [dog] (2 occurrences)"
    assert story.heads("[cat] saw", "a [dog]")[0].weight == story.heads(17, 20)[0].weight


def test_brackets_of_a_token_are_not_marks():
    tokens = Tokens(["[CLS]", "a", "dog", "[SEP]", "a", "dog"])
    assert tokens.find("[CLS]") == range(1)
    assert tokens.find("[CLS] a [dog]") == range(2, 3)
    assert tokens.find("[SEP] a [dog]") == range(5, 6)
    assert Tokens(["a", "[dog]", "dog"]).find("[dog]") == range(1, 2)


def test_where_one_is_needed_every_occurrence_is_listed_as_it_can_be_chosen(story):
    tokens = story["encoder.layers.0.attention"].tokens[0]
    for word in ("dog", "the", "old", "."):
        places = tokens.find_all(word)
        if len(places) == 1:
            continue
        with pytest.raises(regard.InputError) as raised:
            story.spans({"who": word})
        assert f'"{word}" occurs {len(places)} times. Put the one you mean in brackets' in str(raised.value)
        listed = re.findall(r'"([^"]*\[[^"]*)" \(token (\d+)\)', str(raised.value))
        assert [int(token) for _, token in listed] == [place.start for place in places]
        for phrase, token in listed:
            assert tokens.find(phrase).start == int(token)
    same = Tokens(["a", "dog"] * 40)
    with pytest.raises(regard.InputError, match=r"token 1, .*token 15 and 32 more\.$"):
        same.find("dog")


def test_rows_are_computed_in_blocks(monkeypatch):
    torch.manual_seed(SEED)
    words = ["the" if n % 3 else f"w{n}" for n in range(600)]
    with torch.no_grad(), regard.watch(Layer(), tokens=words) as record:
        record.model(torch.randn(1, 600, 16))
    whole = record.looks("the")
    entry = next(iter(record.values()))
    sizes, read = [], type(entry.matrix).__getitem__

    def spy(matrix, index):
        found = read(matrix, index)
        sizes.append(found.numel())
        return found

    monkeypatch.setattr(type(entry.matrix), "__getitem__", spy)
    monkeypatch.setattr(questions, "_WEIGHTS", 10 * 600 * entry.shape[1])
    blocks = record.looks("the")
    record.looked_at("the")
    record.heads("the", "the")
    assert max(sizes) <= 10 * 600 * entry.shape[1]
    assert len(sizes) == 2 * 40
    assert blocks.word == "the (400 occurrences)"
    assert blocks.of("w300") == pytest.approx(whole.of("w300"), abs=1e-6)


# Legible words


def test_spaces_and_line_ends_can_be_seen():
    words = lambda pieces: [word.text for word in Tokens(pieces).words]  # noqa: E731
    assert words(["a", "\n", "b", "\n\n", "\t"]) == ["a", "↵", "b", "↵↵", "⇥"]
    assert words(["Ġa", "ĊĊ", "Ġ", "Ġb"]) == ["a", "↵↵", "␣", "b"]
    assert words(["▁a", "<0x0A>", "▁b"]) == ["a", "↵", "b"]
    tokens = Tokens(["a", "\n", "b"])
    assert tokens.find("\n") == tokens.find("↵") == range(1, 2)
    assert tokens.find("a b") == range(3)  # across the line end


def test_a_repeated_word_is_told_by_its_token():
    looks = watched(["a", "dog", "a", "cat"]).looks("cat")
    for label in ("a @0 ", "a @2 ", "━ dog ", "━ cat "):
        assert label in str(looks)
    assert looks.of("a") == sum(look.weight for look in looks if look.word == "a")


# Passages


def test_lines_show_the_passage_around_a_word(novel):
    picture = novel.picture("lines", word="w124 [it]")
    rows = np.arange(105, 146)
    weights = mean(novel).double().numpy()
    np.testing.assert_allclose(picture.numbers["weights"][0], weights[np.ix_(rows, rows)], atol=1e-6)
    outside = percent(1 - weights[125, rows].sum())
    assert "Tokens 105 to 145 of 300." in picture.caption
    assert f'Of what "it" gives, {outside} goes to words outside this passage.' in picture.caption
    assert "occurrence" not in picture.caption
    assert str(picture).startswith("it ━")


def test_the_first_of_several_is_shown_and_said(novel):
    first = novel.picture("lines", word="it")
    assert 'This is occurrence 1 of 6 of "it"; the next is "w73 w74 [it] w76 w77".' in first.caption
    assert "Tokens 5 to 45 of 300." in first.caption
    assert "occurrence" not in novel.picture("lines", word=75).caption
    assert "Tokens 55 to 95" in novel.picture("lines", word="w73 w74 [it] w76 w77").caption


def test_a_passage_is_chosen_by_words_or_tokens(novel):
    assert "Tokens 80 to 121" in novel.picture("matrix", around="w100 w101").caption
    assert "Tokens 80 to 120" in novel.picture("matrix", word="w100").caption
    exact = novel.picture("matrix", around=range(250, 300))
    assert exact.numbers["weights"].shape == (50, 50)
    outside = percent(float(mean(novel)[250:, :250].sum(-1).mean()))
    assert f"On average {outside} goes to words outside this passage." in exact.caption
    lines = novel.picture("lines", word="it", around=range(60, 180))
    assert len(str(lines).splitlines()) == 4  # "it" three times, and the caption
    with pytest.raises(regard.InputError, match=r'"w9" is not in this passage: w10 w11 w12\.'):
        novel.picture("lines", word="w9", around=range(10, 13))
    with pytest.raises(regard.TooLargeError, match="250 words are too many"):
        novel.picture("matrix", around=range(250))
    for kind in ("grid", "map"):
        with pytest.raises(regard.InputError, match="shows the whole text"):
            novel.picture(kind, around="it")


def test_a_matrix_of_more_words_than_can_be_named_is_cropped_around_a_word():
    record = watched([f"w{n}" for n in range(150)])
    picture = record.picture("matrix", word="w100")
    assert "Tokens 80 to 120 of 150." in picture.caption
    assert picture.numbers["weights"].shape == (41, 41)
    assert record.picture("matrix").numbers["weights"].shape == (150, 150)
    assert "Tokens" not in record.picture("lines", word="w100").caption


def test_without_a_word_the_beginning_is_shown(novel):
    picture = novel.picture("lines")
    assert "Tokens 0 to 40 of 300. This is the beginning of the text: name a word" in picture.caption
    assert picture.numbers["weights"].shape == (1, 41, 41)


@pytest.mark.parametrize("causal", [False, True])
def test_a_cropped_flow_has_the_shares_of_the_whole_text(causal):
    words = [f"w{n}" for n in range(260)]
    record = watched(words, causal)
    picture = record.picture("flow", word="w130")
    share = torch.zeros(260)
    share[130] = 1
    drawn = np.zeros(43)
    drawn[21] = 1  # after what lies before
    for layer in (2, 1, 0):
        share = share @ mean(record, layer=layer)
        drawn = drawn @ picture.numbers[f"layer {layer}"]
        np.testing.assert_allclose(drawn[1:-1], share[110:151].numpy(), atol=1e-6)
        np.testing.assert_allclose(drawn[[0, -1]], [share[:110].sum(), share[151:].sum()], atol=1e-6)
    assert picture.words[:2] == ("… 110 before", "w110")
    assert picture.words[-1] == "… 109 after"
    assert "Tokens 110 to 150 of 260." in picture.caption


@pytest.mark.parametrize("causal", [False, True])
def test_in_a_cropped_flow_what_rests_on_sinks_stays(causal):
    record, sinks = watched([f"w{n}" for n in range(260)], causal), [0, 125, 255]
    entries = list(record.values())
    passage = Passage.of(entries[0].tokens[0], "w130", None, first=True)
    names, layers, start, rested = flow_layers(entries, passage, sinks)
    assert "w125" not in names
    assert len(names) == 42
    share = torch.zeros(260)
    share[130] = 1
    drawn = np.zeros(42)
    drawn[start] = 1
    stayed = []
    for layer in (2, 1, 0):
        weights = mean(record, layer=layer)
        stays = weights[:, sinks].sum(-1)
        stayed.append(stays[110:151].mean())
        weights[:, sinks] = 0
        share = share @ weights + share * stays
        drawn = drawn @ layers[layer].numpy()
        passage_shares = np.delete(share[110:151].numpy(), 15)  # without the sink in it
        np.testing.assert_allclose(drawn[1:-1], passage_shares, atol=1e-6)
        np.testing.assert_allclose(drawn[[0, -1]], [share[:110].sum(), share[151:].sum()], atol=1e-6)
    assert rested == pytest.approx(float(torch.stack(stayed).mean()), abs=1e-6)
    assert flow_layers(entries, Passage.of(entries[0].tokens[0], "w125", None, first=True), sinks)[3] is None


def test_lines_of_a_passage_are_shares_of_what_does_not_rest_on_sinks():
    record, sinks = watched([f"w{n}" for n in range(260)], False), [0, 125]
    crop = by_word(list(record.values()), "w130", None, sinks)
    weights = torch.stack([mean(record, layer=layer) for layer in range(3)]).mean(0)[110:151]
    rested = weights[:, sinks].sum(-1)
    weights[:, sinks] = 0
    weights /= 1 - rested[:, None]
    assert crop.key_names == tuple(f"w{n}" for n in range(110, 151) if n != 125)
    np.testing.assert_allclose(crop.weights, np.delete(weights[:, 110:151], 15, 1), atol=1e-6)
    np.testing.assert_allclose(crop.rested, rested, atol=1e-6)
    np.testing.assert_allclose(crop.weights.sum(-1) + crop.elsewhere, np.ones(41), atol=1e-5)


def test_a_flow_of_a_repeated_word_starts_at_the_first(story):
    picture = story.picture("flow", word="dog")
    assert 'This is occurrence 1 of 4 of "dog"; the next is "the young [dog] ran after".' in picture.caption
    assert str(picture).splitlines()[0].startswith("layer 2  dog 100 %")
    assert str(story.picture("flow", word="dog 2")).splitlines()[0] == "layer 2  dog 2 100 %"
    assert str(story.picture("flow")).splitlines()[0] == "layer 2  dog 4 100 %"  # the last word


def test_lines_of_a_long_translation_show_where_the_word_looks():
    torch.manual_seed(SEED)
    model = regard.Transformer(regard.TransformerConfig.tiny(40, width=32, hidden=32, positions=512)).eval()
    with torch.no_grad(), regard.watch(model) as record:
        model(torch.randint(1, 39, (1, 400)), torch.randint(1, 39, (1, 300)))
    picture = record.picture("lines", word=200, kind="cross", layer=-1)
    weights = mean(record, kind="cross", layer=1)
    best = int(weights[200].argmax())
    columns = np.arange(max(best - 20, 0), min(best + 21, 400))
    expected = weights.numpy()[np.ix_(np.arange(180, 221), columns)]
    np.testing.assert_allclose(picture.numbers["weights"][0], expected, atol=1e-6)
    assert "Tokens 180 to 220 of 300." in picture.caption
    assert f"Looked at: Tokens {columns[0]} to {columns[-1]} of 400." in picture.caption


# Layers counted from the last


def test_layers_count_from_the_last(novel, bart):
    assert list(novel.at(layer=-1)) == ["encoder.layers.2.attention"]
    assert list(novel.at(layer=-3)) == ["encoder.layers.0.attention"]
    for ask in (
        lambda layer: novel.looks("it", layer=layer).items,
        lambda layer: novel.looked_at("it", layer=layer).items,
        lambda layer: novel.spans({"it": 25}, layer=layer).weights,
        lambda layer: novel.weights(layer=layer).sum(0)[3],
        lambda layer: novel.pool(4, 4, layer=layer)[0, 0],
        lambda layer: novel.picture("lines", layer=layer).caption,
    ):
        assert ask(-2) == ask(1)
        assert ask(-2) != ask(0)
    assert {(entry.kind, entry.layer) for entry in bart.at(layer=-1).values()} == {
        ("encoder", 1), ("decoder", 1), ("cross", 1),
    }  # fmt: skip
    with pytest.raises(regard.InputError, match=r"layer = -4\. There are \w+ layers 0 to 2\. Layers also count"):
        novel.at(layer=-4)
