"""`Estimates`: what many changes would do to an answer, from the gradient of one run; the largest are run.

The gradient of the answer by the output of a head, times how that output would change, estimates an effect: attribution
patching. For queries, keys, patterns and links the changed output is computed with its softmax (AtP*, Kramár et al.
2024), as the slope of a softmax is 0 where a head is saturated. Each is one more attention of the layer, by the same
code that changes a model which runs, so that no queries × keys numbers are stored.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from rich.text import Text
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from regard.drawing import Picture, lines
from regard.drawing.svg import Canvas, measure
from regard.drawing.terminal import html_table, percent, visible
from regard.errors import WatchError
from regard.support import Float
from regard.watching.capture.activations import Activation, Activations, Replacement, put_inputs, put_output
from regard.watching.capture.calls import AttentionCall, replaced
from regard.watching.capture.links import END, Changes, LocatedLink, Seen, Without
from regard.watching.questions.looks import Answer

_BAR = 150.0  # pixels of the largest number
_LINES, _ROWS, _NAME = 10, 20, 40  # at most: printed lines, rows of a table or picture, terminal cells of a name
FROZEN = (
    "An estimate takes the model after the changed head as a straight line. It leaves out that later heads may make "
    "up for the change, and what several changes do together."
)


class Estimated(NamedTuple):
    """A change, and by how many nats it moves the answer: as estimated and, where it was run, as it is."""

    name: str
    estimate: float
    true: float | None = None
    layer: int | None = None
    head: int | None = None
    start: str = ""  # of a link: the words that look
    end: str = ""  # and those that are looked at


@dataclass(frozen=True, repr=False)
class Estimates(Answer[Estimated]):
    """How far each of many changes would move an answer, the largest estimate first; the first of them were run.

    The answer is the log-probability of a token, or the difference of two logits. Without a head that carries the
    answer it falls: a negative number.

    >>> items = Estimated("layer 5 head 0", -2.5, -2.0, 5, 0), Estimated("layer 1 head 3", 0.5, 0.25, 1, 3)
    >>> print(Estimates("without each head", items, "' hungry'", 0.29))
    without each head: how far ' hungry' (29 %) moves, in nats
                    estimate   true
    layer 5 head 0     -2.50  -2.00
    layer 1 head 3     +0.50  +0.25
    """

    about: str
    items: tuple[Estimated, ...]
    answer: str
    before: float  # the probability of the answer
    words: tuple[tuple[str, ...], tuple[str, ...]] = field(default=((), ()))  # of the links: their starts, their ends

    @property
    def correlation(self) -> float | None:
        """The correlation (Pearson) of estimates and true effects, where at least three were run and they differ."""
        pairs = np.array([(each.estimate, each.true) for each in self if each.true is not None])
        if len(pairs) < 3 or not pairs.std(0).all():
            return None
        return float(np.corrcoef(pairs.T)[0, 1])

    def __str__(self) -> str:
        names = [visible(each.name, _NAME) for each in self[:_LINES]]
        width = max(map(len, names), default=0)
        rows = [f"{n:<{width}}  {each.estimate:>+8.2f} {_true(each):>6}" for n, each in zip(names, self, strict=False)]
        more = [f"… and {len(self) - _LINES:,} more"] if len(self) > _LINES else []
        caption, *checked = self._caption
        return "\n".join([caption, f"{'':<{width}}  estimate   true", *map(str.rstrip, rows), *more, *checked])

    @property
    def _caption(self) -> list[str]:
        caption = f"{self.about}: how far {visible(self.answer, _NAME)} ({percent(self.before)}) moves, in nats"
        count, correlation = sum(each.true is not None for each in self), self.correlation
        checked = f"correlation of the {count} that were run: {correlation:.2f}" if correlation is not None else ""
        return [each for each in (caption, checked) if each]

    def _repr_html_(self) -> str:
        rows = [(each.name, f"{each.estimate:+.3f}", _true(each, 3)) for each in self[:_ROWS]]
        caption = ". ".join(self._caption)
        return html_table(rows, ("", "estimate", "true"), caption=caption, more=len(self) - _ROWS)

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as values that JSON has."""
        items = [each._asdict() for each in self]
        return vars(self) | {"items": items, "correlation": self.correlation, "frozen": FROZEN}

    def picture(self, title: str = "") -> Picture:
        """Draw the links that were run over the words, and below them each change: its estimate, and as it is."""
        shown = [each for each in self if each.true is not None][:_ROWS] or self[:_ROWS]
        numbers = np.array([(each.estimate, math.nan if each.true is None else each.true) for each in shown])
        weights = np.zeros([len(side) for side in self.words])
        for each in (each for each in shown if each.start):
            place = self.words[0].index(each.start), self.words[1].index(each.end)
            weights[place] = abs(each.estimate if each.true is None else each.true)
        layout = "arcs" if self.words[0] == self.words[1] else "rows"
        above = lines(weights / weights.max(), *self.words, layout=layout) if weights.any() else None
        largest = np.nanmax(np.abs(numbers), initial=1e-9)

        def draw(canvas: Canvas) -> None:
            if above is not None:
                above.draw(canvas)
            theme, top = canvas.theme, canvas.height + 26
            zero = max((measure(each.name, 13) for each in shown), default=0.0) + 24 + _BAR
            for n, word in enumerate(("estimate", "true")):
                left, colour = zero - _BAR + 84 * n, theme.colours[1 - n]
                canvas.rect(left, top - 10, 12, 8, fill=colour)
                canvas.text(left + 17, top - 2, word, 12, fill=theme.muted)
                for row, x in enumerate(np.nan_to_num(numbers[:, n]) / largest * _BAR):
                    about = f"{shown[row].name}, {word}: {numbers[row, n]:+.3g}"
                    canvas.rect(zero + min(x, 0), top + 14 + 26 * row + 9 * n, abs(x), 8, fill=colour, title=about)
            for row, each in enumerate(shown):
                canvas.text(zero - _BAR - 12, top + 27 + 26 * row, each.name, 13, anchor="end")
                words = _true(each) or f"{each.estimate:+.2f}"
                canvas.text(zero + _BAR + 10, top + 27 + 26 * row, words, 12, fill=theme.muted)
            canvas.line(zero, top + 8, zero, top + 14 + 26 * len(shown), theme.muted)

        caption = ". ".join([*self._caption, FROZEN])
        return Picture("estimates", {"numbers": numbers}, draw, lambda _: Text(str(self)), title, caption)


