"""`Reading`: what a model did with one text, as the page asks for it; `Readings`: the readings that are kept."""

from __future__ import annotations

import math
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.drawing.viewer import find_text, page, readable
from regard.errors import InputError, OutOfRangeError
from regard.maps import MapEntry, MatrixFeed
from regard.maps.levels import FINEST
from regard.page.inside import Inside, matrices, steps
from regard.scores import causal, documents
from regard.support import one_of
from regard.watching import Entry, effects, watch
from regard.watching.questions.atlas import Role
from regard.watching.questions.looks import SMALLEST, heads_between, key_side
from regard.watching.questions.sinks import find_sinks
from regard.watching.questions.why import spelt
from regard.watching.record.entries import shown
from regard.watching.record.tokens import Tokens

__all__ = ["DENSE", "Part", "Reading", "Readings", "joined", "numbered"]

DENSE = 1 << 21  # weights in one answer
_LISTED = 4096  # tokens in one answer
_THUMBNAIL, _SMALL = 32, 1 << 20  # bins on a side; weights of a head that are pooled at once
_BINS = 1 << 18  # bins of a tile
_LARGEST = 1 << 38  # multiply-adds of a tile: some ten seconds
_FILE = 10_000_000  # bytes of a saved map
_TITLE, _TERMS = 60, 8  # characters; terms of a sum in an answer
_APART, _LETTERS = 2, (2, 3)  # of a telling pair: how far the words are apart, and their letters, at least

_Heads = Sequence[tuple[int, int]]  # (number of the entry, head)
_Span = tuple[int, int]


