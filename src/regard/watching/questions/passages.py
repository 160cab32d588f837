"""The pictures of a record. Of a long text they show a passage, and say what goes to the rest of the text."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.drawing import Picture, flow, grid, landscape, lines, matrix
from regard.drawing.attention_lines import HeadLayer, head_lines
from regard.drawing.maps import landmarks
from regard.drawing.picture import Later
from regard.drawing.terminal import percent, visible
from regard.errors import InputError, TooLargeError
from regard.maps import MapEntry, MatrixFeed
from regard.support import Float, one_of, progress, some_of, threads
from regard.watching.questions.looks import SMALLEST, key_side, looks, passed_on, query_side, weights_of_spans
from regard.watching.questions.sinks import Sinks, named, resting
from regard.watching.record.entries import Entry, mean_over_heads
from regard.watching.record.tokens import Place, Tokens, Word

KINDS = ("lines", "heads", "matrix", "grid", "flow", "map")
_WORDS = 200  # on a side, at most; a longer text is cropped
_AROUND = 20  # words before and after the word that a crop is about
_FEW = 64  # words on a side of a matrix that is shown as a whole
_BINS, _THUMBNAIL = 192, 64  # on a side, of a map and of each matrix in a grid


@dataclass(frozen=True)
class Passage:
    """Some words in a row of a text, the words among them that stand out, and why the passage was chosen."""

    side: Tokens
    words: tuple[Word, ...]
    picked: tuple[int, ...] = ()  # places among the words
    why: str = ""

    @classmethod
    def of(
        cls, side: Tokens, word: Place | None, around: Place | None, *, first: bool = False, whole: int = _WORDS
    ) -> Passage:
        """Return the passage around a place or, in a text of more than `whole` words, around the word.

        All occurrences of the word stand out that are in a passage chosen by `around` or in a short text; in a crop
        around the word itself, or with `first`, only the first one.
        """
        centre = word if around is None else around
        if around is None and len(side.words) <= (_WORDS if word is None else whole):
            start, stop = 0, len(side.words)
        elif centre is None:
            start, stop = 0, 2 * _AROUND + 1
        else:
            start, stop = _places(side, side.find_all(centre)[0])
            if not isinstance(around, range):
                start, stop = max(start - _AROUND, 0), stop + _AROUND
        if stop - start > _WORDS:
            raise TooLargeError(
                f"{stop - start:,} words are too many to be drawn one by one (at most {_WORDS}). Choose fewer, draw a "
                "map or a grid, or ask record.spans(…) for passages."
            )
        passage = cls(side, tuple(side.words[start:stop]))
        if centre is None:
            why = "This is the beginning of the text: name a word to see the passage around it."
            return replace(passage, why=why if passage.cropped else "")
        if word is None:
            return replace(passage, why=_occurrence(side, centre, side.find_all(centre)[0]))
        if isinstance(word, str) and word in passage.names and not side.has(word):  # "dog 2", as a picture has it
            return replace(passage, picked=(passage.names.index(word),))
        matches = [match for match in side.find_all(word) if match.start in passage.tokens]
        if not matches:
            raise InputError(f'"{word}" is not in this passage: {" ".join(each.text for each in passage.words)}.')
        first = first or (passage.cropped and around is None)
        places = [n - start for match in matches[: 1 if first else None] for n in range(*_places(side, match))]
        picked = tuple(n for n in places if n < len(passage.words))
        return replace(passage, picked=picked, why=_occurrence(side, word, matches[0]) if first else "")

    @property
    def tokens(self) -> range:
        """The tokens from the first to the last."""
        return range(self.words[0].start, self.words[-1].stop)

    @property
    def before(self) -> range:
        """The tokens before it."""
        return range(self.tokens.start)

    @property
    def after(self) -> range:
        """The tokens after it."""
        return range(self.tokens.stop, len(self.side))

    @property
    def cropped(self) -> bool:
        """Whether it is less than the whole text."""
        return bool(self.before or self.after)

    @property
    def names(self) -> tuple[str, ...]:
        """The words; "dog 2" is the second "dog"."""
        count: Counter[str] = Counter()
        names = []
        for word in self.words:
            count[word.text] += 1
            names.append(word.text if count[word.text] == 1 else f"{word.text} {count[word.text]}")
        return tuple(names)

    def note(self) -> str:
        """Say which part of the text it is, and which occurrence of a word."""
        where = f"Tokens {self.tokens.start:,} to {self.tokens.stop - 1:,} of {len(self.side):,}."
        return " ".join(filter(None, (where if self.cropped else "", self.why)))


def _places(side: Tokens, tokens: range) -> tuple[int, int]:
    """Return the words that these tokens touch, as places start:stop among all words."""
    start = bisect_right(side.words, tokens.start, key=lambda word: word.start) - 1
    return start, bisect_left(side.words, tokens.stop, key=lambda word: word.start)


def _occurrence(side: Tokens, place: Place, match: range) -> str:
    """Say which of several occurrences of a place is shown."""
    matches = side.find_all(place)
    if len(matches) == 1:
        return ""
    number = matches.index(match) + 1
    about = f'This is occurrence {number:,} of {len(matches):,} of "{visible(str(place), 60)}"'
    if number == len(matches):
        return f"{about}."
    start, stop = _places(side, matches[number])
    parts = side.words[max(start - 2, 0) : start], side.words[start:stop], side.words[stop : stop + 2]
    left, marked, right = (" ".join(word.text for word in part) for part in parts)
    return f'{about}; the next is "{visible(" ".join(filter(None, (left, f"[{marked}]", right))), 60)}".'


# Lines and matrices


@dataclass(frozen=True, eq=False)
class Crop:
    """What the words of one passage give to the words of another, or of the same, and how much goes elsewhere."""

    rows: Passage
    columns: Passage
    key_names: tuple[str, ...]  # the words of the columns that are shown, without sinks that are set aside
    weights: Float[Tensor, "rows shown"]  # with sinks set aside, shares of the rest
    elsewhere: Float[Tensor, " rows"]
    rested: Float[Tensor, " rows"]  # the share that rests on sinks

    def note(self) -> str:
        """Say what is not in the picture."""
        notes, picked = [self.rows.note()], list(self.rows.picked)
        if self.columns.cropped:
            notes += [f"Looked at: {self.columns.note()}"] if self.columns.side is not self.rows.side else []
            share = percent(float((self.elsewhere[picked] if picked else self.elsewhere).mean()))
            whose = f'Of what "{visible(self.rows.words[picked[0]].text)}" gives,' if len(picked) == 1 else "On average"
            notes.append(f"{whose} {share} goes to words outside this passage.")
        return " ".join(filter(None, notes))


def by_word(
    entries: Sequence[Entry], word: Place | None, around: Place | None, sinks: Sinks = None, whole: int = _WORDS
) -> Crop:
    """Return the mean over all heads, word by word, with `sinks` set aside; of a long text, a passage."""
    rows = Passage.of(query_side(entries[0]), word, around, whole=whole)
    columns = replace(rows, picked=(), why="")
    keys = key_side(entries[0])
    if keys.pieces != rows.side.pieces:
        columns = Passage.of(keys, None, None)
        if columns.cropped:  # then the part that this passage, or its word, looks at most
            looking = [rows.words[n].tokens for n in rows.picked] or [rows.tokens]
            columns = replace(Passage.of(keys, looks(entries, looking[0], sinks)[0].position, None), picked=())
    words = [word.tokens for word in columns.words]
    spans = words + [rest for rest in (columns.before, columns.after) if rest]
    weights, rested = _without_sinks(entries, [word.tokens for word in rows.words], spans, sinks)
    weights = weights / (1 - rested).clamp_min(SMALLEST)[:, None]
    left = _beside_sinks(words, sinks)
    names = tuple(columns.names[n] for n in left)
    return Crop(rows, columns, names, weights[:, left], weights[:, len(words) :].sum(-1), rested)


def _without_sinks(
    entries: Sequence[Entry], rows: Sequence[range], columns: Sequence[range], sinks: Sinks
) -> tuple[Float[Tensor, "rows columns"], Float[Tensor, " rows"]]:
    """Return what the spans of the rows give to the spans of the columns apart from sinks, and to the sinks."""
    weights = mean_over_heads(entries, lambda entry: weights_of_spans(entry, rows, columns))
    of_tokens = resting(entries, sinks)
    rested = torch.stack([of_tokens[span.start : span.stop].mean(0) for span in rows])
    for sink, to_sink in zip(sinks or (), rested.T, strict=False):  # the last column is for sinks that are no tokens
        home = next(n for n, span in enumerate(columns) if sink in span)
        weights[:, home] = (weights[:, home] - to_sink).clamp_min(0)
    return weights, rested.sum(-1)


def _beside_sinks(spans: Sequence[range], sinks: Sinks) -> list[int]:
    """Return the places of spans that have a token which is no sink."""
    return [n for n, span in enumerate(spans) if not set(span) <= set(sinks or ())]


# Flows


def flow_layers(
    entries: Sequence[Entry], passage: Passage, sinks: Sinks = None
) -> tuple[tuple[str, ...], list[Float[Tensor, "words words"]], int, float | None]:
    """Return the words of a flow, its layers, the place where it starts, and the share that rests on `sinks`.

    What lies before the passage, and after it, is one word each. The row of such a word is a mean over its tokens,
    weighted by the share that has reached each of them: then the shares of the other words are those of the whole text.
    What is given to sinks stays with the word that gives it, as in `rollout`; None: a sink itself is followed.
    """
    before, after = passage.before, passage.after
    words = [word.tokens for word in passage.words]
    nodes = [*filter(None, (before,)), *words, *filter(None, (after,))]

    first, last = _places(passage.side, passage.tokens)
    names = [f"… {first:,} before"] if before else []
    names += [*passage.names, *([f"… {len(passage.side.words) - last:,} after"] if after else [])]
    start = words[passage.picked[-1]]  # the last word of several
    if set(start) <= set(sinks or ()):
        sinks = None
    share = torch.zeros(len(passage.side))
    share[start.start : start.stop] = 1 / len(start)
    layers: list[Tensor] = []
    rested: list[Tensor] = []
    for entry in reversed(entries):
        stayed = share * resting([entry], sinks).sum(-1)
        following, rows = stayed, []
        for part in filter(None, (before, passage.tokens, after)):
            inside = slice(part.start, part.stop)
            passed = torch.zeros(entry.shape[3])  # to each key, of what has reached these tokens
            if share[inside].any():
                passed = passed_on(entry.matrix.part[:, :, inside], share[inside])
                passed[list(sinks or ())] = 0
            following = following + passed
            if part == passage.tokens:
                weights, stays = _without_sinks([entry], words, nodes, sinks)
                weights[:, nodes.index(words[0]) :][:, : len(words)].diagonal().add_(stays)
                rows.append(weights)
                rested.append(stays)
            else:
                row = torch.stack([passed[node.start : node.stop].sum() for node in nodes])
                row[nodes.index(part)] += stayed[inside].sum()
                rows.append(row[None] / (float(share[inside].sum()) or 1.0))
        layers.insert(0, torch.cat(rows))
        share = following
        for span in words:  # the tokens of a word count as one
            share[span.start : span.stop] = share[span.start : span.stop].mean()
    left = _beside_sinks(nodes, sinks)
    resting_share = None if sinks is None else float(torch.cat(rested).mean())
    kept = [layer[left][:, left] for layer in layers]
    return tuple(names[n] for n in left), kept, left.index(nodes.index(start)), resting_share


# The pictures


def picture(
    entries: Sequence[Entry],
    kind: str,
    word: Place | None,
    title: str,
    unseen: Collection[str] = (),
    around: Place | None = None,
    sinks: Sinks = None,
) -> Picture:
    """Answer `Record.picture`: entries of one kind and shape, the mean over their heads; "heads": any entries.

    Lines and flows set the `sinks` aside; a matrix, a grid and a map show all there is.
    """
    one_of("picture", kind, KINDS)
    if kind in ("grid", "map") and (word is not None or around is not None):
        name, place = ("word", word) if word is not None else ("around", around)
        raise InputError(f"a {kind} shows the whole text, lines, matrix and flow a word in it. Got {name} = {place!r}.")
    if kind == "heads":
        drawn = _heads(entries, word if word is not None else around, title)
    elif kind == "lines":
        drawn = _lines(by_word(entries, word, around, sinks), entries, title, sinks)
    elif kind == "matrix":
        crop = by_word(entries, word, around, whole=_FEW)
        note = replace(crop, rows=replace(crop.rows, picked=())).note()  # no row stands out
        caption = _caption(entries, note)
        drawn = matrix(_numbers(crop.weights), crop.rows.names, crop.key_names, title=title, caption=caption)
    elif kind == "flow":
        drawn = _flow(entries, word, around, title, sinks)
    else:
        drawn = (_grid if kind == "grid" else _map)(entries, title)
    return replace(drawn, caption=f"{drawn.caption} Not seen: {some_of(unseen)}.".strip()) if unseen else drawn


def _lines(crop: Crop, entries: Sequence[Entry], title: str, sinks: Sinks) -> Picture:
    caption, picked = _caption(entries, crop.note()), crop.rows.picked
    if names := _sink_names(entries, sinks):
        rested = crop.rested[list(picked)] if picked else crop.rested
        whose = f' of "{crop.rows.names[picked[0]]}"' if picked else ""
        caption += f" {percent(float(rested.mean()))}{whose} rests on {names}; lines are shares of the rest."
    weights = _numbers(crop.weights)
    return lines(weights, crop.rows.names, crop.key_names, pick=picked or None, title=title, caption=caption)


def _heads(entries: Sequence[Entry], word: Place | None, title: str) -> Picture:
    """Every head of every layer on a page; elsewhere, the first heads of the first layer, and some tokens."""
    first = entries[0]
    start = None if word is None else query_side(first).find_all(word)[0].start
    layers = [_head_layer(entry) for entry in entries]
    sides = [range(max((start or 0) - _AROUND, 0), size)[: 2 * _AROUND] for size in first.shape[2:]]
    (rows, columns), shown = sides, first.heads[:8]
    weights = np.zeros((shown[-1] + 1, len(rows), len(columns)))  # the legend counts as the model does
    weights[shown[0] :] = _numbers(first.matrix[0, : len(shown), rows.start : rows.stop, columns.start : columns.stop])
    numbers = f"heads {shown[0]} to {shown[-1]}" if len(shown) > 1 else f"head {shown[0]}"
    count = sum(entry.shape[1] for entry in entries)
    caption = (
        f"{first.kind}, layer {first.layer}, {numbers}. Tokens {rows[0]:,} to {rows[-1]:,} of {first.shape[2]:,}. In a "
        f"notebook and as .html: {count} head{'s' * (count > 1)}, and the whole text."
    )
    words = (layers[0].rows[rows.start : rows.stop], layers[0].columns[columns.start : columns.stop])
    pick = None if start is None else [start - rows.start]
    plain = lines(weights, *words, pick=pick, heads=list(shown), title=title, caption=caption)
    return head_lines(plain, layers, start)


def _head_layer(entry: Entry) -> HeadLayer:
    def top(k: int) -> tuple[NDArray[Any], NDArray[Any]]:
        with threads(math.prod(entry.shape[1:]) * 64):
            weights, keys = entry.top(k)
        return _numbers(weights[0]), keys[0].cpu().numpy()

    rows, columns = (
        tuple(map(str, range(size)) if side is None or (texts := side[0].texts()) is None else texts)
        for side, size in zip((entry.tokens, entry.key_tokens), entry.shape[2:], strict=True)
    )
    return HeadLayer(entry.kind, entry.layer, entry.heads, rows, columns, top)


def _flow(entries: Sequence[Entry], word: Place | None, around: Place | None, title: str, sinks: Sinks) -> Picture:
    if entries[0].kind == "cross":
        raise InputError('a flow follows words through layers that look at themselves. Choose kind = "encoder".')
    if entries[0].shape[2] != entries[0].shape[3]:
        raise InputError(f"a flow follows words that look at each other. Got {entries[0]!r}.")
    side = query_side(entries[0])
    if word is None:
        word = side.words[-1].tokens if around is None else around
    passage = Passage.of(side, word, around, first=True)
    names, layers, start, rested = flow_layers(entries, passage, sinks)
    notes = ["The mean over the heads of each layer, residuals left out. Each layer stands for what it gives."]
    if rested is not None and (aside := _sink_names(entries, sinks)):
        notes.append(f"{percent(rested)} rests on {aside} and stays where it is.")
        if entries[0].kind == "decoder":
            notes.append("All else moves to the left only: in a deep model it gathers at the first words.")
    notes.append(passage.note())
    notes += ["“…” stands for all words before the passage, or after it."] if passage.cropped else []
    caption = " ".join(filter(None, notes))
    return flow([_numbers(layer) for layer in layers], names, start, title=title, caption=caption)


def _grid(entries: Sequence[Entry], title: str) -> Picture:
    layers = _pooled(entries, _THUMBNAIL)
    queries, keys = entries[0].shape[2:]
    layered = f"{len(entries)} layer{'s' * (len(entries) > 1)}"
    note = f"{layered}, {sum(map(len, layers))} heads; {queries:,} × {keys:,} tokens."
    numbers = [[(entry.layer, head) for head in entry.heads] for entry in entries]
    return grid(layers, numbers=numbers, title=title, caption=note)


def _map(entries: Sequence[Entry], title: str) -> Picture:
    first, (queries, keys) = entries[0], entries[0].shape[2:]

    def compute() -> NDArray[Any]:
        layers = _pooled(entries, _BINS)
        return np.asarray(sum(layer.sum(0) for layer in layers) / sum(map(len, layers)))

    words = query_side(first).words if first.tokens is not None else ()
    marks = landmarks([word.text for word in words], [word.start for word in words])
    kept = any(entry.attention is None for entry in entries)  # only a pool, perhaps of another size
    shape = min(_BINS, queries), min(_BINS, keys)
    pool = compute() if kept else Later({"pool": shape}, lambda: {"pool": compute()})
    drawn = landscape(pool, (queries, keys), landmarks=marks, title=title, caption=_caption(entries))
    if kept:
        return drawn
    maps = [MapEntry(entry.matrix.part[0], entry.heads, entry.name, entry.kind, entry.layer) for entry in entries]
    rows, columns = (None if side is None else side[0].texts() for side in (first.tokens, first.key_tokens))
    return replace(drawn, feed=MatrixFeed(maps, rows, columns, title=title))


def _sink_names(entries: Sequence[Entry], sinks: Sinks) -> str:
    """Name the sinks that are set aside; "" where there is none."""
    if sinks is None:
        return ""
    of_model = float(resting(entries, ()).mean())
    aside = named(sinks, [0.0] * len(sinks) + [of_model], key_side(entries[0]))
    return " and ".join(each.name for each in aside)


def _pooled(entries: Sequence[Entry], bins: int) -> list[NDArray[Any]]:
    """Return the heads of each layer in bins × bins or, where only a pool was kept, in its own size."""
    layers = []
    with progress("reading the attention", total=len(entries)) as advance:
        for entry in entries:
            if entry.attention is None:
                pool = entry.pool()[0]  # raises where it was not kept
            else:
                width = 1 if entry.call is None else entry.call.query.shape[-1]
                with threads(math.prod(entry.shape[1:]) * width):
                    pool = entry.attention.part[0].pool(bins, bins)
            layers.append(_numbers(pool))
            advance(1)
    return layers


def _caption(entries: Sequence[Entry], more: str = "") -> str:
    heads = sum(entry.shape[1] for entry in entries)
    layers = f"layer {entries[0].layer}" if len(entries) == 1 else f"{len(entries)} layers"
    mean = f"head {entries[0].heads[0]}." if heads == 1 else f"the mean of {heads} heads."
    return f"{entries[0].kind}, {layers}, {mean} {more}".strip()


def _numbers(tensor: Tensor) -> NDArray[Any]:
    return np.asarray(tensor.detach().double().cpu().numpy())
