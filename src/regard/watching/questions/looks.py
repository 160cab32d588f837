"""What a word looks at, what it is made of and which heads look where: the answers, then how each is computed.

Every question is a function of the entries of one text, which have one kind and shape unless it says otherwise.
`Record` has a method for each question.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, compress, count, pairwise
from typing import Any, NamedTuple, TypeVar, overload

import numpy as np
import torch
from torch import Tensor

from regard.drawing.terminal import Cell, Table, beside, elisions, html_table, labelled_bar, percent, visible
from regard.errors import InputError, MissingDependencyError
from regard.matrix import AttentionMatrix
from regard.support import Bool, Float, Int
from regard.watching.questions.sinks import Aside, Sinks, named, resting, sentence
from regard.watching.record.entries import Entry, mean_over_heads, seen_keys, seen_queries, shown_to_heads
from regard.watching.record.tokens import Place, Tokens, Word

Item = TypeVar("Item")
Weighted = TypeVar("Weighted", bound=Any)  # an item that has a weight
Span = Place | tuple[int, int]

_LOOKS, _HEADS, _ROWS = 5, 10, 10  # at most: printed looks and heads, rows of a table in a notebook
_BAR, _PHRASE = 20, 60  # terminal cells of a bar of 100 %, and of the phrase that an answer is about
_WEIGHTS = 1 << 25  # weights computed at once, where the rows are not kept
_COLUMNS = 256  # spans summed in one multiplication
SMALLEST = 1e-9  # avoids division by zero where everything rests on a sink
HABITS = ("sink", "previous", "diagonal", "induction")

# The answers


class Answer(Sequence[Item]):
    """A sequence of named tuples, by default the largest weight first; `repr` gives what `print` shows."""

    items: tuple[Item, ...]

    def __repr__(self) -> str:
        return str(self)

    def __len__(self) -> int:
        return len(self.items)

    @overload
    def __getitem__(self, index: int) -> Item: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Item, ...]: ...
    def __getitem__(self, index: int | slice) -> Item | tuple[Item, ...]:
        return self.items[index]

    def to_pandas(self) -> Any:
        """Return a pandas DataFrame: a row for each item, a column for each of its fields."""
        try:
            import pandas  # type: ignore[import-not-found,import-untyped,unused-ignore]
        except ImportError:
            raise MissingDependencyError("to_pandas needs pandas: pip install pandas.") from None
        return pandas.DataFrame(list(self), columns=getattr(next(iter(self), None), "_fields", None))


class Look(NamedTuple):
    """A word, its weight and the position of its first token."""

    word: str
    weight: float
    position: int


@dataclass(frozen=True, repr=False)
class Looks(Answer[Look]):
    """Words and their weights, the largest first, without the words that the mask hides.

    Printed, the five largest are listed, and the sum of the others.

    Args:
        word: The word or phrase that the answer is about.
        items: Words with their weights. Where sinks were set aside, weights are shares of what does not rest on sinks.
        aside: The attention sinks that were set aside, with their shares of all attention.
        note: A sentence about the sinks, or why the answer is empty.
        one_row: Whether the weights belong to one row, so that they have a sum. In `looked_at`, each belongs to the
            row of its own word.

    >>> print(Looks("it", (Look("dog", 0.61, 1), Look("hungry", 0.14, 7))))
    it ━━━━━━━━━━━━ dog 61 %  ━━━ hungry 14 %
    >>> aside = (Aside("[CLS]", 0.5, "[CLS]", 0),)
    >>> print(Looks("it", (Look("dog", 0.61, 1),), aside, "50 % rests on [CLS]; of the rest:"))
    it: 50 % rests on [CLS]; of the rest: ━━━━━━━━━━━━ dog 61 %
    >>> print(Looks("it", (Look("dog", 0.5, 1), Look("dog", 0.25, 9))))  # the token tells two occurrences apart
    it ━━━━━━━━━━ dog @1 50 %  ━━━━━ dog @9 25 %
    >>> print(Looks("it", tuple(Look(word, 0.125, n) for n, word in enumerate("abcdefgh"))))
    it ━━ a 12.5 %  ━━ b 12.5 %  ━━ c 12.5 %  ━━ d 12.5 %  ━━ e 12.5 %  … and 3 others 37.5 %
    >>> print(Looks("it", (Look("dog", 0.9997, 1), Look("food", 0.0002, 4), Look("ate", 0.0001, 2))))
    it ━━━━━━━━━━━━━━━━━━━━ dog 100 %  … and 2 others 0 %
    """

    word: str
    items: tuple[Look, ...]
    aside: tuple[Aside, ...] = ()
    note: str = ""
    one_row: bool = True

    def __str__(self) -> str:
        return self.line()

    def line(self, question: str = "") -> str:
        """Return one line that begins with the word and the question: "it looks at: …"."""
        listed = [look for look in self[:_LOOKS] if percent(look.weight) != percent(0)] or self[:_LOOKS]
        times = Counter(look.word for look in self)
        labels = [look.word if times[look.word] == 1 else f"{look.word} @{look.position}" for look in listed]
        bars = "  ".join(labelled_bar(label, look.weight, _BAR) for label, look in zip(labels, listed, strict=True))
        count, weight = self.others(len(listed))
        if count:
            bars += f"  {_and_others(count)}" + ("" if weight is None else f" {percent(weight)}")
        about = f"{visible(self.word, _PHRASE)} {question}".rstrip() + (":" if question or self.note else "")
        return " ".join(part for part in (about, self.note, bars) if part)

    def others(self, listed: int) -> tuple[int, float | None]:
        """Return how many words follow the first `listed` words, and the sum of their weights.

        >>> Looks("it", (Look("dog", 0.5, 1), Look("food", 0.25, 4), Look("ate", 0.25, 2))).others(1)
        (2, 0.5)
        """
        rest = self[listed:]
        return len(rest), sum(look.weight for look in rest) if self.one_row else None

    def _repr_html_(self, caption: str = "") -> str:
        rows: list[tuple[Cell, ...]] = [(look.word, look.weight, look.position) for look in self[:_ROWS]]
        count, weight = self.others(_ROWS)
        if count:
            rows.append((_and_others(count), weight, None))
        caption = "; ".join(part for part in (caption, self.note.removesuffix(":")) if part)
        return html_table(rows, (self.word, "weight", "token"), caption=caption)

    def of(self, word: str) -> float:
        """Return the sum of the weights of a word over its occurrences.

        >>> Looks("it", (Look("dog", 0.5, 1), Look("dog", 0.25, 9))).of("dog")
        0.75
        """
        weights = [look.weight for look in self if look.word.casefold() == word.casefold()]
        if not weights and any(word.casefold() == sink.word.casefold() for sink in self.aside):
            raise InputError(
                f"{word!r} was set aside as an attention sink. Its share of all attention is in `aside`; with "
                "sinks=True it is listed like any word."
            )
        return sum(weights, 0.0)


def _and_others(count: int) -> str:
    return f"… and {count:,} other{'s' * (count != 1)}"


class Head(NamedTuple):
    """A head: the name of its module, its layer and number, and its weight."""

    name: str
    layer: int
    head: int
    weight: float


@dataclass(frozen=True, repr=False)
class Heads(Answer[Head]):
    """Heads, the largest weight first; heads from which the mask hides the words are left out, and `note` counts them.

    >>> print(Heads("it → dog", (Head("layers.4.attention", 4, 3, 0.61),)))
    it → dog
    layer  4 head  3   61 %   layers.4.attention
    >>> print(Heads("dog → it", (), "the mask hides it from all heads."))
    dog → it: the mask hides it from all heads.
    """

    about: str
    items: tuple[Head, ...]
    note: str = ""

    def __str__(self) -> str:
        lines = [f"layer {h.layer:>2} head {h.head:>2} {percent(h.weight):>6}   {h.name}" for h in self[:_HEADS]]
        more = [f"… and {len(self) - _HEADS} more"] if len(self) > _HEADS else []
        return "\n".join([self._title, *lines, *more])

    def _repr_html_(self) -> str:
        rows = [(head.layer, head.head, head.weight, head.name) for head in self[:_ROWS]]
        return html_table(rows, ("layer", "head", "weight", "module"), caption=self._title, more=len(self) - _ROWS)

    @property
    def _title(self) -> str:
        return f"{self.about}: {self.note}" if self.note else self.about


class Origin(NamedTuple):
    """A word that a token is made of, its weight, the position of its first token, and whether it is in the source."""

    word: str
    weight: float
    position: int
    source: bool


@dataclass(frozen=True, repr=False)
class Rollout(Answer[Origin]):
    """The words that a token is made of: words of its own text and, in a translation, of the source."""

    own: Looks
    source: Looks | None = None

    @cached_property
    def items(self) -> tuple[Origin, ...]:  # type: ignore[override]
        """The words of both texts, the largest weight first."""
        sides = ((self.own, False), (self.source or (), True))
        return ranked(Origin(*look, source) for side, source in sides for look in side)

    def __str__(self) -> str:
        return str(self.own) if self.source is None else f"{self.own}\n{self.source}   (source)"

    def _repr_html_(self) -> str:
        if self.source is None:
            return self.own._repr_html_()
        return self.own._repr_html_("from its own text") + self.source._repr_html_("from the source")


class SpanLook(NamedTuple):
    """The mean weight that the tokens of one span give to another span."""

    start: str
    end: str
    weight: float


@dataclass(frozen=True, eq=False, repr=False)
class Spans(Answer[SpanLook]):
    """The mean weight that each span (a row) gives to each span (a column); `spans[name]` is a row by name.

    Printed, a cell of weight 0 is blank.

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

    @cached_property
    def items(self) -> tuple[SpanLook, ...]:  # type: ignore[override]
        """All pairs of spans, the largest weight first."""
        pairs = [
            SpanLook(name, key_name, weight)
            for name, row in zip(self.names, self.weights.tolist(), strict=True)
            for key_name, weight in zip(self.key_names, row, strict=True)
        ]
        return ranked(pairs)

    @overload
    def __getitem__(self, index: int) -> SpanLook: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[SpanLook, ...]: ...
    @overload
    def __getitem__(self, index: str) -> dict[str, float]: ...
    def __getitem__(self, index: int | slice | str) -> SpanLook | tuple[SpanLook, ...] | dict[str, float]:
        """Return what the span of this name gives to each span, the largest weight first; or pairs of spans."""
        if not isinstance(index, str):
            return self.items[index]
        if index not in self.names:
            raise InputError(f"the spans are {', '.join(map(repr, self.names))}. Got {index!r}.")
        row = self.weights[self.names.index(index)].tolist()
        return dict(sorted(zip(self.key_names, row, strict=True), key=lambda pair: -pair[1]))

    def __len__(self) -> int:
        return self.weights.numel()

    def __str__(self) -> str:
        numbers = self.weights.double().numpy()
        shape = "×".join(map(str, numbers.shape))
        table = Table(np.asarray(numbers), "spans", "", shape, self.names, self.key_names, True, blank_zeros=True)
        return "\n".join(line.rstrip() for line in beside([table], 100).plain.splitlines())

    def _repr_html_(self) -> str:
        rows, columns = (list(next(elisions(n, named=True))) for n in self.weights.shape)  # None: some are left out
        cells: list[list[Cell]] = [
            [
                "…" if row is None else self.names[row],
                *("…" if None in (row, column) else float(self.weights[row, column]) or None for column in columns),
            ]
            for row in rows
        ]
        return html_table(cells, ["", *("…" if column is None else self.key_names[column] for column in columns)])


