"""The one place where a backend is chosen, and the steps that are the same for all backends.

The chooser compares a problem with the capabilities of the backends, the fastest first, and takes the first backend
that computes it; tiles, the last, compute everything. `compute` and `reduce` return data; `differentiable` returns the
same results with a graph.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from regard.backends import cuts, tiles, torch_cpu, torch_cuda, triton
from regard.backends.contract import (
    Attend,
    Backend,
    Backward,
    Dense,
    Gradients,
    LogSumExp,
    Reduction,
    Refused,
    Request,
    Result,
    TransposedProduct,
    trusted,
    with_operand,
    with_sinks,
)
from regard.errors import InputError
from regard.scores import Scores, share
from regard.support import Float, inside_func

_ORDER: tuple[Backend, ...] = (torch_cpu.backend, torch_cuda.backend, triton.backend, cuts.backend, tiles.backend)
_NAMES = ("torch_cpu", "torch_cuda", "triton", "tiles")  # that `use` takes
_allowed, _named = _ORDER, frozenset[str]()


@contextlib.contextmanager
def use(*names: str) -> Iterator[None]:
    """Compute with these backends only, and with tiles whatever they do not support; for tests and benchmarks.

    "triton" also runs on a CPU then, where Triton's interpreter is on.

    >>> import torch, regard
    >>> with regard.backends.use("tiles"):
    ...     regard.AttentionMatrix(torch.zeros(2, 4), torch.zeros(2, 4)).entropy().exp().round()
    tensor([2., 2.])
    """
    global _allowed, _named
    if unknown := set(names) - set(_NAMES):
        raise InputError(f"backends are {', '.join(map(repr, _NAMES))}. Got {', '.join(map(repr, sorted(unknown)))}.")
    before = _allowed, _named
    _named = frozenset(names)
    _allowed = tuple([backend for backend in _ORDER if backend.can.always or backend.name in names])
    try:
        yield
    finally:
        _allowed, _named = before


# The choice


def supports(
    backend: Backend,
    scores: Scores,
    request: Request | Dense,
    *,
    gradient: bool = False,
    biases: bool = False,
    outer: bool = False,
) -> bool:
    """Whether a backend computes a request for these scores.

    Args:
        backend: the backend.
        scores: the problem.
        request: the result to compute.
        gradient: its gradient is computed, not its result.
        biases: the gradient includes the biases of the mask.
        outer: in the gradient, the normaliser is that of more keys than these.
    """
    can = backend.can
    if type(request) not in (can.gradients if gradient else can.requests):
        return False
    if can.dtypes is not None:
        device, dtype = scores.query.device.type, scores.query.dtype
        named = can.named_dtypes.get(device, ()) if backend.name in _named else ()
        if dtype not in can.dtypes.get(device, ()) and dtype not in named:
            return False
    if (request.dropout is not None and not can.dropout) or (scores.softcap is not None and not can.softcap):
        return False
    if (biases and not can.bias_gradients) or (outer and not can.outer_gradients):
        return False
    if not can.empty and 0 in scores.shape:
        return False
    return can.mask_parts.issuperset(scores.mask.parts) and backend.accepts(scores, request, gradient)


def choose(
    scores: Scores, request: Request, *, gradient: bool = False, biases: bool = False, outer: bool = False
) -> Backend:
    """The first backend that supports this request; arguments as in `supports`."""
    options = {"gradient": gradient, "biases": biases, "outer": outer}
    return next(backend for backend in _allowed if supports(backend, scores, request, **options))


# Results as data


def compute(
    scores: Scores, request: Request, lse: Float[Tensor, "batch heads queries"] | None = None, *, outer: bool = False
) -> tuple[Tensor, Tensor]:
    """(result, normaliser) of one request other than Top, without a graph.

    Args:
        scores: the problem.
        request: the result to compute.
        lse: the normaliser. Only `Attend` computes it; all other requests need it.
        outer: the normaliser is that of more keys than these.
    """
    if isinstance(request, Attend):
        output, row_lse = forward(scores, shielded(scores, request))
        if not outer:
            return output, row_lse
        assert lse is not None
        return (output * share(row_lse, lse)[..., None]).to(output.dtype), lse
    assert lse is not None
    if isinstance(request, LogSumExp):
        return lse.clone(), lse
    rounded = replace(request, rounded=True) if isinstance(request, TransposedProduct) else request
    (result,) = reduce(scores, lse, [rounded])
    assert isinstance(result, Tensor)
    return result if request.operand is None else result.to(request.operand.dtype), lse


def forward(scores: Scores, request: Attend) -> tuple[Tensor, Tensor]:
    """(weights @ operand, logsumexp), sinks included: by the first backend that supports it and does not refuse."""
    for backend in _allowed:
        if supports(backend, scores, request):
            with contextlib.suppress(Refused):
                output, lse = backend.forward(scores, request)
                return (output, lse) if scores.sinks is None else backend.add_sinks(output, lse, scores.sinks)
    raise AssertionError("tiles compute every product")


def shielded(scores: Scores, request: Attend) -> Attend:
    """The same product, with NaN and inf removed from values that no query sees."""
    return request if scores.unseen is None else replace(request, operand=scores.shielded(request.operand))


def logsumexp(scores: Scores) -> Float[Tensor, "batch heads queries"]:
    """The row normaliser, sinks included."""
    return with_sinks(scores, choose(scores, LogSumExp()).logsumexp(scores))


def reduce(scores: Scores, lse: Float[Tensor, "batch heads queries"], requests: Sequence[Reduction]) -> list[Result]:
    """The results in the order of the requests; each backend computes its requests in one call."""
    chosen: dict[Backend, list[Reduction]] = {}
    for request in requests:
        chosen.setdefault(choose(scores, request), []).append(request)
    results: dict[Reduction, Result] = {}
    for backend, group in chosen.items():
        results |= zip(group, backend.reduce(scores, _lse_for(backend, scores, lse), group), strict=True)
    return [results[request] for request in requests]


def dense(scores: Scores, lse: Callable[[], Tensor]) -> Tensor | None:
    """The weights of a few rows from a kernel, which then needs the normaliser; None where no kernel computes them."""
    backend = next((backend for backend in _allowed if supports(backend, scores, Dense())), None)
    return None if backend is None else backend.dense(scores, lse())


def backward(scores: Scores, task: Backward, backend: Backend | None = None) -> Gradients:
    """The gradients of the inputs, by this backend or else by the first that supports them."""
    if backend is None:
        backend = choose(scores, task.request, gradient=True, biases=task.biases, outer=not task.subtract)
    return backend.backward(scores, replace(task, lse=_lse_for(backend, scores, task.lse)))


def _lse_for(
    backend: Backend, scores: Scores, lse: Float[Tensor, "batch heads queries"]
) -> Float[Tensor, "batch heads queries"]:
    """The normaliser for a backend that did not compute it: its products are rounded differently.

    That matters where products are large. A float32 normaliser is small enough to hold for all backends.
    """
    if lse.dtype != torch.float64 or LogSumExp not in backend.can.requests:
        return lse
    first = choose(scores, LogSumExp())
    if first.sources(scores) == backend.sources(scores):
        return lse
    return lse + (backend.logsumexp(scores) - first.logsumexp(scores)).nan_to_num(0.0, 0.0, 0.0)


# Results with a graph: functions of (query, key, sinks, biases, operand) with the full softmax Jacobian. The cached
# normaliser is only data here, so caching never changes a gradient. A part of the matrix that leaves out keys keeps the
# normaliser of all keys: the normaliser is then a separate input (`outer`), which receives -Σ_j p dL/dp.


def differentiable(
    request: Request, scores: Scores, lse: Tensor | None = None, outer: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Return (result, with a graph; the normaliser, as data).

    Args:
        request: the result to compute, not `Top`.
        scores: the problem, with a graph.
        lse: the normaliser as data; only `Attend` computes it.
        outer: the normaliser of more keys than these, with a graph.
    """
    if inside_func():
        raise InputError(
            "an AttentionMatrix has no derivative inside torch.func (grad, vmap, …). Use regard.attention there, or "
            "torch.autograd.grad and a batch axis instead."
        )
    sinks = scores.sinks if outer is None else None
    tensors = (outer, scores.query, scores.key, sinks, request.operand, *scores.mask.biases)
    result, lse = _Differentiable.apply(request, scores, lse, *tensors)  # type: ignore[no-untyped-call]
    return result, lse


