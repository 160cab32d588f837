"""Numbers, addresses, code and markup come out as they went in; what the model loses is noticed and tried again."""

import random
import re

import pytest
import torch

from regard.translation.result import TranslatedSegment
from regard.translation.searching.definition import Hypothesis
from regard.translation.text.facts import Fact, Numbers, split_facts
from regard.translation.text.languages import Languages
from regard.translation.text.segments import Placeholders, Removed, Segment, split_segments
from regard.translation.training.vocabulary import MARKS, Vocabulary
from regard.translation.translator import _keep_facts

pytestmark = pytest.mark.usefixtures("unchecked")  # a search that is played has no model
FRENCH = Languages.of("en-fr", typeset=False)
LINES = [
    "The dog has 257 books, 1 day.",
    "Le chien a 257 livres, $ € %.",
    "0123456789 mg pm h",
    "avez-vous vu ? oui, of at !",
]


def translated(segments, search):
    return _keep_facts(search(segments), search)


def kinds(text, kind):
    return [part.text for part in split_facts(text) if isinstance(part, Fact) and part.kind == kind]


@pytest.fixture(scope="module")
def marked():
    return Vocabulary.train(LINES * 9, size=90, marks=True)


@pytest.fixture(scope="module")
def unmarked():
    return Vocabulary.train([*LINES, "Tom Mary John"] * 9, size=80)


# Finding them


@pytest.mark.parametrize(
    ("text", "copied"),
    [
        ("See https://a.org/b?c=1&d=2, or (http://a.org/b_(c)).", ["https://a.org/b?c=1&d=2", "http://a.org/b_(c)"]),
        ("Mail bob.smith+x@mail.example.co.uk!", ["bob.smith+x@mail.example.co.uk"]),
        ("Open ~/a.txt, /etc/hosts, src/main.py and C:\\x\\y.", ["~/a.txt", "/etc/hosts", "src/main.py", "C:\\x\\y"]),
        ("Run `a b` and get_x() on user_id.", ["`a b`", "get_x()", "user_id"]),
        ("{name} {{x}} %d %(n)s ${X} %s!", ["{name}", "{{x}}", "%d", "%(n)s", "${X}", "%s"]),
        ("@tom #hello v1.2 1.2.3 192.168.0.1", ["@tom", "#hello", "v1.2", "1.2.3", "192.168.0.1"]),
        ("Order #48213, item #7. Not # 5, #5th or C#7.", ["#48213", "#7"]),
        ("AB-1234, A4, MP3 and COVID-19", ["AB-1234", "A4", "MP3", "COVID-19"]),
        ("+1 (555) 123-4567 or 555-0199", ["+1 (555) 123-4567", "555-0199"]),
        ("2024-01-31 and 12/31/2023", ["2024-01-31", "12/31/2023"]),
        ("I typed ⟦1⟧ and ⟦.", ["⟦1⟧", "⟦"]),
        ("x^2, (x_i^2 + a_1)^3, 5 m^2, 2^10.", ["x^2", "x_i^2", "a_1)^3", "m^2", "2^10"]),
        ("This is well known^2 and important.", []),
        ("It is O(n^2), e^{-x} or e^(x+1).", ["O(n^2)", "e^{-x}", "e^(x+1)"]),
        ("He smiled ^_^ at 5 ^ 2 and a ^b.", []),
        ("He and/or she, 24/7, at 60 km/h. It's 50% done; e.g. this one.", []),
        ("I came.It was late... Mr. Smith's dog-like cat", []),
    ],
)
def test_what_is_copied(text, copied):
    assert kinds(text, "copied") == copied


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("$1,299.00 or 50% or 5 mg", ["$1,299.00", "50%", "5 mg"]),
        ("$1,249.50, 12,345.67, 1,249, 1,249.50. 1,2,3", ["$1,249.50", "12,345.67", "1,249", "1,249.50", "1,2,3"]),
        ("3-5 days, 2030 and .5", ["3", "5", "2030", ".5"]),
        ("at 10:30 am, 5 pm or 17:45", ["10:30 am", "5 pm", "17:45"]),
        ("the 21st of the 1990s, 5MB", ["21", "1990", "5MB"]),
        ("at 5:45 a.m., 9am, 9:05 PM or 11 P.M. today", ["5:45 a.m.", "9am", "9:05 PM", "11 P.M."]),
        ("We left at 5 a.m.", ["5 a.m"]),  # the dot ends the sentence too
        ("We left at 5 a.m. It was cold.", ["5 a.m"]),
        ("At 5 a.m. Monday, 6 a.m. EST or 7 p.m. Pacific time.", ["5 a.m.", "6 a.m.", "7 p.m."]),
        ("none here", []),
    ],
)
def test_what_is_a_number(text, numbers):
    assert kinds(text, "number") == numbers


