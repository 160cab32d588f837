"""`Share`: what one rank has of a matrix: its queries, its keys, and what a mask says of either.

A block, the queries of one run × the keys of one run, is an ordinary `Scores`: bands are shifted to where the block
lies, and left out where they hide nothing of it. A block of which nothing may be seen is skipped. What has to be known
for that (how many tokens, which ids, what is padding) every rank says when the matrix is made: so nobody has to wait
for a GPU in between.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from regard.distributed.layout import Layout, Run
from regard.distributed.ring import Moving, Ring
from regard.scores import (
    Atom,
    Band,
    BoundMask,
    Cut,
    Dense,
    Keep,
    Mask,
    Positions,
    Same,
    Scores,
    bind,
    hides,
    make_scores,
    take,
)
from regard.scores.bound_mask import BoundCut

_ALL, _SOME, _NONE = 1, 0, -1  # how many keys of a run are kept


@dataclass(frozen=True, eq=False)
class Block:
    """The queries of a run of this rank × the keys of a run of another, as scores without sinks."""

    rows: Run
    columns: Run
    scores: Scores


@dataclass(frozen=True, eq=False)
class Share:
    """One rank's queries and keys, and how to make blocks of them.

    The mask in `scores` is of several things: padding and ids are of this rank's own tokens, a dense mask is of its own
    queries × the keys of all ranks, and bands are of the whole matrix. Parts pick queries and keys, but the mask stays
    that of all.
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
        """What others need of this rank's keys: themselves, which of them are kept, their ids, which a cut concerns."""
        mask, ranks = self.scores.mask, range(self.ring.size)
        return [
            self.per_key(self.scores.key.detach()),
            *(Moving(kept, 3, [self.facts.keys[rank] for rank in ranks]) for kept in mask.kept),
            *(Moving(ids, 3, [self.facts.keys[rank] for rank in ranks]) for _, ids in mask.ids),
            *(Moving(cut.keys, 3, [self.facts.keys[rank] for rank in ranks]) for cut in mask.cuts),
        ]

    def per_key(self, tensor: Tensor) -> Moving:
        """A tensor (batch, heads, keys, …) of this rank's keys, as it goes round."""
        return Moving(tensor, 2, [self.keys.tokens(rank) for rank in range(self.ring.size)])

    def blocks(self, owner: int, moved: Sequence[Tensor]) -> Iterator[Block]:
        """The blocks of this rank's queries with the keys of another of which something may be seen."""
        for rows in self.rows:
            for columns in self.keys.runs[owner]:
                mask = self._mask(rows, owner, columns, moved)
                if mask is not None:
                    query, key = self.scores.query.detach()[:, :, rows.local], moved[0][:, :, columns.local]
                    own = self.scores
                    scores = Scores(
                        query, key, mask, own.scale, own.softcap, None, rows=rows.picked, columns=columns.picked
                    )
                    yield Block(rows, columns, scores)

    def _mask(self, rows: Run, owner: int, columns: Run, moved: Sequence[Tensor]) -> BoundMask | None:
        """The mask of these two whole runs; None where it hides everything."""
        own, facts = self.scores.mask, self.facts
        bands = _bands(list(zip(own.bands, facts.offsets, strict=True)), rows, columns)
        if bands is None or not facts.sees(rows, owner, columns):
            return None
        cuts = self._cuts(rows, columns, moved[1 + len(own.kept) + len(own.ids) :])
        if cuts is None:
            return None
        part = slice(columns.offset, columns.offset + columns.length)
        kept, ids = [], []
        for n, tensor in enumerate(moved[1 : 1 + len(own.kept)]):
            amount = facts.kept[owner][n][columns.number]
            if amount == _NONE:
                return None
            if amount == _SOME:
                kept.append(tensor[..., part])
        for tensor, (least, most) in zip(self.lengths, facts.lengths, strict=True):
            if most <= columns.start:
                return None
            if least < columns.start + columns.length:
                end = columns.start + columns.length
                kept.append(torch.arange(columns.start, end, device=tensor.device) < tensor)
        for n, ((mine, _), theirs) in enumerate(zip(own.ids, moved[1 + len(own.kept) :], strict=False)):
            least, most = facts.query_ids[self.ring.rank][n][rows.number]
            low, high = facts.key_ids[owner][n][columns.number]
            if most < low or high < least:
                return None
            if not least == most == low == high:
                ids.append((mine[:, :, rows.offset : rows.offset + rows.length], theirs[..., part]))

        def tile(dense: Tensor) -> Tensor:
            return take(take(dense, 2, _whole(rows, rows.offset)), 3, _whole(columns, columns.start))

        visible, biases = (tuple(tile(t.detach()) for t in dense) for dense in (own.visible, own.biases))
        return BoundMask(tuple(bands), tuple(kept), tuple(ids), visible, biases, tuple(cuts))

    def _cuts(self, rows: Run, columns: Run, moved: Sequence[Tensor]) -> list[BoundCut] | None:
        """The cuts that concern a block; None where one hides all of it."""
        found = []
        for cut, keys, (query_range, key_range, all_heads) in zip(
            self.scores.mask.cuts, moved, self.facts.cuts, strict=False
        ):
            covers = [_covers(query_range, rows), _covers(key_range, columns)]
            ends = (max(run.start - rows.offset, 0) for run in cut.runs), (run.stop - rows.offset for run in cut.runs)
            runs = tuple(range(a, min(b, rows.length)) for a, b in zip(*ends, strict=True) if a < min(b, rows.length))
            bands = _bands([] if cut.band is None else [(cut.band, (cut.band[2], cut.band[2]))], rows, columns)
            if _NONE in covers or not runs or bands is None:
                continue
            if covers == [_ALL, _ALL] and all_heads and not bands and cut.bias == -math.inf:
                return None
            all_keys = query_range is not None and covers[1] == _ALL and all_heads
            found.append(
                BoundCut(
                    cut.queries[:, :, rows.offset : rows.offset + rows.length],
                    keys[..., columns.offset : columns.offset + columns.length],
                    bands[0] if bands else None,
                    cut.bias,
                    runs,
                    range(columns.length) if all_keys else None,
                )
            )
        return found

    def select(self, batch: Sequence[int], heads: Sequence[int], rows: range, columns: range) -> Share:
        """Some batches, heads, rows and columns, by index in the matrix; each rank keeps what it has of them."""
        _, _, queries, keys = self.scores.shape
        few = self.scores.select(batch, heads, range(queries), range(keys))
        query = self.queries.pick(self.ring.rank, rows, few.query, 2)
        key = self.keys.pick(self.ring.rank, columns, few.key, 2)
        here = replace(few, query=query, key=key, rows=range(query.shape[2]), columns=range(key.shape[2]))
        chosen = torch.as_tensor(batch, dtype=torch.int64, device=query.device)
        lengths = tuple(tensor.index_select(0, chosen) for tensor in self.lengths)
        return replace(
            self, queries=self.queries.select(rows), keys=self.keys.select(columns), scores=here, lengths=lengths
        )


