"""`AttentionCall`: one call of an attention function; `Shard`: the heads of a layer that this process computes.

In tensor parallelism each rank computes some heads of a layer, and records those. `shard_of` finds their numbers in the
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

if TYPE_CHECKING:
    from regard.watching.record.entries import Entry


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
    zeroed: Mask = _NO_MASK  # hides weights after the softmax: the other weights stay as they are
    shard: Shard | None = None  # its heads, where other processes compute the other heads

    def matrix(self) -> AttentionMatrix:
        """The attention matrix, not computed yet."""
        matrix = AttentionMatrix(
            self.query, self.key, mask=self.mask, scale=self.scale, softcap=self.softcap, sinks=self.sinks
        )
        return matrix.where(self.zeroed) if self.zeroed.atoms else matrix

    def attend(self, value: Tensor, dropout: float = 0.0) -> tuple[Tensor, AttentionMatrix]:
        """Compute the output, and return the matrix that it was computed with."""
        with torch._C.DisableTorchFunction():  # torch_modules.py does not follow what regard computes
            if dropout or not self.zeroed.atoms:
                matrix = self.matrix()
                return matrix.attend(value, dropout), matrix
            before = replace(self, zeroed=Mask()).matrix()
            output = before.attend(value)  # right for most rows; the changed rows have the same normalisers
            zeroed = before.where(self.zeroed)
            first, stop = _rows(self.zeroed, tuple(zeroed.shape), value.device)
            changed = zeroed.part[:, :, first:stop].attend(value)
            return torch.cat([output[:, :, :first], changed, output[:, :, stop:]], 2), zeroed

    def changed(self, links: tuple[LocatedLink, ...]) -> AttentionCall:
        """Return the call with these links cut, steered or set to 0."""
        new, places = Pattern(links=links), (self.queries, self.keys)
        return replace(
            self,
            mask=self.mask & new.mask(*places),
            zeroed=self.zeroed & new.zeroed(*places),
            pattern=replace(self.pattern, links=self.pattern.links + links),
        )

    def text(self, sequence: int, queries: Positions, keys: Positions) -> AttentionCall:
        """Return the call with these queries and keys of one text of a batch; the others are padding."""
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
        """Return which keys are no padding, by the mask; None if the mask does not tell."""
        return real_keys(self.mask, self.query.shape[0], self.key.shape[2])

    @property
    def heads(self) -> range:
        """The numbers of its heads in the whole layer."""
        first = 0 if self.shard is None else self.shard.first
        return range(first, first + self.query.shape[1])

    @property
    def all_heads(self) -> int:
        """The number of heads of the whole layer."""
        return self.query.shape[1] if self.shard is None else self.shard.heads

    def last(self, count: int) -> AttentionCall:
        """Return the call with its last `count` queries only: a copy, so that the other queries can be freed."""
        if self.query.shape[2] <= count:
            return self
        queries = self.queries[-count:]
        dense = Mask(tuple(_last_rows(atom, count) for atom in self.dense.atoms))
        mask, zeroed = self.pattern.mask(queries, self.keys) & dense, self.pattern.zeroed(queries, self.keys)
        query = self.query[:, :, -count:].clone()
        return replace(self, query=query, mask=mask, queries=queries, dense=dense, zeroed=zeroed)

    @property
    def requires_grad(self) -> bool:
        """Whether the call is part of an autograd graph."""
        tensors = (self.query, self.key, *self.mask.tensors)
        return any(t.requires_grad for t in tensors) or (self.sinks is not None and self.sinks.requires_grad)

    def detach(self) -> AttentionCall:
        """Return the call outside the autograd graph."""
        if not self.requires_grad:
            return self
        sinks = None if self.sinks is None else self.sinks.detach()
        return replace(self, query=self.query.detach(), key=self.key.detach(), sinks=sinks)


def _last_rows(atom: Atom, count: int) -> Atom:
    """Return the part of a mask for the last `count` queries."""
    if isinstance(atom, Dense) and atom.tensor.dim() > 1 and atom.tensor.shape[-2] > 1:
        return Dense(atom.tensor[..., -count:, :].clone())
    if isinstance(atom, Same):
        return Same(atom.queries[..., -count:], atom.keys)
    return atom


def _rows(mask: Mask, shape: tuple[int, ...], device: torch.device) -> tuple[int, int]:
    """Return the first row that a cut of this mask changes, and the row after the last."""
    runs = [run for cut in bind(mask, shape, device, plain=False).cuts for run in cut.runs]
    return min((run.start for run in runs), default=0), max((run.stop for run in runs), default=0)


def joined_parts(calls: Sequence[AttentionCall], boundaries: Tensor | None) -> AttentionCall | None:
    """Return the calls for the parts of one row as one call; None if they are not cut at these boundaries.

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
    query, key = torch.cat([call.query for call in calls], 2), torch.cat([call.key for call in calls], 2)
    ids = torch.repeat_interleave(torch.tensor(sizes)).to(query.device)
    whole = range(sum(sizes))
    return replace(calls[0], query=query, key=key, mask=documents(ids), queries=whole, keys=whole)