def test_what_is_markup():
    text = "<b>Tom</b> is **very** [old](http://a.b/c) &amp; 2 * 3 * 4"
    assert kinds(text, "markup") == ["<b>", "</b>", "**", "**", "[", "](http://a.b/c)", "&amp;"]


def test_the_parts_of_any_text_are_the_text():
    choose = random.Random(0)
    letters = "aA1 .,:/-_*`<>[](){}$%@#&+⟦⟧\n'\"é😀0^m"
    for _ in range(2000):
        text = "".join(choose.choices(letters, k=choose.randint(0, 40)))
        assert "".join(part if isinstance(part, str) else part.text for part in split_facts(text)) == text


# French


@pytest.mark.parametrize(
    ("text", "french"),
    [
        ("$1,299.00", "1 299,00 $"), ("€5", "5 €"), ("50%", "50 %"), ("5 mg", "5 mg"), ("3.5 kg", "3,5 kg"),
        ("2030", "2030"), ("1,000,000", "1 000 000"), ("10:30 am", "10 h 30"), ("12 am", "0 h"), ("12:15 pm", "12 h 15"),
        ("5:45 a.m.", "5 h 45"), ("12 a.m.", "0 h"), ("12 p.m.", "12 h"), ("9 am", "9 h"), ("9:05 PM", "21 h 05"),
        ("11 P.M.", "23 h"), ("12:30 A.M.", "0 h 30"), ("8:15 pm", "20 h 15"), ("17:45", "17:45"), ("20 °C", "20 °C"),
        ("98 °F", "98 °F"), ("£7.25", "7,25 £"),
    ],
)  # fmt: skip
def test_how_french_writes_it(text, french):
    fact, *rest = split_facts(text)
    assert fact.write(FRENCH) == french
    assert rest in ([], ["."])


def test_what_is_no_english_number_stays():
    assert [FRENCH.number(text) for text in ("1,23", "1.2.3", "10,20,30", "007")] == [
        "1,23",
        "1.2.3",
        "10,20,30",
        "007",
    ]


@pytest.mark.parametrize(
    ("source", "text", "kept"),
    [
        ("Flight 257 was late.", "Le vol 257 avait du retard.", True),
        ("Flight 257 was late.", "Le vol 25 avait du retard.", False),
        ("Flight 257 was late.", "Le vol avait du retard.", False),
        ("Flight 257 was late.", "Le vol 257 avait 257 minutes de retard.", False),
        ("It takes 3-5 days.", "Ça prend 35 jours.", False),
        ("It takes 3-5 days.", "Ça prend de 3 à 5 jours.", True),
        ("2 dogs", "Deux chiens", True),
        ("45 dogs", "Quarante-cinq chiens", False),
        ("two dogs", "2 chiens", True),
        ("dogs", "2 chiens", False),
        ("1,299.00 books", "1 299,00 livres", True),
        ("He took 5 mg of it.", "Il en a pris 5.", False),
        ("He took 5 mg of it.", "Il en a pris 5 milligrammes.", True),
        ("It costs $5.", "Ça coûte 5.", False),
        ("It costs $5.", "Ça coûte cinq dollars.", True),
        ("It is at 5:30 pm.", "C'est à 17 h 30.", True),
        ("It is at 5:30 pm.", "C'est à 5 h 30 du soir.", True),
        ("It is at 5:30 pm.", "C'est à 5 h 30.", False),
        ("It is at 5:30 pm.", "C'est à 6 h 30.", False),
        ("From 3 to 5 pm.", "De 3 à 5 heures.", False),
        ("It is 10:30.", "Il est 10 h 30.", True),
        ("the 1990s", "les années 90", True),
        ("the 3rd time", "la troisième fois", True),
    ],
)
def test_numbers_are_verified(source, text, kept):
    facts = [part for part in split_facts(source) if isinstance(part, Fact)]
    assert Numbers(facts, source, FRENCH).kept(text) is kept


