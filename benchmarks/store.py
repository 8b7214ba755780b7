"""python -m benchmarks.store FOLDER DELAY: serve a folder as a store of the protocol of S3, every answer after DELAY seconds.

It runs in a process of its own, so that its time is nobody's. It prints its address. GET of objects with ranges and If-Match,
HEAD, PUT at once and in parts of 16 MiB, DELETE, and lists of version 2 with a delimiter. `GET /-/` answers with what it was asked since the last time: a JSON list of
[method, key, start, stop, seconds].
"""

import asyncio
import json
import os
import re
import subprocess
import sys
import time
import urllib.request
from bisect import bisect_right
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape, unescape

PAGE = 1000  # keys of a list, as S3 has
PART = 16 << 20


class Server(asyncio.Protocol):
    asked, keys = [], {}
    home, delay, began = "", 0.0, time.monotonic()

    def connection_made(self, transport):
        self.transport, self.text, self.work = transport, bytearray(), None
        self.head, self.length = None, 0
        transport.set_write_buffer_limits(1 << 22)

    def data_received(self, data):
        self.text += data
        while self.head is not None or (end := self.text.find(b"\r\n\r\n")) >= 0:
            if self.head is None:
                self.head = self.text[:end].decode("latin-1").split("\r\n")
                del self.text[: end + 4]
                length = next((line for line in self.head if line.lower().startswith("content-length:")), ":0")
                self.length = int(length.partition(":")[2])
            if len(self.text) < self.length:
                return
            head, self.head, body = self.head, None, bytes(self.text[: self.length])
            del self.text[: self.length]
            self.work = asyncio.ensure_future(self.answer(head, body, self.work))

    async def answer(self, head, body, before):
        if before is not None:
            await before
        first, *lines = head
        method, target, _ = first.split(" ")
        headers = dict((name.lower(), value.strip()) for name, _, value in (line.partition(":") for line in lines))
        url = urlsplit(target)
        key, query = unquote(url.path).strip("/"), parse_qs(url.query)
        start, stop = None, None
        if (given := headers.get("range", "")).startswith("bytes="):
            low, _, high = given[6:].partition("-")
            start, stop = int(low), int(high) + 1 if high else None
        if key == "-":
            told, Server.asked = json.dumps(Server.asked).encode(), []
            return self.send(200, {}, told)
        listed = "list-type" in query
        Server.asked.append(["LIST" if listed else method, key, start, stop, round(time.monotonic() - self.began, 4)])
        await asyncio.sleep(self.delay)
        if listed:
            return self.send(200, {"Content-Type": "application/xml"}, self.list(key, query))
        path = os.path.join(self.home, key)
        if method in ("PUT", "POST", "DELETE"):
            return self.write(method, path, parse_qs(url.query, keep_blank_values=True), headers, body)
        if not os.path.isfile(path):
            return self.send(404, {}, b"<Error><Code>NoSuchKey</Code></Error>" if method == "GET" else b"")
        with open(path, "rb") as file:
            status = os.fstat(file.fileno())
            tag = tag_of(status)
            if headers.get("if-match", tag) != tag:
                return self.send(412, {}, b"")
            about = {"ETag": tag, "Last-Modified": "Tue, 24 Nov 2026 12:00:00 GMT", "Accept-Ranges": "bytes"}
            code, low, high = 200, 0, status.st_size
            if start is not None:
                if start >= status.st_size:
                    return self.send(416, {}, b"")
                code, low, high = 206, start, min(stop or status.st_size, status.st_size)
                about["Content-Range"] = f"bytes {low}-{high - 1}/{status.st_size}"
            self.send(code, about, b"", high - low)
            if method == "GET":
                await asyncio.get_running_loop().sendfile(self.transport, file, low, high - low)

    def write(self, method, path, query, headers, body):
        """Objects, and those in parts: each part is written at its place in the file when it comes."""
        draft, number = f"{path}.draft", int(query.get("partNumber", ["0"])[0])
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if "delete" in query:
            keys = [unescape(key) for key in re.findall("<Key>(.*?)</Key>", body.decode())]
            for key in keys:
                Path(path, key).unlink(missing_ok=True)
            rows = "".join(f"<Deleted><Key>{escape(key)}</Key></Deleted>" for key in keys)
            told = f'<?xml version="1.0"?><DeleteResult>{rows}</DeleteResult>'
            return self.send(200, {"Content-Type": "application/xml"}, told.encode())
        if "uploads" in query:
            Path(draft).touch()
            return self.send(
                200, {}, b"<InitiateMultipartUploadResult><UploadId>1</UploadId></InitiateMultipartUploadResult>"
            )
        if number:
            with open(draft, "r+b") as file:
                file.seek((number - 1) * PART)
                file.write(body)
            return self.send(200, {"ETag": f'"{number}"'}, b"")
        if "uploadId" in query:
            os.replace(draft, path)
            tag = escape(tag_of(os.stat(path)), {chr(34): "&quot;"})
            told = f"<CompleteMultipartUploadResult><ETag>{tag}</ETag></CompleteMultipartUploadResult>"
            return self.send(200, {}, told.encode())
        if method == "PUT":
            if "if-none-match" in headers and os.path.exists(path):
                return self.send(412, {}, b"<Error><Code>PreconditionFailed</Code></Error>")
            Path(path).write_bytes(body)
            return self.send(200, {"ETag": tag_of(os.stat(path))}, b"")
        Path(path).unlink(missing_ok=True)
        return self.send(204, {}, b"")

    def send(self, status, headers, content, length=None):
        lines = [f"HTTP/1.1 {status} -", f"Content-Length: {len(content) if length is None else length}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        self.transport.write("\r\n".join([*lines, "", ""]).encode() + content)

    def list(self, bucket, query):
        prefix, delimiter = query.get("prefix", [""])[0], query.get("delimiter", [""])[0]
        after = query.get("continuation-token", query.get("start-after", [""]))[0]
        most, home = int(query.get("max-keys", [PAGE])[0]), Path(self.home, bucket)
        above = home / prefix.rpartition("/")[0]
        found = {}
        if delimiter:
            for entry in os.scandir(above) if above.is_dir() else ():
                name = os.path.relpath(entry.path, home) + ("/" if entry.is_dir() else "")
                found[name] = None if entry.is_dir() else entry
        else:  # A store has its keys in order; to find them here takes longer than the delay, so it is done once.
            if bucket not in self.keys:
                self.keys[bucket] = sorted(str(path.relative_to(home)) for path in home.rglob("*") if path.is_file())
            first = bisect_right(self.keys[bucket], after)
            found = {key: home / key for key in self.keys[bucket][first : first + 2 * most]}
        keys = sorted(key for key in found if key.startswith(prefix) and key > after)
        rows = []
        for key in keys[:most]:
            if (path := found[key]) is None:
                rows.append(f"<CommonPrefixes><Prefix>{escape(key)}</Prefix></CommonPrefixes>")
                continue
            status = path.stat()
            rows.append(
                f"<Contents><Key>{escape(key)}</Key><LastModified>2026-11-24T12:00:00.000Z</LastModified>"
                f"<ETag>{escape(tag_of(status), {chr(34): '&quot;'})}</ETag><Size>{status.st_size}</Size></Contents>"
            )
        cut = len(keys) > most
        more = f"<NextContinuationToken>{escape(keys[most - 1])}</NextContinuationToken>" if cut else ""
        return (
            f'<?xml version="1.0"?><ListBucketResult><IsTruncated>{str(cut).lower()}</IsTruncated>'
            f"{more}{''.join(rows)}</ListBucketResult>"
        ).encode()


def tag_of(status):
    return f'"{status.st_mtime_ns:x}-{status.st_size:x}"'


async def serve(home, delay):
    Server.home, Server.delay = home, delay
    server = await asyncio.get_running_loop().create_server(Server, "127.0.0.1", 0, backlog=256)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await asyncio.get_running_loop().connect_read_pipe(Ending, sys.stdin)  # ends with the process that started it
    await server.serve_forever()


class Ending(asyncio.Protocol):
    def connection_lost(self, _error):
        os._exit(0)


@contextmanager
def store(home, delay=0.03):
    """A server of a folder, each directory of which is a bucket; its address."""
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.store", str(home), str(delay)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        text=True, cwd=Path(__file__).resolve().parents[1],
    )  # fmt: skip
    try:
        yield process.stdout.readline().strip()
    finally:
        process.stdin.close()
        process.stdout.close()
        process.wait()


def asked(address):
    """What the server was asked since the last time."""
    return json.load(urllib.request.urlopen(f"{address}/-/"))


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], float(sys.argv[2])))
