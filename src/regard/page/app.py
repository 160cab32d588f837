"""The server: the addresses, from a request to an answer; the checks of every request; its start and its end.

Nothing that a visitor sends is used as a path, a name of a file or HTML: texts go to the model, numbers are checked.
"""

from __future__ import annotations

import ipaddress
import json
import signal
import socket
import threading
import traceback
import webbrowser
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import uvicorn
from starlette.applications import Starlette
from starlette.datastructures import QueryParams
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from regard import __version__
from regard.drawing.viewer import browser_files
from regard.errors import InputError, RegardError, TooLargeError
from regard.page.inside import BOOK, textbook_matrices
from regard.page.jobs import BROKEN, BusyError, Job, ModelThread, Pool
from regard.page.readers import Reader, ReadRequest, RecordReader
from regard.page.readings import DENSE, Part, Reading, Readings
from regard.support import one_of, require_text
from regard.watching.questions.atlas import ROLES

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["HEADERS", "LIMITS", "Guard", "Page", "listen", "own_names", "serve", "url"]

LIMITS = {"characters": 20_000, "new_tokens": 256, "dense": DENSE}
_BODY = 262_144  # bytes of a request
_HIDDEN = 4096  # tokens that may be hidden, heads that may be off
_HEADS = 4096  # heads of which a tile may be the mean
_QUICK = 1 << 32  # multiply-adds: what a core does in about a tenth of a second
_PLACES = 1000  # places of a word in one answer
_WORD = 1000  # characters to search for
_TYPES = {"html": "text/html", "js": "text/javascript", "css": "text/css"}
_KEEP = {"cache-control": "private, max-age=3600, immutable"}  # the answers about a reading never change
_FRESH = {"cache-control": "no-store"}