# What every way to capture needs


def check_readable(tensor: Tensor) -> None:
    """Raise if a tensor has no rows of numbers that a record could show."""
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
    """Whether the name of a module says that it attends to another sequence.

    >>> names_another_sequence("decoder.layers.0.encoder_attn"), names_another_sequence("decoder.layers.0.self_attn")
    (True, False)
    """
    path = name.lower()
    return any(word in path for word in _CROSS)


def to_one_dtype(*tensors: Tensor) -> tuple[Tensor, ...]:
    """Return the tensors in one dtype: under autocast, rotated queries may be float32 while the values are not."""
    device, dtype = tensors[0].device.type, tensors[-1].dtype
    if torch._C._is_any_autocast_enabled() and torch.is_autocast_enabled(device):
        dtype = torch.get_autocast_dtype(device)
    return tuple(tensor.to(dtype) for tensor in tensors)


_AVAILABLE = distributed.is_available()


@dataclass(frozen=True, eq=False)
class Shard:
    """A run of heads of a layer; other processes compute the other heads.

    >>> print(Shard(first=4, heads=8))
    the heads from 4 on, of 8
    """

    first: int  # the number of the first head of the run
    heads: int  # of the whole layer
    group: Any = None  # the ranks that have them, as torch.distributed knows them; None in a record from a file

    def __str__(self) -> str:
        return f"the heads from {self.first} on, of {self.heads}"


def shard_of(module: nn.Module, name: str, heads: int) -> Shard | None:
    """Return which heads of a module this rank computes, if it computes `heads` of them; None: all heads."""
    if not (_AVAILABLE and distributed.is_initialized()):
        return None
    from torch.distributed.tensor import DTensor

    for parameter in module.parameters():
        placements = parameter.placements if isinstance(parameter, DTensor) else ()
        for axis, placement in enumerate(placements):
            if not placement.is_shard(0):  # only projections to heads are cut by rows
                continue
            assert isinstance(parameter, DTensor)
            mesh = parameter.device_mesh
            declared = getattr(getattr(module, "config", None), "num_attention_heads", None)
            if declared == heads:  # they were gathered before the attention
                return None
            if declared not in (None, heads * mesh.size(axis)):
                raise WatchError(
                    f"{name}: this rank has {heads} of {declared} heads, which {mesh.size(axis)} ranks share unevenly, "
                    "so the numbers of its heads are unknown. Share the heads evenly: tp_size must divide their number."
                )
            return Shard(mesh.get_local_rank(axis) * heads, mesh.size(axis) * heads, mesh.get_group(axis))
    return None


