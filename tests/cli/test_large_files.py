"""`regard translate` of a large file: in windows, in order, with the memory of one window."""

import io
import re
import sys
import weakref

import pytest
from test_long_work import Terminal, slow  # noqa: F401

from regard import cli
from regard.cli import translate
from regard.translation import Translation, Translator, read_lines


@pytest.fixture
def echo(monkeypatch):
    """A translator that says what it is given, and counts how much of it is alive."""

    class Echo:
        languages = "en-fr"

        def __init__(self):
            self.most, self.windows, self.alive = 0, [], weakref.WeakSet()

        def translate(self, texts, **_):
            self.most = max(self.most, len(self.alive))
            self.windows.append(len(texts))
            found = [Translation(text, text.upper(), 0.0, [], [], [], [], [], []) for text in texts]
            self.alive.update(found)
            return found

    made = Echo()
    monkeypatch.setattr(Translator, "default", classmethod(lambda cls: made))
    return made


LINES = [f"line {n}" for n in range(1700)]


@pytest.mark.parametrize("piped", [False, True])
def test_lines_come_in_order_and_are_let_go(piped, echo, tmp_path, monkeypatch, capsys):
    text = "\n".join(LINES) + "\n"
    if piped:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        assert cli.main(["translate"]) == 0
    else:
        (tmp_path / "big.txt").write_text(text)
        assert cli.main(["translate", "-f", str(tmp_path / "big.txt")]) == 0
    assert capsys.readouterr().out.splitlines() == [line.upper() for line in LINES]
    assert echo.windows == [64, 128, 256, 512, 512, 228]
    assert echo.most <= translate._MOST + 1  # of the window before, until this one takes its place


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
