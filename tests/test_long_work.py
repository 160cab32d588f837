"""Work that takes long: a bar on a terminal and nothing elsewhere, and as many threads as the work is worth."""

import os
import pty
import re
import select
import sys
import threading
import time
from pathlib import Path

import pytest
import torch

import regard
from regard import cli, io, support
from regard.backends.tiles import reductions
from regard.translation import Translator, Vocabulary, score, searching
from regard.watching import see

torch.manual_seed(0)


def sentences(count):
    return " ".join(["The dog ate."] * count)


@pytest.fixture(scope="module")
def translator():
    """An untrained one, which writes to the end of what it may write."""
    words = Vocabulary.train(["The dog ate.", "A cat ran.", "Un chien court."] * 9, size=40)
    return Translator(regard.Transformer(regard.TransformerConfig.tiny(vocabulary=len(words))).eval(), words)


# Progress


class Terminal:
    """Standard error as a terminal, and what was written to it."""

    def __enter__(self):
        self.master, slave = pty.openpty()
        self.before = sys.stderr, sys.__stderr__
        self.stream = sys.stderr = sys.__stderr__ = os.fdopen(slave, "w", encoding="utf-8")
        return self

    def written(self):
        self.stream.flush()
        found = b""
        while select.select([self.master], [], [], 0.05)[0]:
            found += os.read(self.master, 2**16)
        return found.decode()

    def __exit__(self, *_):
        sys.stderr, sys.__stderr__ = self.before
        self.stream.close()
        os.close(self.master)


@pytest.fixture
def slow(monkeypatch):
    """Work never ends before its bar has had the time to appear."""
    close = io._Bar.close

    def late(bar):
        while not bar._only.locked() and bar._thread.is_alive():
            time.sleep(0.001)
        close(bar)

    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(io, "_PATIENCE", 0.0)
    monkeypatch.setattr(io._Bar, "close", late)


@pytest.fixture
def record():
    model = regard.Encoder(2, 16, 2, 16).eval()
    with torch.no_grad(), regard.watch(model, tokens=["A", "dog", "ate", "it"]) as record:
        model(torch.randn(1, 4, 16))
    return record


def asked(record):
    see.describe(record, see.Question(), "A dog ate it")


WORK = {
    "translating": lambda translator, _: translator.translate([sentences(3)], beam=2, split=True),
    "aligning": lambda translator, _: translator.translate("The dog ate.", beam=1).alignment,
    "watching": lambda translator, _: translator.translate("The dog ate.", beam=1).watch(),
    "reading the attention": lambda _, record: (record.picture("map"), record.picture("grid")),
    "checking": lambda _, record: record.check(),
    "asking": lambda _, record: asked(record),
    "scoring": lambda *_: score(["A dog."], ["A dog."]),
    "comparing with the training": lambda *_: score(["A dog."], ["A dog."], sources=["Un"], train=[("Deux", "Two")]),
    "loading the model": lambda translator, _: translator.load(translator.folder),
}


@pytest.mark.parametrize("what", WORK)
def test_long_work_shows_a_bar_on_a_terminal_and_takes_it_away(what, slow, record, translator, tmp_path):
    translator.folder = tmp_path / "model"
    translator.save(translator.folder)
    before = threading.active_count()
    with Terminal() as terminal:
        WORK[what](translator, record)
        shown = terminal.written()
    assert what in shown
    assert shown.endswith("\x1b[2K")  # the line is erased
    assert threading.active_count() == before


@pytest.mark.parametrize("what", WORK)
def test_long_work_is_silent_in_a_pipe(what, slow, record, translator, tmp_path, monkeypatch, capfd):
    translator.folder = tmp_path / "model"
    translator.save(translator.folder)
    monkeypatch.setattr(io, "_Bar", None)
    WORK[what](translator, record)
    assert capfd.readouterr().err == ""


def test_a_command_tells_of_long_work_in_lines_where_there_is_no_terminal(monkeypatch, capsys):
    monkeypatch.setattr(io, "_INTERVAL", 0.02)
    with support.progress("library", total=8) as advance:
        time.sleep(0.1)
    assert capsys.readouterr().err == ""
    with io.progress_lines():
        with support.progress("asking", total=8) as advance:
            advance(4)
            time.sleep(0.1)
        with support.progress("watching"):
            time.sleep(0.1)
        written = capsys.readouterr().err
        time.sleep(0.1)
        assert capsys.readouterr().err == ""  # nothing after the end
    assert {"regard: asking: 50%, 0 s", "regard: watching: 0 s"} == set(written.splitlines())
    assert len(written.splitlines()) > 3


def test_every_command_tells_in_lines(monkeypatch, capsys):
    monkeypatch.setattr(io, "_INTERVAL", 0.02)
    monkeypatch.setattr(cli, "_load", lambda: None)

    def run(_):
        with support.progress("working"):
            time.sleep(0.1)

    monkeypatch.setattr(cli, "_COMMANDS", [cli._COMMANDS[0]._replace(run=run)])
    assert cli.main(["demo"]) == 0
    assert "regard: working: 0 s\n" in capsys.readouterr().err


def test_short_work_shows_no_bar():
    with Terminal() as terminal:
        with support.progress("working", total=1) as advance:
            advance(1)
        assert terminal.written() == ""


