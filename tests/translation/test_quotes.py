"""Quotations: where they are, that none is lost, and that titles stay."""

import random
import re

import pytest
import torch
from test_facts import Search

from regard.translation.result import TranslatedSegment
from regard.translation.text.facts import (
    commas_outside,
    find_quotes,
    french_quotes,
    keeps_quotes,
    quotes_as_facts,
    split_facts,
)
from regard.translation.text.languages import Languages
from regard.translation.text.segments import Placeholders, Removed, Segment
from regard.translation.training.vocabulary import Vocabulary
from regard.translation.translator import _keep_facts

pytestmark = pytest.mark.usefixtures("unchecked")  # a search that is played has no model
FRENCH = Languages.of("en-fr", typeset=False)
LINES = [
    "He said: I don't know? And left!",
    "Il a dit « je ne sais pas » et est parti.",
    "The so-called experts, um \" ' 0123456789",
]


def translated(segments, search):
    return _keep_facts(search(segments), search)


def found(text):
    """The quotations of a text, and those of them that are titles."""
    return [text[start:end] for start, end in find_quotes(text)], [
        fact.body for _, fact in quotes_as_facts(text, hide=False) if fact.body
    ]


@pytest.fixture(scope="module")
def words():
    return Vocabulary.train(LINES * 9, size=70, marks=True)


# Finding them


@pytest.mark.parametrize(
    ("text", "quotes", "titles"),
    [
        ('I read "War and Peace" last year.', ['"War and Peace"'], ["War and Peace"]),
        ("I watched “The Godfather”.", ["“The Godfather”"], ["The Godfather"]),
        ("I watched ‘The Godfather’.", [], ["The Godfather"]),
        ("I watched 'The Birds' twice.", [], ["The Birds"]),
        ("He saw «Le Monde» there.", ["«Le Monde»"], ["Le Monde"]),
        ('I left "War and Peace," he said.', ['"War and Peace,"'], ["War and Peace"]),
        ('She wrote "The End."', ['"The End."'], ["The End"]),
        ('The word "love" is short.', ['"love"'], ["love"]),
        ('What does "serendipity" mean?', ['"serendipity"'], ["serendipity"]),
        ('How do you spell "pretty"?', ['"pretty"'], ["pretty"]),
        ('The letter "," is short.', ['","'], [","]),
        ("The word 'cat' means that.", [], ["cat"]),
        ("He said “the word ‘love’ is hard”.", ["“the word ‘love’ is hard”"], ["love"]),
        ('In other words, "I am tired."', ['"I am tired."'], []),
        ('A 5" nail of 6" means a lot.', [], []),
        ('He said "I don\'t know" and left.', ['"I don\'t know"'], []),
        ("“I am tired,” she said.", ["“I am tired,”"], []),
        ('"Yes" or "no"?', ['"Yes"', '"no"'], []),
        ('"Is it?" "Almost."', ['"Is it?"', '"Almost."'], []),
        ('"Phenomenal" from start to end', ['"Phenomenal"'], []),
        ('It is for "emotional reasons," he said.', ['"emotional reasons,"'], []),
        ('She said "go "away" now".', ['"go "away" now"', '"away"'], []),
        ("He said “do ‘it’ now”.", ["“do ‘it’ now”"], []),
        ('A 5" nail is "big".', ['"big"'], []),
        ('He left ("I am tired"), she said.', ['"I am tired"'], []),
        ('"War and Peace"', ['"War and Peace"'], []),  # the whole text is to be translated
        ('HE LEFT "WAR AND PEACE".', ['"WAR AND PEACE"'], []),
    ],
)
def test_what_is_quoted(text, quotes, titles):
    assert found(text) == (quotes, titles)


@pytest.mark.parametrize(
    "text", ['A 5" nail, 6\'2" tall', 'He said "" and « » left.', 'He said "hello and left.', "” and “", "'", '"', ""]
)
def test_what_is_no_quotation(text):
    assert find_quotes(text) == []


