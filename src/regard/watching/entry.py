"""`Entry`: the attention of one module on one text, with its words."""

from __future__ import annotations

import copy
from typing import Any

from torch import Tensor

from regard.errors import InputError, WatchError
from regard.matrix import AttentionMatrix, Parts, Top, Transposed
from regard.support import Float
from regard.watching.call import Source
from regard.watching.summary import Kept
from regard.watching.tokens import Tokens

__all__ = ["Entry"]


class Entry:
    """An `AttentionMatrix` (batch, heads, queries, keys) with its name, kind, layer, heads and tokens.

    Where the record keeps reductions only, an entry gives those, and says so when asked for more.
    """

    def __init__(
        self,
        name: str,
        kind: str,
        layer: int,
        source: Source | None,
        matrix: AttentionMatrix | None,
        kept: Kept | None,
        calls: int = 1,
    ):
        self.name, self.kind, self.layer, self.calls = name, kind, layer, calls
        self.source, self._matrix, self.kept = source, matrix, kept
        self.tokens: list[Tokens] | None = None  # of the queries, one for each sequence
        self.key_tokens: list[Tokens] | None = None  # and of the keys
        self.ids: Tensor | None = None  # the same as the model was given them
        self.key_ids: Tensor | None = None
        self._first_head = 0

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """(batch, heads, queries, keys)."""
        if self.kept is None:
            batch, heads, queries, keys = self.matrix.shape
            return batch, heads, queries, keys
        some = (self.kept.received, self.kept.entropy, self.kept.pool, self.kept.top and self.kept.top.weights)
        known = next(tensor for tensor in some if tensor is not None)
        return known.shape[0], known.shape[1], self.kept.queries, self.kept.keys

    @property
    def heads(self) -> range:
        """The numbers of its heads, as the model counts them."""
        return range(self._first_head, self._first_head + self.shape[1])

    @property
    def matrix(self) -> AttentionMatrix:
        """The attention matrix itself."""
        if self._matrix is None:
            raise self._not_kept("the matrix")
        return self._matrix

    def __repr__(self) -> str:
        batch, heads, queries, keys = self.shape
        what = "" if self.kept is None else f", keeps {', '.join(self.keeps)}"
        return (
            f"Entry({self.name}: {self.kind}, layer {self.layer}, {batch} × {heads} heads × {queries} × {keys}{what})"
        )

    @property
    def keeps(self) -> tuple[str, ...]:
        """What can be asked of it: the matrix, or the reductions that were kept."""
        if self.kept is None:
            return ("matrix",)
        return tuple(n for n in ("received", "entropy", "pool", "top") if getattr(self.kept, n) is not None)

    # What an AttentionMatrix has

    def __getitem__(self, index: Any) -> Tensor:
        return self.matrix[index]

    def __matmul__(self, value: Float[Tensor, "*any keys width"]) -> Tensor:
        return self.matrix @ value

    @property
    def mT(self) -> Transposed:
        """The transposed matrix."""
        return self.matrix.mT

    @property
    def part(self) -> Parts:
        """`entry.part[…]`: a part, still lazy."""
        return self.matrix.part

    def to_dense(self) -> Tensor:
        """All weights, if they fit in memory."""
        return self.matrix.to_dense()

    def received(self) -> Float[Tensor, "batch heads keys"]:
        """What each key receives over all queries."""
        return self.matrix.received() if self.kept is None else self._had("received")

    def entropy(self) -> Float[Tensor, "batch heads queries"]:
        """How spread out the look of each query is, in nats."""
        return self.matrix.entropy() if self.kept is None else self._had("entropy")

    def pool(self, rows: int = 256, columns: int = 256) -> Float[Tensor, "batch heads rows columns"]:
        """The whole matrix as a small picture; a kept one has the size it was kept with."""
        if self.kept is None:
            return self.matrix.pool(rows, columns)
        picture: Tensor = self._had("pool")
        if tuple(picture.shape[-2:]) != (min(rows, self.shape[2]), min(columns, self.shape[3])):
            raise InputError(f"the kept picture has {tuple(picture.shape[-2:])} bins. Got {(rows, columns)}.")
        return picture

    def top(self, k: int) -> Top:
        """The k greatest weights of each query and where they lie."""
        if self.kept is None:
            return self.matrix.top(k)
        top: Top = self._had("top")
        if k > top.keys.shape[-1]:
            raise InputError(f"{top.keys.shape[-1]} keys of each query were kept. Got k = {k}.")
        return Top(top.weights[..., :k], top.keys[..., :k])

    def head(self, head: int | slice) -> Entry:
        """The same with one head, or a run of heads."""
        count = self.shape[1]
        if isinstance(head, int):
            if head not in self.heads:
                raise InputError(f"{self.name} has heads {self.heads.start} to {self.heads.stop - 1}. Got {head}.")
            head = slice(head, head + 1)
        start, stop, step = slice(
            None if head.start is None else head.start - self._first_head,
            None if head.stop is None else head.stop - self._first_head,
            head.step,
        ).indices(count)
        if step != 1 or start >= stop:
            raise InputError(f"heads are one head or a run of them, at least one: slice(start, stop). Got {head}.")
        chosen = slice(start, stop)
        narrow = copy.copy(self)
        narrow._matrix = None if self._matrix is None else self._matrix.part[:, chosen]
        narrow.kept = None if self.kept is None else self.kept.heads(chosen)
        narrow._first_head = self._first_head + start
        return narrow

    def from_head(self, first: int) -> Entry:
        """The same, its heads counted from another number."""
        same = copy.copy(self)
        same._first_head = first
        return same

    def _had(self, name: str) -> Any:
        found = getattr(self.kept, name)
        if found is None:
            raise self._not_kept(name)
        return found

    def _not_kept(self, what: str) -> WatchError:
        return WatchError(
            f'{what} of {self.name} was not kept, only {", ".join(self.keeps)}. Watch with keep="matrix", or name it '
            'in keep=("received", "entropy", "pool", "top").'
        )
