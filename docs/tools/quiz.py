"""The questions of a chapter for the end of its page, or of its notebook, without a script."""

from __future__ import annotations

from html import escape

from regard.learn.questions import Chapter, Question


def quiz(chapter: Chapter) -> str:
    """The questions; a choice opens to show whether it is right, and why."""
    note = f"Choose an answer to see whether it is right. `regard quiz {chapter.number}` asks the same in the terminal."
    numbered = enumerate(chapter.questions, 1)
    questions = [_asked(question, n, f"question-{chapter.number}-{n}") for n, question in numbered]
    return "\n\n".join(["## Questions", note, *questions]) + "\n"


def _asked(question: Question, number: int, group: str) -> str:
    """A question with its choices: of those in the same group, a browser keeps one open."""
    choices = []
    for letter, choice in question.lettered():
        is_right = letter == question.answer
        verdict = "Right." if is_right else f"No, it is {question.answer}: {question.right}."
        choices.append(
            f'<details class="choice {"right" if is_right else "wrong"}" name="{group}">'
            f"<summary><b>{letter}</b> {escape(choice)}</summary>"
            f"<p><b>{escape(verdict)}</b> {escape(question.because)}</p></details>"
        )
    return (
        f"**{number}.** {question.ask}\n\n" + "\n".join(choices) + "\n\n"
        f'<details class="proof" markdown="1"><summary>The code that prints the answer</summary>\n\n'
        f"```python\n{question.code.strip()}\n```\n\n</details>"
    )
