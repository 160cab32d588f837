"""Attention as one opaque operator for `torch.compile`: a mask is passed as integers and tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from regard import backends
from regard.backends import Attend, Backward, Dropout
from regard.matrix.axes import Axes, fold_operand
from regard.scores import Band, Cut, Dense, Keep, Mask, Same, Scores, check_floats, make_scores


def attend(
    query: Tensor, key: Tensor, value: Tensor, mask: Mask, scale: float | None, softcap: float | None,
    sinks: Tensor | float | None, dropout: float,
) -> Tensor:  # fmt: skip
    """`attention` inside a compiled graph."""
    spec, tensors = _pack(mask)
    if value.dim() > 2 and value.shape[-3] == query.shape[-3] != key.shape[-3]:
        key = key.repeat_interleave(query.shape[-3] // key.shape[-3], -3)  # values per query head: a rare case
    seed = torch.randint(2**31, (), device="cpu") if dropout else torch.zeros((), dtype=torch.int64, device="cpu")
    if isinstance(sinks, float | int):
        sinks = query.new_full((), sinks, dtype=torch.promote_types(query.dtype, torch.float32))
    output: Tensor = _attend(query, key, value, sinks, tensors, seed, spec, scale, softcap, float(dropout))[0]
    return output


# Masks as whole numbers and tensors: each value is preceded by a number that says its type

_FIELDS: dict[type, tuple[str, ...]] = {
    Band: ("lowest", "highest", "offset"),
    Keep: ("keys",),
    Same: ("queries", "keys"),
    Dense: ("tensor",),
    Cut: ("queries", "keys", "heads", "band", "bias"),
}
_ATOMS = list(_FIELDS)  # their numbers are 0 to 4
_NONE, _INT, _FLOAT, _TENSOR, _RANGE, _TUPLE = range(5, 11)


def _pack(mask: Mask) -> tuple[list[int], list[Tensor]]:
    spec: list[int] = []
    tensors: list[Tensor] = []

    def pack(value: Any) -> None:
        if value is None:
            spec.append(_NONE)
        elif isinstance(value, Tensor):
            spec.append(_TENSOR)
            tensors.append(value)
        elif isinstance(value, float):  # as bits: a float tensor would be taken for a bias, which has a gradient
            spec.append(_FLOAT)
            tensors.append(torch.tensor(value, dtype=torch.float64, device="cpu").view(torch.int64))
        elif isinstance(value, range):
            spec.extend([_RANGE, value.start, value.stop])
        elif isinstance(value, tuple):
            spec.extend([_TUPLE, len(value)])
            for item in value:
                pack(item)
        elif type(value) in _FIELDS:
            spec.append(_ATOMS.index(type(value)))
            for name in _FIELDS[type(value)]:
                pack(getattr(value, name))
        else:
            spec.extend([_INT, value])

    pack(mask.atoms)
    return spec, tensors


def _unpack(spec: list[int], tensors: list[Tensor]) -> Mask:
    numbers, rest = iter(spec), iter(tensors)
    readers: dict[int, Callable[[], Any]] = {
        _NONE: lambda: None,
        _INT: lambda: next(numbers),
        _FLOAT: lambda: float(next(rest).view(torch.float64)),
        _TENSOR: lambda: next(rest),
        _RANGE: lambda: range(next(numbers), next(numbers)),
        _TUPLE: lambda: tuple([unpack() for _ in range(next(numbers))]),
    }

    def unpack() -> Any:
        kind = next(numbers)
        if kind in readers:
            return readers[kind]()
        return _ATOMS[kind](*[unpack() for _ in _FIELDS[_ATOMS[kind]]])

    return Mask(unpack())


_INPUTS = "Tensor query, Tensor key, Tensor value, Tensor? sinks, Tensor[] tensors, Tensor seed"
_SETTINGS = "int[] spec, float? scale, float? softcap, float dropout"


@torch.library.custom_op("regard::attend", mutates_args=(), schema=f"({_INPUTS}, {_SETTINGS}) -> (Tensor, Tensor)")
def _attend(
    query: Tensor, key: Tensor, value: Tensor, sinks: Tensor | None, tensors: list[Tensor], seed: Tensor,
    spec: list[int], scale: float | None, softcap: float | None, dropout: float,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    scores = make_scores(query, key, _unpack(spec, tensors), scale, softcap, sinks)
    output, lse = backends.compute(scores.detached(), _request(scores, query, value, dropout, seed))
    shape, dtype = query.shape[:-1], scores.working_dtype
    return output.reshape(*shape, value.shape[-1]).contiguous(), lse.to(dtype).reshape(shape).contiguous()


def _request(scores: Scores, query: Tensor, value: Tensor, dropout: float, seed: Tensor) -> Attend:
    axes = Axes(tuple(query.shape[:-3]), query.dim() > 2)
    check_floats(query=query, value=value)
    folded = fold_operand(axes, scores.shape, value, key_heads=scores.key.shape[1])
    return Attend(folded, Dropout.of(dropout, seed))


@_attend.register_fake
def _(query: Tensor, key: Tensor, value: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    output = query.new_empty(*query.shape[:-1], value.shape[-1])
    return output, query.new_empty(query.shape[:-1], dtype=torch.promote_types(query.dtype, torch.float32))


@torch.library.custom_op(
    "regard::attend_backward",
    mutates_args=(),
    schema=f"(Tensor back, Tensor output, Tensor lse, {_INPUTS}, {_SETTINGS}, bool biased) -> Tensor[]",
)
def _attend_backward(
    back: Tensor, output: Tensor, lse: Tensor, query: Tensor, key: Tensor, value: Tensor, sinks: Tensor | None,
    tensors: list[Tensor], seed: Tensor, spec: list[int], scale: float | None, softcap: float | None, dropout: float,
    biased: bool,
) -> list[Tensor]:  # fmt: skip
    """Gradients of (query, key, value, sinks, *float tensors of the mask), from what the forward kept."""
    scores = make_scores(query, key, _unpack(spec, tensors), scale, softcap, sinks).detached()
    rows, width = scores.query.shape[:3], value.shape[-1]
    request, result = _request(scores, query, value, dropout, seed), output.reshape(*rows, width)
    task = Backward(request, result, lse.reshape(rows), back.reshape(*rows, width), biases=biased)
    _, d_query, d_key, d_sinks, d_value, *d_biases = backends.gradients(scores, task)
    floats = [t for t in tensors if t.is_floating_point()]
    pairs = [(d_query, query), (d_key, key), (d_value, value), (d_sinks, sinks), *zip(d_biases, floats, strict=True)]
    batch = query.shape[:-3]
    return [
        torch.zeros_like(tensor) if grad is None else _spread_back(grad, batch, tensor)
        for grad, tensor in pairs
        if tensor is not None
    ]


def _spread_back(grad: Tensor, batch: torch.Size, tensor: Tensor) -> Tensor:
    """The gradient of a folded, possibly shared tensor in the user's shape."""
    if grad.shape[0] != 1 and tensor.dim() > 1:
        grad = grad.reshape(*batch, *grad.shape[1:])
    if grad.numel() == tensor.numel():
        return grad.reshape(tensor.shape).to(tensor.dtype).contiguous()
    return grad.sum_to_size(tensor.shape).to(tensor.dtype).contiguous()


