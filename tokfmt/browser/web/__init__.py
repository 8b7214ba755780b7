"""Serve `tokfmt browse --web` with textual-serve: one page per visitor who knows the address, one process per page.

A dataset may be private, and any web page can send requests to this machine. Three checks protect it:

- The address holds a secret of 128 bits, without which a request gets nothing.
- The Host of a request must name this server. A name of an attacker may lead to this machine as well (DNS rebinding).
- The Origin of a websocket, which every web browser sends, must be a page of this server.

The server sends only its terminal, its font and the files in this directory.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import ipaddress
import logging
import re
import secrets
import shlex
import signal
import socket
from collections.abc import Awaitable, Callable, Sequence
from importlib.resources import files

from aiohttp import web
from aiohttp.http import HttpProcessingError
from textual_serve.server import Server

from tokfmt.errors import ConversionError

GRACE = 2.0
"""Seconds for pages to end with the server. A process that takes longer ends when its stdin hangs up."""

_FILES = {"": "text/html", "page.js": "text/javascript", "page.css": "text/css"}
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "font-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


async def _file(request: web.Request) -> web.Response:
    name = request.match_info["name"]
    text = files(__package__).joinpath(name or "page.html").read_text("utf-8")
    return web.Response(text=text, content_type=_FILES[name])


class PageServer(Server):
    """Serve the pages of one command, at an address with a secret.

    Args:
        words: The command line that draws a page.
        host: Host to listen at.
        port: Port to listen at; 0 for any free port.
    """

    def __init__(self, words: Sequence[str], host: str, port: int) -> None:
        super().__init__(f"exec {shlex.join(words)}", host, port, title="tokfmt browse")
        self._home = f"/{secrets.token_urlsafe(16)}"
        self._names = {"localhost", "127.0.0.1", "::1", host.lower()}
        if not is_local(host):
            self._names |= {socket.gethostname().lower(), socket.getfqdn().lower()}

    async def _make_app(self) -> web.Application:
        app = web.Application(middlewares=[self._private])
        app.add_routes(
            [
                web.get(self._home + "/{name:|page.js|page.css}", _file),
                web.get(f"{self._home}/ws", self.handle_websocket),
                web.static(f"{self._home}/static", self.statics_path),
                web.get("/download/{key}", self.handle_download),  # the key is a secret itself
            ]
        )
        return app

    @web.middleware
    async def _private(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        name = re.sub(r":\d*$", "", request.headers.get("Host", "")).strip("[]").lower()
        reached = request.transport and request.transport.get_extra_info("sockname")
        if name not in self._names and not (reached and name == reached[0]):
            raise web.HTTPForbidden(text="this server has another name: open the address that tokfmt printed\n")
        response = await handler(request)
        if not response.prepared:
            response.headers.update(_HEADERS)
        return response

    async def handle_websocket(self, request: web.Request) -> web.WebSocketResponse:
        """Run a process for a page of this server."""
        if request.headers.get("Origin", "").partition("://")[2] != request.host:
            raise web.HTTPForbidden(text="only pages of this server may connect\n")
        return await super().handle_websocket(request)

    async def run(self, announce: Callable[[str], object]) -> None:
        """Serve until SIGINT, SIGTERM or SIGHUP.

        Args:
            announce: Called with the address when the server is ready.

        Raises:
            ConversionError: The port is in use, or the host is invalid.
        """
        stop = asyncio.Event()
        for number in _SIGNALS:
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        log = logging.getLogger("aiohttp.server")  # invalid requests would fill the terminal, or block a pipe
        log.setLevel(logging.INFO)
        log.addFilter(_is_ours)
        runner = web.AppRunner(await self._make_app(), handle_signals=False, access_log=None, shutdown_timeout=GRACE)
        await runner.setup()
        try:
            await web.TCPSite(runner, self.host, self.port).start()
            announce(self._url(runner.addresses[0][1]))
            await stop.wait()
        except OSError as error:
            raise ConversionError(_refused(self.host, self.port, error)) from error
        finally:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(runner.cleanup(), 2 * GRACE)

    def _url(self, port: int) -> str:
        name = self.host if self.host not in ("0.0.0.0", "::", "") else socket.gethostname()  # noqa: S104 - compared
        return f"http://{f'[{name}]' if ':' in name else name}:{port}{self._home}/"


def _is_ours(record: logging.LogRecord) -> bool:
    """Return whether a message of the web server concerns an error of this server, not an invalid request."""
    return not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError))


def is_local(host: str) -> bool:
    """Return whether only this machine can reach a server bound to this host."""
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


def _refused(host: str, port: int, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"{host}:{port}: the port is in use. Choose another with --port N, or any free one with --port 0"
    return f"{host}:{port}: cannot listen at this address ({error.strerror or error})"


def serve(words: Sequence[str], host: str, port: int, announce: Callable[[str], object]) -> None:
    """Serve a command until a signal ends it; see `PageServer`."""
    asyncio.run(PageServer(words, host, port).run(announce))
