"""Every number of one token in one head of one layer.

Of every model, the page shows what its record holds: query, keys, scores, weights. Of regard's own Transformer, the
other numbers are computed again from the inputs of its layers, which are kept beside the record, and from its weights.
No module of the model is called, so this does not need the model's thread. A test compares them with the model's.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from regard import learn
from regard.errors import InputError, OutOfRangeError
from regard.learn import textbook
from regard.nn import MultiHeadAttention, Transformer
from regard.nn.layers import ACTIVATIONS
from regard.support import Float
from regard.watching import Entry
from regard.watching.record.entries import shown

__all__ = ["BOOK", "Inside", "kept_inputs", "matrices", "numbers", "steps", "textbook_matrices"]

_KEYS, _SHORT = 256, 48  # at most: keys in an answer, those with the largest weights; tokens whose matrices are shown
_ROWS = ("x", "q", "scores", "scaled", "weights", "output")  # of the matrices: a row for each query
_DOG, _SUSHI = "A dog ate the food because it was hungry", "I like sushi because it makes me happy"
BOOK = ("I am good", "I am hungry", _DOG, _SUSHI)  # the sentences of the documents, which have numbers of their own
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
    tokenizer: Any = None

    def tensors(self) -> list[Tensor]:
        """All tensors except the model's."""
        return [*self.encoder, *self.decoder, *self.memory]


@contextmanager
def kept_inputs(model: Transformer, off: Mapping[str, Collection[int]], tokenizer: Any = None) -> Iterator[Inside]:
    """Keep the inputs of all layers while a model reads one sentence."""
    inside = Inside(model, ids=([], []), off=off, tokenizer=tokenizer)

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
    return _plain(_steps(entry, head, token, sequence, names, inside, others))


@torch.no_grad()
def matrices(
    entry: Entry, head: int, names: tuple[Sequence[str], Sequence[str]], inside: Inside | None, others: Sequence[Entry]
) -> dict[str, Any]:
    """The matrices of one head over a short text: X, the weights W, Q, K, V, the scores, their shares and Z."""
    queries, keys = entry.shape[2:]
    if max(queries, keys) > _SHORT:
        raise InputError(f"matrices are for at most {_SHORT} tokens. Got {max(queries, keys)}: type a shorter text.")
    rows = [_steps(entry, head, token, 0, names, inside, others) for token in range(queries)]
    fields: dict[str, Any] = {n: torch.stack([row[n] for row in rows]) for n in _ROWS if rows[0][n] is not None}
    fields |= {name: rows[0][name] for name in ("k", "v", "scale") if rows[0][name] is not None}
    fields |= {"rows": list(names[0]), "columns": list(names[1]), "visible": [row["visible"] for row in rows]}
    if inside is not None:
        layer: Any = (inside.model.encoder if entry.kind == "encoder" else inside.model.decoder).layers[entry.layer]
        attention = layer.cross if entry.kind == "cross" else layer.attention
        fields |= {"memory": inside.memory[0]} if entry.kind == "cross" else {}
        width, start = attention.head_width, 0
        for name, size in zip("qkv", attention.sizes, strict=True):
            first = start + head * size // (attention.heads * width) * width  # grouped heads share keys and values
            for letter, weight in (("w", attention.projection.weight), ("b", attention.projection.bias)):
                fields |= {} if weight is None else {f"{letter}_{name}": weight[first : first + width].t()}
            start += size
    return _plain(fields)


def textbook_matrices(sentence: str) -> dict[str, Any]:
    """The same matrices of a sentence of the documents, from the documents' own numbers."""
    example = textbook.known(sentence)
    if example is None:
        raise InputError(f"the documents have numbers for these sentences: {', '.join(BOOK)}. Got {sentence!r:.80}.")
    done = learn.steps(*example)
    names = dict(zip(("queries", "keys", "values"), "qkv", strict=True))
    fields = {names.get(name, name): torch.as_tensor(value) for name, value in vars(done).items() if name != "words"}
    return _plain(fields | {"rows": done.words, "columns": done.words, "scale": done.queries.shape[1] ** -0.5})


def _steps(
    entry: Entry, head: int, token: int, sequence: int, names: tuple[Sequence[str], Sequence[str]],
    inside: Inside | None, others: Sequence[Entry],
) -> dict[str, Any]:  # fmt: skip
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
        if not inside.model.config.bias:
            formulas = {name: re.sub(r" \+ b_?\w", "", formula) for name, formula in formulas.items()}
    return fields | rest | {"formulas": formulas, "missing": missing}


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
    model, is_encoder = inside.model, entry.kind == "encoder"
    layer: Any = (model.encoder if is_encoder else model.decoder).layers[entry.layer]
    inputs = (inside.encoder if is_encoder else inside.decoder)[entry.layer]
    attention, norm, x = layer.attention, layer.attention_norm, inputs[token]
    looked_at = _norm(norm, inputs) if layer.norm_first else inputs
    if entry.kind == "cross":
        before = entries[entry.name.removesuffix("cross") + "attention"]
        off = inside.off.get(before.name, ())
        x = _attended(attention, before, looked_at, x, token, sequence, off)["residual"]
        x = x if layer.norm_first else _norm(norm, x)
        attention, norm, looked_at = layer.cross, layer.cross_norm, inside.memory[0]
    computed = _attended(attention, entry, looked_at, x, token, sequence, inside.off.get(entry.name, ()))
    computed |= {"x": _norm(norm, x) if layer.norm_first else x, "v": computed["v"][head]}
    computed["output"] = computed["output"][head]
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
    if entry.kind == "decoder":
        normed = _norm(layer.cross_norm if layer.norm_first else norm, computed["residual"])
        computed |= {"normed": normed, "next": normed}
        return computed, formulas | {"next": "what cross-attention gets"}, _BEFORE_CROSS
    normed = _norm(layer.feed_forward_norm if layer.norm_first else norm, computed["residual"])
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


def _attended(
    attention: MultiHeadAttention, entry: Entry, looked_at: Float[Tensor, "tokens width"], x: Float[Tensor, " width"],
    token: int, sequence: int, off: Collection[int],
) -> dict[str, Any]:  # fmt: skip
    """From the tokens that a token looks at to the residual: values and outputs of all heads, and their sum with x."""
    weight, bias = attention.projection.weight, attention.projection.bias
    start = sum(attention.sizes[:2])
    v = functional.linear(looked_at, weight[start:], None if bias is None else bias[start:])
    v = v.view(len(v), -1, attention.head_width).transpose(0, 1)  # (key heads, keys, head width)
    v = v.repeat_interleave(attention.heads // attention.key_heads, 0)
    outputs = (entry.matrix[sequence, :, token][:, None] @ v)[:, 0]
    outputs[list(off)] = 0.0
    joined = outputs.flatten()
    projected = functional.linear(joined, attention.output.weight, attention.output.bias)
    return {"v": v, "output": outputs, "joined": joined, "projected": projected, "residual": projected + x}
