"""A passage of a text, for pictures that show words one by one: its words, what they give to each other, and what goes
to the rest of the text.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.drawing import flow, grid, landscape, lines, matrix
from regard.drawing.maps import Pool, landmarks
from regard.drawing.terminal import percent, visible
from regard.errors import InputError, TooLargeError
from regard.maps import MapEntry, MatrixFeed
from regard.support import Float, one_of, progress, some_of, threads
from regard.watching.questions.looks import SMALLEST, key_side, looks, query_side, weights_of_spans
from regard.watching.questions.sinks import Sinks, named, to_own, to_tokens
from regard.watching.record.entries import Entry, mean_over_heads
from regard.watching.record.tokens import Place, Tokens, Word

if TYPE_CHECKING:
    from regard.drawing import Picture

__all__ = ["KINDS", "Crop", "Passage", "by_word", "flow_layers", "map_feed", "picture"]

_WORDS = 200  # on a side, at most; a longer text is cropped
_AROUND = 20  # words before and after the one that a crop is about


@dataclass(frozen=True)
class Passage:
    """Some words in a row of a text, those of them that stand out, and why it was chosen."""

    side: Tokens
    words: tuple[Word, ...]
    picked: tuple[int, ...] = ()  # places among the words
    why: str = ""

    @classmethod
    def of(
        cls, side: Tokens, word: Place | None, around: Place | None, *, first: bool = False, whole: int = _WORDS
    ) -> Passage:
        """The passage around a place or, in a long text, around the word; one of up to `whole` words is shown as such.

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
            return passage._explained(centre, side.find_all(centre)[0])
        return passage._picking(word, first or (passage.cropped and around is None))

    def _picking(self, word: Place, first: bool) -> Passage:
        """With this word standing out, in all its occurrences here or in the first one."""
        if isinstance(word, str) and word in self.names and not self.side.has(word):  # "dog 2", as a picture has it
            return replace(self, picked=(self.names.index(word),))
        found = [match for match in self.side.find_all(word) if match.start in self.tokens]
        if not found:
            raise InputError(f'"{word}" is not in this passage: {" ".join(each.text for each in self.words)}.')
        offset, _ = _places(self.side, self.tokens)
        places = [range(*_places(self.side, match)) for match in (found[:1] if first else found)]
        picked = tuple(n - offset for match in places for n in match if n - offset < len(self.words))
        chosen = replace(self, picked=picked)
        return chosen._explained(word, found[0]) if first else chosen

    def _explained(self, place: Place, shown: range) -> Passage:
        """With a note if the place is one of several."""
        matches = self.side.find_all(place)
        if len(matches) == 1:
            return self
        number, words = matches.index(shown) + 1, self.side.words
        start, stop = _places(self.side, matches[number % len(matches)])
        parts = words[max(start - 2, 0) : start], words[start:stop], words[stop : stop + 2]
        left, marked, right = (" ".join(word.text for word in part) for part in parts)
        other = visible(" ".join(filter(None, (left, f"[{marked}]", right))), 60)
        about = f'This is occurrence {number:,} of {len(matches):,} of "{visible(str(place), 60)}"'
        return replace(self, why=f'{about}; the next is "{other}".' if number < len(matches) else f"{about}.")

    @property
    def tokens(self) -> range:
        """From its first token to its last."""
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
        """Its words; "dog 2" is the second "dog" in it."""
        count: Counter[str] = Counter()
        names = []
        for word in self.words:
            count[word.text] += 1
            names.append(word.text if count[word.text] == 1 else f"{word.text} {count[word.text]}")
        return tuple(names)

    def note(self) -> str:
        """Which part of the text it is, and which occurrence of a word."""
        where = f"Tokens {self.tokens.start:,} to {self.tokens.stop - 1:,} of {len(self.side):,}."
        return " ".join(filter(None, (where if self.cropped else "", self.why)))


def _places(side: Tokens, tokens: range) -> tuple[int, int]:
    """The words that these tokens touch, as places start:stop among all words."""
    start = bisect_right(side.words, tokens.start, key=lambda word: word.start) - 1
    return start, bisect_left(side.words, tokens.stop, key=lambda word: word.start)


# Lines and matrices


