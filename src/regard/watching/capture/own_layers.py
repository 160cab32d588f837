"""Calls of `regard.attention` and of `A @ value`; regard's own layers call `attend`, which is replaced."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from regard.matrix import AttentionMatrix
from regard.scores import Atom, Band, Mask, as_mask
from regard.watching.capture import events
from regard.watching.capture.calls import AttentionCall, names_another_sequence
from regard.watching.capture.events import Watchers
from regard.watching.capture.masks import Bounds, Pattern

_KINDS = ("encoder", "decoder", "cross")


class WatchedAttend:
    """Replaces `attend` in one of regard's layers while it is watched."""

    def __init__(self, module: nn.Module, name: str, original: Callable[..., Tensor]):
        self._module, self._name, self.original = module, name, original

    def __deepcopy__(self, _: Any) -> Callable[..., Tensor]:
        return self.original  # a copy is not watched

    def __call__(self, query: Tensor, key: Tensor, value: Tensor, *, dropout: float = 0.0, **options: Any) -> Tensor:
        """Compute what `attend` returns, without the links and heads that the watchers leave out."""
        watchers, axes = events.watchers(self._module), query.dim()
        if axes > 4 or value.dim() > axes:  # several axes of batches, or several values
            output = self.original(query, key, value, dropout=dropout, **options)
            events.tell(watchers, events.Unseen)
            return output
        mask = as_mask(options.pop("mask", None))
        query, key, value = (t[(None,) * (4 - axes)] if t.dim() == axes else t for t in (query, key, value))
        kind = _kind(self._module, self._name, query, key, mask)
        call = _our_call(kind, query, key, mask, **options)
        output, _ = events.attend(watchers, call, value, lambda: call.attend(value, dropout), dropout)
        return output[(0,) * (4 - axes)]


def matrix_call(
    module: nn.Module, watchers: Watchers, matrix: AttentionMatrix, value: Tensor, original: Callable[[], Tensor]
) -> Tensor:
    """Compute `matrix @ value` in the forward of a module: `original()`, without what the watchers leave out."""
    core, axes = matrix._core, len(matrix.shape)
    if axes > 4 or value.dim() > axes or matrix._whole is not None or not core.has_all_keys:  # or a part of a matrix
        output = original()
        events.tell(watchers, events.Unseen)
        return output
    query, key, mask, scores = core.scores.query, core.scores.key, matrix._mask, core.scores
    kind = _kind(module, watchers[0][1], query, key, mask)
    call = _our_call(kind, query, key, mask, scores.sinks, scale=scores.scale, softcap=scores.softcap)
    value = value[(None,) * (4 - axes)] if value.dim() == axes else value

    def compute() -> tuple[Tensor, AttentionMatrix]:
        return original()[(None,) * (4 - axes)], call.matrix() if axes < 4 else matrix

    output, _ = events.attend(watchers, call, value, compute)
    return output[(0,) * (4 - axes)]


def _kind(module: nn.Module, name: str, query: Tensor, key: Tensor, mask: Mask) -> str:
    """Return the kind of a module's attention: as the module says, or by its name, its mask and its lengths."""
    kind = getattr(module, "kind", None)
    if kind in _KINDS:
        return str(kind)
    if any(isinstance(atom, Band) and atom.highest is not None for atom in mask.atoms):
        return "decoder"
    return "cross" if names_another_sequence(name) or query.shape[2] != key.shape[2] else "encoder"


def _our_call(
    kind: str, query: Tensor, key: Tensor, mask: Mask, sinks: Tensor | float | None = None, **options: Any
) -> AttentionCall:
    """Return a call of `regard.attention` with a batch and a head axis, in positions of the whole text."""
    queries, keys = query.shape[2], key.shape[2]
    first = keys - queries if kind == "decoder" and keys > queries else 0  # the earlier keys come from a cache
    bands: list[Bounds] = []
    others: list[Atom] = []
    for atom in mask.atoms:
        if isinstance(atom, Band) and isinstance(atom.offset, int):
            shift = atom.offset - first
            bands.append(tuple(None if edge is None else edge + shift for edge in (atom.lowest, atom.highest)))  # type: ignore[arg-type]
        else:
            others.append(atom)
    if kind == "decoder" and queries == 1:  # a step needs no mask, but the matrix of all steps does
        bands.append((None, 0))
    sinks = sinks if sinks is None or isinstance(sinks, Tensor) else query.new_tensor(sinks)
    return AttentionCall(
        query, key, mask, sinks=sinks, kind=kind, queries=range(first, first + queries), keys=range(keys),
        pattern=Pattern(tuple(bands)), dense=Mask(tuple(others)), **options,
    )  # fmt: skip
