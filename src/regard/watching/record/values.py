"""What goes with the weights where it was asked for: values, output projections and gradients, and what they tell.

A weight says how much of a value is taken, not how much there is of it. ‖weight × value × projection‖ does (Kobayashi
et al. 2020), and it needs one number for each key: the length of its projected value. The gradient of a result with
respect to a weight is a product of two vectors, so that gradient × attention needs no queries × keys numbers either.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from regard.errors import InputError, WatchError
from regard.matrix import AttentionMatrix
from regard.matrix.views import basic
from regard.nn import SelfAttention
from regard.scores import Positions
from regard.support import Float
from regard.watching.capture.masks import pick_on

__all__ = ["Attribution", "KeptValues", "Projections", "Values"]

_NAMES = ("output", "out_proj")  # of the output projection, in our layers and in torch's
_WEIGHTS = 1 << 25  # computed at once


@dataclass(frozen=True, eq=False)
class Values:
    """The values of a module over a whole text, and what else is known of them."""

    value: Float[Tensor, "batch key_heads keys width"]
    projection: Float[Tensor, "heads width out"] | None = None  # one matrix for each head; None: it is not known
    gradient: Float[Tensor, "batch heads queries width"] | None = None  # of what was differentiated, by the output

    def text(self, sequence: int, queries: Positions, keys: Positions) -> Values:
        """Those of these tokens of one text of a batch."""
        one = slice(sequence, sequence + 1)
        gradient = None if self.gradient is None else pick_on(self.gradient[one], 2, queries)
        return Values(pick_on(self.value[one], 2, keys), self.projection, gradient)

    def norms(self, heads: int) -> Float[Tensor, "batch heads keys"]:
        """The length of each value after its head's projection.

        >>> Values(torch.tensor([[[[3.0, 4.0]]]]), torch.eye(2)[None] * 2).norms(heads=1)
        tensor([[[10.]]])
        """
        value = self.value.float()
        group = heads // value.shape[1]
        if self.projection is None:
            raise WatchError(
                "the output projection was not recognised: what a value becomes after it is not known. It is found in "
                "models of transformers whose attention output goes straight into a linear layer, in regard's layers "
                "and in torch's."
            )
        # ‖v W‖² = v (W Wᵀ) vᵀ: a small matrix for each head, and no projected values.
        wide = self.projection.to(value)
        squares = wide @ wide.mT
        found = [((value @ squares[member::group]) * value).sum(-1) for member in range(group)]
        return torch.stack(found, 2).flatten(1, 2).clamp_min(0.0).sqrt()


class KeptValues:
    """The values of one module while it is called, step by step."""

    def __init__(self, projection: Callable[[int, int], Tensor | None]):
        self._projection = projection
        self._value: Tensor | None = None
        self._gradient: Tensor | None = None

    def take(self, value: Tensor) -> None:
        """Those of a call: a cache has all values of the text so far."""
        self._value = value.detach()

    def differentiate(self, output: Tensor) -> None:
        """Note the gradient of an output (batch, heads, queries, width) when there is one; several are added up."""
        if output.requires_grad:
            output.register_hook(self._add)  # type: ignore[no-untyped-call]

    def _add(self, gradient: Tensor) -> None:
        self._gradient = gradient.detach() if self._gradient is None else self._gradient + gradient.detach()

    def settle(self) -> None:
        """A cache may be written over from here on."""
        self._value = None if self._value is None else self._value.clone()

    def of(self, name: str, shape: tuple[int, int, int, int]) -> Values:
        """What is there for a matrix (batch, heads, queries, keys)."""
        _, heads, queries, keys = shape
        if self._value is None or self._value.shape[2] < keys:
            raise WatchError(f"{name}: its cache dropped values, so those of the whole text are not there.")
        value, gradient = self._value[:, :, :keys], self._gradient
        if gradient is not None and gradient.shape[2] != queries:
            gradient = None  # of a single step
        return Values(value, self._projection(heads, value.shape[-1]), gradient)


class Projections:
    """Finds the module that gets the output of each attention: its output projection.

    Those of transformers have many names and places. What they have in common is their input: the very memory that the
    attention function returned.
    """

    def __init__(self, modules: dict[str, nn.Module]):
        self._modules = modules
        self._found: dict[str, nn.Module] = {}
        self._last: tuple[str, Tensor] | None = None

    def hooks(self) -> Iterator[tuple[nn.Module, Callable[..., None]]]:
        """What runs before each module that may be a projection."""
        for module in self._modules.values():
            weight = vars(module).get("_parameters", {}).get("weight")
            if isinstance(weight, Tensor) and weight.dim() == 2 and not isinstance(module, nn.Embedding):
                yield module, self._before

    def returned(self, name: str, output: Tensor) -> None:
        """What the attention of a module gave to its code."""
        self._last = name, output

    def _before(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        if self._last is None or not args or not isinstance(args[0], Tensor):
            return
        name, output = self._last
        if args[0].data_ptr() == output.data_ptr() and args[0].numel() == output.numel():
            self._found[name], self._last = module, None

    def of(self, name: str, heads: int, width: int) -> Tensor | None:
        """The output projection of a module as one matrix (width, out) for each head, if it is known."""
        own, found = self._modules[name], self._found.get(name)
        if isinstance(own, SelfAttention):  # its output is that of its head
            return torch.eye(width)[None]
        for attribute in () if found is not None else _NAMES:
            if isinstance(candidate := getattr(own, attribute, None), nn.Linear):
                found = candidate
        if found is None:
            return None
        weight: Tensor = found.weight.detach()  # type: ignore[assignment, operator]
        rows = weight.mT if isinstance(found, nn.Linear) else weight  # transformers' Conv1D has (in, out)
        fits = rows.is_floating_point() and rows.shape[0] == heads * width
        return rows.reshape(heads, width, -1) if fits else None


class Attribution:
    """Gradient × attention: each weight times the derivative by it of what was differentiated, as lazy as the matrix.

    `[…]` takes what `A.part[…]` takes. `received` and `given` are the sums of its columns and rows: what a key
    contributed by being looked at, and what a query did by looking.
    """

    def __init__(self, matrix: AttentionMatrix, value: Tensor, gradient: Tensor):
        self._matrix = matrix
        heads = matrix.shape[1]
        self._value = value.repeat_interleave(heads // value.shape[1], 1).to(matrix.dtype)
        self._gradient = gradient.to(matrix.dtype)

    @property
    def shape(self) -> torch.Size:
        """(batch, heads, queries, keys)."""
        return self._matrix.shape

    def __repr__(self) -> str:
        return f"Attribution(gradient × {self._matrix!r})"

    def __getitem__(self, index: Any) -> Tensor:
        axes = basic(index, tuple(self.shape))
        if axes is None or any(isinstance(axis, Tensor) for axis in axes):
            raise InputError("gradient × attention takes ints, slices and ... as indices.")
        spans = [range(axis, axis + 1) if isinstance(axis, int) else axis for axis in axes]
        batch, heads, rows, columns = (slice(s.start, s.stop, s.step) for s in spans if isinstance(s, range))
        slopes = self._gradient[batch, heads, rows] @ self._value[batch, heads, columns].mT
        found = self._matrix[batch, heads, rows, columns] * slopes
        for axis, chosen in reversed(list(enumerate(axes))):
            found = found.squeeze(axis) if isinstance(chosen, int) else found
        return found

    def received(self) -> Float[Tensor, "batch heads keys"]:
        """The sum over all queries."""
        return ((self._matrix.mT @ self._gradient) * self._value).sum(-1)

    def given(self) -> Float[Tensor, "batch heads queries"]:
        """The sum over all keys."""
        return ((self._matrix @ self._value) * self._gradient).sum(-1)

    def back(self, flow: Float[Tensor, " queries"]) -> Float[Tensor, " keys"]:
        """Where a flow over the queries goes by what is positive, the mean over heads: a block of rows at a time."""
        _, heads, queries, keys = self.shape
        total = torch.zeros(keys, device=self._matrix.device)
        flow = flow.to(total.device)
        size = max(_WEIGHTS // (heads * keys), 1)
        for start in range(0, queries, size):
            rows = slice(start, min(start + size, queries))
            if bool((flow[rows] != 0).any()):
                total += torch.einsum("hqk,q->k", self[0, :, rows].float().clamp_min(0.0), flow[rows])
        return total.cpu() / heads
