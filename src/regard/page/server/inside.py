"""Every number of one token in one head of one layer.

Of every model, the page shows what its record holds: query, keys, scores, weights. Of regard's own Transformer, the
other numbers are computed again from the inputs of its layers, which are kept beside the record, and from its weights.
No module of the model is called, so this does not need the model's thread. A test compares them with the model's.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from regard.errors import InputError, OutOfRangeError
from regard.nn import DecoderLayer, EncoderLayer, MultiHeadAttention, Transformer
from regard.nn.layers import ACTIVATIONS
from regard.support import Float
from regard.watching import Entry
from regard.watching.record.entries import shown

__all__ = ["Inside", "kept_inputs", "numbers", "steps"]

_KEYS = 256  # keys in an answer, at most: those with the largest weights
_NOT_KEPT = (
    "a record of this model holds its queries and keys: what comes before and after them stays inside. With a model of "
    "regard's own (the model in this package, or a model that `regard train` made) every number is here."
)
_BEFORE_CROSS = "the feed-forward layer follows this layer's cross-attention: see there."
_FORMULAS = {
    "x": "the input of this layer: one vector a token",
    "q": "x · W_Q + b_Q",
    "k": "x · W_K + b_K, of every token",
    "v": "x · W_V + b_V, of every token",
    "scores": "q · k, the sum of the products term by term",
    "scaled": "scores × scale",
    "weights": "softmax(scaled): exp of each, divided by their sum, over the keys that may be seen",
    "output": "Σ weights × v",
}
_OWN = {
    "joined": "the outputs of all heads, side by side",
    "projected": "joined · W_O + b_O",
    "residual": "x + projected",
}
_AFTER = {
    "normed": "residual, its mean taken away, divided by its standard deviation, × γ + β",
    "hidden": "{}(normed · W₁ + b₁)",
    "fed": "hidden · W₂ + b₂",
}


@dataclass(frozen=True, eq=False)
class Inside:
    """What is kept of a Transformer beside its record: the inputs of its layers, (tokens, width) each."""

    model: Transformer
    encoder: list[Tensor] = field(default_factory=list)
    decoder: list[Tensor] = field(default_factory=list)
    memory: list[Tensor] = field(default_factory=list)  # the encoder's output, once
    ids: tuple[list[int], list[int]] = ((), ())  # type: ignore[assignment]
    off: Mapping[str, Collection[int]] = field(default_factory=dict)  # heads whose output is 0, by module

    def tensors(self) -> list[Tensor]:
        """All tensors except the model's."""
        return [*self.encoder, *self.decoder, *self.memory]


@contextmanager
def kept_inputs(model: Transformer, off: Mapping[str, Collection[int]]) -> Iterator[Inside]:
    """Keep the inputs of all layers while a model reads one sentence."""
    inside = Inside(model, ids=([], []), off=off)

    def keep_input(_: Any, inputs: tuple[Any, ...], *, kept: list[Tensor]) -> None:
        kept.append(inputs[0][0].detach())

    def keep_ids(_: Any, inputs: tuple[Any, ...]) -> None:
        for ids, kept in zip(inputs[:2], inside.ids, strict=True):
            kept[:] = ids[0].tolist()

    with ExitStack() as undo:
        for stack, kept in ((model.encoder, inside.encoder), (model.decoder, inside.decoder)):
            for layer in stack.layers:
                undo.callback(layer.register_forward_pre_hook(partial(keep_input, kept=kept)).remove)
        undo.callback(model.encoder.register_forward_hook(lambda *a: inside.memory.append(a[2][0].detach())).remove)
        undo.callback(model.register_forward_pre_hook(keep_ids).remove)
        yield inside


