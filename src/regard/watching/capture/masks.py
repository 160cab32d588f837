"""Masks of a watched model: `Pattern`, a rule in positions of the whole text, and `LazyMask`, a rule in tensor form.

A model with a cache passes few queries and many keys, one with a sliding window only the last keys. In positions of the
whole text the rule is the same for all of these calls, so the steps of a generation can be joined into one matrix.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, product
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional
from torch.utils._pytree import tree_map_only

from regard.scores import Atom, Band, Cut, Dense, Keep, Mask, Positions, Same, as_mask, bind, hides, pick
from regard.support import Bool
from regard.watching.capture.links import LocatedLink
from regard.watching.record.tokens import runs

_ALL = 2**60  # tokens: more than any text has
Bounds = tuple[int | None, int | None]  # lowest and highest; None: no bound


@dataclass(frozen=True, eq=False)
class Pattern:
    """Bands, padding, documents and links: a mask without queries × keys numbers.

    >>> Pattern(bands=((-2, 0),)).mask(queries=range(10, 11), keys=range(4, 11))     # one step with a cache
    window(2, 0, offset=6)
    """

    bands: tuple[Bounds, ...] = ()  # of key position - query position
    padding: tuple[Tensor, ...] = ()  # bool (batch, keys), True = a real token
    documents: tuple[Tensor, ...] = ()  # ids (batch, tokens): a query sees the keys that have its id
    links: tuple[LocatedLink, ...] = ()  # that are cut, steered or set to 0

    @cached_property
    def causal(self) -> bool:
        """Whether no query sees a key after itself."""
        return any(highest is not None and highest <= 0 for _, highest in self.bands)

    @cached_property
    def only_causal(self) -> bool:
        """Whether the rule is causal and nothing else."""
        return self.bands == ((None, 0),) and not (self.padding or self.documents or self.links)

    def mask(self, queries: range, keys: range) -> Mask:
        """Return the rule for these queries and keys as one of regard's masks."""
        shift = queries.start - keys.start
        atoms: list[Any] = []
        for lowest, highest in self.bands:
            hides_later = highest is not None and queries.start + highest < keys.stop - 1
            hides_earlier = lowest is not None and queries.stop - 1 + lowest > keys.start
            if hides_later or hides_earlier:  # a band that hides nothing would only slow the kernels down
                atoms.append(Band(lowest, highest, shift))
        atoms += [Keep(_slice(padding, keys)) for padding in self.padding]
        atoms += [Same(_slice(ids, queries), _slice(ids, keys)) for ids in self.documents]
        atoms += [atom for link in self.links if not link.zeroed for atom in link.mask(queries, keys).atoms]
        return Mask(tuple(atoms)) if atoms else as_mask(None)

    def zeroed(self, queries: range, keys: range) -> Mask:
        """Return a mask of the weights that are set to 0 after the softmax, for these queries and keys."""
        return Mask(tuple(atom for link in self.links if link.zeroed for atom in link.mask(queries, keys).atoms))


def _slice(tensor: Tensor, positions: range) -> Tensor:
    """Return the columns for these positions; positions past the end of the tensor are padding."""
    if (missing := positions.stop - tensor.shape[-1]) > 0:
        tensor = functional.pad(tensor, (0, missing))
    return tensor[..., positions.start : positions.stop]


def looks_causal(mask: Tensor) -> bool:
    """Whether the second key of a dense mask is hidden from the first query, and from no later one by padding."""
    if min(mask.shape[-2:]) < 2:
        return False
    second = mask[..., :2, 1]
    hidden = ~second if mask.dtype == torch.bool else second <= torch.finfo(mask.dtype).min
    return bool((hidden[..., 0] & ~hidden[..., 1]).any())


