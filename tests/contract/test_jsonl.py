"""jsonl (ids) under the laws of every format; the oracle is json and readlines."""

import gzip
import io
import json

import zstandard

from tokfmt.formats.jsonl import FORMAT
from tokfmt.testing import FormatContract


class TestIds(FormatContract):
    format = FORMAT
    filename = "x.jsonl"
    shard = "{k:05d}.jsonl"
    max_id = 2**32 - 1
    write_variants = ({}, {"ids_field": ".sample.ids"})
    sparse_tokens = 1 << 22

    def read_options(self, options):
        return options

    def opened(self, path):
        return open(path, "rb")

    def oracle(self, path, options):
        found = []
        with self.opened(path) as file:
            for line in file.readlines():
                assert line.endswith(b"\n")
                record = json.loads(line)
                assert line == json.dumps(record).encode() + b"\n"
                for key in options.get("ids_field", "input_ids").lstrip(".").split("."):
                    (record,) = [record[key]]
                found.append(record)
        return found


class TestGzip(TestIds):
    """The same, compressed: bytes do not depend on regions, workers or order here either."""

    filename = "x.jsonl.gz"
    flipped = 24
    checksummed = True
    claims = frozenset({"JSON lines", "JSON"})  # under this name they need not be compressed
    sparse_tokens, peak_bytes = 1 << 20, 80 << 20  # text that is compressed by several threads

    def opened(self, path):
        return gzip.open(path)


class TestZstandard(TestGzip):
    filename = "x.jsonl.zst"

    def opened(self, path):
        return io.BytesIO(zstandard.ZstdDecompressor().stream_reader(path.read_bytes(), read_across_frames=True).read())
