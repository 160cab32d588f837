"""The server from an address to its end, and `Guard`: what holds for every request and every answer."""

from __future__ import annotations

import ipaddress
import json
import signal
import socket
import threading
import webbrowser
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import uvicorn

from regard.errors import InputError

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from regard.page.server.app import Page

__all__ = ["HEADERS", "Guard", "listen", "own_names", "serve", "url"]

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

    A browser that was led astray by DNS sends the name that it was led by, never a number.

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

    A page of another site must not reach this one through a visitor's browser. Its name must not be taken for ours
    (the Host header; DNS rebinding), nor may it send texts (Origin and Sec-Fetch-Site). No answer may run or load
    anything foreign (the content security policy), and no other site can read one (no CORS header).
    """

    def __init__(self, app: ASGIApp, names: Collection[str] | None, largest: int):
        self.app, self.names, self.largest = app, names, largest
        self._headers = [(name.encode(), value.encode()) for name, value in HEADERS.items()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: D102 (ASGI)
        if scope["type"] != "http":
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1008})  # there are none here
            else:
                await self.app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *self._headers]
            await send(message)

        refused = self._refused(scope)
        if refused is not None:
            await _answer(send_guarded, *refused)
            return
        await self.app(scope, self._bounded(receive), send_guarded)

    def _refused(self, scope: Scope) -> tuple[int, str] | None:
        headers: dict[str, str] = {}
        for name, value in scope["headers"]:
            key = name.decode("latin-1")
            if key == "host" and key in headers:
                return 400, "a request has one Host header."
            headers[key] = value.decode("latin-1")
        host = headers.get("host", "")
        if not self._is_own(_name(host)):
            return 403, "this page answers only to the address at which it was started: see the server's terminal."
        if headers.get("sec-fetch-site", "none") == "cross-site" and scope["path"].startswith("/api/"):
            return 403, "pages of other sites may not ask this one."
        if scope["method"] in ("GET", "HEAD"):
            return None
        if headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
            return 403, "pages of other sites may not ask this one."
        origin = headers.get("origin")
        if origin is not None and origin.partition("://")[2].lower() != host.lower():
            return 403, "pages of other sites may not ask this one."
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
        """The body of a request, cut off where it is longer than it may be, or than it said."""
        received = 0

        async def bounded() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > self.largest:
                return {"type": "http.disconnect"}
            return message

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


async def _answer(send: Any, status: int, error: str) -> None:
    body = json.dumps({"error": error}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def listen(host: str, port: int) -> socket.socket:
    """A socket at this address; port 0 is any that is free."""
    try:
        ((family, kind, protocol, _, address), *_) = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError:
        raise InputError(f"{host} is no address of this machine. Use 127.0.0.1, or 0.0.0.0 for all of them.") from None
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind(address)
    except OSError as error:
        made.close()
        if isinstance(error, PermissionError):
            raise InputError(f"port {port} is not for you: choose one above 1023, or --port 0 for any.") from None
        raise InputError(
            f"port {port} of {host} cannot be used ({error.strerror or error}). Choose another: --port {port + 1}, or "
            "--port 0 for any that is free."
        ) from None
    made.listen(128)
    return made


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
        """Meanwhile Ctrl-C and SIGTERM end the server; a second one does not wait for answers."""
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
        self.page.close()  # so that no answer goes on and on
