"""The one place where a backend is chosen, and the few steps that are the same for all of them.

Backends are asked in order, the fastest first; tiles, the last, support everything. Sinks are added here: a sink is
one more key whose value is 0, so it only widens the normaliser.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from regard.backends import tiles, torch_cpu, torch_cuda, triton
from regard.backends.contract import (
    Attend,
    Backend,
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

__all__ = ["choose", "compute", "dense", "for_tiles", "forward", "logsumexp", "reduce", "shielded", "use"]

_ALL: tuple[Backend, ...] = (torch_cpu.backend, torch_cuda.backend, triton.backend, tiles.backend)
_allowed = _ALL


@contextlib.contextmanager
def use(*names: str) -> Iterator[None]:
    """Compute with these backends only, and with tiles whatever they do not support; for tests and benchmarks.

    "triton" also runs on a CPU then, where Triton's interpreter is on.

    >>> import torch, regard
    >>> with regard.backends.use("tiles"):
    ...     regard.AttentionMatrix(torch.zeros(2, 4), torch.zeros(2, 4)).entropy().exp().round()
    tensor([2., 2.])
    """
    global _allowed
    known = {backend.name: backend for backend in _ALL}
    if unknown := set(names) - set(known):
        raise InputError(f"backends are {', '.join(map(repr, known))}. Got {', '.join(map(repr, sorted(unknown)))}.")
    before = _allowed, triton.backend.interpret
    _allowed = tuple(backend for backend in _ALL if backend.name in (*names, "tiles"))
    triton.backend.interpret = "triton" in names
    try:
        yield
    finally:
        _allowed, triton.backend.interpret = before


def choose(
    scores: Scores, request: Request, *, gradient: bool = False, biases: bool = False, outer: bool = False
) -> Backend:
    """The first backend that supports this request; `outer`: the normaliser is that of more keys than these."""
    found = _supporting(scores, request, gradient, biases)
    return next(backend for backend in found if not (outer and backend is torch_cuda.backend))


def _supporting(scores: Scores, request: Request, gradient: bool = False, biases: bool = False) -> Iterator[Backend]:
    allowed = (tiles.backend,) if scores.mask.cuts else _allowed  # see pieces.py
    return (b for b in allowed if b.supports(scores, request, gradient=gradient, biases=biases))


def compute(
    scores: Scores, request: Request, lse: Float[Tensor, "batch heads queries"] | None = None, *, outer: bool = False
) -> tuple[Tensor, Tensor]:
    """(result, normaliser) of one request other than Top, without a graph, of a mask without cuts.

    Only `Attend` finds the normaliser on its way; all others need it. `outer`: it is that of more keys than these.
    """
    if isinstance(request, Attend):
        output, own = forward(scores, shielded(scores, request))
        if not outer:
            return output, own
        assert lse is not None
        return (output * share(own, lse)[..., None]).to(output.dtype), lse
    assert lse is not None
    if isinstance(request, LogSumExp):
        return lse.clone(), lse
    if isinstance(request, TransposedProduct):
        (result,) = reduce(scores, lse, [replace(request, rounded=True)])
        assert isinstance(result, Tensor)
        return result.to(request.x.dtype), lse
    (result,) = reduce(scores, lse, [request])
    assert isinstance(result, Tensor)
    return result, lse


def forward(scores: Scores, request: Attend) -> tuple[Tensor, Tensor]:
    """(weights @ value, logsumexp), sinks included."""
    for backend in _supporting(scores, request):
        try:
            output, lse = backend.forward(scores, request)
            break
        except Refused:
            continue
    if scores.sinks is None:
        return output, lse
    if triton.backend.rescale(output, lse, scores.sinks):
        return output, lse
    widened = with_sinks(scores, lse)
    return torch.mul(output, share(lse, widened)[..., None], out=output), widened


def shielded(scores: Scores, request: Attend) -> Attend:
    """The same product, with NaN and inf removed from values that no query sees."""
    return request if scores.unseen is None else replace(request, value=scores.shielded(request.value))


def logsumexp(scores: Scores) -> Float[Tensor, "batch heads queries"]:
    """The row normaliser, sinks included."""
    return with_sinks(scores, choose(scores, LogSumExp()).logsumexp(scores))


def reduce(scores: Scores, lse: Float[Tensor, "batch heads queries"], requests: Sequence[Reduction]) -> list[Result]:
    """Each reduction by the first backend that supports it, all of one backend in one call."""
    chosen = [choose(scores, request) for request in requests]
    results: dict[int, Result] = {}
    for backend in dict.fromkeys(chosen):
        places = [n for n, other in enumerate(chosen) if other is backend]
        own = for_tiles(scores, lse) if backend is tiles.backend else lse
        results |= zip(places, backend.reduce(scores, own, [requests[n] for n in places]), strict=True)
    return [results[n] for n in range(len(requests))]


def dense(scores: Scores, lse: Callable[[], Tensor]) -> Tensor | None:
    """The weights of a few rows as they are, from a kernel, which then asks for the normaliser; None without one."""
    return triton.backend.dense(scores, lse) if triton.backend in _allowed and not scores.mask.cuts else None


def for_tiles(scores: Scores, lse: Float[Tensor, "batch heads queries"]) -> Float[Tensor, "batch heads queries"]:
    """The normaliser that tiles need: their products are rounded differently from Triton's, and large ones differ."""
    if lse.dtype != torch.float64:
        return lse  # small enough that float32 holds it
    kernel = choose(scores, LogSumExp())
    if kernel is tiles.backend:
        return lse
    apart = tiles.backend.logsumexp(scores) - kernel.logsumexp(scores)
    return lse + apart.nan_to_num(0.0, 0.0, 0.0)
