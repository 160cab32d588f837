"""The numbers of each head in one forward, as sums and maxima over its rows, so that ranks can add up theirs."""

from __future__ import annotations

import functools
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
from regard.watching.capture.session import Watching
from regard.watching.record.entries import Entry
from regard.watching.record.reductions import Keep
from regard.watching.record.tokens import Vocabulary

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
_ENTROPY, _POSSIBLE, _ROWS, _LOGIT = 0, 1, 7, 8  # places in `_Sums.sums`
_STACKED = 2**27  # numbers of the queries of layers that are measured together
Numbers = dict[str, list[float]]  # one number for each head, by the names of MEANINGS


class _Sums(NamedTuple):
    """Of one attention module, over all texts of this rank."""

    sums: Float[Tensor, "10 heads"]  # of seven numbers and 1 over the rows; the largest logit and negative entropy
    square: bool  # self-attention
    kind: str
    layer: str


class Measured:
    """The numbers of every head in one forward, over all texts and ranks, on their way from the device."""

    def __init__(self, modules: Mapping[str, _Sums], group: Any):
        device = next(iter(modules.values())).sums.device
        joined = torch.cat([one.sums.to(device) for one in modules.values()], 1)
        if distributed.is_available() and distributed.is_initialized() and distributed.get_world_size(group) > 1:
            distributed.all_reduce(joined[:_LOGIT], group=group)
            distributed.all_reduce(joined[_LOGIT:], distributed.ReduceOp.MAX, group=group)
        self._modules, on_gpu = modules, device.type == "cuda"
        self._joined = joined.to("cpu", non_blocking=on_gpu)  # into pinned memory
        self._event = torch.cuda.current_stream(device).record_event() if on_gpu else None

    def arrived(self) -> bool:
        """Whether `layers` would not wait for the device."""
        return self._event is None or self._event.query()

    def layers(self, labels: dict[str, str]) -> dict[str, Numbers]:
        """Return the numbers of each head by layer.

        Args:
            labels: the layers of the modules that ran before, to which those that ran for the first time are added.
        """
        if self._event is not None:
            self._event.synchronize()
        new = {name: one for name, one in self._modules.items() if name not in labels}
        ways = [one.layer for one in new.values()], [f"{one.kind}/{one.layer}" for one in new.values()], [*new]
        names = next(way for way in ways if len({*way} - {*labels.values()}) == len(way))
        labels |= zip(new, names, strict=True)  # the shortest names that tell all apart
        of_all, layers, stop = _numbers(self._joined), dict[str, Numbers](), 0
        for name, one in self._modules.items():
            start, stop = stop, stop + one.sums.shape[1]
            shown = [what for what in MEANINGS if one.square or what not in ("itself", "previous")]
            layers[labels[name]] = {what: of_all[what][start:stop] for what in shown}
        return layers


def _numbers(sums: Float[Tensor, "10 heads"]) -> Numbers:
    """The numbers of each head."""
    means, possible = (sums / sums[_ROWS].clamp_min(1)).tolist(), sums[_POSSIBLE]
    names = ("entropy", "entropy_relative", "sink", "itself", "previous", "largest", "output_norm")
    relative = sums[_ENTROPY] / possible.masked_fill(possible == 0, torch.nan)  # no row has a choice
    maxima = {"max_logit": sums[_LOGIT].tolist(), "entropy_least": (-sums[-1]).tolist()}
    return dict(zip(names, means, strict=False)) | maxima | {"entropy_relative": relative.tolist()}


@torch.no_grad()
def measure(model: nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any], group: Any = None) -> Measured | None:
    """Run a model and measure each head, without waiting for the device; None on all ranks but the first."""
    watching = Watching(model, Vocabulary(), Keep(outputs=True), by_parts=False)
    with watching:
        model(*args, **kwargs)
    entries = [calls.measurable() for one in watching._passes.passes for calls in one.values()]
    sums = {entry.name: one for stack in _stacks(entries) for entry, one in zip(stack, _sums(stack), strict=True)}
    measured = Measured({entry.name: sums[entry.name] for entry in entries}, group)
    first = not (distributed.is_available() and distributed.is_initialized()) or distributed.get_rank(group) == 0
    return measured if first else None


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
    call, norms = entry.call, entry.output_norms
    assert call is not None
    assert norms is not None
    if _tells_heads_apart(call.mask) or call.zeroed.atoms or (call.sinks is not None and not call.sinks.dim()):
        return id(entry)
    kept = (
        (value.data_ptr(), value.shape, value.stride(), value.dtype) if isinstance(value, Tensor) else value
        for atom in call.mask.atoms
        for value in (type(atom), *vars(atom).values())
    )
    tensors = (call.query, call.key, norms, *(() if call.sinks is None else (call.sinks,)))
    shapes = tuple((tensor.shape, tensor.dtype, tensor.device) for tensor in tensors)
    real = None if entry.real is None else entry.real.cpu().numpy().tobytes()
    return shapes, call.scale, call.softcap, tuple(kept), entry.kind, real


def _stacked(stack: Sequence[Entry]) -> Entry:
    """The entry whose heads are those of all these entries: kernels are launched once for all of them."""
    first, calls = stack[0], [entry.call for entry in stack if entry.call is not None]
    if len(stack) == 1:
        return first if first.attention is not None else replace(first, attention=calls[0].matrix())
    sinks = [call.sinks for call in calls if call.sinks is not None]
    call = replace(
        calls[0],
        query=torch.cat([call.query for call in calls], 1),
        key=torch.cat([call.key for call in calls], 1),
        sinks=torch.cat(sinks, -1) if sinks else None,
    )
    norms = torch.cat([entry.output_norms for entry in stack if entry.output_norms is not None], 1)
    shape = first.shape[0], call.query.shape[1], *first.shape[2:]
    return replace(first, shape=shape, call=call, attention=call.matrix(), output_norms=norms)


