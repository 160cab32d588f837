"""`regard serve` as a user starts it: it says where it is, answers there, and ends in one line."""

import inspect
import json
import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

import regard
from regard import cli
from regard.errors import InputError
from regard.page.app import LIMITS, listen, url
from regard.page.jobs import ModelThread
from regard.page.readings import Readings


@pytest.fixture
def started(tmp_path, tiny_translator):
    """The command in a process of its own, and the address that it printed."""
    tiny_translator.save(tmp_path / "model")
    environment = os.environ | {"PYTHONPATH": str(Path(regard.__file__).parents[1])}
    process = subprocess.Popen(
        [sys.executable, "-m", "regard", "serve", "--model", str(tmp_path / "model"), "--port", "0"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment,
    )  # fmt: skip
    try:
        assert process.stdout.readline() == "model\n"
        yield process, process.stdout.readline().split()[0]
    finally:
        process.kill()
        process.wait()


def ask(address, body=None, **headers):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(address, data, headers | ({"content-type": "application/json"} if data else {}))
    with urllib.request.urlopen(request, timeout=60) as answer:
        return answer.read()


@pytest.mark.slow
def test_it_answers_and_ends(started):
    process, address = started
    assert address.startswith("http://127.0.0.1:")
    assert json.loads(ask(f"{address}api/about"))["task"] == "translate"
    last = ask(f"{address}api/read", {"text": "The dog sees the bread."}).splitlines()[-1]
    assert json.loads(last)["reading"]["written"]
    with pytest.raises(urllib.error.HTTPError) as refused:
        ask(f"{address}api/about", host="evil.org")
    assert refused.value.code == 403
    # A stream that is open, and a visitor who is gone: neither holds it up.
    body = json.dumps({"text": "The dog sees the bread. " * 400}).encode()
    host, port = address.removeprefix("http://").rstrip("/").split(":")
    head = f"POST /api/read HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    with socket.create_connection((host, int(port))) as open_stream:
        open_stream.sendall(head.encode() + body)
        assert open_stream.recv(1000)
        process.send_signal(signal.SIGINT)
        rest = b""
        while data := open_stream.recv(100_000):
            rest += data
        out, err = process.communicate(timeout=60)
    assert b"the server was ended" in rest
    assert (process.returncode, out, err) == (130, "", "regard: interrupted.\n")


@pytest.mark.slow
def test_sigterm_ends_it_too(started):
    process, address = started
    ask(f"{address}api/about")  # it has begun
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (0, "", "")


def test_a_port_that_is_in_use(capsys):
    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        assert cli.main(["serve", "--port", str(port)]) == 2
    error = capsys.readouterr().err
    assert f"port {port}" in error
    assert "--port 0" in error
    assert error.count("\n") == 1


def test_addresses():
    with listen("127.0.0.1", 0) as one, listen("127.0.0.1", 0) as other:
        assert url(one) != url(other)
        assert url(one).startswith("http://127.0.0.1:")
    with listen("0.0.0.0", 0) as everywhere:
        assert url(everywhere).startswith("http://127.0.0.1:")
    with pytest.raises(InputError, match="not an address of this machine"):
        listen("no such host", 0)


@pytest.mark.parametrize("port", ["-1", "65536", "http", "²"])
def test_a_port_that_is_none(port, capsys):
    with pytest.raises(SystemExit):
        cli.main(["serve", "--port", port])
    assert "0 to 65535" in capsys.readouterr().err


def test_what_cannot_be_served_is_one_line(tmp_path, capsys):
    (tmp_path / "text.safetensors").write_text("no record")
    for arguments in (["--model", str(tmp_path / "nothing")], ["--record", str(tmp_path / "text.safetensors")]):
        assert cli.main(["serve", "--port", "0", *arguments]) == 2
        error = capsys.readouterr().err
        assert str(tmp_path) in error
        assert error.count("\n") == 1


def test_without_the_server(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "starlette", None)
    assert cli.main(["serve"]) == 2
    assert "pip install 'regard[page]'" in capsys.readouterr().err


def test_help_teaches(capsys):
    with pytest.raises(SystemExit):
        cli.main(["serve", "--help"])
    shown = " ".join(capsys.readouterr().out.split())
    for said in ("--model", "--record", "--open", "regard serve --open", "127.0.0.1", "no password", "regard[page]"):
        assert said in shown


def test_the_how_to_page_names_the_limits():
    shown = (Path(__file__).parents[2] / "docs" / "how-to" / "look_in_the_browser.md").read_text()
    most = inspect.signature(ModelThread).parameters["most"].default
    said = f"{LIMITS['characters']:,} characters a text, {LIMITS['new_tokens']} new tokens, {most} texts at a time"
    assert said in " ".join(shown.split())
    assert inspect.signature(Readings).parameters["largest"].default == 1 << 30


def test_the_browser_opens_the_page(monkeypatch, tiny_translator, tmp_path, capsys):
    opened = []
    tiny_translator.save(tmp_path / "model")
    monkeypatch.setattr("webbrowser.open", opened.append)
    monkeypatch.setattr("regard.page.app._Server.run", lambda server, sockets: None)
    assert cli.main(["serve", "--port", "0", "--open", "--model", str(tmp_path / "model")]) == 0
    assert opened == [capsys.readouterr().out.splitlines()[1].split()[0]]
