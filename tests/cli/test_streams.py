"""What is written where: terminals obey nothing of a text, outputs that fail and Ctrl-C are one line."""

import errno
import io
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from support.process import is_shown, run

import regard
from regard import cli
from regard.cli import command

ESCAPES = "\x1b]0;X\a\x1b[2J\x9b31m\u202ereversed\r"
AS_TEXT = "\\x1b]0;X\\x07\\x1b[2J\\x9b31m\\u202ereversed"

FROM_A_FILE = [], ["--json"], ["--alternatives", "2"], ["--paragraphs"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["translate", "--model", "MODEL", f"The dog sees the {ESCAPES} apple."],
        ["translate", "--model", "MODEL", f"The dog sees the {ESCAPES} apple.", "--picture"],
        ["translate", "--model", "MODEL", f"The dog sees the {ESCAPES} apple.", "--json"],
        *(["translate", "--model", "MODEL", "-f", "FILE", *more] for more in FROM_A_FILE),
        ["translate", "--model", f"nowhere{ESCAPES}", "Hi."],
        ["translate", "-f", f"nowhere{ESCAPES}", "--model", "MODEL"],
        ["see", f"The dog sees the {ESCAPES} apple.", "--model", "MODEL"],
        ["see", "The dog sees the apple.", "--model", "MODEL", "--from", ESCAPES],
        ["steps", f"Hello {ESCAPES} world", "--random"],
        ["steps", "-o", f"nowhere{ESCAPES}.gif"],
        ["quiz", ESCAPES],
        ["score", f"nowhere{ESCAPES}", "nowhere"],
        ["quiz", "1", ESCAPES],
    ],
    ids=" ".join,
)
def test_a_terminal_shows_escapes_as_text(arguments, terminal, tiny_translator, tmp_path):
    tiny_translator.save(tmp_path)
    (tmp_path / "file").write_text(f"The dog sees the {ESCAPES} apple.\n", encoding="utf-8")
    paths = {"MODEL": str(tmp_path), "FILE": str(tmp_path / "file")}

    def run():
        with suppress(SystemExit):  # argparse's way to refuse
            cli.main([paths.get(argument, argument) for argument in arguments])

    seen = terminal(run)
    assert is_shown(seen)
    assert "\\x1b]0;X" in seen or "␛]0;X" in seen or "\\u001b]0;X" in seen


