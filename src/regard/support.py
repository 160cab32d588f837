"""Small helpers of every room: shapes in signatures, checks of arguments, memory, threads; and the helpers of io.py."""

from __future__ import annotations

import math
import operator
import os
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import torch
from torch import Tensor

from regard.errors import DeviceError, DTypeError, InputError, TooLargeError
from regard.io import DRAFT, progress, reading, write_file

__all__ = [
    "DRAFT", "FLOATS", "WHOLE", "Bool", "Float", "Int", "available", "check_dense", "check_stored", "ensure_room",
    "inside_func", "no_autocast", "no_compile", "number", "one_of", "progress", "reading", "recording", "require_text",
    "some_of", "threads", "transformed", "whole", "write_file",
]  # fmt: skip

P = ParamSpec("P")
R = TypeVar("R")

# Shapes in signatures: jaxtyping's `Float[Tensor, "heads queries width"]`, checked in the tests. Without jaxtyping,
# which users need not install, nothing is checked.
if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int
else:
    try:
        from jaxtyping import Bool, Float, Int
    except ImportError:

        class _Shape:
            def __class_getitem__(cls, item: tuple[Any, str]) -> Any:
                return item[0]

        Bool = Float = Int = _Shape


# Arguments


FLOATS = frozenset((torch.float64, torch.float32, torch.bfloat16, torch.float16))
WHOLE = frozenset((torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8))


def check_dense(name: str, tensor: Tensor) -> None:
    """Raise if a tensor is nested, sparse or otherwise not strided."""
    if tensor.is_nested:
        raise DTypeError(
            f"{name} must be a plain tensor. Got a nested one. Use {name}.to_padded_tensor(0.0) and "
            "regard.padding(lengths)."
        )
    if tensor.layout is not torch.strided:
        kind = str(tensor.layout).removeprefix("torch.")
        raise DTypeError(f"{name} must be a dense tensor. Got the layout {kind}. Use {name}.to_dense().")


def check_stored(name: str, tensor: Tensor) -> None:
    """Raise unless a tensor is dense and has numbers."""
    check_dense(name, tensor)
    if tensor.is_meta:
        raise DeviceError(f"{name} lies on the meta device, so it has no numbers. Move the data to a CPU or a GPU.")


def whole(name: str, value: Any) -> int:
    """A whole number as a Python int; NumPy integers are accepted, bools are not."""
    try:
        if isinstance(value, bool):
            raise TypeError
        return operator.index(value)
    except (TypeError, ValueError, RuntimeError):
        got = type(value).__name__ if isinstance(value, Tensor) else repr(value)
        raise DTypeError(f"{name} must be a whole number. Got {got}.") from None


def number(name: str, value: Any) -> float:
    """A finite number as a Python float; tensors are refused, because they would silently get no gradient."""
    if isinstance(value, Tensor):
        raise DTypeError(f"{name} must be a number. Got a tensor. Use {name}.item().")
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise DTypeError(f"{name} must be a number. Got {type(value).__name__}.") from None
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise InputError(f"{name} must be finite. Got {number}.")
    return number


def one_of(name: str, value: str, allowed: tuple[str, ...]) -> None:
    """Raise unless the value is one of the allowed strings."""
    if not isinstance(value, str) or value not in allowed:
        raise InputError(f"{name} must be one of {', '.join(map(repr, allowed))}. Got {value!r}.")


def some_of(names: Collection[str], most: int = 3) -> str:
    """The first few names, and the number of the others.

    >>> some_of(["a", "b", "c", "d", "e"])
    'a, b, c and 2 more'
    """
    first = ", ".join(list(names)[:most])
    return first if len(names) <= most else f"{first} and {len(names) - most} more"


inside_func = torch._C._are_functorch_transforms_active  # whether this runs inside torch.func: grad, vmap, …


def recording() -> bool:
    """Whether torch.export or torch.jit.trace records this call, which allows no graph breaks.

    The flag, not `is_exporting()`: in torch 2.11, torch.compile takes that function for True whatever it compiles.
    """
    return torch.compiler._is_exporting_flag or torch.jit.is_tracing()  # type: ignore[attr-defined,no-untyped-call]


def transformed(*tensors: Any) -> bool:
    """Whether one of these is a tensor that torch.func passes to a transformed function."""
    wrapped = torch._C._functorch.is_functorch_wrapped_tensor
    return any(isinstance(tensor, Tensor) and wrapped(tensor) for tensor in tensors)


def require_text(name: str, value: str) -> None:
    """Raise if a string holds half of a surrogate pair, which is no character and cannot be encoded."""
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InputError(
            f"{name} must be text. Got half of a surrogate pair, {value[error.start]!r}, at {error.start}. "
            f'Replace such halves: text.encode("utf-8", "replace").decode().'
        ) from None


