"""Where sentences end, and that nothing of a text is lost."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.translation.text.structure import split_sentences

CASES = [
    ("I came. I saw.", ["I came.", "I saw."]),
    ("Mr. Smith met Dr. Who. They left.", ["Mr. Smith met Dr. Who.", "They left."]),
    ("J. R. Smith ate. The U.S. President too.", ["J. R. Smith ate.", "The U.S. President too."]),
    ("It cost 3.50 euros. No. 5 won.", ["It cost 3.50 euros.", "No. 5 won."]),
    ("Are you in? No. I am out.", ["Are you in?", "No.", "I am out."]),
    ('"Stop!" he said. "Why?" She left.', ['"Stop!" he said.', '"Why?"', "She left."]),
    ("“Stop!” “No!” (He left.) So what?!", ["“Stop!”", "“No!”", "(He left.)", "So what?!"]),
    ("Well... I think so… but no. Wait... Nobody came.", ["Well... I think so… but no.", "Wait...", "Nobody came."]),
    ("Fruit, e.g. Apples, is good. Yes", ["Fruit, e.g. Apples, is good.", "Yes"]),
    ("A title\n\nA text that\nis wrapped.\n", ["A title", "A text that\nis wrapped."]),
    ("It is I. Who are you?", ["It is I.", "Who are you?"]),
    ("One. 2 more. 😀 smiles.", ["One.", "2 more.", "😀 smiles."]),
    ("no end", ["no end"]),
    ("", []),
]


@pytest.mark.parametrize(("text", "expected"), CASES)
def test_where_sentences_end(text, expected):
    assert [sentence.text for sentence in split_sentences(text) if sentence.text] == expected


@given(st.text(alphabet=" \n\tAbI.!?…\"'”)1", max_size=60) | st.text(max_size=60))
def test_put_together_again_they_are_the_text(text):
    found = split_sentences(text)
    assert "".join(sentence.text + sentence.gap for sentence in found) == text
    assert all(sentence.text == sentence.text.rstrip() and not sentence.gap.strip() for sentence in found)
