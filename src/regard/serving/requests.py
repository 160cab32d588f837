"""The requests that asked: what they ask for, what is kept of them, and the store of a process.

Nothing here may stop the server: what goes wrong is said when the record is read.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from regard.errors import InputError, WatchError
from regard.watching.capture.calls import AttentionCall, Shard, tensors_by_head, with_tensors
from regard.watching.capture.masks import Pattern
from regard.watching.capture.passes import ModuleCalls
from regard.watching.record.entries import Entry
from regard.watching.record.record import Record
from regard.watching.record.reductions import REDUCTIONS, Keep, to_keep
from regard.watching.record.tokens import Text, Vocabulary

ASK = "regard"  # SamplingParams(extra_args={"regard": …})
_SUMMARIES = ("received", "entropy", "top")
_STORED = 32  # finished requests of which the record is kept; then the oldest is dropped


def asked(extra: Mapping[str, Any] | None) -> Any:
    """What a request asks for; None, as of nearly all requests: nothing.

    >>> asked(None), asked({"regard": "matrix"}), asked({"regard": False})
    (None, 'matrix', None)
    """
    return (extra.get(ASK) or None) if extra else None


def _kept(wanted: Any) -> Keep:
    """What is kept for a request.

    >>> _kept(True).reductions, _kept("matrix").reductions, _kept(["entropy"]).reductions
    (('received', 'entropy', 'top'), None, ('entropy',))
    """
    if wanted in (True, 1, "1", "true", "summary"):
        return to_keep(_SUMMARIES)
    known = wanted == "matrix" or (
        (names := [wanted] if isinstance(wanted, str) else wanted)
        and isinstance(names, list | tuple)
        and all(name in REDUCTIONS for name in names)
    )
    if not known:
        raise InputError(
            f'extra_args = {{"regard": …}} must be True or "summary" ({", ".join(_SUMMARIES)}), some of '
            f'{", ".join(map(repr, REDUCTIONS))}, or "matrix". Got {wanted!r}.'
        )
    return to_keep(wanted)


class Share(NamedTuple):
    """What one request has in a step of the server: these tokens of its text."""

    request: WatchedRequest
    queries: range


@dataclass(frozen=True, eq=False)
class Attended:
    """The attention of one layer to one request in one step, but for its keys."""

    query: Tensor  # (tokens, heads, width)
    keys: Callable[[range], Tensor]  # (1, key heads, keys, width) at these positions
    scale: float
    window: int | None = None  # how many keys a query sees, itself included
    softcap: float | None = None
    sinks: Tensor | None = None
    shard: Shard | None = None


class WatchedRequest:
    """One request: the calls of each layer, as `watch` has them, and the tokens it has read so far."""

    def __init__(self, name: str, prompt: Iterable[int] | None, wanted: Any, start: int):
        self.name = name
        self.start = self.stop = start  # the positions that have rows; those before came from the prefix cache
        self.failed = ""  # why there is no record
        self.unseen: dict[str, str] = {}  # by layer, why
        self._lost: int | None = None  # the first token of a step that nobody saw
        self._calls: dict[str, ModuleCalls] = {}
        self._stops: dict[str, int] = {}
        self._entries: dict[str, Entry] | None = None  # once it has finished
        self._ids = [] if prompt is None else [torch.tensor(list(prompt)[:start], dtype=torch.long)]
        try:
            self._keep = _kept(wanted)
        except InputError as error:
            self.failed = str(error)

    @property
    def watching(self) -> bool:
        """Whether its steps are looked at: no longer after something went wrong, or rows were missed."""
        return not self.failed and self._lost is None

    def lose(self, start: int) -> None:
        """The tokens from this one on run where nobody sees them: in a CUDA graph of the whole model."""
        self._lost = start

    def read(self, ids: Tensor, queries: range) -> None:
        """Tokens that it reads in this step."""
        new = len(queries) - max(self.stop - queries.start, 0)
        if new > 0:
            self._ids.append(ids[len(queries) - new :].detach().clone())
            self.stop = queries.stop

    def observe(self, layer: str, found: Attended, queries: range) -> None:
        """What a layer computed for the tokens at these positions."""
        stop = self._stops.get(layer, self.start)
        if queries.start > stop:
            raise WatchError(f"{layer}: the tokens from {stop} to {queries.start - 1} ran where regard does not see.")
        again = stop - queries.start  # tokens that are computed again after the server had dropped their keys
        if again >= len(queries):
            return
        calls = self._calls.get(layer)
        if again and calls is not None:
            calls.resume()
        queries = range(stop, queries.stop)
        first = 0 if found.window is None else max(stop - found.window + 1, 0)
        key, keys = found.keys(range(first, queries.stop)), range(first, queries.stop)
        if calls is None and first:  # a record begins with key 0, though no query sees it any more
            key, keys = functional.pad(key, (0, 0, first, 0)), range(queries.stop)
        pattern = Pattern(((None if found.window is None else 1 - found.window, 0),))
        call = AttentionCall(
            found.query[again:].detach().transpose(0, 1)[None].clone(memory_format=torch.contiguous_format),
            key, pattern.mask(queries, keys), found.scale, found.softcap, found.sinks, "decoder", queries, keys,
            pattern, shard=found.shard,
        )  # fmt: skip
        if calls is None:
            self._calls[layer] = ModuleCalls(layer, call, None, self._keep, Text(Vocabulary()))
        else:
            calls.append(call)
        self._stops[layer] = queries.stop

    def finish(self) -> None:
        """It reads no more: what is kept moves to the memory of the CPU."""
        if not self.failed:
            self._entries = {name: _on_cpu(entry) for name, entry in self.entries().items()}
        self._calls = {}

    def entries(self) -> dict[str, Entry]:
        """What is known so far, by layer."""
        if self._entries is not None:
            return self._entries
        ids = torch.cat([part.cpu().long() for part in self._ids])[None] if self._ids else None
        entries = {}
        for name, calls in self._calls.items():
            entry = calls.entry()
            rows, keys = entry.shape[2:]
            known = ids is not None and ids.shape[1] >= keys
            both = (ids[:, keys - rows : keys], ids[:, :keys]) if ids is not None and known else (None, None)
            entries[name] = replace(entry, ids=both[0], key_ids=both[0] if rows == keys else both[1])
        return entries

    def record(self) -> Record:
        """Everything that is kept, and what is not."""
        if self.failed:
            raise WatchError(f"request {self.name}: {self.failed}")
        unseen = [f"{layer} ({why})" for layer, why in self.unseen.items()]
        if self.start:
            unseen.append(f"the rows of tokens 0 to {self.start - 1}, which came from the prefix cache")
        if self._lost is not None:
            unseen.append(
                f"the rows from token {self._lost} on, which ran in a CUDA graph of the whole model (serve with "
                'compilation_config={"cudagraph_mode": "PIECEWISE"} to see them)'
            )
        return Record([self.entries()], unseen=unseen)

    def to_bytes(self) -> bytes:
        """The record as a file of safetensors, which any process can read."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "record.safetensors"
            self.record().save(path)
            return path.read_bytes()


