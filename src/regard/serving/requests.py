"""The watched requests of a process: what each asks for, what is kept of it, and the store of all of them.

Nothing here may stop the server: what goes wrong is reported when the record is read.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from regard.errors import InputError, WatchError
from regard.watching.capture.calls import AttentionCall, Shard
from regard.watching.capture.masks import Pattern
from regard.watching.capture.passes import Pass
from regard.watching.record.entries import Entry
from regard.watching.record.record import Record
from regard.watching.record.reductions import REDUCTIONS, Keep, to_keep
from regard.watching.record.storage import tensors_by_head, with_tensors
from regard.watching.record.tokens import Text, Vocabulary

_SUMMARIES = ("received", "entropy", "top")
_STORED = 32  # finished requests whose record is kept; the oldest is dropped first


def _to_keep(option: Any) -> Keep:
    """Return what is kept for a request.

    >>> _to_keep(True).reductions, _to_keep("matrix").reductions, _to_keep(["entropy"]).reductions
    (('received', 'entropy', 'top'), None, ('entropy',))
    """
    if option in (True, 1, "1", "true", "summary"):
        return to_keep(_SUMMARIES)
    names = [option] if isinstance(option, str) else option
    if option == "matrix" or (names and isinstance(names, list | tuple) and all(name in REDUCTIONS for name in names)):
        return to_keep(option)
    raise InputError(
        f'extra_args = {{"regard": …}} must be True or "summary" ({", ".join(_SUMMARIES)}), some of '
        f'{", ".join(map(repr, REDUCTIONS))}, or "matrix". Got {option!r}.'
    )


class Share(NamedTuple):
    """The part of a request in a step of the server: these tokens of its text."""

    request: WatchedRequest
    queries: range


@dataclass(frozen=True, eq=False)
class LayerStep:
    """The attention of one layer to one request in one step; its keys are read when they are needed."""

    query: Tensor  # (tokens, heads, width)
    keys: Callable[[range], Tensor]  # returns (1, key heads, keys, width) at these positions
    scale: float
    window: int | None = None  # how many keys a query sees, itself included
    softcap: float | None = None
    sinks: Tensor | None = None
    shard: Shard | None = None


class WatchedRequest:
    """One request: the calls of each layer, as `watch` has them, and the tokens it has read so far.

    Args:
        name: of the request in this process.
        prompt: the ids of its tokens, if they are known.
        option: what the request asks to keep.
        start: the position of its first token that is computed; the tokens before come from the prefix cache.
    """

    def __init__(self, name: str, prompt: Iterable[int] | None, option: Any, start: int):
        self.name = name
        self.start = self.stop = start  # the positions that have rows
        self.failed = ""  # why there is no record
        self.unseen: dict[str, str] = {}  # the reason by layer
        self._lost: int | None = None  # the first token of a step that ran unseen
        self._entries: dict[str, Entry] | None = None  # once it has finished
        self._ids = [torch.tensor(list(prompt or ())[:start], dtype=torch.long)]
        keep = Keep()
        try:
            keep = _to_keep(option)
        except InputError as error:
            self.failed = str(error)
        self._calls = Pass(Text(Vocabulary()), keep)  # by layer

    @property
    def watching(self) -> bool:
        """Whether its steps are recorded: no longer after an error or a step that ran unseen."""
        return not self.failed and self._lost is None

    def lose(self, start: int) -> None:
        """Note that the tokens from this one on run unseen: in a CUDA graph of the whole model."""
        self._lost = start

    def read(self, ids: Tensor, queries: range) -> None:
        """Note the ids of the tokens that it reads in a step."""
        new = len(queries) - max(self.stop - queries.start, 0)
        if new > 0:
            self._ids.append(ids[len(queries) - new :].detach().clone())
            self.stop = queries.stop

    def observe(self, layer: str, step: LayerStep, queries: range) -> None:
        """Record what a layer computed for the tokens at these positions."""
        calls = self._calls.get(layer)
        stop = self.start if calls is None else calls.queries.stop
        if queries.start > stop:
            raise WatchError(f"{layer}: the tokens from {stop} to {queries.start - 1} ran where regard does not see.")
        again = stop - queries.start  # tokens that are computed again after the server had dropped their keys
        if again >= len(queries):
            return
        if again and calls is not None:
            calls.resume()
        queries = range(stop, queries.stop)
        first = 0 if step.window is None else max(stop - step.window + 1, 0)
        key, keys = step.keys(range(first, queries.stop)), range(first, queries.stop)
        if calls is None and first:  # a record begins with key 0, though no query sees it any more
            key, keys = functional.pad(key, (0, 0, first, 0)), range(queries.stop)
        pattern = Pattern(((None if step.window is None else 1 - step.window, 0),))
        call = AttentionCall(
            step.query[again:].detach().transpose(0, 1)[None].clone(memory_format=torch.contiguous_format),
            key, pattern.mask(queries, keys), step.scale, step.softcap, step.sinks, "decoder", queries, keys,
            pattern, shard=step.shard,
        )  # fmt: skip
        self._calls.add(layer, call)

    def finish(self) -> None:
        """Move what is kept to the memory of the CPU: the request reads no more."""
        if not self.failed:
            self._entries = self.entries()
            for name, entry in self._entries.items():
                tensors = {part: tensor.cpu() for part, (tensor, _) in tensors_by_head(entry).items()}
                self._entries[name] = with_tensors(entry, tensors, entry.shard)
        self._calls.clear()

    def entries(self) -> dict[str, Entry]:
        """Return what is known so far, by layer."""
        if self._entries is not None:
            return self._entries
        ids, entries = torch.cat([part.cpu().long() for part in self._ids])[None], {}
        for name, calls in self._calls.items():
            entry = calls.entry()
            rows, keys = entry.shape[2:]
            known = ids.shape[1] >= keys
            key_ids = ids[:, :keys] if known and rows < keys else None
            query_ids = ids[:, keys - rows : keys] if known else None
            entries[name] = replace(entry, ids=query_ids, key_ids=query_ids if rows == keys else key_ids)
        return entries

    def record(self) -> Record:
        """Return the record of what is kept; `unseen` says what is not."""
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
        """Return the record as a safetensors file, which any process can read."""
        return to_bytes(self.record())


def to_bytes(record: Record) -> bytes:
    """Return a record as the bytes of a safetensors file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "record.safetensors"
        record.save(path)
        return path.read_bytes()


