"""Texts for a page of the small translator, and how to ask it."""

import json

TEXT = "The dog sees the bread."
LONG = " ".join(f"The {who} sees the bread." for who in ("dog", "cat", "bird", "child", "baker") * 8)


def events(client, **asked):
    """What comes back for a text, line by line."""
    answer = client.post("/api/read", json=asked)
    assert answer.status_code == 200, answer.text
    return [json.loads(line) for line in answer.text.splitlines()]


def read(client, **asked):
    """The reading of a text."""
    last = events(client, **asked)[-1]
    assert "reading" in last, last
    return last["reading"]