class Reading:
    """The attention of a model on a text: its sides (the texts of the queries and of the keys) and its entries."""

    def __init__(
        self,
        entries: Sequence[Entry],
        *,
        text: str,
        roles: Sequence[Sequence[Role]],
        written: str | None = None,
        confidence: float | None = None,
        note: str = "",
        more: Mapping[str, Any] | None = None,
        inside: Inside | None = None,
    ):
        self.entries, self.roles = tuple(entries), roles
        self.text, self.written, self.confidence, self.note = text, written, confidence, note
        self.more, self.inside = dict(more or {}), inside
        self.took = 0.0  # seconds until it was there
        self.sides, self.places = _sides(self.entries)
        self._texts = {name: readable(side) for name, side in self.sides.items()}
        self._feeds: dict[int, MatrixFeed] = {}  # by the number of the first entry
        self._lock = threading.Lock()

    def about(self) -> dict[str, Any]:
        """Everything except weights, for JSON."""
        entries = [
            {
                "name": entry.name, "kind": entry.kind, "layer": entry.layer, "heads": list(entry.heads),
                "queries": entry.shape[2], "keys": entry.shape[3], "rows": rows, "columns": columns,
                "roles": [role.name for role in roles], "weights": [round(role.weight, 4) for role in roles],
                "sinks": self._sinks[self._alike(n)[0]],
            }
            for n, (entry, (rows, columns), roles) in enumerate(
                zip(self.entries, self.places, self.roles, strict=True)
            )
        ]  # fmt: skip
        sides = {"source": None, "target": None} | {name: self._describe(name) for name in self.sides}
        return {
            "text": self.text, "written": self.written, "confidence": self.confidence, "note": self.note,
            "sides": sides, "entries": entries, "took": round(self.took, 4), "telling": self._telling,
            "inside": self.inside is not None,
        } | self.more  # fmt: skip

    def _describe(self, name: str) -> dict[str, Any]:
        side = self.sides[name]
        few = len(side) <= _LISTED
        words = [[word.text, word.start, word.stop] for word in side.words] if few and side.named else None
        special = [position for position in range(len(side)) if side.is_special(position)] if few else []
        return {"count": len(side), "tokens": self._texts[name] if few else [], "words": words, "special": special}

    def _alike(self, index: int) -> list[int]:
        """The numbers of all entries of the same kind and shape."""
        entry = self.entry(index)
        return [n for n, e in enumerate(self.entries) if (e.kind, e.shape[2:]) == (entry.kind, entry.shape[2:])]

    @cached_property
    def _sinks(self) -> dict[int, list[int]]:
        """The keys that answers set aside, by the number of the first of the entries that are alike."""
        alike = {numbers[0]: numbers for numbers in map(self._alike, range(len(self.entries)))}
        return {
            first: list(find_sinks([self.entries[n] for n in numbers], key_side(self.entries[first])))
            for first, numbers in alike.items()
        }

    @cached_property
    @torch.no_grad()
    def _telling(self) -> dict[str, Any] | None:
        """The pair of words that stands out most, and its head; None of a long text.

        Of all heads of the first kind, and all words at least two apart: the weight that is furthest above the mean of
        what the other words give to the same word in the same head. If there are others, words of one letter are passed
        over, and words of two letters as what is looked at.
        """
        side = self.sides[self.places[0][0]]
        words = [w for w in side.words if not side.is_special(w.start) and any(map(str.isalpha, w.text))]
        alike = [n for n in self._alike(0) if self.places[n][0] == self.places[n][1]]
        if not side.named or not words or sum(math.prod(self.entries[n].shape[1:]) for n in alike) > DENSE:
            return None
        member = torch.zeros(len(side), len(words))
        for n, word in enumerate(words):
            member[word.start : word.stop, n] = 1
        places = torch.arange(len(words))
        apart = (places - places[:, None]).abs() >= _APART
        letters = torch.tensor([len(word.text) for word in words])
        long = (letters[:, None] >= _LETTERS[0]) & (letters >= _LETTERS[1])
        best: tuple[float, dict[str, Any] | None] = (0.0, None)
        for n in alike:
            entry = self.entries[n]
            # (heads, words, words): the mean over the tokens of a row, the sum over those of a column
            weights = member.T / member.sum(0)[:, None] @ entry.matrix[0].float().cpu() @ member
            seen = (member.T @ shown(entry, range(len(side)), range(len(side))).float().cpu() @ member).bool()
            others = (weights.sum(1, keepdim=True) - weights) / (seen.sum(0) - 1).clamp_min(1)
            above = (weights - others).masked_fill(~(apart & seen), -9) + 2 * long
            place = np.unravel_index(int(above.argmax()), above.shape)
            if (most := float(above[place])) > best[0]:
                head, row, column = map(int, place)
                pair = {"token": words[row].start, "to": words[column].start}
                shares = {"weight": float(weights[place]), "others": float(others[place])}
                best = most, {"entry": n, "head": entry.heads[head]} | pair | shares
        return best[1]

    @cached_property
    def size(self) -> int:
        """The bytes of its tensors and texts, counting shared storage once."""
        tensors: list[Tensor] = [] if self.inside is None else self.inside.tensors()
        for entry in self.entries:
            if entry.call is not None:
                tensors += [entry.call.query, entry.call.key, *entry.call.mask.tensors]
        stored = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in tensors}
        words = sum(200 * len(side) for side in self.sides.values())
        return sum(stored.values()) + words + len(self.text)

    def close(self) -> None:
        """End the computation in the background."""
        with self._lock:
            for feed in self._feeds.values():
                feed.close()

    # The texts

    def tokens(self, name: str, start: int, stop: int) -> list[str]:
        """Some tokens of a side, as they read."""
        count = len(self._side(name))
        if not 0 <= start <= stop <= count or stop - start > _LISTED:
            raise OutOfRangeError(
                f"tokens of {name} are from 0 to {count}, at most {_LISTED:,} at once. Got {start} to {stop}."
            )
        return self._texts[name][start:stop]

    def find(self, name: str, text: str, limit: int) -> list[int]:
        """The tokens of a side at which a text begins."""
        self._side(name)
        return find_text(self._texts[name], text, limit)

    def _side(self, name: str) -> Tokens:
        if name not in self.sides:
            raise InputError(f"side must be one of {', '.join(self.sides)}.")
        return self.sides[name]

    # The weights

    def entry(self, index: int) -> Entry:
        """The entry of this number."""
        if not 0 <= index < len(self.entries):
            raise OutOfRangeError(f"entry must be from 0 to {len(self.entries) - 1}. Got {index}.")
        return self.entries[index]

    @torch.no_grad()
    def weights(self, index: int) -> NDArray[np.float32]:
        """All weights of an entry (heads, queries, keys), if there are few enough."""
        entry = self.entry(index)
        self._check_dense(*entry.shape[1:])
        return entry.matrix[0].float().cpu().numpy()

    def _check_dense(self, heads: int, queries: int, keys: int) -> None:
        if heads * queries * keys > DENSE:
            raise InputError(
                f"{heads} heads × {queries:,} × {keys:,} weights are more than {DENSE:,}: ask for tiles of them."
            )

    @torch.no_grad()
    def thumbnails(self, index: int) -> NDArray[np.float32]:
        """Each head of an entry as a small picture; of a long text, NaN where it is not computed yet."""
        entry, (feed, number) = self.entry(index), self.feed(index)
        if feed.queries * feed.keys <= _SMALL:  # all heads at once
            return entry.matrix.part[0].pool(_THUMBNAIL, _THUMBNAIL).float().cpu().numpy()
        whole = (0, feed.queries), (0, feed.keys)
        bins = min(_THUMBNAIL, feed.queries), min(_THUMBNAIL, feed.keys)
        return np.stack([feed.tile([(number, head)], *whole, bins) for head in entry.heads])

    @torch.no_grad()
    def looks(self, heads: _Heads, rows: _Span, set_aside: bool) -> list[dict[str, Any]]:
        """What each word of some rows looks at, the mean over heads, as `Record.looks` says it; sinks may be set aside.

        "looks" are pairs (first token of a word, weight), "aside" pairs (sink, its share of all attention), and "own"
        is the share of sinks that the model has in addition to its tokens.
        """
        self._chosen(heads)
        first = heads[0][0]
        row_side, column_side = (self.sides[name] for name in self.places[first])
        (_, count, queries, keys), (start, stop) = self.entries[first].shape, rows
        if not 0 <= start < stop <= queries:
            raise OutOfRangeError(f"rows must be a range of the rows 0 to {queries}. Got {start} to {stop}.")
        self._check_dense(count, stop - start, keys)
        total = torch.zeros(stop - start, keys)
        for index, entry in enumerate(self.entries):
            places = sorted({head - entry.first_head for n, head in heads if n == index})
            if places:
                total += entry.matrix[0, :, start:stop].float()[places].sum(0).cpu()
        weights = total / len(set(heads))
        sinks = self._sinks[self._alike(first)[0]] if set_aside else []
        return [
            {"start": w.start}
            | _looks(weights[w.start - start : w.stop - start].mean(0), column_side, sinks, set_aside)
            for w in row_side.words
            if start <= w.start and w.stop <= stop
        ]

    @torch.no_grad()
    def heads_between(self, index: int, row: _Span, column: _Span) -> list[tuple[int, int, float]]:
        """The heads of all entries like this one that look most from one word to another: (entry, head, weight)."""
        numbers = {self.entries[n].name: n for n in self._alike(index)}
        ranked = heads_between([self.entries[n] for n in numbers.values()], range(*row), range(*column))
        return [(numbers[head.name], head.head, head.weight) for head in ranked]

    def tile(self, heads: _Heads, rows: _Span, columns: _Span, bins: _Span) -> NDArray[np.float32]:
        """The mean over some heads of a part of the matrix, averaged over bins."""
        feed, chosen = self._chosen(heads)
        return feed.tile(chosen, rows, columns, bins)

    def work(self, heads: _Heads, rows: _Span, columns: _Span, bins: _Span) -> int:
        """The multiply-adds of a tile, at most; a tile of too many is refused."""
        feed, chosen = self._chosen(heads)
        if bins[0] * bins[1] > _BINS:
            raise InputError(f"a tile has at most {_BINS:,} bins. Got {bins[0]} × {bins[1]}: ask for a smaller part.")
        sizes = [(stop - start) / max(count, 1) for (start, stop), count in zip((rows, columns), bins, strict=True)]
        if min(sizes) >= FINEST:
            return 0  # it is read from levels that are swept in the background
        known = self.entries[heads[0][0]].matrix.known_logsumexp is not None
        keys = min(columns[1], feed.keys) - columns[0] if known else feed.keys
        return self._multiplied(heads[0][0], len(set(chosen)), min(rows[1], feed.queries) - rows[0], keys)

    def _multiplied(self, index: int, heads: int, rows: int, keys: int) -> int:
        """The multiply-adds of some rows of some heads with some keys; too many are refused."""
        call = self.entry(index).call
        width = 1 if call is None else call.query.shape[-1]
        work = heads * max(rows, 0) * max(keys, 0) * width
        if work > _LARGEST:
            raise InputError("this part is too large for so many heads: ask for a smaller one, or for fewer heads.")
        return work

    def steps(self, index: int, head: int, token: int) -> dict[str, Any]:
        """Every number of one token in one head."""
        entry = self.entry(index)
        rows, columns = (self._texts[name] for name in self.places[index])
        return steps(entry, head, token, 0, (rows, columns), self.inside, self.entries)

    def matrices(self, index: int, head: int) -> dict[str, Any]:
        """The matrices of one head."""
        entry = self.entry(index)
        rows, columns = (self._texts[name] for name in self.places[index])
        return matrices(entry, head, (rows, columns), self.inside, self.entries)

    def why(self, index: int, head: int, token: int, key: int | None, minus: int | None) -> dict[str, Any]:
        """Why a head looks at a key (None: that of the largest weight), and not at another: its score as a sum."""
        inside = self._ours()
        entry, (rows, columns) = self.entry(index), self.entry(index).shape[2:]
        if head not in entry.heads or token >= rows or max(key or 0, minus or 0) >= columns:
            raise OutOfRangeError(f"heads are {entry.heads}, tokens from 0 to {rows - 1}, keys to {columns - 1}.")
        key = int(entry.matrix[0, head - entry.first_head, token].argmax()) if key is None else key
        with torch.no_grad(), watch(inside.model) as record:
            inside.model(*(torch.tensor([ids]) for ids in inside.ids))
        found = record.why(token, key, layer=entry.layer, head=head, kind=entry.kind, minus=minus)
        lists: dict[str, Sequence[Any]] = {"pairs": found.items, "query": found.query, "key": found.key}
        listed = {name: [[term.name, term.amount] for term in terms[:_TERMS]] for name, terms in lists.items()}
        counts = {name: len(terms) for name, terms in lists.items()}
        return listed | {"key_token": key, "score": found.score, "counts": counts}

    @torch.no_grad()
    def made(self, token: int | None, kind: str) -> dict[str, Any]:
        """The heads and links of a kind that made a written token (None: that of the smallest lead), as pictures.

        Its lead is its logit less that of the most probable other token, the rival.
        """
        inside = self._ours()
        one_of("kind", kind, ("encoder", "decoder", "cross"))
        source, read = (torch.tensor([ids]) for ids in inside.ids)
        written = torch.tensor([*read[0, 1:], source[0, -1]])[:, None]  # (tokens, 1); both texts end with </s>
        if token is not None and token >= len(written):
            raise OutOfRangeError(f"tokens are from 0 to {len(written) - 1}. Got {token}.")
        logits = inside.model(source, read)[0]  # (tokens, vocabulary)
        rivals = logits.scatter(1, written, -math.inf).max(1)
        lead = logits.gather(1, written)[:, 0] - rivals.values
        token = int(lead.argmin()) if token is None else token
        pair = int(written[token]), int(rivals.indices[token])
        found = effects(
            inside.model, [source, read[:, : token + 1]], ("head", "link"), answer=pair, kind=kind, estimate=True,
            tokenizer=inside.tokenizer,
        )  # fmt: skip
        word, rival = (spelt(inside.tokenizer, number) for number in pair)
        drawing = found.picture(f"Why “{word}”, and not “{rival}”?")
        themes = {theme: drawing.to_svg(theme=theme, transparent=True) for theme in ("light", "dark")}
        return {"token": token, "word": word, "rival": rival, "pictures": themes}

    def _ours(self) -> Inside:
        if self.inside is None:
            raise InputError("the page takes models of regard's own apart. For others, ask record.why in Python.")
        return self.inside

    # The map

    def saved(self, heads: _Heads) -> str:
        """A file with the map of as many of these heads as fit, which opens without a server."""
        whole, chosen = self._chosen(heads)
        self._multiplied(heads[0][0], 1, whole.queries, whole.keys)  # each of them: of a long text few fit
        entries = [
            MapEntry(entry.matrix.part[place : place + 1], [head], entry.name, entry.kind, entry.layer)
            for n, entry in enumerate(whole.entries)
            for place, head in enumerate(entry.heads)
            if (n, head) in chosen
        ]
        return page(self._make_feed(heads[0][0], entries).packed(_FILE))

    def ready(self, index: int) -> float:
        """The share of the whole map of an entry that is computed."""
        return self.feed(index)[0].ready()

    def feed(self, index: int) -> tuple[MatrixFeed, int]:
        """The feed of the map of an entry and all entries like it, and the number of the entry in it."""
        alike = self._alike(index)
        with self._lock:
            if alike[0] not in self._feeds:
                chosen = [self.entries[n] for n in alike]
                maps = [MapEntry(e.matrix.part[0], list(e.heads), e.name, e.kind, e.layer) for e in chosen]
                self._feeds[alike[0]] = self._make_feed(index, maps)
            return self._feeds[alike[0]], alike.index(index)

    def _make_feed(self, index: int, entries: Sequence[MapEntry]) -> MatrixFeed:
        """The feed of some entries that are like this one; tokens are named where they are known."""
        rows, columns = self.places[index]
        named = {name: self._texts[name] if self.sides[name].named else None for name in (rows, columns)}
        title = " ".join(self.text.split())[:_TITLE]
        same = named[rows] is named[columns]
        return MatrixFeed(entries, named[rows], named[columns], same=same, title=title, note=self.note)

    def _chosen(self, heads: _Heads) -> tuple[MatrixFeed, list[tuple[int, int]]]:
        """The feed of some heads, and the heads as the feed counts them."""
        feeds: dict[int, MatrixFeed] = {}
        chosen = []
        for index, head in heads:
            feed, number = self.feed(index)
            known = self.entries[index].heads
            if head not in known:
                raise OutOfRangeError(f"entry {index} has heads {known.start} to {known.stop - 1}. Got {head}.")
            feeds[id(feed)] = feed
            chosen.append((number, head))
        if len(feeds) != 1:
            raise InputError("the heads of a tile must be of one kind, and look from the same text to the same text.")
        return next(iter(feeds.values())), chosen


