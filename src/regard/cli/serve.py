"""`regard serve`: a page to type a sentence, look at what a model looks at, and zoom into it."""

from __future__ import annotations

import argparse

from regard.cli.command import Command

__all__ = ["COMMAND"]


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen at (127.0.0.1: this machine only)")
    parser.add_argument("--port", type=int, default=8765, help="the port (8765); 0 is any that is free")
    parser.add_argument("--open", action="store_true", help="open the page in a browser")


def _run(options: argparse.Namespace) -> None:
    from regard.drawing.viewer import viewer_files
    from regard.page.app import Page
    from regard.page.readers import TranslatorReader
    from regard.page.server import listen, serve, url
    from regard.translation import Translator

    listening = listen(options.host, options.port)
    reader = TranslatorReader(Translator.default(), "English to French, the translator in this package")
    files = viewer_files()
    print(f"The page is at {url(listening)} (Ctrl-C ends it)", flush=True)
    serve(Page(reader, files, host=options.host).app(), listening, opened=options.open)


COMMAND = Command(
    "serve",
    help="a page to look into a model",
    description=__doc__,
    epilog="",
    add_options=_add_options,
    run=_run,
)
