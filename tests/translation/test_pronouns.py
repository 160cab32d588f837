"""The minimal pairs that measure pronouns, and that the sentences written for training keep away from them."""

import re
from collections import Counter
from pathlib import Path

import pytest
from support.translation.similarity import jaccard

from recipes.grammars import french, pronouns, sense
from regard.errors import InputError
from regard.translation.training.corpus import near

DATA = Path(__file__).parents[1] / "data"
HEAD, *ROWS = [tuple(line.split("\t")) for line in (DATA / "pronouns.tsv").read_text(encoding="utf-8").splitlines()]
DOCUMENTS = (DATA / "documents.txt").read_text(encoding="utf-8").splitlines()
KEPT_AWAY = [row[0] for row in ROWS] + DOCUMENTS
NEAR = 0.7
IRREGULAR = {"glasses": "glass", "wolves": "wolf"}


def singular(noun):
    return IRREGULAR.get(noun) or (noun[:-1] if noun.endswith("s") and not noun.endswith("us") else noun)


@pytest.fixture(scope="module")
def written():
    return pronouns.sentences()


# What can be wrong with the pairs; each check is seen to fail below.
def wrong_rows(rows):
    """Rows that are not: a sentence with both nouns and it, whose French has the pronoun that the row asks for."""
    found = []
    for row in rows:
        if len(row) != 5 or not all(row):
            found.append(row)
            continue
        english, noun, other, pronoun, french = row
        it = "they" if pronoun in ("ils", "elles") else "it"
        words = re.findall(r"\w+", english.lower())
        said = re.findall(r"\b(?:il|elle|ils|elles)\b", french.lower().split(". ")[-1])
        opening = french.split()[0].lower()  # "Elle a sorti la photo ...": someone else
        said = said[1:] if opening in ("il", "elle") else said
        fits = noun in words and other in words and words.count(it) == 1 and said == [pronoun]
        if pronoun not in ("il", "elle", "ils", "elles") or not fits:
            found.append(row)
    return found


def wrong_genders(rows):
    """Nouns that are masculine here and feminine there, and rows whose two nouns do not differ."""
    genders = {}
    for _, noun, _, pronoun, _ in rows:
        genders.setdefault(singular(noun), set()).add(pronoun.removesuffix("s"))
    twofold = [noun for noun, found in genders.items() if len(found) > 1]
    return twofold + [row for row in rows if genders.get(singular(row[1])) == genders.get(singular(row[2]))]


def wrong_pairs(rows):
    """Neighbours that differ in more than their last four words, or in less than the pronoun."""
    found = []
    for one, two in zip(rows[::2], rows[1::2], strict=True):
        a, b = one[0].split(), two[0].split()
        shared = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), 0)
        same_start = shared > 4 and max(len(a), len(b)) - shared <= 4
        crossed = one[1:3] == two[1:3][::-1] and one[3] != two[3]
        if not (same_start and crossed and re.search(r"\b(it|they)\b", " ".join(a[:shared]).lower())):
            found.append((one[0], two[0]))
    return found


def of_the_first_noun(row):
    return re.findall(r"\w+", row[0].lower()).index(row[1]) < re.findall(r"\w+", row[0].lower()).index(row[2])


def test_rows():
    assert HEAD == ("English", "it", "other", "pronoun", "French")
    assert len(ROWS) >= 120
    assert len({row[0] for row in ROWS}) == len(ROWS)
    assert wrong_rows(ROWS) == []
    english, noun, other, pronoun, french = ROWS[0]
    assert wrong_rows([(english, noun, other, pronoun)])
    assert wrong_rows([(english, "moon", other, pronoun, french)])
    assert wrong_rows([(english, noun, other, "il", french)])
    assert wrong_rows([(english.replace("it", "he"), noun, other, pronoun, french)])


def test_genders():
    assert wrong_genders(ROWS) == []
    assert wrong_genders([*ROWS, ("", "mouse", "car", "il", "")])
    assert wrong_genders([*ROWS, ("", "mouse", "car", "elle", "")])


def test_pairs_are_minimal():
    assert wrong_pairs(ROWS) == []
    assert wrong_pairs([ROWS[0], ROWS[3]])
    assert wrong_pairs([ROWS[0], ROWS[0]])


