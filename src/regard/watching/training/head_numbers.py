"""The numbers of each head in one forward, as sums and maxima over its rows, so that ranks can add up theirs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, distributed, nn
from torch.nn import functional

from regard.matrix import AttentionMatrix
from regard.scores import Cut, Dense, Mask, bind
from regard.scores.masks import hides
from regard.support import Float
from regard.watching.capture.calls import AttentionCall
from regard.watching.capture.session import watch
from regard.watching.record.entries import Entry

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
Numbers = dict[str, list[float]]  # one number for each head, by the names of MEANINGS


class _Sums(NamedTuple):
    """Of one attention module, all heads of all ranks."""

    totals: Float[Tensor, "8 heads"]
    maxima: Float[Tensor, "2 heads"]  # of the logits, and of the entropies times -1
    square: bool  # self-attention
    kind: str
    layer: str

    def numbers(self) -> Numbers:
        """The numbers of each head."""
        rows = self.totals[_ROWS].clamp_min(1)
        means, possible = self.totals / rows, self.totals[_POSSIBLE]
        found = {
            "max_logit": self.maxima[0],
            "entropy": means[_ENTROPY],
            "entropy_least": -self.maxima[1],
            "entropy_relative": self.totals[_ENTROPY]
            / possible.masked_fill(possible == 0, torch.nan),  # no row has a choice
            "sink": means[_SINK],
            "itself": means[_ITSELF],
            "previous": means[_PREVIOUS],
            "largest": means[_LARGEST],
            "output_norm": means[_NORM],
        }
        return {name: found[name].tolist() for name in found if self.square or name not in ("itself", "previous")}


@torch.no_grad()
def head_numbers(
    model: nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any], group: Any = None
) -> dict[str, Numbers]:
    """Run a model; the numbers of each head by layer, over all texts and ranks; empty on all ranks but the first."""
    with watch(model, keep=("matrix", "value")) as record:
        model(*args, **kwargs)
    sums: dict[str, _Sums] = {}
    for entry in (entry for one in record.passes for entry in one.values()):
        one, before = _sums(entry), sums.get(entry.name)
        if before is not None:
            one = one._replace(
                totals=before.totals + one.totals, maxima=torch.maximum(before.maxima, one.maxima),
                square=before.square and one.square,
            )  # fmt: skip
        sums[entry.name] = one
    if distributed.is_available() and distributed.is_initialized() and distributed.get_world_size(group) > 1:
        _add_ranks([one.totals for one in sums.values()], distributed.ReduceOp.SUM, group)
        _add_ranks([one.maxima for one in sums.values()], distributed.ReduceOp.MAX, group)
        if distributed.get_rank(group) > 0:
            return {}
    ways = [one.layer for one in sums.values()], [f"{one.kind}/{one.layer}" for one in sums.values()], list(sums)
    names = next(way for way in ways if len(set(way)) == len(way))  # the shortest names that tell all apart
    return {name: one.numbers() for name, one in zip(names, sums.values(), strict=True)}


def _add_ranks(tensors: Sequence[Tensor], operation: Any, group: Any) -> None:
    """Add up the tensors of all ranks, in place."""
    flat = torch.cat([tensor.flatten().to(tensors[0].device) for tensor in tensors])
    distributed.all_reduce(flat, operation, group=group)
    parts = torch.split(flat, [tensor.numel() for tensor in tensors])
    for tensor, part in zip(tensors, parts, strict=True):
        tensor.copy_(part.view_as(tensor))


def _sums(entry: Entry) -> _Sums:
    """The sums of one entry; rows that are padding, or see no key, do not count."""
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

    itself, previous = (matrix.diagonal(-n).double().sum((0, 2)) if square else total(0 * entropy) for n in (0, 1))
    of_sinks = _of_sinks(entry, call, summary.received.double())
    totals = torch.stack([
        rows.double().sum((0, 2)), total(entropy), possible.sum((0, 2)), of_sinks + total(matrix.sink_share), itself,
        previous, total(summary.top.weights[..., 0]), total(norms),
    ])  # fmt: skip
    maxima = torch.stack([maximum(summary.max_score, rows), maximum(-entropy, rows & (possible > 0))])
    if entry.shard is not None:  # the other ranks have the other heads
        own, count = entry.heads, entry.shard.heads
        totals = functional.pad(totals, (own.start, count - own.stop))
        maxima = functional.pad(maxima, (own.start, count - own.stop), value=-torch.inf)
    return _Sums(totals, maxima, square, entry.kind, f"layer{entry.layer:02d}")


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
    differ = any(
        (isinstance(atom, Dense) and atom.tensor.dim() > 2 and atom.tensor.shape[-3] > 1)
        or (isinstance(atom, Cut) and atom.heads is not None)
        for atom in atoms
    )
    batch, heads, queries, _ = call.query.shape
    dtype = torch.promote_types(call.query.dtype, torch.float32)
    query = call.query.new_zeros(batch, heads if differ else 1, queries, 16, dtype=dtype)
    key = query.new_zeros(batch, 1, call.key.shape[2], 16)
    return AttentionMatrix(query, key, mask=Mask(tuple(atoms))).logsumexp
