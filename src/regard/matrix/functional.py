"""`attention`: the function form of `AttentionMatrix(query, key) @ value`.

Where only the output is needed, torch's kernel often suffices, and torch.compile can trace it. Calls that it does not
support (softcap, sinks, windows, documents, biases) go through `AttentionMatrix` or, in a compiled graph, through the
opaque operator of compiled.py. Inside torch.func attention is computed in plain torch.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import handle_torch_function

from regard.backends import Dropout
from regard.backends.contract import aligned
from regard.errors import DTypeError
from regard.matrix import compiled
from regard.matrix.attention_matrix import AttentionMatrix
from regard.matrix.axes import Axes, fold_operand
from regard.matrix.normalised import dense_weights
from regard.scores import Band, Keep, Mask, as_mask, check_floats, make_scores
from regard.support import FLOATS, Float, inside_func, recording, transformed


def attention(
    query: Float[Tensor, "*batch heads queries width"] | Float[Tensor, "queries width"],
    key: Float[Tensor, "*batch key_heads keys width"] | Float[Tensor, "keys width"],
    value: Float[Tensor, "*any keys value_width"],
    *,
    mask: Mask | Tensor | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    sinks: Tensor | float | None = None,
    dropout: float = 0.0,
) -> Float[Tensor, "*any_too queries value_width"]:
    """softmax(QKᵀ · scale) V, by the fused kernel and in O(tokens) memory, gradients included.

    >>> import torch, regard
    >>> query, key, value = torch.randn(2, 8, 5, 64), torch.randn(2, 2, 7, 64), torch.randn(2, 2, 7, 32)
    >>> regard.attention(query, key, value, mask=regard.causal(offset=2)).shape
    torch.Size([2, 8, 5, 32])
    """
    compiling = torch.compiler.is_compiling() or recording()
    if not compiling and torch._C._is_torch_function_mode_enabled():  # like torch: `watch` sees it
        options: dict[str, Any] = {"mask": mask, "scale": scale, "softcap": softcap, "sinks": sinks, "dropout": dropout}
        return handle_torch_function(attention, (), query, key, value, **options)  # type: ignore[no-any-return]
    if compiling and (isinstance(scale, Tensor) or isinstance(softcap, Tensor)):
        raise DTypeError("scale and softcap must be numbers. Got a tensor. Use .item() outside the compiled function.")
    try:
        fast = query.is_cuda or (not compiling and _bare(query, key, value, mask, dropout))
        fast = fast and torch_supports(query, key, value, as_mask(mask), scale, softcap, sinks, dropout)
    except (AttributeError, IndexError, TypeError, ValueError, RuntimeError):
        fast = False  # an argument has the wrong type: the checks below say which
    if fast:
        if not query.is_cuda or compiling or inside_func() or query.shape[-1] % 8:  # other widths torch itself pads
            return by_torch(query, key, value, as_mask(mask), scale, dropout)
        output = by_torch(aligned(query), aligned(key), aligned(value), as_mask(mask), scale, dropout)
        if output.requires_grad:
            output.register_hook(aligned)  # type: ignore[no-untyped-call]
        return output
    if compiling:  # one opaque operator of the graph: tiles are not traced
        return compiled.attend(query, key, value, as_mask(mask), scale, softcap, sinks, dropout)
    if inside_func() and transformed(query, key, value, sinks, *as_mask(mask).tensors):
        return _by_dense_weights(query, key, value, as_mask(mask), scale, softcap, sinks, dropout)
    return AttentionMatrix(query, key, mask=mask, scale=scale, softcap=softcap, sinks=sinks).attend(value, dropout)


def torch_supports(
    query: Tensor, key: Tensor, value: Tensor, mask: Mask, scale: float | None, softcap: float | None, sinks: object,
    dropout: float = 0.0,
) -> bool:  # fmt: skip
    """Whether torch's kernels support the call: no mask, `causal()` or padding, and plain 4-D inputs."""
    if softcap is not None or sinks is not None or not 0 <= dropout < 1:
        return False
    if scale is not None and not (isinstance(scale, float | int) and 0 < scale < 1e30):
        return False
    shape, key_shape = query.shape, key.shape
    if len(shape) != 4 or key_shape != value.shape or 0 in shape or 0 in key_shape:
        return False
    if shape[:2] != key_shape[:2] or shape[3] != key_shape[3]:
        return False
    dtype, device = query.dtype, query.device
    if not (dtype == key.dtype == value.dtype and dtype in FLOATS and device == key.device == value.device):
        return False
    if not mask.atoms:
        return True
    kinds = [_kind(atom) for atom in mask.atoms]
    keeps = [atom.keys.shape for atom in mask.atoms if isinstance(atom, Keep)]
    if not all(kinds) or any(keep != (shape[0], key_shape[2]) for keep in keeps):
        return False
    return len(keeps) == len(kinds) or (kinds == ["causal"] and shape[2] == key_shape[2])


def _bare(query: Tensor, key: Tensor, value: Tensor, mask: Mask | Tensor | None, dropout: float) -> bool:
    """Whether a call on a CPU needs nothing but the kernel: no mask, no gradient, no strided widths.

    The call for one token of a translation is so small that further checks would take longer than computing it.
    """
    if (mask is not None and (isinstance(mask, Tensor) or mask.atoms)) or dropout or query.device.type != "cpu":
        return False
    if torch.is_autocast_enabled("cpu"):
        return False
    three = (query, key, value)
    needs_grad = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in three)
    return not needs_grad and all(tensor.stride(-1) == 1 for tensor in three)


def _kind(atom: object) -> str | None:
    if isinstance(atom, Keep) and atom.keys.dim() == 2 and atom.keys.dtype == torch.bool:
        return "keep"
    if not isinstance(atom, Band) or isinstance(atom.offset, Tensor):
        return None
    return "causal" if (atom.lowest, atom.highest, atom.offset) == (None, 0, 0) else None


def by_torch(query: Tensor, key: Tensor, value: Tensor, mask: Mask, scale: float | None, dropout: float) -> Tensor:
    """`attention` by torch, with regard's conventions: rows that see nothing are 0, and hidden NaN stay hidden."""
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


def _by_dense_weights(
    query: Tensor, key: Tensor, value: Tensor, mask: Mask, scale: float | None, softcap: float | None,
    sinks: Tensor | float | None, dropout: float,
) -> Tensor:  # fmt: skip
    """`attention` inside torch.func, in plain torch: batched and differentiated any number of times, but it stores
    queries × keys numbers."""
    scores = make_scores(query, key, mask, scale, softcap, sinks)
    check_floats(query=query, value=value)
    axes = Axes(tuple(query.shape[:-3]), query.dim() > 2)
    value = fold_operand(axes, scores.shape, value, key_heads=scores.key.shape[1])
    batch, heads, queries, keys = scores.shape
    weights = dense_weights(scores).to(query.dtype)
    if Dropout.of(dropout, torch.zeros((), dtype=torch.int64)) is not None:
        weights = functional.dropout(weights, dropout)
    weights = weights.reshape(batch, value.shape[1], -1, keys)  # one product for each head of the values
    unseen = (weights == 0).all(2)[..., None]
    value = torch.where(unseen, value.nan_to_num(0.0, 0.0, 0.0), value)
    return axes.unfold((weights @ value).reshape(batch, heads, queries, value.shape[-1]))
