"""Dense eager attention with an edited mask: what models without some links are compared with.

Written out in plain torch, and registered with transformers like any attention function.
"""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass

import torch
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import eager_mask

NAME = "eager_edited"


@dataclass
class Edit:
    """A rectangle of the matrix, in positions of the text: its scores get a bias, or its weights are set to 0."""

    queries: range
    keys: range
    heads: tuple[int, ...] | None = None
    layers: tuple[int, ...] | None = None
    kind: str | None = None
    bias: float = -math.inf
    zeroed: bool = False
    back: range | None = None  # only keys so far before the query
    text: int | None = None

    def places(self, weights, first):
        """Where it lies in weights (batch, heads, queries, keys), whose first query is the token `first`."""
        batch, heads, queries, keys = weights.shape
        row, column = torch.arange(first, first + queries)[:, None], torch.arange(keys)
        here = (row >= self.queries.start) & (row < self.queries.stop)
        here = here & (column >= self.keys.start) & (column < self.keys.stop)
        if self.back is not None:
            here = here & (row - column >= self.back.start) & (row - column < self.back.stop)
        chosen = torch.ones(batch, heads, 1, 1, dtype=torch.bool)
        if self.heads is not None:
            chosen[:, [h for h in range(heads) if h not in self.heads]] = False
        if self.text is not None:
            chosen[[b for b in range(batch) if b != self.text]] = False
        return here & chosen


def attend(scores, value, edits, first, sinks=None):
    """softmax of edited scores, times the values; (output, weights)."""
    for edit in edits:
        if not edit.zeroed:
            scores = scores.masked_fill(edit.places(scores, first), -math.inf) if edit.bias == -math.inf else (
                scores + edit.bias * edit.places(scores, first)
            )  # fmt: skip
    if sinks is not None:
        scores = torch.cat([scores, sinks.reshape(1, -1, 1, 1).expand(*scores.shape[:3], 1)], -1)
    weights = scores.softmax(-1).nan_to_num(0.0)
    weights = weights if sinks is None else weights[..., :-1]
    for edit in edits:
        if edit.zeroed:
            weights = weights.masked_fill(edit.places(weights, first), 0.0)
    return weights @ value, weights


@contextlib.contextmanager
def edited(model, edits):
    """The model with eager attention, edited; what it computed is in the dict that is given: names → weights."""
    names = {id(module): name for name, module in model.named_modules()}
    seen = {}

    def attention(module, query, key, value, attention_mask, scaling=None, softcap=None, s_aux=None,
                  position_bias=None, **_):  # fmt: skip
        name = names[id(module)]
        group = query.shape[1] // key.shape[1]
        key, value = key.repeat_interleave(group, 1), value.repeat_interleave(group, 1)
        scores = query @ key.mT * (query.shape[-1] ** -0.5 if scaling is None else scaling)
        scores = scores if softcap is None else softcap * torch.tanh(scores / softcap)
        scores = scores if position_bias is None else scores + position_bias[..., : key.shape[2]]
        hidden = torch.zeros(scores.shape, dtype=torch.bool)
        if attention_mask is not None:
            mask = attention_mask[..., : key.shape[2]]
            hidden = hidden | (~mask if mask.dtype == torch.bool else mask < -1e30)
        scores = scores.masked_fill(hidden, -math.inf)
        cross = "cross" in name.lower() or "encoder_attn" in name or "EncDec" in name
        kind = (
            "cross" if cross else "decoder" if getattr(module, "is_causal", False) or "decoder" in name else "encoder"
        )
        layer = int(next(part for part in name.split(".") if part.isdigit()))
        chosen = [
            e for e in edits if e.kind in (None, kind) and (e.layers is None or layer in e.layers) and not (e.back and cross)
        ]  # fmt: skip
        first = 0 if cross else key.shape[2] - query.shape[2]
        output, weights = attend(scores, value, chosen, first, s_aux)
        seen.setdefault(name, []).append(weights)
        return output.transpose(1, 2).contiguous(), weights

    AttentionInterface.register(NAME, attention)
    AttentionMaskInterface.register(NAME, eager_mask)
    before = model.config._attn_implementation
    model.set_attn_implementation(NAME)
    try:
        yield seen
    finally:
        model.set_attn_implementation(before)
