"""Lines, lists, headings, tables, code and front matter: what is prose, and that nothing is lost."""

import random

import pytest

from regard.translation.text.languages import ENGLISH_FRENCH, is_typeset
from regard.translation.text.structure import split_blocks


def prose(text):
    return [block.text for block in split_blocks(text) if block.prose]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Hello\nWorld\n\nBye.", ["Hello", "World", "Bye."]),
        ("- a dog\n* a cat\n1. one\n  2) two\n- [x] done", ["a dog", "a cat", "one", "two", "done"]),
        ("# Title\n> quote\n> - both", ["Title", "quote", "both"]),
        ("| a | b c |\n|---|:-:|\n| d | e |", ["a", "b c", "---", ":-:", "d", "e"]),
        ("a\n```py\nx = 1\n```\nb", ["a", "b"]),
        ("~~~\nx\n\ny", []),
        ("---\ntitle: x\n---\nHello", ["Hello"]),
        ("--- not front matter", ["--- not front matter"]),
        ("<pre>\nx\n</pre>\nb", ["b"]),
        ("<!-- a\nb -->\nc", ["c"]),
        ("```x``` is code", ["```x``` is code"]),
        ("-5 is a number\n*bold* text\n#tag", ["-5 is a number", "*bold* text", "#tag"]),
    ],
)
def test_what_is_prose(text, expected):
    assert prose(text) == expected


def test_the_blocks_of_any_text_are_the_text():
    choose = random.Random(0)
    pieces = [
        "a dog",
        "\n",
        "\n",
        " ",
        "- ",
        "# ",
        "> ",
        "```",
        "---",
        "|",
        "<pre>",
        "</pre>",
        "1. ",
        "word " * 12,
        "\t",
    ]
    for _ in range(3000):
        text = "".join(choose.choices(pieces, k=choose.randint(0, 14)))
        assert "".join(block.text + block.gap for block in split_blocks(text)) == text


@pytest.mark.parametrize(
    ("plain", "printed"),
    [
        ("C'est vrai !", "C’est vrai\u202f!"),
        ('Il dit : "Oui."', "Il dit\u00a0: «\u00a0Oui.\u00a0»"),
        ("1 299,00 $ ; 50 %", "1\u202f299,00\u00a0$\u202f; 50\u00a0%"),
        ("a:b ⟦1⟧", "a:b ⟦1⟧"),
    ],
)
def test_french_as_it_is_printed(plain, printed):
    assert ENGLISH_FRENCH.typeset(plain) == printed
    assert ENGLISH_FRENCH.typeset(printed) == printed


def test_typography_follows_the_source(tiny_translator):
    assert is_typeset("It’s")
    assert not is_typeset("It's")
    text = "The dog sees the apple!"
    assert tiny_translator.translate(text).text == "Le chien voit la pomme !"
    assert tiny_translator.translate(text, typography=True).text == "Le chien voit la pomme\u202f!"
