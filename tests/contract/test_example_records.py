"""The example of a format that is not flat: a plug-in whose records are ids, and not JSON lines."""

import gzip
import json
import struct

import tokfmt_reel

from tokfmt.testing import FormatContract


class TestReel(FormatContract):
    format = tokfmt_reel.FORMAT
    filename = "x.reels"
    max_id = 2**32 - 1
    sharded = {"shard_size": 1}
    checksummed = accounted = True
    write_variants = [{}, {"shard_size": 16}]

    def oracle(self, path, options):
        found = []
        for number, (sequences, _) in enumerate(json.loads((path / "reel.json").read_text())["shards"]):
            raw = gzip.decompress((path / f"{number:05d}.reel").read_bytes())
            at = 0
            for _ in range(sequences):
                (length,) = struct.unpack_from("<I", raw, at)
                found.append(list(struct.unpack_from(f"<{length}I", raw, at + 4)))
                at += 4 * (length + 1)
            assert at == len(raw)
        return found
