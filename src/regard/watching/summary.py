"""`Kept`: the reductions of a matrix that stay when the matrix itself does not."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from regard.errors import InputError, WatchError
from regard.matrix import AttentionMatrix, Top
from regard.support import Float

__all__ = ["REDUCTIONS", "Kept", "wanted"]

REDUCTIONS = ("received", "entropy", "pool", "top")
POOL, TOP = 256, 8  # bins of the kept picture; keys kept for each query


def wanted(keep: str | Collection[str]) -> tuple[str, ...] | None:
    """The reductions that `keep=` asks for; None for the matrix itself.

    >>> wanted("matrix"), wanted("summary"), wanted(["top"])
    (None, ('received', 'entropy', 'pool'), ('top',))
    """
    if keep == "matrix":
        return None
    if keep == "summary":
        return REDUCTIONS[:3]
    names = (keep,) if isinstance(keep, str) else tuple(keep)
    if not names or set(names) - set(REDUCTIONS):
        raise InputError(
            f'keep must be "matrix", "summary" or some of {", ".join(map(repr, REDUCTIONS))}. Got {keep!r}.'
        )
    return tuple(name for name in REDUCTIONS if name in names)


@dataclass(frozen=True, eq=False)
class Kept:
    """Reductions of one matrix.

    >>> import torch
    >>> A = AttentionMatrix(torch.zeros(1, 2, 5, 8), torch.zeros(1, 2, 5, 8))
    >>> Kept.of(A, ["entropy"]).entropy.shape
    torch.Size([1, 2, 5])
    """

    queries: int
    keys: int
    received: Float[Tensor, "batch heads keys"] | None = None
    entropy: Float[Tensor, "batch heads queries"] | None = None
    pool: Float[Tensor, "batch heads rows columns"] | None = None
    top: Top | None = None

    @classmethod
    def of(cls, matrix: AttentionMatrix, names: Collection[str]) -> Kept:
        """These reductions, in as few sweeps as possible."""
        queries, keys = matrix.shape[-2:]
        k = min(TOP, keys) if "top" in names else None
        if tuple(names) == ("received",):
            return cls(queries, keys, received=matrix.received())
        if tuple(names) == ("entropy",):
            return cls(queries, keys, entropy=matrix.entropy())
        if tuple(names) == ("top",):
            return cls(queries, keys, top=matrix.top(k or 1))
        seen = matrix.summary(top=k, pool=POOL if "pool" in names else None)
        return cls(
            queries,
            keys,
            seen.received if "received" in names else None,
            seen.entropy if "entropy" in names else None,
            seen.pool,
            seen.top,
        )

    def grown(self, step: Kept, first_key: int, keys: int) -> Kept:
        """This and a further step, whose keys begin at `first_key` of the now `keys` keys."""
        if self.pool is not None:
            raise WatchError(
                "the pooled picture of a matrix cannot grow step by step. While generating keep the matrix, or "
                'keep=("received", "entropy", "top").'
            )
        received = entropy = top = None
        if self.received is not None and step.received is not None:
            received = functional.pad(self.received, (0, keys - self.keys))
            received[..., first_key : first_key + step.keys] += step.received
        if self.entropy is not None and step.entropy is not None:
            entropy = torch.cat([self.entropy, step.entropy], -1)
        if self.top is not None and step.top is not None:
            found = torch.where(step.top.keys < 0, -1, step.top.keys + first_key)
            k = max(self.top.keys.shape[-1], found.shape[-1])
            pairs = [(self.top.weights, step.top.weights, 0.0), (self.top.keys, found, -1)]
            top = Top(*(torch.cat([functional.pad(t, (0, k - t.shape[-1]), value=v) for t in (a, b)], -2)
                        for a, b, v in pairs))  # fmt: skip
        return Kept(self.queries + step.queries, keys, received, entropy, None, top)

    def heads(self, chosen: slice) -> Kept:
        """Some of the heads."""
        top = None if self.top is None else Top(self.top.weights[:, chosen], self.top.keys[:, chosen])
        received, entropy, pool = (
            None if t is None else t[:, chosen] for t in (self.received, self.entropy, self.pool)
        )
        return Kept(self.queries, self.keys, received, entropy, pool, top)