def _sums(stack: Sequence[Entry]) -> Iterator[_Sums]:
    """The sums of each entry of a stack; rows that are padding, or see no key, do not count."""
    entry = _stacked(stack)
    call, matrix, norms, real = entry.call, entry._without_padding, entry.output_norms, entry._real_queries
    assert call is not None
    assert norms is not None
    possible = _possible(call)
    rows = possible > -torch.inf
    if real is not None:
        rows = rows & real[:, None].to(rows.device)
    summary = matrix.summary(top=1)
    assert summary.top is not None
    assert summary.max_score is not None
    rates = summary.entropy, possible.expand_as(norms), summary.top.weights[..., 0], norms, torch.ones_like(norms)
    entropy, most, *of_rows = torch.where(rows, torch.stack(rates), 0.0).sum((1, 3), dtype=torch.float64)
    sink = _of_sinks(entry, call, summary.received)
    if call.sinks is not None:
        sink = sink + torch.where(rows, matrix.sink_share, 0.0).sum((0, 2), dtype=torch.float64)
    square = entry.kind != "cross" and entry.shape[2] == entry.shape[3]
    near = [
        matrix.where(window(0, 0, offset)).received().sum((0, 2), dtype=torch.float64) if square else 0.0 * sink
        for offset in (0, -1)
    ]
    maxima = torch.stack([summary.max_score, torch.where(possible > 0, -summary.entropy, -torch.inf)])
    # A row more, that sees nothing: there is a maximum where there is no text.
    highest = functional.pad(torch.where(rows, maxima, -torch.inf), (0, 1, 0, 0, 0, 1), value=-torch.inf).amax((1, 3))
    sums = torch.stack([entropy, most, sink, *near, *of_rows, *highest.double()])
    for each, own in zip(stack, torch.split(sums, len(stack[0].heads), 1), strict=True):
        if each.shard is not None:  # the other ranks have the other heads
            missing = each.heads.start, each.shard.heads - each.heads.stop
            own = torch.cat(
                [functional.pad(own[:_LOGIT], missing), functional.pad(own[_LOGIT:], missing, value=-torch.inf)]
            )
        yield _Sums(own, square, each.kind, f"layer{each.layer:02d}")


def _of_sinks(
    entry: Entry, call: AttentionCall, received: Float[Tensor, "batch heads keys"]
) -> Float[Tensor, " heads"]:
    """What the key that receives most gets, in each text; packed texts are told apart by their ids."""
    ids = bind(call.mask, entry.shape, received.device, plain=False).ids
    if not ids:
        return received.amax(-1).sum(0, dtype=torch.float64)
    numbers = ids[0][1][:, 0, 0].expand(len(received), -1)
    numbers = numbers + (numbers.max() + 1 - numbers.min()) * torch.arange(len(numbers), device=numbers.device)[:, None]
    text = torch.unique(numbers, return_inverse=True)[1]  # (batch, keys)
    most = received.new_zeros(received.shape[1], int(text.max()) + 1)
    most.scatter_reduce_(1, text.flatten().expand(len(most), -1), received.transpose(0, 1).flatten(1), "amax")
    return most.sum(1, dtype=torch.float64)


def _possible(call: AttentionCall) -> Float[Tensor, "batch heads_or_1 queries"]:
    """The logarithm of how many keys each row may see: the normaliser of scores that are all 0."""
    atoms = [
        Dense(~hides(atom.tensor)) if isinstance(atom, Dense) and atom.tensor.is_floating_point() else atom
        for atom in call.mask.atoms
        if not isinstance(atom, Cut) or atom.hides
    ]
    heads = call.query.shape[1] if _tells_heads_apart(Mask(tuple(atoms))) else 1
    shape = call.query.shape[0], heads, call.query.shape[2], call.key.shape[2]
    parts = tuple((type(atom), *vars(atom).values()) for atom in atoms)
    count = _counts.__wrapped__ if Mask(tuple(atoms)).tensors else _counts  # without tensors, each sample has the same
    return count(parts, shape, call.query.device, call.query.dtype == torch.float64)


@functools.lru_cache(maxsize=8)
def _counts(
    parts: tuple[tuple[Any, ...], ...], shape: tuple[int, ...], device: torch.device, double: bool
) -> Float[Tensor, "batch heads_or_1 queries"]:
    """The logarithm of how many keys each row may see, by the types of the atoms of a mask and their values."""
    batch, heads, queries, keys = shape
    query = torch.zeros(batch, heads, queries, 16, device=device, dtype=torch.float64 if double else torch.float32)
    mask = Mask(tuple(kind(*values) for kind, *values in parts))
    return AttentionMatrix(query, query.new_zeros(batch, 1, keys, 16), mask=mask).logsumexp


def _tells_heads_apart(mask: Mask) -> bool:
    """Whether the heads of a layer see different keys, or have different biases."""
    return any(
        (isinstance(atom, Dense) and atom.tensor.dim() > 2 and atom.tensor.shape[-3] > 1)
        or (isinstance(atom, Cut) and atom.heads is not None)
        for atom in mask.atoms
    )
