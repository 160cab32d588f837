"""The questions: each answer is what its code prints; and the command that asks them."""

import io
import subprocess
import sys
from contextlib import redirect_stdout

import pytest

import regard
from regard import cli
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


def ask(monkeypatch, capsys, typed, *arguments):
    monkeypatch.setattr("sys.stdin", io.StringIO(typed))
    code = cli.main(["quiz", *arguments])
    return code, capsys.readouterr()


def test_all_right(monkeypatch, capsys):
    right = [question.answer for question in chapter(3).questions]
    code, printed = ask(monkeypatch, capsys, "\n".join(right) + "\n", "3")
    assert code == 0
    assert "3. Scores and scaling" in printed.out
    assert printed.out.count("Right.") == 4
    assert printed.out.rstrip().endswith("4 of 4 right.")


def test_a_wrong_one_is_explained_with_its_code(monkeypatch, capsys):
    first = chapter(3).questions[0]
    code, printed = ask(monkeypatch, capsys, "a\n", "3")
    assert code == 0
    assert "It is c. " + first.because[:20] in printed.out
    assert "itertools.combinations(vectors, 2)" in printed.out
    assert printed.out.rstrip().endswith("0 of 1 right, 3 not asked.")


def test_case_a_slip_a_question_left_out_and_the_end(monkeypatch, capsys):
    _, printed = ask(monkeypatch, capsys, " C \nz\n\nq\n", "3")
    assert printed.out.count("Right.") == 1
    assert "One of a, b, c, an empty line to go on, or q to end." in printed.out
    assert printed.out.rstrip().endswith("1 of 2 right, 2 not asked.")


def test_all_chapters_are_asked_if_none_is_named(monkeypatch, capsys):
    _, printed = ask(monkeypatch, capsys, "a\n" * len(EVERY))
    assert printed.out.count("a–") == len(EVERY)
    assert f"of {len(EVERY)} right." in printed.out


@pytest.mark.parametrize("given", ["0", "9", "-1", "two", "1.5", "²"])
def test_a_chapter_that_is_not_there(given, monkeypatch, capsys):
    code, printed = ask(monkeypatch, capsys, "", given)
    assert code == 2
    assert printed.err == (
        f"regard: CHAPTER must be a number from 1 to 8. Got {given!r}. Leave it out for all of them.\n"
    )
    assert printed.out == ""


def test_the_library_refuses_it_too():
    with pytest.raises(regard.InputError, match=r"chapters 1 to 8\. Got 9"):
        chapter(9)


def test_help_teaches(capsys):
    with pytest.raises(SystemExit):
        cli.main(["quiz", "--help"])
    text = capsys.readouterr().out
    for part in ("CHAPTER", "regard quiz 3", "Answer with a letter", "q ends the quiz"):
        assert part in text


def test_through_a_pipe():
    done = subprocess.run(
        [sys.executable, "-m", "regard", "quiz", "1"], input=b"b\na\nc\n", capture_output=True, timeout=100
    )
    assert done.returncode == 0
    assert done.stdout.decode().rstrip().endswith("3 of 3 right.")
    assert b"\x1b" not in done.stdout


def test_no_code_is_cut_off(monkeypatch, capsys):
    _, printed = ask(monkeypatch, capsys, "b\n" * 4, "3")
    assert "(random.normal(size=(20_000, d)) * random.normal(size=(20_000, d))).sum(1).std()" in " ".join(
        printed.out.split()
    )


def test_the_page_folds_the_answer_away():
    text = chapter(2).markdown()
    assert text.startswith("## Questions")
    assert text.count("<details") == text.count("</details>") == 3
    assert "`regard quiz 2`" in text
