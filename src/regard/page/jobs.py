"""Work for visitors: the model's work in one thread, slice by slice in turn; all other work in a pool of threads.

A model can do one thing at a time. A job is a generator: each `next` computes a slice, such as a few sentences. Jobs
take turns, so that a long job delays a short job by one slice. A visitor who leaves cancels the job.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
import traceback
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import Any, TypeVar

from regard.errors import InputError, RegardError

__all__ = ["BROKEN", "BusyError", "Job", "ModelThread", "Pool"]

T = TypeVar("T")
Event = dict[str, Any]

BROKEN = "something went wrong on the server: its terminal says what. Try another text."


class BusyError(RegardError):
    """Too many requests are waiting; try again in `seconds`."""

    def __init__(self, what: str, seconds: float):
        self.seconds = max(round(seconds), 1)
        super().__init__(f"{what}: try again in {self.seconds} s.")


class Job:
    """A generator of events that the model's thread runs, and that is awaited where it was submitted."""

    def __init__(self, work: Iterator[Event]):
        self.work = work
        self.cancelled = False
        self.took = 0.0  # seconds of all slices
        self._loop = asyncio.get_running_loop()
        self._events: asyncio.Queue[Event | None] = asyncio.Queue()

    async def events(self) -> AsyncIterator[Event]:
        """Yield the events as they come; to stop listening cancels the job."""
        try:
            while (event := await self._events.get()) is not None:
                yield event
        finally:
            self.cancelled = True

    def tell(self, event: Event | None) -> None:
        """Pass on the next event, or None after the last, from another thread."""
        try:
            self._loop.call_soon_threadsafe(self._events.put_nowait, event)
        except RuntimeError:  # the server has ended meanwhile
            self.cancelled = True


class ModelThread:
    """The thread in which a model runs, and the jobs that take turns in it."""

    def __init__(self, most: int = 16):
        self._most = most
        self._jobs: set[Job] = set()
        self._turns: SimpleQueue[Job | None] = SimpleQueue()  # None: the end
        self._seconds = 1.0  # that a job takes, as a moving average
        threading.Thread(target=self._run, name="model", daemon=True).start()

    def submit(self, work: Iterator[Event]) -> Job:
        """Append a job to the line, unless the line is too long."""
        ahead = len(self._jobs)
        if ahead >= self._most:
            raise BusyError(f"{ahead} texts are being read", self._seconds * ahead)
        job = Job(work)
        if ahead:
            job.tell({"progress": f"waiting for {ahead} other{'s' * (ahead > 1)}", "share": 0.0})
        self._jobs.add(job)
        self._turns.put(job)
        return job

    async def run(self, function: Callable[[], T]) -> T:
        """Run a function as a job of one slice."""

        def once() -> Iterator[Event]:
            yield {"result": function()}

        async for event in self.submit(once()).events():
            if "error" in event:
                raise (RuntimeError if event["error"] == BROKEN else InputError)(event["error"])
            if "result" in event:
                result: T = event["result"]
        return result

    def close(self) -> None:
        """Cancel all jobs; the running slice is not waited for."""
        for job in list(self._jobs):
            job.cancelled = True
            job.tell({"error": "the server was ended."})
            job.tell(None)
        self._turns.put(None)

    def _run(self) -> None:
        while (job := self._turns.get()) is not None:
            start = time.perf_counter()
            ended = self._slice(job)
            job.took += time.perf_counter() - start
            if ended:
                self._jobs.remove(job)
                self._seconds = 0.8 * self._seconds + 0.2 * job.took
                job.tell(None)  # last: who submits the next job then finds this one gone
            else:
                self._turns.put(job)

    def _slice(self, job: Job) -> bool:
        """Run one slice, and return whether it was the last."""
        try:
            if job.cancelled:
                job.work.close()  # type: ignore[attr-defined]
                return True
            job.tell(next(job.work))
            return False
        except StopIteration:
            pass
        except RegardError as error:
            job.tell({"error": str(error)})
        except Exception:
            traceback.print_exc(file=sys.stderr)
            job.tell({"error": BROKEN})
        return True


class Pool:
    """Threads for work without a model: weights, tiles, pages to save."""

    def __init__(self, threads: int = 2, most: int = 512):
        self._slots, self._most, self._waiting = asyncio.Semaphore(threads), most, 0
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix="pictures")
        self._seconds, self._threads = 0.05, threads

    async def run(self, function: Callable[[], T], still_wanted: Callable[[], Any] | None = None) -> T | None:
        """Run a function in one of the threads; return None if its result is not wanted any more when its turn comes.

        A visitor who pans a map requests more tiles than they wait for.
        """
        if self._waiting >= self._most:
            raise BusyError("many visitors are looking", self._seconds * self._waiting / self._threads)
        self._waiting += 1
        try:
            async with self._slots:
                if still_wanted is not None and not await still_wanted():
                    return None
                start = time.perf_counter()
                result = await asyncio.get_running_loop().run_in_executor(self._executor, function)
                self._seconds = 0.95 * self._seconds + 0.05 * (time.perf_counter() - start)
                return result
        finally:
            self._waiting -= 1

    def close(self) -> None:
        """Begin nothing more."""
        self._executor.shutdown(wait=False, cancel_futures=True)