def shifted(picked: range, by: int) -> slice:
    """The picked tokens of a run as a slice of the whole share, in which the run begins at `by`."""
    return slice(picked.start + by, picked.stop + by, picked.step)


def _whole(run: Run, start: int) -> Positions:
    return range(start, start + run.length)


def _covers(positions: range | None, run: Run) -> int:
    """How many tokens of a run these positions name; for bools that is not known here."""
    if positions is None or not len(positions):
        return _SOME if positions is None else _NONE
    if run.start + run.length <= positions.start or positions.stop <= run.start:
        return _NONE
    return _ALL if positions.start <= run.start and run.start + run.length <= positions.stop else _SOME


def _bands(
    given: Sequence[tuple[tuple[int | None, int | None, Any], tuple[int, int]]], rows: Run, columns: Run
) -> list[tuple[int | None, int | None, Any]] | None:
    """The bands that hide some of a block, as its own tokens are counted; None where one hides all of it.

    Beside each stand the smallest and the largest of its offsets.
    """
    (top, bottom), (left, right) = ((run.positions[0], run.positions[-1]) for run in (rows, columns))
    bands = []
    for (lowest, highest, offset), (small, large) in given:
        least, most = left - bottom - large, right - top - small  # of key - query - offset
        if (highest is not None and least > highest) or (lowest is not None and most < lowest):
            return None
        if (highest is not None and most > highest) or (lowest is not None and least < lowest):
            bands.append((lowest, highest, offset + (rows.start - columns.start)))
    return bands


