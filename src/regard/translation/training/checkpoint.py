"""A training on disk: the lock on its folder, the last two checkpoints, from which it continues exactly, and its clock.

A checkpoint is one safetensors file, written atomically, with a sum of its content. It holds all that a training needs
beside its recipe and corpora: weights, their average, the optimizer's moments, progress, vocabulary, log.
Where the rate depends on the time, the clock keeps the seconds of every step in a file of its own.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import hashlib
import json
import math
import os
import sys
import time
from array import array
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from regard.errors import FileError
from regard.nn import Transformer
from regard.nn.model_folder import read_safetensors, write_bytes, write_safetensors

FILE = "checkpoint.safetensors"
PREVIOUS = "checkpoint.previous.safetensors"
CLOCK = "clock.f64"
_FORMAT = "regard.training.3"
_MOMENTS = ("step", "exp_avg", "exp_avg_sq")
_now = time.monotonic


class Checkpoint(NamedTuple):
    """What a file holds, its sum verified."""

    tensors: dict[str, Tensor]
    state: dict[str, Any]  # the progress
    origin: dict[str, Any]  # the recipe, and the sums of the corpora
    files: dict[str, bytes]  # the vocabulary and the log


def exists(folder: Path) -> bool:
    """Whether a folder holds a checkpoint."""
    return any((folder / name).is_file() for name in (FILE, PREVIOUS))


def begin_with(model: Transformer, folder: Path) -> None:
    """Give a model the weights of another training's, which must be the same model but for its dropout."""
    earlier = Transformer.load(folder)
    for field in dataclasses.fields(model.config):
        there, here = getattr(earlier.config, field.name), getattr(model.config, field.name)
        if there != here and field.name != "dropout":
            raise FileError(
                f"{folder} is another model: {field.name} is {there} there, {here} here. "
                "Make [model] and the vocabulary the same."
            )
    model.load_state_dict(earlier.state_dict())


