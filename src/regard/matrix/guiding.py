"""`guide`: a loss that teaches a head where to look."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from regard.errors import InputError
from regard.matrix.attention_matrix import AttentionMatrix
from regard.matrix.axes import coordinates
from regard.support import WHOLE, Float, no_compile


@no_compile
def guide(A: AttentionMatrix, links: Tensor) -> Float[Tensor, ""]:
    """Compute the mean, over the linked rows, of -log of the weight that a row puts on the keys linked to it.

    Added to the loss of a training, it teaches a head where to look. The gradient is streamed: O(tokens) memory.

    Args:
        A: the matrix; choose a head with `A.part[:, head]`. It must be part of the autograd graph to train anything.
        links: one link in each row, as an index into A: (row, key) for one matrix, (batch, row, key) for a batch, with
            the head after the batch where A has an axis of heads. Several keys of one row share its weight. Or bools
            that broadcast to the shape of A, True at each link. Without a link the loss is 0.

    >>> import torch, regard
    >>> query, key = torch.randn(7, 16, requires_grad=True), torch.randn(7, 16)
    >>> A = regard.AttentionMatrix(query, key, mask=regard.causal())
    >>> links = torch.tensor([[4, 1], [4, 2], [6, 0]])         # 4 looks at 1 and 2, 6 looks at 0
    >>> loss = regard.guide(A, links)
    >>> torch.allclose(loss, -(A[4, 1] + A[4, 2]).log() / 2 - A[6, 0].log() / 2)
    True
    """
    if not isinstance(A, AttentionMatrix):
        hint = " Use its .matrix." if hasattr(A, "matrix") else ""
        raise InputError(f"guide needs an AttentionMatrix. Got {type(A).__name__}.{hint}")
    *leading, row, key = _indices(A, links)
    if not len(key):
        return torch.zeros((), dtype=A._core.scores.working_dtype, device=A.device)
    # Only the linked rows are computed, each normalised over all its keys.
    rows, row = torch.unique(row, return_inverse=True)
    part = A._part([*map(range, A.shape[:-2]), rows, range(A.shape[-1])])
    of_link, group = torch.unique(torch.stack([*leading, row]), dim=1, return_inverse=True)
    score = part._core.scores.points("masked", part._places([*leading, row, key]))
    peak = score.new_full((of_link.shape[1],), -math.inf).scatter_reduce(0, group, score.detach(), "amax")
    hidden = (peak == -math.inf).nonzero()
    if len(hidden):
        *first, at = of_link[:, hidden[0, 0]].tolist()
        raise InputError(
            f"a linked row must see at least one of its linked keys. The mask {A._mask!r} hides all those of row "
            f"{(*first, int(rows[at]))}. Leave out the links of this row."
        )
    # In logarithms from end to end, so that a weight too small for its dtype still has a gradient.
    on_links = peak + torch.zeros_like(peak).index_add(0, group, (score - peak[group]).exp()).log()
    return (part.logsumexp[tuple(of_link)] - on_links).mean()


def _indices(A: AttentionMatrix, links: Tensor) -> tuple[Tensor, ...]:
    """One vector of positions for each axis of A, each link once."""
    shape = tuple(A.shape)
    if isinstance(links, Tensor) and links.dtype == torch.bool:
        try:
            return links.to(A.device).expand(shape).nonzero(as_tuple=True)
        except RuntimeError:
            raise InputError(f"links must broadcast to the shape of A, {shape}. Got {tuple(links.shape)}.") from None
    if not isinstance(links, Tensor) or links.dtype not in WHOLE or links.dim() != 2 or links.shape[1] != len(shape):
        got = f"{tuple(links.shape)} of {links.dtype}" if isinstance(links, Tensor) else type(links).__name__
        raise InputError(
            f"links must be whole numbers (links, {len(shape)}), an index into A in each row, or bools of its shape "
            f"{shape}. Got {got}."
        )
    index = coordinates(tuple(links.to(A.device).long().unbind(1)), shape, A.device)
    distinct: Tensor = torch.unique(torch.stack(index), dim=1)
    return distinct.unbind()