class _Differentiable(torch.autograd.Function):
    @staticmethod
    def forward(  # type: ignore[override]
        ctx: Any, request: Request, scores: Scores, lse: Tensor | None, outer: Tensor | None, *tensors: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        data = scores.detached()
        ctx.scores, ctx.outer = data, outer is not None
        if outer is not None:
            data, lse = replace(data, sinks=None), outer.detach()
        operand = tensors[3]
        request = with_operand(request, None if operand is None else operand.detach())
        result, lse = compute(data, request, lse, outer=outer is not None)
        # The operand is saved below, not here.
        ctx.request = with_operand(request, None if operand is None else operand.new_empty(0, 0, 0, 0))
        ctx.save_for_backward(lse, result, *tensors)
        ctx.mark_non_differentiable(lse)
        ctx.set_materialize_grads(False)
        return result, lse

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None, _: Tensor | None) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():  # create_graph=True: the results below would silently count as constants
            raise InputError(
                "regard's gradients are of first order: create_graph=True cannot go through them. "
                "For a second derivative write this step in plain torch: softmax(query @ key.mT * scale) @ value."
            )
        needed = ctx.needs_input_grad
        if grad is None:
            return (None,) * len(needed)
        lse, result, query, key, sinks, operand, *biases = ctx.saved_tensors  # raises if one was modified in place
        task = Backward(with_operand(ctx.request, operand), result, lse, grad, not ctx.outer, any(needed[8:]))
        inputs = (lse, query, key, sinks, operand, *biases)
        pairs = zip(gradients(ctx.scores, task), inputs, strict=True)
        cast = [None if gradient is None or t is None else gradient.to(t.dtype) for gradient, t in pairs]
        return None, None, None, *(g if need else None for g, need in zip(cast, needed[3:], strict=True))


