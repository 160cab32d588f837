"""Attention that `torch.compile` sees through, on a GPU: torch's own fused kernels as part of the graph.

What they cannot do (softcap, sinks, windows, documents, biases) stays one opaque operator: see compiled.py.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from regard.masks import Band, Keep, Mask

__all__ = ["attend", "suits"]


def suits(query: Tensor, key: Tensor, value: Tensor, mask: Mask) -> bool:
    """Whether torch's kernels can do it: plain, causal, or padded."""
    if query.dim() != 4 or query.shape[1] != key.shape[1] or query.shape[-1] != value.shape[-1]:
        return False
    if 0 in query.shape or 0 in key.shape or value.shape[1] != key.shape[1]:
        return False
    kinds = [_kind(atom) for atom in mask.atoms]
    square = query.shape[-2] == key.shape[-2]
    return all(kinds) and (set(kinds) <= {"keep"} or (kinds == ["causal"] and square))


def _kind(atom: object) -> str | None:
    if isinstance(atom, Keep) and atom.keys.dim() == 2 and atom.keys.dtype == torch.bool:
        return "keep"
    plain = isinstance(atom, Band) and (atom.lowest, atom.highest) == (None, 0) and isinstance(atom.offset, int)
    return "causal" if plain and isinstance(atom, Band) and atom.offset == 0 else None


def attend(query: Tensor, key: Tensor, value: Tensor, mask: Mask, scale: float | None, dropout: float) -> Tensor:
    """`attention`, with regard's conventions: rows that see nothing give 0, and hidden NaN stay hidden."""
    keeps = [atom.keys for atom in mask.atoms if isinstance(atom, Keep)]
    if not keeps:
        return functional.scaled_dot_product_attention(
            query, key, value, dropout_p=dropout, is_causal=len(mask.atoms) > 0, scale=scale
        )
    visible = keeps[0]
    for keep in keeps[1:]:
        visible = visible & keep
    some = visible.any(-1, keepdim=True)
    key, value = (t.masked_fill(~visible[:, None, :, None], 0.0) for t in (key, value))
    seen = (visible | ~some)[:, None, None, :].expand(-1, 1, query.shape[2], -1)  # no row is empty for the kernel
    output = functional.scaled_dot_product_attention(query, key, value, attn_mask=seen, dropout_p=dropout, scale=scale)
    return output.masked_fill(~some[:, None, :, None], 0.0)
