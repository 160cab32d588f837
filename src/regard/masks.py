"""Masks are values: small, composable descriptions of which query may see which key.

A mask never holds queries × keys numbers unless the user hands such a tensor in. `Mask` is what users write;
`BoundMask` is the same mask laid onto one matrix, where it answers three questions: which keys can a run of
queries see at all (`span`), what does one tile look like (`tile`), and what holds at single points (`at`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from regard.errors import DeviceError, DTypeError, ShapeError

__all__ = ["Mask", "bias", "causal", "documents", "padding", "window"]

Positions = range | Tensor  # where rows or columns lie in the whole matrix
HIDING = -1e30  # a bias this low hides, as -inf does: many libraries write torch.finfo(dtype).min


@dataclass(frozen=True, eq=False)
class Band:
    """Key j is visible to query i where lowest <= j - i - offset <= highest."""

    lowest: int | None
    highest: int | None
    offset: int | Tensor

    def __repr__(self) -> str:
        at = "" if isinstance(self.offset, int) and self.offset == 0 else f"offset={_brief(self.offset)}"
        if self.lowest is None and self.highest == 0:
            return f"causal({at})"
        left = None if self.lowest is None else -self.lowest
        return f"window({', '.join(filter(None, [str(left), str(self.highest), at]))})"


@dataclass(frozen=True, eq=False)
class Keep:
    """Key j is visible where it is kept: a length per sequence, or True per key."""

    keys: Tensor

    def __repr__(self) -> str:
        return f"padding({_brief(self.keys)})"


@dataclass(frozen=True, eq=False)
class Same:
    """Key j is visible to query i where both carry the same document id."""

    queries: Tensor
    keys: Tensor

    def __repr__(self) -> str:
        return f"documents({_brief(self.queries)})"


@dataclass(frozen=True, eq=False)
class Dense:
    """A tensor over (queries, keys): bool, True = attend; or float, added to the scores."""

    tensor: Tensor

    def __repr__(self) -> str:
        return f"{'visible' if self.tensor.dtype == torch.bool else 'bias'}({_brief(self.tensor)})"


Atom = Band | Keep | Same | Dense


def _brief(value: int | Tensor) -> str:
    if isinstance(value, int):
        return str(value)
    if value.numel() <= 4 and not value.is_floating_point():
        return str(value.tolist())
    return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"


@dataclass(frozen=True, eq=False)
class Mask:
    """Which query may see which key; `a & b` lets through what both let through.

    >>> import regard
    >>> regard.causal() & regard.padding([3, 5])
    causal() & padding([3, 5])
    """

    atoms: tuple[Atom, ...] = ()

    def __and__(self, other: Mask | Tensor) -> Mask:
        return Mask(self.atoms + as_mask(other).atoms)

    __rand__ = __and__

    def __repr__(self) -> str:
        return " & ".join(map(repr, self.atoms)) or "None"

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """Every tensor the mask reads."""
        found = []
        for atom in self.atoms:
            found += [value for value in vars(atom).values() if isinstance(value, Tensor)]
        return tuple(found)


def as_mask(mask: Mask | Tensor | None) -> Mask:
    """Whatever may be written as `mask=`, as a Mask: a bool tensor hides, a float tensor is added."""
    if mask is None:
        return Mask()
    if isinstance(mask, Mask):
        return mask
    if isinstance(mask, Tensor) and (mask.dtype == torch.bool or mask.is_floating_point()):
        return Mask((Dense(mask),))
    got = mask.dtype if isinstance(mask, Tensor) else type(mask).__name__
    raise DTypeError(
        "mask must be a regard mask, a bool tensor (True = attend) or a float tensor (added to the scores). "
        f"Got {got}. For a 0/1 mask write mask.bool()."
    )


def _offset(offset: int | Tensor | Sequence[int]) -> int | Tensor:
    if isinstance(offset, int):
        return offset
    per_batch = torch.as_tensor(offset)
    if per_batch.is_floating_point() or per_batch.dtype == torch.bool:
        raise DTypeError(f"offset must be an int or whole numbers per batch. Got {per_batch.dtype}.")
    return per_batch


def causal(offset: int | Tensor | Sequence[int] = 0) -> Mask:
    """Query i sees keys up to i + offset; with fewer queries than keys, offset = keys - queries ends both together.

    The alignment is explicit: 3 queries, 5 keys,

        causal()      causal(2)
        1 0 0 0 0     1 1 1 0 0
        1 1 0 0 0     1 1 1 1 0
        1 1 1 0 0     1 1 1 1 1

    >>> import regard
    >>> regard.causal(2)
    causal(offset=2)
    """
    return Mask((Band(None, 0, _offset(offset)),))


def window(left: int | None, right: int | None = 0, offset: int | Tensor | Sequence[int] = 0) -> Mask:
    """Query i sees keys from i + offset - left to i + offset + right; None leaves that side open.

        window(1, 0)    window(0, 1)
        1 0 0 0         1 1 0 0
        1 1 0 0         0 1 1 0
        0 1 1 0         0 0 1 1
        0 0 1 1         0 0 0 1

    >>> import regard
    >>> regard.window(128, 0)
    window(128, 0)
    """
    for name, side in (("left", left), ("right", right)):
        if side is not None and (not isinstance(side, int) or isinstance(side, bool)):
            raise DTypeError(f"{name} must be a whole number, or None for no bound. Got {side!r}.")
    return Mask((Band(None if left is None else -left, right, _offset(offset)),))


def padding(keys: Tensor | Sequence[int] | int) -> Mask:
    """Hides padded keys: a length for each sequence, or a bool tensor (*batch, keys), True = a real token.

    >>> import regard
    >>> regard.padding([3, 5])
    padding([3, 5])
    """
    kept = torch.as_tensor(keys)
    if kept.is_floating_point() or kept.is_complex():
        raise DTypeError(
            "padding takes lengths (whole numbers) or a bool tensor, True = a real token. "
            f"Got {kept.dtype}. For a float mask that is added to the scores use regard.bias."
        )
    return Mask((Keep(kept),))


def documents(ids: Tensor | Sequence[int], key_ids: Tensor | Sequence[int] | None = None) -> Mask:
    """Packed documents: a query sees the keys that carry its own id. `ids` is (*batch, tokens).

        documents([7, 7, 9])
        1 1 0
        1 1 0
        0 0 1

    >>> import torch, regard
    >>> regard.documents(torch.tensor([7, 7, 9])) & regard.causal()
    documents([7, 7, 9]) & causal()
    """
    queries = torch.as_tensor(ids)
    keys = queries if key_ids is None else torch.as_tensor(key_ids)
    for tensor in (queries, keys):
        if tensor.is_floating_point() or tensor.dtype == torch.bool or tensor.dim() == 0:
            raise DTypeError(
                "documents takes one whole number per token, shape (*batch, tokens). "
                f"Got {tensor.dtype} of shape {tuple(tensor.shape)}."
            )
    return Mask((Same(queries, keys),))


def bias(tensor: Tensor) -> Mask:
    """Numbers added to the scaled scores, broadcast to (*batch, heads, queries, keys); -inf hides.

    >>> import torch, regard
    >>> regard.bias(torch.zeros(8, 1, 5))
    bias(float32[8, 1, 5])
    """
    if not isinstance(tensor, Tensor) or not tensor.is_floating_point():
        got = tensor.dtype if isinstance(tensor, Tensor) else type(tensor).__name__
        raise DTypeError(f"bias takes a float tensor. Got {got}. Pass a bool mask as mask=… itself, True = attend.")
    return Mask((Dense(tensor),))


@dataclass(frozen=True, eq=False)
class BoundMask:
    """A mask laid onto one matrix: every tensor is 4-D (batch, heads, queries, keys), 1 where it is shared."""

    bands: tuple[tuple[int | None, int | None, int | Tensor], ...] = ()  # lowest, highest, offset (batch, 1, 1, 1)
    kept: tuple[Tensor, ...] = ()  # bool (batch, 1, 1, keys)
    ids: tuple[tuple[Tensor, Tensor], ...] = ()  # (batch, 1, queries, 1) and (batch, 1, 1, keys)
    visible: tuple[Tensor, ...] = ()  # bool, dense
    biases: tuple[Tensor, ...] = ()  # float, dense

    def __bool__(self) -> bool:
        return bool(self.bands or self.kept or self.ids or self.visible or self.biases)

    def tensors(self) -> Iterator[Tensor]:
        """Every tensor of the mask."""
        yield from (offset for _, _, offset in self.bands if isinstance(offset, Tensor))
        yield from self.kept
        for pair in self.ids:
            yield from pair
        yield from self.visible
        yield from self.biases

    def each(self, change: Callable[[Tensor], Tensor]) -> BoundMask:
        """The same mask with every tensor sent through `change`."""
        return BoundMask(
            tuple((lo, hi, change(off) if isinstance(off, Tensor) else off) for lo, hi, off in self.bands),
            tuple(map(change, self.kept)),
            tuple((change(a), change(b)) for a, b in self.ids),
            tuple(map(change, self.visible)),
            tuple(map(change, self.biases)),
        )

    def span(self, rows: Positions, keys: int) -> tuple[int, int, int, int]:
        """(first, whole_first, whole_end, end): keys outside first:end are hidden from all of these rows; keys
        in whole_first:whole_end are hidden from none of them by anything but a bias."""
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
            mine = take(query_ids, 2, rows)
            near, far = bounds(mine)
            first, end = _narrow(first, end, ((key_ids >= near) & (key_ids <= far)).any(0).flatten())
            if near == far:
                whole_first, whole_end = _first_run(whole_first, whole_end, (key_ids == near).all(0).flatten())
            else:
                whole_end = whole_first
        if self.visible:
            whole_end = whole_first
        first, end = min(first, keys), max(min(end, keys), 0)
        end = max(end, first)
        whole_first = min(max(whole_first, first), end)
        return first, whole_first, max(min(whole_end, end), whole_first), end

    def reaches(self, rows: range, columns: range) -> bool:
        """Whether the bands surely show every column to some row, told from the ends alone."""
        if len(self.bands) != 1 or not isinstance(self.bands[0][2], int) or not len(columns):
            return not self.bands
        lowest, highest, offset = self.bands[0]
        if lowest is not None and highest is not None and highest < lowest:
            return False
        return (highest is None or columns[-1] <= rows[-1] + offset + highest) and (
            lowest is None or columns[0] >= rows[0] + offset + lowest
        )

    def tile(self, rows: Positions, columns: Positions, device: torch.device) -> Tensor | None:
        """Which of these columns each of these rows may see, broadcastable to 4-D; None where nothing is asked."""
        seen: list[Tensor] = []
        if self.bands:
            apart = (at(columns, device) - at(rows, device)[:, None])[None, None]
            seen += [_within(apart - offset, lo, hi) for lo, hi, offset in self.bands]
        seen += [take(kept, 3, columns) for kept in self.kept]
        seen += [take(q, 2, rows) == take(k, 3, columns) for q, k in self.ids]
        seen += [take(take(dense, 2, rows), 3, columns) for dense in self.visible]
        return _all(seen)

    def without_bands(self) -> BoundMask:
        """The mask less what depends on the distance between query and key."""
        return replace(self, bands=())

    def bias_tile(self, rows: Positions, columns: Positions) -> Tensor | None:
        """The sum of all biases over a tile, -inf where one of them hides; None where there is none."""
        return _sum([take(take(dense, 2, rows), 3, columns) for dense in self.biases])

    def points(self, batch: Tensor, head: Tensor, row: Tensor, column: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """(visible, bias) at single points of the matrix, given as index tensors of one shape."""

        def look(dense: Tensor) -> Tensor:
            index = (batch, head, row, column)
            return dense[tuple(i if n > 1 else torch.zeros_like(i) for i, n in zip(index, dense.shape, strict=True))]

        apart = column - row
        seen = [
            _within(apart - (offset if isinstance(offset, int) else look(offset)), lo, hi)
            for lo, hi, offset in self.bands
        ]
        seen += [look(kept) for kept in self.kept]
        seen += [look(q) == look(k) for q, k in self.ids]
        seen += [look(dense) for dense in self.visible]
        return _all(seen), _sum([look(dense) for dense in self.biases])


def _within(apart: Tensor, lowest: int | None, highest: int | None) -> Tensor:
    seen = torch.ones_like(apart, dtype=torch.bool) if lowest is None and highest is None else None
    if highest is not None:
        seen = apart <= highest
    if lowest is not None:
        seen = apart >= lowest if seen is None else seen & (apart >= lowest)
    assert seen is not None
    return seen


def _all(seen: list[Tensor]) -> Tensor | None:
    if not seen:
        return None
    together = seen[0]
    for other in seen[1:]:
        together = together & other
    return together


def _sum(biases: list[Tensor]) -> Tensor | None:
    total: Tensor | None = None
    for bias in biases:
        bias = bias.masked_fill(bias <= HIDING, -math.inf)
        total = bias if total is None else total + bias
    return total


def _narrow(first: int, end: int, seen: Tensor) -> tuple[int, int]:
    where = seen.nonzero()
    if not len(where):
        return 0, 0
    return max(first, int(where[0])), min(end, int(where[-1]) + 1)


def _first_run(first: int, end: int, seen: Tensor) -> tuple[int, int]:
    inside = seen[first:end]
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
    """The least and the greatest position."""
    return bounds(positions) if isinstance(positions, Tensor) else (positions[0], positions[-1])


def bounds(tensor: Tensor) -> tuple[int, int]:
    """The least and the greatest value, as Python ints."""
    low, high = torch.aminmax(tensor)
    return int(low), int(high)


def pick(tensor: Tensor, axis: int, positions: Positions) -> Tensor:
    """The given positions along one axis: a view for a range."""
    if isinstance(positions, Tensor):
        return tensor.index_select(axis, positions)
    index = [slice(None)] * tensor.dim()
    index[axis] = slice(positions.start, positions.stop, positions.step)
    return tensor[tuple(index)]


def take(tensor: Tensor, axis: int, positions: Positions) -> Tensor:
    """`pick`, or the tensor itself where all positions share one entry."""
    return tensor if tensor.shape[axis] == 1 else pick(tensor, axis, positions)


def bind(mask: Mask, shape: tuple[int, ...], device: torch.device, plain: bool) -> BoundMask:
    """Lay a mask onto a matrix of the given shape (*batch, heads, queries, keys); `plain`: it was written without heads."""
    *batch, heads, queries, keys = shape
    asked = (queries, keys) if plain else shape
    names = "(queries, keys)" if plain else "(*batch, heads, queries, keys)"

    def fit(tensor: Tensor, to: Sequence[int], what: str) -> Tensor:
        if tensor.device != device:
            raise DeviceError(f"{what} lies on {tensor.device}, query on {device}. Move it: tensor.to(query.device).")
        try:
            return tensor.expand(tuple(to))
        except RuntimeError:
            hint = " Was it made for self-attention?" if queries != keys and queries in tensor.shape[-1:] else ""
            raise ShapeError(
                f"{what} must broadcast to {tuple(to)}, for a matrix {names} = {tuple(asked)}. "
                f"Got {tuple(tensor.shape)}.{hint}"
            ) from None

    def per_batch(tensor: Tensor, what: str) -> Tensor:
        return fit(tensor.to(device) if tensor.device.type == "cpu" else tensor, batch, what).reshape(-1)

    def four(tensor: Tensor) -> Tensor:
        """4-D; axes that are shared (left out, or written as 1) stay 1, so that nothing is copied."""
        fit(tensor, asked, "mask")
        tensor = tensor[(None,) * (len(shape) - tensor.dim())]
        if any(n != 1 for n in tensor.shape[: len(batch)]):
            tensor = tensor.expand(*batch, *tensor.shape[len(batch) :])
        return tensor.reshape(-1 if tensor.numel() else math.prod(tensor.shape[: len(batch)]), *tensor.shape[-3:])

    bands: list[tuple[int | None, int | None, int | Tensor]] = []
    kept, ids, visible, biases = [], [], [], []
    for atom in mask.atoms:
        if isinstance(atom, Band):
            offset = atom.offset
            if not isinstance(offset, int):
                offset = per_batch(offset, "offset")[:, None, None, None]
            bands.append((atom.lowest, atom.highest, offset))
        elif isinstance(atom, Keep) and atom.keys.dtype == torch.bool:
            kept.append(fit(atom.keys, (*batch, keys), "padding").reshape(-1, 1, 1, keys))
        elif isinstance(atom, Keep):
            lengths = per_batch(atom.keys, "padding lengths")
            kept.append((torch.arange(keys, device=device) < lengths[:, None])[:, None, None])
        elif isinstance(atom, Same):
            mine = fit(atom.queries, (*batch, queries), "document ids of the queries")
            theirs = fit(atom.keys, (*batch, keys), "document ids of the keys")
            ids.append((mine.reshape(-1, 1, queries, 1), theirs.reshape(-1, 1, 1, keys)))
        else:
            (visible if atom.tensor.dtype == torch.bool else biases).append(four(atom.tensor))
    return BoundMask(tuple(bands), tuple(kept), tuple(ids), tuple(visible), tuple(biases))
