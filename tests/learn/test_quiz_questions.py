"""The questions: each answer is what its code prints."""

import io
from contextlib import redirect_stdout

import pytest

import regard
from regard.learn.questions import CHAPTERS, chapter

EVERY = [(number, question) for number in CHAPTERS for question in chapter(number).questions]


@pytest.mark.parametrize(("number", "question"), EVERY, ids=[f"{n}: {q.ask[:40]}" for n, q in EVERY])
def test_the_code_prints_the_answer(number, question, unchecked):
    printed = io.StringIO()
    with redirect_stdout(printed):
        exec(compile(question.code, question.ask, "exec"), {})
    assert printed.getvalue() == question.right + "\n"
    assert len(set(question.choices)) == len(question.choices) > 1
    assert question.because


@pytest.mark.parametrize("number", CHAPTERS)
def test_each_chapter_asks_three_or_four(number):
    assert 3 <= len(chapter(number).questions) <= 4


def test_the_answer_is_not_always_the_same_letter():
    letters = [question.answer for _, question in EVERY]
    assert max(map(letters.count, set(letters))) < 0.7 * len(letters)


def test_the_library_refuses_it_too():
    with pytest.raises(regard.InputError, match=r"chapters 1 to 8\. Got 9"):
        chapter(9)


def test_the_page_folds_the_answer_away():
    text = chapter(2).markdown()
    assert text.startswith("## Questions")
    assert text.count("<details") == text.count("</details>") == 3
    assert "`regard quiz 2`" in text