@dataclass(frozen=True, eq=False)
class Crop:
    """What the words of one passage give to those of another, or of the same, and how much goes elsewhere."""

    rows: Passage
    columns: Passage
    left: tuple[int, ...]  # which words of the columns are shown: sinks that are set aside are not
    weights: Float[Tensor, "rows left"]  # with sinks set aside, shares of the rest
    elsewhere: Float[Tensor, " rows"]
    rested: Float[Tensor, " rows"]  # what is given to the sinks, as a share of all

    @property
    def key_names(self) -> tuple[str, ...]:
        """The words that are looked at."""
        return tuple(self.columns.names[n] for n in self.left)

    def note(self) -> str:
        """What is not in the picture."""
        notes = [self.rows.note()]
        if self.columns.side is not self.rows.side and self.columns.cropped:
            notes.append(f"Looked at: {self.columns.note()}")
        if self.columns.cropped:
            picked = list(self.rows.picked)
            share = percent(float((self.elsewhere[picked] if picked else self.elsewhere).mean()))
            whose = f'Of what "{visible(self.rows.words[picked[0]].text)}" gives,' if len(picked) == 1 else "On average"
            notes.append(f"{whose} {share} goes to words outside this passage.")
        return " ".join(filter(None, notes))


def by_word(
    entries: Sequence[Entry], word: Place | None, around: Place | None, sinks: Sinks = None, whole: int = _WORDS
) -> Crop:
    """The mean over all heads, word by word, in shares of what does not rest on `sinks`; of a long text, a passage."""
    rows = Passage.of(query_side(entries[0]), word, around, whole=whole)
    columns = replace(rows, picked=(), why="")
    other = key_side(entries[0])
    if other.pieces != rows.side.pieces:
        columns = Passage.of(other, None, None)
        if columns.cropped:  # then the part that this passage, or its word, looks at most
            looking = [rows.words[n].tokens for n in rows.picked] or [rows.tokens]
            most = looks(entries, looking[0], sinks)[0].position
            columns = replace(Passage.of(other, most, None), picked=())
    spans = [each.tokens for each in columns.words] + [rest for rest in (columns.before, columns.after) if rest]
    own = [each.tokens for each in rows.words]
    weights, rested = _without_sinks(entries, own, spans, sinks)
    weights, count = weights / (1 - rested).clamp_min(SMALLEST)[:, None], len(columns.words)
    left = _beside_sinks(spans[:count], sinks)
    return Crop(rows, columns, tuple(left), weights[:, left], weights[:, count:].sum(-1), rested)


def _without_sinks(
    entries: Sequence[Entry], rows: Sequence[range], columns: Sequence[range], sinks: Sinks
) -> tuple[Float[Tensor, "rows columns"], Float[Tensor, " rows"]]:
    """What the spans of the rows give to those of the columns apart from sinks, and what each gives to the sinks."""
    weights = mean_over_heads(entries, lambda entry: weights_of_spans(entry, rows, columns))
    if sinks is None:
        return weights, torch.zeros(len(rows))
    own = to_own(entries)
    rested = torch.stack([own[span.start : span.stop].mean() for span in rows])
    if sinks:
        tokens = [range(sink, sink + 1) for sink in sinks]
        given = mean_over_heads(entries, lambda entry: weights_of_spans(entry, rows, tokens))
        homes = [next(n for n, span in enumerate(columns) if sink in span) for sink in sinks]
        weights = weights.index_add(1, torch.tensor(homes), -given).clamp_min(0)
        rested = rested + given.sum(-1)
    return weights, rested


def _beside_sinks(spans: Sequence[range], sinks: Sinks) -> list[int]:
    """The places of spans that have a token which is no sink."""
    return [n for n, span in enumerate(spans) if not set(span) <= set(sinks or ())]


# Flows


def flow_layers(
    entries: Sequence[Entry], passage: Passage, sinks: Sinks = None
) -> tuple[tuple[str, ...], list[Float[Tensor, "words words"]], int, float | None]:
    """The words of a flow, its layers, the place of the word that it starts from, and the share that rests on `sinks`.

    What lies before the passage, and after it, is one word each. The row of such a word is a mean over its tokens,
    weighted by the share that has reached each of them: then the shares of the other words are those of the whole text.
    What is given to sinks stays with the word that gives it, as in `rollout`; None: a sink itself is followed.
    """
    before, after = passage.before, passage.after
    words = [word.tokens for word in passage.words]
    nodes = [*([before] if before else []), *words, *([after] if after else [])]
    names = [
        *([f"… {_count(passage.side, before):,} before"] if before else []),
        *passage.names,
        *([f"… {_count(passage.side, after):,} after"] if after else []),
    ]
    start = words[passage.picked[-1]]  # the last word, if it is several
    if set(start) <= set(sinks or ()):
        sinks = None
    share = torch.zeros(len(passage.side))
    share[start.start : start.stop] = 1 / len(start)
    layers: list[Tensor] = []
    rested: list[Tensor] = []
    for entry in reversed(entries):
        resting = torch.zeros(len(passage.side))
        if sinks is not None:
            resting = to_tokens([entry], sinks).sum(-1) + to_own([entry])
        following, rows = share * resting, []
        for part in filter(None, (before, passage.tokens, after)):
            given = _passed_on(entry, share, part)
            given[list(sinks or ())] = 0
            following += given
            if part == passage.tokens:
                weights, stays = _without_sinks([entry], words, nodes, sinks)
                weights[:, nodes.index(words[0]) :][:, : len(words)].diagonal().add_(stays)
                rows.append(weights)
                rested.append(stays)
            else:
                inside = slice(part.start, part.stop)
                row = torch.stack([given[node.start : node.stop].sum() for node in nodes])
                row[nodes.index(part)] += (share * resting)[inside].sum()
                rows.append(row[None] / (float(share[inside].sum()) or 1.0))
        layers.insert(0, torch.cat(rows))
        share = following
        for span in words:  # the tokens of a word count as one
            share[span.start : span.stop] = share[span.start : span.stop].mean()
    left = _beside_sinks(nodes, sinks)
    resting_share = None if sinks is None else float(torch.cat(rested).mean())
    kept = [layer[left][:, left] for layer in layers]
    return tuple(names[n] for n in left), kept, left.index(nodes.index(start)), resting_share


