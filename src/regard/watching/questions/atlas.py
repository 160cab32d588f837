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

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, overload

import torch
from torch import Tensor

from regard.drawing.all_layers import head_map
from regard.drawing.terminal import html_table, percent
from regard.errors import InputError
from regard.support import Bool, Float, Int, one_of, progress
from regard.watching.questions.looks import HABITS, Head, Heads, key_side, query_side
from regard.watching.questions.sinks import find_sinks, named
from regard.watching.record.entries import Entry, shown
from regard.watching.record.tokens import Place, Tokens

if TYPE_CHECKING:
    from regard.drawing import Picture

__all__ = ["Atlas", "Habits", "Role", "draw_up", "roles", "token_numbers"]

_SAMPLED, _KEYS = 32, 3  # rows of a head that are measured; keys that a row must see to count
_EVEN, _SHARE, _WIDE, _ONE, _TIMES_EQUAL = 0.95, 0.4, 0.8, 0.6, 2.0
_NEAR = 3  # tokens on either side
_AT_ONCE = 1 << 24  # computed at once


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
    step = max(-(-queries // _SAMPLED), 1)
    seen = shown(entry, range(0, queries, step), range(keys))
    counted = (seen.sum(-1) >= _KEYS).cpu()
    places = torch.arange(0, queries, step)[counted]
    if not len(places):
        return [Role("too short to tell", 0.0)] * heads
    counted, places = counted.to(seen.device), places.to(seen.device)
    seen = seen[counted]
    candidates = _candidates(entry, places, seen, sinks)
    found: list[Role] = []
    size = max(_AT_ONCE // (len(places) * keys), 1)
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


_LOCAL = 16  # tokens on either side
_ROWS, _AT_ONCE = 256, 1 << 24  # rows that are measured as a whole; weights of them that are computed at once
_SPEAKS, _LONG = 2 / 3, 64  # the share that makes a head local or global, in a text of so many tokens
_RETRIEVES = 0.1  # from here on Wu and others call it a retrieval head
_LISTED, _TABLED = 3, 20  # heads of a role that are printed; rows of a table in a notebook
_NUMBERS = ("first", "previous", "itself", "same", "induction", "local", "retrieval", "lookback")


class Habits(NamedTuple):
    """One head: its module, layer, number and kind, its role with the share that goes there, and its numbers.

    A number is nan where it has no meaning: in cross-attention, without a repeated token, or where nothing was written.
    """

    name: str
    layer: int
    head: int
    kind: str
    role: str
    share: float
    first: float
    previous: float
    itself: float
    same: float
    induction: float
    local: float
    retrieval: float
    lookback: float


@dataclass(frozen=True, eq=False, repr=False)
class Atlas(Sequence[Habits]):
    """All heads of a record, in order of their layers; `by` ranks them, `picture` shows and names them.

    `lookback_steps` has the lookback ratio of each head at each written token, nan before there is one of its own.
    """

    found: tuple[Habits, ...]
    tokens: int
    written: int = 0
    lookback_steps: Float[Tensor, "heads steps"] | None = None

    def __len__(self) -> int:
        return len(self.found)

    @overload
    def __getitem__(self, index: int) -> Habits: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Habits, ...]: ...
    def __getitem__(self, index: int | slice) -> Habits | tuple[Habits, ...]:
        return self.found[index]

    def by(self, number: str) -> Heads:
        """The heads by one of their numbers, the largest first; those that have none are left out."""
        one_of("number", number, _NUMBERS)
        heads = [Head(h.name, h.layer, h.head, getattr(h, number)) for h in self]
        return Heads(number, tuple(sorted((h for h in heads if not math.isnan(h.score)), key=lambda h: -h.score)))

    def __str__(self) -> str:
        wrote = f", {self.written:,} of them written" if self.written else ""
        lines = [f"{len(self)} head{'s' * (len(self) != 1)} on {self.tokens:,} tokens{wrote}"]
        groups = [*self._by_role(), *self._retrieving()]
        width = max((len(name) for name, _ in groups), default=0)
        for name, heads in groups:
            best = ", ".join(f"{h.layer}·{h.head} {percent(score)}" for h, score in heads[:_LISTED] if score)
            more = " …" if best and len(heads) > _LISTED else ""
            lines.append(f"{name:<{width}} {len(heads):>4}   {best}{more}".rstrip())
        return "\n".join(lines)

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        numbers = [name for name in _NUMBERS if any(not math.isnan(getattr(h, name)) for h in self)]
        rows = [
            (h.layer, h.head, h.role, h.share, *(None if math.isnan(n := getattr(h, name)) else n for name in numbers))
            for h in self[:_TABLED]
        ]
        columns = ("layer", "head", "role", "share", *numbers)
        return html_table(rows, columns, caption=str(self).split("\n")[0], more=len(self) - _TABLED)

    def picture(self, title: str = "") -> Picture:
        """Every head as a cell, layer by layer, in the colour of its role, with the names of the roles beside it."""
        kinds = list(dict.fromkeys(h.kind for h in self))
        rows, names = [], []
        for kind in kinds:
            for layer in sorted({h.layer for h in self if h.kind == kind}):
                rows.append([h for h in self if (h.kind, h.layer) == (kind, layer)])
                names.append(f"{kind} {layer}" if len(kinds) > 1 else f"layer {layer}")
        note = "Fainter: a smaller share. Hover shows the numbers."
        return head_map(
            [[h.role for h in row] for row in rows],
            [[h.share for h in row] for row in rows],
            rows=names,
            hints=[[_hint(h) for h in row] for row in rows],
            framed=[[h.retrieval >= _RETRIEVES for h in row] for row in rows],
            frame="retrieval",
            title=title,
            caption=f"{str(self).split(chr(10))[0]}. {note}",
        )

    def _by_role(self) -> list[tuple[str, list[tuple[Habits, float]]]]:
        groups: dict[str, list[tuple[Habits, float]]] = {}
        for h in sorted(self, key=lambda h: -h.share):
            groups.setdefault(h.role, []).append((h, h.share))
        return sorted(groups.items(), key=lambda group: (group[0] == "mixed", -len(group[1])))

    def _retrieving(self) -> list[tuple[str, list[tuple[Habits, float]]]]:
        heads = sorted((h for h in self if h.retrieval >= _RETRIEVES), key=lambda h: -h.retrieval)
        return [("retrieval", [(h, h.retrieval) for h in heads])] if heads else []


def _hint(h: Habits) -> str:
    numbers = ((name, getattr(h, name)) for name in _NUMBERS)
    told = [f"{name} {percent(number)}" for name, number in numbers if not math.isnan(number)]
    return "\n".join([f"layer {h.layer}, head {h.head}: {h.role}, {percent(h.share)}", ", ".join(told), h.name])


def draw_up(entries: Sequence[Entry], context: int | Place | None, needle: Place | None, ids: Tensor | None) -> Atlas:
    """The atlas of these entries; see `Record.atlas`."""
    found: list[Habits] = []
    steps: list[Tensor] = []
    text = _Text.of(entries, context, needle, ids)
    with progress("drawing up the atlas", total=len(entries)) as advance:
        for entry, phrases in zip(entries, roles(entries), strict=True):
            own = _own_numbers(entry)
            retrieval, lookback = _of_writing(entry, text)
            found += list(_habits(entry, phrases, own, retrieval, lookback))
            if lookback is not None:
                steps.append(lookback)
            advance(1)
    tokens = max(entry.shape[3] if entry.kind != "cross" else entry.shape[2] for entry in entries)
    return Atlas(tuple(found), tokens, 0 if text is None else text.written, torch.cat(steps) if steps else None)


def _habits(
    entry: Entry, phrases: Sequence[Role], own: dict[str, Tensor], retrieval: Tensor | None, lookback: Tensor | None
) -> Iterator[Habits]:
    missing = torch.full((entry.shape[1],), torch.nan)
    numbers = own | {"retrieval": missing if retrieval is None else retrieval}
    numbers["lookback"] = missing if lookback is None else lookback.nanmean(-1)
    columns = [numbers.get(name, missing).tolist() for name in _NUMBERS]
    for n, (head, phrase) in enumerate(zip(entry.heads, phrases, strict=True)):
        shares = dict(zip(_NUMBERS, (column[n] for column in columns), strict=True))
        role = _near_or_far(phrase, shares["local"], shares["first"]) if entry.shape[3] >= _LONG else phrase
        yield Habits(entry.name, entry.layer, head, entry.kind, role.name, role.share, **shares)


def _near_or_far(role: Role, local: float, first: float) -> Role:
    """A name for a head that has none, if it looks near or far; what rests on the first token is no look."""
    if role.name != "mixed" or math.isnan(local) or first > 0.99:
        return role
    near = min(local / (1 - first), 1.0)
    return Role("local", near) if near >= _SPEAKS else Role("global", 1 - near) if near <= 1 - _SPEAKS else role


# Where tokens look in their own text


def _own_numbers(entry: Entry) -> dict[str, Float[Tensor, " heads"]]:
    if entry.kind == "cross" or entry.shape[2] != entry.shape[3]:
        return {}
    found = {name: HABITS[habit](entry) for name, habit in _AS_SCORED.items()}
    tokens = torch.arange(1, entry.shape[2])
    rows = tokens[:: max(-(-len(tokens) // _ROWS), 1)]
    names = token_numbers(entry)
    if names is not None and len(set(names.tolist())) < len(names):
        found["induction"] = HABITS["induction"](entry)
    return found | _by_rows(entry, rows, names)


_AS_SCORED = {"first": "sink", "previous": "previous", "itself": "diagonal"}


@torch.no_grad()
def _by_rows(
    entry: Entry, rows: Int[Tensor, " rows"], names: Int[Tensor, " tokens"] | None
) -> dict[str, Float[Tensor, " heads"]]:
    """What is near, and what is the same token: sums over whole rows, a block of them at a time."""
    _, heads, _, keys = entry.shape
    device = entry.matrix.device
    columns, own = torch.arange(keys, device=device), None if names is None else names.to(device)
    # Sums stay on the device until the end: waiting for it block by block is what would take time on a GPU.
    local, same = torch.zeros(2, heads, device=device)
    repeated = torch.zeros((), dtype=torch.long, device=device)
    size = max(_AT_ONCE // (heads * keys), 1)
    for block in torch.split(rows.to(device), size):
        weights = entry.matrix[0, :, block].float()
        near = (columns - block[:, None]).abs() <= _LOCAL
        local += weights.flatten(1) @ near.flatten().float()
        if own is not None:
            alike = (own == own[block][:, None]) & (columns != block[:, None])
            if entry.kind == "decoder":
                alike &= columns < block[:, None]
            same += weights.flatten(1) @ alike.flatten().float()
            repeated += alike.any(-1).sum()
    found = {"local": local.cpu() / max(len(rows), 1)}
    return found | ({"same": same.cpu() / int(repeated)} if int(repeated) else {})


# What was written


@dataclass(frozen=True, eq=False)
class _Text:
    """A text of which the model wrote the tokens from `start` on; `context` of its first tokens are the context."""

    start: int
    context: int
    ids: Int[Tensor, " tokens"] | None  # one more than there are rows, if the last written token is known
    needle: range | None
    written: int

    @classmethod
    def of(
        cls, entries: Sequence[Entry], context: int | Place | None, needle: Place | None, ids: Tensor | None
    ) -> _Text | None:
        own = [entry for entry in entries if entry.kind == "decoder" and entry.shape[2] <= entry.shape[3]]
        entry = own[0] if own else None
        if entry is None or (context is None and entry.calls == 1):
            if needle is not None or context is not None:
                raise InputError("retrieval and lookback need a decoder that looks at all of its own text.")
            return None
        side, rows = key_side(entry), entry.shape[3]
        start = rows - entry.calls + 1 if entry.calls > 1 else None  # a generation: its first call read the prompt
        if context is None:
            count = start or 0
        elif isinstance(context, int):
            count = context
        else:
            count = side.find(context).stop
        if not 0 < count < rows:
            raise InputError(f"the context is from 1 to {rows - 1} of the {rows} tokens. Got {count}.")
        known = entry.key_ids if ids is None else ids.cpu()
        if known is not None:
            fits = known.shape[-1] in (rows, rows + 1)
            if not fits:
                raise InputError(
                    f"ids are those of the {rows} tokens, or {rows + 1} with the last one written. "
                    f"Got {tuple(known.shape)}."
                )
            known = known if known.dim() == 1 else known[0]
        begin = count if start is None else start
        if begin - 1 < rows - entry.shape[2]:
            raise InputError(
                f"the rows of the last {entry.shape[2]} tokens were kept, but {rows - begin + 1} wrote: watch with "
                "more."
            )
        span = None if needle is None else _before(side, needle, begin)
        written = (rows if known is None else len(known)) - begin
        return cls(begin, count, known, span, written)


def _before(side: Tokens, needle: Place, stop: int) -> range:
    """Where a needle lies in what was read: that it was also written is no other place of it."""
    places = [place for place in side.find_all(needle) if place.start < stop]
    if len(places) != 1:
        return side.find(needle)  # raises: it says where the places are
    return places[0]


@torch.no_grad()
def _of_writing(entry: Entry, text: _Text | None) -> tuple[Tensor | None, Tensor | None]:
    """Retrieval (heads), and lookback (heads, steps): of the rows that wrote a token."""
    missing = entry.shape[3] - entry.shape[2]  # rows that were not kept
    if text is None or entry.kind != "decoder" or not 0 <= missing < text.start:
        return None, None
    part = entry.matrix.part[:, :, text.start - 1 - missing :]
    retrieval = None
    if text.ids is not None:
        steps = len(text.ids) - text.start
        looked = part.top(1).keys[0, :, :steps, 0].cpu()
        copied = (text.ids[looked.clamp_min(0)] == text.ids[text.start :]) & (looked >= 0)
        if text.needle is None:
            retrieval = copied.float().mean(-1)
        else:
            inside = (looked >= text.needle.start) & (looked < text.needle.stop)
            retrieval = (copied & inside).float().sum(-1) / len(text.needle)
    context = torch.arange(entry.shape[3]) < text.context
    kinds = torch.stack([context, ~context], -1)
    given = (part @ kinds.to(device=part.device, dtype=part.dtype))[0].float().cpu()  # (heads, steps, 2)
    counts = kinds.cumsum(0)[text.start - 1 :]  # tokens of each kind that each row sees
    means = given / counts  # 0 / 0 is nan: nothing of its own is there yet
    return retrieval, means[..., 0] / means.sum(-1)
