"""Estimates of what many changes would do to an answer, from the gradient of one run.

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
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from regard.support import Float
from regard.watching.capture.activations import Activation, Activations, put, put_inputs
from regard.watching.capture.calls import AttentionCall, replaced
from regard.watching.capture.links import END, LocatedLink, Seen, Without

FROZEN = (
    "An estimate takes the model after the change as linear. It leaves out that later heads may make up for the "
    "change, and what several changes do together."
)

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


# One run with a gradient


class Slopes:
    """Hears a run that keeps its graph, and sums the gradient of its answer × the change of outputs, layer by layer."""

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
        self._sums: defaultdict[tuple[Any, ...], float] = defaultdict(float)  # by part, module and head; or by link
        with graph_of_activations(self._model):  # modules that are computed again
            torch.autograd.grad(answer(), self._leaves, allow_unused=True)
        return [
            sum(self._sums[each.part, each.module, head] for head in each.heads) or self._sums[each.link]
            for each in variants
        ]

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
                others = self._source.of_heads(name, Activation(part), range(output.shape[1]), self._seen)
                changed, values = put_inputs(others, call, value)
                after = put(others, part, output) if part == "output" else changed.attend(values)[0]
            for head, amount in enumerate(moved(after).sum(-1).tolist()):
                self._sums[part, module, head] += amount
        starts, ends = self._joined.get(seen.kind, ({}, {})) if module in self._modules else ({}, {})
        for end, columns in ends.items():
            keys = tuple(seen.sides[1][0].in_row(columns))
            cut = LocatedLink((range(END),), keys, None, None, -math.inf, zeroed=not self._renormalise)
            rows = moved(call.changed((cut,)).attend(value)[0]).sum(0).cpu()
            for start, tokens in starts.items():
                runs = seen.sides[0][0].in_row(tokens)
                self._sums[seen.kind, start, end] += sum(float(rows[run.start : run.stop].sum()) for run in runs)


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
