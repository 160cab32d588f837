"""A terminal to print to."""

import os
import pty
import sys

import pytest


@pytest.fixture
def terminal(monkeypatch):
    """Standard output and error as one terminal; called, it gives what arrived there."""
    inside, outside = pty.openpty()
    for name in ("stdout", "stderr"):
        monkeypatch.setattr(sys, name, os.fdopen(os.dup(outside), "w", encoding="utf-8"))
    monkeypatch.setenv("TERM", "dumb")  # no colours: then every escape is one of the text's
    monkeypatch.setenv("COLUMNS", "200")
    os.set_blocking(inside, False)

    def arrived():
        sys.stdout.flush()
        sys.stderr.flush()
        found = b""
        while True:
            try:
                found += os.read(inside, 65536)
            except BlockingIOError:
                return found.decode().replace("\r\n", "\n")

    yield arrived
    for descriptor in (inside, outside):
        os.close(descriptor)