class LazyMask(Tensor):
    """A mask (batch, 1, queries, keys) that stores a pattern and no numbers.

    Watched attention reads the pattern. To all other code it is the tensor that the model has when it is not watched:
    for SDPA bools, for eager attention 0 where a query sees a key and the lowest number of the dtype where it does not.
    Any operation computes these numbers first.

    >>> lazy = LazyMask(Pattern(bands=((None, 0),)), range(2), range(2), 1, torch.float16, torch.device("cpu"))
    >>> lazy.shape, lazy + 0
    (torch.Size([1, 1, 2, 2]), tensor([[[[     0., -65504.],
              [     0.,      0.]]]], dtype=torch.float16))
    """

    pattern: Pattern
    dense: Bool[Tensor, "batch 1 queries keys"] | None  # where no pattern is known; True = visible
    queries: range
    keys: range
    causal_to_the_end: bool  # causal and nothing else, and the last query sees the last key
    read: tuple[tuple[int, int], ReadMask] | None = None  # its reading for so many queries and keys, for all layers

    @staticmethod
    def __new__(  # noqa: D102 (the class docstring covers it)
        cls: type[LazyMask], pattern: Pattern, queries: range, keys: range, batch: int, dtype: torch.dtype,
        device: torch.device, dense: Tensor | None = None,
    ) -> LazyMask:  # fmt: skip
        shape = (batch, 1, len(queries), len(keys))
        mask: LazyMask = Tensor._make_wrapper_subclass(cls, shape, dtype=dtype, device=device)  # type: ignore[attr-defined]
        mask.pattern, mask.queries, mask.keys, mask.dense = pattern, queries, keys, dense
        mask.causal_to_the_end = dense is None and pattern.only_causal and queries.stop == keys.stop
        return mask

    def __init__(self, *_: Any) -> None:
        super().__init__()

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        rule = "dense" if self.dense is not None else self.pattern.mask(self.queries, self.keys)
        return f"LazyMask({rule}, shape={tuple(self.shape)})"

    def materialize(self) -> Tensor:
        """Return the numbers."""
        if self.dtype == torch.bool:
            return self.visible()
        numbers = torch.zeros(self.shape, dtype=self.dtype, device=self.device)
        return numbers.masked_fill_(~self.visible(), torch.finfo(self.dtype).min)

    def visible(self) -> Bool[Tensor, "batch 1 queries keys"]:
        """Return which keys each query sees."""
        if self.dense is not None:
            return self.dense
        shape = tuple(self.shape)
        mask = bind(self.pattern.mask(self.queries, self.keys), shape, self.device, plain=False)
        tile = mask.tile(range(shape[2]), range(shape[3]), self.device)
        return torch.ones(shape, dtype=torch.bool, device=self.device) if tile is None else tile.expand(shape)

    def _cut(self, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> LazyMask | None:
        """Return a lazy mask of a run of queries or keys; None for other slices."""
        if dim % 4 < 2 or step != 1:
            return None
        chosen = slice(start, end)
        queries, keys = (self.queries[chosen], self.keys) if dim % 4 == 2 else (self.queries, self.keys[chosen])
        dense = self.dense
        if dense is not None:
            dense = dense[:, :, chosen] if dim % 4 == 2 else dense[..., chosen]
        return LazyMask(self.pattern, queries, keys, self.shape[0], self.dtype, self.device, dense)

    # Results of operations are plain tensors, not lazy masks.
    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Run an operation on the numbers; only slices stay lazy, because models cut their masks to the keys."""
        if func is torch.ops.aten.slice.Tensor and isinstance(args[0], LazyMask):
            cut = args[0]._cut(*args[1:], **(kwargs or {}))
            if cut is not None:
                return cut
        args, kwargs = tree_map_only(LazyMask, LazyMask.materialize, (args, kwargs or {}))
        return func(*args, **kwargs)


class ReadMask(NamedTuple):
    """The mask of a call as `read_mask` reads it."""

    pattern: Pattern
    mask: Mask  # the pattern for these queries and keys
    dense: tuple[Tensor, ...]
    queries: range  # where they lie in the text
    keys: range
    causal: bool


def read_mask(mask: Tensor | None, queries: int, keys: int, causal: bool) -> ReadMask:
    """Read the mask that a model passes for so many queries and keys; None is `causal` or not, as the module says."""
    lazy = mask if isinstance(mask, LazyMask) else None
    if lazy is not None and lazy.read is not None and lazy.read[0] == (queries, keys):
        return lazy.read[1]
    pattern, rows, columns = Pattern(((None, 0),) if causal else ()), range(queries), range(keys)
    dense: tuple[Tensor, ...] = ()
    if lazy is not None and len(lazy.queries) >= queries and len(lazy.keys) >= keys:
        # It may have more keys than the model uses; eager attention slices it too.
        pattern, rows, columns = lazy.pattern, lazy.queries, range(lazy.keys.start, lazy.keys.start + keys)
        dense = () if lazy.dense is None else (lazy.dense[..., :keys],)
    elif mask is not None:
        numbers = mask if lazy is None else lazy.visible()  # made for one query or key, and meant for all
        rows = range(max(keys - queries, 0), max(keys, queries))
        if numbers.dim() == 2:
            pattern = Pattern(padding=(numbers.bool(),))
        else:
            dense = (numbers[..., :keys],)
    if pattern.causal and rows.stop < columns.stop:  # a static cache is longer than the text so far
        columns = range(columns.start, rows.stop)
    reading = ReadMask(pattern, pattern.mask(rows, columns), dense, rows, columns, pattern.causal)
    if lazy is not None:
        lazy.read = (queries, keys), reading
    return reading


# Padding


def real_keys(mask: Mask, batch: int, keys: int) -> Bool[Tensor, "batch keys"] | None:
    """Return which keys are no padding: a mask hides padding from all queries alike; None if it hides nothing so.

    >>> from regard.scores import causal, padding
    >>> real_keys(causal() & padding([3, 1]), batch=2, keys=3)
    tensor([[ True,  True,  True],
            [ True, False, False]])
    """
    shown = [rows.expand(batch, keys) for atom in mask.atoms if (rows := _shown_to_all(atom, keys)) is not None]
    return functools.reduce(torch.logical_and, shown) if shown else None


def _shown_to_all(atom: Atom, keys: int) -> Bool[Tensor, "batch keys"] | None:
    """Return which keys a part of a mask shows, if it shows the same keys to all queries."""
    if isinstance(atom, Keep):
        bools = atom.keys.dtype == torch.bool
        shown = atom.keys if bools else torch.arange(keys, device=atom.keys.device) < atom.keys[..., None]
        return shown.reshape(-1, shown.shape[-1])
    if isinstance(atom, Dense) and atom.tensor.dim() > 1 and atom.tensor.shape[-2] == 1:
        shown = atom.tensor if atom.tensor.dtype == torch.bool else ~hides(atom.tensor)
        return shown.reshape(*[1] * (4 - shown.dim()), *shown.shape).any(1)[:, 0]
    return None


def within_text(mask: Mask, sequence: int, queries: Positions, keys: Positions) -> Mask:
    """Return the mask of one text of a batch, for its queries and keys that are no padding.

    >>> from regard.scores import causal, padding
    >>> within_text(causal() & padding([5, 3]), 1, range(1, 3), range(3))
    causal(offset=1)
    """
    blocks = list(product(_runs(queries), _runs(keys)))
    atoms: list[Atom] = []
    for atom in mask.atoms:
        if isinstance(atom, Band) and len(blocks) == 1:
            atoms.append(replace(atom, offset=_offset(atom, sequence, *blocks[0])))
        elif isinstance(atom, Band):  # padding lies inside the text: cut what the band hides
            later = [] if atom.highest is None else [Band(atom.highest + 1, None, atom.offset)]
            earlier = [] if atom.lowest is None else [Band(None, atom.lowest - 1, atom.offset)]
            for band in later + earlier:
                cut = Cut(range(_ALL), range(_ALL), None, band, -math.inf)
                atoms += _cut_within(cut, sequence, blocks, (queries, keys))
        elif isinstance(atom, Same):
            atoms.append(Same(_row(atom.queries, sequence, queries), _row(atom.keys, sequence, keys)))
        elif isinstance(atom, Cut):
            atoms += _cut_within(atom, sequence, blocks, (queries, keys))
        elif isinstance(atom, Dense):
            tensor = _text(atom.tensor[(None,) * (4 - atom.tensor.dim())], sequence)
            for axis, positions in ((2, queries), (3, keys)):
                tensor = tensor if tensor.shape[axis] == 1 else pick_on(tensor, axis, positions)
            atoms.append(Dense(tensor))
    return Mask(tuple(atoms))


def pick_on(tensor: Tensor, axis: int, positions: Positions) -> Tensor:
    """Return these positions along an axis of a tensor on any device: a view for a range."""
    return pick(tensor, axis, positions.to(tensor.device) if isinstance(positions, Tensor) else positions)


class _Run(NamedTuple):
    """Neighbouring tokens: where they lie in the padded text, and where among the tokens that are no padding."""

    tokens: range
    start: int


def _runs(positions: Positions) -> list[_Run]:
    tokens = [positions] if isinstance(positions, range) else runs(positions.tolist())
    return [_Run(*run) for run in zip(tokens, accumulate(map(len, tokens), initial=0), strict=False)]


def _offset(band: Band, sequence: int, rows: _Run, columns: _Run) -> int:
    """Return the offset of a band in a block of queries and keys."""
    offset = band.offset
    if isinstance(offset, Tensor):
        offset = int(offset.flatten()[sequence if offset.numel() > 1 else 0])
    return offset + rows.tokens.start - rows.start - columns.tokens.start + columns.start


def _cut_within(
    cut: Cut, sequence: int, blocks: Sequence[tuple[_Run, _Run]], positions: tuple[Positions, Positions]
) -> Iterator[Atom]:
    heads = _text(cut.heads, sequence) if isinstance(cut.heads, Tensor) and cut.heads.dim() > 1 else cut.heads
    for block in blocks:
        sides: list[range | Tensor] = []
        for side, run, places in zip((cut.queries, cut.keys), block, positions, strict=True):
            if isinstance(side, Tensor):
                row = _row(side, sequence, places)
                inside = torch.zeros_like(row)
                inside[run.start : run.start + len(run.tokens)] = True
                sides.append((row & inside)[None])
            else:
                start, stop = max(side.start, run.tokens.start), min(side.stop, run.tokens.stop)
                sides.append(range(start - run.tokens.start + run.start, stop - run.tokens.start + run.start))
        band = None if cut.band is None else replace(cut.band, offset=_offset(cut.band, sequence, *block))
        if all(len(side) for side in sides):
            yield Cut(sides[0], sides[1], heads, band, cut.bias)


def _text(tensor: Tensor, sequence: int) -> Tensor:
    """Return the part of a tensor (batch or 1, …) for one text."""
    return tensor if len(tensor) == 1 else tensor[sequence : sequence + 1]


def _row(tensor: Tensor, sequence: int, positions: Positions) -> Tensor:
    """Return the numbers of these tokens of a text, from (batch, tokens) or (tokens)."""
    row = tensor if tensor.dim() == 1 else _text(tensor, sequence)[0]
    return pick_on(row, 0, positions)
