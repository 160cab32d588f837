"""For someone learning attention: the four steps on small arrays, the documents' examples, and the quiz."""

from regard.learn.four_steps import Steps, steps
from regard.learn.questions import CHAPTERS, chapter

__all__ = ["CHAPTERS", "Steps", "chapter", "steps"]