@dataclass(frozen=True)
class Facts:
    """What all ranks know of all tokens without their tensors; lists are for each rank, part of the mask and run."""

    keys: Sequence[int]  # tokens on each rank, whatever is picked of them
    kept: Sequence[Sequence[Sequence[int]]]
    query_ids: Sequence[Sequence[Sequence[Sequence[int]]]]  # the smallest and the largest
    key_ids: Sequence[Sequence[Sequence[Sequence[int]]]]
    offsets: Sequence[tuple[int, int]]  # of each band, the smallest and the largest
    lengths: Sequence[tuple[int, int]]
    hidden: frozenset[tuple[int, int, int]]  # (own run, rank, its run) that a dense mask of this rank hides
    cuts: Sequence[tuple[range | None, range | None, bool]]  # of which queries and keys (None: bools), of all heads?

    def sees(self, rows: Run, owner: int, columns: Run) -> bool:
        """Whether a dense mask may show something of a block of this rank's queries."""
        return (rows.number, owner, columns.number) not in self.hidden


# Making it


def make_share(
    ring: Ring, query: Tensor, key: Tensor, mask: Mask, scale: float | None, softcap: float | None,
    sinks: Tensor | float | None, zigzag: bool,
) -> Share:  # fmt: skip
    """Check what the user handed in, with the others, and fold it into a Share."""
    plain = isinstance(query, Tensor) and query.dim() == 2
    bands, kept, lengths, ids, dense, cuts = _sorted(mask)
    made: dict[str, Any] = {}

    def prepare() -> dict[str, Any]:
        scores = make_scores(query, key, None, scale, softcap, sinks)
        shape = (*query.shape[:-3], *scores.shape[1:])
        own = bind(Mask((*bands, *kept, *ids)), shape, scores.query.device, plain)
        own = replace(own, ids=tuple((mine.long(), theirs.long()) for mine, theirs in own.ids))
        bind(Mask(tuple(lengths)), shape, scores.query.device, plain)  # only to check it
        ends = [_per_batch(atom.keys, tuple(query.shape[:-3]), scores.query.device) for atom in lengths]
        made.update(scores=scores, own=own, lengths=ends)
        counts = {"queries": scores.shape[2], "keys": scores.shape[3]}
        # In straight order a share is one run, else its first half and its second.
        rows, columns = (_halves(n, zigzag) for n in counts.values())
        return counts | {
            "kept": [[_amount(tensor[..., half]) for half in columns] for tensor in own.kept],
            "query ids": [[_bounds(mine[:, :, half]) for half in rows] for mine, _ in own.ids],
            "key ids": [[_bounds(theirs[..., half]) for half in columns] for _, theirs in own.ids],
        }

    said = ring.agree(_call(query, key, mask, scale, softcap, sinks, zigzag), prepare)
    queries = Layout.of([each["queries"] for each in said], zigzag)
    keys = Layout.of([each["keys"] for each in said], zigzag)
    scores: Scores = made["scores"]
    own: BoundMask = made["own"]
    if dense or cuts:
        leading, device = (*query.shape[:-3], scores.shape[1]), scores.query.device

        def lay() -> dict[str, Any]:
            laid = made["dense"] = bind(Mask(tuple(dense)), (*leading, scores.shape[2], keys.size), device, plain)
            places = (queries.runs[ring.rank], keys.runs[ring.rank])
            local = [_own_tokens(cut, *places, device) for cut in cuts]
            made["cuts"] = bind(Mask(tuple(local)), (*leading, *scores.shape[2:]), device, plain).cuts
            both = laid.visible + laid.biases
            return {"same": [f"{_kind(t)}[{t.shape[0]}, {t.shape[1]}, queries, {t.shape[3]}]" for t in both]}

        ring.agree("ShardedMatrix(…) with a bias, a dense mask or a cut", lay)
        own = replace(own, visible=made["dense"].visible, biases=made["dense"].biases, cuts=made["cuts"])
    facts = Facts(
        [each["keys"] for each in said],
        [each["kept"] for each in said],
        [each["query ids"] for each in said],
        [each["key ids"] for each in said],
        [_offset_bounds(offset) for _, _, offset in own.bands],
        [tuple(_bounds(tensor)) for tensor in made["lengths"]],  # type: ignore[misc]
        _hidden(own, queries.runs[ring.rank], keys),
        [(_range(cut.queries), _range(cut.keys), cut.heads is None) for cut in cuts],
    )
    return Share(ring, queries, keys, replace(scores, mask=own), tuple(made["lengths"]), facts)


