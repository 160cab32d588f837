"""Answers in descending order: what a word or span looks at, what it is made of, which heads do something.

`Looks`, `Heads` and `Spans` are the answers; the functions below them compute one from entries of one kind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, TypeVar, overload

import numpy as np
import torch
from torch import Tensor

from regard.drawing.html_table import Cell, html_table
from regard.drawing.terminal import Table, beside, elisions, labelled_bar, percent, visible
from regard.errors import InputError
from regard.scores import Keep
from regard.support import Bool, Float
from regard.watching.entries import Entry, mean_over_heads
from regard.watching.tokens import Place, Tokens, Word
from regard.watching.visibility import seen_keys, seen_queries

__all__ = [
    "Head",
    "Heads",
    "Look",
    "Looks",
    "Rollout",
    "Span",
    "Spans",
    "heads_between",
    "key_side",
    "looked_at",
    "looks",
    "query_side",
    "rollout",
    "scored",
    "spans",
]

Item = TypeVar("Item")

_LOOKS, _HEADS = 5, 10  # printed at most
_ROWS = 10  # of a table in a notebook, at most
_BAR = 20  # cells of a bar that stands for all attention


class _Ranking(Sequence[Item]):
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


@dataclass(frozen=True, repr=False)
class Looks(_Ranking[Look]):
    """Words and their shares, the largest first; words that the mask hides are not among them.

    >>> print(Looks("it", (Look("dog", 0.61, 1), Look("hungry", 0.14, 7))))
    it ━━━━━━━━━━━━ dog 61 %  ━━━ hungry 14 %
    """

    word: str
    found: tuple[Look, ...]

    def __str__(self) -> str:
        shares = "  ".join(labelled_bar(look.word, look.weight, _BAR) for look in self[:_LOOKS])
        return f"{visible(self.word)} {shares}" if shares else visible(self.word)

    def _repr_html_(self, caption: str = "") -> str:
        rows = [(look.word, look.weight, look.position) for look in self[:_ROWS]]
        return html_table(rows, (self.word, "share", "token"), caption=caption, more=len(self) - _ROWS)

    def of(self, word: str) -> float:
        """The share of a word, summed over its occurrences.

        >>> Looks("it", (Look("dog", 0.5, 1), Look("dog", 0.25, 9))).of("dog")
        0.75
        """
        return sum((look.weight for look in self.found if look.word.casefold() == word.casefold()), 0.0)


class Head(NamedTuple):
    """One head and its score."""

    name: str
    layer: int
    head: int
    score: float


@dataclass(frozen=True, repr=False)
class Heads(_Ranking[Head]):
    """Heads, the largest score first.

    >>> print(Heads("it → dog", (Head("layers.4.attention", 4, 3, 0.61),)))
    it → dog
    layer  4 head  3   61 %   layers.4.attention
    """

    about: str
    found: tuple[Head, ...]

    def __str__(self) -> str:
        lines = [f"layer {h.layer:>2} head {h.head:>2} {percent(h.score):>6}   {h.name}" for h in self[:_HEADS]]
        more = [f"… and {len(self) - _HEADS} more"] if len(self) > _HEADS else []
        return "\n".join([self.about, *lines, *more])

    def _repr_html_(self) -> str:
        rows = [(head.layer, head.head, head.score, head.name) for head in self[:_ROWS]]
        return html_table(rows, ("layer", "head", "score", "module"), caption=self.about, more=len(self) - _ROWS)


# What a word looks at, and what looks at it


def looks(entries: Sequence[Entry], place: Place, sequence: int) -> Looks:
    """What a word looks at, the mean over all heads of these entries."""
    side = query_side(entries[0], sequence)
    rows = side.find(place)
    index = (sequence, slice(None), slice(rows.start, rows.stop))
    weights = mean_over_heads(entries, lambda entry: entry.matrix[index].float().mean(1).sum(0).cpu())
    seen = seen_keys(entries, sequence, rows, weights)
    return _by_word(_phrase(side, place, rows), key_side(entries[0], sequence), weights, seen)


def looked_at(entries: Sequence[Entry], place: Place, sequence: int) -> Looks:
    """What looks at a word: the share that each other word gives to it, the mean over all heads."""
    side = key_side(entries[0], sequence)
    columns = side.find(place)
    index = (sequence, slice(None), slice(None), slice(columns.start, columns.stop))
    shares = mean_over_heads(entries, lambda entry: entry.matrix[index].float().sum(-1).sum(0).cpu())
    seen = seen_queries(entries, sequence, columns, shares)
    word = place if isinstance(place, str) else side.word_at(columns.start).text
    words = _words(query_side(entries[0], sequence), seen)
    return _looks(word, (Look(w.text, float(shares[w.start : w.stop].mean()), w.start) for w in words))


def query_side(entry: Entry, sequence: int) -> Tokens:
    """The tokens that look; numbers where the words are unknown."""
    return _side(entry, entry.tokens, entry.shape[2], sequence)


def key_side(entry: Entry, sequence: int) -> Tokens:
    """The tokens that are looked at."""
    return _side(entry, entry.key_tokens, entry.shape[3], sequence)


def _side(entry: Entry, tokens: Sequence[Tokens] | None, length: int, sequence: int) -> Tokens:
    if not 0 <= sequence < entry.shape[0]:
        raise InputError(f"the batch has {entry.shape[0]} sequences, numbered from 0. Got sequence = {sequence}.")
    return Tokens.numbered(length) if tokens is None else tokens[sequence]


def _phrase(side: Tokens, place: Place, tokens: range) -> str:
    """A place in words: as the user wrote it, or all words that it touches."""
    if isinstance(place, str):
        return place
    return " ".join(word.text for word in side.words if word.stop > tokens.start and word.start < tokens.stop)


def _by_word(word: str, side: Tokens, weights: Float[Tensor, " keys"], seen: Bool[Tensor, " keys"]) -> Looks:
    """Weights of tokens as shares of the words that are seen."""
    words = _words(side, seen)
    return _looks(word, (Look(w.text, float(weights[w.start : w.stop].sum()), w.start) for w in words))


def _words(side: Tokens, seen: Bool[Tensor, " tokens"]) -> list[Word]:
    """The words of which some token is seen."""
    tokens: list[bool] = seen.tolist()  # a list, as there may be thousands of words
    return [word for word in side.words if any(tokens[word.start : word.stop])]


def _looks(word: str, shares: Iterable[Look]) -> Looks:
    return Looks(word, tuple(sorted(shares, key=lambda look: -look.weight)))


# What a word is made of, down to the input


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


def rollout(entries: Sequence[Entry], place: Place, sequence: int) -> Rollout:
    """Each layer is half itself (the residual) and half its attention, the mean over heads (Abnar & Zuidema, 2020).

    A row of the product of all layers is a vector multiplied by the transposed matrices, last layer first: O(tokens)
    memory.
    """
    kinds = {entry.kind for entry in entries}
    own = _layers(entries, "decoder" if "decoder" in kinds else "encoder")
    cross = {entry.layer: entry for entry in entries if entry.kind == "cross"}
    if not own or len({entry.shape[2:] for entry in own}) != 1 or own[0].shape[2] != own[0].shape[3]:
        raise InputError(
            "rollout needs layers of one text, each looking at itself. Choose them with record.at(kind=…)."
        )
    side = query_side(own[0], sequence)
    tokens = side.find(place)
    flow = torch.zeros(own[0].shape[2])
    flow[tokens.start : tokens.stop] = 1 / len(tokens)
    source: Tensor | None = None
    for entry in reversed(own):
        if (beside := cross.get(entry.layer)) is not None:  # it follows the layer's self-attention, so it is first here
            share = _through(beside, flow, sequence) / 2
            source, flow = share if source is None else source + share, flow / 2
        flow = flow / 2 + _through(entry, flow, sequence) / 2
    word = place if isinstance(place, str) else side.word_at(tokens.start).text
    rolled = _by_word(word, side, flow, flow != 0)
    if source is None:
        return Rollout(rolled)
    encoder = _layers(entries, "encoder")
    for entry in reversed(encoder):
        source = source / 2 + _through(entry, source, sequence) / 2
    if not encoder:
        return Rollout(rolled)
    return Rollout(rolled, _by_word(word, query_side(encoder[0], sequence), source, source != 0))


def _layers(entries: Sequence[Entry], kind: str) -> list[Entry]:
    return sorted((entry for entry in entries if entry.kind == kind), key=lambda entry: entry.layer)


def _through(entry: Entry, flow: Float[Tensor, " queries"], sequence: int) -> Float[Tensor, " keys"]:
    """The transposed matrix times a vector, the mean over heads."""
    matrix = entry.matrix.part[sequence : sequence + 1]
    x = flow.to(device=matrix.device, dtype=matrix.dtype)[:, None]
    return (matrix.mT @ x)[0, ..., 0].float().mean(0).cpu()


# Which heads look from one word to another


def heads_between(entries: Sequence[Entry], start: Place, end: Place, sequence: int) -> Heads:
    """The heads that give most from one word to another."""
    scores = []
    for entry in entries:
        rows, columns = query_side(entry, sequence).find(start), key_side(entry, sequence).find(end)
        weights = entry.matrix[sequence, :, rows.start : rows.stop, columns.start : columns.stop]
        scores.append(weights.float().sum(-1).mean(-1))
    return _heads(f"{start} → {end}", entries, scores)


def _heads(about: str, entries: Sequence[Entry], scores: Sequence[Tensor]) -> Heads:
    heads = [
        Head(entry.name, entry.layer, head, float(score))
        for entry, per_head in zip(entries, scores, strict=True)
        for head, score in zip(entry.heads, per_head, strict=True)
    ]
    return Heads(about, tuple(sorted(heads, key=lambda head: -head.score)))


# Heads with a habit. Each score is a mean over the tokens from the second on: the first token of a causal model sees
# only itself.


def scored(entries: Sequence[Entry], habit: str, sequence: int) -> Heads:
    """Heads ranked by a habit: "sink", "previous", "diagonal" or "induction"."""
    if habit not in _HABITS:
        raise InputError(f"heads are scored by {', '.join(map(repr, _HABITS))}. Got {habit!r}.")
    own = [entry for entry in entries if entry.kind != "cross"]
    return _heads(habit, own, [_HABITS[habit](entry, sequence) for entry in own])


def _sink(entry: Entry, sequence: int) -> Tensor:
    tokens = _real_tokens(entry, sequence)
    return _mean_of_points(entry, sequence, tokens[1:], tokens[:1].expand(len(tokens) - 1))


def _previous(entry: Entry, sequence: int) -> Tensor:
    tokens = _real_tokens(entry, sequence)
    return _mean_of_points(entry, sequence, tokens[1:], tokens[:-1])


def _diagonal(entry: Entry, sequence: int) -> Tensor:
    tokens = _real_tokens(entry, sequence)
    return _mean_of_points(entry, sequence, tokens[1:], tokens[1:])


def _induction(entry: Entry, sequence: int) -> Tensor:
    """From a token that occurred before to the token that followed it then."""
    if entry.ids is None and entry.tokens is None:
        raise InputError("induction needs to know the tokens: watch with tokenizer=… or tokens=[…].")
    names = entry.ids[sequence].tolist() if entry.ids is not None else list((entry.tokens or [])[sequence])
    last: dict[str | int, int] = {}
    pairs = []
    for position in _real_tokens(entry, sequence).tolist():
        if names[position] in last:
            pairs.append((position, last[names[position]] + 1))
        last[names[position]] = position
    if not pairs:
        raise InputError("induction needs a text in which some token comes twice.")
    rows, columns = torch.tensor(pairs).unbind(1)
    return _mean_of_points(entry, sequence, rows, columns)


_HABITS: dict[str, Callable[[Entry, int], Tensor]] = {
    "sink": _sink,
    "previous": _previous,
    "diagonal": _diagonal,
    "induction": _induction,
}


def _real_tokens(entry: Entry, sequence: int) -> Tensor:
    """The positions of keys that are not padding."""
    real: Bool[Tensor, " keys"] = torch.ones(entry.shape[3], dtype=torch.bool)
    for atom in entry.call.mask.atoms if entry.call is not None else ():
        if isinstance(atom, Keep):
            keys = atom.keys.cpu()
            visible_keys = keys if keys.dtype == torch.bool else torch.arange(entry.shape[3]) < keys[..., None]
            real &= visible_keys.expand(entry.shape[0], -1)[sequence]
    return real.nonzero().flatten()


def _mean_of_points(entry: Entry, sequence: int, rows: Tensor, columns: Tensor) -> Float[Tensor, " heads"]:
    """The mean over points (row, column), for each head."""
    heads = torch.arange(entry.shape[1])[:, None]
    if not len(rows):
        return torch.zeros(entry.shape[1])
    device = entry.matrix.device
    index = (torch.tensor(sequence), heads, rows, columns)
    return entry.matrix[tuple(part.to(device) for part in index)].float().mean(-1).cpu()


Span = Place | tuple[int, int]
_ENDS = (".", "!", "?", "。", "！", "？")
_TURNS = ("<|im_start|>", "<start_of_turn>", "<|start_header_id|>", "<|start|>", "<|turn>", "[INST]", "<|user|>",
          "<|assistant|>", "<|system|>")  # fmt: skip
_COLUMNS = 256  # spans summed in one multiplication


@dataclass(frozen=True, eq=False, repr=False)
class Spans:
    """How much each span gives to each other: rows look, columns are looked at.

    >>> print(Spans(("question", "answer"), ("question", "answer"), torch.tensor([[1.0, 0.0], [0.25, 0.75]])))
              spans  2×2
              questi…  answer
    question    100 %     0 %
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
        table = Table(np.asarray(numbers), "spans", "", shape, self.names, self.key_names, shares=True)
        return "\n".join(line.rstrip() for line in beside([table], 100).plain.splitlines())

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        """A cell is blank where nothing at all is given, as to what the mask hides."""
        rows, columns = (next(elisions(n, named=True)) for n in self.weights.shape)
        cells = [[_name_at(self.names, row), *(self._cell(row, column) for column in columns)] for row in rows]
        return html_table(cells, ["", *(_name_at(self.key_names, column) for column in columns)])

    def _cell(self, row: int | None, column: int | None) -> Cell:
        if row is None or column is None:
            return "…"
        return float(self.weights[row, column]) or None


