"""`regard quiz`: asks, checks and explains."""

import io
import re
import textwrap

import pytest
from support.process import run

from regard import cli
from regard.learn.questions import CHAPTERS, chapter

EVERY = sum(len(chapter(number).questions) for number in CHAPTERS)


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
    assert "No: it is c. " + first.because[:20] in printed.out
    assert "itertools.combinations(vectors, 2)" in printed.out
    assert printed.out.rstrip().endswith("0 of 1 right, 3 not asked.")


def test_case_a_slip_a_question_left_out_and_the_end(monkeypatch, capsys):
    _, printed = ask(monkeypatch, capsys, " C \nz\n\nq\n", "3")
    assert printed.out.count("Right.") == 1
    assert f"It is {chapter(3).questions[1].answer}. " in printed.out
    assert "No: it is" not in printed.out  # a question that was skipped
    assert "One of a, b, c, an empty line to go on, or q to end." in printed.out
    assert printed.out.rstrip().endswith("1 of 2 right, 2 not asked.")


def test_all_chapters_are_asked_if_none_is_named(monkeypatch, capsys):
    _, printed = ask(monkeypatch, capsys, "a\n" * EVERY)
    assert printed.out.count("a–") == EVERY
    assert f"of {EVERY} right." in printed.out


@pytest.mark.parametrize("given", ["0", "15", "-1", "two", "1.5", "²"])
def test_a_chapter_that_is_not_there(given, monkeypatch, capsys):
    code, printed = ask(monkeypatch, capsys, "", given)
    assert code == 2
    assert printed.err == f"regard: CHAPTER must be a number from 1 to 14. Got {given!r}. Leave it out for all.\n"
    assert printed.out == ""


def test_help_teaches(capsys):
    with pytest.raises(SystemExit):
        cli.main(["quiz", "--help"])
    text = capsys.readouterr().out
    for part in ("CHAPTER", "regard quiz 3", "Answer with a letter", "q ends the quiz"):
        assert part in text


@pytest.mark.slow
def test_through_a_pipe():
    done = run("quiz", "1", stdin="c\na\nc\n")
    assert done.returncode == 0
    assert done.stdout.decode().rstrip().endswith("3 of 3 right.")
    assert b"\x1b" not in done.stdout


@pytest.mark.parametrize("columns", [30, 80])
def test_code_is_neither_cut_off_nor_broken(columns, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", str(columns))
    _, printed = ask(monkeypatch, capsys, "b\n" * EVERY)
    for number in CHAPTERS:
        for question in chapter(number).questions:
            assert f"\n\n{textwrap.indent(question.code.strip(), ' ' * 4)}\n\n" in printed.out


@pytest.mark.parametrize(("columns", "widest"), [(200, 88), (60, 60)])
def test_prose_is_wrapped_to_a_width_that_is_read_easily(columns, widest, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", str(columns))
    _, printed = ask(monkeypatch, capsys, "b\n" * EVERY)
    code = {
        line for n in CHAPTERS for q in chapter(n).questions for line in textwrap.indent(q.code, "    ").splitlines()
    }
    prose = [line for line in printed.out.splitlines() if line not in code]
    assert max(map(len, prose)) <= widest
    assert max(map(len, prose)) > widest - 8
    for n in CHAPTERS:
        for question in chapter(n).questions:
            assert question.because in " ".join(printed.out.split())


def test_code_keeps_its_lines_in_colour(terminal, monkeypatch):
    for name, value in {"COLUMNS": "30", "TERM": "xterm"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr("sys.stdin", io.StringIO("b\n"))
    seen = terminal(lambda: cli.main(["quiz", "3"]))
    assert "\x1b[" in seen
    plain = re.sub(r"\x1b\[[\d;]*m", "", seen).replace("\r\n", "\n")
    assert textwrap.indent(chapter(3).questions[0].code.strip(), " " * 4) in plain
