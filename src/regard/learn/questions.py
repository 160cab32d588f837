"""`Question` and `Chapter`: multiple-choice questions, each with the code that prints the right answer."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from importlib import resources
from typing import Any

from regard.errors import InputError

_LETTERS = "abcdefgh"


@dataclass(frozen=True)
class Question:
    """A multiple-choice question; `code` prints the right choice."""

    ask: str
    choices: tuple[str, ...]
    answer: str  # a letter
    because: str
    code: str

    @property
    def right(self) -> str:
        """The right choice.

        >>> chapter(3).questions[0].right in chapter(3).questions[0].choices
        True
        """
        return self.choices[_LETTERS.index(self.answer)]

    def lettered(self) -> list[tuple[str, str]]:
        """The choices with their letters.

        >>> [letter for letter, _ in chapter(1).questions[0].lettered()]
        ['a', 'b', 'c']
        """
        return list(zip(_LETTERS, self.choices, strict=False))


@dataclass(frozen=True)
class Chapter:
    """A chapter's number, title and questions."""

    number: int
    title: str
    questions: tuple[Question, ...]


def chapter(number: int) -> Chapter:
    """The questions of one chapter.

    >>> chapter(2).title
    'Queries, keys, values'
    """
    content = read_chapter("quiz", number)
    questions = tuple(Question(**{**fields, "choices": tuple(fields["choices"])}) for fields in content["question"])
    return Chapter(number, content["title"], questions)


def chapters(folder: str) -> range:
    """The chapters that have a file in "quiz" (questions) or "code" (exercises).

    >>> chapters("code")
    range(1, 15)
    """
    files = (resources.files(__package__) / folder).iterdir()
    return range(1, 1 + sum(file.name.endswith(".toml") for file in files))


def read_chapter(folder: str, number: int) -> dict[str, Any]:
    """The content of the file of a chapter."""
    if number not in (known := chapters(folder)):
        raise InputError(f"the course has chapters {known[0]} to {known[-1]}. Got {number}.")
    return tomllib.loads((resources.files(__package__) / folder / f"{number}.toml").read_text("utf-8"))


CHAPTERS = chapters("quiz")
