"""A beam search as the hypotheses that it found, each a text of its own.

The rows of a step are the beams as they ran; after it some of them end and others fork. In the end transformers tells,
for each hypothesis and step, in which row its token was computed: queries, and the keys that a step added, are gathered
along each hypothesis.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from regard.errors import WatchError
from regard.scores import Dense, Mask, cut, padding
from regard.support import Int
from regard.watching.capture.calls import AttentionCall, Step, dense_rows, joined_mask
from regard.watching.capture.links import LocatedLink
from regard.watching.capture.masks import Pattern

__all__ = ["BeamSteps", "Hypotheses"]


class Hypotheses(NamedTuple):
    """What a beam search found.

    >>> found = Hypotheses(torch.tensor([[0, 1, 0], [2, 3, -1]]), torch.zeros(2, 5), texts=2, beams=2)
    >>> found.of(batch=4, steps=3), found.of(batch=2, steps=1)              # a decoder's steps, and an encoder's call
    (tensor([[0, 1, 0],
            [2, 3, 2]]), tensor([[0],
            [1]]))
    """

    rows: Int[Tensor, "hypotheses steps"]  # in which row of each step; -1 after the end of a hypothesis
    ids: Tensor  # (hypotheses, tokens), with those of the prompt
    texts: int
    beams: int  # of each text

    def of(self, batch: int, steps: int) -> Tensor:
        """For each hypothesis and step, its row in calls with so many; for one that has ended, that of its prompt."""
        rows = self.rows.where(self.rows >= 0, self.rows[:, :1])
        if batch == self.texts:
            return rows[:, :1] // self.beams
        if batch != self.texts * self.beams:  # not of these texts, as windows of an image
            return torch.arange(batch, device=rows.device)[:, None].expand(batch, steps)
        if 1 < steps < rows.shape[1]:
            raise WatchError(
                f"a module was called {steps} times in {rows.shape[1]} steps of a beam search: its rows belong to no "
                "hypothesis. Generate with num_beams=1, or watch model(sequences) on what came out."
            )
        return rows[:, :steps]

    def ended(self, rows: Tensor) -> Tensor:
        """(hypotheses, steps): whether a hypothesis had ended before a step, for rows that `of` gave."""
        if rows.shape[1] == 1 or len(rows) != len(self.rows):
            return torch.zeros(rows.shape, dtype=torch.bool, device=rows.device)
        return self.rows[:, : rows.shape[1]] < 0

    def texts_of(self, steps: list[Tensor]) -> list[Tensor]:
        """Ids that the beams got in each step, as those of the hypotheses."""
        rows = self.of(len(steps[0]), len(steps)).cpu()
        found = torch.cat([step.cpu()[row] for step, row in zip(steps, rows.mT, strict=False)], 1)
        own = self.ids.cpu()[:, : found.shape[1]]  # goes on with padding where a hypothesis has ended
        return [own if rows.shape[1] > 1 and own.shape == found.shape else found]


class BeamSteps:
    """The calls of a module in a beam search, each with the keys that it added."""

    rows = 0  # none that may be reduced before the end

    def __init__(self) -> None:
        self._steps: list[Step] = []
        self._new: list[Tensor] = []
        self._last: AttentionCall | None = None

    def add(self, call: AttentionCall, before: range = range(0)) -> None:
        """A further call; the text had the keys at `before` until now."""
        call = call.detach()
        if call.kind != "cross" or not self._new:  # all beams of a text look at the same other text
            self._new.append(call.key[:, :, max(before.stop - call.keys.start, 0) :].clone())
        self._steps.append(Step(call.query, call.kind, call.queries, call.keys, call.pattern, call.dense))
        self._last = replace(call, query=call.query[:0], key=call.key[:0], mask=Mask())  # the cache is not held

    def check(self) -> None:
        """Nothing can have been rewritten: all is copied."""

    def joined(self) -> AttentionCall:
        """Refused: only the end of the search tells which rows belong together."""
        raise WatchError("the beam search has not ended: which rows belong to one hypothesis is not known yet.")

    def chosen(self, found: Hypotheses | None) -> tuple[AttentionCall, int]:
        """The calls of all hypotheses as one, and how many they were; None: a single call, as the beams ran."""
        assert self._last is not None
        batch = len(self._steps[0].query)
        if found is None:
            found = Hypotheses(torch.arange(batch)[:, None], torch.empty(batch, 0), batch, 1)
        rows = found.of(batch, len(self._steps)).to(self._steps[0].query.device)
        steps = [_selected(step, row) for step, row in zip(self._steps, rows.mT, strict=False)]
        new = [key[row] for key, row in zip(self._new, rows.mT, strict=False)]
        key = new[0] if len(new) == 1 else torch.cat(new, 2)
        queries = range(steps[0].queries.start, steps[-1].queries.stop)
        keys = range(steps[0].keys.start, steps[0].keys.start + key.shape[2])
        mask = joined_mask(steps, queries, keys)
        ended = found.ended(rows.cpu()).to(rows.device)
        if bool(ended.any()):
            counts = torch.tensor([step.query.shape[2] for step in steps], device=rows.device)
            after = ended.repeat_interleave(counts, 1)
            mask &= cut(after)
            if self._last.kind != "cross":
                mask &= padding(~after)
        pattern = steps[-1].pattern
        call = replace(
            self._last, query=torch.cat([step.query for step in steps], 2), key=key, mask=mask, queries=queries,
            keys=keys, pattern=pattern, dense=steps[-1].dense, zeroed=pattern.hidden(queries, keys),
        )  # fmt: skip
        return call, len(steps)


def _selected(step: Step, rows: Tensor) -> Step:
    """These rows of a step."""
    dense = [dense_rows(step, n, step.keys) for n in range(len(step.dense.atoms))]
    atoms = tuple(Dense(_pick(tensor, rows)) for tensor in dense)
    return step._replace(query=step.query[rows], pattern=_of_rows(step.pattern, rows), dense=Mask(atoms))


def _of_rows(pattern: Pattern, rows: Tensor) -> Pattern:
    return replace(
        pattern,
        padding=tuple(_pick(tensor, rows) for tensor in pattern.padding),
        documents=tuple(_pick(tensor, rows) for tensor in pattern.documents),
        links=tuple(_linked(link, rows) for link in pattern.links),
        zeroed=tuple(_linked(link, rows) for link in pattern.zeroed),
    )


def _linked(link: LocatedLink, rows: Tensor) -> LocatedLink:
    queries, keys = (_pick(side, rows) if isinstance(side, Tensor) else side for side in (link.queries, link.keys))
    return replace(link, queries=queries, keys=keys)


def _pick(tensor: Tensor, rows: Tensor) -> Tensor:
    return tensor if len(tensor) == 1 else tensor[rows.to(tensor.device)]