class Page:
    """The page of one reader: the readings that it keeps, and the addresses at which it answers."""

    def __init__(self, reader: Reader, *, host: str = "127.0.0.1"):
        self.reader = reader
        # The page's own files, and those of the map, which they import.
        self.files = browser_files("regard.page", "client") | browser_files("regard.drawing", "viewer")
        self.readings = Readings()
        self.first: Part | None = None  # a reading that is there from the beginning
        if isinstance(reader, RecordReader):
            self.first = reader.parts[0]
            self.readings.add(reader.parts, pinned=True)
        self.names = own_names(host)
        self.model, self.pool = ModelThread(), Pool(2, 1024)
        self.slow = Pool(1, 64)  # for tiles that take long, so that quick answers do not wait for them

    def app(self) -> Any:
        """The ASGI application."""
        routes = [
            Route("/", partial(self._serve, name="index.html")),
            Route("/viewer/{name}", self._serve),
            Route("/api/about", self._about),
            Route("/api/read", self._read, methods=["POST"]),
            Route("/api/reading/{id}", self._reading),
            Route("/api/why", self._why),
            Route("/api/made", self._made),
            *(Route(f"/api/{name}", partial(self._answer, name=name)) for name in _QUESTIONS),
        ]
        handlers: dict[Any, Any] = dict.fromkeys((HTTPException, RegardError, Exception), _failed)
        app = Starlette(routes=routes, exception_handlers=handlers)
        app.router.redirect_slashes = False  # an address is right or it is not there
        return Guard(app, self.names, _BODY)

    def close(self) -> None:
        """Begin nothing more; what runs is not waited for."""
        for each in (self.model, self.pool, self.slow):
            each.close()

    async def _serve(self, request: Request, name: str = "") -> Response:
        name = name or request.path_params["name"]
        if name not in self.files:
            raise HTTPException(404, "there is no such page.")
        return Response(
            self.files[name], media_type=_TYPES[name.rpartition(".")[2]], headers={"cache-control": "no-cache"}
        )

    # The model

    async def _about(self, _: Request) -> Response:
        about = {
            "version": __version__, "name": self.reader.name, "task": self.reader.task, "limits": LIMITS,
            "examples": list(self.reader.examples), "languages": self.reader.languages,
            "reading": None if self.first is None else self.first.id,
            "roles": ROLES, "book": BOOK,
            "heads": [{"name": name, "layer": layer, "head": n} for name, (layer, n) in self.reader.heads.items()],
        }  # fmt: skip
        return JSONResponse(about, headers=_FRESH)

    async def _read(self, request: Request) -> Response:
        if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
            raise HTTPException(415, "send JSON, with the content type application/json.")
        try:
            text = _read_request(await request.body())
        except ClientDisconnect:
            raise HTTPException(413, f"a request has at most {_BODY:,} bytes. Give a shorter text.") from None
        job = self.model.submit(self.reader.read(text))
        return StreamingResponse(self._lines(job), media_type="application/x-ndjson", headers=_FRESH)

    async def _lines(self, job: Job) -> AsyncIterator[bytes]:
        async for event in job.events():
            if "parts" in event:
                self.readings.add(event["parts"])
                event = {"reading": event["open"].describe()}
            yield _json(event) + b"\n"

    async def _reading(self, request: Request) -> Response:
        part, _ = await self._opened(request.path_params["id"])
        return JSONResponse(part.describe(), headers=_FRESH)

    async def _why(self, request: Request) -> Response:
        query = _Query(request.query_params)
        _, reading = await self._opened(query.text("reading"))
        place = [query.number(name) for name in ("entry", "head", "token")]
        keys = [query.number(name) if name in query else None for name in ("key", "minus")]
        answer = await self.model.run(lambda: reading.why(*place, *keys))  # the model runs again
        return Response(_json(answer), 200, _KEEP, "application/json")

    async def _made(self, request: Request) -> Response:
        query = _Query(request.query_params)
        _, reading = await self._opened(query.text("reading"))
        token, kind = query.number("token") if "token" in query else None, query.text("kind")
        answer = await self.model.run(lambda: reading.made(token, kind))
        return Response(_json(answer), 200, _KEEP, "application/json")

    async def _opened(self, name: str) -> tuple[Part, Reading]:
        """A part and its reading, for which its first visitor waits."""
        part = self.readings.get(name)
        if part is None:
            raise HTTPException(404, "this reading is not kept any more: read the text again.")
        if (reading := part.reading) is None:
            reading = await self.model.run(part.opened)
            self.readings.trim()
        return part, reading

    # Questions about a reading

    async def _answer(self, request: Request, name: str) -> Response:
        query = _Query(request.query_params)
        _, reading = await self._opened(query.text("reading"))
        slow = name == "save" or (name == "tile" and reading.work(*query.tile()) > _QUICK)

        def compute() -> Any:
            answer = _QUESTIONS[name](reading, query)
            return answer if isinstance(answer, np.ndarray | str) else _json(answer)

        async def is_wanted() -> bool:
            return not await request.is_disconnected()

        answer = await (self.slow if slow else self.pool).run(compute, is_wanted)
        if isinstance(answer, np.ndarray):
            headers = _FRESH if np.isnan(answer).any() else _KEEP  # what is not computed yet will be
            headers = {"x-shape": ",".join(map(str, answer.shape)), **headers}
            return Response(answer.astype("<f4", copy=False).tobytes(), 200, headers, "application/octet-stream")
        if isinstance(answer, str):
            headers = {"content-disposition": 'attachment; filename="regard-map.html"', **_FRESH}
            return Response(answer, 200, headers, "text/html")
        headers = _FRESH if name == "ready" else _KEEP
        return Response(answer, 204 if answer is None else 200, headers, "application/json")


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, allow_nan=False).encode()


