"""`Loops`: how often each target has just said the same few tokens, and which token would be once too often."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.support import Bool, Float, Int

__all__ = ["LONGEST", "Loops"]

LONGEST = 8  # tokens of what may come again and again


class Loops:
    """A guard for a search: it forbids a token that would say the same 1 to 8 tokens once more than `repeats` times.

    For each length n it counts how many of the last tokens equal the one n before them: 3 n of them are the same n
    tokens four times. Where the source itself repeats more often, as in 10,000,000, the target may too.

    >>> source = torch.tensor([[5, 6, 7]])
    >>> loops, logits = Loops(source, source > 0, beam=1, repeats=3), torch.zeros(1, 10)
    >>> said = torch.tensor([[9]])
    >>> for token in (4, 4, 4):
    ...     said = torch.cat([said, torch.tensor([[token]])], 1)
    ...     loops.follow(said, torch.tensor([0]))
    >>> loops.forbid(logits, said)
    >>> logits[0, 4]
    tensor(-inf)
    """

    def __init__(
        self, source: Int[Tensor, "batch tokens"], visible: Bool[Tensor, "batch tokens"], beam: int, repeats: int
    ):
        device = source.device
        self._lags = torch.arange(1, LONGEST + 1, device=device)
        own = [_longest(source, visible, lag) for lag in range(1, LONGEST + 1)]
        allowed = torch.maximum(torch.stack(own, 1), repeats * self._lags - 1)
        self._allowed = allowed.repeat_interleave(beam, 0)
        self._equal = torch.zeros_like(self._allowed)  # for each target and n: tokens in a row that equal the n-th last

    def forbid(self, logits: Float[Tensor, "rows vocabulary"], tokens: Int[Tensor, "rows said"]) -> None:
        """Set the logit of a token that would be once too often to -inf."""
        row, lag = (self._equal >= self._allowed).nonzero(as_tuple=True)
        if len(row):
            logits[row, tokens[row, -1 - lag]] = -torch.inf

    def follow(self, tokens: Int[Tensor, "rows said"], rows: Int[Tensor, " rows"]) -> None:
        """Go on with these targets (the last of `tokens` is new), which continue those `rows` of before."""
        said = tokens[:, 1:]  # the start is nothing that was said
        before = said[:, :-1][:, -LONGEST:].flip(1)
        same = torch.zeros_like(self._equal[rows], dtype=torch.bool)
        same[:, : before.shape[1]] = before == said[:, -1:]
        self._equal = torch.where(same, self._equal[rows] + 1, 0)
        self._allowed = self._allowed[rows]


def _longest(source: Tensor, visible: Tensor, lag: int) -> Tensor:
    """The most tokens in a row that equal the one `lag` before them."""
    if source.shape[1] <= lag:
        return source.new_zeros(len(source))
    same = (source[:, lag:] == source[:, :-lag]) & visible[:, lag:]
    count = same.cumsum(1)
    since = torch.where(same, 0, count).cummax(1).values  # the count at the last difference
    return (count - since).amax(1)
