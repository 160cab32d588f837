"""The Triton backend: what it supports, and how its kernels are launched for the softmax.

tuning.py says how large their blocks are; reductions are launched in reduce_launch.py, gradients in gradient_launch.py.
Nothing of the size queries × keys is ever made.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from typing import Any

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
    LogSumExp,
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
from regard.backends.triton import gradient_launch, reduce_launch, tuning
from regard.backends.triton.problem import (
    MAX_GRID,
    OUT_OF_REACH,
    AxisStrides,
    Normaliser,
    cdiv,
    describe,
    head_grid,
    next_power,
    prepare,
)
from regard.scores import HIDING, MASK_PARTS, Scores
from regard.support import Float, no_autocast

__all__ = ["TritonBackend", "normaliser", "rescale"]

_DTYPES = (torch.float16, torch.bfloat16, torch.float32)
_INTERPRETED = (torch.float16, torch.float32)  # the interpreter's tl.dot is wrong for bfloat16
_MAX_WIDTH = 256
_MAX_SOFTCAP = 128.0  # the kernels' tanh errs by 2⁻²⁴, and the cap multiplies that
_NORMALISERS: Any = WeakTensorKeyDictionary()  # what `normaliser` made, as long as that logsumexp lives


class TritonBackend(Backend):
    """Triton on a GPU: any mask without cuts; forward, gradients and reductions.

    Where `use` names it, it also computes on a CPU, in Triton's interpreter (TRITON_INTERPRET=1), for tests.
    """

    name = "triton"
    can = Capabilities(
        requests=(Attend, LogSumExp, Received, Entropy, Top, Pool, TransposedProduct, Dense),
        gradients=(Attend, LogSumExp, Received, Entropy, Pool, TransposedProduct),
        dtypes={"cuda": _DTYPES}, named_dtypes={"cpu": _INTERPRETED}, mask_parts=frozenset(MASK_PARTS) - {"cuts"},
    )  # fmt: skip

    def accepts(self, scores: Scores, request: Request | Dense, gradient: bool) -> bool:
        """Problems within the limits of the kernels; gradients unless tiles compute them faster."""
        accepted = scores.cache.get(TritonBackend)
        if accepted is None:
            accepted = scores.cache[TritonBackend] = self._accepts_scores(scores)
        if not accepted:
            return False
        if gradient:
            return gradient_launch.supports(request, _MAX_WIDTH) and not _faster_by_tiles(scores)
        if isinstance(request, Attend):
            return 0 < request.operand.shape[-1] <= _MAX_WIDTH
        return isinstance(request, LogSumExp) or reduce_launch.supports(scores, request, _MAX_WIDTH)

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

    def forward(
        self, scores: Scores, request: Attend
    ) -> tuple[Float[Tensor, "batch heads queries width"], Float[Tensor, "batch heads queries"]]:
        """(weights @ value, logsumexp), both without sinks."""
        return _forward(scores, request.operand)

    def logsumexp(self, scores: Scores) -> Float[Tensor, "batch heads queries"]:
        """log Σ exp of each row of masked scores (without sinks), in float64 where float32 has too few digits for it.

        Those are then the digits of the kernels' own products, from which the weights are computed too: an error that
        both share is in none of the weights.
        """
        parts, lse = _few_sums(scores) if reduce_launch.few(scores) else _forward(scores, None)
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
        return reduce_launch.reduce(scores, normaliser(lse), requests)

    @no_autocast
    def dense(self, scores: Scores, lse: Float[Tensor, "batch heads queries"]) -> Tensor:
        """The weights of a few rows as they are."""
        return reduce_launch.dense_rows(scores, normaliser(lse), dtype=scores.query.dtype)

    @no_autocast
    def backward(self, scores: Scores, task: Backward) -> Gradients:
        """Gradients of query, key and operand; queries that see no key must hold no NaN."""
        return gradient_launch.backward(scores, task, normaliser(task.lse))


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
    few = scores.group > 1 and query.shape[-1] <= 64
    return plain and not few and torch.backends.cuda.matmul.fp32_precision != "tf32"


# The normaliser


def normaliser(lse: Float[Tensor, "batch heads queries"]) -> Normaliser:
    """A logsumexp as kernels take it, made once per tensor and stream: a matrix keeps its own for many results."""
    stream = torch._C._cuda_getCurrentRawStream(lse.device.index) if lse.device.type == "cuda" else None
    now = (0 if lse.is_inference() else lse._version, stream)
    made_at, norm = _NORMALISERS.get(lse, (None, None))
    if made_at != now:
        norm = _in_base_2(lse)
        if not capturing(lse):  # nothing is computed during a capture
            _NORMALISERS[lse] = now, norm
    return norm  # type: ignore[no-any-return]


def _in_base_2(lse: Tensor) -> Normaliser:
    """Minus the logsumexp in base 2 as float32 and, where that has too few digits for it, the rest."""
    if lse.dtype == torch.float32:  # a kernel's: it has no more digits than these
        return Normaliser((lse * -LOG2E).nan_to_num_(math.nan, HIDDEN, -math.inf).contiguous(), None)
    full = lse.double().masked_fill(lse == -math.inf, -HIDDEN) * -LOG2E
    high = full.float()
    large = (high.abs() > TRUSTED) & (high > HIDDEN)
    split = capturing(lse) or large.any()  # during a capture there are no numbers to look at
    return Normaliser(high.contiguous(), (full - high).float().contiguous() if split else None)


# Launches


@no_autocast
def _forward(scores: Scores, value: Tensor | None) -> tuple[Tensor, Tensor]:
    """(weights @ value, logsumexp); without a value, the first is each row's largest base-2 logit and its sum."""
    from regard.backends.triton import kernels

    batch, heads, queries, _ = scores.shape
    width = 0 if value is None else value.shape[-1]
    block_m, block_n, options = tuning.blocks("forward_documents" if scores.mask.ids else "forward", scores, width)
    prepared = prepare(scores, block_m, block_n)
    v, v_layout = (prepared.k, prepared.layouts.k) if value is None else describe(value, block_n)
    output = scores.query.new_empty(batch, heads, queries, width or 2, dtype=None if width else torch.float32)
    lse = scores.query.new_empty(batch, heads, queries, dtype=torch.float32)
    # Fused, a product is rounded in the maximum but not where that is subtracted from it, and float16 has enough digits
    # to show the difference in its weights. The other kernels round as this one does without values.
    fusion = value is None or scores.query.dtype != torch.float16
    prepared.launch(
        kernels.forward, prepared.grid(cdiv(queries, block_m), batch * heads),
        prepared.q, prepared.k, v, output, lse, prepared.keys_problem, prepared.layouts._replace(v=v_layout),
        FLAGS=prepared.along_keys(block_n), VALUES=value is not None, WIDTH=max(width, 1),
        PRECISION=prepared.precision, BLOCK_M=block_m, BLOCK_N=block_n,
        BLOCK_V=v.block_shape[1] if value is not None else 1, enable_fp_fusion=fusion, **options,
    )  # fmt: skip
    return output, lse


def _few_sums(scores: Scores) -> tuple[Tensor, Tensor]:
    """What `_forward` finds without a value, for a few rows: programs of a row each would be too few."""
    zero = Normaliser(scores.query.new_zeros(scores.shape[:3], dtype=torch.float32), None)
    logits = reduce_launch.dense_rows(scores, zero, log2=True)
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

    batch, heads, queries, width = output.shape
    block_m, rows = 32, batch * heads * queries
    kernels.rescale_rows[(cdiv(rows, block_m),)](
        output, lse, None if sinks is None else sinks.contiguous(), heads, queries, rows, AxisStrides(*output.stride()),
        AxisStrides(*lse[..., None].stride()), SINKS=sinks is not None, WIDTH=width, BLOCK_M=block_m,
        BLOCK_V=next_power(width), num_warps=4,
    )  # fmt: skip
    return True
