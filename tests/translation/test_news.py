"""The sentences of news and of health advice that are written for training: grammatical, and not those that measure."""

import re
from pathlib import Path

import pytest

from recipes.grammars import news

DATA = Path(__file__).parents[1] / "data"
RECIPES = Path(news.__file__).parents[1]


@pytest.fixture(scope="module")
def written():
    return news.sentences(6_000)


def digits(text):
    return sorted(re.findall(r"\d+", re.sub(r"(?<=\d)[ ,.](?=\d)", "", text)))


def wrong_pairs(pairs):
    """Pairs whose sides end differently or have other numbers."""
    return [
        (english, french)
        for english, french in pairs
        if english[-1] != french[-1] or english[-1] not in ".?!" or digits(english) != digits(french)
    ]


def wrong_text(lines):
    """Text that a grammar with a hole in it would write."""
    bad = re.compile(
        r"[{}<>|*]|  | [,.]|,,|,\.|\b(?:de|à) les?\b(?! \d)|\b(?:que|de|le|la) (?:un|une|il|ils|elle|elles)\b"
        r"|\b(?:le|la|de|que) [aéèêioœ]\w{3}(?<!onze)"
    )
    return [line for line in lines if bad.search(line)]


PLURAL = "police|officials|winds|media|services|unions|parents|critics|experts|prosecutors|witnesses|firefighters|researchers|scientists"
SINGULAR = "service|office|bank|company|club|agency|ministry|army|study|newspaper|opposition|studio|source|committee"
NOT_ENGLISH = (
    r"[{}<>|*]|  | [,.]|,,",
    r"\b[Aa] (?=[aeio]|8|1[18]-)(?!once)|\b[Aa]n (?![aeiouAEIOU8]|1[18]-)",
    rf"(?<!of )\b(?:{PLURAL}|{PLURAL.title()}) (?:says|is|was|has)\b",
    rf"\b(?:{SINGULAR}) (?:say|are|were|have)\b",
)
# What is grammatical and cannot be; the tails that follow only some frames; people and bodies that there are.
NOT_THAT = (
    r"[3-9]\d\d kilometres per hour|,\d+ kilograms of \w+ during|[4-9]\d degrees|(?:six|seven|eight|nine) tablets",
    r"(?:released|questioned|charged|found)[^,]*, thanks to images|(?:survive on|transmitted|detected)[^,]*, especially among",
    r"[Tt]he symptoms of .*(?:never happened|strong reactions|remain unclear)",
    r"White House|NASA|Financial Times|Nature|World Health|Red Cross|United Nations|[Tt]he mayor of [\w ]+[^\w ,]|[Tt]he mayor of \w+ [a-z]",
)
PAS_CELA = (
    r"originaire de l'(?:Andalousie|Arizona)|kilomètres par heure|presque \d|de femmes et enfants",
    r"adolescent de (?:\d|1[0-2]) ans|fillette, âgée de 1[3-9]|désignée meilleur|cambriolé une bijouterie",
    r"(?:souff\w+|atteinte?s?) de cancer",
)


def found(patterns, lines):
    """The lines that one of the patterns occurs in."""
    bad = re.compile("|".join(patterns))
    return [line for line in lines if bad.search(line)]


def test_it_writes_the_same_each_time_and_nothing_twice(written):
    assert written == news.sentences(6_000)
    assert written[:50] != news.sentences(50, seed=1)
    assert len({english for english, _ in written}) == len(written) == 6_000


def test_nothing_that_measures_is_among_them(written):
    kept_away = {line.split("\t")[0] for line in (DATA / "pronouns.tsv").read_text(encoding="utf-8").splitlines()}
    kept_away |= set((DATA / "documents.txt").read_text(encoding="utf-8").splitlines())
    assert "I am good." in kept_away
    assert not kept_away & {english for english, _ in written}


def test_both_sides_say_the_same_numbers_and_end_alike(written):
    assert wrong_pairs(written) == []
    assert wrong_pairs([("It cost $1,250.", "Cela a coûté 1 260 dollars.")])
    assert wrong_pairs([("Why?", "Pourquoi.")])
    assert not wrong_pairs([("It cost $1,250.5.", "Cela a coûté 1 250,5 dollars.")])


def test_its_french_elides_and_contracts(written):
    assert wrong_text(french for _, french in written) == []
    for bad in ("Près de le lac.", "Selon que il dort.", "Le {P} dort.", "Près de Londres,, il dort.", "La école."):
        assert wrong_text([bad.lower()]) == [bad.lower()]


def test_its_english_agrees(written):
    assert found(NOT_ENGLISH, (english for english, _ in written)) == []
    bad = [
        "Prosecutors says so.",
        "The weather service say so.",
        "Strong winds is expected.",
        "A 8-year-old.",
        "An 12-year-old.",
    ]
    assert found(NOT_ENGLISH, bad) == bad


def test_what_it_says_can_be(written):
    assert found(NOT_THAT, (english for english, _ in written)) == []
    assert found(PAS_CELA, (french for _, french in written)) == []
    bad = [
        "Winds of up to 750 kilometres per hour were recorded.",
        "Officers seized 85,700 kilograms of heroin during a raid.",
        "Temperatures could fall to 57 degrees.",
        "Take eight tablets a day.",
        "A man was released on Monday, thanks to images from a surveillance camera.",
        "Measles can survive on surfaces for several days, especially among smokers.",
        "The symptoms of measles include chills, something that had never happened before.",
        "The journal Nature said so.",
        "The mayor of Mexico City.",
        "The mayor of London said so.",
    ]
    assert found(NOT_THAT, bad) == bad
    bad = [
        "Un homme originaire de l'Andalousie.",
        "Presque, ou presque 97 enfants.",
        "Des dizaines de femmes et enfants.",
        "L'adolescent de 8 ans.",
        "La fillette, âgée de 16 ans.",
        "Une personne atteinte de cancer du poumon.",
    ]
    assert found(PAS_CELA, bad) == bad


def test_it_has_many_frames_and_words(written):
    assert len(news.ALL) >= 450
    assert all(len(frame) == 3 for frame in news.ALL)
    for _, english, french in news.ALL:
        assert [group.count("/") for group in re.findall(r"<([^>]*)>", english)] == [
            group.count("/") for group in re.findall(r"<([^>]*)>", french)
        ], english
    words = {word for english, _ in written for word in re.findall(r"[a-z]{3,}", english)}
    assert len(words) > 1_200


def test_visits_keep_their_marks():
    lines = (RECIPES / "visits.tsv").read_text(encoding="utf-8").splitlines()
    pairs = [tuple(line.split("\t")) for line in lines]
    assert len({english for english, _ in pairs}) == len(pairs) >= 60
    for english, french in pairs:
        assert re.findall(r"⟦\d⟧", english) == re.findall(r"⟦\d⟧", french) != []
    assert wrong_pairs(pairs) == []


def test_the_recipe_writes_a_file(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["news.py", str(tmp_path / "out.tsv"), "--lines", "40"])
    news.main()
    lines = (tmp_path / "out.tsv").read_text(encoding="utf-8").splitlines()
    assert [tuple(line.split("\t")) for line in lines] == news.sentences(40)
    assert "40 pairs" in capsys.readouterr().out
