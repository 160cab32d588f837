"""`Clock`: the seconds that a training has taken at each step, journaled where its rate depends on them."""

from __future__ import annotations

import math
import time
from array import array
from pathlib import Path

from regard.nn.files import write_bytes

__all__ = ["FILE", "Clock"]

FILE = "clock.f64"
_now = time.monotonic


class Clock:
    """Time that goes on from checkpoint to checkpoint; a step that is repeated after a stop gets the time it had.

    With a path, the seconds of every step are kept there, 8 bytes each. Without, nothing is written.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / FILE
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
