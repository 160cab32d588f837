"""The server of the page: a first view, many visitors beside a long job, records of 100,000 and 1,000,000 tokens.

python benchmarks/page_server.py                      print the tables (the million takes long: see its row)
python benchmarks/page_server.py first hover long     only these parts
python benchmarks/page_server.py --report             and keep them in benchmarks/reports/

Everything is measured from outside, over HTTP, on a server in a process of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import torch
from measure import machine
from rich.console import Console

import regard
from regard.watching.tokens import Tokens

progress = Console(stderr=True)
VISITORS, SECONDS, PACE = 200, 20.0, 1.0  # each asks once in PACE seconds, for SECONDS
LONG_TEXT = "The old man who lived in the house by the river told us a story about his dog. " * 240
SENTENCES = [
    "A dog ate the food because it was very hungry.",
    "The old teacher read us a long story about winter.",
    "My sister will come home after school to help us.",
    "We could not find the key under the red chair.",
    "The children play in the garden when the sun shines.",
]  # ten words each


class Server:
    """`regard serve` in a process of its own."""

    def __init__(self, *arguments: str):
        command = [sys.executable, "-m", "regard", "serve", "--port", "0", *arguments]
        start = time.perf_counter()
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.process.stdout.readline()
        address = self.process.stdout.readline().split()[0]
        self.started = time.perf_counter() - start
        self.host, port = address.removeprefix("http://").rstrip("/").split(":")
        self.port = int(port)

    def memory(self, what: str = "VmHWM") -> float:
        """GB of memory: the most there ever was, or VmRSS, what there is now."""
        status = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in status if line.startswith(what)) / 1e6

    def cpu(self) -> float:
        """Seconds of a core that it has used so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def serving(*arguments: str) -> Iterator[Server]:
    server = Server(*arguments)
    try:
        yield server
    finally:
        server.process.terminate()
        server.process.wait()


