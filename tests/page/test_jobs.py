"""Work in turns: a long job delays nobody, a visitor who leaves ends it, and there is an end to what is taken on."""

import asyncio
import json
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest
from support.page_client import LONG, TEXT

from regard.errors import InputError
from regard.maps.levels import Levels, Sweeps
from regard.page.jobs import BusyError, ModelThread, Pool
from regard.page.readers import ReadRequest


def run(work):
    """An asynchronous function of a model's thread."""

    async def inside():
        thread = ModelThread(most=3)
        try:
            return await asyncio.wait_for(work(thread), 60)
        finally:
            thread.close()

    return asyncio.run(inside())


async def collected(job):
    return [event async for event in job.events()]


def slices(name, count, log):
    for n in range(count):
        log.append(f"{name}{n}")
        yield {"slice": n}


def test_jobs_take_turns():
    log = []

    async def work(thread):
        hold = threading.Event()

        def first():
            hold.wait()
            yield {}

        jobs = [thread.submit(first()), thread.submit(slices("a", 4, log)), thread.submit(slices("b", 2, log))]
        hold.set()
        return await asyncio.gather(*map(collected, jobs))

    _, a, b = run(work)
    assert log == ["a0", "b0", "a1", "b1", "a2", "a3"]
    assert [event["slice"] for event in a if "slice" in event] == [0, 1, 2, 3]
    assert a[0] == {"progress": "waiting for 1 other", "share": 0.0}
    assert b[0] == {"progress": "waiting for 2 others", "share": 0.0}


def test_a_line_that_is_too_long_is_refused():
    async def work(thread):
        hold = threading.Event()

        def waits():
            hold.wait()
            yield {}

        jobs = [thread.submit(waits()) for _ in range(3)]
        with pytest.raises(BusyError, match=r"try again in \d+ s"):
            thread.submit(waits())
        hold.set()
        await asyncio.gather(*map(collected, jobs))
        await collected(thread.submit(waits()))  # there is room again

    run(work)


def test_who_has_to_come_again_is_told_when(monkeypatch):
    """What jobs took of late, times those that wait, shared by the threads; at least a second."""
    now = [0.0]
    monkeypatch.setattr("regard.page.jobs.time", SimpleNamespace(perf_counter=lambda: now[0]))

    def lasts(*seconds):
        for each in seconds:
            now[0] += each
            yield {}

    async def told(thread):
        hold = threading.Event()

        def waits():
            hold.wait()
            yield {}

        jobs = [thread.submit(waits()) for _ in range(3)]
        with pytest.raises(BusyError) as busy:
            thread.submit(waits())
        hold.set()
        await asyncio.gather(*map(collected, jobs))
        return str(busy.value)

    async def work(thread):
        before = await told(thread)  # a second each; then three jobs that took no time: 0.8³
        await collected(thread.submit(lasts(4, 6, 1)))
        return before, await told(thread)  # 3 × (0.8 × 0.512 + 0.2 × 11)

    assert run(work) == ("3 texts are being read: try again in 3 s.", "3 texts are being read: try again in 8 s.")

    async def pooled():
        pool, hold = Pool(threads=2, most=4), threading.Event()
        await pool.run(lambda: [*lasts(40.05)])
        tasks = [asyncio.create_task(pool.run(hold.wait)) for _ in range(4)]
        await asyncio.sleep(0)
        with pytest.raises(BusyError) as busy:
            await pool.run(hold.wait)
        hold.set()
        await asyncio.gather(*tasks)
        pool.close()
        return busy.value.seconds

    assert asyncio.run(pooled()) == 4  # 4 × (0.95 × 0.05 + 0.05 × 40.05) / 2
    assert BusyError("much", 0.2).seconds == 1


def test_whoever_leaves_ends_the_job():
    log, ended = [], threading.Event()

    def endless():
        try:
            while True:
                log.append(1)
                yield {}
        finally:
            ended.set()

    async def work(thread):
        events = thread.submit(endless()).events()
        await anext(events)
        await events.aclose()
        assert await asyncio.to_thread(ended.wait, 30)
        count = len(log)
        await collected(thread.submit(slices("a", 3, [])))
        assert len(log) == count

    run(work)


