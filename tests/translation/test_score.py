"""BLEU and chrF2 as sacrebleu prints them, and the part far from the training by the definition."""

import random

import pytest
import sacrebleu
from hypothesis import given
from hypothesis import strategies as st
from support.translation import tiny
from support.translation.similarity import jaccard

import regard
from regard.translation import score, score_files
from regard.translation.training.corpus import NEAR, near


def spoiled(lines):
    choose = random.Random(1)
    return [" ".join(word for word in line.split() if choose.random() < 0.9) for line in lines]


def test_the_figures_and_signatures_are_sacrebleus():
    references = [b for _, b in tiny.pairs(100)]
    hypotheses = spoiled(references)
    found = score(hypotheses, references)
    assert found.bleu == pytest.approx(sacrebleu.corpus_bleu(hypotheses, [references]).score)
    assert found.chrf == pytest.approx(sacrebleu.corpus_chrf(hypotheses, [references]).score)
    assert 20 < found.bleu < 99
    assert found.bleu_signature.startswith("nrefs:1|case:mixed|eff:no|tok:13a")
    assert "|nc:6|nw:0|" in found.chrf_signature
    assert found.far is None


def test_the_far_part_is_that_of_the_definition(tmp_path):
    train, test = tiny.pairs(60, 1), [*tiny.pairs(60, 2), ("Quite other words.", "Tout autre chose.")]
    sources, references = map(list, zip(*test, strict=True))
    hypotheses = spoiled(references)
    far = [
        n
        for n, (a, b) in enumerate(test)
        if max(jaccard(a, x) for x, _ in train) < NEAR and max(jaccard(b, y) for _, y in train) < NEAR
    ]
    assert 1 < len(far) < len(test)
    expected = score([hypotheses[n] for n in far], [references[n] for n in far])
    assert score(hypotheses, references, sources=sources, train=train).far == expected
    for name, lines in (("h", hypotheses), ("r", references), ("s", sources), ("t", ["\t".join(p) for p in train])):
        (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    h, r, s, t = (tmp_path / name for name in "hrst")
    assert score_files(h, r, source=s, train=t).far == expected


text = st.text(alphabet="abc ", max_size=14)


@given(st.lists(text, max_size=6), st.lists(text, max_size=6), st.sampled_from([0.2, 0.5, 0.6, 0.7, 1.0]))
def test_near_is_exact(lines, others, threshold):
    plain = [bool(line.strip()) and any(jaccard(line, other) >= threshold for other in others) for line in lines]
    assert near(lines, others, threshold) == plain


def test_near_finds_what_lies_on_the_line():
    # 6 of 10 grams, and of 3 of 5: exactly 0.6
    assert near(["abcdefghijk"], ["abcdefghixyz"], jaccard("abcdefghijk", "abcdefghixyz")) == [True]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: score(["a"], []), "as many hypotheses as references, at least 1. Got 1 and 0"),
        (lambda: score([], []), "at least 1. Got 0 and 0"),
        (lambda: score(["a"], ["a"], sources=["b"]), "needs both"),
        (lambda: score(["a"], ["a"], sources=["b", "c"], train=[("d", "e")]), "a source for each reference"),
        (lambda: near(["a"], ["b"], 0.0), "threshold must be above 0"),
    ],
)
def test_what_cannot_be_scored_is_refused(call, message):
    with pytest.raises(regard.InputError, match=message):
        call()


def test_unequal_files_are_named(tmp_path):
    (tmp_path / "one").write_text("a\nb\n")
    (tmp_path / "two").write_text("a\n")
    with pytest.raises(regard.FileError, match=r"one has 2 lines, .*two has 1"):
        score_files(tmp_path / "one", tmp_path / "two")
