"""What the page costs: the file of one long head, its tiles in the browser, frames while the map moves, the first view.

python benchmarks/viewer.py                 print every section
python benchmarks/viewer.py --only map      one of them
python benchmarks/viewer.py --report        and keep it in benchmarks/reports/
"""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote_plus

import torch
from measure import arguments, finish, machine
from page_server import SENTENCES, serving
from rich.console import Console

import regard
from regard.drawing.picture import file_size

progress = Console(stderr=True)
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

    lines = ["| what | measured | must hold |", "| --- | --- | --- |"]
    picture = long_head()
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        start = time.perf_counter()
        path = picture.save(Path(folder) / "map.html")
        size = path.stat().st_size
        lines.append(f"| the file, {TOKENS:,} tokens × {WIDTH} | {file_size(size)} | 10 MB |")
        lines.append(f"| saving it | {time.perf_counter() - start:.0f} s | |")
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        tab = browser.new_page(viewport={"width": 1280, "height": 800})
        start = time.perf_counter()
        tab.goto(path.as_uri())
        tab.wait_for_selector("#regard-map[data-state=idle]", timeout=120_000)
        lines.append(f"| from opening it to the first picture | {time.perf_counter() - start:.1f} s | |")
        tab.evaluate(TILE, [1, 2])  # its numbers are unpacked with the first
        for tokens, times, must in ((1, 12, "50 ms"), (2, 6, ""), (4, 4, ""), (8, 3, ""), (16, 2, "")):
            what = (
                "an exact tile, 256 × 256 weights" if tokens == 1 else f"a tile of {tokens} × {tokens} weights a pixel"
            )
            lines.append(f"| {what} | {tab.evaluate(TILE, [tokens, times]):.0f} ms | {must} |")
        for zoom, name in ((2.0, "single weights"), (-3.0, "8 × 8 weights a pixel"), (-6.0, "64 × 64 a pixel")):
            tab.evaluate("z => regardMap.setView({x: 9000, y: 20000, z})", zoom)
            tab.wait_for_timeout(300)
            seen = tab.evaluate(FRAMES, 240)
            between, inside = sorted(seen["between"]), sorted(seen["inside"])
            lines.append(
                f"| frames while the map moves, {name} | {statistics.median(between):.1f} ms apart "
                f"(95 %: {between[int(0.95 * len(between))]:.0f}), {statistics.median(inside):.1f} ms in each "
                f"(95 %: {inside[int(0.95 * len(inside))]:.1f}) | 16.7 ms apart, 8 ms in each |"
            )
        browser.close()
    return lines


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
    return [
        "| what | median | most | must hold |",
        "| --- | --- | --- | --- |",
        f"| the very first view of a browser, its modules loaded | {first[0]:.2f} s | | 1 s |",
        f"| a page with a ten-word sentence, until its lines are drawn | {statistics.median(first[1:]):.2f} s "
        f"| {max(first[1:]):.2f} s | 1 s |",
        f"| pointing at a word, until its lines are drawn, {len(hover)} times | {statistics.median(hover):.0f} ms "
        f"| {hover[-1]:.0f} ms | 50 ms |",
    ]


SECTIONS: dict[str, Callable[[], list[str]]] = {"page": the_page, "map": the_map}


def main() -> None:
    """Print the sections, and keep them if asked."""
    parser = arguments(__doc__)
    parser.add_argument("--only", choices=SECTIONS, help="one section")
    options = parser.parse_args()
    text = f"# The page\n\n{machine()}. Load before it began: {os.getloadavg()[0]:.1f} of {os.cpu_count()} cores.\n"
    for name, section in SECTIONS.items():
        if options.only in (None, name):
            progress.print(f"[dim]{name} …")
            text += f"\n## {(section.__doc__ or name).strip()}\n\n" + "\n".join(section()) + "\n"
    finish(options, "page", text)


if __name__ == "__main__":
    main()