class _Query:
    """The values of an address, checked."""

    def __init__(self, values: QueryParams):
        self._values = values

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def text(self, name: str) -> str:
        """A value that is there once."""
        values = self._values.getlist(name)
        if len(values) != 1:
            raise InputError(f"the address must have {name}=…, once.")
        return values[0]

    def number(self, name: str) -> int:
        """A whole number."""
        return _to_number(name, self.text(name))

    def two(self, name: str) -> tuple[int, int]:
        """Two whole numbers, as in "0,100"."""
        values = self.text(name).split(",", 2)
        if len(values) != 2:
            raise InputError(f"{name} must be two whole numbers: {name}=0,100.")
        return _to_number(name, values[0]), _to_number(name, values[1])

    def heads(self) -> list[tuple[int, int]]:
        """Entries and heads, as in "3.0,3.5"."""
        heads = []
        for pair in self.text("heads").split(",", _HEADS):
            entry, dot, head = pair.partition(".")
            if not dot:
                raise InputError("heads must be entries and heads: heads=3.0,3.5.")
            heads.append((_to_number("heads", entry), _to_number("heads", head)))
        if len(heads) > _HEADS:
            raise InputError(f"a tile is the mean of at most {_HEADS} heads.")
        return heads

    def is_aside(self) -> bool:
        """Whether attention sinks are set aside."""
        one_of("sinks", self.text("sinks"), ("aside", "shown"))
        return self.text("sinks") == "aside"

    def tile(self) -> tuple[list[tuple[int, int]], tuple[int, int], tuple[int, int], tuple[int, int]]:
        """The heads, rows, columns and bins of a tile."""
        return self.heads(), self.two("rows"), self.two("columns"), self.two("bins")


def _to_number(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 12):
        raise InputError(f"{name} must be a whole number, at least 0.")
    return int(text)


def _find(reading: Reading, query: _Query) -> dict[str, Any]:
    side, text = query.text("side"), query.text("text")
    if not 0 < len(text) <= _WORD:
        raise InputError(f"text must have from 1 to {_WORD:,} characters.")
    places = reading.find(side, text, _PLACES + 1)
    return {"places": places[:_PLACES], "more": len(places) > _PLACES}


def _save(reading: Reading, query: _Query) -> str:
    if "heads" in query:
        return reading.saved(query.heads())
    kind = reading.entries[0].kind
    return reading.saved([(n, h) for n, entry in enumerate(reading.entries) if entry.kind == kind for h in entry.heads])


# What can be asked about a reading: arrays of floats, values for JSON, or a file.
_QUESTIONS: dict[str, Callable[[Reading, _Query], Any]] = {
    "weights": lambda reading, query: reading.weights(query.number("entry")),
    "thumbnails": lambda reading, query: reading.thumbnails(query.number("entry")),
    "tile": lambda reading, query: reading.tile(*query.tile()),
    "looks": lambda reading, query: reading.looks(query.heads(), query.two("rows"), query.is_aside()),
    "heads": lambda reading, query: reading.heads_between(query.number("entry"), query.two("row"), query.two("column")),
    "tokens": lambda reading, query: {
        "tokens": reading.tokens(query.text("side"), query.number("from"), query.number("to"))
    },
    "find": _find,
    "ready": lambda reading, query: {"share": round(reading.ready(query.number("entry")), 4)},
    "steps": lambda reading, query: reading.steps(query.number("entry"), query.number("head"), query.number("token")),
    "matrices": lambda reading, query: (
        textbook_matrices(query.text("book"))
        if "book" in query
        else reading.matrices(query.number("entry"), query.number("head"))
    ),
    "save": _save,
}


