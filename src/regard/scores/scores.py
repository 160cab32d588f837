"""`Scores`: everything up to the softmax, as a frozen value that can give any part of itself.

    query, key ──QKᵀ──▶ scores ──× scale──▶ scaled ──softcap──▶ capped ──mask──▶ masked

Tensors are always 4-D, (batch, heads, tokens, width): the user's leading axes are folded into one. Keys may have fewer
heads than queries: query head h reads key head h // group, and nothing is repeated in memory.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from regard.errors import DeviceError, DTypeError, InputError, ShapeError
from regard.scores.bound_mask import BoundMask, Piece, Positions, at, bind, in_pieces, is_transient, pick, take
from regard.scores.masks import Mask, as_mask, hides
from regard.support import FLOATS, Bool, Float, Int, check_dense, check_stored, no_autocast, number

_LARGEST = 1e30  # of a scale or a softcap: beyond, float32 has no room for products with it
_POINTS = 2**20  # points of the mask evaluated at a time where the mask itself is streamed


@dataclass(frozen=True, eq=False)
class Scores:
    """The scores of every query with every key, not yet computed."""

    query: Float[Tensor, "batch heads queries width"]
    key: Float[Tensor, "batch key_heads keys width"]
    mask: BoundMask
    scale: float
    softcap: float | None
    sinks: Float[Tensor, "batch heads"] | None
    rows: Positions  # where these queries and keys lie in the whole matrix, which the mask describes
    columns: Positions

    @cached_property
    def cache(self) -> dict[Any, Any]:
        """Facts that backends computed about these scores, for later results."""
        return {}

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "cache"}

    @property
    def group(self) -> int:
        """How many query heads share a key head."""
        return self.query.shape[1] // max(self.key.shape[1], 1)

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """(batch, heads, queries, keys)."""
        batch, heads, queries, _ = self.query.shape
        return batch, heads, queries, self.key.shape[2]

    @property
    def requires_grad(self) -> bool:
        """Whether a gradient may flow to any of its tensors."""
        tensors = (self.query, self.key, self.sinks, *self.mask.biases)
        return any(tensor is not None and tensor.requires_grad for tensor in tensors)

    @property
    def working_dtype(self) -> torch.dtype:
        """The dtype of sums, logsumexp and reductions."""
        return torch.float64 if self.query.dtype == torch.float64 else torch.float32

    @no_autocast
    def stage(self, name: str) -> Float[Tensor, "batch heads queries keys"]:
        """All of one stage, dense and differentiable, in the working dtype."""
        batch, heads, queries, keys = self.shape
        query, key, visible, bias = self.query, self.key, None, None
        if name == "masked":
            bias = self.mask.bias_tile(self.rows, self.columns, self.working_dtype)
            visible = _visible(self.mask.tile(self.rows, self.columns, query.device), bias)
        if visible is not None and torch.is_grad_enabled() and (query.requires_grad or key.requires_grad):
            query, key = _clean(query, ~visible.any(-1)), _clean(key, ~visible.any(-2))
        folded = batch, key.shape[1], self.group * queries, query.shape[-1]
        query = query.to(self.working_dtype).reshape(folded)
        dots = (query @ key.to(self.working_dtype).mT).view(batch, heads, queries, keys)
        return self._staged(dots, name, visible, bias)

    def points(self, name: str, index: Sequence[Int[Tensor, " n"]]) -> Float[Tensor, " n"]:
        """One stage at single points: index tensors of their batches, heads, rows and columns."""
        batch, head, row, column = index
        query = self.query[batch, head, row].to(self.working_dtype)
        key = self.key[batch, head // self.group, column].to(self.working_dtype)
        visible = bias = None
        if name == "masked":
            place = at(self.rows, query.device)[row], at(self.columns, query.device)[column]
            visible, bias = self.mask.points(batch, head, *place, self.working_dtype)
            visible = _visible(visible, bias)
        if visible is not None:  # hidden keys are not read, so that they are in no gradient
            query, key = (torch.where(visible[:, None], tensor, 0.0) for tensor in (query, key))
        return self._staged((query * key).sum(-1), name, visible, bias)

    def _staged(self, dots: Tensor, name: str, visible: Tensor | None, bias: Tensor | None) -> Tensor:
        if name == "scores":
            return dots
        scaled = dots * self.scale
        if name == "scaled":
            return scaled
        capped = scaled if self.softcap is None else self.softcap * torch.tanh(scaled / self.softcap)
        if bias is not None:
            capped = capped + bias
        # `where` rather than the bias's own -inf: it also removes the NaN of a hidden key.
        return capped if visible is None else torch.where(visible, capped, -math.inf)

    def select(self, batch: Sequence[int], heads: Sequence[int], rows: Positions, columns: Positions) -> Scores:
        """Some batches, heads, rows and columns, by index; views wherever the indices are evenly spaced."""
        indices = (batch, heads, self.key_heads(heads))
        b, h, g = (as_range(index, self.query) for index in indices)

        def narrow(tensor: Tensor) -> Tensor:
            return take(take(tensor, 0, b), 1, h)

        return replace(
            self,
            query=pick(pick(pick(self.query, 0, b), 1, h), 2, rows),
            key=pick(pick(pick(self.key, 0, b), 1, g), 2, columns),
            mask=self.mask.each(narrow),
            sinks=None if self.sinks is None else pick(pick(self.sinks, 0, b), 1, h),
            rows=_compose(self.rows, rows),
            columns=_compose(self.columns, columns),
        )

    def negated(self) -> Scores:
        """The scores whose finite logits are those of these times -1, without sinks."""
        return replace(self, scale=-self.scale, mask=self.mask.negated(), sinks=None)

    def by_heads(self) -> list[tuple[list[int], Scores]]:
        """The heads that the same cuts concern, and their scores, in which each cut concerns all heads."""
        batch, heads, queries, keys = (range(n) for n in self.shape)
        groups: dict[tuple[bool, ...], list[int]] = {}
        for head in heads:
            concerned = tuple(cut.heads is None or head in cut.heads for cut in self.mask.cuts)
            groups.setdefault(concerned, []).append(head)
        parts = []
        for concerned, group in groups.items():
            part = self.select(batch, group, queries, keys)
            pairs = zip(self.mask.cuts, part.mask.cuts, concerned, strict=True)
            cuts = tuple(of_part if cut.heads is None else cut.in_all_heads() for cut, of_part, kept in pairs if kept)
            parts.append((group, replace(part, mask=replace(part.mask, cuts=cuts))))
        return parts

    def key_heads(self, heads: Sequence[int]) -> list[int]:
        """The key heads of a selection of heads: each once if all are read equally often, else one for each head."""
        readers = [head // self.group for head in heads]
        groups = sorted(set(readers))
        even = readers == [g for g in groups for _ in range(len(readers) // len(groups))] if groups else True
        return groups if even else readers

    def detached(self) -> Scores:
        """The same numbers outside any graph, with NaN and inf removed from keys that no query sees."""
        mask = self.mask.each(Tensor.detach) if self.mask.biases else self.mask
        sinks, key = None if self.sinks is None else self.sinks.detach(), self.shielded(self.key.detach())
        data = Scores(self.query.detach(), key, mask, self.scale, self.softcap, sinks, self.rows, self.columns)
        vars(data)["unseen"] = self.unseen  # computed already, and the same
        return data

    def seeing(self, lse: Float[Tensor, "batch heads queries"]) -> Scores:
        """The same scores with NaN and inf removed from queries that see no key, judged by their normaliser."""
        mask = self.mask
        if not mask or (mask.plain_causal and mask.only_bands):  # then every query sees a key
            return self
        # A query that holds NaN or inf and sees a key has a normaliser of NaN or inf; but a softcap makes inf finite.
        if self.softcap is None:
            sees_nothing = lse < math.inf
        else:
            sees_nothing = lse == (-math.inf if self.sinks is None else self.sinks.to(lse.dtype)[..., None])
        data = replace(self, query=_clean(self.query, sees_nothing))
        vars(data)["unseen"] = self.unseen
        return data

    def shielded(self, tensor: Float[Tensor, "batch any_heads keys any"]) -> Float[Tensor, "batch any_heads keys any"]:
        """Keys or values, with NaN and inf removed from those that no query sees."""
        return tensor if self.unseen is None else _clean(tensor, self.unseen)

    @cached_property
    def unseen(self) -> Bool[Tensor, "batch_or_1 heads_or_1 keys"] | None:
        """The keys that no query may see; None where there cannot be any."""
        if not self.mask or 0 in self.shape:
            return None
        if isinstance(self.rows, Tensor) or isinstance(self.columns, Tensor) or is_transient(self.query.device):
            return self._unseen()
        cache, key = self.mask.cache, ("unseen", self.shape, self.rows, self.columns)
        if key not in cache:
            cache[key] = self._unseen()
        unseen: Tensor | None = cache[key]
        return unseen

    def _unseen(self) -> Tensor | None:
        mask, rows = self.mask, self.rows
        if isinstance(rows, range) and rows == self.columns and mask.shows_every_key:
            return None
        if mask.cuts and (pieces := in_pieces(mask, rows)) is not None:
            return self._unseen_in_pieces(pieces)
        if any(cut.heads is not None for cut in mask.cuts):
            hidden = self.query.new_zeros(self.shape[0], self.shape[1], self.shape[3], dtype=torch.bool)
            for group, part in self.by_heads():
                hidden[:, group] = False if part.unseen is None else part.unseen
            return hidden
        same_rows = not mask.cuts and all(dense.shape[2] == 1 for dense in (*mask.visible, *mask.biases))
        if same_rows and len(mask.ids) < 2 and isinstance(rows, range) and rows.step == 1:
            return self._unseen_in_intervals(rows)
        return self._unseen_in_tiles()

    def _unseen_in_pieces(self, pieces: Sequence[Piece]) -> Tensor | None:
        """The keys that are unseen in every piece."""
        everywhere: Tensor | None = None
        for piece in pieces:
            rows = range(piece.rows.start - self.rows[0], piece.rows.stop - self.rows[0])
            part = replace(self, query=pick(self.query, 2, rows), mask=piece.mask, rows=piece.rows)
            if part.unseen is None:
                return None
            everywhere = part.unseen if everywhere is None else everywhere & part.unseen
        return everywhere

    def _unseen_in_intervals(self, rows: range) -> Tensor | None:
        """The unseen keys where consecutive queries see a key: all of them, or those with its document id."""
        mask, columns = self.mask, self.columns
        if mask.only_bands and isinstance(columns, range) and mask.reaches(rows, columns):
            return None
        column = at(columns, self.query.device)
        first, last = torch.full_like(column, rows[0]), torch.full_like(column, rows[-1])
        for lowest, highest, offset in mask.bands:
            first = first if highest is None else torch.maximum(first, column - offset - highest)
            last = last if lowest is None else torch.minimum(last, column - offset - lowest)
        hidden = first > last
        hidden = hidden[None, None, None] if hidden.dim() == 1 else hidden
        for kept in (*mask.kept, *mask.visible):
            hidden = hidden | ~take(kept, 3, columns)
        for added in mask.biases:
            hidden = hidden | hides(take(added, 3, columns))
        for query_ids, key_ids in mask.ids:
            span = (edge.view(-1, self.shape[3]) - rows[0] for edge in (first, last))
            picked = take(query_ids, 2, rows)[:, 0, :, 0], take(key_ids, 3, columns)[:, 0, 0]
            hidden = hidden | ~_some_query_has_id(*picked, *span)[:, None, None]
        return hidden[:, :, 0]

    def _unseen_in_tiles(self) -> Tensor | None:
        """The unseen keys of any mask, of which some rows are evaluated at a time."""
        mask, (batch, _, queries, keys), device = self.mask, self.shape, self.query.device
        rows = max(_POINTS // (keys * batch), 2)  # with one row, a mask that all rows share could not be told apart
        if device.type == "cuda":  # larger pieces keep it busy; distances, which a band needs, take eight bytes each
            heads = max((tensor.shape[1] for tensor in (*mask.visible, *mask.biases)), default=1)
            rows = max((2**3 if mask.bands else 2**6) * _POINTS // (keys * batch * heads), 2)
        seen: Tensor | None = None
        for start in range(0, queries, rows):
            positions = _compose(self.rows, range(start, min(start + rows, queries)))
            bias = mask.bias_tile(positions, self.columns, self.working_dtype)
            visible = _visible(mask.tile(positions, self.columns, device), bias)
            if visible is None:  # no cut concerns these rows
                return None
            any_row = visible.any(2)
            seen = any_row if seen is None else seen | any_row
            if visible.shape[2] == 1:  # the same for every row
                break
        assert seen is not None
        return ~seen


def _some_query_has_id(
    query_ids: Int[Tensor, "batch queries"], key_ids: Int[Tensor, "batch keys"],
    first: Int[Tensor, "any_batch keys"], last: Int[Tensor, "other_batch keys"],
) -> Bool[Tensor, "batch keys"]:  # fmt: skip
    """Whether a query from `first` to `last` has the id of the key: by binary search, not by comparing all pairs."""
    queries, key_ids = query_ids.shape[1], key_ids.long().contiguous()
    ids, order = query_ids.long().sort(dim=-1, stable=True)
    rank = torch.searchsorted(ids, ids) * queries + order  # ascending: first by id, then by query
    begin = torch.searchsorted(ids, key_ids)
    place = torch.searchsorted(rank, begin * queries + first.clamp_min(0))
    same = ids.gather(1, begin.clamp_max(queries - 1)) == key_ids
    in_time = rank.gather(1, place.clamp_max(queries - 1)) <= begin * queries + last.clamp_max(queries - 1)
    return same & (place < queries) & in_time


def make_scores(
    query: Float[Tensor, "*batch heads queries width"] | Float[Tensor, "queries width"],
    key: Float[Tensor, "*batch key_heads keys width"] | Float[Tensor, "keys width"],
    mask: Mask | Tensor | None,
    scale: float | None,
    softcap: float | None,
    sinks: Tensor | float | None,
) -> Scores:
    """Check the user's inputs and fold them into a Scores."""
    check_floats(query=query, key=key)
    if query.dim() < 2 or query.dim() != key.dim():
        raise ShapeError(
            "query must be (*batch, heads, queries, width) or (queries, width), and key the same with keys. "
            f"Got query {tuple(query.shape)}, key {tuple(key.shape)}."
        )
    plain = query.dim() == 2
    if plain:
        query, key = query[None], key[None]
    *batch, heads, queries, width = query.shape
    *key_batch, key_heads, keys, key_width = key.shape
    if width != key_width or width == 0:
        raise ShapeError(
            f"query and key must have the same width, at least 1: width = {width} and {key_width}. "
            "Project both to the same width first."
        )
    if batch != key_batch:
        raise ShapeError(
            f"query and key must have the same batch axes. Got {tuple(batch)} and {tuple(key_batch)}. "
            "Use key.expand(…) to share keys over a batch: it copies nothing."
        )
    if key_heads != heads and (key_heads == 0 or heads % key_heads):
        raise ShapeError(
            f"query heads must be a multiple of key heads: heads = {heads}, key heads = {key_heads}. "
            "Axis -3 is heads: is it where you meant it?"
        )
    scale = width**-0.5 if scale is None else number("scale", scale)
    if abs(scale) > _LARGEST:
        raise InputError(f"scale must be at most {_LARGEST:.0e}. Got {scale}.")
    softcap = None if softcap is None else number("softcap", softcap)
    if softcap is not None and not 1 / _LARGEST <= softcap <= _LARGEST:
        raise InputError(
            f"softcap must be above 0, from {1 / _LARGEST:.0e} to {_LARGEST:.0e}; None for no cap. Got {softcap}."
        )
    if len(batch) != 1:
        query = query.reshape(math.prod(batch), heads, queries, width)
        key = key.reshape(math.prod(batch), key_heads, keys, width)
    bound = bind(as_mask(mask), (*batch, heads, queries, keys), query.device, plain)
    logits = None if sinks is None else _sinks(sinks, query, (*batch, heads))
    return Scores(query, key, bound, scale, softcap, logits, range(queries), range(keys))