def ranked(items: Iterable[Weighted]) -> tuple[Weighted, ...]:
    """Return items by their weight, the largest first."""
    return tuple(sorted(items, key=lambda item: -item.weight))


# What a word looks at, and what looks at it


def looks(entries: Sequence[Entry], place: Place, sinks: Sinks = None) -> Looks:
    """Answer `Record.looks`: the mean over all heads; with `sinks` set aside, weights are shares of the rest."""
    side, keys = query_side(entries[0]), key_side(entries[0])
    places = side.find_all(place)
    rows = tokens_of(places)
    weights = mean_over_heads(entries, lambda entry: mean_row(entry, places).sum(0))
    seen = seen_keys(entries, rows, weights)
    about = phrase(side, place, places)
    present = [sink for sink in sinks or () if seen[sink]]
    of_model = 0.0 if sinks is None else float(resting(entries, ())[rows].mean())
    aside = named(present, [*weights[present].tolist(), of_model], keys)
    if not aside:
        return _by_word(about, keys, weights, seen)
    weights[present], seen[present] = 0, False
    answer = _by_word(about, keys, weights / weights.sum().clamp_min(SMALLEST), seen)
    return replace(answer, aside=aside, note=sentence(aside) + ("; of the rest:" if answer else ""))


def looked_at(entries: Sequence[Entry], place: Place, sinks: Sinks = None) -> Looks:
    """Answer `Record.looked_at`: the weight that each other word gives to a word, the mean over all heads.

    With `sinks` set aside it is a share of what the other word gives to the rest, so that `looked_at(b).of(a)` equals
    `looks(a).of(b)`. For a word that is a sink itself, all weights are plain.
    """
    side, others = key_side(entries[0]), query_side(entries[0])
    places = side.find_all(place)
    columns = tokens_of(places)
    weights = mean_over_heads(entries, lambda entry: weights_to(entry, columns).sum(0))
    seen = seen_queries(entries, columns, weights)
    about = phrase(side, place, places)
    if not seen.any():
        return Looks(about, (), note="the mask hides it: nothing looks at it.")
    if set(columns.tolist()) & set(sinks or ()):
        sinks = None
    rested = resting(entries, sinks)
    aside = named(sinks, rested[seen].mean(0).tolist(), side)
    rest = (1 - rested.sum(-1)).clamp_min(SMALLEST)
    items = [
        Look(w.text, float(weights[w.start : w.stop].sum() / rest[w.start : w.stop].sum()), w.start + others.first)
        for w in _seen_words(others, seen)
    ]
    note = f"{sentence(aside)} on average; of the rest:" if aside else ""
    return Looks(about, ranked(items), aside, note, one_row=False)