@pytest.mark.parametrize(
    ("source", "text", "written"),
    [
        ("$1,299.00", "Ça coûte $1,299.00.", "Ça coûte 1 299,00 $."),
        ("$1,299.00", "Ça coûte 1 299,00 $.", "Ça coûte 1 299,00 $."),
        ("50%", "50% des gens", "50 % des gens"),
        ("3.5", "Il pèse 3.5.", "Il pèse 3,5."),
        ("$5 million", "5 millions de dollars", "5 millions de dollars"),
        ("$5 million", "$5 millions", "5 millions $"),
        ("257", "Le vol 25 est là.", "Le vol 25 est là."),
        ("3-5", "de 3-5 jours", "de 3-5 jours"),
    ],
)
def test_numbers_are_written_as_in_french(source, text, written):
    facts = [part for part in split_facts(source) if isinstance(part, Fact)]
    assert Numbers(facts, source, FRENCH).rewrite(text) == written


# What the model reads


def test_with_marks_what_is_copied_is_a_mark_and_numbers_stay(marked):
    segment = Segment.read("The dog ⟦7⟧ has 257 of http://a.org/b.", "", marked)
    assert segment.placeholders.readable == "The dog ⟦1⟧ has 257 of ⟦2⟧."
    assert segment.marks == {"⟦1⟧": "⟦7⟧", "⟦2⟧": "http://a.org/b"}
    again = segment.hide(1)
    assert again.placeholders.readable == "The dog ⟦1⟧ has ⟦2⟧ of ⟦3⟧."
    assert again.write(marked.encode("Le ⟦3⟧ a ⟦2⟧ de ⟦1⟧."), list) == "Le http://a.org/b a 257 de ⟦7⟧."


def test_a_time_with_am_or_pm_is_a_mark_and_french(marked):
    segment = Segment.read("The dog has at 5:45 a.m. and at 9:05 PM.", "", marked, FRENCH)
    assert segment.marks == {"⟦1⟧": "5 h 45", "⟦2⟧": "21 h 05"}
    typeset = Segment.read("The dog has at 5 pm.", "", marked, Languages.of("en-fr"))
    assert typeset.marks == {"⟦1⟧": "17\u00a0h"}
    for text, times in (
        ("The dog has 3 to 4 pm.", ["15 h", "16 h"]),  # 3 is after noon too
        ("The dog has 9:30-5 p.m.", ["9 h 30", "17 h"]),
        ("The dog has 12 and 1 am.", ["0 h", "1 h"]),
        ("The dog has, June 3 to 5 pm", ["17 h"]),
    ):
        assert list(Segment.read(text, "", marked, FRENCH).marks.values()) == times
    assert not Segment.read("The dog has at 5 pm.", "", marked).marks  # into another language


def test_marks_are_single_pieces(marked, unmarked):
    assert marked.has_marks
    assert not unmarked.has_marks
    ids = [marked.encode(f"a{mark}b") for mark in MARKS]
    assert all(any(piece in MARKS for piece in marked.pieces(each)) for each in ids)
    assert all(marked.decode(each).count(mark) == 1 for each, mark in zip(ids, MARKS, strict=True))


def test_beyond_nine_the_rest_is_removed(marked):
    text = "The dog has " + " ".join(f"a{n}@b.org" for n in range(12)) + "."
    segment = Segment.read(text, "", marked)
    assert list(segment.marks) == list(MARKS)
    assert [gap.text for gap in segment.placeholders.removed] == ["a9@b.org", "a10@b.org", "a11@b.org"]