def _true(each: Estimated, digits: int = 2) -> str:
    return "" if each.true is None else f"{each.true:+.{digits}f}"


# What changes

Joined = Mapping[str, tuple[Mapping[str, range], Mapping[str, range]]]  # by kind: spans of queries, spans of keys


class Variant(NamedTuple):
    """A change: a part of some heads of a module; a link; or anything else that a model can run without."""

    name: str
    layer: int | None = None
    head: int | None = None
    module: str = ""
    part: str = ""
    heads: Sequence[int] = ()
    without: Without = ()
    link: tuple[str, ...] = ()  # its kind, start and end

    @property
    def removed(self) -> Without:
        """What the model runs without."""
        return {self.module: self.heads} if self.part else self.without

    def replaced(self, source: Activations, seen: Mapping[str, Seen], text: int) -> Iterator[tuple[str, Replacement]]:
        """Yield what replaces the heads in a text of a batch."""
        for name in (name for name in seen if name.partition("#")[0] == self.module):
            for each in source.of_heads(name, Activation(self.part), self.heads, seen):
                yield name, each._replace(text=text)


# One run with a gradient


class Slopes:
    """Hears a run that keeps its graph, and sums the gradient of its answer × the change of outputs, layer by layer."""

    modules = ()  # whose outputs it hears

    def __init__(self, model: nn.Module, renormalise: bool):
        self._model, self._renormalise = model, renormalise
        self._leaves: list[Tensor] = []

    def __call__(self, name: str, call: AttentionCall, value: Tensor, output: Tensor) -> Tensor:
        """Keep a call until the gradient of its output comes."""
        if not output.requires_grad:
            output = output.detach().requires_grad_()
            self._leaves.append(output)
        output.register_hook(partial(self._take, name, call.detach(), value.detach(), output.detach()))  # type: ignore[no-untyped-call]
        return output

    def backward(
        self, answer: Callable[[], Tensor], seen: Mapping[str, Seen], modules: Collection[str],
        variants: Sequence[Variant], source: Activations | None, joined: Joined,
    ) -> list[float]:  # fmt: skip
        """Return the estimate of each variant, by the gradient of the answer of the run that was heard."""
        self._seen, self._modules, self._source, self._joined = seen, modules, source, joined
        self._parts = {(each.part, each.module) for each in variants if each.part}
        self._heads: dict[tuple[str, str], Tensor] = {}  # by part and module: one number for each head
        self._links: defaultdict[tuple[str, ...], float] = defaultdict(float)
        self._others = {n: (Changes(seen), 0.0) for n, each in enumerate(variants) if not (each.part or each.link)}
        for n, (changes, _) in self._others.items():
            changes.add(variants[n].without, renormalise=self._renormalise)
        with graph_of_activations(self._model):  # modules that are computed again
            torch.autograd.grad(answer(), self._leaves, allow_unused=True)
        for changes, _ in self._others.values():
            if message := changes.unapplied():
                raise WatchError(message)
        return [self._estimate(n, each) for n, each in enumerate(variants)]

    def _estimate(self, n: int, variant: Variant) -> float:
        if not variant.part:
            return self._links[variant.link] if variant.link else self._others[n][1]
        sums = self._heads.get((variant.part, variant.module))
        return 0.0 if sums is None else float(sums[[*variant.heads]].sum())  # None: not in the graph of the answer

    @torch.no_grad()
    def _take(self, name: str, call: AttentionCall, value: Tensor, output: Tensor, gradient: Tensor) -> None:
        """Add what the gradient of an output tells."""
        module, seen = name.partition("#")[0], self._seen[name]

        def moved(after: Tensor) -> Float[Tensor, "heads queries"]:
            dot: Tensor = torch.linalg.vecdot(*(x[0].to(wide(x.dtype)) for x in (after - output, gradient)))
            return dot

        for part in {part for part, where in self._parts if where == module}:
            after = torch.zeros_like(output)
            if self._source is not None:
                put = self._source.of_heads(name, Activation(part), range(output.shape[1]), self._seen)
                changed, values = put_inputs(put, call, value)
                after = put_output(put, call, output if part == "output" else changed.attend(values)[0])
            self._heads[part, module] = self._heads.get((part, module), 0.0) + moved(after).sum(-1).cpu()
        starts, ends = self._joined.get(seen.kind, ({}, {})) if module in self._modules else ({}, {})
        for end, columns in ends.items():
            keys = tuple(seen.sides[1][0].in_row(columns))
            cut = LocatedLink((range(END),), keys, None, None, -math.inf, zeroed=not self._renormalise)
            rows = moved(call.changed((cut,)).attend(value)[0]).sum(0).cpu()
            for start, tokens in starts.items():
                runs = seen.sides[0][0].in_row(tokens)
                self._links[seen.kind, start, end] += sum(float(rows[run.start : run.stop].sum()) for run in runs)
        for n, (changes, total) in self._others.items():
            located = changes.located(module, seen, call.heads)
            after = call.changed(located).attend(value)[0] if located else output
            after = changes.without_heads(module, after, call.all_heads, call.heads)
            self._others[n] = changes, total + float(moved(after).sum())