class Store:
    """The watched requests of one process: the running ones, and the last ones that have finished.

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
        """Add a request."""
        self.live[request.name] = request

    def end(self, name: str) -> None:
        """Note that a request has finished, if it is watched."""
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
        """Return the names of the requests that have a record, the oldest first."""
        return [*self._finished, *self.live]

    def find(self, name: str) -> WatchedRequest:
        """Return a request by its name in vLLM's answer, or by its name in vLLM's processes."""
        known = self._finished | self.live
        matches = [name] if name in known else [inside for inside in known if _outside(inside) == name]
        if not matches:
            raise InputError(  # without a list of other names: over HTTP, who knows the name of a request can read it
                f"there is no record of request {name!r}: it did not ask, with "
                f'SamplingParams(extra_args={{"regard": True}}), or is not among the last {_STORED} that did. '
                "regard.serving.requests_seen(llm) lists them."
            )
        if len(matches) > 1:
            raise InputError(f"request {name!r} has {len(matches)} samples: choose one of {', '.join(matches)}.")
        return known[matches[0]]


def _outside(name: str) -> str:
    """Return the name of a request outside of the server: without the sample before it and the letters behind it.

    >>> _outside("7-a1b2c3d4"), _outside("1_cmpl-7-0-a1b2c3d4")
    ('7', 'cmpl-7-0')
    """
    number, separator, rest = name.partition("_")
    inside = rest if separator and number.isdigit() else name
    return inside.rpartition("-")[0] or inside
