"""`main`, and the command `steps`."""

import csv
import dataclasses
import io
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from support.process import LINE, run
from test_long_work import Terminal

import regard
from regard import cli
from regard.cli.learning import _MATRICES
from regard.drawing.terminal import told_apart
from regard.errors import ShapeError


def test_steps(capsys):
    assert cli.main(["steps"]) == 0
    printed = capsys.readouterr()
    assert LINE in printed.out.split("\n")
    assert "÷ √64 = 8" in printed.out
    assert printed.err == ""


def test_steps_of_the_other_example(capsys):
    assert cli.main(["steps", "--example", "numbers"]) == 0
    assert 'z("word 1") = 31.4 % v("word 1")' in capsys.readouterr().out


def test_an_example_that_is_not_there(capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(["steps", "--example", "bad"])
    assert stop.value.code == 2
    message = capsys.readouterr().err.splitlines()[-1]
    assert all(name in message for name in ("bad", "good", "numbers"))


def test_version(capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(["--version"])
    assert stop.value.code == 0
    assert capsys.readouterr().out == f"regard {regard.__version__}\n"


QUICK = [
    ["--version"], ["--help"], [], ["nonsense"], ["translate", "--help"], ["steps", "--example", "bad"],
    ["see", "-o", "picture.bmp"], ["quiz", "--code"], ["quiz", "--code", "4"], ["quiz", "99"],
]  # fmt: skip
WITHOUT_TORCH = f"""
import sys
from regard.cli import main
codes = []
for arguments in {QUICK}:
    try:
        codes.append(main(arguments))
    except SystemExit as stop:
        codes.append(stop.code)
print(codes, sorted({{"torch", "rich.console"}} & set(sys.modules)))
"""


def test_what_needs_no_torch_does_not_wait_for_it(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(Path(regard.__file__).parents[1])},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == "[0, 0, 0, 2, 0, 2, 2, 2, 0, 2] []"


STARTING = """
import sys
from regard import io
from regard.cli import main
io._PATIENCE = 0
close = io._Bar.close
def late(bar):
    while not bar._only.locked():  # not before the bar has had the time to appear
        pass
    close(bar)
io._Bar.close = late
sys.exit(main(["steps"]))
"""


@pytest.mark.slow
def test_a_terminal_says_that_it_is_starting():
    environment = os.environ | {"PYTHONPATH": str(Path(regard.__file__).parents[1]), "TERM": "xterm"}
    with Terminal() as terminal:
        command = [sys.executable, "-c", STARTING]
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=terminal.stream, check=True)
        shown = terminal.written()
    assert "starting" in shown
    assert shown.endswith("\x1b[2K")  # and then no more
    assert LINE in done.stdout.decode()


def test_no_command_is_a_call_for_help(capsys):
    assert cli.main([]) == 0
    help_text = capsys.readouterr().out
    assert help_text.startswith("usage: regard")
    assert "steps" in help_text


def test_help_teaches(capsys):
    with pytest.raises(SystemExit):
        cli.main(["steps", "--help"])
    help_text = capsys.readouterr().out
    for step in (
        "1  scores",
        "2  scaled",
        "3  weights",
        "4  output",
        "softmax(QKᵀ/√d) V",
        "--example numbers",
        "-o FILE",
        "SENTENCE",
    ):
        assert step in help_text


def test_errors_are_one_line(capsys, monkeypatch):
    def broken():
        raise ShapeError("x must be (words, width). Got (3,).")

    monkeypatch.setattr(regard.textbook, "i_am_good", broken)
    assert cli.main(["steps"]) == 2
    printed = capsys.readouterr()
    assert printed.err == "regard: x must be (words, width). Got (3,).\n"
    assert printed.out == ""


def test_other_errors_are_not_hidden(monkeypatch):
    def broken():
        raise ZeroDivisionError

    monkeypatch.setattr(regard.textbook, "i_am_good", broken)
    with pytest.raises(ZeroDivisionError):
        cli.main(["steps"])


@pytest.mark.slow
def test_piped_it_has_no_colour():
    done = run("steps", PYTHONIOENCODING="utf-8")
    assert done.returncode == 0
    assert b"\x1b" not in done.stdout
    assert LINE in done.stdout.decode().split("\n")


def test_colour_can_be_forced_and_refused(capsys, monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    for name, value in {"FORCE_COLOR": "1", "TERM": "xterm", "COLORTERM": "truecolor"}.items():
        monkeypatch.setenv(name, value)
    background = "48;2;"
    assert cli.main(["steps"]) == 0
    assert background in capsys.readouterr().out
    monkeypatch.setenv("NO_COLOR", "1")
    assert cli.main(["steps"]) == 0
    refused = capsys.readouterr().out
    assert background not in refused
    assert "90 %" in refused


@pytest.mark.slow
def test_whoever_reads_only_the_first_lines_sees_no_error(tmp_path):
    environment = os.environ | {"PYTHONPATH": str(Path(regard.__file__).parents[1])}
    command = [sys.executable, "-m", "regard", "steps", "-o", str(tmp_path / "steps.svg")]  # prints, as demo does
    pipe = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, env=environment, **pipe) as process:
        process.stdout.close()  # before anything is printed
        assert process.stderr.read() == b""
        assert process.wait(timeout=60) == 1


def test_a_terminal_without_the_signs_sees_the_rest(monkeypatch):
    printed = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(printed, encoding="ascii"))
    assert cli.main(["steps"]) == 0
    assert LINE.encode() in printed.getvalue()


