"""`Record`: the attention of a model, by module name, and the questions that can be asked of it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING

from torch import Tensor, nn

from regard.errors import InputError, WatchError
from regard.support import Float, some_of
from regard.watching import storage
from regard.watching.check import Check, compare
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

__all__ = ["Record"]


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
        result = compare(list(self.values()), rows)
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
