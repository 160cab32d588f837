"""recipes/corpora.py: screening, and the copies that teach a model to keep facts."""

import bz2
import random

import pytest
from support.translation.similarity import jaccard

from recipes import corpora
from regard.translation.training.corpus import read_pairs
from regard.translation.training.vocabulary import Vocabulary


def test_numbers_are_read_in_both_languages():
    assert corpora.numbers("On 3 May 1,299.50 of 2,000,000; version 1.2.3, a4, 5th", "en") == [
        "3",
        "1299.50",
        "2000000",
    ]
    assert corpora.numbers("Le 3 mai 1 299,50 sur 2 000 000 ou 2.000.000", "fr") == [
        "3",
        "1299.50",
        "2000000",
        "2000000",
    ]


@pytest.mark.parametrize(
    ("english", "french", "is_usable"),
    [
        ("It was in 1997.", "C'était en 1997.", True),
        ("It was in 1997.", "C'était en 1998.", False),
        ("He has 3 dogs.", "Il a trois chiens.", True),  # small numbers may be written out
        ("OK", "OK", False),
        ("The dog ate.", "The dog ate the food and the cat.", False),
        ("Yes.", "Oui, mais seulement si tout le monde est d'accord avec ce que nous venons de dire.", False),
    ],
)
def test_pairs_of_no_use_are_dropped(english, french, is_usable):
    assert corpora.usable((english, french)) == is_usable


def test_other_numbers_are_the_same_on_both_sides():
    rng, pair = random.Random(1), ("It costs 1,299.50 in 1997, not 7.", "Cela coûte 1 299,50 en 1997, pas 7.")
    found = {corpora.other_numbers(pair, rng) for _ in range(50)}
    assert len(found) > 40
    for english, french in found:
        values = corpora.numbers(english, "en")
        assert values == corpora.numbers(french, "fr")
        assert len(values) == 3
        assert values[0].count(".") == 1
    assert corpora.other_numbers(("I have 2 dogs.", "J'ai deux chiens."), rng) is None
    assert corpora.other_numbers(("No number.", "Aucun nombre."), rng) is None


def test_marks_stand_for_what_both_sides_share():
    pair = ("We met Anna Berg at www.example.org in 1997.", "Nous avons vu Anna Berg sur www.example.org en 1997.")
    found = {corpora.marked(pair, random.Random(seed)) for seed in range(400)}
    assert all(sorted(english.count(f"⟦{n}⟧") for n in range(1, 10)) == sorted(french.count(f"⟦{n}⟧") for n in range(1, 10))
               for english, french in found)  # fmt: skip
    assert any("⟦1⟧" in english and "⟦2⟧" in english for english, _ in found)
    assert any("⟦9⟧" in english for english, _ in found)
    assert not any("www" in english and "www" not in french for english, french in found)
    assert corpora.marked(("It rains.", "Il pleut."), random.Random(0)) is None


def test_noise_leaves_the_target_but_for_its_full_stop():
    pair = ("The children are playing outside.", "Les enfants jouent dehors.")
    found = [corpora.noisy(pair, random.Random(seed)) for seed in range(80)]
    assert {french for _, french in found} == {"Les enfants jouent dehors.", "Les enfants jouent dehors"}
    assert all(english.endswith(".") == french.endswith(".") for english, french in found)
    assert len({english for english, _ in found}) > 20
    assert all(jaccard(english, pair[0]) > 0.4 for english, _ in found)


def test_greetings_come_alone_and_beside_others():
    greetings = [("I'm good.", "Je vais bien."), ("They are fine.", "Ils vont bien.")]
    others = [(f"Word {n}.", f"Mot {n}.") for n in range(60)] + [("A sentence that is far too long for this one.", "")]
    found = list(corpora.greeted(greetings, others, random.Random(0)))
    assert len(found) == len(set(found)) == 2 * corpora.GREETED
    for english, french in found:
        assert ("I'm good." in english, "They are fine." in english) == (
            "Je vais bien." in french, "Ils vont bien." in french
        )  # fmt: skip
        assert english.startswith("Word") == french.startswith("Mot")
    assert {len(english.split(". ")) for english, _ in found} == {1, 2}
    assert not any("too long" in english for english, _ in found)