class Visitor:
    """A connection that stays open: a client of few lines takes little from the cores that the server needs."""

    def __init__(self, server: Server):
        self.server = server

    async def __aenter__(self) -> Visitor:
        self.reader, self.writer = await asyncio.open_connection(self.server.host, self.server.port, limit=1 << 24)
        return self

    async def __aexit__(self, *_: Any) -> None:
        self.writer.close()

    async def get(self, address: str) -> bytes:
        return await self._ask(f"GET {address} HTTP/1.1\r\nHost: {self.server.host}\r\n\r\n".encode())

    async def read(self, text: str) -> dict[str, Any]:
        """The reading of a text."""
        body = json.dumps({"text": text}).encode()
        head = f"POST /api/read HTTP/1.1\r\nHost: {self.server.host}\r\nContent-Type: application/json\r\n"
        answer = await self._ask(head.encode() + f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
        last = json.loads(answer.strip().splitlines()[-1])
        reading: dict[str, Any] = last["reading"]
        return reading

    async def json(self, address: str) -> Any:
        return json.loads(await self.get(address))

    async def _ask(self, request: bytes) -> bytes:
        self.writer.write(request)
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode().lower()
        if "transfer-encoding: chunked" in head:
            body = b""
            while size := int(await self.reader.readuntil(b"\r\n"), 16):
                body += (await self.reader.readexactly(size + 2))[:-2]
            await self.reader.readexactly(2)
        else:
            body = await self.reader.readexactly(int(head.partition("content-length:")[2].split()[0]))
        if " 200 " not in head.splitlines()[0]:
            raise RuntimeError(f"{head.splitlines()[0]}: {body[:300]!r}")
        return body


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[min(int(share * len(values)), len(values) - 1)]


def ms(seconds: float, digits: int = 0) -> str:
    return f"{1e3 * seconds:,.{digits}f} ms"


# A sentence


async def first() -> list[str]:
    """From the text to everything that the page draws at first: the reading, and all weights of it."""
    with serving() as server:
        async with Visitor(server) as visitor:
            read, whole, before = [], [], server.cpu()
            for sentence in SENTENCES * 3:
                start = time.perf_counter()
                reading = await visitor.read(sentence)
                read.append(time.perf_counter() - start)
                for n in range(len(reading["entries"])):
                    await visitor.get(f"/api/weights?reading={reading['id']}&entry={n}")
                whole.append(time.perf_counter() - start)
        used = ms((server.cpu() - before) / len(whole))
        rows = [
            f"| the server, from its start to its first answer | {server.started:.1f} s | | |",
            f"| a ten-word sentence read and described | {ms(statistics.median(read))} | {ms(max(read))} | |",
            f"| and all its weights, 14 answers | {ms(statistics.median(whole))} | {ms(max(whole))} | {used} |",
            f"| memory | {server.memory():.2f} GB | | |",
        ]
    columns = "| | median | slowest of 15 | a core's time |"
    return ["## A first view", "", columns, "| --- | --- | --- | --- |", *rows, ""]


# Many visitors


async def hover() -> list[str]:
    rows = []
    with serving() as server:
        for busy in (False, True):
            before = server.cpu()
            found, job = await _hovering(server, busy)
            each = "" if busy else ms((server.cpu() - before) / len(found), 1)
            what = f"beside a text of {len(LONG_TEXT):,} characters, {job:.0f} s" if busy else "alone"
            rows.append(
                f"| {what} | {len(found):,} | {ms(statistics.median(found))} | {ms(percentile(found, 0.99))} | "
                f"{ms(max(found))} | {each} |"
            )
    title = f"## {VISITORS} visitors hovering, one request each in {PACE:g} s"
    columns = "| | answers | median | 99 % within | slowest | a core's time for each |"
    return [title, "", columns, "| --- | --- | --- | --- | --- | --- |", *rows, ""]


async def _hovering(server: Server, busy: bool) -> tuple[list[float], float]:
    """The seconds that each answer took; with `busy`, while a long text is read."""
    took: list[float] = []
    random.seed(0)
    async with Visitor(server) as one:
        readings = [await one.read(sentence) for sentence in SENTENCES]
    job_took = 0.0

    async def long_job() -> None:
        nonlocal job_took
        start = time.perf_counter()
        async with Visitor(server) as visitor:
            await visitor.read(LONG_TEXT)
        job_took = time.perf_counter() - start

    async def visit() -> None:
        async with Visitor(server) as visitor:
            await asyncio.sleep(random.random() * PACE)
            end = time.perf_counter() + SECONDS
            while time.perf_counter() < end and not (busy and job.done()):
                reading = random.choice(readings)
                start = time.perf_counter()
                await visitor.get(_address(reading))
                took.append(time.perf_counter() - start)
                await asyncio.sleep(max(PACE - (time.perf_counter() - start), 0))

    job = asyncio.create_task(long_job() if busy else asyncio.sleep(0))
    await asyncio.sleep(0.5 * busy)
    await asyncio.gather(*(visit() for _ in range(VISITORS)))
    await job
    return took, job_took


def _address(reading: dict[str, Any]) -> str:
    """What someone who hovers asks for: the weights of a layer, or a tile of two heads."""
    n = random.randrange(len(reading["entries"]))
    entry = reading["entries"][n]
    asked = f"reading={reading['id']}"
    tile = f"heads={n}.0,{n}.1&rows=0,{entry['queries']}&columns=0,{entry['keys']}"
    bins = f"bins={entry['queries']},{entry['keys']}"
    return random.choice([f"/api/weights?{asked}&entry={n}", f"/api/tile?{asked}&{tile}&{bins}"])


# Long records


class Layer(torch.nn.Module):
    """Causal attention with the queries and keys that it is given."""

    kind, attend = "decoder", staticmethod(regard.attention)

    def __init__(self, heads: int):
        super().__init__()
        self.heads = heads

    def forward(self, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
        return self.attend(query, key, key, mask=regard.causal())


def record(tokens: int, heads: int, width: int, path: Path, watched: bool) -> None:
    """A record with random queries and keys, and a word for each token; `watched`: of a layer that really ran.

    Then the kernel has left the normaliser of each row. For a million tokens that alone would take an hour.
    """
    torch.manual_seed(0)
    query, key = torch.randn(2, 1, heads, tokens, width).unbind(0)
    names = [f"▁w{n % 5000}" for n in range(tokens)]
    layer = Layer(heads)
    with torch.no_grad(), regard.watch(layer, tokens=names if watched else None) as seen:
        size = tokens if watched else 8
        layer(query[:, :, :size], key[:, :, :size])
    if watched:
        seen.save(path)
        return
    (entry,) = seen.values()
    call = replace(entry.call, query=query, key=key, queries=range(tokens), keys=range(tokens))
    pieces = [Tokens(names)]
    shape = (1, heads, tokens, tokens)
    entry = replace(entry, call=call, attention=call.matrix(), shape=shape, tokens=pieces, key_tokens=pieces)
    regard.Record([{"": entry}]).save(path)


async def long() -> list[str]:
    return await _map(100_000, 2, 64, patience=3600, watched=True)


async def million() -> list[str]:
    return await _map(1_000_000, 1, 16, patience=4 * 3600, watched=False)


async def _map(tokens: int, heads: int, width: int, patience: float, watched: bool) -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "record.safetensors"
        record(tokens, heads, width, path, watched)
        size = path.stat().st_size
        progress.print(f"a record of {tokens:,} tokens: {size / 1e6:,.0f} MB")
        with serving("--record", str(path)) as server:
            rows = [f"| opened, from the start of the server | {server.started:.1f} s | | {server.cpu():.1f} s |"]
            async with Visitor(server) as visitor:
                about = await visitor.json("/api/about")
                start = time.perf_counter()
                await visitor.json(f"/api/reading/{about['reading']}")
                rows.append(f"| described, with what its heads do | {time.perf_counter() - start:.2f} s | | |")
                rows += await _tiles(visitor, about["reading"], tokens, "before the sweep")
                start, before = time.perf_counter(), server.cpu()
                await visitor.get(_tile(about["reading"], 0, tokens, 256))  # begins it
                rows += await _tiles(visitor, about["reading"], tokens, "while it is swept")
                while (share := (await visitor.json(f"/api/ready?reading={about['reading']}&entry=0"))["share"]) < 1:
                    await asyncio.sleep(2)
                    progress.print(f"{share:.1%} after {time.perf_counter() - start:.0f} s", end="\r")
                    if time.perf_counter() - start > patience:
                        break
                swept = time.perf_counter() - start
                used = f"{server.cpu() - before:,.0f} s"
                rows.append(f"| one sweep over all of it, one head ({share:.0%} done) | {swept:,.0f} s | | {used} |")
                rows += await _tiles(visitor, about["reading"], tokens, "afterwards")
                for size in (tokens, tokens // 4):
                    took = await _timed(visitor, _tile(about["reading"], 0, size, 256), 5)
                    what = f"a tile of {size:,} × {size:,} tokens in 256 × 256 bins, afterwards"
                    rows.append(f"| {what} | {ms(took)} | | |")
            rows.append(f"| memory, the most | {server.memory():.2f} GB | | |")
    title = f"## A record of {tokens:,} tokens, {heads} head{'s' * (heads > 1)} of width {width}, causal"
    columns = "| | median | slowest of 7 | a core's time |"
    return [title, "", columns, "| --- | --- | --- | --- |", *rows, ""]


async def _tiles(visitor: Visitor, name: str, tokens: int, when: str) -> list[str]:
    """Deep tiles at places of the text that nobody has looked at yet."""
    rows = []
    for side, bins in ((256, 256), (2048, 256)):
        took, before = [], visitor.server.cpu()
        for _ in range(7):
            start = random.randrange(tokens - side)
            took.append(await _timed(visitor, _tile(name, start, start + side, bins), 1))
        used = "" if "while" in when else ms((visitor.server.cpu() - before) / 7)
        what = f"a tile of {side:,} × {side:,} tokens in {bins} × {bins} bins, {when}"
        rows.append(f"| {what} | {ms(statistics.median(took))} | {ms(max(took))} | {used} |")
    return rows


def _tile(name: str, start: int, stop: int, bins: int) -> str:
    span = f"{start},{stop}"
    return f"/api/tile?reading={name}&heads=0.0&rows={span}&columns={span}&bins={bins},{bins}"


async def _timed(visitor: Visitor, address: str, count: int) -> float:
    took = []
    for _ in range(count):
        start = time.perf_counter()
        await visitor.get(address)
        took.append(time.perf_counter() - start)
    return statistics.median(took)


PARTS = {"first": first, "hover": hover, "long": long, "million": million}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="which of them; none: all")
    parser.add_argument("--report", action="store_true")
    options = parser.parse_args()
    lines = ["# The page's server", "", f"{machine()}.", ""]
    for name in options.parts or PARTS:
        lines += asyncio.run(PARTS[name]())
    lines.append("Made by `python benchmarks/page_server.py --report`.")
    print("\n".join(lines))
    if options.report:
        path = Path(__file__).parent / "reports" / f"{date.today()}-page-server.md"
        path.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
