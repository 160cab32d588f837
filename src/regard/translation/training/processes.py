"""The processes of one training: which rows of a batch each one takes, how their numbers meet, and who speaks.

Everything that knows of torch.distributed is here. `torchrun` starts the same command N times, and the N processes
train one model. Without it there is one process and no group, and each method gives back what it got.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from datetime import timedelta
from typing import Any, TypeVar

import torch
from torch import Tensor, distributed, nn
from torch.distributed.rendezvous import rendezvous

from regard.errors import InputError, RegardError, TooLargeError
from regard.nn import Transformer
from regard.support import available

_PATIENCE = timedelta(minutes=10)  # for each other: then a process that does not answer counts as lost
_GRACE = 10.0  # seconds after SIGTERM for a process to end by itself; torchrun sends SIGKILL after 30

_ADAM = 5 * 4  # bytes per parameter: the weight, its gradient, two moments and the average

Row = TypeVar("Row")


def is_first() -> bool:
    """Whether this process writes and prints: without torchrun, or as the first that it has started."""
    return _number("WORLD_SIZE", 1) == 1 or _number("RANK", 0) == 0


def restarted() -> bool:
    """Whether torchrun has started the processes anew, as it does with --max-restarts."""
    return _number("TORCHELASTIC_RESTART_COUNT", 0) > 0


def _number(name: str, otherwise: int) -> int:
    text = os.environ.get(name, str(otherwise))
    if not text.isdecimal():
        raise InputError(f"{name} must be a whole number in the environment, where torchrun puts it. Got {text!r}.")
    return int(text)


class Loss(nn.Module):
    """A model's loss as the `forward` of a module, which is what DistributedDataParallel can wrap."""

    def __init__(self, model: Transformer):
        super().__init__()
        self.model = model

    def forward(self, source: Tensor, target: Tensor, smoothing: float) -> Tensor:
        """`Transformer.loss`."""
        return self.model.loss(source, target, smoothing=smoothing)

    def no_sync(self) -> AbstractContextManager[None]:
        """Inside, gradients would stay in this process; here they do anyway, or they are sharded, to save memory."""
        return nullcontext()


