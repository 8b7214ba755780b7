"""A page for each visitor who knows the address, and a browser's process behind it."""

from __future__ import annotations

import asyncio
import errno
import signal
from collections.abc import Awaitable, Callable, Sequence
from importlib.resources import files

from aiohttp import web
from textual_serve.server import Server

from tokfmt.core.errors import ConversionError
from tokfmt.tui.web.child import Child
from tokfmt.tui.web.guard import Guard

MOST = 16
"""Pages open at once: each is a process."""

GRACE = 2.0
"""Seconds for what is still being sent when the server ends."""

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
    """Serves the pages of one command.

    Args:
        words: The command that draws in place of a terminal.
        host, port: Where to listen; port 0 is any that is free.
    """

    def __init__(self, words: Sequence[str], host: str, port: int) -> None:
        super().__init__(" ".join(words), host, port, title="tokfmt browse")
        self.words, self.guard = words, Guard(host)
        self.children: set[Child] = set()
        self.closing = False

    async def _make_app(self) -> web.Application:
        app = web.Application(middlewares=[self._guarded])
        home = "/{secret}"
        app.add_routes(
            [
                web.get(home + "/{name:|page.js|page.css}", self.handle_file),
                web.get(home + "/ws", self.handle_websocket),
                web.static(f"/{self.guard.secret}/static", self.statics_path),
                web.get("/download/{key}", self.handle_download),  # the key is as good as the secret
            ]
        )
        return app

    @web.middleware
    async def _guarded(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if not self.guard.is_ours(request.host):
            raise web.HTTPForbidden(text="this address is not of this server\n")
        if "secret" in request.match_info and not self.guard.knows(request.match_info["secret"]):
            raise web.HTTPNotFound
        response = await handler(request)
        if not response.prepared:
            response.headers.update(_HEADERS)
            response.headers["Content-Security-Policy"] = (
                f"default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; font-src 'self'; "
                f"img-src 'self' data:; connect-src 'self' ws://{request.host}; "
                "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
            )
        return response

    async def handle_file(self, request: web.Request) -> web.Response:
        """The page, or what belongs to it."""
        name, kind = _FILES[request.match_info["name"]]
        return web.Response(text=files(__package__).joinpath(name).read_text("utf-8"), content_type=kind)

    async def handle_websocket(self, request: web.Request) -> web.WebSocketResponse:
        """Run a browser for as long as a page is open."""
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
        """End every process there is, and let no more begin."""
        self.closing = True
        await asyncio.gather(*(child.stop() for child in self.children))

    async def run(self, announce: Callable[[str], object]) -> None:
        """Serve until a signal comes.

        Args:
            announce: Told the address when it can be visited.

        Raises:
            ConversionError: The port is taken, or the host is none.
        """
        stop = asyncio.Event()
        for number in _SIGNALS:
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        runner = web.AppRunner(await self._make_app(), handle_signals=False, access_log=None, shutdown_timeout=GRACE)
        await runner.setup()
        try:
            await web.TCPSite(runner, self.host, self.port).start()
            announce(self._url(runner.addresses[0][1]))
            await stop.wait()
        except OSError as error:
            raise ConversionError(_refused(self.host, self.port, error)) from error
        finally:
            await self.end()
            await runner.cleanup()

    def _url(self, port: int) -> str:
        from socket import gethostname

        name = self.host if self.host not in ("0.0.0.0", "::", "") else gethostname()  # noqa: S104 - as it was given
        return f"http://{f'[{name}]' if ':' in name else name}:{port}/{self.guard.secret}/"


def _size(request: web.Request, name: str, default: int) -> int:
    text = request.query.get(name, "")
    return max(20, min(1000, int(text))) if text.isascii() and text.isdecimal() and len(text) < 6 else default


def _refused(host: str, port: int, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"{host}:{port}: the port is taken. --port N takes another, --port 0 any that is free"
    return f"{host}:{port}: cannot listen there ({error.strerror or error})"


def serve(words: Sequence[str], host: str, port: int, announce: Callable[[str], object]) -> None:
    """Serve a command until SIGINT, SIGTERM or SIGHUP; its processes end with it."""
    asyncio.run(PageServer(words, host, port).run(announce))
