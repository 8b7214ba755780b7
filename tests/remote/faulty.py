"""A server on 127.0.0.1 that serves a folder as S3 (path style) and as a web site, with faults on request.

`/BUCKET/KEY` is an object of S3: GET with ranges and If-Match, HEAD, lists of version 2, PUT with If-None-Match and
If-Match, uploads in parts, and DELETE. `/web/KEY` is a page without lists. Every request is recorded. A fault of a key
is used up by one request of its body; that of a write is at `METHOD KEY`, where the METHOD is PUT, PART3 (the third
part), BEGIN, COMPLETE, ABORT or DELETE.
"""

from __future__ import annotations

import re
import secrets
import socket
import struct
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape, unescape

from xxhash import xxh3_128_hexdigest

PAGE = 1000  # Keys that S3 lists at once.


def _tag(content):
    return f'"{xxh3_128_hexdigest(content)}"'


class Seen(NamedTuple):
    """A request: its method (LIST for a list), its key or prefix, the range of bytes that it asks for, and its headers in lower case."""

    method: str
    key: str
    start: int | None
    stop: int | None
    headers: dict[str, str]


class Faulty(ThreadingHTTPServer):
    """The server.

    Attributes:
        home: The folder with a directory for each bucket.
        seen: The requests, in the order in which they came.
        faults: Faults of each key that are not used up; `forever` has those that never are.
        delay: Seconds before every answer.
        rounds: The largest number of GETs and lists each of which came after the answer to the one before.
        parts: The key and the parts of each upload that is neither complete nor aborted.
        odd: Keys of empty objects that no file has, by bucket: they cannot be names of files.
        conditions: The conditions of writes that are known; others are answered by 501.
        ignores: Conditions of writes are ignored.
        before: Called with the method and the key of each write before it is done; `after`, before it is answered.
    """

    daemon_threads = True
    request_queue_size = 256

    def __init__(self, home: Path) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.home, self.delay = home, 0.0
        self.seen: list[Seen] = []
        self.faults: dict[str, list[str]] = defaultdict(list)
        self.forever: dict[str, str] = {}
        self.region, self.redirect = "", ""
        self.rounds = self.answered = 0
        self.anonymous, self.refused = True, False
        self.parts: dict[str, tuple[str, dict[int, bytes]]] = {}
        self.odd: dict[str, list[str]] = {}
        self.conditions, self.ignores = {"If-Match", "If-None-Match"}, False
        self.before: Callable[[str, str], object] = lambda method, key: None
        self.after: Callable[[str, str], object] = lambda method, key: None
        self.let_go = threading.Event()
        self.lock = threading.Lock()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def fault(self, key: str) -> str:
        with self.lock:
            if key in self.forever:
                return self.forever[key]
            return self.faults[key].pop(0) if self.faults.get(key) else ""

    def bodies(self, key: str | None = None) -> list[Seen]:
        """The requests for bytes of objects."""
        return [one for one in self.seen if one.method == "GET" and one.key and key in (None, one.key)]

    def handle_error(self, request, client_address):  # A client that leaves in the middle of a body is no news.
        pass


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Faulty

    def log_message(self, *_):
        pass

    def do_HEAD(self):
        self.answer(body=False)

    def do_GET(self):
        with self.server.lock:
            self.server.rounds = max(self.server.rounds, number := self.server.answered + 1)
        self.answer(body=True)
        with self.server.lock:
            self.server.answered = max(self.server.answered, number)

    def do_PUT(self):
        self.written()

    def do_POST(self):
        self.written()

    def do_DELETE(self):
        self.written()

    def written(self):
        """Answer a request that writes."""
        url = urlsplit(self.path)
        key, query = unquote(url.path).strip("/"), parse_qs(url.query, keep_blank_values=True)
        content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if "delete" in query:
            return self.deleted(key, content)
        upload = query.get("uploadId", [""])[0]
        method = self.command
        if upload or "uploads" in query:
            number = query.get("partNumber", [""])[0]
            method = {"PUT": f"PART{number}", "DELETE": "ABORT"}.get(method, "COMPLETE" if upload else "BEGIN")
        headers = {name.lower(): value for name, value in self.headers.items()}
        with self.server.lock:
            self.server.seen.append(Seen(method, key, None, len(content), headers))
        time.sleep(self.server.delay)
        self.server.before(method, key)
        if self.server.refused or (not self.server.anonymous and "authorization" not in headers):
            return self.refuse(403, "AccessDenied", "planted-secret-in-a-body")
        if not (self.server.home / key.partition("/")[0]).is_dir():
            return self.refuse(404, "NoSuchBucket")
        fault = self.server.fault(f"{method} {key}")
        if fault == "stalled":
            return self.stall()
        if fault.isdigit():
            return self.refuse(int(fault), {"503": "SlowDown"}.get(fault, "InternalError"))
        answer = self.take(method, key, upload, content)
        self.server.after(method, key)
        if fault == "reset":  # The answer is lost, and what was asked for is done.
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.close_connection = True
            return self.connection.close()
        if fault == "no tag":
            return self.sent(200, {"Content-Length": "0"}, b"")
        if fault == "wrong tag":
            return self.sent(200, {"Content-Length": "0", "ETag": _tag(b"another")}, b"")
        return answer()

    def deleted(self, bucket, content):
        """Answer a request that deletes several objects; each is recorded as a DELETE."""
        keys = [f"{bucket}/{unescape(key)}" for key in re.findall("<Key>(.*?)</Key>", content.decode())]
        for key in keys:
            with self.server.lock:
                self.server.seen.append(Seen("DELETE", key, None, None, {}))
            self.server.before("DELETE", key)
            if self.server.refused:
                return self.refuse(403, "AccessDenied", "planted-secret-in-a-body")
            if (fault := self.server.fault(f"DELETE {key}")).isdigit():
                return self.refuse(int(fault), "InternalError")
            (self.server.home / key).unlink(missing_ok=True)
        rows = "".join(f"<Deleted><Key>{escape(key.partition('/')[2])}</Key></Deleted>" for key in keys)
        return self.told(f"<DeleteResult>{rows}</DeleteResult>")

    def take(self, method, key, upload, content):
        """Do what a request asks for, and return the function that answers it."""
        with self.server.lock:
            path, uploads = self.server.home / key, self.server.parts
            if upload and (upload not in uploads or uploads[upload][0] != key):
                return partial(self.refuse, 404, "NoSuchUpload")
            if method == "BEGIN":
                upload = f"upload-{len(self.server.seen)}"
                uploads[upload] = key, {}
                return partial(self.told, f"<InitiateMultipartUploadResult><UploadId>{upload}</UploadId>"
                               "</InitiateMultipartUploadResult>")  # fmt: skip
            if method.startswith("PART"):
                uploads[upload][1][int(method[4:])] = content
                return partial(self.sent, 200, {"Content-Length": "0", "ETag": _tag(content)}, b"")
            if method == "ABORT":
                del uploads[upload]
                return partial(self.sent, 204, {}, b"")
            if method == "COMPLETE":
                content = b"".join(part for _, part in sorted(uploads.pop(upload)[1].items()))
            else:
                tag = _tag(path.read_bytes()) if path.is_file() else None
                match, absent = self.headers.get("If-Match"), self.headers.get("If-None-Match")
                match, absent = (None, None) if self.server.ignores else (match, absent)
                asked = {name for name, value in (("If-Match", match), ("If-None-Match", absent)) if value}
                if not asked <= self.server.conditions:
                    return partial(self.refuse, 501, "NotImplemented")
                if (absent and tag) or (match and match != tag):
                    return partial(self.refuse, 412, "PreconditionFailed")
            path.parent.mkdir(parents=True, exist_ok=True)
            staged = self.server.home.parent / f"{secrets.token_hex(8)}.staged"
            staged.write_bytes(content)
            staged.replace(path)  # as in a store, an object is there whole or not at all
            if method == "COMPLETE":
                return partial(self.told, f"<CompleteMultipartUploadResult><ETag>{escape(_tag(content))}</ETag>"
                               "</CompleteMultipartUploadResult>")  # fmt: skip
            return partial(self.sent, 200, {"Content-Length": "0", "ETag": _tag(content)}, b"")

    def told(self, text):
        content = f'<?xml version="1.0"?>{text}'.encode()
        self.sent(200, {"Content-Type": "application/xml", "Content-Length": str(len(content))}, content)

    def answer(self, *, body):
        url = urlsplit(self.path)
        key, query = unquote(url.path).strip("/"), parse_qs(url.query)
        start, stop = self.asked()
        headers = {name.lower(): value for name, value in self.headers.items()}
        listed = "list-type" in query
        asked = f"{key}/{query.get('prefix', [''])[0]}" if listed else key
        with self.server.lock:
            self.server.seen.append(Seen("LIST" if listed else self.command, asked, start, stop, headers))
        time.sleep(self.server.delay)
        if self.server.refused or (not self.server.anonymous and "authorization" not in headers):
            return self.refuse(403, "AccessDenied", "planted-secret-in-a-body")
        signed = headers.get("authorization", "")
        if self.server.region and signed and f"/{self.server.region}/s3" not in signed:
            return self.refuse(400, "AuthorizationHeaderMalformed")
        if listed:
            return self.list(key, query)
        path = self.server.home / key
        if not path.is_file():
            return self.refuse(
                404, "NoSuchKey" if (self.server.home / key.partition("/")[0]).is_dir() else "NoSuchBucket"
            )
        return self.object(key, path.read_bytes(), start, stop, body=body)

    def asked(self):
        given = self.headers.get("Range", "")
        if not given.startswith("bytes="):
            return None, None
        first, _, last = given[6:].partition("-")
        return int(first or 0), int(last) + 1 if last else None

    def object(self, key, content, start, stop, *, body):
        fault = self.server.fault(key) if body else ""
        tag = _tag(content)
        wanted = self.headers.get("If-Match")
        if wanted not in (None, tag) or fault == "changed":
            return self.refuse(412, "PreconditionFailed")
        if fault in ("500", "503", "429"):
            return self.refuse(int(fault), {"503": "SlowDown"}.get(fault, "InternalError"))
        if fault in ("301", "302"):
            return self.sent(302, {"Location": self.server.redirect, "Content-Length": "0"}, b"")
        if fault == "stalled head":
            return self.stall()
        if start is not None and start >= len(content):
            return self.refuse(416, "InvalidRange")
        status, (first, last) = (
            (200, (0, len(content))) if start is None else (206, (start, min(stop or len(content), len(content))))
        )
        if fault == "no range":
            status, first, last = 200, 0, len(content)
        part = content[first:last]
        headers = {"Content-Length": str(len(part)), "ETag": tag, "Last-Modified": "Tue, 24 Nov 2026 12:00:00 GMT",
                   "Accept-Ranges": "bytes"}  # fmt: skip
        if fault == "no tag":
            del headers["ETag"]
        if fault == "weak tag":
            headers["ETag"] = f"W/{tag}"
        if status == 206:
            headers["Content-Range"] = f"bytes {first}-{last - 1}/{len(content)}"
        if fault == "short":
            part = part[: len(part) // 2]
            headers |= {
                "Content-Length": str(len(part)),
                "Content-Range": f"bytes {first}-{first + len(part) - 1}/{len(content)}",
            }
        if fault == "shifted":
            headers["Content-Range"] = f"bytes {first + 1}-{last}/{len(content)}"
        return self.sent(status, headers, part if body else b"", fault)

    def sent(self, status, headers, content, fault=""):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if fault in ("cut", "reset", "stalled body"):
            self.wfile.write(content[: len(content) // 2])
            self.wfile.flush()
            if fault == "stalled body":
                return self.stall()
            if fault == "reset":
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.close_connection = True
            return self.connection.close() if fault == "reset" else None
        self.wfile.write(content)
        return None

    def stall(self):
        self.server.let_go.wait(60)
        self.close_connection = True

    def refuse(self, status, code, secret=""):
        region = f"<Region>{self.server.region}</Region>" if self.server.region else ""
        text = f'<?xml version="1.0"?><Error><Code>{code}</Code><Message>{secret}</Message>{region}</Error>'.encode()
        if self.command == "HEAD":
            text = b""
        more = {"x-amz-bucket-region": self.server.region} if self.server.region else {}
        self.sent(status, {"Content-Length": str(len(text)), "Content-Type": "application/xml", **more}, text)

    def list(self, bucket, query):
        home = self.server.home / bucket
        if not home.is_dir():
            return self.refuse(404, "NoSuchBucket")
        prefix, delimiter = query.get("prefix", [""])[0], query.get("delimiter", [""])[0]
        after = query.get("continuation-token", query.get("start-after", [""]))[0]
        most = int(query.get("max-keys", [PAGE])[0])
        found: dict[str, Path | None] = {}
        files = [(path.relative_to(home).as_posix(), path) for path in home.rglob("*") if path.is_file()]
        for key, path in [*files, *((key, Path("/dev/null")) for key in self.server.odd.get(bucket, ()))]:
            if key.startswith(prefix):
                cut = key.find(delimiter, len(prefix)) if delimiter else -1
                found[key if cut < 0 else key[: cut + 1]] = path if cut < 0 else None
        keys = [key for key in sorted(found) if key > after]
        rows = []
        for key in keys[:most]:
            if (path := found[key]) is None:
                rows.append(f"<CommonPrefixes><Prefix>{escape(key)}</Prefix></CommonPrefixes>")
            else:
                tag = _tag(path.read_bytes()).strip('"')
                rows.append(
                    f"<Contents><Key>{escape(key)}</Key><LastModified>2026-11-24T12:00:00.000Z</LastModified>"
                    f"<ETag>&quot;{tag}&quot;</ETag><Size>{path.stat().st_size}</Size></Contents>"
                )
        cut = len(keys) > most
        more = f"<NextContinuationToken>{escape(keys[most - 1])}</NextContinuationToken>" if cut else ""
        text = (
            f'<?xml version="1.0"?><ListBucketResult><IsTruncated>{str(cut).lower()}</IsTruncated>'
            f"{more}{''.join(rows)}</ListBucketResult>"
        )
        return self.sent(
            200, {"Content-Type": "application/xml", "Content-Length": str(len(text.encode()))}, text.encode()
        )


@contextmanager
def serving(home):
    """Serve a folder until the context ends."""
    server = Faulty(Path(home))
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.let_go.set()
        server.shutdown()
        server.server_close()
        thread.join()
