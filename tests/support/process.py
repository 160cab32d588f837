"""`regard` in a process of its own, as a user starts it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import regard

LINE = 'z("I") = 90 % v("I") + 7 % v("am") + 3 % v("good")'  # what `regard steps` prints


def run(*arguments, stdin=None, **environment):
    """The command as a user starts it, its output piped."""
    known = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR", "COLUMNS")}
    known["PYTHONPATH"] = str(Path(regard.__file__).parents[1])
    return subprocess.run(
        [sys.executable, "-m", "regard", *arguments],
        input=None if stdin is None else stdin.encode(),
        capture_output=True,
        env=known | environment,
        timeout=120,
    )


def is_shown(text):
    """Whether a terminal shows all of a text, and obeys nothing of it."""
    return not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]", text)
