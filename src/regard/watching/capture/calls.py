"""`AttentionCall`: one call of an attention function; `Shard`: its heads among those of the layer, in tensor parallel.

In tensor parallel each rank computes some heads of a layer, and records those. `shard_of` finds their numbers in the
whole layer; `gathered` brings the heads of all ranks to one rank.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, distributed, nn

from regard.errors import WatchError
from regard.matrix import AttentionMatrix, Top
from regard.scores import Atom, Cut, Dense, Mask, Positions, Same, bind, documents
from regard.support import Bool, Float
from regard.watching.capture.links import LocatedLink
from regard.watching.capture.masks import Pattern, pick_on, real_keys, within_text
from regard.watching.record.tokens import Detached

if TYPE_CHECKING:
    from regard.watching.record.entries import Entry

__all__ = [
    "AttentionCall",
    "Shard",
    "check_readable",
    "gathered",
    "joined_parts",
    "names_another_sequence",
    "shard_of",
    "to_one_dtype",
]

_NO_PATTERN, _NO_MASK = Pattern(), Mask()
_CROSS = ("cross", "encoder_attn", "encdec", "enc_dec")  # how models name attention to another sequence


@dataclass(frozen=True, eq=False)
class AttentionCall:
    """One call of an attention function, and where its queries and keys lie in the whole text.

    >>> call = AttentionCall(torch.zeros(1, 2, 5, 8), torch.zeros(1, 1, 5, 8), Mask())
    >>> call.matrix().shape
    torch.Size([1, 2, 5, 5])
    """

    query: Float[Tensor, "batch heads queries width"]
    key: Float[Tensor, "batch key_heads keys width"]
    mask: Mask
    scale: float | None = None
    softcap: float | None = None
    sinks: Tensor | None = None
    kind: str = "encoder"  # "encoder", "decoder" or "cross"
    queries: range = range(0)
    keys: range = range(0)
    # What the mask is made of, so that the masks of several steps can be joined:
    pattern: Pattern = _NO_PATTERN  # a rule in positions of the text
    dense: Mask = _NO_MASK  # what is known for these queries and keys only
    zeroed: Mask = _NO_MASK  # hides weights after the softmax: the others stay as they are
    shard: Shard | None = None  # its heads, where other ranks compute the others

    def matrix(self) -> AttentionMatrix:
        """The attention matrix, not computed yet."""
        matrix = AttentionMatrix(
            self.query, self.key, mask=self.mask, scale=self.scale, softcap=self.softcap, sinks=self.sinks
        )
        return matrix.where(self.zeroed) if self.zeroed.atoms else matrix

    def attend(self, value: Tensor, dropout: float = 0.0) -> tuple[Tensor, AttentionMatrix]:
        """The output, and the matrix that it was computed with; plain_torch.py does not follow what regard computes."""
        with torch._C.DisableTorchFunction():
            if dropout or not self.zeroed.atoms:
                matrix = self.matrix()
                return matrix.attend(value, dropout), matrix
            before = replace(self, zeroed=Mask()).matrix()
            output = before.attend(value)  # right for most rows, and its normalisers are those of the others
            zeroed = before.where(self.zeroed)
            first, stop = _rows(self.zeroed, tuple(zeroed.shape), value.device)
            changed = zeroed.part[:, :, first:stop].attend(value)
            return torch.cat([output[:, :, :first], changed, output[:, :, stop:]], 2), zeroed

    def changed(self, links: Sequence[LocatedLink], zeroed: Sequence[LocatedLink]) -> AttentionCall:
        """The same with these links cut or steered, and those set to 0."""
        pattern = replace(self.pattern, links=self.pattern.links + tuple(links), zeroed=(*self.pattern.zeroed, *zeroed))
        places = self.queries, self.keys
        new = replace(Pattern(), links=tuple(links), zeroed=tuple(zeroed))
        hidden = self.zeroed & new.hidden(*places)
        return replace(self, mask=self.mask & new.mask(*places), pattern=pattern, zeroed=hidden)

    def text(self, sequence: int, queries: Positions, keys: Positions) -> AttentionCall:
        """The same with these queries and keys of one text of a batch, the others being padding."""
        one = slice(sequence, sequence + 1)
        sinks = self.sinks
        sinks = sinks[one] if sinks is not None and sinks.dim() > 1 and len(sinks) > 1 else sinks
        mask, zeroed = (within_text(each, sequence, queries, keys) for each in (self.mask, self.zeroed))
        query, key = pick_on(self.query[one], 2, queries), pick_on(self.key[one], 2, keys)
        return AttentionCall(
            query, key, mask, self.scale, self.softcap, sinks, self.kind, range(query.shape[2]), range(key.shape[2]),
            zeroed=zeroed, shard=self.shard,
        )  # fmt: skip

    def real_keys(self) -> Bool[Tensor, "batch keys"] | None:
        """Which keys are no padding, as its mask says; None where it says nothing of it."""
        return real_keys(self.mask, self.query.shape[0], self.key.shape[2])

    @property
    def heads(self) -> range:
        """The numbers of its heads, as the whole model counts them."""
        first = 0 if self.shard is None else self.shard.first
        return range(first, first + self.query.shape[1])

    @property
    def all_heads(self) -> int:
        """How many heads there are on all ranks."""
        return self.query.shape[1] if self.shard is None else self.shard.heads

    def last(self, count: int) -> AttentionCall:
        """The same with the last so many queries only: a copy, so that the others can be forgotten."""
        if self.query.shape[2] <= count:
            return self
        queries = self.queries[-count:]
        dense = Mask(tuple(_last_rows(atom, count) for atom in self.dense.atoms))
        mask, zeroed = self.pattern.mask(queries, self.keys) & dense, self.pattern.hidden(queries, self.keys)
        query = self.query[:, :, -count:].clone()
        return replace(self, query=query, mask=mask, queries=queries, dense=dense, zeroed=zeroed)

    def warn_if_detached(self, detached: Detached) -> None:
        """Let a gradient that passes through this call warn, if numbers of it were asked for that have none."""
        if torch.is_grad_enabled() and (tensors := [t for t in (self.query, self.key) if t.requires_grad]):
            tensors[0].register_hook(detached.passed)  # type: ignore[no-untyped-call]

    @property
    def requires_grad(self) -> bool:
        """Whether it is part of an autograd graph."""
        tensors = (self.query, self.key, *self.mask.tensors)
        return any(t.requires_grad for t in tensors) or (self.sinks is not None and self.sinks.requires_grad)

    def detach(self) -> AttentionCall:
        """The same outside the autograd graph."""
        if not self.requires_grad:
            return self
        sinks = None if self.sinks is None else self.sinks.detach()
        return replace(self, query=self.query.detach(), key=self.key.detach(), sinks=sinks)


def _last_rows(atom: Atom, count: int) -> Atom:
    """What a part of a mask says of the last so many queries."""
    if isinstance(atom, Dense) and atom.tensor.dim() > 1 and atom.tensor.shape[-2] > 1:
        return Dense(atom.tensor[..., -count:, :].clone())
    if isinstance(atom, Same):
        return Same(atom.queries[..., -count:], atom.keys)
    return atom


def _rows(mask: Mask, shape: tuple[int, ...], device: torch.device) -> tuple[int, int]:
    """The first row that a cut of this mask concerns, and the one after the last."""
    runs = [run for cut in bind(mask, shape, device, plain=False).cuts for run in cut.runs]
    return min((run.start for run in runs), default=0), max((run.stop for run in runs), default=0)


def joined_parts(calls: Sequence[AttentionCall], boundaries: Tensor | None) -> AttentionCall | None:
    """The calls for the parts of one row as one call; None where they are not cut at these boundaries.

    Vision models read all images of a batch as one long row of patches, in which a patch sees its own image or window
    only. Without a kernel for such rows, transformers cuts the row and calls its attention function once for each part.

    >>> row = torch.randn(1, 2, 5, 4)
    >>> parts = [AttentionCall(part, part, Mask()) for part in row.split([3, 2], 2)]
    >>> joined_parts(parts, torch.tensor([0, 3, 5])).matrix()
    AttentionMatrix(shape=(1, 2, 5, 5), dtype=float32, device=cpu, mask=documents(int64[5]))
    """
    sizes = [call.query.shape[2] for call in calls]
    alike = all(
        not call.mask.atoms and call.query.shape[0] == 1 and call.key.shape[2] == size and call.sinks is None
        for call, size in zip(calls, sizes, strict=True)
    )
    if boundaries is None or len(boundaries) != len(calls) + 1 or not alike:
        return None
    query, key = _row([call.query for call in calls]), _row([call.key for call in calls])
    ids = torch.repeat_interleave(torch.tensor(sizes)).to(query.device)
    whole = range(sum(sizes))
    return replace(calls[0], query=query, key=key, mask=documents(ids), queries=whole, keys=whole)


def _row(parts: Sequence[Float[Tensor, "1 heads _ width"]]) -> Float[Tensor, "1 heads tokens width"]:
    """The tensor that was cut into these parts, if they still lie in it side by side; else a copy."""
    first, start = parts[0], parts[0].storage_offset()
    step = first.stride(2)
    for part in parts:
        same = part.untyped_storage().data_ptr() == first.untyped_storage().data_ptr()
        if not same or part.stride() != first.stride() or part.storage_offset() != start or part.requires_grad:
            return torch.cat(list(parts), 2)
        start += part.shape[2] * step
    size = (*first.shape[:2], sum(part.shape[2] for part in parts), first.shape[3])
    return first.as_strided(size, first.stride(), first.storage_offset())


# What the calls of every origin need


def check_readable(tensor: Tensor) -> None:
    """Raise where a tensor has no rows of numbers that a record could show."""
    if type(tensor) is Tensor and not tensor.is_meta and not tensor.is_nested:
        return
    if tensor.is_meta:
        raise WatchError(
            "the model lies on the meta device, where tensors have no numbers to see. Move it to a real one."
        )
    if hasattr(tensor, "full_tensor"):
        raise WatchError(
            "the queries are a DTensor, whose shards only torch can put together. Let the projections give each rank "
            "its own heads: use_local_output=True, as tp_plan does."
        )
    if tensor.is_nested:
        raise WatchError(
            "nested tensors cannot be watched. Give the model a padded tensor and a padding mask: the outputs are the "
            "same."
        )


@functools.lru_cache(maxsize=4096)
def names_another_sequence(name: str) -> bool:
    """Whether a module is named as attention to another sequence.

    >>> names_another_sequence("decoder.layers.0.encoder_attn"), names_another_sequence("decoder.layers.0.self_attn")
    (True, False)
    """
    path = name.lower()
    return any(word in path for word in _CROSS)


def to_one_dtype(*tensors: Tensor) -> tuple[Tensor, ...]:
    """Under autocast a model's rotated queries may be float32 while its values are not."""
    dtypes = [tensor.dtype for tensor in tensors]
    one_dtype = dtypes.count(dtypes[0]) == len(dtypes)
    if one_dtype and not torch._C._is_any_autocast_enabled():
        return tensors
    device = tensors[0].device.type
    if torch.is_autocast_enabled(device):
        dtype = torch.get_autocast_dtype(device)
    elif one_dtype:
        return tensors
    else:
        dtype = tensors[-1].dtype
    return tuple(tensor.to(dtype) for tensor in tensors)


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
