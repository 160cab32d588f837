"""The Triton backend: what it supports, the normaliser as kernels take it, and the plan of a set of reductions.

`plan` returns frozen `Pass` values: which passes over the tiles compute the requests. The launches stand beside their
kernels: kernels.py, passes.py, bins.py, top.py and gradients.py.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from functools import cache, lru_cache
from importlib.util import find_spec
from itertools import zip_longest
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from regard.backends.contract import (
    HIDDEN,
    LN2,
    LOG2E,
    TRUSTED,
    Attend,
    Backend,
    Backward,
    Capabilities,
    Dense,
    Entropy,
    Gradients,
    Pool,
    Received,
    Reduction,
    Request,
    Result,
    Top,
    TransposedProduct,
    capturing,
    trusted,
)
from regard.backends.tiles import reductions as tiles
from regard.backends.tiles.tile import Tile
from regard.backends.triton import tuning
from regard.backends.triton.problem import MAX_GRID, OUT_OF_REACH, Normaliser, cdiv, head_grid, next_power
from regard.scores import HIDING, MASK_PARTS, Scores
from regard.support import Float, no_autocast

_MAX_WIDTH = 256
_MAX_SOFTCAP = 128.0  # the kernels' tanh errs by 2⁻²⁴, and the cap multiplies that
_MAX_TOP = 16
_NORMALISERS: Any = WeakTensorKeyDictionary()  # the results of `normaliser`, as long as the logsumexp lives


class TritonBackend(Backend):
    """Triton on a GPU: any mask without cuts; forward, gradients and reductions.

    Where `use` names it, it also computes on a CPU, in Triton's interpreter (TRITON_INTERPRET=1), for tests.
    """

    name = "triton"
    can = Capabilities(
        requests=(*Capabilities.requests, Dense),
        dtypes={"cuda": (torch.float16, torch.bfloat16, torch.float32)},
        named_dtypes={"cpu": (torch.float16, torch.float32)},  # the interpreter's tl.dot is wrong for bfloat16
        mask_parts=frozenset(MASK_PARTS) - {"cuts"},
    )

    def accepts(self, scores: Scores, request: Request | Dense, gradient: bool) -> bool:
        """Problems within the limits of the kernels; gradients unless tiles compute them faster."""
        accepted = scores.cache.get(TritonBackend)
        if accepted is None:
            accepted = scores.cache[TritonBackend] = self._accepts_scores(scores)
        if not accepted or (gradient and _faster_by_tiles(scores)):
            return False
        if isinstance(request, Attend | TransposedProduct):
            return 0 < request.operand.shape[-1] <= _MAX_WIDTH
        if isinstance(request, Dense):
            return few(scores)
        if isinstance(request, Top):
            return request.k <= _MAX_TOP
        if isinstance(request, Received):
            return not gradient or request.reduce != "max"
        return not isinstance(request, Pool) or request.reduce == "mean"

    def _accepts_scores(self, scores: Scores) -> bool:
        query, mask, batch = scores.query, scores.mask, scores.shape[0]
        if query.shape[-1] > _MAX_WIDTH:
            return False
        if any(max(head_grid(batch * heads)) > MAX_GRID for heads in (scores.shape[1], scores.key.shape[1])):
            return False  # a large number of heads, and (nearly) a prime one
        if scores.softcap is not None and scores.softcap > _MAX_SOFTCAP:
            return False
        consecutive = all(isinstance(place, range) and place.step == 1 for place in (scores.rows, scores.columns))
        single = len(mask.visible) <= 1 and len(mask.biases) <= 1 and len(mask.ids) <= 1
        runs = query.device.type == "cuda" or os.environ.get("TRITON_INTERPRET") == "1"
        return consecutive and single and max(scores.shape) < OUT_OF_REACH and runs and _installed()

    @no_autocast
    def forward(
        self, scores: Scores, request: Attend
    ) -> tuple[Float[Tensor, "batch heads queries width"], Float[Tensor, "batch heads queries"]]:
        """(weights @ value, logsumexp), both without sinks."""
        from regard.backends.triton import kernels

        return kernels.forward(scores, request.operand)

    @no_autocast
    def logsumexp(self, scores: Scores) -> Float[Tensor, "batch heads queries"]:
        """log Σ exp of each row of masked scores (without sinks), in float64 where float32 has too few digits for it.

        These digits come from the kernels' own products, from which the weights are computed too: an error that both
        share is in none of the weights.
        """
        from regard.backends.triton import kernels

        parts, lse = _few_sums(scores) if few(scores) else kernels.forward(scores, None)
        if trusted(lse, scores.query.dtype):
            return lse
        peak, total = parts.double().unbind(-1)
        return (peak + total.log2()) * LN2

    def add_sinks(self, output: Tensor, lse: Tensor, sinks: Tensor) -> tuple[Tensor, Tensor]:
        """Count the sinks in place, by one kernel where the normaliser has its dtype."""
        return (output, lse) if rescale(output, lse, sinks) else super().add_sinks(output, lse, sinks)

    @no_autocast
    def reduce(
        self, scores: Scores, lse: Float[Tensor, "batch heads queries"], requests: Sequence[Reduction]
    ) -> list[Result]:
        """The results of all requests, in as few passes as possible."""
        return _reduce(scores, normaliser(lse), requests)

    @no_autocast
    def dense(self, scores: Scores, lse: Float[Tensor, "batch heads queries"]) -> Tensor:
        """The weights of a few rows."""
        from regard.backends.triton import kernels

        return kernels.dense_rows(scores, normaliser(lse), dtype=scores.query.dtype)

    @no_autocast
    def backward(self, scores: Scores, task: Backward) -> Gradients:
        """Gradients of query, key and operand; queries that see no key must hold no NaN."""
        from regard.backends.triton import gradients

        return gradients.backward(scores, task, normaliser(task.lse))


@cache
def _installed() -> bool:
    return find_spec("triton") is not None


def _faster_by_tiles(scores: Scores) -> bool:
    """Whether gradients by torch's products are faster than by these kernels, and as exact: tensor cores have no
    float32. But those products may be set to TF32, and tiles read from the GPU, which a graph capture forbids."""
    query, mask = scores.query, scores.mask
    if query.dtype != torch.float32 or query.device.type != "cuda" or capturing(query):
        return False
    plain = not mask or (mask.plain_causal and mask.only_bands)
    shared = scores.group > 1 and query.shape[-1] <= 64
    return plain and not shared and torch.backends.cuda.matmul.fp32_precision != "tf32"


def _few_sums(scores: Scores) -> tuple[Tensor, Tensor]:
    """What `kernels.forward` returns without a value, for a few rows: one program a row would be too few."""
    from regard.backends.triton import kernels

    zero = Normaliser(scores.query.new_zeros(scores.shape[:3], dtype=torch.float32), None)
    logits = kernels.dense_rows(scores, zero, log2=True)
    peak = logits.amax(-1)
    total = (logits - peak[..., None]).exp2_().masked_fill_(logits <= HIDING, 0.0).sum(-1)
    peak = peak.clamp_min(HIDDEN)
    lse = torch.where(peak > HIDING, (peak + total.log2()) * LN2, -math.inf)
    return torch.stack([peak, total], -1), torch.where(peak.isnan(), peak, lse)


@no_autocast
def rescale(output: Tensor, lse: Tensor, sinks: Tensor | None) -> bool:
    """Count the sinks in (weights @ value, logsumexp), in place, and set blind rows to 0; False without Triton.

    torch's operators would read and write the output several times.
    """
    if lse.dtype != torch.float32 or not _installed():
        return False
    from regard.backends.triton import kernels

    kernels.rescale(output, lse, sinks)
    return True


# The normaliser


def normaliser(lse: Float[Tensor, "batch heads queries"]) -> Normaliser:
    """A logsumexp as kernels take it, made once per tensor and stream: a matrix keeps its own for many results."""
    stream = torch._C._cuda_getCurrentRawStream(lse.device.index) if lse.device.type == "cuda" else None
    version = (0 if lse.is_inference() else lse._version, stream)
    known_version, norm = _NORMALISERS.get(lse, (None, None))
    if known_version != version:
        norm = _in_base_2(lse)
        if not capturing(lse):  # nothing is computed during a capture
            _NORMALISERS[lse] = version, norm
    return norm  # type: ignore[no-any-return]


def _in_base_2(lse: Tensor) -> Normaliser:
    """Minus the logsumexp in base 2 as float32 and, where that has too few digits for it, the remainder."""
    if lse.dtype == torch.float32:  # a kernel's: it has no more digits than these
        return Normaliser((lse * -LOG2E).nan_to_num_(math.nan, HIDDEN, -math.inf).contiguous(), None)
    full = lse.double().masked_fill(lse == -math.inf, -HIDDEN) * -LOG2E
    high = full.float()
    large = (high.abs() > TRUSTED) & (high > HIDDEN)
    split = capturing(lse) or large.any()  # during a capture there are no numbers to look at
    return Normaliser(high.contiguous(), (full - high).float().contiguous() if split else None)


# The plan of the reductions


class Pass(NamedTuple):
    """One pass over the tiles: the kernel, and the requests that it computes."""

    kernel: Literal["rows", "columns", "sums", "bins", "top"]
    received: Received | None = None
    entropy: Entropy | None = None
    pool: Pool | None = None
    top: Top | None = None
    product: TransposedProduct | None = None


class PassResult(NamedTuple):
    """The results of one pass, in the order of the requests of a `Pass`."""

    received: Tensor | None = None  # sums or maxima
    entropy: Tensor | None = None
    pool: Tensor | None = None
    top: tuple[Tensor, Tensor] | None = None
    product: Tensor | None = None


def _reduce(scores: Scores, norm: Normaliser, requests: Sequence[Reduction]) -> list[Result]:
    """The results in the order of the requests."""
    products = TransposedProduct if not capturing(scores.query) else (TransposedProduct, Pool)  # its bins are a copy
    if few(scores) and not any(isinstance(request, products) for request in requests):
        return _reduce_few_rows(scores, norm, requests)
    from regard.backends.triton import bins, passes, top

    launches = {"rows": passes.rows, "columns": passes.columns, "sums": passes.sums, "bins": bins.bins, "top": top.top}
    results: dict[Reduction, Result] = {}
    for step in plan(scores, requests):
        computed: PassResult = launches[step.kernel](scores, norm, step)
        for request, result in zip(step[1:], computed, strict=True):
            if request is not None and result is not None:
                mean = isinstance(request, Received) and request.reduce == "mean"
                results[request] = result / scores.shape[2] if mean and isinstance(result, Tensor) else result
    return [results[request] for request in requests]


def plan(scores: Scores, requests: Sequence[Reduction]) -> list[Pass]:
    """The passes that compute these requests.

    A summary with even bins takes one pass, if there is workspace for it. With `top` it takes two: where bins are
    large, the pass of `top` computes the entropy as well.
    """
    requests = list(dict.fromkeys(requests))
    received = [request for request in requests if isinstance(request, Received)]
    entropies = [request for request in requests if isinstance(request, Entropy)]
    pools = [request for request in requests if isinstance(request, Pool)]
    passes = [Pass("columns", product=r) for r in requests if isinstance(r, TransposedProduct)]
    passes += [Pass("columns", request) for request in received if request.reduce == "max"]
    received = [request for request in received if request.reduce != "max"]
    for pool in pools:
        if not even(scores, pool):  # sums of columns come along
            passes.append(Pass("bins", received.pop(0) if received else None, pool=pool))
    pools = [pool for pool in pools if even(scores, pool)]
    # Where bins are small, a pass of `sums` is needed anyway, and computes the entropy for less than `top` does.
    small = any(not _bins_by_columns(scores, pool) for pool, _ in zip(pools, received, strict=False))
    for request in requests:
        if isinstance(request, Top):
            entropy = entropies.pop() if entropies and not small else None
            passes.append(Pass("rows" if request.k == 1 else "top", entropy=entropy, top=request))
    for entropy, even_pool, sums in zip_longest(entropies, pools, received):
        if even_pool is None and sums is None:
            passes.append(Pass("rows", entropy=entropy))
        elif entropy is None and (even_pool is None or _bins_by_columns(scores, even_pool)):
            passes.append(Pass("columns", sums, pool=even_pool))
        else:
            step = Pass("sums", sums, entropy, even_pool)
            if entropy is not None and not sums_shape(scores, step).programs:  # no workspace for the entropies
                passes.append(Pass("rows", entropy=entropy))
                step = step._replace(entropy=None)
            passes.append(step)
    return passes


# Workspace, and the sizes of bins


def _problem_bytes(scores: Scores) -> int:
    """Bytes of query, key, value and output."""
    return 2 * scores.query.element_size() * (scores.query.numel() + scores.key.numel())


def _programs_with_lines(scores: Scores, units: int, numbers: int) -> int:
    """Programs per head, each with its own line of `numbers` for each row; 0 where the lines take too much memory."""
    batch, heads, queries, _ = scores.shape
    room = max(tuning.WORKSPACE, _problem_bytes(scores) // 8) // (4 * batch * heads * queries * max(numbers, 1))
    return _busy_programs(batch * heads, units, room, tuning.resident_programs(scores))


@lru_cache(maxsize=256)
def _busy_programs(lanes: int, units: int, room: int, slots: int) -> int:
    """As many programs per head as keep the GPU busy and leave few idle at the end; 0 where there is no room."""
    most = min(units, max(cdiv(2 * slots, lanes), 1), room)
    if lanes * most < min(lanes * units, max(slots * 3 // 4, 1)):
        return 0
    return min(range(1, most + 1), key=lambda n: (cdiv(lanes * n, slots) * cdiv(units, n), n))


def even(scores: Scores, pool: Pool) -> bool:
    """Whether all bins have the same size, a power of two each way, so that tiles fit into them or they into tiles."""
    sizes = [divmod(tokens, bins) for tokens, bins in zip(scores.shape[2:], (pool.rows, pool.columns), strict=True)]
    return all(rest == 0 and next_power(size) == size for size, rest in sizes)


def has_dense_mask(scores: Scores) -> bool:
    """Whether the mask has a part that is read in every tile."""
    return bool(scores.mask.visible or scores.mask.biases)


def _bins_by_columns(scores: Scores, pool: Pool) -> bool:
    """Whether `columns` can add up even bins on the way: they are large, and there is workspace."""
    batch, heads, queries, keys = scores.shape
    if has_dense_mask(scores):
        return False  # it is read by rows, which `columns` would have to transpose
    large = queries >= 8 * pool.rows and keys >= 16 * pool.columns
    return large and batch * heads * pool.rows * keys // 4 <= max(tuning.WORKSPACE, _problem_bytes(scores) // 32)


class SumsShape(NamedTuple):
    """How the pass of `sums` divides its work."""

    bin_rows: int  # queries of a bin
    bin_keys: int  # keys of a bin; less than those of a bin of the result, where bins are added up afterwards
    units: int  # how many programs may share the keys of a head
    pooling: Literal["", "bins", "rows"]  # "rows": row sums are stored first, and folded into bins
    programs: int  # programs per head; 0 where there is no workspace for the lines that they need


def sums_shape(scores: Scores, step: Pass) -> SumsShape:
    """Divide the work of a pass of `sums`.

    A program has all keys of a bin: where that leaves too few programs, bins are narrower and added up afterwards, as
    far as there is workspace for them.
    """
    pool, (batch, heads, queries, keys) = step.pool, scores.shape
    block_m, block_n, _ = tuning.blocks("sums", scores)
    bin_rows, bin_keys = (block_m, block_n) if pool is None else (queries // pool.rows, keys // pool.columns)
    lanes, most = batch * heads, max(tuning.WORKSPACE, _problem_bytes(scores) // 32)
    while bin_keys > block_n and lanes * (keys // bin_keys) < 4 * tuning.resident_programs(scores):
        if 8 * lanes * (queries // bin_rows) * (keys // bin_keys) > most:
            break
        bin_keys //= 2
    units = cdiv(keys, max(bin_keys, block_n))
    block_m, block_n, _ = sums_blocks(scores)
    pooling: Literal["", "bins", "rows"] = "" if pool is None else "bins"
    narrow = pool is not None and bin_keys >= block_n and bin_rows < 2 * block_m
    if narrow and _programs_with_lines(scores, units, 2):
        pooling = "rows"  # every tile would have to add up its bin, and there is workspace for row sums
    numbers = (step.entropy is not None) + (pooling == "rows")
    return SumsShape(
        bin_rows, bin_keys, units, pooling, _programs_with_lines(scores, units, numbers) if numbers else units
    )


def sums_blocks(scores: Scores) -> tuple[int, int, dict[str, int]]:
    """The block sizes and launch options of the pass of `sums`."""
    return tuning.blocks("sums_dense" if has_dense_mask(scores) else "sums", scores)


# A few rows


def few(scores: Scores) -> bool:
    """Whether there are so few rows that their weights are stored: they take no more memory than the keys."""
    batch, heads, queries, keys = scores.shape
    return queries <= 16 and 8 * batch * heads * queries * keys <= max(tuning.WORKSPACE, _problem_bytes(scores) // 4)


def _reduce_few_rows(scores: Scores, norm: Normaliser, requests: Sequence[Reduction]) -> list[Result]:
    """All reductions of a few rows, from their stored weights."""
    from regard.backends.triton import kernels

    log2 = kernels.dense_rows(scores, norm, log2=True)
    results: dict[Reduction, Result] = {
        request: kernels.top_of_rows(log2, request.k) for request in requests if isinstance(request, Top)
    }
    others = [request for request in requests if not isinstance(request, Top)]
    if others:
        batch, heads, queries, keys = (slice(0, n) for n in scores.shape)
        tile = Tile(batch, heads, slice(0, scores.key.shape[1]), queries, keys, log2, log2.exp2())
        results |= zip(others, tiles.reduce(scores, [tile], others), strict=True)
    return [results[request] for request in requests]
