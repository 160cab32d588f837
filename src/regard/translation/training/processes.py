"""The processes of one training: their rows of a batch, their sums, and which of them reports the end.

All code for torch.distributed is in this file. `torchrun` starts the same command N times, and the N processes train
one model. Without torchrun there is one process without a group, and each method returns its argument.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from datetime import timedelta
from functools import partial
from typing import Any, TypeVar

import torch
from torch import Tensor, distributed, nn
from torch.distributed.rendezvous import rendezvous

from regard.errors import InputError, RegardError, TooLargeError
from regard.matrix import AttentionMatrix, attention, guide
from regard.nn import EncoderLayer, Transformer
from regard.support import available
from regard.translation.training.recipe import Guide

_PATIENCE = timedelta(minutes=10)  # after this time a process that does not answer counts as lost
_GRACE = 10.0  # seconds after SIGTERM for a process to end by itself; torchrun sends SIGKILL after 30
_ADAM = 5 * 4  # bytes per parameter: the weight, its gradient, two moments and the average
_ENDED = "ended by SIGTERM, as torchrun does when another process has failed"

Row = TypeVar("Row")


def is_first() -> bool:
    """Whether this process writes and prints: it is the only process, or the first one of torchrun."""
    return _number("WORLD_SIZE", 1) == 1 or _number("RANK", 0) == 0


def restarted() -> bool:
    """Whether torchrun has restarted the processes (--max-restarts)."""
    return _number("TORCHELASTIC_RESTART_COUNT", 0) > 0


def _number(name: str, default: int) -> int:
    text = os.environ.get(name, str(default))
    if not text.isdecimal():
        raise InputError(f"{name} must be a whole number in the environment, where torchrun puts it. Got {text!r}.")
    return int(text)


class Loss(nn.Module):
    """The loss of a model as the `forward` of a module, which DistributedDataParallel can wrap."""

    def __init__(self, model: Transformer, guides: Sequence[Guide] = ()):
        super().__init__()
        self.model, self.guides = model, guides
        self._matrices: dict[int, AttentionMatrix] = {}  # of the layers with a guided head
        for layer in {each.layer for each in guides}:
            guided = model.encoder.layers[layer]
            assert isinstance(guided, EncoderLayer)
            guided.attention.attend = partial(self._attend, layer)

    def forward(self, source: Tensor, target: Tensor, smoothing: float, links: Tensor) -> tuple[Tensor, Tensor]:
        """`Transformer.loss`, and the weighted sum of what `regard.guide` gives for the guided heads."""
        loss = self.model.loss(source, target, smoothing=smoothing)
        guided = torch.zeros((), device=loss.device)
        for each in self.guides:
            guided = guided + each.weight * guide(self._matrices[each.layer].part[:, each.head], links)
        self._matrices.clear()
        return loss, guided

    def _attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, **options: Any) -> Tensor:
        kept = {name: option for name, option in options.items() if name != "dropout"}
        self._matrices[layer] = AttentionMatrix(query, key, **kept)
        return attention(query, key, value, **options)

    def no_sync(self) -> AbstractContextManager[None]:
        """Do nothing: as in DistributedDataParallel, but gradients are not synchronized, or are sharded anyway."""
        return nullcontext()


class Processes:
    """This process among the `world` processes of a training: number `rank`, counted from 0.

    >>> alone = Processes()
    >>> alone.first, alone.of_first([1, 2]), alone.any(False)
    (True, [1, 2], False)
    """

    def __init__(self, rank: int = 0, world: int = 1):
        self.rank, self.world = rank, world
        # Two connections to the store of torchrun: for waiting, and for a thread that reports meanwhile.
        self._store: Any = None
        self._report_store: Any = None
        self._launcher = os.getppid() if "TORCHELASTIC_RUN_ID" in os.environ else None

    @property
    def first(self) -> bool:
        """Whether this is the process that writes and prints."""
        return self.rank == 0

    @property
    def device(self) -> torch.device:
        """The device of this process."""
        if not torch.cuda.is_available():
            return torch.device("cpu")
        return torch.device("cuda") if self.world == 1 else torch.device("cuda", torch.cuda.current_device())

    def check_room(self, parameters: int, *, shard: bool) -> None:
        """Raise if the memory of this process's device is too small to train this number of parameters."""
        needed, free = parameters * _ADAM, available(self.device)
        if shard:
            needed //= self.world
        if self.device.type == "cpu":  # processes on one machine share its memory
            needed *= min(_number("LOCAL_WORLD_SIZE", 1), self.world)
        if free is not None and needed > free:
            raise TooLargeError(
                f"to train {parameters:,} parameters takes {needed / 2**30:,.1f} GiB, {free / 2**30:,.1f} GiB are free "
                f"on {self.device}. Lower the sizes in [model]."
            )

    # The work of each

    def share(self, rows: Sequence[Row], passes: int = 1) -> list[Sequence[Row]]:
        """This process's rows of a batch, for each of at most `passes` passes.

        Every process has the same number of passes, perhaps without rows.

        >>> [Processes(rank, world=2).share("abcdefg", passes=2) for rank in (0, 1)]
        [['ae', 'cg'], ['bf', 'd']]
        >>> [Processes(rank, world=2).share("abc", passes=9) for rank in (0, 1)]
        [['a', 'c'], ['b', '']]
        """
        passes = min(passes, -(-len(rows) // self.world))
        return [rows[n * self.world + self.rank :: passes * self.world] for n in range(passes)]

    def split(self, function: Callable[[list[str]], list[str]], texts: list[str]) -> list[str]:
        """function(texts), computed in shares by all processes and returned to all."""
        if self.world == 1:
            return function(texts)
        results, shares = [""] * len(texts), [[""]] * self.world
        distributed.all_gather_object(shares, function(texts[self.rank :: self.world]))
        for rank, share in enumerate(shares):
            results[rank :: self.world] = share
        return results

    def wrap(self, model: Transformer, guides: Sequence[Guide] = (), *, shard: bool) -> Any:
        """The loss of a model, with gradients averaged over the processes; with `shard`, weights are sharded."""
        if self.world == 1:
            return Loss(model, guides)
        if not shard:
            from torch.nn.parallel import DistributedDataParallel

            wrapped = DistributedDataParallel(Loss(model, guides), gradient_as_bucket_view=True)
            wrapped.broadcast_buffers = False  # the buffers are constants
            return wrapped
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard, register_fsdp_forward_method

        mesh = init_device_mesh(self.device.type, (self.world,))
        for layer in (*model.encoder.layers, *model.decoder.layers):
            fully_shard(layer, mesh=mesh)
        fully_shard(model, mesh=mesh)
        register_fsdp_forward_method(model, "loss")
        return Loss(model, guides)

    # Numbers that meet

    def sum(self, number: Tensor) -> Tensor:
        """The sum over all processes."""
        if self.world > 1:
            number = number.clone()
            distributed.all_reduce(number)
        return number

    def any(self, flag: bool) -> bool:
        """Whether the flag is True in any process; all processes wait for each other."""
        if self.world == 1:
            return flag
        largest = torch.tensor(float(flag))
        distributed.all_reduce(largest, op=distributed.ReduceOp.MAX)
        return bool(largest)

    def of_first(self, value: Any) -> Any:
        """The value of the first process, for all processes."""
        values = [value]
        if self.world > 1:
            distributed.broadcast_object_list(values, src=0, device=torch.device("cpu"))
        return values[0]

    def await_first(self, what: str) -> None:
        """Wait until the first process makes this call, without a time limit; once for each name."""
        if self._store is not None and self.first:
            self._store.set(what, "1")
        elif self._store is not None:
            self._store.wait([what], timedelta(days=30))

    def whole(self, tensor: Tensor) -> Tensor:
        """A tensor, gathered from its shards if it is sharded; all processes must call this."""
        return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor

    def fill(self, tensor: Tensor, content: Tensor | None) -> None:
        """Copy the content that the first process has into a tensor, or into this process's shard of it."""
        whole = torch.empty(tensor.shape, dtype=tensor.dtype, device=tensor.device)
        if self.first:
            assert content is not None
            whole.copy_(content)
        if hasattr(tensor, "full_tensor"):
            from torch.distributed.tensor import DTensor, distribute_tensor

            assert isinstance(tensor, DTensor)
            tensor.to_local().copy_(distribute_tensor(whole, tensor.device_mesh, tensor.placements).to_local())
            return
        if self.world > 1:
            distributed.broadcast(whole, 0)
        tensor.copy_(whole)

    # The end

    def abandoned(self) -> bool:
        """Whether torchrun, which started this process and would end it, is gone."""
        return self._launcher is not None and self._launcher != os.getppid()

    def is_reporter(self, error: BaseException | None = None) -> bool:
        """Whether this process reports why the training ended: the first process that calls this does."""
        if self._report_store is None:  # not connected yet
            return self.rank <= 1
        try:
            return bool(self._report_store.add("reported", 1) == 1)
        except RuntimeError:  # the store ended with torchrun or, without torchrun, with the first process
            return self.first or (self.rank == 1 and isinstance(error, _Lost))

    def _exit_after_sigterm(self, advice: Callable[[], str], left: threading.Event, signals: socket.socket) -> None:
        """After SIGTERM, end this process even if it waits inside a library that handles no signals."""
        with suppress(OSError), signals:
            while received := signals.recv(64):
                if signal.SIGTERM in received and not left.wait(_GRACE):
                    if self.is_reporter():
                        os.write(2, f"regard: {_ENDED}; {advice()}.\n".encode())
                    os._exit(128 + signal.SIGTERM)

    @contextmanager
    def interrupted_by_sigterm(self, advice: Callable[[], str]) -> Iterator[None]:
        """Let SIGTERM raise KeyboardInterrupt: torchrun sends it to the other processes when one has failed.

        After an error SIGTERM is ignored: this process ends anyway, and must have the time to report why.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def stop(*_: Any) -> None:
            raise KeyboardInterrupt(f"{_ENDED}; {advice()}.")

        left = threading.Event()
        signals, wakeup = socket.socketpair()
        wakeup.setblocking(False)
        fd = signal.set_wakeup_fd(wakeup.fileno(), warn_on_full_buffer=False)
        before: Any = signal.signal(signal.SIGTERM, stop)
        threading.Thread(target=self._exit_after_sigterm, args=(advice, left, signals), daemon=True).start()
        try:
            yield
        except BaseException:
            before = signal.SIG_IGN
            raise
        finally:
            signal.signal(signal.SIGTERM, before)
            signal.set_wakeup_fd(fd)
            left.set()
            wakeup.close()  # ends the thread


class _Lost(RegardError):
    """Another process cannot be reached."""


@contextmanager
def joined(advice: Callable[[], str]) -> Iterator[Processes]:
    """Join the other processes of torchrun, if there are any; only one process raises the error that ended all.

    `advice` tells the user how to continue.
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
    processes = Processes(rank, world)
    try:
        with processes.interrupted_by_sigterm(advice):
            try:
                shared = next(rendezvous("env://", rank, world, timeout=_PATIENCE))[0]
                # The store outlives a restart of the processes: do not read what was written before it.
                attempt = _number("TORCHELASTIC_RESTART_COUNT", 0)
                store: Any = distributed.PrefixStore(f"regard {attempt}", shared)  # type: ignore[attr-defined]
                processes._store, processes._report_store = store.clone(), store.clone()
                distributed.init_process_group(backend, store=store, rank=rank, world_size=world, timeout=_PATIENCE)
                if gpus and local >= gpus:
                    raise InputError(f"this machine has {gpus} GPUs: start torchrun with --nproc-per-node={gpus}.")
                yield processes
            except (RuntimeError, ValueError) as error:
                is_lost = isinstance(error, distributed.DistError) or re.search("gloo|nccl", str(error).lower())
                if not is_lost:
                    raise
                raise _Lost(f"another process of this training has ended or does not answer; {advice()}.") from None
    except BaseException as error:
        if not processes.is_reporter(error):
            raise SystemExit(130 if isinstance(error, KeyboardInterrupt) else 2) from None
        if isinstance(error, RegardError) and not isinstance(error, _Lost) and rank:
            error.args = (f"process {rank + 1} of {world}: {error}",)
        raise
    distributed.destroy_process_group()