def _passed_on(entry: Entry, share: Float[Tensor, " queries"], rows: range) -> Float[Tensor, " keys"]:
    """What these tokens pass on to each key of what has reached them, the mean over heads."""
    part = slice(rows.start, rows.stop)
    if not share[part].any():
        return torch.zeros(entry.shape[3])
    matrix = entry.matrix.part[:, :, part]
    x = share[part].to(device=matrix.device, dtype=matrix.dtype)[:, None]
    return (matrix.mT @ x)[0, ..., 0].float().mean(0).cpu()


def _count(side: Tokens, tokens: range) -> int:
    """How many words these tokens are."""
    start, stop = _places(side, tokens)
    return stop - start


KINDS = ("lines", "matrix", "grid", "flow", "map")
_NAMED = 64  # words on a side of a matrix up to which one finds one's own
_BINS, _THUMBNAIL = 192, 64  # on a side, of a map and of each matrix in a grid


def picture(
    entries: Sequence[Entry],
    kind: str,
    word: Place | None,
    title: str,
    unseen: Collection[str] = (),
    around: Place | None = None,
    sinks: Sinks = None,
) -> Picture:
    """What `Record.picture` returns: of entries of one kind and shape, the mean over their heads.

    Lines and flows set the `sinks` aside; a matrix, a grid and a map show all there is.
    """
    one_of("picture", kind, KINDS)
    if kind in ("grid", "map") and (word is not None or around is not None):
        name, place = ("word", word) if word is not None else ("around", around)
        raise InputError(f"a {kind} shows the whole text, lines, matrix and flow a word in it. Got {name} = {place!r}.")
    if kind in ("grid", "map"):
        drawn = (_grid if kind == "grid" else _map)(entries, title)
    else:
        drawn = {"lines": _lines, "matrix": _matrix, "flow": _flow}[kind](entries, word, around, title, sinks)
    if not unseen:
        return drawn
    return replace(drawn, caption=f"{drawn.caption} Not seen: {some_of(unseen)}.".strip())


def _lines(
    entries: Sequence[Entry], word: Place | None, around: Place | None, title: str, sinks: Sinks
) -> Picture:  # fmt: skip
    crop = by_word(entries, word, around, sinks)
    caption, picked = _caption(entries, crop.note()), crop.rows.picked
    if names := _sink_names(entries, sinks):
        rested = crop.rested[list(picked)] if picked else crop.rested
        whose = f' of "{crop.rows.names[picked[0]]}"' if picked else ""
        caption += f" {percent(float(rested.mean()))}{whose} rests on {names}; lines are shares of the rest."
    return lines(
        _numbers(crop.weights), crop.rows.names, crop.key_names, pick=picked or None, title=title, caption=caption,
    )  # fmt: skip


def _matrix(
    entries: Sequence[Entry], word: Place | None, around: Place | None, title: str, _: Sinks
) -> Picture:  # fmt: skip
    crop = by_word(entries, word, around, whole=_NAMED)
    crop = replace(crop, rows=replace(crop.rows, picked=()))  # no row stands out
    caption = _caption(entries, crop.note())
    return matrix(_numbers(crop.weights), crop.rows.names, crop.key_names, title=title, caption=caption)


def _grid(entries: Sequence[Entry], title: str) -> Picture:
    layers = _pooled(entries, _THUMBNAIL)
    queries, keys = entries[0].shape[2:]
    layered = f"{len(entries)} layer{'s' * (len(entries) > 1)}"
    note = f"{layered}, {sum(map(len, layers))} heads; {queries:,} × {keys:,} tokens."
    numbers = [[(entry.layer, head) for head in entry.heads] for entry in entries]
    return grid(layers, numbers=numbers, title=title, caption=note)


