"""Which tokens of a sequence lie on which rank: one run of them, or two for a balanced causal order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

__all__ = ["Layout", "Run", "cut", "even_lengths"]


@dataclass(frozen=True)
class Run:
    """Tokens of one rank that follow each other in the whole sequence, or some of them at an even distance.

    Masks describe the whole run, whatever was picked of it.
    """

    start: int  # where the run begins in the whole sequence
    length: int
    offset: int  # where it begins in the whole share of its rank
    picked: range  # which of its tokens are here, counted from its start
    here: int  # where these begin in the tensors of the rank
    index: int  # and in the matrix

    @property
    def number(self) -> int:
        """Whether it is the first of its rank (0) or the second (1)."""
        return int(self.offset > 0)

    @property
    def local(self) -> slice:
        """The picked tokens in the tensors of the rank."""
        return slice(self.here, self.here + len(self.picked))

    @property
    def indices(self) -> range:
        """The picked tokens in the matrix."""
        return range(self.index, self.index + len(self.picked))

    @property
    def positions(self) -> range:
        """The picked tokens in the whole sequence."""
        picked = self.picked
        return range(self.start + picked.start, self.start + picked.stop, picked.step)


@dataclass(frozen=True)
class Layout:
    """The runs of every rank; a run without tokens is left out.

    >>> Layout.of([4, 3], zigzag=True).runs[0]
    (Run(start=0, length=2, offset=0, picked=range(0, 2), here=0, index=0),
     Run(start=5, length=2, offset=2, picked=range(0, 2), here=2, index=5))
    """

    runs: tuple[tuple[Run, ...], ...]
    size: int  # tokens of all ranks

    @classmethod
    def of(cls, lengths: Sequence[int], zigzag: bool) -> Layout:
        """The layout of so many tokens on each rank.

        Straight, the shares follow each other. In zig-zag each rank has two runs, its first half and its second: the
        first halves follow each other in the order of the ranks, then the second halves in the reverse order. A causal
        mask shows each rank about as much that way.
        """
        ranks = range(len(lengths))
        halves = [(n - n // 2, n // 2) if zigzag else (n, 0) for n in lengths]
        order = [(rank, 0) for rank in ranks] + [(rank, 1) for rank in reversed(ranks)]
        runs: list[list[Run]] = [[] for _ in ranks]
        start = 0
        for rank, half in order:
            length, offset = halves[rank][half], half * halves[rank][0]
            if length:
                runs[rank].append(Run(start, length, offset, range(length), offset, start))
            start += length
        return cls(tuple(map(tuple, runs)), start)

    def tokens(self, rank: int) -> int:
        """How many tokens a rank has."""
        return sum(len(run.picked) for run in self.runs[rank])

    def each(self) -> Iterator[tuple[int, Run]]:
        """Every run with its rank."""
        return ((rank, run) for rank, runs in enumerate(self.runs) for run in runs)

    def select(self, chosen: range) -> Layout:
        """Some tokens of the matrix, by index; they stay where they are."""
        found: list[tuple[Run, ...]] = []
        for runs in self.runs:
            kept: list[Run] = []
            here = 0
            for run in runs:
                inside = _inside(chosen, run.indices)
                if len(inside):
                    picked = run.picked[inside[0] - run.index : inside[-1] - run.index + 1 : inside.step]
                    kept.append(replace(run, picked=picked, here=here, index=chosen.index(inside[0])))
                    here += len(picked)
            found.append(tuple(kept))
        return Layout(tuple(found), len(chosen))

    def pick(self, rank: int, chosen: range, tensor: Tensor, axis: int) -> Tensor:
        """A rank's share of the chosen tokens, from its share of all; a view where they lie evenly."""
        pieces = []
        for run in self.runs[rank]:
            inside = _inside(chosen, run.indices)
            if len(inside):
                first, last = (run.here + i - run.index for i in (inside[0], inside[-1]))
                pieces.append(_slice(tensor, axis, slice(first, last + 1, inside.step)))
        whole = sum(piece.shape[axis] for piece in pieces) == tensor.shape[axis]
        if whole or not pieces:
            return tensor if whole else _slice(tensor, axis, slice(0, 0))
        return pieces[0] if len(pieces) == 1 else torch.cat(pieces, axis)

    def put(self, rank: int, whole: Tensor, share: Tensor, axis: int) -> None:
        """Write a rank's share into the whole, each token at its index."""
        for run in self.runs[rank]:
            indices = slice(run.index, run.index + len(run.picked))
            _slice(whole, axis, indices).copy_(_slice(share, axis, run.local))


def even_lengths(size: int, ranks: int) -> list[int]:
    """How many tokens each rank gets where they are shared out evenly.

    >>> even_lengths(10, 4)
    [3, 3, 2, 2]
    """
    return [size // ranks + (rank < size % ranks) for rank in range(ranks)]


def cut(tensor: Tensor, layout: Layout, rank: int, axis: int) -> Tensor:
    """A rank's share of a whole tensor, as a tensor of its own."""
    pieces = [_slice(tensor, axis, slice(run.start, run.start + run.length)) for run in layout.runs[rank]]
    return torch.cat(pieces, axis) if pieces else _slice(tensor, axis, slice(0, 0)).clone()


def _slice(tensor: Tensor, axis: int, part: slice) -> Tensor:
    index = [slice(None)] * tensor.dim()
    index[axis] = part
    return tensor[tuple(index)]


def _inside(chosen: range, span: range) -> range:
    """The chosen numbers (ascending) that lie in a span of step 1."""
    if not len(chosen) or not len(span):
        return range(0)
    first = max(-((chosen.start - span.start) // chosen.step), 0)
    end = max(-((chosen.start - span.stop) // chosen.step), 0)
    return chosen[first:end]