def _looks(row: Tensor, side: Tokens, sinks: Sequence[int], set_aside: bool) -> dict[str, Any]:
    """What one row of weights says about the words of its keys; sinks that are set aside leave shares of the rest."""
    total = float(row.sum())
    own = 1 - total if 0 < total < 1 - 1e-4 else 0.0  # what the model gives to sinks that are no tokens
    aside = [(sink, float(row[sink])) for sink in sinks if row[sink] > 0]
    rest = row.clone()
    rest[[sink for sink, _ in aside]] = 0
    whole = max(float(rest.sum()), SMALLEST) if aside or (set_aside and own) else 1.0
    weights = (rest / whole).tolist()
    sums = ((word.start, sum(weights[word.start : word.stop])) for word in side.words)
    looks = [(start, round(weight, 7)) for start, weight in sums if weight > 0]
    return {"looks": looks, "aside": aside, "own": own if set_aside else 0.0}


def _sides(entries: Sequence[Entry]) -> tuple[dict[str, Tokens], list[tuple[str, str]]]:
    """The texts of some entries by name, and the names of each entry's rows and columns.

    "source" is the text that was typed. A model that writes another text has a "target" too: the rows of
    cross-attention, named after what they write. What its decoder reads, from the start token on, is "read".
    """
    pair = any(entry.kind == "cross" for entry in entries)
    sides: dict[str, Tokens] = {}
    places = []
    for entry in entries:
        itself = "read" if pair and entry.kind == "decoder" else "source"
        names = ("target", "source") if entry.kind == "cross" else (itself, itself)
        place = []
        for name, tokens, length in zip(names, (entry.tokens, entry.key_tokens), entry.shape[2:], strict=True):
            side = Tokens.numbered(length) if tokens is None else tokens[0]
            while name in sides and len(sides[name]) != length:  # a layer of another resolution
                name += "+"
            if name not in sides or (side.named and not sides[name].named):
                sides[name] = side
            place.append(name)
        places.append((place[0], place[1]))
    return sides, places


