"""`Layout`: which tokens lie on which rank. `Share`: the queries, keys and parts of the mask on one rank.

A block, the queries of one run × the keys of one run, is an ordinary `Scores`: bands are shifted to the place of the
block, and left out where they hide nothing of it. A block of which nothing is visible is skipped. The ranks exchange
the facts needed for that (numbers of tokens, ranges of ids, padding) when the matrix is made, so that no call waits for
a GPU.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from regard.distributed.ring import Moving, Ring
from regard.scores import Atom, Band, BoundMask, Cut, Dense, Keep, Mask, Same, Scores, bind, hides, make_scores, take
from regard.scores.bound_mask import BoundCut

_ALL, _SOME, _NONE = 1, 0, -1  # how many keys of a run are kept


@dataclass(frozen=True)
class Run:
    """Consecutive tokens of one rank, of which some at an even distance may be picked. Masks describe the whole run."""

    start: int  # where the run begins in the whole sequence
    length: int
    offset: int  # where the run begins in the whole share of its rank
    picked: range  # the picked tokens, counted from the start of the run
    here: int  # where the picked tokens begin in the tensors of the rank
    index: int  # where the picked tokens begin in the matrix

    @property
    def number(self) -> int:
        """0 for the first run of its rank, 1 for the second."""
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
        """The layout for the numbers of tokens on each rank.

        In straight order the shares follow each other. In zig-zag order each rank has two runs: the first halves of the
        shares follow each other in the order of the ranks, then the second halves in the reverse order. This balances
        the work of a causal mask.
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
        """The number of tokens of a rank."""
        return sum(len(run.picked) for run in self.runs[rank])

    def each(self) -> Iterator[tuple[int, Run]]:
        """Every run with its rank."""
        return ((rank, run) for rank, runs in enumerate(self.runs) for run in runs)

    def select(self, chosen: range) -> Layout:
        """The layout of some tokens of the matrix, by index; they stay on their ranks."""
        selected: list[list[Run]] = [[] for _ in self.runs]
        for rank, run in self.each():
            inside = _inside(chosen, run.indices)
            if len(inside):
                picked = run.picked[inside[0] - run.index : inside[-1] - run.index + 1 : inside.step]
                here = sum(len(before.picked) for before in selected[rank])
                selected[rank].append(replace(run, picked=picked, here=here, index=chosen.index(inside[0])))
        return Layout(tuple(map(tuple, selected)), len(chosen))

    def pick(self, rank: int, chosen: range, tensor: Tensor, axis: int) -> Tensor:
        """A rank's share of the chosen tokens, from its share of all; a view if their distance is even."""
        pieces = []
        for run in self.runs[rank]:
            inside = _inside(chosen, run.indices)
            if len(inside):
                first, last = (run.here + i - run.index for i in (inside[0], inside[-1]))
                pieces.append(_slice(tensor, axis, slice(first, last + 1, inside.step)))
        if sum(piece.shape[axis] for piece in pieces) == tensor.shape[axis]:
            return tensor
        if not pieces:
            return _slice(tensor, axis, slice(0, 0))
        return pieces[0] if len(pieces) == 1 else torch.cat(pieces, axis)

    def put(self, rank: int, whole: Tensor, share: Tensor, axis: int) -> None:
        """Write a rank's share into the whole, each token at its index."""
        for run in self.runs[rank]:
            indices = slice(run.index, run.index + len(run.picked))
            _slice(whole, axis, indices).copy_(_slice(share, axis, run.local))