def test_they_are_balanced():
    count = Counter(row[3].removesuffix("s") for row in ROWS)
    assert count["il"] == count["elle"]
    first = Counter(row[3].removesuffix("s") for row in ROWS if of_the_first_noun(row))
    assert sum(first.values()) == len(ROWS) / 2
    assert abs(first["il"] - first["elle"]) <= 4  # neither "the first noun" nor "il" is a way to guess


def all_nouns():
    return {n.english for both in (p for group in pronouns.GROUPS.values() for p in group) for n in both if n}


def test_no_noun_is_shared(written):
    tested = {form for row in ROWS for noun in row[1:3] for form in (noun, singular(noun), singular(noun) + "s")}
    assert not all_nouns() & tested
    words = {word for english, _ in written for word in re.findall(r"\w+", english.lower())}
    assert not words & tested
    assert not words & {"dog", "dogs", "cat", "cats", "sushi", "animal"}
    assert "mare" in words  # the words are looked for where they are
    assert {"mouse", "mice"} & tested


def template(english, nouns):
    main = re.split(r" because |\. It |, it", english)[0]
    return " ".join("N" if word in nouns else word for word in re.findall(r"[\w']+", main.lower()))


def test_no_template_is_shared():
    tested = {template(row[0], {*row[1:3], "the"}).replace("N N", "N") for row in ROWS}
    tables = (
        pronouns.FRAMES, pronouns.CONCESSIONS, pronouns.RESULTS, pronouns.SINGLES, pronouns.THINGS, pronouns.ANIMALS,
    )  # fmt: skip
    frames = [line.split("|")[0] for text in tables for line in text.splitlines()]
    frames += [frame.replace("{P}", who) for frame in frames if "{P}" in frame for who, *_ in pronouns.SPEAKERS]
    frames = [frame.replace("{s}", "s").replace("{dont}", "doesn't") for frame in frames]
    ours = {template(re.sub(r"\{[ABP]\}", "N", frame), {"n"}) for frame in frames}
    assert {"N swallowed N", "N overlooks N", "we washed N in N", "when N fell on N"} <= ours
    assert "N didn't eat N" in tested
    assert not ours & tested
    assert not ours & {"N ate N", "i like N", "N didn't cross N"}


@pytest.mark.slow
def test_nothing_written_comes_near(written):
    lines = [english for english, _ in written]
    assert not any(near(lines, KEPT_AWAY, NEAR))
    assert near([ROWS[5][0].replace("suitcase", "suitcases"), DOCUMENTS[2]], KEPT_AWAY, NEAR) == [True, True]


def test_no_greeting_comes_near():
    path = Path(pronouns.__file__).parents[1] / "greetings.tsv"
    lines = [line.split("\t")[0] for line in path.read_text(encoding="utf-8").splitlines()]
    assert len(lines) == 24
    assert not any(near(lines, KEPT_AWAY, NEAR))


def test_it_writes_the_same_each_time_and_nothing_twice(written):
    assert written == pronouns.sentences()
    assert written[:50] != pronouns.sentences(50, seed=1)
    assert len(written) == 12_000
    assert len({english for english, _ in written}) == len(written)


def wrong_french(lines):
    """French that a grammar with a hole in it would write."""
    bad = re.compile(
        r"[{}_@!*](?<! !)|\b(?:de le|de les|à le|à les|que ils?|que elles?|si ils?|se est|ne a|je [aeiouhéè])\b"
        r"|\b(?:le|la|ce|ma|de|que|je|ne) (?=[aeiouâéèêîôœ])(?!un\b|une\b|y)|ss\b",
        re.IGNORECASE,
    )
    return [french for french in lines if bad.search(french)]


def test_its_french_elides_and_contracts(written):
    assert wrong_french(french for _, french in written) == []
    for bad in (
        "Le oiseau dort.",
        "Près de le lac.",
        "Parce que il dort.",
        "Ma écharpe.",
        "Il {a} faim.",
        "s'il ou si ils",
        "Je les ai miss ici.",
    ):
        assert wrong_french([bad]) == [bad]


def test_its_pronouns_are_both_and_for_both(written):
    count = Counter(word for _, french in written for word in re.findall(r"\b(?:il|elle)\b", french))
    assert 0.4 < count["il"] / sum(count.values()) < 0.6
    hungry = [
        french
        for english, french in written
        if re.search(r"\bit (?:was|is) (?:very )?(?:hungry|thirsty|cold)\b", english)
    ]
    idiom = [french for french in hungry if re.search(r"\b(?:avait|a) (?:très )?(?:faim|soif|froid)\b", french)]
    assert len(idiom) > 100


