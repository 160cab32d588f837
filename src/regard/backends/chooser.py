"""The one place where a backend is chosen, and the few steps that are the same for all of them.

The chooser compares a problem with the capabilities of the backends, the fastest first, and takes the first backend
that computes it; tiles, the last, compute everything.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

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
    share,
    with_sinks,
)
from regard.errors import InputError
from regard.scores import Scores
from regard.support import Float

__all__ = ["backward", "choose", "compute", "dense", "forward", "logsumexp", "reduce", "shielded", "supports", "use"]

_NAMED: dict[str, Backend] = {
    backend.name: backend for backend in (torch_cpu.backend, torch_cuda.backend, triton.backend, tiles.backend)
}
_ORDER: tuple[Backend, ...] = (torch_cpu.backend, torch_cuda.backend, triton.backend, cuts.backend, tiles.backend)
_allowed, _names = _ORDER, frozenset[str]()


@contextlib.contextmanager
def use(*names: str) -> Iterator[None]:
    """Compute with these backends only, and with tiles whatever they do not support; for tests and benchmarks.

    "triton" also runs on a CPU then, where Triton's interpreter is on.

    >>> import torch, regard
    >>> with regard.backends.use("tiles"):
    ...     regard.AttentionMatrix(torch.zeros(2, 4), torch.zeros(2, 4)).entropy().exp().round()
    tensor([2., 2.])
    """
    global _allowed, _names
    if unknown := set(names) - set(_NAMED):
        raise InputError(f"backends are {', '.join(map(repr, _NAMED))}. Got {', '.join(map(repr, sorted(unknown)))}.")
    before = _allowed, _names
    _names = frozenset(names)
    _allowed = tuple([backend for backend in _ORDER if backend.name in (*names, cuts.backend.name, tiles.backend.name)])
    try:
        yield
    finally:
        _allowed, _names = before


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
        named = can.named_dtypes.get(device, ()) if backend.name in _names else ()
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


def compute(
    scores: Scores, request: Request, lse: Float[Tensor, "batch heads queries"] | None = None, *, outer: bool = False
) -> tuple[Tensor, Tensor]:
    """(result, normaliser) of one request other than Top, without a graph.

    Args:
        scores: the problem.
        request: the result to compute.
        lse: the normaliser. Only `Attend` computes it on the way; all other requests need it.
        outer: the normaliser is that of more keys than these.
    """
    if isinstance(request, Attend):
        output, own_lse = forward(scores, shielded(scores, request))
        if not outer:
            return output, own_lse
        assert lse is not None
        return (output * share(own_lse, lse)[..., None]).to(output.dtype), lse
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
    backends = [choose(scores, request) for request in requests]
    results: dict[int, Result] = {}
    for backend in dict.fromkeys(backends):
        places = [n for n, chosen in enumerate(backends) if chosen is backend]
        found = backend.reduce(scores, _lse_for(backend, scores, lse), [requests[n] for n in places])
        results |= zip(places, found, strict=True)
    return [results[n] for n in range(len(requests))]


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
    maker = choose(scores, LogSumExp())
    if maker.summed_by(scores) == backend.summed_by(scores):
        return lse
    return lse + (backend.logsumexp(scores) - maker.logsumexp(scores)).nan_to_num(0.0, 0.0, 0.0)
