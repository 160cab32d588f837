"""Attention by `scaled_dot_product_attention` itself, where only the output is wanted; torch.compile can trace it.

What it cannot do (softcap, sinks, windows, documents, biases) goes through `AttentionMatrix` or, in a compiled graph,
through the opaque operator of compiled.py.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from regard.scores import Band, Keep, Mask

__all__ = ["attend", "bare", "supports"]


def supports(
    query: Tensor, key: Tensor, value: Tensor, mask: Mask, scale: float | None, softcap: float | None, sinks: object
) -> bool:
    """Whether torch's kernels can do it: no mask, `causal()` or padding, and plain 4-D inputs."""
    if softcap is not None or sinks is not None or not (scale is None or scale > 0):
        return False
    if query.dim() != 4 or key.shape != value.shape or 0 in query.shape or 0 in key.shape:
        return False
    if (query.shape[:2], query.shape[3]) != (key.shape[:2], key.shape[3]):
        return False
    if not (query.dtype == key.dtype == value.dtype and query.device == key.device == value.device):
        return False
    kinds = [_kind(atom) for atom in mask.atoms]
    keeps = [atom.keys.shape for atom in mask.atoms if isinstance(atom, Keep)]
    if not all(kinds) or any(shape != (query.shape[0], key.shape[2]) for shape in keeps):
        return False
    return len(keeps) == len(kinds) or (kinds == ["causal"] and query.shape[2] == key.shape[2])


def bare(query: Tensor, key: Tensor, value: Tensor, mask: Mask | Tensor | None, dropout: float) -> bool:
    """Whether a CPU's call needs nothing but the kernel: no mask, no gradient, no odd strides.

    One token of a translation is a call so small that looking at it any closer would take longer than computing it.
    """
    if (mask is not None and (isinstance(mask, Tensor) or mask.atoms)) or dropout or query.device.type != "cpu":
        return False
    if torch.is_autocast_enabled("cpu"):
        return False
    three = (query, key, value)
    wanted = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in three)
    return not wanted and all(tensor.stride(-1) == 1 for tensor in three)


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