def _flow(
    entries: Sequence[Entry], word: Place | None, around: Place | None, title: str, sinks: Sinks
) -> Picture:  # fmt: skip
    if entries[0].kind == "cross":
        raise InputError('a flow follows words through layers that look at themselves. Choose kind = "encoder".')
    if entries[0].shape[2] != entries[0].shape[3]:
        raise InputError(f"a flow follows words that look at each other. Got {entries[0]!r}.")
    side = query_side(entries[0])
    if word is None:
        word = side.words[-1].tokens if around is None else around
    passage = Passage.of(side, word, around, first=True)
    names, layers, start, rested = flow_layers(entries, passage, sinks)
    note = (
        "The mean over the heads of each layer, residuals left out. Layers count from 1 here: what each of them gives."
    )
    if rested is not None and (aside := _sink_names(entries, sinks)):
        note += f" {percent(rested)} rests on {aside} and stays where it is."
        if entries[0].kind == "decoder":
            note += " All else moves to the left only: in a deep model it gathers at the first words."
    rest = "“…” stands for all words before the passage, or after it." if passage.cropped else ""
    caption = " ".join(filter(None, (note, passage.note(), rest)))
    return flow([_numbers(layer) for layer in layers], names, start, title=title, caption=caption)


def _map(entries: Sequence[Entry], title: str) -> Picture:
    feed, (queries, keys) = map_feed(entries, title), entries[0].shape[2:]

    def compute() -> NDArray[Any]:
        layers = _pooled(entries, _BINS)
        return np.asarray(sum(layer.sum(0) for layer in layers) / sum(map(len, layers)))

    # Without a feed it may be a pool that was kept, in a size of its own.
    pool = compute() if feed is None else Pool((min(_BINS, queries), min(_BINS, keys)), compute)
    words = query_side(entries[0]).words if entries[0].tokens is not None else ()
    marks = landmarks([word.text for word in words], [word.start for word in words])
    drawn = landscape(pool, (queries, keys), landmarks=marks, title=title, caption=_caption(entries))
    return replace(drawn, feed=feed)


def map_feed(entries: Sequence[Entry], title: str = "", note: str = "") -> MatrixFeed | None:
    """What a map of entries of one kind and shape is drawn from; None where only reductions were kept."""
    if any(entry.attention is None for entry in entries):
        return None
    first = entries[0]
    rows = None if first.tokens is None else first.tokens[0].texts()
    columns = None if first.key_tokens is None else first.key_tokens[0].texts()
    maps = [MapEntry(entry.matrix.part[0], entry.heads, entry.name, entry.kind, entry.layer) for entry in entries]
    return MatrixFeed(maps, rows, columns, title=title, note=note)


def _sink_names(entries: Sequence[Entry], sinks: Sinks) -> str:
    """The sinks that are set aside, in words; nothing where there is none."""
    if sinks is None:
        return ""
    own = float(to_own(entries).mean())
    return " and ".join(each.name for each in named(sinks, [0.0] * len(sinks), key_side(entries[0]), own))


def _pooled(entries: Sequence[Entry], bins: int) -> list[NDArray[Any]]:
    """Of each layer, the heads of one sequence in bins × bins: one sweep for all heads, and none over the others."""
    layers = []
    with progress("reading the attention", total=len(entries)) as advance:
        for entry in entries:
            layers.append(_numbers(_pool(entry, bins)))
            advance(1)
    return layers


def _pool(entry: Entry, bins: int) -> Float[Tensor, "heads rows columns"]:
    """The matrix in bins × bins or, where only a pool was kept, that one in its own size."""
    if entry.reductions is not None and "pool" in entry.reductions:
        return entry.reductions["pool"][0]
    if entry.attention is None:
        return entry.pool(bins, bins)[0]  # raises: it was not kept
    _, heads, queries, keys = entry.shape
    width = 1 if entry.call is None else entry.call.query.shape[-1]
    with threads(heads * queries * keys * width):
        return entry.attention.part[0].pool(bins, bins)


def _caption(entries: Sequence[Entry], more: str = "") -> str:
    heads = sum(entry.shape[1] for entry in entries)
    layers = f"layer {entries[0].layer}" if len(entries) == 1 else f"{len(entries)} layers"
    one = heads == 1
    mean = f"head {entries[0].heads[0]}." if one else f"the mean of {heads} heads."
    return f"{entries[0].kind}, {layers}, {mean} {more}".strip()


def _numbers(tensor: Tensor) -> NDArray[Any]:
    return np.asarray(tensor.detach().double().cpu().numpy())