def query_side(entry: Entry) -> Tokens:
    """Return the tokens of the queries; numbers where the words are unknown."""
    return Tokens.numbered(entry.shape[2]) if entry.tokens is None else entry.tokens[0]


def key_side(entry: Entry) -> Tokens:
    """Return the tokens of the keys; numbers where the words are unknown."""
    return Tokens.numbered(entry.shape[3]) if entry.key_tokens is None else entry.key_tokens[0]


def phrase(side: Tokens, place: Place, places: Sequence[range]) -> str:
    """Return a place in words: as the user wrote it, with the number of occurrences, or all words that it touches."""
    if isinstance(place, str):
        return place if len(places) == 1 else f"{place} ({len(places):,} occurrences)"
    (tokens,) = places
    return " ".join(word.text for word in side.words if word.stop > tokens.start and word.start < tokens.stop)


def tokens_of(places: Sequence[range]) -> Int[Tensor, " tokens"]:
    """Return all tokens of some places in one row."""
    return torch.tensor([token for place in places for token in place])


def mean_row(entry: Entry, places: Sequence[range]) -> Float[Tensor, "heads keys"]:
    """Return the mean row over all occurrences of a word, each the mean of its tokens: a block of rows at a time."""
    shares = _equal_shares(places, entry.shape[2])
    size = max(_WEIGHTS // (entry.shape[1] * entry.shape[3]), 1)
    total = torch.zeros(entry.shape[1], entry.shape[3])
    for rows in torch.split(shares.nonzero().flatten(), size):
        weights = entry.matrix[0, :, rows.to(entry.matrix.device)].float()
        total += torch.einsum("hqk,q->hk", weights, shares[rows].to(weights.device)).cpu()
    return total


def _equal_shares(places: Sequence[range], count: int) -> Float[Tensor, " tokens"]:
    """Return a vector over `count` tokens of sum 1, shared equally by the occurrences and by the tokens of each."""
    shares = torch.zeros(count)
    for tokens in places:
        shares[tokens.start : tokens.stop] += 1 / len(places) / len(tokens)
    return shares


def weights_to(entry: Entry, columns: Int[Tensor, " tokens"]) -> Float[Tensor, "heads queries"]:
    """Return what each query gives to these keys together: a column of A @ x, in O(tokens) memory."""
    matrix = entry.matrix
    membership = torch.zeros(entry.shape[3], 1, dtype=matrix.dtype, device=matrix.device)
    membership[columns.to(matrix.device)] = 1
    return (matrix @ membership)[0, ..., 0].float().cpu()


def _by_word(about: str, side: Tokens, weights: Float[Tensor, " keys"], seen: Bool[Tensor, " keys"]) -> Looks:
    """Sum the weights of tokens by word, for the words that are seen."""
    items = [Look(w.text, float(weights[w.start : w.stop].sum()), w.start) for w in _seen_words(side, seen)]
    return Looks(about, ranked(items))


def _seen_words(side: Tokens, seen: Bool[Tensor, " tokens"]) -> list[Word]:
    tokens: list[bool] = seen.tolist()  # faster than a tensor for thousands of words
    return [word for word in side.words if any(tokens[word.start : word.stop])]


# What a word is made of, down to the input


def rollout(entries: Sequence[Entry], place: Place, sinks_of: Callable[[Entry], Sinks] = lambda _: None) -> Rollout:
    """Answer `Record.rollout`: each layer is half residual and half attention (Abnar & Zuidema, 2020).

    What a word gives to a sink hardly changes it (sinks have small values), yet in the product of all layers it would
    take everything. So the part that rests on a sink that is set aside stays with the word, as the residual does. In a
    causal model everything else can only move to the left: over many layers it gathers at the first words, sink or not.

    A row of the product of all layers is a vector multiplied by the transposed matrices, last layer first: O(tokens)
    memory.
    """
    layers, encoder = _layers_of_text(entries, "rollout"), _layers(entries, "encoder")
    # The pooling head of SigLIP has a query of its own: it belongs to no layer.
    cross = {e.layer: e for e in entries if e.kind == "cross" and e.shape[2] == layers[0].shape[2]}
    side = query_side(cross.get(layers[-1].layer, layers[-1]))  # in a translation, the words that are written
    if cross and encoder and isinstance(place, str) and not side.has(place) and query_side(encoder[0]).has(place):
        return rollout(encoder, place, sinks_of)  # a word of the source only
    places = side.find_all(place)
    word = phrase(side, place, places)
    answer, source = _origins(word, layers, _equal_shares(places, layers[0].shape[2]), sinks_of, cross)
    if source is None or not encoder:
        return Rollout(answer)
    return Rollout(answer, _origins(word, encoder, source, sinks_of, {})[0])


def _origins(
    word: str,
    layers: Sequence[Entry],
    flow: Float[Tensor, " queries"],
    sinks_of: Callable[[Entry], Sinks],
    cross: Mapping[int, Entry],
) -> tuple[Looks, Float[Tensor, " source"] | None]:
    """Follow a flow down to the input; return where it arrived by word, and what went to the source of `cross`."""
    source: Tensor | None = None
    rested: list[Tensor] = []  # for each layer, the share of the flow that rests on each sink
    for entry in reversed(layers):
        if (beside := cross.get(entry.layer)) is not None:  # it follows the layer's self-attention, so it is first here
            passed, stays = _through(beside, flow, sinks_of(beside))
            source = passed / 2 if source is None else source + passed / 2
            flow = flow / 2 + stays.sum(-1) / 2
        passed, stays = _through(entry, flow, sinks_of(entry))
        rested.append(stays.sum(0) / flow.sum())
        flow = flow / 2 + stays.sum(-1) / 2 + passed / 2
    keys, sinks = key_side(layers[0]), sinks_of(layers[0])
    answer = _by_word(word, keys, flow, flow != 0)
    if aside := named(sinks, torch.stack(rested).mean(0).tolist(), keys):
        answer = replace(answer, aside=aside, note=f"on the way, {sentence(aside)} and stays in place:")
    return answer, source


def _layers(entries: Sequence[Entry], kind: str) -> list[Entry]:
    return sorted((entry for entry in entries if entry.kind == kind), key=lambda entry: entry.layer)


def _layers_of_text(entries: Sequence[Entry], question: str) -> list[Entry]:
    """Return the layers of the text that is written, or of the only text."""
    layers = _layers(entries, "decoder") or _layers(entries, "encoder")
    square = layers and layers[0].shape[2] == layers[0].shape[3]
    if not square or len({entry.shape[2:] for entry in layers}) != 1 or not of_one_text(layers):
        raise InputError(
            f"{question} needs layers of one text, each looking at itself. Choose them with record.at(kind=…) or "
            "record.at(module=…)."
        )
    return layers


def of_one_text(entries: Sequence[Entry]) -> bool:
    """Whether all entries that know their tokens look at the same tokens, unlike the two towers of CLIP."""
    texts = [entry.key_tokens[0].words for entry in entries if entry.key_tokens is not None]
    return all(words == texts[0] for words in texts)


def _through(
    entry: Entry, flow: Float[Tensor, " queries"], sinks: Sinks
) -> tuple[Float[Tensor, " keys"], Float[Tensor, "queries sinks"]]:
    """Return what is passed on to the keys that are no sinks, the mean over heads, and what rests on each sink.

    The last column is for the sinks that the model has in addition to its tokens.
    """
    passed = passed_on(entry.matrix, flow)
    passed[list(sinks or ())] = 0
    return passed, resting([entry], sinks) * flow[:, None]


def passed_on(matrix: AttentionMatrix, flow: Float[Tensor, " queries"]) -> Float[Tensor, " keys"]:
    """Multiply a vector by the transposed matrix, the mean over heads, in O(tokens) memory."""
    x = flow.to(device=matrix.device, dtype=matrix.dtype)[:, None]
    return (matrix.mT @ x)[0, ..., 0].float().mean(0).cpu()


def relevance(entries: Sequence[Entry], place: Place) -> Looks:
    """Answer `Record.relevance`: a row of the product of all layers (I + A), without the word's own I, of sum 1.

    A is the mean over heads of the positive part of gradient × attention.
    """
    layers = _layers_of_text(entries, "relevance")
    side = query_side(layers[-1])
    places = side.find_all(place)
    start = flow = _equal_shares(places, layers[0].shape[2])
    for entry in reversed(layers):
        flow = flow + entry.attribution.back(flow)
    rest = flow - start
    return _by_word(phrase(side, place, places), key_side(layers[0]), rest / rest.sum().clamp_min(SMALLEST), rest > 0)


# Which heads look from one word to another, and which have a habit


def heads_between(entries: Sequence[Entry], start: Place, end: Place) -> Heads:
    """Answer `Record.heads`: what the occurrences of one word give to the occurrences of the other, on average.

    Heads from which the mask hides the other word are left out, as in a layer with a window.
    """
    side, keys = query_side(entries[0]), key_side(entries[0])
    start_places, end_places = side.find_all(start), keys.find_all(end)
    rows, columns = tokens_of(start_places), tokens_of(end_places)
    heads: list[Head] = []
    for entry in entries:
        weights = mean_row(entry, start_places)[:, columns].sum(-1)
        heads += compress(_heads(entry, weights), shown_to_heads(entry, rows, columns, weights))
    total = sum(entry.shape[1] for entry in entries)
    hidden = f"{total - len(heads)} of {total} heads" if heads else "all heads"
    about = f"{phrase(side, start, start_places)} → {phrase(keys, end, end_places)}"
    note = "" if len(heads) == total else f"the mask hides it from {hidden}."
    return Heads(about, ranked(heads), note)


def _heads(entry: Entry, weights: Float[Tensor, " heads"]) -> list[Head]:
    return [Head(entry.name, entry.layer, head, w) for head, w in zip(entry.heads, weights.tolist(), strict=True)]


def scored(entries: Sequence[Entry], habit: str) -> Heads:
    """Answer `Record.scores`: heads ranked by a habit, the mean over the tokens from the second on."""
    if habit not in HABITS:
        raise InputError(f"heads are scored by {', '.join(map(repr, HABITS))}. Got {habit!r}.")
    layers = [entry for entry in entries if entry.kind != "cross"]
    if any(entry.shape[2] != entry.shape[3] for entry in layers):
        raise InputError("a habit is measured on all rows of a text, and these entries have some of them only.")
    heads = [head for entry in layers for head in _heads(entry, habit_weights(entry, habit))]
    return Heads(habit, ranked(heads))


def habit_weights(entry: Entry, habit: str) -> Float[Tensor, " heads"]:
    """Return the mean weight of each head at the points (row, column) of a habit."""
    rows = torch.arange(1, entry.shape[2])  # the first token of a causal model sees only itself
    if habit == "induction":
        rows, columns = _induction_points(entry)
    else:
        columns = {"sink": torch.zeros_like(rows), "previous": rows - 1, "diagonal": rows}[habit]
    if not len(rows):
        return torch.zeros(entry.shape[1])
    index = (torch.tensor(0), torch.arange(entry.shape[1])[:, None], rows, columns)
    return entry.matrix[tuple(part.to(entry.matrix.device) for part in index)].float().mean(-1).cpu()


def _induction_points(entry: Entry) -> tuple[Int[Tensor, " points"], Int[Tensor, " points"]]:
    """Return each token that occurred before, and the token that followed its last occurrence."""
    tokens = token_numbers(entry)
    if tokens is None:
        raise InputError("induction needs to know the tokens: watch with tokenizer=… or tokens=[…].")
    last: dict[int, int] = {}
    points = []
    for position, token in enumerate(tokens.tolist()):
        if token in last:
            points.append((position, last[token] + 1))
        last[token] = position
    if not points:
        raise InputError("induction needs a text in which some token comes twice.")
    rows, columns = torch.tensor(points).unbind(1)
    return rows, columns


def token_numbers(entry: Entry) -> Int[Tensor, " tokens"] | None:
    """Return a number for each token, the same for the same token; None where the tokens are unknown."""
    if entry.ids is not None:
        return entry.ids[0].cpu()
    side = query_side(entry)
    numbers: dict[str, int] = {}
    return torch.tensor([numbers.setdefault(piece, len(numbers)) for piece in side]) if side.named else None


# Attention between spans

_ENDS = (".", "!", "?", "。", "！", "？")
_TURNS = ("<|im_start|>", "<start_of_turn>", "<|start_header_id|>", "<|start|>", "<|turn>", "[INST]", "<|user|>",
          "<|assistant|>", "<|system|>")  # fmt: skip


def spans(entries: Sequence[Entry], by: str | Mapping[str, Span]) -> Spans:
    """Answer `Record.spans`: the mean over all heads and over the tokens of each row's span."""
    side, columns = query_side(entries[0]), named_spans(key_side(entries[0]), by)
    if side.first and entries[0].kind != "cross":  # only the last rows of the text were kept
        kept = {name: span for name, span in columns.items() if span.start >= side.first}
        rows = {name: range(span.start - side.first, span.stop - side.first) for name, span in kept.items()}
    else:
        rows = named_spans(side, by)
    if not rows or not columns:
        which = f" that were kept, from {side.first} on" if side.first else " of the text"
        raise InputError(f"no span of {by!r} is among the tokens{which}.")
    row_spans, column_spans = list(rows.values()), list(columns.values())
    weights = mean_over_heads(entries, lambda entry: weights_of_spans(entry, row_spans, column_spans))
    return Spans(tuple(rows), tuple(columns), weights)


def weights_of_spans(
    entry: Entry, rows: Sequence[range], columns: Sequence[range]
) -> Float[Tensor, "row_spans column_spans"]:
    """Return A @ (a column for each span), summed over heads: the mean over the tokens of each row's span."""
    first, last = min(span.start for span in rows), max(span.stop for span in rows)
    matrix = entry.matrix.part[:, :, first:last]
    parts = []
    for start in range(0, len(columns), _COLUMNS):
        block = columns[start : start + _COLUMNS]
        membership = torch.zeros(entry.shape[3], len(block), dtype=matrix.dtype, device=matrix.device)
        for n, span in enumerate(block):
            membership[span.start : span.stop, n] = 1
        sums = (matrix @ membership)[0].float().sum(0)  # (queries, spans)
        parts.append(torch.stack([sums[span.start - first : span.stop - first].mean(0) for span in rows]))
    return torch.cat(parts, -1).cpu()


def named_spans(tokens: Tokens, by: str | Mapping[str, Span]) -> dict[str, range]:
    """Return the spans of a text by name: each "word", "sentence" or chat "message", or the spans of a mapping."""
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
    spans: dict[str, range] = {}
    for span in ranges:
        words_of_span = [word.text for word in words if word.start >= span.start and word.stop <= span.stop]
        text = " ".join(words_of_span)
        name = text if len(text) <= 40 else text[:39] + "…"
        if by == "message":
            name = next((text for text in words_of_span if text not in _TURNS), words_of_span[0])
        numbered = chain([name], (f"{name} {n}" for n in count(2)))  # of a repeated word
        spans[next(each for each in numbered if each not in spans)] = span
    return spans
