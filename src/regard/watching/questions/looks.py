"""Answers about a record, and how they print: `Looks`, `Rollout`, `Heads` and `Spans`, the largest share first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import compress, pairwise
from typing import NamedTuple, TypeVar, overload

import numpy as np
import torch
from torch import Tensor

from regard.drawing.terminal import Cell, Table, beside, elisions, html_table, labelled_bar, percent, visible
from regard.errors import InputError
from regard.support import Bool, Float, Int
from regard.watching.questions.sinks import Aside, Sinks, named, sentence, to_own, to_tokens
from regard.watching.record.entries import Entry, mean_over_heads, seen_keys, seen_queries, shown_to_heads
from regard.watching.record.tokens import Place, Tokens, Word

__all__ = [
    "HABITS",
    "SMALLEST",
    "Head",
    "Heads",
    "Look",
    "Looks",
    "Ranking",
    "Rollout",
    "Span",
    "Spans",
    "given_to",
    "heads_between",
    "key_side",
    "looked_at",
    "looks",
    "mean_row",
    "named_spans",
    "phrase",
    "query_side",
    "relevance",
    "rollout",
    "scored",
    "shares_of_spans",
    "spans",
    "tokens_of",
]

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


_WEIGHTS = 1 << 25  # computed at once, of rows that are not kept
SMALLEST = 1e-9  # against division by zero where everything rests on a sink

# What a word looks at, and what looks at it


def looks(entries: Sequence[Entry], place: Place, sinks: Sinks = None) -> Looks:
    """What a word looks at, the mean over all heads of these entries; with `sinks` set aside, as shares of the rest."""
    side, keys = query_side(entries[0]), key_side(entries[0])
    places = side.find_all(place)
    rows = tokens_of(places)
    weights = mean_over_heads(entries, lambda entry: mean_row(entry, places).sum(0))
    seen = seen_keys(entries, rows, weights)
    aside: tuple[Aside, ...] = ()
    if sinks is not None:
        present = [sink for sink in sinks if seen[sink]]
        aside = named(present, weights[present].tolist(), keys, float(to_own(entries)[rows].mean()))
        weights, seen = _without(weights, present), _without(seen, present)
    if aside:
        weights = weights / weights.sum().clamp_min(SMALLEST)
    found = _by_word(phrase(side, place, places), keys, weights, seen)
    if not aside:
        return found
    return replace(found, aside=aside, note=sentence(aside) + ("; of the rest:" if found else ""))


def looked_at(entries: Sequence[Entry], place: Place, sinks: Sinks = None) -> Looks:
    """What looks at a word: the share that each other word gives to it, the mean over all heads.

    With `sinks` set aside it is a share of what the other word gives to the rest, so that `looked_at(b).of(a)` equals
    `looks(a).of(b)`. What looks at a sink itself is answered in plain shares.
    """
    side = key_side(entries[0])
    places = side.find_all(place)
    columns = tokens_of(places)
    shares = mean_over_heads(entries, lambda entry: given_to(entry, columns).sum(0))
    seen = seen_queries(entries, columns, shares)
    others = query_side(entries[0])
    words = _words(others, seen)
    aside: tuple[Aside, ...] = ()
    rest = torch.ones_like(shares)
    if not seen.any():
        return Looks(phrase(side, place, places), (), note="the mask hides it: nothing looks at it.")
    if sinks is not None and not set(columns.tolist()) & set(sinks):
        given, own = to_tokens(entries, sinks), to_own(entries)
        aside = named(sinks, given[seen].mean(0).tolist(), side, float(own[seen].mean()))
        rest = (1 - given.sum(-1) - own).clamp_min(SMALLEST)

    def share(word: Word) -> float:
        return float(shares[word.start : word.stop].sum() / rest[word.start : word.stop].sum())

    found = _looks(phrase(side, place, places), (Look(w.text, share(w), w.start + others.first) for w in words))
    found = replace(found, one_row=False)
    return replace(found, aside=aside, note=f"{sentence(aside)} on average; of the rest:") if aside else found


def _without(values: Tensor, sinks: Sequence[int]) -> Tensor:
    values = values.clone()
    values[list(sinks)] = 0
    return values


def query_side(entry: Entry) -> Tokens:
    """The tokens that look; numbers where the words are unknown."""
    return Tokens.numbered(entry.shape[2]) if entry.tokens is None else entry.tokens[0]


def key_side(entry: Entry) -> Tokens:
    """The tokens that are looked at."""
    return Tokens.numbered(entry.shape[3]) if entry.key_tokens is None else entry.key_tokens[0]


def phrase(side: Tokens, place: Place, places: Sequence[range]) -> str:
    """A place in words: as the user wrote it, and how often it occurs, or all words that it touches."""
    if isinstance(place, str):
        return place if len(places) == 1 else f"{place} ({len(places):,} occurrences)"
    (tokens,) = places
    return " ".join(word.text for word in side.words if word.stop > tokens.start and word.start < tokens.stop)


def tokens_of(places: Sequence[range]) -> Int[Tensor, " tokens"]:
    """All tokens of some places, in one row."""
    return torch.tensor([token for place in places for token in place])


def mean_row(entry: Entry, places: Sequence[range]) -> Float[Tensor, "heads keys"]:
    """The mean row of all occurrences of a word, each of them the mean of its tokens: a block of rows at a time."""
    rows = tokens_of(places)
    shares = torch.tensor([1 / len(places) / len(place) for place in places for _ in place])
    size = max(_WEIGHTS // (entry.shape[1] * entry.shape[3]), 1)
    total = torch.zeros(entry.shape[1], entry.shape[3])
    for start in range(0, len(rows), size):
        block, share = rows[start : start + size], shares[start : start + size]
        weights = entry.matrix[0, :, block.to(entry.matrix.device)].float()
        total += torch.einsum("hqk,q->hk", weights, share.to(weights.device)).cpu()
    return total


def given_to(entry: Entry, columns: Int[Tensor, " tokens"]) -> Float[Tensor, "heads queries"]:
    """What each query gives to these keys together: a column of A @ x, in O(tokens) memory."""
    matrix = entry.matrix
    membership = torch.zeros(entry.shape[3], 1, dtype=matrix.dtype, device=matrix.device)
    membership[columns.to(matrix.device)] = 1
    return (matrix @ membership)[0, ..., 0].float().cpu()


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


def rollout(entries: Sequence[Entry], place: Place, sinks_of: Callable[[Entry], Sinks] = lambda _: None) -> Rollout:
    """Each layer is half itself (the residual) and half its attention, the mean over heads (Abnar & Zuidema, 2020).

    What a word gives to a sink hardly changes it (sinks have small values), yet in the product of all layers it would
    take everything. So the part that rests on a sink that is set aside stays with the word, as the residual does. In a
    causal model everything else can only move to the left: over many layers it gathers at the first words, sink or not.

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
    side = query_side(cross.get(own[-1].layer, own[-1]))  # in a translation, the words that are written
    encoder = _layers(entries, "encoder")
    if cross and encoder and isinstance(place, str) and not side.has(place) and query_side(encoder[0]).has(place):
        return rollout(encoder, place, sinks_of)  # a word of the source only
    places = side.find_all(place)
    flow = torch.zeros(own[0].shape[2])
    for tokens in places:
        flow[tokens.start : tokens.stop] += 1 / len(places) / len(tokens)
    source: Tensor | None = None
    rested: list[Tensor] = []
    for entry in reversed(own):
        if (beside := cross.get(entry.layer)) is not None:  # it follows the layer's self-attention, so it is first here
            share, stays = _through(beside, flow, sinks_of(beside))
            source = share / 2 if source is None else source + share / 2
            flow = flow / 2 + stays.sum(-1) / 2
        share, stays = _through(entry, flow, sinks_of(entry))
        rested.append(stays.sum(0) / flow.sum())
        flow = flow / 2 + stays.sum(-1) / 2 + share / 2
    word = phrase(side, place, places)
    rolled = _rolled(word, own[0], flow, rested, sinks_of(own[0]))
    if source is None or not encoder:
        return Rollout(rolled)
    rested = []
    for entry in reversed(encoder):
        share, stays = _through(entry, source, sinks_of(entry))
        rested.append(stays.sum(0) / source.sum())
        source = source / 2 + stays.sum(-1) / 2 + share / 2
    return Rollout(rolled, _rolled(word, encoder[0], source, rested, sinks_of(encoder[0])))


