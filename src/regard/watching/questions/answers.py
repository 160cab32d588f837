"""Answers about a record, and how they print: `Looks`, `Rollout`, `Heads` and `Spans`, the largest share first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar, overload

import numpy as np
from torch import Tensor

from regard.drawing.html_table import Cell, html_table
from regard.drawing.terminal import Table, beside, elisions, labelled_bar, percent, visible
from regard.errors import InputError
from regard.support import Float

__all__ = ["Aside", "Head", "Heads", "Look", "Looks", "Ranking", "Rollout", "Spans"]

Item = TypeVar("Item")

_LOOKS, _HEADS = 5, 10  # printed at most
_ROWS = 10  # of a table in a notebook, at most
_BAR = 20  # cells of a bar that stands for all attention
_PHRASE = 60  # cells of the word or phrase that an answer is about


class Ranking(Sequence[Item]):
    """A sequence of items in descending order; a prompt shows what `print` shows."""

    found: tuple[Item, ...]

    def __repr__(self) -> str:
        return str(self)

    def __len__(self) -> int:
        return len(self.found)

    @overload
    def __getitem__(self, index: int) -> Item: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Item, ...]: ...
    def __getitem__(self, index: int | slice) -> Item | tuple[Item, ...]:
        return self.found[index]


class Look(NamedTuple):
    """One word, its share, and its first token."""

    word: str
    weight: float
    position: int


class Aside(NamedTuple):
    """An attention sink that was set aside: how a sentence names it, its share of all attention, its word and token.

    A sink that the model has in addition to its tokens has neither a word nor a position.
    """

    name: str
    weight: float
    word: str = ""
    position: int | None = None


@dataclass(frozen=True, repr=False)
class Looks(Ranking[Look]):
    """Words and their shares, the largest first; words that the mask hides are not among them.

    Where attention sinks were set aside, `aside` has them with their shares of all attention, the shares of the words
    are shares of the rest, and `note` says so. Printed, the five largest are listed, and what the others have together.

    >>> print(Looks("it", (Look("dog", 0.61, 1), Look("hungry", 0.14, 7))))
    it ━━━━━━━━━━━━ dog 61 %  ━━━ hungry 14 %
    >>> aside = (Aside("[CLS]", 0.5, "[CLS]", 0),)
    >>> print(Looks("it", (Look("dog", 0.61, 1),), aside, "50 % rests on [CLS]; of the rest:"))
    it: 50 % rests on [CLS]; of the rest: ━━━━━━━━━━━━ dog 61 %
    >>> print(Looks("it", (Look("dog", 0.5, 1), Look("dog", 0.25, 9))))  # a repeated word is told by its token
    it ━━━━━━━━━━ dog @1 50 %  ━━━━━ dog @9 25 %
    >>> print(Looks("it", tuple(Look(word, 0.125, n) for n, word in enumerate("abcdefgh"))))
    it ━━ a 12.5 %  ━━ b 12.5 %  ━━ c 12.5 %  ━━ d 12.5 %  ━━ e 12.5 %  … and 3 others 37.5 %
    >>> print(Looks("it", (Look("dog", 0.9997, 1), Look("food", 0.0002, 4), Look("ate", 0.0001, 2))))
    it ━━━━━━━━━━━━━━━━━━━━ dog 100 %  … and 2 others 0 %
    """

    word: str
    found: tuple[Look, ...]
    aside: tuple[Aside, ...] = ()
    note: str = ""
    one_row: bool = True  # the shares are parts of one row, and have a sum; False: each is from the row of its own word

    def __str__(self) -> str:
        return self.line()

    def line(self, question: str = "") -> str:
        """As one line, with what was asked: "it looks at: …", or "it looks at: 50 % rests on …"."""
        listed = [look for look in self[:_LOOKS] if percent(look.weight) != percent(0)] or self[:_LOOKS]
        times = Counter(look.word for look in self)
        labels = [look.word if times[look.word] == 1 else f"{look.word} @{look.position}" for look in listed]
        shares = "  ".join(labelled_bar(name, look.weight, _BAR) for name, look in zip(labels, listed, strict=True))
        word = visible(self.word, _PHRASE)
        asked = f"{word} {question}" if question else word
        count, share = self.others(len(listed))
        if count:
            shares += f"  {_and_others(count)}" + ("" if share is None else f" {percent(share)}")
        return " ".join(part for part in (f"{asked}:" if question or self.note else asked, self.note, shares) if part)

    def others(self, listed: int) -> tuple[int, float | None]:
        """How many words come after the first few that are `listed`, and what they have together.

        >>> Looks("it", (Look("dog", 0.5, 1), Look("food", 0.25, 4), Look("ate", 0.25, 2))).others(1)
        (2, 0.5)
        """
        rest = self[listed:]
        return len(rest), sum(look.weight for look in rest) if self.one_row else None

    def _repr_html_(self, caption: str = "") -> str:
        rows: list[tuple[Cell, ...]] = [(look.word, look.weight, look.position) for look in self[:_ROWS]]
        count, share = self.others(_ROWS)
        if count:
            rows.append((_and_others(count), share, None))
        note = self.note.removesuffix(":")
        caption = "; ".join(part for part in (caption, note) if part)
        return html_table(rows, (self.word, "share", "token"), caption=caption)

    def of(self, word: str) -> float:
        """The share of a word as it is listed, summed over its occurrences: of the rest, where sinks were set aside.

        >>> Looks("it", (Look("dog", 0.5, 1), Look("dog", 0.25, 9))).of("dog")
        0.75
        """
        listed = [look.weight for look in self.found if look.word.casefold() == word.casefold()]
        if not listed and any(word.casefold() == each.word.casefold() for each in self.aside):
            raise InputError(
                f"{word!r} was set aside as an attention sink. Its share of all attention is in `aside`; with "
                "sinks=True it is listed like any word."
            )
        return sum(listed, 0.0)


def _and_others(count: int) -> str:
    return f"… and {count:,} other{'s' * (count != 1)}"


class Head(NamedTuple):
    """One head and its score."""

    name: str
    layer: int
    head: int
    score: float


@dataclass(frozen=True, repr=False)
class Heads(Ranking[Head]):
    """Heads, the largest score first; those from which the mask hides what was asked are left out, and `note` says so.

    >>> print(Heads("it → dog", (Head("layers.4.attention", 4, 3, 0.61),)))
    it → dog
    layer  4 head  3   61 %   layers.4.attention
    >>> print(Heads("dog → it", (), "the mask hides it from all heads."))
    dog → it: the mask hides it from all heads.
    """

    about: str
    found: tuple[Head, ...]
    note: str = ""

    def __str__(self) -> str:
        lines = [f"layer {h.layer:>2} head {h.head:>2} {percent(h.score):>6}   {h.name}" for h in self[:_HEADS]]
        more = [f"… and {len(self) - _HEADS} more"] if len(self) > _HEADS else []
        return "\n".join([self._title, *lines, *more])

    def _repr_html_(self) -> str:
        rows = [(head.layer, head.head, head.score, head.name) for head in self[:_ROWS]]
        return html_table(rows, ("layer", "head", "score", "module"), caption=self._title, more=len(self) - _ROWS)

    @property
    def _title(self) -> str:
        return f"{self.about}: {self.note}" if self.note else self.about


@dataclass(frozen=True, repr=False)
class Rollout:
    """What a token is made of, down to the input: of its own text and, in a translation, of the source."""

    own: Looks
    source: Looks | None = None

    def __str__(self) -> str:
        return str(self.own) if self.source is None else f"{self.own}\n{self.source}   (source)"

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        if self.source is None:
            return self.own._repr_html_()
        return self.own._repr_html_("from its own text") + self.source._repr_html_("from the source")


@dataclass(frozen=True, eq=False, repr=False)
class Spans:
    """How much each span gives to each other: rows look, columns are looked at.

    A cell is blank where nothing at all is given, as to what the mask hides.

    >>> import torch
    >>> print(Spans(("question", "answer"), ("question", "answer"), torch.tensor([[1.0, 0.0], [0.25, 0.75]])))
              spans  2×2
              questi…  answer
    question    100 %
    answer       25 %    75 %
    """

    names: tuple[str, ...]
    key_names: tuple[str, ...]
    weights: Float[Tensor, "rows columns"]

    def __getitem__(self, name: str) -> dict[str, float]:
        """What one span gives to each, the largest first."""
        if name not in self.names:
            raise InputError(f"the spans are {', '.join(map(repr, self.names))}. Got {name!r}.")
        row = self.weights[self.names.index(name)].tolist()
        return dict(sorted(zip(self.key_names, row, strict=True), key=lambda pair: -pair[1]))

    def __str__(self) -> str:
        numbers = self.weights.double().numpy()
        shape = "×".join(map(str, numbers.shape))
        table = Table(np.asarray(numbers), "spans", "", shape, self.names, self.key_names, True, blank_zeros=True)
        return "\n".join(line.rstrip() for line in beside([table], 100).plain.splitlines())

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        rows, columns = (next(elisions(n, named=True)) for n in self.weights.shape)
        cells = [[_name_at(self.names, row), *(self._cell(row, column) for column in columns)] for row in rows]
        return html_table(cells, ["", *(_name_at(self.key_names, column) for column in columns)])

    def _cell(self, row: int | None, column: int | None) -> Cell:
        if row is None or column is None:
            return "…"
        return float(self.weights[row, column]) or None


def _name_at(names: Sequence[str], place: int | None) -> str:
    return "…" if place is None else names[place]
