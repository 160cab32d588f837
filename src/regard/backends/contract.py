"""The contract of a backend: what may be asked of it, in which form the answers come, and its five methods.

Everything asked for is a function of the weights p = exp(s - lse), where s are the masked scores and lse is the row
normaliser (the logsumexp of each row). A request says what is wanted and holds no result; results come back in the
order of the requests, in the working dtype of the scores (float32, or float64 for float64 queries) unless said
otherwise. Nobody fills in somebody else's object.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from regard.errors import InputError
from regard.scores import HIDING, Scores
from regard.support import WHOLE, Float, check_stored, number

__all__ = [
    "HIDDEN",
    "LN2",
    "LOG2E",
    "TRUSTED",
    "Attend",
    "Backend",
    "Dropout",
    "Entropy",
    "Gradients",
    "LogSumExp",
    "Pool",
    "Received",
    "Reduction",
    "Refused",
    "Request",
    "Result",
    "Top",
    "TransposedProduct",
    "aligned",
    "capturing",
    "share",
    "trusted",
    "with_sinks",
]


@dataclass(frozen=True, eq=False)
class Dropout:
    """Which weights are dropped: a pure function of (seed, position), so that no pass has to remember a mask."""

    rate: float
    seed: Tensor

    @classmethod
    def of(cls, rate: float, seed: Tensor | None = None) -> Dropout | None:
        """With a fresh seed unless one is given (a tensor of one whole number); None for a rate of 0."""
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
    """weights @ value: (batch, heads, queries, width), in the dtype of the query."""

    value: Float[Tensor, "batch key_heads keys width"]
    dropout: Dropout | None = None


@dataclass(frozen=True)
class LogSumExp:
    """The row normaliser itself: (batch, heads, queries)."""


@dataclass(frozen=True)
class Received:
    """What each key receives over all queries: (batch, heads, keys); reduce: "sum", "mean" or "max"."""

    reduce: str = "sum"


@dataclass(frozen=True)
class Entropy:
    """-Σ p log p of each row, in nats: (batch, heads, queries)."""


@dataclass(frozen=True)
class Top:
    """The k largest weights of each row, descending, and their keys: two of (batch, heads, queries, k).

    The key is -1 where a row sees fewer than k keys.
    """

    k: int


@dataclass(frozen=True)
class Pool:
    """The "mean" or "max" of each of rows × columns nearly equal bins: (batch, heads, rows, columns)."""

    rows: int
    columns: int
    reduce: str = "mean"


@dataclass(frozen=True, eq=False)
class TransposedProduct:
    """weightsᵀ @ x: (batch, heads, keys, width); rounded: a backend may give it in the dtype of x."""

    x: Float[Tensor, "batch heads queries width"]
    rounded: bool = False


Reduction = Received | Entropy | Top | Pool | TransposedProduct  # what `reduce` takes
Request = Attend | LogSumExp | Reduction
Result = Tensor | tuple[Tensor, Tensor]  # a pair for Top


class Gradients(NamedTuple):
    """What `backward` gives: gradients of the inputs, and the row sums that sinks and outer normalisers receive."""

    query: Tensor
    key: Tensor
    operand: Tensor | None  # of the value or x, where the request has one
    biases: tuple[Tensor | None, ...]  # of the mask's biases; None where they were not asked for
    row_dot: Tensor | None  # Σ_j p dL/dp of each row, where the backend had to compute it


class Refused(Exception):
    """A kernel refused what `supports` had thought it could compute: the next backend is asked."""


class Backend:
    """One way to compute. It may support only some requests for some scores: `supports` says which.

    A backend implements the methods that its supported requests need; the others are never called.
    """

    name: str

    def supports(self, scores: Scores, request: Request, *, gradient: bool = False, biases: bool = False) -> bool:
        """Whether it computes this request for these scores (`gradient`: its backward; `biases`: theirs too)."""
        raise NotImplementedError

    def forward(self, scores: Scores, request: Attend) -> tuple[Tensor, Tensor]:
        """(weights @ value, logsumexp), both without sinks."""
        raise NotImplementedError

    def logsumexp(self, scores: Scores) -> Float[Tensor, "batch heads queries"]:
        """The row normaliser without sinks; in float64 where float32 has too few digits for it."""
        raise NotImplementedError

    def reduce(
        self, scores: Scores, lse: Float[Tensor, "batch heads queries"], requests: Sequence[Reduction]
    ) -> list[Result]:
        """The reductions asked for, all of which it must support, in as few passes as it can."""
        raise NotImplementedError

    def backward(
        self,
        scores: Scores,
        request: Request,
        result: Tensor,
        lse: Float[Tensor, "batch heads queries"],
        grad: Tensor,
        *,
        subtract: bool = True,
        biases: bool = False,
    ) -> Gradients:
        """Gradients where `grad` is that of `result`. Each masked score receives p × (dL/dp - Σ_j p dL/dp).

        Without `subtract` the normaliser is an input of its own (a part of a matrix keeps that of all keys), and each
        score receives p × dL/dp.
        """
        raise NotImplementedError


TRUSTED = 256.0  # up to here a float32 logsumexp gives weights right to about 1e-5; beyond, more digits are kept
# The logit of a hidden key, far below any bias that does not hide: exp2 gives an exact 0, and 0 × HIDDEN stays 0 where
# 0 × -inf would be NaN.
HIDDEN = 10 * HIDING
LOG2E, LN2 = math.log2(math.e), math.log(2.0)


def aligned(tensor: Tensor) -> Tensor:
    """The tensor, or a copy where it or its rows do not start at multiples of 16 bytes.

    torch's GPU kernels assume that they do: with fewer, flash attention fails and cuDNN reads other numbers.
    """
    unit = 16 // tensor.element_size()
    if tensor.data_ptr() % 16 == 0 and not any(stride % unit for stride in tensor.stride()[:-1]):
        return tensor
    return tensor.clone(memory_format=torch.contiguous_format)


def capturing(tensor: Tensor) -> bool:
    """Whether a CUDA graph is being captured: tensors on the GPU cannot be read back then."""
    return tensor.device.type == "cuda" and torch.cuda.is_current_stream_capturing()


def trusted(lse: Tensor, dtype: torch.dtype) -> bool:
    """Whether a normaliser has digits enough for all that is computed from it, for queries of this dtype."""
    if lse.dtype == torch.float64 or capturing(lse):
        return True
    if lse.device.type == "cpu" and dtype != torch.float32:
        return False  # torch's kernel sums halves with fewer digits than float32 has
    if lse.device.type == "cuda" and dtype == torch.bfloat16:
        return True  # float32 is as good as bfloat16 up to logits of 1e4, and asking would wait for the GPU
    return not bool(((lse.abs() > TRUSTED) & (lse != -math.inf)).any())


def share(part: Tensor, whole: Tensor) -> Tensor:
    """exp(part - whole): the share of a normaliser that some of its terms make up; 0 where the row sees nothing."""
    return torch.exp(part - whole.masked_fill(whole == -math.inf, 0.0))


def with_sinks(scores: Scores, lse: Tensor) -> Tensor:
    """The normaliser with the sinks of these scores counted."""
    return lse if scores.sinks is None else torch.logaddexp(lse, scores.sinks.to(lse.dtype)[..., None])
