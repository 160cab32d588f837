"""Quotations: which marks are one, that none is lost, that titles stay and that what is said is translated."""

import random
import re

import pytest
import torch
from test_facts import Search

from regard.translation.result import TranslatedSegment, with_facts
from regard.translation.text.facts import split_facts
from regard.translation.text.placeholders import Placeholders, Removed
from regard.translation.text.quotes import QuoteCheck, add_quotes, commas_outside, find_quotes, french_quotes
from regard.translation.text.segments import Segment, Style
from regard.translation.training.vocabulary import Vocabulary
from regard.translation.translator import _run

pytestmark = pytest.mark.usefixtures("unchecked")  # a search that is played has no model
FRENCH = Style(french=True)
LINES = [
    "He said: I don't know? And left!",
    "Il a dit « je ne sais pas » et est parti.",
    "The so-called experts, um \" ' 0123456789",
]


def found(text):
    return [(quote.kind, text[quote.start : quote.end]) for quote in find_quotes(text)]


@pytest.fixture(scope="module")
def words():
    return Vocabulary.train(LINES * 9, size=70, marks=True)


# Finding them


@pytest.mark.parametrize(
    ("text", "quotes"),
    [
        ('I read "War and Peace" last year.', [("copied", '"War and Peace"')]),
        ("I watched ‘The Godfather’.", [("copied", "‘The Godfather’")]),
        ("I watched 'The Birds' twice.", [("copied", "'The Birds'")]),
        ('The word "love" is short.', [("copied", '"love"')]),
        ('What does "serendipity" mean?', [("copied", '"serendipity"')]),
        ('He said "" and left.', [("copied", '""')]),
        ('He said "I don\'t know" and left.', [("sentence", '"I don\'t know"')]),
        ("“I am tired,” she said.", [("sentence", "“I am tired,”")]),
        ("'I don't know,' he said.", [("sentence", "'I don't know,'")]),
        ('He said "Hello Tom" to me.', [("sentence", '"Hello Tom"')]),
        ('The so-called "experts" left.', [("fragment", '"experts"')]),
        ('"Yes" or "no"?', [("fragment", '"Yes"'), ("fragment", '"no"')]),
        ('He said "Stop" and left.', [("fragment", '"Stop"')]),
        ('How do you spell "pretty"?', [("copied", '"pretty"')]),
        ('"Is it?" "Almost."', [("sentence", '"Is it?"'), ("fragment", '"Almost."')]),
        ('"Phenomenal" from start to end', [("fragment", '"Phenomenal"')]),
        ('It is for "emotional reasons," he said.', [("fragment", '"emotional reasons,"')]),
        ('My nickname is "Itch."', [("copied", '"Itch."')]),
        ("He saw «Le Monde» there.", [("copied", "«Le Monde»")]),
        ('She said "go "away" now".', [("sentence", '"go "away" now"'), ("fragment", '"away"')]),
        ("He said “do ‘it’ now”.", [("sentence", "“do ‘it’ now”"), ("fragment", "‘it’")]),
        ('A 5" nail is "big".', [("fragment", '"big"')]),
        ("He read 'Cause and Effect' twice.", [("copied", "'Cause and Effect'")]),
        ('Set name="Tom Sawyer" there.', [("code", '"Tom Sawyer"')]),
        ('Call print("Hello World") twice.', [("code", '"Hello World"')]),
        ('He left ("I am tired"), she said.', [("sentence", '"I am tired"')]),
        ('Send {"name": "Tom", "n": 5}.', [("code", '"name"'), ("code", '"Tom"'), ("code", '"n"')]),
        ('"War and Peace"', [("sentence", '"War and Peace"')]),  # all there is: it is to be translated
    ],
)
def test_what_is_quoted(text, quotes):
    assert found(text) == quotes


@pytest.mark.parametrize(
    "text",
    [
        "The boys' books and the girls' toys",
        "'Tis rock 'n' roll of the '90s, and I like 'em",
        "He likes the dogs' owner's 'cats",
        "He said 'yes' and the dogs' owner left.",  # either may close
        "'They say rain won't hurt the farmers' harvest.",
        'A 5" nail, 6\'2" tall',
        'He said "hello and left.',
        'He said "hello" and "left.',
        "“ and ” ” and “",
        "'",
        '"',
        "",
    ],
)
def test_what_is_no_quotation(text):
    assert found(text) == []


