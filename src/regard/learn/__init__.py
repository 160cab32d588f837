"""Attention for learners: its four steps on small arrays, the examples of the documents, a quiz, and exercises in code.

Read in this order:
    textbook      the sentences of the documents, as numbers to compute with
    four_steps    `steps`, `Steps`: self-attention with every number kept and shown
    questions     `chapter`, `CHAPTERS`: the questions of each chapter of the course (quiz/*.toml)
    checking      `check`, `check_file`, `exercises`: functions to write, compared with ours (code/*.toml)
"""

from regard.learn.checking import Verdict, check, check_file, exercises
from regard.learn.four_steps import Steps, steps
from regard.learn.questions import CHAPTERS, chapter

__all__ = ["CHAPTERS", "Steps", "Verdict", "chapter", "check", "check_file", "exercises", "steps"]
