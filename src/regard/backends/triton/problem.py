"""`Problem`: a `Scores` as Triton's kernels take it; `prepare` makes one; and which tiles of a mask are hidden.

The NamedTuples are arguments of kernels. Triton passes their fields one by one, as if they were separate parameters.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from regard.backends.contract import LOG2E, capturing
from regard.backends.triton import tuning
from regard.scores import HIDING, BoundMask, Positions, Scores, take
from regard.support import Int

OUT_OF_REACH = 2**30  # further than any key
MAX_GRID = 2**16 - 1  # the size limit of the second and third dimension of a CUDA grid


class Layout(NamedTuple):
    """Where a head begins in a 2-D tensor descriptor of rows × width."""

    rows_per_batch: int
    rows_per_head: int
    columns_per_head: int  # where heads lie side by side, as a projection leaves them


class Layouts(NamedTuple):
    """The layouts of everything a kernel loads by descriptors."""

    q: Layout
    k: Layout
    v: Layout | None = None  # or of x, in the transposed product
    d_out: Layout | None = None


class AxisStrides(NamedTuple):
    """The strides of a 4-D tensor."""

    batch: int
    head: int
    row: int
    column: int


class Problem(NamedTuple):
    """Sizes, band, scale, cap and mask: the arguments from which every kernel computes logits."""

    low: int | Tensor  # key - query lies between low and high; tensors where each batch has its own band
    high: int | Tensor
    queries: int
    keys: int
    heads: int
    group: int  # query heads that share one key head
    interleave: int  # 2 ** interleave heads run side by side, the longest programs of all of them first
    factor: float  # product × factor is a logit in base 2; with a cap, cap × tanh(product × factor · ln 2 / 2)
    cap: float
    # The tensors of the mask, None where it has no such part. Not in a nested tuple: with Triton 3.6 a field that is
    # compiled in because it is 1 spoils the tuples inside the same tuple.
    keep: Tensor | None = None  # (batch, keys): 0 for padding
    query_ids: Tensor | None = None  # (batch, queries): documents
    key_ids: Tensor | None = None
    visible: Tensor | None = None  # dense, as int8
    visible_batch: int | None = None  # and its strides
    visible_head: int | None = None
    visible_row: int | None = None
    visible_column: int | None = None
    bias: Tensor | None = None  # dense
    bias_batch: int | None = None
    bias_head: int | None = None
    bias_row: int | None = None
    bias_column: int | None = None
    lowest: float = HIDING  # a bias that is not above this hides the key
    limits: Tensor | None = None  # (batch, blocks, 4): see `along_keys`


class Flags(NamedTuple):
    """Constants of a compiled kernel: the parts of the mask, and facts about the scores."""

    precision: str  # of products: float32 in full ("ieee"), not rounded to TF32
    band: bool
    batch_band: bool  # each batch has a band of its own
    padding: bool
    documents: bool
    visible: bool
    bias: bool
    softcap: bool
    full_blocks: bool  # no block extends beyond the last query or key
    causal: bool  # full blocks, and the band hides only later keys
    limits: bool  # padding and documents narrow the bounds of a pass
    every_tile: bool  # the mask has a dense part: it is read in every tile
    stages: tuple[bool, bool, bool] = (True, True, True)  # of a pass: tiles that the mask cuts, full tiles, cut tiles
    split_lse: bool = False  # the normaliser has a low part
    aligned: bool = False  # the number of queries is a multiple of 4


class Normaliser(NamedTuple):
    """Minus the logsumexp of each row in base 2: what float32 holds of it and, where logits are large, the rest."""

    high: Tensor
    low: Tensor | None


class Chunk(NamedTuple):
    """The rows of each head that are computed at a time."""

    start: int
    rows: int


class Tensors(NamedTuple):
    """Query and key themselves, for kernels that read single keys rather than blocks."""

    query: Tensor
    key: Tensor
    query_strides: AxisStrides
    key_strides: AxisStrides


def tensors(scores: Scores) -> Tensors:
    """Query and key with their strides."""
    query, key = scores.query, scores.key
    return Tensors(query, key, AxisStrides(*query.stride()), AxisStrides(*key.stride()))


@dataclass(frozen=True)
class Prepared:
    """A `Scores` for blocks of one size: descriptors of query and key, the problem, and facts about it."""

    mask: BoundMask
    place: tuple[Positions, Positions]  # of rows and columns in the whole matrix
    dtype: torch.dtype
    views: tuple[tuple[int, ...], ...]  # of query and key: strides, and the first byte modulo 16
    q: Any
    k: Any
    layouts: Layouts
    problem: Problem
    flags: Flags
    blocks: tuple[int, int]
    _kernels: dict[Any, Any] = field(default_factory=dict)  # compiled for this problem
    _cache: dict[Any, Any] = field(default_factory=dict)  # results of `once`

    @property
    def keys_problem(self) -> Problem:
        """The problem of a pass along the keys."""
        return self._limited(along_keys, self.problem.queries)

    @property
    def queries_problem(self) -> Problem:
        """The problem of a pass along the queries."""
        return self._limited(along_queries, self.problem.keys)

    def _limited(self, find: Callable[..., Tensor], tokens: int) -> Problem:
        if not self.flags.limits:
            return self.problem
        problem, cache, key = self.problem, self.mask.cache, (find, self.blocks, *self.place)
        limits = cache.get(key)
        if limits is None:
            limits = find(problem.keep, problem.query_ids, problem.key_ids, self.blocks, tokens)
            if not capturing(limits):  # tensors of a graph capture have no numbers yet
                cache[key] = limits
        return problem._replace(limits=limits)

    def grid(self, blocks: int, heads: int) -> tuple[int, int, int]:
        """A grid with this number of blocks for each head."""
        interleave = self.problem.interleave
        return (blocks << interleave, *head_grid(heads >> interleave))

    def along_keys(self, norm: Normaliser | None = None) -> Flags:
        """The flags of a pass that keeps a block of queries and goes along the keys."""
        left, right = self._cut_sides
        return self._flags(left, right or self.problem.keys % self.blocks[1] > 0, norm)

    def along_queries(self, norm: Normaliser) -> Flags:
        """The flags of a pass that keeps a block of keys and goes along the queries."""
        left, right = self._cut_sides
        return self._flags(right, left or self.problem.queries % self.blocks[0] > 0, norm)

    @property
    def _cut_sides(self) -> tuple[bool, bool]:
        """Whether the mask may cut tiles left and right of the full tiles, as far as no tensor must be read for it."""
        if self.flags.every_tile or self.flags.batch_band or self.flags.limits:
            return True, True
        return bool(self.problem.low > -OUT_OF_REACH), bool(self.problem.high < OUT_OF_REACH)

    def _flags(self, start: bool, end: bool, norm: Normaliser | None) -> Flags:
        split = norm is not None and norm.low is not None
        return self.flags._replace(stages=(start, True, end), split_lse=split)

    @cached_property
    def _compiled_for(self) -> Any:
        """The properties of these tensors and this problem that Triton compiles in."""
        tensors, shapes = (self.q.base, self.k.base, *self.views), (*self.q.block_shape, *self.k.block_shape)
        return self.q.base.device.index, self.dtype, shapes, _specialisation((*tensors, self.problem))

    def launch(self, kernel: Any, grid: tuple[int, ...], *args: Any, **constants: Any) -> None:
        """`kernel[grid](*args, **constants)`, which finds the compiled kernel faster than Triton does.

        Triton inspects some fifty arguments, which takes longer than the launch. Besides numbers and layouts, arguments
        must be this problem and its tensors, or new tensors whose presence and dtype follow from `constants`.
        """
        self.launch_all(Launch(kernel, grid, args, constants))

    def launch_all(self, *launches: Launch) -> None:
        """One launch after the other. New kernels are compiled before the first launch, side by side."""
        keys = [_key(launch) for launch in launches]
        new = [(key, launch) for key, launch in zip(keys, launches, strict=True) if self._find(key) is None]
        if len(new) > 1 and self.q.base.device.type == "cuda":
            compiled = _compile_side_by_side([launch for _, launch in new])
            for (key, _), kernel in zip(new, compiled, strict=True):
                _COMPILED[key, self._compiled_for] = kernel
        for key, (kernel, grid, args, constants) in zip(keys, launches, strict=True):
            compiled = self._find(key)
            if compiled is not None:
                compiled[(*grid, 1, 1)[:3]](*args, *[constants[name] for name in kernel.arg_names[len(args) :]])
                continue
            compiled = kernel[grid](*args, **constants)
            if compiled is not None:  # the interpreter compiles nothing
                _COMPILED[key, self._compiled_for] = compiled

    def _find(self, key: Any) -> Any:
        """The kernel compiled for this problem, if there is one."""
        compiled = self._kernels.get(key)
        if compiled is None:
            compiled = self._kernels[key] = _COMPILED.get((key, self._compiled_for))
        return compiled

    def once(self, key: Any, compute: Callable[[], Any]) -> Any:
        """The result of `compute`, computed once for this problem."""
        if key not in self._cache:
            self._cache[key] = compute()
        return self._cache[key]


class Launch(NamedTuple):
    """A kernel and its arguments."""

    kernel: Any
    grid: tuple[int, ...]
    args: tuple[Any, ...]
    constants: dict[str, Any]


_COMPILED: dict[Any, Any] = {}
_SPECIALISED = (int, tuple, Chunk, Layouts)  # arguments of these types differ from call to call


def _key(launch: Launch) -> Any:
    """The properties of a launch that Triton compiles in, beside those of the problem."""
    others = tuple([_specialised(a) for a in launch.args if type(a) in _SPECIALISED])
    return id(launch.kernel), others, *launch.constants.values()


def _compile_side_by_side(launches: Sequence[Launch]) -> list[Any]:
    """Compiling a kernel takes most of its time outside Python: LLVM, ptxas, and a C compiler for its launcher."""
    device = torch.cuda.current_device()

    def compiled(launch: Launch) -> Any:
        with torch.cuda.device(device):  # each thread has its own current device
            kernel = launch.kernel.warmup(*launch.args, grid=launch.grid, **launch.constants)
            kernel[launch.grid]  # loads it
        return kernel

    with ThreadPoolExecutor(len(launches)) as threads:
        return list(threads.map(compiled, launches))


@cache
def _descriptor() -> type:
    from triton.tools.tensor_descriptor import TensorDescriptor  # type: ignore[import-untyped]

    return TensorDescriptor  # type: ignore[no-any-return]


def _specialisation(argument: Any) -> Any:
    """What Triton compiles in: whether a number is 1 or a multiple of 16; the dtype and alignment of a tensor."""
    if isinstance(argument, tuple):
        return tuple(map(_specialisation, argument))
    if isinstance(argument, int):
        return argument if argument == 1 else (argument % 16 == 0, argument.bit_length() > 31)
    if isinstance(argument, Tensor):
        return argument.dtype, argument.data_ptr() % 16 == 0
    return type(argument) if isinstance(argument, float) else argument


_specialised = lru_cache(maxsize=4096)(_specialisation)  # of numbers and tuples of numbers


def prepare(scores: Scores, block_m: int, block_n: int, interleave: bool = True) -> Prepared:
    """Prepare scores for kernels that work on block_m queries × block_n keys at a time."""
    key = (block_m, block_n, interleave)
    prepared = scores.cache.get(key)
    if prepared is None:
        prepared = _prepare(scores, *key)
        copied = (d.base.data_ptr() != t.data_ptr() for d, t in ((prepared.q, scores.query), (prepared.k, scores.key)))
        if not any(copied) and scores.mask.only_bands and not capturing(scores.query):  # copies are not kept
            scores.cache[key] = prepared
    return prepared  # type: ignore[no-any-return]


def _prepare(scores: Scores, block_m: int, block_n: int, interleave: bool) -> Prepared:
    mask, (_, heads, queries, keys) = scores.mask, scores.shape
    q, q_layout = describe(scores.query, block_m)
    k, k_layout = describe(scores.key, block_n)
    low, high = _band(scores)
    full = not (queries % block_m or keys % block_n)
    flags = Flags(
        precision="ieee" if scores.query.dtype == torch.float32 else "tf32",
        band=bool(mask.bands), batch_band=isinstance(low, Tensor), padding=bool(mask.kept), documents=bool(mask.ids),
        visible=bool(mask.visible), bias=bool(mask.biases), softcap=scores.softcap is not None, full_blocks=full,
        causal=full and bool(mask.bands) and all(lowest is None for lowest, _, _ in mask.bands),
        limits=bool(mask.kept or mask.ids), every_tile=bool(mask.visible or mask.biases),
    )  # fmt: skip
    scale, cap = scores.scale, scores.softcap
    factor, cap = (scale * LOG2E, 0.0) if cap is None else (2 * LOG2E * scale / cap, cap * LOG2E)
    problem = Problem(
        low, high, queries, keys, heads, scores.group, _interleave(scores) if interleave else 0, factor, cap,
        **({} if mask.only_bands else _mask_operands(scores)),
    )  # fmt: skip
    place, both = (scores.rows, scores.columns), (scores.query, scores.key)
    views = tuple([(*each.stride(), each.data_ptr() % 16) for each in both])
    layouts, blocks = Layouts(q_layout, k_layout), (block_m, block_n)
    return Prepared(mask, place, scores.query.dtype, views, q, k, layouts, problem, flags, blocks)


def _mask_operands(scores: Scores) -> dict[str, Any]:
    mask, (batch, _, queries, keys) = scores.mask, scores.shape
    operands: dict[str, Any] = {}
    if mask.kept:
        kept = math.prod(take(kept, 3, scores.columns).int() for kept in mask.kept)
        operands["keep"] = _per_token(kept, batch, keys).to(torch.int8)
    if mask.ids:
        query_ids, key_ids = mask.ids[0]
        operands["query_ids"] = _per_token(take(query_ids, 2, scores.rows), batch, queries)
        operands["key_ids"] = _per_token(take(key_ids, 3, scores.columns), batch, keys)
    if mask.visible:
        visible = _part(mask.visible[0], scores)
        operands |= {"visible": visible.view(torch.int8)} | _strides("visible", visible, scores)
    if mask.biases:
        bias = _part(mask.biases[0], scores)
        bias = bias.float() if bias.dtype == torch.float64 else bias
        operands |= {"bias": bias, "lowest": max(HIDING, torch.finfo(bias.dtype).min)} | _strides("bias", bias, scores)
    return operands


def _strides(name: str, dense: Tensor, scores: Scores) -> dict[str, int]:
    strides = dense.expand(scores.shape).stride()
    return {f"{name}_{axis}": n for axis, n in zip(("batch", "head", "row", "column"), strides, strict=True)}


def _interleave(scores: Scores) -> int:
    """As many heads as the cache holds, where programs differ in length: no long program is left for the end."""
    batch, heads, queries, keys = scores.shape
    lanes, head_bytes = batch * heads, max(queries, keys) * scores.query.shape[-1] * scores.query.element_size()
    interleave = 0
    while scores.mask.bands and lanes % (2 << interleave) == 0 and head_bytes << interleave + 1 <= tuning.CACHE:
        interleave += 1
    return interleave


def _part(dense: Tensor, scores: Scores) -> Tensor:
    return take(take(dense, 2, scores.rows), 3, scores.columns)


def _per_token(tensor: Any, batch: int, tokens: int) -> Tensor:
    """One number for each token of each batch."""
    flat: Tensor = tensor.expand(batch, *tensor.shape[1:]).reshape(batch, tokens)
    return flat.contiguous()


def _band(scores: Scores) -> tuple[Any, Any]:
    """The smallest and the largest key - query that all bands allow, in the indices of these scores: two numbers, or
    two for each batch."""
    low, high, shift = [-OUT_OF_REACH], [OUT_OF_REACH], scores.rows[0] - scores.columns[0]
    for lowest, highest, offset in scores.mask.bands:
        by = offset.reshape(-1) if isinstance(offset, Tensor) else offset
        if lowest is not None:
            low.append(by + lowest + shift)  # type: ignore[arg-type]
        if highest is not None:
            high.append(by + highest + shift)  # type: ignore[arg-type]
    if not any(isinstance(edge, Tensor) for edge in low + high):
        return max(max(low), -OUT_OF_REACH), min(min(high), OUT_OF_REACH)
    batch, device = scores.shape[0], scores.query.device
    lows, highs = ([torch.as_tensor(edge, device=device).expand(batch) for edge in edges] for edges in (low, high))
    both = torch.stack(lows).amax(0), torch.stack(highs).amin(0)
    return both[0].clamp(-OUT_OF_REACH, OUT_OF_REACH).int(), both[1].clamp(-OUT_OF_REACH, OUT_OF_REACH).int()


def describe(tensor: Tensor, block: int) -> tuple[Any, Layout]:
    """(batch, heads, tokens, width) as a descriptor of blocks of tokens, and how to find a head in it.

    Both usual layouts are read without a copy: heads one after the other, or side by side as a projection leaves them.
    """
    _, heads, length, width = tensor.shape
    padded = max(next_power(width), 16)
    if width * tensor.element_size() % 16:
        tensor = functional.pad(tensor, (0, padded - width))
        width = padded
    side_by_side = tensor.transpose(1, 2)
    if tensor.is_contiguous() and tensor.data_ptr() % 16 == 0:
        flat, layout = tensor.view(-1, width), Layout(heads * length, length, 0)
    elif side_by_side.is_contiguous() and width == padded and tensor.data_ptr() % 16 == 0:
        flat, layout = side_by_side.view(-1, heads * width), Layout(length, 0, width)
    else:
        flat, layout = tensor.contiguous().clone().view(-1, width), Layout(heads * length, length, 0)
    return _descriptor()(flat, list(flat.shape), list(flat.stride()), [block, padded]), layout


def head_grid(heads: int) -> tuple[int, int]:
    """The second and third dimension of a grid for this number of heads (of all batches)."""
    fits = (deep for deep in range(1, min(heads, MAX_GRID) + 1) if heads % deep == 0 and heads // deep <= MAX_GRID)
    deep = next(fits, heads)
    return heads // deep, deep


def next_power(number: int) -> int:
    """The smallest power of two that is at least `number`."""
    return 1 << max(number - 1, 0).bit_length()


def cdiv(number: int, block: int) -> int:
    """How many blocks cover a number of tokens."""
    return -(-number // block)


# Which tiles of a mask are hidden, full or cut, without looking at pairs of tokens
#
# For each block of queries (or of keys, in a pass along the queries) four positions say where its tiles begin, where a
# run of full tiles begins and ends, and where the last tile ends. Kernels combine them with the bounds of the band:
# tiles outside are never touched, and in full tiles no mask is read. Padding and documents need O(tokens) work for
# that; where they are neither sorted nor regular, fewer tiles count as hidden or full.


def along_keys(
    keep: Tensor | None, query_ids: Tensor | None, key_ids: Tensor | None, blocks: tuple[int, int], tokens: int
) -> Int[Tensor, "batch blocks 4"]:
    """The limits of each block of queries. `blocks`: the sizes of blocks of queries and keys; `tokens`: the queries."""
    block_m, block_n = blocks
    limits = []
    if keep is not None:
        limits.append(_limits_of_kept(keep, block_n)[:, None])
    if query_ids is not None and key_ids is not None:
        limits.append(_limits_of_ids(_extremes(query_ids, block_m), _extremes(key_ids, block_n)) * block_n)
    return _together(limits, cdiv(tokens, block_m))


def along_queries(
    keep: Tensor | None, query_ids: Tensor | None, key_ids: Tensor | None, blocks: tuple[int, int], tokens: int
) -> Int[Tensor, "batch blocks 4"]:
    """The limits of each block of keys, among the queries. `blocks` as in `along_keys`; `tokens`: the keys."""
    block_m, block_n = blocks
    limits = []
    if keep is not None:
        some, all_ = _some_all(keep, block_n)
        everything = torch.iinfo(torch.int32).max
        of_block = [torch.zeros_like(some), ~all_, all_, some]
        limits.append(torch.stack([limit.long() * everything for limit in of_block], -1))
    if query_ids is not None and key_ids is not None:
        limits.append(_limits_of_ids(_extremes(key_ids, block_n), _extremes(query_ids, block_m)) * block_m)
    return _together(limits, cdiv(tokens, block_n))


def _together(limits: list[Tensor], blocks: int) -> Tensor:
    """The limits that all of them leave: the latest beginnings and the earliest ends."""
    common = limits[0]
    for other in limits[1:]:
        common = torch.cat([torch.maximum(common, other)[..., :2], torch.minimum(common, other)[..., 2:]], -1)
    return common.expand(-1, blocks, -1).int().contiguous()


def _some_all(keep: Int[Tensor, "batch tokens"], block: int) -> tuple[Tensor, Tensor]:
    """Whether any token of a block is kept, and whether all are."""
    missing = -keep.shape[1] % block
    some, all_ = (functional.pad(keep != 0, (0, missing), value=value) for value in (False, True))
    shape = (len(keep), -1, block)
    return some.view(shape).any(-1), all_.view(shape).all(-1)


def _limits_of_kept(keep: Tensor, block: int) -> Int[Tensor, "batch 4"]:
    """The first kept block, the longest run of blocks that are kept as a whole, and the end of the last kept block."""
    some, all_ = _some_all(keep, block)
    blocks, place = some.shape[1], torch.arange(some.shape[1], device=keep.device)
    first, end = torch.where(some, place, blocks).amin(-1), torch.where(some, place + 1, 0).amax(-1)
    length, start = torch.where(all_, _next_stop(~all_) - place, 0).max(-1)
    return torch.stack([first, start, start + length, end], -1) * block


def _next_stop(stops: Tensor) -> Tensor:
    """For each place the first stop from there on; the number of places where there is none."""
    places = stops.shape[-1]
    positions = torch.where(stops, torch.arange(places, device=stops.device), places)
    return positions.flip(-1).cummin(-1).values.flip(-1)


def _extremes(ids: Tensor, block: int) -> tuple[Tensor, Tensor]:
    """The smallest and the largest id of each block."""
    missing = -ids.shape[1] % block
    ids = torch.cat([ids, ids[:, -1:].expand(-1, missing)], 1).view(len(ids), -1, block)
    return ids.amin(-1), ids.amax(-1)


def _limits_of_ids(blocks: tuple[Tensor, Tensor], others: tuple[Tensor, Tensor]) -> Int[Tensor, "batch blocks 4"]:
    """For each block: where the others may have one of its ids, and where they have no different id, in blocks.

    Args:
        blocks: the smallest and the largest id of each block.
        others: the same of the blocks on the other axis.
    """
    (low, high), (other_low, other_high) = blocks, others
    count = other_low.shape[1]
    # All blocks before `first` have smaller ids, all from `end` on larger ones.
    first = torch.searchsorted(other_high.cummax(-1).values, low.contiguous())
    end = torch.searchsorted(other_low.flip(-1).cummin(-1).values.flip(-1).contiguous(), high.contiguous(), right=True)
    uniform = other_low == other_high
    changes = functional.pad((other_low[:, 1:] != other_low[:, :-1]) | ~uniform[:, 1:], (0, 1), value=True)
    run_end = _next_stop(changes) + 1  # of the blocks that have the same single id

    def full(place: Tensor) -> Tensor:
        return (low == high) & uniform.gather(1, place) & (other_low.gather(1, place) == low)

    start = first.clamp(max=count - 1)
    start = torch.where(full(start), start, (start + 1).clamp(max=count - 1))  # a document may begin inside a block
    some = full(start)
    stop = torch.where(some, run_end.gather(1, start), 0)
    return torch.stack([first, torch.where(some, start, count), stop, end], -1)
