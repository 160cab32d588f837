"""The kept picture of a matrix that may grow: sums over bins of 1, 2, 4, … tokens.

`AttentionMatrix.pool` cuts a side into nearly equal bins, so each further token moves all of their edges. The bins of a
kept picture have a fixed size, the smallest power of two for which 256 bins are enough: bin i of a side has the tokens
from i × size up to (i + 1) × size, the last bin those that are left, and a number of the picture is the mean of all
weights in its bin. When a text outgrows its 256 bins, every two of them become one. So what was summed before a step
and what the step adds have the same edges, and the picture of a generation is that of the whole matrix.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypedDict

import torch
from torch import Tensor
from torch.nn import functional

from regard.errors import InputError
from regard.matrix import AttentionMatrix, Top
from regard.support import Float

__all__ = [
    "BINS",
    "REDUCTIONS",
    "Growing",
    "Keep",
    "PoolSums",
    "Reductions",
    "bin_size",
    "extend",
    "finished",
    "of_text",
    "pool_of_text",
    "pool_sums",
    "reduce",
    "select_heads",
    "to_keep",
    "whole_bins",
]

BINS = 256  # of a side, at most


def bin_size(tokens: int) -> int:
    """The number of tokens in a bin: 1, 2, 4, …

    >>> bin_size(256), bin_size(257), bin_size(16_384), bin_size(16_385)
    (1, 2, 64, 128)
    """
    size = 1
    while tokens > BINS * size:
        size *= 2
    return size


@dataclass(frozen=True, eq=False)
class PoolSums:
    """The sum of the weights in each bin, of a matrix of queries × keys."""

    sums: Float[Tensor, "batch heads rows columns"]
    queries: int
    keys: int

    def mean(self) -> Float[Tensor, "batch heads rows columns"]:
        """The picture: the mean of the weights in each bin."""
        rows, columns = (_counts(tokens, self.sums) for tokens in (self.queries, self.keys))
        return self.sums / (rows[:, None] * columns)

    def plus(self, other: PoolSums) -> PoolSums:
        """Of both together, where the other is of the larger matrix and this one is 0 outside of its own."""
        sums = self.sums
        for axis, (before, now) in ((-2, (self.queries, other.queries)), (-1, (self.keys, other.keys))):
            for _ in range((bin_size(now) // bin_size(before)).bit_length() - 1):
                sums = _every_two(sums, axis)
        rows, columns = other.sums.shape[-2:]
        grown = functional.pad(sums, (0, columns - sums.shape[-1], 0, rows - sums.shape[-2]))
        return PoolSums(grown + other.sums, other.queries, other.keys)


def whole_bins(queries: range, keys: range) -> tuple[int, int] | None:
    """How many bins these queries and keys fill or lie in; None where some of them fill bins and others do not.

    >>> whole_bins(range(512), range(512)), whole_bins(range(512, 513), range(600)), whole_bins(range(600), range(601))
    ((256, 256), (1, 150), None)
    """
    rows, columns = list(_runs(queries)), list(_runs(keys))
    return (rows[0].bins, columns[0].bins) if len(rows) == len(columns) == 1 else None


def pool_sums(matrix: AttentionMatrix, queries: range, keys: range, pooled: Tensor | None = None) -> PoolSums:
    """Of a matrix whose rows and columns are these, the last ones, of a larger one that is 0 elsewhere.

    `pooled`: the matrix in its `whole_bins`, where it has been computed.

    >>> A = AttentionMatrix(torch.zeros(1, 1, 2, 4), torch.zeros(1, 1, 5, 4))
    >>> pool_sums(A, range(3, 5), range(5)).mean()[0, 0, 2:, 0]
    tensor([0.0000, 0.2000, 0.2000])
    """
    sums: Tensor | None = None
    for row in _runs(queries):
        for column in _runs(keys):
            part = pooled
            if part is None:
                part = matrix.part[..., row.tokens, column.tokens].pool(row.bins, column.bins)
            if sums is None:
                sums = part.new_zeros(*matrix.shape[:-2], _bins(queries.stop), _bins(keys.stop))
            rows, columns = (slice(run.first, run.first + run.bins) for run in (row, column))
            sums[..., rows, columns] = part * (row.size * column.size)
    assert sums is not None
    return PoolSums(sums, queries.stop, keys.stop)


def pool_of_text(
    pool: Float[Tensor, "batch heads rows columns"], queries: Sequence[int], keys: Sequence[int], shape: tuple[int, int]
) -> Tensor:
    """A picture of a padded matrix, as that of the queries and keys which are no padding; what padding gives is 0."""
    for axis, places, tokens in ((-2, queries, shape[0]), (-1, keys, shape[1])):
        size = bin_size(tokens)
        own = torch.bincount(torch.tensor(places) // size, minlength=_bins(tokens))
        bins = own.nonzero().flatten().to(pool.device)
        scale = (_counts(tokens, pool) / own.to(pool))[bins]
        pool = pool.index_select(axis, bins) * (scale[:, None] if axis == -2 else scale)
    return pool


class _Run(NamedTuple):
    """Tokens of a matrix that fill whole bins, or lie in a single one."""

    tokens: slice
    first: int  # the first bin
    bins: int
    size: int  # tokens in each bin


def _runs(tokens: range) -> Iterator[_Run]:
    """These tokens of a text that ends with them, cut at the edges of the bins: a rest, whole bins, a rest."""
    size, begin = bin_size(tokens.stop), tokens.start
    first_edge = min(-(-tokens.start // size) * size, tokens.stop)
    last_edge = max(tokens.stop // size * size, first_edge)
    for start, stop in ((begin, first_edge), (first_edge, last_edge), (last_edge, tokens.stop)):
        if start < stop:
            bins = max((stop - start) // size, 1)
            yield _Run(slice(start - begin, stop - begin), start // size, bins, (stop - start) // bins)


def _bins(tokens: int) -> int:
    return -(-tokens // bin_size(tokens))


def _counts(tokens: int, like: Tensor) -> Tensor:
    """How many tokens each bin of a side has."""
    size = bin_size(tokens)
    edges = torch.arange(0, tokens, size, device=like.device, dtype=like.dtype)
    return (tokens - edges).clamp_max(size)


def _every_two(sums: Tensor, axis: int) -> Tensor:
    """Every two bins of a side as one."""
    if sums.shape[axis] % 2:
        sums = functional.pad(sums, (0, 0, 0, 1) if axis == -2 else (0, 1))
    first, second = (slice(start, None, 2) for start in (0, 1))
    return sums[..., first, :] + sums[..., second, :] if axis == -2 else sums[..., first] + sums[..., second]


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