def _rolled(word: str, entry: Entry, flow: Float[Tensor, " keys"], rested: Sequence[Tensor], sinks: Sinks) -> Looks:
    """Where the flow came to, by word; `rested`: the share of it that each layer gave to each sink."""
    keys = key_side(entry)
    found = _by_word(word, keys, flow, flow != 0)
    if sinks is None:
        return found
    *shares, own = torch.stack(list(rested)).mean(0).tolist()
    aside = named(sinks, shares, keys, own)
    return replace(found, aside=aside, note=f"on the way, {sentence(aside)} and stays in place:") if aside else found


def _layers(entries: Sequence[Entry], kind: str) -> list[Entry]:
    return sorted((entry for entry in entries if entry.kind == kind), key=lambda entry: entry.layer)


def _through(
    entry: Entry, flow: Float[Tensor, " queries"], sinks: Sinks
) -> tuple[Float[Tensor, " keys"], Float[Tensor, "queries sinks"]]:
    """The transposed matrix times a vector, the mean over heads; and what rests on each sink, the model's own last."""
    matrix = entry.matrix
    x = flow.to(device=matrix.device, dtype=matrix.dtype)[:, None]
    share = (matrix.mT @ x)[0, ..., 0].float().mean(0).cpu()
    if sinks is None:
        return share, torch.zeros(len(flow), 1)
    given = torch.cat([to_tokens([entry], sinks), to_own([entry])[:, None]], -1)
    return _without(share, sinks), given * flow[:, None]


