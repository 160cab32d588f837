"""The numbers of each head in one forward, as sums and maxima over its rows, so that ranks can add up theirs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, distributed, nn
from torch.nn import functional

from regard.matrix import AttentionMatrix
from regard.scores import Cut, Dense, Mask, bind, window
from regard.scores.masks import hides
from regard.support import Float
from regard.watching.capture.calls import AttentionCall
from regard.watching.capture.session import watch
from regard.watching.record.entries import Entry, Values

MEANINGS = {
    "max_logit": "the largest logit: scaled, capped and biased, before the softmax",
    "entropy": "the mean entropy of a row, in nats",
    "entropy_least": "the smallest entropy of a row that sees at least two keys",
    "entropy_relative": "the entropy as a share of the largest possible, log(keys that a row may see)",
    "sink": "the share of the key of each text that receives most, and of the model's own sinks",
    "itself": "the share that a token gives to itself; of self-attention only",
    "previous": "the share that a token gives to the token before it; of self-attention only",
    "largest": "the mean of the largest weight of a row",
    "output_norm": "the mean length of the output of a row, before the output projection",
}
# What is summed over the rows of a head, in this order, and its two maxima.
_ROWS, _ENTROPY, _POSSIBLE, _SINK, _ITSELF, _PREVIOUS, _LARGEST, _NORM = range(8)
_STACKED = 2**27  # numbers of the queries of layers that are measured together
Numbers = dict[str, list[float]]  # one number for each head, by the names of MEANINGS


class _Sums(NamedTuple):
    """Of one attention module, all heads of all ranks."""

    totals: Float[Tensor, "8 heads"]
    maxima: Float[Tensor, "2 heads"]  # of the logits, and of the entropies times -1
    square: bool  # self-attention
    kind: str
    layer: str


@torch.no_grad()
def head_numbers(
    model: nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any], group: Any = None
) -> dict[str, Numbers]:
    """Run a model; the numbers of each head by layer, over all texts and ranks; empty on all ranks but the first."""
    with watch(model, keep=("matrix", "value")) as record:
        model(*args, **kwargs)
    entries = [entry for one in record.passes for entry in one._entries().values()]
    found = {id(entry): one for stack in _stacks(entries) for entry, one in zip(stack, _sums(stack), strict=True)}
    sums: dict[str, _Sums] = {}
    for entry in entries:
        one, before = found[id(entry)], sums.get(entry.name)
        if before is not None:
            one = one._replace(
                totals=before.totals + one.totals, maxima=torch.maximum(before.maxima, one.maxima),
                square=before.square and one.square,
            )  # fmt: skip
        sums[entry.name] = one
    totals = _of_all_ranks([one.totals for one in sums.values()], "SUM", group)
    maxima = _of_all_ranks([one.maxima for one in sums.values()], "MAX", group)
    if distributed.is_available() and distributed.is_initialized() and distributed.get_rank(group) > 0:
        return {}
    ways = [one.layer for one in sums.values()], [f"{one.kind}/{one.layer}" for one in sums.values()], list(sums)
    names = next(way for way in ways if len(set(way)) == len(way))  # the shortest names that tell all apart
    of_all, layers, stop = _numbers(totals, maxima), dict[str, Numbers](), 0
    for name, one in zip(names, sums.values(), strict=True):
        start, stop = stop, stop + one.totals.shape[1]
        layers[name] = {
            what: values[start:stop]
            for what, values in of_all.items()
            if one.square or what not in ("itself", "previous")
        }
    return layers


def _of_all_ranks(layers: Sequence[Tensor], operation: str, group: Any) -> Float[Tensor, "each heads"]:
    """The heads of all layers, reduced over the ranks, on the CPU: one reduction and one copy for all of them."""
    joined = torch.cat([layer.to(layers[0].device) for layer in layers], 1)
    if distributed.is_available() and distributed.is_initialized() and distributed.get_world_size(group) > 1:
        distributed.all_reduce(joined, getattr(distributed.ReduceOp, operation), group=group)
    return joined.cpu()


def _numbers(totals: Float[Tensor, "8 heads"], maxima: Float[Tensor, "2 heads"]) -> Numbers:
    """The numbers of each head."""
    means, possible = totals / totals[_ROWS].clamp_min(1), totals[_POSSIBLE]
    found = {
        "max_logit": maxima[0],
        "entropy": means[_ENTROPY],
        "entropy_least": -maxima[1],
        "entropy_relative": totals[_ENTROPY] / possible.masked_fill(possible == 0, torch.nan),  # no row has a choice
        "sink": means[_SINK],
        "itself": means[_ITSELF],
        "previous": means[_PREVIOUS],
        "largest": means[_LARGEST],
        "output_norm": means[_NORM],
    }
    return {name: values.tolist() for name, values in found.items()}


def _stacks(entries: Sequence[Entry]) -> Iterator[list[Entry]]:
    """Yield entries that are measured together: with one shape, mask and padding, up to a limit of memory."""
    groups: dict[Any, list[Entry]] = {}
    for entry in entries:
        groups.setdefault(_likeness(entry), []).append(entry)
    for group in groups.values():
        count = max(_STACKED // max(group[0].call.query.numel(), 1), 1)  # type: ignore[union-attr]
        yield from (group[start : start + count] for start in range(0, len(group), count))


def _likeness(entry: Entry) -> Any:
    """What entries must share to be measured as one, whose heads are those of all of them."""
    call, values = entry.call, entry.values
    assert call is not None
    assert values is not None
    if _tells_heads_apart(call.mask) or call.zeroed.atoms or (call.sinks is not None and not call.sinks.dim()):
        return id(entry)
    kept = (
        (value.data_ptr(), value.shape, value.stride(), value.dtype) if isinstance(value, Tensor) else value
        for atom in call.mask.atoms
        for value in (type(atom), *vars(atom).values())
    )
    tensors = (call.query, call.key, values.value, *(() if call.sinks is None else (call.sinks,)))
    shapes = tuple((tensor.shape, tensor.dtype, tensor.device) for tensor in tensors)
    real = None if entry.real is None else entry.real.numpy().tobytes()
    return shapes, call.scale, call.softcap, tuple(kept), entry.kind, real


def _stacked(stack: Sequence[Entry]) -> Entry:
    """The entry whose heads are those of all these entries: kernels are launched once for all of them."""
    first, calls = stack[0], [entry.call for entry in stack if entry.call is not None]
    if len(stack) == 1:
        return first
    sinks = [call.sinks for call in calls if call.sinks is not None]
    call = replace(
        calls[0],
        query=torch.cat([call.query for call in calls], 1),
        key=torch.cat([call.key for call in calls], 1),
        sinks=torch.cat(sinks, -1) if sinks else None,
    )
    values = Values(torch.cat([entry.values.value for entry in stack if entry.values is not None], 1), None, None)
    batch, _, queries, keys = first.shape
    shape = (batch, call.query.shape[1], queries, keys)
    return replace(first, shape=shape, call=call, attention=call.matrix(), values=values)


def _sums(stack: Sequence[Entry]) -> Iterator[_Sums]:
    """The sums of each entry of a stack; rows that are padding, or see no key, do not count."""
    entry = _stacked(stack)
    call, matrix, values, real = entry.call, entry._without_padding, entry.values, entry._real_queries
    assert call is not None
    assert values is not None
    batch, heads, queries, keys = entry.shape
    possible = _possible(call)
    rows = (possible > -torch.inf).expand(batch, heads, queries)
    if real is not None:
        rows = rows & real[:, None].to(rows.device)
    output = entry.matrix @ values.value
    norms = torch.linalg.vector_norm(output, dim=-1, dtype=torch.promote_types(output.dtype, torch.float32))
    possible = torch.where(rows, possible.double(), 0.0)
    summary = matrix.summary(top=1)
    assert summary.top is not None
    assert summary.max_score is not None
    entropy = summary.entropy
    square = entry.kind != "cross" and queries == keys

    def total(each: Tensor) -> Float[Tensor, " heads"]:
        return torch.where(rows, each.double(), 0.0).sum((0, 2))

    def maximum(each: Tensor, of: Tensor) -> Float[Tensor, " heads"]:
        seen = torch.where(of, each.double(), -torch.inf)
        return seen.amax((0, 2)) if seen.numel() else seen.new_full((heads,), -torch.inf)

    def diagonal(offset: int) -> Float[Tensor, " heads"]:
        if not square:
            return total(0 * entropy)
        return matrix.where(window(0, 0, offset)).received().double().sum((0, 2))

    of_sinks = _of_sinks(entry, call, summary.received.double())
    totals = torch.stack([
        rows.double().sum((0, 2)), total(entropy), possible.sum((0, 2)), of_sinks + total(matrix.sink_share),
        diagonal(0), diagonal(-1), total(summary.top.weights[..., 0]), total(norms),
    ])  # fmt: skip
    maxima = torch.stack([maximum(summary.max_score, rows), maximum(-entropy, rows & (possible > 0))])
    heads = len(stack[0].heads)
    parts = zip(stack, torch.split(totals, heads, 1), torch.split(maxima, heads, 1), strict=True)
    for each, of_rows, largest in parts:
        if each.shard is not None:  # the other ranks have the other heads
            missing = each.heads.start, each.shard.heads - each.heads.stop
            of_rows, largest = functional.pad(of_rows, missing), functional.pad(largest, missing, value=-torch.inf)
        yield _Sums(of_rows, largest, square, each.kind, f"layer{each.layer:02d}")


def _of_sinks(
    entry: Entry, call: AttentionCall, received: Float[Tensor, "batch heads keys"]
) -> Float[Tensor, " heads"]:
    """What the key that receives most gets, in each text; packed texts are told apart by their ids."""
    ids = bind(call.mask, entry.shape, received.device, plain=False).ids
    if not ids:
        return received.amax(-1).sum(0)
    numbers = ids[0][1][:, 0, 0].expand(len(received), -1)
    numbers = numbers + (numbers.max() + 1 - numbers.min()) * torch.arange(len(numbers), device=numbers.device)[:, None]
    text = torch.unique(numbers, return_inverse=True)[1]  # (batch, keys)
    most = received.new_zeros(received.shape[1], int(text.max()) + 1)
    most.scatter_reduce_(1, text.flatten().expand(len(most), -1), received.transpose(0, 1).flatten(1), "amax")
    return most.sum(1)


def _possible(call: AttentionCall) -> Float[Tensor, "batch heads_or_1 queries"]:
    """The logarithm of how many keys each row may see: the normaliser of scores that are all 0."""
    atoms = [
        Dense(~hides(atom.tensor)) if isinstance(atom, Dense) and atom.tensor.is_floating_point() else atom
        for atom in call.mask.atoms
        if not isinstance(atom, Cut) or atom.hides
    ]
    differ = _tells_heads_apart(Mask(tuple(atoms)))
    batch, heads, queries, _ = call.query.shape
    dtype = torch.promote_types(call.query.dtype, torch.float32)
    query = call.query.new_zeros(batch, heads if differ else 1, queries, 16, dtype=dtype)
    key = query.new_zeros(batch, 1, call.key.shape[2], 16)
    return AttentionMatrix(query, key, mask=Mask(tuple(atoms))).logsumexp


def _tells_heads_apart(mask: Mask) -> bool:
    """Whether the heads of a layer see different keys, or have different biases."""
    return any(
        (isinstance(atom, Dense) and atom.tensor.dim() > 2 and atom.tensor.shape[-3] > 1)
        or (isinstance(atom, Cut) and atom.heads is not None)
        for atom in mask.atoms
    )
