"""The translator in the package: its size, the documents' sentences, pronouns, people, and odd input."""

import re
from collections import Counter
from pathlib import Path

import pytest
import torch
import translation_quality as quality
from test_neutral import SENTENCES, vulgar
from test_pronouns import DOCUMENTS, ROWS

import regard
from regard.translation.translator import SHIPPED, Translator

pytestmark = pytest.mark.usefixtures("unchecked")  # their checks take longer than the translations
# The documents' sentences, and every answer that is right.
RIGHT = {
    "I am good.": {"Je vais bien.", "Je suis bon."},
    "I am hungry.": {"J'ai faim."},
    "A dog ate the food because it was hungry.": {"Un chien a mangé la nourriture parce qu'il avait faim."},
    "I like sushi because it makes me happy.": {"J'aime les sushis parce que ça me rend heureux."},
    "The animal didn't cross the street because it was too tired.": {
        "L'animal n'a pas traversé la rue parce qu'il était trop fatigué."
    },
    "The animal didn't cross the street because it was too wide.": {
        "L'animal n'a pas traversé la rue parce qu'elle était trop large."
    },
}


def test_it_is_small_and_whole():
    files = {path.name: path.stat().st_size for path in SHIPPED.iterdir()}
    assert set(files) == {"config.json", "model.safetensors", "translation.json", "vocabulary.spm", "README.md"}
    assert sum(files.values()) <= 32_000_000


def test_its_card_says_what_people_must_know():
    card = (SHIPPED / "README.md").read_text(encoding="utf-8")
    for told in (
        "CC-BY",
        "Tatoeba",
        "ManyThings.org",
        "African Storybook",
        "© European Union, 1999–2012; source: European\n  Parliament",
        "Open Government Licence – Canada",
        "CC-BY 3.0, the PHP Documentation Group",
        "translations CC0",
        "nrefs:1|",
        "tu",
        "vous",
        "gender",
        "OPUS-MT",
    ):
        assert told in card, told


@pytest.mark.parametrize("sentence", DOCUMENTS)
def test_the_documents_sentences(shipped, sentence):
    assert shipped.translate(sentence).text in RIGHT[sentence]


@pytest.mark.slow
def test_pronouns_as_reported(shipped):
    found = quality.pronouns(shipped)
    assert found.lines == len(ROWS)
    said = re.search(r"(\d+) of (\d+) pronouns", REPORT.read_text())
    assert int(said[2]) == found.lines
    assert abs(found.right - int(said[1])) <= 2  # another CPU may round two of them otherwise


REPORT = Path(__file__).parents[2] / "benchmarks" / "reports" / "translation-quality.md"


def test_its_note_has_the_figure_of_the_report(shipped):
    """Of the head that was taught what "it" stands for."""
    ((name, (layer, head)),) = shipped.heads.items()
    assert name == 'what "it" stands for'
    reported = re.search(rf"is layer {layer}, head {head}: (\d+) of (\d+)", REPORT.read_text())
    said = re.search(r"(\d+) of (\d+)", shipped.note)
    assert said.groups() == reported.groups()


@pytest.mark.parametrize(
    ("sentence", "noun", "other"),
    [
        ("A dog ate the food because it was hungry.", "dog", "food"),
        ("A dog ate the food because it was delicious.", "food", "dog"),
        ("I like sushi because it makes me happy.", "sushi", "me"),
    ],
)
def test_the_taught_head_finds_what_it_stands_for(shipped, sentence, noun, other):
    ((layer, head),) = shipped.heads.values()
    looks = shipped.translate(sentence).watch().looks("it", kind="encoder", layer=layer, head=head)
    assert looks.of(noun) > 0.5 > looks.of(other)


NUMBER_WORDS = {
    "seventeen": "dix-sept",
    "twenty-one": "vingt et un",
    "seventy": "soixante-dix",
    "seventy-one": "soixante et onze",
    "seventy-seven": "soixante-dix-sept",
    "seventy-nine": "soixante-dix-neuf",
    "eighty": "quatre-vingts",
    "eighty-one": "quatre-vingt-un",
    "ninety": "quatre-vingt-dix",
    "ninety-one": "quatre-vingt-onze",
    "ninety-nine": "quatre-vingt-dix-neuf",
}


