"""Which tiles of a mask are hidden, full or cut, without looking at pairs of tokens.

For each block of queries (or of keys, in a pass along the queries) four positions say where its tiles begin, where a
run of full ones begins and ends, and where the last one ends. Kernels take them together with the band's own bounds:
tiles outside are never touched, and in full ones no mask is read. Padding and documents need O(tokens) work for that;
whatever is neither sorted nor regular only finds fewer tiles hidden or full.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from regard.support import Int

__all__ = ["along_keys", "along_queries"]


def along_keys(
    keep: Tensor | None, query_ids: Tensor | None, key_ids: Tensor | None, blocks: tuple[int, int], tokens: int
) -> Int[Tensor, "batch blocks 4"]:
    """The limits of each block of queries; `blocks`: their size and that of blocks of keys, of so many `tokens`."""
    block_m, block_n = blocks
    found = []
    if keep is not None:
        found.append(_of_kept(keep, block_n)[:, None])
    if query_ids is not None and key_ids is not None:
        found.append(_of_ids(_extremes(query_ids, block_m), _extremes(key_ids, block_n)) * block_n)
    return _together(found, -(-tokens // block_m))


def along_queries(
    keep: Tensor | None, query_ids: Tensor | None, key_ids: Tensor | None, blocks: tuple[int, int], tokens: int
) -> Int[Tensor, "batch blocks 4"]:
    """The limits of each block of keys, among the queries; sizes as above, `tokens` of the keys."""
    block_m, block_n = blocks
    found = []
    if keep is not None:
        some, all_ = _some_all(keep, block_n)
        everything = torch.iinfo(torch.int32).max
        limits = [torch.zeros_like(some), ~all_, all_, some]
        found.append(torch.stack([limit.long() * everything for limit in limits], -1))
    if query_ids is not None and key_ids is not None:
        found.append(_of_ids(_extremes(key_ids, block_n), _extremes(query_ids, block_m)) * block_m)
    return _together(found, -(-tokens // block_n))


def _together(found: list[Tensor], blocks: int) -> Tensor:
    """What all of them leave: the latest beginnings and the earliest ends."""
    limits = found[0]
    for other in found[1:]:
        limits = torch.cat([torch.maximum(limits, other)[..., :2], torch.minimum(limits, other)[..., 2:]], -1)
    return limits.expand(-1, blocks, -1).int().contiguous()


def _some_all(keep: Int[Tensor, "batch tokens"], block: int) -> tuple[Tensor, Tensor]:
    """Whether any token of a block is kept, and whether all are."""
    missing = -keep.shape[1] % block
    some, all_ = (functional.pad(keep != 0, (0, missing), value=value) for value in (False, True))
    shape = (len(keep), -1, block)
    return some.view(shape).any(-1), all_.view(shape).all(-1)


def _of_kept(keep: Tensor, block: int) -> Int[Tensor, "batch 4"]:
    """The first kept block, the longest run of blocks that are kept as a whole, and the end of the last kept one."""
    some, all_ = _some_all(keep, block)
    blocks, place = some.shape[1], torch.arange(some.shape[1], device=keep.device)
    first, end = torch.where(some, place, blocks).amin(-1), torch.where(some, place + 1, 0).amax(-1)
    length, start = torch.where(all_, _next(~all_) - place, 0).max(-1)
    return torch.stack([first, start, start + length, end], -1) * block


def _next(stops: Tensor) -> Tensor:
    """For each place the first one from there on that is a stop; the number of places where there is none."""
    places = stops.shape[-1]
    at = torch.where(stops, torch.arange(places, device=stops.device), places)
    return at.flip(-1).cummin(-1).values.flip(-1)


def _extremes(ids: Tensor, block: int) -> tuple[Tensor, Tensor]:
    """The smallest and the largest id of each block."""
    missing = -ids.shape[1] % block
    ids = torch.cat([ids, ids[:, -1:].expand(-1, missing)], 1).view(len(ids), -1, block)
    return ids.amin(-1), ids.amax(-1)


def _of_ids(own: tuple[Tensor, Tensor], others: tuple[Tensor, Tensor]) -> Int[Tensor, "batch blocks 4"]:
    """For each own block: where the others may have one of its ids, and where they have no other, in blocks."""
    (low, high), (other_low, other_high) = own, others
    blocks = other_low.shape[1]
    # All blocks before `first` have smaller ids, all from `end` on larger ones.
    first = torch.searchsorted(other_high.cummax(-1).values, low.contiguous())
    end = torch.searchsorted(other_low.flip(-1).cummin(-1).values.flip(-1).contiguous(), high.contiguous(), right=True)
    uniform = other_low == other_high
    changes = functional.pad((other_low[:, 1:] != other_low[:, :-1]) | ~uniform[:, 1:], (0, 1), value=True)
    run_end = _next(changes) + 1  # of the blocks that have the same single id

    def full(place: Tensor) -> Tensor:
        return (low == high) & uniform.gather(1, place) & (other_low.gather(1, place) == low)

    start = first.clamp(max=blocks - 1)
    start = torch.where(full(start), start, (start + 1).clamp(max=blocks - 1))  # a document may begin inside a block
    some = full(start)
    stop = torch.where(some, run_end.gather(1, start), 0)
    return torch.stack([first, torch.where(some, start, blocks), stop, end], -1)