@dataclass(eq=False)
class Part:
    """A part of a text that was read; `open` makes its reading."""

    open: Callable[[], Reading]
    about: Any = None  # the reader's own notes
    reading: Reading | None = None
    place: dict[str, Any] | None = None  # which part of a longer text
    id: str = field(default_factory=lambda: secrets.token_urlsafe(12))

    def opened(self) -> Reading:
        """Its reading, which is made once, in the model's thread."""
        start, reading = time.perf_counter(), self.reading
        if reading is None:
            self.reading = reading = self.open()
            reading.took = time.perf_counter() - start
        return reading

    def describe(self) -> dict[str, Any]:
        """The reading of an open part as JSON."""
        assert self.reading is not None
        return {"id": self.id} | self.reading.about() | ({} if self.place is None else {"part": self.place})


def numbered(parts: list[Part], sentences: Sequence[tuple[str, str]] = ()) -> list[Part]:
    """Number the parts of a text that has several; `sentences` are their texts and translations, where known."""
    ids = [part.id for part in parts]
    for n, part in enumerate(parts if len(parts) > 1 else ()):
        part.place = {"index": n, "ids": ids, "sentences": sentences}
    return parts


def joined(parts: Sequence[Sequence[Entry]]) -> list[Entry]:
    """The entries of a text from those of its sentences, which do not look at each other: blocks on the diagonal."""
    entries = []
    for each in zip(*parts, strict=True):
        calls = [entry.call for entry in each if entry.call is not None]
        query, key = (torch.cat([getattr(call, side) for call in calls], 2) for side in ("query", "key"))
        ids = [torch.tensor([n for n, e in enumerate(each) for _ in range(e.shape[axis])]) for axis in (2, 3)]
        mask = documents(*ids) & causal() if each[0].kind == "decoder" else documents(*ids)
        call = replace(calls[0], query=query, key=key, mask=mask, queries=range(len(ids[0])), keys=range(len(ids[1])))
        sides = [[getattr(entry, side)[0] for entry in each] for side in ("tokens", "key_tokens")]
        special = {piece for side in sides for one in side for n, piece in enumerate(one) if one.is_special(n)}
        rows, columns = ([Tokens([piece for one in side for piece in one], tuple(special))] for side in sides)
        shape = (1, *query.shape[1:3], key.shape[2])
        made = replace(each[0], shape=shape, call=call, attention=call.matrix(), tokens=rows, key_tokens=columns)
        entries.append(replace(made, ids=None, key_ids=None, real=None, real_keys=None))
    return entries


