"""What an entry keeps: its matrix, or some reductions of it, which a generation extends step by step.

`AttentionMatrix.pool` cuts a side into nearly equal bins, so each further token moves all of their edges. The bins of a
kept pool have a fixed size instead: the smallest power of two for which 256 bins are enough. Bin i of a side has the
tokens from i × size up to (i + 1) × size, the last bin the rest, and a number of the pool is the mean of all weights in
its bin. When a text outgrows its 256 bins, every two of them are merged. So the sums before a step and the sums of the
step have the same edges, and the pool of a generation is the pool of the whole matrix.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from regard.errors import InputError
from regard.matrix import AttentionMatrix, Top
from regard.support import Float

REDUCTIONS = ("received", "entropy", "pool", "top")
BINS = 256  # of a side, at most
_TOP = 8  # keys kept for each query

# By name, in the order of REDUCTIONS: received (batch, heads, keys), entropy (batch, heads, queries),
# pool (batch, heads, rows, columns) and top, a `Top`.
Reductions = dict[str, Any]
Growing = dict[str, Any]  # the same of a text that may still grow: the pool is a `PoolSums`


class Keep(NamedTuple):
    """What is kept of each attention: reductions (perhaps none at all), or the matrix and what goes with it."""

    reductions: tuple[str, ...] | None = None  # None: the matrix
    values: bool = False
    gradients: bool = False
    graph: bool = False  # the matrix stays a part of the autograd graph
    outputs: bool = False  # the length of what each attention returned goes with the matrix
    rows: int | None = None  # only the last rows of a prompt, and all rows of later steps; None: all rows

    @property
    def nothing(self) -> bool:
        """Whether nothing is recorded."""
        return self.reductions == ()


def to_keep(keep: str | int | Collection[str]) -> Keep:
    """Read the argument `keep` of `watch`.

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
    strings = not isinstance(keep, str) and isinstance(keep, Collection) and all(isinstance(n, str) for n in keep)
    names = set(keep) if strings else {keep if isinstance(keep, str) else ""}
    if names & {"matrix", "graph"} and names <= {"matrix", "value", "gradient", "graph"}:
        return Keep(None, bool(names & {"value", "gradient"}), "gradient" in names, "graph" in names)
    if names - set(REDUCTIONS):
        raise InputError(
            'keep must be "matrix" or "graph", optionally with "value" and "gradient"; "summary"; a number of rows; () '
            f"for nothing; or some of {', '.join(map(repr, REDUCTIONS))}. Got {keep!r}."
        )
    return Keep(tuple(name for name in REDUCTIONS if name in names))


def reduce(matrix: AttentionMatrix, names: Collection[str], queries: range, keys: range) -> Growing:
    """Return these reductions of a matrix whose rows and columns are these queries and keys of a text.

    >>> A = AttentionMatrix(torch.zeros(1, 2, 5, 8), torch.zeros(1, 2, 5, 8))
    >>> reduce(A, ["entropy"], range(5), range(5))["entropy"].shape
    torch.Size([1, 2, 5])
    """
    k = min(_TOP, matrix.shape[-1]) if "top" in names else None
    if len(names) == 1 and "pool" not in names:
        (name,) = names
        return {name: matrix.top(k or 1) if name == "top" else getattr(matrix, name)()}
    summary = matrix.summary(top=k, pool=whole_bins(queries, keys) if "pool" in names else None)
    reductions = {name: getattr(summary, name) for name in names}
    if "pool" in names:
        reductions["pool"] = pool_sums(matrix, queries, keys, summary.pool)
    return reductions


def extend(before: Growing, step: Growing, first_key: int, keys: int) -> Growing:
    """Return the reductions of a text and of a step's rows, whose keys start at `first_key` of now `keys` keys."""
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


def _stack_rows(above: Tensor, below: Tensor, fill: float) -> Tensor:
    """Stack rows of different lengths, the shorter ones padded."""
    length = max(above.shape[-1], below.shape[-1])
    return torch.cat([functional.pad(rows, (0, length - rows.shape[-1]), value=fill) for rows in (above, below)], -2)


def finished(growing: Growing) -> Reductions:
    """Return the reductions of the text as it is now."""
    ordered = {name: growing[name] for name in REDUCTIONS if name in growing}
    return ordered | ({"pool": growing["pool"].mean()} if "pool" in growing else {})


def of_text(
    reductions: Reductions, sequence: int, queries: Sequence[int], keys: Sequence[int], shape: tuple[int, int]
) -> Reductions:
    """Return the reductions of one text of a batch, for its queries and keys that are not padding.

    `shape` counts queries and keys with padding. A bin of the pool has the mean of the weights that are not of padding.
    """
    one, rows, columns = slice(sequence, sequence + 1), list(queries), list(keys)
    result = {name: kept[one] for name, kept in reductions.items() if name != "top"}
    if "received" in result:
        result["received"] = result["received"][..., columns]
    if "entropy" in result:
        result["entropy"] = result["entropy"][..., rows]
    if "pool" in result:
        result["pool"] = pool_of_text(result["pool"], rows, columns, shape)
    if "top" in reductions:
        weights, places = (part[one][..., rows, : len(columns)] for part in reductions["top"])
        numbers = torch.full((shape[1] + 1,), -1, device=places.device)
        numbers[columns] = torch.arange(len(columns), device=places.device)
        result["top"] = Top(weights, numbers[places])
    return result


