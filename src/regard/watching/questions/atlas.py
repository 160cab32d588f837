"""`Atlas`: what every head does, in numbers and in a phrase, from one watched pass.

Of self-attention, means over the tokens from the second on, as `Record.scores` has them:

first       what goes to the first token, where many heads rest
previous    to the token before
itself      to the token itself
same        to other places of the same token, over the tokens that have one
induction   to the token after the last earlier place of the same token, over the tokens that have one
local       to the 16 tokens before, the 16 after and itself: 1 is a local head, 0 a global one

and where the model wrote something, means over what it wrote:

retrieval   the share of written tokens at which the head looks most at the very token that is then written (Wu and
            others, 2024). With a needle, only what is copied from it counts, in shares of its length: their score
lookback    the mean weight of a token of the context, over that and the mean weight of a token of the model's own
            (Chuang and others, 2024)

The role is that of roles.py; a head that has none is "local" or "global" if two thirds of what does not go to the first
token go to the tokens around, or further away, in a text of at least 64 tokens.

Nothing has queries × keys numbers: what needs whole rows (same, local and the phrase, see roles.py) is measured on at
most 256 of them, evenly spaced, and the rest takes a few numbers of each row.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, overload

import torch
from torch import Tensor

from regard.drawing.head_maps import head_map
from regard.drawing.html_table import html_table
from regard.drawing.terminal import percent
from regard.errors import InputError
from regard.support import Float, Int, one_of, progress
from regard.watching.questions.answers import Head, Heads
from regard.watching.questions.rankings import HABITS, key_side
from regard.watching.questions.roles import Role, roles, token_numbers
from regard.watching.record.entries import Entry
from regard.watching.record.tokens import Place, Tokens

if TYPE_CHECKING:
    from regard.drawing import Picture

__all__ = ["Atlas", "Habits", "draw_up"]

_LOCAL = 16  # tokens on either side
_ROWS, _WEIGHTS = 256, 1 << 24  # rows that are measured as a whole; weights of them that are computed at once
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
    size = max(_WEIGHTS // (heads * keys), 1)
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