def relevance(entries: Sequence[Entry], place: Place) -> Looks:
    """A row of the product of all layers (I + A), where A is the mean over heads of what is positive in gradient ×
    attention; without the word's own I, as shares."""
    kinds = {entry.kind for entry in entries}
    own = _layers(entries, "decoder" if "decoder" in kinds else "encoder")
    if not own or len({entry.shape[2:] for entry in own}) != 1 or own[0].shape[2] != own[0].shape[3]:
        raise InputError("relevance needs layers of one text, each looking at itself.")
    side = query_side(own[-1])
    places = side.find_all(place)
    start = torch.zeros(own[0].shape[2])
    for tokens in places:
        start[tokens.start : tokens.stop] += 1 / len(places) / len(tokens)
    flow = start
    for entry in reversed(own):
        flow = flow + entry.attribution.back(flow)
    rest = flow - start
    return _by_word(phrase(side, place, places), key_side(own[0]), rest / rest.sum().clamp_min(SMALLEST), rest > 0)


# Which heads look from one word to another


def heads_between(entries: Sequence[Entry], start: Place, end: Place) -> Heads:
    """The heads that give most from one word to another: the mean of its occurrences, to all those of the other.

    Heads from which the mask hides the other word are left out, as in a layer with a window.
    """
    sides = query_side(entries[0]), key_side(entries[0])
    rows, columns = sides[0].find_all(start), sides[1].find_all(end)
    scores = [mean_row(entry, rows)[:, tokens_of(columns)].sum(-1) for entry in entries]
    ranked = _heads(f"{phrase(sides[0], start, rows)} → {phrase(sides[1], end, columns)}", entries, scores)
    seeing: set[tuple[str, int]] = set()
    for entry, score in zip(entries, scores, strict=True):
        seen = shown_to_heads(entry, tokens_of(rows), tokens_of(columns), score)
        seeing.update((entry.name, head) for head in compress(entry.heads, seen))
    found = tuple(head for head in ranked if (head.name, head.head) in seeing)
    if len(found) == len(ranked):
        return ranked
    some = f"the mask hides it from {len(ranked) - len(found)} of {len(ranked)} heads."
    return replace(ranked, found=found, note=some if found else "the mask hides it from all heads.")


def _heads(about: str, entries: Sequence[Entry], scores: Sequence[Tensor]) -> Heads:
    heads = [
        Head(entry.name, entry.layer, head, float(score))
        for entry, per_head in zip(entries, scores, strict=True)
        for head, score in zip(entry.heads, per_head, strict=True)
    ]
    return Heads(about, tuple(sorted(heads, key=lambda head: -head.score)))


# Heads with a habit. Each score is a mean over the tokens from the second on: the first token of a causal model sees
# only itself.


def scored(entries: Sequence[Entry], habit: str) -> Heads:
    """Heads ranked by a habit: "sink", "previous", "diagonal" or "induction"."""
    if habit not in HABITS:
        raise InputError(f"heads are scored by {', '.join(map(repr, HABITS))}. Got {habit!r}.")
    own = [entry for entry in entries if entry.kind != "cross"]
    if any(entry.shape[2] != entry.shape[3] for entry in own):
        raise InputError("a habit is measured on all rows of a text, and these entries have some of them only.")
    return _heads(habit, own, [HABITS[habit](entry) for entry in own])


