"""`regard translate` of a large file: in windows, in order, with the memory of a few windows."""

import io
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import weakref
from concurrent.futures import CancelledError
from pathlib import Path

import pytest
import torch
from test_long_work import Terminal, slow, translator  # noqa: F401

import regard
from regard import cli
from regard.translation import Translation, Translator, read_lines, result
from regard.translation import translator as module


@pytest.fixture
def echo(translator, monkeypatch):  # noqa: F811
    """A translator that says what it is given, and counts how much of it is alive."""

    class Echo(Translator):
        most, windows, alive = 0, [], weakref.WeakSet()

        def _read(self, texts, settings):
            return [[] for _ in texts]  # nothing to search

        def _translate(self, texts, segments, settings, known=None):
            self.windows.append(len(texts))
            found = [Translation(text, text.upper(), 0.0, [], [], [], [], [], []) for text in texts]
            with lock:
                self.alive.update(found)
                Echo.most = max(self.most, len(self.alive))
            return found

    lock = threading.Lock()
    made = Echo(translator.model, translator.words, languages="en-fr")
    monkeypatch.setattr(Translator, "default", classmethod(lambda cls: made))
    return made


LINES = [f"line {n}" for n in range(1700)]


@pytest.mark.parametrize("piped", [False, True])
def test_lines_come_in_order(piped, echo, tmp_path, monkeypatch, capsys):
    text = "\n".join(LINES) + "\n"
    if piped:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        assert cli.main(["translate"]) == 0
    else:
        (tmp_path / "big.txt").write_text(text)
        assert cli.main(["translate", "-f", str(tmp_path / "big.txt")]) == 0
    assert capsys.readouterr().out.splitlines() == [line.upper() for line in LINES]
    assert sorted(echo.windows) == [64, 128, 256, 512, 740]


def test_what_is_searched_for_nobody_ends_after_its_batch(translator, monkeypatch):  # noqa: F811
    started, ended = [], []
    original = module.search_by_engine

    def search(engine, sources, advance, **asked):
        started.append(len(sources))
        try:
            for _ in range(1000 if len(started) > 1 else 0):
                time.sleep(0.01)
                advance(0)
            return original(engine, sources, advance=advance, **asked)
        except CancelledError:
            ended.append(len(sources))
            raise

    monkeypatch.setattr(module, "search_by_engine", search)
    lines = translator.translate_lines(["The dog ate.", "A cat ran."] * 200)
    assert next(lines).source == "The dog ate."
    lines.close()
    assert ended
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("regard-translate")]


def test_the_model_is_used_in_one_thread(translator, monkeypatch):  # noqa: F811
    """Watched in two, it would be refused, or the records would mix."""
    there = set()
    for name in ("search_all", "usable_engine"):
        original = getattr(module, name)
        monkeypatch.setattr(
            module, name, lambda *a, f=original, **k: there.add(threading.current_thread()) or f(*a, **k)
        )
    original = result.read_back
    monkeypatch.setattr(result, "read_back", lambda *a: there.add(threading.current_thread()) or original(*a))
    monkeypatch.setattr(module, "_FIRST", 2)
    assert len(list(translator.translate_lines(["The dog 😀 ate."] * 20, aligned=True))) == 20
    assert there == {threading.main_thread()}


def test_memory_is_that_of_four_windows(echo, monkeypatch):
    monkeypatch.setattr(module, "_MOST", 100)
    read = 0

    def lines():
        nonlocal read
        for read in range(5000):
            yield f"line {read}"

    for n, translation in enumerate(echo.translate_lines(lines())):
        assert translation.text == f"LINE {n}"
        assert read - n <= 4 * 100
    assert n == 4999
    assert echo.most <= 4 * 100 + 1


def test_a_window_of_long_lines_has_few(echo, monkeypatch):
    monkeypatch.setattr(module, "_LETTERS", 1000)
    lines = ["x" * 300] * 8 + ["x"] * 80
    assert [len(each.text) for each in echo.translate_lines(lines)] == [300] * 8 + [1] * 80
    assert sorted(echo.windows) == [4, 4, 80]


def test_lines_before_one_that_cannot_be_read(tmp_path, echo, capsys):
    (tmp_path / "big.txt").write_bytes("\n".join(LINES[:300]).encode() + b"\n\xff\nmore\n")
    assert cli.main(["translate", "-f", str(tmp_path / "big.txt")]) == 2
    written = capsys.readouterr()
    assert written.out.splitlines() == [line.upper() for line in LINES[:300]]
    assert "line 301: not UTF-8" in written.err


