"""`Mixture`: a weighted sum of heads as one lazy matrix."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from regard.backends.tiles.reductions import bin_edges
from regard.errors import InputError
from regard.matrix.attention_matrix import AttentionMatrix
from regard.matrix.axes import Index, basic
from regard.matrix.lazy_matrix import LazyMatrix, Top
from regard.support import Float, ensure_room, one_of, whole

if TYPE_CHECKING:
    from regard.drawing import Picture

_WEIGHTS = 1 << 20  # weights of single heads computed at once
Words = Sequence[str] | None
Places = range | Tensor  # of rows or columns


@dataclass(frozen=True, eq=False, repr=False)
class Mixture(LazyMatrix):
    """Σ w · A over heads and layers: computed a block of rows at a time, never stored.

    Args:
        terms: matrices (1, heads, queries, keys), each with a weight for every head.
        rows, columns: which queries and keys of these matrices it has.
        symmetric: A + Aᵀ in place of each A.
        correction: two factors (queries, n) and (n, keys), whose product is subtracted; over all queries and keys.
        then: a function of each number of the sum, such as `torch.sigmoid`.
        words: the words of the queries and of the keys.

    >>> import torch, regard
    >>> A = regard.AttentionMatrix(torch.randn(1, 2, 300, 8), torch.randn(1, 2, 300, 8))
    >>> M = Mixture(((A, torch.tensor([0.5, -1.0])),), range(300), range(300))
    >>> torch.allclose(M @ torch.ones(300, 1), torch.full((300, 1), -0.5), atol=1e-5)
    True
    """

    terms: Sequence[tuple[AttentionMatrix, Float[Tensor, " heads"]]]
    rows: range
    columns: range
    symmetric: bool = False
    correction: tuple[Float[Tensor, "queries n"], Float[Tensor, "n keys"]] | None = None
    then: Callable[[Tensor], Tensor] | None = None
    words: tuple[Words, ...] = (None, None)

    @property
    def shape(self) -> torch.Size:
        """(queries, keys)."""
        return torch.Size((len(self.rows), len(self.columns)))

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of its numbers: float32, or float64 for heads in float64."""
        return self.terms[0][1].dtype

    @property
    def device(self) -> torch.device:
        """The device of its numbers: that of the first matrix."""
        return self.terms[0][0].device

    def __repr__(self) -> str:
        heads = sum(len(weights) for _, weights in self.terms)
        more = ", symmetric" * self.symmetric + ", corrected" * (self.correction is not None)
        return f"Mixture(shape={tuple(self.shape)}, of {heads} heads{more})"

    def __matmul__(self, x: Float[Tensor, "keys width"]) -> Float[Tensor, "queries width"]:
        return torch.cat([block @ x.to(self.device, self.dtype) for block in self._blocks()])

    def received(self, reduce: str = "sum") -> Float[Tensor, " keys"]:
        """The "sum", "mean" or "max" of each column."""
        one_of("reduce", reduce, ("sum", "mean", "max"))
        received = self.pool(1, len(self.columns), "max" if reduce == "max" else "mean")[0]
        return received * len(self.rows) if reduce == "sum" else received

    def top(self, k: int) -> Top:
        """The k largest numbers of each row, and their keys."""
        if not 1 <= whole("k", k) <= len(self.columns):
            raise InputError(f"top(k) takes 1 <= k <= keys = {len(self.columns)}. Got k = {k}.")
        numbers, keys = zip(*(block.topk(k, -1) for block in self._blocks()), strict=True)
        return Top(torch.cat(numbers), torch.cat(keys))

    def pool(self, rows: int, columns: int, reduce: str = "mean") -> Float[Tensor, "rows columns"]:
        """The whole mixture as rows × columns nearly equal bins, each the "mean" or the "max" of its numbers."""
        one_of("reduce", reduce, ("mean", "max"))
        shape = min(whole("rows", rows), len(self.rows)), min(whole("columns", columns), len(self.columns))
        how, start = ("amax", -math.inf) if reduce == "max" else ("sum", 0.0)
        both = zip(self.shape, shape, strict=True)
        sizes = [torch.tensor(bin_edges(count, bins), device=self.device).diff() for count, bins in both]
        of_rows, of_columns = map(torch.repeat_interleave, sizes)
        bands = torch.full((shape[0], len(self.columns)), start, dtype=self.dtype, device=self.device)
        done = 0
        for block in self._blocks():
            bands.scatter_reduce_(0, of_rows[done : done + len(block), None].expand_as(block), block, how)
            done += len(block)
        pool = bands.new_full(shape, start).scatter_reduce_(1, of_columns.expand_as(bands), bands, how)
        return pool if reduce == "max" else pool / sizes[0][:, None] / sizes[1]

    def entropy(self) -> Float[Tensor, " queries"]:
        """-Σ m log m of each row, in nats, for a mixture whose rows are shares; NaN where a number is below 0."""
        return torch.cat([-torch.xlogy(block, block).sum(-1) for block in self._blocks()])

    def picture(self, words: Iterable[str] | None = None, kind: str | None = None, **options: Any) -> Picture:
        """Draw the mixture as `AttentionMatrix.picture` does, by default with the words of the text."""
        if words is None:
            words, columns = self.words
            options = {"columns": columns} | options if columns != words else options
        negative = self.correction is not None or any(bool((weights < 0).any()) for _, weights in self.terms)
        if self.then is not None or not negative:
            return super().picture(words, kind, **options)
        drawn = replace(self, then=torch.relu).picture(words, kind, **options)
        return replace(drawn, caption=f"{drawn.caption} Numbers below 0 are drawn as 0.".strip())

    # Computed a block of rows at a time

    def _blocks(self, rows: Places | None = None, columns: Places | None = None) -> Iterator[Tensor]:
        """Yield some rows and columns, by default all."""
        rows, columns = (
            range(count) if places is None else places
            for places, count in zip((rows, columns), self.shape, strict=True)
        )
        heads = max(len(weights) for _, weights in self.terms)
        size = max(_WEIGHTS // (heads * max(len(columns), 1)), 1)
        for first in range(0, max(len(rows), 1), size):
            yield self._block(rows[first : first + size], columns)

    def _block(self, rows: Places, columns: Places) -> Float[Tensor, "rows columns"]:
        a, b = _within(self.rows, rows), _within(self.columns, columns)
        total = torch.zeros(1, dtype=self.dtype, device=self.device)
        for matrix, weights in self.terms:
            heads = matrix[0, :, a, b].to(self.dtype)
            heads = heads + matrix[0, :, b, a].to(self.dtype).mT if self.symmetric else heads
            total = total + torch.einsum("h,hqk->qk", weights, heads).to(self.device)
        if self.correction is not None:
            total -= self.correction[0][a] @ self.correction[1][:, b]
        return total if self.then is None else self.then(total)

    def _read(self, stage: str, index: Any) -> Tensor:
        axes = basic(index, tuple(self.shape))
        if axes is None or stage != "weights":
            raise InputError("a mixture has weights only, and takes ints, slices, ... and one list of whole numbers.")
        rows, columns = (range(axis, axis + 1) if isinstance(axis, int) else axis for axis in axes)
        ensure_room((len(rows), len(columns)), 2 * self.dtype.itemsize, self.device, lambda: repr(self))
        numbers = torch.cat(list(self._blocks(rows, columns)))
        return numbers[tuple(0 if isinstance(axis, int) else slice(None) for axis in axes)]

    def _transposed_product(self, x: Float[Tensor, "queries width"]) -> Float[Tensor, "keys width"]:
        total, done = x.new_zeros(len(self.columns), x.shape[-1], dtype=self.dtype, device=self.device), 0
        for block in self._blocks():
            total += block.mT @ x[done : done + len(block)].to(total)
            done += len(block)
        return total

    def _begin(self, call: str, *_: Any) -> Any:
        raise InputError(f"{call} is about a softmax, and a mixture of heads is none. Ask a head.")

    def _part(self, index: Index) -> Mixture:
        rows, columns = (slice(axis.start, axis.stop, axis.step) for axis in index if isinstance(axis, range))
        words = (side and side[axis] for side, axis in zip(self.words, (rows, columns), strict=True))
        return replace(self, rows=self.rows[rows], columns=self.columns[columns], words=tuple(words))


def _within(whole: range, places: Places) -> slice | Tensor:
    """Return places in a range as an index of the matrix in which the range is."""
    if isinstance(places, Tensor):
        return places * whole.step + whole.start
    chosen = whole[slice(places.start, places.stop, places.step)]
    return slice(chosen.start, chosen.stop, chosen.step)


def mix(
    matrices: Sequence[AttentionMatrix],
    weights: Any = None,
    *,
    symmetric: bool = False,
    apc: bool = False,
    tokens: slice | range | None = None,
    words: tuple[Words, ...] = (None, None),
) -> Mixture:
    """A weighted sum of all heads of some matrices (1, heads, queries, keys): see `Record.mix`."""
    heads, (queries, keys) = [matrix.shape[1] for matrix in matrices], matrices[0].shape[2:]
    if symmetric and queries != keys:
        raise InputError(f"a symmetric mixture has as many queries as keys. Got {queries} and {keys}.")
    dtype = torch.promote_types(matrices[0].dtype, torch.float32)
    each = torch.full((sum(heads),), 1 / sum(heads)) if weights is None else torch.as_tensor(weights).detach().flatten()
    if len(each) != sum(heads):
        counts = f"{len(matrices)} layers have {sum(heads)} heads"
        raise InputError(f"weights must have one number for each head: {counts}. Got {len(each)} numbers.")
    parts = torch.split(each.to(dtype), heads)
    terms = [(matrix, part.to(matrix.device)) for matrix, part in zip(matrices, parts, strict=True)]
    chosen = slice(None) if tokens is None else slice(tokens.start, tokens.stop, tokens.step)
    shown = tuple(side and side[chosen] for side in words)
    mixture = Mixture(terms, range(queries)[chosen], range(keys)[chosen], symmetric, words=shown)
    return replace(mixture, correction=_correction(mixture)) if apc else mixture


def _correction(mixture: Mixture) -> tuple[Tensor, Tensor]:
    """Return the average product corrections of all heads as one product: of rank 1 for each head.

    What a head gives to a pair because its row and its column have much anyway: (sum of the row) × (sum of the column)
    ÷ (sum of all), from the sums of A, or of A + Aᵀ.
    """
    factors = []
    rows, columns = (_within(side, range(len(side))) for side in (mixture.rows, mixture.columns))
    for matrix, weights in mixture.terms:
        part = matrix.part[:, :, rows, columns]
        of_rows, of_columns = part.pool(len(mixture.rows), 1)[0, :, :, 0] * len(mixture.columns), part.received()[0]
        if mixture.symmetric:
            of_rows = of_columns = of_rows + of_columns
        left, right = (
            torch.zeros(len(weights), count, dtype=mixture.dtype, device=mixture.device) for count in matrix.shape[-2:]
        )
        left[:, rows] = of_rows.to(left)
        right[:, columns] = (weights[:, None] * of_columns / of_rows.sum(-1, keepdim=True)).to(right)
        factors.append((left.mT, right))
    return torch.cat([left for left, _ in factors], 1), torch.cat([right for _, right in factors])