def _own_tokens(cut: Cut, rows: Sequence[Run], columns: Sequence[Run], device: torch.device) -> Cut:
    """A cut of some positions as one of this rank's own tokens; its band stays that of the whole matrix."""

    def own(positions: range | Tensor, runs: Sequence[Run]) -> Tensor:
        if isinstance(positions, Tensor):
            return positions
        places = [torch.arange(run.start, run.start + run.length, device=device) for run in runs]
        place = torch.cat(places) if places else torch.arange(0, device=device)
        return (place >= positions.start) & (place < positions.stop)

    return replace(cut, queries=own(cut.queries, rows), keys=own(cut.keys, columns))


def _range(positions: range | Tensor) -> range | None:
    return positions if isinstance(positions, range) else None


def _sorted(mask: Mask) -> tuple[list[Band], list[Keep], list[Keep], list[Same], list[Dense], list[Cut]]:
    """The parts of a mask by what they are of: the whole, own keys, each text, own tokens, own queries × all keys."""
    bands = [atom for atom in mask.atoms if isinstance(atom, Band)]
    keeps = [atom for atom in mask.atoms if isinstance(atom, Keep)]
    kept, lengths = ([atom for atom in keeps if (atom.keys.dtype == torch.bool) is own] for own in (True, False))
    ids = [atom for atom in mask.atoms if isinstance(atom, Same)]
    dense = [atom for atom in mask.atoms if isinstance(atom, Dense)]
    return bands, kept, lengths, ids, dense, [atom for atom in mask.atoms if isinstance(atom, Cut)]


def _per_batch(values: Tensor, batch: tuple[int, ...], device: torch.device) -> Tensor:
    return values.to(device).expand(batch).reshape(-1)[:, None, None, None]


def _halves(count: int, zigzag: bool) -> list[slice]:
    first = count - count // 2 if zigzag else count
    return [slice(0, first), slice(first, count)]


def _amount(kept: Tensor) -> int:
    return _ALL if bool(kept.all()) else _SOME if bool(kept.any()) else _NONE


def _bounds(tensor: Tensor) -> list[int]:
    if not tensor.numel():
        return [0, 0]
    return [int(end) for end in torch.aminmax(tensor)]


def _offset_bounds(offset: int | Tensor) -> tuple[int, int]:
    if isinstance(offset, int):
        return offset, offset
    least, most = _bounds(offset)
    return least, most


def _hidden(own: BoundMask, rows: Sequence[Run], keys: Layout) -> frozenset[tuple[int, int, int]]:
    """The blocks that the dense parts of a mask hide entirely."""
    places, hidden = [], []
    with torch.no_grad():
        for run in rows:
            for owner, columns in keys.each():
                for dense in (*own.visible, *own.biases):
                    tile = take(take(dense, 2, _whole(run, run.offset)), 3, _whole(columns, columns.start))
                    places.append((run.number, owner, columns.number))
                    hidden.append((hides(tile) if tile.is_floating_point() else ~tile).all())
    found = torch.stack(hidden).tolist() if hidden else []
    return frozenset(place for place, empty in zip(places, found, strict=True) if empty)


def _call(
    query: Tensor, key: Tensor, mask: Mask, scale: float | None, softcap: float | None, sinks: Any, zigzag: bool
) -> str:
    """What must be the same on all ranks, in words."""

    def shape(tensor: Any) -> str:
        if not isinstance(tensor, Tensor):
            return type(tensor).__name__
        *leading, _, width = tensor.shape if tensor.dim() > 1 else (0, 0)
        return f"{_kind(tensor)}[{', '.join(map(str, (*leading, 'tokens', width)))}]"

    parts = [f"query={shape(query)}", f"key={shape(key)}"]
    if mask.atoms:
        parts.append(f"mask={' & '.join(map(_said, mask.atoms))}")
    parts += [f"{name}={value}" for name, value in (("scale", scale), ("softcap", softcap)) if value is not None]
    parts += [] if sinks is None else ["sinks"]
    return f"ShardedMatrix({', '.join(parts)}, zigzag={zigzag})"


def _kind(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _said(atom: Atom) -> str:
    """A part of a mask without what may differ between ranks."""

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
