"""From an address to a server that answers there, until Ctrl-C."""

from __future__ import annotations

import signal
import socket
import threading
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn

from regard.errors import InputError
from regard.page.server.app import Page

__all__ = ["listen", "serve", "url"]


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