def _on_cpu(entry: Entry) -> Entry:
    tensors = {name: tensor.cpu() for name, (tensor, _) in tensors_by_head(entry).items()}
    return with_tensors(entry, tensors, entry.shard)


class Store:
    """The requests that asked in one process: those that run, and the last of those that have finished.

    >>> store = Store()
    >>> for number in range(40):
    ...     store.begin(WatchedRequest(f"{number}-a1b2c3d4", [], True, 0))
    ...     store.end(f"{number}-a1b2c3d4")
    >>> len(store.names()), store.find("39").name
    (32, '39-a1b2c3d4')
    """

    def __init__(self) -> None:
        self.live: dict[str, WatchedRequest] = {}
        self._finished: dict[str, WatchedRequest] = {}

    def begin(self, request: WatchedRequest) -> None:
        """A request that asked."""
        self.live[request.name] = request

    def end(self, name: str) -> None:
        """A request has finished, if it is one of these."""
        request = self.live.pop(name, None)
        if request is None:
            return
        try:
            request.finish()
        except Exception as error:
            request.failed = request.failed or str(error)
        self._finished[name] = request
        while len(self._finished) > _STORED:
            del self._finished[next(iter(self._finished))]

    def names(self) -> list[str]:
        """The requests of which there is a record, the oldest first."""
        return [*self._finished, *self.live]

    def find(self, name: str) -> WatchedRequest:
        """A request by the name that vLLM's answer has, or by that in its processes."""
        known = self._finished | self.live
        if name in known:
            return known[name]
        alike = [own for own in known if _outside(own) == name]
        if not alike:
            raise InputError(  # no list of the others: over HTTP, who knows the name of a request can read it
                f"there is no record of request {name!r}: it did not ask, with "
                f'SamplingParams(extra_args={{"regard": True}}), or is not among the last {_STORED} that did. '
                "regard.serving.requests_seen(llm) lists them."
            )
        if len(alike) > 1:
            raise InputError(f"request {name!r} has {len(alike)} samples: choose one of {', '.join(alike)}.")
        return known[alike[0]]


def _outside(name: str) -> str:
    """The name of a request outside of the server: without the sample before it and the letters behind it.

    >>> _outside("7-a1b2c3d4"), _outside("1_cmpl-7-0-a1b2c3d4")
    ('7', 'cmpl-7-0')
    """
    number, separator, rest = name.partition("_")
    inside = rest if separator and number.isdigit() else name
    return inside.rpartition("-")[0] or inside
