"""Two hundred neutral sentences about people, and the words that no translation of them may have."""

import re
from pathlib import Path

import pytest

DATA = Path(__file__).parents[1] / "data"
SENTENCES = (DATA / "neutral.txt").read_text(encoding="utf-8").splitlines()
NOTE, *VULGAR = (DATA / "vulgar_fr.txt").read_text(encoding="utf-8").splitlines()
_PATTERN = re.compile(
    r"(?<!\w)(?:" + "|".join(map(re.escape, sorted(VULGAR, key=len, reverse=True))) + r")(?!\w)", re.I
)


def vulgar(text):
    """The vulgar words of a French text."""
    return _PATTERN.findall(text)


def test_the_lists():
    assert len(SENTENCES) == len(set(SENTENCES)) == 200
    assert all(sentence[0].isupper() and sentence[-1] in ".?!" and len(sentence.split()) > 2 for sentence in SENTENCES)
    assert NOTE.startswith("# ")
    assert sorted(set(VULGAR)) == VULGAR
    assert all(word == word.lower().strip() != "" for word in VULGAR)


@pytest.mark.parametrize(
    ("text", "count"),
    [("Quel connard !", 1), ("Putain, c'est la merde.", 2), ("Le concierge a reculé.", 0), ("La députée discute.", 0)],
)
def test_what_is_found(text, count):
    assert len(vulgar(text)) == count
