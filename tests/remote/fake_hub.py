"""A Hugging Face Hub on 127.0.0.1: its interface, and a second server with the bytes of large files.

The Hub has repositories as folders `datasets/ORG/NAME` and `models/ORG/NAME`. It lists two files a page, has files of
less than `SMALL` bytes itself, and redirects to the other server for the rest, with a signature that a test may end.
"""

import hashlib
import json
import re
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, quote, unquote, urlsplit

COMMIT, SMALL, PAGE = "c" * 40, 500, 2


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, hub):
        super().__init__(("127.0.0.1", 0), Handler)
        self.hub, self.seen = hub, []

    @property
    def endpoint(self):
        return f"http://127.0.0.1:{self.server_port}"


class Hub:
    """Both servers.

    Attributes:
        token: The token that requests need; "" if none is needed.
        signature: The signature that the server of the bytes accepts now.
        redirect: Where large files are said to be instead.
        hops: How often the Hub redirects a request to itself before it answers.
        size: The smallest size of an answer of its interface, in bytes; spaces fill it.
    """

    def __init__(self, home):
        self.home, self.token, self.signature, self.redirect = Path(home), "", "sig-0", ""
        self.gated, self.revisions = False, {"main": COMMIT, COMMIT: COMMIT}
        self.hops = self.size = 0
        self.site, self.bytes = Server(self), Server(self)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def log_message(self, *_):
        pass

    def do_HEAD(self):
        self.answer()

    def do_GET(self):
        self.answer()

    def answer(self):
        hub, url = self.server.hub, urlsplit(self.path)
        self.server.seen.append(
            (self.command, self.path, {name.title(): value for name, value in self.headers.items()})
        )
        if self.server is hub.bytes:
            if parse_qs(url.query).get("Signature") != [hub.signature]:
                return self.sent(403, b"<Error><Code>AccessDenied</Code></Error>")
            return self.file(hub.home / unquote(url.path).strip("/"))
        done = int(parse_qs(url.query).get("hop", ["0"])[-1])
        if done < hub.hops:
            return self.sent(307, Location=f"{self.path}{'&' if url.query else '?'}hop={done + 1}")
        if hub.token and self.headers.get("Authorization") != f"Bearer {hub.token}":
            return self.sent(401, b"", **{"X-Error-Code": "RepoNotFound"})
        if hub.gated:
            return self.sent(403, b"", **{"X-Error-Code": "GatedRepo"})
        called = re.fullmatch(r"/api/(datasets|models)/([^/]+/[^/]+)/(revision|tree)/([^/]+)(?:/(.*))?", url.path)
        if called:
            return self.interface(*called.groups(), cursor=int(parse_qs(url.query).get("cursor", ["0"])[0]))
        kind, repository, commit, path = re.fullmatch(
            r"/(datasets/)?([^/]+/[^/]+)/resolve/([^/]+)/(.*)", url.path
        ).groups()
        assert commit == COMMIT
        key = f"{kind or 'models/'}{repository}/{unquote(path)}"
        if (hub.home / key).stat().st_size < SMALL:
            return self.file(hub.home / key)
        return self.sent(302, Location=hub.redirect or f"{hub.bytes.endpoint}/{quote(key)}?Signature={hub.signature}")

    def interface(self, kind, repository, what, revision, path, *, cursor):
        home = self.server.hub.home / kind / repository
        if not home.is_dir():
            return self.sent(404, b"", **{"X-Error-Code": "RepoNotFound"})
        commit = self.server.hub.revisions.get(unquote(revision))
        if commit is None:
            return self.sent(404, b"", **{"X-Error-Code": "RevisionNotFound"})
        if what == "revision":
            return self.sent(200, json.dumps({"sha": commit}).encode().ljust(self.server.hub.size))
        folder = home / unquote(path or "")
        if not folder.is_dir():
            return self.sent(404, b"", **{"X-Error-Code": "EntryNotFound"})
        names = sorted(folder.iterdir())
        rows = [
            {
                "type": "directory" if one.is_dir() else "file",
                "path": str(one.relative_to(home)),
                "size": one.stat().st_size,
            }
            for one in names[cursor : cursor + PAGE]
        ]
        more = {}
        if cursor + PAGE < len(names):
            more["Link"] = f'<{self.server.endpoint}{urlsplit(self.path).path}?cursor={cursor + PAGE}>; rel="next"'
        return self.sent(200, json.dumps(rows).encode(), **more)

    def file(self, path):
        content = path.read_bytes()
        asked = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        tag = {"ETag": f'"{hashlib.md5(content).hexdigest()}"'}
        if asked is None:
            return self.sent(200, content, **tag)
        first, last = int(asked[1]), min(int(asked[2]), len(content) - 1)
        return self.sent(
            206, content[first : last + 1], **{"Content-Range": f"bytes {first}-{last}/{len(content)}", **tag}
        )

    def sent(self, status, content=b"", **headers):
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)


@contextmanager
def serving(home):
    """Serve a folder until the context ends."""
    hub = Hub(home)
    threads = [threading.Thread(target=one.serve_forever, args=(0.02,), daemon=True) for one in (hub.site, hub.bytes)]
    for thread in threads:
        thread.start()
    try:
        yield hub
    finally:
        for server, thread in zip((hub.site, hub.bytes), threads):
            server.shutdown()
            server.server_close()
            thread.join()
