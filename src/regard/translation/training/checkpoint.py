"""A training on disk: the lock on its folder, its last two checkpoints, and its clock.

A checkpoint is one safetensors file, written atomically, with a checksum of its content. It holds all that a training
needs besides its recipe and corpora: weights, their average, the moments of the optimizer, progress, vocabulary, log.
If the rate depends on the time, the clock keeps the seconds of every step in a second file.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import json
import math
import os
import sys
import time
from array import array
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from regard.errors import FileError
from regard.nn import Transformer
from regard.nn.model_folder import checksum, read_safetensors, write_bytes, write_safetensors

FILE = "checkpoint.safetensors"
PREVIOUS = "checkpoint.previous.safetensors"
CLOCK = "clock.f64"
_FORMAT = "regard.training.4"
_MOMENTS = ("step", "exp_avg", "exp_avg_sq")
_now = time.monotonic


class Checkpoint(NamedTuple):
    """The content of a file, its checksum verified."""

    tensors: dict[str, Tensor]
    state: dict[str, Any]  # the progress
    origin: dict[str, Any]  # the recipe, and the checksums of the corpora
    files: dict[str, bytes]  # the vocabulary and the log


def exists(folder: Path) -> bool:
    """Whether a folder holds a checkpoint."""
    return any((folder / name).is_file() for name in (FILE, PREVIOUS))


def begin_with(model: Transformer, folder: Path) -> None:
    """Copy the weights of another training, whose model may differ in dropout only."""
    earlier = Transformer.load(folder)
    for field in dataclasses.fields(model.config):
        other, needed = getattr(earlier.config, field.name), getattr(model.config, field.name)
        if other != needed and field.name != "dropout":
            raise FileError(
                f"{folder} is another model: {field.name} is {other} there, {needed} here. "
                "Make [model] and the vocabulary the same."
            )
    model.load_state_dict(earlier.state_dict())


def tensors(
    model: nn.Module, average: Mapping[str, Tensor], optimizer: torch.optim.Optimizer, loss: Tensor
) -> dict[str, Tensor]:
    """All tensors of a training by their names in a checkpoint, without copying them."""
    tensors = {f"model.{name}": tensor for name, tensor in model.state_dict().items()}
    tensors |= {f"average.{name}": tensor for name, tensor in average.items()}
    for name, parameter in model.named_parameters():
        if not optimizer.state[parameter]:  # before its first step
            moments = (torch.zeros((), device=parameter.device), *(torch.zeros_like(parameter) for _ in range(2)))
            optimizer.state[parameter] = dict(zip(_MOMENTS, moments, strict=True))
        tensors |= {f"{moment}.{name}": optimizer.state[parameter][moment] for moment in _MOMENTS}
    return tensors | {"extra.loss": loss}


def write(
    folder: Path,
    tensors: Mapping[str, Tensor],
    state: Mapping[str, Any],
    *,
    origin: Mapping[str, Any],
    files: Mapping[str, bytes],
) -> None:
    """Write a checkpoint; the last checkpoint is kept as the previous one."""
    contents = {f"file.{name}": torch.from_numpy(np.array(bytearray(data))) for name, data in files.items()}
    tensors = {**tensors, **contents}
    metadata = {"format": _FORMAT, "state": json.dumps(state), "origin": json.dumps(origin)}
    metadata["sha256"] = _sum(metadata, tensors)

    def keep_previous(_: Path) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.replace(folder / FILE, folder / PREVIOUS)

    write_safetensors(folder / FILE, tensors, metadata, before=keep_previous)


def read(folder: Path) -> tuple[Checkpoint, list[str]]:
    """The last good checkpoint, and what is wrong with a newer one."""
    if not exists(folder):
        raise FileError(f"{folder / FILE} is missing: nothing to resume. Start without --resume.")
    damages: list[str] = []
    for name in (FILE, PREVIOUS):
        try:
            saved = _read(folder / name)
        except FileError as error:
            damages.append(str(error))
            continue
        if name == PREVIOUS:  # replace the damaged file, so that the next checkpoint does not replace the good one
            os.replace(folder / PREVIOUS, folder / FILE)
        return saved, damages
    raise FileError(f"neither checkpoint can be used: {' '.join(damages)} Train anew in another folder.")


def _read(path: Path) -> Checkpoint:
    if not path.is_file():
        raise FileError(f"{path} is missing.")
    tensors, metadata = read_safetensors(path, "It is not used.")
    if metadata.get("format") != _FORMAT:
        raise FileError(f"{path} is not a checkpoint that this version of regard can read.")
    if metadata.pop("sha256", None) != _sum(metadata, tensors):
        raise FileError(f"{path} is damaged: its content has another sha256. It is not used.")
    files = {name.removeprefix("file."): bytes(t.numpy()) for name, t in tensors.items() if name.startswith("file.")}
    return Checkpoint(tensors, json.loads(metadata["state"]), json.loads(metadata["origin"]), files)


def _sum(metadata: Mapping[str, str], tensors: Mapping[str, Tensor]) -> str:
    return checksum(json.dumps(metadata, sort_keys=True), tensors)


@contextlib.contextmanager
def lock(folder: Path) -> Iterator[bool]:
    """Lock a folder until this process ends in any way; yields False where the file system has no locks."""
    is_windows, is_locked = sys.platform == "win32", True
    # On Windows a file in the folder is locked, elsewhere the folder itself: no file is left behind.
    handle = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT) if is_windows else os.open(folder, os.O_RDONLY)
    try:
        try:
            _lock(handle)
        except OSError as error:
            if is_windows or error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                raise FileError(
                    f"{folder} is in use by another training. Wait until it ends, or choose another folder."
                ) from None
            is_locked = False
        yield is_locked
    finally:
        os.close(handle)


if sys.platform == "win32":
    import msvcrt

    def _lock(handle: int) -> None:
        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
else:
    import fcntl

    def _lock(handle: int) -> None:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


class Clock:
    """The seconds since the start of a training, across resumes; a repeated step gets the same time again.

    With a path, the seconds of every step are written there, 8 bytes each.

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
        if len(self._known) < step:  # lost, but the steps before this one are not repeated
            self._known.extend([seconds] * (step - len(self._known)))
        write_bytes(path, self._known.tobytes())
        self._file = path.open("ab", buffering=0)

    def at(self, step: int) -> float:
        """The seconds at the beginning of a step; call it for each step in order."""
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
    """The times before the first wrong time, which is not finite or less than the time before it."""
    times = array("d", data[: len(data) // 8 * 8])
    before = 0.0
    for place, seconds in enumerate(times):
        if not math.isfinite(seconds) or seconds < before:
            return times[:place]
        before = seconds
    return times
