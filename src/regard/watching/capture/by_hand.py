"""Attention that a module computes by hand: a softmax over the product of two activations.

`Products.see` receives the calls of torch that a module makes. It keeps a note, as long as the tensor lives, on each
product of two tensors of which neither is a weight, and on what is computed from it: scaled, masked, cut, joined. A
softmax of such a tensor is attention; that of a router or of a language model's head is taken of a product with a
weight. A sum of its exponentials, or the exponential of its log-softmax, is a softmax too. An operator that is named
as attention is one in a single step.
"""

from __future__ import annotations

import functools
import re
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

__all__ = ["SEEN", "Products", "role_of"]

# What functions of torch do, by name: torch.x, Tensor.x, functional.x and torch.ops.aten.x have the same.
_FUNCTIONS = {
    "product": "matmul __matmul__ __rmatmul__ mm bmm mv dot vdot vecdot inner einsum tensordot chain_matmul multi_dot "
    "cosine_similarity",
    "added product": "baddbmm baddbmm_ addbmm",
    "pairs": "mul mul_ multiply __mul__ __rmul__",
    "projection": "linear addmm conv1d conv2d conv3d",
    "softmax": "softmax _softmax _safe_softmax softmin gumbel_softmax",
    "log": "log_softmax _log_softmax logsumexp",
    "exp": "exp exp_ exp2 exp2_",
    "sum": "sum",
    "write": "__setitem__",
}
_ROLES = {name: role for role, names in _FUNCTIONS.items() for name in names.split()}
_MADE = ("product", "added product", "pairs")  # what is noted where nothing was before
SEEN = (*_MADE, "kernel")  # all that has to be seen then
_SCORES, _EXPONENTIALS, _LOGARITHMS, _WEIGHTS = range(1, 5)
_BECOMES = {
    ("softmax", _SCORES): _WEIGHTS,
    ("exp", _SCORES): _EXPONENTIALS,
    ("log", _SCORES): _LOGARITHMS,
    ("exp", _LOGARITHMS): _WEIGHTS,
}
_ATTENTION = {("softmax", _SCORES), ("exp", _LOGARITHMS), ("sum", _EXPONENTIALS)}


_OPERATORS = torch._ops.OpOverload | torch._ops.OpOverloadPacket | torch._ops.HigherOrderOperator


@functools.lru_cache(maxsize=4096)
def role_of(function: Any) -> str | None:
    """What a function of torch does, as far as attention is concerned.

    >>> import torch
    >>> role_of(torch.bmm), role_of(Tensor.softmax), role_of(torch.relu)
    ('product', 'softmax', None)
    """
    name = getattr(function, "__name__", "").partition(".")[0]
    if isinstance(function, _OPERATORS) and re.search("attention|attn", name):
        return "kernel"  # which cannot be looked into: nothing is known of it but its name
    return _ROLES.get(name.removeprefix("linalg_").removeprefix("special_"))


class _Note(NamedTuple):
    """What a tensor holds, and in whose forward the product was computed that it comes from."""

    tensor: weakref.ref[Tensor]
    holds: int
    module: nn.Module | None


class Products:
    """What the modules of one thread computed from products of activations, and from weights alone."""

    def __init__(self) -> None:
        self.follows: dict[int, _Note | weakref.ref[Tensor]] = {}  # by id of a tensor; a reference: from weights alone

    def see(
        self, role: str | None, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any,
        running: Callable[[], nn.Module | None],
    ) -> bool:  # fmt: skip
        """Note what a call gave; whether it was the softmax of an attention. `running`: finds the innermost module."""
        if role == "pairs" and not self.follows and not _is_outer(args, output):
            return False
        tensors = list(_tensors((*args, *kwargs.values())))
        noted = [note for tensor in tensors if isinstance(note := self.follows.get(id(tensor)), _Note)]
        if role == "pairs" and not noted and not _is_outer(args, output):
            role = None
        if role in _MADE:
            factors = tensors[1:] if role == "added product" else tensors
            if sum(not self._is_weight(factor) for factor in factors if factor.is_floating_point()) > 1:
                if all(note.holds == _SCORES for note in noted):
                    self._note(output, _SCORES, running())
                elif role == "pairs":
                    self._note(output, noted[0].holds, noted[0].module)
                return False
            role = None if role == "pairs" else "projection"
        if not noted:
            if role is None and tensors and all(map(self._is_weight, tensors)):
                for result in _tensors((output,)):
                    self.follows[id(result)] = self._reference(result)
            return False
        holds, module = max(note.holds for note in noted), noted[0].module
        # A product with weights has other numbers, but where heads are mixed: that stays within one module.
        if role != "projection" or running() is module:
            self._note(args[0] if role == "write" else output, _BECOMES.get((role or "", holds), holds), module)
        return (role, holds) in _ATTENTION

    def _note(self, output: Any, holds: int, module: nn.Module | None) -> None:
        for tensor in _tensors((output,)):
            if tensor.is_floating_point():
                self.follows[id(tensor)] = _Note(self._reference(tensor), holds, module)

    def _reference(self, tensor: Tensor) -> weakref.ref[Tensor]:
        """One that takes the note away when the tensor is gone."""
        return weakref.ref(tensor, functools.partial(_forget, self.follows, id(tensor)))

    def _is_weight(self, tensor: Tensor) -> bool:
        """Whether it is a parameter, a view of one, or computed from parameters alone, as in another dtype."""
        known = isinstance(self.follows.get(id(tensor)), weakref.ref)
        return known or isinstance(tensor, nn.Parameter) or isinstance(tensor._base, nn.Parameter)


def _forget(notes: dict[int, Any], key: int, _: object) -> None:
    notes.pop(key, None)


def _tensors(values: Iterable[Any]) -> Iterator[Tensor]:
    """Those among some arguments or results, and in the lists among them."""
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from (item for item in value if isinstance(item, Tensor))


def _is_outer(factors: tuple[Any, ...], product: Any) -> bool:
    """Whether numbers were multiplied pair by pair, as queries and keys are where their product is summed by hand."""
    sizes = [factor.numel() if isinstance(factor, Tensor) else 1 for factor in factors]
    return isinstance(product, Tensor) and product.numel() > max(sizes, default=1)
