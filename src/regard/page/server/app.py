"""The application: one function for each address, from a request to an answer.

Nothing that a visitor sends is used as a path, a name of a file or HTML: texts go to the model, numbers are checked.
"""

from __future__ import annotations

import json
import traceback
from collections.abc import AsyncIterator, Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from regard import __version__
from regard.drawing.viewer import browser_files
from regard.errors import InputError, RegardError, TooLargeError
from regard.page.server.jobs import BROKEN, BusyError, ModelThread, Pool
from regard.page.server.listening import Guard, own_names
from regard.page.server.readers import Asked, Reader, RecordReader
from regard.page.server.readings import DENSE, Part, Reading, Readings
from regard.support import require_text

__all__ = ["LIMITS", "Page"]

LIMITS = {"characters": 20_000, "new_tokens": 256, "dense": DENSE}
_BODY = 262_144  # bytes of a request
_HIDDEN = 4096  # tokens that may be hidden, heads that may be off
_HEADS = 4096  # of which a tile may be the mean
_QUICK = 1 << 32  # multiply-adds: what a core does in about a tenth of a second
_FOUND = 1000  # places of a word in one answer
_WORD = 1000  # characters to search for
_TYPES = {"html": "text/html", "js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}
_KEEP = {"cache-control": "private, max-age=3600, immutable"}  # what is asked of a reading never changes
_FRESH = {"cache-control": "no-store"}


class Page:
    """The page of one reader: what it keeps, and the addresses at which it answers."""

    def __init__(self, reader: Reader, *, host: str = "127.0.0.1"):
        self.reader = reader
        # The page's own files, and the map's, which they import.
        self.files = browser_files("regard.page", "client") | browser_files("regard.drawing", "viewer")
        self.readings = Readings()
        self.first: Part | None = None  # a reading that is there from the beginning
        if isinstance(reader, RecordReader):
            self.first = reader.parts[0]
            self.readings.add(reader.parts, pinned=True)
        self.names = own_names(host)
        self.model, self.pool = ModelThread(), Pool(2, 1024)
        self.slow = Pool(1, 64)  # for tiles that take long, so that the others do not wait for them

    def app(self) -> Any:
        """The ASGI application."""
        routes = [
            Route("/", self._index),
            Route("/viewer/{name}", self._file),
            Route("/api/about", self._about),
            Route("/api/read", self._read, methods=["POST"]),
            Route("/api/reading/{id}", self._reading),
            Route("/api/weights", self._weights),
            Route("/api/tile", self._tile),
            Route("/api/thumbnails", self._thumbnails),
            Route("/api/tokens", self._tokens),
            Route("/api/find", self._find),
            Route("/api/ready", self._ready),
            Route("/api/steps", self._steps),
            Route("/api/save", self._save),
        ]
        handlers: dict[Any, Any] = {
            HTTPException: _http_error, BusyError: _busy, RegardError: _refused, Exception: _broken,
        }  # fmt: skip
        app = Starlette(routes=routes, exception_handlers=handlers)
        app.router.redirect_slashes = False  # an address is right or it is not there
        return Guard(app, self.names, _BODY)

    def close(self) -> None:
        """Nothing more is begun; what runs is not waited for."""
        for each in (self.model, self.pool, self.slow):
            each.close()

    # Files

    async def _index(self, _: Request) -> Response:
        return self._serve("index.html")

    async def _file(self, request: Request) -> Response:
        return self._serve(request.path_params["name"])

    def _serve(self, name: str) -> Response:
        if name not in self.files:
            raise HTTPException(404, "there is no such page.")
        kind = _TYPES.get(name.rpartition(".")[2], "application/octet-stream")
        return Response(self.files[name], media_type=kind, headers={"cache-control": "no-cache"})

    # The model

    async def _about(self, _: Request) -> Response:
        about = {
            "version": __version__, "name": self.reader.name, "task": self.reader.task, "limits": LIMITS,
            "examples": list(self.reader.examples), "languages": self.reader.languages,
            "reading": None if self.first is None else self.first.id,
        }  # fmt: skip
        return JSONResponse(about, headers=_FRESH)

    async def _read(self, request: Request) -> Response:
        if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
            raise HTTPException(415, "send JSON, with the content type application/json.")
        try:
            asked = _asked(await request.body())
        except ClientDisconnect:
            raise HTTPException(413, f"a request has at most {_BODY:,} bytes. Give a shorter text.") from None
        job = self.model.submit(self.reader.read(asked))
        lines = self._lines(job)
        return StreamingResponse(lines, media_type="application/x-ndjson", headers=_FRESH)

    async def _lines(self, job: Any) -> AsyncIterator[bytes]:
        async for event in job.events():
            if "parts" in event:
                self.readings.add(event["parts"])
                event = {"reading": event["open"].describe()}
            yield json.dumps(event, ensure_ascii=False, allow_nan=False).encode() + b"\n"

    async def _reading(self, request: Request) -> Response:
        part = self._part(request.path_params["id"])
        await self._opened(part)
        return JSONResponse(part.describe(), headers=_FRESH)

    def _part(self, name: str) -> Part:
        part = self.readings.get(name)
        if part is None:
            raise HTTPException(404, "this reading is not kept any more: read the text again.")
        return part

    async def _opened(self, part: Part) -> Reading:
        """A part that is open; its first visitor waits for the model."""
        if (reading := part.reading) is not None:
            return reading

        def open_once() -> Reading:
            if part.reading is None:
                part.reading = part.open()
            return part.reading

        reading = await self.model.run(open_once)
        self.readings.trim()
        return reading

    # What is asked of a reading

    async def _weights(self, request: Request) -> Response:
        reading = await self._asked_reading(request)
        return await self._numbers(request, lambda: reading.weights(_number(request, "entry")))

    async def _thumbnails(self, request: Request) -> Response:
        reading = await self._asked_reading(request)
        return await self._numbers(request, lambda: reading.thumbnails(_number(request, "entry")))

    async def _tile(self, request: Request) -> Response:
        reading = await self._asked_reading(request)
        heads = _pairs(_text(request, "heads"))
        rows, columns, bins = (_two(request, name) for name in ("rows", "columns", "bins"))
        slow = reading.work(heads, rows, columns, bins) > _QUICK
        return await self._numbers(request, lambda: reading.tile(heads, rows, columns, bins), slow)

    async def _numbers(
        self, request: Request, compute: Callable[[], NDArray[np.float32]], slow: bool = False
    ) -> Response:
        found = await self._computed(request, compute, slow)
        if found is None:
            return Response(status_code=204)
        shape = ",".join(map(str, found.shape))
        body = found.astype("<f4", copy=False).tobytes()
        kept = _FRESH if np.isnan(found).any() else _KEEP  # what is not computed yet will be
        return Response(body, media_type="application/octet-stream", headers={"x-shape": shape, **kept})

    async def _computed(self, request: Request, compute: Callable[[], Any], slow: bool = False) -> Any:
        pool = self.slow if slow else self.pool

        async def wanted() -> bool:
            return not await request.is_disconnected()

        return await pool.run(compute, wanted)

    async def _tokens(self, request: Request) -> Response:
        reading, side = await self._asked_reading(request), _text(request, "side")
        start, stop = _number(request, "from"), _number(request, "to")
        found = await self._computed(request, lambda: reading.tokens(side, start, stop))
        return JSONResponse({"tokens": found}, headers=_KEEP)

    async def _find(self, request: Request) -> Response:
        reading, side, text = await self._asked_reading(request), _text(request, "side"), _text(request, "text")
        if not 0 < len(text) <= _WORD:
            raise InputError(f"text must have from 1 to {_WORD:,} characters.")
        found = await self._computed(request, lambda: reading.find(side, text, _FOUND + 1)) or []
        return JSONResponse({"places": found[:_FOUND], "more": len(found) > _FOUND}, headers=_KEEP)

    async def _ready(self, request: Request) -> Response:
        reading = await self._asked_reading(request)
        share = reading.ready(_number(request, "entry"))
        return JSONResponse({"share": round(share, 4)}, headers=_FRESH)

    async def _steps(self, request: Request) -> Response:
        reading = await self._asked_reading(request)
        index, head, token = (_number(request, name) for name in ("entry", "head", "token"))

        def compute() -> bytes:
            return json.dumps(reading.steps(index, head, token), ensure_ascii=False, allow_nan=False).encode()

        found = await self._computed(request, compute)
        return Response(found, 204 if found is None else 200, media_type="application/json", headers=_KEEP)

    async def _save(self, request: Request) -> Response:
        reading = await self._asked_reading(request)
        if "heads" in request.query_params:
            heads = _pairs(_text(request, "heads"))
        else:
            kind = reading.entries[0].kind
            heads = [(n, head) for n, entry in enumerate(reading.entries) if entry.kind == kind for head in entry.heads]
        found = await self._computed(request, lambda: reading.saved(heads), slow=True)
        headers = {"content-disposition": 'attachment; filename="regard-map.html"', **_FRESH}
        return Response(found, 204 if found is None else 200, media_type="text/html", headers=headers)

    async def _asked_reading(self, request: Request) -> Reading:
        return await self._opened(self._part(_text(request, "reading")))


# What a request says


def _asked(body: bytes) -> Asked:
    """A text to read, checked."""
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
    return Asked(text, new, part, tuple(hide), tuple((entry, head) for entry, head in off))


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _text(request: Request, name: str) -> str:
    values = request.query_params.getlist(name)
    if len(values) != 1:
        raise InputError(f"the address must have {name}=…, once.")
    return values[0]


def _number(request: Request, name: str) -> int:
    return _to_number(name, _text(request, name))


def _to_number(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 12):
        raise InputError(f"{name} must be a whole number, at least 0.")
    return int(text)


def _two(request: Request, name: str) -> tuple[int, int]:
    values = _text(request, name).split(",", 2)
    if len(values) != 2:
        raise InputError(f"{name} must be two whole numbers: {name}=0,100.")
    return _to_number(name, values[0]), _to_number(name, values[1])


def _pairs(text: str) -> list[tuple[int, int]]:
    """ "3.0,3.5" as entries and heads."""
    heads = []
    for pair in text.split(",", _HEADS):
        entry, dot, head = pair.partition(".")
        if not dot:
            raise InputError("heads must be entries and heads: heads=3.0,3.5.")
        heads.append((_to_number("heads", entry), _to_number("heads", head)))
    if len(heads) > _HEADS:
        raise InputError(f"a tile is the mean of at most {_HEADS} heads.")
    return heads


# What went wrong


def _error(status: int, message: object, **headers: str) -> Response:
    return JSONResponse({"error": " ".join(str(message).split())}, status, headers={**_FRESH, **headers})


async def _http_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    known = {404: "there is nothing at this address.", 405: "this address does not answer to such a request."}
    detail = error.detail
    return _error(error.status_code, known.get(error.status_code, detail) if detail[:1].isupper() else detail)


async def _busy(_: Request, error: Exception) -> Response:
    assert isinstance(error, BusyError)
    return _error(503, error, **{"retry-after": str(error.seconds)})


async def _refused(_: Request, error: Exception) -> Response:
    return _error(413 if isinstance(error, TooLargeError) else 400, error)


async def _broken(_: Request, error: Exception) -> Response:
    traceback.print_exception(error)
    return _error(500, BROKEN)
