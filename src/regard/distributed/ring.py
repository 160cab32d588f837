"""`Ring`: what ranks say to each other. They agree on each call, and pass tensors on while they compute.

A rank must never wait for one that does something else. So each call begins with a short message to all: what is
called, and what went wrong, if anything did. What is decided from numbers (is the normaliser known with digits enough?)
is decided from everyone's message, for all alike.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from regard.errors import DTypeError, InputError, RankError

_FRAME = 1024  # bytes of a message, unless one is longer
_BLOCK, _RESULT = 0, 1000  # tags: what is computed with, and what is added up on the way


@dataclass(frozen=True, eq=False)
class Moving:
    """A tensor of which each rank has one, that goes round; of another length on each along one axis."""

    tensor: Tensor
    axis: int | None = None
    lengths: Sequence[int] = ()

    def empty(self, owner: int) -> Tensor:
        """Room for that of another rank."""
        shape = list(self.tensor.shape)
        if self.axis is not None:
            shape[self.axis] = self.lengths[owner]
        return self.tensor.new_empty(shape)


class Ring:
    """The ranks of a process group, each with a next one; alone, without a group, there is nobody to ask."""

    def __init__(self, group: Any = None):
        self.group = group
        self.rank: int = 0 if group is None else dist.get_rank(group)
        self.size: int = 1 if group is None else dist.get_world_size(group)
        if self.rank < 0:
            raise InputError("this rank is not one of the mesh or group. Only its ranks may make this call.")

    @classmethod
    def of(cls, mesh: Any) -> Ring:
        """Over a DeviceMesh of one dimension or a process group; for None over all ranks, or alone where none are."""
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

    def agree(self, call: str, prepare: Callable[[], dict[str, Any]]) -> list[dict[str, Any]]:
        """What every rank has to say about this call; the same error on all where one cannot take part in it.

        `prepare` checks what can be checked without the others, and gives what they must know; under "same", what all
        of them must have alike.
        """
        error: Exception | None = None
        said: dict[str, Any] = {"call": call}
        try:
            said |= prepare()
        except Exception as caught:
            error = caught
            said["error"] = f"{type(caught).__name__}: {caught}"
        if self.size == 1:
            if error is not None:
                raise error
            return [said]
        try:
            with self._asking(call):
                everyone = self._exchange(said)
        except RankError:
            if error is None:
                raise
        if error is not None:
            raise error
        for rank, other in enumerate(everyone):
            if "error" in other:
                raise RankError(f"rank {rank} could not take part in {other['call']}. {other['error']}")
            if other["call"] != call:
                raise RankError(
                    "all ranks must make the same calls in the same order. "
                    f"Rank {rank} makes {other['call']}, rank {self.rank} makes {call}. "
                    "Is a call inside an `if rank == 0`, or does one rank have less to do?"
                )
            if other.get("same") != said.get("same"):
                raise RankError(
                    f"{call} needs tensors alike on all ranks, in all but their tokens. "
                    f"Rank {rank} has {other['same']}, rank {self.rank} has {said['same']}."
                )
        return everyone

    def _exchange(self, said: dict[str, Any]) -> list[dict[str, Any]]:
        data = json.dumps(said).encode()
        device = "cpu" if "cpu:" in dist.get_backend_config(self.group) else torch.device("cuda")
        size = _FRAME
        while True:
            frame = bytearray(len(data).to_bytes(4, "big") + data[: size - 4]).ljust(size, b" ")
            mine = torch.frombuffer(frame, dtype=torch.uint8).to(device)
            found = [torch.empty_like(mine) for _ in range(self.size)]
            dist.all_gather(found, mine, group=self.group)
            frames = [bytes(tensor.tolist()) for tensor in found]
            lengths = [int.from_bytes(frame[:4], "big") for frame in frames]
            if max(lengths) <= size - 4:
                return [json.loads(frame[4 : 4 + n]) for frame, n in zip(frames, lengths, strict=True)]
            size = max(lengths) + 4

    @contextlib.contextmanager
    def _asking(self, what: str) -> Iterator[None]:
        try:
            yield
        except RuntimeError as error:  # torch's errors of connections and of time; nothing is computed in here
            reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            raise RankError(
                f"rank {self.rank} of {self.size} had no answer from another rank in {what}: {reason}. A process ended "
                "(what it printed last says why), or it makes other calls than this one. End all ranks and start them "
                "again; torchrun ends all of them if one dies. How long to wait for each other is said at the start: "
                "init_process_group(timeout=…)."
            ) from error

    # Passing on

    def around(self, moving: Sequence[Moving], what: str) -> Iterator[tuple[int, list[Tensor]]]:
        """(rank, its tensors) for every rank, this one first; while one is worked on, the next is on its way."""
        owner, here = self.rank, [each.tensor.contiguous() for each in moving]
        for step in range(self.size):
            last = step == self.size - 1
            before = (owner - 1) % self.size
            coming = [] if last else [each.empty(before) for each in moving]
            works = [] if last else self.start(here, coming, what, _BLOCK)
            yield owner, here
            if not last:
                self.finish(works, what)
                owner, here = before, coming

    def start(self, going: Sequence[Tensor], coming: Sequence[Tensor], what: str, tag: int) -> list[Any]:
        """Begin to send to the next rank, and to receive from the one before; nothing may change them meanwhile."""
        after, before = (self.rank + 1) % self.size, (self.rank - 1) % self.size
        # In one order on all ranks; what has no numbers is not sent.
        ops = [
            dist.P2POp(op, tensor, group=self.group, group_peer=peer, tag=tag + n)
            for op, tensors, peer in ((dist.isend, going, after), (dist.irecv, coming, before))
            for n, tensor in enumerate(tensors)
            if tensor.numel()
        ]
        with self._asking(what):
            return dist.batch_isend_irecv(ops) if ops else []

    def finish(self, works: Sequence[Any], what: str) -> None:
        """Wait until all of it has arrived."""
        with self._asking(what):
            for work in works:
                work.wait()

    def collect(self, moving: Moving, what: str) -> list[Tensor]:
        """The tensors of all ranks, in their order."""
        found = dict(self.around([moving], what))
        return [found[rank][0] for rank in range(self.size)]

    def reduce(self, tensor: Tensor, what: str, maximum: bool = False) -> Tensor:
        """The sum (or maximum) over all ranks, in place, with the same bits on all."""
        if self.size > 1:
            with self._asking(what):
                dist.all_reduce(tensor, dist.ReduceOp.MAX if maximum else dist.ReduceOp.SUM, group=self.group)
        return tensor


class Carrier:
    """Results for the tokens that go round: each rank adds to those of their owner, and at last they come home."""

    def __init__(self, ring: Ring, what: str, maximum: bool = False):
        self._ring, self._what, self._maximum = ring, what, maximum
        self._works: list[Any] = []
        self._coming: list[Tensor] = []

    def add(self, owner: int, found: Sequence[Moving]) -> None:
        """Take in what this rank has for the owner, in the order of `Ring.around`, and send it on."""
        totals = [each.tensor for each in found]
        if self._coming:
            self._ring.finish(self._works, self._what)
            for total, arrived in zip(totals, self._coming, strict=True):
                torch.maximum(total, arrived, out=total) if self._maximum else total.add_(arrived)
        if self._ring.size == 1:
            self._coming = totals
            return
        self._coming = [each.empty((owner - 1) % self._ring.size) for each in found]
        self._works = self._ring.start(totals, self._coming, self._what, _RESULT)

    def home(self) -> list[Tensor]:
        """Those of this rank's own tokens, once every rank has added to them."""
        self._ring.finish(self._works, self._what)
        return self._coming