def test_who_wants_no_more_leaves_no_thread(echo):
    lines = echo.translate_lines(LINES)
    assert next(lines).text == "LINE 0"
    lines.close()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("regard-translate")]


def test_a_file_is_read_line_by_line(tmp_path, monkeypatch):
    path = tmp_path / "big.txt"
    path.write_bytes(b"\xef\xbb\xbfone\r\ntwo\n\nlast")
    monkeypatch.setattr("pathlib.Path.read_bytes", lambda _: pytest.fail("read as a whole"))
    assert list(read_lines(path)) == ["one", "two", "", "last"]
    path.write_bytes(b"\xef\xbb\xbf")
    assert list(read_lines(path)) == []
    path.write_bytes(b"\n")
    assert list(read_lines(path)) == [""]


def test_a_bar_for_the_whole_file(slow, echo, tmp_path, capsys):  # noqa: F811
    (tmp_path / "big.txt").write_text("\n".join(LINES) + "\n")
    with Terminal() as terminal:
        assert cli.main(["translate", "-f", str(tmp_path / "big.txt")]) == 0
        shown = terminal.written()
    assert "translating" in shown
    assert re.search(r"1,700 lines in", shown)
    assert capsys.readouterr().out.splitlines()[-1] == "LINE 1699"


TEXTS = ["I am hungry.", "Where is the station?", "", "She has 1,299 books.", "THE DOG RAN.", "I am hungry.", "42"]


@pytest.mark.parametrize("options", [[], ["--json"], ["--alternatives", "2"]])
def test_lines_are_translated_as_one_by_one(options, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(module, "_FIRST", 2)
    (tmp_path / "big.txt").write_text("\n".join(TEXTS) + "\n")
    assert cli.main(["translate", *options, "-f", str(tmp_path / "big.txt")]) == 0
    written = capsys.readouterr().out.splitlines()
    count = 2 if "--alternatives" in options else 1
    expected = [Translator.default().translate(text, alternatives=count) for text in TEXTS]
    if "--json" in options:
        assert [json.loads(line)["text"] for line in written] == [each.text for each in expected]
        for line, one in zip(map(json.loads, written), expected, strict=True):
            assert line["alignment"] == pytest.approx(one.alignment.numpy(), abs=1e-3) or not one.words
            assert [line["confidence"], *line["word_confidence"]] == pytest.approx(
                [one.confidence, *one.word_confidence], abs=1e-3
            )
        return
    texts = [[each.text, *(other.text for other in each.alternatives[1:])] for each in expected]
    assert [line.split("\t")[-1] for line in written] == [text for each in texts for text in each]


def test_alignments_of_many_lines_take_few_passes(translator, monkeypatch):  # noqa: F811
    passes = []
    original = result.read_back
    monkeypatch.setattr(result, "read_back", lambda model, pairs: passes.append(len(pairs)) or original(model, pairs))
    monkeypatch.setattr(result, "_READ_TOGETHER", 3)
    lines = ["The dog ate.", "A cat ran.", "", "The dog ran.", "A cat ate.", "A dog."]
    found = list(translator.translate_lines(lines, aligned=True))
    assert passes == [3, 2]
    alone = [translator.translate(line) for line in lines]
    for one, other in zip(found, alone, strict=True):
        assert one.text == other.text
        torch.testing.assert_close(one.alignment, other.alignment)
        assert one.confidence == pytest.approx(other.confidence, rel=1e-4)
    assert passes == [3, 2, 1, 1, 1, 1, 1]
    monkeypatch.setattr(result, "_READ_TOKENS", 1)
    list(translator.translate_lines(lines, aligned=True))
    assert passes[7:] == [1] * 5


@pytest.mark.slow
def test_ctrl_c_keeps_what_was_written(tmp_path):
    (tmp_path / "big.txt").write_text("".join(f"I have {n} dogs and a cat.\n" for n in range(1000, 100_000)))
    command = [sys.executable, "-m", "regard", "translate", "-f", str(tmp_path / "big.txt")]
    environment = os.environ | {"PYTHONPATH": str(Path(regard.__file__).parents[1])}
    pipes = dict.fromkeys(("stdout", "stderr"), subprocess.PIPE)

    def listening():
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    with subprocess.Popen(command, env=environment, text=True, **pipes, preexec_fn=listening) as process:
        first = process.stdout.readline()
        process.send_signal(signal.SIGINT)
        rest, said = process.stdout.read(), process.stderr.read()
    assert (process.returncode, said) == (130, "regard: interrupted.\n")
    lines = (first + rest).splitlines()
    assert len(lines) < 5000
    assert [int(re.sub(r"\D", "", line)) for line in lines] == list(range(1000, 1000 + len(lines)))
