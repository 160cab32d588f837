"""Regard's own layers, and yours that call their attention as they do: `attend` is replaced while they are watched."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from regard.errors import WatchError
from regard.matrix import attention
from regard.scores import Atom, Band, Mask, as_mask
from regard.watching import registry
from regard.watching.calls import AttentionCall
from regard.watching.masks import Pattern

__all__ = ["WatchedAttend"]


class WatchedAttend:
    """Replaces `attend` in one of our modules while it is watched."""

    def __deepcopy__(self, _: Any) -> Callable[..., Tensor]:
        return self._original  # a copy is not watched

    def __init__(self, module: nn.Module, name: str, original: Callable[..., Tensor]):
        self._module, self._original = module, original
        self._kind = str(getattr(module, "kind", "cross" if "cross" in name else "encoder"))

    def __call__(
        self, query: Tensor, key: Tensor, value: Tensor, *, mask: Mask | Tensor | None = None,
        scale: float | None = None, softcap: float | None = None, sinks: Tensor | float | None = None,
        dropout: float = 0.0,
    ) -> Tensor:  # fmt: skip
        """What `attend` returns, without what the watchers take out."""
        call = _our_call(self._kind, query, key, as_mask(mask), scale, softcap, sinks)
        batched, watchers = query.dim() == 4, registry.watchers(self._module)
        for watcher, name in watchers:
            call = watcher.change(name, call)
        if self._original is attention or call.zeroed.atoms:
            output, matrix = call.attend(value if batched or value.dim() < 3 else value[None], dropout)
        else:
            options = {"mask": call.mask, "scale": scale, "softcap": softcap, "sinks": sinks, "dropout": dropout}
            output, matrix = self._original(query, key, value, **options), call.matrix()
            output = output if batched else output[None]
        for watcher, name in watchers:
            output = watcher.observe(name, call, matrix, output, value if batched or value.dim() < 3 else value[None])
        return output if batched else output[0]


def _our_call(
    kind: str, query: Tensor, key: Tensor, mask: Mask, scale: float | None, softcap: float | None,
    sinks: Tensor | float | None,
) -> AttentionCall:  # fmt: skip
    """A call of our own layers, with a batch axis and in positions of the whole text."""
    if query.dim() == 3:
        query, key = query[None], key[None]
    if query.dim() != 4:
        raise WatchError(f"watch reads queries (batch, heads, queries, width). Got shape {tuple(query.shape)}.")
    queries, keys = query.shape[2], key.shape[2]
    first = keys - queries if kind == "decoder" and keys > queries else 0  # the earlier keys come from a cache
    bands: list[tuple[int | None, int | None]] = []
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
    positions = range(first, first + queries), range(keys)
    parts = Pattern(tuple(bands)), Mask(tuple(others))
    return AttentionCall(query, key, mask, scale, softcap, sinks, kind, *positions, *parts)