def test_a_terminal_keeps_its_colours(terminal, monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    seen = terminal(lambda: cli.main(["steps"]))
    assert "\x1b[1m" in seen
    assert "\\x1b" not in seen


def test_a_rich_console_of_another_room_writes_colours_and_no_other_escapes(terminal, monkeypatch):
    from rich.console import Console
    from rich.text import Text

    def run():
        with command.guarded_streams():
            Console().print(Text(ESCAPES, "bold"))

    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[1m\\x1b]0;X" in terminal(run)


def test_piped_every_byte_of_a_text_stays(tiny_translator, tmp_path, capsys):
    tiny_translator.save(tmp_path / "model")
    text = "The dog sees the apple.\x1b[2J\u202e"
    (tmp_path / "in.txt").write_text(text + "\n", encoding="utf-8")
    assert cli.main(["translate", "--model", str(tmp_path / "model"), "-f", str(tmp_path / "in.txt")]) == 0
    assert "\x1b" in capsys.readouterr().out
    assert cli.main(["translate", "--model", str(tmp_path / "model"), text]) == 0
    assert capsys.readouterr().out.startswith(text)
    assert cli.main(["translate", "--model", f"nowhere{ESCAPES}", "Hi."]) == 2
    assert "\x1b]0;X" in capsys.readouterr().err


@pytest.mark.parametrize("command", cli._COMMANDS, ids=lambda command: command.name)
def test_ctrl_c_is_one_line(command, monkeypatch, capsys):
    def interrupted(_):
        raise KeyboardInterrupt

    arguments = {"see": ["text"], "train": ["recipe", "-o", "folder"], "score": ["a", "b"]}.get(command.name, [])
    monkeypatch.setattr(cli, "_COMMANDS", [command._replace(run=interrupted)])
    assert cli.main([command.name, *arguments]) == 130
    assert capsys.readouterr().err == "regard: interrupted.\n"


def listening():
    """A shell lets what it starts in the background ignore Ctrl-C, and so would every process started from there."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.slow
def test_ctrl_c_in_a_process():
    command = [sys.executable, "-m", "regard", "quiz", "1"]
    environment = os.environ | {"PYTHONPATH": str(Path(regard.__file__).parents[1])}
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen(
        command, env=environment | {"PYTHONUNBUFFERED": "1"}, **pipes, preexec_fn=listening
    ) as process:
        while b"?" not in process.stdout.read(1):  # the first question is asked
            pass
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 130
        assert process.stderr.read() == b"regard: interrupted.\n"


# As the installed script does it; what is written first says that Ctrl-C is taken care of.
STARTED = """
import os, signal, sys
def told(*arguments):
    signal.signal = original
    signal.signal(*arguments)
    os.write(1, b"!")
original, signal.signal = signal.signal, told
sys.argv[0] = "regard"
from regard.cli import main
sys.exit(main())
"""


@pytest.mark.slow
def test_ctrl_c_at_any_moment_is_one_line_or_too_late():
    """While torch is imported, a model is loaded, a text is translated, and on the way out."""
    environment = os.environ | {"PYTHONPATH": str(Path(regard.__file__).parents[1])}
    command = [sys.executable, "-c", STARTED, "translate", "--json", "I am hungry."]
    for moment in (0.0, 0.1, 0.3, 0.6, 0.9, 1.2, 1.5, 2.0):
        pipes = dict.fromkeys(("stdout", "stderr"), subprocess.PIPE)
        with subprocess.Popen(command, env=environment, text=True, **pipes, preexec_fn=listening) as process:
            assert process.stdout.read(1) == "!"
            time.sleep(moment)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=120)
        if process.returncode == 0:
            assert (json.loads(out)["text"], err) == ("J'ai faim.", ""), moment
        else:
            assert (process.returncode, err) == (130, "regard: interrupted.\n"), moment


def test_a_ctrl_c_that_arrives_as_another_error_is_a_ctrl_c(monkeypatch, capsys):
    """Inside safetensors, for instance, where it would be said that the file is damaged."""

    def loads(_):
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt as error:
            raise regard.FileError("model.safetensors is damaged.") from error

    steps = next(command for command in cli._COMMANDS if command.name == "steps")
    monkeypatch.setattr(cli, "_COMMANDS", [steps._replace(run=loads)])
    before = signal.getsignal(signal.SIGINT)
    assert cli.main(["steps"]) == 130
    assert capsys.readouterr().err == "regard: interrupted.\n"
    assert signal.getsignal(signal.SIGINT) is before


def test_a_full_disk_is_one_line(monkeypatch, capsys):
    class Full(io.StringIO):
        def flush(self):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    for arguments in (["steps"], ["demo", "--help"], []):
        monkeypatch.setattr(sys, "stdout", Full())
        assert cli.main(arguments) == 2
        assert capsys.readouterr().err == "regard: No space left on device.\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("redirected", "code", "message"),
    [(">&-", 2, "standard output is closed."), (">/dev/full", 2, "No space left on device.")],
)
def test_an_output_that_takes_nothing_is_one_line(redirected, code, message):
    environment = os.environ | {"PYTHONPATH": str(Path(regard.__file__).parents[1])}
    command = f'exec "$0" -m regard steps {redirected}'
    done = subprocess.run(["sh", "-c", command, sys.executable], env=environment, stderr=subprocess.PIPE, timeout=60)
    assert done.returncode == code
    assert done.stderr.decode().startswith(f"regard: {message}")
    assert done.stderr.count(b"\n") == 1


@pytest.mark.parametrize("command", ["quiz", "translate"])
def test_a_closed_input_is_one_line(command, monkeypatch, capsys, tiny_translator, tmp_path):
    tiny_translator.save(tmp_path)
    monkeypatch.setattr(sys, "stdin", None)
    assert cli.main([command, *(["--model", str(tmp_path)] if command == "translate" else [])]) == 2
    assert capsys.readouterr().err.startswith("regard: standard input is closed")


@pytest.mark.parametrize(
    "arguments",
    [
        ["translate", "caf\udce9"],
        ["see", "caf\udce9"],
        ["see", "text", "--from", "caf\udce9"],
        ["see", "text", "--title", "caf\udce9"],
        ["steps", "caf\udce9"],
    ],
    ids=repr,
)
def test_a_text_that_is_not_utf8_is_refused(arguments, capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(arguments)
    assert stop.value.code == 2
    assert "'caf\\udce9' is not UTF-8" in capsys.readouterr().err


@pytest.mark.slow
def test_a_path_that_is_not_utf8_is_a_path(tmp_path):
    path = os.fsencode(tmp_path) + b"/caf\xe9.svg"
    done = run("steps", "-o", path)
    assert (done.returncode, done.stderr) == (0, b"")
    assert os.path.getsize(path) > 5000


def test_digits_without_end_are_no_chapter(capsys):
    assert cli.main(["quiz", "9" * 5000]) == 2
    assert capsys.readouterr().err.startswith("regard: CHAPTER must be a number from 1 to 14.")
