"""Every page of cells as a notebook: python docs/tools/notebooks.py FOLDER."""

from __future__ import annotations

import sys
from pathlib import Path

from hooks import CACHE, DOCS, notebook
from page import Page, pages


def main(folder: Path) -> None:
    """Run what has changed, and write all."""
    for path in pages(DOCS):
        place = (folder / path.relative_to(DOCS)).with_suffix(".ipynb")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(notebook(Page.read(path).run_cached(CACHE)))
        print(place)


if __name__ == "__main__":
    main(Path(*sys.argv[1:2] or ["notebooks"]))