def _name_at(names: Sequence[str], place: int | None) -> str:
    return "…" if place is None else names[place]


def spans(entries: Sequence[Entry], by: str | Mapping[str, Span], sequence: int) -> Spans:
    """The mean over all heads and over the tokens of each row's span, without ever storing queries × keys."""
    rows = _named_spans(query_side(entries[0], sequence), by)
    columns = _named_spans(key_side(entries[0], sequence), by)
    if not rows or not columns:
        raise InputError(f"no span of {by!r} is in the text.")
    row_spans, column_spans = list(rows.values()), list(columns.values())
    weights = mean_over_heads(entries, lambda entry: _sum_over_heads(entry, sequence, row_spans, column_spans))
    return Spans(tuple(rows), tuple(columns), weights)


def _sum_over_heads(entry: Entry, sequence: int, rows: Sequence[range], columns: Sequence[range]) -> Tensor:
    """A @ (one column for each span), summed over heads, then the mean over the tokens of each row's span."""
    matrix = entry.matrix.part[sequence : sequence + 1]
    parts = []
    for start in range(0, len(columns), _COLUMNS):
        block = columns[start : start + _COLUMNS]
        membership = torch.zeros(entry.shape[3], len(block), dtype=matrix.dtype, device=matrix.device)
        for n, span in enumerate(block):
            membership[span.start : span.stop, n] = 1
        shares = (matrix @ membership)[0].float().sum(0)
        parts.append(torch.stack([shares[span.start : span.stop].mean(0) for span in rows]))
    return torch.cat(parts, -1).cpu()