def test_all_files_are_made_and_no_line_is_near_a_test(tmp_path, monkeypatch, capsys):
    data, words = tmp_path / "data", ["dog", "cat", "house", "river", "tree", "car", "book", "song", "king", "storm"]
    near = "The old king of the river sold 25 books to the storm."
    lines = [
        f"The {a} and the {b} saw Mr Okafor on page {n}.\tLe {a} et le {b} ont vu M. Okafor à la page {n}.\n"
        for n, (a, b) in enumerate(((a, b) for a in words for b in words), 1_000)
    ]
    for folder in ("europarl", "documents", "tatoeba", "ntrex128", "tico19", "multi30k", "general"):
        (data / folder).mkdir(parents=True)
    for name in ("tatoeba/test", "tatoeba/dev", "ntrex128/pairs", "tico19/pairs"):
        (data / f"{name}.tsv").write_text(f"{near}\tLe vieux roi de la rivière a vendu 25 livres à la tempête.\n")
    for name in ("test_2016_flickr", "test_2017_flickr", "test_2017_mscoco", "test_2018_flickr"):
        for language in ("en", "fr"):
            (data / "multi30k" / f"{name}.{language}").write_text("A man.\n")
    (data / "tatoeba" / "train.tsv").write_text("".join(lines))
    packed = bz2.compress("".join([*lines, f"{near[:-1]}!\tUne autre phrase avec 25 mots.\n"]).encode())
    (data / "europarl" / "europarl.000.tsv.bz2").write_bytes(packed)
    (data / "documents" / "laws.tsv.bz2").write_bytes(packed)
    for name in ("books", "canada"):
        (data / "general" / f"{name}.tsv.bz2").write_bytes(packed)
    monkeypatch.setattr(corpora, "DOCUMENTS", {"laws": 40})
    monkeypatch.setattr(corpora, "GENERAL", ["canada"])
    monkeypatch.setattr(corpora, "UNCOMMON", 30)
    monkeypatch.setattr(corpora, "BOOKS", 25)
    monkeypatch.setattr(corpora, "COPIES", {"joined": 5, "numbers": 20, "marked": 90, "marks": 10, "noise": 9})
    monkeypatch.setattr(corpora, "LAST", {"tatoeba": 8, "parliament": 7, "marks": 3})
    monkeypatch.setattr(corpora, "PART", 30)
    monkeypatch.setattr(corpora, "PIECES", 120)
    monkeypatch.setattr(corpora, "SAMPLE", {"parliament": 50, "documents": 20, "tatoeba": 50})
    monkeypatch.setattr("sys.argv", ["corpora.py", str(data), str(tmp_path / "out")])
    corpora.main()
    made = {path.stem: list(read_pairs(path)) for path in (tmp_path / "out").glob("*.tsv")}
    sizes = {name: len(pairs) for name, pairs in made.items()}
    assert sizes == {
        "parliament": 100, "parliament-part": 30, "documents": 40, "joined": 5, "numbers": 20, "marks": 10, "noise": 9,
        "greeted": 24, "last": 18, "parliament-uncommon": 30, "general": 100, "books": 25,
    }  # fmt: skip
    assert not any(
        "vieux roi" in french or "old king" in english for pairs in made.values() for english, french in pairs
    )
    assert Vocabulary.load(tmp_path / "out").has_marks
    assert "parliament.tsv: 100 pairs" in capsys.readouterr().out
    # Other files are screened where they lie.
    (tmp_path / "out" / "own.tsv").write_text(
        f"A tall man climbs.\tUn grand homme grimpe.\n{near}\tUne phrase de 25 mots.\n"
    )
    monkeypatch.setattr("sys.argv", ["corpora.py", str(data), str(tmp_path / "out"), "--screen", "own.tsv"])
    corpora.main()
    assert list(read_pairs(tmp_path / "out" / "own.tsv")) == [("A tall man climbs.", "Un grand homme grimpe.")]
    # Or only those are listed that have the words of a test line.
    (data / "tatoeba" / "train.tsv").write_text("".join(lines) + "«A man»!\tUn homme.\n")
    monkeypatch.setattr("sys.argv", ["corpora.py", str(data), str(tmp_path), "--same-words", "tatoeba/train.tsv"])
    capsys.readouterr()
    corpora.main()
    assert capsys.readouterr().out == "«A man»!\tUn homme.\ntatoeba/train.tsv: 1 pairs\n"