@_attend_backward.register_fake
def _(
    back: Tensor, output: Tensor, lse: Tensor, query: Tensor, key: Tensor, value: Tensor, sinks: Tensor | None,
    tensors: list[Tensor], *_: Any,
) -> list[Tensor]:  # fmt: skip
    inputs = [query, key, value, *([] if sinks is None else [sinks]), *(t for t in tensors if t.is_floating_point())]
    return [torch.empty_like(t, memory_format=torch.contiguous_format) for t in inputs]


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    query, key, value, sinks, tensors, seed, *ctx.plain = inputs
    ctx.held = sinks is not None
    ctx.biased = any(t.is_floating_point() and t.requires_grad for t in tensors)
    ctx.save_for_backward(*output, query, key, value, *([sinks] if ctx.held else []), seed, *tensors)


def _back(ctx: Any, back: Tensor, _: Tensor) -> tuple[Any, ...]:
    output, lse, query, key, value, *rest = ctx.saved_tensors
    sinks = rest.pop(0) if ctx.held else None
    seed, *tensors = rest
    grads = iter(_attend_backward(back, output, lse, query, key, value, sinks, tensors, seed, *ctx.plain, ctx.biased))
    first = next(grads), next(grads), next(grads), next(grads) if ctx.held else None
    biases = [next(grads) if t.is_floating_point() else None for t in tensors]
    return *first, biases, None, None, None, None, None


_attend.register_autograd(_back, setup_context=_keep)