def test_any_text_with_quotes_is_read(words):
    choose = random.Random(0)
    letters = "aA1 s.,=(\"\"''“”‘’«»(<b>`\n"
    for _ in range(2000):
        text = "".join(choose.choices(letters, k=choose.randint(0, 30)))
        for hide in (False, True):
            parts = split_facts(text, quotes_as_facts(text, hide=hide))
            assert "".join(part if isinstance(part, str) else part.text for part in parts) == text
        segment = Segment.read(text, "", words, FRENCH)
        assert segment.hide(1).text == segment.hide(2).text == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('Set name="Tom Sawyer" there.', ['name="Tom Sawyer"']),
        ('Call print("Hello World") twice.', ['print("Hello World")']),
        ('Send {"name": "Tom", "n": 5}.', ['{"name": "Tom", "n": 5}']),
        ('He works at "Apple Inc." today.', ["« Apple Inc. »"]),
        ('He works at "Apple Inc."', ["« Apple Inc »"]),
        ('See `a "Bc De"` and <a href="Xy Zu">it</a>.', ['`a "Bc De"`']),
    ],
)
def test_how_what_is_copied_is_written(text, shown, words):
    assert list(Segment.read(text, "", words, FRENCH).marks.values()) == shown


# In a translation


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("Il a dit « je ne sais pas » et est parti.", True),
        ('Il a dit "je ne sais pas" et est parti.', True),
        ("Et il est parti en disant « je ne sais pas ».", True),
        ("Il a dit je ne sais pas et est parti.", False),
        ("Il a dit « je ne sais pas et est parti.", False),
        ("Il a « dit » « je ne sais pas » et est parti.", False),
    ],
)
def test_quotations_are_verified(text, kept):
    assert keeps_quotes('He said "I don\'t know" and left.', text) is kept


def test_a_mark_that_stands_for_a_quotation_gets_no_quotes_of_its_own():
    assert keeps_quotes("I read ⟦1⟧.", "J'ai lu ⟦1⟧.")
    assert not keeps_quotes("I read ⟦1⟧.", "J'ai lu « ⟦1⟧ ».")


def test_where_a_mark_has_no_partner_any_translation_is_taken():
    assert keeps_quotes('He left." She said "no".', "Il est parti. Elle a dit « non ».")


def test_other_quotes_become_french_ones():
    assert french_quotes('"Oui !" ou "non" ?') == "« Oui ! » ou « non » ?"
    assert french_quotes('"Il dit : « oui »."') == "« Il dit : « oui ». »"
    assert french_quotes('5" de large') == '5" de large'


@pytest.mark.parametrize(
    ("text", "french"),
    [
        ("« Oui, » dit-il.", "« Oui », dit-il."),
        ("«\u00a0Oui,\u00a0» dit-il.", "«\u00a0Oui\u00a0», dit-il."),
        ("«Oui,» dit-il.", "«Oui», dit-il."),
        ("« Oui, » et « non, » dit-il.", "« Oui », et « non », dit-il."),
        ("Il est tard, » dit-il.", "Il est tard », dit-il."),  # the quotation began a sentence before
        ("« Il dit « oui, » » et part.", "« Il dit « oui » », et part."),
        ("« Oui, », dit-il.", "« Oui », dit-il."),  # none is doubled
        ("« Il dit « oui, », », dit-elle.", "« Il dit « oui » », dit-elle."),
        ("Il dit « oui, ».", "Il dit « oui »."),
        ("Il dit « oui, » : non.", "Il dit « oui » : non."),
        ("(ou « oui, »)", "(ou « oui »)"),
        ("[« Oui, »]", "[« Oui »]"),
        ("« Oui, » (dit-il) « non »", "« Oui » (dit-il) « non »"),
        ("« Oui, » — dit-il.", "« Oui » — dit-il."),
        ("Il dit, »oui.«", "Il dit, »oui.«"),  # as Germans write them
        ("« Oui,\n» dit-il.", "« Oui,\n» dit-il."),
        ("« Il est tard. » « Quoi ! » dit-il.", "« Il est tard. » « Quoi ! » dit-il."),
        ("Oui, « non » et « , »", "Oui, « non » et « , »"),  # the sign itself
        ('f("Oui,", 5)', 'f("Oui,", 5)'),
    ],
)
def test_a_comma_stands_after_french_quotes(text, french):
    assert commas_outside(text) == french


@pytest.mark.parametrize(
    ("parts", "french"),
    [
        (["a ", Removed("« ", 1), "b,", Removed(" »", -1), " c"], "a « b », c"),
        (
            ["a ", Removed("« ", 1), Removed("<b>", 2), "b,", Removed("</b>", -2), Removed(" »", -1), " c"],
            "a « <b>b</b> », c",
        ),
        (
            ["a ", Removed("« ", 1), Removed("<b>", 2), "b", Removed("</b>", -2), ",", Removed(" »", -1), " c"],
            "a « <b>b</b> », c",
        ),
    ],
)
def test_a_comma_stands_after_quotes_that_are_put_back(parts, french):
    placeholders = Placeholders.find(parts, str.isascii)
    assert placeholders.readable == "a b, c"
    assert commas_outside(placeholders.put_back("a b, c", torch.eye(3).tolist())) == french