# Memory


def available(device: torch.device) -> int | None:
    """Bytes that can be allocated on a device; None if unknown."""
    if device.type == "cuda":  # torch's own allocator cache counts as free
        cached = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return torch.cuda.mem_get_info(device)[0] + cached
    if device.type != "cpu":
        return None
    amounts = []
    with suppress(OSError):
        lines = Path("/proc/meminfo").read_text().splitlines()
        amounts += [int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")]
    with suppress(OSError, ValueError):  # the limit of a container
        root = Path("/sys/fs/cgroup")
        amounts.append(int((root / "memory.max").read_text()) - int((root / "memory.current").read_text()))
    return min(amounts, default=None)


@cache
def _total_memory(device: torch.device) -> int:
    return torch.cuda.get_device_properties(device).total_memory


def ensure_room(shape: Sequence[int], bytes_each: int, device: torch.device, what: Callable[[], str]) -> None:
    """Raise if a large allocation would not fit. Small ones are not checked, because querying a GPU takes time."""
    needed = math.prod(shape) * bytes_each
    if needed < 2**28 or (device.type == "cuda" and needed < _total_memory(device) // 64):
        return
    free = available(device)
    if free is not None and needed > free:
        raise TooLargeError(
            f"{what()}: needs about {needed / 2**30:,.1f} GiB, {free / 2**30:,.1f} GiB are free on {device}. "
            "Ask for less: a slice A[…, rows, :], A.part[…], A.top(k), A.received() or A.pool(256, 256)."
        )


# Threads


_SHARE = 2**30  # multiply-adds that a core computes in about 30 ms


@contextmanager
def threads(work: float | None = None) -> Iterator[int]:
    """Choose the number of torch's threads for the work inside: one for each 2³⁰ multiply-adds of a step.

    Without `work`, one for each idle core.

    Threads that share a small step spend their time waiting for each other, in a loop that keeps the cores busy. If
    another process needs one of the cores, every operator waits until that process is interrupted: decoding a sentence
    with two threads then takes ten times as long as with one. So only idle cores get threads. The number of
    `torch.set_num_threads` or OMP_NUM_THREADS is never exceeded, and is restored at the end.

    >>> with threads(work=1e6) as count:
    ...     count, torch.get_num_threads()
    (1, 1)
    """
    before = torch.get_num_threads()
    count = before if work is None else max(min(before, int(work // _SHARE)), 1)
    count = count if count == 1 else max(min(count, _idle_cores()), 1)
    if count == before:
        yield count
        return
    torch.set_num_threads(count)
    # The number holds for the calling thread only, but a new thread starts with the last number that any thread set. A
    # helper thread sets the old number again.
    helper = threading.Thread(target=torch.set_num_threads, args=(before,))
    helper.start()
    helper.join()
    try:
        yield count
    finally:
        torch.set_num_threads(before)


def _idle_cores() -> int:
    """The number of cores on which no other process runs at this moment; all cores if unknown."""
    cores = os.cpu_count() or 1
    try:
        running = int(Path("/proc/loadavg").read_text().split()[3].split("/")[0])  # includes this thread
        return cores if running <= 1 else cores - max(running - _own_running(), 0)
    except (OSError, ValueError, IndexError):
        return cores


def _own_running() -> int:
    """The number of running threads of this process; idle threads of torch run a loop for some milliseconds."""
    states = []
    for task in os.listdir("/proc/self/task"):
        with suppress(OSError):  # the thread has ended
            states.append(Path(f"/proc/self/task/{task}/stat").read_text().rpartition(")")[2].split()[0])
    return states.count("R")


# Decorators


def no_compile(function: Callable[P, R]) -> Callable[P, R]:
    """Break the graph under torch.compile, so that tiles and kernels are never traced; raise while `recording`.

    `torch.compiler.disable` as a plain decorator would import the compiler and double the time of `import regard`.
    """

    @wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        if recording():
            raise InputError(
                "torch.export and torch.jit.trace record attention and A @ value; all else of an AttentionMatrix reads "
                "numbers that a recording does not have. Make the AttentionMatrix outside of what you record."
            )
        if torch.compiler.is_compiling():
            result: R = torch.compiler.disable(function)(*args, **kwargs)  # type: ignore[no-untyped-call]
            return result
        return function(*args, **kwargs)

    return run


def no_autocast(function: Callable[P, R]) -> Callable[P, R]:
    """Run outside autocast, which would round every matrix product to half precision."""

    @wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        if not (torch.is_autocast_enabled("cpu") or torch.is_autocast_enabled("cuda")):
            return function(*args, **kwargs)
        with torch.autocast("cpu", enabled=False), torch.autocast("cuda", enabled=False):
            return function(*args, **kwargs)

    return run
