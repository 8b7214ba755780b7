"""Serve `tokfmt browse --web`: one page per visitor who knows the address, with one process per page.

The pages use textual-serve. The server sends only its terminal, its font and the files in this directory.

A dataset may be private, and any web page can send requests to this machine. Three checks protect it:

- The address holds a secret, without which a request gets no page.
- The Host header must name this server, against DNS rebinding: a name of an attacker that points to this machine.
- The Origin header of a websocket must be that of a page of this server.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import ipaddress
import logging
import os
import secrets
import signal
import socket
from asyncio.subprocess import PIPE, Process
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any
from urllib.parse import urlsplit

from aiohttp import web
from textual_serve.app_service import AppService
from textual_serve.server import Server

from tokfmt.core.errors import ConversionError
from tokfmt.tui.signals import LIFELINE

LEAVE = 1.5
"""Seconds for a process to quit on request, and again after SIGTERM; then it gets SIGKILL."""


class Child(AppService):
    """The process of one page.

    Args:
        words: The command line.
        channel: Arguments of textual-serve: how to write, how to close, downloads.
    """

    def __init__(self, words: Sequence[str], **channel: Any) -> None:
        super().__init__(" ".join(words), **channel)
        self._words = words
        self._line = -1
        self._starting, self._ending = asyncio.Lock(), False
        self._end: asyncio.Task[None] | None = None

    async def start(self, width: int, height: int) -> None:
        async with self._starting:
            if not self._ending:
                await super().start(width, height)

    async def _open_app_process(self, width: int = 80, height: int = 24) -> Process:
        end, self._line = os.pipe()
        try:
            process = await asyncio.create_subprocess_exec(
                *self._words,
                stdin=PIPE,
                stdout=PIPE,
                stderr=PIPE,
                env={**self._build_environment(width, height), LIFELINE: str(end)},
                start_new_session=True,
                pass_fds=(end,),
            )
        finally:
            os.close(end)
        self._process, self._stdin = process, process.stdin
        return process

    async def run(self) -> None:
        await super().run()
        await self.remote_close()  # a process that failed did not close the page

    async def stop(self) -> None:
        """End the process and its children. Return when all have ended; further calls do nothing."""
        self._ending = True
        self._end = self._end or asyncio.create_task(self._stopped())
        await asyncio.shield(self._end)

    async def _stopped(self) -> None:
        async with self._starting:
            pass
        process = self._process
        if process is None:
            return
        await self._download_manager.cancel_app_downloads(app_service_id=self.app_service_id)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.send_meta({"type": "quit"}), LEAVE)
        if not await _ended(process):
            self._signal(process, signal.SIGTERM)
            await _ended(process)
        self._signal(process, signal.SIGKILL)  # the rest of the process group
        await process.wait()
        os.close(self._line)
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _signal(self, process: Process, number: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)


async def _ended(process: Process) -> bool:
    """Wait for the process for `LEAVE` seconds; return whether it ended."""
    try:
        await asyncio.wait_for(process.wait(), LEAVE)
    except TimeoutError:
        return False
    return True


LOCAL = frozenset({"localhost", "127.0.0.1", "::1"})


def _address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None


def names_here() -> frozenset[str]:
    """Return the names of this machine, short and full. May ask a name server."""
    return frozenset({socket.gethostname().lower(), socket.getfqdn().lower()})


def is_local(host: str) -> bool:
    """Return whether only this machine can reach a server bound to this host."""
    address = _address(host)
    return host == "localhost" or (address is not None and address.is_loopback)


@dataclass(frozen=True, slots=True)
class Guard:
    """The checks of requests to a server.

    Attributes:
        host: The host that the server is bound to.
        secret: The secret in the address.
        names: Names of this machine, if other machines can reach the server.
    """

    host: str
    secret: str = field(default_factory=lambda: secrets.token_urlsafe(16))
    names: frozenset[str] = frozenset()

    def knows(self, secret: str) -> bool:
        """Return whether the secret of an address is right."""
        return secrets.compare_digest(secret.encode("utf-8", "replace"), self.secret.encode())

    def is_ours(self, host: str, reached: str = "") -> bool:
        """Return whether a Host header names this server.

        Args:
            host: The header.
            reached: The address of this machine that received the request.
        """
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        if name in LOCAL or name == self.host.lower():
            return True
        if is_local(self.host) or not name:
            return False
        address = _address(name)
        return name in self.names if address is None else address == _address(reached.partition("%")[0])

    def is_own_page(self, origin: str | None, host: str) -> bool:
        """Return whether the Origin header of a websocket, which every web browser sends, names a page of this Host."""
        try:
            return origin is not None and urlsplit(origin).netloc == host != ""
        except ValueError:
            return False


MOST = 16
"""Limit of open pages, each of which is a process."""

STRANGERS = 32
"""Limit of connections without a request that has the secret."""

_PAUSE = 0.2  # seconds between two checks of these connections

GRACE = 2.0
"""Seconds for unfinished responses when the server ends."""

_FILES = {
    "": ("page.html", "text/html"),
    "page.js": ("page.js", "text/javascript"),
    "page.css": ("page.css", "text/css"),
}
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class PageServer(Server):
    """Serve the pages of one command.

    Args:
        words: The command line that draws a page.
        host: Host to listen at.
        port: Port to listen at; 0 for any free port.
    """

    def __init__(self, words: Sequence[str], host: str, port: int) -> None:
        super().__init__(" ".join(words), host, port, title="tokfmt browse")
        self.words = words
        self.guard = Guard(host, names=frozenset() if is_local(host) else names_here())
        self.children: set[Child] = set()
        self.closing = False
        self._known: set[object] = set()  # connections that sent the secret

    async def _make_app(self) -> web.Application:
        app = web.Application(middlewares=[self._guarded])
        home = "/{secret}"
        app.add_routes(
            [
                web.get(home + "/{name:|page.js|page.css}", self.handle_file),
                web.get(home + "/ws", self.handle_websocket),
                web.static(f"/{self.guard.secret}/static", self.statics_path),
                web.get("/download/{key}", self.handle_download),  # the key is a secret itself
            ]
        )
        return app

    @web.middleware
    async def _guarded(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        socket = request.transport.get_extra_info("sockname") if request.transport is not None else None
        if not self.guard.is_ours(request.host, str(socket[0]) if socket else ""):
            raise web.HTTPForbidden(text="this server has another address\n")
        if "secret" in request.match_info and not self.guard.knows(request.match_info["secret"]):
            raise web.HTTPNotFound
        if request.protocol is not None:
            self._known.add(request.protocol)
        response = await handler(request)
        if not response.prepared:
            response.headers.update(_HEADERS)
            response.headers["Content-Security-Policy"] = (
                f"default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; font-src 'self'; "
                f"img-src 'self' data:; connect-src 'self' ws://{request.host} wss://{request.host}; "
                "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
            )
        return response

    async def handle_file(self, request: web.Request) -> web.Response:
        """Return the page, its script or its style."""
        name, kind = _FILES[request.match_info["name"]]
        return web.Response(text=files(__package__).joinpath(name).read_text("utf-8"), content_type=kind)

    async def handle_websocket(self, request: web.Request) -> web.WebSocketResponse:
        """Run a process while its page is open."""
        if not self.guard.is_own_page(request.headers.get("Origin"), request.host):
            raise web.HTTPForbidden(text="only pages of this server may connect\n")
        if self.closing or len(self.children) >= MOST:
            raise web.HTTPServiceUnavailable(text=f"at most {MOST} pages at once\n")
        socket = web.WebSocketResponse(heartbeat=15, max_msg_size=1 << 20)
        child = Child(
            self.words,
            write_bytes=socket.send_bytes,
            write_str=socket.send_str,
            close=socket.close,
            download_manager=self.download_manager,
        )
        self.children.add(child)
        try:
            await socket.prepare(request)
            await child.start(_size(request, "width", 80), _size(request, "height", 24))
            await self._process_messages(socket, child)
        finally:
            await child.stop()
            self.children.discard(child)
        return socket

    async def end(self) -> None:
        """End all processes, and start no more."""
        self.closing = True
        await asyncio.gather(*(child.stop() for child in self.children))

    async def run(self, announce: Callable[[str], object]) -> None:
        """Serve until a signal arrives.

        Args:
            announce: Called with the address when the server is ready.

        Raises:
            ConversionError: The port is in use, or the host is invalid.
        """
        stop = asyncio.Event()
        for number in _SIGNALS:
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        runner = web.AppRunner(await self._make_app(), handle_signals=False, access_log=None, shutdown_timeout=GRACE)
        await runner.setup()
        logging.getLogger("aiohttp.server").addHandler(logging.NullHandler())
        logging.getLogger("aiohttp.server").propagate = False  # else invalid requests fill the terminal
        keeper = asyncio.create_task(self._keep_few(runner))
        try:
            await web.TCPSite(runner, self.host, self.port).start()
            announce(self._url(runner.addresses[0][1]))
            await stop.wait()
        except OSError as error:
            raise ConversionError(_refused(self.host, self.port, error)) from error
        finally:
            keeper.cancel()
            await self.end()
            await runner.cleanup()

    async def _keep_few(self, runner: web.AppRunner) -> None:
        """Close the oldest connections without the secret if there are more than `STRANGERS`."""
        while True:
            await asyncio.sleep(_PAUSE)
            held = runner.server.connections if runner.server else []
            self._known.intersection_update(held)
            unknown = [one for one in held if one not in self._known]
            for one in unknown[: max(0, len(unknown) - STRANGERS)]:
                one.force_close()
                if one.transport is not None:
                    one.transport.close()

    def _url(self, port: int) -> str:
        from socket import gethostname

        name = self.host if self.host not in ("0.0.0.0", "::", "") else gethostname()  # noqa: S104 - only compared
        return f"http://{f'[{name}]' if ':' in name else name}:{port}/{self.guard.secret}/"


def _size(request: web.Request, name: str, default: int) -> int:
    text = request.query.get(name, "")
    return max(20, min(1000, int(text))) if text.isascii() and text.isdecimal() and len(text) < 6 else default


def _refused(host: str, port: int, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"{host}:{port}: the port is in use. Choose another with --port N, or any free one with --port 0"
    return f"{host}:{port}: cannot listen at this address ({error.strerror or error})"


def serve(words: Sequence[str], host: str, port: int, announce: Callable[[str], object]) -> None:
    """Serve a command until SIGINT, SIGTERM or SIGHUP; its processes end with the server."""
    asyncio.run(PageServer(words, host, port).run(announce))
