"""For learning attention: its four steps on small arrays, the documents' examples, and a quiz.

Read in this order:
    textbook      the documents' sentences, as numbers to compute with
    four_steps    `steps`, `Steps`: self-attention with every number kept and shown
    questions     `chapter`, `CHAPTERS`: what each chapter of the course asks (quiz/*.toml)
"""

from regard.learn.four_steps import Steps, steps
from regard.learn.questions import CHAPTERS, chapter

__all__ = ["CHAPTERS", "Steps", "chapter", "steps"]