def test_without_marks_facts_are_removed(unmarked):
    segment = Segment.read("The dog at http://a.org/b has 257 books.", "", unmarked, FRENCH)
    assert segment.placeholders.readable == "The dog at has 257 books."
    again = segment.hide(1)
    assert again.placeholders.readable == segment.placeholders.readable
    assert segment.hide(2).placeholders.readable == "The dog at has books."
    assert again.write(unmarked.encode("Le chien a 257 livres."), lambda: torch.eye(6)[[0, 1, 3, 4, 5]].tolist()) == (
        "Le chien http://a.org/b a 257 livres."
    )


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("Im sure he doesnt, so u cant!", "I'm sure he doesn't, so you can't!"),
        ("Thats it. Pls wait.", "That's it. Please wait."),
        ("i dont know if u can, they wont help me", "i don't know if you can, they won't help me"),
        ("Ive seen it. Thank u!", "I've seen it. Thank you!"),
        ("R u sure? when r u coming", "Are you sure? when are you coming"),
        *(
            (same, same)
            for same in (
                "Plan U of IM is on u.org/u-turn, not wanton.",
                "Mr. Ive is here.",
                "He is wont to sleep.",
                "As is his wont, he left.",
                "Solve for u, v and w.",
                "Let r u be a product, R u T.",
                "Let u be a vector: u + v = 3.",
                "Press u to undo.",
                "Can you solve u = 3 and u(t)?",
                "Im Westen nichts Neues",
            )
        ),
    ],
)
def test_english_typed_in_a_hurry_is_put_right(unmarked, typed, meant):
    for languages, read in ((FRENCH, meant), (Languages(), typed)):  # "dont" is a word of French
        known = Segment.read(read, "", unmarked).placeholders.readable
        assert Segment.read(typed, "", unmarked, languages).placeholders.readable == known


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("We are open, Monday to Friday.", "We are open, from Monday to Friday."),
        ("Sunday through Tuesday I rest.", "From Sunday to Tuesday I rest."),
        ("From July 12 to July 20", "From 12 July to 20 July"),
        ("Between June 3rd and June 5th we rest.", "Between 3 June and 5 June we rest."),
        ("'Tis said he left 'em, 'cause he is late.", "It is said he left them, because he is late."),
        ("’Twas late, so wait ’til one.", "It was late, so wait until one."),
        *(
            (same, same)
            for same in (
                "It is open from Monday to Friday.",
                "I prefer Monday to Fridays.",
                "From July 12 to July 20, 2024",
                "On May 3 and June 5.5",
                "Write `Monday to Friday` for `'em`.",  # what is copied stays
                '<a title="Monday to Friday">Ms. Hill</a>',
                "He said 'cause' of 'Cause and effect' and 'em'.",
            )
        ),
    ],
)
def test_english_in_words_that_models_know_better(unmarked, text, read):
    for languages, meant in ((FRENCH, read), (Languages(), text)):  # other languages have other weaknesses
        known = Segment.read(meant, "", unmarked).placeholders.readable
        assert Segment.read(text, "", unmarked, languages).placeholders.readable == known


def test_what_is_only_a_fact_is_copied(unmarked, marked):
    for words in (unmarked, marked):
        assert Segment.read("http://a.org/b 42", "", words).ids == []


def test_markup_goes_around_the_words_that_look_at_its_own():
    found = Placeholders.find(["The ", Removed("<b>", 1), "red", Removed("</b>", -1), " car."], str.isascii)
    assert found.readable == "The red car."
    alignment = [[0.8, 0.1, 0.1], [0.1, 0.2, 0.7], [0.1, 0.6, 0.3]]
    assert found.put_back("La voiture rouge.", alignment) == "La voiture <b>rouge.</b>"


def test_what_is_removed_before_a_comma_stays_there():
    found = Placeholders.find(["Hi ", Removed("{x}"), ", you."], str.isascii)
    assert found.readable == "Hi, you."
    assert found.put_back("Salut, toi.", [[1.0, 0.0], [0.0, 1.0]]) == "Salut {x}, toi."


# Trying again


class Search:
    """Answers a list of texts for what it is asked, and remembers the questions."""

    def __init__(self, vocabulary, answers):
        self.vocabulary, self.answers, self.asked = vocabulary, answers, []

    def __call__(self, segments):
        self.asked.append([segment.placeholders.readable for segment in segments])
        return [TranslatedSegment(segment, self.found(segment), None) for segment in segments]

    def found(self, segment):
        texts = self.answers[segment.placeholders.readable] if segment.ids else []
        return [Hypothesis(self.vocabulary.encode(text), -float(n)) for n, text in enumerate(texts)]


