"""`knock_out`: what changes in the output of a model when some of its heads are removed."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from regard.errors import InputError
from regard.support import Float
from regard.watching.session import watch

__all__ = ["Effect", "knock_out"]


@dataclass(frozen=True, eq=False)
class Effect:
    """A model's output with all heads and without some: logits, or hidden states where it has none."""

    before: Float[Tensor, "batch tokens width"]
    after: Float[Tensor, "batch tokens width"]
    logits: bool

    @property
    def difference(self) -> float:
        """The largest change of any number."""
        return float((self.after - self.before).abs().max())

    @property
    def divergence(self) -> Float[Tensor, "batch tokens"]:
        """How far the predictions moved at each token: Σ p log(p / p'), in nats."""
        if not self.logits:
            raise InputError("only a model that predicts tokens has a divergence. Use .difference.")
        before, after = self.before.float().log_softmax(-1), self.after.float().log_softmax(-1)
        return (before.exp() * (before - after)).sum(-1)

    def moved(self, position: int = -1, sequence: int = 0, k: int = 5) -> list[tuple[int, float, float]]:
        """(token id, probability before, after) of the tokens that changed most at one position."""
        if not self.logits:
            raise InputError("only a model that predicts tokens has probabilities. Use .difference.")
        before, after = (x[sequence, position].float().softmax(-1) for x in (self.before, self.after))
        ids = (after - before).abs().topk(k).indices
        return [(int(n), float(before[n]), float(after[n])) for n in ids]

    def __str__(self) -> str:
        more = f", predictions by {float(self.divergence.mean()):.3g} nats a token" if self.logits else ""
        return f"the output changed by {self.difference:.3g} at most{more}"


def knock_out(model: nn.Module, without: Mapping[str, Collection[int]], *args: Any, **kwargs: Any) -> Effect:
    """Run the model as it is, then with the output of these heads set to zero.

    >>> import torch, regard
    >>> class Layer(torch.nn.Module):
    ...     heads, kind, attend = 1, "encoder", staticmethod(regard.attention)
    ...     def forward(self, x):
    ...         return self.attend(x, x, x)[:, 0]
    >>> print(knock_out(Layer(), {"": [0]}, torch.ones(1, 1, 3, 4)))
    the output changed by 1 at most
    """
    with torch.no_grad():
        before, logits = _output(model(*args, **kwargs))
        with watch(model, keep="entropy", without=without):
            after, _ = _output(model(*args, **kwargs))
    return Effect(before, after, logits)


def _output(output: Any) -> tuple[Tensor, bool]:
    """Logits or hidden states, and whether they are logits."""
    if isinstance(output, Tensor):
        return output, False
    for name in ("logits", "last_hidden_state"):
        if isinstance(tensor := getattr(output, name, None), Tensor):
            return tensor, name == "logits"
    raise InputError(f"knock_out reads logits or last_hidden_state of an output. Got {type(output).__name__}.")
