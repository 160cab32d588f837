"""Attention sinks: tokens on which attention rests when a head has nothing to say (Xiao and others, 2023).

They are found by measurement: a sink is what most tokens give most to, in most heads. Over all heads of all layers of
one kind ("encoder", "decoder" or "cross"), it has the largest weight of at least 30 % of the rows, there at least twice
an equal share. A special token such as [CLS] or </s> is no word, and is a sink from 10 % of the rows on; in
cross-attention it always is, and no word is one beside it: the shares are those of the words of the source. Rows that
see fewer than three keys tell nothing and do not count, and with fewer than four heads no word is called a sink. At
most 32 rows of each head are measured, evenly spaced, so the cost is O(tokens).

On MiniLM, SmolLM2 and the shipped translator, sinks of self-attention have the largest weight of 47 to 82 % of the
rows, and no other word has it in more than 20 % (benchmarks/sinks.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from regard.drawing.terminal import percent, visible
from regard.support import Float
from regard.watching.record.entries import Entry, mean_over_heads, shown
from regard.watching.record.tokens import Tokens

__all__ = ["Aside", "Sinks", "find_sinks", "measured", "named", "sentence", "to_own", "to_tokens"]

Sinks = Sequence[int] | None  # the positions of the sinks to set aside; None: the plain numbers

_MOST, _MOST_SPECIAL = 0.3, 0.1  # of all rows of all heads
_TIMES_EQUAL = 2.0  # the weight of a sink, where it is the largest, over an equal share of the row
_KEYS, _HEADS, _ROWS = 3, 4, 32  # fewer keys or heads tell nothing; rows of a head that are measured
_WORDS = ("<unk>", "[UNK]", "<mask>", "[MASK]")  # special tokens that stand for words


class Aside(NamedTuple):
    """An attention sink that was set aside: how a sentence names it, its share of all attention, its word and token.

    A sink that the model has in addition to its tokens has neither a word nor a position.
    """

    name: str
    weight: float
    word: str = ""
    position: int | None = None


class _Measured(NamedTuple):
    """Of one entry: how many rows were counted, all heads together, and in which of them each key is the largest."""

    rows: int
    largest: Float[Tensor, " keys"]  # the number of rows
    times_equal: Float[Tensor, " keys"]  # the sum over these rows of its weight times the number of visible keys


_cache: WeakKeyDictionary[Entry, _Measured] = WeakKeyDictionary()


def find_sinks(entries: Sequence[Entry], keys: Tokens) -> tuple[int, ...]:
    """The positions of the sinks, measured over all entries: those of one kind and shape in a whole record."""
    special = {position for position in range(len(keys)) if _is_special(keys, position)}
    always = special if entries[0].kind == "cross" else set()
    if always or sum(entry.shape[1] for entry in entries) < _HEADS:
        return tuple(sorted(always))
    found = [measured(entry) for entry in entries]
    rows = sum(each.rows for each in found)
    largest, times_equal = sum(each.largest for each in found), sum(each.times_equal for each in found)
    assert isinstance(largest, Tensor)
    assert isinstance(times_equal, Tensor)
    frequent = largest >= _MOST_SPECIAL * max(rows, 1)
    candidates = (frequent & (times_equal >= _TIMES_EQUAL * largest)).nonzero().flatten().tolist()
    sinks = {key for key in candidates if key in special or largest[key] >= _MOST * rows}
    return tuple(sorted(sinks))


def _is_special(keys: Tokens, position: int) -> bool:
    return keys.is_special(position) and keys[position] not in _WORDS


def measured(entry: Entry) -> _Measured:
    """In how many rows of an entry each key has the largest weight; measured once."""
    if entry not in _cache:
        _cache[entry] = _measure(entry)
    return _cache[entry]


@torch.no_grad()
def _measure(entry: Entry) -> _Measured:
    _, heads, queries, keys = entry.shape
    step = max(-(-queries // _ROWS), 1)
    top = entry.matrix.part[:, :, ::step].top(1)  # raises where only reductions were kept
    seen = shown(entry, range(0, queries, step), range(keys)).sum(-1).cpu()
    counted = seen >= _KEYS
    winners = top.keys[0, :, :, 0].cpu()[:, counted].flatten()
    weights = (top.weights[0, :, :, 0].cpu().float() * seen)[:, counted].flatten()
    largest = torch.zeros(keys).index_add_(0, winners, torch.ones_like(weights))
    return _Measured(heads * int(counted.sum()), largest, torch.zeros(keys).index_add_(0, winners, weights))


# What is set aside


def to_tokens(entries: Sequence[Entry], sinks: Sequence[int]) -> Float[Tensor, "queries sinks"]:
    """What each query gives to each of these keys, the mean over heads."""
    given = [mean_over_heads(entries, partial(_to_token, sink)) for sink in sinks]
    return torch.stack(given, -1) if given else torch.zeros(entries[0].shape[2], 0)


def _to_token(key: int, entry: Entry) -> Tensor:
    return entry.matrix[0, :, :, key].float().sum(0).cpu()


def to_own(entries: Sequence[Entry], rows: slice = slice(None)) -> Float[Tensor, " queries"]:
    """What each query gives to sinks that the model has in addition to its tokens (gpt-oss), the mean over heads."""
    return mean_over_heads(entries, lambda entry: _to_own(entry, rows))


def _to_own(entry: Entry, rows: slice) -> Tensor:
    if entry.call is None or entry.call.sinks is None:
        return torch.zeros(len(range(entry.shape[2])[rows]))
    return entry.matrix.part[:, :, rows].sink_share[0].float().sum(0).cpu()


def named(sinks: Sequence[int], shares: Sequence[float], keys: Tokens, own: float = 0.0) -> tuple[Aside, ...]:
    """Sinks with their names and shares; `own`: the share of sinks that are no tokens."""
    tokens = tuple(_named(keys, sink, share) for sink, share in zip(sinks, shares, strict=True))
    return (*tokens, Aside("the model's own sinks", own)) if own else tokens


def _named(keys: Tokens, position: int, share: float) -> Aside:
    """Named [CLS], the first token ("A"), or "the" (token 3)."""
    word = keys.word_at(position)
    text = visible(word.text if len(word.tokens) == 1 else keys[position].lstrip("Ġ▁"))
    if _is_special(keys, position):
        name = text
    elif not keys.named:
        name = f"token {position}"
    else:
        name = f'the first token ("{text}")' if position == 0 else f'"{text}" (token {position})'
    return Aside(name, share, text, position)


def sentence(aside: Sequence[Aside]) -> str:
    """ "50 % rests on [CLS], 2 % on [SEP]"."""
    first, *others = (f"{percent(each.weight)}{'' if n else ' rests'} on {each.name}" for n, each in enumerate(aside))
    return ", ".join([first, *others])
