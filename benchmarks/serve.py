"""The page: its server seen over HTTP, a first view, many visitors, long records; and the page in Chromium.

python benchmarks/serve.py            print the tables
python benchmarks/serve.py --report   and keep them in benchmarks/reports/

The server runs in a process of its own.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus

import torch
from measure import arguments, run, table

import regard
from regard.drawing.picture import file_size

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
            ["the server, from its start to its first answer", f"{server.started:.1f} s"],
            ["a ten-word sentence read and described", ms(statistics.median(read)), ms(max(read))],
            ["and all its weights, 14 answers", ms(statistics.median(whole)), ms(max(whole)), used],
            ["memory", f"{server.memory():.2f} GB"],
        ]
    return table(["", "median", "slowest of 15", "a core's time"], rows)


# Many visitors


async def hover() -> list[str]:
    rows = []
    with serving() as server:
        for busy in (False, True):
            before = server.cpu()
            found, job = await _hovering(server, busy)
            each = "" if busy else ms((server.cpu() - before) / len(found), 1)
            what = f"beside a text of {len(LONG_TEXT):,} characters, {job:.0f} s" if busy else "alone"
            times = [ms(statistics.median(found)), ms(percentile(found, 0.99)), ms(max(found))]
            rows.append([what, f"{len(found):,}", *times, each])
    about = f"{VISITORS} visitors, one request each in {PACE:g} s."
    columns = ["", "answers", "median", "99 % within", "slowest", "a core's time for each"]
    return [about, "", *table(columns, rows)]


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


WINDOW = 4096  # keys that a token sees, in a layer with a sliding window


def record(tokens: int, heads: int, width: int, path: Path, mask: regard.Mask) -> None:
    """A record with random queries and keys, and a word for each token, of a layer that really ran."""
    torch.manual_seed(0)
    query, key = torch.randn(2, 1, heads, tokens, width).unbind(0)
    layer = Layer(mask)
    with torch.no_grad(), regard.watch(layer, tokens=[f"▁w{n % 5000}" for n in range(tokens)]) as seen:
        layer(query, key)
    seen.save(path)


class Layer(torch.nn.Module):
    """Attention with a mask and the queries and keys that it is given."""

    kind, attend = "decoder", staticmethod(regard.attention)

    def __init__(self, mask: regard.Mask):
        super().__init__()
        self.mask = mask

    def forward(self, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
        return self.attend(query, key, key, mask=self.mask)


PATIENCE = 300  # seconds that a sweep may take


async def long() -> list[str]:
    return await _map(100_000, 2, regard.causal())


async def million() -> list[str]:
    """As most layers of models for such texts are: with a sliding window."""
    return await _map(1_000_000, 1, regard.window(WINDOW - 1, 0))


async def _map(tokens: int, heads: int, mask: regard.Mask) -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "record.safetensors"
        record(tokens, heads, 64, path, mask)
        with serving("--record", str(path)) as server:
            rows = [["opened, from the start of the server", f"{server.started:.1f} s", "", f"{server.cpu():.1f} s"]]
            async with Visitor(server) as visitor:
                about = await visitor.json("/api/about")
                start = time.perf_counter()
                await visitor.json(f"/api/reading/{about['reading']}")
                rows.append(["described, with what its heads do", f"{time.perf_counter() - start:.2f} s"])
                rows += await _tiles(visitor, about["reading"], tokens, "before the sweep")
                start, before = time.perf_counter(), server.cpu()
                await visitor.get(_tile(about["reading"], 0, tokens, 256))  # begins it
                rows += await _tiles(visitor, about["reading"], tokens, "while it is swept")
                while (share := (await visitor.json(f"/api/ready?reading={about['reading']}&entry=0"))["share"]) < 1:
                    await asyncio.sleep(2)
                    if time.perf_counter() - start > PATIENCE:
                        break
                swept = time.perf_counter() - start
                used = f"{server.cpu() - before:,.0f} s"
                rows.append([f"one sweep over all of it, one head ({share:.0%} done)", f"{swept:,.0f} s", "", used])
                rows += await _tiles(visitor, about["reading"], tokens, "afterwards")
                for size in (tokens, tokens // 4):
                    took = await _timed(visitor, _tile(about["reading"], 0, size, 256), 5)
                    what = f"a tile of {size:,} × {size:,} tokens in 256 × 256 bins, afterwards"
                    rows.append([what, ms(took)])
            rows.append(["memory, the most", f"{server.memory():.2f} GB"])
    about = f"{tokens:,} tokens, {heads} head{'s' * (heads > 1)} of width 64"
    return table([about, "median", "slowest of 7", "a core's time"], rows)


async def _tiles(visitor: Visitor, name: str, tokens: int, when: str) -> list[list[str]]:
    """Deep tiles at places of the text that nobody has looked at yet."""
    rows = []
    for side, bins in ((256, 256), (2048, 256)):
        took, before = [], visitor.server.cpu()
        for _ in range(7):
            start = random.randrange(tokens - side)
            took.append(await _timed(visitor, _tile(name, start, start + side, bins), 1))
        used = "" if "while" in when else ms((visitor.server.cpu() - before) / 7)
        what = f"a tile of {side:,} × {side:,} tokens in {bins} × {bins} bins, {when}"
        rows.append([what, ms(statistics.median(took)), ms(max(took)), used])
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


# In the browser

TOKENS, WIDTH = 32_768, 64
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]

# A tile of 256 × 256 bins of so many tokens, well below the diagonal: the least of some times, in milliseconds.
TILE = """async ([size, times]) => {
    let least = Infinity;
    for (let n = 0; n < times; n++) {
        const start = performance.now(), row = 16384 + n * 256, span = 256 * size;
        await regardMap.pooled([row, row + span], [n * 256, n * 256 + span], [256, 256]);
        least = Math.min(least, performance.now() - start);
    }
    return least;
}"""
# The map pulled to the side for so many frames: the time between frames, and the time spent in each of them.
FRAMES = """frames => new Promise(resolve => {
    const surface = document.querySelector(".map-plot"), box = surface.getBoundingClientRect();
    const between = [], inside = [], ask = window.requestAnimationFrame.bind(window);
    window.requestAnimationFrame = call => ask(time => {
        const start = performance.now();
        call(time);
        inside.push(performance.now() - start);
    });
    let last = null;
    const step = time => {
        if (last !== null) between.push(time - last);
        last = time;
        surface.dispatchEvent(new WheelEvent("wheel", {
            deltaX: 9, shiftKey: true, clientX: box.x + 400, clientY: box.y + 300, bubbles: true, cancelable: true,
        }));
        if (between.length < frames) ask(step);
        else {
            window.requestAnimationFrame = ask;
            resolve({between, inside});
        }
    };
    ask(step);
})"""


# Each word pointed at in turn: the time until its lines are drawn, as the frame after them begins, in milliseconds.
HOVER = """async () => {
    const took = [], frame = () => new Promise(requestAnimationFrame), answer = document.querySelector(".answer");
    for (const word of document.querySelectorAll(".sentence .word")) {
        const before = answer.textContent, start = performance.now();
        for (const type of ["pointerover", "pointerenter", "mouseover", "mouseenter"])
            word.dispatchEvent(new PointerEvent(type, {pointerType: "mouse", bubbles: !type.endsWith("enter")}));
        while (answer.textContent === before && performance.now() - start < 1000) await frame();
        await frame();
        took.push(performance.now() - start);
    }
    return took.slice(1);
}"""


def long_head() -> regard.Picture:
    """One causal head of a text whose words look at themselves and at what is near."""
    torch.manual_seed(0)
    words = [f" word{n}" for n in torch.randint(5000, (TOKENS,)).tolist()]
    query, key = torch.randn(2, TOKENS, WIDTH).unbind(0)
    return regard.AttentionMatrix(query, key, mask=regard.causal()).picture(words, kind="map", title="A long head")


def the_map() -> list[str]:
    """A file with one head of 32,768 tokens, opened from the disk in Chromium."""
    from playwright.sync_api import sync_playwright

    rows = []
    picture = long_head()
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        start = time.perf_counter()
        path = picture.save(Path(folder) / "map.html")
        size = path.stat().st_size
        rows.append([f"the file, {TOKENS:,} tokens × {WIDTH}", file_size(size), "10 MB"])
        rows.append(["saving it", f"{time.perf_counter() - start:.0f} s"])
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        tab = browser.new_page(viewport={"width": 1280, "height": 800})
        start = time.perf_counter()
        tab.goto(path.as_uri())
        tab.wait_for_selector("#regard-map[data-state=idle]", timeout=120_000)
        rows.append(["from opening it to the first picture", f"{time.perf_counter() - start:.1f} s"])
        tab.evaluate(TILE, [1, 2])  # its numbers are unpacked with the first
        for tokens, times, must in ((1, 12, "50 ms"), (2, 6, ""), (4, 4, ""), (8, 3, ""), (16, 2, "")):
            what = (
                "an exact tile, 256 × 256 weights" if tokens == 1 else f"a tile of {tokens} × {tokens} weights a pixel"
            )
            rows.append([what, f"{tab.evaluate(TILE, [tokens, times]):.0f} ms", must])
        for zoom, name in ((2.0, "single weights"), (-3.0, "8 × 8 weights a pixel"), (-6.0, "64 × 64 a pixel")):
            tab.evaluate("z => regardMap.setView({x: 9000, y: 20000, z})", zoom)
            tab.wait_for_timeout(300)
            seen = tab.evaluate(FRAMES, 240)
            between, inside = sorted(seen["between"]), sorted(seen["inside"])
            apart = f"{statistics.median(between):.1f} ms apart (95 %: {between[int(0.95 * len(between))]:.0f})"
            within = f"{statistics.median(inside):.1f} ms in each (95 %: {inside[int(0.95 * len(inside))]:.1f})"
            what = f"frames while the map moves, {name}"
            rows.append([what, f"{apart}, {within}", "16.7 ms apart, 8 ms in each"])
        browser.close()
    return table(["what", "measured", "must hold"], rows)


def the_page() -> list[str]:
    """The page of `regard serve` in Chromium, with the translator in this package."""
    from playwright.sync_api import sync_playwright

    first, hover = [], []
    with serving() as server, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        for sentence in [SENTENCES[0], *SENTENCES]:
            tab = browser.new_page(viewport={"width": 1280, "height": 900})
            start = time.perf_counter()
            tab.goto(f"http://{server.host}:{server.port}/#text={quote_plus(sentence)}&word=source.2")
            tab.wait_for_selector("path.line", state="attached", timeout=60_000)
            first.append(time.perf_counter() - start)
            tab.wait_for_timeout(500)
            hover += tab.evaluate(HOVER)
            tab.close()
        browser.close()
    hover.sort()
    rows = [
        ["the very first view of a browser, its modules loaded", f"{first[0]:.2f} s", "", "1 s"],
        [
            "a page with a ten-word sentence, until its lines are drawn", f"{statistics.median(first[1:]):.2f} s",
            f"{max(first[1:]):.2f} s", "1 s",
        ],
        [
            f"pointing at a word, until its lines are drawn, {len(hover)} times", f"{statistics.median(hover):.0f} ms",
            f"{hover[-1]:.0f} ms", "50 ms",
        ],
    ]  # fmt: skip
    return table(["what", "median", "most", "must hold"], rows)


PARTS = {
    "A first view": first, "Visitors hovering": hover, "A record of 100,000 tokens, causal": long,
    f"A record of 1,000,000 tokens, a window of {WINDOW:,}": million,
}  # fmt: skip


def main() -> None:
    options = arguments(__doc__).parse_args()
    sections: dict[str, Any] = {name: lambda part=part: asyncio.run(part()) for name, part in PARTS.items()}
    sections |= {"The page in Chromium": the_page, "A file with one head of 32,768 tokens, in Chromium": the_map}
    how = "The server of `regard serve` with the translator in the package, asked over HTTP; then the page itself."
    run("The page", how, sections, "page drawing maps", options)


if __name__ == "__main__":
    main()