def test_an_error_is_said_and_the_thread_goes_on(capsys):
    def refused():
        raise InputError("no such word.")
        yield {}

    def broken():
        yield {}
        raise ValueError("secret")

    async def work(thread):
        assert await collected(thread.submit(refused())) == [{"error": "no such word."}]
        assert "secret" not in str(await collected(thread.submit(broken())))
        with pytest.raises(InputError, match="no such word"):
            await thread.run(lambda: next(refused()))
        return await thread.run(lambda: 7)

    assert run(work) == 7
    assert "secret" in capsys.readouterr().err


def test_the_end_is_told_to_those_who_wait():
    async def work(thread):
        hold = threading.Event()

        def waits():
            hold.wait()
            yield {}

        jobs = [thread.submit(waits()), thread.submit(waits())]
        thread.close()
        hold.set()
        return await asyncio.gather(*map(collected, jobs))

    for events in run(work):
        assert {"error": "the server was ended."} in events


def test_a_pool_is_bounded_and_lets_go_what_nobody_wants():
    async def work():
        pool, hold, computed = Pool(1, 2), threading.Event(), []

        async def gone():
            return False

        first = asyncio.create_task(pool.run(hold.wait))
        await asyncio.sleep(0)
        second = asyncio.create_task(pool.run(lambda: computed.append(1), gone))
        await asyncio.sleep(0)
        with pytest.raises(BusyError):
            await pool.run(lambda: 0)
        hold.set()
        assert await first is True
        assert await second is None
        assert not computed
        assert await pool.run(lambda: 5) == 5
        pool.close()

    asyncio.run(work())


def test_maps_of_several_readings_are_swept_in_turn():
    """In the background one band is computed at a time, however many maps are open."""
    running, most, done = [], [], threading.Event()

    def band(start, stop):
        running.append(1)
        most.append(len(running))
        time.sleep(0.01)
        running.pop()
        return np.zeros((1, 4))

    maps = [Sweeps() for _ in range(4)]
    for each in maps:
        each.levels("all", lambda: Levels(128, 128, 32, band), at_once=False)
    for _ in range(500):
        if all(each.done() == 1 for each in maps):
            break
        done.wait(0.01)
    assert max(most) == 1
    assert len(most) >= 4


def test_a_long_text_is_read_in_slices(page):
    """So that others get their turns: no slice of a long text translates more than eight sentences."""
    seen = []
    search = page.reader.translator._search
    page.reader.translator._search = lambda segments, **how: seen.append(len(segments)) or search(segments, **how)
    try:
        events = list(page.reader.read(ReadRequest(LONG + " " + TEXT)))
    finally:
        del page.reader.translator._search
    assert seen[:5] == [1, 2, 4, 8, 8]
    assert len(events) > 40


def test_a_visitor_who_closes_the_page_ends_the_job(page):
    """Over ASGI, as a server tells it: after the first line of the answer the visitor is gone."""
    ended = []
    read = page.reader.read

    def watched(asked):
        try:
            yield from read(asked)
            ended.append("read to the end")
        except GeneratorExit:
            ended.append("closed")
            raise

    async def work():
        body, lines = json.dumps({"text": LONG}).encode(), asyncio.Event()
        messages = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive():
            if messages:
                return messages.pop()
            await lines.wait()
            return {"type": "http.disconnect"}

        async def send(message):
            if message.get("body"):
                lines.set()

        headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
        scope = {"type": "http", "method": "POST", "path": "/api/read", "raw_path": b"/api/read", "headers": headers,
                 "query_string": b"", "asgi": {"version": "3.0", "spec_version": "2.3"}, "http_version": "1.1"}  # fmt: skip
        await asyncio.wait_for(page.app()(scope, receive, send), 60)
        for _ in range(1000):
            if ended:
                break
            await asyncio.sleep(0.01)

    page.reader.read = watched
    try:
        asyncio.run(work())
    finally:
        del page.reader.read
    assert ended == ["closed"]


def test_a_model_in_the_middle_of_a_job_is_whole(page):
    """What a job changes in the model is undone before another has its turn."""
    model = page.reader.translator.model
    before = {name: module.__dict__.get("attend") for name, module in model.named_modules()}
    events = []
    for event in page.reader.read(ReadRequest(TEXT, hide=(1,), off=((0, 0),))):
        assert "enter" not in vars(model)
        assert {name: module.__dict__.get("attend") for name, module in model.named_modules()} == before
        events.append(event)
    assert "parts" in events[-1]