@pytest.mark.parametrize("number", NUMBER_WORDS)
def test_number_words(shipped, number):
    """The right number; of its spelling, a hyphen for "et" is let pass."""
    said = shipped.translate(f"My uncle has {number} horses.").text
    assert said.replace("soixante-onze", "soixante et onze") == f"Mon oncle a {NUMBER_WORDS[number]} chevaux."


@pytest.mark.parametrize(
    ("text", "answers"),
    [
        ("Kind regards,", {"Cordialement,"}),
        ("Stir in the eggs.", {"Incorporez les œufs."}),
        ("Take one tablet.", {"Prenez un comprimé.", "Prends un comprimé."}),
        ("This item is out of stock.", {"Cet article est en rupture de stock."}),
        ("The vacuum cleaner is broken.", {"L'aspirateur est en panne.", "L'aspirateur est cassé."}),
    ],
)
def test_everyday_lines(shipped, text, answers):
    assert shipped.translate(text).text in answers


@pytest.mark.parametrize(
    ("french", "row", "is_right"),
    [
        ("La souris n'a pas mangé le fromage parce qu'elle était pleine.", 0, True),
        ("La souris n'a pas mangé le fromage parce qu'il était plein.", 0, False),
        ("La souris n'a pas mangé le fromage.", 0, False),
        ("La souris n'a pas mangé le fromage parce qu'il était moisi.", 1, True),
    ],
)
def test_what_counts_as_a_right_pronoun(french, row, is_right):
    assert quality.right(french, ROWS[row]) == is_right


@pytest.fixture(scope="module")
def of_people(shipped):
    return shipped.translate(SENTENCES)


@pytest.mark.slow
def test_people_are_spoken_of_decently(of_people):
    assert [(t.source, t.text) for t in of_people if vulgar(t.text)] == []
    assert all(t.text.strip() and t.text != t.source for t in of_people)


# Whatever comes in


@pytest.mark.parametrize(
    ("text", "answers"),
    [
        ("", {""}),
        (" \n", {" \n"}),
        ("42", {"42"}),
        ("3.14 + 1 = 4.14", {"3.14 + 1 = 4.14"}),
        ("I am hungry", {"J'ai faim", "J'ai faim."}),
        ("I AM HUNGRY.", {"J'AI FAIM."}),
        ("i dont know", {"Je ne sais pas", "Je ne sais pas.", "je ne sais pas"}),
        ("u@example.org", {"u@example.org"}),
        ("I am hungry. 😀", {"J'ai faim. 😀"}),
        ("😀", {"😀"}),
        ("你好，世界", {"你好，世界"}),
        ("Привет", {"Привет"}),
        ("dog", {"chien", "Chien", "chien.", "Chien.", "Un chien", "le chien", "Le chien", "Le chien."}),
    ],
)
def test_odd_input(shipped, text, answers):
    assert shipped.translate(text).text in answers


def test_numbers_stay(shipped):
    assert re.search(r"\b1[ .,\u202f]?995\b", shipped.translate("He was born in 1995.").text)


@pytest.mark.parametrize(("text", "kept"), [("CO₂ is a gas.", "CO₂"), ("The flat has 100 m² of space.", "100 m²")])
def test_small_figures_stay(shipped, text, kept):
    assert kept in shipped.translate(text).text


def test_what_it_cannot_read_amid_a_sentence_stays(shipped):
    assert "你好" in shipped.translate("She said 你好 to her teacher.").text


@pytest.mark.slow
def test_a_line_of_2000_words(shipped):
    line = " ".join(
        (SENTENCES * 3)[: next(n for n in range(600) if len(" ".join((SENTENCES * 3)[:n]).split()) >= 2000)]
    )
    assert len(line.split()) >= 2000
    found = shipped.translate(line, beam=1)
    assert 0.8 * len(line) < len(found.text) < 2 * len(line)
    assert found.text.count(".") >= 0.9 * line.count(".")
    most = Counter(found.text.lower().split()).most_common(1)[0][1]
    assert most < 0.1 * len(found.text.split())  # no word for ever


def test_alone_and_in_a_batch_it_is_the_same(shipped):
    some = [*RIGHT, *SENTENCES[:2]]
    for source, together in zip(some, shipped.translate(some), strict=True):
        alone = shipped.translate(source)
        assert alone.text == together.text
        assert alone.score == pytest.approx(together.score, abs=1e-2)  # inputs are rounded to int8