def _read_request(body: bytes) -> ReadRequest:
    """Return a text to read, checked."""
    try:
        fields = json.loads(body)
    except (ValueError, RecursionError):
        raise InputError("the request is not JSON.") from None
    if not isinstance(fields, dict) or not isinstance(fields.get("text"), str):
        raise InputError('the request must be an object with a "text".')
    if set(fields) - {"text", "new_tokens", "part", "hide", "off"}:
        raise InputError("a request has text, new_tokens, part, hide and off, and nothing else.")
    text, most = fields["text"], LIMITS["characters"]
    require_text("text", text)
    if not text.strip():
        raise InputError("the text is empty: type a sentence.")
    if len(text) > most:
        raise TooLargeError(f"a text has at most {most:,} characters. This one has {len(text):,}: give a part of it.")
    new, limit = fields.get("new_tokens", 32), LIMITS["new_tokens"]
    if not _is_whole(new) or not 0 <= new <= limit:
        raise InputError(f"new_tokens must be a whole number from 0 to {limit}.")
    part = fields.get("part", 0)
    if not _is_whole(part) or part < 0:
        raise InputError("part must be a whole number, at least 0.")
    hide, off = fields.get("hide", []), fields.get("off", [])
    for name, values in (("hide", hide), ("off", off)):
        if not isinstance(values, list) or len(values) > _HIDDEN:
            raise InputError(f"{name} must be a list, of at most {_HIDDEN:,}.")
    if not all(map(_is_whole, hide)):
        raise InputError("hide must be a list of the numbers of tokens.")
    if not all(isinstance(pair, list) and len(pair) == 2 and all(map(_is_whole, pair)) for pair in off):
        raise InputError("off must be a list of pairs: the numbers of an entry and a head.")
    return ReadRequest(text, new, part, tuple(hide), tuple((entry, head) for entry, head in off))


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


# Errors


def _error(status: int, message: object, **headers: str) -> Response:
    return JSONResponse({"error": " ".join(str(message).split())}, status, headers={**_FRESH, **headers})


async def _failed(_: Request, error: Exception) -> Response:
    if isinstance(error, BusyError):
        return _error(503, error, **{"retry-after": str(error.seconds)})
    if isinstance(error, RegardError):
        return _error(413 if isinstance(error, TooLargeError) else 400, error)
    if isinstance(error, HTTPException):
        known = {404: "there is nothing at this address.", 405: "this address does not answer to such a request."}
        detail = error.detail  # Starlette's own detail begins with a capital
        return _error(error.status_code, known.get(error.status_code, detail) if detail[:1].isupper() else detail)
    traceback.print_exception(error)
    return _error(500, BROKEN)


# The checks of every request

HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


def own_names(host: str) -> frozenset[str] | None:
    """The names by which a server at this address is called; None: any number, localhost, and the machine's name.

    After DNS rebinding a browser sends the name of the other site, never a number.

    >>> sorted(own_names("127.0.0.1")), sorted(own_names("machine.local")), own_names("0.0.0.0")
    (['127.0.0.1', '::1', 'localhost'], ['machine.local'], None)
    """
    host = host.lower().strip("[]").rstrip(".")
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return _LOOPBACK if host == "localhost" else frozenset({host})
    if address.is_unspecified:
        return None
    return _LOOPBACK if address.is_loopback else frozenset({host})


