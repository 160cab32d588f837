"""A terminal to print to."""

import os
import pty
import sys
import threading

import pytest


@pytest.fixture
def terminal(monkeypatch):
    """Called with a function, it runs it with a terminal as output and error, and gives what arrived there."""
    monkeypatch.setenv("TERM", "dumb")  # no colours: then every escape is one of the text's
    monkeypatch.setenv("COLUMNS", "200")

    def run(function):
        inside, outside = pty.openpty()
        arrived = []

        def read():  # while the function runs, for a terminal takes a few kilobytes only
            try:
                while data := os.read(inside, 65536):
                    arrived.append(data)
            except OSError:  # the other end was closed
                pass

        reader = threading.Thread(target=read)
        reader.start()
        try:
            with (
                monkeypatch.context() as patch,
                os.fdopen(outside, "w", encoding="utf-8") as output,
                os.fdopen(os.dup(outside), "w", encoding="utf-8") as error,
            ):
                patch.setattr(sys, "stdout", output)
                patch.setattr(sys, "stderr", error)
                function()
        finally:
            reader.join()
            os.close(inside)
        return b"".join(arrived).decode().replace("\r\n", "\n")

    return run