# Looking

LONGER = "The old man who lives near the river told his daughter that the boat was gone."


def test_watch_names_the_words_of_both_sides(shipped):
    found = shipped.translate("I am hungry now.")
    record = found.watch()
    assert found.watch() is record
    source, target = ["I", "am", "hungry", "now", ".", "</s>"], record["decoder.layers.0.attention"].tokens[0]
    assert [word.text for word in record["encoder.layers.0.attention"].tokens[0].words] == source
    assert [word.text for word in record["decoder.layers.2.cross"].key_tokens[0].words] == source
    assert list(target.pieces) == ["<start>", *found.tokens]
    assert list(record["decoder.layers.2.cross"].tokens[0].pieces) == [*found.tokens, "</s>"]  # what is written
    assert {entry.kind for entry in record.values()} == {"encoder", "decoder", "cross"}
    assert record.check().difference < 1e-4


def test_watch_tells_a_source_from_a_target_of_the_same_length(of_people):
    found = next(t for t in of_people if len(t.tokens) == len(t.source_tokens))
    record = found.watch()
    assert record["encoder.layers.0.attention"].shape == record["decoder.layers.0.attention"].shape
    assert list(record["encoder.layers.0.attention"].tokens[0].pieces) == [*found.source_tokens, "</s>"]
    assert list(record["decoder.layers.0.attention"].tokens[0].pieces) == ["<start>", *found.tokens]


def test_watch_and_alignment_see_the_same(shipped):
    found = shipped.translate("I am hungry.")
    crosses = [entry for entry in found.watch().values() if entry.kind == "cross"]
    weights = torch.stack([entry.matrix[0].mean(0) for entry in crosses]).mean(0)[: len(found.tokens)]
    rows, columns = (shipped.words.words(ids)[1] for ids in map(_ids(shipped), (found.tokens, found.source_tokens)))
    from regard.translation.result import by_words

    torch.testing.assert_close(by_words(weights, rows, columns), found.alignment)


def test_looks_and_alignment_have_one_number_for_a_word(shipped):
    """By the word that is written, and without the end of the source."""
    found = shipped.translate("A dog ate the food because it was hungry.")
    record, source = found.watch(), found.source_words
    for word in ("Un", "chien", "mangé", "nourriture", "parce", "avait"):
        row = found.alignment[found.words.index(word)]
        looks = record.looks(word, kind="cross")
        assert [each.name for each in looks.aside] == ["</s>"]
        for other in ("A", "dog", "ate", "food", "because", "it"):
            assert looks.of(other) == pytest.approx(float(row[source.index(other)]), abs=1e-5)
        assert looks.of("hungry") + looks.of(".") == pytest.approx(float(row[-1]), abs=1e-5)
    last = record.looks("faim.", kind="cross")  # two tokens, one word of the alignment
    assert last.of("hungry") + last.of(".") == pytest.approx(float(found.alignment[-1, -1]), abs=1e-5)
    assert record.looks("chien", kind="cross")[0].word == "dog"
    rolled = record.rollout("chien")
    assert rolled.source[0].word == "dog"  # of the state that writes it
    assert sum(look.weight for look in (*rolled.own, *rolled.source)) == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize("source", ["I am hungry.", "He said no.", "My cat sleeps.", "Hello", "dog dog dog", LONGER])
def test_no_word_is_called_a_sink(shipped, source):
    record = shipped.translate(source).watch()
    for kind, sinks in (("encoder", {"</s>"}), ("decoder", {"<start>"}), ("cross", {"</s>"})):
        chosen = record.at(kind=kind)
        for entry in list(chosen.values())[:1]:
            names = {each.name for word in entry.tokens[0].words for each in chosen.looks(word.tokens).aside}
            assert names == sinks or (source == "Hello" and not names)


def _ids(translator: Translator):
    known = {piece: number for number, piece in enumerate(translator.words.pieces(range(len(translator.words))))}
    return lambda pieces: [known[piece] for piece in pieces]


def test_several_sentences_are_several_passes(shipped):
    found = shipped.translate("I am hungry. 42. Where is the station?", split=True)
    assert len(found.watch().passes) == 2
    with pytest.raises(regard.InputError, match="nothing to watch"):
        shipped.translate("42").watch()
