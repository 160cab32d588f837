"""The questions: each answer is what its code prints."""

import io
import re
from contextlib import redirect_stdout
from html import unescape

import pytest
from quiz import quiz

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


def test_no_letter_is_right_more_often_than_the_others():
    counts = [[question.answer for _, question in EVERY].count(letter) for letter in "abc"]
    assert sum(counts) == len(EVERY)
    assert max(counts) - min(counts) <= 1


def test_the_library_refuses_it_too():
    with pytest.raises(regard.InputError, match=r"chapters 1 to 14\. Got 15"):
        chapter(15)


CHOICE = re.compile(
    r'<details class="choice (right|wrong)" name="([\w-]+)"><summary><b>(\w)</b> (.*?)</summary><p>(.*?)</p></details>'
)


@pytest.mark.parametrize("number", CHAPTERS)
def test_on_the_page_each_choice_says_whether_it_is_right_and_why(number):
    text = quiz(chapter(number))
    assert text.startswith("## Questions")
    assert f"`regard quiz {number}`" in text
    asked = text.split('<details class="proof"')[:-1]
    assert len(asked) == len(chapter(number).questions)
    groups = set()
    for question, part in zip(chapter(number).questions, asked, strict=True):
        found = CHOICE.findall(part)
        assert [(letter, unescape(choice)) for _, _, letter, choice, _ in found] == question.lettered()
        assert [letter for kind, _, letter, _, _ in found if kind == "right"] == [question.answer]
        for kind, _, _, _, said in found:
            verdict = "<b>Right.</b>" if kind == "right" else f"<b>No, it is {question.answer}: "
            assert said.startswith(verdict)
            assert question.because in unescape(said)
        (group,) = {group for _, group, _, _, _ in found}
        groups.add(group)
    assert len(groups) == len(asked)
