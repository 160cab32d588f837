"""An extension of griffe: the examples in docstrings as code, for Markdown would take `>>>` for three quotations."""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension, Object


class Doctests(Extension):
    """Put each example between fences."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Called once for each class, function and module."""
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)


def fenced(text: str) -> str:
    """A docstring with its examples between fences.

    >>> fenced("One line.\\n\\n>>> 1 + 1\\n2").splitlines()[2:]
    ['```pycon', '>>> 1 + 1', '2', '```']
    """
    text = re.sub(r"  # doctest: \+\w+", "", text)
    return re.sub(
        r"(?:^>>> .*(?:\n.+)*(?:\n\n(?=>>> ))?\n?)+", lambda m: f"```pycon\n{m[0].rstrip()}\n```\n", text, flags=re.M
    ).rstrip()
