"""The descriptions of pictures written for training: always the same, never twice, and in French that agrees."""

import re
from collections import Counter
from pathlib import Path

import pytest

from recipes.grammars import caption_phrases, caption_verbs, captions
from recipes.grammars.french import Noun

DATA = Path(__file__).parents[1] / "data"
TESTED = {line.split("\t")[0] for line in (DATA / "pronouns.tsv").read_text(encoding="utf-8").splitlines()}
TESTED |= set((DATA / "documents.txt").read_text(encoding="utf-8").splitlines())


@pytest.fixture(scope="module")
def written():
    return captions.sentences(60_000)


def test_it_writes_the_same_each_time_and_nothing_twice(written):
    assert written[:3000] == captions.sentences(3000)
    assert written[:50] != captions.sentences(50, seed=1)
    assert len(written) == 60_000
    assert len({english for english, _ in written}) == len(written)
    assert len(captions.sentences()) == 12_000


def test_nothing_that_is_tested_is_written(written):
    assert "I am good." in TESTED
    assert not TESTED & {english for english, _ in written}


def test_every_noun_is_used(written):
    text = "\n".join(english for english, _ in written)
    tables = (caption_phrases.PERSONS, caption_phrases.OBJECTS, caption_phrases.GARMENTS)
    nouns = {pair[0].english.removeprefix("+") for table in tables for group in table.values() for pair in group}
    assert len(nouns) > 300
    assert [noun for noun in sorted(nouns) if noun not in text] == []
    assert len(set(re.findall(r"[a-z]+", text.lower()))) > 1200


def wrong_plurals(pairs):
    """Nouns of several words of which only the last has an s, and English ones that want -es."""
    return [
        many.french
        for one, many in pairs
        if many
        and ((" " in one.french and many.french == one.french + "s") or re.search("(?:ch|sh|x)s$", many.english))
    ]


def test_plurals_are_those_of_all_words():
    tables = (caption_phrases.PERSONS, caption_phrases.OBJECTS, caption_phrases.GARMENTS)
    assert wrong_plurals(pair for table in tables for group in table.values() for pair in group) == []
    booth = caption_phrases.nouns_of("phone_booth:cabine_téléphonique:f couch:canapé:m:couchs:canapés chair:chaise:f")
    assert wrong_plurals(booth) == ["cabine téléphoniques", "canapés"]


def test_both_sides_end_alike(written):
    assert Counter(english[-1] for english, _ in written).keys() == {".", "?", "!"}
    assert [pair for pair in written if pair[0][-1] != pair[1][-1]] == []
    assert [pair for pair in written if not 4 <= len(pair[0].split()) <= 25] == []


def wrong_french(lines):
    """French that a grammar with a hole in it would write."""
    bad = re.compile(
        r"[{}_@!*+<&](?<! !)|\b(?:de les?|à les?|(?:que|de) (?:ils?|elles?|eux)|que une?|se est|d'(?:des|h[ao]ck\w+))\b|  "
        r"|\b(?:le|la|ce|ma|ta|de|que|se|je|ne) (?=[aeiouâéèêîôœ])(?!un\b|une\b|y)|ss\b|\b(?!nous)(\w+) \1\b|\bétant\b",
        re.IGNORECASE,
    )
    return [french for french in lines if bad.search(french)]


def test_its_french_elides_and_contracts(written):
    assert wrong_french(french for _, french in written) == []
    for bad in ("Près de le lac.", "Alors que un homme rit.", "Autour de elle.", "Il se appuie.", "Ils sont assiss."):
        assert wrong_french([bad]) == [bad]


def wrong_english(lines):
    bad = re.compile(
        r"[{}_&+]|\ba (?=[aeio](?!uro))|\ban (?=[^aeiou]|euro|uni)|\b(\w+) \1\b|  |\b(?:a|two) (?:is|are)\b",
        re.IGNORECASE,
    )
    return [english for english in lines if bad.search(english)]


def test_its_english_has_its_articles(written):
    assert wrong_english(english for english, _ in written) == []
    assert wrong_english(["A old man runs.", "The man walks down down."]) == [
        "A old man runs.",
        "The man walks down down.",
    ]


# Grammatical, and not what a picture shows: two of what each has one of, dogs that swim on land, "a dog and a dog".
NOT_SEEN = (
    r"^(?:[Tt]wo|[Tt]hree|[Ff]our|[Ff]ive|[Ss]ix|[Ss]everal) .* their (?:bike|phone|jacket|helmet|tongue|nose|paw|skateboard)\b",
    r"^(?:[Tt]wo|[Tt]hree|[Ff]our|[Ff]ive|[Ss]ix|[Ss]everal) .*\brid(?:e|ing) a (?:bike|bicycle|motorcycle|scooter|horse|skateboard)\b",
    r"\b[Aa]n? ((?:\w+ )?\w+) and an? \1 \w+",
    r"\bswim(?:s|ming)? (?:\w+ )*(?:snow\w*|ice|sand|woods|grass|yard|leaves|mountain|park|lawn|rocks|forest|frozen lake)\b",
    r"\b(?:lies|lying|lie) on the sand (?:on|down)",
)


def not_seen(lines):
    """The lines that one of these occurs in."""
    bad = re.compile("|".join(NOT_SEEN))
    return [line for line in lines if bad.search(line)]


def test_what_it_shows_can_be_seen(written):
    assert not_seen(english for english, _ in written) == []
    assert [french for _, french in written if re.search("au téléphone portable|au portable", french)] == []
    bad = [
        "Two women are riding their bike.",
        "Two women are riding a bike.",
        "A dog and a dog swim.",
        "A brown dog is swimming on a snowy hill.",
        "A boat lies on the sand on calm water.",
    ]
    assert not_seen(bad) == bad


def of_people(lines):
    """How many lines in a hundred call people each of the things that one can call them for their origin."""
    nouns = "man|men|woman|women|guys?|lady|ladies|gentleman|gentlemen|boys?|girls?|child|children|kids?|people|person|teenagers?"
    seen = Counter(word for line in lines for word in re.findall(rf"\b([A-Z]\w+|black|white) (?:{nouns})\b", line))
    return {word: 100 * seen[word] / len(lines) for word, *_ in caption_phrases.ORIGIN}


def test_origins_are_rare_and_no_people_are_marked_more_than_others(written):
    share = of_people([english for english, _ in written])
    assert {"black", "white", "Asian", "African", "European"} <= share.keys()
    assert 0.1 < min(share.values()) <= max(share.values()) < 1
    assert max(share.values()) < 2 * min(share.values())


def test_adjectives_stand_where_french_puts_them():
    tree = Noun("tree", "arbre", False, elides=True)
    assert caption_phrases.describe(tree, [["old", "<vieux", "<vieille"]], "a") == ("an old tree", "un vieil arbre")
    jeans = Noun("+jeans", "jean", False)
    assert caption_phrases.describe(jeans, [["blue", "bleu", "bleue"]], "a") == ("blue jeans", "un jean bleu")
    with pytest.raises(KeyError, match="finir"):
        caption_verbs.conjugate("finir")


def test_the_recipe_writes_a_file(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["captions.py", str(tmp_path / "out.tsv"), "--lines", "40"])
    captions.main()
    lines = (tmp_path / "out.tsv").read_text(encoding="utf-8").splitlines()
    assert [tuple(line.split("\t")) for line in lines] == captions.sentences(40)
    assert "40 pairs" in capsys.readouterr().out
