"""The first picture of the README: the page of `regard serve`, as a visitor finds it.

python docs/figures/page.py     writes docs/figures/page.png; needs Chromium and the extras page and test
"""

from __future__ import annotations

import shutil
import threading
from contextlib import closing
from pathlib import Path

from playwright.sync_api import sync_playwright

from regard.page import Page, listen, open_model, serve, url

PICTURE = Path(__file__).with_name("page.png")
SIZE = {"width": 1280, "height": 1310}
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


def main() -> None:
    """Serve the page, open it, and keep what is seen: what "it" looks at."""
    with closing(Page(open_model(None))) as page, listen("127.0.0.1", 0) as listening:
        threading.Thread(target=serve, args=(page, listening), daemon=True).start()
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--headless", "--no-sandbox"])
            view = browser.new_context(viewport=SIZE, color_scheme="light", reduced_motion="reduce").new_page()
            view.goto(url(listening))
            view.locator(".word.chosen", has_text="it").wait_for(timeout=60_000)
            view.evaluate("document.fonts.ready")
            view.screenshot(path=PICTURE)
            browser.close()
    print(f"{PICTURE.name}: {PICTURE.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
