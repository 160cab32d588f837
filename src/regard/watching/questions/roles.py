"""What each head does, in one short phrase, measured on the text that was read.

At most 32 rows of a head are measured, evenly spaced: those that see at least three keys and are not padding. A share
is the mean over these rows of what they give to the keys in question. The candidates:

all alike        the entropy of the rows is at least 95 % of the largest possible, the logarithm of the keys they see
</s> (a sink)    an attention sink (see sinks.py), by its name; the first token is called that
first token      the first key
previous token, next token, itself      the keys one before, one after and at the place of the row
same word        other places of the same token, over the rows that have one
after same word  the token after the last earlier place of the same token (induction), over the rows that have one
punctuation      tokens without a letter or a digit
nearby tokens    up to three places away on either side
one at a time    the largest weight of each row

A head has the role of the largest share that is at least 40 %, and at least twice what attention of equal weights would
give to the same keys; where shares are equal, the first in this list. If there is none, nearby tokens and one at a time
are asked, which must have 80 % and 60 %. Otherwise its role is "mixed"; and "too short to tell" where no row sees three
keys. In cross-attention rows and keys are different texts: what is said of the place of a row is not asked there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from regard.support import Bool, Float, Int
from regard.watching.questions.rankings import key_side, query_side
from regard.watching.questions.sinks import find_sinks, named
from regard.watching.record.entries import Entry, shown

__all__ = ["Role", "roles", "token_numbers"]

_ROWS, _KEYS = 32, 3  # rows of a head that are measured; keys that a row must see to count
_EVEN, _SHARE, _WIDE, _ONE, _TIMES_EQUAL = 0.95, 0.4, 0.8, 0.6, 2.0
_NEAR = 3  # tokens on either side
_WEIGHTS = 1 << 24  # computed at once


class Role(NamedTuple):
    """What a head does, and the share of its attention that goes there."""

    name: str
    share: float


class _Candidate(NamedTuple):
    """A role, and the keys that it is about: rows × keys; rows without such a key do not count."""

    name: str
    keys: Bool[Tensor, "rows keys"]
    least: float = _SHARE


class _Asked(NamedTuple):
    """A role that some rows can have: the share that makes it theirs, and whether it is asked before the last two."""

    name: str
    least: float
    early: bool


def roles(entries: Sequence[Entry]) -> list[list[Role]]:
    """The role of each head of each entry; `Record.atlas` shows them."""
    sinks: dict[tuple[object, ...], dict[int, str]] = {}  # those of all entries of one kind and shape
    for entry in entries:
        alike = (entry.kind, entry.shape[2:])
        if alike not in sinks:
            keys = key_side(entry)
            places = find_sinks([e for e in entries if (e.kind, e.shape[2:]) == alike], keys)
            names = named(places, [0.0] * len(places), keys)
            sinks[alike] = {place: sink.name for place, sink in zip(places, names, strict=True)}
    return [_of_entry(entry, sinks[entry.kind, entry.shape[2:]]) for entry in entries]


@torch.no_grad()
def _of_entry(entry: Entry, sinks: dict[int, str]) -> list[Role]:
    _, heads, queries, keys = entry.shape
    step = max(-(-queries // _ROWS), 1)
    seen = shown(entry, range(0, queries, step), range(keys))
    counted = (seen.sum(-1) >= _KEYS).cpu()
    places = torch.arange(0, queries, step)[counted]
    if not len(places):
        return [Role("too short to tell", 0.0)] * heads
    counted, places = counted.to(seen.device), places.to(seen.device)
    seen = seen[counted]
    candidates = _candidates(entry, places, seen, sinks)
    found: list[Role] = []
    size = max(_WEIGHTS // (len(places) * keys), 1)
    for start in range(0, heads, size):
        rows = entry.matrix.part[0, start : start + size, ::step]
        found += roles_of_heads(rows.to_dense().float()[:, counted], seen, candidates)
    return found


def _candidates(
    entry: Entry, places: Int[Tensor, " rows"], seen: Bool[Tensor, "rows keys"], sinks: dict[int, str]
) -> list[_Candidate]:
    keys = key_side(entry)
    columns = torch.arange(len(keys), device=seen.device)
    found = [
        _Candidate("first token" if position == 0 else f"{name} (a sink)", (columns == position).expand_as(seen))
        for position, name in sinks.items()
    ]
    if 0 not in sinks:
        found.append(_Candidate("first token", (columns == 0).expand_as(seen)))
    own = entry.kind != "cross" and entry.shape[2] == entry.shape[3]
    if own:
        away = columns - places[:, None]
        found += [_Candidate(name, away == n) for name, n in (("previous token", -1), ("next token", 1), ("itself", 0))]
        found += _repetitions(token_numbers(entry), places)
    blank = [not any(letter.isalnum() for letter in piece) for piece in keys] if keys.named else []
    if any(blank):
        found.append(_Candidate("punctuation", torch.tensor(blank, device=seen.device).expand_as(seen)))
    found = [_Candidate(name, which & seen, least) for name, which, least in found]
    return [*found, _Candidate("nearby tokens", (away.abs() <= _NEAR) & seen, _WIDE)] if own else found


def token_numbers(entry: Entry) -> Int[Tensor, " tokens"] | None:
    """A number for each token, the same for the same token; None where the tokens are unknown."""
    side = query_side(entry)
    if entry.ids is not None:
        return entry.ids[0].cpu()
    if not side.named:
        return None
    numbers: dict[str, int] = {}
    return torch.tensor([numbers.setdefault(piece, len(numbers)) for piece in side])


def _repetitions(names: Int[Tensor, " tokens"] | None, places: Int[Tensor, " rows"]) -> list[_Candidate]:
    if names is None:
        return []
    names, columns = names.to(places.device), torch.arange(len(names), device=places.device)
    same = (names == names[places][:, None]) & (columns != places[:, None])
    before = torch.where(same & (columns < places[:, None]), columns, -1).amax(-1)  # the last earlier place, or -1
    after = (columns == before[:, None] + 1) & (before >= 0)[:, None] & (columns != places[:, None])
    return [_Candidate("same word", same), _Candidate("after same word", after)]


def roles_of_heads(
    weights: Float[Tensor, "heads rows keys"], seen: Bool[Tensor, "rows keys"], candidates: Sequence[_Candidate]
) -> list[Role]:
    """The role of each head, from some of its rows, the keys that each of them may see, and the candidates in order.

    >>> everywhere = torch.ones(2, 4, dtype=torch.bool)
    >>> roles_of_heads(torch.full((1, 2, 4), 0.25), everywhere, [])
    [Role(name='all alike', share=1.0)]
    """
    count = seen.sum(-1)
    entropy = (-(weights * weights.clamp_min(1e-30).log()).sum(-1) / count.log()).mean(-1)
    asked: list[_Asked] = []
    shares: list[Tensor] = []
    for name, keys, least in candidates:
        counted = keys.any(-1)
        if int(counted.sum()) < 2:  # one row is no habit
            continue
        equal = float((keys.sum(-1) / count)[counted].mean())
        asked.append(_Asked(name, max(least, _TIMES_EQUAL * equal), early=least == _SHARE))
        shares.append(weights.flatten(1) @ keys.flatten().to(weights.dtype) / counted.sum())
    largest = weights.amax(-1).mean(-1)
    # All numbers leave the device together: waiting for it once is what takes time on a GPU.
    numbers = torch.stack([entropy, largest, *shares], -1).tolist()
    return [_role(even, most, own, asked, int(count.min())) for even, most, *own in numbers]


def _role(even: float, largest: float, shares: Sequence[float], asked: Sequence[_Asked], fewest: int) -> Role:
    if even >= _EVEN:
        return Role("all alike", min(even, 1.0))
    best = Role("mixed", 0.0)
    for (name, least, early), share in zip(asked, shares, strict=True):
        if share >= least and share > best.share + 1e-6 and (early or best.share == 0):
            best = Role(name, share)
    if best.share == 0 and largest >= max(_ONE, _TIMES_EQUAL / fewest):
        return Role("one at a time", largest)
    return best
