"""`Record`: the attention of a model, by module name, and the questions that can be asked of it."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from regard.drawing.html_table import html_table
from regard.errors import InputError, WatchError
from regard.scores import bind
from regard.support import Float, some_of
from regard.watching import storage
from regard.watching.entries import Entry, ModuleCalls, mean_over_heads
from regard.watching.pictures import picture
from regard.watching.rankings import (
    Heads,
    Looks,
    Rollout,
    Span,
    Spans,
    heads_between,
    looked_at,
    looks,
    rollout,
    scored,
    spans,
)
from regard.watching.tokens import Place

if TYPE_CHECKING:
    from regard.drawing import Picture

__all__ = ["Check", "Record"]

_ROWS = 20  # of a table in a notebook, at most


class Record(Mapping[str, Entry]):
    """A Mapping from module name to `Entry`: of the last text that the model read; `passes` has all of them.

    Questions take the mean over all heads and layers, unless `layer`, `head` or `kind` ("encoder", "decoder", "cross")
    choose some; `sequence` chooses a text of the batch.

    >>> import torch, regard
    >>> class Layer(torch.nn.Module):
    ...     heads, kind, attend = 1, "encoder", staticmethod(regard.attention)
    ...     def forward(self, x):
    ...         return self.attend(x, x, x)
    >>> with regard.watch(Layer(), tokens=["A", "dog", "ate"]) as record:
    ...     output = record.model(5 * torch.eye(3)[None, None])
    >>> print(record.looks("dog"))
    dog ━━━━━━━━━━━━━━━━━━━━ dog 100 %  ━ A 0 %  ━ ate 0 %
    """

    def __init__(
        self,
        passes: Sequence[Mapping[str, Entry | ModuleCalls]],
        model: nn.Module | None = None,
        unseen: Collection[str] = (),
    ):
        self._passes, self.model = passes, model  # a session goes on appending to both while its model runs
        self._unseen = unseen

    def __getitem__(self, name: str) -> Entry:
        entries = self._entries()
        if name not in entries:
            raise KeyError(f"{name!r} was not seen. Seen: {', '.join(entries)}")
        return entries[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries() if self._passes else ())

    def __len__(self) -> int:
        return len(self._entries()) if self._passes else 0

    def __repr__(self) -> str:
        more = f", the last of {len(self._passes)} passes" if len(self._passes) > 1 else ""
        lines = [f"Record of {len(self)} attentions{more}", *(f"  {entry!r}" for entry in self.values())]
        lines = lines if len(lines) <= 20 else [*lines[:10], "  …", *lines[-9:]]
        return "\n".join([*lines, f"  Not seen: {some_of(self._unseen)}."] if self._unseen else lines)

    def _repr_html_(self) -> str:
        rows = [
            (entry.name, entry.kind, entry.layer, *entry.shape, ", ".join(entry.keeps))
            for entry in list(self.values())[:_ROWS]
        ]
        columns = ("module", "kind", "layer", "texts", "heads", "queries", "keys", "kept")
        about = [f"{len(self)} attentions"]
        about += [f"the last of {len(self._passes)} passes"] if len(self._passes) > 1 else []
        about += [f"not seen: {some_of(self._unseen)}"] if self._unseen else []
        return html_table(rows, columns, caption=", ".join(about), more=len(self) - _ROWS)

    @property
    def unseen(self) -> tuple[str, ...]:
        """The modules that computed attention where it could not be seen: nothing here says anything about them."""
        return tuple(self._unseen)

    @property
    def passes(self) -> list[Record]:
        """One record for each text, or batch of texts, that the model read."""
        return [Record([one], self.model, self._unseen) for one in self._passes]

    def at(self, *, layer: int | None = None, head: int | slice | None = None, kind: str | None = None) -> Record:
        """The record of some layers, heads or kinds only."""
        chosen = {
            name: entry if head is None else entry.head(head)
            for name, entry in self._entries().items()
            if layer in (None, entry.layer) and kind in (None, entry.kind)
        }
        if not chosen:
            layers, kinds = ({getattr(e, what) for e in self.values()} for what in ("layer", "kind"))
            raise InputError(
                f"nothing was seen of layer = {layer}, kind = {kind}. There are layers {sorted(layers)} "
                f"and kinds {sorted(kinds)}."
            )
        return Record([chosen], self.model, self._unseen)

    # Questions

    def looks(
        self, what: Place, *, layer: int | None = None, head: int | None = None, kind: str | None = None,
        sequence: int = 0,
    ) -> Looks:  # fmt: skip
        """What a word looks at, in descending order; a word of several tokens counts as one."""
        return looks(self._comparable(layer, head, kind), what, sequence)

    def looked_at(
        self, what: Place, *, layer: int | None = None, head: int | None = None, kind: str | None = None,
        sequence: int = 0,
    ) -> Looks:  # fmt: skip
        """What looks at a word: the share that each word gives to it."""
        return looked_at(self._comparable(layer, head, kind), what, sequence)

    def heads(self, start: Place, end: Place, *, kind: str | None = None, sequence: int = 0) -> Heads:
        """The heads that look most from one word to another."""
        return heads_between(self._comparable(None, None, kind), start, end, sequence)

    def scores(self, habit: str, *, sequence: int = 0) -> Heads:
        """Heads by a habit: "sink" (look at the first token), "previous", "diagonal" (at themselves) or "induction"."""
        return scored(list(self.values()), habit, sequence)

    def spans(
        self, by: str | Mapping[str, Span], *, layer: int | None = None, head: int | None = None,
        kind: str | None = None, sequence: int = 0,
    ) -> Spans:  # fmt: skip
        """Attention between "word"s, "sentence"s, chat "message"s, or passages {name: text or token range}."""
        return spans(self._comparable(layer, head, kind), by, sequence)

    def rollout(self, what: Place, *, sequence: int = 0) -> Rollout:
        """What a word is made of down to the input, through all layers."""
        return rollout(list(self.values()), what, sequence)

    def weights(
        self, *, layer: int | None = None, head: int | None = None, kind: str | None = None, sequence: int = 0
    ) -> Float[Tensor, "queries keys"]:
        """The weights themselves, the mean over the chosen heads: for texts short enough to be drawn word by word."""
        entries = self._comparable(layer, head, kind)
        return mean_over_heads(entries, lambda entry: entry.matrix[sequence].float().sum(0).cpu())

    def pool(
        self, rows: int = 256, columns: int = 256, *, layer: int | None = None, head: int | None = None,
        kind: str | None = None, sequence: int = 0,
    ) -> Float[Tensor, "rows columns"]:  # fmt: skip
        """The weights averaged over bins, for texts of any length."""
        entries = self._comparable(layer, head, kind)
        return mean_over_heads(entries, lambda entry: entry.pool(rows, columns)[sequence].sum(0).cpu())

    def picture(
        self, drawing: str = "lines", *, word: str | int | None = None, layer: int | None = None,
        head: int | None = None, kind: str | None = None, sequence: int = 0, title: str = "",
    ) -> Picture:  # fmt: skip
        """As "lines", "matrix", "grid", "flow" or "map"; `word` is the one whose lines or flow stand out.

        >>> import torch, regard
        >>> class Layer(torch.nn.Module):
        ...     heads, kind, attend = 1, "encoder", staticmethod(regard.attention)
        ...     def forward(self, x):
        ...         return self.attend(x, x, x)
        >>> with regard.watch(Layer(), tokens=["A", "dog", "ate"]) as record:
        ...     output = record.model(torch.eye(3)[None, None])
        >>> print(record.picture("lines", word="dog"))
        dog ━━━━━━━━━━ dog 47.1 %   ━━━━━━ A 26.4 %   ━━━━━━ ate 26.4 %
        encoder, layer 0, head 0.
        """
        return picture(self._comparable(layer, head, kind), drawing, word, sequence, title, self._unseen)

    def check(self, rows: int = 16) -> Check:
        """Compare a sample of rows with the plain dense computation in float64, print the result, and return it."""
        result = _compare(list(self.values()), rows)
        print(result)
        return result

    # To a file and back

    def save(self, path: str | PathLike[str]) -> None:
        """Everything that was kept of the last pass, as safetensors."""
        storage.save(self._entries(), self.unseen, path)

    @classmethod
    def open(cls, path: str | PathLike[str]) -> Record:
        """A record as it was saved."""
        entries, unseen = storage.load(path)
        return cls([entries], unseen=unseen)

    def _entries(self) -> dict[str, Entry]:
        """The entries of the last pass, as they are now."""
        if not self._passes:
            raise WatchError("nothing was watched yet: call the model inside the `with` block.")
        last = self._passes[-1]
        return {name: item if isinstance(item, Entry) else item.entry() for name, item in last.items()}

    def _comparable(self, layer: int | None, head: int | None, kind: str | None) -> list[Entry]:
        """The chosen entries; their mean makes sense only if they have one kind and one shape."""
        entries = list(self.at(layer=layer, head=head, kind=kind).values())
        kinds = sorted({entry.kind for entry in entries})
        if len(kinds) > 1:
            raise InputError(f"the record has attention of {len(kinds)} kinds: choose kind = {' or '.join(kinds)}.")
        shapes = sorted({entry.shape[2:] for entry in entries})
        if len(shapes) > 1:
            raise InputError(f"the layers look at texts of different lengths {shapes}: choose a layer.")
        return entries


@dataclass(frozen=True)
class Check:
    """How far the weights of a record are from the dense computation, and how much was compared."""

    entries: int
    heads: int
    calls: int
    rows: int
    difference: float  # of any weight, at most
    row_sum: float  # of the sum of any row from 1 - the share of its sink, at most

    def __str__(self) -> str:
        return (
            f"{self.entries} attentions, {self.heads} heads, {self.calls} calls. "
            f"{self.rows:,} rows computed again in float64: weights differ by {self.difference:.1e} at most, "
            f"rows sum to 1 within {self.row_sum:.1e}."
        )


def _compare(entries: Sequence[Entry], rows: int) -> Check:
    """Compare some rows of every head with softmax(QKᵀ · scale + mask), written out."""
    count, difference, row_sum = 0, 0.0, 0.0
    for entry in entries:
        batch, heads, queries, _ = entry.shape
        sample = torch.linspace(0, max(queries - 1, 0), min(rows, queries)).round().long().unique()  # type: ignore[no-untyped-call]
        exact, sums = _dense_rows(entry, sample)
        ours = torch.stack([entry.matrix[:, :, row] for row in sample.tolist()], 2).double().cpu()
        difference = max(difference, float((ours - exact).abs().max()))
        row_sum = max(row_sum, float((ours.sum(-1) - sums).abs().max()))
        count += batch * heads * len(sample)
    heads = sum(entry.shape[1] for entry in entries)
    return Check(len(entries), heads, sum(entry.calls for entry in entries), count, difference, row_sum)


def _dense_rows(entry: Entry, rows: Tensor) -> tuple[Float[Tensor, "batch heads rows keys"], Tensor]:
    """The weights of these rows, and what each row sums to."""
    _ = entry.matrix  # raises where only reductions were kept
    call = entry.call
    assert call is not None
    positions = rows.to(call.query.device)
    heads = slice(entry.heads.start, entry.heads.stop)
    group = call.query.shape[1] // call.key.shape[1]
    query = call.query[:, heads].index_select(2, positions).double()
    key = call.key.repeat_interleave(group, 1)[:, heads].double()
    scores = query @ key.mT * (query.shape[-1] ** -0.5 if call.scale is None else call.scale)
    if call.softcap is not None:
        scores = call.softcap * torch.tanh(scores / call.softcap)
    shape = (*call.query.shape[:3], key.shape[2])
    mask, keys = bind(call.mask, shape, call.query.device, plain=False), range(shape[3])
    if (bias := mask.bias_tile(positions, keys)) is not None:
        scores = scores + (bias if bias.shape[1] == 1 else bias[:, heads])
    if (visible := mask.tile(positions, keys, call.query.device)) is not None:
        scores = scores.masked_fill(~(visible if visible.shape[1] == 1 else visible[:, heads]), -math.inf)
    if call.sinks is not None:
        sinks = call.sinks.double().expand(shape[0], shape[1])[:, heads, None, None]
        scores = torch.cat([scores, sinks.expand(*scores.shape[:3], 1)], -1)
    weights = torch.softmax(scores, -1).nan_to_num(0.0)  # a row that sees no key
    weights = weights if call.sinks is None else weights[..., :-1]
    return weights.cpu(), weights.sum(-1).cpu()
