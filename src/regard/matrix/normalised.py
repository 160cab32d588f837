"""`NormalisedScores`: scores and the normaliser of each row, which together determine the weights.

They are the core of an `AttentionMatrix`: 4-D, (batch, heads, queries, keys), without the user's axes. The normaliser
is computed when a result needs it, and cached.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard import backends
from regard.backends import Attend, LogSumExp, Pool, Received, Reduction, Request, Result, Top
from regard.errors import ModifiedInPlaceError
from regard.scores import BoundMask, Mask, Positions, Scores, as_range, pick
from regard.support import Float, Int, no_compile

_POINTS = 2**16  # single points computed at a time
_LOG2E = math.log2(math.e)


class Source(NamedTuple):
    """An input tensor of the user, and its version counter when the matrix was made."""

    name: str
    tensor: Tensor
    version: int

    @classmethod
    def of(cls, **tensors: Tensor) -> list[Source]:
        """The sources of these tensors, without tensors made in inference mode: they have no version counter."""
        return [cls(name, tensor, tensor._version) for name, tensor in tensors.items() if not tensor.is_inference()]

    @classmethod
    def of_inputs(cls, query: Tensor, key: Tensor, mask: Mask, sinks: Tensor | float | None) -> list[Source]:
        """The inputs of a matrix, named as in its signature."""
        tensors = {"query": query, "key": key} | {f"mask ({n})": tensor for n, tensor in enumerate(mask.tensors)}
        return cls.of(**tensors | ({"sinks": sinks} if isinstance(sinks, Tensor) else {}))


def check_sources(sources: Sequence[Source], matrix: str = "AttentionMatrix") -> None:
    """Raise if a source was modified in place since its matrix was made."""
    for name, tensor, version in sources:
        if tensor._version != version:
            raise ModifiedInPlaceError(
                f"{name} was changed in place after this {matrix} was made, so its numbers would no longer "
                f"agree. Make a new {matrix}, or hand in a copy: {name.split()[0]}.clone()."
            )


class NormalisedScores:
    """Scores with the logsumexp of each row over *all* its keys, of which the scores may be a part."""

    def __init__(
        self, scores: Scores, sources: Sequence[Source], row_scores: Scores | None = None, lse: Tensor | None = None
    ):
        self.scores = scores
        self.row_scores = scores if row_scores is None else row_scores  # the same rows over all keys
        self.sources = list(sources)
        self._lse = lse
        self._kernel_lse: Tensor | None = None  # from a kernel, not yet known to be precise enough
        self._detached: Scores | None = None

    @property
    def has_all_keys(self) -> bool:
        """Whether the scores cover all keys of their rows, so that a product computes the normaliser itself."""
        return self.scores is self.row_scores

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """(batch, heads, queries, keys)."""
        return self.scores.shape

    @property
    def sinks(self) -> Tensor | None:
        """The sinks that the normaliser counts: (batch, heads)."""
        return self.row_scores.sinks

    def check_sources(self) -> None:
        """Raise if an input was modified in place."""
        check_sources(self.sources)

    def __getstate__(self) -> dict[str, Any]:
        self.check_sources()
        return vars(self) | {"_detached": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self.sources = [Source(name, tensor, tensor._version) for name, tensor, _ in self.sources]  # copies count anew

    @property
    def data(self) -> Scores:
        """The scores outside any graph; the same object every time, unless its keys had to be copied."""
        if self._detached is not None:
            return self._detached
        data = self.scores.detached()
        if data.unseen is None:
            self._detached = data
        return data

    # The normaliser

    @no_compile
    def lse(self) -> Float[Tensor, "batch heads queries"]:
        """The normaliser as data, computed once; float64 unless it is a kernel's and float32 is precise enough."""
        if not self.knows_lse():
            with torch.no_grad():
                self._lse = backends.logsumexp(self.row_scores.detached())
        assert self._lse is not None
        if self._lse.is_inference() and not torch.is_inference_mode_enabled():
            self._lse = self._lse.clone()  # tensors made in inference mode cannot be saved for backward
        return self._lse

    def knows_lse(self) -> bool:
        """Whether the normaliser was computed already, or a kernel returned it with sufficient precision."""
        if self._lse is None and self._kernel_lse is not None:
            if backends.trusted(self._kernel_lse, self.scores.query.dtype):
                self._lse = self._kernel_lse
            self._kernel_lse = None  # checked once
        return self._lse is not None

    @no_compile
    def normaliser(self) -> Float[Tensor, "batch heads queries"]:
        """The normaliser as a differentiable function of all queries and keys."""
        self.check_sources()
        lse = self.lse()
        if torch.is_grad_enabled() and self.row_scores.requires_grad:
            return backends.differentiable(LogSumExp(), self.row_scores, lse)[0]
        return lse

    # Results

    @no_compile
    def compute(self, request: Request) -> Tensor:
        """The result of a request other than `Top`; differentiable where gradients are recorded, except a maximum."""
        self.check_sources()
        if isinstance(request, Attend):
            if request.operand.shape[1] != self.scores.key.shape[1]:
                return per_member(self, request, NormalisedScores.compute)
        elif isinstance(request, Received | Pool) and request.reduce == "max":
            (maxima,) = self.reduce(request)
            assert isinstance(maxima, Tensor)
            return maxima
        outer = None if self.has_all_keys else self.normaliser()
        lse = self._lse if isinstance(request, Attend) and outer is None else self.lse()  # a product computes it
        from_operand = request.operand is not None and request.operand.requires_grad
        from_outer = outer is not None and outer.requires_grad
        if torch.is_grad_enabled() and (from_operand or from_outer or self.scores.requires_grad):
            result, lse = backends.differentiable(request, self.scores, lse, outer)
        else:
            data = self.data
            if outer is not None:
                data, lse = replace(data, sinks=None), outer
            with torch.no_grad():
                result, lse = backends.compute(data, request, lse, outer=outer is not None)
        if self._lse is None:
            self._kernel_lse = lse
        return result

    @no_compile
    def reduce(self, *requests: Reduction) -> list[Result]:
        """Several reductions in as few passes as possible, without gradient."""
        self.check_sources()
        with torch.no_grad():
            return backends.reduce(self.data, self.lse(), requests)

    @no_compile
    def largest_score(self, negated: bool = False) -> Float[Tensor, "batch heads queries"]:
        """The largest masked score of each row, or of the negated scores, as data; -inf where a row sees no key.

        It is logsumexp + log(largest weight). Both are those of the visible keys alone: beside a large sink, or beside
        keys outside of a part, the largest weight would underflow.
        """
        self.check_sources()
        own = self.has_all_keys and self.sinks is None and not negated
        scores = self.data.negated() if negated else replace(self.data, sinks=None)
        with torch.no_grad():
            lse = self.lse() if own else backends.logsumexp(scores)
            if scores.shape[3]:
                lse = largest_score(lse, backends.reduce(scores, lse, [Top(1)])[0])
        return lse.to(scores.working_dtype, copy=True)

    # Parts and single numbers

    def select(
        self, batch: Sequence[int], heads: Sequence[int], rows: Positions, columns: Positions
    ) -> NormalisedScores:
        """Some batches, heads, rows and columns, each row still normalised over all its keys."""
        part = self.scores.select(batch, heads, rows, columns)
        all_keys = range(self.row_scores.shape[3])
        keeps_all = self.has_all_keys and isinstance(columns, range) and columns == all_keys
        row_scores = part if keeps_all else self.row_scores.select(batch, heads, rows, all_keys)
        lse = None
        if self.knows_lse():
            known = self.lse()
            lse = pick(pick(pick(known, 0, as_range(batch, known)), 1, as_range(heads, known)), 2, rows)
        return NormalisedScores(part, self.sources, row_scores, lse)

    def where(self, mask: BoundMask, sources: Sequence[Source]) -> NormalisedScores:
        """The same scores with more keys hidden, each row still normalised over the keys that it saw before."""
        scores = replace(self.scores, mask=self.scores.mask & mask)
        lse = self.lse() if self.knows_lse() else None
        return NormalisedScores(scores, [*self.sources, *sources], self.row_scores, lse)

    def in_dtype(self, dtype: torch.dtype) -> NormalisedScores:
        """The same queries and keys in another dtype, outside any graph."""

        def cast(scores: Scores) -> Scores:
            return replace(scores, query=scores.query.detach().to(dtype), key=scores.key.detach().to(dtype))

        scores = cast(self.scores)
        return NormalisedScores(scores, self.sources, scores if self.has_all_keys else cast(self.row_scores))

    def normalised_by(self, lse: Float[Tensor, "batch heads queries"]) -> NormalisedScores:
        """The same scores with a known normaliser."""
        return NormalisedScores(self.scores, self.sources, self.row_scores, lse)

    def detach(self) -> NormalisedScores:
        """The same numbers outside any graph; nothing is copied."""
        scores = without_graph(self.scores)
        row_scores = scores if self.has_all_keys else without_graph(self.row_scores)
        sources = [source._replace(tensor=source.tensor.detach()) for source in self.sources]
        detached = NormalisedScores(scores, sources, row_scores, self._lse)
        detached._kernel_lse = self._kernel_lse
        return detached

    def dense(self, stage: str) -> Float[Tensor, "batch heads queries keys"]:
        """All of one stage, or of the "weights", as a tensor."""
        scores = self.scores
        if stage != "weights":
            return scores.stage(stage).to(scores.query.dtype)
        lse = None if self.has_all_keys else self.normaliser()
        if torch.is_grad_enabled() and scores.requires_grad:
            return dense_weights(scores, lse).to(scores.query.dtype)
        with torch.no_grad():
            from_kernel = backends.dense(scores, self.lse)
        if from_kernel is not None:
            return from_kernel
        dense = scores.query.new_empty(scores.shape)
        batch, heads, queries, keys = scores.shape
        rows = max(2**22 // max(batch * heads * keys, 1), 1)
        for start in range(0, queries, rows):
            stop = min(start + rows, queries)
            block = scores.select(range(batch), range(heads), range(start, stop), range(keys))
            dense[:, :, start:stop] = dense_weights(block, None if lse is None else lse[:, :, start:stop])
        return dense

    @no_compile
    def points(self, stage: str, index: Sequence[Int[Tensor, " n"]]) -> Float[Tensor, " n"]:
        """One stage, or the "weights", at single points: index tensors of batches, heads, rows and columns."""
        lse = self.normaliser() if stage == "weights" else None
        pieces = [self.scores.query.new_zeros(0)]
        for batch, head, row, column in zip(*(torch.split(axis, _POINTS) for axis in index), strict=True):
            values = self.scores.points("masked" if lse is not None else stage, (batch, head, row, column))
            pieces.append(values if lse is None else _normalised(values, lse[batch, head, row]))
        return torch.cat(pieces).to(self.scores.query.dtype)


def per_member(core: Any, request: Attend, compute: Callable[[Any, Attend], Tensor]) -> Tensor:
    """A product with values per query head: one pass for each member of a group, so that keys stay shared."""
    batch, heads, queries, keys = (range(n) for n in core.shape)
    group, outputs = core.scores.group, []
    for member in range(group):
        part = core.select(batch, heads[member::group], queries, keys)
        # Each head drops other weights.
        dropout = request.dropout and replace(request.dropout, seed=request.dropout.seed + (member << 20))
        outputs.append(compute(part, Attend(request.operand[:, member::group], dropout)))
    return torch.stack(outputs, 2).flatten(1, 2)


def largest_score(lse: Float[Tensor, "batch heads queries"], top: Result) -> Float[Tensor, "batch heads queries"]:
    """The largest score of each row, from its largest weights; the sinks must be absent from the normaliser."""
    return lse + top[0][..., 0].to(lse.dtype).log()


def without_graph(scores: Scores) -> Scores:
    """The same numbers outside any graph; unlike in `Scores.detached`, nothing is copied."""
    sinks = None if scores.sinks is None else scores.sinks.detach()
    mask = scores.mask.each(Tensor.detach)
    return replace(scores, query=scores.query.detach(), key=scores.key.detach(), mask=mask, sinks=sinks)


def dense_weights(scores: Scores, lse: Tensor | None = None) -> Tensor:
    """Dense weights, differentiable, 0 in a row that sees no key: by softmax, or by the normaliser of more keys."""
    masked = scores.stage("masked")
    if lse is not None:
        return _normalised(masked, lse[..., None])
    if scores.sinks is not None:
        sink = scores.sinks.to(masked.dtype)[..., None, None].expand(*masked.shape[:-1], 1)
        masked = torch.cat([masked, sink], -1)
    elif not scores.mask:
        return torch.softmax(masked, -1)
    empty = (masked == -math.inf).all(-1, keepdim=True)
    return torch.softmax(masked.masked_fill(empty, 0.0), -1).masked_fill(empty, 0.0)[..., : scores.shape[3]]


def _normalised(masked: Tensor, lse: Tensor) -> Tensor:
    """exp(masked - lse), 0 in a row that sees no key; by exp2, which does not slow down where it underflows."""
    return torch.exp2((masked - lse.masked_fill(lse == -math.inf, 0.0)) * _LOG2E)
