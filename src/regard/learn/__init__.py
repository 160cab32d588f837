"""Attention for learners: its four steps on small arrays, the examples of the documents, a quiz, and exercises in code.

Read in this order:
    textbook      the sentences of the documents, as numbers to compute with
    four_steps    `steps`, `Steps`: self-attention with every number kept and shown
    questions     `chapter`, `CHAPTERS`: the questions of each chapter of the course (quiz/*.toml)
    checking      `check`, `check_file`, `exercises`: functions to write, compared with ours (code/*.toml)
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from regard.learn.checking import Verdict, check, check_file, exercises
from regard.learn.questions import CHAPTERS, chapter

if TYPE_CHECKING:
    from regard.learn.four_steps import Steps, steps

__all__ = ["CHAPTERS", "Steps", "Verdict", "chapter", "check", "check_file", "exercises", "steps"]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Import `steps` when it is first used: torch takes seconds, and the quiz does not need it."""
        if name in ("Steps", "steps"):
            return getattr(import_module("regard.learn.four_steps"), name)
        raise AttributeError(f"module 'regard.learn' has no attribute {name!r}")