def tensors(
    model: nn.Module, average: Mapping[str, Tensor], optimizer: torch.optim.Optimizer, extra: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """All tensors of a training by their names in a checkpoint: themselves, not copies."""
    found = {f"model.{name}": tensor for name, tensor in model.state_dict().items()}
    found |= {f"average.{name}": tensor for name, tensor in average.items()}
    for name, parameter in model.named_parameters():
        if not optimizer.state[parameter]:  # before its first step
            moments = (torch.zeros((), device=parameter.device), *(torch.zeros_like(parameter) for _ in range(2)))
            optimizer.state[parameter] = dict(zip(_MOMENTS, moments, strict=True))
        found |= {f"{moment}.{name}": optimizer.state[parameter][moment] for moment in _MOMENTS}
    return found | {f"extra.{name}": tensor for name, tensor in extra.items()}


def write(
    folder: Path,
    tensors: Mapping[str, Tensor],
    state: Mapping[str, Any],
    *,
    origin: Mapping[str, Any],
    files: Mapping[str, bytes],
) -> None:
    """Save everything; the checkpoint before this one is kept too."""
    tensors = {**tensors, **{f"file.{name}": _as_tensor(data) for name, data in files.items()}}
    metadata = {"format": _FORMAT, "state": json.dumps(state), "origin": json.dumps(origin)}
    metadata["sha256"] = _sum(tensors, metadata)

    def keep_previous(_: Path) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.replace(folder / FILE, folder / PREVIOUS)

    write_safetensors(folder / FILE, tensors, metadata, before=keep_previous)


def read(folder: Path) -> tuple[Checkpoint, list[str]]:
    """The last good checkpoint, and what is wrong with a newer one."""
    if not exists(folder):
        raise FileError(f"{folder / FILE} is missing: nothing to resume. Start without --resume.")
    wrong: list[str] = []
    for name in (FILE, PREVIOUS):
        try:
            found = _read(folder / name)
            if name == PREVIOUS:  # so that the next one does not take its place, but that of the damaged one
                os.replace(folder / PREVIOUS, folder / FILE)
            return found, wrong
        except FileError as error:
            wrong.append(str(error))
    raise FileError(f"neither checkpoint can be used: {' '.join(wrong)} Train anew in another folder.")


def _read(path: Path) -> Checkpoint:
    if not path.is_file():
        raise FileError(f"{path} is missing.")
    tensors, metadata = read_safetensors(path, "It is not used.")
    if metadata.get("format") != _FORMAT:
        raise FileError(f"{path} is not a checkpoint that this version of regard can read.")
    if metadata.pop("sha256", None) != _sum(tensors, metadata):
        raise FileError(f"{path} is damaged: its content has another sha256. It is not used.")
    files = {name.removeprefix("file."): bytes(t.numpy()) for name, t in tensors.items() if name.startswith("file.")}
    return Checkpoint(tensors, json.loads(metadata["state"]), json.loads(metadata["origin"]), files)


def check(checkpoint: Checkpoint, expected: Mapping[str, Tensor]) -> None:
    """Refuse a checkpoint that has not just these tensors."""
    shapes = {name: tuple(tensor.shape) for name, tensor in expected.items()}
    stored = {name: tuple(t.shape) for name, t in checkpoint.tensors.items() if not name.startswith("file.")}
    if stored != shapes:
        raise FileError("the checkpoint is not of this recipe's model. Was it written by another version of regard?")


def _as_tensor(data: bytes) -> Tensor:
    return torch.frombuffer(bytearray(data), dtype=torch.uint8) if data else torch.empty(0, dtype=torch.uint8)


def _sum(tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> str:
    """SHA-256 of names, types, shapes and content."""
    found = hashlib.sha256(json.dumps(metadata, sort_keys=True).encode())
    for name in sorted(tensors):
        tensor = tensors[name].detach().cpu().contiguous()
        found.update(json.dumps([name, str(tensor.dtype), list(tensor.shape)]).encode())
        found.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return found.hexdigest()


@contextlib.contextmanager
def lock(folder: Path) -> Iterator[bool]:
    """Hold the folder for one process; the lock ends with it, however it ends. False: this file system has no locks."""
    handle = _open_to_lock(folder)
    try:
        yield _lock(handle, folder)
    finally:
        os.close(handle)


if sys.platform == "win32":
    import msvcrt

    def _open_to_lock(folder: Path) -> int:
        return os.open(folder / ".lock", os.O_RDWR | os.O_CREAT)

    def _lock(handle: int, folder: Path) -> bool:
        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        except OSError:
            raise _in_use(folder) from None
        return True
else:
    import fcntl

    def _open_to_lock(folder: Path) -> int:
        return os.open(folder, os.O_RDONLY)  # the folder itself: no file is left behind

    def _lock(handle: int, folder: Path) -> bool:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                raise _in_use(folder) from None
            return False
        return True


def _in_use(folder: Path) -> FileError:
    return FileError(f"{folder} is in use by another training. Wait until it ends, or choose another folder.")


class Clock:
    """Time that goes on from checkpoint to checkpoint; a step that is repeated after a stop gets the time it had.

    With a path, the seconds of every step are kept there, 8 bytes each. Without, nothing is written.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / CLOCK
    >>> first = Clock(path, step=0)
    >>> times = [first.at(0), first.at(1), first.at(2)]
    >>> first.close()
    >>> again = Clock(path, step=1, seconds=times[0])         # a checkpoint was written after the first step
    >>> [again.at(1), again.at(2)] == times[1:], again.at(3) > times[2]
    (True, True)
    >>> again.close()
    """

    def __init__(self, path: Path | None, *, step: int, seconds: float = 0.0):
        self._started = _now() - seconds
        self._known = array("d")
        self._file = None
        if path is None:
            return
        if step and path.is_file():
            self._known = _sound(path.read_bytes())
        if len(self._known) < step:  # lost: the steps before this one are not repeated
            self._known.extend([seconds] * (step - len(self._known)))
        write_bytes(path, self._known.tobytes())
        self._file = path.open("ab", buffering=0)

    def at(self, step: int) -> float:
        """The seconds at the beginning of a step; steps are asked for in order."""
        if step < len(self._known):
            seconds = self._known[step]
            self._started = _now() - seconds
            return seconds
        seconds = _now() - self._started
        if self._file is not None:
            self._known.append(seconds)
            self._file.write(self._known[-1:].tobytes())
        return seconds

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()


def _sound(data: bytes) -> array[float]:
    """The times up to the first that cannot be one: not finite, or less than the one before."""
    times = array("d", data[: len(data) // 8 * 8])
    before = 0.0
    for place, seconds in enumerate(times):
        if not math.isfinite(seconds) or seconds < before:
            return times[:place]
        before = seconds
    return times
