"""recipes/teach.py: what a teacher says, for a smaller model to learn."""

import sys

import pytest
import torch

from recipes import teach
from regard.nn import Transformer, TransformerConfig
from regard.translation import Translator, read_pairs
from regard.translation.training.vocabulary import Vocabulary


@pytest.fixture(scope="module")
def teacher():
    words = Vocabulary.train(["a dog ate the food", "un chien a mangé la nourriture"] * 20, 40)
    torch.manual_seed(0)
    config = TransformerConfig.tiny(len(words), pad=words.pad, end=words.end, start=words.pad)
    return Translator(Transformer(config).eval(), words, languages="en-fr")


def test_each_source_once_with_what_the_teacher_says(teacher, tmp_path, monkeypatch):
    teacher.save(tmp_path / "teacher")
    (tmp_path / "a.tsv").write_text("a dog ate\tx\nthe food\ty\n", encoding="utf-8")
    (tmp_path / "b.tsv").write_text("the food\tz\na dog\tz\n", encoding="utf-8")
    monkeypatch.setattr(teach, "is_credible", lambda *asked: True)
    names = [str(tmp_path / name) for name in ("teacher", "out.tsv", "a.tsv", "b.tsv")]
    monkeypatch.setattr(sys, "argv", ["teach.py", *names, "--part", "2"])
    teach.main()
    found = list(read_pairs(tmp_path / "out.tsv"))
    assert [source for source, _ in found] == ["a dog ate", "the food", "a dog"]
    for source, target in found:
        assert target == " ".join(teacher.translate(source, beam=1).text.split())


def test_no_further_part_after_the_minutes(teacher, tmp_path, monkeypatch):
    teacher.save(tmp_path / "teacher")
    (tmp_path / "a.tsv").write_text("a dog ate\tx\nthe food\ty\n", encoding="utf-8")
    monkeypatch.setattr(teach, "is_credible", lambda *asked: True)
    names = [str(tmp_path / name) for name in ("teacher", "out.tsv", "a.tsv")]
    monkeypatch.setattr(sys, "argv", ["teach.py", *names, "--minutes", "-1"])
    teach.main()
    assert (tmp_path / "out.tsv").read_text() == ""


def test_what_is_long_or_not_credible_is_left_out(teacher, monkeypatch):
    monkeypatch.setattr(teach, "is_credible", lambda source, *rest: source != "the food")
    found = teach.taught(teacher, ["a dog ate", "the food", "a dog " * 30], longest=20)
    assert [source for source, _ in found] == ["a dog ate"]


@pytest.mark.parametrize(
    ("source", "target", "tokens", "credible"),
    [
        ("A dog.", "Un chien.", (4, 4), True),
        ("A dog.", "", (4, 4), False),
        ("A dog.", "A dog.", (4, 4), False),
        ("word " * 20, "mot " * 20, (21, 21), True),
        ("word " * 20, "mot", (21, 2), False),
        ("word " * 20, "mot " * 60, (21, 61), False),
        ("Go.", "Il faut que tu y ailles.", (3, 8), True),
        ("In 1,500 cases", "Dans 1 500 cas", (6, 6), True),
        ("In 1,500 cases", "Dans 1 50 cas", (6, 6), False),
    ],
)
def test_what_may_be_learned_from(source, target, tokens, credible):
    assert teach.is_credible(source, target, tokens) is credible