def select_heads(reductions: Reductions, heads: slice) -> Reductions:
    """Return the reductions of some heads."""
    return {
        name: Top(*(part[:, heads] for part in kept)) if name == "top" else kept[:, heads]
        for name, kept in reductions.items()
    }


# A pool that may grow


def bin_size(tokens: int) -> int:
    """Return the number of tokens in a bin: 1, 2, 4, …

    >>> bin_size(256), bin_size(257), bin_size(16_384), bin_size(16_385)
    (1, 2, 64, 128)
    """
    return 1 << max(-(-tokens // BINS) - 1, 0).bit_length()


@dataclass(frozen=True, eq=False)
class PoolSums:
    """The sum of the weights in each bin of a matrix of queries × keys."""

    sums: Float[Tensor, "batch heads rows columns"]
    queries: int
    keys: int

    def mean(self) -> Float[Tensor, "batch heads rows columns"]:
        """Return the pool: the mean of the weights in each bin."""
        rows, columns = (_counts(tokens, self.sums) for tokens in (self.queries, self.keys))
        return self.sums / (rows[:, None] * columns)

    def plus(self, other: PoolSums) -> PoolSums:
        """Add the sums of a larger matrix, in which this one is the top left part."""
        sums = self.sums
        for axis, before, now in ((-2, self.queries, other.queries), (-1, self.keys, other.keys)):
            merged = bin_size(now) // bin_size(before)  # bins that become one
            if merged > 1:
                missing = -sums.shape[axis] % merged
                sums = functional.pad(sums, (0, 0, 0, missing) if axis == -2 else (0, missing))
                sums = sums.unflatten(axis, (-1, merged)).sum(axis)  # type: ignore[no-untyped-call]
        rows, columns = other.sums.shape[-2:]
        grown = functional.pad(sums, (0, columns - sums.shape[-1], 0, rows - sums.shape[-2]))
        return PoolSums(grown + other.sums, other.queries, other.keys)


def whole_bins(queries: range, keys: range) -> tuple[int, int] | None:
    """Return how many bins these queries and keys fill or lie in; None where some fill bins and others do not.

    >>> whole_bins(range(512), range(512)), whole_bins(range(512, 513), range(600)), whole_bins(range(600), range(601))
    ((256, 256), (1, 150), None)
    """
    rows, columns = list(_runs(queries)), list(_runs(keys))
    return (rows[0].bins, columns[0].bins) if len(rows) == len(columns) == 1 else None


def pool_sums(matrix: AttentionMatrix, queries: range, keys: range, pooled: Tensor | None = None) -> PoolSums:
    """Return the sums of a larger matrix that is 0 outside of these queries and keys, its last ones.

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
    """Return the pool of the queries and keys that are not padding, from the pool of a padded matrix."""
    for axis, places, tokens in ((-2, queries, shape[0]), (-1, keys, shape[1])):
        real = torch.bincount(torch.tensor(places) // bin_size(tokens), minlength=_bins(tokens))
        bins = real.nonzero().flatten().to(pool.device)
        scale = (_counts(tokens, pool) / real.to(pool))[bins]
        pool = pool.index_select(axis, bins) * (scale[:, None] if axis == -2 else scale)
    return pool


class _Run(NamedTuple):
    """Tokens of a matrix that fill whole bins, or lie in a single bin."""

    tokens: slice
    first: int  # the first bin
    bins: int
    size: int  # tokens in each bin


def _runs(tokens: range) -> Iterator[_Run]:
    """Cut the last tokens of a text at the edges of its bins: a rest, whole bins, a rest."""
    size, begin = bin_size(tokens.stop), tokens.start
    first_edge = min(-(-begin // size) * size, tokens.stop)
    last_edge = max(tokens.stop // size * size, first_edge)
    for start, stop in ((begin, first_edge), (first_edge, last_edge), (last_edge, tokens.stop)):
        if start < stop:
            bins = max((stop - start) // size, 1)
            yield _Run(slice(start - begin, stop - begin), start // size, bins, (stop - start) // bins)


def _bins(tokens: int) -> int:
    return -(-tokens // bin_size(tokens))


def _counts(tokens: int, like: Tensor) -> Tensor:
    """Return how many tokens each bin of a side has."""
    size = bin_size(tokens)
    return (tokens - torch.arange(0, tokens, size, device=like.device, dtype=like.dtype)).clamp_max(size)
