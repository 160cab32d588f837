"""Texts without end are cut in time that grows as they do, and what would not fit is refused by the name of its limit."""

import json
import random
import unicodedata

import pytest

import regard
from regard import cli
from regard.translation.text.segments import Placeholders, split_segments
from regard.translation.text.structure import split_sentences
from regard.translation.training.vocabulary import Vocabulary, clean

LENGTH = 30_000
LONG = {
    "emoji": "😀",
    "emoji between spaces": "😀 ",
    "emoji between letters": "a😀",
    "combining marks": "\u0301",
    "combining marks out of order": "\u0315\u0300",
    "a letter and marks": "a\u0301\u0302",
    "one long word": "a",
    "one long word in capitals": "DOG",
    "words": "the dog ",
    "words with commas": "the dog, ",
    "abbreviations": "e.g. a ",
    "initials": "U.S. ",
    "dots": ".",
    "dots and quotes": '.".',
    "dots between spaces": ". ",
    "brackets": "(",
    "spaces": " ",
    "newlines": "\n",
    "newlines and spaces": "\n ",
    "digits": "1 ",
    "accents that are not known": "ǎ",
    "signs that grow": "ﷺ",
}  # fmt: skip


class Counted(Vocabulary):
    """A vocabulary that counts the letters it is asked about."""

    letters = 0

    def encode(self, text):
        self.letters += len(text)
        return super().encode(text)


@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("kind", LONG)
def test_a_long_text_is_cut(kind, split, tiny_translator):
    """No part of a text is read again for every other part: a megabyte would take hours, or some days."""
    text = "The dog" + (LONG[kind] * LENGTH)[:LENGTH] + " sees."
    words = Counted(tiny_translator.words.model)
    segments = split_segments(text, words, tiny_translator.longest, split=split)
    assert words.letters < 25 * len(text)
    assert "".join(segment.text + segment.gap for segment in segments) == text
    assert all(len(segment.ids) <= tiny_translator.longest for segment in segments)


@pytest.mark.parametrize("kind", LONG)
def test_its_sentences_are_the_text(kind):
    text = (LONG[kind] * LENGTH)[:LENGTH] + "Yes. No"
    assert "".join(sentence.text + sentence.gap for sentence in split_sentences(text)) == text


def test_what_was_removed_is_put_back_in_order():
    removed = "".join(f" {chr(0x4E00 + n)}" for n in range(20_000))
    found = Placeholders.find(["a" + removed + " b"], str.isascii)
    assert found.readable == "a b"
    assert found.put_back("c d", [[1.0, 0.0], [0.0, 1.0]]) == "c" + removed + " d"


@pytest.mark.parametrize("text", ["1 " * 5_000, "😀 " * 5_000], ids=["digits", "emoji"])
def test_a_line_of_many_words_has_no_alignment_in_json(text, tiny_translator, monkeypatch, capsys, tmp_path):
    monkeypatch.setattr("regard.Translator.default", lambda: tiny_translator)
    (tmp_path / "long.txt").write_text(text + "\nThe dog sees the apple.\n", encoding="utf-8")
    assert cli.main(["translate", "--json", "-f", str(tmp_path / "long.txt")]) == 0
    printed = capsys.readouterr()
    first, second = (json.loads(line) for line in printed.out.splitlines())
    assert (first["alignment"], len(first["words"])) == (None, 5_000)
    assert first["text"].split() == text.split()
    assert len(second["alignment"]) == 5
    left_out = "the alignment is left out: 5,000 words with a translation of 5,000 have more than 1,000,000 weights"
    assert left_out in printed.err
    assert cli.main(["translate", text]) == 0
    assert capsys.readouterr().out.count("100 %") == 5_000


def test_an_alignment_that_does_not_fit_is_refused(tiny_translator, monkeypatch):
    found = tiny_translator.translate("1 " * 6_000)
    monkeypatch.setattr("regard.support.available", lambda device: 2**27)
    with pytest.raises(regard.TooLargeError, match=r"the alignment of 6,000 × 6,000 words: needs about 0\.3 GiB"):
        _ = found.alignment


def test_half_of_a_surrogate_pair_is_refused(tiny_translator):
    with pytest.raises(
        regard.InputError, match=r"texts\[1\] must be text. Got half of a surrogate pair, '\\ud800', at 2"
    ):
        tiny_translator.translate(["The dog.", "a \ud800"])


def test_marks_out_of_order_are_composed_as_unicode_says():
    choose = random.Random(0)
    marks = ["\u0301", "\u0315", "\u0323", "\u0344", "\u0345", "\u05b0", "\u0300", "\u20dd", "😀", "\u0f77", "。"]
    for _ in range(50):
        text = "é" + "".join(choose.choices(marks, k=200)) + "a" + "".join(choose.choices(marks, k=10)) + "b"
        assert clean(text) == " ".join(unicodedata.normalize("NFKC", text).split())