def test_any_text_with_quotes_is_read(words):
    choose = random.Random(0)
    letters = "aA1 s.,=(\"\"''“”‘’«»(<b>`\n"
    for _ in range(2000):
        text = "".join(choose.choices(letters, k=choose.randint(0, 30)))
        parts = split_facts(text)
        for said in (None, {}):
            for french in (None, ("« ", " »")):
                shown = add_quotes(parts, titles=True, french=french, said=said).parts
                whole = "".join(part if isinstance(part, str) else part.written or part.text for part in shown)
                assert [*filter(str.isalnum, whole)] == [*filter(str.isalnum, text)]
        Segment.read(text, "", words, style=FRENCH).read_again(1).read_again(2)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('Set name="Tom Sawyer" there.', ['name="Tom Sawyer"']),
        ('Call print("Hello World") twice.', ['print("Hello World")']),
        ('Send {"name": "Tom"}.', ['"name"', '"Tom"']),
        ('He works at "Apple Inc." today.', ["« Apple Inc. »"]),
        ('He works at "Apple Inc."', ["« Apple Inc »"]),
        ('He lives in the "U.S." with Mary.', ["« U.S. »"]),
    ],
)
def test_how_what_is_copied_is_written(text, shown):
    parts = add_quotes(split_facts(text), titles=True, french=("« ", " »")).parts
    assert [part.written or part.text for part in parts if not isinstance(part, str)] == shown


def test_a_fact_beside_a_quotation_is_no_word_around_it(words):
    segment = Segment.read('@john: "I don\'t know."', "", words, style=FRENCH)
    assert segment.read_again(1).ids


def test_quotes_of_code_and_tags_are_their_own():
    parts = split_facts('See `a "b"` and <a href="x">"it"</a>.')
    shown = add_quotes(parts, titles=True, french=("« ", " »"), said={}).parts
    assert [part.text for part in shown if not isinstance(part, str)] == ['`a "b"`', '<a href="x">', "“", "”", "</a>"]


# In a translation


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("Il a dit « je ne sais pas » et est parti.", True),
        ('Il a dit "je ne sais pas" et est parti.', True),
        ("Et il est parti en disant « je ne sais pas ».", True),
        ("Il a dit je ne sais pas et est parti.", False),
        ("Il a dit « je ne sais pas et je suis parti. »", False),
        ("Il a dit « je ne sais pas et est parti.", False),
        ("Il a « dit » « je ne sais pas » et est parti.", False),
    ],
)
def test_quotations_are_verified(text, kept):
    assert QuoteCheck.of('He said "I don\'t know" and left.').kept(text) is kept


def test_a_mark_that_stands_for_a_quotation_gets_no_quotes_of_its_own():
    check = QuoteCheck.of("I read ⟦1⟧.")
    assert check.kept("J'ai lu ⟦1⟧.")
    assert not check.kept("J'ai lu « ⟦1⟧ ».")


def test_other_quotes_become_french_ones():
    assert french_quotes("L'un dit 'oui'.") == "L'un dit « oui »."
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
    assert placeholders.put_back("a b, c", torch.eye(3).tolist()) == french


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
    found = placeholders.put_back(" ".join(words), torch.eye(len(words)).tolist())
    assert " ".join(found.split()).startswith(french)


# What the model reads


def test_a_title_is_a_mark_from_the_first(words):
    segment = Segment.read('I left "War and Peace." He said "no".', "", words, style=FRENCH)
    assert segment.placeholders.readable == 'I left ⟦1⟧. He said "no".'
    assert segment.marks == {"⟦1⟧": "« War and Peace »"}
    assert Segment.read('I left "Ms. Hill".', "", words, style=FRENCH).marks == {"⟦1⟧": "« Ms. Hill »"}
    assert Segment.read("I left “King Lear”.", "", words).marks == {"⟦1⟧": "“King Lear”"}  # not into French
    typeset = Segment.read("I left “King Lear”.", "", words, style=Style(french=True, typography=True))
    assert typeset.marks == {"⟦1⟧": "«\u00a0King Lear\u00a0»"}


def test_in_capitals_nothing_is_a_title(words):
    assert not Segment.read('HE LEFT "WAR AND PEACE" AND "I".', "", words).marks