def wide(dtype: torch.dtype) -> torch.dtype:
    """Return float32, or float64 for float64."""
    return torch.promote_types(dtype, torch.float32)


@contextmanager
def graph_of_activations(model: nn.Module, attends: Callable[[nn.Module], bool] = lambda _: True) -> Iterator[None]:
    """Let a forward keep the graph of its activations, not of its parameters, in little memory.

    Modules that do not contain any that `attends`, such as feed-forward layers, keep their inputs only, and are
    computed again.
    """
    with ExitStack() as undo:
        for parameter in model.parameters():
            undo.callback(parameter.requires_grad_, parameter.requires_grad)
            parameter.requires_grad_(False)
        for module in _without_attention(model, attends):
            again = partial(partial, checkpoint, use_reentrant=False, preserve_rng_state=False)
            undo.enter_context(replaced(module, "forward", again))
        undo.enter_context(torch.inference_mode(False))
        undo.enter_context(torch.enable_grad())
        yield


def _without_attention(model: nn.Module, attends: Callable[[nn.Module], bool]) -> Iterator[nn.Module]:
    """Yield the largest modules with parameters that contain no attention, but for single linear layers."""
    for child in model.children():
        if isinstance(child, nn.ModuleList) or any(map(attends, child.modules())):
            yield from _without_attention(child, attends)
        elif not isinstance(child, nn.Linear | nn.Embedding) and any(True for _ in child.parameters()):
            yield child
