"""Which tokens a key–value cache may forget: keys scored by the observed attention, by four published rules.

h2o       the sum of what a key received from all queries so far (H2O, Zhang et al. 2023); as in the paper, half of the
          cache is for the newest keys, whatever they received
observed  the same as a mean over the queries from the key on (`ObservedAttentionPress` of NVIDIA's kvpress)
snapkv    the mean over the last queries, smoothed over five neighbours; their own keys stay (SnapKV, Li et al. 2024)
tova      the row of the last query, the mean of all heads; its own key stays (TOVA, Oren et al. 2024)

Scores are computed from queries and keys, without queries × keys numbers. For the first two, the sums that
`watch(model, keep="received")` accumulates while a model generates are enough. `press` hands them to kvpress.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from regard.drawing import Picture, bars
from regard.drawing.terminal import html_table, percent
from regard.errors import InputError, MissingDependencyError
from regard.matrix import AttentionMatrix
from regard.scores import causal
from regard.support import Float, Int, one_of, progress
from regard.watching.questions.looks import Answer
from regard.watching.record.entries import Entry

RULES = ("h2o", "observed", "snapkv", "tova")
_WINDOW, _NEIGHBOURS = 64, 5  # of SnapKV


def cache_scores(
    matrix: AttentionMatrix | Entry, by: str, key_heads: int, *, window: int = _WINDOW
) -> Float[Tensor, "batch key_heads keys"]:
    """Score each key of a cache: a number for each head of the cache, the larger the more it is worth keeping.

    Args:
        matrix: The attention (batch, heads, queries, keys) whose queries are the last ones of the text.
        by: The rule: "h2o", "observed", "snapkv" or "tova".
        key_heads: How many heads the cache has; `heads` is a multiple of it.
        window: How many of the last queries "snapkv" observes.

    >>> import torch, regard
    >>> A = regard.AttentionMatrix(torch.zeros(1, 4, 6, 8), torch.zeros(1, 2, 6, 8), mask=regard.causal())
    >>> cache_scores(A, "tova", 2)[0, 0]          # the last query looks at all six alike; its own key stays
    tensor([0.1667, 0.1667, 0.1667, 0.1667, 0.1667, 1.1667])
    """
    one_of("by", by, RULES)
    batch, heads, queries, keys = matrix.shape
    if heads % key_heads:
        raise InputError(f"heads must be a multiple of key_heads = {key_heads}. Got {heads} heads.")
    last = min(window, queries, keys) if by == "snapkv" else 1
    observed = _observed(matrix, by, last)
    if by == "observed":
        # The queries are the last ones of the text: the first keys were there before all of them.
        observed = observed / (keys - torch.arange(keys, device=observed.device)).clamp(max=queries)
    if by == "tova":
        return _stay(observed.mean(1, keepdim=True).repeat(1, key_heads, 1), 1)
    scores: Tensor = observed.reshape(batch, key_heads, heads // key_heads, keys).mean(2)
    if by != "snapkv":
        return scores
    before = scores[..., : keys - last] / last
    if before.shape[-1]:
        before = functional.avg_pool1d(before, _NEIGHBOURS, stride=1, padding=_NEIGHBOURS // 2)
    return _stay(functional.pad(before, (0, last)), last)


def _observed(matrix: AttentionMatrix | Entry, by: str, last: int) -> Float[Tensor, "batch heads keys"]:
    """Return the attention that a rule observes, summed over its queries."""
    return (matrix if by in ("h2o", "observed") else matrix.part[..., matrix.shape[2] - last :, :]).received()


def _stay(scores: Float[Tensor, "batch heads keys"], count: int) -> Float[Tensor, "batch heads keys"]:
    """Put the scores of the last keys above all others, in place."""
    scores[..., scores.shape[-1] - count :] = scores.max() + 1
    return scores


class KeptLayer(NamedTuple):
    """A layer, and the share of the observed attention that goes to the tokens that stay in its cache."""

    layer: int
    weight: float


@dataclass(frozen=True, eq=False, repr=False)
class Forgettable(Answer[KeptLayer]):
    """Which tokens stay in the cache of each layer, and the share of the observed attention that goes to them.

    Args:
        by: The rule that scores the tokens.
        tokens: How many tokens the text has.
        size: How many of them stay in each head of the cache.
        items: The layers in order, each with its weight: the share of the observed attention.
        kept: For each layer, the positions of the tokens that stay, in ascending order.
    """

    by: str
    tokens: int
    size: int
    items: tuple[KeptLayer, ...]
    kept: tuple[Int[Tensor, "key_heads size"], ...]

    @property
    def weights(self) -> tuple[float, ...]:
        """The weight of each layer."""
        return tuple(weight for _, weight in self)

    def __str__(self) -> str:
        return "\n".join([self._about(), *(f"layer {layer:>2} {percent(weight):>6}" for layer, weight in self)])

    def _repr_html_(self) -> str:
        return html_table(list(self), ("layer", "attention that stays"), caption=self._about())

    def picture(self, *, title: str = "") -> Picture:
        """Draw the share of each layer as a bar."""
        return bars({f"layer {layer}": weight for layer, weight in self}, title=title, caption=self._about())

    def _about(self) -> str:
        return f"by {self.by}, {self.size:,} of {self.tokens:,} tokens stay; of the observed attention they have:"


def forgettable(entries: Sequence[Entry], size: int | float, by: str, window: int) -> Forgettable:
    """Answer `Record.forgettable`."""
    decoders = [entry for entry in entries if entry.kind == "decoder"]
    if not decoders:
        raise InputError("a cache belongs to a decoder's attention to its own text. Got a record without any.")
    tokens = decoders[0].shape[3]
    count = round(size * tokens) if isinstance(size, float) else size
    if not 1 <= count <= tokens:
        raise InputError(f"size must be a share, or a number of tokens from 1 to {tokens}. Got {size}.")
    layers, kept = [], []
    with progress("scoring the cache", total=len(decoders)) as advance:
        for entry in decoders:
            key_heads = entry.shape[1]  # where only sums were kept
            if entry.call is not None:
                key_heads = max(key_heads * entry.call.key.shape[1] // entry.call.query.shape[1], 1)
            scores = cache_scores(entry, by, key_heads, window=window)
            if by == "h2o" and count > 1:  # old keys have large sums because they are old
                scores = _stay(scores, count // 2)
            stays = scores[0].topk(count, -1).indices.sort(-1).values
            last = min(window, *entry.shape[2:]) if by == "snapkv" else 1
            observed = _observed(entry, by, last).reshape(key_heads, -1, entry.shape[3]).sum(1)
            kept.append(stays.cpu())
            layers.append(KeptLayer(entry.layer, float(observed.gather(-1, stays).sum() / observed.sum())))
            advance(1)
    return Forgettable(by, tokens, count, tuple(layers), tuple(kept))


# For kvpress


def press(by: str = "observed", compression_ratio: float = 0.5, *, window: int = _WINDOW) -> Any:
    """Return a press for kvpress that removes a share of the cache after the prompt, with the model's fast attention.

    Args:
        by: The rule: "h2o", "observed", "snapkv" or "tova".
        compression_ratio: The share of the cache to remove.
        window: How many of the last queries "snapkv" observes.

    kvpress's `ObservedAttentionPress` needs attn_implementation="eager" and queries × keys weights.
    """
    one_of("by", by, RULES)
    try:
        from kvpress import ScorerPress  # type: ignore[import-not-found,import-untyped]
        from kvpress.utils import get_prerope_query_states  # type: ignore[import-not-found,import-untyped]
    except ImportError:
        raise MissingDependencyError("a press needs kvpress: pip install kvpress.") from None

    class ObservedPress(ScorerPress):  # type: ignore[misc]
        """Scores keys by `cache_scores`."""

        def score(
            self, module: Any, hidden_states: Tensor, keys: Tensor, values: Tensor, attentions: Any, kwargs: Any
        ) -> Tensor:
            """Score the keys of each head of the cache."""
            cos, sin = kwargs["position_embeddings"]
            last = min(hidden_states.shape[1], cos.shape[1])  # while decoding, kvpress has the embedding of one step
            query = get_prerope_query_states(module, hidden_states[:, -last:])
            first, second = query.chunk(2, -1)
            query = query * cos[:, None, -last:] + torch.cat([-second, first], -1) * sin[:, None, -last:]
            mask = causal(offset=keys.shape[2] - last)
            matrix = AttentionMatrix(query, keys, mask=mask, scale=getattr(module, "scaling", None))
            return cache_scores(matrix, by, keys.shape[1], window=window)

    return ObservedPress(compression_ratio)