def _visible(visible: Tensor | None, bias: Tensor | None) -> Tensor | None:
    """Which points are visible, where a bias of -inf hides; None if all points are."""
    if bias is None:
        return visible
    return bias != -math.inf if visible is None else visible & (bias != -math.inf)


def _clean(tensor: Tensor, hidden: Tensor) -> Tensor:
    """Tokens with NaN and inf set to 0 where they are hidden (for shared heads: in all of them): 0 × NaN is NaN."""
    if hidden.shape[1] not in (1, tensor.shape[1]):
        batch, heads, tokens = hidden.shape
        hidden = hidden.reshape(batch, tensor.shape[1], heads // tensor.shape[1], tokens).all(2)
    return torch.where(hidden[..., None], tensor.nan_to_num(0.0, 0.0, 0.0), tensor)


def check_floats(**tensors: Tensor) -> None:
    """All are dense float tensors of one dtype on one device."""
    first = dtype = device = None
    for name, tensor in tensors.items():
        if not isinstance(tensor, Tensor):
            raise DTypeError(
                f"{name} must be a torch tensor. Got {type(tensor).__name__}. Use torch.as_tensor({name})."
            )
        if tensor.is_nested or tensor.layout is not torch.strided or (first is None and tensor.is_meta):
            check_stored(name, tensor)
        if tensor.dtype not in FLOATS:
            raise DTypeError(
                f"{name} must be float64, float32, bfloat16 or float16. "
                f"Got {str(tensor.dtype).removeprefix('torch.')}. Use {name}.float()."
            )
        if first is None:
            first, dtype, device = name, tensor.dtype, tensor.device
        elif tensor.dtype != dtype:
            raise DTypeError(
                f"{first} and {name} must have one dtype. Got {dtype} and {tensor.dtype}. Use {name}.to({first}.dtype)."
            )
        elif tensor.device != device:
            raise DeviceError(
                f"{first} and {name} must lie on one device. Got {device} and {tensor.device}. "
                f"Use {name}.to({first}.device)."
            )


def _sinks(sinks: Tensor | float, query: Tensor, to: tuple[int, ...]) -> Tensor:
    if not isinstance(sinks, Tensor):
        try:  # a copy, since a later change to it would not be noticed
            sinks = torch.tensor(sinks, dtype=torch.promote_types(query.dtype, torch.float32), device=query.device)
        except (TypeError, ValueError, RuntimeError, OverflowError):
            raise DTypeError(f"sinks must be a float per head. Got {type(sinks).__name__}.") from None
        if not (sinks < math.inf).all():
            raise InputError("sinks must be numbers below infinity; -inf for no sink. Got inf or NaN.")
    check_dense("sinks", sinks)
    if sinks.dtype not in FLOATS:
        raise DTypeError(f"sinks must be a float per head. Got {sinks.dtype}.")
    if sinks.device != query.device:
        raise DeviceError(f"sinks lie on {sinks.device}, query on {query.device}. Use sinks.to(query.device).")
    try:
        return sinks.expand(to).reshape(math.prod(to[:-1]), to[-1])
    except RuntimeError:
        raise ShapeError(
            f"sinks must broadcast to (*batch, heads) = {to}: one logit per head. Got {tuple(sinks.shape)}."
        ) from None


def as_range(indices: Sequence[int], like: Tensor) -> Positions:
    """Indices as a range where they are evenly spaced, so that picking them is a view."""
    if len(indices) == 0:
        return range(0)
    step = indices[1] - indices[0] if len(indices) > 1 else 1
    even = range(indices[0], indices[0] + step * len(indices), step) if step > 0 else range(0)
    return even if list(even) == list(indices) else torch.tensor(indices, device=like.device)


def _compose(positions: Positions, picked: Positions) -> Positions:
    """The picked positions among these positions."""
    if isinstance(picked, range):
        return positions[picked.start : picked.stop : picked.step]
    return at(positions, picked.device)[picked]


def key_span(scores: Scores, mask: BoundMask, rows: Positions) -> tuple[int, int, int, int]:
    """`BoundMask.span` as indices of the keys of these scores, which may be a part of all keys."""
    keys, columns = scores.shape[3], scores.columns
    if not mask:
        return 0, 0, keys, keys
    if isinstance(columns, Tensor):
        return 0, 0, 0, keys
    first, whole_first, whole_end, end = (
        min(max(-((columns.start - place) // columns.step), 0), keys) for place in mask.span(rows, columns.stop)
    )
    return first, whole_first, whole_end, end


def share(part: Tensor, whole: Tensor) -> Tensor:
    """exp(part - whole): the share of a normaliser that some of its terms make up; 0 where the row sees nothing."""
    return torch.exp(part - whole.masked_fill(whole == -math.inf, 0.0))