def _sink(entry: Entry) -> Tensor:
    tokens = torch.arange(entry.shape[2])
    return _mean_of_points(entry, tokens[1:], tokens[:1].expand(len(tokens) - 1))


def _previous(entry: Entry) -> Tensor:
    tokens = torch.arange(entry.shape[2])
    return _mean_of_points(entry, tokens[1:], tokens[:-1])


def _diagonal(entry: Entry) -> Tensor:
    tokens = torch.arange(entry.shape[2])
    return _mean_of_points(entry, tokens[1:], tokens[1:])


def _induction(entry: Entry) -> Tensor:
    """From a token that occurred before to the token that followed it then."""
    if entry.ids is None and entry.tokens is None:
        raise InputError("induction needs to know the tokens: watch with tokenizer=… or tokens=[…].")
    names = entry.ids[0].tolist() if entry.ids is not None else list((entry.tokens or [])[0])
    last: dict[str | int, int] = {}
    pairs = []
    for position in range(len(names)):
        if names[position] in last:
            pairs.append((position, last[names[position]] + 1))
        last[names[position]] = position
    if not pairs:
        raise InputError("induction needs a text in which some token comes twice.")
    rows, columns = torch.tensor(pairs).unbind(1)
    return _mean_of_points(entry, rows, columns)


HABITS: dict[str, Callable[[Entry], Tensor]] = {
    "sink": _sink,
    "previous": _previous,
    "diagonal": _diagonal,
    "induction": _induction,
}


def _mean_of_points(entry: Entry, rows: Tensor, columns: Tensor) -> Float[Tensor, " heads"]:
    """The mean over points (row, column), for each head."""
    heads = torch.arange(entry.shape[1])[:, None]
    if not len(rows):
        return torch.zeros(entry.shape[1])
    device = entry.matrix.device
    index = (torch.tensor(0), heads, rows, columns)
    return entry.matrix[tuple(part.to(device) for part in index)].float().mean(-1).cpu()


Span = Place | tuple[int, int]
_ENDS = (".", "!", "?", "。", "！", "？")
_TURNS = ("<|im_start|>", "<start_of_turn>", "<|start_header_id|>", "<|start|>", "<|turn>", "[INST]", "<|user|>",
          "<|assistant|>", "<|system|>")  # fmt: skip
_COLUMNS = 256  # spans summed in one multiplication


def spans(entries: Sequence[Entry], by: str | Mapping[str, Span]) -> Spans:
    """The mean over all heads and over the tokens of each row's span, without ever storing queries × keys."""
    side, columns = query_side(entries[0]), named_spans(key_side(entries[0]), by)
    if side.first and entries[0].kind != "cross":  # of the text, the last rows were kept
        inside = {name: span for name, span in columns.items() if span.start >= side.first}
        rows = {name: range(span.start - side.first, span.stop - side.first) for name, span in inside.items()}
    else:
        rows = named_spans(side, by)
    if not rows or not columns:
        kept = f" that were kept, from {side.first} on" if side.first else " of the text"
        raise InputError(f"no span of {by!r} is among the tokens{kept}.")
    row_spans, column_spans = list(rows.values()), list(columns.values())
    weights = mean_over_heads(entries, lambda entry: shares_of_spans(entry, row_spans, column_spans))
    return Spans(tuple(rows), tuple(columns), weights)


def shares_of_spans(entry: Entry, rows: Sequence[range], columns: Sequence[range]) -> Tensor:
    """A @ (one column for each span), summed over heads, then the mean over the tokens of each row's span."""
    first, last = min(span.start for span in rows), max(span.stop for span in rows)
    matrix = entry.matrix.part[:, :, first:last]
    parts = []
    for start in range(0, len(columns), _COLUMNS):
        block = columns[start : start + _COLUMNS]
        membership = torch.zeros(entry.shape[3], len(block), dtype=matrix.dtype, device=matrix.device)
        for n, span in enumerate(block):
            membership[span.start : span.stop, n] = 1
        shares = (matrix @ membership)[0].float().sum(0)
        parts.append(torch.stack([shares[span.start - first : span.stop - first].mean(0) for span in rows]))
    return torch.cat(parts, -1).cpu()


def named_spans(tokens: Tokens, by: str | Mapping[str, Span]) -> dict[str, range]:
    """The spans of a text by name: each "word", "sentence" or chat "message", or those that were named."""
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