@pytest.mark.parametrize(
    ("parts", "french"),
    [
        ([Removed("« ", 1), ",", Removed(" »", -1)], "« , »"),
        (["a, ", Removed("«", 1), Removed("<b>", 2), Removed("</b>", -2), Removed("»", -1), " b"], "a,"),
    ],
)
def test_only_a_comma_of_the_quotation_moves(parts, french):
    placeholders = Placeholders.find(parts, str.isascii)
    words = placeholders.readable.split()
    found = commas_outside(placeholders.put_back(" ".join(words), torch.eye(len(words)).tolist()))
    assert " ".join(found.split()).startswith(french)


# What the model reads


def test_a_title_is_a_mark_from_the_first(words):
    segment = Segment.read('I left "War and Peace." He said "no".', "", words, FRENCH)
    assert segment.placeholders.readable == 'I left ⟦1⟧. He said "no".'
    assert segment.marks == {"⟦1⟧": "« War and Peace »"}
    assert Segment.read('I left "Ms. Hill".', "", words, FRENCH).marks == {"⟦1⟧": "« Ms. Hill »"}
    assert Segment.read("I left “King Lear”.", "", words).marks == {"⟦1⟧": "“King Lear”"}  # not into French
    typeset = Segment.read("I left “King Lear”.", "", words, Languages.of("en-fr"))
    assert typeset.marks == {"⟦1⟧": "«\u00a0King Lear\u00a0»"}


def test_in_capitals_nothing_is_a_title(words):
    assert not Segment.read('HE LEFT "WAR AND PEACE" AND "I".', "", words).marks


@pytest.mark.parametrize(
    ("text", "copied"),
    [
        ('A 5" and a 6\'2" left.', ['5"', "6'2\""]),
        ('A 5.5” nail is "big".', ["5.5”"]),
        ('He wrote "1999" there.', []),
        ('x = "" is not “” or (« »).', ['""', "“”", "« »"]),
        ('Use """ there.', ['"""']),
        ('She said "go "away"".', []),
    ],
)
def test_inches_and_empty_quotations_are_copied(words, text, copied):
    assert list(Segment.read(text, "", words, FRENCH).marks.values()) == copied


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ('He said "I don\'t know" and left.', "He said I don't know and left."),
        ('"I don\'t know," he said.', "I don't know, he said."),
        ("He said “I 'know' him” and left.", "He said I know him and left."),
        ('The so-called "experts" left.', "The so-called experts left."),
        ('"He left?" "I don\'t know."', "He left? I don't know."),
        ('@john: "I don\'t know."', "⟦1⟧: I don't know."),
    ],
)
def test_if_that_fails_the_marks_are_removed(words, text, read):
    assert Segment.read(text, "", words, FRENCH).hide(1).placeholders.readable == read


# Trying again


def test_lost_quotation_marks_are_put_back_by_the_alignment_in_one_batch(words, monkeypatch):
    answers = {
        'He said "I don\'t know" and left.': ["Il a dit je ne sais pas et est parti. »"],
        "He said I don't know and left.": ["Il a dit ne sais et parti."],
        "He left.": ["Il est parti."],
    }
    search = Search(words, answers)
    monkeypatch.setattr(TranslatedSegment, "alignment", property(lambda self: torch.eye(7)[[0, 1, 1, 3, 4, 5, 6]]))
    texts = ['He said "I don\'t know" and left.', "He left."]
    first, second = translated([Segment.read(text, "", words, FRENCH) for text in texts], search)
    assert (first.text(0), second.text(0)) == ("Il a dit « ne sais » et parti.", "Il est parti.")
    assert search.asked == [texts, ["He said I don't know and left."]]


