"""`Question` and `Chapter`: multiple-choice questions, each with the code that prints the right answer."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from html import escape
from importlib import resources

from regard.errors import InputError

CHAPTERS = range(1, 9)
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

    def markdown(self, number: int, group: str = "") -> str:
        """For a page or a notebook, without a script: a choice opens to show whether it is right, and why.

        Args:
            number: the number of the question.
            group: of the choices with the same group, a browser keeps one open.
        """
        choices = []
        for letter, choice in self.lettered():
            is_right = letter == self.answer
            verdict = "Right." if is_right else f"No, it is {self.answer}: {self.right}."
            choices.append(
                f'<details class="choice {"right" if is_right else "wrong"}" name="{group}">'
                f"<summary><b>{letter}</b> {escape(choice)}</summary>"
                f"<p><b>{escape(verdict)}</b> {escape(self.because)}</p></details>"
            )
        return (
            f"**{number}.** {self.ask}\n\n" + "\n".join(choices) + "\n\n"
            f'<details class="proof" markdown="1"><summary>The code that prints the answer</summary>\n\n'
            f"```python\n{self.code.strip()}\n```\n\n</details>"
        )


@dataclass(frozen=True)
class Chapter:
    """A chapter's number, title and questions."""

    number: int
    title: str
    questions: tuple[Question, ...]

    def markdown(self) -> str:
        """For the end of the chapter's page.

        >>> print(chapter(1).markdown().splitlines()[0])
        ## Questions
        """
        note = (
            f"Choose an answer to see whether it is right. `regard quiz {self.number}` asks the same in the terminal."
        )
        numbered = enumerate(self.questions, 1)
        questions = [question.markdown(n, f"question-{self.number}-{n}") for n, question in numbered]
        return "\n\n".join(["## Questions", note, *questions]) + "\n"


def chapter(number: int) -> Chapter:
    """The questions of one chapter.

    >>> chapter(2).title
    'Queries, keys, values'
    """
    if number not in CHAPTERS:
        raise InputError(f"the course has chapters {CHAPTERS[0]} to {CHAPTERS[-1]}. Got {number}.")
    content = tomllib.loads((resources.files(__package__) / "quiz" / f"{number}.toml").read_text("utf-8"))
    questions = tuple(Question(**{**fields, "choices": tuple(fields["choices"])}) for fields in content["question"])
    return Chapter(number, content["title"], questions)