class Guard:
    """Refuses requests in another site's name, and adds the headers to every answer: ASGI, around the application.

    A page of another site must not reach this server through a visitor's browser: a request must call the server by a
    name of its own (the Host header; DNS rebinding) and must come from its own page (Origin and Sec-Fetch-Site). No
    answer may run or load anything foreign (the content security policy), and no other site can read an answer (no CORS
    header).
    """

    def __init__(self, app: ASGIApp, names: Collection[str] | None, largest: int):
        self.app, self.names, self.largest = app, names, largest
        self._headers = [(name.encode(), value.encode()) for name, value in HEADERS.items()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: D102 (ASGI)
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})  # the page uses none
            return
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *self._headers]
            await send(message)

        refusal = self._refused(scope)
        app: Callable[..., Awaitable[None]] = self.app if refusal is None else _error(*refusal)
        await app(scope, self._bounded(receive), send_guarded)

    def _refused(self, scope: Scope) -> tuple[int, str] | None:
        headers: dict[str, str] = {}
        for name, value in scope["headers"]:
            key = name.decode("latin-1")
            if key == "host" and key in headers:
                return 400, "a request has one Host header."
            headers[key] = value.decode("latin-1")
        host, site = headers.get("host", ""), headers.get("sec-fetch-site", "none")
        if not self._is_own(_name(host)):
            return 403, "this page answers only to the address at which it was started: see the server's terminal."
        foreign = 403, "pages of other sites may not send requests to this page."
        if site == "cross-site" and scope["path"].startswith("/api/"):
            return foreign
        if scope["method"] in ("GET", "HEAD"):
            return None
        origin = headers.get("origin")
        if site not in ("same-origin", "none") or (
            origin is not None and origin.partition("://")[2].lower() != host.lower()
        ):
            return foreign
        try:
            size = int(headers.get("content-length", "0"))
        except ValueError:
            return 400, "the content length must be a number."
        if size > self.largest:
            return 413, f"a request has at most {self.largest:,} bytes. Give a shorter text."
        return None

    def _is_own(self, name: str) -> bool:
        if self.names is not None:
            return name in self.names
        if name in ("localhost", socket.gethostname().lower()):
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True

    def _bounded(self, receive: Receive) -> Receive:
        """Cut off the body of a request where it is too long."""
        received = 0

        async def bounded() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            return message if received <= self.largest else {"type": "http.disconnect"}

        return bounded


def _name(host: str) -> str:
    """The name in a Host header, without its port.

    >>> _name("Localhost:8000"), _name("[::1]:80"), _name("example.org.")
    ('localhost', '::1', 'example.org')
    """
    host = host.strip().lower()
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0].rstrip(".")


# From a socket to the end of the server


def listen(host: str, port: int) -> socket.socket:
    """Open a socket at this address; port 0 is any free port."""
    try:
        ((family, kind, protocol, _, address), *_) = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError:
        raise InputError(
            f"{host} is not an address of this machine. Use 127.0.0.1, or 0.0.0.0 for all of its addresses."
        ) from None
    listening = socket.socket(family, kind, protocol)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind(address)
    except OSError as error:
        listening.close()
        if isinstance(error, PermissionError):
            raise InputError(
                f"Permission denied for port {port}. Choose a port above 1023, or --port 0 for any free port."
            ) from None
        raise InputError(
            f"port {port} of {host} cannot be used ({error.strerror or error}). Choose another port: --port {port + 1},"
            " or --port 0 for any free port."
        ) from None
    listening.listen(128)
    return listening


def url(listening: socket.socket) -> str:
    """The address to open in a browser."""
    host, port = listening.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    return f"http://{host}:{port}/"


def serve(page: Page, listening: socket.socket, *, opened: bool = False) -> None:
    """Answer at this address until Ctrl-C, which raises KeyboardInterrupt, or SIGTERM, which does not."""
    config = uvicorn.Config(
        page.app(), log_level="critical", access_log=False, server_header=False, date_header=False, lifespan="off",
        timeout_keep_alive=30, timeout_graceful_shutdown=1, ws="none", proxy_headers=False,
        limit_concurrency=1000, h11_max_incomplete_event_size=65536,
    )  # fmt: skip
    server = _Server(config, page)
    if opened:
        threading.Thread(target=webbrowser.open, args=(url(listening),), daemon=True).start()
    server.run(sockets=[listening])
    if server.interrupted:
        raise KeyboardInterrupt


class _Server(uvicorn.Server):
    """Ends once it has answered; uvicorn itself would raise the signal again inside its event loop."""

    def __init__(self, config: uvicorn.Config, page: Page):
        super().__init__(config)
        self.page, self.interrupted = page, False

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """End the server at Ctrl-C and SIGTERM; at a second signal without waiting for answers."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self._stop) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _stop(self, number: int, _: Any) -> None:
        self.interrupted = self.interrupted or number == signal.SIGINT
        self.should_exit, self.force_exit = True, self.should_exit
        self.page.close()  # otherwise a long answer would keep the server alive
