"""The Triton backend: what it supports, the normaliser as kernels take it, and which launch answers which request."""

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
from regard.backends.triton import reductions
from regard.backends.triton.problem import MAX_GRID, OUT_OF_REACH, Normaliser, head_grid
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
            return reductions.few(scores)
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

        parts, lse = _few_sums(scores) if reductions.few(scores) else kernels.forward(scores, None)
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
        return reductions.reduce(scores, normaliser(lse), requests)

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
    few = scores.group > 1 and query.shape[-1] <= 64
    return plain and not few and torch.backends.cuda.matmul.fp32_precision != "tf32"


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