def test_inches_are_copied(words):
    assert list(Segment.read('A 5" and a 6\'2" left.', "", words).marks.values()) == ['5"', "6'2\""]


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("'Tis said he left 'em.", "It is said he left them."),
        ("He left in the '90s and the ’80s.", "He left in the 90s and the 80s."),
        ("He said 'cause' and `'em`.", "He said 'cause' and ⟦1⟧."),
        ("He left 'em.", "He left 'em."),
    ],
)
def test_an_apostrophe_before_a_word_is_no_quote(words, text, read):
    style = Style() if text == read else FRENCH  # the source of others is not known to be English
    assert Segment.read(text, "", words, style=style).placeholders.readable == read


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ('He said "I don\'t know" and left.', "He said ⟦1⟧ and left."),
        ('He said, "I don\'t know."', "He said: ⟦1⟧"),
        ('"I don\'t know," he said.', "⟦1⟧, he said."),
        ('"I don\'t know!" he said.', "⟦1⟧, he said."),
        ('The so-called "experts" left.', "The so-called experts left."),
        ('"He left?" "I don\'t know."', "He left? I don't know."),  # with marks, no word would be left
    ],
)
def test_if_that_fails_what_is_said_is_a_mark_too(words, text, read):
    assert Segment.read(text, "", words, style=FRENCH).read_again(1).placeholders.readable == read


# Trying again


def test_what_is_said_is_translated_by_itself(words):
    answers = {
        'He said "I don\'t know" and left.': ["Il a dit « je ne sais pas et est parti. »"],
        "I don't know": ["je ne sais pas."],
        "He said ⟦1⟧ and left.": ["Il a dit « ⟦1⟧ » et est parti.", "Il a dit ⟦1⟧ et est parti."],
        "He left.": ["Il est parti."],
    }
    search = Search(words, answers)
    texts = ['He said "I don\'t know" and left.', "He left."]
    each = _run(with_facts([Segment.read(text, "", words, style=FRENCH) for text in texts]), search)
    assert [one.text(0) for one in each] == ["Il a dit « je ne sais pas » et est parti.", "Il est parti."]
    assert search.asked == [texts, ["I don't know"], ["He said ⟦1⟧ and left."]]


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
        # Translated by itself.
        (
            '"He left," he said.',
            {'"He left," he said.': "parti", "He left": "parti,", "⟦1⟧, he said.": "⟦1⟧, dit-il."},
            "« parti », dit-il.",
        ),
        (
            "\"He said 'no,'\" he said.",
            {"\"He said 'no,'\" he said.": "Il", "He said 'no,'": 'Il dit "non,"', "⟦1⟧, he said.": "⟦1⟧, dit-il."},
            "« Il dit « non » », dit-il.",
        ),
        # Copied.
        ('He left "War and Peace," he said.', {"He left ⟦1⟧, he said.": "Il ⟦1⟧, dit."}, "Il « War and Peace », dit."),
        ('He said "," and f("a,").', {"He said ⟦1⟧ and ⟦2⟧.": "Il dit ⟦1⟧ et ⟦2⟧."}, 'Il dit « , » et f("a,").'),
    ],
)
def test_the_comma_of_a_quotation_however_it_arrives(words, text, answers, french):
    search = Search(words, {read: [answer] for read, answer in answers.items()})
    (one,) = _run(with_facts([Segment.read(text, "", words, style=FRENCH)]), search)
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
    segment = Segment.read('The so-called "experts" left.', "", words, style=FRENCH)
    (one,) = _run(with_facts([segment]), Search(words, answers))
    assert one.text(0) == "parti dit « experts »."


def test_a_sentence_without_quotes_is_searched_once(words):
    search = Search(words, {"He don't know.": ["Il « ne sait pas."]})
    _run(with_facts([Segment.read("He don't know.", "", words, style=FRENCH)]), search)
    assert len(search.asked) == 1


# With the translator in the package


@pytest.mark.parametrize(
    ("text", "needed"),
    [
        ('I read "War and Peace" last year and liked it.', "« War and Peace »"),
        ('"The Lord of the Rings" is a long book.', "« The Lord of the Rings »"),
        ("I watched ‘The Godfather’ yesterday.", "«\u00a0The Godfather\u00a0»"),
        ('She wrote "The End."', "« The End »"),
        ('What does "serendipity" mean?', "« serendipity »"),
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
    pairs = len(find_quotes(text))
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
