"""The contract of a backend: requests, results, what a backend can compute as data, and its methods.

Every result is a function of the weights p = exp(s - lse), where s are the masked scores and lse is the row normaliser
(the logsumexp of each row). Results come back in the order of the requests, in the working dtype of the scores
(float32, or float64 for float64 queries) unless their request says otherwise. Requests and results are frozen values.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from regard.errors import InputError
from regard.scores import HIDING, MASK_PARTS, Scores, share
from regard.support import WHOLE, Float, check_stored, number


@dataclass(frozen=True, eq=False)
class Dropout:
    """Which weights are dropped: a pure function of (seed, position), so that no pass has to store a mask."""

    rate: float
    seed: Tensor

    @classmethod
    def of(cls, rate: float, seed: Tensor | None = None) -> Dropout | None:
        """Dropout at this rate, None for a rate of 0. `seed`: a tensor of one whole number; by default a random one."""
        if isinstance(rate, float) and rate == 0.0:
            return None
        rate = number("dropout", rate)
        if not 0 <= rate < 1:
            raise InputError(f"dropout must be at least 0 and below 1. Got {rate}.")
        if seed is not None:
            if not isinstance(seed, Tensor) or seed.dtype not in WHOLE or seed.numel() != 1:
                raise InputError("the seed of dropout must be a tensor of one whole number, as in torch.tensor(7).")
            check_stored("seed", seed)
        return cls(rate, torch.randint(2**31, (), device="cpu") if seed is None else seed)


# Requests


@dataclass(frozen=True, eq=False)
class Attend:
    """weights @ operand: (batch, heads, queries, width), in the dtype of the query."""

    operand: Float[Tensor, "batch key_heads keys width"]
    dropout: Dropout | None = None


class _Unary:
    """A request without an operand."""

    operand: ClassVar[None] = None
    dropout: ClassVar[None] = None


@dataclass(frozen=True)
class LogSumExp(_Unary):
    """The row normaliser itself: (batch, heads, queries)."""


@dataclass(frozen=True)
class Dense(_Unary):
    """The weights of a few rows, in the dtype of the query: (batch, heads, queries, keys)."""


@dataclass(frozen=True)
class Received(_Unary):
    """The weights that each key receives over all queries: (batch, heads, keys); reduce: "sum", "mean" or "max"."""

    reduce: str = "sum"


@dataclass(frozen=True)
class Entropy(_Unary):
    """-Σ p log p of each row, in nats: (batch, heads, queries)."""


@dataclass(frozen=True)
class Top(_Unary):
    """The k largest weights of each row, descending, and their keys: a pair of (batch, heads, queries, k).

    The key is -1 where a row sees fewer than k keys.
    """

    k: int


@dataclass(frozen=True)
class Pool(_Unary):
    """The "mean" or "max" of each of rows × columns nearly equal bins: (batch, heads, rows, columns)."""

    rows: int
    columns: int
    reduce: str = "mean"


@dataclass(frozen=True, eq=False)
class TransposedProduct:
    """weightsᵀ @ operand: (batch, heads, keys, width); rounded: a backend may return it in the operand's dtype."""

    operand: Float[Tensor, "batch heads queries width"]
    rounded: bool = False
    dropout: ClassVar[None] = None


Reduction = Received | Entropy | Top | Pool | TransposedProduct  # the requests of `reduce`
Request = Attend | LogSumExp | Reduction
Result = Tensor | tuple[Tensor, Tensor]  # a pair for Top


def with_operand(request: Request, operand: Tensor | None) -> Request:
    """Return this request for a different operand; a request without an operand is returned unchanged."""
    product = operand is not None and isinstance(request, Attend | TransposedProduct)
    return replace(request, operand=operand) if product else request  # type: ignore[arg-type, type-var]


@dataclass(frozen=True, eq=False)
class Backward:
    """A backward pass: `grad` is the gradient of `result`, the answer to `request`.

    Each masked score receives p × (dL/dp - Σ_j p dL/dp). Without `subtract` the normaliser is a separate input (a part
    of a matrix keeps the normaliser of all keys), and each score receives p × dL/dp.
    """

    request: Request
    result: Tensor
    lse: Float[Tensor, "batch heads queries"]
    grad: Tensor
    subtract: bool = True
    biases: bool = False  # whether the biases of the mask need gradients too


class Gradients(NamedTuple):
    """The gradients of the inputs, and the row sums that sinks and outer normalisers receive."""

    query: Tensor
    key: Tensor
    operand: Tensor | None = None  # None where the request has no operand
    biases: tuple[Tensor, ...] = ()  # of the mask, where `Backward.biases` asks for them
    row_dot: Tensor | None = None  # Σ_j p dL/dp of each row, where the backend had to compute it


# Backends