def gathered(entries: Mapping[str, Entry]) -> dict[str, Entry] | None:
    """Return the entries with all heads on the first rank of their group, None on the others; every rank must call."""
    gathered = {name: entry if entry.shard is None else _whole(entry, entry.shard) for name, entry in entries.items()}
    whole = {name: entry for name, entry in gathered.items() if entry is not None}
    return whole if len(whole) == len(gathered) else None


def _whole(entry: Entry, shard: Shard) -> Entry | None:
    """Return an entry with the heads of all ranks; None on all ranks but the first."""
    if shard.group is None:
        raise WatchError(f"{entry.name} has {shard}, from a file: the other ranks are gone. Gather before saving.")
    if entry.shape[1] * distributed.get_world_size(shard.group) != shard.heads:
        raise WatchError(f"{entry.name} has only some heads of this rank. Gather the whole record, then choose heads.")
    call = entry.call
    if call is not None and any(isinstance(a, Cut) and a.heads is not None for a in (call.mask & call.zeroed).atoms):
        raise WatchError(f"{entry.name}: links were cut or steered in some heads, which cannot be gathered.")
    tensors = {name: _gather(tensor, axis, shard.group) for name, (tensor, axis) in tensors_by_head(entry).items()}
    if distributed.get_rank(shard.group) != 0:
        return None
    shape = (entry.shape[0], shard.heads, *entry.shape[2:])
    return replace(with_tensors(entry, tensors, shard=None), shape=shape, first_head=0)


def _gather(tensor: Tensor, axis: int, group: Any) -> Tensor:
    """Return the tensors of all ranks side by side on the first rank; this rank's tensor on the others."""
    # As bytes: gloo knows fewer types of numbers than torch.
    local = tensor.detach().contiguous()
    is_first = distributed.get_rank(group) == 0
    parts = [torch.empty_like(local) for _ in range(distributed.get_world_size(group))] if is_first else [local]
    into = [part.view(-1).view(torch.uint8) for part in parts] if is_first else None
    distributed.gather(local.view(-1).view(torch.uint8), into, group=group, group_dst=0)
    return torch.cat(parts, axis)


def tensors_by_head(entry: Entry) -> dict[str, tuple[Tensor, int]]:
    """Return the tensors of an entry that have numbers for each head, with the axis of the heads, by name."""
    if entry.call is None:
        kept: dict[str, Any] = dict(entry.reductions or {})
        top = kept.pop("top", None)
        return {name: (tensor, 1) for name, tensor in (kept | ({} if top is None else top._asdict())).items()}
    call = entry.call
    tensors = {"query": (call.query, 1), "key": (call.key, 1)}
    if call.sinks is not None and call.sinks.dim():
        tensors["sinks"] = call.sinks, -1
    for n, atom in enumerate(call.mask.atoms):
        if isinstance(atom, Dense) and atom.tensor.dim() > 2 and atom.tensor.shape[-3] > 1:
            tensors[f"mask {n}"] = atom.tensor, -3
    return tensors


def with_tensors(entry: Entry, tensors: Mapping[str, Tensor], shard: Shard | None) -> Entry:
    """Return the entry with other tensors in the place of `tensors_by_head`, and of these heads."""
    if entry.call is None:
        kept: dict[str, Any] = dict(tensors)
        if "weights" in kept:
            kept["top"] = Top(kept.pop("weights"), kept.pop("keys"))
        return replace(entry, reductions=kept, shard=shard)  # type: ignore[arg-type]
    atoms = [
        Dense(tensors[f"mask {n}"]) if f"mask {n}" in tensors else atom for n, atom in enumerate(entry.call.mask.atoms)
    ]
    numbers: dict[str, Any] = {name: tensors[name] for name in ("query", "key", "sinks") if name in tensors}
    call = replace(entry.call, mask=Mask(tuple(atoms)), shard=shard, **numbers)
    return replace(entry, call=call, attention=call.matrix(), shard=shard)
