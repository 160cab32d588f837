"""What `keep=` can store instead of the matrix: received, entropy, pool and top, in as few passes as possible."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple, TypedDict

import torch
from torch import Tensor
from torch.nn import functional

from regard.errors import InputError
from regard.matrix import AttentionMatrix, Top
from regard.watching.record.pooling import PoolSums, pool_of_text, pool_sums, whole_bins

__all__ = ["REDUCTIONS", "Growing", "Keep", "Reductions", "extend", "finished", "of_text", "reduce", "select_heads",
           "to_keep"]  # fmt: skip

REDUCTIONS = ("received", "entropy", "pool", "top")
_TOP = 8  # keys stored for each query


class Reductions(TypedDict, total=False):
    """Some reductions of one matrix, in the order of `REDUCTIONS`; what was not asked for is absent."""

    received: Tensor  # (batch, heads, keys)
    entropy: Tensor  # (batch, heads, queries)
    pool: Tensor  # (batch, heads, rows, columns), in the bins of pooling.py
    top: Top


class Growing(TypedDict, total=False):
    """The same of a text that may still grow."""

    received: Tensor
    entropy: Tensor
    pool: PoolSums
    top: Top


class Keep(NamedTuple):
    """What is kept of each matrix: reductions, perhaps none at all, or the matrix itself and what goes with it."""

    reductions: tuple[str, ...] | None = None  # None: the matrix
    values: bool = False
    gradients: bool = False
    graph: bool = False  # the matrix stays a part of the autograd graph
    rows: int | None = None  # of the matrix, so many last ones of a text and all that come later; None: all

    @property
    def nothing(self) -> bool:
        """Whether nothing is recorded."""
        return self.reductions == ()


def to_keep(keep: str | int | Collection[str]) -> Keep:
    """What `keep=` asks for.

    >>> to_keep("matrix") == Keep(), to_keep(["top"]) == Keep(("top",))
    (True, True)
    >>> to_keep(["matrix", "value"]) == Keep(values=True), to_keep(64) == Keep(rows=64)
    (True, True)
    """
    if isinstance(keep, int):
        if keep < 1 or isinstance(keep, bool):
            raise InputError(f"keep takes a number of rows from 1 on. Got {keep!r}.")
        return Keep(rows=keep)
    if keep == "summary":
        return Keep(REDUCTIONS[:3])
    names = {keep} if isinstance(keep, str) else set(keep)
    if names & {"matrix", "graph"} and names <= {"matrix", "value", "gradient", "graph"}:
        return Keep(None, "value" in names or "gradient" in names, "gradient" in names, "graph" in names)
    if names - set(REDUCTIONS):
        raise InputError(
            'keep must be "matrix" or "graph", with it "value" and "gradient" if you like; "summary"; a number of '
            f"rows; () for nothing; or some of {', '.join(map(repr, REDUCTIONS))}. Got {keep!r}."
        )
    return Keep(tuple(name for name in REDUCTIONS if name in names))


def reduce(matrix: AttentionMatrix, names: Collection[str], queries: range, keys: range) -> Growing:
    """These reductions of a matrix, whose rows and columns are these queries and keys of a text.

    >>> A = AttentionMatrix(torch.zeros(1, 2, 5, 8), torch.zeros(1, 2, 5, 8))
    >>> reduce(A, ["entropy"], range(5), range(5))["entropy"].shape
    torch.Size([1, 2, 5])
    """
    k = min(_TOP, matrix.shape[-1]) if "top" in names else None
    if tuple(names) == ("received",):
        return {"received": matrix.received()}
    if tuple(names) == ("entropy",):
        return {"entropy": matrix.entropy()}
    if tuple(names) == ("top",):
        return {"top": matrix.top(k or 1)}
    bins = whole_bins(queries, keys) if "pool" in names else None
    summary = matrix.summary(top=k, pool=bins)
    result: Growing = {}
    if "received" in names:
        result["received"] = summary.received
    if "entropy" in names:
        result["entropy"] = summary.entropy
    if "pool" in names:
        result["pool"] = pool_sums(matrix, queries, keys, summary.pool)
    if summary.top is not None:
        result["top"] = summary.top
    return result


def extend(before: Growing, step: Growing, first_key: int, keys: int) -> Growing:
    """The reductions of a text and of further rows, whose keys start at `first_key` of now `keys` keys."""
    result: Growing = {}
    if "received" in before:
        received = functional.pad(before["received"], (0, keys - before["received"].shape[-1]))
        received[..., first_key : first_key + step["received"].shape[-1]] += step["received"]
        result["received"] = received
    if "entropy" in before:
        result["entropy"] = torch.cat([before["entropy"], step["entropy"]], -1)
    if "pool" in before:
        result["pool"] = before["pool"].plus(step["pool"])
    if "top" in before:
        in_text = torch.where(step["top"].keys < 0, -1, step["top"].keys + first_key)
        weights = _stack_rows(before["top"].weights, step["top"].weights, 0.0)
        result["top"] = Top(weights, _stack_rows(before["top"].keys, in_text, -1))
    return result


def finished(growing: Growing) -> Reductions:
    """The reductions of the text as it is now."""
    found: dict[str, Any] = dict(growing)
    if "pool" in growing:
        found["pool"] = growing["pool"].mean()
    return {name: found[name] for name in REDUCTIONS if name in found}  # type: ignore[return-value]


def _stack_rows(above: Tensor, below: Tensor, fill: float) -> Tensor:
    """Rows of k entries above rows of another k, the shorter ones padded."""
    k = max(above.shape[-1], below.shape[-1])
    return torch.cat([functional.pad(rows, (0, k - rows.shape[-1]), value=fill) for rows in (above, below)], -2)


def of_text(
    reductions: Reductions, sequence: int, queries: Sequence[int], keys: Sequence[int], shape: tuple[int, int]
) -> Reductions:
    """Those of one text of a batch, for the queries and keys that are no padding, of `shape` with padding.

    A bin of a pool has the mean of its weights that are not of padding.
    """
    one, rows, columns = slice(sequence, sequence + 1), list(queries), list(keys)
    result: Reductions = {}
    if "received" in reductions:
        result["received"] = reductions["received"][one][..., columns]
    if "entropy" in reductions:
        result["entropy"] = reductions["entropy"][one][..., rows]
    if "pool" in reductions:
        result["pool"] = pool_of_text(reductions["pool"][one], rows, columns, shape)
    if "top" in reductions:
        weights, places = (t[one][..., rows, : len(columns)] for t in reductions["top"])
        number = torch.full((shape[1] + 1,), -1, device=places.device)
        number[columns] = torch.arange(len(columns), device=places.device)
        result["top"] = Top(weights, number[places])
    return result


def select_heads(reductions: Reductions, heads: slice) -> Reductions:
    """The same of some heads."""
    result: Reductions = {}
    if "received" in reductions:
        result["received"] = reductions["received"][:, heads]
    if "entropy" in reductions:
        result["entropy"] = reductions["entropy"][:, heads]
    if "pool" in reductions:
        result["pool"] = reductions["pool"][:, heads]
    if "top" in reductions:
        result["top"] = Top(reductions["top"].weights[:, heads], reductions["top"].keys[:, heads])
    return result