class Processes:
    """This process among the `world` processes of a training: number `rank`, counted from 0.

    >>> alone = Processes()
    >>> alone.first, alone.of_first([1, 2]), alone.any(False)
    (True, [1, 2], False)
    """

    def __init__(self, rank: int = 0, world: int = 1):
        self.rank, self.world = rank, world
        # Connections to the store of torchrun: one to wait at, and one that is free when a thread has to speak.
        self._store: Any = None
        self._voice: Any = None
        self._launcher = os.getppid() if "TORCHELASTIC_RUN_ID" in os.environ else None

    @property
    def first(self) -> bool:
        """Whether this is the process that writes and prints."""
        return self.rank == 0

    @property
    def device(self) -> torch.device:
        """Where this process computes."""
        if not torch.cuda.is_available():
            return torch.device("cpu")
        return torch.device("cuda") if self.world == 1 else torch.device("cuda", torch.cuda.current_device())

    @property
    def beside(self) -> int:
        """How many of the processes share the memory of this machine, this one included."""
        return min(_number("LOCAL_WORLD_SIZE", 1), self.world)

    def check_room(self, parameters: int, *, shard: bool) -> None:
        """Raise where the memory of this process's device is too small to train so many parameters."""
        needed, free = parameters * _ADAM, available(self.device)
        if shard:
            needed //= self.world
        if self.device.type == "cpu":
            needed *= self.beside
        if free is not None and needed > free:
            raise TooLargeError(
                f"to train {parameters:,} parameters takes {needed / 2**30:,.1f} GiB, {free / 2**30:,.1f} GiB are free "
                f"on {self.device}. Lower the sizes in [model]."
            )

    # The work of each

    def share(self, rows: Sequence[Row], passes: int = 1) -> list[Sequence[Row]]:
        """This process's rows of a batch, for each of at most `passes` passes.

        Every process has as many passes as the others; one of them may be without rows.

        >>> [Processes(rank, world=2).share("abcdefg", passes=2) for rank in (0, 1)]
        [['ae', 'cg'], ['bf', 'd']]
        >>> [Processes(rank, world=2).share("abc", passes=9) for rank in (0, 1)]
        [['a', 'c'], ['b', '']]
        """
        passes = min(passes, -(-len(rows) // self.world))
        return [rows[n * self.world + self.rank :: passes * self.world] for n in range(passes)]

    def split(self, function: Callable[[list[str]], list[str]], texts: list[str]) -> list[str]:
        """function(texts), of which each process does its share; all get the whole."""
        if self.world == 1:
            return function(texts)
        own = function(texts[self.rank :: self.world])
        found = [""] * len(texts)
        for rank, data in enumerate(self._gathered(json.dumps(own).encode())):
            found[rank :: self.world] = json.loads(data)
        return found

    def wrap(self, model: Transformer, *, shard: bool) -> Any:
        """The model's loss, whose gradients are averaged over the processes; with `shard`, each keeps a part of all."""
        if self.world == 1:
            return Loss(model)
        if not shard:
            from torch.nn.parallel import DistributedDataParallel

            wrapped = DistributedDataParallel(Loss(model), gradient_as_bucket_view=True)
            wrapped.broadcast_buffers = False  # they are constants
            return wrapped
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard, register_fsdp_forward_method

        mesh = init_device_mesh(self.device.type, (self.world,))
        for layer in (*model.encoder.layers, *model.decoder.layers):
            fully_shard(layer, mesh=mesh)
        fully_shard(model, mesh=mesh)
        register_fsdp_forward_method(model, "loss")
        return Loss(model)

    # Numbers that meet

    def sum(self, number: Tensor) -> Tensor:
        """The sum over all processes."""
        if self.world > 1:
            number = number.clone()
            distributed.all_reduce(number)
        return number

    def any(self, flag: bool) -> bool:
        """Whether it is so for any process. All wait here for each other."""
        if self.world == 1:
            return flag
        found = torch.tensor(float(flag))
        distributed.all_reduce(found, op=distributed.ReduceOp.MAX)
        return bool(found)

    def number_of_first(self, number: float) -> float:
        """The number of the first process, for all; quicker than `of_first`."""
        return float(self.sum(torch.tensor(number if self.first else 0.0, dtype=torch.float64)))

    def of_first(self, value: Any) -> Any:
        """The value of the first process, for all: anything that JSON holds."""
        return value if self.world == 1 else json.loads(self.bytes_of_first(json.dumps(value).encode()))

    def bytes_of_first(self, data: bytes) -> bytes:
        """The bytes of the first process, for all."""
        return data if self.world == 1 else self._gathered(data if self.first else b"")[0]

    def _gathered(self, data: bytes) -> list[bytes]:
        """The bytes of every process."""
        sizes = [torch.zeros(1, dtype=torch.int64) for _ in range(self.world)]
        distributed.all_gather(sizes, torch.tensor([len(data)]))
        longest = max(int(size) for size in sizes)
        parts = [torch.empty(longest, dtype=torch.uint8) for _ in range(self.world)]
        distributed.all_gather(parts, torch.frombuffer(bytearray(data.ljust(longest, b"\0")), dtype=torch.uint8))
        return [bytes(part[: int(size)].numpy()) for part, size in zip(parts, sizes, strict=True)]

    def await_first(self, what: str) -> None:
        """Wait until the first process comes here too, however long that takes, once for each name."""
        if self._store is not None and self.first:
            self._store.set(what, "1")
        elif self._store is not None:
            self._store.wait([what], timedelta(days=30))

    def whole(self, tensor: Tensor) -> Tensor:
        """A tensor, or all shards of it; every process must ask."""
        return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor

    def fill(self, tensor: Tensor, content: Tensor | None) -> None:
        """Give a tensor, or this process's shard of it, the content that the first process has."""
        if self.world == 1:
            assert content is not None
            tensor.copy_(content)
            return
        whole = torch.empty(tensor.shape, dtype=tensor.dtype, device=tensor.device)
        if self.first:
            assert content is not None
            whole.copy_(content)
        if not hasattr(tensor, "full_tensor"):
            distributed.broadcast(whole, 0)
            tensor.copy_(whole)
            return
        from torch.distributed.tensor import DTensor, distribute_tensor

        assert isinstance(tensor, DTensor)
        tensor.to_local().copy_(distribute_tensor(whole, tensor.device_mesh, tensor.placements).to_local())

    # The end

    def abandoned(self) -> bool:
        """Whether the torchrun that started this process has gone, and nobody is left to end it."""
        return self._launcher is not None and self._launcher != os.getppid()

    def lost(self, error: BaseException) -> bool:
        """Whether an error says that another process cannot be reached."""
        text = str(error).lower()
        return self.world > 1 and (isinstance(error, distributed.DistError) or "gloo" in text or "nccl" in text)

    def speaks(self, error: BaseException | None = None) -> bool:
        """Whether this process says why the training ended: the first that asks does."""
        if self._voice is None:  # it has not met the others yet
            return self.rank <= 1
        try:
            return bool(self._voice.add("spoken", 1) == 1)
        except RuntimeError:  # the store ended with torchrun; or without it with the first process, if that was killed
            return self.first or (self.rank == 1 and isinstance(error, _Lost))

    def _end_when_told(self, advice: Callable[[], str], left: threading.Event, ear: socket.socket) -> None:
        """After SIGTERM, end this process even if it waits inside a library that lets no signal through."""
        with suppress(OSError), ear:
            while signals := ear.recv(64):
                if signal.SIGTERM in signals and not left.wait(_GRACE):
                    if self.speaks():
                        os.write(2, f"regard: {_TOLD}; {advice()}.\n".encode())
                    os._exit(128 + signal.SIGTERM)

    @contextmanager
    def told(self, advice: Callable[[], str]) -> Iterator[None]:
        """Let SIGTERM, with which torchrun ends the others when one process has failed, raise KeyboardInterrupt.

        After an error it is ignored: this process ends anyway, and must have the time to say why.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def stop(*_: Any) -> None:
            raise KeyboardInterrupt(f"{_TOLD}; {advice()}.")

        left = threading.Event()
        ear, mouth = socket.socketpair()
        mouth.setblocking(False)
        fd = signal.set_wakeup_fd(mouth.fileno(), warn_on_full_buffer=False)
        before: Any = signal.signal(signal.SIGTERM, stop)
        threading.Thread(target=self._end_when_told, args=(advice, left, ear), daemon=True).start()
        try:
            yield
        except BaseException:
            before = signal.SIG_IGN
            raise
        finally:
            signal.signal(signal.SIGTERM, before)
            signal.set_wakeup_fd(fd)
            left.set()
            mouth.close()  # the thread reads that, and ends


class _Lost(RegardError):
    """Another process cannot be reached."""


_TOLD = "ended by SIGTERM, as torchrun does when another process has failed"


@contextmanager
def joined(advice: Callable[[], str]) -> Iterator[Processes]:
    """Join the other processes, if torchrun has started more than one; only one of them raises what ended them all.

    `advice` says, at the end, how to go on.
    """
    world = _number("WORLD_SIZE", 1)
    if world == 1:
        yield Processes()
        return
    if distributed.is_initialized():
        raise InputError("a process group exists already: train makes its own. Call it before init_process_group.")
    missing = [name for name in ("RANK", "MASTER_ADDR", "MASTER_PORT") if name not in os.environ]
    if missing:
        raise InputError(f"WORLD_SIZE is {world}, but {missing[0]} is not set. Start the processes with torchrun.")
    rank, local = _number("RANK", 0), _number("LOCAL_RANK", 0)
    gpus = torch.cuda.device_count()
    if gpus:
        torch.cuda.set_device(local % gpus)
    backend = "cpu:gloo,cuda:nccl" if gpus and distributed.is_nccl_available() else "gloo"
    ours = Processes(rank, world)
    try:
        with ours.told(advice):
            try:
                found = next(rendezvous("env://", rank, world, timeout=_PATIENCE))[0]
                # torchrun's store outlives the processes: what those before a restart wrote must not be read.
                attempt = _number("TORCHELASTIC_RESTART_COUNT", 0)
                store: Any = distributed.PrefixStore(f"regard {attempt}", found)  # type: ignore[attr-defined]
                ours._store, ours._voice = store.clone(), store.clone()
                distributed.init_process_group(backend, store=store, rank=rank, world_size=world, timeout=_PATIENCE)
                if gpus and local >= gpus:
                    raise InputError(f"this machine has {gpus} GPUs: start torchrun with --nproc-per-node={gpus}.")
                yield ours
            except (RuntimeError, ValueError) as error:
                if not ours.lost(error):
                    raise
                raise _Lost(f"another process of this training has ended or does not answer; {advice()}.") from None
    except BaseException as error:
        if not ours.speaks(error):
            raise SystemExit(130 if isinstance(error, KeyboardInterrupt) else 2) from None
        if isinstance(error, RegardError) and not isinstance(error, _Lost) and rank:
            error.args = (f"process {rank + 1} of {world}: {error}",)
        raise
    distributed.destroy_process_group()