def _named_spans(tokens: Tokens, by: str | Mapping[str, Span]) -> dict[str, range]:
    if isinstance(by, Mapping):
        return {name: tokens.find(range(*span) if isinstance(span, tuple) else span) for name, span in by.items()}
    words = tokens.words
    if by == "word":
        ranges = [word.tokens for word in words]
    elif by == "sentence":
        ends = [0, *(n + 1 for n, word in enumerate(words) if word.text.endswith(_ENDS)), len(words)]
        ranges = [range(words[a].start, words[b - 1].stop) for a, b in pairwise(sorted(set(ends)))]
    elif by == "message":
        starts = [n for n, token in enumerate(tokens) if token in _TURNS]
        if not starts:
            raise InputError(f"no message begins in this text: none of {' '.join(_TURNS)} is in it.")
        ranges = [range(a, b) for a, b in pairwise([*starts, len(tokens)])]
    else:
        raise InputError(f'spans are by "word", "sentence", "message" or {{name: text or token range}}. Got {by!r}.')
    named: dict[str, range] = {}
    for span in ranges:
        name = _name(tokens, span, by)
        while name in named:  # a repeated word
            stem, _, count = name.rpartition(" ")
            name = f"{stem} {int(count) + 1}" if stem and count.isdigit() else f"{name} 2"
        named[name] = span
    return named


def _name(tokens: Tokens, span: range, by: str) -> str:
    inside = [word.text for word in tokens.words if word.start >= span.start and word.stop <= span.stop]
    if by == "message":
        return next((text for text in inside if text not in _TURNS), inside[0])
    text = " ".join(inside)
    return text if len(text) <= 40 else text[:39] + "…"