def test_one_bar_at_a_time(slow):
    with Terminal() as terminal:
        with support.progress("outside"):
            time.sleep(0.2)  # until it is there
            with support.progress("inside", total=2) as advance:
                advance(2)
        shown = terminal.written()
        with support.progress("afterwards"):
            pass
        assert "afterwards" in terminal.written()
    assert "outside" in shown
    assert "inside" not in shown


def test_a_bar_is_gone_when_its_work_has_ended(monkeypatch):
    monkeypatch.setattr(io, "_PATIENCE", 0.0)
    with Terminal():
        bar = io._Bar("working", None, in_lines=False)
        while not bar._only.locked():
            time.sleep(0.001)
        bar.close()
        assert not bar._thread.is_alive()
        assert not bar._only.locked()


def test_a_bar_goes_with_an_error(slow):
    with Terminal() as terminal:
        with pytest.raises(KeyboardInterrupt), support.progress("working"):
            raise KeyboardInterrupt
        assert terminal.written().endswith("\x1b[2K")
    assert not io._Bar._only.locked()


def test_a_command_obeys_the_bar(slow, translator, tmp_path, capsys):
    translator.save(tmp_path)
    with Terminal() as terminal:
        assert cli.main(["translate", "--model", str(tmp_path), "The dog ate."]) == 0
        shown = terminal.written()
    assert "translating" in shown
    assert "\\x1b" not in shown
    assert re.search(r"\d\.\d\d s, \d+ core", capsys.readouterr().out)


# Threads


@pytest.fixture
def four():
    """torch is allowed four threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def idle(monkeypatch):
    monkeypatch.setattr(support, "_idle_cores", lambda: 8)


def count_in_a_new_thread():
    counts = []
    thread = threading.Thread(target=lambda: counts.append(torch.get_num_threads()))
    thread.start()
    thread.join()
    return counts[0]


@pytest.mark.parametrize(("shares", "expected"), [(0, 1), (0.5, 1), (1, 1), (2.5, 2), (4, 4), (1e9, 4)])
def test_threads_by_the_size_of_the_work(shares, expected, four, idle):
    with support.threads(shares * support._SHARE) as count:
        assert (count, torch.get_num_threads()) == (expected, expected)
        assert count_in_a_new_thread() == 4  # nothing changes for others
    assert (torch.get_num_threads(), count_in_a_new_thread()) == (4, 4)


def test_threads_are_restored_after_an_error(four, idle):
    with pytest.raises(KeyboardInterrupt), support.threads(0):
        raise KeyboardInterrupt
    assert (torch.get_num_threads(), count_in_a_new_thread()) == (4, 4)


@pytest.mark.parametrize(("cores", "expected"), [(-3, 1), (1, 1), (3, 3), (99, 4)])
def test_large_work_gets_idle_cores_only(cores, expected, four, monkeypatch):
    monkeypatch.setattr(support, "_idle_cores", lambda: cores)
    with support.threads(100 * support._SHARE) as count:
        assert count == expected


def test_idle_cores(monkeypatch):
    monkeypatch.setattr(support.os, "cpu_count", lambda: 8)
    monkeypatch.setattr(support.Path, "read_text", lambda _: "0.50 0.40 0.30 3/512 4711\n")
    for own, idle in ((1, 6), (2, 7), (3, 8), (9, 8)):  # of three that run; torch's threads wait in a loop for a while
        monkeypatch.setattr(support, "_own_running", lambda own=own: own)
        assert support._idle_cores() == idle
    monkeypatch.setattr(support.Path, "read_text", lambda _: "")
    assert support._idle_cores() == 8


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="needs /proc")
def test_threads_of_this_process_that_run():
    assert 1 <= support._own_running() <= len(list(Path("/proc/self/task").iterdir()))


@pytest.mark.parametrize(("cores", "expected"), [(1, 1), (3, 3), (8, 4)])
def test_long_sweeps_get_idle_cores_only(cores, expected, four, monkeypatch):
    """Where another process has a core, threads that share a tile wait for each other: ten times as long as one."""
    monkeypatch.setattr(support, "_idle_cores", lambda: cores)
    used, add = [], reductions._Received.add
    monkeypatch.setattr(reductions._Received, "add", lambda *args: used.append(torch.get_num_threads()) or add(*args))
    x = torch.randn(3000, 4)
    regard.AttentionMatrix(x, x).received()
    assert set(used) == {expected}
    used.clear()
    regard.AttentionMatrix(x[:90], x[:90]).received()  # too short to ask
    assert set(used) == {4}
    assert torch.get_num_threads() == 4


@pytest.mark.parametrize(("share", "expected"), [(2**30, 1), (1, 4)])
def test_a_search_a_sweep_and_a_pass_run_in_threads_by_their_size(
    share, expected, four, idle, record, translator, monkeypatch
):
    used = []

    def noted(function):
        def run(*args, **kwargs):
            used.append(torch.get_num_threads())
            return function(*args, **kwargs)

        return run

    monkeypatch.setattr(support, "_SHARE", share)
    monkeypatch.setattr(searching, "search", noted(searching.search))
    found = translator.translate(["The dog ate.", "A cat."], beam=2)
    monkeypatch.setattr(regard.Transformer, "encode", noted(regard.Transformer.encode))
    assert found[0].alignment.shape[1] == 3
    found[0].watch()
    monkeypatch.setattr(regard.AttentionMatrix, "pool", noted(regard.AttentionMatrix.pool))
    str(record.picture("map"))
    assert used
    assert set(used) == {expected}
    assert torch.get_num_threads() == 4