def test_the_next_hypothesis_that_is_right_is_taken(marked):
    search = Search(marked, {"The dog has 257 books.": ["Le chien a 25 livres.", "Le chien a 257 livres."]})
    (found,) = translated([Segment.read("The dog has 257 books.", "", marked)], search)
    assert found.text(0) == "Le chien a 257 livres."
    assert len(search.asked) == 1


def test_what_fails_is_tried_again_in_one_batch(marked):
    texts = ["The dog has 257 books.", "The dog.", "The dog has 38 books."]
    answers = {texts[0]: ["Le chien a 2 57 livres."], texts[1]: ["Le chien."], texts[2]: ["Le chien."]}
    answers["The dog has ⟦1⟧ books."] = ["Le chien a ⟦1⟧ ⟦1⟧ livres.", "Le chien a ⟦1⟧ livres."]
    search = Search(marked, answers)
    found = translated([Segment.read(text, "", marked) for text in texts], search)
    assert [each.text(0) for each in found] == ["Le chien a 257 livres.", "Le chien.", "Le chien a 38 livres."]
    assert search.asked == [texts, ["The dog has ⟦1⟧ books."] * 2]


def test_at_last_it_is_put_back_by_the_alignment(marked, monkeypatch):
    answers = {"The dog has ⟦1⟧ books.": ["Le chien a des livres."], "The dog has books.": ["Le chien a livres."]}
    search = Search(marked, answers)
    aligned = property(lambda self: torch.eye(4))
    monkeypatch.setattr(TranslatedSegment, "alignment", aligned)
    (found,) = translated([Segment.read("The dog has {n} books.", "", marked)], search)
    assert found.text(0) == "Le chien a {n} livres."
    assert search.asked == [["The dog has ⟦1⟧ books."], ["The dog has books."]]


# With models


def test_a_translator_without_marks_keeps_facts(tiny_translator):
    facts = ("http://a.org/b?c=1", "bob@example.com", "`x = 1`", "{name}", "257", "$1,299.00", "⟦1⟧", "AB-1234")
    texts = [form.format(fact) for fact in facts for form in ("The dog sees the apple {}.", "The dog {} sees!")]
    for n, found in enumerate(tiny_translator.translate(texts, beam=2)):
        assert facts[n // 2] in found.text, found.source


@pytest.mark.parametrize(
    ("text", "needed"),
    [
        ("The train leaves at 5:45 a.m.", "5 h 45"),
        ("The train leaves at 5:45 a.m. and arrives at 9:05 PM.", "21 h 05"),
        ("The shop closes at 12 a.m. on Sunday.", " 0 h"),
        ("We eat at 12 p.m. every day.", "12 h"),
        ("We start at 9 am.", "9 h"),
        ("It opens at 9 A.M. on Monday.", "9 h"),
        ("We have x^2 and y^3.", "x^2"),
        ("The value of a_1 is 2^10.", "2^10"),
        ("The algorithm runs in O(n^2) time.", "O(n^2)"),
        ("The area is 5 m^2.", "5 m^2"),
    ],
)
def test_the_shipped_translator_keeps_times_and_formulae(shipped, text, needed):
    french = shipped.translate(text).text
    assert needed in french
    assert "heure" not in french
    assert ".m" not in french


def test_structure_comes_through(tiny_translator):
    text = "# The dog\n\n- The dog sees the apple.\n  - The cat.\n\n```\nx = dog\n```\n> The dog sees the apple.\n\t\n"
    lines = tiny_translator.translate(text).text.split("\n")
    shape = [re.match(r"\W*", line).group() for line in text.split("\n")]
    assert [line[: len(start)] for line, start in zip(lines, shape, strict=True)] == shape
    assert lines[6] == "x = dog"
    assert lines[2] == "- Le chien voit la pomme."


def test_lines_of_a_wrapped_sentence_are_read_together(tiny_translator):
    text = "The neighbour who is a very old teacher and a baker sees\nthe apple and the bread and the key today."
    (segment,) = split_segments(text, tiny_translator.words, tiny_translator.longest, split=False)
    assert segment.text == text
    assert tiny_translator.translate(text).text.count("\n") == 1
