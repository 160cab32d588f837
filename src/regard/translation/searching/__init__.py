"""The most probable targets of a source: the definition of the search, the engine of a CPU, the search of a GPU.

Read in this order:

definition.py  `search`, the definition; hypotheses, a step of a beam, the repetition guard
engine.py      the search on a CPU: CTranslate2 with regard's weights
gpu.py         the search on a GPU, in fixed shapes

`search_all`, in this file, chooses among them for any number of sources.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from regard.nn import Transformer
from regard.support import threads
from regard.translation.searching.definition import Hypothesis, longest_target, loops, search
from regard.translation.searching.engine import Engine
from regard.translation.searching.gpu import StaticSearch

__all__ = ["Hypothesis", "search", "search_all", "search_by_engine", "usable_engine"]

_MOST_TOKENS = 1024  # source tokens in a batch for an engine: Ctrl-C waits for the end of a batch


def search_all(
    model: Transformer,
    sources: Sequence[Sequence[int]],
    *,
    beam: int = 4,
    length_penalty: float = 1.0,
    sentences: int = 32,
    needed: int | None = None,
    advance: Callable[[float], None] | None = None,
    known: Mapping[int, list[Hypothesis]] | None = None,
) -> list[list[Hypothesis]]:
    """`search` for any number of sources, on the model's device; results are in the order of the sources.

    Sources of similar length are searched together; on a GPU, as many as keep it busy.

    Args:
        model: the model.
        sources: the token ids of each source, with the end.
        beam, length_penalty: as in `search`.
        sentences: the number of sources in a batch.
        needed: the number of targets needed for each source; more may be missing.
        advance: after each batch, gets the number of its source tokens.
        known: the results of `search_by_engine` for these sources.

    >>> import regard
    >>> model = regard.Transformer(regard.TransformerConfig.tiny(vocabulary=50)).eval()
    >>> [len(best) for best in search_all(model, [[5, 6, 7, 0], [8, 0], [9, 5, 0]], beam=2)]
    [2, 2, 2]
    """
    first = _first(sources)
    if advance is not None:
        advance(sum(map(len, sources)) - sum(map(len, first)))  # repeated sources are searched once
    engine = usable_engine(model, beam, length_penalty) if known is None else None
    options: dict[str, Any] = {"beam": beam, "length_penalty": length_penalty, "needed": needed, "advance": advance}
    if engine is not None:
        known = search_by_engine(engine, sources, sentences=sentences, **options)
    results = dict(known or {})
    order = sorted((n for n in first.values() if n not in results), key=lambda n: len(sources[n]))
    static = StaticSearch.of(model) if order and beam >= 1 else None
    if static is not None:
        best = static.search(model, [sources[n] for n in order], **options)
        results.update(zip(order, best, strict=True))
        order = []
    while order:
        batch, order = order[:sentences], order[sentences:]
        padded = torch.nn.utils.rnn.pad_sequence([torch.tensor(sources[n]) for n in batch], True, model.config.pad)
        with threads(len(batch) * beam * model.config.parameters):  # multiply-adds of a step, about
            best = search(model, padded.to(model.embedding.weight.device), beam=beam, length_penalty=length_penalty)
        results.update(zip(batch, best, strict=True))
        if advance is not None:
            advance(sum(len(sources[n]) for n in batch))
    return [list(results[first[tuple(source)]]) for source in sources]


def _first(sources: Sequence[Sequence[int]]) -> dict[tuple[int, ...], int]:
    """The index of the first occurrence of each source."""
    first: dict[tuple[int, ...], int] = {}
    for n, source in enumerate(sources):
        first.setdefault(tuple(source), n)
    return first


def usable_engine(model: Transformer, beam: int, length_penalty: float) -> Engine | None:
    """The engine for this model, if there is one."""
    # CTranslate2 refuses a beam as wide as the vocabulary, and stops early without a length penalty.
    return Engine.of(model) if 1 <= beam < model.config.vocabulary // 2 and length_penalty != 0 else None


def search_by_engine(
    engine: Engine, sources: Sequence[Sequence[int]], *, beam: int, length_penalty: float, sentences: int = 32,
    needed: int | None = None, advance: Callable[[float], None] | None = None,
) -> dict[int, list[Hypothesis]]:  # fmt: skip
    """The engine's targets for each distinct source, without the sources that need regard's own search.

    The engine has neither the repetition guard nor a maximum length for each sentence. (It can suppress a sequence, but
    then scales the other probabilities up to 1, so that a loop followed by anything else seems probable.) Targets that
    break these rules are left out, and sources with fewer than `needed` targets. Any thread may call this: it does not
    use the model.
    """
    needed = beam if needed is None else needed
    results: dict[int, list[Hypothesis]] = {}
    order = sorted(_first(sources).values(), key=lambda n: len(sources[n]))
    size = max(min(sentences, -(-len(order) // engine.workers)), 1)  # a part for each worker
    batches: list[list[int]] = []
    for n in reversed(order):  # the longest first: the last batches, when workers become idle, are the shortest
        if not batches or len(batches[-1]) == size or len(sources[n]) * (len(batches[-1]) + 1) > _MOST_TOKENS:
            batches.append([])
        batches[-1].append(n)
    inputs = ([sources[n] for n in batch] for batch in batches)
    for batch, best in zip(batches, engine.search(inputs, beam=beam, length_penalty=length_penalty), strict=True):
        done = 0
        for n, targets in zip(batch, best, strict=True):
            most = longest_target(len(sources[n]), engine.config.positions)
            ended = [target for target in targets if target.ended and len(target.tokens) < most]
            allowed = [target for target in ended if not loops(sources[n], target.tokens)]
            if len(allowed) >= needed:
                results[n] = allowed
                done += len(sources[n])
        if advance is not None:
            advance(done)
    return results