@dataclass(frozen=True)
class Capabilities:
    """What a backend can compute, as data that the chooser compares with a problem.

    Args:
        requests: the types of the requests that it computes; by default all but `Dense`.
        gradients: the types of the requests that it differentiates; by default all but `Top`.
        dtypes: the dtypes that it takes, by type of device; None for all dtypes on all devices.
        named_dtypes: further dtypes that it takes only where `use` names it.
        mask_parts: the parts of a `BoundMask` that it reads.
        softcap, dropout, empty: whether it computes them; `empty` stands for matrices without rows or keys.
        bias_gradients: whether its gradients include the biases of the mask.
        outer_gradients: whether it differentiates where the normaliser is a separate input.
        uses_forward_lse: its gradients need the logsumexp of its own forward pass, however precise that is.
        fastest_unmasked: unmasked blocks pay even where another backend computes the masked whole in one call.
        always: it computes what it supports, whatever backends `use` names.
    """

    requests: tuple[type, ...] = (Attend, LogSumExp, Received, Entropy, Top, Pool, TransposedProduct)
    gradients: tuple[type, ...] = (Attend, LogSumExp, Received, Entropy, Pool, TransposedProduct)
    dtypes: Mapping[str, tuple[torch.dtype, ...]] | None = None
    named_dtypes: Mapping[str, tuple[torch.dtype, ...]] = field(default_factory=dict)
    mask_parts: frozenset[str] = frozenset(MASK_PARTS)
    softcap: bool = True
    dropout: bool = False
    empty: bool = False
    bias_gradients: bool = False
    outer_gradients: bool = True
    uses_forward_lse: bool = False
    fastest_unmasked: bool = False
    always: bool = False


class Refused(Exception):
    """A kernel refused a problem that `accepts` let through: the chooser takes the next backend."""


class Backend:
    """One way to compute. It implements the methods that its requests need; the others are never called."""

    name: str
    can: Capabilities

    def accepts(self, scores: Scores, request: Request | Dense, gradient: bool) -> bool:
        """Whether it computes a request (or its gradient) that its capabilities allow."""
        return True

    def sources(self, scores: Scores) -> frozenset[str]:
        """The names of the backends whose products make up its normaliser."""
        return frozenset((self.name,))

    def forward(self, scores: Scores, request: Attend) -> tuple[Tensor, Tensor]:
        """(weights @ operand, logsumexp), both without sinks."""
        raise NotImplementedError

    def add_sinks(self, output: Tensor, lse: Tensor, sinks: Float[Tensor, "batch heads"]) -> tuple[Tensor, Tensor]:
        """Count the sinks in the result of `forward`, in place: a sink is one more key, with a value of 0."""
        widened = torch.logaddexp(lse, sinks.to(lse.dtype)[..., None])
        return torch.mul(output, share(lse, widened)[..., None], out=output), widened

    def logsumexp(self, scores: Scores) -> Float[Tensor, "batch heads queries"]:
        """The row normaliser without sinks; in float64 where float32 has too few digits for it."""
        raise NotImplementedError

    def reduce(
        self, scores: Scores, lse: Float[Tensor, "batch heads queries"], requests: Sequence[Reduction]
    ) -> list[Result]:
        """The results of requests that it supports, in as few passes as possible."""
        raise NotImplementedError

    def dense(self, scores: Scores, lse: Float[Tensor, "batch heads queries"]) -> Tensor:
        """The weights of a few rows, in the dtype of the query."""
        raise NotImplementedError

    def backward(self, scores: Scores, task: Backward) -> Gradients:
        """The gradients of the inputs. Tokens that nobody sees, or that see nothing, hold no NaN."""
        raise NotImplementedError


# Numbers


TRUSTED = 256.0  # up to here a float32 logsumexp gives weights right to about 1e-5; beyond, more digits are kept
# The logit of a hidden key, far below any bias that does not hide: exp2 gives an exact 0, and 0 × HIDDEN stays 0 where
# 0 × -inf would be NaN.
HIDDEN = 10 * HIDING
LOG2E, LN2 = math.log2(math.e), math.log(2.0)


def aligned(tensor: Tensor) -> Tensor:
    """The tensor, or a copy where it or its rows do not start at multiples of 16 bytes, or rows have gaps.

    torch's GPU kernels assume this alignment: without it, flash attention fails and cuDNN reads wrong numbers. Where
    rows have gaps, torch stores all weights instead.
    """
    (*strides, step), unit = tensor.stride(), 16 // tensor.element_size()
    if tensor.data_ptr() % 16 == 0 and step == 1 and not any(stride % unit for stride in strides):
        return tensor
    return tensor.clone(memory_format=torch.contiguous_format)


def capturing(tensor: Tensor) -> bool:
    """Whether a CUDA graph is being captured: tensors on the GPU cannot be read back then."""
    return tensor.device.type == "cuda" and torch.cuda.is_current_stream_capturing()


def trusted(lse: Tensor, dtype: torch.dtype) -> bool:
    """Whether a normaliser is precise enough for every result computed from it, for queries of this dtype."""
    if lse.dtype == torch.float64 or capturing(lse):
        return True
    if lse.device.type == "cpu" and dtype != torch.float32:
        return False  # torch's kernel sums halves with fewer digits than float32 has
    if lse.device.type == "cuda" and dtype == torch.bfloat16:
        return True  # float32 is as good as bfloat16 up to logits of 1e4, and checking would wait for the GPU
    return not bool(((lse.abs() > TRUSTED) & (lse != -math.inf)).any())


def with_sinks(scores: Scores, lse: Tensor) -> Tensor:
    """The normaliser with the sinks of these scores counted."""
    return lse if scores.sinks is None else torch.logaddexp(lse, scores.sinks.to(lse.dtype)[..., None])