def test_near_is_the_plain_comparison(written):
    lines = [english for english, _ in written[:60]] + KEPT_AWAY[-20:] + ["", "abc"]
    for threshold in (0.3, 0.7):
        plain = [any(line and jaccard(line, other) >= threshold for other in KEPT_AWAY) for line in lines]
        assert near(lines, KEPT_AWAY, threshold) == plain
        assert near(lines * 5, KEPT_AWAY, threshold) == plain * 5  # more lines than others: the others are indexed
        assert any(plain)
        assert not all(plain)
    with pytest.raises(InputError, match=r"Got 0"):
        near(lines, KEPT_AWAY, 0.0)


def test_the_recipe_writes_a_file(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["pronouns.py", str(tmp_path / "out.tsv"), "--lines", "40"])
    pronouns.main()
    lines = (tmp_path / "out.tsv").read_text(encoding="utf-8").splitlines()
    assert [tuple(line.split("\t")) for line in lines] == pronouns.linked_sentences(40)
    assert "40 pairs" in capsys.readouterr().out


# Links: which word "it" stands for


def wrong_links(rows):
    """Rows whose links do not lead from a pronoun to other words before or after it."""
    wrong = []
    for english, _, links in rows:
        words = [word.strip(".,;:!?").lower() for word in english.split()]
        for link in links.split():
            row, key = map(int, link.split(">"))
            if words[row] not in ("it", "they", "them") or words[key] in ("it", "they", "them", "the", "a", "because"):
                wrong.append((english, link))
    return wrong


def test_links_lead_from_the_pronoun_to_its_noun():
    rows = pronouns.linked_sentences(4000)
    linked = [row for row in rows if row[2]]
    assert len(linked) > 0.75 * len(rows)
    assert wrong_links(rows) == []
    english, _, _ = linked[0]
    assert wrong_links([(english, "", "0>1")])
    assert pronouns.links("The pen is on the pen. It is old.", french.Noun("pen", "stylo", False)) == ""  # which one?


def test_sense_has_the_breadth_of_a_vocabulary():
    groups = [*pronouns.GROUPS.values(), *sense.NOUN_GROUPS.values()]
    nouns = {one.english for pairs in groups for one, _ in pairs}
    tables = pronouns.FRAMES, pronouns.CONCESSIONS, pronouns.RESULTS, sense.FRAMES, sense.THREE, sense.RELATIVES
    frames = sum(len(table.splitlines()) for table in tables)
    assert len(nouns) >= 1500
    assert len(sense.PREDICATE_LIST) + len(pronouns.KINDS) >= 600
    assert frames >= 250
    tested = {form for row in ROWS for noun in row[1:3] for form in (noun, singular(noun), singular(noun) + "s")}
    assert not nouns & tested


def test_a_predicate_suits_one_noun_and_cannot_be_meant_of_the_other():
    def english(one, other):
        return {p.english for p in sense.only(sense.groups_of(one), [sense.groups_of(other)])}

    assert "melted in the mouth" in english("pizza", "piano")
    assert "melted in the mouth" not in english("pizza", "pear")
    assert "melted in the mouth" not in english("pizza", "beer")  # nobody says so of beer, but who knows
    assert "had to be tuned" in english("harp", "pear")
    assert not english("harp", "violin")
    assert "had just been repainted" in english("shed", "discount")
    assert "had just been repainted" not in english("discount", "shed")  # both are "remise" in French


def test_sense_agrees_in_gender_and_number():
    pears = french.Noun("pears", "poires", True, plural=True)
    bans = french.Noun("bans", "bans", False, plural=True)
    predicates = {p.english: p for p in sense.PREDICATE_LIST}
    assert predicates["had worms in it"].of(pears) == ("had worms in them", "contenaient des vers")
    assert predicates["had been picked that morning"].of(pears)[1] == "avaient été cueillies le matin même"
    assert predicates["thin and weak"].of(pears) == ("were thin and weak", "étaient maigres et faibles")
    assert predicates["illegal"].of(bans)[1] == "étaient illégaux"
    assert predicates["sharp"].of(pears)[1] == "étaient tranchantes"
