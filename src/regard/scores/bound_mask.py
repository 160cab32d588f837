"""`BoundMask`: a mask bound to the shape of one matrix.

It answers three questions: which keys can a block of queries see at all (`span`), what does one tile look like (`tile`,
`bias_tile`), and what holds at single points (`points`). Rows and columns are positions in the whole matrix, a range or
an index tensor, so that parts of a matrix are handled like the whole. `in_pieces` writes a mask with cuts as pieces
without cuts.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import pairwise
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from regard.errors import DeviceError, OutOfRangeError, ShapeError
from regard.scores.masks import FAR, Band, Cut, Keep, Mask, Same, hides
from regard.support import inside_func

Positions = range | Tensor  # where rows or columns lie in the whole matrix
_Band = tuple[int | None, int | None, int | Tensor]  # lowest, highest, offset; a tensor: (batch, 1, 1, 1)
MASK_PARTS = ("bands", "kept", "ids", "visible", "biases", "cuts")  # of a `BoundMask`, each a tuple


@dataclass(frozen=True, eq=False)
class BoundCut:
    """A bias on the scores of some queries with some keys: bools, 4-D and of size 1 where they broadcast."""

    queries: Tensor  # (batch, heads, queries, 1)
    keys: Tensor  # (batch, heads, 1, keys)
    band: tuple[int | None, int | None, int] | None  # if set, only where the distance lies in this band
    bias: float  # -inf: hidden
    runs: tuple[range, ...]  # of the queries that it concerns, alike within a run
    columns: range | None = None  # its keys, where they are one run, and it concerns all batches
    heads: tuple[int, ...] | None = None  # its heads, where `columns` is set; None: all

    @property
    def everywhere(self) -> bool:
        """Whether it concerns all keys in all batches and heads."""
        return self.columns is not None and self.heads is None and self.columns == range(self.keys.shape[3])

    def each(self, change: Callable[[Tensor], Tensor]) -> BoundCut:
        """The same cut with `change` applied to both tensors, which may choose other heads."""
        columns = self.columns if self.heads is None else None
        return replace(self, queries=change(self.queries), keys=change(self.keys), columns=columns, heads=None)

    def in_all_heads(self) -> BoundCut:
        """The same cut for a matrix of only the heads that it concerns."""
        assert self.heads
        first = self.heads[0]
        return replace(self, queries=self.queries[:, first : first + 1], heads=None)

    def concerns(self, first: int, last: int) -> bool:
        """Whether it concerns a row from first to last."""
        return any(run.start <= last and first < run.stop for run in self.runs)

    def tile(self, rows: Positions, columns: Positions) -> Tensor:
        """Which columns it concerns, for each of these rows."""
        cut = take(self.queries, 2, rows) & take(self.keys, 3, columns)
        return cut if self.band is None else cut & _band_tile(self.band, rows, columns, self.keys.device)


@dataclass(frozen=True, eq=False)
class BoundMask:
    """A mask of one matrix: every tensor is 4-D (batch, heads, queries, keys), of size 1 where it broadcasts."""

    bands: tuple[_Band, ...] = ()
    kept: tuple[Tensor, ...] = ()  # bool (batch, 1, 1, keys)
    ids: tuple[tuple[Tensor, Tensor], ...] = ()  # (batch, 1, queries, 1) and (batch, 1, 1, keys)
    visible: tuple[Tensor, ...] = ()  # bool, dense
    biases: tuple[Tensor, ...] = ()  # float, dense
    cuts: tuple[BoundCut, ...] = ()
    cache: dict[Any, Any] = field(default_factory=dict, repr=False)  # facts that backends computed about it

    def __bool__(self) -> bool:
        return bool(self.bands or self.kept or self.ids or self.visible or self.biases or self.cuts)

    def __and__(self, other: BoundMask) -> BoundMask:
        return BoundMask(*(getattr(self, name) + getattr(other, name) for name in MASK_PARTS))

    @property
    def parts(self) -> tuple[str, ...]:
        """The names of the parts that this mask has."""
        return tuple([name for name in MASK_PARTS if getattr(self, name)])

    @property
    def biased(self) -> bool:
        """Whether `bias_tile` has anything to add."""
        return bool(self.biases) or any(cut.bias > -math.inf for cut in self.cuts)

    @property
    def plain_causal(self) -> bool:
        """Whether its only band is `causal()`, which fused kernels support."""
        return len(self.bands) == 1 and isinstance(self.bands[0][2], int) and self.bands[0] == (None, 0, 0)

    @property
    def only_bands(self) -> bool:
        """Whether it depends on nothing but the distance between query and key."""
        return not (self.kept or self.ids or self.visible or self.biases or self.cuts)

    @property
    def shows_every_key(self) -> bool:
        """Whether each key of a square matrix is certainly seen by the query at the same position."""
        if self.kept or self.visible or self.biases or any(cut.bias == -math.inf for cut in self.cuts):
            return False
        same = all(a.data_ptr() == b.data_ptr() and a.numel() == b.numel() for a, b in self.ids)
        return same and all(
            isinstance(offset, int)
            and (lowest is None or lowest + offset <= 0)
            and (highest is None or highest + offset >= 0)
            for lowest, highest, offset in self.bands
        )

    def each(self, change: Callable[[Tensor], Tensor]) -> BoundMask:
        """The same mask with `change` applied to every tensor."""
        return BoundMask(
            tuple((lo, hi, change(off) if isinstance(off, Tensor) else off) for lo, hi, off in self.bands),
            tuple(map(change, self.kept)),
            tuple((change(a), change(b)) for a, b in self.ids),
            tuple(map(change, self.visible)),
            tuple(map(change, self.biases)),
            tuple(cut.each(change) for cut in self.cuts),
        )

    def negated(self) -> BoundMask:
        """The same visible keys, with every finite bias times -1."""
        biases = tuple(torch.where(hides(bias), bias, -bias) for bias in self.biases)
        cuts = tuple(cut if cut.bias == -math.inf else replace(cut, bias=-cut.bias) for cut in self.cuts)
        return replace(self, biases=biases, cuts=cuts, cache={}) if self.biased else self

    def span(self, rows: Positions, keys: int) -> tuple[int, int, int, int]:
        """(first, whole_first, whole_end, end) of a block of rows.

        Keys outside first:end are hidden from all of these rows. Keys in whole_first:whole_end are hidden from none of
        these rows, except by a bias.
        """
        first, whole_first, whole_end, end = 0, 0, keys, keys
        top, bottom = ends(rows)
        for lowest, highest, offset in self.bands:
            near, far = (offset, offset) if isinstance(offset, int) else bounds(offset)
            if lowest is not None:
                first, whole_first = max(first, top + near + lowest), max(whole_first, bottom + far + lowest)
            if highest is not None:
                end, whole_end = min(end, bottom + far + highest + 1), min(whole_end, top + near + highest + 1)
        for kept in self.kept:
            seen, everywhere = kept.any(0).flatten(), kept.all(0).flatten()
            first, end = _narrow(first, end, seen)
            whole_first, whole_end = _first_run(whole_first, whole_end, everywhere)
        for query_ids, key_ids in self.ids:
            near, far = bounds(take(query_ids, 2, rows))
            first, end = _narrow(first, end, ((key_ids >= near) & (key_ids <= far)).any(0).flatten())
            if near == far:
                whole_first, whole_end = _first_run(whole_first, whole_end, (key_ids == near).all(0).flatten())
            else:
                whole_end = whole_first
        if self.visible or any(cut.bias == -math.inf and cut.concerns(top, bottom) for cut in self.cuts):
            whole_end = whole_first
        first, end = min(first, keys), max(min(end, keys), 0)
        end = max(end, first)
        whole_first = min(max(whole_first, first), end)
        return first, whole_first, max(min(whole_end, end), whole_first), end

    def reaches(self, rows: range, columns: range) -> bool:
        """Whether the bands certainly show every column to some row, judged by the first and last positions alone."""
        if len(self.bands) != 1:
            return not self.bands
        lowest, highest, offset = self.bands[0]
        if isinstance(offset, Tensor) or (lowest is not None and highest is not None and highest < lowest):
            return False
        return (highest is None or columns[-1] <= rows[-1] + offset + highest) and (
            lowest is None or columns[0] >= rows[0] + offset + lowest
        )

    def tile(self, rows: Positions, columns: Positions, device: torch.device) -> Tensor | None:
        """Which of these columns each of these rows may see, broadcastable to 4-D; None where all may."""
        seen = [_band_tile(band, rows, columns, device) for band in self.bands]
        seen += [take(kept, 3, columns) for kept in self.kept]
        seen += [take(q, 2, rows) == take(k, 3, columns) for q, k in self.ids]
        seen += [take(take(dense, 2, rows), 3, columns) for dense in self.visible]
        seen += [~cut for cut, bias in self._cut_tiles(rows, columns) if bias == -math.inf]
        return _all(seen)

    def _cut_tiles(self, rows: Positions, columns: Positions) -> Iterator[tuple[Tensor, float]]:
        top, bottom = ends(rows) if self.cuts and len(rows) else (0, -1)
        for cut in self.cuts:
            if cut.concerns(top, bottom):
                yield cut.tile(rows, columns), cut.bias

    def bias_tile(self, rows: Positions, columns: Positions, dtype: torch.dtype = torch.float64) -> Tensor | None:
        """The sum of all biases over a tile, -inf where a bias hides; None without biases.

        Several biases are summed in this dtype or a wider dtype; a single bias keeps its dtype.
        """
        biases = [take(take(dense, 2, rows), 3, columns) for dense in self.biases]
        for cut, bias in self._cut_tiles(rows, columns):
            if bias > -math.inf:
                biases.append(torch.where(cut, bias, 0.0).to(dtype))
        return _sum(biases, dtype)

    def points(
        self, batch: Tensor, head: Tensor, row: Tensor, column: Tensor, dtype: torch.dtype
    ) -> tuple[Tensor | None, Tensor | None]:
        """(visible, bias) at single points of the matrix, given as index tensors of one shape."""

        def look(dense: Tensor) -> Tensor:
            index = (batch, head, row, column)
            return dense[tuple(i if n > 1 else torch.zeros_like(i) for i, n in zip(index, dense.shape, strict=True))]

        seen = [
            _in_band(lowest, highest, row + (offset if isinstance(offset, int) else look(offset)), column)
            for lowest, highest, offset in self.bands
        ]
        seen += [look(kept) for kept in self.kept]
        seen += [look(q) == look(k) for q, k in self.ids]
        seen += [look(dense) for dense in self.visible]
        biases = [look(dense) for dense in self.biases]
        for cut in self.cuts:
            inside = look(cut.queries) & look(cut.keys)
            if cut.band is not None:
                lowest, highest, offset = cut.band
                inside = inside & _in_band(lowest, highest, row + offset, column)
            if cut.bias == -math.inf:
                seen.append(~inside)
            else:
                biases.append(torch.where(inside, cut.bias, 0.0).to(dtype))
        return _all(seen), _sum(biases, dtype)


def _band_tile(band: _Band, rows: Positions, columns: Positions, device: torch.device) -> Tensor:
    """The band over a tile."""
    lowest, highest, offset = band
    row = at(rows, device)[:, None] + offset
    return _in_band(lowest, highest, row if isinstance(offset, Tensor) else row[None, None], at(columns, device))


def _in_band(lowest: int | None, highest: int | None, row: Tensor, column: Tensor) -> Tensor:
    """Whether lowest <= column - row <= highest, without storing distances, which take eight bytes a point."""
    seen = [] if highest is None else [column <= row + highest]
    seen += [] if lowest is None else [column >= row + lowest]
    inside = _all(seen)
    return torch.ones_like(column <= row) if inside is None else inside


def _all(seen: list[Tensor]) -> Tensor | None:
    return reduce(operator.and_, seen) if seen else None


def _sum(biases: list[Tensor], dtype: torch.dtype) -> Tensor | None:
    total: Tensor | None = None
    for bias in biases:
        bias = bias.masked_fill(hides(bias), -math.inf)
        total = bias if total is None else total.to(torch.promote_types(total.dtype, dtype)) + bias
    return total


def _narrow(first: int, end: int, seen: Tensor) -> tuple[int, int]:
    where = seen.nonzero()
    if not len(where):
        return 0, 0
    return max(first, int(where[0])), min(end, int(where[-1]) + 1)


def _first_run(first: int, end: int, seen: Tensor) -> tuple[int, int]:
    inside = seen[first : max(end, first)]  # a band may end before key 0
    where = inside.nonzero()
    if not len(where):
        return first, first
    start = int(where[0])
    gap = (~inside[start:]).nonzero()
    return first + start, first + start + (int(gap[0]) if len(gap) else len(inside) - start)


def at(positions: Positions, device: torch.device) -> Tensor:
    """Positions as a tensor."""
    if isinstance(positions, Tensor):
        return positions
    return torch.arange(positions.start, positions.stop, positions.step, device=device)


def ends(positions: Positions) -> tuple[int, int]:
    """The smallest and the largest position."""
    return bounds(positions) if isinstance(positions, Tensor) else (positions[0], positions[-1])


def bounds(tensor: Tensor) -> tuple[int, int]:
    """The smallest and the largest value, as Python ints."""
    low, high = torch.aminmax(tensor)
    return int(low), int(high)


def pick(tensor: Tensor, axis: int, positions: Positions) -> Tensor:
    """The numbers at these positions of one axis: a view for a range."""
    if isinstance(positions, Tensor):
        return tensor.index_select(axis, positions)
    index = [slice(None)] * tensor.dim()
    index[axis] = slice(positions.start, positions.stop, positions.step)
    return tensor[tuple(index)]


def take(tensor: Tensor, axis: int, positions: Positions) -> Tensor:
    """`pick`, or the tensor itself where it broadcasts along this axis."""
    return tensor if tensor.shape[axis] == 1 else pick(tensor, axis, positions)


_BOUND: WeakKeyDictionary[Mask, tuple[Any, BoundMask]] = WeakKeyDictionary()


def bind(mask: Mask, shape: tuple[int, ...], device: torch.device, plain: bool) -> BoundMask:
    """Bind a mask to a matrix (*batch, heads, queries, keys); `plain`: the user's matrix has no axis of heads.

    The layers of a model share one mask, so its last `BoundMask` is cached, with the facts that backends stored there.
    """
    tensors = mask.tensors
    if not tensors or any(t.requires_grad or t.is_inference() for t in tensors) or is_transient(device):
        return _bind(mask, shape, device, plain)
    stream = torch._C._cuda_getCurrentRawStream(device.index) if device.type == "cuda" else None
    key = shape, device, plain, stream, [t._version for t in tensors]
    known, bound = _BOUND.get(mask, (None, None))
    if bound is None or known != key:
        bound = _bind(mask, shape, device, plain)
        _BOUND[mask] = key, bound
    return bound


def is_transient(device: torch.device) -> bool:
    """Whether tensors computed now cannot be cached: they are symbolic, or belong to a transform or to inference."""
    if torch.compiler.is_compiling() or inside_func() or torch.is_inference_mode_enabled():
        return True
    return device.type == "cuda" and torch.cuda.is_current_stream_capturing()


def _bind(mask: Mask, shape: tuple[int, ...], device: torch.device, plain: bool) -> BoundMask:
    *batch, heads, queries, keys = shape
    count = math.prod(batch)
    full = (queries, keys) if plain else shape
    names = "(queries, keys)" if plain else "(*batch, heads, queries, keys)"

    def fit(tensor: Tensor, to: Sequence[int], what: str, hint: str = "") -> Tensor:
        if tensor.device != device:
            raise DeviceError(f"{what} lies on {tensor.device}, query on {device}. Move it: tensor.to(query.device).")
        try:
            return tensor.expand(tuple(to))
        except RuntimeError:
            if not hint and queries != keys and queries in tensor.shape[-1:]:
                hint = " Was it made for self-attention?"
            raise ShapeError(
                f"{what} must broadcast to {tuple(to)}, for a matrix {names} = {tuple(full)}. "
                f"Got {tuple(tensor.shape)}.{hint}"
            ) from None

    def near(tensor: Tensor) -> Tensor:
        """Small tensors, perhaps from a list, follow the query to its device."""
        return tensor.to(device) if tensor.device.type == "cpu" else tensor

    def per_batch(tensor: Tensor, what: str, hint: str = "") -> Tensor:
        return fit(near(tensor), batch, what, hint).reshape(-1)

    def four(tensor: Tensor) -> Tensor:
        """4-D; axes that broadcast (left out, or of size 1) stay 1, so that nothing is copied."""
        has_all_keys = tensor.dtype == torch.bool and tensor.shape == (*batch, keys)
        fit(tensor, full, "mask", " For True per real token write regard.padding(mask)." if has_all_keys else "")
        tensor = tensor[(None,) * (len(shape) - tensor.dim())]
        if any(n != 1 for n in tensor.shape[: len(batch)]):
            tensor = tensor.expand(*batch, *tensor.shape[len(batch) :])
        return tensor.reshape(math.prod(tensor.shape[: len(batch)]), *tensor.shape[-3:])

    def tokens(positions: range | Tensor, length: int, what: str) -> Tensor:
        """Bools (batch or 1, length)."""
        if isinstance(positions, range):
            place = torch.arange(length, device=device)
            return ((place >= positions.start) & (place < positions.stop))[None]
        return fit(near(positions), (*batch, length), what).reshape(count, length)

    def bound_cut(atom: Cut) -> BoundCut:
        rows = tokens(atom.queries, queries, "the queries of a cut")[:, None]
        columns = tokens(atom.keys, keys, "the keys of a cut")[:, None]
        if isinstance(atom.heads, Tensor):
            rows = rows & fit(near(atom.heads), (*batch, heads), "the heads of a cut").reshape(count, heads, 1)
        elif atom.heads is not None:
            if atom.heads and atom.heads[-1] >= heads:
                raise OutOfRangeError(f"a cut has heads up to {heads - 1} here. Got {list(atom.heads)}.")
            chosen = torch.zeros(heads, dtype=torch.bool, device=device)
            rows = rows & chosen.index_fill(0, torch.tensor(atom.heads, device=device, dtype=torch.long), True)[:, None]
        band = None if atom.band is None else (atom.band.lowest, atom.band.highest, atom.band.offset)
        runs = _runs(atom.queries, queries)
        bound = BoundCut(rows[..., None], columns[:, :, None], band, atom.bias, runs)  # type: ignore[arg-type]
        if isinstance(atom.keys, Tensor) or isinstance(atom.queries, Tensor) or isinstance(atom.heads, Tensor):
            return bound
        places = range(min(atom.keys.start, keys), min(atom.keys.stop, keys))
        return replace(bound, columns=places, heads=atom.heads)

    bands: list[_Band] = []
    kept, ids = [], []
    visible: list[Tensor] = []
    biases: list[Tensor] = []
    cuts: list[BoundCut] = []
    for atom in mask.atoms:
        if isinstance(atom, Band):
            offset = atom.offset
            if not isinstance(offset, int):
                offset = per_batch(offset, "offset").long().clamp(-FAR, FAR)[:, None, None, None]
            bands.append((atom.lowest, atom.highest, offset))
        elif isinstance(atom, Keep) and atom.keys.dtype == torch.bool:
            kept.append(fit(near(atom.keys), (*batch, keys), "padding").reshape(count, 1, 1, keys))
        elif isinstance(atom, Keep):
            has_all_keys = atom.keys.dim() > len(batch) and atom.keys.shape[-1] == keys
            hint = " For a 0/1 mask write mask.bool()." if has_all_keys else ""
            lengths = per_batch(atom.keys, "padding lengths", hint)
            kept.append((torch.arange(keys, device=device) < lengths[:, None])[:, None, None])
        elif isinstance(atom, Same):
            mine = fit(near(atom.queries), (*batch, queries), "document ids of the queries")
            theirs = fit(near(atom.keys), (*batch, keys), "document ids of the keys")
            ids.append((mine.reshape(count, 1, queries, 1), theirs.reshape(count, 1, 1, keys)))
        elif isinstance(atom, Cut):
            cuts.append(bound_cut(atom))
        else:
            (visible if atom.tensor.dtype == torch.bool else biases).append(four(atom.tensor))
    return BoundMask(tuple(bands), tuple(kept), tuple(ids), tuple(visible), tuple(biases), tuple(cuts))


def _runs(queries: range | Tensor, length: int) -> tuple[range, ...]:
    """The runs of selected rows; within a run no batch changes."""
    if isinstance(queries, range):
        run = range(min(queries.start, length), min(queries.stop, length))
        return (run,) if len(run) else ()
    rows = queries.reshape(math.prod(queries.shape[:-1]), queries.shape[-1]).cpu()
    changes = (rows[:, 1:] != rows[:, :-1]).any(0).nonzero().flatten() + 1
    edges = [0, *changes.tolist(), rows.shape[-1]]
    selected = rows.any(0)[edges[:-1]].tolist() if rows.shape[-1] else []
    return tuple(range(a, b) for (a, b), used in zip(pairwise(edges), selected, strict=False) if used)


# Pieces: a cut concerns some rows and some keys. In a run of rows that it concerns, it is one row of padding or of
# bias; where it goes along a band, the keys on either side of the band, and the keys in it, are separate pieces.


class Piece(NamedTuple):
    """Some rows, with a mask that shows them a part of their keys; the parts of a row do not overlap."""

    rows: range  # positions in the whole matrix
    mask: BoundMask  # without cuts
    shift: float  # a bias on all scores that it shows
    cut: bool  # whether a cut concerns these rows


def in_pieces(mask: BoundMask, rows: Positions) -> list[Piece] | None:
    """The pieces of these rows, from top to bottom; None where a cut cannot be written as pieces."""
    if not isinstance(rows, range) or rows.step != 1:
        return None
    if any(cut.band is not None and not cut.everywhere for cut in mask.cuts):
        return None
    if ("pieces", rows) not in mask.cache:
        mask.cache["pieces", rows] = list(_pieces(mask, rows))
    pieces: list[Piece] = mask.cache["pieces", rows]
    return pieces


def cut_runs(mask: BoundMask, rows: range) -> Iterator[tuple[range, list[BoundCut]]]:
    """The runs of these rows in which no cut begins or ends, and the cuts that concern each run."""
    edges = {edge for cut in mask.cuts for run in cut.runs for edge in (run.start, run.stop)}
    inside = {edge for edge in edges if rows.start < edge < rows.stop}
    for start, stop in pairwise(sorted({rows.start, rows.stop} | inside)):
        yield range(start, stop), [cut for cut in mask.cuts if cut.concerns(start, start)]


def _pieces(mask: BoundMask, rows: range) -> Iterator[Piece]:
    plain = replace(mask, cuts=(), cache={})
    for run, active in cut_runs(mask, rows):
        if not active:
            yield Piece(run, plain, 0.0, False)
            continue
        shown = plain & _one_row([cut for cut in active if cut.band is None], run.start)
        for band, shift in bands_between([cut for cut in active if cut.band is not None], shown):
            yield Piece(run, shown if band is None else shown & BoundMask(bands=(band,)), shift, True)


def _one_row(cuts: Sequence[BoundCut], row: int) -> BoundMask:
    """These cuts in one row, as a mask that is the same for all rows."""
    shown: list[Tensor] = []
    biases: list[Tensor] = []
    for cut in cuts:
        inside = take(cut.queries, 2, range(row, row + 1)) & cut.keys
        if cut.bias == -math.inf:
            shown.append(~inside)
        else:
            biases.append(torch.where(inside, cut.bias, 0.0))
    visible, bias = _all(shown), sum(biases[1:], biases[0]) if biases else None
    padding = visible is not None and visible.shape[1] == 1
    return BoundMask(
        kept=(visible,) if visible is not None and padding else (),
        visible=(visible,) if visible is not None and not padding else (),
        biases=() if bias is None else (bias,),
    )


def bands_between(cuts: Sequence[BoundCut], mask: BoundMask) -> list[tuple[_Band | None, float]]:
    """The bands that cuts along bands leave, or add a bias to: together all distances that are not hidden."""
    if not cuts:
        return [(None, 0.0)]
    spans = []
    for cut in cuts:
        assert cut.band is not None
        lowest, highest, offset = cut.band
        spans.append((-FAR if lowest is None else lowest + offset, FAR if highest is None else highest + offset))
    edges = sorted({-FAR, FAR + 1} | {edge for low, high in spans if low <= high for edge in (low, high + 1)})
    bands: list[tuple[_Band | None, float]] = []
    for low, after in pairwise(edges):
        shift = sum(cut.bias for cut, span in zip(cuts, spans, strict=True) if span[0] <= low and after - 1 <= span[1])
        if shift > -math.inf and not _hides(mask, low, after - 1):
            bands.append(((None if low <= -FAR else low, None if after > FAR else after - 1, 0), shift))
    return bands or [((1, 0, 0), 0.0)]  # no distance at all


def _hides(mask: BoundMask, low: int, high: int) -> bool:
    """Whether the bands of the mask hide all of these distances."""
    return any(
        isinstance(offset, int)
        and ((lowest is not None and high < lowest + offset) or (highest is not None and low > highest + offset))
        for lowest, highest, offset in mask.bands
    )