def gradients(scores: Scores, task: Backward) -> list[Tensor | None]:
    """Gradients of (outer, query, key, sinks, operand, *biases); sinks inside an outer normaliser have none."""
    request, outer = task.request, not task.subtract
    backend = choose(scores, request, gradient=True, biases=task.biases, outer=outer)
    if isinstance(request, Attend):
        task = replace(task, request=shielded(scores, request))
        float32 = scores.query.dtype == torch.float32 and not backend.can.uses_forward_lse
        if float32 and not outer and not trusted(task.lse, scores.query.dtype):
            task = replace(task, lse=logsumexp(scores))  # that of the forward pass has too few digits
    scores, lse = scores.seeing(task.lse), task.lse
    if outer:
        scores = replace(scores, sinks=None)
    d_query, d_key, d_operand, d_biases, row_dot = backward(scores, task, backend)
    if row_dot is None and (outer or scores.sinks is not None):
        row_dot = (task.grad.to(lse.dtype) * task.result).sum(-1)  # in the wider dtype: halves would overflow
    d_outer = -row_dot if outer and row_dot is not None else None
    d_sinks = None
    if scores.sinks is not None and row_dot is not None:  # a sink has a weight, and its value is 0
        d_sinks = -(share(scores.sinks.to(lse.dtype)[..., None], lse) * row_dot).sum(-1)
    return [d_outer, d_query, d_key, d_sinks, d_operand, *(d_biases or [None] * len(scores.mask.biases))]
