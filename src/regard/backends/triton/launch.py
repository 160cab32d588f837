"""The Triton backend: what it supports, and how its kernels are launched for the softmax.

tuning.py says how large their blocks are; reductions are launched in reduce_launch.py, gradients in gradient_launch.py.
Nothing of the size queries × keys is ever made.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
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
    Gradients,
    LogSumExp,
    Reduction,
    Request,
    Result,
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
from regard.scores import HIDING, Scores
from regard.support import Float, no_autocast

__all__ = ["TritonBackend", "normaliser"]

_DTYPES = (torch.float16, torch.bfloat16, torch.float32)
_INTERPRETED = (torch.float16, torch.float32)  # the interpreter's tl.dot is wrong for bfloat16
_MAX_WIDTH = 256
_MAX_SOFTCAP = 128.0  # the kernels' tanh errs by 2⁻²⁴, and the cap multiplies that
_NORMALISERS: Any = WeakTensorKeyDictionary()  # what `normaliser` made, as long as that logsumexp lives


class TritonBackend(Backend):
    """Triton on a GPU: any mask; forward, gradients and reductions.

    interpret: also compute on the CPU where Triton's interpreter is on (TRITON_INTERPRET=1), for tests.
    """

    name = "triton"

    def __init__(self) -> None:
        self.interpret = False

    def supports(self, scores: Scores, request: Request, *, gradient: bool = False, biases: bool = False) -> bool:
        """Whether it computes this request for these scores (`gradient`: its backward; `biases`: theirs too)."""
        if not self._supports_scores(scores):
            return False
        if gradient:
            return gradient_launch.supports(request, _MAX_WIDTH) and not (biases or _faster_by_tiles(scores))
        if isinstance(request, Attend):
            return request.dropout is None and 0 < request.value.shape[-1] <= _MAX_WIDTH
        return isinstance(request, LogSumExp) or reduce_launch.supports(scores, request, _MAX_WIDTH)

    def _supports_scores(self, scores: Scores) -> bool:
        if self.interpret:  # a setting of tests, which may change
            return self._judge(scores)
        supported: bool | None = scores.cache.get(TritonBackend)
        if supported is None:
            supported = scores.cache[TritonBackend] = self._judge(scores)
        return supported

    def _judge(self, scores: Scores) -> bool:
        query, mask, batch = scores.query, scores.mask, scores.shape[0]
        if query.dtype not in self._dtypes(query.device.type) or 0 in scores.shape or query.shape[-1] > _MAX_WIDTH:
            return False
        if any(max(head_grid(batch * heads)) > MAX_GRID for heads in (scores.shape[1], scores.key.shape[1])):
            return False  # a large number of heads, and (nearly) a prime one
        if scores.softcap is not None and scores.softcap > _MAX_SOFTCAP:
            return False
        consecutive = all(isinstance(place, range) and place.step == 1 for place in (scores.rows, scores.columns))
        single = len(mask.visible) <= 1 and len(mask.biases) <= 1 and len(mask.ids) <= 1
        return consecutive and single and max(scores.shape) < OUT_OF_REACH and _installed()

    def _dtypes(self, device: str) -> tuple[torch.dtype, ...]:
        if device == "cuda":
            return _DTYPES
        interpreted = device == "cpu" and self.interpret and os.environ.get("TRITON_INTERPRET") == "1"
        return _INTERPRETED if interpreted else ()

    def forward(
        self, scores: Scores, request: Attend
    ) -> tuple[Float[Tensor, "batch heads queries width"], Float[Tensor, "batch heads queries"]]:
        """(weights @ value, logsumexp), both without sinks."""
        return _forward(scores, request.value)

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

    @no_autocast
    def dense(self, scores: Scores, lse: Callable[[], Tensor]) -> Tensor | None:
        """The weights of a few rows as they are; None where that is not done here."""
        if not self._supports_scores(scores) or not reduce_launch.few(scores):
            return None
        return reduce_launch.dense_rows(scores, normaliser(lse()), dtype=scores.query.dtype)

    @no_autocast
    def rescale(self, output: Tensor, lse: Tensor, sinks: Tensor | None) -> bool:
        """Count the sinks in (weights @ value, logsumexp), in place, and let blind rows be 0; False if not done here.

        torch's operators would read and write the output several times.
        """
        if output.dtype not in self._dtypes(output.device.type) or lse.dtype != torch.float32 or not _installed():
            return False
        _rescale(output, lse, sinks)
        return True

    @no_autocast
    def reduce(
        self, scores: Scores, lse: Float[Tensor, "batch heads queries"], requests: Sequence[Reduction]
    ) -> list[Result]:
        """The reductions asked for, all of which it must support, in as few passes as it can."""
        return reduce_launch.reduce(scores, normaliser(lse), requests)

    @no_autocast
    def backward(
        self, scores: Scores, request: Request, result: Tensor, lse: Float[Tensor, "batch heads queries"],
        grad: Tensor, *, subtract: bool = True, biases: bool = False,
    ) -> Gradients:  # fmt: skip
        """Gradients of all that `supports` names. Scores and value as `forward` took them, queries that see no key
        harmless."""
        assert gradient_launch.supports(request, _MAX_WIDTH), f"{type(request).__name__} has no gradient here"
        assert not biases, "gradients of biases have no kernels"
        return gradient_launch.backward(scores, request, result, lse, normaliser(lse), grad, subtract)


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


def _rescale(output: Tensor, lse: Tensor, sinks: Tensor | None) -> None:
    from regard.backends.triton import kernels

    batch, heads, queries, width = output.shape
    block_m, rows = 32, batch * heads * queries
    kernels.rescale_rows[(cdiv(rows, block_m),)](
        output, lse, None if sinks is None else sinks.contiguous(), heads, queries, rows, AxisStrides(*output.stride()),
        AxisStrides(*lse[..., None].stride()), SINKS=sinks is not None, WIDTH=width, BLOCK_M=block_m,
        BLOCK_V=next_power(width), num_warps=4,
    )  # fmt: skip
