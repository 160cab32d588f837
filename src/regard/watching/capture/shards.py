"""Heads on several ranks: in tensor parallel each rank computes some heads of a layer, and records those.

`shard_of` says which ones, by the numbers that they have in the whole layer; `gathered` brings all of them to one rank.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, distributed, nn

from regard.errors import WatchError
from regard.matrix import Top
from regard.scores import Atom, Cut, Dense, Mask

if TYPE_CHECKING:
    from regard.watching.record.entries import Entry

__all__ = ["Shard", "gathered", "shard_of"]

_AVAILABLE = distributed.is_available()


@dataclass(frozen=True, eq=False)
class Shard:
    """A run of heads of a layer, the others of which are computed by other ranks.

    >>> print(Shard(first=4, heads=8))
    the heads from 4 on, of 8
    """

    first: int  # the number of its first head
    heads: int  # of the whole layer
    group: Any = None  # the ranks that have them, as torch.distributed knows them; None in a record from a file

    def __str__(self) -> str:
        return f"the heads from {self.first} on, of {self.heads}"


def shard_of(module: nn.Module, name: str, heads: int) -> Shard | None:
    """Which heads of a module this rank computes, if it computes `heads` of them; None: all that there are."""
    if not (_AVAILABLE and distributed.is_initialized()):
        return None
    from torch.distributed.tensor import DTensor

    for parameter in module.parameters():
        placements = parameter.placements if isinstance(parameter, DTensor) else ()
        for axis, placement in enumerate(placements):
            if not placement.is_shard(0):  # the rows of a projection to heads; of the one from heads, the columns
                continue
            assert isinstance(parameter, DTensor)
            mesh = parameter.device_mesh
            declared = getattr(getattr(module, "config", None), "num_attention_heads", None)
            if declared == heads:  # they were gathered before the attention
                return None
            if declared not in (None, heads * mesh.size(axis)):
                raise WatchError(
                    f"{name}: this rank has {heads} of {declared} heads, which {mesh.size(axis)} ranks share. What the "
                    "others have is not known, nor the numbers of these. Share the heads evenly: tp_size must divide "
                    "them."
                )
            return Shard(mesh.get_local_rank(axis) * heads, mesh.size(axis) * heads, mesh.get_group(axis))
    return None


def gathered(entries: Mapping[str, Entry]) -> dict[str, Entry] | None:
    """Entries with all heads on the first rank of their group, None on the others; every rank must take part."""
    found = {name: entry if entry.shard is None else _whole(entry, entry.shard) for name, entry in entries.items()}
    whole = {name: entry for name, entry in found.items() if entry is not None}
    return whole if len(whole) == len(found) else None


def _whole(entry: Entry, shard: Shard) -> Entry | None:
    """An entry with the heads of all ranks; None for all ranks but the first."""
    if shard.group is None:
        raise WatchError(f"{entry.name} has {shard}, from a file: the other ranks are gone. Gather before saving.")
    if entry.shape[1] * distributed.get_world_size(shard.group) != shard.heads:
        raise WatchError(f"{entry.name} has only some heads of this rank. Gather the whole record, then choose heads.")
    call, reductions = entry.call, entry.reductions
    if call is not None and any(isinstance(a, Cut) and a.heads is not None for a in (call.mask & call.zeroed).atoms):
        raise WatchError(f"{entry.name}: links were cut or steered in some heads, which cannot be gathered.")
    shape = (entry.shape[0], shard.heads, *entry.shape[2:])
    about: dict[str, Any] = {"shape": shape, "first_head": 0, "shard": None}
    if call is not None:
        parts: dict[str, Any] = {"query": _joined(call.query, 1, shard), "key": _joined(call.key, 1, shard)}
        if call.sinks is not None and call.sinks.dim():
            parts["sinks"] = _joined(call.sinks, -1, shard)
        atoms = [_joined_atom(atom, shard) for atom in call.mask.atoms]
        if parts["query"] is None:
            return None
        call = replace(call, mask=Mask(tuple(atoms)), shard=None, **parts)  # type: ignore[arg-type]
        return replace(entry, call=call, attention=call.matrix(), **about)
    assert reductions is not None
    kept: Any = {}
    for name, value in reductions.items():
        tensors = value if isinstance(value, Top) else (value,)
        joined = [_joined(tensor, 1, shard) for tensor in tensors]  # type: ignore[arg-type, union-attr]
        kept[name] = Top(*joined) if isinstance(value, Top) else joined[0]  # type: ignore[arg-type]
    return replace(entry, reductions=kept, **about) if distributed.get_rank(shard.group) == 0 else None


def _joined_atom(atom: Atom, shard: Shard) -> Atom | None:
    """A part of a mask for all heads: the same, unless it has numbers for each head."""
    if not isinstance(atom, Dense) or atom.tensor.dim() < 3 or atom.tensor.shape[-3] == 1:
        return atom
    tensor = _joined(atom.tensor, -3, shard)
    return None if tensor is None else Dense(tensor)


def _joined(tensor: Tensor, axis: int, shard: Shard) -> Tensor | None:
    """The tensors of all ranks side by side, on the first of them."""
    # As bytes: gloo knows fewer types of numbers than torch.
    own = tensor.detach().contiguous()
    first = distributed.get_rank(shard.group) == 0
    parts = [torch.empty_like(own) for _ in range(distributed.get_world_size(shard.group))] if first else None
    into = None if parts is None else [part.view(-1).view(torch.uint8) for part in parts]
    distributed.gather(own.view(-1).view(torch.uint8), into, group=shard.group, group_dst=0)
    return None if parts is None else torch.cat(parts, axis)