@torch.no_grad()
def steps(
    entry: Entry, head: int, token: int, sequence: int, names: tuple[Sequence[str], Sequence[str]],
    inside: Inside | None, others: Sequence[Entry],
) -> dict[str, Any]:  # fmt: skip
    """All numbers of one token in one head; `others` are the entries of the same pass."""
    if head not in entry.heads:
        raise OutOfRangeError(f"{entry.name} has heads {entry.heads.start} to {entry.heads.stop - 1}. Got {head}.")
    if not 0 <= token < entry.shape[2]:
        raise OutOfRangeError(f"token must be from 0 to {entry.shape[2] - 1}. Got {token}.")
    call = entry.call
    if call is None:
        raise InputError('this record keeps no queries and keys. Watch with keep="matrix".')
    place, matrix = head - entry.first_head, entry.matrix
    weights = matrix[sequence, place, token]
    columns = torch.arange(len(weights), device=weights.device)
    if len(columns) > _KEYS:
        columns = weights.topk(_KEYS).indices.sort().values
    listed = columns.tolist()
    group = call.query.shape[1] // call.key.shape[1]
    q, k = call.query[sequence, head, token], call.key[sequence, head // group, columns]
    scale = q.shape[-1] ** -0.5 if call.scale is None else call.scale
    fields: dict[str, Any] = {
        "token": names[0][token], "names": [names[1][column] for column in listed], "columns": listed,
        "left_out": len(weights) - len(columns), "q": q, "k": k, "scale": scale,
        "scores": matrix.scores[sequence, place, token][columns],
        "scaled": matrix.scaled[sequence, place, token][columns],
        "softcap": call.softcap, "visible": shown(entry, range(token, token + 1), columns)[0].tolist(),
        "weights": weights[columns],
    }  # fmt: skip
    if call.softcap is not None:
        fields["capped"] = matrix.capped[sequence, place, token][columns]
    formulas, missing = dict(_FORMULAS), _NOT_KEPT
    rest: dict[str, Any] = dict.fromkeys(
        ("x", "v", "output", "joined", "projected", "residual", "normed", "hidden", "fed", "next", "embedding")
    )
    if inside is not None:
        computed, more, missing = _computed(inside, entry, head, token, sequence, {e.name: e for e in others})
        rest |= computed | {"v": computed["v"][columns]}
        formulas |= more
    return _plain(fields | rest) | {"formulas": formulas, "missing": missing}


def _plain(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Tensors as lists, at any depth."""
    return {
        name: numbers(value) if isinstance(value, Tensor) else _plain(value) if isinstance(value, dict) else value
        for name, value in fields.items()
    }


def numbers(tensor: Tensor) -> Any:
    """The numbers of a tensor as lists, each with as few digits as the float32 needs; None for inf and NaN.

    >>> numbers(torch.tensor([[0.1, 3.0, torch.nan]]))
    [[0.1, 3.0, None]]
    """
    values = np.asarray(tensor.detach().float().cpu().numpy())
    short: Any = values.astype(str).astype(np.float64)
    if not np.isfinite(short).all():
        short = short.astype(object)
        short[~np.isfinite(values)] = None
    return short.tolist()


# Regard's own Transformer


def _computed(
    inside: Inside, entry: Entry, head: int, token: int, sequence: int, entries: Mapping[str, Entry]
) -> tuple[dict[str, Any], dict[str, str], str]:
    """The numbers that the record does not hold, their formulas, and what is still missing."""
    model = inside.model
    stack = model.encoder if entry.kind == "encoder" else model.decoder
    layer = stack.layers[entry.layer]
    assert isinstance(layer, EncoderLayer | DecoderLayer)
    inputs = (inside.encoder if entry.kind == "encoder" else inside.decoder)[entry.layer]
    first = _Sublayer(layer.attention, layer.attention_norm, layer.norm_first)
    x, memory = inputs[token], None
    if entry.kind == "cross":
        assert isinstance(layer, DecoderLayer)
        before = entries[entry.name.removesuffix("cross") + "attention"]
        x = first.result(before, inputs, token, sequence, inside.off.get(before.name, ()))
        first, memory = _Sublayer(layer.cross, layer.cross_norm, layer.norm_first), inside.memory[0]
    computed = first.numbers(entry, inputs, token, sequence, inside.off.get(entry.name, ()), x, memory, head)
    formulas = {**_OWN, **_AFTER, "next": "what the next layer gets"}
    formulas["hidden"] = _AFTER["hidden"].format(layer.feed_forward.activation)
    if layer.norm_first:
        formulas |= {"x": "the input of this layer after its norm", "residual": "the input of this layer + projected"}
    if entry.layer == 0 and entry.kind != "cross":
        token_id = inside.ids[entry.kind == "decoder"][token]
        computed["embedding"] = {
            "vector": model.embedding.weight[token_id], "scale": math.sqrt(model.config.width),
            "position": model.positions[token],
        }  # fmt: skip
        formulas["embedding"] = "vector × scale + position"
    if isinstance(layer, DecoderLayer) and entry.kind == "decoder":
        computed["normed"] = _norm(layer.cross_norm if layer.norm_first else layer.attention_norm, computed["residual"])
        computed["next"] = computed["normed"]
        return computed, formulas | {"next": "what cross-attention gets"}, _BEFORE_CROSS
    norm = layer.feed_forward_norm if layer.norm_first else first.norm
    normed = _norm(norm, computed["residual"])
    feed = layer.feed_forward
    hidden = ACTIVATIONS[feed.activation](functional.linear(normed, feed.up.weight, feed.up.bias))
    fed = functional.linear(hidden, feed.down.weight, feed.down.bias)
    total = fed + (computed["residual"] if layer.norm_first else normed)
    computed |= {"normed": normed, "hidden": hidden, "fed": fed}
    computed["next"] = total if layer.norm_first else _norm(layer.feed_forward_norm, total)
    formulas["next"] = "residual + fed" if layer.norm_first else "normed + fed, normed again"
    return computed, formulas, ""


def _norm(norm: Any, x: Float[Tensor, "*any width"]) -> Tensor:
    return functional.layer_norm(x, norm.normalized_shape, norm.weight, norm.bias, norm.eps)


@dataclass(frozen=True, eq=False)
class _Sublayer:
    """An attention layer with its residual and norm."""

    attention: MultiHeadAttention
    norm: torch.nn.LayerNorm
    norm_first: bool

    def numbers(
        self, entry: Entry, inputs: Float[Tensor, "tokens width"], token: int, sequence: int, off: Collection[int],
        x: Float[Tensor, " width"], memory: Tensor | None, head: int,
    ) -> dict[str, Any]:  # fmt: skip
        """All numbers from the input of this token, and of the tokens that it looks at, to the residual."""
        looked_at = memory if memory is not None else _norm(self.norm, inputs) if self.norm_first else inputs
        weight, bias = self.attention.projection.weight, self.attention.projection.bias
        start = sum(self.attention.sizes[:2])
        v = functional.linear(looked_at, weight[start:], None if bias is None else bias[start:])
        v = v.view(len(v), -1, self.attention.head_width).transpose(0, 1)  # (key heads, keys, head width)
        v = v.repeat_interleave(self.attention.heads // self.attention.key_heads, 0)
        outputs = (entry.matrix[sequence, :, token][:, None] @ v)[:, 0]
        outputs[list(off)] = 0.0
        joined = outputs.flatten()
        projected = functional.linear(joined, self.attention.output.weight, self.attention.output.bias)
        return {
            "x": _norm(self.norm, x) if self.norm_first else x, "v": v[head], "output": outputs[head],
            "joined": joined, "projected": projected, "residual": projected + x,
        }  # fmt: skip

    def result(self, entry: Entry, inputs: Tensor, token: int, sequence: int, off: Collection[int]) -> Tensor:
        """The vector of this token after self-attention."""
        residual: Tensor = self.numbers(entry, inputs, token, sequence, off, inputs[token], None, 0)["residual"]
        return residual if self.norm_first else _norm(self.norm, residual)