@pytest.mark.parametrize(
    ("text", "answers", "french"),
    [
        # Kept by the model, in a sentence that has both quotes, or one of them.
        (
            '"I don\'t know," he said.',
            {'"I don\'t know," he said.': "« je ne sais pas, » dit-il."},
            "« je ne sais pas », dit-il.",
        ),
        (
            '"I don\'t know," he said.',
            {'"I don\'t know," he said.': '"je ne sais pas," dit-il.'},
            "« je ne sais pas », dit-il.",
        ),
        ('He left," he said.', {'He left," he said.': "Il est parti, » dit-il."}, "Il est parti », dit-il."),
        # Put back by the alignment.
        (
            '"He left," he said.',
            {'"He left," he said.': "parti", "He left, he said.": "Il parti, dit il."},
            "« Il parti », dit il.",
        ),
        # Copied.
        ('He left "War and Peace," he said.', {"He left ⟦1⟧, he said.": "Il ⟦1⟧, dit."}, "Il « War and Peace », dit."),
        ('He said "no" and f("a,").', {'He said "no" and ⟦1⟧.': 'Il dit "no" et ⟦1⟧.'}, 'Il dit « no » et f("a,").'),
    ],
)
def test_the_comma_of_a_quotation_however_it_arrives(words, text, answers, french, monkeypatch):
    monkeypatch.setattr(TranslatedSegment, "alignment", property(lambda self: torch.eye(4)))
    search = Search(words, {read: [answer] for read, answer in answers.items()})
    (one,) = translated([Segment.read(text, "", words, FRENCH)], search)
    assert one.text(0) == french
    assert [read for together in search.asked for read in together] == list(answers)


def test_a_comma_stays_inside_of_quotes_that_are_not_french(words):
    segment = Segment.read('"I don\'t know," he said.', "", words)
    assert segment.write(words.encode("« je ne sais pas, » dit-il."), list) == "« je ne sais pas, » dit-il."


def test_the_quotes_of_a_fragment_are_put_back_by_the_alignment(words, monkeypatch):
    answers = {
        'The so-called "experts" left.': ["Les experts dit parti."],
        "The so-called experts left.": ["parti dit experts."],
    }
    monkeypatch.setattr(TranslatedSegment, "alignment", property(lambda self: torch.eye(4)[[3, 1, 2]]))
    segment = Segment.read('The so-called "experts" left.', "", words, FRENCH)
    (one,) = translated([segment], Search(words, answers))
    assert one.text(0) == "parti dit « experts »."


def test_a_sentence_without_quotes_is_searched_once(words):
    search = Search(words, {"He don't know.": ["Il « ne sait pas."]})
    translated([Segment.read("He don't know.", "", words, FRENCH)], search)
    assert len(search.asked) == 1


# With the translator in the package


@pytest.mark.parametrize(
    ("text", "needed"),
    [
        ('I read "War and Peace" last year and liked it.', "« War and Peace »"),
        ('"The Lord of the Rings" is a long book.', "« The Lord of the Rings »"),
        ("I watched “The Godfather” yesterday.", "«\u00a0The Godfather\u00a0»"),
        ('She wrote "The End."', "« The End »"),
        ('What does "serendipity" mean?', "« serendipity »"),
        ("He said: “She told me ‘I love you’ yesterday.”", "Elle m’a dit"),
        ('I like "Let It Be" and "Hey Jude" by the Beatles.', "« Let It Be »"),
        ('He said "I don\'t know" and left.', ""),
        ('She asked, "Where are you going?"', ""),
        ('"I am tired," she said, "and I want to go home."', ""),
        ("“I am tired,” she said.", ""),
        ('The so-called "experts" were wrong.', ""),
        ("He said “the word ‘love’ is hard” and left.", "love"),
        ('HE SAID "I DON\'T KNOW" AND LEFT.', ""),
        ('"How was the new teacher?" "Her? Quite funny."', ""),
        ('Type "yes" to continue or "no" to stop.', ""),
    ],
)
def test_the_shipped_translator_keeps_quotations(shipped, text, needed):
    french = shipped.translate(text).text
    pairs = len(find_quotes(text)) + text.count("‘")  # the model writes single quotes as double ones
    assert pairs
    assert needed in french
    assert (french.count("«"), french.count("»"), french.count('"')) == (pairs, pairs, 0)


@pytest.mark.parametrize(
    "text",
    [
        '"It is late," he said.',
        '"Yes," he said.',
        "“Thank you, Tom,” Mary said.",
        '"No," she replied, "it is not true."',
        '"I am tired. It is late," he said.',
        "\"He said 'yes,'\" she told me.",
        '<b>"Yes,"</b> he said.',
        '"Yes," 😀 he said.',
    ],
)
def test_the_shipped_translator_puts_commas_after_quotes(shipped, text):
    for split in (False, True):
        french = shipped.translate(text, split=split).text
        assert "»," in french
        assert not re.search(r",\s?»|»,\s?[»,]", french), french