def test_random_numbers_are_said_to_be_random(capsys, tmp_path):
    assert cli.main(["steps", "Hello, world", "--random"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("Random numbers: ")
    assert 'regard steps "I am good"' in printed  # where to find the textbook's
    assert 'z("Hello,") = ' in printed
    assert cli.main(["steps", "Hello, world", "--random"]) == 0
    assert capsys.readouterr().out == printed  # random, and the same every time
    path = tmp_path / "steps.svg"
    assert cli.main(["steps", "Hello, world", "--random", "-o", str(path)]) == 0
    assert capsys.readouterr().out.startswith("Random numbers: ")
    assert "Hello, world (random numbers)" in path.read_text(encoding="utf-8")
    assert cli.main(["steps", "I am good", "--random"]) == 0
    assert LINE not in capsys.readouterr().out.split("\n")
    assert cli.main(["steps", "--random"]) == 2
    assert capsys.readouterr().err == "regard: --random takes a SENTENCE. Got none.\n"


def test_a_sentence_of_ones_own_has_the_weights_of_a_head_of_the_model(tiny_translator, monkeypatch, capsys):
    monkeypatch.setattr("regard.translation.Translator.default", lambda: tiny_translator)
    monkeypatch.setattr(cli.learning, "_LAYER", 1)
    monkeypatch.setattr(cli.learning, "_HEAD", 3)  # it has two layers of four heads
    seen = []
    steps = regard.steps
    monkeypatch.setattr("regard.learn.steps", lambda *example: seen.append(steps(*example)) or seen[0])
    sentence = "The dog sees the apple."
    assert cli.main(["steps", sentence]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("Numbers of a trained model: the bundled translator, encoder, layer 1, head 3.")
    words = tiny_translator.words  # how it cuts "dog" is not the same on every machine
    pieces = [piece.removeprefix("▁") or piece for piece in words.pieces(words.encode(sentence))]
    assert all(f'z("{piece}") = ' in printed for piece in told_apart([*pieces, "</s>"]))
    record = tiny_translator.translate(sentence).watch().at(layer=1, kind="encoder")
    (entry,) = record.values()
    expected = entry.matrix.to_dense()[0, 3].double().numpy()
    assert seen[0].weights == pytest.approx(expected, abs=1e-5)
    assert cli.main(["steps", "dog " * 200]) == 2
    assert "must have at most 128 tokens. Got " in capsys.readouterr().err


@pytest.mark.slow
def test_steps_with_the_model_of_the_package(shipped, monkeypatch, capsys):
    monkeypatch.setattr("regard.translation.Translator.default", lambda: shipped)
    assert cli.main(["steps", "My cat sleeps"]) == 0
    printed = capsys.readouterr().out
    assert 'z("cat") = ' in printed
    assert "5×64 = (5×385)(385×64)" in printed
    assert "in this sentence 4 of 5 tokens give their largest weight to the token before" in printed
    assert re.match(r'[89]\d(\.\d)? % v\("My"\)', printed.split('z("cat") = ')[1])
    assert cli.main(["steps", "My", "cat", "sleeps"]) == 0
    assert capsys.readouterr().out == printed


def test_a_sentence_of_the_documents(capsys):
    assert cli.main(["steps", "A dog ate the food because it was hungry."]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("The textbook's numbers, made by hand")
    assert '55.2 % v("dog")' in printed


@pytest.mark.parametrize("sentence", ["", " "])
def test_no_word_is_a_clear_error(sentence, capsys):
    assert cli.main(["steps", sentence]) == 2
    printed = capsys.readouterr()
    assert printed.err == f"regard: no words: the sentence must have at least one. Got {sentence!r}.\n"
    assert printed.out == ""


@pytest.mark.parametrize("suffix", ["svg", "html", "png", "pdf"])
def test_a_picture_can_be_saved(capsys, tmp_path, suffix):
    path = tmp_path / f"steps.{suffix}"
    assert cli.main(["steps", "-o", str(path), "--theme", "dark", "--title", "Mine"]) == 0
    assert capsys.readouterr().out.startswith(f"{path}: ")
    assert path.stat().st_size > 5000
    if suffix in ("svg", "html"):
        assert "Mine" in path.read_text()


def test_the_size_of_a_large_picture_is_said_once(capsys, caplog, monkeypatch, tmp_path):
    monkeypatch.setattr("regard.drawing.picture._HEAVY", 0)
    assert cli.main(["steps", "-o", str(tmp_path / "steps.svg")]) == 0
    assert "steps.svg: " in capsys.readouterr().out
    assert caplog.records == []
    regard.steps(*regard.textbook.i_am_good()).picture().save(tmp_path / "steps.svg")
    assert len(caplog.records) == 1  # as ever, in Python


def test_where_it_cannot_be_saved_it_says_so(capsys, tmp_path):
    assert cli.main(["steps", "-o", str(tmp_path / "steps.gif")]) == 2
    assert ".svg, .png, .pdf, .html" in capsys.readouterr().err
    assert cli.main(["steps", "-o", str(tmp_path / "nowhere" / "steps.svg")]) == 2
    assert "nowhere' does not exist: create it first." in capsys.readouterr().err


@pytest.mark.parametrize("name", ["it.gif", "nowhere/it.svg"])
@pytest.mark.parametrize("command", ["steps", "see", "translate"])
def test_where_it_cannot_be_saved_nothing_is_computed(command, name, monkeypatch, capsys, tmp_path):
    monkeypatch.setattr("regard.translation.Translator.default", lambda: pytest.fail("a model was loaded"))
    assert cli.main([command, "My cat sleeps", "-o", str(tmp_path / name)]) == 2
    assert capsys.readouterr().out == ""


def test_several_arguments_are_one_sentence(capsys):
    assert cli.main(["steps", "I am good"]) == 0
    expected = capsys.readouterr().out
    assert cli.main(["steps", "I", "am", "good"]) == 0
    assert capsys.readouterr().out == expected


def test_steps_of_a_layer_and_head(capsys):
    """The weights are those that `watch` sees in this head."""
    sentence = "The cat sat on the mat"
    assert cli.main(["steps", sentence, "--layer", "1", "--head", "4", "--matrix", "weights"]) == 0
    header, *rows = csv.reader(io.StringIO(capsys.readouterr().out))
    entry = regard.Translator.default().translate(sentence).watch()["encoder.layers.1.attention"]
    assert header[1:] == [row[0] for row in rows] == ["The", "cat", "sat", "on", "the", "ma", "t", "</s>"]
    numbers = [[float(number) for number in row[1:]] for row in rows]
    np.testing.assert_allclose(numbers, entry[0, 4].numpy(), atol=1e-4)
    assert cli.main(["steps", "I am good", "--layer", "2"]) == 0
    assert "encoder, layer 2, head 0." in capsys.readouterr().out  # not the textbook's numbers


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a", "--layer", "8"], "layers 0 to 7 with heads 0 to 5. Got layer 8, head 0."),
        (["a", "--head", "-1"], "Got layer 3, head -1."),
        (["--head", "1"], "--head takes a SENTENCE. Got none."),
        (["a", "--random", "--layer", "1"], "--layer chooses numbers of the translator, --random takes none."),
    ],
)
def test_steps_refuses_other_layers_and_heads(arguments, message, capsys):
    assert cli.main(["steps", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_each_matrix_can_be_saved_whole(tmp_path, capsys):
    done = regard.steps(*regard.textbook.i_am_good())
    names = [field.name for field in dataclasses.fields(done) if field.name != "words"]
    assert list(_MATRICES) == names
    for name in names:
        assert cli.main(["steps", "I am good", "--matrix", name]) == 0
        _, *rows = csv.reader(io.StringIO(capsys.readouterr().out))
        np.testing.assert_array_equal([[float(number) for number in row[1:]] for row in rows], getattr(done, name))
    assert cli.main(["steps", "I am good", "--matrix", "scaled", "-o", str(tmp_path / "scaled.svg")]) == 0
    drawn = (tmp_path / "scaled.svg").read_text()
    assert "÷ √64 = 8" in drawn
    assert "softmax" not in drawn
    with pytest.raises(regard.InputError, match="only must be one of x, w_q"):
        done.picture(only="cake")


def test_steps_says_which_letters_the_vocabulary_lacks(capsys):
    assert cli.main(["steps", "Hello 你好"]) == 0
    assert "the translator has no token for 你好: all of them are <unk>" in capsys.readouterr().out
    assert cli.main(["steps", "Hello dog"]) == 0
    assert "<unk>" not in capsys.readouterr().out
