"""`Ring`: the messages between ranks. They agree on each call, and pass tensors on while they compute.

A rank must never wait for a rank that makes another call. So each call begins with a short message to all: the name of
the call, and what went wrong. Decisions that depend on numbers (is the normaliser precise enough?) depend on the
messages of all ranks, so that all ranks decide alike.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from regard.errors import DTypeError, InputError, RankError

T = TypeVar("T")
_BLOCK, _RESULT = 0, 1000  # tags of inputs, and of results that are summed on the way


@dataclass(frozen=True, eq=False)
class Moving:
    """A tensor of each rank that travels round the ring; its length along `axis` depends on the rank."""

    tensor: Tensor
    axis: int | None = None
    lengths: Sequence[int] = ()

    def empty(self, owner: int) -> Tensor:
        """An empty tensor for that of another rank."""
        shape = list(self.tensor.shape)
        if self.axis is not None:
            shape[self.axis] = self.lengths[owner]
        return self.tensor.new_empty(shape)


class Ring:
    """The ranks of a process group in a circle; without a group, a single process."""

    def __init__(self, group: Any = None):
        self.group = group
        self.rank: int = 0 if group is None else dist.get_rank(group)
        self.size: int = 1 if group is None else dist.get_world_size(group)
        if self.rank < 0:
            raise InputError("this rank is not one of the mesh or group. Only its ranks may make this call.")

    @classmethod
    def of(cls, mesh: Any) -> Ring:
        """The ring of a DeviceMesh of one dimension or a process group; for None, of all ranks or of this process."""
        if mesh is None:
            return cls(dist.group.WORLD if dist.is_available() and dist.is_initialized() else None)
        if isinstance(mesh, dist.ProcessGroup):
            return cls(mesh)
        if not hasattr(mesh, "get_group"):
            raise DTypeError(f"mesh must be a DeviceMesh, a process group or None. Got {type(mesh).__name__}.")
        if mesh.ndim != 1:
            raise InputError(
                f"mesh must have one dimension, that of the sequence. Got {mesh.ndim}: {mesh.mesh_dim_names}. "
                'Choose one: mesh["name"].'
            )
        return cls(mesh.get_group())

    # Agreement

    def agree(self, call: str, prepare: Callable[[], tuple[T, dict[str, Any]]]) -> tuple[T, list[dict[str, Any]]]:
        """What `prepare` returns for this rank, and the messages of all ranks about this call.

        `prepare` checks the arguments of this rank. It returns what the rank keeps, and its message to all ranks; under
        "same", what must be equal on all. Where a rank cannot take part, all ranks raise an error.
        """
        error: Exception | None = None
        message: dict[str, Any] = {"call": call}
        try:
            kept, about = prepare()
            message |= about
        except Exception as caught:
            error = caught
            message["error"] = f"{type(caught).__name__}: {caught}"
        messages = [message]
        try:
            if self.size > 1:
                with self._connected(call):
                    messages = [message] * self.size
                    dist.all_gather_object(messages, message, group=self.group)
        except RankError:
            if error is None:
                raise
        if error is not None:
            raise error
        for rank, other in enumerate(messages):
            if "error" in other:
                raise RankError(f"rank {rank} could not take part in {other['call']}. {other['error']}")
            if other["call"] != call:
                raise RankError(
                    "all ranks must make the same calls in the same order. "
                    f"Rank {rank} makes {other['call']}, rank {self.rank} makes {call}. "
                    "Is a call inside an `if rank == 0`, or does one rank have less to do?"
                )
            if other.get("same") != message.get("same"):
                raise RankError(
                    f"{call} needs tensors alike on all ranks, in all but their tokens. "
                    f"Rank {rank} has {other['same']}, rank {self.rank} has {message['same']}."
                )
        return kept, messages

    @contextlib.contextmanager
    def _connected(self, call: str) -> Iterator[None]:
        try:
            yield
        except RuntimeError as error:  # torch's errors of connections and timeouts; nothing is computed in here
            reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            raise RankError(
                f"rank {self.rank} of {self.size} had no answer from another rank in {call}: {reason}. A process ended "
                "(what it printed last says why), or it makes other calls than this one. End all ranks and start them "
                "again; torchrun ends all of them if one dies. How long to wait for each other is said at the start: "
                "init_process_group(timeout=…)."
            ) from error

    # Passing on

    def around(self, moving: Sequence[Moving], what: str) -> Iterator[tuple[int, list[Tensor]]]:
        """(rank, its tensors) for every rank, this one first; the next tensors arrive while these are used."""
        owner, tensors = self.rank, [each.tensor.contiguous() for each in moving]
        for _ in range(self.size - 1):
            before = (owner - 1) % self.size
            incoming = [each.empty(before) for each in moving]
            works = self.start(tensors, incoming, what, _BLOCK)
            yield owner, tensors
            self.finish(works, what)
            owner, tensors = before, incoming
        yield owner, tensors

    def start(self, going: Sequence[Tensor], coming: Sequence[Tensor], what: str, tag: int) -> list[Any]:
        """Begin to send to the next rank and to receive from the rank before; the tensors must not change meanwhile."""
        after, before = (self.rank + 1) % self.size, (self.rank - 1) % self.size
        # All ranks send in the same order; empty tensors are not sent.
        ops = [
            dist.P2POp(op, tensor, group=self.group, group_peer=peer, tag=tag + n)
            for op, tensors, peer in ((dist.isend, going, after), (dist.irecv, coming, before))
            for n, tensor in enumerate(tensors)
            if tensor.numel()
        ]
        with self._connected(what):
            return dist.batch_isend_irecv(ops) if ops else []

    def finish(self, works: Sequence[Any], what: str) -> None:
        """Wait until all tensors have arrived."""
        with self._connected(what):
            for work in works:
                work.wait()

    def collect(self, moving: Moving, what: str) -> list[Tensor]:
        """The tensors of all ranks, in their order."""
        by_rank = dict(self.around([moving], what))
        return [by_rank[rank][0] for rank in range(self.size)]

    def reduce(self, tensor: Tensor, what: str, maximum: bool = False) -> Tensor:
        """The sum (or maximum) over all ranks, in place, with the same bits on all."""
        if self.size > 1:
            with self._connected(what):
                dist.all_reduce(tensor, dist.ReduceOp.MAX if maximum else dist.ReduceOp.SUM, group=self.group)
        return tensor


class Carrier:
    """Results per key that travel with the keys: each rank adds its part, and they return to the rank of the keys."""

    def __init__(self, ring: Ring, what: str, maximum: bool = False):
        self._ring, self._what, self._maximum = ring, what, maximum
        self._works: list[Any] = []
        self._incoming: list[Tensor] = []

    def add(self, owner: int, parts: Sequence[Moving]) -> None:
        """Add the part of this rank to the results for `owner`, in the order of `Ring.around`, and send them on."""
        totals = [each.tensor for each in parts]
        if self._incoming:
            self._ring.finish(self._works, self._what)
            for total, arrived in zip(totals, self._incoming, strict=True):
                torch.maximum(total, arrived, out=total) if self._maximum else total.add_(arrived)
        if self._ring.size == 1:
            self._incoming = totals
            return
        self._incoming = [each.empty((owner - 1) % self._ring.size) for each in parts]
        self._works = self._ring.start(totals, self._incoming, self._what, _RESULT)

    def home(self) -> list[Tensor]:
        """The results for the keys of this rank, after every rank has added its part."""
        self._ring.finish(self._works, self._what)
        return self._incoming
