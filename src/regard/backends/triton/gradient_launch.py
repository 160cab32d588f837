"""How the kernels of the gradients are launched, and what each request hands to them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from regard.backends.contract import (
    Attend,
    Backward,
    Dense,
    Entropy,
    Gradients,
    LogSumExp,
    Pool,
    Received,
    Request,
    TransposedProduct,
    capturing,
)
from regard.backends.triton import tuning
from regard.backends.triton.problem import Normaliser, cdiv, describe, prepare
from regard.scores import Scores

__all__ = ["backward", "supports"]


class Pull(NamedTuple):
    """Where kernels find dL/dp, where it is no product: see `_weight_gradient` in gradient_kernels.py."""

    grad: Tensor | None = None  # float32: of keys ("received"), of rows ("entropy"), or of bins ("pool")
    of_rows: Tensor | None = None  # the bin of each query
    of_keys: Tensor | None = None  # … and of each key
    bin_rows: int | None = None  # how many bins there are
    bin_columns: int | None = None
    unit: Tensor | None = None  # what the gradients of query and key are to be multiplied by: see `_normal`


@dataclass(frozen=True)
class _Pulled:
    """A request and its gradient as kernels take them: dL/dp is left · right, or what `pull` says."""

    kind: str
    pull: Pull
    left: Tensor | None = None  # (batch, heads, queries, width)
    right: Tensor | None = None  # (batch, key heads or heads, keys, width)

    def span(self, queries: int, block_m: int) -> int:
        """How many bins of rows a block of so many queries may lie in; 0 where there are many, or none."""
        bins = self.pull.bin_rows
        span = 0 if bins is None else min(cdiv(block_m - 1, queries // bins) + 1, bins)
        return span if span <= 8 else 0

    @property
    def widths(self) -> tuple[int, ...]:
        """The width of what is loaded besides queries and keys."""
        return () if self.right is None else (self.right.shape[-1],)


def supports(request: Request | Dense, max_width: int) -> bool:
    """Whether the kernels know the gradient of this request."""
    if isinstance(request, Attend):
        return request.dropout is None and 0 < request.operand.shape[-1] <= max_width
    if isinstance(request, TransposedProduct):
        return 0 < request.operand.shape[-1] <= max_width
    if isinstance(request, Received):
        return request.reduce in ("sum", "mean")
    if isinstance(request, Pool):
        return request.reduce == "mean"
    return isinstance(request, (Entropy, LogSumExp))


def backward(scores: Scores, task: Backward, norm: Normaliser) -> Gradients:
    """Gradients of query, key and operand, and the row sums Σ_j p dL/dp. Queries that see no key must hold no NaN."""
    request, grad, subtract = task.request, task.grad, task.subtract
    none = (None,) * len(scores.mask.biases)
    if isinstance(request, Attend):
        row_dot = (grad.to(task.lse.dtype) * task.result).sum(-1)  # in the wider dtype: halves would soon overflow
        pulled = _Pulled("attend", Pull(), grad.to(request.operand.dtype), request.operand)
        return Gradients(*_through_softmax(scores, norm, pulled, row_dot if subtract else None), none, row_dot)
    if isinstance(request, TransposedProduct):
        return _transposed_product(scores, request, norm, grad, subtract)
    kind, share, bins = _weight_gradient(scores, request, grad)
    share, unit = _normal(scores, share.float(), 10)
    pulled = _Pulled(kind, bins._replace(grad=share.contiguous(), unit=unit))
    row_dot = -share if kind == "logsumexp" else _row_dots(scores, norm, pulled)
    found = _through_softmax(scores, norm, pulled, row_dot if subtract else None)
    return Gradients(*found, none, row_dot if unit is None else row_dot * unit)


def _weight_gradient(scores: Scores, request: Request, grad: Tensor) -> tuple[str, Tensor, Pull]:
    """The kind of a request that is no product, what each weight of a key, row or bin receives, and the bins."""
    _, _, queries, keys = scores.shape
    if isinstance(request, Received):
        return "received", grad / queries if request.reduce == "mean" else grad, Pull()
    if isinstance(request, Pool):
        bins = _bins if capturing(grad) else _kept_bins  # what a graph computes has no numbers yet
        of_rows, heights = bins(queries, request.rows, grad.device)
        of_keys, widths = bins(keys, request.columns, grad.device)
        found = Pull(of_rows=of_rows, of_keys=of_keys, bin_rows=request.rows, bin_columns=request.columns)
        return "pool", grad / (heights[:, None] * widths), found
    return "entropy" if isinstance(request, Entropy) else "logsumexp", grad, Pull()


def _transposed_product(
    scores: Scores, request: TransposedProduct, norm: Normaliser, grad: Tensor, subtract: bool
) -> Gradients:
    dtype = scores.query.dtype
    (x, x_unit), (pull, pull_unit) = _normal(scores, request.operand, 0), _normal(scores, grad, 4)
    unit = None if x_unit is None or pull_unit is None else x_unit * pull_unit
    pulled = _Pulled("product", Pull(unit=unit), x.to(dtype), pull.to(dtype))
    d_x = _row_dots(scores, norm, pulled)
    row_dot = (x * d_x).sum(-1)
    d_query, d_key, _ = _through_softmax(scores, norm, pulled, row_dot if subtract else None)
    if unit is not None and pull_unit is not None:
        d_x, row_dot = d_x * pull_unit, row_dot * unit
    return Gradients(d_query, d_key, d_x, (None,) * len(scores.mask.biases), row_dot)


def _normal(scores: Scores, tensor: Tensor, exponent: int) -> tuple[Tensor, Tensor | None]:
    """For float16, which holds no small numbers: a tensor times a power of two, so that its largest number is about
    2 ** exponent; and by what results are to be multiplied. Any other dtype has range enough."""
    if scores.query.dtype != torch.float16:
        return tensor, None
    tensor = tensor.float()
    largest = tensor.abs().nan_to_num(0.0, 0.0).amax()  # NaN and inf stay with their own heads
    shift = (torch.frexp(largest).exponent - exponent).clamp(-100, 100)
    return torch.ldexp(tensor, -shift), torch.ldexp(tensor.new_ones(()), shift)


def _bins(tokens: int, bins: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """The bin of each token, and the tokens of each bin; bin n begins at n * tokens // bins."""
    own = (torch.arange(1, tokens + 1, device=device) * bins - 1) // tokens
    return own.int(), (torch.arange(bins + 1, device=device) * tokens // bins).diff()


_kept_bins = lru_cache(maxsize=64)(_bins)


# Launches


def _row_dots(scores: Scores, norm: Normaliser, pulled: _Pulled) -> Tensor:
    """Σ_j p dL/dp of each row; of a transposed product, weights @ grad."""
    from regard.backends.triton import gradient_kernels

    batch, heads, queries, _ = scores.shape
    block_m, block_n, options = tuning.blocks("rows" if pulled.right is None else "forward", scores, *pulled.widths)
    prepared = prepare(scores, block_m, block_n)
    v, v_layout = (prepared.k, None) if pulled.right is None else describe(pulled.right, block_n)
    found = norm.high.new_empty(batch, heads, queries, *pulled.widths)
    gradient_kernels.row_dots[prepared.grid(cdiv(queries, block_m), batch * heads)](
        prepared.q, prepared.k, v, norm, pulled.pull, found, prepared.keys_problem,
        prepared.layouts._replace(v=v_layout), FLAGS=prepared.along_keys(block_n, norm),
        KIND=pulled.kind, SPAN=pulled.span(queries, block_m),
        WIDTH=max(pulled.widths, default=1), PRECISION=prepared.precision, BLOCK_M=block_m, BLOCK_N=block_n,
        BLOCK_V=v.block_shape[1], **options,
    )  # fmt: skip
    return found


def _through_softmax(
    scores: Scores, norm: Normaliser, pulled: _Pulled, row_dot: Tensor | None
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Gradients of query, key and value, where each score receives weight × (dL/dp - row_dot of its row)."""
    from regard.backends.triton import gradient_kernels

    batch, heads, queries, keys = scores.shape
    query, key, left, right = scores.query, scores.key, pulled.left, pulled.right
    delta = torch.zeros_like(norm.high) if row_dot is None else row_dot.float().contiguous()
    values = right is not None and pulled.kind == "attend"
    d_query = torch.empty_like(query, memory_format=torch.contiguous_format)
    d_key = torch.empty_like(key, memory_format=torch.contiguous_format)
    d_value = torch.empty_like(right, memory_format=torch.contiguous_format) if right is not None and values else None

    block_m, block_n, options = tuning.blocks("grad_query", scores, *pulled.widths)
    prepared = prepare(scores, block_m, block_n)
    v, v_layout = (prepared.k, None) if right is None else describe(right, block_n)
    d_out, d_layout = (prepared.q, None) if left is None else describe(left, block_m)
    gradient_kernels.grad_query[prepared.grid(cdiv(queries, block_m), batch * heads)](
        prepared.q, prepared.k, v, d_out, norm, delta, pulled.pull, d_query, prepared.keys_problem,
        prepared.layouts._replace(v=v_layout, d_out=d_layout), scores.scale,
        FLAGS=prepared.along_keys(block_n, norm),
        KIND=pulled.kind, SPAN=pulled.span(queries, block_m), WIDTH=query.shape[-1],
        PRECISION=prepared.precision, BLOCK_M=block_m, BLOCK_N=block_n, BLOCK_D=prepared.q.block_shape[1], **options,
    )  # fmt: skip

    block_m, block_n, options = tuning.blocks("grad_key", scores, *pulled.widths)
    prepared = prepare(scores, block_m, block_n, interleave=False)
    v, v_layout = (prepared.k, None) if right is None else describe(right, block_n)
    d_out, d_layout = (prepared.q, None) if left is None else describe(left, block_m)
    gradient_kernels.grad_key[prepared.grid(cdiv(keys, block_n), batch * key.shape[1])](
        prepared.q, prepared.k, v, d_out, norm, delta, pulled.pull, d_key, d_value, prepared.queries_problem,
        prepared.layouts._replace(v=v_layout, d_out=d_layout), scores.scale,
        FLAGS=prepared.along_queries(block_m, norm),
        KIND=pulled.kind, SPAN=pulled.span(queries, block_m), GROUP=scores.group, WIDTH=query.shape[-1],
        WIDTH_V=max(pulled.widths, default=1), PRECISION=prepared.precision, BLOCK_M=block_m, BLOCK_N=block_n,
        BLOCK_D=prepared.q.block_shape[1], BLOCK_V=v.block_shape[1] if values else 1, **options,
    )  # fmt: skip
    return d_query, d_key, d_value