class Readings:
    """The parts that are kept, by their unguessable names: the last used, up to a number and to a size in bytes."""

    def __init__(self, most: int = 4096, largest: int = 1 << 30):
        self._most, self._largest = most, largest
        self._parts: OrderedDict[str, Part] = OrderedDict()
        self._pinned: set[str] = set()
        self._lock = threading.Lock()

    def add(self, parts: Sequence[Part], *, pinned: bool = False) -> None:
        """Keep some parts; pinned parts are never evicted."""
        with self._lock:
            for part in reversed(parts):
                self._parts[part.id] = part
                self._parts.move_to_end(part.id)
                if pinned:
                    self._pinned.add(part.id)
        self.trim()

    def get(self, name: str) -> Part | None:
        """Return the part of this name, if it is still kept, and mark it as the last used."""
        with self._lock:
            part = self._parts.get(name)
            if part is not None:
                self._parts.move_to_end(name)
            return part

    def trim(self) -> None:
        """Evict the least recently used parts, down to the limits; the part used last always stays."""
        with self._lock:
            size = sum(part.reading.size for part in self._parts.values() if part.reading is not None)
            for name, part in list(self._parts.items())[:-1]:
                if len(self._parts) <= self._most and size <= self._largest:
                    break
                if name in self._pinned or (len(self._parts) <= self._most and part.reading is None):
                    continue
                if part.reading is not None:
                    size -= part.reading.size
                    part.reading.close()
                    part.reading = None
                del self._parts[name]

    def __len__(self) -> int:
        return len(self._parts)
