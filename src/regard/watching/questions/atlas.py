"""`Atlas`: what every head does, in a role of a few words and in numbers, from one watched pass.

The role of a head is measured on at most 32 of its rows, evenly spaced: rows that see at least three keys. The weight
of a role is the mean over these rows of what they give to its keys. `ROLES` defines the roles.

A head has the role of the largest weight that is at least 40 %, and at least twice what attention of equal weights
would give to the same keys; of equal weights, the first in `ROLES`. The last five roles are only for heads without
another role. In cross-attention, rows and keys are different texts, so no role compares their places.

The numbers of self-attention are means over the tokens from the second on, as in `Record.scores`:

first       what goes to the first token, where many heads rest
previous    to the token before
itself      to the token itself
same        to other places of the same token, over the tokens that have one
induction   to the token after the last earlier place of the same token, over the tokens that have one
local       to the 16 tokens before, the 16 after and itself: 1 is a local head, 0 a global head

Where the model wrote something, two more numbers are means over the written tokens:

retrieval   the share of written tokens at which the head looks most at the very token that is then written (Wu and
            others, 2024). With a needle, only tokens copied from it count, as a share of its length
lookback    the mean weight of a token of the context, over that and the mean weight of a written token (Chuang and
            others, 2024)

No array has queries × keys numbers: `same`, `local` and the roles need whole rows, and are measured on at most 256.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from regard.drawing import Picture
from regard.drawing.all_layers import head_map
from regard.drawing.terminal import html_table, percent
from regard.errors import InputError
from regard.support import Bool, Float, Int, one_of, progress
from regard.watching.questions.looks import Answer, Head, Heads, habit_weights, key_side, ranked, token_numbers
from regard.watching.questions.sinks import Aside, find_sinks, named
from regard.watching.record.entries import Entry, shown
from regard.watching.record.tokens import Place

ROLES = {
    "all alike": "nearly equal weights: the entropy of the rows is at least 95 % of the largest possible",
    "(a sink)": "an attention sink: a token on which weight rests that the other words do not need",
    "first token": "the first token of the text",
    "previous token": "the token before the one that looks",
    "next token": "the token after the one that looks",
    "itself": "the token that looks",
    "same word": "other places of the same token, over the tokens that have one",
    "after same word": "what came after the last earlier place of the same token (induction), where there is one",
    "punctuation": "tokens without a letter or a digit",
    "nearby tokens": "up to three places away on either side; at least 80 %",
    "one at a time": "one token that is another for each row: the mean of the largest weights is at least 60 %",
    "local": "two thirds of what does not go to the first token go to the tokens around",
    "global": "two thirds of what does not go to the first token go further away",
    "too short to tell": "no token sees three tokens",
    "mixed": "none of these has enough weight",
}  # keys whose weight each role measures; a sink has its name before "(a sink)", or is the "first token"
_AT_ONCE = 1 << 24  # weights computed at once
_SAMPLED, _KEYS = 32, 3  # rows that a role is measured on; keys that such a row must see
_EVEN, _LEAST, _WIDE, _ONE, _TIMES_EQUAL = 0.95, 0.4, 0.8, 0.6, 2.0
_NEAR, _LOCAL = 3, 16  # tokens on either side: "nearby tokens", and the number `local`
_ROWS = 256  # rows that `same` and `local` are measured on
_TWO_THIRDS, _LONG = 2 / 3, 64  # the weight that makes a head local or global, in a text of at least so many tokens
_RETRIEVES = 0.1  # from here on Wu and others call it a retrieval head
_LISTED, _TABLED = 3, 20  # heads of a role that are printed; rows of a table in a notebook
_NUMBERS = ("first", "previous", "itself", "same", "induction", "local", "retrieval", "lookback")


class Habits(NamedTuple):
    """A head: its module, layer, number and kind, its role with the weight of the role, and its numbers.

    A number is nan where it has no meaning: in cross-attention, without a repeated token, or where nothing was written.
    """

    name: str
    layer: int
    head: int
    kind: str
    role: str
    weight: float
    first: float
    previous: float
    itself: float
    same: float
    induction: float
    local: float
    retrieval: float
    lookback: float

    @property
    def _numbers(self) -> dict[str, float]:
        """Its numbers by name, without those that have no meaning."""
        return {name: number for name in _NUMBERS if not math.isnan(number := getattr(self, name))}


@dataclass(frozen=True, eq=False, repr=False)
class Atlas(Answer[Habits]):
    """All heads of a record, in order of their layers; `by` ranks them, `picture` shows and names them.

    Args:
        items: The heads.
        tokens: How many tokens the text has.
        written: How many of them the model wrote.
        lookback_steps: The lookback ratio of each head at each written token, nan before there is an earlier one.
    """

    items: tuple[Habits, ...]
    tokens: int
    written: int = 0
    lookback_steps: Float[Tensor, "heads steps"] | None = None

    def by(self, number: str) -> Heads:
        """Rank the heads by one of their numbers, the largest first, without the heads where it is nan."""
        one_of("number", number, _NUMBERS)
        heads = (Head(h.name, h.layer, h.head, h._numbers[number]) for h in self if number in h._numbers)
        return Heads(number, ranked(heads))

    def _about(self) -> str:
        wrote = f", {self.written:,} of them written" if self.written else ""
        return f"{len(self)} head{'s' * (len(self) != 1)} on {self.tokens:,} tokens{wrote}"

    def __str__(self) -> str:
        groups: dict[str, list[tuple[float, Habits]]] = {}
        for h in ranked(self):
            groups.setdefault(h.role, []).append((h.weight, h))
        # The most frequent role first, "mixed" and "retrieval" last.
        groups = dict(sorted(groups.items(), key=lambda group: (group[0] == "mixed", -len(group[1]))))
        retrieving = sorted((h for h in self if h.retrieval >= _RETRIEVES), key=lambda h: -h.retrieval)
        groups |= {"retrieval": [(h.retrieval, h) for h in retrieving]} if retrieving else {}
        lines = [self._about()]
        width = max(map(len, groups), default=0)
        for name, heads in groups.items():
            listed = ", ".join(f"{h.layer}·{h.head} {percent(weight)}" for weight, h in heads[:_LISTED] if weight)
            more = " …" if listed and len(heads) > _LISTED else ""
            lines.append(f"{name:<{width}} {len(heads):>4}   {listed}{more}".rstrip())
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        numbers = [name for name in _NUMBERS if any(name in h._numbers for h in self)]
        rows = [(h.layer, h.head, h.role, h.weight, *map(h._numbers.get, numbers)) for h in self[:_TABLED]]
        columns = ("layer", "head", "role", "weight", *numbers)
        return html_table(rows, columns, caption=self._about(), more=len(self) - _TABLED)

    def picture(self, title: str = "") -> Picture:
        """Draw every head as a cell, layer by layer, in the colour of its role, with the names of the roles beside."""
        groups: dict[tuple[str, int], list[Habits]] = {}
        for h in self:
            groups.setdefault((h.kind, h.layer), []).append(h)
        kinds = list(dict.fromkeys(h.kind for h in self))
        groups = dict(sorted(groups.items(), key=lambda group: (kinds.index(group[0][0]), group[0][1])))
        rows = list(groups.values())
        return head_map(
            [[h.role for h in row] for row in rows],
            [[h.weight for h in row] for row in rows],
            rows=[f"{kind} {layer}" if len(kinds) > 1 else f"layer {layer}" for kind, layer in groups],
            hints=[[_hint(h) for h in row] for row in rows],
            framed=[[h.retrieval >= _RETRIEVES for h in row] for row in rows],
            frame="retrieval",
            title=title,
            caption=f"{self._about()}. Fainter: a smaller weight. Hover shows the numbers.",
        )


def _hint(h: Habits) -> str:
    listed = ", ".join(f"{name} {percent(number)}" for name, number in h._numbers.items())
    return "\n".join([f"layer {h.layer}, head {h.head}: {h.role}, {percent(h.weight)}", listed, h.name])


def atlas(entries: Sequence[Entry], context: int | Place | None, needle: Place | None, ids: Tensor | None) -> Atlas:
    """Answer `Record.atlas`: the roles and the numbers of all heads of these entries."""
    heads: list[Habits] = []
    steps: list[Tensor] = []
    text = _written_text(entries, context, needle, ids)
    with progress("drawing up the atlas", total=len(entries)) as advance:
        for entry, entry_roles in zip(entries, roles(entries), strict=True):
            numbers = dict.fromkeys(_NUMBERS, torch.full((entry.shape[1],), torch.nan))
            numbers |= _text_numbers(entry) | _writing_numbers(entry, text)
            if numbers["lookback"].dim() == 2:  # (heads, steps)
                steps.append(numbers["lookback"])
                numbers["lookback"] = numbers["lookback"].nanmean(-1)
            columns = zip(*(numbers[name].tolist() for name in _NUMBERS), strict=True)
            for head, role, row in zip(entry.heads, entry_roles, columns, strict=True):
                habits = Habits(entry.name, entry.layer, head, entry.kind, role.name, role.weight, *row)
                if entry.shape[3] >= _LONG:
                    name, weight = _near_or_far(role, habits.local, habits.first)
                    habits = habits._replace(role=name, weight=weight)
                heads.append(habits)
            advance(1)
    tokens = max(entry.shape[3] if entry.kind != "cross" else entry.shape[2] for entry in entries)
    return Atlas(tuple(heads), tokens, 0 if text is None else text.written, torch.cat(steps) if steps else None)


def _near_or_far(role: Role, local: float, first: float) -> Role:
    """Name a mixed head "local" or "global"; what rests on the first token does not count."""
    if role.name != "mixed" or math.isnan(local) or first > 0.99:
        return role
    near = min(local / (1 - first), 1.0)
    if near >= _TWO_THIRDS:
        return Role("local", near)
    return Role("global", 1 - near) if near <= 1 - _TWO_THIRDS else role


# The roles


class Role(NamedTuple):
    """What a head does, and its weight."""

    name: str
    weight: float


class _Candidate(NamedTuple):
    """A role, its keys (rows without such a key do not count), and the least weight that makes it the role.

    The last candidate is only for heads without another role.
    """

    name: str
    keys: Bool[Tensor, "rows keys"]
    least: float = _LEAST
    is_last: bool = False


def roles(entries: Sequence[Entry]) -> list[list[Role]]:
    """Return the role of each head of each entry."""
    alike: dict[tuple[object, ...], list[Entry]] = {}
    for entry in entries:
        alike.setdefault((entry.kind, entry.shape[2:]), []).append(entry)
    sinks: dict[tuple[object, ...], tuple[Aside, ...]] = {}
    for which, group in alike.items():
        keys = key_side(group[0])
        places = find_sinks(group, keys)
        sinks[which] = named(places, [0.0] * len(places), keys)
    return [_roles_of_entry(entry, sinks[entry.kind, entry.shape[2:]]) for entry in entries]


@torch.no_grad()
def _roles_of_entry(entry: Entry, sinks: Sequence[Aside]) -> list[Role]:
    _, heads, queries, keys = entry.shape
    step = max(-(-queries // _SAMPLED), 1)
    seen = shown(entry, range(0, queries, step), range(keys))
    counted = seen.sum(-1) >= _KEYS
    places = torch.arange(0, queries, step, device=seen.device)[counted]
    if not len(places):
        return [Role("too short to tell", 0.0)] * heads
    seen = seen[counted]
    candidates = _candidates(entry, places, seen, sinks)
    entry_roles: list[Role] = []
    for block in torch.split(torch.arange(heads), max(_AT_ONCE // (len(places) * keys), 1)):
        rows = entry.matrix.part[0, int(block[0]) : int(block[-1]) + 1, ::step]
        entry_roles += roles_of_heads(rows.to_dense().float()[:, counted], seen, candidates)
    return entry_roles


def _candidates(
    entry: Entry, places: Int[Tensor, " rows"], seen: Bool[Tensor, "rows keys"], sinks: Sequence[Aside]
) -> list[_Candidate]:
    keys = key_side(entry)
    columns = torch.arange(len(keys), device=seen.device)
    names = {sink.position: f"{sink.name} (a sink)" for sink in sinks} | {0: "first token"}
    candidates = [_Candidate(name, (columns == position) & seen) for position, name in names.items()]
    same_text = entry.kind != "cross" and entry.shape[2] == entry.shape[3]
    away = columns - places[:, None]
    if same_text:
        for name, distance in (("previous token", -1), ("next token", 1), ("itself", 0)):
            candidates.append(_Candidate(name, (away == distance) & seen))
        if (tokens := token_numbers(entry)) is not None:
            tokens = tokens.to(seen.device)
            same = (tokens == tokens[places][:, None]) & (columns != places[:, None])
            before = torch.where(same & (columns < places[:, None]), columns, -1).amax(-1)  # the last earlier place
            after = (columns == before[:, None] + 1) & (before >= 0)[:, None] & (columns != places[:, None])
            candidates.append(_Candidate("same word", same & seen))
            candidates.append(_Candidate("after same word", after & seen))
    blank = [not any(letter.isalnum() for letter in piece) for piece in keys] if keys.named else []
    if any(blank):
        candidates.append(_Candidate("punctuation", torch.tensor(blank, device=seen.device) & seen))
    if same_text:
        candidates.append(_Candidate("nearby tokens", (away.abs() <= _NEAR) & seen, _WIDE, is_last=True))
    return candidates


def roles_of_heads(
    weights: Float[Tensor, "heads rows keys"], seen: Bool[Tensor, "rows keys"], candidates: Sequence[_Candidate]
) -> list[Role]:
    """Return the role of each head, from some of its rows, the keys that each row sees, and the candidates in order.

    >>> everywhere = torch.ones(2, 4, dtype=torch.bool)
    >>> roles_of_heads(torch.full((1, 2, 4), 0.25), everywhere, [])
    [Role(name='all alike', weight=1.0)]
    """
    count = seen.sum(-1)
    entropy = (-(weights * weights.clamp_min(1e-30).log()).sum(-1) / count.log()).mean(-1)
    largest = weights.amax(-1).mean(-1)
    kept: list[_Candidate] = []
    shares: list[Tensor] = []
    for candidate in candidates:
        counted = candidate.keys.any(-1)
        if int(counted.sum()) < 2:  # one row is no habit
            continue
        equal = float((candidate.keys.sum(-1) / count)[counted].mean())
        kept.append(candidate._replace(least=max(candidate.least, _TIMES_EQUAL * equal)))
        shares.append(weights.flatten(1) @ candidate.keys.flatten().to(weights.dtype) / counted.sum())
    # All numbers leave the device together: on a GPU, each wait takes longer than the arithmetic.
    numbers = torch.stack([entropy, largest, *shares], -1).tolist()
    one = max(_ONE, _TIMES_EQUAL / int(count.min()))
    of_heads: list[Role] = []
    for even, most, *row in numbers:
        best = Role("mixed", 0.0)
        for (name, _, least, is_last), share in zip(kept, row, strict=True):
            if share >= least and share > best.weight + 1e-6 and not (is_last and best.weight):
                best = Role(name, share)
        if even >= _EVEN:
            best = Role("all alike", min(even, 1.0))
        elif best.weight == 0 and most >= one:
            best = Role("one at a time", most)
        of_heads.append(best)
    return of_heads


# The numbers: where tokens look in their text


def _text_numbers(entry: Entry) -> dict[str, Float[Tensor, " heads"]]:
    if entry.kind == "cross" or entry.shape[2] != entry.shape[3]:
        return {}
    habits = {"first": "sink", "previous": "previous", "itself": "diagonal"}
    numbers = {name: habit_weights(entry, habit) for name, habit in habits.items()}
    tokens = token_numbers(entry)
    if tokens is not None and len(set(tokens.tolist())) < len(tokens):
        numbers["induction"] = habit_weights(entry, "induction")
    rows = torch.arange(1, entry.shape[2])
    return numbers | _by_rows(entry, rows[:: max(-(-len(rows) // _ROWS), 1)], tokens)


@torch.no_grad()
def _by_rows(
    entry: Entry, rows: Int[Tensor, " rows"], tokens: Int[Tensor, " tokens"] | None
) -> dict[str, Float[Tensor, " heads"]]:
    """Return `local` and `same`: sums over whole rows, a block of rows at a time."""
    _, heads, _, keys = entry.shape
    device = entry.matrix.device
    columns, tokens = torch.arange(keys, device=device), None if tokens is None else tokens.to(device)
    # Sums stay on the device until the end: on a GPU, waiting for each block would take longer than the arithmetic.
    local, same = torch.zeros(2, heads, device=device)
    repeated = torch.zeros((), dtype=torch.long, device=device)
    for block in torch.split(rows.to(device), max(_AT_ONCE // (heads * keys), 1)):
        weights = entry.matrix[0, :, block].float()
        near = (columns - block[:, None]).abs() <= _LOCAL
        local += weights.flatten(1) @ near.flatten().float()
        if tokens is not None:
            alike = (tokens == tokens[block][:, None]) & (columns != block[:, None])
            if entry.kind == "decoder":
                alike &= columns < block[:, None]
            same += weights.flatten(1) @ alike.flatten().float()
            repeated += alike.any(-1).sum()
    numbers = {"local": local.cpu() / max(len(rows), 1)}
    return numbers | ({"same": same.cpu() / int(repeated)} if int(repeated) else {})


# The numbers: what was written


@dataclass(frozen=True, eq=False)
class _WrittenText:
    """A text of which the model wrote the tokens from `start` on; its first `context` tokens are the context."""

    start: int
    context: int
    ids: Int[Tensor, " tokens"] | None  # one more than there are rows, if the last written token is known
    needle: range | None
    written: int


def _written_text(
    entries: Sequence[Entry], context: int | Place | None, needle: Place | None, ids: Tensor | None
) -> _WrittenText | None:
    entry = next((e for e in entries if e.kind == "decoder" and e.shape[2] <= e.shape[3]), None)
    if entry is None or (context is None and entry.calls == 1):
        if needle is not None or context is not None:
            raise InputError("retrieval and lookback need a decoder that looks at all of its own text.")
        return None
    side, tokens = key_side(entry), entry.shape[3]
    prompt = tokens - entry.calls + 1 if entry.calls > 1 else None  # a generation: its first call read the prompt
    count = prompt or 0
    if context is not None:
        count = context if isinstance(context, int) else side.find(context).stop
    if not 0 < count < tokens:
        raise InputError(f"the context is from 1 to {tokens - 1} of the {tokens} tokens. Got {count}.")
    known = entry.key_ids if ids is None else ids.cpu()
    if known is not None and known.shape[-1] not in (tokens, tokens + 1):
        raise InputError(
            f"ids are those of the {tokens} tokens, or {tokens + 1} with the last one written. "
            f"Got {tuple(known.shape)}."
        )
    known = known[0] if known is not None and known.dim() > 1 else known
    start = count if prompt is None else prompt
    if start - 1 < tokens - entry.shape[2]:
        raise InputError(
            f"the rows of the last {entry.shape[2]} tokens were kept, but {tokens - start + 1} tokens were "
            "written: watch with more rows."
        )
    span: range | None = None
    if needle is not None:  # where the model wrote it again does not count
        places = [place for place in side.find_all(needle) if place.start < start]
        span = places[0] if len(places) == 1 else side.find(needle)  # which raises, and says where the places are
    return _WrittenText(start, count, known, span, (tokens if known is None else len(known)) - start)


@torch.no_grad()
def _writing_numbers(entry: Entry, text: _WrittenText | None) -> dict[str, Tensor]:
    """Return `retrieval` (heads), and `lookback` (heads, steps): of the rows that wrote a token."""
    dropped = entry.shape[3] - entry.shape[2]  # rows that were not kept
    if text is None or entry.kind != "decoder" or not 0 <= dropped < text.start:
        return {}
    part = entry.matrix.part[:, :, text.start - 1 - dropped :]
    numbers: dict[str, Tensor] = {}
    if text.ids is not None:
        steps = len(text.ids) - text.start
        looked = part.top(1).keys[0, :, :steps, 0].cpu()
        copied = (text.ids[looked.clamp_min(0)] == text.ids[text.start :]) & (looked >= 0)
        if text.needle is None:
            numbers["retrieval"] = copied.float().mean(-1)
        else:
            inside = (looked >= text.needle.start) & (looked < text.needle.stop)
            numbers["retrieval"] = (copied & inside).float().sum(-1) / len(text.needle)
    context = torch.arange(entry.shape[3]) < text.context
    kinds = torch.stack([context, ~context], -1)
    sums = (part @ kinds.to(device=part.device, dtype=part.dtype))[0].float().cpu()  # (heads, steps, 2)
    counts = kinds.cumsum(0)[text.start - 1 :]  # tokens of each kind that each row sees
    means = sums / counts  # 0 / 0 is nan: no written token is there yet
    return numbers | {"lookback": means[..., 0] / means.sum(-1)}
