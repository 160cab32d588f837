"""Attention sinks: tokens on which attention rests when a head has nothing to say (Xiao and others, 2023).

A sink is the token that most tokens give most to, in most heads. It is found by measurement over all heads of all
layers of one kind ("encoder", "decoder" or "cross"): it has the largest weight of at least 30 % of the rows, there at
least twice an equal share. A special token such as [CLS] or </s> is no word, and is a sink from 10 % of the rows on. In
cross-attention a special token always is a sink, and a word never is: weights are those of the words of the source.
Rows that see fewer than three keys do not count, and with fewer than four heads no word is called a sink. At most 32
rows of each head are measured, evenly spaced, so the cost is O(tokens).

On MiniLM, SmolLM2 and the shipped translator, sinks of self-attention have the largest weight of 47 to 82 % of the
rows, and no other word has it in more than 20 % (benchmarks/sinks.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from regard.drawing.terminal import percent, visible
from regard.support import Float
from regard.watching.record.entries import Entry, mean_over_heads, shown
from regard.watching.record.tokens import Tokens

Sinks = Sequence[int] | None  # the positions of the sinks to set aside; None: the plain weights

_MOST, _MOST_SPECIAL = 0.3, 0.1  # of all rows of all heads
_TIMES_EQUAL = 2.0  # the weight of a sink, where it is the largest, over an equal share of the row
_KEYS, _HEADS, _ROWS = 3, 4, 32  # the fewest keys of a row and heads of a record; rows of a head that are measured
_WORDS = ("<unk>", "[UNK]", "<mask>", "[MASK]")  # special tokens that stand for words


class Aside(NamedTuple):
    """An attention sink that was set aside: its name in a sentence, its weight in all attention, its word and token.

    A sink that the model has in addition to its tokens has neither a word nor a position.
    """

    name: str
    weight: float
    word: str = ""
    position: int | None = None


class _Measured(NamedTuple):
    """How many rows of one entry were measured, and in which of them each key has the largest weight."""

    rows: int
    largest: Float[Tensor, " keys"]  # the number of rows
    times_equal: Float[Tensor, " keys"]  # the sum over these rows of its weight times the number of visible keys


_cache: WeakKeyDictionary[Entry, _Measured] = WeakKeyDictionary()


def find_sinks(entries: Sequence[Entry], keys: Tokens) -> tuple[int, ...]:
    """Return the positions of the sinks, measured over all entries of one kind and shape of a record."""
    special = {position for position in range(len(keys)) if _is_special(keys, position)}
    always = special if entries[0].kind == "cross" else set()
    if always or sum(entry.shape[1] for entry in entries) < _HEADS:
        return tuple(sorted(always))
    counts, largest, times_equal = zip(*map(measured, entries), strict=True)
    rows, frequency = sum(counts), torch.stack(largest).sum(0)
    candidates = frequency >= _MOST_SPECIAL * max(rows, 1)
    candidates &= torch.stack(times_equal).sum(0) >= _TIMES_EQUAL * frequency
    positions = candidates.nonzero().flatten().tolist()
    return tuple(key for key in positions if key in special or frequency[key] >= _MOST * rows)


def _is_special(keys: Tokens, position: int) -> bool:
    return keys.is_special(position) and keys[position] not in _WORDS


@torch.no_grad()
def measured(entry: Entry) -> _Measured:
    """Return in how many rows of an entry each key has the largest weight; measured once."""
    if entry not in _cache:
        _, heads, queries, keys = entry.shape
        step = max(-(-queries // _ROWS), 1)
        top = entry.matrix.part[:, :, ::step].top(1)  # raises where only reductions were kept
        seen = shown(entry, range(0, queries, step), range(keys)).sum(-1).cpu()
        counted = seen >= _KEYS
        winners = top.keys[0, :, :, 0].cpu()[:, counted].flatten()
        weights = (top.weights[0, :, :, 0].cpu().float() * seen)[:, counted].flatten()
        largest = torch.zeros(keys).index_add_(0, winners, torch.ones_like(weights))
        times_equal = torch.zeros(keys).index_add_(0, winners, weights)
        _cache[entry] = _Measured(heads * int(counted.sum()), largest, times_equal)
    return _cache[entry]


# What is set aside


def resting(entries: Sequence[Entry], sinks: Sinks) -> Float[Tensor, "queries sinks_and_1"]:
    """Return what each query gives to each sink that is set aside, the mean over heads.

    The last column is for the sinks that the model has in addition to its tokens; it is 0 where nothing is set aside.
    """

    def shares(entry: Entry) -> Float[Tensor, "queries sinks_and_1"]:
        columns = [entry.matrix[0, :, :, sink].float().sum(0).cpu() for sink in sinks or ()]
        if sinks is not None and entry.call is not None and entry.call.sinks is not None:
            return torch.stack([*columns, entry.matrix.sink_share[0].float().sum(0).cpu()], -1)
        return torch.stack([*columns, torch.zeros(entry.shape[2])], -1)

    return mean_over_heads(entries, shares)


def named(sinks: Sinks, weights: Sequence[float], keys: Tokens) -> tuple[Aside, ...]:
    """Return sinks with their weights and names: [CLS], the first token ("A"), or "the" (token 3).

    One more weight than there are sinks is that of the sinks that the model has in addition to its tokens.
    """
    aside = []
    for position, weight in zip(sinks or (), weights, strict=False):
        word = keys.word_at(position)
        text = visible(word.text if len(word.tokens) == 1 else keys[position].lstrip("Ġ▁"))
        if _is_special(keys, position):
            name = text
        elif not keys.named:
            name = f"token {position}"
        else:
            name = f'the first token ("{text}")' if position == 0 else f'"{text}" (token {position})'
        aside.append(Aside(name, weight, text, position))
    aside += [Aside("the model's own sinks", weight) for weight in weights[len(aside) :] if weight]
    return tuple(aside)


def sentence(aside: Sequence[Aside]) -> str:
    """Return a sentence such as "50 % rests on [CLS], 2 % on [SEP]"."""
    first, *others = (f"{percent(each.weight)}{'' if n else ' rests'} on {each.name}" for n, each in enumerate(aside))
    return ", ".join([first, *others])