def even_lengths(size: int, ranks: int) -> list[int]:
    """The number of tokens for each rank, as equal as possible.

    >>> even_lengths(10, 4)
    [3, 3, 2, 2]
    """
    return [size // ranks + (rank < size % ranks) for rank in range(ranks)]


def share_of(tensor: Tensor, layout: Layout, rank: int, axis: int) -> Tensor:
    """A rank's share of a whole tensor, as a new tensor."""
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


@dataclass(frozen=True, eq=False)
class Block:
    """The queries of a run of this rank × the keys of a run of any rank, as scores without sinks."""

    rows: Run
    columns: Run
    scores: Scores


@dataclass(frozen=True, eq=False)
class Share:
    """The queries and keys of one rank, and how blocks are made of them.

    In the mask of `scores`, padding and ids belong to the tokens of this rank, a dense mask to its queries × the keys
    of all ranks, and bands to the whole matrix. `select` picks queries and keys; the mask stays whole.
    """

    ring: Ring
    queries: Layout
    keys: Layout
    scores: Scores
    lengths: tuple[Tensor, ...]  # keys from here on are padding: (batch, 1, 1, 1)
    facts: Facts

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """(batch, heads, queries, keys) of the whole matrix."""
        batch, heads, _, _ = self.scores.shape
        return batch, heads, self.queries.size, self.keys.size

    @property
    def rows(self) -> tuple[Run, ...]:
        """The runs of this rank's queries."""
        return self.queries.runs[self.ring.rank]

    def moving_keys(self) -> list[Moving]:
        """What other ranks need: the keys, which of them are kept, their ids, which of them a cut concerns."""
        mask = self.scores.mask
        per_key = [*mask.kept, *(ids for _, ids in mask.ids), *(cut.keys for cut in mask.cuts)]
        return [self.per_key(self.scores.key.detach()), *(Moving(each, 3, self.facts.keys) for each in per_key)]

    def per_key(self, tensor: Tensor) -> Moving:
        """A tensor (batch, heads, keys, …) of this rank's keys, to travel round the ring."""
        return Moving(tensor, 2, [self.keys.tokens(rank) for rank in range(self.ring.size)])

    def blocks(self, owner: int, moved: Sequence[Tensor]) -> Iterator[Block]:
        """The blocks of this rank's queries and the keys of another rank, without those that are hidden."""
        scale, softcap = self.scores.scale, self.scores.softcap
        for rows in self.rows:
            for columns in self.keys.runs[owner]:
                mask = self._mask(rows, owner, columns, moved)
                if mask is not None:
                    query, key = self.scores.query.detach()[:, :, rows.local], moved[0][:, :, columns.local]
                    scores = Scores(query, key, mask, scale, softcap, None, rows=rows.picked, columns=columns.picked)
                    yield Block(rows, columns, scores)

    def _mask(self, rows: Run, owner: int, columns: Run, moved: Sequence[Tensor]) -> BoundMask | None:
        """The mask of two whole runs; None where it hides the whole block."""
        mask, facts, end = self.scores.mask, self.facts, columns.start + columns.length
        bands = _bands(list(zip(mask.bands, facts.offsets, strict=True)), rows, columns)
        if bands is None or (rows.number, owner, columns.number) in facts.hidden:
            return None
        cuts = self._cuts(rows, columns, moved[1 + len(mask.kept) + len(mask.ids) :])
        part = slice(columns.offset, columns.offset + columns.length)
        kept, ids = [], []
        for n, tensor in enumerate(moved[1 : 1 + len(mask.kept)]):
            amount = facts.kept[owner][n][columns.number]
            if amount == _NONE:
                return None
            if amount == _SOME:
                kept.append(tensor[..., part])
        for tensor, (least, most) in zip(self.lengths, facts.lengths, strict=True):
            if most <= columns.start:
                return None
            if least < end:
                kept.append(torch.arange(columns.start, end, device=tensor.device) < tensor)
        for n, ((query_ids, _), key_ids) in enumerate(zip(mask.ids, moved[1 + len(mask.kept) :], strict=False)):
            least, most = facts.query_ids[self.ring.rank][n][rows.number]
            low, high = facts.key_ids[owner][n][columns.number]
            if most < low or high < least:
                return None
            if not least == most == low == high:
                ids.append((query_ids[:, :, rows.offset : rows.offset + rows.length], key_ids[..., part]))
        visible, biases = (
            tuple(_tile(t.detach(), rows, columns) for t in dense) for dense in (mask.visible, mask.biases)
        )
        return BoundMask(tuple(bands), tuple(kept), tuple(ids), visible, biases, tuple(cuts))

    def _cuts(self, rows: Run, columns: Run, moved: Sequence[Tensor]) -> Iterator[BoundCut]:
        """The cuts that may concern a block."""
        for cut, keys in zip(self.scores.mask.cuts, moved, strict=False):
            ends = ((run.start - rows.offset, run.stop - rows.offset) for run in cut.runs)
            runs = tuple(run for a, b in ends if len(run := range(max(a, 0), min(b, rows.length))))
            bands = _bands([] if cut.band is None else [(cut.band, (cut.band[2], cut.band[2]))], rows, columns)
            if runs and bands is not None:
                queries = cut.queries[:, :, rows.offset : rows.offset + rows.length]
                part = keys[..., columns.offset : columns.offset + columns.length]
                yield BoundCut(queries, part, bands[0] if bands else None, cut.bias, runs)

    def select(self, batch: Sequence[int], heads: Sequence[int], rows: range, columns: range) -> Share:
        """Some batches, heads, rows and columns, by index in the matrix; each rank keeps its part of them."""
        _, _, queries, keys = self.scores.shape
        scores = self.scores.select(batch, heads, range(queries), range(keys))
        query = self.queries.pick(self.ring.rank, rows, scores.query, 2)
        key = self.keys.pick(self.ring.rank, columns, scores.key, 2)
        scores = replace(scores, query=query, key=key, rows=range(query.shape[2]), columns=range(key.shape[2]))
        index = torch.as_tensor(batch, dtype=torch.int64, device=query.device)
        lengths = tuple(tensor.index_select(0, index) for tensor in self.lengths)
        rows_left, columns_left = self.queries.select(rows), self.keys.select(columns)
        return replace(self, queries=rows_left, keys=columns_left, scores=scores, lengths=lengths)


def shifted(picked: range, by: int) -> slice:
    """The picked tokens of a run as a slice of the whole share, where the run begins at `by`."""
    return slice(picked.start + by, picked.stop + by, picked.step)


def _tile(dense: Tensor, rows: Run, columns: Run) -> Tensor:
    """The part of a dense mask (this rank's queries × all keys) that belongs to a block."""
    queries = range(rows.offset, rows.offset + rows.length)
    return take(take(dense, 2, queries), 3, range(columns.start, columns.start + columns.length))


def _bands(
    bounded: Sequence[tuple[tuple[int | None, int | None, Any], Sequence[int]]], rows: Run, columns: Run
) -> list[tuple[int | None, int | None, Any]] | None:
    """The bands that hide a part of a block, shifted to its tokens; None where a band hides the whole block.

    Each band comes with the smallest and the largest of its offsets.
    """
    (top, bottom), (left, right) = ((run.positions[0], run.positions[-1]) for run in (rows, columns))
    bands = []
    for (lowest, highest, offset), (small, large) in bounded:
        least, most = left - bottom - large, right - top - small  # of key - query - offset
        if (highest is not None and least > highest) or (lowest is not None and most < lowest):
            return None
        if (highest is not None and most > highest) or (lowest is not None and least < lowest):
            bands.append((lowest, highest, offset + (rows.start - columns.start)))
    return bands


@dataclass(frozen=True)
class Facts:
    """What all ranks know about all tokens without tensors; lists go by rank, part of the mask and run."""

    keys: Sequence[int]  # tokens on each rank, picked or not
    kept: Sequence[Sequence[Sequence[int]]]
    query_ids: Sequence[Sequence[Sequence[Sequence[int]]]]  # the smallest and the largest
    key_ids: Sequence[Sequence[Sequence[Sequence[int]]]]
    offsets: Sequence[Sequence[int]]  # the smallest and the largest of each band
    lengths: Sequence[Sequence[int]]
    hidden: frozenset[tuple[int, int, int]]  # (run of queries, rank, its run of keys) that a dense mask hides


def make_share(
    ring: Ring, query: Tensor, key: Tensor, mask: Mask, scale: float | None, softcap: float | None,
    sinks: Tensor | float | None, zigzag: bool,
) -> Share:  # fmt: skip
    """Check the arguments on all ranks, and make the share of this rank."""
    plain = isinstance(query, Tensor) and query.dim() == 2
    bands = [atom for atom in mask.atoms if isinstance(atom, Band)]
    padding = [atom for atom in mask.atoms if isinstance(atom, Keep)]
    ids = [atom for atom in mask.atoms if isinstance(atom, Same)]
    dense = [atom for atom in mask.atoms if isinstance(atom, Dense)]
    cuts = [atom for atom in mask.atoms if isinstance(atom, Cut)]
    kept = [atom for atom in padding if atom.keys.dtype == torch.bool]  # belongs to the keys of this rank
    ends = [atom for atom in padding if atom.keys.dtype != torch.bool]  # belongs to each text

    def prepare() -> tuple[tuple[Scores, BoundMask, tuple[Tensor, ...]], dict[str, Any]]:
        scores = make_scores(query, key, None, scale, softcap, sinks)
        batch, device = tuple(query.shape[:-3]), scores.query.device
        bound = bind(Mask((*bands, *kept, *ids)), (*batch, *scores.shape[1:]), device, plain)
        bound = replace(bound, ids=tuple((of_query.long(), of_key.long()) for of_query, of_key in bound.ids))
        bind(Mask(tuple(ends)), (*batch, *scores.shape[1:]), device, plain)  # only checks them
        lengths = tuple(atom.keys.to(device).expand(batch).reshape(-1)[:, None, None, None] for atom in ends)
        counts = {"queries": scores.shape[2], "keys": scores.shape[3]}
        # In zig-zag order a share has two runs, its first half and its second, otherwise one.
        firsts = [n - n // 2 if zigzag else n for n in counts.values()]
        rows, columns = ([slice(0, first), slice(first, None)] for first in firsts)
        message = counts | {
            "kept": [[_amount(tensor[..., half]) for half in columns] for tensor in bound.kept],
            "query ids": [[_bounds(of_query[:, :, half]) for half in rows] for of_query, _ in bound.ids],
            "key ids": [[_bounds(of_key[..., half]) for half in columns] for _, of_key in bound.ids],
        }
        return (scores, bound, lengths), message

    call = _call(query, key, mask, scale, softcap, sinks, zigzag)
    (scores, bound, lengths), replies = ring.agree(call, prepare)
    queries, keys = (Layout.of([reply[name] for reply in replies], zigzag) for name in ("queries", "keys"))
    if dense or cuts:
        leading, device = (*query.shape[:-3], scores.shape[1]), scores.query.device

        def prepare_dense() -> tuple[BoundMask, dict[str, Any]]:
            tensors = bind(Mask(tuple(dense)), (*leading, scores.shape[2], keys.size), device, plain)
            runs = (queries.runs[ring.rank], keys.runs[ring.rank])
            local_cuts = Mask(tuple(_local_cut(cut, *runs, device) for cut in cuts))
            tensors = replace(tensors, cuts=bind(local_cuts, (*leading, *scores.shape[2:]), device, plain).cuts)
            return tensors, {"same": [described(tensor) for tensor in tensors.visible + tensors.biases]}

        more, _ = ring.agree("ShardedMatrix(…) with a bias, a dense mask or a cut", prepare_dense)
        bound = replace(bound, visible=more.visible, biases=more.biases, cuts=more.cuts)
    facts = Facts(
        keys=[reply["keys"] for reply in replies],
        kept=[reply["kept"] for reply in replies],
        query_ids=[reply["query ids"] for reply in replies],
        key_ids=[reply["key ids"] for reply in replies],
        offsets=[[offset, offset] if isinstance(offset, int) else _bounds(offset) for _, _, offset in bound.bands],
        lengths=[_bounds(tensor) for tensor in lengths],
        hidden=_hidden(bound, queries.runs[ring.rank], keys),
    )
    return Share(ring, queries, keys, replace(scores, mask=bound), lengths, facts)


def _local_cut(cut: Cut, rows: Sequence[Run], columns: Sequence[Run], device: torch.device) -> Cut:
    """A cut with positions as bools of this rank's tokens; its band still counts in the whole matrix."""

    def local(positions: range | Tensor, runs: Sequence[Run]) -> Tensor:
        if isinstance(positions, Tensor):
            return positions
        places = [torch.arange(run.start, run.start + run.length, device=device) for run in runs]
        place = torch.cat(places) if places else torch.arange(0, device=device)
        return (place >= positions.start) & (place < positions.stop)

    return replace(cut, queries=local(cut.queries, rows), keys=local(cut.keys, columns))


def _amount(kept: Tensor) -> int:
    return _ALL if bool(kept.all()) else _SOME if bool(kept.any()) else _NONE


def _bounds(tensor: Tensor) -> list[int]:
    if not tensor.numel():
        return [0, 0]
    return [int(end) for end in torch.aminmax(tensor)]


def _hidden(mask: BoundMask, rows: Sequence[Run], keys: Layout) -> frozenset[tuple[int, int, int]]:
    """The blocks that the dense parts of a mask hide entirely."""
    places, empty = [], []
    with torch.no_grad():
        for run in rows:
            for owner, columns in keys.each():
                for dense in (*mask.visible, *mask.biases):
                    tile = _tile(dense, run, columns)
                    places.append((run.number, owner, columns.number))
                    empty.append((hides(tile) if tile.is_floating_point() else ~tile).all())
    are_empty = torch.stack(empty).tolist() if empty else []  # waits for a GPU once
    return frozenset(place for place, is_empty in zip(places, are_empty, strict=True) if is_empty)


def _call(
    query: Tensor, key: Tensor, mask: Mask, scale: float | None, softcap: float | None, sinks: Any, zigzag: bool
) -> str:
    """The call in words, without what may differ between ranks."""
    parts = [f"query={described(query)}", f"key={described(key)}"]
    if mask.atoms:
        parts.append(f"mask={' & '.join(map(_describe, mask.atoms))}")
    parts += [f"{name}={value}" for name, value in (("scale", scale), ("softcap", softcap)) if value is not None]
    parts += [] if sinks is None else ["sinks"]
    return f"ShardedMatrix({', '.join(parts)}, zigzag={zigzag})"


def described(tensor: Any, axis: int = -2) -> str:
    """The dtype and the shape of a tensor in words, without the number of its tokens, which may differ between ranks.

    >>> described(torch.zeros(2, 5, 64))
    'float32[2, tokens, 64]'
    """
    if not isinstance(tensor, Tensor) or not -tensor.dim() <= axis < tensor.dim():
        return type(tensor).__name__
    sizes = [str(size) for size in tensor.shape]
    sizes[axis] = "tokens"
    return f"{str(tensor.dtype).removeprefix('torch.')}[{', '.join(sizes)}]"


def _describe(atom: Atom) -> str:
    """A part of a mask in words, without what may differ between ranks."""

    def per_batch(values: Tensor) -> str:
        values = values.detach().cpu().contiguous()
        return str(values.tolist()) if values.numel() <= 8 else f"#{zlib.crc32(values.numpy().tobytes()):08x}"

    if isinstance(atom, Band):
        return repr(replace(atom, offset=0)) + (
            f" shifted by {atom.offset if isinstance(atom.offset, int) else per_batch(atom.offset)}"
        )
    if isinstance(atom, Keep):
        return "padding(bools)" if atom.keys.dtype == torch.bool else f"padding({per_batch(atom.keys)})"
    if isinstance(atom, Same):
        return "documents"
    if isinstance(atom, Cut):
        places = ["bools" if isinstance(place, Tensor) else repr(place) for place in (atom.queries, atom.keys)]
        heads = f"heads {per_batch(atom.heads)}" if isinstance(atom.heads, Tensor) else f"heads={atom.heads}"
        return f"cut({', '.join(places)}, within={atom.band}, {heads}, bias={atom.bias})"
    return "visible" if atom.tensor.dtype == torch.bool else "bias"
