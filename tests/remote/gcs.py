"""A Google Cloud Storage in memory on 127.0.0.1, with the requests of its XML interface that obstore sends.

Objects are read by ranges and with `If-Match`, listed by prefix and delimiter, written whole or in parts, also under the
condition of a generation (0: only if there is none), and deleted. No registry has a server of this interface that lists
and writes in parts.
"""

from __future__ import annotations

import hashlib
import re
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from typing import NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit
from xml.sax.saxutils import escape

PAGE = 1000  # Keys that are listed at once.


class Held(NamedTuple):
    """An object: its bytes, and the generation that its last write gave it."""

    content: bytes
    generation: int

    @property
    def tag(self):
        return f'"{hashlib.md5(self.content).hexdigest()}"'


class Gcs(ThreadingHTTPServer):
    """The server.

    Attributes:
        buckets: The objects of each bucket, by key.
        uploads: The parts of each upload that is not completed.
        tokens: Bearer tokens that are accepted; None accepts requests without one.
    """

    daemon_threads = True
    request_queue_size = 256

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.buckets: dict[str, dict[str, Held]] = {}
        self.uploads: dict[str, dict[int, bytes]] = {}
        self.tokens: set[str] | None = None
        self.numbers, self.lock = count(1), threading.Lock()

    @property
    def endpoint(self):
        return f"http://127.0.0.1:{self.server_port}"

    def make_bucket(self, bucket):
        self.buckets[bucket] = {}

    def put(self, bucket, key, content):
        self.buckets[bucket][key] = Held(content, next(self.numbers))


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Gcs

    def log_message(self, *_):
        pass

    def __getattr__(self, name):
        if name.startswith("do_"):
            return self.answer
        raise AttributeError(name)

    def answer(self):
        url = urlsplit(self.path)
        self.query = dict(parse_qsl(url.query, keep_blank_values=True))
        self.body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.bucket, _, self.key = unquote(url.path).strip("/").partition("/")
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        if self.server.tokens is not None and token not in self.server.tokens:
            return self.refuse(403 if token else 401, "AccessDenied")
        if self.bucket not in self.server.buckets:
            return self.refuse(404, "NoSuchBucket")
        with self.server.lock:
            if not self.key:
                return self.list()
            of_upload = "_upload" if {"uploads", "uploadId"} & self.query.keys() else ""
            return getattr(self, f"{self.command.lower()}{of_upload}")()

    def get(self):
        held = self.held.get(self.key)
        if held is None:
            return self.refuse(404, "NoSuchKey")
        if self.headers.get("If-Match", held.tag) != held.tag:
            return self.refuse(412, "PreconditionFailed")
        size, headers = len(held.content), {**self.stamp(held), "Last-Modified": "Tue, 24 Nov 2026 12:00:00 GMT"}
        if not (asked := re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))):
            return self.sent(200, held.content, **headers)
        first, last = int(asked[1]), min(int(asked[2] or size), size - 1)
        if first >= size:
            return self.refuse(416, "InvalidRange")
        return self.sent(
            206, held.content[first : last + 1], **headers, **{"Content-Range": f"bytes {first}-{last}/{size}"}
        )

    head = get

    def put(self):
        return self.store(self.body)

    def delete(self):
        if self.held.pop(self.key, None) is None:
            return self.refuse(404, "NoSuchKey")
        return self.sent(204)

    def post_upload(self):
        """Begin an upload, or complete it with the parts that the body names."""
        if "uploads" in self.query:
            upload = f"upload-{next(self.server.numbers)}"
            self.server.uploads[upload] = {}
            return self.xml(
                f"<InitiateMultipartUploadResult><UploadId>{upload}</UploadId></InitiateMultipartUploadResult>"
            )
        parts = self.server.uploads.pop(self.query["uploadId"])
        named = [int(number) for number in re.findall(rb"<PartNumber>(\d+)</PartNumber>", self.body)]
        return self.store(b"".join(parts[number] for number in named), xml="CompleteMultipartUploadResult")

    def put_upload(self):
        self.server.uploads[self.query["uploadId"]][int(self.query["partNumber"])] = self.body
        return self.sent(200, ETag=f'"{hashlib.md5(self.body).hexdigest()}"')

    def delete_upload(self):
        self.server.uploads.pop(self.query["uploadId"], None)
        return self.sent(204)

    def list(self):
        prefix, delimiter = self.query.get("prefix", ""), self.query.get("delimiter", "")
        after = self.query.get("continuation-token", self.query.get("start-after", ""))
        found: dict[str, Held | None] = {}
        for key, held in self.held.items():
            if key.startswith(prefix):
                cut = key.find(delimiter, len(prefix)) if delimiter else -1
                found[key if cut < 0 else key[: cut + 1]] = held if cut < 0 else None
        keys = [key for key in sorted(found) if key > after]
        most = int(self.query.get("max-keys", PAGE))
        rows = [self.row(key, found[key]) for key in keys[:most]]
        cut = len(keys) > most
        more = f"<NextContinuationToken>{escape(keys[most - 1])}</NextContinuationToken>" if cut else ""
        return self.xml(
            f"<ListBucketResult><IsTruncated>{str(cut).lower()}</IsTruncated>{more}{''.join(rows)}</ListBucketResult>"
        )

    def row(self, key, held):
        if held is None:
            return f"<CommonPrefixes><Prefix>{escape(key)}</Prefix></CommonPrefixes>"
        return (
            f"<Contents><Key>{escape(key)}</Key><LastModified>2026-11-24T12:00:00.000Z</LastModified>"
            f"<ETag>{escape(held.tag)}</ETag><Size>{len(held.content)}</Size></Contents>"
        )

    @property
    def held(self):
        return self.server.buckets[self.bucket]

    def store(self, content, xml=""):
        """Write an object unless it has another generation than the one that the request names."""
        there = self.held.get(self.key)
        wanted = self.headers.get("x-goog-if-generation-match")
        if wanted is not None and int(wanted) != (there.generation if there else 0):
            return self.refuse(412, "PreconditionFailed")
        self.held[self.key] = held = Held(content, next(self.server.numbers))
        text = f"<{xml}><ETag>{escape(held.tag)}</ETag></{xml}>".encode() if xml else b""
        return self.sent(200, text, **self.stamp(held))

    def stamp(self, held):
        return {"ETag": held.tag, "x-goog-generation": str(held.generation)}

    def xml(self, text, status=200):
        return self.sent(status, f'<?xml version="1.0"?>{text}'.encode(), **{"Content-Type": "application/xml"})

    def refuse(self, status, code):
        return self.xml(f"<Error><Code>{code}</Code></Error>", status)

    def sent(self, status, content=b"", **headers):
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)


@contextmanager
def serving():
    """Serve until the context ends."""
    server = Gcs()
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
